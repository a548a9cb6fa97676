package beads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ralph/workers/exec"
	"ralph/workers/tempdir"
)

// ErrNoViewer is matched when bv cannot be started.
var ErrNoViewer = errors.New("bv cannot be started")

// ErrNoOpinion is matched when bv ran and gave no answer that can be used.
var ErrNoOpinion = errors.New("bv gave no opinion")

const viewTimeout = 3 * time.Second

// Viewer asks bv for its opinion. It never lets bv see the project: bv changes
// .gitignore where it runs and reads stale files in worktrees. It is safe for
// concurrent use.
type Viewer struct {
	// Proc starts bv.
	Proc *exec.Runner
	// Environ is the environment of the user.
	Environ []string
	// Program is bv; "" means the one in PATH.
	Program string
	// Timeout of the whole; 0 is 3 s.
	Timeout time.Duration
}

// Advice is one issue that bv would work on. bv recommends blocked issues, epics
// and those at work too.
type Advice struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Status    string   `json:"status"`
	Score     float64  `json:"score"`
	Reasons   []string `json:"reasons"`
	BlockedBy []string `json:"blocked_by"`
}

// Opinion is what bv says of a set of issues.
type Opinion struct {
	// Hash is bv's own fingerprint of what it saw.
	Hash string
	// Seen is how many issues it saw.
	Seen int
	// Advice, best first.
	Advice []Advice
}

// Triage shows an export to bv, in a directory outside the project, and gives
// what it says. That it saw nothing where there was something is an error that
// matches ErrNoOpinion, as is anything but an answer in time.
func (v Viewer) Triage(ctx context.Context, jsonl []byte) (op Opinion, err error) {
	timeout := v.Timeout
	if timeout <= 0 {
		timeout = viewTimeout
	}
	temp, err := tempdir.Make("", "bv")
	if err != nil {
		return Opinion{}, fmt.Errorf("ask bv: %w", err)
	}
	dir := temp.Path
	defer func() {
		if e := temp.Remove(); e != nil && err == nil {
			err = fmt.Errorf("ask bv: %w", e)
		}
	}()
	data := filepath.Join(dir, ".beads")
	if err := os.Mkdir(data, 0o700); err != nil {
		return Opinion{}, fmt.Errorf("ask bv: %w", err)
	}
	if err := os.WriteFile(filepath.Join(data, "issues.jsonl"), jsonl, 0o600); err != nil {
		return Opinion{}, fmt.Errorf("ask bv: %w", err)
	}
	out, err := v.run(ctx, dir, timeout)
	if err != nil {
		return Opinion{}, err
	}
	return read(out, len(bytes.TrimSpace(jsonl)) > 0)
}

func (v Viewer) run(ctx context.Context, dir string, timeout time.Duration) ([]byte, error) {
	program := v.Program
	if program == "" {
		program = "bv"
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := v.Proc.Run(limited, exec.Spec{
		Argv: []string{program, "--robot-triage"}, Dir: dir, Env: v.environ(dir), Split: true, MaxBytes: maxOutputBytes,
	})
	var pe *exec.Error
	switch {
	case errors.As(err, &pe):
		return nil, fmt.Errorf("%w: %w", ErrNoViewer, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask bv: %w", context.Cause(ctx))
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w: no answer within %v", ErrNoOpinion, timeout)
	case err != nil:
		return nil, fmt.Errorf("ask bv: %w", err)
	case res.ExitCode != 0:
		return nil, fmt.Errorf("%w: exit code %d: %s", ErrNoOpinion, res.ExitCode, clip(res.Stderr.String()))
	case res.Stdout.Truncated():
		return nil, fmt.Errorf("%w: it said %d bytes", ErrNoOpinion, res.Stdout.Bytes)
	}
	return bytes.Join([][]byte{res.Stdout.Head, res.Stdout.Tail}, nil), nil
}

// environ gives bv the copy as its data and as its home.
func (v Viewer) environ(dir string) []string {
	var out []string
	for _, e := range exec.Environ(v.Environ) {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "BEADS_") || strings.HasPrefix(name, "BD_") || strings.HasPrefix(name, "BV_") ||
			strings.HasPrefix(name, "XDG_") || name == "HOME" {
			continue
		}
		out = append(out, e)
	}
	return append(out, "HOME="+dir, "BEADS_DIR="+filepath.Join(dir, ".beads"))
}

func read(out []byte, something bool) (Opinion, error) {
	var doc struct {
		Hash   string `json:"data_hash"`
		Triage *struct {
			Meta struct {
				Issues int `json:"issue_count"`
			} `json:"meta"`
			Recommendations []Advice `json:"recommendations"`
		} `json:"triage"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return Opinion{}, fmt.Errorf("%w: %s", ErrNoOpinion, clip(err.Error()))
	}
	if doc.Triage == nil {
		return Opinion{}, fmt.Errorf("%w: its answer has no triage", ErrNoOpinion)
	}
	o := Opinion{Hash: doc.Hash, Seen: doc.Triage.Meta.Issues, Advice: doc.Triage.Recommendations}
	if something && (o.Hash == "empty" || (o.Seen == 0 && len(o.Advice) == 0)) {
		return Opinion{}, fmt.Errorf("%w: it saw no issues where there are some", ErrNoOpinion)
	}
	return o, nil
}

// Among is the first advice of those that are ready, and the first of all. With
// ok false bv recommends none of them.
func (o Opinion) Among(ready []string) (first Advice, top Advice, ok bool) {
	if len(o.Advice) > 0 {
		top = o.Advice[0]
	}
	in := make(map[string]bool, len(ready))
	for _, id := range ready {
		in[id] = true
	}
	for _, a := range o.Advice {
		if in[a.ID] {
			return a, top, true
		}
	}
	return Advice{}, top, false
}
