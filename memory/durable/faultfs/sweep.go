package faultfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/afero"
)

// Options says what a Sweep does. The zero value runs in memory, with the
// faults of Faults.
type Options struct {
	// Base makes the filesystem of a run; nil is one in memory.
	Base func() afero.Fs
	// Faults are tried at each operation; their At is set by the sweep.
	Faults []Fault
	// MayShrink are files, by a part of the path, that may be made shorter in
	// place, such as a log whose torn tail is in quarantine.
	MayShrink []string
	// Stride runs every n-th operation only; 0 and 1 are all of them.
	Stride int
	// Offset is the first one, counted from 0.
	Offset int
}

// Faults are those of a disk that is full, broken, read-only, of a process with
// too many open files, of a user without quota, and writes cut short after
// nothing, one byte, half, and all but one byte. Each comes alone and, as
// sticky, until the scenario heals it.
func Faults() []Fault {
	var all []Fault
	for _, sticky := range []bool{false, true} {
		for _, err := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.EDQUOT} {
			all = append(all, Fault{Err: err, Sticky: sticky})
		}
		short := []string{"write"}
		all = append(all,
			Fault{Err: io.ErrShortWrite, Ops: short, Nothing: true, Sticky: sticky},
			Fault{Err: io.ErrShortWrite, Ops: short, Bytes: 1, Sticky: sticky},
			Fault{Err: io.ErrShortWrite, Ops: short, Sticky: sticky},
			Fault{Err: io.ErrShortWrite, Ops: short, Bytes: -1, Sticky: sticky})
	}
	return all
}

// Report is what a Sweep found.
type Report struct {
	// Runs is how often the scenario was run with a fault that came.
	Runs int
	// Sites are the distinct operations that were reached.
	Sites []string
	// Truncations counts the files that were made shorter in place.
	Truncations int
	// Failed counts the runs that ended with an error of the scenario, or with a
	// truncation.
	Failed int
	// Failures describe the first of them.
	Failures []string
	Elapsed  time.Duration
}

const maxFailures = 10

// String is the report in one line.
func (r Report) String() string {
	return fmt.Sprintf("%d runs with a fault at %d call sites: %d failed, %d truncations (%v)",
		r.Runs, len(r.Sites), r.Failed, r.Truncations, r.Elapsed.Round(time.Millisecond))
}

// Err returns an error that names the first failures, or nil.
func (r Report) Err() error {
	if r.Failed == 0 {
		return nil
	}
	return errors.New(r.String() + "\n" + strings.Join(r.Failures, "\n"))
}

// Sweep runs scenario with each fault at its first operation, at its second,
// and so on until it ends before the fault comes. The scenario works on fsys as
// the program would, bears the errors that it gets, calls fsys.Heal once the
// disk is to work again, goes on in the same process, and then compares: it
// returns an error when something that was acknowledged is lost, a file is
// neither old nor new, or work cannot go on. base is the filesystem underneath,
// which does not fail. It must do the same each time that it is run.
func Sweep(scenario func(fsys *FS, base afero.Fs) error, o Options) Report {
	if o.Base == nil {
		o.Base = afero.NewMemMapFs
	}
	if o.Faults == nil {
		o.Faults = Faults()
	}
	start := time.Now()
	var r Report
	sites := map[string]bool{}
	for _, fault := range o.Faults {
		for fault.At = 1 + o.Offset; ; fault.At += max(1, o.Stride) {
			base := o.Base()
			fsys := New(base)
			fsys.Inject(fault)
			err := scenario(fsys, base)
			for _, s := range fsys.Sites() {
				sites[s] = true
			}
			came := fsys.Fired() > 0
			if came {
				r.Runs++
			}
			r.judge(fsys, fault, err, o.MayShrink)
			if !came {
				break
			}
		}
	}
	for s := range sites {
		r.Sites = append(r.Sites, s)
	}
	slices.Sort(r.Sites)
	r.Elapsed = time.Since(start)
	return r
}

// judge counts what is wrong with one run.
func (r *Report) judge(fsys *FS, fault Fault, err error, mayShrink []string) {
	for _, name := range fsys.Shrunk() {
		if !slices.ContainsFunc(mayShrink, func(part string) bool { return strings.Contains(name, part) }) {
			r.Truncations++
			err = errors.Join(err, fmt.Errorf("%s was truncated in place", name))
		}
	}
	if err == nil {
		return
	}
	r.Failed++
	if len(r.Failures) < maxFailures {
		where := "no fault"
		if ops := fsys.Ops(); fsys.Fired() > 0 {
			where = fmt.Sprintf("%v at number %d of %v (sticky: %v), %d operations", fault.Err, fault.At, fault.Ops, fault.Sticky, len(ops))
			if len(fault.Ops) == 0 && fault.At <= len(ops) {
				where += ", " + ops[fault.At-1]
			}
		}
		r.Failures = append(r.Failures, where+": "+err.Error())
	}
}
