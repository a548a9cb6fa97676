// Package pick lets the user choose one of many: a session, a model.
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

	"github.com/sahilm/fuzzy"

	"ralph/repl/line"
	"ralph/repl/render"
)

// ErrCancelled says that the user chose nothing.
var ErrCancelled = errors.New("nothing was chosen")

// errNoPrompt says that go-prompt cannot be used here.
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
	// Size returns the terminal's columns and rows.
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
	if len(items) == 0 {
		return "", fmt.Errorf("choose %s: there is none", title)
	}
	if p.Lend != nil && p.Size != nil {
		cols, rows := p.Size()
		if roomy(cols, rows) {
			value, err := p.onTerminal(ctx, title, items, cols, rows)
			if !errors.Is(err, errNoPrompt) {
				return value, err
			}
		}
	}
	return p.fromList(ctx, title, items)
}

// fromList is the plain form: numbers, names, or a part of a name.
func (p *Picker) fromList(ctx context.Context, title string, items []Item) (string, error) {
	if p.Print == nil || p.Answer == nil {
		return "", ErrCancelled
	}
	var b strings.Builder
	for i, it := range items {
		if i == maxListed {
			fmt.Fprintf(&b, "      and %d more: type a part of the name\n", len(items)-maxListed)
			break
		}
		fmt.Fprintf(&b, "%4d  %s  %s\n", i+1, render.SafeLine(it.Value), render.SafeLine(it.Detail))
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
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(items) {
		return items[n-1].Value, nil
	}
	return match(text, items)
}

// match finds the item that text names: exactly, or best.
func match(text string, items []Item) (string, error) {
	for _, it := range items {
		if it.Value == text {
			return it.Value, nil
		}
	}
	if found := filter(text, items); len(found) > 0 {
		return found[0].Value, nil
	}
	return "", fmt.Errorf("choose: nothing matches %q", text)
}

// filter returns the items that match text, best first; all for an empty text.
func filter(text string, items []Item) []Item {
	if text == "" {
		return items
	}
	found := fuzzy.FindFrom(text, source(items))
	out := make([]Item, 0, len(found))
	for _, f := range found {
		out = append(out, items[f.Index])
	}
	return out
}

type source []Item

func (s source) String(i int) string { return s[i].Value + " " + s[i].Detail }
func (s source) Len() int            { return len(s) }
