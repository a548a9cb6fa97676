package line

import "strings"

// vertical moves between the lines of a multi-line text, and at its edge
// through the earlier lines.
func (t *Term) vertical(up, prefix bool) {
	l := &t.loop
	if l.now.searching || !t.rows(1, up) {
		t.recall(up, prefix)
	}
}

// rows moves n rows up or down, as far as there are any. The column in which such a
// walk began is kept through rows that are shorter.
func (t *Term) rows(n int, up bool) (moved bool) {
	l := &t.loop
	e := &l.edit
	line, pos := l.now.line, l.now.pos
	if e.was != didRows {
		e.column = pos - lineStart(line, pos)
	}
	for range n {
		next, ok := rowMove(line, pos, e.column, up)
		if !ok {
			break
		}
		pos, moved = next, true
	}
	if moved {
		t.move(pos)
		e.did = didRows
	}
	return moved
}

// rowMove is the place of column in the row above or below; ok is false at the edge.
func rowMove(line []rune, pos, column int, up bool) (to int, ok bool) {
	start := lineStart(line, pos)
	if up {
		if start == 0 {
			return pos, false
		}
		return min(lineStart(line, start-1)+column, start-1), true
	}
	end := lineEnd(line, pos)
	if end == len(line) {
		return pos, false
	}
	return min(end+1+column, lineEnd(line, end+1)), true
}

// recall shows an earlier line, or a later one. With prefix, and text before the
// cursor at its end when the walk begins, only those that begin with it count; if
// there is none, all do, so that Up is never without effect. A line that was written
// in place of a recalled one is looked for from the newest on, like any other.
func (t *Term) recall(up, prefix bool) {
	l := &t.loop
	e := &l.edit
	first := e.was != didRecall
	if first {
		e.want = ""
		if prefix && !l.now.searching && l.now.pos == len(l.now.line) {
			e.want = string(l.now.line)
		}
		if begun := l.now; up && e.want != "" && e.want != e.recalled {
			t.ends(false)
			t.put(begun.line, begun.pos)
		}
	}
	defer func() { e.recalled = string(l.now.line) }()
	if !prefix {
		e.want = ""
	}
	e.did = didRecall
	begins := func(text string) bool { return strings.HasPrefix(text, e.want) }
	if t.walk(up, begins) || e.want == "" || !first {
		return
	}
	e.want = ""
	t.walk(up, begins)
}

// walk goes through the earlier lines to the next other one that matches; if there
// is none, it stays where it is. readline holds them, and the line that was begun
// behind the newest.
func (t *Term) walk(up bool, match func(string) bool) bool {
	l := &t.loop
	ahead, back := "\x0e", "\x10"
	if up {
		ahead, back = back, ahead
	}
	start := l.now
	for n := range maxHistory + 2 {
		l.now = l.engine.press(ahead)
		if l.now.bell {
			for range n {
				l.now = l.engine.press(back)
			}
			if n > 0 || start.searching {
				t.put(start.line, start.pos)
			}
			return false
		}
		if text := string(l.now.line); match(text) && text != string(start.line) {
			return true
		}
	}
	return false
}

// ends goes to the oldest of the earlier lines, or back to the line that was begun.
func (t *Term) ends(oldest bool) {
	l := &t.loop
	l.edit.did = didRecall
	ahead := "\x0e"
	if oldest {
		ahead = "\x10"
	}
	for range maxHistory + 2 {
		if l.now = l.engine.press(ahead); l.now.bell {
			return
		}
	}
}
