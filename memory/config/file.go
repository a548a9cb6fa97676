package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/text"
)

// maxFileBytes bounds a configuration file; nobody writes one this long.
const maxFileBytes = 1 << 20

// maxProblems bounds how many problems of one file are listed.
const maxProblems = 100

// file is one YAML configuration file while it is read.
type file struct {
	path    string
	project bool
	l       *loader
}

// read returns the file's bytes, or nil when there is no file. A project's
// file comes from the repository: there a link or a special file is refused
// before it is opened, since a link could point anywhere and a FIFO would hang.
func (f file) read(fsys afero.Fs) ([]byte, error) {
	info, err := fsys.Stat(f.path)
	if l, ok := fsys.(afero.Lstater); ok && f.project {
		info, _, err = l.LstatIfPossible(f.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", unpath(err))
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("is a symbolic link; in a project it must be a regular file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("is larger than %s", showBytes(maxFileBytes))
	}
	h, err := fsys.OpenFile(f.path, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", unpath(err))
	}
	defer func() { _ = h.Close() }()
	data, err := io.ReadAll(io.LimitReader(h, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", unpath(err))
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("is larger than %s", showBytes(maxFileBytes))
	}
	if !f.project && info.Mode().Perm()&0o044 != 0 {
		f.l.openToOthers = true
	}
	return data, nil
}

// unpath drops the operation and path of a *fs.PathError: the problem's line
// names the file already.
func unpath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// load reads the file and sets its values; problems and warnings go to the
// loader.
func (f file) load(fsys afero.Fs) {
	data, err := f.read(fsys)
	if err != nil {
		f.problem(0, err.Error())
		return
	}
	if len(data) == 0 {
		return
	}
	top, err := decode(data)
	if err != nil {
		line, msg := 0, err.Error()
		if le, ok := errors.AsType[*yaml.LoadError](err); ok {
			line, msg = le.Mark.Line, le.Message
		}
		f.problem(line, "is not valid YAML: "+msg)
		return
	}
	if top == nil {
		return
	}
	if top.Kind != yaml.MappingNode {
		f.problem(top.Line, "must hold `key: value` lines")
		return
	}
	f.mapping(top, "")
}

// decode returns the top node of a document, nil when there is none.
func decode(data []byte) (top *yaml.Node, err error) {
	// The parser has had panics on hostile input; a configuration file of a
	// repository must not be able to end Ralph.
	defer func() {
		if r := recover(); r != nil {
			top, err = nil, fmt.Errorf("%v", r)
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := loader.Load(&yaml.Node{}); err == nil {
		return nil, errors.New("more than one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	if n := doc.Content[0]; !isNull(n) {
		return n, nil
	}
	return nil, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// pairs calls each for every key of a mapping, and reports keys that stand
// twice and keys that are no text.
func (f file) pairs(m *yaml.Node, prefix string, each func(name string, at, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		at, value := m.Content[i], m.Content[i+1]
		if at.Kind != yaml.ScalarNode {
			f.problem(at.Line, "a key must be plain text")
			continue
		}
		name := prefix + at.Value
		if first, ok := seen[name]; ok {
			f.problem(at.Line, fmt.Sprintf("key %q: stands here and in line %d", name, first))
			continue
		}
		seen[name] = at.Line
		each(name, at, value)
	}
}

func (f file) mapping(m *yaml.Node, prefix string) {
	f.pairs(m, prefix, func(name string, at, value *yaml.Node) {
		if k, ok := f.l.byName[name]; ok {
			f.set(k, at, value)
			return
		}
		switch {
		case slices.Contains(tables(), name) && f.project:
			f.warn(at.Line, fmt.Sprintf("key %q is ignored: only the user's own configuration may set it", name))
		case name == "profiles":
			f.profiles(value)
		case name == "prices":
			f.prices(value)
		case name == "agents":
			f.agents(value)
		case f.l.isGroup(name):
			if value.Kind == yaml.MappingNode {
				f.mapping(value, name+".")
			} else if !isNull(value) {
				f.problem(at.Line, fmt.Sprintf("key %q: must hold `key: value` lines", name))
			}
		default:
			f.problem(at.Line, fmt.Sprintf("key %q: unknown%s", name, f.l.suggest(name)))
		}
	})
}

// errCall is why a file does not set a key.
var errCall = errors.New("is set by its flag or its variable, not by a file")

// set takes the value of one key. An empty value is no value.
func (f file) set(k *Key, at, value *yaml.Node) {
	values, err := scalars(k, value)
	if err == nil && values == nil {
		return
	}
	if f.project && !k.Project {
		f.warn(at.Line, fmt.Sprintf("key %q is ignored: only the user's own configuration, environment or flags may set it", k.Name))
		return
	}
	if k.Call && err == nil {
		err = errCall
	}
	origin := Origin{Source: "user config", File: f.path, Line: at.Line}
	if f.project {
		origin.Source = ProjectSource
	}
	if err == nil {
		var probe Settings
		ptr := k.field(&probe)
		if err = parse(*k, ptr, values); err == nil && f.project && !k.may(ptr) {
			f.warn(at.Line, fmt.Sprintf("key %q is ignored: project config %s", k.Name, k.mayText))
			return
		}
	}
	if err == nil {
		err = f.l.set(k, values, origin)
	}
	if err != nil {
		f.problem(at.Line, fmt.Sprintf("key %q: %s", k.Name, err))
	}
}

// scalars returns the text of a scalar, or of a sequence of scalars where k
// takes a list; nil for no value.
func scalars(k *Key, n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case isNull(n):
		return nil, nil
	case n.Kind == yaml.ScalarNode:
		return []string{n.Value}, nil
	case n.Kind == yaml.SequenceNode && k.Kind == KindList:
		values := make([]string, 0, len(n.Content))
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: must be text", item.Line)
			}
			values = append(values, item.Value)
		}
		return values, nil
	case k.Kind == KindList:
		return nil, errors.New("must be a list of texts")
	}
	return nil, errors.New("must be a single value")
}

func (f file) profiles(n *yaml.Node) {
	f.table(n, "profiles", func(name string, _ *yaml.Node, fields *yaml.Node) {
		p := Profile{Name: name}
		f.pairs(fields, "", func(field string, at, value *yaml.Node) {
			text := value.Value
			switch {
			case value.Kind != yaml.ScalarNode:
				f.problem(at.Line, fmt.Sprintf("profile %q: %s must be text", name, field))
			case field == "model":
				p.Model = text
			case field == "base_url":
				p.BaseURL = text
			case field == "api_key" && text != "":
				p.Key, p.KeyFrom = text, "api_key"
				f.l.keyInFile = true
			case field == "api_key_env" && text != "":
				if p.Key == "" {
					p.Key, p.KeyFrom = f.l.getenv(text), "$"+text
				}
			case field != "api_key" && field != "api_key_env":
				f.problem(at.Line, fmt.Sprintf("profile %q: key %q: unknown%s", name, field,
					didYouMean(field, []string{"model", "base_url", "api_key", "api_key_env"})))
			}
		})
		f.l.cfg.Profiles = append(f.l.cfg.Profiles, p)
	})
}

func (f file) prices(n *yaml.Node) {
	f.table(n, "prices", func(model string, _ *yaml.Node, fields *yaml.Node) {
		var p Price
		cached := false
		f.pairs(fields, "", func(field string, at, value *yaml.Node) {
			k := Key{Name: field, Kind: KindFloat}
			var to *float64
			switch field {
			case "input":
				to = &p.Input
			case "cached_input":
				to, cached = &p.CachedInput, true
			case "output":
				to = &p.Output
			default:
				f.problem(at.Line, fmt.Sprintf("price of %q: key %q: unknown%s", model, field,
					didYouMean(field, []string{"input", "cached_input", "output"})))
				return
			}
			if err := parse(k, to, []string{value.Value}); err != nil {
				f.problem(at.Line, fmt.Sprintf("price of %q: key %q: %s", model, field, err))
			}
		})
		if !cached {
			p.CachedInput = p.Input
		}
		f.l.cfg.prices[model] = p
	})
}

// table walks a mapping of mappings.
func (f file) table(n *yaml.Node, name string, each func(name string, at, fields *yaml.Node)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		f.problem(n.Line, fmt.Sprintf("key %q: must hold `name: {…}` entries", name))
		return
	}
	f.pairs(n, "", func(entry string, at, fields *yaml.Node) {
		if fields.Kind != yaml.MappingNode {
			f.problem(at.Line, fmt.Sprintf("key %q: %q must hold `key: value` lines", name, entry))
			return
		}
		each(entry, at, fields)
	})
}

func (f file) problem(line int, msg string) {
	f.l.problem(ErrConfig, place(f.path, line)+" "+msg)
}

func (f file) warn(line int, msg string) {
	f.l.cfg.Warnings = append(f.l.cfg.Warnings, place(f.path, line)+" "+msg)
}

func place(path string, line int) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d:", path, line)
	}
	return path + ":"
}

func didYouMean(name string, candidates []string) string {
	if word := text.Closest(name, candidates); word != "" {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

func (l *loader) suggest(name string) string {
	names := make([]string, 0, len(l.cfg.keys)+3)
	for _, k := range l.cfg.keys {
		names = append(names, k.Name)
		// Flag spellings are a common slip in a file.
		if strings.ReplaceAll(name, "-", "_") == k.Name {
			return fmt.Sprintf("; did you mean %q?", k.Name)
		}
	}
	return didYouMean(name, append(names, tables()...))
}

// tables are the keys that hold entries with names of the user's; only the
// user's own configuration may have them, since they name endpoints and programs.
func tables() []string { return []string{"profiles", "prices", "agents"} }

func (l *loader) isGroup(name string) bool {
	return slices.ContainsFunc(l.cfg.keys, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}
