package render

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"ralph/coordinator/permission"

	"ralph/repl/ttytest"
	"ralph/workers/agent"
)

// update rewrites the golden files (make update).
var update = os.Getenv("RALPH_TEST_UPDATE") != ""

// harmful finds what must never reach a terminal; our own colours are allowed.
func harmful(text string) string {
	for len(text) > 0 {
		if n := colourLength(text); n > 0 {
			text = text[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			return "invalid UTF-8"
		case r == '\n' || r == '\t':
		case unicode.IsControl(r):
			return fmt.Sprintf("control %U", r)
		case unicode.Is(unicode.Bidi_Control, r), r == 0x200b, r == 0xfeff, r >= 0xe0000 && r < 0xe0080:
			return fmt.Sprintf("invisible %U", r)
		case r == ampersand, r == lessThan, r == itemMark, r == joinMark, r == apartMark:
			return fmt.Sprintf("stand-in %U", r)
		}
		text = text[n:]
	}
	return ""
}

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":           "plain\ttext\n",
		"\x1b]0;title\x07\x1b[2J": "␛]0;title␇␛[2J",
		"a\r\nb\rc":               "a\nb␍c",
		"\u009b31m\x7f":           `\u009b31m␡`,
		"\x9b31m":                 `\x9b31m`,
		"abc\u202edef\u2066":      `abc\u202edef\u2066`,
		"zero\u200bwidth\ufeff":   `zero\u200bwidth\ufeff`,
		"tag\U000e0041":           `tag\U000e0041`,
		"日本語 🚀 e\u0301 \ufffd":    "日本語 🚀 e\u0301 \ufffd",
		string(ampersand):         `\uf8f0`,
		"line\u2028sep\u0085":     `line\u2028sep\u0085`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) is %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"👩\u200d💻 🏳\ufe0f\u200d🌈": "👩\u200d💻 🏳\ufe0f\u200d🌈", "می\u200cخواهم": "می\u200cخواهم", "क्\u200dष": "क्\u200dष",
		"a\u200db": `a\u200db`, "👩\u200d": `👩\u200d`, "👩\u200d\u200d💻": `👩\u200d\u200d💻`, "👩\u200cx": `👩\u200cx`, "\uf8f3\uf8f4": `\uf8f3\uf8f4`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) is %q, want %q", in, got, want)
		}
	}
	if got := SafeLine("a\nb\tc"); got != "a␊b c" {
		t.Errorf("SafeLine gave %q", got)
	}
}

func FuzzSafe(f *testing.F) {
	for _, s := range []string{"a", "\x1b[31m", "\u202e", "\r\r\n\n", "\xff\xfe", "&#27;", "\U000e0001", "👩\u200d💻\u200d", "\u200c\u0627\u200c\u0627", "\uf8f3\uf8f2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := Safe(in)
		if bad := harmful(out); bad != "" || strings.Contains(out, "\x1b") {
			t.Fatalf("Safe(%q) has %s", in, bad)
		}
		if Safe(out) != out {
			t.Fatalf("Safe(%q) is not stable", in)
		}
		if len(out) == 0 && strings.Trim(in, "\r") != "" {
			t.Fatalf("Safe(%q) is empty", in)
		}
	})
}

// FuzzMarkdown holds the whole way from a model's text to the terminal to what
// Safe promises.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{
		"# a\n\n&#27;[31m &#x1b;]0;x&#7; &amp;#27; &zwj;", "[x](http://a/\x1b[2J \"t&#27;\")", "```\n\x1b[2J\n```\n",
		"| a | b |\n|--|--|\n| \x1b | &#x202e; |\n", "<b onclick=\"\x1b\">", "<http://a.b/&#27;>", "- a\n\n  b\n", "![i](u)", "> > > x", "***a**b*",
		"~~a~~ `&#27;` ``x``", "1) a\n2) b\n\n\n   c", "term\n: def\n", "[a]: <\x1b>\n\n[a]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 4000 {
			return
		}
		for _, theme := range []Theme{ThemeNone, ThemeDark} {
			out := whole(New(Options{Width: 40, Theme: theme}), in)
			if bad := harmful(out); bad != "" {
				t.Fatalf("%q became %q with %s", in, out, bad)
			}
			r, cut := New(Options{Width: 40, Theme: theme}), ""
			for rest := in; rest != ""; {
				n := min(3, len(rest))
				cut += r.Event(agent.Event{Type: agent.EventMessageDelta, Text: rest[:n]})
				rest = rest[n:]
			}
			if cut += r.Flush(); cut != out {
				t.Fatalf("%q in pieces became %q, whole %q", in, cut, out)
			}
			if theme == ThemeNone && strings.Contains(out, "\x1b") {
				t.Fatalf("%q became %q", in, out)
			}
		}
	})
}

