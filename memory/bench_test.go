package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/memory/markdown"
)

// tasksOf is a task file with n tasks, as Ralph writes them.
func tasksOf(n int) string {
	var b strings.Builder
	b.WriteString(header(TasksFile) + "\n")
	for i := range n {
		fmt.Fprintf(&b, "- [ ] **T-%d** A task with a title of some length, number %d\n  - status: pending\n  - priority: %d\n  - check: go test ./pkg/number%d/...\n  - result: none so far, but there will be one when it was worked on, as usual\n", i+1, i, i%4, i)
	}
	return b.String()
}

// BenchmarkChange is one acknowledged change of a task.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			root := b.TempDir()
			if err := os.WriteFile(filepath.Join(root, TasksFile), []byte(tasksOf(n)), 0o644); err != nil {
				b.Fatal(err)
			}
			s, _, err := Open(b.Context(), Options{Root: root})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.SetTask("T-1", TaskEdit{Status: markdown.Blocked}); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			i := 0
			for b.Loop() {
				begin := time.Now()
				_, err := s.SetTask(fmt.Sprintf("T-%d", 1+i%n), TaskEdit{Status: markdown.InProgress, Result: fmt.Sprintf("result %d", i)})
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
				i++
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkAdd is one added task.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			root := b.TempDir()
			if err := os.WriteFile(filepath.Join(root, TasksFile), []byte(tasksOf(n)), 0o644); err != nil {
				b.Fatal(err)
			}
			s, _, err := Open(b.Context(), Options{Root: root})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.AddTask(Task{Title: "the first"}); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if _, err := s.AddTask(Task{Title: "another task"}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOpenLarge opens a project with 10,000 tasks: as it was left, after
// an edit, and after a crash with a change that is only in the log.
func BenchmarkOpenLarge(b *testing.B) {
	for _, how := range []string{"clean", "tasks read", "edited", "crashed"} {
		b.Run(how, func(b *testing.B) {
			root := b.TempDir()
			path := filepath.Join(root, TasksFile)
			if err := os.WriteFile(path, []byte(tasksOf(10_000)), 0o644); err != nil {
				b.Fatal(err)
			}
			open := func() *Store {
				s, _, err := Open(b.Context(), Options{Root: root, byHand: true})
				if err != nil {
					b.Fatal(err)
				}
				return s
			}
			end := func(s *Store) {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			s := open()
			if _, err := s.SetTask("T-5", TaskEdit{Status: markdown.Done}); err != nil {
				b.Fatal(err)
			}
			end(s)
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				switch how {
				case "edited":
					if err := appendTo(path, fmt.Sprintf("- [ ] mine %d\n", i)); err != nil {
						b.Fatal(err)
					}
				case "crashed":
					s := open()
					_, err := s.SetTask("T-7", TaskEdit{Result: fmt.Sprint(i)})
					if err = errors.Join(err, s.lock.drop()); err != nil {
						b.Fatal(err)
					}
					s.lock = nil
				}
				b.StartTimer()
				s := open()
				if how == "tasks read" {
					if tasks, err := s.Tasks(); err != nil || len(tasks) != 10_000 {
						b.Fatal(len(tasks), err)
					}
				}
				b.StopTimer()
				end(s)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkOneShot is all that a one-shot in a new project asks of the Store,
// and in one where it worked before.
func BenchmarkOneShot(b *testing.B) {
	for _, how := range []string{"first", "later"} {
		b.Run(how, func(b *testing.B) {
			root := b.TempDir()
			for i := 0; b.Loop(); i++ {
				if how == "first" {
					root = filepath.Join(b.TempDir(), fmt.Sprint(i))
					if err := os.Mkdir(root, 0o755); err != nil {
						b.Fatal(err)
					}
				}
				s, _, err := Open(b.Context(), Options{Root: root, Holder: "one-shot"})
				if err != nil {
					b.Fatal(err)
				}
				_, err = s.AddTask(Task{Title: "a task"})
				err = errors.Join(err, s.Progress(Entry{Title: fmt.Sprint("work ", i), Summary: "done"}), s.AppendRun(json.RawMessage(`{"a":1}`)), s.Close())
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
