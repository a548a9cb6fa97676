package tamper

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// guardPatterns are what guards looks for.
type guardPatterns struct {
	// ambient is a condition on what the environment says, which is not the same
	// where Ralph runs.
	ambient *regexp.Regexp
	// handles is the beginning of what is done about a failure.
	handles *regexp.Regexp
	// tries is where what it is done about begins.
	tries *regexp.Regexp
	// minds is what hands a failure on.
	minds   *regexp.Regexp
	retries *regexp.Regexp
	equals  *regexp.Regexp
	empty   *regexp.Regexp
	byName  *regexp.Regexp
}

var guardWords = sync.OnceValue(func() *guardPatterns {
	return &guardPatterns{
		ambient: rx(`^.*\b(?:if|unless|when)\b.*(?i:getenv|lookupenv|environ\b|process\.env|\bENV\[|std::env|env::var|System\.getProperty).*$`),
		handles: rx(`\bcatch\b[^\n{]*\{|^\s*except\b[^\n]*:|^\s*rescue\b[^\n]*$`),
		tries:   rx(`\btry\b|^\s*begin\b`),
		minds:   rx(`\braise\b|\bthrow\b|\bassert|\bexpect|\b[fF]ail|\breject\(|\b(?:done|cb|next)\(\w|\bpanic|\bexit[!( ]*[1-9]|\.push\(|\.append\(|\w = `),
		retries: rx(`\bretryTimes\(|\bthis\.retries\(|\bretr(?:y|ies): *[1-9]|@(?:pytest\.mark\.)?flaky\b|@Retry\w*|@RepeatedIfExceptions\w*|RetryAnalyzer|\bretry: *\d`),
		equals:  rx(`\bdef (?:__eq__|__contains__|assert\w*|==|eql\?)\s*\([^)]*\)[^\n]*:?\s*(?:=|\n)?\s*(?:return )?[tT]rue\b|(?i:\b(?:equals?|toEqual)\()[^)]*\)[^{;\n]*\{\s*return true;?\s*\}|\bfn eq\([^)]*\)[^{]*\{\s*true\s*\}`),
		empty:   rx(`^\s*(?:const |let |var )?(\w+)\s*:?=\s*(?:[\w\[\].*]*[\w\]])?(?:\[\]|\{\}|\(\));?[ \t]*$`),
		byName:  rx(`\b(?:name|originalname|nodeid|fspath|path)\b`),
	}
})

// guards judges what a test has come to stand under: a condition that may never
// hold here, a handler that hears nothing, tries until one passes.
func (c *change) guards(p pair, at func(int, string, string, bool)) {
	b, a := p.before, p.after
	if n := c.gated(b, a); n >= 0 {
		at(a.file.lineAt(a.from+n), "test left to the environment", squeeze(until(a.code()[n:], "\n")), true)
	}
	if n := newMatches(guardWords().retries, b.view(), a.view()); n >= 0 {
		at(a.file.lineAt(a.from+n), "test is tried again until it passes", squeeze(until(a.code()[n:], "\n")), true)
	}
	if n := swallows(a); n >= 0 && swallows(b) < 0 {
		at(a.file.lineAt(a.from+n), "failures are swallowed", squeeze(until(strings.TrimLeft(a.code()[n:], " \t\n"), "\n"))+" hides what fails", true)
	}
	if n := disarmed(b, a); n >= 0 {
		at(a.file.lineAt(a.from+n), "test ends before it asserts", "a return where its assertion would fail", true)
	}
}

// gated is where a condition on the environment is new that ends a test, or under
// which stands what it asserted without; -1 for nowhere.
func (c *change) gated(b, a *unit) int {
	text := a.code()
	for _, m := range guardWords().ambient.FindAllStringIndex(text, -1) {
		line := text[m[0]:m[1]]
		if strings.Contains(b.code(), squeeze(line)) {
			continue
		}
		inner := line + "\n" + deeper(text, m[1], indentation(line))
		returns := slices.Contains(words().FindAllString(inner, -1), "return") && !strings.Contains(strings.ToLower(inner), "write")
		holds := slices.ContainsFunc(b.tests, func(t assertion) bool {
			return strings.Contains(squeeze(inner), until(t.text, " => ")) && !strings.Contains(squeeze(text[:m[0]]), until(t.text, " => "))
		})
		if returns || holds {
			return m[0]
		}
	}
	return -1
}

