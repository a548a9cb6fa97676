package folder

import (
	"math"
	"strconv"
	"strings"
)

// Meant is how a task stands that went as the word says, which may be a tool's
// or a person's for it: completed, error, skipped, or paused when it was stopped
// on the way. It is empty for a word that says none of them.
func (s TaskStatus) Meant() TaskStatus {
	switch strings.ToLower(strings.TrimSpace(string(s))) {
	case "completed", "complete", "done", "success", "succeeded", "successful", "passed", "pass", "ok", "merged", "true":
		return TaskCompleted
	case "error", "failed", "failure", "fail", "unsuccessful", "given up", "gave up", "timeout", "timed out", "false":
		return TaskError
	case "skipped", "left out":
		return TaskSkipped
	case "paused", "stopped", "interrupted", "aborted", "cancelled", "canceled":
		return TaskPaused
	}
	return ""
}

// Went is how the task of a task_complete ended. Without a word that says
// otherwise it completed, since the event itself says so.
func (e Event) Went() TaskStatus {
	if how := TaskStatus(e.Result).Meant(); how != "" {
		return how
	}
	return TaskCompleted
}

// Text is the first text, number or truth value that the details hold under one
// of the keys, without space around it; empty when there is none.
func (e Event) Text(keys ...string) string {
	for _, k := range keys {
		if s := scalarIn(e.Details[k]); s != "" {
			return s
		}
	}
	return ""
}

func scalarIn(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// Number is the first finite number that the details hold under one of the
// keys, also one in a text.
func (e Event) Number(keys ...string) (float64, bool) {
	for _, k := range keys {
		switch v := e.Details[k].(type) {
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				return v, true
			}
		case string:
			if f, ok := numberIn(v); ok {
				return f, true
			}
		}
	}
	return 0, false
}

// Within is the event with what its details hold in the first of the keys that
// is a mapping as its details; without any when none is.
func (e Event) Within(keys ...string) Event {
	for _, k := range keys {
		if m, ok := e.Details[k].(map[string]any); ok {
			e.Details = m
			return e
		}
	}
	e.Details = nil
	return e
}
