package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/faultfs"
)

// writerEnv makes the test binary a process that registers sessions.
const writerEnv = "RALPH_TEST_REGISTRY_WRITER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(writerEnv); spec != "" {
		os.Exit(writer(spec))
	}
	os.Exit(m.Run())
}

// writer puts the entries path|from|count.
func writer(spec string) int {
	parts := strings.Split(spec, "|")
	from, _ := strconv.Atoi(parts[1])
	count, _ := strconv.Atoi(parts[2])
	r := New(Options{Path: parts[0], Wait: time.Minute})
	for i := range count {
		if _, err := r.Put(context.Background(), Entry{SessionID: fmt.Sprintf("s-%03d", from+i), Cwd: "/", PID: 1, Status: Completed}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func clock() time.Time { return time.Date(2026, 11, 21, 10, 2, 3, 0, time.UTC) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPath(t *testing.T) {
	for _, tc := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/ralph/sessions.json"}, {"", "/h", "/h/.local/state/ralph/sessions.json"},
		{"relative", "/h", "/h/.local/state/ralph/sessions.json"}, {"", "", ""}, {"", "relative", ""},
	} {
		got := Path(func(name string) string { return map[string]string{"XDG_STATE_HOME": tc.state, "HOME": tc.home}[name] })
		if got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
	r := New(Options{})
	if _, err := r.Put(t.Context(), Entry{SessionID: "a", Cwd: "/"}); !errors.Is(err, ErrNoHome) {
		t.Error(err)
	}
	if _, _, err := r.List(t.Context()); !errors.Is(err, ErrNoHome) {
		t.Error(err)
	}
}

func TestID(t *testing.T) {
	a, b := ID("/home/x/My Shop!", "001"), ID("/home/y/My Shop!", "001")
	if a == b || !strings.HasPrefix(a, "my-shop-") || !strings.HasSuffix(a, "-001") || a != ID("/home/x/My Shop!", "001") {
		t.Errorf("%q %q", a, b)
	}
	if id := ID("/", "002"); strings.HasPrefix(id, "-") || !strings.HasSuffix(id, "-002") {
		t.Error(id)
	}
}

func TestPutAndList(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state", "ralph", "sessions.json")
	alive := map[int]bool{7: true}
	r := New(Options{Path: path, Now: clock, Alive: func(pid int, _ time.Time) bool { return alive[pid] }})
	put := func(e Entry) {
		t.Helper()
		if warning, err := r.Put(t.Context(), e); err != nil || warning != "" {
			t.Fatal(warning, err)
		}
	}
	if listed, warning, err := r.List(t.Context()); err != nil || warning != "" || len(listed) != 0 {
		t.Fatal(listed, warning, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Error("reading made the directory")
	}
	put(Entry{SessionID: "a-001", Cwd: dir, PID: 7, Status: Running, Feature: "login", EpicIDs: []string{"e1"}})
	put(Entry{SessionID: "b-001", Cwd: dir, PID: 8, Status: Running})
	put(Entry{SessionID: "c-001", Cwd: filepath.Join(dir, "gone"), PID: 7, Status: Completed})
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	listed, _, err := r.List(t.Context())
	must(t, err)
	got := map[string]string{}
	for _, l := range listed {
		got[l.SessionID] = fmt.Sprint(l.Status, l.Gone)
	}
	if got["a-001"] != "runningfalse" || got["b-001"] != "interruptedfalse" || got["c-001"] != "completedtrue" {
		t.Errorf("%v", got)
	}
	dry, _, err := r.Drop(t.Context(), true)
	must(t, err)
	if again, _, _ := r.List(t.Context()); len(dry) != 1 || len(again) != 3 {
		t.Errorf("dry: %v, %d left", dry, len(again))
	}
	dropped, _, err := r.Drop(t.Context(), false)
	must(t, err)
	if again, _, _ := r.List(t.Context()); len(dropped) != 1 || dropped[0].SessionID != "c-001" || len(again) != 2 {
		t.Errorf("%v, %d left", dropped, len(again))
	}
}

func TestUnknownKeysStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	must(t, os.WriteFile(path, []byte(`{"version":1,"theirs":[1],"sessions":{"a":{"sessionId":"a","cwd":"/","big":12345678901234567890,"feature":"old","startedAt":"2026-01-02T03:04:05Z"},"odd":5}}`), 0o644))
	r := New(Options{Path: path, Now: clock})
	if _, err := r.Put(t.Context(), Entry{SessionID: "a", Cwd: "/tmp", Status: Paused}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	var doc struct {
		Theirs   []int
		Sessions map[string]json.RawMessage
	}
	must(t, json.Unmarshal(data, &doc))
	a := string(doc.Sessions["a"])
	if len(doc.Theirs) != 1 || string(doc.Sessions["odd"]) != "5" || !strings.Contains(a, "12345678901234567890") || strings.Contains(a, "old") ||
		!strings.Contains(a, "2026-01-02T03:04:05Z") || !strings.Contains(a, `"status": "paused"`) {
		t.Errorf("%s", data)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	listed, warning, err := r.List(t.Context())
	if err != nil || len(listed) != 1 || !strings.Contains(warning, "1 entries") {
		t.Errorf("%v %q %v", listed, warning, err)
	}
}

func TestDamaged(t *testing.T) {
	for _, text := range []string{"", "{", "\x00\x00", `[1]`, `{"version":1,"sessions":[]}`, `{"version":1,"sessions":null}`, `{"sessions":{}}`, strings.Repeat("[", 100000)} {
		path := filepath.Join(t.TempDir(), "sessions.json")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		r := New(Options{Path: path})
		if _, warning, err := r.List(t.Context()); err != nil || warning == "" {
			t.Errorf("%.20q: list: %q %v", text, warning, err)
		}
		if now, _ := os.ReadFile(path); string(now) != text {
			t.Errorf("%.20q: reading changed it", text)
		}
		warning, err := r.Put(t.Context(), Entry{SessionID: "a", Cwd: "/"})
		kept, _ := filepath.Glob(path + ".damaged-*")
		if err != nil || !strings.Contains(warning, "moved to") || len(kept) != 1 {
			t.Fatalf("%.20q: put: %q %v %v", text, warning, err, kept)
		}
		if was, _ := os.ReadFile(kept[0]); string(was) != text {
			t.Errorf("%.20q: kept as %.20q", text, was)
		}
		if listed, _, err := r.List(t.Context()); err != nil || len(listed) != 1 {
			t.Errorf("%.20q: %v %v", text, listed, err)
		}
	}
}

func TestNewerAndLinksAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.json")
	must(t, os.WriteFile(newer, []byte(`{"version":2,"sessions":7}`), 0o600))
	if _, err := New(Options{Path: newer}).Put(t.Context(), Entry{SessionID: "a", Cwd: "/"}); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link.json")
	must(t, os.WriteFile(target, []byte("x"), 0o600))
	must(t, os.Symlink(target, link))
	if _, err := New(Options{Path: link}).Put(t.Context(), Entry{SessionID: "a", Cwd: "/"}); !errors.Is(err, durable.ErrSymlink) {
		t.Error(err)
	}
	if now, _ := os.ReadFile(target); string(now) != "x" {
		t.Errorf("%q", now)
	}
}

// TestLockIsWaitedForButNotForEver: a stopped Ralph that holds the lock costs
// the others a moment and a warning, no more.
func TestLockIsWaitedForButNotForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	l := flock.New(path + ".lock")
	if ok, err := l.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r := New(Options{Path: path, Wait: 30 * time.Millisecond})
	if _, err := r.Put(t.Context(), Entry{SessionID: "a", Cwd: "/"}); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if _, _, err := r.List(t.Context()); err != nil {
		t.Error("a reader needs no lock:", err)
	}
	must(t, l.Close())
	if _, err := r.Put(t.Context(), Entry{SessionID: "a", Cwd: "/"}); err != nil {
		t.Error(err)
	}
}

// TestNoEntryIsLost: processes and goroutines register at the same time.
func TestNoEntryIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	const processes, each = 4, 12
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|%d", writerEnv, path, p*each, each))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	shared := New(Options{Path: path, Wait: time.Minute})
	for g := range 4 {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("g-%d-%d", g, i)
				if _, err := shared.Put(context.Background(), Entry{SessionID: id, Cwd: "/", Status: Completed}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	listed, warning, err := shared.List(t.Context())
	if err != nil || warning != "" || len(listed) != (processes+4)*each {
		t.Errorf("%d entries, %q %v", len(listed), warning, err)
	}
}

// TestEveryFault: whatever operation fails, the file is whole and has either
// the old or the new content.
func TestEveryFault(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
		for n := 1; ; n++ {
			ff := faultfs.New(afero.NewMemMapFs())
			r := New(Options{FS: ff, Path: "/s/sessions.json", Now: clock})
			if _, err := r.Put(t.Context(), Entry{SessionID: "a", Cwd: "/"}); err != nil {
				t.Fatal(err)
			}
			ff.FailAt(n, errno)
			_, err := r.Put(t.Context(), Entry{SessionID: "b", Cwd: "/"})
			done := len(ff.Ops()) < n
			ff.FailAt(0, nil)
			listed, warning, lerr := r.List(t.Context())
			if lerr != nil || warning != "" || len(listed) < 1 || err == nil && len(listed) != 2 {
				t.Fatalf("%v at %d: %d entries, %q %v %v", errno, n, len(listed), warning, err, lerr)
			}
			if done {
				break
			}
		}
	}
}

func TestAlive(t *testing.T) {
	if !Alive(os.Getpid(), time.Now()) || !Alive(os.Getpid(), time.Time{}) || Alive(0, time.Now()) || Alive(-1, time.Now()) {
		t.Error("this process")
	}
	if Alive(os.Getpid(), time.Now().Add(-24*time.Hour*365)) {
		t.Error("a number that was given again")
	}
	cmd := exec.Command("true")
	must(t, cmd.Run())
	if Alive(cmd.Process.Pid, time.Now()) {
		t.Error("a process that ended")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"sessions":{"a":{"cwd":"/","pid":1}}}`))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decode(data)
		if err != nil {
			return
		}
		if err := d.put(Entry{SessionID: "x", Cwd: "/"}, clock()); err != nil {
			t.Fatal(err)
		}
		out, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(out)
		if err != nil || len(again.sessions) != len(d.sessions) {
			t.Fatalf("%v: %s", err, out)
		}
	})
}
