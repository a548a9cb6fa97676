package tamper

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// trick is a line that, new in a file, lets tests or checks pass whatever the code
// does.
type trick struct {
	file, line *regexp.Regexp
	what, why  string
}

var lineTricks = sync.OnceValue(func() []trick {
	return []trick{
		{rx(`(?:^|/)conftest\.py$`), rx(`^\s*items\[:\] *= *\[|\bitems\.clear\(\)|\bdel items\[|\bexitstatus *= *0|\.outcome *= *["']passed`), "hook of all tests", "it decides what they come to"},
		{rx(`(?:^|/)conftest\.py$`), rx(`^[a-z_]\w*\.\w+ *= *(?:lambda|\w+$|Mock|MagicMock)`), "code replaced for all tests", "they test the replacement"},
		{rx(`\.[cm]?[jt]sx?$`), rx(`\b(?:global|globalThis|window)\.(?:expect|test|it|describe|assert) *=`), "test functions replaced", "what they are told is not checked any more"},
		{rx(`(?:^|/)go\.(?:mod|work)$`), rx(`(?:stretchr/testify|google/go-cmp|gotest\.tools|onsi/go|frankban/quicktest|matryer/is)\S*(?: v\S+)? *=>`), "test library replaced", "what it finds is up to the replacement"},
		{rx(`(?:^|/)\.npmrc$`), rx(`^\s*script-shell *=`), "shell of scripts replaced", "checks run in it"},
		{rx(`(?:^|/)\.gitignore$|\.git/info/exclude$`), rx(`^[^#!]*(?:_test\.(?:go|py|rb|rs)|\btest_\*|\.(?:test|spec)\.|__tests__|conftest)|^/?(?:tests?|spec)/?$`), "tests ignored", "new ones do not get into the project"},
		{rx(`(?i)(?:^|/)(?:gnu)?makefile$|\.mk$|(?:^|/)\.?justfile$|\.sh$`), rx(`^\s*(?:export )?PATH *[:?]?= *["']?(?:\$\(CURDIR\)|\$\{?CURDIR|\$\{?PWD|\$\(PWD\)|\$\(pwd\)|\.|[a-z])`), "programs of the tree come first", "one of them can take the place of what checks"},
		{rx(`(?i)(?:^|/)(?:gnu)?makefile$|\.mk$|(?:^|/)\.?justfile$|\.sh$|\.ya?ml$|(?:^|/)\.envrc$`), rx(`\b(?:GOFLAGS *[:?]?=.*(?:-run|-skip|-exec|-count=0)|PYTEST_ADDOPTS *[:?]?=.*(?:-k|--ignore|--deselect|--co|-p no)|(?:MAVEN_OPTS|MAVEN_ARGS) *[:?]?=.*kip)`), "tests left out", "by the environment of the check"},
		{rx(`\.rs$`), rx(`#!?\[cfg\(all\([^\]]*\btest\b[^\]]*\b(?:feature|not|target_os)\b`), "tests are not built", "only under a condition that they did not have"},
		{rx(`\.(?:java|kt|scala|groovy)$`), rx(`\bassumeTrue\(\s*false|\bassumeFalse\(\s*true|\bassumeThat\(\s*false`), "test skipped", "what it assumes is never true"},
		{rx(`(?:^|/)\.?(?:pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml)$`), rx(`^\s*addopts *=.*(?:-k[ =]|--ignore|--deselect|--co\b|--collect-only|-p no:)`), "tests left out", "by the options of all runs"},
	}
})

