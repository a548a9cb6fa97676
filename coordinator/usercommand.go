package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"ralph/coordinator/desk"
	"ralph/coordinator/prompt"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/memory/text"
	"ralph/workers/exec"
)

const (
	// maxUserBytes bounds what is kept of a command's output for its caller,
	// maxTalkBytes what the model is told of one, maxTalk of all at once.
	maxUserBytes = 256 << 10
	maxTalkBytes = 8 << 10
	maxTalk      = 24 << 10
	maxUntold    = 20 // commands
	// settleWait bounds how long a command waits for the checkpoint of work that
	// was stopped, so that what it changes is not taken for that work's.
	settleWait = 3 * time.Second
)

// ran is a command of the user's as the journal keeps it and the model is told of
// it: bounded, without secrets.
type ran struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Duration int64  `json:"duration_ms"`
	Output   string `json:"output"`
	Check    bool   `json:"check,omitempty"` // it ran as a check
	Stopped  bool   `json:"stopped,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
}

// text tells it to a model; whole says whether with its output.
func (r ran) text(whole bool) string {
	how := fmt.Sprintf("It ended with exit code %d", r.ExitCode)
	switch {
	case r.TimedOut:
		how = "It was ended, because its time was over,"
	case r.Stopped:
		how = "It was stopped by the user"
	}
	if r.Check {
		how += ", as a check,"
	}
	text := prompt.Fence("sh", r.Command) + "\n" + how + fmt.Sprintf(" after %.1f s", float64(r.Duration)/1000)
	switch {
	case !whole:
		return text + "; its output is left out here."
	case r.Output == "":
		return text + " and wrote nothing."
	}
	return text + " and wrote:\n" + prompt.Fence("", r.Output)
}

// ownCommands are what the user ran themselves and the model was not told of.
type ownCommands struct {
	// mu guards what follows; it is a leaf.
	mu      sync.Mutex
	untold  []ran
	dropped int // of the oldest
}

func (o *ownCommands) add(r ran) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.untold = append(o.untold, r); len(o.untold) > maxUntold {
		o.untold, o.dropped = o.untold[1:], o.dropped+1
	}
}

// text tells what was not told yet, the newest with their output, and with take
// counts it as told; "" when there is nothing.
func (o *ownCommands) text(take bool) string {
	o.mu.Lock()
	list, dropped := o.untold, o.dropped
	if take {
		o.untold, o.dropped = nil, 0
	}
	o.mu.Unlock()
	if len(list) == 0 {
		return ""
	}
	size, from := 0, len(list)
	for from > 0 && size+len(list[from-1].Output) <= maxTalk {
		from--
		size += len(list[from].Output)
	}
	var parts []string
	if dropped > 0 {
		parts = append(parts, fmt.Sprintf("(%s before are left out.)", text.Count(dropped, "command")))
	}
	for i, r := range list {
		parts = append(parts, r.text(i >= from))
	}
	return "The user ran this in the project themselves, beside your work, and saw what it wrote. What it changed is theirs: leave it as it is unless they ask.\n\n" + strings.Join(parts, "\n\n")
}

// Shell runs a command line that the user typed, as they would: in the project's
// root, with their environment and rights, without a sandbox, without input and
// without a limit of time. Nobody is asked. When Shell returns, nothing of the
// command is running.
//
// write, if any, gets the raw output as it comes, one call at a time, on another
// goroutine and never after Shell has returned; it must not keep the slice nor
// wait for long. A stop of all work, or the end of ctx, ends the command: the
// error matches the cause, and the UserCommand holds what there was. An exit code
// is no error.
//
// The journal keeps it, and the model is told with its next request. What the
// command changes is the user's, which no undo takes back; only where a tool of
// the work ran at the same time nobody can tell the two apart. It may be called at
// any time, also while work is under way.
func (c *Coordinator) Shell(ctx context.Context, command string, write func(p []byte)) (desk.UserCommand, error) {
	u := desk.UserCommand{Command: command}
	if strings.TrimSpace(command) == "" {
		return u, &result.Error{Op: "run", Err: errors.New("no command was given"), Status: result.Usage, Hint: "!git status runs a command of your own"}
	}
	c.byHand.Add(1)
	defer c.byHand.Done()
	wait, cancel := context.WithTimeout(ctx, settleWait)
	_ = c.settled(wait) // one that is late only lists more as changed
	cancel()
	var res exec.Result
	var err error
	res, err = c.opt.Proc.Run(ctx, exec.Spec{Argv: []string{exec.Shell(c.opt.Root), "-c", command}, Dir: c.opt.Root, Env: os.Environ(), MaxBytes: maxUserBytes, OnOutput: write})
	if err != nil && res.Duration == 0 {
		return u, fmt.Errorf("run %q: %w", text.ClipRunes(firstLine(command), maxQuote), err) // it was not started
	}
	u.ExitCode, u.Duration, u.Output = res.ExitCode, res.Duration, res.Stdout.String()
	u.OmittedBytes = max(0, res.Stdout.Bytes-int64(len(res.Stdout.Head)+len(res.Stdout.Tail)))
	u.Stopped = err != nil
	if errors.Is(err, exec.ErrStopped) && len(c.running) == 0 {
		rest, cancel := context.WithTimeout(c.closing, restTime)
		defer cancel()
		c.opt.Proc.WaitStopped(rest) // or the next stop would count it among what it ended
	}
	c.noteRan(ran{Command: command, ExitCode: u.ExitCode, Duration: u.Duration.Milliseconds(), Output: u.Output, Stopped: u.Stopped})
	return u, err
}

// noteRan keeps in the journal what the user ran, and has the model told.
func (c *Coordinator) noteRan(r ran) {
	r.Output = bare(r.Output) // first, so that nothing stands within a secret
	r.Command = ends(c.redactor.String(r.Command), maxTalkBytes/4)
	r.Output = ends(strings.ToValidUTF8(c.redactor.String(r.Output), "\ufffd"), maxTalkBytes)
	if payload, err := json.Marshal(r); err == nil {
		c.book.keepRan(payload, r)
	}
	c.typed.add(r)
}

// bare is output as it is read rather than seen: without what steers a terminal,
// and of a row that was written over, as by a bar of progress, what came last.
func bare(s string) string {
	b := make([]byte, 0, len(s))
	row := 0 // where the row begins in b
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == '\x1b':
			i += escape(s[i:]) - 1
		case ch == '\r' && i+1 < len(s) && s[i+1] != '\n' && s[i+1] != '\r':
			b = b[:row]
		case ch == '\n':
			b = append(b, ch)
			row = len(b)
		case ch < ' ' && ch != '\t', ch == 0x7f:
		default:
			b = append(b, ch)
		}
	}
	return string(b)
}

// escape is the length of the escape sequence with which s begins. One that is never
// ended stops at the end of its line: it may not hide what comes behind it.
func escape(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= '@' && s[i] <= '~' {
				return i + 1
			}
			if s[i] < ' ' {
				return i // it was never ended
			}
		}
		return len(s)
	case ']', 'P', '^', '_', 'X': // a string, which ends with its terminator
		for i := 2; i < len(s); i++ {
			switch {
			case s[i] == '\a':
				return i + 1
			case s[i] == '\x1b' && i+1 < len(s) && s[i+1] == '\\':
				return i + 2
			case s[i] == '\n', s[i] == '\x1b':
				return i
			}
		}
		return len(s)
	case '(', ')', '#', '%':
		return min(3, len(s))
	}
	if s[1] < ' ' || s[1] > '~' {
		return 1 // a lone ESC
	}
	return 2
}

// ends is a text of at most about n bytes: all of it, or its beginning and end
// with a line between them that says how much is missing.
func ends(s string, n int) string {
	if len(s) <= n {
		return s
	}
	first, last := head(s, n/2), tail(s, n/2)
	return fmt.Sprintf("%s\n[… %d bytes are left out …]\n%s", strings.TrimSuffix(first, "\n"), len(s)-len(first)-len(last), last)
}

// keepRan keeps a command of the user's in the journal and the transcript.
func (b *book) keepRan(payload []byte, r ran) {
	b.mu.Lock()
	defer b.leave()
	if b.dry {
		return
	}
	b.keep(transcript.UserCommand, payload)
	if b.story != nil {
		b.story.ran(r)
	}
	b.flush()
}

// ran tells of a command that the user ran themselves.
func (t *chronicle) ran(r ran) {
	how := fmt.Sprintf("exit %d", r.ExitCode)
	if r.Stopped {
		how = "stopped"
	}
	t.session.Note(fmt.Sprintf("the user ran %s (%s)", "`"+strings.ReplaceAll(head(text.OneLine(r.Command), maxToldBytes), "`", "'")+"`", how))
}
