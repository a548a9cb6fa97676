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
	best, session := exec.New(exec.Options{}), exec.New(exec.Options{Method: "session"})
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
	add("plain spawn by os/exec", func(ctx context.Context) error {
		c := osexec.CommandContext(ctx, "/bin/true")
		c.Dir, c.Env = project, env
		return c.Run()
	})
	add("unconfined", plain(best, unconfined))
	add("unconfined, session method", plain(session, unconfined))
	for _, k := range []struct {
		name, root string
		runner     *exec.Runner
		call       accesspolicy.Call
	}{
		{"confined, no network", project, best, accesspolicy.Call{}},
		{"confined, with network", project, best, accesspolicy.Call{Network: true}},
		{"confined, in the tree of a child", child, best, accesspolicy.Call{}},
		{"confined, session method", project, session, accesspolicy.Call{}},
	} {
		if accesspolicy.Check(k.runner).None() {
			fmt.Printf("  %s: not measured, nothing confines commands by it here\n", k.name)
			continue
		}
		s, err := openCage(k.runner, project, k.root, home, env)
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
	return l.inTurn(ways)
}

// inTurn runs all ways, one after the other, again and again, and prints what
// came of it.
func (l *lab) inTurn(ways []*spawning) error {
	for i := range spawnRuns + 1 { // the first warms up
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
func openCage(r *exec.Runner, project, root, home string, env []string) (*accesspolicy.Sandbox, error) {
	loc, err := git.Find(root)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		vars[k] = v
	}
	return accesspolicy.Open(accesspolicy.Options{Proc: r, Root: root, Project: project, Git: &loc, Agent: "main", Getenv: func(k string) string { return vars[k] }, Environ: env,
		UserConfig: filepath.Join(home, ".config", "ralph")})
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
	t := trees.OpenTrees(r, loc, filepath.Join(project, ".ralph"))
	if _, err := t.Add(l.ctx, trees.AddOptions{Agent: "another"}); err != nil {
		return "", err
	}
	tree, err := t.Add(l.ctx, trees.AddOptions{Agent: "child"})
	return tree.Root, err
}
