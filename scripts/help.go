package scripts

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ralph/memory/config"
)

const shortHelp = `ralph [flags] "task"   do one task in this project
ralph chat             talk with Ralph
ralph demo             see it at work, without a model
ralph --help           all commands and flags

`

const helpWidth = 80

// help prints the help of a command to standard output.
func (inv *invocation) help(c *cobra.Command) {
	text := inv.commandHelp(c)
	if !c.HasParent() {
		text = inv.rootHelp(c)
	}
	if err := inv.out.print(text); err != nil {
		inv.code = inv.fail(err)
	}
}

func (inv *invocation) helpCommand() *cobra.Command {
	var man bool
	c := &cobra.Command{
		Use:   "help [COMMAND] [--man]",
		Short: "explain Ralph or a command",
		Long: "Explain Ralph, or one command. --man prints the whole manual, ralph(1), for man to show.\n" +
			"Example: ralph help plan convert\nExample: ralph help --man | man -l -",
	}
	c.Flags().BoolVar(&man, "man", false, "print the manual, ralph(1), in roff")
	c.RunE = func(c *cobra.Command, args []string) error {
		at := c.Root()
		if man && len(args) == 0 {
			return inv.out.print(inv.manual(at))
		}
		for _, word := range args {
			i := slices.IndexFunc(at.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
			switch {
			case i >= 0 && !man:
				at = at.Commands()[i]
			default:
				return usage("ralph help lists the commands", "ralph help: unknown command %q", strings.Join(args, " "))
			}
		}
		inv.help(at)
		return nil
	}
	return c
}

// section is a group of commands in the order in which help shows them.
type section struct {
	title string
	names []string
}

// sections are the commands as a person looks for them. A command that none of
// them names is shown with the last.
func sections() []section {
	return []section{
		{"Work", []string{"chat", "run", "plan", "script", "undo", "redo"}},
		{"A Ralph at work here, also from another terminal", []string{"status", "monitor", "attach", "send", "pause", "stop"}},
		{"What is kept", []string{"resume", "sessions", "recover"}},
		{"What a session tells", []string{"logs", "report", "analyze", "insights", "compare"}},
		{"Set-up and help", []string{"init", "demo", "doctor", "config", "schema", "completion", "version"}},
	}
}

// grouped are the commands that a person sees, by section.
func grouped(root *cobra.Command) (titles []string, groups [][]*cobra.Command) {
	all := sections()
	groups = make([][]*cobra.Command, len(all))
	left := slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return c.Hidden || c.Name() == "help" || strings.HasPrefix(c.Name(), "_")
	})
	for i, s := range all {
		titles = append(titles, s.title)
		for _, name := range s.names {
			if at := slices.IndexFunc(left, func(c *cobra.Command) bool { return c.Name() == name }); at >= 0 {
				groups[i] = append(groups[i], left[at])
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	last := len(groups) - 1
	groups[last] = append(groups[last], left...)
	return titles, groups
}

func (inv *invocation) rootHelp(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`Ralph works on the project around the current directory, with a model.

Usage:
  ralph "task" [flags]     do one task; several words are joined by spaces
  ralph - [flags]          read the task from standard input
  ralph                    talk with Ralph, on a terminal; also: ralph chat
  ralph COMMAND [flags]

  Flags may stand before and after the task; "--" ends them. What is piped into
  ralph "task" goes along as context (< /dev/null: nothing). A task that looks
  like a command or a flag follows "--": ralph -- status

Examples:
  ralph "the upload test fails now and then; find out why and fix it"
  go test ./... 2>&1 | ralph "make these tests pass"
  ralph --check 'make test' --json "rename Foo to Bar" | jq .status
`)
	titles, groups := grouped(root)
	for i, title := range titles {
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, c := range groups[i] {
			entry(&b, c.Name(), c.Short)
		}
	}
	entry(&b, "help [COMMAND]", "explain Ralph or a command; ralph help --man is the manual")
	b.WriteString("\nFlags:\n")
	for _, k := range inv.keys {
		if k.Flag != "" && k.Scope == config.ScopeCommon {
			keyEntry(&b, k)
		}
		if k.Name == "output" {
			entry(&b, "    --json", "the same as --output json")
		}
	}
	entry(&b, "-h, --help", "show this help")
	entry(&b, "-v, --version", "print the version")
	b.WriteString(`
  Each flag has a RALPH_ variable (--max-turns: RALPH_MAX_TURNS) and a key in
  the configuration (max_turns); "ralph config" shows all values and where they
  come from. Paths of flags are relative to the current directory, also with
  -C; only the globs of --files are relative to DIR.

Exit codes:
  0 completed        1 failed           2 usage            3 configuration
  4 endpoint failed  5 input needed     6 limit reached    7 schema mismatch
  8 locked           75 retry later     124 timeout        129, 130, 143 signal
`)
	return b.String()
}

// The kinds of pieces that the long text of a command is made of.
const (
	pieceText    = iota
	pieceTerm    // a word and what it is about
	pieceExample // a line as it is typed
)

type piece struct {
	kind int
	term string
	text string
}

// pieces takes the long text of a command apart: one piece a line.
func pieces(c *cobra.Command) []piece {
	long := c.Long
	if long == "" {
		long = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	var out []piece
	for line := range strings.SplitSeq(long, "\n") {
		term, about, ok := strings.Cut(line, " — ")
		switch example, is := strings.CutPrefix(line, "Example: "); {
		case is:
			out = append(out, piece{kind: pieceExample, text: example})
		case ok && len(term) <= 60 && !strings.Contains(term, ". "):
			out = append(out, piece{kind: pieceTerm, term: term, text: about})
		default:
			out = append(out, piece{kind: pieceText, text: line})
		}
	}
	return out
}

// usageLine is how a command is typed.
func usageLine(c *cobra.Command) string {
	if !c.HasParent() {
		return c.Use
	}
	return c.Parent().CommandPath() + " " + c.Use
}

// flagHelp is a flag as help and the manual show it.
type flagHelp struct{ name, about string }

// ownFlags are the flags that only this command takes, or it and its parent.
func (inv *invocation) ownFlags(c *cobra.Command) []flagHelp {
	var out []flagHelp
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		if _, ok := f.Value.(*flagValue); ok {
			for _, k := range inv.keys {
				if k.Flag == f.Name {
					out = append(out, keyHelp(k))
					return
				}
			}
		}
		value, about := pflag.UnquoteUsage(f)
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		switch {
		case f.Value.Type() == "bool":
		case f.NoOptDefVal != "":
			name += " [" + value + "]"
		default:
			name += " " + value
		}
		out = append(out, flagHelp{name, about})
	})
	return out
}

