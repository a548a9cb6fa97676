package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

const (
	spawnRuns = 500
	spawnAim  = 3.0 // ms over a plain spawn
)

// spawning is one way to run a command.
type spawning struct {
	name string
	run  func(context.Context) error
	list []float64
}

// sandbox times one command, /bin/true, in each way, all in turn.
func (l *lab) sandbox() (err error) {
	project, home, err := l.newProject()
	if err != nil {
		return err
	}
	best, session := exec.New(exec.Options{Init: exec.Self()}), exec.New(exec.Options{Method: "session"})
	runners := []*exec.Runner{best, session}
	var cages []*accesspolicy.Sandbox
	defer func() {
		ctx := context.WithoutCancel(l.ctx)
		for _, s := range cages {
			err = errors.Join(err, s.Close())
		}
		for _, r := range runners {
			err = errors.Join(err, r.Close(ctx))
		}
	}()
	status := accesspolicy.Check(best)
	fmt.Printf("\none command (/bin/true); confined by %s; the bench has %d MB in memory\n", status, residentBytes()>>20)
	fmt.Printf("%-62s %24s %26s %5s\n", "ms", "p50 / p99 / max", "over plain, p50 / p99", "n")
	if status.None() {
		fmt.Println("  not measured: nothing confines commands here")
		return nil
	}
	child, err := l.childOf(best, project)
	if err != nil {
		return err
	}
	var ways []*spawning
	add := func(name string, run func(context.Context) error) {
		ways = append(ways, &spawning{name: name, run: run})
	}
	spec := func(dir string) exec.Spec { return exec.Spec{Argv: []string{"/bin/true"}, Dir: dir} }
	plain := func(r *exec.Runner, sp exec.Spec) func(context.Context) error {
		return func(ctx context.Context) error { res, err := r.Run(ctx, sp); return ran(res, err) }
	}
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	unconfined := spec(project)
	unconfined.Env = env
	add("plain spawn by os/exec", func(ctx context.Context) error { return plainSpawn(ctx, project, env) })
	add("unconfined", plain(best, unconfined))
	add("unconfined, session method", plain(session, unconfined))
	for _, k := range []struct {
		name, root string
		runner     *exec.Runner
		call       accesspolicy.Call
		writes     accesspolicy.Writes
	}{
		{"confined, no network", project, best, accesspolicy.Call{}, nil},
		{"confined, writes recorded", project, best, accesspolicy.Call{}, recorded{}},
		{"confined, with network", project, best, accesspolicy.Call{Network: true}, nil},
		{"confined, in the tree of a child", child, best, accesspolicy.Call{}, nil},
		{"confined, session method", project, session, accesspolicy.Call{}, nil},
	} {
		if accesspolicy.Check(k.runner).None() {
			fmt.Printf("  %s: not measured, nothing confines commands by it here\n", k.name)
			continue
		}
		s, err := openCage(k.runner, project, k.root, home, env, k.writes)
		if err != nil {
			return err
		}
		cages = append(cages, s)
		add(k.name+": all", func(ctx context.Context) error {
			res, _, err := s.Run(ctx, spec(k.root), k.call)
			return ran(res, err)
		})
		add("  what prepares it", func(context.Context) error { _, err := s.Prepare(spec(k.root), k.call); return err })
		ready, err := s.Prepare(spec(k.root), k.call)
		if err != nil {
			return err
		}
		add("  the command when it is prepared", plain(k.runner, ready))
	}
	if err := l.inTurn(ways, spawnRuns); err != nil {
		return err
	}
	return l.unpack(best, project, home, env)
}

const (
	unpackFiles = 5000
	unpackRuns  = 10
)

// unpack times a command that writes many files, with and without the record of them.
func (l *lab) unpack(r *exec.Runner, project, home string, env []string) (err error) {
	fmt.Printf("\none command that writes %d files (tar -x, then rm -r)\n", unpackFiles)
	script := fmt.Sprintf(`mkdir -p m/src && cd m/src && seq 1 %d | split -l 1 -a 3 - f && cd .. && tar -cf a.tar src && rm -r src`, unpackFiles)
	tar := osexec.CommandContext(l.ctx, "bash", "-c", script)
	tar.Dir = project
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("make an archive: %w: %s", err, out)
	}
	var ways []*spawning
	for _, k := range []struct {
		name   string
		writes accesspolicy.Writes
	}{{"not recorded", nil}, {"recorded", recorded{}}} {
		s, err := openCage(r, project, project, home, env, k.writes)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		ways = append(ways, &spawning{name: k.name, run: func(ctx context.Context) error {
			res, _, err := s.Run(ctx, exec.Spec{Argv: []string{"bash", "-c", "cd m && tar -xf a.tar && rm -r src"}, Dir: project}, accesspolicy.Call{})
			return ran(res, err)
		}})
	}
	return l.inTurn(ways, unpackRuns)
}

