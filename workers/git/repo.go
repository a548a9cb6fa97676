package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ralph/workers/exec"
)

// Repo is a repository with its work tree. It is safe for concurrent use and
// needs no closing.
type Repo struct {
	place
	commits sync.Mutex // held while committing; two at a time would fight for the index
}

// Open makes a Repo of what Find found. It starts nothing.
func Open(p *exec.Runner, loc Location) *Repo {
	return &Repo{place: place{proc: p, gitDir: loc.GitDir, commonDir: loc.CommonDir, workTree: loc.Root}}
}

// Head is the full hash of the current commit, "" before the first one.
func (r *Repo) Head(ctx context.Context) (string, error) {
	commit, _, err := r.head(ctx)
	return commit, err
}

// Branch is the name of the current branch, "" when HEAD is detached.
func (r *Repo) Branch(ctx context.Context) (string, error) {
	_, branch, err := r.head(ctx)
	return branch, err
}

// Status lists what differs from the last commit, staged or not, and untracked
// files one by one, sorted by path. Ralph's own directory is left out. What is
// inside submodules and nested repositories is not looked at.
func (r *Repo) Status(ctx context.Context) ([]Change, error) {
	out, err := r.run(ctx, call{args: []string{"status", "--porcelain=v2", "-z", "--untracked-files=all",
		"--ignore-submodules=dirty", "--no-ahead-behind", "--find-renames"}})
	if err != nil {
		return nil, err
	}
	changes, err := parseStatus(out)
	if err != nil {
		return nil, &Error{Op: "status", Path: r.workTree, Err: err}
	}
	changes = slices.DeleteFunc(changes, func(c Change) bool { return ownPath(c.Path) })
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// parseStatus reads git-status(1) porcelain format 2, NUL-separated.
func parseStatus(out []byte) ([]Change, error) {
	var changes []Change
	entries := splitNul(out)
	for i := 0; i < len(entries); i++ {
		e := entries[i]
		if e == "" {
			return nil, errors.New("empty entry")
		}
		// The path is the last field, and alone may hold spaces.
		fields := map[byte]int{'1': 9, '2': 10, 'u': 11, '?': 2, '!': 2, '#': 0}
		n, known := fields[e[0]]
		if !known {
			return nil, fmt.Errorf("unknown entry %q", e)
		}
		if e[0] == '#' || e[0] == '!' {
			continue
		}
		f := strings.SplitN(e, " ", n)
		if len(f) != n || n > 2 && len(f[1]) != 2 {
			return nil, fmt.Errorf("short entry %q", e)
		}
		c := Change{Path: f[n-1]}
		switch e[0] {
		case '?':
			c.Kind = Untracked
		case 'u':
			c.Kind = Conflicted
		case '2':
			i++
			if i == len(entries) {
				return nil, fmt.Errorf("entry %q without its old path", e)
			}
			c.Kind = kindOf(f[1])
			if c.Kind == Modified && strings.Contains(f[1], "R") {
				c.Kind, c.OldPath = Renamed, entries[i]
			}
		default:
			c.Kind = kindOf(f[1])
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// kindOf sums up the state of the index and of the work tree.
func kindOf(xy string) Kind {
	switch {
	case xy[1] == 'D', xy == "D.":
		return Deleted
	case strings.ContainsAny(xy, "AC"):
		return Added
	default:
		return Modified
	}
}

// Diff is a patch. With the zero options it is between index and work tree.
func (r *Repo) Diff(ctx context.Context, o DiffOptions) (string, error) {
	args := append([]string{"diff"}, diffFlags()...)
	if o.Context > 0 {
		args = append(args, "-U"+strconv.Itoa(o.Context))
	}
	if o.Staged {
		args = append(args, "--cached")
	}
	args = append(args, "--end-of-options")
	revs := []string{o.From, o.To}
	if o.From == "" && o.To != "" {
		revs[0] = "HEAD"
	}
	for _, rev := range revs {
		if rev == "" {
			continue
		}
		if err := checkRevision(rev); err != nil {
			return "", fmt.Errorf("git diff: %w", err)
		}
		args = append(args, rev)
	}
	paths, err := checkPaths(o.Paths)
	if err != nil {
		return "", fmt.Errorf("git diff: %w", err)
	}
	out, err := r.run(ctx, call{args: append(append(args, "--"), paths...)})
	return string(out), err
}

// diffFlags fix the form of a patch and keep drivers out of it.
func diffFlags() []string {
	return []string{"--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "-M",
		"--submodule=short", "--ignore-submodules=dirty", "--no-relative"}
}

// Log lists commits, newest first; none before the first commit.
func (r *Repo) Log(ctx context.Context, o LogOptions) ([]Commit, error) {
	rev := o.Range
	if rev == "" {
		head, err := r.Head(ctx)
		if err != nil || head == "" {
			return nil, err
		}
		rev = head
	}
	if err := checkRevision(rev); err != nil {
		return nil, fmt.Errorf("git log: %w", err)
	}
	paths, err := checkPaths(o.Paths)
	if err != nil {
		return nil, fmt.Errorf("git log: %w", err)
	}
	n := o.N
	if n <= 0 {
		n = 20
	}
	args := []string{"log", "-z", "--no-show-signature", "--no-color", "--no-decorate", "--no-notes", "--no-patch", "--no-ext-diff", "--no-textconv",
		"--format=tformat:%H%x00%an <%ae>%x00%ct%x00%s%x00%b", "-n", strconv.Itoa(n), "--end-of-options", rev, "--"}
	out, err := r.run(ctx, call{args: append(args, paths...)})
	if err != nil {
		return nil, err
	}
	f := splitNul(out)
	var commits []Commit
	for i := 0; i+4 < len(f); i += 5 {
		sec, err := strconv.ParseInt(f[i+2], 10, 64)
		if err != nil {
			return nil, &Error{Op: "log", Path: r.workTree, Err: fmt.Errorf("time of commit %s: %w", f[i], err)}
		}
		commits = append(commits, Commit{Hash: f[i], Author: f[i+1], Time: time.Unix(sec, 0), Subject: f[i+3], Body: strings.TrimSpace(f[i+4])})
	}
	return commits, nil
}

// CommitsSince lists the full hashes of the commits that HEAD has and base has
// not, oldest first. An empty base means all.
func (r *Repo) CommitsSince(ctx context.Context, base string) ([]string, error) {
	head, err := r.Head(ctx)
	if err != nil || head == "" || head == base {
		return nil, err
	}
	args := []string{"rev-list", "--topo-order", "--reverse", "--end-of-options", head}
	if base != "" {
		if err := checkRevision(base); err != nil {
			return nil, fmt.Errorf("git rev-list: %w", err)
		}
		args = append(args, "^"+base)
	}
	out, err := r.run(ctx, call{args: append(args, "--")})
	return strings.Fields(string(out)), err
}

// Exclude makes git ignore a pattern in this clone only, by a line in
// info/exclude. It does nothing if the line is there.
func (r *Repo) Exclude(pattern string) error {
	if pattern == "" || strings.ContainsAny(pattern, "\r\n\x00") {
		return fmt.Errorf("exclude %q: %w", pattern, ErrBadName)
	}
	return exclude(r.commonDir, pattern)
}

// exclude adds lines to info/exclude. A link there could lead to the
// configuration, so only a regular file will do.
func exclude(gitDir string, patterns ...string) error {
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return fmt.Errorf("exclude in %q: %w", gitDir, err)
	}
	defer func() { _ = root.Close() }()
	const name = "info/exclude"
	for _, p := range []string{path.Dir(name), name} {
		if info, err := root.Lstat(p); err == nil && info.Mode().Type()&^fs.ModeDir != 0 {
			return fmt.Errorf("exclude in %q: %s is not a regular file", gitDir, p)
		}
	}
	if err := root.Mkdir(path.Dir(name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("exclude in %q: %w", gitDir, err)
	}
	old, err := root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("exclude in %q: %w", gitDir, err)
	}
	lines := strings.Split(string(old), "\n")
	var add bytes.Buffer
	if len(old) > 0 && old[len(old)-1] != '\n' {
		add.WriteByte('\n')
	}
	before := add.Len()
	for _, p := range patterns {
		if !slices.Contains(lines, p) {
			add.WriteString(p + "\n")
		}
	}
	if add.Len() == before {
		return nil
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("exclude in %q: %w", gitDir, err)
	}
	_, err = f.Write(add.Bytes())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("exclude in %q: %w", gitDir, err)
	}
	return nil
}
