package folder

import (
	"cmp"
	"slices"
	"time"

	"ralph/memory/text"
)

// logged is how a task stands by the log alone.
type logged struct {
	name   string
	status TaskStatus
	took   time.Duration
	rank   int32 // in the order in which they came
}

// stands notes what an event says of its task.
func (l *Log) stands(e Event) {
	t, known := l.tasks[e.TaskID]
	if !known {
		if len(l.tasks) >= maxNamed {
			return
		}
		t.rank = int32(len(l.tasks))
	}
	if t.name == "" {
		t.name = text.ClipRunes(e.TaskName, maxInline)
	}
	if t.status, t.took = TaskInProgress, 0; e.Type == TaskComplete {
		t.status, t.took = e.Went(), e.Duration
	}
	l.tasks[e.TaskID] = t
}

// failed notes an error.
func (l *Log) failed(e Event) {
	if len(l.errors) >= maxListed {
		return
	}
	l.errors = append(l.errors, Failure{Time: e.Time, TaskID: e.TaskID, Severity: Severity(text.ClipRunes(e.Text("severity"), maxInline)),
		ErrorType:    text.ClipRunes(cmp.Or(e.Text("kind", "error_type", "type"), "error"), maxInline),
		ErrorMessage: text.ClipRunes(cmp.Or(e.Text("message", "error_message", "error", "reason"), e.Result), maxInline)})
}

// filled has the tasks and errors of the log where no file lists any, and its
// beginning where none is stated.
func (d Data) filled() Data {
	if d.Meta.Start.IsZero() {
		d.Meta.Start = d.Log.First
	}
	if len(d.Progress.Tasks) == 0 && len(d.Log.tasks) > 0 {
		d.Log.fills = true
		d.Progress.Tasks = make([]TaskState, len(d.Log.tasks))
		for id, t := range d.Log.tasks {
			s := TaskState{TaskID: id, Status: t.status}
			if t.took > 0 {
				seconds := t.took.Seconds()
				s.DurationSeconds = &seconds
			}
			d.Progress.Tasks[t.rank] = s
		}
	}
	if len(d.Failures) == 0 && len(d.Log.errors) > 0 {
		d.Log.heard = true
		d.Failures = slices.Clone(d.Log.errors)
	}
	return d
}
