package crashfs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
	"ralph/memory/session"
)

const (
	journalPath = "/p/.ralph/sessions/session-001/journal.jsonl"
	quarantine  = "/p/.ralph/quarantine"
)

func entry(i int) session.Record {
	text, _ := json.Marshal(map[string]any{"i": i, "text": strings.Repeat("t", (i*211)%1500)})
	return session.Record{Kind: "message", Payload: text}
}

// numbers returns what a journal holds, and checks that its numbers rise.
func numbers(fsys afero.Fs) (got []string, err error) {
	j, err := session.OpenJournal(fsys, journalPath, quarantine, nil)
	if err != nil {
		return nil, err
	}
	last := int64(0)
	err = j.Records(func(r session.Record) error {
		var p struct{ I int }
		if err := json.Unmarshal(r.Payload, &p); err != nil || r.Seq <= last {
			return fmt.Errorf("record %d after %d: %w", r.Seq, last, err)
		}
		last = r.Seq
		got = append(got, fmt.Sprint(p.I))
		return nil
	})
	return got, errors.Join(err, j.Close())
}

// holds compares what is there with what was acknowledged; what was not may be
// there.
func holds(got, acked []string) error {
	rest := got
	for _, want := range acked {
		for len(rest) > 0 && rest[0] != want {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return fmt.Errorf("%v is there, %v was acknowledged", got, acked)
		}
		rest = rest[1:]
	}
	return nil
}

// TestJournalPowerLoss: a session's journal loses no acknowledged record.
func TestJournalPowerLoss(t *testing.T) {
	scenario := func(fsys *crashfs.FS) error {
		for open := range 3 {
			j, err := session.OpenJournal(fsys, journalPath, quarantine, nil)
			if err != nil {
				return err
			}
			for i := range 4 {
				n := open*8 + i*2
				if err := j.Append(1, entry(n), entry(n+1)); err != nil {
					return err
				}
				fsys.Ack(fmt.Sprint(n))
				fsys.Ack(fmt.Sprint(n + 1))
			}
			if err := j.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	check := func(disk *crashfs.FS, acked []string) error {
		if len(acked) > 0 {
			if _, err := disk.Stat(journalPath); err != nil {
				return err
			}
		}
		j, err := session.OpenJournal(disk, journalPath, quarantine, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(j.Append(2, entry(99)), j.Close()); err != nil {
			return err
		}
		got, err := numbers(disk)
		if err != nil {
			return err
		}
		return holds(got, append(acked[:len(acked):len(acked)], "99"))
	}
	// The project's directory is there before Ralph is.
	start := crashfs.New()
	if err := start.Mkdir("/p", 0o755); err != nil {
		t.Fatal(err)
	}
	r := crashfs.Sweep(scenario, check, crashfs.Options{Images: crashfs.Count(150, 40_000), From: start})
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// TestJournalFaults: whatever fails, the journal goes on in the same process.
func TestJournalFaults(t *testing.T) {
	r := faultfs.Sweep(func(fsys *faultfs.FS, base afero.Fs) error {
		if err := base.Mkdir("/p", 0o755); err != nil {
			return err
		}
		var j *session.Journal
		var acked []string
		again := func(do func() error) error {
			err := do()
			for tries := 0; err != nil && tries < 2; tries++ {
				if tries == 1 {
					fsys.Heal()
				}
				err = do()
			}
			return err
		}
		err := again(func() (err error) {
			j, err = session.OpenJournal(fsys, journalPath, quarantine, nil)
			return err
		})
		for i := 0; i < 3 && err == nil; i++ {
			err = again(func() error { return j.Append(1, entry(i)) })
			acked = append(acked, fmt.Sprint(i))
		}
		if err != nil {
			return err
		}
		_ = j.Close()
		got, err := numbers(base)
		if err == nil && len(got) != len(acked) {
			err = fmt.Errorf("%v is there", got)
		}
		return errors.Join(err, holds(got, acked))
	}, faultfs.Options{Base: func() afero.Fs { return crashfs.New() }})
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}
