package analysis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ralph/memory/session/folder"
)

// maxTasks bounds the tasks that are followed one by one.
const maxTasks = 50_000

// task is what is remembered of one task. There may be very many: it is small.
type task struct {
	name       string
	start, end moments // of the last attempt that is known
	seconds    float64 // that it was worked on; below 0: not stated
	claimed    float32 // the confidence of the decision that is open; below 0: none
	attempts   int32
	retries    int32
	kind       uint8  // of the kinds
	status     uint8  // of the statuses
	missed     bool   // the confidence of the attempt that failed was counted
	spent      *usage // as the journal tells; nil: nothing
	told       *usage // as the log tells; nil: nothing
}

// moments are microseconds of the clock; 0 is no time.
type moments int64

func momentOf(t time.Time) moments {
	if t.IsZero() || t.Year() < 1900 || t.Year() > 9999 {
		return 0
	}
	return moments(t.UnixMicro())
}

func (m moments) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// table numbers a few words.
type table struct {
	words  []string
	number map[string]uint8
}

func newTable(words ...string) table {
	t := table{number: map[string]uint8{}}
	for _, w := range words {
		t.of(w)
	}
	return t
}

// of numbers a word; what no longer fits has the number of others.
func (t *table) of(word string) uint8 {
	if n, known := t.number[word]; known {
		return n
	}
	if word = clip(word); len(t.words) >= maxWords && word != others {
		return t.of(others)
	}
	if n, known := t.number[word]; known {
		return n
	}
	n := uint8(len(t.words))
	t.words = append(t.words, word)
	t.number[word] = n
	return n
}

// The numbers of the statuses that every session has.
const (
	pending uint8 = iota
	inProgress
	paused
	completed
	failed
	skipped
)

func statuses() table {
	return newTable(string(folder.TaskPending), string(folder.TaskInProgress), string(folder.TaskPaused), string(folder.TaskCompleted), string(folder.TaskError), string(folder.TaskSkipped))
}

// tasks follows the tasks by their ids.
type tasks struct {
	most  int // that are followed
	byID  map[string]*task
	kinds table // 0: not told
	stand table // the statuses
	more  int   // events of tasks that are not followed
}

// get returns the task, made when it is new; nil when there is no id, or no
// room.
func (t *tasks) get(id string) *task {
	if found := t.byID[id]; found != nil || id == "" {
		return found
	}
	if len(id) > maxWord {
		id = clip(id)
		if found := t.byID[id]; found != nil {
			return found
		}
	}
	if len(t.byID) >= t.most {
		t.more++
		return nil
	}
	made := &task{claimed: -1, seconds: -1}
	t.byID[id] = made
	return made
}

// names takes over what an event says of a task besides.
func (t *tasks) names(k *task, e folder.Event) {
	if k.name == "" && e.TaskName != "" {
		k.name = clip(e.TaskName)
	}
	if kind := e.Text("task_kind", "task_type", "category"); kind != "" && k.kind == 0 {
		k.kind = t.kinds.of(kind)
	}
}

func (k *task) started(e folder.Event) {
	k.attempts++
	if n, ok := e.Number("attempt"); ok && n > float64(k.attempts) && n < 1e6 {
		k.attempts = int32(n)
	}
	k.missed = false
	now := momentOf(e.Time)
	late := k.end != 0 && now != 0 && now <= k.end // events out of order
	k.start = max(k.start, now)
	if !late {
		k.status = inProgress
	}
}

// ended takes an end of the task. It returns from when to when the last attempt
// went; zero when that is not known.
func (k *task) ended(e folder.Event) (from, to time.Time) {
	k.end = momentOf(e.Time)
	if k.seconds = -1; e.Duration > 0 && e.Duration < maxInterval {
		k.seconds = e.Duration.Seconds()
	}
	k.status = statusOf(e.Went())
	if k.start == 0 || k.end == 0 || k.start > k.end {
		return time.Time{}, time.Time{}
	}
	return k.start.time(), k.end.time()
}

