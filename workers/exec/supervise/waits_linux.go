package supervise

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Waits returns the path of a named pipe that a process with the tag waits for, or of a
// device that it has open besides its standard streams; "" for none. Such a process reads
// without an end.
func (g Tag) Waits() string {
	for _, p := range g.Processes() {
		proc := "/proc/" + strconv.Itoa(p.PID)
		if path := opening(p.PID, proc); path != "" {
			return path
		}
		open, _ := os.ReadDir(proc + "/fd") // it may have ended
		for _, e := range open {
			if n, err := strconv.Atoi(e.Name()); err != nil || n <= 2 {
				continue
			}
			link := proc + "/fd/" + e.Name()
			path, err := os.Readlink(link)
			if err == nil && filepath.IsAbs(path) && endless(link) {
				return path
			}
		}
	}
	return ""
}

// endless reports whether a file is a named pipe, or a device other than those that
// programs open by themselves.
func endless(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if info.Mode()&fs.ModeCharDevice == 0 {
		return info.Mode()&fs.ModeNamedPipe != 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	const memory, null, random, urandom = 1, 3, 8, 9
	if !ok || unix.Major(uint64(st.Rdev)) != memory {
		return ok
	}
	minor := unix.Minor(uint64(st.Rdev))
	return minor != null && minor != random && minor != urandom
}

// opening returns the named pipe whose open(2) a process is in; "" for none.
func opening(pid int, proc string) string {
	text, err := os.ReadFile(proc + "/syscall")
	f := strings.Fields(string(text))
	if err != nil || len(f) < 3 {
		return ""
	}
	const openCall = "2" // open(2), which newer machines lack
	argument := 2
	switch {
	case f[0] == strconv.Itoa(unix.SYS_OPENAT):
	case f[0] == openCall && runtime.GOARCH == "amd64":
		argument = 1
	default:
		return ""
	}
	at, err := strconv.ParseUint(f[argument], 0, 64)
	if err != nil {
		return ""
	}
	buf := make([]byte, unix.PathMax)
	// What follows the path may not be mapped: less is read then.
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}, pages(uintptr(at), len(buf)), 0)
	end := bytes.IndexByte(buf[:max(n, 0)], 0)
	if err != nil || end < 0 {
		return ""
	}
	path := string(buf[:end])
	if !filepath.IsAbs(path) {
		dir, err := os.Readlink(proc + "/cwd")
		if err != nil {
			return ""
		}
		path = filepath.Join(dir, path)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return ""
	}
	return path
}

// pages splits memory at the borders of pages.
func pages(at uintptr, size int) []unix.RemoteIovec {
	var out []unix.RemoteIovec
	page := os.Getpagesize()
	for size > 0 {
		n := min(size, page-int(at%uintptr(page)))
		out = append(out, unix.RemoteIovec{Base: at, Len: n})
		at, size = at+uintptr(n), size-n
	}
	return out
}
