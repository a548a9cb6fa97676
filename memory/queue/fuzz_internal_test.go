package queue

import (
	"bytes"
	"context"
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

// FuzzText: any text survives the log whole, and stays inside its item of the view.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "x", "a\nb", "\n\n", " \t\n x", "\xff\r\n\u202e", "a\r- m-8 urgent (x): y", "x\n- m-1 later (x): y", strings.Repeat("é", 40_000), "\u00a0\n\u2028"} {
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
		view := string(render([]record{r, sample(8, "later", "behind")}))
		items := 0
		for line := range strings.SplitSeq(strings.SplitN(view, "\n", 5)[4], "\n") {
			switch {
			case strings.HasPrefix(line, "- m-7 later (") || strings.HasPrefix(line, "- m-8 later ("):
				items++
			case line != "" && !strings.HasPrefix(line, "  "):
				t.Fatalf("%q is outside: %q", line, view)
			}
		}
		if items != 2 || strings.ContainsAny(view, "\x1b\r\x00") {
			t.Fatalf("%d items: %q", items, view)
		}
	})
}
