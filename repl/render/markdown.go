package render

import (
	"slices"
	"strconv"
	"strings"

	"ralph/memory/text"

	"github.com/charmbracelet/glamour"
)

const (
	// maxBlockBytes bounds a block that is rendered; a longer one is shown raw.
	maxBlockBytes = 64 << 10
	// maxUnbroken bounds a row that is shown as it was written.
	maxUnbroken = 2 << 10
	// maxColumns bounds a table that is rendered; a wider one is unreadable as
	// a table and slow to lay out.
	maxColumns = 24
	// minColumn is the narrowest column, with its margins, in which a cell can
	// be read; a table with more columns than have room is shown raw.
	minColumn = 7
	// maxDepth bounds nesting, which costs the renderer more than it shows.
	maxDepth = 40
)

// markdown renders safe text by glamour, which is told of no width: it would pad
// each row to it, and begin every row of an item or a quote but the first at the
// margin. Its rows are broken here. Not safe for concurrent use.
type markdown struct {
	theme Theme
	ascii bool
	width int
	term  *glamour.TermRenderer // built at the first block
	code  *glamour.TermRenderer // without what only text needs
}

// render returns the block as rows without blank ones around it, "" when there is
// nothing to see.
func (m *markdown) render(b Block) string {
	if b.code != nil {
		return m.fenced(b)
	}
	block := strings.TrimRight(b.Text, " \t\n")
	for strings.HasPrefix(block, "\n") {
		block = block[1:]
	}
	if block == "" {
		return ""
	}
	if b.margin > 0 {
		block = dedented(block, b.margin)
	}
	rows := m.rows(block, b.number)
	return margined(rows, b.margin)
}

// rows renders a block that begins at the margin; number is what its first item
// counts.
func (m *markdown) rows(block string, number int) []string {
	if len(block) > maxBlockBytes || tooWide(block) || tooDeep(block) {
		return m.unrendered(block)
	}
	if cols, width := tableSize(block); cols > 1 && width > m.width && m.width > 0 {
		if narrow, ok := narrowed(block, m.width); ok {
			block = narrow
		}
	}
	term, fits, err := m.renderer(block)
	if err != nil || term == nil {
		return m.unrendered(block)
	}
	out, err := term.Render(hideMarkup(joinItems(block)))
	if err != nil {
		return m.unrendered(block)
	}
	if m.theme == ThemeNone {
		out = strings.ReplaceAll(out, "****", "") // the end of a mark and the next one's beginning
	}
	rows := trimRows(keepColours(out, ""), true)
	if fits {
		rows = m.lay(rows, number)
	}
	return rows
}

// unrendered is the rows of a block as they were written. One is broken only where
// it is longer than a person copies, so that the prompt is never gone behind it.
func (m *markdown) unrendered(block string) []string {
	rows := strings.Split(block, "\n")
	if m.width <= 0 || !slices.ContainsFunc(rows, func(row string) bool { return len(row) > maxUnbroken }) {
		return rows
	}
	var out []string
	for _, row := range rows {
		if len(row) <= maxUnbroken {
			out = append(out, row)
			continue
		}
		out = append(out, wrap(row, m.width, 0)...)
	}
	return out
}

// fenced renders a part of a fence, each line on its own row, unbroken, so that it
// can be copied.
func (m *markdown) fenced(b Block) string {
	c, code, skip := b.code, b.code.body, 0
	if c.inside != "" {
		code, skip = c.inside+"\n"+code, 1
	}
	if c.outside != "" {
		code += c.outside + "\n"
	}
	rows, ok := m.highlight(c.lang, code)
	if n := strings.Count(code, "\n"); ok && n == len(rows) {
		rows = rows[skip : skip+strings.Count(c.body, "\n")]
	} else {
		rows = nil
		for line := range strings.Lines(c.body) {
			rows = append(rows, strings.TrimRight(codeIndent+line, " \t\n"))
		}
	}
	if c.first {
		rows = rows[blankRows(rows):]
	}
	for c.last && len(rows) > 0 && bare(rows[len(rows)-1]) == "" {
		rows = rows[:len(rows)-1]
	}
	return margined(rows, b.margin)
}

// highlight colours code and sets it in; ok says that it could.
func (m *markdown) highlight(lang, code string) (rows []string, ok bool) {
	if len(code) > maxBlockBytes || m.theme == ThemeNone || lang == "" {
		return nil, false
	}
	if m.code == nil {
		term, err := glamour.NewTermRenderer(options(m.theme, m.ascii, 0)...)
		if err != nil {
			return nil, false
		}
		m.code = term
	}
	fence := strings.Repeat("`", longest(code, '`')+3)
	out, err := m.code.Render(fence + lang + "\n" + code + fence + "\n")
	if err != nil {
		return nil, false
	}
	out = strings.TrimSuffix(strings.TrimPrefix(keepColours(out, "38;5;"+colours(m.theme).plain), "\n"), "\n")
	for row := range strings.SplitSeq(out, "\n") {
		rows = append(rows, trimRow(row))
	}
	return rows, true
}

