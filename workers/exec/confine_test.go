//go:build linux

package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// yard is what the attempts are about: a project that may be changed, and what
// lies around it.
type yard struct {
	base string
	held sandbox.Policy
	env  []string
}

// newYard makes one. Its places are absolute and without symbolic links.
func newYard(t testing.TB) yard {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"proj/.git/hooks", "proj/.git/objects", "proj/a/b/locked", "proj/src", "out/dir", "secret", "temp", "tools"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"proj/.git/config", "proj/.git/hooks/pre-commit", "proj/a/b/locked/file", "proj/rc", "proj/src/main", "proj/.env", "out/file", "secret/key"} {
		if err := os.WriteFile(in(file), []byte("content\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return yard{
		base: base,
		held: sandbox.Policy{
			Write:   []string{in("proj"), in("proj/.git/objects")},
			Protect: []string{base, in("proj/.git"), in("proj/a/b/locked"), in("proj/rc"), self},
			Hide:    []string{in("secret"), in("proj/.env")},
			Temp:    in("temp"),
		},
		env: append(os.Environ(), "OUT="+in("out"), "PROJ="+in("proj"), "SECRET="+in("secret"), "TEMP="+in("temp"), "BASE="+base,
			"SELF="+self, "RALPH_PID="+fmt.Sprint(os.Getpid())),
	}
}

// run runs a script in the project, confined or not.
func (y yard) run(t testing.TB, r *Runner, script string, held *sandbox.Policy) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := r.Run(ctx, Spec{Argv: []string{"bash", "-c", script}, Dir: filepath.Join(y.base, "proj"), Env: y.env, Confine: held})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// An attempt is a script that ends with 0 when it got what it wants.
type attempt struct {
	script string
	only   string // "root", or "user" for an ordinary one
	bare   bool   // it is to fail also where there are no namespaces
	may    bool   // this system may not let it succeed at all
}

// ask is a script that has the test binary make one system call.
func ask(part string) string { return "PROC_TEST_PART=ask:" + part + " $SELF" }

func attempts() map[string]attempt {
	return map[string]attempt{
		"create":              {script: `echo x >$OUT/new`, bare: true},
		"change":              {script: `echo x >$OUT/file`, bare: true},
		"append":              {script: `echo x >>$OUT/file`, bare: true},
		"truncate":            {script: `truncate -s 0 $OUT/file`, bare: true},
		"remove":              {script: `rm -f $OUT/file && ! test -e $OUT/file`, bare: true},
		"remove directory":    {script: `rmdir $OUT/dir`, bare: true},
		"make directory":      {script: `mkdir $OUT/new`, bare: true},
		"rename":              {script: `mv $OUT/file $OUT/other`, bare: true},
		"rename out":          {script: `mv -T $PROJ/src $OUT/src`, bare: true},
		"rename in":           {script: ask("rename"), bare: true},
		"symlink":             {script: `ln -s /etc $OUT/link`, bare: true},
		"hard link out":       {script: `ln $PROJ/src/main $OUT/linked`, bare: true},
		"hard link in":        {script: `ln $OUT/file $PROJ/linked && echo x >>$PROJ/linked`, bare: true},
		"chmod":               {script: `chmod 777 $OUT/dir`},
		"chown":               {script: `chown 1:1 $OUT/file`, only: "root"},
		"times":               {script: `touch -d 2001-01-01 $OUT/file`, bare: false},
		"xattr":               {script: ask("xattr"), may: true},
		"flags":               {script: ask("flags"), only: "root", may: true},
		"fifo":                {script: `[ -n "$FIFO" ] && exec 5<>$FIFO`, bare: true, may: true},
		"make fifo":           {script: `mkfifo $OUT/newfifo`, bare: true},
		"through a symlink":   {script: `ln -s $OUT $PROJ/way && echo x >$PROJ/way/file`, bare: true},
		"through dots":        {script: `echo x >$PROJ/src/../../out/file`, bare: true},
		"through proc":        {script: `exec 5<$OUT/file; echo x >/proc/self/fd/5`, bare: true},
		"through root of 1":   {script: `echo x >/proc/1/root$OUT/file`, only: "root", may: true},
		"through init's root": {script: `ls /proc/1/root/`, only: "root", may: true},
		"home":                {script: `echo x >$(getent passwd $(id -u) | cut -d: -f6)/.ralph-escape && rm $(getent passwd $(id -u) | cut -d: -f6)/.ralph-escape`, may: true, bare: true},
		"etc":                 {script: `touch /etc/ralph-escape && rm /etc/ralph-escape`, only: "root", bare: true},
		"the real tmp":        {script: `touch $TEMP/../seen && test -e $TEMP/../seen`, bare: true},

		"protected":                 {script: `echo x >$PROJ/.git/config`},
		"protected, removed":        {script: `rm $PROJ/.git/config`},
		"protected, new":            {script: `echo x >$PROJ/.git/hooks/post-merge`},
		"protected, mode":           {script: `chmod 700 $PROJ/.git/config`},
		"protected, renamed":        {script: `mv $PROJ/.git $PROJ/git`},
		"protected, exchanged":      {script: `mkdir $PROJ/new && ` + ask("exchange")},
		"protected, replaced":       {script: `echo x >new && mv -f new $PROJ/rc && grep -q x rc`},
		"protected, parent":         {script: `mv $PROJ/a $PROJ/c && mkdir -p $PROJ/a/b/locked`},
		"protected, nearer parent":  {script: `mv $PROJ/a/b $PROJ/a/c`},
		"protected, linked":         {script: `ln $PROJ/.git/config $PROJ/mine && echo x >>$PROJ/mine`},
		"protected, by descriptor":  {script: `exec 5<$PROJ/.git/config; echo x >/proc/self/fd/5`},
		"protected, root renamed":   {script: `mv $PROJ $PROJ.old`, bare: true},
		"protected, sibling of":     {script: `echo x >$PROJ/a/b/locked/file`},
		"protected, unmounted":      {script: `echo x >$PROJ/.git/config || (umount $PROJ/.git; echo x >$PROJ/.git/config)`},
		"hidden":                    {script: `cat $SECRET/key`},
		"hidden, listed":            {script: `ls $SECRET | grep -q key`},
		"hidden file":               {script: `grep -q content $PROJ/.env`},
		"hidden, renamed":           {script: `mv $SECRET $SECRET.2 && cat $SECRET.2/key`},
		"hidden file, renamed":      {script: `mv $PROJ/.env $PROJ/env && grep content $PROJ/env`},
		"hidden file, linked":       {script: `ln $PROJ/.env $PROJ/env && grep content $PROJ/env`},
		"hidden, unmounted":         {script: `umount -l $SECRET; cat $SECRET/key`},
		"hidden, in a user space":   {script: `unshare -Urm sh -c 'umount -l $SECRET; cat $SECRET/key'`, may: true},
		"hidden, mounted elsewhere": {script: `mkdir -p m; mount --rbind / m && cat m$SECRET/key`, only: "root"},
		"hidden, from before":       {script: `cat $PWD/../secret/key`},
		"others' temp":              {script: `test -e $OTHERS`},

		"a disk":           {script: `for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/loop0; do [ -b $d ] && exec 5<$d && exit 0; done; exit 1`, only: "root", may: true},
		"memory":           {script: `exec 5</dev/mem`, only: "root", may: true},
		"kernel's log":     {script: `exec 5</dev/kmsg`, may: true},
		"kernel's core":    {script: `exec 5</proc/kcore`, only: "root", may: true},
		"make a device":    {script: `mknod $PROJ/disk b 254 0 && head -c1 $PROJ/disk`, only: "root", may: true},
		"make null":        {script: `mknod $PROJ/null c 1 3`, only: "root", bare: true},
		"system settings":  {script: `cat /proc/sys/kernel/printk >/proc/sys/kernel/printk`, only: "root", bare: true},
		"sys":              {script: `f=/sys/kernel/profiling; [ -w $f ] && exec 5>$f`, only: "root", may: true, bare: true},
		"control groups":   {script: `mkdir /sys/fs/cgroup/pids/ralph-escape && rmdir /sys/fs/cgroup/pids/ralph-escape`, only: "root", may: true, bare: true},
		"host's shm":       {script: `test "$(stat -c %d /dev/shm)" = "$SHM" && touch /dev/shm/ralph-escape && rm /dev/shm/ralph-escape`, bare: true},
		"chroot":           {script: `chroot / true`, only: "root", bare: true},
		"mount":            {script: `mkdir -p m && mount -t tmpfs none m && umount m`, only: "root", bare: true},
		"remount":          {script: `mount -o remount,rw,bind / && touch /etc/ralph-escape && rm /etc/ralph-escape`, only: "root", may: true},
		"new user space":   {script: `unshare -Ur true`, bare: true, may: true},
		"new mount space":  {script: `unshare -m true`, only: "root", bare: true},
		"another's space":  {script: `nsenter -t 1 -m true`, only: "root", may: true},
		"host name":        {script: `hostname "$(hostname)"`, only: "root", bare: true, may: true},
		"clock":            {script: `date -s "$(date -Ins)"`, only: "root", bare: true},
		"another user":     {script: `su nobody -s /bin/sh -c 'echo x >$OUT/../out2' ; touch $OUT/x`, only: "root", bare: true},
		"setuid programs":  {script: `cp $(which id) $PROJ/myid && chmod u+s $PROJ/myid && grep -q 'NoNewPrivs:	0' /proc/self/status`, bare: true},
		"capabilities":     {script: `grep -q 'CapBnd:	0*1[0-9a-f]*f$' /proc/self/status`, only: "root", bare: true},
		"higher limits":    {script: `ulimit -c unlimited`, bare: true},
		"signal Ralph":     {script: `kill -0 $RALPH_PID`, bare: true, may: true},
		"Ralph's secrets":  {script: `grep -q . /proc/$RALPH_PID/environ`, bare: true, may: true},
		"trace Ralph":      {script: ask("attach"), bare: true, may: true},
		"kill its threads": {script: ask("threads"), bare: true, may: true},
		"keyring":          {script: ask("keyring"), bare: true, may: true},
		"userfaultfd":      {script: ask("userfaultfd"), bare: true, may: true},
		"bpf":              {script: ask("bpf"), only: "root", bare: true, may: true},
		"perf":             {script: ask("perf"), bare: true, may: true},
		"io_uring":         {script: ask("io_uring"), bare: true, may: true},
		"vsock":            {script: ask("vsock"), bare: true, may: true},
		"raw packets":      {script: ask("packet"), only: "root", bare: true, may: true},
		"by handle":        {script: ask("handle"), only: "root", may: true},
		"terminal input":   {script: ask("tiocsti"), bare: true, may: true},
		"host's loopback":  {script: ask("tcp"), bare: true},
		"abstract socket":  {script: ask("abstract"), bare: true},
		"socket in a file": {script: ask("unix")},
		"new filter call":  {script: ask("x32"), may: true},
	}
}

// Nothing of what a command may not do can be done, by root nor by another user,
// and all of it can without the confinement.
func TestEscapes(t *testing.T) {
	r := newRunner(t)
	bare := !mounts(r)
	network := listen(t)
	for i, name := range slices.Sorted(maps.Keys(attempts())) {
		a := attempts()[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := os.Geteuid() == 0
			if a.only == "root" && !root || a.only == "user" && root || bare && !a.bare {
				t.Skip("not here")
			}
			if testing.Short() && os.Getenv("RALPH_TEST_SWEEP") == "" && i%2 == len(testOptions().Method)%2 {
				t.Skip("in a sweep")
			}
			free, y := newYard(t), newYard(t)
			free.env, y.env = append(free.env, network(t, free)...), append(y.env, network(t, y)...)
			res := free.run(t, r, a.script, nil)
			if res.ExitCode != 0 {
				if !a.may {
					t.Errorf("it does not work without a confinement either:\n%s", res.Stdout.String())
				}
				t.Skipf("not possible here: %s", res.Stdout.String())
			}
			if res := y.run(t, r, a.script, &y.held); res.ExitCode == 0 {
				t.Errorf("it escapes:\n%s", res.Stdout.String())
			}
			if got, err := os.ReadFile(filepath.Join(y.base, "out/file")); err != nil || string(got) != "content\n" {
				t.Errorf("the file outside: %q %v", got, err)
			}
			if got, err := os.ReadFile(filepath.Join(y.base, "proj/.git/config")); !bare && (err != nil || string(got) != "content\n") {
				t.Errorf("the protected file: %q %v", got, err)
			}
		})
	}
}

