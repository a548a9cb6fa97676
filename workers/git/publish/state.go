package publish

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxStateBytes bounds each file of the state of a merge or rebase, and a reflog.
const maxStateBytes = 16 << 20

// Parts of the patterns of state files.
const (
	anID     = `(?:[0-9a-f]{40}|[0-9a-f]{64})`
	aName    = `[^-.\x00-\x20~^:?*\[\\\x7f][^.\x00-\x20~^:?*\[\\\x7f]*(?:\.[^.\x00-\x20~^:?*\[\\\x7f]+)*` // of a branch: no option
	inQuotes = `'[^'\x00-\x1f]*(?:'\\[!']'[^'\x00-\x1f]*)*'`                                              // as git quotes for a shell
	aMerge   = `(?:ort|recursive|resolve|octopus|ours|subtree)`                                           // any other is a program, git-merge-NAME
	// aMergeOption is one of git-merge-ort's and its like.
	aMergeOption = `(?:ours|theirs|patience|histogram|diff-algorithm=[a-z]+|ignore-space-change|ignore-all-space|ignore-space-at-eol|ignore-cr-at-eol|` +
		`(?:no-)?renormalize|find-renames(?:=\d+%?)?|no-renames|rename-threshold=\d+%?)`
	freeText = `(?s).*` // shown or recorded by git, never run
	empty    = ``
	aPick    = `(?:pick|p|reword|r|edit|e|squash|s|fixup|f|drop|d|revert)\s+(?:-[cC]\s+)?[0-9a-f]{4,64}(?:\s.*)?`
	aLabel   = `(?:label|l)\s+` + aName + `|(?:reset|t)\s+(?:\[new root\]|` + aName + `)(?:\s.*)?`
	aJoin    = `(?:merge|m)\s+(?:-[cC]\s+[0-9a-f]{4,64}\s+)?` + aName + `(?:\s+` + aName + `)*(?:\s+#.*)?`
	aStep    = `\s*(?:#.*|` + aPick + `|` + aLabel + `|` + aJoin + `|(?:update-ref|u)\s.*|(?:noop|break|b)\s*)?`
)

