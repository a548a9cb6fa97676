package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ralph/memory/text"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

//go:embed shell.md
var shellDoc string

type shellArgs struct {
	Command    string  `json:"command,omitempty"`
	Timeout    float64 `json:"timeout_seconds,omitempty" max:"3600"`
	Workdir    string  `json:"workdir,omitempty"`
	Background bool    `json:"background,omitempty"`
	Action     string  `json:"action,omitempty" enum:"output,stop,list"`
	Job        string  `json:"job,omitempty"`
	Outside    bool    `json:"outside,omitempty" jsonschema:"of the sandbox: asks the user; only after it denied"`
}

func (b *box) shellTool() spec {
	return define("shell", shellDoc, `{"command":"go test ./...","timeout_seconds":300}`, agent.EffectChange, b.runShell)
}

func (b *box) runShell(ctx context.Context, a shellArgs) (agent.Result, error) {
	switch {
	case b.Proc == nil:
		return agent.Result{}, errors.New("shell: no command can be run here")
	case a.Action != "":
		return b.jobAction(ctx, a)
	case strings.TrimSpace(a.Command) == "":
		return agent.Result{}, errors.New(`shell: the command is empty; example: {"command":"go test ./..."}`)
	case strings.ContainsRune(a.Command, 0):
		return agent.Result{}, errors.New("shell: the command holds a NUL byte")
	}
	may, err := b.allowed(a)
	if err != nil {
		return agent.Result{}, err
	}
	s, label, err := b.commandSpec(a)
	if err != nil {
		return agent.Result{}, err
	}
	if a.Background {
		return b.startJob(ctx, a, s, may, label)
	}
	var r exec.Result
	var rep accesspolicy.Report
	if b.Sandbox != nil {
		r, rep, err = b.Sandbox.Run(ctx, s, may)
	} else {
		r, err = b.Proc.Run(ctx, s)
	}
	var failed *exec.Error
	if errors.As(err, &failed) || err != nil && r.Duration == 0 { // it was not started
		return agent.Result{}, fmt.Errorf("shell: %w", err)
	}
	res := b.commandResult(a.Command, r, r.Stdout, label, err)
	res.Head = head(res.Head, reported(rep))
	return res, nil
}

// allowed is what the command may do besides. That it was permitted to run
// outside the sandbox is not taken from the model's word.
func (b *box) allowed(a shellArgs) (accesspolicy.Call, error) {
	var may accesspolicy.Call
	if b.Sandbox == nil {
		return may, nil
	}
	if b.Allowed != nil {
		may = b.Allowed(a.Command, a.Outside)
	}
	if a.Outside && !may.Outside {
		return may, errors.New("shell: nobody has approved that this command runs outside the sandbox; run it without outside")
	}
	may.Outside = a.Outside
	return may, nil
}

// maxReported bounds the lines of each kind about the sandbox, and the bytes of
// each.
const (
	maxReported      = 8
	maxReportedBytes = 500
)

// reported is what the sandbox has to say, a line each.
func reported(rep accesspolicy.Report) string {
	var lines []string
	for _, list := range [][]string{rep.Reverted, rep.Denied} {
		for _, l := range list[:min(len(list), maxReported)] {
			lines = append(lines, "sandbox: "+oneLine(l, maxReportedBytes))
		}
		if more := len(list) - maxReported; more > 0 {
			lines = append(lines, fmt.Sprintf("sandbox: and %d more", more))
		}
	}
	return head(lines...)
}

