package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/repl/pick"
	"ralph/repl/render"
)

// sessions does /sessions.
func (s *Shell) sessions(args string) {
	word, which, _ := strings.Cut(args, " ")
	which = strings.TrimSpace(which)
	switch {
	case args == "" || args == "list":
		s.listSessions()
	case word == "switch":
		s.switchSession(which)
	case word == "show" && which != "":
		s.showSession(which)
	default:
		s.showSession(args)
	}
}

// listSessions lists the newest sessions of the project.
func (s *Shell) listSessions() {
	s.aside(func(context.Context) func() {
		list, err := s.mind.State.Sessions()
		return func() {
			if err != nil {
				s.explain(err)
				return
			}
			now := s.mind.About.SessionID()
			var table [][]string
			for _, x := range list {
				id, m := x.ID, x.Meta
				if id == now {
					id += " (this)"
				}
				if x.Err != nil {
					table = append(table, []string{id, "unreadable", "", "", x.Dir})
					continue
				}
				took := time.Duration(m.Performance.TotalDurationSeconds * float64(time.Second))
				if x.ID == now {
					took = time.Since(m.StartTime) // the file is of some time ago
				}
				table = append(table, []string{id, m.Standing(), m.StartTime.Local().Format("2006-01-02 15:04"), roughly(took), m.SessionName})
			}
			if len(table) == 0 {
				s.note("there are no sessions")
				return
			}
			s.rows(table)
			s.note("/sessions ID tells more, /sessions switch goes on with one; ralph sessions archives, merges, exports")
		}
	})
}

// showSession tells about one session.
func (s *Shell) showSession(which string) {
	if s.o.Past == nil {
		s.fail("other sessions are not known here", "ralph sessions show "+which)
		return
	}
	s.aside(func(context.Context) func() {
		row, d, err := s.o.Past.Show(which)
		return func() {
			if err != nil {
				s.explain(err)
				return
			}
			table := sessionRows(row, row.ID == s.mind.About.SessionID(), time.Now())
			for _, t := range last(d.Data.Progress.Tasks) {
				table = append(table, []string{"task", strings.TrimSpace(t.TaskID + " " + string(t.Status) + " " + render.Brief(t.Details))})
			}
			for _, m := range last(d.Messages) {
				table = append(table, []string{m.Role, render.Brief(session.Unmarked(m.Text))})
			}
			if n := len(d.Files); n > 0 {
				table = append(table, []string{"files", strings.Join(last(d.Files), ", ")})
			}
			s.rows(table)
			for _, w := range d.Warnings {
				s.ink.say(func(r *render.Renderer) string { return r.Warning(w) })
			}
			if row.ID != s.mind.About.SessionID() && !row.Archived {
				s.note(fmt.Sprintf("/sessions switch %s goes on with it, /handoff %s brings here what it knows", row.ID, row.ID))
			}
		}
	})
}

// shownOfEach bounds how much of a session's parts is told.
const shownOfEach = 5

func last[T any](list []T) []T { return list[max(0, len(list)-shownOfEach):] }

// roughly is how long a session took: what is kept of that are seconds.
func roughly(took time.Duration) string {
	if took < time.Second {
		return "under 1 s"
	}
	return render.Duration(took.Truncate(time.Second))
}

// sessionRows are the facts about a session, one a row.
func sessionRows(r retention.Row, here bool, now time.Time) [][]string {
	title := r.ID
	if r.Name != "" {
		title += " " + r.Name
	}
	if here {
		title += " (this)"
	}
	how := r.Status
	if r.Archived {
		how += ", archived"
	}
	if r.Reason != nil {
		how += ": " + render.Brief(session.Reason(*r.Reason))
	}
	rows := [][]string{{"session", title}, {"status", how}}
	if r.Started != nil {
		rows = append(rows, []string{"began", fmt.Sprintf("%s (%s ago)", r.Started.Local().Format("2006-01-02 15:04"), age(now.Sub(*r.Started)))})
	}
	took := time.Duration(r.DurationMS) * time.Millisecond
	if here && r.Started != nil {
		took = now.Sub(*r.Started) // the file is of some time ago
	}
	if took > 0 {
		rows = append(rows, []string{"took", roughly(took)})
	}
	if r.Total > 0 {
		rows = append(rows, []string{"tasks", fmt.Sprintf("%d of %d done", r.Done, r.Total)})
	}
	if u := r.Usage; u != nil {
		rows = append(rows, []string{"spent", render.Tokens(int(u.Total)) + " tokens, " + render.Cost(u.CostUSD)})
	}
	if r.Words != "" {
		rows = append(rows, []string{"began with", render.Brief(r.Words)})
	}
	if r.Error != nil {
		rows = append(rows, []string{"damaged", render.Brief(*r.Error)})
	}
	return rows
}

