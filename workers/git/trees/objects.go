package trees

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ralph/workers/exec"
	"ralph/workers/tempdir"
)

// snapshotPrefix begins the names of the directories in home that hold hard links
// to the user's objects. A snapshot is itself a repository (".git" in it), which
// git clean without a second -f leaves alone.
const snapshotPrefix = ".objects-"

// maxSyncs bounds how often the user's git may repack while a snapshot is taken.
const maxSyncs = 20

// settledAfter is how old the time of a directory has to be to prove that nothing
// was added since: the clocks of file systems go in steps.
const settledAfter = 100 * time.Millisecond

func (t *Trees) snapshotDir(name string) string { return filepath.Join(t.home(), name, ".git") }

// snapshots lists the snapshots, the newest first.
func (t *Trees) snapshots() []string {
	entries, err := os.ReadDir(t.home())
	if err != nil {
		return nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || !strings.HasPrefix(e.Name(), snapshotPrefix) })
	at := func(e fs.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return at(b).Compare(at(a)) })
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// takeSnapshot gives the name of a snapshot that has all objects of the user's
// repository: the newest one as long as the user's git has not repacked since, or
// a new one. The caller holds the lock.
func (t *Trees) takeSnapshot(ctx context.Context) (string, error) {
	packs, err := packsIn(filepath.Join(t.loc.CommonDir, "objects", "pack"))
	if err != nil {
		return "", err
	}
	for _, name := range t.snapshots() {
		have, err := packsIn(filepath.Join(t.snapshotDir(name), "objects", "pack"))
		if err == nil && slices.Equal(have, packs) {
			return name, t.syncSnapshot(ctx, name)
		}
	}
	temp := filepath.Join(t.private(), exec.TempName("objects"))
	if err := makeRepository(filepath.Join(temp, ".git"), ""); err != nil {
		return "", errors.Join(err, tempdir.Clear(temp))
	}
	name := snapshotPrefix + rand.Text()[:12]
	if err := os.Rename(temp, filepath.Join(t.home(), name)); err != nil {
		return "", errors.Join(err, tempdir.Clear(temp))
	}
	return name, t.syncSnapshot(ctx, name)
}

// makeRepository makes the directories and the HEAD by which git knows a
// repository; format is its configuration.
func makeRepository(dir, format string) error {
	for _, sub := range []string{"objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "config"), []byte("[core]\n\trepositoryformatversion = 0\n\tbare = false\n"+format), 0o644))
}

// syncSnapshot adds to a snapshot the objects that the user's repository and its
// submodules have and it has not. Nothing is taken out of it: agents may need what
// the user's git has dropped.
func (t *Trees) syncSnapshot(ctx context.Context, name string) error {
	if err := t.linkObjects(ctx, t.loc.CommonDir, t.snapshotDir(name)); err != nil {
		return fmt.Errorf("snapshot of the objects: %w", err)
	}
	for _, m := range t.modules() {
		to := filepath.Join(t.snapshotDir(name), "modules", m)
		if _, err := os.Lstat(filepath.Join(to, "HEAD")); err != nil {
			if err := makeRepository(to, ""); err != nil {
				return fmt.Errorf("snapshot of submodule %q: %w", m, err)
			}
		}
		if err := t.linkObjects(ctx, filepath.Join(t.loc.CommonDir, "modules", m), to); err != nil {
			return fmt.Errorf("snapshot of submodule %q: %w", m, err)
		}
	}
	return nil
}

// modules lists the repositories of initialised submodules, relative to the
// directory modules of the user's repository; those of submodules of submodules
// are below theirs.
func (t *Trees) modules() []string {
	var list []string
	root := filepath.Join(t.loc.CommonDir, "modules")
	if _, err := os.Lstat(root); err != nil {
		return nil
	}
	// What cannot be read is no submodule that an agent could use.
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		rel, rerr := filepath.Rel(root, p)
		if rerr != nil {
			return rerr
		}
		parent := filepath.Dir(p)
		if _, err := os.Lstat(filepath.Join(parent, "HEAD")); err == nil && parent != root && d.Name() != "modules" {
			return filepath.SkipDir // objects, refs, logs of a submodule
		}
		if _, err := os.Lstat(filepath.Join(p, "HEAD")); err == nil && rel != "." {
			list = append(list, rel)
		}
		return nil
	})
	return list
}

