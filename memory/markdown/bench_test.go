package markdown

import (
	"fmt"
	"strings"
	"testing"
)

// many is a task file of n tasks in Ralph's own form, about 200 bytes and five
// lines each, below headings.
func many(n int) []byte {
	var b strings.Builder
	b.WriteString("# Tasks\n\n")
	for i := range n {
		if i%100 == 0 {
			fmt.Fprintf(&b, "\n## Part %c\n\n", 'a'+rune(i/100%26))
		}
		box, status := " ", "pending"
		if i%2 == 0 {
			box, status = "x", "done"
		}
		fmt.Fprintf(&b, "- [%s] **T-%d** Rework the upload path so that part %d survives a cut line\n  - status: %s\n  - priority: %d\n  - after: T-%d, T-%d\n  - check: go test ./upload/part%d/... -run TestSurvives -count 1\n",
			box, i+1, i, status, i%3+1, i, max(0, i-1), i)
	}
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	data := many(10_000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Parse(data)
	}
}

func BenchmarkEdit(b *testing.B) {
	for _, op := range []struct {
		name string
		do   func(d *Document, i int)
	}{
		{"status", func(d *Document, i int) {
			_ = d.Edit(fmt.Sprintf("T-%d", i*7919%10_000+1), Edit{Status: []Status{Done, InProgress, Failed}[i%3]})
		}},
		{"result", func(d *Document, i int) {
			_ = d.Edit(fmt.Sprintf("T-%d", i*7919%10_000+1), Edit{Result: fmt.Sprint("works ", i)})
		}},
		{"add", func(d *Document, i int) { _, _ = d.Add(Task{Title: "One more", Check: "make"}, "T") }},
		{"task", func(d *Document, i int) { _, _ = d.Task(fmt.Sprintf("T-%d", i*7919%10_000+1)) }},
		{"prepend", func(d *Document, i int) { d.PrependEntry("## 2026-01-01 10:00 UTC — entry\n\n- Status: done\n") }},
		{"nextid", func(d *Document, i int) { d.NextID("T") }},
		{"string", func(d *Document, i int) { _ = d.String() }},
	} {
		b.Run(op.name, func(b *testing.B) {
			d := Parse(many(10_000))
			d.find("T-1")
			d.NextID("T")
			i := 0
			for b.Loop() {
				op.do(d, i)
				i++
			}
		})
	}
}

// BenchmarkMerge merges 10,000 tasks with one change on each side.
func BenchmarkMerge(b *testing.B) {
	base := many(10_000)
	text := string(base)
	user := []byte(strings.Replace(text, "**T-4000** Rework", "**T-4000** Rethink", 1))
	d := Parse(base)
	if err := d.Edit("T-7000", Edit{Status: Failed, Result: "no"}); err != nil {
		b.Fatal(err)
	}
	ralph := d.Bytes()
	for b.Loop() {
		if got := Merge(base, user, ralph); len(got.Conflicts) > 0 {
			b.Fatal(got.Conflicts)
		}
	}
}

// BenchmarkMergeReformatted merges 10,000 tasks that the user wrote anew with
// other bullets and line ends.
func BenchmarkMergeReformatted(b *testing.B) {
	base := many(10_000)
	user := []byte(strings.ReplaceAll(strings.ReplaceAll(string(base), "- ", "* "), "\n", "\r\n"))
	d := Parse(base)
	if err := d.Edit("T-7000", Edit{Status: Failed, Result: "no"}); err != nil {
		b.Fatal(err)
	}
	ralph := d.Bytes()
	for b.Loop() {
		if got := Merge(base, user, ralph); len(got.Conflicts) > 0 {
			b.Fatal(got.Conflicts)
		}
	}
}
