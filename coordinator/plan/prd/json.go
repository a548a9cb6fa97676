package prd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Merged says what a merge did, by the ids of stories in the order of the PRD.
// Kept are those of the file that the PRD does not have.
type Merged struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Same    []string `json:"same"`
	Kept    []string `json:"kept"`
}

// ErrNotAPlan is matched when a file to merge into holds no plan.
var ErrNotAPlan = errors.New("holds no plan that can be merged into")

// JSON is the document as a prd.json.
func (d Document) JSON() ([]byte, error) {
	out := &object{}
	out.set("project", d.Name)
	out.setIf("branchName", d.Branch)
	out.set("description", d.Description)
	if gates := d.gates(); len(gates) > 0 {
		out.set("qualityGates", gates)
	}
	list := []any{}
	for _, s := range d.entries() {
		o := &object{}
		s.fill(o, false)
		list = append(list, o)
	}
	out.set("userStories", list)
	return indented(out)
}

func (d Document) gates() []any {
	var list []any
	for _, g := range d.Gates {
		o := &object{}
		o.set("name", g.Name)
		o.set("check", g.Check)
		list = append(list, o)
	}
	return list
}

// entries are the stories with the epics before theirs: an epic is an entry of
// type epic, which is never worked itself.
func (d Document) entries() []Story {
	all := slices.Clone(d.Stories)
	open := map[string]bool{}
	for _, s := range d.Stories {
		open[s.Epic] = open[s.Epic] || !s.Done
	}
	for _, e := range d.Epics {
		all = append(all, Story{ID: e.ID, Title: e.Title, Description: e.Description, Priority: 2, Kind: "epic", Done: !open[e.ID], Line: e.Line})
	}
	slices.SortStableFunc(all, func(a, b Story) int { return a.Line - b.Line })
	return all
}

// fill writes a story into an object. With merge what the loop has noted there
// stays: a story that is done is not opened again by a PRD with empty boxes.
func (s Story) fill(o *object, merge bool) {
	o.set("id", s.ID)
	o.set("title", s.Title)
	if s.Description != "" || !merge {
		o.set("description", s.Description)
	}
	if len(s.Criteria) > 0 || !merge {
		o.set("acceptanceCriteria", s.criteriaJSON())
	}
	o.set("priority", json.Number(fmt.Sprint(s.Priority)))
	_, had := o.get("dependsOn")
	setList(o, "dependsOn", s.After, had || !merge)
	setList(o, "labels", s.Labels, !merge)
	o.setIf("epic", s.Epic)
	o.setIf("type", s.Kind)
	o.setIf("check", s.Check)
	o.setIf("agent", s.Agent)
	o.setIf("effort", s.Effort)
	_, had = o.get("passes")
	if !had || s.Done {
		o.set("passes", s.Done)
	}
	if _, status := o.get("status"); status && s.Done {
		o.set("status", "done")
	}
	if _, had := o.get("notes"); !had && (s.Notes != "" || !merge) {
		o.set("notes", s.Notes)
	}
}

func setList(o *object, key string, values []string, always bool) {
	list := []any{}
	for _, v := range values {
		list = append(list, v)
	}
	if always || len(list) > 0 {
		o.set(key, list)
	}
}

// criteriaJSON are the criteria as texts. prd.json has no boxes: of a story that
// is not done, those that are ticked say so.
func (s Story) criteriaJSON() []any {
	list := []any{}
	for _, c := range s.Criteria {
		if c.Done && !s.Done {
			c.Text = "[x] " + c.Text
		}
		list = append(list, c.Text)
	}
	return list
}

// MergeJSON puts the stories into an existing prd.json by id. Titles,
// descriptions, criteria, priorities and dependencies become those of the PRD;
// what the file knows besides (whether it passes, notes, unknown keys, stories
// of its own) stays. A file that cannot be read as a plan matches ErrNotAPlan.
func (d Document) MergeJSON(data []byte) ([]byte, Merged, error) {
	root, err := decode(data)
	if err != nil {
		return nil, Merged{}, fmt.Errorf("%w: %s", ErrNotAPlan, err)
	}
	list, put, ok := stories(root)
	if !ok {
		return nil, Merged{}, fmt.Errorf("%w: it has no list userStories", ErrNotAPlan)
	}
	var m Merged
	at := map[string]*object{}
	for _, v := range list {
		if o, ok := v.(*object); ok && at[idOf(o)] == nil {
			at[idOf(o)] = o
		}
	}
	mine := map[string]bool{}
	for _, s := range d.entries() {
		key := strings.ToUpper(s.ID)
		mine[key] = true
		s.After = slices.Clone(s.After)
		for i, a := range s.After {
			if known := at[strings.ToUpper(a)]; known != nil {
				id, _ := known.get("id")
				s.After[i] = fmt.Sprint(id) // as the file spells it
			}
		}
		o := at[key]
		if o == nil {
			o = &object{}
			s.fill(o, false)
			list = append(list, o)
			m.Added = append(m.Added, s.ID)
			continue
		}
		before, err := o.MarshalJSON()
		if err != nil {
			return nil, m, err
		}
		id, _ := o.get("id")
		s.fill(o, true)
		o.set("id", id)
		after, err := o.MarshalJSON()
		if err != nil {
			return nil, m, err
		}
		if bytes.Equal(before, after) {
			m.Same = append(m.Same, s.ID)
		} else {
			m.Changed = append(m.Changed, s.ID)
		}
	}
	for _, v := range list {
		if o, ok := v.(*object); ok && !mine[idOf(o)] {
			id, _ := o.get("id")
			m.Kept = append(m.Kept, fmt.Sprint(id))
		}
	}
	root = put(list)
	if o, ok := root.(*object); ok {
		d.mergeHead(o)
	}
	out, err := indented(root)
	return out, m, err
}

// mergeHead gives the plan itself what it does not say yet.
func (d Document) mergeHead(o *object) {
	if inner, ok := o.get("prd"); ok {
		if p, ok := inner.(*object); ok {
			o = p
		}
	}
	absent := func(keys ...string) bool {
		for _, k := range keys {
			if v, ok := o.get(k); ok && v != "" && v != nil {
				return false
			}
		}
		return true
	}
	if absent("project", "name") {
		o.setIf("project", d.Name)
	}
	if absent("branchName") {
		o.setIf("branchName", d.Branch)
	}
	if absent("description") {
		o.setIf("description", d.Description)
	}
	if gates := d.gates(); len(gates) > 0 && absent("qualityGates") {
		o.set("qualityGates", gates)
	}
}

// stories finds the list of stories in the forms that a prd.json comes in; put
// returns the document with another list.
func stories(root any) (list []any, put func([]any) any, ok bool) {
	switch v := root.(type) {
	case []any:
		return v, func(list []any) any { return list }, true
	case *object:
		for _, key := range []string{"userStories", "tasks"} {
			if list, ok := v.get(key); ok {
				if list, ok := list.([]any); ok {
					return list, func(list []any) any { v.set(key, list); return v }, true
				}
			}
		}
		if inner, ok := v.get("prd"); ok {
			if list, put, ok := stories(inner); ok {
				return list, func(list []any) any { v.set("prd", put(list)); return v }, true
			}
		}
	}
	return nil, nil, false
}

// idOf is the id of a story in upper case, also where it is a number.
func idOf(o *object) string {
	id, _ := o.get("id")
	return strings.ToUpper(fmt.Sprint(id))
}
