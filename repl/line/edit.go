package line

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// editing is what the keys have begun and may go on with. The painting goroutine
// uses it.
type editing struct {
	vi      vi
	undo    undo
	kills   kills
	menu    *menu
	draft   draft
	was     did    // by the key before
	did     did    // by this key
	control bool   // C-x was pressed
	want    string // how the earlier lines begin that Up looks for
	from    int    // where what was yanked last, or taken from a line, begins
	back    int    // how many lines back M-. went
	column  int    // in which a walk through the rows began
	// recalled is the line as the last walk through the earlier ones left it.
	recalled string
	idle     string // the line in which a Tab changed nothing
}

// did is what a key did, when the next one may go on with it.
type did int

const (
	didElse did = iota
	didType
	didKill
	didYank
	didWord
	didRecall
	didRows
	didTab
	didIdle
	didUndo
)

// key does what one key asks for.
func (t *Term) key(k key) {
	l := &t.loop
	if t.vi() && k.code == keyAlt {
		// There is no Alt in vi: ESC and a letter came faster than the wait for it.
		t.key(key{code: keyEscape})
		k = key{code: keyRune, r: k.r, ask: k.ask}
	}
	e := &l.edit
	before := l.now
	e.was, e.did = e.did, didElse
	t.act(k)
	t.clamp()
	switch {
	case e.did == didUndo:
	case t.vi() && !e.vi.normal:
		e.undo.note(before, l.now, groupInsert)
	case e.did == didType:
		e.undo.note(before, l.now, groupType)
		if k.r == ' ' {
			e.undo.open = groupNone // a word at a time
		}
	case e.did == didTab:
		e.undo.note(before, l.now, groupTab)
	case e.did == didRecall || before.searching || l.now.searching:
		e.undo.note(before, l.now, groupRecall)
	default:
		e.undo.note(before, l.now, groupNone)
	}
	if k.code == keyEnter && len(l.now.line) == 0 {
		e.undo = undo{}
	}
}

// vi says which keys edit.
func (t *Term) vi() bool { return t.o.EditMode == "vi" }

// act does what a key asks for and leaves what can be undone to key.
func (t *Term) act(k key) {
	e := &t.loop.edit
	if k.code == keyTab || k.code == keyBackTab {
		if t.vi() {
			t.viTab()
		}
		t.tab(k.code == keyBackTab)
		return
	}
	walked := e.menu
	e.menu = nil
	if k.code == keyEscape && walked.walking() {
		t.put(walked.line, walked.pos)
		return
	}
	if e.control && k.code != keyStopped {
		e.control = false
		t.afterControlX(k)
		return
	}
	if t.vi() && t.viKey(k) {
		return
	}
	t.plainKey(k)
}

// plainKey is a key of emacs mode, or of vi's insert mode.
func (t *Term) plainKey(k key) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	switch k.code {
	case keyEnter:
		t.submit()
	case keyStopped:
		t.emit(Event{Kind: EventStopped})
	case keyNewline:
		if l.now.searching {
			t.put(line, pos) // it takes what was found, as in readline
			return
		}
		t.insert("\n")
	case keyPaste:
		t.paste(k.text)
	case keyControl:
		t.controlKey(k.r)
	case keyBackspace:
		if l.now.searching {
			l.now = l.engine.press("\x7f")
			return
		}
		t.remove(left(line, pos), pos)
	case keyDelete:
		t.remove(pos, right(line, pos))
	case keyUp, keyDown:
		t.vertical(k.code == keyUp, true)
	case keyPageUp, keyPageDown:
		t.recall(k.code == keyPageUp, true)
	case keyEscape:
		if l.now.searching {
			l.now = l.engine.press("\x07")
		}
	case keyRune:
		if k.r != barrierRune && k.r != setRune && !isToken(k.r) {
			l.edit.did = didType
			l.now = l.engine.press(string(k.r))
		}
	case keyAlt:
		t.metaKey(k.r)
	default:
		t.motionKey(k.code)
	}
}

// motionKey is a key of its own for what a control key does as well.
func (t *Term) motionKey(c code) {
	line, pos := t.loop.now.line, t.loop.now.pos
	switch c {
	case keyLeft:
		t.move(left(line, pos))
	case keyRight:
		t.move(right(line, pos))
	case keyHome:
		t.move(lineStart(line, pos))
	case keyEnd:
		t.move(lineEnd(line, pos))
	case keyWordLeft:
		t.move(wordLeft(line, pos))
	case keyWordRight:
		t.move(wordRight(line, pos))
	case keyWordBackspace:
		t.kill(wordLeft(line, pos), pos)
	case keyWordDelete:
		t.kill(pos, wordRight(line, pos))
	}
}

