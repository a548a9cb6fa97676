package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"ralph/workers/agent"
)

// update rewrites the golden files (make update).
var update = os.Getenv("RALPH_TEST_UPDATE") != ""

func allSpecs(t testing.TB) []spec {
	t.Helper()
	files, err := OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return newBox(&Env{
		Root: files.real, Files: files, Notebook: &fakeNotebook{}, Crew: &fakeCrew{},
		SetMode: func(context.Context, string) (string, error) { return "", nil },
	}).specs()
}

func TestSchemasAreGenerated(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("{\n")
	specs := allSpecs(t)
	for i, s := range specs {
		schema, err := schemaOf(s.args)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := json.Marshal(s.name)
		want.Write(name)
		want.WriteString(": ")
		want.Write(schema)
		if i < len(specs)-1 {
			want.WriteByte(',')
		}
		want.WriteByte('\n')
	}
	want.WriteString("}\n")
	if update {
		if err := os.WriteFile("testdata/schemas.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want.String(), string(schemasJSON)); d != "" {
		t.Errorf("testdata/schemas.json is old, run go test -update (-generated +file):\n%s", d)
	}
}

func TestSchemasAreStrict(t *testing.T) {
	texts := schemaTexts()
	docs, schemas := 0, 0
	for _, s := range allSpecs(t) {
		docs += len(s.doc)
		schemas += len(texts[s.name])
		with := strings.Replace(s.example, "{", `{"unheard_of":1,`, 1)
		if _, err := newDecoder(s.name, s.example, texts[s.name]).decode([]byte(with)); err == nil || !strings.Contains(err.Error(), `unknown field "unheard_of"`) {
			t.Errorf("%s: open to unknown fields: %v", s.name, err)
		}
		if strings.Contains(string(texts[s.name]), "null") {
			t.Errorf("%s: null in the schema: %s", s.name, texts[s.name])
		}
		if s.doc == "" {
			t.Errorf("%s: no description", s.name)
		}
		if err := resolved(t, texts[s.name]).Validate(parsed(t, s.example)); err != nil {
			t.Errorf("%s: the example does not fit: %v", s.name, err)
		}
	}
	t.Logf("descriptions %d bytes, schemas %d bytes", docs, schemas)
}

// The tools are part of every request. What is measured is what is sent.
func TestToolBlockIsSmall(t *testing.T) {
	size := func(list []spec) int {
		texts := schemaTexts()
		var block []any
		for _, s := range list {
			block = append(block, map[string]any{"type": "function", "function": map[string]any{
				"name": s.name, "description": s.doc, "parameters": texts[s.name],
			}})
		}
		data, err := json.Marshal(block)
		if err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	all := allSpecs(t)
	one := slices.IndexFunc(all, func(s spec) bool { return s.name == "spawn_agents" })
	t.Logf("one agent: %d bytes; with the tools of the coordinator: %d bytes", size(all[:one]), size(all))
	if n := size(all[:one]); n > 7100 {
		t.Errorf("the tools of one agent take %d bytes", n)
	}
	if n := size(all); n > 9300 {
		t.Errorf("all tools take %d bytes", n)
	}
}

func TestAllIsStableAndQuick(t *testing.T) {
	files, err := OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	e := &Env{Root: files.real, Files: files, Notebook: &fakeNotebook{}}
	names := func(tools []agent.Tool) (all []string) {
		for _, t := range tools {
			all = append(all, t.Name)
		}
		return all
	}
	want := strings.Fields("read write edit list glob grep shell git fetch task todo goal note learn decide record_feature ask_user finish")
	if d := cmp.Diff(want, names(All(e))); d != "" {
		t.Error(d)
	}
	e.Notebook = nil
	want = strings.Fields("read write edit list glob grep shell git fetch ask_user finish")
	if d := cmp.Diff(want, names(All(e))); d != "" {
		t.Error(d)
	}
}

func TestSchemaForRefusesWhatItCannotSay(t *testing.T) {
	type bad struct {
		N int `json:"n" min:"few"`
	}
	if _, err := schemaFor[bad](); err == nil || !strings.Contains(err.Error(), "tag min") {
		t.Errorf("got %v", err)
	}
	type loop struct {
		F func() `json:"f"`
	}
	if _, err := schemaFor[loop](); err == nil {
		t.Error("a function has no schema")
	}
}

func resolved(t testing.TB, schema []byte) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parsed(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func BenchmarkAll(b *testing.B) {
	files, err := OpenWorkspace(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	e := &Env{Root: files.real, Files: files, Notebook: &fakeNotebook{}}
	for b.Loop() {
		All(e)
	}
}
