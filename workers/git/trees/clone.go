package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"ralph/workers/git"
	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

// An agent's tree has a repository of its own, ".git" in it: a private clone that
// borrows the objects of a snapshot. All of it is the agent's to write. Ralph runs
// no git there: it reads and writes single files below an os.Root, and takes over
// commits by importCommits.

const (
	maxSmallBytes  = 64 << 10
	maxIndexBytes  = 512 << 20
	maxRefsBytes   = 64 << 20
	maxSmallConfig = 4 << 20 // as git.Find takes it
)

// alternatesTo is the path of a snapshot's objects as objects/info/alternates of a
// clone has it: relative to its objects, so that a project can be moved.
func alternatesTo(snapshot string) string {
	return "../../../" + snapshot + "/.git/objects"
}

// snapshotOf is the snapshot that the clone of an agent borrows from, "" for none
// that is there.
func (t *Trees) snapshotOf(agent string) string {
	root, err := t.openTree(agent)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	text, err := readIn(root, ".git/objects/info/alternates", maxSmallBytes)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	name, _, _ := strings.Cut(strings.TrimPrefix(first, "../../../"), "/")
	if !strings.HasPrefix(name, snapshotPrefix) || first != alternatesTo(name) {
		return ""
	}
	if info, err := os.Lstat(t.snapshotDir(name)); err != nil || !info.IsDir() {
		return ""
	}
	return name
}

// openTree opens the directory of an agent, below which no path leads out.
func (t *Trees) openTree(agent string) (*os.Root, error) {
	if info, err := os.Lstat(t.dir(agent)); err != nil || !info.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%q is not a directory", t.dir(agent)))
	}
	return os.OpenRoot(t.dir(agent))
}

