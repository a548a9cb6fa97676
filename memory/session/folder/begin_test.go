package folder

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
)

func TestEverySessionHasItsFiles(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "sessions", "session-001-fix")
	must(t, os.MkdirAll(filepath.Join(at, decisionsFile), 0o700)) // a directory in the place of a file
	must(t, os.WriteFile(filepath.Join(at, errorsFile), make([]byte, 5000), 0o600))
	must(t, os.WriteFile(filepath.Join(at, inventoryFile), []byte("{\"features\": ["), 0o600))
	must(t, os.WriteFile(filepath.Join(at, documentsFile), []byte("[]"), 0o600))
	f, err := Open(Options{Dir: at, SessionID: "001", Quarantine: filepath.Join(root, "quarantine")})
	must(t, err)
	f.Begin()
	must(t, f.Close())
	d, err := Read(nil, at)
	must(t, err)
	if len(d.Problems) > 0 || !d.has(logFile) || !d.has(progressFile) || !d.has(decisionsFile) || !d.has(errorsFile) || d.has(inventoryFile) {
		t.Errorf("%v %v", d.Files, d.Problems)
	}
	for _, id := range d.ids {
		if id != "session-001" {
			t.Errorf("%v", d.ids)
		}
	}
	if _, err := os.Stat(filepath.Join(at, documentsFile)); err != nil {
		t.Error("a list of documents that is whole was taken away:", err)
	}
	kept, err := os.ReadDir(filepath.Join(root, "quarantine"))
	if err != nil || len(kept) != 3 {
		t.Errorf("%v %v", kept, err)
	}
}

// A task that rests is not worked on: neither a stop nor a crash counts.
func TestDurationsLeaveOutRests(t *testing.T) {
	fsys := afero.NewMemMapFs()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	open := func() *Folder {
		f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Now: func() time.Time { return now }})
		must(t, err)
		return f
	}
	f := open()
	f.Begin()
	f.Task(TaskState{TaskID: "T-1", Status: TaskInProgress})
	now = now.Add(3 * time.Second)
	f.Task(TaskState{TaskID: "T-1", Status: TaskPaused})
	now = now.Add(time.Hour)
	f.Task(TaskState{TaskID: "T-1", Status: TaskInProgress})
	now = now.Add(4 * time.Second)
	f.Log(Event{Type: Message})
	f.GivenUp("T-1", "A", "no")
	f.Decide(Decision{DecisionType: DecisionHelp})
	f.Outcome(f.Decide(Decision{TaskID: "T-0"}), "done")
	f.Task(TaskState{TaskID: "T-0", Status: TaskCompleted})
	must(t, f.Flush()) // and then it is killed
	must(t, fsys.Chtimes(filepath.Join(dir, logFile), now, now))
	now = now.Add(10 * time.Hour)

	f = open()
	if failures, help := f.CutOff(); failures != 1 || help != 1 {
		t.Errorf("%d failures, %d requests for help", failures, help)
	}
	d, err := Read(fsys, dir)
	must(t, err)
	if a, b := d.Decisions[0].Outcome, d.Decisions[1].Outcome; a != "interrupted" || b != "success" {
		t.Errorf("the decisions came out %q, %q", a, b)
	}
	if x := d.Progress.Tasks[0]; x.Status != TaskPaused || d.Progress.Progress.CurrentTaskID != "" {
		t.Errorf("%+v", d.Progress)
	}
	f.Task(TaskState{TaskID: "T-1", Status: TaskInProgress})
	now = now.Add(5 * time.Second)
	f.Recovered("T-1")
	f.Forget("T-0", "T-9")
	worked := f.Task(TaskState{TaskID: "T-1", Status: TaskCompleted})
	must(t, f.Close())
	d, err = Read(fsys, dir)
	must(t, err)
	x := d.Progress.Tasks[0]
	if len(d.Progress.Tasks) != 1 || d.Progress.Progress.OverallProgress != 100 {
		t.Errorf("after one was forgotten: %+v", d.Progress)
	}
	// The stretch that was cut off is not known better than by its last event.
	if worked != 8*time.Second && worked != 12*time.Second || x.StartedAt.Hour() != 9 || x.StartedAt.Minute() != 0 || *x.DurationSeconds != worked.Seconds() {
		t.Errorf("worked %v: %+v", worked, x)
	}
	if e := d.Failures[0]; !e.Resolved || e.RecoveryAction == "" {
		t.Errorf("%+v", e)
	}
}

func TestTheReportOfASessionThatGoesOn(t *testing.T) {
	fsys := afero.NewMemMapFs()
	f := opened1(t, fsys)
	f.Log(Event{Type: SessionStart})
	f.Log(Event{Type: PhaseComplete, Details: map[string]any{"files": []string{"a.go", "b.go"}, "learned": []string{"test first"}}})
	f.Log(Event{Type: PhaseComplete, Details: map[string]any{"files": []string{"a.go"}}})
	f.Log(Event{Type: SessionEnd, Result: "completed"})
	must(t, f.Flush())
	must(t, afero.WriteFile(fsys, filepath.Join(dir, metadataFile), []byte("session_id: \"001\"\nstatus: in_progress\n"), 0o600))
	must(t, report(f))
	report, err := afero.ReadFile(fsys, filepath.Join(dir, reportFile))
	must(t, err)
	if text := string(report); strings.Count(text, "a.go") != 1 || !strings.Contains(text, "- b.go") || !strings.Contains(text, "- test first") {
		t.Errorf("%s", text)
	}
	done := strings.Replace(string(report), "In Progress", "Completed", 1)
	must(t, afero.WriteFile(fsys, filepath.Join(dir, reportFile), []byte(done), 0o600))
	says := func() int {
		d, err := Read(fsys, dir)
		must(t, err)
		return len(d.Differences())
	}
	if n := says(); n != 1 {
		t.Errorf("a report that says completed of a session in progress: %d differences", n)
	}
	f.Log(Event{Type: SessionStart})
	must(t, f.Close())
	if n := says(); n != 0 {
		t.Errorf("the report of the last end of a session that goes on: %d differences", n)
	}
}

