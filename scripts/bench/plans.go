package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	"ralph/coordinator/prompt/work"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/markdown"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

const (
	// loopIterations are measured in each run of the loop.
	loopIterations = 20
	// beadsIterations are fewer: bd takes its time, and it is not ours.
	beadsIterations = 8
)

// planTasks are n tasks of which each waits for up to three others.
func planTasks(n int) []plan.Task {
	list := make([]plan.Task, n)
	for i := range list {
		t := plan.Task{ID: fmt.Sprintf("demo-%d", i), Title: fmt.Sprintf("Retry the upload of part %d on 503", i), Priority: i % 5, Description: "Try it again with a back-off, as upload/retry.go has it."}
		for k := 1; k <= 3 && i >= 10; k++ {
			t.After = append(t.After, fmt.Sprintf("demo-%d", (i*7+k*13)%(i/2+1)))
		}
		slices.Sort(t.After)
		t.After = slices.Compact(t.After)
		list[i] = t
	}
	return list
}

// planFile is such a plan as a tracker keeps it.
func planFile(tracker string, tasks []plan.Task) (name string, data []byte, err error) {
	var b bytes.Buffer
	switch tracker {
	case "markdown":
		b.WriteString("# Tasks\n\n")
		for _, t := range tasks {
			fmt.Fprintf(&b, "- [ ] **%s** %s\n  - status: pending\n  - priority: %d\n", t.ID, t.Title, t.Priority)
			if len(t.After) > 0 {
				fmt.Fprintf(&b, "  - after: %s\n", strings.Join(t.After, ", "))
			}
		}
		return memory.TasksFile, b.Bytes(), nil
	case "json":
		var stories []map[string]any
		for _, t := range tasks {
			stories = append(stories, map[string]any{"id": t.ID, "title": t.Title, "description": t.Description, "acceptanceCriteria": []string{"it passes"}, "priority": t.Priority, "dependsOn": append([]string{}, t.After...), "passes": false, "notes": ""})
		}
		data, err = json.MarshalIndent(map[string]any{"project": "bench", "userStories": stories}, "", "  ")
		return "prd.json", data, err
	case "yaml":
		b.WriteString("name: bench\ntasks:\n")
		for _, t := range tasks {
			fmt.Fprintf(&b, "  - task_id: %s\n    name: %s\n    description: %s\n    acceptance_criteria: [it passes]\n    dependencies: [%s]\n    priority_score: 0.5\n", t.ID, t.Title, t.Description, strings.Join(t.After, ", "))
		}
		return "RALPH-LOOP-PLAN.yaml", b.Bytes(), nil
	}
	lines := json.NewEncoder(&b)
	for _, t := range tasks {
		deps := []map[string]string{}
		for _, id := range t.After {
			deps = append(deps, map[string]string{"issue_id": t.ID, "depends_on_id": id, "type": "blocks", "created_at": "2026-01-01T00:00:00Z", "created_by": "bench"})
		}
		err = errors.Join(err, lines.Encode(map[string]any{"id": t.ID, "title": t.Title, "description": t.Description, "status": "open", "priority": t.Priority, "issue_type": "task",
			"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "dependencies": deps}))
	}
	return "issues.jsonl", b.Bytes(), err
}

// planHands are done at once: what remains is the loop's.
type planHands struct{}

func (h *planHands) Prompt(_ context.Context, o loop.Order) (string, error) {
	return work.Render(work.Of(o.Whole, o.Task, plan.Commands(o.Checks)...), "")
}

func (*planHands) Facts(_ context.Context, t plan.Task) decide.Facts {
	return decide.Facts{Task: t.ID, Description: true, Criteria: true, Check: true, Bounded: true}
}

func (*planHands) Check(context.Context, plan.Check) loop.CheckRun { return loop.CheckRun{} }

func (*planHands) Do(_ context.Context, o loop.Order) loop.Report {
	if o.Begun != nil {
		o.Begun("agent_" + o.Task.ID)
	}
	return loop.Report{Agent: "agent_" + o.Task.ID, Status: "done", Declared: true, Landing: "merged", Commit: "0123456789abcdef", Summary: "wrote a file", Files: []string{"out.txt"}, Turns: 2}
}

// storeBook lets the markdown tracker write as the coordinator has it write.
type storeBook struct{ s *memory.Store }

func (b storeBook) Tasks() ([]markdown.Task, error) { return b.s.Tasks() }

func (b storeBook) SetTask(id string, e markdown.Edit) (markdown.Task, error) {
	t, err := b.s.SetTask(id, e)
	return t, errors.Join(err, b.s.Flush())
}

// loops times the loop's own work on plans of three sizes, on the real disk:
// choose, weigh, make the prompt, record, mark and save, with agents that are done
// at once; and counts the processes that real tasks take.
func (l *lab) loops() error {
	fmt.Printf("%-34s %28s %28s %8s %5s\n", "loop: own time of an iteration", "median (min–max)", "start, median (min–max)", "bd", "n")
	trackers := []string{"markdown", "json", "yaml"}
	bd, err := osexec.LookPath("bd")
	if err != nil {
		fmt.Println("  beads: not measured, since there is no bd in PATH")
	} else {
		trackers = append(trackers, "beads")
	}
	for _, tracker := range trackers {
		for _, n := range []int{10, 1000, 10_000} {
			if tracker == "beads" && n > 1000 { // bd itself takes in so many for minutes
				continue
			}
			runs := max(3, min(l.n, 5))
			if tracker == "beads" {
				runs = 1
			}
			var each, begin, calls []float64
			for i := range runs + 1 {
				took, started, started2, err := l.loopOf(tracker, n, bd)
				if err != nil {
					return fmt.Errorf("%s with %d tasks: %w", tracker, n, err)
				}
				if i > 0 || runs == 1 {
					each, begin, calls = append(each, took...), append(begin, started), append(calls, started2)
				}
				if runs == 1 {
					break
				}
			}
			slices.Sort(each)
			slices.Sort(begin)
			text := "0"
			if tracker == "beads" {
				text = fmt.Sprintf("%.1f", median(calls))
			}
			fmt.Printf("%-34s %28s %28s %8s %5d\n", fmt.Sprintf("%s, %d tasks", tracker, n), spread(each, "ms"), spread(begin, "ms"), text, len(each))
		}
	}
	return l.processes(bd)
}

// loopOf runs the loop over one plan: how long each iteration took, how long until
// the first, and how many times an iteration ran bd.
func (l *lab) loopOf(tracker string, n int, bd string) (each []float64, begin, calls float64, err error) {
	dir, err := os.MkdirTemp(l.dir, "plan-")
	if err != nil {
		return nil, 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name, data, err := planFile(tracker, planTasks(n))
	if err == nil {
		err = durable.Replace(afero.NewOsFs(), filepath.Join(dir, name), data, 0o600)
	}
	if err != nil {
		return nil, 0, 0, err
	}
	o := plan.Options{Root: dir, Tracker: tracker, Getenv: os.Getenv, Environ: os.Environ()}
	most := min(n, loopIterations)
	switch tracker {
	case "markdown":
		store, _, err := memory.Open(l.ctx, memory.Options{Root: dir, Holder: "bench"})
		if err != nil {
			return nil, 0, 0, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		o.Book = storeBook{store}
	case "beads":
		most = min(n, beadsIterations)
		path, err := l.counting(dir, map[string]string{"bd": bd})
		if err != nil {
			return nil, 0, 0, err
		}
		o.Environ = append(o.Environ, "PATH="+path)
		for _, args := range [][]string{{"init", "--prefix", "demo", "--quiet", "--skip-hooks", "--skip-merge-driver"}, {"import", "-i", name}} {
			c := osexec.CommandContext(l.ctx, bd, args...)
			c.Dir, c.Env = dir, append(os.Environ(), "BEADS_NO_DAEMON=1")
			if out, err := c.CombinedOutput(); err != nil {
				return nil, 0, 0, fmt.Errorf("bd %v: %w\n%s", args, err, out)
			}
		}
		o.Proc = exec.New(exec.Options{})
		defer func() { _ = o.Proc.Close(context.WithoutCancel(l.ctx)) }()
	}
	return l.iterate(dir, o, most)
}

// iterate is one run of the loop.
func (l *lab) iterate(dir string, o plan.Options, most int) (each []float64, begin, calls float64, err error) {
	t, err := plan.Open(l.ctx, o)
	if err != nil {
		return nil, 0, 0, err
	}
	files, err := folder.Open(folder.Options{Dir: filepath.Join(dir, ".ralph", "sessions", "session-001-bench"), SessionID: "001"})
	if err != nil {
		return nil, 0, 0, err
	}
	store, err := feature.Open(feature.Options{StateDir: filepath.Join(dir, ".ralph")}, "bench")
	if err != nil {
		return nil, 0, 0, errors.Join(err, files.Close())
	}
	defer func() { err = errors.Join(err, files.Close(), store.Close()) }()
	var last, first time.Time
	began := time.Now()
	before := 0
	told := func(e agent.Event) { // on the loop's own goroutine
		now := time.Now()
		switch {
		case e.Type == agent.EventTaskStart && first.IsZero():
			first, last, before = now, now, tallied(dir)
		case e.Type == agent.EventTaskEnd && !last.IsZero():
			each = append(each, now.Sub(last).Seconds()*1e3)
			last = now
		}
	}
	run, err := loop.New(loop.Options{Settings: loop.Settings{Parallel: 1, MaxIterations: most, HumanIntervention: "never", Feature: "bench"}, Tracker: t, Hands: &planHands{},
		Files: files, Save: store.Save, Emit: told, Warn: func(string) {}, Actor: "ralph/001", SessionID: "001"})
	if err != nil {
		return nil, 0, 0, err
	}
	out := run.Run(l.ctx)
	if len(each) < most {
		return nil, 0, 0, fmt.Errorf("the loop ended after %d iterations: %s, %v", len(each), out.Reason, out.Err)
	}
	return each, first.Sub(began).Seconds() * 1e3, float64(tallied(dir)-before) / float64(len(each)), nil
}

// counting makes a PATH in which programs are counted before they run; git that bd
// starts counts as bd's.
func (l *lab) counting(dir string, programs map[string]string) (path string, err error) {
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	for name, real := range programs {
		script := fmt.Sprintf("#!/bin/sh\necho %s${BENCH_BY:+_of_$BENCH_BY} >> '%s'\nexport BENCH_BY=%s\nexec '%s' \"$@\"\n", name, filepath.Join(bin, "count"), name, real)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			return "", err
		}
	}
	return bin + string(filepath.ListSeparator) + os.Getenv("PATH"), nil
}

// tallied is how many processes were counted.
func tallied(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "bin", "count")) // there is none before the first
	return lines(data, "bd")
}

// lines counts the lines of a text that are a word.
func lines(text []byte, word string) (n int) {
	for line := range bytes.Lines(text) {
		if string(bytes.TrimSpace(line)) == word {
			n++
		}
	}
	return n
}

// processes counts what the binary starts for each task of a plan that writes one
// file and runs one check.
func (l *lab) processes(bd string) error {
	git, err := osexec.LookPath("git")
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(oneFile), ReadHeaderTimeout: time.Minute}
	over := make(chan struct{})
	go func() { defer close(over); _ = srv.Serve(ln) }() // until it is closed
	defer func() { _ = srv.Close(); <-over }()
	trackers := []string{"markdown", "json", "yaml"}
	if bd != "" {
		trackers = append(trackers, "beads")
	}
	fmt.Printf("%-34s %28s %28s %8s %5s\n", "loop: processes of a task", "git", "bd (and git that bd starts)", "", "tasks")
	for _, tracker := range trackers {
		const n = 10
		dir, err := os.MkdirTemp(l.dir, "work-")
		if err != nil {
			return err
		}
		root := filepath.Join(dir, "p")
		name, data, err := planFile(tracker, planTasks(n))
		if err == nil {
			err = errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, name), data, 0o600))
		}
		if err != nil {
			return err
		}
		programs := map[string]string{"git": git}
		script := "git init -q -b main . && git config user.name b && git config user.email b@localhost && echo x > x && git add x && git commit -qm first"
		if tracker == "beads" {
			programs["bd"] = bd
			script += " && '" + bd + "' init --prefix demo --quiet --skip-hooks --skip-merge-driver && '" + bd + "' import -i issues.jsonl && rm issues.jsonl"
		}
		path, err := l.counting(dir, programs)
		if err != nil {
			return err
		}
		c := osexec.CommandContext(l.ctx, "sh", "-c", script)
		c.Dir, c.Env = root, append(os.Environ(), "HOME="+dir, "BEADS_NO_DAEMON=1")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("make the project: %w\n%s", err, out)
		}
		c = osexec.CommandContext(l.ctx, l.ralph, "run", "--tracker", tracker, "--parallel", "1", "--check", "test -e x", "--human-intervention", "never")
		c.Dir, c.Env = root, append(os.Environ(), "PATH="+path, "HOME="+dir, "RALPH_BASE_URL=http://"+ln.Addr().String()+"/v1", "RALPH_MODEL=bench", "RALPH_API_KEY=bench")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("ralph run with %s: %w\n%s", tracker, err, out)
		}
		log, err := os.ReadFile(filepath.Join(dir, "bin", "count"))
		if err != nil {
			return err
		}
		each := func(word string) float64 { return float64(lines(log, word)) / n }
		fmt.Printf("%-34s %28.1f %28s %8s %5d\n", tracker, each("git"), fmt.Sprintf("%.1f (%.1f)", each("bd"), each("git_of_bd")), "", n)
	}
	return nil
}

