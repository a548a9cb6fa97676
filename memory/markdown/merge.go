package markdown

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Merge joins what the user and what Ralph made of base, task by task. The
// user's bytes stay; of Ralph's changes those are put in that the user did not
// also make otherwise. Where both changed the same, the user's value stays and
// Ralph's is kept in a bullet below the task, `- conflict: Ralph has status:
// failed`, one for each field. What the user deleted stays deleted. Into a file
// that the user emptied or that is no text any more nothing is put. It accepts
// any bytes; Data may share its memory with an argument.
func Merge(base, user, ralph []byte) Merged {
	switch {
	case bytes.Equal(base, user):
		return Merged{Data: ralph}
	case bytes.Equal(base, ralph), bytes.Equal(user, ralph):
		return Merged{Data: user}
	}
	out := merge(base, user, ralph)
	// Odd files may need a second look to come to rest, so that merging the
	// outcome again changes nothing. In large ones it would cost too much.
	for range 3 {
		if len(out.Data)+len(base) > maxSettled {
			break
		}
		next := merge(base, out.Data, ralph)
		if bytes.Equal(next.Data, out.Data) {
			break
		}
		out = next
	}
	return out
}

// maxSettled bounds the files of which the outcome is merged again.
const maxSettled = 256 << 10

func merge(base, user, ralph []byte) Merged {
	if bytes.Equal(user, ralph) {
		return Merged{Data: user}
	}
	m := newMerger(base, user, ralph)
	if m.spoiled(base, user) {
		return Merged{Data: user, Conflicts: m.refused()}
	}
	m.resolveIDs()
	m.mergeTasks()
	m.mergeText()
	for _, where := range []placing{inPlace, atEnd, nowhere} {
		if where == nowhere {
			m.refuseAdded()
		}
		if data := m.assemble(where); m.sound(data) {
			return Merged{Data: data, Conflicts: m.conflicts}
		}
	}
	return Merged{Data: user, Conflicts: m.refused()}
}

// merger holds the three versions of a merge and what becomes of the user's.
type merger struct {
	base, user, ralph *Document
	bu, br            pairs // base to user, base to Ralph

	bUnits, uUnits, rUnits []unit
	b2u                    []int // units
	stay                   []bool

	ids     map[string]string // ids of Ralph's file that are others in the merged one
	twins   map[int]int       // tasks that both added: Ralph's to the user's
	renamed map[int]string    // Ralph's new tasks that get another id

	over      [][]line       // by the user's tasks: lines in place of its own, or nil
	drop      []bool         // by the user's units
	before    map[int][]*run // by the user's units
	after     map[int][]*run
	runs      []*run // all of them, in Ralph's order
	fresh     map[string]int
	conflicts []Conflict
}

// unit is what keeps together in a merge: a task, or one line of other text.
type unit struct {
	task     int // -1 for text
	from, to int
}

// run is what Ralph put in at one place.
type run struct {
	lines []line
	tasks []int // Ralph's new tasks in it
}

func newMerger(base, user, ralph []byte) *merger {
	m := &merger{base: Parse(base), user: Parse(user), ralph: Parse(ralph), before: map[int][]*run{}, after: map[int][]*run{},
		ids: map[string]string{}, twins: map[int]int{}, renamed: map[int]string{}, fresh: map[string]int{}}
	m.br = pair(m.base, m.ralph, nil)
	added := map[string]bool{}
	for i, n := range m.ralph.tasks {
		if m.br.left[i] < 0 {
			added[n.Title] = true // what was merged before is no other task reworded
		}
	}
	m.bu = pair(m.base, m.user, added)
	m.bUnits, m.uUnits, m.rUnits = m.base.units(), m.user.units(), m.ralph.units()
	m.over, m.drop = make([][]line, len(m.user.tasks)), make([]bool, len(m.uUnits))
	m.stay = inOrder(m.bu.left)
	m.mapUser()
	return m
}

// units cuts a document into tasks, without the blank lines behind them, and
// single lines.
func (d *Document) units() []unit {
	var out []unit
	t := 0
	for i := 0; i < d.lines.n; {
		if t < len(d.tasks) && d.starts[t] == i {
			to := min(d.end(d.tasks[t]), d.lines.n)
			next := to
			if d.open > i && d.open < to {
				to = d.open // what is left open there swallows all behind it
			}
			for to > i+1 && strings.TrimSpace(d.lines.at(to-1).text) == "" && d.lines.at(to-1).kind == lineText {
				to--
			}
			out = append(out, unit{t, i, to})
			for i = to; i < next; i++ {
				out = append(out, unit{-1, i, i + 1})
			}
			t++
			continue
		}
		out = append(out, unit{-1, i, i + 1})
		i++
	}
	return out
}

// block returns the lines of a unit.
func (d *Document) block(u unit) []line {
	out := make([]line, 0, u.to-u.from)
	for i := u.from; i < u.to; i++ {
		l := *d.lines.at(i)
		if i == 0 {
			l.text = strings.TrimPrefix(l.text, bom)
		}
		out = append(out, l)
	}
	return out
}

func (d *Document) text(u unit) string { return strings.TrimPrefix(d.lines.at(u.from).text, bom) }

// keys are what units are aligned by: which task of base it is, or the text.
func keys(d *Document, units []unit, task func(i int) int, text func(string) string) []string {
	out := make([]string, len(units))
	for i, u := range units {
		switch {
		case u.task < 0:
			out[i] = text(d.text(u))
		case task(u.task) < 0:
			out[i] = "\x02" + strconv.Itoa(u.task)
		default:
			out[i] = "\x01" + strconv.Itoa(task(u.task))
		}
	}
	return out
}

