package exchange

import (
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"

	"ralph/memory/durable"
	"ralph/memory/session"
)

// turn is what belongs together in a journal: a message of the user and all
// that follows until the next one.
type turn []session.Record

// errEnough ends the reading of a journal.
var errEnough = errors.New("enough was read")

// maxTurn is how many records are kept together at most.
const maxTurn = 50_000

// mergeJournals appends the records of two journals to that of a new session,
// turn by turn, by the time at which each turn began.
func mergeJournals(o Options, dir string, a, b *view) (records int, err error) {
	quarantine := filepath.Join(o.StateDir, "quarantine")
	out, err := session.OpenJournal(o.FS, filepath.Join(dir, session.JournalFile), quarantine, o.Key)
	if err != nil {
		return 0, err
	}
	w := &weaver{out: out, calls: map[string]string{}}
	var failed [2]error
	nextA, stopA := iter.Pull(w.turns(o, a, &failed[0]))
	defer stopA()
	nextB, stopB := iter.Pull(w.turns(o, b, &failed[1]))
	defer stopB()
	ta, moreA := nextA()
	tb, moreB := nextB()
	for (moreA || moreB) && err == nil {
		if moreA && (!moreB || !tb[0].Time.Before(ta[0].Time)) {
			err = w.write(ta, a.session.ID)
			ta, moreA = nextA()
			continue
		}
		err = w.write(tb, b.session.ID)
		tb, moreB = nextB()
	}
	return w.records, errors.Join(err, failed[0], failed[1], out.Close())
}

// weaver writes the records of several sessions into one journal.
type weaver struct {
	out     *session.Journal
	records int
	// calls has the session that an id of a tool call belongs to: ids are unique
	// within a transcript, and two sessions may have used the same.
	calls map[string]string
}

// turns yields the turns of a session's journal.
func (w *weaver) turns(o Options, v *view, failed *error) iter.Seq[turn] {
	return func(yield func(turn) bool) {
		lines := func(each func(session.Record) error) error {
			return readRecords(o, filepath.Join(v.dir, session.JournalFile), each)
		}
		cleared := int64(0)
		if *failed = lines(func(r session.Record) error {
			if r.Kind == "cleared" {
				cleared = r.Seq
			}
			return nil
		}); *failed != nil {
			return
		}
		var t turn
		err := lines(func(r session.Record) error {
			if begins(r) && len(t) > 0 || len(t) >= maxTurn {
				if !yield(t) {
					return errEnough
				}
				t = nil
			}
			t = append(t, aside(r, v.session.ID, r.Seq <= cleared))
			return nil
		})
		if errors.Is(err, errEnough) {
			return
		}
		if *failed = err; err == nil && len(t) > 0 {
			yield(t)
		}
	}
}

// readRecords reads a journal of a session that nobody works in.
func readRecords(o Options, path string, each func(session.Record) error) error {
	if info, err := durable.Lstat(o.FS, path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // a session of which nothing was recorded has nothing to tell
	}
	j, err := session.OpenJournal(o.FS, path, filepath.Join(o.StateDir, "quarantine"), o.Key)
	if err != nil {
		return err
	}
	return errors.Join(j.Records(each), j.Close())
}

// begins says that a turn begins with a record.
func begins(r session.Record) bool {
	var m struct{ Role string }
	return r.Kind == "message" && json.Unmarshal(r.Payload, &m) == nil && m.Role == "user"
}

// aside keeps what only means something at its place in its own journal from
// meaning anything in another one: what a later clearing took out of the
// conversation, and kinds that point to records by number.
func aside(r session.Record, id string, past bool) session.Record {
	switch r.Kind {
	case "message", RecordHandoff:
		if !past {
			return r
		}
	case "event", "outcome", "import":
		return r
	}
	payload, err := json.Marshal(map[string]any{"session": id, "seq": r.Seq, "kind": r.Kind, "payload": r.Payload})
	if err != nil {
		return r // the payload came out of JSON and goes back
	}
	r.Kind, r.Payload = "merged", payload
	return r
}

// batch is how many records go to disk at once.
const batch = 512

// write appends a turn; the records keep time and epoch.
func (w *weaver) write(t turn, id string) error {
	for len(t) > 0 {
		n := 1
		for n < len(t) && n < batch && t[n].Epoch == t[0].Epoch {
			n++
		}
		for i := range t[:n] {
			t[i].Payload = w.rename(t[i], id)
		}
		if err := w.out.Append(t[0].Epoch, t[:n]...); err != nil {
			return err
		}
		w.records += n
		t = t[n:]
	}
	return nil
}

// rename gives tool calls ids of their own where another session used the same.
func (w *weaver) rename(r session.Record, id string) json.RawMessage {
	var o map[string]any
	if r.Kind != "message" && r.Kind != "event" || readJSON(r.Payload, &o) != nil {
		return r.Payload
	}
	changed := false
	own := func(m map[string]any, key string) {
		call, ok := m[key].(string)
		if !ok || call == "" {
			return
		}
		if _, used := w.calls[call]; !used {
			w.calls[call] = id
		}
		if w.calls[call] != id {
			m[key], changed = call+"-"+id, true
		}
	}
	own(o, "call_id")
	calls, _ := o["calls"].([]any)
	for _, c := range calls {
		if m, ok := c.(map[string]any); ok {
			own(m, "id")
		}
	}
	if !changed {
		return r.Payload
	}
	data, err := json.Marshal(o)
	if err != nil {
		return r.Payload
	}
	return data
}
