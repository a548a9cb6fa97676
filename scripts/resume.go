package scripts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/coordinator/ownership"
	"ralph/coordinator/recovery"
	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/scripts/report"
	"ralph/workers/exec"
)

func (inv *invocation) resumeCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "resume [SESSION|FEATURE] [--force]",
		Short: "go on with a session that was paused, interrupted or cut off",
		Long: "Go on with a session that was paused, interrupted or cut off: the newest one, or the one that a unique beginning of its id or name tells. " +
			"When the Ralph that runs here was paused (ralph pause), it goes on. The run of a plan goes on where it was, with its settings, also by the name of its feature.\n" +
			"On a terminal the chat opens there. Elsewhere, or with --output json, the session must be named, and its interrupted work is gone on with as one task. " +
			"A run whose breaker waits for a person does not go on there: exit 5 with the question, which ralph run --continue answers.\n" +
			"Exits with 1 when there is none, also with --force, and with 8 when another Ralph holds the project.\n" +
			"Example: ralph resume\nExample: ralph resume 003\nExample: ralph resume 003 --json --force",
		Args: cobra.ArbitraryArgs,
	}
	c.Flags().BoolVar(&force, "force", false, "end the Ralph that holds the project first: it is asked to, and killed if it does not")
	addFlags(c.Flags(), inv.keys, config.ScopeChat)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("ralph resume --help", "ralph resume: one word too many: %q", args[1])
		}
		which := ""
		if len(args) == 1 {
			if which = strings.TrimSpace(args[0]); which == "" {
				return usage("ralph resume 003 goes on with session 003", "ralph resume: the session's name is empty")
			}
		}
		return inv.resume(c.Context(), c, which, force)
	}
	return c
}

// resume goes on with a session: in the chat, or with one turn.
func (inv *invocation) resume(ctx context.Context, c *cobra.Command, which string, force bool) error {
	if err := inv.load(c); err != nil {
		return err
	}
	inv.force = force
	if err := inv.ownState(ctx, true); err != nil {
		return err
	}
	talk := isTerminal(inv.Stdin) && inv.form == outputText
	list, err := session.List(durable.Disk(), inv.stateDir())
	if err != nil {
		return broken("io", "see that .ralph/sessions is a directory that you can read", err, "resume")
	}
	open := inv.unfinished(list)
	id, run, err := inv.meant(list, open, which)
	if err != nil {
		return err
	}
	if force { // before it ends the holder
		if err := inv.goesOn(open, id, run, which, talk); err != nil {
			return err
		}
	}
	if done, err := inv.resumeLive(ctx, which, id); done {
		return err
	}
	if run != "" {
		return inv.resumeRun(ctx, run, which)
	}
	s, err := inv.assess(ctx, id)
	if err != nil {
		return err
	}
	if s.Verdict == verdictRefused {
		if !force {
			return &fault{status: result.Locked, kind: "locked", text: s.Why,
				hint: "wait until it has ended, or take over from it: ralph resume --force"}
		}
		s = recovery.Report{} // how it ends is still to come
	}
	switch {
	case id == "" && s.Verdict != verdictFresh:
		return nothingToResume()
	case id == "" && talk:
		return inv.converse(ctx, ChatOptions{Session: "new"}, &s)
	case id == "":
		return needsWord(s, inv, "ralph chat --new begins a session that knows of it, ralph \"task\" does one task",
			"no session can go on, and there is no terminal to begin one on: %s", s.Why)
	case talk:
		return inv.converse(ctx, ChatOptions{Session: id}, &s)
	}
	if err := inv.named(s, open, id, which); err != nil {
		return err
	}
	if err := inv.targets(); err != nil {
		return err
	}
	inv.cfg.Session = id
	inv.taking = situation(s)
	return inv.perform(ctx, coordinator.Job{Task: goOn(s), Go: true}, false)
}

// goesOn returns the error of resume when nothing can go on that was asked for, as far as
// that is known without the lock of the project. run is the run of a plan, "" for a
// session.
func (inv *invocation) goesOn(open []session.Info, id, run, which string, talk bool) error {
	switch {
	case run != "":
		l, err := feature.Load(inv.features(inv.warning), run)
		if err != nil {
			return err
		}
		return inv.runGoesOn(l, which)
	case id == "":
		return nothingToResume()
	case talk:
		return nil
	}
	return inv.named(recovery.Report{}, open, id, which)
}

