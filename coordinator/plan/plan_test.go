package plan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/afero"

	"ralph/memory"
	"ralph/memory/durable"
	"ralph/workers/exec"
)

// write puts files into a new directory.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t testing.TB, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// opened opens a plan; the one in Markdown through a real store.
func opened(t testing.TB, root, name string) Tracker {
	t.Helper()
	o := Options{Root: root, Path: name}
	if name == markdownFile {
		s, _, err := memory.Open(context.Background(), memory.Options{Root: root, Holder: "run"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		o.Book = s
	}
	tr, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func load(t testing.TB, tr Tracker) *Plan {
	t.Helper()
	p, err := tr.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// one is a plan of three tasks in each form.
func one() map[string]string {
	return map[string]string{
		prdFile: `{"project": "p", "userStories": [
  {"id": "T-1", "title": "one", "passes": false, "notes": ""},
  {"id": "T-2", "title": "two", "passes": false, "dependsOn": ["T-1"]},
  {"id": "T-3", "title": "three", "passes": false, "notes": "by hand"}
]}
`,
		loopFile:     "name: p # a plan\ntasks:\n  - task_id: T-1\n    name: one\n  - task_id: T-2\n    name: two\n    dependencies: [T-1]\n    status: pending\n  - task_id: T-3\n    name: three\n    notes: by hand\n",
		markdownFile: "# Tasks\n\n- [ ] **T-1** one\n- [ ] **T-2** two\n  - after: T-1\n- [ ] **T-3** three\n  - agent: claude\n",
	}
}

// TestMarkReads: what is marked is what is read, in the words of each tracker;
// in prd.json a task that was given up or stopped is open again.
func TestMarkReads(t *testing.T) {
	for name, text := range one() {
		root := write(t, map[string]string{name: text})
		tr := opened(t, root, name)
		before := load(t, tr)
		for _, s := range []Status{Pending, InProgress, Interrupted, Pending, InProgress, Blocked, InProgress, Failed, Pending, Skipped, InProgress, Done, Pending} {
			if err := tr.Mark(t.Context(), "T-1", Mark{Status: s, Actor: "ralph/s-1/t_1", Result: "as it went"}); err != nil {
				t.Fatalf("%s: %s: %v", name, s, err)
			}
			want := s
			if name == prdFile && (s == Interrupted || s == Blocked || s == Failed || s == Skipped) {
				want = Pending
			}
			p := load(t, tr)
			got, _ := p.Find("T-1")
			who := ""
			if s == InProgress {
				who = "ralph/s-1/t_1"
			}
			if got.Status != want || got.Assignee != who {
				t.Errorf("%s: marked %s, reads %s of %q", name, s, got.Status, got.Assignee)
			}
			if d := cmp.Diff(before.Tasks[1:], p.Tasks[1:], cmpopts.IgnoreFields(Task{}, "Line")); d != "" {
				t.Errorf("%s: %s changed others: %s", name, s, d)
			}
			if stamp, err := tr.Stamp(t.Context()); err != nil || stamp != p.Stamp {
				t.Errorf("%s: stamp %s, loaded %s, %v", name, stamp, p.Stamp, err)
			}
		}
		if err := tr.Mark(t.Context(), "T-9", Mark{Status: Done}); !errors.Is(err, ErrNoTask) {
			t.Errorf("%s: an unknown task: %v", name, err)
		}
		if err := tr.Mark(t.Context(), "T-1", Mark{Status: "finished"}); err == nil {
			t.Errorf("%s: an unknown status was taken", name)
		}
	}
}

// TestMarkText: the very bytes that a mark changes.
func TestMarkText(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		marks    []Mark
		old, new string
	}{
		{prdFile, "T-1", []Mark{{Status: Done, Result: "fine", Commit: "abc"}}, `"one", "passes": false`, `"one", "passes": true`},
		{prdFile, "T-2", []Mark{{Status: InProgress, Actor: "ralph/a"}}, `["T-1"]}`, `["T-1"], "status": "in_progress", "notes": "ralph: claimed by ralph/a"}`},
		{prdFile, "T-3", []Mark{{Status: InProgress, Actor: "ralph/a"}, {Status: Failed, Result: "check  failed\nexit 1"}}, `"passes": false, "notes": "by hand"}`, `"passes": false, "notes": "by hand\nfailed: check failed exit 1", "status": "open"}`},
		{prdFile, "T-3", []Mark{{Status: InProgress, Actor: "ralph/a"}, {Status: Pending}}, `"notes": "by hand"}`, `"notes": "by hand", "status": "open"}`},
		{loopFile, "T-1", []Mark{{Status: Done, Result: "fine"}}, "task_id: T-1\n", "task_id: T-1\n    status: completed\n    result: fine\n"},
		{loopFile, "T-2", []Mark{{Status: Failed}}, "status: pending", "status: failed"},
		{loopFile, "T-3", []Mark{{Status: InProgress, Actor: "ralph/a"}, {Status: Skipped, Note: "later"}}, "task_id: T-3\n    name: three\n    notes: by hand\n", "task_id: T-3\n    status: skipped\n    assignee: \"\"\n    name: three\n    notes: \"by hand\\nlater\"\n"},
		{markdownFile, "T-1", []Mark{{Status: Done, Result: "fine"}}, "- [ ] **T-1** one\n", "- [x] **T-1** one\n  - result: fine\n"},
		{markdownFile, "T-3", []Mark{{Status: InProgress, Actor: "ralph/s/three"}}, "- [ ] **T-3** three\n  - agent: claude\n", "- [ ] **T-3** three\n  - agent: claude (ralph/s/three)\n  - status: in_progress\n"},
		{markdownFile, "T-3", []Mark{{Status: InProgress, Actor: "ralph/s/three"}, {Status: Failed, Result: "no"}}, "- [ ] **T-3** three\n  - agent: claude\n", "- [ ] **T-3** three\n  - agent: claude\n  - status: failed\n  - result: no\n"},
	} {
		text := one()[tc.name]
		root := write(t, map[string]string{tc.name: text})
		var book *memory.Store
		o := Options{Root: root, Path: tc.name}
		if tc.name == markdownFile {
			var err error
			if book, _, err = memory.Open(t.Context(), memory.Options{Root: root, Holder: "run"}); err != nil {
				t.Fatal(err)
			}
			o.Book = book
		}
		tr, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tc.marks {
			if err := tr.Mark(t.Context(), tc.id, m); err != nil {
				t.Fatal(err)
			}
		}
		if book != nil {
			if err := book.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want := strings.Replace(text, tc.old, tc.new, 1)
		if got := read(t, root, tc.name); got != want || want == text {
			t.Errorf("%s %s %v:\n%s", tc.name, tc.id, tc.marks, cmp.Diff(want, got))
		}
	}
}

// TestClaim: of many that want a task one gets it, and what is done is nobody's.
func TestClaim(t *testing.T) {
	for name, text := range one() {
		root := write(t, map[string]string{name: text})
		tr := opened(t, root, name)
		var wg sync.WaitGroup
		won := make([]bool, 12)
		for i := range won {
			wg.Go(func() {
				err := tr.Mark(context.Background(), "T-1", Mark{Status: InProgress, Actor: fmt.Sprintf("ralph/s-1/w%d", i)})
				if won[i] = err == nil; !won[i] && !errors.Is(err, ErrTaken) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		winner := slices.Index(won, true)
		if winner < 0 || slices.Contains(won[winner+1:], true) {
			t.Errorf("%s: winners: %v", name, won)
		}
		// The same again is no error, after a crash for one.
		if err := tr.Mark(t.Context(), "T-1", Mark{Status: InProgress, Actor: fmt.Sprintf("ralph/s-1/w%d", winner)}); err != nil {
			t.Errorf("%s: the same again: %v", name, err)
		}
		if err := tr.Mark(t.Context(), "T-2", Mark{Status: InProgress, Actor: "ralph/s-12/x"}); err != nil {
			t.Fatal(err)
		}
		if err := tr.Mark(t.Context(), "T-3", Mark{Status: Done}); err != nil {
			t.Fatal(err)
		}
		if err := tr.Mark(t.Context(), "T-3", Mark{Status: InProgress, Actor: "ralph/s-1/y"}); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: a done task was claimed: %v", name, err)
		}
		// Another process, later.
		if name != markdownFile {
			tr = opened(t, root, name)
		}
		if ids, err := tr.Release(t.Context(), ""); err != nil || len(ids) > 0 {
			t.Errorf("%s: nobody's claims: %v %v", name, ids, err)
		}
		if ids, err := tr.Release(t.Context(), "ralph/s-1"); err != nil || !slices.Equal(ids, []string{"T-1"}) {
			t.Errorf("%s: released %v, %v", name, ids, err)
		}
		p := load(t, tr)
		if p.Tasks[0].Status != Pending || p.Tasks[0].Assignee != "" || p.Tasks[1].Status != InProgress || p.Tasks[2].Status != Done {
			t.Errorf("%s: after the release: %+v", name, p.Tasks)
		}
	}
}

// TestEdits: what the user writes between a load and a mark stays; a plan that
// is broken or gone is an error, and works again when it is put right.
func TestEdits(t *testing.T) {
	for name, text := range one() {
		if name == markdownFile {
			continue // the store's own tests
		}
		root := write(t, map[string]string{name: text})
		tr := opened(t, root, name)
		p := load(t, tr)
		edited := strings.Replace(text, "two", "two, but better", 1)
		step := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(root, name)
		step(os.WriteFile(path, []byte(edited), 0o644))
		if stamp, err := tr.Stamp(t.Context()); err != nil || stamp == p.Stamp {
			t.Errorf("%s: the edit is not seen: %v", name, err)
		}
		step(tr.Mark(t.Context(), "T-1", Mark{Status: Done}))
		if p = load(t, tr); p.Tasks[1].Title != "two, but better" || p.Tasks[0].Status != Done {
			t.Errorf("%s: %+v", name, p.Tasks)
		}
		good := read(t, root, name)
		step(os.WriteFile(path, []byte(good[:len(good)/2]+"\n  [\""), 0o644))
		var ps *Problems
		if _, err := tr.Load(t.Context()); !errors.As(err, &ps) {
			t.Errorf("%s: half a plan: %v", name, err)
		}
		if err := tr.Mark(t.Context(), "T-1", Mark{Status: Pending}); !errors.As(err, &ps) {
			t.Errorf("%s: a mark in half a plan: %v", name, err)
		}
		step(os.Remove(path))
		for _, err := range []error{second(tr.Load(t.Context())), second(tr.Stamp(t.Context())), tr.Mark(t.Context(), "T-1", Mark{Status: Done}), second(tr.Release(t.Context(), "ralph/"))} {
			if !errors.Is(err, ErrNoPlan) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a plan that is gone: %v", name, err)
			}
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a deleted plan was made again", name)
		}
		step(os.WriteFile(path, []byte(good), 0o644))
		if load(t, tr).Tasks[0].Status != Done {
			t.Errorf("%s: not read again", name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := tr.Load(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestRaced: of an editor that saves all the time, each time its whole text, no
// save is undone by a mark.
func TestRaced(t *testing.T) {
	root := write(t, map[string]string{prdFile: large(prdFile, 40)})
	tr, path := opened(t, root, prdFile), filepath.Join(root, prdFile)
	stop := make(chan struct{})
	var saved atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(4 * time.Millisecond):
			}
			text := strings.Replace(large(prdFile, 40), `"large"`, fmt.Sprintf(`"%d"`, n), 1)
			if err := errors.Join(os.WriteFile(path+"~", []byte(text), 0o644), os.Rename(path+"~", path)); err != nil {
				t.Error(err)
				return
			}
			saved.Store(n)
		}
	})
	for i := range 25 {
		least := saved.Load()
		if err := tr.Mark(t.Context(), fmt.Sprint("T-", i), Mark{Status: Done}); err != nil && !errors.Is(err, durable.ErrChanged) {
			t.Error(err)
			break
		}
		if got, _ := strconv.ParseInt(load(t, tr).Name, 10, 64); got < least {
			t.Errorf("save %d was undone: %d stands there", least, got)
		}
	}
	close(stop)
	wg.Wait()
	if saved.Load() == 0 {
		t.Error("nothing was saved meanwhile")
	}
}

// TestStrange: what is no plain file of the project is refused at once.
func TestStrange(t *testing.T) {
	root := write(t, map[string]string{"sub/prd.json": one()[prdFile], "real.json": one()[prdFile]})
	outside := write(t, map[string]string{"prd.json": one()[prdFile]})
	big := filepath.Join(root, "big.json")
	if err := errors.Join(
		syscall.Mkfifo(filepath.Join(root, "fifo.json"), 0o600),
		os.Mkdir(filepath.Join(root, "dir.json"), 0o755),
		os.Symlink(filepath.Join(outside, "prd.json"), filepath.Join(root, "link.json")),
		os.Symlink("real.json", filepath.Join(root, "inner.json")),
		os.Symlink(outside, filepath.Join(root, "out")),
		os.Symlink("nowhere", filepath.Join(root, "dangling.json")),
		os.WriteFile(big, []byte("["), 0o644), os.Truncate(big, 100<<20),
		os.WriteFile(filepath.Join(root, "nul.md"), make([]byte, 1000), 0o644),
		os.WriteFile(filepath.Join(root, "deep.json"), []byte(strings.Repeat("[", 1<<20)), 0o644),
		os.WriteFile(filepath.Join(root, "deep.yaml"), []byte("tasks: "+strings.Repeat("[", 1<<16)), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"fifo.json": durable.ErrNotRegular, "dir.json": durable.ErrNotRegular, "link.json": durable.ErrSymlink, "inner.json": durable.ErrSymlink,
		"out/prd.json": errOutside, "dangling.json": durable.ErrSymlink, "big.json": durable.ErrTooLarge, "gone.json": ErrNoPlan,
		"nul.md": ErrEmpty, "deep.json": nil, "deep.yaml": nil,
	} {
		for _, tracker := range []string{"", "json", "yaml", "markdown"} {
			began := time.Now()
			tr, err := Open(t.Context(), Options{Root: root, Path: name, Tracker: tracker})
			if err == nil {
				_, err = tr.Load(t.Context())
			}
			if err == nil || want != nil && tracker == "" && !errors.Is(err, want) {
				t.Errorf("%s as %q: %v", name, tracker, err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%s as %q: %v", name, tracker, took)
			}
		}
	}
	// What the user names outside of the project is the user's.
	if tr, err := Open(t.Context(), Options{Root: root, Path: filepath.Join(outside, "prd.json")}); err != nil || len(load(t, tr).Tasks) != 3 {
		t.Errorf("outside: %v", err)
	}
	if tr, err := Open(t.Context(), Options{Root: root, Path: "sub/prd.json"}); err != nil || load(t, tr).Path != "sub/prd.json" {
		t.Errorf("below: %v", err)
	}
}

// TestMarkdownOfAnyName: a plan in Markdown of any name and place is kept as
// RALPH_TASKS.md is, also while others edit it; only the lines of its task change.
func TestMarkdownOfAnyName(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "PLAN.md")
	for _, name := range []string{"docs/todo list.md", "PLAN", "notes.txt", outside, markdownFile} {
		root := write(t, map[string]string{"README": ""})
		path := name
		if !filepath.IsAbs(name) {
			path = filepath.Join(root, name)
		}
		text := "# Title\r\n\r\n- [ ] set up\r\n- [ ] **T-2** go (after ~set-up)\r\n  - [ ] AC-1: goes\r\n"
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
			t.Fatal(err)
		}
		tr, err := Open(t.Context(), Options{Root: root, Path: name})
		if err != nil {
			t.Fatal(err)
		}
		if p := load(t, tr); len(p.Tasks) != 2 || len(p.Tasks[1].Criteria) != 1 || !slices.Equal(p.Tasks[1].After, []string{"~set-up"}) {
			t.Errorf("%s: %+v", name, p.Tasks)
		}
		if err := tr.Mark(t.Context(), "~set-up", Mark{Status: InProgress, Actor: "ralph/s-1"}); err != nil {
			t.Fatal(err)
		}
		if err := tr.Mark(t.Context(), "~set-up", Mark{Status: InProgress, Actor: "ralph/s-2"}); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
		if ids, err := tr.Release(t.Context(), "ralph/s-1"); err != nil || !slices.Equal(ids, []string{"~set-up"}) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // somebody else adds a line at the same time
			was, err := os.ReadFile(path)
			for text := was; err == nil && text != nil; {
				next := append(slices.Clone(text), "note\r\n"...)
				if text, err = durable.Swap(afero.NewOsFs(), path, was, next, 0o640); errors.Is(err, durable.ErrChanged) {
					was, err = os.ReadFile(path)
					text = was
				} else {
					was = next
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
		err = tr.Mark(t.Context(), "T-2", Mark{Status: Done})
		wg.Wait()
		got, _ := load(t, tr).Find("T-2")
		data, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || got.Status != Done ||
			!strings.Contains(string(data), "\r\n- [x] **T-2** go (after ~set-up)\r\n  - [ ] AC-1: goes\r\nnote\r\n") {
			t.Errorf("%s: %v %v: %s", name, err, readErr, data)
		}
	}
}

func TestDetect(t *testing.T) {
	all := one()
	for _, tc := range []struct {
		name          string
		files         map[string]string
		tracker, path string
		want          string // tracker path, or what the error says
	}{
		{"nothing", nil, "", "", "find plan: no plan"},
		{"markdown", map[string]string{markdownFile: "x"}, "", "", "markdown RALPH_TASKS.md"},
		{"yaml first", map[string]string{markdownFile: "x", loopFile: "x"}, "", "", "yaml RALPH-LOOP-PLAN.yaml"},
		{"json first", map[string]string{markdownFile: "x", prdFile: "x", loopFile: "x"}, "", "", "json prd.json"},
		{"beads first", map[string]string{".beads/issues.jsonl": "x", prdFile: "x"}, "", "", "beads .beads"},
		{"no directory", map[string]string{".beads": "x", prdFile: "x"}, "", "", "json prd.json"},
		{"yml", map[string]string{"RALPH-LOOP-PLAN.yml": "x"}, "", "", "yaml RALPH-LOOP-PLAN.yml"},
		{"tracker", map[string]string{markdownFile: "x", prdFile: "x"}, "markdown", "", "markdown RALPH_TASKS.md"},
		{"tracker without its file", map[string]string{prdFile: "x"}, "yaml", "", `open plan "RALPH-LOOP-PLAN.yaml": there is no such file`},
		{"unknown tracker", nil, "yml", "", `open tracker "yml": there is none`},
		{"content over name", map[string]string{"plan.txt": all[prdFile]}, "", "plan.txt", "json plan.txt"},
		{"loop in json", map[string]string{"plan.json": `{"tasks": [{"task_id": "a", "name": "b"}]}`}, "", "plan.json", "yaml plan.json"},
		{"loop in yaml", map[string]string{"plan": all[loopFile]}, "", "plan", "yaml plan"},
		{"markdown by content", map[string]string{"plan": all[markdownFile]}, "", "plan", "markdown plan"},
		{"a link first", map[string]string{"p.md": "[x](y)\n- [ ] a\n"}, "", "p.md", "markdown p.md"},
		{"broken json", map[string]string{"x.json": `{"userStories": [`}, "", "x.json", "json x.json"},
		{"neither", map[string]string{"notes.txt": "hello"}, "", "notes.txt", `open plan "notes.txt": this is neither`},
		{"beads by path", map[string]string{"a/.beads/issues.jsonl": "x"}, "", "a/.beads/issues.jsonl", "beads a/.beads"},
		{"bv", map[string]string{".beads/issues.jsonl": "x"}, "beads-bv", "", "beads-bv .beads"},
		{"missing", nil, "", "plans/x.json", `open plan "plans/x.json": `},
	} {
		root := write(t, tc.files)
		tracker, path, why, err := Detect(Options{Root: root, Tracker: tc.tracker, Path: tc.path})
		got := tracker + " " + path
		if err != nil {
			got = err.Error()
			var p *Problems
			if !errors.As(err, &p) || p.Hint == "" {
				t.Errorf("%s: no hint: %v", tc.name, err)
			}
		} else if why == "" {
			t.Errorf("%s: no reason", tc.name)
		}
		if got != tc.want && (err == nil || !strings.HasPrefix(got, tc.want)) {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestEpicsAndGraph(t *testing.T) {
	root := write(t, map[string]string{prdFile: `[
 {"id": "E1", "title": "e", "type": "epic"},
 {"id": "E2", "title": "e", "type": "epic", "dependsOn": ["E1"]},
 {"id": "E3", "title": "inner", "type": "epic", "epic": "E2"},
 {"id": "a", "title": "a", "epic": "E1", "passes": true},
 {"id": "b", "title": "b", "epic": "E1", "dependsOn": ["a"]},
 {"id": "c", "title": "c", "epic": "E3"},
 {"id": "d", "title": "d", "status": "blocked"},
 {"id": "e", "title": "e", "status": "skipped"},
 {"id": "f", "title": "f", "dependsOn": ["e"], "status": "blocked"}
]`})
	tr := opened(t, root, prdFile)
	p := load(t, tr)
	if got := p.Graph().Ready(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("ready: %v", got)
	}
	if err := tr.Mark(t.Context(), "b", Mark{Status: Done}); err != nil {
		t.Fatal(err)
	}
	p = load(t, tr)
	if got := p.Graph().Ready(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("ready when the first epic is done: %v", got)
	}
	for _, tc := range []struct {
		epics []string
		want  string
	}{{nil, "E1 E2 E3 a b c d e f"}, {[]string{"E2"}, "E3 c"}, {[]string{"e1", "E3"}, "a b c"}} {
		ids, err := p.Within(tc.epics)
		var got []string
		for id := range ids {
			got = append(got, id)
		}
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%v: %v %v", tc.epics, got, err)
		}
	}
	var ps *Problems
	if _, err := p.Within([]string{"E4"}); !errors.As(err, &ps) || !strings.Contains(ps.Hint, "E1, E2, E3") {
		t.Errorf("an unknown epic: %v", err)
	}
	// Epics that hold each other end.
	odd := &Plan{Tasks: []Task{{ID: "x", Epic: "y", Kind: "epic", After: []string{"y"}}, {ID: "y", Epic: "x", Kind: "epic"}, {ID: "z", Epic: "x"}}}
	odd.Nodes()
	if ids, err := odd.Within([]string{"x"}); err != nil || !ids["z"] {
		t.Errorf("%v %v", ids, err)
	}
}

// TestDetectLinkedBeads: a .beads that is a link is the plan, not overlooked in
// favour of another; one that leads out of the project is refused when opened.
func TestDetectLinkedBeads(t *testing.T) {
	root, outside := write(t, map[string]string{"real/issues.jsonl": "x", prdFile: "x"}), write(t, map[string]string{"issues.jsonl": "x"})
	for target, want := range map[string]string{"real": "", outside: "outside the project", "nowhere": "no beads data"} {
		if err := errors.Join(os.RemoveAll(filepath.Join(root, beadsDir)), os.Symlink(target, filepath.Join(root, beadsDir))); err != nil {
			t.Fatal(err)
		}
		o := Options{Root: root, Proc: exec.New(exec.Options{})}
		if tracker, path, why, err := Detect(o); err != nil || tracker != "beads" || path != beadsDir || !strings.Contains(why, prdFile) {
			t.Errorf("%s: %q %q %q %v", target, tracker, path, why, err)
		}
		if _, err := Open(t.Context(), o); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}
