package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// markVariable is put into the environment of every Ralph that the bench
// starts; its value names the lane.
const markVariable = "BENCH_OF_RALPH"

// entry is a process as the kernel shows it.
type entry struct {
	pid, parent int
	start       uint64 // in clock ticks since the boot: with the pid, one process and no other
	state       byte
	comm        string
}

func (e entry) dead() bool { return e.state == 'Z' || e.state == 'X' }

// found is a process that should not be, and what gave it away.
type found struct {
	entry
	clues []string
}

func (f found) String() string {
	return fmt.Sprintf("%d %s %q (%s)", f.pid, f.comm, commandOf(f.pid), strings.Join(f.clues, ", "))
}

// scanner looks for processes in the kernel's table and nowhere else: it uses no
// list, tag or record of Ralph's. The bench is the subreaper of all that it
// starts, so that whatever a Ralph leaves behind, however it was detached, is
// still a descendant of the bench. Beside descent it looks for the mark in the
// environment and in the command line, and for open files and working
// directories below the bench's directory.
type scanner struct {
	dir   string
	self  int
	began uint64        // older processes are none of ours
	own   map[int]entry // what the bench started itself and waits for itself
}

func newScanner(dir string) (*scanner, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the subreaper: %w", err)
	}
	me, ok := look(os.Getpid())
	if !ok {
		return nil, errors.New("the process table cannot be read")
	}
	return &scanner{dir: dir, self: me.pid, began: me.start, own: map[int]entry{}}, nil
}

// owns tells the scanner of a process that the bench has started.
func (s *scanner) owns(pid int) error {
	e, ok := look(pid)
	if !ok {
		return fmt.Errorf("process %d is not in the table", pid)
	}
	s.own[pid] = e
	return nil
}

func (s *scanner) isOwn(e entry) bool {
	o, ok := s.own[e.pid]
	return e.pid == s.self || ok && o.start == e.start
}

// look reads one process from the table.
func look(pid int) (entry, bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return entry{}, false
	}
	// pid (comm) state ppid …: comm may hold spaces and parentheses.
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return entry{}, false
	}
	f := strings.Fields(string(raw[end+1:]))
	if len(f) < 20 {
		return entry{}, false
	}
	e := entry{pid: pid, state: f[0][0], comm: string(raw[open+1 : end])}
	e.parent, _ = strconv.Atoi(f[1])              // the kernel writes numbers there
	e.start, _ = strconv.ParseUint(f[19], 10, 64) // field 22 of proc_pid_stat(5)
	return e, e.start > 0
}

// table reads all processes.
func table() (map[int]entry, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	all := make(map[int]entry, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, ok := look(pid); ok {
			all[pid] = e
		}
	}
	return all, nil
}

// below are the living descendants of a process, without itself and without
// what the bench started itself.
func (s *scanner) below(all map[int]entry, root int) []entry {
	children := map[int][]entry{}
	for _, e := range all {
		children[e.parent] = append(children[e.parent], e)
	}
	var list []entry
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, e := range children[next[0]] {
			next = append(next, e.pid)
			if !e.dead() && !s.isOwn(e) {
				list = append(list, e)
			}
		}
	}
	return list
}

// reap takes the status of orphans that came to the bench and died there.
func (s *scanner) reap(all map[int]entry) {
	for _, e := range all {
		if e.parent == s.self && e.dead() && !s.isOwn(e) {
			_, _ = syscall.Wait4(e.pid, nil, syscall.WNOHANG, nil) // the next look tells
		}
	}
}

// survivors are all living processes that come from a Ralph of this bench, with
// every clue that gives them away.
func (s *scanner) survivors() ([]found, error) {
	all, err := table()
	if err != nil {
		return nil, err
	}
	s.reap(all)
	descent := map[int]bool{}
	for _, e := range s.below(all, s.self) {
		descent[e.pid] = true
	}
	var list []found
	for _, e := range all {
		if e.dead() || s.isOwn(e) || e.start < s.began {
			continue
		}
		clues := s.clues(e.pid)
		if descent[e.pid] {
			clues = append([]string{"descent"}, clues...)
		}
		if again, ok := look(e.pid); len(clues) > 0 && ok && again.start == e.start && !again.dead() {
			list = append(list, found{e, clues})
		}
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Compare(a.pid, b.pid) })
	return list, nil
}

