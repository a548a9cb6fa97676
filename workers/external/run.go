package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"ralph/workers/exec"
	"ralph/workers/tempdir"
)

const (
	// maxArgBytes of a prompt go into one argument; Linux takes 128 KiB.
	maxArgBytes = 120 << 10
	// maxLast bounds what is read of the file with the last message.
	maxLast = 4 << 20
	// patience is how long a program may wait for a quota by itself: longer than
	// a limit per minute lasts.
	patience = 90 * time.Second
	// linger is how long a program may go on after the closing event of a
	// success.
	linger = 30 * time.Second
)

// Run works one request to its end, until the context ends, the time for it is
// used up or the program has been silent for too long. When it returns nothing of
// the program is running (see proc). It never panics on what a program prints.
func Run(ctx context.Context, q Request) Result {
	r := &run{q: q, began: time.Now()}
	if q.patience <= 0 {
		r.q.patience = patience
	}
	if q.Timeout <= 0 {
		r.q.Timeout = orTime(q.Adapter.Timeout, defaultTimeout)
	}
	if q.Idle <= 0 {
		r.q.Idle = orTime(q.Adapter.Idle, defaultIdle)
	}
	if q.Model == "" {
		r.q.Model = q.Adapter.Model
	}
	r.work(ctx)
	r.res.Took = time.Since(r.began)
	return r.res
}

func orTime(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// run is one Run.
type run struct {
	q     Request
	began time.Time
	res   Result
	argv  []string
	// last is the file for the final message, "" without one.
	last string

	mu   sync.Mutex // guards what both streams feed
	in   *intake
	errs tail
	line []byte // of the errors, unfinished
	idle *time.Timer
	// hungry is since when it waits for its quota; zero when it does not.
	hungry time.Time
	quota  []*regexp.Regexp
}

func (r *run) work(ctx context.Context) {
	a := r.q.Adapter
	if err := a.check(); err != nil {
		r.fail(KindValidation, fmt.Errorf("agent %q: %w", a.Name, err), "")
		return
	}
	if r.q.Start == nil {
		r.fail(KindValidation, fmt.Errorf("agent %q: nothing to start it with", a.Name), "")
		return
	}
	r.quota, _ = a.quota() // checked above
	env := r.environ()
	path, err := find(a.Argv[0], pathOf(env, r.q.Environ), r.q.Dir)
	if err != nil {
		r.missing(err)
		return
	}
	temp, remove, err := r.tempDir()
	if err != nil {
		r.fail(KindExecution, fmt.Errorf("run agent %q: %w", a.Name, err), "")
		return
	}
	defer remove()
	r.in = newIntake(a.Format, r.q.Events)
	spec, done, err := r.spec(path, temp, env)
	if err != nil {
		r.fail(KindValidation, fmt.Errorf("run agent %q: %w", a.Name, err), "give it the prompt by stdin (`input: stdin`)")
		return
	}
	got, why, err := r.start(ctx, spec, done)
	r.close()
	r.judge(ctx, got, why, err)
}

func (r *run) fail(kind Kind, err error, hint string) {
	r.res.Kind, r.res.Err, r.res.Hint = kind, err, hint
}

func (r *run) missing(err error) {
	a := r.q.Adapter
	hint := "is it installed, and is its directory in PATH?"
	if a.Package != "" {
		hint = "npm install -g " + a.Package
	}
	r.fail(KindDependency, fmt.Errorf("run agent %q: %w: %w", a.Name, ErrMissing, err), hint)
}

// tempDir is the directory for the files of this run, and what removes it.
func (r *run) tempDir() (string, func(), error) {
	hidden := r.q.Held && r.q.Temp == "" // the system's is not that of a confined program
	switch {
	case r.byStdin() && hidden:
		return "", nil, errors.New("its prompt goes in by a file, and no directory is given that it can read")
	case hidden, !r.byStdin() && r.q.Adapter.placeholders("{last}") == 0:
		return "", func() {}, nil
	}
	dir, err := tempdir.Make(r.q.Temp, "agent")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for its files: %w", err)
	}
	return dir.Path, func() { _ = dir.Remove() }, nil // what is left is small, and swept later
}

// byStdin says that the prompt goes in by standard input.
func (r *run) byStdin() bool {
	return r.q.Adapter.Input == inputStdin || len(r.q.Prompt) > maxArgBytes && r.q.Adapter.Long != ""
}

