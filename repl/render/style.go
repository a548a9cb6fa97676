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
	case ThemeBoth:
		return palette{heading: "31", code: "130", link: "31", quote: "243", syntax: "average", plain: "243"}
	}
	return palette{syntax: "bw"}
}

// basic is the colour of a theme for one of the eight that every terminal has. Those
// are made for a dark ground: yellow, cyan and green can't be read on white.
func basic(t Theme, colour string) string {
	light, both := colour, colour
	switch colour {
	case "31":
		light, both = "38;5;124", "38;5;160"
	case "32":
		light, both = "38;5;28", "38;5;28"
	case "33":
		light, both = "38;5;94", "38;5;130"
	case "36":
		light, both = "38;5;24", "38;5;30"
	}
	switch t {
	case ThemeLight:
		return light
	case ThemeBoth:
		return both
	}
	return colour
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
