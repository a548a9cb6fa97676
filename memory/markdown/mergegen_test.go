package markdown

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// What follows makes triples of a base, what a user made of it and what Ralph
// made of it, and knows what each side did: the judge in merge_test.go needs
// nothing of Merge to tell whether a merge is right.

// gTask is a task in the model of a file.
type gTask struct {
	key    int // who it is, whatever its id and title become
	id     string
	title  string
	status Status
	fields [][2]string // without the status
	notes  []string
	plain  bool // ids and fields are left out: "- [ ] title"
	copied bool // a second one with the same id
}

// gElem is a heading, a line of text or a task.
type gElem struct {
	level int
	text  string
	task  *gTask
}

// gStyle is how a user's editor writes the same model.
type gStyle struct {
	bullet, inner, eol string
	indent             string
	bom, blank         bool
	deeper             int // levels of headings
	end                string
}

// gLine is a line of a file and what it says: a task's field.
type gLine struct {
	text  string
	key   int // of the task, or -1
	field string
}

type gFile struct {
	elems []*gElem
	style gStyle
	tail  string // put behind the file as it is
}

func (f *gFile) clone() *gFile {
	out := *f
	out.elems = nil
	for _, e := range f.elems {
		c := *e
		if e.task != nil {
			t := *e.task
			t.fields, t.notes = slices.Clone(t.fields), slices.Clone(t.notes)
			c.task = &t
		}
		out.elems = append(out.elems, &c)
	}
	return &out
}

// lines writes the file.
func (f *gFile) lines() []gLine {
	var out []gLine
	s := f.style
	add := func(key int, field, text string) { out = append(out, gLine{text + s.eol, key, field}) }
	for _, e := range f.elems {
		switch {
		case e.task == nil && e.level > 0:
			if len(out) > 0 {
				add(-1, "", "")
			}
			add(-1, "", strings.Repeat("#", e.level+s.deeper)+" "+e.text)
			add(-1, "", "")
		case e.task == nil:
			add(-1, "", e.text)
		default:
			t := e.task
			box := "[ ]"
			if t.status == Done {
				box = "[x]"
			}
			if t.plain {
				add(t.key, "head", s.indent+s.bullet+" "+box+" "+t.title)
			} else {
				add(t.key, "head", s.indent+s.bullet+" "+box+" **"+t.id+"** "+t.title)
				add(t.key, "status", s.indent+s.inner+s.bullet+" status: "+string(t.status))
			}
			for _, kv := range t.fields {
				add(t.key, kv[0], s.indent+s.inner+s.bullet+" "+kv[0]+": "+kv[1])
			}
			for _, n := range t.notes {
				add(t.key, "note", s.indent+s.inner+n)
			}
			if s.blank {
				add(-1, "", "")
			}
		}
	}
	for _, l := range strings.SplitAfter(f.tail, "\n") {
		if l != "" {
			out = append(out, gLine{l, -1, "tail"})
		}
	}
	if s.bom && len(out) > 0 {
		out[0].text = bom + out[0].text
	}
	if n := len(out); n > 0 && s.end == "none" {
		out[n-1].text = strings.TrimRight(out[n-1].text, "\r\n")
	}
	return out
}

func (f *gFile) String() string {
	var b strings.Builder
	for _, l := range f.lines() {
		b.WriteString(l.text)
	}
	return b.String()
}

func (f *gFile) tasks() []*gTask {
	var out []*gTask
	for _, e := range f.elems {
		if e.task != nil {
			out = append(out, e.task)
		}
	}
	return out
}

func (f *gFile) at(key int) int {
	return slices.IndexFunc(f.elems, func(e *gElem) bool { return e.task != nil && e.task.key == key && !e.task.copied })
}

func (t *gTask) get(field string) string {
	for _, kv := range t.fields {
		if kv[0] == field {
			return kv[1]
		}
	}
	return ""
}

func (t *gTask) set(field, value string) {
	for i, kv := range t.fields {
		if kv[0] == field {
			t.fields[i][1] = value
			return
		}
	}
	t.fields = append(t.fields, [2]string{field, value})
}

// gen makes triples from one source of chance.
type gen struct {
	*rand.Rand
	serial int
	titles map[string]bool
}

