package scripts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"ralph/interrupts"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

var logsChecker = sync.OnceValue(func() func(map[string]any) error {
	r := resolve(schemaOf("logs"))
	return func(d map[string]any) error { return r.Validate(d) }
})

// imported copies a fixture into the sessions of the bench's project.
func (b *bench) imported(id, fixture string) string {
	b.Helper()
	to := filepath.Join(b.dir, ".ralph", "sessions", "session-"+id+"-"+fixture)
	if err := os.CopyFS(to, os.DirFS(filepath.Join("..", "testdata", "sessions", fixture))); err != nil {
		b.Fatal(err)
	}
	return to
}

// TestLogsOfEverySession: whatever stands in a folder, the document fits its schema,
// a line is an event, and nothing of it is obeyed by a terminal.
func TestLogsOfEverySession(t *testing.T) {
	for fixture, read := range map[string]int{"clean": -1, "contradiction": -1, "older-shape": -1, "bare-features": -1, "cut-log": 4, "disorder": -1, "hostile": -1, "live": -1, "foreign": -1} {
		b := newBench(t)
		dir := b.imported("001", fixture)
		if code := b.run("logs", "1", "--json"); code != 0 {
			t.Errorf("%s: exit %d: %s", fixture, code, b.err.String())
			continue
		}
		doc := decode(t, b.out.String())
		if err := logsChecker()(doc); err != nil {
			t.Errorf("%s: %v\n%s", fixture, err, b.out.String())
		}
		events := doc["events"].([]any)
		if n := len(events); n == 0 || float64(n) != doc["matched"] || doc["read"] != doc["matched"] || read >= 0 && n != read {
			t.Errorf("%s: %d events, matched %v, read %v", fixture, n, doc["matched"], doc["read"])
		}
		for i, e := range events {
			if id := e.(map[string]any)["id"]; id != fmt.Sprintf("e%d", i+1) {
				t.Errorf("%s: event %d is %v", fixture, i+1, id)
			}
		}
		if code := b.run("logs", dir, "--output", "jsonl"); code != 0 || strings.Count(b.out.String(), "\n") != len(events) {
			t.Errorf("%s: exit %d, %d lines", fixture, code, strings.Count(b.out.String(), "\n"))
		}
		if code := b.run("logs", "--session", "001"); code != 0 || strings.Count(b.out.String(), "\n") != len(events) {
			t.Errorf("%s: exit %d, %d lines of text", fixture, code, strings.Count(b.out.String(), "\n"))
		}
		if text := b.out.String(); strings.ContainsAny(text, "\x1b\r\x00\u202e") || !utf8.ValidString(text) {
			t.Errorf("%s: the text is not safe", fixture)
		}
	}
	b := newBench(t)
	b.imported("001", "empty")
	if code := b.run("logs", "1"); code != 1 {
		t.Errorf("without a log: exit %d", code)
	}
	b.wantErr("session 001 has no log", "ralph: hint:")
	b.imported("002", "cut-log")
	b.run("logs", "2")
	b.wantErr("the log of session 002 is damaged")
}

