package line

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// fed decodes chunks, then waits for whatever is waited for.
func fed(chunks ...string) []key { return fedTo(&decoder{}, chunks...) }

// fedBare is fed for a terminal that does not mark what is pasted.
func fedBare(chunks ...string) []key {
	return fedTo(&decoder{paster: paster{bare: true}}, chunks...)
}

func fedTo(d *decoder, chunks ...string) []key {
	var keys []key
	for _, c := range chunks {
		keys = append(keys, d.feed([]byte(c))...)
	}
	for d.patience() >= 0 {
		keys = append(keys, d.flush()...)
	}
	return keys
}

// told writes keys down: «» holds a paste.
func told(keys []key) string {
	var b strings.Builder
	for _, k := range keys {
		switch k.code {
		case keyPaste:
			fmt.Fprintf(&b, "«%s»", k.text)
		case keyEnter:
			b.WriteString("⏎")
		case keyNewline:
			b.WriteString("↓")
		case keyRune:
			b.WriteRune(k.r)
		case keyAlt:
			fmt.Fprintf(&b, "M-%c", k.r)
		case keyControl:
			fmt.Fprintf(&b, "C-%c", k.r|0x60)
		default:
			fmt.Fprintf(&b, "<%d>", k.code)
		}
	}
	return b.String()
}

func TestPastes(t *testing.T) {
	const on, off = pasteBegin, pasteEnd
	for _, c := range []struct {
		name string
		in   []string
		want string
	}{
		{"plain", []string{on + "a b" + off}, "«a b»"},
		{"line ends", []string{on + "a\r\nb\rc\nd" + off}, "«a\nb\nc\nd»"},
		{"binary", []string{on + "a\x00\xff\x01\x1b[31m\x7f" + off}, "«a\uFFFD\uFFFD\x01\x1b[31m\x7f»"},
		{"cut anywhere", strings.Split(on+"ab"+off, ""), "«ab»"},
		{"cut between CR and LF", []string{on + "a\r", "\nb" + off}, "«a\nb»"},
		{"keys before and after", []string{"x" + on + "a" + off + "y\r"}, "x«a»y⏎"},
		{"two", []string{on + "a" + off + on + "b" + off}, "«a»«b»"},
		{"two and Enter between", []string{on + "a" + off + "\r" + on + "b" + off}, "«a»⏎«b»"},
		{"the end marker inside", []string{on + "a" + off + "rm -rf x\r" + off}, "«a" + off + "rm -rf x\n»"},
		{"the end marker inside, in the next read", []string{on + "a" + off + "rm -rf x\r", "b" + off}, "«a" + off + "rm -rf x\nb»"},
		{"end markers only", []string{on + off + off + off}, "«" + off + off + "»"},
		{"the beginning inside", []string{on + "a" + on + "b" + off}, "«a" + on + "b»"},
		{"never ends", []string{on + "a\nb"}, "«a\nb»"},
		{"ends in half a marker", []string{on + "a\x1b[20"}, "«a\x1b[20»"},
		{"half a marker, then more", []string{on + "a\x1b[20", "1x" + off}, "«a\x1b[201x»"},
		{"much behind the end", []string{on + "a" + off + strings.Repeat("z\r", maxBehind)}, "«a" + off + strings.Repeat("z\n", maxBehind) + "»"},

		{"a command sent at once", []string{"ls\r"}, "ls⏎"},
		{"commands sent at once", []string{"a\nb\n/exit\n"}, "a⏎b⏎/exit⏎"},
		{"a long command sent at once", []string{strings.Repeat("x", 300) + "\r"}, "«" + strings.Repeat("x", 300) + "»⏎"},
		{"pasted without markers", []string{"1\r2\r3\r4\r5"}, "«1\n2\n3\n4\n5»"},
		{"pasted without markers, ending a line", []string{"1\r2\r3\r4\r5\r"}, "«1\n2\n3\n4\n5\n»"},
		{"code without markers", []string{"if x {\r\ty()\r}"}, "«if x {\n\ty()\n}»"},
		{"code with blanks", []string{"if x:\n  y()\n"}, "«if x:\n  y()\n»"},
		{"pasted in two reads", []string{"1\r2\r3\r4\r5\r6", "7\r8\r"}, "«1\n2\n3\n4\n5\n67\n8\n»"},
		{"a character cut in two", []string{strings.Repeat("x", 200) + "\xe4\xb8", "\x96y"}, "«" + strings.Repeat("x", 200) + "世y»"},
		{"a key ends it", []string{"1\r2\r3\r4\r5", "\x03"}, "«1\n2\n3\n4\n5»C-c"},
		{"a key among it", []string{"1\r2\r3\r4\r\x035"}, "1⏎2⏎3⏎4⏎C-c5"},
		{"Ctrl-C behind ESC", []string{"\x1b\x03"}, fmt.Sprintf("<%d>C-c", keyEscape)},
		{"Ctrl-C behind half a reply", []string{"\x1b]11;rgb", "\x03"}, "C-c"},
		{"Ctrl-C behind half a sequence", []string{"\x1b[1;", "\x03"}, "C-c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := told(fedBare(c.in...)); got != c.want {
				t.Errorf("got %.200q, want %.200q", got, c.want)
			}
		})
	}
}

