package repl

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/repl/line"
	"ralph/repl/pick"
	"ralph/repl/render"
	"ralph/workers/agent"
)

const (
	// spinEvery is how often the prompt of a running turn changes.
	spinEvery = 100 * time.Millisecond
	// leaveWait bounds how long leaving waits for work that was stopped.
	leaveWait = 5 * time.Second
	// liveRows is how many rows of an unfinished block are shown.
	liveRows = 4
	// forcedWait is how long leaving at once waits for what does not hang.
	forcedWait = 100 * time.Millisecond
)

// Shell is one conversation on one terminal. Run makes it, runs it and ends it.
type Shell struct {
	o       Options
	ctx     context.Context // ends when the conversation ends
	end     context.CancelFunc
	reader  line.LineReader
	script  *scripted // nil when somebody types
	ink     *ink
	mind    Mind
	opened  bool
	picker  *pick.Picker
	picking sync.Mutex // one choice at a time
	finder  finder
	jobs    jobs
	history *keeper
	drafts  *drafts // nil where nobody can edit a line
	begun   time.Time

	live       bool // the prompt can be redrawn
	sequential bool // lines come from a pipe: one after the other

	// What follows belongs to the loop.
	queue    []waitingLine
	letters  letters
	standing coordinator.Live // as far as known; see look
	course   course
	unchoose context.CancelFunc // ends what waits for a choice beside the work
	// uncomplete ends the completion that is under way.
	uncomplete context.CancelFunc
	lastWord   time.Time // when the user last said something, or stopped the work
	sight      sight
	hinted     int // how many stops were told of
	questions  []*question
	asks       int // questions so far
	// settledAsk is the last question that was answered, or ended by a stop.
	settledAsk int
	slate      slate
	// standingFacts are what the coordinator said of itself when it was opened, and
	// tasksBefore how the tasks stood then.
	standingFacts []string
	tasksBefore   result.TaskCount
	pulse         pulse
	leaving       bool
	code          int
	gone          bool // the terminal vanished: nothing is printed any more
	ended         bool // no more lines come
	ready         bool // the greeting is out
	spin          int
	shown         string // the state that the prompt says
	lastAside     chan struct{}

	wake  chan struct{}
	force chan int // the exit code of those who leave at once
	wg    sync.WaitGroup
	// choices are what looks at the coordinator to let the user choose: it is not
	// changed for another one meanwhile.
	choices sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	posted []func()
	// agentNames are those that were ever seen.
	agentNames []string
	taskIDs    []string // of the plan, as it was shown last
	work       *work
	outside    bool   // the coordinator works for somebody else
	kill       func() // ends at once what a stop has not ended; nil before there is a coordinator
	closing    bool   // all work has ended and the coordinator is being closed
	forced     int    // the exit code of those who leave at once, else 0
	stops      int    // of the work that runs
	// keyed counts the stops by key whose place among the lines is still to
	// come: a line that arrives before it was typed before the stop.
	keyed int
}

// work is what runs beside the loop: a turn, or a slow command.
type work struct {
	label  string
	turn   bool
	cancel context.CancelCauseFunc
	begun  time.Time
	beside *ownRun // what it became when other work was to begin; else nil
}

// Run holds a conversation until the user leaves. The exit code is 0, 130 after
// a third Ctrl-C or a Ctrl-C before the coordinator is there, 143 after SIGTERM,
// 129 after SIGHUP or when the terminal vanished, and 141 when nobody reads a
// piped output any more. An error means that there was no conversation: from
// Open, to be explained with coordinator.Fail, or from the terminal. The terminal
// is restored on every path.
func Run(ctx context.Context, o Options) (exitCode int, err error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	s := &Shell{o: o, begun: time.Now(), wake: make(chan struct{}, 1), force: make(chan int, 1)}
	s.letters = newLetters()
	s.ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	ears := s.hear()
	defer ears.close()
	if err := s.take(); err != nil {
		return 1, fmt.Errorf("open terminal: %w", err)
	}
	var end struct { // read when done is closed
		code  int
		err   error
		crash string
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				end.crash = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
		}()
		end.code, end.err = s.converse()
	}()
	select {
	case <-done:
		if end.crash != "" {
			panic(end.crash)
		}
		return end.code, end.err
	case code := <-s.force:
		// Whatever hangs is left behind: the process is about to end.
		select {
		case <-done:
		case <-time.After(forcedWait):
		}
		_ = s.reader.Close()
		return code, nil
	}
}

