package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/workers/regular"
)

// oldRefs is where checkpoints were until they got a store of their own: in the
// user's repository, or in <stateDir>/shadow.git.
const oldRefs = "refs/ralph/checkpoints/"

// Adopt copies the checkpoints of this root that an older Ralph has left in the
// project into the store and removes them there. It gives their number. Without any
// it starts no process. The caller holds the project's lock.
func (c *Checkpoints) Adopt(ctx context.Context) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	adopted := 0
	if c.user != nil && hasOldRefs(c.user.commonDir) {
		list, err := c.adopt(ctx, c.user, c.prefix)
		if err != nil {
			return 0, fmt.Errorf("take over checkpoints: %w", err)
		}
		var gone bytes.Buffer
		for _, p := range list {
			fmt.Fprintf(&gone, "delete %s%s %s\n", oldRefs, p.ID, p.Commit)
		}
		if _, err := c.user.run(ctx, call{args: []string{"update-ref", "--no-deref", "--stdin"}, stdin: gone.Bytes()}); err != nil {
			return 0, fmt.Errorf("remove checkpoints that were taken over: %w", err)
		}
		adopted += len(list)
	}
	shadow := filepath.Join(c.stateDir, "shadow.git")
	if info, err := os.Lstat(shadow); err != nil || !info.IsDir() || !IsGitDir(shadow) {
		return adopted, nil
	}
	if err := sound(shadow, shadow); err != nil {
		return adopted, fmt.Errorf("take over checkpoints: %w", err)
	}
	old := &place{proc: c.proc, gitDir: shadow, commonDir: shadow, workTree: c.root}
	list, err := c.adopt(ctx, old, "")
	if err != nil {
		return adopted, fmt.Errorf("take over checkpoints: %w", err)
	}
	if err := os.RemoveAll(shadow); err != nil {
		return adopted, fmt.Errorf("remove checkpoints that were taken over: %w", err)
	}
	return adopted + len(list), nil
}

// hasOldRefs reports whether a repository can have checkpoints of an older Ralph.
func hasOldRefs(gitDir string) bool {
	if _, err := os.Lstat(filepath.Join(gitDir, "reftable")); err == nil {
		return true
	}
	if count(filepath.Join(gitDir, filepath.FromSlash(oldRefs))) > 0 {
		return true
	}
	packed, err := regular.Read(filepath.Join(gitDir, "packed-refs"), 64<<20)
	return err == nil && bytes.Contains(packed, []byte(oldRefs))
}

// adopt copies the checkpoints of one place; the commits it gives are those there.
func (c *Checkpoints) adopt(ctx context.Context, from *place, prefix string) ([]Checkpoint, error) {
	format := "--format=%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(contents:subject)"
	out, err := from.run(ctx, call{args: []string{"for-each-ref", format, oldRefs}})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(c.root))
	mark := hex.EncodeToString(sum[:6])
	var list []Checkpoint
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 5 {
			continue
		}
		words := strings.Fields(f[4]) // ralph checkpoint TIME [MARK]
		if len(words) < 3 || len(words) > 3 && words[3] != mark {
			continue // none of ours, or of another root
		}
		nano, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			continue
		}
		list = append(list, Checkpoint{ID: strings.TrimPrefix(f[0], oldRefs), Commit: f[1], Tree: f[2], Head: f[3], Time: time.Unix(0, nano)})
	}
	list = slices.DeleteFunc(list, func(p Checkpoint) bool { return checkID(p.ID) != nil })
	if len(list) == 0 {
		return nil, nil
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	for i := range list {
		if prefix == "" {
			continue
		}
		out, err := from.run(ctx, call{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", list[i].Commit + ":" + strings.TrimSuffix(prefix, "/")}, allow: []int{1}})
		if err != nil {
			return nil, err
		}
		if list[i].Tree = strings.TrimSpace(string(out)); list[i].Tree == "" {
			if list[i].Tree, err = c.writeObject("tree", nil, c.hashLen()); err != nil {
				return nil, err
			}
		}
	}
	return list, c.copyTrees(ctx, from, list)
}

// copyTrees copies what the trees of checkpoints need, then writes their refs: one
// that is there is whole.
func (c *Checkpoints) copyTrees(ctx context.Context, from *place, list []Checkpoint) error {
	args := []string{"rev-list", "--objects", "--no-object-names"}
	for _, p := range list {
		if !slices.Contains(args, p.Tree) {
			args = append(args, p.Tree)
		}
	}
	env := []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(from.commonDir, "objects"))}
	oids, err := c.run(ctx, call{args: args, env: env})
	if err != nil {
		return err
	}
	pack := []string{"pack-objects", "-q", filepath.Join(c.gitDir, "objects", "pack", "pack")}
	if _, err := c.run(ctx, call{args: pack, stdin: oids, env: env}); err != nil {
		return err
	}
	for _, p := range list {
		if _, err := c.keep(p); err != nil {
			return err
		}
	}
	return nil
}
