package queue

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

func sample(n uint64, class, text string) record {
	return record{Entry: Entry{ID: idOf(n), N: n, Class: class, Text: text, From: "chat", At: time.Unix(int64(n), 0).UTC(), State: queued}}
}

// FuzzLog opens whatever bytes as a log: it never fails, what was whole stays,
// and the next Open finds the same.
func FuzzLog(f *testing.F) {
	var whole []byte
	for _, r := range []record{sample(1, "later", "one"), sample(2, "urgent", "t\xffw\x00o"), sample(9, "ask", "nine")} {
		line, err := signer{}.encode(r)
		if err != nil {
			f.Fatal(err)
		}
		whole = append(append(whole, line...), '\n')
	}
	f.Add(whole)
	for _, cut := range []int{0, 1, 50, len(whole) / 2, len(whole) - 1} {
		f.Add(whole[:cut])
		f.Add(append(bytes.Repeat([]byte{0}, 512), whole[cut:]...))
	}
	f.Add([]byte(`{"id":"m-1","n":18446744073709551615}` + "\n"))
	f.Add([]byte("\n\r\n{}\n[]\nnull\n" + string(whole)))
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := afero.NewMemMapFs()
		o := Options{FS: fsys, StateDir: "/p/.ralph"}
		if err := durable.MkdirAll(fsys, o.StateDir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := afero.WriteFile(fsys, o.path(logName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, found, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		next := sample(found.Last+1, "later", "next").Entry
		if err := l.Keep(next); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, again, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if len(again.Waiting) != len(found.Waiting)+1 || again.Last != next.N || len(again.Warnings) > 0 {
			t.Fatalf("%+v, then %+v", found, again)
		}
		seen := map[uint64]bool{}
		for _, e := range again.Waiting {
			if seen[e.N] || e.N == 0 || e.N > again.Last {
				t.Fatalf("%+v", again)
			}
			seen[e.N] = true
		}
	})
}

// FuzzView reads whatever bytes as queue.md: edits are of what waits, a file
// that Ralph wrote has none, and no line of the user's is lost in the next one.
func FuzzView(f *testing.F) {
	t0 := newTable()
	for _, r := range []record{sample(1, "later", "one\nand\n\nmore"), sample(2, "urgent", "- m-1 two"), sample(4, "ask", "four\n\n- x")} {
		t0.apply(r)
	}
	good := string(render(t0.records(), t0.last, []string{"note", "  of mine"}))
	f.Add(good)
	f.Add(strings.ReplaceAll(good, "\n", "\r\n"))
	f.Add("\ufeff" + strings.ReplaceAll(good, "\n  ", "\n\t"))
	f.Add(strings.Replace(good, "later", "Urgent", 1))
	f.Add(good[:len(good)/2])
	f.Add(good[200:])
	f.Add(good + good)
	f.Add("- m-1\n- m-2:\n* m-4 ask x\n+ m-9 later: y\n  z\n- m-18446744073709551616 later: n\n-m-1 x\n- m-1later (")
	f.Add("# Queue\n\n<!-- through m-4 --> \n")
	f.Add("Accepted and not delivered yet. <!-- through m-99999999999999999999 -->\n- m-1 later (a, edited 7): b")
	f.Fuzz(func(t *testing.T, text string) {
		l := &Log{o: Options{FS: afero.NewMemMapFs(), StateDir: "/p/.ralph"}.filled(), closed: true, table: t0}
		d, ok := parse([]byte(text))
		if !ok {
			return
		}
		for _, e := range l.take(d) {
			n := uint64(e.ID[2] - '0')
			if len(e.ID) != 3 || t0.find(n, time.Unix(int64(n), 0)) == nil {
				t.Fatalf("%+v of nothing that waits", e)
			}
			if e.Drop && n > d.through || e.Text != nil && strings.TrimSpace(*e.Text) == "" || !e.Drop && e.Text == nil && e.Class == "" {
				t.Fatalf("%+v", e)
			}
		}
		rest := l.userLines(d)
		next := render(t0.records(), t0.last, rest)
		d2, ok := parse(next)
		if !ok || !d2.pure && !bytes.Contains(next[:300], []byte(markBegin)) {
			t.Fatalf("written: %q", next)
		}
		d2.pure = false
		if e := l.compare(d2); len(e) > 0 {
			t.Fatalf("its own writing is an edit: %+v\n%s", e, next)
		}
		again := l.userLines(d2)
		count := map[string]int{}
		for _, line := range rest {
			count[strings.Trim(line, " \t")]++
		}
		for _, line := range again {
			count[strings.Trim(line, " \t")]--
		}
		for line, n := range count {
			if n > 0 && line != "" {
				t.Fatalf("%q is lost:\n%q\n%q", line, rest, again)
			}
		}
	})
}

// FuzzText: any text survives the log whole, and its view is no edit.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "x", "a\nb", "\n\n", " \t\n x", "\xff\r\n\u202e", "- m-1 later (x): y", strings.Repeat("é", 40_000), "\u00a0\n\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, err := signer{}.encode(sample(7, "later", text))
		if err != nil {
			t.Fatal(err)
		}
		r, ok := signer{}.decode(line)
		if !ok || r.Text != text || r.N != 7 || bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("%q became %q", text, r.Text)
		}
		tab := newTable()
		tab.apply(r)
		tab.apply(sample(8, "later", "behind"))
		l := &Log{o: Options{}.filled(), closed: true, table: tab}
		view := render(tab.records(), tab.last, nil)
		d, ok := parse(view)
		if !ok || !d.pure {
			t.Fatalf("%q", view)
		}
		if e := l.compare(d); len(e) > 0 {
			t.Fatalf("%q is an edit: %+v\n%q", text, e, view)
		}
	})
}

