package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/session"
)

// holderRun is what a run says of itself to others.
const holderRun = "run"

func (inv *invocation) runCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run [--plan FILE | --tracker NAME] [--epic ID ...] [--feature NAME] [flags]",
		Short: "work through a plan, task by task, until it is done",
		Long: "Work through the plan of this project: choose the tasks whose turn it is, have agents work them side by side in trees of their own, run their checks, merge what passes, and go on until nothing is left. " +
			"The plan is found (.beads/, prd.json, RALPH-LOOP-PLAN.yaml, RALPH_TASKS.md), or named with --plan or --tracker; it may be edited meanwhile.\n" +
			"In Markdown a task is a line `- [ ] **T-2** Retry the upload`, in a file of any name; below it `  - after: T-1` (or `(after T-1)` in the line) makes it wait, `  - check: make test` proves it, and boxes are its criteria.\n" +
			"A run that was paused, stopped or cut off goes on exactly where it was with --continue, and --new begins another; on a terminal it is asked. ralph pause, ralph resume and ralph stop work from other terminals, and ralph status says how it stands.\n" +
			"--dry-run shows the order and why, and changes nothing.\n" +
			"Exits with 0 when all is done, 1 when tasks failed, 3 when the plan cannot be used, 5 when an answer is needed, 6 when a limit is used up and tasks remain, 8 when another Ralph holds the project, 75 when the endpoint's rate limit outlasts patience, 124 when --timeout is used up.\n" +
			"Example: ralph run --dry-run\nExample: ralph run --parallel 4 --epic auth --check 'make test'\nExample: ralph run --continue",
		Args: func(c *cobra.Command, args []string) error {
			// The name of a branch may stand behind --branch as a word of its own.
			if f, ok := c.Flags().Lookup("branch").Value.(*flagValue); ok && len(args) == 1 && len(f.values) == 1 && f.values[0] == config.PlansBranch {
				f.values[0], args = args[0], nil
			}
			if len(args) > 0 {
				return usage("ralph run works through a plan: --plan FILE names one; ralph \"task\" does one task"+asTask(c, args), "ralph run takes no %q", args[0])
			}
			return nil
		},
	}
	addFlags(c.Flags(), inv.keys, config.ScopeRun)
	c.RunE = func(c *cobra.Command, _ []string) error { return inv.runPlan(c.Context(), c) }
	return c
}

// runPlan begins a run, or goes on with one.
func (inv *invocation) runPlan(ctx context.Context, c *cobra.Command) error {
	if err := inv.load(c); err != nil {
		return err
	}
	if err := inv.runFlags(c); err != nil {
		return err
	}
	if err := inv.targets(); err != nil {
		return err
	}
	if inv.cfg.DryRun {
		if err := inv.unfit(ctx); err != nil {
			return err
		}
		inv.cfg.Session = ""
		return inv.performRun(ctx, inv.runSettings())
	}
	// A second run is not handed over: whoever holds the project works already.
	if err := inv.elsewhere("run"); err != nil {
		return err
	}
	if err := inv.ownState(ctx, inv.cfg.Run.Continue); err != nil {
		return err
	}
	before, err := inv.earlier()
	if err != nil {
		return err
	}
	goOn, err := inv.resumeOrNew(ctx, before)
	if err != nil {
		return err
	}
	if goOn {
		return inv.goOnRun(ctx, *before)
	}
	if err := inv.unfit(ctx); err != nil {
		return err
	}
	s := inv.runSettings()
	// Whoever did not say it, and was not asked, does not want to lose a run whose
	// name this one would get.
	s.New = inv.cfg.Run.New || before != nil
	if inv.cfg.Session == "" {
		inv.cfg.Session = "new"
	}
	return inv.performRun(ctx, s)
}

