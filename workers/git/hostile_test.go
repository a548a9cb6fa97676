package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Everything that a repository can have git run is planted, each leaving a mark
// of its own. Nothing may run; with the plain git each plant that can be
// triggered is shown to work.
func TestHostileRepository(t *testing.T) {
	w := newRepo(t)
	marks := filepath.Join(w.home, "marks")
	if err := os.Mkdir(marks, 0o755); err != nil {
		t.Fatal(err)
	}
	mark := func(name string) string { return "touch " + filepath.Join(marks, name) + ";" }
	w.write("seed", "1\n")
	w.write("f.clean", "1\n")
	w.write("f.process", "1\n")
	w.write("f.text", "1\n")
	w.write("f.ext", "1\n")
	w.commitAll("one")
	first := w.git("rev-parse", "HEAD")
	w.plant(mark)
	w.write("f.clean", "2\n")
	w.write("f.process", "2\n")
	w.write("f.text", "2\n")
	w.write("f.ext", "2\n")

	r, c, ctx := w.open(), w.checkpoints(), t.Context()
	before := take(t, c, "b")
	must(r.Status(ctx))(t)
	must(r.Diff(ctx, DiffOptions{}))(t)
	must(r.Diff(ctx, DiffOptions{From: first}))(t)
	must(r.Log(ctx, LogOptions{}))(t)
	w.write("seed", "2\n")
	w.write("new", "2\n")
	must(r.Commit(ctx, CommitOptions{Message: "two", Paths: []string{"seed", "new", "f.text", "f.ext"}}))(t)
	must(r.Diff(ctx, DiffOptions{From: first, To: "HEAD"}))(t)
	must(r.CommitsSince(ctx, first))(t)
	w.write("f.clean", "3\n")
	w.write("f.process", "3\n")
	w.write("f.text", "3\n")
	after := take(t, c, "a")
	must(c.Changes(ctx, before, after))(t)
	must(c.Diff(ctx, before, after))(t)
	must(c.Restore(ctx, before, after, nil))(t)
	equal(t, "raw content", w.read("f.clean"), "2\n")
	must(c.List(ctx))(t)
	if err := c.Drop(ctx, "a"); err != nil {
		t.Error(err)
	}
	if _, err := r.Commit(ctx, CommitOptions{Message: "x", All: true}); err == nil {
		t.Error("recorded content past its filter")
	}
	left, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%s was run", e.Name())
	}
	w.provoke(t, marks, first)
}

// then is what a plant does after leaving its mark: a filter hands its input on.
func then(name string) string {
	if name == "uploadpack" || name == "process" {
		return "exit 1"
	}
	return "cat"
}

// plant puts commands into the repository.
func (w *world) plant(mark func(string) string) {
	w.t.Helper()
	script := func(name string) string {
		w.write(".git/evil/"+name, "#!/bin/sh\n"+mark(name)+"\n"+then(name)+"\n")
		p := w.path(".git/evil/" + name)
		if err := os.Chmod(p, 0o755); err != nil {
			w.t.Fatal(err)
		}
		return p
	}
	for _, hook := range []string{"pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc", "fsmonitor-watchman"} {
		w.write(".git/hooks/"+hook, "#!/bin/sh\n"+mark("hook."+hook)+"\n")
		if err := os.Chmod(w.path(".git/hooks/"+hook), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	w.write(".git/evil/included", fmt.Sprintf("[core]\n\tsshCommand = %s\n[filter \"included\"]\n\tclean = %s\n\tsmudge = %s\n\trequired = true\n",
		script("sshCommand"), script("included.clean"), script("included.smudge")))
	w.write(".gitattributes", strings.Join([]string{
		"*.clean filter=a=b", "*.process filter=proc", "*.inc filter=included", "*.text diff=text", "*.ext diff=ext", "new filter=none", ""}, "\n"))
	for key, value := range map[string]string{
		"core.fsmonitor": script("fsmonitor"), "core.pager": script("pager"), "core.editor": script("editor"),
		"core.askPass": script("askpass"), "credential.helper": "!" + mark("credential"), "gpg.program": script("gpg"),
		"commit.gpgSign": "true", "log.showSignature": "true", "diff.external": script("external"),
		"diff.ext.command": script("diff.command"), "diff.text.textconv": script("textconv"),
		"filter.a=b.clean": script("clean"), "filter.a=b.smudge": script("smudge"), "filter.a=b.required": "true",
		"filter.proc.process": script("process"), "filter.proc.required": "true",
		"alias.status": "!" + mark("alias"), "alias.checkpoint": "!" + mark("alias"), "sequence.editor": script("sequence"),
		"include.path": "evil/included", "core.alternateRefsCommand": script("alternate"), "core.hooksPath": ".git/hooks",
		"hook.evil.command": script("hook.config"), "hook.evil.event": "pre-commit", "status.submoduleSummary": "true",
		"extensions.partialClone": "origin", "remote.origin.promisor": "true", "remote.origin.url": w.root,
		"remote.origin.uploadpack": script("uploadpack"), "protocol.file.allow": "always", "gc.auto": "1", "gc.autoDetach": "false",
		"core.worktree": w.home,
	} {
		f, err := os.OpenFile(w.path(".git/config"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		section, rest, _ := strings.Cut(key, ".")
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			section, rest = fmt.Sprintf("%s %q", section, rest[:dot]), rest[dot+1:]
		}
		if _, err := fmt.Fprintf(f, "[%s]\n\t%s = %q\n", section, rest, value); err != nil {
			w.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.write("x.inc", "1\n")
}

// provoke runs the plain git and checks that the plants work there, so that a
// test without marks means something.
func (w *world) provoke(t *testing.T, marks, first string) {
	t.Helper()
	config := strings.ReplaceAll(w.read(".git/config"), "\tworktree = ", "\tnotworktree = ")
	w.write(".git/config", config)
	w.write("f.clean", "4\n")
	w.write("f.process", "4\n")
	w.write("f.text", "4\n")
	w.write("f.ext", "4\n")
	w.try("cat-file", "-p", "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef")
	w.try("add", "f.process")
	config = w.read(".git/config")
	for _, gone := range []string{"partialClone", "promisor", "process", "required"} {
		config = strings.ReplaceAll(config, "\t"+gone+" = ", "\tnot"+gone+" = ")
	}
	w.write(".git/config", config)
	for _, args := range [][]string{
		{"diff"}, {"diff", "--no-ext-diff"}, {"add", "x.inc"}, {"add", "f.clean"}, {"commit", "-m", "x"},
		{"-c", "commit.gpgSign=false", "-c", "filter.proc.required=false", "commit", "-m", "x"},
	} {
		w.try(args...)
	}
	for _, name := range []string{"fsmonitor", "external", "textconv", "clean", "process", "gpg", "uploadpack", "included.clean", "hook.pre-commit", "hook.post-index-change", "hook.reference-transaction"} {
		if _, err := os.Stat(filepath.Join(marks, name)); err != nil {
			t.Errorf("the plant %s does not work with the plain git, so it proves nothing", name)
		}
	}
}
