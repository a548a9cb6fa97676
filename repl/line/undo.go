package line

import "slices"

const (
	// maxUndo and maxUndoRunes bound what can be undone.
	maxUndo      = 1000
	maxUndoRunes = 4 << 20
)

// group joins the changes of several keys that are undone in one step.
type group int

const (
	groupNone   group = iota
	groupType         // characters of a word
	groupInsert       // all of vi's insert mode
	groupTab          // walking through completions
	groupRecall       // walking through earlier lines
)

// undo holds the lines that were, newest last, and those that were undone. The
// zero undo is empty.
type undo struct {
	past, future []state
	open         group // with which the newest of past goes on
	runes        int   // in past
}

// note records a change.
func (u *undo) note(before, after state, g group) {
	if slices.Equal(before.line, after.line) {
		if g == groupNone {
			u.open = groupNone
		}
		return
	}
	if g == groupNone || g != u.open {
		u.push(before)
	}
	u.future, u.open = nil, g
}

func (u *undo) push(s state) {
	u.past = append(u.past, state{line: s.line, pos: s.pos})
	u.runes += len(s.line)
	drop := 0
	for len(u.past)-drop > maxUndo || u.runes > maxUndoRunes && drop < len(u.past)-1 {
		u.runes -= len(u.past[drop].line)
		drop++
	}
	if drop > 0 {
		u.past = slices.Clone(u.past[drop:])
	}
}

// back returns the line before the last change, now being undone.
func (u *undo) back(now state) (state, bool) {
	if len(u.past) == 0 {
		return state{}, false
	}
	s := u.past[len(u.past)-1]
	u.past = u.past[:len(u.past)-1]
	u.runes -= len(s.line)
	u.future = append(u.future, state{line: now.line, pos: now.pos})
	u.open = groupNone
	return s, true
}

// forth returns the line that was undone last.
func (u *undo) forth(now state) (state, bool) {
	if len(u.future) == 0 {
		return state{}, false
	}
	s := u.future[len(u.future)-1]
	u.future = u.future[:len(u.future)-1]
	u.push(now)
	u.open = groupNone
	return s, true
}

// undo gives back the line before the last change.
func (t *Term) undo() { t.undone(t.loop.edit.undo.back) }

// redo takes an undo back.
func (t *Term) redo() { t.undone(t.loop.edit.undo.forth) }

func (t *Term) undone(step func(state) (state, bool)) {
	t.loop.edit.did = didUndo
	if s, ok := step(t.loop.now); ok {
		t.put(s.line, s.pos)
	}
}
