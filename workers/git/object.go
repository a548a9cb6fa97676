package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/regular"
)

// head is the commit of HEAD, "" when there is none yet, and the branch, "" when
// detached. The usual forms are read from the files; git is asked about others.
func (p *place) head(ctx context.Context) (commit, branch string, err error) {
	if p.within != nil {
		return p.headWithin(ctx)
	}
	ref, err := readSmall(filepath.Join(p.gitDir, "HEAD"))
	if err != nil {
		return "", "", fmt.Errorf("read HEAD of %q: %w", p.workTree, err)
	}
	ref = strings.TrimSpace(ref)
	if isHash(ref) {
		return ref, "", nil
	}
	name, ok := strings.CutPrefix(ref, "ref: ")
	name = strings.TrimSpace(name)
	if b, ok2 := strings.CutPrefix(name, "refs/heads/"); ok && ok2 && b != ".invalid" {
		if commit, ok := p.readRef(name); ok {
			return commit, b, nil
		}
		branch = b
	}
	// A branch without a commit, a link, or the reftable format.
	out, err := p.run(ctx, call{args: []string{"rev-parse", "-q", "--verify", "HEAD^{commit}"}, allow: []int{1}})
	if err != nil {
		return "", "", err
	}
	commit = strings.TrimSpace(string(out))
	if branch == "" {
		if out, err = p.run(ctx, call{args: []string{"symbolic-ref", "-q", "--short", "HEAD"}, allow: []int{1}}); err != nil {
			return "", "", err
		}
		branch = strings.TrimSpace(string(out))
	}
	return commit, branch, nil
}

// readRef reads a branch from its own file or from packed-refs.
func (p *place) readRef(name string) (string, bool) {
	if b, err := readSmall(filepath.Join(p.commonDir, filepath.FromSlash(name))); err == nil {
		b = strings.TrimSpace(b)
		return b, isHash(b)
	}
	f, err := regular.Open(filepath.Join(p.commonDir, "packed-refs"), 0)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if oid, ref, ok := strings.Cut(lines.Text(), " "); ok && ref == name {
			return oid, isHash(oid)
		}
	}
	return "", false
}

func isHash(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// writeCommit stores a commit; the hash function is told by the length of the
// tree's name.
func (p *place) writeCommit(tree string, body []byte) (string, error) {
	return p.writeObject("commit", body, len(tree))
}

// writeObject stores a loose object, which saves the start of a process. hashLen
// is the length of the repository's object names.
func (p *place) writeObject(kind string, body []byte, hashLen int) (string, error) {
	var sum hash.Hash = sha1.New()
	if hashLen == 64 {
		sum = sha256.New()
	}
	object := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	sum.Write(object) // a hash never fails
	name := hex.EncodeToString(sum.Sum(nil))
	dir := filepath.Join(p.commonDir, "objects", name[:2])
	path := filepath.Join(dir, name[2:])
	if _, err := os.Lstat(path); err == nil {
		return name, nil
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(object) // a buffer never fails
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("write object: %w", err)
	}
	if err := settle(dir, path, packed.Bytes()); err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	return name, nil
}

// settle puts a read-only file in place in one step.
func settle(dir, path string, data []byte) error {
	f, err := os.CreateTemp(dir, "tmp_obj_")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o444)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
	}
	return err
}
