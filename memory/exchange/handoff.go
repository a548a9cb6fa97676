package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ralph/memory/durable"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// RecordHandoff is the kind of the journal record by which a session gets the
// context of another. Its payload is a message of the user with the key "from".
const RecordHandoff = "handoff"

// The bounds of what a handoff says.
const (
	maxHandedMessages  = 8
	maxHandedDecisions = 10
	maxHandedFiles     = 20
	maxHandedTasks     = 50
	maxHandedRunes     = 1500 // of one message
	maxGivenRunes      = 6000 // of what the session had been given itself
)

// Handed says what Handoff did.
type Handed struct {
	From string `json:"from"`
	To   string `json:"to"`
	Text string `json:"text"`
	// Tasks are the states that the target took over, Conflicts where both
	// sessions say something, one a line: the newer counts.
	Tasks     []string `json:"tasks"`
	Conflicts []string `json:"conflicts"`
	Warnings  []string `json:"warnings"`
}

// Handoff gives one session what another knows: its open tasks, decisions, the
// files that it worked on and its last messages, as one message that the model
// reads when the session goes on. open are the project's open tasks, a line
// each. dry only says what would be done. It can be repeated: the same context
// is handed over once.
func Handoff(o Options, from, to retention.Session, open []string, dry bool) (Handed, error) {
	o = o.withDefaults()
	h := Handed{From: from.ID, To: to.ID}
	fail := func(err error) (Handed, error) {
		return h, fmt.Errorf("hand session %s to %s: %w", from.ID, to.ID, err)
	}
	a, err := Look(o, from)
	if err != nil {
		return fail(err)
	}
	b, err := Look(o, to)
	if err != nil {
		return fail(err)
	}
	h.Text = o.Redact(handText(a, open, to.ID))
	h.Warnings = slices.Concat(some(a.Warnings), b.Warnings)
	tasks, conflicts, took := joinTasks(b.Data.Progress.Tasks, a.Data.Progress.Tasks, to.ID, from.ID)
	h.Tasks, h.Conflicts = some(took), some(conflicts)
	if dry {
		return h, nil
	}
	dir := filepath.Join(o.StateDir, filepath.FromSlash(to.Path))
	hand := handRecord
	if o.Live != nil && o.Live.ID == to.ID {
		hand = handLive
	}
	if err := hand(o, dir, h); err != nil {
		return fail(err)
	}
	err = handFiles(o, from, to, tasks, took)
	if err == nil && from.ExitReason == session.HandedOn {
		err = handedOn(session.Options{FS: o.FS, StateDir: o.StateDir, Now: o.Now, Redact: o.Redact, Key: o.Key}, from.ID, to.ID)
	}
	if err != nil {
		return fail(err)
	}
	return h, nil
}

// handRecord appends the message to journal and transcript, unless it is the
// last thing that was handed over already.
func handRecord(o Options, dir string, h Handed) error {
	j, err := session.OpenJournal(o.FS, filepath.Join(dir, session.JournalFile), filepath.Join(o.StateDir, "quarantine"), o.Key)
	if err != nil {
		return err
	}
	record, again, err := h.record(o, j.Records)
	if err != nil || again {
		return errors.Join(err, j.Close())
	}
	err = j.Append(0, record)
	if err == nil {
		var b strings.Builder
		fmt.Fprintf(&b, "## %s handoff from session %s\n\n", o.Now().UTC().Format("2006-01-02 15:04:05"), h.From)
		for line := range strings.SplitSeq(strings.TrimSpace(text.Visible(h.Text)), "\n") {
			b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
		}
		err = durable.AppendText(o.FS, filepath.Join(dir, session.ConversationFile), b.String()+"\n", 0o600)
	}
	return errors.Join(err, j.Close())
}

