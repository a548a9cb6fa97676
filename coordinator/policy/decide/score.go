package decide

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ralph/memory/text"
)

// Confidence is .3 clarity + .2 resources + .2 dependencies + .15 permission +
// .15 history (loop.md, "Decisions"). Facts out of their bounds are brought into
// them.
func Confidence(f Facts) Sum {
	clarity, whyClear := f.clarity()
	resources, whyResources := f.resources()
	dependencies, whyDependencies := f.dependencies()
	permission, whyPermission := f.permission()
	history, whyHistory := f.history()
	s := Sum{Terms: []Term{
		{"clarity", .3, clarity, whyClear},
		{"resources", .2, resources, whyResources},
		{"dependencies", .2, dependencies, whyDependencies},
		{"permission", .15, permission, whyPermission},
		{"history", .15, history, whyHistory},
	}}
	for _, t := range s.Terms {
		s.Value += t.Weight * t.Value
	}
	s.Value = tidy(s.Value)
	return s
}

// tidy takes the dust of binary fractions away, so that what adds up to .7 is not
// below a threshold of .7.
func tidy(x float64) float64 { return clamp(math.Round(x*1e9) / 1e9) }

// clarity is the share of {description, acceptance criteria, runnable check,
// bounded files} that the task has.
func (f Facts) clarity() (float64, string) {
	var has, lacks []string
	for _, c := range []struct {
		ok   bool
		name string
	}{{f.Description, "a description"}, {f.Criteria, "acceptance criteria"}, {f.Check, "a runnable check"}, {f.Bounded, "bounded files"}} {
		if c.ok {
			has = append(has, c.name)
		} else {
			lacks = append(lacks, c.name)
		}
	}
	value := float64(len(has)) / 4
	switch {
	case len(lacks) == 0:
		return value, "has " + strings.Join(has, ", ")
	case len(has) == 0:
		return value, "lacks " + strings.Join(lacks, ", ")
	}
	return value, "has " + strings.Join(has, ", ") + "; lacks " + strings.Join(lacks, ", ")
}

// resources is the share of the tools and paths that the task names which exist;
// all of none is all.
func (f Facts) resources() (float64, string) {
	if len(f.Named) == 0 {
		return 1, "names no tools or paths"
	}
	missing := 0
	var gone []string
	for _, name := range f.Named {
		if slices.Contains(f.Missing, name) {
			missing++
			gone = append(gone, name)
		}
	}
	value := float64(len(f.Named)-missing) / float64(len(f.Named))
	why := fmt.Sprintf("%d of %d named tools and paths exist", len(f.Named)-missing, len(f.Named))
	if missing > 0 {
		why += "; not " + text.List(gone, 5)
	}
	return value, why
}

// dependencies is the share of its dependencies that are merged.
func (f Facts) dependencies() (float64, string) {
	if f.Dependencies <= 0 {
		return 1, "depends on nothing"
	}
	merged := min(max(f.Merged, 0), f.Dependencies)
	return float64(merged) / float64(f.Dependencies), fmt.Sprintf("%d of %d dependencies are merged", merged, f.Dependencies)
}

// permission is 1, or .3 if the task needs what the sandbox denies.
func (f Facts) permission() (float64, string) {
	if len(f.Denied) == 0 {
		return 1, "needs nothing that is denied"
	}
	return .3, "needs what the sandbox denies: " + text.List(f.Denied, 5)
}

// history is the success rate of like tasks, and .5 when there were none.
func (f Facts) history() (float64, string) {
	if f.Like <= 0 {
		return .5, "no like task has ended yet"
	}
	return clamp(f.History), fmt.Sprintf("learned from %d like tasks", f.Like)
}

// Risk is what could go wrong with the task, from the same facts as the
// confidence: resource and dependency risk are what is missing of either, and
// execution risk is what is missing of clarity, permission and history on average.
func (f Facts) Risk() Risk {
	clarity, _ := f.clarity()
	resources, _ := f.resources()
	dependencies, _ := f.dependencies()
	permission, _ := f.permission()
	history, _ := f.history()
	return Risk{Execution: tidy(1 - (clarity+permission+history)/3), Resource: tidy(1 - resources), Dependency: tidy(1 - dependencies)}
}

