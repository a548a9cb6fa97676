package repl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/memory/text"
	"ralph/repl/render"
)

// farewellFiles bounds the list of changed files.
const farewellFiles = 10

// noted is how a fact of the greeting that is a warning begins.
const noted = "note: "

// spared is how one begins that can be spared.
const spared = "aside: "

// greetRows bounds the greeting.
const greetRows = 8

// fact is a line of the greeting.
type fact struct {
	text   string
	weight int
	whole  bool // it is not cut to a row
}

// How much a fact matters. What can be spared, /status and /agents say too.
const (
	weightSpared   = iota
	weightStanding // how things stand
	weightNoted    // warnings, and agents that can go on
	weightRun      // a run that can go on
)

// greet says where we are and how things stand.
func (s *Shell) greet() {
	facts, room := s.facts(), greetRows-2
	draft := s.resumeDraft()
	if draft != "" {
		room--
	}
	s.ink.say(func(r *render.Renderer) string {
		head, keys, short := r.Row(s.name()), "/help lists the commands; Ctrl-C stops work, Ctrl-D leaves", "/help; Ctrl-C stops, Ctrl-D leaves"
		if s.talks() { // what a plain line does is to be no surprise
			keys, short = howToGoOn, "only talk; /go goes on with it"
		}
		if cols, _ := s.size(); s.live && cols <= len(keys) {
			keys = short
		}
		text := head + fitFacts(r, facts, room)
		if s.sequential && !s.talks() {
			return text // no keys are pressed in a script or a pipe
		}
		return text + r.Row(keys)
	})
	if draft != "" {
		s.note(draft)
	}
	s.tellEarly()
}

// name is who speaks: Ralph and the model.
func (s *Shell) name() string {
	name := strings.TrimSpace("Ralph " + s.o.Version)
	if end := s.mind.Models.Endpoint(); end.Model != "" || end.BaseURL != "" {
		name += fmt.Sprintf(", model %s at %s", named(end.Model), named(end.BaseURL))
	}
	return name
}

// facts are the lines of the greeting.
func (s *Shell) facts() []fact {
	var facts []fact
	if text := firstRow(s.mind.About.Project().Summary()); text != "" {
		facts = append(facts, fact{text: text, weight: weightSpared})
	}
	for _, text := range s.standingFacts {
		weight := weightStanding
		if strings.HasPrefix(text, noted) {
			weight = weightNoted
		}
		if rest, ok := strings.CutPrefix(text, spared); ok {
			text, weight = rest, weightSpared
		}
		facts = append(facts, fact{text: text, weight: weight})
	}
	if v := left(s.standing); v != nil {
		facts = append(facts, fact{text: runLeft(v), weight: weightRun})
	}
	if text := interrupted(s.standing.Agents); text != "" {
		facts = append(facts, fact{text: text, weight: weightNoted})
	}
	return facts
}

// leastStanding is how many facts about how things stand are told before warnings
// are cut short for them.
const leastStanding = 3

// fitFacts renders facts in at most that many rows. First what matters least is
// cut to a row and then left out; warnings are cut when how things stand would be
// left out for them.
func fitFacts(r *render.Renderer, facts []fact, room int) (text string) {
	for _, step := range []struct{ cut, weight, least int }{
		{weightSpared, weightSpared, len(facts)}, // as it is
		{weightNoted, weightSpared, 0},
		{weightNoted, weightStanding, leastStanding},
		{weightRun, weightStanding, 0},
		{weightRun + 1, weightNoted, 1},
		{weightRun + 1, weightRun, 0},
	} {
		if facts, text = spare(r, facts, step.cut, step.weight, step.least, room); strings.Count(text, "\n") <= room {
			return fill(r, facts, step.cut, room, text)
		}
	}
	return text
}

// fill gives the room that is left to facts that were cut, what matters most first.
func fill(r *render.Renderer, facts []fact, cut, room int, text string) string {
	for weight := cut - 1; weight >= weightSpared; weight-- {
		for i := range facts {
			if facts[i].weight != weight {
				continue
			}
			facts[i].whole = true
			if more := renderFacts(r, facts, cut); strings.Count(more, "\n") <= room {
				text = more
			} else {
				facts[i].whole = false
			}
		}
	}
	return text
}

// spare leaves facts of a weight out, the last ones first, until the others have
// room or only the least number is left.
func spare(r *render.Renderer, facts []fact, cut, weight, least, room int) ([]fact, string) {
	facts = slices.Clone(facts)
	n := 0
	for _, f := range facts {
		if f.weight == weight {
			n++
		}
	}
	text := renderFacts(r, facts, cut)
	for i := len(facts) - 1; i >= 0 && n > least && strings.Count(text, "\n") > room; i-- {
		if facts[i].weight == weight {
			facts, n = slices.Delete(facts, i, i+1), n-1
			text = renderFacts(r, facts, cut)
		}
	}
	return facts, text
}

// renderFacts renders facts; those that weigh less than cut have a row each.
func renderFacts(r *render.Renderer, facts []fact, cut int) (text string) {
	for _, f := range facts {
		warning, warns := strings.CutPrefix(f.text, noted)
		switch {
		case warns && f.weight < cut && !f.whole:
			text += r.Row("! " + warning)
		case warns:
			text += r.Warning(warning)
		case f.weight < cut && !f.whole:
			text += r.Row(f.text)
		default:
			text += r.Rows(r.Dim(f.text), 2)
		}
	}
	return text
}

func firstRow(text string) string {
	row, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return render.SafeLine(row)
}

// farewell sums up the session and says how to go on with it. parting is how the
// coordinator stood when the work had ended; nil when it did not say.
func (s *Shell) farewell(parting *coordinator.Live) {
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
			done = append(done, text.Count(n, "file")+" changed")
		}
		if n := len(t.Commits); n > 0 {
			done = append(done, text.Count(n, "commit"))
		}
		if len(done) == 0 {
			done = []string{"no file changed"}
		}
		done = append(done, render.Duration(time.Since(s.begun)))
		out += r.Note(strings.Join(done, ", "))
		if parting != nil {
			out += tasksDone(r, s.tasksBefore, *parting)
		}
		out += r.Note(s.spent())
		if id != "" && t.Findings > 0 {
			out += r.Note(text.Count(t.Findings, "finding") + ": ralph insights " + id + " (--append keeps them in AGENT.md)")
		}
		if id != "" {
			out += r.Note("to go on: ralph chat --resume " + id)
		}
		return out
	})
}

// tasksDone says what became of tasks since before, and what is open; nothing when
// there are none.
func tasksDone(r *render.Renderer, before result.TaskCount, now coordinator.Live) (out string) {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(now.Tasks.Done-before.Done, "done")
	add(now.Tasks.Failed-before.Failed, "failed")
	add(now.Tasks.Skipped-before.Skipped, "skipped")
	add(now.Tasks.Open, "open")
	if len(parts) > 0 {
		out += r.Note("tasks: " + strings.Join(parts, ", "))
	}
	if v := now.Loop; v != nil && v.Counts.Total > 0 {
		out += r.Note(fmt.Sprintf("%s: %d of %s done, %d open", runName(v), v.Counts.Done, text.Count(v.Counts.Total, "task"), v.Counts.Open))
	}
	return out
}
