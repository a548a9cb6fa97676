// Package iteration writes `iterations/NNN-<task>.md` of a run's session: what was
// asked in one iteration, what the agent did in brief, what the checks said, and
// how it ended, for people to read.
//
// The file grows while the iteration runs, so that what was done before a crash
// stands there; a file without an outcome was cut off. It only repeats what the
// journal holds: it is synced at the end alone, and what cannot be written never
// fails the work but is said by Close. Foreign text stands in fences that it
// cannot end, and is bounded.
//
//	w := iteration.Begin(iteration.Options{Dir: sessionDir}, iteration.Head{Number: 7, Task: "T-12", Title: "Retry the upload"})
//	w.Prompt(prompt)
//	w.Tool("edit", `{"path":"upload.go"}`, true)
//	w.Check(iteration.Check{Command: "go test ./upload/...", Output: out, ExitCode: 1})
//	w.Final(text)
//	err := w.End(iteration.Outcome{Status: "done", Verified: true})
package iteration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/text"
)

// Dir is the directory of the files, in a session's.
const Dir = "iterations"

const (
	// maxText bounds a prompt or a message, maxOutput what a check printed: its
	// end, where the failure is said.
	maxText   = 256 << 10
	maxOutput = 32 << 10
	maxTools  = 1000
	maxArgs   = 200
	// maxWaiting bounds what waits for a disk that does not take it.
	maxWaiting = 1 << 20
	maxSlug    = 50
)

// Options says where a file goes.
type Options struct {
	// FS holds it; nil means the real disk.
	FS afero.Fs
	// Dir is the session's directory, absolute.
	Dir string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Redact takes secrets out of what is written; nil keeps all.
	Redact func(string) string
}

// Head is what is known when an iteration begins.
type Head struct {
	Number  int // of the iteration, from 1
	Attempt int // at the task, from 1; 0 is not told
	Task    string
	Title   string
	Agent   string
	Model   string
	Phase   string
}

// Check is one run of a check.
type Check struct {
	Command  string
	Output   string
	ExitCode int
	TimedOut bool
	Took     time.Duration
}

// Outcome is how an iteration ended.
type Outcome struct {
	Status     string // done, partial, failed, needs_input, interrupted
	Verified   bool
	Confidence *float64
	Landing    string // merged, held, conflict, unchanged; empty: not merged
	Commit     string
	Files      []string
	Problem    string
	Question   string
	Next       string // what is done about it: retry, skip, …
	Tokens     int64
	CostUSD    *float64
	Turns      int
	ToolCalls  int
}

// Writer writes the file of one iteration. It is safe for concurrent use;
// whoever begins it ends it, or closes it when the iteration was cut off.
type Writer struct {
	o     Options
	path  string
	begun time.Time

	mu      sync.Mutex // guards what follows
	section string
	tools   int
	waiting string // what is still to be written
	lost    bool   // some of it was dropped
	size    int64  // of what was written
	failed  error
	closed  bool
}

// Name is the name of an iteration's file: 007-T-12.md.
func Name(number int, task string) string {
	var b strings.Builder
	for _, r := range task {
		switch {
		case b.Len()+utf8.RuneLen(r) > maxSlug:
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '.' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	slug := strings.Trim(b.String(), "-.")
	if slug == "" {
		slug = "task"
	}
	return fmt.Sprintf("%03d-%s.md", number, slug)
}

// Begin begins the file of an iteration. One that stands there already, of an
// iteration that was cut off before it was counted, is gone on with. Errors are
// as with the other methods.
func Begin(o Options, h Head) *Writer {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redact == nil {
		o.Redact = func(t string) string { return t }
	}
	w := &Writer{o: o, path: filepath.Join(o.Dir, Dir, Name(h.Number, h.Task)), begun: o.Now()}
	var b strings.Builder
	title := w.line(h.Task)
	if h.Title != "" {
		title += ": " + w.line(h.Title)
	}
	fmt.Fprintf(&b, "# Iteration %d: %s\n\n- started: %s\n", h.Number, title, w.begun.UTC().Format(time.RFC3339))
	for _, f := range [][2]string{{"phase", h.Phase}, {"agent", h.Agent}, {"model", h.Model}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "- %s: %s\n", f[0], w.line(f[1]))
		}
	}
	if h.Attempt > 0 {
		fmt.Fprintf(&b, "- attempt: %d\n", h.Attempt)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(b.String())
	return w
}

// Path is the file.
func (w *Writer) Path() string { return w.path }

// Prompt writes what the agent was asked.
func (w *Writer) Prompt(text string) { w.text("Prompt", text) }

// Final writes the agent's last message.
func (w *Writer) Final(text string) { w.text("Final message", text) }

// Note writes a line of what happened: a wait, a change of agent, a decision.
func (w *Writer) Note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under("Notes", "- "+w.o.Now().UTC().Format("15:04:05")+" "+w.line(line)+"\n")
}

// Tool writes in a line that a tool was called. Of more than a thousand the rest
// is counted.
func (w *Writer) Tool(name, args string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tools++; w.tools > maxTools {
		return
	}
	how := ""
	if !ok {
		how = " (failed)"
	}
	args = w.line(args)
	if len(args) > maxArgs {
		args = strings.ToValidUTF8(args[:maxArgs], "") + "…"
	}
	w.under("Tool calls", fmt.Sprintf("- %s %s%s\n", w.line(name), code(args), how))
}

