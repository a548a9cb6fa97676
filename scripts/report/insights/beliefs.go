package insights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/memory/session/folder"
)

// beliefs knows the decisions of the log that belong to no task; those of a task
// are with the task.
type beliefs struct{ list []belief }

// belief is a decision that came out well.
type belief struct {
	m          mark
	confidence float64
	what       string
}

// decided takes in a decision of the log.
func (b *beliefs) decided(tasks *board, m mark, n int32, e folder.Event, d details) {
	confidence, ok := share(d.find("confidence", "confidencescore", "confidencelevel"))
	action := cmp.Or(d.text("action", "choice", "decision"), e.Result)
	if !ok || !acts(d.text("decisiontype"), action) {
		return
	}
	said := d.text("outcome")
	if m, ok := d.own("outcome").(map[string]any); ok {
		said = d.in(m).text("result", "status", "success")
	}
	came := outcome(said)
	if n >= 0 {
		if came != bad && came != open {
			tasks.tasks[n].believe(m, confidence, 2)
			tasks.tasks[n].sureWell = came == good
		}
		return
	}
	if came == unknown || came == other {
		came = outcome(e.Result)
	}
	if came == good && len(b.list) < maxFindings {
		b.list = append(b.list, belief{m, confidence, keep(action)})
	}
}

// acts says that a decision is to do something, and not to ask, to wait or to
// leave it.
func acts(kind, action string) bool {
	if kind == folder.DecisionAction || anyWord(strings.ReplaceAll(kind, "_", " "), "help", "permission", "approval", "question", "human") {
		return false
	}
	w := words(action)
	return len(w) > 3 || !anyWord(action, "ask", "asked", "escalate", "escalated", "help", "wait", "skip", "defer", "human", "pause", "abort", "reject", "refuse", "deny", "denied", "stop", "postpone")
}

// findings are the successes in which was less confidence than the threshold.
func (b *beliefs) findings(tasks *board, d *folder.Data, threshold float64) (found []Finding) {
	low := func(f float64) bool { return f >= 0 && f < threshold-1e-6 }
	say := func(p *proof, id string, f float64, whose string) {
		found = append(found, p.finding(lowConfidence, fmt.Sprintf("%s succeeded although %s was %.2f, below the threshold of %.2f.", shownTask(id), whose, f, threshold)))
	}
	history, alone := b.history(tasks, d, low)
	for i := range tasks.tasks {
		if len(found) >= maxFindings {
			return found
		}
		t, id := &tasks.tasks[i], tasks.ids[i]
		x, known := history[int32(i)]
		p := newProof()
		f, whose := float64(-1), ""
		if t.came == good || t.sureWell {
			if low(float64(t.sureness)) {
				f, whose = float64(t.sureness), "the confidence of the decision"
				p.add(t.sure, id)
			}
			if low(float64(t.declared)) {
				f, whose = float64(t.declared), "the confidence that was declared"
			}
		}
		if known && f < 0 {
			f, whose = x.confidence, "the confidence of the decision"
			p.add(x.m, id)
		}
		if f < 0 {
			continue
		}
		if t.told {
			p.add(t.done, id)
		}
		say(&p, id, f, whose)
	}
	for _, x := range append(b.list, alone...) {
		if len(found) >= maxFindings || !low(x.confidence) {
			continue
		}
		p := newProof()
		p.add(x.m, "")
		found = append(found, p.finding(lowConfidence, fmt.Sprintf("The decision “%s” succeeded although its confidence was %.2f, below the threshold of %.2f.", named(x.what), x.confidence, threshold)))
	}
	return found
}

// history finds the low decisions of decision-history.json that came out well, by
// their tasks; and alone those without a task of which the log does not tell.
func (b *beliefs) history(tasks *board, d *folder.Data, low func(float64) bool) (by map[int32]belief, alone []belief) {
	by = map[int32]belief{}
	type place struct {
		i  int
		at time.Time
	}
	last := map[int32]place{} // the last decision of a task that acts
	for i, x := range d.EachDecision() {
		if n := tasks.of(x.TaskID); n >= 0 && acts(x.DecisionType, x.Decision.Action) {
			if j, ok := last[n]; !ok || !x.Time.Before(j.at) {
				last[n] = place{i, x.Time}
			}
		}
	}
	for i, x := range d.EachDecision() {
		f, ok := share(x.Decision.Confidence)
		if !ok || f == 0 || !low(f) || !acts(x.DecisionType, x.Decision.Action) {
			continue // 0 is what a decision has that states none
		}
		n := tasks.of(x.TaskID)
		came := outcome(x.Outcome)
		if (came == unknown || came == other) && n >= 0 && last[n].i == i {
			came = tasks.tasks[n].came
		}
		if came != good {
			continue
		}
		y := belief{mark{ms: millis(x.Time), n: uint32(i + 1), file: 'd'}, f, x.Decision.Action}
		if n >= 0 {
			by[n] = y
			continue
		}
		told := slices.ContainsFunc(b.list, func(k belief) bool {
			d := k.m.ms - y.m.ms
			return low(k.confidence) && (d >= -sameMoment && d <= sameMoment || k.what == y.what && k.what != "")
		})
		if !told {
			alone = append(alone, y)
		}
	}
	return by, alone
}
