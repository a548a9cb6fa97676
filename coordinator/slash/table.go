package slash

import "slices"

// The headings below which help lists the commands.
const (
	groupNow     = "what is going on"
	groupSay     = "say something while Ralph works"
	groupStop    = "stop and go on"
	groupDone    = "what was done"
	groupModel   = "what the model sees and costs"
	groupSession = "sessions"
	groupPlan    = "the plan"
	groupOwn     = "the rest"
)

// Table returns the commands, in the order in which help shows them. The caller
// owns the slice.
func Table() []Command {
	return slices.Concat(nowCommands(), stopCommands(), doneCommands(), sessionCommands(), ownCommands())
}

func nowCommands() []Command {
	return []Command{
		{Name: "help", Args: "[COMMAND]", Summary: "what can be typed here", WhileBusy: true, Group: groupNow, Aliases: []string{"?"},
			Help: "Without an argument it lists every command; with one it says all about it. It also knows @, ! and keys.",
			Examples: []Example{
				{"/help undo", "all about /undo"},
				{"/help keys", "what the keys do"},
				{"/help @", "files and agents in a line"},
				{"/help !", "commands of your own"},
			}},
		{Name: "status", Summary: "what is going on: the turn, the tools, the queue", WhileBusy: true, Group: groupNow,
			Help: "It also says which model answers, how far a run is, what waits and what the session has used."},
		{Name: "agents", Args: "[AGENT | merge AGENT | prune [AGENT ...]]", Summary: "the children as a tree, or all about one of them", WhileBusy: true, Group: groupNow,
			Help: "Agents are children that work side by side, each in a copy of the project of its own. merge brings the work of one that waits into your files; prune removes the worktrees and branches of those whose work is in, or of those you name, after a question. merge and prune wait until nothing runs.",
			Examples: []Example{
				{"/agents fix_login", "its task, what came of it, its files, its branch and its conversation"},
				{"/agents merge fix_login", "its work into your files"},
				{"/agents prune", "what merged agents left behind goes"},
				{"@fix_login: use tabs", "speak to one that works"},
				{"/stop fix_login", "stop it; /resume fix_login goes on with it"},
			}},
		{Name: "tasks", Summary: "the tasks of the plan in use and of RALPH_TASKS.md", WhileBusy: true, Group: groupNow,
			Help:     "The file is yours too: edit it at any time, Ralph picks your changes up and keeps your words.",
			Examples: []Example{{"/edit tasks", "opens the file in your editor"}}},
		{Name: "goals", Summary: "the goals of RALPH_GOALS.md", WhileBusy: true, Group: groupNow,
			Help:     "Goals are what the tasks are for. The file is yours too.",
			Examples: []Example{{"/edit goals", "opens the file in your editor"}}},
		{Name: "queue", Args: "[drop|edit|urgent ID [TEXT]]", Summary: "what waits to be delivered, and change it", WhileBusy: true, Group: groupNow,
			Help: "`.ralph/queue.md` shows the same; what is changed there is not read.",
			Examples: []Example{
				{"/queue drop m-3", "take a message out"},
				{"/queue edit m-3 new text", "change it; without the text it stands in the prompt to be changed"},
				{"/queue urgent m-3", "make it urgent"},
			}},
		{Name: "now", Args: "TEXT", Summary: "say something urgent: Ralph drops what it does and answers this first", WhileBusy: true, Group: groupSay,
			Help: "The request that runs is dropped, a tool that runs goes to the background and its result arrives later. Then the work goes on, unless the answer changed the plan.",
			Examples: []Example{
				{"/now the port is 8081, not 8080", "answered first, then the work goes on"},
				{"/now @fix_login: stop editing main.go", "interrupts one child only"},
			}},
		{Name: "ask", Args: "TEXT", Summary: "ask beside the work, which goes on", WhileBusy: true, Group: groupSay,
			Help:     "Answered from what is known at this moment: no tools, nothing is changed.",
			Examples: []Example{{"/ask what is left to do?", "answered beside the work"}}},
		{Name: "later", Args: "TEXT", Summary: "say something that is delivered when the work has ended", WhileBusy: true, Group: groupSay,
			Help: "A plain line, typed while Ralph works, is delivered sooner: after the tool that runs, before the next request.",
			Examples: []Example{
				{"/later then update the README", "the next work"},
				{"/later @docs: and in German", "for one child, when it is done"},
			}},
	}
}

