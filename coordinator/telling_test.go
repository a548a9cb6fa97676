package coordinator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/memory"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// folderOf is the session's directory and what its files say; the events are those
// of the log.
func (p *project) folderOf() (dir string, d folder.Data, events []folder.Event) {
	p.Helper()
	dirs, err := filepath.Glob(p.path(".ralph/sessions/session-*"))
	if err != nil || len(dirs) != 1 {
		p.Fatalf("the sessions are %v %v", dirs, err)
	}
	d, err = folder.ReadEach(nil, dirs[0], func(_ string, e folder.Event) error { events = append(events, e); return nil })
	if err != nil {
		p.Fatal(err)
	}
	if found := d.Differences(); len(found) > 0 || len(d.Problems) > 0 {
		p.Errorf("the files contradict each other: %v %v", found, d.Problems)
	}
	return dirs[0], d, events
}

func typed(events []folder.Event, t folder.EventType) (list []folder.Event) {
	for _, e := range events {
		if e.Type == t {
			list = append(list, e)
		}
	}
	return list
}

// What a real run leaves in the files of its session: all that is computed from
// them later stands there.
func TestWhatARunTells(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: test -e two.txt\n")
	var asked []string
	p.lessons = func(dir string) []string { asked = append(asked, dir); return []string{"a check was flaky"} }
	k.part("write_one", put("one.txt", "bad\n"), finished("wrote one.txt"), finished("it should be good"), put("one.txt", "good\n"), finished("mended one.txt"))
	k.part("write_two", calls(call("record_feature", m{"name": "Two", "category": "file", "purpose": "is there", "document": "two.md",
		"challenges": []string{"to be there"}, "assumptions": []string{"one is there"}}), call("write", m{"path": "two.txt", "content": "x"}),
		call("write", m{"path": "two.md", "content": "# Two\n\nIt is there.\n"})),
		calls(call("record_feature", m{"name": "two", "category": "file", "purpose": "is there", "document": "two.md"})), finished("wrote two.txt"))
	p.flags["check_retries"] = []string{"3"}
	c := p.open()
	out := c.Run(t.Context(), coordinator.Job{Loop: &loop.Settings{Feature: "play"}})
	p.shut(c)
	p.want(out, result.Completed)
	dir, d, events := p.folderOf()
	if c.Totals().Findings != 1 || !slices.Equal(asked, []string{dir}) {
		t.Errorf("%d findings, asked for %v", c.Totals().Findings, asked)
	}
	if s := typed(events, folder.SessionStart); len(s) != 1 || s[0].Details["model"] == "" || s[0].Details["context_window"] != 128000.0 || s[0].Details["sandbox"] == nil {
		t.Errorf("the start is %+v", s)
	}
	for _, e := range slices.Concat(typed(events, folder.TaskStart), typed(events, folder.TaskComplete)) {
		if e.Details["task_kind"] != "task" {
			t.Errorf("no kind: %+v", e)
		}
	}
	for _, e := range typed(events, folder.TaskComplete) {
		if e.Details["confidence"] != 0.9 || e.Details["verified"] != true || e.Details["context_tokens"] == nil || e.Details["usage"] == nil {
			t.Errorf("the end is %+v", e)
		}
	}
	var trees []any
	for _, g := range typed(events, folder.GateChecked) {
		if g.TaskID == "T-1" && g.Details["check"] == "grep -q good one.txt" {
			trees = append(trees, g.Details["tree"])
		}
	}
	if len(trees) != 3 || trees[0] == nil || trees[0] == "" || trees[0] != trees[1] || trees[1] == trees[2] {
		t.Errorf("the trees that were checked are %v", trees)
	}
	whole := typed(events, folder.PhaseComplete)
	last := whole[len(whole)-1]
	if answer, _ := last.Details["answer"].(string); !strings.Contains(answer, "done (2): T-1, T-2") || last.Details["turns"] == nil {
		t.Errorf("the run ended with %+v", last)
	}
	meta := p.all(".ralph/sessions/*/session-metadata.yaml")
	for _, want := range []string{"phase_name: implementation\n", "features_discovered:\n  - F001\n", "features_documented:\n  - F001\n", "assumptions_identified: 1\n", "challenges_generated:\n  - to be there\n",
		"validations_planned:\n  - grep -q good one.txt\n  - test -e two.txt\n", "validations_executed:\n  - grep -q good one.txt\n  - test -e two.txt\n"} {
		if !strings.Contains(meta, want) {
			t.Errorf("the metadata lacks %q:\n%s", want, meta)
		}
	}
	if f := d.Inventory; len(f.Features) != 1 || !f.Features[0].Challenges || f.Features[0].Assumptions != 1 || !f.Features[0].Documented || f.Coverage != 1 {
		t.Errorf("the inventory is %+v", f)
	}
	// The document was read in the tree of the agent that wrote it.
	if docs := p.all(".ralph/sessions/*/feature-docs-generated.json"); !strings.Contains(docs, `"status": "written"`) || !strings.Contains(docs, `"title": "Two"`) {
		t.Errorf("the documents are %s", docs)
	}
	report, err := folder.ReportOptions{Lessons: []string{"a check was flaky"}}.Text(nil, dir)
	if on := p.all(".ralph/sessions/*/final-report.md"); err != nil || string(report) != on {
		t.Errorf("another report is made of the same files: %v\n%s\n%s", err, report, on)
	}
	for _, want := range []string{"| T-1 Write one | completed |", "[001](iterations/001-T-1.md)", "- a check was flaky", "--append", "`grep -q good one.txt` | 3 | 1 | 0 |"} {
		if !bytes.Contains(report, []byte(want)) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

// A run that fails with its tasks tells each error once, how long the model worked,
// and of its beginning only what there is to tell.
func TestAFailedRunIsNoFurtherError(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: \"false\"\n- [ ] **T-2** Write two\n  - after: T-1\n")
	p.flags["check_retries"] = []string{"0"}
	k.part("write_one", put("one.txt", "x\n"), finished("one"))
	c := p.open()
	out := c.Run(t.Context(), coordinator.Job{Loop: &loop.Settings{Retries: -1}})
	p.shut(c)
	p.want(out, result.Failed)
	if out.Failure == nil || out.Failure.Kind != "tasks" || out.APITime <= 0 {
		t.Errorf("the outcome is %+v, with %v at the model", out.Failure, out.APITime)
	}
	_, d, events := p.folderOf()
	if len(d.Failures) != 1 || d.Failures[0].TaskID != "T-1" || len(typed(events, folder.Errored)) != 1 || d.Meta.Errors != 1 {
		t.Errorf("%d errors in the metadata, the others are %+v and %+v", d.Meta.Errors, d.Failures, typed(events, folder.Errored))
	}
	starts, ends := typed(events, folder.PhaseStart), typed(events, folder.PhaseComplete)
	if len(starts[0].Details) != 1 || starts[0].Details["kind"] != "run" {
		t.Errorf("the run begins with %+v", starts[0])
	}
	if last := ends[len(ends)-1]; last.Details["api_ms"] != float64(out.APITime.Milliseconds()) {
		t.Errorf("the run ends with %+v", last)
	}
}

// Who looks on sees the question that a human has before them, as long as it waits.
func TestAQuestionShowsToThoseWhoLookOn(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("ask_user", m{"question": "which one?", "options": []string{"a", "b"}})), calls(shell("git push")), text("done"))
	p.session = "new"
	var c *coordinator.Coordinator
	var seen []*permission.Question
	p.ask = func(_ context.Context, q permission.Question) (string, error) {
		seen = append(seen, c.Live().Question)
		return q.Options[0], nil
	}
	c = p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
	if now := c.Live().Question; now != nil {
		t.Errorf("nothing waits any more, and it shows %+v", now)
	}
	p.shut(c)
	if len(seen) != 2 || seen[0] == nil || seen[1] == nil {
		t.Fatalf("seen: %v", seen)
	}
	if q := seen[0]; q.Kind != "question" || q.Text != "which one?" || len(q.Options) != 2 || q.Asked.IsZero() {
		t.Errorf("the question is %+v", q)
	}
	if q := seen[1]; q.Kind != "permission" || q.Agent != "ralph" || !strings.HasSuffix(q.Text, "git push") {
		t.Errorf("the permission is %+v", q)
	}
}

