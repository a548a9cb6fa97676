// Package project finds out what a directory holds: repository, kinds of
// project, toolchain commands, instructions and Ralph's own state.
//
// It only reads, a bounded number of files and directories, and starts no
// process: a repository of 100,000 files costs what its first two levels cost.
// Nothing outside the root is read, also not through links. What it finds is
// the repository's word and grants nothing: commands are proposals.
//
//	p, err := project.Detect(ctx, root)
//	fmt.Println(p.Summary()) // Go module example.com/x, git repository on main. …
package project

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// Bounds of what is read.
const (
	maxEntries      = 4096      // of one directory
	maxDirs         = 200       // directories looked into
	maxFileBytes    = 256 << 10 // of a marker file
	maxInstructions = 32 << 10  // of all instruction files together
)

// Project is what Detect found. Paths are relative to Root, with slashes.
type Project struct {
	Root string
	// Git says that Root is in a repository; Branch is empty when detached.
	Git    bool
	Branch string
	// Types are the kinds of project, the root's first.
	Types []Type
	// ConfigFiles are well-known files that configure tools.
	ConfigFiles []string
	// Dirs are the directories of the root that are not ignored.
	Dirs []string
	// StateFiles are what Ralph keeps here already.
	StateFiles []string
	// Commands build, test and lint the project, the root's first.
	Commands []Command
	// Instructions are AGENTS.md and CLAUDE.md.
	Instructions []Instruction
	// Partial says that a bound was reached.
	Partial bool
}

// Type is a kind of project found by its marker file.
type Type struct {
	Name   string // "Go", "Node", "Python", …
	Dir    string // "." for the root
	Marker string // the file's name
	Detail string // a module's or package's name; may be empty
}

// Command is a command of the toolchain.
type Command struct {
	Kind   string // build, test or lint
	Text   string // a shell command, to be run in Dir
	Dir    string
	Source string // the file from which it was derived
	Whole  bool   // it stands for all kinds of project in Dir: a target of make or just
}

// Instruction is a file that tells agents how to work here.
type Instruction struct {
	Path      string
	Text      string
	Truncated bool
}

// Tests returns the commands that run the project's tests: those of the root, or where
// the root has none, those of its parts. Of a directory that is the target of its
// Makefile or justfile, which people make for all of it, or else one for each kind of
// project.
func (p Project) Tests() []Command {
	var root, parts []Command
	whole := map[string]bool{}
	for _, c := range p.Commands {
		if c.Kind != "test" || whole[c.Dir] {
			continue
		}
		whole[c.Dir] = c.Whole
		if c.Dir == "." {
			root = append(root, c)
		} else {
			parts = append(parts, c)
		}
	}
	if len(root) > 0 {
		return root
	}
	return parts
}

// Script returns commands as one shell line to be run in the project's root, and the
// files from which they were derived; both are "" for none.
func Script(list []Command) (line, source string) {
	var lines, sources []string
	for _, c := range list {
		text := c.Line()
		if c.Dir != "." {
			text = "(" + text + ")"
		}
		lines = append(lines, text)
		sources = append(sources, c.Source)
	}
	return strings.Join(lines, " && "), strings.Join(sources, ", ")
}

// Line returns the command as a shell line to be run in the project's root.
func (c Command) Line() string {
	if c.Dir == "" || c.Dir == "." {
		return c.Text
	}
	return "cd '" + strings.ReplaceAll(c.Dir, "'", `'\''`) + "' && " + c.Text
}

// detector is the state of one Detect.
type detector struct {
	root *os.Root
	p    Project
	dirs int
}

// dirInfo is a directory that was read.
type dirInfo struct {
	dir   string
	names map[string]bool // true for directories
}

func (d dirInfo) has(name string) bool { _, ok := d.names[name]; return ok }

// first returns the first of names that is there, or "".
func (d dirInfo) first(names ...string) string {
	for _, n := range names {
		if d.has(n) {
			return n
		}
	}
	return ""
}

