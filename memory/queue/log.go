package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// minRewriteBytes is how long the log must be to be written anew when it is
// opened: then when less than a quarter of it is about messages that wait.
const minRewriteBytes = 256 << 10

// Log is the open queue. It is safe for concurrent use; whoever opens it closes
// it.
type Log struct {
	o    Options
	kick chan struct{} // capacity 1: queue.md is to be written
	stop chan struct{}
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	lock     *holder
	log      *durable.Log // nil until there is something to keep
	at       fileID       // of the log's file, after the last append
	table    *table
	stale    bool // queue.md is to be written
	warnings []string
	running  bool // the goroutine runs
	closed   bool
}

// fileID tells whether the log is still the file that was appended to.
type fileID struct {
	there bool
	ino   uint64
	size  int64
}

func identify(fsys afero.Fs, path string) fileID {
	info, err := durable.Lstat(fsys, path)
	if err != nil {
		return fileID{}
	}
	id := fileID{there: true, size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.ino = uint64(st.Ino)
	}
	return id
}

// Open opens the queue, with its lock: ErrLocked is matched when another
// process still holds it after o.Wait. A torn tail of the log and lines that
// cannot be read go to quarantine.
func Open(ctx context.Context, o Options) (*Log, Found, error) {
	o = o.filled()
	if err := durable.MkdirAll(o.FS, o.StateDir, 0o700); err != nil {
		return nil, Found{}, err
	}
	if err := realDir(o); err != nil {
		return nil, Found{}, err
	}
	lock, err := take(ctx, o)
	if err != nil {
		return nil, Found{}, err
	}
	l := &Log{o: o, kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), lock: lock}
	if durable.OnDisk(o.FS) && lock == nil {
		l.warn("the queue could not be locked: another Ralph may write to it")
	}
	found, err := l.start()
	if err != nil {
		l.halt()
		return nil, Found{}, errors.Join(err, l.shut())
	}
	return l, found, nil
}

// start reads the log.
func (l *Log) start() (Found, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.adopt(); err != nil {
		return Found{}, err
	}
	found := Found{Waiting: l.table.waiting(), Last: l.table.last, Warnings: l.warnings}
	l.warnings = nil
	return found, nil
}

// adopt does it; mu is held.
func (l *Log) adopt() error {
	// What a killed process left half written. Where that fails it is only litter.
	_ = durable.Sweep(l.o.FS, l.o.StateDir, logName, ViewFile)
	if err := l.clearLog(); err != nil {
		return err
	}
	var err error
	if l.table, err = load(l.o.FS, l.o.path(logName), l.sign()); err != nil {
		return err
	}
	replayed := readLedger(l.o.FS, l.o.UserDir).replayed(l.table, l.sign())
	l.table.bad = append(l.table.bad, replayed...)
	if identify(l.o.FS, l.o.path(logName)).there {
		if err := l.openLog(); err != nil {
			return err
		}
	}
	if err := l.tidy(); err != nil {
		return err
	}
	if _, err := durable.Lstat(l.o.FS, l.o.path(ViewFile)); err == nil || len(l.table.open) > 0 {
		l.wake()
	}
	return nil
}

// clearLog moves away what stands in the place of the log and is no file, or too long
// for one.
func (l *Log) clearLog() error {
	info, err := durable.Lstat(l.o.FS, l.o.path(logName))
	if err != nil || info.Mode().IsRegular() && info.Size() <= maxLogBytes {
		return nil // an error shows when it is read
	}
	why := "no file"
	if info.Mode().IsRegular() {
		why = fmt.Sprintf("longer than %d MiB", maxLogBytes>>20)
	}
	moved, err := l.quarantine(logName)
	if err == nil {
		l.warn(logName + " was " + why + ": it is " + moved + " now")
	}
	return err
}

// openLog opens the log for appending, and makes it when there is none.
func (l *Log) openLog() error {
	log, damage, err := durable.OpenLog(l.o.FS, l.o.path(logName), durable.LogOptions{
		Quarantine: l.o.path(quarantineName),
		Valid:      func(line []byte) bool { _, ok := l.sign().decode(line); return ok },
	})
	if err != nil {
		return err
	}
	if damage.Moved != "" {
		l.warn(fmt.Sprintf("the end of %s was torn: %d bytes are in %s", logName, damage.TornBytes, l.relative(damage.Moved)))
	}
	l.log, l.at = log, identify(l.o.FS, l.o.path(logName))
	return nil
}

