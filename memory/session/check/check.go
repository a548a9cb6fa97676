// Package check holds the files of one session against each other, against
// themselves and against what others say of the session: the snapshot of its
// run and the registry.
//
// It only reads, decides nothing and mends nothing: each difference names both
// sides. What a session that is at work, or that was killed, has not written yet
// is no difference. Of a session of any size it reads one event and one record
// at a time; what it keeps grows with the tasks and is bounded.
//
//	got, err := check.Run(ctx, check.Options{Dir: dir})
//	for _, d := range got.Differences { fmt.Println(d) }
package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// The bounds of what is kept.
const (
	maxFound = 1000    // differences
	maxIDs   = 20      // of one difference
	maxTasks = 200_000 // that a log names
	maxTypes = 50      // of events that are not ours
	maxField = 20      // differences of one kind
	maxText  = 300     // bytes of what one side says
)

// Options says what to check.
type Options struct {
	// FS holds the session; nil means the real disk.
	FS afero.Fs
	// Dir is the session's directory, absolute.
	Dir string
	// Root is the project's root, in which the documents are looked for; empty
	// leaves them out.
	Root string
	// Live says that somebody works in the session now.
	Live bool
	// Snapshot is that of the run of this session, as the file says it; nil when
	// there is none.
	Snapshot *feature.Snapshot
	// Registered is the status that the registry gives the session, in the words of
	// runs; empty when it does not know it.
	Registered string
}

// Report is what Run found.
type Report struct {
	// Differences are in the same order each time.
	Differences []folder.Difference
	// Omitted counts differences beyond those that are listed.
	Omitted int
	// Notes are facts that are worth knowing and contradict nothing.
	Notes []string
	// Events and Records count those of the log and of the journal.
	Events  int
	Records int
}

// The files that are named in differences.
const (
	metadataFile  = session.MetadataFile
	journalFile   = session.JournalFile
	logFile       = "execution-log.json"
	progressFile  = "progress-tracking.yaml"
	decisionsFile = "decision-history.json"
	errorsFile    = "errors-and-retries.json"
	metricsFile   = "quality-metrics.json"
	inventoryFile = "feature-inventory.json"
	documentsFile = "feature-docs-generated.json"
	reportFile    = "final-report.md"
	iterationsDir = "iterations"
	format        = "the format"
)

// checker collects what is found in one session.
type checker struct {
	o      Options
	data   folder.Data
	names  []string // in the directory
	own    bool     // Ralph itself wrote it, and nobody else
	cut    bool     // it is at work or was killed: what is written late is behind
	report Report
	times  map[string]int // differences by kind
}

// Run checks one session. The error is that its directory cannot be read at all
// or that ctx ended; what of it cannot be read is a difference.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	c := &checker{o: o, times: map[string]int{}}
	if err := c.run(ctx); err != nil {
		return Report{}, fmt.Errorf("check session %q: %w", o.Dir, err)
	}
	return c.report, nil
}

func (c *checker) run(ctx context.Context) error {
	names, err := c.list(c.o.Dir)
	if err != nil {
		return err
	}
	c.names = names
	l, err := c.read(ctx)
	if err != nil {
		return err
	}
	j, err := readJournal(ctx, c)
	if err != nil {
		return err
	}
	c.own = j.records > j.imports && !c.imported()
	c.cut = c.o.Live || status(c.data.Meta.Status) == inProgress && c.data.Log.End == ""
	c.files()
	c.known(l)
	c.journal(j)
	c.log(l)
	if err := c.zones(ctx); err != nil {
		return err
	}
	c.values()
	c.iterations(l)
	c.documents()
	c.entries(l)
	c.outside(l)
	c.report.Events, c.report.Records = l.events, j.records
	return nil
}

// differ notes a difference. kind bounds how many of one kind are listed.
func (c *checker) differ(kind string, d folder.Difference) {
	if c.times[kind]++; c.times[kind] > maxField || len(c.report.Differences) >= maxFound {
		c.report.Omitted++
		return
	}
	for _, content := range []*string{&d.Field, &d.FileA, &d.ValueA, &d.FileB, &d.ValueB} {
		*content = text.Clip(*content, maxText)
	}
	c.report.Differences = append(c.report.Differences, d)
}

func (c *checker) add(field, fileA, a, fileB, b string, ids ...string) {
	c.differ(field, folder.Difference{Field: field, FileA: fileA, ValueA: a, FileB: fileB, ValueB: b, IDs: ids})
}

func (c *checker) note(format string, args ...any) {
	c.report.Notes = append(c.report.Notes, text.Clip(fmt.Sprintf(format, args...), maxText))
}

