package publish

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// keepStaged keeps what the user alone had staged in an index that the command
// replaces: content that neither the new index nor a commit holds, as a commit of
// the old index on top of its HEAD. What a command of the same Ralph staged is
// not kept.
func (p *publication) keepStaged(ctx context.Context, pl *plan, in *intake, repo git.Plumbing) error {
	for _, t := range pl.trees {
		if t.index == nil || t.late || p.h.staged(t.dir) == t.was.Index {
			continue
		}
		old := t.before(pl.oidLen)
		old.entries = slices.Clone(old.entries)
		lost := old.objects(*t.index)
		if len(lost) == 0 {
			continue
		}
		head := pl.before.Refs.value(t.branch())
		if t.branch() == "" {
			_, head, _ = parseHead([]byte(t.was.Head))
		}
		lost, err := p.unheldBlobs(ctx, pl, in, head, lost)
		if err != nil {
			return err
		}
		if len(lost) == 0 {
			continue
		}
		// Of a conflict what is resolved.
		old.entries = slices.DeleteFunc(old.entries, func(e indexEntry) bool { return e.stage() != 0 })
		id, err := p.commitIndex(ctx, pl, repo, old, head, "what was staged before a command of Ralph")
		if err != nil {
			return err
		}
		name := droppedRefs + p.id + "/" + short(path.Join(t.name, "index"))
		if id != "" && !(p.again && exists(filepath.Join(pl.l.lower, name))) {
			pl.kept = append(pl.kept, claim{name: name, new: id})
		}
	}
	return nil
}

// unheldBlobs leaves of blobs those that neither the commit head nor what the
// command made holds.
func (p *publication) unheldBlobs(ctx context.Context, pl *plan, in *intake, head string, blobs []string) ([]string, error) {
	held := map[string]bool{}
	if head != "" {
		out, err := in.run(ctx, "verify", git.Call{Args: []string{"ls-tree", "-r", "-z", head}, Env: in.env()})
		if err != nil {
			return nil, err
		}
		for entry := range strings.SplitSeq(string(out), "\x00") {
			if f := strings.Fields(entry); len(f) > 2 {
				held[f[2]] = true
			}
		}
	}
	blobs = slices.DeleteFunc(blobs, func(id string) bool { return held[id] })
	var made []string
	for _, c := range pl.claims {
		if c.new != "" {
			made = append(made, c.new)
		}
	}
	if len(blobs) == 0 || len(made) == 0 {
		return blobs, nil
	}
	var known []string
	for _, id := range pl.before.Refs.all() {
		if isHex(id) {
			known = append(known, id)
		}
	}
	out, err := in.run(ctx, "verify", git.Call{Args: []string{"rev-list", "--objects", "--ignore-missing", "--stdin"}, Stdin: revisions(made, in.known(unique(known))), Env: in.env()})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		held[id] = true
	}
	return slices.DeleteFunc(blobs, func(id string) bool { return held[id] }), nil
}

// staged returns the digest of the index that the last command left in a git
// directory; "" when none did.
func (h *History) staged(dir string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.indexes[dir]
}

func (h *History) setStaged(dir, digest string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.indexes == nil {
		h.indexes = map[string]string{}
	}
	h.indexes[dir] = digest
}
