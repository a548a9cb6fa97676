package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// heap is a tracker without a disk.
type heap struct {
	mu sync.Mutex
	p  plan.Plan
	n  int
	// spent is what is the tracker's own time.
	spent time.Duration
}

func (h *heap) Name() string { return "json" }

func (h *heap) Load(context.Context) (*plan.Plan, error) {
	began := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.p
	p.Tasks, p.Stamp = slices.Clone(h.p.Tasks), strconv.Itoa(h.n)
	h.spent += time.Since(began)
	return &p, nil
}

func (h *heap) Stamp(context.Context) (string, error) { return strconv.Itoa(h.n), nil }

func (h *heap) Mark(_ context.Context, id string, m plan.Mark) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, _ := strconv.Atoi(id[1:])
	h.p.Tasks[i].Status = m.Status
	h.n++
	return nil
}

func (h *heap) Release(context.Context, string) ([]string, error) { return nil, nil }

// quick are hands that are done at once.
type quick struct{}

func (quick) Prompt(context.Context, Order) (string, error) { return "work", nil }
func (quick) Facts(context.Context, plan.Task) decide.Facts {
	return decide.Facts{Description: true, Criteria: true, Check: true, Bounded: true}
}
func (quick) Check(context.Context, plan.Check) CheckRun { return CheckRun{} }
func (quick) Do(ctx context.Context, o Order) Report     { return well(ctx, o) }

// BenchmarkIteration is the loop's own time for an iteration: select, decide,
// record, encode the snapshot; without the tracker and the disk.
func BenchmarkIteration(b *testing.B) {
	for _, size := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const iterations = 20
			var own, saving, starting time.Duration
			n := 0
			for b.Loop() {
				h := &heap{}
				for i := range size {
					t := plan.Task{ID: fmt.Sprintf("T%d", i), Title: fmt.Sprintf("task %d", i), Status: plan.Pending, Priority: i % 5, Description: "what to do"}
					for k := 1; k <= 3 && i >= 10; k++ {
						t.After = append(t.After, fmt.Sprintf("T%d", (i*7+k*13)%(i/2+1)))
					}
					t.After = slices.Compact(t.After)
					h.p.Tasks = append(h.p.Tasks, t)
				}
				f, err := folder.Open(folder.Options{FS: afero.NewMemMapFs(), Dir: "/s", SessionID: "001"})
				if err != nil {
					b.Fatal(err)
				}
				save := func(s feature.Snapshot) error {
					began := time.Now()
					_, err := json.Marshal(s)
					saving += time.Since(began)
					return err
				}
				var first, last time.Time
				told := func(e agent.Event) {
					switch e.Type {
					case agent.EventTaskStart:
						if first.IsZero() {
							first, h.spent = time.Now(), 0
						}
					case agent.EventTaskEnd:
						last = time.Now()
					}
				}
				l, err := New(Options{Emit: told, Settings: Settings{Parallel: 4, MaxIterations: iterations, HumanIntervention: AskNever}, Tracker: h, Hands: quick{}, Files: f, Save: save, Actor: "a", SessionID: "001"})
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				out := l.Run(b.Context())
				own += last.Sub(first) - h.spent
				starting += first.Sub(began)
				n += out.Iterations - 1
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(own.Microseconds())/float64(n)/1000, "ms/iteration")
			b.ReportMetric(float64(starting.Microseconds())/float64(b.N)/1000, "ms/start")
			b.ReportMetric(float64(saving.Microseconds())/float64(n)/1000, "ms/iteration-encoding")
		})
	}
}
