// Package pick lets the user choose one of many: a session, a model, a file.
//
// It owns the modal picker on c-bata/go-prompt and its plain form, a numbered
// list. It refuses to open a terminal: keys and output come from whoever owns
// it, and nothing of go-prompt is built before the first pick on a terminal.
//
//	p := &pick.Picker{Lend: term.Modal, Size: size}
//	value, err := p.Pick(ctx, "model", []pick.Item{{Value: "gpt-5"}})
package pick

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"

	"ralph/repl/line"
	"ralph/repl/render"
)

// ErrCancelled says that the user chose nothing.
var ErrCancelled = errors.New("nothing was chosen")

// errNoPrompt says that go-prompt cannot be used here, or no longer.
var errNoPrompt = errors.New("no picker on this terminal")

// Item is one thing to choose from.
type Item struct {
	// Value is what Pick returns.
	Value string
	// Detail is shown beside it.
	Detail string
}

// maxListed bounds the numbered list.
const maxListed = 30

// Picker asks the user to choose. The zero Picker knows only the numbered list.
// It is used by one goroutine at a time and needs no closing.
type Picker struct {
	// Lend gives the terminal to a function, as line.Term.Modal does; nil means
	// that there is none to lend.
	Lend func(context.Context, func(context.Context, line.Keys, io.Writer) error) error
	// Size returns the terminal's columns and rows. It is asked again while the
	// picker is open, also on another goroutine.
	Size func() (cols, rows int)
	// Colour allows colours.
	Colour bool
	// Print shows text, and Answer waits for one line: the numbered list uses
	// them. Without Answer there is no numbered list.
	Print  func(text string)
	Answer func(ctx context.Context, prompt string) (string, error)

	menu *menu // built at the first pick on a terminal, then reused
}

// Pick returns the value of the chosen item. Typing filters the items; Enter
// takes the selected one or the best match. It returns ErrCancelled for Escape,
// Ctrl-C and Ctrl-D, and the cause of ctx when that ends first.
func (p *Picker) Pick(ctx context.Context, title string, items []Item) (string, error) {
	return p.PickFrom(ctx, title, "", items)
}

// PickFrom is Pick with query typed already; the user may change it.
func (p *Picker) PickFrom(ctx context.Context, title, query string, items []Item) (string, error) {
	if len(items) == 0 {
		return "", fmt.Errorf("choose %s: there is none", title)
	}
	query = strings.TrimSpace(render.SafeLine(query))
	l := newList(items)
	if p.Lend != nil && p.Size != nil {
		if cols, rows := p.Size(); roomy(cols, rows) {
			value, typed, err := p.onTerminal(ctx, title, query, l)
			if !errors.Is(err, errNoPrompt) {
				return value, err
			}
			query = typed
		}
	}
	return p.fromList(ctx, title, query, l)
}

// row is a row of the numbered list; a detail is cut to the window, a name is not.
func (p *Picker) row(name, detail string) string {
	const number, least = 6, 8 // columns
	if p.Size != nil {
		cols, _ := p.Size()
		if detail = cutTail(detail, cols-1-number-2-runewidth.StringWidth(name)); runewidth.StringWidth(detail) < least && strings.HasSuffix(detail, "…") {
			detail = ""
		}
	}
	return strings.TrimRight(name+"  "+detail, " ")
}

// fromList is the plain form: numbers, names, or a part of a name.
func (p *Picker) fromList(ctx context.Context, title, query string, l *list) (string, error) {
	if p.Print == nil || p.Answer == nil {
		return "", ErrCancelled
	}
	shown := l.find(query)
	hits := len(l.past[len(l.past)-1].hits)
	if len(shown) == 0 {
		shown = l.find("")
		hits = len(l.items)
	}
	var b strings.Builder
	for n, i := range shown {
		if n == maxListed {
			fmt.Fprintf(&b, "      and %d more: type a part of the name\n", hits-maxListed)
			break
		}
		fmt.Fprintf(&b, "%4d  %s\n", n+1, p.row(l.names[i], render.SafeLine(l.items[i].Detail)))
	}
	p.Print(b.String())
	text, err := p.Answer(ctx, fmt.Sprintf("%s (number or name, empty for none)", title))
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", ErrCancelled
	}
	if i := l.exact(text); i >= 0 {
		return l.items[i].Value, nil
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(shown) {
		return l.items[shown[n-1]].Value, nil
	}
	if found := l.find(text); len(found) > 0 {
		return l.items[found[0]].Value, nil
	}
	return "", fmt.Errorf("choose: nothing matches %q", text)
}
