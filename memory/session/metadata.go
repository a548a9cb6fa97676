package session

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/session/folder"
	"ralph/memory/session/keep"
)

// Status is how a session stands.
type Status string

// The status words of sessions.
const (
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Failed     Status = "error"
	Paused     Status = "paused"
)

// Metadata is session-metadata.yaml. Times are UTC.
type Metadata struct {
	SessionID      string             `yaml:"session_id"`
	SessionName    string             `yaml:"session_name"`
	StartTime      time.Time          `yaml:"start_time"`
	EndTime        *time.Time         `yaml:"end_time"` // nil until complete
	Status         Status             `yaml:"status"`
	Phase          int                `yaml:"phase"`
	PhaseName      string             `yaml:"phase_name"`
	TasksCompleted int                `yaml:"tasks_completed"`
	TasksTotal     int                `yaml:"tasks_total"`
	Config         RuntimeConfig      `yaml:"ralph_runtime_config"`
	Context        ContextVariables   `yaml:"context_variables"`
	Performance    PerformanceMetrics `yaml:"performance_metrics"`
	ExitReason     string             `yaml:"exit_reason,omitempty"`
}

// RuntimeConfig is the part of the settings that a session notes.
type RuntimeConfig struct {
	MaxIterations       int     `yaml:"max_iterations"`
	ConfidenceThreshold float64 `yaml:"confidence_threshold"`
	HumanIntervention   string  `yaml:"human_intervention"`
	LearningRate        float64 `yaml:"learning_rate"`
}

// ContextVariables count what a session found out.
type ContextVariables struct {
	FeaturesDiscovered    []string `yaml:"features_discovered"`
	FeaturesDocumented    []string `yaml:"features_documented"`
	AssumptionsIdentified int      `yaml:"assumptions_identified"`
	ChallengesGenerated   texts    `yaml:"challenges_generated"`
	ValidationsPlanned    []string `yaml:"validations_planned"`
	ValidationsExecuted   []string `yaml:"validations_executed"`
}

// texts is a list of texts. Where other tools, and Ralph before, wrote how many
// there are, it is empty.
type texts []string

// UnmarshalYAML reads a list, and takes everything else for an empty one.
func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	var list []string
	if n.Kind != yaml.SequenceNode || n.Decode(&list) != nil {
		list = []string{}
	}
	*t = list
	return nil
}

// PerformanceMetrics sum up a session.
type PerformanceMetrics struct {
	TotalDurationSeconds float64 `yaml:"total_duration_seconds"`
	AverageTaskDuration  float64 `yaml:"average_task_duration"`
	SuccessRate          float64 `yaml:"success_rate"`
	ErrorCount           int     `yaml:"error_count"`
	HelpRequests         int     `yaml:"help_requests"`
	HumanInterventions   int     `yaml:"human_interventions"`
}

func newMetadata(id, name string, now time.Time, c RuntimeConfig) Metadata {
	if c == (RuntimeConfig{}) {
		c = RuntimeConfig{MaxIterations: 300, ConfidenceThreshold: 0.7, HumanIntervention: "ask_first", LearningRate: 0.1}
	}
	return Metadata{
		SessionID: folder.SessionID(id), SessionName: name, StartTime: now.UTC().Truncate(time.Second), Status: InProgress, Config: c,
		Context: ContextVariables{FeaturesDiscovered: []string{}, FeaturesDocumented: []string{}, ChallengesGenerated: texts{}, ValidationsPlanned: []string{}, ValidationsExecuted: []string{}},
	}
}

// Meta returns the metadata as last written.
func (s *Session) Meta() Metadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.meta
	if s.ended != nil && !s.closed {
		m.Status, m.ExitReason = s.ended.status, s.ended.reason
	}
	return m
}

// Update changes the metadata and writes it durably: at a change of phase or
// of a count. A session that was paused or ended is in progress again. After
// an error the file is as it was.
func (s *Session) Update(change func(*Metadata)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.ended
	s.ended = nil
	err := s.write(change)
	if err != nil {
		s.ended = was
	}
	return err
}

// note is an Update of what is counted, which may come late: how the session ends,
// once that was said, stays so.
func (s *Session) note(change func(*Metadata)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.write(change) // Close reports what cannot be written
}

// write changes the metadata and writes it as that of a session at work; mu is held.
func (s *Session) write(change func(*Metadata)) error {
	if s.closed {
		return fmt.Errorf("update session %s: %w", s.meta.SessionID, ErrClosed)
	}
	old, before := s.meta, s.counted
	s.meta.Status, s.meta.EndTime, s.meta.ExitReason = InProgress, nil, ""
	change(&s.meta)
	s.inStep()
	if err := s.writeMeta(); err != nil {
		s.meta, s.counted = old, before
		return err
	}
	return nil
}

