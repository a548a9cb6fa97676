// Package exchange carries sessions across borders: in from other tools, out to
// them, and from one session to another.
//
// It knows four forms. "ralph" is a folder that Export wrote. "ralph-tui" is
// the file `.ralph-tui/session.json`, version 1. "wiggum" are the files
// `ralph-loop-FEATURE.*` that its loop leaves in /tmp. "blackbox" is a session
// folder with the same files as ours. A source is only read, follows no link
// and may be hostile: it is bounded, and what is odd about it is an error or a
// difference to report, never mended. Every byte of it is kept in the imported
// session below import/original, so that Export in the same form gives back
// every field.
//
//	src, err := exchange.Open(ctx, nil, "/old/.ralph-tui/session.json", "")
//	for _, d := range src.Differences() { … }
//	got, err := src.Import(exchange.Options{StateDir: dir}, "")
package exchange

import (
	"crypto/sha256"
	"encoding/hex"
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
	"ralph/memory/identity"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// ErrTaken is matched when a name or a place is taken already.
var ErrTaken = errors.New("is taken")

// ErrUnknownForm is matched when a source is none of the forms.
var ErrUnknownForm = errors.New("is no session in a form that Ralph knows")

// Format is a form in which sessions come and go.
type Format string

// The forms.
const (
	Ralph    Format = "ralph"
	TUI      Format = "ralph-tui"
	Wiggum   Format = "wiggum"
	Blackbox Format = "blackbox"
)

// Formats lists the forms.
func Formats() []string {
	return []string{string(Ralph), string(TUI), string(Wiggum), string(Blackbox)}
}

// Options says where sessions are.
type Options struct {
	// FS holds the project; nil means the real disk.
	FS afero.Fs
	// StateDir is the project's `.ralph`, absolute.
	StateDir string
	// Key authenticates the journals of the project; nil only detects damage.
	Key identity.Key
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Redact takes secrets out of what people read; nil keeps all.
	Redact func(string) string
	// Live, when set, is a session that this process has open; see Handoff.
	Live *Live
}

// Live is a session that is open: what concerns it goes through whoever holds its
// files, which must not be opened twice.
type Live struct {
	ID     string
	Folder *folder.Folder
	// Take keeps a record of RecordHandoff in the journal and the transcript, of
	// the session with the id from.
	Take func(r session.Record, text, from string) error
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redact == nil {
		o.Redact = func(t string) string { return t }
	}
	return o
}

func (o Options) session(kind string) session.Options {
	return session.Options{FS: o.FS, StateDir: o.StateDir, Now: o.Now, Redact: o.Redact, Kind: kind, Key: o.Key}
}

// Source is a session of another tool or project, read whole. It is not changed
// after Open.
type Source struct {
	Path   string
	Format Format
	// Name is what the source calls the session or its feature.
	Name  string
	files map[string][]byte // as they are, by path relative to the source
	taken int64             // bytes of them
	notes []string          // what was left out or odd while reading
	conv  converted
}

// converted is a source in our terms.
type converted struct {
	meta  *yaml.Node        // the metadata but for the id
	files map[string][]byte // of the session's directory
	// build makes those files that name the session's id; nil makes none.
	build       func(id string) (map[string][]byte, error)
	snapshot    *feature.Snapshot // of a run; nil for a session that is none
	loop        *loop             // of wiggum
	differences []string
}

// Differences are the contradictions in the source and what was left out of it,
// one a line. None of them is mended by Import.
func (s *Source) Differences() []string {
	all := slices.Concat(s.notes, s.conv.differences)
	if more := len(all) - maxDifferences; more > 0 {
		all = append(all[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return all
}

// maxDifferences bounds what is told of a source.
const maxDifferences = 1000

// Imported says what Import made. Paths are relative to the project's root.
type Imported struct {
	SessionID   folder.ID `json:"session_id"`
	Name        string    `json:"name"`
	Format      Format    `json:"format"`
	Path        string    `json:"path"`
	Snapshot    string    `json:"snapshot,omitempty"`
	Files       int       `json:"files"`
	Differences []string  `json:"differences"`
}

// Check says which name the session would get, and refuses one that is taken
// with ErrTaken. An empty name means the source's own. It writes nothing.
func (s *Source) Check(o Options, name string) (string, error) {
	o = o.withDefaults()
	if name = text.VisibleLine(strings.Join(strings.Fields(o.Redact(name)), " ")); name == "" {
		name = s.Name
	}
	st, err := retention.Scan(o.FS, o.StateDir)
	if err != nil {
		return name, fmt.Errorf("import %q: %w", s.Path, err)
	}
	if s.conv.snapshot != nil {
		name = featureName(name)
		taken, err := featureTaken(o, st, name)
		if taken {
			err = fmt.Errorf("the feature %q %w (.ralph/sessions/%s.json)", name, ErrTaken, name)
		}
		if err != nil {
			return name, fmt.Errorf("import %q: %w", s.Path, err)
		}
	}
	for _, other := range st.Sessions {
		if strings.EqualFold(other.Name, name) && other.Phase != importing {
			return name, fmt.Errorf("import %q: the name %q %w (session %s)", s.Path, name, ErrTaken, other.ID)
		}
	}
	return name, nil
}

// featureTaken says that a snapshot of the name stands there. One that an import
// left which did not end is free.
func featureTaken(o Options, st retention.State, name string) (bool, error) {
	path := filepath.Join(o.StateDir, "sessions", name+".json")
	if _, err := durable.Lstat(o.FS, path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	data, err := durable.ReadFile(o.FS, path, maxFileBytes)
	if err != nil {
		return true, nil // whatever it is, it stands there
	}
	snap := readSnapshot(data)
	return snap == nil || !slices.ContainsFunc(st.Sessions, func(x retention.Session) bool { return x.ID == snap.SessionID && x.Phase == importing }), nil
}

// importing is the phase of a session whose import did not end.
const importing = "importing"

// Import makes a session of the source. The metadata comes last: until then the
// session reads as being imported, and after a crash can be imported again.
// After an error no session is left.
func (s *Source) Import(o Options, name string) (Imported, error) {
	o = o.withDefaults()
	name, err := s.Check(o, name)
	if err != nil {
		return Imported{}, err
	}
	made, err := create(o, "imported", name)
	if err != nil {
		return Imported{}, fmt.Errorf("import %q: %w", s.Path, err)
	}
	got := Imported{SessionID: folder.ID(made.ID()), Name: name, Format: s.Format, Differences: s.Differences()}
	if rel, err := filepath.Rel(filepath.Dir(o.StateDir), made.Dir()); err == nil {
		got.Path = filepath.ToSlash(rel)
	}
	// The session's own writers put down what a session begins and ends with;
	// what stands in an imported one is the source's alone.
	err = made.Update(func(m *session.Metadata) { m.PhaseName = importing })
	made.End(session.Failed, "the import did not end")
	err = errors.Join(err, made.Close(), bareSession(o.FS, made.Dir()))
	if err == nil {
		err = s.fill(o, made.Dir(), &got)
	}
	if err != nil {
		// The number stays used; a half session would only mislead.
		err = errors.Join(fmt.Errorf("import %q: %w", s.Path, err), o.FS.RemoveAll(made.Dir()))
		if s.conv.snapshot != nil {
			if rerr := o.FS.Remove(filepath.Join(o.StateDir, "sessions", name+".json")); !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
		return Imported{}, err
	}
	return got, nil
}

// create makes the next session, or leaves none. The caller holds the project.
func create(o Options, kind, name string) (*session.Session, error) {
	before, err := retention.Scan(o.FS, o.StateDir)
	if err != nil {
		return nil, err
	}
	made, err := session.Create(o.session(kind), name)
	if err == nil {
		return made, nil
	}
	after, serr := retention.Scan(o.FS, o.StateDir)
	err = errors.Join(err, serr)
	for _, s := range after.Sessions {
		if !slices.ContainsFunc(before.Sessions, func(b retention.Session) bool { return b.Path == s.Path }) {
			err = errors.Join(err, o.FS.RemoveAll(filepath.Join(o.StateDir, filepath.FromSlash(s.Path))))
		}
	}
	return nil, err
}

// bareSession removes what a session that was just made holds beside its
// metadata.
func bareSession(fsys afero.Fs, dir string) error {
	d, err := fsys.Open(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	err = errors.Join(err, d.Close())
	for _, n := range names {
		if n != session.MetadataFile {
			err = errors.Join(err, fsys.RemoveAll(filepath.Join(dir, n)))
		}
	}
	return err
}

// origin is import/source.json: where a session came from, and what its files
// were when it did.
type origin struct {
	Type        string            `json:"type"`
	Schema      string            `json:"schema"`
	Format      Format            `json:"format"`
	Source      string            `json:"source"`
	Name        string            `json:"name"`
	Feature     string            `json:"feature,omitempty"`
	ImportedAt  time.Time         `json:"imported_at"`
	Differences []string          `json:"differences"`
	Files       map[string]string `json:"files"` // the session's files as imported: SHA-256
}

const (
	originFile   = "import/source.json"
	originalsDir = "import/original"
)

// fill writes the files of an imported session.
func (s *Source) fill(o Options, dir string, got *Imported) error {
	files := maps.Clone(s.conv.files)
	if files == nil {
		files = map[string][]byte{}
	}
	if s.conv.build != nil {
		built, err := s.conv.build(folder.SessionID(string(got.SessionID)))
		if err != nil {
			return err
		}
		maps.Copy(files, built)
	}
	sums := map[string]string{}
	for name, data := range files {
		sums[name] = digest(data)
	}
	for name, data := range s.originals() {
		files[path.Join(originalsDir, name)] = data
	}
	meta, err := s.metadata(got)
	if err != nil {
		return err
	}
	sums[session.MetadataFile] = digest(meta)
	from := origin{Type: "import", Schema: "ralph.import/1", Format: s.Format, Source: s.Path, Name: s.Name, ImportedAt: o.Now().UTC().Truncate(time.Second),
		Differences: got.Differences, Files: sums}
	if s.conv.snapshot != nil {
		from.Feature = got.Name
	}
	if from.Differences == nil {
		from.Differences = []string{}
	}
	if files[originFile], err = json.MarshalIndent(from, "", "  "); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := put(o.FS, dir, name, files[name]); err != nil {
			return err
		}
	}
	got.Files = len(files) + 1
	if err := s.journal(o, dir, got); err != nil {
		return err
	}
	if err := s.snapshot(o, got); err != nil {
		return err
	}
	return durable.Replace(o.FS, filepath.Join(dir, session.MetadataFile), meta, 0o600)
}

// snapshot writes the snapshot of a run, as this Ralph's own: who imports it says so.
func (s *Source) snapshot(o Options, got *Imported) error {
	if s.conv.snapshot == nil {
		return nil
	}
	snap := *s.conv.snapshot
	snap.Feature, snap.SessionID, snap.SessionDir = got.Name, string(got.SessionID), got.Path
	data, err := json.MarshalIndent(snap, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(o.StateDir, "sessions", got.Name+".json")
	got.Snapshot = path.Join(".ralph/sessions", got.Name+".json")
	if err := durable.Replace(o.FS, file, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return feature.Seal(feature.Options{FS: o.FS, StateDir: o.StateDir, Key: o.Key}, path.Join("sessions", got.Name+".json"))
}

// originals are the bytes to keep beside what was made of them. A session of
// ours is its own original but for the metadata; what its import left is kept
// too.
func (s *Source) originals() map[string][]byte {
	if s.Format != Ralph {
		return s.files
	}
	kept := map[string][]byte{}
	for name, data := range s.files {
		if name == manifestFile || name == path.Join(sessionPart, session.MetadataFile) || name == snapshotPart || strings.HasPrefix(name, path.Join(sessionPart, "import")+"/") {
			kept[name] = data
		}
	}
	return kept
}

// metadata is the session's metadata: the source's, with our id.
func (s *Source) metadata(got *Imported) ([]byte, error) {
	node := s.conv.meta
	if node == nil || node.Kind != yaml.MappingNode {
		return nil, errors.New("the metadata is no mapping")
	}
	node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: slices.Clone(node.Content)}
	id := folder.SessionID(string(got.SessionID))
	if was := scalarOf(node, "session_id"); was != "" && was != id && (scalarOf(node, "imported_session_id") == "" || s.bears(was)) {
		setScalar(node, "imported_session_id", was, "!!str")
	}
	setScalar(node, "session_id", id, "!!str")
	if scalarOf(node, "session_name") != got.Name {
		if was := scalarOf(node, "session_name"); was != "" && scalarOf(node, "imported_session_name") == "" {
			setScalar(node, "imported_session_name", was, "!!str")
		}
		setScalar(node, "session_name", got.Name, "!!str")
	}
	return yaml.Dump(node)
}

// bears says that the source's files state the id: those of a session that was
// made of another form have the one that it got, not the one that it had before.
func (s *Source) bears(id string) bool {
	node, err := readYAML(s.conv.files["progress-tracking.yaml"])
	return err == nil && scalarOf(node, "session_id") == id
}

// journal notes the import where the truth of the session stands.
func (s *Source) journal(o Options, dir string, got *Imported) error {
	j, err := session.OpenJournal(o.FS, filepath.Join(dir, session.JournalFile), filepath.Join(o.StateDir, "quarantine"), o.Key)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(map[string]any{"format": s.Format, "source": s.Path, "name": s.Name, "differences": got.Differences})
	if err == nil {
		err = j.Append(0, session.Record{Kind: "import", Time: o.Now(), Payload: payload})
	}
	if err == nil {
		err = s.journalUsage(j)
	}
	return errors.Join(err, j.Close())
}

// journalUsage notes what the run of the source used, where its session keeps what
// it uses itself.
func (s *Source) journalUsage(j *session.Journal) error {
	if s.conv.snapshot == nil || s.conv.snapshot.Tokens == (feature.Tokens{}) || s.Format == Ralph {
		return nil // nothing, or it is in the journal that came along
	}
	used := s.conv.snapshot.Tokens
	type usage struct {
		Input       int64 `json:"input"`
		CachedInput int64 `json:"cached_input"`
		Output      int64 `json:"output"`
		Total       int64 `json:"total"`
	}
	payload, err := json.Marshal(struct {
		Type  string    `json:"type"`
		Time  time.Time `json:"time"`
		Agent string    `json:"agent"`
		Usage usage     `json:"usage"`
	}{"usage", s.conv.snapshot.UpdatedAt, "ralph", usage{used.Input, used.CachedInput, used.Output, used.Input + used.Output}})
	if err != nil {
		return err
	}
	return j.Append(0, session.Record{Kind: "event", Time: s.conv.snapshot.UpdatedAt, Payload: payload})
}

// put writes a file of a session, with the directories that it needs.
func put(fsys afero.Fs, dir, name string, data []byte) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := durable.MkdirAll(fsys, filepath.Dir(full), 0o700); err != nil {
		return err
	}
	return durable.Replace(fsys, full, data, 0o600)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// documents are the files of a session that was not one of ours.
func documents(id string, events []folder.Event, p folder.Progress, failures []folder.Failure) (map[string][]byte, error) {
	p.SessionID = id
	if p.Tasks == nil {
		p.Tasks = []folder.TaskState{}
	}
	p.Milestones, p.QualityGates = []folder.Milestone{}, []folder.Gate{}
	progress, err := dumped(p)
	if err != nil {
		return nil, err
	}
	if events == nil {
		events = []folder.Event{}
	}
	if failures == nil {
		failures = []folder.Failure{}
	}
	log, err := json.MarshalIndent(map[string]any{"session_id": id, "events": events}, "", "  ")
	if err != nil {
		return nil, err
	}
	errs, err := json.MarshalIndent(map[string]any{"session_id": id, "errors": failures, "circuit_breaker_trips": []folder.Trip{}}, "", "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"progress-tracking.yaml": progress, "execution-log.json": append(log, '\n'), "errors-and-retries.json": append(errs, '\n')}, nil
}
