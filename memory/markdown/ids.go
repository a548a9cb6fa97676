package markdown

import (
	"regexp"
	"strings"
	"sync"
)

// knownID matches ids by a prefix that people use for tasks; anyID those that
// something sets apart from text: bold, a colon, a dash.
var (
	knownID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?i:(T|TASK|US|USER STORY|GOAL|G|ISSUE|BUG|FEAT|FEATURE|STORY)[- ]?\d+(?:[-.][A-Za-z]{0,4}\d+)*)(?:[^\pL\pN]|$)`)
	})
	anyID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]{0,15}(?:-[A-Za-z0-9]{1,16}){0,3}[- ]?\d+(?:[-.][A-Za-z]{0,4}\d+)*)(?:[^\pL\pN]|$)`)
	})
	numberID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+(?:\.\d+)+)[.:)]?(?:\s|$)`) })
	rowID    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]{1,8}[- ]?\d+(?:[-.]\d+)*$`) })
)

// storyID matches ids by the prefixes that name a piece of work and nothing else.
var storyID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:US|USER STORY|STORY|EPIC|FEATURE|TASK|T|BUG)[-_ ]?\d`)
})

// prefixOf returns the part of an id before its number.
func prefixOf(id string) string {
	if i := strings.IndexAny(id, "0123456789"); i >= 0 {
		id = id[:i]
	}
	return strings.TrimRight(id, "-_ ")
}

// chapter matches the number of a heading.
var chapter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+(?:\.\d+)*[.)]?\s+`) })

// storyHeading takes a sign, a chapter number and the brackets around the id off a heading
// that names a story behind them; another one stays as it is.
func storyHeading(title string) (rest, sign string) {
	rest = title
	for _, e := range statusEmoji() {
		if after, ok := strings.CutPrefix(rest, e.word); ok {
			rest, sign = strings.TrimLeft(after, "\ufe0f "), e.word
			break
		}
	}
	rest = chapter().ReplaceAllString(rest, "")
	if id, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && rest[0] == '[' && storyID().MatchString(id) {
		rest = id + ":" + after
	}
	if storyID().MatchString(strings.TrimLeft(rest, "*_`[ ")) {
		return rest, sign
	}
	return title, ""
}

// isEpic reports whether an id says that it groups tasks.
func isEpic(id string) bool { return strings.EqualFold(prefixOf(id), "epic") }

// afterRemark matches "(after T-1, T-2)" in the line of a task.
var afterRemark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\(after:?\s+([^()]*)\)`) })

// dependencyID matches what can be the id of a task in such a remark.
var dependencyID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[\pL\pN_.-]+-)?(?:[A-Za-z]+ ?)?[\pL\pN_.-]*\d[\pL\pN_.-]*$|^~[\pL\pN-]+(?:~\d+)?$`)
})

// cutID splits the id from the title behind it.
func cutID(s string) (id, title string, bold bool) {
	s = strings.TrimSpace(s)
	for _, m := range []string{"**", "__", "`"} {
		if !strings.HasPrefix(s, m) {
			continue
		}
		if inner, rest, ok := strings.Cut(s[len(m):], m); ok {
			if plainID(inner) {
				return inner, trimSeparator(rest), m == "**"
			}
			word := strings.TrimRight(inner, ": ")
			if loc := anyID().FindStringSubmatch(word); loc != nil && loc[1] == word {
				return word, trimSeparator(rest), m == "**"
			}
		}
	}
	if !strings.ContainsAny(s[:min(len(s), 100)], "0123456789") {
		return "", s, false // quick: all that follow end in a number
	}
	if m := knownID().FindStringSubmatchIndex(s); m != nil {
		end := m[1]
		for end > m[3] && !idByte(s[end-1]) {
			end--
		}
		return strings.TrimSpace(s[:end]), trimSeparator(s[end:]), false
	}
	if id := numbered(s); id != "" {
		return id, trimSeparator(s[len(id):]), false
	}
	if i := strings.IndexByte(s, ':'); i <= 0 || !idByte(s[i-1]) {
		return "", s, false
	}
	if m := anyID().FindStringSubmatch(s); m != nil && strings.HasPrefix(s[len(m[1]):], ":") && !strings.Contains(m[1], " ") {
		return m[1], trimSeparator(s[len(m[1]):]), false
	}
	return "", s, false
}

// plainID reports whether s is letters, a dash and digits: the form in which
// Ralph writes ids, which anyID matches whole.
func plainID(s string) bool {
	i := strings.IndexByte(s, '-')
	if i <= 0 || i > 16 || i == len(s)-1 {
		return false
	}
	for k := range len(s) {
		if k < i && !letter(s[k]) || k > i && (s[k] < '0' || s[k] > '9') {
			return false
		}
	}
	return true
}

// numbered returns the chapter number that a text begins with, or "".
func numbered(s string) string {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return ""
	}
	if m := numberID().FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

func idByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func trimSeparator(s string) string {
	return strings.TrimSpace(strings.TrimLeft(s, " \t:：.)-–—"))
}

// trimTitle takes off what lines carry behind the title: ticks with a date,
// two blanks for a line break.
func trimTitle(s string) string {
	s = strings.TrimSpace(s)
	if isASCII(s) {
		return s
	}
	for _, e := range statusEmoji() {
		if i := strings.LastIndex(s, e.word); i > 0 && strings.Trim(s[i+len(e.word):], " 0123456789-./:\ufe0f") == "" {
			return strings.TrimSpace(s[:i])
		}
	}
	return s
}
