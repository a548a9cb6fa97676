package scripts

import (
	"context"
	"errors"
	"io"
	"time"

	"ralph/memory/durable"
	"ralph/memory/notice"
	"ralph/memory/session/folder"
)

const (
	// lookAgain is how often a file is looked at where the system does not say that
	// it was written.
	lookAgain = 250 * time.Millisecond
	// lookOver is how often it is asked whether a session is over.
	lookOver = time.Second
	// maxHeld bounds the events that are held for --tail: more of them are counted
	// first, and the log is read twice.
	maxHeld = 2000
	// cancelEvery is after how many events the end of the context is looked for.
	cancelEvery = 512
)

// logEntry is an event with its id.
type logEntry struct {
	folder.Event
	id string
}

// logScan reads a log and brings out what is asked for. It is used by one
// goroutine.
type logScan struct {
	inv     *invocation
	session watched
	reader  *folder.LogReader
	filter  *logFilter
	sink    *logSink

	tail int        // of what is there, only the last; -1: all
	held []logEntry // the last ones, a ring when it is full
	next int        // in held

	most    int // events that are read; 0: all
	seen    int // events
	matched int // events that are shown
	last    folder.EventType
}

// read brings out what is in the log now.
func (l *logScan) read(ctx context.Context) error {
	if l.tail > maxHeld {
		return l.readTwice(ctx)
	}
	if err := l.drain(ctx, l.hold); err != nil {
		return err
	}
	entries := append(l.held[l.next:len(l.held):len(l.held)], l.held[:l.next]...)
	l.held = nil
	for _, e := range entries {
		if err := l.show(e); err != nil {
			return err
		}
	}
	return l.inv.out.trouble()
}

// readTwice is read for more events than are to be held.
func (l *logScan) readTwice(ctx context.Context) error {
	fit := 0
	if err := l.drain(ctx, func(logEntry) error { fit++; return nil }); err != nil {
		return err
	}
	r, err := folder.OpenLog(durable.Disk(), l.session.dir)
	if err != nil {
		return broken("io", "", err, "%s", l.session.title())
	}
	old := l.reader
	l.reader, l.most, l.seen, l.filter.unanswered = r, l.seen, 0, 0
	_ = old.Close() // it was only read
	defer func() { l.most = 0 }()
	left := fit - l.tail
	err = l.drain(ctx, func(e logEntry) error {
		if left--; left >= 0 {
			return nil
		}
		return l.show(e)
	})
	return errors.Join(err, l.inv.out.trouble())
}

// drain reads to the end of what stands there.
func (l *logScan) drain(ctx context.Context, take func(logEntry) error) error {
	for n := 1; l.most == 0 || l.seen < l.most; n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, id, err := l.reader.Next()
		if l.reader.Restarted() {
			l.inv.note("the log of " + l.session.title() + " was begun anew: ids count from e1 again")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken("io", "", err, "%s", l.session.title())
		}
		l.seen++
		l.last = e.Type
		if !l.filter.keeps(&e, id) {
			continue
		}
		if err := take(logEntry{e, id}); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps the last events, or shows all.
func (l *logScan) hold(e logEntry) error {
	switch {
	case l.tail < 0:
		return l.show(e)
	case l.tail == 0:
	case len(l.held) < l.tail:
		l.held = append(l.held, e)
	default:
		l.held[l.next] = e
		l.next = (l.next + 1) % l.tail
	}
	return nil
}

func (l *logScan) show(e logEntry) error {
	l.matched++
	return l.sink.put(e)
}

// follow shows what comes until the session is over.
func (l *logScan) follow(ctx context.Context) error {
	told, end := notice.Watch(l.session.dir, func(name string) bool {
		return name == "execution-log.json" || name == "session-metadata.yaml"
	})
	defer func() { end() }()
	every := lookOver
	if told == nil {
		every = lookAgain
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if err := errors.Join(l.drain(ctx, l.show), l.sink.flush()); err != nil {
			return err
		}
		if why, over := l.session.over(l.last); over {
			// What was written between the two looks.
			if err := errors.Join(l.drain(ctx, l.show), l.sink.flush()); err != nil {
				return err
			}
			l.inv.note(why)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
			l.inv.out.look()
		case _, ok := <-told:
			if !ok { // the directory is gone
				told = nil
				t.Reset(lookAgain)
			}
		}
	}
}