func (t *Term) controlKey(r rune) {
	l := &t.loop
	line, pos := l.now.line, l.now.pos
	switch r {
	case 3: // Ctrl-C
		text := l.fold.unfold(l.engine.clear())
		l.now = l.engine.snapshot()
		l.edit.vi.rest()
		t.tellDraft()
		t.emit(Event{Kind: EventInterrupt, Text: text})
	case 4: // Ctrl-D
		if len(line) == 0 && !l.now.searching {
			t.tellDraft() // before the one who reads the event says what is kept
			t.emit(Event{Kind: EventEOF})
			return
		}
		t.remove(pos, right(line, pos))
	case 12: // Ctrl-L
		l.screen.shown = frame{}
		t.write("\x1b[H\x1b[2J")
	case 26: // Ctrl-Z
		// As the terminal does for a program in cooked mode: to the whole group.
		_ = unix.Kill(0, unix.SIGTSTP)
	case 7: // C-g
		if l.now.searching {
			l.now = l.engine.press("\x07")
		}
	case 18, 19: // C-r, C-s
		t.search(string(r))
	default:
		t.emacsKey(r)
	}
}

// search begins a search or goes on to the next place.
func (t *Term) search(k string) {
	l := &t.loop
	before := l.now
	l.now = l.engine.press(k)
	if before.searching && l.now.search != before.search && l.now.pos != before.pos && slices.Equal(l.now.line, before.line) {
		l.now = l.engine.press(k) // the other way: readline finds the same place again first
	}
}

// submit ends the line; one that ends in a backslash goes on instead.
func (t *Term) submit() {
	l := &t.loop
	n := len(l.now.line)
	if n > 0 && l.now.line[n-1] == '\\' && !l.now.searching && (n < 2 || l.now.line[n-2] != '\\') {
		t.put(append(slices.Clone(l.now.line[:n-1]), '\n'), n)
		l.edit.vi.rest()
		return
	}
	text := l.fold.unfold(l.engine.enter())
	l.now = l.engine.snapshot()
	l.edit.vi.rest()
	t.tellDraft()
	t.emit(Event{Kind: EventLine, Text: text, Ask: l.typed})
}

// edit replaces the line by what change makes of it. The cursor keeps its place
// when the old line is the end of the new one.
func (t *Term) edit(change Change) {
	l := &t.loop
	old, fromEnd := string(l.now.line), 0
	text := l.fold.own(change(old, func(text string) string { return l.fold.fold(l.fold.unfold(text)) }))
	if text == old {
		return
	}
	if strings.HasSuffix(text, old) {
		fromEnd = len(l.now.line) - l.now.pos
	}
	before, next := l.now, []rune(text)
	l.edit.menu = nil
	t.put(next, len(next)-fromEnd)
	t.clamp()
	l.edit.undo.note(before, l.now, groupNone)
}

// put replaces the line and the cursor.
func (t *Term) put(line []rune, pos int) { t.loop.now = t.loop.engine.set(line, pos) }

// move sets the cursor, to the beginning of a character.
func (t *Term) move(pos int) {
	l := &t.loop
	pos = min(max(pos, 0), len(l.now.line))
	if pos < len(l.now.line) {
		pos = left(l.now.line, pos+1)
	}
	if pos != l.now.pos || l.now.searching {
		t.put(l.now.line, pos)
	}
}

// replace puts piece in place of a part of the line, the cursor behind it.
func (t *Term) replaceSpan(from, to int, piece []rune) {
	t.put(spliced(t.loop.now.line, from, to, piece), from+len(piece))
}

// spliced is a new line with piece in place of a part of the old one.
func spliced(line []rune, from, to int, piece []rune) []rune {
	out := make([]rune, 0, len(line)-(to-from)+len(piece))
	out = append(out, line[:from]...)
	out = append(out, piece...)
	return append(out, line[to:]...)
}

// insert puts text at the cursor in one step.
func (t *Term) insert(text string) {
	pos := t.loop.now.pos
	t.replaceSpan(pos, pos, []rune(text))
}

// paste puts what was pasted at the cursor; into a search it goes as typed.
func (t *Term) paste(text string) {
	l := &t.loop
	if l.now.searching && textOnly([]byte(text)) && len(text) <= foldBytes && !strings.ContainsAny(text, "\n\t") {
		l.now = l.engine.press(l.fold.own(text))
		return
	}
	t.insert(l.fold.fold(text))
}

// remove takes a part of the line away.
func (t *Term) remove(from, to int) {
	if from < to {
		t.replaceSpan(from, to, nil)
	}
}

// openEditor hands the line to whoever reads the events.
func (t *Term) openEditor() {
	l := &t.loop
	t.tellDraft()
	t.emit(Event{Kind: EventEditor, Text: l.fold.unfold(string(l.now.line)), Ask: l.asked})
}
