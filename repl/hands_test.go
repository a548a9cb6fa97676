package repl

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator/desk"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/exchange"
	"ralph/workers/agent"
)

// ownHands do what the user does beside the model: commands run for real.
type ownHands struct {
	paths   []string
	noCheck bool
	// loads, when set, lets each look at the files wait until it gets something.
	loads chan struct{}

	mu     sync.Mutex // guards the fields below
	checks []desk.CheckRun
	look   int // how often the files were looked at
}

// withHands gives the conversation hands.
func withHands(h *ownHands) func(*Options) {
	return func(o *Options) {
		before := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) {
			m, err := before(ctx, l)
			m.Hands = h
			return m, err
		}
	}
}

// sink is one writer for both streams: os/exec then calls it one at a time.
type sink struct{ write func([]byte) }

func (w *sink) Write(p []byte) (int, error) {
	w.write(p)
	return len(p), nil
}

func (h *ownHands) Shell(ctx context.Context, command string, write func(p []byte)) (desk.UserCommand, error) {
	begun := time.Now()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out := &sink{write}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	done := desk.UserCommand{Command: command, Duration: time.Since(begun), ExitCode: cmd.ProcessState.ExitCode()}
	if _, stopped := interrupts.AsStop(context.Cause(ctx)); stopped {
		done.Stopped = true
		return done, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return done, err
}

func (h *ownHands) Files(ctx context.Context) ([]string, bool, error) {
	h.mu.Lock()
	h.look++
	h.mu.Unlock()
	if h.loads != nil {
		select {
		case <-h.loads:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	slices.Sort(h.paths)
	return h.paths, false, nil
}

func (h *ownHands) Check(ctx context.Context, command string) (desk.CheckReport, error) {
	if h.noCheck {
		return desk.CheckReport{}, desk.ErrNoCheck
	}
	if command == "hang" {
		<-ctx.Done()
		return desk.CheckReport{}, context.Cause(ctx)
	}
	if command != "" {
		return desk.CheckReport{Runs: []desk.CheckRun{{Command: command, ExitCode: 1, Duration: 1200 * time.Millisecond, Output: "line\n\x1b[31mbroken\x1b[0m\n"}}}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return desk.CheckReport{Runs: h.checks}, nil
}

func (h *ownHands) Settings() []desk.Setting {
	return []desk.Setting{
		{Name: "model", Value: "gpt-large", Origin: "flag --model", Help: "the model"},
		{Name: "api_key", Value: "sk-…1234", Origin: "RALPH_API_KEY", Help: "key of the model's endpoint"},
		{Name: "sandbox", Value: "workspace", Origin: "default", Help: "how commands are confined"},
		{Name: "max_turns", Value: "100", Origin: "default", Help: "turns"},
		{Name: "max_tokens", Value: "", Origin: "default", Help: "tokens"},
	}
}

func (h *ownHands) HandOff(context.Context, string, string) (exchange.Handed, error) {
	return exchange.Handed{}, errors.New("nothing is handed on here")
}

func (h *ownHands) checking(runs ...desk.CheckRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = runs
}

func (h *ownHands) looks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.look
}

var _ Hands = (*ownHands)(nil)

// bye leaves an idle conversation.
func (c *chat) bye(t *testing.T) {
	t.Helper()
	c.Type("\x15\x0b\x04")
	c.left(0)
}

func checkRun(command string, exit int, output string) desk.CheckRun {
	return desk.CheckRun{Command: command, ExitCode: exit, Duration: 1200 * time.Millisecond, Output: output}
}

// opens makes the fake the coordinator of a chat.
func opens(f *fake) func(context.Context, Link) (Mind, error) {
	return func(_ context.Context, l Link) (Mind, error) { return f.attach(l), nil }
}

// asking asks for a permission and tells what was said.
func asking(ctx context.Context, f *fake, _ string) result.Outcome {
	a, _ := f.link.Ask(ctx, permission.Question{Kind: "permission", Text: "May it?\nrm x", Options: []string{"no", "yes"}})
	f.say(1, "it said "+a)
	return result.Outcome{}
}

// counting says one line after the other until it is stopped.
func counting(ctx context.Context, f *fake, _ string) result.Outcome {
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return result.Outcome{}
		case <-time.After(5 * time.Millisecond):
			f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: fmt.Sprintf("number %d.\n\n", i)})
		}
	}
}
