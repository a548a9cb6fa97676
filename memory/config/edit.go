package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
)

// Edit is one change of a configuration file. Key is spelled as in YAML, with
// dots: history.max_messages. Of a list Values are all its entries; nil takes
// the key out of the file.
type Edit struct {
	Key    string
	Values []string
}

// ErrByHand is matched when a file is written in a way that cannot be changed
// key by key.
var ErrByHand = errors.New("is written in a way that has to be edited by hand")

// Check says whether a value may stand in the user's file, or with project in
// the project's, where it can only narrow.
func (e Edit) Check(project bool) error {
	keys := Keys()
	at := slices.IndexFunc(keys, func(k Key) bool { return k.Name == e.Key })
	switch {
	case e.Values == nil:
		return nil // whatever stands there can go
	case at < 0:
		return fmt.Errorf("key %q: unknown%s", e.Key, didYouMean(e.Key, names(keys)))
	}
	k := keys[at]
	if project && !k.Project {
		return fmt.Errorf("key %q: only the user's own configuration, environment or flags may set it", k.Name)
	}
	if k.Call {
		return fmt.Errorf("key %q: %w", k.Name, errCall)
	}
	if k.Kind != KindList && len(e.Values) != 1 {
		return fmt.Errorf("key %q: takes one value", k.Name)
	}
	var probe Settings
	ptr := k.field(&probe)
	if err := parse(k, ptr, e.Values); err != nil {
		return fmt.Errorf("key %q: %w", k.Name, err)
	}
	if project && !k.may(ptr) {
		return fmt.Errorf("key %q: project config %s", k.Name, k.mayText)
	}
	return nil
}

func names(keys []Key) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.Name
	}
	return list
}

// Save makes the edits in the file at path, the user's or with project the
// project's, durably: all of them, or after an error none. A file that is not
// there is made, with mode 0600. Every byte that is not of an edited key stays.
// The user's own file may be a link, which is followed; the project's not. It
// is safe beside other processes that do the same. changed says that the file
// says something else than before.
func Save(fsys afero.Fs, path string, project bool, edits ...Edit) (changed bool, err error) {
	for _, e := range edits {
		if err := e.Check(project); err != nil {
			return false, err
		}
	}
	return replace(fsys, path, project, func(data []byte) ([]byte, error) { return Rewrite(data, edits...) })
}

// Text returns what stands in a configuration file; nil when there is none. It
// refuses what Load refuses to read.
func Text(fsys afero.Fs, path string, project bool) ([]byte, error) {
	data, err := file{path: path, project: project, l: &loader{}}.read(fsys)
	if err != nil {
		return nil, fmt.Errorf("%q %w", path, err)
	}
	return data, nil
}

// Put makes after the content of the file, as Save does, if it is valid and the
// file still says what it said before. An error that concerns the text is an
// *Error with its lines.
func Put(fsys afero.Fs, path string, project bool, before, after []byte) error {
	probe := afero.NewMemMapFs()
	if err := afero.WriteFile(probe, path, after, 0o600); err != nil {
		return err
	}
	from := Sources{FS: probe, UserFile: path}
	if project {
		from = Sources{FS: probe, ProjectFile: path}
	}
	if _, err := Load(from); err != nil {
		return err
	}
	_, err := replace(fsys, path, project, func(data []byte) ([]byte, error) {
		if !bytes.Equal(data, before) {
			return nil, errors.New("it was changed meanwhile")
		}
		return after, nil
	})
	return err
}

// replace puts what change makes of a file in its place.
func replace(fsys afero.Fs, path string, project bool, change func([]byte) ([]byte, error)) (changed bool, err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil && !project {
		path = real
	} else if info, err := durable.Lstat(fsys, path); err == nil && !project && info.Mode()&fs.ModeSymlink != 0 {
		return false, fmt.Errorf("save %q: it is a link that leads nowhere", path)
	}
	dir := filepath.Dir(path)
	if l, ok := fsys.(afero.Lstater); ok && project {
		if info, _, err := l.LstatIfPossible(dir); err == nil && !info.IsDir() {
			return false, fmt.Errorf("save %q: %q is no directory", path, dir)
		}
	}
	if err := durable.MkdirAll(fsys, dir, 0o700); err != nil {
		return false, err
	}
	locked := dir
	if project {
		locked = filepath.Dir(dir) // .ralph itself is held by the Ralph that works there
	}
	unlock, err := durable.LockDir(fsys, locked)
	if err != nil {
		return false, fmt.Errorf("save %q: %w", path, err)
	}
	defer unlock()
	data, err := Text(fsys, path, project)
	if err != nil {
		return false, err
	}
	text, err := change(data)
	if err != nil {
		return false, fmt.Errorf("save %q: %w", path, err)
	}
	if bytes.Equal(text, data) {
		return false, nil
	}
	return true, durable.Replace(fsys, path, text, 0o600)
}

