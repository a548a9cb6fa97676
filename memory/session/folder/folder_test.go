package folder

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"
	"go.uber.org/goleak"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
)

var update = os.Getenv("RALPH_TEST_UPDATE") != ""

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ticking is a clock that goes on by a second with each look.
func ticking() func() time.Time {
	var mu sync.Mutex
	at := time.Date(2026, 11, 21, 10, 2, 2, 123456789, time.FixedZone("", 3600))
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Second)
		return at
	}
}

const dir = "/p/.ralph/sessions/session-001-fix"

func opened1(t testing.TB, fsys afero.Fs) *Folder {
	t.Helper()
	must(t, fsys.MkdirAll(dir, 0o700))
	return reopened(t, fsys)
}

func reopened(t testing.TB, fsys afero.Fs) *Folder {
	t.Helper()
	f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Quarantine: "/p/.ralph/quarantine", Now: ticking(),
		Redact: func(s string) string { return strings.ReplaceAll(s, "s3cret", "[redacted]") }})
	must(t, err)
	return f
}

func is(b bool) *bool { return &b }

// work records one of everything.
func work(f *Folder) {
	f.Log(Event{Type: SessionStart})
	f.Phase(1, "build", 50)
	f.Tasks(TaskState{TaskID: "001"}, TaskState{TaskID: "T-2", Status: TaskInProgress}, TaskState{TaskID: "T-3", Status: TaskSkipped})
	f.Log(Event{Type: TaskStart, TaskID: "T-2", TaskName: "retry s3cret"})
	d := Decision{TaskID: "T-2", DecisionType: DecisionTask, Outcome: ""}
	d.Context.CurrentTask, d.Context.AvailableActions, d.Context.Risk.Execution = "retry", []string{"execute", "skip"}, 0.25
	d.Decision.Action, d.Decision.Confidence, d.Decision.Rationale = "execute", 0.8, "clear s3cret"
	d.Decision.Alternatives = []alternative{{"skip", 0.3}}
	id := f.Decide(d)
	failure := f.Fail(Failure{TaskID: "T-2", ErrorType: "network", ErrorMessage: "503 from s3cret", Severity: High})
	f.Fail(Failure{ErrorType: "unknown", ErrorMessage: "left open"})
	trip := f.Trip(Trip{Condition: "error_rate > 0.5", ActionTaken: "pause_and_review"})
	f.Resolve(failure, "retried with backoff", 2)
	f.Resolve(failure, "again", 9)
	f.Reset(trip)
	f.Log(Event{Type: Interrupted, Details: map[string]any{"by": "you", "odd": math.Inf(1)}})
	target := 80.0
	f.Measure(Metric{Name: "coverage", Value: 81.5, Unit: "%", Target: &target, Source: "go test"})
	f.Measure(Metric{Name: "nan", Value: math.NaN()})
	f.Milestone(Milestone{Name: "M1", Target: "all green", Achieved: true})
	f.Planned(Gate{Name: "G1", Metric: "coverage", Threshold: 80, Operator: ">="}, Gate{Name: "G2", Metric: "errors", Operator: "=="})
	f.Gate(Gate{Name: "G1", Metric: "coverage", Threshold: 80, Operator: ">=", Passed: is(true)})
	f.Task(TaskState{TaskID: "T-2", Status: TaskCompleted, Details: "done\nwell", Artifacts: []string{"a.go"}})
	f.Log(Event{Type: TaskComplete, TaskID: "T-2", Result: "done", Duration: 1500 * time.Millisecond})
	f.Outcome(id, "done")
}

