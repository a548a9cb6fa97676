package insights

import (
	"cmp"
	"fmt"
	"slices"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// maxRetries bounds the retries that are looked at, from one file.
const maxRetries = 1_000_000

// again is one retry.
type again struct {
	ms   int64
	n    uint32
	task int32
}

// retries are those that one file tells.
type retries struct {
	file byte
	list []again
}

func (r *retries) add(m mark, task int32) {
	if m.ms != noTime && len(r.list) < maxRetries {
		r.file = m.file
		r.list = append(r.list, again{m.ms, m.n, task})
	}
}

// storm is a stretch in which there is no time of stormSpan without minRetries.
type storm struct {
	proof
	tasks map[int32]bool
}

// storms finds where too much was tried again. What the journal or the errors
// say is asked where the log says nothing of it.
func (f *Finder) storms(d *folder.Data) []Finding {
	found := f.retries[0].storms()
	for _, more := range [][]storm{f.retries[1].storms(), f.counted(d).storms()} {
		for _, s := range more {
			known := slices.ContainsFunc(found, func(k storm) bool {
				return s.first <= k.last+stormSpan.Milliseconds() && k.first <= s.last+stormSpan.Milliseconds()
			})
			if !known {
				found = append(found, s)
			}
		}
	}
	var list []Finding
	for _, s := range found {
		for _, n := range sortedTasks(s.tasks) {
			s.in(f.board.id(n))
		}
		where := ""
		if n := len(s.tasks); n > 1 {
			where = fmt.Sprintf(" in %d tasks", n)
		}
		within := "at the same moment"
		if s.last > s.first {
			within = "within " + text.Length(float64(s.last-s.first)/1000)
		}
		list = append(list, s.finding(retryStorm, fmt.Sprintf("%d retries%s %s.", s.n, where, within)))
	}
	return list
}

func sortedTasks(m map[int32]bool) []int32 {
	list := make([]int32, 0, len(m))
	for n := range m {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// counted are the retries that errors-and-retries.json counts, of tasks of whose
// retries the log does not tell. The count of a task and an error grows with each
// entry; from the first time to the resolution they are taken as even.
func (f *Finder) counted(d *folder.Data) *retries {
	told := map[int32]bool{}
	for _, list := range f.retries {
		for _, x := range list.list {
			told[x.task] = true
		}
	}
	type same struct {
		task int32
		typ  string
	}
	r, before := retries{file: 'x'}, map[same]int{}
	for i, x := range d.EachFailure() {
		k := same{f.board.of(x.TaskID), errorKey(x.ErrorType)}
		if x.Time.IsZero() || told[k.task] {
			continue
		}
		n := x.RetryCount
		if had := before[k]; n >= had {
			before[k] = n
			n -= had
		}
		span := 0.0
		if x.ResolutionTimeSeconds != nil {
			span = max(0, *x.ResolutionTimeSeconds) * 1000
		}
		n = min(n, 1000)
		for j := range n {
			r.add(mark{ms: x.Time.UnixMilli() + int64(span*float64(j+1)/float64(n)), n: uint32(i + 1), file: 'x'}, k.task)
		}
	}
	return &r
}

func (r *retries) storms() (found []storm) {
	list := r.list
	slices.SortStableFunc(list, func(x, y again) int { return cmp.Compare(x.ms, y.ms) })
	end := -1 // the last retry of the storm that is open
	for i := minRetries - 1; i < len(list); i++ {
		from := i - minRetries + 1
		if list[i].ms-list[from].ms > stormSpan.Milliseconds() {
			continue
		}
		if from > end {
			if len(found) == maxFindings {
				break
			}
			found = append(found, storm{proof: newProof(), tasks: map[int32]bool{}})
			end = from - 1
		}
		s := &found[len(found)-1]
		for end++; end <= i; end++ {
			x := list[end]
			m := mark{ms: x.ms, n: x.n, file: r.file}
			if s.n++; len(s.marks) < maxListed && !slices.ContainsFunc(s.marks, func(k mark) bool { return k.id() == m.id() }) {
				s.marks = append(s.marks, m)
			}
			s.span(x.ms)
			if x.task >= 0 && len(s.tasks) < 10*maxListed {
				s.tasks[x.task] = true
			}
		}
		end = i
	}
	return found
}
