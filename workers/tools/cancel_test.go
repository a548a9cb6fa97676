package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
	"ralph/workers/git"
)

// endBound is how soon a tool has to return after its context ended. It bears a
// busy machine and the race detector, and is no measurement: what does not look at
// its context goes on to its end, which the error says, or waits for longer.
const endBound = 10 * time.Second

const commandBound = endBound

// The sync of a file cannot be interrupted; how long it takes is the disk's own.
const diskBound = 20 * time.Second

// slow is one thing that takes a tool long.
type slow struct {
	name  string
	tool  string
	args  []any
	bound time.Duration
	// after is when the context ends; 0 means 30 ms.
	after time.Duration
	// quick marks work that a fast machine may have done by then.
	quick bool
	setup func(b *bench)
}

// TestEveryToolEndsWithItsContext ends the context of each tool in the middle of
// what takes it longest.
func TestEveryToolEndsWithItsContext(t *testing.T) {
	stall := newStall(t)
	cases := []slow{
		{name: "grep a tree", tool: "grep", args: []any{"pattern", "[a-q][^u-z]{13}x"}, quick: true, setup: manyFiles},
		{name: "grep one huge line", tool: "grep", args: []any{"pattern", "[a-q][^u-z]{13}x"}, setup: hugeLine},
		{name: "grep a huge file", tool: "grep", args: []any{"pattern", "[a-q][^u-z]{13}x", "path", "huge"}, setup: hugeFile},
		{name: "grep a huge file with CRLF", tool: "grep", args: []any{"pattern", "[a-q][^u-z]{13}x", "path", "huge"}, setup: hugeCRLF},
		{name: "grep with braces", tool: "grep", args: []any{"pattern", "x", "glob", strings.Repeat("{a,a}", 60) + "b"}, quick: true, setup: longName},
		{name: "glob with braces", tool: "glob", args: []any{"pattern", strings.Repeat("{a,a}", 60) + "b"}, quick: true, setup: longName},
		{name: "glob with many stars", tool: "glob", args: []any{"pattern", strings.Repeat("**/a/", 60) + "b"}, quick: true, setup: deepTree},
		{name: "glob with stars in a name", tool: "glob", args: []any{"pattern", strings.Repeat("*a", 80) + "b"}, quick: true, setup: longName},
		{name: "glob a tree", tool: "glob", args: []any{"pattern", "**/*"}, quick: true, after: 3 * time.Millisecond, setup: manyFiles},
		{name: "list a tree", tool: "list", args: []any{"depth", 9}, quick: true, after: 3 * time.Millisecond, setup: manyFiles},
		{name: "read one endless line", tool: "read", args: []any{"path", "sparse"}, setup: sparseFile},
		{name: "read the end of a large file", tool: "read", args: []any{"path", "huge", "offset", 1 << 30}, quick: true, after: 3 * time.Millisecond, setup: hugeFile},
		{name: "edit a large file", tool: "edit", args: []any{"path", "huge", "old_string", "nowhere\nto be\nfound", "new_string", "x"}, quick: true, setup: hugeFile},
		{name: "edit with replace_all", tool: "edit", args: []any{"path", "huge", "old_string", "e", "new_string", "E", "replace_all", true}, quick: true, bound: diskBound, setup: hugeFile},
		{name: "edit in many places", tool: "edit", args: []any{"path", "lines", "old_string", "x", "new_string", "y", "replace_all", true}, quick: true, bound: diskBound, setup: shuffled},
		{name: "edit that misses", tool: "edit", args: []any{"path", "lines", "old_string", strings.Repeat("some words which are not in it\n", 300), "new_string", "y"}, quick: true, setup: shuffled},
		{name: "write a large file", tool: "write", args: []any{"path", "huge", "content", strings.Repeat("other\n", 1<<20)}, quick: true, bound: diskBound, setup: hugeFile},
		{name: "shell", tool: "shell", args: []any{"command", "sleep 60"}, bound: commandBound},
		{name: "shell that is deaf", tool: "shell", args: []any{"command", "trap '' INT TERM; while :; do sleep 60; done"}, bound: commandBound},
		{name: "shell that floods", tool: "shell", args: []any{"command", "yes"}, bound: commandBound},
		{name: "shell that leaves others", tool: "shell", args: []any{"command", "(setsid sleep 60 &) ; sleep 60 & sleep 60"}, bound: commandBound},
		{name: "shell begins a job", tool: "shell", args: []any{"command", "sleep 60", "background", true}, quick: true},
		{name: "git", tool: "git", args: []any{"action", "status"}, bound: commandBound, setup: slowGit},
		{name: "git commit", tool: "git", args: []any{"action", "commit", "message", "x"}, bound: commandBound, setup: slowGit},
		{name: "fetch without headers", tool: "fetch", args: []any{"url", stall.url("/never")}},
		{name: "fetch a body that trickles", tool: "fetch", args: []any{"url", stall.url("/trickle")}},
		{name: "fetch without a handshake", tool: "fetch", args: []any{"url", "https://" + stall.mute}},
		{name: "fetch a huge page", tool: "fetch", args: []any{"url", stall.url("/page")}, quick: true, after: 60 * time.Millisecond},
		{name: "fetch a page of lists", tool: "fetch", args: []any{"url", stall.url("/lists")}, quick: true, after: 60 * time.Millisecond},
		{name: "ask_user", tool: "ask_user", args: []any{"question", "Which?"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

func (c slow) run(t *testing.T) {
	b := newBench(t, func(e *Env) {
		e.Fetch, e.FetchPrivate = &http.Client{Transport: &http.Transport{}}, true
		e.Ask = func(ctx context.Context, _ Question) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) }
	})
	if c.setup != nil {
		c.setup(b)
	}
	stop := fmt.Errorf("stopped in a test")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	type outcome struct {
		r   agent.Result
		err error
		at  time.Time
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := b.tryCtx(ctx, c.tool, c.args...)
		done <- outcome{r, err, time.Now()}
	}()
	wait := time.NewTimer(cmp.Or(c.after, 30*time.Millisecond))
	defer wait.Stop()
	var o outcome
	select {
	case o = <-done:
		if !c.quick {
			t.Fatalf("it was over before its context ended: %+v, %v", o.r, o.err)
		}
		return
	case <-wait.C:
	}
	began := time.Now()
	cancel(stop)
	bound := c.bound
	if bound == 0 {
		bound = endBound
	}
	select {
	case o = <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	took := o.at.Sub(began)
	t.Logf("returned %v after the end of its context: %v", took.Round(100*time.Microsecond), o.err)
	if took > bound {
		t.Errorf("it took %v, more than %v", took, bound)
	}
	if !c.quick && o.err == nil && !o.r.Failed {
		t.Errorf("it went on to its end: %+v", o.r)
	}
}

// manyFiles is a tree of names for one file: it takes long to walk, and not to
// make.
func manyFiles(b *bench) {
	b.put("d/file", strings.Repeat("the quick brown fox jumps over the lazy dog\n", 200))
	for d := range 30 {
		dir := b.path(fmt.Sprintf("d%d/e", d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		for f := range 40 {
			if err := os.Link(b.path("d/file"), filepath.Join(dir, fmt.Sprint("f", f))); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func hugeLine(b *bench) { b.put("line", strings.Repeat("the quick brown fox ", 16<<20/20-1)) }
func hugeFile(b *bench) { b.put("huge", strings.Repeat("the quick brown fox\n", 15<<20/20)) }
func hugeCRLF(b *bench) { b.put("huge", strings.Repeat("the quick brown fo\r\n", 15<<20/20)) }
func longName(b *bench) { b.put(strings.Repeat("a", 200), "x") }

func deepTree(b *bench) { b.put(strings.Repeat("a/", 100)+"c", "x") }

// shuffled is a file in which lines repeat in many places.
func shuffled(b *bench) {
	var t strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&t, "line %d of x\n", i*7919%997)
	}
	b.put("lines", t.String())
}

// sparseFile is one line of many gigabytes that takes no room on the disk.
func sparseFile(b *bench) {
	b.put("sparse", strings.Repeat("x", sniffBytes+1))
	if err := os.Truncate(b.path("sparse"), 64<<30); err != nil {
		b.t.Skip("the file system has no sparse files: ", err)
	}
}

// slowGit is a repository with a git that never gets anywhere.
func slowGit(b *bench) {
	madeRepository(b)
	bin := b.t.TempDir()
	if err := exectest.WriteProgram(filepath.Join(bin, "git"), []byte("#!/bin/sh\nsleep 60\n"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.useGit()
	b.t.(*testing.T).Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func madeRepository(b *bench) {
	b.commit("init", "-q")
	b.put("a", "x")
	b.commit("add", "a")
	b.commit("-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "a")
	b.commit("config", "user.name", "x")
	b.commit("config", "user.email", "x@example.com")
}

// commit runs git in the project.
func (b *bench) commit(args ...string) {
	b.t.Helper()
	r, err := b.env.Proc.Run(b.t.Context(), exec.Spec{Argv: append([]string{"git", "-C", b.root}, args...)})
	if err != nil || r.ExitCode != 0 {
		b.t.Fatalf("git %v: %v %s", args, err, r.Stdout)
	}
}

func (b *bench) useGit() {
	b.t.Helper()
	loc, err := git.Find(b.root)
	if err != nil {
		b.t.Fatal(err)
	}
	b.env.Git = git.Open(b.env.Proc, loc)
	b.all = All(b.env)
}

// stall is a server that keeps who asks it waiting, and a listener that takes
// connections and says nothing.
type stall struct {
	*httptest.Server
	mute string
}

func (s stall) url(path string) string { return s.URL + path }

func newStall(t *testing.T) stall {
	t.Helper()
	over := make(chan struct{})
	hold := func(r *http.Request, d time.Duration) bool {
		select {
		case <-r.Context().Done():
			return false
		case <-over:
			return false
		case <-time.After(d):
			return true
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/never":
			hold(r, time.Minute)
		case "/trickle":
			for i := 0; hold(r, 5*time.Millisecond); i++ {
				fmt.Fprintf(w, "byte %d\n", i)
				w.(http.Flusher).Flush()
			}
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.Repeat("<p>the <b>quick</b> brown <a href=x>fox</a></p>\n", 5<<20/48))
		case "/lists":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.Repeat("<ul><li><b>x", 400)+strings.Repeat("<li>x", 900_000))
		}
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { <-over; _ = c.Close() })
		}
	})
	t.Cleanup(func() {
		close(over)
		_ = ln.Close()
		srv.Close()
		wg.Wait()
	})
	return stall{Server: srv, mute: ln.Addr().String()}
}

// What is no file is refused without waiting for it, whatever way it was put
// there.
func TestSpecialFilesDoNotHoldATool(t *testing.T) {
	b := newBench(t)
	if err := syscall.Mkfifo(b.path("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fifo", b.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", b.path("zero")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "link", "zero", "/dev/zero", "/dev/stdin"} {
		for tool, more := range map[string][]any{
			"read": nil, "grep": {"pattern", "x"}, "edit": {"old_string", "a", "new_string", "b"}, "write": {"content", "x"},
		} {
			began := time.Now()
			r, err := b.try(tool, append([]any{"path", name}, more...)...)
			if took := time.Since(began); took > endBound || err == nil && !r.Failed {
				t.Errorf("%s %s took %v: %+v, %v", tool, name, took, r, err)
			}
		}
	}
	if r, err := b.try("grep", "pattern", "x"); err != nil {
		t.Errorf("grep of a tree with a FIFO: %+v, %v", r, err)
	}
}

// A change that is stopped before it stands leaves the file as it was, and
// nothing beside it.
func TestAStoppedChangeChangesNothing(t *testing.T) {
	b := newBench(t)
	b.put("f", "old")
	c, err := b.env.Files.load(t.Context(), "write", "f", 100)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := b.env.Files.store(ctx, "write", c, []byte("new")); !errors.Is(err, stop) || b.get("f") != "old" {
		t.Errorf("error %v, the file is %q", err, b.get("f"))
	}
	if list, err := os.ReadDir(b.root); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// Searching in windows and by runes finds what searching at once does.
func TestGrepFindsAcrossWindows(t *testing.T) {
	b := newBench(t)
	filler := strings.Repeat("nothing of interest in this line\n", windowBytes/33+1)
	b.put("a", "needle one\n"+filler+"needle two\n"+filler+filler+"the last needle")
	b.put("b", strings.Repeat("x", 3*windowBytes)+"needle"+strings.Repeat("y", windowBytes)+"\nneedle three\n")
	r := b.run("grep", "pattern", "needle")
	n := countLines(filler)
	for _, want := range []string{"a:1:needle one\n", fmt.Sprintf("a:%d:needle two\n", n+2), fmt.Sprintf("a:%d:the last needle\n", 3*n+3), "b:1:xxx", "b:2:needle three\n"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("no %q in\n%s", want, r.Text)
		}
	}
	if r.Brief != "5 matches" {
		t.Errorf("%s", r.Brief)
	}
	if r := b.run("grep", "pattern", "^needle.*e$|t needle$"); r.Brief != "3 matches" {
		t.Errorf("anchored: %s\n%s", r.Brief, r.Text)
	}
}

func TestExpansionsOfBraces(t *testing.T) {
	for text, want := range map[string]int{
		"a": 1, "{a,b}": 2, "{a,b,c}/{d,e}": 6, "{a,{b,c}d,e}": 4, "{a,{b,c}{d,e}}x{f,g}": 10, `\{a,b`: 1, "{}": 1, "a,b": 1,
		"**/*.{go,md,{c,h}{,pp}}": 6, strings.Repeat("{a,b}", 8): 256, strings.Repeat("{a,b}", 9): 257, strings.Repeat("{a,b}", 90): 257,
	} {
		if got := expansions(text); got != want {
			t.Errorf("%s stands for %d patterns, want %d", text, got, want)
		}
	}
}
