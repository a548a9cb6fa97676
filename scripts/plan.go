package scripts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/plan"
	"ralph/coordinator/prompt/work"
	"ralph/coordinator/result"
)

const planHelp = "ralph plan --help"

// planFlags are the flags of ralph plan that are no settings.
type planFlags struct {
	to, out      string
	merge, force bool
}

func (inv *invocation) planCommand() *cobra.Command {
	words := []string{"show", "next", "check", "create", "convert", "graph", "prompt"}
	c := &cobra.Command{
		Use:   "plan show|next|check|create|convert|graph|prompt [--plan FILE | --tracker NAME] [--epic ID ...]",
		Short: "show, check and make the plan that ralph run works through",
		Long: "Show the plan of this project, or do something with it:\n" +
			"show — all tasks and how they stand (also without a word)\n" +
			"next — the task whose turn it is, and why\n" +
			"check — everything that is wrong with it, with file and line\n" +
			"graph — the order of work: what is ready, the critical path, what each task unblocks\n" +
			"prompt TASK — what the agent of a task would be told\n" +
			"create — talk a PRD into being\n" +
			"convert PRD --to json|markdown|beads — make a plan of a PRD in Markdown\n" +
			"The plan is found (.beads/, prd.json, RALPH-LOOP-PLAN.yaml, RALPH_TASKS.md), or named with --plan or --tracker. " +
			"Nothing here changes it but convert; each exits with 3 when the plan cannot be used.\n" +
			"Example: ralph plan next --epic EPIC-1",
		ValidArgs: words,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return inv.showPlan(c)
		}
		if best := nearest(args[0], words); best != "" {
			return usage(planHelp, "ralph plan: unknown %q; did you mean %q?", args[0], best)
		}
		return usage(planHelp+asTask(c, args), "ralph plan: unknown %q; it takes one of: %s", args[0], strings.Join(words, ", "))
	}
	inv.planKeys(c, "plan", "tracker", "epic", "select")
	c.AddCommand(inv.lookCommands()...)
	c.AddCommand(inv.makeCommands(&planFlags{})...)
	return c
}

// planKeys gives a command the flags of settings.
func (inv *invocation) planKeys(c *cobra.Command, names ...string) {
	for _, k := range inv.keys {
		if slices.Contains(names, k.Name) {
			c.Flags().Var(&flagValue{kind: k.Kind}, k.Flag, k.Help)
		}
	}
}

func trackers() []string { return []string{"markdown", "json", "yaml", "beads", "beads-bv"} }

// lookCommands only look.
func (inv *invocation) lookCommands() []*cobra.Command {
	show := &cobra.Command{
		Use:   "plan show [--plan FILE | --tracker NAME] [--epic ID ...] [--select EXPR]",
		Short: "show the tasks and how they stand",
		Long: "Show the tasks of the plan in its own order: how each stands, its priority, and what it waits for. --epic and --select show only those that a run would take.\n" +
			"Example: ralph plan show --select 'priority <= 1 && \"backend\" in labels'",
		Args: planWords(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return inv.showPlan(c) },
	}
	next := &cobra.Command{
		Use:   "plan next [--plan FILE | --tracker NAME] [--epic ID ...] [--select EXPR]",
		Short: "the task whose turn it is, and why",
		Long: "Show the task that a run would take first, why, and which come after it; when none can be worked, why not.\n" +
			"Example: ralph plan next --json",
		Args: planWords(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return inv.nextInPlan(c) },
	}
	check := &cobra.Command{
		Use:   "plan check [--plan FILE | --tracker NAME] [--epic ID ...] [--select EXPR] [--prompt FILE]",
		Short: "print everything that is wrong with the plan",
		Long: "Check the plan as ralph run does before anything runs, and print every fault with file and line: unknown dependencies, cycles, ids that are given twice, missing fields, conditions that do not compile. " +
			"It exits with 0 when the plan can be worked and with 3 when it cannot; warnings alone do not make it fail.\n" +
			"Example: ralph plan check --plan prd.json",
		Args: planWords(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return inv.checkPlan(c) },
	}
	order := &cobra.Command{
		Use:   "plan graph [--plan FILE | --tracker NAME] [--epic ID ...] [--select EXPR]",
		Short: "the order of work and why",
		Long: "Show what is ready, what can be done side by side step by step, the critical path, and the weight of each task: its PageRank, what it unblocks at once and what waits for it in all.\n" +
			"Example: ralph plan graph --json",
		Args: planWords(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return inv.graphPlan(c) },
	}
	var about []string
	for _, v := range work.Variables() {
		about = append(about, v.Name+" — "+v.About)
	}
	preview := &cobra.Command{
		Use:   "plan prompt TASK [--prompt FILE] [--plan FILE | --tracker NAME]",
		Short: "show what the agent of a task would be told",
		Long: "Show what the agent of a task would be told if its turn were now. --prompt names a template of one's own, in the language of Go's text/template; `ralph plan prompt --default` prints the one that Ralph brings. " +
			"An unknown variable is an error with its line, also where the template would not come by. Functions: fence NAME TEXT puts text into a fence that it cannot close, line TEXT makes it one line, join LIST SEPARATOR.\n" +
			"Variables:\n" + strings.Join(about, "\n") + "\n" +
			"Example: ralph plan prompt US-003 --prompt my.tmpl",
		Args: planWords(0, 1, "the id of a task"),
	}
	var ours bool
	preview.Flags().BoolVar(&ours, "default", false, "print the template that Ralph brings")
	preview.RunE = func(c *cobra.Command, args []string) error {
		if ours {
			return inv.out.print(work.Default())
		}
		if len(args) == 0 {
			return usage("ralph plan show lists the tasks", "ralph plan prompt needs the id of a task")
		}
		return inv.promptOf(c, args[0])
	}
	list := []*cobra.Command{show, next, check, order, preview}
	for _, c := range list {
		inv.planKeys(c, "plan", "tracker", "epic", "select")
	}
	inv.planKeys(check, "prompt")
	inv.planKeys(preview, "prompt", "agent")
	return inPlan(list)
}

