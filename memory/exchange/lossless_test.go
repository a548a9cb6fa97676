package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"pgregory.net/rapid"

	"ralph/memory/feature"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/check"
	"ralph/memory/session/folder"
)

// odd are JSON values that a careless reader changes.
func odd(t *rapid.T, depth int) string {
	plain := []string{"1e400", "-0", "9223372036854775808", "0.10", "1E+2", `""`, `"<b>&\u2028"`, `"\ud83d\ude00"`, `"\ud800"`, "null", "true", "[]", "{}", `"1 MB"`, `"ü\t\\"`, "12345678901234567890123456789"}
	if depth > 1 || rapid.Bool().Draw(t, "plain") {
		return rapid.SampledFrom(plain).Draw(t, "value")
	}
	if rapid.Bool().Draw(t, "list") {
		return "[" + odd(t, depth+1) + " , " + odd(t, depth+1) + "]"
	}
	return "{" + more(t, depth+1) + "}"
}

// more are members that no form of ours knows, some of them twice.
func more(t *rapid.T, depth int) string {
	var parts []string
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		key := rapid.SampledFrom([]string{"x", "y", "extra", "zoë", "a b", "\\u0041", "", "n"}).Draw(t, "key")
		parts = append(parts, fmt.Sprintf(`%s"%s" : %s`, rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space"), key, odd(t, depth)))
	}
	return strings.Join(parts, ",")
}

// with joins members.
func with(parts ...string) string {
	return "{" + strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ",") + "}"
}

// tuiDocument is a random session.json of so many tasks.
func tuiDocument(t *rapid.T) (text string, tasks int) {
	tasks = rapid.IntRange(0, 4).Draw(t, "tasks")
	var list, rounds []string
	for i := range tasks {
		list = append(list, with(more(t, 0), fmt.Sprintf(`"id":"T-%d","title":"t %d","status":"%s"`, i, i, rapid.SampledFrom([]string{"open", "in_progress", "blocked"}).Draw(t, "status")),
			more(t, 0), `"completedInSession":false`))
		rounds = append(rounds, with(fmt.Sprintf(`"iteration":%d,"status":"failed","taskId":"T-%d","taskTitle":"t","taskCompleted":false,"durationMs":1.50`, i+1, i), more(t, 0),
			`"startedAt":"2026-01-02T10:00:00.000Z","endedAt":"2026-01-02T10:01:00.000Z"`))
	}
	tracker := with(`"plugin":"json"`, more(t, 0), fmt.Sprintf(`"totalTasks":%d,"tasks":[%s]`, tasks, strings.Join(list, ",")), more(t, 0))
	return with(more(t, 0), fmt.Sprintf(`"version":1,"sessionId":"abc","status":"interrupted","startedAt":"2026-01-02T10:00:00.000Z","updatedAt":"2026-01-02T11:00:00.000Z","currentIteration":%d,"maxIterations":9,"tasksCompleted":0,"isPaused":false,"agentPlugin":"claude"`, tasks),
		more(t, 0), `"trackerState":`+tracker, `"iterations":[`+strings.Join(rounds, ",")+`]`, `"skippedTaskIds":[],"cwd":"/p","activeTaskIds":[]`, more(t, 0)), tasks
}

// kept are the members of an object but for some, as they are spelled but for
// space.
func kept(t *rapid.T, data []byte, without ...string) []string {
	p, err := readPairs(data)
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	var out []string
	for _, x := range p {
		var b bytes.Buffer
		if err := json.Compact(&b, x.value); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(without, x.key) {
			out = append(out, string(x.raw)+":"+b.String())
		}
	}
	return out
}

