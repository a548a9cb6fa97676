// Package folder owns the derived files of a session: what happened, how far
// the tasks are, what was decided, what failed, what was measured, and the
// report; as data that people and other tools read.
//
// The journal is the truth and is not kept here: these files repeat it in a
// form that can be queried. So they never fail the work (Close says what could
// not be written), an entry costs no sync, and a file that is broken is set
// aside and begun anew. Keys that Ralph does not know stay, files that it does
// not know are not touched. Reading accepts what other tools write, and
// contradictions are named, never mended.
//
//	f, err := folder.Open(folder.Options{Dir: dir, SessionID: "001"})
//	f.Log(folder.Event{Type: folder.TaskStart, TaskID: "T-1"})
//	f.Task(folder.TaskState{TaskID: "T-1", Status: folder.TaskInProgress})
//	…
//	err = f.Close()
//	err = folder.ReportOptions{}.Write(nil, dir)
package folder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// Options says which session's files a Folder writes.
type Options struct {
	// FS holds them; nil means the real disk.
	FS afero.Fs
	// Dir is the session's directory, absolute; it is made when it is gone.
	Dir string
	// SessionID is the session's number, or what else names it.
	SessionID string
	// Quarantine is where broken files go; empty means a directory of that name
	// in Dir.
	Quarantine string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Redact takes secrets out of what is written; nil keeps all. Of valid JSON
	// it must make valid JSON.
	Redact func(string) string
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redact == nil {
		o.Redact = func(t string) string { return t }
	}
	if o.Quarantine == "" {
		o.Quarantine = filepath.Join(o.Dir, "quarantine")
	}
	return o
}

// lag bounds how long a change may wait that would rewrite a large file.
const lag = time.Second

// Folder writes the files of one session. Each is made when there is something
// to write. It is safe for concurrent use; whoever opens it closes it. There
// must be one Folder for a directory at a time: the project's lock sees to
// that.
//
// What the disk does not take is held in memory and tried again with the next
// change of the same file, within a second, and by Close.
type Folder struct {
	o Options

	mu        sync.Mutex
	log       *listFile
	last      time.Time // of the last event
	decisions *listFile
	errors    *listFile
	metrics   *listFile
	progress  *progressFileDoc
	counts    counts
	open      map[int]opened // decisions, failures and trips that may still change
	lastID    int
	timer     *time.Timer // flushes what waits; nil when nothing does
	timers    sync.WaitGroup
	lasting   error // what can never be written
	closed    bool
}

// opened finds an entry again that was written before.
type opened struct {
	file  *listFile
	list  string
	match map[string]json.RawMessage
	at    time.Time
}

// Open opens the files of a session. It reads and writes nothing yet; the only
// error is that no directory was given.
func Open(o Options) (*Folder, error) {
	if o.Dir == "" {
		return nil, errors.New("open session files: no directory was given")
	}
	o = o.withDefaults()
	f := &Folder{o: o, open: map[int]opened{}}
	id := member{"session_id", f.encode(SessionID(o.SessionID))}
	f.log = newListFile(&f.o, logFile, "events", id)
	f.decisions = newListFile(&f.o, decisionsFile, "decisions", id)
	f.errors = newListFile(&f.o, errorsFile, "errors", id, member{"circuit_breaker_trips", json.RawMessage("[]")})
	f.metrics = newListFile(&f.o, metricsFile, "metrics", id)
	f.progress = newProgress(&f.o)
	return f, nil
}

// encode gives the JSON of a value without secrets.
func (f *Folder) encode(v any) json.RawMessage {
	data, err := readable(v)
	if err != nil {
		data, _ = readable(fmt.Sprint(v)) // a text always encodes
	}
	if clean := f.o.Redact(string(data)); json.Valid([]byte(clean)) {
		return json.RawMessage(clean)
	}
	return f.encodeTexts(data)
}

// encodeTexts takes secrets out of each text alone, when taking them out of the
// whole broke its form.
func (f *Folder) encodeTexts(data []byte) json.RawMessage {
	v, err := fromJSON(data)
	if err == nil {
		data, err = readable(eachText(v, f.o.Redact))
	}
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

func eachText(v any, change func(string) string) any {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			v[k] = eachText(e, change)
		}
	case []any:
		for i, e := range v {
			v[i] = eachText(e, change)
		}
	case string:
		return change(v)
	}
	return v
}

func (f *Folder) now(t time.Time) time.Time {
	if t.IsZero() {
		t = f.o.Now()
	}
	return stamp(t)
}