// blocks splits text that arrives in pieces of n bytes.
func blocks(text string, n int) []Block {
	var s Splitter
	var out []Block
	for len(text) > 0 {
		n := min(n, len(text))
		out = append(out, s.Write(text[:n])...)
		text = text[n:]
	}
	return append(out, s.Close()...)
}

// told is what blocks say: a + stands before those that are joined.
func told(list []Block) (out []string) {
	for _, b := range list {
		text := b.Text
		if b.Joined {
			text = "+" + text
		}
		out = append(out, text)
	}
	return out
}

func TestSplitter(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"paragraphs", "one\ntwo\n\n\nthree", []string{"one\ntwo\n", "three\n"}},
		{"heading", "text\n# head\nmore\n", []string{"text\n", "# head\n", "more\n"}},
		{"setext", "Title\n===\n\ntext\n", []string{"Title\n===\n", "text\n"}},
		{"fence", "text\n```go\na\n\nb\n```\nafter\n", []string{"text\n", "```go\na\n\nb\n```\n", "after\n"}},
		{"open fence", "```\na\n\nb", []string{"```\na\n\nb\n"}},
		{"fence in fence", "````\n```\nx\n```\n````\ny\n", []string{"````\n```\nx\n```\n````\n", "y\n"}},
		{"tilde fence", "~~~\n```\n~~~\n", []string{"~~~\n```\n~~~\n"}},
		{"inline code is no fence", "```a``` b\n\nc\n", []string{"```a``` b\n", "c\n"}},
		{"nested list", "- a\n  - b\n\n  - c\n\n    para\n- d\n\nend\n", []string{"- a\n  - b\n\n  - c\n\n    para\n", "+- d\n\n", "end\n"}},
		{"items", "1. a\n2. b\n\n3. c\n", []string{"1. a\n", "+2. b\n\n", "3. c\n"}},
		{"fence in a list", "1. a\n\n   ```\n   x\n\n   y\n   ```\n\n2. b\n", []string{"1. a\n\n", "   ```\n   x\n\n   y\n   ```\n", "2. b\n"}},
		{"text after a fence in a list", "- a\n  ```\n  x\n  ```\n  more\n  - sub\n- b\n", []string{"- a\n", "+  ```\n  x\n  ```\n", "+  more\n  - sub\n", "+- b\n"}},
		{"list ends after its fence", "- a\n  ```\n  x\n  ```\nno item\n", []string{"- a\n", "+  ```\n  x\n  ```\n", "no item\n"}},
		{"code in parts", "```\n1\n2\n3\n4\n5\n\n 6\n7\n```\n", []string{"```\n1\n2\n3\n4\n5\n\n 6\n7\n```\n"}},
		{"code in parts at a good place", "```\n1\n2\n3\n4\n5\n\n6\n7\n```\n", []string{"```\n1\n2\n3\n4\n5\n\n", "+6\n7\n```\n"}},
		{"code in parts at any place", "```\n" + strings.Repeat(" x\n", 17) + "```\n", []string{"```\n" + strings.Repeat(" x\n", 16), "+ x\n```\n"}},
		{"a fence closed by the end", "a\n\n```\nx\n```", []string{"a\n", "```\nx\n```\n"}},
		{"list ends at a fence", "- a\n```\nx\n```\n", []string{"- a\n", "```\nx\n```\n"}},
		{"number in a text", "in\n1984. it\n", []string{"in\n1984. it\n"}},
		{"table", "| a |\n|---|\n| 1 |\n\nafter\n", []string{"| a |\n|---|\n| 1 |\n", "after\n"}},
		{"rule", "a\n\n---\nb\n", []string{"a\n", "---\n", "b\n"}},
		{"quote", "> a\n>\n> b\n\nc\n", []string{"> a\n>\n> b\n", "c\n"}},
		{"indented code", "a\n\n    - not a list\n", []string{"a\n", "    - not a list\n"}},
		{"blank", "\n \n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 3, 7, 1 << 20} {
				if got := told(blocks(c.in, n)); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
					t.Errorf("in pieces of %d: %q, want %q", n, got, c.want)
				}
			}
		})
	}
}

