package model

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/spf13/afero"
	"go.yaml.in/yaml/v4"

	"ralph/workers/agent"
)

// Recorder writes a cassette. Each exchange and each result is on disk before
// its effects begin, so that a crash loses nothing that happened before it. It
// is safe for concurrent use; whoever opens it closes it.
type Recorder struct {
	fs   afero.Fs
	path string

	mu      sync.Mutex // guards the fields below
	veil    veil
	file    afero.File
	begun   bool // an entry has been written
	err     error
	agents  map[string]*recorded
	results map[[2]string]string // agent and call to the recorded answer
}

// recorded is what a cassette holds of one agent.
type recorded struct {
	msgs  []agent.Message // the last request, and its reply
	tools string          // the digest last noted
}

// OpenRecorder begins a cassette. An older cassette at the path is replaced, a
// file of another sort is not. redact takes secrets out of a text; nil takes
// out none.
func OpenRecorder(fs afero.Fs, path string, redact func(string) string) (*Recorder, error) {
	r := &Recorder{
		fs: fs, path: path,
		veil:    veil{redact: redact},
		agents:  make(map[string]*recorded),
		results: make(map[[2]string]string),
	}
	rules := builtins()
	for _, name := range defaultMask() {
		r.veil.rules = append(r.veil.rules, rules[name])
	}
	if old, err := afero.ReadFile(fs, path); err == nil && len(old) > 0 && !bytes.HasPrefix(old, []byte(cassetteMark)) {
		return nil, fmt.Errorf("record to %q: the file is there and is no cassette", path)
	}
	if err := r.begin(Endpoint{}); err != nil {
		return nil, err
	}
	return r, nil
}

// SetRoot names the project's root, which the cassette then calls ${root}, so
// that it replays in another place.
func (r *Recorder) SetRoot(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.veil.root = dir
}

// begin writes a cassette without exchanges, whole or not at all, and opens it
// for more.
func (r *Recorder) begin(end Endpoint) error {
	head := cassette{Version: cassetteVersion, Provider: end.Provider, Model: end.Model, Mask: r.veil.rules}
	text, err := yaml.Dump(head, yaml.WithLineWidth(-1))
	if err != nil {
		return fmt.Errorf("record to %q: %w", r.path, err)
	}
	text = append([]byte(cassetteMark+"\n"), bytes.TrimSuffix(text, []byte(" []\n"))...)
	text = append(bytes.TrimRight(text, "\n"), '\n')
	if r.file != nil {
		if err := r.file.Close(); err != nil {
			return fmt.Errorf("record to %q: %w", r.path, err)
		}
		r.file = nil
	}
	if err := writeWhole(r.fs, r.path, text); err != nil {
		return fmt.Errorf("record to %q: %w", r.path, err)
	}
	r.file, err = r.fs.OpenFile(r.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("record to %q: %w", r.path, err)
	}
	return nil
}

// writeWhole replaces a file by a new one beside it.
func writeWhole(fs afero.Fs, path string, text []byte) error {
	temp := path + ".new"
	if err := fs.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := fs.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fs.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, fs.Remove(temp))
	}
	return nil
}

// recording is the transport by which a Client finds its Recorder. Exchanges
// are recorded where they are understood, in the Client; the wire is base's.
type recording struct {
	base http.RoundTripper
	to   *Recorder
}

// Transport returns what Options.Transport has to be for a Client to be
// recorded. base carries the requests; nil means the Client's own transport.
func (r *Recorder) Transport(base http.RoundTripper) http.RoundTripper {
	return &recording{base: base, to: r}
}

// RoundTrip carries a request of anybody but a Client, unrecorded.
func (t *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.base == nil {
		return http.DefaultTransport.RoundTrip(req)
	}
	return t.base.RoundTrip(req)
}

// model notes which model is recorded. A failure is told by the next exchange.
func (r *Recorder) model(end Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun && r.err == nil {
		r.err = r.begin(end)
	}
}

// outcome says how a request ended.
type outcome int

const (
	outcomeWhole   outcome = iota
	outcomeStopped         // the context ended while it was under way
	outcomeFailed
)