// stateFiles are the files of a git directory that hold a merge, cherry-pick,
// revert, bisection or rebase, by gitrepository-layout(5), git-bisect(1) and git's
// sequencer.c, bisect.c and builtin/am.c, with what a line of each may be: what git
// itself writes, and nothing that it would run, or pass to a program as an option,
// when the user continues or aborts. A name that is not here is not taken over:
// BISECT_RUN reaches a program; and see spared.
var stateFiles = sync.OnceValue(func() map[string]*regexp.Regexp {
	list := map[string]*regexp.Regexp{}
	add := func(dir, names, line string) {
		re := regexp.MustCompile(`^(?:` + line + `)$`)
		for name := range strings.FieldsSeq(names) {
			list[path.Join(dir, name)] = re
		}
	}
	add("", "MERGE_HEAD MERGE_AUTOSTASH CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD ORIG_HEAD AUTO_MERGE BISECT_EXPECTED_REV BISECT_HEAD", anID)
	add("", "MERGE_MSG SQUASH_MSG COMMIT_EDITMSG", freeText)
	add("", "MERGE_MODE", `(?:no-ff)?`)
	add("", "BISECT_START", anID+`|`+aName)
	add("", "BISECT_NAMES", `(?: `+inQuotes+`)*`)
	add("", "BISECT_TERMS", `[A-Za-z][\w-]*`)
	add("", "BISECT_ANCESTORS_OK BISECT_FIRST_PARENT", empty)
	add("", "BISECT_LOG", `# [^\x00-\x08\x0a-\x1f\x7f]*|git bisect [a-z][\w-]*(?: (?:`+anID+`|`+inQuotes+`))*`)
	add("", "FETCH_HEAD", anID+`\t(?:not-for-merge)?\t[^\x00-\x1f\x7f]*`)

	add("rebase-merge", "onto orig-head amend squash-onto autostash", anID)
	add("rebase-merge", "head-name", `refs/heads/`+aName+`|detached HEAD`)
	add("rebase-merge", "msgnum end", `\d+`)
	add("rebase-merge", "stopped-sha", `[0-9a-f]{4,64}`)
	add("rebase-merge", "rewritten-list rewritten-pending", anID+`(?: `+anID+`)?`)
	add("rebase-merge", `interactive verbose drop_redundant_commits keep_redundant_commits no-reschedule-failed-exec reschedule-failed-exec
 ignore_date cdate_is_adate`, empty)
	add("rebase-merge", "quiet", `(?:t|-q)?`)
	add("rebase-merge", "signoff", `--signoff`)
	add("rebase-merge", "allow_rerere_autoupdate", `--(?:no-)?rerere-autoupdate`)
	add("rebase-merge", "refs-to-delete", `refs/rewritten/`+aName)
	add("rebase-merge", "strategy", aMerge)
	add("rebase-merge", "strategy_opts", `(?: ?(?:'--`+aMergeOption+`'|--`+aMergeOption+`))*`)
	add("rebase-merge", "message message-squash message-fixup current-fixups patch", freeText)
	add("rebase-merge", "git-rebase-todo", aStep)
	add("rebase-merge", "done git-rebase-todo.backup", aStep+`|\s*(?:exec|x)\s.*`)

	add("rebase-apply", "next last", `\d+`)
	add("rebase-apply", "head-name", `refs/heads/`+aName+`|detached HEAD`)
	add("rebase-apply", "onto orig-head abort-safety original-commit autostash amend", `(?:`+anID+`)?`)
	add("rebase-apply", "rewritten", anID+` `+anID)
	add("rebase-apply", "quiet keep threeway messageid utf8 sign scissors no_inbody_headers", `[tfb]?`)
	add("rebase-apply", "quoted-cr", `(?:nowarn|warn|strip)?`)
	add("rebase-apply", "rebasing applying dirtyindex apply-opt", empty)
	add("rebase-apply", "final-commit info patch msg msg-clean", freeText)

	add("rebase-merge", "author-script", `[A-Z_]+=`+inQuotes)
	add("rebase-apply", "author-script", `[A-Z_]+=`+inQuotes)

	add("sequencer", "head abort-safety", `(?:`+anID+`)?`)
	add("sequencer", "todo", aStep)
	add("sequencer", "opts", `\[options\]|\t(?:no-commit|edit|signoff|record-origin|allow-ff|allow-empty|allow-empty-message|keep-redundant-commits|allow-rerere-auto) = (?:true|false)`+
		`|\tmainline = \d+|\tstrategy = `+aMerge+`|\tstrategy-option = `+aMergeOption+`|\tdefault-msg-cleanup = (?:verbatim|whitespace|strip|scissors|default)`)
	return list
})

// stateDirs are the directories among them, with the files without which git can
// neither go on nor abort.
func stateDirs() map[string][]string {
	return map[string][]string{"rebase-merge": {"head-name", "onto", "orig-head", "git-rebase-todo"}, "rebase-apply": {"next", "last", "abort-safety"}, "sequencer": {"todo"}}
}

func isStateDir(name string) bool { _, ok := stateDirs()[name]; return ok }

// remade reports files of a state that git makes anew.
func remade(name string) bool {
	return name == "rebase-apply/patch-merge-index" || strings.HasSuffix(name, ".lock")
}

// spared reports files of a state that stay away, without which git goes on and aborts: gpg_sign_opt
// is an option of a program, and update-refs moves refs that the command did not move itself.
func spared(name string) bool {
	return path.Base(name) == "gpg_sign_opt" || name == "rebase-merge/update-refs"
}

// shapeOf returns what each line of a state file must match.
func shapeOf(name string) (*regexp.Regexp, bool) {
	if re, ok := stateFiles()[name]; ok {
		return re, true
	}
	return anyLine(), patchName().MatchString(name) // the patches of git am
}

var (
	anyLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(freeText) })
	patchName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^rebase-apply/\d{4,8}$`) })
)

// fits reports whether each line of a state file is one that git writes. known is
// what a list of steps was before the command: the user's own steps may stay.
func fits(name string, text, known []byte) bool {
	re, ok := shapeOf(name)
	steps := lists(name)
	var before []string
	for line := range bytes.Lines(known) {
		before = append(before, strings.TrimSpace(string(line)))
	}
	for raw := range bytes.Lines(text) {
		line := strings.TrimSuffix(string(raw), "\n")
		if (!re.MatchString(line) || steps && ralphs().MatchString(line)) && !(steps && slices.Contains(before, strings.TrimSpace(line))) {
			return false
		}
	}
	return ok
}

// lists reports whether a state file is a list of steps.
func lists(name string) bool {
	return name == "sequencer/todo" || strings.HasPrefix(name, "rebase-merge/git-rebase-todo") || name == "rebase-merge/done"
}

// ralphs matches a step that takes something from a ref of Ralph's.
var ralphs = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:reset|t|merge|m)\s(?:[^#]*\s)?(?:refs/)?ralph/`)
})

