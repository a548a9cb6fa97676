package insights

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

const (
	// maxTasks bounds the tasks that are known.
	maxTasks = 100_000
	// maxIDBytes bounds how much of an id is kept; longer ones end with a hash.
	maxIDBytes = 256
)

// none is the number of no task.
const none = int32(-1)

// task is what is known of one task. It is kept small.
type task struct {
	begun     int64 // ms; noTime until it is
	done      mark  // its end; of the last one
	sure      mark  // where sureness is stated
	sureness  float32
	declared  float32 // by whoever did it, when it was done; both −1 when not stated
	seconds   float32 // that were worked on it; −1 when not stated
	waited    float32 // of them for a human
	kind      int32
	came      verdict
	told      bool // its end is in the log
	sureWell  bool // what sureness is of came out well by itself
	sureLevel int8 // how much the source of sureness counts
}

// board knows the tasks by their ids.
type board struct {
	number map[string]int32
	ids    []string
	tasks  []task
	kinds  []string // the kinds of tasks; the first is none
	lost   int      // tasks that were one too many
}

func newBoard() *board { return &board{number: map[string]int32{}, kinds: []string{""}} }

// of returns the number of a task, and none of no task or one too many.
func (b *board) of(id string) int32 {
	if id == "" {
		return none
	}
	if len(id) > maxIDBytes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id)) // never fails
		id = fmt.Sprintf("%s%x", id[:maxIDBytes], h.Sum64())
	}
	if n, ok := b.number[id]; ok {
		return n
	}
	if len(b.tasks) >= maxTasks {
		b.lost++
		return none
	}
	n := int32(len(b.tasks))
	b.number[id] = n
	b.ids = append(b.ids, id)
	b.tasks = append(b.tasks, task{begun: noTime, done: mark{ms: noTime}, sure: mark{ms: noTime}, sureness: -1, declared: -1, seconds: -1})
	return n
}

func (b *board) id(n int32) string {
	if n < 0 {
		return ""
	}
	return b.ids[n]
}

// kind returns the number of a kind of task.
func (b *board) kind(name string) int32 {
	name = plain(name)
	if i := slices.Index(b.kinds, name); i >= 0 {
		return int32(i)
	}
	if len(b.kinds) >= 1000 || len(name) > maxNameRunes {
		return 0
	}
	b.kinds = append(b.kinds, strings.Clone(name))
	return int32(len(b.kinds) - 1)
}

// kindOf is the kind of a task as people say it; "task" when none is known.
func (b *board) kindOf(n int32, stated int32) string {
	if stated == 0 && n >= 0 {
		stated = b.tasks[n].kind
	}
	return cmp.Or(b.kinds[stated], "task")
}

// start takes in that a task begins.
func (b *board) start(n int32, m mark, d details) {
	if n < 0 {
		return
	}
	t := &b.tasks[n]
	over := t.came == good || t.came == bad
	if t.begun == noTime || m.ms != noTime && m.ms < t.begun || over && m.ms > t.done.ms {
		t.begun = m.ms
	}
	if f, ok := share(d.own("confidence", "confidencescore")); ok {
		t.believe(m, f, 1)
	}
}

// believe notes the confidence that was stated last; a decision counts more than
// what a start repeats of it.
func (t *task) believe(m mark, f float64, level int8) {
	if t.sureness < 0 || m.ms > t.sure.ms || m.ms == t.sure.ms && level >= t.sureLevel {
		t.sure, t.sureness, t.sureLevel = m, float32(f), level
	}
}

// end takes in that a task is over.
func (b *board) end(n int32, m mark, result string, seconds float64, d details) {
	if n < 0 {
		return
	}
	t := &b.tasks[n]
	if t.told && m.ms < t.done.ms {
		return // it was over once more later
	}
	came := outcome(result)
	for _, k := range []string{"success", "status", "outcome", "ok"} {
		if came == unknown || came == other {
			if v := outcome(asText(d.own(k))); v != unknown && v != other {
				came = v
			}
		}
	}
	switch came {
	case open:
		return // skipped, or stopped on the way
	case unknown, other:
		came = good // the event itself says that it is complete
	}
	t.told, t.came, t.done = true, came, m
	t.declared, t.seconds = -1, -1
	if f, ok := share(d.find("confidence", "confidencescore", "finalconfidence")); ok {
		t.declared = float32(f)
	}
	if seconds <= 0 {
		seconds, _ = d.seconds("duration", "elapsed", "took")
	}
	if seconds > 0 {
		t.seconds = float32(seconds)
	}
}

