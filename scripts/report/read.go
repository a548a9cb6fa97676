package report

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/scripts/report/analysis"
	"ralph/scripts/report/insights"
	"ralph/scripts/report/page"
)

// Wants says what is to be computed besides the analysis; what is not wanted
// costs nothing.
type Wants struct {
	Findings bool
	Timeline bool
}

// Session is all that was read and computed of one. It is a value: nobody
// closes it.
type Session struct {
	Data     folder.Data
	Analysis analysis.Analysis
	// Findings are nil when they were not wanted.
	Findings []insights.Finding
	// Differences are what the files say against each other.
	Differences []folder.Difference
	// Timeline is empty when it was not wanted.
	Timeline page.Timeline
}

// collector takes in what stands in the log and the journal.
type collector interface {
	Event(id string, e folder.Event)
	Record(r session.Record)
}

// checkEvery is after how many entries it is seen whether the work is still
// wanted.
const checkEvery = 1024

// WritePage writes the HTML page of the session, which was read with findings
// and timeline. generated is when; zero leaves it out. The error is w's.
func (s *Session) WritePage(w io.Writer, generated time.Time) error {
	differences := make([]string, len(s.Differences))
	for i, d := range s.Differences {
		differences[i] = d.String()
	}
	return page.Write(w, page.Input{Data: s.Data, Timeline: s.Timeline, Figures: page.FiguresOf(s.Analysis), Findings: s.Findings,
		Differences: differences, Notes: s.Analysis.Notes, Generated: generated})
}

// Read reads the session in dir, in one pass over its log and one over its
// journal. The error is that the directory cannot be read or the cause of ctx;
// files that are missing, cut or broken are none and are in the data's problems
// and the analysis' notes. fsys nil means the real disk.
func Read(ctx context.Context, fsys afero.Fs, dir string, w Wants) (*Session, error) {
	return read(fsys, dir, w, func() error { return context.Cause(ctx) })
}

// read is Read that asks now and then whether the work is still wanted.
func read(fsys afero.Fs, dir string, w Wants, wanted func() error) (*Session, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	config := settings(fsys, dir)
	a := analysis.New()
	f := insights.New(insights.Options{ConfidenceThreshold: threshold(config)})
	p := page.New()
	all := []collector{a}
	if w.Findings {
		all = append(all, f)
	}
	if w.Timeline {
		all = append(all, p)
	}
	d, bad, err := pass(fsys, dir, all, wanted)
	if err != nil {
		return nil, err
	}
	s := &Session{Data: d, Analysis: a.Result(d), Differences: d.Differences()}
	s.Analysis.Session.Config = config
	if bad > 0 {
		s.Analysis.Notes = append(s.Analysis.Notes, fmt.Sprintf("journal.jsonl: %s no whole record and left out", text.Clause(bad, "line", "is", "are")))
	}
	if w.Findings {
		s.Findings = list(f.Result(d))
		s.Analysis.Notes = append(s.Analysis.Notes, f.Notes()...)
	}
	if w.Timeline {
		s.Timeline = p.Result(d)
	}
	return s, nil
}

// pass shows each event and each record to all.
func pass(fsys afero.Fs, dir string, all []collector, wanted func() error) (d folder.Data, bad int, err error) {
	n := 0
	alive := func() error {
		if n++; n%checkEvery != 0 {
			return nil
		}
		return wanted()
	}
	d, err = folder.ReadEach(fsys, dir, func(id string, e folder.Event) error {
		for _, c := range all {
			c.Event(id, e)
		}
		return alive()
	})
	if err != nil {
		return d, 0, err
	}
	var ended error
	bad, err = session.ReadRecords(fsys, filepath.Join(dir, session.JournalFile), nil, func(r session.Record) error {
		for _, c := range all {
			c.Record(r)
		}
		ended = alive()
		return ended
	})
	if ended != nil {
		return d, bad, fmt.Errorf("read session %q: %w", dir, ended)
	}
	if err != nil {
		d.Problems = append(d.Problems, folder.Problem{File: session.JournalFile, Err: err})
	}
	return d, bad, wanted()
}

// maxMetadataBytes bounds the metadata that are read for the settings.
const maxMetadataBytes = 4 << 20

// settings reads ralph_runtime_config; empty when there is none that can be
// read, which the data say.
func settings(fsys afero.Fs, dir string) map[string]any {
	var m struct {
		Config map[string]any `yaml:"ralph_runtime_config"`
	}
	found := map[string]any{}
	data, err := durable.ReadFile(fsys, filepath.Join(dir, session.MetadataFile), maxMetadataBytes)
	if err != nil || yaml.Load(data, &m) != nil {
		return found
	}
	for k, v := range m.Config {
		switch v := v.(type) {
		case string, bool, int, int64:
			found[k] = v
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) { // JSON has none of these
				found[k] = v
			}
		}
	}
	return found
}

func threshold(config map[string]any) float64 {
	switch v := config["confidence_threshold"].(type) {
	case float64:
		return v
	case int:
		return float64(v)
	}
	return 0
}

// Lessons says in a line each what the rules find in the session in dir; none when
// it cannot be read. It reads the whole log: whoever is in a hurry asks for that of
// a short one.
func Lessons(dir string) []string {
	s, err := read(nil, dir, Wants{Findings: true}, func() error { return nil })
	if err != nil {
		return nil
	}
	return s.Lessons()
}

// Lessons says in a line each what the rules found; none when the session was
// read without findings.
func (s *Session) Lessons() []string {
	lines := make([]string, len(s.Findings))
	for i, f := range s.Findings {
		lines[i] = f.Title + ": " + f.Evidence + " " + f.Suggestion
	}
	return lines
}
