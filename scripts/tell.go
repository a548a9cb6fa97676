package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/scripts/report"
	"ralph/scripts/report/insights"
)

// tellFlags are the flags of the commands that tell of sessions.
type tellFlags struct {
	html          string
	rules, append bool
	sessions      []string
}

// pageFile is the name of a report's page in a session's directory.
const pageFile = "final-report.html"

// hereToo is --html without a file.
const hereToo = "\x00"

const tellWhich = "Without SESSION the newest; SESSION is a number, a name, a unique beginning of one, or the path of a session's folder. --session SESSION is the same."

// tellCommands are report, analyze, insights and compare.
func (inv *invocation) tellCommands() []*cobra.Command {
	return []*cobra.Command{inv.reportCommand(), inv.analyzeCommand(), inv.insightsCommand(), inv.compareCommand()}
}

func (inv *invocation) reportCommand() *cobra.Command {
	f := &tellFlags{}
	c := &cobra.Command{
		Use:   "report [SESSION] [--html[=FILE]]",
		Short: "write the report of a session, as text or as a page",
		Long: "Write final-report.md of a session from what its files say, and print it. " + tellWhich + " A report there that somebody else wrote or edited is moved to quarantine first; " +
			"of a session that goes on, and of a folder outside of this project, the report is only printed.\n" +
			"--html writes one page with the timeline of tasks, agents and interrupts, tokens, cost, errors, decisions and findings: it needs no network and no scripts, and can be printed or mailed. " +
			"It goes into the session's directory as " + pageFile + ", or to FILE (- is standard output).\n" +
			"Example: ralph report\nExample: ralph report 7 --html=/tmp/run.html\nExample: ralph report 7 --json | jq .differences",
		Args: wordsOf(0, 1),
	}
	c.Flags().StringVar(&f.html, "html", "", "write the page, to `FILE` or beside the report")
	c.Flags().Lookup("html").NoOptDefVal = hereToo
	c.RunE = func(c *cobra.Command, args []string) error { return inv.report(c, args, f) }
	return c
}

func (inv *invocation) analyzeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "analyze [SESSION]",
		Short: "figures of a session: durations, tokens, errors, confidence",
		Long: "Compute from a session's files: durations (median, p95, slowest), success by kind of task, retries, time for the model, the tools and the human, tokens and cost, confidence against outcome, interrupts and how soon they took effect. " +
			tellWhich + " What the files do not say is told as unknown, never as 0.\n" +
			"Example: ralph analyze\nExample: ralph analyze 7 --json | jq .tokens",
		Args: wordsOf(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			s, _, err := inv.told(c, args, report.Wants{})
			if err != nil {
				return err
			}
			if inv.form != outputText {
				return inv.out.printJSON(report.NewAnalyzeDocument(s, orEmpty(inv.result.Warnings)))
			}
			return inv.printPage(report.AnalysisText(s))
		},
	}
}

func (inv *invocation) insightsCommand() *cobra.Command {
	f := &tellFlags{}
	c := &cobra.Command{
		Use:   "insights [SESSION] [--append] [--rules]",
		Short: "what went wrong in a session by named rules, and what helps",
		Long: "Look for known trouble in a session: errors that repeat, retry storms, flaky checks, successes that nobody was confident of, contexts that are too long, tasks that are too big, waits for a human, slow stops. " +
			"Each finding names its rule with the threshold, the events that show it (ralph logs --where 'id == \"e17\"' shows one) and a suggestion. " + tellWhich + "\n" +
			"--append adds what was found to AGENT.md, where the next sessions read it (--dry-run only says what); what stands there already is not added twice. --rules prints the rules.\n" +
			"Exits with 0 whatever is found.\nExample: ralph insights\nExample: ralph insights 7 --append\nExample: ralph insights 7 --json | jq -r '.findings[].rule'",
		Args: wordsOf(0, 1),
	}
	c.Flags().BoolVar(&f.append, "append", false, "add the findings to AGENT.md")
	c.Flags().BoolVar(&f.rules, "rules", false, "print the rules and their thresholds")
	c.RunE = func(c *cobra.Command, args []string) error { return inv.insights(c, args, f) }
	return c
}

