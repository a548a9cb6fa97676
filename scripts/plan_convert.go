package scripts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"ralph/coordinator/plan"
	"ralph/coordinator/plan/beads"
	"ralph/coordinator/plan/prd"
	"ralph/memory/durable"
	"ralph/memory/text"
)

const (
	maxPRD  = 16 << 20 // bytes of a document
	maxPlan = 64 << 20 // bytes of a plan that is merged into

	toJSON, toMarkdown, toBeads = "json", "markdown", "beads"

	convertHelp = "ralph plan convert --help"
)

// conversion is a PRD on its way to a plan.
type conversion struct {
	inv      *invocation
	flags    *planFlags
	source   string // as a message names it
	doc      prd.Document
	warnings []plan.Problem
	out      string // the file, absolute; "" for standard output and for the database
	shown    string // how messages name it
	content  []byte
	merged   *prd.Merged
	issues   []madeIssue
	written  bool
}

func (inv *invocation) convertPlan(c *cobra.Command, f *planFlags, source string) error {
	if err := inv.load(c); err != nil {
		return err
	}
	inv.out.resultFile = ""
	x := &conversion{inv: inv, flags: f}
	if err := x.check(); err != nil {
		return err
	}
	if err := x.read(source); err != nil {
		return err
	}
	if err := x.make(c.Context(), source); err != nil {
		return err
	}
	return x.print()
}

// check refuses flags that mean nothing together.
func (x *conversion) check() error {
	f := x.flags
	switch f.to {
	case toJSON, toMarkdown, toBeads:
	case "":
		return usage(convertHelp, "ralph plan convert needs --to: json, markdown or beads")
	default:
		if best := nearest(f.to, []string{toJSON, toMarkdown, toBeads}); best != "" {
			return usage(convertHelp, "--to %q: did you mean %q?", f.to, best)
		}
		return usage(convertHelp, "--to %q: it takes json, markdown or beads", f.to)
	}
	switch {
	case f.merge && f.force:
		return usage(convertHelp, "--merge and --force exclude each other")
	case f.out == "-" && (f.merge || f.force):
		return usage(convertHelp, "--merge and --force are about a file, and standard output is none")
	case f.to == toBeads && f.out == "" && f.force:
		return usage("--merge makes the issues that are missing", "--force would replace issues of a database: close or delete them with bd")
	case f.to == toBeads && f.out != "" && f.merge:
		return usage("without -o the issues are made in the database", "a script cannot be merged into")
	}
	return nil
}

// read reads the document and refuses one that gives no plan.
func (x *conversion) read(source string) error {
	data, err := x.bytes(source)
	if err != nil {
		return err
	}
	doc, warnings := prd.Parse(data)
	if doc.Name == "" {
		doc.Name = strings.TrimSuffix(filepath.Base(x.source), filepath.Ext(x.source))
	}
	x.doc = doc
	x.warnings = make([]plan.Problem, 0, len(warnings))
	for _, w := range warnings {
		x.warnings = append(x.warnings, plan.Problem{File: x.source, Line: w.Line, Text: w.Text})
		x.inv.showWarning(x.warnings[len(x.warnings)-1].String())
	}
	faults := doc.Check()
	if len(faults) == 0 {
		return nil
	}
	p := &plan.Problems{Op: "convert", Path: x.source, Hint: "mend the document and convert it again: nothing was written"}
	for _, w := range faults {
		p.List = append(p.List, plan.Problem{File: x.source, Line: w.Line, Text: w.Text})
	}
	return planFault(p)
}

func (x *conversion) bytes(source string) ([]byte, error) {
	x.source = text.VisibleLine(source)
	if source == "-" {
		x.source = "standard input"
		if x.inv.Stdin == nil || isTerminal(x.inv.Stdin) {
			return nil, usage("ralph plan convert prd.md --to json", "ralph plan convert -: nothing is piped into standard input")
		}
		data, err := io.ReadAll(io.LimitReader(x.inv.Stdin, maxPRD+1))
		if err != nil {
			return nil, broken("io", "", err, "read standard input")
		}
		return data, x.text(data)
	}
	data, err := durable.ReadFile(durable.Disk(), x.inv.fromHere(source), maxPRD)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("name a file in Markdown; ralph plan create makes one", "the PRD %q does not exist", source)
	case errors.Is(err, durable.ErrTooLarge):
		return nil, planFault(fmt.Errorf("convert %q: it has more than %s", source, sizeText(maxPRD)))
	case err != nil:
		return nil, planFault(fmt.Errorf("convert %q: %s", source, cause(err)))
	}
	return data, x.text(data)
}