// TestPasteIsExact: what is submitted is what was pasted, however the bytes are cut.
func TestPasteIsExact(t *testing.T) {
	h := newHand(t, Options{})
	defer h.loop.engine.close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 100, 5_000, 5 << 20} {
		runes := make([]rune, 0, size)
		for n := 0; n < size; n += 2 {
			runes = append(runes, []rune("a b\n\t\x1b[\x01世🚀\U00100000")[r.IntN(11)])
		}
		text := string(runes)
		began := time.Now()
		raw := pasteBegin + text + pasteEnd
		for len(raw) > 0 {
			n := min(len(raw), 1+r.IntN(4096))
			for _, k := range h.d.feed([]byte(raw[:n])) {
				h.key(k)
			}
			raw = raw[n:]
		}
		h.types("!\r")
		ev := h.said()
		if len(ev) != 1 || ev[0].Text != text+"!" {
			t.Fatalf("%d bytes came as %d events", len(text), len(ev))
		}
		t.Logf("%d bytes in %v", len(text), time.Since(began))
	}
}

func TestPasteTimes(t *testing.T) {
	var d decoder
	for _, c := range []struct {
		in   string
		want time.Duration
	}{{"a", -1}, {"\x1b", escapeWait}, {"[A", -1}, {pasteBegin + "x", pasteWait}, {pasteEnd, -1}, {pasteBegin + "x" + pasteEnd + "y", escapeWait}} {
		d.feed([]byte(c.in))
		if got := d.patience(); got != c.want {
			t.Errorf("after %q it waits %v, want %v", c.in, got, c.want)
		}
	}
}

func TestFolder(t *testing.T) {
	var f folder
	long := strings.Repeat("a\n", 20) + "end"
	other := strings.Replace(long, "a", "b", 1)
	one, two, wide := f.fold(long), f.fold(other), f.fold(strings.Repeat("w", 3000))
	line, _ := f.drawn([]rune(one+two+wide), 0)
	if got := string(line); got != "[pasted 21 lines, 43 bytes][pasted 21 lines, 43 bytes #2][pasted 3000 characters]" {
		t.Errorf("drawn as %q", got)
	}
	if f.fold(long) != one || f.fold("short\ntext") != "short\ntext" || len([]rune(one)) != 1 {
		t.Errorf("folded to %q", one)
	}
	text := "x " + one + " [pasted 21 lines, 43 bytes] " + two + "["
	if got := f.unfold(text); got != "x "+long+" [pasted 21 lines, 43 bytes] "+other+"[" {
		t.Errorf("unfolded to %q", got)
	}
	// A text with a rune that looks like a token comes back as it was.
	odd := "odd " + one
	if got := f.fold(odd); got == odd || f.unfold(got) != odd {
		t.Errorf("%q was folded to %q and back to %q", odd, got, f.unfold(got))
	}
	if got := f.own("a" + one + "\U0010F000"); got != "a"+one+"\uFFFD" {
		t.Errorf("owned as %q", got)
	}
	for _, c := range []struct{ pos, want int }{{0, 0}, {1, 1}, {2, 28}, {3, 29}} {
		if _, at := f.drawn([]rune("a"+one+"b"), c.pos); at != c.want {
			t.Errorf("the cursor at %d is drawn at %d, want %d", c.pos, at, c.want)
		}
	}
}

