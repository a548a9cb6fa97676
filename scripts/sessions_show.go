package scripts

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"ralph/coordinator/sessions"
	"ralph/memory/exchange"
	"ralph/memory/registry"
	"ralph/memory/retention"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// sessionDocument is what `ralph sessions show --json` prints.
type sessionDocument struct {
	Type        string             `json:"type"`
	Schema      string             `json:"schema"`
	Foreign     bool               `json:"foreign"`
	Session     retention.Row      `json:"session"`
	Phase       string             `json:"phase_name"`
	Tasks       []folder.TaskState `json:"tasks"`
	Decisions   []folder.Decision  `json:"decisions"`
	Errors      []folder.Failure   `json:"errors"`
	Files       []string           `json:"files"`
	Messages    []exchange.Message `json:"messages"`
	Differences []string           `json:"differences"`
	Warnings    []string           `json:"warnings"`
}

// sessions opens the hand on the project's sessions; nothing was worked on, so
// a result file is not for these commands.
func (inv *invocation) sessions(c *cobra.Command) (*sessions.Sessions, error) {
	if err := inv.load(c); err != nil {
		return nil, err
	}
	inv.out.resultFile = ""
	if err := inv.unlinked(); err != nil {
		return nil, err
	}
	debug.SetMemoryLimit(leanBytes)
	return sessions.Open(sessions.Options{Root: inv.root, Config: inv.cfg, RunID: inv.result.RunID, Getenv: inv.Getenv, Now: inv.Now}, inv.warning), nil
}

func (inv *invocation) listSessions(ctx context.Context, c *cobra.Command, f *sessionsFlags) error {
	s, err := inv.sessions(c)
	if err != nil {
		return err
	}
	rows, err := s.List(ctx, f.all)
	if err != nil {
		return err
	}
	foreign := inv.markForeign()
	if inv.form != outputText {
		return inv.out.printJSON(sessionsDocument{"sessions", "ralph.sessions/1", inv.root, f.all, foreign, rows, orEmpty(inv.result.Warnings)})
	}
	if len(rows) == 0 {
		inv.note("no sessions here yet: ralph chat begins one")
		return nil
	}
	return inv.out.print(sessionTable(rows, f.all))
}