// tidy writes the log anew when lines of it cannot be read, when two messages
// have one number, or when it is long and most of it is over.
func (l *Log) tidy() error {
	t := l.table
	anew := t.renumber()
	if n := len(t.bad) + t.lost; n > 0 {
		where := "left where they are"
		if t.lost == 0 {
			lines := append(bytes.Join(t.bad, []byte{'\n'}), '\n')
			moved := filepath.Join(l.o.path(quarantineName), logName+".bad-"+sum(lines)[:8])
			err := durable.MkdirAll(l.o.FS, l.o.path(quarantineName), 0o700)
			if err == nil {
				err = durable.Replace(l.o.FS, moved, lines, 0o600)
			}
			if err == nil {
				anew, where = true, "moved to "+l.relative(moved)
			}
		}
		l.warn(fmt.Sprintf("%d lines of %s are damaged, or were not written by your Ralph, and are not delivered: they are %s%s", n, logName, where, quoted(t.bad)))
	}
	t.bad = nil
	if t.lost > 0 {
		return nil // what cannot be moved is not overwritten
	}
	if !anew && t.size < minRewriteBytes {
		return nil
	}
	text, err := t.text(l.sign())
	if err != nil || !anew && int64(len(text)) > t.size/4 {
		return err
	}
	if err := durable.Replace(l.o.FS, l.o.path(logName), text, 0o600); err != nil {
		if anew {
			return err
		}
		return nil // the long one serves as well
	}
	t.size = int64(len(text))
	_ = l.log.Close() // all of it is in the new one
	l.log = nil
	return l.openLog()
}

// Keep makes new or changed messages durable: one append and one sync, all of
// them or, after an error, none. A message in a final state is over. The cost
// does not depend on how many wait. The view in queue.md follows by itself,
// soon after; what goes wrong there is for Warnings.
func (l *Log) Keep(entries ...Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("keep a message: %w", fs.ErrClosed)
	}
	if len(entries) == 0 {
		return nil
	}
	return l.keep(entries)
}

