package coordinator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/config"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

// foremanEnv makes the test program play a Ralph whose agents work, until it is
// killed or told to end.
const foremanEnv = "RALPH_TEST_FOREMAN"

// order is a line of a foreman's input.
type order struct{ Op, Text string }

// report is a line of its output.
type report struct {
	// Op is that of the order, or "event".
	Op, Text string `json:",omitempty"`
	Err      string `json:",omitempty"`
	Event    *agent.Event
	Agents   []crew.Agent
	Status   result.Status
	Warnings []string
}

// foreman obeys orders: "run", "resume", "merge" and "prune" are done one after
// the other, "stop", "end", "agents" and "quit" at once.
func foreman(root string) error {
	cfg, err := config.Load(config.Sources{Flags: map[string][]string{"base_url": {os.Getenv("RALPH_TEST_URL")}, "model": {"m"}, "sandbox": {os.Getenv("RALPH_TEST_SANDBOX")}, "check_retries": {"0"}, "allow": {"true"}}})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	tell := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(r)
	}
	c, err := coordinator.Open(context.Background(), coordinator.Options{Root: root, Config: cfg, Getenv: getenv(root), Proc: exec.New(exec.Options{Init: exec.Self()}), RunID: fmt.Sprint("r-", time.Now().UnixNano()), Holder: "chat", Session: os.Getenv("RALPH_TEST_SESSION"),
		Eyes: func(e agent.Event) {
			if e.Type == agent.EventChildStart || e.Type == agent.EventChildEnd || e.Type == agent.EventWarning {
				tell(report{Op: "event", Event: &e})
			}
		}})
	if err != nil {
		return err
	}
	tell(report{Op: "open"})
	ctx := context.Background()
	work := make(chan order, 100)
	var quits atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for o := range work {
			if quits.Load() {
				continue
			}
			r := report{Op: o.Op, Text: o.Text}
			var err error
			switch o.Op {
			case "run", "resume":
				j := coordinator.Job{Chat: true, Go: true, Task: o.Text}
				if o.Op == "resume" {
					j.Task, j.Agent = "", o.Text
				}
				out := c.Run(ctx, j)
				r.Agents, r.Status, r.Warnings, r.Text = out.Children, out.Status, out.Warnings, out.Reason
			case "merge":
				r.Text, err = c.Merge(ctx, o.Text)
			case "prune":
				var gone []string
				gone, err = c.Prune(ctx, []string{o.Text})
				r.Text = strings.Join(gone, " ")
			}
			if err != nil {
				r.Err = err.Error()
			}
			tell(r)
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		switch o.Op {
		case "stop":
			c.Stop(&interrupts.Stop{})
		case "end":
			_ = c.StopAgent(o.Text, &interrupts.Stop{})
		case "agents":
			list, err := c.Agents(ctx)
			r := report{Op: "agents", Agents: list}
			if err != nil {
				r.Err = err.Error()
			}
			tell(r)
		case "quit":
			quits.Store(true)
			close(work)
			for over := false; !over; {
				c.Stop(&interrupts.Stop{})
				select {
				case <-ended:
					over = true
				case <-time.After(100 * time.Millisecond):
				}
			}
			r := report{Op: "quit"}
			if err := c.Close(); err != nil {
				r.Err = err.Error()
			}
			tell(r)
			return nil
		default:
			work <- o
		}
	}
	return nil
}

// role is what an agent of a plan does.
type role struct {
	Kind  string
	Line  int // of the shared file that it changes
	After []string
	Check string
}

// company answers the requests of agents, each by its role. It outlives those
// that ask.
type company struct {
	mu    sync.Mutex
	rng   *rand.Rand
	plans map[string][]string // names, by plan
	roles map[string]role
	saw   map[string]string // what an agent saw of the shared file, by id
	calm  bool              // nobody hangs any more
}

var (
	planWord = regexp.MustCompile(`do plan-(\d+)`)
	childID  = regexp.MustCompile(`You are agent (\w+), one of several`)
)

func (k *company) answer(r modeltest.Request) modeltest.Reply {
	k.mu.Lock()
	wait := time.Duration(k.rng.IntN(25)) * time.Millisecond
	lazy := k.rng.IntN(6) == 0
	k.mu.Unlock()
	if lazy {
		wait *= 8
	}
	for _, m := range r.Messages {
		if f := childID.FindStringSubmatch(m.Content); m.Role == "user" && f != nil {
			return k.child(f[1], r).After(wait)
		}
	}
	return k.lead(r).After(wait)
}

