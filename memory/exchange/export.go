package exchange

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// Exported says what Export wrote.
type Exported struct {
	SessionID folder.ID `json:"session_id"`
	Format    Format    `json:"format"`
	Path      string    `json:"path"` // absolute
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes"`
	// Unchanged says that the source of an import is given back byte for byte.
	Unchanged bool     `json:"unchanged"`
	Warnings  []string `json:"warnings"`
}

// view is a session as it is to be exported.
type view struct {
	o        Options
	root     string
	dir      string
	session  retention.Session
	data     folder.Data
	snapshot *feature.Snapshot
	rawSnap  []byte
	spent    retention.Spent
	files    map[string][]byte // of the session's directory
	origin   *origin           // where it first came from; nil when it was not imported
	kept     string            // where the bytes of that are, below the directory
	same     bool              // the files are still those of the import
	notes    []string
}

// Export writes a session to target, which must not exist: a folder, or for
// ralph-tui one file. It appears there whole or not at all. dry writes nothing.
func Export(o Options, s retention.Session, target string, format Format, dry bool) (Exported, error) {
	o = o.withDefaults()
	got := Exported{SessionID: folder.ID(s.ID), Format: format, Path: target}
	v, err := look(o, s)
	if err != nil {
		return got, fmt.Errorf("export session %s: %w", s.ID, err)
	}
	files, err := v.in(format)
	if err != nil {
		return got, fmt.Errorf("export session %s: %w", s.ID, err)
	}
	got.Warnings = some(v.notes)
	got.Unchanged = v.origin != nil && v.origin.Format == format && format != Ralph && v.unchanged()
	for _, data := range files {
		got.Files++
		got.Bytes += int64(len(data))
	}
	switch _, err := durable.Lstat(o.FS, target); {
	case err == nil:
		return got, fmt.Errorf("export session %s: %q %w", s.ID, target, ErrTaken)
	case !errors.Is(err, fs.ErrNotExist):
		return got, fmt.Errorf("export session %s: %q: %w", s.ID, target, unpath(err))
	}
	if info, err := o.FS.Stat(filepath.Dir(target)); err != nil || !info.IsDir() {
		return got, fmt.Errorf("export session %s: %q: the directory that it is to go to does not exist", s.ID, target)
	}
	if dry {
		return got, nil
	}
	if err := deliver(o.FS, target, files, format == TUI); err != nil {
		return got, fmt.Errorf("export session %s: %w", s.ID, err)
	}
	return got, nil
}

// deliver writes files to a temporary place beside the target and renames it.
func deliver(fsys afero.Fs, target string, files map[string][]byte, single bool) error {
	if single {
		return durable.Replace(fsys, target, files[tuiFile], 0o644)
	}
	temp := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+"."+rand.Text()[:10]+".tmp")
	err := durable.MkdirAll(fsys, temp, 0o755)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = put(fsys, temp, name, files[name])
		}
	}
	if err == nil {
		err = fsys.Rename(temp, target)
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(temp))
	}
	return durable.SyncDir(fsys, filepath.Dir(target))
}

// look reads a session whole.
func look(o Options, s retention.Session) (*view, error) {
	v := &view{o: o, root: filepath.Dir(o.StateDir), dir: filepath.Join(o.StateDir, filepath.FromSlash(s.Path)), session: s, files: map[string][]byte{}}
	src := &Source{files: v.files}
	if err := src.walk(o.FS, v.dir, "", 0); err != nil {
		return nil, err
	}
	v.notes = src.notes
	var err error
	if v.data, err = folder.Read(o.FS, v.dir); err != nil {
		return nil, err
	}
	v.trace()
	if v.spent, err = retention.Usage(o.FS, v.dir, maxFileBytes); err != nil {
		v.notes = append(v.notes, err.Error())
	}
	names, _ := list(o.FS, filepath.Join(o.StateDir, "sessions")) // the session is there, so is this
	for _, n := range names {
		if path.Ext(n) != ".json" {
			continue
		}
		data, err := durable.ReadFile(o.FS, filepath.Join(o.StateDir, "sessions", n), maxFileBytes)
		if snap := readSnapshot(data); err == nil && snap != nil && snap.SessionID == s.ID {
			v.snapshot, v.rawSnap = snap, data
		}
	}
	return v, nil
}

