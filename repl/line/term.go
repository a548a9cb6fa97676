package line

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

const (
	// escapeWait is how long a lone ESC may be the start of a sequence.
	escapeWait = 30 * time.Millisecond
	// paintEvery is the shortest time between two repaints that only change
	// the look of the prompt.
	paintEvery = 100 * time.Millisecond
	// closeWait bounds how long Close waits for a terminal that takes no
	// output; its modes are restored in any case.
	closeWait = 500 * time.Millisecond
	// suspendWait is how long a stop may take to strike.
	suspendWait = 300 * time.Millisecond
	// slowPaint is how long a terminal takes that does not take output.
	slowPaint = 300 * time.Millisecond

	pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"
)

// Term is the terminal with cursor movement. Two goroutines serve it: one reads
// and decodes keys and hands a Ctrl-C on at once, the other edits and paints.
// Open makes one; the opener closes it. Safe for concurrent use.
type Term struct {
	o      Options
	in     *source
	saved  *term.State
	fd     int
	events chan Event
	sigs   signals
	wake   chan struct{}
	quit   chan struct{}
	read   chan struct{} // closed when the reading goroutine ended
	served chan struct{} // closed when the painting goroutine ended
	closer sync.Once
	// writing is when the write that is going on began, in nanoseconds, or 0.
	writing atomic.Int64

	mu       sync.Mutex // guards the fields below
	keys     []key
	printed  backlog
	want     Prompt
	changed  bool
	urgent   bool
	edits    []Change
	replaced []replacement
	asking   int // the Prompt.Ask for which keys are typed
	gone     error
	modal    *modal
	rings    string // bytes that draw nothing

	loop loopState // used by the painting goroutine only
}

// loopState belongs to the painting goroutine.
type loopState struct {
	engine     *engine
	now        state
	fold       folder
	edit       editing // what the keys have begun
	screen     screen
	storm      storm
	cols, rows int
	outbox     []Event
	painted    time.Time
	due        bool   // a repaint that was put off is due
	asked      int    // the Prompt.Ask that the line is for
	typed      int    // the one under which the key that is dealt with was typed
	want       Prompt // what is shown below the text that is printed
	printing   printing
	resumed    time.Time
	timer      *time.Timer
	ended      bool
}

func openTerm(o Options) (LineReader, error) {
	fd := int(o.In.Fd())
	saved, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	t := &Term{
		o: o, fd: fd, saved: saved,
		events: make(chan Event), sigs: newSignals(), wake: make(chan struct{}, 1), quit: make(chan struct{}),
		read: make(chan struct{}), served: make(chan struct{}),
	}
	t.in, err = newSource(o.In)
	if err == nil {
		t.loop.engine, err = newEngine(o.History)
	}
	if err != nil {
		_ = term.Restore(fd, saved)
		return nil, err
	}
	t.loop.screen.simple = inScreen(o.Getenv)
	t.loop.screen.reflows, t.loop.storm.rests = reflows(o.Getenv), restsIn(o.Getenv)
	t.loop.cols, t.loop.rows = Size(o.Out)
	t.startDraft()
	t.loop.screen.cols = t.loop.cols
	t.write(pasteOn)
	go t.readKeys()
	go t.serve()
	return t, nil
}

// Events delivers what the user does.
func (t *Term) Events() <-chan Event { return t.events }

// Print queues whole lines for the place above the prompt.
func (t *Term) Print(text string, live ...string) {
	if text == "" {
		return
	}
	t.mu.Lock()
	t.queue(ended(text))
	t.want.Live = live
	t.mu.Unlock()
	t.signal()
}

// ended is text with a newline at its end.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// Show sets what stands below the printed text.
func (t *Term) Show(p Prompt) {
	t.mu.Lock()
	t.queue(ended(p.Above))
	t.want, t.changed, t.urgent = p, true, t.urgent || p.Now
	t.mu.Unlock()
	t.signal()
}

// Edit replaces the half-typed line by what change makes of it.
func (t *Term) Edit(change Change) {
	t.mu.Lock()
	t.edits = append(t.edits, change)
	t.mu.Unlock()
	t.signal()
}

