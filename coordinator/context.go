package coordinator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/prompt"
	"ralph/coordinator/transcript"
	"ralph/memory"
	"ralph/memory/history"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// ContextBlock is one part of what the model sees, or of what is left out of it.
type ContextBlock struct {
	// Name is what the part is: "system prompt", "goals", "recent turns".
	Name string `json:"name"`
	// Source is the file or journal that it comes from, relative to the root.
	Source string `json:"source"`
	// Tokens is an estimate.
	Tokens int `json:"tokens"`
	// Why says in a few words why it is in, or why it is not.
	Why string `json:"why"`
	// Messages counts the messages of the part, 0 where it has none.
	Messages int `json:"messages,omitempty"`
	// LeftOut says that the model does not see it.
	LeftOut bool `json:"left_out,omitempty"`
}

// Context lists what the model sees, block by block in the order of a request,
// and then what is left out. While work is under way it is the request that was
// made last.
func (c *Coordinator) Context() []ContextBlock {
	p := &c.past
	p.mu.Lock()
	tools, job := p.tools, p.job
	state := p.state
	more := p.more
	p.mu.Unlock()
	estimate := c.estimate.For(c.Endpoint().Model)
	transcript := c.present()
	if tools == nil {
		job = Job{Chat: c.opt.Holder == "chat"}
		tools = c.toolbox(job, c.station, 0)
	}
	blocks := c.promptBlocks(job, estimate)
	blocks = append(blocks, toolsBlock(tools, estimate))
	if line, _ := estimate.Learned(); line.Fixed >= 1 {
		blocks = append(blocks, ContextBlock{Name: "template", Source: "the endpoint", Tokens: int(line.Fixed), Why: "what each request costs beside its text, as far as its reports tell"})
	}
	return append(blocks, talkBlocks(transcript, state, more, c.journalName(), estimate)...)
}

// present is the conversation as it is now: while work is under way, as far as
// the last request had it.
func (c *Coordinator) present() []agent.Message {
	c.past.mu.Lock()
	view := c.past.view
	c.past.mu.Unlock()
	if busy := len(c.running) > 0; busy && len(view) > 0 {
		return view[1:]
	}
	return c.History()
}

// promptBlocks takes the system prompt apart.
func (c *Coordinator) promptBlocks(j Job, estimate *history.Estimate) []ContextBlock {
	text, err := c.systemPrompt(j)
	if err != nil {
		return []ContextBlock{{Name: "system prompt", Source: "built in", Why: "cannot be made: " + err.Error(), LeftOut: true}}
	}
	c.mu.Lock()
	facts := c.facts
	c.mu.Unlock()
	parts := []ContextBlock{
		{Name: "goals", Source: memory.GoalsFile, Tokens: estimate.Tokens(len(facts.Goals)), Why: "pinned: the project's goals"},
		{Name: "tasks", Source: memory.TasksFile, Tokens: estimate.Tokens(len(facts.Tasks)), Why: "pinned: what is open"},
		{Name: "git", Source: "git status", Tokens: estimate.Tokens(len(facts.Git)), Why: "how the tree was when the system prompt was made"},
		{Name: "progress", Source: memory.ProgressFile, Tokens: estimate.Tokens(len(facts.Progress)), Why: "the newest of what was done"},
		{Name: "todo", Source: memory.TodoFile, Tokens: estimate.Tokens(len(facts.Todo)), Why: "what is to do"},
		{Name: "learnings", Source: memory.AgentFile, Tokens: estimate.Tokens(len(facts.Learned)), Why: "pinned: the newest of what was learned"},
	}
	for _, doc := range facts.Instructions {
		parts = append(parts, ContextBlock{Name: "instructions", Source: doc.Name, Tokens: estimate.Tokens(len(doc.Text)), Why: "pinned: the repository says how to work here"})
	}
	rest := estimate.Tokens(len(text))
	blocks := []ContextBlock{{Name: "system prompt", Source: "built in", Why: "pinned: the rules, the project, how commands run"}}
	for _, p := range parts {
		if p.Tokens > 0 {
			rest -= p.Tokens
			blocks = append(blocks, p)
		}
	}
	blocks[0].Tokens = max(rest, 0)
	return blocks
}

