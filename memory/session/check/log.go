package check

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// slack is how far times may be apart that mean the same.
const slack = 2 * time.Second

// task is where a log speaks of a task, by the number of the event.
type task struct {
	first, begun, done int // 0: nowhere
}

// logFacts are what one pass over the log tells.
type logFacts struct {
	events    int
	at        int  // the number of the last event
	readable  bool // whole
	tasks     map[string]*task
	more      bool // tasks beyond those that are kept
	types     map[string]*marks
	others    int // events of further types that are not ours
	timeless  marks
	typeless  marks
	negative  marks
	long      marks
	unordered marks     // older than the one before by more than the slack
	swapped   marks     // older than the one before
	after     marks     // behind the end of the session
	worked    time.Time // the last event but for handoffs, which an ended session may get
	gates     marks     // passed in spite of an exit code
	begun     time.Time // the last session_start
	errors    int
	decisions int
	trips     int
	rounds    map[int]round
	lastRound int
}

// round is one iteration as the log tells it.
type round struct {
	task  string
	event int
}

// pass is the state of a pass over the log.
type pass struct {
	*logFacts
	first, last time.Time
	open        int // sessions that began and did not end
	ended       bool
}

// read reads the session, and passes over its log once.
func (c *checker) read(ctx context.Context) (*logFacts, error) {
	p := &pass{logFacts: &logFacts{tasks: map[string]*task{}, types: map[string]*marks{}, rounds: map[int]round{}}}
	var err error
	c.data, err = folder.ReadEach(c.o.FS, c.o.Dir, func(id string, e folder.Event) error {
		if p.events++; p.events%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(id, "e")); err == nil {
			p.at = n
		}
		p.event(e)
		return nil
	})
	p.readable = !slices.ContainsFunc(c.data.Problems, func(p folder.Problem) bool { return p.File == logFile })
	if err == nil {
		err = ctx.Err()
	}
	return p.logFacts, err
}

func (p *pass) event(e folder.Event) {
	id := eventID(p.at)
	p.time(e, id)
	p.order(e, id)
	switch {
	case e.Type == "":
		p.typeless.mark(id, "")
	case !ours(e.Type):
		if m := p.types[string(e.Type)]; m != nil {
			m.mark(id, "")
		} else if len(p.types) < maxTypes {
			m = &marks{}
			m.mark(id, "")
			p.types[string(e.Type)] = m
		} else {
			p.others++
		}
	case e.Type == folder.Errored:
		p.errors++
	case e.Type == folder.Decided:
		p.decisions++
	case e.Type == folder.Tripped:
		p.trips++
	case e.Type == folder.SessionStart:
		p.begun = e.Time
	case e.Type == folder.GateChecked:
		if code, ok := e.Number("exit_code"); ok && code != 0 && e.Result == "passed" {
			p.gates.mark(id, text.Decimal(code))
		}
	}
	if e.TaskID != "" {
		p.task(e)
	}
}

// ours says that a type is one that Ralph writes.
func ours(t folder.EventType) bool {
	switch t {
	case folder.SessionStart, folder.TaskStart, folder.TaskComplete, folder.Decided, folder.Errored, folder.Retried, folder.Interrupted, folder.Message,
		folder.PhaseStart, folder.PhaseComplete, folder.GateChecked, folder.Tripped, folder.Checkpoint, folder.Handoff, folder.SessionEnd:
		return true
	}
	return false
}

func (p *pass) time(e folder.Event, id string) {
	if e.Duration < 0 {
		p.negative.mark(id, text.Decimal(e.Duration.Seconds())+" s")
	}
	if e.Time.IsZero() {
		p.timeless.mark(id, "")
		return
	}
	if p.first.IsZero() || e.Time.Before(p.first) {
		p.first = e.Time
	}
	switch {
	case e.Time.Before(p.last):
		p.swapped.mark(id, "")
		if e.Time.Before(p.last.Add(-slack)) {
			p.unordered.mark(id, "")
		}
	default:
		p.last = e.Time
	}
	if e.Type != folder.Handoff && e.Time.After(p.worked) {
		p.worked = e.Time
	}
	if since := p.last.Sub(p.first); e.Duration > since+slack {
		p.long.mark(id, fmt.Sprintf("%s s, %s s after the first event", text.Decimal(e.Duration.Seconds()), text.Decimal(since.Seconds())))
	}
}

// order holds the begins and ends of the session against each other.
func (p *pass) order(e folder.Event, id string) {
	switch e.Type {
	case folder.SessionStart:
		// A process that was killed left no end: the next begins again. In a merged
		// log two begin before one ends.
		p.ended = false
		p.open++
	case folder.Handoff:
		// A session that has ended may be given what another knows.
	default:
		if p.ended {
			p.after.mark(id, string(e.Type))
		}
		if e.Type == folder.SessionEnd {
			p.open = max(0, p.open-1)
			p.ended = p.open == 0
		}
	}
}