// runFlags refuses flags that contradict each other or mean nothing here.
func (inv *invocation) runFlags(c *cobra.Command) error {
	r := &inv.cfg.Run
	if r.Continue && r.New {
		return usage("ralph run --help", "--continue and --new exclude each other")
	}
	if r.Feature != "" {
		name, err := feature.Name(r.Feature)
		if err == nil && name != r.Feature {
			err = fmt.Errorf("%q cannot name a file; %q can", r.Feature, name)
		}
		if err != nil {
			return usage("a feature is named with letters, digits, -, _ and dots: --feature auth", "--feature: %s", err)
		}
	}
	// All tasks are something else than those of an epic without a name.
	for flag, empty := range map[string]bool{"epic": len(r.Epic) == 0, "plan": r.Plan == "", "feature": r.Feature == "", "session-dir": r.SessionDir == "", "retry": len(r.Retry) == 0} {
		if c.Flags().Changed(flag) && empty {
			return usage("ralph plan show lists plan and epics; leave the flag out to work on all of it", "--%s: the value is empty", flag)
		}
	}
	if r.SessionDir = inv.sessionDirFlag(); r.SessionDir != "" {
		if info, err := os.Stat(r.SessionDir); err == nil && !info.IsDir() {
			return usage("name a directory; it is made when it is not there", "--session-dir: %s is not a directory", r.SessionDir)
		}
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--schema", inv.cfg.Schema != ""}, {"--files", len(inv.cfg.Files) > 0}} {
		if flag.set {
			return usage("ralph \"task\" takes it: a run has many answers, and its tasks name their files", "%s does not fit a run", flag.name)
		}
	}
	return nil
}

// elsewhere is the error of a command when another Ralph holds the project.
func (inv *invocation) elsewhere(what string) error {
	holder, alive := memory.Locked(nil, inv.root)
	if !alive {
		return nil
	}
	hint := "ralph status shows what it does; ralph resume goes on with it when it is paused"
	if holder.Kind == "chat" {
		hint = "/run in that chat works through a plan there; ralph status shows what it does"
	}
	return &fault{status: result.Locked, kind: "locked", err: &memory.LockedError{Holder: holder}, text: what, hint: hint}
}

// features is where the snapshots of runs are.
func (inv *invocation) features(warn func(string)) feature.Options {
	return feature.Options{StateDir: inv.stateDir(), Now: inv.Now, Warn: warn}
}

// earlier is the run that the flags could mean to go on with: the one that they
// name, else the newest that was not finished and fits them. nil: there is none.
func (inv *invocation) earlier() (*feature.Listed, error) {
	r := inv.cfg.Run
	list, err := feature.List(inv.features(inv.warning))
	if err != nil {
		return nil, broken("io", "see that .ralph/sessions is a directory that you can read", err, "run")
	}
	for _, l := range list {
		switch {
		case r.Feature != "" && l.Name != r.Feature:
		case r.Feature != "" && l.Err != nil:
			return nil, l.Err
		case l.Err == nil && l.Status.Resumable() && (r.Feature != "" || inv.fitsRun(l.Snapshot)):
			return &l, nil
		}
	}
	return nil, nil
}

// fitsRun says that a run is of the plan that the flags name, if they do.
func (inv *invocation) fitsRun(s feature.Snapshot) bool {
	r := inv.cfg.Run
	set := func(key string) bool { return inv.cfg.Origin(key).Source != "default" }
	if set("plan") && r.Plan != "" && !inv.samePlan(r.Plan, s.Tracker.PlanPath) {
		return false
	}
	if set("tracker") && r.Tracker != "" && r.Tracker != s.Tracker.Plugin {
		return false
	}
	return len(r.Epic) == 0 || sameSet(r.Epic, s.Tracker.EpicIDs)
}

// resumeOrNew decides whether an earlier run goes on. Without a flag that says it
// and without a person to ask it is not guessed.
func (inv *invocation) resumeOrNew(ctx context.Context, before *feature.Listed) (goOn bool, err error) {
	r := inv.cfg.Run
	switch {
	case before == nil && r.Continue:
		what := "there is no run that was paused, interrupted or cut off"
		if r.Feature != "" {
			what = fmt.Sprintf("the run %q was not paused, interrupted or cut off", r.Feature)
		}
		return false, broken("nothing_to_resume", "ralph run begins a new one, in which what is done stays done; --retry-failed works what failed or was skipped anew; ralph status says how things stand", nil, "%s", what)
	case before == nil, r.New:
		return false, nil
	case r.Continue:
		return true, nil
	}
	for _, line := range runLines(before.Snapshot, inv.Now()) {
		inv.noteOnce(line)
	}
	ask := inv.newAsker(func() func() { return func() {} })
	if ask == nil {
		return false, &fault{status: result.NeedsInput, kind: "needs_input",
			text: fmt.Sprintf("the run %q was %s, and without a terminal it is not guessed whether it goes on", before.Name, howEnded(before.Snapshot)),
			hint: "ralph run --continue goes on with it, ralph run --new begins another"}
	}
	answer, err := ask(ctx, permission.Question{Kind: "question", Text: fmt.Sprintf("go on with the run %q, or begin a new one?", before.Name), Options: []string{"resume", "new"}})
	if err != nil {
		return false, err
	}
	return answer == "resume", nil
}

