package markdown

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"
)

// judge says what is wrong with a merge: first what of the user's is lost,
// then what of Ralph's is missing. disjoint reports whether the two sides did
// nothing to the same field.
func judge(x *triple, got Merged) (lost, missing []string, disjoint bool) {
	disjoint = !x.wild && !x.taken
	text := string(got.Data)
	if x.wild {
		if !strings.Contains(text, x.user) {
			lost = append(lost, "the file")
		}
		if (len(x.theirs) > 0 || len(x.added) > 0 || x.entry != "") && len(got.Conflicts) == 0 {
			missing = append(missing, "any word of what was refused")
		}
		return lost, missing, false
	}
	lost = lostLines(x, text)
	d := Parse(got.Data)
	for at, want := range x.theirs {
		mine, both := x.mine[at]
		if _, gone := x.mine[touch{at.key, "task"}]; gone {
			disjoint = false
			if !slices.ContainsFunc(got.Conflicts, func(c Conflict) bool { return c.Field == "task" }) {
				missing = append(missing, fmt.Sprintf("the conflict about deleted %d", at.key))
			}
			continue
		}
		task, ok := d.Task(x.ids[at.key])
		value := string(task.Status)
		if at.field == "result" {
			value = task.Result
		}
		switch {
		case both && mine != want:
			disjoint = false
			if !ok || value != mine {
				lost = append(lost, fmt.Sprintf("%s: %s instead of the user's %s", x.ids[at.key], value, mine))
			}
			if n := strings.Count(text, "conflict: Ralph has "+at.field+": "+want); n == 0 || !slices.ContainsFunc(got.Conflicts, func(c Conflict) bool {
				return c.ID == x.ids[at.key] && c.Field == at.field && c.Ralph == want && c.User == mine
			}) {
				missing = append(missing, fmt.Sprintf("the conflict about %s of %s", at.field, x.ids[at.key]))
			}
		case !ok || value != want:
			missing = append(missing, fmt.Sprintf("%s of %s: %q, not %q", at.field, x.ids[at.key], value, want))
		}
	}
	for _, title := range x.added {
		n := 0
		for _, t := range d.Tasks() {
			if t.Title == title && t.Check == "make" && strings.HasPrefix(t.ID, "T-") && !strings.Contains(t.ID, "~") {
				n++
			}
		}
		if n != 1 {
			missing = append(missing, fmt.Sprintf("the new task %q, %d times", title, n))
		}
	}
	if x.entry != "" && strings.Count(strings.ReplaceAll(text, "\r\n", "\n"), x.entry) != 1 {
		if !strings.HasSuffix(strings.ReplaceAll(text, "\r\n", "\n"), strings.TrimRight(x.entry, "\n")) {
			missing = append(missing, "the entry")
		}
	}
	for at, want := range x.mine {
		if at.field == "task" {
			continue
		}
		if task, ok := d.Task(x.ids[at.key]); ok && at.field == "status" && x.theirs[at] == "" && task.Status != Status(want) {
			lost = append(lost, fmt.Sprintf("status of %s: %s, not %s", task.ID, task.Status, want))
		}
	}
	return lost, missing, disjoint
}

// lostLines lists the user's lines that are not in the merged text, in their
// order and byte for byte. Of lines whose task Ralph changed too only what
// Ralph's change is about may differ.
func lostLines(x *triple, text string) []string {
	var lost []string
	have := strings.SplitAfter(text, "\n")
	at := 0
	for i, l := range x.lines {
		if l.key >= 1000 {
			l.key -= 1000 // which of two copies is the task, nobody can tell
		}
		_, status := x.theirs[touch{l.key, "status"}]
		_, result := x.theirs[touch{l.key, "result"}]
		same := func(s string) bool { return s == l.text }
		switch {
		case status && l.field == "head":
			same = func(s string) bool { return unboxed(s) == unboxed(l.text) }
		case status && l.field == "status", result && l.field == "result":
			key := l.text[:strings.Index(l.text, ":")+1]
			same = func(s string) bool { return strings.HasPrefix(s, key) }
		}
		if i == len(x.lines)-1 {
			exact := same // the last line may get a line end
			same = func(s string) bool { return exact(s) || exact(strings.TrimRight(s, "\r\n")) }
		}
		k := at
		for k < len(have) && !same(have[k]) {
			k++
		}
		if k == len(have) {
			lost = append(lost, fmt.Sprintf("%q", l.text))
			continue
		}
		at = k + 1
	}
	return lost
}

