package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ralph/memory"
	"ralph/memory/session"
)

const (
	projects = 20
	livesOf  = 10 // of each project
	// longestLife is how long a process may live after its first acknowledgement.
	longestLife = 60 * time.Millisecond
	killSeed    = 1
)

// tally sums up the killed processes.
type tally struct {
	kills, acked, records, between int
	lost                           []string
}

// kills ends real processes with SIGKILL at random instants while they keep one
// task after the other, and looks for all that they had acknowledged on their
// standard output. The next process goes on in the same project and the same
// session, with nobody's help.
func (l *lab) kills() error {
	var t tally
	random := rand.New(rand.NewPCG(killSeed, 0))
	for p := range projects {
		root := filepath.Join(l.dir, fmt.Sprintf("kill-%d", p))
		if err := os.MkdirAll(root, 0o755); err != nil {
			return err
		}
		acked := map[string]bool{}
		for life := range livesOf {
			wait := time.Duration(random.Int64N(int64(longestLife)))
			if random.IntN(8) == 0 {
				wait = 0 // with the first acknowledgement, or before it
			}
			if err := l.killed(root, life, wait, acked, &t); err != nil {
				return fmt.Errorf("project %d, life %d: %w", p, life, err)
			}
			if err := l.survey(root, acked, &t); err != nil {
				return fmt.Errorf("project %d after life %d: %w", p, life, err)
			}
		}
		t.acked += len(acked)
	}
	fmt.Printf("killed with SIGKILL at random instants: %d processes (%d of them in the middle of a call, seed %d), %d acknowledged tasks, %d journal records read: %d lost\n",
		t.kills, t.between, killSeed, t.acked, t.records, len(t.lost))
	if len(t.lost) > 0 {
		return fmt.Errorf("lost: %s", strings.Join(t.lost, ", "))
	}
	return nil
}

// killed runs one process and kills it. What it shows as done is acknowledged.
func (l *lab) killed(root string, life int, wait time.Duration, acked map[string]bool, t *tally) error {
	name, _ := l.nextRun()
	home := filepath.Join(filepath.Dir(root), filepath.Base(root)+"-home")
	c := exec.CommandContext(l.ctx, l.ralph, "--sandbox", "off", "--output", "jsonl", "--quiet", "--session", "killed", "--max-turns", "0",
		"--base-url", l.server.url+"/"+name+"/v1", "--model", "keep", "go")
	c.Dir, c.Env = root, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { _ = c.Process.Kill() }() // on the ways out that are errors
	type shown struct {
		Type, Tool, Output string
		OK                 *bool
	}
	var timer *time.Timer
	open := 0
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e shown
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break // cut off by the kill
		}
		switch {
		case e.Type == "tool_start":
			open++
		case e.Type == "tool_end" && e.OK != nil && *e.OK:
			open--
			if id, _, ok := strings.Cut(e.Output, " "); ok {
				acked[id] = true
			}
		case e.Type == "result":
			return fmt.Errorf("it ended by itself: %s %s", lines.Bytes(), stderr.String())
		default:
			continue
		}
		if timer == nil && e.Type == "tool_start" {
			timer = time.AfterFunc(wait, func() { _ = c.Process.Signal(syscall.SIGKILL) })
		}
	}
	err = c.Wait()
	if timer == nil {
		return fmt.Errorf("it never began: %w: %s", err, stderr.String())
	}
	timer.Stop()
	t.kills++
	if open > 0 {
		t.between++
	}
	return nil
}

// survey looks at what is left, as the next Ralph will.
func (l *lab) survey(root string, acked map[string]bool, t *tally) error {
	s, found, err := memory.Open(l.ctx, memory.Options{Root: root, Holder: "bench", LockWait: 2 * time.Second})
	if err != nil {
		return err
	}
	for _, f := range found.Files {
		if f.Err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", f.Name, f.Err))
		}
	}
	tasks, terr := s.Tasks()
	err = errors.Join(err, terr)
	have := map[string]bool{}
	for _, task := range tasks {
		have[task.ID] = true
	}
	for id := range acked {
		if !have[id] {
			t.lost = append(t.lost, filepath.Base(root)+" "+id)
		}
	}
	old, oerr := session.Open(session.Options{StateDir: s.StateDir()}, "killed")
	if oerr != nil {
		return errors.Join(err, oerr, s.Close())
	}
	rerr := old.Records(func(session.Record) error { t.records++; return nil })
	if _, bad := old.Journal().Damage(); bad > 0 {
		rerr = errors.Join(rerr, fmt.Errorf("%d lines of the journal cannot be read", bad))
	}
	return errors.Join(err, rerr, old.Journal().Close(), s.Close())
}
