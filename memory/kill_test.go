package memory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/afero"

	"ralph/memory/durable/crashfs"
	"ralph/memory/markdown"
)

// TestMain is also the processes that the tests kill.
func TestMain(m *testing.M) {
	if what := os.Getenv("RALPH_TEST_CHILD"); what != "" {
		if err := child(what, os.Getenv("RALPH_TEST_ROOT"), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(what, root string, out *os.File) error {
	switch what {
	case "change":
		return changing(root, out)
	case "race":
		return racing(root)
	}
	s, _, err := Open(context.Background(), Options{Root: root, Holder: "chat"})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the test ends it
	return s.Close()
}

func start(t *testing.T, what, root string, out *os.File) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "RALPH_TEST_CHILD="+what, "RALPH_TEST_ROOT="+root)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	must(t, cmd.Start())
	return cmd
}

// changing makes changes and says which were acknowledged, for ever.
func changing(root string, out *os.File) error {
	s, rec, err := Open(context.Background(), Options{Root: root, Holder: "run", LockWait: time.Second})
	if err != nil {
		return err
	}
	for _, f := range rec.Files {
		if f.State == stateCorrupt || f.State == stateRefused {
			return fmt.Errorf("found %+v: %q", f, rec.Warnings)
		}
	}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for i := 0; ; i++ {
		id := strconv.Itoa(os.Getpid()) + "." + strconv.Itoa(i)
		var ack string
		switch r.IntN(5) {
		case 0, 1:
			var t Task
			t, err = s.AddTask(Task{Title: "job " + id + " here"})
			ack = fmt.Sprintf("task %s job %s here", t.ID, id)
		case 2:
			ack = fmt.Sprintf("result T-1 %d", time.Now().UnixNano())
			_, err = s.SetTask("T-1", TaskEdit{Result: "r" + strings.Fields(ack)[2], Status: markdown.InProgress})
			if errors.Is(err, markdown.ErrNoTask) {
				continue
			}
		case 3:
			err = s.Progress(Entry{Title: "progress " + id + "."})
			ack = fmt.Sprintf("text %s progress %s.", ProgressFile, id)
		case 4:
			err = s.AppendRun(json.RawMessage(`"run ` + id + `."`))
			ack = fmt.Sprintf("text %s run %s.", runsFile, id)
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, ack); err != nil {
			return err
		}
	}
}

// under is the real disk below a directory, where the checks of the sweep look
// for /p.
func under(root string) afero.Fs { return afero.NewBasePathFs(afero.NewOsFs(), filepath.Dir(root)) }

// TestKilled: real processes, killed at random instants; all that they ever
// acknowledged is there.
func TestKilled(t *testing.T) {
	root := filepath.Join(t.TempDir(), "p")
	must(t, os.Mkdir(root, 0o755))
	var all []string
	rounds := crashfs.Count(15, 300)
	acked, err := crashfs.Kills(crashfs.Killing{Rounds: rounds, Seed: uint64(os.Getpid()),
		Start: func(_ int, acks *os.File) (*os.Process, error) { return start(t, "change", root, acks).Process, nil },
		Check: func(round int, lines []string) error {
			all = append(all, lines...)
			s, rec, err := Open(t.Context(), Options{Root: root, LockWait: time.Second})
			if err != nil {
				return err
			}
			for _, f := range rec.Files {
				if f.State != stateOK && f.State != stateAbsent {
					return fmt.Errorf("found %+v", f)
				}
			}
			tasks, err := s.Tasks()
			if err = errors.Join(err, tasksHave(tasks, lines), s.Close()); err != nil {
				return err
			}
			if round%25 == 24 || round == rounds-1 {
				return filesHave(under(root), all)
			}
			return filesHave(under(root), lines)
		}})
	t.Logf("%d processes killed, %d records acknowledged, 0 lost: %v", rounds, acked, err)
	must(t, err)
}

// TestLockRaces: of many who open a project at the same time one gets it at a
// time, whoever dies in between, and nobody waits in vain.
func TestLockRaces(t *testing.T) {
	races := crashfs.Count(200, 10_000)
	root := t.TempDir()
	gitInit(t, root)
	linked := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(root, linked))
	tree := filepath.Join(t.TempDir(), "tree")
	cmd := exec.Command("git", "worktree", "add", "-q", "--detach", tree)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	const contenders = 8
	var owners, double, opened, refused atomic.Int64
	wedged := 0
	for race := range races {
		var wg sync.WaitGroup
		got := opened.Load()
		gate := make(chan struct{})
		for i := range contenders {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(race), uint64(i)))
				<-gate
				s, _, err := Open(t.Context(), Options{Root: []string{root, linked, tree}[i%3], LockWait: time.Duration(r.IntN(3)) * time.Millisecond})
				if err != nil {
					if !errors.Is(err, ErrLocked) {
						t.Error(err)
					}
					refused.Add(1)
					return
				}
				if owners.Add(1) != 1 {
					double.Add(1)
				}
				opened.Add(1)
				time.Sleep(time.Duration(r.IntN(200)) * time.Microsecond)
				owners.Add(-1)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(gate)
		wg.Wait()
		if opened.Load() == got {
			wedged++
		}
	}
	t.Logf("%d races of %d: %d owners, %d turned away, %d double, %d wedged", races, contenders, opened.Load(), refused.Load(), double.Load(), wedged)
	if double.Load() > 0 || wedged > 0 {
		t.Error("the lock does not hold")
	}
}

