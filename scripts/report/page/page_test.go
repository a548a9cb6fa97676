package page_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/afero"
	"golang.org/x/net/html"

	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/scripts/report/analysis"
	"ralph/scripts/report/insights"
	"ralph/scripts/report/page"
)

// sessions are the sessions that all readers are tested with.
const sessions = "../../../testdata/sessions"

// read does what the report does with a session's directory.
func read(t testing.TB, dir string) page.Input {
	t.Helper()
	fsys := afero.NewOsFs()
	c, a := page.New(), analysis.New()
	d, err := folder.Read(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	// A cut log is in the data's problems.
	_, _ = folder.Events(fsys, dir, func(e folder.Event) error { c.Event("e1", e); a.Event("e1", e); return nil })
	_, _ = session.ReadRecords(fsys, filepath.Join(dir, session.JournalFile), nil, func(r session.Record) error { c.Record(r); a.Record(r); return nil })
	x := a.Result(d)
	in := page.Input{Data: d, Timeline: c.Result(d), Figures: page.FiguresOf(x), Notes: x.Notes}
	for _, d := range d.Differences() {
		in.Differences = append(in.Differences, d.String())
	}
	return in
}

// figures are made up, so that the golden page does not change with the
// analysis.
func figures() page.Figures {
	f := func(n float64) *float64 { return &n }
	spent := page.Spent{Name: "qwen3-coder", Requests: 24, Input: 409_200, Cached: 229_794, Output: 12_240, Reasoning: 1920, Total: 421_440, Cost: f(0.1832)}
	return page.Figures{
		Kind: "run", Model: "qwen3-coder", RunID: "r-1", Answer: "Uploads are retried on 503, with jitter.", Seconds: f(670),
		Tasks:   page.TaskFigures{Total: 6, Done: 6, Median: f(131.5), P95: f(175), Max: f(175)},
		Kinds:   []page.Group{{Name: "feature", N: 4, Done: 4, Median: f(140)}, {Name: "bug", N: 3, Done: 2, Failed: 1, Median: f(128)}},
		Slowest: []page.Work{{ID: "T-5", Name: "Count retries in the metrics", Attempts: 1, Seconds: 175}},
		Time:    []page.Share{{Name: "model", Seconds: 436}, {Name: "tools", Seconds: 216}, {Name: "human", Seconds: 4.5}, {Name: "idle", Seconds: 0.7}},
		Tokens:  spent, ByModel: []page.Spent{spent}, Errors: 1, Resolved: 1, Retries: 1,
		Gates:     []page.Group{{Name: "go test ./...", N: 6, Done: 6}},
		Interrupt: page.Latency{N: 1, Median: f(0.08), Max: f(0.08)}, Waits: page.Latency{N: 1, Max: f(4.5)},
		Confident: []page.Calibration{{Of: "Agents", N: 6, Brier: f(0.02), Error: f(0.14), Bins: []page.Bin{{Low: 0.7, High: 0.8, N: 2, Confidence: 0.78, Success: 1}, {Low: 0.8, High: 0.9, N: 4, Confidence: 0.86, Success: 0.75}}}},
	}
}

func written(t testing.TB, in page.Input) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestThePageOfAnHonestSession(t *testing.T) {
	in := read(t, filepath.Join(sessions, "clean"))
	in.Figures = figures()
	in.Generated = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	in.Findings = []insights.Finding{{Rule: "idle_waiting_for_human", Title: "Waited for the human", Severity: insights.Low, Count: 30, Events: []string{"e17", "j341"},
		TaskIDs: []string{"T-4"}, Evidence: "One wait of 6 min 10 s.", Suggestion: "Allow what is harmless beforehand."}}
	got := written(t, in)
	if again := written(t, in); !bytes.Equal(got, again) {
		t.Error("the same data make another page")
	}
	const golden = "testdata/clean.html"
	if os.Getenv("RALPH_TEST_UPDATE") != "" {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the page is not %s any more; look at both, and run with RALPH_TEST_UPDATE=1", golden)
	}
	text := inner(parsed(t, got))
	for _, want := range []string{"6 of 6 tasks done", "Retry the upload on 503", "Fix the flaky clock test: failed, ", "Waited for the human", "e17, j341 … of 30", "Confidence against outcome"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func parsed(t testing.TB, page []byte) *html.Node {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// inner is all text below a node, but that of styles.
func inner(n *html.Node) string {
	var b strings.Builder
	for n := range n.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

// inert reports what in a page could do something: elements and attributes that
// the template does not have, and addresses of anything outside.
func inert(t testing.TB, root *html.Node) {
	t.Helper()
	elements := strings.Fields("html head meta link title style body div header main section nav footer figure p h1 h2 h3 span b code a dl dt dd ul ol li " +
		"blockquote table caption thead tbody tr th td details summary svg defs pattern rect line circle path g use text desc")
	attributes := strings.Fields("lang charset http-equiv content name rel href id class style role title tabindex scope aria-label aria-hidden data-of focusable " +
		"x y x1 x2 y1 y2 cx cy r d width height viewbox preserveaspectratio patternunits patterntransform text-anchor font-style")
	styles := []string{"margin:.6rem 0 0", "margin:0"}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(elements, n.Data) {
			t.Errorf("the page has an element %s", n.Data)
		}
		for _, a := range n.Attr {
			if !slices.Contains(attributes, strings.ToLower(a.Key)) {
				t.Errorf("the page has an attribute %s=%q", a.Key, a.Val)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") && a.Val != "data:," {
				t.Errorf("the page leads to %q", a.Val)
			}
			if a.Key == "style" && !slices.Contains(styles, a.Val) && !strings.HasPrefix(a.Val, "fill:var(--") && !strings.HasPrefix(a.Val, "stroke:var(--") {
				t.Errorf("the page has a style %q", a.Val)
			}
		}
		if n.Data == "style" && (strings.Contains(n.FirstChild.Data, "@import") || strings.Contains(strings.ReplaceAll(n.FirstChild.Data, "url(#", ""), "url(")) {
			t.Error("the style asks for something outside")
		}
	}
}

// TestHostileTexts puts the worst texts into every field there is.
func TestHostileTexts(t *testing.T) {
	for _, evil := range []string{
		`<script>document.title="owned"</script>`, `"><img src=x onerror=alert(1)>`, `'><svg onload=alert(1)>`, `</title></style></svg>]]><h1>out</h1>`, `javascript:alert(1)`,
		`{{.}} {{template "x"}}`, "a\x1b[2Jb\x00c\u202ed\u2066", "\xff\xfe", strings.Repeat("A<b>", 250_000), strings.Repeat("\u0301", 5000), "x;}</style><script>1</script>", "` onfocus=1 autofocus x=`",
	} {
		in := poisoned(evil)
		got := written(t, in)
		inert(t, parsed(t, got))
		if bad := bytes.IndexFunc(got, func(r rune) bool {
			return r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r)
		}); bad >= 0 {
			t.Errorf("%.30q: the page holds what is not seen: %q", evil, got[bad:bad+4])
		}
		if len(got) > 400_000 {
			t.Errorf("%.30q: the page has %d bytes", evil, len(got))
		}
		if n := strings.Count(inner(parsed(t, got)), "<script>document.title"); strings.HasPrefix(evil, "<script>d") && n < 40 {
			t.Errorf("the text stands on the page %d times, not in every field", n)
		}
	}
}

// poisoned is an input with a text wherever a text can be.
func poisoned(evil string) page.Input {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	c := page.New()
	for i, k := range []folder.EventType{folder.SessionStart, folder.PhaseStart, folder.TaskStart, folder.Errored, folder.Retried, folder.Interrupted, folder.GateChecked, folder.Tripped,
		folder.Message, folder.Checkpoint, folder.Handoff, folder.Decided, folder.TaskComplete, folder.PhaseComplete, folder.EventType(evil), folder.TaskStart} {
		c.Event("e1", folder.Event{Time: at.Add(time.Duration(i) * time.Second), Type: k, TaskID: evil, TaskName: evil, Result: evil, Duration: time.Second,
			Details: map[string]any{"kind": evil, "check": evil, "role": "user", "text": evil, "condition": evil, "ref": evil, "name": evil, "about": evil, "decision_type": "permission", "usage": map[string]any{"input": 5.0}}})
	}
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\x1b", `\u001b`, "\x00", `\u0000`).Replace(strings.ToValidUTF8(evil, "?")) + `"`
	for i, k := range []string{"child_start", "turn_start", "usage", "tool_end", "child_end"} {
		c.Record(session.Record{Seq: int64(i), Time: at.Add(time.Duration(i) * time.Second), Kind: "event",
			Payload: []byte(`{"type":"` + k + `","agent":` + quoted + `,"text":` + quoted + `,"task_id":` + quoted + `,"status":` + quoted + `,"usage":{"input":3}}`)})
	}
	one := 1.0
	d := folder.Data{Dir: evil, Files: []string{evil}, Problems: []folder.Problem{{File: evil, Err: errors.New(evil)}}}
	d.Meta.SessionID, d.Meta.Name, d.Meta.Status, d.Meta.PhaseName, d.Meta.ExitReason = evil, evil, evil, evil, evil
	d.Progress.Tasks = []folder.TaskState{{TaskID: evil, Status: folder.TaskStatus(evil), Artifacts: []string{evil}}, {TaskID: evil + "2", Status: folder.TaskStatus(evil), StartedAt: &at}}
	x := folder.Decision{TaskID: evil, DecisionType: evil, Outcome: evil}
	x.Decision.Action, x.Decision.Rationale = evil, evil
	d.Decisions = []folder.Decision{x}
	d.Failures = []folder.Failure{{TaskID: evil, ErrorType: evil, ErrorMessage: evil, Severity: folder.Severity(evil), RecoveryAction: evil}}
	d.Trips = []folder.Trip{{Condition: evil, ActionTaken: evil}}
	d.Inventory.Features = []folder.Feature{{FeatureID: evil, Name: evil, Category: evil, Status: evil, Purpose: evil}}
	d.Log.Artifacts = []string{evil + "3"}
	s := []page.Spent{{Name: evil, Total: 1}}
	g := page.Figures{Standing: evil, Kind: evil, Model: evil, RunID: evil, Sandbox: evil, Answer: evil, Kinds: []page.Group{{Name: evil}}, Slowest: []page.Work{{ID: evil, Name: evil, Kind: evil}},
		Time: []page.Share{{Name: evil, Seconds: 1}}, Tokens: page.Spent{Total: 5}, ByModel: s, ByAgent: s, ByTask: s, Gates: []page.Group{{Name: evil}},
		Confident: []page.Calibration{{Of: evil, N: 1, Brier: &one, Bins: []page.Bin{{N: 1}}}}}
	return page.Input{Data: d, Timeline: c.Result(d), Figures: g, Differences: []string{evil}, Notes: []string{evil},
		Findings: []insights.Finding{{Rule: evil, Title: evil, Severity: insights.Severity(evil), Events: []string{evil}, TaskIDs: []string{evil}, Evidence: evil, Suggestion: evil}}}
}

// TestEverySession makes the page of all that is found in the wild: nothing at
// all, cut, out of order, still being written.
func TestEverySession(t *testing.T) {
	entries, err := os.ReadDir(sessions)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			got := written(t, read(t, filepath.Join(sessions, e.Name())))
			root := parsed(t, got)
			inert(t, root)
			sound(t, root)
		})
	}
	root := parsed(t, written(t, page.Input{}))
	sound(t, root)
	if s := inner(root); !strings.Contains(s, "tell of no work") {
		t.Errorf("the page of nothing says %q", s)
	}
}

// sound sees that a page can be walked with keys and heard: one heading, a main
// part, links that lead somewhere, pictures with a title, tables with headers.
func sound(t testing.TB, root *html.Node) {
	t.Helper()
	ids, count, links := map[string]int{}, map[string]int{}, map[string]bool{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		if id := attr(n, "id"); id != "" {
			ids[id]++
		}
		if h, ok := strings.CutPrefix(attr(n, "href"), "#"); ok {
			links[h] = true
		}
		if n.Data == "svg" && attr(n, "role") == "img" && (n.FirstChild == nil || n.FirstChild.Data != "title" || strings.TrimSpace(inner(n.FirstChild)) == "") {
			t.Error("a picture has no title")
		}
		if n.Data == "rect" && strings.HasPrefix(attr(n, "width"), "-") {
			t.Errorf("a bar is %s wide", attr(n, "width"))
		}
		for _, a := range n.Attr {
			if strings.Contains(a.Val, "NaN") || strings.Contains(a.Val, "Inf") {
				t.Errorf("%s %s is %q", n.Data, a.Key, a.Val)
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("the id %s is given %d times", id, n)
		}
	}
	for l := range links {
		if ids[l] == 0 {
			t.Errorf("a link leads to %q, which is nowhere", l)
		}
	}
	for _, one := range []string{"h1", "main", "header", "footer"} {
		if count[one] != 1 {
			t.Errorf("the page has %d %s", count[one], one)
		}
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestTheWritersErrorIsReturned(t *testing.T) {
	if err := page.Write(broken{}, page.Input{}); err == nil || !strings.Contains(err.Error(), "write page: ") {
		t.Errorf("the error is %v", err)
	}
}
