package tamper

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// read makes sources of the test files on both sides, and finds what of the code
// is gone.
func (c *change) read() {
	var codeBefore, codeAfter strings.Builder
	for _, f := range c.files {
		for side, data := range [][]byte{f.Before, f.After} {
			into, list := &codeBefore, &c.before
			if side == 1 {
				into, list = &codeAfter, &c.after
			}
			switch {
			case data == nil:
			case isTest(f.Path, string(data)):
				s := readSource(f.Path, string(data))
				*list = append(*list, s)
				switch {
				case s.l.name == "rust":
					into.WriteString(s.outside + "\n")
				case s.l.name == "go" && !strings.HasSuffix(f.Path, "_test.go"):
					into.WriteString(s.raw + "\n")
				}
			case languageOf(f.Path) != nil:
				into.Write(data)
				into.WriteByte('\n')
			}
		}
	}
	c.vanished(codeBefore.String(), codeAfter.String())
	c.newRows = map[string]int{}
	for side, sources := range [][]*source{c.before, c.after} {
		for _, s := range sources {
			for _, r := range rowsOf(imports().ReplaceAllString(s.code, "")) {
				c.newRows[r] += 2*side - 1
			}
		}
	}
	for _, side := range [][]*source{c.before, c.after} {
		helpers := map[string]bool{}
		for _, s := range side {
			for _, u := range s.units {
				u.tests = s.assertions(u.code(), u.raw(), s.lineAt(u.from))
				u.bag = tokens(u.code())
				delete(u.bag, u.name)
				if u.direct = slices.Clone(u.tests); u.helper && len(u.tests) > 0 && !common(u.name) {
					helpers[u.name] = helpers[u.name] || slices.ContainsFunc(u.tests, func(a assertion) bool { return a.strong })
				}
			}
		}
		for _, s := range side {
			s.helpers = helpers
			for _, u := range s.units {
				u.tests = s.assertions(u.code(), u.raw(), s.lineAt(u.from))
			}
		}
	}
}

// vanished finds the names that the code of the change defined and no longer
// knows. Where as many came as went they were renamed.
func (c *change) vanished(before, after string) {
	c.gone = map[string]bool{}
	had, has := tokens(before), tokens(after)
	unknown := func(code string, to map[string]int) map[string]bool {
		list := definitions(code)
		maps.DeleteFunc(list, func(name string, _ bool) bool { return to[name] > 0 })
		return list
	}
	c.came, c.went = unknown(after, had), unknown(before, has)
	if len(c.went) > len(c.came) {
		c.gone = c.went
	}
}

func definitions(code string) map[string]bool {
	names := map[string]bool{}
	for _, m := range defines().FindAllStringSubmatch(code, -1) {
		names[m[1]] = true
	}
	return names
}

func tokens(text string) map[string]int {
	bag := map[string]int{}
	for _, w := range words().FindAllString(text, -1) {
		bag[w]++
	}
	return bag
}

// aboutGone says that a text is about code that is no longer there.
func (c *change) aboutGone(text string) bool {
	if len(c.gone) == 0 {
		return false
	}
	for w := range tokens(text) {
		if c.gone[w] {
			return true
		}
	}
	return false
}

// pair is one test on both sides.
type pair struct{ before, after *unit }

func (c *change) tests() {
	pairs, lost, fresh := c.match(c.before, c.after)
	c.pairs = pairs
	added := c.addedAssertions()
	for _, p := range pairs {
		c.compare(p, added)
	}
	c.lost(lost, fresh)
	for _, u := range fresh {
		c.fresh(u)
	}
	c.outsides(pairs, added)
}