// converse is the conversation from the first word to the last.
func (s *Shell) converse() (exitCode int, err error) {
	defer s.history.close()
	defer s.drafts.close()
	defer func() { _ = s.reader.Close() }()
	defer s.settle()
	if err := s.open(); err != nil || s.leaving {
		return s.code, err
	}
	s.greet()
	s.ready = true
	if text := strings.TrimSpace(s.o.Opening); text != "" {
		s.note(render.Brief(text))
		s.turn(text)
	}
	if s.o.First != "" {
		s.do(s.o.First)
	}
	s.next()
	s.loop()
	s.reader.Show(line.Prompt{})
	return s.code, nil
}

// take takes the terminal and the history.
func (s *Shell) take() error {
	if s.o.Script != nil {
		s.takeScript()
		return nil
	}
	lo := line.Options{In: s.o.In, Out: s.o.Out, Getenv: s.o.Getenv, Plain: s.o.Plain, EditMode: s.o.EditMode, OnInterrupt: s.onControlC, Complete: s.complete,
		OnGone: func(error) { s.post(func() { s.vanish(syscall.SIGPIPE) }) }}
	s.live = line.Capable(lo)
	var why error
	s.history, why = openKeeper(s.o.History)
	lo.History = s.history.lines()
	if s.live {
		s.drafts = openDrafts(s.o.Draft)
		lo.Draft, lo.OnDraft = s.drafts.text, s.drafts.tell
	}
	reader, err := line.Open(lo)
	if err != nil {
		s.history.close()
		s.drafts.close()
		return err
	}
	s.mu.Lock()
	s.reader = reader // a signal may ask for it already
	s.mu.Unlock()
	if p, ok := s.reader.(*line.Plain); ok {
		s.sequential = !p.Interactive()
	}
	cols, _ := line.Size(s.o.Out)
	terminal := s.live && s.o.Out != nil && term.IsTerminal(int(s.o.Out.Fd()))
	theme := render.PickTheme(s.o.Theme, terminal, s.o.Getenv)
	s.ink = newInk(s.reader, render.New(render.Options{
		Width: cols, Theme: theme, ASCII: !s.live || render.PickASCII(s.o.Getenv), Raw: !s.live,
	}))
	if why != nil {
		s.ink.say(func(r *render.Renderer) string { return r.Warning("earlier lines are missing: " + why.Error()) })
	}
	s.picker = s.newPicker(theme != render.ThemeNone)
	return nil
}

// loop runs the conversation.
func (s *Shell) loop() {
	late := time.Time{}
	for {
		if code := s.mustLeave(); code != 0 {
			s.code = code
			return
		}
		if s.leaving {
			if s.running() == nil {
				return
			}
			if late.IsZero() {
				late = time.Now().Add(leaveWait)
			}
			if time.Now().After(late) {
				return
			}
		}
		s.step()
	}
}

// step waits for one thing and does it.
func (s *Shell) step() {
	s.show()
	busy := s.busy()
	var tick <-chan time.Time
	switch {
	case s.script.rested():
		t := time.NewTimer(restEvery)
		defer t.Stop()
		tick = t.C
	case busy:
		t := time.NewTimer(s.tickEvery())
		defer t.Stop()
		tick = t.C
	case len(s.standing.Background) > 0 || s.children() > 0:
		t := time.NewTimer(lookEvery)
		defer t.Stop()
		tick = t.C
	}
	events := s.reader.Events()
	if s.gone || s.ended || s.sequential && s.script == nil && s.running() != nil && len(s.questions) == 0 {
		events = nil
	}
	done := s.ctx.Done()
	if s.leaving {
		done = nil
	}
	select {
	case <-s.wake:
		s.runPosted()
	case e, ok := <-events:
		s.runPosted() // a stop that came before this line is dealt with first
		if s.ended = !ok; ok {
			s.onEvent(e)
		} else if !s.leaving {
			s.vanish(syscall.SIGHUP)
		}
	case <-tick:
		s.spin++
		s.lookAgain()
		s.stillWorking(time.Now())
	case <-done:
		s.onEnd(context.Cause(s.ctx))
	}
}

func (s *Shell) onEvent(e line.Event) {
	switch e.Kind {
	case line.EventLine:
		s.onLine(e.Text, e.Ask)
	case line.EventInterrupt:
		if strings.TrimSpace(e.Text) == "" && s.script == nil {
			s.ink.say(func(r *render.Renderer) string { return r.Note("Ctrl-D or /exit leaves") })
		}
	case line.EventStopped:
		s.mu.Lock()
		s.keyed--
		s.mu.Unlock()
		s.returnLines()
	case line.EventEOF:
		s.failQuestions(ErrNobody)
		if s.sequential && s.running() != nil {
			s.ended = true
			s.enqueue("/exit")
			return
		}
		s.leave(0)
	case line.EventGone:
		s.vanish(syscall.SIGHUP)
	case line.EventResize:
		s.ink.resize(e.Cols)
	case line.EventComplete:
		s.onComplete(e.Text)
	case line.EventEditor:
		s.compose(e.Text, e.Ask)
	}
}