var (
	shadowing = sync.OnceValue(func() *regexp.Regexp {
		return rx(`(?:^|/)(?:pytest|unittest|nose2?|coverage|mypy|sitecustomize|usercustomize|doctest|hypothesis)(?:\.py|/__init__\.py)$|\.pth$`)
	})
	standIn = sync.OnceValue(func() *regexp.Regexp {
		return rx(`(?:^|/)(?:go|gofmt|golangci-lint|staticcheck|pytest|python3?|tox|ruff|mypy|npm|npx|node|yarn|pnpm|jest|vitest|mocha|eslint|tsc|cargo|rustc|mvn|gradle|java|make|ruby|rspec|rake|bats|shellcheck|diff|cmp|grep)$`)
	})
	recorded = sync.OnceValue(func() *regexp.Regexp {
		return rx(`(?:^|/)(?:testdata|__snapshots__|snapshots|goldens?|expected|baselines?)/|\.(?:golden|snap|approved\.\w+|expected|want|ambr)$`)
	})
	documents = sync.OnceValue(func() *regexp.Regexp {
		return rx(`(?i)\.(?:md|rst|adoc)$|(?:^|/)(?:license|changelog|authors|readme|\.gitignore|\.editorconfig)[\w.]*$|(?:^|/)docs?/`)
	})
	helping = sync.OnceValue(func() *regexp.Regexp {
		return rx(`(?i)(?:^|/)(?:\w*test\w*|specs?|support|helpers?|asserts?)/[^/]+$|(?:^|/)\w*(?:test_?(?:util|help|support)|helper|assert)\w*\.\w+$`)
	})
	failsLine = sync.OnceValue(func() *regexp.Regexp {
		return rx(`\b(?:t|tb|b)\.(?:Fatal|Error|Fail)|\bassert|\bexpect\(|\braise\b|\bthrow\b|\bpanic[!(]|\bfail\(|sys\.exit\( *[^0) ]|process\.exit\( *[^0) ]|os\.Exit\([^0]|\bexit\(? *[1-9]|\breturn [1-9]\d*$|\bdie\b|\babort\b`)
	})
	expectsLine = sync.OnceValue(func() *regexp.Regexp {
		return rx(`(?:^|[;&|!(] *|\b(?:if|then|while|until|do) +)(?:test|\[\[?|diff|cmp|grep|case) `)
	})
	overrides = sync.OnceValue(func() *regexp.Regexp {
		return rx(`^\s*exec (?:true|:)|^\s*(?:function )?(?:go|make|npm|npx|node|pytest|python3?|cargo|mvn|gradle|test|diff|cmp|grep|exit|set)\s*\(\)|\balias (?:go|make|npm|pytest|cargo|diff|test|grep)=`)
	})
	literals = sync.OnceValue(func() *regexp.Regexp { return rx(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\x60[^\x60]*\x60|\b\d[\w.]*\b`) })
	anything = sync.OnceValue(func() *regexp.Regexp { return rx(`\bin [(\[{]|\bANY\b|expect\.any|anything\(\)|any\(`) })
	mocks    = sync.OnceValue(func() *regexp.Regexp { return rx(`(?m)\b(?:jest|vi)\.(?:mock|doMock)\(\s*["'](\.[^"']+)["']`) })
	patches  = sync.OnceValue(func() *regexp.Regexp {
		return rx(`\bpatch(?:\.object)?\(\s*(?:["'][\w.]*\.(\w+)["']|\w+, *["'](\w+)["'])|\bsetattr\(\s*(?:["'][\w.]*\.(\w+)["']|\w+, *["'](\w+)["'])|^\s*(\w+) = func\(`)
	})
	exitsInit = sync.OnceValue(func() *regexp.Regexp { return rx(`func init\(\) *\{[^}]*\bos\.Exit\(`) })
	testClass = sync.OnceValue(func() *regexp.Regexp { return rx(`\bclass (\w+)`) })
	ranClass  = sync.OnceValue(func() *regexp.Regexp { return rx(`^(?:Test|IT)\w*|\w*(?:Tests?|TestCase|IT|Spec)$`) })
)

// tricks judges what is no test itself and has a say in what tests and checks come
// to.
func (c *change) tricks() {
	for _, f := range c.files {
		c.listed(f)
		c.placed(f)
		if f.Before == nil || f.After == nil {
			continue
		}
		if c.runs(f) == "make" {
			c.twice(f)
		}
		if c.named(f.Path) {
			c.expects(f)
		}
		if !c.holdsTests(f.Path) && helping().MatchString(f.Path) && languageOf(f.Path) != nil {
			was, is := failing(string(f.Before)), failing(string(f.After))
			if len(was) > 0 && len(is) == 0 {
				c.block(f.Path, 0, "test helper cannot fail any more", "it had: "+was[0])
			}
		}
	}
	c.expectedAlone()
	for _, a := range c.after {
		c.replaced(a)
	}
	for _, p := range c.pairs {
		b, a := p.before.file, p.after.file
		was, is := testClass().FindStringSubmatch(b.code), testClass().FindStringSubmatch(a.code)
		if a.l.name == "java" && !p.before.helper && len(is) > 1 && len(was) > 1 && ranClass().MatchString(was[1]) && !ranClass().MatchString(is[1]) {
			c.block(a.path, 0, "tests are not found any more: "+is[1], "a class of this name is none of tests; it was "+was[1])
		}
	}
}

// holdsTests says that a file had tests of its own, which are judged one by one.
func (c *change) holdsTests(p string) bool {
	return slices.ContainsFunc(c.before, func(s *source) bool {
		return s.path == p && slices.ContainsFunc(s.units, func(u *unit) bool { return !u.helper })
	})
}

func (c *change) block(at string, line int, what, why string) {
	c.say(Finding{Path: at, Line: line, What: what, Why: why, Blocks: true})
}

// fresh lines are those that the text did not have, with their numbers.
func newLines(before, after string, see func(n int, line string)) {
	had := map[string]int{}
	for line := range strings.SplitSeq(before, "\n") {
		had[strings.TrimSpace(line)]++
	}
	n := 0
	for line := range strings.SplitSeq(after, "\n") {
		n++
		if t := strings.TrimSpace(line); had[t] > 0 {
			had[t]--
			continue
		}
		see(n, strings.TrimRight(line, "\r"))
	}
}

func (c *change) listed(f File) {
	for _, t := range lineTricks() {
		if !t.file.MatchString(f.Path) {
			continue
		}
		newLines(string(f.Before), string(f.After), func(n int, line string) {
			if t.line.MatchString(line) && !strings.HasPrefix(line, "os.") && !strings.HasPrefix(line, "sys.") {
				c.block(f.Path, n, t.what+": "+squeeze(line), t.why)
			}
		})
	}
}

// placed judges files by where they are new: they take the place of others.
func (c *change) placed(f File) {
	if f.After == nil || f.Before != nil {
		return
	}
	base := path.Base(f.Path)
	makes := slices.ContainsFunc(c.checks, func(check string) bool { return strings.Contains(" "+check, " make") })
	switch {
	case shadowing().MatchString(f.Path):
		c.block(f.Path, 0, "a module of the tests is shadowed", "Python takes this one first")
	case standIn().MatchString(f.Path) && (strings.HasPrefix(string(f.After), "#!") || !strings.Contains(string(f.After), "\n")): // a script, or a link
		c.block(f.Path, 0, "a program stands in for "+base, "a check can run it in place of the real one")
	case makes && (base == "GNUmakefile" || base == "makefile"):
		c.block(f.Path, 0, "a makefile that comes before the others", "make takes this one first")
	}
}

// twice finds targets of a makefile that have a second recipe now: make takes the
// last one.
func (c *change) twice(f File) {
	was := recipes(string(f.Before))
	for target, n := range recipes(string(f.After)) {
		if n > 1 && n > was[target] {
			c.block(f.Path, 0, "a second recipe of the target "+target, "make takes the last one")
		}
	}
}

func recipes(text string) map[string]int {
	count := map[string]int{}
	lines := strings.Split(text, "\n")
	for i, line := range lines[:len(lines)-1] {
		if m := makeTarget().FindStringSubmatch(line); m != nil && strings.HasPrefix(lines[i+1], "\t") && !strings.Contains(line, "::") {
			count[m[1]]++
		}
	}
	return count
}

// brings says that a command runs a file that the change itself has made.
func (c *change) brings(command string) bool {
	return slices.ContainsFunc(c.files, func(f File) bool {
		return f.Before == nil && slices.Contains(strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\"'`,;&|", r) }), f.Path)
	})
}

// named says that a check names a file.
func (c *change) named(p string) bool {
	return slices.ContainsFunc(c.checks, func(check string) bool {
		return slices.ContainsFunc(strings.Fields(check), func(w string) bool { return strings.TrimPrefix(strings.Trim(w, `"';&|()`), "./") == p })
	})
}

// failing are the lines of a program that can make it fail.
func failing(text string) []string {
	var list []string
	for line := range strings.SplitSeq(text, "\n") {
		if t := strings.TrimSpace(line); failsLine().MatchString(t) && !strings.HasPrefix(t, "#") && !strings.HasPrefix(t, "//") {
			list = append(list, t)
		}
	}
	return list
}

// expects judges the program that a check runs: what it expected it still has to
// expect.
func (c *change) expects(f File) {
	before, after := string(f.Before), string(f.After)
	if was, is := failing(before), failing(after); len(is) < len(was) {
		c.block(f.Path, 0, "the check fails for less", "it had: "+missing(was, is))
	}
	compared := map[string]bool{}
	newLines(after, before, func(n int, line string) {
		if t := squeeze(line); expectsLine().MatchString(t) && !strings.HasPrefix(t, "#") {
			c.block(f.Path, 0, "the check expects something else", "it had: "+t)
		}
	})
	for line := range strings.SplitSeq(before, "\n") {
		if w := strings.Fields(line); len(w) > 1 && (w[0] == "diff" || w[0] == "cmp") {
			for _, name := range w[1:] {
				compared[name] = true
			}
		}
	}
	newLines(before, after, func(n int, line string) {
		w := strings.Fields(line)
		switch {
		case overrides().MatchString(line):
			c.block(f.Path, n, "the check is overridden: "+squeeze(line), "what follows checks nothing")
		case len(w) > 1 && (w[0] == "cp" || w[0] == "mv" || slices.Contains(w, ">")) && compared[w[len(w)-1]]:
			c.block(f.Path, n, "what is compared is made by the check: "+squeeze(line), "both sides are the same then")
		}
	})
}

// missing is the first of was that is not in is.
func missing(was, is []string) string {
	for _, t := range was {
		if !slices.Contains(is, t) {
			return t
		}
	}
	return was[0]
}

// expectedAlone judges expectations that change while the code that they are about
// does not.
func (c *change) expectedAlone() {
	for _, f := range c.files {
		if !recorded().MatchString(f.Path) && !documents().MatchString(f.Path) && !isTest(f.Path, string(f.Before)+string(f.After)) {
			return // some code
		}
	}
	const why = "no code changes with it"
	for _, f := range c.files {
		if recorded().MatchString(f.Path) && f.Before != nil && f.After != nil && !isTest(f.Path, string(f.Before)) {
			c.say(Finding{Path: f.Path, What: "recorded result changed", Why: why, Blocks: true, Expectation: true})
		}
	}
	for _, p := range c.pairs {
		removed, added := difference(p.before.tests, p.after.tests)
		for i := range min(len(removed), len(added)) {
			if r, a := removed[i].text, added[i].text; r != a && literals().ReplaceAllString(r, "#") == literals().ReplaceAllString(a, "#") {
				c.say(Finding{Path: p.after.file.path, Line: added[i].line, What: "expectation changed: " + p.after.name, Why: fmt.Sprintf("%s; it was: %s", why, r), Blocks: true, Expectation: true})
			}
		}
	}
}

// replaced judges tests whose subject is replaced in them, whose expectation takes
// anything, and those that are not run where they are now.
func (c *change) replaced(a *source) {
	i := slices.IndexFunc(c.before, func(b *source) bool { return b.path == a.path })
	if a.l.name == "go" && exitsInit().MatchString(a.code) && (i < 0 || !exitsInit().MatchString(c.before[i].code)) {
		c.block(a.path, 0, "tests end before they begin", "an init that ends the program")
	}
	if i < 0 {
		return
	}
	b := c.before[i]
	asserted := ""
	for _, u := range b.units {
		for _, t := range u.tests {
			asserted += t.text + "\n"
		}
		asserted += u.code()
	}
	for _, m := range mocks().FindAllStringSubmatch(a.raw, -1) {
		if !strings.Contains(b.raw, m[0]) && subject(b, m[1], asserted) {
			c.block(a.path, 0, "what is tested is mocked: "+m[1], "the test looks at the mock")
		}
	}
	newLines(b.raw, a.raw, func(n int, line string) {
		for _, m := range patches().FindAllStringSubmatch(line, -1) {
			name := strings.Join(m[1:], "")
			if name != "" && regexp.MustCompile(`(?:assert|expect|:=|if ).*\b`+regexp.QuoteMeta(name)+`\(`).MatchString(asserted) {
				c.block(a.path, n, "what is tested is replaced: "+squeeze(line), "the test looks at the replacement")
			}
		}
	})
	for _, p := range c.pairs {
		if p.after.file != a {
			continue
		}
		removed, added := difference(p.before.tests, p.after.tests)
		for i := range min(len(removed), len(added)) {
			if anything().MatchString(added[i].text) && !anything().MatchString(removed[i].text) && strings.Contains(removed[i].text, "==") {
				c.block(a.path, added[i].line, "expectation relaxed: "+p.after.name, "it was: "+removed[i].text)
			}
		}
	}
}

// subject says that assertions are about what a test takes from a module.
func subject(s *source, module, asserted string) bool {
	for line := range strings.SplitSeq(s.raw, "\n") {
		if !strings.Contains(line, "'"+module+"'") && !strings.Contains(line, `"`+module+`"`) {
			continue
		}
		for name := range tokens(line) {
			if len(name) > 1 && name != "const" && name != "import" && name != "require" && name != "from" && regexp.MustCompile(`expect\([^\n]*\b`+regexp.QuoteMeta(name)+`\b`).MatchString(asserted) {
				return true
			}
		}
	}
	return false
}
