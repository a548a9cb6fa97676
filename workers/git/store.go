package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ralph/workers/exec"
	"ralph/workers/regular"
)

const (
	storeName      = "files.git"
	formerName     = "former.git"
	checkpointRefs = "refs/checkpoints/"
	setupName      = "setup.json"
	// indexName is the index of the files as they were last. An earlier version's has the
	// name that git gives it, and holds what git stores of them.
	indexName = "bytes.index"
	// bytesMark ends the subject of a checkpoint that holds the bytes of files.
	bytesMark = "bytes"
	// asBytes are attributes with which git changes nothing of what it reads and writes; those
	// of the work tree rank below.
	asBytes = "* -text -crlf !eol -ident -filter -working-tree-encoding\n"
	// maxFileBytes of a file, where no repository says what is worth keeping.
	maxFileBytes = 10 << 20
	// maxSmallFile bounds files of the user's repository that are copied.
	maxSmallFile = 4 << 20
)

// setup is what of the user's git configuration checkpoints go by. It is kept in
// the store, so that it outlives the user's repository.
type setup struct {
	// Key changes with the files that the configuration is in; "" is never current.
	Key string `json:"key"`
	// Settings are variables that say which files there are and what is in them.
	Settings [][2]string `json:"settings"`
	// Filters are the names of filter drivers. None of them is ever run.
	Filters []string `json:"filters"`
}

// taken are the variables of the user's configuration that decide which files are
// ignored and how content is compared and written. None of them runs a program.
func taken() []string {
	return []string{"core.autocrlf", "core.eol", "core.ignorecase", "core.filemode", "core.symlinks", "core.precomposeunicode",
		"core.excludesfile", "core.attributesfile", "core.checkstat", "core.trustctime", "core.protecthfs", "core.protectntfs"}
}

// prepare makes the store and brings it in line with the user's configuration.
// The caller holds mu.
func (c *Checkpoints) prepare(ctx context.Context) error {
	if c.gitDir == "" {
		return ErrNoStore
	}
	if !IsGitDir(c.gitDir) {
		if err := c.create(ctx); err != nil {
			return err
		}
	}
	if err := c.copyInfo(); err != nil {
		return err
	}
	return c.configure(ctx)
}

// create makes the store under another name first: one that is there is whole.
func (c *Checkpoints) create(ctx context.Context) error {
	dir := filepath.Dir(c.gitDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		if !errors.Is(err, syscall.ENOSPC) {
			err = errors.Join(ErrNoStore, err)
		}
		return fmt.Errorf("make %q: %w", dir, err)
	}
	sweep(dir, "store")
	temp := filepath.Join(dir, exec.TempName("store"))
	defer func() { _ = os.RemoveAll(temp) }() // gone under this name when all went well
	// --template= leaves out the hooks of the system.
	args := []string{"init", "-q", "--bare", "--template="}
	if c.user != nil && c.userFormat() == "sha256" {
		args = append(args, "--object-format=sha256")
	}
	set := append(overrides(), setting{"init.defaultRefFormat", "files"})
	if _, _, err := c.exec(ctx, call{args: append(args, temp)}, set, false); err != nil {
		if _, werr := os.Lstat(temp); werr != nil && !writable(dir) {
			err = errors.Join(ErrNoStore, err)
		}
		return err
	}
	if err := os.Rename(temp, c.gitDir); err != nil && !IsGitDir(c.gitDir) {
		return fmt.Errorf("make %q: %w", c.gitDir, noStore(err))
	}
	return nil
}

// noStore marks the errors of a place that cannot be written at all.
func noStore(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	return err
}

func writable(dir string) bool {
	probe := filepath.Join(dir, exec.TempName("store"))
	err := os.Mkdir(probe, 0o700)
	_ = os.Remove(probe)
	return noStore(err) == err
}

// userFormat is the object format of the user's repository: "sha1" or "sha256".
func (c *Checkpoints) userFormat() string {
	text, _ := regular.Read(filepath.Join(c.user.commonDir, "config"), maxSmallFile) // what cannot be read is the usual one
	for line := range strings.Lines(strings.ToLower(string(text))) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) == "objectformat" && strings.Trim(strings.TrimSpace(value), `"`) == "sha256" {
			return "sha256"
		}
	}
	return "sha1"
}

// hashLen is the length of object names in the store.
func (c *Checkpoints) hashLen() int {
	text, _ := regular.Read(filepath.Join(c.gitDir, "config"), maxSmallFile)
	if bytes.Contains(text, []byte("sha256")) {
		return 64
	}
	return 40
}

// former returns a store with the objects of c in which git converts content as the user's does:
// with it checkpoints of an earlier version are compared and restored. The caller holds mu.
func (c *Checkpoints) former(ctx context.Context) (*Checkpoints, error) {
	f := &Checkpoints{user: c.user, root: c.root, stateDir: c.stateDir, prefix: c.prefix, converts: true, place: place{proc: c.proc, own: true, workTree: c.workTree}}
	f.gitDir = filepath.Join(c.gitDir, formerName)
	f.commonDir = f.gitDir
	f.owned.Store(true)
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	info := filepath.Join(f.gitDir, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return nil, err
	}
	return f, settle(info, filepath.Join(info, "alternates"), []byte("../../objects\n"))
}

// storeOf returns the store by which a checkpoint is compared with files and restored. The caller
// holds mu.
func (c *Checkpoints) storeOf(ctx context.Context, cp Checkpoint) (*Checkpoints, error) {
	if cp.Converted {
		return c.former(ctx)
	}
	return c, nil
}