// inPlan makes commands those of ralph plan, which their usage begins with.
func inPlan(list []*cobra.Command) []*cobra.Command {
	for _, c := range list {
		c.Use = strings.TrimPrefix(c.Use, "plan ")
	}
	return list
}

// makeCommands make plans.
func (inv *invocation) makeCommands(f *planFlags) []*cobra.Command {
	convert := &cobra.Command{
		Use:   "plan convert PRD --to json|markdown|beads [-o FILE] [--merge | --force]",
		Short: "make a plan of a PRD in Markdown",
		Long: "Make a plan of a PRD in Markdown: --to json writes prd.json, markdown RALPH_TASKS.md, beads makes the issues in the database with bd (or, with -o, a script that does). -o FILE writes elsewhere, -o - to standard output.\n" +
			"A story is a heading of level 2 to 4 with an id (US-001, EPIC-1, US-2.1, Feature 1.2); below it its description, acceptance criteria as a list, Priority, Depends on. Ticked boxes are done. Every line that is left out is told with its number.\n" +
			"What is there already is not touched: --merge joins the stories to it by id, --force replaces it, --dry-run only shows. The same PRD always gives the same plan.\n" +
			"Example: ralph plan convert prd.md --to json --merge",
		Args: planWords(1, 1, "the PRD, a file in Markdown (- reads standard input)"),
		RunE: func(c *cobra.Command, args []string) error { return inv.convertPlan(c, f, args[0]) },
	}
	convert.Flags().StringVar(&f.to, "to", "", "write it as `FORM`: json, markdown or beads")
	convert.Flags().StringVarP(&f.out, "out", "o", "", "write to `FILE`, - is standard output")
	convert.Flags().BoolVar(&f.merge, "merge", false, "join the stories to what is there, by id")
	convert.Flags().BoolVar(&f.force, "force", false, "replace what is there")
	create := &cobra.Command{
		Use:   `plan create ["WHAT"] [-o FILE]`,
		Short: "talk a PRD into being",
		Long: "Talk a PRD into being: Ralph asks what matters first, then writes a PRD in Markdown with stories that one agent can do in one go each, and changes it until you agree. -o FILE is where it goes (prd.md). It needs a terminal.\n" +
			"Example: ralph plan create \"a shop for hats\"",
		RunE: func(c *cobra.Command, args []string) error {
			return inv.createPlan(c.Context(), c, f, strings.Join(args, " "))
		},
	}
	create.Flags().StringVarP(&f.out, "out", "o", "", "write the PRD to `FILE`")
	return inPlan([]*cobra.Command{convert, create})
}

// planWords checks how many words a command over plans takes.
func planWords(least, most int, takes string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		help := "ralph plan " + c.Name() + " --help"
		switch {
		case len(args) < least:
			return usage(help, "ralph plan %s needs %s", c.Name(), takes)
		case len(args) > most && most == 0:
			return usage(help, "ralph plan %s takes no %q", c.Name(), args[0])
		case len(args) > most:
			return usage(help, "ralph plan %s: one word too many: %q", c.Name(), args[most])
		}
		return nil
	}
}

// planFault is the error of a plan that cannot be used: exit 3.
func planFault(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return err
	}
	hint := "ralph plan check shows what is wrong with it"
	var p *plan.Problems
	var hinted interface{ Hinted() string }
	switch {
	case errors.As(err, &p) && p.Hint != "":
		hint = p.Hint
	case errors.As(err, &hinted) && hinted.Hinted() != "":
		hint = hinted.Hinted()
	case errors.Is(err, plan.ErrNoPlan):
		hint = "ralph plan create makes one, --plan FILE names one"
	case errors.Is(err, plan.ErrEmpty):
		hint = "write its tasks down, or make them of a PRD: ralph plan convert"
	}
	return &fault{status: result.ConfigError, kind: "plan", text: err.Error(), hint: hint}
}

// promptFault is the error of a template that cannot be used.
func promptFault(err error) error {
	var t *work.TemplateError
	if !errors.As(err, &t) {
		return broken("internal", "", err, "make the prompt")
	}
	return &fault{status: result.ConfigError, kind: "prompt", text: t.Error(), hint: t.Hint}
}

// problemLines are problems a line each.
func problemLines(list []plan.Problem) []string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprint(p))
	}
	return out
}
