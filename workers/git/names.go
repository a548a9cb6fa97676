package git

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkRevision refuses what git could take for an option or for several
// arguments.
func checkRevision(rev string) error {
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsFunc(rev, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("revision %q: %w", rev, ErrBadName)
	}
	return nil
}

// checkPaths cleans paths relative to the root; none may lead out of it. nil
// stays nil.
func checkPaths(paths []string) ([]string, error) {
	if paths == nil {
		return nil, nil
	}
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		clean := path.Clean(p)
		if p == "" || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(p, 0) {
			return nil, fmt.Errorf("path %q: %w: it must be relative to the root and inside it", p, ErrBadName)
		}
		out = append(out, clean)
	}
	return out, nil
}

// checkID keeps to what git-check-ref-format(1) allows below a prefix, and to
// printable ASCII.
func checkID(id string) error {
	bad := id == "" || strings.Contains(id, "..") || strings.Contains(id, "@{") || strings.HasSuffix(id, ".") ||
		strings.ContainsAny(id, `~^:?*[\`) || strings.HasPrefix(id, "-") || len(id) > 200
	for i := range len(id) {
		bad = bad || id[i] <= ' ' || id[i] >= 0x7f
	}
	for part := range strings.SplitSeq(id, "/") {
		bad = bad || part == "" || part == "@" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return fmt.Errorf("checkpoint id %q: %w", id, ErrBadName)
	}
	return nil
}

// ownPath says that a path relative to the root is Ralph's own directory.
func ownPath(p string) bool { return p == ".ralph" || strings.HasPrefix(p, ".ralph/") }

// stateFiles are the files in the root in which Ralph keeps its state.
func stateFiles() []string {
	return []string{"AGENT.md", "RALPH_GOALS.md", "RALPH_PROGRESS.md", "RALPH_TASKS.md", "RALPH_TODO.md"}
}

func stateFile(p string) bool { return slices.Contains(stateFiles(), p) }