// linkObjects hard-links the objects of one repository into another: loose ones
// first, then packs, until the list of packs stays the same, so that what the
// user's git packs meanwhile is found in one place or the other.
func (t *Trees) linkObjects(ctx context.Context, from, to string) error {
	from, to = filepath.Join(from, "objects"), filepath.Join(to, "objects")
	if err := carryAlternates(from, to); err != nil {
		return err
	}
	for range maxSyncs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		again, err := t.linkLoose(from, to)
		if err != nil {
			return err
		}
		packs, err := packsIn(filepath.Join(from, "pack"))
		if err != nil {
			return err
		}
		for _, p := range packs {
			for _, ext := range []string{".promisor", ".pack", ".rev", ".idx"} {
				err := linkOrCopy(filepath.Join(from, "pack", p+ext), filepath.Join(to, "pack", p+ext))
				gone := errors.Is(err, fs.ErrNotExist)
				if err != nil && !gone {
					return err
				}
				again = again || gone && ext != ".promisor" && ext != ".rev"
			}
		}
		now, err := packsIn(filepath.Join(from, "pack"))
		if err != nil {
			return err
		}
		if !again && slices.Equal(packs, now) {
			return nil
		}
	}
	return errors.New("the user's git repacks all the time")
}

// linkLoose links the loose objects. again says that one went away meanwhile.
func (t *Trees) linkLoose(from, to string) (again bool, err error) {
	for i := range 256 {
		sub := fmt.Sprintf("%02x", i)
		source := filepath.Join(from, sub)
		info, err := os.Lstat(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !info.IsDir() {
			return again, errors.Join(err, notDir(source, err))
		}
		key := filepath.Join(to, sub)
		if last, ok := t.synced.Load(key); ok && last.(time.Time).Equal(info.ModTime()) {
			continue
		}
		began := time.Now()
		entries, err := os.ReadDir(source)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return again, err
		}
		if err := os.Mkdir(key, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return again, err
		}
		have := map[string]bool{}
		if there, err := os.ReadDir(key); err == nil {
			for _, e := range there {
				have[e.Name()] = true
			}
		}
		for _, e := range entries {
			if !isHash(sub+e.Name()) || !e.Type().IsRegular() || have[e.Name()] {
				continue
			}
			switch err := linkOrCopy(filepath.Join(source, e.Name()), filepath.Join(key, e.Name())); {
			case errors.Is(err, fs.ErrNotExist):
				again = true
			case err != nil:
				return again, err
			}
		}
		if began.Sub(info.ModTime()) > settledAfter {
			t.synced.Store(key, info.ModTime())
		}
	}
	return again, nil
}

func notDir(path string, err error) error {
	if err != nil {
		return nil
	}
	return fmt.Errorf("%q is not a directory", path)
}

// packsIn lists the packs of a directory by their names without an ending, sorted.
func packsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".idx")
		if ok && strings.HasPrefix(name, "pack-") && e.Type().IsRegular() {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, nil
}

// carryAlternates names in a snapshot what the user's repository borrows objects
// from, by absolute paths.
func carryAlternates(from, to string) error {
	text, ok := readSmall(filepath.Join(from, "info", "alternates"))
	if !ok || text == "" {
		return nil
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(from, line)
		}
		b.WriteString(line + "\n")
	}
	return write(filepath.Join(to, "info", "alternates"), b.String())
}

// linkOrCopy makes to the same file as from, or a copy of it where the file system
// has no such links, where from lies on another one, or belongs to somebody else.
// What is there already stays.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, syscall.EXDEV), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EMLINK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return copyFile(from, to)
	}
	return err
}

// copyFile copies a file in one step that can be seen.
func copyFile(from, to string) error {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	temp := filepath.Join(filepath.Dir(to), exec.TempName("copy"))
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, to)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
	}
	return err
}

// sweepSnapshots removes the snapshots that no clone uses. The caller holds the
// lock, so that no clone is being made.
func (t *Trees) sweepSnapshots() error {
	list := t.snapshots()
	if len(list) == 0 {
		return nil
	}
	entries, err := os.ReadDir(t.home())
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			used[t.snapshotOf(e.Name())] = true
		}
	}
	var errs []error
	for _, name := range list {
		if used[name] {
			continue
		}
		errs = append(errs, tempdir.Clear(filepath.Join(t.home(), name)))
		t.synced.Range(func(key, _ any) bool {
			if strings.HasPrefix(key.(string), t.snapshotDir(name)+string(filepath.Separator)) {
				t.synced.Delete(key)
			}
			return true
		})
	}
	return errors.Join(errs...)
}
