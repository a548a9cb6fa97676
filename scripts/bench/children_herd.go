package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ralph/memory/session"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/model"
	"ralph/workers/tools"
)

// herdArg is the argument that makes this program a process with many children.
const herdArg = "herd"

// errEnough ends children that were to go on.
var errEnough = errors.New("enough")

// leftTime is how long what was stopped may take to be gone.
const leftTime = 30 * time.Second

// crowd is the children of one process.
type crowd struct {
	herd
	turns []atomic.Int64 // answers that each got
	busy  atomic.Int64   // how many are in the middle of an answer
	fault atomic.Pointer[error]
}

// keepHerd is the main of a process with many children.
func keepHerd(ctx context.Context) error {
	c := &crowd{}
	if err := json.NewDecoder(os.Stdin).Decode(&c.herd); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	done, err := c.profile()
	if err != nil {
		return err
	}
	defer done()
	c.turns = make([]atomic.Int64, c.Agents)
	begin := c.ralphs
	if c.Bare {
		begin = c.loops
	}
	var r herdReport
	for range max(c.Stops, 1) {
		if err := c.round(ctx, begin, &r); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// profile writes a CPU profile of Ralph's own children when the environment
// names a file.
func (c *crowd) profile() (func(), error) {
	name := os.Getenv("RALPH_BENCH_PROFILE")
	if name == "" || c.Bare || c.Durable || c.Do != herdWork {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

// round lets all children begin, does with them what is to be done, and ends
// them.
func (c *crowd) round(ctx context.Context, begin func(context.Context) (wait func(), stop func(), err error), r *herdReport) error {
	c.busy.Store(0)
	before := weigh()
	goroutines, sockets := runtime.NumGoroutine(), openSockets()
	cpu, began := processorTime(), time.Now()
	wait, stop, err := begin(ctx)
	if err != nil {
		return err
	}
	switch c.Do {
	case herdFair:
		time.Sleep(c.Fair)
	case herdHold:
		for until := time.Now().Add(time.Minute); c.busy.Load() < int64(c.Agents); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				return fmt.Errorf("%d of %d children are at work", c.busy.Load(), c.Agents)
			}
		}
		if r.RSSBytes == 0 {
			r.RSSBytes = residentBytes() - before.rss
			now := weigh()
			r.HeapBytes, r.Goroutines = now.heap-before.heap, runtime.NumGoroutine()-goroutines
		}
	default:
		wait()
	}
	r.Wall, r.CPU = time.Since(began), processorTime()-cpu
	if c.Do != herdHold {
		r.Turns = make([]int, len(c.turns))
		for i := range c.turns {
			r.Turns[i] = int(c.turns[i].Load())
			r.Requests += r.Turns[i]
		}
	}
	cpu, began = processorTime(), time.Now()
	stop()
	for runtime.NumGoroutine() > goroutines || openSockets() > sockets {
		if time.Since(began) > leftTime {
			return fmt.Errorf("%d goroutines and %d connections are left of %d and %d: %w", runtime.NumGoroutine(), openSockets(), goroutines, sockets, errLeft)
		}
		time.Sleep(200 * time.Microsecond)
	}
	r.Stops, r.StopCPU = append(r.Stops, time.Since(began)), append(r.StopCPU, processorTime()-cpu)
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

var errLeft = errors.New("the children are not gone")

func (c *crowd) fail(err error) { c.fault.CompareAndSwap(nil, &err) }

// ralphs lets children of Ralph begin, as its coordinator does: a pool, a loop
// each, one client, a list of tools and a transcript each.
func (c *crowd) ralphs(ctx context.Context) (wait, stop func(), err error) {
	runner := exec.New(exec.Options{})
	pool := workers.New(workers.Options{Proc: runner, MaxAgents: c.Agents, Alarm: func(workers.Status) {}})
	client := model.New(model.Options{Endpoint: model.Endpoint{Provider: "custom", BaseURL: c.URL, Model: "herd"}, MaxConns: c.Agents})
	budget := workers.NewBudget(workers.Limit{Tokens: 1 << 40})
	var ended sync.WaitGroup
	for i := range c.Agents {
		id := fmt.Sprintf("implement_part_%d", i)
		ended.Add(1)
		err := pool.Spawn(ctx, workers.Spec{ID: id, Parent: "ralph", Label: "part of the work"}, func(ctx context.Context) error {
			return c.child(ctx, id, i, pool, client, runner, budget.Share(workers.Limit{}))
		}, func(err error) {
			if err != nil && !errors.Is(err, errEnough) {
				c.fail(err)
			}
			ended.Done()
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return ended.Wait, func() {
		if r := pool.Stop(ctx, errEnough); !r.Rest() {
			c.fail(fmt.Errorf("%d children are stuck, %d processes alive", len(r.Stuck), len(r.Survivors)))
		}
		client.Close()
		if err := errors.Join(pool.Close(ctx), runner.Close(ctx)); err != nil {
			c.fail(err)
		}
	}, nil
}

// child is the work of one.
func (c *crowd) child(ctx context.Context, id string, i int, pool *workers.Pool, client *model.Client, runner *exec.Runner, budget *workers.Budget) (err error) {
	files, err := tools.OpenWorkspace(c.Root)
	if err != nil {
		return err
	}
	record, done, err := c.transcript(id)
	if err != nil {
		return errors.Join(err, files.Close())
	}
	defer func() { err = errors.Join(err, done(), files.Close()) }()
	loop := &agent.Loop{
		Agent:  id,
		Model:  client,
		Tools:  tools.All(&tools.Env{Root: c.Root, Files: files, Proc: runner, Notebook: blank{}, OutputDir: filepath.Join(c.Dir, id)}),
		Record: record,
		Emit: func(e agent.Event) {
			switch e.Type {
			case agent.EventUsage:
				c.turns[i].Add(1)
				budget.Spend(agent.Spent{Usage: *e.Usage})
			case agent.EventMessageDelta:
				c.busy.Add(1)
			}
			pool.Beat(id, e.Tool)
		},
		Hold: func(context.Context) error { return budget.Turn() },
	}
	talk := []agent.Message{{Role: agent.RoleSystem, Text: strings.Repeat("You work on one part of a project, beside others. ", 40)},
		{Role: agent.RoleUser, Text: "Read notes.txt, a part at a time, and say what is in it: " + id}}
	defer client.Forget(id)
	return loop.Run(ctx, talk).Err
}

// transcript opens the transcript of a child.
func (c *crowd) transcript(id string) (record func(agent.Message) error, done func() error, err error) {
	path := filepath.Join(c.Dir, id+".jsonl")
	if c.Durable {
		j, err := session.OpenJournal(nil, path, c.Dir, nil)
		if err != nil {
			return nil, nil, err
		}
		return func(m agent.Message) error {
			payload, err := json.Marshal(m)
			if err != nil {
				return err
			}
			return j.Append(0, session.Record{Kind: "message", Payload: payload})
		}, j.Close, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return func(m agent.Message) error {
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		_, err = f.Write(append(line, '\n'))
		return err
	}, f.Close, nil
}

// blank is a notebook in which nothing is kept.
type blank struct{}

func (blank) Task(context.Context, tools.TaskUpdate) (string, error) { return "", nil }
func (blank) Todo(context.Context, tools.TodoUpdate) (string, error) { return "", nil }
func (blank) Goal(context.Context, tools.GoalUpdate) (string, error) { return "", nil }
func (blank) Decide(context.Context, tools.Choice) (string, error)   { return "", nil }
func (blank) Learn(context.Context, tools.Learning) (string, error)  { return "", nil }
func (blank) Feature(context.Context, tools.Feature) (string, error) { return "", nil }

// weight is the memory of this process.
type weight struct{ heap, rss int64 }

// weigh collects garbage first, and gives the rest back.
func weigh() weight {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return weight{heap: int64(m.HeapAlloc + m.StackInuse), rss: residentBytes()}
}

// residentBytes is what of this process is in memory; 0 where no /proc tells.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// openSockets counts the open connections of this process; 0 where no /proc
// tells.
func openSockets() (n int) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// processorTime is what this process has used of the processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
