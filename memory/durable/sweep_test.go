package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
)

// writer is one way to keep things in a file. It returns once what it was given
// is acknowledged.
type writer struct {
	put   func(i int) error
	close func() error
}

// keeper is one of the package's writers, or a naive one, and how what it wrote
// is read.
type keeper struct {
	name string
	open func(fsys afero.Fs) (writer, error)
	// all returns what is there, oldest first.
	all func(fsys afero.Fs) ([]int, error)
	// last says that only the last thing put is there.
	last bool
	// twice says that what was tried again may be there twice.
	twice bool
	// shrinks says that a torn tail is cut off in place, once it is in
	// quarantine.
	shrinks bool
}

const dataFile = "/d/file"

// scale makes what is written longer in the full sweep, so that more blocks of it
// can be lost.
func scale() int { return crashfs.Count(1, 8) }

// version is a whole file; its length differs from that of its neighbours.
func version(i int) string {
	return fmt.Sprintf("begin %d\n%send %d\n", i, strings.Repeat(fmt.Sprintf("line of %d\n", i), (i*7919)%(700*scale())), i)
}

func versions(fsys afero.Fs) ([]int, error) {
	data, err := durable.ReadFile(fsys, dataFile, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var i int
	if _, err := fmt.Sscanf(string(data), "begin %d\n", &i); err != nil || string(data) != version(i) {
		return nil, fmt.Errorf("neither old nor new: %d bytes, %.40q", len(data), data)
	}
	return []int{i}, nil
}

func record(i int) []byte {
	return fmt.Appendf(nil, "record %d %s .", i, strings.Repeat("r", (i*131*scale())%(900*scale())))
}

// records reads a log and leaves out what is no record, as a journal does.
func records(fsys afero.Fs) ([]int, error) {
	var all []int
	err := durable.ReadLines(fsys, dataFile, func(line []byte, _ bool) error {
		var i int
		if _, err := fmt.Sscanf(string(line), "record %d ", &i); err == nil && string(line) == string(record(i)) {
			all = append(all, i)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

func listElement(i int) json.RawMessage {
	return fmt.Appendf(nil, `{"n":%d,"s":"%s"}`, i, strings.Repeat("s", (i*131*scale())%(900*scale())))
}

func elements(fsys afero.Fs) ([]int, error) {
	_, texts, err := document(fsys, dataFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []int
	for _, text := range texts {
		var e struct{ N int }
		if err := json.Unmarshal([]byte(text), &e); err != nil || text != string(listElement(e.N)) {
			return nil, fmt.Errorf("element %.60q: %w", text, err)
		}
		all = append(all, e.N)
	}
	return all, err
}

func swapping(fsys afero.Fs) (writer, error) {
	return writer{put: func(i int) error {
		was, err := durable.ReadFile(fsys, dataFile, 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			was, err = nil, nil
		}
		if err != nil {
			return err
		}
		late, err := durable.Swap(fsys, dataFile, was, []byte(version(i)), 0o600)
		if late != nil {
			return errors.Join(err, fmt.Errorf("late: %.30q", late))
		}
		return err
	}, close: func() error { return nil }}, nil
}

func logging(fsys afero.Fs) (writer, error) {
	l, _, err := durable.OpenLog(fsys, dataFile, durable.LogOptions{Quarantine: "/d/q"})
	if err != nil {
		return writer{}, err
	}
	return writer{put: func(i int) error { return l.Append(record(i)) }, close: l.Close}, nil
}

func listing(sync bool) func(fsys afero.Fs) (writer, error) {
	return func(fsys afero.Fs) (writer, error) {
		o := durable.ListOptions{Name: "events", Head: map[string]any{"id": "1"}, Quarantine: "/d/q", Sync: sync}
		l, _, err := durable.OpenList(fsys, dataFile, o)
		if err != nil {
			return writer{}, err
		}
		return writer{put: func(i int) error {
			err := l.Append(listElement(i))
			if err == nil && !sync && i%4 == 3 {
				err = l.Sync()
			}
			return err
		}, close: l.Close}, nil
	}
}

// once makes a writer of a function.
func once(put func(fsys afero.Fs, i int) error) func(afero.Fs) (writer, error) {
	return func(fsys afero.Fs) (writer, error) {
		return writer{put: func(i int) error { return put(fsys, i) }, close: func() error { return nil }}, nil
	}
}

func keepers() []keeper {
	return []keeper{
		{name: "Replace", last: true, all: versions, open: once(func(fsys afero.Fs, i int) error {
			return durable.Replace(fsys, dataFile, []byte(version(i)), 0o600)
		})},
		{name: "Swap", last: true, all: versions, open: swapping},
		{name: "Log", all: records, open: logging, shrinks: true},
		{name: "AppendLine", all: records, twice: true, open: once(func(fsys afero.Fs, i int) error {
			return durable.AppendLine(fsys, dataFile, record(i), 0o600)
		})},
		{name: "List", all: elements, open: listing(true), shrinks: true},
	}
}

// naive are writers as they are often seen.
func naive() []keeper {
	to := func(fsys afero.Fs, path, data string, flag int, sync bool) error {
		f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte(data))
		if sync {
			err = errors.Join(err, f.Sync())
		}
		return errors.Join(err, f.Close())
	}
	renamed := func(syncFile, syncDir bool) func(fsys afero.Fs, i int) error {
		return func(fsys afero.Fs, i int) error {
			err := to(fsys, dataFile+".tmp", version(i), os.O_TRUNC, syncFile)
			if err == nil {
				err = fsys.Rename(dataFile+".tmp", dataFile)
			}
			if err == nil && syncDir {
				err = durable.SyncDir(fsys, filepath.Dir(dataFile))
			}
			return err
		}
	}
	return []keeper{
		{name: "truncate in place, with every sync", open: once(func(fsys afero.Fs, i int) error {
			return errors.Join(to(fsys, dataFile, version(i), os.O_TRUNC, true), durable.SyncDir(fsys, "/d"))
		}), all: versions, last: true},
		{name: "append without sync", open: once(func(fsys afero.Fs, i int) error {
			return to(fsys, dataFile, string(record(i))+"\n", os.O_APPEND, false)
		}), all: records, last: false},
		{name: "append without sync of the directory", open: once(func(fsys afero.Fs, i int) error {
			return to(fsys, dataFile, string(record(i))+"\n", os.O_APPEND, true)
		}), all: records, last: false},
		{name: "rename without sync of the file", open: once(renamed(false, true)), all: versions, last: true},
		{name: "rename without sync of the directory", open: once(renamed(true, false)), all: versions, last: true},
		{name: "a JSON document written anew in place", open: once(func(fsys afero.Fs, i int) error {
			var doc struct {
				Events []json.RawMessage `json:"events"`
			}
			if data, err := afero.ReadFile(fsys, dataFile); err == nil {
				if err := json.Unmarshal(data, &doc); err != nil {
					return err
				}
			}
			doc.Events = append(doc.Events, listElement(i))
			data, err := json.Marshal(doc)
			return errors.Join(err, to(fsys, dataFile, string(data), os.O_TRUNC, true), durable.SyncDir(fsys, "/d"))
		}), all: elements, last: false},
	}
}

// missing compares what is there with what was acknowledged: all of it, in
// order, once.
func (k keeper) missing(there, acked []int) error {
	if len(acked) == 0 {
		return nil
	}
	if k.last {
		if newest := acked[len(acked)-1]; len(there) != 1 || there[0] < newest {
			return fmt.Errorf("%v is there, %d was acknowledged", there, newest)
		}
		return nil
	}
	var got []int
	if k.twice {
		there = slices.Compact(slices.Clone(there))
	}
	for _, i := range there {
		if slices.Contains(acked, i) {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, acked) {
		return fmt.Errorf("%v is there, %v was acknowledged", there, acked)
	}
	return nil
}

const puts = 8

// powerScenario puts things, and opens anew in between.
func (k keeper) powerScenario(fsys *crashfs.FS) error {
	if err := durable.MkdirAll(fsys, "/d", 0o700); err != nil {
		return err
	}
	var w writer
	for i := range puts {
		if i%3 == 0 {
			var err error
			if i > 0 {
				err = w.close()
			}
			if err == nil {
				w, err = k.open(fsys)
			}
			if err != nil {
				return err
			}
		}
		if err := w.put(i); err != nil {
			return err
		}
		fsys.Ack(strconv.Itoa(i))
	}
	return w.close()
}

// powerCheck restarts on a disk, looks, and goes on.
func (k keeper) powerCheck(disk *crashfs.FS, acked []string) error {
	var want []int
	for _, a := range acked {
		i, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		want = append(want, i)
	}
	if err := durable.MkdirAll(disk, "/d", 0o700); err != nil {
		return err
	}
	w, err := k.open(disk)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	there, err := k.all(disk)
	if err == nil {
		err = k.missing(there, want)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(w.put(puts), w.close()); err != nil {
		return fmt.Errorf("next: %w", err)
	}
	if there, err = k.all(disk); err != nil {
		return fmt.Errorf("after the next: %w", err)
	}
	if err := k.missing(there, append(want, puts)); err != nil {
		return fmt.Errorf("after the next: %w", err)
	}
	return durable.Sweep(disk, "/d")
}

// TestPowerLoss: at every operation of every writer the power goes, and nothing
// that was acknowledged is lost. The naive writers lose.
func TestPowerLoss(t *testing.T) {
	images, kills := 0, 0
	for _, k := range keepers() {
		r := crashfs.Sweep(k.powerScenario, k.powerCheck, crashfs.Options{Images: crashfs.Count(250, 40_000)})
		t.Logf("%s: %v", k.name, r)
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		images, kills = images+r.Images, kills+r.Kills
	}
	t.Logf("in all %d images, %d kills", images, kills)
	for _, k := range naive() {
		r := crashfs.Sweep(k.powerScenario, k.powerCheck, crashfs.Options{Images: crashfs.Count(100, 20_000)})
		t.Logf("naive, %s: %d of %d images caught it", k.name, r.Failed, r.Images+r.Kills)
		if r.Failed == 0 {
			t.Errorf("%s was not caught", k.name)
		}
	}
}

// TestPowerLossUnsynced: a list that does not sync each append keeps what stood
// there at its last sync, and is a list whatever was in flight.
func TestPowerLossUnsynced(t *testing.T) {
	k := keeper{name: "List, unsynced", open: listing(false), all: elements}
	batch := func(from, n int) []json.RawMessage {
		var all []json.RawMessage
		for i := range n {
			all = append(all, listElement(from+i))
		}
		return all
	}
	scenario := func(fsys *crashfs.FS) error {
		o := durable.ListOptions{Name: "events", Quarantine: "/d/q"}
		if err := durable.MkdirAll(fsys, "/d", 0o700); err != nil {
			return err
		}
		l, _, err := durable.OpenList(fsys, dataFile, o)
		if err != nil {
			return err
		}
		for i := range crashfs.Count(7, 12) {
			if err := l.Append(batch(i*30, 30)...); err != nil {
				return err
			}
			if i%5 == 4 {
				if err := l.Sync(); err != nil {
					return err
				}
				fsys.Ack(strconv.Itoa((i+1)*30 - 1))
			}
		}
		return l.Close()
	}
	check := func(disk *crashfs.FS, acked []string) error {
		if err := durable.MkdirAll(disk, "/d", 0o700); err != nil {
			return err
		}
		w, err := k.open(disk)
		if err != nil {
			return err
		}
		if err := errors.Join(w.put(400), w.close()); err != nil {
			return err
		}
		there, err := elements(disk)
		if err != nil {
			return err
		}
		want := 0
		if len(acked) > 0 {
			last, _ := strconv.Atoi(acked[len(acked)-1])
			want = last + 1
		}
		if len(there) < want+1 || there[len(there)-1] != 400 {
			return fmt.Errorf("%d elements are there, %d were synced", len(there), want)
		}
		for i := range want {
			if there[i] != i {
				return fmt.Errorf("element %d is %d", i, there[i])
			}
		}
		return nil
	}
	r := crashfs.Sweep(scenario, check, crashfs.Options{Images: crashfs.Count(20, 2_000)})
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// faultScenario puts things while the disk fails, tries again when it works
// anew, and compares.
func (k keeper) faultScenario(fsys *faultfs.FS, base afero.Fs) error {
	_ = base.Mkdir("/d", 0o700)
	var w writer
	try := func(do func() error) error {
		err := do()
		for tries := 0; err != nil && tries < 3; tries++ {
			if tries == 1 {
				fsys.Heal() // there is space again
			}
			err = do()
		}
		return err
	}
	open := func() (err error) { w, err = k.open(fsys); return err }
	if err := try(open); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	var acked []int
	for i := range 3 {
		if i == 2 {
			// A new process, as far as the file is concerned.
			_ = w.close()
			if err := try(open); err != nil {
				return fmt.Errorf("open again: %w", err)
			}
		}
		if err := try(func() error { return w.put(i) }); err != nil {
			return fmt.Errorf("put %d: %w", i, err)
		}
		acked = append(acked, i)
	}
	if err := try(w.close); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	there, err := k.all(base)
	if err != nil {
		return err
	}
	return k.missing(there, acked)
}

// fails runs a naive writer that gives up at an error, as they do: what was
// there before must still be there.
func (k keeper) fails(fsys *faultfs.FS, base afero.Fs) error {
	_ = base.Mkdir("/d", 0o700)
	w, err := k.open(base)
	if err != nil {
		return err
	}
	if err := errors.Join(w.put(1), w.put(2)); err != nil {
		return err
	}
	acked := []int{1, 2}
	if w, err = k.open(fsys); err != nil {
		return nil
	}
	if w.put(3) == nil {
		acked = append(acked, 3)
	}
	there, err := k.all(base)
	if err != nil {
		return err
	}
	return k.missing(there, acked)
}

// TestFaults: whatever operation of whatever writer fails, and how, nothing
// shrinks, nothing acknowledged is lost, and it works again in this process.
func TestFaults(t *testing.T) {
	bases := map[string]func() afero.Fs{
		"memory": func() afero.Fs { return crashfs.New() },
	}
	if crashfs.Count(0, 1) == 1 {
		bases["disk"] = func() afero.Fs { return afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()) }
	}
	runs := 0
	for base, fresh := range bases {
		for _, k := range append(keepers(), keeper{name: "List, unsynced", all: elements, open: listing(false), shrinks: true}) {
			o := faultfs.Options{Base: fresh}
			if k.shrinks {
				o.MayShrink = []string{dataFile}
			}
			r := faultfs.Sweep(k.faultScenario, o)
			t.Logf("%s, %s: %v", base, k.name, r)
			if err := r.Err(); err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
			runs += r.Runs
		}
	}
	t.Logf("in all %d faults", runs)
	for _, k := range naive() {
		if k.name != "truncate in place, with every sync" && !strings.HasPrefix(k.name, "a JSON document") {
			continue // only a power cut shows what is wrong with the others
		}
		r := faultfs.Sweep(k.fails, faultfs.Options{Base: bases["memory"]})
		t.Logf("naive, %s: lost something %d times in %d faults, %d truncations", k.name, r.Failed, r.Runs, r.Truncations)
		if r.Failed == 0 || r.Truncations == 0 {
			t.Errorf("%s was not caught", k.name)
		}
	}
}

// TestSyncFails: each sync fails once, and then lies, as disks do: what was in
// flight is lost without another word. Then the power goes.
func TestSyncFails(t *testing.T) {
	scenario := func(k keeper, n int) func(fsys *crashfs.FS) error {
		return func(fsys *crashfs.FS) error {
			if err := errors.Join(fsys.Mkdir("/d", 0o700), durable.SyncDir(fsys, "/")); err != nil {
				return err
			}
			fsys.FailSync(n, syscall.EIO)
			w, err := k.open(fsys)
			if err != nil {
				w, err = k.open(fsys)
			}
			for i := 0; i < 4 && err == nil; i++ {
				if err = w.put(i); err != nil {
					err = w.put(i)
				}
				if err == nil {
					fsys.Ack(strconv.Itoa(i))
				}
			}
			return err
		}
	}
	syncs := func(k keeper) int { return map[bool]int{true: 14, false: 8}[k.last] }
	images := 0
	for _, k := range keepers() {
		k.twice = true // a record whose second sync failed may be there
		for n := 1; n <= syncs(k); n++ {
			r := crashfs.Sweep(scenario(k, n), k.powerCheck, crashfs.Options{Images: crashfs.Count(20, 2000)})
			images += r.Images
			if err := r.Err(); err != nil {
				t.Errorf("%s, sync %d: %v", k.name, n, err)
			}
		}
	}
	t.Logf("%d images", images)
	again := keeper{name: "sync again", all: records, open: func(fsys afero.Fs) (writer, error) {
		f, err := fsys.OpenFile(dataFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			err = durable.SyncDir(fsys, "/d")
		}
		return writer{put: func(i int) error {
			_, err := f.Write(append(record(i), '\n'))
			if err != nil {
				return err
			}
			if err = f.Sync(); err != nil {
				err = f.Sync()
			}
			return err
		}, close: func() error { return nil }}, err
	}}
	r := crashfs.Sweep(scenario(again, 3), again.powerCheck, crashfs.Options{Images: 200})
	t.Logf("naive, sync again: %d of %d images caught it", r.Failed, r.Images+r.Kills)
	if r.Failed == 0 {
		t.Error("syncing again after a failed sync was not caught")
	}
}

// TestSecondPowerLoss: the power goes again during the recovery.
func TestSecondPowerLoss(t *testing.T) {
	images := 0
	for _, k := range keepers() {
		k.twice = true // what the recovery puts, it puts again
		fsys := crashfs.New()
		if err := k.powerScenario(fsys); err != nil {
			t.Fatal(err)
		}
		for i := range crashfs.Count(4, 400) {
			point := fsys.Len() * (i + 1) / (crashfs.Count(4, 400) + 1)
			disk, acked := fsys.Image(point, uint64(i)), fsys.Acked(point)
			r := crashfs.Sweep(func(disk *crashfs.FS) error { return k.powerCheck(disk, acked) },
				func(disk *crashfs.FS, _ []string) error { return k.powerCheck(disk, acked) },
				crashfs.Options{From: disk, Images: 60, Seed: uint64(i)})
			images += r.Images
			if err := r.Err(); err != nil {
				t.Fatalf("%s, point %d, seed %d: %v", k.name, point, i, err)
			}
		}
	}
	t.Logf("%d images", images)
}
