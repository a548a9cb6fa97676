package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

const (
	herdSize  = 1000
	herdTurns = 4 // requests of a child: rounds with a tool, then the answer
	// herdRuns is how many processes each figure comes from, herdStops how often
	// each of those that hold their children stops them all.
	herdRuns, herdStops = 5, 8
	// stopAim is how long a stop of all may take, in ms.
	stopAim = 250
	// fairTime is how long children ask as often as they can.
	fairTime = 10 * time.Second
)

// What the children of a herd do.
const (
	herdWork = "work" // herdTurns requests each
	herdHold = "hold" // then all are in the middle of an answer
	herdFair = "fair" // requests for fairTime
)

// herd is what a process with many children is told, on its standard input.
type herd struct {
	Bare    bool // loops of net/http instead of Ralph's parts
	Durable bool // each message is on the disk before the work goes on
	Do      string
	URL     string
	Agents  int
	Stops   int
	Dir     string // for the transcripts
	Root    string // the project, with notes.txt
	Tools   json.RawMessage
	Fair    time.Duration
}

// herdReport is what it tells, on its standard output.
type herdReport struct {
	Wall, CPU  time.Duration
	Requests   int
	RSSBytes   int64 // more than before the children began
	HeapBytes  int64 // of heap and stacks after a collection
	Goroutines int
	Stops      []time.Duration // until nothing of the children was left
	StopCPU    []time.Duration // what each of them took of the processors
	Turns      []int           // of each child
}

// children measures many children in one process, next to as many bare loops of
// net/http that send the same requests. The model's server is this process.
func (l *lab) children() error {
	root := filepath.Join(l.dir, "herd-project")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "notes.txt"), bytes.Repeat([]byte("one line of notes, as they are\n"), 40), 0o644); err != nil {
		return err
	}
	m := &pasture{}
	l.server.cast("herd", m)
	ask := func(h herd) (r herdReport, err error) {
		m.do.Store(h.Do)
		h.URL, h.Agents, h.Root, h.Fair = l.server.url+"/herd/v1", herdSize, root, fairTime
		h.Tools = m.tools()
		return l.herd(h)
	}
	if _, err := ask(herd{Do: herdWork}); err != nil { // warm, and the tools are known
		return err
	}
	if err := l.herdWork(ask); err != nil {
		return err
	}
	if err := l.herdHold(ask); err != nil {
		return err
	}
	return l.herdFair(ask)
}

// herdWork times children that do their work and end.
func (l *lab) herdWork(ask func(herd) (herdReport, error)) error {
	var all [3][]herdReport
	for range herdRuns {
		for i, h := range []herd{{}, {Durable: true}, {Bare: true}} {
			h.Do = herdWork
			r, err := ask(h)
			if err != nil {
				return err
			}
			if r.Requests != herdSize*herdTurns {
				return fmt.Errorf("%d requests, want %d", r.Requests, herdSize*herdTurns)
			}
			all[i] = append(all[i], r)
		}
	}
	figure := func(i int, f func(herdReport) float64) (list []float64) {
		for _, r := range all[i] {
			list = append(list, f(r))
		}
		return list
	}
	wall := func(r herdReport) float64 { return r.Wall.Seconds() * 1e3 }
	cpu := func(r herdReport) float64 { return r.CPU.Seconds() * 1e3 / float64(r.Requests) }
	rate := func(r herdReport) float64 { return float64(r.Requests) / r.Wall.Seconds() }
	name := fmt.Sprintf("%d children, %d requests", herdSize, herdSize*herdTurns)
	row(name, "ms", figure(0, wall), figure(2, wall))
	row("  each message on the disk first", "ms", figure(1, wall), figure(2, wall))
	row("  requests a second", "/s", figure(0, rate), figure(2, rate))
	row("  CPU of a request", "ms", figure(0, cpu), figure(2, cpu))
	return nil
}

