package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"sync"
)

//go:embed page.css
var styles string

//go:embed page.html.tmpl
var source string

// document is parsed when the first page is made: few runs of Ralph make one.
var document = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Parse(source))
})

// Write writes the page, about as large as what it tells: 20 KB to 500 KB. It
// holds no script, nothing in it makes a browser ask for anything, and a policy
// in it forbids both. The error is the writer's; then part of the page may have
// been written.
func Write(w io.Writer, in Input) error {
	if err := document().Execute(w, newView(in)); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
