// Package identity binds the state of a project, its `.ralph/`, to the user who
// made it.
//
// A random id lies in `.ralph/id`. The user's own state directory has a record
// of it: the place, the file handle of `.ralph/`, and a secret key. Whatever
// arrives with a repository, an archive or a copy brings at most the id along,
// never the record, so that it is recognised as somebody else's.
//
// The package reads and writes these two files only. It decides nothing: the
// caller asks the user and moves foreign state away.
//
//	home := identity.Home(os.Getenv)
//	found, err := identity.Examine(fsys, home, "/work/shop/.ralph")
//	if found.Standing == identity.Own { … found.Record.Key … }
package identity

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// ErrNoHome is matched when the user has no state directory that can be used.
var ErrNoHome = errors.New("no state directory of the user is known")

// File is the name of the id below `.ralph/`.
const File = "id"

const (
	idBytes        = 16
	keyBytes       = 32
	maxRecordBytes = 64 << 10
	version        = 1
)

// ID names a project's state: 32 lower-case hexadecimal digits.
type ID string

// Valid reports whether id has the form of an id, so that it can be part of a
// path.
func (id ID) Valid() bool {
	return len(id) == 2*idBytes && strings.Trim(string(id), "0123456789abcdef") == ""
}

// Home returns the absolute path of the user's own state directory:
// $RALPH_STATE_DIR, else ralph below $XDG_STATE_HOME or ~/.local/state. It is
// empty when the environment names no absolute path.
func Home(getenv func(string) string) string {
	if dir := getenv("RALPH_STATE_DIR"); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ralph")
	}
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".local", "state", "ralph")
	}
	return ""
}

// Dir returns the directory for all that Ralph keeps of one project outside of
// it (checkpoints, caches, grants). It is empty when home is, or when id has not
// the form of an id.
func Dir(home string, id ID) string {
	if home == "" || !id.Valid() {
		return ""
	}
	return filepath.Join(home, "projects", string(id))
}

// Key authenticates what Ralph writes into a project's `.ralph/`. An empty key
// verifies nothing.
type Key []byte

// NewKey returns a random key.
func NewKey() Key {
	k := make(Key, keyBytes)
	_, _ = rand.Read(k) // never fails
	return k
}

