package loop

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"ralph/memory/feature"
	"ralph/memory/text"
)

// Granted is what a human allowed a run: its settings, as they were given, and
// the answers that let it go further. It is kept outside of the project, by
// Options.Grant, and comes back with Options.Granted; a snapshot cannot hold it.
type Granted struct {
	Settings Settings `json:"settings"`
	// Approved reports that the plan may be worked.
	Approved bool `json:"approved"`
	// Tasks may be worked in spite of low confidence, sorted.
	Tasks []string `json:"tasks,omitempty"`
	// Gates were accepted although they failed, sorted.
	Gates []string `json:"gates,omitempty"`
	// Checks are the commands that the plan had while Settings.Sandbox was off,
	// sorted: what the user agreed to run without a sandbox.
	Checks []string `json:"checks,omitempty"`
}

// ErrNewChecks reports that the plan has checks which it did not have when the user
// switched the sandbox off for its run.
var ErrNewChecks = errors.New("the plan has checks that it did not have when the sandbox was switched off for this run")

// agreed returns ErrNewChecks, with the new commands, when a run goes on without a
// sandbox because it was begun so, and its plan names checks that the user has not
// seen run. Options.Settings.SandboxKept says which case it is.
func (e *engine) agreed() error {
	if !e.o.Settings.SandboxKept || !e.s.Settings.unconfined() {
		return nil
	}
	var known []string
	if e.o.Granted != nil {
		known = e.o.Granted.Checks
	}
	var list []string
	for _, c := range e.planned() {
		if !slices.Contains(known, c) {
			list = append(list, strconv.Quote(text.Clip(c, 200)))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNewChecks, text.List(list, maxNamed))
}

// kept are the settings that a snapshot can give back: what a run works on, and
// how it is divided. Nothing in it lets a run do more than a new one would.
type kept struct {
	Feature      string   `json:"feature,omitempty"`
	Plan         string   `json:"plan,omitempty"`
	Tracker      string   `json:"tracker,omitempty"`
	Epics        []string `json:"epics,omitempty"`
	Select       string   `json:"select,omitempty"`
	Parallel     int      `json:"parallel,omitempty"`
	Agent        string   `json:"agent,omitempty"`
	Fallback     string   `json:"fallback,omitempty"`
	Model        string   `json:"model,omitempty"`
	Prompt       string   `json:"prompt,omitempty"`
	LearningRate float64  `json:"learning_rate,omitempty"`
	RequireCheck bool     `json:"require_check,omitempty"`
}

func keptOf(s Settings) kept {
	return kept{s.Feature, s.Plan, s.Tracker, s.Epics, s.Select, s.Parallel, s.Agent, s.Fallback, s.Model, s.Prompt, s.LearningRate, s.RequireCheck}
}

// settings returns the settings that k gives back. A file outside of the project
// is not taken from it.
func (k kept) settings() Settings {
	return Settings{Feature: k.Feature, Plan: inProject(k.Plan), Tracker: k.Tracker, Epics: k.Epics, Select: k.Select, Parallel: k.Parallel, Agent: k.Agent,
		Fallback: k.Fallback, Model: k.Model, Prompt: inProject(k.Prompt), LearningRate: k.LearningRate, RequireCheck: k.RequireCheck}
}

// inProject returns a path that is relative to the root and stays below it; any
// other is dropped.
func inProject(path string) string {
	if path != "" && filepath.IsLocal(filepath.FromSlash(path)) {
		return path
	}
	return ""
}

// keptBy are the settings that the fields of a snapshot give back, when another
// tool made it.
func keptBy(s *feature.Snapshot) kept {
	return kept{Feature: s.Feature, Plan: s.Tracker.PlanPath, Tracker: s.Tracker.Plugin, Epics: s.Tracker.EpicIDs,
		Agent: s.Agent.Plugin, Model: s.Agent.Model, Fallback: s.Agent.Fallback, Prompt: s.Agent.Prompt, Parallel: s.Agent.Parallel}
}

// granted is what the human has granted the run so far.
func (e *engine) granted() Granted {
	g := Granted{Settings: e.s.Settings, Approved: e.s.Approved}
	for _, id := range slices.Sorted(maps.Keys(e.s.Tasks)) {
		if e.s.Tasks[id].Permitted {
			g.Tasks = append(g.Tasks, id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.s.Gates)) {
		if e.s.Gates[name] == gateAccepted {
			g.Gates = append(g.Gates, name)
		}
	}
	if e.s.Settings.unconfined() {
		g.Checks = e.planned()
		if e.kept != nil {
			g.Checks = append(g.Checks, e.kept.Checks...)
		}
		slices.Sort(g.Checks)
		g.Checks = slices.Compact(g.Checks)
	}
	return g
}

// regrant gives a run back what was granted to it; nil gives nothing.
func (s *state) regrant(g *Granted) {
	if g == nil {
		return
	}
	s.Approved = g.Approved
	for _, id := range g.Tasks {
		s.task(id).Permitted = true
	}
	for _, name := range g.Gates {
		s.Gates[name] = gateAccepted
	}
}

// keepGranted has what was granted kept, when it has changed.
func (e *engine) keepGranted() {
	g := e.granted()
	if e.o.Grant == nil || e.kept != nil && reflect.DeepEqual(*e.kept, g) {
		return
	}
	if err := e.o.Grant(g); err != nil {
		if !e.grantLost {
			e.grantLost = true
			e.o.Warn("what you allowed this run is not kept, and counts no more when it is resumed: " + err.Error())
		}
		return
	}
	e.kept = &g
}
