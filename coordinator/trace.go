package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/transcript"
	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// changeRecord is the payload of such a record. The blobs are in the
// store of checkpoints; "" stands for no file.
type changeRecord struct {
	Turn       int      `json:"turn"`
	Path       string   `json:"path"`
	BeforeBlob string   `json:"before_blob"`
	AfterBlob  string   `json:"after_blob"`
	Commit     string   `json:"commit,omitempty"`
	OldPath    string   `json:"old_path,omitempty"`
	Kind       git.Kind `json:"kind"`
	Added      int      `json:"added"`
	Removed    int      `json:"removed"`
	Agent      string   `json:"agent"`
	Checkpoint string   `json:"checkpoint"` // of /undo: the turn's name among the checkpoints
}

// traceOf makes the records of what one turn changed. commits says in which
// commit a path was changed last; it may be nil.
func traceOf(files []git.BlobChange, turn int, checkpoint string, commits map[string]string) []session.Record {
	records := make([]session.Record, 0, len(files))
	for _, f := range files {
		payload, err := json.Marshal(changeRecord{Turn: turn, Path: f.Path, BeforeBlob: f.Before, AfterBlob: f.After, Commit: commits[f.Path],
			OldPath: f.OldPath, Kind: f.Kind, Added: f.Added, Removed: f.Removed, Agent: agentName, Checkpoint: checkpoint})
		if err == nil { // texts and numbers always encode
			records = append(records, session.Record{Kind: transcript.Change, Payload: payload})
		}
	}
	return records
}

// trace makes the records of what the run that ended last changed.
func (c *changes) trace(ctx context.Context, turn int, commits []string) []session.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == 0 {
		return nil
	}
	var last map[string]string
	if c.repo != nil && len(commits) > 0 {
		var err error
		if last, err = c.repo.CommitOf(ctx, commits); err != nil {
			c.warn("the commits of the changed files are not noted: " + err.Error())
		}
	}
	return traceOf(c.made, turn, c.id(""), last)
}

// keepChanges lets the records wait for the end of the turn, which writes them.
func (b *book) keepChanges(records []session.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return
	}
	for _, r := range records {
		b.keep(r.Kind, r.Payload)
	}
}

// TraceStep is one turn that changed a file. Time is UTC; texts come from the
// state as it was kept and may hold anything but secrets.
type TraceStep struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session"` // a session's id, or the name of a run without one
	Turn    int       `json:"turn"`    // counted from 1 within the process that ran it
	Said    string    `json:"said"`    // the words that caused it
	Agent   string    `json:"agent"`
	Path    string    `json:"path"`
	OldPath string    `json:"old_path,omitempty"` // when renamed
	Kind    string    `json:"kind"`
	Added   int       `json:"added"` // lines; -1 for a binary file
	Removed int       `json:"removed"`
	Before  string    `json:"before_blob"`
	After   string    `json:"after_blob"`
	Commit  string    `json:"commit,omitempty"`
}