// Sum returns the authentication code of data for one purpose, as 64
// hexadecimal digits. A code made for one purpose does not verify for another.
func (k Key) Sum(purpose string, data []byte) string {
	if len(k) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, k)
	fmt.Fprintf(h, "ralph %s %d\n", purpose, len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Verify reports whether sum is the code of data for a purpose.
func (k Key) Verify(purpose string, data []byte, sum string) bool {
	want := k.Sum(purpose, data)
	return want != "" && hmac.Equal([]byte(want), []byte(sum))
}

// Record is what the user's side knows of a project's state.
type Record struct {
	Version int    `json:"version"`
	ID      ID     `json:"id"`
	Path    string `json:"path"`             // of `.ralph/`, absolute, symbolic links resolved
	Handle  string `json:"handle,omitempty"` // of `.ralph/`; empty where the file system gives none
	Key     Key    `json:"key"`
}

// Standing says whose a project's state is.
type Standing string

// The standings. The zero value is none of them.
const (
	// Absent: there is no id, and no state that would need one.
	Absent Standing = "absent"
	// Own: the user's record names this directory at this place.
	Own Standing = "own"
	// Moved: the user's record names this directory, at a place that is gone.
	Moved Standing = "moved"
	// Copied: the user has a record of the id, for another directory or place.
	Copied Standing = "copied"
	// Foreign: the user has no record of it.
	Foreign Standing = "foreign"
	// Unknown: the user's records cannot be read, so that nothing can be said.
	Unknown Standing = "unknown"
)

// Found is what Examine found.
type Found struct {
	Standing Standing
	Record   Record   // of the id, when the user has one
	State    []string // what of `.ralph/` is state, relative to it, sorted
}

// Trusted reports whether the state may be worked with as it is.
func (f Found) Trusted() bool {
	return f.Standing == Absent || f.Standing == Own || f.Standing == Moved
}

// Examine says whose the state in stateDir, a project's `.ralph/`, is. It writes
// nothing. Without a home that can be read, outside of the project, nothing is known
// of state. A record that is damaged is an error, and the state then counts as
// foreign.
func Examine(fsys afero.Fs, home, stateDir string) (Found, error) {
	found := Found{Standing: Absent}
	var err error
	if found.State, err = List(fsys, stateDir); err != nil {
		return Found{Standing: Foreign}, fmt.Errorf("examine %q: %w", stateDir, err)
	}
	id, err := readID(fsys, stateDir)
	if err != nil {
		return Found{Standing: Foreign, State: found.State}, fmt.Errorf("examine %q: %w", stateDir, err)
	}
	if id == "" && len(found.State) == 0 {
		return found, nil
	}
	if home, err = outside(fsys, home, stateDir); err != nil {
		found.Standing = Unknown
		return found, err
	}
	found.Standing = Foreign
	record, err := load(fsys, home, id)
	switch {
	case errors.Is(err, errNoRecord):
		return found, err
	case err != nil:
		found.Standing = Unknown
		return found, err
	case record.ID == "":
		return found, nil
	}
	found.Record = record
	found.Standing, err = compare(fsys, record, stateDir)
	return found, err
}

// outside is Outside for the project of a state directory.
func outside(fsys afero.Fs, home, stateDir string) (string, error) {
	if home != "" && !durable.OnDisk(fsys) {
		return home, nil
	}
	return Outside(home, filepath.Dir(stateDir))
}

// compare tells a directory from the one that a record describes.
func compare(fsys afero.Fs, r Record, stateDir string) (Standing, error) {
	path, err := realPath(fsys, stateDir)
	if err != nil {
		return Foreign, err
	}
	handle := handleOf(fsys, path)
	if r.Path == path && (r.Handle == handle || r.Handle == "") {
		return Own, nil // without a handle on record the place alone counts
	}
	if r.Path == path || r.Handle != handle || handle == "" {
		return Copied, nil
	}
	if _, err := durable.Lstat(fsys, r.Path); !errors.Is(err, fs.ErrNotExist) {
		return Copied, nil // the recorded place still has something, or cannot be seen
	}
	return Moved, nil
}

// Establish makes the state in stateDir, which must exist, the user's own: a new
// id and key, and nothing on record but the place. Where the user's record of
// the present id is of this place, or of one that is gone, the id stays and with
// it what Dir holds under keep; all else in Dir is removed.
func Establish(fsys afero.Fs, home, stateDir string, keep ...string) (Record, error) {
	home, err := outside(fsys, home, stateDir)
	if err != nil {
		return Record{}, fmt.Errorf("record %q: %w", stateDir, err)
	}
	path, err := realPath(fsys, stateDir)
	if err != nil {
		return Record{}, fmt.Errorf("record %q: %w", stateDir, err)
	}
	r := Record{Version: version, ID: newID(), Path: path, Handle: handleOf(fsys, path), Key: NewKey()}
	if old, err := readID(fsys, stateDir); err == nil && old != "" {
		known, err := load(fsys, home, old)
		if err == nil && known.ID == old && vacated(fsys, known, path) {
			r.ID = old
			if err := prune(fsys, Dir(home, old), keep); err != nil {
				return Record{}, fmt.Errorf("record %q: %w", stateDir, err)
			}
		}
	}
	return r, r.save(fsys, home, stateDir)
}

// vacated reports whether nobody else can be using a record.
func vacated(fsys afero.Fs, r Record, path string) bool {
	if r.Path == path {
		return true
	}
	_, err := durable.Lstat(fsys, r.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// prune removes everything in dir but what keep names and the record itself,
// which is replaced later.
func prune(fsys afero.Fs, dir string, keep []string) error {
	names, err := afero.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := map[string]bool{recordFile: true}
	for _, name := range keep {
		kept[name] = true
	}
	for _, info := range names {
		if !kept[info.Name()] {
			if err := fsys.RemoveAll(filepath.Join(dir, info.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Follow puts on record that the state that r describes is in stateDir now, and
// returns the new record. The project's checkpoints move with it.
func Follow(fsys afero.Fs, home, stateDir string, r Record) (Record, error) {
	path, err := realPath(fsys, stateDir)
	if err != nil {
		return r, fmt.Errorf("record %q: %w", stateDir, err)
	}
	was, is := CheckpointDir(home, filepath.Dir(r.Path)), CheckpointDir(home, filepath.Dir(path))
	if _, err := durable.Lstat(fsys, is); was != "" && is != "" && errors.Is(err, fs.ErrNotExist) {
		if err := fsys.Rename(was, is); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, fmt.Errorf("move the checkpoints of %q: %w", path, err)
		}
	}
	r.Path, r.Handle = path, handleOf(fsys, path)
	return r, r.save(fsys, home, stateDir)
}

const recordFile = "project.json"

// save writes the record first: an id without a record is foreign, a record
// without an id is nothing.
func (r Record) save(fsys afero.Fs, home, stateDir string) error {
	if err := r.store(fsys, home); err != nil {
		return err
	}
	return durable.Replace(fsys, filepath.Join(stateDir, File), []byte(r.ID+"\n"), 0o600)
}

func (r Record) store(fsys afero.Fs, home string) error {
	dir := Dir(home, r.ID)
	if err := durable.MkdirAll(fsys, dir, 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record of %q: %w", r.Path, err)
	}
	return durable.Replace(fsys, filepath.Join(dir, recordFile), append(data, '\n'), 0o600)
}

// load reads the record of an id; none gives the zero value.
func load(fsys afero.Fs, home string, id ID) (Record, error) {
	dir := Dir(home, id)
	if dir == "" {
		return Record{}, nil
	}
	data, err := durable.ReadFile(fsys, filepath.Join(dir, recordFile), maxRecordBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.Version != version || r.ID != id || len(r.Key) != keyBytes || !filepath.IsAbs(r.Path) {
		return Record{}, fmt.Errorf("read the record of %q: %w of version %d", id, errNoRecord, version)
	}
	return r, nil
}

// errNoRecord is why a record that can be read is not believed.
var errNoRecord = errors.New("it is no record")

// readID reads the id of a project; empty when there is none, or none of the
// right form.
func readID(fsys afero.Fs, stateDir string) (ID, error) {
	data, err := durable.ReadFile(fsys, filepath.Join(stateDir, File), 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	id := ID(bytes.TrimSpace(data))
	if !id.Valid() {
		return "", nil
	}
	return id, nil
}

func newID() ID {
	b := make([]byte, idBytes)
	_, _ = rand.Read(b) // never fails
	return ID(hex.EncodeToString(b))
}

// realPath returns dir, which must be a directory and no link, with the links in
// its parents resolved.
func realPath(fsys afero.Fs, dir string) (string, error) {
	info, err := durable.Lstat(fsys, dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s: not a directory", dir)
	}
	if !durable.OnDisk(fsys) {
		return filepath.Clean(dir), nil
	}
	return filepath.EvalSymlinks(dir)
}

func handleOf(fsys afero.Fs, dir string) string {
	if !durable.OnDisk(fsys) {
		return ""
	}
	return fileHandle(dir)
}
