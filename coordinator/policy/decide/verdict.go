package decide

import "fmt"

// The bounds of loop.md, "Decisions": what is below the floor is refused, and three
// times opens the breaker; the other is what it takes to go on alone after a
// question was put.
const (
	floorConfidence  = .3
	aloneAfterAsking = .8
)

// Rules is what a verdict depends on besides the confidence.
type Rules struct {
	Mode      Mode    // "" is ask_first
	Threshold float64 // setting confidence_threshold, from which Ralph acts alone
	// Asked says that a question about this has been put and not answered: to go on
	// alone then takes more.
	Asked bool
	// Failed says that an error is what this is about.
	Failed bool
	// Risk and RiskTolerance are those of the choice: a part of the risk above both
	// .5 and the tolerance is high.
	Risk          Risk
	RiskTolerance float64
}

// Verdict says whether the task may be begun, and why.
//
// At the threshold and above it may, between .3 and the threshold a human is
// asked, below .3 it is refused; a threshold below .3 moves that down. After a
// question that nobody has answered, .8 is the threshold if that is more. In mode always everything is asked; in ask_first high risk and an
// error too; in on_error only an error; in on_low_confidence only the confidence.
// Where the mode does not ask, what would be asked is done.
func Verdict(s Sum, r Rules) (Answer, string) {
	c := clamp(s.Value)
	threshold, floor := clamp(r.Threshold), min(floorConfidence, clamp(r.Threshold))
	if r.Asked && r.Mode != Never {
		threshold = max(threshold, aloneAfterAsking)
	}
	switch {
	case c < floor:
		return Refuse, fmt.Sprintf("confidence %.2f is below %.2f", c, floor)
	case r.Mode == Always:
		return Ask, "human_intervention is always"
	case r.Failed && (r.Mode == OnError || r.asksFirst()):
		return Ask, "it is about an error, and human_intervention is " + string(r.mode())
	case r.asksFirst() && r.high() > 0:
		return Ask, fmt.Sprintf("the risk %.2f is high", r.high())
	case c >= threshold && r.Asked:
		return Act, fmt.Sprintf("confidence %.2f is at least %.2f, which is enough to go on without an answer", c, threshold)
	case c >= threshold:
		return Act, fmt.Sprintf("confidence %.2f is at least %.2f", c, threshold)
	case r.asksFirst() || r.Mode == OnLowConfidence || r.Asked && r.Mode == OnError:
		return Ask, fmt.Sprintf("confidence %.2f is below %.2f", c, threshold)
	}
	return Act, fmt.Sprintf("confidence %.2f is below %.2f, and human_intervention is %s", c, threshold, r.mode())
}

func (r Rules) mode() Mode {
	if r.asksFirst() {
		return AskFirst
	}
	return r.Mode
}

func (r Rules) asksFirst() bool {
	switch r.Mode {
	case Never, OnError, OnLowConfidence, Always:
		return false
	}
	return true
}

// high is the largest part of the risk, if that is high; else 0.
func (r Rules) high() float64 {
	most := max(r.Risk.Execution, r.Risk.Resource, r.Risk.Dependency)
	if most > max(.5, clamp(r.RiskTolerance)) {
		return most
	}
	return 0
}
