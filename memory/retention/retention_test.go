package retention

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable/faultfs"
	"ralph/memory/session"
)

const day = 24 * time.Hour

func now() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, fsys afero.Fs, name, text string, at time.Time) {
	t.Helper()
	must(t, fsys.MkdirAll(filepath.Dir(name), 0o755))
	must(t, afero.WriteFile(fsys, name, []byte(text), 0o600))
	must(t, fsys.Chtimes(name, at, at))
}

// make1 makes a session that ended so many days ago.
func make1(t *testing.T, fsys afero.Fs, dir, status string, ago int, archived bool) {
	t.Helper()
	end := now().Add(-time.Duration(ago) * day)
	in := "/p/.ralph/sessions/"
	if archived {
		in += "archive/"
	}
	ended := "end_time: " + end.Format(time.RFC3339)
	if status == "in_progress" || status == "paused" {
		ended = "end_time: null"
	}
	id := strings.Split(dir, "-")[1]
	write(t, fsys, in+dir+"/session-metadata.yaml", fmt.Sprintf("session_id: %q\nsession_name: work %s\nstart_time: %s\n%s\nstatus: %s\ntasks_completed: 1\ntasks_total: 2\nmine: kept\n",
		id, id, end.Add(-time.Hour).Format(time.RFC3339), ended, status), end)
	usage := `{"seq":1,"kind":"event","payload":{"type":"usage","run_id":"r","agent":"ralph","turn":1,"usage":{"input":70,"output":30,"total":100},"cost_usd":0.5}}` + "\n"
	write(t, fsys, in+dir+"/journal.jsonl", usage, end)
	write(t, fsys, in+dir+"/conversation.md", "talk\n", end)
	write(t, fsys, in+dir+"/outputs/1.txt", "out\n", end)
	write(t, fsys, in+dir+"/execution-log.json", `{"session_id":"`+id+`","events":[]}`, end)
	write(t, fsys, in+dir+"/final-report.md", "# Report\n", end)
	write(t, fsys, in+dir+"/theirs.txt", "foreign\n", end)
	write(t, fsys, in+dir+"/decision-history.json", `{"session_id":"`+id+`","decisions":[{"timestamp":"2026-01-01T00:00:00Z","decision":{"action":"go <!-- left -->","rationale":"it is right"}}]}`, end)
}

func project(t *testing.T) afero.Fs {
	t.Helper()
	fsys := afero.NewMemMapFs()
	make1(t, fsys, "session-001-old", "completed", 400, true)
	make1(t, fsys, "session-002-middle", "completed", 200, false)
	make1(t, fsys, "session-003-stopped", "paused", 300, false)
	make1(t, fsys, "session-004-broke", "error", 181, false)
	make1(t, fsys, "session-005-new", "completed", 3, false)
	make1(t, fsys, "session-006-crashed", "in_progress", 300, false)
	write(t, fsys, "/p/.ralph/runs/r-20250101-101112-abcdef/journal.jsonl", "x\n", now().Add(-500*day))
	write(t, fsys, "/p/.ralph/runs/r-20260101-101112-abcdef/journal.jsonl", "x\n", now().Add(-5*day))
	write(t, fsys, "/p/.ralph/runs/theirs/file", "x\n", now().Add(-500*day))
	write(t, fsys, "/p/.ralph/sessions/feature.json", "{}", now())
	return fsys
}

func scan(t *testing.T, fsys afero.Fs) State {
	t.Helper()
	st, err := Scan(fsys, "/p/.ralph")
	must(t, err)
	return st
}

func ids(actions []Action) string {
	var out []string
	for _, a := range actions {
		out = append(out, string(a.Kind)+" "+a.ID)
	}
	return strings.Join(out, ", ")
}

func policy() Policy {
	return Policy{ArchiveAfter: 180 * day, DeleteRawAfter: 365 * day, Summaries: true}
}

