package markdown

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// This generator works on lines of text, as an editor does, in files of every
// dialect; it knows nothing of how Merge sees them.

type lineGen struct {
	*rand.Rand
	serial int
}

func (g *lineGen) mark() string { g.serial++; return fmt.Sprintf("zq%d", g.serial) }

// ownForm is a file in Ralph's own form with what stands around tasks.
func (g *lineGen) ownForm() string {
	var b strings.Builder
	b.WriteString("# Tasks\n\nIntro words.\n\n")
	n := 1
	for s := range 2 + g.IntN(3) {
		fmt.Fprintf(&b, "## Part %d\n\n", s)
		for range 1 + g.IntN(5) {
			st := []Status{Pending, Pending, InProgress, Done, Blocked}[g.IntN(5)]
			box := " "
			if st == Done {
				box = "x"
			}
			fmt.Fprintf(&b, "- [%s] **T-%d** %s thing %s\n  - status: %s\n", box, n, []string{"Make", "Fix", "Test"}[g.IntN(3)], g.mark(), st)
			if g.IntN(2) == 0 {
				fmt.Fprintf(&b, "  - priority: %d\n", g.IntN(4))
			}
			if g.IntN(2) == 0 {
				fmt.Fprintf(&b, "  - check: go test ./%s\n", g.mark())
			}
			if g.IntN(4) == 0 {
				fmt.Fprintf(&b, "  - [ ] step %s\n  - [x] step %s\n", g.mark(), g.mark())
			}
			if g.IntN(6) == 0 {
				fmt.Fprintf(&b, "  ```\n  - [ ] box in a fence %s\n  ```\n", g.mark())
			}
			if g.IntN(6) == 0 {
				fmt.Fprintf(&b, "\n  A paragraph %s.\n", g.mark())
			}
			n++
		}
		if g.IntN(3) == 0 {
			fmt.Fprintf(&b, "\nProse %s.\n<!-- hidden\n- [ ] **T-1** x\n-->\n```sh\n- [ ] code %s\n```\n", g.mark(), g.mark())
		}
		b.WriteString("\n")
	}
	return b.String()
}

var idIn = regexp.MustCompile(`\bT-(\d+)\b`)

