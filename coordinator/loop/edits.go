package loop

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"ralph/coordinator/plan"
)

const (
	// mostReads is how often a plan is read that cannot be before the human is asked:
	// editors write in more than one step, and tools fail now and then.
	mostReads = 3
	readWait  = time.Second
)

// sync sees whether the plan has changed, and takes it as it is then. It says
// whether there is a plan to go on with.
func (e *engine) sync(ctx context.Context) bool {
	if e.now().Before(e.retryAt) {
		return false
	}
	defer func() { e.ended = false }()
	stamp, err := e.tracker.Stamp(ctx)
	if err == nil && stamp == e.p.Stamp && e.unread == nil {
		return true
	}
	var p *plan.Plan
	if err == nil {
		p, err = e.tracker.Load(ctx)
	}
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		was := e.p
		if err = e.adopt(p); err == nil {
			e.compare(was, p)
		}
	}
	if err != nil {
		return e.broken(err)
	}
	if e.unread != nil {
		e.unread, e.reads, e.dirty = nil, 0, true
		e.drop(func(q *question) bool { return q.Kind == askPlan })
	}
	e.reads, e.retryAt = 0, time.Time{}
	e.payUp(ctx)
	return e.unread == nil
}

// broken holds the run until the plan can be read again: whatever is not there or
// at fault is never taken for a plan without tasks.
func (e *engine) broken(err error) bool {
	if e.reads++; e.reads < mostReads { // somebody may be writing it at this moment
		e.retryAt = e.now().Add(readWait << e.reads)
		return false
	}
	e.retryAt = e.now().Add(look)
	if e.unread == nil || e.unread.Error() != err.Error() {
		e.dirty = true
		e.drop(func(q *question) bool { return q.Kind == askPlan && e.asked != q })
	}
	e.unread = err
	e.askPlan("The plan cannot be read any more, and nothing begins until it can: " + err.Error())
	return false
}

func (e *engine) askPlan(text string) {
	e.raise(askPlan, "", text, []string{sayRetry, sayStop}, func(context.Context, string, string) {
		e.retryAt, e.reads = time.Time{}, mostReads
	})
}

// cannotMark is what is done when the plan does not take a change: it is tried
// again, and then a human has to look.
func (e *engine) cannotMark(id string, err error) {
	e.p.Stamp = "" // it is read again, which also pays what is owed
	e.marks[id]++
	n := 0
	for _, times := range e.marks {
		n += times
	}
	if n < mostReads {
		e.retryAt = e.now().Add(readWait << n)
		e.o.Warn("the plan did not take a change, which is tried again: " + err.Error())
		return
	}
	e.unread = err
	e.askPlan("The plan does not take what became of a task: " + err.Error())
}

// compare takes what a human has changed in the plan, which was adopted already.
// was is nil at the start.
func (e *engine) compare(was, now *plan.Plan) {
	e.stale, e.dirty = true, true
	e.overtaken()
	before := map[string]int{}
	if was != nil {
		before = indexOf(was)
		for i := range was.Tasks {
			if id := was.Tasks[i].ID; e.known[id] != "" {
				if _, ok := e.find(id); !ok {
					e.gone(&was.Tasks[i], "it was taken out of the plan")
				}
			}
		}
	}
	for i := range now.Tasks {
		t := &now.Tasks[i]
		var old *plan.Task
		if k, ok := before[t.ID]; ok {
			old = &was.Tasks[k]
		}
		if old != nil && e.tickedByAgent(old, t) {
			continue
		}
		if w := e.at[t.ID]; w != nil {
			w.task = *t
			if !t.Status.Open() {
				e.stop(w, fmt.Sprintf("it was marked %s in the plan", t.Status))
			}
			continue
		}
		e.edited(old, t)
	}
}

// tickedByAgent reports whether a task became done in the plan while agents worked
// that could write there, because nothing confines them. Such a task is opened again
// in the plan, worked and checked.
func (e *engine) tickedByAgent(old, t *plan.Task) bool {
	k := e.s.known(t.ID)
	if t.Status != plan.Done {
		if k.Ticked {
			e.s.task(t.ID).Ticked = false
		}
		return false
	}
	if k.Over == plan.Done || !k.Ticked && (!old.Status.Open() || !e.s.Settings.unconfined() || len(e.at) == 0 && !e.ended) {
		return false
	}
	if slices.ContainsFunc(e.s.Owed, func(o owed) bool { return o.Task == t.ID && o.Mark.Status == plan.Done }) {
		return false // by this run
	}
	if !k.Ticked {
		e.s.task(t.ID).Ticked = true
		e.o.Warn(fmt.Sprintf("task %s was marked done in the plan while agents worked without a sandbox: it counts when its work was checked; mark it while nothing is at work", t.ID))
	}
	if e.at[t.ID] == nil {
		e.s.owe(t, e.mark(plan.Pending, ""))
	}
	return true
}

