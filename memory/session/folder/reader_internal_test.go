package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"
	"pgregory.net/rapid"
)

// plainly reads the events of a log that is valid JSON in the plain way: it is
// what LogReader is held against.
func plainly(data []byte) (found []Event, id string, err error) {
	v, err := fromJSON([]byte(strings.TrimPrefix(string(data), "\ufeff")))
	if err != nil {
		return nil, "", err
	}
	list, _ := v.([]any)
	if o, ok := v.(object); ok {
		var isList bool
		if list, isList = o["events"].([]any); !isList && o["events"] != nil {
			return nil, "", errors.New("no list")
		}
		id = asText(o["session_id"])
	}
	for _, v := range list {
		if o, ok := v.(object); ok {
			found = append(found, plainEvent(o))
		}
	}
	return found, id, nil
}

func plainEvent(o object) Event {
	details := o.object("details", "data")
	e := Event{Time: o.when("timestamp", "time"), Type: EventType(o.text("event_type", "type", "event")), TaskID: o.text("task_id", "taskId"),
		TaskName: o.text("task_name", "taskName"), Result: o.text("result"), Duration: time.Duration(o.float("duration_seconds") * float64(time.Second))}
	if e.TaskID == "" {
		e.TaskID = details.text("task_id", "taskId")
	}
	if e.Result == "" {
		e.Result = details.text("result")
	}
	e.Details, _ = bare(details).(map[string]any)
	for k, v := range o {
		switch k {
		case "timestamp", "time", "event_type", "type", "event", "task_id", "taskId", "task_name", "taskName", "duration_seconds", "details", "data":
			continue
		case "result":
			if asText(v) == e.Result {
				continue
			}
		}
		if _, has := e.Details[k]; !has {
			e.Details[k] = bare(v)
		}
	}
	return e
}

// readLog1 reads a log whole.
func readLog1(t testing.TB, text string) (found []Event, r *LogReader) {
	t.Helper()
	fsys := afero.NewMemMapFs()
	put(t, fsys, logFile, text)
	r, err := OpenLog(fsys, dir)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return rest(t, r), r
}

// rest reads what there is by now, and checks the ids.
func rest(t testing.TB, r *LogReader) (found []Event) {
	t.Helper()
	for {
		e, id, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		must(t, err)
		if want := fmt.Sprint("e", r.at.events); id != want {
			t.Errorf("id %s, want %s", id, want)
		}
		found = append(found, e)
	}
}

var oddTexts = []string{`""`, `"x"`, `"T-1"`, `7`, `7.0`, `-0`, `1e400`, `-1E-5`, `9223372036854775808`, `true`, `false`, `null`, `"12.5"`, `" 85% "`, `"NaN"`, `"2026-11-20T09:00:00.123Z"`,
	`"2026-02-30T09:00:00.123Z"`, `"2026-02-28T24:00:00.000Z"`, `"2026-11-29T23:59:59.999Z"`, `"2026-11-20T10:00:00+01:00"`, `"2026-11-20 09:00"`, `1741064769`, `1741064769123`, `"1741064769"`,
	`"\u0041\ud83d\ude00\ud800x"`, "\"\xff\xfe\"", `"\n\"\\\/"`, `"ж"`, `{}`, `{"result":"done","task_id":5,"a":{"b":[1,{"c":null}]}}`, `{"taskId":"q","task_id":null,"x":1,"x":2}`, `[1,[2],{"k":"v"}]`, `[]`, "{\n \"a\" :\t1 , \"b\":[ ] }",
	`"` + strings.Repeat("long ", 40) + `"`}

// genEvent draws a mapping with keys that an event knows in all spellings, some
// of them twice, and others.
func genEvent(t *rapid.T) string {
	keys := rapid.SliceOfN(rapid.SampledFrom([]string{"timestamp", "time", "event_type", "type", "event", "task_id", "taskId", "task_name", "taskName", "result", "duration_seconds", "details", "data", "k", "level", `\u0074ime`, `r\u0065sult`, "", "\xff", "ж"}), 0, 14).Draw(t, "keys")
	var b strings.Builder
	b.WriteString("{")
	for i, k := range keys {
		if i > 0 {
			b.WriteString(rapid.SampledFrom([]string{",", ", ", "\n  ,\t"}).Draw(t, "comma"))
		}
		fmt.Fprintf(&b, `"%s"%s%s`, k, rapid.SampledFrom([]string{":", " : "}).Draw(t, "colon"), rapid.SampledFrom(oddTexts).Draw(t, "value"))
	}
	return b.String() + "}"
}

