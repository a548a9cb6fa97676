package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory/durable"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

func (inv *invocation) monitorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "monitor [SESSION]",
		Short: "watch a session live, in place: tasks, agents, tokens, last events",
		Long: "Watch a session. On a terminal its state, tasks, agents, what waits and the last events are drawn in place as they change; elsewhere (also with NO_COLOR or a dumb terminal) each change is a line. " +
			"Without SESSION it is the Ralph that runs here, else the newest session; one that nobody works in is shown once, as it stands.\n" +
			"Watching changes nothing: q or Ctrl-C leaves, and the work goes on. Exits with 0 then, and when that Ralph ends.\n" +
			"--output json prints the status document once, --output jsonl one for each change; `ralph schema status` is its JSON Schema.\n" +
			"Example: ralph monitor\nExample: ralph monitor 7\nExample: ralph monitor --output jsonl | jq -r .state",
		Args: wordsOf(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := inv.lightly(c); err != nil {
				return err
			}
			which, err := inv.sessionNamed(c, args)
			if err != nil {
				return err
			}
			return inv.monitor(c.Context(), which)
		},
	}
}

// monitor is one look at a session over time. It is used by one goroutine; close
// hangs up.
type monitor struct {
	inv     *invocation
	session watched // with a session id, or else of a Ralph that works in none
	caller  *caller // to the Ralph that works in it; nil: its files are read
	feed    *feed   // of its events; nil without a caller
	base    statusDocument
	recent  recentLines
	fresh   bool      // base was read just now
	readAt  time.Time // when it was read
	took    time.Duration
	mute    bool // it did not answer when it was asked last
}

func (inv *invocation) monitor(ctx context.Context, which string) error {
	m := &monitor{inv: inv}
	defer m.close()
	if err := m.open(ctx, which); err != nil {
		return err
	}
	if m.caller == nil {
		inv.markForeign()
	}
	var err error
	switch {
	case inv.form == outputJSON:
		var d statusDocument
		if d, err = m.document(ctx); err == nil {
			err = inv.out.printJSON(d)
		}
	case inv.form == outputJSONL:
		err = m.watch(ctx, &documentEye{out: inv.out})
	case inv.coloured():
		err = m.picture(ctx)
	default:
		err = m.lines(ctx)
	}
	stop, stopped := interrupts.AsStop(context.Cause(ctx))
	switch {
	case stopped && stop.Signal == syscall.SIGINT:
		return nil // to leave is no failure
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// open finds the session, and who works in it.
func (m *monitor) open(ctx context.Context, which string) error {
	inv := m.inv
	if which == "" && inv.listening() {
		caller, err := inv.reach(ctx)
		switch {
		case err == nil:
			m.caller = caller
			which = caller.live.SessionID
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, errNobody):
			inv.warning(err.Error())
		}
	}
	if m.caller == nil || which != "" {
		w, err := inv.watch(which)
		if err != nil && m.caller == nil {
			return err
		}
		m.session = w
	}
	if m.caller == nil && m.session.Live && m.session.root == inv.root {
		if caller, err := inv.reach(ctx); err == nil && caller.live.SessionID == m.session.ID {
			m.caller = caller
		} else if err == nil {
			caller.close()
		}
	}
	return m.begin(ctx)
}

// begin reads what the files say, and listens for what comes.
func (m *monitor) begin(ctx context.Context) error {
	m.base = statusDocument{Type: "status", Schema: "ralph.status/1", Root: m.inv.root, State: stateIdle, Usage: &agent.Usage{}}
	if m.session.dir != "" {
		if err := m.files(ctx); err != nil {
			return err
		}
		m.fresh = true
	}
	if m.caller == nil {
		return nil
	}
	feed, err := m.inv.openFeed(ctx)
	if err != nil { // it has ended meanwhile
		m.hangUp()
		return nil
	}
	m.feed = feed
	return nil
}

// files reads what the files say.
func (m *monitor) files(ctx context.Context) error {
	began := m.inv.Now()
	d, err := m.inv.filesStatus(ctx, m.session)
	if err != nil {
		return err
	}
	m.base, m.readAt = d, m.inv.Now()
	m.took = m.readAt.Sub(began)
	if d.About != nil {
		m.recent.take(d.About)
	}
	return nil
}

func (m *monitor) hangUp() {
	m.mute = false
	if m.feed != nil {
		m.feed.close()
		m.feed = nil
	}
	if m.caller != nil {
		m.caller.close()
		m.caller = nil
	}
}

func (m *monitor) close() { m.hangUp() }

// askWithin is how long the one who is watched has to say how it stands: the
// picture goes on without its word.
const askWithin = 400 * time.Millisecond

// document is how things stand now.
func (m *monitor) document(ctx context.Context) (statusDocument, error) {
	inv := m.inv
	if m.caller == nil {
		if m.session.dir == "" {
			return inv.status(ctx)
		}
		if m.fresh {
			m.fresh = false
			return m.base, nil
		}
		err := m.files(ctx)
		return m.base, err
	}
	// What the files say beside it is read again when that takes next to nothing.
	if m.session.dir != "" && inv.form != outputText && inv.Now().Sub(m.readAt) > max(askEvery, 20*m.took) {
		if err := m.files(ctx); err != nil {
			return m.base, err
		}
	}
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var live coordinator.Live // a new one: what its answer leaves out is not there any more
	err := m.caller.do(within, control.Request{Op: "status"}, nil, &live)
	m.mute = err != nil
	if err == nil {
		m.caller.live = live
	}
	live = m.caller.live
	d := m.base
	d.Last, d.Recovery, d.Run = nil, nil, nil
	d.fill(m.caller.live)
	d.Holder = &statusHolder{PID: live.PID, Kind: optional(live.Kind), Since: instant(live.StartedAt)}
	d.Agents, d.Background, d.Queue, d.Warnings = orEmpty(d.Agents), orEmpty(d.Background), orEmpty(d.Queue), orEmpty(inv.result.Warnings)
	return d, nil
}

// ended turns to the files once the Ralph that was watched is gone, or finds it
// again where only the line was cut.
func (m *monitor) ended(ctx context.Context) error {
	run := m.caller.live.RunID
	m.fresh = false
	m.hangUp()
	if caller, err := m.inv.reach(ctx); err == nil {
		if caller.live.RunID == run {
			m.caller = caller
			if err := m.again(); err != nil {
				return err
			}
			return m.begin(ctx)
		}
		caller.close()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.again()
}

// again looks who works in the session now.
func (m *monitor) again() error {
	m.fresh = false // what was read before is of another look
	if m.session.dir == "" {
		return nil
	}
	which := m.session.dir
	if m.session.root == m.inv.root && m.session.ID != "" {
		which = m.session.ID
	}
	w, err := m.inv.watch(which)
	if err == nil {
		m.session = w
	}
	return err
}

// over says whether nothing can change any more.
func (m *monitor) over() bool {
	if m.caller != nil {
		return false
	}
	if m.session.dir == "" {
		return true
	}
	_, over := m.session.over("")
	return over
}

// lines shows each change as a line where nothing can be drawn in place.
func (m *monitor) lines(ctx context.Context) error {
	inv := m.inv
	if m.caller == nil && m.over() {
		return inv.out.print(statusReport(m.base, inv.Now()))
	}
	if m.caller == nil {
		r, err := folder.OpenLog(durable.Disk(), m.session.dir)
		if err != nil {
			return broken("io", "", err, "%s", m.session.title())
		}
		defer func() { _ = r.Close() }() // it was only read
		l := &logScan{inv: inv, session: m.session, reader: r, filter: &logFilter{}, sink: inv.newLogSink(m.session, &logsFlags{tail: lastEvents}), tail: lastEvents}
		if err := l.read(ctx); err != nil {
			return err
		}
		return l.follow(ctx)
	}
	show, err := m.caller.shower()
	if err != nil {
		return err
	}
	for m.caller != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case raw := <-m.feed.events:
			if err := show(raw); err != nil {
				return err
			}
		case <-m.feed.done:
			for len(m.feed.events) > 0 {
				if err := show(<-m.feed.events); err != nil {
					return err
				}
			}
			if err := m.ended(ctx); err != nil {
				return err
			}
		}
	}
	if m.session.dir != "" {
		if why, over := m.session.over(""); over {
			inv.note(why)
		}
	}
	return inv.out.trouble()
}

