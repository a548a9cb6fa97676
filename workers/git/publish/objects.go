package publish

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"ralph/workers/exec"
	"ralph/workers/git"
)

const (
	// unpackLimit is how many objects are stored one by one; more stay a pack, as
	// with git fetch.
	unpackLimit = 100
	// maxNegative bounds how many refs limit what is packed; more refs cost only
	// that objects are packed which the repository has.
	maxNegative = 5000
	// tmpObjects begins the name of a directory of objects that are not part of
	// the repository yet. git prune removes one that is left behind.
	tmpObjects = "tmp_objdir-ralph-"
)

// objectName are the files of an object directory that a command may add: loose
// objects and packs with their index. Graphs, bitmaps, multi-pack indexes,
// alternates and marks of promisors are never read.
var objectName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})|pack/pack-[0-9a-f]{40,64}\.(?:pack|idx))$`)
})

// intake takes objects of an upper layer over into a repository. Git reads them
// in git directories of Ralph's own, with Ralph's configuration: nothing that a
// command wrote is read but loose objects and packs.
type intake struct {
	proc   *exec.Runner
	dir    string // holds the git directories
	common string
	upper  string // the upper layer's objects
	fresh  bool   // the upper layer holds objects
	oidLen int
	// quarantine is an object directory in that of the repository, with what was
	// verified and is not part of it yet; "" before verify.
	quarantine string
}

// newIntake cleans the objects of an upper layer and makes the git directories.
func newIntake(p *exec.Runner, dir string, l layer) (*intake, error) {
	in := &intake{proc: p, dir: dir, common: l.lower, upper: filepath.Join(l.upper, "objects"), oidLen: hashLen(l.lower)}
	if l.look("objects") == directory {
		n, err := clear(in.upper, objectName().MatchString)
		if err != nil {
			return nil, fmt.Errorf("clean new objects: %w", err)
		}
		in.fresh = n > 0
	}
	objects := []string{filepath.Join(in.common, "objects")}
	if err := in.gitDir("verify", objects); err != nil {
		return nil, err
	}
	if in.fresh {
		// Of two objects with one name git reads that of the repository.
		objects = append(objects, in.upper)
	}
	return in, in.gitDir("walk", objects)
}

// gitDir makes a bare git directory that reads objects from elsewhere.
func (in *intake) gitDir(name string, objects []string) error {
	at := filepath.Join(in.dir, name)
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	for _, sub := range []string{"refs", "objects/info"} {
		if err := os.MkdirAll(filepath.Join(at, sub), 0o700); err != nil {
			return err
		}
	}
	text := "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tcommitGraph = false\n\tmultiPackIndex = false\n[pack]\n\tuseBitmaps = false\n[extensions]\n"
	if in.oidLen == 32 {
		text += "\tobjectFormat = sha256\n"
	}
	if partial().Match(config(in.common)) {
		text += "\tpartialClone = promisor\n[remote \"promisor\"]\n\tpromisor = true\n"
	}
	files := map[string]string{"HEAD": "ref: refs/heads/none\n", "config": text, "objects/info/alternates": strings.Join(objects, "\n") + "\n"}
	if border, err := readFile(filepath.Join(in.common, "shallow"), 16<<20); err == nil {
		files["shallow"] = string(border)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (in *intake) run(ctx context.Context, gitDir string, c git.Call) ([]byte, error) {
	at := filepath.Join(in.dir, gitDir)
	out, _, err := git.Open(in.proc, git.Location{Root: at, GitDir: at, CommonDir: at}).Plumbing().Run(ctx, c)
	return out, err
}

// types returns the type of each object that is there; of what is missing there
// is none.
func (in *intake) types(ctx context.Context, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := in.run(ctx, "walk", git.Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, Stdin: lines(ids)})
	if err != nil {
		return nil, fmt.Errorf("look for objects: %w", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, kind, ok := strings.Cut(strings.TrimSpace(line), " "); ok && isHex(id) && kind != "missing" {
			found[id] = kind
		}
	}
	return found, nil
}

// verify copies what is reachable from wanted and not from known into a
// quarantine, has git check the content, name and links of every object, and
// then that nothing is missing from what is wanted. Where all are known and there
// are no new objects no process runs.
func (in *intake) verify(ctx context.Context, wanted, known []string) error {
	if len(wanted) == 0 {
		return nil
	}
	if in.fresh {
		if err := in.pack(ctx, wanted, known); err != nil {
			return err
		}
	}
	args := []string{"rev-list", "--objects", "--quiet", "--stdin"}
	if partial().Match(config(in.common)) {
		args = append(args, "--exclude-promisor-objects")
	}
	if _, err := in.run(ctx, "verify", git.Call{Args: args, Stdin: revisions(wanted, in.known(known)), Env: in.env()}); err != nil {
		return fmt.Errorf("objects are missing or damaged: %w", err)
	}
	return nil
}

// entries has verify check the files of an index that git reads by their names, as
// if they were committed: it returns trees with one of them each, which known does
// not have.
func (in *intake) entries(x, known gitIndex) (trees []string, err error) {
	have := map[string]bool{}
	for _, e := range known.entries {
		have[e.path+e.oid] = true
	}
	at := filepath.Join(in.dir, "walk")
	walk := git.Open(in.proc, git.Location{Root: at, GitDir: at, CommonDir: at}).Plumbing()
	for _, e := range x.entries {
		if e.mode == modeGitlink || have[e.path+e.oid] || !git.ReadByGit(e.path) {
			continue
		}
		id, err := walk.WriteObject("tree", fmt.Sprintf("%o %s\x00%s", e.mode, path.Base(e.path), e.oid), 2*in.oidLen)
		if err != nil {
			return nil, err
		}
		trees, in.fresh = append(trees, id), true
	}
	return trees, nil
}

func (in *intake) known(ids []string) []string { return ids[:min(len(ids), maxNegative)] }

// env makes the quarantine the object directory of the verifying git.
func (in *intake) env() []string {
	if in.quarantine == "" {
		return nil
	}
	return []string{"GIT_OBJECT_DIRECTORY=" + in.quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(in.common, "objects")}
}

func (in *intake) pack(ctx context.Context, wanted, known []string) error {
	args := []string{"pack-objects", "--revs", "-q", "--delta-base-offset"}
	if partial().Match(config(in.common)) {
		args = append(args, "--exclude-promisor-objects", "--missing=allow-promisor")
	}
	base := filepath.Join(in.dir, "walk", "objects", "new")
	out, err := in.run(ctx, "walk", git.Call{Args: append(args, base), Stdin: revisions(wanted, in.known(known))})
	if err != nil {
		return fmt.Errorf("objects are missing or damaged: %w", err)
	}
	name := strings.TrimSpace(string(out))
	if name == "" {
		return nil // all of it was there
	}
	if !isHex(name) {
		return fmt.Errorf("pack new objects: unexpected answer %q", printable(name))
	}
	packed := base + "-" + name + ".pack"
	n, err := packCount(packed)
	if err != nil {
		return fmt.Errorf("pack new objects: %w", err)
	}
	if in.quarantine == "" {
		in.quarantine = filepath.Join(in.common, "objects", tmpObjects+filepath.Base(in.dir))
		if err := errors.Join(os.RemoveAll(in.quarantine), os.Mkdir(in.quarantine, 0o700)); err != nil {
			return fmt.Errorf("verify new objects: %w", err)
		}
	}
	if n <= unpackLimit {
		if data, err := readFile(packed, 8<<20); err == nil {
			_, err = in.run(ctx, "verify", git.Call{Args: []string{"unpack-objects", "-q", git.Strict}, Stdin: data, Env: in.env()})
			return verified(err)
		}
	}
	to := filepath.Join(in.quarantine, "pack")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("verify new objects: %w", err)
	}
	if err := move(packed, filepath.Join(to, "pack-"+name+".pack")); err != nil {
		return fmt.Errorf("verify new objects: %w", err)
	}
	// The index that the packing git wrote holds the names that the command gave.
	_, err = in.run(ctx, "verify", git.Call{Args: []string{"index-pack", git.Strict, filepath.Join(to, "pack-"+name+".pack")}, Env: in.env()})
	return verified(err)
}

func verified(err error) error {
	if err != nil {
		return fmt.Errorf("objects do not verify: %w", err)
	}
	return nil
}

// packCount reads how many objects a pack holds.
func packCount(path string) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	var head [12]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(head[8:]), nil
}

// move renames a file, or copies it to another file system.
func move(from, to string) error {
	if os.Rename(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// admit makes what was verified part of the object directory: loose objects,
// then packs, each before its index.
func (in *intake) admit(to string) error {
	if in.quarantine == "" {
		return nil
	}
	for _, last := range []func(string) bool{
		func(p string) bool { return !strings.HasPrefix(p, "pack/") },
		func(p string) bool { return strings.HasPrefix(p, "pack/") && !strings.HasSuffix(p, ".idx") },
		func(p string) bool { return strings.HasSuffix(p, ".idx") },
	} {
		err := filepath.WalkDir(in.quarantine, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, _ := filepath.Rel(in.quarantine, path) // path is below it
			if !last(filepath.ToSlash(rel)) {
				return nil
			}
			at := filepath.Join(to, rel)
			if exists(at) {
				return nil // the same content: git names files by it
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			return os.Rename(path, at)
		})
		if err != nil {
			return fmt.Errorf("take over new objects: %w", err)
		}
	}
	return in.drop()
}

// drop removes the quarantine.
func (in *intake) drop() error {
	if in.quarantine == "" {
		return nil
	}
	at := in.quarantine
	in.quarantine = ""
	return os.RemoveAll(at)
}

func lines(list []string) []byte { return []byte(strings.Join(list, "\n") + "\n") }

// revisions is what git reads of wanted and known objects.
func revisions(wanted, known []string) []byte {
	var b bytes.Buffer
	for _, id := range wanted {
		b.WriteString(id + "\n")
	}
	for _, id := range known {
		b.WriteString("^" + id + "\n")
	}
	return b.Bytes()
}