func genLog(t *rapid.T) string {
	var entries []string
	for range rapid.IntRange(0, 6).Draw(t, "n") {
		if rapid.IntRange(0, 5).Draw(t, "odd") == 0 {
			entries = append(entries, rapid.SampledFrom(oddTexts).Draw(t, "entry"))
		} else {
			entries = append(entries, genEvent(t))
		}
	}
	list := "[" + strings.Join(entries, rapid.SampledFrom([]string{",", ",\n    "}).Draw(t, "between")) + "]"
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		return list
	case 1:
		return "\ufeff" + `{"session_id": "001", "events": ` + list + "}\n\n\n"
	case 2:
		return `{"events": ` + list + `, "more": {"events": [{}]}, "session_id": ` + rapid.SampledFrom(oddTexts).Draw(t, "id") + "}"
	}
	return `{"\u0065vents" : ` + list + `, "session_id": 1, "session_id": "x"}`
}

// TestSameAsPlain: what is valid JSON is read as the plain way reads it.
func TestSameAsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := genLog(t)
		want, id, err := plainly([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		fsys := afero.NewMemMapFs()
		if err := afero.WriteFile(fsys, filepath.Join(dir, logFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []Event
		gotID, err := Events(fsys, dir, func(e Event) error { got = append(got, e); return nil })
		if diff := cmp.Diff(want, got); diff != "" || gotID != id || err != nil {
			t.Fatalf("%s\n%q %q %v\n%s", text, gotID, id, err, diff)
		}
	})
}

// FuzzLog: whatever a log holds, reading it ends, and what is valid JSON is
// read as the plain way reads it.
func FuzzLog(f *testing.F) {
	for _, s := range []string{`{"session_id":"1","events":[{"timestamp":"2026-11-20T09:00:00.123Z","type":"x","data":{"a":[1]}}]}`, `[{},1,{"a":{"b":{}}}]`, "\ufeff{}", `{"events":[{"a":"` + "\n" + `    {"time":1}]}`,
		`{"events":[{"time":"x"},,{"time":1}]`, "\x00\x00\n{\"time\":1}", `{"events":[{"a":1,"details":` + "\n" + `{"time":1}` + "\n]}", `{"events":{}}`, `{"events":[]}{"events":[`, `{"events":[],"events":[{"type":1}]}`, `7`, `[`, `{"a"`, strings.Repeat(`[{"a":`, 50)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, r := readLog1(t, string(data))
		if again := rest(t, r); len(again) > 0 || r.Restarted() {
			t.Errorf("%d more events of a file that did not change", len(again))
		}
		want, id, err := plainly(data)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		_ = json.Unmarshal(data, &members)
		if n := strings.Count(string(data), `events"`) + strings.Count(string(data), `\u`); n > 1 {
			return // the same key may be there twice, in two spellings
		}
		if _, scalar := members["events"]; !scalar && members != nil {
			want = nil
		}
		first := strings.TrimLeft(strings.TrimPrefix(string(data), "\ufeff"), " \t\r\n")
		if first == "" || first[0] != '{' && first[0] != '[' {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" || id != r.SessionID() || r.Broken() != nil {
			t.Errorf("%q\n%q %q %v\n%s", data, id, r.SessionID(), r.Broken(), diff)
		}
	})
}

func types(found []Event) string {
	var names []string
	for _, e := range found {
		names = append(names, string(e.Type))
	}
	return strings.Join(names, " ")
}