// Count writes what the folder counted since. A write that fails is made up for
// by the next Update or by Close, which reports it.
func (s *Session) Count() { s.note(func(*Metadata) {}) }

// counted is how much of what a folder counts since it was opened is in the
// metadata.
type counted struct{ Failures, HelpRequests, Interventions int }

// inStep brings the metadata in step with the clock and with what the folder
// counted; mu is held. What others counted in the metadata stays.
func (s *Session) inStep() {
	end := s.o.Now()
	if s.meta.EndTime != nil {
		end = *s.meta.EndTime
	}
	p := &s.meta.Performance
	p.TotalDurationSeconds = max(0, end.Sub(s.meta.StartTime).Round(time.Second).Seconds())
	c := s.folder.Counts()
	p.ErrorCount += c.Failures - s.counted.Failures
	p.HelpRequests += c.HelpRequests - s.counted.HelpRequests
	p.HumanInterventions += c.Interventions - s.counted.Interventions
	s.counted = counted{c.Failures, c.HelpRequests, c.Interventions}
	if c.PhaseName != "" {
		s.meta.Phase, s.meta.PhaseName = c.Phase, c.PhaseName
	}
	if c.Tasks > 0 {
		s.meta.TasksCompleted, s.meta.TasksTotal = c.Completed, c.Tasks
		p.SuccessRate, p.AverageTaskDuration = c.SuccessRate, math.Round(c.AverageDuration.Seconds()*1000)/1000
	}
}

const maxMetadataBytes = 4 << 20

// readMeta reads the metadata in the directory dir. What other tools wrote is
// taken as far as it can be understood.
func readMeta(fsys afero.Fs, dir string) (Metadata, error) {
	var m Metadata
	path := filepath.Join(dir, MetadataFile)
	data, err := durable.ReadFile(fsys, path, maxMetadataBytes)
	if err != nil {
		return m, err
	}
	if yaml.Load(data, &m) == nil && m.SessionID != "" {
		m.SessionID = folder.SessionID(m.SessionID) // former versions had the number
		return m, nil
	}
	wild, err := folder.ReadMeta(fsys, dir)
	if err != nil {
		return Metadata{}, err
	}
	if wild.SessionID == "" && wild.Name == "" && wild.Status == "" && wild.Start.IsZero() {
		return Metadata{}, fmt.Errorf("read %q: it says nothing of a session", path)
	}
	context := m.Context // as far as it is of our form
	m = newMetadata(wild.SessionID, wild.Name, wild.Start, m.Config)
	m.Context.AssumptionsIdentified, m.Context.ChallengesGenerated = context.AssumptionsIdentified, context.ChallengesGenerated
	m.Context.ValidationsPlanned = append(m.Context.ValidationsPlanned, context.ValidationsPlanned...)
	m.Context.ValidationsExecuted = append(m.Context.ValidationsExecuted, context.ValidationsExecuted...)
	m.Status, m.Phase, m.PhaseName, m.ExitReason = Status(wild.Status), wild.Phase, wild.PhaseName, wild.ExitReason
	m.TasksCompleted, m.TasksTotal = wild.Completed, wild.Total
	m.Context.FeaturesDiscovered, m.Context.FeaturesDocumented = wild.Discovered, wild.Documented
	m.Performance = PerformanceMetrics{TotalDurationSeconds: wild.TotalDuration, AverageTaskDuration: wild.AverageTask, SuccessRate: wild.SuccessRate,
		ErrorCount: wild.Errors, HelpRequests: wild.HelpRequests, HumanInterventions: wild.Interventions}
	if !wild.End.IsZero() {
		m.EndTime = &wild.End
	}
	return m, nil
}

// writeMeta writes the metadata; keys in the file that Ralph does not know
// stay. A file that cannot be read as YAML is kept in the quarantine.
func (s *Session) writeMeta() error {
	path := filepath.Join(s.dir, MetadataFile)
	fresh, err := keep.Encode(s.meta)
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	old, err := durable.ReadFile(s.o.FS, path, maxMetadataBytes)
	switch {
	case err == nil:
		var doc yaml.Node
		if yaml.Load(old, &doc) == nil && len(doc.Content) == 1 {
			keep.Merge(fresh, doc.Content[0], "exit_reason")
		} else if s.folder != nil {
			if err := s.folder.SetAside(MetadataFile); err != nil {
				return err
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	data, err := yaml.Dump(fresh)
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	err = durable.Replace(s.o.FS, path, data, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		// The directory was removed meanwhile.
		if err = durable.MkdirAll(s.o.FS, s.dir, 0o700); err == nil {
			err = durable.Replace(s.o.FS, path, data, 0o600)
		}
	}
	return err
}
