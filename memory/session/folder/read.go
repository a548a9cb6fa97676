package folder

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// The files of a session that this package reads or writes.
const (
	metadataFile  = "session-metadata.yaml"
	logFile       = "execution-log.json"
	progressFile  = "progress-tracking.yaml"
	decisionsFile = "decision-history.json"
	errorsFile    = "errors-and-retries.json"
	metricsFile   = "quality-metrics.json"
	inventoryFile = "feature-inventory.json"
	documentsFile = "feature-docs-generated.json"
	reportFile    = "final-report.md"
	journalFile   = "journal.jsonl"
)

// maxFileBytes bounds every file but the log, which is read in a stream.
const maxFileBytes = 64 << 20

// Data is what the files of a session say, also where they contradict each
// other. What a file does not say is zero.
type Data struct {
	// Dir is the directory's name: session-001-fix-login.
	Dir       string
	Meta      Meta
	Progress  Progress
	Log       Log
	Decisions []Decision
	Failures  []Failure
	Trips     []Trip
	Metrics   []Metric
	Inventory Inventory
	// Report is the head of final-report.md as it stands.
	Report struct{ SessionID, Name, Date, Status string }
	// Files are the names of those of the session's files that are there.
	Files []string
	// Problems are files and entries that could not be read.
	Problems []Problem

	ids map[string]string // the session id that each file states
	// imported is the id that an imported session had at its source, which its files
	// state still.
	imported   string
	iterations map[int]string // the files of the iterations, by their number
	others     []string       // further files of Ralph's that are there
	lean       bool           // very many decisions and errors are packed
	packed     packing
}

// Meta is session-metadata.yaml, as far as it can be read.
type Meta struct {
	SessionID, Name, Status string
	Start, End              time.Time // zero when not stated
	Phase                   int
	PhaseName               string
	Completed, Total        int // tasks
	Discovered, Documented  []string
	TotalDuration           float64 // seconds
	AverageTask             float64 // seconds
	SuccessRate             float64
	Errors                  int
	HelpRequests            int
	Interventions           int
	ExitReason              string
	// Config are the settings that the session notes; zero when not stated.
	Config struct {
		MaxIterations       int
		ConfidenceThreshold float64
		HumanIntervention   string
		LearningRate        float64
	}
}

// Feature is one entry of feature-inventory.json.
type Feature struct {
	FeatureID    string   `json:"feature_id"`
	Name         string   `json:"name"`
	Category     string   `json:"category"`
	Directory    string   `json:"directory"`
	Purpose      string   `json:"purpose"`
	KeyFiles     []string `json:"key_files"`
	Dependencies []string `json:"dependencies"`
	Status       string   `json:"status"`
	Documented   bool     `json:"documented"`
	Challenges   bool     `json:"challenges_generated"`
	Assumptions  int      `json:"assumptions_count"`
}

// Inventory is feature-inventory.json: the list, and the statistics as the file
// states them, which may differ.
type Inventory struct {
	Features []Feature
	// Stated says that the file has statistics.
	Stated               bool
	Total                int
	ByCategory, ByStatus map[string]int
	Coverage             float64
}

// Problem is a file, or what part of it, that could not be read.
type Problem struct {
	File string
	Err  error
}

// Read reads the files of the session in dir. It accepts what other tools and
// people leave there: missing files, other spellings, keys that Ralph does not
// know, entries that are none. What cannot be read is in Problems; the error is
// that the directory itself cannot be read. It writes nothing.
func Read(fsys afero.Fs, dir string) (Data, error) { return read(fsys, dir, 0, nil) }

// ReadEach is Read that also calls each for the events of the log, as Events
// does, in the one pass that it makes over it; id is what the event is called:
// e17 is the 17th. An error of each ends it and is returned. Of very many decisions
// and errors the lists hold the first: EachDecision and EachFailure show all.
func ReadEach(fsys afero.Fs, dir string, each func(id string, e Event) error) (Data, error) {
	return read(fsys, dir, 0, each)
}

// read leaves out a log beyond maxLog bytes; 0 means no bound.
func read(fsys afero.Fs, dir string, maxLog int64, each func(id string, e Event) error) (Data, error) {
	d := Data{Dir: filepath.Base(dir), ids: map[string]string{}, lean: each != nil}
	if fsys == nil {
		fsys = durable.Disk()
	}
	f, err := fsys.Open(dir)
	if err != nil {
		return d, fmt.Errorf("read session %q: %w", dir, err)
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return d, fmt.Errorf("read session %q: %w", dir, err)
	}
	for _, file := range []struct {
		name string
		take func(any) int // returns how many entries are none
	}{
		{metadataFile, d.takeMeta}, {progressFile, d.takeProgress}, {decisionsFile, d.takeDecisions}, {errorsFile, d.takeErrors},
		{metricsFile, d.takeMetrics}, {inventoryFile, d.takeInventory},
	} {
		if !slices.Contains(names, file.name) {
			continue
		}
		d.Files = append(d.Files, file.name)
		odd, ok, err := d.inPieces(fsys, dir, file.name)
		if !ok {
			odd, err = takeWhole(fsys, filepath.Join(dir, file.name), file.take)
		}
		switch {
		case err != nil:
			d.problem(file.name, err)
		case odd > 0:
			d.problem(file.name, fmt.Errorf("%d entries are none", odd))
		}
	}
	d.packed.number = nil // all is packed
	if err := d.readLog(fsys, dir, names, maxLog, each); err != nil {
		return d, err
	}
	d.readReport(fsys, dir, names)
	d.readIterations(fsys, dir, names)
	return d, nil
}

