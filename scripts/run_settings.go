package scripts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/loop"
	"ralph/coordinator/ownership"
	"ralph/memory/feature"
	"ralph/memory/text"
)

// runSettings are the settings of a new run. What the user did not set is left to
// the plan, which may say it, or to the default.
func (inv *invocation) runSettings() loop.Settings {
	c, r := inv.cfg, inv.cfg.Run
	s := loop.Settings{
		Feature: r.Feature, Plan: inv.planFlag(r.Plan), Tracker: r.Tracker, Epics: slices.Clone(r.Epic), Select: r.Select,
		Parallel: r.Parallel, MaxIterations: r.MaxIterations,
		Agent: r.Agent, Fallback: r.FallbackAgent, OnError: r.OnError, Prompt: inv.promptFlag(), Check: c.Check, RequireCheck: r.RequireCheck,
		Model: c.Model, Sandbox: c.Sandbox, DryRun: c.DryRun,
		MaxTokens: c.MaxTokens, MaxCostUSD: c.MaxCostUSD, MaxTurns: inv.explicitTurns(), Timeout: c.Timeout, SessionDir: inv.sessionDirFlag(),
		Retry: slices.Clone(r.Retry), RetryFailed: r.RetryFailed,
	}
	for key, take := range map[string]func(){
		"confidence_threshold": func() { s.ConfidenceThreshold = r.ConfidenceThreshold },
		"learning_rate":        func() { s.LearningRate = r.LearningRate },
		"risk_tolerance":       func() { s.RiskTolerance = r.RiskTolerance },
		"human_intervention":   func() { s.HumanIntervention = r.HumanIntervention },
	} {
		if inv.cfg.Origin(key).Source != "default" {
			take()
		}
	}
	if s.Agent != "" && s.Agent != "ralph" && s.Agent != "builtin" && !strings.HasPrefix(inv.cfg.Origin("model").Source, "flag") {
		s.Model = "" // that of Ralph's own endpoint is not for another program
	}
	return s
}

// overRun puts what the command line and the environment say over the settings of
// a run that goes on; files are what they were when it began, or have changed for
// what begins anew.
func (inv *invocation) overRun(s loop.Settings) loop.Settings {
	now, agent := inv.runSettings(), s.Agent
	for key, take := range map[string]func(){
		"plan": func() { s.Plan = now.Plan }, "tracker": func() { s.Tracker = now.Tracker }, "epic": func() { s.Epics = now.Epics }, "select": func() { s.Select = now.Select },
		"parallel": func() { s.Parallel = now.Parallel }, "max_iterations": func() { s.MaxIterations = now.MaxIterations },
		"confidence_threshold": func() { s.ConfidenceThreshold = now.ConfidenceThreshold }, "learning_rate": func() { s.LearningRate = now.LearningRate },
		"risk_tolerance": func() { s.RiskTolerance = now.RiskTolerance }, "human_intervention": func() { s.HumanIntervention = now.HumanIntervention },
		"agent": func() { s.Agent = now.Agent }, "fallback_agent": func() { s.Fallback = now.Fallback }, "on_error": func() { s.OnError = now.OnError },
		"prompt": func() { s.Prompt = now.Prompt }, "check": func() { s.Check = now.Check }, "require_check": func() { s.RequireCheck = now.RequireCheck },
		"model": func() { s.Model = now.Model }, "sandbox": func() { s.Sandbox = now.Sandbox },
		"max_tokens": func() { s.MaxTokens = now.MaxTokens }, "max_cost": func() { s.MaxCostUSD = now.MaxCostUSD },
		"max_turns": func() { s.MaxTurns = now.MaxTurns }, "timeout": func() { s.Timeout = now.Timeout },
	} {
		if inv.explicit(key) {
			take()
		}
	}
	s.Retry, s.RetryFailed = now.Retry, now.RetryFailed
	if s.Agent != agent {
		s.Model = now.Model // what the run had was another's
	}
	// What the coordinator takes from the configuration where the run has none must
	// not bring back what the run was begun without.
	r := &inv.cfg.Run
	r.Parallel, r.MaxIterations, r.Agent, r.FallbackAgent, r.OnError, r.Select, r.Prompt = s.Parallel, s.MaxIterations, s.Agent, s.Fallback, s.OnError, s.Select, s.Prompt
	r.Epic, r.Plan, r.Tracker, r.RequireCheck = s.Epics, s.Plan, s.Tracker, s.RequireCheck
	inv.cfg.Check, inv.cfg.MaxTokens, inv.cfg.MaxCostUSD, inv.cfg.Timeout = s.Check, s.MaxTokens, s.MaxCostUSD, s.Timeout
	if s.Model != "" {
		inv.cfg.Model = s.Model
	}
	if s.Sandbox != "" {
		inv.cfg.Sandbox = s.Sandbox
	}
	return s
}

// explicit says that a key was set by a flag or a variable, for this very run.
func (inv *invocation) explicit(key string) bool {
	source, _, _ := strings.Cut(inv.cfg.Origin(key).Source, " ")
	return source == "flag" || source == "env"
}

// explicitTurns returns the bound of a whole run, where the user has set one. The
// default bounds each attempt.
func (inv *invocation) explicitTurns() int {
	if inv.cfg.Origin("max_turns").Source == "default" {
		return 0
	}
	return inv.cfg.MaxTurns
}

// planFlag is the plan's file, absolute or relative to the root. Where the user
// stands counts for a flag; a file of configuration means the project.
func (inv *invocation) planFlag(path string) string {
	if path == "" || !inv.explicit("plan") {
		return path
	}
	return inv.fromRoot(path)
}

func (inv *invocation) promptFlag() string {
	path := inv.cfg.Run.Prompt
	if path == "" || !inv.explicit("prompt") {
		return path
	}
	return inv.fromHere(path)
}

