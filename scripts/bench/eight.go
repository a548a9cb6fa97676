package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	eightTasks   = 8
	eightRuns    = 5
	eightLatency = 150 * time.Millisecond
)

// eightCommands are what each child runs in its tree: it makes a file, works on
// it, and looks at what it did.
func eightCommands(child string) []string {
	return []string{
		fmt.Sprintf("mkdir -p out && seq 1 20000 | sort -rn | cksum > out/%s.txt", child),
		fmt.Sprintf("sed -i 's/$/ %s/' out/%s.txt && git status --short && sleep 0.1", child, child),
	}
}

// eight times eight independent tasks with eight children at work and with one,
// next to bare loops of net/http that ask as often and run the same commands.
func (l *lab) eight() error {
	var ours, bare [2][]float64
	fmt.Printf("\n%d independent tasks by children, the model answers after %v; each child asks %d times and runs %d commands\n", eightTasks, eightLatency, len(eightCommands(""))+1, len(eightCommands("")))
	fmt.Printf("%-34s %28s %28s %8s %5s\n", "", "ralph: median (min–max)", "floor: median (min–max)", "ratio", "n")
	of := 0 // requests of the coordinator
	for range eightRuns {
		for i, most := range []int{eightTasks, 1} {
			took, requests, err := l.eightBy(most)
			if err != nil {
				return fmt.Errorf("--max-agents %d: %w", most, err)
			}
			ours[i] = append(ours[i], took)
			of = requests - eightTasks*(len(eightCommands(""))+1)
			if took, err = l.bareEight(most, of); err != nil {
				return err
			}
			bare[i] = append(bare[i], took)
		}
	}
	row("  --max-agents 8: wall", "ms", ours[0], bare[0])
	row("  --max-agents 1: wall", "ms", ours[1], bare[1])
	asks := float64(len(eightCommands("")) + 1)
	wait := eightLatency.Seconds() * 1e3
	fmt.Printf("  8 children are %.2f× as fast as 1 (bare loops %.2f×; by the model's time alone %.2f×: %d requests of the coordinator and %.0f of each child, %.0f ms against %.0f ms)\n",
		median(ours[1])/median(ours[0]), median(bare[1])/median(bare[0]), (float64(of)+eightTasks*asks)/(float64(of)+asks), of, asks, wait*(float64(of)+asks), wait*(float64(of)+eightTasks*asks))
	return nil
}

// eightBy runs Ralph once, with so many children at a time, and looks for all of
// the work in the user's branch.
func (l *lab) eightBy(most int) (ms float64, requests int, err error) {
	project, name, err := l.eightProject()
	if err != nil {
		return 0, 0, err
	}
	m := &crewModel{latency: eightLatency, children: eightTasks, commands: eightCommands}
	l.server.cast(name, m)
	c := exec.CommandContext(l.ctx, l.ralph, "--quiet", "--base-url", l.server.url+"/"+name+"/v1", "--model", "bench", "--max-agents", fmt.Sprint(most),
		"--result-file", filepath.Join(l.dir, name, "result.json"), crewWord)
	c.Dir = project
	c.Env = []string{"HOME=" + filepath.Join(l.dir, name, "home"), "PATH=" + os.Getenv("PATH")}
	s, err := finishRun(c)
	if err != nil {
		return 0, 0, err
	}
	for i := range eightTasks {
		look := exec.CommandContext(l.ctx, "git", "cat-file", "-e", fmt.Sprintf("HEAD:out/part_%d.txt", i+1))
		look.Dir = project
		if out, err := look.CombinedOutput(); err != nil {
			return 0, 0, fmt.Errorf("the work of child %d is not in the user's branch: %w: %s", i+1, err, out)
		}
	}
	return wallMS(s), m.count(), os.RemoveAll(filepath.Join(l.dir, name))
}

// eightProject is a small project of a user with a name.
func (l *lab) eightProject() (project, name string, err error) {
	name, _ = l.nextRun()
	w := &wood{l: l, root: filepath.Join(l.dir, name, "project")}
	err = w.write("../home/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
	for i := range 50 {
		err = errors.Join(err, w.write(fileOfWood(i), strings.Repeat("one line of code\n", 100)))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "begin"}} {
		if err == nil {
			_, err = w.git(w.root, args...)
		}
	}
	return w.root, name, err
}

// bareEight is the floor: as many loops at a time ask the same model as often and
// run the same commands, unconfined, in one plain directory.
func (l *lab) bareEight(most, coordinator int) (ms float64, err error) {
	project, name, err := l.eightProject()
	if err != nil {
		return 0, err
	}
	l.server.cast(name, &crewModel{latency: eightLatency, commands: eightCommands})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: eightTasks}}
	defer client.CloseIdleConnections()
	ask := func() error { return l.bareRequest(client, name) }
	ms, err = timed(func() error {
		var err error
		for range coordinator {
			err = errors.Join(err, ask())
		}
		places := make(chan struct{}, most)
		errs := make([]error, eightTasks)
		var loops sync.WaitGroup
		for i := range eightTasks {
			loops.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				for _, command := range eightCommands(fmt.Sprintf("part_%d", i+1)) {
					c := l.shell(command)
					c.Dir = project
					if errs[i] = errors.Join(errs[i], ask()); errs[i] == nil {
						errs[i] = c.Run()
					}
				}
				errs[i] = errors.Join(errs[i], ask())
			})
		}
		loops.Wait()
		return errors.Join(append(errs, err)...)
	})
	return ms, errors.Join(err, os.RemoveAll(filepath.Join(l.dir, name)))
}

// bareRequest asks the model once.
func (l *lab) bareRequest(client *http.Client, name string) error {
	body, err := json.Marshal(map[string]any{"model": "bench", "stream": true, "messages": []bareMessage{{Role: "user", Content: "go"}}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(l.ctx, http.MethodPost, l.server.url+"/"+name+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var all bytes.Buffer
	if _, err := all.ReadFrom(resp.Body); err != nil || !bytes.Contains(all.Bytes(), []byte("[DONE]")) {
		return errors.Join(fmt.Errorf("%s: %.200s", resp.Status, all.Bytes()), err)
	}
	return nil
}