// racing opens and closes a project again and again; another lock, which is
// taken only while the project is open, tells whether somebody else has it too.
func racing(root string) error {
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 2))
	for {
		s, _, err := Open(context.Background(), Options{Root: root, LockWait: time.Duration(r.IntN(5)) * time.Millisecond})
		if errors.Is(err, ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		proof := flock.New(filepath.Join(root, "proof"))
		ok, err := proof.TryLock()
		verdict := "one"
		if !ok || err != nil {
			verdict = "double"
		}
		if f, err := os.OpenFile(filepath.Join(root, "owners"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			fmt.Fprintln(f, verdict)
			_ = f.Close()
		}
		if r.IntN(20) == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := errors.Join(proof.Close(), s.Close()); err != nil {
			return err
		}
	}
}

// TestLockRacesOfProcesses: eight processes, some of which are killed while they
// hold the project.
func TestLockRacesOfProcesses(t *testing.T) {
	root := t.TempDir()
	deadline := time.Now().Add(time.Duration(crashfs.Count(700, 30_000)) * time.Millisecond)
	late := deadline.Add(time.Minute) // on a busy machine a process takes its time to start
	owners := func() int {
		data, _ := os.ReadFile(filepath.Join(root, "owners")) // there is none before the first
		return strings.Count(string(data), "one\n")
	}
	var wg sync.WaitGroup
	var died atomic.Int64
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(deadline) || owners() < 8 && time.Now().Before(late) {
				cmd := start(t, "race", root, nil)
				end := time.AfterFunc(max(time.Until(deadline), time.Second), func() { _ = cmd.Process.Kill() })
				_ = cmd.Wait()
				end.Stop()
				died.Add(1)
			}
		})
	}
	wg.Wait()
	text := read(t, root, "owners")
	t.Logf("8 processes at a time, %d killed: %d owners, %d double", died.Load(), strings.Count(text, "one\n"), strings.Count(text, "double"))
	if strings.Contains(text, "double") || strings.Count(text, "one\n") < 8 {
		t.Error(text)
	}
	s, _ := open(t, Options{Root: root})
	must(t, s.Close())
}

// TestStoppedHolder: who is stopped holds; who is dead does not, and his pid may
// be somebody else's by now.
func TestStoppedHolder(t *testing.T) {
	root := t.TempDir()
	r, w, err := os.Pipe()
	must(t, err)
	cmd := start(t, "hold", root, w)
	must(t, w.Close())
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "open\n" {
		t.Fatal(line, err)
	}
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	_, _, err = Open(t.Context(), Options{Root: root, LockWait: 50 * time.Millisecond})
	var le *LockedError
	if !errors.As(err, &le) || le.Holder.PID != cmd.Process.Pid {
		t.Errorf("a stopped holder: %v", err)
	}
	if h, ok := Locked(nil, root); !ok || h.PID != cmd.Process.Pid || h.Kind != "chat" {
		t.Errorf("%+v %v", h, ok)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if h, ok := Locked(nil, root); ok || h.PID != cmd.Process.Pid {
		t.Errorf("a dead holder: %+v %v", h, ok)
	}
	// The same note, but a process that lives has the pid now.
	note := strings.Replace(read(t, root, ".ralph", "lock"), fmt.Sprintf(`"pid":%d`, cmd.Process.Pid), fmt.Sprintf(`"pid":%d`, os.Getpid()), 1)
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "lock"), []byte(note), 0o600))
	if h, ok := Locked(nil, root); ok {
		t.Errorf("a reused pid: %+v", h)
	}
	s, rec := open(t, Options{Root: root})
	if rec.Crashed == nil || rec.Crashed.PID != os.Getpid() {
		t.Errorf("%+v", rec)
	}
	if h, ok := Locked(nil, root); !ok || h.PID != os.Getpid() {
		t.Errorf("%+v %v", h, ok)
	}
	must(t, s.Close())
	if h, ok := Locked(nil, root); ok || h.PID != 0 {
		t.Errorf("after a clean end: %+v %v", h, ok)
	}
}

// TestDeletedLock: who deletes `.ralph/` lets nobody else in.
func TestDeletedLock(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "one"})
	must(t, errors.Join(err, s.Flush()))
	removeAll(t, filepath.Join(root, ".ralph"))
	_, err = s.AddTask(Task{Title: "two"})
	must(t, errors.Join(err, s.AppendRun(json.RawMessage("{}")), s.Flush()))
	if _, _, err := Open(t.Context(), Options{Root: root}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second Ralph: %v", err)
	}
	if read(t, root, ".ralph", "FORMAT") != "ralph 1\n" || read(t, root, runsFile) != "{}\n" {
		t.Error("not begun anew")
	}
	must(t, s.Close())
	// Deleted, and another Ralph came before anything was written.
	s, _ = open(t, Options{Root: root})
	removeAll(t, filepath.Join(root, ".ralph"))
	other, _ := open(t, Options{Root: root})
	_, err = s.AddTask(Task{Title: "three"})
	if ferr := s.Flush(); !errors.Is(errors.Join(err, ferr), errLockLost) {
		t.Errorf("two write: %v %v", err, ferr)
	}
	if strings.Contains(read(t, root, TasksFile), "three") {
		t.Error("written without the lock")
	}
	_ = s.Close()
	tasks, err := other.Tasks()
	if err != nil || len(tasks) != 2 {
		t.Errorf("%v %v", tasks, err)
	}
	// A repository that is made around a running Ralph does not let others in.
	gitInit(t, root)
	if _, _, err := Open(t.Context(), Options{Root: root}); !errors.Is(err, ErrLocked) {
		t.Errorf("after git init: %v", err)
	}
}

// removeAll is rm -rf; the Store may just make a file there.
func removeAll(t *testing.T, path string) {
	t.Helper()
	var err error
	for range 20 {
		if err = os.RemoveAll(path); err == nil {
			return
		}
	}
	t.Fatal(err)
}
