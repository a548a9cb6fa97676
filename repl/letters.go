package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/repl/render"
	"ralph/workers/agent"
)

// fromChat is the sender of what is typed here: what a stop takes out of the
// queue comes back to it.
const fromChat = "chat"

// letters is what the loop knows of the queue: what the inbox events told.
type letters struct {
	// waiting holds the class of each message that waits, by its id.
	waiting map[string]string
	// mine holds the place of those that were typed here.
	mine map[string]int
	// to holds the agent that a message is for, when it is not the coordinator.
	to    map[string]string
	asked map[string]chan struct{} // closed when the question has its final state
	// over are questions that were answered before it was told that they are on
	// disk.
	over map[string]bool
	back []returned // to be put into the prompt
	told int        // how many of them were named since the last work began
	// toldMore says that there were more than are named.
	toldMore bool
	typed    int                  // lines so far that went into one queue or the other
	early    []interrupts.Message // that waited when the conversation began
	// offered are the messages for which a turn was begun last: when they wait
	// all the same, it is not tried again until something changes.
	offered string
}

func newLetters() letters {
	return letters{waiting: map[string]string{}, mine: map[string]int{}, to: map[string]string{}, asked: map[string]chan struct{}{}, over: map[string]bool{}}
}

// left takes up what waited before the conversation began.
func (l *letters) left(list []interrupts.Message) {
	for _, m := range list {
		if deliverable(m) {
			l.early = append(l.early, m)
			l.waiting[m.ID()] = m.Class.String()
		}
	}
}

// deliverable says that a turn can bring a message to the coordinator.
func deliverable(m interrupts.Message) bool {
	return (m.To == "" || m.To == mainAgent) && m.Class != interrupts.ClassStop && m.Class != interrupts.ClassAsk
}

