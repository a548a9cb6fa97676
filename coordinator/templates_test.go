package coordinator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v4"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/workers/model/modeltest"
)

// value reads a session file as its JSON values.
func value(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".yaml") {
		var v any
		if err := yaml.Load(data, &v); err != nil {
			t.Fatal(err)
		}
		var n yaml.Node
		if err := yaml.Load(data, &n); err != nil {
			t.Fatal(err)
		}
		texts(t, path, &n)
		if data, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	var o map[string]any
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

// texts reports times that are no texts.
func texts(t *testing.T, path string, n *yaml.Node) {
	t.Helper()
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		t.Errorf("%s: %s is no text", path, n.Value)
	}
	for _, e := range n.Content {
		texts(t, path, e)
	}
}

// shapes compares the keys and JSON types of what was written with those of a
// template.
type shapes struct {
	// null are the keys that may be null: not yet.
	null []string
	// optional are the keys that an entry may lack, and added those that the template
	// does not have.
	optional, added []string
	faults          []string
}

func (s *shapes) compare(at string, want, got any) {
	key := at[strings.LastIndex(at, ".")+1:]
	if got == nil || want == nil {
		if !slices.Contains(s.null, key) {
			s.faults = append(s.faults, fmt.Sprintf("%s is %v, in the template %v", at, got, want))
		}
		return
	}
	if a, b := fmt.Sprintf("%T", want), fmt.Sprintf("%T", got); a != b {
		s.faults = append(s.faults, fmt.Sprintf("%s is %s (%v), in the template %s (%v)", at, b, got, a, want))
		return
	}
	switch want := want.(type) {
	case map[string]any:
		s.object(at, want, got.(map[string]any))
	case []any:
		for i, e := range got.([]any) {
			if _, ok := e.(map[string]any); !ok || len(want) == 0 {
				continue // texts
			}
			s.compare(fmt.Sprintf("%s[%d]", at, i), entry(want), e)
		}
	}
}

