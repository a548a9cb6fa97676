package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	kinds "ralph/coordinator/policy/fault"
	"ralph/coordinator/prompt/work"
	"ralph/memory/session/iteration"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/external"
	"ralph/workers/model"
	"ralph/workers/regular"
)

// planHands have the tasks of a plan worked by children.
type planHands struct{ c *Coordinator }

var _ loop.Hands = planHands{}

// Prompt builds what the agent of an order is told.
func (h planHands) Prompt(_ context.Context, o loop.Order) (string, error) {
	o.Agent = h.c.known(o.Agent)
	return h.c.workPrompt(o)
}

// Do has a child work on a task, and waits until its work is merged or will not
// be.
func (h planHands) Do(ctx context.Context, o loop.Order) loop.Report {
	c, began := h.c, h.c.now()
	o.Agent = c.known(o.Agent)
	e := c.errands.begin(o, c.page(o))
	defer c.errands.end(e)
	id, before, err := h.assign(ctx, e)
	if err != nil {
		return e.close(c, loop.Report{Status: string(crew.Failed), Problem: err.Error(), Err: err, Kind: string(kinds.Execution), Took: c.now().Sub(began)})
	}
	c.nameWorker(o, id)
	if o.Begun != nil {
		o.Begun(id)
	}
	a, err := c.crew.Settled(ctx, id)
	if err != nil { // the task is not wanted any more, or all work ends
		_ = c.crew.Stop(id, context.Cause(ctx)) // one that has ended meanwhile is no matter
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), restTime)
		a, _ = c.crew.Settled(rest, id) // what is not at rest then is told by the stop
		cancel()
	}
	if a.State == crew.Done && a.Landing == crew.Merged && a.Combined {
		h.recheck(ctx, e)
	}
	r := e.report(c, a, before)
	r.Took = c.now().Sub(began)
	c.errands.noteProof(o.Task.ID, r.Checks)
	if a.State == crew.Done && a.Landing == crew.Merged {
		h.shelve(ctx, o.Task.ID, id)
	}
	return e.close(c, r)
}

// shelve removes the trees of those who tried a task before the one that has done
// it; their branches stay.
func (h planHands) shelve(ctx context.Context, task, by string) {
	for _, a := range h.c.crew.List() {
		if a.ID != by && strings.HasPrefix(a.Errand, task+"/") {
			h.c.crew.Shelve(ctx, a.ID)
		}
	}
}

// known is the agent of a name, or Ralph's own: a task list may still name the child
// that worked on a task last.
func (c *Coordinator) known(name string) string {
	if _, err := c.adapter(name); err != nil {
		return ""
	}
	return name
}

// assign finds who works: the agent that was cut off, the one that tried last, or
// a new one. before is what it had used already.
func (h planHands) assign(ctx context.Context, e *errand) (id string, before crew.Agent, err error) {
	c, o := h.c, e.order
	order := crew.Order{Name: o.Task.Title, Label: strings.TrimSpace(o.Task.ID + " " + o.Task.Title), Task: o.Prompt, Errand: e.name, Limit: workers.Limit{Turns: c.cfg.MaxTurns}}
	if o.Cut {
		if a, ok := c.crew.Bearer(e.name); ok {
			o.Resume = a.ID
		}
		if a, ok := c.crew.Find(o.Resume); ok && o.Resume != "" && h.kept(ctx, e, a) {
			return a.ID, before, nil
		}
	}
	for _, last := range []string{o.Resume, c.errands.worker(o.Task.ID, "")} {
		a, ok := c.crew.Find(last)
		if last == "" || !ok || len(a.Weakened) > 0 || o.Resume == "" && o.Attempt == 1 {
			continue
		}
		e.is(last)
		if a.State == crew.Interrupted {
			err = c.crew.Continue(last, changedTask(a, o), order)
		} else { // what it said led nowhere; what it did stays in its tree
			err = c.crew.Again(last, order)
		}
		if err == nil {
			c.errands.worker(o.Task.ID, last)
			return last, a, nil
		}
	}
	e.is("")
	id, err = c.crew.Assign(ctx, order)
	if err == nil {
		e.is(id)
		c.errands.worker(o.Task.ID, id)
	}
	return id, before, err
}

// kept says that the work of a cut-off iteration is complete, and not done again:
// its agent had proven it, and it is merged, or is now. The checks are run once
// more, in the user's tree.
func (h planHands) kept(ctx context.Context, e *errand, a crew.Agent) bool {
	c := h.c
	if a.State != crew.Done || len(a.Weakened) > 0 || changedTask(a, e.order) != "" {
		return false
	}
	if a.Landing != crew.Merged && a.Landing != crew.Unchanged {
		if _, err := c.crew.Merge(ctx, a.ID); err != nil {
			return false
		}
	}
	e.is(a.ID)
	checks := e.order.Checks
	if len(checks) == 0 {
		checks = c.ownTests(a.Files)
	}
	for _, check := range checks {
		if err := h.checkMerged(ctx, e, check); err != nil {
			return false
		}
	}
	e.mu.Lock()
	e.kept = true
	e.mu.Unlock()
	c.errands.worker(e.order.Task.ID, a.ID)
	return true
}