// Close gives the terminal back. It may be called more than once.
func (t *Term) Close() error {
	var err error
	t.closer.Do(func() {
		close(t.quit)
		t.in.stop()
		select {
		case <-t.served:
			<-t.read
			t.in.close()
		case <-time.After(closeWait):
			// The terminal takes no output: leave its goroutine in the write.
		}
		err = term.Restore(t.fd, t.saved)
	})
	return err
}

func (t *Term) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// write sends bytes to the terminal; a terminal that is gone is noticed by the
// reader.
func (t *Term) write(s string) {
	if s != "" {
		t.writing.Store(time.Now().UnixNano())
		_, _ = io.WriteString(t.o.Out, s)
		t.writing.Store(0)
	}
}

// readKeys is the reading goroutine.
func (t *Term) readKeys() {
	defer close(t.read)
	d := decoder{paster: paster{bare: bare(t.o.Getenv)}}
	buf := make([]byte, 4096)
	for {
		n, err := t.in.read(buf, d.patience())
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			t.mu.Lock()
			t.gone = err
			t.mu.Unlock()
			t.signal()
			return
		}
		keys := d.feed(buf[:n])
		if n == 0 {
			keys = d.flush()
		}
		t.accept(keys)
		t.in.done()
	}
}

// accept queues keys for the painting goroutine; of a Ctrl-C that stopped work
// only its place among them is left.
func (t *Term) accept(keys []key) {
	for _, k := range keys {
		t.mu.Lock()
		inModal := t.modal != nil
		t.mu.Unlock()
		if k.code == keyControl && k.r == 3 && !inModal && t.o.OnInterrupt != nil && t.o.OnInterrupt() {
			k = key{code: keyStopped}
		}
		t.mu.Lock()
		k.ask = t.asking
		t.keys = append(t.keys, k)
		t.mu.Unlock()
	}
	t.signal()
}

// serve is the painting goroutine.
func (t *Term) serve() {
	defer close(t.served)
	defer close(t.events)
	defer t.leave()
	defer t.tellDraft()
	t.sigs.watch()
	defer t.sigs.ignore()
	l := &t.loop
	l.timer, l.storm.timer = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer l.timer.Stop()
	defer l.storm.timer.Stop()
	for {
		if t.drain() {
			t.signal()
		}
		if l.ended && len(l.outbox) == 0 {
			return
		}
		var out chan Event
		var first Event
		if len(l.outbox) > 0 {
			out, first = t.events, l.outbox[0]
		}
		select {
		case <-t.quit:
			t.endLoan(os.ErrClosed)
			for more := true; more && !l.ended; {
				more = t.drain()
			}
			return
		case <-t.wake:
		case <-l.timer.C:
			l.due = true
		case <-t.restTimer().C:
			t.tellDraft()
		case out <- first:
			l.outbox = l.outbox[1:]
		case <-t.sigs.resized:
		case <-l.storm.timer.C:
		case <-t.sigs.stop:
			t.suspend()
		case <-t.sigs.proceed:
			t.resume()
		}
	}
}

// leave takes the prompt off the screen and restores the terminal, also when
// serve panics.
func (t *Term) leave() {
	t.mu.Lock()
	gone := t.gone != nil
	t.mu.Unlock()
	if !gone {
		t.write(t.off() + pasteOff)
	}
	_ = term.Restore(t.fd, t.saved)
	t.loop.engine.close()
}

// batch takes what was printed and what is wanted below it, once what was taken
// before is written. last says that the next piece is the last one of it: what is
// wanted is shown with it.
func (t *Term) batch() (piece string, last bool) {
	p := &t.loop.printing
	t.mu.Lock()
	m := t.modal
	if p.text == "" {
		if m == nil || !m.entered { // what was printed before the loan is shown before it
			p.text = t.printed.take()
		}
		p.want = t.want
		p.changed, p.urgent = p.changed || t.changed, p.urgent || t.urgent
		t.changed, t.urgent = false, false
	}
	t.mu.Unlock()
	piece = p.piece()
	last = len(piece) == len(p.text)
	if m == nil && last && p.want.Ask != 0 && p.want.Ask != t.loop.asked {
		t.in.settle() // what was typed up to now is not for the question
	}
	return piece, last
}