func (inv *invocation) compareCommand() *cobra.Command {
	f := &tellFlags{}
	c := &cobra.Command{
		Use:   "compare SESSION SESSION...",
		Short: "sessions side by side, with what changed",
		Long: "Show sessions side by side: figures with the difference to the first, settings that differ, and tasks that came out otherwise. " +
			"A SESSION is a number, a name, a unique beginning of one, or the path of a session's folder; --sessions A,B is another spelling.\n" +
			"Example: ralph compare 6 7\nExample: ralph compare --sessions 5,6,7 --json",
		RunE: func(c *cobra.Command, args []string) error { return inv.compare(c, args, f) },
	}
	c.Flags().StringSliceVar(&f.sessions, "sessions", nil, "the `SESSIONS`, separated by commas")
	return c
}

// leanBytes is from where on memory is collected eagerly while sessions are read:
// a log of a million events is to be answered within 100 MiB.
const leanBytes = 74 << 20

// told reads the session that a command is about.
func (inv *invocation) told(c *cobra.Command, args []string, wants report.Wants) (*report.Session, watched, error) {
	if err := inv.load(c); err != nil {
		return nil, watched{}, err
	}
	inv.out.resultFile = "" // nothing is worked on
	which, err := inv.sessionNamed(c, args)
	if err != nil {
		return nil, watched{}, err
	}
	w, err := inv.watch(which)
	if err != nil {
		return nil, w, err
	}
	w.foreign = inv.markForeign()
	s, err := inv.toldOf(c.Context(), w, wants)
	return s, w, err
}

func (inv *invocation) toldOf(ctx context.Context, w watched, wants report.Wants) (*report.Session, error) {
	s, err := report.Read(ctx, durable.Disk(), w.dir, wants)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, broken("io", "ralph doctor looks at the state directory", err, "read %s", w.title())
	}
	if len(s.Data.Files) == 0 && s.Analysis.Session.Records == 0 {
		return nil, usage("ralph sessions list shows the sessions", "%s holds no file of a session", w.dir)
	}
	if w.root != "" && w.Status != "" { // a session whose Ralph died reads as interrupted, whatever its metadata says
		s.Analysis.Session.Status = w.Standing()
	}
	for _, p := range s.Data.Problems {
		inv.warning(fmt.Sprintf("%s: %s cannot be read whole: %v", w.title(), p.File, p.Err))
	}
	return s, nil
}

// printPage prints Markdown, on a terminal as it is meant to look.
func (inv *invocation) printPage(markdown string) error {
	if inv.out.terminal && inv.Render != nil && !inv.cfg.Plain {
		markdown = inv.Render(plainLinks(markdown), inv.out.columns(), inv.cfg.Theme, inv.Getenv)
	}
	return inv.out.print(markdown)
}