// switchSession goes on with another session, which is picked when it is not
// named.
func (s *Shell) switchSession(which string) {
	switch {
	case s.o.Past == nil:
		s.fail("other sessions are not known here", "leave, then ralph chat --resume asks which one")
		return
	case s.stays("/sessions switch"):
		return
	}
	here := s.mind.About.SessionID()
	s.start("sessions", false, func(ctx context.Context) func() {
		id, err := which, error(nil)
		if which == "" {
			id, err = s.pickSession(ctx, here)
		} else {
			id, err = s.nameSession(which)
		}
		return func() {
			_, stopped := interrupts.AsStop(err)
			switch {
			case errors.Is(err, pick.ErrCancelled) || stopped:
				s.note("this session goes on")
			case err != nil:
				s.explain(err)
			case id == here:
				s.note("session " + id + " is this one")
			default:
				s.move(id, nil)
			}
		}
	})
}

// nameSession finds the session that a word means; one that can go on.
func (s *Shell) nameSession(which string) (id string, err error) {
	row, _, err := s.o.Past.Show(which)
	if err == nil && row.Archived {
		err = &result.Error{Op: "go on with session", Path: row.ID, Err: errors.New("it is in the archive"), Status: result.Usage, Hint: "/handoff " + row.ID + " brings here what it knows"}
	}
	return row.ID, err
}

// pickSession has the user pick a session that can go on, newest first, but not
// the one that goes on here.
func (s *Shell) pickSession(ctx context.Context, here string) (string, error) {
	rows, err := s.o.Past.List(ctx, false)
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(r retention.Row) bool { return r.Archived || r.Gone || r.Empty || r.ID == here })
	slices.Reverse(rows)
	if len(rows) == 0 {
		return "", &result.Error{Op: "choose session", Err: errors.New("there is none to go on with"), Status: result.Failed, Hint: "/handoff and ralph chat --new begin one"}
	}
	items := make([]pick.Item, len(rows))
	for i, r := range rows {
		items[i] = pick.Item{Value: r.ID, Detail: sessionDetail(r, time.Now())}
	}
	return s.pickOne(ctx, "session", "", items, false)
}

// sessionDetail is what a picker says of a session: its name, how it stands, how
// old it is, what was done and how it began.
func sessionDetail(r retention.Row, now time.Time) string {
	var parts []string
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	parts = append(parts, r.Status)
	if at := r.Ended; at != nil || r.Started != nil {
		if at == nil {
			at = r.Started
		}
		parts = append(parts, age(now.Sub(*at))+" ago")
	}
	if r.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tasks", r.Done, r.Total))
	}
	if u := r.Usage; u != nil && u.Total > 0 {
		parts = append(parts, render.Tokens(int(u.Total))+" tok")
	}
	if r.Words != "" && r.Words != r.Name {
		parts = append(parts, render.Brief(r.Words))
	}
	return strings.Join(parts, ", ")
}

// handoff does /handoff: what a session knows goes to another one.
func (s *Shell) handoff(args string) {
	switch {
	case s.mind.Hands == nil:
		s.fail("/handoff does not work in this chat", "ralph sessions handoff does it from the command line")
		return
	case s.stays("/handoff"):
		return
	}
	from, to := strings.TrimSpace(args), ""
	if rest, ok := strings.CutPrefix(args+" ", "to "); ok {
		if from, to = "", strings.TrimSpace(rest); to == "" {
			s.fail("/handoff to needs a session", "/sessions lists them; /handoff alone begins a new one")
			return
		}
	}
	here := s.mind.About.SessionID()
	if here != "" && (from == here || to == here) {
		s.fail("session "+here+" is this one", "/handoff alone begins a new session that knows what this one knows")
		return
	}
	if from == "" && to == "" {
		if here == "" {
			s.fail("this conversation has no session that could be handed on", "")
			return
		}
		s.move(anotherSession, func(ctx context.Context, m Mind) func() { return s.handed(ctx, m, here, "") })
		return
	}
	m := s.mind
	s.start("handoff", false, func(ctx context.Context) func() { return s.handed(ctx, m, from, to) })
}

// handed hands on what a session knows; it runs beside the loop.
func (s *Shell) handed(ctx context.Context, m Mind, from, to string) func() {
	h, err := m.Hands.HandOff(ctx, from, to)
	return func() {
		if err != nil {
			s.explain(err)
			if from != "" && to == "" {
				s.note("nothing of session " + from + " is known here")
			}
			return
		}
		content := fmt.Sprintf("session %s knows what session %s knows", h.To, h.From)
		if n := len(h.Tasks); n > 0 {
			content += ", with " + text.Count(n, "task state")
		}
		s.note(content)
		s.ink.say(func(r *render.Renderer) string {
			out := ""
			for _, w := range append(slices.Clone(h.Conflicts), h.Warnings...) {
				out += r.Warning(w)
			}
			return out
		})
	}
}
