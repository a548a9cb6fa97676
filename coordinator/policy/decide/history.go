package decide

import (
	"math"
	"slices"
	"strings"
)

// The bounds of the learning rate (loop.md, "Decisions").
const (
	maxRate     = .5
	minRate     = .01
	defaultRate = .1
	// maxEstimates bounds what is kept: labels are free text.
	maxEstimates = 500
	neutral      = .5
)

// History is what outcomes have taught: the success rate of tasks by kind, label
// and phase. It is a JSON value, kept in the snapshot; the zero value has learned
// nothing. It is not safe for concurrent use.
type History struct {
	// LearningRate moves with the outcomes; nil is .1, and 0 learns nothing.
	LearningRate *float64            `json:"learning_rate,omitempty"`
	Rates        map[string]Estimate `json:"rates,omitempty"` // by "kind:bug", "label:api", "phase:planning"
}

// Estimate is one learned success rate.
type Estimate struct {
	Rate float64 `json:"rate"` // 0..1
	N    int     `json:"n"`    // outcomes it was learned from
}

// Rate is the learning rate as it is now, 0..1; after any outcome it is 0 or in
// .01 to .5.
func (h *History) Rate() float64 {
	if h.LearningRate == nil {
		return defaultRate
	}
	return clamp(*h.LearningRate)
}

// Learn records the outcome of a task: each rate of what the task is like moves
// towards the outcome by the learning rate, which then grows with a success (×1.1,
// at most .5) and shrinks with a failure (×.9, at least .01).
func (h *History) Learn(kind, phase string, labels []string, ok bool) {
	rate, goal := h.Rate(), 0.0
	if ok {
		goal = 1
	}
	if h.Rates == nil {
		h.Rates = map[string]Estimate{}
	}
	for _, key := range keys(kind, phase, labels) {
		e, known := h.Rates[key]
		switch {
		case !known && len(h.Rates) >= maxEstimates:
			continue
		case !known:
			e.Rate = neutral
		}
		e.Rate = clamp(e.Rate)
		e.Rate += (goal - e.Rate) * rate
		if e.N < math.MaxInt {
			e.N++
		}
		h.Rates[key] = e
	}
	if rate == 0 {
		return
	}
	if ok {
		rate = max(minRate, min(maxRate, rate*1.1))
	} else {
		rate = min(maxRate, max(minRate, rate*.9))
	}
	h.LearningRate = &rate
}

// Like is the success rate of like tasks, the mean over what is known of the
// task's kind, phase and labels, and the most outcomes that any of them was learned
// from; .5 and 0 when nothing is known of any.
func (h *History) Like(kind, phase string, labels []string) (rate float64, n int) {
	known := 0
	for _, key := range keys(kind, phase, labels) {
		if e, ok := h.Rates[key]; ok && e.N > 0 {
			rate += clamp(e.Rate)
			n = max(n, e.N)
			known++
		}
	}
	if known == 0 {
		return neutral, 0
	}
	return rate / float64(known), n
}

func keys(kind, phase string, labels []string) []string {
	if kind = strings.ToLower(strings.TrimSpace(kind)); kind == "" {
		kind = "task"
	}
	all := []string{"kind:" + kind}
	if phase = strings.ToLower(strings.TrimSpace(phase)); phase != "" {
		all = append(all, "phase:"+phase)
	}
	for _, l := range labels {
		if l = strings.ToLower(strings.TrimSpace(l)); l != "" && !slices.Contains(all, "label:"+l) {
			all = append(all, "label:"+l)
		}
	}
	return all
}
