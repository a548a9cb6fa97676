package insights

import "fmt"

// Learnings returns what findings teach, for AGENT.md, in their order. What says
// the same for the same finding of the same session, so that none is kept twice.
func Learnings(findings []Finding, sessionID string) []Learning {
	list := []Learning{}
	for _, f := range findings {
		how := "found by the rule " + f.Rule + " (" + f.Threshold + ")"
		if n := len(f.Events); n > 0 {
			how += " in " + f.Events[0]
			if n > 1 {
				how += fmt.Sprintf(" and %d more events", max(n, f.Count)-1)
			}
		}
		list = append(list, Learning{
			Type: "insight", What: fmt.Sprintf("%s in session %s: %s", f.Title, named(sessionID), f.Evidence),
			Why: means(f.Rule), How: how, Results: fmt.Sprintf("severity %s", f.Severity), Learning: f.Suggestion,
		})
	}
	return list
}

// means is why a rule looks at what it names.
func means(rule string) string {
	switch rule {
	case repeatedError:
		return "what fails again in the same way is not solved by trying again"
	case retryStorm:
		return "many tries in a short time cost time and tokens, and rarely help"
	case flakyCheck:
		return "a check that comes out both ways on the same tree proves nothing"
	case lowConfidence:
		return "what succeeded in spite of doubt may be wrong in a way that no check sees"
	case overLongContext:
		return "a model loses track in a context that is nearly full"
	case taskTooBig:
		return "a large task is hard to check and to take up again"
	case idleForHuman:
		return "nothing was done while a human was waited for"
	case slowStop:
		return "a stop is to be at rest within a quarter of a second"
	}
	return ""
}
