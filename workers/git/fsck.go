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
