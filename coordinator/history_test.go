package coordinator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory/config"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

// historianEnv makes the test program play a Ralph that works off what is said
// to it, until it is killed or its input ends.
const historianEnv = "RALPH_TEST_HISTORIAN"

// historian says each line of its input ("class text") as the chat does, tells
// on its output what was accepted, and delivers what waits.
func historian(root string) error {
	cfg, err := config.Load(config.Sources{Flags: map[string][]string{"base_url": {os.Getenv("RALPH_TEST_URL")}, "model": {"m"}, "sandbox": {"off"}}})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	c, err := coordinator.Open(context.Background(), coordinator.Options{Root: root, Config: cfg, Getenv: getenv(root), Proc: exec.New(exec.Options{Init: exec.Self()}), RunID: fmt.Sprint("r-", time.Now().UnixNano()), Holder: "chat", Session: "new",
		Eyes: func(e agent.Event) {
			if e.Type == agent.EventInbox && e.Status == "queued" && e.From == "chat" {
				mu.Lock()
				defer mu.Unlock()
				fmt.Println("accepted", e.Ref, e.Class, e.Text)
			}
		}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			class, text, _ := strings.Cut(in.Text(), " ")
			k, err := interrupts.ParseClass(class)
			if err != nil {
				panic(err)
			}
			c.Say(interrupts.Message{Class: k, Text: text, From: "chat"})
		}
	}()
	asks := func(m interrupts.Message) bool { return m.Class == interrupts.ClassAsk }
	// Between its taking up and its answering agent a question shows nowhere.
	const quiet = 200
	for looks := 0; ; {
		waiting := c.Waiting()
		switch {
		case len(slices.DeleteFunc(slices.Clone(waiting), asks)) > 0:
			c.Run(context.Background(), coordinator.Job{Chat: true})
			looks = 0
		case ctx.Err() == nil || len(waiting) > 0 || len(c.Live().Agents) > 0:
			looks = 0
			time.Sleep(time.Millisecond)
		case looks < quiet:
			looks++
			time.Sleep(time.Millisecond)
		default:
			return c.Close()
		}
	}
}

// TestHistory says messages of all classes to a Ralph, from its own terminal and
// from others, which is stopped and killed at random: every message that was
// accepted has exactly one end, and what was delivered was delivered once, in
// the order of acceptance.
func TestHistory(t *testing.T) {
	t.Parallel()
	want := 400
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		want = 10_000
	}
	h := newHistory(t)
	lives := 0
	for ; h.count() < want; lives++ {
		h.live(want/12+20, true)
	}
	// What is left is delivered. A question that was taken up when a Ralph ended is
	// put back for the next one.
	for n := 0; n < 5 && (n == 0 || h.unsettled()); n++ {
		h.live(0, false)
	}
	h.judge(lives)
}

// unsettled reports whether an accepted message has no end yet.
func (h *history) unsettled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.acked, func(a ack) bool { return len(h.states[a.id]) == 0 })
}

// ack is a message that was accepted.
type ack struct{ id, class, from, text string }

type history struct {
	*testing.T
	root, url string

	mu     sync.Mutex
	acked  []ack
	stops  int
	states map[string][]string // by id, as the log has them
	seen   map[string]bool     // lines of the log
}

func newHistory(t *testing.T) *history {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 1 + rand.IntN(3) {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond):
			}
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return &history{T: t, root: root, url: srv.URL + "/v1", states: map[string][]string{}, seen: map[string]bool{}}
}

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acked)
}

func (h *history) accepted(a ack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, a)
}

// live runs one Ralph until n messages more were accepted, and kills it; without
// kill it says nothing and lets it end.
func (h *history) live(n int, kill bool) {
	h.Helper()
	child := osexec.Command(os.Args[0])
	child.Env = append(os.Environ(), historianEnv+"="+h.root, "RALPH_TEST_URL="+h.url)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		h.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		h.Fatal(err)
	}
	if err := child.Start(); err != nil {
		h.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if f := strings.SplitN(lines.Text(), " ", 4); len(f) == 4 && f[0] == "accepted" {
				h.accepted(ack{id: f[1], class: f[2], from: "chat", text: f[3]})
			}
		}
	})
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	if kill {
		until := h.count() + n/2 + rand.IntN(n)
		for i := range 3 {
			wg.Go(func() { h.talk(ctx, fmt.Sprintf("cli-%d", i)) })
		}
		wg.Go(func() { h.typing(ctx, in) })
		for ctx.Err() == nil && h.count() < until {
			time.Sleep(time.Millisecond)
		}
		if err := child.Process.Kill(); err != nil {
			h.Fatal(err)
		}
	} else if err := in.Close(); err != nil {
		h.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { wg.Wait(); ended <- child.Wait() }()
	if kill {
		<-time.After(5 * time.Millisecond)
		cancel()
	}
	select {
	case err := <-ended:
		if !kill && err != nil {
			h.Fatalf("the last Ralph: %v", err)
		}
	case <-time.After(2 * time.Minute):
		_ = child.Process.Kill()
		h.Fatal("a Ralph does not end")
	}
	h.readLog()
}

// pick is a class at random; most messages steer.
func pick() string {
	return []string{"urgent", "ask", "steer", "steer", "steer", "later", "later"}[rand.IntN(7)]
}