// suffix returns a name with the suffix, or "".
func (d dirInfo) suffix(suffix string) string {
	var found []string
	for n, isDir := range d.names {
		if !isDir && strings.HasSuffix(n, suffix) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// Detect looks at the directory root. A file or directory that cannot be read
// is taken as absent; an error means that root itself cannot be read or that
// ctx ended, and the Project then holds what was found.
func Detect(ctx context.Context, root string) (Project, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return Project{Root: root}, fmt.Errorf("read project %q: %w", root, err)
	}
	defer func() { _ = r.Close() }()
	d := &detector{root: r, p: Project{Root: root}}
	d.git(root)
	top, err := d.readDir(".")
	if err != nil {
		return d.p, fmt.Errorf("read project %q: %w", root, err)
	}
	// A huge directory is read in part only; the markers are asked for by name.
	for _, m := range append(markerNames(), notable()...) {
		if info, err := r.Stat(m); err == nil {
			top.names[m] = info.IsDir()
		}
	}
	d.look(top)
	d.settings(top)
	if err := d.below(ctx, top); err != nil {
		return d.p, err
	}
	d.state(top)
	d.instructions()
	return d.p, ctx.Err()
}

// readDir reads up to maxEntries names of a directory.
func (d *detector) readDir(dir string) (dirInfo, error) {
	f, err := d.root.Open(dir)
	if err != nil {
		return dirInfo{}, err
	}
	defer func() { _ = f.Close() }()
	d.dirs++
	entries, err := f.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		return dirInfo{}, err
	}
	d.p.Partial = d.p.Partial || len(entries) == maxEntries
	info := dirInfo{dir: dir, names: make(map[string]bool, len(entries))}
	for _, e := range entries {
		info.names[e.Name()] = e.IsDir()
	}
	return info, nil
}

// read returns the begin of a regular file, "" when there is none.
func (d *detector) read(name string, limit int64) (text string, truncated bool) {
	info, err := d.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	f, err := d.root.Open(name)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return "", false
	}
	return string(data), info.Size() > limit
}

// git looks for the repository, also above the root, and reads the branch.
func (d *detector) git(root string) {
	for at := root; ; {
		dot := path.Join(at, ".git")
		if info, err := os.Stat(dot); err == nil {
			d.p.Git = true
			if !info.IsDir() {
				line, _, _ := strings.Cut(readSmall(dot), "\n")
				if dot = strings.TrimSpace(strings.TrimPrefix(line, "gitdir: ")); !path.IsAbs(dot) {
					dot = path.Join(at, dot)
				}
			}
			ref := strings.TrimSpace(readSmall(path.Join(dot, "HEAD")))
			if name, ok := strings.CutPrefix(ref, "ref: refs/heads/"); ok {
				d.p.Branch = name
			}
			return
		}
		up := path.Dir(at)
		if up == at {
			return
		}
		at = up
	}
}

