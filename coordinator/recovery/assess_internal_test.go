package recovery

import (
	"testing"
	"time"

	"ralph/memory"
)

// Whatever stands at the end of a journal or in a state file, it is read without
// harm, and what is said of it stays short.
func FuzzEnding(f *testing.F) {
	f.Add(`{"time":"2026-11-21T10:00:00Z","kind":"message","payload":{"role":"user","text":"go"}}` + "\n" +
		`{"time":"2026-11-21T10:01:00Z","kind":"message","payload":{"role":"assistant","calls":[{"id":"a","name":"shell","args":"{}"}]}}` + "\n")
	f.Add(`{"kind":"cleared"}` + "\n" + `{"kind":"outcome","payload":{}}`)
	f.Add("## 2026 — mend\n\n- Status: interrupted\n")
	f.Add("\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		e := readEnding([]byte(text))
		s := Report{Verdict: SameSession, Session: "001", Ended: CutOff, Said: e.said, Answered: e.answered, Call: e.call, At: e.at,
			Stopped: stoppedIn(text), Messages: len(text), Tasks: []memory.Task{{ID: "T-1", Title: text}}, Torn: []string{text}, Warnings: []string{text}}
		lines := s.Lines(time.Time{})
		if len(lines) == 0 || len(lines) > maxLines {
			t.Errorf("%d lines", len(lines))
		}
		if e.ended && e.call != "" {
			t.Error("a turn that has an end has an open call")
		}
	})
}
