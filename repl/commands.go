package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/coordinator"
	"ralph/coordinator/slash"
	"ralph/memory/text"
	"ralph/repl/pick"
	"ralph/repl/render"
	"ralph/workers/git"
)

// command does a slash command. The table in the coordinator says which there
// are.
func (s *Shell) command(name, args string) {
	if name == "" {
		name = "help" // a lone slash
	}
	c, near, ok := slash.Find(name)
	if !ok {
		s.unknown(name, near)
		return
	}
	if c.Args == "" && args != "" {
		s.fail("/"+c.Name+" takes no argument", "nothing was done; /help "+c.Name+" says what it does")
		return
	}
	do, ok := s.executors()[c.Name]
	if !ok {
		s.fail("/"+c.Name+" does not work in this chat", "/help lists the commands")
		return
	}
	do(args)
}

// executors are what the commands of the table do. They are called on the loop.
func (s *Shell) executors() map[string]func(args string) {
	said := func(name string) func(string) { return func(text string) { s.message(name, text) } }
	alone := func(do func()) func(string) { return func(string) { do() } }
	return map[string]func(string){
		"help": s.help, "status": alone(s.status), "agents": s.agents, "queue": s.queued,
		"tasks": func(string) { s.tasks() }, "goals": func(string) { s.goals() },
		"now": said("now"), "ask": said("ask"), "later": said("later"),
		"stop": s.halt, "go": s.goOn, "resume": s.resume, "pause": alone(s.pause),
		"undo": s.undo, "redo": s.redo, "diff": s.diff, "context": alone(s.context), "compact": alone(s.compact), "trace": s.trace,
		"model": s.model, "cost": func(string) { s.note(s.spent()) }, "sessions": s.sessions, "handoff": s.handoff,
		"plan": s.planned, "run": s.autonomous, "why": s.why, "check": s.check, "edit": s.edit, "config": s.settings,
		"clear": alone(s.clear), "exit": func(string) { s.leave(0) },
	}
}

func (s *Shell) unknown(name string, near []string) {
	hint := "/help lists the commands"
	if len(near) > 0 {
		hint = "did you mean /" + strings.Join(near, ", /") + "?"
	}
	s.fail("there is no command /"+name, hint)
}

func (s *Shell) note(text string) {
	s.ink.say(func(r *render.Renderer) string { return r.Note(text) })
}

func (s *Shell) fail(message, hint string) {
	s.ink.say(func(r *render.Renderer) string { return r.Error(message, hint) })
}

// explain prints an error with its way out.
func (s *Shell) explain(err error) {
	if _, f := coordinator.Fail(err); f != nil {
		s.fail(f.Message, f.Hint)
		return
	}
	s.fail(err.Error(), "")
}

func named(text string) string {
	if text == "" {
		return "(not chosen yet)"
	}
	return text
}

// spent sums up the session's tokens and money.
func (s *Shell) spent() string {
	t := s.mind.Changes.Totals()
	estimated := ""
	if t.Usage.Estimated {
		estimated = ", estimated"
	}
	return fmt.Sprintf("%s, %s tokens (%s in, %s out%s), %s", text.Count(t.Turns, "turn"),
		render.Tokens(t.Usage.Total), render.Tokens(t.Usage.Input), render.Tokens(t.Usage.Output), estimated, render.Cost(t.CostUSD))
}

func (s *Shell) model(args string) {
	if strings.ContainsAny(args, " \t\n") {
		s.fail(fmt.Sprintf("model %q: a name has no blanks", render.Brief(args)), "/model alone lets you pick one; a line without /model is said to Ralph")
		return
	}
	if args != "" {
		s.start("models", false, func(ctx context.Context) func() {
			names, err := s.mind.Models.Models(ctx)
			return func() { s.modelNamed(args, names, err) }
		})
		return
	}
	now := s.mind.Models.Endpoint().Model
	s.start("models", false, func(ctx context.Context) func() {
		names, err := s.mind.Models.Models(ctx)
		var name string
		if err == nil {
			name, err = s.pickOne(ctx, "model", "", s.modelItems(names), false)
		}
		return func() { s.modelPicked(name, now, err) }
	})
}

