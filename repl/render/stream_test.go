package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/crew"
	"ralph/workers/agent"
)

// talk is an answer with all that a model writes.
var talk = "## Findings\n\nA paragraph that is long enough to be broken into more than one row even on a wide screen, with `code`, **bold words that go on** and a [link](https://example.org/a/long/path?with=query).\n\n" +
	"- an item that is long enough to be broken, so that its second row stands below its text and not below its mark\n- another 日本語の項目はとても長いので、二行目に折り返されます。そしてまだ続きます。\n  - nested, and long enough as well to be broken in the narrow window that this is shown in\n    > a quote in it that is also long, so that there are bars in both of its rows\n\n" +
	"9. nine\n10. ten, with a text that goes on for so long that it needs another row below\n\n    and a second paragraph of the same item that is long as well\n\n    ```go\n    func a() {\n    \treturn // a very long comment that is not broken, whatever the width of the window may be\n    }\n    ```\n    text after the code\n11. eleven\n\n" +
	"> a quote that is long enough to be broken, too, with its bar in front of each row\n> > and one in it that is just as long, so that two bars stand before each of its rows\n\n" +
	"שלום עולם مرحبا بالعالم\n\n```\nplain\n  code\n```\n"

func TestListsAndQuotesHang(t *testing.T) {
	var b strings.Builder
	for _, o := range []Options{{Width: 40}, {Width: 200}, {Width: 40, ASCII: true, Theme: ThemeDark}} {
		fmt.Fprintf(&b, "%d columns\n", o.Width)
		out := whole(New(o), talk)
		for row := range strings.Lines(out) {
			row = strings.TrimSuffix(row, "\n")
			if columns(row) >= o.Width && !strings.Contains(row, "// a very long comment") {
				t.Errorf("width %d: %q has %d columns", o.Width, row, columns(row))
			}
		}
		b.WriteString(out)
	}
	golden(t, "hang", b.String())
}

// What is no code fits, at any width, and each colour ends with its row.
func TestRowsFit(t *testing.T) {
	text := talk[:strings.Index(talk, "    ```go")] + "\n\n# 日本語の見出し with **bold** and `a-very-long-name-that-is-code-and-has-no-blanks`\n\n" +
		"***all of this is bold and slanted, and 🚀🚀👩\u200d💻 go on***\n\n- [ ] a task that is long enough to be broken somewhere\n\n" + strings.Repeat("x", 300) + "\n"
	for width := 20; width <= 500; width += 1 + width/9 {
		for row := range strings.Lines(whole(New(Options{Width: width, Theme: ThemeDark}), text)) {
			row = strings.TrimSuffix(row, "\n")
			if columns(row) >= width {
				t.Fatalf("width %d: %q has %d columns", width, row, columns(row))
			}
			if i := strings.LastIndex(row, "\x1b["); i >= 0 && !strings.HasPrefix(row[i:], reset) {
				t.Fatalf("width %d: %q leaves a colour on", width, row)
			}
		}
	}
}

// Code that takes long to write is seen meanwhile, and its lines are as they were
// written, none twice.
func TestCodeAppearsWhileItIsWritten(t *testing.T) {
	for _, margin := range []string{"", "   "} {
		r := New(Options{Width: 80})
		r.stream("1. see\n\n" + margin + "```go\n")
		printed := ""
		var want strings.Builder
		for i := range 500 {
			line := fmt.Sprintf("\tcall(%d)", i)
			if i%11 == 10 {
				line = ""
			}
			printed += r.stream(margin + line + "\n")
			fmt.Fprintln(&want, strings.TrimRight(margin+codeIndent+line, " \t"))
			if behind := i + 1 - strings.Count(printed, "\n"); behind > mostCode+1 {
				t.Fatalf("line %d is written, and %d are not printed", i, behind)
			}
			if last := r.Tail(4); i%11 == 3 && (len(last) == 0 || !strings.Contains(last[len(last)-1], fmt.Sprintf("call(%d)", i))) {
				t.Fatalf("the tail after line %d is %q", i, last)
			}
		}
		printed += r.stream(margin+"```\n") + r.Flush()
		if got := strings.TrimPrefix(printed, "\n"); got != want.String() {
			t.Errorf("margin %q: printed is\n%.600s\nwant\n%.600s", margin, got, want.String())
		}
	}
}

