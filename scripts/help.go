package scripts

import (
	"fmt"
	"strings"

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

func (inv *invocation) rootHelp(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`Ralph works on the project around the current directory, with a model.

Usage:
  ralph [flags] "task"     do one task; several words are joined by spaces
  ralph [flags] -          read the task from standard input
  ralph COMMAND [flags]

  Flags stand before the task: its first word ends them. What is piped into
  ralph "task" goes along as context (< /dev/null: nothing). A task that looks
  like a command follows "--": ralph -- status

Commands:
`)
	for _, c := range root.Commands() {
		if c.Name() != "help" && !c.Hidden && !strings.HasPrefix(c.Name(), "_") {
			entry(&b, c.Name(), c.Short)
		}
	}
	entry(&b, "help [COMMAND]", "explain Ralph or a command")
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

func (inv *invocation) commandHelp(c *cobra.Command) string {
	var b strings.Builder
	about := c.Long
	if about == "" {
		about = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	for line := range strings.SplitSeq(about, "\n") {
		wrap(&b, line, 0)
	}
	fmt.Fprintf(&b, "\nUsage:\n  ralph %s\n", c.Use)
	local := c.LocalNonPersistentFlags()
	n := 0
	local.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		if n++; n == 1 {
			b.WriteString("\nFlags:\n")
		}
		for _, k := range inv.keys {
			if k.Flag == f.Name && (k.Scope == config.ScopeChat || k.Scope == config.ScopeRun) {
				if c.Name() == "chat" && (k.Flag == "continue" || k.Flag == "new") {
					break // a session there, and not a run
				}
				keyEntry(&b, k)
				return
			}
		}
		name := "    --" + f.Name
		if f.NoOptDefVal == "" && f.Value.Type() != "bool" {
			name += " ID"
		}
		entry(&b, name, f.Usage)
	})
	b.WriteString("\n\"ralph --help\" lists the flags that all commands take.\n")
	return b.String()
}

// keyEntry describes the flag of a key.
func keyEntry(b *strings.Builder, k config.Key) {
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
	entry(b, name, about)
}

// entry writes a name and what it is about, in two columns.
func entry(b *strings.Builder, name, about string) {
	const column = 28
	head := "  " + name
	if len(head) >= column {
		b.WriteString(head + "\n")
		head = ""
	}
	b.WriteString(head + strings.Repeat(" ", column-len(head)))
	wrap(b, about, column)
}

// wrap writes text in lines of at most helpWidth; the first begins at column
// indent already.
func wrap(b *strings.Builder, text string, indent int) {
	at := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	b.WriteByte('\n')
}
