package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/session/keep"
)

// progressFileDoc is progress-tracking.yaml in memory. A task keeps its text,
// so that a change costs what the task costs and not what all cost. The
// Folder's mutex guards it.
type progressFileDoc struct {
	o    *Options
	path string

	loaded bool
	placed bool     // Progress was taken from the file
	p      Progress // Tasks, Milestones and QualityGates stay empty
	extra  []*yaml.Node
	inner  []*yaml.Node // keys of progress that Ralph does not know
	tasks  []*taskEntry
	at     map[string]int  // tasks by id
	gone   map[string]bool // tasks that the file still has, and p no more
	marks  []entry[Milestone]
	gates  []entry[Gate]
	seen   signature // of the file as it was read
	mine   signature // of the file as it was written
	bytes  int
	dirty  bool
	err    error
}

// entry is an element of a list with the keys that Ralph does not know.
type entry[T any] struct {
	value T
	extra []*yaml.Node
}

type taskEntry struct {
	entry[TaskState]
	text  []byte    // rendered; nil after a change
	since time.Time // it is worked on, in this process; zero when it is not
}

// rest adds what was worked on the task since it went on last.
func (e *taskEntry) rest(at time.Time) {
	since := e.since
	if since.IsZero() && e.value.StartedAt != nil && e.value.DurationSeconds == nil {
		since = *e.value.StartedAt
	}
	if e.since = (time.Time{}); since.IsZero() {
		return
	}
	worked := inSeconds(max(0, at.Sub(since)))
	if d := e.value.DurationSeconds; d != nil {
		worked += *d
	}
	worked = math.Round(worked*1000) / 1000
	e.value.DurationSeconds = &worked
}

// signature tells whether a file is the one that was written last.
type signature struct {
	size int64
	at   time.Time
}

func newProgress(o *Options) *progressFileDoc {
	return &progressFileDoc{o: o, path: filepath.Join(o.Dir, progressFile), at: map[string]int{}, gone: map[string]bool{}}
}

// clean takes out secrets and what YAML would write as a blob.
func (p *progressFileDoc) clean(s string) string {
	return strings.ToValidUTF8(p.o.Redact(strings.ToValidUTF8(s, "\ufffd")), "\ufffd")
}

// load takes up what the file says, at first and when somebody changed it; what
// is known here wins over what is read. What cannot be read is dealt with when
// it is written.
func (p *progressFileDoc) load() {
	is := p.signature()
	if p.loaded && (is == p.seen || is == signature{}) {
		return
	}
	p.loaded, p.seen = true, is
	data, err := durable.ReadFile(p.o.FS, p.path, maxFileBytes)
	if err != nil {
		return
	}
	var doc yaml.Node
	if yaml.Load(data, &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return
	}
	p.bytes = len(data)
	p.adopt(doc.Content[0])
}

func (p *progressFileDoc) signature() signature {
	st, err := p.o.FS.Stat(p.path)
	if err != nil {
		return signature{}
	}
	return signature{st.Size(), st.ModTime()}
}

// adopt takes over what the file has and p does not.
func (p *progressFileDoc) adopt(top *yaml.Node) {
	if !p.placed && p.p.LastUpdated.IsZero() {
		p.placed = true
		read, _ := progressOf(object{"progress": objectOf(value(top, "progress"))})
		p.p.Progress = read.Progress
	}
	p.extra = keep.Unknown(top, "session_id", "last_updated", "progress", "tasks", "milestones", "quality_gates")
	p.inner = keep.Unknown(value(top, "progress"), "current_task_id", "current_phase", "phase_name", "overall_progress", "phase_progress")
	for _, n := range elements(top, "tasks") {
		t := taskOf(objectOf(n))
		extra := keep.Unknown(n, "task_id", "status", "started_at", "completed_at", "duration_seconds", "result", "details", "artifacts")
		if at, known := p.at[t.TaskID]; known {
			p.tasks[at].extra, p.tasks[at].text = extra, nil
			continue
		}
		if !p.gone[t.TaskID] {
			p.at[t.TaskID] = len(p.tasks)
			p.tasks = append(p.tasks, &taskEntry{entry: entry[TaskState]{t, extra}})
		}
	}
	for _, n := range elements(top, "milestones") {
		p.marks = adoptEntry(p.marks, milestoneOf(objectOf(n)), keep.Unknown(n, "name", "target", "achieved", "achieved_at"), func(m Milestone) string { return m.Name })
	}
	for _, n := range elements(top, "quality_gates") {
		p.gates = adoptEntry(p.gates, gateOf(objectOf(n)), keep.Unknown(n, "name", "metric", "threshold", "operator", "passed"), func(g Gate) string { return g.Name })
	}
}

func adoptEntry[T any](known []entry[T], read T, extra []*yaml.Node, name func(T) string) []entry[T] {
	for i := range known {
		if name(known[i].value) == name(read) {
			known[i].extra = extra
			return known
		}
	}
	return append(known, entry[T]{read, extra})
}

