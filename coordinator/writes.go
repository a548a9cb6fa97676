package coordinator

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
)

// writesFile is the file of a writeLog, beside the checkpoints.
const writesFile = "writes.jsonl"

const (
	// shortWrite bounds the time between the beginning of a write and its end, where no
	// more than the beginning is known.
	shortWrite = 20 * time.Millisecond
	// lastLook bounds how long after the beginning of a write its end is looked for
	// while the command runs.
	lastLook = 2 * time.Second
)

// writeLog is the record of what Ralph wrote in the user's tree: its file tools, its
// commands and their descendants, and its merges. By it a change is Ralph's or
// somebody else's. It begins anew with the first of the turns that are under way, and
// is in a file too, so that the next Ralph has it after a crash. It is safe for
// concurrent use.
type writeLog struct {
	root string // without symbolic links
	file string // "" keeps it in memory alone

	mu     sync.Mutex // guards what follows
	turns  int        // under way
	paths  map[string]*written
	blind  []span           // in which a command ran unseen
	live   map[int]func()   // read what commands that run have written
	begun  int              // commands that have begun, and the last key of live
	recent map[string]*look // written by those, which have not ended
	early  map[string]*look // those of recent whose ends are looked for
	looker *time.Timer      // nil when nothing is looked for
	out    *os.File
	lines  *bufio.Writer // to out
}

// look is when it is looked next whether a write has reached the file, and what was
// seen last.
type look struct {
	from time.Time // when the file had last changed before the write; zero: it was not there
	seen fileStamp
	wait time.Duration
	due  time.Time
}

var _ accesspolicy.Writes = (*writeLog)(nil)

// written is what is known of the writes to one path.
type written struct {
	Before time.Time  // when it had last changed before the first; zero: it was not there
	Mode   uint32     `json:",omitempty"` // permission bits before the first; 0: no regular file
	Last   time.Time  // when the last began
	After  *fileStamp // when it had reached the file; nil before
	Other  bool       // somebody else put another file there afterwards
}

// fileStamp tells the state of a file from any other. The zero value is no file.
type fileStamp struct {
	Size, ModTime int64
	Inode         uint64
	Mode          uint32
}

// span is a time in which something could write unseen.
type span struct{ From, To time.Time }

// line is a line of the file.
type line struct {
	Path  []byte      `json:",omitempty"`
	Write *written    `json:",omitempty"`
	Blind []span      `json:",omitempty"`
	Task  *taskChange `json:",omitempty"`
}

func newWriteLog(root, dir string) *writeLog {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	l := &writeLog{root: root, paths: map[string]*written{}, recent: map[string]*look{}, early: map[string]*look{}, live: map[int]func(){}}
	if dir != "" {
		l.file = filepath.Join(dir, writesFile)
	}
	return l
}

// begin begins a turn.
func (l *writeLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	if l.turns > 1 {
		return
	}
	clear(l.paths)
	l.blind = nil
	if len(l.live) == 0 {
		for _, left := range exec.LeftRecords(l.place()) {
			_ = os.Remove(left.File) // of one that stays no harm comes
		}
	}
	l.open(os.O_TRUNC)
}

// place is the directory of the file, "" without one.
func (l *writeLog) place() string {
	if l.file == "" {
		return ""
	}
	return filepath.Dir(l.file)
}

// Place implements accesspolicy.Writes.
func (l *writeLog) Place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return ""
	}
	return l.place()
}

// open opens the file, emptied by O_TRUNC; mu is held. Without one the next Ralph takes all
// that a turn changed that was cut off for the user's.
func (l *writeLog) open(how int) {
	l.closeFile()
	if l.file == "" || os.MkdirAll(filepath.Dir(l.file), 0o700) != nil {
		return
	}
	if f, err := os.OpenFile(l.file, how|os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600); err == nil {
		l.out, l.lines = f, bufio.NewWriter(f)
	}
}

func (l *writeLog) closeFile() {
	if l.out != nil {
		_ = l.out.Close() // it is a help after a crash, and nothing else
		l.out, l.lines = nil, nil
	}
}

// append appends a line that flush writes; mu is held.
func (l *writeLog) append(x line) {
	if l.out == nil {
		return
	}
	text, err := json.Marshal(x)
	if err == nil {
		_, err = l.lines.Write(append(text, '\n'))
	}
	if err != nil {
		l.closeFile()
	}
}

