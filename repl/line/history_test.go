package line

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHistoryKeepsNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h, _ := OpenHistory(path)
	for _, l := range []string{" export TOKEN=hunter2", "!ls", "/help", "\tx"} {
		if err := h.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprintf("%q", h.Lines()); got != `["!ls" "/help" "\tx"]` {
		t.Errorf("kept %s", got)
	}
	if data, _ := os.ReadFile(path); bytes.Contains(data, []byte("hunter2")) {
		t.Errorf("the file holds %q", data)
	}
}

// TestDamagedHistory: whatever the file holds, what can be read of it is there, and
// a line that is added is there the next time.
func TestDamagedHistory(t *testing.T) {
	noise := make([]byte, 300<<10)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	noise = bytes.ReplaceAll(noise, []byte("\n"), []byte("x"))
	for name, data := range map[string]string{
		"empty":                "",
		"noise without a line": string(noise) + "\n\"good\"\n",
		"noise with lines":     strings.Repeat(string(noise[:100])+"\n", 50) + "\"good\"\n",
		"NUL bytes":            strings.Repeat("\x00", 1<<20) + "\n\"good\"\n",
		"half a record":        "\"good\"\n\"hal",
		"other JSON":           "{\"a\":1}\n[]\nnull\n\"good\"\n12\n",
		"100 MB":               strings.Repeat("\"filler, which is the same line again and again\"\n", 100_000) + "\"good\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history")
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "100 MB" { // with a hole, to spare the disk
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte(data), 100<<20); err != nil {
					t.Fatal(err)
				}
				_ = f.Close()
			}
			began := time.Now()
			h, err := OpenHistory(path)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			lines := h.Lines()
			if name != "empty" && (len(lines) == 0 || lines[len(lines)-1] != "good") {
				t.Errorf("read %.200q", lines)
			}
			if err := h.Add("added"); err != nil {
				t.Fatal(err)
			}
			again, err := OpenHistory(path)
			if err != nil {
				t.Fatal(err)
			}
			if lines := again.Lines(); lines[len(lines)-1] != "added" {
				t.Errorf("afterwards it is %.200q", lines)
			}
			if info, _ := os.Stat(path); info.Size() > maxHistoryBytes {
				t.Errorf("the file has %d bytes", info.Size())
			}
			t.Logf("opened in %v", took)
		})
	}
}

func TestHistoryOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, "/dev/null"} {
		h, err := OpenHistory(path)
		if err == nil {
			t.Errorf("%s: no error", path)
		}
		if err := h.Add("one"); err != nil || len(h.Lines()) != 1 {
			t.Errorf("%s: %v, %q", path, err, h.Lines())
		}
	}
	// One that turns into a pipe, or into a file that nobody may write, costs the line.
	path := filepath.Join(dir, "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fifo, path); err != nil {
		t.Fatal(err)
	}
	if err := h.Add("one"); !errors.Is(err, errNoHistoryFile) {
		t.Errorf("a pipe took it: %v", err)
	}
	if os.Getuid() != 0 {
		_ = os.Remove(path)
		_ = os.WriteFile(path, nil, 0o400)
		if err := h.Add("two"); err == nil {
			t.Error("a file that is read-only took it")
		}
	}
	if got := h.Lines(); len(got) < 1 || got[0] != "one" {
		t.Errorf("in memory are %q", got)
	}
}

// TestChatsShareTheHistory: two chats write at once, across the moment in which one
// of them shortens the file, and no line is lost.
func TestChatsShareTheHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	old := strings.Repeat("\"old\"\n", 2*maxHistory-20)
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	const each = 60
	var wg sync.WaitGroup
	for chat := range 4 {
		h, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := range each {
				if err := h.Add(fmt.Sprintf("chat %d line %d", chat, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n > maxHistory+5*each {
		t.Errorf("the file was not shortened: %d records", n)
	}
	h, _ := OpenHistory(path)
	all := "\n" + strings.Join(h.Lines(), "\n") + "\n"
	for chat := range 4 {
		for i := range each {
			if line := fmt.Sprintf("\nchat %d line %d\n", chat, i); !strings.Contains(all, line) {
				t.Errorf("%q is lost", line)
			}
		}
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("\"one\"\n\"two\"\n"))
	f.Add([]byte("\"one\"\n\"tw"))
	f.Add([]byte("\x00\xff\n{}\n\"\\ud800\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Add("the added line"); err != nil {
			t.Fatal(err)
		}
		again, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprintf("%q", h.Lines()), fmt.Sprintf("%q", again.Lines()); a != b {
			t.Fatalf("kept %s, read %s", a, b)
		}
	})
}
