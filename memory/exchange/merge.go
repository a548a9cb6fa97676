package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/session/keep"
	"ralph/memory/text"
)

// Merged says what Merge made. Paths are relative to the project's root.
type Merged struct {
	SessionID folder.ID `json:"session_id"`
	Name      string    `json:"name"`
	Path      string    `json:"path"`
	From      []string  `json:"from"`
	Records   int       `json:"records"` // of the journal
	Tasks     int       `json:"tasks"`
	// Conflicts are tasks of which the two say different things, one a line: the
	// newer counts.
	Conflicts []string `json:"conflicts"`
	Warnings  []string `json:"warnings"`
}

// Merge makes a new session of two, which stay as they are: their histories by
// time, turn by turn, and their task states by id. The name may be empty. dry
// only says what would be made. After an error no session is left.
func Merge(o Options, a, b retention.Session, name string, dry bool) (Merged, error) {
	o = o.withDefaults()
	m := Merged{From: []string{a.ID, b.ID}}
	fail := func(err error) (Merged, error) {
		return Merged{}, fmt.Errorf("merge sessions %s and %s: %w", a.ID, b.ID, err)
	}
	va, err := look(o, a)
	if err != nil {
		return fail(err)
	}
	vb, err := look(o, b)
	if err != nil {
		return fail(err)
	}
	if m.Name = text.VisibleLine(strings.Join(strings.Fields(o.Redact(name)), " ")); m.Name == "" {
		m.Name = a.Name + " and " + b.Name
	}
	tasks, conflicts, _ := joinTasks(va.data.Progress.Tasks, vb.data.Progress.Tasks, a.ID, b.ID)
	m.Tasks, m.Conflicts, m.Warnings = len(tasks), some(conflicts), slices.Concat(some(va.notes), vb.notes)
	if dry {
		return m, nil
	}
	made, err := create(o, "merged", m.Name)
	if err != nil {
		return fail(err)
	}
	m.SessionID = folder.ID(made.ID())
	if rel, err := filepath.Rel(filepath.Dir(o.StateDir), made.Dir()); err == nil {
		m.Path = filepath.ToSlash(rel)
	}
	err = errors.Join(made.Update(func(md *session.Metadata) { md.PhaseName = importing }), made.Close(), bareSession(o.FS, made.Dir()))
	if err == nil {
		err = m.fill(o, made.Dir(), va, vb, tasks)
	}
	if err != nil {
		return fail(errors.Join(err, o.FS.RemoveAll(made.Dir())))
	}
	return m, nil
}

// fill writes the files of the merged session, the metadata last.
func (m *Merged) fill(o Options, dir string, a, b *view, tasks []folder.TaskState) error {
	files := map[string][]byte{}
	id := folder.SessionID(string(m.SessionID))
	for name, lists := range map[string][]string{"execution-log.json": {"events"}, "decision-history.json": {"decisions"},
		"errors-and-retries.json": {"errors", "circuit_breaker_trips"}, "quality-metrics.json": {"metrics"}, "feature-docs-generated.json": {"documents"}} {
		data, warnings, err := mergeLists(name, a.files[name], b.files[name], id, lists)
		m.Warnings = append(m.Warnings, warnings...)
		if err != nil {
			return err
		}
		if data != nil {
			files[name] = data
		}
	}
	if err := m.logged(files, o.Now()); err != nil {
		return err
	}
	for _, v := range []*view{a, b} {
		if data, ok := v.files["feature-inventory.json"]; ok {
			files["merged/"+v.session.ID+"/feature-inventory.json"] = data
			m.Warnings = append(m.Warnings, fmt.Sprintf("the feature inventory of session %s numbers its features by itself: it is kept as merged/%s/feature-inventory.json", v.session.ID, v.session.ID))
		}
	}
	progress, err := mergedProgress(id, a, b, tasks, o.Now())
	if err != nil {
		return err
	}
	if progress != nil {
		files["progress-tracking.yaml"] = progress
	}
	if talk := mergeTalk(a.files[session.ConversationFile], b.files[session.ConversationFile]); len(talk) > 0 {
		files[session.ConversationFile] = talk
	}
	for name, data := range files {
		if err := put(o.FS, dir, name, data); err != nil {
			return err
		}
	}
	if m.Records, err = mergeJournals(o, dir, a, b); err != nil {
		return err
	}
	meta, err := mergedMetadata(m, a, b, tasks)
	if err != nil {
		return err
	}
	return durable.Replace(o.FS, filepath.Join(dir, session.MetadataFile), meta, 0o600)
}

// logged notes the merge behind the joined events: the session goes on, however
// the two ended.
func (m *Merged) logged(files map[string][]byte, now time.Time) error {
	event := folder.Event{Time: now, Type: folder.Handoff, Result: "merged", Details: map[string]any{"from": m.From}}
	id := folder.SessionID(string(m.SessionID))
	text, err := json.Marshal(map[string]any{"session_id": id, "events": []folder.Event{event}})
	if err != nil {
		return err
	}
	const name = "execution-log.json"
	data, _, err := mergeLists(name, files[name], text, id, []string{"events"})
	files[name] = data
	return err
}

