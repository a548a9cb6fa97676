package insights_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ralph/scripts/report/insights"
)

func failure(seconds float64, task, kind string, retries int, resolved any) o {
	return o{"timestamp": at(seconds), "task_id": task, "error_type": kind, "error_message": kind + " happened", "severity": "medium", "retry_count": retries, "recovery_action": "retry",
		"resolved": resolved != nil, "resolution_time_seconds": resolved}
}

func decision(seconds float64, task, kind, action string, confidence float64, outcome any) o {
	return o{"timestamp": at(seconds), "task_id": task, "decision_type": kind,
		"context":  o{"current_task": task, "available_actions": []string{"execute", "escalate"}, "risk_assessment": o{"execution": 0.1, "resource": 0, "dependency": 0}},
		"decision": o{"action": action, "confidence": confidence, "rationale": "because", "alternative_actions": []any{}}, "outcome": outcome}
}

// record is one record of a journal.
func record(seq int, seconds float64, payload o) string {
	data, err := json.Marshal(o{"seq": seq, "time": at(seconds), "epoch": 0, "kind": "event", "payload": payload})
	if err != nil {
		panic(err)
	}
	return string(data) + "\n"
}

func journalOf(payloads ...o) string {
	var b strings.Builder
	for i, p := range payloads {
		seconds, _ := p["at"].(float64)
		b.WriteString(record(i+1, seconds, p))
	}
	return b.String()
}

func repeat(n int, each func(i int) o) (list []o) {
	for i := range n {
		list = append(list, each(i))
	}
	return list
}

