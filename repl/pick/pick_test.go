package pick

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"

	"ralph/repl/line"
)

func TestMain(m *testing.M) {
	if os.Getenv("RALPH_TEST_PICK") != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

func models() []Item {
	return []Item{{Value: "gpt-large", Detail: "now"}, {Value: "gpt-small"}, {Value: "llama-tiny", Detail: "local \x1b[2J"}}
}

func TestList(t *testing.T) {
	stop := errors.New("stopped")
	for _, c := range []struct {
		answer string
		err    error
		want   string
		fails  error
	}{
		{"2", nil, "gpt-small", nil},
		{"llama-tiny", nil, "llama-tiny", nil},
		{" ltn ", nil, "llama-tiny", nil},
		{"local", nil, "llama-tiny", nil},
		{"", nil, "", ErrCancelled},
		{"9", nil, "", nil},
		{"x", stop, "", stop},
	} {
		var shown string
		p := &Picker{
			Print:  func(text string) { shown += text },
			Answer: func(context.Context, string) (string, error) { return c.answer, c.err },
		}
		got, err := p.Pick(t.Context(), "model", models())
		if got != c.want || c.fails != nil && !errors.Is(err, c.fails) || c.want == "" && err == nil {
			t.Errorf("%q chose %q, %v", c.answer, got, err)
		}
		if !strings.Contains(shown, "   3  llama-tiny  local ␛[2J\n") {
			t.Errorf("the list is %q", shown)
		}
	}
}

// TestListFromAQuery numbers what matches, and names still mean all of them.
func TestListFromAQuery(t *testing.T) {
	for answer, want := range map[string]string{"1": "gpt-small", "gpt-large": "gpt-large", "tiny": "llama-tiny"} {
		var shown string
		p := &Picker{
			Print:  func(text string) { shown += text },
			Answer: func(context.Context, string) (string, error) { return answer, nil },
		}
		if got, err := p.PickFrom(t.Context(), "model", "smal", models()); got != want || err != nil {
			t.Errorf("%q chose %q, %v", answer, got, err)
		}
		if shown != "   1  gpt-small\n" {
			t.Errorf("the list is %q", shown)
		}
	}
}

// TestFindMany: a hundred thousand files, a key at a time, and what is meant comes
// first.
func TestFindMany(t *testing.T) {
	items := make([]Item, 100_000)
	for i := range items {
		items[i] = Item{Value: fmt.Sprintf("internal/package%d/some_source_file_%d.go", i%317, i), Detail: "changed"}
	}
	items[77_777].Value = "coordinator/deliver.go"
	items[88_888].Value = "main.go"
	began := time.Now()
	l := newList(items)
	t.Logf("made ready in %v", time.Since(began))
	var slowest time.Duration
	for _, c := range []struct{ query, want string }{
		{"deliver", "coordinator/deliver.go"}, {"main", "main.go"}, {"main.go", "main.go"}, {"cdel", "coordinator/deliver.go"},
		{"file_5", "internal/package5/some_source_file_5.go"}, {"MAIN", "main.go"},
	} {
		var best []int
		for n := range c.query {
			began := time.Now()
			best = l.find(c.query[:n+1])
			slowest = max(slowest, time.Since(began))
		}
		if len(best) == 0 || items[best[0]].Value != c.want {
			t.Errorf("for %q it found %d, not %q first", c.query, len(best), c.want)
		}
	}
	t.Logf("the slowest key took %v", slowest)
	if n := len(l.find("")); n != shownAtMost {
		t.Errorf("for nothing it shows %d", n)
	}
	if best := l.find("zzzzqq"); len(best) != 0 {
		t.Errorf("found %d for nonsense", len(best))
	}
}

// FuzzFind: a narrower search finds what a new one does, and what it finds holds
// the characters of the query.
func FuzzFind(f *testing.F) {
	f.Add("a\nabc\nxaybzc\nÄpfel", "abc")
	f.Add("世界\nworld\n\x1b[2J", "界")
	f.Fuzz(func(t *testing.T, names, query string) {
		var items []Item
		for _, n := range strings.Split(names, "\n") {
			items = append(items, Item{Value: n})
		}
		l := newList(items)
		for i := range query {
			l.find(query[:i])
		}
		got := l.find(query)
		if want := newList(items).find(query); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("step by step %v, at once %v", got, want)
		}
		for _, i := range got {
			if !within(strings.ToLower(strings.TrimSpace(query)), l.lower[i]) {
				t.Fatalf("%q does not hold %q", l.lower[i], query)
			}
		}
	})
}

