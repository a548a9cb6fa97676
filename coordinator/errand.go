package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/policy"
	"ralph/coordinator/policy/tamper"
	"ralph/coordinator/prompt/work"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/memory/session/iteration"
	"ralph/workers/agent"
	"ralph/workers/external"
	"ralph/workers/git/trees"
)

// errands are the attempts at tasks of a plan that agents work on now. It is safe
// for concurrent use.
type errands struct {
	mu   sync.Mutex
	open map[string]*errand // by the name that their agents carry
	last map[string]string  // who worked on a task last, by the task
	// proofs are the checks that ran last for each task, the newest at the end.
	proofs []proof
	plan   string // the plan's file, relative to the root
}

// errand is one attempt at a task.
type errand struct {
	name  string
	order loop.Order
	page  *iteration.Writer // nil without a session

	mu      sync.Mutex // guards what follows
	agent   string
	checks  []loop.CheckRun
	finish  *agent.Finish
	kept    bool // its agent had declared and proven it before Ralph was cut off
	urged   bool // it was told that it has to declare its end
	calls   int
	args    map[string]string // of the calls that run
	final   string
	context int64            // tokens of the largest request
	foreign *external.Result // of the program that worked on it
}

// proof keeps the check that ran last for a task.
type proof struct {
	task string
	run  loop.CheckRun
}

// noteProof keeps the last check of an attempt.
func (s *errands) noteProof(task string, checks []loop.CheckRun) {
	if len(checks) == 0 {
		return
	}
	run := checks[len(checks)-1]
	run.Output = "" // the iteration's file has it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proofs = append(slices.DeleteFunc(s.proofs, func(p proof) bool { return p.task == task }), proof{task, run})
}

// result is the check that says most of a run: the newest that failed, else the newest;
// nil for none.
func (s *errands) result() *result.Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.proofs) == 0 {
		return nil
	}
	run := s.proofs[len(s.proofs)-1].run
	for _, p := range slices.Backward(s.proofs) {
		if p.run.Failed() {
			run = p.run
			break
		}
	}
	return &result.Check{Command: run.Command, ExitCode: run.ExitCode, Source: run.Source, BaselineExitCode: run.Baseline, Tree: run.Where, LeftOut: run.LeftOut}
}

func newErrands() *errands { return &errands{open: map[string]*errand{}, last: map[string]string{}} }

// begin opens an errand.
func (s *errands) begin(o loop.Order, page *iteration.Writer) *errand {
	e := &errand{name: fmt.Sprintf("%s/%d", o.Task.ID, o.Iteration), order: o, page: page, args: map[string]string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[e.name] = e
	return e
}

func (s *errands) end(e *errand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, e.name)
}

// find is the errand of a name, nil for none.
func (s *errands) find(name string) *errand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name]
}

// named has emit see the task of the plan on what is told of the agent that works
// on it, in place of the errand, and nothing on one that resolves a conflict of its.
func (s *errands) named(emit func(agent.Event)) func(agent.Event) {
	return func(e agent.Event) {
		if e.TaskID != "" {
			if open := s.find(e.TaskID); open != nil && !open.works(e.Agent) {
				e.TaskID = ""
			}
			e.TaskID = e.TaskID[:max(0, strings.LastIndexByte(e.TaskID, '/'))] // of TASK/ITERATION
		}
		emit(e)
	}
}

// worker is who worked on a task last; set, when it is not empty, is who does now.
func (s *errands) worker(task, set string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last[task]
	if set != "" {
		s.last[task] = set
	}
	return before
}

// taskOf is the task of the plan that an agent works on now, "" for none.
func (s *errands) taskOf(id string) string {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	for _, e := range open {
		if e.holds(id) {
			return e.order.Task.ID
		}
	}
	return ""
}

// holds says that an agent is the one that works on it.
func (e *errand) holds(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return id != "" && e.agent == id
}

// planned notes which file is the plan's.
func (s *errands) planned(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = path
}

// owns says that a path is the plan's, which no agent changes.
func (s *errands) owns(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan != "" && (path == s.plan || strings.HasPrefix(path, strings.TrimSuffix(s.plan, "/")+"/"))
}

// worksPlan reports whether a run works the plan in a file now.
func (c *Coordinator) worksPlan(path string) bool {
	c.mu.Lock()
	runs := c.piece != nil && c.piece.job.Loop != nil
	c.mu.Unlock()
	return runs && c.errands.owns(path)
}

// works says that an agent is the one that works on it, and not one that resolves
// a conflict of its.
func (e *errand) works(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agent == "" || e.agent == id
}

// is notes who works on it.
func (e *errand) is(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.agent = id
}

