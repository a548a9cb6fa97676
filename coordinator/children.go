package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/plan"
	"ralph/coordinator/prompt"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/git"
	"ralph/workers/tools"
)

// spawnedPerTurn bounds how many agents are spawned in one turn, in multiples of
// those that may be at work at once.
const spawnedPerTurn = 10

// newCrew makes the crew of the coordinator, in which nobody works yet.
func (c *Coordinator) newCrew() *crew.Crew {
	o := crew.Options{
		Pool: c.pool, Root: c.opt.Root, FS: c.opt.FS, Now: c.now, Top: c.name,
		Dir: c.book.agentsDir, Key: c.book.key, Quarantine: func() string { return filepath.Join(c.stateDir(), "quarantine") },
		Equip: c.equip, Prove: c.proveWork, Inspect: c.inspect, Retries: c.cfg.CheckRetries, MaxSpawned: spawnedPerTurn * c.cfg.MaxAgents,
		Roomy:   c.roomy,
		Landing: func(ctx context.Context) { c.changes.begin(context.WithoutCancel(ctx)) },
		Budget:  c.purse, Emit: c.errands.named(c.events.emit), Warn: c.warn, Behind: c.behind, Over: c.unheard, Redact: c.redactor.Bytes,
	}
	if o.Trees = c.trees; c.loc != nil {
		o.Repository = c.loc.Root
	}
	return crew.New(o)
}

// purse is the budget of the work that goes on.
func (c *Coordinator) purse() *workers.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.budget == nil {
		c.budget = workers.NewBudget(workers.Limit{Turns: c.cfg.MaxTurns, Tokens: c.cfg.MaxTokens, CostUSD: c.cfg.MaxCostUSD})
	}
	return c.budget
}

