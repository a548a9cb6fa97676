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
	last   kind   // what was printed last of the work
	calls  map[string]agent.Event
	// children are the agents whose start was told.
	children map[string]bool
	// tries are those of the tasks of a plan; 0: that one is tried again was told.
	tries map[string]int
}

// kind tells the model's text from the lines about its work, so that a blank row
// can stand between them.
type kind int

const (
	kindNone kind = iota
	kindText
	kindLine
)

// New returns a Renderer.
func New(o Options) *Renderer {
	if o.Width <= 0 {
		o.Width = 80
	}
	return &Renderer{
		o:     o,
		md:    markdown{theme: o.Theme, ascii: o.ASCII, width: o.Width - 1},
		calls: map[string]agent.Event{}, children: map[string]bool{}, tries: map[string]int{},
	}
}

// Page renders a Markdown text that is not part of a conversation, for a terminal
// that is so many columns wide; theme is the setting of that name.
func Page(text string, width int, theme string, getenv func(string) string) string {
	r := New(Options{Width: width, Theme: PickTheme(theme, true, getenv), ASCII: PickASCII(getenv)})
	return r.stream(text) + r.Flush()
}

// Resize sets the width of what is rendered from now on.
func (r *Renderer) Resize(width int) {
	r.o.Width = max(width, 20)
	r.md.resize(r.o.Width - 1)
}

// Event returns the text that an event adds above the prompt, whole lines, ""
// for nothing.
func (r *Renderer) Event(e agent.Event) string {
	if line, ok := r.ofRun(e); ok {
		return r.apart(line)
	}
	if OfHelper(e) && e.Type != agent.EventInbox {
		return r.apart(r.child(e)) // it does not end the block that is being written
	}
	switch e.Type {
	case agent.EventTurnStart:
		out := r.Flush()
		r.turn, r.blocks, r.text = e.Turn, 0, false
		clear(r.calls)
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
		return r.Flush() + r.apart(r.tool(e))
	case agent.EventRetry:
		return r.retry(e)
	case agent.EventInbox:
		return r.inbox(e)
	case agent.EventInterrupt:
		return r.interrupt(e)
	}
	line := r.note(e)
	if line == "" {
		return ""
	}
	return r.Flush() + r.apart(line)
}

// apart sets a line about the work off from the text above it.
func (r *Renderer) apart(line string) string {
	if line == "" {
		return ""
	}
	if r.last == kindText {
		line = "\n" + line
	}
	r.last = kindLine
	return line
}

// Begin forgets what was printed before: another turn, or something that is not
// of the work, comes now.
func (r *Renderer) Begin() { r.last = kindNone }

// Tail returns the last rows, at most n, of the block that is not complete yet,
// as it was written and broken between words, so that a long paragraph is seen
// to grow.
func (r *Renderer) Tail(n int) []string {
	var rows []string
	last, code := r.split.Tail(n)
	for _, row := range last {
		row = strings.ReplaceAll(row, "\t", "    ")
		if code { // as it will be printed, but on one row
			rows = append(rows, clip(strings.Repeat(" ", r.split.margin)+codeIndent+row, r.o.Width-1, r.pick("…", "...")))
			continue
		}
		rows = append(rows, wrap(row, r.o.Width-1, 0)...)
	}
	return rows[max(0, len(rows)-n):]
}

// Flush returns the unfinished block, rendered; nothing is left of it.
func (r *Renderer) Flush() string {
	held := strings.TrimSuffix(r.held, "\r")
	r.held = ""
	var out strings.Builder
	for _, b := range append(r.split.Write(Safe(held)), r.split.Close()...) {
		out.WriteString(r.block(b))
	}
	return out.String()
}

