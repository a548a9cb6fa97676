package scripts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ralph/coordinator/ownership"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/identity"
)

// The answers to whose the state of a project shall be. The first is the safe one.
const (
	answerAside = "set aside"
	answerAdopt = "take over"
)

// ownState makes sure that the state in `.ralph/` is the user's own before a
// command works with it. State that came with the directory, or was copied, is
// asked about on a terminal; elsewhere it is set aside, unless old says that the
// command names some of it: that is an error which names --adopt-state.
func (inv *invocation) ownState(ctx context.Context, old bool) error {
	if _, alive := memory.Locked(nil, inv.root); alive {
		return nil // whoever holds the project has seen to it, or does when opening it
	}
	found, err := inv.stateOf()
	if found.Standing == identity.Unknown && !old {
		return nil // of what is not known nothing is touched
	}
	if err == nil && found.Trusted() {
		if strange, err := memory.Strange(inv.root, found); err == nil && len(strange) == 0 {
			return nil
		}
		return inv.settleState(ctx)
	}
	if err := inv.adoptOrNot(ctx, found, err, old); err != nil {
		return err
	}
	return inv.settleState(ctx)
}

// settleState sets aside what is not the user's, or takes it over.
func (inv *invocation) settleState(ctx context.Context) error {
	told, err := ownership.Project{Root: inv.root, Getenv: inv.Getenv, Adopt: inv.cfg.AdoptState}.Settle(ctx, inv.result.RunID, inv.Now)
	for _, text := range told {
		inv.warning(text)
	}
	return err
}

// adoptOrNot decides what becomes of somebody else's state; bad says why it
// cannot be looked at.
func (inv *invocation) adoptOrNot(ctx context.Context, found identity.Found, bad error, old bool) error {
	if found.Standing == identity.Unknown {
		return &fault{status: result.NeedsInput, kind: "unknown_state", text: "your own state directory cannot be used, so that nothing is gone on with: " + bad.Error(),
			hint: "--state-dir DIR names another; without --continue, --session or resume the work begins anew"}
	}
	if inv.cfg.AdoptState {
		return nil
	}
	what := foreignText(found)
	if bad != nil {
		what = bad.Error()
	}
	ask := inv.newAsker(func() func() { return func() {} })
	if ask != nil && inv.cfg.OnAsk == "ask" && bad == nil && len(found.State) > 0 && identity.Home(inv.Getenv) != "" {
		answer, err := ask(ctx, permission.Question{Kind: "question", Options: []string{answerAside, answerAdopt},
			Text: what + ". Set it aside (to .ralph/quarantine), or take over its texts: tasks, history, learnings? Neither grants anything"})
		if err != nil {
			return err
		}
		inv.cfg.AdoptState = answer == answerAdopt
		return nil
	}
	if old {
		return &fault{status: result.NeedsInput, kind: "foreign_state", text: what + ": nothing of it is gone on with",
			hint: "--adopt-state takes over its texts (tasks, history, learnings) and grants nothing"}
	}
	return nil
}

// stateOf says whose the state of the project is.
func (inv *invocation) stateOf() (identity.Found, error) {
	return ownership.Project{Root: inv.root, Getenv: inv.Getenv}.Examine()
}

// unlinked refuses to read state through a link, which would show what is elsewhere as
// the project's.
func (inv *invocation) unlinked() error {
	err := memory.Unlinked(inv.root)
	if err == nil {
		return nil
	}
	return &fault{status: result.Failed, kind: "foreign_state", text: "the state in .ralph is not read: " + err.Error(),
		hint: "Ralph follows no link there; remove it, or put the directory itself in its place"}
}

// markForeign warns that what a command shows is somebody else's, and reports it.
func (inv *invocation) markForeign() bool {
	found, err := inv.stateOf()
	if err == nil && found.Trusted() {
		strange, err := memory.Strange(inv.root, found)
		switch {
		case err != nil:
			inv.warning("foreign: whether your Ralph wrote the state in .ralph cannot be seen: " + err.Error())
		case len(strange) > 0:
			inv.warning("foreign: your Ralph did not write " + strings.Join(strange, ", "))
		}
		return err != nil || len(strange) > 0
	}
	if len(found.State) == 0 {
		return false
	}
	if found.Standing == identity.Unknown {
		inv.warning("foreign: whose the state in .ralph is cannot be known, as your own state directory cannot be used: " + err.Error())
		return true
	}
	inv.warning("foreign: " + foreignText(found))
	return true
}

func foreignText(found identity.Found) string {
	how := "it came with the directory"
	if found.Standing == identity.Copied {
		how = "it was copied, restored or moved here"
	}
	return fmt.Sprintf("the state in .ralph is not yours (%s: %s)", how, strings.Join(found.State, ", "))
}

// useStateDir has the environment name the state directory of the user that a
// flag names.
func (inv *invocation) useStateDir() {
	if inv.cfg == nil || inv.cfg.StateDir == "" {
		return
	}
	dir, getenv := inv.fromHere(inv.cfg.StateDir), inv.Getenv
	inv.Getenv = func(name string) string {
		if name == "RALPH_STATE_DIR" {
			return dir
		}
		return getenv(name)
	}
}

// checkStateDir refuses a state directory that was named for Ralph and lies in the
// project: what works there could write what it is trusted by. The default place is
// no error, so that Ralph works where the project is the home.
func (inv *invocation) checkStateDir() error {
	dir := inv.Getenv("RALPH_STATE_DIR")
	if dir == "" {
		return nil
	}
	if _, err := identity.Outside(dir, inv.root); errors.Is(err, identity.ErrInside) {
		return &fault{status: result.ConfigError, kind: "config", text: "state directory " + err.Error() + " " + inv.root + ", where agents could change what Ralph trusts",
			hint: "name another with --state-dir or RALPH_STATE_DIR, outside of the project"}
	}
	return nil
}

// owner is the user, for those who open the state without a coordinator.
func (inv *invocation) owner() *memory.Owner {
	return &memory.Owner{Home: identity.Home(inv.Getenv), Adopt: inv.cfg != nil && inv.cfg.AdoptState}
}
