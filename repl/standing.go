package repl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/repl/render"
	"ralph/workers/agent"
)

// How a coordinator says that it stands.
const (
	modeTalk         = "conversation"
	modeWork         = "autonomous"
	stateRunning     = "running"
	statePausing     = "pausing"
	statePaused      = "paused"
	stateStopping    = "stopping"
	stateInterrupted = "interrupted"
)

// lookEvery is how often the coordinator is looked at while work runs.
const lookEvery = 500 * time.Millisecond

// sight keeps the looks at the coordinator one at a time.
type sight struct {
	looking bool
	stale   bool // something happened since the look that is under way began
	last    time.Time
	era     int // which coordinator it is; a look at another one counts for nothing
}

// look asks how the coordinator stands, beside the loop.
func (s *Shell) look() {
	if !s.opened || s.leaving {
		return
	}
	if s.sight.looking {
		s.sight.stale = true
		return
	}
	s.sight = sight{looking: true, last: time.Now(), era: s.sight.era}
	control, era := s.mind.Control, s.sight.era
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		after := s.guarded(s.ctx, func(context.Context) func() {
			live := control.Live()
			return func() {
				if era == s.sight.era {
					s.seen(live)
				}
			}
		})
		s.post(after)
	}()
}

func (s *Shell) seen(live coordinator.Live) {
	s.sight.looking = false
	if s.sight.stale {
		s.look()
		return
	}
	s.standing = live
	s.ink.agents(childrenOf(live.Agents))
	s.ink.runs(shown(live))
	s.progress(live)
	s.knows(live.Agents)
	s.mu.Lock()
	defer s.mu.Unlock()
	works := live.State == stateRunning || live.State == stateStopping || s.holds() && slices.ContainsFunc(live.Agents, active)
	s.outside = s.work == nil && works
	if s.work == nil && !s.outside {
		s.stops = 0
	}
}

// lookAgain looks now and then while work runs.
func (s *Shell) lookAgain() {
	if time.Since(s.sight.last) > lookEvery {
		s.look()
	}
}

// lookOutside looks when the coordinator works though nobody here asked it to.
func (s *Shell) lookOutside() {
	if s.running() == nil {
		s.look()
	}
}

// busy reports whether the coordinator works, for this conversation or another.
func (s *Shell) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work != nil || s.outside || s.jobs.len() > 0
}

// onInterrupted learns what the human's word did to the work.
func (s *Shell) onInterrupted(e agent.Event) {
	switch e.Status {
	case "stopped":
		s.stopped(e.Text)
	case "conversation":
		s.standing.Mode = modeTalk
	case "go":
		s.standing.Mode = modeWork
	case statePaused:
		if s.standing.State != statePaused && s.live {
			s.note("/resume goes on, /stop ends it")
		}
		s.standing.State = e.Status
	case statePausing, stateStopping:
		s.standing.State = e.Status
	case "resumed":
		s.standing.State = stateRunning
	}
	s.look()
}

// stopped tells of a stop that ended somebody else's work; that of a turn of this
// conversation is told with its end.
func (s *Shell) stopped(report string) {
	if w := s.running(); w == nil || !w.turn {
		s.tellStopped(strings.TrimSuffix("stopped; "+report, "; "))
	}
}

// talks reports whether a plain line is only talk.
func (s *Shell) talks() bool { return s.standing.Mode == modeTalk }

// holds reports whether the work is paused, or about to be.
func (s *Shell) holds() bool {
	return s.standing.State == statePaused || s.standing.State == statePausing
}

// worksNow says that a command, which waits for the end of a turn, works now:
// because the turn waits for it, or because it has nothing to wait for.
func (s *Shell) worksNow(name, args string) bool {
	stopping := s.stopsSoFar() > 0 || s.standing.State == stateStopping
	if name == "diff" && args != "" {
		return true
	}
	if name == "run" {
		return underWay(s.standing) != nil // it is told so
	}
	if refusesWhileBusy(name) {
		return true // it is told how to end the work
	}
	return name == "go" && (s.holds() || args == "" && !s.talks() && !stopping)
}

// goOn does /go: after a stop it lets the work go on, or gives it another turn.
func (s *Shell) goOn(text string) {
	switch {
	case s.holds():
		if text != "" && s.running() != nil {
			s.speak(interrupts.ClassSteer, text)
		}
		s.proceed()
	case s.running() != nil:
		s.note("nothing was stopped; the work goes on")
	case text == "" && (s.course.stopped || !s.talks() && left(s.standing) != nil):
		s.continueRun()
	case text == "" && !s.talks() && s.standing.State != stateInterrupted:
		s.note("nothing was stopped; say what you want done")
	default:
		s.run(coordinator.Job{Task: text, Chat: true, Go: true}, nil)
	}
}

