package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
)

// TestProgramsOfTheProject names a program that is also in the project, in all the
// ways in which PATH can lead there: the user's is run.
func TestProgramsOfTheProject(t *testing.T) {
	base := t.TempDir()
	project, outside := filepath.Join(base, "project"), filepath.Join(base, "outside")
	program := func(path, says string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := exectest.WriteProgram(path, []byte("#!/bin/sh\necho "+says+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tool", "bash", "sh"} {
		for _, dir := range []string{"bin", ".venv/bin", "node_modules/.bin", ".ralph/worktrees/a/bin", "."} {
			program(filepath.Join(project, dir, name), "forged")
		}
		program(filepath.Join(outside, name), "real")
		program(filepath.Join(base, "project-2", name), "real")
		link(filepath.Join(project, "bin", name), filepath.Join(base, "links", name))
	}
	link(filepath.Join(project, "bin"), filepath.Join(base, "linked"))
	link(project, filepath.Join(base, "other"))
	link(outside, filepath.Join(project, "out"))
	for _, at := range []string{project, filepath.Join(base, "other")} {
		r := exec.New(exec.Options{Project: at})
		defer func() {
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		for _, entry := range []string{
			filepath.Join(project, "bin"), filepath.Join(project, ".venv/bin"), filepath.Join(project, "node_modules/.bin"), filepath.Join(project, ".ralph/worktrees/a/bin"),
			project, project + "/", project + "/x/../bin", filepath.Join(base, "other", "bin"), filepath.Join(base, "links"), filepath.Join(base, "linked"), "bin", ".", "",
		} {
			path := entry + ":" + outside
			for name, want := range map[string]string{"tool": outside, "bash": outside, "sh": outside} {
				if got, err := exec.Search(name, path, at); err != nil || got != filepath.Join(want, name) {
					t.Errorf("%s in %q: %q, %v", name, path, got, err)
				}
			}
			res, err := r.Run(t.Context(), exec.Spec{Argv: []string{"tool"}, Dir: project, Env: []string{"PATH=" + path}})
			if err != nil || strings.TrimSpace(string(res.Stdout.Head)) != "real" {
				t.Errorf("%q: %+v, %v", path, res, err)
			}
			t.Setenv("PATH", path)
			if got := exec.Shell(at); got != filepath.Join(outside, "bash") {
				t.Errorf("%q: the shell is %q", path, got)
			}
		}
		// What only begins like the project is elsewhere.
		if got, err := exec.Search("tool", filepath.Join(base, "project-2")+":"+outside, at); err != nil || filepath.Base(filepath.Dir(got)) != "project-2" {
			t.Errorf("%q, %v", got, err)
		}
	}
}