// localLink is a link to a file of the session.
var localLink = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[([\w.-]+)\]\((?:iterations/[\w./-]*|[\w.-]+)\)`)
})

// plainLinks leaves of a link to a file of the session what it says: on a terminal
// nobody can follow it, and its target makes tables wide.
func plainLinks(markdown string) string { return localLink().ReplaceAllString(markdown, "$1") }

func (inv *invocation) report(c *cobra.Command, args []string, f *tellFlags) error {
	page := c.Flags().Changed("html")
	s, w, err := inv.told(c, args, report.Wants{Findings: true, Timeline: page})
	if err != nil {
		return err
	}
	fsys := durable.Disk()
	o := folder.ReportOptions{Lessons: s.Lessons(), Redact: text.NewRedactor(inv.cfg.Secrets()).String}
	content := o.Of(s.Data)
	own := w.root == inv.root && w.root != "" && !w.foreign
	written, html := "", ""
	switch {
	case w.Live:
		inv.note(w.title() + " goes on: its Ralph writes the report when it ends")
	case w.foreign:
		inv.note("not written: the state is not yours; --html FILE writes a page elsewhere")
	case !own:
		inv.note("not written: " + w.dir + " is no session of this project")
	default:
		o.Quarantine = filepath.Join(inv.stateDir(), "quarantine")
		if err := o.Put(fsys, w.dir, content); err != nil {
			inv.warning("the report could not be written: " + err.Error())
			inv.code = 1
		} else {
			written = filepath.Join(w.dir, "final-report.md")
		}
	}
	if page {
		if html, err = inv.writePage(s, w, f.html, own); err != nil {
			return err
		}
	}
	if html == "-" {
		return inv.out.trouble()
	}
	if inv.form != outputText {
		return inv.out.printJSON(report.NewReportDocument(s, string(content), written, html, orEmpty(inv.result.Warnings)))
	}
	if written != "" {
		inv.note("written to " + inv.shown(written))
	}
	if html != "" {
		return inv.out.print(html + "\n")
	}
	return inv.printPage(string(content))
}

// shown is a path as a person names it from here.
func (inv *invocation) shown(path string) string {
	if rel, err := filepath.Rel(inv.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

// writePage writes the page to where it was asked for.
func (inv *invocation) writePage(s *report.Session, w watched, to string, own bool) (string, error) {
	if to == "-" {
		if inv.form != outputText {
			return "", usage("name a file: --html=report.html", "--html=- and --output %s both want standard output", inv.form)
		}
		return to, inv.drawPage(inv.out, s)
	}
	path := inv.fromHere(to)
	switch {
	case to == "":
		return "", usage("--html alone writes it beside the report", "--html needs the name of a file")
	case to == hereToo && own:
		path = filepath.Join(w.dir, pageFile)
	case to == hereToo:
		path = inv.fromHere(filepath.Base(w.dir) + ".html")
	}
	var b strings.Builder
	if err := inv.drawPage(&b, s); err != nil {
		return "", err
	}
	mode := os.FileMode(0o644)
	if to == hereToo && own {
		mode = 0o600 // as everything in there
	}
	if err := durable.Replace(durable.Disk(), path, []byte(b.String()), mode); err != nil {
		return "", broken("io", "name another file: --html=FILE", err, "write the page")
	}
	return path, nil
}

// drawPage draws the page; what a session of somebody else brought along of the
// user's keys is taken out, as everywhere.
func (inv *invocation) drawPage(w io.Writer, s *report.Session) error {
	var b strings.Builder
	if err := s.WritePage(&b, inv.Now()); err != nil {
		return broken("internal", "", err, "draw the page")
	}
	_, err := io.WriteString(w, text.NewRedactor(inv.cfg.Secrets()).String(b.String()))
	return err
}

func (inv *invocation) insights(c *cobra.Command, args []string, f *tellFlags) error {
	if f.rules {
		if _, err := inv.flags(c); err != nil {
			return err
		}
		if inv.form != outputText {
			return inv.out.printJSON(report.NewRulesDocument())
		}
		return inv.out.print(report.RulesText())
	}
	s, w, err := inv.told(c, args, report.Wants{Findings: true})
	if err != nil {
		return err
	}
	kept := 0
	if f.append {
		learnings := insights.Learnings(s.Findings, w.ID)
		list := make([]memory.Learning, len(learnings))
		for i, l := range learnings {
			list[i] = memory.Learning{Type: l.Type, What: l.What, Why: l.Why, How: l.How, Results: l.Results, Learning: l.Learning}
		}
		hand, err := inv.sessions(c)
		if err != nil {
			return err
		}
		if kept, err = hand.Learn(c.Context(), list, inv.cfg.DryRun); err != nil {
			return err
		}
		how := "added to"
		if inv.cfg.DryRun {
			how = "would be added to"
		}
		switch {
		case len(list) == 0:
			inv.note("nothing was found, so nothing is kept")
		case kept == 0:
			inv.note(memory.AgentFile + " has all of it already")
		default:
			inv.note(fmt.Sprintf("%s %s %s", text.Count(kept, "finding"), how, memory.AgentFile))
		}
	}
	if inv.form != outputText {
		return inv.out.printJSON(report.NewInsightsDocument(s, kept, orEmpty(inv.result.Warnings)))
	}
	return inv.printPage(report.InsightsText(s))
}

func (inv *invocation) compare(c *cobra.Command, args []string, f *tellFlags) error {
	if err := inv.load(c); err != nil {
		return err
	}
	inv.out.resultFile = "" // nothing is worked on
	for _, name := range f.sessions {
		if name = strings.TrimSpace(name); name != "" {
			args = append(args, name)
		}
	}
	if len(args) < 2 {
		return usage("ralph compare 6 7; ralph sessions list shows their numbers", "ralph compare needs two sessions or more")
	}
	var list []*report.Session
	var errs []error
	for _, which := range args {
		w, err := inv.watch(which)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s, err := inv.toldOf(c.Context(), w, report.Wants{})
		if errors.Is(err, context.Canceled) || context.Cause(c.Context()) != nil {
			return err
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, s)
	}
	if len(errs) > 0 {
		var e *result.Error
		if words := strings.Join(args, ""); len(errs) == len(args) && errors.As(errs[0], &e) && !strings.ContainsAny(words, "0123456789/-") {
			e.Hint += asTask(c, args)
		}
		return errs[0]
	}
	inv.markForeign()
	if inv.form != outputText {
		return inv.out.printJSON(report.NewCompareDocument(list, orEmpty(inv.result.Warnings)))
	}
	return inv.printPage(report.CompareText(list))
}
