package scripts

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/result"
	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/memory/text"
)

// chat begins a chat as the command line asks for it; how the last one ended is
// looked at when the user sees something.
func (inv *invocation) chat(ctx context.Context, c *cobra.Command, o ChatOptions) error {
	if err := inv.load(c); err != nil {
		return err
	}
	if err := inv.ownState(ctx, o.Choose || o.Session != "" && o.Session != "new"); err != nil {
		return err
	}
	switch {
	case o.Choose && !(isTerminal(inv.Stdin) && isTerminal(inv.Stdout)):
		return usage("name the session: ralph chat --resume ID; ralph sessions lists them, --continue takes the newest",
			"--resume without an ID asks which session, and there is no terminal to ask on")
	case c.Flags().Changed("resume") && o.Session != "" && o.Session != "last":
		list, err := session.List(durable.Disk(), inv.stateDir())
		if err != nil {
			return broken("io", "see that .ralph/sessions is a directory that you can read", err, "chat")
		}
		info, err := findSession(list, o.Session, "") // a name that nothing has would begin a session
		if err != nil {
			return err
		}
		o.Session = info.ID
	case o.Session != "", o.Choose:
	case inv.cfg.Session != "":
		o.Session = inv.cfg.Session
	case inv.cfg.Run.New:
		o.Session = "new"
	case inv.cfg.Run.Continue:
		o.Session = "last"
	}
	err := inv.converse(ctx, o, nil)
	if err != nil {
		for _, w := range inv.cfg.Warnings { // nothing greeted
			inv.warning(w)
		}
	}
	return err
}

func (inv *invocation) demo(ctx context.Context, c *cobra.Command) error {
	if err := inv.load(c); err != nil {
		return err
	}
	if inv.Demo == nil {
		return broken("internal", "", nil, "this build has no demonstration")
	}
	code, err := inv.Demo(ctx, DemoOptions{
		Config: inv.cfg, RunID: inv.result.RunID, Stdin: inv.Stdin, Stdout: inv.Stdout, Stderr: inv.Stderr,
		Getenv: inv.Getenv, Environ: inv.Environ,
	})
	inv.code = code
	return err
}

// undo takes back the last n turns, or with redo brings them back. Its result is a
// result document like that of a run: what was put back is in files_changed, and what
// stays as it is in the warnings.
func (inv *invocation) undo(ctx context.Context, c *cobra.Command, n int, redo bool) error {
	if err := inv.load(c); err != nil {
		return err
	}
	if err := inv.ownState(ctx, true); err != nil {
		return err
	}
	p := inv.newProgress()
	defer p.close()
	co, err := inv.open(ctx, holderUndo, p)
	if err != nil {
		return err
	}
	defer inv.shut(co)
	step, did := co.Undo, "put back "
	if redo {
		step, did = co.Redo, "brought back "
	}
	var notes []string
	done, err := step(ctx, n, func(list []string) {
		notes = list
		for _, note := range list {
			inv.note("commits: " + note)
		}
	})
	r := inv.result
	r.Files = fileChanges(done.Files) // also those before an error
	if len(done.Kept) > 0 {
		inv.warning("kept as it is, because you changed it or may have: " + strings.Join(done.Kept, ", "))
	}
	if err != nil {
		return err
	}
	if len(done.Tasks) > 0 {
		notes = append(notes, "tasks "+did+strings.Join(done.Tasks, ", "))
	}
	r.Reason = strings.Join(append([]string{did + text.Count(len(done.Files), "file")}, notes...), "; ")
	r.end(result.Completed, 0, nil)
	if inv.form == outputText {
		var b strings.Builder
		for _, f := range r.Files {
			fmt.Fprintf(&b, "%s %s\n", f.Kind, f.Path)
		}
		for _, path := range done.Kept {
			fmt.Fprintf(&b, "kept %s\n", path)
		}
		for _, id := range done.Tasks {
			fmt.Fprintf(&b, "task %s\n", id)
		}
		content := strings.TrimSuffix(b.String(), "\n")
		if content == "" {
			content = "nothing to undo"
		}
		r.Result = &content
	}
	inv.code = inv.finish()
	return nil
}

// versionDocument is what `ralph version --json` prints.
type versionDocument struct {
	Type    string `json:"type"`
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (inv *invocation) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long:  "Print the version, the commit and the day of the build, and what it was built with and for.\nExample: ralph version --json",
		Args:  wordsOf(0, 0),
		RunE:  func(c *cobra.Command, _ []string) error { return inv.printVersion(c) },
	}
}

// printVersion prints the version, as text or as a document.
func (inv *invocation) printVersion(c *cobra.Command) error {
	if _, err := inv.flags(c); err != nil {
		return err
	}
	d := versionDocument{"version", inv.Version, inv.Commit, inv.Date, runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if inv.form != outputText {
		return inv.out.printJSON(d)
	}
	var extra []string
	if d.Commit != "" {
		extra = append(extra, "commit "+d.Commit)
	}
	if d.Date != "" {
		extra = append(extra, d.Date)
	}
	extra = append(extra, fmt.Sprintf("%s %s/%s", d.Go, d.OS, d.Arch))
	return inv.out.print(fmt.Sprintf("ralph %s (%s)\n", orWord(d.Version, "unknown"), strings.Join(extra, ", ")))
}
