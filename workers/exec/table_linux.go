package exec

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tag marks the processes of one command in two places that children inherit:
// the environment, which they may clear, and the soft limit RLIMIT_RTTIME, which
// concerns only real-time schedulers, is 200,000 years here, and which nobody
// touches. Bits of the number: mark 56…63, owner 24…55, serial 0…23.
type tag struct{ n uint64 }

const (
	tagMark     = 0x5a
	tagMarkBit  = 56
	tagOwnerBit = 24
	tagOwners   = 1<<(tagMarkBit-tagOwnerBit) - 1
	tagSerials  = 1<<tagOwnerBit - 1
)

func newTag() tag { return children().newTag() }

func (g tag) text() string { return strconv.FormatUint(g.n, 36) }

// isTag says that a limit was set by a Ralph, this one or one inside it.
func isTag(n uint64) bool { return n>>tagMarkBit == tagMark }

// table knows the children of this process: children, being their subreaper,
// and resource limits are properties of the process, so there is one table for
// all Runners.
type table struct {
	mu        sync.Mutex // guards all below; held while forking, so that no child is seen before it is known
	self      stat
	subreaper bool
	tagged    bool
	serial    uint64
	foreign   map[Process]bool // children that were there before us
	active    map[tag]*tree
	spaces    map[tag]bool // commands in containers that run
	killed    map[int]bool // children that we killed and have not reaped yet
	reaper    *reaper
}

var children = sync.OnceValue(newTable)

func newTable() *table {
	tb := &table{active: map[tag]*tree{}, spaces: map[tag]bool{}, foreign: map[Process]bool{}, killed: map[int]bool{}}
	self, ok := readStat(os.Getpid())
	if !ok { // no /proc: sessions and tags still work
		self = stat{pid: os.Getpid()}
		self.sid, _ = unix.Getsid(0)
	}
	tb.self = self
	for _, p := range processes() {
		if p.ppid == self.pid {
			tb.foreign[Process{PID: p.pid, Start: p.start}] = true
		}
	}
	tb.subreaper = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	var lim unix.Rlimit
	// A 32-bit kernel takes a tag for no limit.
	tb.tagged = strconv.IntSize == 64 && unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim) == nil && lim.Max >= tb.tagFor(tagSerials).n
	return tb
}

func (tb *table) tagFor(serial uint64) tag {
	return tag{tagMark<<tagMarkBit | ownerBits()<<tagOwnerBit | serial&tagSerials}
}

func (tb *table) newTag() tag {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.serial++
	return tb.tagFor(tb.serial)
}

// begin registers a command in a container, until settled.
func (tb *table) begin(g tag) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.spaces[g] = true
}

func (tb *table) settled(g tag) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	delete(tb.spaces, g)
}

// limitOf is the limit that marks a command; 0 where limits cannot.
func (tb *table) limitOf(g tag) uint64 {
	if !tb.tagged {
		return 0
	}
	return g.n
}

// forkInit starts the first process of a container on the calling thread.
func (tb *table) forkInit(t *tree, argv []string, attr *syscall.ProcAttr) error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.forkLocked(t, "/proc/self/exe", argv, attr)
}

// fork starts the leader of t on the calling thread.
func (tb *table) fork(t *tree, path string, argv []string, attr *syscall.ProcAttr) error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if err := tb.forkLocked(t, path, argv, attr); err != nil {
		return err
	}
	if tb.reaper == nil {
		tb.reaper = startReaper(tb)
	}
	return nil
}

func (tb *table) forkLocked(t *tree, path string, argv []string, attr *syscall.ProcAttr) error {
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return err
	}
	t.pid = pid
	tb.mark(t)
	if st, ok := readStat(pid); ok {
		t.start = st.start
	}
	tb.active[t.tag] = t
	return nil
}

// mark sets the limit that marks a leader and what it starts from now on. It is never
// set for this process, whose other children would inherit it. A leader is stopped
// before its first instruction, where that is allowed, and the first process of a
// container waits for its setup.
func (tb *table) mark(t *tree) {
	var lim unix.Rlimit
	if !tb.tagged || unix.Prlimit(t.pid, unix.RLIMIT_RTTIME, nil, &lim) != nil {
		return
	}
	lim.Cur = t.tag.n
	_ = unix.Prlimit(t.pid, unix.RLIMIT_RTTIME, &lim, nil) // without it the environment still carries the tag
}

