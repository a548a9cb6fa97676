package coordinator_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/ownership"
	"ralph/coordinator/recovery"
	"ralph/coordinator/result"
	"ralph/memory/identity"
	"ralph/memory/queue"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

// assess looks at a project as it is.
func (p *project) assess(id string) recovery.Report {
	p.Helper()
	runner := exec.New(exec.Options{Init: exec.Self()})
	defer func() {
		if err := runner.Close(p.Context()); err != nil {
			p.Error(err)
		}
	}()
	s, err := recovery.Assess(p.Context(), recovery.Options{Project: ownership.Project{Root: p.root, Getenv: getenv(p.root)}, Proc: runner, Session: id})
	if err != nil {
		p.Fatal(err)
	}
	if n := len(s.Lines(time.Now())); n > 8 {
		p.Errorf("%d lines", n)
	}
	return s
}

// dead is the note of a holder that is gone.
func (p *project) dead(run string) {
	p.Helper()
	note := fmt.Sprintf(`{"pid":4194000,"startTime":1,"bootId":"gone","hostname":"h","sessionId":%q,"acquiredAt":"2026-11-21T10:02:00Z","cwd":%q,"kind":"chat"}`, run, p.root)
	p.write(".ralph/FORMAT", "ralph 1\n")
	p.write(".ralph/lock", note)
	if _, err := os.Stat(p.path(".git")); err == nil {
		p.write(".git/ralph.lock", note)
	}
}

// cutChat leaves a chat as kill -9 does in the middle of its second turn.
func cutChat(p *project) {
	p.Helper()
	meta := "session_id: \"001\"\nsession_name: chat\nstart_time: 2026-11-21T10:00:00Z\nend_time: null\nstatus: in_progress\n"
	p.write(".ralph/sessions/session-001-chat/session-metadata.yaml", meta)
	var lines strings.Builder
	for i, m := range []agent.Message{
		{Role: agent.RoleUser, Text: "first"}, {Role: agent.RoleAssistant, Text: "answered"},
		{Role: agent.RoleUser, Text: "mend the door"},
		{Role: agent.RoleAssistant, Text: "I look.", Calls: []agent.Call{{ID: "a", Name: "read", Args: "{}"}, {ID: "b", Name: "shell", Args: `{"command":"go test ./..."}`}}},
		{Role: agent.RoleTool, CallID: "a", Text: "content"},
	} {
		payload, err := json.Marshal(m)
		if err != nil {
			p.Fatal(err)
		}
		fmt.Fprintf(&lines, `{"seq":%d,"time":"2026-11-21T10:0%d:00Z","epoch":0,"kind":"message","payload":%s}`+"\n", i+1, i, payload)
	}
	p.write(".ralph/sessions/session-001-chat/journal.jsonl", lines.String())
	p.dead("r-dead")
}

