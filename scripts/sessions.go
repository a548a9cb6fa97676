package scripts

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/sessions"
	"ralph/memory/exchange"
	"ralph/memory/registry"
	"ralph/memory/retention"
)

// sessionsDocument is what `ralph sessions list --json` prints.
type sessionsDocument struct {
	Type     string          `json:"type"`
	Schema   string          `json:"schema"`
	Root     string          `json:"project_root"`
	All      bool            `json:"all"`
	Foreign  bool            `json:"foreign"` // they are not of this user's Ralph
	Sessions []retention.Row `json:"sessions"`
	Warnings []string        `json:"warnings"`
}

// changesDocument is what the commands that follow the retention policy print.
type changesDocument struct {
	Type     string             `json:"type"`
	Schema   string             `json:"schema"`
	Command  string             `json:"command"`
	DryRun   bool               `json:"dry_run"`
	Root     string             `json:"project_root"`
	Actions  []retention.Action `json:"actions"`
	Dropped  []string           `json:"dropped"` // of the registry, by id
	Warnings []string           `json:"warnings"`
}

// exchangeDocument is what handoff, merge, import and export print.
type exchangeDocument struct {
	Type     string   `json:"type"`
	Schema   string   `json:"schema"`
	Command  string   `json:"command"`
	DryRun   bool     `json:"dry_run"`
	Root     string   `json:"project_root"`
	Result   any      `json:"result"`
	Warnings []string `json:"warnings"`
}

// sessionsFlags are the flags of the commands over sessions.
type sessionsFlags struct {
	all          bool
	name, format string
}

const sessionsHelp = "ralph sessions --help"

func (inv *invocation) sessionsCommand() *cobra.Command {
	f := &sessionsFlags{}
	c := &cobra.Command{
		Use:   "sessions [list|show|check|archive|prune|summarize|handoff|merge|import|export] [--all]",
		Short: "list, show, archive and exchange sessions",
		Long: "List the sessions of this project, or do something with them:\n" +
			"list — all of them (also without a word); --all: of every project\n" +
			"show ID — one, with its tasks, decisions, errors, files and last messages\n" +
			"check [ID…] — hold the files of sessions against each other\n" +
			"archive [ID…] — move old ones, or those named, to .ralph/sessions/archive\n" +
			"prune — delete the raw files of old archived ones; --all: forget projects that are gone\n" +
			"summarize — write .ralph/sessions/summaries/YEAR-Qn.md\n" +
			"handoff A B — give session B what session A knows\n" +
			"merge A B — make one new session of two\n" +
			"import PATH, export ID [PATH] — from and to other tools\n" +
			"An ID is a number, a name or a unique beginning of one. Ages are those of the retention settings (ralph config). " +
			"What changes anything takes --dry-run, and exits with 8 while another Ralph holds the project; reading never waits.\n" +
			"Example: ralph sessions archive --dry-run",
		ValidArgs: []string{"list", "show", "check", "archive", "prune", "summarize", "handoff", "merge", "import", "export"},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return inv.listSessions(c.Context(), c, f)
		}
		if best := nearest(args[0], c.ValidArgs); best != "" {
			return usage(sessionsHelp, "ralph sessions: unknown %q; did you mean %q?", args[0], best)
		}
		return usage("ralph sessions show "+args[0]+" shows one session"+asTask(c, args), "ralph sessions: unknown %q; it takes one of: %s", args[0], strings.Join(c.ValidArgs, ", "))
	}
	c.Flags().BoolVar(&f.all, "all", false, "the sessions of every project")
	c.AddCommand(inv.readSessions(f)...)
	c.AddCommand(inv.orderSessions(f)...)
	c.AddCommand(inv.joinSessions(f)...)
	c.AddCommand(inv.carrySessions(f)...)
	return c
}

// wordCount checks how many words a command over sessions takes.
func wordCount(least, most int, takes string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		help := "ralph sessions " + c.Name() + " --help"
		switch {
		case len(args) < least:
			return usage(help, "ralph sessions %s needs %s", c.Name(), takes)
		case most >= 0 && len(args) > most && most == 0:
			return usage(help, "ralph sessions %s takes no %q", c.Name(), args[0])
		case most >= 0 && len(args) > most:
			return usage(help, "ralph sessions %s: one word too many: %q", c.Name(), args[most])
		}
		return nil
	}
}