func TestScan(t *testing.T) {
	fsys := project(t)
	st := scan(t, fsys)
	if len(st.Sessions) != 6 || len(st.Runs) != 2 {
		t.Fatalf("%d sessions, %d runs", len(st.Sessions), len(st.Runs))
	}
	s := st.Sessions[1]
	if s.ID != "002" || s.Name != "work 002" || s.Archived || s.Done != 1 || s.Total != 2 || s.Duration() != time.Hour || s.Resumable() || len(s.Raw) != 5 || s.RawBytes == 0 || s.Err != nil {
		t.Errorf("%+v", s)
	}
	if !st.Sessions[2].Resumable() || !st.Sessions[5].Resumable() || !st.Sessions[0].Archived {
		t.Error("paused and in progress can go on")
	}
	if none, err := Scan(fsys, "/nowhere/.ralph"); err != nil || len(none.Sessions) != 0 {
		t.Errorf("%+v %v", none, err)
	}
}

func TestScanFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "out"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, ".ralph", "sessions"), 0o755))
	must(t, os.Symlink(filepath.Join(root, "out"), filepath.Join(root, ".ralph", "sessions", "session-001-link")))
	must(t, os.Symlink(filepath.Join(root, "out"), filepath.Join(root, ".ralph", "runs")))
	st, err := Scan(afero.NewOsFs(), filepath.Join(root, ".ralph"))
	if err == nil || len(st.Sessions) != 0 {
		t.Errorf("%+v %v", st, err)
	}
}

func TestPlan(t *testing.T) {
	st := scan(t, project(t))
	if got := ids(Plan(st, policy(), now())); got != "prune 001, archive 002, archive 004, prune_run r-20250101-101112-abcdef" {
		t.Error(got)
	}
	if got := Plan(st, Policy{}, now()); len(got) != 0 {
		t.Errorf("no policy asks for nothing: %v", ids(got))
	}
	st.Sessions[0].Live, st.Sessions[1].Live = true, true
	if got := ids(Plan(st, policy(), now())); strings.Contains(got, "001") || strings.Contains(got, "002") {
		t.Errorf("a session that is worked in: %s", got)
	}
	st.Sessions[3].Err = errors.New("unreadable")
	if got := ids(Plan(st, policy(), now())); strings.Contains(got, "004") {
		t.Errorf("a session that cannot be read: %s", got)
	}
	if _, err := Named(st.Sessions[1]); !errors.Is(err, ErrLive) {
		t.Error(err)
	}
	if a, err := Named(st.Sessions[2]); err != nil || a.To != ".ralph/sessions/archive/session-003-stopped" {
		t.Errorf("%+v %v", a, err)
	}
}

// tree is every file with its content.
func tree(t *testing.T, fsys afero.Fs) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, afero.Walk(fsys, "/p", func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := afero.ReadFile(fsys, name)
		files[name] = string(data)
		return err
	}))
	return files
}

func apply(t *testing.T, fsys afero.Fs) error {
	t.Helper()
	st, err := Scan(fsys, "/p/.ralph")
	if err != nil {
		return err
	}
	actions, unread, err := Summaries(fsys, "/p/.ralph", st)
	if err != nil || len(unread) > 0 {
		return errors.Join(err, fmt.Errorf("unread: %v", unread))
	}
	for _, a := range append(actions, Plan(st, policy(), now())...) {
		if err := Apply(fsys, "/p/.ralph", a, now()); err != nil {
			return err
		}
	}
	return nil
}

