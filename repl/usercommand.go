package repl

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ralph/coordinator/desk"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/repl/render"
)

const (
	// headRows and headBytes bound how much of a command's output is shown as it
	// comes; of what follows the last tailRows are shown at its end.
	headRows  = 200
	headBytes = 64 << 10
	tailRows  = 40
	// rowBytes bounds one row of output.
	rowBytes = 4 << 10
	// aboutRunes bounds the command in the line about its end.
	aboutRunes = 40
	// ownMark begins a line that is a command of the user's own.
	ownMark = "!"
)

// jobs are the commands that the user runs beside everything else. Safe for
// concurrent use.
type jobs struct {
	mu   sync.Mutex // guards runs
	runs []*ownRun
}

// ownRun is one of them.
type ownRun struct {
	text   string
	begun  time.Time
	cancel context.CancelCauseFunc
}

func (j *jobs) add(one *ownRun) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs = append(j.runs, one)
}

func (j *jobs) remove(one *ownRun) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs = slices.DeleteFunc(j.runs, func(other *ownRun) bool { return other == one })
}

// stop ends all of them and waits for nothing. It reports whether there were any.
func (j *jobs) stop(cause error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.runs {
		one.cancel(cause)
	}
	return len(j.runs) > 0
}

func (j *jobs) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs)
}

// ownLine takes a line apart that is a command of the user's own.
func ownLine(text string) (command string, ok bool) {
	command, ok = strings.CutPrefix(strings.TrimSpace(text), ownMark)
	return strings.TrimSpace(command), ok
}

// onOwnLine does such a line, at once, whatever else goes on. It reports whether it
// is one.
func (s *Shell) onOwnLine(text string) bool {
	command, ok := ownLine(text)
	if !ok || !s.ready {
		return false
	}
	s.history.add(text)
	s.said(text)
	s.own(command)
	return true
}

// own runs a command of the user's own: as the one thing that runs, or beside what
// does. A pipe says nothing more until it has ended.
func (s *Shell) own(command string) {
	switch {
	case command == "":
		s.help(ownMark)
	case s.mind.Hands == nil:
		s.fail("this chat runs no commands", "another terminal does")
	case fullScreen(command):
		s.fail(strings.Fields(command)[0]+" needs the terminal, and a command of your own does not get it", "/edit FILE opens your editor here; Ctrl-Z leads back to your shell, and fg to Ralph")
	case s.busy():
		s.beside(command)
	default:
		s.start(ownMark+render.Brief(command), false, func(ctx context.Context) func() { return s.runOwn(ctx, command) })
	}
}

// fullScreen says that a command is an editor, which would wait for keys for ever.
// With options, as --version, it may not be.
func fullScreen(command string) bool {
	words := strings.Fields(command)
	if len(words) == 0 || strings.Contains(strings.ReplaceAll(command, " -nw", ""), " -") || strings.ContainsAny(command, "|;&<>") {
		return false
	}
	return slices.Contains([]string{"vi", "vim", "nvim", "view", "vimdiff", "nano", "pico", "emacs", "micro", "hx", "joe"}, path.Base(words[0]))
}

// onlyMoves says that a command does nothing but change its own folder.
func onlyMoves(command string) bool {
	words := strings.Fields(command)
	return len(words) > 0 && slices.Contains([]string{"cd", "pushd", "popd"}, words[0]) && !strings.ContainsAny(command, "|;&\n")
}

// beside runs a command while other work goes on, and may outlast it.
func (s *Shell) beside(command string) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	one := &ownRun{text: command, begun: time.Now(), cancel: cancel}
	s.jobs.add(one)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer cancel(nil)
		after := s.guarded(ctx, func(ctx context.Context) func() { return s.runOwn(ctx, command) })
		s.post(after)
		s.jobs.remove(one) // after: a script rests when there are none, and nothing is posted
	}()
}

// setBeside lets work begin though a command of the user's own runs: from then on
// that runs beside it.
func (s *Shell) setBeside() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work
	if w == nil || !strings.HasPrefix(w.label, ownMark) || s.stops > 0 {
		return
	}
	w.beside = &ownRun{text: w.label, begun: w.begun, cancel: w.cancel}
	s.jobs.add(w.beside)
	s.work = nil
}

// runOwn runs it and shows what it prints.
func (s *Shell) runOwn(ctx context.Context, command string) func() {
	t := &tap{title: render.Brief(command), begun: time.Now(), print: func(rows []string) {
		s.ink.say(func(*render.Renderer) string { return printed(rows) })
	}}
	s.ink.watch(t)
	done, err := s.mind.Hands.Shell(ctx, command, t.write)
	s.ink.unwatch(t)
	t.close()
	return func() { s.ownEnded(done, err, context.Cause(ctx)) }
}

