package scripts

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/workers/agent"
)

func resolve(text string) *jsonschema.Resolved {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		panic(err)
	}
	return r
}

var (
	resultChecker = sync.OnceValue(func() *jsonschema.Resolved { return resolve(schemaOf("result")) })
	statusChecker = sync.OnceValue(func() *jsonschema.Resolved { return resolve(schemaOf("status")) })
	eventsChecker = sync.OnceValue(func() *jsonschema.Resolved { return resolve(schemaOf("events")) })
)

// checkResult checks a result document, and that it is valid UTF-8.
func checkResult(t *testing.T, line string) {
	t.Helper()
	if err := resultChecker().Validate(decode(t, line)); err != nil {
		t.Errorf("result document: %v\n%s", err, line)
	}
}

// checkEvents checks a whole event stream: the schema, the order, the numbers.
func checkEvents(t *testing.T, stream string) []map[string]any {
	t.Helper()
	var events []map[string]any
	for i, line := range strings.Split(strings.TrimRight(stream, "\n"), "\n") {
		e := decode(t, line)
		if err := eventsChecker().Validate(e); err != nil {
			t.Errorf("line %d: %v\n%s", i+1, err, line)
		}
		if e["seq"] != float64(i+1) {
			t.Errorf("line %d has seq %v", i+1, e["seq"])
		}
		events = append(events, e)
	}
	if events[0]["type"] != "start" {
		t.Errorf("the first event is %v", events[0]["type"])
	}
	last := events[len(events)-1]
	if last["type"] != "result" {
		t.Errorf("the last event is %v", last["type"])
	}
	for _, e := range events[:len(events)-1] {
		if e["type"] == "result" {
			t.Error("more than one result")
		}
	}
	checkResult(t, lastLine(stream))
	return events
}

// schemaOf is the schema of a document; a name without one is a fault of the test.
func schemaOf(name string) string {
	text, err := schema(name)
	if err != nil {
		panic(err)
	}
	return text
}

// jsonNames lists the names under which the fields of a struct are encoded.
func jsonNames(v reflect.Type) []string {
	var names []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func TestSchemasNameEveryField(t *testing.T) {
	var document struct {
		Properties map[string]struct {
			Items      *struct{ Properties map[string]any }
			AnyOf      []struct{ Properties map[string]any }
			Properties map[string]any
		}
		Required []string
	}
	if err := json.Unmarshal([]byte(schemaOf("result")), &document); err != nil {
		t.Fatal(err)
	}
	same := func(what string, goNames []string, schema []string) {
		t.Helper()
		slices.Sort(goNames)
		slices.Sort(schema)
		if !slices.Equal(goNames, schema) {
			t.Errorf("%s: Go has %q, the schema %q", what, goNames, schema)
		}
	}
	same("result", jsonNames(reflect.TypeFor[Result]()), keysOf(document.Properties))
	same("required", slices.DeleteFunc(jsonNames(reflect.TypeFor[Result]()), func(n string) bool { return n == "script" }), document.Required)
	same("script", jsonNames(reflect.TypeFor[scriptResult]()), keysOf(document.Properties["script"].Properties))
	same("files_changed", jsonNames(reflect.TypeFor[FileChange]()), keysOf(document.Properties["files_changed"].Items.Properties))
	same("commands", jsonNames(reflect.TypeFor[Command]()), keysOf(document.Properties["commands"].Items.Properties))
	same("children", jsonNames(reflect.TypeFor[Child]()), keysOf(document.Properties["children"].Items.Properties))
	same("messages", jsonNames(reflect.TypeFor[Message]()), keysOf(document.Properties["messages"].Items.Properties))
	same("error", jsonNames(reflect.TypeFor[Failure]()), keysOf(document.Properties["error"].AnyOf[1].Properties))

	var status struct {
		Properties map[string]struct {
			Items      *struct{ Properties map[string]any }
			AnyOf      []struct{ Properties map[string]any }
			Properties map[string]any
		}
		Required []string
	}
	if err := json.Unmarshal([]byte(schemaOf("status")), &status); err != nil {
		t.Fatal(err)
	}
	same("status", jsonNames(reflect.TypeFor[statusDocument]()), keysOf(status.Properties))
	same("status, required", jsonNames(reflect.TypeFor[statusDocument]()), status.Required)
	same("holder", jsonNames(reflect.TypeFor[statusHolder]()), keysOf(status.Properties["holder"].AnyOf[1].Properties))
	same("last", jsonNames(reflect.TypeFor[statusLast]()), keysOf(status.Properties["last"].AnyOf[1].Properties))
	same("recovery", jsonNames(reflect.TypeFor[statusRecovery]()), keysOf(status.Properties["recovery"].AnyOf[1].Properties))
	same("agents", jsonNames(reflect.TypeFor[crew.Agent]()), keysOf(status.Properties["agents"].Items.Properties))
	same("background", jsonNames(reflect.TypeFor[coordinator.Background]()), keysOf(status.Properties["background"].Items.Properties))
	same("queue", jsonNames(reflect.TypeFor[coordinator.Waiting]()), keysOf(status.Properties["queue"].Items.Properties))
	same("tasks", jsonNames(reflect.TypeFor[result.TaskCount]()), keysOf(status.Properties["tasks"].Properties))

	var events struct {
		Properties map[string]struct{ Enum []string }
		Else       struct{ Properties map[string]any }
		Defs       map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(schemaOf("events")), &events); err != nil {
		t.Fatal(err)
	}
	fields := append(keysOf(events.Properties), keysOf(events.Else.Properties)...)
	same("event", jsonNames(reflect.TypeFor[agent.Event]()), fields)
	types := append(keysOf(events.Defs), "result")
	types = slices.DeleteFunc(types, func(s string) bool { return s == "tokens" })
	same("event types", events.Properties["type"].Enum, types)
}

func keysOf[V any](m map[string]V) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	return names
}

func TestSchemaCommand(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"result", "events", "status"} {
		b.run("schema", name)
		golden(t, name+".schema.json", b.out.String())
		resolve(b.out.String())
	}
}

// golden compares text with a file of testdata; RALPH_TEST_UPDATE=1 writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("RALPH_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s differs (RALPH_TEST_UPDATE=1 go test writes it):\n%s", path, text)
	}
}

func TestHelpText(t *testing.T) {
	b := newBench(t)
	b.run("--help")
	golden(t, "help.txt", b.out.String())
	whole := b.out.String()
	if b.run("help"); b.out.String() != whole {
		t.Error("ralph help and ralph --help differ")
	}
	for _, name := range []string{"chat", "doctor", "undo", "schema", "send", "stop", "pause", "attach", "status", "logs", "monitor", "resume", "run"} {
		b.run("help", name)
		golden(t, "help-"+name+".txt", b.out.String())
		text := b.out.String()
		if b.run(name, "--help"); b.out.String() != text {
			t.Errorf("ralph help %s and ralph %s --help differ", name, name)
		}
	}
	for line := range strings.Lines(whole) {
		if len([]rune(line)) > helpWidth+1 {
			t.Errorf("line too long: %q", line)
		}
	}
}
