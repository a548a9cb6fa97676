package tools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fakeCrew remembers what it was asked.
type fakeCrew struct {
	mu     sync.Mutex
	asked  []any
	answer string
	err    error
}

type asked struct{ What, ID, Text string }

func (c *fakeCrew) ask(v any) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, v)
	return c.answer, c.err
}

func (c *fakeCrew) Spawn(_ context.Context, list []SpawnAgent) (string, error) { return c.ask(list) }
func (c *fakeCrew) Status(ctx context.Context, id string, wait time.Duration) (string, bool, error) {
	answer, err := c.ask(asked{"status", id, wait.String()})
	if wait == 0 {
		return answer, false, err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return answer, true, err
	case <-ctx.Done():
		return answer, true, context.Cause(ctx)
	}
}
func (c *fakeCrew) Message(_ context.Context, id, text string) (string, error) {
	return c.ask(asked{"message", id, text})
}
func (c *fakeCrew) Stop(_ context.Context, id, reason string) (string, error) {
	return c.ask(asked{"stop", id, reason})
}
func (c *fakeCrew) Merge(_ context.Context, id string) (string, error) {
	return c.ask(asked{"merge", id, ""})
}

func crewBench(t *testing.T) (*bench, *fakeCrew) {
	t.Helper()
	c := &fakeCrew{answer: "noted"}
	return newBench(t, func(e *Env) {
		e.Crew = c
		e.SetMode = func(_ context.Context, mode string) (string, error) { return c.ask(asked{"mode", mode, ""}) }
	}), c
}

