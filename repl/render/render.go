package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ralph/workers/agent"
)

const reset = "\x1b[0m"

// maxDetail bounds what is shown of a tool's arguments on its line.
const maxDetail = 200

// Renderer turns the events of one conversation into text. Not safe for
// concurrent use: calls come one at a time.
type Renderer struct {
	o      Options
	md     markdown
	split  Splitter
	held   string // a carriage return at the end of a delta
	turn   int    // of the text that streams
	blocks int    // of that turn, printed so far
	text   bool   // that turn's text came as deltas
	calls  map[string]agent.Event
}

// New returns a Renderer.
func New(o Options) *Renderer {
	if o.Width <= 0 {
		o.Width = 80
	}
	return &Renderer{
		o:     o,
		md:    markdown{theme: o.Theme, ascii: o.ASCII, width: o.Width - 1},
		calls: map[string]agent.Event{},
	}
}

// Resize sets the width of what is rendered from now on.
func (r *Renderer) Resize(width int) {
	r.o.Width = max(width, 20)
	r.md.resize(r.o.Width - 1)
}

// Event returns the text that an event adds above the prompt, whole lines, ""
// for nothing.
func (r *Renderer) Event(e agent.Event) string {
	switch e.Type {
	case agent.EventTurnStart:
		out := r.Flush()
		r.turn, r.blocks, r.text = e.Turn, 0, false
		return out
	case agent.EventMessageDelta:
		r.text = true
		return r.stream(e.Text)
	case agent.EventMessage:
		return r.message(e.Text)
	case agent.EventToolStart:
		out := r.Flush()
		r.calls[e.CallID] = e
		return out
	case agent.EventToolEnd:
		return r.Flush() + r.tool(e)
	case agent.EventRetry:
		return r.retry(e)
	}
	line := r.note(e)
	if line == "" {
		return ""
	}
	return r.Flush() + line
}

// Tail returns the last rows, at most n, of the block that is not complete yet,
// as it was written.
func (r *Renderer) Tail(n int) []string {
	rows := r.split.Tail(n)
	for i, row := range rows {
		rows[i] = strings.ReplaceAll(row, "\t", "    ")
	}
	return rows
}

// Flush returns the unfinished block, rendered; nothing is left of it.
func (r *Renderer) Flush() string {
	r.held = ""
	return r.block(r.split.Close())
}

// Markdown renders a whole text from a model or a file.
func (r *Renderer) Markdown(text string) string {
	var s Splitter
	var b strings.Builder
	blocks := s.Write(Safe(text))
	if rest := s.Close(); rest != "" {
		blocks = append(blocks, rest)
	}
	for i, block := range blocks {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(r.rendered(block))
	}
	return b.String()
}

// stream adds a piece of the answer.
func (r *Renderer) stream(text string) string {
	text = r.held + text
	r.held = ""
	if strings.HasSuffix(text, "\r") {
		text, r.held = text[:len(text)-1], "\r"
	}
	var out strings.Builder
	for _, block := range r.split.Write(Safe(text)) {
		out.WriteString(r.block(block))
	}
	return out.String()
}

