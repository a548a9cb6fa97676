package external

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fault is what an error of a program comes down to.
type fault struct {
	kind  Kind
	err   error
	quota bool
	after time.Duration
	hint  string
}

// faultOf classifies what a program said of an error: by the status if it gave
// one, else by the words. Messages of models and results of tools never get here.
func faultOf(f failure, own []*regexp.Regexp) fault {
	status := f.status
	if status == 0 {
		status = statusIn(f.text)
	}
	after := f.after
	if after == 0 {
		after = retryAfter(f.text)
	}
	text := strings.ToLower(f.text)
	quota := status == 429 || quotaWords().MatchString(text)
	for _, re := range own {
		quota = quota || re.MatchString(f.text)
	}
	switch {
	case quota:
		return fault{KindResource, ErrQuota, true, after, ""}
	case status == 401 || status == 403 || accessWords().MatchString(text):
		return fault{KindPermission, ErrAccess, false, 0, "log in with the program itself, or set the variable that holds its key"}
	case status == 408 || status >= 500 && status < 600 || networkWords().MatchString(text):
		return fault{KindNetwork, ErrFailed, false, after, ""}
	case status >= 400 && status < 500:
		return fault{KindValidation, ErrFailed, false, 0, "is the model's name right?"}
	case deniedWords().MatchString(text):
		return fault{KindPermission, ErrDenied, false, 0, ""}
	}
	return fault{KindExecution, ErrFailed, false, 0, ""}
}

var quotaWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`rate.?limit|too many requests|usage limit|quota (exceeded|exhausted|reached|used)|exceeded your (current )?quota|insufficient_quota|resource_?exhausted|(session|weekly|daily|monthly|hourly) limit (reached|exceeded)|you'?ve (hit|reached) your .{0,40}limit|credit balance is too low|out of credits|no credits`)
})

var accessWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`not logged in|please (run )?/?log ?in|unauthorized|authentication|invalid.{0,20}api.?key|api.?key.{0,30}(invalid|missing|required|not (found|set|valid))|no api key|incorrect api key|set an auth method|permission_denied|invalid_grant|token (has )?expired`)
})

var networkWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`econnrefused|econnreset|enotfound|etimedout|eai_again|ehostunreach|epipe|socket hang up|fetch failed|connection (error|refused|reset|closed|timed out)|network (error|is unreachable)|could not resolve|getaddrinfo|stream (disconnected|closed)|overloaded|service unavailable|internal server error|bad gateway|gateway time`)
})

var deniedWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`permission (to use .{1,60} )?(has been )?(denied|rejected)|rejected (the )?permission|denied by policy|not allowed by policy|prevents you from using|requires (user )?(approval|confirmation)|user (denied|rejected)`)
})

// mismatchWords are those of a program that does not know an argument.
var mismatchWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)unknown (option|argument|flag|command)|unexpected argument|unrecogni[sz]ed (option|argument|flag|subcommand)|invalid (option|value .{1,80} for ['"-])|no such option|(argument|option) .{1,60} (is invalid|invalid)|not enough (non-option )?arguments`)
})

func denied(text string) bool { return deniedWords().MatchString(strings.ToLower(text)) }

var statusWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\W{0,10}([45]\d\d)\b|(?:status|code|error|http)\W{0,12}([45]\d\d)\b|\b([45]\d\d) (?:unauthorized|forbidden|too many|internal|bad|service|not found|payment)`)
})

// statusIn finds the status of HTTP in a message, 0 for none.
func statusIn(text string) int {
	for _, g := range statusWords().FindAllStringSubmatch(text, 10) {
		for _, digits := range g[1:] {
			if n, err := strconv.Atoi(digits); err == nil {
				return n
			}
		}
	}
	return 0
}

const maxRetryAfter = 31 * 24 * time.Hour

type spanPatterns struct{ seconds, unix, span, part *regexp.Regexp }

var retryWords = sync.OnceValue(func() spanPatterns {
	unit := `(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)`
	return spanPatterns{
		seconds: regexp.MustCompile(`(?i)retry.?after"?\s*[:=]?\s*"?(\d+(?:\.\d+)?)"?\s*(?:[^\w.]|$)`),
		unix:    regexp.MustCompile(`(?i)(?:limit reached|reset(?:s|_at|sat)?)\W{0,6}(1[6-9]\d{8}|[2-9]\d{9})\b`),
		span:    regexp.MustCompile(`(?i)(?:retry.?after|retry in|retrydelay|try again in|resets? in|available in|wait)\W{0,6}((?:about )?\d+(?:\.\d+)?\s*` + unit + `(?:[\s,]*(?:and )?\d+(?:\.\d+)?\s*` + unit + `)*)\b`),
		part:    regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*(` + unit + `)`),
	}
})

// retryAfter reads from a message how long to wait, 0 if it does not say.
func retryAfter(text string) time.Duration {
	w := retryWords()
	if g := w.span.FindStringSubmatch(text); g != nil {
		var sum time.Duration
		for _, p := range w.part.FindAllStringSubmatch(g[1], 8) {
			n, err := strconv.ParseFloat(p[1], 64)
			if err != nil || n > 1e7 {
				return 0
			}
			sum += time.Duration(n * float64(unitOf(p[2])))
		}
		return min(sum, maxRetryAfter)
	}
	if g := w.seconds.FindStringSubmatch(text); g != nil {
		n, err := strconv.ParseFloat(g[1], 64)
		if err != nil || n > maxRetryAfter.Seconds() {
			return 0
		}
		return time.Duration(n * float64(time.Second))
	}
	if g := w.unix.FindStringSubmatch(text); g != nil {
		if n, err := strconv.ParseInt(g[1], 10, 64); err == nil {
			return min(max(0, time.Until(time.Unix(n, 0))), maxRetryAfter)
		}
	}
	return 0
}

func unitOf(word string) time.Duration {
	switch word = strings.ToLower(word); {
	case word == "ms" || strings.HasPrefix(word, "milli"):
		return time.Millisecond
	case strings.HasPrefix(word, "s"):
		return time.Second
	case strings.HasPrefix(word, "m"):
		return time.Minute
	case strings.HasPrefix(word, "h"):
		return time.Hour
	}
	return 24 * time.Hour
}
