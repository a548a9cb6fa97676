package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ralph/coordinator/result"
	"ralph/coordinator/slash"
	"ralph/memory/config"
)

// everyCommand calls each for the commands that a person sees, at any depth.
func everyCommand(c *cobra.Command, each func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			each(sub)
			everyCommand(sub, each)
		}
	}
}

func testTree(t *testing.T) (*invocation, *cobra.Command) {
	t.Helper()
	inv := newInvocation(App{Version: "1.2.3", Date: "2026-11-21T10:00:00Z"})
	inv.keys = config.Keys()
	return inv, inv.tree()
}

// The manual says all that there is: commands, flags, settings, slash commands and
// exit codes.
func TestManual(t *testing.T) {
	t.Parallel()
	inv, root := testTree(t)
	page := inv.manual(root)
	if !strings.HasPrefix(page, `.TH RALPH 1 "2026-11-21" "Ralph 1.2.3" "User Commands"`) {
		t.Errorf("the head is %.80q", page)
	}
	has := func(what, text string) {
		t.Helper()
		if !strings.Contains(page, text) {
			t.Errorf("%s: the manual lacks %q", what, text)
		}
	}
	commands, flags := 0, 0
	everyCommand(root, func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		commands++
		has(c.CommandPath(), `\fB`+plainRoff(usageLine(c))+`\fR`)
		if !strings.Contains(c.Long, "Example: ralph ") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			flags++
			has(c.CommandPath(), `\-\-`+plainRoff(f.Name))
		})
	})
	if commands < 30 || flags < 40 {
		t.Errorf("%d commands and %d flags were looked for", commands, flags)
	}
	for _, k := range inv.keys {
		has("key", `\fB`+plainRoff(k.Name+", "+k.Env)+`\fR`)
		if k.Flag != "" && k.Scope == config.ScopeCommon {
			has("flag", `\-\-`+plainRoff(k.Flag))
		}
	}
	for _, c := range slash.Table() {
		has("slash command", `\fB`+plainRoff(strings.TrimSpace("/"+c.Name+" "+c.Args))+`\fR`)
	}
	for i := range len(page) {
		if c := page[i]; c >= 0x7f || c < 0x20 && c != '\n' {
			t.Fatalf("byte %#x at %d: not for each terminal and printer", c, i)
		}
	}
	for line := range strings.Lines(page) {
		if line[0] == '\'' || line[0] == '.' && !strings.ContainsAny(line[1:2], "TSPIRabn") {
			t.Errorf("a line of text is taken for a macro: %q", line)
		}
	}
}

// The exit codes of the manual are those of the program.
func TestManualExits(t *testing.T) {
	t.Parallel()
	told := map[string]string{}
	for _, e := range exits() {
		for code := range strings.SplitSeq(e[0], ", ") {
			told[code] = e[1]
		}
	}
	known := 0
	for _, s := range []result.Status{result.Completed, result.Failed, result.Usage, result.ConfigError, result.ProviderError,
		result.NeedsInput, result.Denied, result.Limit, result.SchemaMismatch, result.Locked, result.RetryLater,
		result.Timeout, result.Interrupted} {
		for _, signal := range []int{1, 2, 15} {
			code := strconv.Itoa(exitCode(s, signal))
			if !strings.Contains(told[code], string(s)) {
				t.Errorf("%s ends with %s, and the manual says %q of it", s, code, told[code])
			}
			known++
		}
	}
	if len(told) != 14 || known == 0 {
		t.Errorf("%d codes: %v", len(told), told)
	}
}

// Programs that format manuals take it without a complaint.
func TestManualFormats(t *testing.T) {
	t.Parallel()
	inv, root := testTree(t)
	file := filepath.Join(t.TempDir(), "ralph.1")
	if err := os.WriteFile(file, []byte(inv.manual(root)), 0o600); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, argv := range [][]string{{"mandoc", "-Tlint", "-W", "style", file}, {"groff", "-ww", "-z", "-man", "-Tutf8", file}, {"groff", "-ww", "-z", "-man", "-Tascii", file}} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			continue
		}
		tried++
		out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
		text := string(out)
		if strings.Contains(text, "cannot open") && strings.Contains(text, "macro") {
			t.Logf("%s has no macros here: %s", argv[0], text)
			continue
		}
		if argv[len(argv)-2] == "-Tascii" { // which has no dots and arrows
			text = strings.Join(deleteLines(text, "can't find special character"), "\n")
		}
		if err != nil || text != "" {
			t.Errorf("%q: %v\n%s", argv, err, text)
		}
	}
	if tried == 0 {
		t.Skip("neither mandoc nor groff is installed")
	}
}

