package folder

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/text"
)

// Difference is one thing of which two places of a session's files say
// different things, or one place what cannot be.
type Difference struct {
	Field  string `json:"field"` // "status", "tasks_completed", "statistics.by_status.documented"
	FileA  string `json:"file_a"`
	ValueA string `json:"value_a"`
	FileB  string `json:"file_b"` // FileA again when the file contradicts itself
	ValueB string `json:"value_b"`
	// IDs are events, records and entries that show it, when it lies in such.
	IDs []string `json:"ids,omitempty"`
}

// String names both sides in one line. The values may be foreign text.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s says %s, %s says %s", d.Field, d.FileA, d.ValueA, d.FileB, d.ValueB)
}

// tolerance is how far times may be apart that mean the same: some are cut to
// the second, others not.
const tolerance = 2 * time.Second

// maxPerField bounds the differences that are listed of one kind.
const maxPerField = 20

// differ collects differences.
type differ struct {
	found []Difference
	times map[string]int
}

func (f *differ) add(field, fileA, a, fileB, b string) {
	if f.times[field]++; f.times[field] <= maxPerField {
		f.found = append(f.found, Difference{Field: field, FileA: fileA, ValueA: a, FileB: fileB, ValueB: b})
	}
}

func (f *differ) numbers(field, fileA string, a float64, fileB string, b, within float64) {
	if math.Abs(a-b) > within {
		f.add(field, fileA, text.Decimal(a), fileB, text.Decimal(b))
	}
}

// Differences names what the files say against each other and against
// themselves: ids, status, counts, times, statistics. It says nothing of what
// only one of them states, and mends nothing. The order is the same each time.
func (d Data) Differences() []Difference {
	f := &differ{times: map[string]int{}}
	d.compareIDs(f)
	d.compareStatus(f)
	d.compareCounts(f)
	d.compareTimes(f)
	d.compareInventory(f)
	d.compareGates(f)
	return f.found
}

// has says that a file is there and could be read whole.
func (d Data) has(file string) bool {
	return slices.Contains(d.Files, file) && !slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.File == file })
}

// idNumber is the number within a session id: "001" of "session-001-fix".
func idNumber(id string) string {
	id = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(id)), "session-")
	if n := strings.IndexFunc(id, func(r rune) bool { return r < '0' || r > '9' }); n > 0 {
		id = id[:n]
	}
	return id
}

func (d Data) compareIDs(f *differ) {
	first, of := "", ""
	if strings.HasPrefix(d.Dir, "session-") {
		first, of = d.Dir, "the directory"
	}
	for _, file := range []string{metadataFile, logFile, progressFile, decisionsFile, errorsFile, metricsFile, inventoryFile, reportFile} {
		id, ok := d.ids[file]
		if !ok {
			continue
		}
		if first == "" {
			first, of = id, file
		} else if idNumber(id) != idNumber(first) && (d.imported == "" || idNumber(id) != idNumber(d.imported)) {
			f.add("session_id", of, first, file, id)
		}
	}
	seen := map[string]bool{}
	for _, t := range d.Progress.Tasks {
		if t.TaskID != "" && seen[t.TaskID] {
			f.add("task_id", progressFile, t.TaskID, progressFile, t.TaskID+" again")
		}
		seen[t.TaskID] = true
	}
	seen = map[string]bool{}
	for _, x := range d.Inventory.Features {
		if x.FeatureID != "" && seen[x.FeatureID] {
			f.add("feature_id", inventoryFile, x.FeatureID, inventoryFile, x.FeatureID+" again")
		}
		seen[x.FeatureID] = true
	}
}

// statusWord reads a status however it is worded; "" when it means none of
// ours.
func statusWord(s string) string {
	s = strings.ToLower(s)
	for _, w := range [][2]string{{"progress", "in_progress"}, {"running", "in_progress"}, {"incomplete", "in_progress"}, {"complet", "completed"}, {"success", "completed"},
		{"done", "completed"}, {"pause", "paused"}, {"interrupt", "paused"}, {"error", "error"}, {"fail", "error"}} {
		if strings.Contains(s, w[0]) {
			return w[1]
		}
	}
	return ""
}

func (d Data) compareStatus(f *differ) {
	a := statusWord(d.Meta.Status)
	if a == "" {
		return
	}
	if a == "in_progress" && d.Log.End != "" && d.Report.Status == "" {
		f.add("status", metadataFile, d.Meta.Status, logFile, "the session ended: "+d.Log.End)
	}
	// The report of a session that goes on is still that of its last end.
	if b := statusWord(d.Report.Status); b != "" && a != b && (a != "in_progress" || !d.Log.Resumed) {
		f.add("status", metadataFile, d.Meta.Status, reportFile, d.Report.Status)
	}
	if b := statusWord(d.Log.End); b != "" && a != b && a != "in_progress" {
		f.add("status", metadataFile, d.Meta.Status, logFile, d.Log.End)
	}
}