func pick[T any](g *gen, list ...T) T { return list[g.IntN(len(list))] }

func (g *gen) title() string {
	for {
		t := pick(g, "Retry", "Rework", "Measure", "Drop", "Document", "Speed up", "Test", "Split") + " the " +
			pick(g, "upload", "parser", "index", "login form", "export", "cache", "queue", "settings page", "Übersicht", "登录") + " " +
			pick(g, "on 503", "for CRLF files", "behind a flag", "without a lock", "in the background", "after a crash", "on Windows", "by hand", "once more", "(again)")
		if !g.titles[t] {
			g.titles[t] = true
			return t
		}
		g.serial++
		if g.serial > 400 {
			t = fmt.Sprintf("%s, part %d", t, g.serial)
			g.titles[t] = true
			return t
		}
	}
}

func (g *gen) word() string {
	g.serial++
	return fmt.Sprintf("%s %s %d", pick(g, "note", "remark", "idea", "see"), pick(g, "about the tests", "from the review", "`[ ]` in text", "| a | b |"), g.serial)
}

// base makes a task file with a few sections.
func (g *gen) base() *gFile {
	g.titles = map[string]bool{}
	f := &gFile{style: gStyle{bullet: "-", inner: "  ", eol: "\n"}}
	if g.IntN(8) == 0 {
		f.style.eol = "\r\n"
	}
	f.elems = append(f.elems, &gElem{level: 1, text: "Tasks"})
	key := 0
	for s := range 1 + g.IntN(4) {
		f.elems = append(f.elems, &gElem{level: 2, text: fmt.Sprintf("Part %c", 'A'+rune(s))})
		if g.IntN(3) == 0 {
			f.elems = append(f.elems, &gElem{text: "Prose: " + g.word() + "."}, &gElem{})
		}
		for range 1 + g.IntN(5) {
			t := &gTask{key: key, id: fmt.Sprintf("T-%d", key+1), title: g.title(), status: pick(g, Pending, Pending, InProgress, Done)}
			if g.IntN(2) == 0 {
				t.set("priority", fmt.Sprint(g.IntN(4)))
			}
			if key > 0 && g.IntN(3) == 0 {
				t.set("after", fmt.Sprintf("T-%d", 1+g.IntN(key)))
			}
			if g.IntN(2) == 0 {
				t.set("check", "go test ./"+pick(g, "upload", "parser", "cache")+"/...")
			}
			if g.IntN(4) == 0 {
				t.notes = append(t.notes, "- "+g.word())
			}
			f.elems = append(f.elems, &gElem{task: t})
			key++
		}
	}
	if g.IntN(3) == 0 {
		f.elems = append(f.elems, &gElem{level: 2, text: "Notes"}, &gElem{text: "Kept: " + g.word() + "."})
	}
	return f
}

// touch is a task and what was done to it.
type touch struct {
	key   int
	field string // "task" for a deletion
}

// triple is a base, two versions and what was done.
type triple struct {
	kinds             []string
	base, user, ralph string
	lines             []gLine // of the user's
	file              *gFile  // the user's
	ids               map[int]string
	mine              map[touch]string // what the user did
	theirs            map[touch]string // what Ralph did
	added             []string         // titles that Ralph added
	entry             string           // a section that Ralph put in
	taken             bool             // the user gave an id that Ralph gave too
	wild              bool             // the user left no file to merge into
}

func kinds() []string {
	return []string{"reorder", "reindent", "renumber", "reformat", "crlf/bom", "adjacent", "delete", "move", "duplicate", "reword", "prose", "status", "field", "add", "note", "fence", "both", "same", "same id", "open end", "garbage", "nothing"}
}

