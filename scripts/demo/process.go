package demo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is one that works in the project.
type process struct {
	pid  int
	name string
}

// processes reads from the kernel which processes have their working directory
// in root or below it: no list of Ralph's is asked. It answers false where that
// cannot be seen.
func processes(root string) (list []process, known bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		known = true
		dir, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		dir = strings.TrimSuffix(dir, " (deleted)")
		if err != nil || dir != root && !strings.HasPrefix(dir, root+string(filepath.Separator)) {
			continue // another's, or gone
		}
		name, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		if err == nil {
			list = append(list, process{pid, strings.TrimSpace(string(name))})
		}
	}
	slices.SortFunc(list, func(a, b process) int { return a.pid - b.pid })
	return list, known
}

// workOfGo is the temporary directory of the go that made and runs a test, "" when
// that cannot be told.
func workOfGo(test process) string {
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(test.pid), "exe"))
	dir := filepath.Dir(filepath.Dir(exe)) // …/go-build123/b001/wrap.test
	if err != nil || !strings.HasPrefix(filepath.Base(dir), "go-build") || filepath.Base(exe) != test.name {
		return ""
	}
	return dir
}

// names names each process with its number.
func names(list []process) string {
	var out []string
	for _, p := range list {
		out = append(out, p.name+" "+strconv.Itoa(p.pid))
	}
	return join(out)
}

func join(list []string) string { return strings.Join(list, ", ") }
