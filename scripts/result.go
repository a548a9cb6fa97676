package scripts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"ralph/coordinator/result"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// ResultSchema names the version of the result document.
const ResultSchema = "ralph.result/1"

// Result is the result document: what a run did and how it ended. Every field
// is always present; null, [] or {} stand where there is nothing. Paths are
// relative to ProjectRoot, durations are milliseconds, times RFC 3339 in UTC.
// It is a plain value; `ralph schema result` prints its JSON Schema.
type Result struct {
	Type        string           `json:"type"`
	Schema      string           `json:"schema"`
	OK          bool             `json:"ok"`
	Verified    bool             `json:"verified"`
	Status      result.Status    `json:"status"`
	ExitCode    int              `json:"exit_code"`
	Reason      string           `json:"reason"`
	Result      *string          `json:"result"`
	Structured  json.RawMessage  `json:"structured"`
	RunID       string           `json:"run_id"`
	SessionID   *string          `json:"session_id"`
	ProjectRoot *string          `json:"project_root"`
	StateFiles  []string         `json:"state_files"`
	Model       *string          `json:"model"`
	Provider    *string          `json:"provider"`
	StartedAt   time.Time        `json:"started_at"`
	DurationMS  int64            `json:"duration_ms"`
	APIMS       int64            `json:"api_ms"`
	Turns       int              `json:"turns"`
	Usage       agent.Usage      `json:"usage"`
	CostUSD     *float64         `json:"cost_usd"`
	ToolCalls   result.ToolCount `json:"tool_calls"`
	Files       []FileChange     `json:"files_changed"`
	Commands    []Command        `json:"commands"`
	Commits     []string         `json:"commits"`
	Denials     []result.Denial  `json:"denials"`
	Children    []Child          `json:"children"`
	Messages    []Message        `json:"messages"`
	Check       *result.Check    `json:"check"`
	Tasks       result.TaskCount `json:"tasks"`
	Error       *Failure         `json:"error"`
	Warnings    []string         `json:"warnings"`
	LogFile     *string          `json:"log_file"`
	Script      *scriptResult    `json:"script,omitempty"` // of ralph script alone
}

// FileChange is one file that a run changed. Added and Removed count lines; -1
// stands for a binary file.
type FileChange struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// Command is one program that a run's tools ran.
type Command struct {
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	DurationMS int64  `json:"duration_ms"`
	TimedOut   bool   `json:"timed_out"`
}

// Child is one child agent of a run.
type Child struct {
	ID      string      `json:"id"`
	Status  string      `json:"status"`
	Task    string      `json:"task"`
	Turns   int         `json:"turns"`
	Usage   agent.Usage `json:"usage"`
	Result  *string     `json:"result"`
	Partial bool        `json:"partial"`
	Branch  *string     `json:"branch"`
	Problem *string     `json:"problem"` // why its work is not part of the result
}

// Message is one message that a human sent to the run, and what became of it.
type Message struct {
	ID    string `json:"id"`
	Class string `json:"class"`
	State string `json:"state"`
}

// Failure explains a run that did not complete.
type Failure struct {
	Kind       string   `json:"kind"`
	Message    string   `json:"message"`
	Hint       *string  `json:"hint"`
	Retryable  bool     `json:"retryable"`
	HTTPStatus *int     `json:"http_status"`
	RetryAfter *float64 `json:"retry_after_s"`
}

// newResult returns the document of a run of which nothing is known yet but
// its name and its start.
func newResult(runID string, started time.Time) *Result {
	return &Result{
		Type: string(agent.EventResult), Schema: ResultSchema,
		Status: result.Failed, ExitCode: 1,
		RunID: runID, StartedAt: started.UTC(),
	}
}

