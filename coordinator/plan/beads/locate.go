package beads

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Data is where the issues of a project are.
type Data struct {
	// Dir is the directory itself, Work where bd is run: its parent, which is the
	// project, or the one that a worktree belongs to.
	Dir, Work string
	// JSONL is the file that bd 0.x mirrors its issues in; it need not exist.
	JSONL string
	// Named says that the user has named it (by path or BEADS_DIR), so that it
	// may lie outside the project.
	Named bool
	// Server says that the issues are on a Dolt server, so that no file tells
	// when they change.
	Server bool
}

// Locate finds the data of a project: what was named, else BEADS_DIR, else
// .beads in the project or, in a linked worktree of git, in the main one (where
// bd itself looks). A link or redirect that leads out of the project is refused
// unless the user named it. Without data the error matches ErrNoData.
func Locate(root, path string, environ []string) (Data, error) {
	dir, named := path, path != ""
	if dir == "" {
		dir = lookup(environ, "BEADS_DIR")
		named = dir != ""
	}
	bounds := []string{resolved(root)}
	if dir == "" {
		dir = filepath.Join(root, ".beads")
		if main := mainWorktree(root); main != "" {
			bounds = append(bounds, resolved(main))
			if !database(dir) {
				dir = filepath.Join(main, ".beads")
			}
		}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() && named {
		dir = filepath.Dir(dir)
	}
	if below := filepath.Join(dir, ".beads"); named && !database(dir) && database(below) {
		dir = below // a project was named
	}
	real, err := follow(dir)
	if err != nil {
		return Data{}, &Error{Op: "open beads", Path: dir, Err: fmt.Errorf("%w: %w", ErrNoData, err),
			Hint: "make the database with bd init, or choose another plan with --plan"}
	}
	if !named && !inside(real, bounds) {
		return Data{}, &Error{Op: "open beads", Path: dir, Err: fmt.Errorf("%w: it leads to %q, outside the project", ErrNoData, real),
			Hint: "if that is meant, say so: --plan " + real + ", or BEADS_DIR=" + real}
	}
	d := Data{Dir: real, Work: filepath.Dir(real), Named: named}
	d.JSONL, d.Server = describe(real)
	return d, nil
}

func lookup(environ []string, name string) string {
	value := ""
	for _, e := range environ {
		if k, v, ok := strings.Cut(e, "="); ok && k == name {
			value = v
		}
	}
	return value
}

func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

func inside(path string, roots []string) bool {
	for _, r := range roots {
		if rel, err := filepath.Rel(r, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// follow resolves links and, as bd does, one redirect file.
func follow(dir string) (string, error) {
	real, err := directory(dir)
	if err != nil {
		return "", err
	}
	target := redirect(real)
	if target == "" {
		return real, nil
	}
	if !filepath.IsAbs(target) {
		// bd reads it from the directory that .beads is in.
		target = filepath.Join(filepath.Dir(real), target)
	}
	return directory(target)
}

func directory(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("is not a directory")
	}
	return real, nil
}

// redirect is the path in the file of that name: its first line that is no
// comment.
func redirect(dir string) string {
	for line := range strings.Lines(string(small(filepath.Join(dir, "redirect")))) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// small reads a regular file of at most 64 KiB; nil when there is none.
func small(path string) []byte {
	const most = 64 << 10
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return data
}

// database says that a directory has more of bd than the JSONL that git brought
// into a worktree.
func database(dir string) bool {
	for _, name := range []string{"redirect", "beads.db", "embeddeddolt", "dolt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// mainWorktree is the main working tree of the repository whose linked worktree
// root is; "" elsewhere.
func mainWorktree(root string) string {
	text := strings.TrimSpace(string(small(filepath.Join(root, ".git"))))
	gitDir, ok := strings.CutPrefix(text, "gitdir:")
	if !ok {
		return ""
	}
	gitDir = strings.TrimSpace(gitDir)
	if !filepath.IsAbs(gitDir) {
		gitDir = filepath.Join(root, gitDir)
	}
	common := strings.TrimSpace(string(small(filepath.Join(gitDir, "commondir"))))
	if common == "" {
		return ""
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(gitDir, common)
	}
	if filepath.Base(common) != ".git" {
		return ""
	}
	return filepath.Dir(common)
}

// describe reads metadata.json.
func describe(dir string) (jsonl string, server bool) {
	var m struct {
		Export  string `json:"jsonl_export"`
		Backend string `json:"backend"`
		Mode    string `json:"dolt_mode"`
	}
	if json.Unmarshal(small(filepath.Join(dir, "metadata.json")), &m) != nil {
		m.Export = ""
	}
	server = m.Mode != "" && m.Mode != "embedded"
	names := []string{m.Export, "issues.jsonl", "beads.jsonl"}
	for _, name := range names {
		if name == "" || filepath.Base(name) != name {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), server
		}
	}
	return filepath.Join(dir, "issues.jsonl"), server
}
