package folder

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/text"
)

// Log sums up execution-log.json.
type Log struct {
	Events      int
	ByType      map[EventType]int
	First, Last time.Time
	// Unordered counts the events that are older than the one before them.
	Unordered int
	// Completed are the ids of the tasks that completed.
	Completed map[string]bool
	// End is the result of the session_end with which the log ends, if it does.
	End string
	// Resumed says that the session went on after its last session_end.
	Resumed bool
	// Artifacts and Lessons are the files that were changed and what was learned,
	// as the ends of phases tell.
	Artifacts, Lessons []string
	// Answer is what was said at the end of the last run, cut to its beginning;
	// NextSteps is what that named as to be done.
	Answer    string
	NextSteps []string
	Bytes     int64
	// Cut says that the log was too large for the occasion and not read.
	Cut bool

	spent  spending
	tasks  map[string]logged // by their id
	tries  map[string][]int  // the iterations that worked on a task
	errors []Failure         // the first maxListed
	fills  bool              // the tasks of the report are those of the log
	heard  bool              // its errors are
}

// spending is what the runs of a session used, as the ends of their phases tell.
type spending struct {
	runs, turns, calls, failed int
	input, cached, output      int64
	total                      int64 // as stated, else what went in and out
	cost                       float64
	priced, unpriced           bool // the cost of some is known, of some is not
	open                       bool // a run began and has not ended
	lost                       int  // runs that broke off: nothing says what they used
	kind                       string
	models                     []string // in the order in which they came
	commits                    []string
}

func (d *Data) readLog(fsys afero.Fs, dir string, names []string, maxLog int64, each func(id string, e Event) error) error {
	if !slices.Contains(names, logFile) {
		return nil
	}
	d.Files = append(d.Files, logFile)
	l := &d.Log
	if st, err := fsys.Stat(filepath.Join(dir, logFile)); err == nil {
		l.Bytes = st.Size()
	}
	if maxLog > 0 && l.Bytes > maxLog {
		l.Cut = true
		return nil
	}
	l.ByType, l.Completed, l.tasks, l.tries = map[EventType]int{}, map[string]bool{}, map[string]logged{}, map[string][]int{}
	var stop error
	id, err := Events(fsys, dir, func(e Event) error {
		l.add(e)
		if each != nil {
			stop = each("e"+strconv.Itoa(l.Events), e)
		}
		return stop
	})
	if stop != nil {
		return stop
	}
	if id != "" {
		d.ids[logFile] = id
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.problem(logFile, err)
	}
	return nil
}

func (l *Log) add(e Event) {
	l.Events++
	l.ByType[e.Type]++
	l.End = ""
	switch e.Type {
	case TaskStart:
		l.begun(e)
	case TaskComplete:
		if l.begun(e); e.TaskID != "" && e.Went() == TaskCompleted {
			l.Completed[e.TaskID] = true
		}
	case Errored:
		l.failed(e)
	case PhaseStart:
		l.spent.open = l.spent.open || e.Text("phase", "name") == ""
	case PhaseComplete:
		l.ended(e)
	case SessionStart:
		l.Resumed = l.Resumed || l.ByType[SessionEnd] > 0
		l.spent.begins(e)
	case SessionEnd:
		l.End, l.Resumed = e.Result, false
	}
	if e.Time.IsZero() || e.Type == Handoff {
		return // a session may be handed on when it has ended
	}
	if l.First.IsZero() || e.Time.Before(l.First) {
		l.First = e.Time
	}
	if e.Time.Before(l.Last) {
		l.Unordered++
	} else {
		l.Last = e.Time
	}
}

// begun notes what a task is called, how it stands and which iteration works on
// it.
func (l *Log) begun(e Event) {
	if e.TaskID == "" {
		return
	}
	l.stands(e)
	n := int(e.figure("iteration"))
	if list := l.tries[e.TaskID]; n > 0 && len(list) < maxListed && (list != nil || len(l.tries) < maxNamed) && !slices.Contains(list, n) {
		l.tries[e.TaskID] = append(list, n)
	}
}

// ended takes what the end of a phase tells; that of a whole run says what it
// used and what it came to.
func (l *Log) ended(e Event) {
	s := &l.spent
	l.Artifacts = more(l.Artifacts, e.Details["files"])
	l.Lessons = more(l.Lessons, e.Details["learned"])
	usage, calls := e.Within("usage"), e.Within("tool_calls")
	if usage.Details == nil {
		return
	}
	s.commits = more(s.commits, e.Details["commits"])
	l.Answer, l.NextSteps = e.Text("answer"), more(nil, e.Details["next_steps"])
	s.runs++
	s.open = false
	s.turns += int(e.figure("turns"))
	s.calls += int(calls.figure("total"))
	s.failed += int(calls.figure("failed"))
	s.input += int64(usage.figure("input"))
	s.cached += int64(usage.figure("cached_input"))
	s.output += int64(usage.figure("output"))
	total := usage.figure("total")
	if total == 0 {
		total = usage.figure("input") + usage.figure("output")
	}
	s.total += int64(total)
	known := e.Details["cost_usd"] != nil
	s.priced, s.unpriced = s.priced || known, s.unpriced || total > 0 && !known
	s.cost += e.figure("cost_usd")
}

// begins notes that a Ralph began to work in the session: a run that is open then
// broke off.
func (s *spending) begins(e Event) {
	if s.open {
		s.lost++
	}
	s.open = false
	s.kind = e.Text("kind")
	if m := e.Text("model"); m != "" && !slices.Contains(s.models, m) && len(s.models) < maxModels {
		s.models = append(s.models, text.ClipRunes(m, maxInline))
	}
}

// maxModels bounds the models that a report names.
const maxModels = 10

// figure is a number of details, within what a count may be; 0 for none.
func (e Event) figure(key string) float64 {
	f, _ := e.Number(key)
	return min(max(f, 0), 1<<53)
}

// more adds the texts of a list that are not there yet.
func more(known []string, list any) []string {
	texts, _ := list.([]any)
	for _, v := range texts {
		if text, ok := v.(string); ok && len(known) < maxTold && !slices.Contains(known, text) {
			known = append(known, text)
		}
	}
	return known
}

const (
	// maxTold bounds what is collected of a log for the report.
	maxTold = 1000
	// maxNamed bounds the tasks of which the name is known.
	maxNamed = 100_000
)

// LogBytes is how long the log is in the file; 0 when there is none.
func (f *Folder) LogBytes() int64 {
	if st, err := f.o.FS.Stat(filepath.Join(f.o.Dir, logFile)); err == nil {
		return st.Size()
	}
	return 0
}

// Inventory reads the features of the session; none when it has none, or they
// cannot be read.
func (f *Folder) Inventory() Inventory {
	d := Data{ids: map[string]string{}}
	if data, err := durable.ReadFile(f.o.FS, filepath.Join(f.o.Dir, inventoryFile), maxFileBytes); err == nil {
		if v, err := parse(inventoryFile, data); err == nil {
			d.takeInventory(v)
		}
	}
	return d.Inventory
}