// leave forgets a tree that has been swept.
func (tb *table) leave(t *tree) {
	tb.mu.Lock()
	delete(tb.active, t.tag)
	var r *reaper
	if len(tb.active) == 0 {
		r, tb.reaper = tb.reaper, nil
	}
	tb.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// quiet says, without a look at every process, that nothing of t is left. False
// means only that a closer look is needed. The leader must have been reaped:
// its orphans became our children when it died.
func (tb *table) quiet(t *tree) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.childless() && tb.subreaper {
		return true
	}
	if !tb.tagged {
		return false
	}
	if len(tb.active) == 1 && len(tb.foreign) == 0 {
		return false // there is a child, and it can only be ours
	}
	quiet := !tb.strangers()
	everyPID(func(pid int) { quiet = quiet && !tb.carries(pid, t) })
	return quiet
}

// strangers says that there is a child that we adopted and that no mark gives to
// a command that runs; where the system does not list children, that there may be.
func (tb *table) strangers() bool {
	all, ok := childrenOf(tb.self.pid)
	return !ok || slices.ContainsFunc(all, tb.strange)
}

func (tb *table) strange(pid int) bool {
	sid, err := unix.Getsid(pid)
	if err != nil || sid == tb.self.sid || tb.active[tag{limitTag(pid)}] != nil {
		return false
	}
	for _, t := range tb.active {
		if t.pid == pid || t.pid == sid {
			return false
		}
	}
	st, ok := readStat(pid)
	return ok && st.alive() && !tb.foreign[Process{PID: pid, Start: st.start}]
}

// childless reaps dead orphans and says whether there is no child at all.
func (tb *table) childless() bool {
	for {
		pid, err := deadChild()
		if err == unix.ECHILD {
			return true
		}
		if err != nil || pid == 0 {
			return false
		}
		if tb.leads(pid) {
			return false // who waits for it comes here next
		}
		if !tb.reapOrphan(pid) {
			tb.reapBehind()
			return false
		}
	}
}

// reapBehind reaps the orphans behind a dead child that is not ours to reap: the
// kernel names only the first.
func (tb *table) reapBehind() {
	for _, p := range processes() {
		if p.ppid == tb.self.pid && p.state == 'Z' && !tb.leads(p.pid) {
			tb.reapOrphan(p.pid)
		}
	}
}

// leads says that a child is a leader somebody waits for.
func (tb *table) leads(pid int) bool {
	for _, t := range tb.active {
		if t.pid == pid && !t.isReaped() {
			return true
		}
	}
	return false
}

// carries says that a process has the tag or the session of t.
func (tb *table) carries(pid int, t *tree) bool {
	if sid, err := unix.Getsid(pid); err != nil || sid == tb.self.sid {
		return false
	} else if sid == t.pid {
		return true
	}
	return limitTag(pid) == t.tag.n
}

// reapOrphan reaps a dead child if it is an orphan of one of our commands. A
// child of other code in this process is left to that: it is in our session, or
// has no tag.
func (tb *table) reapOrphan(pid int) bool {
	sid, err := unix.Getsid(pid)
	if err != nil || sid == tb.self.sid {
		return false
	}
	ours := !tb.tagged || tb.killed[pid] || isTag(limitTag(pid))
	for _, t := range tb.active {
		ours = ours || t.pid == sid
	}
	if !ours {
		return false
	}
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	delete(tb.killed, pid)
	return err == nil && got == pid
}

func (t *tree) isReaped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reaped
}

// round looks at every process, reaps the dead and kills the living of t, and
// gives these. What carries our mark is killed on sight: that is quicker than
// anything can start its successor.
func (tb *table) round(t *tree) []Process {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var living []Process
	seen := map[int]bool{}
	groups := map[int]bool{}
	end := func(p stat) {
		if seen[p.pid] || thread(p.pid) {
			return
		}
		if p.state == 'Z' || p.state == 'X' {
			if p.ppid == tb.self.pid && !tb.leads(p.pid) {
				tb.reapOrphan(p.pid)
			}
			return
		}
		seen[p.pid] = true
		proc := Process{PID: p.pid, Start: p.start, Command: commandLine(p.pid)}
		living = append(living, proc)
		if p.ppid == tb.self.pid && !tb.leads(p.pid) {
			tb.killed[p.pid] = true
		}
		if kill(proc, !groups[p.pgid]) {
			groups[p.pgid] = true
		}
	}
	everyPID(func(pid int) {
		if !tb.carries(pid, t) {
			return
		}
		if p, ok := readStat(pid); ok {
			end(p)
		}
	})
	for _, p := range tb.members(processes(), t) {
		end(p)
	}
	return living
}

