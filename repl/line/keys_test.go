package line

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hand is a terminal without a screen: keys in, the line out.
type hand struct {
	*Term
	d decoder
}

func newHand(t testing.TB, o Options) *hand {
	t.Helper()
	e, err := newEngine(o.History)
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{Term: &Term{o: o, events: make(chan Event), quit: make(chan struct{})}}
	h.loop.engine, h.loop.cols, h.loop.rows = e, 60, 12
	h.loop.screen.cols = 60
	h.startDraft()
	return h
}

// types does what the bytes ask for, however long they are in one read.
func (h *hand) types(in string) {
	keys := h.d.decode(false)
	h.d.buf = append(h.d.buf, in...)
	keys = append(keys, h.d.decode(false)...)
	for h.d.patience() >= 0 {
		keys = append(keys, h.d.flush()...)
	}
	for _, k := range keys {
		h.key(k)
	}
}

// at is the line with a bar for the cursor, tokens as their labels.
func (h *hand) at() string {
	line, pos := h.loop.fold.drawn(h.loop.now.line, h.loop.now.pos)
	return string(line[:pos]) + "|" + string(line[pos:])
}

// begin puts a line with a bar for the cursor in place.
func (h *hand) begin(text string) {
	before, after, _ := strings.Cut(text, "|")
	h.put([]rune(before+after), len([]rune(before)))
	h.loop.edit.undo = undo{}
}

func (h *hand) said() []Event {
	out := h.loop.outbox
	h.loop.outbox = nil
	return out
}

type keyCase struct{ start, keys, want string }