func nothingToResume() error {
	return broken("nothing_to_resume", "ralph chat begins a session; ralph chat --resume ID goes on with one that ended", nil,
		"there is no session that was paused, interrupted or cut off")
}

// named refuses to go on without a terminal with a session that was not named, or that
// ended in order.
func (inv *invocation) named(s recovery.Report, open []session.Info, id, which string) error {
	switch {
	case which == "":
		return needsWord(s, inv, "name the session: ralph resume "+id, "which session goes on is not guessed without a terminal: %s", candidates(open))
	case !slices.ContainsFunc(open, func(i session.Info) bool { return i.ID == id }):
		return broken("nothing_to_resume", fmt.Sprintf("ralph --session %s \"task\" does a task in it", id), nil,
			"session %s ended in order: nothing of it was interrupted", id)
	}
	return nil
}

// The verdicts of recovery.Assess that matter here.
const (
	verdictSame    = "same session"
	verdictFresh   = "fresh from state"
	verdictRefused = "refused"
)

// needsWord is the error of what is not guessed without a terminal. How things
// stand is said before it.
func needsWord(s recovery.Report, inv *invocation, hint, format string, args ...any) error {
	for _, line := range s.Lines(inv.Now()) {
		inv.note(line)
	}
	return &fault{status: result.NeedsInput, kind: "needs_input", text: fmt.Sprintf(format, args...), hint: hint}
}

// goOn is what the model is told when interrupted work goes on without a person.
func goOn(s recovery.Report) string {
	text := "Go on with the interrupted work."
	if s.Call != "" {
		text += " A tool call was interrupted and its outcome is unknown: look how things stand before you repeat it."
	}
	return text
}

func (inv *invocation) stateDir() string { return filepath.Join(inv.root, ".ralph") }

// assess looks how the last Ralph ended; id names the session to look at.
func (inv *invocation) assess(ctx context.Context, id string) (recovery.Report, error) {
	runner := exec.New(exec.Options{Project: inv.root})
	s, err := recovery.Assess(ctx, recovery.Options{Project: ownership.Project{Root: inv.root, Getenv: inv.Getenv}, Session: id, Proc: runner, Now: inv.Now})
	return s, errors.Join(err, runner.Close(context.WithoutCancel(ctx)))
}

// situation is what a coordinator is told; nil when there is nothing to tell.
// Who gets the lock after all was not refused.
func situation(s recovery.Report) *recovery.Report {
	if s.Verdict == "" || s.Verdict == verdictRefused {
		return nil
	}
	return &s
}

// takeUp decides which session a chat goes on with when it was started with
// session: "" when the user did not say.
func (inv *invocation) takeUp(ctx context.Context, which string) (string, recovery.Report, error) {
	id := ""
	if which != "" && which != "last" && which != "new" {
		list, err := session.List(durable.Disk(), inv.stateDir())
		if err == nil {
			var info session.Info
			info, err = findSession(list, which, "")
			id = info.ID
		}
		if err != nil { // opening it says what is wrong, or makes it
			return which, recovery.Report{}, nil
		}
	}
	s, err := inv.assess(ctx, id)
	switch {
	case err != nil || which != "":
		return which, s, err
	case s.Verdict != verdictSame:
		return which, s, nil
	case !isTerminal(inv.Stdin):
		return "", s, needsWord(s, inv, "ralph chat --continue goes on with it, ralph chat --new begins another",
			"session %s did not end in order, and without a terminal it is not guessed whether it goes on: %s", s.Session, s.Why)
	}
	return s.Session, s, nil
}

// converse runs the chat as o says it; known is how the last Ralph ended, nil when
// that was not looked at yet.
func (inv *invocation) converse(ctx context.Context, o ChatOptions, known *recovery.Report) error {
	if inv.Chat == nil {
		return broken("internal", "", nil, "this build has no chat")
	}
	asked := o.Session
	if err := inv.ownState(ctx, asked != "" && asked != "new"); err != nil {
		return err
	}
	o.Version, o.Root, o.Dir, o.Config, o.RunID = inv.Version, inv.root, inv.dir, inv.cfg, inv.result.RunID
	o.Stdin, o.Stdout, o.Stderr, o.Getenv, o.Environ = inv.Stdin, inv.Stdout, inv.Stderr, inv.Getenv, inv.Environ
	// What is to be warned of stands in what it returns; the terminal is the chat's.
	o.Past = sessions.Open(sessions.Options{Root: inv.root, Config: inv.cfg, RunID: inv.result.RunID, Getenv: inv.Getenv, Now: inv.Now}, func(string) {})
	o.Begin = func(ctx context.Context, picked string) (coordinator.Options, error) {
		return inv.begin(ctx, asked, picked, known)
	}
	code, err := inv.Chat(ctx, o)
	inv.code = code
	return err
}