// clamp brings x into 0..1; NaN is 0.
func clamp(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(1, max(0, x))
}

// scores are those of all actions, in the order of the constants (loop.md,
// "Decisions"): base .7 .3 .5 .4 .2 .6 of execute, skip, delegate, wait, escalate,
// retry; plus (risk_tolerance − mean risk)·.3; execute +.1 if resource risk < .3
// and −.2 if dependency risk > .5; delegate +.2 with more than one agent; skip +.1
// if mean risk < .2; clamped to 0..1.
func scores(r Risk, tolerance float64, agents int) []Alternative {
	shift := (clamp(tolerance) - r.Mean()) * .3
	all := []Alternative{{Execute, .7}, {Retry, .6}, {Delegate, .5}, {Wait, .4}, {Skip, .3}, {Escalate, .2}}
	for i := range all {
		a := &all[i]
		a.Score += shift
		switch a.Action {
		case Execute:
			if r.Resource < .3 {
				a.Score += .1
			}
			if r.Dependency > .5 {
				a.Score -= .2
			}
		case Delegate:
			if agents > 1 {
				a.Score += .2
			}
		case Skip:
			if tidy(r.Mean()) < .2 {
				a.Score += .1
			}
		}
		a.Score = tidy(a.Score)
	}
	return all
}

// Choose scores all actions and takes the best of those that are possible; of
// equal ones the first in the order of the constants. Possible are: execute for a
// task that has not been tried, retry for one that has, delegate where more than
// one agent could, and wait, skip and escalate always. While a dependency is not
// merged nothing can be begun, whatever the scores are.
func Choose(f Facts) Choice {
	risk := f.Risk()
	c := Choice{Task: f.Task, Risk: risk, Sum: Confidence(f), Scores: scores(risk, f.RiskTolerance, f.Agents), Available: f.available()}
	best := -1.0
	for _, a := range c.Scores {
		if slices.Contains(c.Available, a.Action) && a.Score > best {
			c.Action, best = a.Action, a.Score
		}
	}
	slices.SortStableFunc(c.Scores, func(a, b Alternative) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	c.Rationale = c.rationale(f, best)
	return c
}

func (f Facts) available() []Action {
	var can []Action
	if f.Merged >= f.Dependencies {
		if f.Attempts > 0 {
			can = append(can, Retry)
		} else {
			can = append(can, Execute)
		}
		if f.Agents > 1 {
			can = append(can, Delegate)
		}
	}
	return append(can, Wait, Skip, Escalate)
}

// impossible says why an action that is not available is not.
func (f Facts) impossible(a Action) string {
	switch {
	case f.Merged < f.Dependencies:
		return "what the task depends on is not merged"
	case a == Execute:
		return "the task has been tried already"
	case a == Retry:
		return "the task has not been tried yet"
	}
	return "there is one agent only"
}

func (c Choice) rationale(f Facts, best float64) string {
	text := fmt.Sprintf("%s, with %.2f, has the best score of what can be done now", c.Action, best)
	for _, a := range c.Scores {
		if a.Score > best {
			text += fmt.Sprintf(" (%s has %.2f, but %s)", a.Action, a.Score, f.impossible(a.Action))
		}
	}
	for _, a := range c.Scores {
		if a.Action != c.Action && slices.Contains(c.Available, a.Action) {
			text += fmt.Sprintf("; next is %s with %.2f", a.Action, a.Score)
			break
		}
	}
	text += fmt.Sprintf(". Risk: execution %.2f, resource %.2f, dependency %.2f; tolerance %.2f. Confidence %.2f", c.Risk.Execution, c.Risk.Resource, c.Risk.Dependency, clamp(f.RiskTolerance), c.Sum.Value)
	if f.Attempts > 0 {
		text += fmt.Sprintf(". Attempts that failed: %d", f.Attempts)
	}
	return text
}

// String shows the sum as /why prints it: the value, then a line for each term.
func (s Sum) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "confidence %.2f", s.Value)
	for i, t := range s.Terms {
		sign := "+"
		if i == 0 {
			sign = "="
		}
		fmt.Fprintf(&b, "\n  %s .%02.0f × %.2f %-12s  %s", sign, t.Weight*100, t.Value, t.Name, t.Why)
	}
	return b.String()
}
