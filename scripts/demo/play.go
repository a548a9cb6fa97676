package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/config"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

// The agents, by the names that the recorded model gives them.
const (
	slug  = "fix_slug"
	count = "fix_count"
	wrap  = "fix_wrap"
)

// What the human says, in this order.
const (
	task     = "The tests of slug, count and wrap fail. Mend the three side by side."
	steer    = "Name the helper isWord, and add a line to CHANGELOG.md."
	question = "What were you doing?"
	hint     = "The loop never moves on when a word is longer than a line: break the word."
	finish   = "See that all tests pass now, and close the tasks."
)

// patience bounds each wait of the human for something to be seen.
const patience = 3 * time.Minute

// play lets the real coordinator work on the project, and is the human in front
// of it.
func (s *stage) play(ctx context.Context, tape string) (err error) {
	flags := map[string][]string{"sandbox": {"off"}, "replay": {tape}}
	if s.Record != "" {
		delete(flags, "replay")
		flags["record"], flags["base_url"], flags["model"] = []string{s.Record}, []string{s.BaseURL}, []string{"recorded"}
	} else if err := os.WriteFile(tape, s.Cassette, 0o600); err != nil {
		return err
	}
	cfg, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		return err
	}
	co, err := coordinator.Open(ctx, coordinator.Options{
		Root: s.root, Config: cfg, Proc: exec.New(exec.Options{Method: s.getenv("RALPH_PROC"), Init: s.Init, Project: s.root}), RunID: s.RunID, Holder: "demo", Session: "new", Eyes: s.see, Getenv: s.getenv,
	})
	if err != nil {
		return err
	}
	s.co = co
	defer func() {
		s.totals = co.Totals()
		err = errors.Join(err, co.Close()) // which tells what of the recording was not asked for
	}()
	for _, act := range []func(context.Context) error{s.sideBySide, s.talk, s.resume, s.end} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// see shows an event and notes what the human waits for. What they say to an agent
// they say here, while its first call begins, so that it is delivered at the same
// boundary each time.
func (s *stage) see(e agent.Event) {
	s.screen.show(e)
	switch {
	case e.Type == agent.EventToolStart && e.Agent == count && s.cues.note(count+" begins"):
		s.co.Say(interrupts.Message{Class: interrupts.ClassSteer, Text: steer, From: "demo", To: count})
		s.screen.say("you", "@"+count+" "+steer)
	case e.Type == agent.EventToolStart && e.Agent == wrap && e.Tool == "shell":
		s.cues.note(wrap + " tests")
	case e.Type == agent.EventChildEnd:
		s.cues.note(e.Agent + " " + e.Status)
		switch crew.State(e.Status) {
		case crew.Failed, crew.Partial, crew.State(crew.Conflict), crew.State(crew.Held):
			s.cues.fail(fmt.Errorf("%s ended as %s: %s", e.Agent, e.Status, e.Reason))
		}
	}
}

// sideBySide has three agents at work until two have ended and the third hangs,
// and then stops everything.
func (s *stage) sideBySide(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s.screen.say("you", task)
	ended := make(chan result.Outcome, 1)
	go func() {
		out := s.co.Run(ctx, coordinator.Job{Task: task, Chat: true})
		if out.Status != result.Interrupted {
			s.cues.fail(fmt.Errorf("the work ended before it was stopped, as %s: %s", out.Status, out.Reason))
		}
		ended <- out
	}()
	err := s.cues.wait(ctx, slug+" "+string(crew.Done), count+" "+string(crew.Done), wrap+" tests")
	var before []process
	if err == nil {
		before, err = s.busy(ctx)
	}
	if err != nil {
		cancel(err)
		<-ended
		return err
	}
	if len(before) > 0 {
		s.screen.say(wrap, fmt.Sprintf("shell go test ./wrap · does not end; at work now: %s", names(before)))
	}
	s.screen.say("you", "Stop! (as by Ctrl-C)")
	began := time.Now()
	s.co.Stop(&interrupts.Stop{Text: "/stop"})
	told := time.Since(began)
	out := <-ended
	took := time.Since(began)
	// Of Ralph's own git, which saves what was done, the stop ends nothing: it is
	// seen to below.
	now, known := processes(s.root)
	left := slices.DeleteFunc(before, func(p process) bool { return !slices.Contains(now, p) })
	s.acts = append(s.acts, out)
	if s.rubbish != "" {
		if err := os.RemoveAll(s.rubbish); err != nil {
			return fmt.Errorf("remove what the stopped go has left: %w", err)
		}
	}
	switch {
	case out.Status != result.Interrupted:
		return fmt.Errorf("the stop left the work as %s: %s", out.Status, out.Reason)
	case len(left) > 0:
		return fmt.Errorf("the stop left running: %s", names(left))
	}
	s.screen.stopped(told, took, out.Rest, known)
	return s.kept(parent)
}

