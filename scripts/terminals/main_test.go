package terminals

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ralph/repl/ttytest"
	"ralph/workers/model/modeltest"
)

func TestMain(m *testing.M) { os.Exit(withRalph(m)) }

// withRalph runs the tests with the program in PATH.
func withRalph(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ralph-terminals-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		var out []byte
		build := exec.Command("go", "build", "-ldflags", "-X main.version=1.0", "-o", filepath.Join(dir, "ralph"), "ralph")
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("build ralph: %w\n%s", err, out)
		}
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// room is where a person works: a project, a home and an environment.
type room struct {
	t    *testing.T
	dir  string // of the project
	home string
	env  []string
}

// enter makes a room with a model server that gives these replies.
func enter(t *testing.T, replies ...modeltest.Reply) *room {
	t.Helper()
	// tmux and screen keep their sockets here: the path must stay short.
	base, err := os.MkdirTemp("/tmp", "rt")
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, dir: filepath.Join(base, "shop"), home: filepath.Join(base, "home")}
	t.Cleanup(func() { // one who still closes its session would make it anew
		until(t, "the end of all that ran here", r.alive, func(s string) bool { return s == "" })
		_ = os.RemoveAll(base)
	})
	for _, d := range []string{r.dir, r.home, filepath.Join(base, "s")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	srv := modeltest.New(t, replies...)
	r.env = []string{"HOME=" + r.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "NO_COLOR=1", "SHELL=/bin/sh", "PS1=$ ", "TMUX_TMPDIR=" + filepath.Join(base, "s"), "SCREENDIR=" + filepath.Join(base, "s"),
		"RALPH_BASE_URL=" + srv.URL(), "RALPH_MODEL=gpt-large", "RALPH_API_KEY=k", "RALPH_NOTIFY=off",
		"RALPH_SANDBOX=off"} // what there is of one differs from kernel to kernel, and the greeting says it
	return r
}

// alive are the processes whose home is the room's.
func (r *room) alive() string {
	var b strings.Builder
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range list {
		if env, err := os.ReadFile(name); err == nil && strings.Contains("\x00"+string(env), "\x00HOME="+r.home+"\x00") {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			fmt.Fprintf(&b, "%s %q\n", name, line)
		}
	}
	return b.String()
}

// until waits for a fact about what see returns, and returns that.
func until(t *testing.T, what string, see func() string, ok func(string) bool) string {
	t.Helper()
	deadline := time.Now().Add(2 * ttytest.Patience)
	for {
		s := see()
		switch {
		case ok(s):
			return s
		case time.Now().After(deadline):
			t.Fatalf("never saw %s; the screen is\n%s", what, s)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// plain takes out of a screen what is another one each time.
func plain(screen string, r *room) string {
	screen = regexp.MustCompile(`\d+(\.\d+)? (ms|s)\b`).ReplaceAllString(screen, "N ms")
	screen = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).ReplaceAllString(screen, "http://127.0.0.1:1")
	screen = strings.ReplaceAll(screen, r.dir, "/shop")
	return strings.TrimRight(screen, "\n") + "\n"
}

// golden waits until what see returns is the file of that name in testdata, and
// returns it as it was seen: a screen is there when it is there, however slow the
// machine is. When the files are made anew it is one that stays as it is.
func (r *room) golden(name string, see func() string) (seen string) {
	r.t.Helper()
	update := os.Getenv("RALPH_TEST_UPDATE") != ""
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil && !update {
		r.t.Fatal(err)
	}
	last, since, end := "", time.Now(), time.Now().Add(2*ttytest.Patience)
	for done := false; !done; time.Sleep(20 * time.Millisecond) {
		if seen = see(); seen != last {
			last, since = seen, time.Now()
		}
		done = !update && same(plain(seen, r), string(want)) || update && time.Since(since) > 400*time.Millisecond || time.Now().After(end)
	}
	if update || !same(plain(seen, r), string(want)) {
		ttytest.Golden(r.t, update, name, plain(seen, r))
	}
	return seen
}

// same says that a screen is the one that is wanted. Where the disk was slow just
// then Ralph says so, in rows that push others off the top.
func same(screen, want string) bool {
	told := regexp.MustCompile(`\n?\n! the disk is slow:.*(\n  .*)*`)
	return screen == want || told.MatchString(screen) && strings.HasSuffix(want, strings.TrimLeft(told.ReplaceAllString(screen, ""), "\n"))
}

// TestSame: a slow disk is no other screen, and another screen is.
func TestSame(t *testing.T) {
	const want = "one\n\ntwo\nthree\n\nralph ❯\n"
	slow := "\n! the disk is slow: it took N ms to keep a message in\n  /shop; each answer and each\n  tool waits for that\n"
	for screen, is := range map[string]bool{
		want: true, "two\n" + slow + "three\n\nralph ❯\n": true, "two\n" + slow + "four\n\nralph ❯\n": false, "two\nthree\n\nralph ❯\n": false,
	} {
		if same(screen, want) != is {
			t.Errorf("%q: %t", screen, !is)
		}
	}
}

// answer is an answer with all that is hard to lay out: wide characters, emoji,
// right-to-left text, a table, nested lists, code. Each mark M00 … stands once.
func answer() string {
	var b strings.Builder
	b.WriteString("# M00 日本語の見出し\n\nM01 A family 👨‍👩‍👧‍👦, a flag 🇩🇪, é as two characters, مرحبا بالعالم and שלום.\n\n")
	b.WriteString("| M02 key | 値 | what it is |\n|---|---|---|\n| M03 a | 一二三 | 👍 fine |\n| M04 b | x | a longer text in the last column |\n\n")
	b.WriteString("- M05 one\n  - M06 nested\n    1. M07 deeper\n- M08 two\n\n```go\nfunc main() { // M09\n\tprintln(\"M10 tab\")\n}\n```\n\n")
	for i := 11; i < 30; i++ {
		fmt.Fprintf(&b, "M%d A paragraph of the answer which is long enough to be broken in a narrow window, and says nothing else.\n\n", i)
	}
	b.WriteString("M30 The end.")
	return b.String()
}

// onceEach says which marks of the answer do not stand exactly once in text.
func onceEach(text string) []string {
	var wrong []string
	for i := range 31 {
		mark := fmt.Sprintf("M%02d", i)
		if n := strings.Count(text, mark); n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s %d times", mark, n))
		}
	}
	return wrong
}