// oneFile answers as a model whose agent writes a file and is done.
func oneFile(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct{ Role, Content string }
	}
	_ = json.NewDecoder(r.Body).Decode(&q) // what asks for the models has no body
	call := `{"name":"shell","arguments":"{\"command\":\"date +%N > $(basename $PWD).txt\"}"}`
	if n := len(q.Messages); n > 0 && q.Messages[n-1].Role == "tool" {
		call = `{"name":"finish","arguments":"{\"status\":\"done\",\"summary\":\"wrote it\",\"confidence\":0.9}"}`
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c%d\",\"type\":\"function\",\"function\":%s}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n", len(q.Messages), call)
}

// graphs times what a plan's order is found by.
func (l *lab) graphs() error {
	fmt.Printf("%-34s %28s %28s %8s %5s\n", "graph", "all ranks, median (min–max)", "the pick, median (min–max)", "", "n")
	for _, n := range []int{1000, 10_000} {
		p := &plan.Plan{Tracker: "beads-bv", Tasks: planTasks(n)}
		for i := range p.Tasks {
			p.Tasks[i].Status = plan.Pending
		}
		var all, pick []float64
		for range l.n {
			began := time.Now()
			g := p.Graph()
			if ready := g.Ready(); len(ready) == 0 {
				return errors.New("nothing is ready")
			}
			pick = append(pick, time.Since(began).Seconds()*1e3)
			began = time.Now()
			g = p.Graph()
			if len(g.Ranks()) != n || len(g.Critical()) == 0 || len(g.Cycles()) > 0 || len(g.Layers()) == 0 {
				return errors.New("the graph is not what it should be")
			}
			all = append(all, time.Since(began).Seconds()*1e3)
		}
		slices.Sort(all)
		slices.Sort(pick)
		fmt.Printf("%-34s %28s %28s %8s %5d\n", fmt.Sprintf("%d tasks", n), spread(all, "ms"), spread(pick, "ms"), "", len(all))
	}
	return nil
}