// TestEveryFieldComesBack: what is imported comes out byte for byte; and of what
// went on here only the fields that say so are changed, the others keep their
// order and their spelling.
func TestEveryFieldComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, tasks := tuiDocument(t)
		fsys := afero.NewMemMapFs()
		o := Options{FS: fsys, StateDir: "/here/.ralph", Now: clock}
		if err := afero.WriteFile(fsys, "/there/.ralph-tui/session.json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		src, err := Open(context.Background(), fsys, "/there", "")
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		got, err := src.Import(o, "")
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		export := func(to string) []byte {
			st, err := retention.Scan(fsys, o.StateDir)
			if err != nil || len(st.Sessions) != 1 {
				t.Fatal(err, st)
			}
			if _, err := Export(o, st.Sessions[0], to, TUI, false); err != nil {
				t.Fatal(err)
			}
			data, err := afero.ReadFile(fsys, to)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		if back := export("/same.json"); string(back) != text {
			t.Fatalf("%s\nwas %s", back, text)
		}
		if tasks == 0 {
			return
		}
		f, err := folder.Open(folder.Options{FS: fsys, Dir: "/here/" + got.Path, SessionID: string(got.SessionID), Quarantine: "/q", Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		f.Task(folder.TaskState{TaskID: "T-0", Status: folder.TaskCompleted})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		back := export("/changed.json")
		mapped := []string{"status", "isPaused", "updatedAt", "tasksCompleted", "trackerState", "activeTaskIds"}
		if was, is := kept(t, []byte(text), mapped...), kept(t, back, mapped...); !slices.Equal(was, is) {
			t.Fatalf("%q\nwas %q", is, was)
		}
		a, _ := readPairs([]byte(text))
		b, _ := readPairs(back)
		if was, is := kept(t, a.get("trackerState"), "tasks"), kept(t, b.get("trackerState"), "tasks"); !slices.Equal(was, is) {
			t.Fatalf("%q\nwas %q", is, was)
		}
		ta, _ := readPairs(a.get("trackerState"))
		tb, _ := readPairs(b.get("trackerState"))
		la, lb := readList(ta.get("tasks")), readList(tb.get("tasks"))
		if len(la) != len(lb) {
			t.Fatalf("%d tasks, were %d", len(lb), len(la))
		}
		for i := range la {
			without := []string{}
			if i == 0 {
				without = []string{"status", "completedInSession"}
			}
			if was, is := kept(t, la[i], without...), kept(t, lb[i], without...); !slices.Equal(was, is) {
				t.Fatalf("task %d: %q\nwas %q", i, is, was)
			}
		}
		if first, _ := readPairs(lb[0]); first.text("status") != "completed" || string(b.get("tasksCompleted")) != "1" {
			t.Fatalf("%s", back)
		}
	})
}

// ownRun is a run of ours with a task in each state.
func ownRun(t *testing.T, o Options) retention.Session {
	t.Helper()
	at := func(minute int) time.Time { return clock().Add(time.Duration(minute) * time.Minute) }
	now := at(0)
	s, err := session.Create(session.Options{FS: o.FS, StateDir: o.StateDir, Kind: "run", Now: func() time.Time { return now }}, "shop")
	must(t, err)
	var rounds []feature.Iteration
	for i, task := range []struct {
		id     string
		status folder.TaskStatus
	}{{"A", folder.TaskCompleted}, {"B", folder.TaskError}, {"C", folder.TaskPending}, {"D", folder.TaskSkipped}, {"E", folder.TaskPaused}, {"F", folder.TaskCompleted}} {
		if task.status == folder.TaskPending || task.status == folder.TaskSkipped {
			s.Folder().Task(folder.TaskState{TaskID: task.id, Status: task.status})
			continue
		}
		now = at(2 * i)
		s.Folder().Log(folder.Event{Type: folder.TaskStart, TaskID: task.id, TaskName: "Task " + task.id})
		s.Folder().Task(folder.TaskState{TaskID: task.id, Status: folder.TaskInProgress})
		now = at(2*i + 1)
		s.Folder().Task(folder.TaskState{TaskID: task.id, Status: task.status, Result: "what came of it"})
		word := map[folder.TaskStatus]string{folder.TaskCompleted: "done", folder.TaskError: "failed", folder.TaskPaused: "interrupted"}[task.status]
		rounds = append(rounds, feature.Iteration{Iteration: len(rounds) + 1, Status: word, TaskID: task.id, TaskTitle: "Task " + task.id, TaskCompleted: word == "done",
			DurationMS: 60_000, StartedAt: at(2 * i), EndedAt: now})
	}
	s.Folder().Decide(folder.Decision{TaskID: "A", DecisionType: "task"})
	s.End(session.Paused, "paused")
	must(t, s.Close())
	var tasks []feature.Task
	for _, id := range []string{"A", "B", "C", "D", "E", "F"} {
		tasks = append(tasks, feature.Task{ID: id, Title: "Task " + id, Status: "open"})
	}
	start, end := at(0), at(11)
	snap := feature.Snapshot{Version: 1, Feature: "shop", SessionID: s.ID(), Status: feature.Paused, Phase: "implementation", Iteration: len(rounds), MaxIterations: 40, Iterations: rounds,
		Phases: []feature.Phase{{ID: "planning", Status: "completed", StartedAt: &start, EndedAt: &start}, {ID: "implementation", Status: "running", StartedAt: &start}},
		Tasks:  feature.Count{Completed: 2, Total: 6}, Tokens: feature.Tokens{Input: 1000, Output: 50, CachedInput: 400}, StartedAt: start, UpdatedAt: end, PausedAt: &end,
		Git: feature.Git{Baseline: "0123456789abcdef", Branch: "feat/shop"}, Agent: feature.Agent{Plugin: "ralph", Model: "m"},
		Tracker: feature.Tracker{Plugin: "json", PlanPath: "prd.json", TotalTasks: 6, Tasks: tasks}, Cwd: "/p"}
	data, err := json.Marshal(snap)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(o.StateDir, "sessions", "shop.json"), data, 0o600))
	return session1(t, o, s.ID())
}