// Log appends an event to the execution log. The details must not be changed
// meanwhile; those that do not encode are written as the text that prints them.
func (f *Folder) Log(e Event) {
	e.Time = f.now(e.Time)
	e.Details = encodable(e.Details)
	if e.Type == TaskComplete {
		e.Result = resultWord(e.Result)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if e.Type == Interrupted && byHuman(e.Result) {
		f.counts.Interventions++
	}
	if e.Time.Before(f.last) && !f.now(time.Time{}).Before(f.last) { // else the clock was set back
		e.Time = f.last // agents speak at once, and some are written late: the log is in order
	}
	f.last = e.Time
	f.log.append(f.encode(e))
	f.wait(f.log.flush())
}

func encodable(details map[string]any) map[string]any {
	if _, err := json.Marshal(details); err == nil {
		return details
	}
	clean := make(map[string]any, len(details))
	for k, v := range details {
		if _, err := json.Marshal(v); err != nil {
			v = fmt.Sprint(v)
		}
		clean[k] = v
	}
	return clean
}

// Decide records a decision, and returns the number by which Outcome knows it.
func (f *Folder) Decide(d Decision) (id int) {
	d.Time = f.now(d.Time)
	d.Context.AvailableActions = append([]string{}, d.Context.AvailableActions...)
	d.Decision.Alternatives = append([]alternative{}, d.Decision.Alternatives...)
	r := &d.Context.Risk
	for _, n := range []*float64{&r.Execution, &r.Resource, &r.Dependency, &d.Decision.Confidence} {
		*n = finite(*n)
	}
	for i := range d.Decision.Alternatives {
		d.Decision.Alternatives[i].Score = finite(d.Decision.Alternatives[i].Score)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0
	}
	if asksHuman(d.DecisionType) {
		f.counts.HelpRequests++
	}
	f.decisions.append(f.encode(d))
	f.wait(f.decisions.flush())
	if d.Outcome != "" {
		return f.next(opened{})
	}
	return f.next(opened{file: f.decisions, list: "decisions", at: d.Time, match: map[string]json.RawMessage{
		"timestamp": f.encode(d.Time), "task_id": f.encode(d.TaskID), "decision_type": f.encode(d.DecisionType), "outcome": json.RawMessage(`""`)}})
}

// finite turns what JSON cannot say into 0.
func finite(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// next numbers an entry that may still change; mu is held.
func (f *Folder) next(o opened) int {
	f.lastID++
	if o.file != nil {
		f.open[f.lastID] = o
	}
	return f.lastID
}

// Outcome says how the decision with this number turned out. A second one for
// the same decision does nothing.
func (f *Folder) Outcome(id int, outcome string) {
	f.amend(id, f.decisions, "decisions", func(opened) map[string]json.RawMessage {
		return map[string]json.RawMessage{"outcome": f.encode(resultWord(outcome))}
	})
}

// Fail records a failure, and returns the number by which Resolve knows it.
func (f *Folder) Fail(e Failure) (id int) {
	e.Time = f.now(e.Time)
	e.Severity = cmp.Or(e.Severity, Medium)
	if e.ResolutionTimeSeconds != nil {
		s := finite(*e.ResolutionTimeSeconds)
		e.ResolutionTimeSeconds = &s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0
	}
	f.counts.Failures++
	f.errors.append(f.encode(e))
	f.wait(f.errors.flush())
	if e.Resolved {
		return f.next(opened{})
	}
	return f.next(opened{file: f.errors, list: "errors", at: e.Time, match: map[string]json.RawMessage{
		"timestamp": f.encode(e.Time), "task_id": f.encode(e.TaskID), "error_message": f.encode(e.ErrorMessage), "resolved": json.RawMessage("false")}})
}

// Resolve says what ended the failure with this number, and after how many
// retries. A second one for the same failure does nothing.
func (f *Folder) Resolve(id int, action string, retries int) {
	f.amend(id, f.errors, "errors", func(o opened) map[string]json.RawMessage {
		return map[string]json.RawMessage{"retry_count": f.encode(retries), "recovery_action": f.encode(action),
			"resolved": json.RawMessage("true"), "resolution_time_seconds": f.encode(f.since(o.at))}
	})
}

// Trip records that the circuit breaker tripped, and returns the number by
// which Reset knows it.
func (f *Folder) Trip(t Trip) (id int) {
	t.Time, t.DurationSeconds = f.now(t.Time), finite(t.DurationSeconds)
	entry := f.encode(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0
	}
	f.errors.change(func(d *document) { d.push("circuit_breaker_trips", entry) })
	f.wait(f.errors.flush())
	if t.Resolved {
		return f.next(opened{})
	}
	return f.next(opened{file: f.errors, list: "circuit_breaker_trips", at: t.Time, match: map[string]json.RawMessage{
		"timestamp": f.encode(t.Time), "condition": f.encode(t.Condition), "resolved": json.RawMessage("false")}})
}

// Reset says that the circuit that tripped with this number is closed again.
func (f *Folder) Reset(id int) {
	f.amend(id, f.errors, "circuit_breaker_trips", func(o opened) map[string]json.RawMessage {
		return map[string]json.RawMessage{"resolved": json.RawMessage("true"), "duration_seconds": f.encode(f.since(o.at))}
	})
}

func (f *Folder) since(t time.Time) float64 { return inSeconds(max(0, f.o.Now().Sub(t))) }

// amend changes keys of an entry that was written before.
func (f *Folder) amend(id int, file *listFile, list string, with func(opened) map[string]json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.open[id]
	if !ok || f.closed || o.file != file || o.list != list {
		return
	}
	delete(f.open, id)
	keys := with(o)
	file.change(func(d *document) { d.amend(list, o.match, keys) })
	f.wait(file.flush())
}

// Measure records a number that a check or a gate yielded. What is no finite
// number is left out.
func (f *Folder) Measure(m Metric) {
	m.MeasuredAt = f.now(m.MeasuredAt)
	if finite(m.Value) != m.Value || m.Target != nil && finite(*m.Target) != *m.Target {
		return
	}
	entry, at := f.encode(m), f.encode(m.MeasuredAt)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.metrics.change(func(d *document) {
		d.set("updated_at", at)
		d.push("metrics", entry)
	})
	f.wait(f.metrics.flush())
}

// Task notes how a task stands. It finds the task by its id; what is zero in t
// stays as it is known, and times that follow from the status are set: a task
// in progress has started, one that is over is completed. A task that is begun
// again is no longer completed. The duration is what was worked on it, without
// the rests. It returns how long that is; 0 as long as the task is not over.
func (f *Folder) Task(t TaskState) (worked time.Duration) {
	f.track(func(p *progressFileDoc) {
		if s := p.task(t); s.Status.over() && s.DurationSeconds != nil {
			worked = time.Duration(*s.DurationSeconds * float64(time.Second))
		}
	})
	return worked
}

// Tasks is Task for many, with one write.
func (f *Folder) Tasks(tasks ...TaskState) {
	f.track(func(p *progressFileDoc) {
		for _, t := range tasks {
			p.task(t)
		}
	})
}

// Forget takes tasks out of the progress that are in the plan no more; the log
// keeps what was done for them.
func (f *Folder) Forget(tasks ...string) {
	f.track(func(p *progressFileDoc) {
		for _, id := range tasks {
			p.forget(p.clean(id))
		}
	})
}

// Phase notes the phase that is worked on, by its number from 1 and its name, and
// how much of it is done, from 0 to 100.
func (f *Folder) Phase(number int, name string, percent float64) {
	f.track(func(p *progressFileDoc) {
		p.p.Progress.CurrentPhase, p.p.Progress.PhaseName = number, p.clean(name)
		p.p.Progress.PhaseProgress = math.Round(10*min(max(finite(percent), 0), 100)) / 10
	})
}

// Milestone notes how a milestone stands; it finds it by its name.
func (f *Folder) Milestone(m Milestone) {
	f.track(func(p *progressFileDoc) { p.milestone(m) })
}

// Gate notes how a quality gate stands; it finds it by its name.
func (f *Folder) Gate(g Gate) {
	f.track(func(p *progressFileDoc) { p.gate(g) })
}

func (f *Folder) track(change func(*progressFileDoc)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.progress.load()
	change(f.progress)
	f.progress.dirty = true
	f.wait(f.progress.flush())
}

// Counts sums up what is known; see there.
func (f *Folder) Counts() counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	f.progress.count(&c)
	return c
}

// wait sees to it that what a file could or should not write now is tried again
// within lag; mu is held.
func (f *Folder) wait(later bool) {
	if !later || f.timer != nil || f.closed {
		return
	}
	f.timers.Add(1)
	f.timer = time.AfterFunc(lag, func() {
		defer f.timers.Done()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.timer = nil
		if !f.closed {
			f.flush()
		}
	})
}

// flush writes all that waits; mu is held.
func (f *Folder) flush() {
	again := false
	for _, l := range []*listFile{f.log, f.decisions, f.errors, f.metrics} {
		again = l.write() || again
	}
	f.wait(f.progress.write() || again)
}

// Flush writes what waits. The error says what is still held.
func (f *Folder) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.flush()
	}
	return f.held()
}

// held is why something is not in the files.
func (f *Folder) held() error {
	return errors.Join(f.log.err, f.decisions.err, f.errors.err, f.metrics.err, f.progress.err, f.lasting)
}

// Close writes what waits, and returns what of all that was recorded could not
// be written. Whatever is recorded later is left out. A second Close does
// nothing.
func (f *Folder) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	if f.flush(); f.held() != nil {
		f.flush()
	}
	f.closed = true
	err := f.held()
	for _, l := range []*listFile{f.log, f.decisions, f.errors, f.metrics} {
		// The second try of a sync that failed writes the file anew.
		if l.close() != nil {
			err = errors.Join(err, l.close())
		}
	}
	if f.timer != nil && f.timer.Stop() {
		f.timers.Done()
	}
	f.mu.Unlock()
	f.timers.Wait()
	return err
}
