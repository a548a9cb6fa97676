package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/memory/feature"
	"ralph/memory/session"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// base is a session in which nothing contradicts anything.
func baseFiles() map[string]string {
	return map[string]string{
		metadataFile: `session_id: "001"
session_name: fix
start_time: 2026-01-02T10:00:00Z
end_time: 2026-01-02T10:10:00Z
status: completed
tasks_completed: 2
tasks_total: 2
performance_metrics: {total_duration_seconds: 600, success_rate: 1, error_count: 1}
`,
		logFile: `{"session_id":"001","events":[
{"timestamp":"2026-01-02T10:00:00Z","event_type":"session_start","details":{}},
{"timestamp":"2026-01-02T10:01:00Z","event_type":"task_start","task_id":"T-1","details":{"iteration":1}},
{"timestamp":"2026-01-02T10:02:00Z","event_type":"error","task_id":"T-1","result":"x","details":{}},
{"timestamp":"2026-01-02T10:04:00Z","event_type":"task_complete","task_id":"T-1","result":"done","duration_seconds":180,"details":{}},
{"timestamp":"2026-01-02T10:04:00Z","event_type":"task_start","task_id":"T-2","details":{"iteration":2}},
{"timestamp":"2026-01-02T10:05:00Z","event_type":"decision","task_id":"T-2","result":"execute","details":{}},
{"timestamp":"2026-01-02T10:06:00Z","event_type":"task_complete","task_id":"T-2","result":"done","duration_seconds":120,"details":{}},
{"timestamp":"2026-01-02T10:10:00Z","event_type":"session_end","result":"completed","details":{}}
]}`,
		progressFile: `session_id: "001"
progress: {overall_progress: 100, phase_progress: 100}
tasks:
- {task_id: T-1, status: completed, started_at: 2026-01-02T10:01:00Z, completed_at: 2026-01-02T10:04:00Z, duration_seconds: 180}
- {task_id: T-2, status: completed, started_at: 2026-01-02T10:04:00Z, completed_at: 2026-01-02T10:06:00Z, duration_seconds: 120}
`,
		decisionsFile: `{"session_id":"001","decisions":[{"timestamp":"2026-01-02T10:05:00Z","task_id":"T-2","decision_type":"task","decision":{"action":"execute","confidence":0.8}}]}`,
		errorsFile:    `{"session_id":"001","errors":[{"timestamp":"2026-01-02T10:02:00Z","task_id":"T-1","error_type":"e","error_message":"m","severity":"low","resolved":true,"resolution_time_seconds":3}],"circuit_breaker_trips":[]}`,
		inventoryFile: `{"session_id":"001","features":[{"feature_id":"F001","name":"a","category":"c","status":"documented","documented":true},{"feature_id":"F002","name":"b","category":"c","status":"discovered","documented":false}],
"statistics":{"total_features":2,"by_category":{"c":2},"by_status":{"documented":1,"discovered":1},"documentation_coverage":0.5}}`,
		documentsFile:               `{"session_id":"001","documents":[{"feature_id":"F001","path":"docs/a.md","title":"A","words":3,"status":"done"}]}`,
		reportFile:                  "# Session Final Report: session-001\n\n**Session Name:** fix\n\n**Date:** 2026-01-02\n\n**Status:** Completed\n",
		"iterations/001-T-1.md":     "# Iteration 1\n",
		"iterations/002-T-2.md":     "# Iteration 2\n",
		"../../../docs/a.md":        "one two three\n",
		"../fix.json":               "not read here",
		"foreign/whatever.bin":      "\x00\x01",
		"iterations/notes of mine":  "mine",
		"quality-metrics.json":      `{"session_id":"001","metrics":[]}`,
		"conversation.md":           "hello\n",
		"session-metadata.yaml.bak": "old",
	}
}

// lay writes a session of these files and returns what checks it.
func lay(t testing.TB, files map[string]string) Options {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "p", ".ralph", "sessions", "session-001-fix")
	for name, text := range files {
		if strings.HasPrefix(name, "../../../") {
			name = strings.TrimPrefix(name, "../../../")
			name = filepath.Join("..", "..", "..", name)
		}
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return Options{Dir: dir, Root: filepath.Join(root, "p")}
}