// made writes a log of our own.
func (b *bench) made(id string, events ...folder.Event) string {
	b.Helper()
	dir := filepath.Join(b.dir, ".ralph", "sessions", "session-"+id+"-made")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	f, err := folder.Open(folder.Options{Dir: dir, SessionID: id})
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range events {
		f.Log(e)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	b.file(".ralph/sessions/session-"+id+"-made/session-metadata.yaml", "session_id: \""+id+"\"\nstatus: completed\n")
	return dir
}

func TestLogsFilter(t *testing.T) {
	b := newBench(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	b.made("001",
		folder.Event{Time: at(50 * time.Hour), Type: folder.SessionStart},
		folder.Event{Time: at(3 * time.Hour), Type: folder.Errored, TaskID: "T-1", Duration: 61 * time.Second, Details: map[string]any{"kind": "timeout", "agent": "a"}},
		folder.Event{Time: at(30 * time.Minute), Type: folder.Errored, TaskID: "T-2", Duration: 59 * time.Second, Details: map[string]any{"n": 3}},
		folder.Event{Time: at(time.Minute), Type: folder.TaskComplete, TaskID: "T-2", TaskName: "Two", Result: "done", Details: map[string]any{"n": "three"}},
	)
	ids := func(args ...string) string {
		t.Helper()
		if code := b.run(append([]string{"logs", "--output", "jsonl"}, args...)...); code != 0 {
			t.Fatalf("%q: exit %d: %s", args, code, b.err.String())
		}
		var got []string
		for line := range strings.Lines(b.out.String()) {
			got = append(got, decode(t, line)["id"].(string))
		}
		return strings.Join(got, " ")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "e1 e2 e3 e4"},
		{[]string{"--where", `event_type == "error" && duration_seconds > 60`}, "e2"},
		{[]string{"--where", `id in ["e1", "e4"]`}, "e1 e4"},
		{[]string{"--where", `agent == "a" or task_name startsWith "Tw"`}, "e2 e4"},
		{[]string{"--where", `details.kind == "timeout"`}, "e2"},
		{[]string{"--where", fmt.Sprintf("timestamp >= date(%q)", at(30*time.Minute).Format(time.RFC3339Nano))}, "e3 e4"},
		{[]string{"--where", `timestamp > now() - duration("10m")`}, "e4"},
		{[]string{"--since", "1h"}, "e3 e4"},
		{[]string{"--since", "2d"}, "e2 e3 e4"},
		{[]string{"--since", "1d", "--until", "1h"}, "e2"},
		{[]string{"--until", at(3 * time.Hour).Format(time.RFC3339Nano)}, "e1"},
		{[]string{"-n", "2"}, "e3 e4"},
		{[]string{"--tail", "0"}, ""},
		{[]string{"-n", "9", "--where", `event_type == "error"`}, "e2 e3"},
		{[]string{"-n", "1", "--where", `event_type == "error"`}, "e3"},
		{[]string{"--follow"}, "e1 e2 e3 e4"},
	} {
		if got := ids(c.args...); got != c.want {
			t.Errorf("%q shows %q, want %q", c.args, got, c.want)
		}
	}
	if got := ids("--where", "details.n > 2"); got != "e3" {
		t.Errorf("no answer: %q", got)
	}
	b.wantErr("--where has no answer for 3 events, the first of them e1")
	b.run("logs", "--json", "--where", "details.n > 2")
	if d := b.document(); d["unanswered"] != 3.0 || d["matched"] != 1.0 || d["read"] != 4.0 || len(d["warnings"].([]any)) != 1 {
		t.Errorf("%v", d)
	}
}

func TestLogsRefused(t *testing.T) {
	b := newBench(t)
	b.made("001", folder.Event{Type: folder.SessionStart})
	b.made("002", folder.Event{Type: folder.SessionStart})
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--where", `duration_seconds > 60 && event_typ == "x"`}, []string{"unknown name event_typ (line 1, column 26)\n  duration_seconds > 60 && event_typ == \"x\"\n" + strings.Repeat(" ", 27) + "^", "did you mean event_type?"}},
		{[]string{"--where", "日本 =="}, []string{"--where:", "^"}},
		{[]string{"--where", "1 + 1"}, []string{"bool"}},
		{[]string{"--where", strings.Repeat("(", 5000)}, []string{"longer than 4096 bytes"}},
		{[]string{"--where", `timestamp > "soon"`}, []string{`"soon" is no time`}},
		{[]string{"--since", "soon"}, []string{`--since: "soon" is no time`, "10m, 2h, 3d"}},
		{[]string{"--since", "1h", "--until", "2h"}, []string{"is before --since"}},
		{[]string{"-n", "-3"}, []string{"a number from 0"}},
		{[]string{"-f", "--json"}, []string{"no end that one document could wait for"}},
		{[]string{"1", "--session", "2"}, []string{`"1" and --session 2: name one session`}},
		{[]string{"--session", "new"}, []string{"not begun yet"}},
		{[]string{"1", "2"}, []string{`one word too many: "2"`}},
		{[]string{"17"}, []string{"no such session"}},
	} {
		if code := b.run(append([]string{"logs"}, c.args...)...); code != 2 {
			t.Errorf("%q: exit %d", c.args, code)
		}
		b.wantErr(c.want...)
	}
	if code := newBench(t).run("logs"); code != 2 {
		t.Errorf("no session at all: exit %d", code)
	}
}

// signalled is a buffer on whose content somebody waits.
type signalled struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (s *signalled) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *signalled) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until a text was written.
func (s *signalled) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q does not come:\n%s", text, s.String())
		}
	}
}

