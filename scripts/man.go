package scripts

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator/slash"
	"ralph/memory/config"
)

// manual is ralph(1) in roff, made of the same tables as help: the commands, the
// settings, the chat's slash commands and the exit codes.
func (inv *invocation) manual(root *cobra.Command) string {
	m := &roff{}
	day, _, _ := strings.Cut(inv.Date, "T")
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		day = "" // a build that was told none
	}
	fmt.Fprintf(&m.b, ".TH RALPH 1 \"%s\" \"Ralph %s\" \"User Commands\"\n", day, quoted(orWord(inv.Version, "unknown")))
	m.line(".nh") // names and flags are not to be hyphenated
	m.line(".ad l")
	m.section("NAME")
	m.text("ralph - " + root.Short)
	m.section("SYNOPSIS")
	for i, line := range []string{`ralph [flags] "task"`, `ralph [flags] -`, `ralph chat [flags]`, `ralph COMMAND [flags]`} {
		if i > 0 {
			m.line(".br")
		}
		m.bold(line)
	}
	m.section("DESCRIPTION")
	m.paragraphs(`Ralph works on the project around the current directory, with a language model: one coordinator, which has agents work side by side, and a human who always has the last word.`,
		`ralph "task" does one task and says in its exit code and in one document what came of it; ralph chat is the shell in which one talks with Ralph; ralph run works through a plan.`,
		`Flags may stand before and after the words of the task, which are joined by spaces; -- ends the flags. What is piped into ralph "task" goes along as context (< /dev/null: nothing), and - reads the task itself from standard input. A task that looks like a command follows --: ralph -- status.`,
		`Standard output carries the answer (text), one result document (--json) or one event a line (--output jsonl), and nothing else; progress, warnings and errors go to standard error. The document comes on every way out.`)
	inv.manualCommands(m, root)
	inv.manualOptions(m)
	manualChat(m)
	inv.manualSettings(m)
	manualExits(m)
	manualEnvironment(m)
	manualFiles(m)
	m.section("EXAMPLES")
	for _, e := range [][2]string{
		{"ralph \"the upload test fails now and then; find out why and fix it\"", "one task"},
		{"go test ./... 2>&1 | ralph \"make these tests pass\"", "what is piped in goes along"},
		{"ralph --json --check 'make test' --timeout 20m \"fix the build\" > result.json", "for a script; the exit code tells how it ended"},
		{"ralph --allow 'network && argv[0] == \"npm\"' \"update the packages\"", "the network for one command"},
		{"ralph run --parallel 4 --epic auth", "the plan, four tasks at a time"},
		{"ralph chat --continue", "go on talking"},
	} {
		m.term(e[0], sentence(e[1]))
	}
	m.section("SEE ALSO")
	m.text("ralph --help, ralph help COMMAND, /help in the chat; git(1), bd(1), jq(1)")
	return m.b.String()
}

func (inv *invocation) manualCommands(m *roff, root *cobra.Command) {
	m.section("COMMANDS")
	m.text("Each takes the flags below OPTIONS too; ralph help COMMAND shows the same as here.")
	titles, groups := grouped(root)
	for i, title := range titles {
		m.sub(title)
		for _, c := range groups[i] {
			inv.manualCommand(m, c)
			for _, sub := range c.Commands() {
				inv.manualCommand(m, sub)
			}
		}
	}
}

func (inv *invocation) manualCommand(m *roff, c *cobra.Command) {
	m.line(".TP")
	m.bold(usageLine(c))
	first := true
	for _, p := range pieces(c) {
		switch {
		case p.kind == pieceTerm:
			m.line(".br")
			m.emphasis(p.term, "— "+p.text)
		case p.kind == pieceExample:
			m.line(".br")
			m.text("Example: " + p.text)
		default:
			if !first {
				m.line(".IP")
			}
			m.text(p.text)
		}
		first = false
	}
	var flags [][2]string
	for _, f := range inv.ownFlags(c) {
		flags = append(flags, [2]string{strings.TrimSpace(f.name), sentence(f.about)})
	}
	m.below(flags)
}

func (inv *invocation) manualOptions(m *roff) {
	m.section("OPTIONS")
	m.text("All commands take these. Paths are relative to the current directory, also with -C; only the globs of --files are relative to DIR.")
	for _, k := range inv.keys {
		if k.Flag != "" && k.Scope == config.ScopeCommon {
			f := keyHelp(k)
			m.term(strings.TrimSpace(f.name), sentence(f.about))
		}
		if k.Name == "output" {
			m.term("--json", "The same as --output json.")
		}
	}
	m.term("-h, --help", "Show the help of Ralph or of the command.")
}

