package trees

import (
	"context"
	"encoding/hex"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"ralph/workers/git"
)

// maxRefused bounds how many files are checked one by one when one of them is
// refused; of more, all are.
const maxRefused = 100

var fsckMessage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`object [0-9a-f]+: ([A-Za-z]+):`) })

// refused returns why git would refuse a change in a fetch with fsckObjects: for
// the content of a file that git itself reads, or for a link in its place. Trees
// of Ralph's with such an entry each go through the same check.
func (t *Trees) refused(ctx context.Context, list []change) (why map[string]string, err error) {
	why = map[string]string{}
	var suspects []change
	for _, c := range list {
		if c.newMode != modeNone && c.newMode != modeGitlink && git.ReadByGit(c.path) {
			suspects = append(suspects, c)
		}
	}
	if len(suspects) == 0 {
		return why, nil
	}
	dir, p, remove, err := t.scratch(t.loc, len(suspects[0].newHash))
	defer remove()
	if err != nil {
		return nil, err
	}
	said, err := fsckEntries(ctx, p, dir, suspects)
	if err != nil || said == "" {
		return why, err
	}
	for _, c := range suspects {
		one := said
		if len(suspects) <= maxRefused {
			if one, err = fsckEntries(ctx, p, dir, []change{c}); err != nil {
				return nil, err
			}
		}
		if one != "" {
			why[c.path] = whyRefused + one
		}
	}
	return why, nil
}

// fsckEntries returns the first message of git-fsck(1) about entries of trees, ""
// for none.
func fsckEntries(ctx context.Context, p git.Plumbing, dir string, list []change) (string, error) {
	var ids strings.Builder
	for _, c := range list {
		oid, err := hex.DecodeString(c.newHash)
		if err != nil {
			return "", err
		}
		tree, err := p.WriteObject("tree", c.newMode+" "+path.Base(c.path)+"\x00"+string(oid), len(c.newHash))
		if err != nil {
			return "", err
		}
		ids.WriteString(tree + "\n")
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"pack-objects", "-q", filepath.Join(dir, "entries")}, Stdin: []byte(ids.String())})
	if err != nil {
		return "", err
	}
	pack := filepath.Join(dir, "entries-"+strings.TrimSpace(string(out))+".pack")
	_, code, err := p.Run(ctx, git.Call{Args: []string{"index-pack", git.Strict, "-o", filepath.Join(dir, "entries.idx"), pack}})
	switch {
	case err == nil:
		return "", nil
	case code == 0 || ctx.Err() != nil:
		return "", err // git did not come to its end
	}
	if m := fsckMessage().FindStringSubmatch(err.Error()); m != nil {
		return m[1], nil
	}
	return "fsck error", nil
}
