package repl

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/repl/ttytest"
	"ralph/workers/agent"
)

// team gives the fake two children at work and one of an earlier session; what is
// at work is part of Live, as with the real one.
func (f *fake) team() {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := time.Now().Add(-65 * time.Second)
	working := []crew.Agent{
		{ID: "auth", Parent: "ralph", Depth: 1, Task: "add the login form", Label: "add the login form", State: crew.Running, Since: since, Doing: "edit auth.go", Turns: 3, Usage: agent.Usage{Total: 9000}, Branch: "refs/heads/ralph/auth"},
		{ID: "docs", Parent: "ralph", Depth: 1, Task: "describe it", Label: "describe it", State: crew.Waiting, Since: since, After: []string{"auth"}},
		{ID: "style", Parent: "ralph", Depth: 1, Task: "format", Label: "format", State: crew.Done, Since: since, Ended: since.Add(9 * time.Second), Result: "formatted", Branch: "ralph/style", Landing: crew.Merged},
	}
	f.live.Agents = append([]crew.Agent{{ID: "ralph", State: crew.Running, Since: since}, {ID: "ask m-1", Parent: "ralph", Depth: 1, State: crew.Running}}, working...)
	f.crew = append(working, crew.Agent{ID: "old", Parent: "ralph", Depth: 1, Task: "an old task", Label: "an old task", State: crew.Interrupted, Branch: "ralph/old", Problem: "Ralph ended"})
}

// alone takes the children away again.
func (f *fake) alone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live.Agents = nil
}

// leading works with a team until it is stopped.
func leading(ctx context.Context, f *fake, _ string) result.Outcome {
	f.team()
	defer f.alone()
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Agent: "ralph", Turn: 1})
	f.link.Eyes(agent.Event{Type: agent.EventChildStart, Agent: "auth", Text: "add the login form", Reason: "ralph", Ref: "refs/heads/ralph/auth"})
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Agent: "auth", Turn: 1})
	f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Agent: "auth", Text: "SECRET THOUGHTS of a child\n\n"})
	f.link.Eyes(agent.Event{Type: agent.EventToolStart, Agent: "auth", Tool: "shell", CallID: "1"})
	<-ctx.Done()
	return result.Outcome{}
}

// wide opens a chat on a terminal of that size.
func wide(t *testing.T, cols, rows int, turn turnFunc, change ...func(*Options)) *chat {
	t.Helper()
	c := open(t, turn, change...)
	c.idle()
	c.Resize(cols, rows)
	c.Type("\x0c ")
	c.Has("❯  ▏")
	c.Type("\x15")
	return c
}

func TestAgentsInTheChat(t *testing.T) {
	c := wide(t, 80, 34, leading)
	c.Type("/agents\r")
	c.Has("in parallel")
	c.Type("\x0cwork\r")
	c.Has("auth begins: add the login form")
	s := c.Until("who is at work", func(s string) bool {
		return strings.Contains(s, "2 agents") && strings.Contains(s, "auth  edit auth.go · 1m")
	})
	if strings.Contains(s, "SECRET") || strings.Contains(s, "shell") {
		t.Errorf("what a child says and does is in the conversation:\n%s", s)
	}
	c.Type("\x0c/agents\r")
	c.Has("└─ old")
	c.Type("/agents auth\r")
	c.Has("git diff HEAD...ralph/auth")
	c.Type("/agents auht\r")
	c.Has("did you mean auth?")
	c.Type("/diff auth\r")
	c.Has("+++ b/auth")
	c.Type("half")
	golden(t, "agents", strings.NewReplacer("1m06s", "1m05s", "1m07s", "1m05s", "1m08s", "1m05s").Replace(c.Has("❯ half▏")))
	c.Type("\x03")
	c.Has("talk ❯ half▏")
	c.Lacks("2 agents ❯")
	c.Type("\x03\x04")
	c.left(0)
}