// text refuses what is no text.
func (x *conversion) text(data []byte) error {
	switch {
	case len(data) > maxPRD:
		return planFault(fmt.Errorf("convert %q: it has more than %s", x.source, sizeText(maxPRD)))
	case bytes.IndexByte(data, 0) >= 0:
		return planFault(fmt.Errorf("convert %q: it is no text", x.source))
	}
	return nil
}

// make makes the plan, and writes it unless it is only to be shown.
func (x *conversion) make(ctx context.Context, source string) error {
	if x.flags.to == toBeads && x.flags.out == "" {
		return x.makeIssues(ctx)
	}
	var before []byte
	if x.flags.out != "-" {
		x.aim()
		if source != "-" && x.out == x.inv.fromHere(source) {
			return usage("choose another file with -o", "the plan would replace the PRD %q", source)
		}
		var err error
		if before, err = x.present(); err != nil {
			return err
		}
	}
	if err := x.render(before); err != nil {
		return err
	}
	if err := x.usable(ctx); err != nil {
		return err
	}
	if x.out == "" || x.inv.cfg.DryRun || before != nil && bytes.Equal(before, x.content) {
		return nil
	}
	if err := durable.Replace(durable.Disk(), x.out, x.content, 0o644); err != nil {
		return broken("io", hintTarget, nil, "write %q: %s", x.shown, cause(err))
	}
	x.written = true
	return nil
}

// aim finds the file that is to be written.
func (x *conversion) aim() {
	name := x.flags.out
	switch {
	case name != "":
		x.out = x.inv.fromHere(name)
	case x.flags.to == toMarkdown:
		x.out = filepath.Join(x.inv.root, "RALPH_TASKS.md")
	default:
		x.out = filepath.Join(x.inv.root, "prd.json")
	}
	x.shown = text.VisibleLine(x.inv.fromRoot(x.out))
}

// present reads what is at the target; nil when nothing is.
func (x *conversion) present() ([]byte, error) {
	data, err := durable.ReadFile(durable.Disk(), x.out, maxPlan)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if why := noTarget(x.out); why != "" {
			return nil, usage(hintTarget, "-o %q: %s", x.shown, why)
		}
		return nil, nil
	case err != nil:
		return nil, usage(hintTarget, "-o %q: %s", x.shown, cause(err))
	case !x.flags.merge && !x.flags.force:
		return nil, usage("--merge joins the stories to it by id, --force replaces it, -o FILE writes elsewhere", "%s is there already", x.shown)
	case data == nil:
		data = []byte{}
	}
	return data, nil
}

// render makes the text of the plan.
func (x *conversion) render(before []byte) (err error) {
	var m prd.Merged
	merge := x.flags.merge && before != nil
	switch {
	case x.flags.to == toBeads:
		x.content = []byte(prd.Script(x.doc.Issues()))
	case x.flags.to == toJSON && merge:
		x.content, m, err = x.doc.MergeJSON(before)
	case x.flags.to == toJSON:
		x.content, err = x.doc.JSON()
	case merge:
		x.content, m, err = x.doc.MergeTasks(before)
	default:
		x.content, err = x.doc.Tasks()
	}
	if err != nil {
		return planFault(fmt.Errorf("convert %q to %q: %w", x.source, x.shown, err))
	}
	if merge {
		m.Added, m.Changed, m.Same, m.Kept = orEmpty(m.Added), orEmpty(m.Changed), orEmpty(m.Same), orEmpty(m.Kept)
		x.merged = &m
	}
	return nil
}

// usable reads the plan back as a run would: one that a run refuses is not
// written.
func (x *conversion) usable(ctx context.Context) error {
	name, tracker := "prd.json", toJSON
	switch x.flags.to {
	case toBeads:
		return nil
	case toMarkdown:
		name, tracker = "RALPH_TASKS.md", toMarkdown
	}
	disk := afero.NewMemMapFs()
	err := afero.WriteFile(disk, "/plan/"+name, x.content, 0o644)
	if err != nil {
		return broken("internal", "", err, "keep the plan")
	}
	t, err := plan.Open(ctx, plan.Options{Root: "/plan", FS: disk, Tracker: tracker, Path: name})
	if err == nil {
		_, err = t.Load(ctx)
	}
	var p *plan.Problems
	if !errors.As(err, &p) {
		return err
	}
	moved := *p
	moved.Op, moved.Path, moved.List = "convert to", x.shown, nil
	moved.Hint = "nothing was written; these are the lines of what would have been"
	for _, q := range p.List {
		q.File = x.shown
		moved.List = append(moved.List, q)
	}
	return planFault(&moved)
}

