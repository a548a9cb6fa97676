package prd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Parse reads a PRD. It takes any bytes; what is in the document and in none of
// its forms is left out and told, one warning for each line, in order. Nothing
// inside a code fence or a comment is taken for a heading, a label or a list:
// code goes into the description that it stands in.
func Parse(md []byte) (Document, []Warning) {
	p := &parser{lines: split(md), prefixes: map[string]bool{}, groups: map[int]bool{}, pending: -1}
	p.classify()
	p.outline()
	for i := range p.lines {
		p.line(i)
	}
	p.closeStory()
	p.doc.Description = joined(p.description)
	p.arrange()
	slices.SortStableFunc(p.warnings, func(a, b Warning) int { return cmp.Compare(a.Line, b.Line) })
	return p.doc, p.warnings
}

// split cuts a document into lines without their ends.
func split(md []byte) []string {
	text := strings.ToValidUTF8(strings.TrimPrefix(string(md), "\ufeff"), "\ufffd")
	text = strings.NewReplacer("\r\n", "\n", "\x00", "\ufffd").Replace(text)
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	return lines
}

// class says what a line is whatever stands before it.
type class uint8

const (
	classText class = iota
	classCode
	classComment
	classMatter // front matter
)

// area is what lines outside of stories belong to.
type area int

const (
	areaIntro area = iota
	areaAbout      // a section that goes into the description
	areaGates
	areaOther // its lines are left out
)

type parser struct {
	lines    []string
	classes  []class
	headings map[int]heading // by index of the line
	groups   map[int]bool    // headings without ids that stories follow, by index
	prefixes map[string]bool // of ids that a mark follows
	lastEnd  int             // the last line on which a comment ends, or -1
	parents  []int           // of each story, the index of the one that it stands under, or -1
	nested   []bool          // of each story: others stand under it

	doc         Document
	description []string
	warnings    []Warning

	area    area
	areaTop int // level of the heading that began the area
	pending int // index of a heading that is left out with its first line, or -1

	in    bool // in a story: the last of doc.Stories
	level int  // of its heading
	mode  part
	text  storyText
}

// storyText gathers what a story says.
type storyText struct {
	description, notes []string
	criteria           []Criterion
	lines              [][]string // the lines of each criterion
	boxed              []bool     // the criterion has a box
	indents            []int      // and how far in it stands
	loose              [][]string // what stands among the criteria and is none, by paragraphs
	gap                bool       // a blank line came before
	aside              bool       // the line before was among them
}

func (p *parser) warn(i int, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{Line: i + 1, Text: fmt.Sprintf(format, args...)})
}

// skip leaves a line out, and says so.
func (p *parser) skip(i int) {
	if p.pending >= 0 && p.pending < i {
		at := p.pending
		p.pending = -1
		p.skip(at)
	}
	p.warn(i, "skipped: %s", excerpt(p.lines[i]))
}

// excerpt is a line, short enough for a message.
func excerpt(s string) string {
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) <= 60 {
		return s
	}
	return string([]rune(s)[:59]) + "…"
}

// classify finds code fences, comments and front matter.
func (p *parser) classify() {
	p.classes = make([]class, len(p.lines))
	p.headings = map[int]heading{}
	i := p.matter()
	fence, from := "", 0
	p.lastEnd = -1
	for j, l := range p.lines {
		if strings.Contains(l, "-->") {
			p.lastEnd = j
		}
	}
	for ; i < len(p.lines); i++ {
		s := strings.TrimSpace(p.lines[i])
		switch {
		case fence != "":
			p.classes[i] = classCode
			if closes(s, fence) {
				fence = ""
			}
		case opensFence(s) != "":
			fence, from = opensFence(s), i
			p.classes[i] = classCode
		case strings.HasPrefix(s, "<!--"):
			i = p.comment(i)
		}
	}
	if fence != "" {
		p.warn(from, "the code fence is never closed: the rest of the document counts as code")
	}
}

