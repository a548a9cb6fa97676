package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/coordinator/desk"
	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/policy"
	"ralph/coordinator/result"
	"ralph/memory/text"
)

// Check runs one command as a check, in the project's tree and the sandbox; with
// no command the one that is configured, else those that the project's own files
// propose: build, test and lint of its root, or of its parts where the root has
// none. What the repository proposes is asked for first where it is not confined.
// Without any the error matches desk.ErrNoCheck. A check that fails is no error;
// a stop, or the end of ctx, is, and the report then holds what had ended. The
// model is told with its next request. It may be called at any time.
func (c *Coordinator) Check(ctx context.Context, command string) (desk.CheckReport, error) {
	c.byHand.Add(1)
	defer c.byHand.Done()
	guard := c.mail.queue.Guard(ctx, "check")
	defer guard.Release()
	ctx = guard.Context()
	commands, proposed := []string{command}, false
	if command == "" {
		if commands, proposed = c.projectChecks(); len(commands) == 0 {
			return desk.CheckReport{}, &result.Error{Op: "check", Err: desk.ErrNoCheck, Status: result.Usage, Hint: "name one: /check COMMAND, or set it: --check, or check: in .ralph/config.yaml"}
		}
	}
	var rep desk.CheckReport
	for _, one := range commands {
		run := desk.CheckRun{Command: one}
		var err error
		if proposed {
			run.NotRun, err = c.mayRunProposed(ctx, one)
		}
		if err == nil && run.NotRun == "" {
			err = c.checkNow(ctx, &run)
		}
		if err != nil {
			return rep, fmt.Errorf("check %q: %w", text.ClipRunes(firstLine(one), maxQuote), err)
		}
		rep.Runs = append(rep.Runs, run)
	}
	return rep, nil
}

// checkNow runs one check and has the model told of it.
func (c *Coordinator) checkNow(ctx context.Context, run *desk.CheckRun) error {
	res, err := c.runCheck(ctx, c.station, plan.Check{Command: run.Command}, c.events.emit)
	if err != nil {
		return err
	}
	run.ExitCode, run.TimedOut, run.Duration, run.Output = res.ExitCode, res.TimedOut, res.Duration.Round(time.Millisecond), res.Stdout.String()
	c.noteRan(ran{Command: run.Command, ExitCode: run.ExitCode, Duration: run.Duration.Milliseconds(), Output: run.Output, Check: true, TimedOut: run.TimedOut})
	return nil
}

// projectChecks are the checks of the project; proposed says that the repository
// chose them, and not the user.
func (c *Coordinator) projectChecks() (commands []string, proposed bool) {
	if own := c.agreedChecks(); len(own) > 0 {
		return own, false
	}
	if proposed := c.proposedCheck(); proposed != "" {
		return []string{proposed}, true
	}
	found := c.Project().Commands
	for _, root := range []bool{true, false} {
		for _, x := range found {
			if at := x.Dir == "" || x.Dir == "."; at == root {
				commands = append(commands, x.Line())
			}
		}
		if len(commands) > 0 {
			break
		}
	}
	return commands, true
}

// chosenCheck is the check that the user named, "" for none.
func (c *Coordinator) chosenCheck() string {
	if c.cfg.Check == loop.CheckNone {
		return ""
	}
	return c.cfg.Check
}

// proposedCheck is the check that the project's configuration names and the user does
// not, "" for none. A repository cannot switch checks off.
func (c *Coordinator) proposedCheck() string {
	if c.cfg.Check != "" || c.cfg.ProposedCheck == loop.CheckNone {
		return ""
	}
	return c.cfg.ProposedCheck
}

// checkSource says where the command of a check comes from, in the words of
// CheckResult.Source.
func (c *Coordinator) checkSource(check plan.Check) string {
	from := c.cfg.Origin("check").Source
	switch {
	case check.Detected:
		return "detected"
	case check.Command == c.chosenCheck() && (strings.HasPrefix(from, "flag") || strings.HasPrefix(from, "env")):
		return "flag"
	case slices.Contains(c.agreedChecks(), check.Command):
		return "config"
	}
	return "plan"
}

// ownCheck returns the check that the user chose: by a flag, the environment, their
// configuration, or by agreeing to what the project's configuration proposes, which
// is asked once. It is "" for none. The error is the cause of ctx.
func (c *Coordinator) ownCheck(ctx context.Context) (string, error) {
	proposed := c.proposedCheck()
	if proposed == "" {
		return c.chosenCheck(), nil
	}
	c.proposal.Lock()
	defer c.proposal.Unlock()
	if c.proposal.declined {
		return "", nil
	}
	why, err := c.approver.PermitCheck(ctx, proposed, c.checkPlace())
	switch {
	case err != nil:
		return "", err
	case why != "":
		c.proposal.declined = true
		c.warn(fmt.Sprintf("the check %q of %s was left out: %s", proposed, c.cfg.Origin("check"), why))
		return "", nil
	}
	return proposed, nil
}

// proposal is what became of the check that the project's configuration proposes.
type proposal struct {
	sync.Mutex // held while the user is asked
	declined   bool
}

// agreedChecks are what ownCheck returns as far as that is known without a question.
func (c *Coordinator) agreedChecks() []string {
	chosen := c.chosenCheck()
	switch proposed := c.proposedCheck(); {
	case chosen != "":
		return []string{chosen}
	case proposed != "" && c.approver.Agreed(proposed):
		return []string{proposed}
	}
	return nil
}

// mayRunProposed says why a check that the repository proposes may not run, ""
// when it may: as a command of the model might, and where it is not confined only
// after the user approved its exact text.
func (c *Coordinator) mayRunProposed(ctx context.Context, command string) (why string, err error) {
	if c.approver.DecideCommand(command).Effect == policy.Allow && c.confined().Complete {
		return "", nil
	}
	return c.approver.PermitCheck(ctx, command, c.checkPlace())
}

// checkPlace is where checks run, for a question.
func (c *Coordinator) checkPlace() string {
	if c.confined().Complete {
		return "in the sandbox and prove the work"
	}
	return "with your rights"
}
