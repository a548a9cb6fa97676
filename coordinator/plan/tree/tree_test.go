package tree

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestJSONFaults(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "1:1 is empty"},
		{" \n ", "2:2 is empty"},
		{"\xff\xfe{\x00}\x00", "1:1 is UTF-16 text: save it as UTF-8"},
		{"{\"a\":\n\"b\x00\"}", "2:3 has a NUL byte: this is no text, or a damaged one"},
		{"{\"a\":\n\"b\xc3\"}", "2:3 is not UTF-8 text"},
		{"{\"a\": 1,}", `1:9 a key in double quotes is expected, found "}"; there is a comma too many before it`},
		{"[1,]", `1:4 a value is expected, found "]"; there is a comma too many before it`},
		{"{\n// x\n}", `2:1 a key in double quotes is expected, found "// x"; JSON has no comments`},
		{"{'a': 1}", `1:2 a key in double quotes is expected, found "'a': 1}"; JSON texts stand in double quotes`},
		{"```json\n{}\n```", "1:1 a value is expected, found \"```json\"; take off the code fence around the JSON"},
		{"{\"a\": [1,\n 2", "2:3 the file ends inside the list of line 1: it was cut off"},
		{"{\"a\": {\n \"b\"", "2:5 the file ends inside the object of line 1: it was cut off"},
		{"{\"a\": \"b", "1:7 the file ends inside a text: it was cut off"},
		{"{\"a\": tr", "1:7 the file ends inside the object of line 1: it was cut off"},
		{"{\"a\": \"b\nc\"}", `1:7 the text does not end on its line: a line end in a text is written \n, and a quote \"`},
		{`{"a": 01}`, `1:7 "01" is no number in JSON; put it in double quotes if it is a text`},
		{`{"a": 1x}`, `1:7 a text stands in double quotes, found "1x}"`},
		{`{"a": yes}`, `1:7 a value is expected, found "yes}"`},
		{`{"a" 1}`, `1:6 a colon is expected behind the key "a", found "1}"`},
		{`{"a": 1 "b": 2}`, `1:9 a comma or "}" is expected, found "\"b\": 2}"`},
		{`{} {}`, `1:4 there is more behind the end: "{}"`},
		{`"\q"`, `1:1 a text has an escape that JSON does not know`},
		{"\"a\tb\"", `1:3 a control character in a text must be written as an escape`},
		{"{\"a\": 1,\n \"b\": 2, \"a\": 3,\n \"b\": 0}", `2:10 the key "a" is there twice (first on line 1): only one can count; 3:2 the key "b" is there twice (first on line 2): only one can count`},
		{strings.Repeat("[", 1000), "1:102 is nested more than 100 deep"},
	} {
		_, faults := JSON([]byte(tc.text))
		if got := tell(faults); got != tc.want {
			t.Errorf("%q:\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

func tell(faults []Fault) string {
	var out []string
	for _, f := range faults {
		out = append(out, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Text))
	}
	return strings.Join(out, "; ")
}

func TestYAMLFaults(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "1:1 is empty"},
		{"# nothing\n", "1:1 is empty"},
		{"a: 1\n---\nb: 2\n", "there is more than one document"},
		{"a: 1\nb: 2\na: 3\n", `3:1 the key "a" is there twice (first on line 1): only one can count`},
		{"a: &x [*x]\n", "1:8 the alias *x stands inside its own anchor"},
		{"a: *x\n", "is not valid YAML"},
		{"a:\n\t- b\n", "2:"},
		{"? [a]\n: b\n", "1:3 a key must be a plain word"},
		{"<<: 3\n", "<< must name an object"},
		{"a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "is nested more than 100 deep"},
		{"a: \"b\n", "is not valid YAML"},
	} {
		_, faults := YAML([]byte(tc.text))
		if got := tell(faults); !strings.Contains(got, tc.want) {
			t.Errorf("%.60q:\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
	tr, faults := YAML([]byte("base: &b {x: 1, y: 2}\nt:\n  <<: *b\n  y: 3\n"))
	if len(faults) > 0 || tr.Root.Get("t").Get("x").Text != "1" || tr.Root.Get("t").Get("y").Text != "3" {
		t.Errorf("merge: %v", faults)
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	if _, faults := YAML([]byte(bomb)); len(faults) > 0 {
		t.Errorf("a bomb: %v", faults)
	}
}

const sampleYAML = `# plan
name: x
tasks:
  - task_id: A # first
    name: "one"
    status: pending   # why
    list: [a, b]

  # the second
  - name: >
      folded
      text
    task_id: 'B'
    status: ~
  - {task_id: C, name: c}
  - task_id: D
    status:
  - task_id: E
    status: |
      pending
    notes: "über"
after:
- z
`

func TestSetYAML(t *testing.T) {
	for _, tc := range []struct {
		i        int
		changes  []Change
		old, new string
	}{
		{0, []Change{{"status", "in_progress"}}, "status: pending   # why", "status: in_progress   # why"},
		{0, []Change{{"status", "done"}, {"result", "it: works"}}, "task_id: A # first\n    name: \"one\"\n    status: pending ", "task_id: A # first\n    result: \"it: works\"\n    name: \"one\"\n    status: done "},
		{0, []Change{{"name", "no"}}, `"one"`, `"no"`},
		{1, []Change{{"status", "done"}}, "status: ~", "status: done"},
		{1, []Change{{"result", "x"}}, "task_id: 'B'\n", "task_id: 'B'\n    result: x\n"},
		{2, []Change{{"status", "done"}}, "{task_id: C", "{\"status\": \"done\", task_id: C"},
		{3, []Change{{"status", "done"}}, "task_id: D\n    status:\n", "task_id: D\n    status: done\n"},
		{4, []Change{{"status", "done"}}, "|\n      pending\n", "done\n"},
		{1, []Change{{"name", "x"}}, ">\n      folded\n      text\n", "x\n"},
		{4, []Change{{"notes", "a\nb"}}, `"über"`, `"a\nb"`},
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			text := strings.ReplaceAll(sampleYAML, "\n", eol)
			tr, faults := YAML([]byte(text))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			got, err := tr.Set(tr.Root.Get("tasks").Items[tc.i], tc.changes)
			if err != nil {
				t.Errorf("%d %v: %v", tc.i, tc.changes, err)
				continue
			}
			old, new := strings.ReplaceAll(tc.old, "\n", eol), strings.ReplaceAll(tc.new, "\n", eol)
			if want := strings.Replace(text, old, new, 1); want == text || string(got.Data) != want {
				t.Errorf("%d %v:\n%s", tc.i, tc.changes, got.Data)
			}
			again, _ := YAML(got.Data)
			if !samePlaces(got.Root, again.Root) {
				t.Errorf("%d %v: the places moved", tc.i, tc.changes)
			}
		}
	}
	tr, _ := YAML([]byte("t:\n  status: a\n   b # mine\n"))
	if _, err := tr.Set(tr.Root.Get("t"), []Change{{"status", "done"}}); !errors.Is(err, ErrPlace) {
		t.Errorf("a comment in the way: %v", err)
	}
	tr, _ = YAML([]byte("b: &b\n  status: x\nt:\n  - <<: *b\n    id: 1\n"))
	if _, err := tr.Set(tr.Root.Get("b"), []Change{{"status", "done"}}); !errors.Is(err, ErrPlace) {
		t.Errorf("behind an alias: %v", err)
	}
	got, err := tr.Set(tr.Root.Get("t").Items[0], []Change{{"status", "done"}})
	if err != nil || !strings.Contains(string(got.Data), "    id: 1\n    status: done\n") {
		t.Errorf("over a merge: %v", err)
	}
}

// samePlaces reports whether two trees are the same, places and all.
func samePlaces(a, b *Node) bool {
	if a.Line != b.Line || a.Column != b.Column || a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Pairs) != len(b.Pairs) {
		return false
	}
	for i := range a.Items {
		if !samePlaces(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i := range a.Pairs {
		if a.Pairs[i].Line != b.Pairs[i].Line || a.Pairs[i].Key != b.Pairs[i].Key || !samePlaces(a.Pairs[i].Value, b.Pairs[i].Value) {
			return false
		}
	}
	return true
}

func TestSetJSON(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`[{"id":"a","passes":false}]`, `[{"id":"a","passes":true,"status":"x"}]`},
		{"[\n  {\n    \"id\": \"a\",\n    \"passes\" : false\n  }\n]\n", "[\n  {\n    \"id\": \"a\",\n    \"passes\" : true,\n    \"status\": \"x\"\n  }\n]\n"},
		{"[{}]", `[{"passes": true,"status": "x"}]`},
		{"\ufeff[ { \"passes\": null } ]\r\n", "\ufeff[ { \"passes\": true, \"status\": \"x\" } ]\r\n"},
	} {
		tr, faults := JSON([]byte(tc.text))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		got, err := tr.Set(tr.Root.Items[0], []Change{{"passes", true}, {"status", "x"}})
		if err != nil || string(got.Data) != tc.want {
			t.Errorf("%v\n got %q\nwant %q", err, got.Data, tc.want)
		}
		same, err := got.Set(got.Root.Items[0], []Change{{"passes", true}})
		if err != nil || same != got {
			t.Errorf("what is the same: %v", err)
		}
	}
}

// FuzzJSON: no text makes reading fail, and what is read and changed is JSON
// still, different in the one value only.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"c"}]}`, "[{\"id\":1,\n\"x\":\"\\u00e9\"}]", `{"a":1,"a":2}`, "\ufeff{}", `{"a":"\ud800"}`, "{\"a\":tru", `[[[[`, `{"a": -0.5e+3 }`} {
		f.Add([]byte(s), "note")
	}
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		tr, faults := JSON(data)
		if tr == nil && len(faults) == 0 {
			t.Fatal("no tree and no fault")
		}
		if tr == nil || len(faults) > 0 {
			return
		}
		each(tr.Root, func(n *Node) {
			if n.Kind == Map {
				fuzzSet(t, tr, n, value, JSON)
			}
		})
	})
}

