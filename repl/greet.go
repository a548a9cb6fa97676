package repl

import (
	"fmt"
	"strings"
	"time"

	"ralph/repl/render"
)

// farewellFiles bounds the list of changed files.
const farewellFiles = 10

// noted is how a fact of the greeting that is a warning begins.
const noted = "note: "

// greet says where we are and how things stand.
func (s *Shell) greet() {
	end := s.mind.Models.Endpoint()
	facts := []string{}
	if text := firstRow(s.mind.About.Project().Summary()); text != "" {
		facts = append(facts, text)
	}
	if end.Model != "" || end.BaseURL != "" {
		facts = append(facts, fmt.Sprintf("model %s at %s", named(end.Model), named(end.BaseURL)))
	}
	if s.o.Facts != nil {
		facts = append(facts, s.o.Facts()...)
	}
	if text := interrupted(s.standing.Agents); text != "" {
		facts = append(facts, text)
	}
	s.ink.say(func(r *render.Renderer) string {
		var b strings.Builder
		b.WriteString(strings.TrimSpace("Ralph "+render.SafeLine(s.o.Version)) + "\n")
		for _, fact := range facts {
			if warning, ok := strings.CutPrefix(fact, noted); ok {
				b.WriteString(r.Warning(warning))
				continue
			}
			b.WriteString(r.Rows(r.Dim(fact), 2))
		}
		b.WriteString(r.Rows(r.Dim("/help lists the commands; Ctrl-C stops work, Ctrl-D leaves"), 2))
		return b.String()
	})
	s.tellEarly()
}

func firstRow(text string) string {
	row, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return render.SafeLine(row)
}

// farewell sums up the session and says how to go on with it.
func (s *Shell) farewell() {
	if !s.opened {
		return
	}
	t := s.mind.Changes.Totals()
	id := s.mind.About.SessionID()
	s.ink.say(func(r *render.Renderer) string {
		out := r.Flush()
		if t.Turns == 0 {
			return out
		}
		out += "\n"
		for i, f := range t.FilesChanged {
			if i == farewellFiles {
				out += r.Note(fmt.Sprintf("and %d more", len(t.FilesChanged)-farewellFiles))
				break
			}
			out += r.Note(changed(f))
		}
		var done []string
		if n := len(t.FilesChanged); n > 0 {
			done = append(done, count(n, "file changed", "files changed"))
		}
		if n := len(t.Commits); n > 0 {
			done = append(done, count(n, "commit", "commits"))
		}
		if len(done) == 0 {
			done = []string{"no file changed"}
		}
		done = append(done, render.Duration(time.Since(s.begun)))
		out += r.Note(strings.Join(done, ", "))
		out += r.Note(s.spent())
		if id != "" {
			out += r.Note(fmt.Sprintf("session %s; to go on with it: ralph chat --resume %s", id, id))
		}
		return out
	})
}
