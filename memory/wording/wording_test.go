package wording_test

import (
	"math"
	"testing"

	"ralph/memory/wording"
)

func TestWording(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{wording.Grouped(0), "0"},
		{wording.Grouped(999), "999"},
		{wording.Grouped(1000), "1,000"},
		{wording.Grouped(-999), "-999"},
		{wording.Grouped(-1_234_567), "-1,234,567"},
		{wording.Grouped(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{wording.Count(0, "error"), "0 errors"},
		{wording.Count(1, "retry"), "1 retry"},
		{wording.Count(1200, "retry"), "1,200 retries"},
		{wording.Clause(1, "task", "stands", "stand"), "1 task stands"},
		{wording.Clause(2, "task", "stands", "stand"), "2 tasks stand"},
		{wording.Times(1), "once"},
		{wording.Times(1000), "1,000 times"},
		{wording.Decimal(3), "3"},
		{wording.Decimal(0.123456), "0.1235"},
		{wording.Length(0), "0 s"},
		{wording.Length(0.0001), "1 ms"},
		{wording.Length(0.34), "340 ms"},
		{wording.Length(0.9996), "1 s"},
		{wording.Length(4.24), "4.2 s"},
		{wording.Length(9.96), "10 s"},
		{wording.Length(59.4), "59 s"},
		{wording.Length(59.6), "1 min"},
		{wording.Length(65), "1 min 05 s"},
		{wording.Length(3599.6), "1 h"},
		{wording.Length(2*3600 + 5*60), "2 h 05 min"},
		{wording.Length(86399), "1 d"},
		{wording.Length(76 * 3600), "3 d 4 h"},
		{wording.Length(-1), "unknown"},
		{wording.Length(math.NaN()), "unknown"},
		{wording.Length(math.Inf(1)), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