func TestEmacsKeys(t *testing.T) {
	for _, c := range []keyCase{
		{"one two|", "\x01", "|one two"},
		// As readline has it, an underscore parts words.
		{"foo_bar|", "\x1bb", "foo_|bar"},
		{"|foo_bar", "\x1bd", "|_bar"},
		// A walk through the rows keeps its column.
		{"a long row\nb\nlast r|ow", "\x1b[A\x1b[A", "a long| row\nb\nlast row"},
		{"a lon|g row\n\nlast row", "\x0e\x0e", "a long row\n\nlast |row"},
		{"a lon|g row\n\nlast row", "\x0e\x06\x1b[A\x1b[A", "|a long row\n\nlast row"},
		{"one\ntwo|", "\x01", "one\n|two"},
		{"o|ne\ntwo", "\x05", "one|\ntwo"},
		{"one| two", "\x0b", "one|"},
		{"one|\ntwo", "\x0b", "one|two"},
		{"one\nt|wo", "\x15", "|wo"},
		{"one\n|two", "\x15", "|two"},
		{"one a-b|", "\x17", "one |"},
		{"one a-b|", "\x1b\x7f", "one a-|"},
		{"one a-b|", "\x1b\x08", "one a-|"},
		{"one| two three", "\x1bd", "one| three"},
		{"one| two three", "\x1b[3;5~", "one| three"},
		{"one two|", "\x1bb\x1bb", "|one two"},
		{"|one two", "\x1bf", "one| two"},
		{"|one two", "\x1b[1;3C\x1b[1;5C", "one two|"},
		{"|one two", "\x1b\x1b[C", "one| two"}, // rxvt
		{"|one two", "\x1bOc", "one| two"},     // rxvt
		{"|one two three", "\x1bd\x1bd\x05\x19", " threeone two|"},
		{"one two three|", "\x17\x17\x01\x19", "two three|one "},
		{"a|", "\x15b\x15\x19\x1by", "a|"},
		{"a|", "\x15b\x15\x19\x1by\x1by", "b|"},
		{"acb|", "\x14", "abc|"},
		{"a🚀|b", "\x14", "ab🚀|"},
		{"|", "hello world\x1f", "hello |"},
		{"|", "hello world\x1f\x1f", "|"},
		{"|", "hello \x18\x15", "|"},
		{"word|", "\x17\x1f", "word|"},
		{"x|", "\x1b<", "first|"},
		{"x|", "\x1b<\x1b>", "x|"},
		{"x |", "\x1b.", "x third.go|"},
		{"x |", "\x1b.\x1b.", "x line|"},
		{"|over here", "\x1bu", "OVER| here"},
		{"|OVER here", "\x1bl", "over| here"},
		{"| over here", "\x1bc", " Over| here"},
		{"x|", "\x10", "cat third.go|"},
		{"x|", "\x10\x10\x0e\x0e", "x|"},
		{"|", "\x12fir\x05", "first|"},
		{"x|", "\x12cat\x07", "x|"},
		{"|", "\x12i\x12", "second l|ine"},
		{"|", "\x12i\x12\x12\x13", "second li|ne"},
		{"a|b", "\x1b[13;2u", "a\n|b"},
		{"a|b", "\x1b[27;5;13~", "a\n|b"},
		{"a|b", "\x1b\r", "a\n|b"},
		{"a|b", "\n", "a\n|b"},
		{"ab|", "\x1b[97;5u", "|ab"},   // Ctrl-A as kitty says it
		{"ab|", "\x1b[98;3u", "|ab"},   // Alt-B
		{"ab|", "\x1b[97;5:3u", "ab|"}, // let go
		{"ab|", "\x1b[127;5u", "|"},
		{"ab|", "\x1b[H", "|ab"}, {"ab|", "\x1b[1~", "|ab"}, {"ab|", "\x1b[7~", "|ab"}, {"ab|", "\x1bOH", "|ab"}, {"ab|", "\x1b[7^", "|ab"},
		{"|ab", "\x1b[F", "ab|"}, {"|ab", "\x1b[4~", "ab|"}, {"|ab", "\x1b[8~", "ab|"}, {"|ab", "\x1bOF", "ab|"}, {"|ab", "\x1b[1;2F", "ab|"},
		{"a|b", "\x1b[M !!", "a|b"},    // a mouse of old
		{"a|b", "\x1b[<0;3;4M", "a|b"}, // a mouse
		{"a|b", "\x1b[I\x1b[O", "a|b"}, // focus
		{"a|b", "\x1b[[Ax", "ax|b"},    // F1 on the Linux console
		{"a|b", "\x1b[5~", "a|b"},      // no earlier line begins so, and a cursor inside looks for none
		{"|", "\x1bOj\x1bOp", "*0|"},   // the keypad
		{"家族|", "\x7f", "家|"},          //
		{"x👨‍👩‍👧|", "\x7f", "x|"},      // one family
		{"x🇩🇪🇫🇷|", "\x7f", "x🇩🇪|"},     // one of two flags
		{"xe\u0301|", "\x1b[D", "x|e\u0301"},
		{"|1️⃣x", "\x1b[C", "1️⃣|x"},
		{"|👍🏽x", "\x04", "|x"},
	} {
		t.Run(fmt.Sprintf("%s %q", c.start, c.keys), func(t *testing.T) {
			h := newHand(t, Options{History: []string{"first", "second line", "cat third.go"}})
			defer h.loop.engine.close()
			h.begin(c.start)
			h.types(c.keys)
			if c.start == "a|b" && c.keys == "\x1b[5~" {
				c.want = "cat third.go|"
			}
			if got := h.at(); got != c.want {
				t.Errorf("%q after %q is %q, want %q", c.start, c.keys, got, c.want)
			}
		})
	}
}

