package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts/control"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/workers/exec/supervise"
)

const (
	// answerWithin is how long the Ralph that holds the project has to answer.
	answerWithin = 2 * time.Second
	// dialAgain is how often one that does not listen yet is tried again.
	dialAgain = 25 * time.Millisecond
)

// kindForeign is the kind of error of a socket that is not the user's.
const kindForeign = "foreign_socket"

// kindClosing is the kind of error of a Ralph that ends and did not begin what it
// was asked for.
const kindClosing = "closing"

// errNobody says that no Ralph runs in the project.
var errNobody = errors.New("no Ralph is running in this project")

// caller is a line to the Ralph that runs in the project, and how that one
// stood when it answered. It is used by one goroutine; whoever got it closes it.
type caller struct {
	inv    *invocation
	client *control.Client
	live   coordinator.Live
}

// lightly finds the project for a command that talks to a running Ralph or reads
// a few files. No configuration file is read: a stop works with a broken one.
func (inv *invocation) lightly(c *cobra.Command) error {
	flags, err := inv.flags(c)
	if err != nil {
		return err
	}
	inv.out.resultFile = "" // nothing is worked on
	var environ []string
	for _, name := range [...]string{"RALPH_DIR", "RALPH_STATE_DIR", "RALPH_OUTPUT", "RALPH_QUIET", "RALPH_VERBOSE", "RALPH_DRY_RUN"} {
		if v := inv.Getenv(name); v != "" {
			environ = append(environ, name+"="+v)
		}
	}
	cfg, err := config.Load(config.Sources{Flags: flags, Environ: environ})
	inv.cfg = cfg
	inv.useStateDir()
	if cfg.Output != "" {
		inv.form = cfg.Output
	}
	switch {
	case errors.Is(err, config.ErrFlag):
		return configFault(err)
	case err != nil:
		inv.warning(err.Error())
	}
	return inv.locate(cfg.Dir)
}

// human refuses what speaks for the human when a command of a Ralph says it.
// The Ralph that is spoken to checks again, by the table of processes.
func (inv *invocation) human() error {
	if inv.Getenv("RALPH_TAG") == "" && !supervise.BelongsToCommand(os.Getpid()) {
		return nil
	}
	return &fault{status: result.Denied, kind: "denied", text: "a command that Ralph runs cannot speak for you",
		hint: "say it in the chat, or from a terminal of your own"}
}

// reach calls the Ralph that runs in the project. The error matches errNobody
// when none does, and is one of exit code 8 when one holds the project and does
// not answer.
func (inv *invocation) reach(ctx context.Context) (*caller, error) {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for {
		c, err := inv.call(within)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		holder, alive := memory.Locked(nil, inv.root)
		var refusal *control.Fault
		switch {
		case errors.As(err, &refusal) && refusal.Code != kindClosing:
			return nil, refused(err)
		case errors.Is(err, control.ErrForeign):
			return nil, broken(kindForeign, "find out whose it is, and remove it: Ralph makes its own", err, "call the Ralph of this project")
		case errors.Is(err, control.ErrNobody) && !alive:
			return nil, errNobody
		case within.Err() != nil:
			return nil, mute(holder)
		}
		// It begins to work just now, or ends.
		select {
		case <-within.Done():
		case <-time.After(dialAgain):
		}
	}
}

// call dials and asks how things stand, which shows that somebody answers.
func (inv *invocation) call(ctx context.Context) (*caller, error) {
	client, err := control.Dial(ctx, inv.stateDir(), runtimeDir(inv.Getenv))
	if err != nil {
		return nil, err
	}
	c := &caller{inv: inv, client: client}
	if err := c.do(ctx, control.Request{Op: "status"}, nil, &c.live); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return c, nil
}

// mute is the error of a Ralph that holds the project and does not answer.
func mute(h memory.Holder) error {
	who := "it does not say who it is"
	if h.PID != 0 {
		who = h.String()
	}
	return &fault{status: result.Locked, kind: "locked", text: fmt.Sprintf("%v (%s), and does not answer", memory.ErrLocked, who),
		hint: "see whether that process is stopped or stuck: kill -CONT wakes one that is stopped, ralph resume --force takes over from it"}
}

// do has one request served. Each reply before the last goes to each; the last
// is decoded into final, unless that is nil.
func (c *caller) do(ctx context.Context, r control.Request, each func(json.RawMessage) error, final any) error {
	r.Client = c.inv.result.RunID
	data, err := c.client.Do(ctx, r, each)
	if err != nil || final == nil || len(data) == 0 {
		return err
	}
	if err := json.Unmarshal(data, final); err != nil {
		return fmt.Errorf("read the answer of the running Ralph: %w", err)
	}
	return nil
}

// record has the running Ralph keep a result document among the project's runs.
// One that ended in order meanwhile left the project to whoever comes; what one
// left that died is for the next Ralph to look through first.
func (c *caller) record(ctx context.Context, doc json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := c.do(ctx, control.Request{Op: "record", Job: doc}, nil, nil)
	var refusal *control.Fault
	if err == nil || errors.As(err, &refusal) && refusal.Code != kindClosing {
		return err
	}
	gone := errors.New("the Ralph that did the task is gone")
	for {
		holder, alive := memory.Locked(nil, c.inv.root)
		switch {
		case !alive && holder.PID == 0:
			store, _, err := memory.Open(ctx, memory.Options{Root: c.inv.root, Now: c.inv.Now, Holder: "one-shot", SessionID: c.inv.result.RunID, LockWait: answerWithin, Owner: c.inv.owner()})
			if err != nil {
				return err
			}
			return errors.Join(store.AppendRun(doc), store.Close())
		case !alive:
			return gone
		}
		select {
		case <-ctx.Done():
			return gone
		case <-time.After(dialAgain):
		}
	}
}

// runtimeDir is where a socket stands whose path in the project is too long.
func runtimeDir(getenv func(string) string) string { return getenv("XDG_RUNTIME_DIR") }

// close hangs up; nothing hangs on it.
func (c *caller) close() { _ = c.client.Close() }

// refused turns the refusal of a running Ralph into an error of this face; any
// other error is returned as it is.
func refused(err error) error {
	var f *control.Fault
	if !errors.As(err, &f) {
		return err
	}
	status := result.Failed
	switch f.Code {
	case "denied", "forbidden":
		status = result.Denied
	case "usage":
		status = result.Usage
	case "locked", "busy", kindClosing:
		status = result.Locked
	}
	return &fault{status: status, kind: f.Code, text: f.Message, hint: f.Hint}
}