// value returns what stands under a key of a mapping; nil when nothing does.
func value(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != key {
			continue
		}
		if v := n.Content[i+1]; v.Kind == yaml.AliasNode {
			return v.Alias
		}
		return n.Content[i+1]
	}
	return nil
}

// elements returns the mappings of a list, as objects does.
func elements(top *yaml.Node, key string) []*yaml.Node {
	list := value(top, key)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	var found []*yaml.Node
	for _, n := range list.Content {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind == yaml.MappingNode {
			found = append(found, n)
		}
	}
	return found
}

// task puts t over what is known of the task.
func (p *progressFileDoc) task(t TaskState) TaskState {
	t.TaskID, t.Details = p.clean(t.TaskID), p.clean(t.Details)
	at, known := p.at[t.TaskID]
	if !known {
		delete(p.gone, t.TaskID)
		at = len(p.tasks)
		p.at[t.TaskID] = at
		p.tasks = append(p.tasks, &taskEntry{entry: entry[TaskState]{value: TaskState{TaskID: t.TaskID, Status: TaskPending, Artifacts: []string{}}}})
	}
	e := p.tasks[at]
	e.text = nil
	s := &e.value
	now := stamp(p.o.Now())
	was := s.Status
	if t.Status != "" && t.Status != was {
		if s.Status = t.Status; was.over() && !s.Status.over() {
			s.StartedAt, s.CompletedAt, s.DurationSeconds = nil, nil, nil
		}
		s.Result = s.Status.result()
	}
	set(&s.StartedAt, t.StartedAt)
	set(&s.CompletedAt, t.CompletedAt)
	switch {
	case s.Status == TaskInProgress && was != TaskInProgress:
		if s.StartedAt == nil {
			s.StartedAt = &now
		}
		if e.since = now; t.StartedAt != nil {
			e.since = *s.StartedAt
		}
	case was == TaskInProgress && s.Status != TaskInProgress:
		at := now
		if s.CompletedAt != nil {
			at = *s.CompletedAt
		}
		e.rest(at)
	}
	if s.CompletedAt == nil && s.Status.over() {
		s.CompletedAt = &now
	}
	if t.Details != "" {
		s.Details = t.Details
	}
	for _, a := range t.Artifacts {
		if a = p.clean(a); !slices.Contains(s.Artifacts, a) {
			s.Artifacts = append(s.Artifacts, a)
		}
	}
	if t.DurationSeconds != nil {
		d := finite(*t.DurationSeconds)
		s.DurationSeconds = &d
	} else if s.DurationSeconds == nil && s.StartedAt != nil && s.CompletedAt != nil {
		d := inSeconds(max(0, s.CompletedAt.Sub(*s.StartedAt)))
		s.DurationSeconds = &d
	}
	switch {
	case s.Status == TaskInProgress:
		p.p.Progress.CurrentTaskID = s.TaskID
	case p.p.Progress.CurrentTaskID == s.TaskID:
		p.p.Progress.CurrentTaskID = ""
	}
	return *s
}

// rested pauses what a process left in progress that worked until then.
func (p *progressFileDoc) rested(until time.Time) {
	for _, e := range p.tasks {
		if s := &e.value; s.Status == TaskInProgress {
			e.rest(until)
			s.Status, e.text, p.dirty = TaskPaused, nil, true
		}
	}
	if p.dirty {
		p.p.Progress.CurrentTaskID = ""
	}
}

func set(to **time.Time, from *time.Time) {
	if from != nil && !from.IsZero() {
		t := stamp(*from)
		*to = &t
	}
}

func (p *progressFileDoc) forget(id string) {
	at, ok := p.at[id]
	if !ok {
		return
	}
	p.tasks = slices.Delete(p.tasks, at, at+1)
	delete(p.at, id)
	p.gone[id] = true
	for other, i := range p.at {
		if i > at {
			p.at[other] = i - 1
		}
	}
}

func (p *progressFileDoc) milestone(m Milestone) {
	m.Name, m.Target = p.clean(m.Name), p.clean(m.Target)
	var at *time.Time
	set(&at, m.AchievedAt)
	if m.AchievedAt = at; m.Achieved && at == nil {
		now := stamp(p.o.Now())
		m.AchievedAt = &now
	}
	p.marks = putEntry(p.marks, m, func(m Milestone) string { return m.Name })
}

func (p *progressFileDoc) gate(g Gate) {
	g.Name, g.Metric, g.Operator, g.Threshold = p.clean(g.Name), p.clean(g.Metric), p.clean(g.Operator), finite(g.Threshold)
	p.gates = putEntry(p.gates, g, func(g Gate) string { return g.Name })
}

func putEntry[T any](list []entry[T], v T, name func(T) string) []entry[T] {
	for i := range list {
		if name(list[i].value) == name(v) {
			list[i].value = v
			return list
		}
	}
	return append(list, entry[T]{value: v})
}