func toolsBlock(tools []agent.Tool, estimate *history.Estimate) ContextBlock {
	return ContextBlock{Name: "tools", Source: "built in", Tokens: estimate.Tokens(requestBytes(agent.Request{Tools: tools})),
		Why: fmt.Sprintf("the schemas of %s", text.Count(len(tools), "tool"))}
}

// talkBlocks takes the conversation apart.
func talkBlocks(conversation []agent.Message, state pastState, more bool, source string, estimate *history.Estimate) []ContextBlock {
	var blocks []ContextBlock
	add := func(name, source, why string, list []agent.Message) {
		if len(list) > 0 {
			blocks = append(blocks, ContextBlock{Name: name, Source: source, Why: why, Messages: len(list), Tokens: estimate.Tokens(bytesIn(list))})
		}
	}
	rest := conversation
	if len(rest) > 0 && state.Front != "" && rest[0].Text == state.Front {
		parts := []struct{ name, text, source, why string }{
			{"summary", state.Summary, "summary in " + source, "stands for what was left out"},
			{"working memory", state.Working.String(), "the conversation's tool calls", "where the work stood when the conversation was compacted"},
		}
		left := estimate.Tokens(messageBytes(rest[0]))
		for _, p := range parts {
			if p.text != "" {
				n := min(estimate.Tokens(len(p.text)), left)
				left -= n
				blocks = append(blocks, ContextBlock{Name: p.name, Source: p.source, Why: p.why, Tokens: n})
			}
		}
		why := "what Ralph says of the messages that are left out"
		if state.Excerpts > 0 {
			why += fmt.Sprintf(", with %s chosen for the task", text.Count(state.Excerpts, "excerpt"))
		}
		blocks = append(blocks, ContextBlock{Name: "earlier messages", Source: source, Why: why, Tokens: left, Messages: 1})
		rest = rest[1:]
		older := min(state.Older, len(rest))
		add("older turns", source, "older messages that were kept: "+state.OlderWhy, rest[:older])
		rest = rest[older:]
	}
	var recent, recalled []agent.Message
	for _, m := range rest {
		if transcript.IsRecall(m) {
			recalled = append(recalled, m)
		} else {
			recent = append(recent, m)
		}
	}
	add("recalled", source, "excerpts of older messages, chosen by relevance when a task began", recalled)
	add("recent turns", source, "the conversation since then, whole", recent)
	if working := (workingMemory{}).With(conversation); state.Front == "" && working.String() != "" {
		blocks = append(blocks, ContextBlock{Name: "working memory", Source: "the conversation's tool calls", LeftOut: true,
			Tokens: estimate.Tokens(len(working.String())), Why: "the model sees the calls themselves; told after a compaction or when older messages are not loaded"})
	}
	if state.Elided > 0 {
		blocks = append(blocks, ContextBlock{Name: "old results", Source: source, Messages: state.Elided, LeftOut: true, Why: "elided: the results of old calls make room first"})
	}
	switch {
	case state.LeftOut > 0:
		blocks = append(blocks, ContextBlock{Name: "left out", Source: source, Messages: state.LeftOut, Tokens: estimate.Tokens(state.LeftOutBytes), LeftOut: true, Why: state.Why})
	case more:
		blocks = append(blocks, ContextBlock{Name: "left out", Source: source, LeftOut: true, Why: "older messages are loaded and searched only when a task needs them"})
	}
	return blocks
}

func bytesIn(list []agent.Message) int {
	n := 0
	for _, m := range list {
		n += messageBytes(m)
	}
	return n
}

// workingMemory is where the work stands, as the tool calls of a conversation
// tell it, the newest of each kind first. It is a value.
type workingMemory struct {
	Files  []string `json:"files,omitempty"`  // "changed a.go", "read b.go"
	Checks []string `json:"checks,omitempty"` // commands and how they ended
	Notes  []string `json:"notes,omitempty"`
	Tasks  []string `json:"tasks,omitempty"` // as last reported: "T-3 title (status)"
}

