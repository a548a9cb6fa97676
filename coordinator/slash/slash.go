// Package slash is the table of the chat's slash commands. The table is data:
// the chat's help and completion, script files and the docs derive from it. It
// does nothing; what a command does is the business of whoever looks it up.
//
//	c, near, ok := slash.Find("/statsu") // near: [status]
package slash

import (
	"strings"

	"github.com/sahilm/fuzzy"

	"ralph/memory/near"
)

// Command describes one slash command. It is a value.
type Command struct {
	Name    string // without the slash
	Args    string // as shown in help: "[N]"
	Summary string // one line
	Help    string // what /help NAME adds
	// WhileBusy says that it works while a turn is running.
	WhileBusy bool
}

// Table returns the commands, in the order in which help shows them.
func Table() []Command {
	return []Command{
		{"help", "[COMMAND]", "what can be typed here", "Without an argument it lists every command; with one it says all about it.", true},
		{"status", "", "what is going on: the turn, the tools, the queue", "", true},
		{"agents", "[AGENT | merge AGENT | prune [AGENT ...]]", "the children as a tree, or all about one of them", "/agents fix_login shows one agent: its task, what came of it, its files, its branch and where its conversation is. /agents merge fix_login brings the work of one that waits into your files; /agents prune removes the worktrees and branches of those whose work is in, or of those you name, after a question. `@fix_login: text` speaks to one that works, /stop fix_login stops it, /resume fix_login goes on with it.", true},
		{"now", "TEXT", "say something urgent: Ralph drops what it does and answers this first", "The request that runs is dropped, a tool that runs goes to the background and its result arrives later. Then the work goes on, unless the answer changed the plan. /now @AGENT: text interrupts one child only.", true},
		{"ask", "TEXT", "ask beside the work, which goes on", "Answered from what is known at this moment: no tools, nothing is changed.", true},
		{"later", "TEXT", "say something that is delivered when the work has ended", "A plain line, typed while Ralph works, is delivered sooner: after the tool that runs, before the next request.", true},
		{"queue", "[drop|edit|urgent ID [TEXT]]", "what waits to be delivered, and change it", "/queue drop m-3 takes a message out, /queue edit m-3 new text changes it, /queue urgent m-3 makes it urgent. `.ralph/queue.md` shows the same and can be edited.", true},
		{"stop", "[AGENT]", "stop all work at once, or one agent or job", "Like Ctrl-C. Nothing keeps running; what was done is kept. Then Ralph only talks, until /go. /stop AGENT stops that one alone: its work stays on its branch, and /resume AGENT goes on with it.", true},
		{"go", "[TEXT]", "go on with the work that was stopped, or do TEXT instead", "After a stop Ralph answers without touching anything; /go gives it its hands back.", false},
		{"resume", "[AGENT]", "go on with what was paused, or with one stopped agent", "Without an argument and after a stop it is /go. An agent that was interrupted can go on also after a restart; /agents shows which.", true},
		{"pause", "", "pause the work at the next boundary", "The tool that runs is finished first; /resume goes on.", true},
		{"run", "[FLAGS]", "work the plan by itself: task after task, side by side where it can be", "Flags as of `ralph run`: --plan FILE, --tracker NAME, --epic ID (repeated), --parallel N, --max-iterations N, --select EXPR, --agent NAME, --fallback-agent NAME, --feature NAME, --check CMD, --dry-run (the order and why), --continue (a run that was paused or interrupted), --new, --human-intervention MODE and the others. Lines typed while it runs go to Ralph, `@fix_login: text` to one child; /pause, /resume, /stop and /go are for the run too.", false},
		{"plan", "[show | next | graph | switch [PLAN | EPIC ...]]", "the plan, what comes next and why; another plan or epic", "/plan shows the plan with each task's state, /plan next the task that would be taken and why, /plan graph the order, the critical path and what each task makes ready. /plan switch lets you pick a plan or the epics; /plan switch prd.json or /plan switch EPIC-1 EPIC-2 names them. During a run the switch is made when the tasks at work have ended.", true},
		{"why", "TASK", "why a task is done now, later or not at all: scores, confidence, checks", "The sum behind the last decision about it, with the facts that it was made of.", true},
		{"tasks", "", "the tasks of RALPH_TASKS.md, those at work first", "The file is yours too: edit it at any time, Ralph picks your changes up and keeps your words.", true},
		{"goals", "", "the goals of RALPH_GOALS.md", "", true},
		{"context", "", "what the model sees: each part, its tokens, where it comes from and why it is in", "", true},
		{"compact", "", "make the conversation shorter now; what is left out is summarised", "It is done by itself when the model's window is nearly full. The whole conversation stays on disk.", false},
		{"trace", "FILE", "which turns changed a file, and what you had said", "It looks through all sessions of the project, and follows renames.", true},
		{"sessions", "", "the newest sessions of this project", "`ralph sessions` on the command line does more: show, archive, prune, summarize, handoff, merge, import, export.", true},
		{"model", "[NAME]", "show or choose the model", "Without a name it lists the models of the endpoint to pick from. The choice holds for this session.", false},
		{"cost", "", "tokens and money spent in this session", "The cost is shown as unknown when neither the endpoint nor `prices` in the user's config says what the model costs.", true},
		{"undo", "[N]", "take back the files changed by the last turn, or the last N", "It refuses, and touches nothing, when one of the files was edited since.", false},
		{"diff", "[AGENT]", "what the last turn changed, or what one agent did", "/diff AGENT shows the work of one child against the state it began with, merged or not.", false},
		{"clear", "", "begin a new conversation", "The old one stays in the session directory.", false},
		{"exit", "", "leave; the conversation can be continued with `ralph chat --continue`", "Ctrl-D on an empty line does the same.", true},
	}
}

// Addressed takes a line apart that begins with the name of somebody it is for:
// "@fix_login: text" gives fix_login and text. A file that is mentioned has a dot
// or a slash in it, or no colon behind it: then ok is false.
func Addressed(line string) (to, text string, ok bool) {
	body, ok := strings.CutPrefix(strings.TrimSpace(line), "@")
	if !ok {
		return "", "", false
	}
	to, text, ok = strings.Cut(body, ":")
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if !ok || to == "" || strings.TrimFunc(to, plain) != "" || strings.HasPrefix(text, "//") {
		return "", "", false
	}
	return to, strings.TrimSpace(text), true
}

// Find looks up a command by its name, with or without the slash. When
// there is none, suggestions holds the names that come close.
func Find(name string) (cmd Command, suggestions []string, ok bool) {
	name = strings.TrimPrefix(name, "/")
	table := Table()
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
