package coordinator_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const quitSignal = syscall.SIGQUIT

// randomUser edits, stages and commits, and remembers what has to be where. Its
// own files and its lines of the shared file nobody else changes.
type randomUser struct {
	r   *randomRun
	rng *rand.Rand
	n   int
	// What the user's files hold, "" for none, in the tree, the index and the last
	// commit; lines of the shared file are "line 7" and so on.
	tree, index, head map[string]string
	// contested are lines that the user wrote where agents write.
	contested map[string]string
}

const shared = "shared.txt"

func newRandomUser(r *randomRun) *randomUser {
	return &randomUser{r: r, rng: rand.New(rand.NewPCG(r.seed, 3)), tree: map[string]string{}, contested: map[string]string{}}
}

func (u *randomUser) path(name string) string { return filepath.Join(u.r.root, name) }

// begin makes the repository.
func (u *randomUser) begin() {
	r := u.r
	r.mustGit("init", "-q", "-b", "main", ".")
	r.mustGit("config", "user.name", "User")
	r.mustGit("config", "user.email", "user@localhost")
	var b strings.Builder
	for i := 1; i <= 2*lines; i++ {
		fmt.Fprintf(&b, "line %d as it was\n\n-\n\n", i)
		if i > lines {
			u.tree[fmt.Sprint("line ", i)] = fmt.Sprintf("line %d as it was", i)
		}
	}
	u.must(os.WriteFile(u.path(shared), []byte(b.String()), 0o644))
	u.must(os.Mkdir(u.path("mine"), 0o755))
	for i := range 4 {
		u.put(fmt.Sprintf("mine/%d.txt", i), false)
	}
	r.mustGit("add", "-A")
	r.mustGit("commit", "-qm", "first")
	u.index, u.head = maps.Clone(u.tree), maps.Clone(u.tree)
	for n := u.rng.IntN(4); n > 0; n-- {
		u.step()
	}
}

func (u *randomUser) must(err error) {
	if err != nil {
		u.r.Errorf("the user: %v", err)
	}
}

// work goes on until quit.
func (u *randomUser) work(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(time.Duration(u.rng.IntN(120)) * time.Millisecond):
		}
		u.step()
	}
}

func (u *randomUser) step() {
	u.r.all.edits.Add(1)
	name := fmt.Sprintf("mine/%d.txt", u.rng.IntN(7))
	switch u.rng.IntN(16) {
	case 0, 1, 2:
		u.put(name, u.rng.IntN(2) == 0)
	case 3:
		if u.tree[name] != "" {
			u.r.note("the user deletes %s", name)
			u.must(os.Remove(u.path(name)))
			delete(u.tree, name)
		}
	case 4, 5:
		if (u.tree[name] != "" || u.index[name] != "") && u.git("add", "-A", "--", name) {
			u.follow(u.index, u.tree, name)
		}
	case 6:
		if u.git("commit", "-qm", "by the user") {
			u.head = maps.Clone(u.index)
		}
	case 7, 8, 9:
		u.line(lines+1+u.rng.IntN(lines), false)
	case 10:
		u.line(1+u.rng.IntN(lines), true)
	case 11:
		if u.git("add", "--", shared) {
			u.follow(u.index, u.tree, "line ")
		}
	case 12:
		if u.git("commit", "-qam", "all by the user") {
			for key := range u.index {
				u.follow(u.index, u.tree, key)
			}
			u.follow(u.index, u.tree, "line ")
			u.head = maps.Clone(u.index)
		}
	case 13:
		u.n++
		u.git("branch", fmt.Sprint("mine-", u.n))
	case 14:
		u.git("status", "--porcelain")
	case 15: // a git of the user that takes its time
		f, err := os.OpenFile(u.path(".git/index.lock"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(u.rng.IntN(100)) * time.Millisecond)
		u.must(f.Close())
		u.must(os.Remove(u.path(".git/index.lock")))
	}
}

// follow makes one record the same as another for a file, or all lines.
func (u *randomUser) follow(to, from map[string]string, name string) {
	if name != "line " {
		if strings.HasPrefix(name, "line ") {
			return
		}
		if delete(to, name); from[name] != "" {
			to[name] = from[name]
		}
		return
	}
	for key, value := range from {
		if strings.HasPrefix(key, name) {
			to[key] = value
		}
	}
}

// put writes one of the user's own files, in place or as editors do.
func (u *randomUser) put(name string, renamed bool) {
	u.n++
	text := fmt.Sprintf("%s by the user, %d\n", name, u.n)
	u.r.note("the user writes %s: %d", name, u.n)
	path := u.path(name)
	if renamed {
		path = u.path(".git/edited")
	}
	u.must(os.WriteFile(path, []byte(text), 0o644))
	if renamed {
		u.must(os.Rename(path, u.path(name)))
	}
	u.tree[name] = text
}

// line changes one line of the shared file, as an editor does that looks whether
// the file has changed on disk.
func (u *randomUser) line(n int, contested bool) {
	u.n++
	key := fmt.Sprint("line ", n)
	text := fmt.Sprintf("%s by the user, %d", key, u.n)
	row := regexp.MustCompile(fmt.Sprintf(`(?m)^line %d .*$`, n))
	for range 20 {
		old, err := os.ReadFile(u.path(shared))
		if err != nil {
			u.r.Errorf("the shared file: %v", err)
			return
		}
		fresh := row.ReplaceAll(old, []byte(text))
		u.must(os.WriteFile(u.path(".git/edited"), fresh, 0o644))
		if now, err := os.ReadFile(u.path(shared)); err != nil || string(now) != string(old) {
			continue
		}
		u.must(os.Rename(u.path(".git/edited"), u.path(shared)))
		u.r.note("the user writes %s", text)
		if contested {
			u.contested[key] = text
		} else {
			u.tree[key] = text
		}
		return
	}
}

// git runs a command of the user's; one that another git locks out is tried
// again for a while.
func (u *randomUser) git(args ...string) bool {
	for range 40 {
		out, err := u.r.git(args...)
		if err == nil {
			u.r.note("the user's git %s", strings.Join(args, " "))
			return true
		}
		if !strings.Contains(out, "lock") {
			if args[0] != "commit" || !strings.Contains(out, "no changes added") && !strings.Contains(out, "nothing") {
				u.r.Errorf("git %v of the user: %v\n%s", args, err, out)
			}
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	u.r.all.blocked.Add(1)
	u.r.note("the user's git %s is locked out", strings.Join(args, " "))
	return false
}
