package durable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
)

var listOptions = durable.ListOptions{
	Name: "events", Head: map[string]any{"session_id": "001", "a": 1}, Quarantine: "/q", Sync: true,
}

// document reads a list as any reader of JSON does.
func document(fsys afero.Fs, path string) (doc map[string]any, elements []string, err error) {
	data, err := afero.ReadFile(fsys, path)
	if err != nil {
		return nil, nil, err
	}
	var typed struct{ Events []json.RawMessage }
	if err := errors.Join(json.Unmarshal(data, &doc), json.Unmarshal(data, &typed)); err != nil {
		return nil, nil, fmt.Errorf("%w in %.2000q", err, data)
	}
	for _, e := range typed.Events {
		var b bytes.Buffer
		if err := json.Compact(&b, e); err != nil {
			return nil, nil, err
		}
		elements = append(elements, b.String())
	}
	return doc, elements, nil
}

func elem(i int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", i%97)))
}

func TestList(t *testing.T) {
	for name, fsys := range filesystems(t) {
		l, damage, err := durable.OpenList(fsys, "/log.json", listOptions)
		if err != nil || damage != (durable.Damage{}) {
			t.Fatal(name, damage, err)
		}
		var want []string
		check := func() {
			t.Helper()
			doc, got, err := document(fsys, "/log.json")
			if err != nil || strings.Join(got, "|") != strings.Join(want, "|") || doc["session_id"] != "001" {
				t.Fatalf("%s: %v %v: %.300v", name, err, doc["session_id"], got)
			}
		}
		check()
		for i := range 300 {
			if err := l.Append(elem(i)); err != nil {
				t.Fatal(err)
			}
			want = append(want, string(elem(i)))
			if i%50 == 0 {
				check()
			}
			if i == 100 {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if l, _, err = durable.OpenList(fsys, "/log.json", listOptions); err != nil {
					t.Fatal(err)
				}
			}
		}
		big := json.RawMessage(`{"big":"` + strings.Repeat("y", 300<<10) + `"}`)
		if err := l.Append(elem(1), json.RawMessage("{\n \"spread\": [ 1,\n 2 ] }"), big, elem(2)); err != nil {
			t.Fatal(err)
		}
		want = append(want, string(elem(1)), `{"spread":[1,2]}`, string(big), string(elem(2)))
		check()
		for _, bad := range []string{"", "{", "{}{}", "nope"} {
			if err := l.Append(elem(1), json.RawMessage(bad)); err == nil {
				t.Errorf("%q was taken", bad)
			}
		}
		check()
		if err := errors.Join(l.Sync(), l.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
		if err := l.Append(elem(1)); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		if l, damage, err = durable.OpenList(fsys, "/log.json", listOptions); err != nil || damage != (durable.Damage{}) {
			t.Fatal(damage, err)
		}
		if err := errors.Join(l.Append(elem(3)), l.Close()); err != nil {
			t.Fatal(err)
		}
		want = append(want, string(elem(3)))
		check()
	}
}

// TestListOpens: what stands in a file when it is opened, and what is there
// after one element was appended.
func TestListOpens(t *testing.T) {
	long := strings.Repeat("    {\"n\":1},\n", 7000) // beyond what the tail shows
	e := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"n":1}|`, n), "|") }
	for _, tc := range []struct {
		name, content string
		want          string // the elements before the new one
		keys          string // a key that must be there still
		moved         string // what quarantine holds: nothing, a part, whole
	}{
		{"empty", "", "", "session_id", ""},
		{"compact", `{"session_id":"9","events":[{"n":1},{"n":1}]}`, e(2), "session_id", ""},
		{"no elements", `{"events":[]}`, "", "", ""},
		{"no elements, spread", "{\n\t\"events\": [\n\n\t]\n}\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", "", "", ""},
		{"indented by hand", "{\n    \"x\": 1,\n    \"events\": [\n        {\n            \"n\": 1\n        },\n        {\"n\": 1 }\n    ]\n}\n", e(2), "x", ""},
		{"keys behind", "{\"events\": [ {\"n\":1} ], \"note\": {\"by\": [\"me\"]},\n \"more\" : 2 }", e(1), "note", ""},
		{"keys on both sides", "{\"a\":0, \"events\": [ {\"n\":1} ], \"note\": 1 }", e(1), "note", ""},
		{"BOM-free CRLF", "{\r\n  \"events\": [\r\n    {\"n\":1}\r\n  ]\r\n}\r\n", e(1), "", ""},
		{"a byte order mark", "\ufeff{\"x\":1,\"events\":[{\"n\":1}]}", e(1), "x", ""},
		{"one indented by hand near the end", "{\n  \"events\": [\n" + long + "    {\n      \"n\": 1\n    },\n    {\"n\":1}, {\"n\":1}\n  ]\n}\n", e(7003), "", ""},
		{"one torn near the end", "{\n  \"events\": [\n" + long + "    {\"n\":,\n    {\"n\":1}\n  ]\n}\n", e(7001), "", `{"n":,`},
		{"torn element", "{\n  \"events\": [\n    {\"n\":1},\n    {\"n\":", e(1), "", `{"n":`},
		{"torn first element", "{\n  \"events\": [\n    {\"n", "", "", `{"n`},
		{"closing gone", "{\n  \"events\": [\n    {\"n\":1}", e(1), "", ""},
		{"closing half gone", "{\n  \"events\": [\n    {\"n\":1}\n  ]", e(1), "", ""},
		{"trailing comma", "{\n  \"events\": [\n    {\"n\":1},\n  ]\n}\n", e(1), "", ""},
		{"torn key behind", "{\"events\": [ {\"n\":1} ], \"note\": \"kept\", \"mo", e(1), "note", `"mo`},
		{"zeros at the end", "{\n  \"events\": [\n    {\"n\":1}\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", e(1), "", "\x00\x00"},
		{"zeros in the middle", "{\n  \"events\": [\n    {\"n\":1},\n\x00\x00\x00\x00\x00\x00\x00,\n    {\"n\":1}\n  ]\n}\n", e(2), "", "\x00\x00"},
		{"text behind", "{\"events\":[{\"n\":1}]} trailing", e(1), "", "trailing"},
		{"long", "{\n  \"events\": [\n" + long + "    {\"n\":1}\n  ]\n}\n", e(7001), "", ""},
		{"long, torn", "{\n  \"events\": [\n" + long + "    {\"n\":1", e(7000), "", `{"n":1`},
		{"long, brackets gone", "{\n  \"events\": [\n" + long, e(7000), "", ""},
		{"long, a bad line by hand", "{\n  \"events\": [\n" + long + "    {oops},\n" + long + "    {\"n\":1}\n  ]\n}\n", e(14001), "", ""},
		{"long, a bad line near the end", "{\n  \"events\": [\n" + long + "    {oops},\n    {\"n\":1}\n  ]\n}\n", e(7001), "", "oops"},
		{"long, keys behind", "{\n  \"events\": [\n" + long + "    {\"n\":1}\n  ],\n  \"note\": [\n    1\n  ]\n}\n", e(7001), "note", ""},
		{"long, a long element", "{\n  \"events\": [\n" + long + "    {\"n\":1,\n\"s\":\"" + strings.Repeat("x", 70<<10) + "\"}\n  ]\n}\n", e(7000) + `|{"n":1,"s":"` + strings.Repeat("x", 70<<10) + `"}`, "", ""},
		{"long, a long torn element", "{\n  \"events\": [\n" + long + "    {\"n\":1,\"s\":\"" + strings.Repeat("x", 70<<10), e(7000), "", "xxxx"},
		{"long, blank lines", "{\n  \"events\": [\n" + long + strings.Repeat("\n", 70<<10), e(7000), "", ""},
		{"blank and long", "{\"events\": [\n" + strings.Repeat(" ", 70<<10) + "]}", "", "", ""},
		{"garbage", "\x00\x01\x02 random", "", "session_id", "whole"},
		{"a list itself", `[{"n":1}]`, "", "session_id", "whole"},
		{"no such key", `{"session_id":"1"}`, "", "session_id", "whole"},
		{"key is no array", `{"events":null}`, "", "session_id", "whole"},
		{"twice the key", `{"events":[1],"events":[2]}`, "", "session_id", "whole"},
		{"twice the file", strings.Repeat("{\n  \"events\": [\n    {\"n\":1}\n  ]\n}\n", 2), "", "session_id", "whole"},
		{"numbers", `{"events":[1,[2],"s",null]}`, `1|[2]|"s"|null`, "", ""},
	} {
		for disk, fsys := range filesystems(t) {
			if err := afero.WriteFile(fsys, "/log.json", []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, damage, err := durable.OpenList(fsys, "/log.json", listOptions)
			if err != nil {
				t.Errorf("%s, %s: %v", disk, tc.name, err)
				continue
			}
			if err := errors.Join(l.Append(json.RawMessage(`{"new":1}`)), l.Close()); err != nil {
				t.Fatal(err)
			}
			doc, got, err := document(fsys, "/log.json")
			want := `{"new":1}`
			if tc.want != "" {
				want = tc.want + "|" + want
			}
			if tc.name == "long, a bad line by hand" && err != nil {
				// What is far from the end is not looked at.
				data, _ := afero.ReadFile(fsys, "/log.json")
				if !bytes.HasSuffix(data, []byte("{\"n\":1},\n    {\"new\":1}\n  ]\n}\n")) {
					t.Errorf("%s: %.300q", tc.name, data[len(data)-100:])
				}
				continue
			}
			if err != nil || strings.Join(got, "|") != want {
				t.Errorf("%s, %s: %v %.300v", disk, tc.name, err, got)
			}
			if _, ok := doc[tc.keys]; tc.keys != "" && !ok {
				t.Errorf("%s, %s: %s is gone", disk, tc.name, tc.keys)
			}
			var held []byte
			if damage.Moved != "" {
				held = []byte(read(t, fsys, damage.Moved))
			}
			switch {
			case tc.moved == "whole":
				if !damage.Whole || string(held) != tc.content {
					t.Errorf("%s, %s: %+v holds %.100q", disk, tc.name, damage, held)
				}
			case damage.Whole || tc.moved == "" && len(held) > 0 || !strings.Contains(string(held), tc.moved):
				t.Errorf("%s, %s: %+v holds %.100q", disk, tc.name, damage, held)
			}
		}
	}
}

// TestListAtEveryCut: wherever a list ends, every whole element before is there
// after it was opened, and it is a list again.
func TestListAtEveryCut(t *testing.T) {
	fsys := afero.NewMemMapFs()
	l, _, err := durable.OpenList(fsys, "/l", listOptions)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := l.Append(elem(i * 7)); err != nil {
			t.Fatal(err)
		}
	}
	whole := read(t, fsys, "/l")
	start := strings.Index(whole, "[") + 1
	for cut := start; cut <= len(whole); cut++ {
		fsys := afero.NewMemMapFs()
		if err := afero.WriteFile(fsys, "/l", []byte(whole[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		l, _, err := durable.OpenList(fsys, "/l", listOptions)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Append(elem(99)), l.Close()); err != nil {
			t.Fatal(err)
		}
		_, got, err := document(fsys, "/l")
		if want := strings.Count(whole[:cut], `"}`) + 1; err != nil || len(got) != want {
			t.Fatalf("cut at %d: %v, %d elements, want %d", cut, err, len(got), want)
		}
	}
}

// TestListAroundTheWindow: a list that is about as long as what is looked at
// when it is opened, cut anywhere near its end.
func TestListAroundTheWindow(t *testing.T) {
	line := `    {"n":1,"s":"` + strings.Repeat("s", 180) + `"}`
	for _, lines := range []int{320, 325, 326, 327, 328, 340} {
		whole := "{\n  \"events\": [\n" + strings.Repeat(line+",\n", lines) + line + "\n  ]\n}\n"
		for cut := 0; cut < len(line)+9; cut += crashfs.Count(23, 1) {
			fsys := crashfs.New()
			if err := afero.WriteFile(fsys, "/l", []byte(whole[:len(whole)-cut]), 0o600); err != nil {
				t.Fatal(err)
			}
			l, _, err := durable.OpenList(fsys, "/l", listOptions)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Append(elem(1)), l.Close()); err != nil {
				t.Fatal(err)
			}
			want := lines + 1
			if cut <= len(listEnd) {
				want++
			}
			if _, got, err := document(fsys, "/l"); err != nil || len(got) != want {
				t.Fatalf("%d lines less %d bytes: %v, %d elements, want %d", lines, cut, err, len(got), want)
			}
		}
	}
}

const listEnd = "\n  ]\n}\n"

// TestListFollows: who edits the file while it is open, in place or by a
// rename, loses nothing and takes no elements with him.
func TestListFollows(t *testing.T) {
	dir := t.TempDir()
	osfs, path := afero.NewOsFs(), filepath.Join(dir, "log.json")
	o := listOptions
	o.Quarantine = filepath.Join(dir, "q")
	l, _, err := durable.OpenList(osfs, path, o)
	if err != nil {
		t.Fatal(err)
	}
	step := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	step(l.Append(elem(1)), os.WriteFile(path+".new", []byte(`{"mine":1,"events":[{"by":"hand"}]}`), 0o600), os.Rename(path+".new", path), l.Append(elem(2)))
	doc, got, err := document(osfs, path)
	if err != nil || doc["mine"] == nil || strings.Join(got, "|") != `{"by":"hand"}|`+string(elem(2)) {
		t.Errorf("renamed: %v %v", got, err)
	}
	time.Sleep(10 * time.Millisecond) // the clock of the filesystem ticks every 4 ms
	text := strings.Replace(read(t, osfs, path), "hand", "foot", 1)
	step(os.WriteFile(path, []byte(text[:len(text)-3]+",\"mine too\":2}\n"), 0o600), l.Append(elem(3)))
	doc, got, err = document(osfs, path)
	if err != nil || doc["mine too"] == nil || len(got) != 3 || got[0] != `{"by":"foot"}` {
		t.Errorf("in place: %v %v %v", doc, got, err)
	}
	step(os.Remove(path), l.Append(elem(4)))
	if _, got, err = document(osfs, path); err != nil || len(got) != 1 {
		t.Errorf("removed: %v %v", got, err)
	}
	step(os.WriteFile(path, []byte("garbage now"), 0o600), l.Append(elem(5)))
	if d := l.Damage(); !d.Whole || read(t, osfs, d.Moved) != "garbage now" {
		t.Errorf("%+v", d)
	}
	step(l.Close())
	for p, want := range map[string]error{"link": durable.ErrSymlink, "fifo": durable.ErrNotRegular, "dir": durable.ErrNotRegular} {
		p = filepath.Join(dir, p)
		switch filepath.Base(p) {
		case "link":
			step(os.Symlink(path, p))
		case "fifo":
			step(syscall.Mkfifo(p, 0o600))
		default:
			step(os.Mkdir(p, 0o700))
		}
		if _, _, err := durable.OpenList(osfs, p, o); !errors.Is(err, want) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// FuzzOpenList: whatever a file holds, it is a list afterwards; each byte is in
// the list or in quarantine.
func FuzzOpenList(f *testing.F) {
	for _, s := range []string{"", "{", `{"events":[`, `{"events":[1,2`, `{"events":[{"a":[]}],"b":1}`, `{"events":[]}x`, "{\"events\":[\n    {\"n\":1},\n\x00,\n    {\"n\":2}\n  ]\n}\n", `{"a":{"events":[1]}}`, "\ufeff{}", `{"events":[1]}{"events":[2]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := crashfs.New()
		if err := afero.WriteFile(fsys, "/l", content, 0o600); err != nil {
			t.Fatal(err)
		}
		var before struct{ Events []json.RawMessage }
		whole := json.Unmarshal(content, &before) == nil
		l, damage, err := durable.OpenList(fsys, "/l", listOptions)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Append(elem(5)), l.Close()); err != nil {
			t.Fatal(err)
		}
		_, got, err := document(fsys, "/l")
		if err != nil || len(got) == 0 || got[len(got)-1] != string(elem(5)) {
			t.Fatalf("%q became %v: %v", content, got, err)
		}
		if whole && !damage.Whole && len(got) != len(before.Events)+1 {
			t.Fatalf("%q: %d elements of %d", content, len(got)-1, len(before.Events))
		}
		if damage.Whole && read(t, fsys, damage.Moved) != string(content) {
			t.Fatalf("%q is not whole in quarantine", content)
		}
	})
}

// BenchmarkListAppend: an append costs the same however long the list is.
func BenchmarkListAppend(b *testing.B) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		path := filepath.Join(b.TempDir(), "l.json")
		var text bytes.Buffer
		text.WriteString("{\n  \"session_id\": \"1\",\n  \"events\": [")
		for i := range n {
			fmt.Fprintf(&text, "%s\n    {\"timestamp\":\"2026-01-01T00:00:00Z\",\"event_type\":\"message\",\"n\":%d,\"details\":{\"text\":%q}}", map[bool]string{true: ","}[i > 0], i, strings.Repeat("z", 100))
		}
		text.WriteString("\n  ]\n}\n")
		if err := durable.Replace(afero.NewOsFs(), path, text.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
		e := json.RawMessage(`{"timestamp":"2026-01-01T00:00:00Z","event_type":"message","details":{"text":"` + strings.Repeat("z", 100) + `"}}`)
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/sync=%v", n, sync), func(b *testing.B) {
				l, _, err := durable.OpenList(afero.NewOsFs(), path, durable.ListOptions{Name: "events", Sync: sync})
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if err := l.Append(e); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
		b.Run(fmt.Sprintf("%d/open", n), func(b *testing.B) {
			for b.Loop() {
				l, _, err := durable.OpenList(afero.NewOsFs(), path, durable.ListOptions{Name: "events"})
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestListIsFlat: the operations of an append do not depend on the length.
func TestListIsFlat(t *testing.T) {
	ops := map[int]int{}
	for _, n := range []int{10, 20_000} {
		fsys := crashfs.New()
		l, _, err := durable.OpenList(fsys, "/l", durable.ListOptions{Name: "events", Sync: true})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		batch := make([]json.RawMessage, n)
		for i := range batch {
			batch[i] = elem(r.IntN(50))
		}
		if err := l.Append(batch...); err != nil {
			t.Fatal(err)
		}
		before := fsys.Len()
		for i := range 100 {
			if err := l.Append(elem(i)); err != nil {
				t.Fatal(err)
			}
		}
		ops[n] = fsys.Len() - before
	}
	// One write and one sync each.
	if ops[10] != 200 || ops[20_000] != 200 {
		t.Errorf("operations for 100 appends: %v", ops)
	}
}
