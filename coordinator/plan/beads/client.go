package beads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"ralph/workers/exec"
)

// ErrTaken is matched when an issue to be claimed is another's, or closed.
var ErrTaken = errors.New("is taken")

// ErrNoIssue is matched when there is no issue with the id.
var ErrNoIssue = errors.New("no such issue")

// ErrOpenBlockers is matched when bd does not close an issue because of others.
var ErrOpenBlockers = errors.New("waits for open issues")

// ErrNotProven is matched when bd does not say that it has done what it was
// asked, whatever its exit code.
var ErrNotProven = errors.New("bd did not do it")

// ErrMissing is matched when bd cannot be started.
var ErrMissing = errors.New("bd cannot be started")

// ErrSlow is matched when bd did not end in time.
var ErrSlow = errors.New("bd did not end in time")

// ErrNoData is matched when a project has no data of bd's, or Ralph must not
// touch where it lies.
var ErrNoData = errors.New("no beads data")

const (
	callTimeout    = 10 * time.Second
	maxOutputBytes = 64 << 20
	maxSaidBytes   = 600
)

// Options says whose issues are meant and how bd is run.
type Options struct {
	// Root is the project, absolute.
	Root string
	// Path is the .beads directory, or a file in it, when the user named one;
	// relative to Root or absolute. "" is found out.
	Path string
	// Proc starts bd; it is needed.
	Proc *exec.Runner
	// Environ is the environment of the user, from which that of bd is made.
	Environ []string
	// Program is bd; "" means the one in PATH.
	Program string
	// Timeout of each call; 0 is 10 s.
	Timeout time.Duration
	// Warn is told what does not stop anything; nil drops it. It may be called on
	// any goroutine.
	Warn func(string)
}

// Client talks to one database. It is safe for concurrent use and holds nothing
// that must be closed. It starts nothing before the first call.
type Client struct {
	o       Options
	data    Data
	environ []string
	// claiming is held by the claim that is being made: bd 0.x looks at the
	// assignee first and sets it then, so that two claims at once both succeed.
	claiming chan struct{}

	mu      sync.Mutex // guards all below; never held while bd runs
	version Version
	last    prints    // of the last snapshot
	kept    *Snapshot // the last one
	unread  bool      // it was made for its stamp, and nothing was changed since
	made    time.Time // when it was
}

// Error says which call of bd failed, why, and what can be done.
type Error struct {
	// Op is what was asked of bd: "claim demo-3".
	Op string
	// Path is the directory of the data.
	Path string
	// Said is what bd itself said; may be "".
	Said string
	Err  error
	Hint string
}

