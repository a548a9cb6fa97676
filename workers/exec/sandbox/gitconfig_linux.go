package sandbox

import (
	"crypto/rand"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/acts"
)

// This file makes what git reads as configuration, or follows to it, and its hooks, for a
// command. A program can make a directory one of git's, or put another in its place, after git
// has looked at it, so the names alone count: "config" wherever it is. A file of such a name is
// a copy that was judged, has no other name, and no command has it open for writing. What a
// command opens there for writing lies elsewhere until no program has it open, and a link leads
// to it that leads nowhere for others.

const (
	// maxConfig bounds a configuration, in bytes.
	maxConfig = 16 << 20
	// stageWait is how often the Maker looks whether a program still writes to one.
	stageWait = 5 * time.Millisecond
	// lockWait bounds how long a Maker waits for that of another command, lockEvery is how often
	// it looks.
	lockWait, lockEvery = 500 * time.Millisecond, time.Millisecond
)

// staged is a file that stands for a configuration.
type staged struct {
	at     resolved // with a descriptor of its own
	target string
	file   int // open to read
	owner  owner
	update *treeUpdate
}

// ofMaker reports whether a name is one that a Maker gives a file until it has another.
func ofMaker(name string) bool {
	i := strings.LastIndex(name, temporary)
	return i >= 0 && len(name) == i+len(temporary)+len(rand.Text())
}

const temporary = ".ralph-"

func exists(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// ofGit reports whether git may take a directory for one of its own.
func ofGit(dir int) bool { return exists(dir, "objects") && exists(dir, "refs") }

// inGit reports whether a place lies in a directory of git's.
func (p resolved) inGit() bool { return strings.Contains(p.path, "/.git/") || ofGit(p.fd) }

// configures reports whether a place has a name by which git reads its configuration, or what
// leads to it.
func (p resolved) configures() bool {
	switch acts.Fold(path.Base(p.path)) {
	case "config", "config.worktree", "commondir", ".git":
		return p.rel != "" && !p.own
	}
	return false
}

// configures is that of resolved for an open file, by its present path.
func (m *Maker) configures(f int) bool {
	full, rel, inside := m.inside(f)
	return resolved{path: full, rel: rel, own: !inside}.configures()
}

// lock keeps the Makers of other commands from a directory until the call is answered, and
// reports whether it does: some program may hold the directory for long.
func (c *creation) lock(dir int) bool {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return false
	}
	if _, held := c.locks[identify(&st)]; held {
		return true
	}
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	for began := time.Now(); ; time.Sleep(lockEvery) {
		if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		if time.Since(began) > lockWait {
			_ = unix.Close(fd)
			return false
		}
	}
	if c.locks == nil {
		c.locks = map[fileID]int{}
	}
	c.locks[identify(&st)] = fd
	return true
}

// refusesOfGit returns the name by which a call may not make something at a place: a hook, or
// what makes a directory git's that has one. A link is none of git's, as it may lead to
// something else later.
func (c *creation) refusesOfGit(p resolved, link bool) (acts.Name, bool) {
	hook := acts.Name{Path: "hooks", Class: acts.Hook}
	switch base := acts.Fold(p.base); {
	case p.own || p.fd < 0:
	case base == "objects" || base == "refs" || base == "head":
		return c.completes(p, base)
	case link && p.configures() && (base != "config" || !c.lock(p.fd) || p.inGit()), c.op == makesSymlink && acts.LeadsAway(c.target):
		return acts.Name{Path: base, Class: acts.Git}, true
	case link && base == "hooks":
		return hook, !c.lock(p.fd) || ofGit(p.fd)
	case acts.Fold(path.Base(path.Dir(p.path))) == "hooks" && slices.Contains(acts.HookNames(), base):
		above, err := unix.Openat(p.fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return hook, true
		}
		defer func() { _ = unix.Close(above) }() // only read
		return hook, !c.lock(above) || ofGit(above)
	}
	return acts.Name{}, false
}

