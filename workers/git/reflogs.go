package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/regular"
)

// reflogs refuses to have git set a ref whose log is a link out of the repository, or below
// one: git appends to it, and makes what it leads to.
func (p *place) reflogs(c call) error {
	if c.args[0] != "update-ref" {
		return nil
	}
	words := strings.FieldsFunc(strings.Join(c.args[1:], " ")+" "+string(c.stdin), func(r rune) bool { return r == 0 || r == ' ' || r == '\n' })
	for _, name := range words {
		if name == "HEAD" {
			head, err := readSmall(filepath.Join(p.gitDir, "HEAD"))
			if err != nil {
				continue // git reports it
			}
			name = strings.TrimSpace(strings.TrimPrefix(head, "ref: "))
		}
		if !strings.HasPrefix(name, "refs/") || !filepath.IsLocal(name) {
			continue // a command, a value or an option
		}
		if err := p.ownLog(name); err != nil {
			return err
		}
	}
	return nil
}

// ownLog refuses the log of a ref that is not in the repository.
func (p *place) ownLog(name string) error {
	at := filepath.Join(p.commonDir, "logs")
	for _, part := range strings.Split(name, "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			continue // git reports the error
		}
		if target, err := filepath.EvalSymlinks(at); err != nil || !inside(p.commonDir, target) {
			return &regular.Error{Path: at, Why: "is a link out of the repository"}
		}
	}
	return nil
}
