package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// timedOut is the error of a connection that could not be made in time, which
// matches context.DeadlineExceeded.
func timedOut() error {
	d := net.Dialer{Timeout: 1}
	_, err := d.Dial("tcp", "127.0.0.1:1")
	return err
}

func TestFail(t *testing.T) {
	t.Parallel()
	slow := timedOut()
	if !errors.Is(slow, context.DeadlineExceeded) {
		slow = errors.Join(slow, os.ErrDeadlineExceeded, context.DeadlineExceeded)
	}
	cases := []struct {
		err  error
		want result.Status
		kind string
	}{
		{&interrupts.Stop{Signal: syscall.SIGINT}, result.Interrupted, "interrupted"},
		{errors.Join(&model.Error{Kind: model.KindUnreachable}, &interrupts.Stop{}), result.Interrupted, "interrupted"},
		{fmt.Errorf("complete: %w", context.Canceled), result.Interrupted, "interrupted"},
		{fmt.Errorf("complete: %w", context.DeadlineExceeded), result.Timeout, "timeout"},
		{&model.Error{Kind: model.KindUnreachable, Err: slow}, result.ProviderError, "unreachable"},
		{&model.Error{Kind: model.KindAuth}, result.ConfigError, "auth"},
		{&model.Error{Kind: model.KindModelNotFound}, result.ConfigError, "model_not_found"},
		{&model.Error{Kind: model.KindRateLimit}, result.RetryLater, "rate_limit"},
		{errors.Join(&model.Error{Kind: model.KindContextLength}, agent.ErrNoCompaction), result.ProviderError, "context_length"},
		{&model.MismatchError{}, result.Failed, "replay_mismatch"},
		{&agent.LimitError{What: "turns"}, result.Limit, "limit"},
		{&agent.LimitError{What: "cost", Unknown: true}, result.ConfigError, "price_unknown"},
		{agent.ErrCut, result.Limit, "output_limit"},
		{agent.ErrRepeats, result.Failed, "repeats"},
		{fmt.Errorf("open: %w", memory.ErrLocked), result.Locked, "locked"},
		{fmt.Errorf("load: %w", config.ErrConfig), result.ConfigError, "config"},
		{coordinator.ErrNothingToUndo, result.Failed, "nothing_to_undo"},
		{&result.Error{Op: "open", Path: "x", Err: errors.New("y"), Status: result.Usage}, result.Usage, "usage"},
		{errors.New("odd"), result.Failed, "internal"},
	}
	for _, c := range cases {
		status, failure := coordinator.Fail(c.err)
		if status != c.want || failure.Kind != c.kind || failure.Message == "" {
			t.Errorf("%v is %s (%s), want %s (%s)", c.err, status, failure.Kind, c.want, c.kind)
		}
	}
}

func TestRulesThatDoNotCompile(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	open := func() (result.Status, *result.Failure) {
		_, err := coordinator.Open(t.Context(), p.options())
		return coordinator.Fail(err)
	}
	p.flags["deny"] = []string{"nonsense =="}
	if status, failure := open(); status != result.Usage || failure.Hint == "" {
		t.Errorf("a bad flag: %s %+v", status, failure)
	}
	p.userConfig = "allow:\n  - 'tool == \"shell\"'\n"
	if status, _ := open(); status != result.Usage {
		t.Errorf("a bad flag beside a good setting: %s", status)
	}
	p.flags, p.userConfig = map[string][]string{}, "deny:\n  - 'nonsense =='\n"
	if status, failure := open(); status != result.ConfigError || failure.Hint == "" {
		t.Errorf("a bad setting: %s %+v", status, failure)
	}
}

func TestOpenAndConnectWithoutAModel(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags = map[string][]string{"base_url": {""}, "model": {""}}
	o := p.options()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no time is spent on looking for local servers
	if _, err := coordinator.Open(ctx, o); err == nil {
		t.Error("opened without a model")
	}
	if _, err := coordinator.Connect(ctx, o.Config, o.Getenv); err == nil {
		t.Error("connected without a model")
	}
	o.Root = p.path("missing")
	o.NoModel = true
	_, err := coordinator.Open(t.Context(), o)
	if status, failure := coordinator.Fail(err); status != result.Usage || failure.Hint == "" {
		t.Errorf("a missing root: %s, %v", status, err)
	}
	client, err := coordinator.Connect(t.Context(), newProject(t).options().Config, o.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}
