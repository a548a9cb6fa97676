package line

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"lines", "one\ntwo\r\n\nlast", []string{"one", "two", "", "last"}},
		{"continued", "one\\\ntwo\n", []string{"one\ntwo"}},
		{"continued at the end", "one\\", []string{`one\`}},
		{"nothing", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			r, err := Open(Options{In: in, Out: out, Getenv: xterm})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(w, c.in)
			w.Close()
			var got []string
			for e := range r.Events() {
				if e.Kind == EventLine {
					got = append(got, e.Text)
				}
			}
			r.Show(Prompt{Text: "busy", Mark: "> "})
			r.Print("printed")
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if b, _ := os.ReadFile(out.Name()); string(b) != "printed\n" {
				t.Errorf("wrote %q", b)
			}
		})
	}
}

func TestPlainStopsWithoutInput(t *testing.T) {
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer w.Close()
	r, err := Open(Options{In: in, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// An output that nobody takes keeps nobody from leaving.
func TestPlainClosesWhereNobodyReads(t *testing.T) {
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer w.Close()
	sink, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{In: in, Out: out, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	printed, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(printed)
		r.Print(strings.Repeat("nobody reads this\n", 100_000))
	}()
	if _, err := sink.Read(make([]byte, 1)); err != nil {
		t.Fatal(err) // it writes
	}
	go func() {
		defer close(closed)
		_ = r.Close()
	}()
	select {
	case <-closed:
	case <-time.After(15 * time.Second):
		t.Error("it waits for who writes")
	}
	_ = sink.Close()
	<-printed
	<-closed
	_ = out.Close()
}

func TestCapable(t *testing.T) {
	y := openTTY(t, 20, 5)
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, true},
		{map[string]string{"TERM": "dumb"}, false},
		{map[string]string{}, false},
		{map[string]string{"TERM": "xterm", "RALPH_PLAIN": "1"}, false},
	} {
		got := Capable(Options{In: y.Slave, Out: y.Slave, Getenv: func(k string) string { return c.env[k] }})
		if got != c.want {
			t.Errorf("with %v it is %v", c.env, got)
		}
	}
}

func TestHistoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two\nlines", "one", "one", "", strings.Repeat("x", maxEntry+1)} {
		if err := h.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	want := `["two\nlines" "one"]`
	if got := fmt.Sprintf("%q", h.Lines()); got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	fmt.Fprint(f, "not json\n\xff\n\"torn")
	f.Close()
	again, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Add("after"); err != nil {
		t.Fatal(err)
	}
	third, _ := OpenHistory(path)
	if got := fmt.Sprintf("%q", third.Lines()); got != `["two\nlines" "one" "after"]` {
		t.Errorf("after damage it kept %s", got)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	for i := range 2*maxHistory + 5 {
		fmt.Fprintf(&b, "\"line %d\"\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Add("last"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "\n"); n != maxHistory {
		t.Errorf("the file has %d records", n)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestHistoryThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir, filepath.Join(target, "below")} {
		h, _ := OpenHistory(path)
		_ = h.Add("kept in memory")
		if got := h.Lines(); len(got) != 1 {
			t.Errorf("%s: kept %q", path, got)
		}
	}
	if b, _ := os.ReadFile(target); len(b) != 0 {
		t.Errorf("wrote %q through a symlink", b)
	}
}

func TestLongPasteIsLinear(t *testing.T) {
	e, err := newEngine(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	text := []rune(strings.Repeat("word ", 40_000))
	begin := time.Now()
	s := e.set(text, len(text))
	if len(s.line) != len(text) {
		t.Fatalf("the line has %d runes", len(s.line))
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("setting 200,000 characters took %v", d)
	}
}

func TestCutKeepsColoursWhole(t *testing.T) {
	for _, c := range []struct {
		in   string
		cols int
		want string
	}{
		{"plain", 3, "pla"},
		{"\x1b[31mred\x1b[0m", 2, "\x1b[31mre\x1b[0m"},
		{"世界", 3, "世"},
		{"a\tb", 10, "a    b"},
		{"a\x1b]0;x\x07b", 20, "a␛]0;x␇b"},
	} {
		if got := cut(c.in, c.cols); got != c.want {
			t.Errorf("cut(%q, %d) is %q, want %q", c.in, c.cols, got, c.want)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	for _, s := range []string{"abc\r", "\x1b[A\x1bOH\x1b[1;5D", "\x1b[200~paste\r\nmore\x1b[201~x", "\x1b", "\x1b[", "\x1b]11;rgb\x07", "世\xff\xc2", "\x1b[27;5;13~\x1b[13;2u", "\x1b\x1b[A"} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		if step <= 0 || step > len(in) {
			step = len(in) + 1
		}
		var d decoder
		var keys []key
		for i := 0; i < len(in); i += step {
			keys = append(keys, d.feed(in[i:min(i+step, len(in))])...)
		}
		if len(keys) > len(in) {
			t.Fatalf("%d keys of %d bytes", len(keys), len(in))
		}
		if len(d.buf) > maxReply+1 && !d.pasting {
			t.Fatalf("%d bytes wait", len(d.buf))
		}
		for n := 0; d.patience() >= 0; n++ {
			if n > 3 {
				t.Fatal("something waits after a flush")
			}
			keys = append(keys, d.flush()...)
		}
		for _, k := range keys {
			if k.code == keyRune && (k.r < 0x20 || k.r >= 0x7f && k.r < 0xa0) {
				t.Fatalf("a control character came as text: %q", k.r)
			}
			if !utf8.ValidString(k.text) || strings.Contains(k.text, "\r") {
				t.Fatalf("paste %q", k.text)
			}
		}
	})
}

// FuzzEngine proves that no sequence of keys makes readline panic or hang: it
// runs on a goroutine of its own, where nothing could catch it.
func FuzzEngine(f *testing.F) {
	f.Add("abc\x12b\x07\x03x")
	f.Add("\x12\x12zz\x7f\x7f\x03\x04")
	f.Add("a\x10\x10\x0e\x12a\x13b\x01\x04\x0b\x19\x14")
	f.Add("\x1b[A\x1b[3~\x1b[B\x1bb\x1bd\x17\x15")
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 200 {
			return
		}
		e, err := newEngine([]string{"first", "second entry"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.close()
		term := &Term{o: Options{}, events: make(chan Event), quit: make(chan struct{})}
		term.loop.engine, term.loop.cols, term.loop.rows = e, 30, 8
		var d decoder
		keys := append(d.feed([]byte(in)), d.flush()...)
		for _, k := range keys {
			if k.code == keyControl && (k.r == 26 || k.r == 12) {
				continue // these are the terminal's
			}
			term.key(k)
			s := term.loop.now
			if s.pos < 0 || s.pos > len(s.line) {
				t.Fatalf("the cursor is at %d of %d", s.pos, len(s.line))
			}
			fr := layout(Prompt{Text: "p", Mark: "> ", Live: []string{"x"}}, s, 30, 8)
			for _, row := range fr.rows {
				if width(row) > 29 {
					t.Fatalf("row %q is too wide", row)
				}
			}
			if len(fr.rows) > 8 || fr.row < 0 || fr.row >= len(fr.rows) {
				t.Fatalf("frame %+v", fr)
			}
		}
	})
}
