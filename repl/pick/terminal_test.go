package pick

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ralph/repl/line"
	"ralph/repl/ttytest"
)

// child asks once on the terminal on which it runs, prints what was chosen, and
// ends with the next line.
func child() int {
	r, err := line.Open(line.Options{In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv})
	if err != nil {
		return 2
	}
	defer r.Close()
	p := &Picker{
		Lend:  r.(*line.Term).Modal,
		Size:  func() (int, int) { return line.Size(os.Stdout) },
		Print: func(text string) { r.Print(text) },
		Answer: func(_ context.Context, prompt string) (string, error) {
			r.Show(line.Prompt{Text: prompt, Mark: "? "})
			for e := range r.Events() {
				if e.Kind == line.EventLine {
					return e.Text, nil
				}
			}
			return "", errors.New("the events ended")
		},
	}
	var items []Item
	for i := range 30 {
		items = append(items, Item{Value: fmt.Sprintf("item-%02d", i), Detail: strings.Repeat("detail ", i)})
	}
	items = append(items, Item{Value: "with \x1b[2J escape"}, Item{Value: "日本語の項目"}, Item{Value: strings.Repeat("folder/", 30) + "deep.go"})
	r.Print("printed before")
	r.Show(line.Prompt{Text: "ralph", Mark: "❯ "})
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err := p.PickFrom(context.Background(), "thing", os.Getenv("RALPH_TEST_PICK"), items)
		r.Print(fmt.Sprintf("chosen %q, %v", value, err))
		r.Show(line.Prompt{Text: "ralph", Mark: "❯ "})
	}()
	r.Print("printed meanwhile")
	<-done
	for e := range r.Events() {
		if e.Kind == line.EventLine || e.Kind == line.EventGone {
			break
		}
	}
	return 0
}

// terminal runs this test program as child, with query typed, on a terminal of its
// own, below a shell when it is to be stopped and continued.
func terminal(t *testing.T, cols, rows int, query string, shell bool) *ttytest.TTY {
	t.Helper()
	y := ttytest.New(t, cols, rows)
	cmd := exec.Command(os.Args[0])
	if shell {
		cmd = exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	}
	cmd.Env = append(os.Environ(), "RALPH_TEST_PICK="+query, "TERM=xterm", "TMUX=", "STY=", "VTE_VERSION=", "PS1=shell> ", "HISTFILE=", "CHILD="+os.Args[0])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = y.Slave, y.Slave, y.Slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if shell {
		y.Has("shell> ")
		y.Type("\"$CHILD\"\r")
	}
	return y
}

// chosen waits for the end of the picker and that nothing of it is left.
func chosen(t *testing.T, y *ttytest.TTY, want string) {
	t.Helper()
	y.Has("chosen " + want)
	if s := y.Has("❯ ▏"); strings.Contains(s, "thing:") || strings.Contains(s, "detail") || strings.Count(s, "printed before") > 1 || strings.Count(s, "printed meanwhile") != 1 {
		t.Errorf("the screen is\n%s", s)
	}
	if n := y.Received("\x1b[2J") + y.Received("\x1b[3J") + y.Received("\x1b[H"); n > 0 {
		t.Errorf("the screen was cleared %d times", n)
	}
	y.Type("\r")
}

