package publish

import (
	osexec "os/exec"
	"strings"
	"testing"
)

// TestRefNames has a command make branches of all kinds of names, past git where
// git refuses them: those that git check-ref-format --branch takes are published,
// the others are named.
func TestRefNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	names := []string{"HEAD", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "-x", "--upload-pack=x", "-", "@", "a/@", "x/-y", "x/HEAD", "plain", "umläut", "日本", "#1", "a'b", "$(x)", "a;b", "a|b", "a&b", "a{b",
		".x", "x/.y", "x.lock", "y.lock/z", "a..b", "a~1", "a^", "a:b", "a?b", "a*b", "a[b", "a b", `a\b`, "a@{1}", "a.", "a\x7fb", "a\x1b[31mb", "a\u0085b", "a\u202eb", strings.Repeat("l", 251), strings.Repeat("0a", 20), strings.Repeat("0a", 32)}
	for _, name := range names {
		c := osexec.Command("git", "check-ref-format", "--branch", name)
		c.Dir = w.root
		good := c.Run() == nil
		switch name {
		case "-", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "@": // git takes these for something else
			good = false
		case "a\u0085b", "a\u202eb": // a terminal obeys them
			good = false
		case strings.Repeat("l", 251): // its lock has a name that is too long
			good = false
		case strings.Repeat("0a", 20), strings.Repeat("0a", 32): // "Git normally never creates a ref that ends with 40 hex characters"
			good = false
		}
		q := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
		rep := w.do(`n=` + q + `; printf '# pack-refs with: peeled fully-peeled sorted \n' >.git/p; { git for-each-ref --format='%(objectname) %(refname)'; echo "$(git rev-parse feature) refs/heads/$n"; } | LC_ALL=C sort -k2 >>.git/p; mv .git/p .git/packed-refs`)
		if len(rep.Refused)+len(rep.Late) > 0 {
			t.Errorf("%q: %q", name, rep.Lines())
		}
		published := w.user(`git for-each-ref --format='%(refname)' refs/heads | grep -v -x -e refs/heads/main -e refs/heads/feature || :`)
		if published != "" {
			w.user(`git update-ref -d ` + "'" + strings.ReplaceAll(published, "'", `'\''`) + "'")
		}
		switch want := "refs/heads/" + name; {
		case good && (published != want || len(rep.Dropped) > 0):
			t.Errorf("%q: published %q, reported %q", name, published, rep.Lines())
		case !good && (published != "" || len(rep.Dropped) == 0):
			t.Errorf("%q: published %q, reported %q", name, published, rep.Lines())
		}
	}
	for _, ref := range []string{"refs/HEAD", "refs/heads", "refs/tags", "refs/remotes", "refs/tags/HEAD", "refs/tags/-x", "refs/remotes/HEAD", "refs/remotes/HEAD/HEAD", "refs/x", "refs/ralph/x", "refs/replace/" + w.user("git rev-parse HEAD")} {
		rep := w.do(`printf '# pack-refs with: peeled fully-peeled sorted \n' >.git/p; { git for-each-ref --format='%(objectname) %(refname)'; echo "$(git rev-parse feature) ` + ref + `"; } | LC_ALL=C sort -k2 >>.git/p; mv .git/p .git/packed-refs`)
		if got := w.user(`git for-each-ref --format='%(refname)' | grep -x ` + ref + ` || :`); got != "" || len(rep.Dropped) == 0 || len(rep.Refused) > 0 {
			t.Errorf("%s: published %q, reported %q", ref, got, rep.Lines())
		}
	}
	w.whole()
}

// TestRefsInTheWay has refs be directories of others: those of one command that
// exclude each other, what it deletes for what it makes, and what the user made
// meanwhile.
func TestRefsInTheWay(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, command, user, see, want, report string }{
		{"below an old one", `printf '# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/feature/x\n' $(git rev-parse feature) >>.git/packed-refs`, ``, `git branch --list --format='%(refname:short)'`, "feature\nmain", "can only have one"},
		{"below each other", `git tag ok; printf '# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/n\n%s refs/heads/n/x\n%s refs/heads/n/x/y\n' $(git rev-parse feature feature feature) >>.git/packed-refs`, ``, `git branch --list --format='%(refname:short)'; git tag --list ok`, "feature\nmain", "can only have one"},
		{"HEAD on one", `printf '# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/feature/x\n' $(git rev-parse feature) >>.git/packed-refs; echo ref: refs/heads/feature/x >.git/HEAD`, ``, `cat .git/HEAD; git branch --list --format='%(refname:short)'`, "ref: refs/heads/main\nfeature\nmain", "can only have one"},
		{"renamed to one below", `git branch -m feature feature/x`, ``, `git branch --list --format='%(refname:short)'`, "feature/x\nmain", ""},
		{"renamed to one above", `git branch feature2/x feature; git branch -D feature; git branch -m feature2/x feature2`, ``, `git branch --list --format='%(refname:short)'`, "feature2\nmain", ""},
		{"current one renamed", `git branch -m main/next`, ``, `git branch --list --format='%(refname:short)'; cat .git/HEAD; git status --porcelain`, "feature\nmain/next\nref: refs/heads/main/next", ""},
		{"below one of the user", `git branch topic/x feature`, `git branch topic`, `git branch --list --format='%(refname:short)'`, "feature\nmain\ntopic", "heads/topic/x"},
		{"above one of the user", `git branch topic feature; git tag t feature`, `git branch topic/x; git tag t/x`, `git branch --list --format='%(refname:short)'; git tag --list 't*'`, "feature\nmain\ntopic/x\nt/x", "heads/topic"},
		{"switch to one below one of the user", `git checkout -q -b topic/x; echo n >n.txt; git add .; git commit -qm mine`, `git branch topic`, `git branch --list --format='%(refname:short)'; cat .git/HEAD; git diff --cached --name-only`, "feature\nmain\ntopic\nref: refs/heads/main", "heads/topic/x"},
		{"switch to one of the user", `git checkout -q -b topic; echo n >n.txt; git add .; git commit -qm mine`, `git branch topic`, `git branch --list --format='%(refname:short)'; cat .git/HEAD; git diff --cached --name-only; git log -1 --format=%s topic`, "feature\nmain\ntopic\nref: refs/heads/main\nthird", "heads/topic"},
		{"renamed where the user was at work", `git branch -m feature feature/x`, `git update-ref refs/heads/feature main`, `git branch --list --format='%(refname:short) %(subject)'`, "feature third\nmain third", "heads/feature/x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			cmd := w.begin()
			out := w.run(cmd, c.command)
			if c.user != "" {
				w.user(c.user)
			}
			rep := cmd.Publish(t.Context())
			t.Log(out, rep.Lines())
			w.same("refs", c.see, c.want)
			if c.report == "" {
				clean(t, rep)
			} else if !strings.Contains(strings.Join(rep.Lines(), "\n"), c.report) {
				t.Errorf("reported %q", rep.Lines())
			}
			if c.user != "" && (len(rep.Refused) > 0 || len(rep.Late) == 0) {
				t.Errorf("reported %q", rep.Lines())
			}
			w.whole()
		})
	}
}