// herdHold weighs children that are all in the middle of an answer, and times
// the end of them all.
func (l *lab) herdHold(ask func(herd) (herdReport, error)) error {
	var rss, heap, threads, stops, work [2][]float64
	for range herdRuns {
		for i, bare := range []bool{false, true} {
			r, err := ask(herd{Do: herdHold, Bare: bare, Stops: herdStops})
			if err != nil {
				return err
			}
			rss[i] = append(rss[i], float64(r.RSSBytes)/herdSize/1e3)
			heap[i] = append(heap[i], float64(r.HeapBytes)/herdSize/1e3)
			threads[i] = append(threads[i], float64(r.Goroutines)/herdSize)
			for k, d := range r.Stops {
				stops[i] = append(stops[i], d.Seconds()*1e3)
				work[i] = append(work[i], r.StopCPU[k].Seconds()*1e3)
			}
		}
	}
	row("memory of a child (RSS)", "kB", rss[0], rss[1])
	row("  heap and stacks, collected", "kB", heap[0], heap[1])
	row("  goroutines", "", threads[0], threads[1])
	rowAt("stop of all until nothing is left", "ms", stops[0], stops[1])
	rowAt("  CPU of it", "ms", work[0], work[1])
	fmt.Printf("  aim ≤ %d ms: %s at p50, %s at p99, %s at most; these two rows are p50 / p99 / max; what exceeds the CPU over %d processors is time that others had them\n",
		stopAim, met(at(stops[0], 50) <= stopAim), met(at(stops[0], 99) <= stopAim), met(at(stops[0], 100) <= stopAim), runtime.NumCPU())
	fmt.Println("  these children share one tree and have a short prompt: a loop, a client, a budget, tools and a transcript each")
	return nil
}

// herdFair looks at how evenly children that ask all the time are served.
func (l *lab) herdFair(ask func(herd) (herdReport, error)) error {
	for _, bare := range []bool{false, true} {
		r, err := ask(herd{Do: herdFair, Bare: bare})
		if err != nil {
			return err
		}
		slices.Sort(r.Turns)
		who := "children"
		if bare {
			who = "bare loops"
		}
		fmt.Printf("fairness of %d %s in %v: %d to %d requests each, median %d, Jain %.4f, %.0f/s\n",
			len(r.Turns), who, fairTime, r.Turns[0], r.Turns[len(r.Turns)-1], r.Turns[len(r.Turns)/2], jain(r.Turns), float64(r.Requests)/r.Wall.Seconds())
	}
	return nil
}

// jain is Jain's index of fairness: 1 when all have the same, 1/n when one has
// all.
func jain(list []int) float64 {
	var sum, squares float64
	for _, n := range list {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(list)) * squares)
}

// herd runs a process with many children: this program, told so by its argument.
func (l *lab) herd(h herd) (r herdReport, err error) {
	l.runs++
	h.Dir = filepath.Join(l.dir, fmt.Sprint("herd-", l.runs))
	if err := os.MkdirAll(h.Dir, 0o755); err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	told, err := json.Marshal(h)
	if err != nil {
		return r, err
	}
	c := exec.CommandContext(l.ctx, self, herdArg)
	c.Env = []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH")}
	if p := os.Getenv("RALPH_BENCH_PROFILE"); p != "" {
		c.Env = append(c.Env, "RALPH_BENCH_PROFILE="+p)
	}
	c.Stdin, c.Stderr = bytes.NewReader(told), os.Stderr
	out, err := c.Output()
	if err != nil {
		return r, fmt.Errorf("children in a process of their own: %w", err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("read the report of the children: %w", err)
	}
	return r, os.RemoveAll(h.Dir)
}

// pasture is the model of a herd: a file is read in each turn but the last.
type pasture struct {
	do atomic.Value // what the children of the running process do
	// said is the list of tools in the first request, which the bare loop then
	// sends too.
	said atomic.Pointer[json.RawMessage]
}

func (m *pasture) tools() json.RawMessage {
	if said := m.said.Load(); said != nil {
		return *said
	}
	return json.RawMessage("[]")
}

// ServeHTTP answers one request. How far a child is stands in its transcript.
func (m *pasture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a child that was stopped
	}
	if m.said.Load() == nil {
		var first struct{ Tools json.RawMessage }
		if json.Unmarshal(body, &first) == nil && first.Tools != nil {
			m.said.CompareAndSwap(nil, &first.Tools)
		}
	}
	do := m.do.Load()
	turns := bytes.Count(body, []byte(`"role":"tool"`)) + 1
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case do == herdFair || turns < herdTurns:
		call(w, turns, "read", fmt.Sprintf(`{"path":"notes.txt","offset":%d,"limit":20}`, 1+turns%20))
		finish(w, "tool_calls")
	case do == herdHold:
		token(w, "so far")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		token(w, "all is read")
		finish(w, "stop")
	}
}