// message ends the text of a turn; it prints it when it did not stream.
func (r *Renderer) message(text string) string {
	if r.text {
		return r.Flush()
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return r.stream(text) + r.Flush()
}

// block renders one complete block, with a blank row before all but the first
// of a turn.
func (r *Renderer) block(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	out := r.rendered(text)
	if r.blocks > 0 {
		out = "\n" + out
	}
	r.blocks++
	return out
}

func (r *Renderer) rendered(block string) string {
	if r.o.Raw {
		return strings.Trim(block, "\n") + "\n"
	}
	return r.md.render(block) + "\n"
}

func (r *Renderer) retry(e agent.Event) string {
	voided := r.blocks > 0 || len(r.split.Tail(1)) > 0
	r.split.Close()
	r.held, r.blocks, r.text = "", 0, false
	text := fmt.Sprintf("try %d failed: %s; next in %s", e.Attempt, SafeLine(e.Reason), Duration(time.Duration(e.WaitMS)*time.Millisecond))
	if voided {
		text += "; the text above is void"
	}
	return r.mark(markRetry, text)
}

// tool is the line of a finished call.
func (r *Renderer) tool(e agent.Event) string {
	began := r.calls[e.CallID]
	delete(r.calls, e.CallID)
	args := e.Args
	if len(args) == 0 {
		args = began.Args
	}
	kind := markOK
	switch {
	case e.Denied:
		kind = markDenied
	case e.OK != nil && !*e.OK, e.ExitCode != nil && *e.ExitCode != 0:
		kind = markFailed
	}
	var facts []string
	if brief := SafeLine(e.Text); brief != "" {
		facts = append(facts, brief)
	} else if e.ExitCode != nil {
		facts = append(facts, fmt.Sprintf("exit %d", *e.ExitCode))
	}
	if e.DurationMS != nil {
		facts = append(facts, Duration(time.Duration(*e.DurationMS)*time.Millisecond))
	}
	name := SafeLine(e.Tool)
	line := fmt.Sprintf("%-7s", name)
	tail := strings.Join(facts, r.pick(" · ", " - "))
	room := r.o.Width - 1 - 2 - len([]rune(line)) - 1 - len([]rune(tail)) - 2
	if detail := clip(Detail(e.Tool, args), max(room, 12), r.pick("…", "...")); detail != "" {
		line += " " + detail
	}
	line = strings.TrimRight(line, " ")
	if tail != "" {
		line += "  " + r.dim(tail)
	}
	return r.mark(kind, line)
}

// Working says in a few words what a tool call that just began does.
func (r *Renderer) Working(e agent.Event) string {
	return clip(strings.TrimSpace(SafeLine(e.Tool)+" "+Detail(e.Tool, e.Args)), 60, r.pick("…", "..."))
}

// Detail is the one argument of a call that says most about it, safe and on one
// line.
func Detail(tool string, args json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return SafeLine(clip(string(args), maxDetail, "…"))
	}
	for _, name := range []string{"command", "path", "pattern", "url", "question", "title", "message", "action", "text", "summary", "id"} {
		if v, ok := fields[name].(string); ok && v != "" {
			return SafeLine(clip(v, maxDetail, "…"))
		}
	}
	return ""
}

// note is the line of every other event that a person should see.
func (r *Renderer) note(e agent.Event) string {
	text := SafeLine(e.Text)
	switch e.Type {
	case agent.EventWarning:
		return r.mark(markWarning, text)
	case agent.EventPermission:
		if e.Status == "asked" {
			return ""
		}
		kind := markOK
		if e.Status == "denied" {
			kind = markDenied
		}
		return r.mark(kind, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", SafeLine(e.Status), SafeLine(e.Tool), text, r.dim(SafeLine(e.Rule)))))
	case agent.EventCompact:
		return r.mark(markNote, "context shortened: "+text)
	case agent.EventGate:
		kind, verdict := markOK, "passed"
		if e.OK != nil && !*e.OK {
			kind, verdict = markFailed, "failed"
		}
		if e.ExitCode != nil {
			verdict = fmt.Sprintf("%s, exit %d", verdict, *e.ExitCode)
		}
		return r.mark(kind, "check "+text+"  "+r.dim(verdict))
	case agent.EventTaskStart:
		return r.mark(markNote, strings.TrimSpace("task "+SafeLine(e.TaskID)+" "+text))
	case agent.EventTaskEnd:
		return r.mark(markNote, strings.TrimSpace("task "+SafeLine(e.TaskID)+" "+SafeLine(e.Status)+" "+text))
	case agent.EventInterrupt:
		return r.mark(markWarning, "interrupted: "+SafeLine(e.Reason))
	}
	return ""
}

type markKind int

const (
	markNote markKind = iota
	markOK
	markFailed
	markDenied
	markWarning
	markRetry
	markError
)

// mark puts the sign of a kind before one line of text.
func (r *Renderer) mark(k markKind, text string) string {
	sign, ascii, colour := "·", "-", "2"
	switch k {
	case markOK:
		sign, ascii, colour = "✓", "+", "32"
	case markFailed:
		sign, ascii, colour = "✗", "x", "31"
	case markDenied:
		sign, ascii, colour = "⊘", "o", "33"
	case markWarning:
		sign, ascii, colour = "!", "!", "33"
	case markRetry:
		sign, ascii, colour = "↻", "~", "33"
	case markError:
		sign, ascii, colour = "✗", "x", "31"
	}
	return r.paint(colour, r.pick(sign, ascii)) + " " + text + "\n"
}

// Note is a line of Ralph's own for the conversation.
func (r *Renderer) Note(text string) string { return r.mark(markNote, SafeLine(text)) }

// Warning is a line that the user should not miss.
func (r *Renderer) Warning(text string) string { return r.mark(markWarning, SafeLine(text)) }

// Error is a failure and, when there is one, the way out of it.
func (r *Renderer) Error(message, hint string) string {
	out := r.mark(markError, SafeLine(message))
	if hint != "" {
		out += "  " + r.dim("hint: "+SafeLine(hint)) + "\n"
	}
	return out
}

// Said repeats what the user said, so that it can be found in the scrollback.
func (r *Renderer) Said(text string) string {
	sign := r.paint("36", r.pick("❯", ">"))
	rows := strings.Split(strings.TrimRight(Safe(text), "\n"), "\n")
	const shown = 12
	if len(rows) > shown {
		rows = append(rows[:shown-1:shown-1], fmt.Sprintf("%s (%d more lines)", r.pick("…", "..."), len(rows)-shown+1))
	}
	return "\n" + sign + " " + strings.Join(rows, "\n  ") + "\n"
}

// Dim is text that matters less; it is made safe.
func (r *Renderer) Dim(text string) string { return r.dim(SafeLine(text)) }

func (r *Renderer) dim(text string) string {
	if text == "" {
		return ""
	}
	return r.paint("2", text)
}

func (r *Renderer) paint(colour, text string) string {
	if r.o.Theme == ThemeNone {
		return text
	}
	return "\x1b[" + colour + "m" + text + reset
}

func (r *Renderer) pick(unicode, ascii string) string {
	if r.o.ASCII {
		return ascii
	}
	return unicode
}

// Rows breaks one safe line of text between words; the rows after the first
// begin with indent blanks.
func (r *Renderer) Rows(text string, indent int) string {
	limit := max(r.o.Width-1, indent+20)
	lead := len(text) - len(strings.TrimLeft(text, " "))
	row, used := strings.Repeat(" ", lead), lead
	var b strings.Builder
	for _, word := range strings.SplitAfter(text[lead:], " ") {
		n := len([]rune(strings.TrimRight(word, " ")))
		if used+n > limit && used > indent {
			b.WriteString(strings.TrimRight(row, " ") + "\n")
			row, used = strings.Repeat(" ", indent), indent
		}
		row += word
		used += len([]rune(word))
	}
	return b.String() + strings.TrimRight(row, " ") + "\n"
}

// clip shortens text to n characters, the last of them dots.
func clip(text string, n int, dots string) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:max(n-len([]rune(dots)), 0)]) + dots
}