// Error is "op in \"path\": cause: what bd said".
func (e *Error) Error() string {
	text := fmt.Sprintf("%s in %q: %v", e.Op, e.Path, e.Err)
	if e.Said != "" {
		text += ": " + e.Said
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Open finds the data of a project. It starts nothing: whether bd is there and
// what it is shows at the first call.
func Open(o Options) (*Client, error) {
	if o.Proc == nil {
		return nil, &Error{Op: "open beads", Path: o.Root, Err: ErrMissing, Hint: "this command starts no programs; use ralph run or ralph plan"}
	}
	if o.Program == "" {
		o.Program = "bd"
	}
	if o.Timeout <= 0 {
		o.Timeout = callTimeout
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	data, err := Locate(o.Root, o.Path, o.Environ)
	if err != nil {
		return nil, err
	}
	return &Client{o: o, data: data, environ: environ(o.Environ, data.Dir), claiming: make(chan struct{}, 1)}, nil
}

// environ is what bd gets: nothing that could lead it to other data or to a
// daemon. Passwords of a Dolt server are secrets and are not handed on.
func environ(base []string, dir string) []string {
	var out []string
	for _, e := range exec.Environ(base) {
		name, _, _ := strings.Cut(e, "=")
		own := strings.HasPrefix(name, "BEADS_") || strings.HasPrefix(name, "BD_")
		if own && !strings.HasPrefix(name, "BEADS_DOLT_") {
			continue
		}
		out = append(out, e)
	}
	return append(out, "BEADS_NO_DAEMON=1", "BEADS_DIR="+dir)
}

// Dir is the directory of the data, absolute and without symbolic links.
func (c *Client) Dir() string { return c.data.Dir }

// Data is where the data lies.
func (c *Client) Data() Data { return c.data }

// answer is what a call of bd came to.
type answer struct {
	exit     int
	stdout   []byte
	said     string // what it said for people, from the JSON or stderr
	warnings string // stderr of a call that went well
}

// call runs bd once more when it was slow or the database was locked.
func (c *Client) call(ctx context.Context, op, actor string, args ...string) (answer, error) {
	a, err := c.once(ctx, op, actor, args)
	again := errors.Is(err, ErrSlow) || (err == nil && a.exit != 0 && transient(a.said))
	if again && ctx.Err() == nil {
		return c.once(ctx, op, actor, args)
	}
	return a, err
}

func transient(said string) bool {
	return strings.Contains(said, "database is locked") || strings.Contains(said, "SQLITE_BUSY") ||
		strings.Contains(said, "lock timeout") || strings.Contains(said, "database is busy")
}

func (c *Client) once(ctx context.Context, op, actor string, args []string) (answer, error) {
	argv := []string{c.o.Program}
	if actor != "" {
		argv = append(argv, "--actor", actor)
	}
	res, err := c.o.Proc.Run(ctx, exec.Spec{
		Argv: append(argv, args...), Dir: c.data.Work, Env: c.environ, Split: true,
		MaxBytes: maxOutputBytes, Timeout: c.o.Timeout,
	})
	var pe *exec.Error
	switch {
	case errors.As(err, &pe):
		return answer{}, &Error{Op: op, Path: c.data.Dir, Err: fmt.Errorf("%w: %w", ErrMissing, err),
			Hint: "the tracker beads needs bd in PATH (github.com/steveyegge/beads); another tracker: --tracker json|markdown|yaml"}
	case err != nil:
		return answer{}, &Error{Op: op, Path: c.data.Dir, Err: err}
	case res.TimedOut:
		return answer{}, &Error{Op: op, Path: c.data.Dir, Err: fmt.Errorf("%w (%v)", ErrSlow, c.o.Timeout),
			Hint: "is another bd or its daemon holding the database? bd 0.47 also needs exponential time for some graphs"}
	case res.Stdout.Truncated():
		return answer{}, &Error{Op: op, Path: c.data.Dir, Err: fmt.Errorf("bd said %d bytes, more than Ralph reads", res.Stdout.Bytes)}
	}
	a := answer{exit: res.ExitCode, stdout: bytes.Join([][]byte{res.Stdout.Head, res.Stdout.Tail}, nil)}
	a.warnings = clip(res.Stderr.String())
	a.said = a.warnings
	if text := complaint(a.stdout); text != "" {
		a.said = clip(text)
	}
	if a.exit != 0 && a.said == "" {
		a.said = clip(string(a.stdout))
	}
	return a, nil
}

// complaint is the text of {"error": …}.
func complaint(stdout []byte) string {
	var o struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(bytes.TrimSpace(stdout), &o) != nil {
		return ""
	}
	return o.Error
}

// clip is text on one line, not too long.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if len(s) > maxSaidBytes {
		s = strings.ToValidUTF8(s[:maxSaidBytes], "") + "…"
	}
	return s
}

// unproven is the error of a call that does not show what was asked for.
func (c *Client) unproven(op string, a answer) error {
	said := a.said
	if said == "" {
		said = fmt.Sprintf("it ended with exit code %d and said nothing", a.exit)
	}
	e := &Error{Op: op, Path: c.data.Dir, Said: said, Err: ErrNotProven}
	low := strings.ToLower(said)
	switch {
	case strings.Contains(low, "already claimed by"):
		e.Err = ErrTaken
	case strings.Contains(low, "no issue found") || strings.Contains(low, "no issues found") || strings.Contains(low, "issue not found"):
		e.Err = ErrNoIssue
	case strings.Contains(low, "blocked by open issues"):
		e.Err = ErrOpenBlockers
	case strings.Contains(low, "no beads database"):
		e.Err, e.Hint = ErrNoData, "make one with bd init, or restore "+c.data.Dir
	}
	return e
}

// Version is what bd says of itself.
type Version struct {
	Text         string // "0.47.1"
	Major, Minor int
}

// Modern says that it speaks the dialect of 1.x: Dolt, and no JSONL that it
// reads or writes by itself.
func (v Version) Modern() bool { return v.Major >= 1 }

// Version asks bd once what it is, and that it means the same data.
func (c *Client) Version(ctx context.Context) (Version, error) {
	c.mu.Lock()
	v := c.version
	c.mu.Unlock()
	if v.Text != "" {
		return v, nil
	}
	const op = "ask bd for its version"
	a, err := c.call(ctx, op, "", "version", "--json")
	if err != nil {
		return Version{}, err
	}
	var o struct {
		Version string `json:"version"`
	}
	if a.exit != 0 || json.Unmarshal(a.stdout, &o) != nil || o.Version == "" {
		return Version{}, &Error{Op: op, Path: c.data.Dir, Said: a.said, Err: ErrNotProven,
			Hint: "is " + c.o.Program + " really the issue tracker bd? Ralph knows 0.47 and 1.0"}
	}
	v, ok := parseVersion(o.Version)
	if !ok {
		return Version{}, &Error{Op: op, Path: c.data.Dir, Said: clip(o.Version), Err: errors.New("cannot read that version"),
			Hint: "Ralph knows bd 0.47 and 1.0"}
	}
	if err := c.samePlace(ctx); err != nil {
		return Version{}, err
	}
	c.mu.Lock()
	first := c.version.Text == ""
	c.version = v
	c.mu.Unlock()
	if first && (v.Major > 1 || (v.Major == 0 && v.Minor < 40)) {
		c.o.Warn(fmt.Sprintf("bd %s is not a version that Ralph was tested with (0.47, 1.0); what it does is checked all the same", v.Text))
	}
	return v, nil
}

// samePlace proves that bd uses the directory that it was given: when there is
// no database in it, bd takes the next one further up, another project's. A clone
// that has only the JSONL of a 0.x database has none yet; reading makes it.
func (c *Client) samePlace(ctx context.Context) error {
	const op = "ask bd where its data is"
	a, err := c.call(ctx, op, "", "where", "--json")
	if err != nil {
		return err
	}
	var o struct {
		Path string `json:"path"`
	}
	if a.exit == 0 && json.Unmarshal(a.stdout, &o) == nil && o.Path != "" {
		if resolved(o.Path) == c.data.Dir {
			return nil
		}
		return &Error{Op: op, Path: c.data.Dir, Err: ErrNoData, Said: "it uses " + clip(o.Path),
			Hint: "there is no database in " + c.data.Dir + ": bd init, or name the other: --plan " + clip(o.Path)}
	}
	if strings.Contains(a.said, "unknown command") {
		c.o.Warn("this bd does not tell where its data is")
		return nil
	}
	if info, err := os.Stat(c.data.JSONL); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return nil
	}
	return &Error{Op: op, Path: c.data.Dir, Err: ErrNoData, Said: a.said, Hint: "make the database with bd init, or choose another plan with --plan"}
}

func parseVersion(text string) (Version, bool) {
	v := Version{Text: clip(text)}
	core, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	n, err := fmt.Sscanf(core, "%d.%d", &v.Major, &v.Minor)
	return v, err == nil && n == 2 && v.Major >= 0 && v.Minor >= 0
}
