package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// grow makes a file as large as a command can in no time.
func grow(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 20<<30); err != nil {
		t.Fatal(err)
	}
}

// bytesRead are those that the process has read until now.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLargeLogIsNotReadToItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	grow(t, path)
	before := bytesRead(t)
	var lines []string
	err := ReadLines(Disk(), path, func(line []byte, _ bool) error {
		lines = append(lines, string(line))
		return nil
	})
	if !errors.Is(err, ErrTooLarge) || strings.Join(lines, " ") != "one two" {
		t.Errorf("read %q: %v", lines, err)
	}
	if n := bytesRead(t) - before; n > 2*MaxDamage {
		t.Errorf("%d bytes were read", n)
	}
	// Line ends between the holes change nothing.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < 1<<30; at += 32 << 20 {
		_, _ = f.WriteAt([]byte{'\n'}, at)
	}
	_ = f.Close()
	before = bytesRead(t)
	if err = ReadLines(Disk(), path, func([]byte, bool) error { return nil }); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if n := bytesRead(t) - before; n > 2*MaxDamage {
		t.Errorf("%d bytes were read", n)
	}
}

func TestLargeLogIsSetAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte("one\nbad\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	grow(t, path)
	d, err := SetAside(Disk(), path, filepath.Join(dir, "quarantine"), func(line []byte) bool { return len(line) == 3 && string(line) != "bad" })
	if err != nil || !d.Whole || filepath.Dir(d.Moved) != filepath.Join(dir, "quarantine") {
		t.Fatal(d, err)
	}
	if text, err := os.ReadFile(path); string(text) != "one\ntwo\n" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(d.Moved); err != nil || info.Size() != 20<<30 {
		t.Error(info, err)
	}
}

func TestLargeListIsSetAside(t *testing.T) {
	for name, text := range map[string]string{
		"closed": "{\n  \"list\": [\n    {\"a\":1},\n    {\"a\":2}\n  ]\n}\n",
		"open":   "{\n  \"list\": [\n    {\"a\":1},\n    {\"a\":2}",
		"empty":  "",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "list.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		grow(t, path)
		before := bytesRead(t)
		l, d, err := OpenList(Disk(), path, ListOptions{Name: "list", Quarantine: filepath.Join(dir, "quarantine")})
		if err != nil || !d.Whole {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		if n := bytesRead(t) - before; n > 2*MaxDamage {
			t.Errorf("%s: %d bytes were read", name, n)
		}
		if err := errors.Join(l.Append(json.RawMessage(`{"a":3}`)), l.Close()); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(path)
		want := strings.Count(text, "a") + 1
		if !json.Valid(got) || strings.Count(string(got), `"a"`) != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