// longest is the length of the longest run of a byte.
func longest(text string, c byte) (most int) {
	n := 0
	for i := range len(text) {
		if text[i] != c {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}

// codeIndent is what code is set in by.
const codeIndent = "  "

func margined(rows []string, margin int) string {
	if margin > 0 {
		rows = slices.Clone(rows)
		for i, row := range rows {
			if row != "" {
				rows[i] = strings.Repeat(" ", margin) + row
			}
		}
	}
	return strings.Join(rows, "\n")
}

func dedented(block string, n int) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString(dedent(line, n))
	}
	return b.String()
}

// lay breaks rendered rows between words. What an item or a quote goes on with
// begins where its first row began.
func (m *markdown) lay(rows []string, number int) []string {
	type item struct{ at, text int } // the columns of its mark and of its text
	var open []item
	out := make([]string, 0, len(rows))
	for i, row := range rows {
		head, rest, marked := strings.Cut(row, string(itemMark))
		if marked && i == 0 && number >= 0 {
			head = renumbered(head, number)
		}
		lead := leading(row)
		at := columns(lead)
		for len(open) > 0 && (open[len(open)-1].at > at || marked && open[len(open)-1].at == at) {
			open = open[:len(open)-1]
		}
		hang := lead
		switch {
		case marked:
			hang = lead + strings.Repeat(" ", max(columns(head)-at, 0))
			open = append(open, item{at, columns(head)})
			row = head + strings.ReplaceAll(rest, string(itemMark), "")
		case len(open) > 0 && bare(row) != "":
			gap := strings.Repeat(" ", open[len(open)-1].text-open[len(open)-1].at)
			row, hang = gap+row, gap+lead
		}
		if strings.ContainsRune(row, '\t') {
			row = strings.ReplaceAll(row, "\t", "    ")
		}
		out = append(out, wrapBelow(row, m.width, hang)...)
	}
	return out
}

// leading is what stands before the text of a row: blanks and the bars of quotes,
// without colours.
func leading(row string) string {
	var b strings.Builder
	for row != "" {
		n, _ := cell(row)
		part := row[:n]
		if part != " " && part != "│" && part != "|" && colourLength(row) == 0 {
			break
		}
		if colourLength(row) == 0 {
			b.WriteString(part)
		}
		row = row[n:]
	}
	lead := b.String()
	if strings.HasSuffix(lead, "│") || strings.HasSuffix(lead, "|") {
		return strings.TrimRight(lead, "│|") // a row of a table, or a text that begins so
	}
	return lead
}

// renumbered is the head of a first item with another number.
func renumbered(head string, number int) string {
	digits := 0
	for digits < len(head) && head[digits] >= '0' && head[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return head
	}
	return strconv.Itoa(number) + head[digits:]
}

// renderer returns what renders a block, nil for a table that does not fit; fits
// says that its rows are still to be broken. glamour makes a table that is told a
// width as wide as that.
func (m *markdown) renderer(block string) (term *glamour.TermRenderer, fits bool, err error) {
	if cols, width := tableSize(block); cols > 0 && width > m.width {
		if cols*minColumn > m.width {
			return nil, false, nil
		}
		term, err = glamour.NewTermRenderer(options(m.theme, m.ascii, m.width)...)
		return term, false, err
	}
	if m.term == nil {
		if m.term, err = glamour.NewTermRenderer(options(m.theme, m.ascii, 0)...); err != nil {
			return nil, false, err
		}
	}
	return m.term, true, nil
}

// tableSize returns the number of columns of a block that is a table, and the
// width that it needs; 0 for any other block.
func tableSize(block string) (cols, width int) {
	head, rest, _ := strings.Cut(block, "\n")
	rule, _, _ := strings.Cut(rest, "\n")
	if !strings.Contains(head, "|") || !strings.ContainsAny(rule, "|-") || strings.Trim(rule, "|-: \t") != "" {
		return 0, 0
	}
	var widest []int
	for row := range strings.Lines(block) {
		row = strings.Trim(strings.TrimSpace(row), "|")
		if strings.Trim(row, "|-: \t") == "" {
			continue // the rule, or an empty row
		}
		for i, text := range strings.Split(row, "|") {
			if i == len(widest) {
				widest = append(widest, 0)
			}
			widest[i] = max(widest[i], columns(strings.TrimSpace(text)))
		}
	}
	width = len(widest) - 1
	for _, n := range widest {
		width += n + 2
	}
	return len(widest), width
}