// fill takes over what the coordinator reports.
func (r *Result) fill(o result.Outcome) {
	r.Verified = o.Verified
	r.Reason = o.Reason
	r.Result = optional(o.Answer)
	r.Structured = o.Structured
	r.SessionID = optional(folder.SessionID(o.SessionID))
	r.APIMS = o.APITime.Milliseconds()
	r.Turns = o.Turns
	r.Usage = o.Usage
	r.CostUSD = o.CostUSD
	r.ToolCalls = o.ToolCalls
	r.Files = fileChanges(o.FilesChanged)
	for _, c := range o.Commands {
		r.Commands = append(r.Commands, Command{c.Command, c.ExitCode, c.Duration.Milliseconds(), c.TimedOut})
	}
	r.Commits = o.Commits
	r.Denials = o.Denials
	r.Check = o.Check
	r.Tasks = o.Tasks
	for _, m := range o.Messages {
		r.Messages = append(r.Messages, Message{m.ID(), m.Class.String(), string(m.State)})
	}
	r.Children = childrenOf(o.Children)
	r.StateFiles = o.StateFiles
	for _, w := range o.Warnings {
		if !slices.Contains(r.Warnings, w) {
			r.Warnings = append(r.Warnings, w)
		}
	}
	r.LogFile = optional(o.LogFile)
	r.end(o.Status, o.Signal, o.Failure)
}

// addOutcome adds what one of several turns came to; what is said once is that of
// the last.
func (r *Result) addOutcome(o result.Outcome) {
	was := *r
	r.Commands = nil
	r.fill(o)
	r.Verified = was.Verified || o.Verified
	r.APIMS += was.APIMS
	r.Turns += was.Turns
	r.Usage = was.Usage.Add(o.Usage)
	switch {
	case was.Usage.Total == 0 && was.CostUSD == nil:
	case was.CostUSD == nil || o.CostUSD == nil && o.Usage.Total > 0:
		r.CostUSD = nil // a part of it has no price
	case o.CostUSD == nil:
		r.CostUSD = was.CostUSD
	default:
		sum := *was.CostUSD + *o.CostUSD
		r.CostUSD = &sum
	}
	r.ToolCalls.Total += was.ToolCalls.Total
	r.ToolCalls.Failed += was.ToolCalls.Failed
	r.ToolCalls.Denied += was.ToolCalls.Denied
	r.Files = addFiles(was.Files, r.Files)
	r.Commands = slices.Concat(was.Commands, r.Commands)
	r.Commits = slices.Concat(was.Commits, r.Commits)
	r.Denials = slices.Concat(was.Denials, r.Denials)
	r.Children = slices.Concat(was.Children, r.Children)
	r.Messages = slices.Concat(was.Messages, r.Messages)
	r.StateFiles = slices.Concat(was.StateFiles, slices.DeleteFunc(slices.Clone(r.StateFiles), func(f string) bool { return slices.Contains(was.StateFiles, f) }))
}

// addFiles adds up changes by path, in the order in which they first came.
func addFiles(have, more []FileChange) []FileChange {
	out := slices.Clone(have)
	for _, m := range more {
		i := slices.IndexFunc(out, func(f FileChange) bool { return f.Path == m.Path })
		if i < 0 {
			out = append(out, m)
			continue
		}
		f := &out[i]
		binary := f.Added < 0 || f.Removed < 0 || m.Added < 0 || m.Removed < 0
		if f.Added, f.Removed = f.Added+m.Added, f.Removed+m.Removed; binary {
			f.Added, f.Removed = -1, -1
		}
		switch added, deleted := string(git.Added), string(git.Deleted); {
		case f.Kind == added && m.Kind != deleted:
		case f.Kind == deleted && m.Kind == added:
			f.Kind = string(git.Modified)
		default:
			f.Kind = m.Kind
		}
	}
	return out
}

