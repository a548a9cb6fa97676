package external

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBuiltin(t *testing.T) {
	all, err := Adapters(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(all); !slices.Equal(got, []string{"claude", "codex", "gemini", "opencode", "pi"}) {
		t.Errorf("%v", got)
	}
	for _, a := range all {
		if err := a.check(); err != nil {
			t.Error(err)
		}
		for _, arg := range a.Argv {
			if strings.Contains(arg, "dangerously") || strings.Contains(arg, "full-auto") || strings.Contains(arg, "bypass") || strings.Contains(arg, "worktree") {
				t.Errorf("%s: %s", a.Name, arg)
			}
		}
		for _, e := range a.Env {
			if strings.HasPrefix(e, "RALPH_") || strings.Contains(e, "*") {
				t.Errorf("%s gets %s", a.Name, e)
			}
		}
	}
	if _, err := Find(all, "cluade"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "claude, codex") {
		t.Error(err)
	}
}

func TestCustom(t *testing.T) {
	all, err := Adapters([]Custom{
		{Name: "mine", Command: []string{"my-agent", "--go"}, Input: "stdin", Env: []string{"MY_KEY"}, Idle: time.Minute},
		{Name: "codex", Args: []string{"-c", "x=1"}, Model: "o9", Quota: []string{"no more"}},
		{Name: "gemini", Args: []string{"--debug"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := Find(all, "mine")
	if err != nil || mine.Format != formatText || mine.Input != inputStdin || mine.Idle != time.Minute || !slices.Equal(mine.Env, []string{"MY_KEY"}) {
		t.Errorf("%+v, %v", mine, err)
	}
	codex, err := Find(all, "codex")
	if n := len(codex.Argv); err != nil || codex.Model != "o9" || codex.Format != formatCodex || !slices.Equal(codex.Argv[n-3:], []string{"-c", "x=1", "{prompt}"}) {
		t.Errorf("%+v, %v", codex, err)
	}
	gemini, err := Find(all, "gemini")
	if n := len(gemini.Argv); err != nil || !slices.Equal(gemini.Argv[n-3:], []string{"--debug", "-p", "{prompt}"}) {
		t.Errorf("%+v, %v", gemini, err)
	}
	if b, err := Find(Builtin(), "codex"); err != nil || slices.Contains(b.Argv, "x=1") || len(b.Quota) > 0 {
		t.Errorf("the entry changed what is built in: %+v, %v", b, err)
	}
	for _, tc := range []struct {
		c    Custom
		want string
	}{
		{Custom{Name: "nope", From: "config.yaml:7"}, `config.yaml:7: agent "nope": has no "command"`},
		{Custom{Name: "rel", Command: []string{"./agent"}}, "would be the project's"},
		{Custom{Name: "in", Command: []string{"a"}, Input: "pipe"}, `input "pipe"`},
		{Custom{Name: "form", Command: []string{"a"}, Format: "xml"}, `format "xml"`},
		{Custom{Name: "both", Command: []string{"a", "{prompt}"}, Input: "stdin"}, "cannot be both"},
		{Custom{Name: "twice", Command: []string{"a", "{prompt}", "{prompt}"}}, "more than once"},
		{Custom{Name: "re", Command: []string{"a"}, Quota: []string{"("}}, "quota pattern"},
		{Custom{Name: "hole", Command: []string{"{model}"}}, "without a placeholder"},
	} {
		if _, err := Adapters([]Custom{tc.c}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.c.Name, err)
		}
	}
}

func TestPromised(t *testing.T) {
	const p = promise
	for text, want := range map[string]bool{
		p: true, "ok\n" + p + "\n": true, p + "\nSummary: x": true, "**" + p + "**": true, "All is done. " + p: true, "done " + p + ".": true, "  " + p: true,
		"<promise>complete</promise>": true, "<promise> COMPLETE </promise>": true, "< Promise >\n  Complete\n</ PROMISE >": true, "`" + p + "`": true, "x\n\n`<promise>Complete</promise>`\n": true,
		"No test fails. Nothing is not done. " + p: true, p + "\n\nAll 12 tests pass.": true, "```\ncode\n```\n" + p: true, "Task complete: " + p: true,
	} {
		if got, why := promised(text, "a\nb", false); got != want || why != "" {
			t.Errorf("%q: %v %q", text, got, why)
		}
	}
	for text, want := range map[string]string{
		"": "", "done": "", "<promise>INCOMPLETE</promise>": "", "I do not say " + p + " yet": "words follow", "say `" + p: "quoted", `say "` + p + `"`: "quoted", "> " + p: "quotation",
		"    " + p + "\nis code": "code", "~~~\n" + p + "\n~~~": "code", "```xml\n" + p + "\n": "code", "````\n```\n" + p + "\n````": "code", "\t" + p + "\n.": "code",
		"It is not " + p: "sentence", "Say " + p: "sentence", "I can't say " + p: "sentence", "Once the tests pass I will say " + p: "sentence", "I haven't output <promise>complete</promise>.": "sentence",
		p + "\nbut two tests do not pass": "follows", p + "\n\nNext I would\nlook at the rest": "follows", p + "\none two three four five six seven eight nine ten eleven twelve thirteen": "follows",
	} {
		if got, why := promised(text, "a\nb", false); got || (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%q: %v %q", text, got, why)
		}
	}
	prompt := "Do it.\nWhen it is done end with\n\n" + p
	for text, want := range map[string]bool{prompt: false, "x\n" + prompt + "\n\n": false, "Did it.\n" + p: true, "When it is done end with\n" + p: false} {
		if got, why := promised(text, prompt, false); got != want || got != (why == "") {
			t.Errorf("of the prompt: %q: %v %q", text, got, why)
		}
	}
	for text, want := range map[string]bool{"end with " + p: false, "say " + p: false, "x\n```\n" + p: true} {
		if got, _ := promised(text, "end with "+p, true); got != want {
			t.Errorf("the tail of a text: %q: %v", text, got)
		}
	}
	for text, want := range map[string]string{"Did it.\n`<promise>complete</promise>`": "Did it", "Did it. " + p + "\nBye": "Did it\nBye", p: ""} {
		if got := Said(Result{Final: text, Declared: true}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "try again later": 0, "retry after 30s": 30 * time.Second, "Retry-After: 12": 12 * time.Second, `"retry-after":"7"`: 7 * time.Second,
		`"retryDelay":"34.5s"`: 34500 * time.Millisecond, "try again in 5 minutes": 5 * time.Minute, "try again in 1h 30m.": 90 * time.Minute,
		"Please try again in 20ms": 20 * time.Millisecond, "try again in 2 days, 3 hours and 1 minute": 51*time.Hour + time.Minute,
		"retry in 99999999999 days": 0, "retry after 1e9s": 0, "wait 400 days": maxRetryAfter, "retry after 12 apples": 12 * time.Second, "resets in 2h": 2 * time.Hour,
	} {
		if got := retryAfter(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzStreams: whatever a stream holds, reading ends, memory stays bounded, each
// call has one end, and a promise outside the final text is not taken.
func FuzzStreams(f *testing.F) {
	for _, format := range []string{formatText, formatClaude, formatCodex, formatGemini, formatOpencode, formatPi} {
		for _, s := range seeds(f) {
			f.Add(format, s)
		}
	}
	f.Fuzz(func(t *testing.T, format, text string) {
		if readerOf(format) == nil {
			return
		}
		whole := newIntake(format, nil)
		whole.write([]byte(text))
		whole.close()
		pieces := newIntake(format, nil)
		for i := 0; i < len(text); i += 7 {
			pieces.write([]byte(text[i:min(i+7, len(text))]))
		}
		pieces.close()
		a, b := whole.s, pieces.s
		if a.final() != b.final() || a.calls != b.calls || a.closed != b.closed || a.usage != b.usage || whole.lines != pieces.lines || whole.skipped != pieces.skipped {
			t.Errorf("in pieces it reads otherwise: %q %q", a.final(), b.final())
		}
		if len(a.open) > 0 || len(a.final()) > maxFinal || a.ok+a.bad > a.calls {
			t.Errorf("%d open, %d bytes, %d+%d of %d calls", len(a.open), len(a.final()), a.ok, a.bad, a.calls)
		}
		if ok, _ := promised(a.final(), "", a.cut); ok && !promiseForms().MatchString(a.final()) {
			t.Error("a promise out of nothing")
		}
		_ = faultOf(failure{text: text}, nil)
	})
}
