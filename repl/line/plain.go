package line

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// plainRest is how long nothing is printed before the prompt is written again: a
// screen reader says it each time.
const plainRest = 200 * time.Millisecond

// maxPlainLine bounds one line of a plain input.
const maxPlainLine = 16 << 20

// Plain reads whole lines and writes whole lines: for pipes, dumb terminals and
// screen readers. Open makes one; the opener closes it. Safe for concurrent
// use.
type Plain struct {
	o      Options
	in     *source
	tty    bool
	events chan Event
	quit   chan struct{}
	done   chan struct{}
	closer sync.Once
	// patience is how long an output may take nothing, in nanoseconds; 0 is forever.
	patience atomic.Int64

	mu     sync.Mutex // guards the fields below
	asked  string     // the prompt that stands at the end of the output
	prompt string
	asking int  // the Prompt.Ask that stands there
	deaf   bool // nobody reads the output any more
	lent   bool // another program has the terminal
	closed bool
	// resting says that rest will write the prompt.
	resting bool
	rest    *time.Timer
	// waiting is what was printed meanwhile.
	waiting backlog
}

func newPlain(o Options) (LineReader, error) {
	if o.In == nil {
		return nil, errors.New("read lines: no input")
	}
	src, err := newSource(o.In)
	if err != nil {
		return nil, err
	}
	p := &Plain{
		o: o, in: src,
		tty:    term.IsTerminal(src.fd) && o.Out != nil && term.IsTerminal(int(o.Out.Fd())),
		events: make(chan Event), quit: make(chan struct{}), done: make(chan struct{}),
	}
	p.rest = time.AfterFunc(time.Hour, p.rested)
	go p.read()
	return p, nil
}

// Interactive reports whether somebody types and sees the answers; other lines
// are meant to be taken one after the other.
func (p *Plain) Interactive() bool { return p.tty }

// Events delivers the lines.
func (p *Plain) Events() <-chan Event { return p.events }

// Print writes whole lines; live rows have no place in plain output.
func (p *Plain) Print(text string, _ ...string) {
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(ended(text))
	p.rest.Reset(plainRest) // one prompt below all of it, not one below each line
	p.resting = true
}

// print writes whole lines, apart from the prompt; mu is held.
func (p *Plain) print(text string) {
	if p.asked != "" {
		text = "\n" + text
		p.asked = ""
	}
	p.write(text)
}

// Show writes the mark when somebody types and it is not there yet; the state
// in Text and the live rows have no place in plain output.
func (p *Plain) Show(prompt Prompt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = prompt.Mark
	if p.tty && prompt.Ask != p.asking && prompt.Ask != 0 {
		discard(p.in.fd) // whatever was typed is not an answer to what nobody had seen
	}
	asks := prompt.Ask != p.asking
	p.asking = prompt.Ask
	if prompt.Above != "" {
		p.print(ended(prompt.Above))
		asks = true
	}
	if asks || !p.resting {
		p.ask()
	}
}

// rested writes the prompt when nothing was printed for a moment.
func (p *Plain) rested() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = false
	if !p.closed {
		p.ask()
	}
}

// askingNow is the question that stands there.
func (p *Plain) askingNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asking
}

func (p *Plain) ask() {
	if !p.tty || p.lent || p.prompt == p.asked {
		return
	}
	if p.asked != "" {
		p.write("\n")
	}
	p.write(p.prompt)
	p.asked = p.prompt
}

// Edit does nothing: the line that is being typed belongs to the terminal's
// driver.
func (p *Plain) Edit(Change) {}

// Replace does nothing, as Edit.
func (p *Plain) Replace(string, int, string) {}

// Close stops reading. Who writes to an output that nobody takes is left behind.
func (p *Plain) Close() error {
	p.closer.Do(func() {
		close(p.quit)
		p.in.stop()
		p.rest.Stop()
		late := time.After(closeWait)
		select {
		case <-p.done:
			p.in.close()
		case <-late:
			return
		}
		for !p.mu.TryLock() {
			select {
			case <-late:
				return
			case <-time.After(time.Millisecond):
			}
		}
		defer p.mu.Unlock()
		p.closed = true
		if p.asked != "" {
			p.write("\n")
		}
	})
	return nil
}

