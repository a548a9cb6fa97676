package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/policy"
	"ralph/coordinator/result"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/external"
	"ralph/workers/model"
)

// adapter is how the program of a name is run.
func (c *Coordinator) adapter(name string) (external.Adapter, error) {
	list := make([]external.Custom, len(c.cfg.Agents))
	for i, a := range c.cfg.Agents {
		list[i] = external.Custom(a)
	}
	all, err := external.Adapters(list)
	if err != nil {
		return external.Adapter{}, err
	}
	return external.Find(all, name)
}

// spared says that the work can do without the model that could not be chosen, and
// tells what is missing then.
func (c *Coordinator) spared(err error) bool {
	var none *model.Error
	who := c.cfg.Run.Agent
	if !c.opt.ModelOptional || builtin(who) || !errors.As(err, &none) {
		return false
	}
	c.warn(fmt.Sprintf("Ralph has no model of its own (%v): %s works on the tasks without, a conflict between two of them waits for you, and what you say meanwhile is told to the next tasks, but not answered", none, who))
	return true
}

// installed refuses a run whose agents are not there. What is not the run's only
// agent is warned of.
func (c *Coordinator) installed(s loop.Settings) error {
	for _, who := range []string{s.Agent, s.Fallback} {
		if builtin(who) {
			continue
		}
		a, err := c.adapter(who)
		if err != nil {
			return &result.Error{Op: "run", Err: err, Status: result.ConfigError, Hint: "ralph doctor --agents lists those that are there; `agents:` in the user's config adds others"}
		}
		if err := c.unheld(a.Name); err != nil {
			return err
		}
		hint, err := external.Installed(a, os.Environ(), c.opt.Root)
		switch {
		case err == nil:
		case who == s.Agent && s.Fallback != "" && s.Fallback != who:
			c.warn(fmt.Sprintf("%v; agent %s is there for it (hint: %s)", err, s.Fallback, hint))
		default:
			return &result.Error{Op: "run", Err: err, Status: result.ConfigError, Hint: hint}
		}
	}
	return nil
}

// equipForeign makes what a child works with whose work another program does: it
// has the child's tree, and none of Ralph's tools.
func (c *Coordinator) equipForeign(a crew.Agent, e *errand, st *station, name string) (*crew.Gear, error) {
	adapter, err := c.adapter(name)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	loop := &agent.Loop{Agent: a.ID, Emit: c.ofChild(a.ID, e.watch(c.events.emit))}
	drive := func(ctx context.Context, l *agent.Loop, talk []agent.Message) agent.End {
		return c.drive(ctx, l, e, st, adapter, talk)
	}
	return &crew.Gear{Loop: loop, Drive: drive, Task: a.Task, Last: func() []agent.Message { return nil }, Close: func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, restTime)
		defer cancel()
		if err := errors.Join(loop.Wait(ctx), st.close()); err != nil {
			c.warn(fmt.Sprintf("close the tree of agent %s: %v", a.ID, err))
		}
	}}, nil
}

// drive has a program do what a conversation asks for: each time anew, with all
// that the user's side of it says.
func (c *Coordinator) drive(ctx context.Context, l *agent.Loop, e *errand, st *station, adapter external.Adapter, talk []agent.Message) agent.End {
	end := agent.End{Transcript: talk, Spent: l.Spent}
	if l.Hold != nil {
		if end.Err = l.Hold(ctx); end.Err != nil {
			return end
		}
	}
	var told []string
	for _, m := range talk {
		if m.Role == agent.RoleUser {
			told = append(told, m.Text)
		}
	}
	if end.Err = c.unheld(adapter.Name); end.Err != nil {
		return end
	}
	environ := os.Environ()
	if c.opt.Getenv != nil {
		environ = append(environ, "HOME="+c.opt.Getenv("HOME"))
	}
	own, err := adapter.Private(context.WithoutCancel(ctx), environ, st.root, c.cfg.Sandbox != string(policy.SandboxOff))
	if err != nil {
		end.Err = err
		return end
	}
	began := time.Now()
	res := external.Run(ctx, external.Request{
		Adapter: adapter, Prompt: strings.Join(told, "\n\n"), Dir: st.root, Model: e.order.Model, Environ: environ, Env: own.Environ(), Held: true, Temp: own.Dir(),
		Events: l.Emit,
		Start: func(ctx context.Context, sp exec.Spec) (exec.Result, error) {
			got, rep, err := st.cage.Run(ctx, sp, own.Call())
			for _, r := range rep.Reverted {
				c.warn(fmt.Sprintf("after %s: %s", adapter.Name, r))
			}
			return got, err
		},
	})
	for _, line := range own.Close() {
		c.warn(adapter.Name + ": " + line)
	}
	e.mu.Lock()
	e.foreign = &res
	e.mu.Unlock()
	for _, w := range res.Warnings {
		c.warn(adapter.Name + ": " + w)
	}
	return foreignEnd(end, res, time.Since(began))
}

// unheld refuses a program that would run without the sandbox that was asked for.
func (c *Coordinator) unheld(name string) error {
	held := c.confined()
	if held.Complete || c.cfg.Sandbox == string(policy.SandboxOff) {
		return nil
	}
	return &result.Error{Op: "run agent", Path: name, Err: fmt.Errorf("it cannot be confined here: %s", held), Status: result.Denied,
		Hint: "--sandbox off runs it without: the flag is your consent"}
}

// foreignEnd is the end of a run of a program as that of a loop.
func foreignEnd(end agent.End, res external.Result, took time.Duration) agent.End {
	end.Final = agent.Message{Role: agent.RoleAssistant, Text: external.Said(res)}
	if end.Final.Text != "" {
		end.Transcript = append(end.Transcript, end.Final)
	}
	if res.Declared {
		end.Finish = &agent.Finish{Status: agent.FinishDone, Summary: cmp.Or(firstLine(end.Final.Text), "the task is complete"), Confidence: 0.5}
	}
	s := &end.Spent
	s.Turns += max(res.Turns, 1)
	s.Usage = s.Usage.Add(res.Usage)
	s.APITime += took
	switch {
	case res.CostUSD == nil:
		s.CostUnknown = s.CostUnknown || res.Usage.Total > 0
	case s.CostUSD == nil:
		s.CostUSD = res.CostUSD
	default:
		sum := *s.CostUSD + *res.CostUSD
		s.CostUSD = &sum
	}
	end.Calls, end.Failed, end.Denied = res.ToolCalls, res.ToolErrors, len(res.Denied)
	if end.Err = res.Err; res.Err != nil && res.Hint != "" {
		end.Err = &result.Error{Op: "work", Err: res.Err, Hint: res.Hint, Status: result.ConfigError}
	}
	return end
}