func (p *pass) task(e folder.Event) {
	t := p.tasks[e.TaskID]
	if t == nil {
		if len(p.tasks) >= maxTasks {
			p.more = true
			return
		}
		t = &task{first: p.at}
		p.tasks[strings.Clone(e.TaskID)] = t
	}
	switch e.Type {
	case folder.TaskStart:
		if t.begun == 0 {
			t.begun = p.at
		}
		if n, ok := e.Number("iteration"); ok && n >= 1 && n < 1e6 && len(p.rounds) < maxTasks {
			p.rounds[int(n)] = round{strings.Clone(e.TaskID), p.at}
			p.lastRound = max(p.lastRound, int(n))
		}
	case folder.TaskComplete:
		if t.done == 0 {
			t.done = p.at
		}
	}
}

// log tells what the log says against itself and against the other files.
func (c *checker) log(l *logFacts) {
	for _, t := range slices.Sorted(maps.Keys(l.types)) {
		m := l.types[t]
		c.differ("event_type", folder.Difference{Field: "event_type", FileA: logFile, ValueA: fmt.Sprintf("%s, %s", t, text.Times(m.n)), FileB: format, ValueB: "no such type", IDs: m.ids})
	}
	if l.others > 0 {
		c.add("event_type", logFile, text.Count(l.others, "event")+" of still other types", format, "no such types")
	}
	if l.typeless.n > 0 {
		c.add("event_type", logFile, text.Count(l.typeless.n, "event")+" without", format, "each has one", l.typeless.ids...)
	}
	if l.timeless.n > 0 {
		c.add("timestamp", logFile, text.Count(l.timeless.n, "event")+" without a time that can be read", format, "each has one", l.timeless.ids...)
	}
	if l.negative.n > 0 {
		c.add("duration_seconds", logFile, l.negative.values(), format, "0 s or more", l.negative.ids...)
	}
	if l.long.n > 0 {
		c.add("duration_seconds", logFile, l.long.values(), logFile, "durations within the time that passed", l.long.ids...)
	}
	if l.after.n > 0 {
		c.add("session_end", logFile, l.after.values()+" behind session_end", format, "nothing until the next session_start", l.after.ids...)
	}
	c.logTasks(l)
	c.logCounts(l)
}

// logTasks holds the tasks that the log names against those that are tracked.
func (c *checker) logTasks(l *logFacts) {
	known := make(map[string]folder.TaskStatus, len(c.data.Progress.Tasks))
	for _, t := range c.data.Progress.Tasks {
		known[t.TaskID] = t.Status
	}
	var gone, early marks
	for _, id := range byEvent(l.tasks) {
		t := l.tasks[id]
		if _, ok := known[id]; !ok && len(known) > 0 {
			gone.mark(eventID(t.first), id)
		}
		if t.done > 0 && t.begun > t.done && !c.own {
			early.mark(eventID(t.done), id)
		}
	}
	switch {
	case gone.n > 0 && c.own:
		// Ralph keeps no progress of a task that was taken out of the plan.
		c.note("%s in %s and not in %s: taken out of the plan since (%s)", text.Count(gone.n, "task"), logFile, progressFile, gone.values())
	case gone.n > 0 && !c.o.Live:
		c.add("task_id", logFile, gone.values(), progressFile, "not listed", gone.ids...)
	}
	if early.n > 0 {
		c.add("task order", logFile, "completed before it began: "+early.values(), format, "task_start first", early.ids...)
	}
	if l.more {
		c.note("%s names more tasks than are looked at (%d)", logFile, maxTasks)
	}
	if len(known) == 0 || c.o.Live || c.own {
		return
	}
	for _, x := range []struct {
		file, field, mark string
		ids               func(each func(i int, id string))
	}{
		{decisionsFile, "task_id", "d", func(each func(int, string)) {
			for i, d := range c.data.EachDecision() {
				each(i, d.TaskID)
			}
		}},
		{errorsFile, "task_id", "x", func(each func(int, string)) {
			for i, e := range c.data.EachFailure() {
				each(i, e.TaskID)
			}
		}},
	} {
		var odd marks
		x.ids(func(i int, id string) {
			if _, ok := known[id]; id != "" && !ok {
				odd.mark(x.mark+strconv.Itoa(i+1), id)
			}
		})
		if odd.n > 0 {
			c.add(x.field, x.file, odd.values(), progressFile, "not listed", odd.ids...)
		}
	}
}

// byEvent orders tasks by where the log first names them.
func byEvent(tasks map[string]*task) []string {
	return slices.SortedFunc(maps.Keys(tasks), func(a, b string) int { return tasks[a].first - tasks[b].first })
}

