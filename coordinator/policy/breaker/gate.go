package breaker

import "ralph/coordinator/policy/condition"

// Gate is a quality gate: a condition over the run that must hold. It is safe for
// concurrent use.
type Gate struct {
	name string
	when *condition.Condition[condition.Metrics]
}

// The words of a GateResult.
const (
	gatePassed  = "passed"
	gateFailed  = "failed"
	gateErrored = "errored"
)

// GateResult is the outcome of a gate.
type GateResult struct {
	Name      string `json:"name"`
	Condition string `json:"condition"`
	Status    string `json:"status"` // passed, failed or errored; one that errored has not passed
	Error     string `json:"error,omitempty"`
}

// Passed says that the gate lets the run through.
func (r GateResult) Passed() bool { return r.Status == gatePassed }

// NewGate compiles a gate; the metric form is made into a source by
// condition.Metric. A gate is asked once, so a condition that counts is refused.
// The error is a *condition.Error.
func NewGate(name, source string) (*Gate, error) {
	when, err := condition.Compile(source, condition.Metrics{})
	if err != nil {
		return nil, err
	}
	if when.Consecutive() > 1 {
		return nil, &condition.Error{Source: source, Line: 1, Column: 1, Text: "a gate cannot ask for several in a row", Hint: "only breaker triggers count"}
	}
	return &Gate{name: name, when: when}, nil
}

// Eval evaluates the gate: a condition that has no answer does not let the run
// through.
func (g *Gate) Eval(m condition.Metrics) GateResult {
	r := GateResult{Name: g.name, Condition: g.when.String(), Status: gateFailed}
	ok, err := g.when.Holds(m)
	switch {
	case err != nil:
		r.Status, r.Error = gateErrored, err.Error()
	case ok:
		r.Status = gatePassed
	}
	return r
}