func stopCommands() []Command {
	return []Command{
		{Name: "stop", Args: "[AGENT]", Summary: "stop all work at once, or one agent or job", WhileBusy: true, Group: groupStop,
			Help: "Like Ctrl-C. Nothing keeps running; what was done is kept. Then Ralph only talks, until /go.",
			Examples: []Example{
				{"/stop", "everything"},
				{"/stop fix_login", "that one alone: its work stays on its branch, /resume fix_login goes on with it"},
				{"/stop bg-1", "a job in the background"},
			}},
		{Name: "go", Args: "[TEXT]", Summary: "go on with the work that was stopped, or do TEXT instead", Group: groupStop,
			Help: "After a stop Ralph answers without touching anything; /go gives it its hands back. While the work is paused it lets it go on.",
			Examples: []Example{
				{"/go", "goes on where it stood"},
				{"/go but leave the tests alone", "does that instead"},
			}},
		{Name: "resume", Args: "[AGENT [TEXT]]", Summary: "go on with what was paused, or with one stopped agent", WhileBusy: true, Group: groupStop,
			Help: "Without an argument and after a stop it is /go. An agent that was interrupted can go on also after a restart; /agents shows which. One agent goes on when nothing else runs.",
			Examples: []Example{
				{"/resume", "what was paused"},
				{"/resume fix_login with tabs", "one agent, and what it is told"},
			}},
		{Name: "pause", Summary: "pause the work at the next boundary", WhileBusy: true, Group: groupStop,
			Help: "The tool that runs is finished first; /resume goes on."},
	}
}

func doneCommands() []Command {
	return []Command{
		{Name: "undo", Args: "[N]", Summary: "take back the files changed by the last turn, or the last N", Group: groupDone,
			Help:     "It takes back what Ralph changed. What you changed meanwhile or since, or may have, is kept and listed. Commits of agents leave your branch with it, which is said first; /redo brings all of it back.",
			Examples: []Example{{"/undo", "the last turn"}, {"/undo 3", "the last three"}}},
		{Name: "redo", Args: "[N]", Summary: "bring back what /undo took back", Group: groupDone,
			Help:     "It works until other work changes files. What you changed since is kept and listed.",
			Examples: []Example{{"/redo", "the last turn that was undone"}, {"/redo 3", "the last three"}}},
		{Name: "diff", Args: "[AGENT]", Summary: "what the last turn changed, or what one agent did", Group: groupDone,
			Help:     "With an agent's name it works at any time, and shows the work of that child against the state it began with, merged or not.",
			Examples: []Example{{"/diff", "the last turn"}, {"/diff fix_login", "one agent"}}},
		{Name: "context", Summary: "what the model sees: each part, its tokens, where it comes from and why it is in", WhileBusy: true, Group: groupModel,
			Help: "Tokens are estimated; in brackets stands what the model does not see, and why."},
		{Name: "compact", Summary: "make the conversation shorter now; what is left out is summarised", Group: groupModel,
			Help: "It is done by itself when the model's window is nearly full. The whole conversation stays on disk."},
		{Name: "trace", Args: "[FILE]", Summary: "which turns changed a file, and what you had said", WhileBusy: true, Group: groupModel,
			Help:     "It looks through all sessions of the project, and follows renames. Without a file it lets you pick one.",
			Examples: []Example{{"/trace main.go", "who changed it, when and why"}}},
		{Name: "model", Args: "[NAME]", Summary: "show or choose the model", Group: groupModel,
			Help:     "Without a name it lists the models of the endpoint to pick from. The choice holds for this session.",
			Examples: []Example{{"/model", "pick one"}, {"/model gpt-5-mini", "take that one"}}},
		{Name: "cost", Summary: "tokens and money spent in this session", WhileBusy: true, Group: groupModel,
			Help: "The cost is shown as unknown when neither the endpoint nor `prices` in the user's config says what the model costs."},
	}
}