// TestOwnSessionThereAndBack: a run of ours goes into each form and comes back
// with all that the form has a place for; the rest is told.
func TestOwnSessionThereAndBack(t *testing.T) {
	for _, form := range []Format{Ralph, TUI, Wiggum, Blackbox} {
		o := project(t)
		s := ownRun(t, o)
		target := filepath.Join(t.TempDir(), "session.json")
		out, err := Export(o, s, target, form, false)
		must(t, err)
		there := project(t)
		got, back := bring(t, there, target, "")
		for _, d := range got.Differences {
			if form != Wiggum || !strings.Contains(d, "there is no .final") {
				t.Errorf("%s: %s", form, d)
			}
		}
		if back.Done != 2 || back.Total != 6 && form != Wiggum || !back.Start.Equal(s.Start) || back.Status != session.Paused {
			t.Errorf("%s: %d of %d since %s, %s", form, back.Done, back.Total, back.Start, back.Status)
		}
		data, err := folder.Read(there.FS, filepath.Join(there.StateDir, filepath.FromSlash(back.Path)))
		must(t, err)
		var states []string
		for _, x := range data.Progress.Tasks {
			states = append(states, x.TaskID+" "+string(x.Status))
		}
		want := map[Format]string{TUI: "A completed, B pending, C pending, D skipped, E pending, F completed", Wiggum: ""}
		if form == Ralph || form == Blackbox {
			want[form] = "A completed, B error, C pending, D skipped, E paused, F completed"
		}
		if text := strings.Join(states, ", "); text != want[form] {
			t.Errorf("%s: %s", form, text)
		}
		warned := strings.Join(out.Warnings, "\n")
		switch form {
		case TUI:
			for _, w := range []string{"task B was given up", "1 decision"} {
				if !strings.Contains(warned, w) {
					t.Errorf("%s: no %q in %q", form, w, warned)
				}
			}
			a := data.Progress.Tasks[0]
			if a.StartedAt == nil || !a.StartedAt.Equal(clock()) || a.DurationSeconds == nil || *a.DurationSeconds != 60 {
				t.Errorf("%+v", a)
			}
			src, err := Open(context.Background(), nil, target, "")
			must(t, err)
			snap := src.conv.snapshot
			if snap.Status != feature.Paused || snap.Iteration != 4 || snap.MaxIterations != 40 || len(snap.Iterations) != 4 || snap.Tracker.PlanPath != "prd.json" || snap.Tracker.Plugin != "json" ||
				snap.Tracker.Tasks[2].Title != "Task C" || snap.Agent.Model != "m" || snap.PausedAt == nil {
				t.Errorf("%+v", snap)
			}
		case Wiggum:
			if !strings.Contains(warned, "6 task") || !strings.Contains(warned, "no pause") {
				t.Errorf("%s: %q", form, warned)
			}
			src, err := Open(context.Background(), nil, target, "")
			must(t, err)
			snap := src.conv.snapshot
			if snap.Iteration != 4 || snap.MaxIterations != 40 || snap.Tasks != (feature.Count{Completed: 2, Total: 6}) || snap.Tokens != (feature.Tokens{Input: 1000, Output: 50, CachedInput: 400}) ||
				snap.Git.Baseline != "0123456789abcdef" || snap.Git.Branch != "feat/shop" || len(snap.Phases) != 2 || snap.Phases[1].Status != "running" {
				t.Errorf("%+v", snap)
			}
		default:
			if warned != "" {
				t.Errorf("%s: %q", form, warned)
			}
		}
		// What came in contradicts itself nowhere.
		found, err := check.Run(context.Background(), check.Options{Dir: filepath.Join(there.StateDir, filepath.FromSlash(back.Path))})
		must(t, err)
		for _, d := range found.Differences {
			t.Errorf("%s: %s", form, d)
		}
	}
}

