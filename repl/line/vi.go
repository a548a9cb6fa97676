package line

import (
	"slices"
	"strings"
	"unicode"
)

// vi is what vi's keys have begun. It is written on top of the line that readline
// holds, not with readline's own vi mode: that one takes the runes by which this
// engine proves that a key was handled for commands, knows no counts, operators,
// undo or search, and its bounds are wrong at the ends of a line.
type vi struct {
	normal  bool // commands, not text
	count   int  // as typed so far; 0 for none
	before  int  // the count before the operator
	op      rune // d, c or y, waiting for a motion
	wait    rune // f, F, t, T, r, g, i or a, waiting for a character
	find    find // for ; and ,
	reg     []rune
	regRows bool // reg holds whole rows
	query   *query
	last    query // for n and N
	keys    []key // of the command that is being typed, with the text it inserts
	change  []key // the last command that changed something, for .
	again   bool  // the keys come from change
}

// query is a search through the earlier lines.
type query struct {
	how  rune // / for older, ? for newer lines
	text []rune
}

// maxCount bounds a count; no line has so many characters.
const maxCount = 1 << 20

func (v *vi) asking() bool { return v.query != nil }

// question is the search that is being typed, as it is shown.
func (v *vi) question() string { return string(v.query.how) + string(v.query.text) }

// idle forgets a command that is half typed.
func (v *vi) idle() { v.count, v.before, v.op, v.wait = 0, 0, 0, 0 }

// rest goes back to insert mode, in which each line begins.
func (v *vi) rest() {
	v.idle()
	v.query, v.normal = nil, false
	if !v.again {
		v.endChange()
	}
}

// endChange keeps the keys of a command that went on in insert mode.
func (v *vi) endChange() {
	if len(v.keys) > 0 {
		v.change, v.keys = append(v.keys, key{code: keyEscape}), nil
	}
}

// number is the count of the command, 1 when none was typed.
func (v *vi) number() (n int, counted bool) {
	n = max(v.count, 1) * max(v.before, 1)
	return min(n, maxCount), v.count+v.before > 0
}

// viKey does what a key means in vi; false says that it means the same as in
// emacs.
func (t *Term) viKey(k key) bool {
	v := &t.loop.edit.vi
	switch {
	case k.code == keyStopped:
		return false
	case v.asking():
		return t.askKey(k)
	case !v.normal:
		return t.insertKey(k)
	case v.wait == 'r' && k.code == keyEnter:
		t.viRune(key{code: keyRune, r: '\n'})
	case k.code == keyRune:
		t.viRune(k)
	case k.code == keyControl:
		return t.viControl(k.r)
	case v.wait != 0:
		v.idle()
	default:
		return t.viMotionKey(k)
	}
	t.clamp()
	return true
}

// insertKey is a key of insert mode: ESC leaves it, all others are kept for the
// command . and mean what they mean in emacs.
func (t *Term) insertKey(k key) bool {
	l := &t.loop
	v := &l.edit.vi
	if k.code == keyEscape && !l.now.searching {
		v.normal = true
		if !v.again {
			v.endChange()
		}
		if l.now.pos > lineStart(l.now.line, l.now.pos) {
			t.move(left(l.now.line, l.now.pos))
		}
		return true
	}
	if !v.again && len(v.keys) > 0 && k.code != keyEnter {
		v.keys = append(v.keys, k)
	}
	return false
}

// viTab completes at the end of the character under the cursor.
func (t *Term) viTab() {
	v := &t.loop.edit.vi
	if v.normal && !v.asking() {
		v.idle()
		t.after()
	}
}

// after goes to insert mode behind the cursor.
func (t *Term) after() {
	l := &t.loop
	l.edit.vi.normal = false
	if l.now.pos < lineEnd(l.now.line, l.now.pos) {
		t.move(right(l.now.line, l.now.pos))
	}
}

// clamp keeps the cursor of normal mode on a character.
func (t *Term) clamp() {
	l := &t.loop
	pos := l.now.pos
	if !l.edit.vi.normal || l.now.searching || pos > len(l.now.line) {
		return
	}
	if pos == lineEnd(l.now.line, pos) && pos > lineStart(l.now.line, pos) {
		t.move(left(l.now.line, pos))
	}
}

