package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/workers/git"
)

const (
	droppedRefs = "refs/ralph/dropped/"
	// maxDropped bounds how many commits that nothing holds any more are kept.
	maxDropped = 200
	// maxTextBytes bounds what is read of a ref, a reflog or packed-refs.
	maxTextBytes = 256 << 20
)

var (
	objectID   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b`) })
	packedLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:# .*|\^(?:[0-9a-f]{40}|[0-9a-f]{64})|(?:[0-9a-f]{40}|[0-9a-f]{64}) refs/\S+)$`)
	})
	// refText matches what git writes to HEAD and to the file of a ref.
	refText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:ref: refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\n?$`)
	})
)

// mend compares the repository with the copy, puts back what was destroyed, and takes
// the rest over into the copy.
func (b *Backup) mend(ctx context.Context) ([]string, error) {
	if err := unlock(b.o.Dir); err != nil {
		return nil, err
	}
	b.load()
	dir := b.o.Git.CommonDir
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Rename(dir, aside(dir)); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	now, err := b.look(true)
	if err != nil || maps.Equal(now, b.files) {
		return nil, err
	}
	if err := unlockAll(b.o.Dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // nothing is written through it
	m := mending{b: b, root: root, repo: git.Open(b.o.Proc, b.o.Git).Raw().Plumbing(), now: now}
	if err = m.run(ctx); err == nil {
		err = b.update()
	}
	return m.told, err
}

// mending is one comparison of a repository with its copy.
type mending struct {
	b    *Backup
	root *os.Root // the git directory
	repo git.Plumbing
	now  map[string]stamp
	told []string
}

func (m *mending) say(format string, args ...any) {
	m.told = append(m.told, fmt.Sprintf(format, args...))
}

func (m *mending) run(ctx context.Context) error {
	before, err := m.before()
	if err != nil {
		return err
	}
	if err := m.shape(before); err != nil {
		return err
	}
	if lost := m.lost(); len(lost) > 0 && !m.whole(ctx, before.ids) {
		if err := m.putBack(lost); err != nil {
			return err
		}
		m.say("the command destroyed %d files with objects of the git repository: they were put back", len(lost))
	}
	if err := m.readable(ctx, before); err != nil {
		return err
	}
	return m.hold(ctx, before)
}

// shape puts back what keeps git from reading the repository at all: links and the like
// that were not there before, names that have another type, and what is no HEAD, ref or
// index.
func (m *mending) shape(before history) error {
	for name, s := range m.now {
		if !s.Mode.IsRegular() && m.b.files[name].Mode.Type() != s.Mode.Type() {
			if err := m.root.Remove(name); err != nil {
				return err
			}
			delete(m.now, name)
			m.say("%s in the git repository was no file and was removed", name)
		}
	}
	var bad, missing []string
	gone := m.gone()
	for name, was := range m.b.files {
		if _, there := m.now[name]; there || !was.Mode.IsRegular() {
			continue
		}
		if _, err := m.root.Lstat(name); err == nil {
			bad = append(bad, name)
		} else if gone {
			missing = append(missing, name)
		}
	}
	if gone {
		if err := m.putBack(missing); err != nil {
			return err
		}
		m.say("the command left no git repository: %d files were put back", len(missing))
	}
	head := ""
	for name, s := range m.now {
		if !s.Mode.IsRegular() || !isRef(name) && name != "index" {
			continue
		}
		text, err := readText(filepath.Join(m.b.o.Git.CommonDir, name))
		if err != nil || !wellFormed(name, text) {
			bad = append(bad, name)
		}
		if name == "HEAD" {
			head = strings.TrimSpace(strings.TrimPrefix(text, "ref: "))
		}
	}
	refs := refsOf(m.b.o.Git.CommonDir, m.now)
	if before.refs[head] != "" && refs[head] == "" && m.b.files["HEAD"] == m.now["HEAD"] {
		bad = append(bad, head) // git deletes no branch that is checked out
	}
	return m.asBefore(bad, "had another form than git gives it")
}

// wellFormed reports whether a text may be that of HEAD, a ref, packed-refs or an index.
func wellFormed(name, text string) bool {
	switch name {
	case "index":
		return strings.HasPrefix(text, "DIRC")
	case "packed-refs":
		return strings.HasSuffix(text, "\n") && !slices.ContainsFunc(strings.Split(strings.TrimSuffix(text, "\n"), "\n"), func(line string) bool { return !packedLine().MatchString(line) })
	}
	return refText().MatchString(text)
}

// asBefore puts back names from the copy, and removes those that are not in it.
func (m *mending) asBefore(names []string, why string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		var err error
		if _, copied := m.b.files[name]; copied {
			err = m.putBack([]string{name})
		} else {
			err = m.root.RemoveAll(name)
		}
		if err != nil {
			return err
		}
	}
	if len(names) > 0 {
		m.say("%s in the git repository %s: as before the command now", listed(names), why)
	}
	return nil
}

// listed names the first few.
func listed(names []string) string {
	const most = 6
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// gone reports whether git does not see a repository any more.
func (m *mending) gone() bool {
	for _, name := range []string{"objects", "refs", "refs/heads"} {
		if info, err := m.root.Lstat(name); err != nil || !info.IsDir() {
			return true
		}
	}
	info, err := m.root.Lstat("HEAD")
	return err != nil || !info.Mode().IsRegular()
}

// lost lists the files with objects that are missing or have another content.
func (m *mending) lost() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(m.b.files)) {
		if isObject(name) && m.now[name] != m.b.files[name] && !m.unchanged(name) {
			list = append(list, name)
		}
	}
	return list
}

// unchanged reports whether a file has the content of its copy; git sets the time of
// files with objects that it would write again.
func (m *mending) unchanged(name string) bool {
	now, info, err := openFile(filepath.Join(m.b.o.Git.CommonDir, name))
	if err != nil {
		return false
	}
	defer func() { _ = now.Close() }() // only read
	if info.Size() != m.b.files[name].Size {
		return false
	}
	was, err := os.Open(filepath.Join(m.b.copies(), name))
	if err != nil {
		return true // there is nothing to put back
	}
	defer func() { _ = was.Close() }() // only read
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errNow := io.ReadFull(now, x)
		k, errWas := io.ReadFull(was, y)
		if !bytes.Equal(x[:n], y[:k]) {
			return false
		}
		if errNow != nil || errWas != nil {
			return errors.Is(errNow, errWas)
		}
	}
}

// whole reports whether git finds everything that the refs, the reflogs and the index
// name, and still has the objects that they named before.
func (m *mending) whole(ctx context.Context, ids []string) bool {
	if _, _, err := m.git(ctx, nil, "fsck", "--connectivity-only", "--no-dangling", "--no-progress"); err != nil {
		return false
	}
	missing, err := m.missing(ctx, ids)
	return err == nil && len(missing) == 0
}

// missing returns which of the objects the repository does not have.
func (m *mending) missing(ctx context.Context, ids []string) (map[string]bool, error) {
	list := map[string]bool{}
	if len(ids) == 0 {
		return list, nil
	}
	out, _, err := m.git(ctx, []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	for line := range strings.Lines(string(out)) {
		if id, found := strings.CutSuffix(strings.TrimSpace(line), " missing"); found {
			list[id] = true
		}
	}
	return list, err
}

func (m *mending) git(ctx context.Context, stdin []byte, args ...string) ([]byte, int, error) {
	return m.repo.Run(ctx, git.Call{Args: args, Stdin: stdin, Env: []string{"GIT_NO_LAZY_FETCH=1"}})
}

// readable puts back refs and an index that git cannot use, and reflogs that are gone.
func (m *mending) readable(ctx context.Context, before history) error {
	dir := m.b.o.Git.CommonDir
	now, err := m.b.look(true)
	if err != nil {
		return err
	}
	named := map[string][]string{}
	var ids []string
	for name, s := range now {
		if s.Mode.IsRegular() && isRef(name) {
			text, err := readText(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			named[name] = objectID().FindAllString(text, -1)
			ids = append(ids, named[name]...)
		}
	}
	missing, err := m.missing(ctx, ids)
	if err != nil {
		return err
	}
	var bad []string
	for name, list := range named {
		if slices.ContainsFunc(list, func(id string) bool { return missing[id] }) {
			bad = append(bad, name)
		}
	}
	refs := refsOf(dir, now)
	for name := range before.logs {
		_, there := now[name]
		if ref := strings.TrimPrefix(name, "logs/"); !there && m.b.files[name].Size > 0 && (refs[ref] != "" || ref == "HEAD") {
			bad = append(bad, name)
		}
	}
	if _, _, err := m.git(ctx, nil, "ls-files", "-z"); err != nil {
		bad = append(bad, "index")
	}
	return m.asBefore(bad, "could not be used by git")
}

// hold makes refs for commits that were named before and that no ref holds any more.
func (m *mending) hold(ctx context.Context, before history) error {
	out, _, err := m.git(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return err
	}
	now := map[string]string{}
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		now[name] = id
	}
	var input strings.Builder
	place := droppedRefs + time.Now().UTC().Format("20060102T150405.000000") + "/"
	seen := map[string]bool{}
	keep := func(name, id string) error {
		if seen[id] || len(seen) >= maxDropped || strings.Trim(id, "0") == "" {
			return nil
		}
		out, _, err := m.git(ctx, nil, "rev-list", "-1", "--ignore-missing", id, "--not", "--all")
		if err == nil && strings.TrimSpace(string(out)) != "" {
			seen[id] = true
			fmt.Fprintf(&input, "create %s%s %s\n", place, name, id)
		}
		return err
	}
	short := func(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, "refs/"), "heads/") }
	for _, name := range slices.Sorted(maps.Keys(before.refs)) {
		id := before.refs[name]
		_, err := m.root.Lstat("logs/" + name)
		if now[name] == id || strings.HasPrefix(name, "refs/remotes/") || now[name] != "" && name != "refs/stash" && err == nil {
			continue // a reflog holds what a ref was
		}
		if err := keep(short(name), id); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.logs)) {
		text, err := readText(filepath.Join(m.b.o.Git.CommonDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for i, id := range before.logs[name] {
			if strings.Contains(text, id) {
				continue
			}
			if err := keep(fmt.Sprintf("%s.%d", short(strings.TrimPrefix(name, "logs/")), i), id); err != nil {
				return err
			}
		}
	}
	if input.Len() == 0 {
		return nil
	}
	if _, _, err := m.git(ctx, []byte(input.String()), "update-ref", "--stdin"); err != nil {
		return err
	}
	m.say("history that no branch or tag holds any more is kept below %s; `git update-ref -d` removes it for good", place)
	return nil
}

// putBack writes files of the copy to the repository.
func (m *mending) putBack(names []string) error {
	for _, name := range names {
		if err := m.makeDirs(path.Dir(name)); err != nil {
			return err
		}
		from, err := os.Open(filepath.Join(m.b.copies(), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the state directory was cleared
		}
		if err == nil {
			err = m.write(name, from)
			err = errors.Join(err, from.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *mending) write(name string, from io.Reader) error {
	if info, err := m.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		if err := m.root.Rename(name, aside(name)); err != nil {
			return err
		}
	}
	temp := aside(name)
	f, err := m.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, m.b.files[name].Mode|0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err == nil {
		err = m.root.Rename(temp, name)
	}
	return err
}

// makeDirs makes a directory of the repository. What is in the way is renamed.
func (m *mending) makeDirs(dir string) error {
	if dir == "." {
		return nil
	}
	if err := m.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	info, err := m.root.Lstat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = m.root.Rename(dir, aside(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return m.root.Mkdir(dir, 0o755)
}

// aside names what is moved out of the way of name, and what becomes name.
func aside(name string) string {
	return path.Join(path.Dir(name), ".ralph-aside-"+rand.Text())
}
