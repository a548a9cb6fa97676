package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/feature"
	"ralph/memory/session"
	"ralph/memory/session/check"
	"ralph/memory/session/folder"
)

// The parts of a folder that Export writes in the form of ralph.
const (
	manifestFile = "ralph-export.json"
	sessionPart  = "session"
	snapshotPart = "snapshot.json"
)

// manifest is ralph-export.json.
type manifest struct {
	Type       string            `json:"type"`
	Schema     string            `json:"schema"` // ralph.export/1
	SessionID  folder.ID         `json:"session_id"`
	Name       string            `json:"name"`
	Dir        string            `json:"dir"`
	Project    string            `json:"project_root"`
	Feature    string            `json:"feature,omitempty"`
	ExportedAt time.Time         `json:"exported_at"`
	Files      map[string]string `json:"files"` // SHA-256 by path
}

const exportSchema = "ralph.export/1"

// convertFolder takes a session folder of another tool as it is.
func (s *Source) convertFolder(ctx context.Context, fsys afero.Fs, dir string) error {
	s.conv.files = maps.Clone(s.files)
	delete(s.conv.files, session.MetadataFile)
	s.Name = strings.TrimPrefix(filepath.Base(dir), "session-")
	if raw, ok := s.files[session.MetadataFile]; ok {
		node, err := readYAML(raw)
		if err != nil {
			return fmt.Errorf("%s %w", session.MetadataFile, err)
		}
		s.conv.meta = node
		if n := strings.Join(strings.Fields(scalarOf(node, "session_name")), " "); n != "" {
			s.Name = n
		}
	}
	data, err := folder.Read(fsys, dir)
	if err != nil {
		return err
	}
	found, err := check.Run(ctx, check.Options{FS: fsys, Dir: dir})
	if err != nil {
		return err
	}
	for _, d := range found.Differences {
		if d.Field != "missing" {
			s.conv.differences = append(s.conv.differences, d.String())
		}
	}
	if found.Omitted > 0 {
		s.conv.differences = append(s.conv.differences, fmt.Sprintf("and %d more", found.Omitted))
	}
	if s.conv.meta != nil {
		return nil
	}
	// What the other files say is not put together to metadata: only that there
	// are none is.
	s.conv.differences = append(s.conv.differences, session.MetadataFile+": is missing; the session is imported as paused")
	m := session.Metadata{SessionName: s.Name, StartTime: data.Log.First.Truncate(time.Second), Status: session.Paused, ExitReason: "imported without metadata"}
	var node yaml.Node
	if err := node.Encode(m); err != nil {
		return err
	}
	s.conv.meta = &node
	return nil
}

// convertRalph takes a folder that Export wrote and holds its files against
// what the manifest says.
func (s *Source) convertRalph() error {
	var m manifest
	if err := readJSON(s.files[manifestFile], &m); err != nil {
		return fmt.Errorf("%s %w", manifestFile, err)
	}
	if m.Schema != exportSchema {
		return fmt.Errorf("%s: schema %q is not %s", manifestFile, m.Schema, exportSchema)
	}
	s.conv.files = map[string][]byte{}
	for name, data := range s.files {
		rel, ours := strings.CutPrefix(name, sessionPart+"/")
		switch {
		case name == manifestFile, name == path.Join(sessionPart, session.MetadataFile), strings.HasPrefix(rel, "import/") && ours:
		case ours:
			s.conv.files[rel] = data
		case name != snapshotPart:
			s.notes = append(s.notes, name+": left out: it is no part of an export")
		}
		if want, listed := m.Files[name]; !listed && name != manifestFile {
			s.conv.differences = append(s.conv.differences, name+": the manifest does not list it")
		} else if listed && want != digest(data) {
			s.conv.differences = append(s.conv.differences, name+": was changed since the export")
		}
	}
	for name := range m.Files {
		if _, there := s.files[name]; !there {
			s.conv.differences = append(s.conv.differences, name+": the manifest lists it, but it is missing")
		}
	}
	slices.Sort(s.conv.differences)
	raw, ok := s.files[path.Join(sessionPart, session.MetadataFile)]
	if !ok {
		return errors.New("the export holds no " + session.MetadataFile)
	}
	node, err := readYAML(raw)
	if err != nil {
		return fmt.Errorf("%s %w", session.MetadataFile, err)
	}
	s.conv.meta = node
	if s.Name = strings.Join(strings.Fields(scalarOf(node, "session_name")), " "); s.Name == "" {
		s.Name = "session " + string(m.SessionID)
	}
	data, ok := s.files[snapshotPart]
	if !ok {
		return nil
	}
	var snap feature.Snapshot
	if err := readJSON(data, &snap); err != nil {
		return fmt.Errorf("%s %w", snapshotPart, err)
	}
	s.conv.snapshot, s.Name = &snap, snap.Feature
	return nil
}

// readSnapshot reads the snapshot of a feature; nil when there is none.
func readSnapshot(data []byte) *feature.Snapshot {
	var snap feature.Snapshot
	if len(data) == 0 || json.Unmarshal(data, &snap) != nil || snap.Version != 1 {
		return nil
	}
	return &snap
}
