package folder

import (
	"errors"
	"io/fs"
	"path/filepath"

	"ralph/memory/durable"
)

// Begin makes the files that every session has, where they are not there yet.
func (f *Folder) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	for _, l := range []*listFile{f.log, f.decisions, f.errors} {
		if _, err := f.o.FS.Stat(l.path); errors.Is(err, fs.ErrNotExist) {
			l.err = l.reach(l.appendHeld)
		}
	}
	f.progress.load()
	if _, err := f.o.FS.Stat(f.progress.path); errors.Is(err, fs.ErrNotExist) {
		f.progress.dirty = true
		f.wait(f.progress.flush())
	}
}

// CutOff puts in order what a process left that was killed: the tasks that it
// worked on rest since its last event. It returns how many failures and
// requests for help the files hold.
func (f *Folder) CutOff() (failures, help int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, 0
	}
	until := f.o.Now()
	if st, err := f.o.FS.Stat(f.log.path); err == nil && st.ModTime().Before(until) {
		until = st.ModTime()
	}
	f.progress.load()
	if f.progress.rested(stamp(until)); f.progress.dirty {
		f.wait(f.progress.flush())
	}
	d := Data{ids: map[string]string{}}
	for file, take := range map[string]func(any) int{errorsFile: d.takeErrors, decisionsFile: d.takeDecisions} {
		// What cannot be read counts nothing; it is dealt with when it is written.
		data, err := durable.ReadFile(f.o.FS, filepath.Join(f.o.Dir, file), maxFileBytes)
		if err != nil {
			continue
		}
		if v, err := parse(file, data); err == nil {
			take(v)
		}
	}
	for _, x := range d.Decisions {
		if x.DecisionType == DecisionHelp {
			help++
		}
	}
	return len(d.Failures), help
}