// TestBrokenLogs: what is whole in a broken log is found, and what is not is
// counted.
func TestBrokenLogs(t *testing.T) {
	const head = `{"session_id": "1", "events": [`
	ev := func(kind string) string { return `{"timestamp":"2026-11-20T09:00:00Z","event_type":"` + kind + `"}` }
	for _, x := range []struct{ name, text, want, broken string }{
		{"whole", head + ev("a") + "," + ev("b") + "]}", "a b", ""},
		{"cut in an event", head + ev("a") + `,{"timestamp":"20`, "a", "it breaks off"},
		{"cut behind an event", head + ev("a"), "a", "it breaks off"},
		{"cut in the closing", head + ev("a") + "]", "a", "it breaks off"},
		{"cut in the head", `{"session_id": "1", "eve`, "", "it breaks off"},
		{"empty", "", "", "it breaks off"},
		{"torn in a text, then appended to", head + ev("a") + `,{"timestamp":"2026,` + "\n    " + ev("b") + ",\n    " + ev("c") + "]}", "a b c", "left out: 1"},
		{"torn behind a comma", head + ev("a") + `,{"timestamp":"2026",` + "\n    " + ev("b") + ",\n    " + ev("c") + "]}", "a b c", "left out: 1"},
		{"torn before a value that swallows", head + ev("a") + `,{"timestamp":"2026","details":` + "\n    " + ev("b") + ",\n    " + ev("c") + "]}", "a b c", "left out: 1"},
		{"torn in a list that swallows all", head + ev("a") + `,{"timestamp":"2026","details":{"x":[` + "\n    " + ev("b") + ",\n    " + ev("c") + "\n]\n}\n", "a b c", "left out: 1"},
		{"NUL bytes in the middle", head + ev("a") + "," + strings.Repeat("\x00", 5000) + ev("b") + "]}", "a b", "left out: 1"},
		{"NUL bytes at the end", head + ev("a") + "]}" + strings.Repeat("\x00", 5000), "a", "left out: 1"},
		{"NUL bytes at the begin", strings.Repeat("\x00", 600000) + ev("a") + ",\n    " + ev("b") + "\n  ]\n}\n", "a b", "left out: 1"},
		{"appended behind the closing", head + ev("a") + "]}\n,\n    " + ev("b") + "]}", "a b", "left out: 1"},
		{"another document behind it", head + ev("a") + "]}\n" + head + ev("b") + "]}\n", "a b", "left out: 1"},
		{"bare words", head + ev("a") + ",\nnonsense,\n" + ev("b") + "]}", "a b", "left out: 1"},
		{"nested objects are no events", head + ev("a") + `,{"type":"x","details":{"q":{"type":"n"},` + "\n" + `"l":[{"type":"m"}` + "\n}}\n," + ev("b") + "]}", "a b", "left out: 1"},
		{"a comma is missing", head + ev("a") + ev("b") + "]}", "a b", "separators"},
		{"a comma too many", head + ev("a") + ",," + ev("b") + ",]}", "a b", "separators between events that are missing or too many: 2"},
		{"events is no list", `{"events": {"a": 1}}`, "", "no list"},
		{"no JSON at all", "garbage", "", "left out: 1"},
		{"too deep", head + ev("a") + ",\n" + `{"type":"x","d":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "},\n" + ev("b") + "]}", "a b", "left out: 1"},
		{"too long", head + ev("a") + ",\n" + `{"type":"x","d":"` + strings.Repeat("x", maxEventBytes+readBytes) + `"},` + "\n" + ev("b") + "]}", "a b", "left out: 1"},
	} {
		got, r := readLog1(t, x.text)
		broken := ""
		if err := r.Broken(); err != nil {
			broken = err.Error()
		}
		if types(got) != x.want || (broken == "") != (x.broken == "") || !strings.Contains(broken, x.broken) {
			t.Errorf("%s: %q, %q; want %q, %q", x.name, types(got), broken, x.want, x.broken)
		}
	}
}

// TestLogCutAnywhere: at every cut the events before it are read, and no half
// one is.
func TestLogCutAnywhere(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "sessions", "clean", logFile))
	must(t, err)
	all, _, err := plainly(whole)
	must(t, err)
	text := string(whole[:3000])
	for n := range len(text) {
		got, r := readLog1(t, text[:n])
		if !slices.EqualFunc(got, all[:len(got)], func(a, b Event) bool { return reflect.DeepEqual(a, b) }) || r.Skipped() > 0 || r.Broken() == nil {
			t.Fatalf("cut at %d: %v, %v", n, got, r.Broken())
		}
		if want := strings.Count(text[:n], "},\n    {"); len(got) < want {
			t.Fatalf("cut at %d: %d events, want %d", n, len(got), want)
		}
	}
}

// TestFixtures: the folders that other packages test with are read as their
// README says.
func TestFixtures(t *testing.T) {
	at := filepath.Join("..", "..", "..", "testdata", "sessions")
	for _, x := range []struct {
		name           string
		events         int
		id             string
		broken, cutOff bool
		skipped        int
	}{
		{"clean", -1, "003", false, false, 0},
		{"contradiction", 3, "004", false, false, 0},
		{"older-shape", 9, "5", false, false, 0},
		{"bare-features", 2, "", false, false, 0},
		{"cut-log", 4, "007", true, true, 2},
		{"disorder", 10, "008", false, false, 0},
		{"hostile", -1, "009", false, false, 0},
		{"live", 5, "010", true, true, 0},
		{"foreign", 6, "001", false, false, 0},
	} {
		dir := filepath.Join(at, x.name)
		r, err := OpenLog(nil, dir)
		must(t, err)
		found := rest(t, r)
		if data, err := os.ReadFile(filepath.Join(dir, logFile)); !x.broken {
			must(t, err)
			want, _, err := plainly(data)
			must(t, err)
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("%s: %s", x.name, diff)
			}
		}
		if err := r.Broken(); x.events >= 0 && len(found) != x.events || r.SessionID() != x.id || (err != nil) != x.broken || errors.Is(err, io.ErrUnexpectedEOF) != x.cutOff || r.Skipped() != x.skipped {
			t.Errorf("%s: %d events of session %q, %d left out: %v", x.name, len(found), r.SessionID(), r.Skipped(), err)
		}
		must(t, r.Close())
		if d, err := Read(nil, dir); err != nil || x.name == "clean" && (len(d.Differences())+len(d.Problems) > 0 || len(d.Files) < 8) {
			t.Errorf("%s: %v %v %v %v", x.name, err, d.Differences(), d.Problems, d.Files)
		}
	}
	if _, err := OpenLog(nil, filepath.Join(at, "empty")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}
