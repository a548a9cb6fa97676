package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"

	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// counted is the real disk with a count of what is synced.
type counted struct {
	afero.OsFs
	syncs *atomic.Int64
}

type countedFile struct {
	afero.File
	syncs *atomic.Int64
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}

func (c counted) count(f afero.File, err error) (afero.File, error) {
	if err != nil {
		return nil, err
	}
	return countedFile{f, c.syncs}, nil
}

func (c counted) Create(name string) (afero.File, error) { return c.count(c.OsFs.Create(name)) }

func (c counted) Open(name string) (afero.File, error) { return c.count(c.OsFs.Open(name)) }

func (c counted) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	return c.count(c.OsFs.OpenFile(name, flag, perm))
}

// message is a record of usual size.
func message(i int) session.Record {
	payload, err := json.Marshal(map[string]any{"role": []string{"user", "assistant"}[i%2],
		"text": fmt.Sprintf("message %d: the upload failed again with status 503; look at upload/retry.go and say why the back-off was not kept", i)})
	if err != nil {
		panic(err) // such a map always encodes
	}
	return session.Record{Kind: "message", Payload: payload}
}

// acknowledge times the durable acceptance of a message against a bare append
// and fsync in the same directory, in turn.
func (l *lab) acknowledge() error {
	const n = 1000
	var syncs atomic.Int64
	dir := filepath.Join(l.dir, "ack")
	j, err := session.OpenJournal(counted{syncs: &syncs}, filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "quarantine"), nil)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	line, err := json.Marshal(message(0))
	if err != nil {
		return err
	}
	var ours, bare []float64
	syncs.Store(0)
	for i := range n {
		took, err := timed(func() error { return j.Append(0, message(i)) })
		if err != nil {
			return err
		}
		ours = append(ours, took)
		if took, err = timed(func() error {
			_, err := f.Write(append(line, '\n'))
			return errors.Join(err, f.Sync())
		}); err != nil {
			return err
		}
		bare = append(bare, took)
	}
	row("acknowledged message (write, fsync)", "ms", ours, bare)
	fmt.Printf("  p99 %.2f ms over a bare p99 of %.2f ms; %.2f fsyncs a record\n", ours[n*99/100], bare[n*99/100], float64(syncs.Load())/n)
	return errors.Join(j.Close(), f.Close())
}

func timed(f func() error) (ms float64, err error) {
	began := time.Now()
	err = f()
	return time.Since(began).Seconds() * 1e3, err
}

// taskFile is a RALPH_TASKS.md with n tasks.
func taskFile(n int) []byte {
	var b strings.Builder
	b.WriteString("# Tasks\n\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "- [ ] **T-%d** Retry the upload of part %d on 503\n  - status: pending\n  - priority: %d\n  - after: T-%d\n  - check: go test ./upload/...\n", i, i, i%3, max(i-1, 1))
	}
	return []byte(b.String())
}