// exchange records what came of a request. A failure that may pass is not
// recorded: its retries would not match.
func (r *Recorder) exchange(req agent.Request, reply agent.Reply, how outcome, failed *Error) error {
	if how == outcomeFailed && (failed.Retryable || failed.HTTPStatus < 400) {
		return nil
	}
	tools, err := encodeTools(req.Tools)
	if err != nil {
		return fmt.Errorf("record to %q: %w", r.path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[req.Agent]
	if a == nil {
		a = &recorded{}
		r.agents[req.Agent] = a
	}
	e := entry{Agent: req.Agent}
	n := 0
	for n < len(a.msgs) && n < len(req.Messages) && sameMessage(&a.msgs[n], &req.Messages[n]) {
		n++
	}
	if n < len(a.msgs) {
		e.Keep = &n
	}
	prompt := 0
	for prompt < len(req.Messages) && req.Messages[prompt].Role == agent.RoleSystem {
		prompt++
	}
	for i, m := range req.Messages[n:] {
		e.Request = append(e.Request, r.said(req.Agent, m, n+i < prompt))
	}
	if len(req.Tools) == 0 {
		tools = nil // as on the wire
	}
	if d := digest(r.veil.write(string(tools))); (len(req.Tools) > 0 || a.tools != "") && d != a.tools {
		e.Tools, a.tools = &toolsNote{Names: toolNames(req.Tools), Digest: d}, d
	}
	e.Reply = r.reply(reply, how, failed)
	a.msgs = append([]agent.Message(nil), req.Messages...)
	if how == outcomeWhole {
		a.msgs = append(a.msgs, reply.Message)
	}
	return r.append(e)
}

func toolNames(tools []agent.Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// said notes one message. Of the system prompt it notes only the digest: the
// text is long, and the same in every recording.
func (r *Recorder) said(name string, m agent.Message, prompt bool) said {
	text := r.veil.write(m.Text)
	switch m.Role {
	case agent.RoleSystem:
		if prompt {
			text = digest(r.veil.same(text))
		}
		return said{System: &text}
	case agent.RoleUser:
		return said{User: &text}
	case agent.RoleTool:
		s := said{Tool: &m.CallID, Text: &text}
		if answer, ok := r.results[[2]string{name, m.CallID}]; ok && answer != "" && answer == m.Text {
			s.Text = nil
		}
		return s
	}
	return said{Assistant: &text, Calls: r.calls(m.Calls)}
}

func (r *Recorder) calls(calls []agent.Call) []callNote {
	var notes []callNote
	for _, c := range calls {
		notes = append(notes, noteCall(r.veil.write(c.ID), r.veil.write(c.Name), r.veil.write(c.Args)))
	}
	return notes
}

func (r *Recorder) reply(reply agent.Reply, how outcome, failed *Error) *replyNote {
	m := reply.Message
	n := &replyNote{Text: r.veil.write(m.Text), Reasoning: r.veil.write(m.Reasoning), Model: reply.Model, Cost: reply.CostUSD}
	switch how {
	case outcomeStopped:
		n.Hold = true
		return n
	case outcomeFailed:
		return &replyNote{Error: &errorNote{Status: failed.HTTPStatus, Message: r.veil.write(failed.Message), Code: codeOf(failed.Kind)}}
	}
	n.Calls = r.calls(m.Calls)
	for i, c := range m.Calls {
		// What redaction leaves unreadable is left out: a replay gets on without.
		if extra := r.veil.hide(string(c.Extra)); isObject([]byte(extra)) {
			n.Calls[i].Extra = noteObject(extra)
		}
	}
	if reply.Finish != defaultFinish(len(m.Calls)) {
		n.Finish = reply.Finish
	}
	if u := reply.Usage; !u.Estimated {
		n.Usage = &usageNote{Input: u.Input, Cached: u.CachedInput, Output: u.Output, Reasoning: u.Reasoning}
	}
	return n
}

// codeOf is a code by which a replayed error is classified as it was.
func codeOf(k Kind) string {
	switch k {
	case KindContextLength:
		return "context_length_exceeded"
	case KindQuota:
		return "insufficient_quota"
	case KindContentFilter:
		return "content_filter"
	case KindModelNotFound:
		return "model_not_found"
	}
	return ""
}

// Tool records the result of a call before the model is told of it. A call
// without an ID is the first of its name and arguments in the agent's last reply
// that has no result yet.
func (r *Recorder) Tool(name string, call agent.Call, res agent.Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.agents[name]; a != nil && call.ID == "" && len(a.msgs) > 0 {
		args := compact(call.Args)
		for _, c := range a.msgs[len(a.msgs)-1].Calls {
			_, done := r.results[[2]string{name, c.ID}]
			if !done && c.Name == call.Name && compact(wireArgs(c.Args)) == args {
				call.ID = c.ID
				break
			}
		}
	}
	note := &resultNote{
		Call: call.ID, Name: r.veil.write(call.Name), Head: r.veil.write(res.Head), Text: r.veil.write(res.Text),
		Failed: res.Failed, Denied: r.veil.write(res.Denied),
	}
	if res.Command != nil {
		code := res.Command.ExitCode
		note.Exit = &code
	}
	// The transcript may hold the result in other words than it was recorded
	// with, when redaction spans head and text; then it is written out again.
	id := [2]string{name, call.ID}
	r.results[id] = ""
	if answer := note.result(); r.veil.write(res.Answer()) == answer.Answer() {
		r.results[id] = res.Answer()
	}
	return r.append(entry{Agent: name, Result: note})
}

// append puts one entry behind the others, by one write.
func (r *Recorder) append(e entry) error {
	if r.err != nil {
		return r.err
	}
	if r.file == nil {
		return fmt.Errorf("record to %q: %w", r.path, os.ErrClosed)
	}
	text, err := yaml.Dump([]entry{e}, yaml.WithLineWidth(-1))
	if err == nil {
		_, err = r.file.Write(text)
	}
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		r.err = fmt.Errorf("record to %q: %w", r.path, err)
		return r.err
	}
	r.begun = true
	return nil
}

// Close ends the cassette. It returns the error that kept a part from being
// recorded, if there was one.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if err != nil {
		err = fmt.Errorf("record to %q: %w", r.path, err)
	}
	return errors.Join(r.err, err)
}