func splitKeep(s string) []string {
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

type lineCase struct {
	kind, base, user, ralph string
	disjoint                bool
	title                   string // Ralph's task
	want                    Status
	wantRead                bool
	added                   string
	entry                   string
	dialect                 string
}

// safe are the lines between which text may be put without changing what is
// hidden: outside fences and comments.
func safe(d *Document) []int {
	var out []int
	for i := 0; i < d.lines.n; i++ {
		if d.lines.at(i).kind == lineText {
			out = append(out, i)
		}
	}
	return out
}

func (g *lineGen) make(dialect, base string, kind string) (lineCase, bool) {
	c := lineCase{kind: kind, dialect: dialect}
	if g.IntN(6) == 0 {
		base = strings.ReplaceAll(base, "\n", "\r\n")
	}
	if g.IntN(8) == 0 {
		base = bom + base
	}
	if g.IntN(8) == 0 {
		base = strings.TrimRight(base, "\r\n")
	}
	c.base = base
	d := Parse([]byte(base))
	if len(d.tasks) < 3 {
		return c, false
	}
	// A title that occurs twice is not found again.
	titles := map[string]int{}
	for _, n := range d.tasks {
		titles[n.Title]++
	}
	k := g.IntN(len(d.tasks))
	n := d.tasks[k]
	if titles[n.Title] > 1 {
		return c, false
	}
	c.title = n.Title
	rs, re := d.start(n), d.end(n)
	// Ralph
	r := Parse([]byte(base))
	op := g.IntN(10)
	switch {
	case op < 6:
		st := []Status{Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped}[g.IntN(7)]
		if st == n.Status {
			st = Done
		}
		if st == n.Status {
			st = InProgress
		}
		must(r.Edit(n.ID, Edit{Status: st}))
		t, ok := r.Task(n.ID)
		c.want, c.wantRead = st, ok && t.Status == st
		if g.IntN(3) == 0 {
			must(r.Edit(n.ID, Edit{Result: "fine " + g.mark()}))
		}
	case op < 8:
		c.added = "Added " + g.mark()
		if g.IntN(2) == 0 {
			if _, err := r.Add(Task{Title: c.added, Check: "make"}, "T"); err != nil {
				return c, false
			}
		} else {
			must(r.AddItem(c.added))
		}
	default:
		c.entry = "entry " + g.mark()
		if g.IntN(2) == 0 {
			r.PrependEntry("## 2026-01-02 10:00 UTC — " + c.entry + "\n\n- Status: done\n- Files: `a.go`\n")
		} else {
			r.AppendEntry("## 2026-01-02 10:00 UTC — " + c.entry + "\n\ntext " + c.entry + "\n")
		}
	}
	c.ralph = r.String()
	// user
	var others []*node
	for _, o := range d.tasks {
		if o != n && d.end(o) <= d.lines.n && !(d.start(o) >= rs && d.start(o) < re) && titles[o.Title] == 1 {
			others = append(others, o)
		}
	}
	if len(others) < 2 {
		return c, false
	}
	lines := splitKeep(base)
	eol := "\n"
	if strings.HasSuffix(lines[0], "\r\n") {
		eol = "\r\n"
	}
	o := others[g.IntN(len(others))]
	os, oe := d.start(o), d.end(o)
	c.disjoint = true
	endLine := func(s string) string { return s + eol }
	ins := func(i int, s ...string) {
		if i > 0 && i == len(lines) && !strings.HasSuffix(lines[i-1], "\n") {
			lines[i-1] += eol
		}
		lines = slices.Insert(lines, i, s...)
	}
	outside := func() int { // a line not of Ralph's task
		for range 50 {
			s := safe(d)
			if i := s[g.IntN(len(s))]; i < rs || i > re {
				return i
			}
		}
		return -1
	}
	switch kind {
	case "insert prose between task's lines":
		i := os + 1
		if oe > os+1 {
			i += g.IntN(oe - os - 1)
		}
		if i < len(lines) && d.lines.at(i).kind != lineText {
			return c, false
		}
		ins(i, endLine("  my remark "+g.mark()))
	case "insert prose anywhere":
		i := outside()
		if i < 0 {
			return c, false
		}
		ins(i, endLine("prose "+g.mark()+"."))
	case "prose in Ralph's task":
		if d.lines.at(rs).kind != lineText || rs+1 < d.lines.n && d.lines.at(rs+1).kind != lineText {
			return c, false
		}
		i := re
		for i > rs+1 && strings.TrimSpace(lines[i-1]) == "" {
			i--
		}
		ins(i, endLine("  - remark "+g.mark()))
	case "blank lines":
		for range 3 {
			ins(g.IntN(len(lines)), eol)
		}
	case "crlf in parts":
		a := g.IntN(len(lines))
		for i := a; i < min(len(lines), a+1+g.IntN(8)); i++ {
			if strings.HasSuffix(lines[i], "\r\n") {
				lines[i] = strings.TrimSuffix(lines[i], "\r\n") + "\n"
			} else if strings.HasSuffix(lines[i], "\n") {
				lines[i] = strings.TrimSuffix(lines[i], "\n") + "\r\n"
			}
		}
	case "crlf all":
		for i := range lines {
			if strings.HasSuffix(lines[i], "\r\n") {
				lines[i] = strings.TrimSuffix(lines[i], "\r\n") + "\n"
			} else if strings.HasSuffix(lines[i], "\n") {
				lines[i] = strings.TrimSuffix(lines[i], "\n") + "\r\n"
			}
		}
	case "bom":
		if strings.HasPrefix(lines[0], bom) {
			lines[0] = strings.TrimPrefix(lines[0], bom)
		} else {
			lines[0] = bom + lines[0]
		}
	case "tabs":
		for i := range lines {
			t := strings.TrimLeft(lines[i], " ")
			if w := len(lines[i]) - len(t); w >= 2 && d.lines.at(i).kind == lineText {
				lines[i] = strings.Repeat("\t", w/2) + t
			}
		}
	case "reindent 4":
		for i := range lines {
			t := strings.TrimLeft(lines[i], " ")
			if w := len(lines[i]) - len(t); w >= 2 && d.lines.at(i).kind == lineText {
				lines[i] = strings.Repeat("  ", w) + t
			}
		}
	case "bullets":
		for i := range lines {
			t := strings.TrimLeft(lines[i], " \t")
			if strings.HasPrefix(t, "- ") && d.lines.at(i).kind == lineText {
				lines[i] = lines[i][:len(lines[i])-len(t)] + "* " + t[2:]
			}
		}
	case "trailing blanks":
		for i := range lines {
			if g.IntN(3) == 0 && strings.HasSuffix(lines[i], "\n") {
				body := strings.TrimRight(lines[i], "\r\n")
				lines[i] = body + "  " + lines[i][len(body):]
			}
		}
	case "no final newline":
		lines[len(lines)-1] = strings.TrimRight(lines[len(lines)-1], "\r\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
	case "delete other task":
		lines = slices.Delete(lines, os, oe)
	case "move task":
		block := slices.Clone(lines[os:oe])
		for i := range block {
			if !strings.HasSuffix(block[i], "\n") {
				block[i] += eol
			}
		}
		var at []int
		for _, p := range d.tasks {
			if p != o && !(d.start(p) > os && d.start(p) < oe) {
				at = append(at, d.start(p))
			}
		}
		i := at[g.IntN(len(at))]
		if i > os {
			i -= oe - os
		}
		lines = slices.Delete(lines, os, oe)
		lines = slices.Insert(lines, i, block...)
	case "move Ralph's task":
		block := slices.Clone(lines[rs:re])
		for i := range block {
			if !strings.HasSuffix(block[i], "\n") {
				block[i] += eol
			}
		}
		i := d.start(others[g.IntN(len(others))])
		if i > rs {
			i -= re - rs
		}
		lines = slices.Delete(lines, rs, re)
		lines = slices.Insert(lines, i, block...)
	case "duplicate other":
		block := slices.Clone(lines[os:oe])
		for i := range block {
			if !strings.HasSuffix(block[i], "\n") {
				block[i] += eol
			}
		}
		lines = slices.Insert(lines, os, block...)
	case "swap titles":
		p := others[(slices.Index(others, o)+1)%len(others)]
		if o.Title == "" || p.Title == "" || strings.Contains(o.Title, p.Title) || strings.Contains(p.Title, o.Title) {
			return c, false
		}
		a, b := os, d.start(p)
		lines[a] = strings.Replace(lines[a], o.Title, p.Title, 1)
		lines[b] = strings.Replace(lines[b], p.Title, o.Title, 1)
	case "swap titles with Ralph's":
		if o.Title == "" || n.Title == "" || strings.Contains(o.Title, n.Title) || strings.Contains(n.Title, o.Title) {
			return c, false
		}
		lines[os] = strings.Replace(lines[os], o.Title, n.Title, 1)
		lines[rs] = strings.Replace(lines[rs], n.Title, o.Title, 1)
		c.disjoint, c.title = false, ""
	case "reword other":
		if o.Title == "" {
			return c, false
		}
		lines[os] = strings.Replace(lines[os], o.Title, o.Title+" "+g.mark(), 1)
	case "reword Ralph's":
		if n.Title == "" {
			return c, false
		}
		c.title = n.Title + " more " + g.mark()
		lines[rs] = strings.Replace(lines[rs], n.Title, c.title, 1)
	case "tick other":
		if !strings.Contains(lines[os], "[ ]") {
			return c, false
		}
		lines[os] = strings.Replace(lines[os], "[ ]", "[x]", 1)
	case "untick other":
		if !strings.Contains(lines[os], "[x]") {
			return c, false
		}
		lines[os] = strings.Replace(lines[os], "[x]", "[ ]", 1)
	case "status word":
		done := false
		for i := os; i < oe; i++ {
			for _, w := range []string{"status: pending", "status: in_progress", "status: done"} {
				if strings.Contains(lines[i], w) {
					lines[i] = strings.Replace(lines[i], w, "status: "+[]string{"erledigt", "进行中", "готово", "✅ 完成", "wartet auf Bob"}[g.IntN(5)], 1)
					done = true
				}
			}
		}
		if !done {
			return c, false
		}
	case "renumber":
		if !idIn.MatchString(base) {
			return c, false
		}
		for i := range lines {
			lines[i] = idIn.ReplaceAllStringFunc(lines[i], func(s string) string { var k int; fmt.Sscanf(s, "T-%d", &k); return fmt.Sprintf("T-%d", k+10) })
		}
	case "edit fence":
		var at []int
		for i := range lines {
			if d.lines.at(i).kind == lineCode {
				at = append(at, i)
			}
		}
		if len(at) == 0 {
			return c, false
		}
		ins(at[g.IntN(len(at))], endLine("- [ ] **T-1** in code "+g.mark()))
	case "add task":
		for i := d.lines.n; i >= 0; i-- {
			if i == d.lines.n || d.lines.at(i).kind == lineText {
				ins(i, endLine(fmt.Sprintf("- [ ] **U-%d** mine %s", g.serial+1000, g.mark())))
				break
			}
		}
	case "add equal id":
		next := d.NextID("T")
		if d.open >= 0 {
			return c, false
		}
		ins(len(lines), endLine(fmt.Sprintf("- [ ] **%s** mine %s", next, g.mark())))
		if c.added != "" && strings.Contains(c.ralph, "**"+next+"**") {
			c.disjoint = false
		}
	case "comment":
		i := outside()
		if i < 0 {
			return c, false
		}
		ins(i, endLine("<!-- "+g.mark()+" - [ ] **T-1** x -->"))
	case "comment out other":
		lines[oe-1] = strings.TrimRight(lines[oe-1], "\r\n") + eol
		ins(oe, endLine("-->"))
		ins(os, endLine("<!--"))
	case "delete Ralph's":
		lines = slices.Delete(lines, rs, re)
		c.disjoint, c.title = c.want == "", ""
	case "user adds fields":
		if o.kind != nodeItem || o.width != 0 {
			return c, false
		}
		ins(os+1, endLine("  - priority: 9"))
	case "adjacent next line":
		// the user changes the line right before and right behind Ralph's task
		if re >= len(lines) || rs == 0 {
			return c, false
		}
		ins(re, endLine("right behind "+g.mark()))
		ins(rs, endLine("right before "+g.mark()))
		if d.lines.at(rs-1).kind != lineText || re < d.lines.n && d.lines.at(re).kind != lineText {
			return c, false
		}
	}
	c.user = strings.Join(lines, "")
	if c.user == c.base {
		return c, false
	}
	return c, true
}

func lineCounts(s string) map[string]int {
	out := map[string]int{}
	for _, l := range strings.Split(strings.TrimPrefix(s, bom), "\n") {
		if l = strings.TrimSuffix(l, "\r"); strings.TrimSpace(l) != "" {
			out[l]++
		}
	}
	return out
}

var (
	anyBox   = regexp.MustCompile(`\[[ xX~!/-]\]`)
	statusIn = regexp.MustCompile(`(?i)(status:|状态：).*`)
	percent  = regexp.MustCompile(`\d+ ?%`)
	todoIn   = regexp.MustCompile(`(TODO|DONE)[^:]*:`)
	emojiIn  = regexp.MustCompile(`(✅|🔄|⏳|🚫|❌|⏭|⏸|⚠️|🚧|⬜).*`)
)

// bare is a line without what says a status.
func bare(l string) string {
	l = todoIn.ReplaceAllString(percent.ReplaceAllString(statusIn.ReplaceAllString(idIn.ReplaceAllString(anyBox.ReplaceAllString(norm(l), "[]"), "T"), "status"), "%"), "TODO:")
	return emojiIn.ReplaceAllString(l, "e")
}

func bareCounts(s string) map[string]int {
	out := map[string]int{}
	for _, l := range strings.Split(s, "\n") {
		if l = bare(strings.TrimSuffix(l, "\r")); l != "" {
			out[l]++
		}
	}
	return out
}

func normCounts(s string) map[string]int {
	out := map[string]int{}
	for _, l := range strings.Split(s, "\n") {
		if l = norm(strings.TrimSuffix(l, "\r")); l != "" {
			out[l]++
		}
	}
	return out
}

// judge returns what is wrong with a merge.
func (c lineCase) judge(m Merged) []string {
	var bad []string
	b, u, r, g := lineCounts(c.base), lineCounts(c.user), lineCounts(c.ralph), lineCounts(string(m.Data))
	nb, nu, nr, ng := normCounts(c.base), normCounts(c.user), normCounts(c.ralph), normCounts(string(m.Data))
	loose, looseUser, looseBase, looseRalph := bareCounts(string(m.Data)), bareCounts(c.user), bareCounts(c.base), bareCounts(c.ralph)
	for l, k := range u {
		if k > b[l] && g[l] < k-b[l] && loose[bare(l)] < looseUser[bare(l)]-max(0, looseBase[bare(l)]-looseRalph[bare(l)]) {
			bad = append(bad, fmt.Sprintf("LOST user's new line %q", l))
		}
		if g[l] < k-max(0, b[l]-r[l]) && loose[bare(l)] < looseUser[bare(l)]-max(0, looseBase[bare(l)]-looseRalph[bare(l)]) && nu[norm(l)] > 0 && ng[norm(l)] < nu[norm(l)]-max(0, nb[norm(l)]-nr[norm(l)]) {
			bad = append(bad, fmt.Sprintf("LOST line %q", l))
		}
	}
	for l, k := range ng {
		if l := bare(l); l != "status" && loose[l] > looseUser[l]+max(0, looseRalph[l]-looseBase[l]) && !strings.HasPrefix(l, conflictKey) {
			bad = append(bad, fmt.Sprintf("DUP %q %d", l, k))
		}
	}
	d := Parse(m.Data)
	if c.disjoint && len(m.Conflicts) == 0 {
		if c.title != "" && c.wantRead {
			found := 0
			for _, n := range d.tasks {
				if n.Title == c.title && n.Status == c.want {
					found++
				}
			}
			if found == 0 {
				bad = append(bad, fmt.Sprintf("RALPH's status %s of %q not there", c.want, c.title))
			}
		}
	}
	if c.added != "" && !strings.Contains(string(m.Data), c.added) && len(m.Conflicts) == 0 {
		bad = append(bad, "RALPH's task not there")
	}
	if c.added != "" && strings.Contains(string(m.Data), c.added) {
		found := 0
		for _, n := range d.tasks {
			if strings.Contains(n.Title, c.added) {
				found++
			}
		}
		if found != 1 {
			bad = append(bad, fmt.Sprintf("RALPH's task found %d times", found))
		}
	}
	if c.entry != "" && !strings.Contains(string(m.Data), c.entry) && len(m.Conflicts) == 0 {
		bad = append(bad, "RALPH's entry not there")
	}
	for _, n := range d.tasks {
		if strings.Contains(n.Title, "conflict:") || strings.Contains(n.value(fieldStatus), "conflict") {
			bad = append(bad, "conflict as a task")
		}
	}
	for _, base := range []string{c.base, c.ralph} {
		again := Merge([]byte(base), m.Data, []byte(c.ralph))
		if !bytes.Equal(again.Data, m.Data) {
			bad = append(bad, "NOT IDEMPOTENT")
		}
	}
	return bad
}

var lineKinds = []string{"insert prose between task's lines", "insert prose anywhere", "prose in Ralph's task", "blank lines", "crlf in parts", "crlf all", "bom", "tabs", "reindent 4", "bullets", "trailing blanks", "no final newline", "delete other task", "move task", "move Ralph's task", "duplicate other", "swap titles", "swap titles with Ralph's", "reword other", "reword Ralph's", "tick other", "untick other", "status word", "renumber", "edit fence", "add task", "add equal id", "comment", "comment out other", "delete Ralph's", "user adds fields", "adjacent next line"}

func TestMergeOfLines(t *testing.T) {
	files, _ := filepath.Glob("testdata/dialects/*.md")
	var texts []struct{ name, text string }
	for _, f := range files {
		data, _ := os.ReadFile(f)
		texts = append(texts, struct{ name, text string }{filepath.Base(f), string(data)})
	}
	g := &lineGen{Rand: rand.New(rand.NewPCG(7, uint64(len(files))))}
	type stat struct{ n, conflicts, bad int }
	stats := map[string]*stat{}
	shown := map[string]int{}
	byDialect := map[string]*stat{}
	rounds := 250
	name, text := "own", ""
	for i := range rounds {
		kind := lineKinds[g.IntN(len(lineKinds))]
		// A few rounds go on with what came out of the one before.
		if i%5 == 0 || len(text) > 20000 {
			if name, text = "own", g.ownForm(); g.IntN(2) == 0 {
				x := texts[g.IntN(len(texts))]
				name, text = x.name, x.text
			}
		}
		c, ok := g.make(name, text, kind)
		if !ok {
			continue
		}
		m := Merge([]byte(c.base), []byte(c.user), []byte(c.ralph))
		text = string(m.Data)
		s := stats[kind]
		if s == nil {
			s = &stat{}
			stats[kind] = s
		}
		bd := byDialect[name]
		if bd == nil {
			bd = &stat{}
			byDialect[name] = bd
		}
		if c.disjoint {
			s.n++
			bd.n++
			if len(m.Conflicts) > 0 {
				s.conflicts++
				bd.conflicts++
			}
		}
		if bad := c.judge(m); len(bad) > 0 {
			s.bad++
			bd.bad++
			key := kind + strings.Fields(bad[0])[0]
			if shown[key]++; shown[key] <= 1 {
				t.Errorf("%s %s: %v conflicts %+v\n--- base\n%s\n--- user\n%s\n--- ralph\n%s\n--- got\n%s", name, kind, bad, m.Conflicts, c.base, c.user, c.ralph, m.Data)
			}
		}
	}
	all := stat{}
	for _, s := range stats {
		all.n, all.conflicts = all.n+s.n, all.conflicts+s.conflicts
	}
	if all.n < rounds/2 || all.conflicts*50 > all.n {
		t.Errorf("of %d disjoint edits %d are conflicts", all.n, all.conflicts)
	}
	for _, mm := range []map[string]*stat{stats, byDialect} {
		var ks []string
		for k := range mm {
			ks = append(ks, k)
		}
		sort.Strings(ks)
		for _, k := range ks {
			t.Logf("%-36s %6d disjoint, %5d conflicts, %5d bad", k, mm[k].n, mm[k].conflicts, mm[k].bad)
		}
	}
}
