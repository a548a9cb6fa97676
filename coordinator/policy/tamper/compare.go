package tamper

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// compare judges a test, or a function of tests, that is on both sides.
func (c *change) compare(p pair, moved map[string]int) {
	b, a := p.before, p.after
	if b.code() == a.code() {
		return
	}
	c.markers(p)
	if b.helper && !c.failing(p) {
		return
	}
	at := func(line int, what, why string, blocks bool) {
		c.say(Finding{Path: a.file.path, Line: line, What: what + ": " + a.name, Why: why, Blocks: blocks})
	}
	c.guards(p, at)
	if line := earlyReturn(a); line > 0 && earlyReturn(b) == 0 {
		at(line, "test ends before it asserts", "a return before the first assertion", true)
	}
	if n := newMatches(a.file.l.trivial, b.view(), a.view()); n >= 0 {
		at(a.file.lineAt(a.from+n), "assertion made trivial", "it cannot fail any more", true)
		return
	}
	c.borrowed(b, a, at)
	removed, added := difference(b.tests, a.tests)
	for _, t := range added {
		if t.trivial {
			at(t.line, "assertion made trivial", t.text+" cannot fail", true)
			return
		}
	}
	removed = slices.DeleteFunc(removed, func(t assertion) bool { return moved[t.text] >= 0 || c.aboutGone(t.text) })
	if len(removed) > 0 {
		c.relaxed(p, removed, added, at)
	}
	c.rows(a.file.path, a.line, a.name, b.code(), a.code())
	c.tolerance(removed, added, at)
}

// borrowed judges expectations that were values and are now computed, by what is
// tested as like as not.
func (c *change) borrowed(b, a *unit, at func(int, string, string, bool)) {
	values := map[string]string{}
	for _, m := range wanted().FindAllStringSubmatch(b.code(), -1) {
		values[m[1]] = m[2]
	}
	text := a.code()
	for _, m := range wanted().FindAllStringSubmatchIndex(text, -1) {
		name, value := text[m[2]:m[3]], text[m[4]:m[5]]
		was := values[name]
		call := callees().FindStringSubmatch(value)
		if was != "" && call != nil && !callees().MatchString(was) && !strings.Contains(value, "func(") && strings.Count(text, call[1]+"(") > 1 {
			at(a.file.lineAt(a.from+m[2]), "expectation taken from the code", squeeze(name+" = "+value)+"; it was "+squeeze(was), true)
		}
	}
}

// failing says that a function of tests could fail one, and neither hands its
// verdict on now nor gets its work done by functions that are not in the change.
func (c *change) failing(p pair) bool {
	b, a := p.before, p.after
	returns := func(u *unit) int { return strings.Count(u.code(), "return ") + strings.Count(u.code(), "append(") }
	return slices.ContainsFunc(b.direct, func(t assertion) bool { return t.strong }) && returns(a) <= returns(b)
}

// relaxed judges assertions that are gone.
func (c *change) relaxed(p pair, removed, added []assertion, at func(int, string, string, bool)) {
	strong := func(list []assertion) bool {
		return slices.ContainsFunc(list, func(t assertion) bool { return t.strong })
	}
	b, a := p.before, p.after
	switch line := a.line; {
	case len(a.tests) == 0:
		at(line, "no assertion left", "was: "+removed[0].text, true)
	case strong(b.tests) && !strong(a.tests):
		at(line, "expectations relaxed", "no value is expected any more; was: "+first(removed).text, true)
	case len(added) == 0 && stays(removed, a.tests):
		// One of several that say the same is gone.
	case len(added) == 0:
		at(line, "assertion removed", removed[0].text, true)
	case strong(removed) && !strong(added):
		at(added[0].line, "expectations relaxed", added[0].text+" takes the place of "+first(removed).text, true)
	case len(a.tests)*2 <= len(b.tests) && count(a.tests)*2 <= count(b.tests) && !covers(a.bag, removed):
		at(line, "fewer assertions", fmt.Sprintf("%d where there were %d", len(a.tests), len(b.tests)), len(a.tests)*4 <= len(b.tests))
	}
}