func (g *gen) triple() *triple {
	base := g.base()
	x := &triple{base: base.String(), ids: map[int]string{}, mine: map[touch]string{}, theirs: map[touch]string{}}
	user := base.clone()
	n := 1 + g.IntN(3)
	all := kinds()
	var later []string
	for range n {
		// The odd ones out come less often.
		k := all[g.IntN(len(all))]
		if slices.Index(all, k) >= slices.Index(all, "open end") && g.IntN(3) > 0 {
			k = all[g.IntN(len(all)-3)]
		}
		x.kinds = append(x.kinds, k)
		switch k {
		case "both", "same", "same id", "adjacent":
			later = append(later, k)
		default:
			g.userDoes(k, user, x)
		}
	}
	g.ralphDoes(base, user, x, later)
	for i, e := range user.elems {
		if e.task == nil {
			continue
		}
		if k := user.at(e.task.key - 1000); e.task.copied && k > i {
			user.elems[i], user.elems[k] = user.elems[k], user.elems[i] // of two alike the first is the one
			e = user.elems[i]
		}
		if !e.task.copied {
			x.ids[e.task.key] = e.task.id
		}
	}
	for _, t := range base.tasks() {
		if at := (touch{t.key, "status"}); x.mine[at] == string(t.status) {
			delete(x.mine, at) // changed there and back
		}
	}
	x.file, x.lines, x.user = user, user.lines(), user.String()
	if slices.Contains(x.kinds, "nothing") {
		x.user, x.lines, x.wild = pick(g, "", "\n", "  \n\n"), nil, true
	}
	if slices.Contains(x.kinds, "garbage") && !x.wild {
		x.user, x.wild = pick(g, "\x00\x01\x02 \xff\xfe", "asdf qwer\n```\n<!--", strings.Repeat("\xf0\x28", 50), "\x00"+x.user), true
		x.lines = []gLine{{x.user, -1, ""}}
	}
	return x
}

func (g *gen) some(f *gFile) *gTask {
	list := f.tasks()
	for range 20 {
		if len(list) == 0 {
			return nil
		}
		if t := list[g.IntN(len(list))]; !t.copied {
			return t
		}
	}
	return nil
}

// userDoes makes one kind of change to the user's file.
func (g *gen) userDoes(kind string, f *gFile, x *triple) {
	t := g.some(f)
	if t == nil {
		return
	}
	switch kind {
	case "reorder":
		list := f.tasks()
		g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, e := range f.elems {
			if e.task != nil {
				e.task, list = list[0], list[1:]
			}
		}
	case "move":
		i := f.at(t.key)
		e := f.elems[i]
		f.elems = slices.Delete(f.elems, i, i+1)
		var heads []int
		for k, e := range f.elems {
			if e.level > 1 {
				heads = append(heads, k+1)
			}
		}
		f.elems = slices.Insert(f.elems, pick(g, heads...), e)
	case "reindent":
		f.style.inner = pick(g, "\t", "    ", "   ")
		f.style.indent = pick(g, "", "", "  ")
	case "renumber":
		g.renumber(f)
	case "reformat":
		f.style.bullet, f.style.blank, f.style.deeper = pick(g, "*", "+"), true, g.IntN(3)
		f.style.inner = pick(g, "  ", "\t", "    ")
	case "crlf/bom":
		f.style.eol = pick(g, "\r\n", "\n")
		f.style.bom = g.IntN(2) == 0
		f.style.end = pick(g, "", "none")
	case "delete":
		i := f.at(t.key)
		f.elems = slices.Delete(f.elems, i, i+1)
		f.elems = slices.DeleteFunc(f.elems, func(e *gElem) bool { return e.task != nil && e.task.key == 1000+t.key })
		x.mine[touch{t.key, "task"}] = ""
	case "duplicate":
		c := *t
		c.copied, c.key = true, 1000+t.key
		c.fields, c.notes = slices.Clone(t.fields), slices.Clone(t.notes)
		f.elems = slices.Insert(f.elems, f.at(t.key)+1, &gElem{task: &c})
	case "reword":
		words := strings.Fields(t.title)
		words[len(words)-1] = pick(g, "soon", "properly", "at last", "[really]")
		t.title = strings.Join(append(words, fmt.Sprint(g.IntN(1000))), " ")
		x.mine[touch{t.key, "title"}] = t.title
	case "prose":
		i := 1 + g.IntN(len(f.elems))
		f.elems = slices.Insert(f.elems, i, &gElem{}, &gElem{text: "User: " + g.word() + "."}, &gElem{})
	case "status":
		s := pick(g, Done, Blocked, Pending, InProgress, Skipped)
		if s == t.status {
			return
		}
		t.status = s
		x.mine[touch{t.key, "status"}] = string(t.status)
	case "field":
		name := pick(g, "priority", "agent", "check")
		t.set(name, fmt.Sprintf("u%d", g.IntN(100)))
		x.mine[touch{t.key, name}] = t.get(name)
	case "add":
		f.elems = append(f.elems, &gElem{task: &gTask{key: 500 + g.IntN(100), id: fmt.Sprintf("U-%d", g.IntN(100)), title: g.title(), status: Pending, plain: g.IntN(2) == 0, copied: true}})
	case "note":
		t.notes = append(t.notes, "- "+g.word())
	case "fence":
		f.elems = append(f.elems, &gElem{}, &gElem{text: "```"}, &gElem{text: "- [ ] **T-1** no task"}, &gElem{text: "```"}, &gElem{})
	case "open end":
		f.tail = pick(g, "```\n- [ ] **T-2** open\n", "<!-- open\n- [ ] x\n", "~~~~\n")
	}
}

