package coordinator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/crew"
)

// judge looks what is left of a run.
type judge struct {
	*randomRun
	noted map[string]crew.Agent // as the journals have them
	bases map[string]bool       // that agents began with
	list  []crew.Agent
	tree  string // the shared file, as it is
	past  string // every version of it that HEAD has
}

func newJudge(r *randomRun, list []crew.Agent) *judge {
	j := &judge{randomRun: r, list: list, noted: map[string]crew.Agent{}, bases: map[string]bool{}}
	text, err := os.ReadFile(filepath.Join(r.root, shared))
	if err != nil {
		r.Error(err)
	}
	j.tree = string(text)
	j.past = r.mustGit("log", "-p", "-m", "--format=", "HEAD", "--", shared)
	return j
}

func (j *judge) judge() {
	j.reported()
	j.users()
	j.owners()
	j.landings()
	j.sound()
}

// users checks that what the user wrote, staged and committed is there.
func (j *judge) users() {
	u := j.user
	row := regexp.MustCompile(`(?m)^line (\d+) .*$`)
	for where, want := range map[string]map[string]string{"": u.tree, ":": u.index, "HEAD:": u.head} {
		read := func(name string) string {
			if where == "" {
				text, err := os.ReadFile(filepath.Join(j.root, name))
				if err != nil && !os.IsNotExist(err) {
					j.Error(err)
				}
				return string(text)
			}
			out, err := j.git("show", where+name)
			if err != nil {
				return ""
			}
			return out
		}
		for i := range 7 {
			name := fmt.Sprintf("mine/%d.txt", i)
			if got := read(name); got != want[name] {
				j.Errorf("%s%s is %q, and the user left %q", where, name, got, want[name])
			}
		}
		have := map[string][]string{}
		for _, f := range row.FindAllStringSubmatch(read(shared), -1) {
			have["line "+f[1]] = append(have["line "+f[1]], f[0])
		}
		for key, text := range want {
			if strings.HasPrefix(key, "line ") && !slices.Equal(have[key], []string{text}) {
				j.Errorf("%s%s has %q, and the user left %q", where, shared, have[key], text)
			}
		}
	}
	for _, text := range u.contested {
		if !strings.Contains(j.tree, text) && !j.seen(text) {
			j.Errorf("%q of the user was replaced by nobody who saw it", text)
		}
	}
	for i := 1; i <= u.n; i++ {
		if name := fmt.Sprint("mine-", i); exists(filepath.Join(j.root, ".git/logs/refs/heads", name)) {
			if _, err := j.git("rev-parse", "--verify", "-q", "refs/heads/"+name); err != nil {
				j.Errorf("the user's branch %s is gone", name)
			}
		}
	}
}

// seen says that some agent was shown a line, or had it in its tree: what a command
// printed that a kill cut off nobody was shown.
func (j *judge) seen(text string) bool {
	for base := range j.bases {
		if out, err := j.git("show", base+":"+shared); err == nil && strings.Contains(out, text) {
			return true
		}
	}
	j.company.mu.Lock()
	defer j.company.mu.Unlock()
	for _, saw := range j.company.saw {
		if strings.Contains(saw, text) {
			return true
		}
	}
	return false
}

