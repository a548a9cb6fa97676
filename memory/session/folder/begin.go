package folder

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"ralph/memory/durable"
)

// Regular moves what is no file, such as a directory or a pipe, from the places
// of files to the quarantine. Links stay: whoever writes there refuses them.
func (f *Folder) Regular(names ...string) error {
	for _, name := range names {
		path := filepath.Join(f.o.Dir, name)
		info, err := durable.Lstat(f.o.FS, path)
		if err != nil || info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0 {
			continue // whoever opens it meets the error
		}
		if err := f.SetAside(name); err != nil {
			return err
		}
	}
	return nil
}

// SetAside moves a file of the session to the quarantine.
func (f *Folder) SetAside(name string) error {
	return setAside(&f.o, filepath.Join(f.o.Dir, name))
}

// Begin makes the files that every session has, where they are not there yet,
// and sets aside what cannot be one of them.
func (f *Folder) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	for _, l := range []*listFile{f.log, f.decisions, f.errors} {
		l.err = l.reach(l.appendHeld)
	}
	for _, name := range []string{inventoryFile, documentsFile} {
		f.usable(name)
	}
	f.progress.load()
	if _, err := f.o.FS.Stat(f.progress.path); errors.Is(err, fs.ErrNotExist) {
		f.progress.dirty = true
		f.wait(f.progress.flush())
	}
}

// taskFailed is the error type of a task that was given up.
const taskFailed = "task_failed"

// GivenUp records that a task was given up, and why.
func (f *Folder) GivenUp(task, title, why string) {
	f.Fail(Failure{TaskID: task, ErrorType: taskFailed, ErrorMessage: why, Severity: Medium})
	f.Log(Event{Type: Errored, TaskID: task, TaskName: title, Result: why, Details: map[string]any{"kind": taskFailed}})
}

// Recovered says that a task was completed that had been given up.
func (f *Folder) Recovered(task string) {
	match := map[string]json.RawMessage{"error_type": f.encode(taskFailed), "task_id": f.encode(task), "resolved": json.RawMessage("false")}
	keys := map[string]json.RawMessage{"recovery_action": f.encode("worked on again"), "resolved": json.RawMessage("true")}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.errors.change(func(d *document) { d.amend("errors", match, keys) })
	f.wait(f.errors.flush())
}

// usable sets aside a list of features that is no list, so that what is
// recorded next has a place; mu is held.
func (f *Folder) usable(name string) {
	path := filepath.Join(f.o.Dir, name)
	data, err := durable.ReadFile(f.o.FS, path, maxFileBytes)
	switch {
	case errors.Is(err, durable.ErrNotRegular):
	case err != nil:
		return // there is none, or whoever opens it meets the error
	default:
		v, perr := parse(name, data)
		_, isObject := v.(object)
		if _, isList := v.([]any); perr == nil && (isObject || isList) {
			return
		}
	}
	f.lasting = errors.Join(f.lasting, setAside(&f.o, path))
}

// CutOff puts in order what a process left that was killed: the tasks that it
// worked on rest since its last event, and its open decisions came out as the log,
// which is never behind, says; those of which it does not were interrupted. It
// returns how many failures and requests for help the files hold.
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
	ends := f.ends(d.Decisions)
	for i, x := range d.Decisions {
		if asksHuman(x.DecisionType) {
			help++
		}
		if x.Outcome == "" {
			match := map[string]json.RawMessage{"timestamp": f.encode(x.Time), "task_id": f.encode(x.TaskID), "outcome": json.RawMessage(`""`)}
			f.decisions.change(func(d *document) {
				d.amend("decisions", match, map[string]json.RawMessage{"outcome": f.encode(cmp.Or(ends[i], "interrupted"))})
			})
		}
	}
	f.wait(f.decisions.flush())
	return len(d.Failures), help
}

// ends are the outcomes of open decisions, by their index, as the log tells them: the
// first end of the task after the decision, and before the next one.
func (f *Folder) ends(list []Decision) map[int]string {
	open := map[string]int{} // the last decision of a task, as long as it is open
	for i, x := range list {
		if delete(open, x.TaskID); x.Outcome == "" && x.TaskID != "" {
			open[x.TaskID] = i
		}
	}
	if len(open) == 0 {
		return nil
	}
	ends := map[int]string{}
	// What of a log cannot be read says nothing.
	_, _ = Events(f.o.FS, f.o.Dir, func(e Event) error {
		i, ok := open[e.TaskID]
		if !ok || ends[i] != "" || e.Time.Before(list[i].Time) {
			return nil
		}
		switch e.Type {
		case TaskComplete:
			ends[i] = e.Result
		case Retried:
			ends[i] = "retry"
		}
		return nil
	})
	return ends
}
