package insights_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/scripts/report/insights"
)

// findIn runs the rules over the session folder in dir.
func findIn(t testing.TB, fsys afero.Fs, dir string) []insights.Finding {
	t.Helper()
	f := insights.New(insights.Options{})
	d, err := folder.ReadEach(fsys, dir, func(id string, e folder.Event) error {
		f.Event(id, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	records(t, fsys, dir, f)
	return f.Result(d)
}

func records(t testing.TB, fsys afero.Fs, dir string, f *insights.Finder) {
	t.Helper()
	data, err := afero.ReadFile(fsys, filepath.Join(dir, session.JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for len(data) > 0 {
		line := data
		if i := indexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		var r session.Record
		if json.Unmarshal(line, &r) == nil {
			f.Record(r)
		}
	}
}

func indexByte(b []byte, c byte) int {
	for i := range b {
		if b[i] == c {
			return i
		}
	}
	return -1
}

// names are the rules of the findings, in their order.
func names(found []insights.Finding) []string {
	list := []string{}
	for _, x := range found {
		list = append(list, x.Rule)
	}
	return list
}
