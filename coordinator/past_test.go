package coordinator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// told makes a session whose journal holds these messages.
func (p *project) told(messages []agent.Message) {
	p.Helper()
	s, err := session.Create(session.Options{StateDir: p.path(".ralph")}, "long")
	if err != nil {
		p.Fatal(err)
	}
	var batch []session.Record
	for i, m := range messages {
		payload, err := json.Marshal(m)
		if err != nil {
			p.Fatal(err)
		}
		batch = append(batch, session.Record{Kind: "message", Payload: payload})
		if len(batch) == 1000 || i == len(messages)-1 {
			if err := s.Journal().Append(1, batch...); err != nil {
				p.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := s.Close(); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(p.path(".ralph/FORMAT"), []byte("ralph 1\n"), 0o600); err != nil {
		p.Fatal(err)
	}
}

// chat is n messages, of which every pair speaks of something else.
func chat(n int) []agent.Message {
	things := []string{"the parser", "billing", "the search page", "the exporter", "the scheduler", "the login form", "the mail queue"}
	var list []agent.Message
	for i := 0; len(list) < n; i++ {
		list = append(list, agent.Message{Role: agent.RoleUser, Text: fmt.Sprintf("step %d: please look after %s, it fails in case %d of the table", i, things[i%len(things)], i*7%1000)},
			agent.Message{Role: agent.RoleAssistant, Text: fmt.Sprintf("I changed %s in file%d.go and ran the tests, which pass now; case %d was an off-by-one.", things[i%len(things)], i%97, i*7%1000)})
	}
	return list
}

// Of a long session only the end is loaded; what a task needs of the rest is
// found and shown to the model, once.
func TestALongSessionIsLoadedFromItsEnd(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"), text("done again"))
	list := chat(20_000)
	list[41] = agent.Message{Role: agent.RoleAssistant, Text: "Remember: the staging database listens on 10.3.7.21:5433 and its role is app_ro."}
	p.told(list)
	p.session = "last"
	c := p.open()
	if n := len(c.History()); n == 0 || n > 5000 {
		t.Errorf("%d messages are loaded", n)
	}
	p.turn(c, "point the integration tests to the staging database")
	got := p.joined(1)
	if !strings.Contains(got, "10.3.7.21:5433") || !strings.Contains(got, "[Ralph: from the earlier part") || !strings.HasSuffix(got, "user: point the integration tests to the staging database\n") {
		t.Errorf("the model sees\n%.1500s … %s", got, got[max(0, len(got)-6000):])
	}
	p.alternates(1)
	p.turn(c, "now use the staging database in the smoke tests as well")
	p.extends(1, 2)
	if n := strings.Count(p.joined(2), "10.3.7.21:5433"); n < 1 || n > 2 {
		t.Errorf("the fact is shown %d times", n)
	}
	found, err := c.Search(t.Context(), "staging database role", 2000)
	if err != nil || len(found) == 0 || !strings.Contains(fmt.Sprint(found), "app_ro") {
		t.Errorf("found %+v, %v", found, err)
	}
	if n := c.DropHistory(); n < 1<<20 || c.DropHistory() != 0 {
		t.Errorf("%d bytes dropped", n)
	}
	blocks := c.Context()
	if !blockNamed(blocks, "recalled") || !blockNamed(blocks, "left out") {
		t.Errorf("blocks %+v", blocks)
	}
	history := c.History()
	p.shut(c)
	c = p.open()
	if after := c.History(); fmt.Sprint(after[len(after)-5:]) != fmt.Sprint(history[len(history)-5:]) {
		t.Error("after a restart the end of the conversation is another")
	}
	p.shut(c)
}

func blockNamed(blocks []coordinator.ContextBlock, name string) bool {
	for _, b := range blocks {
		if b.Name == name && b.Why != "" && b.Source != "" {
			return true
		}
	}
	return false
}

// What was cleared is neither loaded nor found again.
func TestWhatWasClearedIsNotRecalled(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("a"), text("b"))
	p.told(append([]agent.Message{{Role: agent.RoleUser, Text: "the vault code is 4711"}}, chat(6000)...))
	p.session = "last"
	c := p.open()
	if err := c.Clear(); err != nil {
		t.Fatal(err)
	}
	p.turn(c, "what is the vault code?")
	p.shut(c)
	c = p.open()
	p.turn(c, "what is the code of the vault?")
	if found, err := c.Search(t.Context(), "vault code 4711", 5000); err != nil || strings.Contains(fmt.Sprint(found), "4711") {
		t.Errorf("found %+v, %v", found, err)
	}
	p.shut(c)
	for n := 1; n <= 2; n++ {
		if got := p.joined(n); strings.Contains(got, "4711") || strings.Contains(got, "off-by-one") {
			t.Errorf("request %d shows what was cleared", n)
		}
	}
}

// history.max_messages and history.max_bytes bound what is loaded and found.
func TestHistoryLimits(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"max_messages: 100", "max_bytes: 20000"} {
		p := newProject(t, text("a"))
		list := chat(3000)
		list[0].Text = "the vault code is 4711"
		p.told(list)
		p.userConfig = "history:\n  " + key + "\n"
		p.session = "last"
		c := p.open()
		if n := len(c.History()); n == 0 || n > 200 {
			t.Errorf("%s: %d messages", key, n)
		}
		p.turn(c, "what is the vault code?")
		if strings.Contains(p.joined(1), "4711") {
			t.Errorf("%s: more is shown", key)
		}
		p.shut(c)
	}
}

// Above max_memory nothing is held beside what the model sees, with one warning.
func TestMaxMemory(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("a"), text("b"))
	list := chat(8000)
	list[0].Text = "the vault code is 4711"
	p.told(list)
	p.flags["max_memory"] = []string{"1MiB"} // any process takes more
	p.session = "last"
	c := p.open()
	p.turn(c, "what is the vault code?")
	p.turn(c, "what is the code of the vault, again?")
	if c.DropHistory() != 0 {
		t.Error("older messages are still held")
	}
	warnings := 0
	for _, e := range p.seen() {
		if e.Type == agent.EventWarning && strings.Contains(e.Text, "max_memory") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings", warnings)
	}
	p.shut(c)
}