func (inv *invocation) readSessions(f *sessionsFlags) []*cobra.Command {
	list := &cobra.Command{
		Use:   "sessions list [--all]",
		Short: "list the sessions",
		Long: "List the sessions of this project, the archived ones too: number, name, kind, status, begin, duration, tasks, tokens, cost and first words. " +
			"A session at work whose Ralph is dead reads interrupted. With --all those of every project in the registry follow; a project that does not exist any more is marked gone.\n" +
			"Example: ralph sessions list --all --json",
		Args: wordCount(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return inv.listSessions(c.Context(), c, f) },
	}
	list.Flags().BoolVar(&f.all, "all", false, "the sessions of every project")
	show := &cobra.Command{
		Use:   "sessions show ID",
		Short: "show one session",
		Long: "Show one session: its metadata, tasks, decisions, errors, the files that it worked on, its last messages, and where its files contradict each other.\n" +
			"Example: ralph sessions show 7",
		Args: wordCount(1, 1, "the ID of a session"),
		RunE: func(c *cobra.Command, args []string) error { return inv.showSession(c, args[0]) },
	}
	return ofSessions(list, show, inv.checkSessionsCommand())
}

// ofSessions makes commands those of ralph sessions, which their usage begins with.
func ofSessions(list ...*cobra.Command) []*cobra.Command {
	for _, c := range list {
		c.Use = strings.TrimPrefix(c.Use, "sessions ")
	}
	return list
}

func (inv *invocation) orderSessions(f *sessionsFlags) []*cobra.Command {
	archive := &cobra.Command{
		Use:   "sessions archive [ID…]",
		Short: "move old sessions to the archive",
		Long: "Move the sessions that ended longer ago than retention.archive_after to .ralph/sessions/archive, or those that are named, of whatever age. " +
			"One that can be resumed is only moved when it is named, one that is worked in never. Numbers are not given again.\n" +
			"Example: ralph sessions archive --dry-run\nExample: ralph sessions archive 3 4",
		RunE: func(c *cobra.Command, args []string) error {
			return inv.changeSessions(c, func(ctx context.Context, s *sessions.Sessions, dry bool) ([]retention.Action, []registry.Listed, error) {
				done, err := s.Archive(ctx, args, dry)
				return done, nil, err
			})
		},
	}
	prune := &cobra.Command{
		Use:   "sessions prune [--all]",
		Short: "delete the raw files of old archived sessions",
		Long: "Delete the raw files (journal, transcript, logs, decisions, errors, metrics, outputs, iterations) of archived sessions that ended longer ago than " +
			"retention.delete_raw_after, and the directories of one-shots of that age. Metadata, progress, features, report and whatever is not Ralph's stay; " +
			"the summaries are brought up to date first. --all also drops the sessions of projects that are gone from the registry.\n" +
			"Example: ralph sessions prune --dry-run",
		Args: wordCount(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			return inv.changeSessions(c, func(ctx context.Context, s *sessions.Sessions, dry bool) ([]retention.Action, []registry.Listed, error) {
				return s.Prune(ctx, f.all, dry)
			})
		},
	}
	prune.Flags().BoolVar(&f.all, "all", false, "forget the sessions of projects that are gone, too")
	summarize := &cobra.Command{
		Use:   "sessions summarize",
		Short: "write the quarterly summaries",
		Long: "Write .ralph/sessions/summaries/YEAR-Qn.md for each quarter in which sessions began that have ended: tasks, outcomes, tokens, decisions, errors and learnings. " +
			"Your own text in these files stays; nothing is written when nothing changed.\nExample: ralph sessions summarize --dry-run",
		Args: wordCount(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			return inv.changeSessions(c, func(ctx context.Context, s *sessions.Sessions, dry bool) ([]retention.Action, []registry.Listed, error) {
				done, err := s.Summarize(ctx, dry)
				return done, nil, err
			})
		},
	}
	return ofSessions(archive, prune, summarize)
}

