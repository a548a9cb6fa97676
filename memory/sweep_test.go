package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
	"ralph/memory/markdown"
)

// keeper is what the scenario does its work with: a Store, or one of the naive
// ones that the sweeps must catch.
type keeper interface {
	AddTask(Task) (Task, error)
	SetTask(string, TaskEdit) (Task, error)
	Progress(Entry) error
	Learn(Learning) error
	Todo(TodoEdit) error
	Goal(GoalEdit) error
	AppendRun(json.RawMessage) error
	Flush() error
	Close() error
}

// story is a scenario on any filesystem: work, edits of the user in between, a
// process that is not closed, and restarts. ack is told what every later look
// at the disk must find. Errors are borne, and nothing is acknowledged then.
type story struct {
	fs   afero.Fs
	base afero.Fs // for the user, whose disk does not fail
	open func(afero.Fs) (keeper, error)
	ack  func(string)
	errs []error

	k     keeper
	stays bool // open at the end
}

func (w *story) did(err error, what string) bool {
	if err != nil {
		w.errs = append(w.errs, fmt.Errorf("%s: %w", what, err))
		return false
	}
	w.ack(what)
	return true
}

func (w *story) start() {
	k, err := w.open(w.fs)
	if err != nil {
		w.errs = append(w.errs, err)
		return
	}
	w.k = k
}

func (w *story) task(n int) {
	t, err := w.k.AddTask(Task{Title: fmt.Sprintf("job number %d here", n), Check: "true"})
	w.did(err, fmt.Sprintf("task %s job number %d here", t.ID, n))
}

func (w *story) set(id string, r int) {
	_, err := w.k.SetTask(id, TaskEdit{Result: fmt.Sprintf("r%d", r), Status: markdown.InProgress})
	if !errors.Is(err, markdown.ErrNoTask) { // its addition was refused
		w.did(err, fmt.Sprintf("result %s %d", id, r))
	}
}

func (w *story) progress(n int) {
	w.did(w.k.Progress(Entry{Time: clock(), Title: fmt.Sprintf("progress number %d.", n), Summary: "line\nline"}), fmt.Sprintf("text %s progress number %d.", ProgressFile, n))
}

func (w *story) learn(n int) {
	w.did(w.k.Learn(Learning{Time: clock(), What: fmt.Sprintf("learned number %d.", n)}), fmt.Sprintf("text %s learned number %d.", AgentFile, n))
}

func (w *story) run(n int) {
	w.did(w.k.AppendRun(json.RawMessage(fmt.Sprintf(`{"run":"number %d."}`, n))), fmt.Sprintf(`text %s {"run":"number %d."}`, runsFile, n))
}