func TestAssess(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		make    func(*project)
		verdict string
		lines   []string // in what is said
	}{
		"nothing": {func(*project) {}, "", nil},
		"ended in order": {func(p *project) {
			cutChat(p)
			p.write(".ralph/sessions/session-001-chat/session-metadata.yaml", "session_id: \"001\"\nstatus: completed\nend_time: 2026-11-21T10:05:00Z\n")
		}, "", nil},
		"cut off": {cutChat, "same session", []string{"same session: session 001 (chat) was cut off", "you said last: mend the door", "outcome unknown, not run again by itself: shell go test ./...", "on branch "}},
		"paused": {func(p *project) {
			cutChat(p)
			p.write(".ralph/sessions/session-001-chat/session-metadata.yaml", "session_id: \"001\"\nsession_name: doors\nstatus: paused\nexit_reason: interrupted by SIGTERM\n")
		}, "same session", []string{"session 001 (doors) was interrupted", "(interrupted by SIGTERM)"}},
		"torn, with tasks and messages": {func(p *project) {
			cutChat(p)
			p.write(".ralph/sessions/session-001-chat/journal.jsonl", p.read(".ralph/sessions/session-001-chat/journal.jsonl")+`{"seq":6,"ti`)
			p.write("RALPH_TASKS.md", "- [ ] **T-1** door\n  - status: in_progress\n- [x] **T-2** done\n- [ ] **T-3** wall\n  - status: interrupted\n")
			p.own()
			for _, text := range []string{"one", "two"} {
				if _, err := queue.Add(p.Context(), ownership.Project{Root: p.root, Getenv: getenv(p.root)}.Queue(), queue.Entry{Class: "later", Text: text, From: "cli"}); err != nil {
					p.Fatal(err)
				}
			}
			p.write(".ralph/queue.md", "# Queue\n\n- m-1 later: one\n- m-2 steer: two\n- m-3 steer: three\n")
			p.write("dirty.txt", "x")
		}, "same session", []string{"interrupted: T-1 door, T-3 wall", "2 messages not delivered", "1 file not committed", "an incomplete last record in .ralph/sessions/session-001-chat/journal.jsonl"}},
		"a message that queue.md does not show yet": {func(p *project) {
			cutChat(p)
			p.own()
			if _, err := queue.Add(p.Context(), ownership.Project{Root: p.root, Getenv: getenv(p.root)}.Queue(), queue.Entry{Class: "later", Text: "one", From: "cli"}); err != nil {
				p.Fatal(err)
			}
			if err := os.RemoveAll(p.path(".ralph/queue.md")); err != nil {
				p.Fatal(err)
			}
		}, "same session", []string{"1 message not delivered"}},
		"the state directory is gone": {func(p *project) {
			p.write("RALPH_TASKS.md", "- [~] **T-1** door\n")
			p.write("RALPH_PROGRESS.md", "# Progress\n\n## 2026-11-21 10:02 UTC — mend the wall\n\n- Status: interrupted\n\n## 2026-11-21 09:00 UTC — old\n\n- Status: completed\n")
		}, "fresh from state", []string{"fresh from state: there is no .ralph directory", "interrupted: T-1 door"}},
		"only progress tells": {func(p *project) {
			p.write("RALPH_PROGRESS.md", "## 2026-11-21 10:02 UTC — mend the wall\n\n- Status: interrupted\n")
		}, "fresh from state", []string{"RALPH_PROGRESS.md says interrupted: mend the wall"}},
		"metadata and journal in ruins": {func(p *project) {
			cutChat(p)
			p.write(".ralph/sessions/session-001-chat/session-metadata.yaml", "a: [b")
			p.write(".ralph/sessions/session-001-chat/journal.jsonl", "\x00\x00\n{}\nnull\n[1]\n\xff")
		}, "same session", []string{"note: session 001: its metadata cannot be read"}},
		"a one-shot was cut off": {func(p *project) {
			cutChat(p)
			p.write(".ralph/runs/r-20261121-110000-aa/journal.jsonl", `{"seq":1,"time":"2026-11-21T11:00:00Z","kind":"message","payload":{"role":"user","text":"paint it"}}`+"\n")
			p.write(".ralph/sessions/session-001-chat/session-metadata.yaml", "session_id: \"001\"\nstatus: completed\n")
		}, "fresh from state", []string{"a one-shot was cut off", "you said last: paint it"}},
		"a reused pid": {func(p *project) {
			cutChat(p)
			note := fmt.Sprintf(`{"pid":%d,"startTime":1,"bootId":"x"}`, os.Getpid())
			p.write(".ralph/lock", note)
			p.write(".git/ralph.lock", note)
		}, "same session", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			c.make(p)
			before := p.hash()
			s := p.assess("")
			said := strings.Join(s.Lines(time.Now()), "\n")
			if s.Verdict != c.verdict {
				t.Errorf("verdict %q (%s), want %q", s.Verdict, s.Why, c.verdict)
			}
			for _, want := range c.lines {
				if !strings.Contains(said, want) {
					t.Errorf("what is said lacks %q:\n%s", want, said)
				}
			}
			if (c.verdict == "") != (said == "") {
				t.Errorf("said:\n%s", said)
			}
			if p.hash() != before {
				t.Error("looking changed something")
			}
		})
	}
}

// Whatever stands in the place of what is read, there is an answer, soon.
func TestAssessAmongRuins(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	places := []string{"RALPH_TASKS.md", "RALPH_PROGRESS.md", ".ralph/queue.md", ".ralph/lock", ".git/ralph.lock", ".ralph/runs",
		".ralph/sessions/session-001-chat/journal.jsonl", ".ralph/sessions/session-001-chat/session-metadata.yaml", ".ralph/sessions", ".ralph",
		".ralph/sessions/session-001-chat/execution-log.json", ".ralph/sessions/session-001-chat/agents/a/journal.jsonl", ".ralph/runs/r-1/journal.jsonl",
		".ralph/changes.jsonl", ".ralph/queue.jsonl", ".ralph/runs.jsonl", ".ralph/saved.json", ".ralph/FORMAT", ".ralph/id", "AGENT.md", "RALPH_TODO.md"}
	sparse := func(size int64) func(string) error {
		return func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, size)) }
	}
	for what, put := range map[string]func(string) error{
		"a directory":   func(path string) error { return os.Mkdir(path, 0o755) },
		"a pipe":        func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"a broken link": func(path string) error { return os.Symlink("nowhere", path) },
		"no end":        func(path string) error { return os.Symlink("/dev/zero", path) },
		"95 MB of NUL":  sparse(95 << 20),
		"20 GiB":        sparse(20 << 30),
		"noise":         func(path string) error { return os.WriteFile(path, noise, 0o644) },
		"nothing in it": func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"not readable":  func(path string) error { return os.WriteFile(path, []byte("x"), 0) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, place := range places {
				p := newProject(t)
				cutChat(p)
				p.write(".ralph/runs/r-1/journal.jsonl", "{}\n")
				p.write("RALPH_TASKS.md", "- [~] **T-1** door\n")
				if err := errors.Join(os.RemoveAll(p.path(place)), os.MkdirAll(filepath.Dir(p.path(place)), 0o755), put(p.path(place))); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				s := p.assess("")
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s: took %v", place, took)
				}
				if s.Verdict != "same session" && s.Verdict != "fresh from state" {
					t.Errorf("%s: verdict %q", place, s.Verdict)
				}
			}
		})
	}
}

