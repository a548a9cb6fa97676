package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ralph/coordinator"
	"ralph/coordinator/policy"
	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/memory/text"
	"ralph/scripts/report"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/git"
)

// flags returns the values of the flags given, and takes from them at once
// what an early error needs: the form of the output and the result file.
func (inv *invocation) flags(c *cobra.Command) (map[string][]string, error) {
	flags, err := given(c.Flags(), inv.keys)
	inv.parsed = true
	if v := flags["output"]; len(v) > 0 {
		inv.form = guessOutput([]string{"--output=" + v[len(v)-1]}, inv.Getenv)
	}
	if v := flags["result_file"]; len(v) > 0 {
		inv.out.resultFile = v[len(v)-1]
	}
	return flags, err
}

// load finds the directory, the project and the configuration, and with them
// the form of the output.
func (inv *invocation) load(c *cobra.Command) error {
	flags, err := inv.flags(c)
	if err != nil {
		return err
	}
	dir := inv.Getenv("RALPH_DIR")
	if v := flags["dir"]; len(v) > 0 {
		dir = v[len(v)-1]
	}
	if err := inv.locate(dir); err != nil {
		return err
	}
	cfg, err := inv.configure(flags)
	if err == nil && cfg.Dir != dir {
		// The user's own config names another directory, whose project config
		// is the one that counts.
		if err = inv.locate(cfg.Dir); err == nil {
			cfg, err = inv.configure(flags)
		}
	}
	inv.cfg = cfg
	inv.useStateDir()
	if cfg.Output != "" {
		inv.form = cfg.Output
	}
	inv.out.resultFile, inv.out.lastMessage = cfg.ResultFile, cfg.LastMessage
	if err != nil {
		return configFault(err)
	}
	if err := inv.checkStateDir(); err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		if c.Name() != "chat" { // its greeting says them
			inv.warning(w)
		}
	}
	return nil
}

func (inv *invocation) configure(flags map[string][]string) (*config.Config, error) {
	return config.Load(config.Sources{
		Flags: flags, Environ: inv.Environ,
		UserFile:    config.UserFile(inv.Getenv),
		ProjectFile: filepath.Join(inv.root, ".ralph", "config.yaml"),
	})
}

// configFault says whether a configuration error is one of the command line.
func configFault(err error) error {
	var e *config.Error
	var f *fault
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, config.ErrFlag):
		return usage("ralph --help lists the flags and their values", "%s", err)
	case errors.As(err, &e):
		// `ralph config` would end with the same error until it is mended.
		return &fault{status: result.ConfigError, kind: "config", text: e.Error(),
			hint: "mend what is named there; ralph --help lists the settings: --max-turns is the key max_turns and the variable RALPH_MAX_TURNS"}
	}
	return &fault{status: result.ConfigError, kind: "config", text: "read the configuration", err: err}
}

// locate sets where the work is done: dir, as given, and the project around it.
func (inv *invocation) locate(dir string) error {
	const hint = "-C takes a directory that exists and can be read"
	here := inv.fromHere(dir)
	if !filepath.IsAbs(here) {
		return usage("cd to a directory that exists, or name one with -C", "the current directory is gone: it was removed or cannot be reached")
	}
	full, err := filepath.EvalSymlinks(here)
	if err != nil {
		return usage(hint, "directory %q: %s", orWord(dir, inv.Dir), reason(err))
	}
	info, err := os.Stat(full)
	switch {
	case err != nil:
		return usage(hint, "directory %q: %s", orWord(dir, inv.Dir), reason(err))
	case !info.IsDir():
		return usage(hint, "%q is not a directory", dir)
	}
	if err := unix.Access(full, unix.R_OK|unix.X_OK); err != nil {
		return usage(hint, "directory %q: %s", orWord(dir, inv.Dir), err)
	}
	if inside := gitDir(full); inside != "" {
		return usage("work in the directory of the project's files instead, or name it with -C", "%q belongs to git itself", inside)
	}
	inv.dir, inv.root = full, full
	loc, err := git.Find(full)
	switch {
	case err == nil:
		inv.root = loc.Root
	case !errors.Is(err, git.ErrNoRepository):
		inv.warning(fmt.Sprintf("the git repository around %q cannot be used: %s", full, reason(err)))
	}
	inv.result.ProjectRoot = optional(inv.root)
	return nil
}

