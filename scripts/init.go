package scripts

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/project"
	"ralph/memory/text"
)

// initDocument is what `ralph init` prints.
type initDocument struct {
	Type     string        `json:"type"`
	Schema   string        `json:"schema"`
	Root     string        `json:"project_root"`
	DryRun   bool          `json:"dry_run"`
	Project  string        `json:"project"` // what it was found to be
	Check    *string       `json:"check"`   // the command that proves work here
	Parts    []memory.Part `json:"parts"`
	Created  []string      `json:"created"`
	Warnings []string      `json:"warnings"`
}

func (inv *invocation) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "make the files that Ralph keeps in a project",
		Long: "Say what Ralph keeps in a project and why, and make just that: the five Markdown files, the .ralph directory with its settings, and a line that has git ignore it. " +
			"What is there stays as it is. Nothing needs it: a chat or a task makes what it needs by itself. --dry-run only says it.\n" +
			"Example: ralph init --dry-run\nExample: ralph init",
		Args: wordsOf(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return inv.init(c) },
	}
}

func (inv *invocation) init(c *cobra.Command) error {
	if err := inv.load(c); err != nil {
		return err
	}
	inv.out.resultFile = "" // nothing is worked on
	parts, err := memory.Plan(durable.Disk(), inv.root)
	if err != nil {
		return broken("state", "ralph doctor looks at the state directory", err, "init")
	}
	d := initDocument{Type: "init", Schema: "ralph.init/1", Root: inv.root, DryRun: inv.cfg.DryRun, Parts: parts, Created: []string{}}
	p, err := project.Detect(c.Context(), inv.root)
	switch {
	case err == nil:
		d.Project, _, _ = strings.Cut(p.Summary(), "\n")
		command, _ := project.Script(p.Tests())
		d.Check = optional(command)
	case !errors.Is(err, fs.ErrNotExist):
		inv.warning("what kind of project this is cannot be told: " + err.Error())
	}
	var text strings.Builder
	if inv.form == outputText {
		inv.explainInit(&text, d)
		if err := inv.out.print(text.String()); err != nil {
			return err
		}
	}
	if !d.DryRun {
		for _, p := range parts {
			made, err := p.Make()
			if err != nil {
				return broken("io", "make room, or see to the permissions, and do it again: what is there stays", err, "init: %d of %d made", len(d.Created), len(parts))
			}
			if made {
				d.Created = append(d.Created, p.Path)
			}
		}
	}
	d.Warnings = orEmpty(inv.result.Warnings)
	if inv.form != outputText {
		return inv.out.printJSON(d)
	}
	switch {
	case d.DryRun:
		inv.note("nothing was made: --dry-run")
	case len(d.Created) == 0:
		inv.note("all of it is there already")
	default:
		inv.note(fmt.Sprintf("%d made; next: ralph chat, or ralph \"task\"", len(d.Created)))
	}
	return nil
}

// explainInit says what will be made, before it is.
func (inv *invocation) explainInit(b *strings.Builder, d initDocument) {
	fmt.Fprintf(b, "In %s (%s):\n", text.Visible(d.Root), strings.TrimSuffix(orWord(text.Visible(d.Project), "a directory"), "."))
	widest := 0
	for _, p := range d.Parts {
		widest = max(widest, width(p.Path))
	}
	widest = min(widest, 40)
	for _, p := range d.Parts {
		does := "create"
		if p.Exists {
			does = "keep  "
		}
		fmt.Fprintf(b, "  %s  %s%s  %s\n", does, text.Visible(p.Path), strings.Repeat(" ", max(0, widest-width(p.Path))), p.What)
	}
	if d.Check != nil {
		fmt.Fprintf(b, "  Work is proved by `%s` here, unless you say otherwise: ralph config set --project check=…\n", text.VisibleLine(*d.Check))
	}
}
