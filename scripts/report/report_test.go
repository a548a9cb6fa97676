package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
	"github.com/spf13/afero"
)

const kept = "../../testdata/sessions"

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixtures are the names of the sessions that are kept for tests.
func fixtures(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir(kept)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) < 10 {
		t.Fatalf("there are only %q", names)
	}
	return names
}

// of reads one of them.
func of(t *testing.T, name string) *Session {
	t.Helper()
	s, err := Read(t.Context(), nil, filepath.Join(kept, name), Wants{Findings: true, Timeline: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); RALPH_TEST_UPDATE=1 writes it anew:\n%s", name, diff)
	}
}

func pretty(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func TestGolden(t *testing.T) {
	clean, older, odd := of(t, "clean"), of(t, "older-shape"), of(t, "contradiction")
	golden(t, "clean.analyze.json", pretty(t, NewAnalyzeDocument(clean, nil)))
	golden(t, "clean.analyze.md", AnalysisText(clean))
	golden(t, "older.analyze.md", AnalysisText(older))
	golden(t, "contradiction.report.json", pretty(t, NewReportDocument(odd, "# x\n", "/p/final-report.md", "", []string{"w"})))
	golden(t, "compare.json", pretty(t, NewCompareDocument([]*Session{clean, older}, nil)))
	golden(t, "compare.md", CompareText([]*Session{clean, older, odd, clean}))
	golden(t, "older.insights.json", pretty(t, NewInsightsDocument(older, 0, nil)))
	golden(t, "older.insights.md", InsightsText(older))
	golden(t, "rules.md", RulesText())
}

// TestTextsOfEverySession sees that whatever stands in a session, its texts are
// lines of at most a terminal's width (but for sentences, which wrap), tables
// are tables, and nothing in them is obeyed by a terminal or by Markdown.
func TestTextsOfEverySession(t *testing.T) {
	var all []*Session
	for _, name := range fixtures(t) {
		s := of(t, name)
		all = append(all, s)
		for what, text := range map[string]string{"analyze": AnalysisText(s), "insights": InsightsText(s), "compare": CompareText([]*Session{s, s})} {
			checkText(t, name+" "+what, text)
		}
	}
	checkText(t, "compare of all", CompareText(all))
	checkText(t, "rules", RulesText())
}

func checkText(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\x00\r\u202e\u2066") {
		t.Errorf("%s: it holds what a terminal obeys", what)
	}
	for _, bad := range []string{"<script", "<img", "](javascript", "](http"} {
		for rest := text; ; {
			_, after, found := strings.Cut(rest, bad)
			if !found {
				break
			}
			if before := rest[:len(rest)-len(after)-len(bad)]; !strings.HasSuffix(before, `\`) {
				t.Errorf("%s: %s is not escaped", what, bad)
				break
			}
			rest = after
		}
	}
	columns := 0
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		if columns != 0 && n != columns {
			t.Errorf("%s: a row has %d bars and the one before %d: %s", what, n, columns, line)
		}
		if columns = n; runewidth.StringWidth(line) > 110 {
			t.Errorf("%s: a row is %d wide: %s", what, runewidth.StringWidth(line), line)
		}
	}
}

func TestReadEndsWhenNobodyWaits(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := Read(ctx, nil, filepath.Join(kept, "clean"), Wants{}); !errors.Is(err, gone) {
		t.Errorf("the error is %v", err)
	}
	if _, err := Read(t.Context(), nil, filepath.Join(t.TempDir(), "none"), Wants{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a directory that is not there: %v", err)
	}
}

func TestPageOfEverySession(t *testing.T) {
	for _, name := range fixtures(t) {
		var b bytes.Buffer
		if err := of(t, name).WritePage(&b, testTime); err != nil || !bytes.Contains(b.Bytes(), []byte("<html")) {
			t.Errorf("%s: %d bytes, %v", name, b.Len(), err)
		}
	}
}

func TestLessons(t *testing.T) {
	dir := filepath.Join(kept, "clean")
	if lines := Lessons(dir); len(lines) != 0 {
		t.Errorf("of a clean session: %q", lines)
	}
	if lines := Lessons(filepath.Join(t.TempDir(), "none")); lines != nil {
		t.Errorf("of none: %q", lines)
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]map[string]any{
		"ralph_runtime_config: {max_iterations: 3, confidence_threshold: .inf, who: [1], mode: ask}": {"max_iterations": 3, "mode": "ask"},
		"ralph_runtime_config: no": {},
		"\t":                       {},
	} {
		if err := os.WriteFile(filepath.Join(dir, "session-metadata.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, settings(afero.NewOsFs(), dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestFigures(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	for in, want := range map[float64]string{0: "0 s", 0.0001: "1 ms", 0.25: "250 ms", 1.5: "1.5 s", 61: "1 min 01 s", 90061: "1 d 1 h", -1: unknown, 1e300: unknown} {
		if got := length(f(in)); got != want {
			t.Errorf("length %v is %q, not %q", in, got, want)
		}
	}
	if money(nil) != unknown || money(f(0.0012)) != "$0.0012" || money(f(1.5)) != "$1.50" || percent(f(0.1234)) != "12.3%" {
		t.Error("money or percent")
	}
}