// Duration is a length of time for a person: "340 ms", "1.2 s", "2m05s".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Tokens is a number of tokens for a person: "812", "14k", "1.2M".
func Tokens(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// Cost is an amount of money for a person; nil is unknown, never zero.
func Cost(usd *float64) string {
	switch {
	case usd == nil:
		return "cost unknown"
	case *usd > 0 && *usd < 0.01:
		return fmt.Sprintf("$%.4f", *usd)
	}
	return fmt.Sprintf("$%.2f", *usd)
}

// Diff colours a unified diff.
func (r *Renderer) Diff(text string) string {
	var b strings.Builder
	for row := range strings.Lines(Safe(text)) {
		row = strings.TrimSuffix(row, "\n")
		colour := ""
		switch {
		case strings.HasPrefix(row, "+++"), strings.HasPrefix(row, "---"), strings.HasPrefix(row, "diff "):
			colour = "1"
		case strings.HasPrefix(row, "@@"):
			colour = "36"
		case strings.HasPrefix(row, "+"):
			colour = "32"
		case strings.HasPrefix(row, "-"):
			colour = "31"
		}
		if colour != "" {
			row = r.paint(colour, row)
		}
		b.WriteString(row + "\n")
	}
	return b.String()
}

// Question shows what is asked with the exact text that is decided on, whole,
// and the answers; the first is the one that an empty line gives.
func (r *Renderer) Question(kind, text string, options []string) string {
	rows := strings.Split(strings.Trim(Safe(text), "\n"), "\n")
	out := "\n" + r.paint("33", "?") + " "
	if kind == "permission" || kind == "check" {
		out += "permission: "
	}
	out += strings.Join(rows, "\n  ") + "\n"
	if len(options) > 0 {
		safe := make([]string, len(options))
		for i, o := range options {
			safe[i] = SafeLine(o)
		}
		safe[0] = "[" + safe[0] + "]"
		out += "  " + r.dim(strings.Join(safe, " / ")) + "\n"
	}
	return out
}
