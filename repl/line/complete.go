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
	from, words := t.o.Complete(before)
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