// handLive hands the message to who has the target open.
func handLive(o Options, dir string, h Handed) error {
	record, again, err := h.record(o, func(each func(session.Record) error) error {
		_, err := session.ReadRecords(o.FS, filepath.Join(dir, session.JournalFile), o.Key, each)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil || again {
		return err
	}
	return o.Live.Take(record, h.Text, h.From)
}

// record is the record of a handoff; again says that it was the last that was
// handed over.
func (h Handed) record(o Options, records func(func(session.Record) error) error) (r session.Record, again bool, err error) {
	payload, err := json.Marshal(map[string]string{"role": "user", "text": h.Text, "from": h.From})
	if err != nil {
		return r, false, err
	}
	err = records(func(r session.Record) error {
		if r.Kind == RecordHandoff {
			again = sameJSON(r.Payload, payload)
		}
		return nil
	})
	return session.Record{Kind: RecordHandoff, Time: o.Now(), Payload: payload}, again, err
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y map[string]string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x["text"] == y["text"] && x["from"] == y["from"]
}

// handedOn notes in a session that was closed that the one with the id to goes on
// with its conversation.
func handedOn(o session.Options, from, to string) error {
	s, err := session.Open(o, from)
	if err != nil {
		return err
	}
	s.End(session.Completed, "handed to "+to)
	return s.Close()
}

// handFiles writes the event into both logs and the tasks into the target's.
func handFiles(o Options, from, to retention.Session, tasks []folder.TaskState, took []string) error {
	details := map[string]any{"from": from.ID, "to": to.ID}
	for _, s := range []retention.Session{from, to} {
		f, release, err := folderOf(o, s)
		if err != nil {
			return err
		}
		f.Log(folder.Event{Type: folder.Handoff, Result: "success", Details: details})
		if s.ID == to.ID {
			for _, t := range tasks {
				if slices.Contains(took, t.TaskID) {
					f.Task(t)
				}
			}
		}
		if err := release(); err != nil {
			return err
		}
		if live := o.Live != nil && o.Live.ID == s.ID; s.ID == to.ID && !live && len(took) > 0 {
			if err := recount(o, s, tasks); err != nil {
				return err
			}
		}
	}
	return nil
}

// folderOf gives the files of a session; release brings to disk what was written.
func folderOf(o Options, s retention.Session) (f *folder.Folder, release func() error, err error) {
	if o.Live != nil && o.Live.ID == s.ID {
		return o.Live.Folder, o.Live.Folder.Flush, nil
	}
	if f, err = openFolder(o, s); err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

func openFolder(o Options, s retention.Session) (*folder.Folder, error) {
	return folder.Open(folder.Options{FS: o.FS, Dir: filepath.Join(o.StateDir, filepath.FromSlash(s.Path)), SessionID: s.ID,
		Quarantine: filepath.Join(o.StateDir, "quarantine"), Now: o.Now, Redact: o.Redact})
}

const (
	// handedTitle begins each context that is handed over, givenTitle the part of
	// it that its session had been given itself.
	handedTitle = "Context handed over from session "
	givenTitle  = "\nWhat that session had itself been given:\n"
)

// IsHanded says that a message of the user's side is the context of another
// session, which nobody said.
func IsHanded(text string) bool { return strings.HasPrefix(text, handedTitle) }

// handText is what the session with the id to is told. What its own context told
// the other one does not come back, and of what a third one told there only that
// one's own part goes on: the text does not grow with each handoff.
func handText(d Details, open []string, to string) string {
	var b strings.Builder
	s := d.Session
	fmt.Fprintf(&b, handedTitle+"%s (%s, %s). It is what was known there; check what matters before you build on it.\n", s.ID, line(s.Name), s.Status)
	part := func(title string, lines []string, most int) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		if n := len(lines) - most; n > 0 {
			fmt.Fprintf(&b, "- … %d earlier\n", n)
			lines = lines[n:]
		}
		for _, l := range lines {
			b.WriteString("- " + l + "\n")
		}
	}
	part("Open tasks of the project", open, maxHandedTasks)
	var tasks, decisions, messages []string
	for _, t := range d.Data.Progress.Tasks {
		if t.Status != folder.TaskCompleted && t.Status != folder.TaskSkipped {
			tasks = append(tasks, strings.TrimSuffix(fmt.Sprintf("%s: %s, %s", line(t.TaskID), t.Status, line(t.Details)), ", "))
		}
	}
	part("Tasks that the session left open", tasks, maxHandedTasks)
	for _, x := range d.Data.Decisions {
		text := line(x.Decision.Action)
		if x.Decision.Rationale != "" {
			text += ", because " + line(x.Decision.Rationale)
		}
		decisions = append(decisions, text)
	}
	part("Decisions", decisions, maxHandedDecisions)
	part("Files it worked on", d.Files, maxHandedFiles)
	for _, m := range d.Messages {
		if m.Role == RoleHandoff {
			continue
		}
		messages = append(messages, m.Role+": "+cut(strings.ReplaceAll(m.Text, "\n", "\n  "), maxHandedRunes))
	}
	part("Last messages", messages, maxHandedMessages)
	for _, given := range slices.Backward(d.Given) {
		if strings.HasPrefix(given, handedTitle+to+" ") {
			continue
		}
		given, _, _ = strings.Cut(given, givenTitle)
		b.WriteString(givenTitle + cut(strings.TrimSpace(given), maxGivenRunes) + "\n")
		break
	}
	return b.String()
}

func line(s string) string { return cut(text.VisibleLine(strings.Join(strings.Fields(s), " ")), 200) }

func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// joinTasks joins the task states of two sessions by id. The newer state counts;
// where both moved on differently that is a conflict. took are the ids of which
// other's state came to count.
func joinTasks(mine, other []folder.TaskState, me, them string) (joined []folder.TaskState, conflicts, took []string) {
	joined = slices.Clone(mine)
	for _, t := range other {
		i := slices.IndexFunc(joined, func(x folder.TaskState) bool { return x.TaskID == t.TaskID })
		if i < 0 {
			joined, took = append(joined, t), append(took, t.TaskID)
			continue
		}
		old := joined[i]
		if old.Status == t.Status {
			continue
		}
		newer := !touched(t).Before(touched(old)) && !(touched(t).Equal(touched(old)) && rank(t.Status) <= rank(old.Status))
		winner := me
		if newer {
			joined[i], winner = t, them
			took = append(took, t.TaskID)
		}
		conflicts = append(conflicts, fmt.Sprintf("%s: session %s says %s, session %s says %s; %s is newer and counts", t.TaskID, me, old.Status, them, t.Status, winner))
	}
	return joined, conflicts, took
}

// touched is when a task was last changed, as far as it is known.
func touched(t folder.TaskState) time.Time {
	switch {
	case t.CompletedAt != nil:
		return *t.CompletedAt
	case t.StartedAt != nil:
		return *t.StartedAt
	}
	return time.Time{}
}

// rank orders states of the same time: what was done further counts.
func rank(s folder.TaskStatus) int {
	switch s {
	case folder.TaskCompleted:
		return 4
	case folder.TaskError, folder.TaskSkipped:
		return 3
	case folder.TaskInProgress:
		return 2
	case folder.TaskPaused:
		return 1
	}
	return 0
}
