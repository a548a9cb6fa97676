package plan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/afero"

	"ralph/coordinator/plan/tree"
	"ralph/memory/durable"
)

// maxPlanBytes bounds the file of a plan: 10,000 detailed tasks are a tenth of
// it.
const maxPlanBytes = 32 << 20

// place is where a plan's file is.
type place struct {
	fs   afero.Fs
	abs  string
	rel  string // as messages name it: relative to the root where it is inside
	root string
}

func (o Options) place(path string) place {
	p := place{fs: o.FS, root: filepath.Clean(o.Root)}
	if p.fs == nil {
		p.fs = durable.Disk()
	}
	if p.abs = path; !filepath.IsAbs(path) {
		p.abs = filepath.Join(p.root, path)
	}
	p.abs = filepath.Clean(p.abs)
	p.rel = p.abs
	if rel, err := filepath.Rel(p.root, p.abs); err == nil && filepath.IsLocal(rel) {
		p.rel = filepath.ToSlash(rel)
	}
	return p
}

// errOutside is the fault of a path in the project that a linked directory
// leads out of it.
var errOutside = errors.New("is outside the project by a symbolic link")

// confined refuses a path in the project that a linked directory leads out of.
// What the user names outside is the user's.
func (p place) confined() error {
	if !durable.OnDisk(p.fs) || p.rel == p.abs {
		return nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(p.abs))
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(p.root)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(root, dir); err != nil || !filepath.IsLocal(rel) {
		return errOutside
	}
	return nil
}

// read reads the file whole. No link, FIFO, device or huge file is read.
func (p place) read() ([]byte, error) {
	if err := p.confined(); err != nil {
		return nil, p.fail("open plan", err)
	}
	// Told before a hundred megabytes are read.
	if info, err := durable.Lstat(p.fs, p.abs); err == nil && info.Mode().IsRegular() && info.Size() > maxPlanBytes {
		return nil, p.fail("open plan", durable.ErrTooLarge)
	}
	data, err := durable.ReadFile(p.fs, p.abs, maxPlanBytes)
	if err != nil {
		return nil, p.fail("open plan", err)
	}
	return data, nil
}

// fail is the error of something that the disk refused.
func (p place) fail(op string, err error) error {
	out := &Problems{Op: op, Path: p.rel, Err: err}
	if de, ok := errors.AsType[*durable.Error](err); ok {
		out.Err, out.Hint = de.Err, de.Hint
	}
	if pe, ok := errors.AsType[*fs.PathError](out.Err); ok {
		out.Err = pe.Err // the path is named already
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		out.Err = missing{out.Err}
		out.Hint = noPlanHint
	case errors.Is(err, durable.ErrSymlink), errors.Is(err, errOutside):
		out.Hint = "put the file itself there: Ralph reads and writes no plan through a link"
	case errors.Is(err, durable.ErrNotRegular):
		out.Hint = "name a plan's file: RALPH_TASKS.md, prd.json or RALPH-LOOP-PLAN.yaml"
	case errors.Is(err, durable.ErrTooLarge):
		out.Hint = "a plan may have 32 MiB; is this the right file?"
	}
	return out
}

// missing is ErrNoPlan and what the disk said.
type missing struct{ error }

// Unwrap returns both.
func (m missing) Unwrap() []error { return []error{ErrNoPlan, m.error} }

// fingerprint is the stamp of some bytes.
func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// form is how one kind of file is read and written.
type form struct {
	name   string
	parse  func(data []byte) (*tree.Tree, []tree.Fault)
	read   func(r *reader, t *tree.Tree) (*Plan, []*tree.Node)
	change func(t *Task, n *tree.Node, m Mark) ([]tree.Change, error)
	noun   string
	hint   string
}

// fileTracker keeps a plan in a file of JSON or YAML. It is safe for concurrent
// use.
type fileTracker struct {
	place
	form

	mu    sync.Mutex
	data  []byte // what was read or written last
	stamp string
	tree  *tree.Tree // of data; nil until it is needed
	plan  *Plan      // of tree
	nodes []*tree.Node
	fault error // why data is no plan
	links links
}

// Name implements Tracker.
func (f *fileTracker) Name() string { return f.form.name }

// Stamp implements Tracker.
func (f *fileTracker) Stamp(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.look(ctx); err != nil {
		return "", err
	}
	return f.stamp, nil
}

// Load implements Tracker.
func (f *fileTracker) Load(ctx context.Context) (*Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.look(ctx); err != nil {
		return nil, err
	}
	if err := f.know(); err != nil {
		return nil, err
	}
	p := *f.plan
	p.detach()
	p.Stamp = f.stamp
	return &p, nil
}

// look reads the file again.
func (f *fileTracker) look(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := f.place.read()
	if err != nil {
		return err
	}
	if f.stamp == "" || !bytes.Equal(data, f.data) {
		f.take(data, nil)
	}
	return nil
}

// take makes data what is known of the file; t is its tree where there is one.
func (f *fileTracker) take(data []byte, t *tree.Tree) {
	f.data, f.stamp = data, fingerprint(data)
	f.tree, f.plan, f.nodes, f.fault = t, nil, nil, nil
}

// know makes a plan of what was read.
func (f *fileTracker) know() error {
	if f.plan != nil || f.fault != nil {
		return f.fault
	}
	t, p, nodes, err := f.understand(f.data, f.tree)
	f.tree, f.plan, f.nodes, f.fault = t, p, nodes, err
	return err
}