func TestApply(t *testing.T) {
	fsys := project(t)
	before := tree(t, fsys)
	must(t, apply(t, fsys))
	after := tree(t, fsys)
	const old = "/p/.ralph/sessions/archive/session-001-old/"
	for _, gone := range []string{old + "journal.jsonl", old + "conversation.md", old + "outputs/1.txt", old + "execution-log.json",
		"/p/.ralph/runs/r-20250101-101112-abcdef/journal.jsonl", "/p/.ralph/sessions/session-002-middle/journal.jsonl"} {
		if _, there := after[gone]; there {
			t.Errorf("%s is there", gone)
		}
	}
	for _, kept := range []string{old + "final-report.md", old + "theirs.txt", "/p/.ralph/runs/theirs/file", "/p/.ralph/runs/r-20260101-101112-abcdef/journal.jsonl",
		"/p/.ralph/sessions/session-003-stopped/journal.jsonl", "/p/.ralph/sessions/session-006-crashed/journal.jsonl", "/p/.ralph/sessions/feature.json"} {
		if after[kept] != before[kept] {
			t.Errorf("%s changed to %q", kept, after[kept])
		}
	}
	for name, text := range before {
		if moved, ok := strings.CutPrefix(name, "/p/.ralph/sessions/session-002-middle/"); ok && after["/p/.ralph/sessions/archive/session-002-middle/"+moved] != text {
			t.Errorf("%s was not moved whole", name)
		}
	}
	meta := after[old+"session-metadata.yaml"]
	if !strings.HasPrefix(meta, before[old+"session-metadata.yaml"]) || !strings.Contains(meta, "raw_deleted_at: 2027-03-01T12:00:00Z\n") {
		t.Errorf("%s", meta)
	}
	// Again: nothing more to do.
	must(t, apply(t, fsys))
	st := scan(t, fsys)
	if got := Plan(st, policy(), now()); len(got) != 0 {
		t.Errorf("left over: %s", ids(got))
	}
	again := tree(t, fsys)
	for name, text := range after {
		if again[name] != text {
			t.Errorf("%s changed the second time", name)
		}
	}
	if s := st.Sessions[0]; s.ID != "001" || s.Deleted.IsZero() || len(s.Raw) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestEveryFault: an operation fails, here every fifth; afterwards the same commands
// bring the same end, and until then nothing is lost that is to be kept.
func TestEveryFault(t *testing.T) {
	whole := project(t)
	must(t, apply(t, whole))
	want := tree(t, whole)
	for n := 1; ; n += 5 {
		ff := faultfs.New(project(t))
		ff.FailAt(n, syscall.EIO)
		err := apply(t, ff)
		done := len(ff.Ops()) < n
		ff.FailAt(0, nil)
		must(t, apply(t, ff))
		got := tree(t, ff)
		for name := range got {
			if strings.HasSuffix(name, ".tmp") {
				delete(got, name)
			}
		}
		if len(got) != len(want) {
			for name := range want {
				if _, ok := got[name]; !ok {
					t.Errorf("%s is missing", name)
				}
			}
			t.Fatalf("at %d (%v): %d files, want %d\n%s", n, err, len(got), len(want), strings.Join(ff.Ops()[n-1:n], ""))
		}
		for name, text := range want {
			if got[name] != text {
				t.Fatalf("at %d (%v): %s is %q, want %q", n, err, name, got[name], text)
			}
		}
		if done {
			return
		}
	}
}

func TestMoveRefusesWhatIsTaken(t *testing.T) {
	fsys := project(t)
	st := scan(t, fsys)
	write(t, fsys, "/p/.ralph/sessions/archive/session-002-middle/mine", "x", now())
	a, err := Named(st.Sessions[1])
	must(t, err)
	if err := Apply(fsys, "/p/.ralph", *a, now()); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
}

func TestSummaries(t *testing.T) {
	fsys := project(t)
	write(t, fsys, "/p/AGENT.md", "# Agent notes\n\n## 2026-08-05T10:00:00Z - BUG\n\n- **What**: it broke\n- **Learning**: look first\n\n## 2026-08-06T10:00:00Z - NOTE\n\n**Learning**:\n\n```text\nmany\nlines\n```\n\n## 2026-09-01 - ODD\n\n**What**: happened\n", now())
	const file = "/p/.ralph/sessions/summaries/2026-Q3.md"
	write(t, fsys, file, "my own words\r\n", now())
	must(t, apply(t, fsys))
	text := tree(t, fsys)[file]
	for _, want := range []string{"my own words\r\n\n", "2 sessions, 2 of 4 tasks done, 200 tokens, $1.00.", "## 002 work 002", "- tasks: 1 of 2 done", "- decision: go <! -- left -- >, because it is right",
		"- 2026-08-05 BUG: look first", "- 2026-08-06 NOTE: many", "- 2026-09-01 ODD: happened"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "work 003") || strings.Contains(text, "work 006") {
		t.Error("a session that did not end is summed up")
	}
	// The raw files go; what was said of them stays, and so does the user's text.
	changed := "Dear diary\n" + text + "and after\n"
	write(t, fsys, file, changed, now())
	for _, name := range []string{"journal.jsonl", "decision-history.json"} {
		must(t, fsys.Remove("/p/.ralph/sessions/archive/session-002-middle/"+name))
	}
	meta := "/p/.ralph/sessions/archive/session-002-middle/session-metadata.yaml"
	write(t, fsys, meta, tree(t, fsys)[meta]+"raw_deleted_at: 2027-03-01T12:00:00Z\n", now())
	must(t, fsys.Remove("/p/AGENT.md"))
	must(t, apply(t, fsys))
	text = tree(t, fsys)[file]
	if !strings.HasPrefix(text, "Dear diary\nmy own words\r\n") || !strings.HasSuffix(text, "and after\n") || strings.Contains(text, "Learnings") ||
		!strings.Contains(text, "200 tokens") || strings.Count(text, "because it is right") != 2 {
		t.Errorf("%s", text)
	}
	if q := quarter(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)) + quarter(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); q != "2026-Q42026-Q1" {
		t.Error(q)
	}
}

