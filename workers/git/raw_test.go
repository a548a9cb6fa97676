package git

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// conversions are what gitattributes(5) and git-config(1) have that makes content in a work tree
// another than that of the object, each as a script of the user's.
func conversions() map[string]string {
	return map[string]string{
		"text":              `echo '* text' >.gitattributes`,
		"text=auto":         `echo '* text=auto' >.gitattributes`,
		"eol=lf":            `echo '* text eol=lf' >.gitattributes`,
		"eol=crlf":          `echo '* text eol=crlf' >.gitattributes`,
		"crlf":              `echo '* crlf' >.gitattributes`,
		"crlf=input":        `echo '* crlf=input' >.gitattributes`,
		"ident":             `echo '* ident' >.gitattributes`,
		"UTF-16, declared":  `echo '* text working-tree-encoding=UTF-16' >.gitattributes`,
		"latin, declared":   `echo '* text working-tree-encoding=ISO-8859-1' >.gitattributes`,
		"filter":            `echo '* filter=f' >.gitattributes; git config filter.f.clean 'tr a-z A-Z'; git config filter.f.smudge cat; git config filter.f.required true`,
		"a macro":           `printf '[attr]mine text eol=crlf ident\n* mine\n' >.gitattributes`,
		"info/attributes":   `mkdir -p .git/info; echo '* text eol=lf ident' >.git/info/attributes`,
		"attributesFile":    `echo '* text eol=lf ident' >"$HOME/attributes"; git config --global core.attributesFile "$HOME/attributes"`,
		"autocrlf":          `git config core.autocrlf true`,
		"autocrlf=input":    `git config core.autocrlf input`,
		"autocrlf, global":  `git config --global core.autocrlf true`,
		"safecrlf":          `git config core.autocrlf true; git config core.safecrlf true`,
		"eol, core":         `git config core.eol crlf; echo '* text=auto' >.gitattributes`,
		"nested attributes": `mkdir -p dir; echo '* text eol=lf ident' >dir/.gitattributes`,
	}
}

func contentsOf(t *testing.T, w *world, names []string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(w.path(name))
		if err != nil {
			text = []byte(err.Error())
		}
		out.WriteString(name + " " + string(text) + "\x00")
	}
	return out.String()
}

// TestCheckpointsAreBytes restores files of each kind under every conversion, tracked and not, as
// they were to the byte, whether the first checkpoint begins with the user's index or not.
func TestCheckpointsAreBytes(t *testing.T) {
	for name, script := range conversions() {
		t.Run(name, func(t *testing.T) {
			w := newRepo(t)
			names := []string{"unix", "dos", "mixed", "id", "expanded", "utf8", "utf16", "binary", "dir/dos", "late"}
			for n, text := range map[string]string{"unix": "a\nb\n", "dos": "a\r\nb\r\n", "mixed": "a\r\nb\n", "id": "$Id$\n", "expanded": "$Id: 0123 $\r\n", "utf8": "é\r\n", "utf16": "\xff\xfea\x00\r\x00\n\x00", "binary": "\x00\r\n\x00", "dir/dos": "x\r\n$Id: 1 $\r\n"} {
				w.write(n, text)
			}
			cmd := osexec.Command("sh", "-ec", script+`; git add -A || git add .gitattributes || true; git commit -qm x || true`)
			cmd.Dir, cmd.Env = w.root, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			w.write("late", "l\r\n$Id: 2 $\r\n")
			loc := must(Find(w.root))(t)
			c := OpenCheckpoints(w.proc, w.root, filepath.Join(w.root, ".ralph"), w.path("home:raw"), &loc)
			want := contentsOf(t, w, names)
			before := take(t, c, "b")
			for _, n := range names {
				w.write(n, "changed\n")
			}
			after := take(t, c, "a")
			r := must(c.Restore(t.Context(), before, after, nil))(t)
			if got := contentsOf(t, w, names); got != want || len(r.Kept) > 0 {
				t.Errorf("kept %q\n%q\n%q", r.Kept, got, want)
			}
			w.remove("dos")
			must(c.Restore(t.Context(), before, take(t, c, "c"), nil))(t)
			if got := contentsOf(t, w, names); got != want {
				t.Errorf("%q\n%q", got, want)
			}
		})
	}
}