// A comment of many lines has its colour in all of its parts, and what follows
// has not.
func TestColoursGoOnInParts(t *testing.T) {
	r := New(Options{Width: 80, Theme: ThemeDark})
	comment := "\x1b[3;38;5;246m"
	text := "```go\n/* begins\n" + strings.Repeat("\nnothing but a comment, if it isn't `code`\n", 30) + "\n*/\nvar x = 1\n" + strings.Repeat("\nvar y = 2\n", 20) + "```\n"
	for row := range strings.Lines(whole(r, text)) {
		switch {
		case strings.Contains(row, "begins") && !strings.HasPrefix(row, codeIndent+comment+"/*"):
			t.Errorf("%q is no comment", row)
		case strings.Contains(row, "nothing but") && !strings.HasPrefix(row, codeIndent+comment+"nothing"):
			t.Errorf("%q is no comment", row)
		case strings.Contains(row, "var") && strings.Contains(row, comment):
			t.Errorf("%q is a comment", row)
		}
	}
}

func TestWhatIsOpenBehindALine(t *testing.T) {
	for _, c := range []struct{ lang, text, want string }{
		{"go", "a /* b", "/*"},
		{"go", "a /* b\nc */ d", ""},
		{"go", "x := `a", "`"},
		{"go", "x := \"/*\" // /*\ny := '\"' + `a`", ""},
		{"go", `x := "\"/*"`, ""},
		{"python", "'''doc", "'''"},
		{"python", "x = \"it's\" # '''", ""},
		{"python", "\"\"\"a\nb\"\"\" + '''", "'''"},
		{"rust", "fn f<'a>() /* x", "/*"},
		{"html", "<a href='it'><!-- b", "<!--"},
		{"css", "url(//x) /* a", "/*"},
		{"unknown", "/*", ""},
	} {
		var open pair
		for line := range strings.SplitSeq(c.text, "\n") {
			open = syntaxOf(c.lang).after(open, line)
		}
		if open.open != c.want {
			t.Errorf("%s: behind %q %q is open, want %q", c.lang, c.text, open.open, c.want)
		}
	}
}

// FuzzCode holds code in parts to what was written, whatever the language.
func FuzzCode(f *testing.F) {
	for _, s := range []string{"/* a\n\n\n\n\n\n\n\nb\n*/\nc", strings.Repeat("`x\n", 40), "\t\n \n" + strings.Repeat("\n", 30) + "end", "'''\n\"\"\"\n<!--\n", "~~~\n````\n"} {
		f.Add(s, uint8(0))
		f.Add(s, uint8(3))
	}
	langs := []string{"go", "python", "html", "", "nonsense", "diff", "sh"}
	f.Fuzz(func(t *testing.T, code string, n uint8) {
		code = strings.TrimRight(Safe(code), " \t\n")
		if code = strings.TrimLeft(code, "\n"); strings.Contains(code, "~~~") || len(code) > 4000 {
			return
		}
		got := whole(New(Options{Width: 80, Theme: ThemeDark}), "~~~"+langs[int(n)%len(langs)]+"\n"+code+"\n~~~\n")
		want := ""
		for line := range strings.SplitSeq(code, "\n") {
			want += strings.TrimRight(codeIndent+line, " \t") + "\n"
		}
		shown := ""
		for row := range strings.Lines(got) {
			shown += strings.TrimRight(plain(strings.TrimSuffix(row, "\n")), " \t") + "\n"
		}
		if strings.TrimLeft(shown, "\n") != strings.TrimLeft(trimBlankRows(want), "\n") {
			t.Fatalf("%q is shown as %q, want %q", code, shown, want)
		}
	})
}

// trimBlankRows takes the blank rows off the beginning.
func trimBlankRows(text string) string {
	for {
		row, rest, ok := strings.Cut(text, "\n")
		if !ok || strings.TrimSpace(row) != "" {
			return text
		}
		text = rest
	}
}