// vanish leaves without a word: nobody can read it.
func (s *Shell) vanish(why syscall.Signal) {
	s.gone = true
	s.ink.mute()
	s.failQuestions(ErrNobody)
	s.stopWork(&interrupts.Stop{Signal: why})
	s.leave(128 + int(why))
}

// onEnd leaves because the caller's context ended.
func (s *Shell) onEnd(cause error) {
	code := 1
	if stop, ok := interrupts.AsStop(cause); ok {
		code = 128 + int(stop.Signal)
		s.stopWork(stop)
	}
	s.leave(code)
}

// leave ends the conversation once the work has stopped.
func (s *Shell) leave(code int) {
	if s.leaving {
		return
	}
	s.leaving, s.code = true, code
	if n := len(s.standing.Background); n > 0 {
		s.note(text.Clause(n, "background job", "ends", "end") + " with the chat")
	}
	s.stopWork(&interrupts.Stop{Text: "leaving"})
}

// settle waits for the work, closes the coordinator and ends what is left. A
// third Ctrl-C waits for nothing.
func (s *Shell) settle() {
	if r := recover(); r != nil {
		_ = s.reader.Close() // the terminal first, so that the report is readable
		panic(r)
	}
	s.end()
	if s.mustLeave() != 0 {
		return
	}
	s.mu.Lock()
	s.closing, s.stops = true, 0
	s.mu.Unlock()
	done := make(chan struct{})
	var parting *coordinator.Live // read when done is closed
	go func() {
		defer close(done)
		s.wg.Wait()
		if s.opened {
			live := s.mind.Control.Live()
			parting = &live
			s.closeMind()
		}
	}()
	select {
	case <-done:
		s.runPosted() // what became of the last messages
		s.unsent()
		s.farewell(parting) // a turn that was stopped counts only now
		s.keepsDraft()
	case <-time.After(leaveWait):
		s.unsent()
		s.farewell(nil)
		s.keepsDraft()
		if s.o.Err != nil && !s.gone {
			_ = s.reader.Close()
			fmt.Fprintln(s.o.Err, "ralph: warning: some work did not end in time")
		}
	}
}

func (s *Shell) closeMind() {
	switch n := syscall.Signal(s.code - 128); n {
	case syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE:
		s.mind.Turns.Ends(strings.Replace((&interrupts.Stop{Signal: n}).Error(), "interrupted", "ended", 1))
	}
	if err := s.mind.Turns.Close(); err != nil {
		s.ink.say(func(r *render.Renderer) string { return r.Error(err.Error(), "") })
	}
}

// post hands f to the loop; it never waits.
func (s *Shell) post(f func()) {
	s.mu.Lock()
	s.posted = append(s.posted, f)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Shell) runPosted() {
	s.mu.Lock()
	list := s.posted
	s.posted = nil
	s.mu.Unlock()
	for _, f := range list {
		f()
	}
	s.giveBack()
}

func (s *Shell) running() *work {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work
}

// mustLeave is the exit code when everything is to be left behind, else 0.
func (s *Shell) mustLeave() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forced
}

// see is the coordinator's eyes.
func (s *Shell) see(e agent.Event) {
	if s.script != nil && s.o.Script.Eyes != nil {
		s.o.Script.Eyes(e)
	}
	switch e.Type {
	case agent.EventInbox:
		s.ink.event(e)
		s.post(func() { s.onInbox(e) })
	case agent.EventInterrupt:
		if e.Status == "" || render.OfHelper(e) {
			return // that a turn was stopped is told with its end
		}
		s.ink.event(e)
		s.post(func() { s.onInterrupted(e) })
	case agent.EventTurnStart:
		s.ink.event(e)
		s.post(s.lookOutside)
	case agent.EventChildStart, agent.EventChildEnd:
		s.ink.event(e)
		if e.From == "" { // a child, and not the work of another terminal
			s.post(s.look)
		}
	default:
		s.ink.event(e)
	}
}

// question is one open question.
type question struct {
	permission.Question
	nr     int
	answer chan answer
}

type answer struct {
	text string
	err  error
}