// TestLogsFollow: each event of a session at work is shown once, in order, also when
// its log is put in place anew, until the session ends.
func TestLogsFollow(t *testing.T) {
	b := newBench(t)
	unlock := b.held()
	s, err := session.Create(session.Options{StateDir: filepath.Join(b.dir, ".ralph")}, "followed")
	if err != nil {
		t.Fatal(err)
	}
	s.Folder().Log(folder.Event{Type: folder.SessionStart})
	if err := s.Folder().Flush(); err != nil {
		t.Fatal(err)
	}
	var out signalled
	b.stdout = &out
	var wg sync.WaitGroup
	code := -1
	wg.Go(func() { code = b.run("logs", "-f", "--output", "jsonl") })
	out.await(t, "session_start")
	for i := range 50 {
		s.Folder().Log(folder.Event{Type: folder.TaskStart, TaskID: fmt.Sprint("T-", i)})
		if i%7 == 0 {
			out.await(t, fmt.Sprintf(`"T-%d"`, i))
		}
		if i == 25 { // somebody's editor saves it by a rename
			path := filepath.Join(s.Dir(), "execution-log.json")
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".new", data, 0o600)
			}
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s.End(session.Completed, "all done")
	s.Folder().Log(folder.Event{Type: folder.SessionEnd, Result: "completed"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unlock()
	wg.Wait()
	if code != 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	b.wantErr("session 001 ended: completed")
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if e := decode(t, line); e["id"] != fmt.Sprintf("e%d", i+1) || i > 0 && i <= 50 && e["task_id"] != fmt.Sprintf("T-%d", i-1) {
			t.Fatalf("line %d: %s", i+1, line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 52 {
		t.Errorf("%d lines", n)
	}
}

// To leave a session that goes on is 130, and its lines are out by then. One whose
// Ralph dies is over.
func TestLogsFollowEnds(t *testing.T) {
	b := newBench(t)
	unlock := b.held()
	s, err := session.Create(session.Options{StateDir: filepath.Join(b.dir, ".ralph")}, "left")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.Folder().Log(folder.Event{Type: folder.SessionStart})
	if err := s.Folder().Flush(); err != nil {
		t.Fatal(err)
	}
	var out signalled
	b.stdout = &out
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		out.await(t, "session_start")
		cancel(&interrupts.Stop{Signal: syscall.SIGINT})
	})
	if code := b.runCtx(ctx, "logs", "-f"); code != 130 || b.err.Len() > 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	wg.Wait()
	unlock() // it dies: the session says in_progress for ever
	out.text.Reset()
	if code := b.run("logs", "-f"); code != 0 || !strings.Contains(out.String(), "session_start") {
		t.Errorf("exit %d: %s", code, out.String())
	}
	b.wantErr("session 001 reads interrupted: its Ralph is gone") // in the words of who saw it die
}

// FuzzWhen: whatever is given as a time is one, or is refused in one line.
func FuzzWhen(f *testing.F) {
	for _, s := range []string{"10m", "2h", "3d", "today", "2026-11-21", "2026-11-21T15:04:05Z", "-1h", "1e300d", "9999999h", "d", "", "NaNd", "0x1p3d", "2026-11-21 15:04"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := whenText(s, now)
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %q", s, err)
		}
		if err == nil && got.IsZero() && !strings.HasPrefix(s, "0001") {
			t.Errorf("%q is no time at all", s)
		}
	})
}

// A line of a log is one row, as wide as it may be at most, whatever is in the event.
func TestLogLinesFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"", "done", "日本語のタイトル", "a\nb", "\x1b[2J", "👩‍👩‍👧", strings.Repeat("long ", 50), "\u202eevil", "x=\"1\""}
	word := func() string { return words[r.IntN(len(words))] }
	for range 2000 {
		text := logText{columns: r.IntN(120)}
		if text.columns < 10 {
			text.columns = 0
		}
		e := folder.Event{Type: folder.EventType(word()), TaskID: word(), TaskName: word(), Result: word(), Duration: time.Duration(r.Int64N(1e12)),
			Details: map[string]any{word(): word(), "n": r.Float64(), "list": []any{word()}, "map": map[string]any{word(): nil}}}
		line := text.line(logEntry{e, "e1"})
		if strings.ContainsAny(line, "\n\x1b\u202e") || !utf8.ValidString(line) || text.columns > 0 && width(line) > text.columns {
			t.Fatalf("%d columns: %q", text.columns, line)
		}
	}
}

// TestLogsCutShort: a document that is begun is ended whatever comes in between,
// and tells what; lines are whole.
func TestLogsCutShort(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}} {
		for _, form := range []string{"json", "jsonl"} {
			b := newBench(t)
			var events []folder.Event
			for i := range 6000 {
				events = append(events, folder.Event{Time: time.Unix(int64(i), 0), Type: folder.Errored, Result: strings.Repeat("é", i%50)})
			}
			b.made("001", events...)
			ctx, stop := context.WithCancelCause(context.Background())
			b.stdout = writerFunc(func(p []byte) (int, error) { // the first part is out: the signal comes now
				stop(&interrupts.Stop{Signal: c.signal})
				return b.out.Write(p)
			})
			code := b.runCtx(ctx, "logs", "1", "--output", form)
			stop(nil)
			if code != c.code {
				t.Errorf("%s, %s: exit %d: %s", form, c.signal, code, b.err.String())
			}
			if form == "jsonl" {
				for line := range strings.Lines(b.out.String()) {
					decode(t, line)
				}
				continue
			}
			doc := decode(t, b.out.String())
			if err := logsChecker()(doc); err != nil {
				t.Error(err)
			}
			failure, _ := doc["error"].(map[string]any)
			if n := len(doc["events"].([]any)); doc["ok"] != false || failure["kind"] != "interrupted" || n == 0 || n == 6000 || float64(n) != doc["matched"] {
				t.Errorf("%s: ok %v, error %v, %d events, matched %v", c.signal, doc["ok"], doc["error"], n, doc["matched"])
			}
		}
	}
}