// takeWhole reads one file and says how many of its entries are none.
func takeWhole(fsys afero.Fs, path string, take func(any) int) (odd int, err error) {
	data, err := durable.ReadFile(fsys, path, maxFileBytes)
	if err != nil {
		return 0, err
	}
	v, err := parse(filepath.Base(path), data)
	if err != nil {
		return 0, err
	}
	return take(v), nil
}

func (d *Data) problem(file string, err error) {
	d.Problems = append(d.Problems, Problem{file, err})
}

// says notes the session id that a file states.
func (d *Data) says(file string, o object) string {
	id := o.text("session_id", "sessionId", "session")
	if id != "" {
		d.ids[file] = id
	}
	return id
}

// ReadMeta reads the metadata of the session in dir alone, as Read does. The
// error is that it cannot be read at all.
func ReadMeta(fsys afero.Fs, dir string) (Meta, error) {
	d := Data{ids: map[string]string{}}
	path := filepath.Join(dir, metadataFile)
	data, err := durable.ReadFile(fsys, path, maxFileBytes)
	var v any
	if err == nil {
		if v, err = parse(metadataFile, data); err == nil && d.takeMeta(v) > 0 {
			err = errors.New("it is no mapping")
		}
		if err != nil {
			err = fmt.Errorf("read %q: %w", path, err)
		}
	}
	return d.Meta, err
}

func (d *Data) takeMeta(v any) int {
	o, ok := v.(object)
	if !ok {
		return 1
	}
	context, perf, config := o.object("context_variables"), o.object("performance_metrics"), o.object("ralph_runtime_config", "runtime_config", "config")
	d.imported = o.text("imported_session_id")
	d.Meta = Meta{
		SessionID: d.says(metadataFile, o), Name: o.text("session_name", "name"), Status: o.text("status"),
		Start: o.when("start_time", "started_at"), End: o.when("end_time", "ended_at"),
		Phase: o.count("phase", "current_phase"), PhaseName: o.text("phase_name", "phase"),
		Completed: o.count("tasks_completed"), Total: o.count("tasks_total"),
		Discovered: context.texts("features_discovered"), Documented: context.texts("features_documented"),
		TotalDuration: perf.float("total_duration_seconds"), AverageTask: perf.float("average_task_duration"),
		SuccessRate: perf.float("success_rate"), Errors: perf.count("error_count"), HelpRequests: perf.count("help_requests"),
		Interventions: perf.count("human_interventions"), ExitReason: o.text("exit_reason"),
	}
	c := &d.Meta.Config
	c.MaxIterations, c.ConfidenceThreshold = config.count("max_iterations"), config.float("confidence_threshold")
	c.HumanIntervention, c.LearningRate = config.text("human_intervention"), config.float("learning_rate")
	return 0
}

func (d *Data) takeProgress(v any) (odd int) {
	o, ok := v.(object)
	if !ok {
		return 1
	}
	d.says(progressFile, o)
	d.Progress, odd = progressOf(o)
	return odd
}

func progressOf(o object) (p Progress, odd int) {
	at := o.object("progress")
	p.SessionID, p.LastUpdated = o.text("session_id"), o.when("last_updated", "updated_at")
	p.Progress.CurrentTaskID, p.Progress.CurrentPhase, p.Progress.PhaseName = at.text("current_task_id"), at.count("current_phase"), at.text("phase_name")
	if name := at.text("current_phase"); p.Progress.PhaseName == "" && p.Progress.CurrentPhase == 0 {
		p.Progress.PhaseName = name // as former versions had it
	}
	p.Progress.OverallProgress, p.Progress.PhaseProgress = at.float("overall_progress"), at.float("phase_progress")
	tasks, a := o.objects("tasks")
	for _, t := range tasks {
		p.Tasks = append(p.Tasks, taskOf(t))
	}
	milestones, b := o.objects("milestones")
	for _, m := range milestones {
		p.Milestones = append(p.Milestones, milestoneOf(m))
	}
	gates, c := o.objects("quality_gates")
	for _, g := range gates {
		p.QualityGates = append(p.QualityGates, gateOf(g))
	}
	return p, a + b + c
}

func milestoneOf(m object) Milestone {
	return Milestone{Name: m.text("name"), Target: m.text("target"), Achieved: m.flag("achieved"), AchievedAt: m.moment("achieved_at")}
}

func gateOf(g object) Gate {
	return Gate{Name: g.text("name"), Metric: g.text("metric"), Threshold: g.float("threshold"), Operator: g.text("operator"), Passed: g.known("passed")}
}

