package render

import (
	"strings"

	"github.com/charmbracelet/glamour"
	"github.com/charmbracelet/glamour/ansi"
	"github.com/muesli/termenv"
)

const (
	// maxBlockBytes bounds a block that is rendered; a longer one is shown raw.
	maxBlockBytes = 64 << 10
	// maxColumns bounds a table that is rendered; a wider one is unreadable as
	// a table and slow to lay out.
	maxColumns = 24
	// minColumn is the narrowest column, with its margins, in which a cell can
	// be read; a table with more columns than have room is shown raw.
	minColumn = 7
	// maxDepth bounds nesting, which costs the renderer more than it shows.
	maxDepth = 40
)

// markdown renders safe text by glamour. Not safe for concurrent use.
type markdown struct {
	theme Theme
	ascii bool
	width int
	term  *glamour.TermRenderer // built at the first block
}

// render returns the block as rows without blank ones around it.
func (m *markdown) render(block string) string {
	block = strings.TrimRight(block, " \t\n")
	for strings.HasPrefix(block, "\n") {
		block = block[1:]
	}
	if block == "" || len(block) > maxBlockBytes || tooWide(block) || tooDeep(block) {
		return block
	}
	term, err := m.renderer(block)
	if err != nil || term == nil {
		return block
	}
	_, code := openFence(strings.TrimSpace(firstLine(block)))
	if !code {
		block = hideMarkup(joinItems(block))
	}
	out, err := term.Render(block)
	if err != nil {
		return block
	}
	return trimRows(keepColours(out), !code)
}

// renderer returns what renders a block, nil for a table that does not fit.
// glamour makes every table as wide as the page, so that a small one gets a page
// of its own.
func (m *markdown) renderer(block string) (*glamour.TermRenderer, error) {
	if cols, width := tableSize(block); cols > 0 {
		if width < m.width {
			return glamour.NewTermRenderer(options(m.theme, m.ascii, width)...)
		}
		if cols*minColumn > m.width {
			return nil, nil
		}
	}
	if m.term == nil {
		t, err := glamour.NewTermRenderer(options(m.theme, m.ascii, m.width)...)
		if err != nil {
			return nil, err
		}
		m.term = t
	}
	return m.term, nil
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

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// joinItems ties the paragraphs of a list item together with hard line breaks:
// glamour would set them without any space between.
func joinItems(block string) string {
	if !isItem(strings.TrimSpace(firstLine(block))) || !strings.Contains(block, "\n\n") {
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
func (m *markdown) resize(width int) {
	if width != m.width {
		m.width, m.term = width, nil
	}
}

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
func trimRows(text string, squeeze bool) string {
	var rows []string
	for row := range strings.SplitSeq(text, "\n") {
		row = trimRow(row)
		if squeeze && bare(row) == "" && len(rows) > 0 && bare(rows[len(rows)-1]) == "" {
			continue
		}
		rows = append(rows, row)
	}
	for len(rows) > 0 && bare(rows[0]) == "" {
		rows = rows[1:]
	}
	for len(rows) > 0 && bare(rows[len(rows)-1]) == "" {
		rows = rows[:len(rows)-1]
	}
	return strings.Join(rows, "\n")
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

func profile(t Theme) termenv.Profile {
	if t == ThemeNone {
		return termenv.Ascii
	}
	return termenv.ANSI256
}

// palette is the colours of one theme, as 256-colour numbers, and the name of
// chroma's style for code. glamour's own way to colour code registers one style
// for the whole process, so that a second theme would get the first one's.
type palette struct{ heading, code, link, quote, syntax string }

func colours(t Theme) palette {
	switch t {
	case ThemeLight:
		return palette{heading: "26", code: "88", link: "25", quote: "241", syntax: "github"}
	case ThemeDark:
		return palette{heading: "39", code: "209", link: "75", quote: "245", syntax: "github-dark"}
	}
	return palette{syntax: "bw"}
}

// style builds the look of a theme. Document has neither colour nor margin:
// either makes glamour write a colour sequence for every cell of padding.
func style(t Theme, ascii bool) ansi.StyleConfig {
	plain := t == ThemeNone
	c := colours(t)
	colour := func(name string) *string {
		if plain {
			return nil
		}
		return &name
	}
	yes := func() *bool {
		v := !plain
		return &v
	}
	mark := func(s string) string {
		if plain {
			return s
		}
		return ""
	}
	bullet, bar, tick, rule := "• ", "│ ", "✓", "────────"
	if ascii {
		bullet, bar, tick, rule = "* ", "| ", "x", "--------"
	}
	two, one := uint(2), uint(1)
	heading := func(prefix string) ansi.StyleBlock {
		return ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Prefix: prefix}}
	}
	cfg := ansi.StyleConfig{
		BlockQuote:     ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: colour(c.quote)}, Indent: &one, IndentToken: &bar},
		List:           ansi.StyleList{LevelIndent: two},
		Heading:        ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: colour(c.heading), Bold: yes()}},
		H1:             heading("# "),
		H2:             heading("## "),
		H3:             heading("### "),
		H4:             heading("#### "),
		H5:             heading("##### "),
		H6:             heading("###### "),
		Strikethrough:  ansi.StylePrimitive{CrossedOut: yes(), BlockPrefix: mark("~~"), BlockSuffix: mark("~~")},
		Emph:           ansi.StylePrimitive{Italic: yes(), BlockPrefix: mark("*"), BlockSuffix: mark("*")},
		Strong:         ansi.StylePrimitive{Bold: yes(), BlockPrefix: mark("**"), BlockSuffix: mark("**")},
		HorizontalRule: ansi.StylePrimitive{Color: colour(c.quote), Format: "\n" + rule + "\n"},
		Item:           ansi.StylePrimitive{BlockPrefix: bullet},
		Enumeration:    ansi.StylePrimitive{BlockPrefix: ". "},
		Task:           ansi.StyleTask{Ticked: "[" + tick + "] ", Unticked: "[ ] "},
		Link:           ansi.StylePrimitive{Color: colour(c.link), Underline: yes()},
		LinkText:       ansi.StylePrimitive{Color: colour(c.link), Bold: yes()},
		Image:          ansi.StylePrimitive{Color: colour(c.link), Underline: yes()},
		ImageText:      ansi.StylePrimitive{Color: colour(c.link), Format: "{{.text}}"},
		Code:           ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: colour(c.code), Prefix: mark("`"), Suffix: mark("`")}},
		CodeBlock: ansi.StyleCodeBlock{
			StyleBlock: ansi.StyleBlock{Indent: &two},
			Theme:      c.syntax,
		},
		DefinitionDescription: ansi.StylePrimitive{BlockPrefix: "\n  "},
	}
	if ascii {
		cross, row, col := "+", "-", "|"
		cfg.Table = ansi.StyleTable{CenterSeparator: &cross, RowSeparator: &row, ColumnSeparator: &col}
	}
	return cfg
}