// TestWriteRace: what the user saves while the file is being replaced is picked
// up, on the real disk.
func TestWriteRace(t *testing.T) {
	t.Parallel()
	o := Options{StateDir: filepath.Join(t.TempDir(), ".ralph")}.filled()
	l, _, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for n := uint64(1); n <= 20; n++ {
		text := fmt.Sprint("text ", n)
		if err := l.Keep(sample(n, "later", text).Entry); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			data, err := os.ReadFile(o.path(ViewFile))
			return err == nil && strings.Contains(string(data), text)
		})
		// Another message is on its way into the file while the user saves.
		data, err := os.ReadFile(o.path(ViewFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Keep(sample(n+100, "later", "other").Entry); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(n) * 1500 * time.Microsecond)
		temp := o.path("mine")
		edited := strings.Replace(string(data), text, "TEXT "+fmt.Sprint(n), 1)
		old := time.Now().Add(-time.Second)
		if err := os.WriteFile(temp, []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(temp, old, old); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temp, o.path(ViewFile)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			edits := l.Edits()
			if len(edits) == 0 {
				return false
			}
			e := edits[0]
			if len(edits) > 1 || e.Drop || e.ID != idOf(n) || e.Text == nil {
				t.Fatalf("%+v", edits)
			}
			m := sample(n, "later", *e.Text).Entry
			if err := l.Keep(m, func() Entry { m := sample(n+100, "later", "").Entry; m.State = "delivered"; return m }()); err != nil {
				t.Fatal(err)
			}
			return *e.Text == "TEXT "+fmt.Sprint(n)
		})
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
	t.Fatal("not within 3 s")
}

// TestForeignTextCaught: what was put in the place of queue.md at the very moment
// it was written is kept, also when it is no list of messages.
func TestForeignTextCaught(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".ralph")
	l, _, err := Open(t.Context(), Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	for _, text := range []string{"dear diary\n", "dear diary, again\n", "\x00\xff", ""} {
		l.pickUp([]byte(text))
	}
	l.mu.Unlock()
	if w := l.Warnings(); len(w) != 3 {
		t.Errorf("%q", w)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	kept, _ := filepath.Glob(filepath.Join(dir, quarantineName, ViewFile+".*"))
	for _, path := range kept {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(data))
	}
	if slices.Sort(got); !slices.Equal(got, []string{"\x00\xff", "dear diary\n", "dear diary, again\n"}) {
		t.Errorf("kept %q", got)
	}
}
