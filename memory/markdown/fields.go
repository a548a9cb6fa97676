package markdown

import (
	"strings"
	"unicode"
)

// The fields of a task, in the order in which Ralph writes them.
const (
	fieldStatus = iota
	fieldPriority
	fieldAfter
	fieldAgent
	fieldCheck
	fieldResult
	numFields
)

// fieldName is the key under which Ralph writes a field.
func fieldName(f int) string {
	return [numFields]string{"status", "priority", "after", "agent", "check", "result"}[f]
}

// canonical returns the name of the field that a key names, or "".
func canonical(key string) string {
	switch key {
	case "status", "priority", "after", "agent", "check", "result":
		return key
	}
	switch strings.ToLower(strings.Join(strings.FieldsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || r == '_' || r == '-' }), " ")) {
	case "status", "state", "状态", "estado", "statut", "статус", "状態":
		return "status"
	case "priority", "prio", "优先级", "prioridad", "priorité", "priorität":
		return "priority"
	case "after", "depends on", "dependson", "depends", "dependencies", "dependency", "blocked by", "requires", "依赖":
		return "after"
	case "agent", "agent/team", "assignee", "owner":
		return "agent"
	case "check", "test command", "verify", "verification command":
		return "check"
	case "result", "outcome", "结果":
		return "result"
	}
	return ""
}

// field notes the fields that a line of a task's block holds: a `key: value`
// bullet or line, or several of them between bars. The first of a kind counts;
// a command or a result in a bullet goes to the end of the line.
// What stands in a line that keeps Ralph's side of a conflict is no field.
func (d *Document) field(n *node, i int, text string) {
	whole := d.lines.at(i).text
	at := len(whole) - len(text)
	w := len(text) - len(strings.TrimLeft(text, " \t"))
	bullet, rest := cutBullet(text[w:])
	at += w + len(bullet)
	if strings.HasPrefix(rest, conflictKey) {
		return
	}
	for {
		part, _, more := strings.Cut(whole[at:], " | ")
		if more && bullet != "" && at == len(whole)-len(rest) && free(part) {
			part, more = whole[at:], false
		}
		if key, from, ok := cutKey(part); ok {
			if name := canonical(key); name != "" {
				n.set(name, i-n.first, at+from, part[from:])
			}
		}
		if !more {
			return
		}
		at += len(part) + len(" | ")
	}
}

// free reports whether a part of a line is a field of free text, a command or a
// result: in a bullet of its own, bars are part of it.
func free(part string) bool {
	key, _, ok := cutKey(part)
	name := canonical(key)
	return ok && (name == "check" || name == "result")
}

// cutKey finds the key of `key: value` in its many spellings, and where the
// value begins.
func cutKey(s string) (key string, from int, ok bool) {
	i, width := strings.IndexByte(s, ':'), 1
	before := s
	if i >= 0 {
		before = s[:i]
	}
	if j := strings.Index(before, "："); j >= 0 {
		i, width = j, len("：")
	}
	if i <= 0 || i > 60 {
		return "", 0, false
	}
	key = strings.Trim(s[:i], " \t*_")
	from = i + width
	// The value begins behind the marks that close a bold key, and blanks.
	from += len(s[from:]) - len(strings.TrimLeft(s[from:], "*_"))
	from += len(s[from:]) - len(strings.TrimLeft(s[from:], " \t"))
	return key, from, true
}

// set notes a field's value and its place, without the blanks behind it.
func (n *node) set(name string, line, from int, raw string) {
	f := 0
	for fieldName(f) != name {
		f++
	}
	if !n.fields[f].none() {
		return
	}
	value := strings.TrimRight(raw, " \t")
	n.fields[f] = span{line, from, from + len(value)}
	n.lastField = line
	switch f {
	case fieldStatus:
		n.word = value
	case fieldPriority:
		n.Priority = plain(value)
	case fieldAfter:
		n.After = splitList(value)
	case fieldAgent:
		n.Agent = plain(value)
	case fieldCheck:
		n.Check = plain(value)
	case fieldResult:
		n.Result = value
	}
}

// value is a field's value as one text.
func (n *node) value(f int) string {
	switch f {
	case fieldStatus:
		return string(n.Status)
	case fieldPriority:
		return n.Priority
	case fieldAfter:
		return strings.Join(n.After, ", ")
	case fieldAgent:
		return n.Agent
	case fieldCheck:
		return n.Check
	}
	return n.Result
}

// plain takes off a code span or emphasis around a whole value.
func plain(s string) string {
	for _, m := range []string{"`", "**", "*", "_"} {
		if len(s) > 2*len(m) && strings.HasPrefix(s, m) && strings.HasSuffix(s, m) {
			return strings.TrimSpace(s[len(m) : len(s)-len(m)])
		}
	}
	return s
}

// splitList reads the ids of a dependency list; remarks in parentheses and
// words for "none" are no ids.
func splitList(s string) []string {
	var ids []string
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",;，、；", r) }) {
		if part = strings.TrimSpace(part); plainID(part) {
			ids = append(ids, part)
			continue
		}
		part, _, _ = strings.Cut(part, "(")
		part = strings.Trim(plain(strings.TrimSpace(part)), "[]` ")
		switch strings.ToLower(part) {
		case "", "none", "-", "–", "—", "n/a", "无", "nothing":
			continue
		}
		ids = append(ids, part)
	}
	return ids
}

// conflictKey begins what stands in a bullet that keeps Ralph's side of a
// conflict.
const conflictKey = "conflict: Ralph has "
