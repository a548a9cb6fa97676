package line

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/chzyer/readline"
)

// Two noncharacters that no keyboard sends. barrierRune passes through readline
// behind a key and proves that the key was handled; setRune makes the listener
// replace the line.
const (
	barrierRune = '\U0010FFFF'
	setRune     = '\U0010FFFE'
)

// noMatch stands before what no earlier line holds.
const noMatch = "no match: "

// engineKick is how often a wait for readline renews its permission to read.
const engineKick = 50 * time.Millisecond

// state is what the editing engine holds.
type state struct {
	line   []rune
	pos    int // index into line
	search string
	// searching says that reverse or forward search is on; search is the
	// wanted text with its direction, as readline words it.
	searching bool
	bell      bool  // readline could not do what the key asked for
	menu      *menu // what stands below the line, as drawn
}

// engine is chzyer/readline without a terminal: it is fed one key at a time,
// draws nothing, and after each key says what the line is. Drawing is done by
// screen, because readline wipes partial lines, drifts with wide characters and
// redraws a paste once per character. Not safe for concurrent use: one
// goroutine presses the keys.
type engine struct {
	rl    *readline.Instance
	in    *feed
	lines chan string // submitted lines
	gate  chan state  // the state at each barrier
	done  chan struct{}
	past  []string // submitted lines, oldest first, with tokens

	mu     sync.Mutex // guards the fields below
	now    state
	wanted *state // what the next setRune puts in place
}

// newEngine starts the engine with earlier lines, oldest first.
func newEngine(history []string) (*engine, error) {
	e := &engine{
		in:    newFeed(),
		lines: make(chan string, 1),
		gate:  make(chan state, 1),
		done:  make(chan struct{}),
	}
	no := func() error { return nil }
	cfg := &readline.Config{
		Stdin:             e.in,
		Stdout:            (*sniffer)(e),
		Stderr:            io.Discard,
		HistoryLimit:      maxHistory,
		HistorySearchFold: true,
		UniqueEditLine:    true,
		// Not all that is submitted is kept: record says what.
		DisableAutoSaveHistory: true,
		FuncMakeRaw:            no,
		FuncExitRaw:            no,
		FuncIsTerminal:         func() bool { return false },
		FuncGetWidth:           func() int { return 80 },
		FuncOnWidthChanged:     func(func()) {},
		FuncFilterInputRune:    e.filter,
	}
	cfg.SetListener(e.changed)
	rl, err := readline.NewEx(cfg)
	if err != nil {
		return nil, err
	}
	e.rl = rl
	for _, h := range history {
		e.record(h)
	}
	go e.read()
	e.set(nil, 0) // readline's search needs a current history entry
	return e, nil
}

// read keeps readline reading until its input ends.
func (e *engine) read() {
	defer close(e.done)
	for {
		text, err := e.rl.Readline()
		if err == io.EOF {
			return
		}
		e.lines <- text
	}
}

// press feeds bytes that never submit and returns the state after them.
func (e *engine) press(b string) state {
	e.mu.Lock()
	before := e.now
	e.now.bell = false
	e.mu.Unlock()
	e.in.push(b + string(barrierRune))
	s := e.wait()
	if before.searching && !s.searching {
		// The line found is readline's own history entry, not a copy of it.
		return e.set(s.line, s.pos)
	}
	return s
}

// record makes text one of the earlier lines, unless it is empty or begins with a
// blank: so a line is marked that nobody is to find again. readline then stands
// behind the newest line in any case.
func (e *engine) record(text string) {
	if private(text) {
		text = ""
	}
	_ = e.rl.SaveHistory(text) // no file is open, so nothing can fail
	if text == "" || len(e.past) > 0 && e.past[len(e.past)-1] == text {
		return
	}
	e.past = append(e.past, text)
	if over := len(e.past) - maxHistory; over > 0 {
		e.past = append([]string(nil), e.past[over:]...)
	}
}

// place adds to what is searched for which of the lines that hold it was found.
func (e *engine) place(s state) string {
	_, query, ok := strings.Cut(s.search, ": ")
	if !ok || query == "" || strings.HasPrefix(s.search, noMatch) {
		return s.search
	}
	query = strings.ToLower(query)
	line, n, at := string(s.line), 0, 0
	for i := len(e.past) - 1; i >= 0; i-- {
		if !strings.Contains(strings.ToLower(e.past[i]), query) {
			continue
		}
		n++
		if at == 0 && e.past[i] == line {
			at = n
		}
	}
	if at == 0 {
		return s.search
	}
	return fmt.Sprintf("%s (%d of %d)", s.search, at, n)
}