// makeIssues makes the issues in the database.
func (x *conversion) makeIssues(ctx context.Context) error {
	o := x.inv.planOptions()
	client, err := beads.Open(beads.Options{Root: x.inv.root, Path: o.Path, Proc: o.Proc, Environ: x.inv.Environ, Warn: x.inv.warning})
	if err != nil {
		return beadsFault(err)
	}
	x.shown = text.VisibleLine(x.inv.fromRoot(client.Dir()))
	issues := x.doc.Issues()
	if x.inv.cfg.DryRun {
		x.content = []byte(prd.Script(issues))
		return nil
	}
	made, err := prd.Maker{Client: client, Proc: o.Proc, Environ: x.inv.Environ, Actor: "ralph"}.Make(ctx, issues, x.flags.merge)
	for _, m := range made {
		state := "made"
		if m.There {
			state = "there"
		}
		x.issues = append(x.issues, madeIssue{Story: m.Ref, ID: m.ID, State: state})
		x.written = x.written || !m.There
	}
	if err != nil && len(x.issues) > 0 {
		x.inv.note(strings.TrimSuffix(x.made(), "\n"))
	}
	if errors.Is(err, prd.ErrThere) {
		return usage("--merge makes those that are missing", "%s", err)
	}
	return beadsFault(err)
}

// beadsFault is the error of bd.
func beadsFault(err error) error {
	if err == nil {
		return nil
	}
	hint := "bd must be installed and its database there (bd init); -o FILE writes a script that makes the issues"
	var e *beads.Error
	if errors.As(err, &e) && e.Hint != "" {
		hint = e.Hint
	}
	if errors.Is(err, beads.ErrNoData) || errors.Is(err, beads.ErrMissing) {
		return planFault(&plan.Problems{Op: "convert", Err: err, Hint: hint})
	}
	return broken("beads", hint, nil, "%s", err)
}

// print says what was made.
func (x *conversion) print() error {
	inv, dry := x.inv, x.inv.cfg.DryRun
	done := 0
	for _, s := range x.doc.Stories {
		if s.Done {
			done++
		}
	}
	if inv.form != outputText {
		d := inv.planDocument("convert", nil)
		d.Warnings = emptyList(x.warnings)
		v := &planConversion{Source: x.source, To: x.flags.to, Stories: len(x.doc.Stories), Done: done, Epics: len(x.doc.Epics), Merged: x.merged, Issues: x.issues,
			Written: x.written, Output: optional(x.shown)}
		if x.flags.out == "-" || dry {
			v.Content = optional(string(x.content))
		}
		d.Name, d.Description, d.Branch, d.Conversion = x.doc.Name, x.doc.Description, x.doc.Branch, v
		return inv.out.printJSON(d)
	}
	if x.flags.out == "-" {
		body := string(x.content)
		if inv.out.terminal {
			body = text.Visible(body)
		}
		return inv.out.print(body)
	}
	if x.issues != nil {
		return inv.out.print(x.made())
	}
	s := inv.newSheet()
	parts := []string{storiesText(len(x.doc.Stories))}
	if done > 0 {
		parts = append(parts, fmt.Sprintf("%d done already", done))
	}
	if n := len(x.doc.Epics); n > 0 {
		parts = append(parts, text.Count(n, "epic"))
	}
	head := would(dry, "write", "wrote") + " " + x.shown
	if !dry && !x.written {
		head = x.shown + " has all of it already"
	}
	s.line(head + ": " + strings.Join(parts, ", "))
	if m := x.merged; m != nil {
		for _, l := range []struct {
			word string
			list []string
		}{{"added", m.Added}, {"changed", m.Changed}, {"the same", m.Same}, {"only there", m.Kept}} {
			if len(l.list) > 0 {
				s.prose(plainPaint, l.word+": "+ids(l.list, 30), 2, 4)
			}
		}
	}
	return inv.out.print(s.b.String())
}

func storiesText(n int) string {
	if n == 1 {
		return "1 story"
	}
	return fmt.Sprintf("%d stories", n)
}

// made lists the issues, a line each.
func (x *conversion) made() string {
	s := x.inv.newSheet()
	for _, i := range x.issues {
		s.line(fmt.Sprintf("%s  %s  %s", pad(i.State, 5), text.VisibleLine(i.ID), text.VisibleLine(i.Story)))
	}
	return s.b.String()
}

// exists says that something is at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
