package prd_test

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/plan/beads"
	"ralph/coordinator/plan/prd"
	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
)

const forBeads = `## EPIC-1: Shop
About it.
### US-1: Store
Text with 'quotes' and $(touch pwned).
- [x] it stores
### US-2: --show
**Depends on:** US-1
**Labels:** ui, web
- [ ] it shows
### US-3: Pay
**Depends on:** US-1, US-2
- [ ] it pays
`

// bench is a project with a database of bd, made by the program.
func bench(t *testing.T, program string) prd.Maker {
	t.Helper()
	root := t.TempDir()
	runner := exec.New(exec.Options{})
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	init := osexec.Command(program, "init", "--prefix", "demo", "--quiet", "--skip-hooks", "--skip-merge-driver")
	init.Dir, init.Env = root, append(environ, "BEADS_NO_DAEMON=1")
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("bd init: %v: %s", err, out)
	}
	c, err := beads.Open(beads.Options{Root: root, Proc: runner, Environ: environ, Program: program, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return prd.Maker{Client: c, Proc: runner, Environ: environ, Program: program, Timeout: 30 * time.Second, Actor: "ralph"}
}

func realBD(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("RALPH_TEST_BD"); path != "" {
		return path
	}
	path, err := osexec.LookPath("bd")
	if err != nil {
		t.Skip("no bd: set RALPH_TEST_BD to one, or put it into PATH")
	}
	return path
}

// TestRealBD makes issues with the real program, and again.
func TestRealBD(t *testing.T) {
	m := bench(t, realBD(t))
	doc, _ := prd.Parse([]byte(forBeads))
	made, err := m.Make(t.Context(), doc.Issues(), false)
	if err != nil || len(made) != 4 {
		t.Fatalf("%v, %v", made, err)
	}
	ids := map[string]string{}
	for _, x := range made {
		ids[x.Ref] = x.ID
	}
	s, err := m.Client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range s.Issues {
		var blocked []string
		for _, d := range i.Dependencies {
			if d.Type == "blocks" {
				blocked = append(blocked, d.On)
			}
		}
		wait := strings.Join(blocked, " ")
		switch i.ExternalRef {
		case "EPIC-1":
			if i.Type != "epic" || i.Title != "Shop" {
				t.Errorf("%+v", i)
			}
		case "US-1":
			if !i.Closed() || i.Parent() != ids["EPIC-1"] || !strings.Contains(i.Description, "$(touch pwned)") || !strings.Contains(i.Acceptance, "it stores") {
				t.Errorf("%+v", i)
			}
		case "US-2":
			if i.Closed() || i.Title != "--show" || wait != ids["US-1"] || strings.Join(i.Labels, " ") != "ui web" {
				t.Errorf("%+v", i)
			}
		case "US-3":
			if wait != ids["US-2"] {
				t.Errorf("the reduction left %q: %+v", wait, i)
			}
		default:
			t.Errorf("%+v", i)
		}
	}
	if _, err := m.Make(t.Context(), doc.Issues(), false); !errors.Is(err, prd.ErrThere) || !strings.Contains(err.Error(), "US-1") {
		t.Errorf("made twice: %v", err)
	}
	more, _ := prd.Parse([]byte(forBeads + "### US-4: More\n**Depends on:** US-3\n- [ ] x\n"))
	made, err = m.Make(t.Context(), more.Issues(), true)
	if err != nil || len(made) != 5 || !made[0].There || made[4].There || made[4].Ref != "US-4" {
		t.Errorf("a merge: %v, %v", made, err)
	}
}

// standIn is a program that behaves like bd 0.47 but for one call.
func standIn(t *testing.T, create string) prd.Maker {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bd")
	text := `#!/bin/sh
while [ "$1" = --actor ]; do shift 2; done
case "$1" in
init) mkdir .beads; : > .beads/beads.db; : > .beads/issues.jsonl;;
version) echo '{"version":"0.47.1","build":"dev"}';;
where) echo '{"path":"'"$BEADS_DIR"'"}';;
export) shift; while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done;;
create) ` + create + `;;
esac
`
	if err := exectest.WriteProgram(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	m := bench(t, path)
	m.Timeout = 500 * time.Millisecond
	return m
}

// Nothing is believed but the JSON.
func TestLyingBD(t *testing.T) {
	doc, _ := prd.Parse([]byte(forBeads))
	for name, x := range map[string]struct {
		create string
		want   error
		text   string
	}{
		"silent": {":", beads.ErrNotProven, "showed no issue"},
		"error":  {`echo 'Error: no database' >&2`, beads.ErrNotProven, "no database"},
		"json":   {`echo '{"error":"bad priority"}'; exit 1`, beads.ErrNotProven, "bad priority"},
		"other":  {`echo '{"id":"demo-1","title":"another"}'`, beads.ErrNotProven, "make an issue of EPIC-1"},
		"hangs":  {"sleep 60", beads.ErrSlow, "EPIC-1"},
		"broken": {`echo '{"id":'`, beads.ErrNotProven, "EPIC-1"},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := standIn(t, x.create).Make(t.Context(), doc.Issues(), false)
			if len(made) != 0 || !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.text) {
				t.Errorf("%v, %v", made, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := standIn(t, "sleep 60")
	m.Timeout = time.Minute
	time.AfterFunc(200*time.Millisecond, cancel)
	began := time.Now()
	if _, err := m.Make(ctx, doc.Issues(), false); err == nil || time.Since(began) > 20*time.Second {
		t.Errorf("a stop: %v after %v", err, time.Since(began))
	}
}