// talk sends messages over the socket, and now and then a stop.
func (h *history) talk(ctx context.Context, name string) {
	var c *control.Client
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		if c == nil {
			var err error
			if c, err = control.Dial(ctx, filepath.Join(h.root, ".ralph"), ""); err != nil {
				c = nil
				time.Sleep(time.Millisecond)
				continue
			}
		}
		if rand.IntN(60) == 0 {
			if _, err := c.Do(ctx, control.Request{Op: "stop", Client: name}, nil); err == nil {
				h.mu.Lock()
				h.stops++
				h.mu.Unlock()
			}
			continue
		}
		class, text := pick(), fmt.Sprintf("%s says %d", name, time.Now().UnixNano())
		var said struct {
			ID    string `json:"id"`
			Saved bool   `json:"saved"`
		}
		ask, end := context.WithTimeout(ctx, 5*time.Second)
		final, err := c.Do(ask, control.Request{Op: "send", Client: name, Class: class, Text: text}, func(data json.RawMessage) error { return json.Unmarshal(data, &said) })
		end()
		if said.ID == "" && err == nil {
			err = json.Unmarshal(final, &said)
		}
		if said.ID != "" && said.Saved {
			h.accepted(ack{id: said.ID, class: class, from: name, text: text})
		}
		if err != nil {
			var f *control.Fault
			if !errors.As(err, &f) {
				_ = c.Close()
				c = nil
			}
		}
	}
}

// typing types lines as the user of the chat does.
func (h *history) typing(ctx context.Context, in io.Writer) {
	for ctx.Err() == nil {
		class := pick()
		if rand.IntN(80) == 0 {
			class = "stop"
		}
		if _, err := fmt.Fprintf(in, "%s chat says %d\n", class, time.Now().UnixNano()); err != nil {
			return
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	}
}

// readLog takes in what the queue's log says now; it may be shorter after the
// next start.
func (h *history) readLog() {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.root, ".ralph", "queue.jsonl"))
	if err != nil {
		h.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e struct {
			ID, Class, State string
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.ID == "" || e.Class == "" {
			continue // a log that was written anew begins with the last number alone
		}
		if key := e.ID + " " + e.State; e.State != "queued" && !h.seen[key] {
			h.seen[key] = true
			h.states[e.ID] = append(h.states[e.ID], e.State)
		}
	}
}

// told is what the journals say was delivered, in order, and what was answered.
func (h *history) told() (delivered []string, answered map[string]int) {
	h.Helper()
	paths, err := filepath.Glob(filepath.Join(h.root, ".ralph/sessions/session-*/journal.jsonl"))
	if err != nil {
		h.Fatal(err)
	}
	slices.Sort(paths)
	answered = map[string]int{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			h.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var r struct {
				Kind    string
				Payload json.RawMessage
			}
			if json.Unmarshal([]byte(line), &r) != nil {
				continue // torn by a kill
			}
			var x struct{ Inbox, Type, Ref, Status string }
			_ = json.Unmarshal(r.Payload, &x)
			switch {
			case r.Kind == "message":
				delivered = append(delivered, strings.Fields(x.Inbox)...)
			case r.Kind == "event" && x.Type == "inbox" && x.Status == "answered":
				answered[x.Ref]++
			}
		}
	}
	return delivered, answered
}

func (h *history) judge(lives int) {
	h.Helper()
	delivered, _ := h.told()
	times, at := map[string]int{}, map[string]int{}
	for i, id := range delivered {
		times[id]++
		at[id] = i
	}
	ends, wrong := map[string]int{}, 0
	fail := func(format string, args ...any) {
		if wrong++; wrong <= 20 {
			h.Errorf(format, args...)
		}
	}
	for id, states := range h.states {
		if len(states) != 1 {
			fail("%s has the final states %q", id, states)
		}
	}
	last := map[string]string{}
	order := slices.Clone(h.acked)
	slices.SortFunc(order, func(a, b ack) int { return numberOf(a.id) - numberOf(b.id) })
	for _, a := range order {
		states := h.states[a.id]
		if len(states) == 0 {
			fail("%s (%s from %s) was accepted and is lost", a.id, a.class, a.from)
			continue
		}
		ends[states[0]]++
		want := 0
		if states[0] == "delivered" {
			want = 1
		}
		if times[a.id] != want {
			fail("%s (%s) is %s and %d times in the conversation", a.id, a.class, states[0], times[a.id])
		}
		if want == 0 {
			continue
		}
		key := a.class + a.from
		if prev := last[key]; prev != "" && at[prev] > at[a.id] {
			fail("%s came before %s (%s from %s)", a.id, prev, a.class, a.from)
		}
		last[key] = a.id
	}
	h.Logf("%d messages accepted in %d lives, %d of them killed, %d stops from outside: %v", len(order), lives+1, lives, h.stops, ends)
	if wrong > 0 {
		h.Errorf("%d faults", wrong)
	}
	for _, state := range []string{"delivered", "answered", "cancelled", "returned"} {
		if ends[state] == 0 && len(order) >= 10_000 {
			h.Errorf("nothing was %s: the test does not test it", state)
		}
	}
}

func numberOf(id string) int {
	n := 0
	_, _ = fmt.Sscanf(id, "m-%d", &n)
	return n
}