func options(t Theme, ascii bool, width int) []glamour.TermRendererOption {
	list := []glamour.TermRendererOption{
		glamour.WithStyles(style(t, ascii)),
		glamour.WithColorProfile(profile(t)),
		glamour.WithWordWrap(width),
		glamour.WithInlineTableLinks(true),
	}
	if t == ThemeNone {
		// Without chroma glamour takes backslashes out of code.
		list = append(list, glamour.WithChromaFormatter("noop"))
	}
	return list
}

// joinItems ties the paragraphs of a list item together with hard line breaks:
// glamour would set them without any space between.
func joinItems(block string) string {
	if !isItem(strings.TrimSpace(text.FirstLine(block))) || !strings.Contains(block, "\n\n") {
		return block
	}
	lines := strings.Split(block, "\n")
	out := lines[:1:1]
	var open fence
	for i := 1; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		f, opens := openFence(trimmed)
		switch {
		case open.mark != 0 && open.closes(trimmed):
			open = fence{}
		case open.mark == 0 && opens:
			open = f
		case open.mark == 0 && trimmed == "" && i+1 < len(lines) && continues(lines[i+1]) && strings.TrimSpace(out[len(out)-1]) != "" && !closesFence(out[len(out)-1]):
			out[len(out)-1] += "  "
			continue
		}
		out = append(out, lines[i])
	}
	return strings.Join(out, "\n")
}

// continues reports whether line is a further paragraph of a list item.
func continues(line string) bool {
	trimmed := strings.TrimSpace(line)
	if trimmed == "" || !strings.HasPrefix(line, "  ") || isItem(trimmed) || isHeading(trimmed) || strings.HasPrefix(trimmed, ">") || strings.HasPrefix(trimmed, "|") {
		return false
	}
	_, opens := openFence(trimmed)
	return !opens
}

func closesFence(line string) bool {
	trimmed := strings.TrimSpace(line)
	return strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")
}

// resize sets the width of the blocks to come.
func (m *markdown) resize(width int) { m.width = width }

func tooWide(block string) bool {
	for row := range strings.Lines(block) {
		if strings.Count(row, "|") > maxColumns+1 {
			return true
		}
	}
	return false
}

// tooDeep counts what could nest: quote marks, list marks and emphasis marks at
// the start of a row, and brackets anywhere.
func tooDeep(block string) bool {
	for row := range strings.Lines(block) {
		depth := (len(row) - len(strings.TrimLeft(row, " \t"))) / 2
		for _, r := range row {
			if r != '>' && r != '-' && r != '*' && r != '+' && r != ' ' && r != '\t' && (r < '0' || r > '9') && r != '.' {
				break
			}
			if r == '>' || r == '-' || r == '+' || r == '.' {
				depth++
			}
		}
		if depth > maxDepth && strings.Trim(row, "-*_ \n") != "" {
			return true
		}
		if strings.Count(row, "[") > 200 || strings.Count(row, "*") > 400 {
			return true
		}
	}
	return false
}

// trimRows takes the padding off the end of each row and blank rows off both
// ends; with squeeze, of several blank rows in a row one is left. Colours that
// end there are kept.
func trimRows(text string, squeeze bool) []string {
	var rows []string
	for row := range strings.SplitSeq(text, "\n") {
		row = trimRow(row)
		if squeeze && bare(row) == "" && len(rows) > 0 && bare(rows[len(rows)-1]) == "" {
			continue
		}
		rows = append(rows, row)
	}
	rows = rows[blankRows(rows):]
	for len(rows) > 0 && bare(rows[len(rows)-1]) == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// blankRows counts the blank rows at the beginning.
func blankRows(rows []string) int {
	n := 0
	for n < len(rows) && bare(rows[n]) == "" {
		n++
	}
	return n
}

// trimRow drops spaces at the end, also those between colour sequences.
func trimRow(row string) string {
	tail := ""
	for {
		trimmed := strings.TrimRight(row, " ")
		i := strings.LastIndex(trimmed, "\x1b[")
		if i < 0 || colourLength(trimmed[i:]) != len(trimmed)-i {
			row = trimmed
			break
		}
		tail = trimmed[i:] + tail
		row = trimmed[:i]
	}
	if strings.HasSuffix(tail, reset) {
		return row + reset
	}
	return row + tail
}

func bare(row string) string {
	for {
		i := strings.Index(row, "\x1b[")
		if i < 0 {
			return row
		}
		n := colourLength(row[i:])
		if n == 0 {
			return row
		}
		row = row[:i] + row[i+n:]
	}
}
