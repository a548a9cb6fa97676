package coordinator_test

import (
	"slices"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// TestUndoOfWhatWasIgnored keeps files of the user's that git ignored before the turn and shows
// after it: no checkpoint has what they held, so nothing can bring that back.
func TestUndoOfWhatWasIgnored(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"another branch": "git checkout -q old; echo NEW=1 >> .env; echo more >> out/p",
		"without rules":  "rm .gitignore; echo NEW=1 >> .env; echo more >> out/p",
		"rules moved":    "mv .gitignore g; echo NEW=1 >> .env; echo more >> out/p",
		"rules changed":  "echo none > .gitignore; sed -i s/KEY/NEW/ .env; cp .env out/p",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := confined(t, calls(shell(script+"; echo x > made; mkdir new; echo y > new/y; echo z >> new/y")), text("done"))
			p.git("commit", "-q", "--allow-empty", "-m", "old")
			p.git("branch", "old")
			p.write(".gitignore", ".env\nout/\n")
			p.git("add", ".gitignore")
			p.git("commit", "-q", "-m", "rules")
			p.write(".env", "KEY=secret\n")
			p.write("out/p", "precious\n")
			c := p.open()
			defer p.shut(c)
			p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
			env, out := p.read(".env"), p.read("out/p")
			u, err := c.Undo(t.Context(), 1, nil)
			if err != nil || !slices.Contains(u.Kept, ".env") || !slices.Contains(u.Kept, "out/p") {
				t.Errorf("%+v, %v", u, err)
			}
			if env == "" || p.read(".env") != env || p.read("out/p") != out {
				t.Errorf("after undo .env is %q, out/p %q", p.read(".env"), p.read("out/p"))
			}
			if p.read("made")+p.read("new/y") != "" {
				t.Error("what the turn made is still there")
			}
		})
	}
}
