package tools

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/memory/text"
)

// child makes a tree whose node_modules is a link to that of the user's project,
// and opens it with that one to look into.
func child(t *testing.T) (b *bench, project string) {
	t.Helper()
	project, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b = newBench(t)
	user := &bench{t: t, root: project}
	user.put("node_modules/lib/index.js", "export const needle = 1\n")
	user.put("node_modules/.cache/x", "needle\n")
	user.put("node_modules_too/x", "secret\n")
	user.put("src/a.js", "secret\n")
	user.put(".env", "secret\n")
	for link, target := range map[string]string{
		user.path("node_modules/abs-out"):    project + "/.env",
		user.path("node_modules/rel-out"):    "../.env",
		user.path("node_modules/up"):         "..",
		user.path("node_modules/over"):       "../../../../../../../../etc",
		user.path("node_modules/round"):      "../node_modules/lib",
		user.path("node_modules/again"):      project + "/node_modules/lib/index.js",
		user.path("node_modules/home"):       b.root + "/own.js",
		user.path("node_modules/sub-up"):     "lib/../../src",
		b.path("node_modules"):               project + "/node_modules",
		b.path("direct"):                     project + "/node_modules/lib/index.js",
		b.path("env"):                        project + "/.env",
		b.path("too"):                        project + "/node_modules_too",
		b.path("climb"):                      project + "/node_modules/../.env",
		user.path("node_modules/own-via-up"): b.root + "/node_modules/lib",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	b.put("own.js", "own\n")
	if err := b.env.Files.Also(project + "/node_modules"); err != nil {
		t.Fatal(err)
	}
	return b, project
}

func TestAlso(t *testing.T) {
	b, project := child(t)
	lib := project + "/node_modules/lib/index.js"
	for name, at := range map[string]string{
		"node_modules/lib/index.js":               lib,
		"node_modules/round/index.js":             lib,
		"node_modules/again":                      lib,
		"node_modules/own-via-up/index.js":        lib,
		"node_modules/lib/../lib/index.js":        lib,
		"node_modules/up/node_modules/.cache/x":   project + "/node_modules/.cache/x",
		"direct":                                  lib,
		lib:                                       lib,
		project + "/node_modules/round/index.js":  lib,
		"node_modules/home":                       "own.js",
		b.root + "/node_modules/lib/index.js":     lib,
		b.root + "/own.js":                        "own.js",
		project + "/node_modules/./lib//index.js": lib,
	} {
		f, got, err := b.env.Files.Open(name)
		if err != nil || got != at {
			t.Errorf("Open(%q) = %q, %v", name, got, err)
		}
		if err == nil {
			f.Close()
		}
	}
	for _, name := range []string{
		"node_modules/abs-out", "node_modules/rel-out", "node_modules/up", "node_modules/up/.env", "node_modules/up/src/a.js",
		"node_modules/over/passwd", "node_modules/sub-up/a.js", "env", "too/x", "climb", project + "/.env", project, project + "/node_modules_too/x",
		project + "/node_modules/../.env", "node_modules/../.env", project + "/node_modules/up/.env", "node_modules/home/../../x",
	} {
		if f, at, err := b.env.Files.Open(name); err == nil {
			f.Close()
			t.Errorf("Open(%q) reads %q", name, at)
		}
		if dir, at, err := b.env.Files.OpenDir(name); err == nil && at != "." {
			dir.Close()
			t.Errorf("OpenDir(%q) opens %q", name, at)
		}
	}
	if r := b.run("read", "path", "node_modules/lib/index.js"); !strings.HasPrefix(r.Head, lib+": lines 1-1 of 1") {
		t.Error(r.Head)
	}
	if r := b.run("list", "path", "node_modules/lib"); r.Text != "index.js\n" {
		t.Errorf("%+v", r)
	}
	if r := b.run("grep", "path", "node_modules", "pattern", "needle"); !strings.Contains(r.Text, lib+":1:export") || !strings.Contains(r.Text, "/.cache/x:1:") || strings.Contains(r.Text, "secret") {
		t.Errorf("%+v", r)
	}
	if r := b.run("glob", "path", "node_modules", "pattern", "lib/*.js"); r.Text != lib+"\n" {
		t.Errorf("%+v", r)
	}
	if r := b.run("grep", "pattern", "needle|secret"); r.Text != "" {
		t.Errorf("a search of the tree went through the link: %+v", r)
	}
}

func TestAlsoIsForReadingOnly(t *testing.T) {
	b, project := child(t)
	before := snapshot(t, project)
	lib := project + "/node_modules/lib/index.js"
	for _, name := range []string{"node_modules/lib/index.js", "node_modules/new", "node_modules", "direct", lib, project + "/node_modules/new", "node_modules/round/x"} {
		for tool, pairs := range map[string][]any{
			"write": {"path", name, "content", "evil"},
			"edit":  {"path", name, "old_string", "needle", "new_string", "evil"},
		} {
			if r, err := b.try(tool, pairs...); !errors.Is(err, ErrOutside) {
				t.Errorf("%s %s: %+v %v", tool, name, r, err)
			}
		}
	}
	for _, dir := range []string{"node_modules", "node_modules/lib", project + "/node_modules"} {
		if r, err := b.try("shell", "command", "touch x", "workdir", dir); !errors.Is(err, ErrOutside) {
			t.Errorf("shell in %s: %+v %v", dir, r, err)
		}
	}
	if r, err := b.try("git", "action", "diff", "paths", []string{lib}); err == nil {
		t.Errorf("%+v", r)
	}
	if after := snapshot(t, project); after != before {
		t.Errorf("the user's dependencies changed:\n%s", after)
	}
}

func TestAlsoRefuses(t *testing.T) {
	b := newBench(t)
	b.put("file", "")
	if err := os.Symlink("/etc", b.path("link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "rel", "/", "//", "/..", b.path("file"), b.path("link"), b.path("none/deep")} {
		if err := b.env.Files.Also(dir); err == nil {
			t.Errorf("Also(%q)", dir)
		}
	}
}

// The outputs of a child are beside its tree: what its results name can be read.
func TestAlsoTheOutputs(t *testing.T) {
	session, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(e *Env) {
		e.OutputDir, e.OutputLabel = session+"/out", ""
		if err := e.Files.Also(e.OutputDir); err != nil {
			t.Fatal(err)
		}
	})
	r := b.run("shell", "command", "seq 100000")
	_, at, ok := strings.Cut(text.FirstLine(strings.TrimPrefix(r.Head, text.FirstLine(r.Head)+"\n")), "all of it: ")
	if !ok || at != session+"/out/1-shell.txt" {
		t.Fatalf("%q", r.Head)
	}
	if r := b.run("read", "path", at, "offset", 50000, "limit", 1); r.Text != "50000\t50000\n" {
		t.Errorf("%+v", r)
	}
	if r, err := b.try("write", "path", at, "content", "x"); !errors.Is(err, ErrOutside) {
		t.Errorf("%+v %v", r, err)
	}
}

// What stands in the place of the directory is looked at anew each time, and
// leads nowhere else.
func TestAlsoOfAReplacedDirectory(t *testing.T) {
	b, project := child(t)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/x", []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func() (string, error) {
		r, err := b.try("read", "path", "node_modules/x")
		return r.Text, err
	}
	nm := project + "/node_modules"
	if err := os.Rename(nm, project+"/old"); err != nil {
		t.Fatal(err)
	}
	if text, err := read(); err == nil {
		t.Errorf("%q of nothing", text)
	}
	for _, target := range []string{outside, "../" + filepath.Base(outside), project, ".", "src"} {
		if err := os.Symlink(target, nm); err != nil {
			t.Fatal(err)
		}
		if text, err := read(); err == nil {
			t.Errorf("through %s: %q", target, text)
		}
		if r, err := b.try("list", "path", "node_modules"); err == nil {
			t.Errorf("through %s: %+v", target, r)
		}
		if err := os.Remove(nm); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(nm, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(nm+"/x", []byte("made anew"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := read(); err != nil || text != "1\tmade anew\n" {
		t.Errorf("%q %v", text, err)
	}
}

// While one goroutine keeps swapping the directory for links that lead out,
// nothing is read through them.
func TestAlsoOfASwappedDirectory(t *testing.T) {
	b, project := child(t)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nm := project + "/node_modules"
	for name, text := range map[string]string{outside + "/x": "secret", nm + "/x": "inside", project + "/x": "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, target := range []string{outside, "."} {
		if err := os.Symlink(target, project+"/evil"+string(rune('0'+i))); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			evil := project + "/evil" + string(rune('0'+i%2))
			os.Rename(nm, project+"/kept")
			os.Rename(evil, nm)
			os.Rename(nm, evil)
			os.Rename(project+"/kept", nm)
		}
	}()
	good := 0
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		if r, err := b.try("read", "path", "node_modules/x"); err == nil {
			good++
			if strings.Contains(r.Text, "secret") {
				t.Fatal("read through the link")
			}
		}
		if r, err := b.try("grep", "path", "node_modules", "pattern", "secret"); err == nil && r.Text != "" {
			t.Fatalf("searched through the link: %s", r.Text)
		}
	}
	close(stop)
	<-done
	t.Logf("%d reads", good)
}
