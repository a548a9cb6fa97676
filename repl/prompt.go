package repl

import (
	"fmt"
	"strings"
	"time"

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
	p := s.prompt()
	now := fmt.Sprint(len(s.questions), s.running() != nil, s.stops(), len(s.queue))
	p.Now = now != s.shown
	s.shown = now
	s.ink.show(p)
}

func (s *Shell) prompt() line.Prompt {
	w := s.running()
	if len(s.questions) > 0 {
		options := ""
		if o := s.questions[0].Options; len(o) > 0 {
			options = fmt.Sprintf(" [%s]", render.SafeLine(o[0]))
		}
		return line.Prompt{Text: "answer" + options, Mark: s.mark("? ", "? ")}
	}
	if w == nil {
		return line.Prompt{Text: "ralph", Mark: s.mark("❯ ", "> ")}
	}
	if !s.live {
		return line.Prompt{}
	}
	tool, parts := s.ink.state()
	if n := len(s.queue); n > 0 {
		parts = append([]string{fmt.Sprintf("%d queued", n)}, parts...)
	}
	if d := time.Since(w.begun); d >= patience {
		parts = append([]string{elapsed(d)}, parts...)
	}
	head := "ralph " + s.spinner()
	switch {
	case s.stops() > 0:
		head += " stopping"
	case w.label != "":
		head += " " + w.label
	}
	cols, _ := s.size()
	for len(parts) > 1 && len([]rune(head+strings.Join(parts, " · "))) > cols/2-3 {
		parts = parts[:len(parts)-1]
	}
	rest := strings.Join(parts, " · ")
	if tool != "" {
		head += " " + shorten(tool, cols/2-len([]rune(head))-len([]rune(rest))-5)
		if rest != "" {
			head += " ·"
		}
	}
	return line.Prompt{Text: strings.TrimRight(head+" "+rest, " "), Mark: s.mark("❯ ", "> ")}
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
	if n = max(n, 8); len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// mark is the end of the prompt; the plain one carries the name, because there
// is no state before it.
func (s *Shell) mark(live, plain string) string {
	if s.live && !render.PickASCII(s.o.Getenv) {
		return live
	}
	if s.live {
		return plain
	}
	return "ralph" + plain
}

func (s *Shell) stops() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work == nil {
		return 0
	}
	return s.work.stops
}

func (s *Shell) spinner() string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	if render.PickASCII(s.o.Getenv) {
		frames = []rune(`|/-\`)
	}
	return string(frames[s.spin%len(frames)])
}

func (s *Shell) size() (cols, rows int) { return line.Size(s.o.Out) }