// completes reports whether a name makes a directory one of git's in which git would run something
// that is there.
func (c *creation) completes(p resolved, base string) (acts.Name, bool) {
	hook := acts.Name{Path: "hooks", Class: acts.Hook}
	switch {
	case !c.lock(p.fd):
		return hook, true
	case exists(p.fd, p.base), base != "objects" && !exists(p.fd, "objects"), base != "refs" && !exists(p.fd, "refs"):
		return hook, false
	}
	return c.m.runsIn(p.fd, 0)
}

// runsIn returns the name by which git would run something in a directory, if it is one of git's:
// a command makes none such, so it is the user's.
func (m *Maker) runsIn(dir, depth int) (acts.Name, bool) {
	const deepest = 8 // directories that lead to each other
	full, _, _ := m.inside(dir)
	for _, name := range []string{"config", "config.worktree", "commondir"} {
		at := resolved{fd: dir, base: name}
		if !exists(dir, name) || m.stands(at) {
			continue // one that stands is judged when it is whole
		}
		text, err := readConfig(dir, name)
		switch {
		case err == nil && name == "commondir":
			if depth == deepest || m.leadsToRuns(dir, text, depth+1) {
				return acts.Name{Path: name, Class: acts.Git}, true
			}
		case err != nil, acts.MayAct(text) && acts.UnsafeKey(text, acts.WorkTrees(m.guard.Root, full, text)) != "":
			return acts.Name{Path: name, Class: acts.Git}, true
		}
	}
	hook := acts.Name{Path: "hooks", Class: acts.Hook}
	if !exists(dir, "hooks") {
		return hook, false
	}
	hooks, err := unix.Openat(dir, "hooks", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return hook, true
	}
	defer func() { _ = unix.Close(hooks) }() // only read
	return hook, slices.ContainsFunc(acts.HookNames(), func(name string) bool { return exists(hooks, name) })
}

// openTarget opens the directory that a text in a directory leads git to, which is that of a file
// .git or commondir.
func openTarget(dir int, text []byte) (target string, fd int, err error) {
	target = strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
	fd, err = unix.Openat2(dir, target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	return target, fd, err
}

// leadsToRuns reports whether a text in a directory, that of a file .git or commondir, leads git to
// one in the tree where it would run something that is there, or that a link can replace.
func (m *Maker) leadsToRuns(dir int, text []byte, depth int) bool {
	target, fd, err := openTarget(dir, text)
	if err != nil {
		return err == unix.ELOOP
	}
	defer func() { _ = unix.Close(fd) }() // only read
	full, _, inside := m.inside(fd)
	if !inside {
		return false // of the repository of the tree, or out of reach of the command
	}
	if !path.IsAbs(target) {
		from, _, _ := m.inside(dir)
		target = path.Join(from, target)
	}
	_, runs := m.runsIn(fd, depth)
	return runs || path.Clean(target) != full
}

// waits reports whether a file leads to a directory that is not there yet: what comes there decides
// whether git may follow.
func (s *staged) waits() bool {
	if base := acts.Fold(s.at.base); base != ".git" && base != "commondir" {
		return false
	}
	text, _, err := readWhole(s.file)
	if err != nil {
		return false
	}
	_, fd, err := openTarget(s.at.fd, text)
	if err == nil {
		_ = unix.Close(fd) // only looked for
	}
	return err == unix.ENOENT
}

// readConfig reads a file of a directory of git's.
func readConfig(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // only read
	text, _, err := readWhole(fd)
	return text, err
}

// readWhole reads a configuration that is open, from its beginning.
func readWhole(fd int) (text []byte, st unix.Stat_t, err error) {
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, st, unix.EACCES
	case st.Size > maxConfig:
		return nil, st, unix.EFBIG
	}
	text = make([]byte, st.Size)
	for size := 0; size < len(text); {
		n, err := unix.Pread(fd, text[size:], int64(size))
		if err != nil && err != unix.EINTR {
			return nil, st, err
		}
		if err == nil && n == 0 {
			text = text[:size] // it was cut off meanwhile
		}
		size += max(n, 0)
	}
	return text, st, nil
}

// stands reports whether what is at a place is a link of the Maker's.
func (m *Maker) stands(p resolved) bool {
	buf := make([]byte, maxPath)
	n, err := unix.Readlinkat(p.fd, p.base, buf)
	return err == nil && m.standsFor(string(buf[:n])) != nil
}

