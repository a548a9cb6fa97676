package beads_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/coordinator/plan/beads"
	"ralph/coordinator/plan/graph"
	"ralph/workers/exec"
)

// real is a project with a database of a real bd.
type real struct {
	t      *testing.T
	bin    string
	root   string
	proc   *exec.Runner
	env    []string
	client *beads.Client
	warned []string
}

// bd finds the real program, by RALPH_TEST_BD or in PATH. With
// RALPH_TEST_MUST_BD=1 it must be there.
func bd(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("RALPH_TEST_BD")
	if bin == "" {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if info, err := os.Stat(filepath.Join(dir, "bd")); err == nil && info.Mode().IsRegular() {
				bin = filepath.Join(dir, "bd")
				break
			}
		}
	}
	if _, err := os.Stat(bin); bin == "" || err != nil {
		if os.Getenv("RALPH_TEST_MUST_BD") == "1" {
			t.Fatalf("RALPH_TEST_MUST_BD is set and there is no bd: RALPH_TEST_BD=%q", os.Getenv("RALPH_TEST_BD"))
		}
		t.Skip("no bd: set RALPH_TEST_BD to one (0.47.1), or put it into PATH")
	}
	return bin
}

func realBD(t *testing.T) *real {
	t.Helper()
	r := &real{t: t, bin: bd(t), root: filepath.Join(t.TempDir(), "p"), proc: runner(t), env: os.Environ()}
	if err := os.Mkdir(r.root, 0o755); err != nil {
		t.Fatal(err)
	}
	r.initialize()
	r.client = r.open()
	v, err := r.client.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.Text != "0.47.1" {
		if os.Getenv("RALPH_TEST_MUST_BD") == "1" {
			t.Fatalf("RALPH_TEST_MUST_BD wants 0.47.1, this is %s", v.Text)
		}
		t.Skipf("these tests are for bd 0.47.1, this is %s", v.Text)
	}
	return r
}

// fresh is the .beads of a new database, made once for all tests: bd init takes a
// second.
var fresh struct {
	sync.Mutex
	files map[string]string
}

func (r *real) initialize() {
	r.t.Helper()
	fresh.Lock()
	defer fresh.Unlock()
	if fresh.files == nil {
		r.run("init", "--prefix", "demo", "--quiet", "--skip-hooks", "--skip-merge-driver")
		fresh.files = map[string]string{}
		names, err := filepath.Glob(filepath.Join(r.root, ".beads", "*"))
		if err != nil || len(names) == 0 {
			r.t.Fatal(names, err)
		}
		for _, name := range names {
			fresh.files[filepath.Base(name)] = read(r.t, name)
		}
		return
	}
	for name, text := range fresh.files {
		write(r.t, filepath.Join(r.root, ".beads", name), text, 0o644)
	}
}

