package history_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ralph/memory/history"
)

// found says at which place a query finds the first text among others.
func found(texts []string, query string) int {
	var x history.Index
	for _, t := range texts {
		x.Add(t)
	}
	return slices.IndexFunc(x.Search(query, 0), func(h history.Hit) bool { return h.ID == 0 })
}

func TestSearchMeetsSpellings(t *testing.T) {
	noise := []string{"the build is green again", "rename the helper and run the linter", "日志文件太大了", "look at server.go first", "error 404 on the page"}
	for _, c := range []struct{ text, query string }{
		{"func maxUploadSize() int", "what is max_upload_size?"},
		{"set MAX_UPLOAD_SIZE in the environment", "maxUploadSize"},
		{"HTTPServer closes idle connections", "http server"},
		{"see internal/upload/retry_policy.go", "retryPolicy.go"},
		{"see internal/upload/retry_policy.go", "open internal/upload/retry_policy.go"},
		{"it retries three times", "how often does it retry"},
		{"uploading is slow", "the upload"},
		{"the configuration of caches", "configure the cache"},
		{"status 503 means busy", "503"},
		{"pin it to v1.43.0", "1.43.0"},
		{"数据库的密码在保险库里", "数据库密码"},
		{"データベースの接続", "接続"},
		{"Прокси слушает порт", "порт прокси"},
		{"Größe der Warteschlange", "GRÖSSE oder Größe"},
		{"東", "東"},
	} {
		if at := found(append([]string{c.text}, noise...), c.query); at != 0 {
			t.Errorf("%q finds %q at %d", c.query, c.text, at)
		}
	}
	if at := found([]string{"the and of"}, "the and of"); at != -1 {
		t.Error("words that say nothing find something")
	}
}

