package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ralph/coordinator/plan/tree"
	"ralph/memory/markdown"
	"ralph/memory/text"
)

// reader reads the values of a plan out of a tree and notes what is wrong with
// them, each with its place.
type reader struct {
	file     string
	noun     string // what this tracker calls a task
	problems []Problem
	warnings []Problem
	once     map[string]bool // warnings that are told once for the whole plan
	seen     map[string]bool // keys of no meaning
	links    *links          // of the plan that was read before; nil: all is checked
	byPlace  bool            // no task has an id
}

// maxProblems bounds how many faults of one plan are kept.
const maxProblems = 1000

func (r *reader) fault(line, column int, task, text string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{File: r.file, Line: line, Column: column, Task: task, Text: fmt.Sprintf(text, args...)})
	}
}

func (r *reader) warn(line int, task, text string, args ...any) {
	if len(r.warnings) < maxProblems {
		r.warnings = append(r.warnings, Problem{File: r.file, Line: line, Task: task, Text: fmt.Sprintf(text, args...)})
	}
}

// warnOnce tells a way of reading that holds for the whole plan at its first
// place only.
func (r *reader) warnOnce(key string, line int, text string, args ...any) {
	if r.once[key] {
		return
	}
	if r.once == nil {
		r.once = map[string]bool{}
	}
	r.once[key] = true
	r.warn(line, "", text, args...)
}

// object is one object of a plan whose keys were sorted into fields.
type object struct {
	r      *reader
	n      *tree.Node
	who    string // "story US-003", for messages
	id     string
	fields []fieldPair // few: a search is quicker than a map
}

// fieldPair is what the file has for a field.
type fieldPair struct {
	field string
	pair  *tree.Pair
}

// pair returns what the file has for a field, or nil.
func (o *object) pair(field string) *tree.Pair {
	for i := range o.fields {
		if o.fields[i].field == field {
			return o.fields[i].pair
		}
	}
	return nil
}

// object sorts the keys of n into fields: names gives the field that a key
// means, or "". Two keys for one field are ambiguous. A key that is none but
// nearly one of known is warned about.
func (r *reader) object(n *tree.Node, who string, names func(key string) string, known []string) object {
	o := object{r: r, n: n, who: who, fields: make([]fieldPair, 0, min(len(n.Pairs), 32))}
	for i := range n.Pairs {
		p := &n.Pairs[i]
		f := names(p.Key)
		if f == "" {
			r.strange(p, who, known)
			continue
		}
		if other := o.pair(f); other != nil {
			if other.Key == p.Key {
				continue // told as a fault of the grammar
			}
			if f == "title" && o.retitle(other, p) {
				continue
			}
			r.fault(p.Line, p.Column, "", "%s: has both %q (line %d) and %q: keep one", who, other.Key, other.Line, p.Key)
			continue
		}
		if p.Key != f {
			r.warnOnce("key "+p.Key, p.Line, "the key %q is read as %q", p.Key, f)
		}
		o.fields = append(o.fields, fieldPair{f, p})
	}
	return o
}

// maxStrange bounds how many keys of no meaning are looked at.
const maxStrange = 1000

// strange warns once of a key that has no meaning but nearly one.
func (r *reader) strange(p *tree.Pair, who string, known []string) {
	if r.seen[p.Key] || len(r.seen) >= maxStrange {
		return
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[p.Key] = true
	if guess := text.Closest(p.Key, known); guess != "" && guess != p.Key {
		r.warn(p.Line, "", "%s: the key %q is not used; was %q meant?", who, clip(p.Key), guess)
	}
}

// who names a task in messages: by its id, or by its place in the list.
func (r *reader) who(n *tree.Node, i int, names func(key string) string, field string) string {
	for _, p := range n.Pairs {
		if v := p.Value; names(p.Key) == field && (v.Kind == tree.String || v.Kind == tree.Number) && strings.TrimSpace(v.Text) != "" {
			return r.noun + " " + clip(strings.TrimSpace(v.Text))
		}
	}
	return fmt.Sprintf("%s %d", r.noun, i+1)
}

func (o *object) fault(n *tree.Node, text string, args ...any) {
	o.r.fault(n.Line, 0, o.id, "%s: %s", o.who, fmt.Sprintf(text, args...))
}

func (o *object) warn(n *tree.Node, text string, args ...any) {
	o.r.warn(n.Line, o.id, "%s: %s", o.who, fmt.Sprintf(text, args...))
}

// get returns the value of a field, nil when it is absent or null.
func (o *object) get(field string) *tree.Node {
	if p := o.pair(field); p != nil && p.Value.Kind != tree.Null {
		return p.Value
	}
	return nil
}

// key is the field as the file spells it.
func (o *object) key(field string) string {
	if p := o.pair(field); p != nil {
		return p.Key
	}
	return field
}

// text reads a text; a number is taken as it is written.
func (o *object) text(field string) string {
	n := o.get(field)
	switch {
	case n == nil:
		return ""
	case n.Kind == tree.String:
		return n.Text
	case n.Kind == tree.Number:
		return n.Text
	}
	o.fault(n, "%s must be a text, not %s", o.key(field), n.Kind)
	return ""
}

// list reads a list of texts. One text is a list of its lines or, with commas,
// of its parts; objects give the text that one of keys has.
func (o *object) list(field string, commas bool, keys ...string) []string {
	n := o.get(field)
	if n == nil {
		return nil
	}
	switch n.Kind {
	case tree.List:
	case tree.String, tree.Number:
		sep := func(r rune) bool { return r == '\n' || commas && (r == ',' || r == ';') }
		var out []string
		for _, part := range strings.FieldsFunc(n.Text, sep) {
			part = strings.TrimSpace(part)
			if !commas {
				part = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(part, "- "), "* "))
			}
			if part != "" && !(commas && none(part)) {
				out = append(out, part)
			}
		}
		o.r.warnOnce("list "+field, n.Line, "%s: %s is one text and read as a list", o.who, o.key(field))
		return out
	default:
		o.fault(n, "%s must be a list of texts, not %s", o.key(field), n.Kind)
		return nil
	}
	out := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		text, ok := o.item(item, keys)
		if !ok {
			o.fault(item, "item %d of %s must be a text, not %s", i+1, o.key(field), item.Kind)
			continue
		}
		if strings.TrimSpace(text) != "" {
			out = append(out, text)
		}
	}
	return out
}

