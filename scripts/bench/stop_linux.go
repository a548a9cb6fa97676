package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	lanesAtOnce  = 20 // so many chats are brought to the moment together; each is then stopped alone
	runsOfAChat  = 10
	goneLimit    = 3 * time.Second // what lives longer has survived
	betweenStops = 15 * time.Millisecond
	stopsPerBare = 4 // the floor is measured in turn with the stops
)

// stopped is one measured stop.
type stopped struct {
	input, told, rest, gone, look, idle float64 // ms
	recorded                            bool    // the interruption was on disk when the prompt came to rest
}

// stopsOf gathers the runs of one shape.
type stopsOf struct {
	input, told, rest, gone, look, idle, bare []float64
	survivors, unrecorded                     int
}

// stops measures ^C in a chat under a pseudo-terminal, with eight commands of
// each shape running.
func (l *lab) stops() error {
	if err := l.openScanner(); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg") // empty where it cannot be read
	fmt.Printf("\n^C in `ralph chat` on a pseudo-terminal with %d commands running; %d processors, load %.14s\n", agents, runtime.NumCPU(), load)
	fmt.Printf("  up to %d chats stand ready with the same work at once, one after the other is stopped; the scanner reads the process table by descent and marks\n", lanesAtOnce)
	if err := l.plant(); err != nil {
		return err
	}
	fmt.Print(`  input    from the byte ^C until a key typed right behind it stands in the prompt, whatever the prompt says
  told     … and the prompt no longer shows the work as running: it says stopping, or nothing runs
  rest     … and the prompt shows that nothing runs: the stop is recorded, the next line is acted on
  gone     from ^C until the last process of the work has died
  bare     SIGKILL to the process groups of 8 plain sleeps until all have died; after every fourth stop
  idle     the same key in the same chat with nothing running: what terminal, bench and echo take by themselves
`)
	fmt.Printf("%-22s %19s %19s %19s %19s %14s %14s %5s %5s\n", "ms: p50 / p99 / max", "input", "told", "rest", "gone", "bare", "idle", "n", "left")
	var all stopsOf
	for _, s := range shapes() {
		f, err := l.stopsOfShape(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		f.print(s.name)
		all.add(f)
	}
	all.print("all")
	fmt.Printf("  when the prompt was at rest the journal held the interruption in %d of %d runs\n", len(all.rest)-all.unrecorded, len(all.rest))
	fmt.Printf("  after a stop Ralph itself looks with git what was changed; that had ended by %s ms after ^C\n", three(all.look))
	fmt.Printf("  gone is %.1f times bare at the median, %.1f times at p99; survivors: %d in %d runs\n",
		at(all.gone, 50)/at(all.bare, 50), at(all.gone, 99)/at(all.bare, 99), all.survivors, len(all.gone))
	return nil
}

func (f *stopsOf) add(o stopsOf) {
	f.input, f.told, f.rest = append(f.input, o.input...), append(f.told, o.told...), append(f.rest, o.rest...)
	f.gone, f.look, f.idle, f.bare = append(f.gone, o.gone...), append(f.look, o.look...), append(f.idle, o.idle...), append(f.bare, o.bare...)
	f.survivors, f.unrecorded = f.survivors+o.survivors, f.unrecorded+o.unrecorded
}

func (f *stopsOf) print(name string) {
	fmt.Printf("%-22s %19s %19s %19s %19s %14s %14s %5d %5d\n", name, three(f.input), three(f.told), three(f.rest), three(f.gone),
		two(f.bare), two(f.idle), len(f.gone), f.survivors)
}

func (l *lab) stopsOfShape(s shape) (f stopsOf, err error) {
	for f.n() < l.stopRuns {
		rounds := min(runsOfAChat, (l.stopRuns-f.n()+lanesAtOnce-1)/lanesAtOnce)
		if err := l.stopRounds(s, rounds, &f); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *stopsOf) n() int { return len(f.gone) }

// stopRounds opens the chats, stops each of them several times, and leaves.
func (l *lab) stopRounds(s shape, rounds int, f *stopsOf) (err error) {
	var lanes []*lane
	defer func() {
		for _, n := range lanes {
			err = errors.Join(err, n.leave(), os.RemoveAll(n.dir))
		}
		err = errors.Join(err, l.count(&f.survivors))
	}()
	for range min(lanesAtOnce, l.stopRuns) {
		n, err := l.newLane()
		if err != nil {
			return err
		}
		lanes = append(lanes, n)
		if err := n.chat(); err != nil {
			return err
		}
	}
	for _, n := range lanes {
		if err := n.rested(); err != nil {
			return err
		}
	}
	for range rounds {
		for _, n := range lanes {
			n.play(s)
			if err := n.work(); err != nil {
				return err
			}
		}
		if err := l.allThere(s, lanes); err != nil {
			return err
		}
		for i, n := range lanes {
			one, err := n.stop(s)
			if err != nil {
				return err
			}
			f.take(one)
			if i%stopsPerBare > 0 {
				continue
			}
			bare, err := l.bareKill()
			if err != nil {
				return err
			}
			f.bare = append(f.bare, bare)
		}
		if err := l.count(&f.survivors); err != nil {
			return err
		}
	}
	return nil
}

func (f *stopsOf) take(o stopped) {
	f.input, f.told, f.rest = append(f.input, o.input), append(f.told, o.told), append(f.rest, o.rest)
	f.gone, f.look, f.idle = append(f.gone, o.gone), append(f.look, o.look), append(f.idle, o.idle)
	if !o.recorded {
		f.unrecorded++
	}
}

// remain are the survivors by every clue, after restLimit at most: a look with
// git may be under way.
func (l *lab) remain() (list []found, err error) {
	for deadline := time.Now().Add(restLimit); ; time.Sleep(10 * time.Millisecond) {
		if list, err = l.scan.survivors(); err != nil || len(list) == 0 || time.Now().After(deadline) {
			return list, err
		}
	}
}

// count adds up the survivors, names some and ends them.
func (l *lab) count(survivors *int) error {
	list, err := l.remain()
	if err != nil || len(list) == 0 {
		return err
	}
	*survivors += len(list)
	l.name(list)
	return l.scan.clear()
}

// name prints a few of the survivors.
func (l *lab) name(list []found) {
	const few, most = 3, 30
	for _, p := range list[:min(len(list), few)] {
		if l.named++; l.named <= most {
			fmt.Printf("  survivor: %.200v\n", p)
		}
	}
}

// stop types ^C and a key and measures.
func (n *lane) stop(s shape) (o stopped, err error) {
	if err := n.ripen(s); err != nil {
		return o, err
	}
	all, err := table()
	if err != nil {
		return o, err
	}
	var hold []watched
	for _, e := range n.l.scan.below(all, n.cmd.Process.Pid) {
		if w, ok := open(e); ok {
			hold = append(hold, w)
		}
	}
	time.Sleep(betweenStops) // the bench itself is at rest
	if _, err := n.sees("a prompt that shows work before the stop", n.tty.expect(atWork)); err != nil {
		return o, err
	}
	input, told, rest := n.tty.expect(echoed("q")), n.tty.expect(stopTold("q")), n.tty.expect(atRest("q"))
	began := time.Now()
	if err := errors.Join(n.tty.typeKeys("\x03"), n.tty.typeKeys("q")); err != nil {
		return o, err
	}
	r, err := n.l.scan.emptied(n.l.ctx, n.cmd.Process.Pid, hold, goneLimit)
	if err != nil {
		return o, err
	}
	o.gone, o.look = since(began, r.gone), since(began, r.idle)
	for _, w := range []struct {
		s    *sight
		what string
		to   *float64
	}{{input, "the key behind ^C", &o.input}, {told, "that it is being stopped", &o.told}, {rest, "a prompt at rest after ^C", &o.rest}} {
		seen, err := n.sees(w.what, w.s)
		if err != nil {
			return o, err
		}
		*w.to = since(began, seen)
	}
	if o.recorded, err = n.interrupted(); err != nil {
		return o, err
	}
	if err := n.key("\x15", ""); err != nil {
		return o, err
	}
	began = time.Now()
	seen, err := n.keyAt("q", "q")
	if err != nil {
		return o, err
	}
	o.idle = since(began, seen)
	return o, n.key("\x15", "")
}

// interrupted says that the journal holds as many interruptions as there were.
func (n *lane) interrupted() (bool, error) {
	paths, err := filepath.Glob(filepath.Join(n.project, ".ralph", "sessions", "*", "journal.jsonl"))
	if err != nil {
		return false, err
	}
	count := 0
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		count += bytes.Count(raw, []byte(`"kind":"interrupted"`))
	}
	return count >= n.turns, nil
}

// key types a key at rest and waits for what the prompt then holds.
func (n *lane) key(key, typed string) error {
	_, err := n.keyAt(key, typed)
	return err
}

func (n *lane) keyAt(key, typed string) (time.Time, error) {
	if err := n.tty.typeKeys(key); err != nil {
		return time.Time{}, err
	}
	return n.sees(fmt.Sprintf("a prompt at rest with %q", typed), n.tty.expect(atRest(typed)))
}

// bareKill is the floor: a SIGKILL to each of eight plain process groups, until
// all have died.
func (l *lab) bareKill() (ms float64, err error) {
	var hold []watched
	var list []*exec.Cmd
	defer func() {
		for _, c := range list {
			var killed *exec.ExitError
			if werr := c.Wait(); werr != nil && !errors.As(werr, &killed) {
				err = errors.Join(err, werr)
			}
		}
	}()
	for range agents {
		c := exec.Command("sleep", "3600")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			return 0, err
		}
		list = append(list, c)
		e, ok := look(c.Process.Pid)
		w, held := open(e)
		if !ok || !held {
			return 0, errors.Join(errors.New("a plain sleep is not in the table"), c.Process.Kill())
		}
		hold = append(hold, w)
	}
	began := time.Now()
	for _, c := range list {
		err = errors.Join(err, syscall.Kill(-c.Process.Pid, syscall.SIGKILL))
	}
	for _, w := range hold {
		if !w.dies(began.Add(goneLimit)) {
			err = errors.Join(err, fmt.Errorf("%d does not die", w.pid))
		}
		w.close()
	}
	return since(began, time.Now()), err
}

// openScanner makes the bench the subreaper of all it starts from here on.
func (l *lab) openScanner() (err error) {
	if l.scan != nil {
		return nil
	}
	l.scan, err = newScanner(l.dir)
	return err
}