// clues are the marks that a process carries.
func (s *scanner) clues(pid int) []string {
	var clues []string
	at := "/proc/" + strconv.Itoa(pid)
	if env, err := os.ReadFile(at + "/environ"); err == nil && bytes.Contains(env, []byte(markVariable+"=")) {
		clues = append(clues, "environment")
	}
	if strings.Contains(commandOf(pid), s.dir) {
		clues = append(clues, "command line")
	}
	if dir, err := os.Readlink(at + "/cwd"); err == nil && strings.HasPrefix(dir, s.dir) {
		clues = append(clues, "directory")
	}
	if s.opens(pid, "") {
		clues = append(clues, "open file")
	}
	return clues
}

// opens says that a process has a file below the bench's directory open whose
// path ends so.
func (s *scanner) opens(pid int, end string) bool {
	at := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, _ := os.ReadDir(at) // a process that is gone has none
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		to, err := os.Readlink(at + "/" + fd.Name())
		return err == nil && strings.HasPrefix(to, s.dir) && strings.HasSuffix(to, end)
	})
}

// commandOf is the command line of a process, "" when it is gone.
func commandOf(pid int) string {
	raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.TrimRight(strings.ReplaceAll(string(raw), "\x00", " "), " ")
}

// clear ends everything that the scanner finds, by descriptors that were checked
// against the start of the process, until two looks in a row find nothing.
func (s *scanner) clear() error {
	for clean, deadline := 0, time.Now().Add(20*time.Second); clean < 2; {
		list, err := s.survivors()
		if err != nil {
			return err
		}
		if clean++; len(list) > 0 {
			clean = 0
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cannot be ended: %v", list)
		}
		for _, f := range list {
			if w, ok := open(f.entry); ok {
				_ = unix.PidfdSendSignal(w.fd, unix.SIGKILL, nil, 0) // the next look tells
				w.close()
			}
		}
	}
	return nil
}

// watched is a living process, held by a descriptor that tells its death.
type watched struct {
	entry
	fd int
}

func open(e entry) (watched, bool) {
	fd, err := unix.PidfdOpen(e.pid, 0)
	if err != nil {
		return watched{}, false
	}
	if now, ok := look(e.pid); !ok || now.start != e.start {
		_ = unix.Close(fd)
		return watched{}, false
	}
	return watched{e, fd}, true
}

func (w watched) close() { _ = unix.Close(w.fd) }

// dies waits for the death; false when the deadline came first.
func (w watched) dies(deadline time.Time) bool {
	for {
		left := time.Until(deadline)
		fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(left.Milliseconds(), 0)))
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, syscall.EINTR) || left <= 0 {
			return false
		}
	}
}

// rested is when things below a Ralph came to rest.
type rested struct {
	gone time.Time // the last process of the work that was seen had died
	idle time.Time // … and the last that Ralph itself began afterwards, such as git
	left []entry   // what lived on
}

// emptied waits until nothing lives below a Ralph; work is what ran before.
// Deaths are told by the kernel at once; then the table is read until two
// readings in a row show nothing, because one reading is not atomic: what forks
// and exits all the time can slip through.
func (s *scanner) emptied(ctx context.Context, ralph int, work []watched, limit time.Duration) (r rested, err error) {
	r.gone = time.Now()
	r.idle = r.gone
	deadline := r.gone.Add(limit)
	known := map[entry]bool{}
	for _, w := range work {
		known[entry{pid: w.pid, start: w.start}] = true
	}
	later := []watched{}
	for clean := 0; clean < 2; {
		r.gone, r.idle = awaitAll(work, r.gone, deadline), awaitAll(later, r.idle, deadline)
		work, later = work[:0], later[:0]
		all, err := table()
		if err != nil {
			return r, err
		}
		now := s.below(all, ralph)
		if clean++; len(now) > 0 {
			clean = 0
		}
		if len(now) > 0 && (time.Now().After(deadline) || ctx.Err() != nil) {
			r.gone, r.left = time.Now(), now
			return r, ctx.Err()
		}
		seen := time.Now()
		for _, e := range now {
			w, ok := open(e)
			switch {
			case s.beganLater(all, ralph, e, known):
				if r.idle = seen; ok {
					later = append(later, w)
				}
			default:
				if r.gone = seen; ok {
					work = append(work, w)
				}
			}
		}
	}
	return r, nil
}