// TestLoopThatWentOnHere: a loop of wiggum that was resumed here says so in its
// own files, and keeps what they say beside.
func TestLoopThatWentOnHere(t *testing.T) {
	o := project(t)
	got, s := bring(t, o, "testdata/wiggum", "")
	path := filepath.Join(filepath.Dir(o.StateDir), filepath.FromSlash(got.Snapshot))
	data, err := os.ReadFile(path)
	must(t, err)
	var snap feature.Snapshot
	must(t, json.Unmarshal(data, &snap))
	end := clock()
	snap.Iteration, snap.Status = 7, feature.Completed
	snap.Tokens.Input, snap.Tokens.Output, snap.Tokens.CachedInput = snap.Tokens.Input+100, snap.Tokens.Output+10, snap.Tokens.CachedInput+60
	snap.Phases[3].Status, snap.Phases[3].EndedAt = "completed", &end
	snap.Phases = append(snap.Phases, feature.Phase{ID: "last", Status: "in_progress", StartedAt: &end})
	data, err = json.Marshal(snap)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
	opened, err := session.Open(o.session("run"), s.ID)
	must(t, err)
	opened.Folder().Log(folder.Event{Type: folder.SessionStart})
	must(t, opened.Progress(0, 4, 4))
	opened.End(session.Completed, "")
	must(t, opened.Close())
	target := filepath.Join(t.TempDir(), "out")
	_, err = Export(o, session1(t, o, s.ID), target, Wiggum, false)
	must(t, err)
	was, is := tree(t, "testdata/wiggum"), tree(t, target)
	for _, name := range []string{"ralph-loop-login.baseline", "ralph-loop-login.log", "ralph-loop-login.sessions"} {
		if is[name] != was[name] {
			t.Errorf("%s is %q", name, is[name])
		}
	}
	at := fmt.Sprint(session1(t, o, s.ID).End.Unix())
	for name, want := range map[string]string{
		"ralph-loop-login.final":  "7|10|" + at + "|done\n",
		"ralph-loop-login.tokens": "1240|350|50|9060|" + at + "\n",
		"ralph-loop-login.phases": strings.Replace(was["ralph-loop-login.phases"], "pr_review|started|1768474000|", fmt.Sprintf("pr_review|success|1768474000|%d", end.Unix()), 1) + fmt.Sprintf("last|started|%d|\n", end.Unix()),
	} {
		if is[name] != want {
			t.Errorf("%s is %q, want %q", name, is[name], want)
		}
	}
	if _, ok := is["ralph-loop-login.status"]; ok {
		t.Error("there is a status of a loop that is over")
	}
	want := strings.NewReplacer(`"iterations": 5`, `"iterations": 7`, `"tasksDone": 3`, `"tasksDone": 4`).Replace(was["ralph-loop-login.summary.json"])
	var a, b any
	must(t, json.Unmarshal([]byte(want), &a))
	must(t, json.Unmarshal([]byte(is["ralph-loop-login.summary.json"]), &b))
	delete(b.(map[string]any), "maxIterations")
	if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
		t.Errorf("the summary is %s, want %s", y, x)
	}
}

