package repl

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ralph/repl/ttytest"
)

// settled waits until what was told is on disk.
func settled(t *testing.T, d *drafts) {
	t.Helper()
	for end := time.Now().Add(ttytest.Patience); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		now, stale := d.now, d.stale
		d.mu.Unlock()
		files := draftFiles(t, d.base)
		if !stale && (now == "" || len(files) > 0) {
			for _, text := range files {
				if text == now {
					return
				}
			}
			if now == "" {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the draft %q never came to disk: %q", now, files)
		}
	}
}

// draftFiles are the drafts on disk, by name.
func draftFiles(t *testing.T, base string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := filepath.Glob(base + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil && !strings.Contains(name, draftTemp) {
			out[filepath.Base(name)] = string(data)
		}
	}
	return out
}

func TestDraftOutlivesTheChat(t *testing.T) {
	base := filepath.Join(t.TempDir(), "deep", "project-1234")
	d := openDrafts(base)
	if d.text != "" || d.kept() {
		t.Errorf("it begins with %q", d.text)
	}
	d.tell("half")
	d.tell("half a line\nand more\x00\x1b")
	d.close()
	for name := range draftFiles(t, base) {
		info, err := os.Stat(filepath.Join(filepath.Dir(base), name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
	}
	d = openDrafts(base)
	if d.text != "half a line\nand more\x00\x1b" || d.more != 0 || !d.kept() {
		t.Errorf("it was %q", d.text)
	}
	d.tell("")
	d.close()
	if files := draftFiles(t, base); len(files) > 0 {
		t.Errorf("left: %q", files)
	}
	d = openDrafts(base)
	d.tell(" a secret")
	d.tell("  \n")
	d.tell(strings.Repeat("x", maxDraft+1))
	d.close()
	if files := draftFiles(t, base); len(files) > 0 || d.kept() {
		t.Errorf("left: %d files", len(files))
	}
	var none *drafts
	none.close()
	nowhere := openDrafts("")
	nowhere.tell("x")
	nowhere.close()
	if nowhere.kept() {
		t.Error("nothing is kept nowhere")
	}
}

// TestDraftsOfTwoChats: neither takes nor overwrites that of the other.
func TestDraftsOfTwoChats(t *testing.T) {
	base := filepath.Join(t.TempDir(), "p")
	a := openDrafts(base)
	a.tell("of a")
	settled(t, a)
	b := openDrafts(base)
	if b.text != "" || b.more != 0 {
		t.Errorf("b took %q", b.text)
	}
	b.tell("of b")
	a.tell("of a, longer")
	settled(t, a)
	settled(t, b)
	if files := draftFiles(t, base); len(files) != 2 {
		t.Errorf("there are %q", files)
	}
	for name, text := range draftFiles(t, base) {
		if text == "of a, longer" { // b's is the newer one then, however coarse the clock of the disk is
			before := time.Now().Add(-time.Minute)
			if err := os.Chtimes(filepath.Join(filepath.Dir(base), name), before, before); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.close()
	b.tell("of b, longer")
	b.close()
	c := openDrafts(base)
	d := openDrafts(base)
	if c.text != "of b, longer" || c.more != 1 || d.text != "of a, longer" || d.more != 0 {
		t.Errorf("taken up: %q and %d more, %q and %d more", c.text, c.more, d.text, d.more)
	}
	c.close()
	d.close()
}

// TestDraftsThatAreNone: whatever stands there is left alone, or swept when nothing
// is in it.
func TestDraftsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "p")
	for name, text := range map[string]string{"p.empty": " \n", "p.new-1234": "half written", "p.new-5678": "being written", "p": "another file", "q.1": "of q", "p.good": "good \xff one"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if old := time.Now().Add(-2 * draftYoung); os.Chtimes(filepath.Join(dir, "p.new-1234"), old, old) != nil {
		t.Fatal("the half written one is not old")
	}
	if err := os.Symlink(filepath.Join(dir, "q.1"), filepath.Join(dir, "p.link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "p.dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := openDrafts(base)
	if d.text != "good \uFFFD one" || d.more != 0 {
		t.Errorf("taken up %q and %d more", d.text, d.more)
	}
	d.close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "p p.dir p.good p.link p.new-5678 q.1" {
		t.Errorf("left: %s", got)
	}
	// A place where nothing can be written costs the draft, nothing else.
	file := filepath.Join(dir, "q.1")
	d = openDrafts(filepath.Join(file, "p"))
	d.tell("lost")
	d.close()
}

// TestDraftsAnyOrder: whatever several chats tell and whichever ends, each line
// that stood in a chat that ended is taken up once, whole.
func TestDraftsAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		base := filepath.Join(dir, "p")
		var open []*drafts
		orphans := map[string]int{}
		n := 0
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch k := rapid.IntRange(0, 2).Draw(r, "what"); {
			case k == 0 || len(open) == 0:
				d := openDrafts(base)
				if d.text != "" {
					if orphans[d.text]--; orphans[d.text] < 0 {
						r.Fatalf("%q was taken up though nobody left it", d.text)
					}
				} else if len(orphans) > 0 {
					for text, left := range orphans {
						if left > 0 {
							r.Fatalf("%q was not taken up", text)
						}
					}
				}
				open = append(open, d)
			case k == 1:
				n++
				text := ""
				if rapid.Bool().Draw(r, "typed") {
					text = strings.Repeat("x", n)
				}
				open[rapid.IntRange(0, len(open)-1).Draw(r, "who")].tell(text)
			default:
				i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
				d := open[i]
				open = append(open[:i:i], open[i+1:]...)
				d.close()
				if d.kept() {
					orphans[d.now]++
				}
			}
		}
		for _, d := range open {
			d.close()
		}
	})
}

// drafting is a chat as a process of its own that keeps drafts at base.
func drafting(t *testing.T, base, turn string) *process {
	t.Helper()
	return begin(t, 80, 24, append(os.Environ(), "RALPH_TEST_CHAT="+turn, "RALPH_TEST_DRAFT="+base, "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1", "TMUX="))
}

// onDisk waits until a draft is on disk.
func onDisk(t *testing.T, base, want string) {
	t.Helper()
	for end := time.Now().Add(ttytest.Patience); ; time.Sleep(5 * time.Millisecond) {
		files := draftFiles(t, base)
		for _, text := range files {
			if text == want {
				return
			}
		}
		if want == "" && len(files) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q never came to disk: %q", want, files)
		}
	}
}

