package pick

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"

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

// Keys in the form in which they come.
const (
	keyUp, keyDown = "\x1b[A", "\x1b[B"
	keyTab         = "\t"
	keyBackTab     = "\x1b[Z"
	keyEnter       = "\r"
	keyPrevious    = "\x10"
	keyNext        = "\x0e"
	keyClear       = "\x15"
	keyAnew        = "\x0c"
)

// roomy reports whether the menu fits; go-prompt clears the screen when it does
// not.
func roomy(cols, rows int) bool { return cols >= minCols && rows >= shownItems+3 }

// menu is the one go-prompt of the process: each New opens /dev/tty and never
// closes it. It is the parser and the writer of that prompt. go-prompt reads on a
// goroutine of its own; a key is handed to it when the one before it has been
// painted, so that the fields below are never used by two goroutines at once.
type menu struct {
	console
	p *prompt.Prompt

	ctx        context.Context
	keys       line.Keys
	size       func() (cols, rows int)
	title      string
	list       *list
	cols, rows int
	seen       [2]int    // the size that was seen last
	changed    time.Time // when it became that
	script     []string  // keys that come before those of the user
	held       []byte    // a key of the user that was read too early
	query      string    // what is typed
	shown      []int     // the places of the items in the menu
	selected   int       // the place in shown that the arrows selected, or -1
	ending     ending
	leaving    bool // the prompt is on its way out: nothing changes any more
}

// ending says how a menu ends.
type ending int

const (
	taken     ending = iota // the user took something
	cancelled               // or nothing
	anew                    // it has to be painted anew: another window
)

// onTerminal runs the menu on a terminal that is lent for it. With errNoPrompt it
// returns what was typed.
func (p *Picker) onTerminal(ctx context.Context, title, query string, l *list) (value, typed string, err error) {
	lent := p.Lend(ctx, func(ctx context.Context, keys line.Keys, out io.Writer) error {
		if p.menu == nil {
			if p.menu, err = newMenu(); err != nil {
				return nil
			}
		}
		m := p.menu
		m.ctx, m.keys, m.out, m.size, m.colour, m.list, m.held = ctx, keys, out, p.Size, p.Colour, l, nil
		m.query, m.selected = query, -1
		value, err = m.choose(title)
		typed = m.query
		return nil
	})
	if err == nil {
		err = lent
	}
	return value, typed, err
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
		prompt.OptionLivePrefix(func() (string, bool) { return m.title, true }),
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

// choose runs the prompt until something is chosen or nothing, each time the
// window changes from the start with what was typed and selected. errNoPrompt says
// that the window is too small now.
func (m *menu) choose(title string) (value string, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = "", errNoPrompt
		}
	}()
	for {
		m.cols, m.rows = m.size()
		m.seen, m.changed = [2]int{m.cols, m.rows}, time.Time{}
		if !roomy(m.cols, m.rows) {
			return "", errNoPrompt
		}
		m.title = cutTail(render.SafeLine(title), m.cols/3) + ": "
		m.query = cutTail(m.query, m.room())
		text := m.once()
		_, _ = io.WriteString(m.out, m.erase())
		switch m.ending {
		case anew:
			continue
		case cancelled:
			if cause := context.Cause(m.ctx); cause != nil {
				return "", cause
			}
			return "", ErrCancelled
		}
		return m.value(text)
	}
}

// once runs the prompt once.
func (m *menu) once() string {
	m.ending, m.leaving, m.script = taken, false, nil
	again := m.selected
	m.selected = -1
	if m.query != "" {
		m.script = append(m.script, m.query)
	}
	for range again + 1 {
		m.script = append(m.script, keyTab)
	}
	// What is painted before these keys are dealt with would only flash.
	m.rewind = false
	m.muted.Store(len(m.script) > 0)
	m.painted.Store(false)
	m.query = ""
	return m.p.Input()
}

// erase takes the rows of the menu away; one row about the choice stays. A
// terminal that rewraps has made several rows of the one with the input when it
// became narrower than that.
func (m *menu) erase() string {
	up := ""
	cols, _ := m.size()
	if m.ending == anew && m.keys.Reflows() && cols > 0 && cols < m.cols {
		if n := m.width() / cols; n > 0 {
			up = "\x1b[" + strconv.Itoa(n) + "A"
		}
	}
	// Not from the first cell: there tmux would keep a copy in its history.
	return "\r" + up + "\x1b[K\x1b[C\x1b[J\r\x1b[?25h"
}

// width is how many columns of the input's row are in use.
func (m *menu) width() int {
	text := m.query
	if m.selected >= 0 {
		text = m.name(m.shown[m.selected])
	}
	return runewidth.StringWidth(m.title) + runewidth.StringWidth(text)
}

// value is the value of what was taken.
func (m *menu) value(text string) (string, error) {
	l := m.list
	if m.selected >= 0 {
		return l.items[m.shown[m.selected]].Value, nil
	}
	text = strings.TrimSpace(text)
	if text == "" && len(m.shown) > 0 {
		return l.items[m.shown[0]].Value, nil
	}
	if i := l.exact(text); i >= 0 {
		return l.items[i].Value, nil
	}
	if found := l.find(text); len(found) > 0 {
		return l.items[found[0]].Value, nil
	}
	return "", ErrCancelled
}