// drain does what was queued; it returns true when it has to go on at once.
func (t *Term) drain() (more bool) {
	t.takeBack()
	l := &t.loop
	piece, last, held := "", false, !l.ended && t.held()
	if !held {
		piece, last = t.batch()
	}
	t.mu.Lock()
	if t.modal == nil && last {
		t.asking = l.printing.want.Ask // from here on: it is painted below
	}
	keys, gone := t.keys, t.gone
	edits, replaced, m := t.edits, t.replaced, t.modal
	t.keys, t.edits, t.replaced = nil, nil, nil
	t.mu.Unlock()
	if l.ended {
		return false // nothing is written to a terminal that is gone
	}
	for _, change := range edits {
		t.edit(change)
	}
	for _, r := range replaced {
		t.replace(r)
	}
	t.press(keys, m)
	if gone != nil {
		t.tellDraft()
		l.ended = true
		t.emit(Event{Kind: EventGone, Err: gone})
		if m != nil {
			m.cancel(gone)
		}
		return false
	}
	if held {
		t.noteDraft()
		return false
	}
	touched := len(keys)+len(edits)+len(replaced) > 0
	if touched && m == nil && len(piece) > beside {
		t.repaint(true, true)
	}
	l.printing.text = l.printing.text[len(piece):]
	if last {
		l.want = l.printing.want
	} else {
		l.want.Live = nil // it may be part of what is being printed
	}
	if m != nil && last {
		t.enterModal(m, piece)
		return false
	}
	turned, began := last && m == nil && t.turn(), time.Now()
	t.noteDraft()
	if piece != "" {
		t.print(piece)
	} else {
		t.repaint(touched || l.printing.urgent || turned, l.printing.changed)
	}
	if last {
		l.printing.changed, l.printing.urgent = false, false
	}
	if turned && time.Since(began) > slowPaint {
		t.unseen()
	}
	t.ring()
	return !last || t.waiting()
}

// waiting reports whether something is wanted since the last batch was taken.
func (t *Term) waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed || t.urgent || len(t.printed.b) > 0 && t.modal == nil
}

// press does what the keys ask for; a loan of the terminal gets them instead.
func (t *Term) press(keys []key, m *modal) {
	l := &t.loop
	for _, k := range keys {
		if m != nil {
			t.lentKey(m, k)
			continue
		}
		if l.asked != 0 && k.ask != l.asked && k.code != keyStopped {
			continue // nobody had seen the question
		}
		l.typed = k.ask
		t.key(k)
	}
}

// unseen drops what was typed while a question could not be painted.
func (t *Term) unseen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = slices.DeleteFunc(t.keys, func(k key) bool { return k.ask != 0 && k.code != keyStopped })
}

// turn makes the line one for the question that is to be painted now.
func (t *Term) turn() bool {
	l := &t.loop
	if l.want.Ask == l.asked {
		return false
	}
	t.leaveLine()
	l.asked = l.want.Ask
	if l.want.Turn != nil {
		t.edit(l.want.Turn)
	}
	return true
}

// repaint paints what changed; without now it keeps to paintEvery.
func (t *Term) repaint(now, changed bool) {
	l := &t.loop
	if !now && !l.due {
		if !changed {
			return
		}
		if wait := paintEvery - time.Since(l.painted); wait > 0 {
			l.timer.Reset(wait)
			return
		}
	}
	l.due = false
	if out := l.screen.paint(t.layout()); out != "" {
		t.write(out)
		l.painted = time.Now()
	}
}

// layout builds the frame for what is wanted now.
func (t *Term) layout() frame {
	p, s := t.shown()
	return layout(p, s, t.loop.cols, t.loop.rows)
}

func (t *Term) emit(e Event) { t.loop.outbox = append(t.loop.outbox, e) }