// viControl is a control key of normal mode.
func (t *Term) viControl(r rune) bool {
	v := &t.loop.edit.vi
	n, _ := v.number()
	v.idle()
	switch r {
	case 18: // Ctrl-R
		for range min(n, maxUndo) {
			t.redo()
		}
	case 31:
		t.undo()
	case 14, 16: // Ctrl-N, Ctrl-P
		t.recall(r == 16, false)
	case 3, 4, 12, 24, 26:
		return false
	}
	t.clamp()
	return true
}

// viMotionKey is a key without a letter in normal mode.
func (t *Term) viMotionKey(k key) bool {
	v := &t.loop.edit.vi
	switch k.code {
	case keyEnter:
		v.idle()
		t.submit()
		return true
	case keyEscape:
		v.idle()
	case keyPaste:
		v.idle()
		text := t.loop.fold.fold(k.text)
		t.after()
		t.insert(text)
		v.normal = true
		t.move(left(t.loop.now.line, t.loop.now.pos))
	case keyNewline:
		v.idle()
		t.after()
		t.insert("\n")
	case keyPageUp, keyPageDown:
		v.idle()
		return false
	default:
		if r := letterFor(k.code); r != 0 {
			t.viRune(key{code: keyRune, r: r})
		}
	}
	t.clamp()
	return true
}

// letterFor is the command that a key without a letter stands for.
func letterFor(c code) rune {
	switch c {
	case keyLeft, keyBackspace:
		return 'h'
	case keyRight:
		return 'l'
	case keyUp:
		return 'k'
	case keyDown:
		return 'j'
	case keyHome:
		return '0'
	case keyEnd:
		return '$'
	case keyDelete:
		return 'x'
	case keyWordLeft, keyWordBackspace:
		return 'b'
	case keyWordRight, keyWordDelete:
		return 'w'
	}
	return 0
}

// viRune is a letter of a command.
func (t *Term) viRune(k key) {
	l := &t.loop
	v := &l.edit.vi
	if !v.again {
		if v.op == 0 && v.wait == 0 && v.count == 0 {
			v.keys = nil
		}
		v.keys = append(v.keys, k)
	}
	before := l.now.line
	if v.wait == 0 && (k.r >= '1' && k.r <= '9' || k.r == '0' && v.count > 0) {
		v.count = min(v.count*10+int(k.r-'0'), maxCount)
		return
	}
	t.viCommand(k.r)
	if v.op != 0 || v.wait != 0 {
		return // it goes on
	}
	v.idle()
	if v.again || k.r == '.' {
		return
	}
	if v.normal {
		if !slices.Equal(before, l.now.line) && l.edit.did == didElse {
			v.change = v.keys
		}
		v.keys = nil
	}
}

// viCommand does the command that r ends, or goes on with the one it is a part of.
func (t *Term) viCommand(r rune) {
	l := &t.loop
	v := &l.edit.vi
	n, counted := v.number()
	if v.wait != 0 {
		wait := v.wait
		v.wait = 0
		t.waited(wait, r, n)
		return
	}
	if v.op != 0 && (r == 'i' || r == 'a') || strings.ContainsRune("fFtTg", r) || r == 'r' && v.op == 0 {
		v.wait = r
		return
	}
	switch {
	case r == ';' || r == ',':
		f := v.find
		if r == ',' {
			f = f.reversed()
		}
		if v.find.how != 0 {
			t.viMove(seek(l.now.line, l.now.pos, f, n, true), r)
		} else {
			v.op = 0
		}
	case v.op != 0 && r == v.op:
		t.viRows(n)
	case v.op == 0 && strings.ContainsRune("dcy", r):
		v.op, v.before, v.count = r, v.count, 0
	case strings.ContainsRune("hl 0^_$|wWbBeEG+-jk%", r):
		t.viMotion(r, n, counted)
	case v.op != 0:
		v.op = 0 // no motion
	default:
		t.viEdit(r, n)
	}
}