// commandSpec is how a command is run: by bash where there is one, in a
// directory below the root, without prompts, pagers and colours.
func (b *box) commandSpec(a shellArgs) (s exec.Spec, label string, err error) {
	dir, at, err := b.Files.OpenDir(or(a.Workdir, "."))
	if err != nil {
		return s, "", err
	}
	_ = dir.Close() // only looked at
	if filepath.IsAbs(at) {
		return s, "", &Error{Op: "run in", Path: a.Workdir, Err: ErrOutside, Hint: "it may only be read"}
	}
	file, label, err := b.reserve("shell")
	if err != nil {
		return s, "", fmt.Errorf("shell: %w", err)
	}
	timeout := b.CommandTimeout
	if a.Background {
		timeout = 0
	}
	if a.Timeout > 0 {
		timeout = time.Duration(a.Timeout * float64(time.Second))
	}
	env := []string{"NO_COLOR=1", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0"}
	if b.Sandbox == nil { // which adds its own
		env = append(exec.Environ(os.Environ()), env...)
	}
	return exec.Spec{
		Argv:       []string{b.shell(), "-c", a.Command},
		Dir:        filepath.Join(b.Files.real, filepath.FromSlash(at)),
		Env:        env,
		Timeout:    timeout,
		MaxBytes:   b.MaxOutputBytes,
		OutputFile: file,
		Redact:     b.Redact,
	}, label, nil
}

// commandResult describes a command that ended; err is why it was ended early.
func (b *box) commandResult(command string, r exec.Result, out exec.Capture, label string, err error) agent.Result {
	content, notice := b.captured(out, label)
	took := r.Duration.Round(time.Millisecond)
	res := agent.Result{
		Text:   content,
		Failed: err != nil || r.TimedOut || r.ExitCode != 0,
		Brief:  fmt.Sprintf("exit %d", r.ExitCode),
		Command: &agent.CommandRun{
			Command: command, ExitCode: r.ExitCode, Duration: r.Duration, TimedOut: r.TimedOut,
		},
	}
	first := fmt.Sprintf("exit %d after %v", r.ExitCode, took)
	switch {
	case r.TimedOut:
		first = fmt.Sprintf("timed out and ended after %v (exit %d)", took, r.ExitCode)
		res.Brief = "timed out"
	case err != nil:
		first = fmt.Sprintf("ended after %v: %v", took, err)
		res.Brief = "stopped"
	case r.Signal != "":
		first += ", killed by " + r.Signal
	}
	left := ""
	if len(r.Killed) > 0 {
		left = text.Count(len(r.Killed), "process") + " left running by it ended: " + oneLine(r.Killed[0].Command, maxReportedBytes) + " (to keep one running use background)"
	}
	odd := ""
	if r.OutputErr != nil {
		odd = r.OutputErr.Error()
	}
	if content == "" {
		first += ", no output"
	}
	res.Head = head(first, left, notice, odd)
	return res
}

// captured joins what was kept of an output at whole lines. Where the middle is
// missing the notice says between which lines, because nothing of Ralph's may
// stand in the data.
func (b *box) captured(c exec.Capture, label string) (content, notice string) {
	if !c.Truncated() {
		content, _ = visible(append(append([]byte{}, c.Head...), c.Tail...))
		return b.grown(content, "")
	}
	first, _ := visible(c.Head)
	last, _ := visible(c.Tail)
	if i := strings.LastIndexByte(first, '\n'); i >= 0 {
		first = first[:i+1]
	} else {
		first += "\n"
	}
	if i := strings.IndexByte(last, '\n'); i >= 0 && i+1 < len(last) {
		last = last[i+1:]
	}
	notice = fmt.Sprintf("cut: the first %s, then the last %d, of %d bytes", text.Count(countLines(first), "line"), countLines(last), c.Bytes)
	switch {
	case c.File == "" || label == "":
	case c.FileCut:
		notice += "; its beginning, as much as is kept: " + label
	default:
		notice += "; all of it: " + label
	}
	return b.grown(first+last, notice)
}

// grown cuts output that was within the limit until its bytes that are no text
// were made visible.
func (b *box) grown(text, notice string) (string, string) {
	if len(text) <= b.MaxOutputBytes+1 {
		return text, notice
	}
	return cutText(text, b.MaxOutputBytes), head(notice, "most of the output is not text: its beginning is shown")
}

// jobs are the background commands of one agent. Those of others, which the same
// exec.Runner may hold, are not shown.
type jobs struct {
	mu  sync.Mutex
	all []*job // guarded by mu
}

type job struct {
	*exec.Job
	command  string
	label    string
	reported bool // its end was told; guarded by jobs.mu
}

// startGrace is how long the start of a background job waits for an early end,
// which is mostly a mistake in the command.
const startGrace = 200 * time.Millisecond

func (b *box) startJob(ctx context.Context, a shellArgs, s exec.Spec, may accesspolicy.Call, label string) (agent.Result, error) {
	start := b.Proc.Start
	if b.Sandbox != nil {
		start = func(ctx context.Context, s exec.Spec) (*exec.Job, error) { return b.Sandbox.Start(ctx, s, may) }
	}
	p, err := start(ctx, s)
	if err != nil {
		return agent.Result{}, fmt.Errorf("shell: %w", err)
	}
	j := &job{Job: p, command: a.Command, label: label}
	b.jobs.mu.Lock()
	b.jobs.all = append(b.jobs.all, j)
	b.jobs.mu.Unlock()
	early := time.NewTimer(startGrace)
	defer early.Stop()
	select {
	case <-j.Done():
		return b.jobResult(j), nil
	case <-early.C:
	case <-ctx.Done():
	}
	return agent.Result{
		Head:  fmt.Sprintf("%s runs in the background; look at it with action=output, end it with action=stop", j.ID()),
		Brief: j.ID(),
	}, nil
}

func (b *box) jobAction(ctx context.Context, a shellArgs) (agent.Result, error) {
	if a.Action == "list" {
		return b.listJobs(), nil
	}
	j, err := b.findJob(a.Job)
	if err != nil {
		return agent.Result{}, err
	}
	if a.Action == "stop" {
		if err := j.Stop(ctx); err != nil {
			return agent.Result{}, fmt.Errorf("shell: %w", err)
		}
		r := b.jobResult(j)
		r.Failed = false
		return r, nil
	}
	return b.jobResult(j), nil
}

// jobResult shows a job as it is now. Its end is recorded as a command once.
func (b *box) jobResult(j *job) agent.Result {
	r, ended := j.Result()
	out := j.Output()
	if !ended {
		text, notice := b.captured(out, j.label)
		ran := time.Since(j.Started()).Round(time.Second)
		return agent.Result{Head: head(fmt.Sprintf("%s is running since %v", j.ID(), ran), notice), Text: text, Brief: "running", Alive: true}
	}
	res := b.commandResult(j.command, r, out, j.label, nil)
	res.Head = j.ID() + " ended: " + res.Head
	if b.Sandbox != nil {
		res.Head = head(res.Head, reported(b.Sandbox.Ended(j.Job)))
	}
	b.jobs.mu.Lock()
	defer b.jobs.mu.Unlock()
	if j.reported {
		res.Command = nil
	}
	j.reported = true
	return res
}

func (b *box) findJob(id string) (*job, error) {
	b.jobs.mu.Lock()
	defer b.jobs.mu.Unlock()
	var ids []string
	for _, j := range b.jobs.all {
		if j.ID() == id || id == "" && len(b.jobs.all) == 1 {
			return j, nil
		}
		ids = append(ids, j.ID())
	}
	if len(ids) == 0 {
		return nil, errors.New(`shell: there is no background job; start one with {"command":"…","background":true}`)
	}
	return nil, fmt.Errorf("shell: there is no job %q; there are: %s", id, strings.Join(ids, ", "))
}

func (b *box) listJobs() agent.Result {
	b.jobs.mu.Lock()
	all := append([]*job{}, b.jobs.all...)
	b.jobs.mu.Unlock()
	var out strings.Builder
	running := 0
	for _, j := range all {
		state := "running"
		if r, ended := j.Result(); ended {
			state = fmt.Sprintf("exit %d", r.ExitCode)
		} else {
			running++
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\n", j.ID(), state, oneLine(j.command, 200))
	}
	content, notice := b.fit("shell", out.String())
	return agent.Result{
		Head: head(fmt.Sprintf("%s, %d running", text.Count(len(all), "job"), running), notice),
		Text: content, Brief: text.Count(len(all), "job"), Alive: running > 0,
	}
}
