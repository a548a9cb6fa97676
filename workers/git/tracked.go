package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// begin fills the first index of a store from the user's: names, sizes and times of
// the tracked files, so that they need not be read, and their content, which is
// copied out of the user's objects. No command of Ralph's has run then. What cannot
// be had this way is read from the work tree, as everything is from then on.
func (c *Checkpoints) begin(ctx context.Context, x index) error {
	if c.user == nil || c.hashLen() == 64 != (c.userFormat() == "sha256") {
		return nil
	}
	err := c.borrow(ctx, x)
	if err != nil && ctx.Err() == nil {
		// A split index, a damaged one, objects that are missing.
		return os.RemoveAll(x.path)
	}
	return err
}

func (c *Checkpoints) borrow(ctx context.Context, x index) error {
	if err := copyIndex(filepath.Join(c.user.gitDir, "index"), x.path); err != nil {
		return err
	}
	out, err := c.run(ctx, call{args: []string{"ls-files", "-z", "-s", "-v"}, env: x.env()})
	if err != nil {
		return err
	}
	var drop, names, oids []string
	for _, line := range splitNul(out) {
		about, name, _ := strings.Cut(line, "\t")
		f := strings.Fields(about) // tag, mode, object, stage
		if len(f) != 4 {
			return fmt.Errorf("git ls-files: %.80q", line)
		}
		switch {
		case f[0] != "H" || f[3] != "0" || !strings.HasPrefix(name, c.prefix):
			drop = append(drop, name) // not checked out, not looked at, in conflict, not ours
		case f[1] != modeGitlink:
			names, oids = append(names, name), append(oids, f[2])
		}
	}
	// The index holds what a filter made of a file.
	filtered, err := c.filtered(ctx, names, x.env())
	if err != nil {
		return err
	}
	if err := c.apply(ctx, x.env(), difference{remove: append(drop, filtered...)}); err != nil {
		return err
	}
	if len(oids) == 0 {
		return nil
	}
	args := []string{"pack-objects", "-q", "--window=0", filepath.Join(c.gitDir, "objects", "pack", "pack")}
	_, err = c.run(ctx, call{args: args, stdin: []byte(strings.Join(oids, "\n") + "\n"),
		env: []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(c.user.commonDir, "objects"))}})
	return err
}

// alternate quotes a path for a list that colons separate.
func alternate(path string) string {
	if !strings.ContainsAny(path, ":\"\n") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// tracked compares an index of ours with the user's as to names, when the user's
// has changed: ignored files are recorded when they are tracked, and submodules are
// as the user has staged them. What is recorded stays so when it is ignored later: a
// command must not take a file out of undo's reach.
func (c *Checkpoints) tracked(ctx context.Context, x index) (d difference, seen seed, err error) {
	if c.user == nil || !isGitDir(c.user.commonDir) {
		return d, c.seen, nil
	}
	seen = fingerprint(filepath.Join(c.user.gitDir, "index"))
	if seen == c.seen {
		return d, seen, nil
	}
	d, err = c.compareNames(ctx, x)
	if err != nil && ctx.Err() == nil {
		// The user's index cannot be read: what is tracked stays as it was.
		return difference{}, seed{}, nil
	}
	return d, seen, err
}

func (c *Checkpoints) compareNames(ctx context.Context, x index) (difference, error) {
	var d difference
	ignored := append([]string{"ls-files", "-z", "-c", "-i", "--exclude-standard", "--"}, c.paths()...)
	out, err := c.user.run(ctx, call{args: ignored})
	if err != nil {
		return d, err
	}
	skip, links := c.filter().skip, map[string]bool{}
	for _, name := range splitNul(out) {
		if !skip(name, false) && c.standing(name, 0, links) == present {
			d.update = append(d.update, name)
		}
	}
	if _, err := os.Lstat(filepath.Join(c.workTree, ".gitmodules")); errors.Is(err, os.ErrNotExist) {
		return d, nil
	}
	return d, c.submodules(ctx, x)
}

// submodules takes over the commits that the user's index has for submodules.
func (c *Checkpoints) submodules(ctx context.Context, x index) error {
	staged := append([]string{"ls-files", "-z", "-s", "--"}, c.paths()...)
	out, err := c.user.run(ctx, call{args: staged})
	if err != nil {
		return err
	}
	var entries strings.Builder
	for _, line := range splitNul(out) {
		if strings.HasPrefix(line, modeGitlink+" ") {
			entries.WriteString(line + "\x00")
		}
	}
	if entries.Len() == 0 {
		return nil
	}
	_, err = c.run(ctx, call{args: []string{"update-index", "-z", "--replace", "--index-info"}, stdin: []byte(entries.String()), env: x.env()})
	return err
}