func golden(t *testing.T, fsys afero.Fs, name string) {
	t.Helper()
	got, err := afero.ReadFile(fsys, filepath.Join(dir, name))
	must(t, err)
	path := filepath.Join("testdata", name)
	if update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

// TestShapes: the files have exactly the documented keys, in real time.
func TestShapes(t *testing.T) {
	fsys := afero.NewMemMapFs()
	f := opened1(t, fsys)
	work(f)
	for _, name := range []string{logFile, progressFile, decisionsFile, errorsFile, metricsFile} {
		golden(t, fsys, name)
	}
	must(t, report(f, "read *first*"))
	golden(t, fsys, reportFile)
	c := f.Counts()
	if want := (counts{Phase: 1, PhaseName: "build", Tracked: true, Tasks: 3, Completed: 1, SuccessRate: 0.3333, AverageDuration: c.AverageDuration, Failures: 2, Interventions: 1}); c != want {
		t.Errorf("%+v", c)
	}
	must(t, f.Close())
	must(t, f.Close())
	f.Log(Event{Type: Message})
	f.Task(TaskState{TaskID: "late"})
	d, err := Read(fsys, dir)
	must(t, err)
	if len(d.Problems) != 0 || d.Log.Events != 4 || len(d.Progress.Tasks) != 3 || d.Progress.Tasks[0].TaskID != "001" || d.Decisions[0].Outcome != "success" {
		t.Errorf("%+v", d)
	}
	if diff := d.Differences(); len(diff) != 0 {
		t.Errorf("%v", diff)
	}
}

// TestFaults: at whatever operation the disk fails, with whatever error, once or
// for a while: nothing that was recorded is lost in this process, and no file
// is ever unreadable.
func TestFaults(t *testing.T) {
	errnos := []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.EDQUOT}
	points := 0
	for _, sticky := range []bool{false, true} {
		for i := 0; i < len(errnos); i++ {
			// All of them for one error, a part for the others.
			stride := crashfs.Count(3, 1)
			if i > 0 || sticky {
				stride = crashfs.Count(29, 1)
			}
			for n := 1 + i%stride; ; n += stride {
				ff := faultfs.New(afero.NewMemMapFs())
				must(t, ff.MkdirAll(dir, 0o700))
				f := reopened(t, ff)
				if sticky {
					ff.FailFrom(n, errnos[i])
				} else {
					ff.FailAt(n, errnos[i])
				}
				work(f)
				if n > len(ff.Ops()) {
					// What is left is Close, which tries again what fails once.
					if err := f.Close(); err != nil && !sticky {
						t.Fatalf("%v at operation %d: close: %v", errnos[i], n, err)
					}
					done := n > len(ff.Ops())
					ff.FailAt(0, nil)
					checkWork(t, ff, fmt.Sprintf("%v at operation %d, in Close", errnos[i], n))
					if done {
						break
					}
					points++
					continue
				}
				points++
				ff.FailAt(0, nil)
				label := fmt.Sprintf("%v at operation %d, sticky %t", errnos[i], n, sticky)
				// A write that the disk cut short is mended with the next one; the
				// Folder knows, and until then an entry is held.
				f.mu.Lock()
				held := f.held()
				f.mu.Unlock()
				if d, err := Read(ff, dir); err != nil || len(d.Problems) != 0 && held == nil {
					t.Fatalf("%s: before it works again: %v %v", label, err, d.Problems)
				}
				if err := f.Flush(); err != nil {
					t.Fatalf("%s: flush: %v", label, err)
				}
				must(t, f.Close())
				checkWork(t, ff, label)
			}
		}
	}
	t.Logf("%d faults", points)
}

func checkWork(t *testing.T, fsys afero.Fs, label string) {
	t.Helper()
	d, err := Read(fsys, dir)
	must(t, err)
	if len(d.Problems) != 0 || d.Log.Events != 4 || d.Log.Unordered != 0 || len(d.Decisions) != 1 || d.Decisions[0].Outcome != "success" || len(d.Failures) != 2 ||
		!d.Failures[0].Resolved || d.Failures[1].Resolved || len(d.Trips) != 1 || !d.Trips[0].Resolved || len(d.Metrics) != 1 || len(d.Progress.Tasks) != 3 || len(d.Progress.QualityGates) != 2 {
		t.Fatalf("%s: %+v", label, d)
	}
}

