package fault

import "strings"

// Classify is the kind of an error: what the facts say, else what the output
// says, else that a program failed, else Unknown. Only the end of a long output
// is read, where errors are.
func Classify(f Facts) Kind {
	switch {
	case f.Denied:
		return Permission
	case f.Quota, f.Status == 429, f.Status == 402:
		return Resource
	case f.Weakened, f.Conflict:
		return Validation
	case f.Status == 401, f.Status == 403:
		return Permission
	case f.Status == 408, f.Status >= 500:
		return Network
	}
	if k := Kind(strings.ToLower(strings.TrimSpace(f.Said))); k != Unknown && known(k) {
		return k
	}
	return f.guess()
}

// guess is the kind of what reported none.
func (f Facts) guess() Kind {
	switch {
	case f.Check && f.ExitCode == 127:
		return Dependency // the check itself could not be run
	case f.Check && f.ExitCode == 126:
		return Permission
	case f.TimedOut:
		return Resource
	case f.Check:
		return Validation
	}
	if k := said(tail(f.Output)); k != Unknown {
		return k
	}
	switch {
	case f.ExitCode == 127:
		return Dependency
	case f.ExitCode == 126:
		return Permission
	case f.Signal && f.ExitCode == 137:
		return Resource // killed with KILL, which out of memory does
	case f.Signal, f.ExitCode != 0:
		return Execution
	}
	return Unknown
}

const maxRead = 8 << 10

func tail(s string) string {
	if len(s) > maxRead {
		s = s[len(s)-maxRead:]
	}
	return strings.ToLower(s)
}

// said finds the words of the system and of common programs. The order is from
// the certain to the vague: "permission denied" also stands in network errors.
func said(text string) Kind {
	for _, w := range []struct {
		kind  Kind
		words []string
	}{
		{Resource, []string{"no space left on device", "disk quota exceeded", "cannot allocate memory", "out of memory", "too many open files", "resource temporarily unavailable",
			"rate limit", "rate limited", "rate limits", "ratelimit", "rate_limit", "too many requests", "quota exceeded", "insufficient_quota", "usage limit", "context length", "context_length_exceeded", "deadline exceeded"}},
		{Network, []string{"connection refused", "connection reset", "no such host", "network is unreachable", "no route to host", "tls handshake", "temporary failure in name resolution",
			"could not resolve host", "i/o timeout", "econnrefused", "econnreset", "enotfound", "etimedout", "eai_again", "bad gateway", "service unavailable", "gateway timeout", "unexpected eof"}},
		{Permission, []string{"permission denied", "operation not permitted", "read-only file system", "eacces", "eperm", "unauthorized", "forbidden", "invalid api key", "invalid_api_key", "authentication"}},
		{Dependency, []string{"command not found", "executable file not found", "no such file or directory", "cannot find module", "cannot find package", "modulenotfounderror", "no module named",
			"could not find a version", "unresolved import", "is not in std", "no required module provides", "enoent", "package not found", "could not find package", "could not resolve dependencies"}},
		{Validation, []string{"assertionerror", "assertion failed", "--- fail", "tests failed", "test failed", "schema", "invalid input", "validation", "syntax error", "syntaxerror", "type error", "typeerror"}},
		{Execution, []string{"panic:", "traceback (most recent call last)", "segmentation fault", "exit status", "exited with", "fatal error"}},
	} {
		for _, word := range w.words {
			if hasWords(text, word) {
				return w.kind
			}
		}
	}
	return Unknown
}

// hasWords says that text holds the words, and not as a part of longer ones
// (ENOTFOUND is in ModuleNotFoundError).
func hasWords(text, words string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(words)
		if (i == 0 || !letter(text[i-1])) && (end == len(text) || !letter(text[end]) || !letter(words[len(words)-1])) {
			return true
		}
		from = i + 1
	}
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' }

func known(k Kind) bool {
	switch k {
	case Validation, Execution, Resource, Permission, Network, Dependency, Unknown:
		return true
	}
	return false
}

// Severity is low, medium, high or critical, as errors-and-retries.json has it:
// low is tried again, medium leaves a task out or to another, high needs a human,
// critical ends the run. A permission that is missing is never low.
func Severity(k Kind, s Strategy) string {
	switch {
	case s == Abort:
		return "critical"
	case s == Escalate:
		return "high"
	case s == Retry && k != Permission:
		return "low"
	}
	return "medium"
}
