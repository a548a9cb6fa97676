package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"ralph/workers/agent"
)

//go:embed edit.md
var editDoc string

// The single edit's fields are optional because edits may be given instead.
type editArgs struct {
	Path  string    `json:"path"`
	Old   *string   `json:"old_string,omitempty"`
	New   *string   `json:"new_string,omitempty"`
	All   bool      `json:"replace_all,omitempty"`
	Edits []editArg `json:"edits,omitempty"`
}

type editArg struct {
	Old string `json:"old_string"`
	New string `json:"new_string"`
	All bool   `json:"replace_all,omitempty"`
}

func (b *box) edit() spec {
	return define("edit", editDoc, `{"path":"main.go","old_string":"x := 1","new_string":"x := 2"}`, agent.EffectChange, b.runEdit)
}

func (b *box) runEdit(ctx context.Context, a editArgs) (agent.Result, error) {
	edits, err := a.list()
	if err != nil {
		return agent.Result{}, fmt.Errorf("edit %q: %w", a.Path, err)
	}
	file, err := b.Files.load(ctx, "edit", a.Path, maxChangedBytes)
	if err != nil {
		return agent.Result{}, err
	}
	if file.info == nil {
		return agent.Result{}, &Error{Op: "edit", Path: a.Path, Err: errors.New("the file does not exist"), Hint: "create it with write"}
	}
	before := string(file.data)
	file.data = nil
	t := newEditable(before)
	for i, e := range edits {
		if err := t.apply(ctx, e); err != nil {
			which := ""
			if len(edits) > 1 {
				which = fmt.Sprintf("edit %d of %d: ", i+1, len(edits))
			}
			r := agent.Result{Failed: true, Brief: "no match", Head: fmt.Sprintf("%s: %s%v; nothing was changed", file.path, which, err)}
			if miss, ok := errors.AsType[*missError](err); ok {
				r.Text = miss.help
			}
			return r, nil
		}
	}
	after := t.String()
	if after == before {
		return agent.Result{Failed: true, Head: file.path + ": the edits leave the file as it is", Brief: "unchanged"}, nil
	}
	if err := ctx.Err(); err != nil {
		return agent.Result{}, context.Cause(ctx)
	}
	if err := b.free(file.path); err != nil {
		return agent.Result{}, err
	}
	if err := b.put(ctx, "edit", file, []byte(before), []byte(after)); err != nil {
		return agent.Result{}, err
	}
	if ctx.Err() != nil {
		return agent.Result{Head: "edited " + file.path, Brief: "edited"}, nil
	}
	diff := lineEdits(before, after)
	brief := changes(lineChanges(before, diff))
	shown, _ := visible([]byte(unified(before, diff)))
	text, notice := b.fit("edit", shown)
	return agent.Result{Head: head(fmt.Sprintf("edited %s: %s", file.path, brief), notice), Text: text, Brief: brief}, nil
}

// list brings the two forms of the arguments together and checks them.
func (a editArgs) list() ([]editArg, error) {
	edits := a.Edits
	switch {
	case a.Old != nil && a.New != nil:
		edits = append([]editArg{{Old: *a.Old, New: *a.New, All: a.All}}, edits...)
	case a.Old != nil:
		return nil, errors.New(`missing field "new_string" (to delete text give "")`)
	case a.New != nil:
		return nil, errors.New(`missing field "old_string" (to replace the whole file use write)`)
	}
	if len(edits) == 0 {
		return nil, errors.New(`give old_string and new_string, or edits`)
	}
	for i, e := range edits {
		switch {
		case e.Old == "":
			return nil, fmt.Errorf("edit %d: old_string is empty: quote the text to replace, or create a file with write", i+1)
		case e.Old == e.New:
			return nil, fmt.Errorf("edit %d: old_string and new_string are the same", i+1)
		}
	}
	return edits, nil
}

const bom = "\ufeff"

// editable is the text of a file while it is edited: without its byte order
// mark, and with plain newlines when the file uses CRLF throughout, so that what
// the model quotes from read matches. String gives both back.
type editable struct {
	text      string
	bom, crlf bool
}

func newEditable(data string) *editable {
	t := &editable{}
	t.text, t.bom = strings.CutPrefix(data, bom)
	if n := strings.Count(t.text, "\r\n"); n > 0 && n == strings.Count(t.text, "\n") {
		t.crlf = true
		t.text = strings.ReplaceAll(t.text, "\r\n", "\n")
	}
	return t
}

// String is the text as it goes back into the file.
func (t *editable) String() string {
	s := t.text
	if t.crlf {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	if t.bom {
		s = bom + s
	}
	return s
}

func (t *editable) apply(ctx context.Context, e editArg) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	from, to := e.Old, e.New
	if t.crlf {
		from = strings.ReplaceAll(from, "\r\n", "\n")
		to = strings.ReplaceAll(to, "\r\n", "\n")
	}
	n := strings.Count(t.text, from)
	if n == 0 && !t.crlf && strings.Contains(from, "\n") && !strings.Contains(from, "\r") {
		// A file of both kinds of line ends: the quoted lines may be its CRLF ones.
		if crlf := strings.ReplaceAll(from, "\n", "\r\n"); strings.Contains(t.text, crlf) {
			from, to = crlf, strings.ReplaceAll(strings.ReplaceAll(to, "\r\n", "\n"), "\n", "\r\n")
			n = strings.Count(t.text, from)
		}
	}
	switch {
	case n == 0:
		return miss(ctx, t.text, from)
	case n > 1 && !e.All:
		return fmt.Errorf("old_string is there %d times (lines %s): quote more around it, or set replace_all", n, numbers(matchLines(t.text, from, 10)))
	}
	if grown := len(t.text) + n*(len(to)-len(from)); grown > maxChangedBytes {
		return fmt.Errorf("the file would grow to %d bytes", grown)
	}
	t.text = strings.ReplaceAll(t.text, from, to)
	return nil
}

// matchLines returns the numbers of the lines where sub begins, at most most.
func matchLines(text, sub string, most int) []int {
	var lines []int
	line := 1
	for len(lines) < most {
		i := strings.Index(text, sub)
		if i < 0 {
			break
		}
		line += strings.Count(text[:i], "\n")
		lines = append(lines, line)
		_, n := utf8.DecodeRuneInString(text[i:])
		line += strings.Count(text[i:i+n], "\n")
		text = text[i+n:]
	}
	return lines
}
