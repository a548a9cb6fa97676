package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/desk"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/repl/render"
)

// checkRows bounds what is shown of a check: of one that failed its end.
const checkRows = 30

// check does /check.
func (s *Shell) check(command string) {
	if s.mind.Hands == nil {
		s.fail("this chat runs no checks", "!COMMAND in another chat, or another terminal, does")
		return
	}
	s.start("check", false, func(ctx context.Context) func() {
		report, err := s.mind.Hands.Check(ctx, command)
		return func() { s.checked(report, err, context.Cause(ctx)) }
	})
}

func (s *Shell) checked(report desk.CheckReport, err, cause error) {
	failed, took := 0, time.Duration(0)
	for _, run := range report.Runs {
		took += run.Duration
		if run.NotRun != "" {
			s.note(render.Brief(run.Command) + " was not run: " + render.Brief(run.NotRun))
			continue
		}
		if run.ExitCode != 0 || run.TimedOut {
			failed++
			s.failedCheck(run)
		}
	}
	_, ended := interrupts.AsStop(err)
	_, stopped := interrupts.AsStop(cause)
	switch {
	case err != nil && (ended || stopped):
		s.ink.say(func(r *render.Renderer) string { return r.Warning("the check was stopped") })
	case errors.Is(err, desk.ErrNoCheck):
		s.fail("there is no check: none is configured and none was found in the project", "/check COMMAND runs one; `ralph chat --check CMD` sets it")
	case err != nil:
		s.explain(err)
	case failed > 0:
		s.note(fmt.Sprintf("%d of %s failed, %s", failed, text.Count(len(report.Runs), "check"), render.Duration(took)))
	case report.OK():
		s.note(fmt.Sprintf("%s passed, %s", text.Count(len(report.Runs), "check"), render.Duration(took)))
	}
}

// failedCheck shows what a check printed that failed. That it failed, and that the
// others passed, the coordinator tells by events.
func (s *Shell) failedCheck(run desk.CheckRun) {
	what := fmt.Sprintf("exit %d", run.ExitCode)
	if run.TimedOut {
		what = "its time was over"
	}
	rows := strings.Split(strings.TrimRight(run.Output, "\n"), "\n")
	if rows[0] == "" && len(rows) == 1 {
		rows = nil
	}
	left := max(len(rows)-checkRows, 0)
	s.ink.say(func(r *render.Renderer) string {
		wrote := ":"
		if rows == nil {
			wrote = ", and it printed nothing"
		}
		out := r.Note(fmt.Sprintf("%s, %s, %s%s", render.Brief(run.Command), what, render.Duration(run.Duration), wrote))
		if left > 0 {
			out += r.Rows("  "+r.Dim(fmt.Sprintf("%s before", text.Count(left, "line"))), 2)
		}
		var shown []string
		for _, row := range rows[left:] {
			shown = append(shown, plainRow([]byte(row)))
		}
		return out + printed(shown)
	})
}