func FuzzSplitter(f *testing.F) {
	for _, s := range []string{"a\n\nb", "```\nx", "- a\n\n  b\n\nc", "| a |\n|-|\n", "# x\n---\n***\n", "1. a\n   ```\n\n", "~~~\n\n~~~~\n"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, in string, n int) {
		n = max(1, min(n, len(in)))
		whole, pieces := told(blocks(in, len(in)+1)), told(blocks(in, n))
		if fmt.Sprintf("%q", whole) != fmt.Sprintf("%q", pieces) {
			t.Fatalf("%q in pieces of %d: %q, as a whole %q", in, n, pieces, whole)
		}
		text := ""
		for _, b := range blocks(in, n) {
			text += b.Text
		}
		if squeeze(text) != squeeze(in) {
			t.Fatalf("%q became %q", in, whole)
		}
		var s Splitter
		s.Write(in)
		if rows, _ := s.Tail(3); len(rows) > 3 {
			t.Fatalf("the tail has %d rows", len(rows))
		}
	})
}

func squeeze(s string) string {
	var b strings.Builder
	for _, row := range strings.Split(s, "\n") {
		if strings.TrimSpace(row) != "" {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}

const sample = "# Title here\n\nSome *text* with **bold**, `code`, [a link](https://example.com/x) and &lt;b&gt; &#27;[31m; a&b that is long enough to wrap around.\n\n" +
	"- one\n- two\n  - nested `x`\n  - [ ] task\n  - [x] done\n\n    para in item\n\n1. **Foo**\n\n   Explain <T> here\n\n   ```sh\n   grep 'a\\.b' <x >y\n   ```\n\n2. Bar\n\n" +
	"```go\nfunc main() {\n\tfmt.Println(\"hi\\n\") // comment\n}\n```\n\n| a | b |\n|---|---|\n| 1 | two words |\n\n> quote here\n> more\n\n---\n\nuse map<string>int and <!-- hidden -->\n"

func TestMarkdownGolden(t *testing.T) {
	for name, o := range map[string]Options{
		"none": {Width: 60}, "dark": {Width: 60, Theme: ThemeDark}, "light": {Width: 60, Theme: ThemeLight},
		"ascii": {Width: 60, ASCII: true}, "narrow": {Width: 24}, "raw": {Width: 60, Raw: true},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, whole(New(o), sample)) })
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	ttytest.Golden(t, update, name+".golden", got)
}

func TestStreamedIsWhole(t *testing.T) {
	sample := sample + "\n👨\u200d👩\u200d👧 می\u200cخواهم 日本 ❤\ufe0f\u200d🔥\r\n\n" + talk + "\nthe end 👩\u200d💻"
	want := whole(New(Options{Width: 60, Theme: ThemeDark}), sample)
	if strings.Contains(want, `\u200`) || strings.Contains(want, `\x`) {
		t.Errorf("joiners were taken apart: %q", want)
	}
	for _, n := range []int{1, 5, 64} {
		r := New(Options{Width: 60, Theme: ThemeDark})
		var got strings.Builder
		got.WriteString(r.Event(agent.Event{Type: agent.EventTurnStart, Turn: 1}))
		for rest := sample; rest != ""; {
			n := min(n, len(rest))
			got.WriteString(r.Event(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: rest[:n]}))
			rest = rest[n:]
		}
		got.WriteString(r.Event(agent.Event{Type: agent.EventMessage, Turn: 1, Text: sample}))
		if got.String() != want {
			t.Errorf("in pieces of %d it is\n%s\nwant\n%s", n, got.String(), want)
		}
	}
}

