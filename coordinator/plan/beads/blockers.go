package beads

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/plan/graph"
)

// Wait is what an issue waits for, by bd's own rules.
type Wait struct {
	// For are the issues that must be closed before it. Deleted issues are left
	// out. Those that a parent waits for hold up its children too, and are not
	// repeated here.
	For []string
	// Never says why it cannot be worked for a reason that no work of Ralph
	// removes for certain, in words, its parents' included; "" as a rule.
	Never string
	// Unknown are the ids that it depends on and that do not exist.
	Unknown []string
}

// Waits says of each issue what it waits for: blocks edges, the children of an
// issue that it waits-for, and conditions on a failure.
func (s *Snapshot) Waits() map[string]Wait {
	w := &waiter{byID: make(map[string]*Issue, len(s.Issues)), gone: map[string]bool{}, children: map[string][]string{}}
	for k := range s.Issues {
		i := &s.Issues[k]
		w.byID[i.ID] = i
		if p := i.Parent(); p != "" {
			w.children[p] = append(w.children[p], i.ID)
		}
	}
	for _, id := range s.Gone {
		w.gone[id] = true
	}
	own := make(map[string]Wait, len(s.Issues))
	for k := range s.Issues {
		own[s.Issues[k].ID] = w.own(&s.Issues[k])
	}
	out := make(map[string]Wait, len(s.Issues))
	for k := range s.Issues {
		out[s.Issues[k].ID] = w.inherit(&s.Issues[k], own)
	}
	return out
}

type waiter struct {
	byID     map[string]*Issue
	gone     map[string]bool
	children map[string][]string
}

// own is what the issue's own edges say.
func (w *waiter) own(i *Issue) Wait {
	var out Wait
	for _, d := range i.Dependencies {
		switch d.Type {
		case "blocks":
			w.blocks(&out, d.On)
		case "waits-for":
			w.gate(&out, d)
		case "conditional-blocks":
			if on := w.byID[d.On]; on == nil || on.Status != "closed" || !failure(on.CloseReason) {
				out.Never = fmt.Sprintf("is only for the case that %s fails", d.On)
			}
		case "parent-child":
			if w.byID[d.On] == nil && !w.gone[d.On] {
				out.Unknown = append(out.Unknown, d.On)
			}
		}
	}
	return out
}

func (w *waiter) blocks(out *Wait, on string) {
	switch {
	case strings.HasPrefix(on, "external:"):
		out.Never = fmt.Sprintf("waits for %s in another project, which Ralph does not see", on)
	case w.gone[on]:
	case w.byID[on] == nil:
		out.Unknown = append(out.Unknown, on)
	case !slices.Contains(out.For, on):
		out.For = append(out.For, on)
	}
}

// gate is a waits-for edge: on all children of an issue, or on the first.
func (w *waiter) gate(out *Wait, d Dependency) {
	var meta struct {
		Gate    string `json:"gate"`
		Spawner string `json:"spawner_id"`
	}
	if d.Metadata != "" && json.Unmarshal([]byte(d.Metadata), &meta) != nil {
		out.Never = fmt.Sprintf("waits for %s in a way that Ralph cannot read", d.On)
		return
	}
	spawner := d.On
	if meta.Spawner != "" {
		spawner = meta.Spawner
	}
	kids := w.children[spawner]
	if meta.Gate != "any-children" {
		for _, kid := range kids {
			w.blocks(out, kid)
		}
		return
	}
	for _, kid := range kids {
		if w.byID[kid].Closed() {
			return
		}
	}
	out.Never = fmt.Sprintf("waits for the first child of %s", spawner)
}

// inherit adds what keeps the parents from being worked.
func (w *waiter) inherit(i *Issue, own map[string]Wait) Wait {
	out := own[i.ID]
	seen := map[string]bool{i.ID: true}
	for p := i.Parent(); p != "" && !seen[p] && out.Never == ""; {
		seen[p] = true
		parent := w.byID[p]
		if parent == nil || parent.Closed() {
			break
		}
		if why := own[p].Never; why != "" {
			out.Never = fmt.Sprintf("its parent %s %s", p, why)
		}
		p = parent.Parent()
	}
	return out
}

// failure says that a reason to close counts as failure for bd.
func failure(reason string) bool {
	low := strings.ToLower(reason)
	for _, word := range []string{"failed", "rejected", "wontfix", "won't fix", "cancelled", "canceled", "abandoned", "blocked", "error", "timeout", "aborted"} {
		if strings.Contains(low, word) {
			return true
		}
	}
	return false
}

// circles are the cycles among the blocks edges of a file, each at the line of
// its smallest id. bd would import the file without one of the edges, and say
// nothing.
func circles(issues []Issue) []Fault {
	nodes := make([]graph.Node, 0, len(issues))
	lines := make(map[string]int, len(issues))
	for _, i := range issues {
		n := graph.Node{ID: i.ID}
		for _, d := range i.Dependencies {
			if d.Type == "blocks" {
				n.After = append(n.After, d.On)
			}
		}
		nodes = append(nodes, n)
		lines[i.ID] = i.Line
	}
	var out []Fault
	for _, c := range graph.New(nodes).Cycles() {
		out = append(out, Fault{Line: lines[c[0]], Text: Circle(c)})
	}
	return out
}

// Circle puts a cycle of graph.Cycles into words.
func Circle(ids []string) string {
	if len(ids) == 2 {
		return fmt.Sprintf("issue %s depends on itself", ids[0])
	}
	back := slices.Clone(ids)
	slices.Reverse(back)
	return "the dependencies go in a circle: " + strings.Join(back, " → ") + " (each depends on the next)"
}
