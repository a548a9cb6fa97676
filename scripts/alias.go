package scripts

import "strings"

// otherWord gives a word that is no command of ralph its meaning: other words to be run
// in its place, or the way to what was meant.
type otherWord struct {
	run  []string // the command of the same meaning; nil for none
	hint string
}

// otherWords returns what the words mean that are commands of the chat, of the
// programs that Ralph grew out of, or of other agents' command lines. They are never
// the text of a task.
//
// The words of other agents are those of their help texts: claude, codex, gemini,
// opencode, goose, amp, crush, cursor-agent, copilot, ralph-tui, wiggum.
func otherWords() map[string]otherWord {
	m := map[string]otherWord{}
	for word, to := range map[string]string{
		"generate-report": "report", "create-prd": "plan create", "convert": "plan convert", "setup": "init", "handoff": "sessions handoff",
		"prd": "plan create", "check-prd": "plan check", "validate": "plan check", "graph": "plan graph", "session": "sessions", "log": "logs",
	} {
		m[word] = otherWord{run: strings.Fields(to)}
	}
	add := func(hint string, words ...string) {
		for _, w := range words {
			if _, ok := m[w]; !ok {
				m[w] = otherWord{hint: hint}
			}
		}
	}
	inChat := func(words ...string) { // and has nothing like it elsewhere
		for _, w := range words {
			add("/"+w+" is a command of ralph chat", w)
		}
	}
	add("ralph plan show lists the tasks", "tasks", "task", "todo", "todos")
	add("ralph status shows the agents at work; /agents in ralph chat speaks to them", "agents", "agent")
	add("RALPH_GOALS.md holds the goals; /goals in ralph chat shows them", "goals")
	add("ralph status shows what waits; /queue in ralph chat changes it", "queue")
	add("ralph send --urgent TEXT says it now, to the Ralph that runs here", "now")
	add("ralph send --ask TEXT asks the Ralph that runs here", "ask")
	add("ralph send --later TEXT says it later, to the Ralph that runs here", "later")
	add("ralph sessions lists the sessions, ralph sessions show ID shows one", "ls")
	add("ralph status shows what runs here", "whoami")
	add("ralph resume goes on with what was paused", "go", "continue")
	add("ralph stop stops what runs here", "kill")
	add("ralph chat leaves with /exit", "exit", "quit")
	add(`--check CMD names what proves the work; /check in ralph chat runs it, ralph plan check reads a plan`, "check")
	add("git diff shows what changed; /diff in ralph chat what the last turn did", "diff")
	add("ralph logs shows the events", "output", "trace")
	add("--model NAME chooses one, ralph config shows it; /model in ralph chat lists them", "model", "models")
	inChat("mode")
	add("this ralph has no MCP, no hub and no workers on other machines", "mcp", "hub", "worker", "workers")
	add("ralph sessions show ID shows what a session cost, ralph analyze more", "cost", "usage", "stats")
	add("ralph logs and ralph analyze show how it was decided; /why TASK in ralph chat", "why")
	add("ralph config shows and changes the settings", "edit", "settings", "configure", "permissions", "approvals")
	add("ralph doctor shows what is there and what is missing", "info", "about", "debug", "sandbox")
	add("an endpoint's key is set with OPENAI_API_KEY, or api_key_env in the configuration; ralph doctor tests it", "login", "logout", "auth", "setup-token")
	add("ralph is updated as it was installed", "update", "upgrade", "install", "uninstall")
	add(`ralph "task" does one task`, "exec", "e")
	add("ralph run works through a plan", "loop")
	add("ralph sessions import takes over what other tools kept; ralph sessions export writes it", "import", "export")
	add("ralph undo takes the last turn back", "rewind", "revert", "restore", "checkpoint", "checkpoints")
	add("ralph monitor and ralph attach show it live", "tui", "serve", "web", "listen", "remote")
	add("ralph chat reviews what you ask it to", "review")
	add("ralph knows no such thing; ralph --help lists what it knows", "plugins", "plugin", "extensions", "skills", "template", "templates", "docs", "apply", "threads", "project", "projects", "recipe", "schedule", "bench", "github", "pr", "acp", "proto", "features", "cloud", "feedback", "bug", "vim", "terminal-setup", "theme", "tools", "editor", "directory", "privacy", "compress", "copy", "add-dir", "ide", "statusline", "mention", "app-server", "mcp-server", "memory", "hooks", "share", "unshare", "worktree", "worktrees")
	inChat("context", "compact", "clear", "new")
	add("ralph chat begins a conversation", "create-chat")
	add("ralph plan next shows the pick and its reasons", "next")
	return m
}

// meant returns the words that a first word stands for, or the usage error that names
// what was meant; both are nil where the word has no meaning of its own. A leading
// slash, as in the chat, changes nothing.
func meant(words []string) ([]string, error) {
	word := strings.ToLower(strings.TrimPrefix(words[0], "/"))
	m, ok := otherWords()[word]
	switch {
	case !ok:
		return nil, nil
	case m.run != nil:
		return append(m.run[:len(m.run):len(m.run)], words[1:]...), nil
	}
	return nil, usage(m.hint+"; to pass it as a task: "+taskLine(words), "%q is no command of ralph", words[0])
}
