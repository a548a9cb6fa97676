package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"ralph/workers/model/modeltest"
)

func call(name, args string) modeltest.Call { return modeltest.Call{Name: name, Args: args} }

// replies is what each agent says in a scene, one reply after the other.
func replies(scene string) map[string][]modeltest.Reply {
	mendCart := modeltest.Calls(
		call("edit", `{"path":"lib/cart.sh","old_string":"sum=$price;","new_string":"sum=$((sum + price));"}`),
		call("shell", `{"command":"make test-cart"}`),
	).Saying("Each price replaces the sum. It has to be added to it.")
	mendSearch := modeltest.Calls(
		call("edit", `{"path":"lib/search.sh","old_string":"grep \"$1\"","new_string":"grep -i -- \"$1\""}`),
		call("shell", `{"command":"make test-search"}`),
	)
	mendExport := modeltest.Calls(
		call("edit", `{"path":"lib/export.sh","old_string":"\"$1;$2\"","new_string":"\"\\\"$1\\\";\\\"$2\\\"\""}`),
		call("shell", `{"command":"make test-export"}`),
	)
	readCart := modeltest.Calls(call("read", `{"path":"lib/cart.sh"}`), call("read", `{"path":"test/cart.sh"}`))
	switch scene {
	case "chat":
		return map[string][]modeltest.Reply{
			"ralph": {
				modeltest.Calls(call("spawn_agents", `{"agents":[`+
					`{"name":"fix_cart","task":"Make the test of the cart pass","check":"make test-cart"},`+
					`{"name":"fix_search","task":"Make the test of the search pass","check":"make test-search"},`+
					`{"name":"fix_export","task":"Make the test of the export pass","check":"make test-export"}]}`),
				).Saying("The three do not need each other, so each gets **an agent of its own**:\n\n1. `lib/cart.sh` adds up wrongly\n2. `lib/search.sh` minds the case\n3. `lib/export.sh` does not quote\n"),
				modeltest.Text("All three are at work. I wait for them."),
				modeltest.Text("Three agents were mending the tests:\n\n| agent | state | what it did |\n|---|---|---|\n| `fix_cart` | done, merged | prices are added up |\n| `fix_search` | stopped | the case is ignored, **not proven**: its test had not ended |\n| `fix_export` | stopped | fields are quoted, **not proven** |\n\nWhat the two did is kept on their branches. `/go` has them go on, `/resume fix_search` only the one."),
			},
			"fix_cart":   {readCart, mendCart, modeltest.Text("`total` adds up all prices; its test passes.")},
			"fix_search": {modeltest.Calls(call("read", `{"path":"lib/search.sh"}`)), mendSearch},
			"fix_export": {modeltest.Calls(call("read", `{"path":"lib/export.sh"}`)), mendExport},
		}
	case "run":
		return map[string][]modeltest.Reply{
			"add_up_all_prices_of_a_cart": {readCart, mendCart,
				modeltest.Calls(call("finish", `{"status":"done","summary":"total adds up all prices of a cart; make test-cart passes.","confidence":0.95}`))},
			"print_a_receipt_of_the_cart":    {modeltest.Calls(call("read", `{"path":"lib/export.sh"}`)), modeltest.Calls(call("shell", `{"command":"make test-export"}`))},
			"find_words_whatever_their_case": {modeltest.Calls(call("read", `{"path":"lib/search.sh"}`)), mendSearch},
			"quote_what_is_written_as_csv":   {modeltest.Calls(call("read", `{"path":"lib/export.sh"}`)), mendExport},
		}
	case "pick":
		return map[string][]modeltest.Reply{"ralph": {modeltest.Text("Each price replaces the sum."), modeltest.Text("With grep -i."), modeltest.Text("With quotes.")}}
	case "oneshot":
		return map[string][]modeltest.Reply{"ralph": {readCart, mendCart, modeltest.Text("A price replaced the sum; now all prices of a cart are added up.")}}
	}
	return nil
}

