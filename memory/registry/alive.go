package registry

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockSlack is what the start of a process, counted from the boot, may be off.
const clockSlack = 3 * time.Second

// ticksPerSecond is the unit in which Linux tells start times.
const ticksPerSecond = 100

// Alive tells whether the process that wrote something at a time still runs. A
// process that began later only has the number of the one that wrote. A zero
// time asks for the number alone.
func Alive(pid int, wrote time.Time) bool {
	if pid <= 0 {
		return false
	}
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	began, state, ok := process(pid)
	if !ok {
		return true // where that cannot be told, the number has to do
	}
	return state != 'Z' && state != 'X' && (wrote.IsZero() || !began.After(wrote.Add(clockSlack)))
}

// process tells when a process began, and its state.
func process(pid int) (began time.Time, state byte, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return time.Time{}, 0, false
	}
	// The command's name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, 0, false
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	boot, found := bootTime()
	if err != nil || !found {
		return time.Time{}, 0, false
	}
	return boot.Add(time.Duration(ticks) * (time.Second / ticksPerSecond)), fields[0][0], true
}

// bootTime is when the system began.
func bootTime() (time.Time, bool) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Unix(n, 0), err == nil
		}
	}
	return time.Time{}, false
}
