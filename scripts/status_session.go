package scripts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// statusSession is what a status says of a session that was named beyond how it
// stands.
type statusSession struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`     // chat, run, imported, unknown
	Standing  string     `json:"standing"` // as ralph sessions list words it
	Archived  bool       `json:"archived"`
	Path      string     `json:"path"` // of its directory, absolute
	StartedAt *time.Time `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Phase     string     `json:"phase"`
	Events    int        `json:"events"` // of its log
	// LastEvents are the last of them, oldest first.
	LastEvents []logLine `json:"last_events"`

	tasks *loop.View // for a picture; nil when nothing is known of any
}

const (
	// lastEvents bounds the events that a status shows.
	lastEvents = 10
	// maxSeenAgents bounds the agents that a status of a session lists: the last.
	maxSeenAgents = 200
	// maxSpentBytes bounds the journal whose usage a status adds up.
	maxSpentBytes = 1 << 30
)

// sessionStatus is how one session stands: as the Ralph that works in it tells, else
// as its files say.
func (inv *invocation) sessionStatus(ctx context.Context, w watched) (statusDocument, error) {
	if w.Live && w.root == inv.root {
		if caller, err := inv.reach(ctx); err == nil {
			defer caller.close()
			if caller.live.SessionID == w.ID {
				return inv.liveStatus(ctx, caller.live, w)
			}
		} else if !errors.Is(err, errNobody) && ctx.Err() == nil {
			inv.warning(err.Error())
		}
	}
	return inv.filesStatus(ctx, w)
}

// liveStatus is the status of a session as the Ralph that works in it tells it.
func (inv *invocation) liveStatus(ctx context.Context, live coordinator.Live, w watched) (statusDocument, error) {
	d, err := inv.filesStatus(ctx, w)
	d.Last, d.Recovery, d.Run = nil, nil, nil
	d.fill(live)
	d.Agents, d.Background, d.Queue = orEmpty(d.Agents), orEmpty(d.Background), orEmpty(d.Queue)
	return d, err
}

// filesStatus is how a session stands by its files alone.
func (inv *invocation) filesStatus(ctx context.Context, w watched) (statusDocument, error) {
	root := orWord(w.root, w.dir)
	d := statusDocument{Type: "status", Schema: "ralph.status/1", Root: root, State: sessionState(w.Session), Session: optional(w.ID),
		Agents: []crew.Agent{}, Background: []coordinator.Background{}, Queue: []coordinator.Waiting{}}
	if w.holder.PID != 0 {
		d.Holder = holderOf(w.holder)
	}
	sees := sessionEyes{alive: w.Live, names: map[string]string{}, agents: map[string]*crew.Agent{}}
	data, err := folder.ReadEach(durable.Disk(), w.dir, func(id string, e folder.Event) error {
		if sees.events%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		sees.event(id, e)
		return nil
	})
	if ctx.Err() != nil {
		return d, context.Cause(ctx)
	}
	if err != nil {
		return d, broken("io", "", err, "%s", w.title())
	}
	for _, p := range data.Problems {
		if !w.Live || p.File != "execution-log.json" { // the last event may be half written
			inv.warning(p.File + ": " + p.Err.Error())
		}
	}
	if _, err := session.ReadRecords(durable.Disk(), filepath.Join(w.dir, session.JournalFile), nil, sees.record); err != nil {
		inv.warning("the journal cannot be read: " + err.Error())
	}
	spent, err := retention.Usage(durable.Disk(), w.dir, maxSpentBytes)
	if err != nil {
		inv.warning("what was used cannot be added up: " + err.Error())
	}
	if spent.Known && spent.Total > 0 {
		d.Usage = &agent.Usage{Input: int(spent.Input), CachedInput: int(spent.CachedInput), Output: int(spent.Output), Total: int(spent.Total)}
		d.CostUSD = spent.CostUSD
	}
	inv.fillSession(&d, w, data, &sees)
	d.Warnings = orEmpty(inv.result.Warnings)
	return d, nil
}