// journaled adds a journal of that many records.
func journaled(t testing.TB, o Options, kinds ...string) string {
	t.Helper()
	path := filepath.Join(o.Dir, journalFile)
	j, err := session.OpenJournal(nil, path, filepath.Join(filepath.Dir(o.Dir), "quarantine"), nil)
	must(t, err)
	for _, k := range kinds {
		must(t, j.Append(0, session.Record{Kind: k, Payload: json.RawMessage(`{"text":"x"}`)}))
	}
	must(t, j.Close())
	return path
}

func run(t testing.TB, o Options) Report {
	t.Helper()
	got, err := Run(context.Background(), o)
	must(t, err)
	return got
}

// lines are the differences as text, with their ids.
func lines(r Report) []string {
	var out []string
	for _, d := range r.Differences {
		out = append(out, strings.TrimSpace(d.String()+" "+strings.Join(d.IDs, ",")))
	}
	return out
}

func TestCleanSessions(t *testing.T) {
	o := lay(t, baseFiles())
	if got := run(t, o); len(got.Differences) > 0 || got.Events != 8 {
		t.Errorf("%d events, %q", got.Events, lines(got))
	}
	journaled(t, o, "message", "event", "event")
	o.Registered = "completed"
	o.Snapshot = &feature.Snapshot{Feature: "fix", Status: feature.Completed, Tasks: feature.Count{Completed: 2, Total: 2}, Iteration: 2, MaxIterations: 5}
	if got := run(t, o); len(got.Differences) > 0 || got.Records != 3 || len(got.Notes) > 0 {
		t.Errorf("%q %q", lines(got), got.Notes)
	}
	// An empty one, and one of which the raw files were deleted.
	for _, drop := range [][]string{{logFile, errorsFile, decisionsFile, "iterations/001-T-1.md", "iterations/002-T-2.md"}, {progressFile, logFile, reportFile}} {
		files := baseFiles()
		for _, name := range drop {
			delete(files, name)
		}
		if got := run(t, lay(t, files)); len(got.Differences) > 0 {
			t.Errorf("without %q: %q", drop, lines(got))
		}
	}
}