// events times one more event in sessions of different age: the journal's
// record with its sync, and the entry of the execution log, which needs none.
func (l *lab) events() error {
	const n = 200
	for _, old := range []int{10, 10_000, 1_000_000} {
		s, err := l.sessionWith(old)
		if err != nil {
			return err
		}
		var record, entry []float64
		for i := range n {
			took, err := timed(func() error { return s.Journal().Append(0, message(i)) })
			if err != nil {
				return err
			}
			record = append(record, took)
			took, _ = timed(func() error { s.Folder().Log(event(i)); return nil })
			entry = append(entry, took)
		}
		row(fmt.Sprintf("one more in a session of %d: record, log entry", old), "ms", record, entry)
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func event(i int) folder.Event {
	return folder.Event{Type: folder.Message, TaskID: "T-1", Details: map[string]any{"role": "user", "text": "the upload failed again with status 503", "bytes": i}}
}

// sessionWith makes a session with so many records and log entries.
func (l *lab) sessionWith(n int) (*session.Session, error) {
	s, err := session.Create(session.Options{StateDir: filepath.Join(l.dir, "events", ".ralph"), Kind: "chat"}, fmt.Sprint("old ", n))
	if err != nil {
		return nil, err
	}
	records := make([]session.Record, 0, 1000)
	for i := range n {
		s.Folder().Log(event(i))
		if records = append(records, message(i)); len(records) == cap(records) || i == n-1 {
			if err := s.Journal().Append(0, records...); err != nil {
				return nil, err
			}
			records = records[:0]
		}
	}
	return s, nil
}

// change times one change of a task in a small and in a large file.
func (l *lab) change() error {
	const n = 300
	var figures [][]float64
	var flushed []float64
	for _, tasks := range []int{10_000, 10} {
		root := filepath.Join(l.dir, fmt.Sprintf("change-%d", tasks))
		s, err := l.storeWith(root, tasks)
		if err != nil {
			return err
		}
		var list []float64
		for i := range n {
			took, err := timed(func() error {
				_, err := s.SetTask(fmt.Sprintf("T-%d", 1+i*7%tasks), memory.TaskEdit{Status: markdown.InProgress, Result: fmt.Sprintf("try %d", i)})
				return err
			})
			if err != nil {
				return err
			}
			list = append(list, took)
			if i%10 == 9 { // bursts of ten, as a model's round makes them
				if took, err = timed(s.Flush); err != nil {
					return err
				}
				if tasks == 10_000 {
					flushed = append(flushed, took)
				}
			}
		}
		figures = append(figures, list)
		if err := s.Close(); err != nil {
			return err
		}
	}
	row("one change: 10,000 tasks, 10 tasks", "ms", figures[0], figures[1])
	fmt.Printf("  p99 %.2f ms and %.2f ms\n", figures[0][n*99/100], figures[1][n*99/100])
	slices.Sort(flushed)
	fmt.Printf("  a burst of ten in a file of 10,000 until it stands in the Markdown: %s, n = %d\n", spread(flushed, "ms"), len(flushed))
	return nil
}

func (l *lab) storeWith(root string, tasks int) (*memory.Store, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(root, memory.TasksFile), taskFile(tasks), 0o644); err != nil {
		return nil, err
	}
	s, _, err := memory.Open(l.ctx, memory.Options{Root: root, Holder: "bench"})
	return s, err
}

const (
	oldMessages = 100_000
	oldTasks    = 10_000
)

// openProject times the opening of a project with a long past against reading
// all of it.
func (l *lab) openProject() error {
	root := filepath.Join(l.dir, "large")
	s, err := l.storeWith(root, oldTasks)
	if err != nil {
		return err
	}
	o := session.Options{StateDir: s.StateDir(), Kind: "chat"}
	long, err := session.Create(o, "long")
	if err != nil {
		return err
	}
	records := make([]session.Record, 0, 1000)
	for i := range oldMessages {
		if records = append(records, message(i)); len(records) == cap(records) {
			if err := long.Journal().Append(0, records...); err != nil {
				return err
			}
			records = records[:0]
		}
	}
	if err := errors.Join(long.Close(), s.Close()); err != nil {
		return err
	}
	var open, all, openMB, allMB []float64
	for range l.n {
		took, mb, err := measured(func() error { return l.openLarge(root, o) })
		if err != nil {
			return err
		}
		open, openMB = append(open, took), append(openMB, mb)
		if took, mb, err = measured(func() error { return readAll(root, o) }); err != nil {
			return err
		}
		all, allMB = append(all, took), append(allMB, mb)
	}
	row("open 100,000 messages, 10,000 tasks", "ms", open, all)
	row("  memory allocated by it", "MB", openMB, allMB)
	return nil
}

// measured times f and counts what it allocates.
func measured(f func() error) (ms, mb float64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ms, err = timed(f)
	runtime.ReadMemStats(&after)
	return ms, float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20), err
}

// tailBytes is about what a model's window holds.
const tailBytes = 512 << 10

// openLarge does what a chat does with state when it goes on: the lock, the
// tasks, the session and the end of its conversation.
func (l *lab) openLarge(root string, o session.Options) error {
	s, _, err := memory.Open(l.ctx, memory.Options{Root: root, Holder: "bench"})
	if err != nil {
		return err
	}
	tasks, err := s.Tasks()
	if err != nil || len(tasks) != oldTasks {
		return errors.Join(fmt.Errorf("%d tasks, want %d", len(tasks), oldTasks), err)
	}
	long, err := session.Open(o, "long")
	if err != nil {
		return err
	}
	n := 0
	_, err = long.Journal().Tail(tailBytes, func(session.Record) error { n++; return nil })
	if err == nil && n == 0 {
		err = errors.New("the end of the conversation is empty")
	}
	return errors.Join(err, long.Close(), s.Close())
}

// readAll reads everything, as a program without an index would.
func readAll(root string, o session.Options) error {
	data, err := durable.ReadFile(afero.NewOsFs(), filepath.Join(root, memory.TasksFile), 64<<20)
	if err != nil {
		return err
	}
	if n := len(markdown.Parse(data).Tasks()); n != oldTasks {
		return fmt.Errorf("%d tasks, want %d", n, oldTasks)
	}
	long, err := session.Open(o, "long")
	if err != nil {
		return err
	}
	n := 0
	err = long.Records(func(r session.Record) error {
		var m struct{ Role, Text string }
		n++
		return json.Unmarshal(r.Payload, &m)
	})
	if err == nil && n != oldMessages {
		err = fmt.Errorf("%d messages, want %d", n, oldMessages)
	}
	return errors.Join(err, long.Close())
}
