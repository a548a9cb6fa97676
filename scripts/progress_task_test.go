package scripts

import (
	"bytes"
	"testing"
	"time"

	"ralph/workers/agent"
)

// A task of a plan has one line when its agent begins, one for each time that it
// is tried again, and one for its end, and nothing is told twice.
func TestTasksTellThemselvesOnce(t *testing.T) {
	yes, no, took := true, false, int64(65_000)
	var out bytes.Buffer
	now := time.Now()
	p := &progress{area: area{w: &out}, now: func() time.Time { return now }, began: now, calls: map[string]string{}, tries: map[string]int{}, main: "ralph"}
	for _, e := range []agent.Event{
		{Type: agent.EventDecision, TaskID: "T-1", Status: "execute", Text: "execute T-1: confidence 0.86"},
		{Type: agent.EventTaskStart, TaskID: "T-1", Text: "ログイン", Attempt: 1},
		{Type: agent.EventChildStart, TaskID: "T-1", Agent: "auth", Text: "T-1 ログイン", Reason: "ralph"},
		{Type: agent.EventChildEnd, TaskID: "T-1", Agent: "auth", Status: "failed", OK: &no, Text: "wrote it", Reason: "its check failed"},
		{Type: agent.EventRetry, TaskID: "T-1", Text: "ログイン", Attempt: 1, Reason: "its check \"make\" failed\x1b[2J", WaitMS: 2000},
		{Type: agent.EventTaskEnd, TaskID: "T-1", Status: "retry", Text: "ログイン", Reason: "its check \"make\" failed", OK: &no, Attempt: 1},
		{Type: agent.EventTaskStart, TaskID: "T-1", Text: "ログイン", Attempt: 2},
		{Type: agent.EventChildStart, TaskID: "T-1", Agent: "auth", Text: "T-1 ログイン", Reason: "ralph"},
		{Type: agent.EventRetry, Agent: "auth", Attempt: 1, Reason: "503", WaitMS: 100},
		{Type: agent.EventChildEnd, TaskID: "T-1", Agent: "auth", Status: "failed", OK: &no, Reason: "429"},
		{Type: agent.EventRetry, TaskID: "T-1", Text: "ログイン", Attempt: 2, Reason: "the quota is used up", Ref: "codex"},
		{Type: agent.EventTaskEnd, TaskID: "T-1", Status: "rate_limited", Text: "ログイン", Reason: "the quota is used up", OK: &no, Attempt: 2},
		{Type: agent.EventTaskStart, TaskID: "T-1", Text: "ログイン", Attempt: 3, Ref: "codex"},
		{Type: agent.EventChildStart, TaskID: "T-1", Agent: "auth", Text: "T-1 ログイン", Reason: "ralph"},
		{Type: agent.EventChildStart, Agent: "resolve_auth", Text: "a conflict of auth", Reason: "auth"},
		{Type: agent.EventChildEnd, Agent: "resolve_auth", Status: "done", Text: "both are kept", OK: &yes},
		{Type: agent.EventChildEnd, TaskID: "T-1", Agent: "auth", Status: "done", Text: "wrote it", OK: &yes},
		{Type: agent.EventChildEnd, TaskID: "T-1", Agent: "auth", Status: "merged", Ref: "0123456789abcdef", OK: &yes},
		{Type: agent.EventTaskEnd, TaskID: "T-1", Status: "done", Text: "ログイン", Output: "merged 01234567, check passed", OK: &yes, Attempt: 3, DurationMS: &took, WorkedMS: 130_000},
		// One that an earlier process had begun.
		{Type: agent.EventTaskStart, TaskID: "T-2", Text: "two", Attempt: 2},
		{Type: agent.EventChildStart, TaskID: "T-2", Agent: "two", Text: "T-2 two", Reason: "ralph"},
		{Type: agent.EventTaskEnd, TaskID: "T-3", Status: "skipped", Text: "three", Reason: "it needs T-9, which has failed"},
		{Type: agent.EventTaskEnd, TaskID: "T-2", Status: "needs_input", Text: "two", Reason: "which colour?", OK: &no},
	} {
		p.event(e)
	}
	want := "ralph: T-1 begins: ログイン (auth)\n" +
		"ralph: T-1 try 1 failed: its check \"make\" failed␛[2J; next in 2.0s\n" +
		"ralph: T-1 try 2 failed: the quota is used up; tried again by codex\n" +
		"ralph: agent resolve_auth begins: a conflict of auth\n" +
		"ralph: agent resolve_auth done: both are kept\n" +
		"ralph: T-1 done: ログイン (merged 01234567, check passed, 3 attempts, 2m10s)\n" +
		"ralph: T-2 begins: two, try 2\n" +
		"ralph: T-3 skipped: three: it needs T-9, which has failed\n" +
		"ralph: T-2 needs input: two: which colour?\n"
	if got := out.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if p.agents != 1 {
		t.Errorf("%d agents are counted at work, want the one that has not ended", p.agents)
	}
}