// readIn reads a regular file of at most that many bytes. It waits for no pipe.
func readIn(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		err = fmt.Errorf("%q is no file of at most %d bytes", name, most)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// writeIn puts a file in place in one step, whatever is there.
func writeIn(root *os.Root, name string, data []byte) error {
	name = filepath.FromSlash(name)
	if old, err := readIn(root, filepath.ToSlash(name), int64(len(data))); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	temp := name + ".ralph"
	if err := root.RemoveAll(temp); err != nil {
		return err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return root.Rename(temp, name)
}

// cloneState is what the files of a clone say, unverified.
type cloneState struct {
	whole   bool     // there is a .git directory with a HEAD
	at      string   // the commit of HEAD
	ref     string   // what HEAD names, "" when detached
	tip     string   // of the agent's branch
	merging []string // what the agent was merging
}

// readClone reads HEAD and the agent's branch of its clone.
func (t *Trees) readClone(r record) cloneState {
	var s cloneState
	root, err := t.openTree(r.Agent)
	if err != nil {
		return s
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(".git"); err != nil || !info.IsDir() {
		return s
	}
	head, err := readIn(root, ".git/HEAD", maxSmallBytes)
	if err != nil {
		return s
	}
	text := strings.TrimSpace(string(head))
	ref, symbolic := strings.CutPrefix(text, "ref: ")
	switch ref = strings.TrimSpace(ref); {
	case isHash(text):
		s.whole, s.at = true, text
	case symbolic && plainRef(ref):
		s.whole, s.ref, s.at = true, ref, refIn(root, ref)
	}
	s.tip = refIn(root, r.Ref)
	if text, err := readIn(root, ".git/MERGE_HEAD", maxSmallBytes); err == nil {
		for _, h := range strings.Fields(string(text)) {
			if isHash(h) {
				s.merging = append(s.merging, h)
			}
		}
	}
	return s
}

// plainRef says that the name of a ref is a path below refs.
func plainRef(ref string) bool {
	return strings.HasPrefix(ref, "refs/") && path.Clean(ref) == ref && !strings.ContainsAny(ref, "\x00\\")
}

// refIn is the commit that a ref of a clone names, "" for none.
func refIn(root *os.Root, ref string) string {
	if text, err := readIn(root, ".git/"+ref, maxSmallBytes); err == nil {
		hash := strings.TrimSpace(string(text))
		if isHash(hash) {
			return hash
		}
		return ""
	}
	packed, err := readIn(root, ".git/packed-refs", maxRefsBytes)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(packed)) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref && isHash(hash) {
			return hash
		}
	}
	return ""
}

// acting are the parts of a clone through which git runs programs or finds other
// configuration, objects and history: they are taken away when an agent has ended.
func acting() []string {
	return []string{"config.worktree", "hooks", "commondir", "gitdir", "info/attributes", "info/grafts", "info/sparse-checkout", "refs/replace",
		"objects/info/http-alternates", "index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock",
		"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer"}
}

// writeClone brings the clone of an agent to its branch at head, with the index
// that Ralph has of its files. Branches, stashes and objects of the agent stay;
// what git would run or obey there is as Ralph made it. A clone that is none any
// more, or that cannot be written, is made anew. The caller holds the lock.
func (t *Trees) writeClone(ctx context.Context, r record, head string) error {
	if snapshot := t.snapshotOf(r.Agent); snapshot != "" && t.readClone(r).whole {
		if err := t.syncSnapshot(ctx, snapshot); err != nil {
			return err
		}
		if err := t.layClone(ctx, r, head, snapshot, false); err == nil {
			return nil
		}
	}
	if err := tempdir.Clear(filepath.Join(t.dir(r.Agent), ".git")); err != nil {
		return err
	}
	snapshot, err := t.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	return t.layClone(ctx, r, head, snapshot, true)
}

// layClone writes the files of a clone.
func (t *Trees) layClone(ctx context.Context, r record, head, snapshot string, fresh bool) error {
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := root.MkdirAll(".git/"+dir, 0o777); err != nil {
			return err
		}
	}
	for _, name := range append(acting(), r.Ref+".lock") {
		if err := root.RemoveAll(".git/" + name); err != nil {
			return err
		}
	}
	config, err := t.configOf(ctx, filepath.Join(t.loc.CommonDir, "config"))
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"objects/info/alternates": []byte(alternatesTo(snapshot) + "\n"),
		"config":                  config,
		r.Ref:                     []byte(head + "\n"),
	}
	if fresh {
		if files["packed-refs"], err = t.cloneRefs(ctx); err != nil {
			return err
		}
	}
	for _, name := range []string{"shallow", "info/exclude", "info/attributes"} {
		if text, ok := readSmall(filepath.Join(t.loc.CommonDir, filepath.FromSlash(name))); ok && text != "" {
			files[name] = []byte(text + "\n")
		}
	}
	if index, err := regular.Read(filepath.Join(t.admin(r.Admin), "index"), maxIndexBytes); err == nil {
		files["index"] = index
	}
	for name, data := range files {
		if err := writeIn(root, ".git/"+name, data); err != nil {
			return err
		}
	}
	if fresh {
		if err := t.cloneModules(ctx, root, snapshot); err != nil {
			return err
		}
	}
	// HEAD comes last: until then git finds no repository here.
	return writeIn(root, ".git/HEAD", []byte("ref: "+r.Ref+"\n"))
}

// cloneRefs are the branches, tags and remote branches of the user as packed-refs
// of a clone has them; those of other agents are left out.
func (t *Trees) cloneRefs(ctx context.Context) ([]byte, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/notes", "refs/remotes", "refs/tags"}})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# pack-refs with: sorted \n")
	for line := range strings.Lines(string(out)) {
		if _, ref, ok := strings.Cut(line, " "); ok && !ownBranch(ref) {
			b.WriteString(line)
		}
	}
	return b.Bytes(), nil
}

// carriedKeys are the keys of the user's configuration that a clone gets: what
// says how files and objects are stored, who commits, where remotes are, and how
// history is shown and merged. None of them has git run a program.
func carriedKeys() *regexp.Regexp {
	return regexp.MustCompile(`^(?:core\.(?:repositoryformatversion|filemode|symlinks|ignorecase|precomposeunicode|protecthfs|protectntfs|logallrefupdates|autocrlf|eol|safecrlf|abbrev|quotepath|whitespace|bigfilethreshold|checkstat|trustctime)` +
		`|extensions\.(?:objectformat|partialclone)` +
		`|(?:user|author|committer)\.(?:name|email)` +
		`|remote\..+\.(?:url|pushurl|fetch|push|tagopt|prune|promisor|partialclonefilter)|branch\..+\.(?:remote|merge|rebase|pushremote|description)` +
		`|submodule\.(?:.+\.(?:url|active|branch|shallow|ignore)|active)` +
		`|init\.defaultbranch|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)|fetch\.prune|merge\.(?:conflictstyle|ff|renames)|rebase\.(?:autosquash|autostash|updaterefs)` +
		`|diff\.(?:algorithm|renames|context|indentheuristic|mnemonicprefix|noprefix)|commit\.(?:cleanup|verbose)|log\.date|tag\.sort|branch\.sort)$`)
}

