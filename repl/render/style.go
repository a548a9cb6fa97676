package render

import (
	"github.com/charmbracelet/glamour/ansi"
	"github.com/muesli/termenv"
)

func profile(t Theme) termenv.Profile {
	if t == ThemeNone {
		return termenv.Ascii
	}
	return termenv.ANSI256
}

// palette is the colours of one theme, as 256-colour numbers, and the name of
// chroma's style for code. glamour's own way to colour code registers one style
// for the whole process, so that a second theme would get the first one's. plain is
// the colour that style gives to what has none, which is left to the terminal.
type palette struct{ heading, code, link, quote, syntax, plain string }

func colours(t Theme) palette {
	switch t {
	case ThemeLight:
		return palette{heading: "26", code: "88", link: "25", quote: "241", syntax: "github", plain: "235"}
	case ThemeDark:
		return palette{heading: "39", code: "209", link: "75", quote: "245", syntax: "github-dark", plain: "255"}
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
	text := string(itemMark)
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
		Item:           ansi.StylePrimitive{BlockPrefix: bullet + text},
		Enumeration:    ansi.StylePrimitive{BlockPrefix: ". " + text},
		Task:           ansi.StyleTask{Ticked: "[" + tick + "] " + text, Unticked: "[ ] " + text},
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
