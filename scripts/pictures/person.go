package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/mattn/go-runewidth"
)

const (
	// filler marks the second cell of a wide character: the model gives every rune
	// one cell, so it is fed wide ones as two.
	filler = '\uE123'
	// betweenKeys is how fast the person types, and rest how long a screen has to
	// stand still before it is taken.
	betweenKeys = 4 * time.Millisecond
	rest        = 400 * time.Millisecond
)

// person sits at a terminal with a shell on it. It is used by one goroutine; a
// step that fails makes those after it do nothing.
type person struct {
	ctx   context.Context
	tty   *os.File
	shell *os.Process
	dir   string // of the project
	first string // the commit that the project begins with
	shots []shot
	err   error
	done  chan struct{} // closed when nothing more comes from the terminal

	mu      sync.Mutex // guards the fields below
	model   vt10x.Terminal
	written time.Time     // when something came last
	changed chan struct{} // closed, and made anew, when something comes
}

// play has a person play a scene in a directory of its own, and returns the
// pictures taken. env is added to the environment of the shell.
func play(ctx context.Context, s scene, ralph string, env ...string) (shots []shot, err error) {
	ctx, cancel := context.WithTimeout(ctx, sceneTime)
	defer cancel()
	top, err := os.MkdirTemp("", "ralph-pictures-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove(top)) }()
	if top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	dir := filepath.Join(top, s.project)
	for name, text := range s.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	bin := filepath.Join(top, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.MkdirAll(dir, 0o755), os.Symlink(ralph, filepath.Join(bin, "ralph"))); err != nil {
		return nil, err
	}
	p, err := sit(ctx, s, dir, append([]string{
		"HOME=" + top, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8", "PS1=$ ", "HISTFILE=",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@localhost", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@localhost", "GIT_CONFIG_NOSYSTEM=1",
		"RALPH_MODEL=gpt-5", "RALPH_SANDBOX=off", "RALPH_THEME=dark", "RALPH_NOTIFY=off", "EDITOR=vi", "BASH_SILENCE_DEPRECATION_WARNING=1",
	}, env...))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	p.command("git init -q -b main . && git add -A && git commit -qm 'first version' && clear && echo rea''dy && clear")
	p.until("the shell is ready", func(screen string) bool { return strings.TrimSpace(screen) == "$" })
	first, err := os.ReadFile(filepath.Join(dir, ".git", "refs", "heads", "main"))
	if p.first = string(first); err != nil && p.err == nil {
		p.err = err
	}
	s.play(p)
	return p.shots, p.err
}

// remove removes a directory in which something may still be ending.
func remove(dir string) error {
	err := os.RemoveAll(dir)
	for range 50 {
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
		err = os.RemoveAll(dir)
	}
	return err
}

// sit starts a shell on a terminal.
func sit(ctx context.Context, s scene, dir string, env []string) (*person, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer func() { _ = slave.Close() }()
	if err := pty.Setsize(master, &pty.Winsize{Cols: uint16(s.cols), Rows: uint16(s.rows)}); err != nil {
		return nil, errors.Join(err, master.Close())
	}
	p := &person{ctx: ctx, tty: master, dir: dir, done: make(chan struct{}), changed: make(chan struct{})}
	p.model = vt10x.New(vt10x.WithSize(s.cols, s.rows), vt10x.WithWriter(io.Discard))
	p.shell, err = os.StartProcess("/bin/bash", []string{"bash", "--norc", "--noprofile", "-i"}, &os.ProcAttr{
		Dir: dir, Env: env, Files: []*os.File{slave, slave, slave}, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the shell: %w", err), master.Close())
	}
	go p.watch()
	return p, nil
}

// watch feeds the model until the terminal is gone.
func (p *person) watch() {
	defer close(p.done)
	var in feed
	buf := make([]byte, 16<<10)
	for {
		n, err := p.tty.Read(buf)
		if err != nil {
			return
		}
		text := in.take(buf[:n])
		p.mu.Lock()
		_, _ = p.model.Write([]byte(text)) // it takes everything
		p.written = time.Now()
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// leave ends the shell and what runs on the terminal.
func (p *person) leave() error {
	// After a scene that went well the shell waits for a command. Else the hangup
	// reaches all that is on the terminal.
	_, err := p.tty.WriteString("exit\r")
	if p.err != nil {
		err = errors.Join(err, p.shell.Signal(syscall.SIGHUP))
	}
	ended := make(chan struct{})
	go func() { _, err = p.shell.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = p.shell.Kill()
		<-ended
	}
	cerr := p.tty.Close()
	<-p.done
	return errors.Join(err, cerr)
}

func (p *person) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.done:
	}
}

// keys types, one key after the other.
func (p *person) keys(text string) {
	for _, r := range text {
		if p.err != nil {
			return
		}
		if _, err := p.tty.WriteString(string(r)); err != nil {
			p.err = fmt.Errorf("type %q: %w", text, err)
		}
		p.wait(betweenKeys)
	}
}

// command types a line and Enter.
func (p *person) command(line string) {
	p.keys(line)
	p.keys("\r")
}

// tape has the commands from now on use the n-th cassette of the scene: each
// process begins at the start of one.
func (p *person) tape(n int) {
	p.command(fmt.Sprintf(`for v in RALPH_REPLAY RALPH_RECORD; do [ -z "${!v}" ] || export $v="${TAPE:-${TAPE:=${!v%%.yaml}}}-%d.yaml"; done`, n))
	p.back()
}

// sees waits until all of the words stand on the screen.
func (p *person) sees(words ...string) {
	p.until(fmt.Sprintf("%q", words), func(screen string) bool {
		for _, w := range words {
			if !strings.Contains(screen, w) {
				return false
			}
		}
		return true
	})
}

// until waits for a fact about the screen.
func (p *person) until(what string, ok func(screen string) bool) {
	for p.err == nil {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		screen := p.screen().text()
		if strings.Contains(screen, "replay: ") {
			p.err = fmt.Errorf("the work differs from the recording; make pictures records it anew:\n%s", screen)
			return
		}
		if ok(screen) {
			return
		}
		select {
		case <-changed:
		case <-p.done:
			p.err = fmt.Errorf("the terminal ended before %s was seen:\n%s", what, screen)
		case <-p.ctx.Done():
			p.err = fmt.Errorf("%s was not seen: %w\n%s", what, context.Cause(p.ctx), screen)
		}
	}
}

// back waits for the shell to ask for the next command.
func (p *person) back() {
	p.until("the shell", func(screen string) bool { return strings.HasSuffix("\n"+screen, "\n$") })
}

// kept waits until what stopped agents had done is on their branches, which comes
// a moment after the stop.
func (p *person) kept(agents ...string) {
	for _, a := range agents {
		for p.err == nil {
			now, err := os.ReadFile(filepath.Join(p.dir, ".git", "refs", "heads", "ralph", a))
			base, berr := os.ReadFile(filepath.Join(p.dir, ".git", "refs", "heads", "main"))
			if err = errors.Join(err, berr); err == nil && string(now) != string(base) && string(now) != p.first {
				break
			}
			if p.wait(rest / 4); p.ctx.Err() != nil {
				p.err = fmt.Errorf("the work of %s was not kept: %w", a, errors.Join(context.Cause(p.ctx), err))
			}
		}
	}
	p.wait(rest) // it is written down after that
}

// picture takes what stands on the screen, when it has come to rest. A screen on
// which something moves all the time does so a few times a second only.
func (p *person) picture(name, title string, words ...string) {
	p.sees(words...)
	for range 20 {
		p.mu.Lock()
		quiet := time.Since(p.written)
		p.mu.Unlock()
		if p.err != nil || quiet >= rest {
			break
		}
		p.wait(rest / 4)
	}
	p.sees(words...)
	if p.err == nil {
		s := p.screen()
		s.name, s.title = name, title
		p.shots = append(p.shots, s)
	}
}

// screen copies the cells.
func (p *person) screen() shot {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.model.Lock()
	defer p.model.Unlock()
	cols, rows := p.model.Size()
	s := shot{cols: cols, cursor: p.model.CursorVisible(), at: p.model.Cursor()}
	for y := range rows {
		row := make([]cell, cols)
		for x := range cols {
			g := p.model.Cell(x, y)
			row[x] = cell{r: g.Char, mode: g.Mode, fg: g.FG, bg: g.BG}
			if g.Char == 0 {
				row[x].r = ' '
			}
		}
		s.rows = append(s.rows, row)
	}
	return s
}

// feed makes of the bytes of a terminal what the model understands: whole runes,
// wide ones as two cells, and faint text, which it does not know, as blinking.
type feed struct{ left string }

func (f *feed) take(b []byte) string {
	text := f.left + string(b)
	whole := len(text) - partial(text)
	f.left = text[whole:]
	var out strings.Builder
	for text = text[:whole]; text != ""; {
		if n := sgr(text); n > 0 {
			out.WriteString(faint(text[:n]))
			text = text[n:]
			continue
		}
		r := []rune(text[:min(4, len(text))])[0]
		size := max(1, len(string(r)))
		if r == '\uFFFD' && !strings.HasPrefix(text, "\uFFFD") {
			size = 1
		}
		switch w := runewidth.RuneWidth(r); {
		case r < 0x20 || w == 1:
			out.WriteRune(r)
		case w == 2:
			out.WriteRune(r)
			out.WriteRune(filler)
		}
		text = text[size:]
	}
	return out.String()
}

// partial counts the bytes at the end that begin a rune or a sequence.
func partial(text string) int {
	if i := strings.LastIndexByte(text, 0x1b); i >= 0 && len(text)-i < 64 && strings.IndexFunc(text[i+1:], func(r rune) bool { return r >= '@' && r != '[' }) < 0 {
		return len(text) - i
	}
	for n := 1; n <= 3 && n <= len(text); n++ {
		switch c := text[len(text)-n]; {
		case c < 0x80:
			return 0
		case c >= 0xf0 && n < 4, c >= 0xe0 && n < 3, c >= 0xc0 && n < 2:
			return n
		case c >= 0xc0:
			return 0
		}
	}
	return 0
}

// sgr is the length of the sequence that sets colours with which text begins.
func sgr(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	n := 2 + len(text[2:]) - len(strings.TrimLeft(text[2:], "0123456789;"))
	if n < len(text) && text[n] == 'm' {
		return n + 1
	}
	return 0
}

// faint writes 2 as 5, and ends both with 22.
func faint(seq string) string {
	params := strings.Split(seq[2:len(seq)-1], ";")
	for i := 0; i < len(params); i++ {
		switch params[i] {
		case "38", "48":
			if i+1 < len(params) && params[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		case "2":
			params[i] = "5"
		case "22":
			params[i] = "22;25"
		}
	}
	return "\x1b[" + strings.Join(params, ";") + "m"
}