// recheck runs the checks that passed in the tree of an agent in the user's, where its
// work came together with other work.
func (h planHands) recheck(ctx context.Context, e *errand) {
	for _, run := range e.passed() {
		check := plan.Check{Command: run.Command, Detected: true}
		if i := slices.IndexFunc(e.order.Checks, func(x plan.Check) bool { return x.Command == run.Command }); i >= 0 {
			check = e.order.Checks[i]
		}
		if err := h.checkMerged(ctx, e, check); err != nil {
			run.ExitCode, run.Excused = -1, "it passed before its work was merged with other work, and could not be run after that: "+err.Error()
			e.checked(run)
		}
	}
}

// checkMerged runs a check in the user's tree. The project's own tests refuse no work
// there: who has broken them is not known.
func (h planHands) checkMerged(ctx context.Context, e *errand, check plan.Check) error {
	c := h.c
	res, why, err := c.checkFor(ctx, c.station, check, state{}, c.events.emit)
	switch {
	case err != nil:
		return err
	case why != "" && check.Detected:
		return nil // nothing was changed that they test
	case why != "":
		return errors.New(why)
	}
	if check.Detected && res.failed() {
		res.Excused = "it fails among what is merged"
	}
	e.checked(c.checkRun(check, res))
	return nil
}

// changedTask is what an agent that goes on is told when its task reads otherwise
// now; "" when it does not.
func changedTask(a crew.Agent, o loop.Order) string {
	if strings.Contains(a.Task, o.Task.Title) && strings.Contains(a.Task, o.Task.Description) {
		return ""
	}
	return "The task was changed meanwhile. It reads now:\n\n" + o.Prompt
}

// page opens the iteration's file; nil without a session.
func (c *Coordinator) page(o loop.Order) *iteration.Writer {
	dir := c.book.sessionDir()
	if dir == "" {
		return nil
	}
	who := o.Agent
	if builtin(who) {
		who = agentName
	}
	w := iteration.Begin(iteration.Options{FS: c.opt.FS, Dir: dir, Now: c.now, Redact: c.redactor.String},
		iteration.Head{Number: o.Iteration, Attempt: o.Attempt, Task: o.Task.ID, Title: o.Task.Title, Agent: who, Model: o.Model, Phase: o.Phase})
	if o.Prompt != "" {
		w.Prompt(o.Prompt)
	}
	return w
}

// report is what an attempt came to.
func (e *errand) report(c *Coordinator, a, before crew.Agent) loop.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := loop.Report{Agent: a.ID, Branch: a.Branch, Commit: a.Commit, Landing: string(a.Landing), Checks: slices.Clone(e.checks), Files: a.Files, Weakened: a.Weakened,
		Summary: a.Result, Final: e.final, Problem: a.Problem, Turns: a.Turns - before.Turns, ToolCalls: e.calls, Context: e.context,
		Usage: a.Usage.Add(negative(before.Usage)), CostUSD: crew.Grown(a.CostUSD, before.CostUSD)}
	switch a.State {
	case crew.Done:
		r.Status = string(crew.Done)
	case crew.Partial:
		r.Status = string(crew.Partial)
	case crew.Failed:
		r.Status = string(crew.Failed)
	default:
		r.Status = string(crew.Interrupted)
	}
	if f := e.finish; f != nil {
		sure := f.Confidence
		r.Declared, r.Confidence = f.Status == agent.FinishDone, &sure
		if f.Status == agent.FinishNeedsInput {
			r.Status, r.Question = string(agent.FinishNeedsInput), f.Summary
		}
		if r.Summary == "" {
			r.Summary = f.Summary
		}
	}
	r.Declared = (r.Declared || e.kept) && a.State == crew.Done
	r.Verified = a.State == crew.Done && len(r.Checks) > 0 && !slices.ContainsFunc(r.Checks, func(x loop.CheckRun) bool { return !x.Passed() })
	if e.foreign != nil {
		r.Final = e.foreign.Final // with the promise, which is the evidence
	}
	r.Err = c.crew.Fault(a.ID)
	e.blame(&r, filepath.Join(c.stateDir(), "worktrees"))
	return r
}

func negative(u agent.Usage) agent.Usage {
	u.Input, u.CachedInput, u.Output, u.Reasoning, u.Total = -u.Input, -u.CachedInput, -u.Output, -u.Reasoning, -u.Total
	return u
}

