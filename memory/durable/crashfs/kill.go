package crashfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"
)

// Killing is what Kills does.
type Killing struct {
	// Rounds is how many processes are killed.
	Rounds int
	// Seed makes other instants.
	Seed uint64
	// Start starts the process of a round, which writes a line to acks for each
	// thing as soon as it was acknowledged to it, and goes on until it is killed.
	Start func(round int, acks *os.File) (*os.Process, error)
	// Check is told what was acknowledged, by this round, before the process
	// died, and returns an error when some of it is not there. It is called
	// before the next Start.
	Check func(round int, acked []string) error
	// Longest bounds how long a process lives after its first line; zero is 20
	// ms.
	Longest time.Duration
}

// Kills kills real processes with SIGKILL at random instants. It returns how
// many lines were acknowledged in all. Each process must acknowledge something
// within 30 seconds.
func Kills(k Killing) (acked int, err error) {
	if k.Longest == 0 {
		k.Longest = 20 * time.Millisecond
	}
	r := rand.New(rand.NewPCG(k.Seed, 1))
	for round := range k.Rounds {
		lines, err := kill(k, round, time.Duration(r.Int64N(int64(k.Longest))))
		acked += len(lines)
		if err == nil {
			err = k.Check(round, lines)
		}
		if err != nil {
			return acked, fmt.Errorf("kill %d, after %d lines: %w", round, len(lines), err)
		}
	}
	return acked, nil
}

// kill runs one process, and returns its whole lines.
func kill(k Killing, round int, life time.Duration) ([]string, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	p, err := k.Start(round, to)
	// The process holds the only other end, so that reading ends with it.
	err = errors.Join(err, to.Close())
	if err != nil {
		return nil, err
	}
	if err := from.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	in := bufio.NewReader(from)
	first, err := in.ReadString('\n')
	if err != nil {
		_ = p.Kill()
		_, werr := p.Wait()
		return nil, errors.Join(fmt.Errorf("it acknowledged nothing: %w", err), werr)
	}
	// The pipe must not fill up meanwhile: read on until it is time.
	timer := time.AfterFunc(life, func() { _ = p.Kill() })
	rest, err := io.ReadAll(in)
	timer.Stop()
	_ = p.Kill() // it may have gone by itself: the wait tells
	state, werr := p.Wait()
	if err = errors.Join(err, werr); err != nil {
		return nil, err
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		return nil, fmt.Errorf("it ended by itself: %v", state)
	}
	all := first + string(rest)
	all = all[:strings.LastIndexByte(all, '\n')] // a torn line acknowledges nothing
	return strings.Split(all, "\n"), nil
}