// stays says that each of the removed assertions is among those that are left.
func stays(removed, left []assertion) bool {
	for _, r := range removed {
		if !slices.ContainsFunc(left, func(t assertion) bool { return t.text == r.text }) {
			return false
		}
	}
	return true
}

// covers says that the literals of what was removed are still in the test, as when
// several assertions become one.
func covers(bag map[string]int, removed []assertion) bool {
	for _, r := range removed {
		for w := range tokens(r.text) {
			if (w[0] < 'A' || w[0] == '`') && bag[w] == 0 {
				return false
			}
		}
	}
	return true
}

func count(list []assertion) int {
	n := 0
	for _, t := range list {
		if t.strong {
			n++
		}
	}
	return n
}

// first is the strongest of what was removed.
func first(list []assertion) assertion {
	for _, t := range list {
		if t.strong {
			return t
		}
	}
	return list[0]
}

// difference is what only one side has, by text, with numbers.
func difference(before, after []assertion) (removed, added []assertion) {
	n := map[string]int{}
	for _, t := range after {
		n[t.text]++
	}
	for _, t := range before {
		if n[t.text] == 0 {
			removed = append(removed, t)
		} else {
			n[t.text]--
		}
	}
	for _, t := range after {
		if n[t.text] > 0 {
			n[t.text]--
			added = append(added, t)
		}
	}
	return removed, added
}

// newMatches is where re matches on the new side for what it did not match on the
// old one, -1 for nowhere. What begins within a string does not count.
func newMatches(re *regexp.Regexp, before, after view) int {
	if re == nil {
		return -1
	}
	had := map[string]int{}
	for _, m := range matches(re, before) {
		had[squeeze(before.code[m[0]:m[1]])]++
	}
	for _, m := range matches(re, after) {
		key := squeeze(after.code[m[0]:m[1]])
		if had[key] == 0 {
			return m[0]
		}
		had[key]--
	}
	return -1
}

// matches are those of re that begin outside of strings, without the space that
// they begin with.
func matches(re *regexp.Regexp, v view) [][]int {
	all := re.FindAllStringIndex(v.code, -1)
	return slices.DeleteFunc(all, func(m []int) bool {
		for m[0] < m[1] && strings.IndexByte(" \t\n", v.code[m[0]]) >= 0 {
			m[0]++
		}
		return m[0] < m[1] && v.bare[m[0]] != v.code[m[0]]
	})
}

// markers judges what takes a test out: skips, focus, and code that ends it.
func (c *change) markers(p pair) {
	b, a := p.before, p.after
	l := a.file.l
	say := func(n int, what, why string, blocks bool) {
		c.say(Finding{Path: a.file.path, Line: a.file.lineAt(a.from + n), What: what + ": " + a.name, Why: why, Blocks: blocks})
	}
	if n := newMatches(l.skips, b.view(), a.view()); n >= 0 {
		cond := conditionOf(a.code(), n)
		if l.mayskip != nil && cond == "" {
			cond = l.mayskip.FindString(a.code()[n:min(len(a.code()), n+200)])
		}
		blocks := cond == "" || alwaysTrue().MatchString(cond)
		why := "it is not run any more"
		if cond != "" {
			why = "it is not run when: " + cond
		}
		say(n, "test skipped", why, blocks)
	}
	if n := newMatches(l.mayskip, b.view(), a.view()); n >= 0 {
		line := a.code()[n:]
		line = line[:end(line, "\n")]
		say(n, "test skipped", "it is not run when: "+line, alwaysTrue().MatchString(line))
	}
	if n := newMatches(l.focus, b.view(), a.view()); n >= 0 {
		say(n, "focused test", "all other tests are left out", true)
	}
	if n := newMatches(l.never, b.view(), a.view()); n >= 0 {
		line := squeeze(until(a.code()[n:], "\n"))
		say(n, "failures are swallowed", line+" hides what fails", !strings.Contains(line, "xit") || conditionOf(a.code(), n) == "")
	}
}

