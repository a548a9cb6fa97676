package lives

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// verdict compares all that a run has left behind.
type verdict struct {
	*planRun
	doc  document
	plan map[string]entry
	want map[string]string // what has become of each task of the plan
	done []string
	dir  string // of the session
	snap snapshotFile
}

type snapshotFile struct {
	Status, SessionDir string
	Iteration          int
	Tasks              struct{ Completed, Total int }
	ActiveTaskIDs      []string `json:"activeTaskIds"`
	SkippedTaskIDs     []string `json:"skippedTaskIds"`
	Iterations         []struct {
		Iteration      int
		Status, TaskID string
		TaskCompleted  bool
	}
	Tracker struct {
		TotalTasks int
		Tasks      []struct{ ID, Title, Status string }
	}
	ExitReason string
}

// times is how often a task of the plan has to have been done.
func (r *planRun) times(id string) int { return 1 + r.reopened[id] }

func (r *planRun) judge(doc document) {
	r.gone()
	v := &verdict{planRun: r, doc: doc, plan: r.ledger.read(), want: map[string]string{}}
	for id := range r.titles {
		switch {
		case r.removed[id]:
			continue
		case id == r.ids(broken):
			v.want[id] = "failed"
		case id == r.ids(orphan):
			v.want[id] = "skipped"
		default:
			v.want[id] = "done"
			v.done = append(v.done, id)
		}
	}
	slices.Sort(v.done)
	if doc.exit < 0 { // what follows the run's own end was cut off
		v.tasks()
		v.files()
		v.commits()
		v.leftovers()
		v.exec("ralph", "sessions", "check")
		return
	}
	if doc.exit != 1 || doc.Status != "failed" || doc.OK {
		r.Errorf("exit %d, status %s: %s", doc.exit, doc.Status, doc.raw)
		return
	}
	v.document()
	v.tasks()
	v.files()
	v.commits()
	v.leftovers()
	v.snapshot()
	v.progress()
	v.metadata()
	v.log()
	v.decisions()
	v.faults()
	v.iterations()
	v.history()
	v.runs()
	v.status()
	v.exec("ralph", "sessions", "check")
}

func (v *verdict) count(status string) (n int) {
	for _, s := range v.want {
		if s == status {
			n++
		}
	}
	return n
}

func (v *verdict) document() {
	got := v.doc.Tasks
	if got.Done != len(v.done) || got.Failed != v.count("failed") || got.Skipped != v.count("skipped") || got.Open != 0 {
		v.Errorf("the document counts %+v, and the plan is %v", got, v.want)
	}
	if v.doc.Error == nil || !strings.Contains(v.doc.Reason, v.ids(broken)) {
		v.Errorf("the document does not say why: %s", v.doc.Reason)
	}
}

// tasks checks the plan itself.
func (v *verdict) tasks() {
	for id, e := range v.plan {
		want := v.want[id]
		if want == "" {
			v.Errorf("%s was removed, and is in the plan again", id)
		}
		if want != "done" && e.status == "open" { // the trackers of others know neither failed nor skipped
			want = "open"
			if e.claim != "" {
				v.Errorf("%s is open, and claimed by %s", id, e.claim)
			}
			if _, ok := v.ledger.(beadsLedger); !ok && e.given == "" {
				v.Errorf("%s was given up, and its notes do not say so", id)
			}
		}
		if e.status != want {
			v.Errorf("%s is %q in the plan, not %q", id, e.status, want)
		}
		if titles := v.titles[id]; e.title != titles[len(titles)-1] {
			v.Errorf("%s is %q in the plan, and the user wrote %q", id, e.title, titles)
		}
	}
	for id := range v.want {
		if _, ok := v.plan[id]; !ok {
			v.Errorf("%s is not in the plan any more", id)
		}
	}
}

func (v *verdict) files() {
	if v.planRun.read("README.md") != "mine\n" {
		v.Error("a file of the user's was changed")
	}
	for id, want := range v.want {
		name := filepath.Join("out", id+".txt")
		text, err := os.ReadFile(filepath.Join(v.root, name))
		if want != "done" {
			if err == nil {
				v.Errorf("%s was not done, and %s is %q", id, name, text)
			}
			continue
		}
		if got, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "good "); !ok || !slices.Contains(v.titles[id], got) {
			v.Errorf("%s is %q, %v; its task was %q", name, text, err, v.titles[id])
		}
		if head := v.exec("git", "show", "HEAD:"+name); head != string(text) {
			v.Errorf("%s is %q, and in HEAD %q", name, text, head)
		}
	}
	for line := range strings.Lines(v.exec("git", "status", "--porcelain", "--untracked-files=all")) {
		name := strings.TrimSpace(line[2:])
		if !strings.HasPrefix(name, ".beads/") && !slices.Contains([]string{"RALPH_TASKS.md", "RALPH_PROGRESS.md", "AGENT.md", "prd.json", "RALPH-LOOP-PLAN.yaml", ".gitattributes", "AGENTS.md", ".gitignore"}, name) {
			v.Errorf("git status has %q", line)
		}
	}
}