// statusOf numbers how a task ended.
func statusOf(how folder.TaskStatus) uint8 {
	switch how {
	case folder.TaskError:
		return failed
	case folder.TaskSkipped:
		return skipped
	case folder.TaskPaused:
		return paused
	}
	return completed
}

func over(s uint8) bool { return s == completed || s == failed || s == skipped }

// took is how many seconds the task was worked on.
func (k *task) took() (float64, bool) {
	switch {
	case k.seconds >= 0:
		return k.seconds, true
	case k.start != 0 && k.end > k.start:
		return float64(k.end-k.start) / 1e6, true
	}
	return 0, false
}

// takeProgress lets the progress say how the tasks stand: it is newer than the
// last event of a task when the plan was edited since. It returns how many are
// over in the log and stand otherwise here.
func (t *tasks) takeProgress(list []folder.TaskState) (otherwise int) {
	for _, s := range list {
		k := t.get(s.TaskID)
		if k == nil {
			continue
		}
		status := k.status
		switch how := s.Status.Meant(); {
		case s.Status == "":
		case how == folder.TaskCompleted, how == folder.TaskError:
			status = statusOf(how)
		default:
			status = t.stand.of(strings.ToLower(string(s.Status)))
		}
		if over(k.status) && k.status != status {
			otherwise++
		}
		k.status = status
		if s.DurationSeconds != nil && *s.DurationSeconds >= 0 {
			k.seconds = *s.DurationSeconds
		} else if s.StartedAt != nil && s.CompletedAt != nil && k.seconds < 0 && s.CompletedAt.After(*s.StartedAt) {
			k.seconds = s.CompletedAt.Sub(*s.StartedAt).Seconds()
		}
	}
	return otherwise
}

// ids gives the ids in order.
func (t *tasks) ids() []string {
	ids := make([]string, 0, len(t.byID))
	for id := range t.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (t *tasks) kindOf(k *task) string { return t.kinds.words[k.kind] }

// maxSlowest is how many of the slowest tasks are listed.
const maxSlowest = 10

func (t *tasks) result() (r Tasks, list []outcome) {
	list = make([]outcome, 0, len(t.byID))
	r = Tasks{Total: len(t.byID), ByStatus: words{}, Slowest: []Task{}, ByKind: []Kind{}}
	var all sample
	kinds, took := map[string]*Kind{}, map[string]*sample{}
	for _, id := range t.ids() {
		k := t.byID[id]
		kind, status := t.kindOf(k), t.stand.words[k.status]
		words(r.ByStatus).add(status, 1)
		if kinds[kind] == nil {
			kinds[kind], took[kind] = &Kind{Kind: kind}, &sample{}
		}
		g := kinds[kind]
		g.N++
		switch k.status {
		case completed:
			r.Done++
			g.Done++
		case failed:
			r.Failed++
			g.Failed++
		}
		list = append(list, outcome{id, k.name, status})
		if s, ok := k.took(); ok {
			if k.status == completed || k.status == failed {
				all.add(s)
				took[kind].add(s)
			}
			r.slow(Task{ID: id, Name: k.name, Kind: kind, Status: status, Seconds: s, Attempts: int(k.attempts)})
		}
	}
	for name, g := range kinds {
		g.SuccessRate, g.Median = rate(g.Done, g.Done+g.Failed), took[name].distribution().Median
		r.ByKind = append(r.ByKind, *g)
	}
	slices.SortFunc(r.ByKind, func(a, b Kind) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Kind, b.Kind)) })
	r.SuccessRate, r.Durations = rate(r.Done, r.Done+r.Failed), all.distribution()
	return r, list
}

// slow puts a task among the slowest if it is one of them.
func (r *Tasks) slow(t Task) {
	at := len(r.Slowest)
	for at > 0 && r.Slowest[at-1].Seconds < t.Seconds {
		at--
	}
	if at == maxSlowest {
		return
	}
	t.Seconds = *seconds(t.Seconds)
	r.Slowest = slices.Insert(r.Slowest, at, t)
	r.Slowest = r.Slowest[:min(len(r.Slowest), maxSlowest)]
}
