package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

// ErrReadOnly is matched by the error of Open when commands can only see the
// repository read-only.
var ErrReadOnly = errors.New("commands see the git repository read-only")

// maxRecord bounds what is on record of a command: the refs of the repository, and what it has changed.
const maxRecord = 256 << 20

const (
	purpose     = "history" // of the names of layers
	recordFile  = "before.json"
	journalFile = "publishing.json"
	// publishTime bounds one publication.
	publishTime = 5 * time.Minute
)

// Options of a History.
type Options struct {
	Proc *exec.Runner
	Git  git.Location
	// Root is the directory that commands write in.
	Root string
	// Records is where it is on record what was made and begun. What is there is acted
	// upon, so no command, no repository and no other user may write it; "" has commands
	// see the repository read-only.
	Records string
	// Refuse returns why a change is not taken over, "" for one that is; nil refuses none.
	// What is as the user has it is taken over in any case. With one change that is not,
	// nothing of a command is.
	Refuse func(Change, Grant) string
	// Aside is where commits of commands that were refused are kept, "" for nowhere.
	Aside string
	// Dirs are where the layers may be made, the best first. No command sees them. Only
	// those on record are published.
	Dirs []string
}

// History makes the layers of a repository. It is safe for concurrent use.
type History struct {
	o      Options
	dir    string
	reader reader
	step   func(string) // called before each step of a publication that changes the repository; for tests

	mu      sync.Mutex
	free    []*Command        // layers that no command has written to
	waiting []*Command        // commands whose publication a stop put off
	indexes map[string]string // digests of what commands left, by git directory
}

// Command is the layer of one command. The caller publishes it once the command
// and all its processes have ended.
type Command struct {
	h      *History
	dir    string // of the record and of temporary files
	layer  string // of what the command writes; it may be dir
	before record
	saved  bool // before is in the file of the record
	since  time.Time
}

// Mount says how the git directory is shown to a command: as an overlay at Path.
type Mount struct{ Path, Lower, Upper, Work string }

// Open finds a place for the layers. Its error matches ErrReadOnly when there is
// none, or git's layout is one that cannot be published to.
func Open(o Options) (*History, error) {
	if why := unsupported(o.Git.CommonDir); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrReadOnly, why)
	}
	if o.Records == "" {
		return nil, fmt.Errorf("%w: there is no directory for your state of Ralph (--state-dir names one)", ErrReadOnly)
	}
	err := os.MkdirAll(o.Records, 0o700)
	if err == nil {
		o.Records, err = filepath.EvalSymlinks(o.Records)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if !below(o.Git.CommonDir, o.Git.GitDir) {
		return nil, fmt.Errorf("%w: its parts are in different places", ErrReadOnly)
	}
	var why []string
	for _, dir := range o.Dirs {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err == nil {
			err = suits(dir)
		}
		if err == nil {
			return &History{o: o, dir: dir, step: func(string) {}}, nil
		}
		why = append(why, err.Error())
	}
	return nil, fmt.Errorf("%w: no directory can hold what they write (%s)", ErrReadOnly, strings.Join(why, "; "))
}

// Dir is where the layers are; commands must not see it.
func (h *History) Dir() string { return h.dir }

// Begin records the repository and makes a layer for a command. What a stop put
// off is published before, and reported.
func (h *History) Begin(ctx context.Context, g Grant) (*Command, Report, error) {
	rep := h.settle(ctx)
	if why := unsupported(h.o.Git.CommonDir); why != "" {
		return nil, rep, fmt.Errorf("%w: %s", ErrReadOnly, why) // it may have been replaced
	}
	h.mu.Lock()
	var c *Command
	if n := len(h.free); n > 0 {
		c, h.free = h.free[n-1], h.free[:n-1]
	}
	h.mu.Unlock()
	var err error
	if c == nil {
		if c, err = h.newCommand(); err != nil {
			return nil, rep, err
		}
	}
	rec, err := h.reader.read(h.o.Git.CommonDir, h.o.Git.GitDir, h.o.Root)
	rec.Grant, c.since = g, time.Now()
	if c.layer != c.dir {
		rec.Layer = c.layer
	}
	if err == nil && !(c.saved && c.before.equal(rec)) {
		c.before = rec
		err = writeJSON(filepath.Join(c.dir, recordFile), rec)
		c.saved = err == nil
	}
	if err != nil {
		h.release(c)
		return nil, rep, fmt.Errorf("record git repository: %w", err)
	}
	return c, rep, nil
}

func (h *History) newCommand() (*Command, error) {
	name := exec.TempName(purpose)
	c := &Command{h: h, dir: filepath.Join(h.o.Records, name), layer: filepath.Join(h.dir, name)}
	info, err := os.Stat(h.o.Git.CommonDir)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	dirs := []string{c.dir, c.layer, c.upper(), filepath.Join(c.layer, "work")}
	for _, dir := range slices.Compact(dirs) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make layer: %w", err)
		}
	}
	return c, os.Chmod(c.upper(), info.Mode().Perm()|0o700)
}