// end sets how the run ended.
func (r *Result) end(s result.Status, signal int, f *result.Failure) {
	r.Status, r.ExitCode, r.OK = s, exitCode(s, signal), s == result.Completed
	r.Error = nil
	switch {
	case f != nil:
	case r.OK:
		return
	default:
		f = &result.Failure{Kind: string(s), Message: r.Reason}
	}
	if r.Reason == "" {
		r.Reason = f.Message
	}
	r.Error = &Failure{
		Kind: f.Kind, Message: f.Message, Hint: optional(orWord(f.Hint, wayOut(s, f.Kind))), Retryable: f.Retryable,
		HTTPStatus: httpStatus(f.HTTPStatus),
	}
	if f.RetryAfter > 0 {
		s := f.RetryAfter.Seconds()
		r.Error.RetryAfter = &s
	}
}

// answer is what a person or a pipe gets: the JSON that fits the schema when
// one was asked for, else the model's words.
func (r *Result) answer() string {
	if len(r.Structured) > 0 && !bytes.Equal(r.Structured, []byte("null")) {
		return string(r.Structured)
	}
	if r.Result != nil {
		return *r.Result
	}
	return ""
}

// encode returns the document as one line of valid JSON in valid UTF-8,
// without a newline.
func (r *Result) encode() ([]byte, error) {
	d := *r
	d.StateFiles, d.Files, d.Commands = orEmpty(d.StateFiles), orEmpty(d.Files), orEmpty(d.Commands)
	d.Commits, d.Denials, d.Children = orEmpty(d.Commits), orEmpty(d.Denials), orEmpty(d.Children)
	d.Messages, d.Warnings = orEmpty(d.Messages), orEmpty(d.Warnings)
	if d.Check != nil {
		check := *d.Check
		check.LeftOut = orEmpty(check.LeftOut)
		d.Check = &check
	}
	d.Structured = validJSON(d.Structured)
	denials := make([]result.Denial, len(d.Denials))
	for i, x := range d.Denials {
		x.Args = validJSON(x.Args)
		denials[i] = x
	}
	d.Denials = denials
	return encode(d)
}

// resultLine is the document as the last line of an event stream.
type resultLine struct {
	Seq   int64     `json:"seq"`
	Time  time.Time `json:"time"`
	Agent string    `json:"agent"`
}

// encodeLine returns the document with the fields that every event has.
func (r *Result) encodeLine(seq int64, now time.Time, agentName string) ([]byte, error) {
	doc, err := r.encode()
	if err != nil {
		return nil, err
	}
	head, err := encode(resultLine{seq, now.UTC(), agentName})
	if err != nil {
		return nil, err
	}
	// Two objects become one: {"type":…,<head>,<rest of the document>}.
	kind := []byte(`{"type":"result",`)
	out := make([]byte, 0, len(doc)+len(head)+1)
	out = append(out, kind...)
	out = append(out, head[1:len(head)-1]...)
	out = append(out, ',')
	return append(out, doc[len(kind):]...), nil
}

func fileChanges(in []git.FileChange) []FileChange {
	out := make([]FileChange, 0, len(in))
	for _, c := range in {
		out = append(out, FileChange{c.Path, string(c.Kind), c.Added, c.Removed})
	}
	return out
}

// encode writes v as one line of JSON as people write it: < and > stay as they
// are, broken UTF-8 is made valid, and what a terminal would obey or hide is
// escaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeHidden(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// escapeHidden writes the characters of JSON that are not shown as they are
// (C1 controls, bidirectional and zero-width ones, which encoding/json leaves)
// as \u escapes. They can only stand within strings.
func escapeHidden(line []byte) []byte {
	hidden := func(r rune) bool { return r >= 0x7f && !text.Harmless(r) }
	if bytes.IndexFunc(line, hidden) < 0 {
		return line
	}
	out := make([]byte, 0, len(line)+64)
	for _, r := range string(line) {
		switch {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// validJSON returns raw when it is valid JSON in valid UTF-8, else something
// that is: what a model wrote as arguments may be anything.
func validJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if json.Valid(raw) {
		return raw
	}
	text, err := encode(string(raw))
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

// optional returns nil for an empty text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return &s
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
