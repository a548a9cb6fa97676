package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"ralph/coordinator"
	"ralph/workers/agent"
)

// opening says what will be seen and what of it is recorded.
func (s *stage) opening() {
	s.printf(`ralph demo: one agent finds and mends the failing test of a small git project.
The model's replies are recorded. Everything else is real: the files, the
commands, the check, the commit. No key and no network is used.

project  %s
task     %s
`, s.root, task)
}

// see prints an event as one line.
func (s *stage) see(e agent.Event) {
	switch e.Type {
	case agent.EventToolStart:
		s.subjects[e.CallID] = subject(e)
	case agent.EventToolEnd:
		mark := "ok"
		if e.OK != nil && !*e.OK {
			mark = "fail"
		}
		s.printf("  %-5s %-6s %s\n", mark, e.Tool, strings.Trim(s.subjects[e.CallID]+" · "+e.Text, " ·"))
	case agent.EventMessage:
		s.printf("\n%s\n\n", strings.TrimSpace(e.Text))
	case agent.EventGate:
		s.printf("  check %s · exit %d\n", e.Text, *e.ExitCode)
	case agent.EventWarning:
		s.printf("  note  %s\n", e.Text)
	}
}

// subject is what a call is about, for one line.
func subject(e agent.Event) string {
	args := string(e.Args)
	for _, key := range []string{`"command":"`, `"path":"`, `"action":"`} {
		if _, rest, ok := strings.Cut(args, key); ok {
			value, _, _ := strings.Cut(rest, `"`)
			return clip(value, 60)
		}
	}
	return ""
}

// closing shows what is on disk now.
func (s *stage) closing(ctx context.Context, out coordinator.Outcome) error {
	log, err := s.run(ctx, "git", "log", "--stat", "--format=%h %an: %s")
	if err != nil {
		return err
	}
	s.printf("\nOn disk now\n\n$ git log --stat\n%s\n", log)
	for _, name := range out.StateFiles {
		text, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return err
		}
		s.printf("$ cat %s\n%s\n", name, indent(string(text)))
	}
	s.printf("%s in %s: %d turns, %d tool calls, check %q passed, %d tokens as recorded\n",
		out.Status, out.Duration.Round(10_000_000), out.Turns, out.ToolCalls.Total, out.Check.Command, out.Usage.Total)
	s.printf("Look around in %s, and remove it when you are done.\n", s.root)
	return nil
}

func (s *stage) printf(format string, args ...any) { fmt.Fprintf(s.Stdout, format, args...) }

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