// flush writes what was appended to the file; mu is held.
func (l *writeLog) flush() {
	if l.out != nil && l.lines.Flush() != nil {
		l.closeFile()
	}
}

// end ends a turn.
func (l *writeLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns--; l.turns == 0 {
		l.closeFile()
	}
}

// load reads what the Ralph before this one recorded, as that of a turn, and what the
// commands did that ended with it; it opens the directories that they closed.
func (l *writeLog) load() (tasks []taskChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	clear(l.paths)
	f, err := os.OpenFile(l.file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() { // a last line that is torn is none
		var x line
		switch {
		case json.Unmarshal(in.Bytes(), &x) != nil:
		case x.Task != nil:
			tasks = joinTask(tasks, *x.Task)
		case x.Write != nil:
			l.paths[string(x.Path)] = x.Write
		default:
			l.blind = x.Blind
		}
	}
	l.join()
	l.reopen(slices.Sorted(maps.Keys(l.paths)))
	return tasks
}

// join takes over the records of commands that were killed with their Ralph; mu is held.
func (l *writeLog) join() {
	left := exec.LeftRecords(l.place())
	if len(left) == 0 {
		return
	}
	l.open(os.O_APPEND)
	for _, r := range left {
		for _, w := range r.Writes {
			if p, ok := l.name(w.Path); ok && (l.paths[p] == nil || w.At.After(l.paths[p].Last)) {
				l.note(p, w)
			}
		}
		if !r.Unseen.IsZero() {
			l.blind = append(l.blind, span{From: r.Unseen, To: time.Now()})
			l.append(line{Blind: l.blind})
		}
	}
	if l.flush(); l.out == nil {
		return // they are there the next time
	}
	for _, r := range left {
		_ = os.Remove(r.File) // of one that stays nothing more is taken over
	}
}

// removeLocks removes the locks of git that commands left which were killed with their
// Ralph, and returns their paths. It is called before load, which takes their records over.
func (l *writeLog) removeLocks() (removed []string) {
	for _, left := range exec.LeftRecords(l.place()) {
		removed = append(removed, accesspolicy.RemoveLocks(l.root, left.Writes)...)
	}
	return removed
}

// task records a change of a task.
func (l *writeLog) task(t *taskChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.flush()
	l.append(line{Task: t})
}

// Began implements accesspolicy.Writes.
func (l *writeLog) Began(read func()) (ended func(seen bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := time.Now()
	l.begun++
	n := l.begun
	l.live[n] = read
	return func(seen bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.flush()
		if !seen {
			l.blind = append(l.blind, span{From: from, To: time.Now()})
			l.append(line{Blind: l.blind})
		}
		if delete(l.live, n); len(l.live) == 0 {
			l.settle()
		}
	}
}

// settle notes how what commands wrote is now; mu is held.
func (l *writeLog) settle() {
	list := slices.Sorted(maps.Keys(l.recent))
	l.reopen(list)
	dirs := map[string]bool{}
	for _, p := range list {
		if w := l.paths[p]; w != nil {
			now, _ := l.state(p, dirs)
			w.Other = w.Other || w.After != nil && w.After.Inode != now.Inode
			w.After = now
			l.append(line{Path: []byte(p), Write: w})
		}
	}
	clear(l.recent)
	clear(l.early)
}

// watchEnds looks again and again for the ends of writes whose commands run, so that they
// are on record when Ralph is killed before those end; mu is held.
func (l *writeLog) watchEnds() {
	if l.looker == nil {
		l.looker = time.AfterFunc(shortWrite, l.lookForEnds)
	}
}

// lookForEnds looks at files first and reads the records then: where the end of a later
// write was seen, that write is on record by then, and has a look of its own.
func (l *writeLog) lookForEnds() {
	type stamped struct {
		path string
		look *look
		now  *fileStamp
		at   time.Time // when the file had last changed
	}
	var list []stamped
	now, dirs := time.Now(), map[string]bool{}
	l.mu.Lock()
	l.looker = nil
	for p, k := range l.early {
		switch {
		case now.Before(k.due):
		case k.wait > lastLook || l.paths[p] == nil:
			delete(l.early, p)
		default:
			stamp, at := l.state(p, dirs)
			list = append(list, stamped{p, k, stamp, at})
		}
	}
	more := len(l.early) > 0
	reads := slices.Collect(maps.Values(l.live))
	l.mu.Unlock()
	for _, read := range reads {
		read()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.flush()
	for _, x := range list {
		p, k, now, w := x.path, x.look, x.now, l.paths[x.path]
		if w == nil || l.recent[p] != k {
			continue
		}
		k.wait *= 4
		if w.After == nil && x.at.Equal(k.from) { // the write has not reached it
			k.due = time.Now().Add(k.wait)
			continue
		}
		if *now != k.seen || w.After == nil { // it may have been there when the record came
			w.Other = w.Other || w.After != nil && w.After.Inode != now.Inode
			w.After, k.seen, k.wait = now, *now, shortWrite
			l.append(line{Path: []byte(p), Write: w})
		}
		k.due = time.Now().Add(k.wait)
	}
	if more {
		l.watchEnds()
	}
}

// Wrote implements accesspolicy.Writes.
func (l *writeLog) Wrote(list []sandbox.Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.flush()
	dirs := map[string]bool{}
	for _, w := range list {
		if p, ok := l.name(w.Path); ok {
			l.note(p, w)
			seen, _ := l.state(p, dirs)
			k := &look{from: w.Before, seen: *seen, wait: shortWrite, due: time.Now().Add(shortWrite)}
			l.recent[p], l.early[p] = k, k
			l.watchEnds()
		}
	}
}

// note notes that a path is about to be written; mu is held.
func (l *writeLog) note(p string, began sandbox.Write) *written {
	w := l.paths[p]
	if w == nil {
		w = &written{Before: began.Before, Mode: began.Mode}
		l.paths[p] = w
	}
	w.Last, w.After = began.At, nil
	l.append(line{Path: []byte(p), Write: w})
	return w
}

// writing is called before Ralph itself writes a file, and what it returns after that,
// with whether it did.
func (l *writeLog) writing(path string) (done func(ok bool)) {
	p, ok := l.name(path)
	if !ok {
		return func(bool) {}
	}
	began := sandbox.Write{}
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil {
		began.Before = time.Unix(st.Ctim.Unix())
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			began.Mode = uint32(st.Mode) & 0o777
		}
	}
	return func(ok bool) {
		if !ok {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.flush()
		began.At = time.Now()
		w := l.note(p, began)
		w.After = l.stamp(p)
		l.append(line{Path: []byte(p), Write: w})
	}
}

// name is a path relative to the root.
func (l *writeLog) name(path string) (string, bool) {
	return strings.CutPrefix(path, l.root+"/")
}

// stamp returns the state of the file at a path. Behind a link in the place of a directory there
// is none.
func (l *writeLog) stamp(p string) *fileStamp {
	stamp, _ := l.state(p, map[string]bool{})
	return stamp
}

// state is stamp, with when the file last changed, which is zero for no file. It notes in dirs of
// directories whether a link is there or above.
func (l *writeLog) state(p string, dirs map[string]bool) (*fileStamp, time.Time) {
	var st unix.Stat_t
	if l.linked(filepath.Dir(p), dirs) || unix.Lstat(l.root+"/"+p, &st) != nil {
		return &fileStamp{}, time.Time{}
	}
	return &fileStamp{Size: st.Size, ModTime: unix.TimespecToNsec(st.Mtim), Inode: st.Ino, Mode: uint32(st.Mode)}, time.Unix(st.Ctim.Unix())
}

// linked reports whether a link is in the place of a directory or of one above it.
func (l *writeLog) linked(dir string, dirs map[string]bool) bool {
	if dir == "." {
		return false
	}
	is, known := dirs[dir]
	if !known {
		var st unix.Stat_t
		is = unix.Lstat(l.root+"/"+dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK || l.linked(filepath.Dir(dir), dirs)
		dirs[dir] = is
	}
	return is
}

// changed is when a file last changed, zero where there is none.
func (l *writeLog) changed(p string) time.Time {
	_, at := l.state(p, map[string]bool{})
	return at
}

// reopen gives the user the rights back that a command took away in a directory of the user's, so
// that a checkpoint holds what is in it. The paths, sorted, are those that commands changed.
func (l *writeLog) reopen(paths []string) {
	root, err := os.OpenRoot(l.root) // no link leads the change out of the tree
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }() // only read
	for _, p := range paths {
		if info, err := root.Lstat(p); err == nil && info.IsDir() && info.Mode()&0o500 != 0o500 {
			_ = root.Chmod(p, info.Mode().Perm()|0o700)
		}
	}
}
