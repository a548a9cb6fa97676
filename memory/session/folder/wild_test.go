package folder

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"
)

func put(t testing.TB, fsys afero.Fs, name, text string) {
	t.Helper()
	must(t, afero.WriteFile(fsys, filepath.Join(dir, name), []byte(text), 0o600))
}

func get(t testing.TB, fsys afero.Fs, name string) string {
	t.Helper()
	data, err := afero.ReadFile(fsys, filepath.Join(dir, name))
	must(t, err)
	return string(data)
}

// TestWild: what other tools write is read as far as it can be understood.
func TestWild(t *testing.T) {
	fsys := afero.NewMemMapFs()
	put(t, fsys, metadataFile, "session_id: 001\nsession_name: wild\nstart_time: 2025-03-04 05:06:07\nend_time: ~\nstatus: in_progress\nphase: discovery\n"+
		"tasks_completed: 0\ntasks_total: \"50\"\nextra: {a: [1]}\nperformance_metrics: {success_rate: 85%, error_count: x}\n")
	put(t, fsys, logFile, `{"session_id": 1, "events": [
		{"timestamp": "2025-03-04T05:06:08Z", "type": "task_complete", "data": {"task_id": "T1", "n": 1.5}, "level": "info"},
		"no event", null, {"timestamp": 1741064769, "event_type": "session_end", "result": "success", "details": null}], "more": {}}`)
	put(t, fsys, inventoryFile, `[{"id": "F001", "name": "a", "category": "c", "directory": "d", "purpose": "p", "key_files": [], "dependencies": ["x"], "status": "documented"}, 7]`)
	put(t, fsys, progressFile, "tasks:\n- {task_id: 007, status: completed, duration_seconds: '12'}\n- none\nprogress: {overall_progress: 100%}\n")
	put(t, fsys, decisionsFile, `{"decisions": [{"timestamp": "2025-03-04T05:06:08", "type": "x", "decision": "go", "confidence": "0.5"}]}`)
	put(t, fsys, errorsFile, `{"errors": {"not": "a list"}, "circuit_breaker_trips": [1]}`)
	put(t, fsys, reportFile, "# Session Final Report: session-001\n\n- **Session Name**: wild\n**Status:** ✅ Completed\n\n## X\n**Status:** quoted\n")
	d, err := Read(fsys, dir)
	must(t, err)
	if d.Meta.SessionID != "001" || d.Meta.PhaseName != "discovery" || d.Meta.Total != 50 || d.Meta.SuccessRate != 85 || !d.Meta.Start.Equal(time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC)) {
		t.Errorf("%+v", d.Meta)
	}
	if d.Log.Events != 2 || !d.Log.Completed["T1"] || d.Log.End != "success" {
		t.Errorf("%+v", d.Log)
	}
	if p := d.Progress; len(p.Tasks) != 1 || p.Tasks[0].TaskID != "007" || *p.Tasks[0].DurationSeconds != 12 || p.Progress.OverallProgress != 100 {
		t.Errorf("%+v", p)
	}
	if x := d.Decisions; len(x) != 1 || x[0].Decision.Action != "go" || x[0].Decision.Confidence != 0.5 || x[0].Time.IsZero() {
		t.Errorf("%+v", x)
	}
	if f := d.Inventory.Features; len(f) != 1 || f[0].FeatureID != "F001" || !f[0].Documented || f[0].Dependencies[0] != "x" {
		t.Errorf("%+v", f)
	}
	if d.Report.Status != "✅ Completed" || d.Report.Name != "wild" {
		t.Errorf("%+v", d.Report)
	}
	var odd []string
	for _, p := range d.Problems {
		odd = append(odd, p.File)
	}
	if want := []string{progressFile, errorsFile, inventoryFile}; !slices.Equal(odd, want) {
		t.Errorf("%v", d.Problems)
	}
	var events []Event
	_, err = Events(fsys, dir, func(e Event) error { events = append(events, e); return nil })
	must(t, err)
	if e := events[0]; e.TaskID != "T1" || e.Details["n"] != 1.5 || e.Details["level"] != "info" {
		t.Errorf("%+v", e)
	}
}