func TestEventsGolden(t *testing.T) {
	yes, no, one, zero := true, false, 1, 0
	ms := func(n int64) *int64 { return &n }
	r := New(Options{Width: 70})
	var out strings.Builder
	for _, e := range []agent.Event{
		{Type: agent.EventTurnStart, Turn: 1},
		{Type: agent.EventMessageDelta, Text: "I will run the tests"},
		{Type: agent.EventToolStart, CallID: "1", Tool: "shell", Args: json.RawMessage(`{"command":"go test ./..."}`)},
		{Type: agent.EventToolStart, CallID: "2", Tool: "read", Args: json.RawMessage(`{"path":"a\u001b]0;x\u0007.go"}`)},
		{Type: agent.EventToolEnd, CallID: "2", Tool: "read", Text: "12 lines", OK: &yes, DurationMS: ms(3), ExitCode: nil},
		{Type: agent.EventToolEnd, CallID: "1", Tool: "shell", Text: "exit 1", OK: &yes, ExitCode: &one, DurationMS: ms(1234)},
		{Type: agent.EventToolEnd, CallID: "3", Tool: "shell", Denied: true, OK: &no, Args: json.RawMessage(`{"command":"git push"}`)},
		{Type: agent.EventToolEnd, CallID: "4", Tool: "shell", OK: &yes, ExitCode: &zero, DurationMS: ms(61000), Args: json.RawMessage(`{"command":"` + strings.Repeat("long ", 40) + `"}`)},
		{Type: agent.EventMessageDelta, Text: "half"},
		{Type: agent.EventRetry, Attempt: 1, WaitMS: 2000, Reason: "HTTP 502\x1b[2J"},
		{Type: agent.EventWarning, Text: "two\nlines"},
		{Type: agent.EventPermission, Tool: "shell", Text: "rm x", Status: "denied", Rule: "user"},
		{Type: agent.EventPermission, Tool: "shell", Text: "rm x", Status: "asked"},
		{Type: agent.EventGate, Text: "make check", OK: &no, ExitCode: &one},
		{Type: agent.EventCompact, Text: "40 messages"},
		{Type: agent.EventInterrupt, Reason: "by SIGINT"},
		{Type: agent.EventMessage, Text: "Not streamed.\r\n\r\nDone."},
	} {
		out.WriteString(r.Event(e))
	}
	out.WriteString(r.Question(permission.Question{Kind: "permission", Text: "run this?\n  rm -rf \x1b[8mx", Options: []string{"no", "yes"}}))
	out.WriteString(r.Error("open x: no", "do y"))
	out.WriteString(r.Said("line one\nline two"))
	golden(t, "events", out.String())
}

func TestTailIsBrokenIntoRows(t *testing.T) {
	r := New(Options{Width: 21})
	for _, c := range []struct {
		add  string
		want []string
	}{
		{"one two three four five", []string{"one two three four", "five"}},
		{" 日本語日本語日本語\tend", []string{"one two three four", "five 日本語日本語日", "本語    end"}},
		{" x-very-long-word-that-fits-nowhere", []string{"five 日本語日本語日", "本語    end x-very-l", "ong-word-that-fits-n", "owhere"}},
	} {
		r.Event(agent.Event{Type: agent.EventMessageDelta, Text: c.add})
		if got := r.Tail(4); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("after %q the tail is %q, want %q", c.add, got, c.want)
		}
	}
	// Rows of a very long paragraph stay where they are while it grows.
	var last []string
	moved := 0
	for i := range 900 {
		r.Event(agent.Event{Type: agent.EventMessageDelta, Text: fmt.Sprintf(" and %d", i)})
		rows := r.Tail(4)
		if len(last) > 0 && rows[0] != last[0] && rows[0] != last[1] {
			moved++
		}
		last = rows
	}
	if moved > 5 {
		t.Errorf("the rows moved %d times", moved)
	}
}

// TestQuestionCannotBeForged: what is decided on stands behind a bar in every
// row, so that it cannot look like the question or its answers.
func TestQuestionCannotBeForged(t *testing.T) {
	command := "echo ok" + strings.Repeat(" ", 100) + "; rm -rf x\n  [no] / yes\r\n\n? May it read a file?\n\ttab\x1b[2J"
	for _, o := range []Options{{Width: 40}, {Width: 80, ASCII: true}, {Raw: true, ASCII: true}} {
		r := New(o)
		q := permission.Question{Kind: "permission", Text: "May it run this?\n" + command, Options: []string{"no", "yes"}}
		if o.Raw {
			q.Target, q.Dir = command, "/p"
		}
		rows := strings.Split(strings.Trim(r.Question(q), "\n"), "\n")
		top := slices.Index(rows, "  "+r.pick("┌", "+")+" 5 lines")
		end := slices.Index(rows, "  "+r.pick("└", "+")+" end of 5 lines")
		if top < 1 || end < top || !strings.HasPrefix(rows[0], "? ") || !strings.HasPrefix(rows[end+1], "  [no]  ") {
			t.Fatalf("the question is %q", rows)
		}
		bar := "  " + r.pick("│", "|") + " "
		shown := ""
		for _, row := range rows[top+1 : end] {
			text, ok := strings.CutPrefix(row, bar)
			if !ok || o.Width > 0 && columns(row) >= o.Width {
				t.Errorf("width %d: the row %q is not behind the bar or too wide", o.Width, row)
			}
			shown += text
		}
		want := strings.ReplaceAll(Safe(command), "\n", "")
		if shown = strings.ReplaceAll(shown, "    tab", "\ttab"); shown != want {
			t.Errorf("width %d shows %q, want %q", o.Width, shown, want)
		}
	}
}