// renumber gives ids anew, in order or moved on, and keeps what comes after
// what.
func (g *gen) renumber(f *gFile) {
	to := map[string]string{}
	n := pick(g, 1, 10, 40)
	for _, t := range f.tasks() {
		if !t.copied {
			to[t.id] = fmt.Sprintf("T-%d", n)
			n++
		}
	}
	for _, t := range f.tasks() {
		if id := to[t.id]; id != "" {
			t.id = id
		}
		if id := to[t.get("after")]; id != "" {
			t.set("after", id)
		}
	}
}

// ralphDoes changes the base as Ralph does, and lets the user do next to it, or
// to the same, what the kinds in later say.
func (g *gen) ralphDoes(base, user *gFile, x *triple, later []string) {
	d := Parse([]byte(x.base))
	list := base.tasks()
	for range 1 + g.IntN(3) {
		t := list[g.IntN(len(list))]
		switch g.IntN(6) {
		case 0, 1, 2:
			s := pick(g, Done, Done, Failed, InProgress, Interrupted, Blocked)
			if s != t.status {
				must(d.Edit(t.id, Edit{Status: s}))
				x.theirs[touch{t.key, "status"}] = string(s)
			}
		case 3:
			v := fmt.Sprintf("works %d", g.IntN(1000))
			must(d.Edit(t.id, Edit{Result: v}))
			x.theirs[touch{t.key, "result"}] = v
		case 4:
			title := g.title()
			task, err := d.Add(Task{Title: title, Check: "make", After: []string{t.id}}, "T")
			must(err)
			x.added = append(x.added, title)
			x.taken = x.taken || slices.ContainsFunc(user.tasks(), func(t *gTask) bool { return t.id == task.ID })
			if slices.Contains(later, "same id") {
				x.taken = true
				user.elems = append(user.elems, &gElem{task: &gTask{key: 700 + len(x.added), id: task.ID, title: g.title(), status: Pending, copied: true}})
			}
		case 5:
			if x.entry == "" {
				x.entry = fmt.Sprintf("## 2026-01-02 10:00 UTC — entry %d\n\n- Status: done\n- Files: `a.go`\n", g.IntN(100))
				if g.IntN(2) == 0 {
					d.PrependEntry(x.entry)
				} else {
					d.AppendEntry(x.entry)
				}
			}
		}
	}
	x.ralph = d.String()
	for at, value := range x.theirs {
		i := user.at(at.key)
		if i < 0 {
			continue
		}
		t := user.elems[i].task
		for _, k := range later {
			switch {
			case k == "adjacent":
				t.set("priority", "u7")
				x.mine[touch{t.key, "priority"}] = "u7"
				t.notes = append(t.notes, "- "+g.word())
			case k == "both" && at.field == "status":
				t.status = Skipped
				x.mine[at] = string(t.status)
			case k == "same" && at.field == "status":
				t.status = Status(value)
				x.mine[at] = value
			case at.field == "result" && (k == "both" || k == "same"):
				if k == "both" {
					value = "fails"
				}
				t.set("result", value)
				x.mine[at] = value
			}
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