// recorded keeps no record of what commands write, but has it made.
type recorded struct{}

func (recorded) Began(func()) (ended func(bool)) { return func(bool) {} }
func (recorded) Wrote([]sandbox.Write)           {}
func (recorded) Place() string                   { return os.TempDir() }

func plainSpawn(ctx context.Context, dir string, env []string) error {
	c := osexec.CommandContext(ctx, "/bin/true")
	c.Dir, c.Env = dir, env
	return c.Run()
}

// inTurn runs all ways, one after the other, again and again, and prints what
// came of it.
func (l *lab) inTurn(ways []*spawning, runs int) error {
	for i := range runs + 1 { // the first warms up
		for _, w := range ways {
			took, err := timed(func() error { return w.run(l.ctx) })
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i > 0 {
				w.list = append(w.list, took)
			}
		}
	}
	printSpawns(ways)
	return nil
}

func printSpawns(ways []*spawning) {
	floor := ways[0].list
	for i, w := range ways {
		over, aim := "", ""
		if i > 0 && !strings.Contains(w.name, "prepares") {
			more := at(w.list, 50) - at(floor, 50)
			over = fmt.Sprintf("%+.2f / %+.2f", more, at(w.list, 99)-at(floor, 99))
			if strings.HasSuffix(w.name, ": all") {
				aim = fmt.Sprintf("  aim ≤ %.0f: %s", spawnAim, met(more <= spawnAim))
			}
		}
		fmt.Printf("%-62s %24s %26s %5d%s\n", "  "+w.name, fmt.Sprintf("%.2f / %.2f / %.2f", at(w.list, 50), at(w.list, 99), at(w.list, 100)), over, len(w.list), aim)
	}
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
}

// ran says that a command did what it should.
func ran(res exec.Result, err error) error {
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("exit %d: %s", res.ExitCode, res.Stderr)
	}
	return err
}

// openCage opens a sandbox as the coordinator does.
func openCage(r *exec.Runner, project, root, home string, env []string, writes accesspolicy.Writes) (*accesspolicy.Sandbox, error) {
	loc, err := git.Find(root)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		vars[k] = v
	}
	return accesspolicy.Open(accesspolicy.Options{Proc: r, Root: root, Project: project, Git: &loc, Agent: "main", State: filepath.Join(home, ".local", "state", "ralph"), Getenv: func(k string) string { return vars[k] }, Environ: env,
		UserConfig: filepath.Join(home, ".config", "ralph"), Writes: writes})
}

// newProject makes a project with what a sandbox has to protect, and a home with
// what it has to hide.
func (l *lab) newProject() (project, home string, err error) {
	base := filepath.Join(l.dir, "caged")
	project, home = filepath.Join(base, "project"), filepath.Join(base, "home")
	files := []string{
		"project/go.mod", "project/main.go", "project/README.md", "project/Makefile", "project/package.json", "project/.gitignore", "project/.editorconfig",
		"project/.github/workflows/ci.yml", "project/.vscode/settings.json", "project/.idea/workspace.xml", "project/.ralph/FORMAT",
		"home/.ssh/id_ed25519", "home/.aws/credentials", "home/.config/gh/hosts.yml", "home/.config/ralph/config.yaml", "home/.netrc", "home/.npmrc",
		"home/.docker/config.json", "home/.kube/config", "home/.gnupg/trustdb.gpg", "home/.bash_history", "home/.bashrc", "home/.gitconfig",
	}
	for i := range 100 {
		files = append(files, fmt.Sprintf("project/internal/pkg%02d/file%d.go", i%20, i), fmt.Sprintf("project/node_modules/mod%02d/index.js", i))
	}
	w := &wood{l: l, root: base}
	for _, name := range files {
		if err := w.write(name, "# "+name+"\n"); err != nil {
			return "", "", err
		}
	}
	err = errors.Join(w.write("project/.gitignore", "node_modules/\n"), w.write("home/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n"))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "begin"}} {
		if err == nil {
			_, err = w.git(project, args...)
		}
	}
	return project, home, err
}

// childOf gives a child a tree, and another one beside it.
func (l *lab) childOf(r *exec.Runner, project string) (string, error) {
	loc, err := git.Find(project)
	if err != nil {
		return "", err
	}
	t := trees.OpenTrees(r, loc, filepath.Join(project, ".ralph"), nil)
	if _, err := t.Add(l.ctx, trees.AddOptions{Agent: "another"}); err != nil {
		return "", err
	}
	tree, err := t.Add(l.ctx, trees.AddOptions{Agent: "child"})
	return tree.Root, err
}
