package coordinator

import (
	"path/filepath"

	"ralph/coordinator/policy"
	"ralph/coordinator/prompt"
	"ralph/workers/agent"
	"ralph/workers/tools"
)

// toolbox is what the model gets for a job. The same job always gets the same
// tools in the same order, so that requests extend each other.
func (c *Coordinator) toolbox(j Job) []agent.Tool {
	env := &tools.Env{
		Root:           c.opt.Root,
		Files:          c.work,
		Proc:           c.opt.Proc,
		Git:            c.repo,
		Notebook:       c.book,
		Ask:            c.gate.askUser,
		OutputDir:      c.book.outputDir(),
		Redact:         c.redactor.Bytes,
		CommandTimeout: c.cfg.CommandTimeout,
		Fetch:          tools.WebClient(),
	}
	if rel, err := filepath.Rel(c.opt.Root, env.OutputDir); err == nil {
		env.OutputLabel = filepath.ToSlash(rel)
	}
	if j.DryRun {
		env.Notebook = nil
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

func (c *Coordinator) commandsFact() string {
	switch {
	case c.cfg.Sandbox == string(policy.SandboxOff):
		return "Commands run directly on the user's machine, without a sandbox."
	case c.opt.Ask == nil:
		return "Commands are refused in this run, because nobody is there to approve them; the file tools work."
	}
	return "Each command is shown to the user first, who may refuse it."
}
