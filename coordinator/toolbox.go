package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ralph/coordinator/policy"
	"ralph/coordinator/prompt"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/tools"
)

// askGit bounds what git is asked while a conversation begins.
const askGit = 2 * time.Second

// toolbox is what the model of an agent gets for a job; depth is the agent's. The same job always gets the same
// tools in the same order, so that requests extend each other.
func (c *Coordinator) toolbox(j Job, st *station, depth int) []agent.Tool {
	env := &tools.Env{
		Root:     st.root,
		Files:    st.work,
		Proc:     c.opt.Proc,
		Git:      st.own,
		Sandbox:  st.cage,
		Notebook: notebook{c.book, st},
		Ask: func(ctx context.Context, q tools.Question) (string, error) {
			return c.approver.AskUser(ctx, st.name, depth == 0, q)
		},
		Allowed:        c.approver.Allowed,
		Lock:           func(path string) error { return c.crew.Lock(st.name, path) },
		OutputDir:      st.output,
		Redact:         c.redactor.Bytes,
		CommandTimeout: c.cfg.CommandTimeout,
		Fetch:          tools.WebClient(),
	}
	if depth == 0 {
		env.OutputDir = c.book.outputDir()
	}
	if rel, err := filepath.Rel(st.root, env.OutputDir); err == nil && filepath.IsLocal(rel) {
		env.OutputLabel = filepath.ToSlash(rel)
	}
	if j.DryRun {
		env.Notebook = nil
	}
	if !j.DryRun && c.mayHelp(depth) {
		env.Crew = hands{c, st.name}
		if depth == 0 {
			env.Crew = hands{c, c.name} // who visits works at its host's place
		}
	}
	if !j.DryRun && j.Chat && depth == 0 {
		env.SetMode = c.setMode
	}
	all := tools.All(env)
	if !j.DryRun {
		return all
	}
	var looking []agent.Tool
	for _, t := range all {
		if t.Effect != agent.EffectChange {
			looking = append(looking, t)
		}
	}
	return looking
}

// systemPrompt is a system prompt and the kind of job that it was made for.
type systemPrompt struct {
	text       string
	plan, chat bool
	schema     string
}

// systemPrompt is made once per conversation and kind of job, so that each
// request begins with the bytes of the one before it.
func (c *Coordinator) systemPrompt(j Job) (string, error) {
	c.mu.Lock()
	made := c.system
	c.mu.Unlock()
	wanted := systemPrompt{plan: j.DryRun, chat: j.Chat, schema: string(j.Schema), text: made.text}
	if made == wanted && made.text != "" {
		return made.text, nil
	}
	facts := prompt.Facts{
		Root:     c.opt.Root,
		Project:  c.Project().Summary(),
		Commands: c.commandsFact(),
		Plan:     j.DryRun,
		Chat:     j.Chat,
		Schema:   string(j.Schema),
	}
	var err error
	facts.Instructions = c.instructions()
	if facts.Goals, facts.Tasks, facts.Learned, err = c.book.remembered(); err != nil {
		c.warn("state: " + err.Error())
	}
	if j.Chat {
		facts.Git = c.gitFact()
		facts.Progress, facts.Todo = c.book.lately()
	}
	text, err := prompt.System(facts)
	if err != nil {
		return "", err
	}
	wanted.text = c.redactor.String(text)
	c.keepFacts(facts)
	c.mu.Lock()
	c.system = wanted
	c.mu.Unlock()
	return wanted.text, nil
}

// gitFact returns the branch and what is not committed, for the model; "" without a
// repository, and where git takes longer than askGit.
func (c *Coordinator) gitFact() string {
	if c.repo == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(c.closing, askGit)
	defer cancel()
	branch, err := c.repo.Branch(ctx)
	if err != nil {
		return ""
	}
	list, err := c.repo.Status(ctx)
	if err != nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "on %s, %s not committed\n", cmp.Or(branch, "no branch"), text.Count(len(list), "change"))
	for i, x := range list {
		if i == maxStatus {
			fmt.Fprintf(&b, "and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "%s %s\n", x.Kind, x.Path)
	}
	return b.String()
}

// maxStatus bounds the changes that a conversation is told as it begins.
const maxStatus = 40

func (c *Coordinator) commandsFact() string {
	switch {
	case c.cfg.Sandbox == string(policy.SandboxOff):
		return "Commands run directly on the user's machine, without a sandbox."
	case c.confined().Complete:
		return c.confinedFact()
	case c.opt.Ask == nil:
		return "Commands are refused in this run, because nobody is there to approve them; the file tools work."
	}
	return "Each command is shown to the user first, who may refuse it."
}

// confinedFact tells the model what its commands can do.
func (c *Coordinator) confinedFact() string {
	text := "Commands run in a sandbox without asking: they can write to the project and to their temp directory only, and see no secrets"
	if c.cfg.Sandbox == string(policy.SandboxReadOnly) {
		text = "Commands run in a sandbox without asking: they can write to their temp directory only, and see no secrets"
	}
	return text + "; there is no network but loopback unless the user allows it. For what the sandbox denies, shell has the argument outside, of which the user is asked."
}
