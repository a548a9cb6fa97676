package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// other is a Ralph that runs in the project: the real socket and lock, with a
// scripted mind.
type other struct {
	t    *testing.T
	live coordinator.Live
	do   func(ctx context.Context, r control.Request, reply func(any) error) (any, error)

	mu    sync.Mutex // guards asked
	asked []control.Request
}

func (o *other) Serve(ctx context.Context, _ control.Peer, r control.Request, reply func(any) error) (any, error) {
	o.mu.Lock()
	if r.Op != "status" {
		o.asked = append(o.asked, r)
	}
	o.mu.Unlock()
	if r.Op == "status" || o.do == nil {
		return o.live, nil
	}
	return o.do(ctx, r, reply)
}

func (o *other) requests(op string) []control.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(o.asked), func(r control.Request) bool { return r.Op != op })
}

// run lets another Ralph run in the bench's project until the test ends, or
// until the returned function is called.
func (b *bench) other(o *other) (end func()) {
	b.Helper()
	o.t = b.T
	o.live.Root, o.live.PID, o.live.Kind = b.dir, os.Getpid(), orWord(o.live.Kind, "chat")
	o.live.State = orWord(o.live.State, "running")
	unlock := b.held()
	s, err := control.Listen(context.Background(), control.Options{Dir: filepath.Join(b.dir, ".ralph"), Handler: o})
	if err != nil {
		b.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			b.Error(err)
		}
		unlock()
	})
	b.Cleanup(end)
	return end
}

// held takes the project's lock as another Ralph does.
func (b *bench) held() (unlock func()) {
	b.Helper()
	store, _, err := memory.Open(b.Context(), memory.Options{Root: b.dir, Holder: "chat", SessionID: "r-other"})
	if err != nil {
		b.Fatal(err)
	}
	if err := store.Flush(); err != nil {
		b.Fatal(err)
	}
	unlock = sync.OnceFunc(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(unlock)
	return unlock
}

func wantText(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%q is missing in:\n%s", p, got)
		}
	}
}

func TestSend(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		class string
		text  string
		out   string
	}{
		{"steer", []string{"send", "use", "the", "new", "key"}, "steer", "use the new key", "m-17 queued (steer)\n"},
		{"urgent", []string{"send", "--urgent", "do not push"}, "urgent", "do not push", "m-17 queued (urgent)\n"},
		{"later", []string{"send", "--later", "then the docs"}, "later", "then the docs", "m-17 queued (later)\n"},
		{"a flag after one argument", []string{"send", "do not push", "--urgent"}, "urgent", "do not push", "m-17 queued (urgent)\n"},
		{"dashes", []string{"send", "--", "--urgent", "is", "a", "flag"}, "steer", "--urgent is a flag", "m-17 queued (steer)\n"},
		{"a word like a command", []string{"send", "stop", "that"}, "steer", "stop that", "m-17 queued (steer)\n"},
		{"control characters", []string{"send", "a\x1b[31mb\x07"}, "steer", "a\x1b[31mb\x07", "m-17 queued (steer)\n"},
		{"not UTF-8", []string{"send", "caf\xe9"}, "steer", `caf\xe9`, "m-17 queued (steer)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			o := &other{do: func(context.Context, control.Request, func(any) error) (any, error) {
				return receipt{ID: "m-17", State: "queued", Saved: true}, nil
			}}
			b.other(o)
			if code := b.run(c.args...); code != 0 || b.out.String() != c.out {
				t.Errorf("exit %d, %q\n%s", code, b.out.String(), b.err.String())
			}
			got := o.requests("send")
			if len(got) != 1 || got[0].Class != c.class || got[0].Text != c.text || got[0].Client == "" {
				t.Errorf("sent %+v", got)
			}
			if b.fake.opened > 0 {
				t.Error("a coordinator was opened")
			}
		})
	}
}

func TestSendDocument(t *testing.T) {
	b := newBench(t)
	o := &other{do: func(context.Context, control.Request, func(any) error) (any, error) {
		return receipt{ID: "m-3", State: "queued", Saved: false}, nil
	}}
	b.other(o)
	if code := b.run("send", "--json", "--to", "c2", "--session", "004", "hello"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	d := b.document()
	if d["type"] != "send" || d["schema"] != "ralph.send/1" || d["id"] != "m-3" || d["saved"] != false || d["to"] != "c2" || d["session"] != "004" || d["class"] != "steer" || d["answer"] != nil {
		t.Errorf("%v", d)
	}
	b.wantErr("m-3 is held, not saved")
	if b.run("send", "hello"); b.out.String() != "m-3 held, not saved (steer)\n" {
		t.Errorf("%q", b.out.String())
	}
}

func TestSendErrors(t *testing.T) {
	b := newBench(t)
	b.other(&other{})
	long := strings.Repeat("x", maxMessageBytes+1)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", []string{"send"}, "nothing to send"},
		{"blank", []string{"send", " \n"}, "nothing to send"},
		{"two classes", []string{"send", "--urgent", "--later", "x"}, "exclude each other"},
		{"too long", []string{"send", long}, "longer than the limit of 2 MiB"},
		{"a flag after several words", []string{"send", "stop", "it", "--urgent"}, "a flag or part of the text?"},
		{"a flag amid words", []string{"send", "use", "--quiet", "there"}, "a flag or part of the text?"},
		{"an unknown flag after one argument", []string{"send", "stop it", "--urgnt"}, "did you mean --urgent?"},
		{"an unknown flag", []string{"send", "--now", "x"}, "unknown flag --now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bb := *b
			bb.T = t
			if code := bb.run(c.args...); code != 2 {
				t.Errorf("exit %d", code)
			}
			bb.wantErr(c.want, "ralph: hint: ")
			if bb.out.Len() > 0 {
				t.Errorf("standard output: %.100q", bb.out.String())
			}
		})
	}
}