// TestDraftSurvives: what is half typed is in the prompt again after a kill, a
// stop, a question, a hang-up and a SIGTERM; what was sent is not.
func TestDraftSurvives(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "drafts", "p")
	p := drafting(t, base, "asks")
	p.Has("ralph ❯ ▏")
	p.Type("half a line\x1b\rand another")
	onDisk(t, base, "half a line\nand another")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()

	p = drafting(t, base, "asks")
	p.Has("in the prompt again")
	golden(t, "draft", p.Has("ralph ❯ half a line\nand another▏"))
	p.Type("\x15\x15\x15work\r")
	p.Has("answer ? ▏")
	p.Type("my answer")
	p.Has("my answer▏")
	time.Sleep(400 * time.Millisecond) // longer than a line rests before it is kept
	onDisk(t, base, "")
	p.Type("\x03")
	p.Has("ralph talk ❯ my answer▏")
	p.Type("\x15日本語 while it hangs up")
	onDisk(t, base, "日本語 while it hangs up")
	_ = p.Slave.Close()
	_ = p.Master.Close()
	_ = p.cmd.Wait()
	onDisk(t, base, "日本語 while it hangs up")

	p = drafting(t, base, "echo")
	p.Has("❯ 日本語 while it hangs up▏")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.Has("what you had typed is kept")
	p.exited(143)

	p = drafting(t, base, "echo")
	p.Has("❯ 日本語 while it hangs up▏")
	p.Type("\r")
	p.Has("You said **日本語 while it hangs up**.")
	p.Has("ralph ❯ ▏")
	onDisk(t, base, "")
	p.Type("\x04")
	p.exited(0)
	if strings.Contains(p.Screen(), "what you had typed is kept") {
		t.Errorf("nothing is kept:\n%s", p.Screen())
	}
	p = drafting(t, base, "echo")
	p.Has("\nralph ❯ ▏")
	p.Type("\x04")
	p.exited(0)
}