func (inv *invocation) commandHelp(c *cobra.Command) string {
	var b strings.Builder
	var examples []string
	kind := pieceText
	for i, p := range pieces(c) {
		if p.kind == pieceExample {
			examples = append(examples, p.text)
			continue
		}
		if i > 0 && (kind != p.kind || kind == pieceText) {
			b.WriteByte('\n')
		}
		if kind = p.kind; kind == pieceTerm {
			entry(&b, p.term, p.text)
		} else {
			wrap(&b, p.text, 0)
		}
	}
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", usageLine(c))
	if flags := inv.ownFlags(c); len(flags) > 0 {
		b.WriteString("\nFlags:\n")
		for _, f := range flags {
			entry(&b, f.name, f.about)
		}
	}
	if subs := c.Commands(); len(subs) > 0 {
		fmt.Fprintf(&b, "\n\"ralph help %s WORD\" says more about one of them.\n", c.Name())
	}
	if len(examples) > 0 {
		b.WriteString("\nExamples:\n  " + strings.Join(examples, "\n  ") + "\n")
	}
	b.WriteString("\n\"ralph --help\" lists the flags that all commands take.\n")
	return b.String()
}

// keyHelp describes the flag of a key.
func keyHelp(k config.Key) flagHelp {
	name := "    --" + k.Flag
	if k.Short != "" {
		name = "-" + k.Short + ", --" + k.Flag
	}
	if k.Kind != config.KindBool && k.Arg != "" {
		name += " " + k.Arg
	}
	about := k.Help
	if k.Default != "" && k.Default != "0" && k.Default != "false" {
		about += " (" + k.Default + ")"
	}
	return flagHelp{name, about}
}

func keyEntry(b *strings.Builder, k config.Key) {
	f := keyHelp(k)
	entry(b, f.name, f.about)
}

// entry writes a name and what it is about, in two columns.
func entry(b *strings.Builder, name, about string) {
	const column = 28
	head := "  " + name
	if utf8.RuneCountInString(head) >= column {
		b.WriteString(head + "\n")
		head = ""
	}
	b.WriteString(head + strings.Repeat(" ", column-utf8.RuneCountInString(head)))
	wrap(b, about, column)
}

// wrap writes text in lines of at most helpWidth; the first begins at column
// indent already.
func wrap(b *strings.Builder, text string, indent int) {
	at := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+utf8.RuneCountInString(word) > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += utf8.RuneCountInString(word)
	}
	b.WriteByte('\n')
}
