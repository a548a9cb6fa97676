package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
)

// beadsProject is a project whose bd is a stand-in that exports a file, or the
// real one.
type beadsProject struct {
	t      *testing.T
	root   string
	bin    string // in PATH
	runner *exec.Runner
	warned []string
}

func newBeadsProject(t *testing.T) *beadsProject {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &beadsProject{t: t, root: filepath.Join(base, "p"), bin: filepath.Join(base, "bin"), runner: exec.New(exec.Options{})}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.runner.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	b.put(filepath.Join(b.root, ".beads", "metadata.json"), "{}", 0o644)
	b.put(filepath.Join(b.bin, "keep"), "", 0o644)
	return b
}

func (b *beadsProject) put(path, text string, mode os.FileMode) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := exectest.WriteProgram(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

// standIn installs a bd of a version that exports a file of the project's.
func (b *beadsProject) standIn(version, issues string) {
	b.t.Helper()
	b.put(filepath.Join(b.root, "..", "issues"), issues, 0o644)
	b.put(filepath.Join(b.bin, "bd"), `#!/bin/sh
case "$*" in
"version --json") echo '{"version":"`+version+`"}' ;;
"where --json") echo "{\"path\":\"$BEADS_DIR\"}" ;;
"export -o "*) cp "$BEADS_DIR/../../issues" "$3" ;;
*) echo "Error: unknown command" >&2; exit 1 ;;
esac
`, 0o755)
}

// real installs the real bd and makes a database, or skips.
func (b *beadsProject) real() {
	b.t.Helper()
	bin := os.Getenv("RALPH_TEST_BD")
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, "bd")); bin == "" && err == nil && info.Mode().IsRegular() {
			bin = filepath.Join(dir, "bd")
		}
	}
	if _, err := os.Stat(bin); bin == "" || err != nil {
		if os.Getenv("RALPH_TEST_MUST_BD") == "1" {
			b.t.Fatalf("RALPH_TEST_MUST_BD is set and there is no bd: RALPH_TEST_BD=%q", os.Getenv("RALPH_TEST_BD"))
		}
		b.t.Skip("no bd: set RALPH_TEST_BD to one (0.47.1), or put it into PATH")
	}
	if err := os.Symlink(bin, filepath.Join(b.bin, "bd")); err != nil {
		b.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(b.root, ".beads")); err != nil {
		b.t.Fatal(err)
	}
	b.bd("init", "--prefix", "demo", "--quiet", "--skip-hooks", "--skip-merge-driver")
}

func (b *beadsProject) bd(args ...string) string {
	b.t.Helper()
	res, err := b.runner.Run(b.t.Context(), exec.Spec{Argv: append([]string{"bd", "--actor", "user"}, args...), Dir: b.root,
		Env: append(b.environ(), "BEADS_NO_DAEMON=1"), Split: true, Timeout: 30 * time.Second})
	if err != nil || res.ExitCode != 0 {
		b.t.Fatalf("bd %v: %v %s", args, err, res.Stderr)
	}
	return strings.TrimSpace(res.Stdout.String())
}

func (b *beadsProject) environ() []string {
	return append(exec.Environ(os.Environ()), "PATH="+b.bin+":/usr/bin:/bin")
}