// outsideTrees reports whether err is about a file that cannot be read, or used for what it
// is for, and that is in no agent's tree: no other attempt fares better while it is so.
func outsideTrees(err error, trees string) bool {
	var bad *regular.Error
	var at *fs.PathError
	path := ""
	switch {
	case errors.As(err, &bad):
		path = bad.Path
	case errors.As(err, &at) && slices.ContainsFunc([]error{fs.ErrPermission, syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP}, func(e error) bool { return errors.Is(at, e) }):
		path = at.Path
	}
	if !filepath.IsAbs(path) {
		return false // below an agent's tree, or none
	}
	rel, err := filepath.Rel(trees, path)
	first, _, _ := strings.Cut(rel, string(filepath.Separator))
	return err != nil || !filepath.IsLocal(rel) || first == "." || first == ".ralph"
}

// blame says of what kind a failure is; trees is the directory of the agents' trees. mu is
// held.
func (e *errand) blame(r *loop.Report, trees string) {
	if r.Status == string(crew.Done) {
		return
	}
	var mod *model.Error
	switch {
	case errors.As(r.Err, &mod):
		r.Kind, r.Quota, r.RetryAfter = string(kinds.Network), mod.Kind == model.KindRateLimit, mod.RetryAfter
		switch mod.Kind {
		case model.KindRateLimit:
			r.Kind = string(kinds.Resource)
		case model.KindAuth, model.KindNoModel, model.KindModelNotFound, model.KindQuota:
			r.Kind, r.Down = string(kinds.Permission), true
		case model.KindUnreachable, model.KindServer:
			r.Down = true
		}
	case e.foreign != nil && e.foreign.Err != nil:
		r.Kind, r.Quota, r.RetryAfter = string(e.foreign.Kind), e.foreign.Quota, e.foreign.RetryAfter
		if r.Futile = errors.Is(r.Err, external.ErrMissing) || errors.Is(r.Err, external.ErrMismatch); r.Futile {
			r.Kind = string(kinds.Dependency)
		}
	case outsideTrees(r.Err, trees):
		r.Kind, r.Futile = string(kinds.Dependency), true
	case len(r.Weakened) > 0, slices.ContainsFunc(r.Checks, loop.CheckRun.Failed), errors.Is(r.Err, errUndeclared), errors.Is(r.Err, errUnsure):
		r.Kind = string(kinds.Validation)
	case r.Err != nil:
		r.Kind = string(kinds.Execution)
	}
}

// close ends the iteration's file.
func (e *errand) close(c *Coordinator, r loop.Report) loop.Report {
	if e.page == nil {
		return r
	}
	e.page.Final(r.Final)
	err := e.page.End(iteration.Outcome{Status: r.Status, Verified: r.Verified, Confidence: r.Confidence, Landing: r.Landing, Commit: r.Commit, Files: r.Files,
		Problem: r.Problem, Question: r.Question, Tokens: int64(r.Usage.Total), CostUSD: r.CostUSD, Turns: r.Turns, ToolCalls: r.ToolCalls})
	if err != nil {
		c.warn(err.Error())
	}
	return r
}

// leftBehind ends the iteration's file of an attempt that nobody goes on with, and
// says where its work is.
func (c *Coordinator) leftBehind(o loop.Order, why string) {
	a, ok := c.crew.Bearer(fmt.Sprintf("%s/%d", o.Task.ID, o.Iteration))
	if !ok {
		a, ok = c.crew.Find(o.Resume)
	}
	switch {
	case !ok:
	case a.Landing == crew.Merged:
		why += "; what it had done is merged"
	case a.Branch != "" && a.Landing != crew.Unchanged:
		why += "; what it had done is kept on the branch " + a.Branch
	}
	c.warn(fmt.Sprintf("task %s is not worked on: %s", o.Task.ID, why))
	page := c.page(o)
	if page == nil {
		return
	}
	err := page.End(iteration.Outcome{Status: "cancelled", Landing: string(a.Landing), Commit: a.Commit, Problem: why})
	if err != nil {
		c.warn(err.Error())
	}
}

// Check runs a command in the user's tree, as a gate asks for it.
func (h planHands) Check(ctx context.Context, check plan.Check) loop.CheckRun {
	command, tree := check.Command, ""
	// The gate itself is what the session's files tell of.
	res, why, err := h.c.checkFor(ctx, h.c.station, check, state{}, func(e agent.Event) {
		tree = e.Ref
		h.c.events.emitFiled(e)
	})
	switch {
	case err != nil:
		return loop.CheckRun{Command: command, Output: err.Error(), ExitCode: -1}
	case why != "":
		return loop.CheckRun{Command: command, Output: "not run: " + why, ExitCode: -1}
	}
	h.c.book.validated(command)
	run := h.c.checkRun(check, res)
	run.Tree = tree
	return run
}

