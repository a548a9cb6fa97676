package coordinator

import (
	"strings"

	"github.com/sahilm/fuzzy"

	"ralph/memory/near"
)

// Command describes one slash command. The table is data: the chat's help and
// completion, script files and the control socket derive from it.
type Command struct {
	Name    string // without the slash
	Args    string // as shown in help: "[N]"
	Summary string // one line
	Help    string // what /help NAME adds
	// WhileBusy says that it works while a turn is running.
	WhileBusy bool
}

// Commands returns the table, in the order in which help shows it.
func Commands() []Command {
	return []Command{
		{"help", "[COMMAND]", "what can be typed here", "Without an argument it lists every command; with one it says all about it.", true},
		{"status", "", "what is going on: the turn, the tools, the queue", "", true},
		{"tasks", "", "the tasks of RALPH_TASKS.md, those at work first", "The file is yours too: edit it at any time, Ralph picks your changes up and keeps your words.", true},
		{"goals", "", "the goals of RALPH_GOALS.md", "", true},
		{"context", "", "what the model sees: each part, its tokens, where it comes from and why it is in", "", true},
		{"compact", "", "make the conversation shorter now; what is left out is summarised", "It is done by itself when the model's window is nearly full. The whole conversation stays on disk.", false},
		{"trace", "FILE", "which turns changed a file, and what you had said", "It looks through all sessions of the project, and follows renames.", true},
		{"sessions", "", "the newest sessions of this project", "`ralph sessions` on the command line does more: show, archive, prune, summarize, handoff, merge, import, export.", true},
		{"model", "[NAME]", "show or choose the model", "Without a name it lists the models of the endpoint to pick from. The choice holds for this session.", false},
		{"cost", "", "tokens and money spent in this session", "The cost is shown as unknown when neither the endpoint nor `prices` in the user's config says what the model costs.", true},
		{"undo", "[N]", "take back the files changed by the last turn, or the last N", "It refuses, and touches nothing, when one of the files was edited since.", false},
		{"diff", "", "what the last turn changed", "", false},
		{"clear", "", "begin a new conversation", "The old one stays in the session directory.", false},
		{"exit", "", "leave; the conversation can be continued with `ralph chat --continue`", "Ctrl-D on an empty line does the same.", true},
	}
}

// FindCommand looks up a command by its name, with or without the slash. When
// there is none, suggestions holds the names that come close.
func FindCommand(name string) (cmd Command, suggestions []string, ok bool) {
	name = strings.TrimPrefix(name, "/")
	table := Commands()
	names := make([]string, len(table))
	for i, c := range table {
		if c.Name == name {
			return c, nil, true
		}
		names[i] = c.Name
	}
	for _, m := range fuzzy.Find(name, names) {
		suggestions = append(suggestions, m.Str)
	}
	if word := near.Closest(name, names); len(suggestions) == 0 && word != "" {
		suggestions = append(suggestions, word)
	}
	return Command{}, suggestions, false
}