// standsFor returns the file that a link of the Maker's with this text leads to, nil for none.
func (m *Maker) standsFor(text string) *staged {
	if i := slices.IndexFunc(m.staged, func(s *staged) bool { return s.target == text }); i >= 0 {
		return m.staged[i]
	}
	return nil
}

// reopen opens the file with flags of open(2). It does not follow the path, where the command
// can put something else.
func (s *staged) reopen(flags int) (fd int, err error) {
	return unix.Open(link(s.file), flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)|unix.O_CLOEXEC, 0)
}

// judge puts a copy of a file in a directory, without what git would run, at a place;
// flags are those of renameat2(2).
func (c *creation) judge(p resolved, dir int, name string, flags uint) error {
	from, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(from) }() // only read
	return c.m.judge(p, from, flags)
}

// judge is that of creation for an open file.
func (m *Maker) judge(p resolved, from int, flags uint) error {
	text, st, err := readWhole(from)
	if err != nil {
		return err
	}
	text, key := m.harmless(p, text)
	if key != "" {
		m.refused(path.Join(m.guard.Root, p.rel), acts.Git, key)
	}
	if text == nil {
		return unix.EACCES
	}
	temp := "config" + temporary + rand.Text()
	to, err := unix.Openat(p.fd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	err = writeAll(to, text)
	_ = unix.Fchown(to, int(st.Uid), int(st.Gid)) // where the command may not, it is the owner of the copy
	if merr := unix.Fchmod(to, st.Mode&0o777); err == nil {
		err = merr
	}
	if cerr := unix.Close(to); err == nil {
		err = cerr
	}
	if err == nil {
		times := [2]unix.Timespec{st.Atim, st.Mtim}
		_ = unix.UtimesNanoAt(p.fd, temp, times[:], unix.AT_SYMLINK_NOFOLLOW) // it is as new as the copy then
		err = unix.Renameat2(p.fd, temp, p.fd, p.base, flags)
	}
	if err != nil {
		_ = unix.Unlinkat(p.fd, temp, 0)
	}
	return err
}

// harmless returns what may stay of a text at a place, nil for nothing, and the first setting
// that may not. Where the configuration is not known to be that of a repository only what git
// would run is left out.
func (m *Maker) harmless(p resolved, text []byte) (rest []byte, key string) {
	switch base := acts.Fold(path.Base(p.path)); {
	case !p.configures():
		return text, "" // another name of one
	case base == ".git" || base == "commondir":
		if acts.LeadsAway(string(text)) || m.leadsToRuns(p.fd, text, 0) {
			return nil, ""
		}
		return text, ""
	case base == "config" && !p.inGit() && !acts.MayAct(text):
		return text, ""
	}
	allowed := acts.WorkTrees(m.guard.Root, path.Dir(p.path), text)
	if key = acts.UnsafeKey(text, allowed); key == "" {
		return text, ""
	}
	if rest = acts.HarmlessConfig(text, allowed); acts.UnsafeKey(rest, allowed) != "" {
		return nil, key
	}
	return rest, key
}

// stage opens for a command, which is to write the configuration at p, a file that stands for
// it; f is what is there, -1 for nothing.
func (c *creation) stage(p resolved, f int) outcome {
	mode := c.mode
	if f >= 0 {
		var st unix.Stat_t
		err := unix.Fstat(f, &st)
		if err == nil && (p.fd < 0 || st.Mode&unix.S_IFMT != unix.S_IFREG) {
			err = unix.EACCES // the caller has the file open, which no other replaces
		}
		var w int
		if err == nil {
			w, err = unix.Open(link(f), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			return failed(err)
		}
		_ = unix.Close(w) // nothing was written
		mode = st.Mode & 0o777
	}
	s := &staged{at: p, target: Stages + rand.Text(), file: -1, owner: c.m.last, update: c.update}
	fd, err := unix.Open(s.target, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode|0o600)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = unix.Close(fd) }() // what it holds is lost with it
	s.at.fd, err = unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil && f >= 0 && c.flags&unix.O_TRUNC == 0 {
		var from int
		if from, err = unix.Open(link(f), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			err = copyData(fd, from)
			_ = unix.Close(from)
		}
	}
	if err == nil {
		s.file, err = unix.Open(link(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	temp := p.base + temporary + rand.Text()
	if err == nil {
		err = unix.Symlinkat(s.target, p.fd, temp)
	}
	if err == nil {
		err = unix.Renameat(p.fd, temp, p.fd, p.base)
	}
	given := -1
	if err == nil {
		given, err = s.reopen(c.flags &^ unix.O_TRUNC)
	}
	if err != nil {
		_ = unix.Unlinkat(p.fd, temp, 0)
		s.drop()
		return failed(err)
	}
	c.m.staged = append(c.m.staged, s)
	return outcome{fd: given}
}

func (s *staged) drop() {
	_ = unix.Unlink(s.target)
	for _, fd := range [...]int{s.at.fd, s.file} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// settle puts each configuration in its place that no program has open for writing any more, when
// what it leads to is there; all says that nothing comes any more.
func (m *Maker) settle(all bool) {
	m.staged = slices.DeleteFunc(m.staged, func(s *staged) bool {
		m.become(s.owner)
		if _, err := unix.FcntlInt(uintptr(s.file), unix.F_SETLEASE, unix.F_RDLCK); err == unix.EAGAIN || !all && s.waits() {
			return false
		}
		_, _ = unix.FcntlInt(uintptr(s.file), unix.F_SETLEASE, unix.F_UNLCK) // without leases there is none
		if m.stands(s.at) {
			// The directory may have been moved.
			if full, rel, _ := m.inside(s.at.fd); rel != "" {
				s.at.path, s.at.rel = path.Join(full, s.at.base), path.Join(rel, s.at.base)
			}
			err := m.judge(s.at, s.file, 0)
			if err != nil {
				m.refused(path.Join(m.guard.Root, s.at.rel), acts.Git, "")
				_ = unix.Unlinkat(s.at.fd, s.at.base, 0) // the link leads nowhere now
			}
			s.update.madeAt(s.at, err)
		}
		s.drop()
		return true
	})
}

// linkOfGit copies an open file instead of giving it another name, where either is a
// configuration; it reports whether it did.
func (c *creation) linkOfGit(to resolved, from int) (done bool, err error) {
	if !to.configures() && !c.m.configures(from) {
		return false, nil
	}
	fd, err := unix.Open(link(from), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return true, err
	}
	defer func() { _ = unix.Close(fd) }() // only read
	return true, c.m.judge(to, fd, unix.RENAME_NOREPLACE)
}

// renameOfGit renames a file to a configuration; it reports whether it did.
func (c *creation) renameOfGit(from, to resolved) (done bool, err error) {
	var st, there unix.Stat_t
	if exchange := c.flags&unix.RENAME_EXCHANGE != 0; exchange && (from.configures() || to.configures()) && !(isDirAt(from) && isDirAt(to)) {
		return true, c.noConfig(to)
	}
	if !to.configures() || isDirAt(from) || isLinkAt(from) && acts.Fold(to.base) == "config" && c.lock(to.fd) && !to.inGit() {
		return false, nil
	}
	if unix.Fstatat(from.fd, from.base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstatat(to.fd, to.base, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && identify(&there) == identify(&st) {
		return true, nil
	}
	switch err := c.judge(to, from.fd, from.base, uint(c.flags)&unix.RENAME_NOREPLACE); {
	case err == unix.ELOOP: // a link
		return true, c.noConfig(to)
	case err != nil:
		return true, err
	}
	return true, unix.Unlinkat(from.fd, from.base, 0)
}

func isDirAt(p resolved) bool { return p.kind() == unix.S_IFDIR }

func isLinkAt(p resolved) bool { return p.kind() == unix.S_IFLNK }

// kind returns the type of what is at a place, 0 for nothing.
func (p resolved) kind() uint32 {
	var st unix.Stat_t
	if unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

// noConfig notes that no configuration was made at a place, and returns the error of the call.
func (c *creation) noConfig(p resolved) error {
	c.m.refused(path.Join(c.m.guard.Root, p.rel), acts.Git, "")
	return unix.EACCES
}

func writeAll(fd int, text []byte) error {
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}
