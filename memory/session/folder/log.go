package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// Log sums up execution-log.json.
type Log struct {
	Events      int
	ByType      map[EventType]int
	First, Last time.Time
	// Unordered counts the events that are older than the one before them.
	Unordered int
	// Completed are the ids of the tasks that completed.
	Completed map[string]bool
	// End is the result of the session_end with which the log ends, if it does.
	End string
	// Resumed says that the session went on after its last session_end.
	Resumed bool
	// Artifacts and Lessons are the files that were changed and what was learned,
	// as the ends of phases tell.
	Artifacts, Lessons []string
	Bytes              int64
	// Cut says that the log was too large for the occasion and not read.
	Cut bool
}

// Events calls each for the events of the execution log in dir, in order, and
// reads no more than it needs to at a time. Entries that are no event are left
// out. It returns the session id that the log states. A log that breaks off
// or is no JSON is an error once what stands before was passed; no log is an
// error that matches fs.ErrNotExist. An error of each ends it and is returned.
func Events(fsys afero.Fs, dir string, each func(Event) error) (sessionID string, err error) {
	path := filepath.Join(dir, logFile)
	f, _, err := openRegular(fsys, path)
	if err != nil {
		return "", fmt.Errorf("read log: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	stop := error(nil)
	sessionID, err = streamEvents(f, func(e Event) error { stop = each(e); return stop })
	if err != nil && stop == nil {
		err = fmt.Errorf("read log %q: %w", path, err)
	}
	return sessionID, err
}

func streamEvents(r io.Reader, each func(Event) error) (id string, err error) {
	d := json.NewDecoder(r)
	d.UseNumber()
	first, err := d.Token()
	if err != nil {
		return "", err
	}
	if first == json.Delim('[') {
		return "", streamList(d, each)
	}
	if first != json.Delim('{') {
		return "", errors.New("it holds no events")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return id, err
		}
		if key == "events" {
			if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
				return id, errors.Join(err, errors.New("events is no list"))
			}
			if err := streamList(d, each); err != nil {
				return id, err
			}
			continue
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return id, err
		}
		if key == "session_id" {
			id = asText(v)
		}
	}
	_, err = d.Token()
	return id, err
}

// streamList passes the entries of a list whose begin was read.
func streamList(d *json.Decoder, each func(Event) error) error {
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		if o, ok := plain(v).(object); ok {
			if err := each(eventOf(o)); err != nil {
				return err
			}
		}
	}
	_, err := d.Token()
	return err
}

// eventOf also reads events of the form {timestamp, type, data}. Keys that an
// event does not have become details.
func eventOf(o object) Event {
	details := o.object("details", "data")
	e := Event{Time: o.when("timestamp", "time"), Type: EventType(o.text("event_type", "type", "event")), TaskID: o.text("task_id", "taskId"),
		TaskName: o.text("task_name", "taskName"), Result: o.text("result"), Duration: time.Duration(o.float("duration_seconds") * float64(time.Second))}
	if e.TaskID == "" {
		e.TaskID = details.text("task_id", "taskId")
	}
	if e.Result == "" {
		e.Result = details.text("result")
	}
	e.Details, _ = bare(details).(map[string]any)
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	for k, v := range o {
		switch k {
		case "timestamp", "time", "event_type", "type", "event", "task_id", "taskId", "task_name", "taskName", "duration_seconds", "details", "data":
			continue
		case "result":
			if asText(v) == e.Result {
				continue
			}
		}
		if _, has := e.Details[k]; !has {
			e.Details[k] = bare(v)
		}
	}
	return e
}

func (d *Data) readLog(fsys afero.Fs, dir string, names []string, maxLog int64) {
	if !slices.Contains(names, logFile) {
		return
	}
	d.Files = append(d.Files, logFile)
	l := &d.Log
	if st, err := fsys.Stat(filepath.Join(dir, logFile)); err == nil {
		l.Bytes = st.Size()
	}
	if maxLog > 0 && l.Bytes > maxLog {
		l.Cut = true
		return
	}
	l.ByType, l.Completed = map[EventType]int{}, map[string]bool{}
	id, err := Events(fsys, dir, func(e Event) error {
		l.add(e)
		return nil
	})
	if id != "" {
		d.ids[logFile] = id
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.problem(logFile, err)
	}
}

func (l *Log) add(e Event) {
	l.Events++
	l.ByType[e.Type]++
	l.End = ""
	switch e.Type {
	case TaskComplete:
		if e.TaskID != "" && succeeded(e.Result) {
			l.Completed[e.TaskID] = true
		}
	case PhaseComplete:
		l.Artifacts = more(l.Artifacts, e.Details["files"])
		l.Lessons = more(l.Lessons, e.Details["learned"])
	case SessionStart:
		l.Resumed = l.Resumed || l.ByType[SessionEnd] > 0
	case SessionEnd:
		l.End, l.Resumed = e.Result, false
	}
	if e.Time.IsZero() {
		return
	}
	if l.First.IsZero() || e.Time.Before(l.First) {
		l.First = e.Time
	}
	if e.Time.Before(l.Last) {
		l.Unordered++
	} else {
		l.Last = e.Time
	}
}

// more adds the texts of a list that are not there yet.
func more(known []string, list any) []string {
	texts, _ := list.([]any)
	for _, v := range texts {
		if text, ok := v.(string); ok && len(known) < maxTold && !slices.Contains(known, text) {
			known = append(known, text)
		}
	}
	return known
}

// maxTold bounds what is collected of a log for the report.
const maxTold = 1000

// succeeded reads the result of a task as tools and people word it; none counts
// as success, since the event itself says that the task completed.
func succeeded(result string) bool {
	switch strings.ToLower(strings.TrimSpace(result)) {
	case "failed", "failure", "error", "skipped", "cancelled", "canceled", "interrupted", "aborted":
		return false
	}
	return true
}

// openRegular opens a regular file for reading and never a link or a FIFO.
func openRegular(fsys afero.Fs, path string) (afero.File, fs.FileInfo, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, nil, err
	}
	return f, info, nil
}