func (c *Command) upper() string { return filepath.Join(c.layer, "upper") }

// remove removes the layer, and then its record.
func (c *Command) remove() error {
	if err := tempdir.Clear(c.layer); err != nil {
		return err
	}
	return tempdir.Clear(c.dir)
}

// Mount returns the overlay that the command needs.
func (c *Command) Mount() Mount {
	return Mount{Path: c.before.Common, Lower: c.before.Common, Upper: c.upper(), Work: filepath.Join(c.layer, "work")}
}

// release gives back a layer that holds nothing.
func (h *History) release(c *Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free = append(h.free, c)
}

// Publish takes over what the command wrote. Where that is nothing no process
// runs. When ctx has ended it is put off until the next Begin, Close or Recover.
func (c *Command) Publish(ctx context.Context) Report {
	list, err := os.ReadDir(c.upper())
	switch {
	case err == nil && len(list) == 0:
		c.h.release(c)
		return Report{}
	case ctx.Err() != nil:
		c.h.mu.Lock()
		defer c.h.mu.Unlock()
		c.h.waiting = append(c.h.waiting, c)
		return Report{}
	}
	return c.finish(ctx, "")
}

// Drop removes what the command wrote; why is reported unless that is nothing.
func (c *Command) Drop(why string) Report {
	list, err := os.ReadDir(c.upper())
	if err == nil && len(list) == 0 {
		c.h.release(c)
		return Report{}
	}
	rep := Report{Refused: []string{why}}
	if err := c.remove(); err != nil {
		rep.Refused = append(rep.Refused, "the layer of the command stays behind: "+err.Error())
	}
	return rep
}

// finish publishes; begun is the id of a publication of the same command that was
// killed, "" when there was none.
func (c *Command) finish(ctx context.Context, begun string) Report {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	var rep Report
	p := &publication{h: c.h, dir: c.dir, id: begun, again: begun != "", rep: &rep, grant: c.before.Grant, since: c.since}
	if begun == "" {
		p.id = time.Now().UTC().Format("20060102T150405.000")
	}
	if err := p.repository(ctx, c.before, layer{c.upper(), c.before.Common}, c.h.o.Git.GitDir, c.h.o.Git.Root); err != nil {
		rep.Refused = append(rep.Refused, err.Error())
	}
	if err := c.remove(); err != nil {
		rep.Refused = append(rep.Refused, "the layer of the command stays behind: "+err.Error())
	}
	return rep
}

// settle publishes what a stop put off.
func (h *History) settle(ctx context.Context) Report {
	h.mu.Lock()
	list := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	var rep Report
	for _, c := range list {
		rep.add(c.finish(ctx, ""))
	}
	return rep
}

