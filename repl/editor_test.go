package repl

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/repl/ttytest"
	"ralph/workers/exec/exectest"
)

// editing opens a conversation with an editor, which is a shell script; $1 is its file.
func editing(t *testing.T, script string, turn turnFunc, change ...func(*Options)) (c *chat, root string) {
	t.Helper()
	root = t.TempDir()
	editor := filepath.Join(root, "my editor")
	if err := exectest.WriteProgram(editor, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	env := map[string]string{"TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1", "PATH": os.Getenv("PATH"), "EDITOR": `"` + editor + `" `}
	c = openSized(t, 80, 24, turn, append([]func(*Options){func(o *Options) {
		o.Getenv = func(k string) string { return env[k] }
		before := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) {
			m, err := before(ctx, l)
			m.Turns.(*fake).root = root
			return m, err
		}
	}}, change...)...)
	if prompt := "ralph> ▏"; strings.Contains(c.Until("a prompt", func(s string) bool { return strings.Contains(s, prompt) || strings.Contains(s, "ralph ❯ ▏") }), prompt) {
		return c, root
	}
	c.idle()
	return c, root
}

// leftovers are the files of lines that were edited.
func leftovers(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "ralph-line-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A line goes into the editor and comes back changed, and is not sent.
func TestLineInTheEditor(t *testing.T) {
	c, _ := editing(t, `grep -q '^fix the' "$1" || exit 9
printf 'and the tests\n\n' >> "$1"`, echo)
	c.Type("fix the upload\x18\x05")
	c.Has("❯ fix the upload\nand the tests▏")
	if len(c.f.said()) != 0 {
		t.Errorf("it was sent: %v", c.f.said())
	}
	c.Type("\r")
	c.Has("You said **fix the upload\nand the tests**.")
	if list := leftovers(t); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
	c.idle()
	c.bye(t)
}

// /edit begins with an empty file; what others print meanwhile is seen afterwards.
func TestEditCommand(t *testing.T) {
	c, root := editing(t, `echo "the editor is here"; touch "$(dirname "$0")/open"
until [ -e "$(dirname "$0")/go" ]; do sleep 0.01; done
printf 'from the editor' > "$1"`, listen(make(chan struct{})))
	c.Type("work\r")
	c.Has("on work")
	c.Type("/edit\r")
	waitFor(t, filepath.Join(root, "open"))
	c.f.say(2, "said meanwhile")
	touch(t, filepath.Join(root, "go"))
	c.Has("said meanwhile")
	c.Has("❯ from the editor▏")
	c.Type("\x03")
	c.Has("ralph talk ❯ from the editor▏")
	c.Type("\x03\x04")
	c.left(0)
}

// A question that comes while the editor is open is not answered by what was saved
// there: that is for the line which was begun before it.
func TestQuestionComesDuringTheEditor(t *testing.T) {
	release, answers := make(chan struct{}), make(chan string)
	c, root := editing(t, `touch "$(dirname "$0")/open"
until [ -e "$(dirname "$0")/go" ]; do sleep 0.01; done
printf 'yes' > "$1"`, asks(release, answers))
	c.Type("work\r")
	c.Has("working")
	c.Type("ye\x18\x05")
	waitFor(t, filepath.Join(root, "open"))
	release <- struct{}{}
	touch(t, filepath.Join(root, "go"))
	c.Has("answer [no] ? ▏")
	for late := time.Now().Add(ttytest.Patience); len(leftovers(t)) > 0 && time.Now().Before(late); { // it has yet to be taken
		time.Sleep(time.Millisecond)
	}
	c.Type("no\r")
	if got := c.answered(answers); got != "no" {
		t.Errorf("the answer was %q", got)
	}
	c.Has("❯ yes▏")
	close(release)
	c.Type("\x15")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

// What an editor made of an answer replaces the answer, and no other line.
func TestSlateTakesWhatWasComposed(t *testing.T) {
	same := func(s string) string { return s }
	for _, step := range []struct {
		asked, ask                int
		stash, line, before, want string
		wantStash                 string
	}{
		{0, 0, "", "one x", "one", "new x", ""},
		{0, 0, "", "", "one", "new", ""},
		{0, 0, "", "other", "", "new\nother", ""},
		{2, 0, "one", "half an answer", "one", "half an answer", "new"},
		{2, 2, "one", "half", "half", "new", "one"},
		{3, 2, "", "no", "half", "no", "new"},
		{0, 2, "", "one", "half", "new\none", ""},
	} {
		d := slate{asked: step.asked, stash: step.stash}
		if got := d.composed(step.ask, step.before, "new")(step.line, same); got != step.want || d.stash != step.wantStash {
			t.Errorf("%+v: the line is %q, aside is %q", step, got, d.stash)
		}
	}
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	late := time.After(ttytest.Patience)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-late:
			t.Fatalf("%s never came", path)
		case <-time.After(time.Millisecond):
		}
	}
}

