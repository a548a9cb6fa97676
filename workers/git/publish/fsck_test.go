package publish

import (
	"fmt"
	"strings"
	"testing"
)

// fsckCases are scripts that make an object for each message of git-fsck(1) that is
// an error or a warning, and have the branch, a tag or the index name it. What only
// a damaged store gives (badObjectSha1, missingObject of what is packed) is in
// TestForged.
func fsckCases() map[string]string {
	const (
		object = `put() { printf "$2" | git hash-object -t $1 -w --literally --stdin; }; T=$(git rev-parse HEAD^{tree}) P=$(git rev-parse HEAD) B=$(git rev-parse HEAD:a.txt) A='author a <a@a> 1 +0000\n' C='committer a <a@a> 1 +0000\n'; raw() { printf $1 | sed 's/../\\x&/g'; }; `
		commit = object + `put commit "%s" >.git/refs/heads/main`
		tag    = object + `put tag "%s" >.git/refs/tags/bad`
		tree   = object + `git update-ref refs/heads/main $(git commit-tree -p HEAD -m x $(put tree "%s"))`
	)
	cases := map[string]string{}
	add := func(form string, list map[string]string) {
		for id, text := range list {
			cases[id] = fmt.Sprintf(form, text)
		}
	}
	add(commit, map[string]string{
		"badDate":                 `tree $T\nparent $P\nauthor a <a@a> x +0000\n$C\nm\n`,
		"badDateOverflow":         `tree $T\nparent $P\nauthor a <a@a> 99999999999999999999 +0000\n$C\nm\n`,
		"badEmail":                `tree $T\nparent $P\nauthor a <a<@a> 1 +0000\n$C\nm\n`,
		"badName":                 `tree $T\nparent $P\nauthor a> <a@a> 1 +0000\n$C\nm\n`,
		"badParentSha1":           `tree $T\nparent xyz\n$A$C\nm\n`,
		"badTimezone":             `tree $T\nparent $P\nauthor a <a@a> 1 0\n$C\nm\n`,
		"badTreeSha1":             `tree xyz\nparent $P\n$A$C\nm\n`,
		"missingAuthor":           `tree $T\nparent $P\n$C\nm\n`,
		"missingCommitter":        `tree $T\nparent $P\n$A\nm\n`,
		"missingEmail":            `tree $T\nparent $P\nauthor a 1 +0000\n$C\nm\n`,
		"missingNameBeforeEmail":  `tree $T\nparent $P\nauthor <a@a> 1 +0000\n$C\nm\n`,
		"missingSpaceBeforeDate":  `tree $T\nparent $P\nauthor a <a@a>1 +0000\n$C\nm\n`,
		"missingSpaceBeforeEmail": `tree $T\nparent $P\nauthor a<a@a> 1 +0000\n$C\nm\n`,
		"missingTree":             `parent $P\n$A$C\nm\n`,
		"multipleAuthors":         `tree $T\nparent $P\n$A$A$C\nm\n`,
		"nulInCommit":             `tree $T\nparent $P\n$A$C\nm\000m\n`,
		"nulInHeader":             `tree $T\nparent $P\nauthor a\000a <a@a> 1 +0000\n$C\nm\n`,
		"unterminatedHeader":      `tree $T\nparent $P\nauthor a <a@a> 1 +0000`,
		"zeroPaddedDate":          `tree $T\nparent $P\nauthor a <a@a> 01 +0000\n$C\nm\n`,
	})
	add(tag, map[string]string{
		"badType":          `object $P\ntype x\ntag bad\ntagger a <a@a> 1 +0000\n\nm\n`,
		"missingObject":    `type commit\ntag bad\ntagger a <a@a> 1 +0000\n\nm\n`,
		"missingTag":       `object $P\ntype commit\n`,
		"missingTagEntry":  `object $P\ntype commit\nxtag bad\ntagger a <a@a> 1 +0000\n\nm\n`,
		"missingType":      `object $P\n`,
		"missingTypeEntry": `object $P\nxtype commit\ntag bad\ntagger a <a@a> 1 +0000\n\nm\n`,
	})
	add(tree, map[string]string{
		"badTree":            `100644 a`,
		"duplicateEntries":   `100644 a\000$(raw $B)100644 a\000$(raw $B)`,
		"emptyName":          `100644 \000$(raw $B)`,
		"fullPathname":       `100644 a/b\000$(raw $B)`,
		"hasDot":             `100644 .\000$(raw $B)`,
		"hasDotdot":          `100644 ..\000$(raw $B)`,
		"hasDotgit":          `100644 .git\000$(raw $B)`,
		"hasDotgit in NTFS":  `100644 GIT~1\000$(raw $B)`,
		"hasDotgit in HFS":   `100644 .g\342\200\214it\000$(raw $B)`,
		"nullSha1":           `100644 a\000$(raw 0000000000000000000000000000000000000000)`,
		"treeNotSorted":      `100644 b\000$(raw $B)100644 a\000$(raw $B)`,
		"zeroPaddedFilemode": `0100644 a\000$(raw $B)`,
		"gitmodulesBlob":     `40000 .gitmodules\000$(raw $T)`,
		"gitmodulesMissing":  `100644 .gitmodules\000$(raw 1111111111111111111111111111111111111111)`,
		"gitmodulesSymlink":  `120000 .gitmodules\000$(raw $B)`,
		"gitattributesBlob":  `40000 .gitattributes\000$(raw $T)`,
	})
	for id, text := range map[string]string{
		"gitmodulesName":          `[submodule "../x"]\n\tpath = s\n\turl = /x\n`,
		"gitmodulesParse":         `[submodule "x\n`,
		"gitmodulesPath":          `[submodule "x"]\n\tpath = -s\n\turl = /x\n`,
		"gitmodulesUpdate":        `[submodule "x"]\n\tpath = s\n\turl = /x\n\tupdate = !touch ran\n`,
		"gitmodulesUrl":           `[submodule "x"]\n\tpath = s\n\turl = -u./x\n`,
		"gitattributesLineLength": `*.x $(head -c 3000 /dev/zero | tr '\0' a)\n`,
	} {
		name := ".gitmodules"
		if strings.HasPrefix(id, "gitattributes") {
			name = ".gitattributes"
		}
		cases[id] = object + fmt.Sprintf(`F=$(put blob "%s"); git update-index --add --cacheinfo 100644,$F,%s; git commit -qm x`, strings.ReplaceAll(text, `"`, `\"`), name)
		cases[id+" staged"] = object + fmt.Sprintf(`F=$(put blob "%s"); git update-index --add --cacheinfo 100644,$F,%s`, strings.ReplaceAll(text, `"`, `\"`), name)
		cases[id+" staged below from an old blob"] = fmt.Sprintf(`git update-index --add --cacheinfo 100644,$(git rev-parse %s),d/%s`, "refs/tags/"+id, name)
	}
	// What a file system takes for .git, committed and staged.
	for _, name := range []string{".GIT", ".git .", `git~1.`, `.git::$INDEX_ALLOCATION`, `.git\config`, `x\.GIT`, ".g\u200dit", "\ufeff.git"} {
		var octal strings.Builder
		for _, b := range []byte(name) {
			fmt.Fprintf(&octal, `\%03o`, b)
		}
		cases["hasDotgit "+name] = object + fmt.Sprintf(`S=$(put tree '100644 config\000'$(raw $B)); git update-ref refs/heads/main $(git commit-tree -p HEAD -m x $(put tree '40000 %s\000'$(raw $S)))`, octal.String())
		if name == ".GIT" {
			continue // no setting has git stage it
		}
		cases["hasDotgit "+name+" staged"] = object + fmt.Sprintf(`printf "100644 $B\t%s/config\000" | git -c core.protectHFS=false -c core.protectNTFS=false update-index --add -z --index-info; git commit -qm x`, octal.String())
	}
	return cases
}

// TestObjectsThatGitRefuses has commands publish what a fetch with fsckObjects
// refuses: refs and index stay as they were, and that is reported.
func TestObjectsThatGitRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	const see = `git for-each-ref; git ls-files -s; cat .git/HEAD`
	for name, script := range fsckCases() {
		if id, _, there := strings.Cut(name, " staged below"); there {
			// A tag of a blob, which is harmless under any other name.
			own, _, _ := strings.Cut(fsckCases()[id], "; git update-index")
			w.user(own + `; git update-ref refs/tags/` + id + ` $F`)
		}
		before := w.user(see)
		rep := w.do(script)
		if after := w.user(see); after != before {
			t.Errorf("%s: published:\n%s\nbefore:\n%s", name, after, before)
		}
		if len(rep.Refused)+len(rep.Dropped) == 0 {
			t.Errorf("%s: nothing is reported", name)
		}
	}
	w.whole()
}