// owners checks that every worktree, branch and ref of ours belongs to an agent.
func (j *judge) owners() {
	branch, tree, id := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range j.list {
		if id[a.ID] {
			j.Errorf("there are two agents %s", a.ID)
		}
		id[a.ID], branch["refs/heads/"+a.Branch], tree[a.Worktree] = true, true, true
		if a.AtWork() && a.Depth > 0 {
			j.Errorf("%s is %s at rest", a.ID, a.State)
		}
		if a.Branch != "" {
			if _, err := j.git("rev-parse", "--verify", "-q", "refs/heads/"+a.Branch); err != nil {
				j.Errorf("%s (%s, %s) has the branch %s, which is not there", a.ID, a.State, a.Landing, a.Branch)
			}
		}
		if a.Worktree != "" && !exists(a.Worktree) {
			j.Errorf("%s (%s, %s) has the worktree %s, which is not there", a.ID, a.State, a.Landing, a.Worktree)
		}
	}
	for line := range strings.Lines(j.mustGit("for-each-ref", "--format=%(refname)")) {
		ref := strings.TrimSpace(line)
		base, isBase := strings.CutPrefix(ref, "refs/ralph/base/")
		wait, isWait := strings.CutPrefix(ref, "refs/ralph/waiting/")
		switch {
		case strings.HasPrefix(ref, "refs/heads/ralph") && !branch[ref], isBase && !id[base], isWait && !id[wait]:
			j.Errorf("%s belongs to nobody", ref)
		}
	}
	if list := j.mustGit("worktree", "list", "--porcelain"); strings.Count(list, "worktree ") != 1 {
		j.Errorf("the user's git knows of other worktrees:\n%s", list)
	}
	borrowed := ""
	for dir := range tree {
		text, _ := os.ReadFile(filepath.Join(dir, ".git/objects/info/alternates")) // a vandal has none
		borrowed += string(text)
	}
	entries, err := os.ReadDir(filepath.Join(j.root, ".ralph/worktrees"))
	if err != nil && !os.IsNotExist(err) {
		j.Error(err)
	}
	for _, e := range entries {
		if dir := filepath.Join(j.root, ".ralph/worktrees", e.Name()); e.Name() != ".ralph" && !tree[dir] && !(strings.HasPrefix(e.Name(), ".objects-") && strings.Contains(borrowed, e.Name())) {
			j.Errorf("%s belongs to nobody", dir)
		}
	}
	private, err := os.ReadDir(filepath.Join(j.root, ".ralph/worktrees/.ralph"))
	if err != nil && !os.IsNotExist(err) {
		j.Error(err)
	}
	for _, e := range private {
		name := e.Name()
		owner, isRecord := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "agent-")
		of, _ := os.ReadFile(filepath.Join(j.root, ".ralph/worktrees/.ralph", name, "gitdir"))
		isTree := strings.HasPrefix(name, "tree-") && tree[filepath.Dir(strings.TrimSpace(string(of)))]
		if name != "lock" && name != "queue.json" && !isTree && !(isRecord && id[owner]) {
			j.Errorf("%s stays behind", name)
		}
	}
}

// reported checks that each commit that was told of can be reached.
func (j *judge) reported() {
	journals, err := filepath.Glob(filepath.Join(j.root, ".ralph/sessions/*/agents/*/journal.jsonl"))
	if err != nil {
		j.Fatal(err)
	}
	for _, path := range journals {
		text, err := os.ReadFile(path)
		if err != nil {
			j.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var x struct {
				Kind    string
				Payload struct {
					crew.Agent
					Base string
				}
			}
			if json.Unmarshal([]byte(line), &x) != nil || x.Kind != "agent" {
				continue // torn by a kill, or a message
			}
			if j.noted[x.Payload.ID] = x.Payload.Agent; x.Payload.Commit != "" {
				j.commits[x.Payload.Commit] = x.Payload.ID
			}
			if x.Payload.Base != "" {
				j.bases[x.Payload.Base] = true
			}
		}
	}
	for commit, id := range j.commits {
		if j.pruned[id] {
			continue
		}
		out, err := j.git("for-each-ref", "--contains", commit)
		if err == nil && out != "" {
			continue
		}
		// One that was merged without its history is in another commit, and one that
		// changed nothing against the user's in none.
		if a := j.agent(id); (a.Landing == crew.Merged || a.Landing == crew.Unchanged) && a.Commit != commit {
			continue
		}
		j.Errorf("the commit %s of %s is lost: %v %s (%+v)", commit, id, err, out, j.agent(id))
	}
}