func (b *beadsProject) open(tracker string, epics ...string) Tracker {
	b.t.Helper()
	t, err := Open(b.t.Context(), Options{Root: b.root, Tracker: tracker, Epics: epics, Proc: b.runner, Environ: b.environ(),
		Warn: func(w string) { b.warned = append(b.warned, w) }})
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("beads", "testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestBeadsTasks(t *testing.T) {
	for version, file := range map[string]string{"0.47.1": "issues.jsonl", "1.0.5": "bd-1.0.5/export.jsonl"} {
		b := newBeadsProject(t)
		b.standIn(version, fixture(t, file))
		tr := b.open("")
		p, err := tr.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if tr.Name() != "beads" || p.Tracker != "beads" || p.Path != ".beads" || len(p.Tasks) != 8 || len(p.Warnings) != 0 {
			t.Errorf("%s: %s %+v", version, tr.Name(), p)
		}
		got := map[string]string{}
		for _, k := range p.Tasks {
			got[k.ID] = fmt.Sprint(k.Title, "|", k.Status, k.Priority, k.Kind, "|", k.Epic, k.After, "", k.Labels, k.Assignee, k.Criteria, k.Effort, " ", k.Result, "|", k.Description)
		}
		for id, want := range map[string]string{
			"demo-1": "Checkout epic|open1epic|[][][] |Ship the checkout flow",
			"demo-2": "Design cart schema|done1task|demo-1[][backend db][{go test ./cart passes false}]60 min commit 1a2b3c4|Tables for cart + items",
			"demo-3": "Cart API|open2feature|demo-1[demo-2][backend][] |CRUD endpoints\n\nDesign:\nnet/http + sqlc",
			"demo-4": "Payment adapter|in_progress1feature|demo-1[][backend payments]ralph-w1[] |Stripe adapter behind an interface",
			"demo-7": "Flaky cart test|open0bug|[][][] |cart_test fails 1 in 20",
			"demo-8": "Stray spike|open3task|[][][] |not in the epic",
		} {
			if got[id] != want {
				t.Errorf("%s: %s: %q, want %q", version, id, got[id], want)
			}
		}
		after := strings.Fields(strings.Trim(strings.Split(strings.Split(got["demo-5"], "demo-1[")[1], "]")[0], "[]"))
		if slices.Sort(after); !slices.Equal(after, []string{"demo-3", "demo-4"}) {
			t.Errorf("%s: demo-5 is after %v", version, after)
		}
		if ready := p.Graph().Ready(); !slices.Equal(ready, []string{"demo-7", "demo-3", "demo-8"}) {
			t.Errorf("%s: ready %v", version, ready)
		}
		if stamp, err := tr.Stamp(t.Context()); err != nil || stamp != p.Stamp {
			t.Errorf("%s: stamp %q, %v; want %q", version, stamp, err, p.Stamp)
		}
	}
}

func TestBeadsRefused(t *testing.T) {
	good := fixture(t, "issues.jsonl")
	line := func(id, rest string) string {
		return `{"id":"` + id + `","title":"` + id + `","status":"open","issue_type":"task"` + rest + "}\n"
	}
	dep := func(on, kind string) string {
		return `{"depends_on_id":"` + on + `","type":"` + kind + `"}`
	}
	for _, c := range []struct {
		name, version, export, file string
		is                          error
		says                        []string
	}{
		{"nothing", "1.0.5", "", "", ErrEmpty, []string{`open plan ".beads"`, "has no tasks"}},
		{"epics only", "1.0.5", `{"id":"e","title":"E","status":"open","issue_type":"epic"}`, "", ErrEmpty, nil},
		{"deleted ones only", "0.47.1", `{"id":"e","title":"E","status":"tombstone"}`, "", ErrEmpty, nil},
		{"a cycle in 1.x", "1.0.5", fixture(t, "issues-cycle.jsonl"), "", nil, []string{"circle", "demo-3", "demo-5", "demo-6"}},
		{"a cycle that bd 0.x has dropped", "0.47.1", good, fixture(t, "issues-cycle.jsonl"), nil, []string{"circle", ".beads/issues.jsonl:3", "demo-3 → demo-6 → demo-5 → demo-3", ".beads/issues.jsonl"}},
		{"unknown, and all faults at once", "0.47.1",
			line("a", `,"dependencies":[`+dep("nobody", "blocks")+"]") + line("b", `,"dependencies":[`+dep("b", "blocks")+","+dep("noone", "parent-child")+"]") + `{"id":"c","status":"open"}`, "",
			nil, []string{`issue a: depends on "nobody", which does not exist`, "issue b: depends on itself", `issue b: its parent "noone" does not exist`, "issue c has no title"}},
		{"the same id twice", "1.0.5", line("a", "") + line("a", ""), "", nil, []string{"twice"}},
		{"a conflict in the file", "0.47.1", good, "<<<<<<< HEAD\n" + good, nil, []string{".beads/issues.jsonl:1", "conflict"}},
		{"no JSON", "1.0.5", "<html>", "", nil, []string{"line 1 of bd's export", "not a record"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBeadsProject(t)
			b.standIn(c.version, c.export)
			if c.file != "" {
				b.put(filepath.Join(b.root, ".beads", "issues.jsonl"), c.file, 0o644)
			}
			p, err := b.open("").Load(t.Context())
			var all *Problems
			if p != nil || !errors.As(err, &all) || all.Hint == "" || (c.is != nil && !errors.Is(err, c.is)) {
				t.Fatalf("plan %v, error %#v", p, err)
			}
			for _, says := range c.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
		})
	}
	t.Run("no bd", func(t *testing.T) {
		b := newBeadsProject(t)
		_, err := b.open("").Load(t.Context())
		var all *Problems
		if !errors.As(err, &all) || !strings.Contains(err.Error(), "cannot be started") || !strings.Contains(all.Hint, "bd in PATH") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("nobody starts programs", func(t *testing.T) {
		b := newBeadsProject(t)
		if tr, err := Open(t.Context(), Options{Root: b.root}); tr != nil || err == nil {
			t.Errorf("opened: %v", err)
		}
	})
	t.Run("data elsewhere", func(t *testing.T) {
		b, other := newBeadsProject(t), newBeadsProject(t)
		b.put(filepath.Join(b.root, ".beads", "redirect"), filepath.Join(other.root, ".beads")+"\n", 0o644)
		b.standIn("1.0.5", good)
		_, err := Open(t.Context(), Options{Root: b.root, Proc: b.runner, Environ: b.environ()})
		var all *Problems
		if !errors.Is(err, ErrNoPlan) || !errors.As(err, &all) || !strings.Contains(all.Hint, "--plan "+other.root) {
			t.Errorf("error %v", err)
		}
		tr, err := Open(t.Context(), Options{Root: b.root, Path: filepath.Join(other.root, ".beads"), Proc: b.runner, Environ: b.environ()})
		if err != nil || tr.Name() != "beads" {
			t.Errorf("named: %v", err)
		}
	})
}

func TestBeadsWarnings(t *testing.T) {
	b := newBeadsProject(t)
	b.standIn("1.0.5", `{"id":"e","title":"E","status":"open","issue_type":"epic"}
{"id":"a","title":"A","status":"open","issue_type":"task","dependencies":[{"depends_on_id":"e","type":"blocks"}]}
{"id":"b","title":"B","status":"open","issue_type":"task","dependencies":[{"depends_on_id":"external:x:y","type":"blocks"}]}
{"id":"c","title":"C","status":"hooked","issue_type":"task"}
{"id":"d","title":"D","status":"open","issue_type":"message"}
{"id":"f","title":"F","status":"open","issue_type":"task","defer_until":"2999-01-01T00:00:00Z"}
{"id":"g","title":"G","status":"open","issue_type":"chore","acceptance_criteria":"- [x] one\n2. two\n\nthree","notes":"mind\nCheck: `+"`go test ./...`"+`\nthis"}`)
	p, err := b.open("").Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, w := range p.Warnings {
		texts = append(texts, w.String())
	}
	want := ".beads: issue b waits for external:x:y in another project, which Ralph does not see; Ralph leaves it alone\n" +
		".beads: issue a waits for the epic e, which somebody has to close (bd close e)"
	if got := strings.Join(texts, "\n"); got != want {
		t.Errorf("warnings\n%s\nwant\n%s", got, want)
	}
	if ready := p.Graph().Ready(); !slices.Equal(ready, []string{"g"}) {
		t.Errorf("ready %v", ready)
	}
	g, _ := p.Find("g")
	if g.Check != "go test ./..." || g.Notes != "mind\nthis" || fmt.Sprint(g.Criteria) != "[{one true} {two false} {three false}]" {
		t.Errorf("%+v", g)
	}
}

func TestBeadsBV(t *testing.T) {
	bv := func(b *beadsProject, advice string) {
		b.put(filepath.Join(b.bin, "bv"), "#!/bin/sh\necho x >> \"$0.calls\"\n"+advice+"\n", 0o755)
	}
	said := func(tr Tracker) string {
		p, err := tr.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, w := range p.Warnings {
			texts = append(texts, w.Text)
		}
		if ready := p.Graph().Ready(); ready[0] != "demo-3" {
			t.Errorf("the ranking takes %v", ready)
		}
		return strings.Join(texts, "\n")
	}
	real, err := filepath.Abs("beads/testdata/bv/triage-0.11.3.json")
	if err != nil {
		t.Fatal(err)
	}
	b := newBeadsProject(t)
	b.standIn("0.47.1", fixture(t, "issues.jsonl"))
	tr := b.open("beads-bv")
	if got := said(tr); tr.Name() != "beads-bv" || got != "bv is not installed: Ralph's own ranking decides alone" {
		t.Errorf("without bv: %q", got)
	}
	if got := said(tr); got != "" {
		t.Errorf("told twice: %q", got)
	}

	// bv's answer on the same issues: it agrees on what is ready.
	bv(b, "cat "+real)
	tr = b.open("beads-bv")
	if got := said(tr); got != "" {
		t.Errorf("it agrees: %q", got)
	}
	bv(b, `echo '{"data_hash":"h","triage":{"meta":{"issue_count":8},"recommendations":[{"id":"demo-6","blocked_by":["demo-5"]},{"id":"demo-1"},{"id":"demo-8"},{"id":"demo-3"}]}}'`)
	tr = b.open("beads-bv")
	for range 2 { // asked once, told each time
		if got := said(tr); got != "the ranking takes demo-3 next, bv would take demo-8 (its first choice demo-6 waits for demo-5)" {
			t.Errorf("it does not agree: %q", got)
		}
	}
	calls, err := os.ReadFile(filepath.Join(b.bin, "bv.calls"))
	if err != nil || strings.Count(string(calls), "x") != 2 {
		t.Errorf("bv was asked %q, %v", calls, err)
	}
	// Outside the epics of the run nothing is compared.
	if got := said(b.open("beads-bv", "demo-1")); got != "" {
		t.Errorf("in the epic: %q", got)
	}
	bv(b, `echo '{"data_hash":"empty","triage":{"meta":{"issue_count":0}}}'`)
	if got := said(b.open("beads-bv")); !strings.Contains(got, "it saw no issues where there are some") {
		t.Errorf("it saw nothing: %q", got)
	}
	bv(b, "echo oops >&2; exit 3")
	if got := said(b.open("beads-bv")); !strings.Contains(got, "no second opinion") || !strings.Contains(got, "oops") {
		t.Errorf("it fails: %q", got)
	}
}

func TestBeadsMarksReal(t *testing.T) {
	b := newBeadsProject(t)
	b.real()
	ctx := t.Context()
	one := b.bd("create", "One", "-d", "x", "--silent")
	two := b.bd("create", "Two", "-d", "x", "--silent", "--deps", one)
	tr := b.open("")
	task := func(id string) *Task {
		t.Helper()
		p, err := tr.Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := p.Find(id)
		if !ok {
			t.Fatalf("no %s", id)
		}
		return k
	}
	mark := func(id string, m Mark) {
		t.Helper()
		if m.Actor == "" {
			m.Actor = "ralph/s1/one"
		}
		if err := tr.Mark(ctx, id, m); err != nil {
			t.Fatalf("mark %s: %v", m.Status, err)
		}
	}
	state := func(id string, want Status, who string) {
		t.Helper()
		if k := task(id); k.Status != want || k.Assignee != who {
			t.Errorf("%s is %s of %q, want %s of %q", id, k.Status, k.Assignee, want, who)
		}
	}
	mark(one, Mark{Status: InProgress})
	state(one, InProgress, "ralph/s1/one")
	if task(one).Line == 0 || task(one).File != ".beads/issues.jsonl" {
		t.Errorf("stands at %s:%d", task(one).File, task(one).Line)
	}
	for _, actor := range []string{"bob", "ralph/s2/one"} {
		if err := tr.Mark(ctx, one, Mark{Status: InProgress, Actor: actor}); !errors.Is(err, ErrTaken) {
			t.Errorf("claim by %s: %v", actor, err)
		}
	}
	if err := tr.Mark(ctx, "demo-none", Mark{Status: Done}); !errors.Is(err, ErrNoTask) {
		t.Errorf("no such issue: %v", err)
	}
	if err := tr.Mark(ctx, one, Mark{Status: Failed, Actor: "bob/x"}); !errors.Is(err, ErrTaken) {
		t.Errorf("given back by somebody else: %v", err)
	}
	mark(one, Mark{Status: Failed, Result: "the check fails", Session: "s1"})
	state(one, Pending, "")
	if got := b.bd("comments", one); !strings.Contains(got, "ralph: failed (session s1): the check fails") {
		t.Errorf("comments %q", got)
	}
	mark(one, Mark{Status: InProgress})
	mark(one, Mark{Status: Interrupted})
	state(one, Pending, "")
	mark(two, Mark{Status: Skipped, Note: "waits for one, which has failed"})
	state(two, Pending, "")
	mark(one, Mark{Status: InProgress})
	if err := tr.Mark(ctx, two, Mark{Status: Done, Actor: "ralph/x"}); err == nil || !strings.Contains(err.Error(), one) {
		t.Errorf("done before what it waits for: %v", err)
	}
	mark(one, Mark{Status: Done, Commit: "1a2b3c4", Result: "no error left"})
	state(one, Done, "ralph/s1/one")
	if got := task(one).Result; got != "ralph 1a2b3c4" {
		t.Errorf("closed because of %q", got)
	}
	if p, _ := tr.Load(ctx); !slices.Equal(p.Graph().Ready(), []string{two}) {
		t.Errorf("ready %v", p.Graph().Ready())
	}

	// What a dead session has left.
	mark(two, Mark{Status: InProgress, Actor: "ralph/s1/two"})
	three := b.bd("create", "Three", "-d", "x", "--silent")
	mark(three, Mark{Status: InProgress, Actor: "ralph/s12/three"})
	if ids, err := tr.Release(ctx, ""); err != nil || len(ids) > 0 {
		t.Errorf("released for nobody: %v %v", ids, err)
	}
	ids, err := tr.Release(ctx, "ralph/s1")
	if err != nil || !slices.Equal(ids, []string{two}) {
		t.Errorf("released %v, %v", ids, err)
	}
	state(two, Pending, "")
	state(three, InProgress, "ralph/s12/three")
	state(one, Done, "ralph/s1/one")
	if len(b.warned) > 0 {
		t.Errorf("warned %q", b.warned)
	}
}

// TestBeadsDoneWhileBlocked: what an issue needed was opened again while it was at
// work. bd does not close it then unless it is told to; its work is done all the
// same, and the plan of a run can be told.
func TestBeadsDoneWhileBlocked(t *testing.T) {
	b := newBeadsProject(t)
	b.real()
	one := b.bd("create", "One", "-d", "x", "--silent")
	two := b.bd("create", "Two", "-d", "x", "--silent", "--deps", one)
	b.bd("close", one)
	tr := b.open("")
	if err := tr.Mark(t.Context(), two, Mark{Status: InProgress, Actor: "ralph/s1"}); err != nil {
		t.Fatal(err)
	}
	b.bd("reopen", one)
	if err := tr.Mark(t.Context(), two, Mark{Status: Done, Actor: "ralph/s1", Commit: "1a2b"}); err != nil {
		t.Fatal(err)
	}
	p, err := tr.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]Status{one: Pending, two: Done} {
		if k, _ := p.Find(id); k == nil || k.Status != want {
			t.Errorf("%s is %+v, want %s", id, k, want)
		}
	}
}
