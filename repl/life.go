package repl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/repl/pick"
	"ralph/repl/render"
)

// anotherSession is the Link.Session of a session that is to be made.
const anotherSession = "new"

// arrival is a coordinator as it was found right after it was opened.
type arrival struct {
	mind    Mind
	waiting []interrupts.Message
	live    coordinator.Live
	facts   []string
}

// open makes the coordinator while signals and Ctrl-C still work.
func (s *Shell) open() error {
	var failed error
	s.start("opening", false, func(ctx context.Context) func() {
		session, err := "", error(nil)
		if s.o.Choose && s.o.Past != nil {
			session, err = s.pickSession(ctx, "")
		}
		var a arrival
		if err == nil {
			a, err = s.arrive(ctx, session)
		}
		if err != nil {
			return func() { failed = err }
		}
		return func() { s.settleIn(a) }
	})
	for s.running() != nil && s.mustLeave() == 0 {
		s.step()
	}
	if code := s.mustLeave(); code != 0 {
		s.leaving, s.code = true, code
	}
	if s.leaving {
		return nil
	}
	if stop, ok := interrupts.AsStop(failed); ok {
		s.leaving, s.code = true, 128+int(stop.Signal)
		return nil
	}
	if errors.Is(failed, pick.ErrCancelled) {
		s.note("nothing was chosen")
		s.leaving = true
		return nil
	}
	if failed != nil {
		s.code = 1
	}
	return failed
}

// arrive opens the coordinator of a session, "" for the one that was asked for at
// the start. It runs beside the loop.
func (s *Shell) arrive(ctx context.Context, session string) (a arrival, err error) {
	if a.mind, err = s.o.Open(ctx, Link{Ask: s.ask, Eyes: s.see, Session: session}); err != nil {
		return a, err
	}
	a.waiting, a.live = a.mind.Queue.Waiting(), a.mind.Control.Live()
	if a.mind.Crew != nil {
		// That those of earlier sessions cannot be read is told by /agents.
		found, _ := a.mind.Crew.Agents(ctx)
		a.live.Agents = together(a.live.Agents, found)
	}
	a.facts = a.mind.About.Standing()
	_ = a.mind.About.Project() // reads the disk once; the loop asks again
	return a, nil
}

// settleIn makes it the coordinator of this conversation.
func (s *Shell) settleIn(a arrival) {
	s.knows(a.live.Agents)
	s.mind, s.opened, s.standing, s.standingFacts = a.mind, true, a.live, a.facts
	s.letters.left(a.waiting)
	s.begun, s.tasksBefore = time.Now(), a.live.Tasks
	s.mu.Lock()
	s.kill = a.mind.Control.Kill
	s.mu.Unlock()
}

// moveOut forgets what belongs to the session that is left. The lines that are
// typed from here on wait until another one is there.
func (s *Shell) moveOut() {
	s.ready, s.opened = false, false
	for _, end := range []context.CancelFunc{s.unchoose, s.uncomplete} {
		if end != nil {
			end()
		}
	}
	s.letters, s.course, s.standing = newLetters(), course{}, coordinator.Live{}
	s.sight = sight{era: s.sight.era + 1}
	s.ink.agents(nil)
	s.ink.runs(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agentNames, s.taskIDs, s.kill = nil, nil, nil
}

// move saves and closes this session and goes on with another. then, when set, is
// done beside the loop with the new one; what it returns is shown below its
// greeting. A session that cannot be opened, or a stop before it is there, leads
// back to the one that was left.
func (s *Shell) move(to string, then func(context.Context, Mind) func()) {
	from, old, asides := s.mind.About.SessionID(), s.mind, s.lastAside
	s.leaveWord(to)
	s.moveOut()
	s.start("sessions", false, func(ctx context.Context) func() {
		if asides != nil {
			<-asides // they look at the old one
		}
		s.choices.Wait() // so do they
		if to == anotherSession {
			old.Turns.Ends(session.HandedOn)
		}
		shut := old.Turns.Close()
		a, err := s.arrive(ctx, to)
		var after func()
		if err == nil && then != nil {
			after = then(ctx, a.mind)
		}
		return func() {
			if shut != nil {
				s.explain(shut)
			}
			if err != nil {
				s.explain(err)
				s.moveBack(from)
				return
			}
			s.settleIn(a)
			s.welcome()
			if after != nil {
				after()
			}
		}
	})
}

// moveBack opens the session that was left, because the other one cannot be had.
// Without either there is no conversation.
func (s *Shell) moveBack(to string) {
	s.start("sessions", false, func(ctx context.Context) func() {
		a, err := s.arrive(ctx, to)
		return func() {
			if err != nil {
				s.explain(err)
				s.leave(1)
				return
			}
			s.note("back in session " + to)
			s.settleIn(a)
			s.welcome()
		}
	})
}

// welcome greets in a session that is gone on with.
func (s *Shell) welcome() {
	s.ready = true
	facts := s.facts()
	s.ink.say(func(r *render.Renderer) string { return "\n" + fitFacts(r, facts, greetRows-1) })
	s.tellEarly()
}

// leaveWord sums up a session that is left for another.
func (s *Shell) leaveWord(to string) {
	id, t := s.mind.About.SessionID(), s.mind.Changes.Totals()
	if t.Turns == 0 {
		return
	}
	content := fmt.Sprintf("left session %s: %s", id, s.spent())
	if n := len(t.FilesChanged); n > 0 {
		content += ", " + text.Count(n, "file") + " changed"
	}
	if id != "" && to != id {
		content += "; /sessions switch " + id + " goes back to it"
	}
	s.note(content)
}

// stays says why this session cannot be left or handed on now, and how it could.
func (s *Shell) stays(what string) bool {
	live, jobs := s.children(), len(s.standing.Background)
	switch {
	case s.running() != nil || s.busy():
		s.fail(what+" does not work while Ralph works", "/stop ends the work and keeps what was done; or wait until it has ended")
	case live > 0 || s.holds():
		s.fail(what+" does not work while "+text.Clause(max(live, 1), "agent", "works", "work"), "/stop ends them and keeps what they did; /agents shows them")
	case jobs > 0:
		s.fail(what+" would end "+text.Count(jobs, "background job"), "/stop ends them first")
	default:
		return false
	}
	return true
}