func deleteLines(text, with string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, with) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestRoff(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\\b -c 'd' `e`": "a\\eb \\-c \\(aqd\\(aq \\(gae\\(ga\n",
		".hidden 'x":      "\\&.hidden \\(aqx\n",
		"… ^~\x1b[1m":     "\\[u2026] \\(ha\\(ti [1m\n",
		" \n":             "",
		strings.Repeat("word ", 15) + "long-words .x": strings.TrimSuffix(strings.Repeat("word ", 15), " ") + "\nlong\\-words .x\n",
		strings.Repeat("word ", 16) + ".x":            strings.TrimSuffix(strings.Repeat("word ", 16), " ") + "\n\\&.x\n",
	} {
		var m roff
		if m.text(in); m.b.String() != want {
			t.Errorf("%q is %q, want %q", in, m.b.String(), want)
		}
	}
}

// Each command is in one section of help, and help of each says how it is typed.
func TestHelpOfEach(t *testing.T) {
	t.Parallel()
	inv, root := testTree(t)
	named := map[string]int{}
	for _, s := range sections() {
		for _, name := range s.names {
			named[name]++
		}
	}
	titles, groups := grouped(root)
	shown := map[string]int{}
	for i := range titles {
		for _, c := range groups[i] {
			shown[c.Name()]++
		}
	}
	for _, c := range root.Commands() {
		if c.Name() != "help" && !c.Hidden && (named[c.Name()] != 1 || shown[c.Name()] != 1) {
			t.Errorf("%s is in %d sections and shown %d times", c.Name(), named[c.Name()], shown[c.Name()])
		}
	}
	everyCommand(root, func(c *cobra.Command) {
		text := inv.commandHelp(c)
		if !strings.Contains(text, "\nUsage:\n  ralph ") || strings.Contains(text, "`ID`") {
			t.Errorf("%s:\n%s", c.CommandPath(), text)
		}
		inExamples := false
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); line == "Examples:" {
				inExamples = true
			}
			if n := len([]rune(line)); n > helpWidth && !inExamples && !strings.HasPrefix(line, "  ralph ") {
				t.Errorf("%s: a line of %d columns: %q", c.CommandPath(), n, line)
			}
		}
	})
}

// A press of the key must not be waited for, and the manual and completion are
// made only when they are asked for.
func TestCompletionIsLazy(t *testing.T) {
	b := newBench(t)
	for range 40 {
		b.run("--session", "new", "x")
	}
	began := time.Now()
	if code := b.run("__complete", "sessions", "show", ""); code != 0 || b.err.Len() > 0 && strings.Contains(b.err.String(), "ralph:") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if b.fake.opened != 40 {
		t.Errorf("the coordinator was opened %d times", b.fake.opened)
	}
	// What a command line at fault completes to is nothing, and said to nobody.
	for _, args := range [][]string{{"--nonsense", "x", ""}, {"plan", "nonsense", ""}, {"-C", "/nowhere", "plan", "prompt", ""}, {"run", "--epic", "\x1b]0;x\a"}, {""}} {
		if code := b.run(append([]string{"__complete"}, args...)...); code != 0 || strings.Contains(b.err.String(), "ralph: ") {
			t.Errorf("%q: exit %d: %s", args, code, b.err.String())
		}
	}
}

func BenchmarkTree(b *testing.B) {
	inv := newInvocation(App{})
	inv.keys = config.Keys()
	for b.Loop() {
		inv.tree()
	}
}

func BenchmarkManual(b *testing.B) {
	inv := newInvocation(App{})
	inv.keys = config.Keys()
	for b.Loop() {
		inv.manual(inv.tree())
	}
}