func taskOf(t object) TaskState {
	s := TaskState{TaskID: t.text("task_id", "id"), Status: TaskStatus(t.text("status")), StartedAt: t.moment("started_at", "start_time"),
		CompletedAt: t.moment("completed_at", "end_time"), DurationSeconds: t.optional("duration_seconds"), Details: t.text("details"), Artifacts: t.texts("artifacts")}
	switch said := t.text("result"); TaskResult(said) {
	case ResultSuccess, ResultFailure:
		s.Result = TaskResult(said)
	default: // former versions and other tools have free text there
		s.Result, s.Details = s.Status.result(), cmp.Or(s.Details, said)
	}
	return s
}

// entries returns the list under a key, or the list that the file is.
func (d *Data) entries(file string, v any, keys ...string) ([]object, int) {
	switch v := v.(type) {
	case object:
		d.says(file, v)
		return v.objects(keys...)
	case []any:
		return mappings(v)
	}
	return nil, 1
}

func (d *Data) takeDecisions(v any) int {
	list, odd := d.entries(decisionsFile, v, "decisions")
	for _, o := range list {
		d.takeDecision(o)
	}
	return odd
}

func (d *Data) takeDecision(o object) {
	var x Decision
	x.Time, x.TaskID, x.DecisionType, x.Outcome = o.when("timestamp", "time"), o.text("task_id"), o.text("decision_type", "type"), o.text("outcome")
	context, risk := o.object("context"), o.object("context").object("risk_assessment")
	x.Context.CurrentTask, x.Context.AvailableActions = context.text("current_task"), context.texts("available_actions")
	x.Context.Risk.Execution, x.Context.Risk.Resource, x.Context.Risk.Dependency = risk.float("execution"), risk.float("resource"), risk.float("dependency")
	made := o.object("decision")
	if made == nil {
		made = object{"action": o["decision"], "rationale": o["rationale"], "confidence": o["confidence"]}
	}
	x.Decision.Action, x.Decision.Confidence, x.Decision.Rationale = made.text("action"), made.float("confidence"), made.text("rationale", "reasoning")
	x.Decision.Alternatives = []alternative{}
	others, _ := made.objects("alternative_actions", "alternatives")
	for _, a := range others {
		x.Decision.Alternatives = append(x.Decision.Alternatives, alternative{a.text("action"), a.float("score")})
	}
	d.Decisions = append(d.Decisions, x)
}

func (d *Data) takeErrors(v any) int {
	list, odd := d.entries(errorsFile, v, "errors")
	for _, o := range list {
		d.takeError(o)
	}
	top, _ := v.(object)
	trips, more := top.objects("circuit_breaker_trips")
	for _, o := range trips {
		d.takeTrip(o)
	}
	return odd + more
}

func (d *Data) takeError(o object) {
	d.Failures = append(d.Failures, Failure{Time: o.when("timestamp", "time"), TaskID: o.text("task_id"), ErrorType: o.text("error_type", "type"),
		ErrorMessage: o.text("error_message", "message", "error"), Severity: Severity(o.text("severity")), RetryCount: o.count("retry_count", "retries"),
		RecoveryAction: o.text("recovery_action"), Resolved: o.flag("resolved"), ResolutionTimeSeconds: o.optional("resolution_time_seconds")})
}

func (d *Data) takeTrip(o object) {
	d.Trips = append(d.Trips, Trip{Time: o.when("timestamp", "time"), Condition: o.text("condition"), ActionTaken: o.text("action_taken", "action"),
		DurationSeconds: o.float("duration_seconds"), Resolved: o.flag("resolved")})
}

func (d *Data) takeMetrics(v any) int {
	list, odd := d.entries(metricsFile, v, "metrics")
	for _, o := range list {
		d.Metrics = append(d.Metrics, Metric{Name: o.text("name", "metric"), Value: o.float("value"), Unit: o.text("unit"), Target: o.optional("target"),
			Source: o.text("source"), MeasuredAt: o.when("measured_at", "timestamp")})
	}
	return odd
}

func (d *Data) takeInventory(v any) int {
	list, odd := d.entries(inventoryFile, v, "features")
	for _, o := range list {
		d.Inventory.Features = append(d.Inventory.Features, Feature{FeatureID: o.text("feature_id", "id"), Name: o.text("name"), Category: o.text("category"),
			Directory: o.text("directory", "path"), Purpose: o.text("purpose", "description"), KeyFiles: o.texts("key_files"), Dependencies: o.texts("dependencies"),
			Status: o.text("status"), Documented: o.flag("documented") || o.find("documented") == nil && o.text("status") == "documented",
			Challenges: o.flag("challenges_generated") || o.count("challenges_generated") > 0, Assumptions: o.count("assumptions_count")})
	}
	top, _ := v.(object)
	if s := top.object("statistics"); s != nil {
		d.Inventory.Stated, d.Inventory.Total = true, s.count("total_features", "total")
		d.Inventory.ByCategory, d.Inventory.ByStatus = s.counts("by_category"), s.counts("by_status")
		d.Inventory.Coverage = s.float("documentation_coverage")
	}
	return odd
}
