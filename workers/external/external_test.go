package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
)

func TestMain(m *testing.M) {
	exec.Init()
	goleak.VerifyTestMain(m)
}

func newRunner(t *testing.T) *exec.Runner {
	t.Helper()
	r := exec.New(exec.Options{Init: exec.Self()})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// standIn is an adapter whose program is a script.
func standIn(t *testing.T, format, script string) Adapter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := exectest.WriteProgram(path, []byte("#!/bin/bash\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Adapter{Name: "stand-in", Argv: []string{path, "{prompt}"}, Input: inputArg, Format: format}
}

func play(t *testing.T, a Adapter, change func(*Request)) (Result, []agent.Event) {
	t.Helper()
	var events []agent.Event
	q := Request{
		Adapter: a, Prompt: "do the task\nand end with\n" + promise, Dir: t.TempDir(), Environ: os.Environ(), Timeout: 30 * time.Second, Idle: 20 * time.Second,
		Events: func(e agent.Event) { events = append(events, e) }, Start: newRunner(t).Run,
	}
	if change != nil {
		change(&q)
	}
	res := Run(t.Context(), q)
	checkEvents(t, events)
	return res, events
}

// checkEvents proves that each call that began has ended once.
func checkEvents(t *testing.T, events []agent.Event) {
	t.Helper()
	open := map[string]bool{}
	for _, e := range events {
		switch e.Type {
		case agent.EventToolStart:
			if open[e.CallID] {
				t.Errorf("call %s began twice", e.CallID)
			}
			open[e.CallID] = true
		case agent.EventToolEnd:
			if !open[e.CallID] || e.OK == nil || e.Tool == "" {
				t.Errorf("bad end of a call: %+v", e)
			}
			delete(open, e.CallID)
		}
	}
	if len(open) > 0 {
		t.Errorf("calls without an end: %v", open)
	}
}

// The recorded streams of the real programs, played by a script that exits as
// they did.
func TestRecordedStreams(t *testing.T) {
	for _, tc := range []struct {
		file, format string
		exit         int
		clean        bool
		kind         Kind
		err          error
		final        string
		calls        int
		in, out      int
		denied       []string
	}{
		{"claude-2.1.197.ok.jsonl", formatClaude, 0, true, KindNone, nil, "DONE all good", 1, 200, 15, nil},
		{"claude-2.1.197.http401.rc1.jsonl", formatClaude, 1, false, KindPermission, ErrAccess, "Failed to authenticate. API Error: 401 stub error 401", 0, 0, 0, nil},
		{"claude-2.1.197.denied.rc0.json", formatClaude, 0, false, KindPermission, ErrDenied, "DONE all good", 0, 200, 15,
			[]string{`Bash: {"command":"echo hello > out.txt","description":"write file"}`}},
		{"codex-0.169.0.ok.jsonl", formatCodex, 0, true, KindNone, nil, "DONE all good", 1, 200, 20, nil},
		{"codex-0.169.0.http401.rc1.jsonl", formatCodex, 1, false, KindPermission, ErrAccess, "", 0, 0, 0, nil},
		{"gemini-0.61.0.ok.jsonl", formatGemini, 0, true, KindNone, nil, "DONE all good", 1, 200, 20, nil},
		{"gemini-0.61.0.http401.rc145.jsonl", formatGemini, 145, false, KindPermission, ErrAccess, "", 0, 0, 0, nil},
		{"opencode-1.18.33.ok.jsonl", formatOpencode, 0, true, KindNone, nil, "DONE all good", 1, 220, 15, nil},
		{"opencode-1.18.33.http401.rc1.jsonl", formatOpencode, 1, false, KindPermission, ErrAccess, "", 0, 0, 0, nil},
		{"pi-0.73.1.ok.jsonl", formatPi, 0, true, KindNone, nil, "DONE all good", 1, 220, 15, nil},
		{"pi-0.73.1.http401.rc0.jsonl", formatPi, 0, false, KindPermission, ErrAccess, "", 0, 0, 0, nil},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			file, err := filepath.Abs(filepath.Join("testdata", "streams", tc.file))
			if err != nil {
				t.Fatal(err)
			}
			for _, ok := range []bool{false, true} {
				exit := tc.exit
				if ok && exit == 0 {
					exit = 1 // what ended well and then exits with 1 was not clean
				}
				res, events := play(t, standIn(t, tc.format, fmt.Sprintf("cat %q; exit %d", file, exit)), nil)
				if ok && tc.clean {
					if res.Clean || res.Kind != KindExecution || res.Err == nil {
						t.Errorf("exit 1 after a success: %+v", res)
					}
					continue
				}
				if !ok && (res.Clean != tc.clean || res.Kind != tc.kind || !errors.Is(res.Err, tc.err) || (res.Err == nil) != tc.clean) {
					t.Errorf("clean %v, kind %q, error %v", res.Clean, res.Kind, res.Err)
				}
				if res.Final != tc.final || res.ToolCalls != tc.calls || res.Usage.Input != tc.in || res.Usage.Output != tc.out || res.Usage.Total != tc.in+tc.out {
					t.Errorf("final %q, %d calls, usage %+v", res.Final, res.ToolCalls, res.Usage)
				}
				if !slices.Equal(res.Denied, tc.denied) || res.Skipped != 0 || res.Session == "" || res.Exit != exit || res.Promised || res.Declared {
					t.Errorf("%+v", res)
				}
				starts := 0
				for _, e := range events {
					if e.Type == agent.EventToolStart {
						starts++
						if !strings.Contains(string(e.Args), "echo hello > out.txt") {
							t.Errorf("arguments %s", e.Args)
						}
					}
				}
				if starts != tc.calls {
					t.Errorf("%d calls began, want %d", starts, tc.calls)
				}
			}
		})
	}
}