// TestPlanted: each contradiction is found, and nothing else is said.
func TestPlanted(t *testing.T) {
	swap := func(file, old, new string) func(map[string]string) {
		return func(f map[string]string) {
			if !strings.Contains(f[file], old) {
				panic(file + " has no " + old)
			}
			f[file] = strings.Replace(f[file], old, new, 1)
		}
	}
	for name, tc := range map[string]struct {
		plant func(map[string]string)
		want  []string
	}{
		"unknown task in the log": {swap(logFile, `"task_start","task_id":"T-2"`, `"task_start","task_id":"T-9"`),
			[]string{"task_id: execution-log.json says T-9, progress-tracking.yaml says not listed e5", "iteration 2: execution-log.json says task T-9, iterations says 002-T-2.md e5"}},
		"unknown task in the decisions": {swap(decisionsFile, `T-2`, `T-8`), []string{"task_id: decision-history.json says T-8, progress-tracking.yaml says not listed d1"}},
		"unknown task in the errors":    {swap(errorsFile, `T-1`, `T-8`), []string{"task_id: errors-and-retries.json says T-8, progress-tracking.yaml says not listed x1"}},
		"foreign event":                 {swap(logFile, `"event_type":"decision"`, `"event_type":"thought"`), []string{"event_type: execution-log.json says thought, once, the format says no such type e6"}},
		"no type":                       {swap(logFile, `"event_type":"decision",`, ``), []string{"event_type: execution-log.json says 1 event without, the format says each has one e6"}},
		"no time":                       {swap(logFile, `"timestamp":"2026-01-02T10:05:00Z",`, ``), []string{"timestamp: execution-log.json says 1 event without a time that can be read, the format says each has one e6"}},
		"out of order":                  {swap(logFile, `"2026-01-02T10:05:00Z"`, `"2026-01-02T10:03:00Z"`), []string{"timestamp: execution-log.json says events in order, execution-log.json says 1 older than the one before e6"}},
		"two zones":                     {swap(logFile, `"2026-01-02T10:05:00Z"`, `"2026-01-02T12:05:00+02:00"`), []string{"timestamp: execution-log.json says zones +02:00 once, Z 7 times, the format says UTC e6"}},
		"no zone":                       {swap(logFile, `"2026-01-02T10:05:00Z"`, `"2026-01-02T10:05:00"`), []string{"timestamp: execution-log.json says zones Z 7 times, none once, the format says UTC e6"}},
		"less than nothing":             {swap(logFile, `"duration_seconds":120`, `"duration_seconds":-4`), []string{"duration_seconds: execution-log.json says -4 s, the format says 0 s or more e7"}},
		"longer than the session":       {swap(logFile, `"duration_seconds":120`, `"duration_seconds":7200`), []string{"duration_seconds: execution-log.json says 7200 s, 360 s after the first event, execution-log.json says durations within the time that passed e7"}},
		"done before begun": {func(f map[string]string) {
			swap(logFile, `"task_start","task_id":"T-2"`, `"task_complete","task_id":"T-2"`)(f)
			swap(logFile, `"task_complete","task_id":"T-2","result":"done","duration_seconds":120`, `"task_start","task_id":"T-2"`)(f)
			delete(f, "iterations/002-T-2.md")
		}, []string{"task order: execution-log.json says completed before it began: T-2, the format says task_start first e5"}},
		"after the end": {swap(logFile, "\n]}", `,{"timestamp":"2026-01-02T10:10:01Z","event_type":"message","details":{}},{"timestamp":"2026-01-02T10:10:01Z","event_type":"session_end","result":"completed","details":{}}]}`),
			[]string{"session_end: execution-log.json says message, session_end behind session_end, the format says nothing until the next session_start e9,e10"}},
		"errors": {swap(logFile, `"event_type":"decision"`, `"event_type":"error"`), []string{"errors: execution-log.json says 2, errors-and-retries.json says 1"}},
		"decisions": {swap(logFile, `"event_type":"error","task_id":"T-1"`, `"event_type":"decision","task_id":"T-1"`),
			[]string{"decisions: execution-log.json says 2, decision-history.json says 1"}},
		"confidence":         {swap(decisionsFile, `0.8`, `80`), []string{"confidence: decision-history.json says 80, the format says 0 to 1 d1"}},
		"not resolved":       {swap(errorsFile, `true`, `false`), []string{"resolution_time_seconds: errors-and-retries.json says not resolved after 3 s, the format says a time for what is resolved x1"}},
		"resolved early":     {swap(errorsFile, `:3}`, `:-3}`), []string{"resolution_time_seconds: errors-and-retries.json says resolved after -3 s, the format says a time for what is resolved x1"}},
		"progress":           {swap(progressFile, `phase_progress: 100`, `phase_progress: 140`), []string{"phase_progress: progress-tracking.yaml says 140, the format says 0 to 100"}},
		"no iteration":       {func(f map[string]string) { delete(f, "iterations/001-T-1.md") }, []string{"iteration 1: execution-log.json says task T-1, iterations says no file of it e2"}},
		"one iteration more": {func(f map[string]string) { f["iterations/007-T-1.md"] = "x" }, []string{"iteration 7: iterations says 007-T-1.md, execution-log.json says no such iteration"}},
		"an iteration twice": {func(f map[string]string) { f["iterations/002-T-0.md"] = "x" }, []string{"iteration: iterations says 002-T-0.md, iterations says 002-T-2.md"}},
		"no document":        {func(f map[string]string) { delete(f, "../../../docs/a.md") }, []string{"document 1: feature-docs-generated.json says docs/a.md, the disk says no such file or directory"}},
		"a document outside": {swap(documentsFile, "docs/a.md", "../../etc/passwd"), []string{"document 1: feature-docs-generated.json says ../../etc/passwd, the format says a path within the project"}},
		"a document of nothing": {swap(documentsFile, "F001", "F009"),
			[]string{"document 1: feature-docs-generated.json says F009, feature-inventory.json says no such feature", "feature F001: inventory", "documented: true"}},
		"documents of another session": {swap(documentsFile, `"001"`, `"004"`), []string{"session_id: session-metadata.yaml says 001, feature-docs-generated.json says 004"}},
		"documents cut off":            {swap(documentsFile, `"done"}]}`, ``), []string{"unreadable: feature-docs-generated.json"}},
		"a cut log":                    {swap(logFile, "\n]}", ""), []string{"unreadable: execution-log.json says"}},
		"no metadata":                  {func(f map[string]string) { delete(f, metadataFile) }, []string{"missing: the directory says no session-metadata.yaml"}},
		"garbage":                      {func(f map[string]string) { f[errorsFile] = "\x00\x00" }, []string{"unreadable: errors-and-retries.json says parse"}},
		"a report of another end":      {swap(reportFile, "Completed", "Error"), []string{"status: session-metadata.yaml says completed, final-report.md says Error"}},
		"in progress": {func(f map[string]string) {
			swap(metadataFile, "status: completed", "status: in_progress")(f)
			swap(metadataFile, "end_time: 2026-01-02T10:10:00Z", "end_time: null")(f)
			swap(metadataFile, "tasks_completed: 2\ntasks_total: 2", "tasks_completed: 0\ntasks_total: 50")(f)
			swap(metadataFile, "success_rate: 1", "success_rate: 0")(f)
		}, []string{"status: session-metadata.yaml says in_progress, final-report.md says Completed", "tasks_completed: session-metadata.yaml says 0", "tasks_total: session-metadata.yaml says 50", "success_rate"}},
		"a status that is none":   {swap(metadataFile, "status: completed", "status: finished"), []string{"status: session-metadata.yaml says finished, the format says in_progress, completed"}},
		"an average that is none": {swap(metadataFile, "success_rate: 1", "success_rate: 1, average_task_duration: 20"), []string{"average_task_duration: session-metadata.yaml says 20, progress-tracking.yaml says 150"}},
		"an unknown current task": {swap(progressFile, "{overall", "{current_task_id: T-99, overall"), []string{"current_task_id: progress-tracking.yaml says T-99"}},
		"no time of completion":   {swap(progressFile, "completed_at: 2026-01-02T10:04:00Z, ", ""), []string{"task T-1: progress-tracking.yaml says status completed, progress-tracking.yaml says no completed_at"}},
		"completed when all was over": {swap(progressFile, "completed_at: 2026-01-02T10:06:00Z", "completed_at: 2026-01-03T10:06:00Z"),
			[]string{"task T-2: progress-tracking.yaml says completed at 2026-01-03T10:06:00Z, session-metadata.yaml says an end at 2026-01-02T10:10:00Z"}},
		"updated before the tasks": {swap(progressFile, "progress:", "last_updated: 2026-01-02T10:05:00Z\nprogress:"), []string{"last_updated: progress-tracking.yaml says 2026-01-02T10:05:00Z, progress-tracking.yaml (tasks) says completed at 2026-01-02T10:06:00Z"}},
		"a milestone of no time":   {swap(progressFile, "tasks:", "milestones: [{name: m, achieved: true}]\ntasks:"), []string{"milestone m: progress-tracking.yaml says achieved: true, progress-tracking.yaml says no achieved_at"}},
		"an operator that is none": {swap(progressFile, "tasks:", "quality_gates: [{name: g, metric: m, operator: '~~'}]\ntasks:"), []string{"quality gate g: progress-tracking.yaml says operator ~~"}},
		"a severity that is none":  {swap(errorsFile, `"low"`, `"huge"`), []string{"severity: errors-and-retries.json says huge, the format says low, medium, high or critical x1"}},
		"retries below nothing":    {swap(errorsFile, `"severity"`, `"retry_count":-1,"severity"`), []string{"retry_count: errors-and-retries.json says -1"}},
		"an error of another year": {swap(errorsFile, "2026-01-02", "2027-01-02"), []string{"timestamp: errors-and-retries.json says 2027-01-02T10:02:00Z, session-metadata.yaml says a session from 2026-01-02T10:00:00Z to 2026-01-02T10:10:00Z x1"}},
		"a risk that is none":      {swap(decisionsFile, `"decision":{`, `"context":{"risk_assessment":{"execution":9}},"decision":{`), []string{"risk_assessment: decision-history.json says 9, the format says 0 to 1 d1"}},
		"a gate that did not pass": {swap(logFile, `"event_type":"decision","task_id":"T-2","result":"execute","details":{}`, `"event_type":"gate","task_id":"T-2","result":"passed","details":{"exit_code":1}`),
			[]string{"gate: execution-log.json says passed, execution-log.json says exit code 1 e6"}},
		"a trip of no event": {func(f map[string]string) {
			swap(errorsFile, `"circuit_breaker_trips":[]`, `"circuit_breaker_trips":[{"condition":"a"},{"condition":"b"}]`)(f)
			swap(logFile, `"event_type":"decision"`, `"event_type":"breaker"`)(f)
		}, []string{"circuit_breaker_trips: execution-log.json says 1, errors-and-retries.json says 2"}},
		"features of nowhere": {swap(metadataFile, "performance_metrics", "context_variables: {features_documented: [F077]}\nperformance_metrics"), []string{"features_documented: session-metadata.yaml says F077, feature-inventory.json says no such feature"}},
		"a need of nothing":   {swap(inventoryFile, `"category":"c"`, `"dependencies":["F050","net/http"],"category":"c"`), []string{"feature F001: feature-inventory.json says depends on F050"}},
		"statistics":          {swap(inventoryFile, `"total_features":2`, `"total_features":20`), []string{"statistics.total_features: feature-inventory.json says 20"}},
		"a feature twice": {func(f map[string]string) {
			swap(inventoryFile, "F002", "F001")(f)
			swap(inventoryFile, `"status":"discovered","documented":false`, `"status":"discovered","documented":true`)(f)
			swap(inventoryFile, `coverage":0.5`, `coverage":1`)(f)
		}, []string{"feature_id: feature-inventory.json says F001, feature-inventory.json says F001 again"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := baseFiles()
			tc.plant(files)
			got := lines(run(t, lay(t, files)))
			for _, want := range tc.want {
				if !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, want) }) && !strings.HasPrefix(want, "feature F001: inventory") && want != "documented: true" {
					t.Errorf("no %q in\n%s", want, strings.Join(got, "\n"))
				}
			}
			if len(got) > len(tc.want) {
				t.Errorf("more than %q:\n%s", tc.want, strings.Join(got, "\n"))
			}
		})
	}
}

