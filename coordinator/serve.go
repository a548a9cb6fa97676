package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/exec/supervise"
)

// maxSaidBytes bounds one message of the human: four times what ralph send takes,
// as bytes that are no text become that much longer on the way.
const maxSaidBytes = 8 << 20

// keptWait is how long a client waits to hear that its message is on disk.
const keptWait = 2 * time.Second

// server serves those who speak to this Ralph from another terminal.
type server struct {
	c      *Coordinator
	socket *control.Server
}

// serve listens once the project is held. What is in the way of that is said;
// the work itself needs no socket.
func (c *Coordinator) serve() {
	if c.server != nil || c.opt.NoModel || c.host != nil || !c.book.keeps() {
		return
	}
	s := &server{c: c}
	runtime := ""
	if c.opt.Getenv != nil {
		runtime = c.opt.Getenv("XDG_RUNTIME_DIR")
	}
	var err error
	s.socket, err = control.Listen(c.closing, control.Options{Dir: c.stateDir(), Runtime: runtime, Handler: s, Allow: s.allow})
	if err != nil {
		c.warn("ralph send, stop and attach do not reach this Ralph: " + err.Error())
		return
	}
	c.server = s
}

func (s *server) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.socket.Close(ctx)
}

// allow refuses who must not speak as the human: a command that a Ralph runs.
func (s *server) allow(p control.Peer) error {
	if p.Known && p.PID != os.Getpid() && supervise.BelongsToCommand(p.PID) {
		return &control.Fault{Code: "denied", Message: "a command that Ralph runs cannot speak for the user"}
	}
	return nil
}

// fault is an error as a client gets it.
func fault(code string, err error, hint string) error {
	return &control.Fault{Code: code, Message: err.Error(), Hint: hint}
}

// Serve does one request of a client.
func (s *server) Serve(ctx context.Context, _ control.Peer, r control.Request, reply func(any) error) (any, error) {
	c := s.c
	switch r.Op {
	case "status":
		return c.Live(), nil
	case "send":
		return s.send(ctx, r, reply)
	case "amend":
		return s.amend(r)
	case "stop":
		return s.stop(ctx, r)
	case "pause":
		c.Pause()
		return c.Live(), nil
	case "resume":
		return s.resume()
	case "attach":
		return s.attach(ctx, reply)
	case "task":
		return s.task(ctx, r, reply)
	case "record":
		return struct{}{}, c.Record(r.Job)
	}
	return nil, &control.Fault{Code: "usage", Message: fmt.Sprintf("this Ralph does not know %q", r.Op), Hint: "it may be of another version: ralph version"}
}

// sent is what came of a message, for its sender.
type sent struct {
	ID     string `json:"id"`
	Class  string `json:"class"`
	State  string `json:"state"`
	Saved  bool   `json:"saved"`
	Answer string `json:"answer,omitempty"`
}