// keep does it; mu is held.
func (l *Log) keep(entries []Entry) error {
	records, err := l.records(entries)
	if err != nil {
		return err
	}
	if err := l.guard(); err != nil {
		return err
	}
	lines, err := l.intact()
	if err != nil {
		return err
	}
	for _, r := range records {
		line, err := l.sign().encode(r)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	if err := l.log.Append(lines...); err != nil {
		return err
	}
	l.at = identify(l.o.FS, l.o.path(logName))
	for _, r := range records {
		l.table.apply(r)
	}
	if err := l.note(); err != nil {
		l.warn("which messages were delivered is not on record on your side: " + err.Error())
	}
	l.wake()
	return nil
}

// intact sees that the log is open and the one that was appended to. When
// somebody deleted, replaced or cut it, what waits is to be said again: these
// are the lines.
func (l *Log) intact() (lines [][]byte, err error) {
	was, now := l.at, identify(l.o.FS, l.o.path(logName))
	if l.log != nil && now.there && now.ino == was.ino && now.size >= was.size {
		return nil, nil
	}
	if l.log != nil {
		_ = l.log.Close() // all that was appended is on disk, or was deleted
		l.log = nil
	}
	if err := l.clearLog(); err != nil {
		return nil, err
	}
	if err := l.openLog(); err != nil || !was.there {
		return nil, err
	}
	l.at = was // until they are said
	for _, m := range l.table.byAge() {
		line, err := l.sign().encode(m)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// records are entries as they go into the log.
func (l *Log) records(entries []Entry) ([]record, error) {
	records := make([]record, len(entries))
	revs := map[key]*record{}
	for i, e := range entries {
		if e.N == 0 || e.N >= maxNumber {
			return nil, fmt.Errorf("keep a message: %d is no accept number", e.N)
		}
		if len(e.Text) > maxTextBytes {
			return nil, fmt.Errorf("keep %s: a message of %d bytes %w", idOf(e.N), len(e.Text), durable.ErrTooLarge)
		}
		if e.State == "" {
			e.State = queued
		}
		e.ID, e.At = idOf(e.N), e.At.UTC().Round(0)
		e.Text = l.o.Redact(e.Text)
		r := record{Entry: e}
		old := revs[keyOf(e)]
		if m := l.table.find(e.N, e.At); old == nil && m != nil {
			old = m
		}
		if old != nil {
			r.Rev = old.Rev
			if e.State == queued && (old.Class != e.Class || old.Text != e.Text) {
				r.Rev++
			}
		}
		if e.State != queued {
			r.Text = ""
		}
		records[i], revs[keyOf(e)] = r, &records[i]
	}
	return records, nil
}

// guard sees that the state directory is there and the lock is ours still: who
// deletes the directory lets another in.
func (l *Log) guard() error {
	if info, err := durable.Lstat(l.o.FS, l.o.StateDir); err == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist) {
		if err := durable.MkdirAll(l.o.FS, l.o.StateDir, 0o700); err != nil {
			return err
		}
	} // what else is wrong shows when it is written to
	if l.lock.inPlace() {
		return nil
	}
	h, busy, err := try(l.o.StateDir)
	switch {
	case err != nil:
		return fmt.Errorf("lock the queue in %q: %w", l.o.StateDir, err)
	case busy:
		return fmt.Errorf("%w in %q: its directory was replaced", ErrLocked, l.o.StateDir)
	}
	_ = l.lock.release() // of a directory that nobody finds
	l.lock = h
	return nil
}

// quarantine moves a file of the queue away, and returns where it is now.
func (l *Log) quarantine(name string) (string, error) {
	to, err := l.vacant(name)
	if err != nil {
		return "", err
	}
	err = l.o.FS.Rename(l.o.path(name), to)
	if err == nil {
		err = errors.Join(durable.SyncDir(l.o.FS, filepath.Dir(to)), durable.SyncDir(l.o.FS, l.o.StateDir))
	}
	if err != nil {
		return "", fmt.Errorf("move %s to quarantine: %w", name, err)
	}
	return l.relative(to), nil
}

// vacant is a path in the quarantine that nothing has yet.
func (l *Log) vacant(name string) (string, error) {
	dir := l.o.path(quarantineName)
	if err := durable.MkdirAll(l.o.FS, dir, 0o700); err != nil {
		return "", err
	}
	stamp := l.o.Now().UTC().Format("20060102T150405Z")
	for i := 0; ; i++ {
		to := filepath.Join(dir, fmt.Sprintf("%s.%s", name, stamp))
		if i > 0 {
			to = fmt.Sprintf("%s-%d", to, i)
		}
		if _, err := durable.Lstat(l.o.FS, to); err != nil {
			return to, nil // what is wrong shows when it is used
		}
	}
}

// relative is a path in the state directory as users know it.
func (l *Log) relative(path string) string {
	rel, err := filepath.Rel(filepath.Dir(l.o.StateDir), path)
	if err != nil {
		return path
	}
	return rel
}

// warn notes something for the user, once; mu is held, or nobody knows l yet.
func (l *Log) warn(text string) {
	for _, w := range l.warnings {
		if w == text {
			return
		}
	}
	if len(l.warnings) < maxWarnings {
		l.warnings = append(l.warnings, text)
	}
}

const maxWarnings = 20

// Warnings returns what went wrong since the last call, one line each.
func (l *Log) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.warnings
	l.warnings = nil
	return w
}

// Close writes queue.md a last time and gives back the lock. All that was kept is
// on disk already. A second Close does nothing.
func (l *Log) Close() error {
	if !l.halt() {
		return nil
	}
	return errors.Join(l.write(), l.shut())
}

// halt ends the goroutine; it is false the second time.
func (l *Log) halt() bool {
	l.mu.Lock()
	first, running := !l.closed, l.running
	if first {
		l.closed = true
		close(l.stop)
	}
	l.mu.Unlock()
	if running {
		<-l.done
	}
	return first
}

// shut closes the log and unlocks.
func (l *Log) shut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.log != nil {
		err = l.log.Close()
		l.log = nil
	}
	return errors.Join(err, l.lock.release())
}