func TestViKeys(t *testing.T) {
	for _, c := range []keyCase{
		{"one\nt|wo\nthree", "\x1bd_", "one\n|three"},
		{"o|ne\ntwo\nthree", "\x1bd2_", "|three"},
		{"one\n  two| x", "\x1bc_new", "one\nnew|"},
		{"one tw|o", "\x1b_", "|one two"},
		{"o|ne two three", "\x1bd2aw", "|three"},
		{"o|ne two three", "\x1b2daw", "|three"},
		{"o|ne two three", "\x1bc2iwx", "x|two three"},
		{"a long r|ow\nb\nlast row", "\x1bjj", "a long row\nb\nlast ro|w"},
		{"a long r|ow\nb\nlast one", "\x1b2j", "a long row\nb\nlast on|e"},
		{"|", "hello\x1b", "hell|o"},
		{"|", "hello\x1b0x", "|ello"},
		{"one two| three", "\x1bb", "one |two three"},
		{"one two three|", "\x1bbb", "one |two three"},
		{"|one two three", "\x1bw", "one |two three"},
		{"|one two three", "\x1b2w", "one two |three"},
		{"|one two", "\x1be", "on|e two"},
		{"|one two", "\x1bee", "one tw|o"},
		{"|a.b c", "\x1bw", "a|.b c"},
		{"|a.b c", "\x1bW", "a.b |c"},
		{"|a.b c", "\x1bE", "a.|b c"},
		{"a.b c|", "\x1bB", "|a.b c"},
		{"a.b cd|", "\x1bBB", "|a.b cd"},
		{"  one|", "\x1b^", "  |one"},
		{"  one|", "\x1b0", "|  one"},
		{"|one", "\x1b$", "on|e"},
		{"|one", "\x1b9l", "on|e"},
		{"one|", "\x1b9h", "|one"},
		{"|a(b)c", "\x1bfb", "a(|b)c"},
		{"|abcabc", "\x1bfb;", "abca|bc"},
		{"|abcabc", "\x1bfb;,", "a|bcabc"},
		{"|abcabc", "\x1btc", "a|bcabc"},
		{"|abcabc", "\x1btc;", "abca|bc"},
		{"abcabc|", "\x1bFa", "abc|abc"},
		{"abcabc|", "\x1bTa", "abca|bc"},
		{"|abcabc", "\x1b2fb", "abca|bc"},
		{"|abc", "\x1bfz", "|abc"},
		{"|a(b(c)d)", "\x1b%", "a(b(c)d|)"},
		{"|a(b(c)d)", "\x1b%%", "a|(b(c)d)"},
		{"|one\ntwo\nthree", "\x1bG", "one\ntwo\n|three"},
		{"|one\ntwo\nthree", "\x1b2G", "one\n|two\nthree"},
		{"one\ntwo\nth|ree", "\x1bgg", "|one\ntwo\nthree"},
		{"|one\ntwo", "\x1bj", "one\n|two"},
		{"one\ntwo|", "\x1bk", "on|e\ntwo"},
		{"|", "\x1bk", "las|t"},
		{"|", "\x1bkk", "second lin|e"},
		{"x|", "\x1bkj", "|x"},
		{"|one two", "\x1bx", "|ne two"},
		{"|one two", "\x1b3x", "| two"},
		{"one| two", "\x1bX", "o|e two"},
		{"|one two", "\x1bdw", "|two"},
		{"|one two three", "\x1bd2w", "|three"},
		{"|one two three four five", "\x1b2d2w", "|five"},
		{"one |two\nthree", "\x1bldw", "one| \nthree"},
		{"one |two", "\x1bld$", "one| "},
		{"one |two", "\x1blD", "one| "},
		{"one |two", "\x1blCx", "one x|"},
		{"|one two", "\x1bcwsix\x1b", "si|x two"},
		{"|one two", "\x1bcesix\x1b", "si|x two"},
		{"|one two", "\x1bde", "| two"},
		{"|one two", "\x1bdf ", "|two"},
		{"|one two", "\x1bdt ", "| two"},
		{"one |two", "\x1bldb", "|two"},
		{"|one\ntwo\nthree", "\x1bdd", "|two\nthree"},
		{"|one\ntwo\nthree", "\x1b2dd", "|three"},
		{"|one\ntwo\nthree", "\x1bdj", "|three"},
		{"|one\ntwo\nthree", "\x1bdG", "|"},
		{"one\ntwo\nthr|ee", "\x1bdd", "one\n|two"},
		{"one\ntwo\nthr|ee", "\x1bdgg", "|"},
		{"|one\ntwo", "\x1bccx", "x|\ntwo"},
		{"|one\ntwo", "\x1bSx", "x|\ntwo"},
		{"|one\ntwo", "\x1byyp", "one\n|one\ntwo"},
		{"|one\ntwo", "\x1bYP", "|one\none\ntwo"},
		{"|one\ntwo", "\x1byjGp", "one\ntwo\n|one\ntwo"},
		{"|one two", "\x1bywP", "one| one two"},
		{"|one two", "\x1byw$p", "one twoone| "},
		{"|one two", "\x1byw$2p", "one twoone one| "},
		{"|ab", "\x1bxp", "b|a"},
		{"|one", "\x1bsx", "x|ne"},
		{"|one", "\x1brx", "|xne"},
		{"|one", "\x1b2rx", "x|xe"},
		{"|one", "\x1b9rx", "|one"},
		{"|one", "\x1b~~", "ON|e"},
		{"|one\ntwo", "\x1bJ", "one| two"},
		{"|one\n  two\nthree", "\x1b3J", "one two| three"},
		{"|one", "\x1bA!\x1b", "one|!"},
		{"  on|e", "\x1bI!\x1b", "  |!one"},
		{"|one", "\x1bax\x1b", "o|xne"},
		{"|one", "\x1box\x1b", "one\n|x"},
		{"one|", "\x1b\x1bix\x1b", "on|xe"},
		{"|one\ntwo", "\x1bjOx\x1b", "one\n|x\ntwo"},
		{"|one two three", "\x1bdw.", "|three"},
		{"|one two three", "\x1bdw2.", "|"},
		{"|one two", "\x1bcwx\x1bw.", "x |x"},
		{"|ab", "\x1bix\x1bll.", "xa|xb"},
		{"|abcdef", "\x1bxu", "|abcdef"},
		{"|abcdef", "\x1bxxuu", "|abcdef"},
		{"|abcdef", "\x1bxxuu\x12\x12", "|cdef"},
		{"|abcdef", "\x1bxx2u2\x12", "|cdef"},
		{"|", "one two three\x1bu", "|"},
		{"one|", "\x1bA two\x1bu", "on|e"},
		{"|say \"one two\" now", "\x1bci\"x\x1b", "say \"|x\" now"},
		{"|f(a, b)", "\x1bf,di(", "f(|)"},
		{"|f(a, b)", "\x1bf,da(", "|f"},
		{"one t|wo three", "\x1bdiw", "one | three"},
		{"one t|wo three", "\x1bdaw", "one |three"},
		{"one t|wo", "\x1bdaw", "on|e"},
		{"|x", "\x1b/sec\r", "second lin|e"},
		{"|x", "\x1b/sec\rN", "second lin|e"},
		{"|x", "\x1b/s\rn", "second lin|e"},
		{"|x", "\x1b/s\rnn", "firs|t"},
		{"|x", "\x1b/s\rnnN", "second lin|e"},
		{"|x", "\x1b/nothing\r", "|x"},
		{"|x", "\x1b/sec\x1bd0", "|x"},
		{"|x", "\x1bkkk?sec\r", "second lin|e"},
		{"|one", "\x1bd\x1bx", "|ne"},
		{"|one", "\x1b5\x1bx", "|ne"},
		{"|one", "\x1bdz", "|one"},
		{"|家族x", "\x1blx", "家|x"},
		{"|👨‍👩‍👧x", "\x1bx", "|x"},
		{"|a👨‍👩‍👧b", "\x1bll", "a👨‍👩‍👧|b"},
		{"|", "\x1bx0$^wbe;,%pPuJ~dddw", "|"},
		{"|one", "\x1b\x1b[200~zz\x1b[201~", "oz|zne"},
		{"on|e", "\x1b[A\x1b[B", "one|"},
	} {
		t.Run(fmt.Sprintf("%s %q", c.start, c.keys), func(t *testing.T) {
			h := newHand(t, Options{EditMode: "vi", History: []string{"first", "second line", "last"}})
			defer h.loop.engine.close()
			h.begin(c.start)
			h.types(c.keys)
			if got := h.at(); got != c.want {
				t.Errorf("%q after %q is %q, want %q", c.start, c.keys, got, c.want)
			}
		})
	}
}