func TestUsage(t *testing.T) {
	fsys := afero.NewMemMapFs()
	var b strings.Builder
	usage := func(run string, turn int, total int, cost string) {
		fmt.Fprintf(&b, `{"seq":1,"kind":"event","payload":{"type":"usage","run_id":%q,"agent":"a","turn":%d,"usage":{"input":%d,"total":%d},"cost_usd":%s}}`+"\n", run, turn, total, total, cost)
	}
	usage("r1", 1, 10, "0.1")
	usage("r1", 2, 10, "0.3") // a running sum
	b.WriteString(`{"seq":2,"kind":"message","payload":{"text":"the \"usage\" of it"}}` + "\nnonsense \"usage\"\n" + `{"x":"` + strings.Repeat("long", 100000) + `"usage"}` + "\n")
	usage("r1", 1, 10, "0.2") // a new piece of work
	usage("r2", 1, 5, "1")
	write(t, fsys, "/s/journal.jsonl", b.String(), now())
	s, err := Usage(fsys, "/s", 1<<20)
	if err != nil || !s.Known || s.Total != 35 || s.Input != 35 || s.CostUSD == nil || fmt.Sprintf("%.2f", *s.CostUSD) != "1.50" {
		out, _ := json.Marshal(s)
		t.Errorf("%s %v", out, err)
	}
	if s, err := Usage(fsys, "/s", 10); err != nil || s.Known {
		t.Errorf("too large: %+v %v", s, err)
	}
	if s, err := Usage(fsys, "/none", 10); err != nil || s.Known {
		t.Errorf("none: %+v %v", s, err)
	}
	usage("r3", 1, 5, "null")
	write(t, fsys, "/s/journal.jsonl", b.String(), now())
	if s, err := Usage(fsys, "/s", 1<<20); err != nil || s.CostUSD != nil {
		t.Errorf("an unknown price: %+v %v", s, err)
	}
}

func TestRawFilesAreSessionsOwn(t *testing.T) {
	for _, name := range []string{session.MetadataFile, "final-report.md", "progress-tracking.yaml", "feature-inventory.json", "import", "theirs.txt"} {
		if raw(name) {
			t.Errorf("%s would be deleted", name)
		}
	}
	if err := Apply(afero.NewMemMapFs(), "/p/.ralph", Action{Kind: Prune, ID: "001", Path: ".ralph/x", Files: []string{"theirs.txt"}}, now()); err == nil {
		t.Error("a foreign file is deleted")
	}
}

func FuzzParseSections(f *testing.F) {
	f.Add("<!-- ralph:session 001 done=1 total=2 tokens=3 cost=0.1 -->\n## 001 x\n- a\n")
	f.Fuzz(func(t *testing.T, text string) {
		sections := parseSections([]byte(text))
		again := parseSections(block(sections, []string{"- l"}))
		if len(again) != len(sections) {
			t.Fatalf("%d sections became %d: %q", len(sections), len(again), text)
		}
		keys := make([]string, 0)
		for id := range sections {
			keys = append(keys, id)
		}
		slices.Sort(keys)
		for _, id := range keys {
			if again[id] != sections[id] {
				t.Fatalf("%q became %q", sections[id], again[id])
			}
		}
	})
}