func mergedProgress(id string, a, b *view, tasks []folder.TaskState, now time.Time) ([]byte, error) {
	p := folder.Progress{SessionID: id, LastUpdated: now.UTC().Truncate(time.Second), Tasks: tasks,
		Milestones:   slices.Concat(some(a.data.Progress.Milestones), b.data.Progress.Milestones),
		QualityGates: slices.Concat(some(a.data.Progress.QualityGates), b.data.Progress.QualityGates)}
	if len(tasks) == 0 && len(p.Milestones) == 0 && len(p.QualityGates) == 0 {
		return nil, nil
	}
	p.Progress.OverallProgress = float64(100*completed(tasks)) / float64(max(len(tasks), 1))
	return dumped(p)
}

func completed(tasks []folder.TaskState) (n int) {
	for _, t := range tasks {
		if t.Status == folder.TaskCompleted {
			n++
		}
	}
	return n
}

func mergedMetadata(m *Merged, a, b *view, tasks []folder.TaskState) ([]byte, error) {
	first, second := a.session, b.session
	if second.Start.Before(first.Start) {
		first, second = second, first
	}
	md := session.Metadata{SessionID: folder.SessionID(string(m.SessionID)), SessionName: m.Name, StartTime: first.Start.UTC().Truncate(time.Second), Status: session.Paused,
		ExitReason: "merged", TasksCompleted: completed(tasks), TasksTotal: len(tasks),
		Config: session.RuntimeConfig{MaxIterations: 300, ConfidenceThreshold: 0.7, HumanIntervention: "ask_first", LearningRate: 0.1}}
	if len(tasks) == 0 {
		md.TasksCompleted, md.TasksTotal = max(first.Done, second.Done), max(first.Total, second.Total)
	}
	is := sumsOf(tasks)
	md.Performance.SuccessRate, md.Performance.AverageTaskDuration = is.rate, is.average
	md.Performance.ErrorCount = len(a.data.Failures) + len(b.data.Failures)
	md.Performance.TotalDurationSeconds = (first.Duration() + second.Duration()).Seconds()
	node, err := keep.Encode(md)
	if err != nil {
		return nil, err
	}
	setScalar(node, "merged_from", strings.Join(m.From, ", "), "!!str")
	return yaml.Dump(node)
}

// mergeLists joins two documents of lists by time; keys that only one has stay.
// A document that cannot be read is left out with a warning.
func mergeLists(name string, a, b []byte, id string, lists []string) (data []byte, warnings []string, err error) {
	var docs []map[string]json.RawMessage
	for _, text := range [][]byte{a, b} {
		if text == nil {
			continue
		}
		var doc map[string]json.RawMessage
		if err := readJSON(text, &doc); err != nil {
			warnings = append(warnings, name+": left out: "+err.Error())
			continue
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 {
		return nil, warnings, nil
	}
	out := map[string]json.RawMessage{}
	for _, doc := range slices.Backward(docs) {
		for k, v := range doc {
			out[k] = v
		}
	}
	for _, list := range lists {
		var all []json.RawMessage
		for _, doc := range docs {
			var part []json.RawMessage
			if doc[list] != nil && json.Unmarshal(doc[list], &part) != nil {
				warnings = append(warnings, name+": left out: "+list+" is no list")
			}
			all = append(all, part...)
		}
		slices.SortStableFunc(all, func(x, y json.RawMessage) int { return stampIn(x).Compare(stampIn(y)) })
		if out[list], err = json.Marshal(some(all)); err != nil {
			return nil, warnings, err
		}
	}
	if out["session_id"], err = json.Marshal(id); err != nil {
		return nil, warnings, err
	}
	data, err = json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), warnings, err
}

// stampIn is the time of an entry, zero when it states none.
func stampIn(entry json.RawMessage) time.Time {
	var e struct {
		Timestamp   string `json:"timestamp"`
		MeasuredAt  string `json:"measured_at"`
		GeneratedAt string `json:"generated_at"`
	}
	if json.Unmarshal(entry, &e) != nil {
		return time.Time{}
	}
	for _, text := range []string{e.Timestamp, e.MeasuredAt, e.GeneratedAt} {
		if t := moment(text); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// mergeTalk joins two transcripts, section by section, by the times of their
// heads.
func mergeTalk(a, b []byte) []byte {
	all := slices.Concat(sections(a), sections(b))
	slices.SortStableFunc(all, func(x, y string) int { return strings.Compare(headTime(x), headTime(y)) })
	return []byte(strings.Join(all, ""))
}

// sections parts a transcript at its heads; quoted text cannot hold one.
func sections(text []byte) (parts []string) {
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, "## ") || len(parts) == 0 {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += l
	}
	if n := len(parts); n > 0 && !strings.HasSuffix(parts[n-1], "\n\n") {
		parts[n-1] = strings.TrimRight(parts[n-1], "\n") + "\n\n"
	}
	return parts
}

func headTime(section string) string {
	const form = "2006-01-02 15:04:05"
	head, _ := strings.CutPrefix(section, "## ")
	if len(head) < len(form) {
		return ""
	}
	if _, err := time.Parse(form, head[:len(form)]); err != nil {
		return ""
	}
	return head[:len(form)]
}