// matter marks front matter and returns the line behind it.
func (p *parser) matter() int {
	if len(p.lines) == 0 || p.lines[0] != "---" {
		return 0
	}
	for i := 1; i < min(len(p.lines), 200); i++ {
		if p.lines[i] == "---" || p.lines[i] == "..." {
			for j := range i + 1 {
				p.classes[j] = classMatter
			}
			return i + 1
		}
		if p.lines[i] != "" && !strings.Contains(p.lines[i], ":") && !strings.HasPrefix(strings.TrimSpace(p.lines[i]), "-") {
			return 0 // a rule, and text behind it
		}
	}
	return 0
}

// comment marks the lines of an HTML comment and returns its last. One that is
// never closed ends with its line.
func (p *parser) comment(i int) int {
	for j := i; j <= p.lastEnd; j++ {
		if strings.Contains(p.lines[j], "-->") {
			for k := i; k <= j; k++ {
				p.classes[k] = classComment
			}
			return j
		}
	}
	p.classes[i] = classComment
	return i
}

// opensFence returns the bar of a fence that s begins, or "".
func opensFence(s string) string {
	if item, _, ok := cutItem(s); ok {
		s = item
	}
	for _, mark := range []string{"`", "~"} {
		n := len(s) - len(strings.TrimLeft(s, mark))
		if n >= 3 && (mark == "~" || !strings.Contains(s[n:], "`")) {
			return s[:n]
		}
	}
	return ""
}

func closes(s, fence string) bool {
	return len(s) >= len(fence) && strings.Trim(s, fence[:1]) == ""
}

// line takes one line.
func (p *parser) line(i int) {
	h, isHeading := p.headings[i]
	switch {
	case p.classes[i] == classMatter:
		p.matterLine(i)
	case p.classes[i] == classComment:
		if strings.TrimSpace(p.lines[i]) != "" {
			p.skip(i)
		}
	case isHeading && h.id != "":
		p.openStory(i, h)
	case isHeading:
		p.heading(i, h)
	case p.in && p.level == itemLevel && p.leaves(i):
		p.closeStory()
		p.outside(i)
	case p.in:
		p.storyLine(i)
	default:
		p.outside(i)
	}
}

// leaves reports whether a line stands behind a story that is an item of a list: it is
// not indented, and neither goes on with a paragraph nor is a label.
func (p *parser) leaves(i int) bool {
	l := p.lines[i]
	if l == "" || p.classes[i] != classText || indentOf(l) > 0 {
		return false
	}
	_, _, item := cutItem(l)
	label, _ := readLabel(l)
	return item && (label == partNone || label == partOther) || !item && p.text.gap
}

func (p *parser) matterLine(i int) {
	key, value, ok := strings.Cut(p.lines[i], ":")
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	switch strings.ToLower(strings.TrimSpace(key)) {
	case "title", "name", "project":
		p.doc.Name = cmp.Or(p.doc.Name, value)
	case "branch", "branchname", "branch_name":
		p.doc.Branch = cmp.Or(p.doc.Branch, value)
	case "description", "summary":
		p.description = append(p.description, value)
	default:
		if ok || p.lines[i] != "---" && p.lines[i] != "..." && p.lines[i] != "" {
			p.skip(i)
		}
	}
}

// heading takes a heading without an id.
func (p *parser) heading(i int, h heading) {
	title := plain(strings.TrimRight(h.text, ":"))
	if p.in && (h.level > p.level || h.level == p.level && inStory(partOf(title))) {
		p.partHeading(i, title)
		return
	}
	p.closeStory()
	if _, _, ok := cutBox(h.text); ok {
		p.skip(i) // a task without an id
	}
	if h.level == 1 && p.doc.Name == "" && len(p.doc.Stories) == 0 {
		p.doc.Name = documentName(title)
		p.area, p.areaTop = areaIntro, 1
		return
	}
	if p.area != areaIntro && h.level > p.areaTop {
		if p.area == areaAbout {
			p.description = append(p.description, "", p.lines[i], "")
		}
		if p.area == areaOther && !p.groups[i] {
			p.pending = i
		}
		return
	}
	p.area, p.areaTop, p.pending = areaOf(title), h.level, -1
	switch p.area {
	case areaAbout:
		if partOf(title) != partDescription && !introduces(title) {
			p.description = append(p.description, "", p.lines[i], "")
		} else {
			p.description = append(p.description, "")
		}
	case areaOther:
		if !p.groups[i] {
			p.pending = i
		}
	}
}