// However an editor fails, the line stays, and what was saved is not lost.
func TestEditorFails(t *testing.T) {
	for name, step := range map[string]struct {
		script string
		want   []string
		kept   string // what is left in a file
	}{
		"exit":     {`exit 7`, []string{"ended with exit 7: the line is as it was"}, ""},
		"aborted":  {`echo changed > "$1"; exit 1`, []string{"ended with exit 1", "what was saved is in"}, "changed\n"},
		"killed":   {`kill -KILL $$`, []string{"it was ended by SIGKILL"}, ""},
		"emptied":  {`: > "$1"`, []string{"nothing was left in the file; the line is as it was"}, ""},
		"deleted":  {`rm "$1"`, []string{"no such file"}, ""},
		"latin-1":  {`printf 'caf\351' > "$1"`, []string{"is not UTF-8 text", "what was saved is in"}, "caf\xe9"},
		"binary":   {`printf 'a\000b' > "$1"`, []string{"is not UTF-8 text"}, "a\x00b"},
		"5 MB":     {`head -c 5000000 /dev/zero | tr '\0' x > "$1"`, []string{"longer than a line may be", "what was saved is in"}, strings.Repeat("x", 5_000_000)},
		"the same": {`touch "$(dirname "$0")/ran"`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, root := editing(t, step.script, echo)
			c.Type("half a line\x18\x05")
			if len(step.want) == 0 {
				waitFor(t, filepath.Join(root, "ran")) // nothing will be said
			}
			for _, want := range step.want {
				c.Until(want, func(s string) bool {
					return strings.Contains(strings.Join(strings.Fields(s), " "), want)
				})
			}
			c.Has("❯ half a line▏")
			list := leftovers(t)
			for late := time.Now().Add(ttytest.Patience); step.kept == "" && len(list) > 0 && time.Now().Before(late); list = leftovers(t) {
				time.Sleep(time.Millisecond) // the file goes when the terminal is back
			}
			switch {
			case step.kept == "" && len(list) > 0:
				t.Errorf("left behind: %v", list)
			case step.kept != "":
				if len(list) != 1 {
					t.Fatalf("what was saved is lost: %v", list)
				}
				if data, err := os.ReadFile(list[0]); err != nil || string(data) != step.kept {
					t.Errorf("%d bytes are kept, %v, want %d", len(data), err, len(step.kept))
				}
			}
			c.Type("!\x03")
			c.idle()
			c.bye(t)
		})
	}
}

func TestNoEditor(t *testing.T) {
	for name, step := range map[string]struct {
		env  map[string]string
		want string
	}{
		"missing":  {map[string]string{"EDITOR": "nothing-of-that-name -w"}, `open editor: $EDITOR "nothing-of-that-name -w": there is no such`},
		"VISUAL":   {map[string]string{"VISUAL": "nothing-at-all", "EDITOR": "sh"}, `$VISUAL "nothing-at-all"`},
		"quotes":   {map[string]string{"EDITOR": `vi "`}, "is not closed"},
		"none":     {map[string]string{}, "none is set, and there is no vi and no nano"},
		"a folder": {map[string]string{"EDITOR": "/"}, "there is no such"},
	} {
		t.Run(name, func(t *testing.T) {
			c := openSized(t, 100, 20, echo, func(o *Options) {
				env := map[string]string{"TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1", "PATH": t.TempDir()}
				for k, v := range step.env {
					env[k] = v
				}
				o.Getenv = func(k string) string { return env[k] }
			})
			c.idle()
			c.Type("half\x18\x05")
			c.Has(step.want)
			c.Has("set VISUAL or EDITOR")
			c.Has("❯ half▏")
			c.Type("\x03")
			c.idle()
			c.bye(t)
		})
	}
}

func TestFileInTheEditor(t *testing.T) {
	c, root := editing(t, `case "$1" in *keep*) ;; *gone*) rm "$1" ;; *) echo more >> "$1" ;; esac`, echo)
	for name, text := range map[string]string{"a b.go": "package a\n", "keep.go": "", "gone.go": "", "RALPH_TASKS.md": "# Tasks\n", "sub/x": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range [][2]string{
		{`"a b.go"`, "a b.go is changed"}, {"@keep.go", "keep.go is as it was"}, {"gone.go", "gone.go is gone"}, {"tasks", "RALPH_TASKS.md is changed"},
		{"goals", "RALPH_GOALS.md is new"}, {"keep2", "keep2 was not made"}, {"sub", "that is a folder"}, {"no/such/file", "its folder is not there"}, {filepath.Join(root, "sub/x"), "sub/x is changed"},
	} {
		c.Type("\x0c/edit " + step[0] + "\r")
		c.Has(step[1])
		c.idle()
	}
	if data, err := os.ReadFile(filepath.Join(root, "RALPH_TASKS.md")); err != nil || string(data) != "# Tasks\nmore\n" {
		t.Errorf("the tasks are %q, %v", data, err)
	}
	c.bye(t)
}

// Without a terminal there is no editor; with a plain one the text is shown before
// it is sent.
func TestEditorWithoutAPrompt(t *testing.T) {
	if out := piped(t, echo, "/edit\n"); !strings.Contains(out, "an editor needs a terminal") {
		t.Errorf("it said\n%s", out)
	}
	c, _ := editing(t, `printf 'from the editor\n' > "$1"`, echo, func(o *Options) { o.Plain = true })
	c.Type("/edit\n")
	c.Has("Send this?")
	c.Type("yes\n")
	c.Has("You said **from the editor**.")
	c.Has("ralph> ▏")
	c.Type("/exit\n")
	c.left(0)
}
