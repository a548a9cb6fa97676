package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator"
	"ralph/coordinator/plan"
	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/text"
	"ralph/repl/pick"
	"ralph/repl/render"
	"ralph/workers/agent"
)

// shownTasks bounds how many tasks are listed.
const shownTasks = 30

// aside runs a command that only looks; a turn that is under way goes on. What
// several have to say comes in the order in which they were typed.
func (s *Shell) aside(f func(context.Context) func()) {
	before, done := s.lastAside, make(chan struct{})
	s.lastAside = done
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer close(done)
		after := s.guarded(s.ctx, f)
		if before != nil {
			<-before
		}
		if after != nil {
			s.post(after)
		}
	}()
}

// rows shows a table.
func (s *Shell) rows(table [][]string) {
	s.ink.say(func(r *render.Renderer) string { return r.Table(table) })
}

// tasks lists the tasks of the plan in use and those of RALPH_TASKS.md, open ones first.
func (s *Shell) tasks() {
	now := s.inUse()
	s.aside(func(ctx context.Context) func() {
		list, err := s.mind.State.Notes("tasks")
		p, ranks, unread := s.readPlan(ctx, now)
		return func() {
			switch {
			case errors.Is(unread, plan.ErrNoPlan):
			case unread != nil:
				s.explain(unread)
			case filepath.Base(p.Path) == memory.TasksFile:
			default:
				s.knowsTasks(p)
				s.showPlan(p, ranks)
				if err == nil && len(list) == 0 {
					return
				}
				s.note(memory.TasksFile + ":")
			}
			s.showNotes("tasks", list, err)
		}
	})
}

// goals lists the goals of RALPH_GOALS.md, open ones first.
func (s *Shell) goals() {
	s.aside(func(context.Context) func() {
		list, err := s.mind.State.Notes("goals")
		return func() { s.showNotes("goals", list, err) }
	})
}

func (s *Shell) showNotes(what string, list []markdown.Task, err error) {
	switch {
	case err != nil:
		s.explain(err)
	case len(list) == 0:
		s.note("there are no " + what)
	default:
		s.rows(taskTable(list))
	}
}

func taskTable(list []markdown.Task) [][]string {
	slices.SortStableFunc(list, func(a, b markdown.Task) int {
		return cmp.Compare(standing(a.Status), standing(b.Status))
	})
	var table [][]string
	for i, t := range list {
		if i == shownTasks {
			table = append(table, []string{"", "", fmt.Sprintf("and %d more", len(list)-i)})
			break
		}
		text := t.Title
		if len(t.After) > 0 && t.Status.Open() {
			text += " (after " + strings.Join(t.After, ", ") + ")"
		}
		if t.Result != "" {
			text += " · " + t.Result
		}
		id := t.ID
		if !t.Explicit {
			id = ""
		}
		table = append(table, []string{string(t.Status), id, text})
	}
	return table
}

// standing orders what is being worked on before what waits, and that before
// what is over.
func standing(st markdown.Status) int {
	switch st {
	case markdown.InProgress:
		return 0
	case markdown.Interrupted:
		return 1
	case markdown.Blocked, markdown.Failed:
		return 3
	case markdown.Done, markdown.Skipped:
		return 4
	}
	return 2
}

// context shows what the model sees, part by part.
func (s *Shell) context() {
	s.aside(func(context.Context) func() {
		blocks := s.mind.State.Context()
		return func() {
			table := [][]string{{"tokens", "part", "from", "why"}}
			sum, brackets := 0, ""
			for _, b := range blocks {
				tokens := render.Tokens(b.Tokens)
				if b.LeftOut {
					tokens, brackets = "("+tokens+")", "; in brackets: what the model does not see"
				} else {
					sum += b.Tokens
				}
				why := b.Why
				if b.Messages > 0 {
					why = text.Count(b.Messages, "message") + ", " + why
				}
				table = append(table, []string{tokens, b.Name, b.Source, why})
			}
			s.rows(table)
			s.note(render.Tokens(sum) + " tokens, estimated" + brackets)
		}
	})
}

// compact shortens the conversation now.
func (s *Shell) compact() {
	s.start("compact", true, func(ctx context.Context) func() {
		report, err := s.mind.State.Compact(ctx)
		return func() {
			switch {
			case errors.Is(err, agent.ErrNoCompaction):
				s.note("there is nothing to leave out")
			case err != nil:
				s.explain(err)
			default:
				s.note(fmt.Sprintf("%d messages became %d, about %s tokens became %s", report.MessagesBefore, report.MessagesAfter,
					render.Tokens(report.TokensBefore), render.Tokens(report.TokensAfter)))
				if report.Failed != "" {
					s.ink.say(func(r *render.Renderer) string { return r.Warning("without a summary: " + report.Failed) })
				}
			}
		}
	})
}

// trace tells which turns changed a file, and why.
func (s *Shell) trace(file string) {
	if file == "" && s.live && s.mind.Hands != nil {
		s.traceFile()
		return
	}
	if file == "" {
		s.fail("/trace needs a file", "/trace main.go says which turns changed it, and what you had said")
		return
	}
	s.aside(func(ctx context.Context) func() {
		steps, err := s.mind.State.Trace(ctx, file)
		return func() {
			switch {
			case err != nil:
				s.explain(err)
			case len(steps) == 0:
				s.note("no turn that is on record changed " + file)
			default:
				s.rows(traceTable(steps))
			}
		}
	})
}

// traceFile lets the user pick the file.
func (s *Shell) traceFile() {
	s.offering("files", func(ctx context.Context, pickOne picker) func() {
		paths, err := s.finder.files(ctx, s.mind.Hands.Files)
		if err != nil {
			return func() { s.explain(err) }
		}
		items := make([]pick.Item, len(paths))
		for i, p := range paths {
			items[i].Value = p
		}
		if len(items) == 0 {
			return func() { s.note("there are no files") }
		}
		file, err := pickOne("trace file", items)
		switch {
		case err != nil && cancelled(err):
			return nil
		case err != nil:
			return func() { s.explain(err) }
		}
		return func() { s.trace(file) }
	})
}

func traceTable(steps []coordinator.TraceStep) [][]string {
	var table [][]string
	for _, t := range steps {
		what := t.Kind
		if t.Added >= 0 && t.Added+t.Removed > 0 {
			what += fmt.Sprintf(" +%d −%d", t.Added, t.Removed)
		}
		if t.OldPath != "" {
			what += " from " + t.OldPath
		}
		commit := ""
		if t.Commit != "" {
			commit = t.Commit[:min(len(t.Commit), 8)]
		}
		table = append(table, []string{t.Time.Local().Format("2006-01-02 15:04"), fmt.Sprintf("%s/%d", t.Session, t.Turn), what, commit, render.Brief(t.Said)})
	}
	return table
}