// match pairs the units of both sides: by path and name, by name, then by
// likeness. Lost and fresh are the tests that have no other side.
func (c *change) match(before, after []*source) (pairs []pair, lost, fresh []*unit) {
	left, right := flat(before), flat(after)
	taken, done := map[*unit]bool{}, map[*unit]bool{}
	by := func(key func(*unit) string) {
		index := map[string][]*unit{}
		for _, u := range right {
			if !taken[u] {
				index[key(u)] = append(index[key(u)], u)
			}
		}
		for _, u := range left {
			k := key(u)
			if list := index[k]; !done[u] && len(list) > 0 {
				pairs = append(pairs, pair{u, list[0]})
				done[u], taken[list[0]], index[k] = true, true, list[1:]
			}
		}
	}
	by(func(u *unit) string { return fmt.Sprint(u.helper, u.file.path, "\x00", u.name) })
	by(func(u *unit) string { return fmt.Sprint(u.helper, u.file.l.name, "\x00", u.name) })
	rest := func(units []*unit, used map[*unit]bool) []*unit {
		return slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return used[u] || u.helper })
	}
	lost, fresh = rest(left, done), rest(right, taken)
	for _, l := range lost[:min(len(lost), maxMatched)] {
		var best *unit
		at := .5
		for _, f := range fresh[:min(len(fresh), maxMatched)] {
			if s := c.alike(l, f); !taken[f] && s > at {
				best, at = f, s
			}
		}
		if best != nil {
			pairs = append(pairs, pair{l, best})
			done[l], taken[best] = true, true
		}
	}
	return pairs, rest(lost, done), rest(fresh, taken)
}

// maxMatched bounds the tests of a change that are compared each with each.
const maxMatched = 300

// alike is how likely two tests are one that was renamed: by what they say, with or
// without the names that the code has come to know or has lost, and a little by
// their names.
func (c *change) alike(a, b *unit) float64 {
	if a.file.l != b.file.l {
		return 0
	}
	s := max(likeness(a.bag, b.bag), likeness(c.lasting(a.bag), c.lasting(b.bag)))
	if s < .25 {
		return s
	}
	return s + .3*likeness(tokensOfName(a.name), tokensOfName(b.name))
}

// lasting are the words of a test that no change of the code's names touches.
func (c *change) lasting(bag map[string]int) map[string]int {
	list := maps.Clone(bag)
	maps.DeleteFunc(list, func(w string, _ int) bool { return c.came[w] || c.went[w] || strings.Contains(w, "%") })
	return list
}

func tokensOfName(name string) map[string]int {
	bag := map[string]int{}
	for _, w := range nameWords().FindAllString(name, -1) {
		bag[strings.ToLower(w)]++
	}
	return bag
}

func flat(sources []*source) []*unit {
	var all []*unit
	for _, s := range sources {
		all = append(all, s.units...)
	}
	return all
}

// likeness of two bags of tokens, 0..1.
func likeness(a, b map[string]int) float64 {
	shared, total := 0, 0
	for w, n := range a {
		if !common(w) {
			shared += min(n, b[w])
			total += max(n, b[w])
		}
	}
	for w, n := range b {
		if _, ok := a[w]; !ok && !common(w) {
			total += n
		}
	}
	if total == 0 {
		return 0
	}
	return float64(shared) / float64(total)
}

// addedAssertions counts the assertions that are more often on the new side, in
// whatever file: what is among them has moved.
func (c *change) addedAssertions() map[string]int {
	count := map[string]int{}
	for side, sources := range [][]*source{c.before, c.after} {
		for _, s := range sources {
			all := s.assertions(s.outside, s.outside, 1)
			for _, u := range s.units {
				all = append(all, u.tests...)
			}
			for _, a := range all {
				count[a.text] += 2*side - 1
			}
		}
	}
	return count
}

// lost judges the tests that are gone: folded into others, gone with the code they
// were about, twins of others, or removed.
func (c *change) lost(lost, fresh []*unit) {
	if len(lost) == 0 {
		return
	}
	grown := map[string]int{}
	for _, u := range flat(c.after) {
		for w, n := range u.bag {
			if !u.helper {
				grown[w] += n
			}
		}
	}
	for _, s := range c.after {
		for w, n := range tokens(s.outside) {
			grown[w] += n
		}
	}
	for _, s := range c.before {
		for w, n := range tokens(s.outside) {
			grown[w] -= n
		}
		for _, u := range s.units {
			if !u.helper && !slices.Contains(lost, u) {
				for w, n := range u.bag {
					grown[w] -= n
				}
			}
		}
	}
	fresh = slices.Clone(fresh)
	for _, u := range lost {
		gone := Finding{Path: u.file.path, Line: u.line, What: "test removed: " + u.name}
		i := slices.IndexFunc(fresh, func(f *unit) bool { return c.successor(u, f) })
		switch {
		case folded(u, grown), c.twin(u):
		case i >= 0:
			gone.Why = "what it tests has another name, and " + fresh[i].name + " is new"
			c.say(gone)
			fresh = slices.Delete(fresh, i, i+1)
		case c.aboutGone(u.code()):
			gone.Why = "the code that it tests is removed too"
			c.say(gone)
		default:
			gone.Why, gone.Blocks = "nothing in the change takes its place", true
			c.say(gone)
		}
	}
}

