package markdown

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An edit is read again where it was made, not in the whole file. That is
// sound only where nothing reaches beyond the lines in question; everything
// else falls back to a full refresh.

// change makes an edit within a task and returns the task that begins on the
// same line afterwards, or nil when there is none.
func (d *Document) change(n *node, edit func()) *node {
	start, before, size := d.start(n), d.lines.n, n.size
	plain := d.unmarked(start, start+size) && (d.entry <= start || d.entry >= start+size)
	edit()
	added := d.lines.n - before
	if plain && d.unmarked(start, start+size+added) && d.reread(n, size+added) {
		d.shift(start+1, added)
		return n
	}
	d.refresh()
	for i, at := range d.starts {
		if at == start {
			return d.tasks[i]
		}
	}
	return nil
}

// unmarked reports whether lines are text without anything that begins or ends
// a fence or a comment.
func (d *Document) unmarked(from, to int) bool {
	for i := from; i < to; i++ {
		if l := d.lines.at(i); l.kind != lineText || suspicious(l.text) && marks(l.text) {
			return false
		}
	}
	return true
}

func marks(text string) bool {
	return strings.Contains(text, "<!--") || strings.Contains(text, "-->") || strings.Contains(text, "```") || strings.Contains(text, "~~~")
}

// reread reads a task's lines alone and takes over what they say, if they are
// still the same task and nothing but it.
func (d *Document) reread(n *node, size int) bool {
	start := d.start(n)
	fresh := d.alone(start, size, int(n.parked))
	if fresh == nil || fresh.kind != n.kind || fresh.bold != n.bold || fresh.width != n.width || fresh.level != n.level || fresh.raw != n.raw {
		return false
	}
	if !n.Explicit && fresh.Title != n.Title {
		return false
	}
	fresh.ID, fresh.Explicit, fresh.i, fresh.epic = n.ID, n.Explicit, n.i, n.epic
	d.marks += fresh.marked() - n.marked()
	*n = *fresh
	return true
}

// alone reads lines that are one task and returns it, settled, or nil.
func (d *Document) alone(start, size, parked int) *node {
	entry, other := d.entry, d.other
	s := scan{d: d, parked: parked, slab: make([]node, 1)}
	s.run(start, start+size)
	d.entry, d.other = entry, other
	if len(s.roots) != 1 {
		return nil
	}
	n := s.roots[0]
	if n.first != start || n.size != size || n.groups() {
		return nil
	}
	n.settle()
	return n
}

// shift moves on by so many lines the tasks that begin on line at or later.
func (d *Document) shift(at, by int) {
	if by == 0 {
		return
	}
	i, _ := slices.BinarySearch(d.starts, at)
	for ; i < len(d.starts); i++ {
		d.starts[i] += by
	}
	if d.entry >= at {
		d.entry += by
	}
	if d.open >= at {
		d.open += by
	}
}

// inside reports whether a section of level 2 that is put before line i would
// be part of a task that begins before it.
func (d *Document) inside(i int) bool {
	k, _ := slices.BinarySearch(d.starts, i)
	if k == 0 || d.end(d.tasks[k-1]) < i {
		return false
	}
	n := d.tasks[k-1]
	return d.end(n) > i || !n.roomy() || n.kind == nodeHeading && n.level < 2
}

// quiet reads an entry alone. It returns nil if that has a task or leaves
// something open, and otherwise what its lines are.
func quiet(texts []string) *Document {
	if level, _ := heading(strings.TrimPrefix(texts[0], bom)); level != 2 {
		return nil
	}
	all := make([]line, len(texts))
	for i, t := range texts {
		all[i] = line{text: t, eol: "\n"}
	}
	alone := &Document{lines: newLines(all)}
	alone.refresh()
	if len(alone.tasks) > 0 || alone.open >= 0 {
		return nil
	}
	return alone
}

// classifyAs takes over from a document what the lines from i on are.
func (d *Document) classifyAs(i int, alone *Document) {
	for k := range alone.lines.n {
		d.lines.at(i + k).kind = alone.lines.at(k).kind
	}
}