// TestPowerLoss: whatever a power cut or a kill leaves of the files, the next
// Folder mends it, loses nothing that it writes itself, and moves what was
// broken instead of losing it. A kill leaves every file readable.
func TestPowerLoss(t *testing.T) {
	scenario := func(fsys *crashfs.FS) error {
		if err := durable.MkdirAll(fsys, dir, 0o700); err != nil {
			return err
		}
		f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Quarantine: "/p/.ralph/quarantine", Now: ticking()})
		if err != nil {
			return err
		}
		work(f)
		err = errors.Join(report(f), f.Close())
		fsys.Ack("closed")
		return err
	}
	check := func(disk *crashfs.FS, acked []string) error {
		f, err := Open(Options{FS: disk, Dir: dir, SessionID: "001", Quarantine: "/p/.ralph/quarantine", Now: ticking()})
		if err != nil {
			return err
		}
		work(f)
		if err := f.Close(); err != nil {
			return err
		}
		d, err := Read(disk, dir)
		if err != nil {
			return err
		}
		if len(d.Problems) > 0 {
			return d.Problems[0].Err
		}
		least := 1
		if len(acked) > 0 {
			least = 2
		}
		if d.Log.Events < 4*least || len(d.Decisions) < least || len(d.Failures) < 2*least || len(d.Trips) < least || len(d.Metrics) < least || len(d.Progress.Tasks) != 3 {
			return fmt.Errorf("%d events, %d decisions, %d failures, %d trips, %d metrics, want %d of each", d.Log.Events, len(d.Decisions), len(d.Failures), len(d.Trips), len(d.Metrics), least)
		}
		last := d.Decisions[len(d.Decisions)-1]
		if last.Outcome != "success" || !d.Failures[len(d.Failures)-2].Resolved {
			return errors.New("the last changes are not there")
		}
		return nil
	}
	r := crashfs.Sweep(scenario, check, crashfs.Options{Images: crashfs.Count(100, 20_000)})
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// TestDirectoryGone: a directory that is removed while it is in use is made
// again, with what is recorded from then on.
func TestDirectoryGone(t *testing.T) {
	for name, fsys := range map[string]afero.Fs{"disk": afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), "memory": afero.NewMemMapFs()} {
		f := opened1(t, fsys)
		work(f)
		must(t, fsys.RemoveAll("/p"))
		work(f)
		must(t, f.Close())
		d, err := Read(fsys, dir)
		if err != nil || len(d.Problems) != 0 || d.Log.Events != 4 || len(d.Decisions) != 1 || len(d.Progress.Tasks) != 3 {
			t.Errorf("%s: %v %+v", name, err, d)
		}
	}
}

// TestSpecialFiles: what is no regular file is set aside and not followed.
func TestSpecialFiles(t *testing.T) {
	for kind, plant := range map[string]func(path string) error{
		"directory": func(p string) error { return os.MkdirAll(filepath.Join(p, "in"), 0o700) },
		"fifo":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"link":      func(p string) error { return os.Symlink("/etc/hostname", p) },
		"dangling":  func(p string) error { return os.Symlink("/nowhere/at/all", p) },
	} {
		base := t.TempDir()
		fsys := afero.NewBasePathFs(afero.NewOsFs(), base)
		must(t, fsys.MkdirAll(dir, 0o700))
		names := []string{logFile, progressFile, decisionsFile, errorsFile, metricsFile, reportFile}
		for _, n := range names {
			must(t, plant(filepath.Join(base, dir, n)))
		}
		f := reopened(t, fsys)
		work(f)
		must(t, report(f))
		must(t, f.Close())
		checkWork(t, fsys, kind)
		if got := aside(t, fsys); len(got) != len(names) {
			t.Errorf("%s: set aside: %v", kind, got)
		}
	}
}

// TestLargeFilesWait: a change of a large file is written within a second, many
// with one rewrite; small ones at once.
func TestLargeFilesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ff := faultfs.New(afero.NewMemMapFs())
		must(t, ff.MkdirAll(dir, 0o700))
		f, err := Open(Options{FS: ff, Dir: dir, SessionID: "001"})
		must(t, err)
		var ids []int
		for i := range 400 {
			ids = append(ids, f.Decide(Decision{TaskID: fmt.Sprint("T-", i), DecisionType: "task"}))
		}
		var tasks []TaskState
		for i := range 600 {
			tasks = append(tasks, TaskState{TaskID: fmt.Sprint("T-", i)})
		}
		f.Tasks(tasks...)
		ff.FailAt(0, nil)
		for i, id := range ids[:300] {
			f.Outcome(id, "success")
			f.Task(TaskState{TaskID: fmt.Sprint("T-", i), Status: TaskCompleted})
		}
		if n := renames(ff); n != 0 {
			t.Errorf("%d rewrites at once", n)
		}
		time.Sleep(lag + time.Millisecond)
		synctest.Wait()
		if n := renames(ff); n != 2 {
			t.Errorf("%d rewrites within a second", n)
		}
		d, err := Read(ff, dir)
		must(t, err)
		if d.Decisions[299].Outcome != "success" || d.Decisions[300].Outcome != "" || d.Progress.Tasks[299].Status != TaskCompleted || d.Progress.Progress.OverallProgress != 50 {
			t.Error("the changes are not there")
		}
		f.Outcome(ids[399], "success") // waits for Close
		must(t, f.Close())
		if d, err = Read(ff, dir); err != nil || d.Decisions[399].Outcome != "success" {
			t.Error("Close left a change out")
		}
	})
}

func renames(ff *faultfs.FS) (n int) {
	for _, op := range ff.Ops() {
		if strings.HasPrefix(op, "rename") {
			n++
		}
	}
	return n
}