// Rewrite returns the text of a configuration file with the edits made, and
// every other byte as it was. The error matches ErrByHand when the file is
// written in a way in which that cannot be done.
func Rewrite(data []byte, edits ...Edit) ([]byte, error) {
	for _, e := range edits {
		top, err := decode(data)
		if err != nil {
			return nil, fmt.Errorf("it is not valid YAML: %w", err)
		}
		if top != nil && (top.Kind != yaml.MappingNode || top.Style&yaml.FlowStyle != 0) {
			return nil, ErrByHand
		}
		want := flatten(top)
		if delete(want, e.Key); e.Values != nil {
			want[e.Key] = e.Values
		}
		text := newLines(data).edit(top, e)
		after, err := decode(text)
		if err != nil || !reflect.DeepEqual(flatten(after), want) {
			return nil, ErrByHand
		}
		data = text
	}
	return data, nil
}

// flatten is what a document says: the values by the whole names of their keys.
func flatten(top *yaml.Node) map[string][]string {
	all := map[string][]string{}
	var walk func(n *yaml.Node, name string, depth int)
	walk = func(n *yaml.Node, name string, depth int) {
		if n.Kind == yaml.AliasNode && n.Alias != nil && depth < 20 {
			walk(n.Alias, name, depth+1)
			return
		}
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], strings.TrimPrefix(name+"."+n.Content[i].Value, "."), depth+1)
			}
		case yaml.SequenceNode:
			all[name] = []string{}
			for i, item := range n.Content {
				if item.Kind == yaml.ScalarNode {
					all[name] = append(all[name], item.Value)
				} else {
					walk(item, fmt.Sprintf("%s[%d]", name, i), depth+1)
				}
			}
		case yaml.ScalarNode:
			if !isNull(n) {
				all[name] = []string{n.Value}
			}
		}
	}
	if top != nil {
		walk(top, "", 0)
	}
	return all
}

// lines are the lines of a file, each with its end.
type lines struct {
	list []string
	end  string // how lines end here
}

func newLines(data []byte) lines {
	l := lines{end: "\n", list: slices.Collect(strings.Lines(string(data)))}
	if bytes.Contains(data, []byte("\r\n")) {
		l.end = "\r\n"
	}
	if n := len(l.list); n > 0 && !strings.HasSuffix(l.list[n-1], "\n") {
		l.list[n-1] += l.end
	}
	return l
}

// edit makes one change; Rewrite sees whether it is the one that was meant.
func (l lines) edit(top *yaml.Node, e Edit) []byte {
	group, at := locate(top, e.Key, "")
	switch {
	case at >= 0 && e.Values == nil:
		from, to := l.span(group, at)
		if group != top && len(group.Content) == 2 { // the group has nothing else
			if parent, i := holding(top, group); parent != nil {
				from, to = l.span(parent, i)
			}
		}
		l.list = slices.Delete(l.list, from, to)
	case at >= 0:
		from, to := l.span(group, at)
		key, value := group.Content[at], group.Content[at+1]
		head := l.list[from][:key.Column-1+len(l.spelled(key))]
		lines := l.entry(head+":", strings.Repeat(" ", key.Column-1), e)
		tail := l.remark(from, value)
		if behind := strings.TrimRight(strings.TrimPrefix(l.list[from][len(head):], ":"), "\r\n"); strings.HasPrefix(strings.TrimSpace(behind), "#") {
			tail = behind // the value begins below
		} else if to != from+1 || len(lines) != 1 {
			tail = ""
		}
		lines[0] = strings.TrimSuffix(lines[0], l.end) + tail + l.end
		if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 { // what is said in between stays
			lines = slices.Insert(lines, 1, slices.DeleteFunc(slices.Clone(l.list[from+1:to]), func(line string) bool { return !strings.HasPrefix(strings.TrimSpace(line), "#") })...)
		}
		l.list = slices.Replace(l.list, from, to, lines...)
	case e.Values != nil:
		l.insert(top, e)
	}
	return []byte(strings.Join(l.list, ""))
}

// spelled is a key as it stands in its line, with its quotes.
func (l lines) spelled(key *yaml.Node) string {
	rest := l.list[key.Line-1][key.Column-1:]
	if key.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		if n := strings.IndexByte(rest[1:], rest[0]); n >= 0 {
			return rest[:n+2]
		}
	}
	return rest[:min(len(rest), len(key.Value))]
}

// remark is the comment behind a value of one line, with the blanks before it.
func (l lines) remark(at int, value *yaml.Node) string {
	if value.LineComment == "" || value.Line-1 != at {
		return ""
	}
	line := strings.TrimRight(l.list[at], "\r\n")
	i := strings.LastIndex(line, strings.TrimSpace(value.LineComment))
	if i < 0 {
		return ""
	}
	for i > 0 && (line[i-1] == ' ' || line[i-1] == '\t') {
		i--
	}
	return line[i:]
}