// treeState is what Ralph records of the git directory of one work tree before a
// command: what the command may change is published only while it is the same.
type treeState struct {
	Head   string
	Index  string            // its digest, or its identity where it cannot be read
	States map[string]fileID // of the state files that are there
}

func (a treeState) equal(b treeState) bool {
	if a.Head != b.Head || a.Index != b.Index || len(a.States) != len(b.States) {
		return false
	}
	for name, id := range a.States {
		if b.States[name] != id {
			return false
		}
	}
	return true
}

// indexReader reads the digests of indexes and remembers those of files that did
// not change. It is safe for concurrent use.
type indexReader struct {
	mu   sync.Mutex
	seen map[string]seenIndex
}

type seenIndex struct {
	id     fileID
	digest string
}

func (r *indexReader) digest(at string, oidLen int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := idOf(at)
	if c, ok := r.seen[at]; ok && c.id == id {
		return c.digest
	}
	digest := ""
	if id != (fileID{}) {
		x, err := readIndex(at, oidLen)
		if digest = x.digest(); err != nil {
			digest = "unreadable " + strings.TrimSpace(strings.Join([]string{itoa(int64(id.Ino)), itoa(id.Size), itoa(id.Mtime), itoa(id.Ctime)}, " "))
		}
	}
	if r.seen == nil {
		r.seen = map[string]seenIndex{}
	}
	r.seen[at] = seenIndex{id, digest}
	return digest
}

func readIndex(at string, oidLen int) (gitIndex, error) {
	b, err := readFile(at, maxIndexBytes)
	if err != nil {
		return gitIndex{}, err
	}
	return parseIndex(b, oidLen, func(name string) ([]byte, error) {
		return readFile(filepath.Join(filepath.Dir(at), name), maxIndexBytes)
	})
}

// index reads the index of a git directory as the command left it.
func (l layer) index(oidLen int) (gitIndex, error) {
	read := func(name string) ([]byte, error) { return l.after(name, maxIndexBytes) }
	b, err := read("index")
	if err != nil {
		return gitIndex{}, err
	}
	return parseIndex(b, oidLen, read)
}

// readTree records the state of the git directory of one work tree.
func (r *indexReader) readTree(gitDir string, oidLen int) treeState {
	head, _ := readFile(filepath.Join(gitDir, "HEAD"), maxRefBytes) // none is a state too
	s := treeState{Head: strings.TrimSpace(string(head)), Index: r.digest(filepath.Join(gitDir, "index"), oidLen), States: map[string]fileID{}}
	list, _ := os.ReadDir(gitDir) // what cannot be read does not change either
	for _, e := range list {
		if _, ok := shapeOf(e.Name()); ok {
			s.States[e.Name()] = idOf(filepath.Join(gitDir, e.Name()))
		}
		if !isStateDir(e.Name()) {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(gitDir, e.Name())) // as above
		for _, f := range files {
			s.States[e.Name()+"/"+f.Name()] = idOf(filepath.Join(gitDir, e.Name(), f.Name()))
		}
	}
	for _, name := range passing() {
		delete(s.States, name)
	}
	return s
}

// passing are state files that say what was done last; by whom is no matter.
func passing() []string { return []string{"COMMIT_EDITMSG", "FETCH_HEAD", "ORIG_HEAD"} }

// stateChange is a state file or directory that a command changed.
type stateChange struct {
	name  string
	files map[string][]byte // by name in the directory, or "" for a file; nil: removed
}

