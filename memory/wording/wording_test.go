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
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