// mounts says that this Runner's confinement has a mount namespace.
func mounts(r *Runner) bool {
	for _, l := range r.Layers() {
		if l.Name == "mount namespace" {
			return l.Active
		}
	}
	return false
}

// listen serves outside: on a port, an abstract socket, and one in a file.
func listen(t *testing.T) func(t *testing.T, y yard) []string {
	t.Helper()
	serve := func(t *testing.T, network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	tcp := serve(t, "tcp", "127.0.0.1:0")
	abstract := fmt.Sprintf("@ralph-test-%d", os.Getpid())
	serve(t, "unix", abstract)
	others := filepath.Join(os.TempDir(), fmt.Sprintf("ralph-others-%d", os.Getpid()))
	if err := os.WriteFile(others, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(others) })
	fifo := ""
	if os.Geteuid() == 0 { // outside /tmp, where another can make none
		dir, err := os.MkdirTemp("/var/lib", "ralph-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		fifo = filepath.Join(dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, y yard) []string {
		path := filepath.Join(y.base, "tools/socket")
		serve(t, "unix", path)
		return []string{"OTHERS=" + others, "FIFO=" + fifo, "TCP=" + tcp.Addr().String(), "ABSTRACT=" + abstract, "UNIX=" + path,
			fmt.Sprintf("SHM=%d", info.Sys().(*syscall.Stat_t).Dev)}
	}
}

// playAsk makes one system call and ends with 0 if it was granted.
func playAsk(ctx context.Context, what string) {
	if err := asked(ctx, what); err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

func asked(ctx context.Context, what string) error {
	call := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	text := func(s string) uintptr { p, _ := syscall.BytePtrFromString(s); return uintptr(unsafe.Pointer(p)) }
	var buf [256]byte
	space := uintptr(unsafe.Pointer(&buf))
	out, proj := os.Getenv("OUT"), os.Getenv("PROJ")
	dial := func(network, name string) error {
		d := net.Dialer{Timeout: 2 * time.Second}
		c, err := d.DialContext(ctx, network, os.Getenv(name))
		if err == nil {
			err = c.Close()
		}
		return err
	}
	switch what {
	case "serve":
		return serveTwice()
	case "local":
		return serveLocal()
	case "rename":
		return os.Rename(out+"/file", proj+"/file")
	case "exchange":
		return unix.Renameat2(unix.AT_FDCWD, proj+"/new", unix.AT_FDCWD, proj+"/.git", unix.RENAME_EXCHANGE)
	case "xattr":
		return unix.Setxattr(out+"/file", "user.ralph", []byte("x"), 0)
	case "flags":
		f, err := os.Open(out + "/file")
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x40)
	case "attach":
		var pid int
		_, _ = fmt.Sscan(os.Getenv("RALPH_PID"), &pid)
		return call(syscall.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid)) // which does not stop it
	case "threads": // of which one confined itself before it started this
		pid := os.Getenv("RALPH_PID")
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			var id, group int
			_, _ = fmt.Sscan(thread.Name()+" "+pid, &id, &group)
			if call(unix.SYS_KILL, uintptr(id), 0) == nil || call(unix.SYS_TGKILL, uintptr(group), uintptr(id), 0) == nil || call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(id)) == nil {
				return nil
			}
			if _, err := os.ReadFile("/proc/" + pid + "/task/" + thread.Name() + "/environ"); err == nil {
				return nil
			}
		}
		return syscall.EPERM
	case "keyring":
		_, err := unix.AddKey("user", "ralph", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	case "userfaultfd":
		const userModeOnly = 1
		return call(unix.SYS_USERFAULTFD, userModeOnly)
	case "bpf": // a map of one
		*(*[4]uint32)(unsafe.Pointer(&buf)) = [4]uint32{2, 4, 4, 1}
		return call(unix.SYS_BPF, 0, space, 72)
	case "perf":
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	case "io_uring":
		return call(unix.SYS_IO_URING_SETUP, 1, space)
	case "vsock":
		return call(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	case "packet":
		return call(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)
	case "handle":
		h, id, err := unix.NameToHandleAt(unix.AT_FDCWD, os.Getenv("OUT")+"/file", 0)
		if err != nil {
			return err
		}
		_ = id
		dir, err := os.Open("/")
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(int(dir.Fd()), h, unix.O_RDONLY)
		return err
	case "tiocsti":
		m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		return call(unix.SYS_IOCTL, m.Fd(), unix.TIOCSTI, text("x"))
	case "tcp":
		return dial("tcp", "TCP")
	case "abstract":
		return dial("unix", "ABSTRACT")
	case "unix":
		return dial("unix", "UNIX")
	case "x32":
		return call(0x40000000+39, 0)
	}
	return errors.New("no such question")
}
