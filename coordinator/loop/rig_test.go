package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// story is a task of a plan for tests.
type story struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Desc     string   `json:"description,omitempty"`
	Criteria []string `json:"acceptanceCriteria"`
	Priority int      `json:"priority"`
	After    []string `json:"dependsOn,omitempty"`
	Passes   bool     `json:"passes"`
	Status   string   `json:"status,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	Check    string   `json:"check,omitempty"`
	Epic     string   `json:"epic,omitempty"`
}

// st is a story that waits for others.
func st(id string, after ...string) story {
	return story{ID: id, Title: "do " + id, Criteria: []string{"it works"}, Priority: 1, After: after}
}

// act is what the hands of a test do for one attempt at a task.
type act func(ctx context.Context, o Order) Report

// well is an attempt that gets there.
func well(_ context.Context, o Order) Report {
	return Report{Status: saidDone, Declared: true, Verified: true, Landing: landedMerged, Summary: "did " + o.Task.ID, Files: []string{o.Task.ID + ".go"}, Commit: "c" + o.Task.ID,
		Checks: []CheckRun{{Command: "make test"}}, Usage: agent.Usage{Input: 10, Output: 5, Total: 15}, Turns: 2}
}

// badCheck is an attempt whose check fails.
func badCheck(_ context.Context, o Order) Report {
	return Report{Status: saidDone, Declared: true, Summary: "tried " + o.Task.ID, Files: []string{o.Task.ID + ".go"}, Usage: agent.Usage{Total: 15},
		Checks: []CheckRun{{Command: "make test", ExitCode: 1, Output: fmt.Sprintf("FAIL %s attempt %d", o.Task.ID, o.Attempt)}}}
}

func broke(kind, what string) act {
	return func(_ context.Context, o Order) Report {
		return Report{Status: saidFailed, Kind: kind, Problem: fmt.Sprintf("%s (%d)", what, o.Attempt), Summary: what, Files: []string{"x"}}
	}
}

// rig is a loop with everything around it. The world that outlives a crash is in
// it: the plan's file, the session's files, the snapshot, what was merged.
type rig struct {
	t     *testing.T
	dir   string
	name  string // of the plan's file
	files afero.Fs
	o     Options

	mu       sync.Mutex
	acts     map[string][]act // by task, one an attempt; the last goes on
	takes    time.Duration    // an attempt
	merged   map[string]int   // how often the work of a task was merged
	agents   map[string]string
	orders   []Order
	busy     int
	mostBusy int
	saves    []feature.Snapshot
	events   []agent.Event
	warnings []string
	ends     []TaskEnd
	checks   map[string]int
	facts    func(plan.Task) decide.Facts
	at       func(where string) // called wherever a process may die
	onSave   func(n int, s feature.Snapshot) error
	loop     *Loop
	folder   *folder.Folder
	granted  *Granted // as it is kept outside of the project
}

var _ Hands = (*rig)(nil)

func newRig(t *testing.T, stories ...story) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), name: "prd.json", files: afero.NewMemMapFs(), acts: map[string][]act{}, takes: time.Minute, merged: map[string]int{}, agents: map[string]string{}, checks: map[string]int{}}
	r.plan(stories...)
	r.o = Options{Settings: Settings{Feature: "f", Parallel: 1, HumanIntervention: AskNever}, Actor: "ralph/001", SessionID: "001"}
	r.o.Grant = func(g Granted) error { r.granted = &g; return nil }
	return r
}

func (r *rig) path() string { return filepath.Join(r.dir, r.name) }

// yaml writes the plan as a RALPH-LOOP-PLAN.yaml.
func (r *rig) yaml(text string) {
	r.t.Helper()
	if err := os.Remove(r.path()); err != nil {
		r.t.Fatal(err)
	}
	r.name = "RALPH-LOOP-PLAN.yaml"
	r.write(text)
}

// plan writes the plan.
func (r *rig) plan(stories ...story) {
	r.t.Helper()
	data, err := json.MarshalIndent(map[string]any{"project": "p", "branchName": "b", "description": "d", "userStories": stories}, "", "  ")
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(string(data))
}

func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read() string {
	r.t.Helper()
	data, err := os.ReadFile(r.path())
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// edit changes the plan as a human does, with an editor.
func (r *rig) edit(change func(list []map[string]any) []map[string]any) {
	r.t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(r.read()), &doc); err != nil {
		r.t.Fatal(err)
	}
	var list []map[string]any
	for _, s := range doc["userStories"].([]any) {
		list = append(list, s.(map[string]any))
	}
	doc["userStories"] = change(list)
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(string(data))
}

func (r *rig) tracker() plan.Tracker {
	r.t.Helper()
	tr, err := plan.Open(r.t.Context(), plan.Options{Root: r.dir})
	if err != nil {
		r.t.Fatal(err)
	}
	return tr
}

// make makes a loop over what is there, as a new process does.
func (r *rig) make() *Loop {
	r.t.Helper()
	f, err := folder.Open(folder.Options{FS: r.files, Dir: "/session-001-f", SessionID: "001"})
	if err != nil {
		r.t.Fatal(err)
	}
	f.Begin()
	if r.o.Resume != nil {
		f.CutOff()
	}
	o := r.o
	r.folder = f
	if o.Tracker == nil {
		o.Tracker = r.tracker()
	}
	o.Tracker = told{o.Tracker, r}
	o.Hands, o.Files, o.Save = r, f, r.save
	o.Emit = func(e agent.Event) { r.mu.Lock(); defer r.mu.Unlock(); r.events = append(r.events, e) }
	o.Warn = func(s string) { r.mu.Lock(); defer r.mu.Unlock(); r.warnings = append(r.warnings, s) }
	o.Progress = func(e TaskEnd) error { r.mu.Lock(); defer r.mu.Unlock(); r.ends = append(r.ends, e); return nil }
	l, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.loop = l
	return l
}

func (r *rig) save(s feature.Snapshot) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var kept feature.Snapshot
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	r.mu.Lock()
	n, hook := len(r.saves), r.onSave
	r.mu.Unlock()
	if hook != nil {
		if err := hook(n, kept); err != nil {
			return err
		}
	}
	r.here("before save")
	r.mu.Lock()
	r.saves = append(r.saves, kept)
	r.mu.Unlock()
	r.here("after save")
	return nil
}

// told is a tracker that says when it is about to change something, and when it has.
type told struct {
	plan.Tracker
	r *rig
}

func (t told) Mark(ctx context.Context, id string, m plan.Mark) error {
	t.r.here("before mark " + id + " " + string(m.Status))
	err := t.Tracker.Mark(ctx, id, m)
	t.r.here("after mark " + id + " " + string(m.Status))
	return err
}

// here is a place where a process may die.
func (r *rig) here(where string) {
	if r.at != nil {
		r.at(where)
	}
}

func (r *rig) last() feature.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.saves) == 0 {
		r.t.Fatal("no snapshot was saved")
	}
	return r.saves[len(r.saves)-1]
}

// run runs a loop to its end, and checks that everything agrees.
func (r *rig) run() Outcome {
	r.t.Helper()
	out := r.make().Run(r.t.Context())
	r.agree(out)
	return out
}

// resume goes on from the last snapshot, as a new process does.
func (r *rig) resume() Outcome {
	r.t.Helper()
	s := r.last().Cut()
	r.o.Resume, r.o.Granted = &s, r.granted
	return r.run()
}

func (r *rig) Prompt(_ context.Context, o Order) (string, error) {
	return "work " + o.Task.ID + "\n" + o.Feedback + "\n" + strings.Join(o.Guidance, "\n"), nil
}

func (r *rig) Facts(_ context.Context, t plan.Task) decide.Facts {
	if r.facts != nil {
		return r.facts(t)
	}
	return decide.Facts{Description: true, Criteria: true, Check: true, Bounded: true}
}

func (r *rig) Check(_ context.Context, check plan.Check) CheckRun {
	command := check.Command
	r.mu.Lock()
	defer r.mu.Unlock()
	return CheckRun{Command: command, ExitCode: r.checks[command], Output: "said"}
}

func (r *rig) Do(ctx context.Context, o Order) Report {
	r.mu.Lock()
	id := fmt.Sprintf("a_%s_%d", strings.ToLower(o.Task.ID), o.Iteration)
	if o.Resume != "" {
		id = o.Resume
	}
	r.orders = append(r.orders, o)
	r.busy++
	r.mostBusy = max(r.mostBusy, r.busy)
	again := r.agents[id] == "merged" // its merge outlived the crash
	var do act = well
	if list := r.acts[o.Task.ID]; len(list) > 0 {
		do = list[min(o.Attempt, len(list))-1]
	}
	takes := r.takes
	r.mu.Unlock()
	r.here("begin " + o.Task.ID)
	o.Begun(id)
	defer func() { r.mu.Lock(); r.busy--; r.mu.Unlock() }()
	if again {
		rep := well(ctx, o)
		rep.Agent = id
		return rep
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return Report{Agent: id, Status: interrupted, Problem: context.Cause(ctx).Error()}
	}
	rep := do(ctx, o)
	rep.Agent = id
	if ctx.Err() != nil && rep.Status == "" {
		rep.Status = interrupted
	}
	if rep.Landing == landedMerged {
		r.mu.Lock()
		r.merged[o.Task.ID]++
		r.agents[id] = "merged"
		r.mu.Unlock()
		r.here("merged " + o.Task.ID)
	}
	return rep
}

// worked lists the attempts in their order: "A/1".
func (r *rig) worked() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, o := range r.orders {
		list = append(list, fmt.Sprintf("%s/%d", o.Task.ID, o.Attempt))
	}
	return strings.Join(list, " ")
}

func (r *rig) ordersOf(id string) []Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.orders), func(o Order) bool { return o.Task.ID != id })
}

// status is how the plan has a task, for the plan's own reader.
func (r *rig) status() map[string]plan.Status {
	r.t.Helper()
	p, err := r.tracker().Load(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	m := map[string]plan.Status{}
	for _, t := range p.Tasks {
		m[t.ID] = t.Status
	}
	return m
}

// agree checks that plan, outcome, snapshot and session files say the same.
func (r *rig) agree(out Outcome) {
	r.t.Helper()
	if err := r.folder.Close(); err != nil {
		r.t.Errorf("close files: %v", err)
	}
	d, err := folder.Read(r.files, "/session-001-f")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range d.Differences() {
		r.t.Errorf("files disagree: %s", x)
	}
	for _, p := range d.Problems {
		r.t.Errorf("file %s: %v", p.File, p.Err)
	}
	tracked := map[string]folder.TaskStatus{}
	for _, s := range d.Progress.Tasks {
		tracked[s.TaskID] = s.Status
		if s.Status == folder.TaskInProgress {
			r.t.Errorf("%s is in progress in the files after the end", s.TaskID)
		}
	}
	for ids, want := range map[*[]string]folder.TaskStatus{&out.Done: folder.TaskCompleted, &out.Failed: folder.TaskError, &out.Skipped: folder.TaskSkipped} {
		for _, id := range *ids {
			if tracked[id] != want {
				r.t.Errorf("%s: the files say %q, the outcome %q", id, tracked[id], want)
			}
		}
	}
	for _, id := range out.Open {
		if s := tracked[id]; s != folder.TaskPending && s != folder.TaskPaused {
			r.t.Errorf("%s: the files say %q, the outcome says that it is open", id, s)
		}
	}
	if len(r.saves) == 0 {
		return
	}
	s := r.last()
	if s.Status != out.Status {
		r.t.Errorf("the snapshot says %s, the outcome %s", s.Status, out.Status)
	}
	if s.Tasks.Completed != len(out.Done) || s.Iteration != out.Iterations || len(s.ActiveTaskIDs) != 0 {
		r.t.Errorf("the snapshot says %d done, iteration %d, active %v; the outcome %d, %d", s.Tasks.Completed, s.Iteration, s.ActiveTaskIDs, len(out.Done), out.Iterations)
	}
	if _, err := os.Stat(r.path()); err != nil || out.Err != nil || out.Question != nil && out.Question.Kind == askPlan {
		return
	}
	status := r.status()
	for _, id := range out.Done {
		if status[id] != plan.Done {
			r.t.Errorf("%s: the plan says %s, the outcome done", id, status[id])
		}
	}
	for id, s := range status {
		if s == plan.InProgress {
			r.t.Errorf("%s is in progress in the plan after the end", id)
		}
		if s == plan.Done && !slices.Contains(out.Done, id) && r.o.Settings.Select == "" && len(r.o.Settings.Epics) == 0 {
			r.t.Errorf("%s is done in the plan, and not in the outcome", id)
		}
	}
}

func (r *rig) data() folder.Data {
	r.t.Helper()
	if err := r.folder.Flush(); err != nil {
		r.t.Fatal(err)
	}
	d, err := folder.Read(r.files, "/session-001-f")
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func contains(t *testing.T, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: %q does not say %q", what, got, part)
	}
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

var errCrash = errors.New("the process is gone")
