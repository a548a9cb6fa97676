package slash_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ralph/coordinator/loop"
	"ralph/coordinator/slash"
)

func TestRunFlags(t *testing.T) {
	t.Parallel()
	got, err := slash.RunFlags(`--epic E-1 --epic=E-2 --plan "my plan.json" --tracker json --parallel 4 --max-iterations 12 --select 'priority <= 2 && "backend" in labels' --agent codex --feature login --dry-run --continue=false --new -m gpt-5 --confidence-threshold 0.9 --human-intervention never --timeout 90m --check go\ test`)
	want := loop.Settings{
		Epics: []string{"E-1", "E-2"}, Plan: "my plan.json", Tracker: "json", Parallel: 4, MaxIterations: 12, Select: `priority <= 2 && "backend" in labels`,
		Agent: "codex", Feature: "login", DryRun: true, New: true, Model: "gpt-5", Check: "go test", ConfidenceThreshold: 0.9, HumanIntervention: "never", Timeout: 90 * time.Minute,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	// What nobody gave is left to the configuration and the plan.
	if got, err := slash.RunFlags("  "); err != nil || !cmp.Equal(got, loop.Settings{}) {
		t.Errorf("nothing gave %+v, %v", got, err)
	}
}

func TestRunFlagsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][2]string{
		"prd.json":                      {`"prd.json" is none`, "--plan FILE"},
		"--parallel many":               {`flag --parallel: "many" is not a whole number`, "/help run"},
		"--parallel -3":                 {"-3 is less than 0", "/help run"},
		"--parallel":                    {"needs a value: --parallel N", "/help run"},
		"--plan --new":                  {"needs a value: --plan FILE", "/help run"},
		"--epic ''":                     {"needs a value: --epic ID", "/help run"},
		"--paralel 3":                   {"there is no flag --paralel", "did you mean --parallel?"},
		"--max_iterations 3":            {"there is no flag --max_iterations", "did you mean --max-iterations?"},
		"--output json":                 {"--output does not work inside a chat", "ralph run"},
		"-C /tmp":                       {"-C does not work inside a chat", "ralph run"},
		"-z":                            {"there is no flag -z", "/help run"},
		"--":                            {`"--" is none`, "--plan FILE"},
		"--new --continue":              {"--continue contradicts --new", "goes on"},
		"--human-intervention somtimes": {`"somtimes" is not one of never`, "/help run"},
		"--on-error rety":               {`did you mean "retry"?`, "/help run"},
		"--confidence-threshold 7":      {"7 is not between 0 and 1", "/help run"},
		"--dry-run=perhaps":             {"neither true nor false", "/help run"},
		"--timeout 30":                  {"has no unit", "/help run"},
		"--select 'priority < 2":        {"the quote ' is not closed", "quote as in"},
		`--plan x\`:                     {"nothing stands behind", "quote as in"},
	} {
		_, err := slash.RunFlags(args)
		var f *slash.FlagError
		if !errors.As(err, &f) || !errors.Is(err, slash.ErrFlags) {
			t.Errorf("%q gave %v", args, err)
			continue
		}
		if !strings.Contains(f.Text, want[0]) || !strings.Contains(f.Hint, want[1]) || strings.Contains(f.Text, "\n") {
			t.Errorf("%q is refused with %q, %q; want %q", args, f.Text, f.Hint, want)
		}
	}
}

// Whatever /run takes is a setting of a run, and none is there twice.
func TestRunKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range slash.RunKeys() {
		if k.Flag == "" || seen[k.Flag] {
			t.Errorf("flag %q of key %q", k.Flag, k.Name)
		}
		seen[k.Flag] = true
	}
	for _, name := range []string{"epic", "plan", "tracker", "parallel", "max-iterations", "select", "agent", "fallback-agent", "feature", "dry-run", "continue", "new",
		"confidence-threshold", "human-intervention", "learning-rate", "risk-tolerance", "on-error", "require-check", "check", "sandbox", "max-cost"} {
		if !seen[name] {
			t.Errorf("/run does not take --%s", name)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"":                    nil,
		" a  b\tc\nd ":        {"a", "b", "c", "d"},
		`'a b' "c d" e' 'f`:   {"a b", "c d", "e f"},
		`"a\"b\\c\n" '\' \'x`: {`a"b\c\n`, `\`, `'x`},
		`'' ""`:               {"", ""},
		"日本 語":                {"日本", "語"},
	} {
		if got, err := slash.Words(in); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q is %q, %v, want %q", in, got, err, want)
		}
	}
}

func FuzzRunFlags(f *testing.F) {
	for _, s := range []string{"", "--plan x", "--epic 'a b' --new", `-m "x\`, "--select=a=b", "--- -- -", "-=", "--=x", "\x00--plan \xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		s, err := slash.RunFlags(args)
		switch {
		case err != nil && !errors.Is(err, slash.ErrFlags):
			t.Fatalf("%q: %v", args, err)
		case err == nil && (s.Continue && s.New || s.Parallel < 0 || s.ConfidenceThreshold > 1):
			t.Fatalf("%q was taken as %+v", args, s)
		}
	})
}
