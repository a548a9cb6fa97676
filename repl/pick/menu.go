package pick

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	prompt "github.com/c-bata/go-prompt"

	"ralph/repl/line"
	"ralph/repl/render"
)

const (
	// shownItems is how many items the menu shows at once.
	shownItems = 8
	minCols    = 40
	// idleWait is how long go-prompt's reader rests when no key waits. It must
	// not block: go-prompt stops it only between two reads.
	idleWait = 5 * time.Millisecond
)

// roomy reports whether the menu fits; go-prompt clears the screen when it does
// not.
func roomy(cols, rows int) bool { return cols >= minCols && rows >= shownItems+3 }

// menu is the one go-prompt of the process: each New opens /dev/tty and never
// closes it. It is the parser and the writer of that prompt.
type menu struct {
	console
	p *prompt.Prompt

	ctx        context.Context
	keys       line.Keys
	title      string
	items      []Item
	cols, rows int
	script     [][]byte // keys that come before those of the user
	chosen     bool     // an item was selected by an arrow
	cancelled  bool
}

// onTerminal runs the menu on a terminal that is lent for it.
func (p *Picker) onTerminal(ctx context.Context, title string, items []Item, cols, rows int) (value string, err error) {
	lent := p.Lend(ctx, func(ctx context.Context, keys line.Keys, out io.Writer) error {
		if p.menu == nil {
			if p.menu, err = newMenu(); err != nil {
				return nil
			}
		}
		p.menu.colour, p.menu.cols, p.menu.rows = p.Colour, cols, rows
		value, err = p.menu.run(ctx, title, items, keys, out)
		return nil
	})
	if err == nil {
		err = lent
	}
	return value, err
}

// newMenu builds the prompt. go-prompt panics where there is no /dev/tty.
func newMenu() (m *menu, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, errNoPrompt
		}
	}()
	m = &menu{}
	m.p = prompt.New(func(string) {}, m.complete,
		prompt.OptionParser(m),
		prompt.OptionWriter(&m.console),
		prompt.OptionLivePrefix(func() (string, bool) { return render.SafeLine(m.title) + ": ", true }),
		prompt.OptionMaxSuggestion(shownItems),
		prompt.OptionShowCompletionAtStart(),
		// No separator: the whole input is one word, spaces included.
		prompt.OptionCompletionWordSeparator("\x00"),
		prompt.OptionSuggestionBGColor(prompt.DefaultColor),
		prompt.OptionSuggestionTextColor(prompt.DefaultColor),
		prompt.OptionDescriptionBGColor(prompt.DefaultColor),
		prompt.OptionDescriptionTextColor(prompt.DarkGray),
		prompt.OptionSelectedSuggestionBGColor(prompt.Cyan),
		prompt.OptionSelectedSuggestionTextColor(prompt.Black),
		prompt.OptionSelectedDescriptionBGColor(prompt.Cyan),
		prompt.OptionSelectedDescriptionTextColor(prompt.Black),
		prompt.OptionScrollbarBGColor(prompt.DefaultColor),
		prompt.OptionPrefixTextColor(prompt.Cyan),
	)
	return m, nil
}

func (m *menu) run(ctx context.Context, title string, items []Item, keys line.Keys, out io.Writer) (value string, err error) {
	m.ctx, m.keys, m.out, m.title, m.items = ctx, keys, out, title, items
	m.muted.Store(false)
	m.cancelled, m.chosen, m.script = false, false, nil
	defer func() {
		if r := recover(); r != nil {
			value, err = "", errNoPrompt
		}
	}()
	text := m.p.Input()
	// The rows of the menu go; one row about the choice stays.
	_, _ = io.WriteString(out, "\r\x1b[J\x1b[?25h")
	if m.cancelled {
		if cause := context.Cause(ctx); cause != nil {
			return "", cause
		}
		return "", ErrCancelled
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", ErrCancelled
	}
	return match(text, items)
}

// complete is go-prompt's question for what to suggest.
func (m *menu) complete(d prompt.Document) []prompt.Suggest {
	found := filter(strings.TrimSpace(d.Text), m.items)
	out := make([]prompt.Suggest, 0, min(len(found), 200))
	for _, it := range found[:min(len(found), 200)] {
		out = append(out, prompt.Suggest{Text: render.SafeLine(it.Value), Description: render.SafeLine(it.Detail)})
	}
	return out
}

// Setup does nothing: the terminal is in raw mode already.
func (m *menu) Setup() error { return nil }

// TearDown does nothing: the terminal's owner goes on with it.
func (m *menu) TearDown() error { return nil }

// GetWinSize returns the size at the start of the pick.
func (m *menu) GetWinSize() *prompt.WinSize {
	return &prompt.WinSize{Row: uint16(m.rows), Col: uint16(m.cols)}
}

// Read returns the next key in the form that go-prompt knows, or an error when
// none waits.
func (m *menu) Read() ([]byte, error) {
	if len(m.script) > 0 {
		b := m.script[0]
		m.script = m.script[1:]
		return b, nil
	}
	if m.ctx.Err() != nil && !m.cancelled {
		return m.cancel(), nil
	}
	b := m.keys.Next()
	switch string(b) {
	case "":
		time.Sleep(idleWait)
		return nil, errors.New("no key")
	case "\x1b", "\x03", "\x04":
		return m.cancel(), nil
	case "\r":
		m.muted.Store(true)
	case "\x1b[A":
		m.chosen = true
		return []byte("\x1b[Z"), nil // up selects the one before, also the first time
	case "\x1b[B", "\t":
		m.chosen = true
		return []byte("\t"), nil
	}
	if m.chosen && b[0] >= 0x20 {
		// The input is the name of the selected item: typing filters anew.
		m.chosen = false
		m.script = append(m.script, b)
		return []byte{0x15}, nil
	}
	return b, nil
}

// cancel ends the prompt: Ctrl-C empties it, Ctrl-D then leaves it.
func (m *menu) cancel() []byte {
	m.cancelled = true
	m.muted.Store(true)
	m.script = [][]byte{{4}}
	return []byte{3}
}