// send accepts a message. The answer to an ask is waited for.
func (s *server) send(ctx context.Context, r control.Request, reply func(any) error) (any, error) {
	class, err := interrupts.ParseClass(r.Class)
	r.Session = folder.Number(r.Session)
	switch {
	case err != nil || class == interrupts.ClassStop:
		return nil, &control.Fault{Code: "usage", Message: fmt.Sprintf("there is no class %q", r.Class), Hint: "urgent, ask, steer, later"}
	case strings.TrimSpace(r.Text) == "":
		return nil, &control.Fault{Code: "usage", Message: "the message is empty"}
	case len(r.Text) > maxSaidBytes:
		return nil, &control.Fault{Code: "usage", Message: fmt.Sprintf("the message is longer than %d MiB", maxSaidBytes>>20), Hint: "put it into a file and name the file"}
	case r.Session != "" && !s.known(r.Session):
		return nil, &control.Fault{Code: "no_session", Message: fmt.Sprintf("there is no session %s", r.Session), Hint: "ralph sessions lists them; the one that runs is " + s.c.SessionID()}
	}
	if err := s.reaches(r.To); err != nil {
		return nil, err
	}
	w, done := s.c.eyes.watch()
	defer done()
	m := s.c.Say(interrupts.Message{Class: class, Text: r.Text, From: clientName(r), To: r.To, Session: r.Session})
	wait, cancel := context.WithTimeout(ctx, keptWait)
	defer cancel()
	saved := s.c.mail.queue.Flush(wait) == nil && s.c.book.keeps()
	out := sent{ID: m.ID(), Class: class.String(), State: string(interrupts.Queued), Saved: saved}
	if class != interrupts.ClassAsk || !s.c.here(m) {
		return out, nil
	}
	if err := reply(out); err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-w.events:
			if e.Ref != m.ID() || e.Status == string(interrupts.Queued) || e.Status == "held" || e.Status == "edited" {
				continue
			}
			out.State, out.Answer = e.Status, e.Output
			return out, nil
		case <-w.lost:
			return out, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reaches refuses a message for an agent that is not at work: it would wait for
// ever.
func (s *server) reaches(to string) error {
	if to == "" || to == agentName {
		return nil
	}
	names := []string{agentName}
	s.c.mu.Lock()
	for _, g := range s.c.guests {
		names = append(names, g.name)
	}
	s.c.mu.Unlock()
	for _, a := range s.c.crew.List() {
		if a.AtWork() {
			names = append(names, a.ID)
		}
	}
	if slices.Contains(names, to) {
		return nil
	}
	return &control.Fault{Code: "usage", Message: fmt.Sprintf("there is no agent %q", to), Hint: "there are: " + strings.Join(names, ", ")}
}

// known says that a session is the one that runs, or one that can run again: a
// message for it waits until then.
func (s *server) known(id string) bool {
	if id == s.c.SessionID() {
		return true
	}
	list, err := session.List(s.c.opt.FS, s.c.stateDir())
	return err == nil && slices.ContainsFunc(list, func(i session.Info) bool { return i.ID == id })
}

// clientName is the conversation id of a client.
func clientName(r control.Request) string {
	if r.Client == "" || r.Client == fromChat {
		return "client"
	}
	return r.Client
}

func (s *server) amend(r control.Request) (any, error) {
	var a interrupts.Amendment
	switch {
	case r.Class == "drop":
		a.Drop = true
	case r.Class != "":
		class, err := interrupts.ParseClass(r.Class)
		if err != nil {
			return nil, fault("usage", err, "urgent, ask, steer, later, drop")
		}
		a.Class = &class
	}
	if r.Text != "" {
		a.Text = &r.Text
	}
	m, err := s.c.Amend(r.To, a)
	if err != nil {
		return nil, fault("usage", err, "ralph status shows what waits")
	}
	return waitingOf(m), nil
}

// rested is what a stop came to, for who asked for it.
type rested struct {
	Stopped []string `json:"stopped"` // the agents that were at work
	Report  string   `json:"report"`
	Alive   []string `json:"survivors"`
}

// stop stops everything, or one agent, and tells when it is at rest.
func (s *server) stop(ctx context.Context, r control.Request) (any, error) {
	c := s.c
	cause := &interrupts.Stop{Text: "ralph stop"}
	if r.Kill {
		defer c.Kill()
	}
	out := rested{Stopped: []string{}, Alive: []string{}}
	if r.To != "" {
		if err := c.StopAgent(r.To, cause); err != nil {
			status, f := Fail(err)
			return nil, &control.Fault{Code: string(status), Message: f.Message, Hint: f.Hint}
		}
		out.Stopped, out.Report = []string{r.To}, r.To+" is stopped"
		return out, nil
	}
	for _, a := range c.pool.List() {
		out.Stopped = append(out.Stopped, a.ID)
	}
	c.Stop(cause)
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	report := c.pool.Stop(ctx, cause)
	for _, p := range report.Survivors {
		out.Alive = append(out.Alive, fmt.Sprintf("%d %s", p.PID, p.Command))
	}
	out.Report = restText(report)
	if len(out.Stopped) == 0 {
		out.Report = "nothing was at work; " + out.Report
	}
	if strings.TrimSpace(r.Text) == "leave" {
		// Another Ralph wants the project; the face ends as at a SIGTERM.
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return nil, fmt.Errorf("end this Ralph: %w", err)
		}
	}
	return out, nil
}

