package external

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// In a sandbox a program has its streams, the sandbox's environment and what its
// adapter names, and can write in the tree only.
func TestInASandbox(t *testing.T) {
	runner := newRunner(t)
	if st := accesspolicy.Check(runner); !st.Complete {
		t.Skip("this system lacks layers of the sandbox:", st)
	}
	root := t.TempDir()
	environ := []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "A_KEY=mine", "B_KEY=other"}
	getenv := func(name string) string { return valueOf(environ, name) }
	box, err := accesspolicy.Open(accesspolicy.Options{Proc: runner, Root: root, Project: root, Agent: "work", Getenv: getenv, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}()
	outside := filepath.Join(t.TempDir(), "outside")
	a := Adapter{
		Name: "held", Format: formatText, Input: inputArg, Env: []string{"A_KEY"},
		Argv: []string{"bash", "-c", `env > env.txt; echo "$1" > out.txt; touch ` + outside + `; echo complaint >&2; cat; echo '` + promise + `'`, "x", "{prompt}"},
	}
	res := Run(t.Context(), Request{
		Adapter: a, Prompt: "the prompt", Dir: root, Environ: environ, Held: true,
		Start: func(ctx context.Context, s exec.Spec) (exec.Result, error) {
			got, _, err := box.Run(ctx, s, accesspolicy.Call{})
			return got, err
		},
	})
	if !res.Declared || !strings.Contains(res.Stderr, "complaint") {
		t.Fatalf("%+v", res)
	}
	if got := readFile(t, root, "out.txt"); got != "the prompt\n" {
		t.Errorf("%q", got)
	}
	if env := readFile(t, root, "env.txt"); !strings.Contains(env, "A_KEY=mine") || strings.Contains(env, "B_KEY") || !strings.Contains(env, "TMPDIR=") || !strings.Contains(env, "BEADS_NO_DAEMON=1") {
		t.Errorf("%s", env)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("it wrote outside")
	}
}

func valueOf(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
