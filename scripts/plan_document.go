package scripts

import (
	"ralph/coordinator/plan"
	"ralph/coordinator/plan/graph"
	"ralph/coordinator/plan/prd"
)

// planDocument is what the commands over plans print with --output json. Which
// of its parts are there depends on the command.
type planDocument struct {
	Type        string           `json:"type"`
	Schema      string           `json:"schema"`
	Command     string           `json:"command"`
	OK          bool             `json:"ok"`
	Root        string           `json:"project_root"`
	Tracker     string           `json:"tracker"`
	Path        string           `json:"path"`
	Found       string           `json:"found"` // how the plan was found, in words
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Branch      string           `json:"branch"`
	Epics       []string         `json:"epics"`  // that were asked for
	Select      *string          `json:"select"` // the filter that was asked for
	Counts      *planCounts      `json:"counts"`
	Tasks       []planTask       `json:"tasks,omitempty"`
	Next        any              `json:"next,omitempty"` // of show, next and graph: a *planTask, whose turn it is; null when none can be worked
	Reason      string           `json:"reason,omitempty"`
	Then        []planTask       `json:"then,omitempty"`
	Phases      []plan.Phase     `json:"phases,omitempty"`
	Milestones  []plan.Milestone `json:"milestones,omitempty"`
	Gates       []plan.Gate      `json:"gates,omitempty"`
	Triggers    []plan.Trigger   `json:"triggers,omitempty"`
	Graph       *planGraph       `json:"graph,omitempty"`
	Prompt      *planPrompt      `json:"prompt,omitempty"`
	Conversion  *planConversion  `json:"conversion,omitempty"`
	Problems    []plan.Problem   `json:"problems"` // that stop a run
	Hint        string           `json:"hint,omitempty"`
	Warnings    []plan.Problem   `json:"warnings"`
}

// planTask is a task with its place in the graph.
type planTask struct {
	plan.Task
	Selected bool        `json:"selected"` // --epic and --select mean it
	Ready    bool        `json:"ready"`
	Waits    []string    `json:"blocked_by"`
	Unblocks []string    `json:"unblocks"`
	Rank     *graph.Rank `json:"rank,omitempty"`
}

// planGraph is the order of work.
type planGraph struct {
	Ready    []string     `json:"ready"`
	Critical []string     `json:"critical_path"`
	Order    []string     `json:"order"`
	Layers   [][]string   `json:"layers"`
	Cycles   [][]string   `json:"cycles"`
	Ranks    []graph.Rank `json:"ranks"`
}

// planPrompt is what an agent would be told.
type planPrompt struct {
	Task     string  `json:"task"`
	Template *string `json:"template"` // null: Ralph's own
	Bytes    int     `json:"bytes"`
	Text     string  `json:"text"`
}

// planConversion is what became of a PRD.
type planConversion struct {
	Source  string      `json:"source"`
	To      string      `json:"to"`
	Output  *string     `json:"output"`  // the file, null for standard output
	Written bool        `json:"written"` // false with --dry-run, and when nothing had to be changed
	Stories int         `json:"stories"`
	Done    int         `json:"done"`
	Epics   int         `json:"epics"`
	Merged  *prd.Merged `json:"merged"`            // null without --merge
	Issues  []madeIssue `json:"issues,omitempty"`  // of --to beads
	Content *string     `json:"content,omitempty"` // of -o -
}

// madeIssue is an issue that bd made of a story.
type madeIssue struct {
	Story string `json:"story"`
	ID    string `json:"id"`
	State string `json:"state"` // made, there
}

// document is the frame of what a command prints.
func (inv *invocation) planDocument(command string, v *planView) planDocument {
	d := planDocument{Type: "plan", Schema: "ralph.plan/1", Command: command, OK: true, Root: inv.root, Epics: orEmpty(inv.cfg.Run.Epic),
		Select: optional(inv.cfg.Run.Select), Problems: []plan.Problem{}, Warnings: []plan.Problem{}}
	if v == nil {
		return d
	}
	n := v.counts()
	d.Tracker, d.Path, d.Found, d.Name, d.Description, d.Branch, d.Counts = v.Tracker, v.Path, v.why, v.Name, v.Description, v.Branch, &n
	d.Warnings = emptyList(v.Warnings)
	return d
}

// task is a task as the document has it.
func (v *planView) task(t *plan.Task) planTask {
	r, open := v.ranks[t.ID]
	x := planTask{Task: *t, Selected: v.meant[t.ID], Ready: r.Ready, Waits: orEmpty(r.BlockedBy), Unblocks: orEmpty(r.Unblocks)}
	if open {
		r.Unblocks, r.Reasons, r.BlockedBy = orEmpty(r.Unblocks), orEmpty(r.Reasons), orEmpty(r.BlockedBy)
		x.Rank = &r
	}
	return x
}

// whole is the order of work.
func (v *planView) whole() *planGraph {
	g := &planGraph{Ready: orEmpty(v.graph.Ready()), Critical: orEmpty(v.graph.Critical()), Order: orEmpty(v.graph.Order()), Layers: emptyList(v.graph.Layers()),
		Cycles: emptyList(v.graph.Cycles()), Ranks: []graph.Rank{}}
	for _, r := range v.order {
		r.Unblocks, r.Reasons, r.BlockedBy = orEmpty(r.Unblocks), orEmpty(r.Reasons), orEmpty(r.BlockedBy)
		g.Ranks = append(g.Ranks, r)
	}
	return g
}