// A calibration survives the process.
func TestCalibrationIsKept(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("a").Using(5000, 1), text("b").Using(5100, 1), text("c").Using(5200, 1), text("d").Using(5300, 1))
	p.session = "new"
	c := p.open()
	for range 3 {
		p.turn(c, "hello")
	}
	tokens := total(c.Context())
	p.shut(c)
	p.session = "last"
	c = p.open()
	if again := total(c.Context()); again < tokens*9/10 || again > tokens*11/10 || tokens < 3500 {
		t.Errorf("%d tokens, after a restart %d", tokens, again)
	}
	p.shut(c)
	if !strings.Contains(p.all(".ralph/sessions/*/journal.jsonl"), `"kind":"calibrated"`) {
		t.Error("the journal has no calibration")
	}
}

func total(blocks []coordinator.ContextBlock) (n int) {
	for _, b := range blocks {
		if !b.LeftOut {
			n += b.Tokens
		}
	}
	return n
}

// Opening costs what the end of the session costs, however long it is.
func TestOpeningCostsTheTail(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a large journal")
	}
	took := map[int]time.Duration{}
	for _, n := range []int{5000, 100_000} {
		p := bareProject(t)
		p.told(chat(n))
		names, err := filepath.Glob(p.path(".ralph/sessions/*/journal.jsonl"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		info, err := os.Stat(names[0])
		if err != nil {
			t.Fatal(err)
		}
		p.session = "last"
		best := time.Hour
		loaded := 0
		for range 3 {
			o := p.options()
			start := time.Now()
			c, err := coordinator.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
			loaded = len(c.History())
			p.shut(c)
		}
		took[n] = best
		t.Logf("%d messages, %.1f MB of journal: opened in %v with the newest %d", n, float64(info.Size())/1e6, best.Round(10*time.Microsecond), loaded)
	}
	if took[100_000] > 3*took[5000]+20*time.Millisecond {
		t.Errorf("opening grows with the session: %v", took)
	}
}

// Of a session of 10,000 messages with 50 facts among them, each task is shown
// the fact that it needs, or saw it already.
func TestTasksAreShownTheFactsTheyNeed(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../memory/history/testdata/facts.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts []struct{ Said, Task string }
	if err := json.Unmarshal(data, &facts); err != nil || len(facts) != 50 {
		t.Fatal(len(facts), err)
	}
	p := newProject(t, text("done").Forever())
	list := chat(10_000)
	newest := 0
	for i, f := range facts {
		at := (i*197 + 11) % len(list)
		list[at].Text = f.Said
		if at > len(list)-1900 { // about what a window holds
			newest++
		}
	}
	p.told(list)
	p.session = "last"
	c := p.open()
	defer p.shut(c)
	inside := 0
	for i, f := range facts {
		p.turn(c, f.Task)
		if strings.Contains(p.joined(i+1), f.Said) {
			inside++
		} else {
			t.Logf("missed: %s for %s", f.Said, f.Task)
		}
	}
	t.Logf("10,000 messages, 50 facts, window 128,000 tokens, excerpts of at most 1 %% of it a turn (3 %% the first): %d of 50 tasks see their fact; the newest messages alone hold about %d", inside, newest)
	if inside < 45 {
		t.Error("too few")
	}
}

// A block of the journal that cannot be read is left out, and named with its number.
func TestASkippedRecordIsNamed(t *testing.T) {
	p := newProject(t, text("one"), text("two"), text("three"))
	p.session = "new"
	p.want(p.run(coordinator.Job{Task: "hello"}), result.Completed)
	p.session = "last"
	p.want(p.run(coordinator.Job{Task: "spoiled words"}), result.Completed)
	if p.warned("cannot be read") {
		t.Error("a whole journal was complained of")
	}
	lines := strings.SplitAfter(p.all(".ralph/sessions/*/journal.jsonl"), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "spoiled words") })
	if at < 0 {
		t.Fatalf("the words are not in the journal: %q", lines)
	}
	lines[at] = strings.Repeat("\x00", 300) + "\n"
	p.write(".ralph/sessions/session-001-chat/journal.jsonl", strings.Join(lines, ""))
	p.want(p.run(coordinator.Job{Task: "go on"}), result.Completed)
	if want := fmt.Sprintf("1 line of .ralph/sessions/session-001-chat/journal.jsonl cannot be read and is left out of the conversation: record %d", at+1); !p.warned(want) {
		t.Errorf("it is not said: %q", want)
	}
}
