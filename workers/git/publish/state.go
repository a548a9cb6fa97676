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

// shape says what the content of a state file must match. The shapes keep out
// what git would run, or pass on to a program, when the user continues.
type shape int

const (
	anyText         shape = iota // shown or recorded by git, never run
	idList                       // object ids, one a line
	fetchIDs                     // FETCH_HEAD: an id, and where it came from
	words                        // names and numbers: no character that a shell knows
	quoted                       // author-script: variables in single quotes
	todoList                     // steps of a rebase: no step that runs a command
	options                      // sequencer/opts: no signing, no options of a strategy
	blank                        // may only be empty
	strategy                     // a merge strategy of git's own: another name is a program git-merge-NAME
	strategyOptions              // options of such a strategy, each in quotes
)

// stateFiles are the files of a git directory that hold a merge, cherry-pick,
// revert, bisection or rebase, by gitrepository-layout(5), git-bisect(1) and
// git's sequencer.c and builtin/am.c. A name that is not here is not taken over:
// BISECT_RUN, apply-opt and gpg_sign_opt reach a program, update-refs moves refs
// that the command did not move itself.
var stateFiles = sync.OnceValue(func() map[string]shape {
	list := map[string]shape{}
	add := func(s shape, dir, names string) {
		for name := range strings.FieldsSeq(names) {
			list[path.Join(dir, name)] = s
		}
	}
	add(idList, "", "MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD ORIG_HEAD AUTO_MERGE BISECT_EXPECTED_REV BISECT_HEAD")
	add(anyText, "", "MERGE_MSG SQUASH_MSG COMMIT_EDITMSG")
	add(words, "", "MERGE_MODE BISECT_START BISECT_NAMES BISECT_TERMS BISECT_ANCESTORS_OK BISECT_FIRST_PARENT")
	add(anyText, "", "BISECT_LOG")
	add(fetchIDs, "", "FETCH_HEAD")
	add(words, "rebase-merge", `head-name onto orig-head msgnum end stopped-sha amend interactive quiet verbose signoff squash-onto autostash
 rewritten-list rewritten-pending drop_redundant_commits keep_redundant_commits no-reschedule-failed-exec reschedule-failed-exec
 allow_rerere_autoupdate refs-to-delete ignore_date cdate_is_adate`)
	add(strategy, "rebase-merge", "strategy")
	add(strategyOptions, "rebase-merge", "strategy_opts")
	add(anyText, "rebase-merge", "message message-squash message-fixup current-fixups patch")
	add(quoted, "rebase-merge", "author-script")
	add(todoList, "rebase-merge", "git-rebase-todo git-rebase-todo.backup done")
	add(words, "rebase-apply", `head-name onto orig-head next last abort-safety quiet rebasing applying rewritten amend autostash original-commit
 utf8 keep scissors threeway messageid no_inbody_headers dirtyindex quoted-cr sign`)
	add(anyText, "rebase-apply", "final-commit info patch msg msg-clean")
	add(quoted, "rebase-apply", "author-script")
	add(blank, "rebase-apply", "apply-opt")
	add(words, "sequencer", "head abort-safety")
	add(todoList, "sequencer", "todo")
	add(options, "sequencer", "opts")
	return list
})

// stateDirs are the directories among them.
func stateDirs() []string { return []string{"rebase-merge", "rebase-apply", "sequencer"} }

// shapeOf returns the shape of a state file.
func shapeOf(name string) (shape, bool) {
	if s, ok := stateFiles()[name]; ok {
		return s, true
	}
	return anyText, patchName().MatchString(name) // the patches of git am
}

