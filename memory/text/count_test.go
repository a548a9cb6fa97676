package text_test

import (
	"math"
	"testing"
	"time"

	"ralph/memory/text"
)

func TestWording(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{text.Grouped(0), "0"},
		{text.Grouped(999), "999"},
		{text.Grouped(1000), "1,000"},
		{text.Grouped(-999), "-999"},
		{text.Grouped(-1_234_567), "-1,234,567"},
		{text.Grouped(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{text.Count(0, "error"), "0 errors"},
		{text.Count(1, "retry"), "1 retry"},
		{text.Count(1200, "retry"), "1,200 retries"},
		{text.Clause(1, "task", "stands", "stand"), "1 task stands"},
		{text.Clause(2, "task", "stands", "stand"), "2 tasks stand"},
		{text.Times(1), "once"},
		{text.Times(1000), "1,000 times"},
		{text.Decimal(3), "3"},
		{text.Decimal(0.123456), "0.1235"},
		{text.Length(0), "0 s"},
		{text.Length(0.0001), "1 ms"},
		{text.Length(0.34), "340 ms"},
		{text.Length(0.9996), "1 s"},
		{text.Length(4.24), "4.2 s"},
		{text.Length(9.96), "10 s"},
		{text.Length(59.4), "59 s"},
		{text.Length(59.6), "1 min"},
		{text.Length(65), "1 min 05 s"},
		{text.Length(3599.6), "1 h"},
		{text.Length(2*3600 + 5*60), "2 h 05 min"},
		{text.Length(86399), "1 d"},
		{text.Length(76 * 3600), "3 d 4 h"},
		{text.Length(-1), "unknown"},
		{text.Length(math.NaN()), "unknown"},
		{text.Length(math.Inf(1)), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "just now", time.Minute: "1 minute ago", 59 * time.Minute: "59 minutes ago",
		time.Hour: "1 hour ago", 47 * time.Hour: "47 hours ago", 72 * time.Hour: "3 days ago",
	} {
		if got := text.Ago(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