func none(s string) bool {
	switch strings.ToLower(s) {
	case "none", "-", "n/a":
		return true
	}
	return false
}

// item is the text of a list's item.
func (o *object) item(n *tree.Node, keys []string) (string, bool) {
	switch n.Kind {
	case tree.String, tree.Number:
		return n.Text, true
	case tree.Map:
		for _, k := range keys {
			if v := n.Get(k); v != nil && (v.Kind == tree.String || v.Kind == tree.Number) {
				return v.Text, true
			}
		}
		// `- metric: 5` is what YAML makes of a text with a colon.
		if len(n.Pairs) == 1 && n.Pairs[0].Value.Kind != tree.Map && n.Pairs[0].Value.Kind != tree.List {
			return n.Pairs[0].Key + ": " + n.Pairs[0].Value.Text, true
		}
	}
	return "", false
}

// criteria reads acceptance criteria: texts, texts with a box, or objects with
// a text and a tick.
func (o *object) criteria(field string) []Criterion {
	texts := o.list(field, false, "text", "criterion", "title", "name", "description")
	if len(texts) == 0 {
		return nil
	}
	out := make([]Criterion, 0, len(texts))
	n := o.get(field)
	same := n.Kind == tree.List && len(n.Items) == len(texts)
	for i, text := range texts {
		c := Criterion{Text: strings.TrimSpace(text)}
		for _, box := range []string{"[ ] ", "[x] ", "[X] "} {
			if rest, ok := strings.CutPrefix(c.Text, box); ok {
				c.Text, c.Done = rest, box != "[ ] "
			}
		}
		if same && n.Items[i].Kind == tree.Map {
			for _, k := range []string{"done", "passes", "completed", "met"} {
				if v := n.Items[i].Get(k); v != nil && v.Kind == tree.Bool && v.Text == "true" {
					c.Done = true
				}
			}
			if v := n.Items[i].Get("status"); v != nil && v.Kind == tree.String {
				s, _ := statusOf(v.Text)
				c.Done = c.Done || s == Done
			}
		}
		out = append(out, c)
	}
	return out
}

// yes reads true or false; false when there is none.
func (o *object) yes(field string) bool {
	n := o.get(field)
	if n != nil && n.Kind != tree.Bool {
		o.fault(n, "%s must be true or false, not %s", o.key(field), told(n))
		return false
	}
	return n != nil && n.Text == "true"
}

// number reads a number between bounds; nil when there is none.
func (o *object) number(field string, least, most float64) *float64 {
	n := o.get(field)
	if n == nil {
		return nil
	}
	v, err := strconv.ParseFloat(n.Text, 64)
	switch {
	case n.Kind != tree.Number || err != nil || v != v:
		o.fault(n, "%s must be a number, not %s", o.key(field), told(n))
	case v < least || v > most:
		o.fault(n, "%s is %s; it must be from %v to %v", o.key(field), clip(n.Text), least, most)
	default:
		return &v
	}
	return nil
}

// told is a value as a message shows it.
func told(n *tree.Node) string {
	switch n.Kind {
	case tree.String:
		return strconv.Quote(clip(n.Text))
	case tree.Number, tree.Bool:
		return clip(n.Text)
	}
	return n.Kind.String()
}

// maxPriority is the least urgent priority that is taken: beyond it a number is
// a mistake.
const maxPriority = 100_000

