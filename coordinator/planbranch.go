package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ralph/coordinator/plan"
	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/memory/text"
	"ralph/workers/git"
)

// onBranch checks out the branch that --branch asks for, the plan's where it names none;
// a new one begins at the present commit. Without the flag it warns when the plan is for
// another branch than the one that is checked out.
func (c *Coordinator) onBranch(ctx context.Context, tracker plan.Tracker, dry bool) error {
	want, planned := c.cfg.Run.Branch, ""
	if p, err := tracker.Load(ctx); err == nil { // what is wrong with it comes up later
		planned = p.Branch
	}
	fail := func(err error, hint string) error {
		return &result.Error{Op: "run", Path: want, Err: err, Status: result.Usage, Hint: hint}
	}
	if want == config.PlansBranch {
		if want = planned; want == "" {
			return fail(errors.New("--branch: the plan names no branch"), "--branch NAME names one; in prd.json branchName does")
		}
	}
	switch {
	case want == "" && planned == "":
		return nil
	case c.repo == nil && want != "":
		return fail(errors.New("--branch: there is no git repository here"), "git init makes one")
	case c.repo == nil:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askGit)
	defer cancel()
	now, err := c.repo.Branch(ctx)
	if err != nil {
		return err
	}
	now = strings.TrimPrefix(now, "refs/heads/")
	at := fmt.Sprintf("%q", now)
	if now == "" {
		at = "no branch"
	}
	switch {
	case now == want:
		return nil
	case want == "" && now != planned:
		c.warn(fmt.Sprintf("the plan is for the branch %q, and %s is checked out: --branch works on that of the plan", text.OneLine(planned), at))
		return nil
	case want == "":
		return nil
	case dry:
		c.warn(fmt.Sprintf("the branch %q would be checked out; %s is now", text.OneLine(want), at))
		return nil
	}
	run := func(allow []int, args ...string) (int, error) {
		_, code, err := c.repo.Plumbing().Run(ctx, git.Call{Args: args, Allow: allow})
		return code, err
	}
	if _, err := run(nil, "check-ref-format", "--branch", want); err != nil {
		return fail(errors.New("--branch: git takes no such name of a branch"), "letters, digits, dashes and slashes: --branch feature/login")
	}
	args, did := []string{"checkout", want, "--"}, "checked out"
	if code, err := run([]int{1, 128}, "rev-parse", "-q", "--verify", "refs/heads/"+want); err != nil {
		return err
	} else if code != 0 {
		args, did = []string{"checkout", "-b", want}, "made and checked out"
	}
	if _, err := run(nil, args...); err != nil {
		return fail(fmt.Errorf("check out the branch: %w", err), "commit or stash what is in the way, or check the branch out yourself")
	}
	c.warn(fmt.Sprintf("the branch %q was %s; it was %s before", text.OneLine(want), did, at))
	return nil
}
