package line

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

// In GNU screen nothing is drawn that it and the terminal around it measure
// differently, and each character keeps its columns.
func TestSimplerCharactersInScreen(t *testing.T) {
	for text, want := range map[string]string{
		"a👨‍👩‍👧‍👦b": "a👨b", "k1️⃣m": "k1 m", "🇩🇪g": "DEg", "👍🏽": "👍", "b☺️c": "b☺ c", "\U0001fae0x": "\uFFFD x",
		"日本e\u0301": "日本e\u0301", "क्\u200dष": "क्\u200dष", "🏴\U000e0067\U000e0062\U000e007f": "🏴",
	} {
		s := screen{simple: true, cols: 40}
		out := s.paint(frame{rows: []string{text}})
		paper := newPaper(40, 5, false, false)
		paper.write(out)
		if got := strings.Join(paper.all[0].text, ""); got != strings.NewReplacer("\u0301", "", "\u094d", "", "\u200d", "").Replace(want) {
			t.Errorf("%q is drawn as %q, want %q", text, got, want)
		}
		if strings.ContainsAny(out, "\ufe0f\u20e3") || strings.Contains(want, "👨") && strings.Contains(out, "\u200d") {
			t.Errorf("%q is drawn with %q", text, out)
		}
		for _, c := range rowCells(text) {
			if c.risky && simpler(c) != c.text && runewidth.StringWidth(simpler(c)) != c.width {
				t.Errorf("%q takes %d columns, not %d", simpler(c), runewidth.StringWidth(simpler(c)), c.width)
			}
		}
	}
	for env, want := range map[string]bool{"STY=1 TERM=screen": true, "TERM=screen.xterm-256color": true, "TMUX=x TERM=screen-256color": false, "TERM=xterm": false} {
		getenv := func(name string) string {
			for _, e := range strings.Fields(env) {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v
				}
			}
			return ""
		}
		if got := inScreen(getenv); got != want {
			t.Errorf("inScreen with %s is %v", env, got)
		}
	}
}