// TestDifferences: planted contradictions are all named and nothing else is.
func TestDifferences(t *testing.T) {
	fsys := afero.NewMemMapFs()
	put(t, fsys, metadataFile, "session_id: '001'\nstatus: in_progress\nstart_time: 2026-01-01T10:00:00Z\nend_time: null\ntasks_completed: 0\ntasks_total: 50\nperformance_metrics: {success_rate: 1, error_count: 3}\n")
	put(t, fsys, reportFile, "# Session Final Report: session-002\n\n**Status:** Completed\n")
	put(t, fsys, progressFile, `progress: {overall_progress: 10}
tasks:
- {task_id: A, status: completed, started_at: 2026-01-01T10:00:00Z, completed_at: 2026-01-01T10:01:00Z, duration_seconds: 600}
- {task_id: B, status: pending, completed_at: 2026-01-01T10:01:00Z}
- {task_id: A, status: completed}
quality_gates: [{name: cov, metric: coverage, operator: '>=', threshold: 80, passed: true}]
`)
	put(t, fsys, logFile, `{"session_id":"001","events":[{"timestamp":"2026-01-01T09:00:00Z","event_type":"task_complete","task_id":"B"},{"timestamp":"2026-01-01T08:00:00Z","event_type":"message"}]}`)
	put(t, fsys, errorsFile, `{"errors":[]}`)
	put(t, fsys, metricsFile, `{"metrics":[{"name":"coverage","value":99,"measured_at":"2026-01-01T09:00:00Z"},{"name":"coverage","value":50,"measured_at":"2026-01-01T10:00:00Z"}]}`)
	put(t, fsys, inventoryFile, `{"features":[{"feature_id":"F001","category":"ui","status":"documented","documented":true}],"statistics":{"total_features":2,"by_category":{"ui":1,"api":1},"by_status":{"documented":1},"documentation_coverage":50}}`)
	d, err := Read(fsys, dir)
	must(t, err)
	var got []string
	for _, x := range d.Differences() {
		got = append(got, x.String())
	}
	want := []string{
		"session_id: the directory says session-001-fix, final-report.md says session-002",
		"task_id: progress-tracking.yaml says A, progress-tracking.yaml says A again",
		"status: session-metadata.yaml says in_progress, final-report.md says Completed",
		"tasks_completed: session-metadata.yaml says 0, progress-tracking.yaml says 2",
		"tasks_total: session-metadata.yaml says 50, progress-tracking.yaml says 3",
		"error_count: session-metadata.yaml says 3, errors-and-retries.json says 0",
		"overall_progress: progress-tracking.yaml says 10, progress-tracking.yaml (tasks) says 66.7",
		"task B: execution-log.json says completed, progress-tracking.yaml says pending",
		"start_time: session-metadata.yaml says 2026-01-01T10:00:00Z, execution-log.json says a first event at 2026-01-01T08:00:00Z",
		"timestamp: execution-log.json says events in order, execution-log.json says 1 older than the one before",
		"task A: progress-tracking.yaml says a duration of 600 s, progress-tracking.yaml says 60 s from start to end",
		"task B: progress-tracking.yaml says status pending, progress-tracking.yaml says completed at 2026-01-01T10:01:00Z",
		"statistics.total_features: feature-inventory.json says 2, feature-inventory.json (features) says 1",
		"statistics.by_category.api: feature-inventory.json says 1, feature-inventory.json (features) says 0",
		"statistics.documentation_coverage: feature-inventory.json says 0.5, feature-inventory.json (features) says 1",
		"quality gate cov: progress-tracking.yaml says passed: true, quality-metrics.json says coverage = 50, to be >= 80",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnknownKeysStay: at every level, also those that a person adds while the
// folder is open, and where a value refers to another.
func TestUnknownKeysStay(t *testing.T) {
	fsys := afero.NewMemMapFs()
	put(t, fsys, progressFile, `session_id: "001"
mine: &a {x: [1, 2]}
progress: {current_task_id: T-1, ours: *a}
tasks:
- {task_id: T-1, status: in_progress, started_at: &when 2026-11-21T09:00:00Z, owner: kim, since: *when}
- {task_id: T-9, status: pending, owner: lee}
milestones: [{name: M1, target: t, achieved: false, note: soon}]
quality_gates: [{name: G1, metric: m, threshold: 1, operator: '>', passed: false, note: later}]
`)
	put(t, fsys, decisionsFile, `{"theirs": {"a": 1},
  "decisions": [
    {"timestamp": "2020-01-01T00:00:00Z", "mine": true}
  ], "tail": [1]
}`)
	f := opened1(t, fsys)
	work(f)
	f.Task(TaskState{TaskID: "T-1", Status: TaskCompleted})
	f.Milestone(Milestone{Name: "M1", Achieved: true})
	f.Gate(Gate{Name: "G1", Passed: is(true)})
	text := strings.Replace(get(t, fsys, progressFile), "owner: lee", "owner: lee\n  added: meanwhile", 1)
	put(t, fsys, progressFile, text+"live: yes please\n")
	f.Task(TaskState{TaskID: "T-10"})
	must(t, f.Close())
	top, err := fromYAML([]byte(get(t, fsys, progressFile)))
	must(t, err)
	o := top.(object)
	tasks, _ := o.objects("tasks")
	if len(tasks) != 6 || tasks[0].text("owner") != "kim" || tasks[0].text("since") != "2026-11-21T09:00:00Z" || tasks[0].text("status") != "completed" || tasks[1].text("added") != "meanwhile" || tasks[5].text("task_id") != "T-10" {
		t.Errorf("%v", tasks)
	}
	marks, _ := o.objects("milestones")
	gates, _ := o.objects("quality_gates")
	if o.object("mine") == nil || o.object("progress").object("ours") == nil || o.text("live") != "yes please" || marks[0].text("note") != "soon" || !marks[0].flag("achieved") || gates[0].text("note") != "later" || !gates[0].flag("passed") {
		t.Errorf("%s", get(t, fsys, progressFile))
	}
	top, err = fromJSON([]byte(get(t, fsys, decisionsFile)))
	must(t, err)
	list, _ := top.(object).objects("decisions")
	if top.(object).object("theirs") == nil || top.(object).find("tail") == nil || len(list) != 2 || !list[0].flag("mine") || list[1].text("outcome") != "success" {
		t.Errorf("%s", get(t, fsys, decisionsFile))
	}
}

// TestHostileTexts: whatever stands in a text, the files can be read and say
// it.
func TestHostileTexts(t *testing.T) {
	texts := []string{"", "001", "1e3", "0x1F", "null", "~", "yes", "1:30", "2026-01-01", "a: b", "- x", "#c", "*a", "&a", "!t", "%d", "@x", "`x`", "'", `"`, "a\nb\n", "\n\n", " x ", "\ttab",
		"nul\x00esc\x1b[31m", "del\x7f", "\u0085\u2028\u2029", "bidi\u202e", "\ufeffbom", "\xff\xfe bad", "emoji 🎉", "</script>", "]]}\n]}\n", "{{{", "---", "...", "? x", strings.Repeat("long ", 2000)}
	fsys := afero.NewMemMapFs()
	f := opened1(t, fsys)
	for i, text := range texts {
		id := fmt.Sprintf("%d %s", i, text)
		f.Task(TaskState{TaskID: id, Status: TaskCompleted, Details: text, Artifacts: []string{text}})
		f.Milestone(Milestone{Name: id, Target: text})
		f.Phase(1, text, 1)
		f.Log(Event{Type: Message, TaskID: text, Result: text, Details: map[string]any{text: text}})
		f.Resolve(f.Fail(Failure{ErrorType: text, ErrorMessage: id}), text, 1)
		f.Measure(Metric{Name: text, Source: text})
	}
	must(t, report(f, texts...))
	must(t, f.Close())
	d, err := Read(fsys, dir)
	must(t, err)
	if len(d.Problems) != 0 || d.Log.Events != len(texts) || len(d.Progress.Tasks) != len(texts) || len(d.Failures) != len(texts) {
		t.Fatalf("%v %d %d %d", d.Problems, d.Log.Events, len(d.Progress.Tasks), len(d.Failures))
	}
	for i, text := range texts {
		text = strings.ToValidUTF8(text, "\ufffd")
		if got := d.Progress.Tasks[i]; got.Details != text || got.TaskID != fmt.Sprintf("%d %s", i, text) {
			t.Errorf("%q became %q", text, got.Details)
		}
		if got := d.Failures[i]; !got.Resolved || strings.ReplaceAll(got.RecoveryAction, "\ufffd\ufffd", "\ufffd") != text {
			t.Errorf("%q: %+v", text, got)
		}
	}
	report := get(t, fsys, reportFile)
	if strings.Contains(report, "\x1b") || strings.Contains(report, "\n# C") || strings.Count(report, "\n## ") != 8 {
		t.Errorf("%d sections", strings.Count(report, "\n## "))
	}
}

// TestReportOfOthers: a report that somebody else wrote or edited is set aside,
// our own is replaced.
func TestReportOfOthers(t *testing.T) {
	fsys := afero.NewMemMapFs()
	f := opened1(t, fsys)
	must(t, report(f))
	must(t, report(f))
	if names := aside(t, fsys); len(names) != 0 {
		t.Errorf("%v", names)
	}
	put(t, fsys, reportFile, strings.Replace(get(t, fsys, reportFile), "None recorded.", "I learned much.", 1))
	must(t, report(f))
	if names := aside(t, fsys); len(names) != 1 {
		t.Errorf("%v", names)
	}
	for _, section := range []string{"Executive Summary", "Progress", "Artifacts Generated", "Metrics", "Challenges & Solutions", "Lessons Learned", "Next Steps", "Raw Data"} {
		if !strings.Contains(get(t, fsys, reportFile), "\n## "+section+"\n") {
			t.Error(section)
		}
	}
	must(t, f.Close())
}

func aside(t testing.TB, fsys afero.Fs) []string {
	t.Helper()
	infos, err := afero.ReadDir(fsys, "/p/.ralph/quarantine")
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range infos {
		names = append(names, i.Name())
	}
	return names
}

// TestBroken: a file that is broken is set aside, never lost, and begun anew.
func TestBroken(t *testing.T) {
	garbage := map[string]string{"text": "garbage", "nul": strings.Repeat("\x00", 5000), "cut": `{"session_id": "001", "events": [{"a"`, "number": "7", "deep": strings.Repeat("[", 20000), "binary": "\xff\xfe\x00\x01{", "yaml": "a: [", "anchor": "*x"}
	for kind, text := range garbage {
		for _, name := range []string{logFile, progressFile, decisionsFile, errorsFile, metricsFile, reportFile} {
			fsys := afero.NewMemMapFs()
			put(t, fsys, name, text)
			put(t, fsys, "foreign.txt", "mine")
			f := opened1(t, fsys)
			work(f)
			err := report(f)
			if err := f.Close(); err != nil {
				t.Errorf("%s in %s: %v", kind, name, err)
			}
			must(t, err)
			d, err := Read(fsys, dir)
			must(t, err)
			if len(d.Problems) != 0 || d.Log.Events != 4 || len(d.Decisions) != 1 || d.Decisions[0].Outcome == "" || len(d.Failures) != 2 || !d.Failures[0].Resolved || len(d.Metrics) != 1 || len(d.Progress.Tasks) != 3 {
				t.Errorf("%s in %s: %+v", kind, name, d)
			}
			if len(aside(t, fsys)) != 1 {
				t.Errorf("%s in %s: set aside: %v", kind, name, aside(t, fsys))
			}
			if get(t, fsys, "foreign.txt") != "mine" {
				t.Error("a foreign file was touched")
			}
		}
	}
}

// TestBrokenMeanwhile: a file that somebody breaks while it is in use is set
// aside as well, and the tasks that are known stay.
func TestBrokenMeanwhile(t *testing.T) {
	fsys := afero.NewMemMapFs()
	f := opened1(t, fsys)
	work(f)
	for _, name := range []string{logFile, progressFile, decisionsFile, errorsFile, metricsFile} {
		put(t, fsys, name, "broken: [")
	}
	work(f)
	must(t, f.Close())
	d, err := Read(fsys, dir)
	must(t, err)
	if len(d.Problems) != 0 || len(d.Progress.Tasks) != 3 || len(d.Decisions) != 1 || d.Log.Events != 4 {
		t.Errorf("%+v", d)
	}
	if got := aside(t, fsys); len(got) != 5 {
		t.Errorf("%v", got)
	}
}

// TestTwice: a key that is there twice.
func TestTwice(t *testing.T) {
	fsys := afero.NewMemMapFs()
	put(t, fsys, progressFile, "tasks: [{task_id: a}, {task_id: b}]\nmilestones: [{name: m}]\nmilestones: []\ntasks: [{task_id: a}, {task_id: a}]\n")
	put(t, fsys, decisionsFile, `{"decisions": [], "session_id": 1, "decisions": [{"a": 1}]}`)
	f := opened1(t, fsys)
	work(f)
	must(t, f.Close())
	if d, err := Read(fsys, dir); err != nil || len(d.Problems) != 0 || len(d.Progress.Tasks) < 3 || d.Decisions[len(d.Decisions)-1].Outcome != "success" {
		t.Errorf("%+v %v", d, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"events":[{"timestamp":"x","data":{"a":[1]}}]}`), []byte("tasks: [{task_id: 001}]"))
	f.Add([]byte(`{"events":[],"events":[1],"decisions":{},"errors":[{}],"errors":0}`), []byte("tasks: [{}]\ntasks: 1\n"))
	f.Add([]byte(`[{}]`), []byte("a: &a [*a]"))
	f.Add([]byte("\xef\xbb\xbf{}"), []byte("session_id: 1\nphase: [1"))
	f.Fuzz(func(t *testing.T, j, y []byte) {
		fsys := afero.NewMemMapFs()
		for _, n := range []string{logFile, decisionsFile, errorsFile, metricsFile, inventoryFile, reportFile} {
			put(t, fsys, n, string(j))
		}
		put(t, fsys, metadataFile, string(y))
		put(t, fsys, progressFile, string(y))
		d, err := Read(fsys, dir)
		must(t, err)
		d.Differences()
		d.render([]string{string(j)})
		fl := opened1(t, fsys)
		work(fl)
		must(t, fl.Close())
		if d, err = Read(fsys, dir); err != nil || d.Log.Events < 4 || d.Decisions[len(d.Decisions)-1].Outcome == "" || len(d.Progress.Tasks) < 3 {
			t.Fatalf("%+v %v", d, err)
		}
	})
}