func TestAssessOfALiveRalph(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	cutChat(p)
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Skip(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	note := fmt.Sprintf(`{"pid":%d,"startTime":%s,"bootId":%q,"hostname":"h","acquiredAt":"2026-11-21T10:02:00Z","kind":"chat"}`, os.Getpid(), fields[19], strings.TrimSpace(string(boot)))
	p.write(".git/ralph.lock", note)
	s := p.assess("")
	if s.Verdict != "refused" || s.Ended != "running" || !strings.Contains(s.Why, fmt.Sprintf("pid %d", os.Getpid())) || len(s.Lines(time.Now())) != 1 {
		t.Errorf("situation %+v", s)
	}
}

func TestAssessOfAnUnknownSession(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	if _, err := recovery.Assess(t.Context(), recovery.Options{Project: ownership.Project{Root: p.root}, Session: "042"}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// A turn that was cut off can be undone, with git and without, once and in
// order; what git commands of ours left is swept.
func TestUndoOfATurnThatWasCutOff(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *project){"git": withGit, "no git": func(*testing.T, *project) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bareProject(t, calls(shell("echo one > a.txt")), text("done"), calls(shell("echo two > a.txt")), text("done"))
			prepare(t, p)
			p.session = "new"
			c := p.open()
			for range 2 {
				p.want(c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
			}
			p.shut(c)
			// As if the second turn had been killed before its last checkpoint.
			store := filepath.Join(identity.CheckpointDir(identity.Home(getenv(p.root)), p.root), "files.git")
			p.git("--git-dir="+store, "update-ref", "-d", "refs/checkpoints/r-1/2.after")
			lock := ".git/refs/ralph/base/one.lock"
			if name == "git" {
				p.write(lock, "")
			}
			p.dead("r-1")
			s := p.assess("")
			if len(s.Turns) > 1 || s.Verdict != "" && len(s.Turns) != 1 {
				t.Errorf("turns %q", s.Turns)
			}
			o := p.options()
			o.NoModel, o.Session = true, ""
			c, err := coordinator.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer p.shut(c)
			if _, err := os.Stat(p.path(lock)); err == nil && name == "git" {
				t.Error("a stale lock stays")
			}
			for _, want := range []string{"one\n", ""} {
				if _, err := c.Undo(t.Context(), 1, nil); err != nil {
					t.Fatal(err)
				}
				if got := p.read("a.txt"); got != want {
					t.Errorf("a.txt reads %q, want %q", got, want)
				}
			}
		})
	}
}

// Tasks of a dead holder become interrupted when work is taken up, and only
// then.
func TestTasksOfADeadHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		session string
		dead    bool
		want    string
	}{"a chat": {"new", true, "interrupted"}, "the same session": {"last", true, "interrupted"}, "a one-shot": {"", true, "in_progress"}, "an orderly end": {"new", false, "in_progress"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			cutChat(p)
			p.write("RALPH_TASKS.md", "- [ ] **T-1** door\n  - status: in_progress\n")
			if !c.dead {
				p.write(".ralph/lock", "")
				p.write(".git/ralph.lock", "")
				p.write(".ralph/sessions/session-001-chat/session-metadata.yaml", "session_id: \"001\"\nstatus: completed\n")
			}
			o := p.options()
			s := p.assess("")
			o.Session = c.session
			if o.Session != "" {
				o.Recovery = &s
			}
			co, err := coordinator.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			p.shut(co)
			p.wantFile("RALPH_TASKS.md", "status: "+c.want)
		})
	}
}