// fund sets what the run of a plan may use, of which some is spent. Without
// --max-turns it has any number of turns, and each attempt its own.
func (c *Coordinator) fund(l workers.Limit, spent agent.Spent) {
	b := workers.NewBudget(l)
	b.Spend(spent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = b
}

// priced returns a *agent.LimitError for a cost limit that cannot be kept, because
// neither the endpoint nor the user's price list says what the model costs.
func (c *Coordinator) priced(limit float64) error {
	ep := c.Endpoint()
	if _, ok := c.cfg.Price(ep.Model); limit <= 0 || ok || ep.Provider == "openrouter" {
		return nil
	}
	return &agent.LimitError{What: "cost", Max: fmt.Sprintf("$%.2f", limit), Flag: "--max-cost", Unknown: true}
}

// equip makes what a child works with: the coordinator's tools, in its own tree.
func (c *Coordinator) equip(ctx context.Context, a crew.Agent) (*crew.Gear, error) {
	e := c.errands.find(a.Errand)
	foreign := e.foreigner(a.ID)
	client := c.answers()
	if client == nil && foreign == "" {
		return nil, errNoModel
	}
	root, linked := c.crew.Place(a.ID)
	output := ""
	if a.Transcript != "" { // which may be in the session in which it began
		output = filepath.Join(filepath.Dir(a.Transcript), "outputs")
		linked = append(linked, output)
	}
	st, err := c.openStation(a.ID, root, linked...)
	if err != nil {
		return nil, fmt.Errorf("open the tree of agent %s: %w", a.ID, err)
	}
	st.output = output
	if foreign != "" {
		return c.equipForeign(a, e, st, foreign)
	}
	job := Job{}
	c.mu.Lock()
	if c.piece != nil {
		job.DryRun = c.piece.job.DryRun
	}
	facts := c.facts
	c.mu.Unlock()
	facts.Root, facts.Chat, facts.Plan, facts.Schema = st.root, false, false, ""
	facts.Commands = c.commandsFact()
	system, err := prompt.System(facts)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	check, files := c.crew.Asked(a.ID)
	task, err := prompt.Assign(prompt.Assignment{ID: a.ID, Parent: a.Parent, Task: a.Task, Check: check, Hints: files, OwnTree: c.loc != nil, Helpers: c.mayHelp(a.Depth), Planned: e != nil && e.works(a.ID)})
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	view := &window{Model: client, estimate: c.estimate.For(c.Endpoint().Model), maxTokens: c.cfg.ContextWindow, task: a.Task, job: job}
	loop := &agent.Loop{
		Agent: a.ID, Model: view, Tools: c.cassette.wrap(c.toolbox(job, st, a.Depth), a.ID), Emit: c.ofChild(a.ID, e.watch(view.tell(c.events.emit))),
		Permit: func(ctx context.Context, t agent.Tool, call agent.Call) agent.Verdict {
			v := c.approver.Permit(ctx, st.requester(), t, call)
			if v.Denied == "" && t.Effect == agent.EffectChange && c.loc == nil {
				c.changes.begin(ctx)
			}
			return v
		},
		Record:    func(m agent.Message) error { c.mail.recorded(strings.Fields(m.Inbox)...); return nil },
		Inbox:     func() []agent.Message { return c.childInbox(ctx, a.ID, interrupts.ClassSteer) },
		Hold:      c.holdChild,
		Step:      func(ctx context.Context) (context.Context, func()) { return c.mail.queue.Step(ctx, a.ID) },
		Preempted: func(cause error) bool { _, ok := interrupts.AsPreempt(cause); return ok },
		Resumed:   func() string { return resumedNote },
		Note:      noteOf, Late: c.late, Compact: view.compact, Overflow: overflow, Halt: c.cassette.halted,
		Price: c.price, MaxOutputTokens: c.cfg.MaxOutputTokens,
	}
	last := func() []agent.Message { return c.childInbox(ctx, a.ID, interrupts.ClassLater) }
	return &crew.Gear{Loop: loop, System: c.redactor.String(system), Task: task, Last: last, Drive: e.drive(a.ID), Close: func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, restTime)
		defer cancel()
		client.Forget(a.ID)
		if err := errors.Join(loop.Wait(ctx), st.close()); err != nil {
			c.warn(fmt.Sprintf("close the tree of agent %s: %v", a.ID, err))
		}
	}}, nil
}

// ofChild names the agent in the events of its loop.
func (c *Coordinator) ofChild(id string, emit func(agent.Event)) func(agent.Event) {
	return func(e agent.Event) {
		e.Agent = id
		emit(e)
	}
}

// mayHelp says whether an agent of a depth may have agents of its own.
func (c *Coordinator) mayHelp(depth int) bool { return c.cfg.MaxDepth == 0 || depth < c.cfg.MaxDepth }

// proveWork runs the check that a child's work has to pass, in its tree: its own, or
// that of the whole work. What passes is taken if the child is sure of it. tree is
// what was proven, "" for nothing.
func (c *Coordinator) proveWork(ctx context.Context, a crew.Agent, end agent.End) (failed, tree string, err error) {
	if failed, tree, err = c.checkWork(ctx, a, end); failed != "" || err != nil {
		return failed, tree, err
	}
	return "", tree, c.sure(ctx, a.ID, end.Finish)
}

func (c *Coordinator) checkWork(ctx context.Context, a crew.Agent, end agent.End) (failed, tree string, err error) {
	if a.Errand != "" {
		e := c.errands.find(a.Errand)
		if e == nil {
			return "", "", errNoErrand
		}
		return c.proveErrand(ctx, e, a, end)
	}
	command, _ := c.crew.Asked(a.ID)
	own := command != ""
	if !own { // that of the whole may need the work of others
		command, err = c.ownCheck(ctx)
	}
	if err != nil || command == "" && !c.detects() {
		return "", "", err
	}
	st, err := c.openProof(ctx, a, command)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if command == "" {
		return c.proveDetected(ctx, st)
	}
	if own { // an agent chose it
		v := c.approver.PermitCommand(ctx, st.requester(), command)
		if ctx.Err() != nil {
			return "", "", context.Cause(ctx)
		}
		if v.Denied != "" {
			return fmt.Sprintf("the check %q was not run: %s", command, v.Text), "", nil
		}
	}
	res, err := c.prove(ctx, st, plan.Check{Command: command}, c.events.emit)
	if err != nil || !res.failed() {
		return "", st.proven(), err
	}
	failed, err = c.failedCheck(command, res)
	return failed, "", err
}

