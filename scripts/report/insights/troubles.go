package insights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

const (
	maxTypes   = 2000   // of errors
	maxBundles = 10_000 // of errors of the same type, task and kind
	// sameMoment is how far apart two files may state the time of one event, in ms.
	sameMoment = 5000
)

// untold begins the type of an error that states none: it is known by its
// message.
const untold = "\x00"

// bundle is what is the same of some errors.
type bundle struct{ typ, task, kind int32 }

// troubles counts errors by type and kind of task.
type troubles struct {
	board   *board
	number  map[string]int32
	types   []string // as they were written first
	bundles map[bundle]*proof
	says    map[int32]string // by type: what the first of them said
}

func newTroubles(b *board) *troubles {
	return &troubles{board: b, number: map[string]int32{}, bundles: map[bundle]*proof{}, says: map[int32]string{}}
}

// typeNamed returns the number of an error type; −1 when there are too many.
func (t *troubles) typeNamed(shown string) int32 {
	key := errorKey(shown)
	if n, ok := t.number[key]; ok {
		return n
	}
	if len(t.types) >= maxTypes {
		return -1
	}
	n := int32(len(t.types))
	t.number[strings.Clone(key)] = n
	t.types = append(t.types, strings.Clone(shown))
	return n
}

// errorKey makes TimeoutError, timeout_error and timeout the same.
func errorKey(s string) string {
	if strings.HasPrefix(s, untold) {
		return s
	}
	k := plain(s)
	if short := strings.TrimSuffix(k, "error"); short != "" {
		return short
	}
	return k
}

func (t *troubles) add(m mark, task int32, typ, kind string) {
	b := bundle{typ: t.typeNamed(typ), task: task}
	if b.typ < 0 {
		return
	}
	if kind != "" {
		b.kind = t.board.kind(kind)
	}
	p := t.bundles[b]
	if p == nil && len(t.bundles) >= maxBundles {
		b.kind, b.task = t.board.kind(t.board.kindOf(task, b.kind)), none
		p = t.bundles[b]
	}
	if p == nil {
		x := newProof()
		p = &x
		t.bundles[b] = p
	}
	p.add(m, "")
}

func (t *troubles) event(m mark, n int32, e folder.Event, d details) {
	typ, kind := errorTypes(e.Result, d)
	t.add(m, n, typ, kind)
	t.said(typ, cmp.Or(d.text("errormessage", "message", "error", "reason", "text"), e.Result))
}

// said keeps what the first error of a type says, unless that is the type again.
func (t *troubles) said(typ, message string) {
	n := t.typeNamed(typ)
	if n < 0 || t.says[n] != "" || message == "" || strings.HasPrefix(typ, untold) || errorKey(message) == errorKey(typ) {
		return
	}
	t.says[n] = keep(message)
}

// errorTypes reads the type of an error and the kind of its task.
func errorTypes(result string, d details) (typ, kind string) {
	kind = d.text("taskkind", "tasktype", "taskcategory", "issuetype")
	typ = d.text("errortype", "errorkind", "errorclass", "errorname", "exceptiontype", "exception")
	for _, k := range []string{"kind", "type", "category", "class"} {
		switch v := asText(d.own(k)); {
		case v == "" || v == typ:
		case kind == "" && (typ != "" || isKind(v) && (d.own("kind", "type", "category") != nil && several(d))):
			kind = v
		case typ == "":
			typ = v
		}
	}
	if typ == "" {
		if m, ok := d.own("error").(map[string]any); ok {
			typ = d.in(m).text("type", "kind", "name", "class", "code")
		}
	}
	for _, v := range []string{d.text("error"), d.text("reason"), d.text("errorcode", "code", "httpstatus"), result} {
		if typ == "" && isName(v) {
			typ = v
		}
	}
	if typ == "" {
		typ = untold + gist(cmp.Or(d.text("errormessage", "message", "error", "reason", "text"), result))
	}
	if len(typ) > 4*maxNameRunes {
		typ = strings.ToValidUTF8(typ[:4*maxNameRunes], "")
	}
	return typ, kind
}

// several says that more than one key may name a type.
func several(d details) bool {
	n := 0
	for _, k := range []string{"kind", "type", "category", "class"} {
		if asText(d.own(k)) != "" {
			n++
		}
	}
	return n > 1
}

// isKind says that a word is a kind of task and no type of error.
func isKind(s string) bool {
	switch plain(s) {
	case "task", "bug", "feature", "chore", "epic", "story", "docs", "documentation", "refactor", "refactoring", "bugfix", "enhancement", "spike":
		return true
	}
	return false
}

// isName says that a text is one word that can name a type of error.
func isName(s string) bool {
	if s == "" || len(s) > 60 || strings.ContainsAny(s, " \t\n/:\"'") {
		return false
	}
	switch plain(s) {
	case "failed", "failure", "error", "fail", "failing", "resolved", "unresolved", "retry", "retrying", "recovered", "true", "false", "fatal", "critical", "high", "medium", "low", "warning",
		"skipped", "aborted", "open", "pending", "1", "0":
		return false
	}
	return true
}

// gist is a message without its numbers, so that the same trouble at another
// place is the same.
func gist(s string) string {
	s = s[:min(len(s), 8*maxNameRunes)]
	var b strings.Builder
	digits := false
	for _, r := range strings.ToLower(strings.TrimSpace(s)) {
		if isDigit := r >= '0' && r <= '9'; isDigit && digits {
			continue
		} else if digits = isDigit; isDigit {
			r = '#'
		}
		if b.WriteRune(r); b.Len() > maxNameRunes {
			break
		}
	}
	return b.String()
}