// user adds a line to a file, durably, the way an editor does.
func (w *story) user(name string, n int, inPlace bool) {
	path := "/p/" + name
	line := fmt.Sprintf("- [ ] user line %d.\n", n)
	old, err := afero.ReadFile(w.base, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.errs = append(w.errs, err)
		return
	}
	target, flag := path+".user", os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	text := string(old) + line
	if inPlace && err == nil {
		target, flag, text = path, os.O_WRONLY|os.O_APPEND, line
	}
	f, err := w.base.OpenFile(target, flag, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil && target != path {
		err = errors.Join(w.base.Rename(target, path), durable.SyncDir(w.base, "/p"))
	}
	if err != nil {
		w.errs = append(w.errs, err)
		return
	}
	w.ack(fmt.Sprintf("text %s user line %d.", name, n))
}

func (w *story) play() {
	if w.start(); w.k == nil {
		return
	}
	w.task(1)
	w.progress(1)
	w.k.Flush()
	w.task(2)
	w.set("T-1", 1)
	w.run(1)
	w.user(TasksFile, 1, false)
	w.set("T-1", 2)
	w.k.Flush()
	w.learn(1)
	w.did(w.k.Todo(TodoEdit{"add", "todo number 1."}), "text "+TodoFile+" todo number 1.")
	w.user(TasksFile, 2, true)
	w.task(3)
	w.did(w.k.Goal(GoalEdit{Action: "set", Text: "goal number 1."}), "text "+GoalsFile+" goal number 1.")
	w.k.Flush()
	w.set("T-2", 1)
	w.progress(2)
	// The process is killed here, and the user edits before the next.
	w.k = nil
	w.user(TasksFile, 3, false)
	if w.start(); w.k == nil {
		return
	}
	w.set("T-1", 3)
	w.task(4)
	w.k.Close()
	w.k = nil
	if w.start(); w.k == nil {
		return
	}
	w.learn(2)
	w.run(2)
	w.set("T-3", 1)
	if w.k.Flush(); !w.stays {
		w.k.Close()
	}
}

func openStore(fsys afero.Fs) (keeper, error) {
	s, _, err := Open(context.Background(), Options{FS: fsys, Root: "/p", Now: clock, byHand: true})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// holdsAll opens the project as Ralph does after a restart, and compares it with
// what was acknowledged: in the Store, and in the files once it is closed.
func holdsAll(fsys afero.Fs, acked []string) error {
	s, rec, err := Open(context.Background(), Options{FS: fsys, Root: "/p", Now: clock, byHand: true})
	if err != nil {
		return err
	}
	if rec.ReadOnly {
		return fmt.Errorf("read-only: %q", rec.Warnings)
	}
	for _, f := range rec.Files {
		// The user's own text, appended in place, may be torn by the power cut.
		if f.State == stateCorrupt && f.Restored == "" || f.State == stateRefused || f.Err != nil && f.State != stateCorrupt {
			return fmt.Errorf("%s is %s: %v", f.Name, f.State, f.Err)
		}
	}
	tasks, err := s.Tasks()
	if err = errors.Join(err, tasksHave(tasks, acked)); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return filesHave(fsys, acked)
}

func tasksHave(tasks []Task, acked []string) error {
	for _, a := range acked {
		kind, rest, _ := strings.Cut(a, " ")
		id, what, _ := strings.Cut(rest, " ")
		var found *Task
		for i := range tasks {
			if tasks[i].ID == id {
				found = &tasks[i]
			}
		}
		switch kind {
		case "task":
			if found == nil || found.Title != what {
				return fmt.Errorf("lost: %s (%+v)", a, found)
			}
		case "result":
			want, _ := strconv.Atoi(what)
			got := -1
			if found != nil {
				got, _ = strconv.Atoi(strings.TrimPrefix(found.Result, "r"))
			}
			if got < want {
				return fmt.Errorf("lost: %s (%+v)", a, found)
			}
		}
	}
	return nil
}

func filesHave(fsys afero.Fs, acked []string) error {
	data, err := afero.ReadFile(fsys, "/p/"+TasksFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := tasksHave(markdown.Parse(data).Tasks(), acked); err != nil {
		return fmt.Errorf("in the file: %w\n%s", err, data)
	}
	for _, a := range acked {
		text, ok := strings.CutPrefix(a, "text ")
		if !ok {
			continue
		}
		name, what, _ := strings.Cut(text, " ")
		data, err := afero.ReadFile(fsys, "/p/"+name)
		if err != nil {
			return fmt.Errorf("lost: %s: %w", a, err)
		}
		if n := strings.Count(string(data), what); n != 1 {
			return fmt.Errorf("%d times: %s\n%s", n, a, data)
		}
	}
	return nil
}

func crashStory(open func(afero.Fs) (keeper, error)) func(*crashfs.FS) error {
	return func(fsys *crashfs.FS) error {
		w := &story{fs: fsys, base: fsys, open: open, ack: fsys.Ack}
		w.play()
		return errors.Join(w.errs...)
	}
}

// project is an empty project on a disk of its own.
func project(t *testing.T) *crashfs.FS {
	fsys := crashfs.New()
	must(t, fsys.MkdirAll("/p", 0o755))
	return fsys
}

// TestPowerLoss: whatever a power cut leaves, at any operation of the story,
// the next start finds all that was acknowledged.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	r := crashfs.Sweep(crashStory(openStore), func(disk *crashfs.FS, acked []string) error { return holdsAll(disk, acked) },
		crashfs.Options{From: project(t), Images: crashfs.Count(400, 100_000)})
	t.Log(r)
	must(t, r.Err())
}

// TestPowerLossInRecovery: a power cut in the recovery from one changes nothing.
func TestPowerLossInRecovery(t *testing.T) {
	t.Parallel()
	fsys := project(t)
	fsys.Record()
	must(t, crashStory(openStore)(fsys))
	images, total := crashfs.Count(5, 300), crashfs.Report{}
	for i := range images {
		point := fsys.Len() * (i + 1) / (images + 1)
		disk, acked := fsys.Image(point, uint64(i)), fsys.Acked(point)
		recover := func(d *crashfs.FS) error {
			k, err := openStore(d)
			if err != nil {
				return err
			}
			return k.Close()
		}
		r := crashfs.Sweep(recover, func(again *crashfs.FS, _ []string) error { return holdsAll(again, acked) },
			crashfs.Options{From: disk, Images: crashfs.Count(20, 60)})
		total.Images, total.Kills, total.Failed, total.Points = total.Images+r.Images, total.Kills+r.Kills, total.Failed+r.Failed, total.Points+r.Points
		if r.Failed > 0 {
			t.Fatalf("image %d: %v", i, r.Err())
		}
	}
	t.Logf("%d disks recovered; in that %d more power cuts and %d kills at %d points: %d lost", images, total.Images, total.Kills, total.Points, total.Failed)
}

// TestFaults: no failure of any operation costs what was acknowledged or held,
// and work goes on in the same process.
func TestFaults(t *testing.T) {
	t.Parallel()
	o := faultfs.Options{Base: faultBase(t), MayShrink: []string{".jsonl"}, Stride: crashfs.Count(101, 1)}
	total := faultfs.Report{}
	if o.Stride > 1 {
		o.Offset = int(clockSeed() % uint64(o.Stride))
	}
	r := faultfs.Sweep(faultStory(openStore), o)
	total = r
	t.Log(total.String())
	must(t, r.Err())
}

func faultBase(t *testing.T) func() afero.Fs {
	return func() afero.Fs {
		base := crashfs.New()
		must(t, base.MkdirAll("/p", 0o755))
		return base
	}
}

// clockSeed lets the small sweep look elsewhere in each run.
func clockSeed() uint64 { return uint64(os.Getpid()) }

func faultStory(open func(afero.Fs) (keeper, error)) func(*faultfs.FS, afero.Fs) error {
	return func(fsys *faultfs.FS, base afero.Fs) error {
		var acked []string
		w := &story{fs: fsys, base: base, ack: func(a string) { acked = append(acked, a) }, stays: true}
		w.open = func(f afero.Fs) (keeper, error) {
			k, err := open(f)
			if s, ok := k.(*Store); ok && s.ReadOnly() {
				// The disk failed while the project was opened; it is well
				// again before the next try.
				fsys.Heal()
				_ = s.Close()
				return open(f)
			}
			return k, err
		}
		w.play()
		fsys.Heal()
		for _, err := range w.errs {
			if !known(err) {
				return fmt.Errorf("an error that is none of the disk's: %w", err)
			}
		}
		if w.k != nil {
			if err := w.k.Flush(); err != nil {
				return fmt.Errorf("flush when all is well: %w", err)
			}
			if s, ok := w.k.(*Store); ok && len(s.Held()) > 0 {
				return fmt.Errorf("still held: %q", s.Held())
			}
			_ = w.k.Close()
		}
		return holdsAll(base, acked)
	}
}

func known(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return strings.Contains(err.Error(), "short write")
}

// naive are stores that make the usual mistakes.
type naive struct {
	*Store
	fs     afero.Fs
	how    string
	memory map[string]string
}

func (n *naive) put(name, text string) error {
	path := "/p/" + name
	switch n.how {
	case "in place":
		f, err := n.fs.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Sync(), f.Close(), durable.SyncDir(n.fs, "/p"))
	case "no sync":
		return errors.Join(afero.WriteFile(n.fs, path+".tmp", []byte(text), 0o644), n.fs.Rename(path+".tmp", path))
	}
	n.memory[name] = text // acknowledged before it is anywhere
	return nil
}