// feed brings the events of a running Ralph. close waits for its goroutine.
type feed struct {
	caller *caller
	events chan json.RawMessage
	done   chan struct{} // closed when no more come
	cancel context.CancelFunc
}

// openFeed listens to the Ralph that runs in the project.
func (inv *invocation) openFeed(ctx context.Context) (*feed, error) {
	caller, err := inv.reach(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{caller: caller, events: make(chan json.RawMessage, 256), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(f.done)
		// How it ended is seen by who is there afterwards.
		_ = caller.do(ctx, control.Request{Op: "attach"}, func(raw json.RawMessage) error {
			select {
			case f.events <- bytes.Clone(raw):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, nil)
	}()
	return f, nil
}

func (f *feed) close() {
	f.cancel()
	<-f.done
	f.caller.close()
}

// toolFinish is the tool by which an agent says that it is done.
const toolFinish = "finish"

// recentLines are the last things that happened, as lines for people: those of the
// log until events come.
type recentLines struct {
	list  []string
	tells *progress
	heard bool // events came
}

// take shows the last events of the log.
func (r *recentLines) take(about *statusSession) {
	if !r.heard {
		r.list = about.recent()
	}
}

// hear adds an event. Most say nothing that a person would read.
func (r *recentLines) hear(e agent.Event, now func() time.Time) bool {
	if r.tells == nil {
		r.tells = &progress{now: now, began: now(), says: true, calls: map[string]string{}, tries: map[string]int{}, done: make(chan struct{})}
	}
	if e.Tool == toolFinish {
		return false // what it ends is told by itself
	}
	var got bytes.Buffer
	r.tells.area.w = &got
	r.tells.warning = func(text string) { got.WriteString("warning: " + text + "\n") }
	r.tells.event(e)
	if got.Len() == 0 {
		return false
	}
	r.heard = true
	for line := range bytes.Lines(got.Bytes()) {
		text := string(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("ralph: "))))
		if text != "" {
			r.list = append(r.list, e.Time.UTC().Format(time.TimeOnly)+"  "+oneLine(text, 400))
		}
	}
	if n := len(r.list) - lastEvents; n > 0 {
		r.list = append(r.list[:0], r.list[n:]...)
	}
	return true
}
