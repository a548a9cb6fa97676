package backup

import (
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// history is what the files of a repository name.
type history struct {
	refs map[string]string   // object ids by full name
	logs map[string][]string // the ids of each reflog by its path, the oldest first
	ids  []string            // all of them, each once
}

// before reads the history that the copy names.
func (m *mending) before() (history, error) {
	h := history{refs: refsOf(m.b.copies(), m.b.files), logs: map[string][]string{}}
	all := map[string]bool{}
	for name, s := range m.b.files {
		if !s.Mode.IsRegular() || !isRef(name) && !isLog(name) {
			continue
		}
		text, err := readText(filepath.Join(m.b.copies(), name))
		if err != nil {
			return h, err
		}
		ids := objectID().FindAllString(text, -1)
		if isLog(name) {
			h.logs[name] = ids
		}
		for _, id := range ids {
			all[id] = strings.Trim(id, "0") != ""
		}
	}
	maps.DeleteFunc(all, func(_ string, named bool) bool { return !named })
	h.ids = slices.Sorted(maps.Keys(all))
	return h, nil
}

// refsOf reads the refs that are files of a git directory or a copy of one. What cannot
// be read is left out.
func refsOf(dir string, files map[string]stamp) map[string]string {
	refs := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) { // packed-refs before refs, which win
		if name != "packed-refs" && !strings.HasPrefix(name, "refs/") {
			continue
		}
		text, _ := readText(filepath.Join(dir, name))
		for line := range strings.Lines(text) {
			id, ref, packed := strings.Cut(strings.TrimSpace(line), " ")
			if !packed {
				ref = name
			}
			if objectID().MatchString(id) && strings.HasPrefix(ref, "refs/") {
				refs[ref] = id
			}
		}
	}
	return refs
}

func isLog(name string) bool {
	return strings.HasPrefix(name, "logs/") || strings.HasPrefix(name, "worktrees/") && strings.Contains(name, "/logs/")
}

func isRef(name string) bool {
	return strings.HasPrefix(name, "refs/") || name == "packed-refs" || isHead(name)
}

// isHead reports HEAD, of a linked work tree too.
func isHead(name string) bool {
	match, _ := path.Match("worktrees/*/HEAD", name) // the pattern is good
	return name == "HEAD" || match
}

func readText(at string) (string, error) {
	f, _, err := openFile(at)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxTextBytes))
	return string(text), err
}
