package slash_test

import (
	"testing"

	"ralph/coordinator/slash"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, c := range slash.Table() {
		got, _, ok := slash.Find("/" + c.Name)
		if !ok || got.Name != c.Name || c.Summary == "" {
			t.Errorf("command %+v", c)
		}
	}
	for typed, want := range map[string]string{"statsu": "status", "hlep": "help", "cle": "clear", "udno": "undo"} {
		if _, near, ok := slash.Find(typed); ok || len(near) == 0 || near[0] != want {
			t.Errorf("%q suggests %v, want %s", typed, near, want)
		}
	}
	if _, near, ok := slash.Find("zzzzzzzz"); ok || len(near) != 0 {
		t.Errorf("nonsense suggests %v", near)
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
