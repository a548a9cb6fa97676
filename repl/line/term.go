package line

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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
	sigs   chan os.Signal
	wake   chan struct{}
	quit   chan struct{}
	read   chan struct{} // closed when the reading goroutine ended
	served chan struct{} // closed when the painting goroutine ended
	closer sync.Once

	mu      sync.Mutex // guards the fields below
	keys    []key
	printed strings.Builder
	want    Prompt
	changed bool
	urgent  bool
	sets    []setRequest
	gone    error
	modal   *modal

	loop loopState // used by the painting goroutine only
}

// setRequest asks for another line; the old one goes to old.
type setRequest struct {
	text string
	old  chan<- string
}

// loopState belongs to the painting goroutine.
type loopState struct {
	engine     *engine
	now        state
	fold       folder
	screen     screen
	cols, rows int
	outbox     []Event
	painted    time.Time
	due        bool   // a repaint that was put off is due
	want       Prompt // as of the last drain, so that it never overtakes a Print
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
		events: make(chan Event), sigs: make(chan os.Signal, 4), wake: make(chan struct{}, 1), quit: make(chan struct{}),
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
	t.loop.screen.reflows = reflows(o.Getenv)
	t.loop.cols, t.loop.rows = Size(o.Out)
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
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	t.mu.Lock()
	t.printed.WriteString(text)
	t.want.Live = live
	t.mu.Unlock()
	t.signal()
}

// Show sets what stands below the printed text.
func (t *Term) Show(p Prompt) {
	t.mu.Lock()
	t.want, t.changed, t.urgent = p, true, t.urgent || p.Now
	t.mu.Unlock()
	t.signal()
}

// SetText replaces the half-typed line and returns the old one.
func (t *Term) SetText(text string) string {
	answer := make(chan string, 1)
	t.mu.Lock()
	t.sets = append(t.sets, setRequest{text: text, old: answer})
	t.mu.Unlock()
	t.signal()
	select {
	case old := <-answer:
		return old
	case <-t.served:
		return ""
	}
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
		_, _ = io.WriteString(t.o.Out, s)
	}
}

// readKeys is the reading goroutine.
func (t *Term) readKeys() {
	defer close(t.read)
	var d decoder
	buf := make([]byte, 4096)
	for {
		wait := time.Duration(-1)
		if d.pending() {
			wait = escapeWait
		}
		n, err := t.in.read(buf, wait)
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
	signal.Notify(t.sigs, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(t.sigs)
	l := &t.loop
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	for {
		t.drain()
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
			t.drain()
			return
		case <-t.wake:
		case <-l.timer.C:
			l.due = true
		case out <- first:
			l.outbox = l.outbox[1:]
		case s := <-t.sigs:
			t.onSignal(s)
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
		t.write(t.loop.screen.erase() + pasteOff)
	}
	_ = term.Restore(t.fd, t.saved)
	t.loop.engine.close()
}

// drain does all that was queued.
func (t *Term) drain() {
	t.mu.Lock()
	keys, text, gone := t.keys, t.printed.String(), t.gone
	t.loop.want = t.want
	changed, urgent := t.changed, t.urgent
	t.changed, t.urgent = false, false
	sets, inModal := t.sets, t.modal
	t.keys, t.sets = nil, nil
	if inModal == nil || !inModal.entered {
		t.printed.Reset() // what was printed before the loan is shown before it
	} else {
		text = ""
	}
	t.mu.Unlock()
	if len(keys) > 0 || text != "" {
		t.resized() // the signal may still be on its way
	}
	for _, r := range sets {
		r.old <- t.loop.fold.unfold(string(t.loop.now.line))
		next := []rune(t.loop.fold.fold(r.text))
		t.loop.now = t.loop.engine.set(next, len(next))
	}
	for _, k := range keys {
		if inModal != nil {
			inModal.put(k)
			continue
		}
		t.key(k)
	}
	if gone != nil && !t.loop.ended {
		t.loop.ended = true
		t.loop.outbox = append(t.loop.outbox, Event{Kind: EventGone, Err: gone})
		if inModal != nil {
			inModal.cancel(gone)
		}
		return
	}
	if inModal != nil {
		t.enterModal(inModal, text)
		return
	}
	if text != "" {
		t.write(t.loop.screen.printAbove(text, t.layout()))
		t.loop.painted = time.Now()
		return
	}
	t.repaint(len(keys) > 0 || len(sets) > 0 || urgent, changed)
}

// repaint paints what changed; without now it keeps to paintEvery.
func (t *Term) repaint(now, changed bool) {
	l := &t.loop
	if l.ended {
		return
	}
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
	return layout(t.loop.want, t.loop.now, t.loop.cols, t.loop.rows)
}

func (t *Term) emit(e Event) { t.loop.outbox = append(t.loop.outbox, e) }

func (t *Term) onSignal(s os.Signal) {
	if s == unix.SIGCONT {
		t.resume()
		return
	}
	t.resized()
}

func (t *Term) resized() {
	l := &t.loop
	cols, rows := Size(t.o.Out)
	if cols == l.cols && rows == l.rows {
		return
	}
	l.cols, l.rows = cols, rows
	t.mu.Lock()
	inModal := t.modal != nil
	t.mu.Unlock()
	if !inModal {
		erase := l.screen.resize(cols)
		t.write(erase + l.screen.paint(t.layout()))
	}
	t.emit(Event{Kind: EventResize, Cols: cols, Rows: rows})
}

// suspend gives the terminal back and stops the process group, as the terminal
// itself does for a program in cooked mode; it returns when the group goes on.
// In an orphaned group the kernel ignores the signal, no SIGCONT comes, and
// work goes on after suspendWait.
func (t *Term) suspend() {
	t.write(t.loop.screen.erase() + pasteOff)
	_ = term.Restore(t.fd, t.saved)
	_ = unix.Kill(0, unix.SIGTSTP)
	late := time.NewTimer(suspendWait)
	defer late.Stop()
	for resumed := false; !resumed; {
		select {
		case s := <-t.sigs:
			resumed = s == unix.SIGCONT
		case <-late.C:
			resumed = true
		case <-t.quit:
			return
		}
	}
	t.resume()
}

// resume takes the terminal again after a stop. The rows that were shown before
// it belong to the past: whatever the shell printed since stands below them.
func (t *Term) resume() {
	l := &t.loop
	if _, err := term.MakeRaw(t.fd); err != nil {
		return
	}
	erase := "\r\x1b[J"
	if time.Since(l.resumed) < suspendWait {
		erase = l.screen.erase() // the same stop, noticed twice
	}
	l.resumed = time.Now()
	l.cols, l.rows = Size(t.o.Out)
	l.screen.shown = frame{}
	t.write(erase + pasteOn + l.screen.paint(t.layout()))
}

// Modal lends the terminal to f, on the caller's goroutine: keys arrive as the
// bytes a terminal sends for them, output of others waits, and the prompt comes
// back when f returns. Only one loan runs at a time; ctx ending cancels it.
func (t *Term) Modal(ctx context.Context, f func(ctx context.Context, keys Keys, out io.Writer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &modal{ready: make(chan struct{}), cancel: cancel}
	t.mu.Lock()
	if t.modal != nil {
		t.mu.Unlock()
		return errors.New("the terminal is lent already")
	}
	t.modal = m
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.modal, t.urgent = nil, true
		t.mu.Unlock()
		t.signal()
	}()
	t.signal()
	select {
	case <-m.ready:
	case <-t.served:
		return os.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return f(ctx, m, t.o.Out)
}