// proveDetected runs the project's own tests on the work of a child.
func (c *Coordinator) proveDetected(ctx context.Context, st *station) (failed, tree string, err error) {
	checks, before, err := c.detectedFor(ctx, st)
	if err != nil {
		return "", "", err
	}
	for _, check := range checks {
		res, why, err := c.checkFor(ctx, st, check, before, c.events.emit)
		if err != nil {
			return "", "", err
		}
		if why != "" {
			continue
		}
		if tree = st.proven(); res.failed() {
			failed, err = c.failedCheck(check.Command, res)
			return failed, "", err
		}
	}
	return "", tree, nil
}

// childInbox delivers what the human said to a child, up to a class.
func (c *Coordinator) childInbox(ctx context.Context, id string, upto interrupts.Class) []agent.Message {
	held := c.mail.ready(ctx)
	got := c.mail.queue.Take(func(m interrupts.Message) bool {
		return m.To == id && c.here(m) && (m.Kept || held) && m.Class <= upto && m.Class != interrupts.ClassAsk && m.Class != interrupts.ClassStop
	})
	m, delivered, ok := c.settleAll(got)
	c.mu.Lock()
	c.heard = append(c.heard, delivered...)
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return []agent.Message{m}
}

// unheard gives back what was said to a child that has ended without hearing it.
func (c *Coordinator) unheard(id string) {
	for _, m := range c.mail.queue.Take(func(m interrupts.Message) bool {
		return m.To == id && m.Class != interrupts.ClassStop && m.Class != interrupts.ClassAsk
	}) {
		if c.mail.queue.Settle(m.ID(), interrupts.Returned) == nil {
			c.warn(fmt.Sprintf("agent %s ended before it heard %s, which is given back: %s", id, m.ID(), text.ClipRunes(firstLine(m.Text), maxQuote)))
		}
	}
}

// hands are what the tools of an agent do with the crew.
type hands struct {
	c   *Coordinator
	who string
}

var _ tools.Crew = hands{}

// Spawn asks for children.
func (h hands) Spawn(ctx context.Context, list []tools.SpawnAgent) (string, error) {
	ids, err := h.c.crew.Spawn(ctx, h.who, list)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s asked for: %s. You are told when they have ended; end your turn to wait for them.", text.Count(len(ids), "agent"), strings.Join(ids, ", ")), nil
}

// Status tells how they stand.
func (h hands) Status(ctx context.Context, id string, wait time.Duration) (text string, alive bool, err error) {
	err = h.c.pool.Aside(ctx, h.who, func(ctx context.Context) (err error) { // it may wait for one that needs its place
		text, alive, err = h.c.crew.Status(ctx, id, wait)
		return err
	})
	return text, alive, err
}

// Message tells one something.
func (h hands) Message(_ context.Context, id, text string) (string, error) {
	if err := h.c.crew.Tell(h.who, id, text); err != nil {
		return "", err
	}
	return id + " reads it before its next request", nil
}

// Stop ends one.
func (h hands) Stop(_ context.Context, id, reason string) (string, error) {
	if err := h.c.crew.Owns(h.who, id); err != nil {
		return "", fmt.Errorf("stop: %w", err)
	}
	text := "stopped by " + h.who
	if reason != "" {
		text += ": " + reason
	}
	if err := h.c.crew.Stop(id, errors.New(text)); err != nil {
		return "", err
	}
	return id + " is told to stop; what it did is kept", nil
}