// begin is what a coordinator of a chat needs: see ChatOptions.Begin.
func (inv *invocation) begin(ctx context.Context, asked, picked string, known *recovery.Report) (coordinator.Options, error) {
	inv.boundMemory()
	o := coordinator.Options{Root: inv.root, Config: inv.cfg, RunID: inv.result.RunID, Holder: "chat", Getenv: inv.Getenv, Now: inv.Now, Lessons: report.Lessons}
	var s recovery.Report
	var err error
	switch {
	case picked == "new":
		o.Session = picked
	case picked != "":
		o.Session = picked
		s, err = inv.assess(ctx, picked)
	case known != nil:
		o.Session, o.Force, s = asked, inv.force, *known
	default:
		o.Force = inv.force
		o.Session, s, err = inv.takeUp(ctx, asked)
	}
	if o.Session == "" {
		o.Session = "new"
	}
	o.Recovery = situation(s)
	return o, err
}

// unfinished picks the sessions that did not end in order, newest first. The
// metadata of a session that is under way read the same: who holds the project
// is looked at beside it.
func (inv *invocation) unfinished(list []session.Info) []session.Info {
	var open []session.Info
	for _, i := range slices.Backward(list) {
		if errors.Is(i.Err, fs.ErrNotExist) {
			if _, err := os.Lstat(filepath.Join(inv.stateDir(), "sessions", i.Dir, session.JournalFile)); err != nil {
				continue // another tool's directory, or one that was never begun
			}
		}
		if i.Err == nil && i.Meta.Status == session.InProgress && session.Empty(durable.Disk(), filepath.Join(inv.stateDir(), "sessions", i.Dir)) {
			continue // there is nothing to go on with
		}
		if i.Err != nil || i.Meta.Status == session.Paused || i.Meta.Status == session.InProgress {
			open = append(open, i)
		}
	}
	return open
}

// candidates names sessions for a person.
func candidates(open []session.Info) string {
	const most = 5
	var names []string
	for i, s := range open {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(open)-most))
			break
		}
		how := "interrupted"
		if s.Meta.Status != session.Paused {
			how = "cut off"
		}
		names = append(names, fmt.Sprintf("%s (%s, %s)", s.ID, orWord(s.Meta.SessionName, s.Dir), how))
	}
	return strings.Join(names, ", ")
}

// findSession finds the session that a word means: its id, directory or name,
// or a beginning of one that no other session has; or that of a feature.
func findSession(list []session.Info, word, ofFeature string) (session.Info, error) {
	low := strings.ToLower(strings.TrimSpace(word))
	names := func(i session.Info) []string {
		_, slug, _ := strings.Cut(strings.TrimPrefix(i.Dir, "session-"), "-")
		return []string{i.ID, strings.TrimLeft(i.ID, "0"), strings.ToLower(i.Dir), strings.ToLower(i.Meta.SessionName), slug}
	}
	for _, fits := range []func(session.Info) bool{
		func(i session.Info) bool { return slices.Contains(names(i)[:3], folder.Number(low)) },
		func(i session.Info) bool { return slices.Contains(names(i), low) },
		func(i session.Info) bool { return ofFeature != "" && (i.Dir == ofFeature || i.ID == ofFeature) },
		func(i session.Info) bool {
			return slices.ContainsFunc(names(i), func(n string) bool { return strings.HasPrefix(n, low) })
		},
	} {
		var found []session.Info
		for _, i := range list {
			if fits(i) {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return session.Info{}, fmt.Errorf("%w %q: %s and %s", session.ErrAmbiguous, word, found[0].Dir, found[1].Dir)
		}
	}
	return session.Info{}, fmt.Errorf("%w: %q", session.ErrNotFound, word)
}