func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringOf(rapid.SampledFrom([]rune("abcABC12_./- é東京x\n"))), 1, 30).Draw(t, "texts")
		query := rapid.SampledFrom(texts).Draw(t, "query")
		budget := rapid.IntRange(0, 100).Draw(t, "budget")
		cost := func(id int) int { return utf8.RuneCountInString(texts[id]) - 1 }
		var x, y history.Index
		for i, text := range texts {
			if id := x.Add(text); id != i {
				t.Fatalf("text %d has the number %d", i, id)
			}
			y.Add(text)
		}
		hits := x.Choose(query, cost, budget)
		if !reflect.DeepEqual(hits, y.Choose(query, cost, budget)) || !reflect.DeepEqual(x.Search(query, 0), y.Search(query, 0)) {
			t.Fatal("the same question has two answers")
		}
		spent, last := 0, -1
		for _, h := range hits {
			if cost(h.ID) < 0 {
				t.Fatalf("text %d was left out by its cost and is chosen", h.ID)
			}
			if h.ID <= last {
				t.Fatalf("not in order: %v", hits)
			}
			spent, last = spent+cost(h.ID), h.ID
		}
		if spent > budget {
			t.Fatalf("%d of a budget of %d", spent, budget)
		}
	})
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("nothing of interest here\n", 200) + "the proxy listens on port 8443\n" + strings.Repeat("more of the same\n", 200)
	if got := history.Excerpt(long, "which port has the proxy", 200); !strings.Contains(got, "8443") || len(got) > 200 || !strings.HasPrefix(got, "…\n") {
		t.Errorf("excerpt: %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(10, 60).Draw(t, "limit")
		got := history.Excerpt(text, rapid.String().Draw(t, "query"), limit)
		if len(text) <= limit && got != text || len(got) > limit || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add("maxUploadSize in a/b_c.go 日本語 x", "日本 upload")
	f.Add("\xff\xfeé\x00", "_/._-")
	f.Fuzz(func(t *testing.T, text, query string) {
		var x history.Index
		x.Add(text)
		x.Add(query)
		for _, h := range x.Search(query, 0) {
			if h.Score <= 0 || h.ID > 1 {
				t.Fatalf("%+v", h)
			}
		}
		history.Excerpt(text, query, 20)
	})
}

// fact is something that was said once, and the task that needs it, in other
// words.
type fact struct {
	Said string `json:"said"`
	Task string `json:"task"`
}

// facts are 50 such pairs.
func facts(t testing.TB) []fact {
	t.Helper()
	data, err := os.ReadFile("testdata/facts.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []fact
	if err := json.Unmarshal(data, &list); err != nil || len(list) != 50 {
		t.Fatalf("%d facts, %v", len(list), err)
	}
	return list
}

// chatter makes the messages of long work: the same parts of the same software,
// results of tools, plans, questions. It speaks of the things the tasks speak
// of, too.
type chatter struct{ random *rand.Rand }

func (c chatter) pick(list ...string) string { return list[c.random.IntN(len(list))] }

func (c chatter) message(i int) string {
	thing := c.pick("the upload", "billing", "the exporter", "the search page", "the scheduler", "the webhook handler", "the importer", "the invoice view", "the gateway", "the migration",
		"the rate limiter", "the audit log", "the session store", "the thumbnail job", "the ledger", "the login form", "the report download", "the Kafka consumer", "the Helm chart", "the dashboard",
		"the Redis client", "the Postgres schema", "the API client", "the mail queue", "the container image", "the release job", "the Firefox tests", "the iOS client", "the CSV parser", "the events table")
	file := c.pick("internal/upload/chunk.go", "billing/stripe.go", "exporter/nightly.go", "web/src/search.tsx", "scheduler/skew.go", "hooks/verify.go", "importer/csv.go", "db/migrations/0042_add_index.sql",
		"ledger/amount.go", "auth/oauth.go", "worker/thumbnail.go", "locales/de.json", "ops/charts/web/templates/deploy.yaml", "proto/report.proto", "mail/queue.go", "audit/log.go", "session/redis.go")
	name := c.pick("uploadChunk", "parseHeader", "newClient", "roundTotal", "renderPage", "loadConfig", "withRetry", "openSession", "flushQueue", "nextCursor", "batchSize", "mapGroups", "sumAmounts", "checkLicense")
	n := c.random.IntN(900) + 3
	switch c.random.IntN(12) {
	case 0:
		return fmt.Sprintf("Look at %s: %s returns nil when the list is empty. Can you fix that?", file, name)
	case 1:
		return fmt.Sprintf("I read %s. The function %s is called from %d places; I change the signature and run the tests.", file, name, n)
	case 2:
		return fmt.Sprintf("exit 0 after %dms\nok  \tapp/%s\t0.%03ds\nok  \tapp/%s\t(cached)", n, strings.TrimSuffix(file, ".go"), n, name)
	case 3:
		return fmt.Sprintf("exit 1 after %dms\n--- FAIL: Test%s (0.%02ds)\n    %s:%d: got %d, want %d\nFAIL", n, name, n%100, file, n, n*7, n*7+1)
	case 4:
		return fmt.Sprintf("%d\tfunc %s(ctx context.Context, in Input) (Output, error) {\n%d\t\tif err := in.validate(); err != nil {\n%d\t\t\treturn Output{}, err\n%d\t\t}", n, name, n+1, n+2, n+3)
	case 5:
		return fmt.Sprintf("The change in %s is done: %s now checks its input. The tests pass. Left: the documentation.", file, thing)
	case 6:
		return fmt.Sprintf("Why is %s slower than last week? Please measure before you change something.", thing)
	case 7:
		return fmt.Sprintf("I think the cause is in %s, because %s waits for a lock. I add a test first.", thing, name)
	case 8:
		return fmt.Sprintf("%s:%d: %s(ctx)\n%s:%d: defer %s.Close()", file, n, name, file, n+9, name)
	case 9:
		return fmt.Sprintf("Good. Commit it as \"%s: handle empty input in %s\" and go on with %s.", strings.Split(file, "/")[0], name, thing)
	case 10:
		return fmt.Sprintf("Renamed %s in %d files. The linter has no complaints about %s.", name, n%20+2, thing)
	}
	return fmt.Sprintf("Step %d: update %s, then write a test for %s in %s.", i, thing, name, file)
}

// talk is 10,000 messages with the facts among them, and where those are.
func talk(seed uint64, n int, planted []fact) (texts []string, at map[int]int) {
	random := rand.New(rand.NewPCG(seed, 7))
	c := chatter{random}
	at = map[int]int{}
	for i := range n {
		texts = append(texts, c.message(i))
	}
	places := random.Perm(n)
	for i, f := range planted {
		texts[places[i]] = f.Said
		at[i] = places[i]
	}
	return texts, at
}

// Of 10,000 messages with 50 facts among them, those that a task needs are
// inside its budget.
func TestRelevanceFindsPlantedFacts(t *testing.T) {
	t.Parallel()
	const (
		messages = 10_000
		budget   = 3000 // tokens: 2.3 % of a window of 128,000
	)
	tokens := func(s string) int { return len(s)/4 + 8 }
	planted := facts(t)
	inside, newest, first, asked := 0, 0, 0, 0
	for seed := range uint64(2) {
		texts, at := talk(seed, messages, planted)
		var x history.Index
		for _, text := range texts {
			x.Add(text)
		}
		from, left := len(texts), budget
		for from > 0 && left >= tokens(texts[from-1]) {
			from--
			left -= tokens(texts[from])
		}
		for i, f := range planted {
			asked++
			spent, in := 0, false
			for _, h := range x.Choose(f.Task, func(id int) int { return tokens(texts[id]) }, budget) {
				spent += tokens(texts[h.ID])
				in = in || h.ID == at[i]
			}
			if spent > budget {
				t.Errorf("%d tokens chosen", spent)
			}
			if in {
				inside++
			} else {
				t.Logf("missed: %q for %q", f.Said, f.Task)
			}
			if hits := x.Search(f.Task, 1); len(hits) > 0 && hits[0].ID == at[i] {
				first++
			}
			if at[i] >= from {
				newest++
			}
		}
	}
	t.Logf("%d messages, %d facts, 2 seeds, budget %d tokens: %d of %d needed facts are inside (%.1f %%), %d of them as the first hit; the newest messages alone hold %d (%.1f %%)",
		messages, len(planted), budget, inside, asked, 100*float64(inside)/float64(asked), first, newest, 100*float64(newest)/float64(asked))
	if inside*10 < asked*9 {
		t.Error("too few")
	}
}

// Adding a message costs the same however many there are.
func TestIndexSpeed(t *testing.T) {
	planted := facts(t)
	texts, _ := talk(1, 100_000, planted)
	var x history.Index
	const part = 20_000
	var first, last time.Duration
	began := time.Now()
	for i := 0; i < len(texts); i += part {
		start := time.Now()
		for _, text := range texts[i : i+part] {
			x.Add(text)
		}
		last = time.Since(start)
		if i == 0 {
			first = last
		}
	}
	took := time.Since(began)
	start := time.Now()
	x.Choose(planted[2].Task, func(int) int { return 1 }, 100)
	t.Logf("%d messages indexed in %v (%.0f a second), %.1f MB; one of the first %d took %v, of the last %v; a search takes %v",
		x.Len(), took.Round(time.Millisecond), float64(x.Len())/took.Seconds(), float64(x.Bytes())/1e6, part, first/part, last/part, time.Since(start))
	if last > 8*first {
		t.Errorf("the last %d messages took %v, the first %v", part, last, first)
	}
}

func BenchmarkIndexAdd(b *testing.B) {
	texts, _ := talk(1, 10_000, facts(b))
	var x history.Index
	for i := 0; b.Loop(); i++ {
		x.Add(texts[i%len(texts)])
	}
}
