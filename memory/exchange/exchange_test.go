package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/faultfs"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

func clock() time.Time { return time.Date(2026, 11, 21, 10, 2, 3, 0, time.UTC) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func project(t *testing.T) Options {
	t.Helper()
	return Options{FS: afero.NewOsFs(), StateDir: filepath.Join(t.TempDir(), ".ralph"), Now: clock}
}

func bring(t *testing.T, o Options, path, name string) (Imported, retention.Session) {
	t.Helper()
	src, err := Open(context.Background(), nil, path, "")
	must(t, err)
	got, err := src.Import(o, name)
	must(t, err)
	return got, session1(t, o, string(got.SessionID))
}

func session1(t *testing.T, o Options, id string) retention.Session {
	t.Helper()
	st, err := retention.Scan(o.FS, o.StateDir)
	must(t, err)
	for _, s := range st.Sessions {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("there is no session %s", id)
	return retention.Session{}
}

// tree is every file below a directory with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(data)
		return err
	}))
	return files
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s was not there", name)
		}
	}
}

// TestThereAndBack: what is imported comes out byte for byte, and the source is
// as it was.
func TestThereAndBack(t *testing.T) {
	for _, tc := range []struct {
		source string
		format Format
		want   []string // among the differences
	}{
		{"testdata/tui/session.json", TUI, []string{"tasksCompleted is 2, but 1", "status is running"}},
		{"testdata/wiggum", Wiggum, []string{".summary.json: iterations is 5", ".status: says 3|10, but .final says 4|10", "pr_review is still started"}},
		{"testdata/wiggum/ralph-loop-login.final", Wiggum, []string{".summary.json: iterations is 5"}},
		{"testdata/blackbox/session-001-discovery", Blackbox, []string{"in_progress, final-report.md says Completed", "tasks_total", "total_features"}},
	} {
		o := project(t)
		before := tree(t, "testdata")
		got, s := bring(t, o, tc.source, "")
		for _, want := range tc.want {
			if !slices.ContainsFunc(got.Differences, func(d string) bool { return strings.Contains(d, want) }) {
				t.Errorf("%s: no %q in %q", tc.source, want, got.Differences)
			}
		}
		if got.Format != tc.format || got.SessionID != "001" {
			t.Errorf("%s: %+v", tc.source, got)
		}
		target := filepath.Join(t.TempDir(), "out")
		out, err := Export(o, s, target, tc.format, false)
		must(t, err)
		if !out.Unchanged {
			t.Errorf("%s: %+v", tc.source, out)
		}
		same(t, tree(t, "testdata"), before)
		// By way of another project, in our own form, nothing is lost either.
		own, far, further := filepath.Join(t.TempDir(), "own"), project(t), filepath.Join(t.TempDir(), "out")
		_, err = Export(o, s, own, Ralph, false)
		must(t, err)
		_, there := bring(t, far, own, "elsewhere")
		out, err = Export(far, there, further, tc.format, false)
		must(t, err)
		if !out.Unchanged {
			t.Errorf("%s, by way of ralph: %+v", tc.source, out)
		}
		if tc.format == TUI {
			a, _ := os.ReadFile(tc.source)
			b, _ := os.ReadFile(target)
			c, _ := os.ReadFile(further)
			if !bytes.Equal(a, b) || !bytes.Equal(a, c) {
				t.Errorf("%s: %s\n%s", tc.source, b, c)
			}
			continue
		}
		same(t, tree(t, further), tree(t, target))
		source := tc.source
		if info, _ := os.Stat(source); !info.IsDir() {
			source = filepath.Dir(source)
		}
		same(t, tree(t, target), tree(t, source))
	}
}