func (inv *invocation) sessionDirFlag() string {
	if dir := inv.cfg.Run.SessionDir; dir != "" {
		return inv.fromHere(dir)
	}
	return ""
}

// fromRoot is a path of the command line, relative to the root where it is below
// it.
func (inv *invocation) fromRoot(path string) string {
	full := inv.fromHere(path)
	if real, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(real, filepath.Base(full))
	}
	if rel, err := filepath.Rel(inv.root, full); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return full
}

// samePlan says that a path of the command line is the plan of a snapshot.
func (inv *invocation) samePlan(path, known string) bool {
	return inv.fromRoot(path) == filepath.ToSlash(known) || inv.fromHere(path) == filepath.Join(inv.root, filepath.FromSlash(known))
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// runLines say for a person how an earlier run was left.
func runLines(s feature.Snapshot, now time.Time) []string {
	head := fmt.Sprintf("the run %q was %s %s ago (session %s): %s, %d of %d tasks done", s.Feature, howEnded(s), ago(s.UpdatedAt, now), s.SessionID,
		iterationsText(s.Iteration, s.MaxIterations), s.Tasks.Completed, s.Tasks.Total)
	lines := []string{head}
	if s.ExitReason != "" && s.ExitReason != "it was stopped" { // the head says so
		lines = append(lines, "why: "+oneLine(s.ExitReason, 200))
	}
	if begun := begunOf(s); len(begun) > 0 {
		lines = append(lines, begunText(begun))
	}
	return lines
}

// begunOf are the tasks of a run that were begun and are not finished: those at
// work when it was cut off, and those whose last iteration was stopped in order.
func begunOf(s feature.Snapshot) []string {
	begun := slices.Clone(orEmpty(s.ActiveTaskIDs))
	seen := map[string]bool{}
	for _, it := range slices.Backward(s.Iterations) {
		if !seen[it.TaskID] && it.Status == string(feature.Interrupted) && !slices.Contains(begun, it.TaskID) {
			begun = append(begun, it.TaskID)
		}
		seen[it.TaskID] = true
	}
	return begun
}

func begunText(ids []string) string {
	return "begun and not finished: " + oneLine(strings.Join(ids[:min(len(ids), 20)], ", "), 200)
}

// howEnded is how a run that can go on was left, in a word.
func howEnded(s feature.Snapshot) string {
	if s.Status == feature.Paused {
		return "paused"
	}
	return "interrupted"
}

func iterationsText(n, most int) string {
	if most > 0 {
		return fmt.Sprintf("%d of %d iterations", n, most)
	}
	return text.Count(n, "iteration")
}

// orderText is the order of a run that is only shown, and why.
func orderText(steps []loop.Step, columns int) string {
	if len(steps) == 0 {
		return "nothing is left to be worked"
	}
	var b strings.Builder
	layer, left := 0, 0
	for _, s := range steps {
		if s.Left != "" {
			left++
			continue
		}
		if s.Layer != layer {
			layer = s.Layer
			fmt.Fprintf(&b, "%d.\n", layer)
		}
		head := fmt.Sprintf("   %s  %s", oneLine(s.ID, 40), oneLine(s.Title, 200))
		if s.Phase != "" {
			head += "  [" + oneLine(s.Phase, 40) + "]"
		}
		b.WriteString(cutTo(head, columns) + "\n")
		why := slices.Clone(s.Reasons)
		told := strings.Join(why, " ")
		if len(s.After) > 0 && !strings.Contains(told, "waits for") {
			why = append(why, "after "+strings.Join(s.After, ", "))
		}
		if len(s.Unblocks) > 0 && !strings.Contains(told, "unblocks") {
			why = append(why, "unblocks "+strings.Join(s.Unblocks, ", "))
		}
		if len(why) > 0 {
			wrapped(&b, oneLine(strings.Join(why, "; "), 400), 6, columns)
		}
	}
	if left > 0 {
		b.WriteString("not worked:\n")
	}
	for _, s := range steps {
		if s.Left != "" {
			wrapped(&b, fmt.Sprintf("%s  %s: %s", oneLine(s.ID, 40), oneLine(s.Title, 100), oneLine(s.Left, 300)), 3, columns)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// restored are the settings of a run that goes on: those that the user gave it,
// where they are on record on the user's side, else what its snapshot can give
// back, and the defaults of today.
func (inv *invocation) restored(before feature.Snapshot) (loop.Settings, error) {
	granted, err := ownership.Project{Root: inv.root, Getenv: inv.Getenv}.Granted(before)
	if err != nil {
		inv.warning(err.Error())
	}
	if granted != nil {
		return granted.Settings, nil
	}
	s, err := loop.Restored(before)
	if err != nil {
		return s, err
	}
	now := inv.runSettings()
	s.Sandbox, s.Check, s.HumanIntervention, s.OnError, s.SessionDir = now.Sandbox, now.Check, now.HumanIntervention, now.OnError, now.SessionDir
	s.ConfidenceThreshold, s.RiskTolerance, s.MaxIterations = now.ConfidenceThreshold, now.RiskTolerance, now.MaxIterations
	s.MaxTokens, s.MaxCostUSD, s.MaxTurns, s.Timeout = now.MaxTokens, now.MaxCostUSD, now.MaxTurns, now.Timeout
	text := "what was granted to this run is not on record on your side: sandbox, check, limits and approvals are those of today"
	if was := before.Agent.Sandbox; was != "" && was != s.Sandbox {
		text += fmt.Sprintf(" (sandbox %s; its file in .ralph says %s)", s.Sandbox, oneLine(was, 20))
	}
	inv.warning(text)
	return s, nil
}
