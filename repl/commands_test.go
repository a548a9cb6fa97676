package repl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ralph/coordinator/desk"
	"ralph/coordinator/slash"
	"ralph/repl/render"
)

// The table and what the chat can do are the same.
func TestEveryCommandIsDone(t *testing.T) {
	t.Parallel()
	do := (&Shell{}).executors()
	var names []string
	for _, c := range slash.Table() {
		names = append(names, c.Name)
		if do[c.Name] == nil {
			t.Errorf("/%s is in the table and does nothing", c.Name)
		}
	}
	for name := range do {
		if !slices.Contains(names, name) {
			t.Errorf("/%s is done and is not in the table", name)
		}
	}
}

// What the table says of a command while Ralph works is so: those that do not work
// then wait, or say that they do not; none of the others waits.
func TestBusyIsHonest(t *testing.T) {
	c := openSized(t, 100, 70, hang, withHands(&ownHands{}))
	c.idle()
	c.Type("work\r")
	c.Has("thinking about it")
	waiting := 0
	for _, cmd := range slash.Table() {
		switch cmd.Name {
		case "exit", "stop", "edit": // leave, end the work, take the terminal
			continue
		case "pause":
			continue // the turn would not go on
		}
		marker := fmt.Sprintf("/nothing_%s_", cmd.Name)
		c.Type("\x0c/" + cmd.Name + "\r" + marker + "\r")
		s := c.Has("there is no command " + marker)
		waits := strings.Contains(s, "/"+cmd.Name+" waits until the turn ends")
		refused := strings.Contains(s, "/"+cmd.Name+" does not work while Ralph works")
		switch {
		case cmd.Name == "go":
			c.Has("nothing was stopped")
		case refusesWhileBusy(cmd.Name):
			if !refused || waits {
				t.Errorf("/%s is not refused:\n%s", cmd.Name, s)
			}
		case waits == cmd.WhileBusy || refused:
			t.Errorf("/%s waits: %t:\n%s", cmd.Name, waits, s)
		}
		if waits {
			waiting++
		}
	}
	c.Type("\x03")
	c.Has("ralph talk ❯")
	c.Type("\x03\x04")
	c.left(0)
}

// Help is aligned and whole at every width.
func TestHelpAtAllWidths(t *testing.T) {
	t.Parallel()
	for _, cols := range []int{20, 40, 60, 80, 100, 200} {
		r := render.New(render.Options{Width: cols, Theme: render.ThemeNone})
		text := helpAll(r)
		for row := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(row, "\n"))); n >= cols && cols >= 40 {
				t.Errorf("at %d columns a row has %d: %q", cols, n, row)
			}
		}
		for _, c := range slash.Table() {
			mark := ""
			if !c.WhileBusy {
				mark = waitsMark
			}
			if !strings.Contains(text, "\n  /"+c.Name+mark+" ") {
				t.Errorf("at %d columns /%s is missing", cols, c.Name)
			}
			one := helpOne(r, c, cols)
			flat := strings.Join(strings.Fields(one), " ")
			for _, e := range c.Examples {
				if cols >= 40 && !strings.Contains(flat, strings.Join(strings.Fields(e.Does), " ")) && !strings.Contains(one, e.Line) {
					t.Errorf("at %d columns /help %s lacks %q:\n%s", cols, c.Name, e.Line, one)
				}
			}
		}
		if cols == 40 || cols == 80 || cols == 200 {
			golden(t, fmt.Sprintf("help-%d", cols), text)
		}
	}
	r := render.New(render.Options{Width: 80, Theme: render.ThemeNone})
	var b strings.Builder
	for _, name := range []string{"undo", "agents", "exit", "@", "!", "keys", "handoff"} {
		c, _, _ := slash.Topic(name)
		b.WriteString(helpOne(r, c, 80))
	}
	golden(t, "help-commands", b.String())
}