func TestViModeIsSeenAndLeft(t *testing.T) {
	h := newHand(t, Options{EditMode: "vi"})
	defer h.loop.engine.close()
	h.loop.want = Prompt{Text: "ralph", Mark: "❯ "}
	mark := func() string { p, _ := h.shown(); return p.Mark }
	h.types("abc")
	if mark() != "❯ " {
		t.Errorf("in insert mode the mark is %q", mark())
	}
	h.types("\x1b")
	if mark() != "❮ " {
		t.Errorf("in normal mode the mark is %q", mark())
	}
	for m, want := range map[string]string{"> ": "< ", "? ": "[n] ? "} {
		if got := normalMark(m); got != want {
			t.Errorf("the mark %q becomes %q", m, got)
		}
	}
	h.types("/xy")
	if _, s := h.shown(); !s.searching || s.search != "/xy" {
		t.Errorf("the search is shown as %+v", s)
	}
	h.types("\x1b")
	h.types("\r") // submits in normal mode
	if ev := h.said(); len(ev) != 1 || ev[0].Text != "abc" || h.loop.edit.vi.normal {
		t.Errorf("got %+v, normal %v", ev, h.loop.edit.vi.normal)
	}
	h.types("draft\x1b\x03x")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventInterrupt || ev[0].Text != "draft" || h.at() != "x|" {
		t.Errorf("after Ctrl-C %+v and %q", ev, h.at())
	}
	h.types("\x1bv")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventEditor || ev[0].Text != "x" {
		t.Errorf("v said %+v", ev)
	}
	h.types("x")
	h.types("\x04")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventEOF {
		t.Errorf("Ctrl-D said %+v", ev)
	}
}