// priority reads a number from 0 or a word; 2 when there is none.
func (o *object) priority(field string) int {
	const usual = 2
	n := o.get(field)
	if n == nil {
		return usual
	}
	switch n.Kind {
	case tree.Number:
		v, err := strconv.Atoi(n.Text)
		switch {
		case err != nil:
			o.fault(n, "%s %s must be a whole number", o.key(field), clip(n.Text))
		case v < 0:
			o.fault(n, "%s is %d; 0 is the most urgent", o.key(field), v)
		case v > maxPriority:
			o.fault(n, "%s is %d; numbers go up to %d", o.key(field), v, maxPriority)
		default:
			if v >= 100 {
				o.warn(n, "%s %d: 0 is the most urgent, so this comes late", o.key(field), v)
			}
			return v
		}
		return usual
	case tree.String:
		word := strings.ToLower(strings.TrimSpace(n.Text))
		if rank, ok := priorityWord(word); ok {
			o.r.warnOnce("priority "+word, n.Line, "%s: %s %q is read as %d", o.who, o.key(field), clip(n.Text), rank)
			return rank
		}
	}
	o.fault(n, "%s must be a number from 0, the most urgent, not %s", o.key(field), told(n))
	return usual
}

func priorityWord(word string) (int, bool) {
	switch word {
	case "critical", "urgent", "blocker", "highest", "high", "medium", "normal", "moderate", "low":
		return markdown.Task{Priority: strings.Replace(word, "highest", "critical", 1)}.Rank(), true
	case "lowest":
		return 4, true
	}
	v, err := strconv.Atoi(strings.TrimPrefix(word, "p"))
	return v, err == nil && v >= 0 && v <= maxPriority
}

// numericID matches ids that a file may hold as numbers.
var numericID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`) })

// maxID bounds an id: branches and folders are named by it.
const maxID = 100

// readID reads the id of a task; "" after a fault.
func (o *object) readID(field string) string {
	n := o.get(field)
	if n == nil {
		return ""
	}
	id := n.Text
	switch n.Kind {
	case tree.String:
	case tree.Number:
		if !numericID().MatchString(id) {
			o.fault(n, "the id %s must be a text", clip(id))
			return ""
		}
		o.r.warnOnce("numeric id", n.Line, "%s: the id is a number and read as the text %q", o.who, id)
	default:
		o.fault(n, "the id must be a text, not %s", n.Kind)
		return ""
	}
	trimmed := strings.TrimSpace(id)
	switch {
	case trimmed == "":
		o.fault(n, "the id is empty")
		return ""
	case len(trimmed) > maxID:
		o.fault(n, "the id is longer than %d bytes", maxID)
		return ""
	case strings.ContainsFunc(trimmed, func(r rune) bool { return r < ' ' || r == 0x7f }):
		o.fault(n, "the id %q has control characters", clip(trimmed))
		return ""
	}
	return trimmed
}

// word reads one of some words, "" for none.
func (o *object) word(field string, words ...string) string {
	n := o.get(field)
	if n == nil {
		return ""
	}
	w := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(n.Text), "-", "_"))
	if n.Kind == tree.String && slices.Contains(words, w) {
		return w
	}
	o.fault(n, "%s is %s; it must be one of %s", o.key(field), told(n), strings.Join(words, ", "))
	return ""
}

// statusOf reads a word for a status, in the many spellings of plans.
func statusOf(word string) (Status, bool) {
	word = strings.ToLower(strings.TrimSpace(word))
	switch strings.NewReplacer(" ", "_", "-", "_").Replace(word) {
	case "", "open", "todo", "to_do", "pending", "not_started", "ready", "backlog", "planned", "new", "queued", "partial", "failing", "not_done", "incomplete":
		return Pending, true
	case "in_progress", "inprogress", "doing", "started", "active", "wip", "working", "running", "claimed", "review", "in_review":
		return InProgress, true
	case "interrupted", "paused":
		return Interrupted, true
	case "blocked", "waiting", "on_hold":
		return Blocked, true
	case "done", "complete", "completed", "closed", "finished", "passed", "passing", "merged", "resolved", "verified", "implemented", "shipped":
		return Done, true
	case "failed", "error", "given_up":
		return Failed, true
	case "skipped", "skip", "cancelled", "canceled", "deferred", "wontfix", "dropped":
		return Skipped, true
	}
	return "", false
}

// status reads a field of status; ok says that there is one.
func (o *object) status(field string) (s Status, ok bool) {
	n := o.get(field)
	if n == nil {
		return Pending, false
	}
	if n.Kind == tree.String {
		if s, ok := statusOf(n.Text); ok {
			return s, true
		}
	}
	o.fault(n, "%s is %s; it must be one of open, in_progress, interrupted, blocked, done, failed, skipped", o.key(field), told(n))
	return Pending, false
}

// kind reads the kind of a task.
func (o *object) kind(field string) string {
	w := strings.ToLower(strings.TrimSpace(o.text(field)))
	switch w {
	case "", "task", "bug", "feature", "chore", "epic":
		return w
	case "story", "user_story", "user story":
		return ""
	}
	return clip(w)
}

// clip is a bit of foreign text for a message.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// inOrder sorts problems by line.
func inOrder(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	return list
}
