package folder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

// TestReportOfALogAlone: what only the log tells is told, and nothing is called
// not recorded that it holds.
func TestReportOfALogAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "session-004-alone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := `{"session_id":"004","events":[
{"timestamp":"2026-11-20T09:00:00Z","event_type":"session_start"},
{"timestamp":"2026-11-20T09:00:01Z","event_type":"task_start","task_id":"B","task_name":"Second letter"},
{"timestamp":"2026-11-20T09:00:02Z","event_type":"error","task_id":"B","details":{"kind":"network","message":"the line is dead"}},
{"timestamp":"2026-11-20T09:01:06Z","event_type":"task_complete","task_id":"B","result":"success","duration_seconds":65},
{"timestamp":"2026-11-20T09:01:07Z","event_type":"task_start","task_id":"A","task_name":"First letter"},
{"timestamp":"2026-11-20T09:01:08Z","event_type":"task_complete","task_id":"A","result":"failed"},
{"timestamp":"2026-11-20T09:01:09Z","event_type":"task_start","task_id":"C"}]}`
	if err := os.WriteFile(filepath.Join(dir, logFile), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := ReportOptions{}.Text(afero.NewOsFs(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"**Date:** 2026-11-20", "The session began at 2026-11-20T09:00:00Z and has no end yet. Of 3 tasks 1 was completed, 1 given up, 1 not finished. The log tells of 1 error.",
		"| B Second letter | completed | 1 min 05 s | – |  |\n| A First letter | error | – | – |  |\n| C | in_progress | – | – |  |\n",
		"**unknown** network in B: the line is dead — whether it was resolved is not recorded",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "were recorded") {
		t.Errorf("something is said not to be recorded:\n%s", text)
	}
}
