package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

const (
	crewLanes  = 5 // so many chats are brought to the moment together
	crewOfChat = 4 // stops of a chat: what each leaves are branches to resume
	crewStops  = 100
)

// stopChildren measures ^C in a chat whose eight children each run a command
// that is deaf to INT and TERM, in a tree and a sandbox of its own.
func (l *lab) stopChildren() error {
	if err := l.openScanner(); err != nil {
		return err
	}
	if err := l.plant(); err != nil {
		return err
	}
	runner := exec.New(exec.Options{})
	status := accesspolicy.Check(runner)
	if err := runner.Close(context.WithoutCancel(l.ctx)); err != nil {
		return err
	}
	held := "confined by " + status.String()
	if !status.Complete {
		held = "not confined: " + status.String()
	}
	load, _ := os.ReadFile("/proc/loadavg") // empty where it cannot be read
	fmt.Printf("\n^C in `ralph chat` with %d children at work, each with a command that is deaf to INT and TERM, %s; %d processors, load %.14s\n", agents, held, runtime.NumCPU(), load)
	fmt.Println("  input, told, rest, gone, bare and idle are as for stop; idle is taken while Ralph commits what the children had done")
	fmt.Printf("%-22s %19s %19s %19s %19s %14s %14s %5s %5s\n", "ms: p50 / p99 / max", "input", "told", "rest", "gone", "bare", "idle", "n", "left")
	var f stopsOf
	for stops := min(crewStops, max(l.stopRuns, 1)); f.n() < stops; {
		if err := l.crewRounds(status.Complete, stops, &f); err != nil {
			return err
		}
	}
	f.print("8 children")
	fmt.Printf("  when the prompt was at rest the journal held the interruption in %d of %d runs\n", len(f.rest)-f.unrecorded, len(f.rest))
	fmt.Printf("  what Ralph itself begins after the stop, the commits of unfinished work with git, had ended by %s ms after ^C\n", three(f.look))
	fmt.Printf("  aim: gone ≤ 250 ms: %s at p50, %s at p99, %s at most; survivors: %d in %d runs\n",
		met(at(f.gone, 50) <= stopAim), met(at(f.gone, 99) <= stopAim), met(at(f.gone, 100) <= stopAim), f.survivors, len(f.gone))
	return nil
}

// crewRounds opens some chats, stops each of them several times, and leaves.
func (l *lab) crewRounds(caged bool, stops int, f *stopsOf) (err error) {
	var lanes []*lane
	defer func() {
		for _, n := range lanes {
			err = errors.Join(err, n.leave(), os.RemoveAll(n.dir))
		}
		err = errors.Join(err, l.count(&f.survivors))
	}()
	deaf := shape{name: "children", leaves: agents}
	for range min(crewLanes, stops-f.n()) {
		n, err := l.newLane()
		if err != nil {
			return err
		}
		n.caged = caged
		l.server.cast(filepath.Base(n.dir), &crewModel{children: agents, commands: func(child string) []string {
			// The shell is deaf itself: it begins the next sleep when one is ended.
			return []string{fmt.Sprintf("echo begun > %s.txt; trap '' INT TERM; while :; do %s; done", child, n.leaf)}
		}})
		lanes = append(lanes, n)
		if err := n.chat(); err != nil {
			return err
		}
	}
	for _, n := range lanes {
		if err := n.rested(); err != nil {
			return err
		}
	}
	for round := range crewOfChat {
		for _, n := range lanes {
			n.turns++
			line := crewWord
			if round > 0 {
				line = "/go " + crewWord // after a stop a plain line is only talk
			}
			if err := n.line(line); err != nil {
				return err
			}
		}
		if err := l.allThere(deaf, lanes); err != nil {
			return err
		}
		for _, n := range lanes {
			one, err := n.stop(deaf)
			if err != nil {
				return err
			}
			f.take(one)
			bare, err := l.bareKill()
			if err != nil {
				return err
			}
			f.bare = append(f.bare, bare)
		}
		if err := l.count(&f.survivors); err != nil {
			return err
		}
		if f.n() >= stops {
			return nil
		}
	}
	return nil
}