// earlyReturn is the line of a return that no condition guards and that assertions
// follow, 0 for none.
func earlyReturn(u *unit) int {
	if u.helper {
		return 0
	}
	lines := strings.Split(u.bare(), "\n")
	var open []bool // of the blocks around: it is a function's
	var loops []bool
	base := -1
	for i, line := range lines {
		t := strings.TrimSpace(line)
		plain := t == "return" || t == "return;" || t == "return true;" || t == "return True" || t == "return Ok(());"
		at := u.file.lineAt(u.from) + i
		later := slices.ContainsFunc(u.tests, func(a assertion) bool { return a.line > at })
		if u.file.l.style != braces {
			if base < 0 && i > 0 && t != "" && !strings.HasPrefix(t, "@") && !strings.HasPrefix(t, "def ") && !strings.HasPrefix(t, ")") && !strings.HasPrefix(t, "async ") {
				base = indentation(line)
			}
			if plain && later && indentation(line) == base {
				return at
			}
			continue
		}
		if plain && later && (len(open) == 0 || open[len(open)-1]) {
			return at
		}
		if t := strings.TrimSuffix(t, ";"); (t == "continue" || t == "break") && later && len(loops) > 0 && loops[len(loops)-1] {
			return at
		}
		function := strings.Contains(t, "func") || strings.Contains(t, "=>") || strings.Contains(t, "fn ") || i == 0 || strings.Contains(t, u.name) || u.file.l.name == "java" && strings.Contains(t, "void ")
		for _, r := range t {
			switch {
			case r == '{':
				open, loops = append(open, function), append(loops, strings.HasPrefix(t, "for "))
			case r == '}' && len(open) > 0:
				open, loops = open[:len(open)-1], loops[:len(loops)-1]
			}
		}
	}
	return 0
}

// rows judges the cases of tables: lines of data that are gone and that nothing
// takes the place of.
func (c *change) rows(path string, line int, name, before, after string) {
	before, after = imports().ReplaceAllString(before, ""), imports().ReplaceAllString(after, "")
	had, has := tokens(before), tokens(after)
	removed, added := rowsOf(before), rowsOf(after)
	n := map[string]int{}
	for _, r := range added {
		n[r]++
	}
	var gone []string
	for _, r := range removed {
		if n[r] > 0 {
			n[r]--
		} else {
			gone = append(gone, r)
		}
	}
	for _, r := range gone {
		lost := false
		bag := tokens(r)
		for w := range bag {
			lost = lost || (w[0] < 'A' || w[0] == '`') && has[w] < had[w]
		}
		if !lost || c.aboutGone(r) {
			continue
		}
		replaced := ""
		for other, left := range n {
			if left > 0 && (replaced == "" || other < replaced) && likeness(bag, tokens(other)) >= .2 {
				replaced = other
			}
		}
		if replaced != "" {
			n[replaced]--
			continue
		}
		if c.rowMoved(r, bag) {
			continue
		}
		c.say(Finding{Path: path, Line: line, What: "test case removed: " + name, Why: r, Blocks: true})
	}
}

// rowMoved says that a row, or one much like it, is new in another place.
func (c *change) rowMoved(r string, bag map[string]int) bool {
	if c.newRows[r] >= 0 {
		return true
	}
	for other, n := range c.newRows {
		if n > 0 && likeness(bag, tokens(other)) >= .6 {
			return true
		}
	}
	return false
}

// rowsOf are the lines of a text that look like the rows of a table.
func rowsOf(text string) []string {
	var rows []string
	for line := range strings.Lines(text) {
		t := squeeze(line)
		if len(t) > 3 && row().MatchString(t) {
			rows = append(rows, t)
		}
	}
	return rows
}

