package git

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// Strict is the option of git index-pack and unpack-objects that has them check
// objects as a fetch with fetch.fsckObjects does. A .gitmodules that cannot be
// parsed is an error too: with it in the tree no git status works.
const Strict = "--strict=gitmodulesParse=error"

var readByGit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^(?:\.git(?:modules|attributes)|g[^/]*~\d)`) })

// ReadByGit reports whether git-fsck(1) checks the content of a file for its
// name, in any spelling that a file system takes for it: without the code points
// that HFS+ ignores, or shortened by NTFS.
func ReadByGit(name string) bool {
	return readByGit().MatchString(strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return -1
		}
		return r
	}, path.Base(name)))
}

// ignoredByHFS reports the code points that HFS+ leaves out of a name, by
// next_hfs_char in git's utf8.c.
func ignoredByHFS(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// dotGit matches what NTFS takes for .git, by is_ntfs_dotgit in git's path.c: its
// short name too, with dots and spaces at its end, and with a stream. A backslash
// ends it, and begins a new name.
var dotGit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(?:^|\\)(?:\.git|git~1)[. ]*(?:$|[:\\])`) })

// GoodPath reports whether git-fsck(1) takes each part of a slash-separated path for
// one that a tree may have (hasDot, hasDotdot, hasDotgit, emptyName): none leads out
// of the tree or into a git directory, in any spelling that a file system takes for
// it.
func GoodPath(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		plain := strings.Map(func(r rune) rune {
			if ignoredByHFS(r) {
				return -1
			}
			return r
		}, part)
		if part == "" || part == "." || part == ".." || dotGit().MatchString(part) || dotGit().MatchString(plain) {
			return false
		}
	}
	return !strings.ContainsRune(p, 0)
}
