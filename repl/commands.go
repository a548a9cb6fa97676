package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ralph/coordinator"
	"ralph/coordinator/slash"
	"ralph/repl/pick"
	"ralph/repl/render"
	"ralph/workers/git"
)

// command does a slash command. The table in the coordinator says which there
// are; a command of the table that is not known here is one for later faces.
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
	switch c.Name {
	case "help":
		s.help(args)
	case "status":
		s.status()
	case "now", "ask", "later":
		s.message(c.Name, args)
	case "queue":
		s.queued(args)
	case "stop":
		s.halt(args)
	case "go":
		s.goOn(args)
	case "resume":
		s.resume(args)
	case "pause":
		s.pause()
	case "cost":
		s.note(s.spent())
	case "exit":
		s.leave(0)
	case "model":
		s.model(args)
	case "tasks", "goals":
		s.tasks(c.Name)
	case "context":
		s.context()
	case "compact":
		s.compact()
	case "trace":
		s.trace(args)
	case "sessions":
		s.sessions()
	case "undo":
		s.undo(args)
	case "diff":
		s.diff(args)
	case "agents":
		s.agents(args)
	case "run":
		s.autonomous(args)
	case "plan":
		s.planned(args)
	case "why":
		s.why(args)
	case "clear":
		s.clear()
	default:
		s.fail("/"+c.Name+" does not work in this chat", "/help lists the commands")
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

func (s *Shell) help(args string) {
	if args != "" {
		c, near, ok := slash.Find(args)
		if !ok {
			s.unknown(strings.TrimPrefix(args, "/"), near)
			return
		}
		s.ink.say(func(r *render.Renderer) string { return helpOne(r, c) })
		return
	}
	s.ink.say(func(r *render.Renderer) string {
		var b strings.Builder
		for _, c := range slash.Table() {
			b.WriteString(r.Rows(fmt.Sprintf("  %-18s %s%s", strings.TrimSpace("/"+c.Name+" "+c.Args), c.Summary, busyNote(c)), 21))
		}
		b.WriteString("\n")
		for _, text := range []string{
			"Anything else is said to Ralph; typed while it works, it is delivered after the tool that runs.",
			"Ctrl-C stops the work and keeps what you typed, twice kills it, three times leaves; Ctrl-D leaves, Ctrl-Z suspends, Ctrl-R searches; Alt-Enter, or a \\ at the end of a line, begins another line.",
		} {
			b.WriteString(r.Rows("  "+text, 2))
		}
		return b.String()
	})
}

func helpOne(r *render.Renderer, c slash.Command) string {
	out := r.Rows("  "+strings.TrimSpace("/"+c.Name+" "+c.Args)+"  "+c.Summary+busyNote(c), 4)
	if c.Help != "" {
		out += r.Rows("  "+c.Help, 2)
	}
	return out
}

// busyNote says when a command has to wait.
func busyNote(c slash.Command) string {
	if c.WhileBusy {
		return ""
	}
	return " (when no turn runs)"
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
	return fmt.Sprintf("%s, %s tokens (%s in, %s out%s), %s", count(t.Turns, "turn", "turns"),
		render.Tokens(t.Usage.Total), render.Tokens(t.Usage.Input), render.Tokens(t.Usage.Output), estimated, render.Cost(t.CostUSD))
}

func (s *Shell) model(args string) {
	if args != "" {
		s.mind.Models.SetModel(args)
		s.note("model is now " + args)
		return
	}
	now := s.mind.Models.Endpoint().Model
	s.start("models", false, func(ctx context.Context) func() {
		names, err := s.mind.Models.Models(ctx)
		var name string
		if err == nil {
			items := make([]pick.Item, 0, len(names))
			for _, n := range names {
				detail := ""
				if n == now {
					detail = "now"
				}
				items = append(items, pick.Item{Value: n, Detail: detail})
			}
			name, err = s.picker.Pick(ctx, "model", items)
		}
		return func() { s.modelPicked(name, now, err) }
	})
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

func (s *Shell) undo(args string) {
	n := 1
	if args != "" {
		var err error
		if n, err = strconv.Atoi(args); err != nil || n < 1 {
			s.fail(fmt.Sprintf("undo %q: not a number of turns", args), "/undo takes back the last turn, /undo 3 the last three")
			return
		}
	}
	s.start("undo", false, func(ctx context.Context) func() {
		files, err := s.mind.Changes.Undo(ctx, n)
		return func() { s.undone(files, err) }
	})
}

func (s *Shell) undone(files []git.FileChange, err error) {
	var edited *git.EditedError
	switch {
	case errors.As(err, &edited):
		s.fail("undo: changed since by someone else, nothing was touched: "+strings.Join(edited.Paths, ", "), "save or discard those changes first")
	case errors.Is(err, coordinator.ErrNothingToUndo), err == nil && len(files) == 0:
		s.note("there is nothing to take back")
	case err != nil:
		s.explain(err)
	}
	for _, f := range files {
		s.note("taken back: " + putBack(f))
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
