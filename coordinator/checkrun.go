package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/plan"
	"ralph/coordinator/policy"
	"ralph/memory/text"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/buildcache"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// What a check looks at, in the words of CheckResult.Tree.
const (
	treeWork  = "worktree"
	treeClean = "clean"
)

// checked is what came of a check.
type checked struct {
	exec.Result
	Where string // treeWork or treeClean
	// LeftOut names what the check did not see because no commit of the work holds
	// it, each with the reason; files that git ignores are not among it.
	LeftOut []string
	// Baseline is the exit code of a detected check on the state before the work, nil
	// where it did not run there; Excused says why it does not count that it failed.
	Baseline *int
	Excused  string
}

// passed reports whether the check proves the work.
func (c checked) passed() bool { return c.ExitCode == 0 && !c.TimedOut }

// failed reports whether the check did not pass, and that counts.
func (c checked) failed() bool { return !c.passed() && c.Excused == "" }

// prove runs a check on whose result something depends. Background commands that
// could write to the tree meanwhile are ended before.
func (c *Coordinator) prove(ctx context.Context, st *station, check plan.Check, emit func(agent.Event)) (checked, error) {
	if err := c.endJobsIn(ctx, st.root, check.Command); err != nil {
		return checked{}, err
	}
	return c.runCheck(ctx, st, check, emit)
}

// endJobsIn ends the background commands that could write to a tree, before a check, and
// where that has the network all of them, which it could ask.
func (c *Coordinator) endJobsIn(ctx context.Context, root, check string) error {
	if c.approver.Network(check) {
		root = ""
	}
	ended, err := c.stations.stopJobs(ctx, root)
	if err != nil {
		return fmt.Errorf("end background commands before a check: %w", err)
	}
	if len(ended) > 0 {
		c.warn(fmt.Sprintf("%s was ended before the check %q, because it could change or answer what is checked", strings.Join(ended, ", "), text.ClipRunes(firstLine(check), maxQuote)))
	}
	return nil
}

