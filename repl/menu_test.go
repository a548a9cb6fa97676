package repl

import (
	"fmt"
	"os"
	"path/filepath"
	"ralph/workers/exec/exectest"
	"regexp"
	"strings"
	"testing"
)

// A file is picked with the menu, also while Ralph works: what it says waits, and
// nothing of it is lost or said twice.
func TestFileIsPicked(t *testing.T) {
	t.Parallel()
	p := spawn(t, "hands")
	p.Has("ralph ❯ ▏")
	p.Type("\x0csee @main\t")
	golden(t, "file-menu", p.Until("the menu", func(s string) bool {
		return strings.Contains(s, "file: ▏") && strings.Contains(s, "cmd/tool/main.go")
	}))
	p.Type("tool\r")
	p.Has("❯ see @cmd/tool/main.go ▏")
	p.Type("\x15@main\t")
	p.Has("file: ▏")
	p.Type("\x1b") // Escape leaves the line as it was
	p.Has("ralph ❯ @main▏")
	p.Type("\x15count\r")
	p.Until("numbers go by", func(s string) bool { return len(numbers(s)) > 2 })
	p.Type("look at @main\t")
	p.Has("file: ▏")
	before := p.Screen()
	p.Type("app")
	p.Has("file: app▏")
	if n := strings.Count(p.Screen(), "number"); n > strings.Count(before, "number") {
		t.Errorf("what Ralph says does not wait:\n%s", p.Screen())
	}
	p.Type("\r")
	p.Has("❯ look at @cmd/app/main.go ▏")
	s := p.Until("what was said meanwhile", func(s string) bool { return len(numbers(s)) > 5 })
	list := numbers(s)
	for i := 1; i < len(list); i++ {
		if list[i] != list[i-1]+1 {
			t.Errorf("after %d comes %d:\n%s", list[i-1], list[i], s)
		}
	}
	p.Type("\x03")
	p.Has("ralph talk ❯ look at @cmd/app/main.go ▏")
	p.Type("\x03\x04")
	p.exited(0)
}

// numbers are those that were counted.
func numbers(screen string) (list []int) {
	for _, m := range regexp.MustCompile(`(?m)^number (\d+)\.$`).FindAllStringSubmatch(screen, -1) {
		var n int
		_, _ = fmt.Sscan(m[1], &n)
		list = append(list, n)
	}
	return list
}

// A task is picked for /why, a model for /model.
func TestTaskIsPicked(t *testing.T) {
	t.Parallel()
	p := spawn(t, "hands")
	p.Has("ralph ❯ ▏")
	p.Type("\x0c/why\r")
	p.Has("why task: ▏")
	p.Type("US-2\r")
	p.Has("US-2: execute (confidence 0.86)")
	p.Has("ralph ❯ ▏")
	p.Type("\x0c/why\r")
	p.Has("why task: ▏")
	p.Type("\x1b")
	p.Has("ralph ❯ ▏")
	p.Type("\x0c/model gpt\t")
	p.Has("❯ /model gpt-▏")
	p.Type("\t")
	p.Has("gpt-small")
	p.Type("small\r")
	p.Has("❯ /model gpt-small▏")
	p.Type("\r")
	p.Has("model is now gpt-small")
	p.Has("ralph ❯ ▏")
	p.Type("\x04")
	p.exited(0)
}

// The editor has the terminal while Ralph works: what is typed, Ctrl-C too, is its
// own, and a Ctrl-Z does not leave it lying about.
func TestEditorHasTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	editor := filepath.Join(dir, "editor")
	script := `#!/bin/sh
trap 'echo caught >> ` + dir + `/log' INT
echo "in the editor"
while :; do
	read -r line || continue
	case $line in end) break ;; esac
	printf '%s\n' "$line" >> "$1"
	echo "took it"
done
`
	if err := exectest.WriteProgram(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := begin(t, 80, 24, append(os.Environ(), "RALPH_TEST_CHAT=hands", "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1", "TMUX=", "VISUAL="+editor))
	p.Has("ralph ❯ ▏")
	p.Type("count\r")
	p.Until("numbers go by", func(s string) bool { return len(numbers(s)) > 2 })
	p.Type("half a line\x18\x05")
	p.Has("in the editor")
	p.Type("and more\r")
	p.Has("took it") // Ctrl-Z and Ctrl-C throw away what was not read yet
	p.Type("\x1a")   // Ctrl-Z: it goes on at once
	p.Type("\x03")
	waitFor(t, dir+"/log")
	p.Type("end\r")
	p.Has("❯ half a line\nand more▏")
	s := p.Until("what was said meanwhile", func(s string) bool { return len(numbers(s)) > 3 })
	list := numbers(s)
	for i := 1; i < len(list); i++ {
		if list[i] != list[i-1]+1 {
			t.Errorf("after %d comes %d:\n%s", list[i-1], list[i], s)
		}
	}
	p.Type("\x03")
	p.Has("ralph talk ❯ half a line\nand more▏")
	p.Type("\x03\x04")
	p.exited(0)
}
