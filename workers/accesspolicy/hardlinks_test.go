package accesspolicy_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// hardLinkWrites changes linked files in each way that Linux has to change what a file
// holds: open(2) with each way to write, truncate(2), mmap(2), fallocate(2), copy_file_range(2),
// sendfile(2), ioctl_ficlone(2), linkat(2) and rename(2), each by several paths.
const hardLinkWrites = `
import ctypes, fcntl, mmap, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
done = []
def way(f):
    n = "w%d" % len(done)
    done.append(f.__name__)
    try: f(n)
    except OSError as e: print(f.__name__, e)
def writes(n, flags):
    fd = os.open(n, flags, 0o600); os.write(fd, b"broken"); os.close(fd)
@way
def wronly(n): writes(n, os.O_WRONLY)
@way
def creat(n): writes(n, os.O_WRONLY | os.O_CREAT)
@way
def trunc(n): writes(n, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
@way
def append(n): writes(n, os.O_WRONLY | os.O_APPEND)
@way
def rdwr(n): writes(n, os.O_RDWR)
@way
def rdtrunc(n): os.close(os.open(n, os.O_RDONLY | os.O_TRUNC))
@way
def odd(n): os.close(os.open(n, 3 | os.O_TRUNC))
@way
def truncate(n): os.truncate(n, 1)
@way
def ftruncate(n):
    fd = os.open(n, os.O_RDWR); os.ftruncate(fd, 0)
@way
def shared(n):
    fd = os.open(n, os.O_RDWR); m = mmap.mmap(fd, 4); m[0:4] = b"mmap"; m.flush()
@way
def fallocate(n):
    fd = os.open(n, os.O_RDWR); os.posix_fallocate(fd, 0, 9000)
@way
def punch(n):
    fd = os.open(n, os.O_RDWR); libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(5))
@way
def copyrange(n):
    fd = os.open(n, os.O_RDWR); os.copy_file_range(os.open("/etc/passwd", os.O_RDONLY), fd, 9)
@way
def sendfile(n):
    fd = os.open(n, os.O_RDWR); os.sendfile(fd, os.open("/etc/passwd", os.O_RDONLY), 0, 9)
@way
def clone(n):
    fd = os.open(n, os.O_RDWR)
    try: fcntl.ioctl(fd, 0x40049409, os.open("a.txt", os.O_RDONLY))
    except OSError: os.write(fd, b"x")
@way
def bysymlink(n):
    os.symlink(n, "sym"); writes("sym", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
@way
def absolute(n): writes(os.path.realpath(n), os.O_WRONLY)
@way
def dotdot(n): writes("d/../d/../" + n, os.O_WRONLY)
@way
def bydir(n):
    d = os.open(".", os.O_PATH); fd = os.open(n, os.O_WRONLY, dir_fd=d); os.write(fd, b"x")
@way
def proccwd(n): writes("/proc/self/cwd/" + n, os.O_WRONLY)
@way
def reopened(n):
    fd = os.open(n, os.O_RDONLY); writes("/proc/self/fd/%d" % fd, os.O_WRONLY)
@way
def reopened2(n):
    fd = os.open(n, os.O_PATH); writes("/dev/fd/%d" % fd, os.O_WRONLY | os.O_TRUNC)
@way
def reopened3(n):
    fd = os.open(n, os.O_RDONLY); writes("/proc/%d/fd/%d" % (os.getpid(), fd), os.O_WRONLY)
@way
def reopened4(n):
    fd = os.open(n, os.O_RDONLY); os.symlink("/proc/self/fd/%d" % fd, "fdlink"); writes("fdlink", os.O_WRONLY)
@way
def truncatefd(n):
    fd = os.open(n, os.O_RDONLY); os.truncate("/proc/self/fd/%d" % fd, 1)
@way
def renamed(n): os.rename(n, n + "r"); writes(n + "r", os.O_WRONLY)
@way
def otherdir(n): os.mkdir("new"); os.rename(n, "new/" + n); writes("new/" + n, os.O_WRONLY)
@way
def moreinside(n):
    for i in range(5): os.link(n, n + "more%d" % i)
    for i in range(4): os.unlink(n + "more%d" % i)
    writes(n, os.O_WRONLY); writes(n + "more4", os.O_WRONLY)
@way
def lessinside(n):
    os.link(n, n + "k"); writes(n + "k", os.O_RDWR); os.unlink(n + "k"); writes(n, os.O_RDWR)
@way
def chmod(n): os.chmod(n, 0o777)
@way
def creat85(n):
    fd = libc.syscall(85, n.encode(), 0o600); os.write(fd, b"x")
@way
def openat2(n):
    how = (ctypes.c_ulonglong * 3)(1, 0, 0)
    fd = libc.syscall(437, -100, n.encode(), how, 24)
    if fd >= 0: os.write(fd, b"x")
@way
def raced(n):
    name = ctypes.create_string_buffer(b"ordinary"); over = []
    os.close(os.open("ordinary", os.O_CREAT | os.O_WRONLY))
    def flip():
        while not over: name.value = n.encode(); name.value = b"ordinary"
    t = threading.Thread(target=flip); t.start()
    for i in range(400):
        fd = libc.open(name, os.O_WRONLY | os.O_TRUNC)
        if fd >= 0: os.close(fd)
        libc.truncate(name, ctypes.c_long(0))
    over.append(1); t.join()
print("ways:", len(done))
`

