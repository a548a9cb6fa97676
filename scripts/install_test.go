package scripts

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// make install puts the program, its manual and its completions where they are
// looked for, and make uninstall takes away these and nothing else.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	dest := t.TempDir()
	bin := filepath.Join(t.TempDir(), "built", "ralph")
	run := func(target string, more ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "make", append([]string{"-C", "..", target, "BIN=" + bin, "DESTDIR=" + dest, "PREFIX=/opt/it's here"}, more...)...)
		c.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "MAKE") || strings.HasPrefix(e, "MFLAGS") })
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	list := func() map[string]fs.FileMode {
		found := map[string]fs.FileMode{}
		err := filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			found[strings.TrimPrefix(path, dest+"/opt/it's here/")] = info.Mode()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	run("install")
	want := map[string]string{
		"bin/ralph": "", "share/man/man1/ralph.1": ".TH RALPH 1 ", "share/bash-completion/completions/ralph": "bash completion V2 for ralph",
		"share/zsh/site-functions/_ralph": "#compdef ralph", "share/fish/vendor_completions.d/ralph.fish": "fish completion for ralph",
	}
	got := list()
	for name, begins := range want {
		mode, ok := got[name]
		wantMode := fs.FileMode(0o644)
		if name == "bin/ralph" {
			wantMode = 0o755
		}
		if !ok || mode != wantMode {
			t.Errorf("%s: installed %v with mode %v", name, ok, mode)
			continue
		}
		text, err := os.ReadFile(filepath.Join(dest, "opt/it's here", name))
		if err != nil || !strings.Contains(string(text[:min(len(text), 200)]), begins) {
			t.Errorf("%s begins with %.80q, %v", name, text, err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("installed: %v", got)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dest, "opt/it's here/bin/ralph"), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "ralph ") {
		t.Errorf("the installed program says %q, %v", out, err)
	}
	run("install") // over what is there
	other := filepath.Join(dest, "opt/it's here/share/man/man1/other.1")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run("uninstall")
	if left := list(); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	run("uninstall") // of what is not there
}
