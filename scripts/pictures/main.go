// Command pictures makes the pictures of the README: it runs the real ralph on a
// pseudo-terminal, types like a person, and writes what stands on the screen as
// SVG.
//
// It owns the scenes, the model of the terminal and the drawing. The replies of
// the model come from cassettes, which the test of this package records; all
// else, projects, git, commands, agents, the stop, is real. It refuses to touch up
// a screen: a picture holds each cell as the terminal got it.
//
//	go run ./scripts/pictures -ralph bin/ralph      (make pictures)
//
// A picture whose text says the same as before, but for times and numbers that
// change from run to run, is left as it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// sceneTime bounds one scene.
const sceneTime = 90 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("pictures", flag.ContinueOnError)
	flags.SetOutput(stderr)
	ralph := flags.String("ralph", "bin/ralph", "the program, built")
	dir := flags.String("dir", "scripts/pictures", "where the cassettes are and the pictures go")
	only := flags.String("only", "", "the scene to play, all without it")
	if flags.Parse(args) != nil {
		return 2
	}
	err := draw(ctx, *ralph, *dir, *only, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "pictures:", err)
		return 1
	}
	return 0
}

// draw plays the scenes and writes the pictures that changed.
func draw(ctx context.Context, ralph, dir, only string, out io.Writer) error {
	program, err := filepath.Abs(ralph)
	if err != nil {
		return err
	}
	for _, s := range scenes() {
		if only != "" && only != s.name {
			continue
		}
		tape, err := filepath.Abs(filepath.Join(dir, "cassettes", s.name+".yaml"))
		if err != nil {
			return err
		}
		shots, err := play(ctx, s, program, "RALPH_REPLAY="+tape)
		if err != nil {
			return fmt.Errorf("scene %s: %w", s.name, err)
		}
		for _, p := range shots {
			path := filepath.Join(dir, p.name+".svg")
			before, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if same(textOf(string(before)), p.text()) {
				fmt.Fprintf(out, "%s: says the same\n", path)
				continue
			}
			if err := os.WriteFile(path, []byte(p.svg()), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: drawn\n", path)
		}
	}
	return nil
}
