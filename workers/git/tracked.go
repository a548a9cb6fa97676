package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// begin fills the first index of a store from the user's: names, sizes and times of
// the tracked files, so that they need not be read, and their content, which is
// copied out of the user's objects. No command of Ralph's has run then, which the index of
// an earlier version disproves. What cannot be had this way is read from the work tree, as everything is from then on.
func (c *Checkpoints) begin(ctx context.Context, x index) error {
	if _, err := os.Lstat(filepath.Join(c.gitDir, "index")); err == nil || c.converts || c.user == nil || c.hashLen() == 64 != (c.userFormat() == "sha256") {
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
	converted, err := c.converted(ctx, names, oids)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, x.env(), difference{remove: append(drop, converted...)}); err != nil {
		return err
	}
	if len(oids) == 0 {
		return nil
	}
	args := []string{"pack-objects", "-q", "--window=0", filepath.Join(c.gitDir, "objects", "pack", "pack")}
	_, err = c.run(ctx, call{args: args, stdin: []byte(strings.Join(oids, "\n") + "\n"), env: c.borrowed()})
	return err
}

// borrowed is the environment in which git sees the user's objects, too.
func (c *Checkpoints) borrowed() []string {
	return []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(c.user.commonDir, "objects"))}
}

// converted picks those of the tracked files of which git stores something else than is in the
// work tree: that of another size, as all but encodings and filters make it. A file that
// was changed since may be among them.
func (c *Checkpoints) converted(ctx context.Context, names, oids []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	sizes, err := c.run(ctx, call{args: []string{"cat-file", "--batch-check=%(objectsize)"}, stdin: []byte(strings.Join(oids, "\n") + "\n"), env: c.borrowed()})
	if err != nil {
		return nil, err
	}
	stored := strings.Split(strings.TrimSuffix(string(sizes), "\n"), "\n")
	if len(stored) != len(names) {
		return nil, errors.New("git cat-file: another number of sizes")
	}
	attributes, err := c.user.run(ctx, call{args: []string{"check-attr", "-z", "--stdin", "filter", "working-tree-encoding"}, stdin: nulList(names)})
	if err != nil {
		return nil, err
	}
	hit := map[string]bool{}
	f := splitNul(attributes)
	for i := 0; i+2 < len(f); i += 3 {
		if f[i+2] != "unspecified" && f[i+2] != "unset" {
			hit[f[i]] = true
		}
	}
	var out []string
	for i, name := range names {
		info, err := os.Lstat(filepath.Join(c.workTree, filepath.FromSlash(name)))
		if hit[name] || err == nil && strconv.FormatInt(info.Size(), 10) != stored[i] {
			out = append(out, name)
		}
	}
	return out, nil
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
	if c.user == nil || !IsGitDir(c.user.commonDir) {
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
