package coordinator_test

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
)

// besideCase is what a command and the user do at the same time.
type besideCase struct {
	command string // of the model
	user    func(p *project)
	changed string // files_changed
	undone  string // the files after an undo, as "name=content"
	kept    string
}

// What the user changes while a command runs is kept and not counted, whatever the
// command does; what both changed is counted, kept and listed.
func TestTheUserBesideACommand(t *testing.T) {
	t.Parallel()
	put := func(name, text string) func(*project) { return func(p *project) { p.write(name, text) } }
	// As editors save: a new file is renamed over the old one.
	save := func(name, text string) func(*project) {
		return func(p *project) {
			p.write(".saving~", text)
			if err := os.Rename(p.path(".saving~"), p.path(name)); err != nil {
				p.Error(err)
			}
		}
	}
	// Once the record has the end of Ralph's write.
	later := func(name string, user func(*project)) func(*project) {
		return func(p *project) {
			end := regexp.MustCompile(`"` + base64.StdEncoding.EncodeToString([]byte(name)) + `".*"After":\{"`)
			for {
				logs, err := filepath.Glob(filepath.Join(filepath.Dir(p.root), "state", "checkpoints", "*", "writes.jsonl"))
				if len(logs) == 1 && err == nil {
					if text, _ := os.ReadFile(logs[0]); end.Match(text) {
						break
					}
				}
				time.Sleep(time.Millisecond)
			}
			user(p)
		}
	}
	wait := "; touch build/ready; while [ ! -e build/go ]; do sleep 0.01; done; "
	for name, c := range map[string]besideCase{
		"edits another":         {"echo w > work.txt" + wait + "echo w2 >> work.txt", put("user.txt", "mine\n"), "work.txt", "user.txt=mine both.txt=old", ""},
		"saves by a rename":     {"echo w > work.txt" + wait, save("user.txt", "mine\n"), "work.txt", "user.txt=mine both.txt=old", ""},
		"adds one":              {"echo w > work.txt" + wait, put("dir/new.txt", "mine\n"), "work.txt", "dir/new.txt=mine user.txt=old both.txt=old", ""},
		"deletes one":           {"echo w > work.txt" + wait, func(p *project) { os.Remove(p.path("user.txt")) }, "work.txt", "both.txt=old", ""},
		"the command only":      {"sed -i s/old/new/ both.txt; rm user.txt; mkdir d; echo w > d/w" + wait, func(*project) {}, "both.txt d/w user.txt", "user.txt=old both.txt=old", ""},
		"the user only":         {"true" + wait, put("user.txt", "mine\n"), "", "user.txt=mine both.txt=old", ""},
		"the user first":        {"true" + wait + "echo w >> both.txt", put("both.txt", "mine\n"), "both.txt", "user.txt=old both.txt=mine,w", "both.txt"},
		"the user first, saves": {"true" + wait + "sed -i s/mine/w/ both.txt", save("both.txt", "mine\n"), "both.txt", "user.txt=old both.txt=w", "both.txt"},
		"the user afterwards":   {"echo w > both.txt" + wait, later("both.txt", save("both.txt", "mine\n")), "both.txt", "user.txt=old both.txt=mine", "both.txt"},
		"written again":         {"rm both.txt; echo w > both.txt" + wait + "sed -i s/w/x/ both.txt; rm both.txt; echo y > both.txt", later("both.txt", func(*project) {}), "both.txt", "user.txt=old both.txt=old", ""},
		"a directory is moved":  {"mkdir a; echo 1 > a/1; mv a b" + wait, put("user.txt", "mine\n"), "b/1", "user.txt=mine both.txt=old", ""},
		"formats what is there": {"for f in *.txt; do cat $f >/dev/null; done; echo w > both.txt" + wait, put("user.txt", "mine\n"), "both.txt", "user.txt=mine both.txt=old", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, calls(shell(strings.TrimSuffix(c.command, "; "))), text("done"))
			ready := p.path("build/ready")
			if err := os.Mkdir(filepath.Dir(ready), 0o755); err != nil {
				t.Fatal(err)
			}
			p.write(".gitignore", "build/\n")
			p.write("user.txt", "old\n")
			p.write("both.txt", "old\n")
			p.session = "new"
			p.flags["sandbox"] = []string{"workspace"}
			p.ask = func(context.Context, permission.Question) (string, error) { return "yes", nil }
			co := p.open()
			defer p.shut(co)
			done := make(chan result.Outcome, 1)
			go func() { done <- co.Run(p.Context(), coordinator.Job{Task: "go", Chat: true}) }()
			for _, err := os.Stat(ready); err != nil; _, err = os.Stat(ready) {
				select {
				case out := <-done:
					t.Fatalf("ended: %+v", out)
				case <-time.After(time.Millisecond):
				}
			}
			c.user(p)
			p.write("build/go", "")
			out := <-done
			p.want(out, result.Completed)
			var changed []string
			for _, f := range out.FilesChanged {
				changed = append(changed, f.Path)
			}
			if got := strings.Join(changed, " "); got != c.changed {
				t.Errorf("files_changed %q, want %q", got, c.changed)
			}
			u, err := co.Undo(p.Context(), 1, nil)
			if err != nil && c.changed != "" {
				t.Errorf("undo: %v", err)
			}
			if !slices.Equal(u.Kept, append([]string(nil), strings.Fields(c.kept)...)) && c.kept != "" {
				t.Errorf("kept %q, want %q", u.Kept, c.kept)
			}
			want := strings.Fields(c.undone)
			for _, w := range want {
				file, text, _ := strings.Cut(w, "=")
				if got := strings.TrimSuffix(strings.ReplaceAll(p.read(file), "\n", ","), ","); got != text {
					t.Errorf("after undo %s reads %q, want %q", file, got, text)
				}
			}
			for _, gone := range []string{"work.txt", "d/w", "b/1"} {
				if p.read(gone) != "" {
					t.Errorf("%s is still there", gone)
				}
			}
		})
	}
}
