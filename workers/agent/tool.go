package agent

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"ralph/memory/text"
)

// Tool is something that a model can do. It is a value; the zero Effect is the
// cautious one.
type Tool struct {
	// Name is what the model calls it by.
	Name string
	// Description is Markdown for the model.
	Description string
	// Schema is the JSON Schema of the arguments, an object.
	Schema json.RawMessage
	// Effect says what running it can change; tools that only read may run side
	// by side.
	Effect Effect
	// Asks says that Run waits for the human. An urgent message ends its context
	// too, as it ends a question about a permission; a call of any other tool goes
	// on in the background.
	Asks bool
	// Canonical returns the arguments as Run will understand them, with other
	// names for a field replaced by its own, so that a permission is decided
	// about what will really be done; or why they do not fit. Nil: Run takes
	// them as they are.
	Canonical func(args json.RawMessage) (json.RawMessage, error)
	// Run does the work. args is a JSON object; Run checks it against Schema, so
	// that it can forgive what is harmless. Run returns soon after ctx ends,
	// with what it had got so far, leaving nothing running that it started. An
	// error is for the model to read like a failed Result; it never ends the
	// loop. Run must be safe for concurrent use.
	Run func(ctx context.Context, args json.RawMessage) (Result, error)
}

// Effect classifies tools by what they can change.
type Effect int

// What running a tool can change.
const (
	// EffectChange can change files of the project or run programs.
	EffectChange Effect = iota
	// EffectRead changes nothing.
	EffectRead
	// EffectState changes only Ralph's own notes, tasks and goals, or asks the
	// user.
	EffectState
)

// Result is what a tool gives back.
type Result struct {
	// Head is one or more lines by Ralph about the result: a path and its line
	// range, an exit code, a truncation notice. The model reads it before Text,
	// so that a notice is never inside the data.
	Head string
	// Text is the data.
	Text string
	// Failed says that the work was not done; Text or Head says why.
	Failed bool
	// Denied names the rule that refused the call; empty when it ran.
	Denied string
	// Brief is a few words for a person: "12 lines", "exit 1".
	Brief string
	// Command is set by tools that ran a program.
	Command *CommandRun
	// Alive reports that the result is that of a wait for something that is still at
	// work: it is no repetition to ask again.
	Alive bool
	// Finish is set by the tool that declares the work ended.
	Finish *Finish
}

// Answer is the result as the model reads it: what Ralph says of it, then the
// data.
func (r Result) Answer() string {
	switch {
	case r.Head == "" && r.Text == "":
		return "(nothing)"
	case r.Head == "":
		return r.Text
	case r.Text == "":
		return r.Head
	}
	return r.Head + "\n" + r.Text
}

// With returns the result of a Run that also returned err; nil changes nothing.
func (r Result) With(err error) Result {
	if err == nil {
		return r
	}
	r.Failed = true
	if r.Text != "" {
		r.Head = strings.TrimPrefix(r.Head+"\n"+err.Error(), "\n")
	} else {
		r.Text = err.Error()
	}
	if r.Brief == "" {
		r.Brief = text.Head(text.FirstLine(err.Error()), 100)
	}
	return r
}

// CommandRun records one program that a tool ran.
type CommandRun struct {
	Command  string
	ExitCode int
	Duration time.Duration
	TimedOut bool
}

// FinishStatus is how a model says that its work ended.
type FinishStatus string

// The statuses of the finish tool.
const (
	FinishDone       FinishStatus = "done"
	FinishPartial    FinishStatus = "partial"
	FinishFailed     FinishStatus = "failed"
	FinishNeedsInput FinishStatus = "needs_input"
)

// Finish is a model's own declaration about its work.
type Finish struct {
	Status     FinishStatus `json:"status"`
	Summary    string       `json:"summary"`
	Confidence float64      `json:"confidence"` // 0 to 1
}