// successor says that a new test is in the place of one that is gone because the
// code has another name: both are about such names, and it expects as much.
func (c *change) successor(gone, fresh *unit) bool {
	about := func(u *unit, names map[string]bool) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(u.bag)), func(w string) bool { return names[w] })
	}
	return gone.file.l == fresh.file.l && about(gone, c.went) && about(fresh, c.came) && len(fresh.tests) > 0 && count(fresh.tests) >= count(gone.tests) &&
		!slices.ContainsFunc(fresh.tests, func(a assertion) bool { return a.trivial })
}

// folded says that what a test was about is in what the tests have gained.
func folded(u *unit, grown map[string]int) bool {
	found, total, literals, kept := 0, 0, 0, 0
	for w := range u.bag {
		if common(w) || strings.Contains(w, "%") {
			continue
		}
		total++
		literal := w[0] < 'A' || w[0] == '`'
		if literal {
			literals++
		}
		if grown[w] > 0 {
			found++
			if literal {
				kept++
			}
		}
	}
	return total > 0 && float64(found) >= .6*float64(total) && float64(kept) >= .7*float64(literals) && literals > 0
}

// twin says that a test that stays does the same.
func (c *change) twin(u *unit) bool {
	for _, other := range flat(c.after) {
		if !other.helper && other.file.l == u.file.l && likeness(u.bag, other.bag) > .9 && len(other.tests) >= len(u.tests) && len(u.tests) > 0 && sameLiterals(u.bag, other.bag) {
			return true
		}
	}
	return false
}

func sameLiterals(a, b map[string]int) bool {
	for w := range a {
		if (w[0] < 'A' || w[0] == '`') && b[w] == 0 {
			return false
		}
	}
	return true
}

// fresh looks at a new test.
func (c *change) fresh(u *unit) {
	l := u.file.l
	if newMatches(l.focus, view{}, u.view()) >= 0 {
		c.say(Finding{Path: u.file.path, Line: u.line, What: "focused test: " + u.name, Why: "all other tests are left out", Blocks: true})
	}
	if n := newMatches(l.never, view{}, u.view()); n >= 0 && strings.Contains(u.code()[n:min(len(u.code()), n+12)], "xit") && conditionOf(u.code(), n) == "" {
		c.say(Finding{Path: u.file.path, Line: u.line, What: "tests end with success: " + u.name, Why: "it ends the program with status 0", Blocks: true})
	}
	if n := newMatches(l.skips, view{}, u.view()); n >= 0 && conditionOf(u.code(), n) == "" && newMatches(l.mayskip, view{}, u.view()) < 0 {
		c.say(Finding{Path: u.file.path, Line: u.line, What: "new test is skipped: " + u.name, Why: "it proves nothing yet"})
	}
	if len(u.tests) > 0 && !slices.ContainsFunc(u.tests, func(a assertion) bool { return !a.trivial }) {
		c.say(Finding{Path: u.file.path, Line: u.line, What: "new test cannot fail: " + u.name, Why: "what it asserts is always true"})
	}
}

// conditionOf is the line of the if that a place stands under: its own, or one
// before that is indented less, up to where the block of the function begins; or
// the decorator's own argument. "" for none.
func conditionOf(text string, at int) string {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line := until(text[begin:], "\n")
	if ifs().MatchString(line) {
		return line
	}
	own := indentation(line)
	before := strings.TrimRight(text[:begin], "\n")
	for range 60 {
		i := strings.LastIndexByte(before, '\n') + 1
		previous := before[i:]
		if strings.TrimSpace(previous) != "" && indentation(previous) < own {
			if ifs().MatchString(previous) {
				return previous
			}
			own = indentation(previous)
		}
		if i == 0 || own == 0 {
			break
		}
		before = before[:i-1]
	}
	return ""
}