// configOf is the configuration of a clone: an allow-list of what the repository of
// the user has in a file.
func (t *Trees) configOf(ctx context.Context, file string) ([]byte, error) {
	text, err := regular.Read(file, maxSmallConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if last, ok := t.configs.Load(string(text)); ok {
		return last.([]byte), nil
	}
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"config", "--file", file, "--no-includes", "--list", "-z"}, Allow: []int{1}})
	if err != nil {
		return nil, err
	}
	config := t.carried(fields(out))
	t.configs.Store(string(text), config)
	return config, nil
}

func (t *Trees) carried(list []string) []byte {
	allowed := carriedKeys()
	var b bytes.Buffer
	b.WriteString("[core]\n\tbare = false\n")
	for _, kv := range list {
		key, value, set := strings.Cut(kv, "\n")
		if !allowed.MatchString(key) || strings.ContainsAny(value, "\x00\n") {
			continue
		}
		section, rest, _ := strings.Cut(key, ".")
		name := rest
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			name = rest[dot+1:]
			section = fmt.Sprintf(`%s "%s"`, section, escapeConfig(rest[:dot]))
		}
		if strings.HasSuffix(name, "url") {
			value = t.carriedURL(value)
		}
		if !set {
			value = "true"
		}
		if strings.ContainsAny(value, "\"\\#;") || strings.TrimSpace(value) != value {
			value = `"` + escapeConfig(value) + `"`
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, value)
	}
	return b.Bytes()
}

func escapeConfig(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(s)
}

// carriedURL is the URL of a remote for a clone that lies elsewhere: without a
// password, and with a path that is relative to the user's tree made absolute.
func (t *Trees) carriedURL(s string) string {
	if strings.Contains(s, "://") {
		if u, err := url.Parse(s); err == nil && u.User != nil {
			if _, secret := u.User.Password(); secret || u.Scheme != "ssh" {
				u.User = nil
			}
			return u.String()
		}
		return s
	}
	before, _, colon := strings.Cut(s, ":")
	if filepath.IsAbs(s) || colon && !strings.Contains(before, "/") || strings.HasPrefix(s, "~") {
		return s
	}
	return filepath.Join(t.loc.Root, s)
}

// cloneModules gives a clone the repositories of initialised submodules, so that
// git submodule update needs no network.
func (t *Trees) cloneModules(ctx context.Context, root *os.Root, snapshot string) error {
	for _, m := range t.modules() {
		from := filepath.Join(t.loc.CommonDir, "modules", m)
		p := git.Open(t.proc, git.Location{Root: from, GitDir: from, CommonDir: from}).Raw().Plumbing()
		head, _, err := p.Head(ctx)
		if err != nil || head == "" {
			continue // it was never cloned to its end
		}
		refs, _, err := p.Run(ctx, git.Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/remotes", "refs/tags"}})
		if err != nil {
			return err
		}
		config, err := t.configOf(ctx, filepath.Join(from, "config"))
		if err != nil {
			return err
		}
		at := path.Join(".git/modules", filepath.ToSlash(m))
		up := strings.Repeat("../", strings.Count(at, "/")+3)
		for _, dir := range []string{"objects/pack", "refs/heads"} {
			if err := root.MkdirAll(filepath.FromSlash(at+"/"+dir), 0o777); err != nil {
				return err
			}
		}
		for _, f := range []struct {
			name string
			data []byte
		}{
			{"objects/info/alternates", []byte(up + snapshot + "/.git/modules/" + filepath.ToSlash(m) + "/objects\n")},
			{"packed-refs", append([]byte("# pack-refs with: sorted \n"), refs...)},
			{"config", config},
			{"HEAD", []byte(head + "\n")},
		} {
			if err := writeIn(root, at+"/"+f.name, f.data); err != nil {
				return err
			}
		}
	}
	return nil
}