func manualChat(m *roff) {
	m.section("THE CHAT")
	m.paragraphs("The prompt stays live while Ralph works. A plain line that is typed then is delivered at the next boundary: after the tool that runs, before the next request. Ctrl-C stops everything; a second one kills at once, a third leaves. A line that begins with / is a command:")
	group := ""
	for _, c := range slash.Table() {
		if c.Group != group {
			group = c.Group
			m.sub(group)
		}
		about := sentence(c.Summary)
		if c.Help != "" {
			about += " " + c.Help
		}
		if !c.WhileBusy {
			about += " Not while work runs."
		}
		m.term(strings.TrimSpace("/"+c.Name+" "+c.Args), about)
		m.examples(c.Examples)
	}
	for _, t := range slash.Topics() {
		m.sub(t.Summary)
		m.text(t.Help)
		m.examples(t.Examples)
	}
}

func (inv *invocation) manualSettings(m *roff) {
	m.section("CONFIGURATION")
	m.paragraphs("A flag counts more than its environment variable, that more than ~/.config/ralph/config.yaml, that more than .ralph/config.yaml of the project, that more than the default. ralph config shows each value and where it comes from; a key that is unknown or mistyped is an error with file and line (exit 3). A dot in a name is a level of YAML.",
		"The project's file can only narrow what is marked so below, and what it proposes is asked about. The user's file also holds profiles (name: {base_url, model, api_key_env}), prices (model: {input, cached_input, output} in USD for a million tokens) and agents (name: {command, args, format, input, model, env, quota, state, credentials, hosts, timeout, idle}).")
	for _, k := range inv.keys {
		about := sentence(k.Help)
		about += " " + kindText(k)
		if k.Default != "" {
			about += " Default: " + k.Default + "."
		}
		if k.Project {
			about += " Also in the project's file."
		}
		m.term(k.Name+", "+k.Env, about)
	}
}

// kindText says what the value of a key looks like.
func kindText(k config.Key) string {
	switch k.Kind {
	case config.KindBool:
		return "true or false."
	case config.KindEnum:
		return "One of " + strings.Join(k.Values, ", ") + "."
	case config.KindDuration:
		return "A duration: 90s, 10m, 2h, 180d."
	case config.KindBytes:
		return "A size: 512MiB, 1GB."
	case config.KindList:
		return "A list; in the environment one a line."
	case config.KindInt, config.KindFloat:
		return "A number."
	}
	return "Text."
}

// exits are the exit codes with their status and what they mean.
func exits() [][3]string {
	return [][3]string{
		{"0", "completed", "Done: the model declared it, nothing that blocks was denied, and the check and the gates passed. Whether anything was checked stands in verified."},
		{"1", "failed", "Given up, a check or a gate failed, tasks are left failed, or an internal error."},
		{"2", "usage", "A bad flag or argument, or an unknown command."},
		{"3", "config_error", "The configuration, the plan, no model, or bad credentials."},
		{"4", "provider_error", "The endpoint failed, also after retries."},
		{"5", "needs_input, denied", "An answer or a permission was needed and nobody could give it."},
		{"6", "limit", "Turns, tokens, cost or iterations are used up; tasks remain."},
		{"7", "schema_mismatch", "The answer does not fit --schema."},
		{"8", "locked", "Another Ralph holds the project."},
		{"75", "retry_later", "The rate limit outlasts patience; retry_after_s says how long."},
		{"124", "timeout", "--timeout is used up."},
		{"129, 130, 143", "interrupted", "Ended by SIGHUP, SIGINT, SIGTERM."},
	}
}

func manualExits(m *roff) {
	m.section("EXIT STATUS")
	for _, e := range exits() {
		m.line(".TP")
		m.emphasis(e[0], "("+e[1]+")")
		m.text(e[2])
	}
	m.line(".PP")
	m.text("ralph status exits with 0 whatever it says, unless --exit-status is given.")
}