// FuzzYAML is FuzzJSON for YAML.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{sampleYAML, "a: &x {b: c}\nd: *x\n", "a:\n  <<: {x: 1}\n  y: |\n    z\n", "- a: 'it''s'\n- b: \"x\n  y\"\n", "{a: b, c: [d]}", "a: b\n...\n", "--- \na: b", "a: \u2028b\nc: d\n", "? a\n: b\n"} {
		f.Add([]byte(s), "no")
	}
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		tr, faults := YAML(data)
		if tr == nil && len(faults) == 0 {
			t.Fatal("no tree and no fault")
		}
		if tr == nil || len(faults) > 0 {
			return
		}
		count := 0
		each(tr.Root, func(n *Node) { count++ })
		for i := range min(count, 6) {
			fresh, _ := YAML(data)
			k := 0
			each(fresh.Root, func(n *Node) {
				if k++; k == i+1 && n.Kind == Map {
					fuzzSet(t, fresh, n, value, YAML)
				}
			})
		}
	})
}

func fuzzSet(t *testing.T, tr *Tree, n *Node, value string, read func([]byte) (*Tree, []Fault)) {
	t.Helper()
	before := bytes.Clone(tr.Data)
	got, err := tr.Set(n, []Change{{"status", value}, {"passes", true}})
	if err != nil {
		return
	}
	again, faults := read(got.Data)
	if again == nil || len(faults) > 0 {
		t.Fatalf("%q became %q: %v", before, got.Data, faults)
	}
	if !samePlaces(got.Root, again.Root) {
		t.Fatalf("%q became %q: the places are wrong", before, got.Data)
	}
	found := false
	each(again.Root, func(n *Node) {
		s, p := n.Get("status"), n.Get("passes")
		found = found || s != nil && p != nil && s.Text == clean(value) && p.Text == "true"
	})
	if !found {
		t.Fatalf("%q became %q: the value is not there", before, got.Data)
	}
}

func each(n *Node, do func(*Node)) {
	budget := 2000
	var walk func(n *Node)
	walk = func(n *Node) {
		if budget--; budget < 0 {
			return
		}
		do(n)
		for _, i := range n.Items {
			walk(i)
		}
		for _, p := range n.Pairs {
			walk(p.Value)
		}
	}
	walk(n)
}
