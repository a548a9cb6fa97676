package repl

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ralph/repl/render"
)

const (
	// greetingRows bounds the greeting.
	greetingRows = 8
	// farewellFiles bounds the list of changed files.
	farewellFiles = 10
)

// greet says where we are, in at most greetingRows rows.
func (s *Shell) greet() {
	end := s.mind.Models.Endpoint()
	rows := []string{strings.TrimSpace("Ralph " + s.o.Version)}
	if text := firstRow(s.mind.About.Project().Summary()); text != "" {
		rows = append(rows, text)
	}
	if end.Model != "" || end.BaseURL != "" {
		rows = append(rows, fmt.Sprintf("model %s at %s", named(end.Model), named(end.BaseURL)))
	}
	if s.o.Facts != nil {
		facts := s.o.Facts()
		rows = append(rows, facts[:min(len(facts), 4)]...)
	}
	last := "/help lists the commands; Ctrl-C stops work, Ctrl-D leaves"
	if id := s.mind.About.SessionID(); id != "" && len(rows) < greetingRows-1 {
		rows = append(rows, "session "+id)
	}
	rows = append(rows[:min(len(rows), greetingRows-1)], last)
	s.ink.say(func(r *render.Renderer) string {
		var b strings.Builder
		for i, row := range rows {
			if i > 0 {
				row = r.Dim(row)
			}
			b.WriteString(row + "\n")
		}
		return b.String()
	})
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
		for i, f := range t.FilesChanged {
			if i == farewellFiles {
				out += r.Note(fmt.Sprintf("and %d more files", len(t.FilesChanged)-farewellFiles))
				break
			}
			out += r.Note(changed(f))
		}
		out += r.Note(fmt.Sprintf("%s, %s, %s", count(len(t.FilesChanged), "file changed", "files changed"),
			count(len(t.Commits), "commit", "commits"), render.Duration(time.Since(s.begun))))
		out += r.Note(s.spent())
		if id != "" {
			out += r.Note(fmt.Sprintf("session %s; go on with: ralph chat --continue", filepath.Base(id)))
		}
		return out
	})
}