// What came of a task stands in the log at once; the decision about it may be behind
// when a process is killed.
func TestOutcomesThatOnlyTheLogHas(t *testing.T) {
	fsys := afero.NewMemMapFs()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	open := func() *Folder {
		f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Now: func() time.Time { now = now.Add(time.Millisecond); return now }})
		must(t, err)
		return f
	}
	f := open()
	f.Begin()
	f.Outcome(f.Decide(Decision{TaskID: "T-0"}), "retry")
	f.Log(Event{Type: Retried, TaskID: "T-0"})
	for _, id := range []string{"T-0", "T-1", "T-2", "T-3"} {
		f.Decide(Decision{TaskID: id})
	}
	f.Log(Event{Type: TaskComplete, TaskID: "T-1", Result: "done"})
	f.Log(Event{Type: Retried, TaskID: "T-2"})
	f.Log(Event{Type: TaskComplete, TaskID: "T-2", Result: "failed"}) // of a decision that the file does not have
	must(t, f.Flush())                                                // and then it is killed
	f = open()
	f.CutOff()
	must(t, f.Flush())
	d, err := Read(fsys, dir)
	must(t, err)
	var got []string
	for _, x := range d.Decisions {
		got = append(got, x.TaskID+" "+x.Outcome)
	}
	if want := []string{"T-0 retry", "T-0 interrupted", "T-1 success", "T-2 retry", "T-3 interrupted"}; !slices.Equal(got, want) {
		t.Errorf("the decisions came out as %q, want %q", got, want)
	}
	must(t, f.Close())
}

// A session that a former version began goes on: free text in result becomes the
// details, the name of the phase stays, and the ids mean the same.
func TestFilesOfFormerVersions(t *testing.T) {
	fsys := afero.NewMemMapFs()
	put(t, fsys, progressFile, `session_id: '001'
last_updated: 2026-11-22T09:00:00Z
progress: {current_task_id: "T-2", current_phase: implementation, overall_progress: 50, phase_progress: 50}
tasks:
- {task_id: T-1, status: completed, started_at: 2026-11-22T08:00:00Z, completed_at: 2026-11-22T08:01:00Z, duration_seconds: 60, result: it works, artifacts: [a.go]}
- {task_id: T-2, status: in_progress, started_at: 2026-11-22T08:02:00Z, completed_at: null, duration_seconds: null, result: "", artifacts: []}
- {task_id: T-3, status: error, started_at: null, completed_at: null, duration_seconds: null, result: no way, artifacts: []}
milestones: []
quality_gates:
- {name: make test, metric: exit_code, threshold: 0, operator: ==, passed: false}
`)
	put(t, fsys, decisionsFile, `{"session_id": "001", "decisions": [{"timestamp": "2026-11-22T08:02:00Z", "task_id": "T-2", "decision_type": "help_request", "outcome": "done"}]}`)
	put(t, fsys, metadataFile, "session_id: \"001\"\nsession_name: run\nstart_time: 2026-11-22T08:00:00Z\nend_time: null\nstatus: paused\nphase: 1\nphase_name: implementation\ntasks_completed: 1\ntasks_total: 3\n")
	f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Now: ticking()})
	must(t, err)
	f.Task(TaskState{TaskID: "T-2", Status: TaskCompleted, Details: "it works too"})
	f.Planned(Gate{Name: "make test", Metric: "exit_code", Operator: "=="})
	if c := f.Counts(); c.PhaseName != "implementation" || c.Completed != 2 || c.Tasks != 3 {
		t.Errorf("%+v", c)
	}
	f.Phase(2, "implementation", 66)
	f.Decide(Decision{TaskID: "T-3", DecisionType: DecisionTask})
	must(t, f.Close())
	d, err := Read(fsys, dir)
	must(t, err)
	var got []string
	for _, x := range d.Progress.Tasks {
		got = append(got, fmt.Sprintf("%s %s %q %q", x.TaskID, x.Status, x.Result, x.Details))
	}
	if want := []string{`T-1 completed "success" "it works"`, `T-2 completed "success" "it works too"`, `T-3 error "failure" "no way"`}; !slices.Equal(got, want) {
		t.Errorf("the tasks are %q", got)
	}
	if at := d.Progress.Progress; at.CurrentPhase != 2 || at.PhaseName != "implementation" || d.Progress.SessionID != "session-001" || !d.Progress.QualityGates[0].Is(false) {
		t.Errorf("%+v", d.Progress)
	}
	for _, x := range d.Differences() {
		if x.Field == "session_id" {
			t.Errorf("the ids are told apart: %v", x)
		}
	}
	if len(d.Problems) > 0 || len(d.Decisions) != 2 {
		t.Errorf("%v %+v", d.Problems, d.Decisions)
	}
}
