package publish

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the format of git's index
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"ralph/workers/git"
)

const maxIndexBytes = 512 << 20

// statBytes is what an entry of the index begins with before mode and size:
// times, device and inode; the mode is at modeAt.
const (
	modeAt  = 24
	oidAt   = 40
	extFlag = 0x4000

	modeGitlink = 0o160000
)

// indexEntry is one path of an index.
type indexEntry struct {
	path  string
	mode  uint32
	oid   string // raw bytes
	flags uint16 // without the length of the name and the mark of extended flags
	more  uint16 // extended flags
	stat  [oidAt]byte
}

// hex returns the object id.
func (e indexEntry) hex() string { return hex.EncodeToString([]byte(e.oid)) }

// gitIndex is an index file without what can be computed again.
type gitIndex struct {
	entries []indexEntry
	sparse  bool // entries may be directories
}

func newHash(oidLen int) hash.Hash {
	if oidLen == sha256.Size {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // the format of git's index
}

var errIndex = errors.New("not an index as git writes it")

// parseIndex reads an index of any form of gitformat-index(5), and demands that each
// path and mode is one that git would add. read gives the content of a file beside
// it, where the other part of a split index is.
func parseIndex(b []byte, oidLen int, read func(name string) ([]byte, error)) (gitIndex, error) {
	x, split, err := parseIndexFile(b, oidLen)
	if err == nil && split != nil && !isNull(split.base) {
		var base gitIndex
		if base, err = split.readBase(oidLen, read); err == nil {
			x, err = split.merge(x, base)
		}
	}
	if err != nil {
		return x, err
	}
	return x, x.check()
}

// parseIndexFile reads one file; split is nil where it is all of the index.
func parseIndexFile(b []byte, oidLen int) (x gitIndex, split *splitIndex, err error) {
	if len(b) < 12+oidLen || string(b[:4]) != "DIRC" {
		return x, nil, errIndex
	}
	body, sum := b[:len(b)-oidLen], b[len(b)-oidLen:]
	h := newHash(oidLen)
	h.Write(body)
	if !bytes.Equal(h.Sum(nil), sum) && !isNull(string(sum)) {
		return x, nil, fmt.Errorf("%w: the checksum is wrong", errIndex)
	}
	version, n := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 || int64(n) > int64(len(b))/int64(oidAt+oidLen) {
		return x, nil, errIndex
	}
	rest := body[12:]
	last := ""
	for range n {
		e, size, err := parseEntry(rest, oidLen, version, last)
		if err != nil {
			return x, nil, err
		}
		last = e.path
		x.entries = append(x.entries, e)
		rest = rest[size:]
	}
	for len(rest) >= 8 {
		name, size := string(rest[:4]), binary.BigEndian.Uint32(rest[4:])
		if int64(size) > int64(len(rest)-8) {
			return x, nil, errIndex
		}
		content := rest[8 : 8+size]
		rest = rest[8+size:]
		switch {
		case name == "sdir":
			x.sparse = true
		case name == "link":
			if split, err = parseSplit(content, oidLen); err != nil {
				return x, nil, err
			}
		case name[0] < 'A' || name[0] > 'Z': // git cannot read the entries without it
			return x, nil, fmt.Errorf("%w: the extension %q is not supported", errIndex, name)
		}
	}
	return x, split, nil
}

// isNull reports whether a hash is the one that git writes for none.
func isNull(sum string) bool { return strings.Trim(sum, "\x00") == "" }

func parseEntry(b []byte, oidLen int, version uint32, last string) (e indexEntry, size int, err error) {
	head := oidAt + oidLen + 2
	if len(b) < head+1 {
		return e, 0, errIndex
	}
	copy(e.stat[:], b)
	e.mode = binary.BigEndian.Uint32(b[modeAt:])
	e.oid = string(b[oidAt : oidAt+oidLen])
	flags := binary.BigEndian.Uint16(b[oidAt+oidLen:])
	if flags&extFlag != 0 {
		if version < 3 || len(b) < head+3 {
			return e, 0, errIndex
		}
		e.more = binary.BigEndian.Uint16(b[head:])
		head += 2
	}
	e.flags = flags &^ 0x0fff &^ extFlag
	prefix := ""
	if version == 4 {
		cut, n := offset(b[head:])
		if n == 0 || cut > uint64(len(last)) {
			return e, 0, errIndex
		}
		prefix = last[:len(last)-int(cut)]
		head += n
	}
	end := bytes.IndexByte(b[head:], 0)
	if end < 0 {
		return e, 0, errIndex
	}
	e.path = prefix + string(b[head:head+end])
	size = head + end + 1
	if version < 4 {
		size = (head + end + 8) &^ 7
	}
	if size > len(b) {
		return e, 0, errIndex
	}
	return e, size, nil
}

// offset reads a number as git writes it in packs and indexes; n is 0 when there
// is none.
func offset(b []byte) (v uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		n++
		v |= uint64(c & 0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v = (v + 1) << 7
	}
	return 0, 0
}

func (e indexEntry) stage() uint16 { return e.flags >> 12 & 3 }

func ascending(a, b indexEntry) bool {
	if a.path != b.path {
		return a.path < b.path
	}
	return a.stage() < b.stage()
}

// check refuses entries that are out of order, and paths and modes that git does
// not add.
func (x gitIndex) check() error {
	for i, e := range x.entries {
		if i > 0 && !ascending(x.entries[i-1], e) {
			return fmt.Errorf("%w: %q is out of order", errIndex, e.path)
		}
		switch e.mode {
		case 0o100644, 0o100755, 0o120000, modeGitlink:
			if !git.GoodPath(e.path) {
				return fmt.Errorf("%w: path %q", errIndex, e.path)
			}
		case 0o40000:
			if !x.sparse || !git.GoodPath(strings.TrimSuffix(e.path, "/")) {
				return fmt.Errorf("%w: path %q", errIndex, e.path)
			}
		default:
			return fmt.Errorf("%w: mode %o of %q", errIndex, e.mode, e.path)
		}
	}
	return nil
}

// digest is equal for indexes that differ only in what git remembers of files to
// be quick.
func (x gitIndex) digest() string {
	h := sha256.New()
	for _, e := range x.entries {
		_, _ = fmt.Fprintf(h, "%s\x00%o %d %d %x\n", e.path, e.mode, e.flags, e.more, e.oid) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// encode writes the index anew, as version 2 or 3, with no extension but the one
// that git needs to read the entries.
func (x gitIndex) encode(oidLen int) []byte {
	version := uint32(2)
	if slices.ContainsFunc(x.entries, func(e indexEntry) bool { return e.more != 0 }) {
		version = 3
	}
	b := append([]byte("DIRC"), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[4:], version)
	binary.BigEndian.PutUint32(b[8:], uint32(len(x.entries)))
	for _, e := range x.entries {
		start := len(b)
		b = append(append(b, e.stat[:]...), e.oid...)
		flags := e.flags | uint16(min(len(e.path), 0xfff))
		if e.more != 0 {
			flags |= extFlag
		}
		b = binary.BigEndian.AppendUint16(b, flags)
		if e.more != 0 {
			b = binary.BigEndian.AppendUint16(b, e.more)
		}
		b = append(b, e.path...)
		size := (len(b) - start + 8) &^ 7
		b = append(b, make([]byte, size-(len(b)-start))...)
	}
	if x.sparse {
		b = append(b, 's', 'd', 'i', 'r', 0, 0, 0, 0)
	}
	h := newHash(oidLen)
	h.Write(b)
	return h.Sum(b)
}

// objects returns the ids of an index that another one does not have; the
// commits of submodules are not objects of this repository.
func (x gitIndex) objects(known gitIndex) []string {
	have := map[string]bool{}
	for _, e := range known.entries {
		have[e.oid] = true
	}
	var out []string
	for _, e := range x.entries {
		if e.mode != modeGitlink && !have[e.oid] {
			have[e.oid] = true
			out = append(out, e.hex())
		}
	}
	return out
}

// The flags of an entry that hide a change of its file from git status, by
// gitformat-index(5).
const (
	assumeValid  = 0x8000
	skipWorktree = 0x4000 // extended
)

// reveal clears the flags that hide files, but where the index at was has them.
func (x *gitIndex) reveal(was string, oidLen int) {
	hides := func(e indexEntry) bool { return e.flags&assumeValid != 0 || e.more&skipWorktree != 0 }
	if !slices.ContainsFunc(x.entries, hides) {
		return
	}
	before := map[string]indexEntry{}
	if old, err := readIndex(was, oidLen); err == nil { // else none of them was hidden
		for _, e := range old.entries {
			before[e.path] = e
		}
	}
	for i, e := range x.entries {
		b := before[e.path]
		x.entries[i].flags = e.flags&^assumeValid | e.flags&b.flags&assumeValid
		x.entries[i].more = e.more&^skipWorktree | e.more&b.more&skipWorktree
	}
}