// How many entries of each kind are remembered, and how long one may be, in
// bytes.
const (
	maxActiveFiles = 16
	maxRecentRuns  = 6
	maxNotes       = 8
	maxWorkBytes   = 240
)

// With returns the working memory after these messages too.
func (w workingMemory) With(transcript []agent.Message) workingMemory {
	w = workingMemory{slices.Clone(w.Files), slices.Clone(w.Checks), slices.Clone(w.Notes), slices.Clone(w.Tasks)}
	calls := map[string]agent.Call{}
	for _, m := range transcript {
		for _, c := range m.Calls {
			calls[c.ID] = c
		}
		if c, ok := calls[m.CallID]; ok && m.Role == agent.RoleTool {
			w.take(c, m.Text)
			delete(calls, m.CallID)
		}
	}
	return w
}

// workArgs are the arguments that working memory looks at, of any tool.
type workArgs struct {
	Path     string `json:"path"`
	FilePath string `json:"file_path"`
	Command  string `json:"command"`
	What     string `json:"what"`
	Results  string `json:"results"`
}

func (w *workingMemory) take(c agent.Call, result string) {
	var a workArgs
	if json.Unmarshal([]byte(c.Args), &a) != nil {
		return
	}
	if a.Path == "" {
		a.Path = a.FilePath
	}
	first, _, _ := strings.Cut(strings.TrimSpace(result), "\n")
	switch c.Name {
	case "read", "edit", "write":
		if a.Path == "" || strings.HasPrefix(first, c.Name+":") { // the answer is an error
			return
		}
		did := "changed "
		if c.Name == "read" && !slices.Contains(w.Files, "changed "+a.Path) {
			did = "read "
		}
		w.Files = slices.DeleteFunc(w.Files, func(f string) bool { return f == "read "+a.Path })
		w.Files = newest(w.Files, did+a.Path, did+a.Path, maxActiveFiles)
	case "shell":
		if a.Command != "" {
			command := text.Clip(text.OneLine(a.Command), maxWorkBytes/2)
			w.Checks = newest(w.Checks, command+": ", command+": "+text.Clip(first, maxWorkBytes/2), maxRecentRuns)
		}
	case "note", "learn":
		if a.What != "" {
			content := text.OneLine(strings.TrimSpace(a.What + " " + a.Results))
			w.Notes = newest(w.Notes, content, content, maxNotes)
		}
	case "task":
		id, _, _ := strings.Cut(first, " ")
		closed := strings.HasSuffix(first, "(done)") || strings.HasSuffix(first, "(skipped)") || strings.HasSuffix(first, "(failed)")
		if id == "" || !strings.HasSuffix(first, ")") {
			return
		}
		w.Tasks = newest(w.Tasks, id+" ", first, maxNotes)
		if closed {
			w.Tasks = w.Tasks[1:]
		}
	}
}

// newest puts an entry in front, in place of those that are the same or begin
// with key, which ends with a space.
func newest(list []string, key, entry string, limit int) []string {
	list = slices.DeleteFunc(list, func(e string) bool {
		return e == entry || strings.HasSuffix(key, " ") && strings.HasPrefix(e, key)
	})
	list = slices.Insert(list, 0, text.Clip(entry, maxWorkBytes))
	return list[:min(len(list), limit)]
}

// String is the working memory as the model reads it, "" when there is none.
func (w workingMemory) String() string {
	var b strings.Builder
	for _, part := range []struct {
		name string
		list []string
	}{{"files", w.Files}, {"commands", w.Checks}, {"notes", w.Notes}, {"tasks", w.Tasks}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s, newest first:\n", part.name)
		for _, e := range part.list {
			b.WriteString("- " + e + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// renewed makes the system prompt anew, so that it holds what the state files
// say now.
func (c *Coordinator) renewed(j Job) (string, error) {
	c.mu.Lock()
	c.system = systemPrompt{}
	c.mu.Unlock()
	return c.systemPrompt(j)
}

// keepFacts remembers what the system prompt was made of, for Context.
func (c *Coordinator) keepFacts(f prompt.Facts) {
	c.mu.Lock()
	c.facts = f
	c.mu.Unlock()
}