// waited is the character for which f, r, g and others waited.
func (t *Term) waited(wait, r rune, n int) {
	l := &t.loop
	v := &l.edit.vi
	switch wait {
	case 'r':
		t.viReplace(r, n)
	case 'g':
		switch r {
		case 'g':
			at := firstInk(l.now.line, rowAt(l.now.line, n))
			t.viMove(reach{pos: at, rows: true, ok: true}, 'g')
		default:
			v.op = 0
		}
	case 'i', 'a':
		from, to, ok := object(l.now.line, l.now.pos, r, wait == 'a')
		if !ok {
			v.op = 0
			return
		}
		for range n - 1 {
			_, end, more := object(l.now.line, to, r, wait == 'a')
			if (r != 'w' && r != 'W') || !more {
				break
			}
			to = end
		}
		t.operate(from, to, false)
	default:
		v.find = find{how: wait, r: r}
		t.viMove(seek(l.now.line, l.now.pos, v.find, n, false), wait)
	}
}

// viMotion moves, or acts on what the motion covers.
func (t *Term) viMotion(r rune, n int, counted bool) {
	l := &t.loop
	v := &l.edit.vi
	line, pos := l.now.line, l.now.pos
	if v.op == 'c' && (r == 'w' || r == 'W') && pos < len(line) && kindOf(line[pos], r == 'W') != kindBlank {
		// cw leaves the blanks behind the word, as everywhere.
		to := runEnd(line, pos, r == 'W')
		if n > 1 {
			to = repeat(line, to, n-1, r == 'W', wordEnd)
		}
		t.operate(pos, right(line, to), false)
		return
	}
	if v.op == 0 && (r == 'j' || r == 'k') {
		if !t.rows(n, r == 'k') {
			t.recall(r == 'k', false)
		}
		return
	}
	to := viMotion(line, pos, r, n, counted, v.op != 0)
	if v.op != 0 && (r == 'w' || r == 'W') && to.ok {
		to.pos = wordsEnd(line, pos, to.pos)
	}
	t.viMove(to, r)
}

// wordsEnd keeps w behind an operator in the row of the last word.
func wordsEnd(line []rune, pos, to int) int {
	back := to
	for back > pos && unicode.IsSpace(line[back-1]) {
		back--
	}
	if end := lineEnd(line, max(back, pos)); end < to && end > pos {
		return end
	}
	return to
}

// viMove goes where a motion goes, or has the operator act on the way.
func (t *Term) viMove(to reach, r rune) {
	l := &t.loop
	v := &l.edit.vi
	if !to.ok {
		v.op = 0
		return
	}
	if v.op == 0 {
		t.move(to.pos)
		return
	}
	from, end := l.now.pos, to.pos
	if from > end {
		from, end = end, from
	} else if to.inclusive {
		end = right(l.now.line, end)
	}
	if r == '%' && to.pos < l.now.pos {
		end = right(l.now.line, end)
	}
	t.operate(from, end, to.rows)
}

// viRows is an operator typed twice: it acts on n rows.
func (t *Term) viRows(n int) {
	l := &t.loop
	end := l.now.pos
	for range n - 1 {
		next, ok := rowMove(l.now.line, end, 0, false)
		if !ok {
			break
		}
		end = next
	}
	t.operate(l.now.pos, end, true)
}

// askKey is a key of the search that is being typed.
func (t *Term) askKey(k key) bool {
	v := &t.loop.edit.vi
	q := v.query
	switch k.code {
	case keyRune:
		q.text = append(q.text, k.r)
	case keyPaste:
		q.text = append(q.text, []rune(strings.ReplaceAll(k.text, "\n", " "))...)
	case keyBackspace:
		if len(q.text) == 0 {
			v.query = nil
			break
		}
		q.text = q.text[:left(q.text, len(q.text))]
	case keyEscape:
		v.query = nil
	case keyEnter:
		v.query = nil
		if len(q.text) == 0 {
			q.text = v.last.text
		}
		v.last = *q
		t.searchOn(false)
	case keyControl:
		v.query = nil
		return k.r != 3 && k.r != 26
	}
	return true
}

// searchOn goes to the next earlier line that holds what was searched for last.
func (t *Term) searchOn(reversed bool) {
	v := &t.loop.edit.vi
	if len(v.last.text) == 0 {
		return
	}
	wanted := strings.ToLower(string(v.last.text))
	t.loop.edit.did = didRecall
	t.walk((v.last.how == '/') != reversed, func(text string) bool {
		return strings.Contains(strings.ToLower(text), wanted)
	})
	t.clamp()
}
