package repl

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/slash"
	"ralph/interrupts"
	"ralph/repl/render"
)

// start runs f beside the loop; what f returns is run on the loop when f has
// ended. Only one piece of work runs at a time.
func (s *Shell) start(label string, turn bool, f func(context.Context) func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	w := &work{label: label, turn: turn, cancel: cancel, begun: time.Now()}
	s.mu.Lock()
	s.work = w
	s.mu.Unlock()
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer cancel(nil)
		after := s.guarded(ctx, f)
		s.post(func() {
			s.mu.Lock()
			s.work = nil
			s.mu.Unlock()
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
			after = func() {
				s.ink.say(func(p *render.Renderer) string {
					return p.Error(fmt.Sprintf("internal error: %v", r), "this is a bug in Ralph; what was done is kept") + p.Said(stack)
				})
			}
		}
	}()
	return f(ctx)
}

// onControlC runs on the goroutine that read the key.
func (s *Shell) onControlC() bool { return s.interrupt(true) }

// interrupt stops the work and waits for nothing: its contexts are cancelled
// before interrupt returns. False means that there was nothing to stop.
func (s *Shell) interrupt(byKey bool) bool {
	s.mu.Lock()
	w := s.work
	if w == nil {
		s.mu.Unlock()
		return false
	}
	w.stops++
	stops := w.stops
	s.forced = s.forced || stops >= 3
	if byKey {
		s.keyed++
	}
	s.mu.Unlock()
	stop := &interrupts.Stop{Signal: syscall.SIGINT}
	w.cancel(stop)
	if w.turn {
		s.mind.Turns.Stop(stop)
	}
	s.post(func() { s.stopped(stops) })
	return true
}

// stopped tells the user about a stop.
func (s *Shell) stopped(stops int) {
	s.show()
	s.ink.say(func(r *render.Renderer) string {
		switch {
		case stops == 2:
			return r.Warning("still stopping; Ctrl-C once more leaves at once")
		case stops > 2:
			return r.Warning("leaving at once")
		case !s.live:
			return r.Flush() + r.Warning("stopping")
		}
		return r.Flush() // the prompt says it
	})
}

// shownReturned is how many of the lines that were not sent are named.
const shownReturned = 5

// brief is a line as it is spoken of.
func brief(text string) string {
	row, rest, more := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(row); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	if more && strings.TrimSpace(rest) != "" {
		row += " …"
	}
	return row
}

// returnLines gives the lines that were waiting at a stop back to the user:
// nothing is sent after a stop that was typed before it.
func (s *Shell) returnLines() {
	returned := s.queue
	s.queue = nil
	if len(returned) == 0 {
		return
	}
	s.ink.say(func(r *render.Renderer) string {
		out := ""
		for i, text := range returned {
			if i == shownReturned {
				out += r.Note(fmt.Sprintf("not sent: %s more", count(len(returned)-i, "line", "lines")))
				break
			}
			out += r.Note("not sent: " + brief(text))
		}
		return out
	})
	if len(s.questions) > 0 {
		return
	}
	if half := s.reader.SetText(strings.Join(returned, "\n")); half != "" {
		s.reader.SetText(half)
	}
}

// stopComing reports whether a stop was typed after the line that is looked at.
func (s *Shell) stopComing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keyed > 0
}

// stopWork stops what runs, for another reason than Ctrl-C.
func (s *Shell) stopWork(stop *interrupts.Stop) {
	w := s.running()
	if w == nil {
		return
	}
	w.cancel(stop)
	if w.turn {
		s.mind.Turns.Stop(stop)
	}
}

// turn gives a task to the coordinator.
func (s *Shell) turn(task string) {
	s.ink.begin(s.mind.Changes.Totals())
	s.start("", true, func(ctx context.Context) func() {
		out := s.mind.Turns.Run(ctx, coordinator.Job{Task: task, Chat: true})
		return func() { s.turnEnded(out) }
	})
}

// turnEnded shows what came of a turn.
func (s *Shell) turnEnded(out coordinator.Outcome) {
	s.ink.end()
	s.ink.say(func(r *render.Renderer) string {
		text := r.Flush()
		switch {
		case out.Status == coordinator.StatusInterrupted:
			return text + r.Warning("stopped; what was done until then is kept ("+summary(out)+")")
		case out.Failure != nil:
			text += r.Error(out.Failure.Message, hint(out.Failure))
		case out.Status != coordinator.StatusCompleted && out.Reason != "":
			text += r.Warning(out.Reason)
		}
		return text + r.Note(summary(out))
	})
}

// hint is the way out of a failure that the chat has.
func hint(f *coordinator.Failure) string {
	if f.Hint == "" && f.Retryable {
		return "say it again in a moment; `ralph doctor` checks the endpoint"
	}
	return strings.ReplaceAll(f.Hint, "with --model", "with /model")
}

// summary is the line below a turn.
func summary(out coordinator.Outcome) string {
	parts := []string{}
	if n := len(out.FilesChanged); n > 0 {
		parts = append(parts, count(n, "file changed", "files changed"))
	}
	if n := len(out.Commits); n > 0 {
		parts = append(parts, count(n, "commit", "commits"))
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

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// next does what was waiting for the work to end.
func (s *Shell) next() {
	for len(s.queue) > 0 && s.ready && s.running() == nil && !s.leaving && !s.stopComing() {
		text := s.queue[0]
		s.queue = s.queue[1:]
		s.do(text)
	}
}

// onLine is a submitted line.
func (s *Shell) onLine(text string) {
	if s.stopComing() {
		s.queue = append(s.queue, text) // it goes back to the user in a moment
		return
	}
	if len(s.questions) > 0 && !s.leaving {
		s.onAnswer(text)
		return
	}
	if strings.TrimSpace(text) == "" || s.leaving {
		return
	}
	s.history.add(text)
	if !s.ready {
		s.queue = append(s.queue, text)
		return
	}
	if s.running() == nil {
		s.do(text)
		return
	}
	if name, args, ok := splitCommand(text); ok {
		if c, _, found := slash.Find(name); found && !c.WhileBusy {
			s.enqueue(text, fmt.Sprintf("/%s waits until the turn ends", c.Name))
			return
		}
		s.said(text)
		s.command(name, args)
		return
	}
	s.enqueue(text, "waits until the turn ends: "+brief(text))
}

// enqueue keeps a line until the work has ended.
func (s *Shell) enqueue(text, why string) {
	s.queue = append(s.queue, text)
	s.note(fmt.Sprintf("%s (%d waiting)", why, len(s.queue)))
}

// said repeats a line where it is acted on; a person on a plain terminal sees
// it where it was typed.
func (s *Shell) said(text string) {
	if s.live || s.sequential {
		s.ink.say(func(r *render.Renderer) string { return r.Said(text) })
	}
}

// do acts on a line while nothing runs.
func (s *Shell) do(text string) {
	s.said(text)
	if name, args, ok := splitCommand(text); ok {
		s.command(name, args)
		return
	}
	s.turn(strings.TrimSpace(text))
}

// splitCommand recognizes a slash command: a slash and a word without another
// slash, so that a line may begin with a path.
func splitCommand(text string) (name, args string, ok bool) {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, "/")
	if !ok || strings.HasPrefix(rest, "/") {
		return "", "", false
	}
	name, args, _ = strings.Cut(rest, " ")
	if strings.ContainsAny(name, "/\n\t.") {
		return "", "", false
	}
	return name, strings.TrimSpace(args), true
}