func itself(i int) int { return i }

// mapUser finds for each unit of base where the user has it. Tasks and lines
// that occur once may have moved anywhere.
func (m *merger) mapUser() {
	b := keys(m.base, m.bUnits, itself, norm)
	u := keys(m.user, m.uUnits, func(i int) int { return m.bu.left[i] }, norm)
	m.b2u = align(b, u)
	taken := make([]bool, len(u))
	for _, k := range m.b2u {
		if k >= 0 {
			taken[k] = true
		}
	}
	at := map[string][]int{}
	for k, key := range u {
		if !taken[k] && key != "" {
			at[key] = append(at[key], k)
		}
	}
	for i, key := range b {
		if list := at[key]; m.b2u[i] < 0 && len(list) == 1 {
			m.b2u[i] = list[0]
			taken[list[0]] = true
			delete(at, key)
		}
	}
	for k, key := range u {
		if !taken[k] && m.uUnits[k].task < 0 && key != "" {
			m.fresh[key]++
		}
	}
	// What was put in may have become part of a task, or be taken for a line
	// that moved: then it shows in the numbers.
	more := map[string]int{}
	for i := range m.user.lines.n {
		more[norm(m.user.lines.at(i).text)]++
	}
	for i := range m.base.lines.n {
		more[norm(m.base.lines.at(i).text)]--
	}
	for key, n := range more {
		if n > 0 && key != "" {
			m.fresh[key] = max(n, m.fresh[key])
		}
	}
}

// spoiled reports whether what the user left is no file to put anything into.
func (m *merger) spoiled(base, user []byte) bool {
	if len(bytes.TrimSpace(bytes.TrimPrefix(base, []byte(bom)))) == 0 {
		return false
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(user, []byte(bom)))) == 0 {
		return true
	}
	if (bytes.IndexByte(user, 0) >= 0 || !utf8.Valid(user)) && bytes.IndexByte(base, 0) < 0 && utf8.Valid(base) {
		return true
	}
	if len(m.base.tasks) == 0 || len(m.user.tasks) > 0 {
		return false
	}
	for i, k := range m.b2u {
		if k >= 0 && norm(m.base.text(m.bUnits[i])) != "" {
			return false
		}
	}
	return true
}

// refused lists all that Ralph changed, of which nothing was put in.
func (m *merger) refused() []Conflict {
	var out []Conflict
	for _, c := range Compare(m.base, m.ralph) {
		var was, now string
		if c.Kind != Added {
			was = c.Title
		}
		if t, ok := m.ralph.Task(c.ID); ok && c.Kind != Deleted {
			now = strings.Join(t.lines(), "\n")
		}
		out = append(out, Conflict{ID: c.ID, Field: "task", Base: was, Ralph: now})
	}
	b := keys(m.base, m.bUnits, itself, itselfText)
	r := keys(m.ralph, m.rUnits, func(i int) int { return m.br.left[i] }, itselfText)
	left := map[string]int{}
	for _, key := range b {
		left[key]++
	}
	var texts []string
	for i, key := range r {
		if left[key]--; left[key] < 0 && m.rUnits[i].task < 0 && strings.TrimSpace(key) != "" {
			texts = append(texts, key)
		}
	}
	if texts != nil {
		out = append(out, Conflict{Field: "text", Ralph: strings.Join(texts, "\n")})
	}
	return out
}

func itselfText(s string) string { return s }

// resolveIDs finds which of Ralph's new tasks the user added too, and gives
// another id to those whose id the user gave to another task.
func (m *merger) resolveIDs() {
	taken := map[string]*node{}
	byKey := map[string][]int{}
	for i, n := range m.user.tasks {
		if n.raw != "" {
			taken[strings.ToLower(n.raw)] = n
		}
		if o := m.bu.left[i]; o < 0 {
			byKey[n.Title] = append(byKey[n.Title], i)
		} else if was := m.base.tasks[o].raw; was != "" && n.raw != "" && was != n.raw {
			m.ids[strings.ToLower(was)] = n.raw
		}
	}
	for i, n := range m.ralph.tasks {
		if m.br.left[i] >= 0 {
			continue
		}
		if list := byKey[n.Title]; len(list) > 0 {
			best := 0
			for k, u := range list {
				if strings.EqualFold(m.user.tasks[u].raw, n.raw) {
					best = k
				}
			}
			m.twins[i] = list[best]
			twin := m.user.tasks[m.twins[i]]
			byKey[n.Title] = slices.Delete(list, best, best+1)
			if n.raw != "" && twin.raw != "" && !strings.EqualFold(twin.raw, n.raw) {
				m.ids[strings.ToLower(n.raw)] = twin.raw
			}
			continue
		}
		other := taken[strings.ToLower(n.raw)]
		if n.raw == "" || other == nil {
			continue
		}
		prefix := "T"
		if plainID(n.raw) {
			prefix = n.raw[:strings.IndexByte(n.raw, '-')]
		}
		id := m.user.NextID(prefix, m.ralph.String(), m.base.String())
		m.user.note(id)
		m.ids[strings.ToLower(n.raw)], m.renamed[i] = id, id
		m.conflicts = append(m.conflicts, Conflict{ID: n.raw, Field: "id", User: other.Title, Ralph: id})
	}
}
