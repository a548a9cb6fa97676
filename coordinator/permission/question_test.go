package permission_test

import (
	"testing"

	"ralph/coordinator/permission"
)

// TestAnswer lists lines and the answers that they are.
func TestAnswer(t *testing.T) {
	strict := permission.Question{Options: []string{"no", "yes", "yes, always"}}
	open := permission.Question{Options: []string{"SQLite", "Postgres", "2"}, Open: true}
	free := permission.Question{Default: "yes"}
	for _, c := range []struct {
		q          permission.Question
		line, want string
		ok         bool
	}{
		{strict, "", "no", true}, {strict, "2", "yes", true}, {strict, "YES", "yes", true}, {strict, "n", "no", true}, {strict, "yes,", "yes, always", true}, {strict, " yes ", "yes", true},
		{strict, "y", "", false}, {strict, "4", "", false}, {strict, "0", "", false}, {strict, "maybe", "", false},
		{open, "1", "SQLite", true}, {open, "post", "Postgres", true}, {open, "2", "2", true}, {open, "3", "2", true}, {open, "", "SQLite", true}, {open, " MySQL, as we have it ", "MySQL, as we have it", true}, {open, "7", "7", true},
		{free, " free text ", "free text", true}, {free, "", "yes", true},
	} {
		if got, ok := c.q.Answer(c.line); got != c.want || ok != c.ok {
			t.Errorf("%q to %q: %q, %v, want %q, %v", c.line, c.q.Options, got, ok, c.want, c.ok)
		}
	}
}
