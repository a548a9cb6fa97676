package coordinator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ralph/coordinator/transcript"
	"ralph/workers/agent"
)

// drawTranscript makes a transcript as loops leave it: valid, with turns that
// failed, were cut off or ended with a call.
func drawTranscript(t *rapid.T) []agent.Message {
	list := []agent.Message{{Role: agent.RoleSystem, Text: "s"}}
	for i := range rapid.IntRange(0, 12).Draw(t, "n") {
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0, 1:
			list = append(list, agent.Message{Role: agent.RoleUser, Text: fmt.Sprint("u", i)})
		case 2:
			list = append(list, agent.Message{Role: agent.RoleAssistant, Text: fmt.Sprint("a", i)})
		case 3:
			list = append(list, agent.Message{Role: agent.RoleAssistant, Text: fmt.Sprint("p", i), Partial: true})
		case 4:
			list = append(list, agent.Message{Role: agent.RoleUser, Text: transcript.RecallTitle})
		default:
			id := fmt.Sprint("c", i)
			list = append(list, agent.Message{Role: agent.RoleAssistant, Calls: []agent.Call{{ID: id, Name: "list", Args: "{}"}}}, agent.Message{Role: agent.RoleTool, CallID: id, Text: "r"})
		}
	}
	return list
}

// What is sent alternates, keeps every word in order, and what is sent of a
// beginning is the beginning of what is sent of the whole.
func TestWorded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawTranscript(t)
		before := append([]agent.Message(nil), list...)
		sent := worded(list)
		if !reflect.DeepEqual(before, list) {
			t.Fatal("the transcript was changed")
		}
		n := rapid.IntRange(0, len(list)).Draw(t, "cut")
		if part := worded(list[:n]); !reflect.DeepEqual(part, sent[:len(part)]) && len(part) > 0 {
			t.Fatalf("%+v is no beginning of %+v", part, sent)
		}
		at := 0
		for i, m := range sent {
			if at < len(list) && strings.TrimSuffix(m.Text, cutOff) == list[at].Text && m.Role == list[at].Role {
				at++
			}
			if i == 0 {
				continue
			}
			last := sent[i-1].Role
			ok := m.Role == agent.RoleUser && (last == agent.RoleSystem || last == agent.RoleAssistant) ||
				m.Role == agent.RoleAssistant && (last == agent.RoleUser || last == agent.RoleTool) ||
				m.Role == agent.RoleTool && (last == agent.RoleAssistant || last == agent.RoleTool)
			if !ok {
				t.Fatalf("%s follows %s: %+v", m.Role, last, sent)
			}
		}
		if at != len(list) {
			t.Fatalf("%d of %d messages are sent", at, len(list))
		}
	})
}

func called(id, name, args, result string) []agent.Message {
	return []agent.Message{{Role: agent.RoleAssistant, Calls: []agent.Call{{ID: id, Name: name, Args: args}}}, {Role: agent.RoleTool, CallID: id, Text: result}}
}

func TestWorkingMemory(t *testing.T) {
	var list []agent.Message
	for i, c := range [][3]string{
		{"read", `{"path":"a.go"}`, "1\tpackage a"},
		{"read", `{"file_path":"b.go"}`, "1\tpackage b"},
		{"edit", `{"path":"a.go","old_string":"x","new_string":"y"}`, "a.go: 1 change"},
		{"read", `{"path":"a.go"}`, "1\tpackage a"},
		{"read", `{"path":"gone.go"}`, `read: open "gone.go": no such file`},
		{"shell", `{"command":"go test ./..."}`, "exit 1 after 2s\nFAIL"},
		{"shell", `{"command":"go   test ./..."}`, "exit 0 after 3s\nok"},
		{"note", `{"what":"the cache is per tenant","results":"seen in cache.go"}`, "kept"},
		{"task", `{"title":"fix it","status":"in_progress"}`, "T-1 fix it (in_progress)"},
		{"task", `{"title":"test it"}`, "T-2 test it (pending)"},
		{"task", `{"id":"T-1","status":"done"}`, "T-1 fix it (done)"},
		{"edit", `not json`, "edit: bad"},
	} {
		list = append(list, called(fmt.Sprint(i), c[0], c[1], c[2])...)
	}
	want := workingMemory{
		Files:  []string{"changed a.go", "read b.go"},
		Checks: []string{"go test ./...: exit 0 after 3s"},
		Notes:  []string{"the cache is per tenant seen in cache.go"},
		Tasks:  []string{"T-2 test it (pending)"},
	}
	whole := workingMemory{}.With(list)
	if !reflect.DeepEqual(whole, want) {
		t.Errorf("working memory\n%+v, want\n%+v", whole, want)
	}
	for cut := 0; cut <= len(list); cut += 2 {
		first := workingMemory{}.With(list[:cut])
		saved, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		var loaded workingMemory
		if err := json.Unmarshal(saved, &loaded); err != nil {
			t.Fatal(err)
		}
		if got := loaded.With(list[cut:]); !reflect.DeepEqual(got, whole) {
			t.Errorf("cut at %d: %+v", cut, got)
		}
	}
	if (workingMemory{}).String() != "" || !strings.Contains(whole.String(), "commands, newest first:\n- go test ./...: exit 0") {
		t.Errorf("as text: %q", whole.String())
	}
}