// write sends text; after the first error nothing more is sent. mu is held.
func (p *Plain) write(s string) {
	if p.o.Out == nil || p.deaf {
		return
	}
	if p.lent {
		p.waiting.add(s, keptOutput)
		return
	}
	if err := p.put(s); err != nil {
		p.deaf = true
		if p.o.OnGone != nil && !errors.Is(err, errUntaken) {
			p.o.OnGone(err)
		}
	}
}

// errUntaken says that an output did not take what was written.
var errUntaken = errors.New("the output takes nothing")

const (
	// pipePiece is what a pipe takes at once when it says that it takes something.
	pipePiece = 4096
	// untakenLook is how often an output that takes nothing is looked at.
	untakenLook = 100 * time.Millisecond
)

// put writes to the output and waits as long as it is to be waited for.
func (p *Plain) put(s string) error {
	out := []unix.PollFd{{Fd: int32(p.o.Out.Fd()), Events: unix.POLLOUT}}
	for since := time.Now(); s != ""; {
		ready, err := unix.Poll(out, int(untakenLook.Milliseconds()))
		if ready == 0 && err == nil || errors.Is(err, unix.EINTR) {
			if most := p.patience.Load(); most > 0 && time.Since(since) > time.Duration(most) {
				return errUntaken
			}
			continue
		}
		n := min(len(s), pipePiece)
		if _, err := io.WriteString(p.o.Out, s[:n]); err != nil {
			return err
		}
		s, since = s[n:], time.Now()
	}
	return nil
}

// Hurry bounds how long an output may take nothing from now on: then all that is
// printed is dropped, so that nobody waits for it.
func (p *Plain) Hurry(most time.Duration) { p.patience.Store(int64(most)) }

func (p *Plain) read() {
	defer close(p.done)
	defer close(p.events)
	var held []byte
	more := false
	var text strings.Builder
	buf := make([]byte, 64<<10)
	asked := 0 // when what is held began to be typed
	for {
		n, err := p.in.read(buf, -1)
		if errors.Is(err, errStopped) {
			return
		}
		if len(held) == 0 && text.Len() == 0 {
			asked = p.askingNow()
		}
		p.in.done()
		held = append(held, buf[:n]...)
		for {
			i := bytes.IndexByte(held, '\n')
			if i < 0 && (err == nil || len(held) == 0) && len(held) < maxPlainLine {
				break
			}
			piece := held
			if i >= 0 {
				piece, held = held[:i], held[i+1:]
			} else {
				held = nil
			}
			more = p.line(&text, string(bytes.TrimSuffix(piece, []byte("\r"))), asked, err != nil && len(held) == 0)
			if !more {
				return
			}
		}
		if err != nil {
			p.end(err, &text)
			return
		}
	}
}

// line takes one physical line; a backslash at its end joins it to the next.
// It returns false when the reader was closed.
func (p *Plain) line(text *strings.Builder, piece string, asked int, last bool) bool {
	if body, joined := strings.CutSuffix(piece, `\`); joined && !last && !strings.HasSuffix(body, `\`) {
		text.WriteString(body + "\n")
		return true
	}
	whole := strings.ToValidUTF8(text.String()+piece, "\uFFFD")
	text.Reset()
	p.mu.Lock()
	p.asked = ""
	p.prompt = ""
	p.mu.Unlock()
	return p.send(Event{Kind: EventLine, Text: whole, Ask: asked})
}

func (p *Plain) end(err error, text *strings.Builder) {
	if text.Len() > 0 && !p.send(Event{Kind: EventLine, Text: strings.TrimSuffix(text.String(), "\n")}) {
		return
	}
	if errors.Is(err, io.EOF) {
		p.send(Event{Kind: EventEOF})
		return
	}
	p.send(Event{Kind: EventGone, Err: err})
}

func (p *Plain) send(e Event) bool {
	select {
	case p.events <- e:
		return true
	case <-p.quit:
		return false
	}
}

var (
	_ LineReader = (*Term)(nil)
	_ LineReader = (*Plain)(nil)
)
