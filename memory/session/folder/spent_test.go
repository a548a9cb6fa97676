package folder_test

import (
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/session/folder"
)

// TestWhatTheRunsUsed sees that the report claims no more about what was used
// than the runs tell: not of one that broke off, nor of one without a price.
func TestWhatTheRunsUsed(t *testing.T) {
	const (
		start  = `{"timestamp":"2026-07-01T10:00:00Z","event_type":"session_start","details":{"model":"a"}}`
		second = `{"timestamp":"2026-07-01T11:00:00Z","event_type":"session_start","details":{"model":"b"}}`
		begun  = `{"timestamp":"2026-07-01T10:00:00Z","event_type":"phase_start","details":{"task":"x"}}`
		phase  = `{"timestamp":"2026-07-01T10:00:00Z","event_type":"phase_start","details":{"phase":"planning"}}`
		priced = `{"timestamp":"2026-07-01T11:00:09Z","event_type":"phase_complete","result":"completed","details":{"usage":{"input":1000,"output":50,"total":1100},"cost_usd":0.5,"turns":3,"tool_calls":{"total":2,"failed":0}}}`
		free   = `{"timestamp":"2026-07-01T11:00:09Z","event_type":"phase_complete","result":"completed","details":{"usage":{"input":10,"output":1,"total":11},"cost_usd":null,"turns":1}}`
		none   = `{"timestamp":"2026-07-01T11:00:09Z","event_type":"phase_complete","result":"failed","details":{"usage":{"input":0,"output":0,"total":0},"cost_usd":null,"turns":0}}`
	)
	for _, c := range []struct {
		name   string
		events []string
		want   []string
		not    []string
	}{
		{"one", []string{start, phase, begun, priced}, []string{"| Model | a |", "| Turns | 3, with", "| Tokens | 1,100: 1,000 in", "| Cost | $0.5000 |"}, []string{"| Runs"}},
		{"one broke off", []string{start, begun, second, begun, priced}, []string{"| Model | a, b |", "| Runs | 2 runs; 1 broke off", "| Turns | at least 3", "| Tokens | at least 1,100:", "| Cost | at least $0.5000 |"}, nil},
		{"one without a price", []string{start, begun, free, begun, priced}, []string{"| Tokens | 1,111:", "| Cost | unknown |"}, nil},
		{"one that used nothing", []string{start, begun, none, begun, priced}, []string{"| Tokens | 1,100:", "| Cost | $0.5000 |"}, nil},
	} {
		fsys := afero.NewMemMapFs()
		log := `{"session_id":"001","events":[` + strings.Join(c.events, ",") + `]}`
		if err := afero.WriteFile(fsys, "/s/execution-log.json", []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := folder.ReportOptions{}.Text(fsys, "/s")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: there is no %q in\n%s", c.name, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(string(text), not) {
				t.Errorf("%s: %q is in\n%s", c.name, not, text)
			}
		}
	}
}