func TestJournal(t *testing.T) {
	o := lay(t, baseFiles())
	path := journaled(t, o, "message", "event", "event", "event", "event")
	data, err := os.ReadFile(path)
	must(t, err)
	rows := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	write := func(rows ...string) {
		must(t, os.WriteFile(path, []byte(strings.Join(rows, "")), 0o600))
	}
	write(rows[0], rows[1], rows[3], rows[4])
	if got := lines(run(t, o)); len(got) != 1 || got[0] != "seq: journal.jsonl says without 3, the format says no gap j4" {
		t.Errorf("%q", got)
	}
	write(rows[0], rows[1], rows[1], rows[2])
	if got := lines(run(t, o)); len(got) != 1 || got[0] != "seq: journal.jsonl says 2 after 2, the format says one more each time j2" {
		t.Errorf("%q", got)
	}
	write(rows[0], strings.Replace(rows[1], `"x"`, `"y"`, 1), rows[2], rows[3])
	if got := lines(run(t, o)); len(got) != 1 || !strings.Contains(got[0], "1 line that are no records") {
		t.Errorf("%q", got)
	}
	// A torn last line is just being written.
	write(rows[0], rows[1], rows[2][:20])
	if got := lines(run(t, o)); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// TestOutside: what the snapshot and the registry say is held against the
// session, and a session that was killed agrees with a run that was interrupted.
func TestOutside(t *testing.T) {
	o := lay(t, baseFiles())
	o.Registered = "failed"
	o.Snapshot = &feature.Snapshot{Feature: "fix", Status: feature.Paused, Tasks: feature.Count{Completed: 1, Total: 3}, Iteration: 9, MaxIterations: 5,
		Tracker: feature.Tracker{TotalTasks: 3, Tasks: []feature.Task{{ID: "T-1"}}}}
	got := strings.Join(lines(run(t, o)), "\n")
	for _, want := range []string{"the registry says failed", "fix.json says paused", "tracker.totalTasks: fix.json says 3, fix.json (tasks) says 1", "fix.json says 9, fix.json says at most 5", "tasks: fix.json says 1 of 3, progress-tracking.yaml says 2 of 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, tc := range []struct {
		session, run string
		fit          bool
	}{{"in_progress", "interrupted", true}, {"in_progress", "running", true}, {"paused", "interrupted", true}, {"paused", "running", true}, {"error", "cancelled", true},
		{"completed", "running", false}, {"in_progress", "completed", false}, {"error", "completed", false}} {
		if got := fit(status(tc.session), status(tc.run)); got != tc.fit {
			t.Errorf("%s and %s: %t", tc.session, tc.run, got)
		}
	}
}

// TestStory: a log that Ralph wrote tells of each session and each task.
func TestStory(t *testing.T) {
	for old, tc := range map[string]struct{ new, want string }{
		`"event_type":"session_start"`:                                  {`"event_type":"message"`, "session_start: execution-log.json says none"},
		`"event_type":"session_end"`:                                    {`"event_type":"message"`, "session_end: session-metadata.yaml says status completed, execution-log.json says no session_end"},
		`"event_type":"task_complete","task_id":"T-2"`:                  {`"event_type":"message","task_id":"T-2"`, "task T-2: progress-tracking.yaml says status completed, execution-log.json says begun and not completed e5"},
		`"event_type":"task_complete","task_id":"T-2","result":"done"`:  {`"event_type":"task_complete","task_id":"T-2","result":"failed"`, "task T-2: progress-tracking.yaml says status completed, execution-log.json says ended without success e7"},
		`"event_type":"decision","task_id":"T-2","result":"execute"`:    {`"event_type":"decision","task_id":"T-2","result":"wait"`, ""},
		`"event_type":"task_start","task_id":"T-2","details":{"iterati`: {`"event_type":"task_start","task_id":"T-2","details":{"iterati`, ""},
	} {
		files := baseFiles()
		if !strings.Contains(files[logFile], old) {
			t.Fatalf("the log has no %s", old)
		}
		files[logFile] = strings.Replace(files[logFile], old, tc.new, 1)
		o := lay(t, files)
		journaled(t, o, "message")
		if got := strings.Join(lines(run(t, o)), "\n"); got != tc.want && !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tc.new, got, tc.want)
		}
	}
}

