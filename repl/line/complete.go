package line

import "strings"

// maxHint bounds how many words the row below the line names.
const maxHint = 40

// complete extends the line by what all possible words have in common, and names
// them when there are several.
func (t *Term) complete() {
	l := &t.loop
	if t.o.Complete == nil || l.now.searching {
		return
	}
	before := string(l.now.line[:l.now.pos])
	c := t.o.Complete(before)
	if c.Ask {
		t.emit(Event{Kind: EventComplete, Text: before})
		return
	}
	from, words := c.From, make([]string, len(c.Words))
	for i, w := range c.Words {
		words[i] = w.Text
	}
	if len(words) == 0 || from < 0 || from > len(before) {
		return
	}
	common := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, common) {
			r := []rune(common)
			common = string(r[:len(r)-1])
		}
	}
	if strings.HasPrefix(common, before[from:]) {
		t.insert(strings.TrimPrefix(common, before[from:]))
	}
	if len(words) > 1 {
		l.now.hint = strings.Join(words[:min(len(words), maxHint)], "  ")
	}
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
	head := []rune(r.before[:r.from] + r.text)
	l.now = l.engine.set(append(append([]rune(nil), head...), l.now.line[l.now.pos:]...), len(head))
}