func TestSpawnAgents(t *testing.T) {
	long := strings.Repeat("long name ", 9)
	for _, c := range []struct {
		name string
		args string
		want []SpawnAgent
	}{
		{"one", `{"agents":[{"task":"do it"}]}`, []SpawnAgent{{Task: "do it"}}},
		{"one object", `{"agents":{"task":"do it","name":"x"}}`, []SpawnAgent{{Task: "do it", Name: "x"}}},
		{"one text", `{"agents":"do it"}`, []SpawnAgent{{Task: "do it"}}},
		{"texts", `{"agents":["do it","do that"]}`, []SpawnAgent{{Task: "do it"}, {Task: "do that"}}},
		{"encoded twice", `{"agents":"[{\"task\":\"do it\"}]"}`, []SpawnAgent{{Task: "do it"}}},
		{"other names", `{"tasks":[{"prompt":"do it","title":"Do it!","depends_on":"y","description":"x"}]}`,
			[]SpawnAgent{{Task: "do it", Name: "do_it", After: []string{"y"}}}},
		{"description", `{"agents":[{"description":"do it"}]}`, []SpawnAgent{{Task: "do it"}}},
		{"after as text", `{"agents":[{"task":"a","name":"a"},{"task":"b","name":"b","after":"a"}]}`,
			[]SpawnAgent{{Task: "a", Name: "a"}, {Task: "b", Name: "b", After: []string{"a"}}}},
		{"after as one list in a text", `{"agents":[{"task":"a","name":"a"},{"task":"b","name":"b"},{"task":"c","after":"a, @b,old-1"}]}`,
			[]SpawnAgent{{Task: "a", Name: "a"}, {Task: "b", Name: "b"}, {Task: "c", After: []string{"a", "b", "old-1"}}}},
		{"names are made", `{"agents":[{"task":"a","name":"Add Größe, v2"},{"task":"b","after":["Add Größe, v2","add_gr_e_v2",""]}]}`,
			[]SpawnAgent{{Task: "a", Name: "add_gr_e_v2"}, {Task: "b", After: []string{"add_gr_e_v2"}}}},
		{"paths and options", `{"agents":[{"task":"a","name":"../../.git/--x; rm"}]}`, []SpawnAgent{{Task: "a", Name: "git_x_rm"}}},
		{"long name", `{"agents":[{"task":"a","name":"` + long + `"}]}`, []SpawnAgent{{Task: "a", Name: "long_name_long_name_long_name_long_name"}}},
		{"forward", `{"agents":[{"task":"a","name":"a","after":["b"]},{"task":"b","name":"b"}]}`,
			[]SpawnAgent{{Task: "a", Name: "a", After: []string{"b"}}, {Task: "b", Name: "b"}}},
		{"all fields", `{"agents":[{"task":"a","check":" go test ","files":["*.go",""]}]}`, []SpawnAgent{{Task: "a", Check: "go test", Files: []string{"*.go"}}}},
		{"diamond", `{"agents":[{"task":"d","name":"d","after":["b","c"]},{"task":"b","name":"b","after":"a"},{"task":"c","name":"c","after":"a"},{"task":"a","name":"a"}]}`,
			[]SpawnAgent{{Task: "d", Name: "d", After: []string{"b", "c"}}, {Task: "b", Name: "b", After: []string{"a"}}, {Task: "c", Name: "c", After: []string{"a"}}, {Task: "a", Name: "a"}}},
	} {
		b, crew := crewBench(t)
		r, err := b.tool("spawn_agents").Run(t.Context(), json.RawMessage(c.args))
		if err != nil || r.Text != "noted" || r.Failed {
			t.Errorf("%s: %+v %v", c.name, r, err)
			continue
		}
		if d := cmp.Diff([]any{c.want}, crew.asked, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestSpawnAgentsRefuses(t *testing.T) {
	many := `{"agents":[` + strings.TrimSuffix(strings.Repeat(`{"task":"x"},`, 51), ",") + `]}`
	for _, c := range []struct{ name, args, want string }{
		{"nothing", `{}`, `missing field "agents"`},
		{"none", `{"agents":[]}`, "agents is empty"},
		{"null", `{"agents":[null]}`, "agents is empty"},
		{"no task", `{"agents":[{"name":"x"}]}`, `missing field "agents[0].task"`},
		{"empty task", `{"agents":[{"task":"a"},{"task":" \n","name":"x"}]}`, "agents[1] (x): the task is empty"},
		{"too many", many, "51 agents in one call; 50 are allowed"},
		{"same name", `{"agents":[{"task":"a","name":"fix it"},{"task":"b"},{"task":"c","name":"Fix-It"}]}`, "agents[0] and agents[2] are both named fix_it"},
		{"no name left", `{"agents":[{"task":"a","name":"認証"}]}`, "a name is made of a-z, 0-9 and _"},
		{"itself", `{"agents":[{"task":"a","name":"a","after":"a"}]}`, "a cannot be after itself"},
		{"itself by another spelling", `{"agents":[{"task":"a","name":"a b","after":["A-B"]}]}`, "a_b cannot be after itself"},
		{"cycle", `{"agents":[{"task":"x","name":"x","after":"a"},{"task":"a","name":"a","after":"b"},{"task":"b","name":"b","after":["c"]},{"task":"c","name":"c","after":["old","a"]}]}`,
			"a after b after c after a"},
		{"huge task", `{"agents":[{"task":"` + strings.Repeat("x", 100_001) + `"}]}`, "100001 bytes; 100000 are allowed"},
		{"NUL", `{"agents":[{"task":"a\u0000b"}]}`, "NUL byte"},
		{"NUL in the check", `{"agents":[{"task":"a","check":"go\u0000"}]}`, "NUL byte"},
		{"unknown field", `{"agents":[{"task":"a","model":"big"}]}`, `unknown field "agents[0].model"`},
		{"number", `{"agents":[{"task":"a","after":[{}]}]}`, `field "agents[0].after[0]": want a string`},
	} {
		b, crew := crewBench(t)
		r, err := b.tool("spawn_agents").Run(t.Context(), json.RawMessage(c.args))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(crew.asked) > 0 || !r.Failed {
			t.Errorf("%s: %+v %.300v %v", c.name, r, err, crew.asked)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
	}
}

// Whatever names and orders come in, what goes out keeps the promises of
// SpawnAgent, and what is refused for a cycle has one.
func FuzzSpawnAgents(f *testing.F) {
	f.Add("a:b,c;b:;c:b")
	f.Add("x:y;y:z;z:x")
	f.Add("A b:@a-b, q;😀:;:::")
	f.Fuzz(func(t *testing.T, text string) {
		var given []SpawnAgent
		for part := range strings.SplitSeq(text, ";") {
			name, after, _ := strings.Cut(part, ":")
			given = append(given, SpawnAgent{Name: name, Task: "x", After: strings.Split(after, "/")})
		}
		list, err := checkSpawn(given)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, a := range list {
			if strings.Trim(a.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || len(a.Name) > maxNameBytes || a.Name != "" && names[a.Name] {
				t.Fatalf("name %q of %q", a.Name, text)
			}
			names[a.Name] = true
		}
		// Those that wait for nobody are taken away until none is left.
		left := slices.Clone(list)
		for len(left) > 0 {
			next := slices.DeleteFunc(slices.Clone(left), func(a SpawnAgent) bool {
				return !slices.ContainsFunc(a.After, func(name string) bool {
					return slices.ContainsFunc(left, func(o SpawnAgent) bool { return o.Name == name })
				})
			})
			if len(next) == len(left) {
				t.Fatalf("a cycle was let through: %q", text)
			}
			left = next
		}
	})
}

func TestCrewTools(t *testing.T) {
	for _, c := range []struct {
		tool string
		args []any
		want any
	}{
		{"agent_status", nil, asked{"status", "", "0s"}},
		{"agent_status", []any{"id", " @parser "}, asked{"status", "parser", "0s"}},
		{"agent_status", []any{"id", nil, "wait_seconds", "0.001"}, asked{"status", "", "1ms"}},
		{"message_agent", []any{"id", "parser", "text", "hello"}, asked{"message", "parser", "hello"}},
		{"message_agent", []any{"to", "@parser", "message", "hello"}, asked{"message", "parser", "hello"}},
		{"stop_agent", []any{"id", "parser"}, asked{"stop", "parser", ""}},
		{"stop_agent", []any{"agent_id", "parser", "reason", "enough"}, asked{"stop", "parser", "enough"}},
		{"merge_agent", []any{"id", "parser"}, asked{"merge", "parser", ""}},
		{"set_mode", []any{"mode", "Autonomous", "reason", "agreed"}, asked{"mode", "autonomous", ""}},
	} {
		b, crew := crewBench(t)
		if r := b.run(c.tool, c.args...); r.Text != "noted" || r.Brief != "noted" || r.Failed {
			t.Errorf("%s: %+v", c.tool, r)
		}
		if d := cmp.Diff([]any{c.want}, crew.asked); d != "" {
			t.Errorf("%s: %s", c.tool, d)
		}
		crew.err = errors.New("no agent x; there are: parser, cli")
		if r, err := b.try(c.tool, c.args...); err == nil || !strings.Contains(err.Error(), "there are: parser, cli") || r.Text != "noted" {
			t.Errorf("%s: %+v %v", c.tool, r, err)
		}
	}
	b, crew := crewBench(t)
	for _, c := range []struct {
		tool, want string
		args       []any
	}{
		{"agent_status", "at most 600", []any{"wait_seconds", 601}},
		{"agent_status", "at least 0", []any{"wait_seconds", -1}},
		{"agent_status", "the id is empty", []any{"id", "@"}},
		{"message_agent", "the text is empty", []any{"id", "x", "text", " "}},
		{"message_agent", "the id is empty", []any{"id", " ", "text", "x"}},
		{"message_agent", "100001 bytes", []any{"id", "x", "text", strings.Repeat("x", 100_001)}},
		{"stop_agent", `missing field "id"`, nil},
		{"merge_agent", "the id is empty", []any{"id", ""}},
		{"merge_agent", "is none", []any{"id", strings.Repeat("x", 1<<20)}},
		{"set_mode", "want one of conversation, autonomous", []any{"mode", "yolo"}},
	} {
		if r, err := b.try(c.tool, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%s %v: %+v %v", c.tool, c.args, r, err)
		}
	}
	if len(crew.asked) > 0 {
		t.Errorf("asked for what is not valid: %v", crew.asked)
	}
}

// A long report of the crew is cut like any other result, and kept whole.
func TestCrewAnswerIsBounded(t *testing.T) {
	b, crew := crewBench(t)
	crew.answer = strings.Repeat("parser\trunning\n", 5000) + "caf\xe9"
	r := b.run("agent_status")
	if len(r.Text) > defaultOutputBytes || !strings.Contains(r.Head, "all of it: .ralph/out/1-agent_status.txt") || !utf8.ValidString(r.Text) {
		t.Errorf("%d bytes, %q", len(r.Text), r.Head)
	}
}

func TestAgentStatusEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(&Env{Crew: &fakeCrew{answer: "two running"}})
		ctx, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, func() { cancel(errors.New("urgent")) })
		r, err := b.agentStatus().tool(schemaTexts()["agent_status"]).Run(ctx, json.RawMessage(`{"wait_seconds":600}`))
		if took := time.Since(began); took != time.Second || err == nil || !strings.Contains(err.Error(), "urgent") || r.Text != "two running" {
			t.Errorf("after %v: %+v %v", took, r, err)
		}
	})
}
