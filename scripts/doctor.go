package scripts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/memory/text"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
)

// Client is what the doctor asks of an endpoint. It is safe for concurrent
// use.
type Client interface {
	agent.Model
	// Models lists the names of the models that the endpoint has.
	Models(ctx context.Context) ([]string, error)
}

// How a check of the doctor can end.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// doctorDocument is what `ralph doctor --json` prints.
type doctorDocument struct {
	Type    string        `json:"type"`
	Schema  string        `json:"schema"`
	OK      bool          `json:"ok"`
	Version string        `json:"version"`
	Root    string        `json:"project_root"`
	Checks  []doctorCheck `json:"checks"`
	Sandbox doctorSandbox `json:"sandbox"`
	// Agents are those of other makers; only with --agents.
	Agents []doctorAgent `json:"agents,omitempty"`
}

type doctorCheck struct {
	Name   string  `json:"name"`
	Status string  `json:"status"`
	Detail string  `json:"detail"`
	Hint   *string `json:"hint"`
}

func (inv *invocation) doctorCommand() *cobra.Command {
	var agents bool
	c := &cobra.Command{
		Use:   "doctor [--json] [--agents]",
		Short: "check what Ralph needs: the model, tools, the system, the project",
		Long: "Check what Ralph needs: configuration, model, tools, system, project. Asking the model whether it answers costs a few tokens; " +
			"so does --agents, which asks the model of each agent that is installed. " +
			"Exits with 1 when something fails; a warning is no failure.\n" +
			"Example: ralph doctor\nExample: ralph doctor --agents --json",
		Args: wordsOf(0, 0),
	}
	c.Flags().BoolVar(&agents, "agents", false, "look for the command lines of other agents too, and ask each for one line")
	c.RunE = func(c *cobra.Command, _ []string) error { return inv.doctor(c.Context(), c, agents) }
	return c
}

// doctor is used by one goroutine; checks are added in the order in which they
// are shown.
type doctor struct {
	inv    *invocation
	checks []doctorCheck
	cage   doctorSandbox
	others []doctorAgent
}

func (d *doctor) add(name, status, hint, format string, args ...any) {
	d.checks = append(d.checks, doctorCheck{name, status, fmt.Sprintf(format, args...), optional(hint)})
}

