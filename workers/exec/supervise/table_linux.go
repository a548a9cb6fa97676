package supervise

import (
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// table holds the children of this process. Being a subreaper, and resource limits,
// are properties of the process, so all Supervisors share one table.
type table struct {
	self      stat
	subreaper bool // orphans become children of this process
	tagged    bool // limits can carry tags

	mu      sync.Mutex // guards all below; held during a fork, so that every child that is seen is known
	serial  uint64
	foreign map[Process]bool // children from before the table
	active  map[Tag]*child
	boxed   map[Tag]bool // commands that run in containers
	killed  map[int]bool // children that were killed and are not reaped yet
	reaper  *reaper      // nil when not running
}

var children = sync.OnceValue(newTable)

func newTable() *table {
	tb := &table{active: map[Tag]*child{}, boxed: map[Tag]bool{}, foreign: map[Process]bool{}, killed: map[int]bool{}}
	self, ok := readStat(os.Getpid())
	if !ok { // without /proc sessions and tags still work
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
	// To a 32-bit kernel a tag means no limit.
	tb.tagged = strconv.IntSize == 64 && unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim) == nil && lim.Max >= tb.tagFor(tagSerials).n
	return tb
}

func (tb *table) tagFor(serial uint64) Tag {
	return Tag{tagMark<<tagMarkBit | ownerBits()<<tagOwnerBit | serial&tagSerials}
}

func (tb *table) newTag() Tag {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.serial++
	return tb.tagFor(tb.serial)
}

// begin registers a command in a container until settled.
func (tb *table) begin(g Tag) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.boxed[g] = true
}

func (tb *table) settled(g Tag) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	delete(tb.boxed, g)
}

// limitOf returns the limit that tags a command; 0 where limits cannot.
func (tb *table) limitOf(g Tag) uint64 {
	if !tb.tagged {
		return 0
	}
	return g.n
}

// fork starts a child on the calling thread, tags it and registers it until leave.
func (tb *table) fork(c *child, path string, argv []string, attr *syscall.ProcAttr) error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return err
	}
	c.PID = pid
	if tb.tagged {
		// The limit is never set for this process, whose other children would inherit
		// it. A leader is stopped before its first instruction, where that is allowed,
		// and the first process of a container waits for its setup.
		setLimitTag(pid, c.tag.n)
	}
	if st, ok := readStat(pid); ok {
		c.Start = st.start
	}
	tb.active[c.tag] = c
	return nil
}

// reapOrphans starts to reap orphans, until no child is registered.
func (tb *table) reapOrphans() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.reaper == nil {
		tb.reaper = startReaper(tb)
	}
}

// leave removes a child that was swept.
func (tb *table) leave(c *child) {
	tb.mu.Lock()
	delete(tb.active, c.tag)
	var r *reaper
	if len(tb.active) == 0 {
		r, tb.reaper = tb.reaper, nil
	}
	tb.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// quiet reports, cheaply, that nothing of c is left. False means that a closer look
// is needed. c must be reaped: its orphans became children of this process then.
func (tb *table) quiet(c *child) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.childless() && tb.subreaper {
		return true
	}
	if !tb.tagged {
		return false
	}
	if len(tb.active) == 1 && len(tb.foreign) == 0 {
		return false // the child can only be an orphan of c
	}
	quiet := !tb.strangers()
	everyPID(func(pid int) { quiet = quiet && !tb.carries(pid, c) })
	return quiet
}

// strangers reports whether there is an adopted child that no tag attributes to a
// command; true where the system does not list children.
func (tb *table) strangers() bool {
	all, ok := childrenOf(tb.self.pid)
	return !ok || slices.ContainsFunc(all, tb.strange)
}

func (tb *table) strange(pid int) bool {
	sid, err := unix.Getsid(pid)
	if err != nil || sid == tb.self.sid || tb.active[Tag{limitTag(pid)}] != nil {
		return false
	}
	for _, c := range tb.active {
		if c.PID == pid || c.PID == sid {
			return false
		}
	}
	st, ok := readStat(pid)
	return ok && st.alive() && !tb.foreign[Process{PID: pid, Start: st.start}]
}

// childless reaps dead orphans and reports whether there is no child at all.
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
			return false // its Reap and Sweep follow
		}
		if !tb.reapOrphan(pid) {
			tb.reapBehind()
			return false
		}
	}
}

// reapBehind reaps the orphans behind a dead child of other code: waitid(2) returns
// only the first dead child.
func (tb *table) reapBehind() {
	for _, p := range processes() {
		if p.ppid == tb.self.pid && p.state == 'Z' && !tb.leads(p.pid) {
			tb.reapOrphan(p.pid)
		}
	}
}

// leads reports whether pid is a registered child that is not reaped.
func (tb *table) leads(pid int) bool {
	for _, c := range tb.active {
		if c.PID == pid && !c.isReaped() {
			return true
		}
	}
	return false
}

// carries reports whether a process has the tag or the session of c.
func (tb *table) carries(pid int, c *child) bool {
	if sid, err := unix.Getsid(pid); err != nil || sid == tb.self.sid {
		return false
	} else if sid == c.PID {
		return true
	}
	return limitTag(pid) == c.tag.n
}

// reapOrphan reaps a dead child if it is an orphan of a command. A child of other
// code in this process, which is in this session or has no tag, is left alone.
func (tb *table) reapOrphan(pid int) bool {
	sid, err := unix.Getsid(pid)
	if err != nil || sid == tb.self.sid {
		return false
	}
	ours := !tb.tagged || tb.killed[pid] || isTag(limitTag(pid))
	for _, c := range tb.active {
		ours = ours || c.PID == sid
	}
	if !ours {
		return false
	}
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	delete(tb.killed, pid)
	return err == nil && got == pid
}

// round examines every process, reaps the dead and kills the live ones of c, and
// returns these. What carries the tag is killed at sight, which is faster than a
// chain of processes can start the next.
func (tb *table) round(c *child) []Process {
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
		if !tb.carries(pid, c) {
			return
		}
		if p, ok := readStat(pid); ok {
			end(p)
		}
	})
	for _, p := range tb.members(processes(), c) {
		end(p)
	}
	return living
}

// members returns what belongs to c. With a subreaper everything that a command
// started descends from a child of this process, so that only the children have to be
// attributed.
func (tb *table) members(all []stat, c *child) []stat {
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
		for _, next := range below[p.pid] {
			take(next)
		}
	}
	for _, p := range all {
		if p.sid != tb.self.sid && p.start >= c.Start && p.ppid == tb.self.pid && tb.ownerOf(p) == c {
			take(p)
		}
	}
	return out
}

// ownerOf attributes a child of this process by session, limit and environment, and
// last by start time; nil when none of them decides.
func (tb *table) ownerOf(p stat) *child {
	if tb.foreign[Process{PID: p.pid, Start: p.start}] {
		return nil
	}
	var maybe []*child
	limit := limitTag(p.pid)
	for _, c := range tb.active {
		if p.pid == c.PID || p.sid == c.PID || limit == c.tag.n {
			return c
		}
		if p.start >= c.Start && !c.sealed {
			maybe = append(maybe, c)
		}
	}
	env := environTags(p.pid)
	for _, c := range maybe {
		if slices.Contains(env, c.tag.text()) {
			return c
		}
	}
	if len(maybe) == 1 && p.state != 'Z' {
		return maybe[0]
	}
	return nil
}

// deadChild returns a dead child without reaping it; 0 when all children live, ECHILD
// when there is none.
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

// reaper reaps orphans as they die while a command runs: a script may wait for the
// pid of its daemon to disappear.
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
