package keep

import (
	"testing"

	yaml "go.yaml.in/yaml/v4"
)

func node(t testing.TB, text string) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Load([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

func TestMerge(t *testing.T) {
	for _, tc := range []struct{ name, fresh, old, want string }{
		{"nothing known", "a: 1\n", "b: 2\n", "a: 1\nb: 2\n"},
		{"known stays fresh", "a: 1\n", "a: 7\nb: 2\n", "a: 1\nb: 2\n"},
		{"every level", "a: {x: 1}\n", "a: {y: {z: [2]}}\n", "a: {x: 1, y: {z: [2]}}\n"},
		{"dropped", "a: 1\n", "gone: 2\nb: 3\n", "a: 1\nb: 3\n"},
		{"dropped at the top only", "a: {x: 1}\n", "a: {gone: 2}\n", "a: {x: 1, gone: 2}\n"},
		{"no mapping", "a: 1\n", "[1]\n", "a: 1\n"},
		{"a scalar where a mapping was", "a: 1\n", "a: {y: 2}\n", "a: 1\n"},
		{"an anchor that goes", "a: 1\n", "a: &x [1, 2]\nb: *x\n", "a: 1\nb: [1, 2]\n"},
		{"a mapping by alias", "a: {x: 1}\n", "m: &m {y: 2}\na: *m\n", "a: {x: 1, y: 2}\nm: {y: 2}\n"},
		{"a comment", "a: 1\n", "# mine\nb: 2 # here\n", "a: 1\n# mine\nb: 2 # here\n"},
	} {
		fresh := node(t, tc.fresh)
		Merge(fresh, node(t, tc.old), "gone")
		got, err := yaml.Dump(fresh)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %q %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

// TestBomb: aliases that would grow without bound become null.
func TestBomb(t *testing.T) {
	text := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		p := string(c - 1)
		text += string(c) + ": &" + string(c) + " [*" + p + ", *" + p + ", *" + p + ", *" + p + ", *" + p + ", *" + p + ", *" + p + ", *" + p + ", *" + p + ", *" + p + "]\n"
	}
	var count func(n *yaml.Node) int
	count = func(n *yaml.Node) int {
		sum := 1
		for _, e := range n.Content {
			sum += count(e)
		}
		return sum
	}
	sum := 0
	for _, n := range Unknown(node(t, text)) {
		sum += count(n)
	}
	if sum > 2*maxNodes {
		t.Errorf("%d nodes", sum)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("a: 1", "b: &x {c: *x}")
	f.Add("a: {b: 1}", "a: {<<: {c: 2}}\n? [k]\n: v")
	f.Fuzz(func(t *testing.T, fresh, old string) {
		var a, b yaml.Node
		if yaml.Load([]byte(fresh), &a) != nil || yaml.Load([]byte(old), &b) != nil || len(a.Content) == 0 || len(b.Content) == 0 {
			return
		}
		Merge(a.Content[0], b.Content[0])
		if _, err := yaml.Dump(a.Content[0]); err != nil {
			t.Fatal(err)
		}
	})
}