// busy waits until the test that hangs runs, where that can be seen.
func (s *stage) busy(ctx context.Context) ([]process, error) {
	late := time.After(patience)
	for {
		list, known := processes(s.root)
		for _, p := range list {
			if p.name == "wrap.test" {
				s.rubbish = workOfGo(p)
				return list, nil
			}
		}
		if !known {
			return nil, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			return nil, errors.New("the test that hangs was not begun")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// kept waits until what the stopped agent had done is on its branch, which a
// human would not notice, and looks what is left running then.
func (s *stage) kept(ctx context.Context) error {
	late := time.After(patience)
	a, err := s.stopped(ctx)
	for ; err == nil && a.Commit == ""; a, err = s.stopped(ctx) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			return errors.New("what the stopped agent had done was not kept")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	s.screen.say(wrap, fmt.Sprintf("interrupted; what it did is kept on branch %s: %s", a.Branch, join(a.Files)))
	if _, err := s.co.Diff(ctx); err != nil { // it comes when all that follows a stop is done
		return err
	}
	left, known := processes(s.root)
	if len(left) > 0 {
		return fmt.Errorf("still running: %s", names(left))
	}
	if known {
		s.screen.say("stop", "0 processes are left in the project")
	}
	return nil
}

// stopped is the agent that was interrupted; without a commit as long as what it
// did is not kept.
func (s *stage) stopped(ctx context.Context) (crew.Agent, error) {
	list, err := s.co.Agents(ctx)
	for _, a := range list {
		if a.ID == wrap && a.State == crew.Interrupted {
			return a, err
		}
	}
	return crew.Agent{}, err
}

// talk asks what was going on. After a stop there are no tools.
func (s *stage) talk(ctx context.Context) error {
	if mode := s.co.Live().Mode; mode != "conversation" {
		return fmt.Errorf("after the stop the mode is %s", mode)
	}
	s.screen.say("ralph", "conversation mode: no tools until you say go")
	s.screen.say("you", question)
	out, err := s.work(ctx, coordinator.Job{Task: question, Chat: true})
	if err == nil && (out.ToolCalls.Total > 0 || out.Answer == "") {
		err = fmt.Errorf("in conversation mode %d tools were called, and the answer was %q", out.ToolCalls.Total, out.Answer)
	}
	return err
}

// resume has the stopped agent go on.
func (s *stage) resume(ctx context.Context) error {
	s.screen.say("you", "/resume "+wrap+" "+hint)
	_, err := s.work(ctx, coordinator.Job{Go: true, Agent: wrap, Task: hint, Chat: true})
	return err
}

// end has the coordinator itself go on, and finish.
func (s *stage) end(ctx context.Context) error {
	s.screen.say("you", "/go "+finish)
	_, err := s.work(ctx, coordinator.Job{Go: true, Task: finish, Chat: true})
	return err
}

// work is a piece of work that must come to its own end.
func (s *stage) work(ctx context.Context, j coordinator.Job) (result.Outcome, error) {
	out := s.co.Run(ctx, j)
	s.acts = append(s.acts, out)
	if out.Status != result.Completed {
		return out, errors.Join(fmt.Errorf("the demonstration ended as %s: %s", out.Status, out.Reason), s.cues.trouble())
	}
	return out, nil
}

// codeOf is the exit code of a demonstration that did not go well.
func codeOf(ctx context.Context) int {
	if stop, ok := interrupts.AsStop(context.Cause(ctx)); ok && stop.Signal != 0 {
		return 128 + int(stop.Signal)
	}
	return 1
}

// cues is what has been seen. It is safe for concurrent use.
type cues struct {
	// mu guards what follows.
	mu      sync.Mutex
	seen    map[string]bool
	problem error
	changed chan struct{} // closed, and made anew, whenever something is noted
}

func newCues() *cues { return &cues{seen: map[string]bool{}, changed: make(chan struct{})} }

// note notes what was seen, and says whether it was for the first time.
func (c *cues) note(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.seen[what]
	c.seen[what] = true
	c.poke()
	return first
}

// fail notes what is wrong; the first counts.
func (c *cues) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == nil {
		c.problem = err
	}
	c.poke()
}

// poke wakes who waits; mu is held.
func (c *cues) poke() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// trouble is what is wrong, nil for nothing.
func (c *cues) trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// wait waits until all of list was seen, or something is wrong.
func (c *cues) wait(ctx context.Context, list ...string) error {
	late := time.After(patience)
	for {
		c.mu.Lock()
		missing, problem, changed := "", c.problem, c.changed
		for _, what := range list {
			if !c.seen[what] {
				missing = what
			}
		}
		c.mu.Unlock()
		if problem != nil || missing == "" {
			return problem
		}
		select {
		case <-changed:
		case <-late:
			return fmt.Errorf("not seen within %v: %s", patience, missing)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// getenv is the environment of the demonstration's Ralph, whose state directory
// goes with the demonstration.
func (s *stage) getenv(name string) string {
	switch {
	case name == "RALPH_STATE_DIR":
		return filepath.Join(filepath.Dir(s.root), "state")
	case s.Getenv == nil:
		return ""
	}
	return s.Getenv(name)
}
