package tamper_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"ralph/coordinator/policy/tamper"
)

type sample struct {
	name   string
	files  []tamper.File
	checks []string
}

// corpus reads an archive of changes.
func corpus(t testing.TB, path string) []sample {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	for _, f := range archive.Files {
		name, rest, _ := strings.Cut(f.Name, "/")
		i := slices.IndexFunc(all, func(s sample) bool { return s.name == name })
		if i < 0 {
			all = append(all, sample{name: name})
			i = len(all) - 1
		}
		side, path, _ := strings.Cut(rest, "/")
		if side == "checks" {
			all[i].checks = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			continue
		}
		at := slices.IndexFunc(all[i].files, func(x tamper.File) bool { return x.Path == path })
		if at < 0 {
			all[i].files = append(all[i].files, tamper.File{Path: path})
			at = len(all[i].files) - 1
		}
		switch side {
		case "before":
			all[i].files[at].Before = f.Data
		case "after":
			all[i].files[at].After = f.Data
		default:
			t.Fatalf("%s: neither before nor after", f.Name)
		}
	}
	return all
}

func blocks(list []tamper.Finding) bool {
	return slices.ContainsFunc(list, func(f tamper.Finding) bool { return f.Blocks })
}

// TestCorpus measures both ways to be wrong. The rates are printed with -v.
func TestCorpus(t *testing.T) {
	weak, honest := corpus(t, "testdata/weak.txtar"), corpus(t, "testdata/honest.txtar")
	if len(weak) < 60 || len(honest) < 40 {
		t.Fatalf("%d weakenings and %d honest changes", len(weak), len(honest))
	}
	missed, alarmed, blocked := 0, 0, 0
	start := time.Now()
	for _, s := range weak {
		found := tamper.Inspect(s.files, s.checks)
		if !blocks(found) {
			missed++
			t.Errorf("missed %s: %+v", s.name, found)
		}
		for _, f := range found {
			if f.Path == "" || f.What == "" || f.Why == "" || f.Line < 0 {
				t.Errorf("%s: %+v", s.name, f)
			}
		}
	}
	for _, s := range honest {
		found := tamper.Inspect(s.files, s.checks)
		if len(found) > 0 {
			alarmed++
			t.Logf("%s: %+v", s.name, found)
		}
		if blocks(found) {
			blocked++
			t.Logf("false block of %s", s.name)
		}
	}
	t.Logf("%d weakenings: %d missed; %d honest changes: %d with a finding, %d blocked; %v for all", len(weak), missed, len(honest), alarmed, blocked, time.Since(start).Round(time.Millisecond))
	if blocked > 1 {
		t.Errorf("%d honest changes are blocked", blocked)
	}
	if alarmed > len(honest)/5 {
		t.Errorf("%d honest changes have findings", alarmed)
	}
}