func (inv *invocation) fillSession(d *statusDocument, w watched, data folder.Data, sees *sessionEyes) {
	standing := w.Standing()
	if w.Status == "" {
		standing = "unknown"
		if data.Log.End != "" { // a folder without metadata
			d.State = stateOf(data.Log.End)
		}
	}
	d.Model, d.RunID, d.Turn = optional(sees.model), optional(sees.run), sees.turns
	d.Agents = sees.list()
	about := &statusSession{Name: w.Name, Kind: cmp.Or(w.Kind, sees.kind, "unknown"), Standing: standing, Archived: w.Archived, Path: w.dir, StartedAt: instant(w.Start), EndedAt: instant(w.End),
		Phase: w.Phase, Events: data.Log.Events, LastEvents: []logLine{}}
	for _, e := range sees.last {
		about.LastEvents = append(about.LastEvents, e.document())
	}
	about.tasks = sees.tasks(data.Progress.Tasks)
	d.About = about
	if v := about.tasks; v != nil {
		d.Tasks = result.TaskCount(countsOnly(v.Counts))
		if len(v.Active) > 0 {
			d.Task = optional(oneLine(v.Active[0].ID+" "+v.Active[0].Title, 200))
		}
	} else {
		d.Tasks = result.TaskCount{Done: w.Done, Open: max(0, w.Total-w.Done)}
	}
	end := w.End
	if end.IsZero() {
		end = data.Log.Last
	}
	d.Since = instant(end)
	if d.State == stateRunning {
		d.Since = instant(w.Start)
	} else {
		d.Last = &statusLast{Status: d.State, At: instant(end), Reason: optional(session.Reason(w.ExitReason)), Session: optional(w.ID), RunID: d.RunID}
	}
	if w.root == inv.root {
		inv.snapshotOf(d, w)
	}
	if d.State == statePaused || d.State == stateInterrupted {
		if d.Recovery == nil && w.root != "" && !w.Archived {
			d.Recovery = &statusRecovery{Verdict: verdictSame, Why: standing, Session: optional(w.ID), RunID: d.RunID, Tasks: []string{}, Torn: []string{}}
		}
	}
}

// snapshotOf adds the run of a plan that was last in the session.
func (inv *invocation) snapshotOf(d *statusDocument, w watched) {
	list, err := feature.List(inv.features(nil))
	if err != nil {
		inv.warning("the runs of plans cannot be read: " + err.Error())
		return
	}
	i := slices.IndexFunc(list, func(l feature.Listed) bool { return l.Err == nil && l.Snapshot.SessionID == w.ID })
	if i < 0 || w.ID == "" {
		return
	}
	s := list[i].Snapshot
	v := loop.Seen(s)
	d.Run = &v
	d.Model = optional(cmp.Or(s.Agent.Model, orNothing(d.Model)))
	if s.Status.Resumable() && !w.Live {
		d.Recovery = &statusRecovery{Verdict: verdictSame, Why: "the run " + s.Feature + " was " + howEnded(s), Session: optional(w.ID), RunID: d.RunID, Torn: []string{},
			From: optional(s.SessionID), Feature: optional(s.Feature), Iteration: s.Iteration, Lost: lostText(s), Tasks: orEmpty(begunOf(s))}
	}
}

// sessionState is the word of a status for how a session stands.
func sessionState(s retention.Session) string {
	switch {
	case s.Live:
		return stateRunning
	case s.Status == session.Completed:
		return stateCompleted
	case s.Status == session.Failed:
		return stateFailed
	case s.Status == session.Paused:
		return statePaused
	case s.Status == session.InProgress:
		return stateInterrupted
	}
	return stateIdle
}

