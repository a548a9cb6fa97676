package session

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
)

// seal authenticates the records of one journal. Without a key it only detects
// damage.
type seal struct {
	key     identity.Key
	purpose string
}

// sealOf binds a journal to the name of its directory: that of the session, the run
// or the agent. A record of another one does not verify.
func sealOf(key identity.Key, path string) seal {
	return seal{key: key, purpose: "journal " + filepath.Base(filepath.Dir(path))}
}

const (
	macKey    = `,"mac":"`
	macLength = 64 // hex digits
)

// cutMAC takes the authentication code off the end of a body without its last brace.
// The payload, which is before it, cannot end in the same way: in a JSON string the
// quotes are escaped, and everything else ends without one.
func cutMAC(body []byte) (rest []byte, mac string) {
	at := len(body) - len(macKey) - macLength - len(`"`)
	if at < 1 || string(body[at:at+len(macKey)]) != macKey || body[len(body)-1] != '"' {
		return body, ""
	}
	return body[:at], string(body[at+len(macKey) : len(body)-1])
}

// Strange returns what in a state directory may hold words that a holder of key did
// not record: the directories of sessions, runs and agents whose journal does not
// begin with a record of theirs, and whatever is a link where a directory of Ralph's
// is. The paths are relative to the state directory. It reads one line a journal.
// Directories without a record are not strange: there is nothing to go on with.
func Strange(fsys afero.Fs, stateDir string, key identity.Key) ([]string, error) {
	var found []string
	var errs []error
	for _, room := range []string{"sessions", "runs"} {
		err := strangeIn(fsys, stateDir, room, key, &found)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return found, errors.Join(errs...)
}

// strangeIn looks at the directories in a room, and at those of their agents.
func strangeIn(fsys afero.Fs, stateDir, room string, key identity.Key, found *[]string) error {
	path := filepath.Join(stateDir, filepath.FromSlash(room))
	info, err := durable.Lstat(fsys, path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		*found = append(*found, room)
		return nil
	}
	names, err := afero.ReadDir(fsys, path)
	if err != nil {
		return fmt.Errorf("look at %q: %w", path, err)
	}
	for _, entry := range names {
		name := room + "/" + entry.Name()
		home := filepath.Join(path, entry.Name())
		if entry.Mode()&fs.ModeSymlink != 0 && room == "sessions" {
			home = Home(fsys, home, stateDir) // one that was made elsewhere, and says so
			if home == filepath.Join(path, entry.Name()) {
				*found = append(*found, name)
				continue
			}
		}
		info, err := durable.Lstat(fsys, home)
		if err != nil || !info.IsDir() || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "archive" || entry.Name() == "summaries" {
			continue
		}
		own, err := begunWith(fsys, filepath.Join(home, JournalFile), key)
		if err != nil {
			return err
		}
		if !own {
			*found = append(*found, name)
			continue
		}
		if !strings.HasSuffix(room, "/agents") {
			if err := strangeIn(fsys, stateDir, name+"/agents", key, found); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

var errEnough = errors.New("enough was read")

// begunWith reports whether the first record of a journal is one of key's.
func begunWith(fsys afero.Fs, path string, key identity.Key) (bool, error) {
	own, g := true, sealOf(key, path)
	err := durable.ReadLines(fsys, path, func(line []byte, _ bool) error {
		if _, whole := (seal{}).decode(line); !whole {
			return nil // damaged: it is no record for anybody
		}
		_, own = g.decode(line)
		return errEnough
	})
	switch {
	case errors.Is(err, durable.ErrSymlink), errors.Is(err, durable.ErrNotRegular):
		return false, nil
	case err != nil && !errors.Is(err, errEnough) && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	return own, nil
}

// Seal authenticates with key what the journals of a name below a state directory, one
// that Strange returned or a room, hold: a person took it over as text.
func Seal(fsys afero.Fs, stateDir, name string, key identity.Key) error {
	root := filepath.Join(stateDir, filepath.FromSlash(name))
	return afero.Walk(fsys, root, func(path string, info fs.FileInfo, err error) error {
		if err != nil || info.Name() != JournalFile || !info.Mode().IsRegular() {
			return err
		}
		g := sealOf(key, path)
		var text bytes.Buffer
		if err := durable.ReadLines(fsys, path, func(line []byte, _ bool) error {
			r, ok := seal{}.decode(line)
			var err error
			if ok { // what is no record stays as it is
				line, err = g.encode(r)
			}
			text.Write(line)
			text.WriteByte('\n')
			return err
		}); err != nil {
			return err
		}
		return durable.Replace(fsys, path, text.Bytes(), 0o600)
	})
}