func (s *Shell) ownEnded(done desk.UserCommand, err, cause error) {
	_, stopped := interrupts.AsStop(cause)
	if _, ok := interrupts.AsStop(err); ok {
		stopped = true
	}
	what := shorten(render.Brief(done.Command), aboutRunes)
	about := fmt.Sprintf("%s: exit %d", what, done.ExitCode)
	if done.Duration > 0 {
		about += ", " + render.Duration(done.Duration)
	}
	switch {
	case stopped || done.Stopped:
		if what == "" {
			what = "the command"
		}
		s.ink.say(func(r *render.Renderer) string { return r.Warning(what + ": stopped") })
	case err != nil:
		s.explain(err)
	case done.ExitCode != 0:
		s.ink.say(func(r *render.Renderer) string { return r.Warning(about) })
	case onlyMoves(done.Command):
		s.note("nothing has moved: each command begins in the project's folder; !cd sub && make runs one elsewhere")
	default:
		s.note(about)
	}
}

// printed are rows of a command as they are shown: not broken, so that a terminal
// that is made wider, or a copy of them, has them whole.
func printed(rows []string) string {
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(strings.TrimRight("  "+row, " ") + "\n")
	}
	return b.String()
}

// tap takes what a command prints: its beginning is shown as it comes, and its end
// when it has ended. write and close are called one at a time; now at any time, also
// by who prints: nothing is printed while mu is held.
type tap struct {
	title string
	begun time.Time
	print func(rows []string)

	mu     sync.Mutex // guards the fields below
	rest   []byte     // the row that has not ended yet
	rows   int        // shown so far
	bytes  int
	last   []string // the newest of those that were not shown
	hidden int      // rows that were not shown
	closed bool
}

// write takes what was printed. Nothing is held while it is shown: what is shown has
// a row about the command below it.
func (t *tap) write(p []byte) { t.say(t.take(p)) }

// take returns the rows that are to be shown.
func (t *tap) take(p []byte) (shown []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			t.begin(p)
			break
		}
		t.begin(p[:i])
		shown = t.end(shown)
		p = p[i+1:]
	}
	return shown
}

// begin adds to the row that has not ended; mu is held.
func (t *tap) begin(p []byte) {
	if i := bytes.LastIndexByte(p[:max(len(p)-1, 0)], '\r'); i >= 0 {
		t.rest, p = t.rest[:0], p[i+1:] // written over, as a bar of progress is
	} else if n := len(t.rest); n > 0 && len(p) > 0 && t.rest[n-1] == '\r' {
		t.rest = t.rest[:0]
	}
	t.rest = append(t.rest, p[:min(len(p), max(rowBytes-len(t.rest), 0))]...)
}

// end ends the row: it is shown, or kept for the end; mu is held.
func (t *tap) end(shown []string) []string {
	row := plainRow(t.rest)
	t.rest = t.rest[:0]
	if t.rows < headRows && t.bytes+len(row) <= headBytes {
		t.rows++
		t.bytes += len(row)
		return append(shown, row)
	}
	t.rows = headRows // nothing more, however short it is
	t.hidden++
	if t.last = append(t.last, row); len(t.last) > tailRows {
		t.last = slices.Delete(t.last, 0, len(t.last)-tailRows)
	}
	return shown
}

func (t *tap) say(rows []string) {
	if len(rows) > 0 {
		t.print(rows)
	}
}

// close shows the end.
func (t *tap) close() { t.say(t.finish()) }

func (t *tap) finish() (shown []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rest) > 0 {
		shown = t.end(nil)
	}
	if n := t.hidden - len(t.last); n > 0 {
		shown = append(shown, fmt.Sprintf("… %s left out …", text.Count(n, "line")))
	}
	shown = append(shown, t.last...)
	t.closed, t.last = true, nil
	return shown
}

// now is the command in a row: how long it runs, and what it says at the moment.
func (t *tap) now(at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := []string{ownMark + " " + t.title}
	if d := at.Sub(t.begun); d >= patience {
		parts = append(parts, elapsed(d))
	}
	if t.hidden > 0 {
		parts = append(parts, text.Count(t.hidden, "more line"))
	}
	if row := strings.TrimSpace(plainRow(t.rest)); row != "" {
		parts = append(parts, row)
	} else if n := len(t.last); n > 0 {
		parts = append(parts, strings.TrimSpace(t.last[n-1]))
	}
	return strings.Join(parts, " · ")
}

// plainRow is a row of output without colours, with its columns where the program
// put them.
func plainRow(row []byte) string {
	text := ansi.Strip(strings.ToValidUTF8(strings.TrimRight(string(row), "\r"), "\uFFFD"))
	if !strings.Contains(text, "\t") {
		return render.SafeLine(text)
	}
	var b strings.Builder
	column := 0
	for i, part := range strings.Split(text, "\t") {
		if i > 0 {
			gap := 8 - column%8
			b.WriteString(strings.Repeat(" ", gap))
			column += gap
		}
		part = render.SafeLine(part)
		b.WriteString(part)
		column += ansi.StringWidth(part)
	}
	return b.String()
}