func TestCommandsExplainThemselves(t *testing.T) {
	c := openSized(t, 100, 30, echo, withHands(&ownHands{noCheck: true}))
	for _, step := range []struct{ line, want string }{
		{"/help @", "a name with blanks"},
		{"/help !", "a shell command of your own"},
		{"/help keys", "Ctrl-X Ctrl-E"},
		{"/help /undo", "It takes back what Ralph changed"},
		{"/help quit", "The same: /quit, /q"},
		{"/?", "and besides"},
		{"/statu", "did you mean /status"},
		{"/undoo", "did you mean /undo?"},
		{"/pause now", "/pause takes no argument"},
		{"/check", "there is no check"},
		{"/config sandbox", "where it comes from\n"},
		{"!", "It runs in the project's folder"},
		{"/edit a b", "/edit opens one file"},
		{"/why US-9", "there is no task"},
	} {
		c.idle()
		c.Type("\x0c" + step.line + "\r")
		if step.line == "/config sandbox" {
			c.Has("--sandbox workspace|read-only|off")
			continue
		}
		c.Has(step.want)
	}
	c.idle()
	c.Type("/q\r")
	c.left(0)
}

func TestSettingsAreShown(t *testing.T) {
	c := openSized(t, 100, 30, echo, withHands(&ownHands{}))
	c.idle()
	c.Type("\x0c/config\r")
	s := c.Has("all others have their default")
	if !strings.Contains(s, "sk-…1234") || strings.Contains(s, "max_turns") {
		t.Errorf("the settings are\n%s", s)
	}
	c.Type("\x0c/config all\r")
	c.Has("max_tokens  default        (none)")
	c.Has("· /config KEY tells about one") // its last line, which the next screen would show otherwise
	c.Type("\x0c/config model\r")
	golden(t, "config", c.Has("model: in the config file"))
	for _, step := range [][2]string{
		{"/config max", "max_turns"}, {"/config --max-turns", "--max-turns N"}, {"/config modle", "did you mean model?"},
		{"/config model gpt-5", "/model NAME for this session"}, {"/config sandbox=off", "does not change them"}, {"/config what is this", "there is no such thing"},
	} {
		c.Type("\x0c" + step[0] + "\r")
		c.Has(step[1])
	}
	c.bye(t)
}

func TestCheckIsRun(t *testing.T) {
	h := &ownHands{}
	h.checking(checkRun("go test ./...", 0, "ok\n"), checkRun("go vet ./...", 1, strings.Repeat("line\n", 40)+"the end\n"))
	c := openSized(t, 100, 46, echo, withHands(h))
	c.idle()
	c.Type("\x0c/check\r")
	s := c.Has("1 of 2 checks failed, 2.4 s")
	for _, want := range []string{"· go vet ./..., exit 1, 1.2 s:", "11 lines before", "the end"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is missing in\n%s", want, s)
		}
	}
	if strings.Contains(s, "ok\n") {
		t.Errorf("what a passed check printed is shown:\n%s", s)
	}
	h.checking(checkRun("go build", 0, ""), desk.CheckRun{Command: "make all", NotRun: "denied by the user"})
	c.idle()
	c.Type("\x0c/check\r")
	c.Has("make all was not run: denied by the user")
	c.Lacks("passed")
	h.checking(checkRun("go build", 0, ""))
	c.idle()
	c.Type("\x0c/check\r")
	c.Has("1 check passed, 1.2 s")
	c.idle()
	c.Type("\x0c/check make lint\r")
	c.Has("make lint, exit 1, 1.2 s:\n  line\n  broken\n· 1 of 1 check failed, 1.2 s\n")
	c.Type("\x0c/check hang\r")
	c.Has("ralph ⠋ check")
	c.Type("\x03")
	c.Has("the check was stopped")
	c.idle()
	c.bye(t)
}

// A model's name that cannot be one is not taken.
func TestModelNameIsOneWord(t *testing.T) {
	c := open(t, echo)
	c.idle()
	c.Type("/model is this a good one?\r")
	c.Has("a name has no blanks")
	if got := c.f.Endpoint().Model; got != "gpt-large" {
		t.Errorf("the model is %q", got)
	}
	c.bye(t)
}
