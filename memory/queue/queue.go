// Package queue keeps what a human said to Ralph until it was delivered: an
// append-only log, `.ralph/queue.jsonl`, and `.ralph/queue.md`, a view of it for
// people.
//
// It owns these two files and their lock. It refuses to know what a class means and
// to deliver anything. The view is written and never read: a command of the model,
// a pull or a merge could have changed it. In a project where nothing was ever said
// it makes no file.
//
//	l, found, err := queue.Open(ctx, queue.Options{StateDir: ".ralph", Redact: r.String})
//	// found.Waiting is what an earlier process accepted
//	err = l.Keep(queue.Entry{N: found.Last + 1, Class: "later", Text: "…", At: now})
//	// err == nil: it survives a kill and a power cut
package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
)

// ErrLocked is matched when another process holds the queue.
var ErrLocked = errors.New("another Ralph holds the queue")

// ViewFile is the file in the state directory that shows the queue.
const ViewFile = "queue.md"

// The other files, relative to the state directory.
const (
	logName        = "queue.jsonl"
	quarantineName = "quarantine"
)

// queued is the state of what waits; any other is final.
const queued = "queued"

// maxTextBytes bounds one message: its line in the log, in which a byte may take
// six, must be one that the log reads again.
const maxTextBytes = 10 << 20

// maxNumber bounds accept numbers, so that a damaged one cannot use them up.
const maxNumber = 1 << 53

// Entry is one message. It is a value.
type Entry struct {
	ID      string    `json:"id"` // "m-17"; set from N
	N       uint64    `json:"n"`  // its accept number, from 1
	Class   string    `json:"class"`
	Text    string    `json:"text"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Session string    `json:"session,omitempty"`
	At      time.Time `json:"at"`
	State   string    `json:"state"` // "queued", or how it ended
	Edited  bool      `json:"edited,omitempty"`
}

func idOf(n uint64) string { return "m-" + strconv.FormatUint(n, 10) }

// Options says where the queue is. The zero value of all but StateDir works.
type Options struct {
	// FS holds it; nil means the real disk. Only there others are locked out.
	FS afero.Fs
	// StateDir is the project's `.ralph`; it is made when there is none.
	StateDir string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Redact takes the secrets out of a text before it is kept; nil keeps it as
	// it is.
	Redact func(string) string
	// Wait bounds how long to wait for another holder; 0 does not wait.
	Wait time.Duration
	// Key authenticates the records; one that does not verify is set aside. Nil
	// only detects damage.
	Key identity.Key
	// UserDir is the project's directory in the user's own state directory, which
	// remembers what was delivered; empty remembers nothing.
	UserDir string
}

func (o Options) filled() Options {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return o
}

func (o Options) path(name string) string { return filepath.Join(o.StateDir, name) }

// Found is what Open found.
type Found struct {
	// Waiting was accepted and not delivered, in the order of delivery: by class,
	// then by number.
	Waiting []Entry
	// Last is the highest accept number ever given; 0: none was.
	Last uint64
	// Warnings are for the user, one line each.
	Warnings []string
}

// Add accepts one message while no Ralph runs: it gives it a number, an id and,
// where it has none, a time, and returns once it is on disk. It holds the lock
// for that moment only; ErrLocked means that a Ralph runs and takes messages.
func Add(ctx context.Context, o Options, e Entry) (Entry, error) {
	l, found, err := Open(ctx, o)
	if err != nil {
		return Entry{}, err
	}
	e.N, e.State = found.Last+1, queued
	e.ID = idOf(e.N)
	if e.At.IsZero() {
		e.At = l.o.Now()
	}
	err = l.Keep(e)
	cerr := l.Close()
	if err != nil {
		return Entry{}, err
	}
	if cerr != nil {
		return e, nil // it is on disk; that alone was asked for
	}
	return e, nil
}

// Peek returns what waits, in the order of delivery. It takes no lock and changes
// nothing.
func Peek(o Options) ([]Entry, error) {
	o = o.filled()
	if err := realDir(o); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	t, err := load(o.FS, o.path(logName), signer{o.Key})
	if err != nil {
		return nil, err
	}
	readLedger(o.FS, o.UserDir).replayed(t, signer{o.Key})
	return t.waiting(), nil
}

// realDir refuses a state directory that is a link: a repository could bring
// one along to have messages written elsewhere.
func realDir(o Options) error {
	info, err := durable.Lstat(o.FS, o.StateDir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return fmt.Errorf("open the queue in %q: %w", o.StateDir, err)
	}
	return nil
}
