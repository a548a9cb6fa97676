package line

import (
	"slices"
	"strings"
	"unicode"
)

// maxKills is how many killed texts are kept for M-y.
const maxKills = 32

// kills holds what was killed, newest last.
type kills struct {
	ring [][]rune
	at   int // the one that was yanked last
}

// add keeps text; one that follows a kill at once makes one with it.
func (k *kills) add(text []rune, grows, before bool) {
	n := len(k.ring)
	switch {
	case grows && n > 0 && before:
		k.ring[n-1] = append(slices.Clone(text), k.ring[n-1]...)
	case grows && n > 0:
		k.ring[n-1] = append(k.ring[n-1], text...)
	default:
		k.ring = append(k.ring, slices.Clone(text))
		if len(k.ring) > maxKills {
			k.ring = slices.Clone(k.ring[1:])
		}
	}
}

// emacsKey is a control key that edits.
func (t *Term) emacsKey(r rune) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	switch r {
	case 1, 2, 5, 6: // C-a C-b C-e C-f
		t.motionKey([...]code{1: keyHome, 2: keyLeft, 5: keyEnd, 6: keyRight}[r])
	case 11: // C-k, at the end of a line its line break
		to := lineEnd(line, pos)
		if to == pos {
			to = min(pos+1, len(line))
		}
		t.kill(pos, to)
	case 14, 16: // C-n C-p
		t.vertical(r == 16, false)
	case 20: // C-t
		t.transpose()
	case 21: // C-u, across line breaks as in bash: it is how a line is thrown away
		t.kill(0, pos)
	case 23: // C-w
		t.kill(blankLeft(line, pos), pos)
	case 24: // C-x
		l.edit.control = true
	case 25: // C-y
		t.yank()
	case 31: // C-_, which is C-/ as well
		t.undo()
	}
}

// afterControlX is the key behind C-x.
func (t *Term) afterControlX(k key) {
	switch {
	case k.code == keyControl && k.r == 5: // C-e
		t.openEditor()
	case k.code == keyControl && k.r == 21, k.code == keyRune && k.r == 'u':
		t.undo()
	case k.code == keyControl && k.r == 7: // C-g
	case k.code == keyBackspace:
		t.kill(0, t.loop.now.pos)
	case k.code == keyControl && k.r == 24:
	default:
		t.act(k) // C-x alone means nothing; no key is lost for it
	}
}

// metaKey is a key with Alt, or behind ESC.
func (t *Term) metaKey(r rune) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	switch r {
	case 'b', 'B':
		t.motionKey(keyWordLeft)
	case 'f', 'F':
		t.motionKey(keyWordRight)
	case 'd', 'D':
		t.motionKey(keyWordDelete)
	case 'y', 'Y':
		t.yankBefore()
	case '<':
		t.ends(true)
	case '>':
		t.ends(false)
	case '.', '_':
		t.lastWord()
	case 'u', 'U', 'l', 'L', 'c', 'C':
		to := wordRight(line, pos)
		t.replaceSpan(pos, to, cased(line[pos:to], unicode.ToLower(r)))
	}
}

// cased is a word in upper or lower case, or with a capital.
func cased(word []rune, how rune) []rune {
	switch how {
	case 'u':
		return []rune(strings.ToUpper(string(word)))
	case 'l':
		return []rune(strings.ToLower(string(word)))
	}
	out := []rune(strings.ToLower(string(word)))
	for i, r := range out {
		if unicode.IsLetter(r) {
			out[i] = unicode.ToTitle(r)
			break
		}
	}
	return out
}

// kill takes a part of the line away and keeps it for C-y.
func (t *Term) kill(from, to int) {
	l := &t.loop
	if from < to {
		grows := l.edit.was == didKill
		l.edit.kills.add(l.now.line[from:to], grows, to == l.now.pos)
		t.remove(from, to)
	}
	l.edit.did = didKill
}

// yank puts what was killed last at the cursor.
func (t *Term) yank() {
	e := &t.loop.edit
	if len(e.kills.ring) == 0 {
		return
	}
	e.kills.at = len(e.kills.ring) - 1
	e.from, e.did = t.loop.now.pos, didYank
	t.insert(string(e.kills.ring[e.kills.at]))
}

// yankBefore puts what was killed before in place of what was yanked.
func (t *Term) yankBefore() {
	e := &t.loop.edit
	if e.was != didYank {
		return
	}
	n := len(e.kills.ring)
	e.kills.at, e.did = (e.kills.at+n-1)%n, didYank
	t.replaceSpan(e.from, t.loop.now.pos, e.kills.ring[e.kills.at])
}

// lastWord puts the last word of the line before at the cursor; again, that of
// the line before that one.
func (t *Term) lastWord() {
	l := &t.loop
	e := &l.edit
	to := l.now.pos
	if e.was != didWord {
		e.from, e.back = to, 0
	}
	for i := len(l.engine.past) - 1 - e.back; i >= 0; i-- {
		e.back++
		if words := strings.Fields(l.engine.past[i]); len(words) > 0 {
			t.replaceSpan(e.from, to, []rune(words[len(words)-1]))
			break
		}
	}
	e.did = didWord
}

// transpose swaps the characters around the cursor.
func (t *Term) transpose() {
	l := &t.loop
	line, mid := l.now.line, l.now.pos
	if mid == len(line) {
		mid = left(line, mid)
	}
	from, to := left(line, mid), right(line, mid)
	if from == mid || l.now.searching {
		return
	}
	t.replaceSpan(from, to, append(slices.Clone(line[mid:to]), line[from:mid]...))
}
