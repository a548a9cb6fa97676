package publish

import (
	"strings"
	"testing"
)

// staging is what the user alone has in the index: a change that the file does not
// have, a new file that is gone, one that differs, and the mode of one.
const staging = `; echo staged >a.txt; git add a.txt; echo file >a.txt; echo new-staged >n.txt; git add n.txt; rm n.txt; echo v1 >m.txt; git add m.txt; echo v2 >m.txt`

// TestStagedByTheUser has commands take from the index what only that held, by all
// commands of git that write it: it is kept, named, and staged again by the way
// that is named. The last column is what the command leaves for others to hold.
func TestStagedByTheUser(t *testing.T) {
	t.Parallel()
	cases := []struct {
		command string
		kept    bool
	}{
		{`git reset -q`, true}, {`git reset -q --hard`, true}, {`git reset -q HEAD a.txt`, true}, {`git restore --staged .`, true}, {`git rm -q --cached n.txt`, true}, {`git rm -qf --cached a.txt`, true},
		{`git checkout -q HEAD -- a.txt`, true}, {`git add -u`, true}, {`git add -A`, true}, {`git commit -qam x`, true}, {`git read-tree HEAD`, true}, {`git update-index --force-remove n.txt`, true},
		{`rm .git/index; git reset -q`, true}, {`git checkout -q -f feature`, true}, {`git switch -q --discard-changes feature`, true}, {`git stash -q; git stash drop -q`, true}, {`git rm -rqf .`, true},
		{`git read-tree --empty`, true}, {`git diff --cached -- n.txt | git apply --cached -R`, true},
		{`git commit -qm x`, false}, {`git stash -q`, false}, {`git add c.txt`, false}, {`git status`, false}, {`echo other >o.txt; git add o.txt`, false}, {`git commit -qm x; git rm -q --cached n.txt`, false},
		{`git branch keep $(git commit-tree -m x $(git write-tree)); git reset -q`, false},
	}
	for _, c := range cases {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp+staging)
			before := w.user(`git ls-files -s a.txt n.txt m.txt | cut -d" " -f2`)
			rep := w.do(c.command)
			if len(rep.Refused)+len(rep.Late) > 0 {
				t.Fatalf("reported %q", rep.Lines())
			}
			var at string
			for _, name := range rep.Kept {
				if strings.HasSuffix(name, "/index") {
					at = name
				}
			}
			if (at != "") != c.kept && c.command != `git stash -q; git stash drop -q` {
				t.Errorf("kept %q, reported %q", at, rep.Lines())
			}
			w.user(`git reflog expire --expire=now --all; git gc -q --prune=now`)
			for id := range strings.FieldsSeq(before) {
				if _, err := w.try("git cat-file -e " + id); err != nil {
					t.Errorf("%s is lost; reported %q", id, rep.Lines())
				}
			}
			if at != "" {
				again := "git restore --staged -s " + at
				if !strings.Contains(strings.Join(rep.Lines(), "\n"), "`"+again+" PATH`") {
					t.Errorf("reported %q", rep.Lines())
				}
				w.user(again + " n.txt m.txt a.txt; git show :n.txt | grep -q staged; git show :m.txt | grep -q v1; git show :a.txt | grep -q staged")
			}
			w.whole()
		})
	}
}

// TestStagedByCommands has a command unstage what a command before it staged:
// nothing is kept of that, and nothing said.
func TestStagedByCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	for _, command := range []string{`echo one >a.txt; git add a.txt`, `echo two >a.txt; git add -A`, `git reset -q`, `git add -A`, `git reset -q --hard`} {
		if rep := w.do(command); len(rep.Lines()) > 0 {
			t.Errorf("%s: reported %q", command, rep.Lines())
		}
	}
	w.user(`echo mine >a.txt; git add a.txt; git restore -s HEAD a.txt`)
	if rep := w.do(`git reset -q`); len(rep.Kept) != 1 {
		t.Errorf("reported %q", rep.Lines())
	}
}

// TestLastRefs has a command delete or move the only ref of each type of object,
// in every place for refs: what it named is kept, and named.
func TestLastRefs(t *testing.T) {
	t.Parallel()
	objects := map[string]string{
		"blob":   `echo only | git hash-object -w --stdin`,
		"tree":   `b=$(echo only | git hash-object -w --stdin); printf "100644 blob $b\tz\n" | git mktree`,
		"commit": `git commit-tree -m only HEAD^{tree}`,
		"tag":    `printf "object $(git rev-parse HEAD)\ntype commit\ntag only\ntagger A <a@localhost> 1 +0000\n\nonly\n" | git mktag`,
	}
	for kind, make := range objects {
		for _, ref := range []string{"refs/tags/only", "refs/remotes/o/only", "refs/notes/only", "refs/x/only"} {
			for _, command := range []string{"git update-ref -d " + ref, "git update-ref " + ref + " HEAD", "rm .git/" + ref} {
				if (strings.Contains(ref, "remotes") || strings.Contains(ref, "notes")) && strings.HasSuffix(command, "HEAD") {
					continue // its reflog holds it
				}
				t.Run(kind+" "+command, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, setUp)
					id := w.user(`id=$(` + make + `); git update-ref ` + ref + ` $id; echo $id`)
					rep := w.do(command)
					if len(rep.Kept) != 1 {
						t.Errorf("reported %q", rep.Lines())
					}
					w.user(`git reflog expire --expire=now --all; git gc -q --prune=now; git cat-file -e ` + id)
					w.whole()
				})
			}
		}
	}
}