// Check writes what a check said.
func (w *Writer) Check(c Check) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how := fmt.Sprintf("exit code %d", c.ExitCode)
	switch {
	case c.TimedOut:
		how = "timed out"
	case c.ExitCode == 0:
		how = "passed"
	}
	w.under("Checks", fmt.Sprintf("- %s: %s, %s\n\n%s", code(w.line(c.Command)), how, c.Took.Round(time.Millisecond), indent(w.fence(c.Output, maxOutput, true))))
}

// End writes the outcome and closes the file. The error is what of the file is
// not on disk.
func (w *Writer) End(r Outcome) error {
	var b strings.Builder
	item := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- %s: %s\n", name, w.line(value))
		}
	}
	now := w.o.Now()
	item("status", r.Status)
	fmt.Fprintf(&b, "- verified: %t\n", r.Verified)
	if r.Confidence != nil {
		item("confidence", fmt.Sprintf("%.2f", *r.Confidence))
	}
	item("merge", r.Landing)
	item("commit", r.Commit)
	item("problem", r.Problem)
	item("question", r.Question)
	item("next", r.Next)
	item("ended", now.UTC().Format(time.RFC3339))
	item("took", now.Sub(w.begun).Round(time.Millisecond).String())
	if r.Turns+r.ToolCalls > 0 || r.Tokens > 0 {
		item("spent", fmt.Sprintf("%d turns, %d tool calls, %d tokens", r.Turns, r.ToolCalls, r.Tokens))
	}
	if r.CostUSD != nil {
		item("cost", fmt.Sprintf("$%.4f", *r.CostUSD))
	}
	for _, f := range r.Files {
		item("file", f)
	}
	w.mu.Lock()
	if !w.closed {
		if w.tools > maxTools {
			w.under("Tool calls", fmt.Sprintf("- and %d more\n", w.tools-maxTools))
		}
		w.under("Outcome", b.String())
	}
	w.mu.Unlock()
	return w.Close()
}

// Close syncs and closes a file, also one that has no outcome. A second Close
// does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.write("")
	err := w.failed
	if err == nil {
		err = w.sync()
	}
	if err == nil && w.lost {
		err = errors.New("some of it was dropped while the disk took nothing")
	}
	if err != nil {
		return fmt.Errorf("write iteration %q: %w", w.path, err)
	}
	return nil
}

// text writes a section that is one fenced text.
func (w *Writer) text(section, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.section = "" // each has its own heading
	w.under(section, w.fence(text, maxText, false))
}

// under writes text below a heading, which stands there once as long as nothing
// else comes between; mu is held.
func (w *Writer) under(section, text string) {
	if w.closed {
		return
	}
	if w.section != section {
		w.section = section
		text = "\n## " + section + "\n\n" + text
	}
	w.write(text)
}

// line makes text fit for one line of Markdown.
func (w *Writer) line(content string) string {
	return strings.Join(strings.Fields(text.VisibleLine(w.o.Redact(content))), " ")
}

// code quotes a line; a longer run of backticks ends it.
func code(line string) string {
	if line == "" {
		return ""
	}
	ticks := strings.Repeat("`", longest(line)+1)
	if strings.HasPrefix(line, "`") || strings.HasSuffix(line, "`") {
		return ticks + " " + line + " " + ticks
	}
	return ticks + line + ticks
}

// fence quotes a text; of one that is too long, the beginning, or the end.
func (w *Writer) fence(content string, most int, end bool) string {
	content = strings.TrimRight(text.Visible(w.o.Redact(content)), "\n \t")
	if n := len(content) - most; n > 0 {
		cut := fmt.Sprintf("[… %d bytes are left out …]", n)
		if end {
			content = cut + "\n" + strings.ToValidUTF8(content[n:], "")
		} else {
			content = strings.ToValidUTF8(content[:most], "") + "\n" + cut
		}
	}
	if content == "" {
		return "(nothing)\n"
	}
	mark := strings.Repeat("`", max(3, longest(content)+1))
	return mark + "text\n" + content + "\n" + mark + "\n"
}

// longest is the length of the longest run of backticks.
func longest(text string) int {
	run, most := 0, 0
	for _, r := range text {
		if r != '`' {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	return most
}

// indent puts a block below an item of a list.
func indent(block string) string {
	var b strings.Builder
	for l := range strings.Lines(block) {
		b.WriteString("  " + l)
	}
	return b.String()
}

// write writes a text and what waits before it; mu is held.
func (w *Writer) write(text string) {
	w.waiting += text
	if n := len(w.waiting) - maxWaiting; n > 0 {
		w.waiting, w.lost = strings.ToValidUTF8(w.waiting[n:], ""), true
	}
	if w.waiting == "" {
		return
	}
	if w.failed = w.append(w.waiting); w.failed == nil {
		w.waiting = ""
	}
}

// append appends a text without syncing it; after an error none of it is there,
// as far as that can be undone.
func (w *Writer) append(text string) error {
	f, err := w.open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = durable.MkdirAll(w.o.FS, filepath.Dir(w.path), 0o700); err == nil {
			f, err = w.open()
		}
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	if err == nil {
		end := info.Size() // now: some filesystems tell it as it is when they are asked
		if w.size == 0 && end > 0 {
			text = "\n\n---\n\n" + text // what an earlier try left
		}
		if _, err = f.Write([]byte(text)); err != nil {
			err = errors.Join(err, f.Truncate(end))
		} else {
			w.size += int64(len(text))
		}
	}
	_ = f.Close() // what was written is written: it must not come twice
	return err
}

func (w *Writer) open() (afero.File, error) {
	return w.o.FS.OpenFile(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

func (w *Writer) sync() error {
	f, err := w.open()
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), durable.SyncDir(w.o.FS, filepath.Dir(w.path)))
}