// cutOff says that the session goes on or was killed: then its metadata, which is
// written now and then, is behind what is written as things happen.
func (d Data) cutOff() bool {
	return statusWord(d.Meta.Status) == "in_progress" && d.Log.Events > 0 && d.Log.End == "" && (d.Report.Status == "" || d.Log.Resumed)
}

// tally counts the tasks by their status.
func (d Data) tally() map[TaskStatus]int {
	n := map[TaskStatus]int{}
	for _, t := range d.Progress.Tasks {
		n[t.Status]++
	}
	return n
}

// behind says that the metadata counts less than progress does and may.
func (d Data) behind(completed int) bool {
	return d.cutOff() && d.Meta.Completed <= completed && d.Meta.Total <= len(d.Progress.Tasks)
}

func (d Data) compareCounts(f *differ) {
	m, n := d.Meta, d.tally()
	if d.has(metadataFile) && len(d.Progress.Tasks) > 0 && !d.behind(n[TaskCompleted]) {
		f.numbers("tasks_completed", metadataFile, float64(m.Completed), progressFile, float64(n[TaskCompleted]), 0)
		f.numbers("tasks_total", metadataFile, float64(m.Total), progressFile, float64(len(d.Progress.Tasks)), 0)
		if over := n[TaskCompleted] + n[TaskError]; over > 0 {
			rate := m.SuccessRate
			if rate > 1 {
				rate /= 100
			}
			// Of tasks as other tools count, or of attempts.
			if tried := n[TaskCompleted] + max(n[TaskError], d.NFailures()); math.Abs(rate-float64(n[TaskCompleted])/float64(tried)) > 0.01 {
				f.numbers("success_rate", metadataFile, rate, progressFile, float64(n[TaskCompleted])/float64(over), 0.01)
			}
		}
	}
	if d.has(metadataFile) && m.Completed > m.Total {
		f.add("tasks_completed", metadataFile, strconv.Itoa(m.Completed), metadataFile, fmt.Sprintf("%d in all", m.Total))
	}
	if d.has(metadataFile) && d.has(errorsFile) && !(d.cutOff() && m.Errors <= d.NFailures()) {
		f.numbers("error_count", metadataFile, float64(m.Errors), errorsFile, float64(d.NFailures()), 0)
	}
	if len(d.Progress.Tasks) > 0 {
		f.numbers("overall_progress", progressFile, d.Progress.Progress.OverallProgress, progressFile+" (tasks)", percent(n[TaskCompleted], len(d.Progress.Tasks)), 1)
	}
	for _, t := range d.Progress.Tasks {
		// One that is worked on again is no contradiction, nor one that was begun,
		// and that somebody opened again.
		again := t.Status == TaskPending && t.StartedAt != nil
		if s := t.Status; d.Log.Completed[t.TaskID] && !again && (s == TaskPending || s == TaskError || s == TaskSkipped) {
			f.add("task "+t.TaskID, logFile, "completed", progressFile, string(s))
		}
	}
}

func (d Data) compareTimes(f *differ) {
	m := d.Meta
	if !m.Start.IsZero() && !m.End.IsZero() {
		if m.End.Before(m.Start.Add(-tolerance)) {
			f.add("end_time", metadataFile, moment(m.End), metadataFile, "a start at "+moment(m.Start))
		} else if m.TotalDuration != 0 {
			f.numbers("total_duration_seconds", metadataFile, m.TotalDuration, metadataFile, m.End.Sub(m.Start).Seconds(), tolerance.Seconds())
		}
	}
	switch s := statusWord(m.Status); {
	case s == "in_progress" && !m.End.IsZero():
		f.add("end_time", metadataFile, moment(m.End), metadataFile, "status "+m.Status)
	case s == "completed" && m.End.IsZero():
		f.add("end_time", metadataFile, "none", metadataFile, "status "+m.Status)
	}
	if !m.Start.IsZero() && !d.Log.First.IsZero() && d.Log.First.Before(m.Start.Add(-tolerance)) {
		f.add("start_time", metadataFile, moment(m.Start), logFile, "a first event at "+moment(d.Log.First))
	}
	if !m.End.IsZero() && d.Log.Last.After(m.End.Add(tolerance)) {
		f.add("end_time", metadataFile, moment(m.End), logFile, "a last event at "+moment(d.Log.Last))
	}
	if d.Log.Unordered > 0 {
		f.add("timestamp", logFile, "events in order", logFile, fmt.Sprintf("%d older than the one before", d.Log.Unordered))
	}
	for _, t := range d.Progress.Tasks {
		t.compareTimes(f)
	}
}

