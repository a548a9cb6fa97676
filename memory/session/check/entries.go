package check

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// entries tells what single entries of the files say that cannot be, or that
// others do not bear out.
func (c *checker) entries(l *logFacts) {
	c.words()
	c.ranges()
	c.tracked(l)
	c.moments()
	c.gates(l)
	if c.own && l.readable && !c.cut {
		c.story(l)
	}
	if c.o.Live || c.cut {
		return // what they are held against may not be written yet
	}
	c.average()
	c.listed()
}

// words tells status words and the like that mean nothing.
func (c *checker) words() {
	if word := c.data.Meta.Status; word != "" && status(word) == "" {
		c.add("status", metadataFile, word, format, "in_progress, completed, error or paused")
	}
	for _, t := range c.data.Progress.Tasks {
		switch t.Status {
		case "", folder.TaskPending, folder.TaskInProgress, folder.TaskPaused, folder.TaskCompleted, folder.TaskError, folder.TaskSkipped:
		default:
			c.differ("task status", folder.Difference{Field: "task " + t.TaskID, FileA: progressFile, ValueA: "status " + string(t.Status), FileB: format, ValueB: "no such word"})
		}
	}
	for _, g := range c.data.Progress.QualityGates {
		switch strings.TrimSpace(g.Operator) {
		case "", ">=", ">", "<=", "<", "==", "=", "!=", "gte", "gt", "lte", "lt", "eq", "ne":
		default:
			c.differ("operator", folder.Difference{Field: "quality gate " + g.Name, FileA: progressFile, ValueA: "operator " + g.Operator, FileB: format, ValueB: "no such operator"})
		}
	}
	var odd marks
	for i, f := range c.data.EachFailure() {
		switch folder.Severity(strings.ToLower(string(f.Severity))) {
		case "", folder.Low, folder.Medium, folder.High, folder.Critical:
		default:
			odd.mark("x"+strconv.Itoa(i+1), string(f.Severity))
		}
	}
	if odd.n > 0 {
		c.add("severity", errorsFile, odd.values(), format, "low, medium, high or critical", odd.ids...)
	}
}

// ranges tells numbers out of their range.
func (c *checker) ranges() {
	var risks, retries marks
	for i, d := range c.data.EachDecision() {
		for _, v := range []float64{d.Context.Risk.Execution, d.Context.Risk.Resource, d.Context.Risk.Dependency} {
			if v < 0 || v > 1 {
				risks.mark("d"+strconv.Itoa(i+1), text.Decimal(v))
			}
		}
	}
	if risks.n > 0 {
		c.add("risk_assessment", decisionsFile, risks.values(), format, "0 to 1", risks.ids...)
	}
	for i, f := range c.data.EachFailure() {
		if f.RetryCount < 0 {
			retries.mark("x"+strconv.Itoa(i+1), strconv.Itoa(f.RetryCount))
		}
	}
	if retries.n > 0 {
		c.add("retry_count", errorsFile, retries.values(), format, "0 or more", retries.ids...)
	}
}