func TestSendReadsStandardInput(t *testing.T) {
	b := newBench(t)
	o := &other{do: func(context.Context, control.Request, func(any) error) (any, error) {
		return receipt{ID: "m-1", State: "queued", Saved: true}, nil
	}}
	b.other(o)
	text := strings.Repeat("m\x00é\n", 1<<20/5)
	b.stdin = strings.NewReader(text + "\n")
	if code := b.run("send", "-"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if got := o.requests("send"); len(got) != 1 || got[0].Text != text {
		t.Errorf("%d requests, not the text", len(got))
	}
	b.stdin = strings.NewReader(strings.Repeat("x", maxMessageBytes+100))
	if code := b.run("send", "-"); code != 2 {
		t.Errorf("exit %d", code)
	}
	b.stdin = strings.NewReader("\n")
	if code := b.run("send", "-"); code != 2 {
		t.Errorf("exit %d", code)
	}
}

func TestAskWaitsForTheAnswer(t *testing.T) {
	b := newBench(t)
	answer := receipt{ID: "m-5", State: "answered", Saved: true, Answer: "two tests \x1b[31mleft"}
	o := &other{do: func(ctx context.Context, r control.Request, reply func(any) error) (any, error) {
		if err := reply(receipt{ID: "m-5", State: "queued", Saved: true}); err != nil {
			return nil, err
		}
		if r.Text == "never" {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return answer, nil
	}}
	b.other(o)
	if code := b.run("send", "--ask", "what is left?"); code != 0 || b.out.String() != "two tests \x1b[31mleft\n" {
		t.Errorf("exit %d, %q", code, b.out.String())
	}
	b.wantErr("m-5 queued (ask)")
	if code := b.run("send", "--ask", "--json", "what is left?"); code != 0 {
		t.Errorf("exit %d", code)
	}
	if d := b.document(); d["state"] != "answered" || d["answer"] != "two tests \x1b[31mleft" {
		t.Errorf("%v", d)
	}
	if code := b.run("send", "--ask", "--timeout", "50ms", "never"); code != 124 || b.out.Len() > 0 {
		t.Errorf("exit %d, %q", code, b.out.String())
	}
	b.wantErr("m-5 was accepted, but not answered within 50ms")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(&interrupts.Stop{Signal: syscall.SIGINT}) })
	if code := b.runCtx(ctx, "send", "--ask", "never"); code != 130 {
		t.Errorf("exit %d", code)
	}
	answer = receipt{ID: "m-5", State: "cancelled", Saved: true}
	if code := b.run("send", "--ask", "what?"); code != 1 {
		t.Errorf("exit %d", code)
	}
	b.wantErr("m-5 was not answered: it was cancelled")
}

func TestRefusalsOfTheRunningRalph(t *testing.T) {
	for code, exit := range map[string]int{"denied": 5, "forbidden": 5, "usage": 2, "busy": 8, "no_session": 1} {
		b := newBench(t)
		b.other(&other{do: func(context.Context, control.Request, func(any) error) (any, error) {
			return nil, &control.Fault{Code: code, Message: "it is refused", Hint: "do not"}
		}})
		for _, args := range [][]string{{"send", "x"}, {"stop"}, {"pause"}, {"do a task"}} {
			if got := b.run(args...); got != exit {
				t.Errorf("%s, %q: exit %d, want %d: %s", code, args, got, exit, b.err.String())
			}
			b.wantErr("it is refused", "do not")
		}
	}
}

// A command of a Ralph does not speak as the human; looking is free.
func TestACommandOfARalphCannotSpeak(t *testing.T) {
	b := newBench(t)
	o := &other{live: coordinator.Live{State: "paused"}, do: func(context.Context, control.Request, func(any) error) (any, error) { return nil, nil }}
	b.other(o)
	b.paused() // else --force has nothing to resume
	b.env["RALPH_TAG"] = "x.1"
	for _, args := range [][]string{{"send", "x"}, {"send", "--ask", "x"}, {"stop"}, {"stop", "--kill"}, {"pause"}, {"resume"}, {"resume", "001", "--force"}, {"do a task"}} {
		if code := b.run(args...); code != 5 {
			t.Errorf("%q: exit %d", args, code)
		}
		b.wantErr("a command that Ralph runs cannot speak for you")
	}
	for _, args := range [][]string{{"status"}, {"attach"}} {
		if code := b.run(args...); code != 0 {
			t.Errorf("%q: exit %d: %s", args, code, b.err.String())
		}
	}
	if o.mu.Lock(); len(o.asked) != 1 || o.asked[0].Op != "attach" {
		t.Errorf("asked for %+v", o.asked)
	}
	o.mu.Unlock()
	none := newBench(t)
	none.env["RALPH_TAG"] = "x.1"
	if code := none.run("send", "x"); code != 5 {
		t.Errorf("exit %d without a Ralph", code)
	}
	if _, err := os.Stat(filepath.Join(none.dir, ".ralph")); err == nil {
		t.Error("something was stored")
	}
}

