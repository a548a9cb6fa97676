package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	killLanes = 20
	// killWithin is how long a Ralph lives at most after it was given its work:
	// eight commands are up after about two thirds of it.
	killWithin = 2400 * time.Millisecond
	// restLimit is what everything gets to be gone after the kill.
	restLimit = time.Second
)

// killed9 gathers the kills of one face by one method.
type killed9 struct {
	kills, running, left, swept int
	gone                        []float64
	stay                        int
	said                        int
}

// survivors kills Ralph itself with SIGKILL at random moments, in all shapes,
// and looks for what is left.
func (l *lab) survivors() error {
	if err := l.openScanner(); err != nil {
		return err
	}
	if err := l.plant(); err != nil {
		return err
	}
	fmt.Println("\nkill -9 of Ralph at random moments within", killWithin, "of its work's beginning, all shapes in turn, up to", killLanes, "Ralphs beside one another")
	fmt.Printf("%-34s %6s %9s %22s %6s %14s\n", "", "kills", "at work", "gone, ms p50/p99/max", "left", "after a start")
	defer func() { l.environ = nil }()
	random := rand.New(rand.NewPCG(killSeed, 1))
	for _, m := range []struct {
		name    string
		environ []string
		each    int
	}{
		{"best method", nil, max(l.stopRuns/10, 1)},
		{"RALPH_PROC=session", []string{"RALPH_PROC=session"}, max(l.stopRuns/50, 1)},
	} {
		l.environ = m.environ
		for _, chat := range []bool{true, false} {
			k, err := l.killsOf(m.each, chat, random)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			face := map[bool]string{true: "chat", false: "one-shot"}[chat]
			fmt.Printf("%-34s %6d %9d %22s %6d %14s\n", m.name+", "+face, k.kills, k.running, three(k.gone), k.left, fmt.Sprintf("%d left", k.stay))
			if k.left > 0 {
				fmt.Printf("  the next start said what it ended in %d of %d projects with something left\n", k.said, k.swept)
			}
		}
	}
	return nil
}

// killsOf kills one face so many times in each shape.
func (l *lab) killsOf(each int, chat bool, random *rand.Rand) (k killed9, err error) {
	for _, s := range shapes() {
		lanes := killLanes
		if s.gated {
			lanes = killLanes / 4 // they take all of the processor
		}
		for done := 0; done < each; done += lanes {
			if err := l.killBatch(s, min(lanes, each-done), chat, random, &k); err != nil {
				return k, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return k, nil
}

// killBatch runs several Ralphs beside one another and kills each at a moment of
// its own.
func (l *lab) killBatch(s shape, count int, chat bool, random *rand.Rand, k *killed9) (err error) {
	var lanes []*lane
	defer func() {
		for _, n := range lanes {
			err = errors.Join(err, n.drop())
		}
	}()
	for range count {
		n, err := l.newLane()
		if err != nil {
			return err
		}
		lanes = append(lanes, n)
		n.play(s)
		n.part.release()
		if chat {
			if err := errors.Join(n.chat(), n.rested()); err != nil {
				return err
			}
		}
	}
	for _, n := range lanes { // a one-shot is killed in its start-up, too
		if chat {
			err = n.work()
		} else {
			err = n.begin(n.ralph("--quiet", "--max-turns", "0", "begin"))
		}
		if err != nil {
			return err
		}
	}
	if err := l.killAll(s, lanes, random, k); err != nil {
		return err
	}
	return l.afterKill(lanes, k)
}

// killAll kills each lane's Ralph at its moment and waits for what it ran.
func (l *lab) killAll(s shape, lanes []*lane, random *rand.Rand, k *killed9) (err error) {
	began := time.Now()
	moments := make([]time.Duration, len(lanes))
	for i := range moments {
		moments[i] = time.Duration(random.Int64N(int64(killWithin)))
	}
	slices.Sort(moments)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	if s.gated {
		wg.Go(func() { keepOpen(lanes, quit) })
	}
	times := make([]float64, len(lanes)) // below 0: nothing ran yet
	var deaths sync.WaitGroup
	for i, n := range lanes {
		time.Sleep(moments[i] - time.Since(began))
		all, terr := table()
		var hold []watched
		for _, e := range l.scan.below(all, n.cmd.Process.Pid) {
			if w, ok := open(e); ok {
				hold = append(hold, w)
			}
		}
		if times[i] = -1; len(hold) > 0 {
			k.running++
		}
		at := time.Now()
		err = errors.Join(err, terr, n.cmd.Process.Kill())
		<-n.exited
		k.kills++
		deaths.Go(func() {
			for _, w := range hold {
				w.dies(at.Add(restLimit)) // what lives on counts with the limit
				times[i] = since(at, time.Now())
				w.close()
			}
		})
	}
	deaths.Wait()
	close(quit)
	wg.Wait()
	k.gone = append(k.gone, slices.DeleteFunc(times, func(ms float64) bool { return ms < 0 })...)
	return err
}

// keepOpen opens the gates again and again: the commands come one by one.
func keepOpen(lanes []*lane, quit <-chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			for _, n := range lanes {
				_ = n.open() // mostly nobody waits
			}
		}
	}
}

// afterKill counts what is left and lets a Ralph start again where something is.
func (l *lab) afterKill(lanes []*lane, k *killed9) error {
	left, err := l.remain()
	if err != nil || len(left) == 0 {
		return err
	}
	k.left += len(left)
	var said []byte
	for _, n := range lanes {
		if !slices.ContainsFunc(left, func(f found) bool { return n.holds(f.pid) }) {
			continue
		}
		k.swept++
		n.part.plays()
		var out bytes.Buffer
		c := n.ralph("--max-turns", "2", "go")
		c.Stdout, c.Stderr = &out, &out
		if err := n.begin(c); err != nil {
			return err
		}
		<-n.exited
		if n.err != nil {
			return fmt.Errorf("the next start: %w: %s", n.err, out.Bytes())
		}
		said = out.Bytes()
		if bytes.Contains(out.Bytes(), []byte("had left running")) {
			k.said++
		}
	}
	if left, err = l.scan.survivors(); err != nil {
		return err
	}
	if k.stay += len(left); len(left) > 0 {
		fmt.Printf("  the last start said: %.300s\n", said)
	}
	l.name(left)
	return l.scan.clear()
}

// holds says that a process has the lane's mark file open.
func (n *lane) holds(pid int) bool {
	at := fmt.Sprintf("/proc/%d/fd", pid)
	fds, _ := os.ReadDir(at) // a process that is gone has none
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		to, err := os.Readlink(at + "/" + fd.Name())
		return err == nil && to == n.mark()
	})
}

// drop ends the lane whatever it does.
func (n *lane) drop() error {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // mostly dead
		<-n.exited
	}
	if n.tty != nil {
		n.tty.close()
	}
	return os.RemoveAll(n.dir)
}
