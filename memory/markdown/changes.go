package markdown

import (
	"slices"
	"strings"
)

// ChangeKind says what became of a task between two versions.
type ChangeKind string

// The kinds of changes. A task that was changed and moved is changed; its
// Fields then name "place" too.
const (
	Added   ChangeKind = "added"
	Deleted ChangeKind = "deleted"
	Changed ChangeKind = "changed"
	Moved   ChangeKind = "moved"
)

// Change is what became of one task between two versions of a document.
type Change struct {
	ID    string // in the new version, or in the old one when it is deleted
	Title string
	Kind  ChangeKind
	// From and To are the status before and after; empty where the task is
	// not. A box that was unticked while the status field still says done
	// reads as done in the file alone; seen against the older version it means
	// that the task is open again, and To is Pending.
	From, To Status
	// Fields name what differs: id, title, status, priority, after, agent,
	// check, result, steps, place, text.
	Fields []string
}

// Merged is the outcome of Merge.
type Merged struct {
	Data      []byte
	Conflicts []Conflict // in the order of Ralph's file; what it deleted last
}

// Conflict is one thing that the user and Ralph changed differently. The
// user's value is in the document; Ralph's is kept in a bullet below the task
// where there is room for one.
type Conflict struct {
	ID string // of the task as the user has it; empty for text
	// Field is status, title, priority, after, agent, check, result, box;
	// "task" when one side deleted what the other changed; "id" when both gave
	// the same new id, where Ralph is the id that Ralph's task has now; "text"
	// for lines that belong to no field.
	Field string
	// Base, User and Ralph are the three values; empty for none.
	Base, User, Ralph string
}

// Compare lists, by task, what differs between two versions: first what is in
// the new one, in its order, then what was deleted, in the order of the old.
func Compare(old, new *Document) []Change {
	pairs := pair(old, new, nil)
	var out []Change
	stay := inOrder(pairs.left)
	for i, n := range new.tasks {
		o := pairs.left[i]
		if o < 0 {
			out = append(out, Change{ID: n.ID, Title: n.Title, Kind: Added, To: n.Status})
			continue
		}
		was := old.tasks[o]
		c := Change{ID: n.ID, Title: n.Title, Kind: Changed, From: was.Status, To: meant(was, n)}
		c.Fields = differing(old, new, was, n)
		if !stay[i] {
			if c.Fields == nil {
				c.Kind = Moved
			}
			c.Fields = append(c.Fields, "place")
		}
		if c.Fields != nil {
			out = append(out, c)
		}
	}
	for i, o := range old.tasks {
		if pairs.right[i] < 0 {
			out = append(out, Change{ID: o.ID, Title: o.Title, Kind: Deleted, From: o.Status})
		}
	}
	return out
}

// meant is the status that whoever made new of old means: a box that was
// unticked reopens the task, also when the field was left as it is.
func meant(old, new *node) Status {
	if new.kind == nodeItem && old.kind == nodeItem && old.mark != new.mark && markStatus(old.mark) == Done && markStatus(new.mark) == Pending &&
		new.Status == Done && old.word == new.word {
		return Pending
	}
	return new.Status
}

// differing names the fields in which two versions of a task differ.
func differing(old, new *Document, a, b *node) []string {
	var fields []string
	if a.Explicit != b.Explicit || !strings.EqualFold(a.raw, b.raw) {
		fields = append(fields, "id")
	}
	if a.Title != b.Title {
		fields = append(fields, "title")
	}
	if a.Status != meant(a, b) {
		fields = append(fields, "status")
	}
	for f := fieldPriority; f < numFields; f++ {
		if a.value(f) != b.value(f) {
			fields = append(fields, fieldName(f))
		}
	}
	if !slices.Equal(a.Steps, b.Steps) {
		fields = append(fields, "steps")
	}
	if !slices.Equal(old.notes(a), new.notes(b)) {
		fields = append(fields, "text")
	}
	return fields
}

// inOrder reports for each task of the new version whether it kept its place
// among the others: a longest run of tasks in the old order does.
func inOrder(left []int) []bool {
	a := make([]int, len(left))
	copy(a, left)
	stay := make([]bool, len(left))
	for _, i := range rising(a) {
		stay[i] = true
	}
	for i, o := range left {
		stay[i] = stay[i] || o < 0
	}
	return stay
}

// notes are the lines of a task that say neither its title nor a field, without
// their bullets and blanks.
func (d *Document) notes(n *node) []string {
	var out []string
	start := d.start(n)
	for i := 1; i < n.size; i++ {
		if text := norm(d.lines.at(start + i).text); text != "" && !n.isField(i) {
			out = append(out, text)
		}
	}
	return out
}

// isField reports whether a line of a task holds one of its fields.
func (n *node) isField(line int) bool {
	for _, f := range n.fields {
		if f.line == line {
			return true
		}
	}
	return false
}
