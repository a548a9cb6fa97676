package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/afero"
	"golang.org/x/term"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/memory/durable"
)

// The forms of output.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputJSONL = "jsonl"
)

// output is standard output and the files that get the result too. It is used
// by one writer at a time.
type output struct {
	w        io.Writer
	terminal bool
	events   *eventWriter // nil unless the form is jsonl and the work has begun

	resultFile  string
	lastMessage string

	// broke ends the work once standard output takes no more.
	broke context.CancelCauseFunc
	err   error // the first error of w
}

func newOutput(w io.Writer) *output {
	return &output{w: w, terminal: isTerminal(w), broke: func(error) {}}
}

// Write passes p on and remembers the first error. A reader that went away
// ends the work like a signal.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
		if errors.Is(err, syscall.EPIPE) {
			err = &interrupts.Stop{Signal: syscall.SIGPIPE, Text: "the reader of standard output went away"}
		}
		o.broke(err)
	}
	return n, err
}

// print writes text that was asked for, such as a help text.
func (o *output) print(text string) error {
	_, _ = io.WriteString(o, text) // Write keeps the error
	return o.trouble()
}

// left says that the reader of standard output went away.
func (o *output) left() bool { return errors.Is(o.err, syscall.EPIPE) }

// trouble returns the error of standard output, if it is one to tell: a reader
// that went away knows.
func (o *output) trouble() error {
	if o.err == nil || o.left() {
		return nil
	}
	return broken("io", "", nil, "write standard output: %s", reason(o.err))
}

// printJSON writes one document of a command that has its own.
func (o *output) printJSON(v any) error {
	line, err := encode(v)
	if err != nil {
		return broken("internal", "", err, "encode the document")
	}
	return o.print(string(line) + "\n")
}

// finish brings the result out: to the files that were asked for, to standard
// output, and what went wrong to standard error. It returns the exit code.
func (inv *invocation) finish() int {
	r, o := inv.result, inv.out
	r.DurationMS = max(inv.Now().Sub(r.StartedAt).Milliseconds(), 0)
	if o.lastMessage != "" {
		if text := r.answer(); text != "" {
			inv.keep("last message", o.lastMessage, []byte(text))
		}
	}
	inv.keepResult()
	inv.done = true
	if err := inv.deliver(); err != nil {
		inv.demote(err)
		inv.keepResult()
	}
	if r.Error != nil && !(o.left() && r.Status == coordinator.StatusInterrupted) {
		hint := ""
		if r.Error.Hint != nil {
			hint = *r.Error.Hint
		}
		explain(inv.Stderr, r.Error.Message, hint)
	}
	return r.ExitCode
}

// deliver writes the result to standard output in the form asked for.
func (inv *invocation) deliver() error {
	r, o := inv.result, inv.out
	switch inv.form {
	case outputJSONL:
		if o.events == nil {
			o.events = newEventWriter(o, r.RunID, inv.Now)
		}
		o.events.start(inv.root)
		if err := o.events.result(r); err != nil && o.err == nil {
			return broken("internal", "", err, "encode the result")
		}
	case outputJSON:
		line, err := r.encode()
		if err != nil {
			return broken("internal", "", err, "encode the result")
		}
		return o.print(string(line) + "\n")
	default:
		text := r.answer()
		if text == "" {
			break
		}
		if o.terminal {
			text = safe(text)
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return o.print(text)
	}
	return o.trouble()
}

// keepResult writes the document to --result-file.
func (inv *invocation) keepResult() {
	if inv.out.resultFile == "" {
		return
	}
	doc, err := inv.result.encode()
	if err != nil {
		inv.demote(broken("internal", "", err, "encode the result"))
		return
	}
	inv.keep("result file", inv.out.resultFile, append(doc, '\n'))
}

// keep writes a file that was asked for. Not being able to makes the run fail,
// and the result says so; it is not tried twice.
func (inv *invocation) keep(what, path string, data []byte) {
	path = inv.fromHere(path)
	err := durable.Replace(afero.NewOsFs(), path, data, 0o644)
	if err == nil {
		return
	}
	if what == "result file" {
		inv.out.resultFile = ""
	}
	inv.demote(broken("io", "choose a path in a directory that exists and can be written", err, "write %s %q", what, path))
}

// demote turns a result into a failed one. What went wrong before keeps its
// word; the new trouble becomes a warning then.
func (inv *invocation) demote(err error) {
	if inv.result.Status != coordinator.StatusCompleted {
		inv.warning(err.Error())
		return
	}
	status, signal, failure := ending(err)
	inv.result.Reason = failure.Message
	inv.result.end(status, signal, failure)
}

// fromHere resolves a path of the command line against the directory in which
// the command was given: -C moves the work, not the shell that names files.
func (inv *invocation) fromHere(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(inv.Dir, path)
}

// record has the coordinator keep the document among the project's runs.
func (inv *invocation) record(co Coordinator) {
	doc, err := inv.result.encode()
	if err == nil {
		err = co.Record(json.RawMessage(doc))
	}
	if err != nil {
		inv.warning("keep the result among the project's runs: " + err.Error())
	}
}

// isTerminal says whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