// stream adds a piece of the answer.
func (r *Renderer) stream(text string) string {
	text = r.held + text
	n := len(text) - unfinished(text)
	text, r.held = text[:n], text[n:]
	var out strings.Builder
	for _, b := range r.split.Write(Safe(text)) {
		out.WriteString(r.block(b))
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
// of a turn and what is joined to the one above.
func (r *Renderer) block(b Block) string {
	out := r.rendered(b)
	if out == "" {
		return ""
	}
	if r.last == kindLine || r.last == kindText && !b.Joined {
		out = "\n" + out
	}
	r.blocks++
	r.last = kindText
	return out
}

// rendered is a block as whole rows, "" when there is nothing to see.
func (r *Renderer) rendered(b Block) string {
	rows := ""
	if r.o.Raw {
		rows = strings.Trim(b.Text, "\n")
		if b.code != nil {
			rows = strings.TrimSuffix(b.Text, "\n")
		}
	} else {
		rows = r.md.render(b)
	}
	if strings.TrimSpace(rows) == "" && (b.code == nil || b.code.first || b.code.last) {
		return ""
	}
	return rows + "\n"
}

func (r *Renderer) retry(e agent.Event) string {
	voided := r.blocks > 0 // what is not printed yet vanishes by itself
	r.split.Close()
	r.held, r.blocks, r.text = "", 0, false
	text := fmt.Sprintf("try %d failed: %s; next in %s", e.Attempt, SafeLine(e.Reason), Duration(time.Duration(e.WaitMS)*time.Millisecond))
	if voided {
		text += "; the text above is void"
	}
	return r.apart(r.mark(markRetry, text))
}

// askUser is the tool whose question and answer the conversation itself shows.
const askUser = "ask_user"

// tool is the line of a finished call.
func (r *Renderer) tool(e agent.Event) string {
	began := r.calls[e.CallID]
	delete(r.calls, e.CallID)
	if e.Tool == askUser && e.OK != nil && *e.OK {
		return ""
	}
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
	if e.Denied {
		facts = append(facts, SafeLine(e.Rule))
	} else if brief := SafeLine(e.Text); brief != "" {
		facts = append(facts, brief)
	} else if e.ExitCode != nil {
		facts = append(facts, fmt.Sprintf("exit %d", *e.ExitCode))
	}
	if e.DurationMS != nil && !e.Denied && e.Status != "background" {
		facts = append(facts, Duration(time.Duration(*e.DurationMS)*time.Millisecond))
	}
	name := SafeLine(e.Tool)
	line := fmt.Sprintf("%-7s", name)
	tail := strings.Join(facts, r.pick(" · ", " - "))
	room := r.o.Width - 1 - 2 - columns(line) - 1 - columns(tail) - 2
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
		if e.Status != "denied" || e.CallID != "" {
			return "" // the question and its answer, or the line of the call, tell it
		}
		if e.Tool == "check" {
			return r.mark(markDenied, "check not run: `"+text+"`: "+r.dim(SafeLine(e.Rule)))
		}
		return r.mark(markDenied, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", SafeLine(e.Status), SafeLine(e.Tool), text, r.dim(SafeLine(e.Rule)))))
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
	}
	return ""
}

// interrupt tells what the human's word did to the work. How a stop went is told
// with the end of the turn, and a mode by the prompt. Only what cut the text off
// ends the block that is being written.
func (r *Renderer) interrupt(e agent.Event) string {
	text := SafeLine(e.Text)
	if text == "" {
		text = SafeLine(e.Reason)
	}
	switch e.Status {
	case "":
		return r.Flush() + r.apart(r.mark(markWarning, text))
	case "preempted":
		return r.Flush() + r.apart(r.mark(markNote, r.dim(text)))
	case "pausing", "paused", "resumed":
		return r.apart(r.mark(markNote, r.dim(text)))
	case "late":
		return r.apart(r.mark(markNote, r.dim("late, not used: "+text)))
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
	return r.Rows(r.paint(colour, r.pick(sign, ascii))+" "+text, 2)
}

// Note is a line of Ralph's own for the conversation.
func (r *Renderer) Note(text string) string { return r.mark(markNote, SafeLine(text)) }

// Warning is a line that the user should not miss.
func (r *Renderer) Warning(text string) string { return r.mark(markWarning, SafeLine(text)) }

// Error is a failure and, when there is one, the way out of it.
func (r *Renderer) Error(message, hint string) string {
	out := r.mark(markError, SafeLine(message))
	if hint != "" {
		out += r.Rows("  "+r.dim("hint: "+SafeLine(hint)), 2)
	}
	return out
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
	return "\x1b[" + basic(r.o.Theme, colour) + "m" + text + reset
}

func (r *Renderer) pick(unicode, ascii string) string {
	if r.o.ASCII {
		return ascii
	}
	return unicode
}

// Row is text that matters less, cut to one row.
func (r *Renderer) Row(text string) string {
	text = SafeLine(text)
	if !r.o.Raw {
		text = clip(text, r.o.Width-1, r.pick("…", "..."))
	}
	return r.dim(text) + "\n"
}

// Rows breaks one safe line of text, which may hold our own colours, between
// words; the rows after the first begin with indent blanks.
func (r *Renderer) Rows(text string, indent int) string {
	if r.o.Raw {
		return text + "\n"
	}
	return strings.Join(wrap(text, r.o.Width-1, indent), "\n") + "\n"
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
