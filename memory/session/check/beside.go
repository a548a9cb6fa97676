package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/memory/session/iteration"
)

// inProgress is the status of a session at work; status gives the words of
// metadata.
const inProgress = "in_progress"

// status reads a status word of metadata, a snapshot or the registry; empty when
// it means nothing that is known.
func status(word string) string {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "in_progress", "in progress", "initializing", "running", "pausing", "stopping", "active":
		return inProgress
	case "completed", "complete", "done", "success":
		return "completed"
	case "paused", "interrupted":
		return "paused"
	case "error", "failed", "failure", "cancelled", "canceled":
		return "error"
	}
	return ""
}

var iterationFile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d{3,6})-.*\.md$`) })

// iterations holds the files of a run's iterations against the log.
func (c *checker) iterations(l *logFacts) {
	if !c.has(iterationsDir) || !l.readable || c.o.Live {
		return
	}
	names, err := c.list(filepath.Join(c.o.Dir, iterationsDir))
	if err != nil {
		c.add("unreadable", iterationsDir, plain(err), format, "what can be read")
		return
	}
	files := map[int]string{}
	for _, name := range names {
		m := iterationFile().FindStringSubmatch(name)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue // the pattern lets digits through only
		}
		if was, twice := files[n]; twice {
			c.add("iteration", iterationsDir, was, iterationsDir, name)
		}
		files[n] = name
	}
	if len(l.rounds) == 0 {
		return // a log of which the events are gone, or that does not count them
	}
	first := 0
	if numbers := slices.Sorted(maps.Keys(files)); len(numbers) > 0 {
		first = numbers[0]
	}
	for _, n := range slices.Sorted(maps.Keys(l.rounds)) {
		if c.imported() && n < first {
			continue // made elsewhere, where no such files are
		}
		r := l.rounds[n]
		want := iteration.Name(n, r.task)
		if name, ok := files[n]; (!ok || name != want) && !(c.cut && n == l.lastRound) {
			if !ok {
				name = "no file of it"
			}
			c.add("iteration "+strconv.Itoa(n), logFile, "task "+r.task, iterationsDir, name, eventID(r.event))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(files)) {
		// The file is begun before the event: of one that was cut off there is none.
		if _, ok := l.rounds[n]; !ok && !(c.cut && n > l.lastRound) {
			c.add("iteration "+strconv.Itoa(n), iterationsDir, files[n], logFile, "no such iteration")
		}
	}
}

// document is an entry of feature-docs-generated.json.
type document struct {
	id, path string
	missing  bool // it says so itself
}

const maxDocumentsBytes = 64 << 20

// readDocuments reads the list of documents; ok says that there is one.
func (c *checker) readDocuments() (list []document, ok bool) {
	if !c.has(documentsFile) {
		return nil, false
	}
	data, err := durable.ReadFile(c.o.FS, filepath.Join(c.o.Dir, documentsFile), maxDocumentsBytes)
	var v any
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		if !slices.ContainsFunc(c.data.Problems, func(p folder.Problem) bool { return p.File == documentsFile }) {
			c.add("unreadable", documentsFile, plain(err), format, "what can be read")
		}
		return nil, false
	}
	text := func(o map[string]any, keys ...string) string {
		for _, k := range keys {
			if s, ok := o[k].(string); ok {
				return s
			}
		}
		return ""
	}
	if o, isObject := v.(map[string]any); isObject {
		if id, want := text(o, "session_id", "sessionId"), c.data.Meta.SessionID; id != "" && want != "" && bare(id) != bare(want) {
			c.add("session_id", metadataFile, want, documentsFile, id)
		}
		v = o["documents"]
	}
	entries, _ := v.([]any)
	for _, e := range entries {
		if o, isObject := e.(map[string]any); isObject {
			list = append(list, document{text(o, "feature_id", "id"), text(o, "path", "file"), text(o, "status") == "missing"})
		}
	}
	return list, true
}

// bare is the number within a session's id.
func bare(id string) string {
	id = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(id)), "session-")
	if n := strings.IndexFunc(id, func(r rune) bool { return r < '0' || r > '9' }); n > 0 {
		id = id[:n]
	}
	return id
}

// documents holds the list of documents against the inventory and the disk.
func (c *checker) documents() {
	c.features()
	list, ok := c.readDocuments()
	if !ok {
		return
	}
	documented, known := map[string]bool{}, map[string]bool{}
	for _, f := range c.data.Inventory.Features {
		known[f.FeatureID] = true
	}
	for i, d := range list {
		documented[d.id] = documented[d.id] || !d.missing
		at := fmt.Sprintf("document %d", i+1)
		if c.has(inventoryFile) && d.id != "" && !known[d.id] {
			c.add(at, documentsFile, d.id, inventoryFile, "no such feature")
		}
		if !d.missing {
			c.onDisk(at, d.path)
		}
	}
	if c.o.Live {
		return // the list of documents is written after the inventory
	}
	for _, f := range c.data.Inventory.Features {
		if f.Documented != documented[f.FeatureID] && f.FeatureID != "" && (f.Documented || !c.cut) {
			c.add("feature "+f.FeatureID, inventoryFile, fmt.Sprintf("documented: %t", f.Documented), documentsFile, documentCount(documented[f.FeatureID]))
		}
	}
	if n := len(c.data.Meta.Documented); n > 0 && !c.cut && c.has(inventoryFile) {
		m := 0
		for _, f := range c.data.Inventory.Features {
			if f.Documented {
				m++
			}
		}
		if n != m {
			c.add("features_documented", metadataFile, strconv.Itoa(n), inventoryFile, strconv.Itoa(m))
		}
	}
}

func documentCount(any bool) string {
	if any {
		return "a document of it"
	}
	return "no document of it"
}

func (c *checker) onDisk(field, name string) {
	if c.o.Root == "" || name == "" {
		return
	}
	rel := within(name)
	if rel == "" {
		c.add(field, documentsFile, name, format, "a path within the project")
		return
	}
	info, err := durable.Lstat(c.o.FS, filepath.Join(c.o.Root, rel))
	if err == nil && !info.IsDir() {
		return
	}
	says := "a directory"
	if err != nil {
		says = plain(err)
	}
	c.add(field, documentsFile, name, "the disk", says)
}

var featureID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^F(\d{1,9})$`) })