// sessionTable is the list as people read it. Names and words are shown, never
// obeyed, also where the output is no terminal: a row is a line.
func sessionTable(rows []retention.Row, all bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	head := "ID\tNAME\tKIND\tSTATUS\tBEGAN\tTOOK\tTASKS\tTOKENS\tCOST\tFIRST WORDS"
	if all {
		head = "PROJECT\t" + head
	}
	fmt.Fprintln(w, head)
	for _, r := range rows {
		cells := []string{r.ID, cell(r.Name, 28), cell(r.Kind, 12), statusText(r), moment(r.Started), took(r), tasksText(r), tokensText(r.Usage), costText(r.Usage), cell(r.Words, 40)}
		if all {
			where := filepath.Base(r.Project)
			if r.Gone {
				where += " (gone)"
			}
			cells = append([]string{cell(where, 30)}, cells...)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// cell makes a text fit for a table.
func cell(content string, most int) string {
	content = text.VisibleLine(strings.Join(strings.Fields(content), " "))
	if content == "" {
		return "-"
	}
	return runewidth.Truncate(content, most, "…")
}

func statusText(r retention.Row) string {
	text := cell(r.Status, 20)
	if r.Live {
		text += ", live"
	}
	if r.Archived {
		text += ", archived"
	}
	if r.Error != nil {
		text += ", damaged"
	}
	return text
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

func took(r retention.Row) string {
	if r.DurationMS <= 0 {
		return "-"
	}
	return spanText(time.Duration(r.DurationMS) * time.Millisecond)
}

func tasksText(r retention.Row) string {
	if r.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", r.Done, r.Total)
}

func tokensText(u *retention.Spent) string {
	switch {
	case u == nil:
		return "-"
	case u.Total < 1000:
		return fmt.Sprint(u.Total)
	case u.Total < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(u.Total)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(u.Total)/1e6)
}

func costText(u *retention.Spent) string {
	if u == nil || u.CostUSD == nil {
		return "-"
	}
	return fmt.Sprintf("$%.2f", *u.CostUSD)
}

func (inv *invocation) showSession(c *cobra.Command, which string) error {
	s, err := inv.sessions(c)
	if err != nil {
		return err
	}
	row, d, err := s.Show(which)
	if err != nil {
		return err
	}
	foreign := inv.markForeign()
	var differences []string
	for _, x := range d.Data.Differences() {
		if row.Live && x.Field != "session_id" && x.FileA != x.FileB {
			continue // files that are written at different times agree only at rest
		}
		differences = append(differences, x.String())
	}
	if inv.form == outputText {
		return inv.out.print(text.Visible(sessionText(row, d, differences)))
	}
	return inv.out.printJSON(sessionDocument{Type: "session", Schema: "ralph.session/1", Foreign: foreign, Session: row, Phase: d.Session.Phase, Tasks: emptyList(d.Data.Progress.Tasks),
		Decisions: emptyList(d.Data.Decisions), Errors: emptyList(d.Data.Failures), Files: orEmpty(d.Files), Messages: emptyList(d.Messages),
		Differences: orEmpty(differences), Warnings: orEmpty(inv.result.Warnings)})
}

func emptyList[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// sessionText is one session as people read it.
func sessionText(r retention.Row, d exchange.Details, differences []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %s %s (%s, %s)\n", r.ID, cell(r.Name, 200), r.Kind, statusText(r))
	fmt.Fprintf(&b, "  began %s, took %s, tasks %s, tokens %s, cost %s\n", moment(r.Started), took(r), tasksText(r), tokensText(r.Usage), costText(r.Usage))
	fmt.Fprintf(&b, "  %s\n", r.Path)
	if d.Session.Phase != "" {
		fmt.Fprintf(&b, "  phase: %s\n", cell(d.Session.Phase, 200))
	}
	if r.Reason != nil {
		fmt.Fprintf(&b, "  ended: %s\n", cell(*r.Reason, 200))
	}
	if r.RawDeleted != nil {
		fmt.Fprintf(&b, "  its raw files were deleted %s\n", moment(r.RawDeleted))
	}
	part := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	var tasks, decisions, failures, messages []string
	for _, t := range d.Data.Progress.Tasks {
		tasks = append(tasks, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", t.TaskID, t.Status, cell(cmp.Or(t.Details, string(t.Result)), 200)), ": -"))
	}
	for _, x := range d.Data.Decisions {
		decisions = append(decisions, fmt.Sprintf("%s %s: %s", x.Time.UTC().Format("2006-01-02 15:04"), cell(x.Decision.Action, 100), cell(x.Decision.Rationale, 300)))
	}
	for _, x := range d.Data.Failures {
		failures = append(failures, fmt.Sprintf("%s %s: %s", x.Time.UTC().Format("2006-01-02 15:04"), cell(x.ErrorType, 60), cell(x.ErrorMessage, 300)))
	}
	for _, m := range d.Messages {
		messages = append(messages, fmt.Sprintf("%s %s: %s", m.Time.UTC().Format("15:04"), m.Role, cell(m.Text, 300)))
	}
	part("Tasks", tasks)
	part("Decisions", decisions)
	part("Errors", failures)
	part("Files", d.Files)
	part("Last messages", messages)
	part("Differences between its files", differences)
	return b.String()
}

// changeSessions runs a command that follows the retention policy.
func (inv *invocation) changeSessions(c *cobra.Command, do func(context.Context, *sessions.Sessions, bool) ([]retention.Action, []registry.Listed, error)) error {
	s, err := inv.sessions(c)
	if err != nil {
		return err
	}
	dry := inv.cfg.DryRun
	actions, gone, err := do(c.Context(), s, dry)
	if err != nil {
		for _, a := range actions {
			inv.note("done: " + actionText(a, false))
		}
		return err
	}
	doc := changesDocument{Type: "sessions_changes", Schema: "ralph.sessions.changes/1", Command: c.Name(), DryRun: dry, Root: inv.root, Actions: emptyList(actions), Dropped: []string{}, Warnings: orEmpty(inv.result.Warnings)}
	var b strings.Builder
	for _, a := range actions {
		b.WriteString(actionText(a, dry) + "\n")
	}
	for _, g := range gone {
		doc.Dropped = append(doc.Dropped, g.SessionID)
		fmt.Fprintf(&b, "%s %s from the registry: %s is gone\n", would(dry, "drop", "dropped"), text.VisibleLine(g.SessionID), text.VisibleLine(g.Cwd))
	}
	if inv.form != outputText {
		return inv.out.printJSON(doc)
	}
	if b.Len() == 0 {
		inv.note("nothing to " + c.Name())
	}
	return inv.out.print(b.String())
}

// would words what is done or with a dry run would be.
func would(dry bool, word, done string) string {
	if dry {
		return "would " + word
	}
	return done
}

func actionText(a retention.Action, dry bool) string {
	path := text.VisibleLine(a.Path)
	switch a.Kind {
	case retention.Archive:
		return fmt.Sprintf("%s %s to %s (%s)", would(dry, "move", "moved"), path, text.VisibleLine(a.To), a.Why)
	case retention.Prune:
		return fmt.Sprintf("%s in %s: %s, %s (%s)", would(dry, "delete", "deleted"), path, strings.Join(a.Files, ", "), sizeText(a.Bytes), a.Why)
	case retention.PruneRun:
		return fmt.Sprintf("%s %s, %s (%s)", would(dry, "delete", "deleted"), path, sizeText(a.Bytes), a.Why)
	}
	return fmt.Sprintf("%s %s (%s)", would(dry, "write", "wrote"), path, a.Why)
}

// carry runs a command that brings sessions from one place to another.
func (inv *invocation) carry(c *cobra.Command, do func(context.Context, *sessions.Sessions, bool) (any, string, error)) error {
	s, err := inv.sessions(c)
	if err != nil {
		return err
	}
	result, content, err := do(c.Context(), s, inv.cfg.DryRun)
	if err != nil {
		return err
	}
	if inv.form == outputText {
		return inv.out.print(text.Visible(content))
	}
	return inv.out.printJSON(exchangeDocument{Type: "sessions_" + c.Name(), Schema: "ralph.sessions." + c.Name() + "/1", Command: c.Name(), DryRun: inv.cfg.DryRun,
		Root: inv.root, Result: result, Warnings: orEmpty(inv.result.Warnings)})
}

// bullets lists findings under a title; nothing when there are none.
func bullets(title string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return title + ":\n  " + strings.Join(lines, "\n  ") + "\n"
}

func handedText(h exchange.Handed, dry bool) string {
	text := fmt.Sprintf("%s what session %s knows to session %s\n", would(dry, "hand over", "handed over"), h.From, h.To)
	if dry {
		text += "\n" + h.Text + "\n"
	}
	return text + bullets("task states taken over", h.Tasks) + bullets("conflicts", h.Conflicts)
}

func mergedText(m exchange.Merged, dry bool) string {
	text := fmt.Sprintf("%s sessions %s: %q, %d tasks\n", would(dry, "merge", "merged"), strings.Join(m.From, " and "), m.Name, m.Tasks)
	if !dry {
		text = fmt.Sprintf("merged sessions %s to session %s %q: %d records, %d tasks\n", strings.Join(m.From, " and "), m.SessionID, m.Name, m.Records, m.Tasks)
	}
	return text + bullets("conflicts", m.Conflicts)
}

func importedText(got exchange.Imported, dry bool) string {
	text := fmt.Sprintf("would import %q, a session of %s\n", got.Name, got.Format)
	if !dry {
		text = fmt.Sprintf("imported session %s %q from %s: %s\n", got.SessionID, got.Name, got.Format, got.Path)
	}
	return text + bullets("differences, none of them mended", got.Differences)
}

func exportedText(got exchange.Exported, dry bool) string {
	content := fmt.Sprintf("%s session %s as %s: %s, %s, %s\n", would(dry, "export", "exported"), got.SessionID, got.Format, got.Path, text.Count(got.Files, "file"), sizeText(got.Bytes))
	if got.Unchanged {
		content += "it is what was imported, byte for byte\n"
	}
	return content
}
