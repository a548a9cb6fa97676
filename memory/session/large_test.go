package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ralph/memory/durable"
)

// TestLargeJournal has a program make a journal as large as it can in no time: it is moved
// to quarantine, and begun anew with the records that it had.
func TestLargeJournal(t *testing.T) {
	dir := t.TempDir()
	path, quarantine := filepath.Join(dir, "s", JournalFile), filepath.Join(dir, "quarantine")
	j, err := OpenJournal(nil, path, quarantine, nil)
	if err == nil {
		err = errors.Join(j.Append(1, Record{Kind: "a"}, Record{Kind: "b"}), j.Close(), os.Truncate(path, 20<<30))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecords(durable.Disk(), path, nil, func(Record) error { return nil }); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("read: %v", err)
	}
	if j, err = OpenJournal(nil, path, quarantine, nil); err != nil {
		t.Fatal(err)
	}
	if d, _ := j.Damage(); !d.Whole || filepath.Dir(d.Moved) != quarantine {
		t.Errorf("%+v", d)
	}
	if err := errors.Join(j.Append(2, Record{Kind: "c"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	kinds, last := "", int64(0)
	bad, err := ReadRecords(durable.Disk(), path, nil, func(r Record) error { kinds, last = kinds+r.Kind, r.Seq; return nil })
	if kinds != "abc" || last != 3 || bad != 0 || err != nil {
		t.Errorf("%q to %d, %d bad: %v", kinds, last, bad, err)
	}
}