// count sums up the tasks.
func (p *progressFileDoc) count(c *counts) {
	c.Phase, c.PhaseName = p.p.Progress.CurrentPhase, p.p.Progress.PhaseName
	if !p.loaded {
		return
	}
	c.Tracked, c.Tasks = true, len(p.tasks)
	given, timed, total := 0, 0, 0.0
	for _, e := range p.tasks {
		switch e.value.Status {
		case TaskCompleted:
			c.Completed++
		case TaskError:
			given++
		}
		if d := e.value.DurationSeconds; d != nil && e.value.Status.over() {
			timed++
			total += *d
		}
	}
	if n := c.Completed + max(given, c.Failures); n > 0 { // a failed attempt counts, whatever came after it
		c.SuccessRate = math.Round(10000*float64(c.Completed)/float64(n)) / 10000
	}
	if timed > 0 {
		c.AverageDuration = time.Duration(total / float64(timed) * float64(time.Second)).Round(time.Millisecond)
	}
}

// flush writes a small file at once; later says that something waits.
func (p *progressFileDoc) flush() (later bool) {
	if p.bytes > smallBytes {
		return true
	}
	return p.write()
}

// write writes what has changed; again says that it is to be tried again.
func (p *progressFileDoc) write() (again bool) {
	if !p.dirty {
		return false
	}
	p.load()
	var c counts
	p.count(&c)
	p.p.Progress.OverallProgress = percent(c.Completed, c.Tasks)
	p.p.LastUpdated = stamp(p.o.Now())
	text, err := p.render()
	if err == nil {
		err = reach(p.o, p.path, func() error { return p.replace(text) })
	}
	if p.err = err; err != nil {
		return true
	}
	p.bytes, p.mine, p.dirty = len(text), p.signature(), false
	p.seen = p.mine
	clear(p.gone)
	return false
}

func percent(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return math.Round(1000*float64(part)/float64(all)) / 10
}

// replace sets a file aside that is no YAML mapping before it takes its place.
func (p *progressFileDoc) replace(text []byte) error {
	if is := p.signature(); is != p.mine || is == (signature{}) {
		old, err := durable.ReadFile(p.o.FS, p.path, maxFileBytes)
		var doc yaml.Node
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, durable.ErrTooLarge),
			err == nil && (yaml.Load(old, &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode):
			if err := setAside(p.o, p.path); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return durable.Replace(p.o.FS, p.path, text, 0o600)
}

// render gives the text of the file.
func (p *progressFileDoc) render() ([]byte, error) {
	head := struct {
		SessionID   string    `yaml:"session_id"`
		LastUpdated time.Time `yaml:"last_updated"`
		Progress    yaml.Node `yaml:"progress"`
	}{SessionID: SessionID(p.o.SessionID), LastUpdated: p.p.LastUpdated}
	at, err := withExtra(p.p.Progress, p.inner)
	if err != nil {
		return nil, fmt.Errorf("write %q: %w", p.path, err)
	}
	head.Progress = *at
	var b bytes.Buffer
	put := func(v any) {
		var text []byte
		if err == nil {
			text, err = yaml.Dump(v)
		}
		b.Write(text)
	}
	top, encodeErr := keep.Encode(&head)
	err = errors.Join(err, encodeErr)
	put(top)
	b.WriteString("tasks:")
	if len(p.tasks) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	for _, e := range p.tasks {
		if e.text == nil && err == nil {
			e.text, err = dumpEntry(e.value, e.extra)
		}
		b.Write(e.text)
	}
	tail := &yaml.Node{Kind: yaml.MappingNode}
	for _, list := range []struct {
		key string
		add func(*yaml.Node) error
	}{{"milestones", addEntries(p.marks)}, {"quality_gates", addEntries(p.gates)}} {
		seq := &yaml.Node{Kind: yaml.SequenceNode}
		err = errors.Join(err, list.add(seq))
		if len(seq.Content) == 0 {
			seq.Style = yaml.FlowStyle
		}
		tail.Content = append(tail.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: list.key}, seq)
	}
	tail.Content = append(tail.Content, p.extra...)
	put(tail)
	if err != nil {
		return nil, fmt.Errorf("write %q: %w", p.path, err)
	}
	return b.Bytes(), nil
}

func addEntries[T any](list []entry[T]) func(*yaml.Node) error {
	return func(seq *yaml.Node) error {
		for _, e := range list {
			n, err := withExtra(e.value, e.extra)
			if err != nil {
				return err
			}
			seq.Content = append(seq.Content, n)
		}
		return nil
	}
}

// dumpEntry gives the text of a list with one element.
func dumpEntry(v any, extra []*yaml.Node) ([]byte, error) {
	n, err := withExtra(v, extra)
	if err != nil {
		return nil, err
	}
	return yaml.Dump(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}})
}

// withExtra encodes a value and puts the keys that Ralph does not know behind
// its own.
func withExtra(v any, extra []*yaml.Node) (*yaml.Node, error) {
	n, err := keep.Encode(v)
	if err != nil {
		return nil, err
	}
	n.Content = append(n.Content, extra...)
	return n, nil
}
