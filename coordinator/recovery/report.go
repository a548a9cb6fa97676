// Package recovery finds how the last Ralph of a project ended and what can be gone on with.
//
// Assess only reads and returns a Report, a value. EndSessions and EndHolder then put in order what
// a Ralph left that died or has to go: the sessions that were cut off, and the process that holds
// the project.
package recovery

import (
	"fmt"
	"strings"
	"time"

	"ralph/memory"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/agent"
)

const (
	// maxLines bounds what is said of a report.
	maxLines = 8
	// maxNamed bounds how many things of a kind are named in a line.
	maxNamed = 3
	// maxQuote bounds a message that is quoted in a line, in characters.
	maxQuote = 60
)

// The verdicts of a Report: what opening the project means.
const (
	SameSession = "same session"
	FreshState  = "fresh from state"
	Refused     = "refused"
)

// How a session ended, where its metadata do not say.
const (
	CutOff       = "cut off"
	stillRunning = "running"
)

// Report says how the last Ralph of a project ended and what can be gone on
// with. It is a value; nothing in it is safe to print unescaped.
type Report struct {
	// Verdict is "same session", "fresh from state" or "refused"; "" when
	// nothing was cut off and there is nothing to take up. Why is the reason.
	Verdict string
	Why     string
	// Session is the id of the newest session, or of the one that was asked for;
	// Name is its name. Without one Session is "".
	Session string
	Name    string
	// Run names a one-shot without a session that was cut off after all sessions.
	Run string
	// Ended is completed, paused, error or "cut off": in progress, and its holder
	// is dead. Reason is what was noted of it, At the last sign of life.
	Ended  string
	Reason string
	At     time.Time
	// Said and Answered are the last words of the user and of Ralph; Call is the
	// tool call whose outcome is not known.
	Said, Answered, Call string
	// Tasks are those in progress or interrupted, Stopped is what
	// RALPH_PROGRESS.md says was interrupted last.
	Tasks   []memory.Task
	Stopped string
	// Torn are files of the state whose last record is incomplete; Messages
	// counts those that were accepted and not delivered.
	Torn     []string
	Messages int
	// Holder is who holds the project, with Verdict "refused", or held it and
	// died.
	Holder memory.Holder
	// Git is false without a repository. Dirty counts files that are not
	// committed, Commits those since the session began.
	Git     bool
	Branch  string
	Dirty   int
	Commits int
	// Turns are the turns that were cut off between two checkpoints, Worktrees
	// what children left, Locks what git commands of ours left.
	Turns, Worktrees, Locks []string
	// Warnings are whole sentences.
	Warnings []string

	began time.Time
}

// Resumable reports whether there is a session that can go on at the point where it
// was left.
func (s Report) Resumable() bool { return s.Verdict == SameSession }

// Cut reports whether the last Ralph did not end in order.
func (s Report) Cut() bool { return s.Ended == CutOff || s.Run != "" }

// Lines says the report in at most eight short lines; none when there is
// nothing to say. Now is what the times are told from.
func (s Report) Lines(now time.Time) []string {
	if s.Verdict == "" {
		return nil
	}
	lines := []string{s.headline(now)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if s.Verdict == Refused {
		return lines
	}
	if s.Said != "" {
		add("you said last: %s", firstWords(s.Said))
	}
	switch {
	case s.Call != "":
		add("outcome unknown, not run again by itself: %s", firstWords(plainly(s.Call)))
	case s.Answered != "":
		add("Ralph said last: %s", text.ClipRunes(session.Unmarked(s.Answered), maxQuote))
	}
	if len(s.Tasks) > 0 {
		add("interrupted: %s", taskNames(s.Tasks))
	} else if s.Stopped != "" && !s.Resumable() {
		add("%s says interrupted: %s", memory.ProgressFile, firstWords(s.Stopped))
	}
	if s.Messages > 0 {
		add("%s not delivered yet", text.Count(s.Messages, "message"))
	}
	if line := s.GitLine(); line != "" {
		lines = append(lines, line)
	}
	if line := s.LeftLine(); line != "" {
		lines = append(lines, line)
	}
	for _, w := range s.Warnings {
		add("note: %s", w)
	}
	return lines[:min(len(lines), maxLines)]
}

func (s Report) headline(now time.Time) string {
	when := ""
	if !s.At.IsZero() {
		when = " " + text.Ago(now.Sub(s.At))
	}
	switch {
	case s.Verdict == Refused:
		return "refused: " + s.Why
	case s.Resumable() && s.Ended == CutOff:
		return fmt.Sprintf("same session: %s was cut off%s", s.title(), when)
	case s.Resumable() && s.Reason != "":
		return fmt.Sprintf("same session: %s was interrupted%s (%s)", s.title(), when, session.Reason(s.Reason))
	case s.Resumable():
		return fmt.Sprintf("same session: %s was interrupted%s", s.title(), when)
	case s.Run != "":
		return fmt.Sprintf("fresh from state: a one-shot was cut off%s, and those have no session to go on with", when)
	}
	return "fresh from state: " + s.Why
}

func (s Report) title() string {
	if s.Name == "" {
		return "session " + s.Session
	}
	return fmt.Sprintf("session %s (%s)", s.Session, text.ClipRunes(s.Name, maxQuote))
}

// GitLine says what is not committed, and what was since the session began; "" without a repository.
func (s Report) GitLine() string {
	if !s.Git || s.Branch == "" && s.Dirty+s.Commits == 0 {
		return ""
	}
	where := "git"
	if s.Branch != "" {
		where = "on branch " + s.Branch
	}
	line := where + ": everything is committed"
	if s.Dirty > 0 {
		line = where + ": " + text.Count(s.Dirty, "file") + " not committed"
	}
	if s.Commits > 0 {
		line += ", " + text.Count(s.Commits, "commit") + " since it began"
	}
	return line
}

// LeftLine tells what a crash left.
func (s Report) LeftLine() string {
	var parts []string
	if n := len(s.Turns); n > 0 {
		parts = append(parts, text.Count(n, "turn")+" that was cut off can be taken back with undo")
	}
	if n := len(s.Worktrees); n > 0 {
		parts = append(parts, text.Count(n, "worktree")+" of children left in .ralph/worktrees")
	}
	if n := len(s.Torn); n > 0 {
		parts = append(parts, "an incomplete last record in "+text.List(s.Torn, maxNamed)+", put into quarantine")
	}
	if n := len(s.Locks); n > 0 {
		parts = append(parts, text.Count(n, "stale lock")+" of our own git commands")
	}
	return strings.Join(parts, "; ")
}

func taskNames(tasks []memory.Task) string {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = strings.TrimSpace(t.ID + " " + text.ClipRunes(t.Title, maxQuote))
	}
	return text.List(names, maxNamed)
}

func firstWords(content string) string {
	content, _, _ = strings.Cut(strings.TrimSpace(content), "\n")
	return text.ClipRunes(content, maxQuote)
}

// plainly is a call as it is written in a journal, its name and its arguments, for a
// person.
func plainly(call string) string {
	name, args, _ := strings.Cut(call, " ")
	if command := (agent.Call{Name: name, Args: args}).Command(); command != call {
		return name + " " + command
	}
	return call
}
