package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ralph/coordinator/plan/beads"
)

// beadsTracker keeps the plan in the database of bd. It is safe for concurrent
// use.
//
// What is ready and what comes first is computed from one export; bd's own ready
// list has epics and work that is being done in it, and bv picks blocked issues.
// With second, bv is asked after each change, and what it would do otherwise is
// told among the plan's warnings. It never decides.
type beadsTracker struct {
	o      Options
	name   string
	client *beads.Client
	second *beads.Viewer // nil: bv is not asked

	mu    sync.Mutex // guards all below; never held while a program runs
	told  bool       // that bv is not there
	asked string     // the stamp that opinion is about
	said  []Problem  // what came of asking then
}

// openBeads opens the trackers "beads" and "beads-bv". No program is started.
func openBeads(o Options, name string) (Tracker, error) {
	if o.Proc == nil {
		return nil, &Problems{Op: "open plan", Path: ".beads", Err: errors.New("bd cannot be started here"), Hint: "this command starts no programs; use another tracker: --tracker json|markdown|yaml"}
	}
	path := o.Path
	if path == beadsDir {
		path = "" // the usual place, which must not lead out of the project
	}
	c, err := beads.Open(beads.Options{Root: o.Root, Path: path, Proc: o.Proc, Environ: o.Environ, Warn: o.Warn})
	if err != nil {
		return nil, beadsError("open plan", ".beads", err)
	}
	t := &beadsTracker{o: o, name: name, client: c}
	if name == "beads-bv" {
		t.second = &beads.Viewer{Proc: o.Proc, Environ: o.Environ}
	}
	return t, nil
}

// Name implements Tracker.
func (t *beadsTracker) Name() string { return t.name }

// Stamp implements Tracker.
func (t *beadsTracker) Stamp(ctx context.Context) (string, error) {
	stamp, err := t.client.Stamp(ctx)
	if err != nil {
		return "", beadsError("open plan", t.path(), err)
	}
	return stamp, nil
}

// Load implements Tracker.
func (t *beadsTracker) Load(ctx context.Context) (*Plan, error) {
	s, err := t.client.Snapshot(ctx)
	if err != nil {
		return nil, beadsError("open plan", t.path(), err)
	}
	p, err := t.plan(s)
	if err != nil {
		return nil, err
	}
	if t.second != nil {
		p.Warnings = append(p.Warnings, t.opinion(ctx, p, s)...)
	}
	return p, nil
}

// path is the directory of the data as messages name it.
func (t *beadsTracker) path() string { return t.o.place(t.client.Dir()).rel }

func (t *beadsTracker) plan(s *beads.Snapshot) (*Plan, error) {
	file := t.path()
	if s.Source != "" {
		file = t.o.place(s.Source).rel
	}
	r := &reader{file: file, noun: "issue"}
	p := &Plan{Tracker: t.name, Path: t.path(), Stamp: s.Stamp}
	waits := s.Waits()
	work := 0
	for _, i := range s.Issues {
		task := beadsTask(i, waits[i.ID])
		if s.Source != "" {
			task.File = file
		}
		if task.Kind != "epic" {
			work++
		}
		if strings.TrimSpace(i.Title) == "" {
			r.fault(i.Line, 0, i.ID, "issue %s has no title", clip(i.ID))
		}
		if up := i.Parent(); up != "" && slices.Contains(waits[i.ID].Unknown, up) {
			r.fault(i.Line, 0, i.ID, "issue %s: its parent %q does not exist", clip(i.ID), clip(up))
		}
		if why := waits[i.ID].Never; why != "" && !i.Closed() {
			r.warn(i.Line, i.ID, "issue %s %s; Ralph leaves it alone", clip(i.ID), why)
		}
		p.Tasks = append(p.Tasks, task)
	}
	r.check(p, func(int, string) int { return 0 })
	if len(r.problems) > 0 {
		return nil, &Problems{Op: "open plan", Path: p.Path, List: inOrder(r.problems), Hint: "mend it with bd (bd dep remove A B, bd update ID …), then: ralph plan check"}
	}
	if work == 0 {
		return nil, &Problems{Op: "open plan", Path: p.Path, Err: ErrEmpty, Hint: "an empty plan is not taken as done; add issues with bd create, or name another plan with --plan"}
	}
	t.epicsInTheWay(r, p)
	p.Warnings = r.warnings
	return p, nil
}

// epicsInTheWay warns of work that waits for an epic: bd wants the epic closed,
// and Ralph works on no epics.
func (t *beadsTracker) epicsInTheWay(r *reader, p *Plan) {
	for i := range p.Tasks {
		task := &p.Tasks[i]
		if !task.Status.Open() {
			continue
		}
		for _, on := range task.After {
			if e, ok := p.Find(on); ok && e.Kind == "epic" && e.Status.Open() {
				r.warn(task.Line, task.ID, "issue %s waits for the epic %s, which somebody has to close (bd close %s)", clip(task.ID), clip(on), clip(on))
			}
		}
	}
}

