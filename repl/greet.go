package repl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/repl/render"
)

// farewellFiles bounds the list of changed files.
const farewellFiles = 10

// noted is how a fact of the greeting that is a warning begins.
const noted = "note: "

// greetRows bounds the greeting as long as that can be had without leaving out how
// things stand.
const greetRows = 8

// fact is a line of the greeting.
type fact struct {
	text   string
	weight int
}

// How much a fact matters. What can be spared, /status and /agents say too.
const (
	weightSpared = iota
	weightStanding
	weightRun
)

// greet says where we are and how things stand.
func (s *Shell) greet() {
	facts := s.facts()
	s.ink.say(func(r *render.Renderer) string {
		head := strings.TrimSpace("Ralph "+render.SafeLine(s.o.Version)) + "\n"
		return head + fitFacts(r, facts, greetRows-2) + r.Rows(r.Dim("/help lists the commands; Ctrl-C stops work, Ctrl-D leaves"), 2)
	})
	s.tellEarly()
}

// facts are the lines of the greeting.
func (s *Shell) facts() []fact {
	end := s.mind.Models.Endpoint()
	var facts []fact
	if text := firstRow(s.mind.About.Project().Summary()); text != "" {
		facts = append(facts, fact{text, weightSpared})
	}
	if end.Model != "" || end.BaseURL != "" {
		facts = append(facts, fact{fmt.Sprintf("model %s at %s", named(end.Model), named(end.BaseURL)), weightSpared})
	}
	if s.o.Facts != nil {
		for _, text := range s.o.Facts() {
			facts = append(facts, fact{text, weightStanding})
		}
	}
	if v := left(s.standing); v != nil {
		facts = append(facts, fact{runLeft(v), weightRun})
	}
	if text := interrupted(s.standing.Agents); text != "" {
		facts = append(facts, fact{text, weightSpared})
	}
	return facts
}

// fitFacts renders facts, in that many rows if that can be: without what can be
// spared, then with what is no warning cut to a row.
func fitFacts(r *render.Renderer, facts []fact, room int) string {
	rendered := func(cut bool) (text string) {
		for _, f := range facts {
			warning, warns := strings.CutPrefix(f.text, noted)
			switch {
			case warns:
				text += r.Warning(warning)
			case cut && f.weight != weightRun:
				text += r.Row(f.text)
			default:
				text += r.Rows(r.Dim(f.text), 2)
			}
		}
		return text
	}
	text := rendered(false)
	for strings.Count(text, "\n") > room {
		i := slices.IndexFunc(facts, func(f fact) bool { return f.weight == weightSpared })
		if i < 0 {
			return rendered(true)
		}
		facts = slices.Delete(slices.Clone(facts), i, i+1)
		text = rendered(false)
	}
	return text
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
