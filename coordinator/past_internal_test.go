package coordinator

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/config"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// longJournal holds n messages of about 200 bytes.
func longJournal(tb testing.TB, n int) *session.Journal {
	tb.Helper()
	dir := tb.TempDir()
	j, err := session.OpenJournal(nil, filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "quarantine"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := j.Close(); err != nil {
			tb.Error(err)
		}
	})
	batch := make([]session.Record, 0, 1000)
	for i := range n {
		m := agent.Message{Role: agent.RoleUser, Text: fmt.Sprintf("message %d asks for a change of file%d.go in package p%d and for a test that proves it, which is to run under the race detector", i, i%97, i%13)}
		if i%2 == 1 {
			m.Role = agent.RoleAssistant
		}
		payload, err := json.Marshal(m)
		if err != nil {
			tb.Fatal(err)
		}
		if batch = append(batch, session.Record{Kind: recordMessage, Payload: payload}); len(batch) == cap(batch) || i == n-1 {
			if err := j.Append(1, batch...); err != nil {
				tb.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	return j
}

func pastOf(tb testing.TB, j *session.Journal) *Coordinator {
	tb.Helper()
	cfg, err := config.Load(config.Sources{})
	if err != nil {
		tb.Fatal(err)
	}
	c := &Coordinator{cfg: cfg, opt: Options{FS: afero.NewOsFs()}}
	c.book = &book{c: c, journal: j}
	return c
}

// BenchmarkLoadPast is what opening costs for the conversation alone.
func BenchmarkLoadPast(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		j := longJournal(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := pastOf(b, j)
			for b.Loop() {
				if err := c.loadPast(j); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(c.transcript)), "messages")
		})
	}
}

// BenchmarkIndexPast is what the first choice in a session of 100,000 messages
// costs.
func BenchmarkIndexPast(b *testing.B) {
	j := longJournal(b, 100_000)
	c := pastOf(b, j)
	for b.Loop() {
		c.DropHistory()
		if err := c.indexPast(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(c.DropHistory())/1e6, "MB")
}

// A record that cannot be read is an error that names it; unknown kinds are not.
func TestFoldNamesBadRecords(t *testing.T) {
	f := &fold{c: &Coordinator{}}
	for _, kind := range []string{recordMessage, recordRecalled, recordCompacted, recordCalibrated} {
		if err := f.take(session.Record{Seq: 7, Kind: kind, Payload: json.RawMessage(`"text"`)}); err == nil {
			t.Errorf("%s: no error", kind)
		}
	}
	if err := f.take(session.Record{Kind: "something newer", Payload: json.RawMessage(`[1]`)}); err != nil {
		t.Error(err)
	}
}