// TestSpellings finds the same problems where other tools and people write them
// down in another way, and nothing in what only looks like one.
func TestSpellings(t *testing.T) {
	bugs := []o{ev(1, "task_start", "task_id", "B-1", "type", "bug"), ev(2, "task_start", "task_id", "B-2", "task_type", "bug"), ev(3, "task_start", "task_id", "F-1", "category", "feature")}
	for name, c := range map[string]struct {
		s    planted
		want []string
	}{
		// Repeated errors.
		"errors with the kind as error type": {planted{events: repeat(3, func(i int) o { return ev(float64(i)*900, "error", "kind", "validation") })}, []string{repeated}},
		"errors with nested type":            {planted{events: repeat(3, func(i int) o { return ev(float64(i)*900, "error", "error", o{"type": "OOM", "message": fmt.Sprint(i)}) })}, []string{repeated}},
		"errors with only a message": {planted{events: repeat(3, func(i int) o {
			return ev(float64(i)*900, "error", "result", fmt.Sprintf("line %d: undefined: foo", i))
		})}, []string{repeated}},
		"errors with different messages": {planted{events: repeat(4, func(i int) o { return ev(float64(i)*900, "error", "result", "trouble "+strings.Repeat("x", i+1)) })}, nil},
		"errors whose type is the result": {planted{events: repeat(3, func(i int) o {
			return ev(float64(i)*900, "error", "result", "test_failure", "message", fmt.Sprint("m", i*i))
		})}, []string{repeated}},
		"errors of one type in two kinds of task": {planted{events: append(slices.Clone(bugs), ev(9, "error", "task_id", "B-1", "error_type", "timeout"), ev(10, "error", "task_id", "B-2", "error_type", "timeout"),
			ev(11, "error", "task_id", "F-1", "error_type", "timeout"))}, nil},
		"errors in two tasks of one kind": {planted{events: append(slices.Clone(bugs), ev(9, "error", "task_id", "B-1", "error_type", "timeout"), ev(10, "error", "task_id", "B-2", "error_type", "Timeout"),
			ev(11, "error", "task_id", "B-2", "error_type", "TimeoutError"))}, []string{repeated}},
		"the kind of the task beside the type of the error": {planted{events: repeat(3, func(i int) o {
			return ev(float64(i)*900, "error", "type", "timeout", "task_kind", []string{"bug", "bug", "feature"}[i])
		})}, nil},
		"errors of the errors file alone": {planted{events: []o{ev(0, "session_start")}, errors: repeat(3, func(i int) o { return failure(float64(i)*900, "T-1", "timeout", 0, 5) })}, []string{repeated}},
		"errors in both files": {planted{events: repeat(2, func(i int) o { return ev(float64(i)*900, "error", "task_id", "T-1", "error_type", "timeout") }),
			errors: repeat(2, func(i int) o { return failure(float64(i)*900+3, "T-1", "timeout", 0, 5) })}, nil},
		"errors in both files, the log without types": {planted{events: repeat(3, func(i int) o { return ev(float64(i)*900, "error", "task_id", "T-1", "result", "timeout happened") }),
			errors: repeat(3, func(i int) o { return failure(float64(i)*900, "T-1", "timeout", 0, 5) })}, []string{repeated}},
		"errors partly in each file": {planted{events: []o{ev(0, "error", "task_id", "T-1", "error_type", "timeout")},
			errors: repeat(3, func(i int) o { return failure(float64(i)*900, "T-1", "timeout", 0, 5) })}, []string{repeated}},
		"errors of an unknown task in the file": {planted{events: append(slices.Clone(bugs), ev(9, "error", "task_id", "B-1", "error_type", "timeout"), ev(10, "error", "task_id", "B-1", "error_type", "timeout")),
			errors: []o{failure(11, "F-1", "timeout", 0, 5)}}, nil},

		"errors in both files, the file without tasks": {planted{events: append(slices.Clone(bugs), repeat(2, func(i int) o { return ev(float64(i)*900+9, "error", "task_id", "B-1", "error_type", "timeout") })...),
			errors: repeat(2, func(i int) o { return failure(float64(i)*900+9, "", "timeout", 0, 5) })}, nil},

		// Retry storms.
		"a storm only in the count of an error":      {planted{events: []o{ev(0, "session_start")}, errors: []o{failure(10, "T-1", "network", 6, 200)}}, []string{storm}},
		"a storm slowly counted":                     {planted{events: []o{ev(0, "session_start")}, errors: []o{failure(10, "T-1", "network", 6, 4000)}}, nil},
		"a count that the log knows better":          {planted{events: []o{ev(5, "retry", "task_id", "T-1"), ev(2000, "retry", "task_id", "T-1")}, errors: []o{failure(10, "T-1", "network", 6, 200)}}, nil},
		"counts that grow":                           {planted{events: []o{ev(0, "session_start")}, errors: repeat(4, func(i int) o { return failure(float64(i), "T-1", fmt.Sprint("e", i/2), i, nil) })}, nil},
		"a storm of several tasks":                   {planted{events: repeat(5, func(i int) o { return ev(float64(i)*60, "retry", "task_id", fmt.Sprint("T-", i)) })}, []string{storm}},
		"two storms":                                 {planted{events: append(repeat(7, func(i int) o { return ev(float64(i)*90, "retry") }), repeat(5, func(i int) o { return ev(9000+float64(i), "retry") })...)}, []string{storm, storm}},
		"exactly ten minutes":                        {planted{events: repeat(5, func(i int) o { return ev(float64(i)*150, "retry") })}, []string{storm}},
		"retries without a time":                     {planted{events: repeat(9, func(int) o { return o{"event_type": "retry"} })}, nil},
		"a storm in the journal and in the log":      {planted{events: repeat(6, func(i int) o { return ev(float64(i), "retry") }), journal: journalOf(repeat(6, func(i int) o { return o{"type": "retry", "at": float64(i)} })...)}, []string{storm}},
		"a storm in the journal beside an empty log": {planted{events: []o{ev(0, "session_start")}, journal: journalOf(repeat(6, func(i int) o { return o{"type": "retry", "at": float64(i)} })...)}, []string{storm}},

		// Flaky checks.
		"a flaky check by commit":               {planted{events: []o{ev(0, "gate", "name", "tests", "passed", true, "commit", "abc"), ev(9, "gate", "name", "tests", "passed", false, "commit", "abc")}}, []string{flaky}},
		"a flaky check by exit code":            {planted{events: []o{ev(0, "gate", "command", "make", "exit_code", 1, "tree_hash", "abc"), ev(9, "gate", "command", "make", "exit_code", 0, "tree_hash", "abc")}}, []string{flaky}},
		"a flaky check by result":               {planted{events: []o{ev(0, "gate", "gate", "g", "result", "PASS", "git", o{"tree": "abc"}), ev(9, "gate", "gate", "g", "result", "fail", "git", o{"tree": "abc"})}}, []string{flaky}},
		"a flaky check with a tree and commits": {planted{events: []o{ev(0, "gate", "gate", "g", "result", "passed", "tree", "t1", "commit", "c"), ev(9, "gate", "gate", "g", "result", "failed", "tree", "t2", "commit", "c")}}, nil},
		"two checks on one tree":                {planted{events: []o{ev(0, "gate", "check", "a", "result", "passed", "tree", "t"), ev(9, "gate", "check", "b", "result", "failed", "tree", "t")}}, nil},
		"a check without a tree":                {planted{events: []o{ev(0, "gate", "check", "a", "result", "failed"), ev(9, "gate", "check", "a", "result", "passed")}}, nil},
		"a check that was left out once":        {planted{events: []o{ev(0, "gate", "check", "a", "result", "skipped", "tree", "t"), ev(9, "gate", "check", "a", "result", "passed", "tree", "t")}}, nil},
		"a flaky check in three runs, once": {planted{events: repeat(3, func(i int) o {
			return ev(float64(i), "gate", "check", "a", "result", []string{"passed", "failed", "passed"}[i], "tree", "t")
		})}, []string{flaky}},
		"a flaky check in log and journal": {planted{events: []o{ev(0, "gate", "check", "a", "result", "failed", "tree", "t"), ev(9, "gate", "check", "a", "result", "passed", "tree", "t")},
			journal: journalOf(o{"type": "gate", "text": "a", "ok": false, "ref": "t"}, o{"type": "gate", "text": "a", "ok": true, "ref": "t"})}, []string{flaky}},
		"a flaky check in the journal": {planted{journal: journalOf(o{"type": "gate", "text": "a", "ok": false, "ref": "t"}, o{"type": "gate", "text": "a", "ok": true, "ref": "t"})}, []string{flaky}},

		"a check that was red and green": {planted{events: []o{ev(0, "gate", "gate", "a", "outcome", "red", "tree", "t"), ev(9, "gate", "gate", "a", "outcome", "green", "tree", "t")}}, []string{flaky}},

		// Success without confidence.
		"a decision that came out well, of a task without an end": {planted{events: []o{ev(1, "decision", "task_id", "T-1", "action", "rewrite", "confidence", 0.3, "outcome", "success")}}, []string{low}},
		"an outcome that is an object":                            {planted{events: []o{ev(1, "decision", "task_id", "T-1", "confidence", 0.3, "outcome", o{"result": "success"})}}, []string{low}},
		"low in the history":                                      {planted{events: []o{ev(0, "session_start")}, decisions: []o{decision(1, "T-1", "task", "execute", 0.4, "success")}}, []string{low}},
		"low in the history, no outcome":                          {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "success")}, decisions: []o{decision(1, "T-1", "task_selection", "execute", 0.4, nil)}}, []string{low}},
		"low in the history, high in the log":                     {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "success", "confidence", 0.9)}, decisions: []o{decision(1, "T-1", "task", "execute", 0.4, "task completed successfully")}}, []string{low}},
		"low and failed":                                          {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "failed", "confidence", 0.3)}, decisions: []o{decision(1, "T-1", "task", "execute", 0.4, "failed")}}, nil},
		"low at first, high when it worked":                       {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "success")}, decisions: []o{decision(1, "T-1", "task", "execute", 0.4, "retry"), decision(3, "T-1", "task", "retry", 0.8, "done")}}, nil},
		"a question is no success":                                {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "success")}, decisions: []o{decision(1, "T-1", "help_request", "ask_human", 0.4, "answered"), decision(2, "T-1", "task", "escalate", 0.5, "success")}}, nil},
		"low in all files, once": {planted{events: []o{ev(1, "decision", "task_id", "T-1", "result", "execute", "confidence", 0.4), ev(5, "task_complete", "task_id", "T-1", "result", "done", "confidence", 0.5)},
			decisions: []o{decision(1, "T-1", "task", "execute", 0.4, "done")}}, []string{low}},
		"low in a decision of the log": {planted{events: []o{ev(1, "decision", "task_id", "T-1", "confidence", "45%"), ev(5, "task_complete", "task_id", "T-1")}}, []string{low}},
		"low without a task":           {planted{events: []o{ev(1, "decision", "result", "use sqlite", "confidence", 0.4, "outcome", "success")}, decisions: []o{decision(1, "", "design", "use sqlite", 0.4, "success")}}, []string{low}},
		"below the session's threshold": {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "success", "confidence", 0.85)},
			metadata: "session_id: '001'\nralph_runtime_config: {confidence_threshold: 0.9}\n"}, []string{low}},
		"above the session's threshold": {planted{events: []o{ev(5, "task_complete", "task_id", "T-1", "result", "success", "confidence", 0.55)},
			metadata: "session_id: '001'\nralph_runtime_config: {confidence_threshold: 0.5}\n"}, nil},
		"low, done by the progress": {planted{events: []o{ev(1, "decision", "task_id", "T-1", "confidence", 0.4)}, progress: "tasks:\n- {task_id: T-1, status: completed}\n"}, []string{low}},

		// Long contexts.
		"context in percent":       {planted{events: []o{ev(1, "message", "context_percent", 85)}}, []string{long}},
		"context in percent, less": {planted{events: []o{ev(1, "message", "context_percent", 79)}}, nil},
		"context as a part":        {planted{events: []o{ev(1, "checkpoint", "context_usage", 0.8)}}, []string{long}},
		"context nested":           {planted{events: []o{ev(1, "checkpoint", "context", o{"used": 170000, "limit": 200000})}}, []string{long}},
		"tokens and a window":      {planted{events: []o{ev(1, "message", "tokens", 110000, "window", 128000)}}, []string{long}},
		"tokens of a whole task":   {planted{events: []o{ev(1, "task_complete", "task_id", "T-1", "tokens", 900000, "context_window", 128000)}}, nil},
		"tokens without a window":  {planted{events: []o{ev(1, "message", "tokens", 900000)}}, nil},
		"a window of the session":  {planted{events: []o{ev(0, "session_start", "context_window", 1000), ev(1, "message", "context_tokens", 900)}}, []string{long}},
		"often in one task, once": {planted{events: repeat(4, func(i int) o {
			return ev(float64(i), "checkpoint", "task_id", "T-1", "context_tokens", 900+i, "context_window", 1000)
		})}, []string{long}},
		"a request of the journal": {planted{events: []o{ev(0, "session_start", "model", "m", "context_window", 1000)}, journal: journalOf(o{"type": "usage", "agent": "ralph", "model": "m", "usage": o{"input": 801}})}, []string{long}},
		"a request of another model": {planted{events: []o{ev(0, "session_start", "model", "m", "context_window", 1000)},
			journal: journalOf(o{"type": "usage", "agent": "child", "model": "large", "usage": o{"input": 5000}})}, nil},
		"in the log and in the journal": {planted{events: []o{ev(0, "session_start", "model", "m", "context_window", 1000), ev(1, "message", "context_tokens", 900, "context_window", 1000)},
			journal: journalOf(o{"type": "usage", "agent": "ralph", "model": "m", "usage": o{"input": 900}})}, []string{long}},

		"tokens of a request and a window":  {planted{events: []o{ev(1, "message", "tokens", o{"input": 170000, "output": 200}, "context_window", 200000)}}, []string{long}},
		"tokens of an answer and a window":  {planted{events: []o{ev(1, "message", "tokens", o{"input": 500, "output": 300000}, "context_window", 200000)}}, nil},
		"a size and a limit":                {planted{events: []o{ev(1, "message", "context_size", 115000, "context_limit", 128000)}}, []string{long}},
		"a context as text":                 {planted{events: []o{ev(1, "message", "context", "92%")}}, []string{long}},
		"a limit of the answer":             {planted{events: []o{ev(1, "message", "context_tokens", 115000, "max_tokens", 4096)}}, nil},
		"a prompt and the session's window": {planted{events: []o{ev(0, "session_start", "context_window", 1000), ev(1, "message", "prompt_tokens", 900)}}, []string{long}},
		"a sum beside the session's window": {planted{events: []o{ev(0, "session_start", "context_window", 1000), ev(1, "message", "input_tokens", 9000)}}, nil},

		// Large tasks.
		"durations of the progress": {planted{progress: "tasks:\n- {task_id: A, status: completed, duration_seconds: 100}\n- {task_id: B, status: completed, duration_seconds: 110}\n- {task_id: C, status: completed, duration_seconds: 120}\n" +
			"- {task_id: D, status: completed, started_at: '2026-03-01T10:00:00Z', completed_at: '2026-03-01T10:20:00+00:00'}\n"}, []string{big}},
		"durations from times": {planted{events: append(spans(100, 100, 100, 100), spanned("X", 5000, 400)...)}, []string{big}},
		"a task over a rest": {planted{events: append(spans(100, 100, 100, 100), ev(5000, "task_start", "task_id", "X"), ev(5050, "message", "role", "user"), ev(90000, "session_start", "kind", "run"),
			ev(90050, "task_complete", "task_id", "X", "result", "success"))}, nil},
		"two tasks":        {planted{events: append(spans(100), spanned("X", 5000, 4000)...)}, nil},
		"three tasks":      {planted{events: append(spans(100, 100), spanned("X", 5000, 4000)...)}, []string{big}},
		"tasks of seconds": {planted{events: append(spans(1, 1, 1, 1), spanned("X", 5000, 9)...)}, nil},
		"skipped tasks":    {planted{events: append(spans(100, 100, 100, 100), ev(9000, "task_complete", "task_id", "S", "result", "skipped", "duration_seconds", 4000))}, nil},
		"a task that waited": {planted{events: append(spans(100, 100, 100, 100), ev(4000, "task_start", "task_id", "X"), ev(4900, "decision", "task_id", "X", "decision_type", "permission", "result", "allowed", "duration_seconds", 840),
			ev(5000, "task_complete", "task_id", "X", "result", "done"))}, []string{idle}},

		// Waits.
		"a permission":                {planted{events: []o{ev(1, "decision", "decision_type", "permission", "result", "allowed", "duration_seconds", 300)}}, []string{idle}},
		"waiting for, with seconds":   {planted{events: []o{ev(1, "checkpoint", "waiting_for", "human approval", "waited_seconds", 900)}}, []string{idle}},
		"human wait in minutes":       {planted{events: []o{ev(1, "message", "role", "user", "human_wait_minutes", 6)}}, []string{idle}},
		"an interrupt that waited":    {planted{events: []o{ev(1, "interrupt", "result", "waiting_for_human", "duration_seconds", 1800)}}, []string{idle}},
		"a type of its own":           {planted{events: []o{ev(1, "human_wait", "duration_seconds", 1800)}}, []string{idle}},
		"a handoff":                   {planted{events: []o{ev(1, "handoff", "to", "human", "duration_seconds", 700)}}, []string{idle}},
		"asked and answered later":    {planted{events: []o{ev(1, "decision", "task_id", "T-1", "decision_type", "help_request", "result", "asked"), ev(700, "message", "role", "user", "text", "yes")}}, []string{idle}},
		"asked, and the task went on": {planted{events: []o{ev(1, "decision", "task_id", "T-1", "result", "ask_human", "confidence", 0.5), ev(20, "message", "role", "assistant"), ev(700, "task_start", "task_id", "T-1")}}, []string{idle}},
		"asked and answered soon":     {planted{events: []o{ev(1, "decision", "task_id", "T-1", "decision_type", "help_request"), ev(200, "decision", "task_id", "T-1", "decision_type", "help_request", "result", "yes"), ev(900, "message", "role", "user")}}, nil},
		"asked and nobody was there":  {planted{events: []o{ev(1, "decision", "task_id", "T-1", "decision_type", "help_request", "result", "pause"), ev(2, "session_end", "result", "paused"), ev(90000, "session_start"), ev(90001, "task_start", "task_id", "T-1")}}, nil},
		"answered, then long work":    {planted{events: []o{ev(1, "decision", "task_id", "T-1", "decision_type", "permission", "result", "allowed"), ev(900, "task_complete", "task_id", "T-1", "result", "done")}}, nil},
		"asked in two ways, once":     {planted{events: []o{ev(1, "decision", "task_id", "T-1", "decision_type", "help_request", "result", "asked"), ev(700, "decision", "task_id", "T-1", "decision_type", "help_request", "result", "yes", "duration_seconds", 699, "by", "user")}}, []string{idle}},
		"a wait of the journal":       {planted{journal: journalOf(o{"type": "permission", "agent": "a", "call_id": "1", "status": "asked", "at": 1.0}, o{"type": "permission", "agent": "a", "call_id": "1", "status": "allowed", "at": 400.0})}, []string{idle}},
		"a wait of a dead process":    {planted{journal: journalOf(o{"type": "permission", "agent": "a", "call_id": "1", "status": "asked", "at": 1.0}, o{"type": "start", "at": 300.0}, o{"type": "permission", "agent": "a", "call_id": "1", "status": "allowed", "at": 400.0})}, nil},
		"a wait in log and journal": {planted{events: []o{ev(400, "decision", "decision_type", "permission", "result", "allowed", "duration_seconds", 399)},
			journal: journalOf(o{"type": "permission", "agent": "a", "call_id": "1", "status": "asked", "at": 1.0}, o{"type": "permission", "agent": "a", "call_id": "1", "status": "allowed", "at": 400.0})}, []string{idle}},
		"a long break of the user": {planted{events: []o{ev(1, "message", "role", "assistant", "text", "done, waiting for your input"), ev(9000, "message", "role", "user", "text", "go on")}}, nil},

		// Requests to a human, by what they call themselves.
		"a help request":             {planted{events: []o{ev(1, "interrupt", "type", "help_request", "duration_seconds", 1800)}}, []string{idle}},
		"an intervention":            {planted{events: []o{ev(1, "interrupt", "type", "human_intervention", "duration_seconds", 1900)}}, []string{idle}},
		"an intervention untold":     {planted{events: []o{ev(1, "interrupt", "task_id", "T", "type", "human_intervention"), ev(1900, "task_complete", "task_id", "T")}}, nil},
		"a human who speaks":         {planted{events: []o{ev(1, "interrupt", "task_id", "T", "kind", "human_message"), ev(1900, "task_complete", "task_id", "T")}}, nil},
		"a request and its answer":   {planted{events: []o{ev(1, "interrupt", "task_id", "T", "kind", "approval_request"), ev(1900, "interrupt", "task_id", "T", "kind", "approval_response")}}, []string{idle}},
		"a question as a message":    {planted{events: []o{ev(1, "message", "role", "assistant", "kind", "question"), ev(1900, "message", "role", "user")}}, []string{idle}},
		"a question between agents":  {planted{events: []o{ev(1, "message", "from", "a-1", "to", "a-2", "kind", "question"), ev(1900, "message", "role", "user")}}, nil},
		"a gate that is a human":     {planted{events: []o{ev(1, "gate", "gate", "human approval", "result", "approved", "duration_seconds", 900)}}, []string{idle}},
		"gates that only sound so":   {planted{events: []o{ev(1, "gate", "name", "human-readable docs", "duration_seconds", 900), ev(2, "gate", "check", "approval tests", "duration_seconds", 900)}}, nil},
		"a decision to ask":          {planted{events: []o{ev(1, "decision", "action", "ask_human", "duration_seconds", 900)}}, []string{idle}},
		"what a human asks of Ralph": {planted{events: []o{ev(1, "interrupt", "class", "ask", "kind", "question", "duration_seconds", 900)}}, nil},

		// Stops.
		"a stop by actions":          {planted{events: []o{ev(1, "interrupt", "action", "stop requested"), ev(13, "interrupt", "action", "stopped")}}, []string{slow}},
		"latency in ms":              {planted{events: []o{ev(1, "interrupt", "latency_ms", 4200)}}, []string{slow}},
		"latency in ms, fast":        {planted{events: []o{ev(1, "interrupt", "duration_seconds", 60, "latency_ms", 90)}}, nil},
		"a stop told by two events":  {planted{events: []o{ev(1, "interrupt", "result", "requested"), ev(4, "interrupt", "result", "stopped")}}, []string{slow}},
		"a fast one of two events":   {planted{events: []o{ev(1, "interrupt", "result", "requested"), ev(1.2, "interrupt", "result", "stopped")}}, nil},
		"times of press and rest":    {planted{events: []o{ev(9, "interrupt", "pressed_at", at(1), "at_rest_at", at(8))}}, []string{slow}},
		"a pause":                    {planted{events: []o{ev(1, "interrupt", "result", "pause", "duration_seconds", 50)}}, nil},
		"a message in between":       {planted{events: []o{ev(1, "interrupt", "class", "steer", "duration_seconds", 50), ev(60, "interrupt", "class", "urgent", "duration_seconds", 5), ev(80, "interrupt", "kind", "later", "duration_seconds", 900)}}, nil},
		"a stop by its class":        {planted{events: []o{ev(1, "interrupt", "class", "stop", "duration_seconds", 2.5)}}, []string{slow}},
		"a stop with the user's why": {planted{events: []o{ev(1, "interrupt", "result", "stopped by the user: ask me later", "how", "stopped", "duration_seconds", 2.5)}}, []string{slow}},
		"exactly a second":           {planted{events: []o{ev(1, "interrupt", "duration_seconds", 1)}}, nil},
		"a stop of the journal":      {planted{journal: journalOf(o{"type": "interrupt", "status": "stopped", "reason": "interrupted by SIGINT", "duration_ms": 1500})}, []string{slow}},
		"a stop of both":             {planted{events: []o{ev(0.5, "interrupt", "how", "stopped", "duration_seconds", 1.5)}, journal: journalOf(o{"type": "interrupt", "status": "stopped", "duration_ms": 1500, "at": 0.6})}, []string{slow}},
	} {
		t.Run(name, func(t *testing.T) {
			found := c.s.find(t)
			if got := names(found); !slices.Equal(sorted(got), sorted(c.want)) {
				t.Errorf("found %v, want %v\n%s", got, c.want, texts(found))
			}
		})
	}
}

func spanned(id string, from, seconds float64) []o {
	return []o{ev(from, "task_start", "task_id", id), ev(from+seconds, "task_complete", "task_id", id, "result", "success")}
}

func spans(seconds ...float64) (list []o) {
	for i, s := range seconds {
		list = append(list, spanned(fmt.Sprint("S", i), float64(i)*200, s)...)
	}
	return list
}

func texts(found []insights.Finding) string {
	var b strings.Builder
	for _, x := range found {
		fmt.Fprintf(&b, "%s %v %v: %s\n", x.Rule, x.Events, x.TaskIDs, x.Evidence)
	}
	return b.String()
}
