package render

import (
	"fmt"
	"time"
)

// Duration is a length of time for a person: "340 ms", "1.2 s", "2m05s".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Tokens is a number of tokens for a person: "812", "14k", "1.2M".
func Tokens(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// Cost is an amount of money for a person; nil is unknown, never zero.
func Cost(usd *float64) string {
	switch {
	case usd == nil:
		return "cost unknown"
	case *usd > 0 && *usd < 0.01:
		return fmt.Sprintf("$%.4f", *usd)
	}
	return fmt.Sprintf("$%.2f", *usd)
}
