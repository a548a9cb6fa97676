package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// maxToldMB is what a command over a session may hold in memory.
const maxToldMB = 100

// told measures what the commands say over sessions of 10,000, 100,000 and a
// million events, with three records of the journal to ten events, against a
// loop that only reads the bytes of both.
func (l *lab) told() error {
	times := map[string][]float64{}
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		root, dir, err := l.sessionOf(n)
		if err != nil {
			return err
		}
		runs := min(l.n, 5)
		if n == 1_000_000 {
			runs = min(l.n, 3)
		}
		var floor []float64
		for range runs {
			took, err := timed(func() error { return readBytes(dir) })
			if err != nil {
				return err
			}
			floor = append(floor, took)
		}
		for _, args := range toldCommands() {
			name := strings.Join(args, " ")
			var list []sample
			for i := range runs + 1 {
				s, err := l.tell(root, args)
				if err != nil {
					return err
				}
				if i > 0 {
					list = append(list, s)
				}
			}
			ms, mb := pick(list, wallMS), pick(list, rssMB)
			row(fmt.Sprintf("%d events: %s", n, name), "ms", ms, floor)
			slices.Sort(mb)
			over := ""
			if mb[len(mb)-1] > maxToldMB {
				over = fmt.Sprintf(" — over %d MB", maxToldMB)
			}
			cpu := pick(list, cpuMS)
			slices.Sort(cpu)
			fmt.Printf("  CPU %s, memory %s%s\n", spread(cpu, "ms"), spread(mb, "MB"), over)
			times[name] = append(times[name], median(cpu))
		}
		if err := os.RemoveAll(root); err != nil {
			return err
		}
	}
	for _, args := range toldCommands() {
		w := times[strings.Join(args, " ")]
		fmt.Printf("  %s: ten times the events take %.1f and %.1f times the CPU\n", args[0], w[1]/w[0], w[2]/w[1])
	}
	return nil
}

func toldCommands() [][]string {
	return [][]string{
		{"analyze", "001"},
		{"insights", "001"},
		{"report", "001", "--html=page.html"},
		{"logs", "001", "--where", `event_type == "error" && duration_seconds > 60`},
		{"logs", "001", "--tail", "20"},
		{"status", "001"},
		{"sessions", "check", "001"},
	}
}