// foreigner is the name of the program that works on it, "" when that is Ralph
// itself, or there is no errand.
func (e *errand) foreigner(id string) string {
	if e == nil || builtin(e.order.Agent) || !e.works(id) {
		return ""
	}
	return e.order.Agent
}

// watch also shows the errand what an agent's loop tells.
func (e *errand) watch(emit func(agent.Event)) func(agent.Event) {
	if e == nil {
		return emit
	}
	return func(ev agent.Event) {
		e.saw(ev)
		emit(ev)
	}
}

// drive runs an agent's loop and keeps what it declares, also when that is not
// that it is done; nil without an errand.
func (e *errand) drive(id string) func(context.Context, *agent.Loop, []agent.Message) agent.End {
	if e == nil {
		return nil
	}
	return func(ctx context.Context, l *agent.Loop, talk []agent.Message) agent.End {
		end := l.Run(ctx, talk)
		e.ended(id, end)
		return end
	}
}

// ended keeps what an agent declares; what one says that resolves a conflict of
// the work is no matter.
func (e *errand) ended(id string, end agent.End) {
	if !e.works(id) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finish, e.final = end.Finish, end.Final.Text
}

// saw writes what an agent does into the iteration's file.
func (e *errand) saw(ev agent.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch ev.Type {
	case agent.EventUsage:
		if ev.Usage != nil {
			e.context = max(e.context, int64(ev.Usage.Input))
		}
	case agent.EventToolStart:
		e.args[ev.CallID] = string(ev.Args)
	case agent.EventToolEnd:
		e.calls++
		args := e.args[ev.CallID]
		delete(e.args, ev.CallID)
		if e.page != nil {
			e.page.Tool(ev.Tool, args, ev.OK == nil || *ev.OK)
		}
	}
}

// errUndeclared is why work is not taken that nobody said was complete.
var errUndeclared = errors.New("it ended without declaring that the task is complete")

// errNoErrand ends an agent whose task is none of a run that goes on.
var errNoErrand = errors.New("the task of a plan that it worked on is not being run any more")

// urge is what an agent is told that ended its work without declaring that.
const urge = transcript.NoteTitle + "\nYou ended without calling finish, so the task does not count as complete. Call finish: with done, if all of it is done and you have seen it work; otherwise with partial, failed or needs_input, and say why."

// proveErrand says whether the work of a task of the plan is complete by evidence:
// its agent declared it, and every check passes in its tree.
func (c *Coordinator) proveErrand(ctx context.Context, e *errand, a crew.Agent, end agent.End) (failed, tree string, err error) {
	e.ended(a.ID, end)
	silent := e.works(a.ID) && end.Finish == nil
	e.mu.Lock()
	urged, foreign := e.urged, e.foreign
	e.urged = e.urged || silent
	e.mu.Unlock()
	switch {
	case silent && foreign != nil && foreign.Uncounted != "":
		return "", "", fmt.Errorf("%w: its %s does not count: %s", errUndeclared, work.Promise, foreign.Uncounted)
	case silent && (urged || foreign != nil):
		return "", "", errUndeclared
	case silent:
		return urge, "", nil
	}
	checks := e.order.Checks
	if len(checks) == 0 && !c.detects() {
		return "", "", nil
	}
	st, err := c.openProof(ctx, a, strings.Join(plan.Commands(checks), "; "))
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	var before state
	if len(checks) == 0 {
		if checks, before, err = c.detectedFor(ctx, st); err != nil || len(checks) == 0 {
			return "", "", err
		}
	}
	ran := false
	for _, check := range checks {
		command := check.Command
		res, why, err := c.checkFor(ctx, st, check, before, c.events.emit)
		switch {
		case err != nil:
			return "", "", err
		case why != "" && check.Detected:
			continue
		case why != "":
			return fmt.Sprintf("the check %q was not run: %s", command, why), "", nil
		}
		ran = true
		e.checked(c.checkRun(check, res))
		if res.failed() {
			failed, err = c.failedCheck(command, res)
			return failed, "", err
		}
	}
	if !ran {
		return "", "", nil
	}
	return "", st.proven(), nil
}