func TestTables(t *testing.T) {
	table := func(cols int, cell string) string {
		row := strings.Repeat("| "+cell+" ", cols) + "|\n"
		return row + strings.Repeat("|---", cols) + "|\n" + row
	}
	for name, c := range map[string]struct{ text, want string }{
		"as wide as it needs":  {table(2, "ab"), " ab │ ab\n────┼────\n ab │ ab"},
		"many narrow columns":  {table(10, "1"), strings.TrimSuffix(strings.Repeat(" 1 │", 10), "│")},
		"no room for columns":  {table(10, "a longer cell"), table(10, "a longer cell")},
		"text with bars in it": {"a | b\nc | d\n", "a | b\nc | d"},
	} {
		got := whole(New(Options{Width: 60}), c.text)
		if !strings.HasPrefix(got, strings.TrimSpace(c.want)) && !strings.HasPrefix(got, strings.TrimRight(c.want, " ")) {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestRetryVoidsOnlyWhatWasPrinted: a text that was never printed cannot be void.
func TestRetryVoidsOnlyWhatWasPrinted(t *testing.T) {
	r := New(Options{Width: 80})
	retry := agent.Event{Type: agent.EventRetry, Attempt: 1, Reason: "cut"}
	r.Event(agent.Event{Type: agent.EventMessageDelta, Text: "half"})
	if got := r.Event(retry); strings.Contains(got, "void") || len(r.Tail(1)) > 0 {
		t.Errorf("got %q and the tail %q", got, r.Tail(1))
	}
	r.Event(agent.Event{Type: agent.EventMessageDelta, Text: "whole\n\nhalf"})
	if got := r.Event(retry); !strings.Contains(got, "void") {
		t.Errorf("got %q", got)
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two  three \x1b[1mbold\x1b[0m 日本語", 12, 2)
	f.Add(strings.Repeat("x", 50), 9, 0)
	f.Fuzz(func(t *testing.T, text string, limit, indent int) {
		text = SafeLine(text)
		limit, indent = limit&63+minWrap, indent&7
		rows := wrap(text, limit, indent)
		for _, row := range rows {
			if columns(row) > max(limit, indent+minWrap) {
				t.Errorf("%q is wider than %d", row, limit)
			}
		}
		if got := strings.ReplaceAll(strings.Join(rows, ""), " ", ""); got != strings.ReplaceAll(text, " ", "") {
			t.Errorf("%q became %q", text, rows)
		}
		if got := strings.Join(fold(text, limit), ""); got != text {
			t.Errorf("fold made %q of %q", got, text)
		}
	})
}

// TestMonsterRows: a paragraph that is too long to be rendered is broken into rows,
// all of its words there.
func TestMonsterRows(t *testing.T) {
	text := strings.Repeat("word 世界 ", 20_000)
	out := whole(New(Options{Width: 60}), text+"\n")
	for row := range strings.Lines(out) {
		if w := columns(strings.TrimSuffix(row, "\n")); w > 60 {
			t.Fatalf("a row of %d columns", w)
		}
	}
	gone := strings.NewReplacer(" ", "", "\n", "")
	if gone.Replace(out) != gone.Replace(text) {
		t.Error("words are missing, or torn")
	}
}

// TestNarrowTable: where a row has no room its cells go on below, none of them cut.
func TestNarrowTable(t *testing.T) {
	rows := [][]string{{"tokens", "part", "from", "why"}, {"427", "system prompt", "RALPH_TASKS.md", "pinned: the rules of the project"}}
	want := "  tokens  part           from\n    why\n  427     system prompt  RALPH_TASKS.md\n    pinned: the rules of the project\n"
	if got := New(Options{Width: 40}).Table(rows); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestPickTheme(t *testing.T) {
	for _, c := range []struct {
		setting  string
		terminal bool
		env      map[string]string
		want     Theme
	}{
		{"auto", true, nil, ThemeBoth},
		{"", true, map[string]string{"COLORFGBG": "0;15"}, ThemeLight},
		{"", true, map[string]string{"COLORFGBG": "15;0"}, ThemeDark},
		{"", true, map[string]string{"COLORFGBG": "0;default;15"}, ThemeLight},
		{"light", true, nil, ThemeLight},
		{"dark", true, map[string]string{"NO_COLOR": "1"}, ThemeNone},
		{"dark", false, nil, ThemeNone},
		{"none", true, nil, ThemeNone},
		{"dark", true, map[string]string{"TERM": "vt220"}, ThemeNone},
		{"dark", true, map[string]string{"TERM": "xterm-mono"}, ThemeNone},
		{"dark", true, map[string]string{"TERM": "vte-256color"}, ThemeDark},
		{"light", true, map[string]string{"COLORFGBG": "nonsense"}, ThemeLight},
		{"", true, map[string]string{"COLORFGBG": ";"}, ThemeBoth},
	} {
		if got := PickTheme(c.setting, c.terminal, func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("%+v gave %v", c, got)
		}
	}
}

// TestCostIsLinear renders texts that are known to be costly elsewhere, short
// and long: a byte of the long one may not allocate more than one of the short.
// How long it takes is for BenchmarkShapes to say.
func TestCostIsLinear(t *testing.T) {
	for name, shape := range shapes() {
		small, large := perByte(shape(1)), perByte(shape(4))
		t.Logf("%-16s %7.1f bytes allocated for each, %7.1f when it is longer", name, small, large)
		if large > 2*small { // a square would be 4
			t.Errorf("%s: each byte costs %.1f times as much when there are more", name, large/small)
		}
	}
}

func shapes() map[string]func(n int) string {
	many := func(text string, times int) func(int) string {
		return func(n int) string { return strings.Repeat(text, times*n) + "\n" }
	}
	return map[string]func(int) string{
		"many columns": func(n int) string {
			return strings.Repeat("| c ", 1250*n) + "|\n" + strings.Repeat("|---", 1250*n) + "|\n" + strings.Repeat("| 1 ", 1250*n) + "|\n"
		},
		"open fence":      func(n int) string { return "```go\n" + strings.Repeat("x := 1 // y\n", 1000*n) },
		"one long line":   many("word ", 25_000),
		"long list":       many("- item with `code`\n", 400),
		"deep list":       func(n int) string { return deepList(50 * n) },
		"deep quote":      func(n int) string { return strings.Repeat(">", 750*n) + " x\n" },
		"open brackets":   many("[", 5000),
		"emphasis":        many("*a _b ", 2500),
		"many paragraphs": many("some words here\n\n", 400),
	}
}

// stream renders a text that comes in pieces of a few bytes.
func stream(text string) {
	r := New(Options{Width: 80, Theme: ThemeDark})
	for rest := text; rest != ""; {
		n := min(7, len(rest))
		r.Event(agent.Event{Type: agent.EventMessageDelta, Text: rest[:n]})
		rest = rest[n:]
	}
	r.Flush()
}

// perByte is how many bytes are allocated for each byte of a text.
func perByte(text string) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stream(text)
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text))
}

func BenchmarkShapes(b *testing.B) {
	for name, shape := range shapes() {
		b.Run(name, func(b *testing.B) {
			text := shape(4)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				stream(text)
			}
		})
	}
}

func deepList(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("  ", i) + "- x\n")
	}
	return b.String()
}

func BenchmarkStream(b *testing.B) {
	r := New(Options{Width: 80, Theme: ThemeDark})
	b.SetBytes(int64(len(sample)))
	for b.Loop() {
		for rest := sample; rest != ""; {
			n := min(4, len(rest))
			r.Event(agent.Event{Type: agent.EventMessageDelta, Text: rest[:n]})
			rest = rest[n:]
		}
		r.Flush()
	}
}

// whole renders a whole text, as the events of a turn would.
func whole(r *Renderer, text string) string {
	return r.stream(text) + r.Flush()
}

// TestSender: the conversation id of a client is not something to read.
func TestSender(t *testing.T) {
	for from, want := range map[string]string{
		"r-20261121-122943-e00db4": "terminal e00db4",
		"task-1":                   "task-1",
		"r-x":                      "r-x",
		"a\x1b[2Jb":                SafeLine("a\x1b[2Jb"),
	} {
		if got := Sender(from); got != want {
			t.Errorf("%q is %q, want %q", from, got, want)
		}
	}
}
