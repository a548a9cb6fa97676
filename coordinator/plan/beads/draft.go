package beads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ralph/coordinator/plan/graph"
)

// ErrExists is matched when an issue to be added is there already.
var ErrExists = errors.New("is there already")

// Draft is an issue to be.
type Draft struct {
	// ID is the caller's own, "US-001". bd gives issues ids of its own; this one
	// is kept as the external reference, by which the issue is found again.
	ID    string
	Title string
	// Description, Acceptance and Notes are Markdown; Acceptance has a criterion a
	// line.
	Description, Acceptance, Notes string
	// Type is task, bug, feature, chore or epic; "" is task.
	Type string
	// Priority is 0 to 4; what is beyond is taken as the nearest.
	Priority int
	Labels   []string
	// Parent and After are IDs of other drafts, or of issues that bd has.
	Parent string
	After  []string
	// Done closes it.
	Done bool
}

// Added is what Add made of a draft.
type Added struct {
	Draft string // its ID
	Issue string // bd's id
	New   bool   // it was not there
}

// Add makes issues of drafts: parents and dependencies first, edges that others
// imply left out (bd 0.47 needs exponential time for dense graphs). A draft whose
// ID is the external reference of an issue is that issue: with merge its text,
// priority and labels are set anew and missing edges are added, without it
// nothing at all is added and the error matches ErrExists. An error in the middle
// comes with what was added before; adding again with merge goes on from there.
func (c *Client) Add(ctx context.Context, drafts []Draft, merge bool, actor string) ([]Added, error) {
	order, after, err := arrange(drafts)
	if err != nil {
		return nil, &Error{Op: "add issues", Path: c.data.Dir, Err: err, Hint: "nothing was added"}
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	a := adder{c: c, actor: actor, known: map[string]string{}, issues: map[string]Issue{}}
	for _, i := range s.Issues {
		a.issues[i.ID] = i
		a.known[i.ID] = i.ID
	}
	for _, i := range s.Issues {
		if i.ExternalRef != "" {
			a.known[i.ExternalRef] = i.ID
		}
	}
	if !merge {
		for _, d := range drafts {
			if id := a.known[d.ID]; id != "" {
				return nil, &Error{Op: "add issues", Path: c.data.Dir, Err: fmt.Errorf("%s (%s) %w", d.ID, id, ErrExists), Hint: "nothing was added; merge them with --merge"}
			}
		}
	}
	if err := a.refer(drafts); err != nil {
		return nil, &Error{Op: "add issues", Path: c.data.Dir, Err: err, Hint: "nothing was added"}
	}
	var out []Added
	for _, d := range order {
		one, err := a.add(ctx, d, after[d.ID])
		if err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, a.finish(ctx, order)
}

// arrange puts drafts in the order in which they can be made, and reduces their
// edges.
func arrange(drafts []Draft) ([]Draft, map[string][]string, error) {
	nodes := make([]graph.Node, 0, 2*len(drafts))
	byID := make(map[string]Draft, len(drafts))
	for _, d := range drafts {
		if d.ID == "" || strings.TrimSpace(d.Title) == "" {
			return nil, nil, fmt.Errorf("a draft has no id or no title: %q %q", d.ID, clip(d.Title))
		}
		if _, twice := byID[d.ID]; twice {
			return nil, nil, fmt.Errorf("two drafts have the id %s", d.ID)
		}
		byID[d.ID] = d
		nodes = append(nodes, graph.Node{ID: d.ID, After: d.After})
	}
	after := graph.New(nodes)
	if cycles := after.Cycles(); len(cycles) > 0 {
		return nil, nil, errors.New(Circle(cycles[0]))
	}
	for k, d := range drafts {
		if d.Parent != "" {
			nodes[k].After = append(append([]string(nil), d.After...), d.Parent)
		}
	}
	both := graph.New(nodes)
	order := both.Whole().Order
	if order == nil && len(drafts) > 0 {
		return nil, nil, errors.New("with their parents, " + Circle(both.Cycles()[0]))
	}
	out := make([]Draft, 0, len(drafts))
	for _, id := range order {
		out = append(out, byID[id])
	}
	return out, after.Reduced(), nil
}

type adder struct {
	c      *Client
	actor  string
	known  map[string]string // draft or issue id → issue id
	issues map[string]Issue
}

// refer checks that all that drafts name is among them or in the database.
func (a *adder) refer(drafts []Draft) error {
	in := make(map[string]bool, len(drafts))
	for _, d := range drafts {
		in[d.ID] = true
	}
	for _, d := range drafts {
		for _, id := range append([]string{d.Parent}, d.After...) {
			if id != "" && !in[id] && a.known[id] == "" {
				return fmt.Errorf("%s refers to %s, which is neither among them nor in the database", d.ID, id)
			}
		}
	}
	return nil
}

func (a *adder) add(ctx context.Context, d Draft, after []string) (Added, error) {
	if id := a.known[d.ID]; id != "" {
		return Added{Draft: d.ID, Issue: id}, a.merge(ctx, id, d, after)
	}
	op := "create " + d.ID
	args := append([]string{"create", "--json", "--external-ref", d.ID}, d.fields()...)
	if d.Type != "" {
		args = append(args, "--type", d.Type)
	}
	if d.Parent != "" {
		args = append(args, "--parent", a.known[d.Parent])
	}
	if len(d.Labels) > 0 {
		args = append(args, "--labels", labels(d.Labels))
	}
	if len(after) > 0 {
		ids := make([]string, len(after))
		for k, on := range after {
			ids[k] = a.known[on]
		}
		args = append(args, "--deps", strings.Join(ids, ","))
	}
	// Not tried again: a slow call may have made it.
	got, err := a.c.once(ctx, op, a.actor, append(args, "--", d.Title))
	if err != nil {
		return Added{}, err
	}
	var i struct {
		ID  string `json:"id"`
		Ref string `json:"external_ref"`
	}
	if got.exit != 0 || json.Unmarshal(got.stdout, &i) != nil || i.ID == "" || i.Ref != d.ID {
		return Added{}, a.c.unproven(op, got)
	}
	a.known[d.ID] = i.ID
	return Added{Draft: d.ID, Issue: i.ID, New: true}, nil
}

// fields are the flags that create and update have in common.
func (d Draft) fields() []string {
	description := d.Description
	if strings.TrimSpace(description) == "" {
		description = d.Title // bd warns of an issue without one
	}
	args := []string{"--priority", strconv.Itoa(min(max(d.Priority, 0), 4)), "--description", description}
	if d.Acceptance != "" {
		args = append(args, "--acceptance", d.Acceptance)
	}
	if d.Notes != "" {
		args = append(args, "--notes", d.Notes)
	}
	return args
}

func labels(list []string) string {
	clean := make([]string, len(list))
	for k, l := range list {
		clean[k] = strings.ReplaceAll(l, ",", " ")
	}
	return strings.Join(clean, ",")
}

// merge sets the text of an issue anew and adds the edges that it lacks.
func (a *adder) merge(ctx context.Context, id string, d Draft, after []string) error {
	op := "update " + id
	args := append([]string{"update", id, "--json", "--title", d.Title}, d.fields()...)
	have := a.issues[id]
	for _, l := range d.Labels {
		args = append(args, "--add-label", strings.ReplaceAll(l, ",", " "))
	}
	if d.Parent != "" && have.Parent() != a.known[d.Parent] {
		args = append(args, "--parent", a.known[d.Parent])
	}
	i, got, ok, err := a.c.change(ctx, op, a.actor, id, args...)
	if err != nil {
		return err
	}
	if !ok || i.Title != d.Title {
		return a.c.unproven(op, got)
	}
	for _, on := range after {
		if err := a.edge(ctx, have, a.known[on]); err != nil {
			return err
		}
	}
	return nil
}

func (a *adder) edge(ctx context.Context, have Issue, on string) error {
	for _, d := range have.Dependencies {
		if d.On == on && d.Type == "blocks" {
			return nil
		}
	}
	op := fmt.Sprintf("make %s depend on %s", have.ID, on)
	got, err := a.c.call(ctx, op, a.actor, "dep", "add", have.ID, on, "--json")
	if err != nil {
		return err
	}
	var o struct {
		On string `json:"depends_on_id"`
	}
	if got.exit != 0 || json.Unmarshal(got.stdout, &o) != nil || o.On != on {
		return a.c.unproven(op, got)
	}
	return nil
}

// finish closes what is done, what others wait for first.
func (a *adder) finish(ctx context.Context, order []Draft) error {
	for _, d := range order {
		if !d.Done || a.issues[a.known[d.ID]].Closed() {
			continue
		}
		if err := a.c.Close(ctx, a.known[d.ID], "ralph done before", a.actor); err != nil {
			return err
		}
	}
	return nil
}
