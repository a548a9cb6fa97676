package line

import (
	"slices"
	"strings"
	"unicode"
)

// maxPut bounds what a count makes of a text that is put into the line.
const maxPut = 1 << 16

// operate does what the operator that waits does, to a part of the line or to
// the rows that it touches.
func (t *Term) operate(from, to int, rows bool) {
	l := &t.loop
	v := &l.edit.vi
	op := v.op
	v.op = 0
	line := l.now.line
	if rows {
		from, to = lineStart(line, from), lineEnd(line, to)
	}
	v.reg, v.regRows = slices.Clone(line[from:to]), rows
	switch {
	case op == 'y' && !rows:
		t.move(from)
	case op == 'y':
		if from < lineStart(line, l.now.pos) {
			t.move(from)
		}
	case op == 'c':
		t.replaceSpan(from, to, nil)
		v.normal = false
	case !rows:
		t.remove(from, to)
	case to < len(line):
		t.remove(from, to+1)
		t.move(firstInk(l.now.line, from))
	default:
		t.remove(max(from-1, 0), to)
		t.move(firstInk(l.now.line, len(l.now.line)))
	}
}

// viEdit is a command without a motion.
func (t *Term) viEdit(r rune, n int) {
	l := &t.loop
	v := &l.edit.vi
	line, pos := l.now.line, l.now.pos
	switch r {
	case 'x', 's':
		t.viChars(r, viMotion(line, pos, 'l', n, true, true).pos)
	case 'X':
		t.viChars('X', viMotion(line, pos, 'h', n, true, true).pos)
	case 'D', 'C':
		v.op = unicode.ToLower(r)
		t.operate(pos, dollar(line, pos, n).pos, false)
	case 'S':
		v.op = 'c'
		t.viRows(n)
	case 'Y':
		v.op = 'y'
		t.viRows(n)
	case '~':
		t.viSwapCase(n)
	case 'J':
		t.viJoin(n)
	case 'p', 'P':
		t.viPut(r == 'p', n)
	case 'u':
		for range min(n, maxUndo) {
			t.undo()
		}
	case '.':
		t.viAgain()
	case 'n', 'N':
		t.searchOn(r == 'N')
	case '/', '?':
		v.query = &query{how: r}
	case 'v':
		t.openEditor()
	default:
		t.viInsert(r)
	}
}

// viInsert goes to insert mode.
func (t *Term) viInsert(r rune) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	switch r {
	case 'i':
	case 'I':
		t.move(firstInk(line, pos))
	case 'a':
		t.after()
	case 'A':
		t.move(lineEnd(line, pos))
	case 'o':
		end := lineEnd(line, pos)
		t.replaceSpan(end, end, []rune("\n"))
	case 'O':
		start := lineStart(line, pos)
		t.replaceSpan(start, start, []rune("\n"))
		t.move(start)
	default:
		return
	}
	l.edit.vi.normal = false
}

// viChars takes the characters between the cursor and a place in its row away.
func (t *Term) viChars(r rune, to int) {
	l := &t.loop
	v := &l.edit.vi
	from := l.now.pos
	if from > to {
		from, to = to, from
	}
	if from < to {
		v.reg, v.regRows = slices.Clone(l.now.line[from:to]), false
		t.remove(from, to)
	}
	if r == 's' {
		v.normal = false
	}
}

// viReplace puts r in place of n characters.
func (t *Term) viReplace(r rune, n int) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	to, end := pos, lineEnd(line, pos)
	for range n {
		if to >= end {
			return
		}
		to = right(line, to)
	}
	if isToken(r) || r == barrierRune || r == setRune {
		return
	}
	if r == '\n' {
		n = 1 // as vi has it
	}
	t.replaceSpan(pos, to, slices.Repeat([]rune{r}, n))
	if r != '\n' {
		t.move(l.now.pos - 1)
	}
}

// viSwapCase turns small letters into big ones and back.
func (t *Term) viSwapCase(n int) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	to := viMotion(line, pos, 'l', n, true, true).pos
	piece := slices.Clone(line[pos:to])
	for i, r := range piece {
		if unicode.IsUpper(r) {
			piece[i] = unicode.ToLower(r)
		} else {
			piece[i] = unicode.ToUpper(r)
		}
	}
	t.replaceSpan(pos, to, piece)
}

// viJoin makes one row of n, at least two.
func (t *Term) viJoin(n int) {
	l := &t.loop
	for range max(n-1, 1) {
		line := l.now.line
		end := lineEnd(line, l.now.pos)
		if end == len(line) {
			return
		}
		from, to := end, firstInk(line, end+1)
		for from > lineStart(line, end) && unicode.IsSpace(line[from-1]) {
			from--
		}
		gap := []rune(" ")
		if from == lineStart(line, end) || to == lineEnd(line, to) || line[to] == ')' {
			gap = nil
		}
		t.replaceSpan(from, to, gap)
		t.move(from)
	}
}

// viPut puts what was taken last behind the cursor, or before it.
func (t *Term) viPut(behind bool, n int) {
	l := &t.loop
	v := &l.edit.vi
	if len(v.reg) == 0 && !v.regRows {
		return
	}
	n = min(n, max(maxPut/(len(v.reg)+1), 1))
	line, pos := l.now.line, l.now.pos
	if !v.regRows {
		if behind && pos < lineEnd(line, pos) {
			pos = right(line, pos)
		}
		t.replaceSpan(pos, pos, slices.Repeat(v.reg, n))
		t.move(l.now.pos - 1)
		return
	}
	rows := []rune(strings.Repeat(string(v.reg)+"\n", n))
	if behind {
		pos = lineEnd(line, pos)
		rows = append([]rune{'\n'}, rows[:len(rows)-1]...)
		t.replaceSpan(pos, pos, rows)
		t.move(firstInk(l.now.line, pos+1))
		return
	}
	pos = lineStart(line, pos)
	t.replaceSpan(pos, pos, rows)
	t.move(firstInk(l.now.line, pos))
}

// viAgain does the last change once more; a count goes in place of its own.
func (t *Term) viAgain() {
	v := &t.loop.edit.vi
	keys, count := v.change, v.count
	v.idle()
	if v.again || len(keys) == 0 {
		return
	}
	v.again = true
	defer func() { v.again = false }()
	if count > 0 {
		for len(keys) > 0 && keys[0].r >= '0' && keys[0].r <= '9' {
			keys = keys[1:]
		}
		v.count = count
	}
	for _, k := range keys {
		t.act(k)
	}
	v.keys = nil
}