func manualEnvironment(m *roff) {
	m.section("ENVIRONMENT")
	m.text("Each setting has a variable, named below CONFIGURATION. Beside them:")
	for _, e := range [][2]string{
		{"RALPH_API_KEY, RALPH_BASE_URL, RALPH_MODEL", "The endpoint, before all that follow."},
		{"OPENAI_API_KEY, OPENAI_BASE_URL, OPENROUTER_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY", "An endpoint by its key. Without any, a local server on port 11434, 8080, 1234 or 8000 is looked for."},
		{"NO_COLOR", "No colours when set."},
		{"TERM, COLORFGBG", "What the terminal can, and whether it is light or dark; dumb means whole lines."},
		{"VISUAL, EDITOR", "The editor for long input."},
		{"XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_RUNTIME_DIR", "Where Ralph keeps its files instead of below ~."},
		{"RALPH_PROC", "session: commands run without a PID namespace of their own."},
	} {
		m.term(e[0], e[1])
	}
}

func manualFiles(m *roff) {
	m.section("FILES")
	for _, e := range [][2]string{
		{"RALPH_TASKS.md, RALPH_TODO.md, RALPH_GOALS.md", "Tasks, next steps, goals. They are yours too: edit them at any time."},
		{"RALPH_PROGRESS.md", "What was done, the newest first."},
		{"AGENT.md", "What was learned."},
		{"AGENTS.md, CLAUDE.md", "Instructions of the project, which are read and grant nothing."},
		{"prd.json, RALPH-LOOP-PLAN.yaml, .beads/", "Other forms of the plan."},
		{".ralph/sessions/", "A directory a session: conversation.md, final-report.md, the journal, decisions, errors, metrics."},
		{".ralph/queue.md", "What waits to be delivered, to read; /queue changes it."},
		{".ralph/runs.jsonl", "One result a line."},
		{".ralph/quarantine/", "What was found corrupt; nothing is thrown away."},
		{".ralph/config.yaml", "The project's settings, which can only narrow."},
		{"~/.config/ralph/config.yaml", "The user's settings, profiles, prices and agents."},
		{"~/.local/state/ralph/", "The history of the chat's lines by project, and the list of sessions of all projects."},
	} {
		m.term(e[0], e[1])
	}
}

// sentence begins with a capital and ends with a stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// roff gathers a page in the man macros of roff.
type roff struct{ b strings.Builder }

// line writes a line of macros as it is.
func (m *roff) line(s string) { m.b.WriteString(s + "\n") }

func (m *roff) section(title string) { m.line(".SH \"" + quoted(title) + "\"") }

func (m *roff) sub(title string) {
	if title != "" {
		m.line(".SS \"" + quoted(strings.ToUpper(title[:1])+title[1:]) + "\"")
	}
}

// text writes text in lines that are not too long; the page is filled anew.
func (m *roff) text(s string) {
	at := 0
	for _, word := range strings.Fields(s) {
		word = plainRoff(word)
		switch {
		case at > 0 && at+1+len(word) > helpWidth:
			m.b.WriteByte('\n')
			at = 0
		case at > 0:
			m.b.WriteByte(' ')
			at++
		}
		if at == 0 && word[0] == '.' {
			m.b.WriteString(`\&`)
		}
		m.b.WriteString(word)
		at += len(word)
	}
	if at > 0 {
		m.b.WriteByte('\n')
	}
}

func (m *roff) paragraphs(list ...string) {
	for i, s := range list {
		if i > 0 {
			m.line(".PP")
		}
		m.text(s)
	}
}

func (m *roff) bold(s string) { m.line(`\fB` + plainRoff(s) + `\fR`) }

// emphasis writes a word and what it is about on one line.
func (m *roff) emphasis(word, about string) {
	m.line(`\fB` + plainRoff(word) + `\fR ` + plainRoff(about))
}

// term writes a word, and below it what it is about.
func (m *roff) term(word, about string) {
	m.line(".TP")
	m.bold(word)
	m.text(about)
}

func (m *roff) examples(list []slash.Example) {
	var terms [][2]string
	for _, e := range list {
		terms = append(terms, [2]string{e.Line, sentence(e.Does)})
	}
	m.below(terms)
}

// below writes terms below the one before them, without blank lines between them.
func (m *roff) below(terms [][2]string) {
	for i, t := range terms {
		switch i {
		case 0:
			m.line(".RS")
		case 1:
			m.line(".PD 0")
		}
		m.term(t[0], t[1])
	}
	if len(terms) > 1 {
		m.line(".PD")
	}
	if len(terms) > 0 {
		m.line(".RE")
	}
}

// plainRoff writes text so that roff prints it as it is, in any encoding.
func plainRoff(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r < 0x20 || r == 0x7f:
			b.WriteByte(' ')
		case r > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quoted writes text for the quoted argument of a macro.
func quoted(s string) string { return strings.ReplaceAll(plainRoff(s), `"`, `\(dq`) }
