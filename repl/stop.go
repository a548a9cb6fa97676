package repl

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/repl/render"
)

// onControlC runs on the goroutine that read the key.
func (s *Shell) onControlC() bool { return s.interrupt(true, &interrupts.Stop{Signal: syscall.SIGINT}) }

// interrupt stops the work and waits for nothing: its contexts are cancelled
// before interrupt returns. The second one for the same work ends at once what
// the first has not ended, the third leaves. False means that there was nothing
// to stop.
func (s *Shell) interrupt(byKey bool, stop *interrupts.Stop) bool {
	s.mu.Lock()
	w := s.work
	closing := s.closing && w == nil
	if w == nil && !s.outside && !closing {
		own := s.jobs.stop(stop) // only they run
		if own && byKey {
			s.keyed++
		}
		s.mu.Unlock()
		return own
	}
	s.stops++
	stops, kill := s.stops, s.kill
	if byKey {
		s.keyed++
	}
	s.mu.Unlock()
	switch {
	case stops >= 3:
		s.leaveAtOnce(128 + int(syscall.SIGINT))
		return true
	case stops == 2 && kill != nil:
		kill()
	}
	if closing {
		return true // it ends without being told
	}
	s.endWork(w, stop, stops == 1)
	s.jobs.stop(stop)
	s.post(func() { s.stopping(stops) })
	return true
}

// endWork ends a piece of work, nil for that of somebody else; first says that
// the coordinator was not told before.
func (s *Shell) endWork(w *work, stop *interrupts.Stop, first bool) {
	if w != nil && !w.turn {
		w.cancel(stop)
		return
	}
	if first {
		s.mind.Turns.Stop(stop)
	}
	if w != nil {
		// For a turn that has not begun yet. It is not the stop again: that would
		// cover what is said from here on.
		w.cancel(context.Canceled)
	}
}

// stopWork stops what runs, for another reason than Ctrl-C.
func (s *Shell) stopWork(stop *interrupts.Stop) {
	s.mu.Lock()
	w, outside := s.work, s.outside
	s.mu.Unlock()
	s.jobs.stop(stop)
	if w != nil || outside {
		s.endWork(w, stop, true)
	}
}

// leaveAtOnce makes Run return with the code, even when everything hangs.
func (s *Shell) leaveAtOnce(code int) {
	s.mu.Lock()
	s.forced = code
	s.mu.Unlock()
	select {
	case s.force <- code:
	default:
	}
	s.post(func() {}) // wakes the loop
}

// stopping tells the user about a stop that was just asked for.
func (s *Shell) stopping(stops int) {
	s.lastWord = time.Now()
	if s.unchoose != nil {
		s.unchoose()
	}
	s.show()
	s.ink.say(func(r *render.Renderer) string {
		switch {
		case stops == 2:
			return r.Warning("what has not ended is killed; Ctrl-C once more leaves at once")
		case !s.live:
			return r.Flush() + r.Warning("stopping")
		}
		return r.Flush() // the prompt says it
	})
}

// howToGoOn says what can be done after a stop.
const howToGoOn = "only talk from here; /go goes on, /go TEXT does that instead"

// hintedStops is how often that is said; later the prompt's word for it is enough.
const hintedStops = 2

// turnStopped tells what a stop did to a turn.
func (s *Shell) turnStopped(out result.Outcome) {
	s.standing.Mode = modeTalk // look says so too, in a moment
	text := "stopped"
	if s.hinted < hintedStops {
		text += ", work kept"
	}
	text += fmt.Sprintf(" (%s)", summary(out))
	if out.Rest != "" {
		text += "; " + out.Rest
	}
	s.tellStopped(text)
}

func (s *Shell) tellStopped(text string) {
	s.hinted++
	s.ink.say(func(r *render.Renderer) string {
		out := r.Flush() + r.Warning(text)
		if !s.leaving && s.hinted <= hintedStops {
			out += r.Note(howToGoOn)
		}
		return out
	})
}

// returnLines gives the lines that were waiting at a stop back to the user:
// nothing is sent after a stop that was typed before it.
func (s *Shell) returnLines() {
	for _, l := range s.queue {
		s.letters.back = append(s.letters.back, returned(l))
	}
	s.queue = nil
	s.giveBack()
}

// shownReturned is how many of the lines that were not sent are named.
const shownReturned = 5

// giveBack puts what was not sent back into the prompt. What one stop gives back
// may come in many parts.
func (s *Shell) giveBack() {
	list := s.letters.back
	if len(list) == 0 || s.gone || s.leaving {
		return
	}
	s.letters.back = nil
	for _, l := range list {
		if s.letters.told++; s.letters.told > shownReturned {
			break
		}
		s.note("not sent: " + render.Brief(l.text))
	}
	if s.letters.told > shownReturned && !s.letters.toldMore {
		s.letters.toldMore = true
		s.note("not sent: more lines; all of them are in the prompt")
	}
	s.reader.Edit(s.slate.giveBack(list))
}

// unsent tells one who leaves, and has no prompt any more, what was not sent.
func (s *Shell) unsent() {
	list := s.letters.back
	for _, l := range s.queue {
		list = append(list, returned(l))
	}
	s.letters.back, s.queue = nil, nil
	slices.SortStableFunc(list, func(a, b returned) int { return a.nr - b.nr })
	for i, l := range list {
		if i == shownReturned {
			s.note(fmt.Sprintf("not sent: %s more", text.Count(len(list)-i, "line")))
			break
		}
		s.note("not sent: " + render.Brief(l.text))
	}
}

// stopComing reports whether a stop was typed after the line that is looked at.
func (s *Shell) stopComing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keyed > 0
}
