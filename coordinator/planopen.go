package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/plan"
	"ralph/coordinator/policy/condition"
	"ralph/coordinator/prompt/work"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/memory/registry"
	"ralph/memory/session/folder"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// planError makes an error of a plan one of the configuration: nothing ran.
func planError(err error) error {
	var bad *plan.Problems
	var word *condition.Error
	var own *result.Error
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, plan.ErrNoTask):
		return &result.Error{Op: "run", Err: err, Status: result.Usage, Hint: "ralph plan show lists the tasks with their ids"}
	case errors.Is(err, loop.ErrNewChecks):
		return &result.Error{Op: "continue", Err: err, Status: result.NeedsInput, Hint: "--sandbox off agrees to run them without a sandbox; --sandbox workspace goes on inside it"}
	case errors.As(err, &word):
		return &result.Error{Op: "run", Err: err, Hint: "mend the expression; ralph plan show --select EXPR tries one", Status: result.ConfigError}
	case errors.As(err, &bad), errors.Is(err, plan.ErrNoPlan), errors.Is(err, plan.ErrEmpty):
		hint := "ralph plan check says what is wrong with a plan"
		if bad != nil && bad.Hint != "" {
			hint = bad.Hint
		}
		return &result.Error{Op: "run", Err: err, Hint: hint, Status: result.ConfigError}
	}
	return err
}

// openedRun is a run with what it holds.
type openedRun struct {
	loop  *loop.Loop
	store *feature.Store
}

// openRun makes the run that settings ask for: a new one, or one that goes on.
func (c *Coordinator) openRun(ctx context.Context, given loop.Settings) (*openedRun, error) {
	if given.Check == "" && !given.DryRun {
		if _, err := c.ownCheck(ctx); err != nil { // a question comes before the start
			return nil, err
		}
	}
	s := c.runSettings(given)
	files := c.book.folder()
	if files == nil {
		return nil, &result.Error{Op: "run", Err: errors.New("a run needs a session to keep"), Status: result.Usage, Hint: "ralph run makes one"}
	}
	name := s.Feature
	if name == "" && s.Continue {
		found, err := c.resumable()
		if err != nil {
			return nil, err
		}
		name = found
	}
	var resume *feature.Snapshot
	if name != "" {
		clean, err := feature.Name(name)
		if err != nil {
			return nil, &result.Error{Op: "run", Path: name, Err: err, Status: result.Usage, Hint: "name a feature with letters, digits, - and _"}
		}
		name = clean
		if resume, err = c.takenUp(name, &s); err != nil {
			return nil, err
		}
	}
	if err := c.installed(s); err != nil {
		return nil, err
	}
	if builtin(s.Agent) {
		if err := c.priced(s.MaxCostUSD); err != nil {
			return nil, err
		}
	}
	if err := work.CheckTemplate(c.workTemplate()); err != nil {
		return nil, &result.Error{Op: "run", Err: err, Status: result.ConfigError, Hint: "ralph plan prompt TASK shows what a template makes; --help lists what it can name"}
	}
	tracker, path, err := c.openPlan(ctx, s)
	if err != nil {
		return nil, planError(err)
	}
	c.errands.planned(path)
	if err := c.onBranch(ctx, tracker, false); err != nil {
		return nil, err
	}
	if s.Check == "" {
		c.showDetected(c.projectTests())
	}
	if name == "" {
		name = featureName(ctx, tracker)
		if resume, err = c.takenUp(name, &s); err != nil {
			return nil, err
		}
	}
	store, err := feature.Open(c.features(), name)
	if err != nil {
		return nil, err
	}
	s.Feature = name
	c.fund(workers.Limit{Turns: s.MaxTurns, Tokens: s.MaxTokens, CostUSD: s.MaxCostUSD}, loop.SpentBy(resume))
	l, err := loop.New(c.loopOptions(s, tracker, store, files, resume))
	if err != nil {
		return nil, errors.Join(planError(err), store.Close())
	}
	c.book.enlist(ctx, registry.Entry{Feature: name, AgentPlugin: cmp.Or(s.Agent, agentName), TrackerPlugin: tracker.Name(), PlanPath: path, EpicIDs: s.Epics})
	return &openedRun{l, store}, nil
}

// takenUp is the snapshot of the run of a name that goes on, nil for a new one;
// settings that it has and nobody gave are put into s.
func (c *Coordinator) takenUp(name string, s *loop.Settings) (*feature.Snapshot, error) {
	l, err := feature.Load(c.features(), name)
	switch {
	case err != nil || c.book.homeless() || !l.Snapshot.Status.Resumable() || s.New:
		if s.Continue {
			return nil, &result.Error{Op: "continue", Path: name, Err: errors.New("there is no run of this name that can go on"), Status: result.Usage, Hint: "ralph status says what can be gone on with; --new begins anew"}
		}
		return nil, nil
	case !s.Continue:
		return nil, &result.Error{Op: "run", Path: name, Err: fmt.Errorf("it is %s at iteration %d", l.Snapshot.Status, l.Snapshot.Iteration), Status: result.NeedsInput, Hint: "--continue goes on with it, --new begins anew, --feature names another"}
	}
	snap := l.Snapshot
	c.checkBaseline(snap.Git)
	s.Plan, s.Tracker = cmp.Or(s.Plan, snap.Tracker.PlanPath), cmp.Or(s.Tracker, snap.Tracker.Plugin)
	if len(s.Epics) == 0 {
		s.Epics = snap.Tracker.EpicIDs
	}
	return &snap, nil
}

