// Bench measures the ralph binary as a user meets it, next to a bare net/http
// loop that does the same work against the same server on loopback, in turn in
// the same run. It prints each figure's median and spread, the ratio of the
// medians, and how often each was measured.
//
//	go run ./scripts/bench -ralph ./bin/ralph -n 15
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	rexec "ralph/workers/exec"
)

func main() {
	rexec.Init()
	ralph := flag.String("ralph", "./bin/ralph", "the binary to measure")
	n := flag.Int("n", 15, "runs of each figure, after one warm-up")
	stops := flag.Int("runs", 200, "stops of each shape, urgent messages of each kind")
	only := flag.String("only", "", "parts, with commas between: work, state, kills, trees, sandbox, stop, survivors, urgent, stopchildren, children, eight, loop, graph, chat, sessions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if flag.Arg(0) == herdArg {
		if err := keepHerd(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: children:", err)
			os.Exit(1)
		}
		return
	}
	ctx, unread := context.WithCancelCause(ctx)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go func() { // until the end of the program
		for range broken {
			// It also comes for a connection that a Ralph has dropped.
			if outputBroken() {
				unread(errors.New("nobody reads the output"))
			}
		}
	}()
	if err := measure(ctx, *ralph, *only, *n, *stops); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// lab is where the measuring is done.
type lab struct {
	ctx                context.Context
	n                  int
	dir                string
	ralph, bare, empty string
	server             *server
	runs               int
	stopping           // what the stops need
}

// sample is one run of one program.
type sample struct {
	wall, cpu time.Duration
	rssBytes  int64
	trace     *trace
}

func measure(ctx context.Context, ralph, only string, n, stops int) (err error) {
	l := &lab{ctx: ctx, n: n, stopping: stopping{stopRuns: stops}}
	if l.ralph, err = filepath.Abs(ralph); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "ralph-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.rest(), os.RemoveAll(l.dir)) }()
	l.bare, l.empty = filepath.Join(l.dir, "bare"), filepath.Join(l.dir, "empty")
	for path, pkg := range map[string]string{l.bare: "ralph/scripts/bench/bare", l.empty: "ralph/scripts/bench/empty"} {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	if l.server, err = serve(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.server.close()) }()
	fmt.Printf("%-34s %28s %28s %8s %5s\n", "figure", "ralph: median (min–max)", "floor: median (min–max)", "ratio", "n")
	for _, part := range []struct {
		name string
		of   []func() error
	}{
		{"work", []func() error{l.startUp, l.oneShot, l.toolRounds, l.longAnswer, l.interrupt}},
		{"state", []func() error{l.acknowledge, l.events, l.change, l.openProject}},
		{"kills", []func() error{l.kills}},
		{"trees", []func() error{l.trees}},
		{"sandbox", []func() error{l.sandbox}},
		{"stop", []func() error{l.stops}},
		{"survivors", []func() error{l.survivors}},
		{"urgent", []func() error{l.urgent}},
		{"stopchildren", []func() error{l.stopChildren}},
		{"children", []func() error{l.children}},
		{"eight", []func() error{l.eight}},
		{"loop", []func() error{l.loops}},
		{"graph", []func() error{l.graphs}},
		{"chat", []func() error{l.chats}},
		{"sessions", []func() error{l.told}},
	} {
		for _, figure := range part.of {
			if only != "" && !slices.Contains(strings.Split(only, ","), part.name) {
				break
			}
			if err := figure(); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}

// pairs runs a and b in turn, n times each after one warm-up.
func (l *lab) pairs(a, b func() (sample, error)) (as, bs []sample, err error) {
	for i := range l.n + 1 {
		x, err := a()
		if err != nil {
			return nil, nil, err
		}
		y, err := b()
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			as, bs = append(as, x), append(bs, y)
		}
	}
	return as, bs, nil
}

func (l *lab) startUp() error {
	as, bs, err := l.pairs(
		func() (sample, error) { return l.exec(l.ralph, "version") },
		func() (sample, error) { return l.exec(l.empty) })
	if err != nil {
		return err
	}
	row("start-up (ralph version, empty)", "ms", pick(as, wallMS), pick(bs, wallMS))
	return nil
}

func (l *lab) oneShot() error {
	as, bs, err := l.both("one")
	if err != nil {
		return err
	}
	row("one-shot, one token: wall", "ms", pick(as, wallMS), pick(bs, wallMS))
	row("one-shot, one token: CPU", "ms", pick(as, cpuMS), pick(bs, cpuMS))
	row("one-shot, one token: memory", "MB", pick(as, rssMB), pick(bs, rssMB))
	row("one-shot: bytes of the request", "kB", pick(as, bodyKB), pick(bs, bodyKB))
	return nil
}

func (l *lab) toolRounds() error {
	as, bs, err := l.both("rounds")
	if err != nil {
		return err
	}
	row("tool round with a shell echo", "ms", between(as), between(bs))
	row(fmt.Sprintf("%d rounds: wall", rounds), "ms", pick(as, wallMS), pick(bs, wallMS))
	row(fmt.Sprintf("%d rounds: memory", rounds), "MB", pick(as, rssMB), pick(bs, rssMB))
	return nil
}

func (l *lab) longAnswer() error {
	as, bs, err := l.both("long")
	if err != nil {
		return err
	}
	row("20,000 tokens streamed: wall", "ms", pick(as, wallMS), pick(bs, wallMS))
	row("20,000 tokens streamed: CPU", "ms", pick(as, cpuMS), pick(bs, cpuMS))
	row("20,000 tokens streamed: memory", "MB", pick(as, rssMB), pick(bs, rssMB))
	return nil
}

func (l *lab) interrupt() error {
	as, bs, err := l.pairs(
		func() (sample, error) { return l.interrupted(true) },
		func() (sample, error) { return l.interrupted(false) })
	if err != nil {
		return err
	}
	row("SIGINT to exit in a slow stream", "ms", pick(as, wallMS), pick(bs, wallMS))
	return nil
}

// both runs the same work by Ralph and by the bare loop.
func (l *lab) both(work string) (as, bs []sample, err error) {
	return l.pairs(
		func() (sample, error) {
			c, tr, err := l.ralphCommand(work)
			if err != nil {
				return sample{}, err
			}
			s, err := finishRun(c)
			s.trace = tr
			return s, err
		},
		func() (sample, error) {
			name, tr := l.nextRun()
			s, err := l.exec(l.bare, l.server.url+"/"+name+"/v1", work)
			s.trace = tr
			return s, err
		})
}

func (l *lab) nextRun() (string, *trace) {
	l.runs++
	name := fmt.Sprintf("run%d", l.runs)
	return name, l.server.run(name)
}

// ralphCommand is a one-shot in a fresh git project with an empty HOME.
func (l *lab) ralphCommand(work string) (*exec.Cmd, *trace, error) {
	name, tr := l.nextRun()
	home, project := filepath.Join(l.dir, name, "home"), filepath.Join(l.dir, name, "project")
	for _, dir := range []string{home, project} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, nil, err
		}
	}
	if out, err := exec.CommandContext(l.ctx, "git", "init", "-q", project).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("git init: %w: %s", err, out)
	}
	c := exec.CommandContext(l.ctx, l.ralph, "--sandbox", "off", "--quiet", "--base-url", l.server.url+"/"+name+"/v1", "--model", work,
		"--result-file", filepath.Join(l.dir, name, "result.json"), "go")
	c.Dir = project
	c.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	return c, tr, nil
}

