package repl

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/repl/line"
	"ralph/repl/render"
	"ralph/workers/agent"
)

// restEvery is how often it is looked whether everything has ended that a script
// waits for.
const restEvery = 10 * time.Millisecond

// playWait bounds how long closing waits for a script that was told to end.
const playWait = 500 * time.Millisecond

// Script plays a conversation in place of somebody who types: its lines are those
// of Play, and what the chat says goes to Out, whole lines and no cursor movement.
type Script struct {
	Out io.Writer
	// Play is called once, on a goroutine of its own, while the chat opens; the
	// first Rest waits for that. Its ctx ends with the conversation. When it
	// returns, the chat is left with that exit code; what still runs is stopped.
	Play func(ctx context.Context, stage Stage) (code int)
	// Eyes, when set, sees every event before the chat shows it, one at a time.
	Eyes func(agent.Event)
	// Ended, when set, is told how each turn ended before Rest returns. It must not block.
	Ended func(result.Outcome)
}

// Stage is the chat as Play sees it. Its methods are for the goroutine of Play
// alone; an error is the cause of the end of ctx. It is an alias, so that whoever
// writes Play need not know this package.
type Stage = interface {
	// Say types a line. It returns when the line was taken, and not when what it
	// begins has ended.
	Say(ctx context.Context, text string) error
	// Rest waits until nothing goes on that a line began: it has ended, or it is
	// paused, or waits for the answer to a question.
	Rest(ctx context.Context) error
	// Decline says that nobody answers what is asked.
	Decline(ctx context.Context) error
	// Look says how the coordinator stands, and which question is open: "" for none.
	Look(ctx context.Context) (now coordinator.Live, question string, err error)
}

// scripted is the terminal of a script. Its lines come from Stage, so that nobody
// can edit one, and its text goes to a writer.
type scripted struct {
	s      *Shell
	events chan line.Event
	cancel context.CancelFunc
	done   chan struct{}
	resty  []chan struct{} // who waits for rest; belongs to the loop

	mu sync.Mutex // guards the writer
}

// takeScript takes the place of the terminal.
func (s *Shell) takeScript() {
	s.sequential = true
	s.o.Notify = notifyOff
	s.history, _ = openKeeper("") // what a script says is not what the user typed
	ctx, cancel := context.WithCancel(s.ctx)
	r := &scripted{s: s, events: make(chan line.Event), cancel: cancel, done: make(chan struct{})}
	s.reader, s.script = r, r
	cols, _ := line.Size(s.o.Out)
	s.ink = newInk(r, render.New(render.Options{Width: cols, Theme: render.ThemeNone, ASCII: true, Raw: true}))
	s.picker = s.newPicker(false)
	go r.play(ctx)
}

func (r *scripted) play(ctx context.Context) {
	defer close(r.done)
	defer func() {
		if p := recover(); p != nil {
			crash := fmt.Sprintf("%v\n%s", p, debug.Stack())
			r.s.post(func() { panic(crash) })
		}
	}()
	code := r.s.o.Script.Play(ctx, r)
	stop := &interrupts.Stop{Text: "the script has ended"}
	if code > 128 {
		stop = &interrupts.Stop{Signal: syscall.Signal(code - 128)}
	}
	r.s.post(func() {
		r.s.failQuestions(ErrNobody)
		r.s.stopWork(stop)
		r.s.leave(code)
	})
}

// Say types a line.
func (r *scripted) Say(ctx context.Context, text string) error {
	r.s.ink.say(func(p *render.Renderer) string { p.Begin(); return "" }) // Play has shown the line
	select {
	case r.events <- line.Event{Kind: line.EventLine, Text: text}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Rest waits until nothing goes on.
func (r *scripted) Rest(ctx context.Context) error {
	return r.await(ctx, func(done chan struct{}) { r.resty = append(r.resty, done) })
}

// Decline lets all questions go without an answer.
func (r *scripted) Decline(ctx context.Context) error {
	return r.await(ctx, func(done chan struct{}) {
		r.s.failQuestions(ErrNobody)
		close(done)
	})
}

// Look says how things stand.
func (r *scripted) Look(ctx context.Context) (now coordinator.Live, question string, err error) {
	var control Control
	err = r.await(ctx, func(done chan struct{}) {
		control = r.s.mind.Control
		if len(r.s.questions) > 0 {
			question = r.s.questions[0].Text
		}
		close(done)
	})
	if err == nil && control != nil {
		now = control.Live()
	}
	return now, question, err
}

// await has the loop do f, and waits until what it gives to f is closed.
func (r *scripted) await(ctx context.Context, f func(done chan struct{})) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // also while the loop still does what was posted
	}
	done := make(chan struct{})
	r.s.post(func() { f(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Events delivers the lines.
func (r *scripted) Events() <-chan line.Event { return r.events }

// Print writes whole lines.
func (r *scripted) Print(text string, _ ...string) {
	if text == "" {
		return
	}
	if text[len(text)-1] != '\n' {
		text += "\n"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = io.WriteString(r.s.o.Script.Out, text) // its owner ends the script when nobody reads it
}

// Show prints what comes with the prompt; the prompt itself is for nobody.
func (r *scripted) Show(p line.Prompt) { r.Print(p.Above) }

// Edit does nothing: there is no half-typed line.
func (r *scripted) Edit(line.Change) {}

// Replace does nothing, as Edit.
func (r *scripted) Replace(string, int, string) {}

// Close ends the script.
func (r *scripted) Close() error {
	r.cancel()
	select {
	case <-r.done:
	case <-time.After(playWait):
	}
	return nil
}

// rested tells those who wait for it that nothing goes on. It runs on the loop,
// which looks again after restEvery as long as somebody waits.
func (r *scripted) rested() (waits bool) {
	if r == nil || len(r.resty) == 0 {
		return false
	}
	if !r.s.rests() {
		return true
	}
	for _, done := range r.resty {
		close(done)
	}
	r.resty = nil
	return false
}

// rests reports whether nothing goes on that would end by itself.
func (s *Shell) rests() bool {
	if len(s.questions) > 0 {
		return true
	}
	if !s.ready || s.sight.looking {
		return false
	}
	if s.lastAside != nil {
		select {
		case <-s.lastAside:
		default:
			return false
		}
	}
	s.mu.Lock()
	posted, works := len(s.posted), s.work != nil || s.outside
	s.mu.Unlock()
	switch {
	case posted > 0:
		return false
	case works: // what is known of a pause may be older than its end
		return s.standing.State == statePaused && held(s.mind.Control.Live())
	}
	return s.jobs.len() == 0 && len(s.queue) == 0 && s.letters.quiet()
}

// held reports whether the work waits for somebody to let it go on. A run that was
// paused for a reason says so too, before it goes on and when it ends: its work is
// not over then, and goes on by itself.
func held(now coordinator.Live) bool {
	return now.State == statePaused && (now.Loop == nil || now.Loop.Reason == "")
}

// quiet reports whether all that was said here has its place: it was delivered or
// answered, or waits for something that does not come by itself.
func (l *letters) quiet() bool {
	for id := range l.mine {
		if class, waits := l.waiting[id]; !l.over[id] && (!waits || class == interrupts.ClassAsk.String()) {
			return false
		}
	}
	due := l.due()
	return due == "" || due == l.offered
}

var (
	_ line.LineReader = (*scripted)(nil)
	_ Stage           = (*scripted)(nil)
)
