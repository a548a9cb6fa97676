package folder

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"
)

// TestVeryManyEntriesArePacked: ReadEach shows the same decisions and errors as
// Read does, but for what it says it leaves out, and holds few of them whole.
func TestVeryManyEntriesArePacked(t *testing.T) {
	const n = maxWhole + maxMessages + 500
	var decisions, failures []string
	for i := range n {
		when := fmt.Sprintf("2026-01-01T%02d:%02d:%02d.%03dZ", i/3600%24, i/60%60, i%60, i%1000)
		if i%7 == 0 {
			when = ""
		}
		decisions = append(decisions, fmt.Sprintf(`{"timestamp":%q,"task_id":"T-%d","decision_type":"task","context":{"current_task":"T-%d","risk_assessment":{"execution":%v}},`+
			`"decision":{"action":"execute","confidence":0.%d,"rationale":"because %d"},"outcome":"%s"}`, when, i/2, i/2, float64(i%3)/2, i%10, i, []string{"", "success"}[i%2]))
		kind, took := fmt.Sprintf("Kind%d", i%5), ""
		if i%11 == 0 {
			kind = ""
		}
		if i%2 == 0 {
			took = fmt.Sprintf(`,"resolution_time_seconds":%d.5`, i%13)
		}
		failures = append(failures, fmt.Sprintf(`{"timestamp":%q,"task_id":"T-%d","error_type":%q,"error_message":"went wrong at %d","severity":"high","retry_count":%d,"recovery_action":"retry","resolved":%v%s}`,
			when, i/2, kind, i, i%4, i%2 == 0, took))
	}
	fs := afero.NewMemMapFs()
	for name, text := range map[string]string{decisionsFile: `{"session_id":"001","decisions":[` + strings.Join(decisions, ",\n") + "]}",
		errorsFile: `{"session_id":"001","errors":[` + strings.Join(failures, ",\n") + "]}"} {
		if err := afero.WriteFile(fs, "/s/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := Read(fs, "/s")
	if err != nil {
		t.Fatal(err)
	}
	lean, err := ReadEach(fs, "/s", func(string, Event) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Decisions) != n || len(whole.Failures) != n || len(lean.Decisions) != maxWhole || len(lean.Failures) != maxWhole {
		t.Fatalf("whole %d and %d, lean %d and %d", len(whole.Decisions), len(whole.Failures), len(lean.Decisions), len(lean.Failures))
	}
	if lean.NDecisions() != n || lean.NFailures() != n || len(lean.Problems) > 0 {
		t.Fatalf("%d decisions and %d errors, problems %v", lean.NDecisions(), lean.NFailures(), lean.Problems)
	}
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	decided, failed := maps.Collect(lean.EachDecision()), maps.Collect(lean.EachFailure())
	for i := range n {
		d, f := whole.Decisions[i], whole.Failures[i]
		if i >= maxWhole {
			d.Decision.Rationale, d.Decision.Alternatives, d.Context.AvailableActions = "", nil, nil
		}
		if i >= maxWhole+maxMessages && f.ErrorType != "" {
			f.ErrorMessage = ""
		}
		if diff := cmp.Diff(text(d), text(decided[i])); diff != "" {
			t.Fatalf("decision %d: %s", i, diff)
		}
		if diff := cmp.Diff(text(f), text(failed[i])); diff != "" {
			t.Fatalf("error %d: %s", i, diff)
		}
		if d.Time.IsZero() != decided[i].Time.IsZero() || f.Time.IsZero() != failed[i].Time.IsZero() {
			t.Fatalf("times of %d", i)
		}
	}
}

// TestPackedWordsOfAFileReadOtherwise: a list that turns out to be read whole
// leaves no words behind that another would be given.
func TestPackedWordsOfAFileReadOtherwise(t *testing.T) {
	var decisions, failures []string
	for i := range maxWhole + 1000 {
		decisions = append(decisions, fmt.Sprintf(`{"task_id":"T-%d","decision_type":"task","decision":{"action":"execute %s"}}`, i, strings.Repeat("x", 200)))
		failures = append(failures, fmt.Sprintf(`{"task_id":"T-%d","error_type":"E%d","error_message":"%s"}`, i, i%3, strings.Repeat("y", 200)))
	}
	fs := afero.NewMemMapFs()
	list := strings.Join(decisions, ",\n")
	for name, text := range map[string]string{decisionsFile: `{"decisions":[` + list + `],"session_id":"1","session_id":"2"}`, errorsFile: `{"errors":[` + strings.Join(failures, ",\n") + "]}"} {
		if err := afero.WriteFile(fs, "/s/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := ReadEach(fs, "/s", func(string, Event) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range d.EachFailure() {
		if f.TaskID != fmt.Sprintf("T-%d", i) || f.ErrorType != fmt.Sprintf("E%d", i%3) {
			t.Fatalf("error %d is %+v", i, f)
		}
	}
	if d.NDecisions() != len(decisions) || d.NFailures() != len(failures) {
		t.Fatalf("%d decisions, %d errors", d.NDecisions(), d.NFailures())
	}
}