func orNothing(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sessionEyes gathers from the log and the journal of a session what a status says.
type sessionEyes struct {
	alive      bool // somebody works in it
	events     int
	last       []logEntry
	model, run string
	kind       string
	turns      int
	names      map[string]string // of tasks
	agents     map[string]*crew.Agent
	order      []string // of agents, as they began last
}

func (s *sessionEyes) event(id string, e folder.Event) {
	s.events++
	if len(s.last) == lastEvents {
		s.last = append(s.last[:0], s.last[1:]...)
	}
	s.last = append(s.last, logEntry{e, id})
	text := func(key string) string { t, _ := e.Details[key].(string); return t }
	switch e.Type {
	case folder.SessionStart:
		s.model, s.run = cmp.Or(text("model"), s.model), cmp.Or(text("run_id"), s.run)
		s.kind = cmp.Or(text("kind"), s.kind)
	case folder.TaskStart, folder.TaskComplete:
		if e.TaskName != "" && len(s.names) < maxSeenNames {
			s.names[e.TaskID] = e.TaskName
		}
	}
}

// maxSeenNames bounds the names of tasks that are kept.
const maxSeenNames = 20_000

// seenEvent is what a status needs of an event in the journal.
type seenEvent struct {
	Type   agent.EventType `json:"type"`
	Time   time.Time       `json:"time"`
	Agent  string          `json:"agent"`
	RunID  string          `json:"run_id"`
	Model  string          `json:"model"`
	Text   string          `json:"text"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	Status string          `json:"status"`
	Ref    string          `json:"ref"`
	Usage  *agent.Usage    `json:"usage"`
}

func (s *sessionEyes) record(r session.Record) error {
	if r.Kind != "event" {
		return nil
	}
	var e seenEvent
	if json.Unmarshal(r.Payload, &e) != nil {
		return nil
	}
	switch e.Type {
	case agent.EventStart:
		s.model, s.run = cmp.Or(e.Model, s.model), cmp.Or(e.RunID, s.run)
	case agent.EventTurnStart:
		if e.Agent == mainAgent {
			s.turns++
		}
	case agent.EventChildStart:
		s.began(e)
	}
	if a := s.agents[e.Agent]; a != nil {
		did(a, e)
	}
	return nil
}

// began notes an agent, or that one was begun again.
func (s *sessionEyes) began(e seenEvent) {
	a := s.agents[e.Agent]
	if a == nil {
		a = &crew.Agent{ID: e.Agent, Depth: 1}
		s.agents[e.Agent] = a
		s.order = append(s.order, e.Agent)
	}
	a.Label, a.Branch, a.State, a.Since, a.Ended, a.Landing = cmp.Or(e.Text, a.Label), cmp.Or(e.Ref, a.Branch), crew.Running, e.Time, time.Time{}, crew.Unmerged
	if len(s.order) > maxSeenAgents {
		delete(s.agents, s.order[0])
		s.order = s.order[1:]
	}
}

// did takes an event of an agent into what is known of it.
func did(a *crew.Agent, e seenEvent) {
	a.Beat = e.Time
	switch e.Type {
	case agent.EventTurnStart:
		a.Turns++
	case agent.EventToolStart:
		a.Doing = oneLine(e.Tool+" "+subject(e.Args), 200)
	case agent.EventUsage:
		if e.Usage != nil {
			a.Usage = a.Usage.Add(*e.Usage)
		}
	case agent.EventChildEnd:
		switch l := crew.Landing(e.Status); l {
		case crew.Merging, crew.Merged, crew.Held, crew.Conflict, crew.Unchanged:
			a.Landing, a.Commit = l, e.Ref
			return
		}
		a.State, a.Ended, a.Result = crew.State(e.Status), e.Time, e.Text
	}
}

// list are the agents in the order in which they began first.
func (s *sessionEyes) list() []crew.Agent {
	out := make([]crew.Agent, 0, len(s.order))
	for _, id := range s.order {
		a := *s.agents[id]
		if a.Ended.IsZero() && !s.alive {
			a.State, a.Ended = crew.Interrupted, a.Beat
		}
		out = append(out, a)
	}
	return out
}

// maxNamed bounds the tasks of each kind that a picture may name.
const maxNamed = 10

// tasks are the tasks of the session as a run shows its own; nil for none.
func (s *sessionEyes) tasks(list []folder.TaskState) *loop.View {
	if len(list) == 0 {
		return nil
	}
	v := &loop.View{Counts: loop.Counts{Total: len(list)}}
	for _, t := range list {
		row := loop.Row{ID: t.TaskID, Title: s.names[t.TaskID], Status: string(t.Status)}
		switch t.Status {
		case folder.TaskCompleted:
			v.Counts.Done++
		case folder.TaskSkipped:
			v.Counts.Skipped++
		case folder.TaskError:
			v.Counts.Failed++
			row.Reason = t.Details
			v.Recent = append(v.Recent, row)
		case folder.TaskInProgress, folder.TaskPaused:
			if t.StartedAt != nil {
				row.Since = *t.StartedAt
			}
			v.Active = append(v.Active, row)
		default:
			if len(v.Next) < maxNamed {
				v.Next = append(v.Next, row)
			}
		}
	}
	v.Counts.Open = v.Counts.Total - v.Counts.Done - v.Counts.Skipped - v.Counts.Failed
	return v
}