func (inv *invocation) joinSessions(f *sessionsFlags) []*cobra.Command {
	handoff := &cobra.Command{
		Use:   "sessions handoff A B",
		Short: "give session B what session A knows",
		Long: "Give session B the open tasks, decisions, files and last messages of session A, as one message that the model reads when B goes on. " +
			"Task states are joined by id: the newer counts, and each difference is told.\nExample: ralph sessions handoff 3 5",
		Args: wordCount(2, 2, "two sessions"),
		RunE: func(c *cobra.Command, args []string) error {
			return inv.carry(c, func(ctx context.Context, s *sessions.Sessions, dry bool) (any, string, error) {
				h, err := s.Handoff(ctx, args[0], args[1], dry)
				return h, handedText(h, dry), err
			})
		},
	}
	merge := &cobra.Command{
		Use:   "sessions merge A B [--name NAME]",
		Short: "make one new session of two",
		Long: "Make a new session of two: their conversations turn by turn in the order of time, their logs, decisions and errors, and their task states by id. " +
			"The two stay as they are.\nExample: ralph sessions merge 3 5 --name \"both halves\"",
		Args: wordCount(2, 2, "two sessions"),
		RunE: func(c *cobra.Command, args []string) error {
			return inv.carry(c, func(ctx context.Context, s *sessions.Sessions, dry bool) (any, string, error) {
				m, err := s.Merge(ctx, args[0], args[1], f.name, dry)
				return m, mergedText(m, dry), err
			})
		},
	}
	merge.Flags().StringVar(&f.name, "name", "", "the `NAME` of the new session")
	return ofSessions(handoff, merge)
}

func (inv *invocation) carrySessions(f *sessionsFlags) []*cobra.Command {
	forms := strings.Join(exchange.Formats(), ", ")
	bring := &cobra.Command{
		Use:   "sessions import PATH [--format FORM] [--name NAME]",
		Short: "make a session of another tool's",
		Long: "Make a session of what another tool or project left: .ralph-tui/session.json, wiggum's ralph-loop-FEATURE.* files, a session folder of the same files as ours, " +
			"or a folder that ralph sessions export wrote. The source is only read and kept whole in the session; what in it contradicts itself is told, one a line, and not mended.\n" +
			"Forms: " + forms + "; without --format the source says.\nExample: ralph sessions import ../old/.ralph-tui/session.json --name old-plan",
		Args: wordCount(1, 1, "the path of a source"),
		RunE: func(c *cobra.Command, args []string) error {
			return inv.carry(c, func(ctx context.Context, s *sessions.Sessions, dry bool) (any, string, error) {
				form, err := formOf(f.format, "")
				if err != nil {
					return nil, "", err
				}
				got, err := s.Import(ctx, inv.fromHere(args[0]), form, f.name, dry)
				return got, importedText(got, dry), err
			})
		},
	}
	bring.Flags().StringVar(&f.format, "format", "", "the `FORM` of the source: "+forms)
	bring.Flags().StringVar(&f.name, "name", "", "the `NAME` of the session here")
	give := &cobra.Command{
		Use:   "sessions export ID [PATH] [--format FORM]",
		Short: "write a session for another tool or project",
		Long: "Write a session to PATH, where nothing may stand: a folder, or for ralph-tui one file. Without PATH it goes to the current directory under its own name. " +
			"What was imported in the same form comes out with every field that went in.\nForms: " + forms + " (ralph without --format).\nExample: ralph sessions export 7 /tmp/session.json --format ralph-tui",
		Args: wordCount(1, 2, "the ID of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			return inv.carry(c, func(_ context.Context, s *sessions.Sessions, dry bool) (any, string, error) {
				form, err := formOf(f.format, exchange.Ralph)
				if err != nil {
					return nil, "", err
				}
				target := ""
				if len(args) == 2 {
					target = args[1]
				} else if target, err = ownName(s, args[0], form); err != nil {
					return nil, "", err
				}
				got, err := s.Export(args[0], inv.fromHere(target), form, dry)
				return got, exportedText(got, dry), err
			})
		},
	}
	give.Flags().StringVar(&f.format, "format", "", "the `FORM` to write: "+forms)
	return ofSessions(bring, give)
}

// formOf checks the name of a form.
func formOf(name string, otherwise exchange.Format) (exchange.Format, error) {
	if name == "" {
		return otherwise, nil
	}
	for _, f := range exchange.Formats() {
		if f == name {
			return exchange.Format(f), nil
		}
	}
	if best := nearest(name, exchange.Formats()); best != "" {
		return "", usage(sessionsHelp, "--format %q: did you mean %q?", name, best)
	}
	return "", usage(sessionsHelp, "--format %q: it takes one of: %s", name, strings.Join(exchange.Formats(), ", "))
}

// ownName is where an export goes that has no place of its own.
func ownName(s *sessions.Sessions, which string, form exchange.Format) (string, error) {
	row, _, err := s.Show(which)
	name := "session-" + row.ID + "-" + string(form)
	if form == exchange.TUI {
		name += ".json"
	}
	return name, err
}