// entry is a key with its value, as lines.
func (l lines) entry(head, indent string, e Edit) []string {
	keys := Keys()
	if at := slices.IndexFunc(keys, func(k Key) bool { return k.Name == e.Key }); at < 0 || keys[at].Kind != KindList {
		return []string{head + " " + scalarText(e.Values[0]) + l.end}
	}
	if len(e.Values) == 0 {
		return []string{head + " []" + l.end}
	}
	out := []string{head + l.end}
	for _, v := range e.Values {
		out = append(out, indent+"  - "+scalarText(v)+l.end)
	}
	return out
}

// scalarText is a text as YAML of one line.
func scalarText(v string) string {
	style := yaml.Style(0)
	if strings.ContainsAny(v, "\n\r\t") || strings.TrimSpace(v) != v {
		style = yaml.DoubleQuotedStyle
	}
	data, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Value: v, Style: style})
	text := strings.TrimRight(string(data), "\n")
	var back any
	if err != nil || strings.Contains(text, "\n") || text == "" || yaml.Unmarshal(data, &back) != nil || back == nil {
		return fmt.Sprintf("%q", v) // what YAML and Go quote alike
	}
	return text
}

// locate finds the mapping that holds a key, and where in it; -1 when none does.
func locate(m *yaml.Node, key, prefix string) (*yaml.Node, int) {
	if m == nil || m.Kind != yaml.MappingNode || m.Style&yaml.FlowStyle != 0 {
		return nil, -1
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		name := prefix + m.Content[i].Value
		if name == key {
			return m, i
		}
		if strings.HasPrefix(key, name+".") {
			if group, at := locate(m.Content[i+1], key, name+"."); at >= 0 {
				return group, at
			}
		}
	}
	return nil, -1
}

// holding finds the entry of which a mapping is the value.
func holding(m, group *yaml.Node) (*yaml.Node, int) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if v := m.Content[i+1]; v == group {
			return m, i
		} else if parent, at := holding(v, group); parent != nil {
			return parent, at
		}
	}
	return nil, -1
}

// span are the lines of an entry of a block mapping: its own, and those below
// it that are further in, but not what stands before the next entry.
func (l lines) span(m *yaml.Node, at int) (from, to int) {
	key := m.Content[at]
	from = key.Line - 1
	to = from + 1
	value := m.Content[at+1]
	sequence, block := value.Kind == yaml.SequenceNode, value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	for i := to; i < len(l.list); i++ {
		text := strings.TrimLeft(l.list[i], " ")
		in := len(l.list[i]) - len(text)
		switch trimmed := strings.TrimSpace(text); {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") && (!block || in < key.Column):
			continue // of this entry only if more of it follows
		case in >= key.Column, sequence && in == key.Column-1 && strings.HasPrefix(text, "-"):
			to = i + 1
		default:
			return from, to
		}
	}
	return from, to
}

// insert puts an entry at the end of its group, which is made where there is
// none.
func (l *lines) insert(top *yaml.Node, e Edit) {
	name, rest, nested := strings.Cut(e.Key, ".")
	if nested && top != nil {
		for i := 0; i+1 < len(top.Content); i += 2 {
			value := top.Content[i+1]
			if top.Content[i].Value != name {
				continue
			}
			_, to := l.span(top, i)
			indent := "  "
			if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
				indent = strings.Repeat(" ", value.Content[0].Column-1)
			}
			l.list = slices.Insert(l.list, to, l.entry(indent+rest+":", indent, e)...)
			return
		}
	}
	if !nested {
		l.list = append(l.list, l.entry(name+":", "", e)...)
		return
	}
	l.list = append(append(l.list, name+":"+l.end), l.entry("  "+rest+":", "  ", e)...)
}

// Skeleton is a configuration file in which every setting stands as a remark with
// what it does and its default: those that the user's own file may hold, or with
// project the project's.
func Skeleton(project bool) string {
	var b strings.Builder
	b.WriteString("# Settings of Ralph for this project, for everybody who works on it. They can only\n# narrow what the user allows. Commit this file to share it.\n#")
	if !project {
		b.Reset()
		b.WriteString("# Your settings of Ralph, for all projects.")
	}
	b.WriteString(" Take the # away to set one; `ralph config` shows\n# what counts and where it comes from.\n")
	group := ""
	for _, k := range Keys() {
		if project && !k.Project || k.Secret || k.Call || k.Name == "dir" {
			continue
		}
		name, indent := k.Name, ""
		if g, rest, nested := strings.Cut(name, "."); nested {
			if g != group {
				fmt.Fprintf(&b, "\n# %s:\n", g)
			}
			group, name, indent = g, rest, "  "
		} else {
			group = ""
			b.WriteByte('\n')
		}
		help := k.Help
		if project && k.mayText != "" {
			help += "; the project " + k.mayText
		}
		value := k.Default
		switch {
		case k.Kind == KindList:
			value = "[]"
		case value == "":
			value = `""`
		}
		fmt.Fprintf(&b, "# %s# %s\n# %s%s: %s\n", indent, help, indent, name, value)
	}
	return b.String()
}
