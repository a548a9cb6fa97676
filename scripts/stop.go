package scripts

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator/result"
	"ralph/interrupts/control"
	"ralph/memory/text"
)

// restWithin bounds the wait for the report of a stop.
const restWithin = 30 * time.Second

// controlDocument is what `ralph stop|pause|resume --json` print of a running
// Ralph.
type controlDocument struct {
	Type      string   `json:"type"`
	Schema    string   `json:"schema"`
	OK        bool     `json:"ok"`
	Root      string   `json:"project_root"`
	Running   bool     `json:"running"` // whether there was a Ralph to tell
	State     string   `json:"state"`
	Agent     *string  `json:"agent"`
	Stopped   []string `json:"stopped"`   // the agents that were at work
	Report    *string  `json:"report"`    // of a stop, in words
	Survivors []string `json:"survivors"` // "4242 sleep": what is still alive
}

// told is what a running Ralph says to stop, pause and resume.
type told struct {
	State     string   `json:"state"`
	Stopped   []string `json:"stopped"`
	Report    string   `json:"report"`
	Survivors []string `json:"survivors"`

	run bool // it works through a plan
}

func (inv *invocation) stopCommand() *cobra.Command {
	var kill bool
	c := &cobra.Command{
		Use:   "stop [AGENT] [--kill]",
		Short: "stop what runs here, at once",
		Long: "Stop what runs in this project, or one agent: every process ends at once, what was done is kept, and the Ralph itself stays, or ends when it was started for one task. " +
			"Waits until everything is at rest and says what ended, what had to be killed, and what survived. --kill leaves out the moment that a process gets to end by itself.\n" +
			"Exits with 0 when everything is at rest, also when nothing was running; 1 when something survived; 2 when there is no such agent; 5 from a command that Ralph runs; 8 when the Ralph that holds the project does not answer.\n" +
			"Example: ralph stop\nExample: ralph stop fix_login",
		Args: atMostOne,
	}
	c.Flags().BoolVar(&kill, "kill", false, "kill at once")
	c.RunE = func(c *cobra.Command, args []string) error {
		return inv.stop(c, control.Request{Op: "stop", To: firstOf(args), Kill: kill})
	}
	return c
}

func (inv *invocation) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause",
		Short: "have the Ralph that runs here pause at the next boundary",
		Long: "Have the Ralph that runs in this project pause before its next request; a tool that runs is finished, nothing is lost. A run pauses when the tasks at work have ended, and begins no other. ralph resume goes on.\n" +
			"Exits with 1 when no Ralph is running here, 5 from a command that Ralph runs, 8 when the one that holds the project does not answer.\n" +
			"Example: ralph pause && ralph status",
		Args: wordsOf(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := inv.lightly(c); err != nil {
				return err
			}
			if err := inv.human(); err != nil {
				return err
			}
			caller, err := inv.reach(c.Context())
			if errors.Is(err, errNobody) {
				return broken("nothing_running", "ralph status shows how things stand", nil, "%s: there is nothing to pause", err)
			}
			if err != nil {
				return err
			}
			defer caller.close()
			return caller.proceed(c.Context(), "pause", "pausing")
		},
	}
}

// completeWithin bounds what is asked for a completion.
const completeWithin = 300 * time.Millisecond

// atMostOne takes one word that says something, or none.
func atMostOne(c *cobra.Command, args []string) error {
	help := "ralph " + c.Name() + " --help"
	switch {
	case len(args) > 1:
		return usage(help, "ralph %s: one word too many: %q", c.Name(), args[1])
	case len(args) == 1 && strings.TrimSpace(args[0]) == "":
		return usage(help, "ralph %s: the name is empty", c.Name())
	}
	return nil
}

func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return strings.TrimSpace(args[0])
}

// proceed has the running Ralph pause or go on; otherwise is the state when it
// does not say.
func (c *caller) proceed(ctx context.Context, op, otherwise string) error {
	ctx, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	var got told
	if err := c.do(ctx, control.Request{Op: op}, nil, &got); err != nil {
		return refused(err)
	}
	got.State, got.run = orWord(got.State, otherwise), c.live.Loop != nil && c.live.Loop.Status.Live()
	return c.inv.tellControl(op, control.Request{}, true, got)
}

// stop stops what runs. It asks nothing first: a stop is said at once.
func (inv *invocation) stop(c *cobra.Command, r control.Request) error {
	if err := inv.lightly(c); err != nil {
		return err
	}
	if err := inv.human(); err != nil {
		return err
	}
	got, err := inv.halt(c.Context(), r)
	if errors.Is(err, errNobody) {
		return inv.tellControl("stop", r, false, told{})
	}
	if err != nil {
		return err
	}
	return inv.tellControl("stop", r, true, got)
}

// halt has the running Ralph stop and waits for its report. The error matches
// errNobody when none runs.
func (inv *invocation) halt(ctx context.Context, r control.Request) (told, error) {
	var got told
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if client, err := control.Dial(within, inv.stateDir(), runtimeDir(inv.Getenv)); err == nil {
		c := &caller{inv: inv, client: client}
		err := c.do(within, r, nil, &got)
		c.close()
		var refusal *control.Fault
		if err == nil || errors.As(err, &refusal) {
			return got, refused(err)
		}
	}
	// It was said, if there was anybody; the rest takes longer, or nobody
	// listens. To say it again changes nothing.
	c, err := inv.reach(ctx)
	if err != nil {
		return got, err
	}
	defer c.close()
	within, cancel = context.WithTimeout(ctx, restWithin)
	defer cancel()
	err = c.do(within, r, nil, &got)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return got, broken("not_at_rest", "ralph status shows what runs; ralph stop --kill, or kill the Ralph itself", nil, "the stop was said, but not everything came to rest within %s", restWithin)
	}
	if ctx.Err() != nil {
		return got, context.Cause(ctx)
	}
	return got, refused(err)
}

// tellControl prints what a running Ralph did. What survived a stop is a failure.
func (inv *invocation) tellControl(op string, r control.Request, running bool, got told) error {
	rest := len(got.Survivors) == 0
	if op == "stop" {
		got.State = "stopped"
		if !running {
			got.State = stateIdle
		}
	}
	if !rest {
		inv.code = exitCode(result.Failed, 0)
	}
	if inv.form != outputText {
		return inv.out.printJSON(controlDocument{Type: op, Schema: "ralph.control/1", OK: rest, Root: inv.root, Running: running, State: got.State,
			Agent: optional(r.To), Stopped: orEmpty(got.Stopped), Report: optional(got.Report), Survivors: orEmpty(got.Survivors)})
	}
	content := got.State
	switch {
	case !running:
		content = "nothing is running here"
	case op == "stop":
		content = "stopped: " + orWord(got.Report, "nothing was running")
	case op == "pause" && got.State == "pausing":
		content = "pausing: the work pauses before its next request; ralph resume goes on"
		if got.run {
			content = "pausing: the run pauses when the tasks at work have ended; ralph resume goes on, ralph stop ends them at once"
		}
	case op == "resume":
		content = "resumed"
	}
	return inv.out.print(text.Visible(content) + "\n")
}