// track takes in what progress-tracking.yaml says of the tasks of which the log
// does not.
func (b *board) track(list []folder.TaskState) {
	for _, p := range list {
		n := b.of(p.TaskID)
		if n < 0 {
			continue
		}
		t := &b.tasks[n]
		if !t.told {
			switch p.Status.Meant() {
			case folder.TaskCompleted:
				t.came = good
			case folder.TaskError:
				t.came = bad
			default:
				continue
			}
			if p.CompletedAt != nil {
				t.done.ms = millis(*p.CompletedAt)
			}
		}
		if t.begun == noTime && p.StartedAt != nil {
			t.begun = millis(*p.StartedAt)
		}
		if t.seconds < 0 && p.DurationSeconds != nil && *p.DurationSeconds > 0 {
			t.seconds = float32(*p.DurationSeconds)
		}
	}
}

// gap is a time in which no process worked on the session.
type gap struct{ from, to int64 }

// worked is how long a task was worked on, in seconds; −1 when that is unknown.
func (t *task) worked(gaps []gap) float64 {
	took := float64(t.seconds)
	if took < 0 {
		if t.begun == noTime || t.done.ms == noTime || t.done.ms < t.begun {
			return -1
		}
		ms := t.done.ms - t.begun
		for _, g := range gaps {
			ms -= max(0, min(g.to, t.done.ms)-max(g.from, t.begun))
		}
		took = float64(ms) / 1000
	}
	return took
}

// tooBig finds the tasks that took far longer than the others.
func (b *board) tooBig(gaps []gap) (found []Finding) {
	type size struct {
		seconds float64
		n       int32
	}
	var sizes []size
	for i := range b.tasks {
		if t := &b.tasks[i]; t.came == good || t.came == bad {
			if s := t.worked(gaps); s >= 0 {
				sizes = append(sizes, size{s, int32(i)})
			}
		}
	}
	if len(sizes) < minFinished {
		return nil
	}
	slices.SortFunc(sizes, func(x, y size) int { return cmp.Or(cmp.Compare(x.seconds, y.seconds), cmp.Compare(x.n, y.n)) })
	median := sizes[len(sizes)/2].seconds
	if len(sizes)%2 == 0 {
		median = (median + sizes[len(sizes)/2-1].seconds) / 2
	}
	enough := max(minBig.Seconds(), bigFactor*median-1e-6)
	for _, s := range slices.Backward(sizes) {
		if s.seconds < enough || median <= 0 || len(found) == maxFindings {
			break
		}
		p, t := newProof(), &b.tasks[s.n]
		// Waiting is no size. Whether the time stated holds it is not known: only
		// what is too big in both cases is.
		if w := float64(t.waited); w < s.seconds && s.seconds-w < enough {
			continue
		}
		p.n = 1
		p.span(t.begun)
		p.span(t.done.ms)
		if t.told {
			p.marks = append(p.marks, t.done)
		}
		p.in(b.id(s.n))
		found = append(found, p.finding(taskTooBig, fmt.Sprintf("%s took %s, %s times the median of %s over %d finished tasks.",
			shownTask(b.id(s.n)), text.Length(s.seconds), factor(s.seconds/median), text.Length(median), len(sizes))))
	}
	return found
}

func factor(f float64) string { return fmt.Sprint(math.Round(f*10) / 10) }

// nameless begins the id of a task that has none.
const nameless = "\x00"

func shownTask(id string) string {
	if id == "" || strings.HasPrefix(id, nameless) {
		return "A task without an id"
	}
	return "Task " + named(id)
}
