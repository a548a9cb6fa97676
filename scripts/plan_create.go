package scripts

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ralph/coordinator/plan/prd"
	"ralph/coordinator/prompt/work"
	"ralph/memory/durable"
	"ralph/memory/project"
	"ralph/memory/text"
)

// createPlan talks a PRD into being: the chat opens with an instruction, and what
// it wrote is read when it is over.
func (inv *invocation) createPlan(ctx context.Context, c *cobra.Command, f *planFlags, about string) error {
	if err := inv.load(c); err != nil {
		return err
	}
	name := f.out
	if name == "" {
		name = "prd.md"
	}
	if !isTerminal(inv.Stdin) || inv.form != outputText {
		return usage("run it on a terminal; or write "+text.VisibleLine(name)+" yourself (ralph plan convert --help says how) and convert it",
			"ralph plan create asks before it writes, and there is no terminal to ask on")
	}
	full := inv.fromHere(name)
	target := inv.fromRoot(full)
	if why := noTarget(full); why != "" {
		return usage(hintTarget, "-o %q: %s", name, why)
	}
	facts := work.CreateFacts{About: about, Target: target, Exists: exists(full), Check: inv.cfg.Check}
	if found, err := project.Detect(ctx, inv.root); err == nil {
		facts.Project = found.Summary()
		if facts.Check == "" {
			facts.Check, _ = project.Script(found.Tests())
		}
	}
	opening, err := work.Create(facts)
	if err != nil {
		return broken("internal", "", err, "make the opening instruction")
	}
	if err := inv.converse(ctx, ChatOptions{Session: "new", Opening: opening}, nil); err != nil {
		return err
	}
	return inv.created(full, text.VisibleLine(target))
}

// created reads what the conversation wrote, and says what a conversion would.
func (inv *invocation) created(path, shown string) error {
	data, err := durable.ReadFile(durable.Disk(), path, maxPRD)
	if err != nil {
		inv.note(fmt.Sprintf("no PRD was written to %s: %s", shown, cause(err)))
		return nil
	}
	doc, warnings := prd.Parse(data)
	for _, w := range append(warnings, doc.Check()...) {
		inv.warning(fmt.Sprintf("%s:%d: %s", shown, w.Line, w.Text))
	}
	if len(doc.Check()) > 0 {
		inv.note(shown + " cannot be made a plan yet: mend what is named above")
		return nil
	}
	inv.note(fmt.Sprintf("%s has %s; ralph plan convert %s --to json makes the plan, ralph run works it", shown, storiesText(len(doc.Stories)), shown))
	return nil
}