// TestWorkedOnHere: the iterations of an imported session that were made
// elsewhere have no files here, and a snapshot that a failed start left behind
// says nothing of the end.
func TestWorkedOnHere(t *testing.T) {
	files := baseFiles()
	delete(files, "iterations/001-T-1.md")
	files["import/source.json"] = "{}"
	if got := run(t, lay(t, files)); len(got.Differences) > 0 {
		t.Errorf("%q", lines(got))
	}
	delete(files, "iterations/002-T-2.md")
	files["iterations/001-T-1.md"] = "x"
	if got := lines(run(t, lay(t, files))); len(got) != 1 || !strings.HasPrefix(got[0], "iteration 2: ") {
		t.Errorf("%q", got)
	}
	files = baseFiles()
	files[metadataFile] = strings.Replace(files[metadataFile], "status: completed", "status: error", 1)
	files[logFile] = strings.Replace(files[logFile], `"result":"completed"`, `"result":"error"`, 1)
	files[reportFile] = strings.Replace(files[reportFile], "Completed", "Error", 1)
	o := lay(t, files)
	o.Snapshot = &feature.Snapshot{Feature: "fix", Status: feature.Interrupted, Tasks: feature.Count{Completed: 2, Total: 2}, UpdatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	if got := run(t, o); len(got.Differences) > 0 {
		t.Errorf("%q", lines(got))
	}
	o.Snapshot.UpdatedAt = o.Snapshot.UpdatedAt.AddDate(0, 0, 2)
	if got := lines(run(t, o)); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// TestAtWork: what is written later is no difference as long as somebody works,
// nor what a killed process did not come to write.
func TestAtWork(t *testing.T) {
	files := baseFiles()
	files[metadataFile] = strings.NewReplacer("end_time: 2026-01-02T10:10:00Z", "end_time: null", "status: completed", "status: in_progress", "tasks_completed: 2", "tasks_completed: 0",
		"tasks_total: 2", "tasks_total: 0", "success_rate: 1", "success_rate: 0", "error_count: 1", "error_count: 0").Replace(files[metadataFile])
	files[logFile] = strings.Split(files[logFile], "\n{\"timestamp\":\"2026-01-02T10:06")[0]
	delete(files, reportFile)
	delete(files, "iterations/002-T-2.md")
	o := lay(t, files)
	journaled(t, o, "message")
	o.Live = true
	if got := run(t, o); len(got.Differences) > 0 {
		t.Errorf("%q", lines(got))
	}
	o.Live, o.Registered, o.Snapshot = false, "interrupted", &feature.Snapshot{Feature: "fix", Status: feature.Running, Tasks: feature.Count{Total: 2}}
	if got := lines(run(t, o)); len(got) != 1 || !strings.HasPrefix(got[0], "unreadable: execution-log.json") {
		t.Errorf("%q", got)
	}
	files[logFile] = strings.TrimSuffix(strings.TrimSpace(files[logFile]), ",") + "]}"
	o = lay(t, files)
	journaled(t, o, "message")
	if got := run(t, o); len(got.Differences) > 0 {
		t.Errorf("%q", lines(got))
	}
	// One that says both is no session at work.
	o.Live = true
	must(t, os.WriteFile(filepath.Join(o.Dir, progressFile), []byte("session_id: \"009\"\ntasks: [{task_id: A, status: pending}, {task_id: A, status: pending}]\n"), 0o600))
	if got := lines(run(t, o)); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestTakenOut: of a task that the user took out of the plan the log still tells.
func TestTakenOut(t *testing.T) {
	files := baseFiles()
	files[logFile] = strings.Replace(files[logFile], `"task_start","task_id":"T-2"`, `"task_start","task_id":"T-9"`, 1)
	delete(files, "iterations/002-T-2.md")
	files["iterations/002-T-9.md"] = "x"
	o := lay(t, files)
	journaled(t, o, "message")
	if got := run(t, o); len(got.Differences) > 0 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "T-9") {
		t.Errorf("%q %q", lines(got), got.Notes)
	}
}

func TestNothingThere(t *testing.T) {
	if _, err := Run(context.Background(), Options{Dir: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	o := lay(t, baseFiles())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Nothing that is no regular file is waited for or followed.
	for _, name := range []string{logFile, documentsFile, journalFile, metadataFile, progressFile} {
		path := filepath.Join(o.Dir, name)
		must(t, errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600)))
	}
	done := make(chan Report, 1)
	go func() {
		got, _ := Run(context.Background(), o)
		done <- got
	}()
	select {
	case got := <-done:
		if len(got.Differences) < 5 {
			t.Errorf("%q", lines(got))
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a pipe")
	}
}

// TestBounded: a session of nothing but contradictions is told in bounds.
func TestBounded(t *testing.T) {
	files := baseFiles()
	var log, progress strings.Builder
	log.WriteString(`{"events":[`)
	progress.WriteString("tasks:\n")
	for i := range 30_000 {
		fmt.Fprintf(&log, `{"timestamp":"2026-01-02T10:%02d:00+0%d:00","event_type":"odd %d","task_id":"X-%d"},`, i%60, i%9, i, i)
		fmt.Fprintf(&log, `{"timestamp":"2026-01-02T10:%02d:00Z","event_type":"task_complete","task_id":"P-%d"},`, i%60, i)
	}
	for i := range 2000 {
		fmt.Fprintf(&progress, "- {task_id: P-%d, status: error}\n", i)
	}
	log.WriteString(`{}]}`)
	files[logFile], files[progressFile] = log.String(), progress.String()
	got := run(t, lay(t, files))
	if len(got.Differences) > 120 || got.Omitted < 1900 {
		t.Errorf("%d differences, %d omitted", len(got.Differences), got.Omitted)
	}
	for _, d := range got.Differences {
		if len(d.IDs) > maxIDs || len(d.String()) > 4096 {
			t.Errorf("%q", d)
		}
	}
}

// FuzzZones: the scanner finds the zones that the reader of events would, and
// bears anything.
func FuzzZones(f *testing.F) {
	for _, text := range []string{
		baseFiles()[logFile], `[{"timestamp":"2026-01-02T10:00:00+02:00","type":"a","data":{"timestamp":"2026-01-02T10:00:00-05:00"}}]`,
		`{"meta":{"time":"2026-01-02T10:00:00+09:00"},"events":[{"time":"2026-01-02 10:00:00","details":{"x":["time","2026-01-02T10:00:00+09:00"]}}]}`,
		`{"events":[{"task_name":"\"timestamp\":\"2026-01-02T10:00:00+07:00\"","timestamp":"2026-01-02T10:00:00Z"}]}`, "{{{[[[", `"`, `{"events":[{"timestamp":`,
	} {
		f.Add([]byte(text), 7)
	}
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		whole, parts := zoner{found: map[string]*marks{}}, zoner{found: map[string]*marks{}}
		whole.take(data)
		step = max(1, min(step, 1000))
		for rest := data; len(rest) > 0; {
			n := min(step, len(rest))
			parts.take(rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(slices.Sorted(maps.Keys(whole.found)), slices.Sorted(maps.Keys(parts.found))) || whole.events != parts.events {
			t.Errorf("%v and %v", whole.found, parts.found)
		}
	})
}

func TestZones(t *testing.T) {
	for text, want := range map[string]string{
		`[{"timestamp":"2026-01-02T10:00:00+02:00","type":"a","data":{"timestamp":"2026-01-02T10:00:00-05:00"}}]`:                                               "+02:00",
		`{"meta":{"time":"2026-01-02T10:00:00+09:00"},"events":[{"time":"2026-01-02 10:00:00","details":{"x":["time","2026-01-02T10:00:00+09:00"]}}]}`:          "none",
		`{"events":[{"task_name":"\"timestamp\":\"2026-01-02T10:00:00+07:00\"","timestamp":"2026-01-02T10:00:00Z"},{"timestamp":"2026-01-02T10:00:00+00:00"}]}`: "Z",
		`{"events":[{"timestamp":1767348000,"task_name":"2026-01-02T10:00:00+07:00"}]}`:                                                                         "",
	} {
		z := zoner{found: map[string]*marks{}}
		z.take([]byte(text))
		if got := strings.Join(slices.Sorted(maps.Keys(z.found)), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestFixtures: of each folder that other tests use exactly what is wrong with it
// is told.
func TestFixtures(t *testing.T) {
	root := filepath.Join("..", "..", "..", "testdata", "sessions")
	for name, want := range map[string][]string{
		"clean":   nil,
		"foreign": nil,
		"contradiction": {"status", "tasks_total", "overall_progress", "task T-1", "task T-2", "task T-2", "statistics.total_features", "statistics.by_category.auth", "statistics.by_category.core",
			"statistics.by_status.discovered", "statistics.by_status.documented", "statistics.documentation_coverage"},
		"bare-features": {"unreadable"},
		"cut-log":       {"unreadable"},
		"disorder":      {"timestamp", "timestamp", "task_id", "task order", "timestamp"},
		"older-shape":   {"event_type", "timestamp"},
		"empty":         {"missing"},
		"live":          {"unreadable"},
		"hostile":       {"error_count", "event_type", "severity", "risk_assessment"},
	} {
		dir, err := filepath.Abs(filepath.Join(root, name))
		must(t, err)
		if _, err := os.Stat(dir); name == "empty" && errors.Is(err, os.ErrNotExist) {
			continue // git keeps no empty directory
		}
		got := run(t, Options{Dir: dir})
		var fields []string
		for _, d := range got.Differences {
			fields = append(fields, d.Field)
			if d.FileA == "" || d.FileB == "" || d.ValueA == "" || d.ValueB == "" || strings.Contains(d.String(), root) {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if !slices.Equal(fields, want) || got.Omitted > 0 {
			t.Errorf("%s: %q, want %q", name, fields, want)
		}
	}
	// One that is being written has nothing to answer for.
	dir, err := filepath.Abs(filepath.Join(root, "live"))
	must(t, err)
	if got := run(t, Options{Dir: dir, Live: true}); len(got.Differences) > 0 {
		t.Errorf("%q", lines(got))
	}
}