// TestHardLinksToTheOutside has commands change files of the tree that have another name
// outside it: that keeps what it holds, and the command gets what it asked for.
func TestHardLinksToTheOutside(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	for _, job := range []bool{false, true} {
		t.Run(fmt.Sprint("job=", job), func(t *testing.T) {
			w := newWorld(t, true)
			s := w.open(nil)
			needGuard(t, w)
			const files = 60
			var outside []string
			for i := range files {
				path := filepath.Join(w.home, "else", fmt.Sprint("f", i))
				w.file(path, "whole")
				outside = append(outside, path)
				if err := os.Link(path, filepath.Join(w.root, fmt.Sprint("w", i))); err != nil {
					t.Fatal(err)
				}
			}
			w.file(filepath.Join(w.root, "try.py"), hardLinkWrites)
			w.shell("mkdir d; ln w7 second", w.root)
			var out string
			if job {
				j, err := s.Start(t.Context(), exec.Spec{Argv: []string{"python3", "try.py"}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
				if err != nil {
					t.Fatal(err)
				}
				<-j.Done()
				res, _ := j.Result()
				out = res.Stdout.String()
			} else {
				out = w.run(s, w.root, "python3 try.py 2>&1", accesspolicy.Call{}).out
			}
			if !strings.Contains(out, "ways: ") {
				t.Fatalf("%s", out)
			}
			t.Logf("%s", out)
			for _, path := range outside {
				text, err := os.ReadFile(path)
				info, serr := os.Stat(path)
				if err != nil || serr != nil || string(text) != "whole" || info.Mode().Perm() == 0o777 {
					t.Errorf("%s holds %.40q, %v: %v %v", path, text, info.Mode(), err, serr)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(w.root, "*.ralph-*")); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// Files whose names all lie in the tree stay linked; what a command writes to one of them the
// others show. A copy is like the file that it replaces.
func TestHardLinksInTheTree(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	w.shell(`mkdir d; echo one >a; ln a d/b; echo two >"$2/out"; chmod 751 "$2/out"; touch -d @1000000000 "$2/out"; ln "$2/out" linked; ln "$2/out" d/linked2; mkfifo pipe`, w.root, w.home)
	if out := w.works(s, `echo more >>d/b; cat a; ln a c; echo third >>c; tail -1 d/b; mkdir e; mv d/b e/b; echo fourth >e/b; cat a
stat -c '%a %Y' linked; : >>linked; stat -c '%a %Y %h' linked; echo new >linked; cat linked d/linked2`); out != "one\nmore\nthird\nfourth\n751 1000000000\n751 1000000000 1\nnew\ntwo\n" {
		t.Errorf("%s", out)
	}
	if got := w.shell(`cat "$2/out"`, w.root, w.home); got != "two" {
		t.Errorf("outside is %q", got)
	}
	// What is opened in other ways is as without the sandbox.
	if out := w.works(s, `(cat pipe >got) & echo through >pipe; wait; cat got; { echo a >/dev/stdout; echo b >/dev/stderr; echo c >/dev/fd/1; } >log 2>log2; cat log log2
ln -s /dev/stdout std; echo d >>std; ln -s nowhere dangling; echo e >dangling; cat nowhere; echo f 1<>a; cat a; timeout 1 sh -c 'echo x >pipe'; echo $?
python3 -c '
import os
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, b"g\n")
os.link("/proc/self/fd/%d" % fd, "named", follow_symlinks=True)
for args in [("d", os.O_WRONLY), ("missing", os.O_WRONLY), ("a", os.O_CREAT | os.O_EXCL | os.O_WRONLY), ("dangling", os.O_WRONLY | os.O_NOFOLLOW), ("a/x", os.O_WRONLY), ("a", os.O_WRONLY | os.O_DIRECTORY), ("pipe", os.O_WRONLY | os.O_NONBLOCK)]:
    try: os.open(*args); print("opened", args)
    except OSError as e: print(e.strerror)
'; cat named`); out != "through\nc\nb\nd\ne\nf\nurth\n124\nIs a directory\nNo such file or directory\nFile exists\nToo many levels of symbolic links\nNot a directory\nNot a directory\nNo such device or address\ng\n" {
		t.Errorf("%s", out)
	}
}
