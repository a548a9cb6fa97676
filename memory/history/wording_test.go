package history_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"ralph/memory/history"
)

// errand is a task that needs several things that were said once, in other
// words than its own.
type errand struct {
	Task  string   `json:"task"`
	Needs []string `json:"needs"`
}

func errands(t testing.TB) (list []errand, needs int) {
	t.Helper()
	data, err := os.ReadFile("testdata/errands.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		needs += len(e.Needs)
	}
	return list, needs
}

// clutter is what the messages of a long session are beside what matters, in
// other templates than talk: the words of the tasks themselves over and over,
// and almost the same message many times.
func clutter(random *rand.Rand, list []errand, i int) string {
	pick := func(l ...string) string { return l[random.IntN(len(l))] }
	words := strings.Fields(list[random.IntN(len(list))].Task)
	some := func(n int) string {
		out := make([]string, n)
		for k := range out {
			out[k] = words[random.IntN(len(words))]
		}
		return strings.Join(out, " ")
	}
	n := random.IntN(5000)
	switch random.IntN(14) {
	case 0: // the task's own words, again and again
		return fmt.Sprintf("Status of %q: I still look into it. %s. Nothing found yet, step %d.", strings.Join(words, " "), some(6), n)
	case 1:
		return fmt.Sprintf("%s %s? I come back to this later.", some(5), some(4))
	case 2:
		return fmt.Sprintf("TODO(%d): %s", n, some(7))
	case 3, 4:
		return fmt.Sprintf("diff --git a/pkg%d/file%d.go b/pkg%d/file%d.go\n@@ -%d,7 +%d,9 @@\n-\treturn x\n+\tif err != nil {\n+\t\treturn err\n+\t}", n%40, n, n%40, n, n, n)
	case 5, 6:
		return fmt.Sprintf("ok  \texample.com/app/%s\t%d.%02ds", pick("api", "store", "web", "jobs", "mail"), n%20, n%100)
	case 7:
		return fmt.Sprintf("panic: runtime error: index out of range [%d] with length %d\ngoroutine %d [running]:\nmain.%s(...)", n, n-1, n%90, pick("load", "merge", "scan", "emit"))
	case 8:
		return fmt.Sprintf("Thanks, that looks right. Next one, please (%d of %d).", n%50, n)
	case 9:
		return fmt.Sprintf("package %s\n\nimport (\n\t\"context\"\n\t\"fmt\"\n)\n\nfunc %s%d(ctx context.Context) error { return fmt.Errorf(\"%s: %%w\", ctx.Err()) }", pick("api", "store", "web"), pick("load", "merge", "scan"), n, some(2))
	case 10:
		return fmt.Sprintf("2026-03-%02d 11:%02d:07 INFO request served status=200 took=%dms path=/v1/%s/%d", n%28+1, n%60, n, pick("users", "orders", "files", "search"), n)
	}
	return fmt.Sprintf("I read file%d.go and file%d.go; %s is where it happens. Then %s.", n, n+1, some(2), some(3))
}

// Of 10,000 messages those that a task needs are found although the task words
// them otherwise, needs several, and its own words are said hundreds of times to
// no purpose.
func TestRelevanceFindsWhatIsWordedOtherwise(t *testing.T) {
	t.Parallel()
	const messages, budget, seeds = 10_000, 3000, 4
	list, needs := errands(t)
	tokens := func(s string) int { return len(s)/4 + 8 }
	inside, asked, whole := 0, 0, 0
	missed := map[string]int{}
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 11))
		texts := make([]string, messages)
		for i := range texts {
			texts[i] = clutter(random, list, i)
		}
		places := random.Perm(messages)
		at := map[string]int{}
		for _, e := range list {
			for _, n := range e.Needs {
				at[n], places = places[0], places[1:]
				texts[at[n]] = n
			}
		}
		var x history.Index
		for _, text := range texts {
			x.Add(text)
		}
		for _, e := range list {
			hits := x.Choose(e.Task, func(id int) int { return tokens(texts[id]) }, budget)
			found := 0
			for _, n := range e.Needs {
				asked++
				if slices.ContainsFunc(hits, func(h history.Hit) bool { return h.ID == at[n] }) {
					found++
				} else {
					missed[e.Task+" <- "+n]++
				}
			}
			inside += found
			if found == len(e.Needs) {
				whole++
			}
		}
	}
	for m, n := range missed {
		t.Logf("missed %d of %d: %s", n, seeds, m)
	}
	t.Logf("%d messages, %d facts for %d tasks, %d seeds, budget %d tokens: %d of %d needed facts are inside (%.1f %%); %d of %d tasks have all they need",
		messages, needs, len(list), seeds, budget, inside, asked, 100*float64(inside)/float64(asked), whole, seeds*len(list))
	if inside*10 < asked*9 {
		t.Error("too few")
	}
}
