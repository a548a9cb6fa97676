// Package demo shows Ralph's main job on any machine with Go and git: a small
// real project with three failing tests, for which the real coordinator has three
// agents work side by side, each in a worktree of its own, while a human says
// something to one of them, stops everything, asks, and has the work go on.
//
// Only the replies of the model and the words of the human are recorded: the
// replies come from an embedded cassette over real HTTP in this process. The
// replay holds every request against the recording, so that the demonstration
// fails when the project, a reply or Ralph itself does something else than was
// recorded; and at the end all that was claimed is read from the disk.
//
// It refuses to use a network, a key, or anything but a directory of its own.
//
//	code, err := demo.Run(ctx, demo.Options{Stdout: os.Stdout, RunID: "r-1"})
package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/exec"
)

//go:embed cassette.yaml
var cassette []byte

//go:embed project
var project embed.FS

// Options is what the demonstration needs. The zero value but for Stdout and
// RunID is the demonstration that users see.
type Options struct {
	Stdout io.Writer
	RunID  string
	Getenv func(string) string
	// Init executes this program again; see exec.Options.
	Init []string
	// Dir is where the project's directory is made; "" is the system's place for
	// temporary files.
	Dir string
	// Cassette replaces the embedded recording, and Project the embedded files
	// of the project, by path.
	Cassette []byte
	Project  map[string]string
	// Record makes a new recording at this path instead of playing one, with the
	// model at BaseURL.
	Record, BaseURL string
}

// Run plays the demonstration and reports what came of it: 0 when everything on
// disk proves what was shown, 128+n after signal n, 1 otherwise. The error says
// what went wrong; the project of a demonstration that went well stays, so that it
// can be looked at.
func Run(ctx context.Context, o Options) (code int, err error) {
	top, err := os.MkdirTemp(o.Dir, "ralph-demo-")
	if err != nil {
		return 1, fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(top))
		}
	}()
	if top, err = filepath.EvalSymlinks(top); err != nil {
		return 1, err
	}
	return newStage(o, top).perform(ctx)
}

// newStage is a demonstration below a directory, which has not begun.
func newStage(o Options, top string) *stage {
	return &stage{Options: o, began: time.Now(), proc: exec.New(exec.Options{Init: o.Init}), root: filepath.Join(top, "words"), cues: newCues(), screen: newScreen(o.Stdout)}
}

// perform plays the demonstration; it is called once.
func (s *stage) perform(ctx context.Context) (code int, err error) {
	defer func() { err = errors.Join(err, s.proc.Close(context.WithoutCancel(ctx))) }()
	if s.Cassette == nil {
		s.Cassette = cassette
	}
	if s.Project == nil {
		if s.Project, err = files(); err != nil {
			return 1, err
		}
	}
	if err := s.build(ctx); err != nil {
		return 1, err
	}
	s.opening()
	if err := s.play(ctx, filepath.Join(filepath.Dir(s.root), "cassette.yaml")); err != nil {
		return codeOf(ctx), err
	}
	found, err := s.prove(ctx)
	if err != nil {
		return 1, err
	}
	return 0, s.closing(ctx, found)
}

// stage is one demonstration.
type stage struct {
	Options
	began  time.Time
	proc   *exec.Runner // for what the demonstration itself runs
	root   string
	co     *coordinator.Coordinator // set before any work begins
	cues   *cues
	screen *screen
	// first is the commit that the project began with.
	first string
	// rubbish is a directory that a go which is killed leaves behind.
	rubbish string
	// acts are what came of each piece of work, totals what came of all.
	acts   []result.Outcome
	totals coordinator.Totals
}

// run runs a program in the project and returns what it printed.
func (s *stage) run(ctx context.Context, argv ...string) (string, error) {
	res, err := s.proc.Run(ctx, exec.Spec{Argv: argv, Dir: s.root, Timeout: 5 * time.Minute})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s exited with %d:\n%s", strings.Join(argv, " "), res.ExitCode, res.Stdout)
	}
	return res.Stdout.String(), err
}

// notes is a file of the human that nobody committed, and that stays so.
const (
	notesFile = "notes.txt"
	notesText = "my own notes, not for the repository yet\n"
)

// build makes the project: its files, a first commit, and a file of the human
// that is not committed.
func (s *stage) build(ctx context.Context) error {
	for name, text := range s.Project {
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	for _, argv := range [][]string{
		{"go", "version"},
		{"git", "init", "-q", "--template=", "."},
		{"git", "config", "user.name", "Demo"},
		{"git", "config", "user.email", "demo@localhost"},
		{"git", "add", "-A"},
		{"git", "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "words: first version"},
	} {
		if _, err := s.run(ctx, argv...); err != nil {
			return fmt.Errorf("the demonstration needs git and go: %w", err)
		}
	}
	head, err := s.run(ctx, "git", "rev-parse", "HEAD")
	s.first = strings.TrimSpace(head)
	return errors.Join(err, s.write(notesFile, notesText))
}

func (s *stage) write(name, text string) error {
	path := filepath.Join(s.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// files are the embedded files of the project. They end in .txt so that the Go
// tool does not take the project for a part of Ralph.
func files() (map[string]string, error) {
	out := map[string]string{}
	return out, fs.WalkDir(project, "project", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(project, path)
		out[strings.TrimSuffix(strings.TrimPrefix(path, "project/"), ".txt")] = string(text)
		return err
	})
}