// members picks what belongs to t. As we are the subreaper, everything that our
// commands started descends from a child of ours; only the children have to be
// told apart.
func (tb *table) members(all []stat, t *tree) []stat {
	below := map[int][]stat{}
	for _, p := range all {
		below[p.ppid] = append(below[p.ppid], p)
	}
	taken := map[int]bool{}
	var out []stat
	var take func(p stat)
	take = func(p stat) {
		if taken[p.pid] || p.pid == tb.self.pid {
			return
		}
		taken[p.pid] = true
		out = append(out, p)
		for _, c := range below[p.pid] {
			take(c)
		}
	}
	for _, p := range all {
		if p.sid != tb.self.sid && p.start >= t.start && p.ppid == tb.self.pid && tb.ownerOf(p) == t {
			take(p)
		}
	}
	return out
}

// ownerOf tells whose a child of ours is, by session, limit, environment, and
// at last by who can have started it: nil when that does not decide.
func (tb *table) ownerOf(p stat) *tree {
	if tb.foreign[Process{PID: p.pid, Start: p.start}] {
		return nil
	}
	var maybe []*tree
	limit := limitTag(p.pid)
	for _, t := range tb.active {
		if p.pid == t.pid || p.sid == t.pid || limit == t.tag.n {
			return t
		}
		if p.start >= t.start && !t.closed {
			maybe = append(maybe, t)
		}
	}
	env := environTags(p.pid)
	for _, t := range maybe {
		for _, e := range env {
			if e == t.tag.text() {
				return t
			}
		}
	}
	if len(maybe) == 1 && p.state != 'Z' {
		return maybe[0]
	}
	return nil
}

// kill ends one process, and with group its process group, which is in the same
// session and so the same command's. A group is killed at once; one that forks
// all the time cannot run away from that. Its leader, whose number it has, may
// be dead and reaped, so that no descriptor names it. But the process was in it
// a moment ago, and the number is not given out again before all others were.
func kill(p Process, group bool) (ended bool) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return false
	}
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	st, ok := readStat(p.PID)
	if !ok || st.start != p.Start || !st.alive() {
		return false
	}
	if group && st.pgid > 1 {
		_ = unix.Kill(-st.pgid, unix.SIGKILL)
	}
	// What refuses is found alive by the next round.
	if err != nil {
		_ = unix.Kill(p.PID, unix.SIGKILL)
	} else {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	return true
}

// deadChild names a dead child without reaping it: 0 when there are only living
// ones, ECHILD when there is none.
func deadChild() (int, error) {
	for {
		var si unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &si, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		// si_pid is the first word of the union, which is aligned like a pointer.
		words := (*[8]int32)(unsafe.Pointer(&si))
		if unsafe.Sizeof(uintptr(0)) == 8 {
			return int(words[4]), err
		}
		return int(words[3]), err
	}
}

// limitTag is the tag of a process in its resource limit; 0 if it has none.
func limitTag(pid int) uint64 {
	var lim unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &lim); err != nil {
		if err == unix.EPERM {
			return limitTagText(pid)
		}
		return 0
	}
	if !isTag(lim.Cur) {
		return 0
	}
	return lim.Cur
}

// limitTagText reads the same from /proc, which also tells it of programs with
// other rights than ours.
func limitTagText(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "Max realtime timeout")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil || !isTag(n) {
		return 0
	}
	return n
}

// reaper reaps orphans as they die, while any command runs: a script may be
// waiting for the pid of its daemon to disappear.
type reaper struct {
	signals    chan os.Signal
	quit, done chan struct{}
}

func startReaper(tb *table) *reaper {
	r := &reaper{signals: make(chan os.Signal, 1), quit: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(r.signals, syscall.SIGCHLD)
	go func() {
		defer close(r.done)
		for {
			select {
			case <-r.signals:
				tb.mu.Lock()
				tb.childless()
				tb.mu.Unlock()
			case <-r.quit:
				return
			}
		}
	}()
	return r
}

func (r *reaper) close() {
	signal.Stop(r.signals)
	close(r.quit)
	<-r.done
}
