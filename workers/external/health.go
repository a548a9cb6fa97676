package external

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/memory/text"
	"ralph/workers/exec"
)

// probeTime bounds each of the short calls of Examine.
const probeTime = 15 * time.Second

// Health is what Examine has found out about one agent.
type Health struct {
	Name string
	// Path of the program, "" when it is not installed.
	Path, Version string
	// Missing are flags of the adapter that the program's help does not name.
	Missing []string
	// Asked says that it was given a task; Answers that it fulfilled it. Took is
	// the time for that.
	Asked, Answers bool
	Took           time.Duration
	// Err is what is wrong, nil if nothing is; Hint a way out, may be "".
	Err  error
	Hint string
}

// Installed says whether the program of an adapter is there, outside of the tree in
// dir; hint is the way out when it is not.
func Installed(a Adapter, environ []string, dir string) (hint string, err error) {
	if err := a.check(); err != nil {
		return "", fmt.Errorf("agent %q: %w", a.Name, err)
	}
	r := &run{q: Request{Adapter: a, Environ: environ, Dir: dir}}
	if _, err := find(a.Argv[0], pathOf(r.environ(), environ), dir); err != nil {
		r.missing(err)
	}
	return r.res.Hint, r.res.Err
}

// Examine looks at the program of q.Adapter: whether it is installed, its version,
// whether it knows the flags that it would be given, and with ask whether it
// answers, for which it has its model say one line. That costs what a short
// question costs. q.Prompt is not used; q.Dir should be an empty directory.
func Examine(ctx context.Context, q Request, ask bool) Health {
	a := q.Adapter
	h := Health{Name: a.Name}
	if err := a.check(); err != nil {
		h.Err = fmt.Errorf("agent %q: %w", a.Name, err)
		return h
	}
	r := &run{q: q}
	env := r.environ()
	path, err := find(a.Argv[0], pathOf(env, q.Environ), q.Dir)
	if err != nil {
		r.missing(err)
		h.Err, h.Hint = r.res.Err, r.res.Hint
		return h
	}
	h.Path = path
	if a.Version != nil {
		content, err := r.short(ctx, path, a.Version, env)
		if err != nil {
			h.Err = err
			h.Hint = "run " + strings.Join(append([]string{a.Argv[0]}, a.Version...), " ") + " yourself"
			return h
		}
		h.Version = versionIn(content)
	}
	if a.Help != nil {
		content, err := r.short(ctx, path, a.Help, env)
		if err != nil {
			h.Err = err
			return h
		}
		h.Missing = unknownFlags(a.Argv, content)
	}
	if len(h.Missing) > 0 {
		h.Err = fmt.Errorf("agent %q: %w: its help does not name %s", a.Name, ErrMismatch, strings.Join(h.Missing, ", "))
		h.Hint = "set `command` of this agent in the user config to what the installed version takes"
	}
	if !ask || ctx.Err() != nil {
		return h
	}
	q.Prompt = "This is a test of the connection. Use no tools. Answer with this line and nothing else:\n" + promise
	res := Run(ctx, q)
	h.Asked, h.Answers, h.Took = true, res.Declared, res.Took
	switch {
	case res.Err != nil:
		h.Err, h.Hint = res.Err, res.Hint
	case !res.Declared:
		h.Err = fmt.Errorf("agent %q: it was asked for one line and answered %q", a.Name, text.Clip(text.OneLine(res.Final), 200))
	default:
		h.Err, h.Hint = nil, "" // whatever its help says
	}
	return h
}

// short runs the program for a version or help, and gives all that it prints.
func (r *run) short(ctx context.Context, path string, args, env []string) (string, error) {
	name := r.q.Adapter.Name
	got, err := r.q.Start(ctx, exec.Spec{Argv: append([]string{path}, args...), Dir: r.q.Dir, Env: env, Timeout: probeTime, MaxBytes: 256 << 10})
	content := got.Stdout.String()
	what := strings.Join(args, " ")
	switch {
	case err != nil:
		return "", fmt.Errorf("run agent %q with %s: %w", name, what, err)
	case got.TimedOut:
		return "", fmt.Errorf("run agent %q with %s: %w", name, what, ErrTimeout)
	case got.ExitCode != 0:
		return "", fmt.Errorf("run agent %q with %s: %w", name, what, errors.New(text.Clip(fmt.Sprintf("exit %d: %s", got.ExitCode, text.OneLine(content)), 300)))
	}
	return content, nil
}

var versionWords = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+\.\d+(\.\d+)?[\w.+-]*`) })

// versionIn finds a version in a text, else gives its first line.
func versionIn(content string) string {
	if v := versionWords().FindString(content); v != "" {
		return text.Clip(v, 40)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(content), "\n")
	return text.Clip(text.OneLine(first), 40)
}

var flagWords = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`--?[A-Za-z][A-Za-z0-9-]*`) })

// unknownFlags are those of argv that a help text does not name.
func unknownFlags(argv []string, help string) []string {
	known := flagWords().FindAllString(help, -1)
	var out []string
	for _, arg := range argv[1:] {
		flag, _, _ := strings.Cut(arg, "=")
		if flagWords().FindString(flag) == flag && flag != "" && !slices.Contains(known, flag) && !slices.Contains(out, flag) {
			out = append(out, flag)
		}
	}
	return out
}
