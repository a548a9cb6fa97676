package feature

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// The authentication code is the last line of a snapshot. Snapshots of one feature do
// not verify as those of another.
const (
	macBegin  = ",\n  \"mac\": \""
	macEnd    = "\"\n}\n"
	macLength = 64 // hex digits
)

// signed adds the authentication code to a snapshot as lines writes it.
func (o Options) signed(name string, data []byte) []byte {
	body, whole := bytes.CutSuffix(data, []byte("\n}\n"))
	if len(o.Key) == 0 || !whole {
		return data
	}
	return append(body, macBegin+o.Key.Sum("feature "+name, data)+macEnd...)
}

// unsigned takes the authentication code off a snapshot.
func unsigned(data []byte) (text []byte, mac string) {
	at := len(data) - len(macBegin) - macLength - len(macEnd)
	if at < 0 || !bytes.HasPrefix(data[at:], []byte(macBegin)) || !bytes.HasSuffix(data, []byte(macEnd)) {
		return data, ""
	}
	return append(bytes.Clone(data[:at]), "\n}\n"...), string(data[at+len(macBegin) : len(data)-len(macEnd)])
}

// written reports whether a holder of the key wrote a snapshot; without a key all are
// taken as they are.
func (o Options) written(name string, data []byte) bool {
	text, mac := unsigned(data)
	return len(o.Key) == 0 || o.Key.Verify("feature "+name, text, mac)
}

// Strange returns the snapshots, relative to the state directory, that no holder of
// o.Key wrote. Files of other tools, which are never gone on with, are none of them.
func Strange(o Options) ([]string, error) {
	o = o.withDefaults()
	names, err := afero.ReadDir(o.FS, o.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the snapshots: %w", err)
	}
	var found []string
	for _, entry := range names {
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok || entry.IsDir() {
			continue
		}
		data, err := durable.ReadFile(o.FS, o.path(name), maxBytes)
		switch {
		case errors.Is(err, durable.ErrSymlink), errors.Is(err, durable.ErrNotRegular):
			found = append(found, "sessions/"+entry.Name())
			continue
		case err != nil && !errors.Is(err, durable.ErrTooLarge):
			return found, err
		}
		if _, err := parse(data); err == nil && !o.written(name, data) {
			found = append(found, "sessions/"+entry.Name())
		}
	}
	return found, nil
}

// Seal authenticates the snapshot of a file below the state directory, or all of them
// for "sessions": a person took it over as text.
func Seal(o Options, file string) error {
	o = o.withDefaults()
	all, err := Strange(o)
	for _, name := range all {
		if err != nil || file != "sessions" && file != name {
			continue
		}
		path := filepath.Join(o.StateDir, filepath.FromSlash(name))
		data, rerr := durable.ReadFile(o.FS, path, maxBytes)
		if rerr != nil {
			continue // a link is never gone on with
		}
		text, _ := unsigned(data)
		text = append(bytes.TrimRight(text, " \t\r\n"), '\n')
		if !bytes.HasSuffix(text, []byte("\n}\n")) {
			text = append(bytes.TrimSuffix(text, []byte("}\n")), "\n}\n"...)
		}
		err = durable.Replace(o.FS, path, o.signed(strings.TrimSuffix(filepath.Base(name), ".json"), text), 0o600)
	}
	return err
}
