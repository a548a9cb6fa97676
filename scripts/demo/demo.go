// Package demo shows Ralph's main job on any machine with Go and git: a small
// real project with a failing test, which the real coordinator finds and mends
// with real tools, real commands and a real commit.
//
// Only the model's replies are recorded: they come from an embedded cassette
// over real HTTP in this process. The replay holds every request and every
// tool result against the recording, so that the demonstration fails when the
// project, a reply or Ralph itself does something else than was recorded.
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
	"ralph/memory/config"
	"ralph/workers/proc"
)

//go:embed cassette.yaml
var cassette []byte

//go:embed project
var project embed.FS

// task is what the demonstration asks for.
const task = "The test of this project fails. Find out why, mend it, and commit the fix."

// check is the proof that Ralph itself runs at the end.
const check = "go test ./..."

// Options is what the demonstration needs. The zero value but for Stdout and
// RunID is the demonstration that users see.
type Options struct {
	Stdout io.Writer
	RunID  string
	Getenv func(string) string
	// Cassette replaces the embedded recording, and Project the embedded files
	// of the project, by path.
	Cassette []byte
	Project  map[string]string
	// Record makes a new recording at this path instead of playing one, with the
	// model at BaseURL.
	Record, BaseURL string
}

// Run plays the demonstration and reports what came of it: 0 when the project
// is mended and everything on disk shows it, 128+n after signal n, 1 otherwise.
// The error says what went wrong; the project of a demonstration that went well
// stays, so that it can be looked at.
func Run(ctx context.Context, o Options) (code int, err error) {
	if o.Cassette == nil {
		o.Cassette = cassette
	}
	if o.Project == nil {
		if o.Project, err = files(); err != nil {
			return 1, err
		}
	}
	top, err := os.MkdirTemp("", "ralph-demo-")
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
	s := &stage{Options: o, proc: proc.New(proc.Options{}), root: filepath.Join(top, "slug"), subjects: map[string]string{}}
	defer func() { err = errors.Join(err, s.proc.Close(context.WithoutCancel(ctx))) }()
	if err := s.build(ctx); err != nil {
		return 1, err
	}
	s.opening()
	out, err := s.play(ctx, filepath.Join(top, "cassette.yaml"))
	switch {
	case err != nil && out.Status == coordinator.StatusCompleted, out.Status == "":
		return 1, err
	case out.Status == coordinator.StatusInterrupted && out.Signal != 0:
		return 128 + out.Signal, errors.New(out.Reason)
	case out.Status != coordinator.StatusCompleted:
		return 1, fmt.Errorf("the demonstration ended as %s: %s", out.Status, out.Reason)
	}
	if err := s.prove(ctx, out); err != nil {
		return 1, err
	}
	return 0, s.closing(ctx, out)
}

// stage is one demonstration.
type stage struct {
	Options
	proc *proc.Runner
	root string
	// subjects says what each call is about, by the call's id.
	subjects map[string]string
}

// run runs a program in the project and returns what it printed.
func (s *stage) run(ctx context.Context, argv ...string) (string, error) {
	res, err := s.proc.Run(ctx, proc.Spec{Argv: argv, Dir: s.root, Timeout: 5 * time.Minute})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s exited with %d:\n%s", strings.Join(argv, " "), res.ExitCode, res.Stdout)
	}
	return res.Stdout.String(), err
}

// build makes the project: its files and a first commit.
func (s *stage) build(ctx context.Context) error {
	if err := os.Mkdir(s.root, 0o755); err != nil {
		return err
	}
	for name, text := range s.Project {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	const who, mail = "user.name=Demo", "user.email=demo@localhost"
	for _, argv := range [][]string{
		{"go", "version"},
		{"git", "init", "-q", "--template=", "."},
		{"git", "config", "user.name", "Demo"},
		{"git", "config", "user.email", "demo@localhost"},
		{"git", "add", "-A"},
		{"git", "-c", who, "-c", mail, "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "slug: first version"},
	} {
		if _, err := s.run(ctx, argv...); err != nil {
			return fmt.Errorf("the demonstration needs git and go: %w", err)
		}
	}
	return nil
}

// play lets the real coordinator work on the project.
func (s *stage) play(ctx context.Context, tape string) (coordinator.Outcome, error) {
	flags := map[string][]string{"sandbox": {"off"}, "check": {check}, "replay": {tape}}
	if s.Record != "" {
		delete(flags, "replay")
		flags["record"], flags["base_url"], flags["model"] = []string{s.Record}, []string{s.BaseURL}, []string{"recorded"}
	} else if err := os.WriteFile(tape, s.Cassette, 0o600); err != nil {
		return coordinator.Outcome{}, err
	}
	cfg, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		return coordinator.Outcome{}, err
	}
	co, err := coordinator.Open(ctx, coordinator.Options{
		Root: s.root, Config: cfg, Proc: proc.New(proc.Options{}), RunID: s.RunID, Holder: "demo", Eyes: s.see, Getenv: s.Getenv,
	})
	if err != nil {
		return coordinator.Outcome{}, err
	}
	out := co.Run(ctx, coordinator.Job{Task: task})
	return out, co.Close()
}

// prove holds what is on disk against what the run says of itself.
func (s *stage) prove(ctx context.Context, out coordinator.Outcome) error {
	if _, err := s.run(ctx, "go", "test", "-count=1", "./..."); err != nil {
		return fmt.Errorf("the run says that it is done, but the test still fails: %w", err)
	}
	if dirty, err := s.run(ctx, "git", "status", "--porcelain", "--", "*.go"); err != nil || dirty != "" {
		return errors.Join(err, fmt.Errorf("the fix is not committed: %q", dirty))
	}
	head, err := s.run(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if len(out.Commits) != 1 || out.Commits[0] != strings.TrimSpace(head) {
		return fmt.Errorf("the run reports the commits %v, git has %s at its head", out.Commits, strings.TrimSpace(head))
	}
	if !out.Verified || len(out.FilesChanged) != 1 || out.FilesChanged[0].Path != "slug.go" {
		return fmt.Errorf("the run reports verified %v and the changes %+v", out.Verified, out.FilesChanged)
	}
	for _, name := range out.StateFiles {
		if text, err := os.ReadFile(filepath.Join(s.root, name)); err != nil || len(text) == 0 {
			return errors.Join(err, fmt.Errorf("the state file %s is empty", name))
		}
	}
	if len(out.StateFiles) == 0 {
		return errors.New("the run left no state files")
	}
	return nil
}

// files are the embedded files of the project. They end in .txt so that the Go
// tool does not take the project for a part of Ralph.
func files() (map[string]string, error) {
	out := map[string]string{}
	entries, err := fs.ReadDir(project, "project")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := fs.ReadFile(project, "project/"+e.Name())
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(e.Name(), ".txt")] = string(text)
	}
	return out, nil
}
