package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
)

// changesFile is the log of changes, relative to the root: a journal whose
// records are changes, and contents to which the changes behind them were made.
const changesFile = ".ralph/changes.jsonl"

// The kinds of records in the log.
const (
	recordChange  = "change"
	recordContent = "content"
)

// content says what a file held when the changes behind it in the log were
// made; which of the backups has it.
type content struct {
	N      int64  `json:"n"` // the last change that is in it
	File   string `json:"file"`
	Backup string `json:"backup,omitempty"` // its name; empty: there was no file
	Size   int64  `json:"size"`
	Sum    string `json:"sum,omitempty"`
	// Saved says that the file on disk held just that.
	Saved bool `json:"saved,omitempty"`
}

func (c content) fits(data []byte) bool {
	return c.Backup != "" && c.Size == int64(len(data)) && c.Sum == sumOf(data)
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// entry is one record for the log: a change or a content.
type entry struct {
	op      *op
	content *content
}

func (e entry) file() string {
	if e.op != nil {
		return e.op.File
	}
	return e.content.File
}

func (e entry) record(s *Store) (session.Record, error) {
	r := session.Record{Kind: recordChange, Time: s.now()}
	var err error
	if e.op != nil {
		r.Payload, err = e.op.payload()
	} else {
		r.Kind = recordContent
		r.Payload, err = json.Marshal(e.content)
	}
	return r, err
}

// maxChained is after how many changes of a file its content is kept anew.
const maxChained = 256

// errSame ends a change that the document has already.
var errSame = errors.New("nothing to change")

// maxGrownBytes is how long a state file may be to be made longer: what exceeds
// maxStateBytes is refused when it is read.
const maxGrownBytes = maxStateBytes - 1<<20

var errTooLong = errors.New("it is longer than 31 MiB: move what is old to another file")

// plan is a change to make. All functions are called with mu held.
type plan struct {
	// op says which, looking at the document. An error changes nothing; errSame
	// is none.
	op func(*markdown.Document) (op, error)
	// then is called with the changed document; may be nil.
	then func(*markdown.Document)
	// blind says that op looks at no document: the change is logged even while
	// the file cannot be read.
	blind bool
}

// change makes one change of a state file: in the document, then in the log.
func (s *Store) change(name string, p plan) error {
	s.mu.Lock()
	n, err := s.record(s.files[name], p)
	if err != nil || n == 0 {
		s.mu.Unlock()
		return err
	}
	err = s.drain()
	if err == nil {
		if !s.readOnly {
			s.changed[name] = true
		}
		s.wake()
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	// The log does not take it: the file itself may.
	_, _ = s.save()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.unlogged {
		if e.op != nil && e.op.N == n {
			s.wake()
			return fmt.Errorf("%w: %w", ErrHeld, err)
		}
	}
	s.changed[name] = true
	return nil
}

// record makes a change in the document and queues it for the log; n is its
// number, 0 when there was nothing to change.
func (s *Store) record(f *file, p plan) (n int64, err error) {
	s.findLog()
	unread := s.look(f)
	if unread != nil && (!p.blind || f.unmet) {
		return 0, unread
	}
	o, err := p.op(f.doc)
	if errors.Is(err, errSame) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	o.File = f.name
	if unread != nil {
		s.n++
		o.N = s.n
		f.wait = append(f.wait, o)
		s.unlogged = append(s.unlogged, entry{op: &o})
		return o.N, nil
	}
	if len(f.base) > maxGrownBytes {
		return 0, fmt.Errorf("%s: %w", f.name, errTooLong)
	}
	if !s.readOnly && (!f.chained || f.ops >= maxChained) {
		if c := s.contentOf(f); c != nil {
			s.unlogged = append(s.unlogged, entry{content: c}) // whether or not the change fits
		}
	}
	changed, err := apply(f.doc, o, false)
	if err != nil {
		return 0, err
	}
	if p.then != nil {
		p.then(f.doc)
	}
	if !changed {
		return 0, nil
	}
	s.n++
	o.N = s.n
	s.unlogged = append(s.unlogged, entry{op: &o})
	s.did(f, o)
	return o.N, nil
}

// do makes a change that is recorded already.
func (s *Store) do(f *file, o op) {
	// What does not fit any more was overtaken by the user's edit.
	if changed, err := apply(f.doc, o, true); err == nil && changed {
		s.did(f, o)
	}
}

func (s *Store) did(f *file, o op) {
	f.gen++
	f.last = max(f.last, o.N)
	f.ops++
	f.grew(o)
}

// contentOf says what a file holds now, for the log, and plans the backup that
// has it. It is nil when the backups cannot be looked at: then the next change
// says so again. mu is held.
func (s *Store) contentOf(f *file) *content {
	c := &content{N: f.last, File: f.name}
	if f.base != nil || f.dirty() || f.known {
		data := f.base
		if f.dirty() || data == nil {
			data = f.doc.Bytes()
		} else {
			c.Saved = true
		}
		c.Size, c.Sum = int64(len(data)), sumOf(data)
		var err error
		if c.Backup, err = s.planBackup(f, data); err != nil {
			return nil
		}
	} // else there was no file
	f.chained, f.ops, f.edited = true, 0, false
	return c
}

// findLog sees that the log in use is still the one in its place; one that was
// deleted is begun anew. mu is held.
func (s *Store) findLog() {
	if s.log == nil || s.logging {
		return
	}
	info, err := durable.Lstat(s.fs, s.logPath())
	if err == nil && stampOf(info).Ino == s.logAt.Ino || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.forgetLog()
}

func (s *Store) forgetLog() {
	if s.log != nil {
		_ = s.log.Close() // all that was appended is on disk, or was deleted
	}
	s.log = nil
	for _, f := range s.files {
		f.chained = false
	}
}

func (s *Store) logPath() string { return filepath.Join(s.root, filepath.FromSlash(changesFile)) }

// openLog opens the log for appending; one that is no file any more is moved to
// quarantine. mu is held.
func (s *Store) openLog() error {
	if s.log != nil {
		return nil
	}
	path := s.logPath()
	if err := s.home(); err != nil {
		return err
	}
	j, err := session.OpenJournal(s.fs, path, s.Quarantine(), nil)
	if errors.Is(err, durable.ErrSymlink) || errors.Is(err, durable.ErrNotRegular) {
		if _, err := s.quarantine(path); err != nil {
			return err
		}
		j, err = session.OpenJournal(s.fs, path, s.Quarantine(), nil)
	}
	if err != nil {
		return err
	}
	s.log, s.logAt = j, stamp{}
	if info, err := durable.Lstat(s.fs, path); err == nil {
		s.logAt, s.logBytes = stampOf(info), info.Size()
	}
	return nil
}

// Home makes `.ralph/` again, with its stamp, when somebody deleted it: whoever
// writes there calls it first. It may be called at any time.
func (s *Store) Home() error {
	if s.readOnly {
		return nil
	}
	return s.home()
}

func (s *Store) home() error {
	// A session may have made the directory already, which has no stamp then.
	if _, err := durable.Lstat(s.fs, filepath.Join(s.StateDir(), "FORMAT")); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong shows when it is used
	}
	if err := s.makeHome(); err != nil {
		return err
	}
	var rec Recovery
	return errors.Join(s.prepare(&rec, false), s.identifyAgain())
}

// drain puts what is recorded into the log, in one append: also what others
// recorded while the last one was written. mu is held, but not while the disk
// works.
func (s *Store) drain() error {
	s.awaitLog()
	if len(s.unlogged) == 0 || s.readOnly {
		return nil
	}
	if err := s.guard(); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	if s.logBytes == 0 {
		s.backUpNow()
	}
	records := make([]session.Record, len(s.unlogged))
	for i, e := range s.unlogged {
		r, err := e.record(s)
		if err != nil {
			return fmt.Errorf("log a change of %s: %w", e.file(), err)
		}
		records[i] = r
	}
	log := s.log
	if err := s.withLog(func() error { return log.Append(0, records...) }); err != nil {
		return err
	}
	s.unlogged, s.stale = s.unlogged[len(records):], true
	if info, err := durable.Lstat(s.fs, s.logPath()); err == nil {
		s.logAt, s.logBytes = stampOf(info), info.Size()
	}
	return nil
}

// withLog works on a log's file without mu, so that a slow disk keeps nobody
// from what is in memory: nobody else touches the log, and what is recorded
// meanwhile waits behind what was. mu is held before and after.
func (s *Store) withLog(work func() error) error {
	s.logging = true
	s.mu.Unlock()
	err := work()
	s.mu.Lock()
	s.logging = false
	s.idle.Broadcast()
	return err
}

// awaitLog returns when nobody works on the log; mu is held, but not meanwhile.
func (s *Store) awaitLog() {
	for s.logging {
		s.idle.Wait()
	}
}

// backUpNow writes the planned backups before a log begins: there is no older
// one from which the content could be had. mu is held.
func (s *Store) backUpNow() {
	for _, f := range s.files {
		if f.backup != nil && s.writeBackup(f.name, f.backup) == nil {
			f.backup = nil
		}
	}
}

// dropSaved forgets what never came into the log but is in its file: it is
// safe. mu is held.
func (s *Store) dropSaved() {
	s.awaitLog()
	var rest []entry
	for _, e := range s.unlogged {
		if f := s.files[e.file()]; !f.dirty() && f.doc != nil && len(f.wait) == 0 {
			f.chained = false
			continue
		}
		rest = append(rest, e)
	}
	s.unlogged = rest
}

// maxLogBytes is how long the log may get before it is cut.
const maxLogBytes = 1 << 20

// cutLog leaves of the log what the newest content of each file needs that is
// in the file. It writes a new log beside the old one and renames it: the log is
// whole at any moment. mu is held.
func (s *Store) cutLog() error {
	s.awaitLog()
	if s.log == nil || s.logBytes < max(maxLogBytes, 2*s.kept) {
		return nil
	}
	log, needed := s.log, map[string]func(content) bool{}
	for name, f := range s.files {
		saved, planned := f.saved, f.backup
		if f.unmet {
			saved = -1
		}
		needed[name] = func(c content) bool {
			return c.N > saved || planned != nil && c.Backup == planned.name
		}
	}
	if err := s.withLog(func() error { return s.rewriteLog(log, needed) }); err != nil {
		return err
	}
	_ = s.log.Close() // all of it is in the new one
	s.log = nil
	if err := s.openLog(); err != nil {
		return err
	}
	s.kept, s.stale = s.logBytes, true
	return durable.SyncDir(s.fs, s.StateDir())
}

// rewriteLog puts in the place of the log one that begins, for each file, with
// the newest content of which needed does not say that what is before it is.
func (s *Store) rewriteLog(log *session.Journal, needed map[string]func(content) bool) error {
	var records []session.Record
	newest := map[string]int{}
	err := log.Records(func(r session.Record) error {
		if c, ok := decodeContent(r); ok && needed[c.File] != nil && !needed[c.File](c) {
			newest[c.File] = len(records)
		}
		records = append(records, r)
		return nil
	})
	if err != nil {
		return err
	}
	path := s.logPath()
	temp := path + ".new"
	if err := s.fs.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j, err := session.OpenJournal(s.fs, temp, s.Quarantine(), nil)
	if err != nil {
		return err
	}
	var rest []session.Record
	for i, r := range records {
		var at struct{ File string }
		if json.Unmarshal(r.Payload, &at) == nil && i >= newest[at.File] {
			rest = append(rest, r)
		}
	}
	err = j.Append(0, rest...)
	if err = errors.Join(err, j.Close()); err != nil {
		return err
	}
	return s.fs.Rename(temp, path)
}

func decodeContent(r session.Record) (content, bool) {
	var c content
	if r.Kind != recordContent || json.Unmarshal(r.Payload, &c) != nil {
		return c, false
	}
	return c, true
}
