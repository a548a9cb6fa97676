package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = os.Getenv("RALPH_TEST_UPDATE") != ""

// ordered is a JSON object that keeps its order.
type ordered []struct {
	key   string
	value any
}

func (o *ordered) set(key string, value any) {
	*o = append(*o, struct {
		key   string
		value any
	}{key, value})
}

func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(e.key)
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schemas makes the JSON Schema of Go types; struct types go to $defs.
type schemas struct {
	defs ordered
	done map[reflect.Type]string
}

func (s *schemas) of(t reflect.Type) ordered {
	var o ordered
	switch {
	case t == reflect.TypeFor[time.Time]():
		o.set("type", "string")
		o.set("format", "date-time")
	case t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Struct:
		o.set("type", []any{s.of(t.Elem())[0].value, "null"})
	case t == reflect.TypeFor[*time.Time]():
		o.set("type", []string{"string", "null"})
		o.set("format", "date-time")
	case t.Kind() == reflect.Slice:
		o.set("type", "array")
		o.set("items", s.of(t.Elem()))
	case t.Kind() == reflect.Map:
		o.set("type", "object")
		o.set("additionalProperties", s.of(t.Elem()))
	case t.Kind() == reflect.Interface:
	case t.Kind() == reflect.Struct && t.Name() == "":
		return s.fields(t)
	case t.Kind() == reflect.Struct:
		o.set("$ref", "#/$defs/"+s.define(t))
	case t.Kind() == reflect.Bool:
		o.set("type", "boolean")
	case t.Kind() == reflect.String:
		o.set("type", "string")
	case t.Kind() == reflect.Float64:
		o.set("type", "number")
	default:
		o.set("type", "integer")
	}
	return o
}

func (s *schemas) define(t reflect.Type) string {
	if name, ok := s.done[t]; ok {
		return name
	}
	name := strings.ToLower(t.Name())
	s.done[t] = name
	s.defs.set(name, s.fields(t))
	return name
}

func (s *schemas) fields(t reflect.Type) ordered {
	var o, properties ordered
	required := []string{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				walk(f.Type)
				continue
			case !f.IsExported() || name == "-":
				continue
			}
			p := s.of(f.Type)
			if about := meanings()[strings.ToLower(t.Name())+"."+name]; about != "" {
				p = append(ordered{{"description", about}}, p...)
			}
			if name == "schema" || name == "type" && t.Name() != "" && strings.HasSuffix(t.Name(), "Document") {
				p = ordered{{"const", constant(t, name)}}
			}
			properties.set(name, p)
			if options != "omitempty" {
				required = append(required, name)
			}
		}
	}
	walk(t)
	o.set("type", "object")
	o.set("required", required)
	o.set("properties", properties)
	return o
}

// constant is the type or schema that a document states.
func constant(t reflect.Type, field string) string {
	documents := map[reflect.Type][2]string{reflect.TypeFor[AnalyzeDocument](): {"analyze", "ralph.analyze/1"}, reflect.TypeFor[ReportDocument](): {"report", "ralph.report/1"},
		reflect.TypeFor[InsightsDocument](): {"insights", "ralph.insights/1"}, reflect.TypeFor[CompareDocument](): {"compare", "ralph.compare/1"},
		reflect.TypeFor[RulesDocument](): {"insight_rules", "ralph.insights.rules/1"}}
	if field == "type" {
		return documents[t][0]
	}
	return documents[t][1]
}

