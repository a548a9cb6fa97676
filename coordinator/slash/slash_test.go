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
