package scripts

import (
	"context"
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
	flags, words, dashed := separate(args, root.PersistentFlags())
	if len(words) > 0 && isCompletion(words[0]) {
		inv.complete(root)
	}
	parse, err := args, error(nil)
	switch {
	case len(words) == 0 || !dashed && isCommand(root, words[0]):
	case dashed:
		parse = slices.Concat(flags, []string{"--"}, words)
	default:
		if parse, err = inv.guard(root, args, words); parse == nil && err == nil {
			// "--" keeps cobra from looking for a command among the words.
			parse = slices.Concat(flags, []string{"--"}, words)
		}
	}
	if err == nil {
		root.SetArgs(parse)
		err = root.ExecuteContext(ctx)
	}
	if err != nil && !inv.parsed {
		inv.form = guessOutput(args, inv.Getenv)
		inv.out.resultFile = guessFlag(args, "result-file", inv.Getenv("RALPH_RESULT_FILE"))
	}
	return err
}

// guard returns the arguments with the command for which their first word, which is
// none, stands; nil for a task. What was most likely meant as a command is an error.
func (inv *invocation) guard(root *cobra.Command, args, words []string) ([]string, error) {
	if words[0] == "-" {
		return nil, nil
	}
	if in, err := meant(words[:1]); in != nil || err != nil {
		if err != nil {
			_, err = meant(words) // with the whole text in its hint
			return nil, err
		}
		at, _ := firstWord(args, root.PersistentFlags())
		return slices.Concat(args[:at], in, args[at+1:]), nil
	}
	known := map[string][]string{"help": nil}
	for _, c := range root.Commands() {
		known[c.Name()] = c.ValidArgs
	}
	return nil, guardTask(words, known)
}

// isCompletion says whether a word is what the completion scripts ask with.
func isCompletion(word string) bool {
	return word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd
}

func isCommand(root *cobra.Command, word string) bool {
	if isCompletion(word) || word == "help" {
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
			if inv.version {
				return inv.printVersion(c)
			}
			if len(words) == 0 && isTerminal(inv.Stdin) && isTerminal(inv.Stdout) {
				return inv.chat(c.Context(), c, ChatOptions{})
			}
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
	root.Flags().BoolVarP(&inv.version, "version", "v", false, "print the version")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagFault(err, c) })
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { inv.help(c) })
	root.SetHelpCommand(inv.helpCommand())
	root.AddCommand(inv.chatCommand(), inv.runCommand(), inv.scriptCommand(), inv.planCommand(), inv.configCommand(), inv.doctorCommand(), inv.demoCommand(), inv.undoCommand(), inv.redoCommand(),
		inv.statusCommand(), inv.monitorCommand(), inv.logsCommand(), inv.attachCommand(), inv.sendCommand(), inv.stopCommand(), inv.pauseCommand(),
		inv.resumeCommand(), inv.recoverCommand(), inv.sessionsCommand(),
		inv.schemaCommand(), inv.completionCommand(), inv.versionCommand())
	root.AddCommand(inv.tellCommands()...)
	root.AddCommand(inv.initCommand())
	return root
}

// wordsOf returns a check of how many words a command takes, and which.
func wordsOf(least, most int, valid ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		help := "ralph " + c.Name() + " --help"
		switch {
		case len(args) > most && most == 0:
			return usage(help+asTask(c, args), "ralph %s takes no %q", c.Name(), args[0])
		case len(args) > most:
			return usage(help+asTask(c, args), "ralph %s: one word too many: %q", c.Name(), args[most])
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

// whichSession is --resume without an ID. A session of that name is meant by its
// number.
const whichSession = "?"

func (inv *invocation) chatCommand() *cobra.Command {
	var goOn, fresh bool
	var resume string
	c := &cobra.Command{
		Use:   "chat [MESSAGE] [--continue | --resume [ID] | --new]",
		Short: "talk with Ralph",
		Long: "Talk with Ralph. Without a flag it begins a new session, or goes on with the newest when that was interrupted or cut off; " +
			"without a terminal it does not guess then: --continue or --new has to say it.\n" +
			"MESSAGE is what you say first; several words are joined. What you type while Ralph works is delivered at the next boundary; Ctrl-C stops everything. /help in the chat lists what can be typed there.\n" +
			"Example: ralph chat\nExample: ralph chat --continue\nExample: ralph chat --resume\nExample: ralph chat --new -m gpt-5 --edit-mode vi",
	}
	c.Flags().BoolVar(&goOn, "continue", false, "go on with the newest session")
	c.Flags().StringVar(&resume, "resume", "", "go on with the session `ID`, a unique prefix of one or a name; without ID it asks which")
	c.Flags().Lookup("resume").NoOptDefVal = whichSession
	c.Flags().BoolVar(&fresh, "new", false, "begin a new session")
	addFlags(c.Flags(), inv.keys, config.ScopeChat)
	c.RunE = func(c *cobra.Command, args []string) error {
		var o ChatOptions
		n := 0
		if goOn {
			o.Session, n = "last", n+1
		}
		if fresh {
			o.Session, n = "new", n+1
		}
		if c.Flags().Changed("resume") {
			n++
			if resume == whichSession && len(args) > 0 {
				resume, args = args[0], args[1:] // a flag whose value can be left out does not take the next word
			}
			if o.Session = strings.TrimSpace(resume); o.Session == "" {
				return usage("ralph chat --resume asks which session, ralph chat --continue goes on with the newest", "--resume needs a session's id")
			}
			if resume == whichSession {
				o.Session, o.Choose = "", true
			}
		}
		if n > 1 {
			return usage("ralph chat --help", "--continue, --resume and --new exclude each other")
		}
		if o.First = strings.TrimSpace(strings.Join(args, " ")); len(args) > 0 && o.First == "" {
			return usage("ralph chat --help", "the message is empty")
		}
		return inv.chat(c.Context(), c, o)
	}
	return c
}

func (inv *invocation) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "see Ralph at work, with recorded replies: needs no model and no network",
		Long: "See Ralph at work on a small git project that it makes for that purpose and removes again: three agents mend three tests, side by side, and are spoken to, stopped and resumed. " +
			"The replies of the model are recorded; everything else is real. It needs Go and git, no model and no network.\nExample: ralph demo",
		Args: wordsOf(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return inv.demo(c.Context(), c)
		},
	}
}

func (inv *invocation) undoCommand() *cobra.Command {
	return inv.stepCommand("undo", "take back what Ralph changed in the last N turns (1 without N)",
		"Take back what Ralph changed in the last N turns that changed files. Files that you changed meanwhile or since, or may have, are kept and listed. "+
			"Commits by which the work of agents came to your branch go with it, which is said first; ralph redo brings all of it back.\nExample: ralph undo\nExample: ralph undo 2", false)
}

func (inv *invocation) redoCommand() *cobra.Command {
	return inv.stepCommand("redo", "bring back what undo took back, for the last N turns (1 without N)",
		"Bring back what ralph undo took back, as long as no other work has changed files since. Files that you changed since are kept and listed.\n"+
			"Example: ralph redo\nExample: ralph redo 2", true)
}

func (inv *invocation) stepCommand(name, short, long string, redo bool) *cobra.Command {
	return &cobra.Command{
		Use: name + " [N]", Short: short, Long: long,
		ValidArgs: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"},
		Args:      wordsOf(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			n := 1
			if len(args) == 1 {
				var err error
				if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
					return usage("ralph "+name+" 2 takes two turns", "ralph %s: %q is not a number of turns", name, args[0])
				}
			}
			return inv.undo(c.Context(), c, n, redo)
		},
	}
}