// tell runs one command. sessions check says with exit 1 that it found something.
func (l *lab) tell(root string, args []string) (sample, error) {
	c := exec.CommandContext(l.ctx, l.ralph, args...)
	c.Dir = root
	c.Env = []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH")}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	began := time.Now()
	err := c.Run()
	s := usage(c, time.Since(began))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && args[0] == "sessions" {
		err = nil
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return s, nil
}

// readBytes is the floor: it reads the files and looks at nothing.
func readBytes(dir string) error {
	for _, name := range []string{"execution-log.json", "journal.jsonl"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, struct{ io.Reader }{f})
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// sessionOf makes a project with one session of n events that has ended.
func (l *lab) sessionOf(n int) (root, dir string, err error) {
	root = filepath.Join(l.dir, fmt.Sprint("told-", n))
	state := filepath.Join(root, ".ralph")
	dir = filepath.Join(state, "sessions", "session-001-long")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	if out, err := exec.CommandContext(l.ctx, "git", "init", "-q", root).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("git init: %w: %s", err, out)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := begin.Add(time.Duration(n) * toldStep)
	meta := fmt.Sprintf("session_id: \"001\"\nsession_name: long\nstart_time: %s\nend_time: %s\nstatus: completed\ntasks_completed: 0\ntasks_total: 0\n",
		begin.Format(time.RFC3339), end.Format(time.RFC3339))
	for path, text := range map[string]string{filepath.Join(state, "FORMAT"): "ralph 1\n", filepath.Join(dir, "session-metadata.yaml"): meta} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	return root, dir, errors.Join(toldLog(dir, begin, n), toldJournal(dir, begin, n*3/10))
}

// toldStep is the time between two events.
const toldStep = 700 * time.Millisecond

func toldLog(dir string, begin time.Time, n int) error {
	f, err := os.OpenFile(filepath.Join(dir, "execution-log.json"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "{\n  \"session_id\": \"001\",\n  \"events\": [")
	for i := range n {
		e := toldEvent(i, n)
		e.Time = begin.Add(time.Duration(i) * toldStep)
		line, err := json.Marshal(e)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, "\n    %s", line)
	}
	fmt.Fprint(w, "\n  ]\n}\n")
	return errors.Join(w.Flush(), f.Close())
}

// toldEvent is one of twenty events of a task that an agent works on: what a
// long run writes, with an error and a retry in one task of ten.
func toldEvent(i, n int) folder.Event {
	task, step := i/20, i%20
	e := folder.Event{TaskID: fmt.Sprint("T-", task), TaskName: fmt.Sprint("Retry the upload of part ", task)}
	kind := []string{"bug", "feature", "chore"}[task%3]
	switch {
	case i == 0:
		return folder.Event{Type: folder.SessionStart, Details: map[string]any{"kind": "run", "model": "play", "context_window": 128_000}}
	case i == n-1:
		return folder.Event{Type: folder.SessionEnd, Result: "completed"}
	case step == 1:
		e.Type, e.Result, e.Details = folder.Decided, "execute", map[string]any{"confidence": 0.8, "decision_type": "task", "why": "confidence 0.80 is at least 0.70"}
	case step == 2:
		e.Type, e.Details = folder.TaskStart, map[string]any{"agent": fmt.Sprint("agent_", task%8), "attempt": 1, "iteration": task, "task_kind": kind}
	case step == 8 && task%10 == 0:
		e.Type, e.Result, e.Duration = folder.Errored, fmt.Sprintf("its check \"grep -q good out/%d.txt\" failed with exit code 1", task), time.Duration(task%100)*time.Second
		e.Details = map[string]any{"again": true, "attempt": 1, "kind": "validation", "strategy": "retry", "task_kind": kind}
	case step == 9 && task%10 == 0:
		e.Type, e.Details = folder.Retried, map[string]any{"attempt": 1, "kind": "validation", "wait_ms": 0, "task_kind": kind}
	case step == 17:
		e.Type, e.Result, e.Duration = folder.GateChecked, "passed", 13*time.Millisecond
		e.Details = map[string]any{"check": "go test ./upload/...", "exit_code": 0, "tree": fmt.Sprintf("%040x", task)}
	case step == 18:
		e.Type, e.Result, e.Duration = folder.TaskComplete, "done", time.Duration(9+task%5)*time.Second
		e.Details = map[string]any{"agent": fmt.Sprint("agent_", task%8), "attempts": 1, "confidence": 0.9, "declared": true, "verified": true, "files": 1, "turns": 3, "task_kind": kind,
			"usage": map[string]any{"input": 2000 + task%100, "cached_input": 0, "output": 40, "reasoning": 0, "total": 2040 + task%100}}
	default:
		return folder.Event{Type: folder.Message, Details: map[string]any{"role": "assistant", "text": fmt.Sprintf("The upload of part %d is retried with jitter now, and the back-off is kept; I look at the tests next.", i)}}
	}
	return e
}

func toldJournal(dir string, begin time.Time, n int) error {
	j, err := session.OpenJournal(afero.NewOsFs(), filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "quarantine"), nil)
	if err != nil {
		return err
	}
	var records []session.Record
	for i := range n {
		at := begin.Add(time.Duration(i) * toldStep * 10 / 3)
		p := map[string]any{"seq": i + 1, "time": at, "run_id": "r-20260101-000000-4f1c2a", "agent": fmt.Sprint("agent_", i/4%8), "turn": 1 + i/4%40}
		switch i % 4 {
		case 0:
			p["type"] = "turn_start"
		case 1:
			p["type"], p["model"], p["cost_usd"] = "usage", "play", 0.001
			p["usage"] = map[string]any{"input": 1000 + i%9000, "cached_input": 500, "output": 20, "reasoning": 0, "total": 1020 + i%9000}
		case 2:
			p["type"], p["call_id"], p["tool"], p["args"] = "tool_start", fmt.Sprint("call_", i), "shell", map[string]any{"command": "go test ./upload/..."}
		case 3:
			p["type"], p["call_id"], p["tool"], p["ok"], p["exit_code"], p["duration_ms"] = "tool_end", fmt.Sprint("call_", i-1), "shell", true, 0, 321
			p["output"] = strings.Repeat("ok  	ralph/upload	0.31s\n", 8)
		}
		payload, err := json.Marshal(p)
		if err != nil {
			return errors.Join(err, j.Close())
		}
		if records = append(records, session.Record{Kind: "event", Time: at, Payload: payload}); len(records) == 1000 || i == n-1 {
			if err := j.Append(0, records...); err != nil {
				return errors.Join(err, j.Close())
			}
			records = records[:0]
		}
	}
	return j.Close()
}