func TestWhoDoesNotAnswer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	b := newBench(t)
	unlock := b.held() // and does not listen
	defer unlock()
	var wg sync.WaitGroup
	for _, args := range [][]string{{"send", "x"}, {"stop"}, {"pause"}, {"attach"}} {
		wg.Go(func() {
			bb := bench{T: t, dir: b.dir, env: b.env, fake: &fake{t: t}}
			began := time.Now()
			if code := bb.run(args...); code != 8 {
				t.Errorf("%q: exit %d", args, code)
			}
			if took := time.Since(began); took < answerWithin/2 || took > 3*answerWithin {
				t.Errorf("%q took %v", args, took)
			}
			bb.wantErr("pid "+strconv.Itoa(os.Getpid())+" on ", ", chat, since ", "does not answer")
		})
	}
	wg.Go(func() {
		bb := bench{T: t, dir: b.dir, env: b.env}
		bb.fake = &fake{t: t}
		if code := bb.run("status", "--json", "--exit-status"); code != 1 {
			t.Errorf("status: exit %d: %s", code, bb.err.String())
		}
		if d := bb.document(); d["state"] != "running" || d["live"] != false || len(d["warnings"].([]any)) != 0 {
			t.Errorf("status: %v", d)
		}
	})
	wg.Wait()
}

// Two that start at the same time: who comes second finds the lock taken and
// hands its task over; one that holds the project and never listens is named.
func TestTaskWhenTheLockIsTaken(t *testing.T) {
	b := newBench(t)
	o := &other{do: func(context.Context, control.Request, func(any) error) (any, error) {
		return handedResult{Outcome: &result.Outcome{Status: result.Completed, Answer: "there"}}, nil
	}}
	k := &killable{fake: b.fake}
	b.fake.openErr = &memory.LockedError{Holder: memory.Holder{PID: 4242, Kind: "chat"}}
	if code := b.run("work"); code != 8 {
		t.Errorf("exit %d", code)
	}
	b.wantErr("another Ralph is running here (pid 4242, chat): ralph attach | ralph send | ralph stop")
	open := func(ctx context.Context, opts coordinator.Options) (Coordinator, error) {
		b.other(o) // it was quicker
		return k.open(ctx, opts)
	}
	if code := b.runWith(t.Context(), App{Open: open}, "work"); code != 0 || b.out.String() != "there\n" {
		t.Errorf("exit %d, %q: %s", code, b.out.String(), b.err.String())
	}
}

func TestStop(t *testing.T) {
	b := newBench(t)
	answer := told{Stopped: []string{"ralph"}, Report: "3 commands ended, 1 killed, nothing is left running"}
	o := &other{do: func(context.Context, control.Request, func(any) error) (any, error) { return answer, nil }}
	end := b.other(o)
	if code := b.run("stop"); code != 0 || b.out.String() != "stopped: 3 commands ended, 1 killed, nothing is left running\n" {
		t.Errorf("exit %d, %q", code, b.out.String())
	}
	if code := b.run("stop", "c2", "--kill", "--json"); code != 0 {
		t.Errorf("exit %d", code)
	}
	if d := b.document(); d["type"] != "stop" || d["schema"] != "ralph.control/1" || d["ok"] != true || d["agent"] != "c2" || d["running"] != true || d["state"] != "stopped" {
		t.Errorf("%v", d)
	}
	if got := o.requests("stop"); len(got) != 2 || got[0].To != "" || got[0].Kill || got[1].To != "c2" || !got[1].Kill {
		t.Errorf("%+v", got)
	}
	o.live.Agents = []crew.Agent{{ID: "c2", Label: "fix it"}}
	if b.run("__complete", "stop", ""); !strings.HasPrefix(b.out.String(), "c2\tfix it\n") {
		t.Errorf("completion: %q", b.out.String())
	}
	if b.run("__complete", "send", "--to", ""); !strings.HasPrefix(b.out.String(), "c2\tfix it\n") {
		t.Errorf("completion: %q", b.out.String())
	}
	answer.Survivors = []string{"4242 sleep"}
	if code := b.run("stop", "--json"); code != 1 {
		t.Errorf("exit %d with a survivor", code)
	}
	end()
	if code := b.run("stop"); code != 0 || b.out.String() != "nothing is running here\n" {
		t.Errorf("exit %d, %q", code, b.out.String())
	}
	b.run("stop", "--json")
	if d := b.document(); d["running"] != false || d["state"] != "idle" || d["ok"] != true {
		t.Errorf("%v", d)
	}
	for _, args := range [][]string{{"stop", "a", "b"}, {"stop", " "}} {
		if code := b.run(args...); code != 2 {
			t.Errorf("%q: exit %d", args, code)
		}
	}
}

// A stop works with a configuration that nobody can read.
func TestStopNeedsNoConfiguration(t *testing.T) {
	b := newBench(t)
	o := &other{do: func(context.Context, control.Request, func(any) error) (any, error) { return told{}, nil }}
	b.other(o)
	b.env["XDG_CONFIG_HOME"] = b.dir
	b.env["RALPH_MAX_TURNS"] = "many"
	b.env["RALPH_QUIET"] = "perhaps"
	b.file("ralph/config.yaml", "no: such: yaml")
	b.file(".ralph/config.yaml", "{{{")
	if code := b.run("stop"); code != 0 || len(o.requests("stop")) != 1 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}

