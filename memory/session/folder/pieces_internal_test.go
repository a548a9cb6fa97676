package folder

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"pgregory.net/rapid"
)

// inWhole is what the tree of the whole file says.
func inWhole(text []byte) (Progress, int, error) {
	v, err := fromYAML(text)
	o, is := v.(object)
	if err != nil || !is {
		return Progress{}, 0, fmt.Errorf("no mapping: %v", err)
	}
	p, odd := progressOf(o)
	return p, odd, nil
}

func piecewise(text []byte) (p Progress, odd int, err error) {
	var tasks []TaskState
	o, err := fromTasks(text, func(v any) {
		if t, is := v.(object); is {
			tasks = append(tasks, taskOf(t))
		} else {
			odd++
		}
	})
	if err != nil {
		return p, 0, err
	}
	p, more := progressOf(o)
	p.Tasks = tasks
	return p, odd + more, nil
}

// sameProgress says that where the pieces could be read, they say what the whole
// says, also that it is none.
func sameProgress(t *rapid.T, text []byte) bool {
	p, odd, err := piecewise(text)
	if err != nil {
		return false
	}
	q, wholeOdd, err := inWhole(text)
	if err != nil {
		t.Fatalf("the pieces can be read and the whole cannot: %v\n%q", err, text)
	}
	if !reflect.DeepEqual(p, q) || odd != wholeOdd {
		t.Fatalf("in pieces %+v, %d odd\nin whole %+v, %d odd\n%q", p, odd, q, wholeOdd, text)
	}
	return true
}

func drawTasks(t *rapid.T) []TaskState {
	text := rapid.SampledFrom([]string{"", "done", "- a", "a\n- b", "# no", "\"a\n- b\"", "*x", "&x y", "null", "~", "1e3", "0x10", "yes", "{a: b}", "[", "a: b", "--- |", "\n", " x ", "tasks:\n- task_id: x\n", "é\u2028- ü", "…", "'", strings.Repeat("long ", 40)})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) TaskState {
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0).UTC()
		return TaskState{TaskID: text.Draw(t, "id"), Status: TaskCompleted, StartedAt: &at, Details: text.Draw(t, "details"), Artifacts: rapid.SliceOfN(text, 0, 3).Draw(t, "artifacts")}
	}), 1, 6).Draw(t, "tasks")
}

// A file as Ralph writes it is read in pieces, and says the same.
func TestProgressInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &progressFileDoc{o: &Options{SessionID: rapid.SampledFrom([]string{"001", "a: b", "- x"}).Draw(t, "id")}}
		for _, s := range drawTasks(t) {
			p.tasks = append(p.tasks, &taskEntry{entry: entry[TaskState]{value: s}})
		}
		p.marks = append(p.marks, entry[Milestone]{value: Milestone{Name: "m", Target: "tasks:\n- a"}})
		text, err := p.render()
		if err != nil {
			t.Fatal(err)
		}
		if !sameProgress(t, text) {
			t.Fatalf("what Ralph writes is not read in pieces:\n%s", text)
		}
	})
}

// Whatever somebody makes of the file, the pieces say what the whole says or
// nothing.
func TestOddProgressInPieces(t *testing.T) {
	odd := rapid.SampledFrom([]string{"tasks:", "- task_id: b", "  status: pending", "- ", "-", "milestones: []", "\"", "'", "note: \"abc", "foo\"", "note: 'abc", "foo'", "x: &a 1", "y: *a", "- *a",
		"- &a b", "{a: b}", "[a, b]", "  - c", "? q", ": r", "!!map", "&b", "--- ", "...", "%YAML 1.2", "# c", "", "\t", "k: |", "  text", "- |", "k: >-", " out: x", "progress:", "  current_task_id: \"a", "\"tasks\": []",
		"<<: *a", "- - d", "- {task_id: x", "  result: y}", "\ufeffa: b", "a\u2028b: c", "plain text", "session_id: 1\r"})
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		lines := append([]string{"session_id: 001"}, rapid.SliceOfN(odd, 0, 3).Draw(t, "head")...)
		lines = append(lines, "tasks:", "- task_id: a")
		lines = append(lines, rapid.SliceOfN(odd, 0, 8).Draw(t, "behind")...)
		if sameProgress(t, []byte(strings.Join(lines, "\n")+"\n")) {
			read++
		}
	})
	if read == 0 {
		t.Error("no text was read in pieces")
	}
}

