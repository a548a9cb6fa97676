package supervise

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tag marks the processes of one command in two places that children inherit: the
// environment, which they may clear, and the soft limit RLIMIT_RTTIME, which concerns
// only real-time schedulers, is 200,000 years here, and which programs do not touch.
// Bits of the number: mark 56…63, owner 24…55, serial 0…23.
type Tag struct{ n uint64 }

const (
	tagMark     = 0x5a
	tagMarkBit  = 56
	tagOwnerBit = 24
	tagOwners   = 1<<(tagMarkBit-tagOwnerBit) - 1
	tagSerials  = 1<<tagOwnerBit - 1
)

// execPause is about how long execve(2) takes on a busy machine.
const execPause = 200 * time.Microsecond

// NewTag returns the tag of a new command.
func NewTag() Tag { return children().newTag() }

// Processes returns the live processes with the tag, as the process table shows them.
func (g Tag) Processes() []Process {
	return carriers(nil, func(n uint64) bool { return n == g.n })
}

func (g Tag) text() string { return strconv.FormatUint(g.n, 36) }

// isTag reports whether a limit was set by a Ralph, this one or one inside it.
func isTag(n uint64) bool { return n>>tagMarkBit == tagMark }

// ownerBits distinguish the tags of this process from those of any other.
var ownerBits = sync.OnceValue(func() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint32(b[:]))
})

// ownerOfTag returns the owner bits of a tag.
func ownerOfTag(n uint64) uint64 { return n >> tagOwnerBit & tagOwners }

// tagsOf returns the tags of a process: the one in its limit and the innermost one in
// its environment; 0 is none.
func tagsOf(pid int) [2]uint64 {
	m := [2]uint64{limitTag(pid), 0}
	if env := environTags(pid); len(env) > 0 {
		if n, err := strconv.ParseUint(env[len(env)-1], 36, 64); err == nil && isTag(n) {
			m[1] = n
		}
	}
	return m
}

// limitTag returns the tag in the resource limit of a process; 0 is none.
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

// limitTagText reads the same from /proc, which also shows it for processes of other
// users.
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

// setLimitTag tags a process; 0 is the calling one. Errors are ignored: the
// environment carries the tag, too.
func setLimitTag(pid int, n uint64) {
	var lim unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &lim) == nil {
		lim.Cur = n
		_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &lim, nil)
	}
}

// environTags returns the tags in the environment that a process was started with, the
// outermost first.
func environTags(pid int) []string {
	b := environOf(pid)
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(environName+"=")); ok {
			return strings.Split(string(v), "/")
		}
	}
	return nil
}

// environOf returns the environment that a process was started with. In the middle of
// execve(2) a process shows none: one that is no thread of the kernel, which has no
// executable, is read again.
func environOf(pid int) []byte {
	const tries = 5
	for i := 1; ; i++ {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if len(b) > 0 || err != nil || i == tries {
			return b
		}
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
			return nil
		}
		time.Sleep(execPause)
	}
}