// lead is what the coordinator says: the agents of the last plan, then words.
func (k *company) lead(r modeltest.Request) modeltest.Reply {
	plan, asked := "", false
	for _, m := range r.Messages {
		if f := planWord.FindStringSubmatch(m.Content); m.Role == "user" && f != nil {
			plan, asked = f[1], false
		}
		for _, c := range m.Calls {
			asked = asked || c.Name == "spawn_agents"
		}
	}
	if plan == "" || asked || len(r.Tools) == 0 {
		return text("I see.")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []m
	for _, name := range k.plans[plan] {
		x := k.roles[name]
		a := m{"name": name, "task": "do the work of " + name, "after": x.After}
		if x.Check != "" {
			a["check"] = x.Check
		}
		list = append(list, a)
	}
	return spawn(list...)
}

// child is what an agent says: a command that does the work, until one has
// answered that it is done, and then how it ends.
func (k *company) child(id string, r modeltest.Request) modeltest.Reply {
	did, again, spawned := false, false, false
	for _, m := range r.Messages {
		if m.Role == "tool" && strings.Contains(m.Content, "did-"+id) {
			did = true
			k.mu.Lock()
			k.saw[id] = m.Content
			k.mu.Unlock()
		}
		again = again || m.Role == "user" && strings.Contains(m.Content, "goes on now")
		for _, c := range m.Calls {
			spawned = spawned || c.Name == "spawn_agents"
		}
	}
	k.mu.Lock()
	x, known := k.roles[id]
	again = again || k.calm
	k.mu.Unlock()
	if !known { // one that resolves a conflict
		x = role{Kind: "resolve"}
		k.mu.Lock()
		if k.rng.IntN(6) == 0 {
			x.Kind = "idle"
		}
		k.mu.Unlock()
	}
	if !did {
		return calls(shell(workOf(id, x)))
	}
	switch x.Kind {
	case "hang":
		if !again {
			return modeltest.Hang()
		}
	case "sleep":
		if !again {
			return calls(shell("sleep 300"))
		}
	case "fail":
		return finish("failed", id+" cannot do it")
	case "boss":
		if !spawned {
			k.mu.Lock()
			defer k.mu.Unlock()
			var list []m
			for i := range 2 {
				name := fmt.Sprintf("%s_h%d", id, i)
				k.roles[name] = role{Kind: "edit", Line: 1 + k.rng.IntN(lines)}
				list = append(list, m{"name": name, "task": "help " + id})
			}
			return spawn(list...)
		}
	}
	return text(id + " is done")
}

// workOf is the command of a role. It can be run twice.
func workOf(id string, x role) string {
	own := fmt.Sprintf("cat shared.txt; mkdir -p own && echo %[1]s > own/%[1]s.txt", id)
	change := fmt.Sprintf("sed -i 's/^line %d .*/line %d by %s/' shared.txt", x.Line, x.Line, id)
	list := []string{own, change}
	switch x.Kind {
	case "idle":
		list = []string{"cat shared.txt"}
	case "resolve":
		list = []string{"cat shared.txt; sed -i -e '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' shared.txt"}
	case "commit":
		list = append(list, "git add -A", "git -c user.name=a -c user.email=a@localhost commit -qm 'by "+id+"' || git diff --cached --quiet")
	case "fresh":
		list = []string{own}
	case "vandal":
		list = append(list, vandalism(id))
	}
	return strings.Join(list, " && ") + " && echo did-" + id
}

// vandalism is a command that deletes, forges and moves what it finds of objects,
// refs and configuration: first, at once and again, in each repository around the
// tree, and last in the agent's own clone, with commits that do not verify. What it
// wrote before is its work all the same.
func vandalism(id string) string {
	return `{ d=$PWD; while [ "$d" != / ]; do d=$(dirname "$d"); [ -e "$d/.git" ] && echo "$d/.git"; done; ls -d ../*/.git ../.ralph ../.objects-*/.git; sed -n 's/^gitdir: //p' .git; ` +
		`awk '{print $5}' /proc/self/mountinfo | grep -E '[.]git|objects'; } 2>/dev/null | grep -v "^$PWD" > "$TMPDIR/found"; ` +
		`harm() { rm -rf "$1"/objects/?? "$1"/objects/pack/* "$1"/refs/heads/* "$1"/agent-*; printf '[core]\n\tfsmonitor = ./x\n' >> "$1/config"; for h in HEAD refs/heads/main refs/heads/ralph/` + id + ` packed-refs; do echo 0123456789012345678901234567890123456789 > "$1/$h"; done; ` +
		`mkdir -p "$1/objects/11" "$1/hooks"; echo forged > "$1/objects/11/11111111111111111111111111111111111111"; git --git-dir="$1" update-ref refs/heads/main 1111111111111111111111111111111111111111; find "$1/objects" -type f | while read -r f; do chmod u+w "$f"; echo forged > "$f"; done; } 2>/dev/null; ` +
		`for n in 1 2 3; do while read -r g; do harm "$g" & done < "$TMPDIR/found"; wait; done; ` +
		`own=$(printf 'tree %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nforged\n' 1111111111111111111111111111111111111111 | git hash-object -w --literally -t commit --stdin); ` +
		`case $(( $(printf %s ` + id + ` | cksum | cut -d' ' -f1) % 3 )) in 0) harm .git ;; 1) echo $own > .git/refs/heads/ralph/` + id + ` ;; 2) rm -rf .git/objects ;; esac; true`
}