// due names the messages that wait for a turn.
func (l *letters) due() string {
	var ids []string
	for id, class := range l.waiting {
		if class != interrupts.ClassAsk.String() && l.to[id] == "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// waitOn leaves what waits for a later turn.
func (l *letters) waitOn() { l.offered = l.due() }

// speak says something to the coordinator while it works. That it was accepted is
// shown when it is on disk, or is known not to be.
func (s *Shell) speak(class interrupts.Class, text string) string { return s.speakTo(class, "", text) }

// speakTo says something to one agent, "" for the coordinator.
func (s *Shell) speakTo(class interrupts.Class, to, text string) string {
	m := s.mind.Queue.Say(interrupts.Message{Class: class, Text: text, From: fromChat, To: to})
	if m.N == 0 {
		s.fail("not accepted: "+render.Brief(text), "Ralph is leaving; say it again after the next start")
		return ""
	}
	s.letters.typed++
	s.letters.mine[m.ID()] = s.letters.typed
	if to != "" {
		s.letters.to[m.ID()] = to
	}
	return m.ID()
}

// message is /now, /ask and /later. When nothing runs there is nothing to
// interrupt and nothing to wait for.
func (s *Shell) message(name, text string) {
	switch {
	case text == "":
		s.fail("/"+name+" needs what you want to say", "/help "+name+" says when it is delivered")
	case name != "ask" && s.toAgent(spokenClass(name), text, func() { s.speakNow(name, text) }):
	default:
		s.speakNow(name, text)
	}
}

// spokenClass is the class of what /now and /later say.
func spokenClass(name string) interrupts.Class {
	if name == "now" {
		return interrupts.ClassUrgent
	}
	return interrupts.ClassLater
}

// speakNow says it to the coordinator.
func (s *Shell) speakNow(name, text string) {
	switch {
	case name == "ask" && s.running() == nil:
		s.askAside(text)
	case name == "ask":
		s.speak(interrupts.ClassAsk, text)
	case s.running() == nil:
		s.turn(text)
	default:
		s.speak(spokenClass(name), text)
	}
}

// askAside asks while nothing else runs, and waits for the answer, so that it can
// be stopped and comes before what a pipe says next.
func (s *Shell) askAside(text string) {
	id := s.speak(interrupts.ClassAsk, text)
	if id == "" {
		return
	}
	done := make(chan struct{})
	s.letters.asked[id] = done // before any event about it is looked at
	s.start("asked", true, func(ctx context.Context) func() {
		select {
		case <-done:
		case <-ctx.Done():
		}
		return nil
	})
}

// onInbox learns what became of a message.
func (s *Shell) onInbox(e agent.Event) {
	l := &s.letters
	switch e.Status {
	case "queued", "held", "edited":
		if !l.over[e.Ref] {
			l.waiting[e.Ref] = e.Class
			s.next()
		}
	case "returned":
		nr := l.mine[e.Ref]
		if e.From == fromChat {
			l.back = append(l.back, returned{nr, typedAs(e.Class, l.to[e.Ref], e.Text)})
		}
		l.settled(e.Ref)
	case "answered":
		if l.waiting[e.Ref] == "" {
			l.over[e.Ref] = true
		}
		l.settled(e.Ref)
	case "delivered", "cancelled":
		l.settled(e.Ref)
	}
}

func (l *letters) settled(id string) {
	delete(l.waiting, id)
	delete(l.mine, id)
	delete(l.to, id)
	if done := l.asked[id]; done != nil {
		close(done)
		delete(l.asked, id)
	}
}

// typedAs is the line that said a message.
func typedAs(class, to, text string) string {
	if to != "" {
		text = "@" + to + ": " + text
	}
	switch class {
	case "urgent":
		return "/now " + text
	case "ask", "later":
		return "/" + class + " " + text
	}
	return text
}

// deliver begins a turn for what waits. It reports whether there is one.
func (s *Shell) deliver() bool {
	due := s.letters.due()
	if due == "" || due == s.letters.offered {
		return false
	}
	s.letters.offered = due
	s.run(coordinator.Job{Chat: true}, func() bool { return slices.ContainsFunc(s.mind.Queue.Waiting(), deliverable) })
	return true
}

// tellEarly tells what waits from last time.
func (s *Shell) tellEarly() {
	list := s.letters.early
	s.letters.early = nil
	for i, m := range list {
		if i == shownReturned {
			s.note(fmt.Sprintf("and %d more; /queue lists them", len(list)-i))
			break
		}
		s.note(fmt.Sprintf("%s %s, from last time: %s", m.ID(), m.Class, render.Brief(m.Text)))
	}
}

// lineID is the id of a command that waits in the shell.
func lineID(l waitingLine) string { return fmt.Sprintf("c-%d", l.nr) }

// queued does /queue.
func (s *Shell) queued(args string) {
	verb, rest, _ := strings.Cut(args, " ")
	id, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
	text = strings.TrimSpace(text)
	urgent := interrupts.ClassUrgent
	switch {
	case verb == "":
		s.listQueue()
	case id == "" && slices.Contains([]string{"drop", "edit", "urgent"}, verb):
		s.fail("/queue "+verb+" needs the id of a message", "/queue lists them")
	case strings.HasPrefix(id, "c-"):
		s.amendLine(verb, id)
	case verb == "drop":
		s.amend(id, interrupts.Amendment{Drop: true})
	case verb == "urgent" && text == "":
		s.amend(id, interrupts.Amendment{Class: &urgent})
	case verb == "urgent":
		s.amend(id, interrupts.Amendment{Class: &urgent, Text: &text})
	case verb == "edit" && text == "":
		s.editLine(id)
	case verb == "edit":
		s.amend(id, interrupts.Amendment{Text: &text})
	default:
		s.fail(fmt.Sprintf("/queue %s: there is no such thing", verb), "/queue lists what waits; /queue drop ID, /queue edit ID TEXT and /queue urgent ID change it")
	}
}

func (s *Shell) listQueue() {
	lines := slices.Clone(s.queue)
	s.aside(func(context.Context) func() {
		table := queueTable(s.mind.Queue.Waiting(), time.Now())
		for _, l := range lines {
			table = append(table, []string{lineID(l), "command", "", "", render.Brief(l.text)})
		}
		return func() {
			if len(table) == 0 {
				s.note("nothing waits")
				return
			}
			s.rows(append([][]string{{"id", "class", "age", "", "text"}}, table...))
		}
	})
}

// shownQueue bounds how many messages are listed.
const shownQueue = 50

func queueTable(list []interrupts.Message, now time.Time) [][]string {
	var table [][]string
	for i, m := range list {
		if i == shownQueue {
			table = append(table, []string{"", "", "", "", fmt.Sprintf("and %d more; all are in .ralph/queue.md", len(list)-i)})
			break
		}
		state := ""
		if !m.Kept {
			state = "held, not saved"
		}
		text := render.Brief(m.Text)
		if m.To != "" && m.To != mainAgent {
			text = "@" + m.To + ": " + text
		}
		if m.From != fromChat && m.From != "" {
			text += " (from " + render.Sender(m.From) + ")"
		}
		table = append(table, []string{m.ID(), m.Class.String(), age(now.Sub(m.At)), state, text})
	}
	return table
}

// age is how long ago something was said, coarsely.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// amend changes a message that waits; what became of it is told by an event.
func (s *Shell) amend(id string, a interrupts.Amendment) {
	s.aside(func(context.Context) func() {
		_, err := s.mind.Queue.Amend(id, a)
		waiting := s.mind.Queue.Waiting()
		return func() { s.amended(id, err, waiting) }
	})
}

func (s *Shell) amended(id string, err error, waiting []interrupts.Message) {
	hint := "nothing waits"
	if len(waiting) > 0 {
		ids := make([]string, 0, shownQueue)
		for _, m := range waiting[:min(len(waiting), shownQueue)] {
			ids = append(ids, m.ID())
		}
		hint = "these wait: " + strings.Join(ids, ", ")
	}
	switch {
	case err == nil:
	case errors.Is(err, interrupts.ErrNoMessage):
		s.fail(fmt.Sprintf("there is no message %q", id), hint)
	case errors.Is(err, interrupts.ErrSettled):
		s.fail(id+" waits no longer: it was delivered or taken out", hint)
	default:
		s.fail(err.Error(), hint)
	}
}

// editLine brings the text of a message into the prompt, to be changed there.
func (s *Shell) editLine(id string) {
	s.aside(func(context.Context) func() {
		waiting := s.mind.Queue.Waiting()
		i := slices.IndexFunc(waiting, func(m interrupts.Message) bool { return m.ID() == id })
		return func() {
			switch {
			case i < 0:
				s.amended(id, interrupts.ErrNoMessage, waiting)
			case !s.live:
				s.fail("/queue edit needs the new text", "/queue edit "+id+" the new text")
			default:
				s.reader.Edit(func(line string, fold func(string) string) string {
					if line != "" {
						return line // somebody types already
					}
					return "/queue edit " + id + " " + fold(waiting[i].Text)
				})
			}
		}
	})
}

// amendLine takes a command that waits in the shell out of its queue.
func (s *Shell) amendLine(verb, id string) {
	i := slices.IndexFunc(s.queue, func(l waitingLine) bool { return lineID(l) == id })
	switch {
	case i < 0:
		s.fail(fmt.Sprintf("there is no command %q that waits", id), "/queue lists what waits")
	case verb != "drop":
		s.fail(id+" is a command that waits for the turn to end", "/queue drop "+id+" takes it out")
	default:
		s.note("taken out: " + render.Brief(s.queue[i].text))
		s.queue = slices.Delete(s.queue, i, i+1)
	}
}
