package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"ralph/coordinator/desk"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/coordinator/slash"
	"ralph/interrupts"
	"ralph/memory"
	"ralph/repl/line"
	"ralph/repl/render"
	"ralph/workers/exec"
)

// maxComposed bounds the text that comes back from an editor into the prompt.
const maxComposed = 1 << 20

// lendsOut can lend the terminal to another program.
type lendsOut interface {
	Outside(ctx context.Context, f func(ctx context.Context, tty *os.File) error) error
}

// stateFiles are the short names of the files of Ralph's memory.
func stateFiles() []string { return []string{"tasks", "goals", "todo", "progress", "agent"} }

// stateFile is the file of a short name, "" for no such name.
func stateFile(name string) string {
	switch name {
	case "tasks":
		return memory.TasksFile
	case "goals":
		return memory.GoalsFile
	case "todo":
		return memory.TodoFile
	case "progress":
		return memory.ProgressFile
	case "agent":
		return memory.AgentFile
	}
	return ""
}

// edit does /edit.
func (s *Shell) edit(args string) {
	if args == "" {
		s.compose("", 0)
		return
	}
	names, err := slash.Words(args)
	if err != nil || len(names) != 1 {
		s.fail("/edit opens one file", `/edit main.go, /edit "my notes.md", /edit tasks; /edit alone is for the line`)
		return
	}
	name, root := strings.TrimPrefix(names[0], "@"), s.mind.About.Project().Root
	s.withEditor(func(ctx context.Context, open func(path string) error) func() {
		path := name
		if file := stateFile(name); file != "" && !isFile(root, name) {
			path, name = file, file
		}
		if rest, home := strings.CutPrefix(path, "~/"); home {
			path = filepath.Join(s.o.Getenv("HOME"), rest)
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return s.editFile(name, path, open)
	})
}

// editFile opens a file and tells what came of it. It works beside the loop.
func (s *Shell) editFile(name, path string, open func(string) error) func() {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return func() { s.fail("/edit "+name+": that is a folder", "/edit FILE opens one file") }
	case err == nil && !info.Mode().IsRegular():
		return func() { s.fail("/edit "+name+": that is no file to edit", "/edit FILE opens one file") }
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return func() { s.fail("edit "+name+": "+plainError(err), "") }
	}
	if _, missing := os.Stat(filepath.Dir(path)); missing != nil {
		return func() { s.fail("edit "+name+": its folder is not there", "!mkdir makes it") }
	}
	opened := open(path)
	after, gone := os.Stat(path)
	return func() {
		if opened != nil {
			s.noEditor(opened, "")
			return
		}
		switch {
		case gone != nil && info == nil:
			s.note(name + " was not made")
		case gone != nil:
			s.note(name + " is gone")
		case info == nil:
			s.note(name + " is new")
		case info.ModTime().Equal(after.ModTime()) && info.Size() == after.Size():
			s.note(name + " is as it was")
		default:
			s.note(name + " is changed")
		}
	}
}

// withEditor lets f open files in the user's editor, beside the loop. What others
// print meanwhile waits.
func (s *Shell) withEditor(f func(ctx context.Context, open func(path string) error) func()) {
	out, ok := s.reader.(lendsOut)
	if !ok || s.sequential {
		s.fail("an editor needs a terminal", "start `ralph chat` on one")
		return
	}
	root := s.mind.About.Project().Root
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		after := s.guarded(s.ctx, func(ctx context.Context) func() {
			argv, err := s.editor(root)
			if err != nil {
				return func() { s.explain(err) }
			}
			return f(ctx, func(path string) error { return onTerminal(ctx, out, append(argv, path), root) })
		})
		if after != nil {
			s.post(after)
		}
	}()
}

// onTerminal runs an editor on the terminal, which is lent to it.
func onTerminal(ctx context.Context, out lendsOut, argv []string, dir string) error {
	return out.Outside(ctx, func(ctx context.Context, tty *os.File) error {
		exit, err := exec.OnTerminal(ctx, argv, tty, dir, nil)
		if err == nil && exit != 0 {
			err = &editorError{argv[0], exit}
		}
		return err
	})
}

// editorError says that an editor ended with an exit code of its own.
type editorError struct {
	name string
	exit int
}

// Error names the editor and the code.
func (e *editorError) Error() string { return fmt.Sprintf("%s ended with exit %d", e.name, e.exit) }

