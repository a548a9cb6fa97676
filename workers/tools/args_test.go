package tools

import (
	"encoding/json"
	"strings"
	"testing"
)

func decoderFor(t testing.TB, tool string) *decoder {
	t.Helper()
	for _, s := range allSpecs(t) {
		if s.name == tool {
			return newDecoder(s.name, s.example, schemaTexts()[tool])
		}
	}
	t.Fatalf("no tool %q", tool)
	return nil
}

func TestDecodeForgives(t *testing.T) {
	for _, c := range []struct{ tool, in, want string }{
		{"read", `{"path":"a"}`, `{"path":"a"}`},
		{"read", `{"file_path":"a","offset":"10"}`, `{"offset":10,"path":"a"}`},
		{"read", `{"filePath":"a","offset":10.0,"limit":1e2}`, `{"limit":100,"offset":10,"path":"a"}`},
		{"read", `{"path":"a","offset":null}`, `{"path":"a"}`},
		{"read", `{"path":"a","file_path":null}`, `{"path":"a"}`},
		{"read", `{"path":null,"file":"a"}`, `{"path":"a"}`},
		{"read", `{"path":404}`, `{"path":"404"}`},
		{"read", `"{\"path\":\"a\"}"`, `{"path":"a"}`},
		{"read", `{"path":"a","description":"why I do it"}`, `{"path":"a"}`},
		{"list", ``, `{}`},
		{"list", `null`, `{}`},
		{"list", `{"dir":"src"}`, `{"path":"src"}`},
		{"edit", `{"path":"a","old_str":"x","new_str":"y"}`, `{"new_string":"y","old_string":"x","path":"a"}`},
		{"edit", `{"path":"a","oldText":"x","newText":"y","replaceAll":"true"}`, `{"new_string":"y","old_string":"x","path":"a","replace_all":true}`},
		{"edit", `{"path":"a","edits":{"oldText":"x","newText":"y"}}`, `{"edits":[{"new_string":"y","old_string":"x"}],"path":"a"}`},
		{"edit", `{"path":"a","edits":"[{\"old_string\":\"x\",\"new_string\":\"y\"}]"}`, `{"edits":[{"new_string":"y","old_string":"x"}],"path":"a"}`},
		{"edit", `{"path":"a","edits":[null,"{\"old_string\":\"x\",\"new_string\":\"\"}"]}`, `{"edits":[{"new_string":"","old_string":"x"}],"path":"a"}`},
		{"shell", `{"cmd":"ls","timeout_seconds":"5"}`, `{"command":"ls","timeout_seconds":5}`},
		{"shell", `{"action":"Stop","job_id":"job-1"}`, `{"action":"stop","job":"job-1"}`},
		{"grep", `{"query":"x","include":"*.go","ignore_case":"FALSE"}`, `{"glob":"*.go","ignore_case":false,"pattern":"x"}`},
		{"git", `{"action":"commit","msg":"m","paths":"a.go"}`, `{"action":"commit","message":"m","paths":["a.go"]}`},
		{"task", `{"id":"T-1","status":"In Progress","after":"T-2"}`, `{"after":["T-2"],"id":"T-1","status":"in_progress"}`},
		{"task", `{"title":"x","dependencies":["T-2"]}`, `{"after":["T-2"],"title":"x"}`},
		{"record_feature", `{"name":"n","category":"c","purpose":"p","keyFiles":["a"],"dependencies":["b"]}`, `{"category":"c","dependencies":["b"],"key_files":["a"],"name":"n","purpose":"p"}`},
		{"note", `{"content":"found"}`, `{"what":"found"}`},
		{"finish", `{"status":"needs-input","summary":"s","confidence":"0.5"}`, `{"confidence":0.5,"status":"needs_input","summary":"s"}`},
		{"write", `{"path":"a","content":"\u00e9\u0000<&>"}`, `{"content":"é\u0000\u003c\u0026\u003e","path":"a"}`},
	} {
		got, err := decoderFor(t, c.tool).decode(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s %s\n got %s %v\nwant %s", c.tool, c.in, got, err, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ tool, in, want string }{
		{"read", `{}`, `missing field "path" (string); example: {"path":`},
		{"read", `{"path":null}`, `missing field "path"`},
		{"read", `{"path":"a","offset":"ten"}`, `field "offset": want a number, got "ten"`},
		{"read", `{"path":"a","offset":1.5}`, `field "offset": want a whole number, got 1.5`},
		{"finish", `{"status":"done","summary":"s","confidence":-1}`, `field "confidence": must be at least 0, got -1`},
		{"read", `{"path":"a","offset":1e300}`, `want a whole number`},
		{"read", `{"path":"a","offset":1e999}`, `want a number`},
		{"read", `{"path":"a","offset":"NaN"}`, `want a number`},
		{"read", `{"path":["a"]}`, `field "path": want a string, got ["a"]`},
		{"read", `{"path":"a","lines":3}`, `unknown field "lines" (there are: limit, offset, path)`},
		{"read", `{"path":"a","file_path":"b"}`, `unknown field "file_path"`},
		{"read", `[1]`, `must be one JSON object`},
		{"read", `"text"`, `not valid JSON`},
		{"read", `{"path":"a"} trailing`, `text after the object`},
		{"read", `{"path":"a"`, `not valid JSON`},
		{"write", `{"path":"a","content":{"k":1}}`, `field "content": want a string, got {"k":1}`},
		{"write", `{"path":"a"}`, `missing field "content"`},
		{"edit", `{"path":"a","edits":[{"old_string":"x"}]}`, `missing field "edits[0].new_string"`},
		{"edit", `{"path":"a","edits":["x"]}`, `field "edits[0]": want an object with new_string, old_string, replace_all, got "x"`},
		{"edit", `{"path":"a","replace_all":"perhaps"}`, `want true or false`},
		{"shell", `{"command":"x","timeout_seconds":99999}`, `must be at most 3600`},
		{"shell", `{"action":"kill"}`, `want one of output, stop, list, got "kill"`},
		{"git", `{"action":"push"}`, `want one of status, diff, log, commit`},
		{"finish", `{"status":"done","summary":"s","confidence":1.5}`, `must be at most 1`},
		{"finish", `{"status":"done","summary":"s","confidence":"80%"}`, `want a number`},
		{"finish", `{"summary":"s"}`, `missing field "status" (one of done, partial, failed, needs_input)`},
	} {
		got, err := decoderFor(t, c.tool).decode(json.RawMessage(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s\n got %s %v\nwant %s", c.tool, c.in, got, err, c.want)
		}
	}
}

func TestDecodeReportsAllFaultsBriefly(t *testing.T) {
	_, err := decoderFor(t, "grep").decode(json.RawMessage(`{"context":"x","limit":"y","glob":[]}`))
	for _, want := range []string{`"context"`, `"limit"`, `"glob"`, `"pattern"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	many := map[string]int{}
	for i := range 1000 {
		many[strings.Repeat("x", i+1)] = i
	}
	raw, _ := json.Marshal(many)
	if _, err = decoderFor(t, "grep").decode(raw); err == nil || len(err.Error()) > 4000 {
		t.Errorf("%d bytes", len(err.Error()))
	}
}

// What decode lets through must fit the schema as the library reads it, and
// decoding it again must change nothing.
func FuzzDecode(f *testing.F) {
	specs := allSpecs(f)
	for i, s := range specs {
		f.Add(i, s.example)
	}
	f.Add(2, `{"path":"a","edits":"[{\"oldText\":1,\"newText\":true}]"}`)
	f.Add(0, `"\"{}\""`)
	f.Add(9, `{"priority":"1","after":[null,1,"x"]}`)
	f.Fuzz(func(t *testing.T, tool int, in string) {
		s := specs[uint(tool)%uint(len(specs))]
		schema := schemaTexts()[s.name]
		d := newDecoder(s.name, s.example, schema)
		out, err := d.decode(json.RawMessage(in))
		if err != nil {
			return
		}
		if err := resolved(t, schema).Validate(parsed(t, string(out))); err != nil {
			t.Fatalf("%s accepts %q as %s: %v", s.name, in, out, err)
		}
		again, err := d.decode(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%s: %s decodes to %s, %v", s.name, out, again, err)
		}
	})
}