// checkBaseline warns when a run goes on in a repository that does not hold the
// commit with which it began: what it has merged may not be there either.
func (c *Coordinator) checkBaseline(was feature.Git) {
	if c.repo == nil || was.Baseline == "" {
		return
	}
	ctx, cancel := context.WithTimeout(c.closing, askGit)
	defer cancel()
	_, code, err := c.repo.Plumbing().Run(ctx, git.Call{Args: []string{"merge-base", "--is-ancestor", was.Baseline, "HEAD"}, Allow: []int{1, 128}})
	switch {
	case err != nil:
		c.warn("whether the repository still holds what the run began with is not known: " + err.Error())
	case code != 0:
		at := "no branch"
		if was.Branch != "" {
			at = "branch " + was.Branch
		}
		c.warn(fmt.Sprintf("the run began with commit %.12s on %s, which is not part of what is checked out now: what it has merged may not be here; git checkout brings that back, --new begins anew", was.Baseline, at))
	}
}

// loopOptions joins a loop with what the coordinator has.
func (c *Coordinator) loopOptions(s loop.Settings, tracker plan.Tracker, store *feature.Store, files *folder.Folder, resume *feature.Snapshot) loop.Options {
	o := loop.Options{
		Settings: s, Tracker: tracker, Hands: planHands{c}, Files: files, Resume: resume, Granted: c.regranted(resume), Base: c.baseSnapshot(),
		Grant: func(g loop.Granted) error { return c.keepGrant(store.Name(), g) },
		Open: func(ctx context.Context, s loop.Settings) (plan.Tracker, error) {
			t, path, err := c.openPlan(ctx, s)
			if err == nil {
				c.errands.planned(path)
			}
			return t, err
		},
		Save: func(snap feature.Snapshot) error {
			snap.SessionID = c.SessionID()
			if rel, err := filepath.Rel(c.opt.Root, c.book.sessionDir()); err == nil {
				snap.SessionDir = filepath.ToSlash(rel)
			}
			return store.Save(snap)
		},
		Emit: c.events.emitFiled, Warn: c.warn, Behind: c.behind, Now: c.now, MaxAgents: c.cfg.MaxAgents,
		Exhausted: func() error { return c.purse().Check() },
		Actor:     "ralph/" + c.SessionID(), Former: "ralph/", SessionID: c.SessionID(),
		Progress: c.book.taskEnded, Left: c.leftBehind, Features: c.book.features, Checks: c.book.validations,
	}
	if c.opt.Ask != nil {
		o.Ask = func(ctx context.Context, q permission.Question) (string, error) {
			answer, err := c.approver.Ask(ctx, "", agent.Event{Type: agent.EventAsk, TaskID: q.TaskID, Text: q.Text}, askedQuestion(q))
			if err == nil {
				c.events.emit(agent.Event{Type: agent.EventAsk, TaskID: q.TaskID, Text: answer, Status: "answered"})
			}
			return answer, err
		}
	}
	return o
}

// askedQuestion returns a question of a run for a front end, with the answers that
// mean something. It is no choice among options, because any other text is an
// instruction. An empty line approves a plan and answers nothing else.
func askedQuestion(q permission.Question) permission.Question {
	out := permission.Question{Kind: "question", Text: q.Text}
	switch {
	case q.Kind == "approval":
		out.Text, out.Default = q.Text+" [Y/n, or instructions]", "yes"
	case len(q.Options) > 0:
		out.Text += " (" + strings.Join(q.Options, ", ") + ", or how to go on instead)"
	}
	return out
}

func (c *Coordinator) features() feature.Options {
	o := feature.Options{FS: c.opt.FS, StateDir: c.stateDir(), Now: c.now, Warn: c.warn}
	if !c.book.homeless() { // where nothing is gone on with the next run only takes the name
		o.Key = c.book.key()
	}
	return o
}

// resumable is the newest run that can go on.
func (c *Coordinator) resumable() (string, error) {
	list, err := feature.List(c.features())
	if err != nil {
		return "", err
	}
	for _, l := range list {
		if l.Err == nil && !l.Live && l.Snapshot.Status.Resumable() {
			return l.Name, nil
		}
	}
	return "", &result.Error{Op: "continue", Err: errors.New("there is no run that can go on"), Status: result.Usage, Hint: "ralph run begins one"}
}