// tolerance judges bounds that have grown: numbers that are all that differs
// between two assertions about order or nearness.
func (c *change) tolerance(removed, added []assertion, at func(int, string, string, bool)) {
	for i := range min(len(removed), len(added)) {
		was, is := numbers().FindAllString(removed[i].text, -1), numbers().FindAllString(added[i].text, -1)
		if !nearness().MatchString(added[i].text) || len(was) != len(is) || numbers().ReplaceAllString(removed[i].text, "#") != numbers().ReplaceAllString(added[i].text, "#") {
			continue
		}
		for j := range was {
			x, err := strconv.ParseFloat(was[j], 64)
			y, err2 := strconv.ParseFloat(is[j], 64)
			if err == nil && err2 == nil && x > 0 && y >= 10*x {
				at(added[i].line, "tolerance raised", fmt.Sprintf("%s where it was %s", is[j], was[j]), y >= 1000*x)
			}
		}
	}
}

// outsides judges what stands outside of tests: markers of classes and files,
// tables, assertions, build constraints.
func (c *change) outsides(pairs []pair, moved map[string]int) {
	from := map[*source][]*source{} // of a new file, the files that its tests come from
	for _, p := range pairs {
		if !p.before.helper && !slices.Contains(from[p.after.file], p.before.file) {
			from[p.after.file] = append(from[p.after.file], p.before.file)
		}
	}
	for _, a := range c.after {
		var old *source
		if i := slices.IndexFunc(c.before, func(b *source) bool { return b.path == a.path }); i >= 0 {
			old = c.before[i]
		}
		var before view
		if old != nil {
			before = view{old.outside, old.outsideBare}
		}
		for _, b := range from[a] {
			if b != old {
				before = view{before.code + "\n" + b.outside, before.bare + "\n" + b.outsideBare}
			}
		}
		c.outside(a, before, view{a.outside, a.outsideBare}, old != nil || len(from[a]) > 0 || shared(a.path))
		var whole view
		if old != nil {
			whole = view{old.code, old.bare}
		}
		if shared(a.path) {
			c.outside(a, whole, view{a.code, a.bare}, true)
		}
		c.rigged(a, whole)
		if len(from[a]) > 0 {
			c.constraint(a, from[a])
		}
		if old == nil {
			continue
		}
		removed, added := difference(old.assertions(old.outside, old.outside, 1), a.assertions(a.outside, a.outside, 1))
		removed = slices.DeleteFunc(removed, func(t assertion) bool { return moved[t.text] >= 0 || c.aboutGone(t.text) })
		if len(removed) > 0 && len(added) == 0 {
			c.say(Finding{Path: a.path, What: "assertion removed", Why: removed[0].text, Blocks: true})
		}
		c.rows(a.path, 0, "table", old.outside, a.outside)
	}
}

// shared says that a file is part of all tests of a directory or a project.
func shared(path string) bool {
	return strings.Contains(path, "conftest") || strings.Contains(path, "_helper") || strings.Contains(path, "setup")
}

func (c *change) outside(a *source, before, after view, blocks bool) {
	say := func(n int, what, why string) {
		c.say(Finding{Path: a.path, Line: a.lineAt(n), What: what + ": " + squeeze(until(after.code[n:], "\n")), Why: why, Blocks: blocks})
	}
	if n := newMatches(a.l.skips, before, after); n >= 0 {
		if cond := conditionOf(after.code, n); cond == "" || alwaysTrue().MatchString(cond) || shared(a.path) && guardWords().byName.MatchString(cond) {
			say(n, "tests skipped", "they are not run any more")
		}
	}
	if n := newMatches(a.l.focus, before, after); n >= 0 {
		say(n, "focused tests", "all others are left out")
	}
	if n := newMatches(a.l.never, before, after); n >= 0 {
		say(n, "failures are swallowed", "it hides what fails")
	}
}

// constraint judges build constraints of Go, which are comments.
func (c *change) constraint(a *source, from []*source) {
	if a.l.name != "go" {
		return
	}
	now := constraints().FindString(a.raw)
	if now == "" {
		return
	}
	for _, b := range from {
		if constraints().FindString(b.raw) == now {
			return
		}
	}
	c.say(Finding{Path: a.path, Line: a.lineAt(strings.Index(a.raw, now)), What: "tests are not built: " + now, Why: "a constraint that they did not have", Blocks: !platform().MatchString(now)})
}