// goOnRun goes on with a run, with what it was begun with: settings given on the
// command line or in the environment now count before those.
func (inv *invocation) goOnRun(ctx context.Context, before feature.Listed) error {
	if before.Live && !inv.force {
		return &fault{status: result.Locked, kind: "locked", text: fmt.Sprintf("the run %q is being worked by another Ralph", before.Name),
			hint: "ralph status shows what it does; ralph stop ends it"}
	}
	s, err := inv.restored(before.Snapshot)
	if err != nil {
		return broken("snapshot", "ralph run --new begins anew; the plan knows what is done", err, "go on with run %q", before.Name)
	}
	found, err := inv.assess(ctx, before.SessionID)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		inv.warning("how the last Ralph ended is not known: " + err.Error())
	}
	if found.Verdict == verdictRefused && !inv.force {
		return &fault{status: result.Locked, kind: "locked", text: found.Why, hint: "ralph status shows what it does"}
	}
	inv.taking = situation(found)
	if inv.cfg.Session = before.SessionID; !inv.hasSession(before.SessionID) {
		inv.warning(fmt.Sprintf("the session %s of the run is gone: it goes on in a new one", before.SessionID))
		inv.cfg.Session, inv.taking = "new", nil
	}
	kept := s.Sandbox != inv.cfg.Sandbox // as the configuration and the flags have it now
	s = inv.overRun(s)
	s.SandboxKept = kept && !inv.explicit("sandbox")
	s.Feature, s.Continue, s.New, s.DryRun = before.Name, true, false, false
	inv.note(fmt.Sprintf("the run %q goes on: session %s, %s, %d of %d tasks done", before.Name, before.SessionID, iterationsText(before.Iteration, s.MaxIterations),
		before.Tasks.Completed, before.Tasks.Total))
	if begun := begunOf(before.Snapshot); len(begun) > 0 {
		inv.noteOnce(begunText(begun))
	}
	return inv.performRun(ctx, s)
}

// noteOnce tells what may have been told with a question before.
func (inv *invocation) noteOnce(text string) {
	if !inv.warned[text] {
		inv.warned[text] = true
		inv.note(text)
	}
}

// hasSession says that a session is there to go on in.
func (inv *invocation) hasSession(id string) bool {
	list, err := session.List(durable.Disk(), inv.stateDir())
	return err != nil || slices.ContainsFunc(list, func(i session.Info) bool { return i.ID == id })
}

// performRun has the coordinator work through a plan, and brings the result out.
func (inv *invocation) performRun(ctx context.Context, s loop.Settings) error {
	if inv.form == outputJSONL {
		inv.out.events = newEventWriter(inv.out, inv.result.RunID, inv.Now)
	}
	p := inv.newProgress()
	defer p.close()
	inv.depart()
	inv.alarm = inv.newNotifier()
	co, err := inv.open(ctx, holderRun, p)
	if err != nil {
		return err
	}
	// Closing waits for what the work started; the result goes out first.
	defer inv.shut(co)
	defer inv.killing(co)()
	if l, ok := co.(interface{ Live() coordinator.Live }); ok && inv.out.events == nil {
		p.watch(func() *loop.View { return l.Live().Loop })
	}
	job := coordinator.Job{Loop: &s, DryRun: s.DryRun}
	outcome := inv.run(ctx, co, job, p)
	ep := co.Endpoint()
	inv.result.Model, inv.result.Provider = optional(orWord(s.Model, ep.Model)), optional(ep.Provider)
	if s.DryRun {
		inv.previewed(&outcome)
	}
	inv.conclude(outcome, job, p, co.Record)
	return nil
}

// previewed makes an order that is only shown readable: the coordinator gives its
// steps as JSON.
func (inv *invocation) previewed(o *result.Outcome) {
	var steps []loop.Step
	if o.Status != result.Completed || json.Unmarshal(o.Structured, &steps) != nil {
		return
	}
	o.Answer = orderText(steps, inv.out.columns())
	if inv.form == outputText {
		o.Structured = nil
	}
}
