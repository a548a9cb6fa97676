package exchange

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/session"
)

// The bounds of a source.
const (
	maxFileBytes  = 64 << 20
	maxTotalBytes = 256 << 20
	maxFiles      = 20_000
	maxDepth      = 16
)

// loopFile is a file of wiggum's loop.
var loopFile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^ralph-loop-([A-Za-z0-9_-]+)\.([a-z][a-z.-]*)$`)
})

// Open reads the source at name, a file or a folder, and says what it is. An
// empty format means to find out. fsys nil means the real disk. ctx ends the
// check of a folder.
func Open(ctx context.Context, fsys afero.Fs, name string, format Format) (*Source, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	s := &Source{Path: name, Format: format, files: map[string][]byte{}}
	if err := s.open(ctx, fsys, name); err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return s, nil
}

func (s *Source) open(ctx context.Context, fsys afero.Fs, name string) error {
	info, err := durable.Lstat(fsys, name)
	switch {
	case err != nil:
		return unpath(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return durable.ErrSymlink
	case info.IsDir():
		return s.openFolder(ctx, fsys, name)
	case !info.Mode().IsRegular():
		return durable.ErrNotRegular
	}
	base := filepath.Base(name)
	if m := loopFile().FindStringSubmatch(base); m != nil && (s.Format == "" || s.Format == Wiggum) {
		s.Format = Wiggum
		return s.openLoop(fsys, filepath.Dir(name), m[1])
	}
	if base == manifestFile && (s.Format == "" || s.Format == Ralph) {
		return s.openFolder(ctx, fsys, filepath.Dir(name))
	}
	if err := s.take(fsys, name, tuiFile); err != nil {
		return err
	}
	if s.Format == "" && (looksTUI(s.files[tuiFile]) || base == tuiFile && filepath.Base(filepath.Dir(name)) == ".ralph-tui") {
		s.Format = TUI
	}
	if s.Format != TUI {
		return ErrUnknownForm
	}
	return s.convertTUI()
}

// openFolder finds out what a folder holds.
func (s *Source) openFolder(ctx context.Context, fsys afero.Fs, dir string) error {
	has := func(name string) bool {
		info, err := durable.Lstat(fsys, filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil && info.Mode().IsRegular()
	}
	want := func(f Format) bool { return s.Format == "" || s.Format == f }
	switch {
	case want(Ralph) && has(manifestFile):
		s.Format = Ralph
		if err := s.walk(fsys, dir, "", 0); err != nil {
			return err
		}
		return s.convertRalph()
	case want(TUI) && has(".ralph-tui/"+tuiFile):
		return s.open(ctx, fsys, filepath.Join(dir, ".ralph-tui", tuiFile))
	case want(Blackbox) && (has(session.MetadataFile) || has("execution-log.json") || has("progress-tracking.yaml")):
		s.Format = Blackbox
		if err := s.walk(fsys, dir, "", 0); err != nil {
			return err
		}
		return s.convertFolder(ctx, fsys, dir)
	case want(TUI) && has(tuiFile):
		return s.open(ctx, fsys, filepath.Join(dir, tuiFile))
	case !want(Wiggum):
		return ErrUnknownForm
	}
	features, err := loops(fsys, dir)
	switch {
	case err != nil:
		return err
	case len(features) == 0:
		return ErrUnknownForm
	case len(features) > 1:
		return fmt.Errorf("it holds the loops of several features (%s): name a file of one, such as ralph-loop-%s.status", strings.Join(features, ", "), features[0])
	}
	s.Format = Wiggum
	return s.openLoop(fsys, dir, features[0])
}

// loops lists the features of which wiggum's files are in dir.
func loops(fsys afero.Fs, dir string) ([]string, error) {
	names, err := list(fsys, dir)
	var features []string
	for _, n := range names {
		if m := loopFile().FindStringSubmatch(n); m != nil && !slices.Contains(features, m[1]) {
			features = append(features, m[1])
		}
	}
	return features, err
}

func (s *Source) openLoop(fsys afero.Fs, dir, feature string) error {
	names, err := list(fsys, dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if m := loopFile().FindStringSubmatch(n); m != nil && m[1] == feature {
			if err := s.takeOrNote(fsys, filepath.Join(dir, n), n); err != nil {
				return err
			}
		}
	}
	s.Name = feature
	return s.convertWiggum(feature)
}

// walk takes all regular files below dir.
func (s *Source) walk(fsys afero.Fs, dir, rel string, depth int) error {
	names, err := list(fsys, dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		full, at := filepath.Join(dir, n), path.Join(rel, n)
		info, err := durable.Lstat(fsys, full)
		if err != nil {
			return unpath(err)
		}
		if info.IsDir() {
			if depth >= maxDepth {
				return fmt.Errorf("%s: folders nest deeper than %d", at, maxDepth)
			}
			if err := s.walk(fsys, full, at, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := s.takeOrNote(fsys, full, at); err != nil {
			return err
		}
	}
	return nil
}

// takeOrNote takes a regular file and notes any other.
func (s *Source) takeOrNote(fsys afero.Fs, full, rel string) error {
	err := s.take(fsys, full, rel)
	if errors.Is(err, durable.ErrSymlink) || errors.Is(err, durable.ErrNotRegular) {
		s.notes = append(s.notes, fmt.Sprintf("%s: left out: %v", rel, plainCause(err)))
		return nil
	}
	return err
}

func (s *Source) take(fsys afero.Fs, full, rel string) error {
	if len(s.files) >= maxFiles {
		return fmt.Errorf("it holds more than %d files", maxFiles)
	}
	data, err := durable.ReadFile(fsys, full, min(maxFileBytes, maxTotalBytes-s.taken))
	if err != nil {
		return fmt.Errorf("%s: %w", rel, plainCause(err))
	}
	s.files[rel] = data
	s.taken += int64(len(data))
	return nil
}

// plainCause is the reason without the path, which is told already; what can be
// tested for stays.
func plainCause(err error) error {
	if d, ok := errors.AsType[*durable.Error](err); ok {
		err = d.Err
	}
	if errors.Is(err, durable.ErrTooLarge) {
		return fmt.Errorf("%w: a file may have %d MiB, all of them %d MiB", durable.ErrTooLarge, maxFileBytes>>20, maxTotalBytes>>20)
	}
	return unpath(err)
}

func unpath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func list(fsys afero.Fs, dir string) ([]string, error) {
	d, err := fsys.Open(dir)
	if err != nil {
		return nil, unpath(err)
	}
	names, err := d.Readdirnames(-1)
	err = errors.Join(err, d.Close())
	slices.Sort(names)
	return names, err
}

// readJSON reads one JSON object and nothing behind it.
func readJSON(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errors.New("is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind the JSON value")
	}
	return nil
}

// jsonError says what is wrong in the words of the file, not in ours.
func jsonError(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := "a number"
		switch t.Type.Kind() {
		case reflect.String:
			want = "a text"
		case reflect.Bool:
			want = "true or false"
		case reflect.Slice:
			want = "a list"
		case reflect.Struct, reflect.Map, reflect.Pointer:
			want = "an object"
		}
		return fmt.Errorf("is no JSON of that kind: %s is to be %s, and is a %s", cmp.Or(t.Field, "the whole"), want, t.Value)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("is no whole JSON value: it ends in the middle")
	}
	return fmt.Errorf("is no JSON of that kind: %w", err)
}

// readYAML reads one mapping.
func readYAML(data []byte) (*yaml.Node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		return nil, fmt.Errorf("is no YAML: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("is no YAML mapping")
	}
	return doc.Content[0], nil
}

func scalarOf(m *yaml.Node, key string) string {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key && m.Content[i+1].Kind == yaml.ScalarNode && m.Content[i+1].Tag != "!!null" {
			return m.Content[i+1].Value
		}
	}
	return ""
}

func setScalar(m *yaml.Node, key, value, tag string) {
	v := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
	if tag == "!!str" {
		v.Style = yaml.DoubleQuotedStyle
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content[i+1] = v
			return
		}
	}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, v)
}

func dropKey(m *yaml.Node, key string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = slices.Delete(m.Content, i, i+2)
			return
		}
	}
}

// featureName makes a name fit for `.ralph/sessions/NAME.json`.
func featureName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 60 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" && !strings.HasPrefix(s, "session-") {
		return s
	}
	return "imported"
}
