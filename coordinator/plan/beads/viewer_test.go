package beads_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/plan/beads"
	"ralph/workers/exec/supervise"
)

// viewer is a stand-in for bv: a shell script.
func viewer(t *testing.T, text string) (beads.Viewer, string) {
	t.Helper()
	dir := t.TempDir()
	fixtures, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "seen")
	write(t, filepath.Join(dir, "bv"), "#!/bin/sh\n"+strings.NewReplacer("TESTDATA", fixtures, "LOG", log).Replace(text), 0o755)
	return beads.Viewer{Proc: runner(t), Program: filepath.Join(dir, "bv"), Environ: append(os.Environ(), "BEADS_DIR=/project/.beads", "BV_X=1"), Timeout: 5 * time.Second}, log
}

func TestTriage(t *testing.T) {
	ctx := context.Background()
	jsonl := []byte(read(t, "testdata/issues.jsonl"))
	for _, version := range []string{"0.11.3", "0.14.4"} {
		v, log := viewer(t, `[ "$*" = --robot-triage ] || exit 2
			{ pwd; echo "$HOME"; echo "$BEADS_DIR"; echo "$BV_X"; cat "$BEADS_DIR/issues.jsonl"; } > LOG
			echo hello > "$PWD/.gitignore"; mkdir -p "$PWD/.bv"
			cat TESTDATA/bv/triage-`+version+`.json`)
		o, err := v.Triage(ctx, jsonl)
		if err != nil {
			t.Fatal(err)
		}
		if o.Seen != 8 || len(o.Hash) != 16 || len(o.Advice) != 7 {
			t.Errorf("%s: seen %d, hash %q, %d advised", version, o.Seen, o.Hash, len(o.Advice))
		}
		// bv's own first choice is blocked, its third is being worked, its fifth an epic.
		first, top, ok := o.Among([]string{"demo-8", "demo-7", "demo-3"})
		if !ok || first.ID != "demo-3" || top.ID != "demo-5" || strings.Join(top.BlockedBy, " ") != "demo-3 demo-4" || len(first.Reasons) == 0 {
			t.Errorf("%s: %+v, %+v, %v", version, first, top, ok)
		}
		if _, _, ok := o.Among([]string{"x"}); ok {
			t.Errorf("%s: it recommends what there is not", version)
		}
		seen := strings.SplitN(read(t, log), "\n", 5)
		if seen[0] != seen[1] || seen[2] != seen[0]+"/.beads" || seen[3] != "" || seen[4] != string(jsonl) {
			t.Errorf("%s saw %q", version, seen[:4])
		}
		if _, err := os.Stat(seen[0]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the copy is still there: %v", version, err)
		}
	}
}

func TestTriageFails(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"it saw nothing", `echo '{"data_hash":"empty","triage":{"meta":{"issue_count":0},"recommendations":[]}}'`, beads.ErrNoOpinion},
		{"no triage", `echo '{"message":"No actionable items available"}'`, beads.ErrNoOpinion},
		{"no JSON", `echo 'Error loading beads'`, beads.ErrNoOpinion},
		{"nothing", ``, beads.ErrNoOpinion},
		{"a bad flag", `echo 'unknown flag: --robot-triage' >&2; exit 2`, beads.ErrNoOpinion},
		{"labels null, lists null", `echo '{"data_hash":"x","triage":{"meta":{"issue_count":1},"recommendations":null}}'`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, _ := viewer(t, c.text)
			_, err := v.Triage(context.Background(), []byte("{}\n"))
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
	gone := beads.Viewer{Proc: runner(t), Environ: []string{"PATH=" + t.TempDir()}}
	if _, err := gone.Triage(context.Background(), nil); !errors.Is(err, beads.ErrNoViewer) {
		t.Errorf("without bv: %v", err)
	}
	slow, _ := viewer(t, "trap '' INT TERM; sleep 60")
	slow.Timeout = 300 * time.Millisecond
	began := time.Now()
	if _, err := slow.Triage(context.Background(), nil); !errors.Is(err, beads.ErrNoOpinion) || time.Since(began) > 20*time.Second {
		t.Errorf("a slow one: %v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("stop"))
	if _, err := slow.Triage(ctx, nil); err == nil || errors.Is(err, beads.ErrNoOpinion) {
		t.Errorf("stopped: %v", err)
	}
	if left := supervise.Leaks(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}
