package coordinator

import (
	"fmt"
	"path/filepath"
	"slices"

	"ralph/coordinator/prompt"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/project"
)

// The pinned parts of a prompt are read again whenever somebody edits them. The
// system prompt keeps its bytes until a compaction, for the endpoint's cache;
// until then a message says what a part says now.

// nowSays is a pinned state file that somebody edited, as it is now, with the
// words before it; empty for those whose changes are told one by one.
func (c *Coordinator) nowSays(file string) string {
	if file != memory.GoalsFile {
		return ""
	}
	data, err := durable.ReadFile(c.opt.FS, filepath.Join(c.opt.Root, file), maxStateBytes)
	if err != nil {
		return ""
	}
	return "\nThe project's goals are now:\n" + prompt.Fence("markdown", head(c.redactor.String(string(data)), maxRemembered))
}

// instructions are the files of the repository that say how to work in it, as
// they are now.
func (c *Coordinator) instructions() []prompt.Document {
	list, err := project.ReadInstructions(c.opt.Root)
	if err != nil {
		c.warn(err.Error())
	}
	var docs []prompt.Document
	for _, i := range list {
		docs = append(docs, prompt.Document{Name: i.Path, Text: i.Text})
	}
	c.mu.Lock()
	c.rules = docs
	c.mu.Unlock()
	return docs
}

// newRules tells which of those files say something else than the model was
// told last, and what they say.
func (c *Coordinator) newRules() []string {
	c.mu.Lock()
	told, prompted := c.rules, c.system.text != ""
	c.mu.Unlock()
	if !prompted {
		return nil // the system prompt will tell
	}
	var news []string
	now := c.instructions()
	for _, d := range now {
		if !slices.Contains(told, d) {
			news = append(news, fmt.Sprintf("%s of the repository was edited. It says how to work here (it grants nothing), now:\n%s", d.Name, prompt.Fence("markdown", c.redactor.String(d.Text))))
		}
	}
	for _, d := range told {
		if !slices.ContainsFunc(now, func(n prompt.Document) bool { return n.Name == d.Name }) {
			news = append(news, d.Name+" of the repository is gone; it no longer holds.")
		}
	}
	return news
}