// featureName is what a run is called that was given no name: as its plan.
func featureName(ctx context.Context, t plan.Tracker) string {
	if p, err := t.Load(ctx); err == nil {
		for _, text := range []string{p.Branch, p.Name} {
			if name, err := feature.Name(text); err == nil {
				return name
			}
		}
	}
	return t.Name()
}

// openPlan opens the tracker that settings name, or the one that is there, with its
// changes on record for undo. path is the plan's file, relative to the root.
func (c *Coordinator) openPlan(ctx context.Context, s loop.Settings) (t plan.Tracker, path string, err error) {
	t, path, err = c.planAt(ctx, s)
	if err == nil {
		t = recordedPlan{t, c.changes, path, c.planFile(t.Name(), path)}
	}
	return t, path, err
}

// planAt opens the tracker that settings name, or the one that is there.
func (c *Coordinator) planAt(ctx context.Context, s loop.Settings) (t plan.Tracker, path string, err error) {
	o := plan.Options{Root: c.opt.Root, FS: c.opt.FS, Tracker: s.Tracker, Path: s.Plan, Epics: s.Epics, Proc: c.own,
		Getenv: c.opt.Getenv, Environ: os.Environ(), Now: c.now, Warn: c.warn}
	if c.book.opened() != nil { // else the plan is only looked at
		o.Book = planBook{c.book}
	}
	if _, path, _, err = plan.Detect(o); err != nil {
		return nil, "", err
	}
	t, err = plan.Open(ctx, o)
	return t, filepath.ToSlash(path), err
}

// baseSnapshot says where the run stands in git and on disk.
func (c *Coordinator) baseSnapshot() feature.Snapshot {
	s := feature.Snapshot{Cwd: c.opt.Root, StartedAt: c.now().UTC(), Agent: feature.Agent{Model: c.Endpoint().Model, Sandbox: c.cfg.Sandbox}}
	if c.repo == nil {
		return s
	}
	ctx, cancel := context.WithTimeout(c.closing, askGit)
	defer cancel()
	// What git does not say is left out; the run does without.
	s.Git.Baseline, s.Git.Branch, _ = c.repo.Plumbing().Head(ctx)
	s.Git.Branch = strings.TrimPrefix(s.Git.Branch, "refs/heads/")
	if changed, err := c.repo.Status(ctx); err == nil {
		for _, f := range changed {
			s.Git.Dirty = append(s.Git.Dirty, f.Path)
		}
	}
	return s
}

// runSettings completes settings with those of the configuration. What nobody has
// set there is left to the plan.
func (c *Coordinator) runSettings(s loop.Settings) loop.Settings {
	r := c.cfg.Run
	set := func(key string) bool { return c.cfg.Origin(key).Source != "default" }
	number := func(to *float64, key string, value float64) {
		if *to == 0 && set(key) {
			if *to = value; value == 0 {
				*to = -1 // an explicit zero, and not nothing
			}
		}
	}
	number(&s.ConfidenceThreshold, "confidence_threshold", r.ConfidenceThreshold)
	number(&s.LearningRate, "learning_rate", r.LearningRate)
	number(&s.RiskTolerance, "risk_tolerance", r.RiskTolerance)
	if set("human_intervention") {
		s.HumanIntervention = cmp.Or(s.HumanIntervention, r.HumanIntervention)
	}
	s.Feature, s.Plan, s.Tracker, s.Select = cmp.Or(s.Feature, r.Feature), cmp.Or(s.Plan, r.Plan), cmp.Or(s.Tracker, r.Tracker), cmp.Or(s.Select, r.Select)
	s.Agent, s.Fallback, s.OnError = cmp.Or(s.Agent, r.Agent), cmp.Or(s.Fallback, r.FallbackAgent), cmp.Or(s.OnError, r.OnError)
	s.Prompt, s.Check = cmp.Or(s.Prompt, r.Prompt), cmp.Or(append([]string{s.Check}, c.agreedChecks()...)...)
	s.Parallel, s.MaxIterations = cmp.Or(s.Parallel, r.Parallel), cmp.Or(s.MaxIterations, r.MaxIterations)
	s.Parallel, s.MaxIterations = max(s.Parallel, 0), max(s.MaxIterations, 0) // a face says none by -1
	if set("max_turns") {
		s.MaxTurns = cmp.Or(s.MaxTurns, c.cfg.MaxTurns)
	}
	s.MaxTokens, s.MaxCostUSD, s.Timeout = cmp.Or(s.MaxTokens, c.cfg.MaxTokens), cmp.Or(s.MaxCostUSD, c.cfg.MaxCostUSD), cmp.Or(s.Timeout, c.cfg.Timeout)
	if s.Sandbox = cmp.Or(s.Sandbox, c.cfg.Sandbox); builtin(s.Agent) {
		s.Model = cmp.Or(s.Model, c.Endpoint().Model) // another program has its own
	}
	if len(s.Epics) == 0 {
		s.Epics = slices.Clone(r.Epic)
	}
	s.RequireCheck, s.Continue, s.New = s.RequireCheck || r.RequireCheck, s.Continue || r.Continue, s.New || r.New
	return s
}