// TestChangedSessionKeepsForeignFields: what went on here is in the export, and
// every other field is as it came.
func TestChangedSessionKeepsForeignFields(t *testing.T) {
	o := project(t)
	_, s := bring(t, o, "testdata/tui/session.json", "plan")
	f, err := openFolder(o, s)
	must(t, err)
	end := clock()
	f.Task(folder.TaskState{TaskID: "US-2", Status: folder.TaskCompleted, CompletedAt: &end})
	f.Task(folder.TaskState{TaskID: "US-9", Status: folder.TaskPending, Result: "New"})
	must(t, f.Close())
	target := filepath.Join(t.TempDir(), "session.json")
	out, err := Export(o, session1(t, o, s.ID), target, TUI, false)
	must(t, err)
	if out.Unchanged {
		t.Error("it was changed")
	}
	var was, is map[string]any
	for path, into := range map[string]*map[string]any{"testdata/tui/session.json": &was, target: &is} {
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, json.Unmarshal(data, into))
	}
	tracker := is["trackerState"].(map[string]any)
	tasks := tracker["tasks"].([]any)
	if len(tasks) != 4 || tasks[1].(map[string]any)["status"] != "completed" || tasks[0].(map[string]any)["extra"] != 1.0 || tracker["totalTasks"] != 4.0 || is["tasksCompleted"] != 2.0 {
		t.Errorf("%v", is)
	}
	for key, v := range was {
		// Nobody works on it any more, and its one active task is done.
		if key == "status" {
			v = "interrupted"
		} else if key == "activeTaskIds" {
			v = []any{}
		}
		if key != "trackerState" && key != "updatedAt" && key != "tasksCompleted" && !reflect.DeepEqual(is[key], v) {
			t.Errorf("%s is %v, was %v", key, is[key], v)
		}
	}
	// It is a session of ralph-tui again.
	if src, err := Open(context.Background(), nil, target, ""); err != nil || src.Format != TUI {
		t.Error(err)
	}
}

func TestOwnForm(t *testing.T) {
	o := project(t)
	_, s := bring(t, o, "testdata/wiggum", "")
	must(t, os.WriteFile(filepath.Join(o.StateDir, filepath.FromSlash(s.Path), "mine.txt"), []byte("mine"), 0o600))
	target := filepath.Join(t.TempDir(), "out")
	_, err := Export(o, s, target, Ralph, false)
	must(t, err)
	if _, err := Export(o, s, target, Ralph, false); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	other := project(t)
	got, back := bring(t, other, target, "")
	if got.Format != Ralph || len(got.Differences) != 0 || got.Name != "login" || got.Snapshot != ".ralph/sessions/login.json" {
		t.Errorf("%+v", got)
	}
	here, there := tree(t, filepath.Join(o.StateDir, filepath.FromSlash(s.Path))), tree(t, filepath.Join(other.StateDir, filepath.FromSlash(back.Path)))
	for name, text := range here {
		if name == session.MetadataFile || strings.HasPrefix(name, "import/") {
			continue
		}
		if name == session.JournalFile {
			if !strings.HasPrefix(there[name], text) {
				t.Errorf("the journal is %q", there[name])
			}
			continue
		}
		if there[name] != text {
			t.Errorf("%s is %q, want %q", name, there[name], text)
		}
	}
	// A changed or missing file is told.
	must(t, os.WriteFile(filepath.Join(target, "session", "mine.txt"), []byte("theirs"), 0o600))
	must(t, os.Remove(filepath.Join(target, "session", "execution-log.json")))
	must(t, os.WriteFile(filepath.Join(target, "session", "new.txt"), nil, 0o600))
	src, err := Open(context.Background(), nil, target, "")
	must(t, err)
	if d := strings.Join(src.Differences(), "\n"); !strings.Contains(d, "mine.txt: was changed") || !strings.Contains(d, "execution-log.json: the manifest lists it") || !strings.Contains(d, "new.txt: the manifest does not") {
		t.Errorf("%s", d)
	}
}

func TestTakenNames(t *testing.T) {
	o := project(t)
	bring(t, o, "testdata/tui/session.json", "plan")
	src, err := Open(context.Background(), nil, "testdata/wiggum", "")
	must(t, err)
	if _, err := src.Import(o, "plan"); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	bb, err := Open(context.Background(), nil, "testdata/blackbox/session-001-discovery", "")
	must(t, err)
	if _, err := bb.Import(o, "PLAN"); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(o.StateDir, "sessions", "login.json"), []byte(`{"of":"another tool"}`), 0o600))
	if _, err := src.Check(o, ""); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if name, err := src.Check(o, "other name!"); err != nil || name != "other-name" {
		t.Error(name, err)
	}
	if data, _ := os.ReadFile(filepath.Join(o.StateDir, "sessions", "login.json")); string(data) != `{"of":"another tool"}` {
		t.Errorf("%s", data)
	}
}

