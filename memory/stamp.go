package memory

import (
	"io/fs"
	"syscall"
	"time"
)

// stamp is what the directory says of a file: while it stays the same, so does
// the content, once it is settled.
type stamp struct {
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // nanoseconds
	Ctime int64  `json:"ctime"`
	Ino   uint64 `json:"ino"`

	seen time.Time
}

func stampOf(info fs.FileInfo) stamp {
	st := stamp{Size: info.Size(), Mtime: info.ModTime().UnixNano(), seen: time.Now()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		st.Ino, st.Ctime = uint64(sys.Ino), ctime(sys)
	}
	return st
}

func (st stamp) same(o stamp) bool {
	return st.Size == o.Size && st.Mtime == o.Mtime && st.Ctime == o.Ctime && st.Ino == o.Ino
}

// Files are stamped by a clock that ticks: two writes within a tick look the
// same. Filesystems that know no fractions tick each second or two.
const (
	fineTick   = 20 * time.Millisecond
	coarseTick = 2500 * time.Millisecond
)

// settled says that a write after the stamp was taken gives another stamp.
func (st stamp) settled() bool {
	tick := fineTick
	if st.Mtime%int64(time.Second) == 0 {
		tick = coarseTick
	}
	return st.Mtime > 0 && st.seen.Sub(time.Unix(0, st.Mtime)) > tick
}

// fresh says that it is too early to tell what settled tells: soon it is not.
func (st stamp) fresh() bool {
	age := time.Since(time.Unix(0, st.Mtime))
	return st.Mtime%int64(time.Second) != 0 && age >= 0 && age <= fineTick
}

// quiet says that nobody wrote the file for a while.
func (st stamp) quiet(settle time.Duration) bool {
	age := time.Since(time.Unix(0, st.Mtime))
	return age > settle || age < 0
}