func TestNothingToPick(t *testing.T) {
	if _, err := (&Picker{}).Pick(t.Context(), "model", nil); err == nil || errors.Is(err, ErrCancelled) {
		t.Errorf("got %v", err)
	}
	if _, err := (&Picker{}).Pick(t.Context(), "model", models()); !errors.Is(err, ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

func TestTinyTerminalGetsTheList(t *testing.T) {
	p := &Picker{
		Lend: func(context.Context, func(context.Context, line.Keys, io.Writer) error) error {
			t.Error("the terminal was lent")
			return nil
		},
		Size:   func() (int, int) { return 30, 5 },
		Print:  func(string) {},
		Answer: func(context.Context, string) (string, error) { return "1", nil },
	}
	if got, err := p.Pick(t.Context(), "model", models()); got != "gpt-large" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// typed hands out keys one by one, then nothing.
type typed struct{ keys []string }

func (*typed) Reflows() bool        { return false }
func (*typed) Rests() time.Duration { return 0 }

func (k *typed) Next() []byte {
	if len(k.keys) == 0 {
		return nil
	}
	b := k.keys[0]
	k.keys = k.keys[1:]
	return []byte(b)
}

// withTerminal says that the test is to go on here, where there is a /dev/tty; else
// it is run on a terminal of its own.
func withTerminal(t *testing.T) bool {
	t.Helper()
	if _, err := newMenu(); err == nil {
		return true
	} else if os.Getenv("RALPH_TEST_TERMINAL") != "" {
		t.Fatal("no /dev/tty on a terminal: ", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "RALPH_TEST_TERMINAL=1")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	out, _ := io.ReadAll(tty) // to the error that says that nobody has it any more
	if err := cmd.Wait(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("on a terminal of its own: %v\n%s", err, out)
	}
	return false
}

// TestMenu runs go-prompt on keys from here; where there is no /dev/tty it
// cannot be built, and the list takes over.
func TestMenu(t *testing.T) {
	if !withTerminal(t) {
		return
	}
	p := &Picker{Size: func() (int, int) { return 80, 24 }}
	for _, c := range []struct {
		keys []string
		want string
		err  error
	}{
		{[]string{"s", "m", "\r"}, "gpt-small", nil},
		{[]string{"\x1b[B", "\x1b[B", "\r"}, "gpt-small", nil},
		{[]string{"\x1b[A", "\r"}, "llama-tiny", nil},
		{[]string{"\x1b[B", "t", "i", "n", "\r"}, "llama-tiny", nil},
		{[]string{"x", "\x1b"}, "", ErrCancelled},
		{[]string{"\x04"}, "", ErrCancelled},
		{[]string{"\r"}, "gpt-large", nil}, // the first of what is shown
	} {
		var out bytes.Buffer
		p.Lend = func(ctx context.Context, f func(context.Context, line.Keys, io.Writer) error) error {
			return f(ctx, &typed{c.keys}, &out)
		}
		got, err := p.Pick(t.Context(), "model", models())
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q chose %q, %v; want %q", c.keys, got, err, c.want)
		}
		if strings.Contains(out.String(), "\x1b]") || strings.Contains(out.String(), "\x1b[2J") {
			t.Errorf("wrote %q", out.String())
		}
	}
}

func TestMenuEndsWithItsContext(t *testing.T) {
	if !withTerminal(t) {
		return
	}
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &Picker{Size: func() (int, int) { return 80, 24 }}
	p.Lend = func(ctx context.Context, f func(context.Context, line.Keys, io.Writer) error) error {
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		return f(ctx, &typed{}, io.Discard)
	}
	if _, err := p.Pick(ctx, "model", models()); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

// TestMenuWaitsForTheWindow: a window that is being resized, through whatever
// sizes, is not acted upon before it rests.
func TestMenuWaitsForTheWindow(t *testing.T) {
	cols, rows := 80, 24
	m := &menu{keys: restless{}, size: func() (int, int) { return cols, rows }, cols: 80, rows: 24, seen: [2]int{80, 24}}
	see := func(wantResized, wantRests bool) {
		t.Helper()
		if resized, rests := m.resized(); resized != wantResized || rests != wantRests {
			t.Errorf("%d×%d: resized %v, rests %v; want %v, %v", cols, rows, resized, rests, wantResized, wantRests)
		}
	}
	see(false, true)
	cols, rows = 3, 3
	see(true, false)
	cols, rows = 80, 24
	see(true, false)
	m.changed = m.changed.Add(-time.Hour)
	see(true, true) // what the terminal made of the menu meanwhile is painted over
	m.changed = time.Time{}
	see(false, true)
}

// restless are keys of a terminal in which a size has to stay for a minute.
type restless struct{}

func (restless) Next() []byte         { return nil }
func (restless) Reflows() bool        { return true }
func (restless) Rests() time.Duration { return time.Minute }