// A line can be for one child, which a file mention at its beginning is not.
func TestSpeakingToAnAgent(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(root+"/Makefile", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, leading, func(o *Options) {
		before := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) {
			m, err := before(ctx, l)
			m.Turns.(*fake).root = root
			return m, err
		}
	})
	c.idle()
	c.Type("work\r")
	c.Has("2 agents")
	for _, step := range []struct{ line, want string }{
		{"@auth: use tabs", "steer auth use tabs"},
		{"/now @auth: stop that", "urgent auth stop that"},
		{"/later @docs: and in German", "later docs and in German"},
		{"@auth use tabs", "steer - @auth use tabs"},
		{"@main.go: what is this", "steer - @main.go: what is this"},
		{"@Makefile: what is this", "steer - @Makefile: what is this"},
		{"@repl/x: why", "steer - @repl/x: why"},
		{"@http://x", "steer - @http://x"},
		{"@ralph: hello", "steer - @ralph: hello"},
	} {
		c.Type("\x0c" + step.line + "\r")
		c.waits(step.want)
	}
	n := len(c.f.Waiting())
	for _, step := range []struct{ line, want string }{
		{"@auht: hello", "did you mean auth?"},
		{"@nobody_of_that_name: hello", "there are: auth, docs, style, old"},
		{"@auth:", "needs what you want to say"},
		{"@style: hello", "/resume style goes on with it"},
		{"/now @old: hello", "old is interrupted"},
	} {
		c.Type("\x0c" + step.line + "\r")
		c.Has(step.want)
	}
	if got := len(c.f.Waiting()); got != n {
		t.Errorf("%d messages wait, want %d", got, n)
	}
	c.Type("\x0c\x03")
	c.Until("what was not sent", func(s string) bool {
		return strings.Contains(s, "❯ /now @auth: stop that") || strings.Contains(s, "@auth: use tabs")
	})
	c.Type("\x03\x04")
	c.left(0)
}

// waits until a message of that class, receiver and text is in the queue.
func (c *chat) waits(want string) {
	c.t.Helper()
	late := time.After(ttytest.Patience)
	for {
		var got []string
		for _, m := range c.f.Waiting() {
			to := m.To
			if to == "" {
				to = "-"
			}
			got = append(got, m.Class.String()+" "+to+" "+m.Text)
		}
		if strings.Contains(strings.Join(got, "\n")+"\n", want+"\n") {
			return
		}
		select {
		case <-late:
			c.t.Fatalf("%q is not in the queue:\n%s\nthe screen is\n%s", want, strings.Join(got, "\n"), c.Screen())
		case <-time.After(time.Millisecond):
		}
	}
}

// What agents left behind is merged by name, and removed only after a yes.
func TestMergeAndPrune(t *testing.T) {
	c := open(t, echo)
	c.idle()
	c.f.team()
	c.f.alone()
	c.Type("/agents merge old\r")
	c.Has("old is merged: 1 file")
	c.Type("\x0c/agents prune\r")
	c.Has("style (done): its work is merged")
	c.Type("\r")
	c.Has("nothing was removed")
	c.Type("\x0c/agents prune old\r")
	c.Has("its work is NOT merged and is lost")
	c.Has("answer [no] ?")
	c.Type("yes\r")
	c.Has("removed: old")
	c.Type("\x0c/agents prune auth\r")
	c.Has("/stop auth stops it first")
	c.Type("\x0c/agents prune x\r")
	c.Has(`there is no agent "x"`)
	c.Type("\x04")
	c.left(0)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if strings.Join(c.f.pruned, " ") != "old" || strings.Join(c.f.merged, " ") != "old" {
		t.Errorf("removed %v, merged %v", c.f.pruned, c.f.merged)
	}
}

func TestInterruptedAgentsAreMentioned(t *testing.T) {
	c := open(t, echo, func(o *Options) {
		before := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) {
			m, err := before(ctx, l)
			m.Turns.(*fake).team()
			m.Turns.(*fake).alone()
			return m, err
		}
	})
	c.Has("1 agent was interrupted: old; /agents shows")
	c.idle()
	c.Type("/resume o\t\r")
	c.began(1)
	c.idle()
	c.Type("\x04")
	c.left(0)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if j := c.f.jobs[0]; j.Agent != "old" || !j.Go {
		t.Errorf("%+v", j)
	}
}

func TestCompletion(t *testing.T) {
	c := open(t, leading)
	c.idle()
	c.Type("work\r")
	c.Has("2 agents")
	for _, step := range []struct{ keys, want string }{
		{"@au\t", "❯ @auth: ▏"},
		{"/stop au\t", "❯ /stop auth▏"},
		{"/now @d\t", "❯ /now @docs: ▏"},
		{"/agents \t", "auth  docs  style  merge"},
		{"/ag\t", "❯ /agents ▏"},
		{"/diff s\t", "❯ /diff style▏"},
		{"say au\t", "❯ say au▏"},
		{"see @au\t", "❯ see @au▏"},
	} {
		c.Type(step.keys)
		c.Has(step.want)
		c.Type("\x05\x15")
		c.Has("❯ ▏")
	}
	c.Lacks("merge  prune")
	c.Type("\x03")
	c.Has("talk ❯ ▏")
	c.Type("\x04")
	c.left(0)
}