// awaitAll waits for the deaths of processes and returns the time of the last,
// or last when there is none.
func awaitAll(list []watched, last, deadline time.Time) time.Time {
	for _, w := range list {
		if w.dies(deadline) {
			last = time.Now()
		}
		w.close()
	}
	return last
}

// beganLater says that a process belongs to a tree that Ralph has begun after
// the work that is known: neither it nor what it descends from is known, and it
// does not hold the mark that all unconfined work holds open. Every doubt counts
// as work.
func (s *scanner) beganLater(all map[int]entry, ralph int, e entry, known map[entry]bool) bool {
	if s.opens(e.pid, "/mark") {
		return false
	}
	for e.pid != ralph {
		if known[entry{pid: e.pid, start: e.start}] {
			return false
		}
		up, ok := all[e.parent]
		if !ok {
			return false
		}
		e = up
	}
	return true
}

// inNamespaces is the kind of leak that not every system allows.
const inNamespaces = "own user and PID namespace"

// leaks are ways to get away from whoever started a command. Each gets the
// bench's mark file as descriptor 3 and keeps it or not.
func leaks() map[string]string {
	return map[string]string{
		"a & in a shell that ended":           "sleep 3600 & exit",
		"setsid":                              "setsid sleep 3600 & exit",
		"double fork with setsid":             "(setsid sh -c 'sleep 3600 & exit' &) ; exit",
		"env -i":                              "(env -i setsid sleep 3600 &) ; exit",
		"cd /, no open file":                  "cd /; (setsid sleep 3600 3<&- >/dev/null 2>&1 </dev/null &) ; exit",
		"another name":                        `(setsid bash -c 'exec -a "[kworker/0:1]" sleep 3600' &) ; exit`,
		"env -i, cd /, no file, another name": `cd /; (env -i setsid bash -c '(exec -a "[kworker/0:1]" sleep 3600 &) ; exit' 3<&- >/dev/null 2>&1 </dev/null &) ; exit`,
		"stopped by itself":                   "(setsid sh -c 'kill -STOP $$' &) ; exit",
		inNamespaces:                          "(setsid unshare -U -p -f sleep 3600 &) ; exit",
	}
}

// plant leaves processes behind in every way and shows that the scanner finds
// each, then ends them by pid and shows that it finds none; once in a run.
func (l *lab) plant() error {
	if l.planted {
		return nil
	}
	l.planted = true
	file := filepath.Join(l.dir, "planted")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	kinds := leaks()
	if l.shell("unshare -U -p -f true").Run() != nil {
		delete(kinds, inNamespaces)
		fmt.Println("  not planted: this system gives no namespaces to users")
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if err := l.plantOne(kind, kinds[kind], file); err != nil {
			return fmt.Errorf("planted leak %q: %w", kind, err)
		}
	}
	if left, err := l.scan.survivors(); err != nil || len(left) > 0 {
		return fmt.Errorf("after the planted leaks were ended the scanner finds %v: %w", left, err)
	}
	fmt.Printf("  %d kinds of planted leaks found, ended by pid, and no longer found\n", len(kinds))
	return nil
}

func (l *lab) plantOne(kind, script, file string) (err error) {
	mark, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mark.Close()) }()
	c := l.shell(script)
	c.ExtraFiles = []*os.File{mark}
	c.Env, c.Dir = append(c.Env, markVariable+"=planted"), l.dir
	if err := c.Run(); err != nil {
		return err
	}
	var list []found
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if list, err = l.scan.survivors(); err != nil {
			return err
		}
		// The last to be started is sleep, or a shell that has stopped itself.
		if slices.ContainsFunc(list, func(f found) bool { return f.comm == "sleep" || f.state == 'T' }) {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the scanner does not find it")
		}
	}
	clues := map[string]bool{}
	for _, f := range list {
		for _, c := range f.clues {
			clues[c] = true
		}
	}
	fmt.Printf("  planted: %-36s found by %s\n", kind, strings.Join(slices.Sorted(maps.Keys(clues)), ", "))
	if !clues["descent"] {
		return fmt.Errorf("it is no descendant of the bench: %v", list)
	}
	return l.scan.clear()
}