func (inv *invocation) doctor(ctx context.Context, c *cobra.Command, agents bool) error {
	d := &doctor{inv: inv}
	loadErr := inv.load(c)
	if status, _, f := ending(orNone(loadErr)); loadErr != nil {
		if status != result.ConfigError {
			return loadErr // a bad flag is no state of the system
		}
		d.add("config", checkFail, f.Hint, "%s", f.Message)
	} else {
		file := config.UserFile(inv.Getenv)
		if _, err := os.Stat(file); err != nil {
			file = "no user config (it would be " + orWord(file, "in the home directory, but there is none") + ")"
		}
		d.add("config", checkOK, "", "%s", file)
	}
	inv.out.resultFile = "" // nothing was worked on
	if loadErr == nil {
		d.endpoint(ctx)
	}
	d.tools(ctx)
	d.system(ctx)
	d.project()
	d.space()
	d.files(ctx)
	d.holder()
	if agents {
		d.agents(ctx)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	failed := slices.ContainsFunc(d.checks, func(x doctorCheck) bool { return x.Status == checkFail })
	if failed {
		inv.code = 1
	}
	if inv.form != outputText {
		return inv.out.printJSON(doctorDocument{"doctor", "ralph.doctor/1", !failed, inv.Version, inv.root, d.checks, d.cage, d.others})
	}
	return inv.out.print(d.text())
}

func orNone(err error) error {
	if err == nil {
		return context.Canceled
	}
	return err
}

func (d *doctor) text() string {
	var b strings.Builder
	for _, x := range d.checks {
		detail := x.Detail
		if d.inv.out.terminal {
			detail = text.Visible(detail)
		}
		// A detail of several lines stays in its column.
		fmt.Fprintf(&b, "%-5s %-9s %s\n", x.Status, x.Name, strings.ReplaceAll(detail, "\n", "\n                "))
		if x.Hint != nil {
			fmt.Fprintf(&b, "      %-9s hint: %s\n", "", text.Visible(*x.Hint))
		}
	}
	return hung(b.String(), columnsOf(d.inv.out.w), 16)
}

// endpoint checks that a model is chosen, there, and answers.
func (d *doctor) endpoint(ctx context.Context) {
	if d.inv.Connect == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	ep, client, err := d.inv.Connect(ctx, d.inv.cfg)
	if err != nil {
		d.failure("endpoint", err)
		return
	}
	base := ep.BaseURL
	if u, err := url.Parse(base); err == nil {
		base = u.Redacted() // of its password
	}
	names, err := client.Models(ctx)
	switch {
	case err != nil:
		// Some endpoints list no models and still answer: the answer decides.
		d.add("endpoint", checkWarn, "", "%s (%s) does not list its models: %s", base, ep.Source, err)
	case len(names) > 0 && !slices.Contains(names, ep.Model):
		hint := ""
		if best := nearest(ep.Model, names); best != "" {
			hint = "did you mean " + best + "?"
		}
		d.add("endpoint", checkWarn, hint, "%s (%s) is reachable, but does not list the model %q", base, ep.Source, ep.Model)
	default:
		d.add("endpoint", checkOK, "", "%s (%s), %s", base, ep.Source, text.Count(len(names), "model"))
	}
	began := d.inv.Now()
	reply, err := client.Complete(ctx, agent.Request{
		Agent:    mainAgent,
		Messages: []agent.Message{{Role: agent.RoleUser, Text: "Answer with the single word: ready"}},
	}, func(agent.Delta) {})
	if err != nil {
		d.failure("model", err)
		return
	}
	d.add("model", checkOK, "", "%s answered in %s", orWord(reply.Model, ep.Model), spanText(d.inv.Now().Sub(began)))
}

func (d *doctor) failure(name string, err error) {
	status, _, f := ending(err)
	d.add(name, checkFail, orWord(f.Hint, wayOut(status, f.Kind)), "%s", f.Message)
}

// tools looks for the programs that the work needs, in the PATH that commands
// will have.
func (d *doctor) tools(ctx context.Context) {
	path := d.inv.Getenv("PATH")
	look := func(name string) string {
		full, _ := exec.Search(name, path, d.inv.root) // that there is none is said
		return full
	}
	switch git := look("git"); {
	case git == "":
		d.add("git", checkWarn, "install git: without it Ralph keeps its own record of changes and cannot commit", "not found in PATH")
	default:
		d.git(ctx, git)
	}
	switch shell := look("bash"); {
	case shell != "":
		d.add("shell", checkOK, "", "%s", shell)
	case look("sh") != "":
		d.add("shell", checkWarn, "install bash: models write commands for it", "%s only", look("sh"))
	default:
		d.add("shell", checkFail, "install bash", "neither bash nor sh found in PATH")
	}
	var found []string
	for _, name := range []string{"go", "node", "npm", "python3", "cargo", "java", "mvn", "gradle", "make", "cmake", "dotnet", "ruby", "php", "rg", "gh"} {
		if look(name) != "" {
			found = append(found, name)
		}
	}
	d.add("tools", checkOK, "", "%s", orWord(strings.Join(found, ", "), "none of the usual toolchains"))
}

func (d *doctor) git(ctx context.Context, path string) {
	runner := exec.New(exec.Options{Project: d.inv.root})
	res, err := runner.Run(ctx, exec.Spec{Argv: []string{path, "--version"}, Timeout: 10 * time.Second, Env: exec.Environ(d.inv.Environ), Tool: true})
	err = errors.Join(err, runner.Close(context.WithoutCancel(ctx)))
	switch {
	case err != nil:
		d.add("git", checkFail, "run git --version yourself", "%s: %s", path, err)
	case res.ExitCode != 0:
		d.add("git", checkFail, "run git --version yourself", "%s: exit %d: %s", path, res.ExitCode, oneLine(res.Stdout.String(), 200))
	default:
		d.add("git", checkOK, "", "%s, %s", path, oneLine(res.Stdout.String(), 80))
	}
}

// system says what the kernel and the terminal offer.
func (d *doctor) system(ctx context.Context) {
	runner := exec.New(exec.Options{Method: d.inv.Getenv("RALPH_PROC"), Init: d.inv.Init, Project: d.inv.root})
	switch m := runner.Method(); {
	case m.Survives:
		d.add("processes", checkOK, "", "%s: nothing that a command started outlives Ralph, also not after kill -9; %s", m.Name, m.Detail)
	default:
		d.add("processes", checkOK, "", "%s: what outlives a kill -9 of Ralph is ended when Ralph starts here next; %s", m.Name, m.Detail)
	}
	d.undo(ctx, runner)
	d.sandbox(ctx, runner)
	d.limits(runner)
	var parts []string
	for _, s := range []struct {
		name   string
		stream any
	}{{"stdin", d.inv.Stdin}, {"stdout", d.inv.Stdout}, {"stderr", d.inv.Stderr}} {
		if isTerminal(s.stream) {
			parts = append(parts, s.name)
		}
	}
	detail := "no terminal: questions cannot be asked"
	if len(parts) > 0 {
		detail = strings.Join(parts, ", ") + " on a terminal, TERM=" + orWord(d.inv.Getenv("TERM"), "(not set)")
	}
	if f, ok := d.inv.Stderr.(*os.File); ok && isTerminal(f) {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil {
			detail += fmt.Sprintf(", %dx%d", w, h)
		}
	}
	if d.inv.Getenv("NO_COLOR") != "" {
		detail += ", NO_COLOR"
	}
	d.add("terminal", checkOK, "", "%s", detail)
}

// limits says what commands may use.
func (d *doctor) limits(runner *exec.Runner) {
	c := d.inv.cfg
	if c == nil {
		return
	}
	size := func(bytes int64, none string) string {
		if bytes <= 0 {
			return none
		}
		return sizeText(bytes)
	}
	runner.Bound(exec.Bounds{Memory: c.SessionMemory, Output: c.SessionOutput})
	b := runner.Bounds()
	by := fmt.Sprintf("looked at every %v", exec.MeterEvery)
	if runner.InGroup() {
		by = "by a control group"
	}
	d.add("limits", checkOK, "", "each process %s of data (command_memory); a command %d processes and threads, files of at most %s, %s in /dev/shm; a session %s of memory, %s (session_memory), and %s of output in files (session_output)",
		size(c.CommandMemory, "any amount"), sandbox.DefaultProcesses, size(accesspolicy.MaxFileBytes, ""), size(sandbox.SharedMemory, ""), size(b.Memory, "any amount"), by, size(b.Output, "any amount"))
}

// undo tries whether what commands write is recorded.
func (d *doctor) undo(ctx context.Context, runner *exec.Runner) {
	res, err := runner.Run(ctx, exec.Spec{Argv: []string{exec.Shell(d.inv.root), "-c", ":"}, Dir: d.inv.root, Record: exec.NewRecord(d.inv.root, "", func([]sandbox.Write) {})})
	if err == nil && res.Watched {
		d.add("undo", checkOK, "", "what commands write is recorded: undo takes back what Ralph changed, and nothing else")
		return
	}
	d.add("undo", checkWarn, "Linux 5.19 with namespaces gives that record; commit before Ralph works, or use its file tools alone",
		"what commands write is not recorded here: what changes while one runs is listed as changed, and undo keeps it")
}

// project checks the places where Ralph writes.
func (d *doctor) project() {
	root := d.inv.root
	switch _, err := os.Lstat(filepath.Join(root, ".git")); {
	case err == nil:
		d.add("project", checkOK, "", "%s, a git repository", root)
	default:
		d.add("project", checkWarn, "git init, if you want commits and diffs of your own", "%s, without git", root)
	}
	state := filepath.Join(root, ".ralph")
	info, err := os.Lstat(state)
	target := state
	switch {
	case errors.Is(err, fs.ErrNotExist):
		target = root // Ralph will make the directory
	case err != nil:
		d.add("state", checkFail, "", "%s: %s", state, reason(err))
		return
	case !info.IsDir():
		d.add("state", checkFail, "move it away: Ralph keeps its state in a directory of that name", "%s is not a directory", state)
		return
	}
	if err := unix.Access(target, unix.W_OK|unix.X_OK); err != nil {
		d.add("state", checkFail, "give yourself the right to write there", "%s cannot be written: %s", target, err)
		return
	}
	d.add("state", checkOK, "", "%s can be written", state)
}
