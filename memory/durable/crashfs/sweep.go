package crashfs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// Image returns a disk that a power cut could have left after the first point
// operations that were recorded: another one for each seed, the same for the
// same. It does not record.
func (f *FS) Image(point int, seed uint64) *FS {
	log, d := f.recorded()
	for _, o := range log[:point] {
		d.apply(o)
	}
	img, _ := d.image(rand.New(rand.NewPCG(seed, uint64(point))), maphash.MakeSeed())
	return img
}

// recorded returns what was recorded, and the disk from which to replay it.
func (f *FS) recorded() ([]op, *disk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log[:len(f.log):len(f.log)], f.from.clone()
}

// Acked returns what was acknowledged within the first point operations.
func (f *FS) Acked(point int) []string {
	log, _ := f.recorded()
	var acked []string
	for _, o := range log[:point] {
		if o.kind == opAck {
			acked = append(acked, o.name)
		}
	}
	return acked
}

// Options says how a Sweep looks.
type Options struct {
	// Images is about how many disks are made, spread over all operations at
	// which something was not synced; zero is 2,000.
	Images int
	// Seed makes other ones.
	Seed uint64
	// From is where the scenario starts; nil is an empty filesystem. All that is
	// on it is taken as durable.
	From *FS
}

// Report is what a Sweep found.
type Report struct {
	Points   int // moments between two operations
	Images   int // disks after a power cut that were checked
	Distinct int // different ones among them
	Kills    int // disks after a kill that were checked: at each point, writes torn
	Failed   int // how many of all did not hold what they should
	Failures []Failure
	Elapsed  time.Duration
}

// Failure is one disk on which something was lost.
type Failure struct {
	Point int    // how many operations had been done
	Seed  uint64 // of FS.Image; 0 for a kill
	Kill  bool   // the process was killed, the disk had power
	Next  string // the operation that came next
	Err   error
}

const maxFailures = 10

// String is the report in one line.
func (r Report) String() string {
	rate := float64(r.Images+r.Kills) / max(r.Elapsed.Seconds(), 1e-9)
	return fmt.Sprintf("%d power cuts (%d distinct disks) and %d kills at %d points: %d lost (%.0f disks/s)",
		r.Images, r.Distinct, r.Kills, r.Points, r.Failed, rate)
}

// Err returns an error that names the first failures, or nil.
func (r Report) Err() error {
	if r.Failed == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(r.String())
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\npoint %d, seed %d, kill %v, before %s: %v", f.Point, f.Seed, f.Kill, f.Next, f.Err)
	}
	return errors.New(b.String())
}

// Sweep runs scenario once, and then calls check with disks that a power cut,
// or a kill of the process, could have left at each of its operations. The
// scenario calls fsys.Ack as soon as something was acknowledged to it. check
// opens disk as the program would after a restart, and returns an error when
// something of acked is not there, or a file cannot be read. Each disk is its
// own to write on. An error of the scenario is a failure.
func Sweep(scenario func(fsys *FS) error, check func(disk *FS, acked []string) error, o Options) Report {
	start := time.Now()
	fsys := o.From
	if fsys == nil {
		fsys = New()
	}
	fsys.Record()
	r := Report{}
	if err := scenario(fsys); err != nil {
		r.fail(Failure{Point: fsys.Len(), Err: fmt.Errorf("scenario: %w", err)})
	}
	log, d := fsys.recorded()
	each := perPoint(log, d.clone(), o.Images)
	seed := maphash.MakeSeed()
	distinct := map[uint64]bool{}
	r.Points = len(log) + 1
	for point := range r.Points {
		next := op{kind: opAck, name: "the end"}
		if point < len(log) {
			next = log[point]
		}
		n := each
		if d.still() {
			n = 1
		}
		for i := range n {
			s := o.Seed<<32 + uint64(i) + 1
			disk, hash := d.image(rand.New(rand.NewPCG(s, uint64(point))), seed)
			distinct[hash] = true
			r.Images++
			if err := check(disk, d.acked); err != nil {
				r.fail(Failure{Point: point, Seed: s, Next: next.String(), Err: err})
			}
		}
		r.Kills++
		disk, _ := d.killed(next, rand.New(rand.NewPCG(o.Seed, uint64(point))))
		if err := check(disk, d.acked); err != nil {
			r.fail(Failure{Point: point, Kill: true, Next: next.String(), Err: err})
		}
		if point < len(log) {
			d.apply(next)
		}
	}
	r.Distinct, r.Elapsed = len(distinct), time.Since(start)
	return r
}

func (r *Report) fail(f Failure) {
	r.Failed++
	if len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, f)
	}
}

// perPoint spreads images over the points at which something is pending.
func perPoint(log []op, d *disk, images int) int {
	if images == 0 {
		images = 2000
	}
	busy := 0
	for _, o := range log {
		d.apply(o)
		if !d.still() {
			busy++
		}
	}
	return max(1, (images+busy-1)/max(1, busy))
}

// Count is how large a sweep is: full when RALPH_TEST_SWEEP is set to 1, else
// small.
func Count(small, full int) int {
	if os.Getenv("RALPH_TEST_SWEEP") == "1" {
		return full
	}
	return small
}