// taskKind is what an event says of the kind of its task.
func taskKind(t folder.EventType, d details) string {
	if len(d.fields) == 0 {
		return ""
	}
	if t == folder.TaskStart || t == folder.TaskComplete {
		if k := d.text("taskkind", "tasktype", "taskcategory", "issuetype"); k != "" {
			return k
		}
		for _, k := range []string{"kind", "type", "category"} {
			if v := asText(d.own(k)); v != "" && (t == folder.TaskStart || isKind(v)) {
				return v
			}
		}
		return ""
	}
	return asText(d.own("taskkind", "tasktype"))
}

// group is the errors of one type and kind of task.
type group struct {
	typ  int32
	kind string
}

// findings counts the errors of the log, and those of errors-and-retries.json
// that the log does not tell.
func (t *troubles) findings(d *folder.Data) []Finding {
	groups := map[group]*proof{}
	in := func(typ int32, kind string) *proof {
		g := group{typ, kind}
		if groups[g] == nil {
			p := newProof()
			groups[g] = &p
		}
		return groups[g]
	}
	type known struct{ typ, task int32 }
	told, anywhere := map[known]int{}, map[int32]int{}
	for _, b := range t.sorted() {
		p, typ := t.bundles[b], t.resolved(b, d)
		told[known{typ, b.task}] += p.n
		anywhere[typ] += p.n
		q := in(typ, t.board.kindOf(b.task, b.kind))
		q.n += p.n
		q.marks = append(q.marks, p.marks...)
		q.span(p.first)
		q.span(p.last)
		q.in(t.board.id(b.task))
	}
	for i, x := range d.EachFailure() {
		typ, n := t.typeNamed(cmp.Or(x.ErrorType, untold+gist(x.ErrorMessage))), t.board.of(x.TaskID)
		if typ < 0 {
			continue
		}
		t.said(x.ErrorType, x.ErrorMessage)
		k := known{typ, n}
		if told[k] == 0 {
			k.task = none
		}
		if told[k] > 0 && anywhere[typ] > 0 {
			told[k]--
			anywhere[typ]--
			continue
		}
		if n == none && anywhere[typ] > 0 { // the file does not say of which task
			anywhere[typ]--
			continue
		}
		q := in(typ, t.board.kindOf(n, 0))
		q.n++
		q.marks = append(q.marks, mark{ms: millis(x.Time), n: uint32(i + 1), file: 'x'})
		q.span(millis(x.Time))
		q.in(x.TaskID)
	}
	var found []Finding
	for g, p := range groups {
		if p.n < minErrors || t.types[g.typ] == untold {
			continue
		}
		slices.SortStableFunc(p.marks, byTime)
		p.marks = p.marks[:min(len(p.marks), maxListed)]
		found = append(found, p.finding(repeatedError, t.evidence(g, p)))
	}
	slices.SortFunc(found, func(x, y Finding) int {
		return cmp.Or(-cmp.Compare(x.Count, y.Count), strings.Compare(x.Evidence, y.Evidence))
	})
	return found
}

// sorted are the bundles in a fixed order.
func (t *troubles) sorted() []bundle {
	list := make([]bundle, 0, len(t.bundles))
	for b := range t.bundles {
		list = append(list, b)
	}
	slices.SortFunc(list, func(x, y bundle) int {
		return cmp.Or(byTime(t.bundles[x].marks[0], t.bundles[y].marks[0]), cmp.Compare(x.typ, y.typ), cmp.Compare(x.task, y.task), cmp.Compare(x.kind, y.kind))
	})
	return list
}

func (t *troubles) evidence(g group, p *proof) string {
	what := "type " + named(t.types[g.typ])
	if m, ok := strings.CutPrefix(t.types[g.typ], untold); ok {
		what = fmt.Sprintf("the same message (“%s”)", named(m))
	}
	where := ""
	if len(p.tasks) > 1 {
		where = fmt.Sprintf(", in %d tasks", len(p.tasks))
		if len(p.tasks) == maxListed {
			where = fmt.Sprintf(", in %d tasks or more", len(p.tasks))
		}
	}
	said := ""
	if s := t.says[g.typ]; s != "" {
		said = fmt.Sprintf(": “%s”", named(s))
	}
	return fmt.Sprintf("%d errors of %s in work of kind %s%s%s%s.", p.n, what, named(g.kind), where, over(p), said)
}

// over says how long something went on.
func over(p *proof) string {
	if p.first == noTime || p.last <= p.first {
		return ""
	}
	return " within " + text.Length(float64(p.last-p.first)/1000)
}

// resolved is the type of the errors of a bundle. Where the log states none, the
// entry of errors-and-retries.json with the same message, or of the same task
// and time, does.
func (t *troubles) resolved(b bundle, d *folder.Data) int32 {
	message, is := strings.CutPrefix(t.types[b.typ], untold)
	if !is {
		return b.typ
	}
	for i, x := range d.EachFailure() {
		if i == 10_000 {
			break
		}
		same := message != "" && gist(x.ErrorMessage) == message
		if !same && t.board.id(b.task) == x.TaskID {
			at := millis(x.Time)
			same = slices.ContainsFunc(t.bundles[b].marks, func(m mark) bool {
				return at != noTime && m.ms != noTime && m.ms-at <= sameMoment && at-m.ms <= sameMoment
			})
		}
		if same && x.ErrorType != "" {
			if n := t.typeNamed(x.ErrorType); n >= 0 {
				return n
			}
		}
	}
	return b.typ
}