// TestLogsManyLast: more last events than are held are the same ones, and what
// --where had no answer for is counted once.
func TestLogsManyLast(t *testing.T) {
	b := newBench(t)
	var events []folder.Event
	for i := range 3 * maxHeld {
		details := map[string]any{"n": i}
		if i%3 == 0 {
			details = map[string]any{"n": "text"}
		}
		events = append(events, folder.Event{Time: time.Unix(int64(i), 0), Type: folder.Errored, Details: details})
	}
	b.made("001", events...)
	for _, n := range []int{maxHeld, maxHeld + 1, 2*maxHeld - 1, 2 * maxHeld, 1 << 30} {
		if code := b.run("logs", "1", "--json", "-n", fmt.Sprint(n), "--where", "details.n >= 0"); code != 0 {
			t.Fatalf("exit %d: %s", code, b.err.String())
		}
		doc := decode(t, b.out.String())
		list := doc["events"].([]any)
		want := min(n, 2*maxHeld)
		if len(list) != want || doc["read"] != float64(3*maxHeld) || doc["unanswered"] != float64(maxHeld) || doc["ok"] != true || doc["error"] != nil {
			t.Errorf("-n %d: %d events, read %v, unanswered %v, ok %v", n, len(list), doc["read"], doc["unanswered"], doc["ok"])
		}
		if last := list[len(list)-1].(map[string]any)["id"]; last != fmt.Sprintf("e%d", 3*maxHeld) {
			t.Errorf("-n %d: the last is %v", n, last)
		}
	}
}

// TestLogsWords: what is empty is no filter that shows everything, an event whose
// time nobody knows is in no span, "last" is a session as with --session, and a
// folder here is told from a session.
func TestLogsWords(t *testing.T) {
	b := newBench(t)
	b.made("001", folder.Event{Time: time.Unix(1, 0), Type: folder.SessionStart})
	dir := b.imported("002", "empty")
	if err := os.WriteFile(filepath.Join(dir, "execution-log.json"), []byte(`{"events":[{"event_type":"message"},{"event_type":"error","timestamp":"2026-01-01T00:00:00Z"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"where", "since", "until"} {
		if code := b.run("logs", "1", "--"+flag, ""); code != 2 {
			t.Errorf("--%s '': exit %d", flag, code)
		}
		b.wantErr("--" + flag + " is empty")
	}
	for _, span := range [][]string{{"--since", "2020-01-01"}, {"--until", "2027-01-01"}} {
		if code := b.run(append([]string{"logs", "2"}, span...)...); code != 0 || strings.Count(b.out.String(), "\n") != 1 {
			t.Errorf("%v: exit %d: %s", span, code, b.out.String())
		}
	}
	if code := b.run("logs", "last"); code != 0 {
		t.Errorf("last: exit %d: %s", code, b.err.String())
	}
	if err := os.Mkdir(filepath.Join(b.dir, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if code := b.run("logs", "kept"); code != 2 {
		t.Errorf("a folder: exit %d", code)
	}
	b.wantErr("the folder here is ./kept")
}

// TestLogsReaderGone: who follows a log that says nothing more sees that nobody
// reads what it writes.
func TestLogsReaderGone(t *testing.T) {
	b := newBench(t)
	dir := b.made("001", folder.Event{Time: time.Unix(1, 0), Type: folder.SessionStart})
	if err := os.WriteFile(filepath.Join(dir, "session-metadata.yaml"), []byte("session_id: \"001\"\nstatus: in_progress\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "session-001-x") // nobody knows who works in it
	if err := os.CopyFS(elsewhere, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b.stdout = w
	ended := make(chan int, 1)
	go func() { ended <- b.run("logs", elsewhere, "-f") }()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	select {
	case code := <-ended:
		if code != 141 {
			t.Errorf("exit %d: %s", code, b.err.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on for nobody")
	}
	_ = w.Close()
}