// TestHostileSources: each is a clear error or a difference, soon, and follows
// no link.
func TestHostileSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	huge := write("huge.json", "")
	must(t, os.Truncate(huge, 200<<20))
	good, err := os.ReadFile("testdata/tui/session.json")
	must(t, err)
	link := filepath.Join(dir, "link.json")
	must(t, os.Symlink(write("target.json", string(good)), link))
	fifo := filepath.Join(dir, "fifo.json")
	must(t, syscall.Mkfifo(fifo, 0o600))
	for name, tc := range map[string]struct {
		path string
		is   error
		says string
	}{
		"absent":        {filepath.Join(dir, "none"), fs.ErrNotExist, "none"},
		"empty":         {write("empty.json", ""), ErrUnknownForm, ""},
		"huge":          {huge, durable.ErrTooLarge, "64 MiB"},
		"deep":          {write("deep.json", `{"trackerState":`+strings.Repeat("[", 200_000)), ErrUnknownForm, ""},
		"deep session":  {write("a/.ralph-tui/session.json", `{"sessionId":"x","trackerState":`+strings.Repeat("[", 200_000)), nil, "session.json"},
		"not UTF-8":     {write("b/.ralph-tui/session.json", "{\"sessionId\":\"\xff\",\"trackerState\":{}}"), nil, "UTF-8"},
		"link":          {link, durable.ErrSymlink, ""},
		"fifo":          {fifo, durable.ErrNotRegular, ""},
		"version":       {write("c/.ralph-tui/session.json", `{"version":9,"sessionId":"x","trackerState":{"tasks":[]}}`), nil, "version 9"},
		"no tracker":    {write("d/.ralph-tui/session.json", `{"sessionId":"x"}`), nil, "trackerState"},
		"wrong types":   {write("e/.ralph-tui/session.json", `{"sessionId":"x","trackerState":[]}`), nil, "JSON"},
		"empty folder":  {filepath.Join(dir, "a"), nil, ""},
		"several loops": {filepath.Dir(write("loops/ralph-loop-a.status", "1|2|3")), nil, ""},
		"metadata":      {filepath.Dir(write("m/session-metadata.yaml", "- a\n- b\n")), nil, "mapping"},
		"manifest":      {filepath.Dir(write("r/ralph-export.json", `{"schema":"ralph.export/7"}`)), nil, "ralph.export/7"},
	} {
		if name == "several loops" {
			write("loops/ralph-loop-b.final", "1|2|3|done")
			tc.says = "several features"
		}
		_, err := Open(context.Background(), nil, tc.path, "")
		switch {
		case err == nil:
			t.Errorf("%s: no error", name)
		case tc.is != nil && !errors.Is(err, tc.is) && !strings.Contains(err.Error(), "JSON"):
			t.Errorf("%s: %v", name, err)
		case !strings.Contains(err.Error(), tc.says):
			t.Errorf("%s: %v does not say %q", name, err, tc.says)
		case len(err.Error()) > 500:
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
	// A link within a folder is left out and said to be.
	bb := filepath.Join(dir, "bb")
	write("bb/session-metadata.yaml", "session_id: \"1\"\nstatus: completed\n")
	must(t, os.Symlink("/etc/passwd", filepath.Join(bb, "passwd")))
	must(t, os.Symlink("/etc", filepath.Join(bb, "etc")))
	src, err := Open(context.Background(), nil, bb, "")
	must(t, err)
	if d := strings.Join(src.Differences(), "\n"); !strings.Contains(d, "passwd: left out") || !strings.Contains(d, "etc: left out") || src.files["passwd"] != nil {
		t.Errorf("%s", d)
	}
	// A folder that never ends.
	deep := filepath.Join(dir, "deepdir", strings.Repeat("d/", maxDepth+2))
	must(t, os.MkdirAll(deep, 0o755))
	write("deepdir/session-metadata.yaml", "a: 1\n")
	if _, err := Open(context.Background(), nil, filepath.Join(dir, "deepdir"), ""); err == nil || !strings.Contains(err.Error(), "nest deeper") {
		t.Error(err)
	}
}

// TestImportFaults: an import that fails leaves no session, and works later.
func TestImportFaults(t *testing.T) {
	for n := 1; ; n += 7 {
		ff := faultfs.New(afero.NewMemMapFs())
		src, err := Open(context.Background(), afero.NewOsFs(), "testdata/wiggum", "")
		must(t, err)
		o := Options{FS: ff, StateDir: "/p/.ralph", Now: clock}
		ff.FailAt(n, syscall.ENOSPC)
		_, err = src.Import(o, "")
		done := len(ff.Ops()) < n
		ff.FailAt(0, nil)
		st, serr := retention.Scan(ff, "/p/.ralph")
		must(t, serr)
		if err != nil {
			if len(st.Sessions) > 0 {
				t.Fatalf("at %d: %v, and yet %+v", n, err, st.Sessions)
			}
			if _, err = src.Import(o, ""); err != nil {
				t.Fatalf("at %d, again: %v", n, err)
			}
		}
		if done {
			return
		}
	}
}

// talk makes a session with a conversation.
func talk(t *testing.T, o Options, name string, at time.Time, records ...session.Record) retention.Session {
	t.Helper()
	s, err := session.Create(session.Options{FS: o.FS, StateDir: o.StateDir, Now: func() time.Time { return at }}, name)
	must(t, err)
	must(t, s.Journal().Append(1, records...))
	s.Say("user", "hello from "+name)
	s.End(session.Paused, "stopped")
	must(t, s.Close())
	return session1(t, o, s.ID())
}

func said(role, text string, at time.Time, more string) session.Record {
	text, extra := `"`+text+`"`, more
	return session.Record{Kind: "message", Time: at, Payload: json.RawMessage(`{"role":"` + role + `","text":` + text + extra + `}`)}
}

func journal(t *testing.T, o Options, s retention.Session) (got []session.Record) {
	t.Helper()
	j, err := session.OpenJournal(o.FS, filepath.Join(o.StateDir, filepath.FromSlash(s.Path), session.JournalFile), filepath.Join(o.StateDir, "quarantine"), nil)
	must(t, err)
	must(t, j.Records(func(r session.Record) error { got = append(got, r); return nil }))
	must(t, j.Close())
	return got
}

func TestHandoff(t *testing.T) {
	o := project(t)
	args := `{"path":"login.go"}`
	call, err := json.Marshal(map[string]any{"type": "tool_start", "tool": "edit", "args": json.RawMessage(args)})
	must(t, err)
	a := talk(t, o, "a", clock(), said("user", "mend the login", clock(), ""), said("assistant", "it is mended", clock(), ""), session.Record{Kind: "event", Time: clock(), Payload: call})
	b := talk(t, o, "b", clock(), said("user", "other", clock(), ""))
	f, err := openFolder(o, a)
	must(t, err)
	f.Task(folder.TaskState{TaskID: "T-1", Status: folder.TaskPaused})
	d := folder.Decision{}
	d.Decision.Action, d.Decision.Rationale = "use cookies", "simple"
	f.Decide(d)
	must(t, f.Close())
	dry, err := Handoff(o, a, b, []string{"T-9 open one (pending)"}, true)
	must(t, err)
	if n := len(journal(t, o, b)); n != 1 {
		t.Fatalf("a dry run wrote: %d records", n)
	}
	h, err := Handoff(o, a, b, []string{"T-9 open one (pending)"}, false)
	must(t, err)
	if h.Text != dry.Text || !slices.Equal(h.Tasks, []string{"T-1"}) {
		t.Errorf("%+v", h)
	}
	for _, want := range []string{"session 001", "T-9 open one", "T-1: paused", "use cookies, because simple", "login.go", "user: mend the login", "assistant: it is mended"} {
		if !strings.Contains(h.Text, want) {
			t.Errorf("no %q in\n%s", want, h.Text)
		}
	}
	if _, err := Handoff(o, a, b, []string{"T-9 open one (pending)"}, false); err != nil {
		t.Fatal(err)
	}
	if s := session1(t, o, b.ID); s.Total != 1 {
		t.Errorf("the metadata counts %d tasks", s.Total)
	}
	records := journal(t, o, b)
	var m struct{ Role, Text, From string }
	if len(records) != 2 || records[1].Kind != RecordHandoff || json.Unmarshal(records[1].Payload, &m) != nil || m.Role != "user" || m.From != "001" {
		t.Fatalf("%d records, %+v", len(records), m)
	}
	for _, s := range []retention.Session{a, b} {
		data, err := folder.Read(o.FS, filepath.Join(o.StateDir, filepath.FromSlash(s.Path)))
		must(t, err)
		if data.Log.ByType[folder.Handoff] == 0 {
			t.Errorf("session %s: no event: %+v", s.ID, data.Log)
		}
	}
	text, err := os.ReadFile(filepath.Join(o.StateDir, filepath.FromSlash(b.Path), session.ConversationFile))
	must(t, err)
	if strings.Count(string(text), "handoff from session 001") != 1 || !strings.Contains(string(text), "> - T-9 open one") {
		t.Errorf("%s", text)
	}
}

// Sessions that hand to each other, over and over, do not wind one context into the
// next; what a third one knew goes on once, without what that had been given.
func TestHandoffsDoNotGrow(t *testing.T) {
	o := project(t)
	a := talk(t, o, "a", clock(), said("user", "the word of a is plum", clock(), ""))
	b := talk(t, o, "b", clock(), said("user", "the word of b is pear", clock(), ""))
	c := talk(t, o, "c", clock(), said("user", "the word of c is fig", clock(), ""))
	hand := func(from, to retention.Session) string {
		t.Helper()
		h, err := Handoff(o, from, to, nil, false)
		must(t, err)
		if !IsHanded(h.Text) {
			t.Errorf("no context: %s", h.Text)
		}
		return h.Text
	}
	first := hand(a, b)
	for range 5 {
		if text := hand(b, a); strings.Contains(text, "plum") || !strings.Contains(text, "pear") {
			t.Errorf("a is told\n%s", text)
		}
		if text := hand(a, b); text != first {
			t.Errorf("b is told\n%s\nat first it was\n%s", text, first)
		}
	}
	text := hand(b, c)
	for word, n := range map[string]int{"plum": 1, "pear": 1, "Context handed over": 2, "What that session had itself been given": 1} {
		if strings.Count(text, word) != n {
			t.Errorf("%q is not there %d times in\n%s", word, n, text)
		}
	}
	d := talk(t, o, "d", clock())
	if text := hand(c, d); !strings.Contains(text, "fig") || !strings.Contains(text, "pear") || strings.Contains(text, "plum") {
		t.Errorf("d is told\n%s", text)
	}
	if got, err := Look(o, b); err != nil || len(got.Given) != 6 && len(got.Given) != 1 || got.Messages[1].Role != RoleHandoff {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMerge(t *testing.T) {
	o := project(t)
	at := func(m int) time.Time { return clock().Add(time.Duration(m) * time.Minute) }
	withCall := `,"calls":[{"id":"call_1","name":"read","args":"{}"}]`
	answer := func(text string, m int) session.Record { return said("tool", text, at(m), `,"call_id":"call_1"`) }
	a := talk(t, o, "a", at(0), said("user", "gone", at(0), ""), session.Record{Kind: "cleared", Time: at(0), Payload: json.RawMessage("{}")},
		said("user", "a1", at(1), ""), said("assistant", "calling", at(1), withCall), answer("from a", 5), said("user", "a2", at(9), ""))
	b := talk(t, o, "b", at(2), said("user", "b1", at(2), ""), said("assistant", "calling too", at(2), withCall), answer("from b", 3), said("user", "b2", at(8), ""), session.Record{Kind: "summary", Time: at(8), Payload: json.RawMessage(`{"through":3}`)})
	for i, s := range []retention.Session{a, b} {
		f, err := openFolder(o, s)
		must(t, err)
		started, ended := at(i), at(i+10)
		f.Task(folder.TaskState{TaskID: "T-1", Status: []folder.TaskStatus{folder.TaskError, folder.TaskCompleted}[i], StartedAt: &started, CompletedAt: &ended})
		f.Task(folder.TaskState{TaskID: "only-" + s.ID, Status: folder.TaskPending})
		f.Log(folder.Event{Time: at(i), Type: folder.TaskStart, TaskID: s.ID})
		must(t, f.Close())
	}
	before := tree(t, filepath.Join(o.StateDir, "sessions"))
	if dry, err := Merge(o, a, b, "both", true); err != nil || dry.SessionID != "" || len(dry.Conflicts) != 1 {
		t.Errorf("%+v %v", dry, err)
	}
	same(t, tree(t, filepath.Join(o.StateDir, "sessions")), before)
	m, err := Merge(o, a, b, "both", false)
	must(t, err)
	if m.SessionID != "003" || m.Tasks != 3 || len(m.Conflicts) != 1 || !strings.Contains(m.Conflicts[0], "002 is newer and counts") {
		t.Errorf("%+v", m)
	}
	merged := session1(t, o, "003")
	sum, err := folder.Read(o.FS, filepath.Join(o.StateDir, filepath.FromSlash(merged.Path)))
	must(t, err)
	if sum.Meta.SuccessRate != 1 {
		t.Errorf("%+v", sum.Meta)
	}
	var order []string
	ids := map[string]bool{}
	for _, r := range journal(t, o, merged) {
		var msg struct {
			Text   string
			Calls  []struct{ ID string }
			CallID string `json:"call_id"`
		}
		must(t, json.Unmarshal(r.Payload, &msg))
		order = append(order, r.Kind+" "+msg.Text)
		for _, c := range msg.Calls {
			if ids[c.ID] {
				t.Errorf("the id %s is used twice", c.ID)
			}
			ids[c.ID] = true
		}
		if msg.CallID != "" && !ids[msg.CallID] {
			t.Errorf("%q answers %s, which nobody asked", msg.Text, msg.CallID)
		}
	}
	want := []string{"merged ", "merged ", "message a1", "message calling", "message from a", "message b1", "message calling too", "message from b", "message b2", "merged ", "message a2"}
	if !slices.Equal(order, want) {
		t.Errorf("%q", order)
	}
	data, err := folder.Read(o.FS, filepath.Join(o.StateDir, filepath.FromSlash(merged.Path)))
	must(t, err)
	if len(data.Progress.Tasks) != 3 || data.Progress.Tasks[0].Status != folder.TaskCompleted || data.Log.Events < 2 || data.Log.Unordered > 0 || merged.Status != session.Paused || merged.Done != 1 || merged.Total != 3 {
		t.Errorf("%+v %+v", data.Progress.Tasks, data.Log)
	}
	after := tree(t, filepath.Join(o.StateDir, "sessions"))
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s changed", name)
		}
	}
}

func TestJoinTasks(t *testing.T) {
	early, late := clock(), clock().Add(time.Hour)
	state := func(id string, s folder.TaskStatus, at *time.Time) folder.TaskState {
		return folder.TaskState{TaskID: id, Status: s, StartedAt: at}
	}
	joined, conflicts, took := joinTasks(
		[]folder.TaskState{state("same", folder.TaskCompleted, &early), state("mine", folder.TaskPaused, &late), state("theirs", folder.TaskPaused, &early), state("tie", folder.TaskCompleted, nil)},
		[]folder.TaskState{state("same", folder.TaskCompleted, &late), state("mine", folder.TaskCompleted, &early), state("theirs", folder.TaskCompleted, &late), state("tie", folder.TaskPending, nil), state("new", folder.TaskPending, nil)}, "1", "2")
	got := map[string]folder.TaskStatus{}
	for _, x := range joined {
		got[x.TaskID] = x.Status
	}
	if len(joined) != 5 || got["mine"] != folder.TaskPaused || got["theirs"] != folder.TaskCompleted || got["tie"] != folder.TaskCompleted || len(conflicts) != 3 || !slices.Equal(took, []string{"theirs", "new"}) {
		t.Errorf("%v %q %q", got, conflicts, took)
	}
}

// FuzzTUI: no file crashes the reader, and what can be read comes back.
func FuzzTUI(f *testing.F) {
	seed, err := os.ReadFile("testdata/tui/session.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"sessionId":"x","trackerState":{"tasks":[{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Source{Format: TUI, files: map[string][]byte{tuiFile: data}}
		if s.convertTUI() != nil {
			return
		}
		if _, err := s.conv.build("001"); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLoop: whatever the files of a loop hold is told or taken.
func FuzzLoop(f *testing.F) {
	f.Add([]byte("1|2|3"), []byte("1|2|3|done"), []byte("a|success|1|2\nb|x"), []byte("1|2"), []byte("{}"))
	f.Fuzz(func(t *testing.T, status, final, phases, tokens, summary []byte) {
		s := &Source{Format: Wiggum, files: map[string][]byte{"ralph-loop-x.status": status, "ralph-loop-x.final": final, "ralph-loop-x.phases": phases,
			"ralph-loop-x.tokens": tokens, "ralph-loop-x.summary.json": summary}}
		if s.convertWiggum("x") != nil {
			return
		}
		if _, err := json.Marshal(s.conv.snapshot); err != nil {
			t.Fatal(err)
		}
		if _, err := s.conv.build("001"); err != nil {
			t.Fatal(err)
		}
	})
}