// statesAfter returns the state that the command changed, what is left out of it, and the
// names that are not taken over, with the reason. now are the refs as the command left them.
func statesAfter(l layer, now refs) (out []stateChange, left, odd []string) {
	for _, e := range l.entries() {
		if _, ok := shapeOf(e.name); ok {
			switch {
			case e.kind == removed:
				out = append(out, stateChange{name: e.name})
			case e.kind != file:
				odd = append(odd, e.name)
			default:
				text, err := l.read(e.name, maxStateBytes)
				if err != nil || !fits(e.name, text, nil) {
					odd = append(odd, e.name)
					continue
				}
				out = append(out, stateChange{e.name, map[string][]byte{"": text}})
			}
		}
		if !isStateDir(e.name) {
			continue
		}
		if e.kind == removed {
			out = append(out, stateChange{name: e.name})
			continue
		}
		files, steps, why := stateDir(l, e.name)
		if why == "" && !returns(files, now) {
			why = e.name + "/orig-head"
		}
		if left = append(left, steps...); why == "" {
			out = append(out, stateChange{e.name, files})
		} else {
			odd = append(odd, why)
		}
	}
	return out, left, odd
}

// returns reports whether an abort of the rebase in files puts the branch where it is.
func returns(files map[string][]byte, now refs) bool {
	branch, orig := strings.TrimSpace(string(files["head-name"])), strings.TrimSpace(string(files["orig-head"]))
	return !strings.HasPrefix(branch, "refs/") || now[branch] == orig
}

// stateDir reads a directory of state as the command left it, but for what is spared and steps
// that run something, which left names. Where a file of it does not fit, or git needs one that is not
// there, nothing is taken over and odd names it.
func stateDir(l layer, dir string) (files map[string][]byte, left []string, odd string) {
	names := []string{}
	if !opaque(filepath.Join(l.upper, dir)) {
		list, _ := os.ReadDir(filepath.Join(l.lower, dir)) // none where the command made it
		for _, e := range list {
			names = append(names, e.Name())
		}
	}
	for _, e := range l.sub(dir).entries() {
		names = append(names, e.name)
	}
	files = map[string][]byte{}
	for _, name := range unique(names) {
		full := dir + "/" + name
		text, err := l.after(full, maxStateBytes)
		if l.look(full) == removed || remade(full) {
			continue
		}
		if l.look(full) == same {
			if err == nil {
				files[name] = text
			}
			continue
		}
		known, _ := readFile(filepath.Join(l.lower, dir, name), maxStateBytes) // none where the command made it
		if rest := withoutRuns(full, text, known); len(rest) < len(text) {
			text, left = rest, append(left, full+" (its exec steps)")
		}
		switch {
		case spared(full) && known == nil:
			left = append(left, full)
		case err != nil || !fits(full, text, known):
			return nil, nil, full
		default:
			files[name] = text
		}
	}
	for _, name := range stateDirs()[dir] {
		if _, there := files[name]; !there && (!exists(filepath.Join(l.lower, dir)) || exists(filepath.Join(l.lower, dir, name))) {
			return nil, nil, dir + " (without " + name + ")"
		}
	}
	return files, left, ""
}

// withoutRuns returns a list of steps without those to come that run something; known is the
// list before the command: the user's own steps stay.
func withoutRuns(name string, text, known []byte) []byte {
	re, _ := shapeOf(name)
	if !lists(name) || re.MatchString("exec x") {
		return text
	}
	before := slices.Collect(bytes.Lines(known))
	var rest []byte
	for line := range bytes.Lines(text) {
		if !runs().Match(line) || slices.ContainsFunc(before, func(b []byte) bool { return bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(line)) }) {
			rest = append(rest, line...)
		}
	}
	return rest
}

// runs matches a step that runs a command.
var runs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(?:exec|x)\s`) })

// ids returns the object ids that the state names, those of steps as short as git reads them.
func (c stateChange) ids() []string {
	var out []string
	for name, text := range c.files {
		for _, id := range someHex().FindAllString(string(text), -1) {
			if isHex(id) || lists(c.name+"/"+name) {
				out = append(out, id)
			}
		}
	}
	return out
}

var someHex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{4,64}\b`) })

// apply writes the change into a git directory: a directory is made beside its
// place and put there whole.
func (c stateChange) apply(gitDir string) error {
	at := filepath.Join(gitDir, c.name)
	text, single := c.files[""]
	switch {
	case c.files == nil:
		return os.RemoveAll(at)
	case single:
		return replaceFile(at, text, 0o644)
	}
	tmp := at + ".ralph-new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	for name, data := range c.files {
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return os.Rename(tmp, at)
}