func (s *server) resume() (any, error) {
	if err := s.c.Proceed(); err != nil {
		hint := "ralph status shows what is going on"
		if s.c.interruption() != nil {
			hint = "the work was stopped: /go in the chat goes on with it"
		}
		return nil, &control.Fault{Code: "nothing_to_resume", Message: err.Error(), Hint: hint}
	}
	return s.c.Live(), nil
}

// attach shows the events from now on.
func (s *server) attach(ctx context.Context, reply func(any) error) (any, error) {
	w, done := s.c.eyes.watch()
	defer done()
	if err := reply(s.c.Live()); err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-w.events:
			if err := reply(e); err != nil {
				return nil, err
			}
		case <-w.lost:
			return nil, &control.Fault{Code: "slow", Message: "the events came faster than they were read", Hint: "attach again"}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// handed is a task from another terminal.
type handed struct {
	Task    string          `json:"task"`
	Context string          `json:"context,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Files   []File          `json:"files,omitempty"`
	DryRun  bool            `json:"dry_run,omitempty"`
	RunID   string          `json:"run_id,omitempty"`
	// What of the settings holds for this task alone.
	Check      string  `json:"check,omitempty"`
	MaxTurns   int     `json:"max_turns,omitempty"`
	MaxTokens  int     `json:"max_tokens,omitempty"`
	MaxCostUSD float64 `json:"max_cost,omitempty"`
	Events     bool    `json:"events,omitempty"`
}

// done is what came of a task that was handed over.
type done struct {
	Outcome  result.Outcome `json:"outcome"`
	Model    string         `json:"model"`
	Provider string         `json:"provider"`
}

// task does a task of another terminal here, with a conversation of its own,
// and tells its events. The end of ctx, when the client leaves, stops that task
// only.
func (s *server) task(ctx context.Context, r control.Request, reply func(any) error) (any, error) {
	var h handed
	if err := json.Unmarshal(r.Job, &h); err != nil {
		return nil, fault("usage", fmt.Errorf("read the task: %w", err), "")
	}
	if strings.TrimSpace(h.Task) == "" {
		return nil, &control.Fault{Code: "usage", Message: "the task is empty"}
	}
	g, err := s.c.guest(h, clientName(r))
	if err != nil {
		return nil, fault("locked", err, "try again")
	}
	w, release := g.eyes.watch()
	defer release()
	// The first reply says that somebody is there and took it.
	if err := reply(map[string]string{"agent": g.name}); err != nil {
		return nil, errors.Join(err, g.leave())
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(hungUp(context.Cause(ctx))) })()
	finished := make(chan error, 1)
	var out done
	s.c.visitors.Go(func() {
		var err error
		out.Outcome, err = g.do(work, h)
		if err := g.leave(); err != nil {
			out.Outcome.Warnings = append(out.Outcome.Warnings, err.Error())
		}
		finished <- err
	})
	for {
		select {
		case e := <-w.events:
			if !h.Events {
				continue
			}
			if err := reply(e); err != nil {
				stop(hungUp(err))
			}
		case err := <-finished:
			switch cause, stopped := interrupts.AsStop(err); {
			case errors.Is(err, control.ErrClosing):
				return nil, control.ErrClosing // not begun: it can be done elsewhere
			case stopped:
				out.Outcome.Status, out.Outcome.Failure = Fail(err)
				out.Outcome.Reason, out.Outcome.Signal = out.Outcome.Failure.Message, int(cause.Signal)
			case err != nil:
				return nil, err
			}
			for h.Events && len(w.events) > 0 && reply(<-w.events) == nil {
				continue // the outcome is told even when no event is taken any more
			}
			ep := s.c.Endpoint()
			out.Model, out.Provider = ep.Model, ep.Provider
			return out, nil
		}
	}
}

// hungUp is the cause that ends a task whose terminal left, or whose Ralph ends.
func hungUp(cause error) error {
	text := "its terminal left"
	if errors.Is(cause, control.ErrClosing) {
		text = "the Ralph that did it ends"
	}
	return errors.Join(&interrupts.Stop{Text: text}, cause)
}