func (s *shapes) object(at string, want, got map[string]any) {
	if name := at[strings.LastIndex(at, ".")+1:]; name == "details" || strings.HasPrefix(name, "by_") {
		return // free keys
	}
	for k, v := range want {
		if is, ok := got[k]; ok {
			s.compare(at+"."+k, v, is)
		} else if !slices.Contains(s.optional, k) {
			s.faults = append(s.faults, at+" lacks "+k)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok && !slices.Contains(s.added, k) {
			s.faults = append(s.faults, at+" has "+k)
		}
	}
}

// entry has the keys of all entries of a template's list.
func entry(list []any) map[string]any {
	all := map[string]any{}
	for _, e := range slices.Backward(list) {
		for k, v := range e.(map[string]any) {
			if all[k] == nil || v != nil {
				all[k] = v
			}
		}
	}
	return all
}

const templatePlan = `name: Shop
phases:
  - {id: "1", name: Discovery}
  - {id: "2", name: Writing}
tasks:
  - {task_id: "001", name: Write one, phase: Discovery, description: write it, check: grep -q good one.txt}
  - {task_id: "002", name: Write two, phase: Writing, description: write it, dependencies: ["001"]}
milestones:
  - {name: Discovery Complete, target: "2026-01-19T12:00:00Z"}
  - {name: Shop open, target: all of it}
quality_gates:
  - {name: Enough, metric: tasks_done, operator: ">=", threshold: 2}
  - {name: Built, check: test -e plan.yaml}
circuit_breaker:
  triggers:
    - {condition: errors >= 1, action: alert_and_continue}
`

// The files of a session have the keys and the types of the templates that they come
// from, and their words: after a run with a failed attempt, a breaker, gates,
// milestones and features, and while it works.
func TestSessionFilesHaveTheShapesOfTheirTemplates(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	p.write("plan.yaml", templatePlan)
	k := played(p)
	type object = map[string]any
	list := func(o object, key string) (all []object) {
		for _, e := range o[key].([]any) {
			all = append(all, e.(object))
		}
		return all
	}
	file := func(name string) object {
		dirs, err := filepath.Glob(p.path(".ralph/sessions/session-001-*"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("the sessions are %v %v", dirs, err)
		}
		return value(t, filepath.Join(dirs[0], name))
	}
	begun := make(chan object, 1)
	first := true
	replies := []modeltest.Reply{calls(call("finish", m{"status": "failed", "summary": "no way"})), put("one.txt", "good\n"), finished("mended one.txt")}
	k.always["write_one"] = func(modeltest.Request) modeltest.Reply {
		if first {
			first = false
			begun <- file("progress-tracking.yaml")
		}
		r := replies[0]
		replies = replies[1:]
		return r
	}
	k.part("write_two", calls(call("record_feature", m{"name": "Two", "category": "file", "purpose": "is there", "challenges": []string{"to be there"}}),
		call("write", m{"path": "two.txt", "content": "x"})), finished("wrote two.txt"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{Plan: "plan.yaml", Feature: "shop"}})
	p.want(out, result.Completed)

	during := <-begun
	for _, g := range list(during, "quality_gates") {
		if passed, there := g["passed"]; !there || passed != nil {
			t.Errorf("at the start the gate is %v", g)
		}
	}
	if n := len(list(during, "quality_gates")); n != 2 {
		t.Errorf("%d gates are listed from the start", n)
	}
	for name, s := range map[string]*shapes{
		"session-metadata.yaml":   {added: []string{"exit_reason"}, null: []string{"end_time"}},
		"execution-log.json":      {optional: []string{"task_id", "task_name", "result", "duration_seconds"}},
		"progress-tracking.yaml":  {added: []string{"phase_name", "details"}, null: []string{"started_at", "completed_at", "duration_seconds", "result", "achieved_at", "passed"}},
		"decision-history.json":   {},
		"errors-and-retries.json": {null: []string{"resolution_time_seconds"}},
		"feature-inventory.json":  {added: []string{"challenges", "assumptions"}},
	} {
		template := value(t, filepath.Join("testdata", "templates", name))
		s.compare(name, template, file(name))
		if name == "progress-tracking.yaml" {
			s.compare(name+" at the start", template, during)
		}
		for _, f := range s.faults {
			t.Error(f)
		}
		if id := file(name)["session_id"]; id != "session-001" {
			t.Errorf("%s is of the session %v", name, id)
		}
	}
	progress := file("progress-tracking.yaml")
	if at := progress["progress"].(object); at["current_phase"] != 2.0 || at["phase_name"] != "Writing" {
		t.Errorf("the phase is %v", at)
	}
	if meta := file("session-metadata.yaml"); meta["phase"] != 2.0 || meta["phase_name"] != "Writing" {
		t.Errorf("the metadata is %v", meta)
	}
	for _, x := range list(progress, "tasks") {
		if x["result"] != "success" || !strings.Contains(x["details"].(string), ".txt") {
			t.Errorf("the task is %v", x)
		}
	}
	for _, x := range list(progress, "milestones") {
		if x["achieved"] != true {
			t.Errorf("the milestone is %v", x)
		}
	}
	for _, x := range list(progress, "quality_gates") {
		if (x["name"] == "Enough" || x["name"] == "Built") && x["passed"] != true {
			t.Errorf("the gate is %v", x)
		}
	}
	decisions := list(file("decision-history.json"), "decisions")
	for _, x := range decisions {
		var open []string
		for _, a := range x["context"].(object)["available_actions"].([]any) {
			open = append(open, a.(string))
		}
		for _, a := range list(x["decision"].(object), "alternative_actions") {
			if !slices.Contains(open, a["action"].(string)) {
				t.Errorf("the alternative %v is not among %v", a, open)
			}
		}
		if !slices.Contains([]string{"task_selection", "action_selection", "error_recovery", "human_input"}, x["decision_type"].(string)) {
			t.Errorf("the decision is of the type %v", x["decision_type"])
		}
	}
	errs := file("errors-and-retries.json")
	if len(decisions) < 2 || len(list(errs, "errors")) == 0 || len(list(errs, "circuit_breaker_trips")) == 0 {
		t.Errorf("the run was to decide, fail and trip: %d decisions, %v", len(decisions), errs)
	}
}