// maxPaths bounds the paths of a task that are looked for.
const maxPaths = 50

// Facts are what can be seen of a task before it is worked.
func (h planHands) Facts(_ context.Context, t plan.Task) decide.Facts {
	f := decide.Facts{Task: t.ID, Description: strings.TrimSpace(t.Description) != "" || t.Prompt != "", Criteria: len(t.Criteria) > 0, Bounded: len(t.Inputs)+len(t.Outputs) > 0}
	for _, path := range t.Inputs[:min(len(t.Inputs), maxPaths)] {
		f.Named = append(f.Named, path)
		if _, err := os.Lstat(filepath.Join(h.c.opt.Root, filepath.FromSlash(path))); err != nil {
			f.Missing = append(f.Missing, path)
		}
	}
	paths := namedPaths(t.Title + "\n" + t.Description)
	f.Bounded = f.Bounded || len(paths) > 0
	for _, command := range append(h.c.agreedChecks(), t.Check) {
		if command == "" {
			continue
		}
		tool := firstWord(command)
		f.Named = append(f.Named, tool)
		if !h.here(tool) && !shellWord(tool) {
			f.Missing = append(f.Missing, tool)
			continue
		}
		f.Check = true
	}
	if h.c.cfg.Sandbox != "off" && needsNetwork(t) && !h.c.approver.Network("curl") {
		f.Denied = append(f.Denied, "network")
	}
	return f
}

// here says that a program is in the project, or installed.
func (h planHands) here(tool string) bool {
	path := ""
	if h.c.opt.Getenv != nil {
		path = h.c.opt.Getenv("PATH")
	}
	dirs := filepath.SplitList(path)
	switch {
	case filepath.IsAbs(tool):
		dirs = []string{""}
	case strings.Contains(tool, "/"):
		dirs = []string{h.c.opt.Root}
	case path == "":
		return true // where programs are is not known
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(tool)))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}

// shellWord says that a word is the shell's own, or begins what it has to parse.
func shellWord(w string) bool {
	switch w {
	case "test", "[", "[[", "!", "cd", "if", "for", "while", "until", "case", "select", "set", "unset", "true", "false", "exit", "return", ":", ".", "source", "export", "eval", "exec",
		"read", "echo", "printf", "command", "builtin", "type", "hash", "trap", "ulimit", "umask", "shift", "shopt", "let", "local", "declare", "typeset", "readonly", "alias", "wait", "jobs", "kill", "pwd", "time", "function", "mapfile", "getopts", "pushd", "popd":
		return true
	}
	return strings.ContainsAny(w, "=$(){}'\"")
}

func firstWord(command string) string {
	word := strings.TrimSpace(command)
	if i := strings.IndexFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(";&|<>", r) }); i >= 0 {
		return word[:i]
	}
	return word
}

// namedPaths are the paths in a text.
func namedPaths(text string) []string {
	return pathPattern().FindAllString(text, maxPaths)
}

// pathPattern finds what looks like a path, networkPattern what comes from
// elsewhere.
var pathPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\w./-]+/[\w./-]*\w|\b[\w-]+\.(?:go|py|js|ts|tsx|rs|java|rb|c|h|cc|cpp|cs|php|sh|md|json|ya?ml|toml|txt|html|css|sql)\b`)
})

var networkPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(npm install|pip install|apt(-get)? install|go get|cargo add|curl|wget|download)\b|https?://`)
})

// needsNetwork says that a task speaks of what comes from elsewhere.
func needsNetwork(t plan.Task) bool {
	return networkPattern().MatchString(t.Description + "\n" + t.Check)
}

// workPrompt is what the agent of an order is told.
func (c *Coordinator) workPrompt(o loop.Order) (string, error) {
	progress, learned, err := work.Surroundings(c.opt.FS, c.opt.Root)
	if err != nil {
		c.warn("state: " + err.Error())
	}
	f := work.Of(o.Whole, o.Task)
	f.Iteration, f.Attempt, f.LastProblem, f.Checks, f.Guidance = o.Iteration, o.Attempt, o.Feedback, c.commandsOf(o), o.Guidance
	f.Progress, f.Learned = c.redactor.String(progress), c.redactor.String(learned)
	f.External, f.OwnTree = !builtin(o.Agent), c.loc != nil
	f.Dependencies = nil
	for _, n := range o.Needs {
		f.Dependencies = append(f.Dependencies, work.Dependency{ID: n.ID, Title: n.Title, Result: n.Result})
	}
	return work.Render(f, c.workTemplate())
}

// workTemplate is the file of the user's own template, "" for Ralph's.
func (c *Coordinator) workTemplate() string {
	custom := c.cfg.Run.Prompt
	if custom != "" && !filepath.IsAbs(custom) {
		custom = filepath.Join(c.opt.Root, custom)
	}
	return custom
}