// beadsTask makes a task of an issue.
func beadsTask(i beads.Issue, w beads.Wait) Task {
	t := Task{
		ID: i.ID, Title: i.Title, Description: i.Description, Status: beadsStatus(i, w), Priority: i.Priority,
		Kind: beadsKind(i.Type), Epic: i.Parent(), Labels: i.Labels, After: w.For, Assignee: i.Assignee,
		DeferUntil: i.DeferUntil, Line: i.Line,
	}
	for _, id := range w.Unknown {
		if id != t.Epic {
			t.After = append(t.After, id)
		}
	}
	if i.Design != "" {
		t.Description = strings.TrimSpace(t.Description + "\n\nDesign:\n" + i.Design)
	}
	if i.Minutes > 0 {
		t.Effort = fmt.Sprintf("%d min", i.Minutes)
	}
	if i.Closed() {
		t.Result = i.CloseReason
	}
	acceptance, check := cutCheck(i.Acceptance)
	t.Notes, t.Check = cutCheck(i.Notes)
	if t.Check == "" {
		t.Check = check
	}
	t.Criteria = beadsCriteria(acceptance)
	return t
}

// beadsStatus is the state of an issue. bd's other states (deferred, pinned,
// hooked, its user's own) are all reasons to leave it alone.
func beadsStatus(i beads.Issue, w beads.Wait) Status {
	switch {
	case i.Closed():
		return Done
	case i.Status == "in_progress":
		return InProgress
	case i.Status != "open", w.Never != "", i.Pinned, !workable(i.Type):
		return Blocked
	}
	return Pending
}

// workable says that issues of a type are work for a coding agent. The others of
// bd's own are messages, places, roles and events.
func workable(kind string) bool {
	switch kind {
	case "message", "merge-request", "gate", "agent", "role", "rig", "convoy", "event", "slot":
		return false
	}
	return true
}

func beadsKind(kind string) string {
	if kind == "molecule" {
		return "epic"
	}
	return kind
}

// checkLine matches the line in which a command that proves an issue is kept:
// bd has no field for it.
var checkLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("(?m)^Check:[ \t]+`?([^`\n]+?)`?[ \t]*\r?$\n?") })

// cutCheck takes the check out of a text.
func cutCheck(text string) (rest, check string) {
	m := checkLine().FindStringSubmatchIndex(text)
	if m == nil {
		return text, ""
	}
	return strings.TrimSpace(text[:m[0]] + text[m[1]:]), text[m[2]:m[3]]
}