// tracked holds the tasks and milestones against their times.
func (c *checker) tracked(l *logFacts) {
	p, end, newest := c.data.Progress, c.data.Meta.End, time.Time{}
	rest := !c.o.Live && !c.cut && !end.IsZero() && c.data.Log.ByType[folder.Handoff] == 0
	known := p.Progress.CurrentTaskID == ""
	for _, t := range p.Tasks {
		known = known || t.TaskID == p.Progress.CurrentTaskID
		if t.CompletedAt == nil {
			if t.Status == folder.TaskCompleted && t.StartedAt != nil {
				c.differ("completed_at", folder.Difference{Field: "task " + t.TaskID, FileA: progressFile, ValueA: "status completed", FileB: progressFile, ValueB: "no completed_at"})
			}
			continue
		}
		if t.CompletedAt.After(newest) {
			newest = *t.CompletedAt
		}
		if rest && t.CompletedAt.After(end.Add(slack)) {
			c.differ("late task", folder.Difference{Field: "task " + t.TaskID, FileA: progressFile, ValueA: "completed at " + stamp(*t.CompletedAt), FileB: metadataFile, ValueB: "an end at " + stamp(end)})
		}
	}
	if !known && !c.own && len(p.Tasks) > 0 {
		c.add("current_task_id", progressFile, p.Progress.CurrentTaskID, progressFile+" (tasks)", "not listed")
	}
	if at := p.LastUpdated; !at.IsZero() && at.Before(newest.Add(-slack)) {
		c.add("last_updated", progressFile, stamp(at), progressFile+" (tasks)", "completed at "+stamp(newest))
	}
	for _, m := range p.Milestones {
		if m.Achieved && m.AchievedAt == nil {
			c.differ("milestone", folder.Difference{Field: "milestone " + m.Name, FileA: progressFile, ValueA: "achieved: true", FileB: progressFile, ValueB: "no achieved_at"})
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// moments holds the times of the lists against each other and against the
// session's own.
func (c *checker) moments() {
	d := c.data
	sequence(c, decisionsFile, "d", d.EachDecision(), func(x folder.Decision) time.Time { return x.Time })
	sequence(c, errorsFile, "x", d.EachFailure(), func(x folder.Failure) time.Time { return x.Time })
	sequence(c, metricsFile, "m", slices.All(d.Metrics), func(x folder.Metric) time.Time { return x.MeasuredAt })
}

func sequence[T any](c *checker, file, mark string, list iter.Seq2[int, T], at func(T) time.Time) {
	var before, outside marks
	var last time.Time
	begin, end := c.data.Meta.Start, c.data.Meta.End
	for i, x := range list {
		t := at(x)
		if t.IsZero() {
			continue
		}
		id := mark + strconv.Itoa(i+1)
		if t.Before(last.Add(-slack)) {
			before.mark(id, "")
		}
		if t.After(last) {
			last = t
		}
		if !begin.IsZero() && t.Before(begin.Add(-slack)) || !end.IsZero() && !c.o.Live && !c.cut && t.After(end.Add(slack)) {
			outside.mark(id, stamp(t))
		}
	}
	if before.n > 0 && !c.own { // Ralph's own hands write at once, some of what began long before
		c.add("timestamp", file, "entries in order", file, strconv.Itoa(before.n)+" older than the one before", before.ids...)
	}
	if outside.n > 0 {
		span := "a session from " + stamp(begin)
		if !end.IsZero() {
			span += " to " + stamp(end)
		}
		c.add("timestamp", file, outside.values(), metadataFile, span, outside.ids...)
	}
}

// gates tells checks that passed and did not.
func (c *checker) gates(l *logFacts) {
	if l.gates.n > 0 {
		c.add("gate", logFile, "passed", logFile, "exit code "+l.gates.values(), l.gates.ids...)
	}
}

// story holds a log that Ralph wrote against what it tells of each session and
// of each task.
func (c *checker) story(l *logFacts) {
	by := c.data.Log.ByType
	if l.events > 0 && by[folder.SessionStart] == 0 {
		c.add("session_start", logFile, "none", format, "one at the beginning")
	}
	if status(c.data.Meta.Status) == "completed" && l.events > 0 && by[folder.SessionEnd] == 0 {
		c.add("session_end", metadataFile, "status "+c.data.Meta.Status, logFile, "no session_end")
	}
	if by[folder.Handoff] > 0 {
		return // states of tasks came from another session
	}
	for _, t := range c.data.Progress.Tasks {
		e := l.tasks[t.TaskID]
		if e == nil || t.Status != folder.TaskCompleted || t.CompletedAt == nil {
			continue
		}
		say, event := "", e.done
		switch {
		case e.done == 0 && e.begun > 0:
			say, event = "begun and not completed", e.begun
		case e.done > 0 && !c.data.Log.Completed[t.TaskID]:
			say = "ended without success"
		default:
			continue
		}
		c.differ("task story", folder.Difference{Field: "task " + t.TaskID, FileA: progressFile, ValueA: "status completed", FileB: logFile, ValueB: say, IDs: []string{eventID(event)}})
	}
}

// average holds the mean duration of the tasks against theirs.
func (c *checker) average() {
	total, n := 0.0, 0
	for _, t := range c.data.Progress.Tasks {
		over := t.Status == folder.TaskCompleted || t.Status == folder.TaskError || t.Status == folder.TaskSkipped
		if t.DurationSeconds != nil && over {
			total, n = total+*t.DurationSeconds, n+1
		}
	}
	stated := c.data.Meta.AverageTask
	if n == 0 || stated == 0 {
		return // whoever does not keep it says 0
	}
	if mean := total / float64(n); math.Abs(mean-stated) > 0.01*mean+0.01 {
		c.add("average_task_duration", metadataFile, text.Decimal(stated), progressFile, text.Decimal(mean))
	}
}

// listed holds the features that are named elsewhere against the inventory.
func (c *checker) listed() {
	if !c.has(inventoryFile) || len(c.data.Inventory.Features) == 0 {
		return
	}
	known := map[string]bool{}
	for _, f := range c.data.Inventory.Features {
		known[f.FeatureID], known[f.Name] = true, true
	}
	for _, x := range []struct {
		field string
		ids   []string
	}{{"features_discovered", c.data.Meta.Discovered}, {"features_documented", c.data.Meta.Documented}} {
		for _, id := range x.ids {
			if featureID().MatchString(id) && !known[id] {
				c.add(x.field, metadataFile, id, inventoryFile, "no such feature")
			}
		}
	}
	for _, f := range c.data.Inventory.Features {
		for _, id := range f.Dependencies {
			if featureID().MatchString(id) && !known[id] {
				c.differ("dependencies", folder.Difference{Field: "feature " + f.FeatureID, FileA: inventoryFile, ValueA: "depends on " + id, FileB: inventoryFile, ValueB: "no such feature"})
			}
		}
	}
}