func TestPauseAndResume(t *testing.T) {
	b := newBench(t)
	o := &other{live: coordinator.Live{SessionID: "003"}}
	o.do = func(_ context.Context, r control.Request, _ func(any) error) (any, error) {
		o.live.State = map[string]string{"pause": "pausing", "resume": "running"}[r.Op]
		return o.live, nil
	}
	end := b.other(o)
	if code := b.run("pause"); code != 0 || !strings.HasPrefix(b.out.String(), "pausing: ") {
		t.Errorf("exit %d, %q", code, b.out.String())
	}
	if code := b.run("resume"); code != 0 || b.out.String() != "resumed\n" {
		t.Errorf("exit %d, %q %s", code, b.out.String(), b.err.String())
	}
	// What is not paused is not gone on with: it is somebody else's.
	if code := b.run("resume", "--json"); code != 8 || len(o.requests("resume")) != 1 {
		t.Errorf("exit %d, %d requests", code, len(o.requests("resume")))
	}
	end()
	if code := b.run("pause"); code != 1 {
		t.Errorf("exit %d", code)
	}
	b.wantErr("nothing to pause")
}

// --force asks the other one to leave before anything is killed.
func TestForceAsksFirst(t *testing.T) {
	b := newBench(t)
	b.paused()
	var end func()
	left := make(chan struct{})
	o := &other{}
	o.do = func(_ context.Context, r control.Request, _ func(any) error) (any, error) {
		if r.Op == "stop" && r.Text == "leave" {
			time.AfterFunc(10*time.Millisecond, func() { end(); close(left) })
		}
		return told{}, nil
	}
	end = b.other(o)
	b.run("resume", "001", "--force", "--json")
	<-left
	if len(o.requests("stop")) != 1 {
		t.Errorf("asked %+v", o.requests("stop"))
	}
	if d := b.document(); d["exit_code"] != 0.0 || d["ok"] != true { // once the other has left, the session goes on
		t.Errorf("%v %s", d, b.err.String())
	}
}

// paused makes a session that can be resumed.
func (b *bench) paused() {
	b.Helper()
	s, err := session.Create(session.Options{StateDir: filepath.Join(b.dir, ".ralph"), Kind: "chat"}, "")
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Journal().Append(0, session.Record{Kind: "message", Payload: []byte(`{"role":"user","text":"x"}`)}); err != nil {
		b.Fatal(err)
	}
	s.End(session.Paused, "left")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.own()
}

func event(kind agent.EventType, seq int64, change func(*agent.Event)) agent.Event {
	e := agent.Event{Type: kind, Seq: seq, Time: time.Date(2026, 11, 21, 10, 2, 0, 0, time.UTC), RunID: "r-other", Agent: "ralph"}
	if change != nil {
		change(&e)
	}
	return e
}