// cutAt ends the last task at line at, where an entry was put behind line end,
// the end of the file until now.
func (d *Document) cutAt(end, at int) bool {
	if len(d.tasks) == 0 {
		return true
	}
	n := d.tasks[len(d.tasks)-1]
	if d.end(n) < end || !n.roomy() {
		return true
	}
	if n.kind == nodeHeading && n.level < 2 || d.end(n) != end {
		return false
	}
	n.size = at - d.start(n)
	return true
}

// adopt takes in a new item of n lines that was put in behind the item last,
// at a line and some blank lines before it; total is all that was put in. It
// reports false where that has to be found out by reading the whole.
func (d *Document) adopt(last *node, at, before, n, total int) bool {
	if last == nil || last.i != len(d.tasks)-1 && d.starts[last.i+1] < at {
		return false
	}
	start, end := at+before, d.end(last)+total
	if !d.unmarked(start, end) || !d.unmarked(max(0, at-1), start) {
		return false
	}
	fresh := d.alone(start, end-start, int(last.parked))
	if fresh == nil || fresh.width != 0 || fresh.kind != nodeItem {
		return false
	}
	if fresh.story && !d.stories && len(d.other) > 0 {
		return false // the first story decides what the headings are
	}
	if fresh.epic = last.epic; last.kind == nodeHeading && isEpic(last.raw) {
		fresh.epic = last.raw
	}
	fresh.identify()
	if d.find(fresh.ID) != nil {
		return false // the same again gets a number
	}
	d.shift(d.end(last), total)
	last.size = start - d.start(last)
	d.tasks = slices.Insert(d.tasks, last.i+1, fresh)
	d.starts = slices.Insert(d.starts, last.i+1, start)
	for i := last.i + 1; i < len(d.tasks); i++ {
		d.tasks[i].i = i
	}
	d.index[strings.ToLower(fresh.ID)] = fresh
	d.marks += fresh.marked()
	return true
}

// NextID returns the prefix with the next free number: one more than the
// highest that stands, or stood since it was parsed, anywhere in the document
// or in others, also in prose, so that the id of a deleted task that something
// still names is not given again.
func (d *Document) NextID(prefix string, others ...string) string {
	if d.numbers == nil {
		d.numbers = map[string]int{}
		for _, leaf := range d.lines.leaves {
			for i := range leaf {
				noteNumbers(d.numbers, leaf[i].text)
			}
		}
	}
	key := strings.ToLower(prefix)
	highest := d.numbers[key]
	for _, text := range others {
		found := map[string]int{}
		noteNumbers(found, text)
		highest = max(highest, found[key])
	}
	return fmt.Sprintf("%s-%d", prefix, highest+1)
}

// note keeps what NextID counts up to date with a new text.
func (d *Document) note(text string) {
	if d.numbers != nil {
		noteNumbers(d.numbers, text)
	}
}

// noteNumbers finds the words that are up to eight letters, a dash and up to
// nine digits, and keeps the highest number for each prefix.
func noteNumbers(highest map[string]int, text string) {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '-')
		if i < 0 {
			return
		}
		dash := from + i
		from = dash + 1
		a := dash
		for a > 0 && letter(text[a-1]) {
			a--
		}
		b := dash + 1
		for b < len(text) && text[b] >= '0' && text[b] <= '9' {
			b++
		}
		if a == dash || dash-a > 8 || b == dash+1 || b-dash > 10 || a > 0 && wordByte(text[a-1]) || b < len(text) && wordByte(text[b]) {
			continue
		}
		if n, err := strconv.Atoi(text[dash+1 : b]); err == nil {
			var buf [8]byte
			key := buf[:copy(buf[:], text[a:dash])]
			for k := range key {
				key[k] |= 0x20
			}
			if n > highest[string(key)] {
				highest[string(key)] = n
			}
		}
	}
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func wordByte(c byte) bool { return letter(c) || c >= '0' && c <= '9' || c == '_' }
