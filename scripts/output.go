package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/durable"
	"ralph/memory/text"
)

// The forms of output.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputJSONL = "jsonl"
)

const readerLeft = "the reader of standard output went away"

// output is standard output and the files that get the result too. It is used
// by one writer at a time.
type output struct {
	w        io.Writer
	terminal bool
	events   *eventWriter // nil unless the form is jsonl and the work has begun

	resultFile  string
	keeps       bool // what is written is a result, which a file can keep
	lastMessage string

	told bool // the answer stands there already, as part of a conversation

	// half ends what a command of its own form has begun to write, when something
	// goes wrong in the middle; told says that it has told what. nil: nothing is
	// begun.
	half func(*Failure) (told bool)

	// broke ends the work once standard output takes no more.
	broke context.CancelCauseFunc
	err   error // the first error of w
}

func newOutput(w io.Writer) *output {
	return &output{w: w, terminal: isTerminal(w), broke: func(error) {}}
}

// columns is how wide standard output is, where that is a terminal; elsewhere it
// is as wide as text is written.
func (o *output) columns() int {
	if f, ok := o.w.(*os.File); ok && o.terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 20 {
			return w
		}
	}
	return helpWidth
}

// Write passes p on and remembers the first error. A reader that went away
// ends the work like a signal.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.fail(err)
	return n, err
}

// fail remembers the first error of standard output, and ends the work.
func (o *output) fail(err error) {
	if err == nil || o.err != nil {
		return
	}
	o.err = err
	end := o.trouble()
	if o.left() {
		end = &interrupts.Stop{Signal: syscall.SIGPIPE, Text: readerLeft}
	}
	o.broke(end)
}

// look finds out that the reader of a pipe went away while nothing is written.
func (o *output) look() {
	f, ok := o.w.(*os.File)
	if !ok || o.terminal || o.err != nil {
		return
	}
	at := []unix.PollFd{{Fd: int32(f.Fd())}}
	if n, err := unix.Poll(at, 0); err == nil && n == 1 && at[0].Revents&unix.POLLERR != 0 {
		o.fail(syscall.EPIPE)
	}
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
	hint := "make room where standard output goes"
	if o.keeps {
		hint += ", or let --result-file keep the document"
	}
	return broken("io", hint, nil, "write standard output: %s", reason(o.err))
}

// printJSON writes one document of a command that has its own.
func (o *output) printJSON(v any) error {
	line, err := encode(v)
	if err != nil {
		return broken("internal", "", err, "encode the document")
	}
	return o.print(string(line) + "\n")
}

// stamp notes how long the run took, once: the recorded document and the
// printed one are the same.
func (inv *invocation) stamp() {
	if !inv.stamped {
		inv.stamped = true
		inv.result.DurationMS = max(inv.Now().Sub(inv.result.StartedAt).Milliseconds(), 0)
	}
}

// finish brings the result out: to the files that were asked for, to standard
// output, and what went wrong to standard error. It returns the exit code.
func (inv *invocation) finish() int {
	r, o := inv.result, inv.out
	if !inv.claim() {
		return r.ExitCode // the user left at once, and the result is out
	}
	inv.stamp()
	o.keeps = true
	if o.lastMessage != "" {
		if text := r.answer(); text != "" {
			inv.keep("last message", o.lastMessage, []byte(text))
		}
	}
	inv.keepResult()
	inv.done = true
	if err := inv.deliver(); err != nil && (r.Error == nil || r.Error.Message != err.Error()) {
		inv.demote(err)
		inv.keepResult()
	}
	if r.Error != nil && !(o.left() && r.Status == result.Interrupted) {
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
	if o.half != nil && o.half(r.Error) {
		return o.trouble()
	}
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
		if o.told {
			break
		}
		content := r.answer()
		if r.Error != nil && o.terminal && isTerminal(inv.Stderr) {
			content = untold(content, r.Error.Message)
		}
		if content == "" {
			break
		}
		if o.terminal {
			content = text.Visible(content)
		}
		if !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		return o.print(content)
	}
	return o.trouble()
}

// untold is an answer without its first line where the error, which follows on
// the same screen, begins with it.
func untold(text, message string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if told, _, _ := strings.Cut(message, "\n"); first == told {
		return rest
	}
	return text
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
	var err error
	if info, serr := os.Stat(path); serr == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = passOn(path, data)
	} else {
		err = durable.Replace(durable.Disk(), path, data, 0o644)
	}
	if err == nil {
		return
	}
	if what == "result file" {
		inv.out.resultFile = ""
	}
	inv.demote(broken("io", hintTarget, nil, "write %s %q: %s", what, path, cause(err)))
}

const hintTarget = "choose a path in a directory that exists and can be written"

// passOn writes to what is no file but leads on, such as /dev/stderr or a named
// pipe; there is nothing to replace. A pipe that nobody reads is an error.
func passOn(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// cause is the innermost reason of a storage error, for a message that names
// the path itself.
func cause(err error) string {
	var d *durable.Error
	if errors.As(err, &d) {
		err = d.Err
	}
	return reason(err)
}

// targets refuses files to write that can be seen to be none before any work is
// done and paid for.
func (inv *invocation) targets() error {
	for _, t := range []struct {
		flag string
		path *string
	}{{"--result-file", &inv.out.resultFile}, {"--last-message", &inv.out.lastMessage}} {
		if *t.path == "" {
			continue
		}
		given, full := *t.path, inv.fromHere(*t.path)
		if why := noTarget(full); why != "" {
			*t.path = "" // it cannot take this result either
			return usage(hintTarget, "%s %q: %s", t.flag, given, why)
		}
	}
	return nil
}

// noTarget says why a file cannot be written at path, or "".
func noTarget(path string) string {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "is a directory"
	case err == nil && !info.Mode().IsRegular():
		return "" // a device or a pipe
	}
	if link, err := os.Lstat(path); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		return "is a symbolic link, and those are not followed"
	}
	dir := filepath.Dir(path)
	if info, err = os.Stat(dir); err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return "its directory cannot be used: " + reason(err)
	}
	return ""
}

// demote turns a result into a failed one. What went wrong before keeps its
// word; the new trouble becomes a warning then.
func (inv *invocation) demote(err error) {
	if inv.result.Status != result.Completed {
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
func (inv *invocation) record(keep func(json.RawMessage) error) {
	doc, err := inv.result.encode()
	if err == nil {
		err = keep(doc)
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