// gitDir returns the repository's own directory, a bare one or .git, in which
// dir lies, or "". Nobody's project is in there, and nothing must be written. A
// directory with .git or .ralph is a project's, whatever else a command has made
// there: git looks at .git first.
func gitDir(dir string) string {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		for _, name := range []string{".git", ".ralph"} {
			if _, err := os.Lstat(filepath.Join(at, name)); err == nil {
				return ""
			}
		}
		found := true
		for name, isDir := range map[string]bool{"HEAD": false, "objects": true, "refs": true} {
			info, err := os.Stat(filepath.Join(at, name))
			found = found && err == nil && info.IsDir() == isDir
		}
		if found {
			return at
		}
	}
	return ""
}

// oneShot does one task: the main job of the program.
func (inv *invocation) oneShot(ctx context.Context, c *cobra.Command, words []string) error {
	if len(words) == 0 {
		if _, err := inv.flags(c); err != nil {
			return err
		}
		if inv.form == outputText {
			fmt.Fprint(inv.Stderr, shortHelp)
		}
		return checkTask("", "no task given", `ralph "what to do" gives Ralph a task; ralph - reads it from standard input`)
	}
	if err := inv.load(c); err != nil {
		return err
	}
	if inv.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inv.cfg.Timeout)
		defer cancel()
	}
	if err := inv.targets(); err != nil {
		return err
	}
	job, err := inv.job(ctx, words)
	if err != nil {
		return err
	}
	if err := inv.ownState(ctx, inv.cfg.Session != "" && inv.cfg.Session != "new"); err != nil {
		return err
	}
	return inv.perform(ctx, job, true)
}

// perform has the coordinator do one job, and brings the result out. hand says
// that a Ralph that holds the project already may do it instead.
func (inv *invocation) perform(ctx context.Context, job coordinator.Job, hand bool) error {
	if inv.form == outputJSONL {
		inv.out.events = newEventWriter(inv.out, inv.result.RunID, inv.Now)
	}
	p := inv.newProgress()
	defer p.close()
	inv.depart()
	inv.alarm = inv.newNotifier()
	var co Coordinator
	var err error
	for turn := true; turn; {
		if hand && inv.listening() {
			if done, err := inv.delegate(ctx, job, p); done {
				return err
			}
		}
		co, err = inv.open(ctx, "one-shot", p)
		// One that came at the same time listens by now; another worktree's, and one
		// that only keeps order, never does here.
		turn = hand && errors.Is(err, memory.ErrLocked) && inv.listening() && ctx.Err() == nil
	}
	if err != nil {
		return err
	}
	// Closing waits for what the work started; the result goes out first.
	defer inv.shut(co)
	defer inv.killing(co)()
	outcome := inv.run(ctx, co, job, p)
	ep := co.Endpoint()
	inv.result.Model, inv.result.Provider = optional(ep.Model), optional(ep.Provider)
	inv.conclude(outcome, job, p, co.Record)
	return nil
}

// delegate has the Ralph that runs in the project do the job; it reports
// whether that settles it, because it was done or may not be done here.
func (inv *invocation) delegate(ctx context.Context, job coordinator.Job, p *progress) (done bool, err error) {
	outcome, caller, err := inv.handOver(ctx, job, p)
	var f *fault
	switch {
	case errors.Is(err, errNobody):
		return false, nil
	case errors.As(err, &f) && f.kind == kindClosing: // and did not begin it
		return false, nil
	case errors.As(err, &f) && f.kind == kindForeign:
		inv.warning(err.Error())
		return false, nil
	case err != nil:
		return true, err
	}
	defer caller.close()
	p.close()
	inv.conclude(outcome, job, p, func(doc json.RawMessage) error { return caller.record(context.WithoutCancel(ctx), doc) })
	return true, nil
}

// conclude brings the result out; record keeps it among the project's runs.
func (inv *invocation) conclude(outcome result.Outcome, job coordinator.Job, p *progress, record func(json.RawMessage) error) {
	for _, w := range outcome.Warnings {
		inv.showWarningOnce(w)
	}
	inv.result.fill(outcome)
	inv.tellOutput()
	inv.stamp()
	if !job.DryRun {
		inv.record(record)
	}
	if inv.out.events == nil {
		p.summary(inv.result)
	}
	inv.code = inv.finish()
	inv.alarm.ended(inv.result)
}