// openProof opens the tree of an agent for the checks of its work. Until it is
// closed the tree holds what a commit of the work holds, and what git ignores;
// without git, all that the agents left in the one tree.
func (c *Coordinator) openProof(ctx context.Context, a crew.Agent, check string) (st *station, err error) {
	root, linked := c.crew.Place(a.ID)
	if c.trees == nil {
		return c.openStation(a.ID, root, linked...)
	}
	if err := c.endJobsIn(ctx, root, check); err != nil {
		return nil, err
	}
	work, release, err := c.trees.Isolate(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if st, err = c.openStation(a.ID, root, linked...); err != nil {
		return nil, errors.Join(err, release())
	}
	st.proves, st.release = &work, release
	return st, nil
}

// runCheck is the only place in which a check runs: on the tree of an agent or on
// a fresh checkout of it, in a sandbox that shares with that of the agent nothing
// but the tree, and with build caches that no agent has written. emit gets an
// event with the result. Half of the output that is kept is its end.
func (c *Coordinator) runCheck(ctx context.Context, st *station, check plan.Check, emit func(agent.Event)) (res checked, err error) {
	tree := ""
	if c.book.sessionDir() != "" { // else nobody reads it
		tree = st.tree(ctx)
	}
	c.fillCaches(ctx, check.Command)
	began := time.Now()
	if check.Clean || c.cfg.CheckClean {
		res.Where = treeClean
		res.Result, res.LeftOut, err = c.checkCheckout(ctx, st, check)
	} else {
		res.Where = treeWork
		res.Result, err = c.checkTree(ctx, st, check)
		if st.proves != nil {
			res.LeftOut = st.proves.LeftOut
		}
	}
	if ctx.Err() != nil {
		return res, context.Cause(ctx) // and not what the stop did to the check
	}
	if err != nil {
		return res, err
	}
	why := ""
	if res.TimedOut {
		// The signal that ended it says nothing about the check.
		res.ExitCode, why = timedOutCode, "timed out"
	}
	code, ok, took := res.ExitCode, res.ExitCode == 0, time.Since(began).Milliseconds()
	emit(agent.Event{Type: agent.EventGate, Agent: st.name, TaskID: c.errands.taskOf(st.name), Text: check.Command, ExitCode: &code, OK: &ok, DurationMS: &took, Reason: why, Ref: tree})
	if ok && c.cfg.Sandbox == string(policy.SandboxOff) {
		c.unguarded.Do(func() {
			c.warn("the sandbox is off, so nothing kept commands from the build caches and temporary files that checks use: run the check elsewhere before you rely on it")
		})
	}
	return res, nil
}

// checkTree runs a check among the files that an agent works on.
func (c *Coordinator) checkTree(ctx context.Context, st *station, check plan.Check) (exec.Result, error) {
	cage, err := st.cage.Fresh()
	if err != nil {
		return exec.Result{}, err
	}
	return c.runAndClose(ctx, cage, st.root, checkEnv(check), check.Command)
}

// runAndClose runs commands one after the other until one fails, with env added to
// the environment of commands, notes what they had to build, and closes the sandbox.
func (c *Coordinator) runAndClose(ctx context.Context, cage *accesspolicy.Sandbox, dir string, env []string, commands ...string) (res exec.Result, err error) {
	defer func() { err = errors.Join(err, cage.Close()) }()
	for _, command := range commands {
		if res, err = c.runIn(ctx, cage, dir, command, env...); err != nil || res.ExitCode != 0 || res.TimedOut {
			break
		}
	}
	if caches := cage.Caches(); err == nil && caches != nil {
		err = caches.Measured(cage.Written())
	}
	return res, err
}

// runIn runs a command line as an agent could: with the network only where a rule
// allows it.
func (c *Coordinator) runIn(ctx context.Context, cage *accesspolicy.Sandbox, dir, command string, env ...string) (exec.Result, error) {
	sp := exec.Spec{Env: env, Argv: []string{exec.Shell(c.opt.Root), "-c", command}, Dir: dir, Timeout: c.cfg.CheckTimeout, MaxBytes: maxCheckBytes}
	res, rep, err := cage.Run(ctx, sp, accesspolicy.Call{Network: c.approver.Network(command)})
	for _, r := range rep.Reverted {
		c.warn(fmt.Sprintf("after %q: %s", head(command, maxToldBytes), r))
	}
	return res, err
}

// errNoCommit says that there is nothing to check out.
var errNoCommit = errors.New("a clean check needs a git repository with a commit")

// checkCheckout runs a check, after its set-up command, on a fresh checkout of the
// commit that holds the work of an agent, or the files of the user's tree as they
// are. leftOut names what that commit does not hold.
func (c *Coordinator) checkCheckout(ctx context.Context, st *station, check plan.Check) (res exec.Result, leftOut []string, err error) {
	caches := st.cage.Caches()
	if st.repo == nil || c.trees == nil || caches == nil {
		return res, nil, errNoCommit
	}
	var work trees.Recorded
	if st.proves != nil {
		work = *st.proves
	} else if work, err = c.trees.Record(ctx); err != nil {
		return res, nil, err
	}
	if work.Commit == "" {
		return res, nil, errNoCommit
	}
	dir, remove, err := caches.Checkout()
	if err != nil {
		return res, nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if _, err = c.repo.Checkout(ctx, work.Commit, dir); err != nil {
		return res, nil, err
	}
	cage, root, err := c.openCheckout(st, dir, caches, false)
	if err != nil {
		return res, nil, err
	}
	var commands []string
	if set := c.setUp(root); set != "" {
		commands = append(commands, set)
	}
	res, err = c.runAndClose(ctx, cage, root, checkEnv(check), append(commands, check.Command)...)
	return res, work.LeftOut, err
}

// openCheckout opens a sandbox for a checkout of the repository of st in dir, or for
// a copy of the files of a project without one. root is the directory in it that is
// the project.
func (c *Coordinator) openCheckout(st *station, dir string, caches *buildcache.Store, fill bool) (cage *accesspolicy.Sandbox, root string, err error) {
	var at *git.Location
	if loc, err := git.Find(dir); err == nil {
		at = &loc
	} else if !errors.Is(err, git.ErrNoRepository) {
		return nil, "", err
	}
	root = dir
	if of, err := git.Find(st.root); err == nil {
		if rel, err := filepath.Rel(of.Root, st.root); err == nil && filepath.IsLocal(rel) {
			root = filepath.Join(dir, rel)
		}
	}
	o := c.sandboxOptions("check", root, at)
	o.Caches, o.Fill = caches, fill
	cage, err = accesspolicy.Open(o)
	return cage, root, err
}

// setUp is the command that makes a fresh checkout ready for its check: the user's,
// or what the lock file of a package manager calls for; "" for none.
func (c *Coordinator) setUp(root string) string {
	if c.cfg.CheckSetup != "" {
		return c.cfg.CheckSetup
	}
	for _, x := range []struct{ file, command string }{
		{"package-lock.json", "npm ci"}, {"npm-shrinkwrap.json", "npm ci"}, {"pnpm-lock.yaml", "pnpm install --frozen-lockfile"},
		{".yarnrc.yml", "yarn install --immutable"}, {"yarn.lock", "yarn install --frozen-lockfile"},
		{"bun.lock", "bun install --frozen-lockfile"}, {"bun.lockb", "bun install --frozen-lockfile"},
		{"uv.lock", "uv sync --frozen"}, {"poetry.lock", "poetry install"}, {"Pipfile.lock", "pipenv sync --dev"},
		{"Gemfile.lock", "bundle install"}, {"composer.lock", "composer install"},
	} {
		if info, err := os.Lstat(filepath.Join(root, x.file)); err == nil && info.Mode().IsRegular() {
			return x.command
		}
	}
	return ""
}

// fillCaches fills the build caches of checks anew where they are found to be out
// of date, from the commit that the session began with. A fill that fails leaves them as
// they were: a check builds then what it needs itself.
func (c *Coordinator) fillCaches(ctx context.Context, check string) {
	caches := c.station.cage.Caches()
	if caches == nil || c.repo == nil || c.confined().None() {
		return
	}
	c.filling.Lock()
	defer c.filling.Unlock()
	base, command := caches.Due(), fillCommand(check, c.opt.Root)
	if base == "" || command == "" {
		return
	}
	c.events.emit(agent.Event{Type: agent.EventDecision, Status: "check", Text: "the build cache of checks is filled first",
		Reason: "by building the tests of the commit that you began with, without running them; later checks build only what changed"})
	if err := c.fillFrom(ctx, caches, base, command); err != nil && ctx.Err() == nil {
		c.warn("the build caches of checks were not filled: " + err.Error())
	}
}

func (c *Coordinator) fillFrom(ctx context.Context, caches *buildcache.Store, base, command string) (err error) {
	dir, remove, err := caches.Checkout()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if _, err = c.repo.Checkout(ctx, base, dir); err != nil {
		return errors.Join(err, caches.Tried(base)) // the commit may be gone
	}
	cage, root, err := c.openCheckout(c.station, dir, caches, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cage.Close()) }()
	res, err := c.runIn(ctx, cage, root, command)
	if err != nil {
		return err
	}
	if err = caches.Tried(base); err != nil || res.TimedOut {
		return err // what was ended may have left halves
	}
	return cage.KeepCaches()
}

// harmlessTest matches the options and packages of a go test that begin no program
// besides the tests.
var harmlessTest = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:-(?:race|short|v|cover|failfast|(?:tags|count|timeout|p|parallel|covermode|run|skip)=[\w.,/-]*)|[\w.][\w./-]*)$`)
})

// fillCommand returns a command that builds, in a project as that at root, what a check builds and runs no code
// of the project, or "" where none is known: what such code puts into a cache every later
// check would believe.
func fillCommand(check, root string) string {
	const build = "go test -exec true -count=1 "
	if words := strings.Fields(check); len(words) > 2 && words[0] == "go" && words[1] == "test" &&
		!slices.ContainsFunc(words[2:], func(w string) bool { return !harmlessTest().MatchString(w) }) {
		return build + strings.Join(words[2:], " ")
	}
	for _, name := range []string{"go.mod", "go.work"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			return build + "./..."
		}
	}
	return ""
}

// began records the commit that a session begins with, from which caches may be
// filled; one that goes on has another, which holds its agents' work.
func (c *Coordinator) began(commit string) {
	again := c.opt.Recovery != nil || c.cfg.Run.Continue || c.opt.Session != "" && c.opt.Session != "new"
	caches := c.station.cage.Caches()
	if again || caches == nil || commit == "" {
		return
	}
	if err := caches.SetBase(commit); err != nil {
		c.warn("the build caches of checks: " + err.Error())
	}
}
