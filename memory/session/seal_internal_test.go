package session

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/afero"
	"pgregory.net/rapid"

	"ralph/memory/identity"
)

// A record is read again by the key and the journal it was written with, and by
// nothing else; without a key it is shown as it is.
func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := identity.NewKey()
		g := sealOf(key, "/p/.ralph/sessions/session-001-x/journal.jsonl")
		payload, err := json.Marshal(rapid.OneOf(rapid.Just(`x,"mac":"`+key.Sum("x", nil)), rapid.String()).Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		r := Record{Seq: 1, Kind: "message", Payload: payload}
		line, err := g.encode(r)
		if err != nil {
			t.Fatal(err)
		}
		open, err := seal{}.encode(r)
		if err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			by   seal
			line []byte
			want bool
		}{
			"its own key": {g, line, true}, "no key": {seal{}, line, true}, "another key": {sealOf(identity.NewKey(), "/p/.ralph/sessions/session-001-x/journal.jsonl"), line, false},
			"another session": {sealOf(key, "/p/.ralph/sessions/session-002-x/journal.jsonl"), line, false}, "moved": {sealOf(key, "/q/archive/session-001-x/journal.jsonl"), line, true},
			"without a code": {g, open, false}, "without a code or key": {seal{}, open, true},
		} {
			got, ok := tc.by.decode(tc.line)
			if ok != tc.want || ok && (got.Kind != "message" || !bytes.Equal(got.Payload, payload)) {
				t.Fatalf("%s: %v, %+v", name, ok, got)
			}
		}
		// With the checksum made anew a changed record is whole, and still nobody's.
		at := rapid.IntRange(0, len(line)-len(`,"sum":"0123456789abcdef"}`)-1).Draw(t, "at")
		forged := bytes.Clone(line[:len(line)-len(`,"sum":"0123456789abcdef"}`)])
		forged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		forged = append(forged, `,"sum":"`+sum(forged, []byte("}"))+`"}`...)
		if _, ok := g.decode(forged); ok {
			t.Fatalf("forged: %s", forged)
		}
	})
}

// What the holder of the key did not record is found, wherever it is, and what they
// did is not.
func TestStrange(t *testing.T) {
	t.Parallel()
	dir, key := filepath.Join(t.TempDir(), ".ralph"), identity.NewKey()
	fsys := afero.NewOsFs()
	journal := func(name string, key identity.Key) {
		t.Helper()
		j, err := OpenJournal(nil, filepath.Join(dir, name, JournalFile), filepath.Join(dir, "quarantine"), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(1, Record{Kind: "message", Payload: json.RawMessage(`{"role":"user","text":"mine"}`)}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(want ...string) {
		t.Helper()
		got, err := Strange(fsys, dir, key)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("strange are %q, want %q (%v)", got, want, err)
		}
	}
	is()
	for _, name := range []string{"sessions/session-001-own", "sessions/session-001-own/agents/kid", "runs/r-1", "runs/r-1/agents/kid"} {
		journal(name, key)
	}
	must(os.MkdirAll(filepath.Join(dir, "sessions", "session-002-empty"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "sessions", "session-001-own", "final-report.md"), []byte("x"), 0o600))
	is()
	other := identity.NewKey()
	for _, name := range []string{"sessions/session-003-plain", "sessions/session-001-own/agents/plain", "runs/r-2"} {
		journal(name, nil)
	}
	for _, name := range []string{"sessions/session-004-theirs", "runs/r-1/agents/theirs"} {
		journal(name, other)
	}
	must(os.Rename(filepath.Join(dir, "runs", "r-1", "agents", "theirs"), filepath.Join(dir, "runs", "r-1", "agents", "renamed")))
	must(os.Symlink("session-001-own", filepath.Join(dir, "sessions", "session-005-link")))
	must(os.MkdirAll(filepath.Join(dir, "sessions", "session-006-linked"), 0o700))
	must(os.Symlink("../session-001-own/journal.jsonl", filepath.Join(dir, "sessions", "session-006-linked", JournalFile)))
	must(os.CopyFS(filepath.Join(dir, "sessions", "session-007-copied"), os.DirFS(filepath.Join(dir, "runs", "r-1"))))
	strange := []string{"sessions/session-001-own/agents/plain", "sessions/session-003-plain", "sessions/session-004-theirs", "sessions/session-005-link", "sessions/session-006-linked",
		"sessions/session-007-copied", "runs/r-1/agents/renamed", "runs/r-2"}
	is(strange...)

	// What a person takes over is theirs from then on.
	must(Seal(fsys, dir, "sessions/session-003-plain", key))
	must(Seal(fsys, dir, "runs", key))
	n := 0
	bad, err := ReadRecords(fsys, filepath.Join(dir, "runs", "r-2", JournalFile), key, func(r Record) error { n++; return nil })
	if bad != 0 || n != 1 || err != nil {
		t.Errorf("%d records, %d bad, %v", n, bad, err)
	}
	is("sessions/session-001-own/agents/plain", "sessions/session-004-theirs", "sessions/session-005-link", "sessions/session-006-linked", "sessions/session-007-copied")

	// A room that is a link is strange as a whole.
	must(os.Rename(filepath.Join(dir, "sessions"), filepath.Join(dir, "elsewhere")))
	must(os.Symlink("elsewhere", filepath.Join(dir, "sessions")))
	is("sessions")
}

// A record that was put into a journal of one's own is not read.
func TestForgedTail(t *testing.T) {
	t.Parallel()
	path, key := filepath.Join(t.TempDir(), "session-001-x", JournalFile), identity.NewKey()
	write := func(key identity.Key, text string) {
		t.Helper()
		j, err := OpenJournal(nil, path, t.TempDir(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(1, Record{Kind: text}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(key, "mine")
	write(nil, "forged")
	write(identity.NewKey(), "forged")
	write(key, "again")
	j, err := OpenJournal(nil, path, t.TempDir(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for name, read := range map[string]func(func(Record) error) error{"records": j.Records, "tail": func(each func(Record) error) error { _, err := j.Tail(1<<20, each); return err }} {
		var got []string
		if err := read(func(r Record) error { got = append(got, r.Kind); return nil }); err != nil || !slices.Equal(got, []string{"mine", "again"}) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, bad := j.Damage(); bad != 2 {
			t.Errorf("%s: %d bad lines", name, bad)
		}
	}
}
