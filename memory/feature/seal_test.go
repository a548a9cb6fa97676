package feature_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ralph/memory/feature"
	"ralph/memory/identity"
)

// A snapshot that the user's Ralph did not write is not gone on with, whatever was
// done to it; what it wrote is, and so is what a person took over.
func TestSeal(t *testing.T) {
	t.Parallel()
	key := identity.NewKey()
	snapshot := func(o feature.Options, name string) string {
		t.Helper()
		s, err := feature.Open(o, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Save(feature.Snapshot{SessionID: "001", Status: feature.Paused}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(o.StateDir, "sessions", name+".json")
	}
	read := func(path string) []byte {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	other := feature.Options{StateDir: t.TempDir(), Key: identity.NewKey()}
	plain := feature.Options{StateDir: t.TempDir()}
	for name, forge := range map[string]func(own []byte) []byte{
		"without a code": func([]byte) []byte { return read(snapshot(plain, "auth")) },
		"of another key": func([]byte) []byte { return read(snapshot(other, "auth")) },
		"changed":        func(own []byte) []byte { return bytes.Replace(own, []byte(`"001"`), []byte(`"002"`), 1) },
		"of another name": func([]byte) []byte {
			o := feature.Options{StateDir: t.TempDir(), Key: key}
			return bytes.Replace(read(snapshot(o, "pay")), []byte(`"pay"`), []byte(`"auth"`), 1)
		},
		"without its code": func(own []byte) []byte { return append(own[:bytes.LastIndex(own, []byte(",\n"))], "\n}\n"...) },
		"in another form":  func(own []byte) []byte { return bytes.ReplaceAll(own, []byte("\n"), []byte("\r\n")) },
	} {
		o := feature.Options{StateDir: t.TempDir(), Key: key}
		path := snapshot(o, "auth")
		if got, err := feature.Strange(o); err != nil || len(got) != 0 {
			t.Fatalf("%s: our own: %q, %v", name, got, err)
		}
		if err := os.WriteFile(path, forge(read(path)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := feature.Strange(o); err != nil || !slices.Equal(got, []string{"sessions/auth.json"}) {
			t.Errorf("%s: strange are %q, %v", name, got, err)
		}
		if _, err := feature.Load(o, "auth"); !errors.Is(err, feature.ErrForeign) {
			t.Errorf("%s: loaded: %v", name, err)
		}
		if _, err := feature.Load(feature.Options{StateDir: o.StateDir}, "auth"); err != nil {
			t.Errorf("%s: not shown: %v", name, err)
		}
		if err := feature.Seal(o, "sessions/auth.json"); err != nil {
			t.Fatal(err)
		}
		if got, err := feature.Load(o, "auth"); err != nil || got.Feature != "auth" {
			t.Errorf("%s: taken over: %+v, %v", name, got, err)
		}
	}
}

// The copy of a snapshot that broke is believed no more than the snapshot.
func TestForgedCopy(t *testing.T) {
	t.Parallel()
	o := feature.Options{StateDir: t.TempDir(), Key: identity.NewKey()}
	plain := feature.Options{StateDir: o.StateDir}
	s, err := feature.Open(plain, "auth")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Save(feature.Snapshot{SessionID: "001", Status: feature.Paused}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.StateDir, "sessions", "auth.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := feature.Load(plain, "auth"); err != nil {
		t.Fatalf("there is no copy: %v", err)
	}
	if got, err := feature.Load(o, "auth"); err == nil {
		t.Errorf("the copy of nobody: %+v", got)
	}
}
