package repl

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/memory/text"
	"ralph/repl/render"
)

// start runs f beside the loop; what f returns is run on the loop when f has
// ended. Only one piece of work runs at a time.
func (s *Shell) start(label string, turn bool, f func(context.Context) func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	w := &work{label: label, turn: turn, cancel: cancel, begun: time.Now()}
	s.mu.Lock()
	s.work, s.outside, s.stops = w, false, 0
	s.mu.Unlock()
	s.pulse.beat(w.begun, s.o.pulseFirst)
	if turn && s.chatters() {
		s.note(wordWorking)
	}
	s.letters.told, s.letters.toldMore = 0, false
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer cancel(nil)
		after := s.guarded(ctx, f)
		s.post(func() {
			s.mu.Lock()
			if s.work == w {
				s.work, s.stops = nil, 0
			}
			s.mu.Unlock()
			s.jobs.remove(w.beside)
			if after != nil {
				after()
			}
			s.next()
		})
	}()
}

// guarded turns a panic of the work into a message: the conversation goes on.
func (s *Shell) guarded(ctx context.Context, f func(context.Context) func()) (after func()) {
	defer func() {
		if r := recover(); r != nil {
			stack := string(debug.Stack())
			if first, ok := r.(interface{ Stack() []byte }); ok {
				stack = string(first.Stack()) // it was thrown on from there
			}
			after = func() {
				s.ink.say(func(p *render.Renderer) string {
					return p.Error(fmt.Sprintf("internal error: %v", r), "this is a bug in Ralph; what was done is kept") + p.Said(stack)
				})
			}
		}
	}()
	return f(ctx)
}

// turn gives a task to the coordinator.
func (s *Shell) turn(task string) { s.run(coordinator.Job{Task: task, Chat: true}, nil) }

// run gives a job to the coordinator, unless needed says that there is none after
// all; nil says nothing.
func (s *Shell) run(j coordinator.Job, needed func() bool) {
	s.ink.begin(s.mind.Changes.Totals())
	s.start("", true, func(ctx context.Context) func() {
		if needed != nil && !needed() {
			return s.ink.end
		}
		out := s.mind.Turns.Run(ctx, j)
		return func() { s.turnEnded(out) }
	})
}

// turnEnded shows what came of a turn, and tells somebody who looked elsewhere.
func (s *Shell) turnEnded(out result.Outcome) {
	s.ink.end()
	s.look()
	s.course.stopped = false
	if s.script != nil && s.o.Script.Ended != nil {
		s.o.Script.Ended(out)
	}
	if out.Status == result.Interrupted {
		s.turnStopped(out)
		return
	}
	s.ink.say(func(r *render.Renderer) string {
		text := r.Flush()
		switch {
		case out.Failure != nil:
			what, more, _ := strings.Cut(out.Failure.Message, "\n")
			text += r.Error(what, hint(out.Failure))
			for line := range strings.Lines(more) { // of a run: a task that failed, and why
				text += r.Note(strings.TrimSpace(line))
			}
		case out.Status != result.Completed && out.Reason != "":
			text += r.Warning(out.Reason)
		}
		done := summary(out)
		if s.chatters() && out.Failure == nil && out.Status == result.Completed {
			done = "done: " + done
		}
		return text + r.Note(done)
	})
	if out.Failure != nil {
		s.letters.waitOn() // what failed now would fail again
	}
	s.call(out.StartedAt, "the work has ended: "+strings.TrimSuffix(string(out.Status)+", "+out.Reason, ", "))
}

// hint is the way out of a failure that the chat has.
func hint(f *result.Failure) string {
	if f.Hint == "" && f.Retryable {
		return "say it again in a moment; `ralph doctor` checks the endpoint"
	}
	return strings.ReplaceAll(f.Hint, "with --model", "with /model")
}

// summary is the line below a turn.
func summary(out result.Outcome) string {
	parts := []string{}
	if n := len(out.FilesChanged); n > 0 {
		parts = append(parts, text.Count(n, "file")+" changed")
	}
	if n := len(out.Commits); n > 0 {
		parts = append(parts, text.Count(n, "commit"))
	}
	if out.Usage.Total > 0 {
		parts = append(parts, render.Tokens(out.Usage.Total)+" tok")
	}
	if out.CostUSD != nil {
		parts = append(parts, render.Cost(out.CostUSD))
	}
	parts = append(parts, render.Duration(out.Duration))
	return strings.Join(parts, ", ")
}
