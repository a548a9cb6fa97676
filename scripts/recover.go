package scripts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/memory"
	"ralph/memory/text"
	"ralph/workers/exec"
)

// recoverDocument is what `ralph recover --json` prints.
type recoverDocument struct {
	Type     string        `json:"type"`
	Schema   string        `json:"schema"`
	OK       bool          `json:"ok"`
	DryRun   bool          `json:"dry_run"`
	Root     string        `json:"project_root"`
	Files    []recoverFile `json:"files"`
	Done     []string      `json:"done"`
	Problems []string      `json:"problems"`
}

type recoverFile struct {
	Name        string          `json:"name"`
	State       string          `json:"state"`
	Restored    *string         `json:"restored"`
	Quarantined *string         `json:"quarantined"`
	Error       *string         `json:"error"`
	Sources     []recoverSource `json:"sources"`
}

type recoverSource struct {
	Kind  string     `json:"kind"`
	Name  string     `json:"name"`
	Time  *time.Time `json:"time"`
	Bytes int64      `json:"bytes"`
	Tasks int        `json:"tasks"`
	Open  int        `json:"open"`
}

// holderRecover opens the project only to put its state in order.
const holderRecover = "recover"

func sourceKinds() []string { return []string{"file", "backup", "log", "git"} }

func recoverable() []string {
	return []string{memory.GoalsFile, memory.TasksFile, memory.TodoFile, memory.ProgressFile, memory.AgentFile}
}

func (inv *invocation) recoverCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "recover [FILE…] [--from file|backup|log|git]",
		Short: "show how the state files stand, and bring back what is lost or corrupt",
		Long: "Show how the state files stand and where else each is to be had. What is lost or corrupt is brought back from the newest valid of " +
			"file, backup, log and git, and what a crash left is put in order. --from puts another source in place of the named files; what " +
			"stood there goes to .ralph/quarantine and is never lost. --dry-run only looks, and exits with 1 when something is not well.\n" +
			"Exits with 0 when all is well now, 1 when something could not be mended, 8 when another Ralph holds the project.\n" +
			"Example: ralph recover --dry-run\nExample: ralph recover RALPH_TASKS.md --from backup",
		ValidArgs: recoverable(),
	}
	c.Flags().StringVar(&from, "from", "", "put this `SOURCE` in place: file, backup, log or git")
	c.RunE = func(c *cobra.Command, args []string) error { return inv.recover(c.Context(), c, args, from) }
	return c
}

func (inv *invocation) recover(ctx context.Context, c *cobra.Command, args []string, from string) error {
	if err := inv.load(c); err != nil {
		return err
	}
	inv.out.resultFile = "" // nothing was worked on
	if c.Flags().Changed("from") && !slices.Contains(sourceKinds(), from) {
		return usage("ralph recover lists what there is", "--from %q: it takes one of: %s", from, strings.Join(sourceKinds(), ", "))
	}
	names, err := inv.stateNames(args)
	if err != nil {
		return err
	}
	if !inv.cfg.DryRun {
		if err := inv.ownState(ctx, true); err != nil {
			return err
		}
	}
	runner := exec.New(exec.Options{Project: inv.root})
	files, done, err := coordinator.Recover(ctx, coordinator.Options{
		Root: inv.root, Config: inv.cfg, Proc: runner, RunID: inv.result.RunID, Holder: holderRecover, Now: inv.Now, Getenv: inv.Getenv,
	}, names, from)
	cerr := runner.Close(context.WithoutCancel(ctx))
	if errors.Is(err, memory.ErrLocked) || ctx.Err() != nil || err != nil && files == nil {
		return err
	}
	if len(names) > 0 {
		files = slices.DeleteFunc(files, func(f memory.FileState) bool { return !slices.Contains(names, f.Name) })
	}
	d := inv.recoverDocument(files, done, errors.Join(err, cerr))
	if inv.form != outputText {
		err = inv.out.printJSON(d)
	} else {
		err = inv.out.print(recoverText(d, inv.out.terminal))
	}
	if inv.code = 0; !d.OK {
		inv.code = 1
	}
	return err
}

// stateNames are the state files that the words name: their names, in any case,
// with a path or without.
func (inv *invocation) stateNames(args []string) ([]string, error) {
	var names []string
	for _, a := range args {
		i := slices.IndexFunc(recoverable(), func(n string) bool { return strings.EqualFold(n, filepath.Base(a)) })
		if i < 0 {
			hint := "the state files are " + strings.Join(recoverable(), ", ")
			if best := nearest(filepath.Base(a), recoverable()); best != "" {
				hint = "did you mean " + best + "?"
			}
			return nil, usage(hint, "ralph recover: %q is no state file", a)
		}
		names = append(names, recoverable()[i])
	}
	return names, nil
}

func (inv *invocation) recoverDocument(files []memory.FileState, done []string, err error) recoverDocument {
	d := recoverDocument{Type: "recover", Schema: "ralph.recover/1", OK: err == nil, DryRun: inv.cfg.DryRun, Root: inv.root,
		Files: []recoverFile{}, Done: orEmpty(done), Problems: []string{}}
	if err != nil {
		d.Problems = strings.Split(err.Error(), "\n")
	}
	for _, f := range files {
		x := recoverFile{Name: f.Name, State: f.State, Restored: optional(f.Restored), Quarantined: optional(f.Quarantined), Sources: []recoverSource{}}
		if f.Err != nil {
			x.Error = optional(f.Err.Error())
		}
		for _, s := range f.Sources {
			y := recoverSource{Kind: s.Kind, Name: s.Name, Bytes: s.Bytes, Tasks: s.Tasks, Open: s.Open}
			if !s.Time.IsZero() {
				t := s.Time.UTC()
				y.Time = &t
			}
			x.Sources = append(x.Sources, y)
		}
		d.OK = d.OK && (f.State == "ok" || f.State == "absent")
		d.Files = append(d.Files, x)
	}
	return d
}

func recoverText(d recoverDocument, terminal bool) string {
	shown := func(content string) string {
		if terminal {
			return text.VisibleLine(content)
		}
		return content
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tSTATE\tSOURCE\tCHANGED\tSIZE\tTASKS")
	for _, f := range d.Files {
		name, state := f.Name, f.State
		if f.Restored != nil {
			state += ", from " + *f.Restored
		}
		if len(f.Sources) == 0 {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\n", name, state)
		}
		for _, s := range f.Sources {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", name, state, s.Kind, clock(s.Time), sizeText(s.Bytes), taskCount(f.Name, s))
			name, state = "", ""
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	for _, f := range d.Files {
		if f.Error != nil {
			fmt.Fprintf(&b, "%s: %s\n", f.Name, shown(*f.Error))
		}
		if f.Quarantined != nil {
			fmt.Fprintf(&b, "%s: what stood there is in %s\n", f.Name, shown(*f.Quarantined))
		}
	}
	for _, content := range d.Done {
		fmt.Fprintf(&b, "%s\n", shown(content))
	}
	for _, content := range d.Problems {
		fmt.Fprintf(&b, "problem: %s\n", shown(content))
	}
	return b.String()
}

// clock is a time for a table, in the user's zone.
func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func taskCount(file string, s recoverSource) string {
	if file != memory.TasksFile {
		return "-"
	}
	return fmt.Sprintf("%d (%d open)", s.Tasks, s.Open)
}