// TestTokenIsOneCharacter: the cursor steps over a folded paste and a key takes it
// away as a whole, in both modes.
func TestTokenIsOneCharacter(t *testing.T) {
	for _, c := range []struct{ mode, keys string }{
		{"", "\x1b[D\x1b[D!"},
		{"", "\x1b[D\x1b[D\x1b[Cx"},
		{"", "\x1b[D\x1b[D\x7f"},
		{"", "\x17\x17"},
		{"vi", "\x1bhhx"},
	} {
		h := newHand(t, Options{EditMode: c.mode})
		h.types("a \x1b[200~" + strings.Repeat("row\n", 30) + "\x1b[201~ b")
		line := h.loop.now.line
		if n := len(line); n != 5 || !isToken(line[2]) {
			t.Fatalf("the line has %d characters", n)
		}
		h.types(c.keys)
		h.loop.engine.close()
		gone := !slices.ContainsFunc(h.loop.now.line, isToken)
		if want := strings.ContainsAny(c.keys, "\x7f\x17") || c.mode == "vi"; gone != want {
			t.Errorf("after %q the paste is gone: %v; the line is %q", c.keys, gone, h.at())
		}
	}
}

func TestDrafts(t *testing.T) {
	var told []string
	h := newHand(t, Options{Draft: strings.Repeat("begun\n", 30), OnDraft: func(s string) { told = append(told, s) }})
	defer h.loop.engine.close()
	if h.at() != "[pasted 30 lines, 180 bytes]|" {
		t.Errorf("the line begins as %q", h.at())
	}
	h.noteDraft()
	h.tellDraft()
	if len(told) > 0 {
		t.Errorf("nothing has changed, but %q was told", told)
	}
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		told = nil
	}
	h.types("\x15x")
	h.noteDraft()
	expect()
	h.tellDraft() // as its timer does
	expect("x")
	h.loop.edit.draft.since = time.Now().Add(-2 * draftLate)
	h.types("y")
	h.noteDraft()
	expect("xy") // a line that never rests
	h.types("\r")
	expect("")
	h.types("z\x18\x05")
	expect("z")
	h.types("\x03")
	expect("")
	h.types("later")
	h.leaveLine()
	h.loop.asked = 1
	h.types(" yes\r")
	h.noteDraft()
	expect("later") // the answer to a question is no draft
}

// Whoever reads the end of the input says then what is kept: it must be known.
func TestDraftBeforeTheEnd(t *testing.T) {
	told := "untold"
	h := newHand(t, Options{Draft: "begun", OnDraft: func(s string) { told = s }})
	defer h.loop.engine.close()
	h.types("\x15")
	h.noteDraft()
	h.types("\x04")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventEOF || told != "" {
		t.Errorf("said %+v, told %q", ev, told)
	}
}

func TestDraftOfATerminal(t *testing.T) {
	y := openTTY(t, 60, 10)
	_ = y.reader.Close()
	told := make(chan string, 16)
	r, err := Open(Options{In: y.Slave, Out: y.Slave, Getenv: xterm, Draft: "begun", OnDraft: func(s string) { told <- s }})
	if err != nil {
		t.Fatal(err)
	}
	y.reader = r
	next := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%q was not told", want)
		}
	}
	r.Show(idle())
	y.Has("ralph ❯ begun▏")
	y.Type("!")
	next("begun!")
	y.Type("?")
	y.Has("begun!?")
	_ = r.Close() // at once, without the rest
	next("begun!?")
}

// Where pastes are marked, what comes without marks is typed, however fast.
func TestFastTyping(t *testing.T) {
	for in, want := range map[string]string{
		"1\r2\r3\r4\r5\r6\r":                   "1⏎2⏎3⏎4⏎5⏎6⏎",
		strings.Repeat("x", 200) + "\r/exit\r": "«" + strings.Repeat("x", 200) + "»⏎«/exit»⏎",
		"  a\r\tb\r":                           "  a⏎<5>b⏎",
	} {
		if got := told(fed(in)); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	if !bare(env("TERM", "screen-256color")) || !bare(env("TERM", "linux")) || bare(env("TERM", "screen-256color", "TMUX", "x")) || bare(env("TERM", "xterm-256color")) {
		t.Error("which terminals mark a paste is not known")
	}
}