// features notes gaps in the numbers of the features; that one is there twice is
// a difference, which the folder tells.
func (c *checker) features() {
	seen, most := map[int]bool{}, 0
	for _, f := range c.data.Inventory.Features {
		if m := featureID().FindStringSubmatch(f.FeatureID); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
				seen[n], most = true, max(most, n)
			}
		}
	}
	if gap := most - len(seen); gap > 0 {
		c.note("the numbers of the features have gaps: the highest is F%03d, and there are %d", most, len(seen))
	}
}

// outside holds the session against what others say of it.
func (c *checker) outside(l *logFacts) {
	is := status(c.data.Meta.Status)
	if c.o.Live || is == "" {
		return
	}
	if r := status(c.o.Registered); r != "" && !fit(is, r) {
		c.add("status", metadataFile, c.data.Meta.Status, "the registry", c.o.Registered)
	}
	s := c.o.Snapshot
	if s == nil {
		return
	}
	file := s.Feature + ".json"
	// One that could not begin to go on left the snapshot as it was.
	behind := is == "error" && s.UpdatedAt.Before(l.begun.Add(-slack))
	if r := status(string(s.Status)); r != "" && !fit(is, r) && !behind {
		c.add("status", metadataFile, c.data.Meta.Status, file, string(s.Status))
	}
	if n := len(s.Tracker.Tasks); n > 0 && n != s.Tracker.TotalTasks {
		c.add("tracker.totalTasks", file, strconv.Itoa(s.Tracker.TotalTasks), file+" (tasks)", strconv.Itoa(n))
	}
	if s.MaxIterations > 0 && s.Iteration > s.MaxIterations {
		c.add("iteration", file, strconv.Itoa(s.Iteration), file, fmt.Sprintf("at most %d", s.MaxIterations))
	}
	if s.EndedAt != nil && s.EndedAt.Before(s.StartedAt.Add(-slack)) {
		c.add("endedAt", file, s.EndedAt.UTC().Format("2006-01-02T15:04:05Z"), file, "a start at "+s.StartedAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
	if c.cut {
		return // each was written at its own time
	}
	done := 0
	for _, t := range c.data.Progress.Tasks {
		if t.Status == folder.TaskCompleted {
			done++
		}
	}
	if len(c.data.Progress.Tasks) > 0 && s.Status != feature.Idle && (s.Tasks.Completed != done || s.Tasks.Total != len(c.data.Progress.Tasks)) {
		c.add("tasks", file, fmt.Sprintf("%d of %d", s.Tasks.Completed, s.Tasks.Total), progressFile, fmt.Sprintf("%d of %d", done, len(c.data.Progress.Tasks)))
	}
}

// fit says that a session's status and that of its run go together. One that was
// killed is in progress still, and its run reads interrupted.
func fit(session, run string) bool {
	if session == run {
		return true
	}
	return session == inProgress && run == "paused" || session == "paused" && run == inProgress
}
