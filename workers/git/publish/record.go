package publish

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// record is what Ralph knows of a repository from before a command. What is
// still so when the command has ended was not changed by the user.
type record struct {
	Common string
	Layer  string // where what the command writes is; "" is where the record is
	Grant  Grant
	Refs   refState
	Stash  fileID // of the reflog of the stash
	// Trees are the git directories of work trees that commands can write in,
	// relative to Common: "." or "worktrees/NAME".
	Trees map[string]treeState
	// Modules are the repositories of submodules, by their name below modules.
	Modules map[string]record
}

// reader reads records.
type reader struct {
	refs  refReader
	index indexReader
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// read records a repository. root is the directory that commands write in.
func (r *reader) read(common, gitDir, root string) (record, error) {
	refs, err := r.refs.read(common)
	if err != nil {
		return record{}, err
	}
	rec := record{Common: common, Refs: refs, Stash: idOf(filepath.Join(common, "logs", "refs", "stash")), Trees: map[string]treeState{}, Modules: map[string]record{}}
	oidLen := hashLen(common)
	own, err := filepath.Rel(common, gitDir)
	if err != nil {
		return rec, err
	}
	rec.Trees[filepath.ToSlash(own)] = r.index.readTree(gitDir, oidLen)
	list, _ := os.ReadDir(filepath.Join(common, "worktrees")) // mostly there is none
	for _, e := range list {
		at := filepath.Join(common, "worktrees", e.Name())
		if at != gitDir && below(root, worktreeOf(at)) {
			rec.Trees["worktrees/"+e.Name()] = r.index.readTree(at, oidLen)
		}
	}
	for _, name := range modules(filepath.Join(common, "modules"), "", 0) {
		at := filepath.Join(common, "modules", name)
		if rec.Modules[filepath.ToSlash(name)], err = r.read(at, at, root); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// worktreeOf returns the work tree that a directory of worktrees/ belongs to, "/"
// where that cannot be read.
func worktreeOf(gitDir string) string {
	text, err := readFile(filepath.Join(gitDir, "gitdir"), maxRefBytes)
	if err != nil {
		return "/"
	}
	return filepath.Dir(filepath.Clean(strings.TrimSpace(string(text))))
}

// maxModuleDepth bounds how many directories the name of a submodule has.
const maxModuleDepth = 8

// modules lists the names of the repositories of submodules below dir.
func modules(dir, at string, depth int) []string {
	list, err := os.ReadDir(filepath.Join(dir, at))
	if err != nil || depth > maxModuleDepth {
		return nil
	}
	var out []string
	for _, e := range list {
		name := filepath.Join(at, e.Name())
		switch {
		case !e.IsDir():
		case exists(filepath.Join(dir, name, "HEAD")):
			out = append(out, name)
		default:
			out = append(out, modules(dir, name, depth+1)...)
		}
	}
	return out
}

var (
	sha256Line = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?mi)^\s*objectformat\s*=\s*"?sha256`) })
	reftable   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?mi)^\s*refstorage\s*=\s*"?reftable`) })
	partial    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?mi)^\s*(?:partialclone|promisor)\s*=`) })
)

func config(common string) []byte {
	text, _ := readFile(filepath.Join(common, "config"), 1<<20) // none says nothing
	return text
}

// hashLen is how many bytes an object id of a repository has.
func hashLen(common string) int {
	if sha256Line().Match(config(common)) {
		return 32
	}
	return 20
}

// unsupported says why commands cannot work on a repository through a layer; ""
// when they can.
func unsupported(common string) string {
	switch {
	case reftable().Match(config(common)) || exists(filepath.Join(common, "reftable")):
		return "its refs are kept as a reftable"
	case slices.ContainsFunc([]string{".", "objects", "refs", "refs/heads", "refs/tags", "logs", "modules", "worktrees", "objects/info", "objects/pack"}, func(name string) bool {
		info, err := os.Lstat(filepath.Join(common, name))
		return err == nil && !info.IsDir()
	}):
		return "one of its directories is a link"
	case strings.ContainsAny(common, "\n\""):
		return "its path holds a character that git cannot name in a list of alternates"
	}
	return ""
}

// short is the name of a ref without refs/.
func short(ref string) string { return path.Clean(strings.TrimPrefix(ref, "refs/")) }

// equal reports whether nothing changed between two records.
func (a record) equal(b record) bool {
	return a.Common == b.Common && a.Grant.equal(b.Grant) && a.Stash == b.Stash && a.Refs.PackedID == b.Refs.PackedID && maps.Equal(a.Refs.Loose, b.Refs.Loose) &&
		maps.EqualFunc(a.Trees, b.Trees, treeState.equal) && maps.EqualFunc(a.Modules, b.Modules, record.equal)
}