// resume does /resume.
func (s *Shell) resume(who string) {
	switch {
	case who != "" && s.running() != nil:
		s.wait("/resume "+who, "/resume")
	case who != "":
		id, text, _ := strings.Cut(who, " ")
		s.resumeAgent(id, strings.TrimSpace(text))
	case s.holds():
		s.proceed()
	case s.running() != nil:
		s.note("nothing is paused")
	case s.talks() || s.standing.State == stateInterrupted || left(s.standing) != nil:
		s.goOn("")
	default:
		s.note("there is nothing to go on with: nothing is paused and nothing was stopped")
	}
}

func (s *Shell) proceed() {
	s.aside(func(context.Context) func() {
		err := s.mind.Control.Proceed()
		return func() {
			if err != nil {
				s.explain(err)
			}
		}
	})
}

func (s *Shell) pause() {
	s.aside(func(context.Context) func() {
		s.mind.Control.Pause()
		return nil
	})
}

// halt does /stop.
func (s *Shell) halt(who string) {
	if who == "" {
		s.haltAll()
		return
	}
	s.aside(func(context.Context) func() {
		err := s.mind.Control.StopAgent(who, &interrupts.Stop{Text: "/stop " + who})
		return func() {
			if err != nil {
				s.explain(err)
				return
			}
			s.note(who + " is stopped")
		}
	})
}

// haltAll stops the work and, when there is none, what it left in the background.
func (s *Shell) haltAll() {
	stop := &interrupts.Stop{Text: "/stop"}
	switch {
	case s.interrupt(false, stop):
		s.returnLines()
	case len(s.standing.Background) > 0:
		s.mind.Turns.Stop(stop)
		s.note("stopped: " + text.Count(len(s.standing.Background), "background job"))
		s.look()
	default:
		s.note("nothing runs")
	}
}

// status does /status.
func (s *Shell) status() {
	lines := len(s.queue)
	s.aside(func(context.Context) func() {
		live := s.mind.Control.Live()
		end := s.mind.Models.Endpoint()
		return func() {
			rows := [][]string{{"model", named(end.Model) + " at " + named(end.BaseURL)}}
			rows = append(rows, liveTable(live, time.Now())...)
			if lines > 0 {
				verb := "wait"
				if lines == 1 {
					verb = "waits"
				}
				rows = append(rows, []string{"commands", fmt.Sprintf("%d %s until the turn ends; /queue lists them", lines, verb)})
			}
			s.rows(append(rows, []string{"spent", s.spent()}))
		}
	})
}

// liveTable is what is going on, one fact a row.
func liveTable(live coordinator.Live, now time.Time) [][]string {
	doing := live.State
	if live.Mode == modeTalk {
		doing += ", only talk until /go"
	}
	if live.Task != "" {
		doing += ": " + render.Brief(live.Task)
	}
	if !live.Since.IsZero() {
		doing += fmt.Sprintf(" (%s)", age(now.Sub(live.Since)))
	}
	rows := [][]string{{"state", doing}}
	if live.Loop != nil {
		rows = append(rows, runTable(live.Loop, now)...)
	}
	if live.Turn > 0 {
		rows = append(rows, []string{"requests", fmt.Sprint(live.Turn)})
	}
	if live.Tool != "" {
		rows = append(rows, []string{"tool", live.Tool})
	}
	for _, a := range live.Agents {
		if !active(a) {
			continue // /agents shows it
		}
		content := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", a.ID, a.State, a.Label)), " ")
		if a.Doing != "" {
			content += ": " + render.Brief(a.Doing)
		}
		rows = append(rows, []string{"agent", content})
	}
	for _, b := range live.Background {
		content := b.ID + " " + render.Brief(b.Command)
		if !b.Since.IsZero() {
			content += fmt.Sprintf(" (%s)", age(now.Sub(b.Since)))
		}
		rows = append(rows, []string{"background", content})
	}
	if n := len(live.Queue); n > 0 {
		rows = append(rows, []string{"queue", text.Clause(n, "message", "waits", "wait") + "; /queue lists them"})
	}
	if t := live.Tasks; t.Done+t.Failed+t.Skipped+t.Open > 0 {
		rows = append(rows, []string{"tasks", fmt.Sprintf("%d open, %d done, %d failed, %d skipped", t.Open, t.Done, t.Failed, t.Skipped)})
	}
	if live.SessionID != "" {
		rows = append(rows, []string{"session", live.SessionID})
	}
	if live.Method != "" {
		rows = append(rows, []string{"commands end by", live.Method})
	}
	return rows
}