// modelNamed takes a model that the endpoint lists, or any where it has no list.
func (s *Shell) modelNamed(name string, listed []string, err error) {
	if len(listed) > 0 && !slices.Contains(listed, name) {
		hint := "/model lets you pick one; ralph chat --model " + name + " takes a name that is not listed"
		best, at := "", len(name)/2
		for _, l := range listed {
			if d := text.Distance(strings.ToLower(name), strings.ToLower(l)); d < at {
				best, at = l, d
			}
		}
		if best != "" {
			hint = "did you mean " + best + "? " + hint
		}
		s.fail(fmt.Sprintf("model %q: the endpoint does not list it; model stays %s", render.Brief(name), named(s.mind.Models.Endpoint().Model)), hint)
		return
	}
	s.mind.Models.SetModel(name)
	if len(listed) == 0 {
		why := "the endpoint lists none"
		if err != nil {
			why = err.Error()
		}
		s.note("model is now " + name + ", unchecked: " + why)
		return
	}
	s.note("model is now " + name)
}

func (s *Shell) modelPicked(name, now string, err error) {
	switch {
	case errors.Is(err, pick.ErrCancelled):
		s.note("model stays " + named(now))
	case err != nil:
		s.explain(err)
	default:
		s.mind.Models.SetModel(name)
		s.note("model is now " + name)
	}
}

func (s *Shell) undo(args string) { s.restore("undo", args, s.mind.Changes.Undo) }

func (s *Shell) redo(args string) { s.restore("redo", args, s.mind.Changes.Redo) }

func (s *Shell) restore(name, args string, do func(context.Context, int, func([]string)) (coordinator.Undone, error)) {
	n := 1
	if args != "" {
		var err error
		if n, err = strconv.Atoi(args); err != nil || n < 1 {
			s.fail(fmt.Sprintf("%s %q: not a number of turns", name, args), "/"+name+" takes the last turn, /"+name+" 3 the last three")
			return
		}
	}
	s.start(name, false, func(ctx context.Context) func() {
		done, err := do(ctx, n, func(notes []string) {
			s.post(func() {
				for _, note := range notes {
					s.note("commits: " + note)
				}
			})
		})
		return func() { s.restored(name, done, err) }
	})
}

func (s *Shell) restored(name string, done coordinator.Undone, err error) {
	did := "taken back: "
	if name == "redo" {
		did = "brought back: "
	}
	switch {
	case errors.Is(err, coordinator.ErrNothingToUndo), errors.Is(err, coordinator.ErrNothingToRedo):
		s.note(err.Error())
	case err != nil:
		s.explain(err)
	case len(done.Files)+len(done.Kept) == 0:
		s.note("there is nothing to " + name)
	}
	for _, f := range done.Files {
		s.note(did + putBack(f))
	}
	if len(done.Tasks) > 0 {
		s.note(did + "tasks " + strings.Join(done.Tasks, ", "))
	}
	if len(done.Kept) > 0 {
		s.note("kept as it is, because you changed it or may have: " + strings.Join(done.Kept, ", "))
	}
}

// putBack describes what taking back a turn did to one file.
func putBack(f git.FileChange) string {
	switch f.Kind {
	case git.Added:
		return f.Path + " is there again"
	case git.Deleted:
		return f.Path + " is gone again"
	}
	return f.Path + " is as before" + lines(f)
}

// changed describes one file change.
func changed(f git.FileChange) string {
	return fmt.Sprintf("%s %s%s", f.Kind, f.Path, lines(f))
}

// lines says how many lines a change added and removed, if that is known.
func lines(f git.FileChange) string {
	if f.Added < 0 || f.Removed < 0 || f.Added+f.Removed == 0 {
		return ""
	}
	return fmt.Sprintf(" (+%d −%d)", f.Added, f.Removed)
}

func (s *Shell) diff(who string) {
	if who != "" {
		s.diffAgent(who)
		return
	}
	s.start("diff", false, func(ctx context.Context) func() {
		text, err := s.mind.Changes.Diff(ctx)
		return func() { s.showDiff(text, err, "the last turn changed nothing") }
	})
}

func (s *Shell) showDiff(text string, err error, nothing string) {
	switch {
	case err != nil:
		s.explain(err)
	case text == "":
		s.note(nothing)
	default:
		s.ink.say(func(r *render.Renderer) string { return r.Diff(text) })
	}
}

func (s *Shell) clear() {
	s.start("clear", false, func(context.Context) func() {
		err := s.mind.Turns.Clear()
		return func() {
			if err != nil {
				s.explain(err)
				return
			}
			s.note("a new conversation begins; the old one stays on disk")
		}
	})
}
