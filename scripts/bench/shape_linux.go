package main

import (
	"errors"
	"fmt"
	"time"
)

// shape is a kind of work that is stopped.
type shape struct {
	name     string
	commands []string // run in turn for each of the agents
	leaves   int      // that all agents together have
	gated    bool     // the commands wait at the gate with their leaf running
	then     reply    // what the model does while all of them are in the background
}

// shapes are what is known to outlive a stop elsewhere. LEAF is a command that
// sleeps for ten minutes.
func shapes() []shape {
	const (
		deaf   = "trap '' INT TERM; LEAF; LEAF; LEAF"
		echo   = "LEAF & echo started; LEAF"
		detach = "(setsid LEAF &); LEAF"
		double = "( (LEAF &) & ); (setsid sh -c 'LEAF & exit' &); LEAF"
		pipe   = "LEAF | cat | LEAF"
		subst  = "cat <(LEAF) > >(LEAF)"
		// A loop that forks without a pause, and a chain in which each generation
		// forks the next and exits.
		loop = "LEAF & : <GATE; f() { sleep 0.01; f & }; f; while :; do (:); done"
	)
	return []shape{
		{name: "streaming", commands: []string{"LEAF"}, leaves: 8, then: reply{stream: true}},
		{name: "deaf to INT and TERM", commands: []string{deaf}, leaves: 8},
		{name: "a & echo", commands: []string{echo}, leaves: 16},
		{name: "(setsid a &)", commands: []string{detach}, leaves: 16},
		{name: "double fork", commands: []string{double}, leaves: 24},
		{name: "pipe", commands: []string{pipe}, leaves: 16},
		{name: "process substitution", commands: []string{subst}, leaves: 16},
		{name: "fork loop", commands: []string{loop}, leaves: 8, gated: true},
		{name: "retry wait", commands: []string{"LEAF"}, leaves: 8, then: reply{refuse: true}},
		{name: "mixed", commands: []string{deaf, echo, detach, double, pipe, subst, loop, "LEAF"}, leaves: 1 + 2 + 2 + 3 + 2 + 2 + 1 + 1, gated: true},
	}
}

// play has the lane's model begin the work of a shape.
func (n *lane) play(s shape) {
	r := reply{}
	for i := range agents {
		// The number keeps two calls from being the same.
		r.commands = append(r.commands, n.fill(s.commands[i%len(s.commands)])+fmt.Sprintf(" # %d", i+1))
	}
	if s.then.stream || s.then.refuse {
		r.all = true
		n.part.plays(r, s.then)
		return
	}
	n.part.plays(r)
}

// allThere waits until the process table shows all commands of all lanes.
func (l *lab) allThere(s shape, lanes []*lane) error {
	late := time.Now().Add(seeWait)
	for _, n := range lanes {
		for n.leaves() < s.leaves {
			if time.Now().Before(late) && l.ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			text := ""
			if n.tty != nil {
				text = "; the screen is\n" + n.tty.screen()
			}
			return fmt.Errorf("%s: %d of %d leaves are there%s", s.name, n.leaves(), s.leaves, text)
		}
	}
	return nil
}

// ripen brings one lane from "all are there" to the moment that is measured.
func (n *lane) ripen(s shape) error {
	if s.then.refuse {
		if err := await(n, n.part.refused, 1); err != nil {
			return fmt.Errorf("retry wait: %w", err)
		}
		time.Sleep(20 * time.Millisecond) // the client reads the refusal and waits
	}
	if s.then.stream {
		n.part.release()
		return await(n, n.part.tokens, 2)
	}
	if !s.gated {
		return nil
	}
	before := map[entry]bool{}
	all, err := table()
	if err != nil {
		return err
	}
	for _, e := range n.l.scan.below(all, n.cmd.Process.Pid) {
		before[entry{pid: e.pid, start: e.start}] = true
	}
	if err := n.open(); err != nil {
		return err
	}
	loops := 0
	for deadline := time.Now().Add(seeWait); loops < agents; time.Sleep(2 * time.Millisecond) {
		if all, err = table(); err != nil {
			return err
		}
		for _, e := range n.l.scan.below(all, n.cmd.Process.Pid) {
			if key := (entry{pid: e.pid, start: e.start}); !before[key] {
				before[key] = true
				loops++
			}
		}
		if time.Now().After(deadline) {
			return errors.New("the fork loops do not run")
		}
	}
	return nil
}

// await takes so many from a channel.
func await[T any](n *lane, ch <-chan T, count int) error {
	late := time.After(seeWait)
	for range count {
		select {
		case <-ch:
		case <-n.exited:
			return errors.New("the chat ended")
		case <-n.l.ctx.Done():
			return n.l.ctx.Err()
		case <-late:
			return fmt.Errorf("the model server waits for the chat; the screen is\n%s", n.tty.screen())
		}
	}
	return nil
}
