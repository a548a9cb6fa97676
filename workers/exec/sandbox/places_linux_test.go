package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The longer of two paths counts, and directories above a protected or hidden one are pinned.
func TestSurvey(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"p/.git/objects", "p/a/b/c", "p/sub", "p/home/state", "secret/open"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(base, name) }
	all, err := survey(Policy{Write: []string{in("p"), in("p/sub"), in("p/.git/objects"), in("secret/open")},
		Protect: []string{base, in("p/.git"), in("p/a/b/c"), in("p/none")}, Hide: []string{in("secret"), in("p/home/state"), in("none")}}, in("p"), true)
	if err != nil {
		t.Fatal(err)
	}
	names := map[kind]string{shown: "shown", pinned: "pinned", written: "written", hidden: "hidden"}
	var got []string
	for _, e := range all {
		if within(e.path, base) {
			got = append(got, names[e.kind]+strings.TrimPrefix(e.path, base))
		}
	}
	want := "shown written/p shown/p/.git written/p/.git/objects pinned/p/a pinned/p/a/b shown/p/a/b/c pinned/p/home hidden/p/home/state hidden/secret written/secret/open"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}