// tellOutput puts it in the document when standard output took no more: whatever
// else the work came to, this is what ended it.
func (inv *invocation) tellOutput() {
	r := inv.result
	switch err := inv.out.trouble(); {
	case err != nil:
		status, signal, failure := ending(err)
		r.Reason = failure.Message
		r.end(status, signal, failure)
	case inv.out.left() && r.Status == result.Interrupted && r.Error != nil:
		r.Reason, r.Error.Message = readerLeft, readerLeft
	}
}

// job gathers what the coordinator needs to know about the task.
func (inv *invocation) job(ctx context.Context, words []string) (coordinator.Job, error) {
	j := coordinator.Job{DryRun: inv.cfg.DryRun}
	var err error
	if inv.cfg.Schema != "" {
		if j.Schema, err = readSchema(inv.fromHere(inv.cfg.Schema)); err != nil {
			return j, err
		}
	}
	if j.Files, err = gather(inv.root, inv.dir, inv.cfg.Files, inv.warning); err != nil {
		return j, err
	}
	j.Task, j.Context, err = inv.readTask(ctx, words)
	return j, err
}

// holderUndo opens the project only to take work back: no model is needed, as for
// a run that is only shown.
const holderUndo = "undo"

// open opens the project's coordinator.
func (inv *invocation) open(ctx context.Context, holder string, p *progress) (Coordinator, error) {
	inv.out.keeps = true
	inv.boundMemory()
	runner := exec.New(exec.Options{Method: inv.Getenv("RALPH_PROC"), Init: inv.Init, Project: inv.root})
	if policy.Sandbox(inv.cfg.Sandbox) != policy.SandboxOff {
		runner.Ready() // the coordinator looks what confines commands when it opens
	}
	ask := inv.alarm.alarmed(inv.newAsker(p.suspend))
	p.asks = ask != nil
	co, err := inv.Open(ctx, coordinator.Options{
		Root: inv.root, Config: inv.cfg, Proc: runner, RunID: inv.result.RunID, Holder: holder,
		NoModel: holder == holderUndo || holder == holderRun && inv.cfg.DryRun, ModelOptional: holder == holderRun, Session: inv.cfg.Session, Recovery: inv.taking, Force: inv.force, Eyes: inv.eyes(p), Ask: ask, Getenv: inv.Getenv, Now: inv.Now, Lessons: report.Lessons,
	})
	if err != nil {
		return nil, errors.Join(err, runner.Close(context.WithoutCancel(ctx)))
	}
	return co, nil
}

// leastHeap is the smallest bound of the heap: below it the collector of garbage would do
// little else than run.
const leastHeap = 64 << 20

// boundMemory has garbage collected before the process takes more memory than max_memory.
func (inv *invocation) boundMemory() {
	if most := inv.cfg.MaxMemoryBytes; most > 0 {
		debug.SetMemoryLimit(max(most, leastHeap))
	}
}

// eyes returns what sees the events: the event stream or the person.
func (inv *invocation) eyes(p *progress) func(agent.Event) {
	return func(e agent.Event) {
		if inv.out.events == nil {
			p.event(e)
			return
		}
		// An error of standard output has ended ctx by now.
		_ = inv.out.events.event(e)
		if e.Type == agent.EventWarning {
			p.event(e)
		}
	}
}

// run has the coordinator work, and takes the progress off the screen however
// it ends.
func (inv *invocation) run(ctx context.Context, co Coordinator, j coordinator.Job, p *progress) result.Outcome {
	defer p.close()
	j.Last = true
	return co.Run(ctx, j)
}

func (inv *invocation) shut(co Coordinator) {
	if err := co.Close(); err != nil {
		inv.showWarning(err.Error())
	}
	c, ok := co.(interface {
		Totals() coordinator.Totals
		SessionID() string
	})
	if !ok {
		return
	}
	if n := c.Totals().Findings; n > 0 {
		inv.note(fmt.Sprintf("%s: ralph insights %s (--append keeps them in AGENT.md)", text.Count(n, "finding"), c.SessionID()))
	}
}

// note tells the person something that is no warning.
func (inv *invocation) note(text string) {
	if inv.cfg == nil || !inv.cfg.Quiet {
		tell(inv.Stderr, text)
	}
}

// showWarningOnce shows a warning that the coordinator reports in the document
// itself.
func (inv *invocation) showWarningOnce(text string) {
	if !inv.warned[text] {
		inv.warned[text] = true
		inv.showWarning(text)
	}
}
