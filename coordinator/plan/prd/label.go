package prd

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// part is a part of a story, by the label before it.
type part int

const (
	partNone part = iota
	partDescription
	partCriteria
	partPriority
	partAfter
	partLabels
	partEpic
	partKind
	partStatus
	partCheck
	partAgent
	partEffort
	partNotes
	partBranch // of the document
	partOther  // a label that is not known: its line stays as it is
)

// partOf tells a label by its words, in any case.
func partOf(label string) part {
	switch strings.ToLower(strings.Join(strings.FieldsFunc(label, func(r rune) bool { return unicode.IsSpace(r) || r == '-' || r == '_' }), " ")) {
	case "description", "user story", "story", "summary", "details", "overview", "描述", "用户故事":
		return partDescription
	case "acceptance criteria", "acceptance", "criteria", "ac", "definition of done", "done when", "acceptance criterion", "验收标准", "验收条件":
		return partCriteria
	case "priority", "prio", "优先级":
		return partPriority
	case "depends on", "dependencies", "dependency", "depends", "blocked by", "after", "requires", "prerequisites", "dependson", "依赖", "依赖于":
		return partAfter
	case "labels", "label", "tags":
		return partLabels
	case "epic", "parent":
		return partEpic
	case "type", "kind":
		return partKind
	case "status", "state", "状态":
		return partStatus
	case "check", "verification", "verify", "test command", "verify with":
		return partCheck
	case "agent":
		return partAgent
	case "effort", "estimate", "estimated effort", "size", "story points", "points":
		return partEffort
	case "notes", "note", "technical notes", "implementation notes", "implementation hints":
		return partNotes
	case "branch", "branch name", "branchname", "feature branch", "git branch":
		return partBranch
	}
	return partNone
}

// readLabel reads "**Priority:** P1", "Priority: P1", "- Priority: P1" and their
// like. A label that is not known counts only when it is bold. value is what
// follows.
func readLabel(line string) (p part, value string) {
	s := strings.TrimSpace(line)
	if item, _, ok := cutItem(s); ok {
		s = item
	}
	s = strings.TrimSpace(strings.TrimPrefix(s, ">"))
	bold := strings.HasPrefix(s, "**") || strings.HasPrefix(s, "__")
	name, value, ok := strings.Cut(s, ":")
	if wide, rest, found := strings.Cut(s, "："); found && (!ok || len(wide) < len(name)) {
		name, value, ok = wide, rest, true
	}
	if !ok {
		// "**Acceptance Criteria**" alone on its line
		if inner := strings.Trim(s, "*_"); bold && inner != s && (strings.HasSuffix(s, "**") || strings.HasSuffix(s, "__")) {
			if p := partOf(inner); p != partNone {
				return p, ""
			}
		}
		return partNone, ""
	}
	name = strings.Trim(name, "*_ ")
	if bold || strings.HasPrefix(value, "*") || strings.HasPrefix(value, "_") {
		value = strings.TrimLeft(value, "*_")
	}
	value = strings.TrimSpace(value)
	if name == "" || utf8.RuneCountInString(name) > 40 {
		return partNone, ""
	}
	if p := partOf(name); p != partNone {
		return p, value
	}
	if bold {
		return partOther, value
	}
	return partNone, ""
}

// cutItem cuts the mark of a list item: -, *, +, 1. or 1). A box stays.
func cutItem(s string) (text string, numbered, ok bool) {
	if len(s) >= 1 && (s[0] == '-' || s[0] == '*' || s[0] == '+') {
		if len(s) == 1 {
			return "", false, true
		}
		if s[1] == ' ' || s[1] == '\t' {
			return strings.TrimSpace(s[1:]), false, true
		}
		return s, false, false
	}
	i := 0
	for i < len(s) && i < 9 && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 || i == len(s) || s[i] != '.' && s[i] != ')' {
		return s, false, false
	}
	if rest := s[i+1:]; rest == "" || rest[0] == ' ' || rest[0] == '\t' {
		return strings.TrimSpace(rest), true, true
	}
	return s, false, false
}

// nothing says that a value means "none".
func nothing(s string) bool {
	switch strings.ToLower(strings.Trim(strings.TrimSpace(s), "*_`().")) {
	case "", "none", "n/a", "na", "-", "—", "–", "nothing", "nil", "no", "no dependencies", "null":
		return true
	}
	return false
}

// readAfter reads "US-001 (auth), US-002 and Feature 1.2"; lost is what names no
// story.
func readAfter(value string) (ids []string, lost []string) {
	value = severalIDs().ReplaceAllString(dropParens(value), "$1,$2")
	for _, piece := range splitList(value) {
		word := strings.TrimLeft(piece, "*_`[# ")
		if nothing(word) {
			continue
		}
		id, rest, _, ok := cutID(word)
		if !ok {
			lost = append(lost, piece)
			continue
		}
		ids = append(ids, id)
		// "US-001: Auth" and "US-001 Auth" name it and say what it is. A second
		// id without a comma is one more.
		for field := range strings.FieldsSeq(rest) {
			if more, _, form, ok := cutID(strings.Trim(field, "*_`[]:")); ok && form == 0 && storyPrefix(prefixOf(more)) {
				ids = append(ids, more)
			}
		}
	}
	return ids, lost
}

// severalIDs matches the bar between two ids.
var severalIDs = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([0-9][a-z]?[*_\]]*)\s*[/|]\s*([*_\[]*[A-Za-z]+[-_ ])`)
})

// splitList splits at commas, semicolons, ampersands and "and".
func splitList(value string) []string {
	value = strings.NewReplacer(";", ",", "&", ",", "，", ",", "、", ",", "；", ",", " and ", ",", " AND ", ",", " + ", ",").Replace(value)
	var out []string
	for piece := range strings.SplitSeq(value, ",") {
		if piece = strings.TrimSpace(piece); piece != "" {
			out = append(out, piece)
		}
	}
	return out
}

// dropParens drops what stands in parentheses, also nested; one that is never
// closed is dropped to the end.
func dropParens(s string) string {
	var b strings.Builder
	depth := 0
	for _, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// command takes the command out of "`go test ./...` passes", or the whole text
// when nothing in it is marked as one.
func command(s string) (cmd string, marked bool) {
	s = strings.TrimSpace(s)
	ticks := len(s) - len(strings.TrimLeft(s, "`"))
	from := 0
	if ticks == 0 {
		if from = strings.IndexByte(s, '`'); from < 0 {
			return s, false
		}
		ticks = 1
	}
	bar := strings.Repeat("`", ticks)
	rest := s[from+ticks:]
	end := strings.Index(rest, bar)
	if end < 0 {
		return s, false
	}
	return strings.TrimSpace(rest[:end]), true
}
