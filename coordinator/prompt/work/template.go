package work

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"unicode/utf8"
)

//go:embed *.md
var texts embed.FS

// maxTemplate is the size of a template, in bytes.
const maxTemplate = 64 << 10

// TemplateError says what is wrong with a template of the user's.
type TemplateError struct {
	Path         string
	Line, Column int // from 1; 0 where there is none
	Text, Hint   string
	Err          error
}

// Error is one line: the file, what is wrong, and where.
func (e *TemplateError) Error() string {
	at := ""
	if e.Line > 0 {
		at = fmt.Sprintf(" (line %d)", e.Line)
	}
	if e.Column > 0 {
		at = fmt.Sprintf(" (line %d, column %d)", e.Line, e.Column)
	}
	return fmt.Sprintf("prompt template %q: %s%s", e.Path, e.Text, at)
}

// Unwrap gives the cause.
func (e *TemplateError) Unwrap() error { return e.Err }

// workTemplate is the template of the prompt of a task: the file, or ours.
func workTemplate(path string) (*template.Template, error) {
	if path == "" {
		return ownWork()
	}
	data, err := readTemplate(path)
	if err != nil {
		return nil, err
	}
	t, err := template.New("prompt").Option("missingkey=error").Funcs(workFuncs()).Parse(data)
	if err != nil {
		return nil, templateError(path, err)
	}
	c := typing{path: path, set: t}
	if err := c.check(reflect.TypeFor[Facts]()); err != nil {
		return nil, err
	}
	return t, nil
}

// ownWork is what Ralph brings; it is parsed when it is first needed.
var ownWork = sync.OnceValues(func() (*template.Template, error) {
	data, err := texts.ReadFile("work.md")
	if err != nil {
		return nil, fmt.Errorf("read prompt %q: %w", "work.md", err)
	}
	return template.New("work.md").Option("missingkey=error").Funcs(workFuncs()).Parse(string(data))
})

// Default is the text of the template that Ralph brings, to begin one's own
// with.
func Default() string {
	data, _ := texts.ReadFile("work.md") // embedded under this name: it cannot be missing
	return string(data)
}

func workFuncs() template.FuncMap {
	return template.FuncMap{"fence": Fence, "line": oneLine, "join": strings.Join}
}

// readTemplate reads a file that the user names: text, and never one that would
// not end or keeps its reader waiting.
func readTemplate(path string) (string, error) {
	fail := func(err error, text string) (string, error) {
		return "", &TemplateError{Path: path, Text: text, Err: err, Hint: "the setting prompt names a template of text/template; without it Ralph's own is used"}
	}
	info, err := os.Stat(path)
	var at *os.PathError
	switch {
	case errors.As(err, &at):
		return fail(err, at.Err.Error())
	case err != nil:
		return fail(err, err.Error())
	case info.IsDir():
		return fail(nil, "is a directory")
	case !info.Mode().IsRegular():
		return fail(nil, "is no regular file")
	case info.Size() > maxTemplate:
		return fail(nil, fmt.Sprintf("has %d bytes; %d is the most", info.Size(), maxTemplate))
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err, "cannot be read")
	}
	defer f.Close() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxTemplate+1))
	switch {
	case err != nil:
		return fail(err, "cannot be read")
	case len(data) > maxTemplate:
		return fail(nil, fmt.Sprintf("has more than %d bytes", maxTemplate))
	case !utf8.Valid(data) || strings.ContainsRune(string(data), 0):
		return fail(nil, "is no text")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if strings.TrimSpace(text) == "" {
		return fail(nil, "is empty")
	}
	return text, nil
}

// place finds where in a template text/template's errors point to.
var place = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^template: [^:]*:(\d+)(?::(\d+))?: (?s:(.*))$`)
})

// templateError makes an error of text/template one for the person who wrote
// the template.
func templateError(path string, err error) error {
	var te *TemplateError
	if errors.As(err, &te) {
		return err
	}
	e := &TemplateError{Path: path, Text: err.Error(), Err: err, Hint: "ralph plan prompt --help lists what a template can name"}
	if m := place().FindStringSubmatch(e.Text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		if column, cerr := strconv.Atoi(m[2]); cerr == nil {
			e.Column = column + 1
		}
		e.Text = m[3]
	}
	return e
}

// limited takes a text of bounded size.
type limited struct {
	text strings.Builder
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > l.most {
		return 0, fmt.Errorf("the prompt has more than %d bytes", l.most)
	}
	return l.text.Write(p)
}
