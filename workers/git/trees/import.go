package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/tempdir"
)

// maxImported bounds the object files of a clone that are looked at.
const maxImported = 500_000

// importCommits takes commits that an agent made over into a repository of the
// user: objects is where they are, below root, and all of it is unverified.
//
// No git runs in the agent's repository. Its object files, and nothing else of it,
// are linked into a repository of Ralph's, where git packs what the commits need
// besides have and the user's objects. The pack is verified as git fetch with
// fetch.fsckObjects does it, against the user's repository: each object is named
// anew by its content, checked, and may only refer to what is there. Then it is
// made sure that the history has no hole, and last the pack goes to the user's
// objects in one step. An error means that nothing was taken over.
func (t *Trees) importCommits(ctx context.Context, root *os.Root, objects string, to git.Location, commits, have []string) error {
	p := git.Open(t.proc, to).Raw().Plumbing()
	dir, mine, remove, err := t.scratch(to, len(commits[0]))
	defer remove()
	if err != nil {
		return err
	}
	if err := linkHostile(root, objects, filepath.Join(dir, "objects")); err != nil {
		return err
	}
	var revs strings.Builder
	for _, c := range commits {
		revs.WriteString(c + "\n")
	}
	for _, c := range have {
		revs.WriteString("^" + c + "\n")
	}
	out, _, err := mine.Run(ctx, git.Call{Args: []string{"pack-objects", "-q", "--revs", "--local", "--non-empty", "--window=0", filepath.Join(dir, "pack")}, Stdin: []byte(revs.String())})
	if err != nil {
		return fmt.Errorf("pack what the agent committed: %w", err)
	}
	name := strings.TrimSpace(string(out))
	if name != "" && !isHash(name) {
		return fmt.Errorf("pack what the agent committed: %.80q is no name", name)
	}
	quarantine := filepath.Join(dir, "quarantine")
	env := []string{"GIT_OBJECT_DIRECTORY=" + quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(to.CommonDir, "objects")}
	if err := os.MkdirAll(filepath.Join(quarantine, "pack"), 0o700); err != nil {
		return err
	}
	if name != "" {
		if name, err = verifyPack(ctx, p, filepath.Join(dir, "pack-"+name+".pack"), filepath.Join(quarantine, "pack")); err != nil {
			return err
		}
	}
	args := []string{"rev-list", "--objects", "--quiet"}
	for _, c := range commits {
		args = append(args, c+"^{commit}")
	}
	for _, c := range have {
		args = append(args, "^"+c)
	}
	if _, _, err := p.Run(ctx, git.Call{Args: append(args, "--"), Env: env}); err != nil {
		return fmt.Errorf("the history is not whole: %w", err)
	}
	if name == "" {
		return nil
	}
	return publishPack(filepath.Join(quarantine, "pack", name), filepath.Join(to.CommonDir, "objects", "pack", name))
}

// scratch makes a repository of Ralph's own that borrows the objects of another
// one. hashLen is the length of their names. The caller calls remove.
func (t *Trees) scratch(of git.Location, hashLen int) (dir string, p git.Plumbing, remove func(), err error) {
	dir = filepath.Join(t.private(), exec.TempName("import"))
	remove = func() { _ = tempdir.Clear(dir) } // what stays is swept by Finish
	config := "[core]\n\trepositoryformatversion = 0\n"
	if hashLen == 64 {
		config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	err = makeRepository(dir, "")
	for name, text := range map[string]string{"config": config, "objects/info/alternates": filepath.Join(of.CommonDir, "objects") + "\n"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o600)
		}
	}
	return dir, git.Open(t.proc, git.Location{Root: dir, GitDir: dir, CommonDir: dir}).Raw().Plumbing(), remove, err
}

// verifyPack verifies a pack against a repository, and moves it with an index into a
// directory of Ralph's. It returns their name there, without an ending.
func verifyPack(ctx context.Context, p git.Plumbing, pack, to string) (name string, err error) {
	idx := filepath.Join(to, "verified.idx")
	out, _, err := p.Run(ctx, git.Call{Args: []string{"index-pack", git.Strict, "-o", idx, pack}})
	if err != nil {
		return "", fmt.Errorf("what the agent committed does not verify: %w", err)
	}
	sum := strings.TrimSpace(string(out))
	if !isHash(sum) {
		return "", fmt.Errorf("git index-pack: %.80q is no name", sum)
	}
	name = "pack-" + sum
	return name, errors.Join(os.Rename(pack, filepath.Join(to, name+".pack")), os.Rename(idx, filepath.Join(to, name+".idx")))
}

// publishPack puts a pack that was verified among the objects of a repository. Git
// finds a pack by its index, which comes last.
func publishPack(from, to string) error {
	for _, end := range []string{".pack", ".idx"} {
		if err := os.Chmod(from+end, 0o444); err != nil {
			return err
		}
		if err := linkOrCopy(from+end, to+end); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(to))
}

// linkHostile links the object files below a directory that an agent wrote: loose
// objects and packs, regular files alone. Directories are opened below root, so no
// link in it leads out.
func linkHostile(root *os.Root, from, to string) error {
	count := 0
	link := func(sub string, fits func(name string) bool) error {
		d, err := root.OpenFile(filepath.FromSlash(from+"/"+sub), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil // there is none
		}
		defer func() { _ = d.Close() }() // it was only read
		names, err := d.Readdirnames(maxImported)
		if err != nil && len(names) == 0 {
			return nil
		}
		if count += len(names); count > maxImported {
			return fmt.Errorf("more than %d object files", maxImported)
		}
		if err := os.Mkdir(filepath.Join(to, sub), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, name := range names {
			if !fits(name) {
				continue
			}
			path := filepath.Join(to, sub, name)
			if err := unix.Linkat(int(d.Fd()), name, unix.AT_FDCWD, path, 0); err != nil {
				if errors.Is(err, unix.ENOENT) {
					continue
				}
				return &os.LinkError{Op: "link", Old: name, New: path, Err: err}
			}
			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i := range 256 {
		sub := fmt.Sprintf("%02x", i)
		if err := link(sub, func(name string) bool { return isHash(sub + name) }); err != nil {
			return err
		}
	}
	return link("pack", func(name string) bool {
		hash, ok := strings.CutPrefix(strings.TrimSuffix(strings.TrimSuffix(name, ".pack"), ".idx"), "pack-")
		return ok && isHash(hash) && filepath.Ext(name) != ""
	})
}