// How long the human was waited for stands with what they decided.
func TestHowLongTheHumanTook(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("ask_user", m{"question": "which one?"})), text("done"))
	p.session = "new"
	const took = 60 * time.Millisecond
	p.ask = func(context.Context, permission.Question) (string, error) {
		time.Sleep(took)
		return "the first", nil
	}
	p.want(p.run(coordinator.Job{Task: "go"}), result.Completed)
	_, _, events := p.folderOf()
	list := typed(events, folder.Decided)
	if len(list) != 1 || list[0].Duration < took-time.Millisecond || list[0].Details["by"] != "user" || list[0].Details["decision_type"] != folder.DecisionHelp || list[0].Result != "the first" {
		t.Errorf("%+v", list)
	}
}

// A question that a stop takes back was waited for as long.
func TestAQuestionThatAStopTakesBack(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("ask_user", m{"question": "which one?"})))
	p.session = "new"
	ctx, cancel := context.WithCancel(t.Context())
	p.ask = func(ctx context.Context, _ permission.Question) (string, error) {
		time.Sleep(20 * time.Millisecond)
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}
	p.want(p.runCtx(ctx, coordinator.Job{Task: "go"}), result.Interrupted)
	_, _, events := p.folderOf()
	list := typed(events, folder.Decided)
	if len(list) != 1 || list[0].Result != "unanswered" || list[0].Duration < 15*time.Millisecond {
		t.Errorf("%+v", list)
	}
}

