// Package render turns events into text for a terminal: Markdown block by
// block as it streams, one line per tool call, and everything that came from a
// model, a tool or a file made safe first.
//
// It owns the look of the chat: colours, widths, words for progress. It refuses
// to read or write the terminal: it returns text, whole lines that end in a
// newline, and knows nothing of cursors. The theme is chosen from settings and
// environment; no terminal is ever asked for its colours.
//
//	r := render.New(render.Options{Width: 80, Theme: render.ThemeDark})
//	out := r.Event(e)        // print this above the prompt
//	live := r.Tail(3)        // show this until the block is complete
package render

import (
	"strconv"
	"strings"
)

// Theme is a set of colours.
type Theme int

// The themes.
const (
	// ThemeNone has no colours at all.
	ThemeNone Theme = iota
	// ThemeDark is for light text on a dark ground.
	ThemeDark
	// ThemeLight is for dark text on a light ground.
	ThemeLight
	// ThemeBoth is for a ground that nobody knows: what it writes can be read on
	// black and on white.
	ThemeBoth
)

// Options says how a Renderer writes.
type Options struct {
	// Width of the terminal in columns; 0 means 80.
	Width int
	Theme Theme
	// ASCII keeps Ralph's own marks to ASCII.
	ASCII bool
	// Raw leaves Markdown as it is: for pipes and screen readers.
	Raw bool
}

// PickTheme chooses the theme from the setting ("dark", "light", "none", or
// "auto" and "" for a guess) and the environment: NO_COLOR and a TERM without
// colours turn them off, COLORFGBG tells light from dark. terminal says whether the
// output is one; without it there are no colours.
func PickTheme(setting string, terminal bool, getenv func(string) string) Theme {
	if !terminal || getenv("NO_COLOR") != "" || colourless(getenv("TERM")) {
		return ThemeNone
	}
	switch setting {
	case "none":
		return ThemeNone
	case "light":
		return ThemeLight
	case "dark":
		return ThemeDark
	}
	fields := strings.Split(getenv("COLORFGBG"), ";")
	ground, err := strconv.Atoi(fields[len(fields)-1])
	switch {
	case err != nil:
		return ThemeBoth
	case ground == 7 || ground >= 9 && ground <= 15:
		return ThemeLight
	}
	return ThemeDark
}

// colourless says that a kind of terminal has no colours.
func colourless(kind string) bool {
	return kind == "dumb" || len(kind) > 2 && strings.HasPrefix(kind, "vt") && kind[2] <= '9' ||
		strings.HasSuffix(kind, "-m") || strings.HasSuffix(kind, "-mono")
}

// PickASCII reports whether the locale of the environment cannot show Unicode.
func PickASCII(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return !strings.Contains(v, "utf-8") && !strings.Contains(v, "utf8")
		}
	}
	return false
}
