package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ralph/coordinator/crew"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// width is how long a line of text may be, beside the column of who speaks.
const width = 96

// screen prints what happens, a line each, who speaks in front. It is safe for
// concurrent use.
type screen struct {
	// mu guards what follows.
	mu  sync.Mutex
	out io.Writer
	// subjects says what each call is about, by agent and call.
	subjects map[string]string
	// requests, tokens and calls count what all agents did.
	requests, tokens, calls int
}

func newScreen(out io.Writer) *screen { return &screen{out: out, subjects: map[string]string{}} }

// print prints text as it is.
func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

// say prints what somebody says or does.
func (s *screen) say(who, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(who, text)
}

// line is say with mu held. Further lines are below the first.
func (s *screen) line(who, text string) {
	for _, l := range broken(text) {
		fmt.Fprintf(s.out, "%-10s %s\n", who, l)
		who = ""
	}
}

// show prints what an event tells a newcomer; most tell nothing.
func (s *screen) show(e agent.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := e.Agent + " " + e.CallID
	switch e.Type {
	case agent.EventTurnStart:
		s.requests++
	case agent.EventUsage:
		s.tokens += e.Usage.Total
	case agent.EventToolStart:
		s.calls++
		s.subjects[key] = subject(e)
	case agent.EventToolEnd:
		content := e.Tool
		if about := s.subjects[key]; about != "" {
			content += " " + about
		}
		if brief, _, _ := strings.Cut(e.Text, ". "); brief != "" {
			content += " · " + brief
		}
		s.line(e.Agent, text.ClipRunes(content, width))
	case agent.EventMessage:
		s.line(e.Agent, strings.TrimSpace(e.Text))
	case agent.EventGate:
		s.line(e.Agent, fmt.Sprintf("check by Ralph: %s · exit %d", e.Text, *e.ExitCode))
	case agent.EventChildStart:
		s.line(e.Agent, "at work in a worktree of its own: "+e.Text)
	case agent.EventChildEnd:
		if e.Status == string(crew.Merged) {
			s.line(e.Agent, "merged into your branch as "+short(e.Ref))
		}
	case agent.EventInbox:
		if e.Status == "delivered" {
			s.line("you", "(delivered before its next request)")
		}
	case agent.EventWarning:
		s.line("note", e.Text)
	}
}

// stopped prints what a stop has ended, and how that is known.
func (s *screen) stopped(told, took time.Duration, report string, known bool) {
	s.say("stop", fmt.Sprintf("everything was told to end within %s and had ended after %s", round(told), round(took)))
	s.say("stop", "Ralph reports: "+report)
	if known {
		s.say("stop", "the kernel agrees: none of these processes is there any more")
	}
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// subject is what a call is about, for one line.
func subject(e agent.Event) string {
	var args map[string]any
	_ = json.Unmarshal(e.Args, &args) // what does not decode has nothing to show
	for _, key := range []string{"command", "path"} {
		if text, ok := args[key].(string); ok {
			return text
		}
	}
	return ""
}

// opening says what will be seen and what of it is recorded.
func (s *stage) opening() {
	s.screen.print(`ralph demo: three agents mend three tests of a small git project, side by side; a human
says something to one of them, stops everything, asks, and has the work go on.

The model's replies and the human's words are recorded. Everything else is real: files,
worktrees, commands, checks, commits, the stop. No key and no network is used.
The sandbox is off (--sandbox off): the commands are known, and your system may lack what
it needs (ralph doctor tells).

project    %s
           with %s, which you have not committed

`, s.root, notesFile)
}

// closing shows what is on disk now.
func (s *stage) closing(ctx context.Context, found findings) error {
	log, err := s.run(ctx, "git", "log", "--stat", "--format=%h %s", s.first+"..HEAD")
	if err != nil {
		return err
	}
	status, err := s.run(ctx, "git", "status", "--short")
	if err != nil {
		return err
	}
	s.screen.print("\nOn disk now, and proven from there\n\n$ git log --stat %s..\n%s\n$ git status --short\n%s\n", short(s.first), log, status)
	for _, f := range found.files {
		s.screen.print("%-64s %s\n", f.name, f.holds)
	}
	s.screen.print(`
go test ./...      passes
3 commits          one of each agent, with its files and no other
%-18s untouched and not committed
nothing is left    no process and no branch of an agent; no agent has a worktree any more

completed in %s: 3 agents merged, 1 message delivered, 1 hard stop; %d requests, %d tool calls, %d tokens as recorded
Look around in %s, and remove it when you are done.
`, notesFile, time.Since(s.began).Round(100*time.Millisecond), s.screen.requests, s.screen.calls, s.screen.tokens, s.root)
	return nil
}

// broken breaks text into lines that fit, and keeps those that it has.
func broken(text string) []string {
	var lines []string
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		for utf8.RuneCountInString(l) > width {
			at := strings.LastIndex(string([]rune(l)[:width]), " ")
			if at <= 0 {
				break
			}
			lines, l = append(lines, l[:at]), l[at+1:]
		}
		lines = append(lines, l)
	}
	return lines
}

func short(hash string) string { return hash[:min(len(hash), 7)] }