// commits checks that each task has landed once for each time that it was done.
func (v *verdict) commits() {
	landed := map[string]int{}
	for line := range strings.Lines(v.exec("git", "log", "--first-parent", "--format=%s", "HEAD")) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		landed[id]++
	}
	work := map[string]int{}
	for line := range strings.Lines(v.exec("git", "log", "--no-merges", "--format=%s", "HEAD")) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		work[id]++
	}
	for _, list := range []map[string]int{landed, work} {
		for id, n := range list {
			if len(v.titles[id]) > 1 { // what came under its old name, before Ralph could say so, is not what it asks for now
				n = min(n, v.times(id))
			}
			if id != "first" && !v.removed[id] && (v.want[id] != "done" || n != v.times(id)) {
				v.Errorf("%s has %d commits in HEAD; it is %s and was reopened %d times", id, n, v.want[id], v.reopened[id])
			}
		}
		for _, id := range v.done {
			if list[id] == 0 {
				v.Errorf("%s is done, and HEAD has no commit of it", id)
			}
		}
	}
	v.exec("git", "fsck", "--no-dangling")
}

// agentOf is how the agent of a task is called.
func agentOf(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "_") }

// leftovers checks that nothing is there without a reason: what failed is kept.
func (v *verdict) leftovers() {
	kept := func(name string) bool { // that which failed, and that whose task was removed while it was at work
		for id := range v.removed {
			if strings.HasPrefix(name, agentOf(v.titles[id][0])) {
				return true
			}
		}
		return strings.HasPrefix(name, "try_what_never")
	}
	for line := range strings.Lines(v.exec("git", "branch", "--list", "--format=%(refname:short)")) {
		if name := strings.TrimSpace(line); name != "main" && !kept(strings.TrimPrefix(name, "ralph/")) {
			v.Errorf("the branch %s is left", name)
		}
	}
	all, err := os.ReadDir(filepath.Join(v.root, ".ralph", "worktrees"))
	if err != nil {
		v.Error(err)
	}
	trees := slices.DeleteFunc(all, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	for _, e := range trees {
		if !kept(e.Name()) {
			v.Errorf("the tree %s is left", e.Name())
		}
	}
	if n := strings.Count(v.exec("git", "worktree", "list", "--porcelain"), "worktree "); n != 1 {
		v.Errorf("the user's git knows %d trees: agents work in clones", n)
	}
	locks, err := filepath.Glob(filepath.Join(v.root, ".git", "*.lock"))
	locks = slices.DeleteFunc(locks, func(name string) bool { return filepath.Base(name) == "ralph.lock" })
	if err != nil || len(locks) > 0 {
		v.Errorf("locks of git are left: %v %v", locks, err)
	}
}

func (v *verdict) snapshot() {
	if err := json.Unmarshal([]byte(v.planRun.read(".ralph/sessions/play.json")), &v.snap); err != nil {
		v.Fatal(err)
	}
	s := v.snap
	v.dir = s.SessionDir
	if s.Status != "failed" || len(s.ActiveTaskIDs) > 0 || s.Tasks.Completed != len(v.done) || s.Tasks.Total != len(v.want) || s.Tracker.TotalTasks != len(v.want) || s.ExitReason != v.doc.Reason {
		v.Errorf("the snapshot is %+v, and the plan is %v", s, v.want)
	}
	if got := len(s.SkippedTaskIDs); got != v.count("skipped") {
		v.Errorf("the snapshot leaves out %v", s.SkippedTaskIDs)
	}
	told := map[string]string{}
	for _, t := range s.Tracker.Tasks {
		told[t.ID] = t.Status
		if titles := v.titles[t.ID]; len(titles) > 0 && t.Title != titles[len(titles)-1] {
			v.Errorf("%s is %q in the snapshot, and the user wrote %q", t.ID, t.Title, titles)
		}
	}
	if !maps.Equal(told, v.want) {
		v.Errorf("the tasks of the snapshot are %v, and the plan is %v", told, v.want)
	}
	seen, completed := map[int]bool{}, map[string]int{}
	for i, x := range s.Iterations {
		if seen[x.Iteration] || x.Iteration < 1 || x.Iteration > s.Iteration {
			v.Errorf("iteration %d is the %dth of %d", x.Iteration, i, s.Iteration)
		}
		seen[x.Iteration] = true
		if x.TaskCompleted {
			completed[x.TaskID]++
		}
	}
	if len(seen) != s.Iteration {
		v.Errorf("%d iterations are told, and there were %d", len(seen), s.Iteration)
	}
	v.each("iterations of the snapshot that completed", completed)
}

// each checks that every task was done as often as it has to be, as something that
// only tells of it has it: that may be written once more when Ralph is killed
// before it knows that it was.
func (v *verdict) each(what string, times map[string]int, only ...bool) {
	v.Helper()
	more := 0
	for id := range v.want {
		want := 0
		if v.want[id] == "done" {
			want = v.times(id)
		}
		if len(only) > 0 && want > 0 {
			more = v.killed
		}
		again := 0 // one that got another title before the plan had its end is worked anew
		if want > 0 {
			again = max(0, len(v.titles[id])-1)
		}
		if times[id] < want || times[id] > want+more+again {
			v.Errorf("%s: %d of %s, and it is %s and was reopened %d times", what, times[id], id, v.want[id], v.reopened[id])
		}
	}
}

func (v *verdict) progress() {
	var p struct {
		Progress struct {
			CurrentTaskID   string  `yaml:"current_task_id"`
			OverallProgress float64 `yaml:"overall_progress"`
		}
		Tasks []struct {
			TaskID      string `yaml:"task_id"`
			Status      string
			CompletedAt *string `yaml:"completed_at"`
		}
	}
	if err := yaml.Unmarshal([]byte(v.planRun.read(v.dir+"/progress-tracking.yaml")), &p); err != nil {
		v.Fatal(err)
	}
	told := map[string]string{}
	for _, t := range p.Tasks {
		told[t.TaskID] = map[string]string{"completed": "done", "error": "failed", "skipped": "skipped"}[t.Status]
		if (t.Status == "completed") != (t.CompletedAt != nil) && t.Status == "completed" {
			v.Errorf("%s is %s at %v", t.TaskID, t.Status, t.CompletedAt)
		}
	}
	if !maps.Equal(told, v.want) {
		v.Errorf("the progress is %v, and the plan is %v", told, v.want)
	}
	share := 100 * float64(len(v.done)) / float64(len(v.want))
	if p.Progress.CurrentTaskID != "" || p.Progress.OverallProgress < share-0.1 || p.Progress.OverallProgress > share+0.1 {
		v.Errorf("the progress is %+v, %.1f of 100 are done", p.Progress, share)
	}
}

func (v *verdict) metadata() {
	var m struct {
		Status         string
		EndTime        *string `yaml:"end_time"`
		TasksCompleted int     `yaml:"tasks_completed"`
		TasksTotal     int     `yaml:"tasks_total"`
		ExitReason     string  `yaml:"exit_reason"`
	}
	if err := yaml.Unmarshal([]byte(v.planRun.read(v.dir+"/session-metadata.yaml")), &m); err != nil {
		v.Fatal(err)
	}
	if m.Status != "error" || m.EndTime == nil || m.TasksCompleted != len(v.done) || m.TasksTotal != len(v.want) || m.ExitReason != v.doc.Reason {
		v.Errorf("the metadata is %+v, and the plan is %v", m, v.want)
	}
}

func (v *verdict) log() {
	var l struct {
		Events []struct {
			EventType string `json:"event_type"`
			TaskID    string `json:"task_id"`
			Result    string
		}
	}
	if err := json.Unmarshal([]byte(v.planRun.read(v.dir+"/execution-log.json")), &l); err != nil {
		v.Fatal(err)
	}
	done, started, ends := map[string]int{}, map[string]bool{}, 0
	for _, e := range l.Events {
		switch {
		case e.EventType == "task_start":
			started[e.TaskID] = true
		case e.EventType == "task_complete" && e.Result == "success":
			done[e.TaskID]++
		case e.EventType == "session_end":
			ends++
		}
	}
	v.each("events of the log", done, true)
	for _, id := range v.done {
		if !started[id] {
			v.Errorf("the log has no start of %s", id)
		}
	}
	if ends == 0 {
		v.Error("the log has no end")
	}
}

func (v *verdict) decisions() {
	var h struct {
		Decisions []struct {
			TaskID   string `json:"task_id"`
			Decision struct {
				Action      string
				Confidence  float64
				Rationale   string
				Alternative []any `json:"alternative_actions"`
			}
			Outcome *string
		}
	}
	if err := json.Unmarshal([]byte(v.planRun.read(v.dir+"/decision-history.json")), &h); err != nil {
		v.Fatal(err)
	}
	done := map[string]int{}
	for _, d := range h.Decisions {
		if d.Decision.Action != "execute" && d.Decision.Action != "retry" {
			continue
		}
		if d.Outcome == nil || *d.Outcome == "" {
			v.Errorf("a decision on %s has no outcome", d.TaskID)
			continue
		}
		if *d.Outcome == "success" {
			done[d.TaskID]++
		}
		if len(d.Decision.Alternative) == 0 || d.Decision.Rationale == "" {
			v.Errorf("a decision on %s has no alternatives, or no reason", d.TaskID)
		}
	}
	v.each("decisions that came out well", done, true)
}

func (v *verdict) faults() {
	var h struct {
		Errors []struct {
			TaskID    string `json:"task_id"`
			ErrorType string `json:"error_type"`
			Resolved  bool
		}
	}
	if err := json.Unmarshal([]byte(v.planRun.read(v.dir+"/errors-and-retries.json")), &h); err != nil {
		v.Fatal(err)
	}
	n := 0
	for _, e := range h.Errors {
		if e.TaskID == v.ids(broken) {
			n++
		}
		if e.TaskID == v.ids(broken) == e.Resolved && e.TaskID != "" {
			v.Errorf("an error of %s (%s): resolved %v", e.TaskID, e.ErrorType, e.Resolved)
		}
	}
	if n == 0 {
		v.Errorf("no error tells of %s", v.ids(broken))
	}
}

func (v *verdict) iterations() {
	names, err := filepath.Glob(filepath.Join(v.root, v.dir, "iterations", "*.md"))
	if err != nil {
		v.Fatal(err)
	}
	pages := map[int]string{}
	for _, name := range names {
		number, task, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".md"), "-")
		n, err := strconv.Atoi(number)
		if err != nil || pages[n] != "" {
			v.Errorf("the page %s: %v, the other is of %s", name, err, pages[n])
		}
		pages[n] = task
		if text := v.planRun.read(strings.TrimPrefix(name, v.root+"/")); !strings.Contains(text, "\n## Outcome\n") {
			v.Errorf("%s has no outcome:\n%s", filepath.Base(name), text)
		}
	}
	for _, x := range v.snap.Iterations {
		if pages[x.Iteration] != x.TaskID {
			v.Errorf("iteration %d was of %s, and its page is of %q", x.Iteration, x.TaskID, pages[x.Iteration])
		}
		delete(pages, x.Iteration)
	}
	for n, task := range pages {
		v.Errorf("the page of iteration %d of %s belongs to nothing", n, task)
	}
}

