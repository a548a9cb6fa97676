package trees

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/workers/git"
)

const (
	// maxEdited bounds the content of one file, and maxEdits that of all, which
	// Edits reads into memory.
	maxEdited = 1 << 20
	maxEdits  = 64 << 20
)

// Edit is what an agent did to one file: its content before and after, nil where
// it is not there. Big says that one of them was too big to be read, and is nil.
type Edit struct {
	Path          string // relative to the repository, with slashes
	Before, After []byte
	Big           bool
}

// Edits are the files that an agent has changed since it began, committed or not,
// in the order of their paths. The content of a link is where it leads; submodules
// are left out.
func (t *Trees) Edits(ctx context.Context, agent string) ([]Edit, error) {
	var list []Edit
	err := t.compare(ctx, agent, func(p git.Plumbing, base, tree string) error {
		changes, err := t.changed(ctx, base, tree)
		if err != nil {
			return err
		}
		var blobs []string
		for _, c := range changes {
			if isFile(c.oldMode) {
				blobs = append(blobs, c.oldHash)
			}
			if isFile(c.newMode) {
				blobs = append(blobs, c.newHash)
			}
		}
		texts, err := contents(ctx, p, blobs)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if !isFile(c.oldMode) && !isFile(c.newMode) {
				continue
			}
			e := Edit{Path: c.path}
			for _, side := range []struct {
				mode, hash string
				to         *[]byte
			}{{c.oldMode, c.oldHash, &e.Before}, {c.newMode, c.newHash, &e.After}} {
				if isFile(side.mode) {
					text, ok := texts[side.hash]
					*side.to, e.Big = text, e.Big || !ok
				}
			}
			list = append(list, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("edits of %q: %w", agent, err)
	}
	return list, nil
}

func isFile(mode string) bool {
	return mode != modeNone && mode != modeGitlink
}

// contents reads blobs; those that are too big are not in the answer.
func contents(ctx context.Context, p git.Plumbing, blobs []string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	if len(blobs) == 0 {
		return texts, nil
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objectsize)"}, Stdin: []byte(strings.Join(blobs, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	var fit []string
	sizes := map[string]int{}
	for line := range strings.Lines(string(out)) {
		hash, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(size)
		if _, twice := sizes[hash]; twice || err != nil || n > maxEdited {
			continue
		}
		sizes[hash] = n
		fit = append(fit, hash)
	}
	// The small ones first: a heap of data must not push out what checks it.
	slices.SortStableFunc(fit, func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
	left := maxEdits
	fit = slices.DeleteFunc(fit, func(hash string) bool { left -= sizes[hash]; return left < 0 })
	if len(fit) == 0 {
		return texts, nil
	}
	out, _, err = p.Run(ctx, git.Call{Args: []string{"cat-file", "--batch=%(objectname)"}, Stdin: []byte(strings.Join(fit, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	for rest := out; len(rest) > 0; {
		hash, text, _ := strings.Cut(string(rest[:min(len(rest), 80)]), "\n")
		at, n := len(rest[:min(len(rest), 80)])-len(text), sizes[hash]
		if at+n+1 > len(rest) {
			return nil, fmt.Errorf("git cat-file: %.80q", rest)
		}
		texts[hash], rest = rest[at:at+n:at+n], rest[at+n+1:]
	}
	return texts, nil
}