// copyInfo takes over what the user's repository has in info/: names to ignore, and for former
// attributes. Of a repository that is gone the last copy stays.
func (c *Checkpoints) copyInfo() error {
	texts := map[string][]byte{"exclude": []byte(strings.Join([]string{".ralph/", "node_modules", "target/", ".env", ".env.*", ".venv/", "__pycache__/", ""}, "\n")), "attributes": nil}
	if c.user != nil {
		if !IsGitDir(c.user.commonDir) {
			return nil
		}
		for name := range texts {
			text, err := regular.Read(filepath.Join(c.user.commonDir, "info", name), maxSmallFile)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("read git's info/%s: %w", name, err)
			}
			texts[name] = text
		}
	}
	if !c.converts {
		texts["attributes"] = []byte(asBytes)
	}
	dir := filepath.Join(c.gitDir, "info")
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if old, err := regular.Read(path, maxSmallFile); err == nil && bytes.Equal(old, text) || err != nil && len(text) == 0 {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("write %q: %w", path, noStore(err))
		}
		if err := settle(dir, path, text); err != nil {
			return fmt.Errorf("write %q: %w", path, noStore(err))
		}
	}
	return nil
}

// configure reads the user's configuration when its files have changed. Of a
// repository that is broken the last state stays in force.
func (c *Checkpoints) configure(ctx context.Context) error {
	if c.setup.Key == "" {
		text, err := regular.Read(filepath.Join(c.gitDir, setupName), maxConfigBytes)
		if err == nil && json.Unmarshal(text, &c.setup) != nil {
			c.setup = setup{}
		}
	}
	key, lasting := c.configKey()
	if key != c.setup.Key {
		from := &c.place
		if c.user != nil {
			from = c.user
		}
		// A place that is not own: the user's own configuration is asked for.
		from = &place{proc: c.proc, gitDir: from.gitDir, commonDir: from.commonDir, workTree: c.workTree}
		out, _, err := from.exec(ctx, call{args: []string{"config", "--list", "--show-scope", "--includes", "-z"}}, overrides(), true)
		switch {
		case err == nil:
			c.setup = parseSetup(out)
			c.setup.Key = key
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err == nil && lasting {
			text, err := json.Marshal(c.setup)
			if err == nil {
				err = settle(c.gitDir, filepath.Join(c.gitDir, setupName), text)
			}
			if err != nil {
				return fmt.Errorf("write %q: %w", setupName, noStore(err))
			}
		}
	}
	h := hostile{filters: map[string]bool{}, settings: []setting{{"core.looseCompression", "1"}, {"pack.compression", "1"}, {"core.logAllRefUpdates", "false"}}}
	for _, s := range c.setup.Settings {
		h.settings = append(h.settings, setting{s[0], s[1]})
	}
	for _, f := range c.setup.Filters {
		h.filters[f] = true
	}
	c.found.Store(&hostileAt{found: h})
	return nil
}

// configKey stands for the state of the files that git's configuration is in.
// lasting says that there are no others, which an include would bring in.
func (c *Checkpoints) configKey() (key string, lasting bool) {
	sum, lasting := sha256.New(), true
	take := func(path string) {
		text, err := regular.Read(path, maxSmallFile)
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(text), text) // a hash never fails
		lasting = lasting && !bytes.Contains(bytes.ToLower(text), []byte("include"))
	}
	if c.user != nil {
		for _, path := range []string{filepath.Join(c.user.commonDir, "config"), filepath.Join(c.user.gitDir, "config.worktree"), filepath.Join(c.user.commonDir, "config.worktree")} {
			take(path)
		}
	}
	home, config := os.Getenv("HOME"), configHome(os.Environ())
	for _, path := range []string{filepath.Join(home, ".gitconfig"), filepath.Join(config, "git", "config"), "/etc/gitconfig"} {
		take(path)
	}
	return hex.EncodeToString(sum.Sum(nil)), lasting
}

// parseSetup reads "scope NUL key LF value NUL"; the last of several values holds.
func parseSetup(out []byte) setup {
	var s setup
	values := map[string]string{}
	for _, name := range taken() {
		values[name] = ""
	}
	fields := bytes.Split(out, []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, assigned := strings.Cut(string(fields[i+1]), "\n")
		if !assigned {
			value = "true"
		}
		if _, ok := values[key]; ok && string(fields[i]) != "command" {
			values[key] = value
		}
		if rest, ok := strings.CutPrefix(key, "filter."); ok {
			if dot := strings.LastIndexByte(rest, '.'); dot >= 0 && !slices.Contains(s.Filters, rest[:dot]) {
				s.Filters = append(s.Filters, rest[:dot])
			}
		}
	}
	for _, name := range taken() {
		if values[name] != "" {
			s.Settings = append(s.Settings, [2]string{name, values[name]})
		}
	}
	return s
}

// writeRef sets the ref of a checkpoint in one step and durably.
func (c *Checkpoints) writeRef(id, commit string) error {
	path := filepath.Join(c.gitDir, filepath.FromSlash(checkpointRefs+id))
	temp := filepath.Join(c.gitDir, exec.TempName("ref"))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(commit + "\n")
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		for range 3 { // another may remove the directory while it is empty
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				if err = os.Rename(temp, path); err == nil {
					return nil
				}
			}
		}
	}
	_ = os.Remove(temp) // the first error is the one to report
	return fmt.Errorf("write ref of checkpoint %q: %w", id, noStore(err))
}

// removeRef removes the ref of a checkpoint, and directories that it leaves empty.
func (c *Checkpoints) removeRef(id string) error {
	top := filepath.Join(c.gitDir, filepath.FromSlash(checkpointRefs))
	path := filepath.Join(top, filepath.FromSlash(id))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for dir := filepath.Dir(path); dir != filepath.Clean(top) && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
	return nil
}