// history checks RALPH_PROGRESS.md.
func (v *verdict) history() {
	done := map[string]int{}
	entries := regexp.MustCompile(`(?m)^## .* — (\S+) .*\n\n- Status: (\w+)$`)
	for _, f := range entries.FindAllStringSubmatch(v.planRun.read("RALPH_PROGRESS.md"), -1) {
		if f[2] == "done" {
			done[f[1]]++
		}
	}
	v.each("entries of RALPH_PROGRESS.md", done, true)
}

func (v *verdict) runs() {
	lines := strings.Split(strings.TrimSpace(v.planRun.read(".ralph/runs.jsonl")), "\n")
	var last document
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		v.Fatal(err)
	}
	if last.RunID != v.doc.RunID || last.ExitCode != v.doc.ExitCode || last.Tasks != v.doc.Tasks || last.Reason != v.doc.Reason {
		v.Errorf("the last line of runs.jsonl is %s, and the document was %s", lines[len(lines)-1], v.doc.raw)
	}
	if len(lines) > v.ended {
		v.Errorf("runs.jsonl has %d lines, and %d lives came to an end", len(lines), v.ended)
	}
}

func (v *verdict) status() {
	var s struct {
		State string
		Live  bool
		Run   *struct {
			Status string
			Tasks  map[string]int
		}
		Last *struct{ Status string }
	}
	text := v.exec("ralph", "status", "--output", "json")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		v.Fatal(err)
	}
	if s.Live || s.Run == nil || s.Run.Status != "failed" || s.Run.Tasks["done"] != len(v.done) {
		v.Errorf("at the end the status is %s", text)
	}
	if got := fmt.Sprint(s.Last); s.Last == nil || s.Last.Status != "failed" {
		v.Errorf("at the end the last run is %s", got)
	}
}
