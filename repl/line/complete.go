package line

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// menu is a list of completions below the line, through which Tab walks.
type menu struct {
	words []Word
	at    int // the word that stands in the line, -1 for none
	// line is the line without a word walked to, pos the cursor in it, from where
	// the words begin.
	line      []rune
	from, pos int
}

// walking reports whether a word of the menu stands in the line.
func (m *menu) walking() bool { return m != nil && m.at >= 0 }

// tab extends the line by what all possible words have in common, and lists them
// when there are several; again, it walks through the list.
func (t *Term) tab(backwards bool) {
	l := &t.loop
	if m := l.edit.menu; m != nil {
		t.walkMenu(m, backwards)
		return
	}
	if backwards || t.o.Complete == nil || l.now.searching {
		return
	}
	start := l.now
	t.complete()
	if !slices.Equal(start.line, l.now.line) || l.edit.menu != nil {
		l.edit.did = didTab
		return
	}
	text := string(l.now.line[:l.now.pos])
	l.edit.did = didIdle
	if l.edit.was == didIdle && l.edit.idle == text {
		t.emit(Event{Kind: EventComplete, Text: text})
	}
	l.edit.idle = text
}

// complete does what can be done with the words that are known now.
func (t *Term) complete() {
	l := &t.loop
	before := string(l.now.line[:l.now.pos])
	c := t.o.Complete(before)
	if c.Ask {
		t.emit(Event{Kind: EventComplete, Text: before})
		return
	}
	if len(c.Words) == 0 || c.From < 0 || c.From > len(before) {
		return
	}
	from := utf8.RuneCountInString(before[:c.From])
	typed, common := before[c.From:], common(c.Words)
	if len(c.Words) == 1 || strings.HasPrefix(common, typed) {
		if common != typed {
			t.replaceSpan(from, l.now.pos, []rune(common))
		}
	}
	if len(c.Words) > 1 {
		l.edit.menu = &menu{words: c.Words, at: -1, line: l.now.line, from: from, pos: l.now.pos}
	}
}

// common is how all the words begin, in whole characters.
func common(words []Word) string {
	all := words[0].Text
	for _, w := range words[1:] {
		for !strings.HasPrefix(w.Text, all) {
			r := []rune(all)
			all = string(r[:left(r, len(r))])
		}
	}
	return all
}

// walkMenu puts the next word, or the one before, into the line.
func (t *Term) walkMenu(m *menu, backwards bool) {
	n := len(m.words)
	switch {
	case !backwards:
		m.at = (m.at + 1) % n
	case m.at <= 0:
		m.at = n - 1
	default:
		m.at--
	}
	word := []rune(m.words[m.at].Text)
	t.loop.edit.did = didTab
	t.put(spliced(m.line, m.from, m.pos, word), m.from+len(word))
}

// Replace puts text in place of the end of the line up to the cursor.
func (t *Term) Replace(before string, from int, text string) {
	t.mu.Lock()
	t.replaced = append(t.replaced, replacement{before, from, text})
	t.mu.Unlock()
	t.signal()
}

// replacement is a completion that was found elsewhere.
type replacement struct {
	before string
	from   int
	text   string
}

// replace does a completion unless the line is another one by now.
func (t *Term) replace(r replacement) {
	l := &t.loop
	if l.now.searching || r.from < 0 || r.from > len(r.before) || string(l.now.line[:l.now.pos]) != r.before {
		return
	}
	was := l.now
	l.edit.menu = nil
	t.replaceSpan(utf8.RuneCountInString(r.before[:r.from]), l.now.pos, []rune(l.fold.own(r.text)))
	l.edit.undo.note(was, l.now, groupNone)
}
