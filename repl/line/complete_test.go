package line

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// completer completes the last word from words.
func completer(words ...Word) func(string) Completion {
	return func(text string) Completion {
		from := strings.LastIndexAny(text, " ") + 1
		c := Completion{From: from}
		for _, w := range words {
			if strings.HasPrefix(w.Text, text[from:]) {
				c.Words = append(c.Words, w)
			}
		}
		return c
	}
}

func texts(words ...string) (out []Word) {
	for _, w := range words {
		out = append(out, Word{Text: w})
	}
	return out
}

func TestTab(t *testing.T) {
	for _, c := range []struct{ start, keys, want string }{
		{"/sta|", "\t", "/status |"},
		{"/s|", "\t", "/s|"},
		{"/s|", "\t\t", "/sessions|"},
		{"/s|", "\t\t\t", "/status |"},
		{"/s|", "\t\t\t\t", "/stop|"},
		{"/s|", "\t\t\t\t\t", "/sessions|"},
		{"/s|", "\t\x1b[Z", "/stop|"},
		{"/s|", "\t\t\t\x1b[Z", "/sessions|"},
		{"/s|", "\t\t\x1b", "/s|"},
		{"/s|", "\t\t!", "/sessions!|"},
		{"say /s| now", "\t\t", "say /sessions| now"},
		{"say /s| now", "\t\t\x1b", "say /s| now"},
		{"世/s| now", "\t", "世/s| now"},
		{"/pla|", "\t", "/plan-|"},
		{"/s|", "\t\t\x1f", "/s|"},
		{"zz|", "\t\t\t", "zz|"},
		{"世 👨|", "\t", "世 👨|"}, // families have no half in common
	} {
		t.Run(fmt.Sprintf("%s %q", c.start, c.keys), func(t *testing.T) {
			h := newHand(t, Options{Complete: completer(texts("/sessions", "/status ", "/stop", "/plan-a", "/plan-b", "👨‍👩‍👧", "👨‍👩‍👦")...)})
			defer h.loop.engine.close()
			h.begin(c.start)
			for _, k := range strings.SplitAfter(c.keys, "\t") {
				h.types(k)
			}
			if got := h.at(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTabAsks(t *testing.T) {
	calls := 0
	h := newHand(t, Options{Complete: func(text string) Completion {
		calls++
		return Completion{Ask: strings.HasPrefix(text, "@")}
	}})
	defer h.loop.engine.close()
	h.types("@ma\t")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventComplete || ev[0].Text != "@ma" {
		t.Errorf("asked with %+v", ev)
	}
	h.replace(replacement{"@ma", 1, "main.go"})
	h.replace(replacement{"@ma", 1, "late.go"})
	if h.at() != "@main.go|" {
		t.Errorf("the line is %q", h.at())
	}
	h.types("\x15nothing\t")
	if ev := h.said(); len(ev) != 0 {
		t.Errorf("the first Tab said %+v", ev)
	}
	h.types("\t")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventComplete || ev[0].Text != "nothing" {
		t.Errorf("the second Tab said %+v", ev)
	}
	h.types("x\t")
	if ev := h.said(); len(ev) != 0 {
		t.Errorf("a Tab in another line said %+v", ev)
	}
}

func TestRowsBelow(t *testing.T) {
	var many []Word
	for i := range 40 {
		many = append(many, Word{Text: fmt.Sprintf("word-%02d", i)})
	}
	details := []Word{{"/help", "lists the commands"}, {"/handoff", "begins a session that knows what this one knows"}, {"/世界", "\x1b[31mred"}}
	for _, c := range []struct {
		name        string
		words       []Word
		at          int
		limit, most int
		want        []string
	}{
		{"columns", texts("one", "two", "three", "four"), -1, 20, 8, []string{"one    two    three", "four"}},
		{"one column", texts("one", "two"), -1, 6, 8, []string{"one", "two"}},
		{"details", details, -1, 30, 8, []string{"/help     lists the commands", "/handoff  begins a session tha", "/世界     ␛[31mred"}},
		{"walked to", texts("one", "two"), 1, 20, 8, []string{"one  \x1b[7mtwo\x1b[27m\x1b[0m"}},
		{"many", many, -1, 20, 3, []string{"word-00  word-01", "word-02  word-03", "… and 36 more"}},
		{"many, walked to", many, 21, 20, 3, []string{"word-18  word-19", "word-20  \x1b[7mword-21\x1b[27m\x1b[0m", "… and 36 more"}},
		{"the last", many, 39, 20, 3, []string{"word-36  word-37", "word-38  \x1b[7mword-39\x1b[27m\x1b[0m", "… and 36 more"}},
		{"no room", many, -1, 20, 1, []string{"word-00  word-01"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &menu{words: c.words, at: c.at}
			if got := m.rows(c.limit, c.most); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestListOnTheScreen(t *testing.T) {
	y := openTTY(t, 40, 8)
	_ = y.reader.Close()
	r, err := Open(Options{In: y.Slave, Out: y.Slave, Getenv: xterm, Complete: completer(texts("/sessions", "/status", "/stop")...)})
	if err != nil {
		t.Fatal(err)
	}
	y.reader = r
	r.Show(idle())
	y.Type("/s\t")
	y.Has("ralph ❯ /s▏\n/sessions  /status  /stop")
	y.Type("\t")
	y.Has("ralph ❯ /sessions▏\n/sessions  /status  /stop")
	y.Type("!")
	y.Until("the list gone", func(s string) bool { return strings.Contains(s, "/sessions!▏") && !strings.Contains(s, "/status") })
}
