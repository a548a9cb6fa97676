package repl

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/workers/model/modeltest"
)

// troupe answers each agent by a script of its own.
type troupe struct {
	mu    sync.Mutex // guards parts
	parts map[string][]modeltest.Reply
}

func (k *troupe) answer(r modeltest.Request) modeltest.Reply {
	who := "ralph"
	for _, m := range r.Messages {
		if f := regexp.MustCompile(`You are agent (\w+), one of several`).FindStringSubmatch(m.Content); m.Role == "user" && f != nil {
			who = f[1]
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	left := k.parts[who]
	if len(left) == 0 {
		return modeltest.Status(400, `{"error":{"message":"no more for `+who+`"}}`)
	}
	k.parts[who] = left[1:]
	return left[0]
}

func wrote(path string) modeltest.Reply {
	return modeltest.Calls(modeltest.Call{Name: "write", Args: `{"path":"` + path + `","content":"good\n"}`})
}

func ended(summary string) modeltest.Reply {
	return modeltest.Calls(modeltest.Call{Name: "finish", Args: `{"status":"done","summary":"` + summary + `","confidence":0.9}`})
}

// TestWholeRun works a plan with the real coordinator, real children and git: the
// chat shows it, a stop in its middle gives the prompt back at once, and it goes on
// from there to the end.
func TestWholeRun(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tasks := "# Tasks\n\n- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: grep -q good two.txt\n- [ ] **T-3** Write three\n  - after: T-2\n  - check: grep -q good three.txt\n"
	if err := os.WriteFile(filepath.Join(dir, "RALPH_TASKS.md"), []byte(tasks), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@b"}, {"config", "user.name", "a"}, {"add", "-A"}, {"commit", "-qm", "begin"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	srv := modeltest.New(t)
	k := &troupe{parts: map[string][]modeltest.Reply{
		"write_one":   {wrote("one.txt"), ended("one is written")},
		"write_two":   {modeltest.Calls(modeltest.Call{Name: "shell", Args: `{"command":"trap '' INT TERM; sleep 60 & sleep 60"}`}), wrote("two.txt"), ended("two is written")},
		"write_three": {wrote("three.txt"), ended("three is written")},
	}}
	srv.Handle(k.answer)
	p := converse(t, srv, dir, "new")
	p.Has("ralph ❯ ▏")
	p.Type("/plan next\r")
	p.Has("/why T-1 shows the sum")
	p.Type("\x0c/run --feature play --human-intervention never\r")
	p.Has("T-1 done")
	p.Until("the second task at work", func(s string) bool { return strings.Contains(s, "1/3 done") && strings.Contains(s, "shell") })
	p.Type("half")
	p.Has("❯ half▏")
	began := time.Now()
	p.Type("\x03")
	p.Until("the stop", func(s string) bool {
		return strings.Contains(s, "stopping ") && strings.Contains(s, "❯ half▏") || strings.Contains(s, "talk ❯ half▏")
	})
	seen := time.Since(began)
	p.Has("talk ❯ half▏")
	took := time.Since(began)
	t.Logf("^C to the prompt: %v, to rest: %v", seen, took)
	if seen > 10*time.Second || took > 20*time.Second {
		t.Errorf("the prompt took %v, the rest %v", seen, took)
	}
	p.Has("interrupted at iteration 2")
	p.Type("\x15\x0c/go\r")
	p.Has("T-3 done")
	s := p.Until("the end of the run", func(s string) bool {
		return strings.Contains(s, "3 of 3 tasks done") && strings.Contains(s, "ralph ❯ ▏")
	})
	if strings.Contains(s, "█") {
		t.Errorf("the live rows of an ended run are there:\n%s", s)
	}
	for _, name := range []string{"one.txt", "two.txt", "three.txt"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); string(text) != "good\n" {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	p.Type("\x0c/why T-2\r")
	p.Has("┃")
	p.Type("\x04")
	p.exited(0)
}