func (r *real) open() *beads.Client {
	r.t.Helper()
	c, err := beads.Open(beads.Options{Root: r.root, Proc: r.proc, Environ: r.env, Program: r.bin, Warn: func(w string) { r.warned = append(r.warned, w) }})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// run is a user's bd beside Ralph's.
func (r *real) run(args ...string) string {
	r.t.Helper()
	res, err := r.proc.Run(r.t.Context(), exec.Spec{
		Argv: append([]string{r.bin, "--actor", "user"}, args...), Dir: r.root, Split: true, Timeout: 30 * time.Second, MaxBytes: 8 << 20,
		Env: append(exec.Environ(r.env), "BEADS_NO_DAEMON=1"),
	})
	if err != nil || res.ExitCode != 0 {
		r.t.Fatalf("bd %v: %v, exit %d: %s%s", args, err, res.ExitCode, res.Stdout, res.Stderr)
	}
	return strings.TrimSpace(res.Stdout.String())
}

func (r *real) create(title string, more ...string) string {
	r.t.Helper()
	return r.run(append([]string{"create", title, "--silent", "-d", title}, more...)...)
}

func (r *real) issue(id string) beads.Issue {
	r.t.Helper()
	s, err := r.client.Snapshot(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, i := range s.Issues {
		if i.ID == id {
			return i
		}
	}
	r.t.Fatalf("there is no %s", id)
	return beads.Issue{}
}

func TestRealLife(t *testing.T) {
	r := realBD(t)
	ctx := t.Context()
	base := r.create("Base")
	top := r.create("Top", "--deps", base)

	if err := r.client.Claim(ctx, base, "ralph/base"); err != nil {
		t.Fatal(err)
	}
	if i := r.issue(base); i.Status != "in_progress" || i.Assignee != "ralph/base" {
		t.Errorf("after the claim: %+v", i)
	}
	if err := r.client.Claim(ctx, base, "ralph/other"); !errors.Is(err, beads.ErrTaken) {
		t.Errorf("a second claim: %v", err)
	}
	if err := r.client.Claim(ctx, base, "ralph/base"); err != nil {
		t.Errorf("the same claim again: %v", err)
	}
	if err := r.client.Claim(ctx, "demo-none", "ralph/base"); !errors.Is(err, beads.ErrNoIssue) {
		t.Errorf("claim of nothing: %v", err)
	}
	if err := r.client.Close(ctx, top, "ralph 1a2b", "ralph/top"); !errors.Is(err, beads.ErrOpenBlockers) {
		t.Errorf("close of what waits: %v", err)
	}
	if err := r.client.Release(ctx, base, "ralph/base"); err != nil {
		t.Fatal(err)
	}
	if i := r.issue(base); i.Status != "open" || i.Assignee != "" {
		t.Errorf("after the release: %+v", i)
	}
	if err := r.client.Claim(ctx, base, "ralph/second"); err != nil {
		t.Fatalf("claim after the release: %v", err)
	}
	// What a bare reopen leaves: open, and still somebody's.
	r.run("update", base, "--status", "open", "--json")
	if err := r.client.Claim(ctx, base, "ralph/second"); err != nil {
		t.Fatalf("claim after a bare reopen: %v", err)
	}
	text := "-a remark with \"quotes\" $(id)\nand a second line: ü"
	if err := r.client.Comment(ctx, base, text, "ralph/second"); err != nil {
		t.Fatal(err)
	}
	var comments []struct{ Author, Text string }
	if err := json.Unmarshal([]byte(r.run("comments", base, "--json")), &comments); err != nil || len(comments) != 1 || comments[0].Text != text || comments[0].Author != "ralph/second" {
		t.Errorf("comments %+v, %v", comments, err)
	}
	if err := r.client.Close(ctx, base, "ralph 1a2b", "ralph/second"); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Close(ctx, base, "ralph other", "ralph/second"); err != nil {
		t.Fatal(err)
	}
	if i := r.issue(base); !i.Closed() || i.CloseReason != "ralph 1a2b" {
		t.Errorf("after two closes: %+v", i)
	}
	if err := r.client.Claim(ctx, base, "ralph/late"); !errors.Is(err, beads.ErrTaken) {
		t.Errorf("claim of what is closed: %v", err)
	}
	if err := r.client.Release(ctx, base, "ralph/second"); err != nil || r.issue(base).Status != "open" {
		t.Errorf("reopened: %v %s", err, r.issue(base).Status)
	}
}

// TestRealStamp: the stamp changes with each change, and reading is none.
func TestRealStamp(t *testing.T) {
	r := realBD(t)
	ctx := t.Context()
	id := r.create("One")
	s, err := r.client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name    string
		changes bool
		do      func()
	}{
		{"nothing", false, func() {}},
		{"reading", false, func() { r.run("list", "--json"); r.run("show", id, "--json") }},
		{"another client", false, func() {
			if _, err := r.open().Snapshot(ctx); err != nil {
				t.Fatal(err)
			}
		}},
		{"a claim", true, func() { r.run("update", id, "--claim", "--json") }},
		{"a new issue", true, func() { r.create("Two") }},
		{"a new edge", true, func() { r.run("dep", "add", id, r.create("Three")) }},
		{"nothing again", false, func() {}},
	} {
		step.do()
		stamp, err := r.client.Stamp(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if (stamp != s.Stamp) != step.changes {
			t.Errorf("%s: stamp %s, was %s", step.name, stamp, s.Stamp)
		}
		s.Stamp = stamp
	}
	// What did not change costs no process: bd is no more, and the stamp still known.
	c := r.open()
	for range 2 {
		if _, err := c.Stamp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := beads.Open(beads.Options{Root: r.root, Proc: r.proc, Environ: r.env, Program: r.link()})
	if err != nil {
		t.Fatal(err)
	}
	var last string
	for range 3 {
		if last, err = gone.Stamp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(r.root, "bd")); err != nil {
		t.Fatal(err)
	}
	if now, err := gone.Stamp(ctx); err != nil || now != last {
		t.Errorf("stamp without bd: %q, %v; want %q", now, err, last)
	}
}

func (r *real) link() string {
	path := filepath.Join(r.root, "bd")
	if err := os.Symlink(r.bin, path); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// TestRealStale is what git pull does to bd 0.47.1: its file changes, and reading
// commands go on with the old data, exit 0.
func TestRealStale(t *testing.T) {
	r := realBD(t)
	ctx := t.Context()
	a := r.create("A")
	r.create("B")
	file := filepath.Join(r.root, ".beads", "issues.jsonl")
	before, err := r.client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	line := `{"id":"demo-pulled","title":"Pulled","status":"open","priority":0,"issue_type":"task","created_at":"2027-01-01T00:00:00Z","updated_at":"2027-01-01T00:00:00Z","dependencies":[{"issue_id":"demo-pulled","depends_on_id":"` + a + `","type":"blocks","created_at":"2027-01-01T00:00:00Z","created_by":"u"}]}` + "\n"
	write(t, file, read(t, file)+line, 0o644)
	stamp, err := r.client.Stamp(ctx)
	if err != nil || stamp == before.Stamp {
		t.Fatalf("stamp of a changed file %q, %v", stamp, err)
	}
	i := r.issue("demo-pulled")
	if lines := strings.Split(read(t, file), "\n"); len(i.Dependencies) != 1 || i.Line == 0 || !strings.Contains(lines[i.Line-1], `"id":"demo-pulled"`) {
		t.Errorf("pulled: %+v", i)
	}
	if len(r.warned) != 1 || !strings.Contains(r.warned[0], "was changed outside bd") {
		t.Errorf("warned %q", r.warned)
	}
	// A cycle in the file: bd would import it without one of its edges.
	text := strings.Replace(read(t, file), `"id":"`+a+`",`, `"id":"`+a+`","dependencies":[{"issue_id":"`+a+`","depends_on_id":"demo-pulled","type":"blocks","created_at":"2027-01-01T00:00:00Z"}],`, 1)
	write(t, file, text, 0o644)
	var d *beads.DataError
	if _, err := r.client.Snapshot(ctx); !errors.As(err, &d) || !strings.Contains(d.Error(), "circle") {
		t.Errorf("a cycle: %v", err)
	}
	write(t, file, "<<<<<<< ours\n"+read(t, file), 0o644)
	if _, err := r.client.Snapshot(ctx); !errors.As(err, &d) || d.Faults[0].Line != 1 {
		t.Errorf("a conflict: %v", err)
	}
}

// TestRealReady: what we call ready is what bd calls ready, without the epics and
// the work that is being done, which bd lists too.
func TestRealReady(t *testing.T) {
	r := realBD(t)
	ctx := t.Context()
	epic := r.create("Epic", "-t", "epic")
	gate := r.create("Gate")
	held := r.create("Held epic", "-t", "epic", "--deps", gate)
	one := r.create("One", "--parent", epic)
	r.create("Two", "--parent", epic, "--deps", one)
	r.create("Under a held epic", "--parent", held)
	busy := r.create("Busy")
	r.run("update", busy, "--claim", "--json")
	done := r.create("Done")
	r.create("After done", "--deps", done)
	r.run("close", done)
	later := r.create("Deferred")
	r.run("update", later, "--status", "deferred")
	r.create("Related", "--deps", "related:"+one)
	fan := r.create("Fan in", "--waits-for", epic)
	dead := r.create("Dead")
	r.create("After dead", "--deps", dead)
	r.run("delete", dead, "--force")

	s, err := r.client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	waits := s.Waits()
	var nodes []graph.Node
	kind := map[string]beads.Issue{}
	for _, i := range s.Issues {
		kind[i.ID] = i
		after := slices.Clone(waits[i.ID].For)
		if p := i.Parent(); p != "" {
			after = append(after, waits[p].For...) // what holds up an epic holds up its children
		}
		nodes = append(nodes, graph.Node{ID: i.ID, After: after, Done: i.Closed(), Priority: i.Priority,
			Pick: i.Status == "open" && i.Type != "epic" && waits[i.ID].Never == ""})
	}
	var theirs []struct {
		ID     string
		Status string
		Type   string `json:"issue_type"`
	}
	if err := json.Unmarshal([]byte(r.run("ready", "--json", "--limit", "0")), &theirs); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, i := range theirs {
		if i.Type != "epic" && i.Status == "open" {
			want = append(want, i.ID)
		}
	}
	got := graph.New(nodes).Ready()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("ready %v, bd says %v", got, want)
	}
	if len(want) != 5 || slices.Contains(want, fan) {
		t.Errorf("bd calls %v ready, want five of them and not %s", want, fan)
	}
}

func TestRealRace(t *testing.T) {
	r := realBD(t)
	id := r.create("Wanted")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for k := range errs {
		wg.Go(func() { errs[k] = r.client.Claim(t.Context(), id, fmt.Sprintf("ralph/%d", k)) })
	}
	wg.Wait()
	winner := ""
	for k, err := range errs {
		switch {
		case err == nil && winner == "":
			winner = fmt.Sprintf("ralph/%d", k)
		case !errors.Is(err, beads.ErrTaken):
			t.Errorf("claim %d: %v", k, err)
		}
	}
	if got := r.issue(id).Assignee; winner == "" || got != winner {
		t.Errorf("%q thinks that it has won, bd says %q", winner, got)
	}
}

func TestRealAdd(t *testing.T) {
	r := realBD(t)
	ctx := t.Context()
	drafts := []beads.Draft{
		{ID: "US-3", Title: "-Page", After: []string{"US-2", "US-1"}, Parent: "EPIC-1", Priority: 9, Labels: []string{"ui", "a,b"}},
		{ID: "US-1", Title: "Schema", Parent: "EPIC-1", Description: "Tables", Acceptance: "- [ ] go test", Notes: "Check: go test ./...", Priority: 0, Done: true},
		{ID: "US-2", Title: "API", After: []string{"US-1"}, Parent: "EPIC-1", Type: "feature", Priority: 1},
		{ID: "EPIC-1", Title: "Checkout", Type: "epic"},
	}
	added, err := r.client.Add(ctx, drafts, false, "ralph/plan")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, a := range added {
		if ids[a.Draft] = a.Issue; !a.New {
			t.Errorf("%+v is not new", a)
		}
	}
	check := func(count int) {
		t.Helper()
		s, err := r.client.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waits := s.Waits()
		if len(s.Issues) != count {
			t.Errorf("%d issues, want %d", len(s.Issues), count)
		}
		for ref, want := range map[string]string{
			"US-1":   fmt.Sprintf("Schema closed 0 task %s []", ids["EPIC-1"]),
			"US-2":   fmt.Sprintf("API open 1 feature %s [%s]", ids["EPIC-1"], ids["US-1"]),
			"US-3":   fmt.Sprintf("-Page open 4 task %s [%s]", ids["EPIC-1"], ids["US-2"]),
			"EPIC-1": "Checkout open 0 epic  []",
		} {
			k := slices.IndexFunc(s.Issues, func(i beads.Issue) bool { return i.ExternalRef == ref })
			if k < 0 {
				t.Fatalf("no issue for %s", ref)
			}
			i := s.Issues[k]
			if got := fmt.Sprintf("%s %s %d %s %s %v", i.Title, i.Status, i.Priority, i.Type, i.Parent(), waits[i.ID].For); got != want {
				t.Errorf("%s: %s\nwant %s", ref, got, want)
			}
		}
	}
	check(4)
	if i := r.issue(ids["US-1"]); i.Notes != "Check: go test ./..." || i.Acceptance != "- [ ] go test" {
		t.Errorf("%+v", i)
	}
	if _, err := r.client.Add(ctx, drafts[:1], false, "ralph/plan"); !errors.Is(err, beads.ErrExists) {
		t.Errorf("added twice: %v", err)
	}
	drafts = append(drafts, beads.Draft{ID: "US-4", Title: "Docs", After: []string{"US-3"}})
	again, err := r.client.Add(ctx, drafts, true, "ralph/plan")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range again {
		if a.New != (a.Draft == "US-4") {
			t.Errorf("merged: %+v", a)
		}
	}
	check(5)
	for _, bad := range [][]beads.Draft{
		{{ID: "a", Title: "A", After: []string{"b"}}, {ID: "b", Title: "B", After: []string{"a"}}},
		{{ID: "a", Title: "A", After: []string{"nobody"}}},
		{{ID: "a", Title: "A"}, {ID: "a", Title: "A"}},
		{{ID: "a", Title: " "}},
		{{ID: "a", Title: "A", Parent: "b"}, {ID: "b", Title: "B", After: []string{"a"}}},
	} {
		if _, err := r.client.Add(ctx, bad, false, "ralph/plan"); err == nil {
			t.Errorf("%+v was added", bad)
		}
	}
	check(5)
}

// TestRealPlaces: bd with a .beads without database takes the next one further
// up; Ralph does not.
func TestRealPlaces(t *testing.T) {
	temp := t.TempDir() // of this test alone: other packages' tests run bd too
	t.Setenv("TMPDIR", temp)
	r := realBD(t)
	ctx := t.Context()
	id := r.create("Outer")
	inner := filepath.Join(r.root, "inner")
	if err := os.MkdirAll(filepath.Join(inner, ".beads"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := beads.Open(beads.Options{Root: inner, Proc: r.proc, Environ: r.env, Program: r.bin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Snapshot(ctx); !errors.Is(err, beads.ErrNoData) {
		t.Errorf("snapshot of an empty directory: %v", err)
	}
	if err := c.Claim(ctx, id, "ralph/x"); !errors.Is(err, beads.ErrNoData) {
		t.Errorf("claim through an empty directory: %v", err)
	}
	// A clone has the JSONL alone.
	clone := filepath.Join(t.TempDir(), "clone")
	write(t, filepath.Join(clone, ".beads", "issues.jsonl"), read(t, filepath.Join(r.root, ".beads", "issues.jsonl")), 0o644)
	c, err = beads.Open(beads.Options{Root: clone, Proc: r.proc, Environ: r.env, Program: r.bin})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(ctx)
	if err != nil || len(s.Issues) != 1 || s.Issues[0].ID != id {
		t.Fatalf("a clone: %+v, %v", s, err)
	}
	if err := c.Claim(ctx, id, "ralph/x"); err != nil {
		t.Errorf("claim in a clone: %v", err)
	}
	if r.issue(id).Status != "open" {
		t.Error("the claim went into the other database")
	}
	for _, name := range []string{"AGENTS.md", ".gitignore", ".bv", "CLAUDE.md"} {
		if _, err := os.Lstat(filepath.Join(clone, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	entries, err := filepath.Glob(filepath.Join(temp, "ralph-beads-*"))
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// TestRealTypes: an export with types that bd does not know is read whole: an import
// refuses all of it otherwise.
func TestRealTypes(t *testing.T) {
	r := realBD(t)
	r.run("config", "set", "types.custom", "spike")
	line := `{"id":"%s","title":"t","status":"open","priority":1,"issue_type":"%s","created_at":"2026-01-02T00:00:00Z","updated_at":"2026-01-02T00:00:00Z"}` + "\n"
	prefix := strings.TrimRight(strings.TrimRight(r.create("first"), "0123456789abcdefghijklmnopqrstuvwxyz"), "-")
	file := filepath.Join(r.root, ".beads", "issues.jsonl")
	text := read(t, file)
	for i, kind := range []string{"story", "milestone", "agent", "spike", "task"} {
		text += fmt.Sprintf(line, fmt.Sprintf("%s-n%d", prefix, i), kind)
	}
	write(t, file, text, 0o644)
	s, err := r.open().Snapshot(t.Context())
	if err != nil || len(s.Issues) != 6 {
		t.Fatalf("%v: %+v", err, s)
	}
	kinds := map[string]string{}
	for _, i := range s.Issues {
		kinds[i.ID] = i.Type
	}
	if kinds[prefix+"-n0"] != "story" || kinds[prefix+"-n1"] != "milestone" || kinds[prefix+"-n3"] != "spike" {
		t.Errorf("%v", kinds)
	}
	if said := strings.Join(r.warned, "\n"); !strings.Contains(said, "story, milestone") || strings.Contains(said, "spike") {
		t.Errorf("%q", said)
	}
	write(t, file, text+fmt.Sprintf(line, prefix+"-n9", "user story"), 0o644)
	var bad *beads.DataError
	if _, err := r.open().Snapshot(t.Context()); !errors.As(err, &bad) || len(bad.Faults) != 1 || bad.Faults[0].Line != 7 {
		t.Errorf("%v", err)
	}
}