// spec builds the command. done closes what it opened; it waits for the reader of
// the errors, so it is called after the command has ended.
func (r *run) spec(path, temp string, env []string) (exec.Spec, func(), error) {
	prompt := strings.ReplaceAll(r.q.Prompt, "\x00", "\uFFFD")
	script := `exec 2>&0 0</dev/null; exec "$@"`
	var first []string
	switch {
	case r.byStdin():
		file := filepath.Join(temp, "prompt")
		if err := os.WriteFile(file, []byte(prompt), 0o600); err != nil {
			return exec.Spec{}, nil, fmt.Errorf("write the prompt: %w", err)
		}
		script = `exec 2>&0 0<"$1" || exit 126; shift; exec "$@"`
		first = []string{file}
		prompt = r.q.Adapter.Long
		if prompt == longNone {
			prompt = ""
		}
	case len(prompt) > maxArgBytes:
		return exec.Spec{}, nil, fmt.Errorf("%w (%d bytes, the most is %d)", ErrPrompt, len(prompt), maxArgBytes)
	case strings.HasPrefix(prompt, "-"), strings.HasPrefix(prompt, "@"), strings.HasPrefix(prompt, "/"):
		prompt = "\n" + prompt // or it would be taken for a flag, a file or a command
	}
	if temp != "" {
		r.last = filepath.Join(temp, "last")
	}
	r.argv = r.expand(prompt)
	// proc gives pieces of both streams to one function, and does not say of
	// which they are. So the program gets as its standard error a pipe of ours,
	// which comes in as the shell's standard input.
	read, write, err := os.Pipe()
	if err != nil {
		return exec.Spec{}, nil, fmt.Errorf("open a pipe for its errors: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.readErrors(read)
	}()
	done := func() {
		_ = write.Close()
		// Nothing of the program lives any more; the end comes at once unless
		// something else got hold of the pipe.
		_ = read.SetReadDeadline(time.Now().Add(time.Second))
		<-ended
		_ = read.Close()
	}
	argv := append([]string{exec.Shell(r.q.Dir), "-c", script, "ralph-agent"}, first...)
	argv = append(append(argv, path), r.argv[1:]...)
	return exec.Spec{
		Argv: argv, Dir: r.q.Dir, Env: env, Stdin: write, Split: true, MaxBytes: 4 << 10, Timeout: r.q.Timeout,
		OnOutput: r.feed,
	}, done, nil
}

// expand fills the placeholders in, all at once, so that the prompt's own braces
// stay as they are.
func (r *run) expand(prompt string) []string {
	values := map[string]string{"{prompt}": prompt, "{dir}": r.q.Dir, "{model}": r.q.Model, "{last}": r.last}
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, name, value)
	}
	fill := strings.NewReplacer(pairs...)
	var out []string
	for _, arg := range r.q.Adapter.Argv {
		value, placeholder := values[arg]
		if n := len(out); placeholder && value == "" {
			// What stands before a prompt says how to work, not what comes next.
			if arg != "{prompt}" && n > 1 && strings.HasPrefix(out[n-1], "-") {
				out = out[:n-1]
			}
			continue
		}
		out = append(out, fill.Replace(arg))
	}
	if r.q.Adapter.Input == inputArg && r.q.Adapter.placeholders("{prompt}") == 0 && !r.byStdin() {
		out = append(out, prompt)
	}
	return out
}

// start runs the command under the watch of the silence timer, and says why it
// was ended if that was us.
func (r *run) start(ctx context.Context, spec exec.Spec, done func()) (exec.Result, error, error) {
	watched, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.idle = time.AfterFunc(r.q.Idle, func() { stop(r.silence()) })
	r.mu.Unlock()
	got, err := r.q.Start(watched, spec)
	r.idle.Stop()
	done()
	var why error
	switch {
	case ctx.Err() != nil && err != nil:
		why = context.Cause(ctx)
	case watched.Err() != nil && err != nil:
		why = context.Cause(watched)
	case got.TimedOut:
		why = ErrTimeout
	}
	return got, why, err
}

// silence is why the timer ends a program.
func (r *run) silence() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.hungry.IsZero() {
		return ErrQuota
	}
	return ErrIdle
}

// watch sets the timer anew. It is called with mu held.
func (r *run) watch() {
	wait := r.q.Idle
	if s := r.in.s; s.closed && s.failure == nil && !s.plain {
		wait = min(wait, linger)
	}
	if !r.hungry.IsZero() {
		wait = min(wait, max(0, r.q.patience-time.Since(r.hungry)))
	}
	if r.idle != nil {
		r.idle.Reset(wait)
	}
}

// feed takes a piece of standard output.
func (r *run) feed(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.in.s
	before, was := s.progress, s.trouble
	r.in.write(p)
	r.res.Started = true
	switch {
	case s.progress != before:
		r.hungry = time.Time{}
	case s.trouble != nil && s.trouble != was:
		r.complain(*s.trouble)
	}
	r.watch()
}

// complain notes that the program waits for its quota, if that is the trouble.
func (r *run) complain(f failure) {
	if r.hungry.IsZero() && faultOf(f, r.quota).quota {
		r.hungry = time.Now()
	}
}

// readErrors takes standard error until its end.
func (r *run) readErrors(f *os.File) {
	buf := make([]byte, 16<<10)
	for {
		n, err := f.Read(buf)
		r.errors(buf[:n])
		if err != nil {
			return // the end, or the deadline of done
		}
	}
}

// errors takes a piece of standard error. A line of it about a quota is taken for
// the program's trouble unless its stream names one.
func (r *run) errors(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) == 0 {
		return
	}
	r.errs.write(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		f := failure{text: string(append(r.line, p[:i]...))}
		r.line, p = r.line[:0], p[i+1:]
		if len(f.text) <= maxStderr && faultOf(f, r.quota).quota {
			r.complain(f)
			if r.in.s.trouble == nil {
				r.in.s.trouble = &f
			}
		}
	}
	if len(r.line) <= maxStderr {
		r.line = append(r.line, p...)
	}
	r.watch()
}

// close takes in what is left: a line without its end, and the file with the last
// message.
func (r *run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in.close()
	if r.last == "" || len(r.in.s.buf) > 0 {
		return
	}
	// A stream without a final text has it in the file, where there is one. The
	// program made it: it may be a link to elsewhere, or a FIFO.
	f, err := os.OpenFile(r.last, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	if text, err := io.ReadAll(io.LimitReader(f, maxLast)); err == nil && len(text) > 0 {
		r.in.s.say(string(text))
	}
}

// isStop says that an error of Start is that of a stop.
func isStop(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, exec.ErrStopped) || errors.Is(err, exec.ErrClosed)
}