// editor is the command of the user's editor, for a project with that root. It looks
// at the disk.
func (s *Shell) editor(root string) ([]string, error) {
	argv, err := desk.Editor(s.o.Getenv, root)
	if err != nil {
		return nil, &result.Error{Op: "open editor", Err: err, Hint: desk.EditorHint}
	}
	return argv, nil
}

// compose lets the user go on with the line in an editor. What is saved stands in
// the prompt then, and is not sent; ask is the question that the line answers.
func (s *Shell) compose(text string, ask int) {
	if s.leaving || !s.ready {
		return
	}
	s.withEditor(func(ctx context.Context, open func(string) error) func() {
		before := ""
		if text != "" {
			before = s.lineFor(ctx, ask)
		}
		c, err := newComposed(text)
		if err != nil {
			return func() { s.fail("edit the line: "+plainError(err), "it stands in the prompt as it was") }
		}
		err = open(c.path)
		if errors.Is(err, line.ErrLent) {
			c.remove()
			return nil // the key was pressed twice: it is open
		}
		saved, left := c.read()
		if err == nil {
			err = left
		}
		if err != nil {
			kept := c.keep(text)
			return func() { s.noEditor(err, kept) }
		}
		c.remove()
		if saved == text {
			return nil
		}
		return func() { s.composed(ask, before, saved) }
	})
}

// composed puts the text from the editor into the prompt: in place of the line that
// was taken there, before any other. A plain terminal has no line to put it into.
func (s *Shell) composed(ask int, before, saved string) {
	if !s.live {
		s.sendComposed(saved)
		return
	}
	s.reader.Edit(s.slate.composed(ask, before, saved))
}

// sendComposed asks what is to become of a text from the editor.
func (s *Shell) sendComposed(text string) {
	s.choose(func(ctx context.Context) func() {
		answer, err := s.ask(ctx, permission.Question{Kind: "question", Text: "Send this?\n" + text, Options: []string{"no", "yes"}})
		return func() {
			if err == nil && answer == "yes" {
				s.onLine(text, 0)
				return
			}
			s.note("not sent")
		}
	})
}

// noEditor says why nothing came of an editor; kept is the file with what was saved
// all the same.
func (s *Shell) noEditor(err error, kept string) {
	var own *editorError
	var program *exec.Error
	_, stopped := interrupts.AsStop(err)
	hint := ""
	if kept != "" {
		hint = "what was saved is in " + kept
	}
	switch {
	case s.leaving, stopped, errors.Is(err, context.Canceled):
		if hint != "" {
			s.note(hint)
		}
	case errors.As(err, &own):
		s.ink.say(func(r *render.Renderer) string {
			out := r.Warning(own.Error() + ": the line is as it was")
			if hint != "" {
				out += r.Note(hint)
			}
			return out
		})
	case errors.As(err, &program) && hint == "":
		s.fail("editor: "+err.Error(), program.Hint)
	default:
		s.fail("editor: "+plainError(err), hint)
	}
}

// plainError is an error of the system without the path of a file that the user
// never named.
func plainError(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// What an editor left is not taken for these reasons.
var (
	errNothingSaved = errors.New("nothing was left in the file; the line is as it was")
	errNotText      = errors.New("what was saved is not UTF-8 text; the line is as it was")
	errTooLong      = errors.New("what was saved is longer than a line may be (1 MB); the line is as it was")
)

// composed is a line in a file of its own, which nobody else can read.
type composed struct{ dir, path string }

func newComposed(text string) (c composed, err error) {
	if c.dir, err = os.MkdirTemp("", "ralph-line-"); err != nil {
		return c, err
	}
	c.path = filepath.Join(c.dir, "line.md")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := os.WriteFile(c.path, []byte(text), 0o600); err != nil {
		c.remove()
		return c, err
	}
	return c, nil
}

// read returns what was saved, without the line break at its end.
func (c composed) read() (string, error) {
	f, err := os.OpenFile(c.path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxComposed+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxComposed:
		return "", errTooLong
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", errNotText
	}
	text := strings.TrimRight(string(data), "\n")
	if strings.TrimSpace(text) == "" {
		return "", errNothingSaved
	}
	return text, nil
}

func (c composed) remove() { _ = os.RemoveAll(c.dir) }

// keep leaves the file when there is something in it that is nowhere else, and
// names it then.
func (c composed) keep(text string) string {
	saved, err := c.read()
	var none *fs.PathError
	if errors.As(err, &none) || errors.Is(err, errNothingSaved) || err == nil && strings.TrimSpace(saved) == strings.TrimSpace(text) {
		c.remove()
		return ""
	}
	return c.path
}