// in gives the files of a form.
func (v *view) in(format Format) (map[string][]byte, error) {
	switch format {
	case TUI:
		return exportTUI(v)
	case Wiggum:
		return exportWiggum(v)
	case Blackbox:
		return v.blackbox()
	case Ralph:
		return v.ralph()
	}
	return nil, fmt.Errorf("%q is no form: %s", format, strings.Join(Formats(), ", "))
}

// trace finds where the session first came from: one that went from project to
// project in our own form has what its first import left within that of the
// later ones.
func (v *view) trace() {
	at, meta := path.Dir(originFile), session.MetadataFile
	for {
		name := path.Join(at, path.Base(originFile))
		raw, ok := v.files[name]
		if !ok {
			return
		}
		var from origin
		if err := readJSON(raw, &from); err != nil {
			v.notes = append(v.notes, name+" "+err.Error())
			return
		}
		v.same = v.origin == nil || v.same
		v.origin, v.kept = &from, path.Join(at, path.Base(originalsDir))
		for file, sum := range from.Files {
			if file == session.JournalFile {
				continue // the import itself stands at its end
			}
			if file == session.MetadataFile {
				file = meta
			}
			data, there := v.files[file]
			v.same = v.same && there && digest(data) == sum
		}
		if from.Format != Ralph {
			return
		}
		at, meta = path.Join(v.kept, sessionPart, path.Dir(originFile)), path.Join(v.kept, sessionPart, session.MetadataFile)
	}
}

// originals are the bytes that the session was imported from, when that was in
// the form asked for.
func (v *view) originals(format Format) map[string][]byte {
	if v.origin == nil || v.origin.Format != format {
		return nil
	}
	out := map[string][]byte{}
	for name, data := range v.files {
		if rel, ok := strings.CutPrefix(name, v.kept+"/"); ok {
			out[rel] = data
		}
	}
	return out
}

// unchanged says that the session's files are still those of the import.
func (v *view) unchanged() bool { return v.origin != nil && v.same }

// runStatus is the session's status in the words of runs.
func (v *view) runStatus() string {
	switch v.session.Status {
	case session.Completed:
		return "completed"
	case session.Failed:
		return "failed"
	}
	if v.session.ExitReason == "paused" {
		return "paused"
	}
	return "interrupted"
}

// feature names the session where only a word will do.
func (v *view) feature() string {
	if v.snapshot != nil && v.snapshot.Feature != "" {
		return featureName(v.snapshot.Feature)
	}
	return featureName(v.session.Name)
}

// blackbox gives the session's files without what only we know.
func (v *view) blackbox() (map[string][]byte, error) {
	if originals := v.originals(Blackbox); originals != nil && v.unchanged() {
		return originals, nil
	}
	out := map[string][]byte{}
	for name, data := range v.files {
		if name != session.JournalFile && !strings.HasPrefix(name, "import/") {
			out[name] = data
		}
	}
	node, err := readYAML(out[session.MetadataFile])
	if err != nil {
		v.notes = append(v.notes, session.MetadataFile+" "+err.Error()+": it goes as it is")
		return out, nil
	}
	if v.origin == nil || v.origin.Format != Blackbox {
		return out, nil
	}
	// The other tool knows the session by the id and the name that it gave.
	for _, key := range []string{"session_id", "session_name"} {
		if was := scalarOf(node, "imported_"+key); was != "" {
			setScalar(node, key, was, "!!str")
			dropKey(node, "imported_"+key)
		}
	}
	out[session.MetadataFile], err = yaml.Dump(node)
	return out, err
}

// ralph gives everything.
func (v *view) ralph() (map[string][]byte, error) {
	out := map[string][]byte{}
	m := manifest{Type: "export", Schema: exportSchema, SessionID: folder.ID(v.session.ID), Name: v.session.Name, Dir: path.Base(v.session.Path), Project: v.root,
		ExportedAt: v.o.Now().UTC().Truncate(time.Second), Files: map[string]string{}}
	for name, data := range v.files {
		out[path.Join(sessionPart, name)] = data
	}
	if v.snapshot != nil {
		out[snapshotPart], m.Feature = v.rawSnap, v.snapshot.Feature
	}
	for name, data := range out {
		m.Files[name] = digest(data)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	out[manifestFile] = append(data, '\n')
	return out, err
}
