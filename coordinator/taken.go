package coordinator

import (
	"path/filepath"

	"ralph/coordinator/policy"
	"ralph/workers/git/publish"
	"ralph/workers/git/trees"
)

// refuses returns why a change of an agent is not taken over: it makes or changes a name
// that acts, no rule allows that, and no tool of Ralph's was permitted to write it.
func (c *Coordinator) refuses(p trees.Proposed) string {
	if c.cfg.Sandbox == string(policy.SandboxOff) {
		return ""
	}
	name, inside := c.inProject(p.Path)
	why, class := c.station.cage.Taken(publish.Change{Root: c.loc.Root, Path: p.Path, Repository: p.Repository, Link: p.Link != "", Exists: p.Exists})
	if why == "" {
		return ""
	}
	// A rule for one tool is none for what an agent's commands have made.
	r := policy.Request{Tool: "merge", Path: name, Writes: true, Guarded: why, Acts: class, Exists: p.Exists}
	d := c.approver.Decide(r)
	if d.Effect == policy.Allow {
		return ""
	}
	if content, err := p.Content(); err == nil && inside && p.Plain {
		base, _ := p.Before() // nil where there was no file
		if c.granted.Has(p.Agent, name, content, base) {
			return ""
		}
	}
	if d.Effect == policy.Deny {
		return why + ", and the rule " + d.Rule + " denies it"
	}
	if rule := r.Opening(); rule != "" {
		why += "; " + rule
	}
	return why
}

// inProject makes a path of the repository one of the project, and reports whether it
// lies there.
func (c *Coordinator) inProject(path string) (name string, inside bool) {
	rel, err := filepath.Rel(c.opt.Root, filepath.Join(c.loc.Root, filepath.FromSlash(path)))
	if err != nil || !filepath.IsLocal(rel) {
		return path, false
	}
	return filepath.ToSlash(rel), true
}