func TestAttach(t *testing.T) {
	stream := []agent.Event{
		event(agent.EventToolStart, 40, func(e *agent.Event) {
			e.Tool, e.CallID, e.Args = "shell", "c1", json.RawMessage(`{"command":"go test"}`)
		}),
		event(agent.EventToolEnd, 41, func(e *agent.Event) { e.Tool, e.CallID, e.Text = "shell", "c1", "exit 0 \x1b[31m" }),
		event(agent.EventInbox, 42, func(e *agent.Event) { e.Ref, e.Class, e.Status, e.Text = "m-17", "steer", "queued", "use the new key" }),
		event(agent.EventInterrupt, 43, func(e *agent.Event) { e.Status, e.Text = "stopped", "3 commands ended, nothing is left running" }),
		event(agent.EventWarning, 44, func(e *agent.Event) { e.Text = "the disk is full" }),
		event(agent.EventMessage, 45, func(e *agent.Event) { e.Text = "all is well" }),
	}
	b := newBench(t)
	hold := false
	o := &other{live: coordinator.Live{Task: "fix it", RunID: "r-other"}}
	o.do = func(ctx context.Context, _ control.Request, reply func(any) error) (any, error) {
		if err := reply(o.live); err != nil {
			return nil, err
		}
		for _, e := range stream {
			if err := reply(e); err != nil {
				return nil, err
			}
		}
		if hold {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, nil
	}
	end := b.other(o)
	if code := b.run("attach"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	golden(t, "attach.txt", strings.ReplaceAll(b.out.String(), "pid "+strconv.Itoa(os.Getpid()), "pid 4242"))

	if code := b.run("attach", "--output", "jsonl"); code != 0 {
		t.Fatalf("exit %d", code)
	}
	lines := strings.Split(strings.TrimSpace(b.out.String()), "\n")
	if len(lines) != len(stream)+1 {
		t.Fatalf("%d lines:\n%s", len(lines), b.out.String())
	}
	for i, line := range lines {
		e := decode(t, line)
		if err := eventsChecker().Validate(e); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if i == 0 && (e["type"] != "start" || e["status"] != "running" || e["text"] != "fix it") || i > 0 && e["seq"] != float64(39+i) {
			t.Errorf("line %d: %s", i+1, line)
		}
	}

	// To leave is no failure; the other one goes on.
	hold = true
	once := func(do func()) { // somebody watches
		seen := len(o.requests("attach"))
		go func() {
			for len(o.requests("attach")) == seen && t.Context().Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(20 * time.Millisecond) // and has its first line
			do()
		}()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	once(func() { cancel(&interrupts.Stop{Signal: syscall.SIGINT}) })
	if code := b.runCtx(ctx, "attach"); code != 0 || b.err.Len() > 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	once(func() { cancel(&interrupts.Stop{Signal: syscall.SIGTERM}) })
	if code := b.runCtx(ctx, "attach"); code != 143 {
		t.Errorf("exit %d", code)
	}
	for _, op := range []string{"stop", "pause", "send"} {
		if len(o.requests(op)) > 0 {
			t.Errorf("attach asked to %s", op)
		}
	}

	// It ends with the Ralph that it watches.
	once(end)
	if code := b.run("attach"); code != 0 || b.err.Len() > 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	if code := b.run("attach"); code != 1 {
		t.Errorf("exit %d without a Ralph", code)
	}
	b.wantErr("nothing to watch")
}

func TestStatusOfARunningRalph(t *testing.T) {
	cost := 0.02
	since := time.Now().Add(-130 * time.Second)
	b := newBench(t)
	o := &other{live: coordinator.Live{
		State: "running", Mode: "autonomous", Task: "fix the \x1b[31mupload", Since: since, Turn: 5, Tool: "shell go test ./...",
		Agents:     []crew.Agent{{ID: "ralph", State: "running", Since: since, Beat: since, Label: "fix the upload"}},
		Background: []coordinator.Background{{ID: "bg-1", Command: "npm run dev", Since: since}},
		Queue:      []coordinator.Waiting{{ID: "m-17", Class: "steer", Text: "use the new key", From: "chat", At: since, State: "queued", Saved: true}},
		Tasks:      result.TaskCount{Done: 3, Open: 2}, Usage: agent.Usage{Input: 14000, Output: 100, Total: 14100}, CostUSD: &cost,
		SessionID: "003", RunID: "r-other", Model: "m-1", Method: "session",
	}}
	b.other(o)
	if code := b.run("status", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	d := b.document()
	if err := statusChecker().Validate(d); err != nil {
		t.Errorf("%v\n%s", err, b.out.String())
	}
	holder, _ := d["holder"].(map[string]any)
	if d["state"] != "running" || d["live"] != true || d["session"] != "003" || d["cost_usd"] != 0.02 || holder["pid"] != float64(os.Getpid()) || holder["kind"] != "chat" {
		t.Errorf("%s", b.out.String())
	}
	if code := b.run("status"); code != 0 {
		t.Errorf("exit %d", code)
	}
	wantText(t, b.out.String(), "state      running, for 2m1", "5 turns, shell go test ./...", "holder     pid ", "task       fix the ␛[31mupload\n",
		"with       session 003, mode autonomous, model m-1, 14.1k tokens, $0.0200\n", "agents     ralph running 2m1", "background bg-1 2m1", "queue      m-17 steer (2m1",
		"tasks      2 open, 3 done, 0 failed, 0 skipped\n")
	if code := b.run("status", "--exit-status"); code != 1 {
		t.Errorf("exit %d", code)
	}
	if b.fake.opened > 0 {
		t.Error("a coordinator was opened")
	}
}

func TestStatusFromFiles(t *testing.T) {
	const done = `{"type":"result","status":"completed","reason":"the model answered","run_id":"r-1","session_id":null,"model":"m-1","started_at":"2026-11-21T10:00:00Z","duration_ms":2000,"usage":{"input":1,"cached_input":0,"output":2,"reasoning":0,"total":3,"estimated":false},"cost_usd":0.5}`
	failed := strings.Replace(done, `"completed"`, `"provider_error"`, 1)
	interrupted := strings.Replace(done, `"completed"`, `"interrupted"`, 1)
	cut := map[string]string{
		".ralph/sessions/session-001-x/session-metadata.yaml": "session_id: \"001\"\nsession_name: x\nstart_time: 2026-11-21T09:00:00Z\nend_time: null\nstatus: in_progress\n",
		".ralph/sessions/session-001-x/journal.jsonl":         "",
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		state string
		code  int
		more  func(map[string]any) bool
	}{
		{"nothing", nil, "idle", 0, func(d map[string]any) bool { return d["last"] == nil && d["recovery"] == nil && d["holder"] == nil }},
		{"completed", map[string]string{".ralph/runs.jsonl": failed + "\n" + done + "\n"}, "completed", 0, func(d map[string]any) bool {
			last := d["last"].(map[string]any)
			return d["cost_usd"] == 0.5 && d["model"] == "m-1" && last["status"] == "completed" && last["at"] == "2026-11-21T10:00:02Z" && d["run_id"] == "r-1"
		}},
		{"failed", map[string]string{".ralph/runs.jsonl": done + "\n" + failed + "\n"}, "failed", 2, nil},
		{"interrupted", map[string]string{".ralph/runs.jsonl": interrupted + "\n"}, "interrupted", 2, nil},
		{"torn", map[string]string{".ralph/runs.jsonl": done + "\n" + failed[:40]}, "completed", 0, nil},
		{"garbage", map[string]string{".ralph/runs.jsonl": "\x00\x00garbage\n\n[]\n"}, "idle", 0, nil},
		{"cut off", cut, "interrupted", 2, func(d map[string]any) bool {
			r, _ := d["recovery"].(map[string]any)
			return d["session"] == "001" && r["verdict"] == "same session"
		}},
		{"tasks", map[string]string{"RALPH_TASKS.md": "# Tasks\n\n- [ ] **T-1** a\n  - status: pending\n- [x] **T-2** b\n  - status: done\n"}, "idle", 0, func(d map[string]any) bool {
			n := d["tasks"].(map[string]any)
			return n["open"] == 1.0 && n["done"] == 1.0
		}},
		{"a dead holder", map[string]string{".ralph/lock": `{"pid":999999,"startTime":1,"bootId":"x","acquiredAt":"2026-11-21T10:00:00Z","kind":"chat"}`}, "idle", 0,
			func(d map[string]any) bool { return d["holder"] == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for name, text := range c.files {
				b.file(name, text)
			}
			if code := b.run("status", "--json"); code != 0 {
				t.Fatalf("exit %d: %s", code, b.err.String())
			}
			d := b.document()
			if err := statusChecker().Validate(d); err != nil {
				t.Errorf("%v\n%s", err, b.out.String())
			}
			if d["state"] != c.state || d["live"] != false || c.more != nil && !c.more(d) {
				t.Errorf("%s", b.out.String())
			}
			if code := b.run("status", "--exit-status"); code != c.code || !strings.HasPrefix(b.out.String(), "state      "+c.state) {
				t.Errorf("exit %d\n%s", code, b.out.String())
			}
			if c.files == nil {
				if _, err := os.Stat(filepath.Join(b.dir, ".ralph")); err == nil {
					t.Error("status made a directory")
				}
			}
		})
	}
}

func TestSendStores(t *testing.T) {
	b := newBench(t)
	b.file(".git/HEAD", "ref: refs/heads/main\n")
	b.file(".git/objects/x", "")
	b.file(".git/refs/x", "")
	if code := b.run("send", "--later", "write the docs"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if got := b.out.String(); got != "m-1 stored (later); the next Ralph in this project delivers it\n" {
		t.Errorf("%q", got)
	}
	if code := b.run("send", "--json", "--ask", "what is \x1b left?"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if d := b.document(); d["id"] != "m-2" || d["state"] != "stored" || d["saved"] != true || d["answer"] != nil {
		t.Errorf("%v", d)
	}
	stamp, err := os.ReadFile(filepath.Join(b.dir, ".ralph", "FORMAT"))
	exclude, err2 := os.ReadFile(filepath.Join(b.dir, ".git", "info", "exclude"))
	if err := errors.Join(err, err2); err != nil || string(stamp) != "ralph 1\n" || !strings.Contains(string(exclude), ".ralph/") {
		t.Errorf("%q %q %v", stamp, exclude, err)
	}
	b.run("status", "--json")
	d := b.document()
	if err := statusChecker().Validate(d); err != nil {
		t.Errorf("%v", err)
	}
	queue, _ := d["queue"].([]any)
	if len(queue) != 2 {
		t.Fatalf("queue: %v", queue)
	}
	first, second := queue[0].(map[string]any), queue[1].(map[string]any)
	if first["class"] == "later" { // the order of delivery is not the order of arrival
		first, second = second, first
	}
	if first["text"] != "what is \x1b left?" || first["class"] != "ask" || second["id"] != "m-1" {
		t.Errorf("queue: %v", queue)
	}
}

// A state directory that leads elsewhere is not written to.
func TestSendStoresNotThroughALink(t *testing.T) {
	b := newBench(t)
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(b.dir, ".ralph")); err != nil {
		t.Fatal(err)
	}
	if code := b.run("send", "x"); code != 1 {
		t.Errorf("exit %d", code)
	}
	b.wantErr("not a directory", "ralph: hint: ")
	if names, err := os.ReadDir(elsewhere); err != nil || len(names) > 0 {
		t.Errorf("%v %v", names, err)
	}
}

func TestTaskIsHandedOver(t *testing.T) {
	b := newBench(t)
	o := &other{live: coordinator.Live{Model: "m-9"}}
	fails := result.Outcome{Status: result.Completed, Reason: "the model answered", Answer: "all done", Turns: 2, Verified: true,
		Usage: agent.Usage{Input: 5, Output: 6, Total: 11}, Messages: []interrupts.Message{{N: 7, Class: interrupts.ClassSteer, State: interrupts.Delivered}}}
	o.do = func(_ context.Context, r control.Request, reply func(any) error) (any, error) {
		if r.Op != "task" {
			return struct{}{}, nil
		}
		for _, x := range []any{
			map[string]string{"agent": "task-1"},
			event(agent.EventStart, 7, nil), event(agent.EventTurnStart, 8, func(e *agent.Event) { e.Turn = 1 }),
			event(agent.EventToolStart, 9, func(e *agent.Event) {
				e.Tool, e.CallID, e.Args = "shell", "c1", json.RawMessage(`{"command":"go test"}`)
			}),
			event(agent.EventToolEnd, 10, func(e *agent.Event) { e.Tool, e.CallID, e.Text = "shell", "c1", "exit 0" }),
			event(agent.EventMessage, 11, func(e *agent.Event) { e.Turn, e.Text = 1, "all done" }),
		} {
			if err := reply(x); err != nil {
				return nil, err
			}
		}
		return handedResult{Outcome: &fails, Model: "m-9", Provider: "test"}, nil
	}
	b.other(o)
	b.file("a.go", "package a")
	b.stdin = strings.NewReader("piped")
	if code := b.run("--check", "true", "--max-turns", "9", "--files", "a.go", "fix", "it"); code != 0 || b.out.String() != "all done\n" {
		t.Errorf("exit %d, %q\n%s", code, b.out.String(), b.err.String())
	}
	b.wantErr("  shell go test: exit 0", "completed")
	var job handedJob
	if err := json.Unmarshal(o.requests("task")[0].Job, &job); err != nil {
		t.Fatal(err)
	}
	if job.Task != "fix it" || job.Context != "piped" || len(job.Files) != 1 || job.Check != "true" || job.MaxTurns != 9 || job.MaxTokens != 0 || !job.Events {
		t.Errorf("%+v", job)
	}
	b.stdin = nil
	if code := b.run("--output", "jsonl", "fix it"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	events := checkEvents(t, b.out.String())
	if len(events) != 6 {
		t.Errorf("%d events", len(events))
	}
	run := events[len(events)-1]["run_id"]
	for _, e := range events {
		if e["run_id"] != run {
			t.Errorf("an event of run %v in %v", e["run_id"], run)
		}
	}
	if code := b.run("--json", "fix it"); code != 0 {
		t.Fatalf("exit %d", code)
	}
	d := b.document()
	checkResult(t, b.out.String())
	messages, _ := json.Marshal(d["messages"])
	if d["model"] != "m-9" || d["provider"] != "test" || d["verified"] != true || string(messages) != `[{"class":"steer","id":"m-7","state":"delivered"}]` {
		t.Errorf("%s", b.out.String())
	}
	if len(o.requests("record")) != 3 {
		t.Errorf("%d documents were kept", len(o.requests("record")))
	}
	if b.fake.opened > 0 {
		t.Error("a coordinator was opened beside the running one")
	}
}

// Ctrl-C cancels the task that was handed over, and nothing else.
func TestHandedTaskIsCancelled(t *testing.T) {
	for _, c := range []struct {
		name   string
		tells  bool
		cause  error
		code   int
		status string
		answer any
	}{
		{"told", true, &interrupts.Stop{Signal: syscall.SIGINT}, 130, "interrupted", "as far as it came"},
		{"told, SIGTERM", true, &interrupts.Stop{Signal: syscall.SIGTERM}, 143, "interrupted", "as far as it came"},
		{"told, time is up", true, context.DeadlineExceeded, 124, "timeout", "as far as it came"},
		{"mute", false, &interrupts.Stop{Signal: syscall.SIGINT}, 130, "interrupted", "as far"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			o := &other{}
			begun, stopped := make(chan struct{}), make(chan struct{})
			var once sync.Once
			o.do = func(ctx context.Context, r control.Request, reply func(any) error) (any, error) {
				switch r.Op {
				case "stop":
					once.Do(func() { close(stopped) })
					return told{}, nil
				case "record":
					return nil, nil
				}
				if err := errors.Join(reply(map[string]string{"agent": "task-1"}), reply(event(agent.EventStart, 1, nil)),
					reply(event(agent.EventMessageDelta, 2, func(e *agent.Event) { e.Text = "as far" }))); err != nil {
					return nil, err
				}
				close(begun)
				select {
				case <-stopped:
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
				if !c.tells {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return handedResult{Outcome: &result.Outcome{Status: result.Interrupted, Reason: "stopped by the user", Answer: "as far as it came", Turns: 3}}, nil
			}
			b.other(o)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-begun; cancel(c.cause) }()
			began := time.Now()
			if code := b.runCtx(ctx, "--json", "work"); code != c.code {
				t.Errorf("exit %d: %s", code, b.err.String())
			}
			if took := time.Since(began); took > cancelWithin+20*time.Second {
				t.Errorf("it took %v", took)
			}
			d := b.document()
			checkResult(t, b.out.String())
			if d["status"] != c.status || d["result"] != c.answer || !strings.Contains(d["reason"].(string), "the Ralph that did it goes on") {
				t.Errorf("%s", b.out.String())
			}
			if got := o.requests("stop"); len(got) != 1 || got[0].To != "task-1" || got[0].Kill {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A task whose Ralph ends is told as failed when it was begun, and done here when
// it was not.
func TestHandedTaskWhoseRalphEnds(t *testing.T) {
	for _, begun := range []bool{true, false} {
		b := newBench(t)
		var end func()
		o := &other{do: func(ctx context.Context, r control.Request, reply func(any) error) (any, error) {
			if begun {
				if err := reply(agent.Event{Type: agent.EventTurnStart, Turn: 1}); err != nil {
					return nil, err
				}
			}
			go end()
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		end = b.other(o)
		if code := b.run("--json", "work"); (code == 0) == begun {
			t.Errorf("begun %v: exit %d", begun, code)
		}
		checkResult(t, b.out.String())
		d := b.document()
		if d["ok"] == begun || (d["error"] == nil) == begun {
			t.Errorf("begun %v: %s", begun, b.out.String())
		}
	}
}

// Settings that the running Ralph does not have are not lost in silence.
func TestSettingsOfAHandedTask(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		want string // in standard error
	}{
		{"none", nil, nil, 0, ""},
		{"the same model", nil, []string{"--model", "m-1"}, 0, ""},
		{"another model", nil, []string{"--model", "m-2"}, 8, "cannot take over --model"},
		{"another model in the environment", map[string]string{"RALPH_MODEL": "m-2"}, nil, 0, "not taken over: RALPH_MODEL"},
		{"an endpoint", nil, []string{"--base-url", "http://127.0.0.1:1/v1"}, 8, "cannot take over --base-url"},
		{"an endpoint in the environment", map[string]string{"RALPH_BASE_URL": "http://127.0.0.1:1/v1"}, nil, 0, ""},
		{"a tighter sandbox", nil, []string{"--sandbox", "read-only"}, 8, "cannot take over --sandbox"},
		{"a tighter sandbox in the environment", map[string]string{"RALPH_SANDBOX": "read-only"}, nil, 8, "cannot take over RALPH_SANDBOX"},
		{"no sandbox", nil, []string{"--sandbox", "off"}, 0, "not taken over: --sandbox"},
		{"no sandbox in the environment", map[string]string{"RALPH_SANDBOX": "off"}, nil, 0, ""},
		{"a denial", nil, []string{"--deny", `tool == "shell"`}, 8, "cannot take over --deny"},
		{"a permission", nil, []string{"--allow", `tool == "shell"`}, 0, "not taken over: --allow"},
		{"no questions", nil, []string{"--on-ask", "fail"}, 8, "cannot take over --on-ask"},
		{"a session", nil, []string{"--session", "new"}, 8, "cannot take over --session"},
		{"the same session", nil, []string{"--session", "003"}, 0, ""},
		{"a recording", nil, []string{"--record", "x.yaml"}, 8, "cannot take over --record"},
		{"limits", nil, []string{"--max-turns", "3", "--max-tokens", "5", "--max-cost", "1", "--check", "true"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for k, v := range c.env {
				b.env[k] = v
			}
			o := &other{live: coordinator.Live{Model: "m-1", SessionID: "003"}}
			o.do = func(context.Context, control.Request, func(any) error) (any, error) {
				return handedResult{Outcome: &result.Outcome{Status: result.Completed, Answer: "ok"}}, nil
			}
			b.other(o)
			if code := b.run(append(c.args, "work")...); code != c.code {
				t.Errorf("exit %d: %s", code, b.err.String())
			}
			if c.want == "" && strings.Contains(b.err.String(), "taken over") {
				t.Errorf("%s", b.err.String())
			}
			b.wantErr(c.want)
			if tasks := len(o.requests("task")); tasks != map[int]int{0: 1, 8: 0}[c.code] {
				t.Errorf("%d tasks were handed over", tasks)
			}
		})
	}
}

// A socket that nobody serves any more is in nobody's way.
func TestTaskBesideADeadSocket(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := os.MkdirAll(filepath.Join(b.dir, ".ralph"), 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(b.dir, ".ralph", socketName)}); err != nil {
		t.Skip(err) // the path is too long here
	}
	if code := b.run("work"); code != 0 || b.fake.opened != 1 {
		t.Errorf("exit %d, opened %d times: %s", code, b.fake.opened, b.err.String())
	}
	if code := b.run("status"); code != 0 || b.err.Len() > 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}

// The second signal kills, the third leaves at once with a result.
func TestFurtherSignals(t *testing.T) {
	for _, form := range []string{"text", "json", "jsonl"} {
		t.Run(form, func(t *testing.T) {
			b := newBench(t)
			var again func(int)
			hang := make(chan struct{})
			killed := 0
			k := &killable{fake: b.fake, kill: func() { killed++ }}
			b.fake.work = func(ctx context.Context, _ coordinator.Job) result.Outcome {
				<-hang
				return result.Outcome{Status: result.Completed, Answer: "too late"}
			}
			var out syncBuffer
			b.stdout = &out
			file := filepath.Join(b.dir, "result.json")
			ready, code := make(chan struct{}), make(chan int)
			inner := b.fake.work
			b.fake.work = func(ctx context.Context, j coordinator.Job) result.Outcome { close(ready); return inner(ctx, j) }
			go func() {
				code <- b.runWith(t.Context(), App{Open: k.open, Again: func(do func(int)) { again = do }}, "--output", form, "--result-file", file, "work")
			}()
			<-ready
			if again(2); killed != 1 || out.String() != "" && form != "jsonl" {
				t.Errorf("killed %d times, %q", killed, out.String())
			}
			again(3)
			text := out.String()
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, strings.TrimSpace(string(doc)))
			if d := decode(t, string(doc)); d["status"] != "interrupted" || d["exit_code"] != 130.0 {
				t.Errorf("%s", doc)
			}
			if form != "text" && !strings.Contains(lastLine(text), `"status":"interrupted"`) {
				t.Errorf("%q", text)
			}
			again(3)
			close(hang)
			<-code
			if out.String() != text {
				t.Errorf("after the result came %q", strings.TrimPrefix(out.String(), text))
			}
		})
	}
}

type killable struct {
	*fake
	kill func()
}

func (k *killable) Kill() { k.kill() }

func (k *killable) open(ctx context.Context, o coordinator.Options) (Coordinator, error) {
	_, err := k.fake.open(ctx, o)
	return k, err
}

// syncBuffer is a buffer that several goroutines use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
