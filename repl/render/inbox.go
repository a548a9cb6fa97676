package render

import (
	"strings"

	"ralph/workers/agent"
)

const (
	// shownRows bounds how much of what was said is repeated.
	shownRows = 12
	// briefWidth is how wide a message is when only spoken of.
	briefWidth = 60
	// maxSaidBytes bounds what is looked at of a message to show its beginning.
	maxSaidBytes = 16 << 10
)

// inbox tells what became of a message of the human. A message that a stop gave
// back is the prompt's affair: it stands there again. Nothing here ends the
// block that is being written, but for a delivery, which comes between two.
func (r *Renderer) inbox(e agent.Event) string {
	text := strings.TrimSpace(SafeLine(e.Ref) + " " + foreign(e.From))
	if OfHelper(e) {
		text += " for " + SafeLine(e.Agent)
	}
	if e.Class != "steer" {
		text = strings.TrimSpace(text + " " + SafeLine(e.Class))
	}
	switch e.Status {
	case "queued", "edited", "cancelled":
		return r.apart(r.mark(markNote, r.dim(text+" "+e.Status+": "+Brief(e.Text))))
	case "held":
		return r.apart(r.mark(markWarning, text+" held, not saved: "+Brief(e.Text)))
	case "delivered":
		return r.said(e.Text, strings.TrimSpace(SafeLine(e.Ref)+" "+foreign(e.From)))
	case "answered":
		return r.aside(text+": "+Brief(e.Text), e.Output)
	case "returned":
		return ""
	}
	return r.Flush() + r.apart(r.mark(markNote, strings.TrimSpace(SafeLine(e.Status)+" "+SafeLine(e.Text))))
}

// foreign names a sender that is not this conversation.
func foreign(from string) string {
	if from == "" || from == "chat" {
		return ""
	}
	return "from " + Sender(from)
}

// Sender names whoever said something. The conversation id of a client says more
// than a person wants to read: its end tells terminals apart.
func Sender(from string) string {
	parts := strings.Split(from, "-")
	if len(parts) == 4 && parts[0] == "r" {
		return "terminal " + SafeLine(parts[3])
	}
	return SafeLine(from)
}

// Facts are lines of text that are told apart from the work, under a head; they
// stay as they are, but for what is too long.
func (r *Renderer) Facts(head, text string) string {
	bar := r.paint("36", r.pick("┃", "|"))
	out := bar + " " + r.dim(clip(SafeLine(head), r.o.Width-4, r.pick("…", "..."))) + "\n"
	for row := range strings.SplitSeq(strings.Trim(Safe(text), "\n"), "\n") {
		parts := []string{row}
		if !r.o.Raw {
			row = strings.ReplaceAll(row, "\t", "    ")
			parts = wrap(row, r.o.Width-1-2, len(row)-len(strings.TrimLeft(row, " ")))
		}
		for _, part := range parts {
			out += strings.TrimRight(bar+" "+part, " ") + "\n"
		}
	}
	return out
}

// aside is the answer to a question beside the work, apart from the work's own
// text behind a bar.
func (r *Renderer) aside(head, answer string) string {
	bar := r.paint("36", r.pick("┃", "|"))
	out := "\n" + bar + " " + r.dim(clip(head, r.o.Width-4, r.pick("…", "..."))) + "\n"
	text := Safe(strings.Trim(answer, "\n"))
	var split Splitter
	md := markdown{theme: r.o.Theme, ascii: r.o.ASCII, width: max(r.o.Width-1-2, minWrap)}
	for i, b := range append(split.Write(text), split.Close()...) {
		rows := strings.Trim(b.Text, "\n")
		if !r.o.Raw {
			rows = md.render(b)
		}
		if rows == "" {
			continue
		}
		if i > 0 && !b.Joined {
			out += bar + "\n"
		}
		for row := range strings.SplitSeq(rows, "\n") {
			for _, part := range r.broken(row, 2) {
				out += strings.TrimRight(bar+" "+part, " ") + "\n"
			}
		}
	}
	r.last = kindText
	return out
}

// broken is a row as rows that fit beside a margin.
func (r *Renderer) broken(row string, margin int) []string {
	if r.o.Raw {
		return []string{row}
	}
	return fold(row, r.o.Width-1-margin)
}

// Brief is a message as it is spoken of: the beginning of its first line, safe.
func Brief(text string) string {
	text = strings.TrimSpace(text[:min(len(text), maxSaidBytes)])
	row, rest, _ := strings.Cut(text, "\n")
	row = SafeLine(strings.ToValidUTF8(row, ""))
	if columns(row) > briefWidth {
		return clip(row, briefWidth, "…")
	}
	if strings.TrimSpace(rest) != "" {
		row += " …"
	}
	return row
}