// asks puts a permission of a child to the user when it is told to, once its
// terminal has painted nothing else.
func asks(release <-chan struct{}, answers chan<- string) turnFunc {
	return func(ctx context.Context, f *fake, _ string) result.Outcome {
		f.say(1, "working")
		for range release {
			a, err := f.link.Ask(ctx, permission.Question{Kind: "permission", Agent: "fix_login", Tool: "shell", Rule: "push always asks", Dir: "/p/web",
				Target: "git push origin main", Text: "?", Options: []string{"no", "yes"}})
			if err != nil {
				return result.Outcome{}
			}
			answers <- a
		}
		return result.Outcome{}
	}
}

// answered waits for the answer.
func (c *chat) answered(answers <-chan string) string {
	c.t.Helper()
	select {
	case got := <-answers:
		return got
	case <-time.After(ttytest.Patience):
		c.t.Fatalf("no answer came; the screen is\n%s", c.Screen())
		return ""
	}
}

// TestTypeAheadIsNoAnswer: what was typed before the question was on the screen
// does not answer it, and is not lost; half an answer to one question is none to
// the next.
func TestTypeAheadIsNoAnswer(t *testing.T) {
	release, answers := make(chan struct{}), make(chan string)
	c := open(t, asks(release, answers))
	c.idle()
	c.Type("work\r")
	c.Has("working")
	for i := range 20 {
		c.Type("yes")
		c.Has("❯ yes▏")
		release <- struct{}{}
		if s := c.Has("answer [no] ? ▏"); i == 0 {
			golden(t, "dialog", s)
		}
		c.Type("\r")
		if got := c.answered(answers); got != "no" {
			t.Fatalf("what was typed before answered %q", got)
		}
		c.Has("❯ yes▏")
		c.Type("\x15\x0c")
		c.Has("❯ ▏")
	}
	// A whole line, typed in the very moment: it is said to Ralph, or, when it was
	// typed after the question was seen, it is the answer.
	for i := range 20 {
		queued := fmt.Sprintf("%d queued", i+1)
		c.Type("yes\r") // is read as a whole: once anything of it is seen, all was typed
		c.Until("a sign of the line", func(s string) bool { return strings.Contains(s, "❯ yes▏") || strings.Contains(s, queued) })
		release <- struct{}{}
		c.Has("answer [no] ? ▏")
		c.Type("\r")
		if got := c.answered(answers); got != "no" {
			t.Fatalf("a line that was typed before answered %q", got)
		}
		c.Has("❯ ▏")
		c.Type("\x0c")
	}
	release <- struct{}{}
	c.Has("answer [no] ? ▏")
	c.Type("yes\r")
	if got := c.answered(answers); got != "yes" {
		t.Errorf("the answer is %q", got)
	}
	close(release)
	c.idle()
	c.Type("\x04")
	c.left(0)
}

// The loop may see the question before it sees a line that was typed before: the
// line is no answer all the same.
func TestALineFromBeforeTheQuestion(t *testing.T) {
	release, answers := make(chan struct{}), make(chan string, 1)
	c := open(t, asks(release, answers))
	c.idle()
	c.Type("work\r")
	c.Has("working")
	c.f.mu.Lock()
	c.Type("/cost\r") // which asks the fake: the loop is held up while the line comes
	c.Has("\n❯ /cost\n")
	c.Type("yes")
	c.Has("❯ yes▏")
	c.Type("\r")
	c.Lacks("❯ yes▏")
	release <- struct{}{}
	time.Sleep(20 * time.Millisecond) // the question is posted
	c.f.mu.Unlock()
	c.Has("answer [no] ? ▏")
	select {
	case got := <-answers:
		t.Fatalf("the line from before answered %q", got)
	default:
	}
	c.Has("queued: yes")
	c.Type("\r")
	if got := c.answered(answers); got != "no" {
		t.Errorf("answered %q", got)
	}
	close(release)
	c.idle()
	c.Type("\x04")
	c.left(0)
}

// On a plain terminal, too, the lines that were typed before are none.
func TestPlainTypeAheadIsNoAnswer(t *testing.T) {
	release, answers := make(chan struct{}), make(chan string, 1)
	c := open(t, asks(release, answers), func(o *Options) { o.Plain = true })
	c.Has("ralph> ▏")
	c.Type("work\r")
	c.Has("- working\nworking\n") // the shell's word, and the model's
	c.Type("ye")                  // stands in the terminal's own line
	c.Has("ye▏")
	release <- struct{}{}
	c.Has("where  /p/web")
	c.Has("? ▏")
	c.Type("\r")
	if got := c.answered(answers); got != "no" {
		t.Errorf("answered %q", got)
	}
	close(release)
	c.Has("ralph> ▏") // the turn has ended
	c.Type("/exit\r")
	c.left(0)
}
