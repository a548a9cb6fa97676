package prd

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// heading is one ATX heading.
type heading struct {
	level int
	text  string // without marks at its end
	id    string // of a story or an epic, "" for none
	title string // what follows the id
	done  bool   // it has a checked box
	prio  int    // that stands in the heading, or -1
	item  bool   // it is an item of a list
}

// itemLevel is the level of a story that is an item of a list: below every heading.
const itemLevel = 7

// readItem reads a line as an item of a list that is not within another; level 0 is
// none.
func readItem(line string) heading {
	if indentOf(line) > 3 {
		return heading{}
	}
	text, _, ok := cutItem(strings.TrimSpace(line))
	if !ok {
		return heading{}
	}
	return heading{level: itemLevel, text: text, prio: -1, item: true}
}

// underlined returns the level of a heading whose underline is next; 0 is none. Three
// dashes below a paragraph, a list or a label are a rule, as people mean them.
func underlined(before, line, next string) int {
	mark := strings.TrimSpace(next)
	text := strings.TrimSpace(line)
	if len(mark) < 3 || indentOf(next) > 3 || indentOf(line) > 3 || strings.TrimSpace(before) != "" || text == "" || len(text) > 120 || strings.ContainsAny(text[:1], "#>|-+=*_`<") {
		return 0
	}
	_, _, listed := cutItem(text)
	label, _ := readLabel(text)
	switch {
	case listed || label != partNone:
	case strings.Trim(mark, "=") == "":
		return 1
	case strings.Trim(mark, "-") == "" && !strings.HasSuffix(text, "."):
		return 2
	}
	return 0
}

// readHeading reads a line as a heading; level 0 is none.
func readHeading(line string) heading {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 {
		return heading{}
	}
	text := strings.TrimLeft(rest, "#")
	level := len(rest) - len(text)
	if level == 0 || level > 6 || text != "" && text[0] != ' ' && text[0] != '\t' {
		return heading{}
	}
	text = strings.TrimSpace(text)
	if bare := strings.TrimRight(text, "#"); bare != text && (bare == "" || strings.HasSuffix(bare, " ")) {
		text = strings.TrimSpace(bare)
	}
	return heading{level: level, text: text, prio: -1}
}

// idForms are the ways in which a heading, or a dependency, names a story.
var idForms = sync.OnceValue(func() [2]*regexp.Regexp {
	return [2]*regexp.Regexp{
		// US-001, EPIC-1, US-2.1, AUTH-LOGIN-3, US_7, us-1a
		regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z][A-Za-z0-9]*)*[-_][0-9]+(?:[.-][A-Za-z]{0,4}[0-9]+)*[a-z]?)(?:$|[^A-Za-z0-9_])`),
		// Feature 1.2, User Story 3, Epic 4
		regexp.MustCompile(`(?i)^(user story|feature|story|epic|task|requirement|bug|chore)\s+#?([0-9]+(?:\.[0-9]+)*)(?:$|[^A-Za-z0-9_])`),
	}
})

// cutID cuts an id from the beginning of text. form is 1 for the form with a
// word and a number, which are joined, 0 for an id as it stands.
func cutID(text string) (id, rest string, form int, ok bool) {
	forms := idForms()
	if m := forms[0].FindStringSubmatch(text); m != nil {
		return m[1], text[len(m[1]):], 0, true
	}
	if m := forms[1].FindStringSubmatchIndex(text); m != nil {
		word := strings.ToLower(text[m[2]:m[3]])
		if word == "user story" {
			word = "US"
		} else {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		return word + "-" + text[m[4]:m[5]], text[m[5]:], 1, true
	}
	return "", text, 0, false
}

// identify finds the id of a heading. familiar tells prefixes that count
// without a mark behind the id ("US-001 Title").
func (h *heading) identify(familiar func(prefix string) bool) {
	text := h.text
	for {
		if box, rest, ok := cutBox(text); ok {
			h.done, text = h.done || box, rest
			continue
		}
		rest, done, ok := cutSign(text)
		if !ok {
			break
		}
		h.done, text = h.done || done, rest
	}
	if rest := chapter().ReplaceAllString(text, ""); rest != text {
		if id, _, form, ok := cutID(strings.TrimLeft(rest, "*_`[ ")); ok && (form == 0 || storyPrefix(prefixOf(id))) {
			text = rest
		}
	}
	text = strings.TrimLeft(text, "*_` ")
	bracket := strings.HasPrefix(text, "[")
	id, rest, form, ok := cutID(strings.TrimLeft(text, "*_`[ "))
	if !ok {
		return
	}
	rest = strings.TrimLeft(rest, "*_`")
	if bracket {
		if rest, ok = strings.CutPrefix(rest, "]"); !ok {
			return
		}
	}
	title, marked := cutMark(rest)
	if !marked && !bracket && (form == 1 || !familiar(prefixOf(id))) && strings.Trim(rest, "*_` ") != "" {
		return
	}
	if box, rest, ok := cutBox(title); ok {
		h.done, title = h.done || box, rest
	}
	for {
		rest, ok := strings.CutSuffix(strings.TrimRight(title, " *_\ufe0f"), "✅")
		if !ok {
			break
		}
		title, h.done = rest, true
	}
	title, h.prio = cutPriority(title)
	h.id, h.title = id, plain(title)
	if h.title == "" {
		h.title = id
	}
}

// chapter matches the number of a heading.
var chapter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)*[.)]?\s+`) })

// cutSign cuts a sign that is no letter, digit or mark of Markdown from the beginning of
// a heading; done says that it is a tick.
func cutSign(text string) (rest string, done, ok bool) {
	r, n := utf8.DecodeRuneInString(text)
	if n == 0 || r < 0x80 || unicode.IsLetter(r) || unicode.IsNumber(r) {
		return text, false, false
	}
	return strings.TrimLeft(text[n:], " \ufe0f"), strings.ContainsRune("✅☑✔✓", r), true
}

// cutMark cuts what separates an id from its title.
func cutMark(s string) (rest string, ok bool) {
	s = strings.TrimSpace(s)
	for _, mark := range []string{":", "：", "—", "–", "-", "|", "."} {
		if rest, ok := strings.CutPrefix(s, mark); ok {
			return strings.TrimLeft(strings.TrimSpace(rest), "*_` "), true
		}
	}
	return s, false
}