func sessionCommands() []Command {
	return []Command{
		{Name: "sessions", Args: "[SESSION | switch [SESSION]]", Summary: "the newest sessions of this project, one of them, or go on with another", WhileBusy: true, Group: groupSession,
			Help: "switch saves and closes this session first; what is half typed stays. While Ralph works a switch is refused. `ralph sessions` on the command line does more: archive, prune, summarize, merge, import, export.",
			Examples: []Example{
				{"/sessions", "the list"},
				{"/sessions 004", "all about one"},
				{"/sessions switch", "pick one and go on with it"},
			}},
		{Name: "handoff", Args: "[SESSION | to SESSION]", Summary: "begin a new session that knows what this one knows, or pass it on", Group: groupSession,
			Help: "What is handed on is the gist: goals, decisions, open tasks and what was learnt, not every word. While Ralph works it is refused, and says how to go on.",
			Examples: []Example{
				{"/handoff", "a new session that knows what this one knows"},
				{"/handoff 004", "what session 004 knows comes into this one"},
				{"/handoff to 004", "session 004 gets what this one knows"},
			}},
		{Name: "plan", Args: "[show | next | graph | switch [PLAN | EPIC ...]]", Summary: "the plan, what comes next and why; another plan or epic", WhileBusy: true, Group: groupPlan,
			Help: "During a run the switch is made when the tasks at work have ended.",
			Examples: []Example{
				{"/plan", "the plan with each task's state"},
				{"/plan next", "the task that would be taken now, and why"},
				{"/plan graph", "the order, the critical path and what each task makes ready"},
				{"/plan switch", "pick a plan or the epics"},
				{"/plan switch prd.json EPIC-1", "name them"},
			}},
		{Name: "run", Args: "[FLAGS]", Summary: "work the plan by itself: task after task, side by side where it can be", Group: groupPlan,
			Help: "Flags as of `ralph run`: --plan FILE, --tracker NAME, --epic ID (repeated), --parallel N, --max-iterations N, --select EXPR, --agent NAME, --fallback-agent NAME, --feature NAME, --check CMD, --dry-run (the order and why), --continue (a run that was paused or interrupted), --new, --human-intervention MODE and the others. Lines typed while it runs go to Ralph, `@fix_login: text` to one child; /pause, /resume, /stop and /go are for the run too.",
			Examples: []Example{
				{"/run --dry-run", "what would be done, in which order"},
				{"/run --parallel 4 --check 'go test ./...'", "four tasks at a time, each checked"},
				{"/run --continue", "goes on with a run that was paused or interrupted"},
			}},
		{Name: "why", Args: "[TASK]", Summary: "why a task is done now, later or not at all: scores, confidence, checks", WhileBusy: true, Group: groupPlan,
			Help:     "The sum behind the last decision about it, with the facts that it was made of. Without a task it lets you pick one.",
			Examples: []Example{{"/why T-12", "the sum behind its place"}}},
	}
}