func (f *fileTracker) understand(data []byte, t *tree.Tree) (*tree.Tree, *Plan, []*tree.Node, error) {
	r := &reader{file: f.rel, noun: f.noun, links: &f.links}
	if len(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))) == 0 {
		return nil, nil, nil, f.empty()
	}
	if t == nil {
		var faults []tree.Fault
		t, faults = f.parse(data)
		for _, one := range faults {
			r.fault(one.Line, one.Column, "", "%s", one.Text)
		}
		if t == nil {
			return nil, nil, nil, f.refuse(r)
		}
	}
	p, nodes := f.form.read(r, t)
	if len(r.problems) > 0 {
		return t, nil, nil, f.refuse(r)
	}
	if !p.work() {
		return t, nil, nil, f.empty()
	}
	p.Tracker, p.Path, p.Warnings = f.form.name, f.rel, inOrder(r.warnings)
	return t, p, nodes, nil
}

func (f *fileTracker) empty() error {
	return &Problems{Op: "open plan", Path: f.rel, Err: ErrEmpty, Hint: "an empty plan is not taken as done; add tasks, or name another plan with --plan"}
}

func (f *fileTracker) refuse(r *reader) error {
	return &Problems{Op: "open plan", Path: f.rel, List: inOrder(r.problems), Hint: f.hint}
}

// maxTries bounds how often a file that others change all the time is tried.
const maxTries = 20

// Mark implements Tracker.
func (f *fileTracker) Mark(ctx context.Context, id string, m Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mark(ctx, id, m)
}

func (f *fileTracker) mark(ctx context.Context, id string, m Mark) error {
	if !m.Status.Valid() {
		return f.refused(id, errors.New("there is no status "+string(m.Status)), "")
	}
	if err := f.look(ctx); err != nil {
		return err
	}
	was := f.data
	for range maxTries {
		next, err := f.patch(id, m)
		if err != nil {
			return err
		}
		if next == nil && bytes.Equal(was, f.data) {
			return nil
		}
		if next != nil {
			f.take(next.Data, next)
		}
		late, err := durable.Swap(f.fs, f.abs, was, f.data, 0o644)
		switch {
		case errors.Is(err, durable.ErrChanged):
			if err := f.look(ctx); err != nil {
				return err
			}
			was = f.data
		case err != nil && late == nil:
			f.stamp = "" // what stands there is to be read again
			return f.place.fail("mark task in plan", err)
		case late == nil:
			return nil
		default:
			// Somebody wrote the file at the same moment: the mark goes into
			// that text.
			was = f.data
			f.take(late, nil)
		}
	}
	f.stamp = ""
	return f.refused(id, durable.ErrChanged, "another program writes the plan all the time; stop it")
}

// patch makes the tree with the mark in it; nil when all is as it should be.
func (f *fileTracker) patch(id string, m Mark) (*tree.Tree, error) {
	if err := f.know(); err != nil {
		return nil, err
	}
	i, ok := f.plan.index[id]
	if !ok {
		return nil, f.refused(id, ErrNoTask, "")
	}
	changes, err := f.change(&f.plan.Tasks[i], f.nodes[i], m)
	if err != nil {
		return nil, f.refused(id, err, "")
	}
	old := f.tree
	next, err := old.Set(f.nodes[i], changes)
	if err != nil {
		return nil, f.refused(id, err, "")
	}
	if next == old {
		return nil, nil
	}
	return next, nil
}

// refused is the error of a mark that was not made.
func (f *fileTracker) refused(id string, err error, hint string) error {
	return &Problems{Op: "mark " + f.noun + " " + clip(id) + " in plan", Path: f.rel, Err: err, Hint: hint}
}

// Release implements Tracker.
func (f *fileTracker) Release(ctx context.Context, actor string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// What a Ralph was about to write that was killed meanwhile.
	if err := durable.Sweep(f.fs, filepath.Dir(f.abs), filepath.Base(f.abs)); err != nil {
		return nil, f.fail("give back tasks", err)
	}
	if err := f.look(ctx); err != nil {
		return nil, err
	}
	if err := f.know(); err != nil {
		return nil, err
	}
	var ids []string
	for i := range f.plan.Tasks {
		if t := &f.plan.Tasks[i]; t.Status == InProgress && claimedBy(t.Assignee, actor) {
			ids = append(ids, t.ID)
		}
	}
	for i, id := range ids {
		if err := f.mark(ctx, id, Mark{Status: Pending}); err != nil {
			return ids[:i], err
		}
	}
	return ids, nil
}

// claimedBy reports whether a claimant begins with actor, as a whole name: a
// session s-1 does not speak for s-12.
func claimedBy(who, actor string) bool {
	if actor == "" || !strings.HasPrefix(who, actor) {
		return false
	}
	rest := who[len(actor):]
	if rest == "" || !alnum(actor[len(actor)-1]) {
		return true
	}
	return !alnum(rest[0])
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// claim decides on a task that actor wants.
func claim(t *Task, actor string) error {
	switch {
	case t.Status == Done:
		return taken{"it is done"}
	case t.Status == InProgress && t.Assignee == "":
		return taken{"it is in progress"}
	case t.Status == InProgress && t.Assignee != actor:
		return taken{"it is claimed by " + clip(t.Assignee)}
	}
	return nil
}

// taken is ErrTaken with the reason.
type taken struct{ why string }

// Error returns the sentinel's text and the reason.
func (t taken) Error() string { return ErrTaken.Error() + ": " + t.why }

// Unwrap returns ErrTaken.
func (t taken) Unwrap() error { return ErrTaken }