// cast answers each agent by its own replies.
func cast(t *testing.T, left map[string][]modeltest.Reply) func(modeltest.Request) modeltest.Reply {
	var mu sync.Mutex // guards left
	agent := regexp.MustCompile(`You are agent (\w+), one of several`)
	return func(r modeltest.Request) modeltest.Reply {
		who := "ralph"
		for _, m := range r.Messages {
			if m.Role != "user" {
				continue
			}
			if f := agent.FindStringSubmatch(m.Content); f != nil {
				who = f[1]
				break
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(left[who]) == 0 {
			t.Errorf("%s asks once more than expected: %s", who, r.Messages[len(r.Messages)-1].Content)
			return modeltest.Status(400, `{"error":{"message":"no more"}}`)
		}
		next := left[who][0]
		left[who] = left[who][1:]
		return next
	}
}

// changing is what is another each time: the name of a run, and after a stop what
// depends on how far each process was.
const changing = `- match: r-\d{8}-\d{6}-[0-9a-f]{6}
  with: (run)
- match: (?s)\A(?:interrupted, outcome unknown|ended after .*)\z
  with: (stopped)
- match: \d+ commands? ended(?:, \d+ killed)?, nothing is left running
  with: (at rest)
`

// binDir is where the program is built, once and when it is needed.
var binDir string

var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binDir, "ralph")
	out, err := exec.Command("go", "build", "-o", path, "ralph").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build ralph: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ralph-pictures-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"bash", "git", "make", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRecord(t *testing.T) {
	if os.Getenv("RALPH_TEST_UPDATE") == "" {
		t.Skip("the recordings are made with RALPH_TEST_UPDATE=1 (make pictures)")
	}
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			tape, err := filepath.Abs(filepath.Join("cassettes", s.name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := play(t.Context(), s, program(t), "RALPH_REPLAY="+tape); err == nil {
				return // a recording that still holds stays as it is
			}
			for _, old := range tapes(t, s.name) {
				if err := os.Remove(old); err != nil {
					t.Fatal(err)
				}
			}
			srv := modeltest.New(t)
			srv.SetModels("gpt-5", "gpt-5-mini", "qwen3:32b")
			srv.Handle(cast(t, replies(s.name)))
			if _, err := play(t.Context(), s, program(t), "RALPH_RECORD="+tape, "RALPH_BASE_URL="+srv.URL()); err != nil {
				t.Fatal(err)
			}
			for _, made := range tapes(t, s.name) {
				text, err := os.ReadFile(made)
				if err != nil {
					t.Fatal(err)
				}
				text = bytes.Replace(text, []byte("- pids\n"), []byte("- pids\n"+changing), 1)
				if err := errors.Join(os.WriteFile(made, text, 0o644), os.Chmod(made, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// tapes are the cassettes of a scene.
func tapes(t *testing.T, scene string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("cassettes", scene+"*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The pictures say what the program says today. With RALPH_TEST_UPDATE=1 they are
// drawn.
func TestPictures(t *testing.T) {
	if os.Getenv("RALPH_TEST_UPDATE") != "" {
		if err := draw(t.Context(), program(t), ".", "", t.Output()); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			tape, err := filepath.Abs(filepath.Join("cassettes", s.name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			shots, err := play(t.Context(), s, program(t), "RALPH_REPLAY="+tape)
			if err != nil {
				t.Fatal(err)
			}
			if len(shots) == 0 {
				t.Fatal("no picture was taken")
			}
			for _, shot := range shots {
				file, err := os.ReadFile(shot.name + ".svg")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(settled(textOf(string(file))), settled(shot.text())); diff != "" {
					t.Errorf("%s.svg is stale; make pictures draws it anew:\n%s\n%s", shot.name, diff, shot.text())
				}
				if len(file) > 60<<10 {
					t.Errorf("%s.svg has %d bytes", shot.name, len(file))
				}
			}
		})
	}
}

// What changes from run to run is no difference; what is said is one.
func TestSame(t *testing.T) {
	t.Parallel()
	const screen = "✓ fix_cart merged 097ef022\n! stopped (297 tok, 3.3 s)\n ⠸ 2 agents · 3 s"
	for _, other := range []string{"✓ fix_cart merged 16933b37\n! stopped (301 tok, 12 s)\n ⠼ 2 agents · 1m2s", "! stopped (1.2k tok, 3\u00a0ms)\n✓ fix_cart merged 097ef022\n⠸ 2 agents\n· 3 s"} {
		if !same(screen, other) {
			t.Errorf("%q: %q, %q", other, settled(screen), settled(other))
		}
	}
	if !same("! stopped; 2 commands ended, nothing is left", "! stopped; 2 commands ended, 1 killed, nothing is left") {
		t.Error("how fast commands end is a difference")
	}
	for _, other := range []string{"", "✓ fix_cart merged 097ef022\n! stopped (297 tok, 3.3 s)\n ⠸ 3 agents · 3 s", "✗ fix_cart merged 097ef022\n! stopped (297 tok, 3.3 s)\n ⠸ 2 agents · 3 s"} {
		if same(screen, other) {
			t.Errorf("%q counts as the same", other)
		}
	}
}

// A picture holds the cells: colours, wide characters in two cells, no escape
// that the model would not understand, and what would be markup as text.
func TestDrawing(t *testing.T) {
	t.Parallel()
	model := vt10x.New(vt10x.WithSize(30, 4))
	var in feed
	for _, b := range []byte("\x1b[1;32m<b>&\x1b[0m 日本 \x1b[38;5;2mgreen\x1b[39m\r\n\x1b[2mfaint\x1b[22m plain \x1b[7mrev\x1b[0m") { // byte by byte
		if _, err := model.Write([]byte(in.take([]byte{b}))); err != nil {
			t.Fatal(err)
		}
	}
	p := &person{model: model}
	s := p.screen()
	s.name, s.title = "x", `a "title" & more`
	if want := "<b>& 日本 green\nfaint plain rev"; s.text() != want {
		t.Errorf("the text is %q, want %q", s.text(), want)
	}
	svg := s.svg()
	if textOf(svg) != s.text() {
		t.Errorf("read back: %q", textOf(svg))
	}
	for _, want := range []string{`class="b" style="fill:#a5f3ae">&lt;b&gt;&amp;</text>`, `<title id="title">a &#34;title&#34; &amp; more</title>`,
		`textLength="16.8" lengthAdjust="spacingAndGlyphs">日</text>`, `class="d">faint</text>`, `>plain</text>`, `style="fill:#10151c">rev</text>`, `width="25.2" height="18" fill="#d5dce5"/>`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q:\n%s", want, svg)
		}
	}
	var any struct{ XMLName xml.Name }
	if err := xml.Unmarshal([]byte(svg), &any); err != nil {
		t.Errorf("not XML: %v", err)
	}
}