func TestPickOnATerminal(t *testing.T) {
	for _, c := range []struct {
		name, query string
		keys        []string // each with what it shows
		want        string
	}{
		{"from a query", "item-07", []string{"", "thing: item-07▏", "\r", ""}, `"item-07"`},
		{"a query that is changed", "item-0", []string{"", "thing: item-0▏", "\x7f", "thing: item-▏", "12", "thing: item-12▏", "\r", ""}, `"item-12"`},
		{"a query that is cleared", "item-0", []string{"", "thing: item-0▏", "\x15", "thing: ▏", "\x1b[B", "thing: item-00▏", "\r", ""}, `"item-00"`},
		{"typing after an arrow", "item-0", []string{"", "thing: item-0▏", "\x1b[B\x1b[B", "thing: item-01▏", "7", "thing: item-07▏", "\r", ""}, `"item-07"`},
		{"nothing matches", "zz", []string{"", "thing: zz▏", "\r", "thing: zz▏", "\x7f\x7f", "thing: ▏", "esc", "thing: esc▏", "\r", ""}, `"with \x1b[2J escape"`},
		{"one with an escape, by arrow", "escape", []string{"", "thing: escape▏", "\t", "thing: with ␛[2J escape▏", "\r", ""}, `"with \x1b[2J escape"`},
		{"wide characters", "x", []string{"", "thing: x▏", "\x7f", "thing: ▏", "日語", "thing: 日語▏", "\x1b[B", "thing: 日本語の項目▏", "\r", ""}, `"日本語の項目"`},
		{"a name wider than the window", "deepgo", []string{"", "thing: deepgo▏", "\x1b[B", "/deep.go▏", "\r", ""}, `"folder/folder/`},
		{"a paste", "x", []string{"", "thing: x▏", "\x15", "thing: ▏", "\x1b[200~item-\n\x1b[201~", "thing: item-▏", "29", "thing: item-29▏", "\r", ""}, `"item-29"`},
		{"cancelled", "item", []string{"", "thing: item▏", "\x03", ""}, `"", nothing was chosen`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			y := terminal(t, 60, 16, c.query, false)
			for i := 0; i < len(c.keys); i += 2 {
				y.Type(c.keys[i])
				if c.keys[i+1] != "" {
					y.Has(c.keys[i+1])
				}
			}
			chosen(t, y, c.want)
		})
	}
}

// TestResizeOfAPicker: the menu is painted for the new size, what was typed and
// selected stays; in a window that is too small comes the list.
func TestResizeOfAPicker(t *testing.T) {
	t.Parallel()
	y := terminal(t, 100, 24, "item-1", false)
	y.Has("thing: item-1▏")
	y.Type("\x1b[B\x1b[B")
	y.Has("thing: item-11▏")
	for _, size := range [][2]int{{50, 24}, {50, 12}, {200, 60}, {41, 11}, {120, 30}} {
		before := y.Written()
		y.Resize(size[0], size[1])
		y.Until(fmt.Sprintf("the menu in %d columns", size[0]), func(s string) bool {
			if y.Written() < before+300 {
				return false // the old menu, which looks the same in a wider window
			}
			rows := strings.Split(s, "\n")
			for i, r := range rows {
				if strings.HasPrefix(r, "thing: item-11▏") {
					return strings.Count(s, "thing:") == 1 && len(rows) > i+8 && strings.Contains(rows[i+8], "item-17")
				}
			}
			return false
		})
	}
	y.Type("9")
	y.Has("thing: item-19▏")
	y.Type("\r")
	chosen(t, y, `"item-19"`)
}

func TestPickerInAWindowThatShrinks(t *testing.T) {
	t.Parallel()
	y := terminal(t, 100, 24, "item-2", false)
	y.Has("thing: item-2▏")
	y.Resize(38, 20)
	// As wide as a prompt may be there.
	if s := y.Has("thing (number or n ? ▏"); !strings.Contains(s, "   1  item-20  detail detail detail …\n") || strings.Contains(s, "item-00") {
		t.Errorf("the list is\n%s", s)
	}
	y.Type("item-25\r")
	y.Has(`chosen "item-25"`)
	y.Type("\r")
}

// TestStopInAPicker: Ctrl-Z, something else on the terminal, and back.
func TestStopInAPicker(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no shell with jobs: ", err)
	}
	y := terminal(t, 80, 30, "item-2", true)
	y.Has("thing: item-2▏")
	y.Type("\x1b[B\x1b[B")
	y.Has("thing: item-21▏")
	y.Type("\x1a")
	y.Has("Stopped")
	y.Has("shell> ▏")
	y.Type("echo al''ive\r")
	y.Has("alive")
	y.Type("fg\r")
	y.Has("thing: item-21▏")
	y.Type("\x1b[B")
	y.Has("thing: item-22▏")
	y.Type("\r")
	s := y.Has(`chosen "item-22"`)
	if !strings.Contains(s, "alive") || !strings.Contains(s, "printed before") {
		t.Errorf("something was erased:\n%s", s)
	}
	y.Type("\r")
	y.Has("shell> ▏")
	y.Type("exit\r")
}