func (e *engine) wait() state {
	t := time.NewTicker(engineKick)
	defer t.Stop()
	for {
		select {
		case s := <-e.gate:
			return s
		case <-e.done:
			return e.snapshot()
		case <-t.C:
			e.rl.Terminal.KickRead()
		}
	}
}

// enter submits the line; the engine then holds an empty one.
func (e *engine) enter() string {
	text := e.submit("\r")
	e.record(text)
	return text
}

// clear empties the line without recording it and returns what it was.
func (e *engine) clear() string {
	if e.snapshot().searching {
		e.press("\x07")
	}
	return e.submit("\x03")
}

func (e *engine) submit(b string) string {
	e.in.push(b)
	t := time.NewTicker(engineKick)
	defer t.Stop()
	for {
		select {
		case text := <-e.lines:
			e.mu.Lock()
			e.now = state{}
			e.mu.Unlock()
			e.press("")
			return text
		case <-e.done:
			return ""
		case <-t.C:
			e.rl.Terminal.KickRead()
		}
	}
}

// set replaces the line and the cursor.
func (e *engine) set(text []rune, pos int) state {
	e.mu.Lock()
	e.wanted = &state{line: append([]rune(nil), text...), pos: min(max(pos, 0), len(text))}
	leave := ""
	if e.now.searching {
		leave = "\x05" // any key but a search key ends the search and keeps the line
	}
	e.mu.Unlock()
	e.in.push(leave + string(setRune) + string(barrierRune))
	return e.wait()
}

func (e *engine) snapshot() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// close ends readline and its goroutines and waits for them.
func (e *engine) close() {
	e.in.Close()
	t := time.NewTicker(engineKick)
	defer t.Stop()
	for ended := false; !ended; {
		select {
		case <-e.done:
			ended = true
		case <-e.lines: // readline submits what stood there when its input ends
		case <-t.C:
			e.rl.Terminal.KickRead()
		}
	}
	_ = e.rl.Close()
}

// filter runs on readline's goroutine for each rune.
func (e *engine) filter(r rune) (rune, bool) {
	if r != barrierRune {
		return r, true
	}
	e.mu.Lock()
	e.now.searching = e.rl.Operation.IsSearchMode()
	if !e.now.searching {
		e.now.search = ""
	}
	s := e.now
	e.mu.Unlock()
	e.gate <- s
	return r, false
}

// changed runs on readline's goroutine after each key.
func (e *engine) changed(text []rune, pos int, r rune) ([]rune, int, bool) {
	if r == 0 {
		return nil, 0, false // the call at the start of each Readline
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r == setRune && e.wanted != nil {
		e.now.line, e.now.pos = e.wanted.line, e.wanted.pos
		e.wanted = nil
		return append([]rune(nil), e.now.line...), e.now.pos, true
	}
	e.now.line, e.now.pos = text, pos
	return nil, 0, false
}

// sniffer reads the state of the search from what readline would draw; readline
// has no other way to say it.
type sniffer engine

// Write looks for the search prompt and drops everything.
func (s *sniffer) Write(p []byte) (int, error) {
	const marker = "-i-search: "
	i := bytes.Index(p, []byte(marker))
	if i < 0 {
		if len(p) == 1 && p[0] == readline.CharBell {
			s.mu.Lock()
			s.now.bell = true
			s.mu.Unlock()
		}
		return len(p), nil
	}
	head, tail := string(p[:i]), string(p[i+len(marker):])
	tail, _, _ = strings.Cut(tail, "\x1b[4m")
	text := "search: "
	if strings.HasSuffix(head, "fwd") {
		text = "search forward: "
	}
	if strings.Contains(head, "failing ") {
		text = noMatch
	}
	s.mu.Lock()
	s.now.search = text + tail
	s.mu.Unlock()
	return len(p), nil
}

// feed is the engine's input: a pipe that never blocks its writer.
type feed struct {
	mu     sync.Mutex // guards the fields below
	buf    []byte
	closed bool
	ready  chan struct{}
}

func newFeed() *feed { return &feed{ready: make(chan struct{}, 1)} }

func (f *feed) push(s string) {
	f.mu.Lock()
	f.buf = append(f.buf, s...)
	f.mu.Unlock()
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// Read blocks until something was pushed; it returns io.EOF after Close.
func (f *feed) Read(p []byte) (int, error) {
	for {
		f.mu.Lock()
		n := copy(p, f.buf)
		f.buf = f.buf[n:]
		more, closed := len(f.buf) > 0, f.closed
		f.mu.Unlock()
		if n > 0 {
			if more {
				f.signal()
			}
			return n, nil
		}
		if closed {
			f.signal()
			return 0, io.EOF
		}
		<-f.ready
	}
}

// Close ends the input; it may be called more than once.
func (f *feed) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.signal()
	return nil
}
