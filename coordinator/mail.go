package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/ownership"
	"ralph/coordinator/transcript"
	"ralph/interrupts"
	"ralph/memory/queue"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// fromChat is the sender of what is typed in the chat: what a stop takes out of
// the queue goes back to it.
const fromChat = "chat"

// mail joins the queue of what the human says with the file that keeps it. The
// queue is there from the beginning, so that a stop always finds it; the file
// when the project's store is open.
type mail struct {
	c     *Coordinator
	queue *interrupts.Queue

	// mu guards log; it is held while the disk is written, by the queue's own
	// goroutine.
	mu  sync.Mutex
	log *queue.Log // nil until the store is open, and where nothing is kept

	// settling guards pending: what is settled and not in its journal yet.
	settling sync.Mutex
	pending  map[string]chan struct{}
}

// recordWait bounds how long the queue's file waits for the journal.
const recordWait = 10 * time.Second

// settle gives a message its final state unless a stop has. The queue's file
// learns of it after recorded was called.
func (m *mail) settle(id string, s interrupts.State) bool {
	m.settling.Lock()
	m.pending[id] = make(chan struct{})
	m.settling.Unlock()
	if m.queue.Settle(id, s) != nil {
		m.recorded(id)
		return false
	}
	return true
}

// recorded says that a journal holds what was settled.
func (m *mail) recorded(ids ...string) {
	m.settling.Lock()
	defer m.settling.Unlock()
	for _, id := range ids {
		if ch := m.pending[id]; ch != nil {
			close(ch)
			delete(m.pending, id)
		}
	}
}

// await waits until a journal holds a message that is noted as settled.
func (m *mail) await(x interrupts.Message) {
	if x.State != interrupts.Delivered && x.State != interrupts.Answered {
		return
	}
	m.settling.Lock()
	ch := m.pending[x.ID()]
	m.settling.Unlock()
	if ch == nil {
		return
	}
	late := time.NewTimer(recordWait)
	defer late.Stop()
	select {
	case <-ch:
	case <-late.C:
	}
}

// openMail makes the queue; what an earlier process accepted and nobody took is
// in it again.
func openMail(c *Coordinator) *mail {
	m := &mail{c: c, pending: map[string]chan struct{}{}}
	o := interrupts.Options{Keep: m.keep, Notify: m.notify, Now: c.now, Home: fromChat}
	found, err := m.open()
	if err != nil {
		c.warn("what is said is not kept across a crash: " + hinted(err))
	}
	o.Last = found.Last
	o.Waiting = m.undelivered(found.Waiting)
	m.queue = interrupts.NewQueue(o)
	for _, w := range found.Warnings {
		c.warn(w)
	}
	return m
}

// open opens the file once the store is open.
func (m *mail) open() (queue.Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.log != nil || !m.c.book.keepsQueue() {
		return queue.Found{}, nil
	}
	log, found, err := queue.Open(m.c.closing, queue.Options{FS: m.c.opt.FS, StateDir: m.c.stateDir(), Now: m.c.now, Redact: m.c.redactor.String, Wait: ownership.LockWait,
		Key: m.c.book.key(), UserDir: m.c.book.userDir()})
	if err != nil {
		return found, err
	}
	if m.queue != nil && found.Last > 0 {
		return queue.Found{}, errors.Join(errNumbered, log.Close())
	}
	m.log = log
	return found, nil
}

// errNumbered says why what is said to a run cannot be saved: somebody left
// messages while it had not begun to keep anything. Theirs have the numbers that
// ours would repeat, and wait for the next Ralph.
var errNumbered = errors.New("messages for the next Ralph wait in the queue already")

