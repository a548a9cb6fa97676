package repl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/slash"
	"ralph/interrupts"
	"ralph/repl/render"
)

// waitingLine is a line that waits in the shell: a command that does not work
// while a turn runs, or what was typed before the coordinator was there.
type waitingLine returned

// onLine is a submitted line; ask is the question that was on the screen then.
func (s *Shell) onLine(text string, ask int) {
	if s.stopComing() {
		s.enqueue(text) // it goes back to the user in a moment
		return
	}
	if s.leaving {
		return
	}
	s.lastWord = time.Now()
	if s.onOwnLine(text) {
		return
	}
	name, args, slashed := splitCommand(text)
	c, _, known := slash.Find(name)
	now := slashed && known && c.WhileBusy
	if s.answers(ask) && !(slashed && known && s.ready) { // a command is no answer
		s.onAnswer(text)
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	if s.stale(ask) && !now {
		s.letters.typed++
		s.letters.back = append(s.letters.back, returned{s.letters.typed, text})
		s.giveBack()
		return
	}
	s.history.add(text)
	if s.ready && (name == "now" || name == "go") && args != "" || name == "go" && s.talks() {
		s.setBeside() // it does not wait for a server that never ends
	}
	if s.ready && !slashed && s.toAgent(interrupts.ClassSteer, text, func() { s.plain(text) }) {
		return
	}
	switch {
	case !s.ready:
		s.enqueue(text)
	case s.running() == nil, !slashed:
		s.plain(text)
	case known && !now && !s.worksNow(c.Name, args):
		s.wait(text, "/"+c.Name)
	default:
		if !spoken(c.Name) {
			s.said(text)
		}
		s.command(name, args)
	}
}

// plain acts on a line while nothing runs, or says it to who works.
func (s *Shell) plain(text string) {
	w := s.running()
	if w == nil {
		s.do(text)
		return
	}
	if strings.HasPrefix(w.label, ownMark) {
		s.wait(text, "it") // Ralph is to know what came of the command
		if len(s.queue) == 1 {
			s.note("/now TEXT does not wait for it; Ctrl-C ends it")
		}
		return
	}
	s.speak(interrupts.ClassSteer, strings.TrimSpace(text))
}

// spoken says that a command is a message, which is shown when it is accepted.
func spoken(name string) bool { return slices.Contains([]string{"now", "ask", "later"}, name) }

// enqueue keeps a line in the shell.
func (s *Shell) enqueue(text string) {
	s.letters.typed++
	s.queue = append(s.queue, waitingLine{s.letters.typed, text})
}

// wait keeps a command until the work has ended.
func (s *Shell) wait(text, name string) {
	s.enqueue(text)
	until := "the turn"
	if w := s.running(); w != nil && !w.turn {
		until = w.label
	}
	s.note(fmt.Sprintf("%s waits until %s ends (%d waiting)", name, until, len(s.queue)))
}

// next does what was waiting for the work to end: messages first, for one that
// came while the work still went on would have been part of it.
func (s *Shell) next() {
	for s.ready && !s.leaving && !s.gone && !s.stopComing() && s.running() == nil && (s.deliver() || len(s.queue) > 0) {
		if s.running() != nil {
			return
		}
		text := s.queue[0].text
		s.queue = s.queue[1:]
		s.do(text)
	}
}

// said repeats a line where it is acted on; a person on a plain terminal sees
// it where it was typed, and a script shows its lines itself.
func (s *Shell) said(text string) {
	if s.live || s.sequential && s.script == nil {
		s.ink.say(func(r *render.Renderer) string { return r.Said(text) })
	}
}

// do acts on a line while nothing runs.
func (s *Shell) do(text string) {
	name, args, ok := splitCommand(text)
	if name != "ask" || args == "" {
		s.said(text) // a question is shown when it is accepted
	}
	if command, own := ownLine(text); own {
		s.own(command)
		return
	}
	if ok {
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
	name, args = rest, ""
	if i := strings.IndexAny(rest, " \t\n"); i >= 0 {
		name, args = rest[:i], rest[i+1:]
	}
	if strings.ContainsAny(name, "/.") {
		return "", "", false
	}
	return name, strings.TrimSpace(args), true
}