func ownCommands() []Command {
	return []Command{
		{Name: "check", Args: "[COMMAND]", Summary: "run the project's checks now, or one command as a check", Group: groupOwn,
			Help: "Without a command: the check of your configuration, else the test, build and lint commands that were found in the project. They run in the sandbox, as Ralph's own checks do.",
			Examples: []Example{
				{"/check", "the project's checks"},
				{"/check go vet ./...", "that command"},
			}},
		{Name: "edit", Args: "[FILE]", Summary: "write the line in your editor, or open a file there", WhileBusy: true, Group: groupOwn,
			Help: "The editor is $VISUAL, else $EDITOR, else vi or nano. Without a file, what you save stands in the prompt and is not sent yet; Ctrl-X Ctrl-E takes a line that you have begun into the editor. The files of Ralph's memory have short names: tasks, goals, todo, progress, agent. What Ralph prints meanwhile waits.",
			Examples: []Example{
				{"/edit", "a long line, in comfort"},
				{"/edit main.go", "a file of the project"},
				{"/edit tasks", "RALPH_TASKS.md"},
			}},
		{Name: "config", Args: "[KEY | all]", Summary: "the settings: each value, where it comes from and what sets it", WhileBusy: true, Group: groupOwn,
			Help: "Without a key it lists what is not as by default; all lists every setting. Secrets are never shown. `ralph config` on the command line does the same.",
			Examples: []Example{
				{"/config sandbox", "one setting, and how it is set"},
				{"/config all", "every setting"},
			}},
		{Name: "clear", Summary: "begin a new conversation", Group: groupOwn, Aliases: []string{"new", "reset"},
			Help: "The old one stays in the session directory."},
		{Name: "exit", Summary: "leave; the conversation can be continued with `ralph chat --continue`", WhileBusy: true, Group: groupOwn, Aliases: []string{"quit", "q"},
			Help: "Ctrl-D on an empty line does the same."},
	}
}

// Topics are what /help can tell besides the commands. The caller owns the slice.
func Topics() []Command {
	return []Command{
		{Name: "@", Args: "FILE or @AGENT: TEXT", Summary: "files and agents in a line", WhileBusy: true, Aliases: []string{"files", "mentions"},
			Help: "A file that is named with @ goes along with what you say; a folder gives its list. Tab completes the name: its beginning, or some letters of it. A name with blanks stands in quotes. At the beginning of a line @ and the name of an agent, with a colon, speaks to that agent.",
			Examples: []Example{
				{"what does @main.go do?", "with the text of main.go"},
				{"shorten @\"my notes.md\"", "a name with blanks"},
				{"@fix_login: use tabs", "to one agent that works"},
			}},
		{Name: "!", Args: "COMMAND", Summary: "a shell command of your own", WhileBusy: true, Aliases: []string{"shell", "bash"},
			Help: "It runs in the project's folder with your rights and your environment, at once, also while Ralph works or only talks. What it prints is shown as it comes, a long output with its beginning and its end; Ralph reads it with your next line. It reads nothing from the keyboard: a program that does needs another terminal. What it leaves in the background ends with it; a server runs without &, and /now talks beside it. Ctrl-C ends it.",
			Examples: []Example{
				{"!go test ./...", "run it, and then: what is wrong here?"},
				{"!cd web && npm start", "each begins in the project's folder; Ctrl-C ends this one"},
				{"!git log --oneline -5", "anything that your shell can do"},
			}},
		{Name: "keys", Summary: "what the keys do", WhileBusy: true, Aliases: []string{"key", "keyboard", "shortcuts"},
			Help: "These are the emacs keys; `--edit-mode vi` gives those of vi. A line that begins with a blank is not kept in the history.",
			Examples: []Example{
				{"Enter", "sends the line; while Ralph works it is delivered after the tool that runs"},
				{"Alt-Enter, or \\ Enter", "begins another line"},
				{"Tab", "completes commands, @files, agents, tasks, models"},
				{"Up, Down", "earlier lines of this project"},
				{"Ctrl-R", "searches them"},
				{"Ctrl-X Ctrl-E", "goes on with the line in your editor"},
				{"Ctrl-_", "takes the last change of the line back"},
				{"Ctrl-L", "clears the screen"},
				{"Ctrl-Z", "suspends Ralph; fg brings it back"},
				{"Ctrl-C", "stops the work and keeps what you typed; twice kills it, three times leaves"},
				{"Ctrl-D", "on an empty line, leaves"},
			}},
	}
}
