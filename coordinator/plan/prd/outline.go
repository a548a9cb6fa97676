package prd

import (
	"fmt"
	"strings"
)

// identified finds the headings, and the items of lists that are stories, in order.
func (p *parser) identified() (order []int) {
	items := map[int]heading{}
	for i, l := range p.lines {
		if p.classes[i] != classText {
			continue
		}
		h := readHeading(l)
		if h.level == 0 && i+1 < len(p.lines) && p.classes[i+1] == classText {
			if h.level = underlined(p.before(i), l, p.lines[i+1]); h.level > 0 {
				h.text, h.prio, p.lines[i+1] = strings.TrimSpace(l), -1, ""
			}
		}
		switch {
		case h.level > 0:
			h.identify(storyPrefix)
			p.headings[i] = h
			if h.id != "" {
				p.prefixes[prefixOf(h.id)] = true
			}
		default:
			if h = readItem(l); h.level > 0 {
				if h.identify(storyPrefix); h.id != "" && storyPrefix(prefixOf(h.id)) {
					items[i] = h
				}
			}
		}
	}
	p.listed(items)
	stories := false
	for _, h := range p.headings {
		stories = stories || storyPrefix(prefixOf(h.id))
	}
	var other []string
	for i := range p.lines {
		h, ok := p.headings[i]
		if !ok {
			continue
		}
		if h.id == "" {
			h.identify(func(prefix string) bool { return p.prefixes[prefix] })
		}
		if stories && h.id != "" && !storyPrefix(prefixOf(h.id)) {
			if other = append(other, h.id); len(other) == 1 {
				defer func(at int) {
					p.warn(at, "%s text of the section, as others have ids of stories (US, STORY, EPIC, FEATURE, TASK, T, BUG)", headingsText(other))
				}(i)
			}
			h.id = ""
		}
		p.headings[i] = h
		order = append(order, i)
	}
	return order
}

// headingsText names headings, the first twenty of them.
func headingsText(ids []string) string {
	if len(ids) == 1 {
		return "the heading " + ids[0] + " is"
	}
	text := strings.Join(ids[:min(len(ids), 20)], ", ")
	if n := len(ids) - 20; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return "the headings " + text + " are"
}

// before is the line before line i.
func (p *parser) before(i int) string {
	if i == 0 {
		return ""
	}
	return p.lines[i-1]
}

// listed takes the items of lists that are stories: those whose id no heading has, and
// that stand below no other story but one that groups them. What names an id once more
// refers to it.
func (p *parser) listed(items map[int]heading) {
	seen := map[string]bool{}
	for _, h := range p.headings {
		seen[strings.ToUpper(h.id)] = true
	}
	within := heading{}
	for i := range p.lines {
		if h, ok := p.headings[i]; ok {
			if h.id != "" && (storyPrefix(prefixOf(h.id)) || within.id == "" || h.level <= within.level) || h.level <= within.level {
				within = h
			}
			continue
		}
		h, ok := items[i]
		switch key := strings.ToUpper(h.id); {
		case !ok || seen[key]:
		case grouping(within.id, h.id):
			seen[key] = true
			p.headings[i] = h
		default:
			p.warn(i, "%s is no story but part of %s, below which it stands", h.id, within.id)
		}
	}
}

// grouping reports whether an item with an id can be a story below a heading.
func grouping(above, id string) bool {
	switch prefix := prefixOf(above); {
	case above == "" || !storyPrefix(prefix):
		return true
	case prefix == "EPIC" || prefix == "FEATURE":
		return prefixOf(id) != prefix
	}
	return false
}

// outline finds the headings and which of them have ids.
func (p *parser) outline() {
	order := p.identified()
	var open []struct{ level, story int }
	var plains []int // headings without ids that the next story may stand under
	for _, i := range order {
		h := p.headings[i]
		for len(plains) > 0 && p.headings[plains[len(plains)-1]].level > h.level {
			plains = plains[:len(plains)-1]
		}
		if n := len(plains); n > 0 && h.id == "" && p.headings[plains[n-1]].level == h.level {
			plains = plains[:n-1]
		}
		if h.id != "" && !h.item && (h.level < 2 || h.level > 4) {
			p.warn(i, "%s is no story: its heading has level %d, and stories have 2 to 4", h.id, h.level)
			h.id = ""
		}
		p.headings[i] = h
		for len(open) > 0 && open[len(open)-1].level >= h.level {
			open = open[:len(open)-1]
		}
		if h.id == "" {
			plains = append(plains, i)
			continue
		}
		for _, at := range plains {
			p.groups[at] = true
		}
		plains = nil
		parent := -1
		if len(open) > 0 {
			parent = open[len(open)-1].story
			p.nested[parent] = true
		}
		open = append(open, struct{ level, story int }{h.level, len(p.parents)})
		p.parents = append(p.parents, parent)
		p.nested = append(p.nested, false)
	}
}