func (j *judge) agent(id string) crew.Agent {
	for _, a := range j.list {
		if a.ID == id {
			return a
		}
	}
	return j.noted[id] // of an earlier session, and nothing is left to do
}

// landings checks that what is called merged is in the user's tree, and nothing
// else.
func (j *judge) landings() {
	for _, a := range j.list {
		x, known := j.company.roles[a.ID]
		if a.Depth == 0 || !known || x.Kind == "idle" {
			continue
		}
		own := "own/" + a.ID + ".txt"
		_, err := j.git("cat-file", "-e", "HEAD:"+own)
		committed, there := err == nil, exists(filepath.Join(j.root, own))
		line := fmt.Sprintf("line %d by %s", x.Line, a.ID)
		switch {
		case a.Landing == crew.Merged && !there:
			j.Errorf("%s is merged, and %s is not there (committed: %v)", a.ID, own, committed)
		case a.Landing == crew.Merged && !committed && a.Problem == "":
			j.Errorf("%s is merged, and %s is not committed", a.ID, own)
		case a.Landing == crew.Merged && x.Kind != "fresh" && !strings.Contains(j.tree, line) && !strings.Contains(j.past, "+"+line) && !j.seen(line) && j.user.contested[fmt.Sprint("line ", x.Line)] == "":
			// Another agent may have changed the line before, so that it had none, or the
			// user what was not committed.
			if before := regexp.MustCompile(fmt.Sprintf(`(?m)^line %d `, x.Line)); before.MatchString(j.company.saw[a.ID]) {
				j.Errorf("%s is merged, and %q is nowhere", a.ID, line)
			}
		case a.Landing != crew.Merged && (there || committed):
			j.Errorf("%s is %s/%s, and its %s is in the user's tree (committed: %v)", a.ID, a.State, a.Landing, own, committed)
		}
	}
	for id := range j.merged {
		if a := j.agent(id); a.ID != "" && a.Landing != crew.Merged {
			j.Errorf("%s was merged, and is %s/%s now", id, a.State, a.Landing)
		}
	}
	if strings.Contains(j.tree, "<<<<<<<") {
		j.Errorf("the user's tree has conflict markers:\n%s", j.tree)
	}
}

// sound checks that git is content, and that nothing of ours runs or is locked.
func (j *judge) sound() {
	if out, err := j.git("fsck", "--strict", "--no-dangling", "--no-progress"); err != nil || strings.Contains(out, "error") || strings.Contains(out, "missing") {
		j.Errorf("git fsck: %v\n%s", err, out)
	}
	for name, plain := range map[string]string{"config": "user@localhost", "HEAD": "ref: refs/heads/"} {
		if text, err := os.ReadFile(filepath.Join(j.root, ".git", name)); err != nil || !strings.Contains(string(text), plain) || strings.Contains(string(text), "fsmonitor") {
			j.Errorf(".git/%s is %q: %v", name, text, err)
		}
	}
	if out, err := j.git("log", "--all", "--format=%s"); err != nil || strings.Contains(out, "forged") {
		j.Errorf("a forged commit was published: %v\n%s", err, out)
	}
	if out, err := j.git("status", "--porcelain"); err != nil {
		j.Errorf("git status: %v\n%s", err, out)
	}
	_ = filepath.WalkDir(filepath.Join(j.root, ".git"), func(path string, d os.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".lock") && d.Name() != "ralph.lock" || strings.HasPrefix(d.Name(), "index-")) {
			j.Errorf("%s stays behind", path)
		}
		return nil
	})
	var left []string
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if left = inside(j.root); len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(left) > 0 {
		j.Errorf("processes are left: %q", left)
	}
}

// inside are the processes that work below a directory.
func inside(root string) []string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var list []string
	for _, dir := range dirs {
		if cwd, err := os.Readlink(dir + "/cwd"); err == nil && (cwd == root || strings.HasPrefix(cwd, root+"/")) {
			line, _ := os.ReadFile(dir + "/cmdline")
			list = append(list, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return list
}