// deeper are the lines after an offset that are indented more than own.
func deeper(text string, at, own int) string {
	var b strings.Builder
	for line := range strings.Lines(text[min(len(text), at+1):]) {
		if strings.TrimSpace(line) != "" && indentation(line) <= own {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// swallows is where a test handles the failure of an assertion and says nothing of
// it, -1 for nowhere.
func swallows(u *unit) int {
	text := u.code()
	for _, m := range guardWords().handles.FindAllStringIndex(text, -1) {
		begins := guardWords().tries.FindAllStringIndex(text[:m[0]], -1)
		if len(begins) == 0 {
			continue
		}
		line := strings.LastIndexByte(text[:m[1]], '\n') + 1
		head := until(text[line:], "\n")
		body := text[m[1]:min(len(text), line+len(head))]
		body += "\n" + deeper(text, line+len(head), indentation(head))
		first := u.file.lineAt(u.from + begins[len(begins)-1][0])
		last := u.file.lineAt(u.from + m[0])
		held := slices.ContainsFunc(u.tests, func(t assertion) bool { return t.line >= first && t.line < last && !t.trivial })
		if held && !guardWords().minds.MatchString(body) {
			return m[0]
		}
	}
	return -1
}

// disarmed is where a test of Go returns under the condition of one of its
// assertions, before it, -1 for nowhere.
func disarmed(b, a *unit) int {
	if a.file.l.name != "go" {
		return -1
	}
	lines, n := strings.Split(a.bare(), "\n"), 0
	codes := strings.Split(a.code(), "\n")
	for i := range len(lines) - 1 {
		cond := squeeze(codes[i])
		here := a.file.lineAt(a.from) + i
		inner := strings.Fields(deeper(a.code(), n+len(codes[i]), indentation(lines[i])))
		if strings.HasPrefix(cond, "if ") && len(inner) > 0 && inner[len(inner)-1] == "return" && strings.Count(squeeze(a.code()), cond) > strings.Count(squeeze(b.code()), cond) &&
			slices.ContainsFunc(a.tests, func(t assertion) bool { return t.line > here && strings.HasPrefix(t.text, cond+" => ") }) {
			return n
		}
		n += len(codes[i]) + 1
	}
	return -1
}

// emptied is the name of a table that tests go through and that holds nothing now.
func emptied(before, after string) string {
	for _, m := range guardWords().empty.FindAllStringSubmatch(after, -1) {
		name := regexp.QuoteMeta(m[1])
		full := regexp.MustCompile(`(?m)\b` + name + `\s*:?=\s*[\w\[\]{}. ]*[\[{(]\s*[^\s\]})]`)
		through := regexp.MustCompile(`\b(?:range|of|in)\s+` + name + `\b|\b` + name + `\.(?:forEach|each|map)\b|\beach\(` + name + `\b|parametrize\([^)]*\b` + name + `\b`)
		if full.MatchString(before) && !full.MatchString(after) && through.MatchString(after) {
			return m[1]
		}
	}
	return ""
}

// rigged judges what is new in a file of tests and holds for more than one of them.
func (c *change) rigged(a *source, before view) {
	after := view{a.code, a.bare}
	if n := newMatches(guardWords().equals, before, after); n >= 0 {
		c.block(a.path, a.lineAt(n), "a comparison that is always true", squeeze(after.code[n:min(len(after.code), n+80)]))
	}
	if name := emptied(before.code, after.code); name != "" {
		c.block(a.path, 0, "test cases removed: "+name, "the table is empty now")
	}
	if n := newMatches(guardWords().retries, before, after); n >= 0 && before.code != "" {
		c.block(a.path, a.lineAt(n), "tests are tried again until they pass", squeeze(until(after.code[n:], "\n")))
	}
}
