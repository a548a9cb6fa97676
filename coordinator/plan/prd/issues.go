package prd

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/memory/text"
)

// Issue is a story, or an epic, as an issue of bd.
type Issue struct {
	Ref         string // the id in the document
	Title       string
	Kind        string // task, bug, feature, chore or epic
	Priority    int
	Description string
	Acceptance  string // Markdown
	Notes       string
	Parent      string // ref of the epic, "" for none
	Labels      []string
	After       []string // refs that block it, none that follows from the others
	Done        bool
	Line        int
}

// Issues is the document as issues for bd: epics first, then stories so that
// each comes behind what blocks it. Dependencies that follow from others are left
// out (the transitive reduction): bd 0.47 takes exponential time for graphs with
// many ways. The document must have passed Check.
func (d Document) Issues() []Issue {
	d = d.gated()
	var out []Issue
	known := map[string]bool{}
	for _, e := range d.Epics {
		known[e.ID] = true
		out = append(out, Issue{Ref: e.ID, Title: e.Title, Kind: "epic", Priority: 2, Description: e.Description, Line: e.Line})
	}
	for _, s := range d.Stories {
		if s.Epic != "" && !known[s.Epic] {
			known[s.Epic] = true
			out = append(out, Issue{Ref: s.Epic, Title: s.Epic, Kind: "epic", Priority: 2, Line: s.Line})
		}
	}
	after, priority := d.reduced(), d.fifths()
	for _, i := range d.order() {
		s := d.Stories[i]
		issue := Issue{Ref: s.ID, Title: s.Title, Kind: s.Kind, Priority: priority(s.Priority), Description: s.Description, Notes: s.Notes, Parent: s.Epic, Labels: s.Labels, Done: s.Done, Line: s.Line}
		if issue.Kind == "" {
			issue.Kind = "task"
		}
		var criteria []string
		for _, c := range s.Criteria {
			box := "- [ ] "
			if c.Done || s.Done {
				box = "- [x] "
			}
			criteria = append(criteria, box+c.Text)
		}
		issue.Acceptance = strings.Join(criteria, "\n")
		if s.Check != "" {
			issue.Notes = strings.TrimSpace(issue.Notes + "\n\nCheck: " + s.Check)
		}
		for _, j := range after[i] {
			issue.After = append(issue.After, d.Stories[j].ID)
		}
		out = append(out, issue)
	}
	return out
}

// fifths gives the priority that bd takes, 0 to 4, for one of the document. Where those
// go further, they are spread in their order.
func (d Document) fifths() func(int) int {
	var all []int
	for _, s := range d.Stories {
		all = append(all, s.Priority)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return func(p int) int {
		if len(all) == 0 || all[len(all)-1] <= 4 {
			return p
		}
		i, _ := slices.BinarySearch(all, p)
		return i * min(5, len(all)) / len(all)
	}
}

// needs lists for each story the places of those that it depends on.
func (d Document) needs() [][]int {
	at := d.places()
	needs := make([][]int, len(d.Stories))
	for i, s := range d.Stories {
		for _, a := range s.After {
			if j, ok := at[strings.ToUpper(a)]; ok && j != i {
				needs[i] = append(needs[i], j)
			}
		}
	}
	return needs
}

// order lists the stories so that each comes behind its dependencies, and
// otherwise as in the document. Stories in a circle come last.
func (d Document) order() []int {
	needs := d.needs()
	left, behind := make([]int, len(needs)), make([][]int, len(needs))
	var ready places
	for i, list := range needs {
		left[i] = len(list)
		for _, j := range list {
			behind[j] = append(behind[j], i)
		}
		if left[i] == 0 {
			ready = append(ready, i)
		}
	}
	heap.Init(&ready)
	var out []int
	for len(ready) > 0 {
		i, _ := heap.Pop(&ready).(int)
		out = append(out, i)
		for _, k := range behind[i] {
			if left[k]--; left[k] == 0 {
				heap.Push(&ready, k)
			}
		}
	}
	for i := range needs {
		if left[i] > 0 {
			out = append(out, i)
		}
	}
	return out
}

// places is a heap of places.
type places []int

func (p places) Len() int           { return len(p) }
func (p places) Less(i, j int) bool { return p[i] < p[j] }
func (p places) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *places) Push(x any)        { n, _ := x.(int); *p = append(*p, n) }
func (p *places) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// reduced is needs without what follows from the rest.
func (d Document) reduced() [][]int {
	needs, order := d.needs(), d.order()
	words := (len(needs) + 63) / 64
	before := make([][]uint64, len(needs)) // of each story, all that come before it
	out := make([][]int, len(needs))
	for _, i := range order {
		all := make([]uint64, words)
		for _, j := range needs[i] {
			for w, bits := range before[j] {
				all[w] |= bits
			}
		}
		for _, j := range needs[i] {
			if all[j/64]&(1<<(j%64)) == 0 {
				out[i] = append(out[i], j)
			}
		}
		for _, j := range needs[i] {
			all[j/64] |= 1 << (j % 64)
		}
		before[i] = all
	}
	return out
}

// Args are the arguments of `bd create` for an issue; id gives the id that bd
// has given to a ref.
func (i Issue) Args(id func(ref string) string) []string {
	args := []string{"create", "--title", i.Title, "--type", i.Kind, "--priority", strconv.Itoa(i.Priority), "--external-ref", i.Ref}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	description := i.Description
	if description == "" {
		description = i.Title // bd warns about an issue without one
	}
	add("--description", description)
	add("--acceptance", i.Acceptance)
	add("--notes", i.Notes)
	add("--labels", strings.Join(i.Labels, ","))
	if i.Parent != "" {
		add("--parent", id(i.Parent))
	}
	var deps []string
	for _, a := range i.After {
		deps = append(deps, id(a)) // bare: "blocks:ID" means the opposite from bd 0.50 on
	}
	add("--deps", strings.Join(deps, ","))
	return args
}

// Script is a shell script that makes the issues with bd, for people to read and
// to run.
func Script(issues []Issue) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# Makes the issues of a PRD with bd. Run it where the database is, once.\nset -eu\nexport BEADS_NO_DAEMON=1\n")
	names := map[string]string{}
	for n, i := range issues {
		names[i.Ref] = fmt.Sprintf("i%d", n+1)
	}
	for _, i := range issues {
		var words []string
		for _, a := range i.Args(func(ref string) string { return "\x00" + names[ref] + "\x00" }) {
			words = append(words, quote(a))
		}
		fmt.Fprintf(&b, "\n# %s\n%s=$(bd %s --silent)\n", text.OneLine(i.Ref), names[i.Ref], strings.Join(words, " "))
		if i.Done {
			fmt.Fprintf(&b, "bd close \"$%s\" --reason 'done already'\n", names[i.Ref])
		}
	}
	return b.String()
}

// quote is one word of a shell; a name between NULs is a variable.
func quote(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "\x00") {
		switch {
		case i%2 == 1:
			b.WriteString("\"$" + part + "\"")
		case part == "":
		case strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=") == "":
			b.WriteString(part)
		default:
			b.WriteString("'" + strings.ReplaceAll(part, "'", `'\''`) + "'")
		}
	}
	if s == "" {
		return "''"
	}
	return b.String()
}