// Close publishes what a stop put off and removes the layers.
func (h *History) Close(ctx context.Context) (Report, error) {
	rep := h.settle(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, c := range h.free {
		errs = append(errs, c.remove())
	}
	h.free = nil
	return rep, errors.Join(errs...)
}

// Recover publishes what killed processes have left and is on record. The caller
// holds the lock of the project. Locks of git that a journal names, and that hold
// what it says, are removed.
func Recover(ctx context.Context, o Options) Report {
	var rep Report
	for _, name := range leftovers(o.Records) {
		rep.add((&History{o: o, step: func(string) {}}).recover(ctx, name))
	}
	for _, dir := range o.Dirs {
		for _, name := range leftovers(dir) {
			if _, err := os.Lstat(filepath.Join(o.Records, name)); err == nil {
				continue // of a repository elsewhere
			}
			// No command ran in a layer that is not on record.
			_ = os.Remove(filepath.Join(dir, name, "upper"))
			_ = os.Remove(filepath.Join(dir, name, "work"))
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
	return rep
}

// leftovers are the names of the directories in dir that ended processes made.
func leftovers(dir string) []string {
	list, _ := os.ReadDir(dir) // often there is none
	var names []string
	for _, e := range list {
		if e.IsDir() && exec.Leftover(e.Name(), purpose) {
			names = append(names, e.Name())
		}
	}
	return names
}

func (h *History) recover(ctx context.Context, name string) Report {
	c := &Command{h: h, dir: filepath.Join(h.o.Records, name)}
	text, err := regular.Read(filepath.Join(c.dir, recordFile), maxRecord)
	if err == nil {
		err = json.Unmarshal(text, &c.before)
	}
	if c.layer = c.before.Layer; c.layer == "" {
		c.layer = c.dir
	}
	if at := c.before.Common; err == nil && at != h.o.Git.CommonDir && below(h.o.Root, at) && unsupported(at) == "" {
		// It is of another repository in the tree.
		o := h.o
		o.Git = git.Location{Root: filepath.Dir(at), GitDir: at, CommonDir: at}
		h = &History{o: o, step: h.step}
		c.h = h
	}
	list, lerr := os.ReadDir(c.upper())
	if err != nil || c.before.Common != h.o.Git.CommonDir {
		// It was killed before a command ran in it, or is of a repository elsewhere.
		if len(list) == 0 && !errors.Is(lerr, os.ErrPermission) {
			_ = c.remove() // it is tried again at the next start
		}
		return Report{}
	}
	var j journal
	if text, err := regular.Read(filepath.Join(c.dir, journalFile), maxRecord); err == nil && json.Unmarshal(text, &j) == nil {
		j.unlock()
	}
	if errors.Is(lerr, os.ErrNotExist) { // all but the record was removed, or memory is empty after a start of the system
		_ = c.remove()
		return Report{}
	}
	return c.finish(ctx, j.ID)
}

// journal names what a publication may leave behind when it is killed.
type journal struct {
	ID    string // of the refs that it makes
	Time  time.Time
	Locks []lockFile
	// Remove are directories and files of Ralph's own.
	Remove []string
}

// lockFile is a lock of git with the content that Ralph, or the git that it runs,
// writes into it; a lock that holds anything else is somebody else's.
type lockFile struct{ Path, Content string }

// unlock removes what the journal names.
func (j journal) unlock() {
	for _, l := range j.Locks {
		info, err := os.Lstat(l.Path)
		if err != nil || info.ModTime().Before(j.Time.Add(-time.Second)) {
			continue
		}
		text, err := readFile(l.Path, maxIndexBytes)
		if err == nil && (len(text) == 0 || strings.TrimSpace(string(text)) == l.Content || sum(text) == l.Content) {
			if dir, name := filepath.Split(l.Path); name == "packed-refs.lock" {
				_ = os.Remove(dir + "packed-refs.new") // who has the lock writes it
			}
			_ = os.Remove(l.Path) // one that stays is named by git's next refusal
		}
	}
	for _, path := range j.Remove {
		_ = os.RemoveAll(path) // as above; it is tmp_objdir-, which git prunes
	}
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return replaceFile(path, text, 0o600)
}

// Report says what became of what a command wrote into the git directory.
type Report struct {
	// Refused says why nothing was taken over.
	Refused []string
	// Late are refs that hold what the command made where somebody else had
	// changed the same meanwhile, or where a part of it is in Dropped.
	Late []string
	// Dropped are names in the git directory that commands cannot change.
	Dropped []string
	// Kept are refs that hold history which no other ref holds any more.
	Kept []string
}

func (r *Report) add(o Report) {
	r.Refused, r.Late = append(r.Refused, o.Refused...), append(r.Late, o.Late...)
	r.Dropped, r.Kept = append(r.Dropped, o.Dropped...), append(r.Kept, o.Kept...)
}

// Lines returns the report for the model and the user, a line for each kind.
func (r Report) Lines() []string {
	const most = 6
	list := func(names []string) string {
		names = unique(slices.Clone(names))
		if more := len(names) - most; more > 0 {
			return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
		}
		return strings.Join(names, ", ")
	}
	var out []string
	for _, why := range r.Refused {
		out = append(out, "nothing that the command did to the git repository was taken over, which is as it was before: "+why)
	}
	if len(r.Late) > 0 {
		out = append(out, "what the user changed meanwhile stays, and so does what is checked out where a part of it cannot be taken over; the command's work is beside it: "+list(r.Late)+". "+r.wayBack())
	}
	if len(r.Dropped) > 0 {
		out = append(out, "not taken over from the git repository: "+list(r.Dropped)+"; commands cannot change these: ask for the command with outside=true, and the user decides")
	}
	if len(r.Kept) > 0 {
		out = append(out, "history that no branch or tag holds any more is kept as "+list(r.Kept)+"; `git update-ref -d` removes it for good"+r.stageAgain())
	}
	return out
}

// stageAgain says how to stage again what was staged before, if that is kept.
func (r Report) stageAgain() string {
	for _, name := range r.Kept {
		if path.Base(name) == "index" {
			return ", `git restore --staged -s " + name + " PATH` stages a file again as it was"
		}
	}
	return ""
}

// wayBack says how to get at what came late, for the first ref of each kind.
func (r Report) wayBack() string {
	var ways []string
	add := func(way string) {
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	for _, name := range unique(slices.Clone(r.Late)) {
		rest, ours := strings.CutPrefix(name, lateRefs)
		_, kind, _ := strings.Cut(rest, "/")
		switch {
		case !ours:
		case kind == "index" || strings.HasSuffix(kind, "/index") && strings.HasPrefix(kind, "worktrees/"):
			add("`git cherry-pick -n " + name + "` stages it again")
		case kind == "stash":
			add("`git stash apply " + name + "` applies it")
		case strings.HasPrefix(kind, "tags/"):
			add("`git tag -f " + strings.TrimPrefix(kind, "tags/") + " " + name + "` sets the tag")
		default:
			add("`git log HEAD.." + name + "` shows it, `git merge " + name + "` takes it in, `git switch -c NAME " + name + "` goes on from it")
		}
	}
	const most = 4
	return strings.Join(ways[:min(len(ways), most)], "; ")
}