// TestManyAtOnce: all may be used by many goroutines.
func TestManyAtOnce(t *testing.T) {
	fsys := afero.NewMemMapFs()
	f := opened1(t, fsys)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 20 {
				f.Log(Event{Type: Message, Result: fmt.Sprint(i, " ", n)})
				f.Resolve(f.Fail(Failure{ErrorMessage: fmt.Sprint(i, " ", n)}), "x", 1)
				f.Task(TaskState{TaskID: fmt.Sprint(i, "-", n), Status: TaskCompleted})
				f.Counts()
			}
		})
	}
	wg.Wait()
	must(t, f.Close())
	d, err := Read(fsys, dir)
	must(t, err)
	if d.Log.Events != 160 || len(d.Failures) != 160 || len(d.Progress.Tasks) != 160 || len(d.Problems) != 0 {
		t.Errorf("%+v", d.Problems)
	}
	for _, x := range d.Failures {
		if !x.Resolved {
			t.Fatalf("%+v", x)
		}
	}
}

// fill makes a log of n events, ten or a multiple, without the Folder.
func fill(t testing.TB, path string, n int) {
	t.Helper()
	out, err := os.Create(path)
	must(t, err)
	w := bufio.NewWriter(out)
	_, _ = w.WriteString("{\n  \"session_id\": \"001\",\n  \"events\": [")
	ten := strings.Repeat(",\n    {\"timestamp\":\"2026-11-21T10:00:00.123Z\",\"event_type\":\"message\",\"details\":{}}", 10)
	_, _ = w.WriteString(ten[1:])
	for range n/10 - 1 {
		_, _ = w.WriteString(ten)
	}
	_, _ = w.WriteString("\n  ]\n}\n")
	must(t, w.Flush())
	must(t, out.Sync()) // what is measured later is not to pay for it
	must(t, out.Close())
}

// TestCost shows what one more event costs in a log of any size; nothing is
// asserted but that the log is whole.
func TestCost(t *testing.T) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		if n > 10_000 && testing.Short() {
			continue
		}
		base := t.TempDir()
		fill(t, filepath.Join(base, logFile), n)
		begin := time.Now()
		f, err := Open(Options{Dir: base, SessionID: "001"})
		must(t, err)
		f.Log(Event{Type: Message})
		opening := time.Since(begin)
		const more = 200
		begin = time.Now()
		for range more {
			f.Log(Event{Type: Message, Details: map[string]any{"text": "some words of a message"}})
		}
		each := time.Since(begin) / more
		must(t, f.Close())
		t.Logf("%8d events: first append with opening %v, each of %d more %v", n, opening, more, each)
		if n > 10_000 {
			continue // reading it all is measured elsewhere
		}
		d, err := Read(afero.NewOsFs(), base)
		if err != nil || d.Log.Events != n+more+1 || len(d.Problems) != 0 {
			t.Errorf("%d: %d %v %v", n, d.Log.Events, d.Problems, err)
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			base := b.TempDir()
			fill(b, filepath.Join(base, logFile), n)
			f, err := Open(Options{Dir: base, SessionID: "001"})
			must(b, err)
			f.Log(Event{Type: Message})
			for b.Loop() {
				f.Log(Event{Type: Message, Details: map[string]any{"text": "some words of a message"}})
			}
			must(b, f.Close())
		})
	}
}

func BenchmarkTaskOf10000(b *testing.B) {
	f, err := Open(Options{Dir: b.TempDir(), SessionID: "001"})
	must(b, err)
	tasks := make([]TaskState, 10_000)
	for i := range tasks {
		tasks[i].TaskID = fmt.Sprint("T-", i)
	}
	f.Tasks(tasks...)
	for n := 0; b.Loop(); n++ {
		f.Task(TaskState{TaskID: fmt.Sprint("T-", n%10_000), Status: TaskInProgress})
	}
	must(b, f.Close())
}

// What the system ends is no intervention of a human, and neither is a result that
// came late.
func TestHumanInterventions(t *testing.T) {
	f := opened1(t, afero.NewMemMapFs())
	for _, result := range []string{"interrupted by SIGTERM", "interrupted by SIGHUP", "late"} {
		f.Log(Event{Type: Interrupted, Result: result})
	}
	if n := f.Counts().Interventions; n != 0 {
		t.Errorf("%d interventions of nobody", n)
	}
	for _, result := range []string{"interrupted by SIGINT", "stopped by the user", "stopped by the user: SIGTERM is what it needs", "paused", ""} {
		f.Log(Event{Type: Interrupted, Result: result})
	}
	if n := f.Counts().Interventions; n != 5 {
		t.Errorf("%d interventions, want 5", n)
	}
	must(t, f.Close())
}