// edited takes what a human has changed about a task that is not at work.
func (e *engine) edited(old, t *plan.Task) {
	k := e.s.Tasks[t.ID]
	if k == nil {
		if old != nil && old.Status == plan.Done && t.Status.Open() {
			e.s.task(t.ID).Again = true
		}
		return
	}
	if slices.ContainsFunc(e.s.Owed, func(o owed) bool { return o.Task == t.ID }) {
		return // the plan does not know yet what it came to
	}
	print := printOf(t)
	switch {
	case k.Over == "":
		switch {
		case old == nil:
		case !old.Status.Open() && t.Status.Open():
			k.reopen()
		case contentOf(old) != contentOf(t): // whoever changed it wants it worked
			k.Held, k.Refused = "", ""
		}
	case k.Print == "" && (k.Over != plan.Done || t.Status == plan.Done):
		k.Print = print
	case k.Print == print:
	case t.Status.Open():
		k.reopen()
	case t.Status != k.Over:
		k.Over, k.Print, k.Why, k.Mine, k.Commit = t.Status, print, "so it is marked in the plan", false, ""
	default:
		k.Print = print
	}
}

// overtaken drops the marks that the plan has taken already, and those of which a
// human has said something else since.
func (e *engine) overtaken() {
	e.s.Owed = slices.DeleteFunc(e.s.Owed, func(o owed) bool {
		t, ok := e.find(o.Task)
		switch {
		case !ok || t.Status == o.Mark.Status:
			return true
		case e.unpaid(o, t):
			return false
		}
		if k := e.s.Tasks[o.Task]; k != nil && k.Over != "" { // so that the edit is seen as one
			k.Print = string(o.Mark.Status) + " " + o.Print
		}
		return true
	})
}

// unpaid says that the plan has a task as it was when a mark was made, or as Ralph
// itself leaves it. A status that nobody but a human gives it is the human's word;
// where the status does not tell, the words of the task do: whoever changed them
// after Ralph was through with it wants it worked as it reads now.
func (e *engine) unpaid(o owed, t *plan.Task) bool {
	switch t.Status {
	case o.Was, plan.Interrupted, e.p.Reads(o.Mark.Status):
		return o.Mark.Status.Open() || o.Print == "" || o.Print == wordsOf(t)
	}
	return o.Was == "" && t.Status != plan.Done && t.Status != plan.Skipped
}

// gone takes a task out of the run.
func (e *engine) gone(t *plan.Task, why string) {
	e.drop(func(q *question) bool { return q.TaskID == t.ID })
	e.s.quit(t.ID)
	if w := e.at[t.ID]; w != nil {
		e.stop(w, why)
		return
	}
	delete(e.s.Tasks, t.ID)
	e.tellGone(t, why)
}

// forsake ends the attempts that were cut off and whose tasks were taken out of the
// plan meanwhile.
func (e *engine) forsake(left []active) {
	const why = "it was taken out of the plan while its work was cut off"
	for _, a := range left {
		delete(e.s.Tasks, a.Task)
		e.s.quit(a.Task)
		for i, it := range e.finished {
			if it.Iteration == a.Iteration {
				e.finished[i].Status, e.finished[i].Error, a.Title = string(endGone), why, it.TaskTitle
			}
		}
		e.tellGone(&plan.Task{ID: a.Task, Title: a.Title}, why)
		if a.Iteration > 0 { // the snapshots of others do not say
			e.o.Left(Order{Iteration: a.Iteration, Attempt: a.Attempt, Task: plan.Task{ID: a.Task, Title: a.Title}, Agent: a.Worker, Resume: a.Agent}, why)
		}
	}
}

// stop ends one attempt.
func (e *engine) stop(w *worker, why string) {
	if w.gone == "" {
		w.gone = why
		w.cancel(errors.New(why))
	}
}

// printOf tells apart how a task stands, and what it is.
func printOf(t *plan.Task) string { return string(t.Status) + " " + contentOf(t) }

// wordsOf tells apart what a task asks for. Who works it is none of it: Ralph writes
// that there too.
func wordsOf(t *plan.Task) string {
	words := *t
	words.Agent = ""
	return contentOf(&words)
}

// contentOf tells apart what a human may change about a task; not what Ralph
// writes there.
func contentOf(t *plan.Task) string {
	h := fnv.New64a()
	put := func(texts ...string) {
		for _, s := range texts {
			_, _ = h.Write(append([]byte(s), 0)) // a hash takes all
		}
	}
	put(t.Title, t.Description, t.Check, t.Agent, t.Prompt, t.System, t.Fallback, t.OnFailure, t.Kind, strconv.Itoa(t.Priority))
	for _, c := range t.Criteria {
		put(c.Text)
	}
	put(t.After...)
	put(t.Labels...)
	return strconv.FormatUint(h.Sum64(), 36)
}
