package session

import (
	"path/filepath"
	"testing"

	"github.com/spf13/afero"
)

func TestStanding(t *testing.T) {
	for want, m := range map[string]Metadata{
		"completed":                                       {Status: Completed},
		"in_progress":                                     {Status: InProgress},
		"completed, handed to 003":                        {Status: Completed, ExitReason: "handed to 003"},
		"paused, Ctrl-C":                                  {Status: Paused, ExitReason: "interrupted by SIGINT"},
		"paused, Ctrl-C; ended by SIGTERM":                {Status: Paused, ExitReason: "interrupted by SIGINT; ended by SIGTERM"},
		"paused, its output was closed":                   {Status: Paused, ExitReason: "interrupted by signal 13"},
		"completed, its terminal was closed":              {Status: Completed, ExitReason: "ended by SIGHUP"},
		"paused, cut off":                                 {Status: Paused, ExitReason: "cut off: its holder ended without a word"},
		"error, a long reason that says more than a row…": {Status: Failed, ExitReason: "a long reason that says more than a row holds"},
	} {
		if got := m.Standing(); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}

func TestUnmarked(t *testing.T) {
	for text, want := range map[string]string{
		"Done: **hello**, see `main.go`.": "Done: hello, see main.go.",
		"\n\n## Plan\nfirst":              "Plan",
		"- one\n- two":                    "one",
		"> quoted *so*":                   "quoted *so*",
		"```go\nfunc main() {}\n```":      "func main() {}",
		"---\n__init__.py and a_b * c":    "__init__.py and a_b * c",
		"":                                "",
		"**\n``\n":                        "",
		"#hash and 2 * 3":                 "hash and 2 * 3",
	} {
		if got := Unmarked(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEmpty(t *testing.T) {
	o := Options{StateDir: filepath.Join(t.TempDir(), ".ralph")}
	s, err := Create(o, "chat")
	if err != nil {
		t.Fatal(err)
	}
	disk := afero.NewOsFs()
	if !Empty(disk, s.Dir()) || Empty(disk, filepath.Join(t.TempDir(), "none")) {
		t.Error("nothing was said, and it is not empty")
	}
	if err := s.Journal().Append(0, Record{Kind: "message"}); err != nil || Empty(disk, s.Dir()) {
		t.Errorf("it is empty, %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
