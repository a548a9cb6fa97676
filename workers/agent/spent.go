package agent

import (
	"fmt"
	"time"
)

// Limits bound one run; a zero field sets no bound.
type Limits struct {
	MaxTurns   int
	MaxTokens  int
	MaxCostUSD float64
}

// Spent is what a run used.
type Spent struct {
	Turns   int
	Usage   Usage
	CostUSD *float64 // nil: not known
	// CostUnknown says that some usage had no price.
	CostUnknown bool
	APITime     time.Duration
}

func (s *Spent) add(r Reply, price func(Usage) (float64, bool)) {
	s.Usage = s.Usage.Add(r.Usage)
	s.APITime += r.Duration
	cost := r.CostUSD
	if cost == nil && price != nil && r.Usage.Total > 0 {
		if c, ok := price(r.Usage); ok {
			cost = &c
		}
	}
	switch {
	case cost != nil:
		sum := *cost
		if s.CostUSD != nil {
			sum += *s.CostUSD
		}
		s.CostUSD = &sum
	case r.Usage.Total > 0:
		s.CostUnknown = true
	}
	if s.CostUnknown {
		s.CostUSD = nil
	}
}

// Check says with a *LimitError that what was spent allows no further request.
func (l Limits) Check(s Spent) error {
	switch {
	case l.MaxTurns > 0 && s.Turns >= l.MaxTurns:
		return &LimitError{What: "turns", Used: fmt.Sprint(s.Turns), Max: fmt.Sprint(l.MaxTurns), Flag: "--max-turns"}
	case l.MaxTokens > 0 && s.Usage.Total >= l.MaxTokens:
		return &LimitError{What: "tokens", Used: fmt.Sprint(s.Usage.Total), Max: fmt.Sprint(l.MaxTokens), Flag: "--max-tokens"}
	case l.MaxCostUSD > 0 && s.CostUnknown:
		return &LimitError{What: "cost", Used: "unknown", Max: usd(l.MaxCostUSD), Flag: "--max-cost", Unknown: true}
	case l.MaxCostUSD > 0 && s.CostUSD != nil && *s.CostUSD >= l.MaxCostUSD:
		return &LimitError{What: "cost", Used: usd(*s.CostUSD), Max: usd(l.MaxCostUSD), Flag: "--max-cost"}
	}
	return nil
}

func usd(v float64) string { return fmt.Sprintf("$%.4f", v) }

// LimitError ends a run that used up what it was given.
type LimitError struct {
	What string // turns, tokens, cost
	Used string
	Max  string
	Flag string // the flag that set the limit
	// Unknown says that the limit cannot be kept because what was used is not
	// known.
	Unknown bool
	// Shared says that others have used some of it.
	Shared bool
}

// Error says which limit ended the run.
func (e *LimitError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("the %s limit of %s cannot be kept: the price of this model is not known", e.What, e.Max)
	}
	if e.Shared {
		return fmt.Sprintf("the limit of %s %s, which all agents share, is used up (%s)", e.Max, e.What, e.Used)
	}
	return fmt.Sprintf("the limit of %s %s is used up (%s)", e.Max, e.What, e.Used)
}