// unboxed masks the mark in a line's box.
func unboxed(s string) string {
	if i := strings.IndexByte(s, '['); i >= 0 && i+2 < len(s) && s[i+2] == ']' {
		return s[:i+1] + "?" + s[i+2:]
	}
	return s
}

// lineMerge is a three-way merge of lines that knows nothing of tasks: what
// both sides changed in one place is the user's.
func lineMerge(base, user, ralph string) string {
	b, u, r := strings.SplitAfter(base, "\n"), strings.SplitAfter(user, "\n"), strings.SplitAfter(ralph, "\n")
	bu, br := align(b, u), align(b, r)
	var out strings.Builder
	lu, lr := 0, 0
	from := 0
	for i := 0; i <= len(b); i++ {
		eu, er := len(u), len(r)
		if i < len(b) {
			if bu[i] < 0 || br[i] < 0 {
				continue
			}
			eu, er = bu[i], br[i]
		}
		mine, theirs := strings.Join(u[lu:eu], ""), strings.Join(r[lr:er], "")
		if mine == strings.Join(b[from:i], "") {
			mine = theirs
		}
		out.WriteString(mine)
		if i < len(b) {
			out.WriteString(b[i])
		}
		lu, lr, from = eu+1, er+1, i+1
	}
	return out.String()
}

// TestMergeGenerated merges generated triples; RALPH_TEST_SWEEP=1 makes it
// 120,000.
func TestMergeGenerated(t *testing.T) {
	count := 5000
	if testing.Short() {
		count = 1500
	}
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		count = 120_000
	}
	began := time.Now()
	mix := map[string]int{}
	var losses, disjoint, clean, again, second, tried, naive, conflicts, shown int
	for i := range count {
		g := &gen{Rand: rand.New(rand.NewPCG(7, uint64(i)))}
		x := g.triple()
		for _, k := range x.kinds {
			mix[k]++
		}
		got := Merge([]byte(x.base), []byte(x.user), []byte(x.ralph))
		lost, missing, apart := judge(x, got)
		if len(lost) > 0 {
			losses++
		}
		if len(got.Conflicts) > 0 {
			conflicts++
		}
		if apart {
			disjoint++
			if len(missing) == 0 && len(got.Conflicts) == 0 {
				clean++
			} else if len(missing) == 0 {
				missing = append(missing, fmt.Sprintf("a merge without conflicts: %+v", got.Conflicts))
			}
		}
		twice := got
		if count > 5000 || i%5 == 0 {
			second++
			twice = Merge([]byte(x.base), got.Data, []byte(x.ralph))
		}
		if string(twice.Data) != string(got.Data) {
			again++
			missing = append(missing, "a second merge that changes nothing")
		}
		if i%5 == 0 {
			tried++
			if lost, missing, apart := judge(x, Merged{Data: []byte(lineMerge(x.base, x.user, x.ralph))}); len(lost) > 0 || apart && len(missing) > 0 {
				naive++
			}
		}
		unstable := string(twice.Data) != string(got.Data)
		if (len(lost) > 0 || unstable) && shown < 5 {
			shown++
			t.Logf("triple %d %v: lost %v, missing %v\nuser: %s\nralph: %s\nmerged: %s\nagain: %s", i, x.kinds, lost, missing,
				udiff.Unified("base", "user", x.base, x.user), udiff.Unified("base", "ralph", x.base, x.ralph),
				udiff.Unified("user", "merged", x.user, string(got.Data)), udiff.Unified("merged", "again", string(got.Data), string(twice.Data)))
		}
	}
	var names []string
	for _, k := range kinds() {
		names = append(names, fmt.Sprintf("%s %d", k, mix[k]))
	}
	t.Logf("%d triples in %s; the user's changes: %s", count, time.Since(began).Round(time.Millisecond), strings.Join(names, ", "))
	t.Logf("user bytes lost in %d; disjoint %d, of these merged without a conflict and with both edits %d (%.2f %%); with conflicts %d; a second merge changed %d of %d; the line-based merge fails %d of %d",
		losses, disjoint, clean, 100*float64(clean)/float64(disjoint), conflicts, again, second, naive, tried)
	if losses > 0 || again > 0 || float64(clean) < 0.98*float64(disjoint) {
		t.Error("the merge breaks its promise")
	}
	if naive < tried/10 {
		t.Errorf("the judge finds fault with only %d of the line-based merges", naive)
	}
}
