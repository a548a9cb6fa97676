package repl

import (
	"fmt"
	"strings"
	"time"

	"ralph/memory/text"
	"ralph/repl/line"
	"ralph/repl/render"
)

// patience is how long a turn runs before the prompt says for how long.
const patience = 5 * time.Second

// show sets the prompt for the state of the conversation.
func (s *Shell) show() {
	if s.gone {
		return
	}
	p := s.whole()
	now := fmt.Sprint(p.Ask, s.busy(), s.stopsSoFar(), s.waits(), s.standing.Mode, s.standing.State)
	p.Now = now != s.shown
	s.shown = now
	s.ink.show(p, nil)
}

// whole is the prompt with the question that it puts.
func (s *Shell) whole() line.Prompt {
	p := s.prompt()
	if len(s.questions) > 0 {
		p.Ask = s.questions[0].nr
	}
	p.Turn = s.slate.turn(p.Ask)
	return p
}

func (s *Shell) prompt() line.Prompt {
	if len(s.questions) > 0 {
		options := ""
		if o := s.questions[0].Options; len(o) > 0 {
			options = fmt.Sprintf(" [%s]", render.SafeLine(o[0]))
		}
		return line.Prompt{Text: "answer" + options, Mark: s.mark("? ", "? ", "")}
	}
	mark := s.mark("❯ ", "> ", s.mode())
	if !s.busy() {
		parts := []string{strings.TrimSpace("ralph " + s.mode())}
		if n := s.children(); n > 0 {
			parts = append(parts, text.Count(n, "agent"))
		}
		if n := s.waits(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d queued", n))
		}
		if n := len(s.standing.Background); n > 0 {
			parts = append(parts, fmt.Sprintf("%d in background", n))
		}
		return line.Prompt{Text: strings.Join(parts, s.dot()), Mark: mark}
	}
	if !s.live {
		return line.Prompt{}
	}
	return line.Prompt{Text: s.doing(), Mark: mark}
}

// mode is what the prompt says when a line does not simply become work.
func (s *Shell) mode() string {
	switch {
	case s.holds():
		return s.standing.State
	case s.talks():
		return "talk"
	}
	return ""
}

// waits is how much waits, in the queue and in the shell.
func (s *Shell) waits() int { return len(s.letters.waiting) + len(s.queue) }

// doing is the prompt's text while work runs.
func (s *Shell) doing() string {
	tool, spent := s.ink.state()
	var facts []string
	head := "ralph " + s.spinner()
	if n := s.children(); n > 0 {
		facts = append(facts, text.Count(n, "agent"))
	}
	if v := underWay(s.standing); v != nil && len(v.Active) > 0 {
		facts = append(facts, atWork(v))
	}
	if w := s.running(); w != nil {
		if d := time.Since(w.begun); d >= patience {
			facts = append(facts, elapsed(d))
		}
		head = strings.TrimSpace(head + " " + w.label)
	}
	if n := s.waits(); n > 0 {
		facts = append(facts, fmt.Sprintf("%d queued", n))
	}
	if n := len(s.standing.Background); n > 0 {
		facts = append(facts, fmt.Sprintf("%d in background", n))
	}
	switch {
	case s.stopsSoFar() > 0 || s.standing.State == stateStopping:
		head += " stopping"
	case s.mode() != "":
		head += " " + s.mode()
	}
	cols, _ := s.size()
	return s.fitted(head, tool, facts, spent, (cols-1)/2) // the line reader cuts what is longer
}

// leastTool is how much of a tool's name and argument is worth showing.
const leastTool = 8

// fitted puts together as much as room has place for. What was spent goes first,
// then the last facts, then the tool; only the tool is shortened.
func (s *Shell) fitted(head, tool string, facts, spent []string, room int) string {
	dot := s.dot()
	width := func(least int) int {
		n := len([]rune(strings.Join(append(append([]string{head}, facts...), spent...), dot)))
		if tool != "" {
			n += 1 + min(len([]rune(tool)), least)
		}
		return n
	}
	for len(spent) > 0 && width(leastTool) > room {
		spent = spent[:len(spent)-1]
	}
	for len(facts) > 1 && width(leastTool) > room {
		facts = facts[:len(facts)-1]
	}
	if width(leastTool) > room {
		tool = ""
	}
	if width(leastTool) > room {
		facts = nil
	}
	if tool != "" {
		head += " " + shorten(tool, room-width(0)) // width counts the space before it
	}
	all := strings.Join(append(facts, spent...), dot)
	if tool == "" || all == "" {
		return strings.TrimRight(head+" "+all, " ")
	}
	return head + dot + all
}

// dot stands between two facts.
func (s *Shell) dot() string {
	if render.PickASCII(s.o.Getenv) {
		return " - "
	}
	return " · "
}

// elapsed is a time that is still running.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return render.Duration(d)
}

// shorten cuts text to n characters, but not below a few.
func shorten(text string, n int) string {
	r := []rune(text)
	if n = max(n, leastTool); len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// mark is the end of the prompt; the plain one carries the name and the mode,
// because there is no state before it.
func (s *Shell) mark(live, plain, mode string) string {
	if s.live && !render.PickASCII(s.o.Getenv) {
		return live
	}
	if s.live {
		return plain
	}
	return strings.TrimSpace("ralph "+mode) + plain
}

// tickEvery is how often something moves while work runs: the prompt, where there
// is one.
func (s *Shell) tickEvery() time.Duration {
	if !s.live {
		return lookEvery
	}
	return spinEvery
}

func (s *Shell) stopsSoFar() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stops
}

func (s *Shell) spinner() string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	if render.PickASCII(s.o.Getenv) {
		frames = []rune(`|/-\`)
	}
	return string(frames[s.spin%len(frames)])
}

func (s *Shell) size() (cols, rows int) { return line.Size(s.o.Out) }