func readSmall(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 4096 {
		return ""
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(data)
}

// below looks into the directories of the root, and one level deeper into
// those that usually hold packages.
func (d *detector) below(ctx context.Context, top dirInfo) error {
	ignored := parseIgnore(first(d.read(".gitignore", maxFileBytes)))
	for _, name := range sortedDirs(top) {
		if name == ".git" || name == ".ralph" || ignored.match(name) {
			continue
		}
		if !strings.HasPrefix(name, ".") {
			d.p.Dirs = append(d.p.Dirs, name)
		}
		if skipped(name) || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := d.visit(ctx, name)
		if err != nil {
			return err
		}
		if !container(name) {
			continue
		}
		for _, sub := range sortedDirs(info) {
			if skipped(sub) || strings.HasPrefix(sub, ".") || ignored.match(path.Join(name, sub)) {
				continue
			}
			if _, err := d.visit(ctx, path.Join(name, sub)); err != nil {
				return err
			}
		}
	}
	return nil
}

// visit looks at one directory below the root; an unreadable one is empty. The
// error is that of the context.
func (d *detector) visit(ctx context.Context, dir string) (dirInfo, error) {
	if err := ctx.Err(); err != nil {
		return dirInfo{}, err
	}
	if d.dirs >= maxDirs {
		d.p.Partial = true
		return dirInfo{}, nil
	}
	info, err := d.readDir(dir)
	if err != nil {
		return dirInfo{}, nil // absent, by contract
	}
	d.look(info)
	return info, nil
}

func sortedDirs(info dirInfo) []string {
	var names []string
	for n, isDir := range info.names {
		if isDir {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// skipped reports directories of other people's code and of build results.
func skipped(name string) bool {
	switch name {
	case "node_modules", "vendor", "target", "dist", "build", "out", "bin", "obj", "third_party", "testdata", "__pycache__", "venv", "env", "site-packages", "Pods":
		return true
	}
	return false
}

func container(name string) bool {
	switch name {
	case "packages", "apps", "services", "crates", "libs", "modules", "projects", "plugins", "examples", "src", "components":
		return true
	}
	return false
}

// settings lists well-known configuration files of the root.
func (d *detector) settings(top dirInfo) {
	for _, n := range notable() {
		if top.has(n) {
			d.p.ConfigFiles = append(d.p.ConfigFiles, n)
		}
	}
}

func notable() []string {
	return []string{".editorconfig", ".gitattributes", ".gitignore", ".golangci.yml", ".golangci.yaml", ".pre-commit-config.yaml", ".eslintrc.json", "eslint.config.js",
		"biome.json", "tsconfig.json", "tox.ini", "pytest.ini", "ruff.toml", "mypy.ini", "rustfmt.toml", "clippy.toml", "Dockerfile", "docker-compose.yml", "compose.yaml",
		"Makefile", "justfile", "Taskfile.yml", ".github", ".gitlab-ci.yml", "Jenkinsfile", "flake.nix", ".tool-versions", "mise.toml"}
}

// state lists what Ralph keeps here.
func (d *detector) state(top dirInfo) {
	for _, n := range []string{"RALPH_GOALS.md", "RALPH_TASKS.md", "RALPH_TODO.md", "RALPH_PROGRESS.md", "AGENT.md", "prd.json", "RALPH-LOOP-PLAN.yaml", ".beads"} {
		if _, err := d.root.Lstat(n); err == nil {
			d.p.StateFiles = append(d.p.StateFiles, n)
		}
	}
	if top.names[".ralph"] {
		d.p.StateFiles = append(d.p.StateFiles, ".ralph")
	}
}

// ReadInstructions reads what Detect puts into Project.Instructions as it is now.
func ReadInstructions(root string) ([]Instruction, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("read instructions in %q: %w", root, err)
	}
	defer func() { _ = r.Close() }()
	d := &detector{root: r}
	d.instructions()
	return d.p.Instructions, nil
}

// instructions reads AGENTS.md and CLAUDE.md, up to the bound for both; one
// that says the same as the other is read once.
func (d *detector) instructions() {
	left := int64(maxInstructions)
	for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
		text, truncated := d.read(name, left)
		if strings.TrimSpace(text) == "" || slices.ContainsFunc(d.p.Instructions, func(i Instruction) bool { return i.Text == text }) {
			continue
		}
		left -= int64(len(text))
		text = strings.ToValidUTF8(text, "\ufffd")
		d.p.Instructions = append(d.p.Instructions, Instruction{Path: name, Text: text, Truncated: truncated})
		if left <= 0 {
			return
		}
	}
}

// Summary describes the project in one paragraph; its first line says what it
// is, the rest how it is worked on. It holds no control characters.
func (p Project) Summary() string {
	var b strings.Builder
	b.WriteString(p.kind())
	switch {
	case p.Git && p.Branch != "":
		b.WriteString(", git repository on " + p.Branch)
	case p.Git:
		b.WriteString(", git repository")
	default:
		b.WriteString(", no git repository")
	}
	b.WriteString(".")
	var rest []string
	for _, kind := range []string{"build", "test", "lint"} {
		var texts []string
		for _, c := range p.Commands {
			if c.Kind != kind || len(texts) == 3 {
				continue
			}
			text := "`" + c.Text + "`"
			if c.Dir != "." {
				text += " in " + c.Dir
			}
			texts = append(texts, text)
		}
		if len(texts) > 0 {
			rest = append(rest, strings.ToUpper(kind[:1])+kind[1:]+": "+strings.Join(texts, ", ")+".")
		}
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"Directories", p.Dirs}, {"Configuration", p.ConfigFiles}, {"Ralph's state", p.StateFiles}} {
		if n := len(list.items); n > 0 {
			text := list.name + ": " + strings.Join(list.items[:min(n, 15)], ", ")
			if n > 15 {
				text += fmt.Sprintf(" and %d more", n-15)
			}
			rest = append(rest, text+".")
		}
	}
	for _, i := range p.Instructions {
		if i.Truncated {
			rest = append(rest, i.Path+" is longer than what is shown of it.")
		}
	}
	if len(rest) > 0 {
		b.WriteString("\n" + strings.Join(rest, " "))
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, b.String())
}

func (p Project) kind() string {
	var parts []string
	for _, t := range p.Types {
		text := t.Name
		if t.Detail != "" {
			text += " " + t.Detail
		}
		if t.Dir != "." {
			text += " in " + t.Dir
		}
		if parts = append(parts, text); len(parts) == 6 && len(p.Types) > 6 {
			parts = append(parts, fmt.Sprintf("%d more", len(p.Types)-6))
			break
		}
	}
	if len(parts) == 0 {
		return "A directory of no known kind"
	}
	return strings.Join(parts, "; ")
}

func first(text string, _ bool) string { return text }