func (c *checker) has(file string) bool { return slices.Contains(c.names, file) }

// imported says that the session began elsewhere.
func (c *checker) imported() bool { return c.has("import") }

// list names what is in a directory, sorted.
func (c *checker) list(dir string) ([]string, error) {
	d, err := c.o.FS.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, d.Close())
}

// files tells what cannot be read.
func (c *checker) files() {
	for _, p := range c.data.Problems {
		if c.o.Live && p.File == logFile {
			continue // its last event is just being written
		}
		c.add("unreadable", p.File, without(plain(p.Err), p.File), format, "what can be read")
	}
	if !c.has(metadataFile) {
		c.add("missing", "the directory", "no "+metadataFile, format, "one")
	}
}

// without is an error's text without the path of its file.
func without(text, file string) string {
	if _, rest, ok := strings.Cut(text, file+"\": "); ok {
		return rest
	}
	return text
}

// plain is an error's cause without the path of the file, which is named beside.
func plain(err error) string {
	if d, ok := errors.AsType[*durable.Error](err); ok && d.Err != nil {
		return d.Err.Error()
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// known takes what the files say against each other, with the events that show
// it. Files that are written at different times agree only at rest.
func (c *checker) known(l *logFacts) {
	for _, d := range c.data.Differences() {
		if c.o.Live && d.Field != "session_id" && base(d.FileA) != base(d.FileB) {
			continue
		}
		switch {
		case d.Field == "end_time" && d.FileB == logFile && !l.worked.After(c.data.Meta.End.Add(slack)):
			continue
		case d.Field == "timestamp" && d.FileA == logFile:
			// Ralph's own hands write at once, and each takes the time for itself.
			if d.IDs = l.unordered.ids; c.own && l.unordered.n == 0 {
				continue
			} else if !c.own {
				d.IDs = l.swapped.ids
			}
		case strings.HasPrefix(d.Field, "task ") && d.FileA == logFile:
			if t := l.tasks[strings.TrimPrefix(d.Field, "task ")]; t != nil && t.done > 0 {
				d.IDs = []string{eventID(t.done)}
			}
		}
		kind := d.Field
		if strings.HasPrefix(kind, "task ") {
			kind = "task"
		}
		c.differ(kind, d)
	}
}

// base is a file's name without what of it is meant.
func base(file string) string {
	name, _, _ := strings.Cut(file, " (")
	return name
}

// values tells numbers that cannot be.
func (c *checker) values() {
	var odd, late marks
	for i, d := range c.data.EachDecision() {
		if v := d.Decision.Confidence; v < 0 || v > 1 {
			odd.mark("d"+strconv.Itoa(i+1), text.Decimal(v))
		}
	}
	if odd.n > 0 {
		c.add("confidence", decisionsFile, odd.values(), format, "0 to 1", odd.ids...)
	}
	for i, e := range c.data.EachFailure() {
		if e.ResolutionTimeSeconds != nil && (*e.ResolutionTimeSeconds < 0 || !e.Resolved) {
			say := "not resolved"
			if e.Resolved {
				say = "resolved"
			}
			late.mark("x"+strconv.Itoa(i+1), say+" after "+text.Decimal(*e.ResolutionTimeSeconds)+" s")
		}
	}
	if late.n > 0 {
		c.add("resolution_time_seconds", errorsFile, late.values(), format, "a time for what is resolved", late.ids...)
	}
	p := c.data.Progress.Progress
	for _, x := range []struct {
		name  string
		value float64
	}{{"overall_progress", p.OverallProgress}, {"phase_progress", p.PhaseProgress}} {
		if x.value < 0 || x.value > 100 {
			c.add(x.name, progressFile, text.Decimal(x.value), format, "0 to 100")
		}
	}
}

// marks are things of one kind: how many, and the first of them.
type marks struct {
	n    int
	ids  []string
	says []string
}

func (m *marks) mark(id, says string) {
	if m.n++; len(m.ids) < maxIDs {
		m.ids = append(m.ids, id)
	}
	if says != "" && len(m.says) < 3 {
		m.says = append(m.says, says)
	}
}

// values are the first of what was said, and how many more there are.
func (m *marks) values() string {
	text := strings.Join(m.says, ", ")
	if more := m.n - len(m.says); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func eventID(n int) string { return "e" + strconv.Itoa(n) }

// within is a path of the project as a file has it, cleaned; empty when it leads
// out.
func within(name string) string {
	name = filepath.FromSlash(path.Clean(strings.TrimSpace(name)))
	if name == "." || !filepath.IsLocal(name) {
		return ""
	}
	return name
}
