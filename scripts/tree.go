package scripts

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ralph/memory/config"
)

// dispatch runs the command that the arguments name, or their task.
func (inv *invocation) dispatch(ctx context.Context, args []string) error {
	inv.keys = config.Keys()
	// Until the arguments are parsed this is the best guess; a command that
	// reads the configuration corrects it.
	inv.form = guessOutput(nil, inv.Getenv)
	inv.out.resultFile = inv.Getenv("RALPH_RESULT_FILE")
	root := inv.tree()
	index, dashed := firstWord(args, root.PersistentFlags())
	words := args[index:]
	err := inv.guard(root, words, dashed)
	if err == nil {
		parse := args
		if !dashed && len(words) > 0 && !isCommand(root, words[0]) {
			inv.stray = strayFlag(words, root.PersistentFlags())
			// "--" keeps cobra from looking for a command further on.
			parse = slices.Concat(args[:index], []string{"--"}, words)
		}
		root.SetArgs(parse)
		err = root.ExecuteContext(ctx)
	}
	if err != nil && !inv.parsed {
		inv.form = guessOutput(args, inv.Getenv)
		inv.out.resultFile = guessFlag(args, "result-file", inv.Getenv("RALPH_RESULT_FILE"))
	}
	return err
}

// guard refuses what looks like a command and is none.
func (inv *invocation) guard(root *cobra.Command, words []string, dashed bool) error {
	if dashed || len(words) == 0 || words[0] == "-" || isCommand(root, words[0]) {
		return nil
	}
	known := map[string][]string{"help": nil}
	for _, c := range root.Commands() {
		known[c.Name()] = c.ValidArgs
	}
	return guardTask(words, known)
}

func isCommand(root *cobra.Command, word string) bool {
	if word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd || word == "help" {
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
}

// tree builds the commands. It touches no file and no terminal.
func (inv *invocation) tree() *cobra.Command {
	root := &cobra.Command{
		Use:               `ralph "task" [flags]`,
		Short:             "a shell in which an agent works on your project",
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              cobra.ArbitraryArgs,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(c *cobra.Command, words []string) error {
			return inv.oneShot(c.Context(), c, words)
		},
	}
	root.SetOut(inv.out)
	root.SetErr(inv.Stderr)
	// No command reads standard input through cobra.
	root.SetIn(strings.NewReader(""))
	addFlags(root.PersistentFlags(), inv.keys, config.ScopeCommon)
	json := root.PersistentFlags().VarPF(&flagValue{kind: config.KindBool}, "json", "", "the same as --output json")
	json.NoOptDefVal = "true"
	// The first word ends the flags of a task: its text is never parsed.
	root.Flags().SetInterspersed(false)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagFault(err, c.Flags()) })
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { inv.help(c) })
	root.SetHelpCommand(inv.helpCommand())
	root.AddCommand(inv.chatCommand(), inv.runCommand(), inv.planCommand(), inv.configCommand(), inv.doctorCommand(), inv.demoCommand(), inv.undoCommand(),
		inv.statusCommand(), inv.attachCommand(), inv.sendCommand(), inv.stopCommand(), inv.pauseCommand(),
		inv.resumeCommand(), inv.recoverCommand(), inv.sessionsCommand(),
		inv.schemaCommand(), inv.completionCommand(), inv.versionCommand())
	for _, k := range inv.keys {
		if k.Flag != "" && k.Scope == config.ScopeCommon && len(k.Values) > 0 {
			// The flag exists: addFlags made it from the same key.
			_ = root.RegisterFlagCompletionFunc(k.Flag, cobra.FixedCompletions(k.Values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	return root
}

// wordsOf returns a check of how many words a command takes, and which.
func wordsOf(least, most int, valid ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		help := "ralph " + c.Name() + " --help"
		switch {
		case len(args) > most && most == 0:
			return usage(help, "ralph %s takes no %q", c.Name(), args[0])
		case len(args) > most:
			return usage(help, "ralph %s: one word too many: %q", c.Name(), args[most])
		case len(args) < least:
			return usage(help, "ralph %s needs one of: %s", c.Name(), strings.Join(valid, ", "))
		}
		for _, a := range args {
			if len(valid) == 0 || slices.Contains(valid, a) {
				continue
			}
			if best := nearest(a, valid); best != "" {
				return usage(help, "ralph %s: unknown %q; did you mean %q?", c.Name(), a, best)
			}
			return usage(help, "ralph %s: unknown %q; it takes one of: %s", c.Name(), a, strings.Join(valid, ", "))
		}
		return nil
	}
}

func (inv *invocation) chatCommand() *cobra.Command {
	var goOn, fresh bool
	var resume string
	c := &cobra.Command{
		Use:   "chat [--continue | --resume ID | --new]",
		Short: "talk with Ralph",
		Long: "Talk with Ralph. Without a flag it begins a new session, or goes on with the newest when that was interrupted or cut off;\n" +
			"without a terminal it does not guess then: --continue or --new has to say it.",
		Args: wordsOf(0, 0),
	}
	c.Flags().BoolVar(&goOn, "continue", false, "go on with the newest session")
	c.Flags().StringVar(&resume, "resume", "", "go on with the session ID, a unique prefix of one or a name")
	c.Flags().BoolVar(&fresh, "new", false, "begin a new session")
	addFlags(c.Flags(), inv.keys, config.ScopeChat)
	c.RunE = func(c *cobra.Command, _ []string) error {
		session, n := "", 0
		if goOn {
			session, n = "last", n+1
		}
		if fresh {
			session, n = "new", n+1
		}
		if c.Flags().Changed("resume") {
			session, n = strings.TrimSpace(resume), n+1
			if session == "" {
				return usage("ralph chat --continue goes on with the newest session", "--resume needs a session's id")
			}
		}
		if n > 1 {
			return usage("ralph chat --help", "--continue, --resume and --new exclude each other")
		}
		return inv.chat(c.Context(), c, session)
	}
	return c
}

func (inv *invocation) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "see Ralph at work, with recorded replies: needs no model and no network",
		Args:  wordsOf(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return inv.demo(c.Context(), c)
		},
	}
}