// An entry is not added to AGENT.md twice, however it stands there.
func TestLearnedOnce(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	s := sessions.Open(sessions.Options{Root: p.root, RunID: "r-1", Config: p.options().Config}, func(w string) { t.Log(w) })
	list := []memory.Learning{{Type: "flaky_check", What: "the check `x` is flaky", Learning: "mend it"}, {Type: "slow", What: "two\nlines", Learning: "a"},
		{Type: "slow", What: "the check  `x` is flaky", Learning: "said twice"}, {Type: "note", Learning: "without a what"}}
	learn := func(dry bool, want int) {
		t.Helper()
		if n, err := s.Learn(t.Context(), list, dry); n != want || err != nil {
			t.Errorf("%d entries added, want %d: %v", n, want, err)
		}
	}
	learn(true, 3)
	if _, err := os.Stat(p.path("AGENT.md")); err == nil {
		t.Error("a dry run wrote")
	}
	learn(false, 3)
	learn(true, 1) // one without a What cannot be told
	list = list[:3]
	learn(false, 0)
	if text := p.read("AGENT.md"); strings.Count(text, "is flaky") != 1 {
		t.Errorf("%s", text)
	}
	p.write("AGENT.md", "# Mine\n\n* **What**: the check `x` is\n  flaky\n* Why: so\n")
	learn(true, 1)
}

// Nothing is said to be added to AGENT.md where nothing can be saved.
func TestLearnedNowhere(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	var told []string
	s := sessions.Open(sessions.Options{Root: p.root, RunID: "r-1", Config: p.options().Config, FS: afero.NewReadOnlyFs(afero.NewOsFs())}, func(w string) { told = append(told, w) })
	n, err := s.Learn(t.Context(), []memory.Learning{{Type: "slow", What: "x", Learning: "y"}}, false)
	var failed *result.Error
	if n != 0 || !errors.As(err, &failed) || failed.Hint == "" || len(told) == 0 {
		t.Errorf("%d added, told %q: %v", n, told, err)
	}
	if _, err := os.Stat(p.path("AGENT.md")); err == nil {
		t.Error("it was written")
	}
}

// Features that several agents record at once, into an inventory that another tool
// made.
func TestFeaturesOfMany(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	k := played(p)
	var crew []m
	for i := range 6 {
		name := fmt.Sprintf("finder_%d", i)
		crew = append(crew, m{"name": name, "task": "find " + name})
		k.part(name, calls(call("record_feature", m{"name": name, "category": "c", "purpose": "p"}), call("record_feature", m{"name": "shared", "category": "c", "purpose": name})), finished("found"))
	}
	inventory := func() string { return p.all(".ralph/sessions/*/feature-inventory.json") }
	k.part("ralph", calls(call("shell", m{"command": "true"})), spawn(crew...), text("they look"), text("done"))
	p.eye = func(agent.Event) {
		dirs, _ := filepath.Glob(p.path(".ralph/sessions/session-*"))
		if len(dirs) == 1 && inventory() == "" {
			p.write(filepath.Join(".ralph/sessions", filepath.Base(dirs[0]), "feature-inventory.json"), `["odd", {"name":"Theirs","status":"done","z":1}, 7]`)
		}
	}
	p.want(p.run(coordinator.Job{Task: "look"}), result.Completed)
	var got struct {
		Features   []json.RawMessage
		Statistics struct {
			Total int `json:"total_features"`
		}
	}
	if err := json.Unmarshal([]byte(inventory()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Statistics.Total != 8 || len(got.Features) != 10 || string(got.Features[0]) != `"odd"` || !strings.Contains(string(got.Features[1]), `"z"`) {
		t.Errorf("%s", inventory())
	}
}