// Trace lists the turns that changed a file, in any session or run of this
// project, newest last, also under the names that it had before. file is
// absolute, relative to the working directory, or relative to the root. A file
// that no turn changed has no steps; one outside the project is an error.
func (c *Coordinator) Trace(ctx context.Context, file string) ([]TraceStep, error) {
	names, err := c.namesOf(file)
	if err != nil {
		return nil, fmt.Errorf("trace %q: %w", file, err)
	}
	steps, err := readSteps(ctx, c.opt.FS, c.stateDir())
	if err != nil {
		return nil, fmt.Errorf("trace %q: %w", file, err)
	}
	for _, name := range names {
		if found := follow(steps, name); len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// namesOf says what a file that a person named may be called in the project.
func (c *Coordinator) namesOf(file string) ([]string, error) {
	var names []string
	inside := func(full string) {
		rel, err := filepath.Rel(c.opt.Root, full)
		if err == nil && rel != "." && filepath.IsLocal(rel) && !slices.Contains(names, filepath.ToSlash(rel)) {
			names = append(names, filepath.ToSlash(rel))
		}
	}
	if filepath.IsAbs(file) {
		inside(filepath.Clean(file))
		// The root has no links in its path; what was typed may.
		if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
			inside(filepath.Join(dir, filepath.Base(file)))
		}
	} else if file != "" {
		if here, err := os.Getwd(); err == nil {
			if here, err = filepath.EvalSymlinks(here); err == nil {
				inside(filepath.Join(here, file))
			}
		}
		inside(filepath.Join(c.opt.Root, file))
	}
	if len(names) == 0 {
		return nil, errors.New("not a file of this project")
	}
	return names, nil
}

// follow picks the steps of one file, and goes back through its names.
func follow(steps []TraceStep, name string) []TraceStep {
	var found []TraceStep
	for _, s := range slices.Backward(steps) {
		if s.Path != name && s.OldPath != name {
			continue
		}
		found = append(found, s)
		if s.Path == name && s.OldPath != "" {
			name = s.OldPath
		}
	}
	slices.Reverse(found)
	return found
}

// readSteps reads what all journals tell of changed files, oldest first.
func readSteps(ctx context.Context, fsys afero.Fs, stateDir string) ([]TraceStep, error) {
	var steps []TraceStep
	for _, pattern := range []string{"sessions/session-*", "sessions/archive/session-*", "sessions/archive/*/session-*", "runs/*"} {
		dirs, err := afero.Glob(fsys, filepath.Join(globEscape(stateDir), filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			more, err := stepsOf(fsys, dir)
			if err != nil {
				return nil, err
			}
			steps = append(steps, more...)
		}
	}
	slices.SortStableFunc(steps, func(a, b TraceStep) int { return a.Time.Compare(b.Time) })
	return steps, nil
}

// globEscape takes the meaning from what a directory's name shares with
// patterns.
func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// stepsOf reads one journal. Lines that cannot be read, or are of no use here,
// are passed over; a journal that is none is as if it were absent.
func stepsOf(fsys afero.Fs, dir string) ([]TraceStep, error) {
	name := filepath.Base(dir)
	if rest, ok := strings.CutPrefix(name, "session-"); ok {
		name, _, _ = strings.Cut(rest, "-")
	}
	var steps []TraceStep
	words := ""
	err := durable.ReadLines(fsys, filepath.Join(dir, session.JournalFile), func(line []byte, _ bool) error {
		change := bytes.Contains(line, []byte(`"kind":"change"`))
		if !change && !bytes.Contains(line, []byte(`"role":"user"`)) {
			return nil
		}
		var l transcript.Record
		if json.Unmarshal(line, &l) != nil {
			return nil
		}
		switch l.Kind {
		case transcript.Message:
			var m agent.Message
			if json.Unmarshal(l.Payload, &m) == nil {
				if content, ok := transcript.Said(m); ok {
					words = content
				}
			}
		case transcript.Change:
			var r changeRecord
			if json.Unmarshal(l.Payload, &r) == nil && r.Path != "" {
				steps = append(steps, TraceStep{Time: l.Time, Session: name, Turn: r.Turn, Said: text.ClipRunes(strings.TrimSpace(words), maxSaid), Agent: r.Agent,
					Path: path.Clean(r.Path), OldPath: r.OldPath, Kind: string(r.Kind), Added: r.Added, Removed: r.Removed, Before: r.BeforeBlob, After: r.AfterBlob, Commit: r.Commit})
			}
		}
		return nil
	})
	for _, none := range []error{fs.ErrNotExist, fs.ErrPermission, durable.ErrNotRegular, durable.ErrSymlink} {
		if errors.Is(err, none) {
			return nil, nil
		}
	}
	return steps, err
}

// maxSaid bounds the words that caused a change, in characters.
const maxSaid = 2000
