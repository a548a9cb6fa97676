package line

import (
	"slices"
	"time"
)

const (
	// draftRest is how long the line rests before OnDraft is told.
	draftRest = 300 * time.Millisecond
	// draftLate is how long a line that never rests may stay untold.
	draftLate = 2 * time.Second
)

// draft is what OnDraft was told.
type draft struct {
	seen  []rune    // the line as last seen
	since time.Time // of the first change that is untold; zero for none
	told  string
	timer *time.Timer
}

// restTimer makes the timer for the rest of the line.
func (t *Term) restTimer() *time.Timer {
	d := &t.loop.edit.draft
	if d.timer == nil {
		d.timer = time.NewTimer(time.Hour)
	}
	return d.timer
}

// startDraft puts Options.Draft into the empty line.
func (t *Term) startDraft() {
	if t.o.Draft == "" {
		return
	}
	l := &t.loop
	text := []rune(l.fold.fold(t.o.Draft))
	t.put(text, len(text))
	l.edit.draft.seen, l.edit.draft.told = l.now.line, t.o.Draft
}

// noteDraft sees to it that OnDraft will be told of a changed line. What is typed
// for a question is no draft: the line that was begun before it is.
func (t *Term) noteDraft() {
	l := &t.loop
	d := &l.edit.draft
	if t.o.OnDraft == nil || l.asked != 0 || slices.Equal(d.seen, l.now.line) {
		return
	}
	d.seen = l.now.line
	switch now := time.Now(); {
	case d.since.IsZero():
		d.since = now
	case now.Sub(d.since) > draftLate:
		t.tellDraft()
		return
	}
	t.restTimer().Reset(draftRest)
}

// tellDraft tells OnDraft of the line when it is another one than it was told.
func (t *Term) tellDraft() {
	l := &t.loop
	d := &l.edit.draft
	if t.o.OnDraft == nil || l.asked != 0 {
		return
	}
	d.seen, d.since = l.now.line, time.Time{}
	if text := l.fold.unfold(string(l.now.line)); text != d.told {
		d.told = text
		t.o.OnDraft(text)
	}
}

// leaveLine ends what was begun in the line before it is put aside for another.
func (t *Term) leaveLine() {
	t.tellDraft()
	e := &t.loop.edit
	e.vi.rest()
	e.undo, e.menu, e.control, e.did = undo{}, nil, false, didElse
}