// inStory says that a label is of a story's own, and not of the document.
func inStory(t part) bool { return t == partCriteria || t == partAfter || t == partPriority }

// documentName is the title without what only says that it is a PRD.
func documentName(title string) string {
	for _, word := range []string{"PRD:", "PRD -", "PRD –", "PRD —", "Product Requirements Document:", "Product Requirements Document -"} {
		if len(title) > len(word) && strings.EqualFold(title[:len(word)], word) {
			return strings.TrimSpace(title[len(word):])
		}
	}
	return title
}

func introduces(title string) bool {
	switch strings.ToLower(title) {
	case "introduction", "intro", "overview", "summary", "executive summary", "about", "description":
		return true
	}
	return false
}

// areaOf says what becomes of a section of the document by its title.
func areaOf(title string) area {
	title = strings.ToLower(strings.TrimLeft(title, "0123456789.) "))
	if introduces(title) {
		return areaAbout
	}
	switch title {
	case "quality gates", "quality gate", "quality checks", "checks":
		return areaGates
	case "goals", "objectives", "non-goals", "non goals", "out of scope", "scope", "background", "context", "problem", "problem statement", "constraints", "assumptions",
		"technical considerations", "technical notes", "technical constraints", "design considerations", "design", "architecture", "success metrics", "success criteria", "open questions", "introduction/overview", "vision":
		return areaAbout
	}
	return areaOther
}

// outside takes a line that is in no story.
func (p *parser) outside(i int) {
	l := p.lines[i]
	s := strings.TrimSpace(l)
	if p.classes[i] == classCode {
		if p.area == areaOther || p.area == areaGates {
			p.skip(i)
		} else {
			p.description = append(p.description, l)
		}
		return
	}
	if s == "" || isRule(s) {
		if p.area <= areaAbout {
			p.description = append(p.description, "")
		}
		return
	}
	if t, value := readLabel(s); t == partBranch && p.doc.Branch == "" && value != "" {
		p.doc.Branch, _ = command(value)
		p.doc.Branch = plain(p.doc.Branch)
		return
	} else if p.area == areaIntro && t != partNone && t != partDescription && t != partNotes {
		p.skip(i) // "**Author:** …", "**Status:** draft"
		return
	} else if p.area == areaIntro && t == partDescription {
		p.description = append(p.description, value)
		return
	}
	switch {
	case p.area == areaIntro && strings.HasPrefix(s, ">") && strings.Contains(s, ":"):
		p.skip(i) // "> Generated: …"
	case p.area <= areaAbout:
		p.description = append(p.description, l)
	case p.area == areaGates:
		p.gate(i, s)
	default:
		p.skip(i)
	}
}

// gate takes a line of the section of quality gates.
func (p *parser) gate(i int, s string) {
	item, _, ok := cutItem(s)
	if !ok {
		item = s
	}
	_, item, _ = cutBox(item)
	if cmd, marked := command(item); marked && cmd != "" {
		p.doc.Gates = append(p.doc.Gates, Gate{Name: plain(strings.ReplaceAll(item, "`", "")), Check: cmd, Line: i + 1})
		return
	}
	p.skip(i)
}

// isRule says that a line is a thematic break.
func isRule(s string) bool {
	bare := strings.ReplaceAll(s, " ", "")
	return len(bare) >= 3 && strings.Trim(bare, bare[:1]) == "" && strings.Contains("-*_", bare[:1])
}

// joined is a text without blank lines at its ends, and at most one between.
func joined(lines []string) string {
	var out []string
	for _, l := range lines {
		if l == "" && (len(out) == 0 || out[len(out)-1] == "") {
			continue
		}
		out = append(out, l)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}