// Merge merges the work of one.
func (h hands) Merge(ctx context.Context, id string) (string, error) {
	if err := h.c.crew.Owns(h.who, id); err != nil {
		return "", fmt.Errorf("merge: %w", err)
	}
	if a, ok := h.c.crew.Find(id); ok && len(a.Weakened) > 0 {
		return "", fmt.Errorf("merge: what %s changed makes its checks prove less, and only the user merges that: %s", id, strings.Join(a.Weakened, "; "))
	}
	return h.c.crew.Merge(ctx, id)
}

// Agents lists all children that are known: of this session, and what earlier
// ones left behind in trees and branches.
func (c *Coordinator) Agents(ctx context.Context) ([]crew.Agent, error) {
	err := c.crew.Adopt(ctx, c.agentDirs())
	return c.crew.List(), err
}

// Merge merges the work of an agent that has ended, or puts into the user's tree
// what was held back; it waits for work that is under way.
func (c *Coordinator) Merge(ctx context.Context, id string) (string, error) {
	if err := c.take(ctx); err != nil {
		return "", fmt.Errorf("merge %s: %w", id, err)
	}
	defer c.free()
	if err := errors.Join(c.settled(ctx), c.crew.Adopt(ctx, c.agentDirs())); err != nil {
		return "", fmt.Errorf("merge %s: %w", id, err)
	}
	text, err := c.crew.Merge(ctx, id)
	files, commits := c.changes.end(ctx)
	c.mu.Lock()
	c.totals.FilesChanged, c.totals.Commits = mergeChanges(c.totals.FilesChanged, files), append(c.totals.Commits, commits...)
	c.mu.Unlock()
	return text, err
}

// AgentDiff is what an agent changed, as a unified diff: while it has a tree, since
// it began.
func (c *Coordinator) AgentDiff(ctx context.Context, id string) (string, error) {
	if err := c.crew.Adopt(ctx, c.agentDirs()); err != nil {
		return "", fmt.Errorf("diff of %s: %w", id, err)
	}
	a, ok := c.crew.Find(id)
	switch {
	case !ok:
		return "", &result.Error{Op: "diff", Path: id, Err: crew.ErrNoAgent, Status: result.Usage, Hint: "/agents shows who there is"}
	case a.Worktree == "" && a.Commit != "" && c.repo != nil:
		return c.repo.Diff(ctx, git.DiffOptions{From: a.Commit + "^", To: a.Commit})
	case c.trees == nil || a.Worktree == "":
		return "", &result.Error{Op: "diff", Path: id, Err: errors.New("it has no tree of its own"), Status: result.Usage, Hint: "/diff shows what the last turn changed"}
	}
	return c.trees.Diff(ctx, id)
}

// Prune removes the trees and branches of agents that are not at work, with what
// they hold, and forgets the agents; it says what it removed.
func (c *Coordinator) Prune(ctx context.Context, ids []string) ([]string, error) {
	if err := errors.Join(c.settled(ctx), c.crew.Adopt(ctx, c.agentDirs())); err != nil {
		return nil, fmt.Errorf("prune agents: %w", err)
	}
	return c.crew.Prune(ctx, ids)
}

// agentDirs are where transcripts of agents may be, the newest first.
func (c *Coordinator) agentDirs() []string {
	var dirs []string
	for _, room := range []string{"sessions", "runs"} {
		found, err := filepath.Glob(filepath.Join(c.stateDir(), room, "*", "agents"))
		if err != nil {
			continue // the pattern is good
		}
		slices.Reverse(found)
		dirs = append(dirs, found...)
	}
	return dirs
}