// plain is text without its colours.
func plain(text string) string {
	var b strings.Builder
	for text != "" {
		if n := colourLength(text); n > 0 {
			text = text[n:]
			continue
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

// A window that changes its width in the middle of a block takes nothing away.
func TestResizeInABlock(t *testing.T) {
	words := func(text string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(text, "│", "")), " ")
	}
	want := words(whole(New(Options{Width: 500}), talk))
	for at := 0; at < len(talk); at += 37 {
		for at > 0 && talk[at]&0xc0 == 0x80 {
			at++
		}
		r := New(Options{Width: 120})
		got := r.stream(talk[:at])
		r.Resize(21)
		r.Tail(4)
		r.Resize(500)
		got += r.stream(talk[at:]) + r.Flush()
		if words(got) != want {
			t.Fatalf("resized at %d it is\n%s\nwant\n%s", at, words(got), want)
		}
	}
}

// What is at work stands in columns, also with tools, in a narrow and a wide window.
func TestLiveRows(t *testing.T) {
	var b strings.Builder
	for _, o := range []Options{{Width: 40}, {Width: 200}, {Width: 80, ASCII: true}} {
		r := New(o)
		for i, command := range []string{"go test ./... -run 'TestEverythingThatTakesLong' -count=1 -race", "sleep 1", "too soon"} {
			r.Event(agent.Event{Type: agent.EventToolStart, CallID: fmt.Sprint(i), Tool: "shell", Time: noon().Add(-time.Duration(20-10*i) * time.Second),
				Args: []byte(fmt.Sprintf(`{"command":%q}`, command))})
		}
		list := family()
		for i := range 10 {
			list = append(list, crew.Agent{ID: fmt.Sprintf("part_%d", i), Parent: "ralph", State: crew.Running, Since: noon().Add(-time.Minute), Doing: "read file.go"})
		}
		rows := r.AtWork(list[1:], false, noon())
		fmt.Fprintf(&b, "%d columns\n%s\n", o.Width, strings.Join(rows, "\n"))
		for _, row := range rows {
			if columns(row) >= o.Width {
				t.Errorf("width %d: %q is too wide", o.Width, row)
			}
		}
		if len(rows) != shownAtWork+1 {
			t.Errorf("width %d: %d rows", o.Width, len(rows))
		}
		if rows := strings.Join(r.AtWork(list[1:], true, noon()), "\n"); strings.Contains(rows, "shell") || !strings.Contains(rows, "part_") {
			t.Errorf("while a question waits the tools, and not the agents, are left out: %s", rows)
		}
		r.Event(agent.Event{Type: agent.EventTurnStart, Turn: 2})
		if rows := r.AtWork(nil, false, noon()); len(rows) > 0 {
			t.Errorf("after its turn a tool is shown: %q", rows)
		}
	}
	golden(t, "live", b.String())
}

// BenchmarkTokens is what one token of a long answer costs, live rows included.
func BenchmarkTokens(b *testing.B) {
	r := New(Options{Width: 100, Theme: ThemeDark})
	b.ReportAllocs()
	rest := ""
	for i := 0; b.Loop(); i++ {
		if rest == "" {
			rest = talk + "\n"
		}
		n := min(4, len(rest))
		r.Event(agent.Event{Type: agent.EventMessageDelta, Text: rest[:n]})
		rest = rest[n:]
		if i%100 == 0 { // a look at ten frames a second and a thousand tokens
			r.Tail(4)
		}
	}
}

func BenchmarkLanguages(b *testing.B) {
	code := strings.Repeat("for i := range list { call(i, \"text\") } // go on\n", mostCode)
	for _, lang := range []string{"go", "python", "json", "nonsense", "bash", "html", "diff"} {
		b.Run(lang, func(b *testing.B) {
			m := markdown{theme: ThemeDark, width: 80}
			b.SetBytes(int64(len(code)))
			for b.Loop() {
				m.highlight(lang, code)
			}
		})
	}
}