// meanings says of fields what their names do not.
func meanings() map[string]string {
	return map[string]string{
		"session.dir": "the name of its directory", "session.starts": "how often a Ralph began to work in it", "session.answer": "what was said at the end of the last run",
		"session.config": "ralph_runtime_config of its metadata", "session.kind": "run, chat, …; null where no file says it", "session.status": "as its metadata state it",
		"events.by_type": "of execution-log.json", "events.unordered": "events that are older than the one before them", "events.span_seconds": "from the first to the last",
		"tasks.durations": "of the tasks that were done or failed", "tasks.slowest": "at most 10", "tasks.success_rate": "0 to 1, of the done and the failed",
		"task.attempts": "0 where no event tells of one", "errors.source": "the file that was counted; what two files tell of is counted once",
		"errors.resolved": "null where no file says it", "retries.by_task": "by the id of the task", "distribution.p95_seconds": "the smallest that is no less than 95 in 100 of them",
		"time.total_seconds": "from the first event to the last", "time.breaks_seconds": "between the end of one Ralph and the start of the next", "time.active_seconds": "total without breaks",
		"time.human": "waiting for an answer or a permission", "time.busy_seconds": "on the clock, all four together; null without a journal", "time.other_seconds": "on the clock, tasks, agents and runs besides",
		"time.idle_seconds": "busy, other and idle add up to active", "time.waits": "for the human, each", "spent.sum_seconds": "of all agents, added up", "spent.wall_seconds": "on the clock: agents work at the same time",
		"usage.cost_usd": "null: the price is unknown", "tokens.source": "the file it is from; null: nothing tells what was used", "tokens.estimated": "part of it was not stated by the endpoint",
		"tokens.by_agent": "at most 50 and (others)", "agent.seconds": "how long it was there", "calibration.brier_score": "mean square of confidence minus outcome",
		"calibration.expected_calibration_error": "mean distance of confidence and success over the bins", "calibration.bins": "ten, from 0 to 1", "analysis.notes": "about the data: cut, out of order, no journal",
		"interrupts.latency": "from the key to rest", "interrupts.by_how": "stopped, paused, late", "reportdocument.text": "the report, Markdown",
		"reportdocument.path": "where it was written; null: nowhere", "reportdocument.html_path": "where the page was written; null: nowhere",
		"reportdocument.differences": "what the files say against each other; none is mended", "insightsdocument.kept": "how many were added to AGENT.md",
		"finding.events": "the first 20 that show it: e17 of the log, j341 of the journal, d5 of the decisions, x3 of the errors", "finding.count": "how many events show it",
		"figure.unit": "seconds, usd, rate; empty for a count", "figure.values": "one a session; null: unknown", "figure.deltas": "against the first session", "figure.percents": "against the first session",
		"comparison.config": "the settings that differ", "comparison.tasks_common": "known to at least two", "comparison.tasks_changed": "at most 200", "taskchange.outcomes": "one a session; null: it does not know the task",
		"onlyin.tasks": "at most 50",
	}
}

// made is the text of the schema of a document.
func made(t *testing.T, title, id, about string, documents ...reflect.Type) []byte {
	t.Helper()
	s := &schemas{done: map[reflect.Type]string{}}
	head := ordered{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", id}, {"title", title},
		{"description", about + " Every field is always present; null, [] or 0 stand where there is nothing. Seconds are numbers, rates are from 0 to 1, times RFC 3339. Consumers must expect fields and words that they do not know."}}
	if len(documents) == 1 {
		head = append(head, s.fields(documents[0])...)
	} else {
		var any []ordered
		for _, d := range documents {
			any = append(any, ordered{{"$ref", "#/$defs/" + s.define(d)}})
		}
		head.set("anyOf", any)
	}
	head.set("$defs", s.defs)
	data, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// TestSchemas holds the schemas against the documents of every session that is
// kept for tests, and against the Go types, of which they name every field.
func TestSchemas(t *testing.T) {
	all := map[string]*Session{}
	list := []*Session{}
	for _, name := range fixtures(t) {
		all[name] = of(t, name)
		list = append(list, all[name])
	}
	for _, x := range []struct {
		name, about string
		types       []reflect.Type
		documents   func(*Session) []any
	}{
		{"analyze", "The figures of a session: ralph analyze --json.", []reflect.Type{reflect.TypeFor[AnalyzeDocument]()},
			func(s *Session) []any { return []any{NewAnalyzeDocument(s, nil)} }},
		{"report", "The report of a session: ralph report --json.", []reflect.Type{reflect.TypeFor[ReportDocument]()},
			func(s *Session) []any {
				return []any{NewReportDocument(s, "# x", "", "", nil), NewReportDocument(s, "# x", "/a", "/b", []string{"w"})}
			}},
		{"insights", "What named rules find in a session, and the rules: ralph insights --json, ralph insights --rules --json.", []reflect.Type{reflect.TypeFor[InsightsDocument](), reflect.TypeFor[RulesDocument]()},
			func(s *Session) []any { return []any{NewInsightsDocument(s, 1, nil), NewRulesDocument()} }},
		{"compare", "Sessions side by side: ralph compare --json.", []reflect.Type{reflect.TypeFor[CompareDocument]()},
			func(s *Session) []any {
				return []any{NewCompareDocument(list, nil), NewCompareDocument([]*Session{s}, nil), NewCompareDocument(nil, nil)}
			}},
	} {
		path := filepath.Join("..", x.name+".schema.json")
		want := made(t, "ralph "+x.name, "urn:ralph:"+x.name+":1", x.about, x.types...)
		if update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, want) {
			t.Errorf("%s is not what the Go types say; RALPH_TEST_UPDATE=1 writes it anew", path)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		checker, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range all {
			for _, d := range x.documents(s) {
				if err := checker.Validate(decoded(t, d)); err != nil {
					t.Errorf("%s of %s: %v", x.name, name, err)
				}
			}
		}
		if err := checker.Validate(map[string]any{"type": x.name}); err == nil {
			t.Errorf("%s: the schema takes a document without fields", x.name)
		}
	}
}

func decoded(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