// agents are those at work, the coordinator first, then its children as a tree
// with those that have ended, then who waits for a turn.
func (c *Coordinator) agents() []crew.Agent {
	var list []crew.Agent
	children := []crew.Agent{}
	if c.crew != nil {
		children = c.crew.List()
	}
	for _, s := range append(c.pool.List(), c.guestsInLine()...) {
		if slices.ContainsFunc(children, func(a crew.Agent) bool { return a.ID == s.ID }) {
			continue
		}
		a := crew.Agent{ID: s.ID, Parent: s.Parent, Label: s.Label, State: crew.State(s.State), Since: s.Since, Beat: s.Beat, Doing: s.Doing, Stalled: s.Stalled, Depth: s.Depth}
		if s.ID == c.name {
			_, a.Turns = c.eyes.now()
			list = append([]crew.Agent{a}, list...)
			continue
		}
		list = append(list, a)
	}
	at := 0
	if len(list) > 0 && list[0].ID == c.name {
		at = 1
	}
	paused := c.pausing.state() == livePaused
	for i := range children {
		if children[i].Since = children[i].Since.UTC(); paused && children[i].State == crew.Running {
			children[i].State = crew.Paused
		}
	}
	return slices.Insert(list, at, children...)
}

// atWork names the agents that are at work, with what they do.
func (c *Coordinator) atWork() []string {
	var list []string
	if c.crew == nil {
		return nil
	}
	for _, a := range c.crew.List() {
		if !a.AtWork() {
			continue
		}
		content := fmt.Sprintf("agent %s: %s (%s, %s", a.ID, a.Label, a.State, text.Count(a.Turns, "request"))
		if a.Doing != "" {
			content += ", last: " + a.Doing
		}
		list = append(list, content+")")
	}
	return list
}

func noteOf(text string) agent.Message {
	return agent.Message{Role: agent.RoleUser, Text: transcript.NoteTitle + "\n" + text}
}

// stalled warns of an agent that gave no sign of life for long.
func (c *Coordinator) stalled(s workers.Status) {
	if s.ID == c.name {
		return // the human sees what it waits for
	}
	c.warn(fmt.Sprintf("agent %s has given no sign of life since %s; last: %s (/stop %s ends it)", s.ID, s.Beat.Local().Format(time.TimeOnly), s.Doing, s.ID))
}

// takeUp ends the merge that a killed Ralph has begun, and takes up the agents of
// the session that goes on.
func (c *Coordinator) takeUp(ctx context.Context) {
	if c.opt.NoModel || c.host != nil {
		return
	}
	if c.trees != nil {
		if err := c.trees.Finish(ctx); err != nil {
			c.warn("a merge that was cut off is not finished: " + hinted(err))
		}
	}
	if c.SessionID() == "" {
		return
	}
	cut, err := c.crew.Load(c.book.agentsDir())
	if err != nil {
		c.warn("agents of this session are not known: " + err.Error())
	}
	if len(cut) > 0 {
		if err := c.crew.Adopt(ctx, c.agentDirs()); err != nil {
			c.warn("the trees of agents: " + hinted(err))
		}
		if c.opt.Holder != "run" { // a run goes on with them by itself
			c.warn(fmt.Sprintf("%s at work when Ralph was cut off: %s; /agents shows them, /resume NAME goes on with one", text.Count(len(cut), "agent"), text.List(cut, maxNamed)))
		}
	}
}

// setMode is the model's own way to stop working and only talk.
func (c *Coordinator) setMode(_ context.Context, mode string) (string, error) {
	if mode != modeConversation {
		return "You are in autonomous mode: you have your tools.", nil
	}
	c.mu.Lock()
	p := c.piece
	c.mu.Unlock()
	about := ""
	if p != nil {
		about = p.about
	}
	c.converse(interruption{At: c.now().UTC(), Task: about, Report: "Nothing was running.", By: "Ralph itself"})
	c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: modeConversation, Text: "Ralph only talks until /go"})
	return "Conversation mode begins with the user's next message: you will have no tools until they say go. End your turn now, in words.", nil
}