// lines builds a stream with the promise where a format has its final text.
func claudeEnd(text string) string {
	return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"result":%q,"session_id":"s","usage":{"input_tokens":1,"output_tokens":1}}`, text)
}

func script(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "cat <<'END_OF_LINE'\n%s\nEND_OF_LINE\n", l)
	}
	return b.String()
}

func TestPromiseCountsInTheFinalTextOnly(t *testing.T) {
	const p = promise
	bigLine := `head -c 5500000 /dev/zero | tr '\0' x; echo`
	claudeTool := `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cat x"}}]}}`
	claudeResult := func(content string) string {
		return fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":%q}]}}`, content)
	}
	claudeSays := func(content string) string {
		return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%q}]}}`, content)
	}
	codex := func(item string) string { return `{"type":"item.completed","item":` + item + `}` }
	for _, tc := range []struct {
		name, format, script string
		declared, promised   bool
	}{
		{"final", formatClaude, script(claudeSays("ok\n"+p), claudeEnd("ok\n"+p)), true, true},
		{"tool result", formatClaude, script(claudeTool, claudeResult(p), claudeEnd("I read the file.")), false, false},
		{"before a tool", formatClaude, script(claudeSays(p), claudeTool, claudeResult("x"), claudeEnd("more to do")), false, false},
		{"agent of the agent", formatClaude, script(`{"type":"assistant","parent_tool_use_id":"t0","message":{"content":[{"type":"text","text":"`+p+`"}]}}`, claudeEnd("")), false, false},
		{"exit 1 after it", formatClaude, script(claudeEnd("ok\n"+p)) + "exit 1", false, true},
		{"killed after it", formatClaude, script(claudeEnd("ok\n"+p)) + "kill -9 $$", false, true},
		{"no closing event", formatClaude, script(claudeSays(p)), false, true},
		{"in a fence", formatClaude, script(claudeEnd("the file says\n```\n" + p + "\n```")), false, false},
		{"quoted", formatClaude, script(claudeEnd("the prompt wants `" + p + "`")), false, false},
		{"in a quotation", formatClaude, script(claudeEnd("> " + p + "\nis what the file says")), false, false},
		{"codex command output", formatCodex, script(codex(`{"id":"1","type":"command_execution","command":"cat","aggregated_output":"`+p+`","exit_code":0,"status":"completed"}`), codex(`{"id":"2","type":"agent_message","text":"read it"}`), `{"type":"turn.completed","usage":{}}`), false, false},
		{"codex final", formatCodex, script(codex(`{"id":"2","type":"agent_message","text":"done `+p+`"}`), `{"type":"turn.completed","usage":{}}`), true, true},
		{"codex failed turn", formatCodex, script(codex(`{"id":"2","type":"agent_message","text":"`+p+`"}`), `{"type":"turn.failed","error":{"message":"x"}}`), false, true},
		{"codex message then command", formatCodex, script(codex(`{"id":"2","type":"agent_message","text":"`+p+`"}`), codex(`{"id":"3","type":"command_execution","command":"ls","exit_code":0,"status":"completed"}`), `{"type":"turn.completed","usage":{}}`), false, false},
		{"gemini deltas", formatGemini, script(`{"type":"message","role":"assistant","content":"done\n<promise>COM","delta":true}`, `{"type":"message","role":"assistant","content":"PLETE</promise>","delta":true}`, `{"type":"result","status":"success","stats":{}}`), true, true},
		{"gemini prompt", formatGemini, script(`{"type":"message","role":"user","content":"`+p+`"}`, `{"type":"message","role":"assistant","content":"no","delta":true}`, `{"type":"result","status":"success"}`), false, false},
		{"opencode earlier step", formatOpencode, script(`{"type":"step_start"}`, `{"type":"text","part":{"text":"`+p+`"}}`, `{"type":"step_finish","part":{"reason":"tool-calls"}}`, `{"type":"step_start"}`, `{"type":"text","part":{"text":"wait"}}`, `{"type":"step_finish","part":{"reason":"stop"}}`), false, false},
		{"opencode cut reply", formatOpencode, script(`{"type":"step_start"}`, `{"type":"text","part":{"text":"`+p+`"}}`, `{"type":"step_finish","part":{"reason":"length"}}`), false, true},
		{"pi", formatPi, script(`{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"`+p+`"}],"stopReason":"stop"}}`, `{"type":"agent_end","messages":[]}`), true, true},
		{"pi tool result", formatPi, script(`{"type":"message_end","message":{"role":"toolResult","content":[{"type":"text","text":"`+p+`"}]}}`, `{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"hm"}],"stopReason":"stop"}}`, `{"type":"agent_end"}`), false, false},
		{"text", formatText, "echo working; echo '" + p + "'", true, true},
		{"text, 5 MB before the end", formatText, "echo '" + p + "'; " + bigLine + "; for i in {1..60000}; do echo 'still at work on it, line after line after line'; done", false, false},
		{"text, 5 MB before its end", formatText, bigLine + "; echo '" + p + "'", true, true},
		{"text, then exit 1", formatText, "echo '" + p + "'; exit 1", false, true},
		{"text, a file and then more", formatText, "echo '" + p + "'; echo 'that was the file'; echo 'now I go on'", false, false},
		{"text, and a short closing line", formatText, "echo '" + p + "'; echo 'All tests pass.'", true, true},
		{"text, the prompt echoed", formatText, `printf '%s\n' "$1"`, false, false},
		{"text on the errors", formatText, "echo no; echo '" + p + "' >&2", false, false},
		{"5 MB event before the end", formatClaude, script(claudeTool) + `printf '{"type":"user","message":"'; ` + bigLine + "\n" + script(claudeEnd("ok\n"+p)), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, _ := play(t, standIn(t, tc.format, tc.script), nil)
			if res.Declared != tc.declared || res.Promised != tc.promised || res.Declared && (!res.Clean || res.Err != nil) || res.Promised && !res.Declared && res.Err == nil {
				t.Errorf("declared %v, promised %v, clean %v, %v; final %q", res.Declared, res.Promised, res.Clean, res.Err, text.Clip(res.Final, 200))
			}
			if len(res.Final) > maxFinal {
				t.Errorf("final text of %d bytes", len(res.Final))
			}
		})
	}
}

func TestWhatGoesWrong(t *testing.T) {
	claudeLimit := `{"type":"result","subtype":"success","is_error":true,"result":"Claude AI usage limit reached|` + fmt.Sprint(time.Now().Add(time.Hour).Unix()) + `"}`
	for _, tc := range []struct {
		name, format, script string
		kind                 Kind
		err                  error
		quota                bool
		after                time.Duration
	}{
		{"unknown flag", formatCodex, "echo \"error: unexpected argument '--full-auto' found\" >&2; exit 2", KindMismatch, ErrMismatch, false, 0},
		{"unknown flag, exit 1", formatClaude, "echo \"error: unknown option '--foo'\" >&2; exit 1", KindMismatch, ErrMismatch, false, 0},
		{"exit 2 in silence", formatText, "exit 2", KindMismatch, ErrMismatch, false, 0},
		{"exit 2 after an event", formatCodex, script(`{"type":"turn.started"}`) + "exit 2", KindExecution, ErrFailed, false, 0},
		{"not logged in", formatClaude, "echo 'Not logged in · Please run /login' >&2; exit 1", KindPermission, ErrAccess, false, 0},
		{"gemini without a way to log in", formatGemini, `echo '{"error":{"type":"FatalAuthenticationError","message":"Please set an Auth method"}}' >&2; exit 41`, KindPermission, ErrAccess, false, 0},
		{"codex at its limit", formatCodex, script(`{"type":"turn.failed","error":{"message":"You've hit your usage limit. Upgrade to Pro or try again in 3 days 2 hours 5 minutes."}}`) + "exit 1", KindResource, ErrQuota, true, 74*time.Hour + 5*time.Minute},
		{"claude at its limit", formatClaude, script(claudeLimit) + "exit 1", KindResource, ErrQuota, true, time.Hour},
		{"claude 429", formatClaude, script(`{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":500,"error_status":429,"error":"rate_limit"}`, `{"type":"result","subtype":"error_during_execution","is_error":true}`) + "exit 1", KindResource, ErrQuota, true, 0},
		{"opencode 429 with a header", formatOpencode, script(`{"type":"error","error":{"name":"APIError","data":{"message":"slow down","statusCode":429,"responseHeaders":{"Retry-After":"42"}}}}`) + "exit 1", KindResource, ErrQuota, true, 42 * time.Second},
		{"gemini 429", formatGemini, script(`{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"details\":[{\"retryDelay\":\"34s\"}]}}]"}}`) + "exit 173", KindResource, ErrQuota, true, 34 * time.Second},
		{"pi 429", formatPi, script(`{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"429 Too many requests"}}`, `{"type":"agent_end"}`), KindResource, ErrQuota, true, 0},
		{"500", formatPi, script(`{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"500 oops"}}`, `{"type":"agent_end"}`), KindNetwork, ErrFailed, false, 0},
		{"no network", formatGemini, "echo 'fetch failed: getaddrinfo ENOTFOUND' >&2; exit 1", KindNetwork, ErrFailed, false, 0},
		{"no such model", formatCodex, script(`{"type":"turn.failed","error":{"message":"unexpected status 404 Not Found: no such model"}}`) + "exit 1", KindValidation, ErrFailed, false, 0},
		{"turns used up", formatClaude, script(`{"type":"result","subtype":"error_max_turns","is_error":true}`) + "exit 1", KindExecution, ErrFailed, false, 0},
		{"quota in a tool's result only", formatCodex, script(`{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"x","aggregated_output":"rate limit, 429","exit_code":0}}`) + "exit 1", KindExecution, ErrFailed, false, 0},
		{"own words", formatText, "echo 'purse is empty'; exit 1", KindResource, ErrQuota, true, 0},
		{"own words in a success", formatText, "echo 'purse is empty'", KindNone, nil, false, 0},
		{"ends early", formatGemini, script(`{"type":"message","role":"assistant","content":"hm"}`), KindExecution, ErrFailed, false, 0},
		{"says nothing", formatPi, "exit 0", KindExecution, ErrFailed, false, 0},
		{"not JSON", formatCodex, "echo hello; echo '{broken'; exit 1", KindExecution, ErrFailed, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := standIn(t, tc.format, tc.script)
			a.Quota = []string{"purse is EMPTY"}
			res, _ := play(t, a, nil)
			if res.Kind != tc.kind || !errors.Is(res.Err, tc.err) || res.Quota != tc.quota || (res.Err == nil) != res.Clean {
				t.Errorf("kind %q, quota %v, clean %v, %v", res.Kind, res.Quota, res.Clean, res.Err)
			}
			if d := res.RetryAfter - tc.after; d < -time.Minute || d > 0 {
				t.Errorf("try again after %s, want %s", res.RetryAfter, tc.after)
			}
			if res.Declared || strings.Contains(fmt.Sprint(res.Err), "\n") {
				t.Errorf("%+v", res)
			}
		})
	}
}

// seeds are the recorded streams and a few that are not right.
func seeds(f *testing.F) []string {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "streams", "*"))
	if err != nil || len(files) != 11 {
		f.Fatal(files, err)
	}
	out := []string{"", "\n\n", "{", `{"type":"result"}`, `{"type":"item.started","item":{"type":"command_execution"}}`, "{\"type\":\"text\",\"part\":null}\r\n", `{"type":1}`}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}