func (inv *invocation) undoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "undo [N]",
		Short: "take back what the last N turns changed (1 without N)",
		Long: "Take back what the last N turns that changed files changed. Files that were edited since are not overwritten:\n" +
			"nothing at all is done then.",
		ValidArgs: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"},
		Args:      wordsOf(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			n := 1
			if len(args) == 1 {
				var err error
				if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
					return usage("ralph undo 2 takes back the last two turns", "ralph undo: %q is not a number of turns", args[0])
				}
			}
			return inv.undo(c.Context(), c, n)
		},
	}
}

func (inv *invocation) schemaCommand() *cobra.Command {
	names := []string{"result", "events", "status", "plan"}
	return &cobra.Command{
		Use:       "schema result|events|status|plan",
		Short:     "print the JSON Schema of the result document, of the events, the status or the plan",
		ValidArgs: names,
		Args:      wordsOf(1, 1, names...),
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "events":
				return inv.out.print(eventsSchema)
			case "status":
				return inv.out.print(statusSchema)
			case "plan":
				return inv.out.print(planSchema)
			}
			return inv.out.print(resultSchema)
		},
	}
}

func (inv *invocation) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "print the completion script for a shell",
		Long:      "Print the completion script for a shell. For bash: source <(ralph completion bash)",
		ValidArgs: shells,
		Args:      wordsOf(1, 1, shells...),
		RunE: func(c *cobra.Command, args []string) error {
			switch root := c.Root(); args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(inv.out, true); err != nil {
					return err
				}
				return inv.out.print(bashWords)
			case "zsh":
				return root.GenZshCompletion(inv.out)
			case "fish":
				return root.GenFishCompletion(inv.out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(inv.out)
			}
		},
	}
}

func (inv *invocation) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain Ralph or a command",
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			if len(args) == 0 {
				inv.help(root)
				return nil
			}
			for _, sub := range root.Commands() {
				if sub.Name() == args[0] && len(args) == 1 {
					inv.help(sub)
					return nil
				}
			}
			if slices.Contains(later(), args[0]) {
				return usage("ralph help lists the commands", "this version has no command %q yet", args[0])
			}
			return usage("ralph help lists the commands", "ralph help: unknown command %q", strings.Join(args, " "))
		},
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, sub := range c.Root().Commands() {
				names = append(names, fmt.Sprintf("%s\t%s", sub.Name(), sub.Short))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
