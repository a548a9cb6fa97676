package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
)

// Record is one line of a journal.
type Record struct {
	// Seq counts the records of a journal from 1, without gaps; set by Append.
	Seq int64 `json:"seq"`
	// Time is UTC; zero is set by Append.
	Time time.Time `json:"time"`
	// Epoch is set by Append.
	Epoch   uint64          `json:"epoch"`
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

// Journal is the append-only truth of a session or a run: one record a line,
// each with a checksum and, where there is a key, an authentication code. It is
// safe for concurrent use; whoever opens it closes it.
type Journal struct {
	seal   seal
	fs     afero.Fs
	path   string
	now    func() time.Time
	damage durable.Damage

	mu  sync.Mutex
	log *durable.Log
	seq int64
	bad int
}

// OpenJournal opens the journal at path, and makes it and its directory when
// there is none. A torn tail is moved to the quarantine directory; lines in the
// middle that are no records are skipped by Records and counted. One with more than
// durable.MaxDamage of them at its end is moved there whole, and begun anew with the
// records before the damage. With a key
// records that it does not authenticate are no records. fsys nil means the real
// disk.
func OpenJournal(fsys afero.Fs, path, quarantine string, key identity.Key) (*Journal, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	if err := durable.MkdirAll(fsys, filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return openJournal(fsys, path, quarantine, key, time.Now)
}

func openJournal(fsys afero.Fs, path, quarantine string, key identity.Key, now func() time.Time) (*Journal, error) {
	valid := func(line []byte) bool { _, ok := seal{}.decode(line); return ok }
	var large durable.Damage
	seq, seqErr := lastSeq(fsys, path)
	if errors.Is(seqErr, durable.ErrTooLarge) {
		var err error
		if large, err = durable.SetAside(fsys, path, quarantine, valid); err != nil {
			return nil, err
		}
		seq, seqErr = lastSeq(fsys, path)
	}
	log, damage, err := durable.OpenLog(fsys, path, durable.LogOptions{Quarantine: quarantine, Valid: valid})
	if err != nil {
		return nil, err
	}
	if seqErr != nil && !errors.Is(seqErr, fs.ErrNotExist) {
		return nil, errors.Join(seqErr, log.Close())
	}
	if large.Whole {
		damage = large
	}
	return &Journal{seal: sealOf(key, path), fs: fsys, path: path, now: now, log: log, damage: damage, seq: seq}, nil
}

// Path returns the journal's file.
func (j *Journal) Path() string { return j.path }

// Damage says what was wrong with the journal's end when it was opened, and
// how many lines were skipped by the last Records or Tail and by what was read
// before its offset since.
func (j *Journal) Damage() (torn durable.Damage, badLines int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.damage, j.bad
}

// Append writes records in one append and returns once they are on disk: all
// of them, or after an error none, and then their numbers are used by the
// next. Payloads must be JSON; nil is null.
func (j *Journal) Append(epoch uint64, records ...Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := make([][]byte, len(records))
	for i, r := range records {
		r.Seq, r.Epoch = j.seq+1+int64(i), epoch
		if r.Time.IsZero() {
			r.Time = j.now()
		}
		r.Time = r.Time.UTC()
		line, err := j.seal.encode(r)
		if err != nil {
			return fmt.Errorf("append %s to journal %q: %w", r.Kind, j.path, err)
		}
		lines[i] = line
	}
	err := j.log.Append(lines...)
	if errors.Is(err, fs.ErrNotExist) {
		// The directory was removed meanwhile. What it held is gone; what
		// happens from now on is not.
		if err = durable.MkdirAll(j.fs, filepath.Dir(j.path), 0o700); err == nil {
			err = j.log.Append(lines...)
		}
	}
	if err != nil {
		return err
	}
	j.seq += int64(len(records))
	return nil
}

// Records calls each for every whole record, in order. It may be used while
// the journal is appended to, also after Close. An error of each ends it and is
// returned.
func (j *Journal) Records(each func(Record) error) error {
	bad, err := readRecords(j.fs, j.path, j.seal, each)
	j.mu.Lock()
	j.bad = bad
	j.mu.Unlock()
	return err
}

// ReadRecords is Records for the journal at path, which it only reads: a torn
// last line, which is just being written, is no bad one. None is no error. Without a
// key, to show what there is, nothing is authenticated.
func ReadRecords(fsys afero.Fs, path string, key identity.Key, each func(Record) error) (bad int, err error) {
	return readRecords(fsys, path, sealOf(key, path), each)
}

func readRecords(fsys afero.Fs, path string, g seal, each func(Record) error) (bad int, err error) {
	err = durable.ReadLines(fsys, path, func(line []byte, whole bool) error {
		r, ok := g.decode(line)
		switch {
		case ok:
			return each(r)
		case whole:
			bad++
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return bad, err
}

// Close closes the journal; all that was appended is on disk already. A second
// Close does nothing.
func (j *Journal) Close() error { return j.log.Close() }

const sumLength = 16 // hex digits

// encode puts the authentication code and the checksum of a record's bytes behind
// them.
func (g seal) encode(r Record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(g.key) > 0 {
		body = append(body[:len(body)-1], macKey+g.key.Sum(g.purpose, body)+`"}`...)
	}
	return append(body[:len(body)-1], `,"sum":"`+sum(body)+`"}`...), nil
}

// sum is the checksum of a body given in parts.
func sum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:sumLength]
}

// decode reads a record and checks it against its checksum and, with a key, its
// authentication code.
func (g seal) decode(line []byte) (Record, bool) {
	const key = `,"sum":"`
	at := len(line) - len(key) - sumLength - len(`"}`)
	if at < 1 || string(line[at:at+len(key)]) != key || string(line[len(line)-2:]) != `"}` {
		return Record{}, false
	}
	body := line[:at]
	if sum(body, []byte("}")) != string(line[at+len(key):len(line)-2]) {
		return Record{}, false
	}
	body, mac := cutMAC(body)
	if len(g.key) > 0 && !g.key.Verify(g.purpose, append(bytes.Clone(body), '}'), mac) {
		return Record{}, false
	}
	if r, ok := decodeOwn(body); ok {
		return r, true
	}
	var r Record
	if json.Unmarshal(append(bytes.Clone(body), '}'), &r) != nil {
		return Record{}, false
	}
	return r, true
}

// decodeOwn reads a body, without its last brace, as encode writes it: the same
// keys in the same order. Its checksum was right, so the payload is JSON and
// need not be scanned. It reports false for any other form.
func decodeOwn(body []byte) (Record, bool) {
	var r Record
	rest, ok := body, true
	field := func(key, end string) string {
		var value []byte
		if rest, ok = bytes.CutPrefix(rest, []byte(key)); ok {
			value, rest, ok = bytes.Cut(rest, []byte(end))
		}
		return string(value)
	}
	var err error
	if r.Seq, err = strconv.ParseInt(field(`{"seq":`, ","), 10, 64); err != nil || !ok {
		return Record{}, false
	}
	if r.Time, err = time.Parse(time.RFC3339Nano, field(`"time":"`, `",`)); err != nil || !ok {
		return Record{}, false
	}
	if r.Epoch, err = strconv.ParseUint(field(`"epoch":`, ","), 10, 64); err != nil || !ok {
		return Record{}, false
	}
	if r.Kind = field(`"kind":"`, `",`); !ok || strings.ContainsRune(r.Kind, '\\') {
		return Record{}, false
	}
	payload, ok := bytes.CutPrefix(rest, []byte(`"payload":`))
	r.Payload = bytes.Clone(payload)
	return r, ok && len(payload) > 0
}
