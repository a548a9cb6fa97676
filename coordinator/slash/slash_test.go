package slash_test

import (
	"slices"
	"strings"
	"testing"

	"ralph/coordinator/slash"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, c := range slash.Table() {
		got, _, ok := slash.Find("/" + c.Name)
		if !ok || got.Name != c.Name || c.Summary == "" || c.Group == "" {
			t.Errorf("command %+v", c)
		}
		for _, a := range c.Aliases {
			if got, _, ok := slash.Find(a); !ok || got.Name != c.Name {
				t.Errorf("/%s is %q, want /%s", a, got.Name, c.Name)
			}
		}
		if c.Help == "" || c.Args != "" && len(c.Examples) == 0 {
			t.Errorf("/help %s has no help, or no example", c.Name)
		}
	}
	for typed, want := range map[string]string{"statsu": "status", "hlep": "help", "cle": "clear", "udno": "undo", "Status": "status"} {
		if _, near, ok := slash.Find(typed); ok || len(near) == 0 || near[0] != want || len(near) > 3 {
			t.Errorf("%q suggests %v, want %s", typed, near, want)
		}
	}
	for _, typed := range []string{"zzzzzzzz", ""} {
		if _, near, ok := slash.Find(typed); ok || len(near) != 0 {
			t.Errorf("%q suggests %v", typed, near)
		}
	}
}

// The order is the one of the design, each group stands together, and no name is
// there twice.
func TestTableIsInOrder(t *testing.T) {
	t.Parallel()
	want := strings.Fields("help status agents tasks goals queue now ask later stop go resume pause undo redo diff context compact trace model cost sessions handoff plan run why check edit config clear exit")
	var names, groups []string
	seen := map[string]bool{}
	for _, c := range slash.Table() {
		names = append(names, c.Name)
		if len(groups) == 0 || groups[len(groups)-1] != c.Group {
			if slices.Contains(groups, c.Group) {
				t.Errorf("the group %q is in two places", c.Group)
			}
			groups = append(groups, c.Group)
		}
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if seen[n] {
				t.Errorf("/%s is there twice", n)
			}
			seen[n] = true
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("the commands are\n%v, want\n%v", names, want)
	}
}

// Each example of a command is a line that begins with it, or one that speaks of it.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, c := range slash.Table() {
		own := 0
		for _, e := range c.Examples {
			name, isCommand := strings.CutPrefix(strings.Fields(e.Line)[0], "/")
			if name == c.Name {
				own++
			} else if _, _, ok := slash.Find(name); isCommand && !ok {
				t.Errorf("/help %s shows %q, which does not exist", c.Name, e.Line)
			}
			if e.Does == "" {
				t.Errorf("/help %s: %q is not explained", c.Name, e.Line)
			}
		}
		if own == 0 && c.Args != "" {
			t.Errorf("/help %s shows no line of its own", c.Name)
		}
		if args, ok := strings.CutPrefix(strings.Join(lines(c), "\n"), "/run "); ok && c.Name == "run" {
			for _, l := range strings.Split(args, "\n/run ") {
				if _, err := slash.RunFlags(l); err != nil {
					t.Errorf("the example /run %s: %v", l, err)
				}
			}
		}
	}
}

func lines(c slash.Command) []string {
	var all []string
	for _, e := range c.Examples {
		all = append(all, e.Line)
	}
	return all
}

func TestTopics(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"@": "@", "files": "@", "!": "!", "keys": "keys", "undo": "undo", "/undo": "undo", "q": "exit"} {
		if got, _, ok := slash.Topic(name); !ok || got.Name != want {
			t.Errorf("/help %s is about %q, want %q", name, got.Name, want)
		}
	}
	if _, near, ok := slash.Topic("undoo"); ok || len(near) == 0 || near[0] != "undo" {
		t.Errorf("undoo suggests %v", near)
	}
}

func TestAddressed(t *testing.T) {
	for line, want := range map[string][2]string{
		"@fix_login: use tabs": {"fix_login", "use tabs"}, "  @a-1:go": {"a-1", "go"}, "@a:": {"a", ""},
		"@main.go: look": {}, "@a/b: look": {}, "@a look": {}, "@ssh://host": {}, "@: x": {}, "mail a@b: x": {}, "": {},
	} {
		to, text, ok := slash.Addressed(line)
		if to != want[0] || text != want[1] || ok != (want[0] != "") {
			t.Errorf("%q: %q %q %t", line, to, text, ok)
		}
	}
}
