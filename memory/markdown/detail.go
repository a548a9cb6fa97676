package markdown

import (
	"slices"
	"strings"
)

// What a task says beside its fields is read when it is asked for, and never
// written: its kind, its epic, its labels, and the text below it.

// detailKey returns the detail that a key names, or "".
func detailKey(key string) string {
	if len(key) > 20 {
		return ""
	}
	switch strings.ToLower(key) {
	case "labels", "label", "tags", "标签":
		return "labels"
	case "epic", "parent":
		return "epic"
	case "kind", "type":
		return "kind"
	case "description", "描述":
		return "description"
	}
	return ""
}

// describe reads a task's details once for each state of its lines.
func (d *Document) describe(n *node) {
	if n.described == n.size {
		return
	}
	n.described = n.size
	n.Description, n.Labels, n.Epic, n.Kind = "", nil, n.epic, ""
	if !n.roomy() || n.size < 2 {
		return
	}
	start := d.start(n)
	var text []string
	skip := -1 // width of a step whose lines are passed over
	for rel := 1; rel < n.size && start+rel < d.lines.n; rel++ {
		l := d.lines.at(start + rel)
		if n.fieldOn(rel) || l.kind == lineComment || rel == 1 && n.kind == nodeHeading && n.lastField > 0 && isUnderline(l) {
			continue
		}
		width, body := indent(l.text)
		if skip >= 0 && (body == "" || width > skip) {
			continue
		}
		if l.kind == lineText && body != "" {
			skip = -1
			bullet, rest := cutBullet(body)
			if _, _, box := cutBox(rest); bullet != "" && box {
				skip = width
				continue
			}
			if strings.HasPrefix(rest, conflictKey) || d.detail(n, rest, &text) {
				continue
			}
		}
		text = append(text, l.text)
	}
	if len(text) > 0 {
		n.Description = strings.Join(squeeze(dedent(dropEmptyHeadings(text))), "\n")
	}
}

// fieldOn reports whether a line holds a field of the task.
func (n *node) fieldOn(rel int) bool {
	for f := range n.fields {
		if n.fields[f].line == rel && !n.fields[f].none() {
			return true
		}
	}
	return false
}

// detail takes a line that is a detail. The first of a kind counts.
func (d *Document) detail(n *node, rest string, text *[]string) bool {
	key, from, ok := cutKey(rest)
	if !ok {
		return false
	}
	value := strings.TrimSpace(rest[from:])
	switch detailKey(key) {
	case "labels":
		if n.Labels != nil || value == "" {
			return false
		}
		n.Labels = splitList(value)
	case "epic":
		if n.Epic != n.epic || value == "" {
			return false
		}
		n.Epic = ""
		if ids := splitList(value); len(ids) > 0 {
			n.Epic = ids[0]
		}
	case "kind":
		word := strings.ToLower(plain(value))
		if n.Kind != "" || !slices.Contains([]string{"task", "bug", "feature", "chore", "epic"}, word) {
			return false
		}
		n.Kind = word
	case "description":
		if value != "" {
			*text = append(*text, value)
		}
	default:
		return false
	}
	return true
}

// dropEmptyHeadings leaves out headings that have nothing below them, since
// their boxes are steps.
func dropEmptyHeadings(text []string) []string {
	out := text[:0:0]
	for i, t := range text {
		if level, _ := heading(t); level > 0 {
			k := i + 1
			for k < len(text) && strings.TrimSpace(text[k]) == "" {
				k++
			}
			if k == len(text) {
				continue
			}
			if next, _ := heading(text[k]); next > 0 && next <= level {
				continue
			}
		}
		out = append(out, t)
	}
	return out
}

// dedent takes off the blanks that all lines begin with.
func dedent(text []string) []string {
	least := -1
	for _, t := range text {
		if body := strings.TrimLeft(t, " \t"); body != "" && (least < 0 || len(t)-len(body) < least) {
			least = len(t) - len(body)
		}
	}
	for i, t := range text {
		text[i] = strings.TrimRight(t[min(max(least, 0), len(t)):], " \t")
	}
	return text
}

// squeeze takes off blank lines at both ends, and joins those in a row.
func squeeze(text []string) []string {
	out := text[:0]
	for _, t := range text {
		if t == "" && (len(out) == 0 || out[len(out)-1] == "") {
			continue
		}
		out = append(out, t)
	}
	if n := len(out); n > 0 && out[n-1] == "" {
		out = out[:n-1]
	}
	return out
}