// The lists of a JSON file say in pieces what they say in whole.
func TestListsInPieces(t *testing.T) {
	value := rapid.SampledFrom([]string{`{"task_id":"a","decision":{"action":"x","alternative_actions":[{"action":"y","score":0.5}]}}`, `{"task_id":"a","task_id":7,"decision":"x"}`, "null", "1", `"s"`, "[]",
		"[{}]", "{}", "{", "}", ",", `"`, `{"a":}`, "tru"})
	list := rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(value, 0, 4).Draw(t, "list"), ",") + "]"
	})
	key := rapid.SampledFrom([]string{`"decisions"`, `"session_id"`, `"other"`, `"de\u0063isions"`})
	rapid.Check(t, func(t *rapid.T) {
		text := list.Draw(t, "top")
		if rapid.Bool().Draw(t, "object") {
			text = "{" + strings.Join(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
				return key.Draw(t, "key") + ":" + rapid.OneOf(list, value).Draw(t, "value")
			}), 0, 3).Draw(t, "members"), ",") + "}"
		}
		text = rapid.SampledFrom([]string{"", "\ufeff", " "}).Draw(t, "before") + text + rapid.SampledFrom([]string{"", "\n", "x"}).Draw(t, "behind")
		in, as := Data{ids: map[string]string{}}, Data{ids: map[string]string{}}
		odd := 0
		_, err := in.takePieces(decisionsFile, strings.NewReader(text), 0, &odd)
		v, wholeErr := parse(decisionsFile, []byte(text))
		if err != nil && wholeErr == nil && err != errOtherwise || err == nil && wholeErr != nil {
			t.Fatalf("in pieces %v, in whole %v: %q", err, wholeErr, text)
		}
		if err != nil {
			return
		}
		if n := as.takeDecisions(v); n != odd || !reflect.DeepEqual(as.Decisions, in.Decisions) {
			t.Fatalf("in pieces %+v, %d odd; in whole %+v, %d odd: %q", in.Decisions, odd, as.Decisions, n, text)
		}
	})
}

// Large files are read in pieces, and what is wrong with one is told as ever.
func TestLargeFiles(t *testing.T) {
	fsys := afero.NewMemMapFs()
	var progress, errs bytes.Buffer
	progress.WriteString("session_id: \"007\"\nprogress:\n  overall_progress: 50\ntasks:\n")
	errs.WriteString(`{"session_id":"007","errors":[7`)
	const n = 9000
	for i := range n {
		fmt.Fprintf(&progress, "- task_id: T-%d\n  status: completed\n  artifacts:\n  - out/%d.txt\n", i, i)
		fmt.Fprintf(&errs, `,{"task_id":"T-%d","error_type":"validation","error_message":"no"}`, i)
	}
	progress.WriteString("milestones: []\n")
	errs.WriteString("]}")
	put := func(name string, data []byte) {
		if err := afero.WriteFile(fsys, "/s/"+name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if progress.Len() < 2*pieceBytes || errs.Len() < 2*pieceBytes {
		t.Fatal("the files are too small to be read in pieces")
	}
	put(progressFile, progress.Bytes())
	put(errorsFile, errs.Bytes())
	d, err := Read(fsys, "/s")
	if err != nil || len(d.Progress.Tasks) != n || len(d.Failures) != n || d.Progress.Tasks[n-1].TaskID != fmt.Sprint("T-", n-1) || d.Progress.Progress.OverallProgress != 50 ||
		d.ids[progressFile] != "007" || d.ids[errorsFile] != "007" || len(d.Problems) != 1 || d.Problems[0].Err.Error() != "1 entries are none" {
		t.Fatalf("%d tasks, %d errors, ids %v, problems %v: %v", len(d.Progress.Tasks), len(d.Failures), d.ids, d.Problems, err)
	}
	put(progressFile, progress.Bytes()[:progress.Len()-30])
	put(errorsFile, errs.Bytes()[:errs.Len()-3])
	d, err = Read(fsys, "/s")
	if err != nil || len(d.Failures) != 0 || len(d.Problems) != 1 || d.Problems[0].File != errorsFile || !strings.Contains(d.Problems[0].Err.Error(), "unexpected EOF") {
		t.Fatalf("%d errors, problems %v: %v", len(d.Failures), d.Problems, err)
	}
}

// What is held while a large file is read is a fraction of what its tree takes.
func TestPiecesAreSmall(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("session_id: \"007\"\ntasks:\n")
	for i := range 40_000 {
		fmt.Fprintf(&text, "- task_id: T-%d\n  status: completed\n", i)
	}
	_, list, _ := bytes.Cut(text.Bytes(), []byte("tasks:\n"))
	for at := 0; at < len(list); {
		n := endOfPiece(list[at:])
		if n <= 0 || n > pieceBytes+1024 {
			t.Fatalf("a piece of %d bytes", n)
		}
		at += n
	}
}