// listMark matches what a line of acceptance criteria may begin with.
var listMark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:[-*+]|[0-9]+[.)])?\s*(?:\[([ xX])\]\s+)?`)
})

// beadsCriteria makes criteria of the lines of a text.
func beadsCriteria(text string) []Criterion {
	var out []Criterion
	for line := range strings.Lines(text) {
		m := listMark().FindStringSubmatchIndex(line)
		c := Criterion{Text: strings.TrimSpace(line[m[1]:])}
		if m[2] >= 0 {
			c.Done = line[m[2]:m[3]] != " "
		}
		if c.Text != "" {
			out = append(out, c)
		}
	}
	return out
}

// Mark implements Tracker. Given up and left out are open in bd, with a comment:
// bd has no word for them that keeps dependants waiting.
func (t *beadsTracker) Mark(ctx context.Context, id string, m Mark) error {
	op := "mark issue " + clip(id) + " in plan"
	actor := cmp.Or(m.Actor, "ralph")
	err := errors.New("there is no status " + string(m.Status))
	switch m.Status {
	case InProgress:
		err = t.client.Claim(ctx, id, actor)
	case Done:
		if err = t.client.Close(ctx, id, closeReason(m), actor); errors.Is(err, beads.ErrOpenBlockers) {
			err = t.client.CloseBlocked(ctx, id, closeReason(m), actor)
		}
	case Pending, Interrupted, Blocked, Failed, Skipped:
		err = t.client.GiveBack(ctx, id, actor)
	}
	if err != nil {
		return beadsError(op, t.path(), err)
	}
	remark := remarkOf(m)
	if remark == "" {
		return nil
	}
	if err := t.client.Comment(ctx, id, remark, actor); err != nil {
		// The state is written and proven; the mark must not be made again for the
		// sake of the remark.
		t.warn(fmt.Sprintf("issue %s is marked %s, but without its remark: %v", clip(id), m.Status, err))
	}
	return nil
}

// closeReason has nothing in it that was not made here: bd reads some words in
// it ("error", "failed") as a failure.
func closeReason(m Mark) string {
	return cmp.Or(strings.TrimSpace("ralph "+m.Commit), "ralph")
}

func remarkOf(m Mark) string {
	if m.Status == InProgress {
		return ""
	}
	var parts []string
	for _, s := range []string{m.Result, m.Note} {
		if s = strings.TrimSpace(s); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	head := "ralph: " + string(m.Status)
	if m.Session != "" {
		head += " (session " + m.Session + ")"
	}
	return head + ": " + strings.Join(parts, "\n")
}

// Release implements Tracker.
func (t *beadsTracker) Release(ctx context.Context, actor string) ([]string, error) {
	const op = "release issues of plan"
	s, err := t.client.Snapshot(ctx)
	if err != nil {
		return nil, beadsError(op, t.path(), err)
	}
	var ids []string
	for _, i := range s.Issues {
		// An open issue that is still somebody's cannot be claimed by anybody.
		if i.Status != "in_progress" && i.Status != "open" || !claimedBy(i.Assignee, actor) {
			continue
		}
		if err := t.client.Release(ctx, i.ID, i.Assignee); err != nil {
			return ids, beadsError(op, t.path(), err)
		}
		ids = append(ids, i.ID)
	}
	return ids, nil
}

func (t *beadsTracker) warn(text string) {
	if t.o.Warn != nil {
		t.o.Warn(text)
	}
}

// opinion is what bv would do otherwise, once for each state of the data.
func (t *beadsTracker) opinion(ctx context.Context, p *Plan, s *beads.Snapshot) []Problem {
	t.mu.Lock()
	known := t.asked == p.Stamp
	said := t.said
	t.mu.Unlock()
	if known {
		return said
	}
	o, err := t.second.Triage(ctx, s.JSONL)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case errors.Is(err, beads.ErrNoViewer):
		t.asked, t.said = p.Stamp, nil
		if t.told {
			return nil
		}
		t.told = true
		return []Problem{{File: p.Path, Text: "bv is not installed: Ralph's own ranking decides alone"}}
	case err != nil:
		return []Problem{{File: p.Path, Text: fmt.Sprintf("no second opinion: %v", err)}}
	}
	t.asked, t.said = p.Stamp, t.compare(p, o)
	return t.said
}

// compare tells where bv's first choice is not the one of the ranking.
func (t *beadsTracker) compare(p *Plan, o beads.Opinion) []Problem {
	ready := p.Graph().Ready()
	if in, err := p.Within(t.o.Epics); err == nil {
		ready = slices.DeleteFunc(ready, func(id string) bool { return !in[id] })
	}
	if len(ready) == 0 {
		return nil
	}
	first, top, ok := o.Among(ready)
	if !ok {
		return []Problem{{File: p.Path, Task: ready[0], Text: fmt.Sprintf("the ranking takes %s next; bv recommends nothing that is ready", ready[0])}}
	}
	if first.ID == ready[0] {
		return nil
	}
	text := fmt.Sprintf("the ranking takes %s next, bv would take %s", ready[0], first.ID)
	if len(top.BlockedBy) > 0 {
		text += fmt.Sprintf(" (its first choice %s waits for %s)", top.ID, strings.Join(top.BlockedBy, ", "))
	}
	return []Problem{{File: p.Path, Task: ready[0], Text: text}}
}

// beadsError says it in the words of plans.
func beadsError(op, path string, err error) error {
	out := &Problems{Op: op, Path: path, Err: err}
	if d, ok := errors.AsType[*beads.DataError](err); ok {
		out.Err, out.Hint = nil, d.Hint
		file := path + "/" + filepath.Base(d.Path)
		for _, f := range d.Faults {
			one := Problem{File: file, Line: f.Line, Text: f.Text}
			if filepath.Base(d.Path) == filepath.Base(path) { // no file of the project
				one = Problem{File: path, Text: fmt.Sprintf("line %d of bd's export: %s", f.Line, f.Text)}
			}
			out.List = append(out.List, one)
		}
		return out
	}
	if e, ok := errors.AsType[*beads.Error](err); ok {
		out.Hint = e.Hint
	}
	for _, pair := range []struct{ theirs, ours error }{
		{beads.ErrTaken, ErrTaken}, {beads.ErrNoIssue, ErrNoTask}, {beads.ErrNoData, ErrNoPlan},
	} {
		if errors.Is(err, pair.theirs) {
			out.Err = translated{err, pair.ours}
		}
	}
	return out
}

// translated is an error of bd's with the sentinel that plans have for it.
type translated struct {
	error
	ours error
}

// Unwrap returns both.
func (t translated) Unwrap() []error { return []error{t.error, t.ours} }