// complete is go-prompt's question for what to suggest.
func (m *menu) complete(d prompt.Document) []prompt.Suggest {
	if m.leaving {
		return nil
	}
	m.query = d.Text
	m.shown = m.list.find(d.Text)
	out := make([]prompt.Suggest, 0, len(m.shown))
	for _, i := range m.shown {
		out = append(out, prompt.Suggest{Text: m.name(i), Description: cutTail(render.SafeLine(m.list.items[i].Detail), m.cols)})
	}
	return out
}

// room is how many columns the input has.
func (m *menu) room() int { return m.cols - runewidth.StringWidth(m.title) - 4 }

// name is how an item is called in the menu: the end of a long name says more
// than its start.
func (m *menu) name(i int) string {
	name, room := m.list.names[i], m.room()
	if w := runewidth.StringWidth(name); w > room {
		name = runewidth.TruncateLeft(name, w-room+1, "…")
	}
	return name
}

// cutTail is text in at most cols columns.
func cutTail(text string, cols int) string {
	if cols <= 0 {
		return ""
	}
	return runewidth.Truncate(text, cols, "…")
}

// Setup does nothing: the terminal is in raw mode already.
func (m *menu) Setup() error { return nil }

// TearDown does nothing: the terminal's owner goes on with it.
func (m *menu) TearDown() error { return nil }

// GetWinSize returns the size at the start of the prompt.
func (m *menu) GetWinSize() *prompt.WinSize {
	return &prompt.WinSize{Row: uint16(m.rows), Col: uint16(m.cols)}
}

// errNoKey tells go-prompt that no key waits.
var errNoKey = errors.New("no key")

// Read returns the next key in the form that go-prompt knows, or an error when
// none waits.
func (m *menu) Read() ([]byte, error) {
	if !m.painted.Load() {
		time.Sleep(idleWait / 5)
		return nil, errNoKey
	}
	if len(m.script) > 0 {
		key := m.script[0]
		m.script = m.script[1:]
		if len(m.script) == 0 && !m.leaving {
			m.unmute()
		}
		return m.hand(key)
	}
	if m.leaving {
		time.Sleep(idleWait)
		return nil, errNoKey // it is on its way out
	}
	if m.ctx.Err() != nil {
		return m.end(cancelled)
	}
	if resized, rests := m.resized(); resized && rests {
		return m.end(anew)
	} else if resized {
		time.Sleep(idleWait)
		return nil, errNoKey
	}
	key := string(m.next())
	switch key {
	case "":
		time.Sleep(idleWait)
		return nil, errNoKey
	case "\x1b", "\x03", "\x04":
		return m.end(cancelled)
	case keyAnew:
		return m.end(anew)
	case keyEnter, "\n":
		if len(m.shown) == 0 {
			return nil, errNoKey // nothing to take: go on typing
		}
		m.leaving = true
		m.muted.Store(true)
		return m.hand(keyEnter)
	case keyUp, keyPrevious, keyBackTab:
		return m.hand(keyBackTab) // also the first time
	case keyDown, keyNext, keyTab:
		return m.hand(keyTab)
	}
	return m.typed(key)
}

// resized reports whether the window had another size since the menu was painted,
// and whether it rests now.
func (m *menu) resized() (resized, rests bool) {
	cols, rows := m.size()
	if cols != m.seen[0] || rows != m.seen[1] {
		m.seen, m.changed = [2]int{cols, rows}, time.Now()
	}
	rests = time.Since(m.changed) >= m.keys.Rests()
	return !m.changed.IsZero(), rests
}

// next is the next key of the user, nil when none waits.
func (m *menu) next() []byte {
	if key := m.held; key != nil {
		m.held = nil
		return key
	}
	return m.keys.Next()
}

// typed takes a key that changes what is typed.
func (m *menu) typed(key string) ([]byte, error) {
	if key[0] >= 0x20 && key[0] != 0x7f {
		for next := m.keys.Next(); next != nil; next = m.keys.Next() {
			if next[0] < 0x20 || next[0] == 0x7f {
				m.held = next
				break
			}
			key += string(next)
		}
		key = render.SafeLine(strings.ToValidUTF8(key, ""))
		if room := m.room() - runewidth.StringWidth(m.query); runewidth.StringWidth(key) > room {
			key = runewidth.Truncate(key, max(room, 0), "")
		}
		if key == "" {
			return nil, errNoKey
		}
	}
	if m.selected < 0 {
		return m.hand(key)
	}
	// go-prompt makes the name of the selected item the input: what was typed
	// comes back first.
	back := []string{key}
	if m.query != "" {
		back = []string{m.query, key}
	}
	m.script = back
	m.muted.Store(true)
	return m.hand(keyClear)
}

// hand gives a key to go-prompt and follows what it selects.
func (m *menu) hand(key string) ([]byte, error) {
	switch key {
	case keyTab:
		if m.selected++; m.selected >= len(m.shown) {
			m.selected = -1
		}
	case keyBackTab:
		if m.selected--; m.selected < -1 {
			m.selected = len(m.shown) - 1
		}
	case keyEnter, "\x03", "\x04":
	default:
		m.selected = -1
	}
	m.painted.Store(false)
	return []byte(key), nil
}

// end ends the prompt: Ctrl-C empties it, Ctrl-D then leaves it.
func (m *menu) end(how ending) ([]byte, error) {
	m.ending, m.leaving = how, true
	m.muted.Store(true)
	m.script = []string{"\x04"}
	return m.hand("\x03")
}
