package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	chatStarts  = 30
	chatFiles   = 100_000
	chatKeys    = 1000
	chatLine    = 20 // keys of a line
	chatIdle    = 5 * time.Second
	idleTimes   = 5
	chatRate    = 1000 // tokens a second
	chatTokens  = 6000
	chatAnswers = 3
	agentRate   = 200

	startAim = 50 // ms
	echoAim  = 15 // ms, at p99
)

// chats measures what a person at the chat feels: how soon it is there, how soon a
// key is on the screen, what it costs when nothing happens, and how much is
// written to the terminal.
func (l *lab) chats() error {
	if err := l.openScanner(); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg") // empty where it cannot be read
	fmt.Printf("\n`ralph chat` on a pseudo-terminal of %d × %d; %d processors, load %.14s\n", ttyCols, ttyRows, runtime.NumCPU(), load)
	for _, part := range []func() error{l.chatStart, l.chatEcho, l.chatIdles, l.chatStreams} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// chatStart starts chats in a small and in a large project, next to a shell that
// prints a prompt and lets the terminal echo.
func (l *lab) chatStart() error {
	headAt("start of a chat", "shell")
	for _, files := range []int{1, chatFiles} {
		n, err := l.newLane()
		if err != nil {
			return err
		}
		if err := fillProject(l, n.project, files); err != nil {
			return err
		}
		var frame, echo, bareFrame, bareEcho []float64
		for i := range chatStarts + 1 {
			f, e, err := n.firsts(n.ralph("chat", "--theme", "dark", "--new"), "\x15\x04")
			if err != nil {
				return err
			}
			bf, be, err := n.firsts(l.shell(`printf '❯ '; exec cat`), "\x15\x04\x04")
			if err != nil {
				return err
			}
			if i > 0 {
				frame, echo, bareFrame, bareEcho = append(frame, f), append(echo, e), append(bareFrame, bf), append(bareEcho, be)
			}
		}
		rowAt(fmt.Sprintf("  %d files: first frame", files), "ms", frame, bareFrame)
		rowAt(fmt.Sprintf("  %d files: first key", files), "ms", echo, bareEcho)
		fmt.Printf("  aim: first frame ≤ %d ms: %s at p50, %s at p99\n", startAim, met(at(frame, 50) <= startAim), met(at(frame, 99) <= startAim))
		if err := os.RemoveAll(n.dir); err != nil {
			return err
		}
	}
	return nil
}

// firsts starts a program on a terminal of its own and times the first prompt and
// the first key on the screen, both from the start; then it types the last keys.
func (n *lane) firsts(c *exec.Cmd, last string) (frame, echo float64, err error) {
	if n.tty, err = openTTY(); err != nil {
		return 0, 0, err
	}
	defer n.tty.close()
	c.Stdin, c.Stdout, c.Stderr = n.tty.slave, n.tty.slave, n.tty.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	first := n.tty.expect(prompted)
	began := time.Now()
	if err := n.begin(c); err != nil {
		return 0, 0, err
	}
	seen, err := n.sees("a prompt", first)
	if err != nil {
		return 0, 0, errors.Join(err, n.kill())
	}
	key := n.tty.expect(echoed("q"))
	if err := n.tty.typeKeys("q"); err != nil {
		return 0, 0, errors.Join(err, n.kill())
	}
	shown, err := n.sees("the first key", key)
	if err != nil {
		return 0, 0, errors.Join(err, n.kill())
	}
	if err := n.tty.typeKeys(last); err != nil {
		return 0, 0, errors.Join(err, n.kill())
	}
	select {
	case <-n.exited:
		return since(began, seen), since(began, shown), nil
	case <-time.After(10 * time.Second):
		return 0, 0, errors.Join(fmt.Errorf("%s does not leave; the screen is\n%s", filepath.Base(c.Path), n.tty.screen()), n.kill())
	}
}

func (n *lane) kill() error {
	err := n.cmd.Process.Kill()
	<-n.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// prompted is a screen with a prompt, whatever it says.
func prompted(t *tty) bool {
	_, _, ok := t.prompt()
	return ok
}

// fillProject makes a project of so many files, in the index of git.
func fillProject(l *lab, root string, files int) error {
	for i := range files {
		dir := filepath.Join(root, fmt.Sprintf("dir%03d", i/500))
		if i%500 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%06d.go", i)), []byte("package x\n"), 0o600); err != nil {
			return err
		}
	}
	c := exec.CommandContext(l.ctx, "git", "add", "-A")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("git add: %w: %s", err, out)
	}
	return nil
}

