package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory/text"
	"ralph/workers/agent"
)

func (inv *invocation) attachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "attach",
		Short: "watch the Ralph that runs here",
		Long: "Watch the Ralph that runs in this project: its progress, line by line, on standard output; with --output jsonl (or json) its events as they come, after a first start event that says how things stand. " +
			"Watching changes nothing. Ctrl-C leaves it, and everything goes on.\n" +
			"Exits with 0 when that Ralph ends or Ctrl-C was pressed, 1 when none is running here, 8 when the one that holds the project does not answer.\n" +
			"Example: ralph attach\nExample: ralph attach --output jsonl | jq -r .type",
		Args: wordsOf(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return inv.attach(c) },
	}
}

func (inv *invocation) attach(c *cobra.Command) error {
	if err := inv.lightly(c); err != nil {
		return err
	}
	ctx := c.Context()
	caller, err := inv.reach(ctx)
	if errors.Is(err, errNobody) {
		return broken("nothing_running", "ralph status shows how the last one ended", nil, "%s: there is nothing to watch", err)
	}
	if err != nil {
		return err
	}
	defer caller.close()
	show, err := caller.shower()
	if err != nil {
		return err
	}
	err = caller.do(ctx, control.Request{Op: "attach"}, show, nil)
	stop, stopped := interrupts.AsStop(context.Cause(ctx))
	var refusal *control.Fault
	switch {
	case stopped && stop.Signal == syscall.SIGINT:
		return nil // to leave is no failure
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refusal) && refusal.Code != kindClosing:
		return refused(err)
	}
	// The other end is gone, and with it what there was to see.
	return inv.out.trouble()
}

// shower returns what shows one event, after it has shown how things stand.
func (c *caller) shower() (func(json.RawMessage) error, error) {
	inv, l := c.inv, c.live
	if inv.form != outputText {
		start := agent.Event{Type: agent.EventStart, Seq: 1, Time: inv.Now().UTC(), RunID: orWord(l.RunID, "-"), Agent: mainAgent,
			Model: l.Model, Root: l.Root, SessionID: l.SessionID, Status: l.State, Text: l.Task}
		show := func(raw json.RawMessage, _ agent.Event) error { return inv.out.print(string(escapeHidden(raw)) + "\n") }
		return events(show), inv.out.printJSON(start)
	}
	p := &progress{area: area{w: inv.out}, now: inv.Now, began: inv.Now(), verbose: inv.cfg.Verbose, says: true, calls: map[string]string{}, tries: map[string]int{}, done: make(chan struct{})}
	p.warning = func(content string) { p.line("ralph: warning: %s", text.Visible(content)) }
	show := func(_ json.RawMessage, e agent.Event) error {
		p.event(e)
		return inv.out.trouble()
	}
	return events(show), inv.out.print("ralph: attached to " + liveText(l, inv.Now()) + "\n")
}

// events decodes replies and shows those that are events: others say how things
// stand.
func events(show func(json.RawMessage, agent.Event) error) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var e agent.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if e.Type == "" {
			return nil
		}
		return show(raw, e)
	}
}

// ago words how long something is past.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return spanText(max(now.Sub(t), 0))
}