// logCounts holds the number of events against the lists beside the log. Where
// one of the two lists nothing at all, its writer did not keep it.
func (c *checker) logCounts(l *logFacts) {
	if c.cut || c.own || !l.readable || l.events == 0 {
		return // Ralph tells more in the one than in the other
	}
	for _, x := range []struct {
		field, file string
		n, listed   int
	}{{"errors", errorsFile, l.errors, c.data.NFailures()}, {"decisions", decisionsFile, l.decisions, c.data.NDecisions()},
		{"circuit_breaker_trips", errorsFile, l.trips, len(c.data.Trips)}} {
		if x.n != x.listed && c.has(x.file) && x.n > 0 && x.listed > 0 {
			c.add(x.field, logFile, strconv.Itoa(x.n), x.file, strconv.Itoa(x.listed))
		}
	}
}

// open opens a regular file of the session for reading, never a link or a pipe.
func (c *checker) open(name string) (io.ReadCloser, error) {
	f, err := c.o.FS.OpenFile(filepath.Join(c.o.Dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), errors.New("is no regular file"))
	}
	return f, nil
}

// zones tells of times in different zones, or in none, which sort and read
// wrongly beside each other.
func (c *checker) zones(ctx context.Context) error {
	f, err := c.open(logFile)
	if err != nil {
		return nil // whatever it is, it is told already
	}
	defer func() { _ = f.Close() }() // only read from
	z := zoner{found: map[string]*marks{}}
	r := bufio.NewReaderSize(f, 1<<16)
	buf := make([]byte, 1<<16)
	for damage := 0; damage <= durable.MaxDamage; {
		n, err := r.Read(buf)
		if z.take(buf[:n]); bytes.IndexByte(buf[:n], 0) >= 0 { // no text has one
			damage += n
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			break
		}
	}
	if len(z.found) == 0 || len(z.found) == 1 && z.found["Z"] != nil {
		return nil
	}
	var parts []string
	var odd marks
	for _, zone := range slices.SortedFunc(maps.Keys(z.found), func(a, b string) int { return strings.Compare(a, b) }) {
		m := z.found[zone]
		parts = append(parts, fmt.Sprintf("%s %s", zone, text.Times(m.n)))
		if zone != "Z" && len(odd.ids) < maxIDs {
			odd.ids = append(odd.ids, m.ids[:min(len(m.ids), maxIDs-len(odd.ids))]...)
		}
	}
	if len(z.found) == 1 {
		c.note("the times in %s are in a zone of their own: %s", logFile, parts[0])
		return nil
	}
	c.add("timestamp", logFile, "zones "+strings.Join(parts, ", "), format, "UTC", odd.ids...)
	return nil
}

// journalFacts are what one pass over the journal tells.
type journalFacts struct {
	records, imports, bad int
	gaps, again           marks
	epochs                marks
	err                   error
}

func readJournal(ctx context.Context, c *checker) (*journalFacts, error) {
	j := &journalFacts{}
	if !c.has(journalFile) {
		return j, nil
	}
	seq, epoch, merged := int64(0), uint64(0), false
	bad, err := session.ReadRecords(c.o.FS, filepath.Join(c.o.Dir, journalFile), nil, func(r session.Record) error {
		if j.records++; j.records%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id := "j" + strconv.FormatInt(r.Seq, 10)
		switch {
		case r.Seq <= seq:
			j.again.mark(id, fmt.Sprintf("%d after %d", r.Seq, seq))
		case r.Seq > seq+1:
			j.gaps.mark(id, missing(seq+1, r.Seq-1))
		}
		seq = r.Seq
		merged = merged || r.Kind == "merged"
		// Each process counts its stops from the beginning.
		if r.Epoch < epoch && r.Epoch > 0 && !merged {
			j.epochs.mark(id, fmt.Sprintf("%d after %d", r.Epoch, epoch))
		}
		epoch = r.Epoch
		if r.Kind == "import" {
			j.imports++
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	j.bad, j.err = bad, err
	return j, nil
}

func missing(from, to int64) string {
	if from == to {
		return strconv.FormatInt(from, 10)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// journal tells what the journal says against itself.
func (c *checker) journal(j *journalFacts) {
	if j.err != nil {
		c.add("unreadable", journalFile, plain(j.err), format, "what can be read")
	}
	if j.bad > 0 {
		c.add("unreadable", journalFile, text.Count(j.bad, "line")+" that are no records or do not fit their checksum", format, "one record a line")
	}
	if j.again.n > 0 {
		c.add("seq", journalFile, j.again.values(), format, "one more each time", j.again.ids...)
	}
	if j.gaps.n > 0 && j.bad == 0 {
		c.add("seq", journalFile, "without "+j.gaps.values(), format, "no gap", j.gaps.ids...)
	}
	if j.epochs.n > 0 {
		c.add("epoch", journalFile, j.epochs.values(), format, "never less but for a new process", j.epochs.ids...)
	}
}