func (n *naive) change(name string, c func(*markdown.Document) error) error {
	text, ok := n.memory[name]
	if !ok {
		data, err := afero.ReadFile(n.fs, "/p/"+name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		text = string(data)
	}
	d := markdown.Parse([]byte(text))
	if err := c(d); err != nil {
		return err
	}
	return n.put(name, d.String())
}

func (n *naive) AddTask(t Task) (Task, error) {
	var out Task
	err := n.change(TasksFile, func(d *markdown.Document) (err error) { out, err = d.Add(t, "T"); return err })
	return out, err
}

func (n *naive) SetTask(id string, e TaskEdit) (Task, error) {
	return Task{}, n.change(TasksFile, func(d *markdown.Document) error { return d.Edit(id, e) })
}

func (n *naive) Progress(e Entry) error {
	return n.change(ProgressFile, func(d *markdown.Document) error { d.PrependEntry(e.text()); return nil })
}

func (n *naive) Flush() error {
	for name, text := range n.memory {
		if err := durable.Replace(n.fs, "/p/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	clear(n.memory)
	return nil
}

func (n *naive) Close() error { return n.Flush() }

// TestNaiveStoresAreCaught: the sweeps find what they are for.
func TestNaiveStoresAreCaught(t *testing.T) {
	for _, how := range []string{"in place", "no sync", "ack first"} {
		open := func(fsys afero.Fs) (keeper, error) {
			k, err := openStore(fsys)
			if err != nil {
				return nil, err
			}
			return &naive{Store: k.(*Store), fs: fsys, how: how, memory: map[string]string{}}, nil
		}
		r := crashfs.Sweep(crashStory(open), func(disk *crashfs.FS, acked []string) error {
			return filesHave(disk, acked)
		}, crashfs.Options{From: project(t), Images: 200})
		t.Logf("%s: %v", how, r)
		if r.Failed < 20 {
			t.Errorf("%s: only %d power cuts lost something", how, r.Failed)
		}
		fr := faultfs.Sweep(faultStory(open), faultfs.Options{Base: faultBase(t), MayShrink: []string{".jsonl"}, Stride: 19, Faults: []faultfs.Fault{{Err: syscall.ENOSPC}}})
		t.Logf("%s: %v", how, fr)
		if how == "in place" && fr.Truncations == 0 {
			t.Errorf("%s: no truncation was seen", how)
		}
	}
}

var (
	tempName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.([A-Z_]+[a-zA-Z.0-9]*)\.[A-Z2-7]{10}\.tmp`) })
	copyName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.\d+\.md`) })
)

// TestEveryPlaceToWriteIsKnown lists the operations of the story that write, so
// that a new one is noticed.
func TestEveryPlaceToWriteIsKnown(t *testing.T) {
	base := faultBase(t)()
	fsys := faultfs.New(base)
	w := &story{fs: fsys, base: base, open: openStore, ack: func(string) {}}
	w.play()
	must(t, errors.Join(w.errs...))
	sites := map[string]int{}
	for _, o := range fsys.Ops() {
		switch verb, path, _ := strings.Cut(o, " "); verb {
		case "write", "sync", "rename", "exchange", "remove", "mkdir", "truncate", "chmod":
			path = tempName().ReplaceAllString(strings.TrimPrefix(path, "/p/"), "$1.tmp")
			path = copyName().ReplaceAllString(path, ".N.md")
			sites[verb+" "+strings.ReplaceAll(path, "/p/", "")]++
		}
	}
	var list []string
	for s, n := range sites {
		list = append(list, fmt.Sprintf("%s ×%d", s, n))
	}
	slices.Sort(list)
	t.Logf("%d operations, these write:\n%s", len(fsys.Ops()), strings.Join(list, "\n"))
	if len(list) < 40 {
		t.Errorf("the story writes at %d places only", len(list))
	}
}
