package folder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/memory/durable"
)

// TestLargeLog has a program make a log as large as it can in no time: its events are read,
// and of the rest no more than is needed to see that.
func TestLargeLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, logFile)
	text := `{"session_id": "1", "events": [
    {"timestamp": "2026-01-02T03:04:05Z", "event_type": "session_start"}`
	for _, end := range []string{"", ",\n    {\"timestamp\":", "\n  ]\n}\n"} {
		if err := os.WriteFile(path, []byte(text+end), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 20<<30); err != nil {
			t.Fatal(err)
		}
		r, err := OpenLog(durable.Disk(), dir)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil {
			if _, _, err = r.Next(); err == nil {
				n++
			}
		}
		if n != 1 || r.Broken() == nil {
			t.Errorf("%q: %d events, %v, %v", end, n, err, r.Broken())
		}
		if r.base > 2*durable.MaxDamage {
			t.Errorf("%q: it was read to %d", strings.TrimSpace(end), r.base)
		}
		_ = r.Close() // only read from
	}
}