func (l *lab) exec(argv ...string) (sample, error) {
	c := exec.CommandContext(l.ctx, argv[0], argv[1:]...)
	c.Env = []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH")}
	return finishRun(c)
}

// shell is a plain command of the bench's own.
func (l *lab) shell(script string) *exec.Cmd {
	c := exec.Command("bash", "-c", script)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	return c
}

func finishRun(c *exec.Cmd) (sample, error) {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	began := time.Now()
	if err := c.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, stderr.Bytes())
	}
	return usage(c, time.Since(began)), nil
}

func usage(c *exec.Cmd, wall time.Duration) sample {
	s := sample{wall: wall, cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
	if ru, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.rssBytes = int64(ru.Maxrss) << 10 // kilobytes on Linux
	}
	return s
}

// interrupted sends SIGINT into a slow stream and times the way to the exit; a
// run of Ralph must have written its result document by then.
func (l *lab) interrupted(ralph bool) (sample, error) {
	name, tr := "", (*trace)(nil)
	var c *exec.Cmd
	var err error
	if ralph {
		if c, tr, err = l.ralphCommand("slow"); err != nil {
			return sample{}, err
		}
	} else {
		name, tr = l.nextRun()
		c = exec.CommandContext(l.ctx, l.bare, l.server.url+"/"+name+"/v1", "slow")
	}
	if err := c.Start(); err != nil {
		return sample{}, err
	}
	for range 10 {
		select {
		case <-tr.tokens:
		case <-time.After(30 * time.Second):
			return sample{}, errors.Join(errors.New("no token within 30 s"), c.Process.Kill(), c.Wait())
		}
	}
	began := time.Now()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		return sample{}, err
	}
	err = c.Wait()
	s := usage(c, time.Since(began))
	if !ralph {
		return s, nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		return s, fmt.Errorf("interrupted ralph: %w, want exit 130", err)
	}
	doc, err := os.ReadFile(filepath.Join(filepath.Dir(c.Dir), "result.json"))
	if err != nil {
		return s, err
	}
	var result struct{ Status string }
	if err := json.Unmarshal(doc, &result); err != nil || result.Status != "interrupted" {
		return s, fmt.Errorf("the result document says %q (%v), want interrupted", result.Status, err)
	}
	return s, nil
}

func wallMS(s sample) float64 { return s.wall.Seconds() * 1e3 }
func cpuMS(s sample) float64  { return s.cpu.Seconds() * 1e3 }
func rssMB(s sample) float64  { return float64(s.rssBytes) / (1 << 20) }
func bodyKB(s sample) float64 { return float64(s.trace.bodies[0]) / 1e3 }

func pick(list []sample, figure func(sample) float64) []float64 {
	out := make([]float64, len(list))
	for i, s := range list {
		out[i] = figure(s)
	}
	return out
}

// between are the times from the last byte of an answer to the next request,
// over all rounds of all runs.
func between(list []sample) []float64 {
	var out []float64
	for _, s := range list {
		for _, d := range s.trace.between {
			out = append(out, d.Seconds()*1e3)
		}
	}
	return out
}