// TestManyTasks: 10,000 tasks and as many ids beside take no square of time.
func TestManyTasks(t *testing.T) {
	const n = 10_000
	var tasks, ids, rounds []string
	for i := range n {
		tasks = append(tasks, fmt.Sprintf(`{"id":"T-%d","title":"t","status":"open","completedInSession":false}`, i))
		ids = append(ids, fmt.Sprintf(`"T-%d"`, i))
		rounds = append(rounds, fmt.Sprintf(`{"iteration":%d,"taskId":"T-%d","status":"failed","startedAt":"2026-01-02T10:00:00Z","endedAt":"2026-01-02T10:00:01Z"}`, i+1, i))
	}
	doc := fmt.Sprintf(`{"version":1,"sessionId":"%s","status":"paused","isPaused":true,"startedAt":"2026-01-02T10:00:00Z","updatedAt":"2026-01-02T10:00:00Z","currentIteration":%d,"trackerState":{"plugin":"json","totalTasks":%d,"tasks":[%s]},"skippedTaskIds":[%s],"activeTaskIds":[%s],"iterations":[%s]}`,
		strings.Repeat("ä", 1<<20), n, n+1, strings.Join(tasks, ","), strings.Join(ids, ","), strings.Join(append(ids, `"none"`), ","), strings.Join(rounds, ","))
	s := &Source{Format: TUI, files: map[string][]byte{tuiFile: []byte(doc)}}
	began := time.Now()
	must(t, s.convertTUI())
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	if d := s.Differences(); len(d) != 2 || len(s.Name) > 100 {
		t.Errorf("%d differences, %q", len(d), s.Name)
	}
	few := fmt.Sprintf(`{"version":1,"sessionId":"x","trackerState":{"totalTasks":0,"tasks":[]},"activeTaskIds":[%s]}`, strings.Join(ids[:3*maxDifferences], ","))
	s = &Source{Format: TUI, files: map[string][]byte{tuiFile: []byte(few)}}
	must(t, s.convertTUI())
	if d := s.Differences(); len(d) != maxDifferences+1 || !strings.HasPrefix(d[maxDifferences], "and ") {
		t.Errorf("%d differences", len(d))
	}
}

// TestSideBySideIterations: iterations that overlapped give a log in order; times
// that are wrong stay as the document has them.
func TestSideBySideIterations(t *testing.T) {
	iteration := func(id, from, to string) tuiIteration {
		return tuiIteration{TaskID: id, TaskCompleted: true, StartedAt: "2026-11-20T09:00:" + from + "Z", EndedAt: "2026-11-20T09:00:" + to + "Z"}
	}
	for want, list := range map[string][]tuiIteration{
		"A+ B+ B- A-": {iteration("A", "01", "09"), iteration("B", "02", "04")},
		"A+ A- B+ B-": {iteration("A", "05", "09"), iteration("B", "02", "04")},
	} {
		events, _ := tuiEvents(&folder.Progress{}, tuiSession{StartedAt: "2026-11-20T09:00:00Z", Iterations: list})
		var got []string
		for _, e := range events[1:] {
			got = append(got, e.TaskID+map[folder.EventType]string{folder.TaskStart: "+", folder.TaskComplete: "-"}[e.Type])
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s instead of %s", text, want)
		}
	}
}