// prefixOf is the part of an id before its number, in upper case.
func prefixOf(id string) string {
	for i := 1; i < len(id); i++ {
		if (id[i-1] == '-' || id[i-1] == '_') && id[i] >= '0' && id[i] <= '9' {
			return strings.ToUpper(id[:i-1])
		}
	}
	return strings.ToUpper(id)
}

// storyPrefix reports whether ids that begin like this are stories without a doubt.
func storyPrefix(prefix string) bool {
	switch prefix {
	case "US", "STORY", "EPIC", "FEATURE", "TASK", "T", "BUG":
		return true
	}
	return false
}

// plain drops the marks of emphasis that enclose a text.
func plain(s string) string {
	s = strings.TrimSpace(s)
	for _, mark := range []string{"**", "__", "*", "_", "`"} {
		if len(s) >= 2*len(mark) && strings.HasPrefix(s, mark) && strings.HasSuffix(s, mark) && !strings.Contains(s[len(mark):len(s)-len(mark)], mark) {
			s = strings.TrimSpace(s[len(mark) : len(s)-len(mark)])
		}
	}
	if s == "**" || strings.HasSuffix(s, "**") && strings.Count(s, "**") == 1 {
		s = strings.TrimSpace(strings.TrimSuffix(s, "**")) // the bold began before the id
	}
	return strings.Join(strings.Fields(s), " ")
}

// cutBox cuts "[ ]", "[x]" or a box with another mark of a status from the beginning.
func cutBox(s string) (done bool, rest string, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) < 3 || s[0] != '[' || s[2] != ']' || len(s) > 3 && s[3] != ' ' && s[3] != '\t' {
		return false, s, false
	}
	if !strings.ContainsRune(" xX~!-/>Rr", rune(s[1])) {
		return false, s, false
	}
	return s[1] == 'x' || s[1] == 'X', strings.TrimSpace(s[3:]), true
}

// cutPriority cuts "(P1)", "[P1]" or "(Priority: high)" from the end of a title.
func cutPriority(title string) (rest string, prio int) {
	title = strings.TrimSpace(title)
	for _, pair := range []string{"()", "[]"} {
		i := strings.LastIndexByte(title, pair[0])
		if i < 0 || !strings.HasSuffix(title, pair[1:]) {
			continue
		}
		inner := strings.TrimSpace(title[i+1 : len(title)-1])
		word, named := strings.CutPrefix(strings.ToLower(inner), "priority")
		word = strings.TrimLeft(word, ": ")
		short := len(inner) == 2 && (inner[0] == 'P' || inner[0] == 'p')
		if n, ok := readPriority(word); ok && (named || short) {
			return strings.TrimSpace(title[:i]), n
		}
	}
	return title, -1
}

// maxPriority is the least urgent priority that a plan may have.
const maxPriority = 100_000

// readPriority reads P0, P1, …, a number or a word.
func readPriority(s string) (int, bool) {
	s = strings.ToLower(strings.Trim(strings.TrimSpace(s), "*_`"))
	if i := strings.IndexAny(s, " (,;/|—–"); i > 0 {
		s = s[:i] // "P2 (medium)"
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(s, "p")); err == nil && n >= 0 && n <= maxPriority {
		return n, true
	}
	switch s {
	case "critical", "urgent", "blocker", "highest", "must":
		return 0, true
	case "high", "should":
		return 1, true
	case "medium", "normal", "med", "moderate", "could":
		return 2, true
	case "low", "minor":
		return 3, true
	case "lowest", "backlog", "trivial", "nice-to-have":
		return 4, true
	}
	return 0, false
}