func (t TaskState) compareTimes(f *differ) {
	field := "task " + t.TaskID
	if t.Status == TaskPending && t.CompletedAt != nil || t.Status == TaskInProgress && t.CompletedAt != nil {
		f.add(field, progressFile, "status "+string(t.Status), progressFile, "completed at "+moment(*t.CompletedAt))
	}
	if t.StartedAt == nil || t.CompletedAt == nil {
		return
	}
	took := t.CompletedAt.Sub(*t.StartedAt)
	if took < -tolerance {
		f.add(field, progressFile, "started at "+moment(*t.StartedAt), progressFile, "completed at "+moment(*t.CompletedAt))
	} else if d := t.DurationSeconds; d != nil && *d > took.Seconds()+tolerance.Seconds() {
		// Less is no contradiction: a task may have rested meanwhile.
		f.add(field, progressFile, "a duration of "+text.Decimal(*d)+" s", progressFile, text.Decimal(took.Seconds())+" s from start to end")
	}
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (d Data) compareInventory(f *differ) {
	v := d.Inventory
	if n := len(d.Meta.Discovered); n > 0 && d.has(inventoryFile) {
		f.numbers("features_discovered", metadataFile, float64(n), inventoryFile, float64(len(v.Features)), 0)
	}
	if !v.Stated {
		return
	}
	categories, statuses, documented := map[string]int{}, map[string]int{}, 0
	for _, x := range v.Features {
		categories[x.Category]++
		statuses[x.Status]++
		if x.Documented {
			documented++
		}
	}
	list := inventoryFile + " (features)"
	f.numbers("statistics.total_features", inventoryFile, float64(v.Total), list, float64(len(v.Features)), 0)
	compareTally(f, "statistics.by_category.", v.ByCategory, categories)
	compareTally(f, "statistics.by_status.", v.ByStatus, statuses)
	coverage := 0.0
	if len(v.Features) > 0 {
		coverage = float64(documented) / float64(len(v.Features))
	}
	stated := v.Coverage
	if stated > 1 {
		stated /= 100
	}
	f.numbers("statistics.documentation_coverage", inventoryFile, stated, list, coverage, 0.01)
}

func compareTally(f *differ, field string, stated, counted map[string]int) {
	if stated == nil {
		return
	}
	keys := maps.Clone(counted)
	maps.Copy(keys, stated)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		f.numbers(field+k, inventoryFile, float64(stated[k]), inventoryFile+" (features)", float64(counted[k]), 0)
	}
}

// compareGates holds each gate against the newest value of its metric.
func (d Data) compareGates(f *differ) {
	newest := map[string]Metric{}
	for _, m := range d.Metrics {
		if old, ok := newest[m.Name]; !ok || !m.MeasuredAt.Before(old.MeasuredAt) {
			newest[m.Name] = m
		}
	}
	for _, g := range d.Progress.QualityGates {
		m, ok := newest[g.Metric]
		if !ok {
			continue
		}
		if passes, known := holds(m.Value, g.Operator, g.Threshold); known && g.Is(!passes) {
			f.add("quality gate "+g.Name, progressFile, fmt.Sprintf("passed: %t", !passes), metricsFile,
				fmt.Sprintf("%s = %s, to be %s %s", g.Metric, text.Decimal(m.Value), g.Operator, text.Decimal(g.Threshold)))
		}
	}
	for _, m := range d.Progress.Milestones {
		if !m.Achieved && m.AchievedAt != nil {
			f.add("milestone "+m.Name, progressFile, "achieved: false", progressFile, "achieved at "+moment(*m.AchievedAt))
		}
	}
}

func holds(value float64, operator string, threshold float64) (passes, known bool) {
	switch strings.TrimSpace(operator) {
	case ">=", "gte":
		return value >= threshold, true
	case ">", "gt":
		return value > threshold, true
	case "<=", "lte":
		return value <= threshold, true
	case "<", "lt":
		return value < threshold, true
	case "==", "=", "eq":
		return value == threshold, true
	case "!=", "ne":
		return value != threshold, true
	}
	return false, false
}

// number is the session's number as the report's title has it.
func (d Data) number() string {
	for _, id := range []string{d.Meta.SessionID, d.Progress.SessionID, d.Dir} {
		if n := idNumber(id); n != "" {
			return n
		}
	}
	return "unknown"
}