// checkFor runs a check that a plan asks for, or the detected one, for which before gives
// the state before the work. why is not "" when the check was not allowed to run.
func (c *Coordinator) checkFor(ctx context.Context, st *station, check plan.Check, before state, emit func(agent.Event)) (res checked, why string, err error) {
	command := check.Command
	if !slices.Contains(c.agreedChecks(), command) {
		d := c.approver.DecideCommand(command)
		switch {
		case d.Effect == policy.Deny:
			why = d.Rule
		case !c.confined().Complete && c.cfg.Sandbox != string(policy.SandboxOff):
			if why, err = c.approver.PermitCheck(ctx, command, c.checkPlace()); err != nil {
				return res, "", err
			}
		}
		if why != "" {
			if check.Detected {
				c.warn(fmt.Sprintf("the check %q was not run: %s", command, why))
			}
			return res, why, nil
		}
	}
	if res, err = c.prove(ctx, st, check, emit); err != nil {
		return res, "", err
	}
	return res, "", c.excuse(ctx, st, check, &res, before)
}

// checked keeps what a check said last.
func (e *errand) checked(run loop.CheckRun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checks = append(slices.DeleteFunc(e.checks, func(x loop.CheckRun) bool { return x.Command == run.Command }), run)
	if e.page != nil {
		e.page.Check(iteration.Check{Command: run.Command, Output: run.Output, ExitCode: run.ExitCode, TimedOut: run.TimedOut, Took: run.Took})
	}
}

// passed are the checks that passed.
func (e *errand) passed() []loop.CheckRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.checks), func(x loop.CheckRun) bool { return !x.Passed() })
}

func (c *Coordinator) checkRun(check plan.Check, res checked) loop.CheckRun {
	out := string(res.Stdout.Head)
	if res.Stdout.Truncated() {
		out += "\n[…]\n"
	}
	return loop.CheckRun{Command: check.Command, Output: out + string(res.Stdout.Tail), ExitCode: res.ExitCode, TimedOut: res.TimedOut, Took: res.Duration, Where: res.Where, LeftOut: res.LeftOut,
		Source: c.checkSource(check), Baseline: res.Baseline, Excused: res.Excused}
}

// inspect names what in the changes of an agent makes a check or a test prove
// less, or changes the plan.
func (c *Coordinator) inspect(ctx context.Context, a crew.Agent) ([]string, error) {
	if c.trees == nil {
		return nil, nil // in the one tree of all, nobody knows whose change it is
	}
	edits, err := c.trees.Edits(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	var list []string
	files := make([]tamper.File, 0, len(edits))
	for _, e := range edits {
		if c.errands.owns(e.Path) {
			list = append(list, e.Path+": this is the plan, which only Ralph and the user change")
			continue
		}
		if c.leaks(e) {
			list = append(list, e.Path+": it holds a secret of the user's environment, which is not committed")
		}
		if e.Big { // what checks the work is not hidden by its length
			e.Before, e.After = append([]byte{}, e.Before...), []byte{0}
		}
		files = append(files, tamper.File{Path: e.Path, Before: e.Before, After: e.After})
	}
	for _, f := range tamper.Inspect(files, c.checksOf(a)) {
		switch {
		case f.Blocks && !(f.Expectation && c.asksFor(a, f.Path)):
			list = append(list, findingText(f))
		default:
			c.warn(fmt.Sprintf("agent %s changed what checks its work: %s", a.ID, findingText(f)))
		}
	}
	return list, nil
}

// leastSecret is the length from which a secret is looked for in what is merged: a
// shorter one may be any word.
const leastSecret = 12

// leaks says that a change brings a known secret into a file.
func (c *Coordinator) leaks(e trees.Edit) bool {
	return slices.ContainsFunc(c.cfg.Secrets(), func(s string) bool {
		return len(s) >= leastSecret && bytes.Contains(e.After, []byte(s)) && !bytes.Contains(e.Before, []byte(s))
	})
}

// asksFor says that the task of an agent, as the plan has it, names a file.
func (c *Coordinator) asksFor(a crew.Agent, path string) bool {
	e := c.errands.find(a.Errand)
	if a.Errand == "" || e == nil {
		return false
	}
	t := e.order.Task
	text := strings.Join(append([]string{t.Title, t.Description, t.Prompt}, t.Outputs...), "\n")
	return strings.Contains(text, path) || strings.Contains(text, filepath.Base(path))
}

func findingText(f tamper.Finding) string {
	at := f.Path
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s (%s)", at, f.What, f.Why))
}

// checksOf are the commands that the work of an agent has to pass.
func (c *Coordinator) checksOf(a crew.Agent) []string {
	if e := c.errands.find(a.Errand); a.Errand != "" && e != nil {
		return c.commandsOf(e.order)
	}
	var list []string
	if own, _ := c.crew.Asked(a.ID); own != "" {
		list = append(list, own)
	}
	return append(list, c.agreedChecks()...)
}

// builtin are the names of the agent that Ralph itself is.
func builtin(name string) bool { return name == "" || name == agentName || name == "builtin" }