// talks opens a chat whose model is m.
func (l *lab) talks(m *talkModel) (*lane, error) {
	n, err := l.newLane()
	if err != nil {
		return nil, err
	}
	l.server.cast(filepath.Base(n.dir), m)
	if err := n.chat(); err != nil {
		return nil, err
	}
	return n, n.rested()
}

// quit leaves a chat and forgets it; what runs is stopped first.
func (n *lane) quit() error {
	return errors.Join(n.tty.typeKeys("\x03"), n.leave(), os.RemoveAll(n.dir))
}

// chatEcho times keys, with nothing to do and while eight agents stream, next to
// the same keys through cat on a raw terminal.
func (l *lab) chatEcho() (err error) {
	m := &talkModel{rate: agentRate}
	m.children = agents
	n, err := l.talks(m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.quit()) }()
	bare, err := l.bareEcho()
	if err != nil {
		return err
	}
	headAt("key to echo", "cat")
	idle, err := n.echoes()
	if err != nil {
		return err
	}
	rowAt("  at rest", "ms", idle, bare)
	if err := n.line(crewWord); err != nil {
		return err
	}
	for late := time.Now().Add(seeWait); m.began.Load() < agents; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			return fmt.Errorf("%d of %d agents stream; the screen is\n%s", m.began.Load(), agents, n.tty.screen())
		}
	}
	said, began := m.said.Load(), time.Now()
	before, err := busyOf(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	busy, err := n.echoes()
	if err != nil {
		return err
	}
	took, streams := time.Since(began), m.began.Load()-m.ended.Load()
	after, err := busyOf(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	rowAt(fmt.Sprintf("  while %d agents stream", agents), "ms", busy, bare)
	fmt.Printf("  %d streams were open at the end; %.0f tokens a second in all, %.0f %% of a processor\n", streams, float64(m.said.Load()-said)/took.Seconds(), percent(after-before, took))
	fmt.Printf("  aim: ≤ %d ms while they stream: %s at p99\n", echoAim, met(at(busy, 99) <= echoAim))
	return nil
}

// echoes types keys one after the other and times each until it stands behind the
// prompt.
func (n *lane) echoes() (list []float64, err error) {
	for line := 0; len(list) < chatKeys; line++ {
		text := ""
		for i := range chatLine {
			text += string(rune('a' + (i+line)%26))
			s := n.tty.expect(echoed(text))
			began := time.Now()
			if err := n.tty.typeKeys(text[len(text)-1:]); err != nil {
				return nil, err
			}
			seen, err := n.sees(fmt.Sprintf("the key behind %q", text[:len(text)-1]), s)
			if err != nil {
				return nil, err
			}
			list = append(list, since(began, seen))
			time.Sleep(time.Duration(3+(i*7+line*3)%17) * time.Millisecond) // no beat with what the chat does
		}
		s := n.tty.expect(echoed(""))
		if err := n.tty.typeKeys("\x15"); err != nil {
			return nil, err
		}
		if _, err := n.sees("an empty line", s); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// bareEcho is the floor: a terminal in raw mode and cat.
func (l *lab) bareEcho() (list []float64, err error) {
	n := &lane{l: l}
	if n.tty, err = openTTY(); err != nil {
		return nil, err
	}
	defer n.tty.close()
	c := l.shell(`stty raw -echo; printf '\033[H❯ '; exec cat`)
	c.Stdin, c.Stdout, c.Stderr = n.tty.slave, n.tty.slave, n.tty.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := n.begin(c); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.kill()) }()
	if _, err := n.sees("a prompt", n.tty.expect(prompted)); err != nil {
		return nil, err
	}
	for len(list) < chatKeys/5 {
		text := ""
		for i := range chatLine {
			text += string(rune('a' + i))
			s := n.tty.expect(echoed(text))
			began := time.Now()
			if err := n.tty.typeKeys(text[len(text)-1:]); err != nil {
				return nil, err
			}
			seen, err := n.sees("a key through cat", s)
			if err != nil {
				return nil, err
			}
			list = append(list, since(began, seen))
			time.Sleep(time.Duration(3+i*7%17) * time.Millisecond)
		}
		s := n.tty.expect(echoed(""))
		if err := n.tty.typeKeys("\r\x1b[K❯ "); err != nil {
			return nil, err
		}
		if _, err := n.sees("an empty line", s); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// chatIdles measures what a chat costs in which nothing happens: fresh, with a
// half-typed line, and after a turn.
func (l *lab) chatIdles() (err error) {
	m := &talkModel{tokens: 100}
	n, err := l.talks(m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.quit()) }()
	for _, s := range []struct{ name, line, keys string }{{"fresh", "", ""}, {"after a turn, a line half typed", "go", "half a line"}} {
		if s.line != "" {
			if err := n.line(s.line); err != nil {
				return err
			}
			if _, err := n.sees("work", n.tty.expect(func(*tty) bool { return m.ended.Load() > 0 })); err != nil {
				return err
			}
			if err := n.rested(); err != nil {
				return err
			}
		}
		if err := n.tty.typeKeys(s.keys); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // what follows a start or a turn is over
		wrote := n.tty.wrote()
		var used []float64
		for range idleTimes {
			before, err := busyOf(n.cmd.Process.Pid)
			if err != nil {
				return err
			}
			time.Sleep(chatIdle)
			after, err := busyOf(n.cmd.Process.Pid)
			if err != nil {
				return err
			}
			used = append(used, percent(after-before, chatIdle))
		}
		slices.Sort(used)
		most := used[len(used)-1]
		fmt.Printf("  idle for %v, %s: %.3f (%.3f–%.3f) %% of a processor, n %d, aim 0: %s; %d bytes written, aim 0: %s\n", chatIdle, s.name, used[len(used)/2], used[0], most,
			len(used), met(most == 0), n.tty.wrote()-wrote, met(n.tty.wrote() == wrote))
	}
	return nil
}

// chatStreams measures an answer at a thousand tokens a second, and the same at
// once: processor time, and bytes written for each byte of Markdown.
func (l *lab) chatStreams() error {
	for _, rate := range []int{chatRate, 0} {
		var cpu, ratio, took []float64
		m := &talkModel{rate: rate, tokens: chatTokens}
		for range chatAnswers {
			if err := l.chatStream(m, &cpu, &ratio, &took); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("%d tokens at %d a second", chatTokens, rate)
		if rate == 0 {
			name = fmt.Sprintf("%d tokens at once", chatTokens)
		}
		for _, list := range []*[]float64{&cpu, &ratio, &took} {
			at(*list, 50) // sorts
		}
		fmt.Printf("  %s (%d bytes of Markdown): %s of a processor, %s bytes written per byte of Markdown, %s; n %d\n",
			name, m.sent.Load()/chatAnswers, spread(cpu, "%"), strings.TrimSpace(spread(ratio, "")), spread(took, "s"), chatAnswers)
	}
	return nil
}

func (l *lab) chatStream(m *talkModel, cpu, ratio, took *[]float64) (err error) {
	n, err := l.talks(m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.quit()) }()
	time.Sleep(time.Second) // what follows a start is over
	sent, wrote, ended, began := m.sent.Load(), n.tty.wrote(), m.ended.Load(), time.Now()
	before, err := busyOf(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := n.line("go"); err != nil {
		return err
	}
	done, err := n.sees("the end of the answer", n.tty.expect(func(t *tty) bool { return m.ended.Load() > ended && atRest("")(t) }))
	if err != nil {
		return err
	}
	after, err := busyOf(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	*cpu = append(*cpu, percent(after-before, done.Sub(began)))
	*ratio = append(*ratio, float64(n.tty.wrote()-wrote)/float64(m.sent.Load()-sent))
	*took = append(*took, done.Sub(began).Seconds())
	return nil
}

// busyOf is the processor time that the threads of a process have used, as the
// scheduler counts it: the ticks of /proc/PID/stat are chance where there is little.
func busyOf(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(threads) == 0 {
		err = os.ErrNotExist
	}
	var sum time.Duration
	for _, path := range threads {
		raw, gone := os.ReadFile(path)
		if gone != nil {
			continue // the thread has ended meanwhile
		}
		var on int64
		if _, err := fmt.Sscan(string(raw), &on); err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		sum += time.Duration(on)
	}
	return sum, err
}

// percent is processor time as a share of one processor.
func percent(busy, d time.Duration) float64 { return 100 * busy.Seconds() / d.Seconds() }
