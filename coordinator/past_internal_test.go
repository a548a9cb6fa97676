package coordinator

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/coordinator/transcript"
	"ralph/memory/config"
	"ralph/memory/history"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// longJournal holds n messages of about 200 bytes.
func longJournal(tb testing.TB, n int) *session.Journal {
	tb.Helper()
	dir := tb.TempDir()
	j, err := session.OpenJournal(nil, filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "quarantine"), nil)
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
		if batch = append(batch, session.Record{Kind: transcript.Message, Payload: payload}); len(batch) == cap(batch) || i == n-1 {
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
				if _, err := c.loadPast(j); err != nil {
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
	for _, kind := range []string{transcript.Message, transcript.Recalled, transcript.Compacted, transcript.Calibrated} {
		if err := f.take(session.Record{Seq: 7, Kind: kind, Payload: json.RawMessage(`"text"`)}); err == nil {
			t.Errorf("%s: no error", kind)
		}
	}
	if err := f.take(session.Record{Kind: "something newer", Payload: json.RawMessage(`[1]`)}); err != nil {
		t.Error(err)
	}
}

// What is left out a little at a time waits until it is worth a summary, and
// stands in that one's request.
func TestWhatIsLeftOutLittleByLittleIsSummarised(t *testing.T) {
	w := &window{c: pastOf(t, nil), estimate: &history.Estimate{}, maxTokens: 8000}
	s := &shorter{}
	for _, text := range []string{"never push on Fridays", "the port is 8123"} {
		left := []agent.Message{{Role: agent.RoleUser, Text: text}}
		if err := w.summarise(t.Context(), s, left, 100); err != nil || s.summary != "" || s.failed != "" {
			t.Fatalf("%+v, %v", s, err)
		}
		s = &shorter{state: s.state}
	}
	req, err := w.summaryRequest(s.state, []agent.Message{{Role: agent.RoleUser, Text: strings.Repeat("more ", 300)}}, 60)
	if err != nil {
		t.Fatal(err)
	}
	if want := "user: never push on Fridays\nuser: the port is 8123\nuser: more"; !strings.Contains(req.Messages[1].Text, want) {
		t.Errorf("the summary is asked for without %q:\n%.600s", want, req.Messages[1].Text)
	}
}

// How long a command took moves no cut: a replay takes another time.
func TestACutDoesNotDependOnHowLongACommandTook(t *testing.T) {
	long := strings.Repeat("a line of output\n", 400)
	say := func(took string) string {
		return strings.Replace(sayMessage(agent.Message{Role: agent.RoleTool, Text: "exit 0 after " + took + "\n" + long}, 600), took, "T", 1)
	}
	if a, b := say("9ms"), say("1m12.345s"); a != b || len(a) > 800 {
		t.Errorf("%q\n%q", a, b)
	}
}