var (
	patchName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^rebase-apply/\d{4,8}$`) })
	wordLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w ./,'@+-]*$`) })
	quotedLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Z_]+='[^'\x00]*(?:'\\''[^'\x00]*|'\\!'[^'\x00]*)*'$`)
	})
	strategyLine       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:ort|recursive|resolve|octopus|ours|subtree)$`) })
	strategyOptionLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?: ?'--(?:ours|theirs|patience|diff-algorithm=[a-z]+|ignore-space-change|ignore-all-space|ignore-space-at-eol|ignore-cr-at-eol|(?:no-)?renormalize|find-renames(?:=\d+%?)?|no-renames|rename-threshold=\d+%?)')*$`)
	})
	optionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:\[options\]|\t[a-z-]+ = [\w.-]+)$`) })
	stepWord   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:pick|p|reword|r|edit|e|squash|s|fixup|f|drop|d|label|l|reset|t|merge|m|update-ref|u|noop|break|b|revert)$`)
	})
)

// fits reports whether content has a shape. known are the lines that the file
// held before the command: the user's own steps may stay.
func (s shape) fits(text, known []byte) bool {
	var before []string
	for line := range bytes.Lines(known) {
		before = append(before, strings.TrimSpace(string(line)))
	}
	for raw := range bytes.Lines(text) {
		line := strings.TrimSuffix(string(raw), "\n")
		if !s.fitsLine(line) && !(s == todoList && slices.Contains(before, strings.TrimSpace(line))) {
			return false
		}
	}
	return true
}

func (s shape) fitsLine(line string) bool {
	switch s {
	case idList:
		return isHex(line)
	case fetchIDs:
		id, rest, _ := strings.Cut(line, "\t")
		return isHex(id) && printable(rest) == strings.ReplaceAll(rest, "\t", " ")
	case words:
		return wordLine().MatchString(line)
	case quoted:
		return quotedLine().MatchString(line)
	case options:
		return optionLine().MatchString(line) && !strings.Contains(line, "gpg-sign") && !strings.Contains(line, "strategy-option")
	case strategy:
		return strategyLine().MatchString(line)
	case strategyOptions:
		return strategyOptionLine().MatchString(line)
	case blank:
		return strings.TrimSpace(line) == ""
	case todoList:
		step, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " ")
		return step == "" || step[0] == '#' || stepWord().MatchString(step)
	}
	return true
}

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
	return parseIndex(b, oidLen)
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
		if !slices.Contains(stateDirs(), e.Name()) {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(gitDir, e.Name())) // as above
		for _, f := range files {
			s.States[e.Name()+"/"+f.Name()] = idOf(filepath.Join(gitDir, e.Name(), f.Name()))
		}
	}
	// COMMIT_EDITMSG, FETCH_HEAD and ORIG_HEAD say what was done last, by whom is
	// no matter.
	for _, name := range []string{"COMMIT_EDITMSG", "FETCH_HEAD", "ORIG_HEAD"} {
		delete(s.States, name)
	}
	return s
}

// stateChange is a state file or directory that a command changed.
type stateChange struct {
	name  string
	files map[string][]byte // by name in the directory, or "" for a file; nil: removed
}

// statesAfter returns the state that the command changed, and the names that are
// not taken over, with the reason. now are the refs as the command left them.
func statesAfter(l layer, now refs) (out []stateChange, odd []string) {
	for _, e := range l.entries() {
		if s, ok := shapeOf(e.name); ok {
			switch {
			case e.kind == removed:
				out = append(out, stateChange{name: e.name})
			case e.kind != file:
				odd = append(odd, e.name)
			default:
				text, err := l.read(e.name, maxStateBytes)
				if err != nil || !s.fits(text, nil) {
					odd = append(odd, e.name)
					continue
				}
				out = append(out, stateChange{e.name, map[string][]byte{"": text}})
			}
		}
		if !slices.Contains(stateDirs(), e.name) {
			continue
		}
		if e.kind == removed {
			out = append(out, stateChange{name: e.name})
			continue
		}
		files, why := stateDir(l, e.name)
		if why == "" && !returns(files, now) {
			why = e.name + "/orig-head"
		}
		if why == "" {
			out = append(out, stateChange{e.name, files})
		} else {
			odd = append(odd, why)
		}
	}
	return out, odd
}

// returns reports whether an abort of the rebase in files puts the branch where it is.
func returns(files map[string][]byte, now refs) bool {
	branch, orig := strings.TrimSpace(string(files["head-name"])), strings.TrimSpace(string(files["orig-head"]))
	return !strings.HasPrefix(branch, "refs/") || now[branch] == orig
}

// stateDir reads a directory of state as the command left it. Steps of a rebase
// that run a command are left out and named; of what else does not fit, nothing
// is taken over.
func stateDir(l layer, dir string) (files map[string][]byte, odd string) {
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
		if l.look(full) == removed || strings.HasSuffix(name, ".lock") {
			continue
		}
		if l.look(full) == same {
			if err == nil {
				files[name] = text
			}
			continue
		}
		s, ok := shapeOf(full)
		known, _ := readFile(filepath.Join(l.lower, dir, name), maxStateBytes) // none where the command made it
		if err != nil || !ok || !s.fits(text, known) {
			return nil, full
		}
		files[name] = text
	}
	return files, ""
}

// ids returns the object ids that the state names.
func (c stateChange) ids() []string {
	var out []string
	for _, text := range c.files {
		for _, id := range someHex().FindAllString(string(text), 1000) {
			if isHex(id) {
				out = append(out, id)
			}
		}
	}
	return out
}

var someHex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{40,64}\b`) })

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