// keep is the queue's Keep.
func (m *mail) keep(list []interrupts.Message) error {
	if _, err := m.open(); err != nil {
		return err
	}
	entries := make([]queue.Entry, len(list))
	for i, x := range list {
		m.await(x)
		entries[i] = entryOf(x)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.log == nil {
		return nil // there is nothing to keep it in, as in a run that leaves no trace
	}
	return m.log.Keep(entries...)
}

func entryOf(x interrupts.Message) queue.Entry {
	return queue.Entry{ID: x.ID(), N: x.N, Class: x.Class.String(), Text: x.Text, From: x.From, To: x.To, Session: x.Session,
		At: x.At, State: string(x.State), Edited: x.Edited}
}

// messageOf is an entry as a message; one of an unknown class is delivered at the
// end of the work.
func messageOf(e queue.Entry) interrupts.Message {
	class, err := interrupts.ParseClass(e.Class)
	if err != nil {
		class = interrupts.ClassLater
	}
	return interrupts.Message{N: e.N, Class: class, Text: e.Text, From: e.From, To: e.To, Session: e.Session,
		At: e.At, State: interrupts.Queued, Kept: true, Edited: e.Edited}
}

// undelivered turns what an earlier process left into messages. What it had
// delivered already, and died before it could note so, is in a journal.
func (m *mail) undelivered(left []queue.Entry) []interrupts.Message {
	if len(left) == 0 {
		return nil
	}
	since := left[0].At
	for _, e := range left {
		if e.At.Before(since) {
			since = e.At
		}
	}
	heard := m.heard(since)
	var waiting []interrupts.Message
	var over []queue.Entry
	for _, e := range left {
		switch {
		case !heard[e.ID].Before(e.At) && !heard[e.ID].IsZero():
			e.State = string(interrupts.Delivered)
			if e.Class == interrupts.ClassAsk.String() {
				e.State = string(interrupts.Answered)
			}
			over = append(over, e)
		case e.Class == interrupts.ClassStop.String():
			e.State = string(interrupts.Delivered) // what it was to stop is no more
			over = append(over, e)
		default:
			x := messageOf(e)
			x.To = "" // the agent that it was for has ended with that process
			waiting = append(waiting, x)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.log != nil && len(over) > 0 {
		if err := m.log.Keep(over...); err != nil {
			m.c.warn("the queue is not brought up to date: " + hinted(err))
		}
	}
	return waiting
}

// heard says when journals have messages delivered or answered; since is when the
// oldest that is in doubt was accepted.
func (m *mail) heard(since time.Time) map[string]time.Time {
	heard := map[string]time.Time{}
	for _, path := range m.journals(since) {
		// A journal that cannot be read says nothing of it.
		_, _ = session.ReadRecords(m.c.opt.FS, path, m.c.book.key(), func(r session.Record) error {
			var x struct {
				Inbox string `json:"inbox"`
				Ref   string `json:"ref"`
				Type  string `json:"type"`
				State string `json:"status"`
			}
			switch {
			case r.Kind != transcript.Message && r.Kind != transcript.Event, json.Unmarshal(r.Payload, &x) != nil:
			case r.Kind == transcript.Message:
				for _, id := range strings.Fields(x.Inbox) {
					heard[id] = r.Time
				}
			case x.Type == string(agent.EventInbox) && x.State == string(interrupts.Answered):
				heard[x.Ref] = r.Time
			}
			return nil
		})
	}
	return heard
}

// journals are those that were written to since then.
func (m *mail) journals(since time.Time) []string {
	var paths []string
	since = since.Add(-time.Second) // the clock of a disk may be coarser than ours
	for _, room := range []string{"sessions", "runs"} {
		dirs, err := afero.ReadDir(m.c.opt.FS, filepath.Join(m.c.stateDir(), room))
		if err != nil {
			continue // nothing was written there
		}
		for _, d := range dirs {
			home := filepath.Join(m.c.stateDir(), room, d.Name())
			found, err := afero.Glob(m.c.opt.FS, filepath.Join(home, "agents", "*", session.JournalFile))
			if err != nil {
				found = nil // a directory cannot be read: what was said to its agents may come twice
			}
			for _, path := range append(found, filepath.Join(home, session.JournalFile)) {
				if info, err := m.c.opt.FS.Stat(path); err == nil && info.Mode().IsRegular() && info.ModTime().After(since) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// notify tells of each change of a message once it is on disk, or is known not
// to be. It runs on the queue's goroutine.
func (m *mail) notify(x interrupts.Message) {
	if x.Class == interrupts.ClassStop {
		return // the stop itself is told as an interrupt
	}
	status := string(x.State)
	switch {
	case x.State == interrupts.Queued && !x.Kept:
		status = "held"
	case x.State == interrupts.Queued && x.Edited:
		status = "edited"
	case x.State == interrupts.Answered:
		return // told with the answer
	}
	m.c.start()
	m.c.events.emit(agent.Event{Type: agent.EventInbox, Agent: x.To, Ref: x.ID(), Class: x.Class.String(), From: x.From, Status: status, Text: x.Text})
}

// ready makes the queue ready to be taken from: what was accepted is on disk before
// any of it is delivered, or its number could be given again after a crash. Of a
// disk that hangs the queue knows soon. What it cannot keep is held, and obeyed all
// the same; what it could only not wait for, as the work has ended, is left where
// it is.
func (m *mail) ready(ctx context.Context) (held bool) {
	m.warnings()
	return m.queue.Flush(ctx) != nil && ctx.Err() == nil
}

// warnings passes on what went wrong with the queue's files.
func (m *mail) warnings() {
	m.mu.Lock()
	log := m.log
	m.mu.Unlock()
	if log == nil {
		return
	}
	for _, w := range log.Warnings() {
		m.c.warn(w)
	}
}

// close keeps what can be kept. What waits then is delivered by the next Ralph.
func (m *mail) close(ctx context.Context) error {
	err := m.queue.Close(ctx)
	m.warnings()
	if errors.Is(err, errNumbered) && len(m.queue.Waiting()) == 0 {
		err = nil // what could not be saved was delivered
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.log != nil {
		err = errors.Join(err, m.log.Close())
	}
	return err
}