// TestViOnATerminal: a lone ESC changes the mode by itself, and the mark says so.
func TestViOnATerminal(t *testing.T) {
	y := openTTY(t, 60, 10)
	_ = y.reader.Close()
	<-y.reader.(*Term).served // on a busy machine Close does not wait for it, and it restores the modes
	r, err := Open(Options{In: y.Slave, Out: y.Slave, Getenv: xterm, EditMode: "vi"})
	if err != nil {
		t.Fatal(err)
	}
	y.reader = r
	r.Show(idle())
	y.Type("one two")
	y.Has("ralph ❯ one two▏")
	y.Type("\x1b")
	y.Has("ralph ❮ one tw▏o")
	y.Type("bcwsix")
	y.Has("ralph ❯ one six▏")
	y.Type("\x1b0/")
	y.Has("ralph ❮ ▏one six\n/")
	y.Type("\x1b")
	y.Until("the end of the search", func(s string) bool { return !strings.Contains(s, "/") })
	y.Type("\r")
	y.line("one six")
	y.Has("ralph ❯ ▏")
}

func TestEditorKey(t *testing.T) {
	h := newHand(t, Options{})
	defer h.loop.engine.close()
	long := strings.Repeat("pasted row\n", 20)
	h.types("see \x1b[200~" + long + "\x1b[201~")
	h.types("\x18\x05")
	if ev := h.said(); len(ev) != 1 || ev[0].Kind != EventEditor || ev[0].Text != "see "+long {
		t.Errorf("C-x C-e said %+v", ev)
	}
	h.types("\x18x") // C-x alone swallows no key
	if !strings.HasSuffix(h.at(), "x|") {
		t.Errorf("the line is %q", h.at())
	}
}

func TestUpLooksForWhatIsTyped(t *testing.T) {
	h := newHand(t, Options{History: []string{"git status", "make", "git log", "make test"}})
	defer h.loop.engine.close()
	const up, down = "\x1b[A", "\x1b[B"
	for _, c := range []struct{ keys, want string }{
		{"gi" + up, "git log|"}, {up, "git status|"}, {up, "git status|"}, {down, "git log|"}, {down, "gi|"}, {down, "gi|"},
		{"\x15zz" + up, "make test|"}, {up, "git log|"}, {down, "make test|"}, {down, "zz|"},
		{"\x15" + up, "make test|"}, {up, "git log|"},
		{"!" + down, "make test|"}, {up, "git log!|"}, // what was changed is still there
		{"\x1b>\x15ma" + "\x1b[5~", "make test|"}, {"\x1b[5~", "make|"}, {"\x1b[6~", "make test|"},
		{"\x1b<\x15ma" + up, "make test|"}, {up, "make|"}, // another line than the recalled one
		{"\x1b>\x15ma\x10", "make test|"}, {"\x10", "git log!|"}, // C-p takes all
	} {
		h.types(c.keys)
		if h.at() != c.want {
			t.Fatalf("after %q the line is %q, want %q", c.keys, h.at(), c.want)
		}
	}
}

func TestNewlineTakesWhatWasFound(t *testing.T) {
	h := newHand(t, Options{History: []string{"git status", "make"}})
	defer h.loop.engine.close()
	h.types("\x12sta\n")
	if h.loop.now.searching || string(h.loop.now.line) != "git status" || len(h.said()) != 0 {
		t.Errorf("the line is %q", h.at())
	}
}

func TestPrivateLinesAreNotFound(t *testing.T) {
	h := newHand(t, Options{})
	defer h.loop.engine.close()
	h.types("one\r")
	h.types(" secret\r")
	h.types("!cmd\r")
	h.types("/help\r")
	for _, want := range []string{"/help|", "!cmd|", "one|", "one|"} {
		if h.types("\x10"); h.at() != want {
			t.Fatalf("the line is %q, want %q", h.at(), want)
		}
	}
	h.types("\x15\x12sec")
	if _, s := h.shown(); !strings.HasPrefix(s.search, noMatch) {
		t.Errorf("the search found %q: %q", h.at(), s.search)
	}
}

// TestUndoGivesBack: whatever was done to a line, undoing all of it gives back the
// line from before.
func TestUndoGivesBack(t *testing.T) {
	keys := []string{"a", "b ", "世", "e\u0301", "\x1b[D", "\x1b[C", "\x7f", "\x04", "\x01", "\x05", "\x0b", "\x15", "\x17", "\x19", "\x1by", "\x1bd", "\x14", "\x1bu", "\n",
		"\x10", "\x0e", "\x1b[A", "\x1b[B", "\x12s", "\x07", "\x1b.", "\t", "\x1b[Z", "\x1b[200~x\ny\x1b[201~", "\x1b[200~" + strings.Repeat("z", 2000) + "\x1b[201~"}
	commands := []string{"\x1b", "i", "a", "o", "O", "dd", "dw", "cw", "x", "X", "p", "P", "yy", "J", "~", "D", "S", ".", "2", "k", "j", "w", "b", "G", "0", "$", "rx", "fb", ";", "/s\r", "n", "daw"}
	for _, mode := range []string{"emacs", "vi"} {
		t.Run(mode, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				h := newHand(t, Options{EditMode: mode, History: []string{"first", "second\nrow", "third"}, Complete: func(text string) Completion {
					return Completion{From: len(text), Words: []Word{{Text: "aa"}, {Text: "ab", Detail: "x"}}}
				}})
				defer h.loop.engine.close()
				h.begin("the begin|ning")
				all := keys
				if mode == "vi" {
					all = slices.Concat(keys, commands, commands)
				}
				for _, k := range rapid.SliceOfN(rapid.SampledFrom(all), 1, 40).Draw(r, "keys") {
					if v := h.loop.edit.vi; strings.HasSuffix(k, "\r") && (!v.normal || v.op != 0 || v.wait != 0) {
						continue // it would submit
					}
					h.types(k)
					s := h.loop.now
					if s.pos < 0 || s.pos > len(s.line) {
						r.Fatalf("after %q the cursor is at %d of %d", k, s.pos, len(s.line))
					}
					if v := h.loop.edit.vi; mode == "vi" && v.normal && !v.asking() && s.pos == len(s.line) && len(s.line) > 0 && s.line[len(s.line)-1] != '\n' {
						r.Fatalf("after %q normal mode is behind the end of %q", k, h.at())
					}
				}
				undo := "\x1f"
				if mode == "vi" {
					h.types("\x1b\x1b\x1b")
					undo = "u"
				} else {
					h.types("\x07")
				}
				for range 200 {
					h.types(undo)
				}
				if got := string(h.loop.now.line); got != "the beginning" {
					r.Fatalf("undone to %q", got)
				}
			})
		})
	}
}

// FuzzKeys: no bytes make an editing mode panic or hang, put the cursor out of the
// line, or leave a token that is none.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"abc\x1b0dwx", "one two\x1b2bcwx\x1b.u\x12", "a\nb\x1bggdGp.", "\x1b/a\r\x1bnN?b\r", "\x12a\x13\x07\x18\x15\x1b.\x1by", "\t\t\x1b[Z\x1b", "\x1bd99999999w9999999p", "x\x1b[200~\x1b[201~\x1b[201~\x1b~%,;r\r"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, in string, vi bool) {
		if len(in) > 300 {
			return
		}
		mode := "emacs"
		if vi {
			mode = "vi"
		}
		h := newHand(t, Options{EditMode: mode, History: []string{"first", "second\nrow"}, Complete: func(text string) Completion {
			return Completion{From: len(text) / 2, Words: []Word{{Text: text[len(text)/2:] + "x"}, {Text: "y"}}, Ask: len(text) == 7}
		}})
		defer h.loop.engine.close()
		for _, k := range append(h.d.feed([]byte(in)), h.d.flush()...) {
			if k.code == keyControl && (k.r == 26 || k.r == 12) {
				continue // these are the terminal's
			}
			h.key(k)
			s := h.loop.now
			if s.pos < 0 || s.pos > len(s.line) {
				t.Fatalf("the cursor is at %d of %d", s.pos, len(s.line))
			}
			if len(s.line) > 1<<16 {
				return
			}
			_, fr := h.shown()
			if rows := fr.below(59, 12); len(rows) > maxListed {
				t.Fatalf("%d rows below the line", len(rows))
			}
		}
	})
}

// BenchmarkKey is from a key to the new state, as the loop sees it.
func BenchmarkKey(b *testing.B) {
	h := newHand(b, Options{})
	defer h.loop.engine.close()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		h.key(key{code: keyRune, r: 'a'})
		took = append(took, time.Since(begin))
		if len(h.loop.now.line) > 200 {
			h.types("\x15")
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
