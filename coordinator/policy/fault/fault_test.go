package fault_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ralph/coordinator/policy/fault"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name string
		f    fault.Facts
		want fault.Kind
	}{
		{"nothing known", fault.Facts{}, fault.Unknown},
		{"the reporter says", fault.Facts{Said: " Network"}, fault.Network},
		{"the reporter does not know", fault.Facts{Said: "unknown", ExitCode: 1}, fault.Execution},
		{"the reporter says nonsense", fault.Facts{Said: "martian", ExitCode: 1}, fault.Execution},
		{"denied beats all", fault.Facts{Denied: true, Quota: true, Said: "network"}, fault.Permission},
		{"quota", fault.Facts{Quota: true, Said: "execution"}, fault.Resource},
		{"429", fault.Facts{Status: 429}, fault.Resource},
		{"402", fault.Facts{Status: 402}, fault.Resource},
		{"401", fault.Facts{Status: 401}, fault.Permission},
		{"403", fault.Facts{Status: 403}, fault.Permission},
		{"503", fault.Facts{Status: 503}, fault.Network},
		{"408", fault.Facts{Status: 408}, fault.Network},
		{"weakened", fault.Facts{Weakened: true}, fault.Validation},
		{"conflict", fault.Facts{Conflict: true, ExitCode: 1}, fault.Validation},
		{"check failed", fault.Facts{Check: true, ExitCode: 1, Output: "connection refused"}, fault.Validation},
		{"check not found", fault.Facts{Check: true, ExitCode: 127}, fault.Dependency},
		{"check not executable", fault.Facts{Check: true, ExitCode: 126}, fault.Permission},
		{"check hangs", fault.Facts{Check: true, TimedOut: true}, fault.Resource},
		{"timed out", fault.Facts{TimedOut: true}, fault.Resource},
		{"killed", fault.Facts{Signal: true, ExitCode: 137}, fault.Resource},
		{"crashed", fault.Facts{Signal: true, ExitCode: 139}, fault.Execution},
		{"program missing", fault.Facts{ExitCode: 127}, fault.Dependency},
		{"no space", fault.Facts{Output: "write x: No space left on device", ExitCode: 1}, fault.Resource},
		{"rate limit", fault.Facts{Output: "Error: rate_limit_exceeded"}, fault.Resource},
		{"refused", fault.Facts{Output: "dial tcp 127.0.0.1:1: connect: connection refused"}, fault.Network},
		{"name", fault.Facts{Output: "getaddrinfo ENOTFOUND registry.npmjs.org"}, fault.Network},
		{"no right", fault.Facts{Output: "open /etc/x: permission denied", ExitCode: 1}, fault.Permission},
		{"module", fault.Facts{Output: "ModuleNotFoundError: No module named 'x'", ExitCode: 1}, fault.Dependency},
		{"command", fault.Facts{Output: "sh: 1: foo: command not found", ExitCode: 1}, fault.Dependency},
		{"assertion", fault.Facts{Output: "AssertionError: 1 != 2", ExitCode: 1}, fault.Validation},
		{"panic", fault.Facts{Output: "panic: runtime error: index out of range", ExitCode: 2}, fault.Execution},
		{"only the end is read", fault.Facts{Output: "connection refused" + strings.Repeat("x", 10000)}, fault.Unknown},
	} {
		if got := fault.Classify(c.f); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRespond(t *testing.T) {
	plan := map[string]string{"network": "abort", "default": "escalate", "execution": "nonsense"}
	three := fault.Rules{Retries: 3}
	for _, c := range []struct {
		name     string
		kind     fault.Kind
		r        fault.Rules
		failures int
		after    time.Duration
		want     fault.Strategy
		wait     time.Duration
	}{
		{"first failure", fault.Network, three, 1, 0, fault.Retry, time.Second},
		{"second", fault.Network, three, 2, 0, fault.Retry, 2 * time.Second},
		{"third", fault.Network, three, 3, 0, fault.Retry, 4 * time.Second},
		{"used up", fault.Network, three, 4, 0, fault.Skip, 0},
		{"no retries", fault.Network, fault.Rules{}, 1, 0, fault.Skip, 0},
		{"capped", fault.Execution, fault.Rules{Retries: 100}, 40, 0, fault.Retry, time.Minute},
		{"seventh", fault.Execution, fault.Rules{Retries: 100}, 7, 0, fault.Retry, time.Minute},
		{"sixth", fault.Execution, fault.Rules{Retries: 100}, 6, 0, fault.Retry, 32 * time.Second},
		{"asked to wait", fault.Resource, three, 1, 10 * time.Minute, fault.Retry, 10 * time.Minute},
		{"asked to wait less", fault.Resource, three, 3, time.Second, fault.Retry, 4 * time.Second},
		{"a check's output is at once", fault.Validation, three, 2, 0, fault.Retry, 0},
		{"permission asks", fault.Permission, three, 1, 0, fault.Escalate, 0},
		{"dependency has no other", fault.Dependency, three, 1, 0, fault.Retry, time.Second},
		{"dependency has another", fault.Dependency, fault.Rules{Retries: 3, Alternative: true}, 1, 0, fault.Alternative, 0},
		{"unknown", fault.Unknown, three, 1, 0, fault.Retry, time.Second},
		{"flag over all", fault.Network, fault.Rules{Flag: "skip", Task: "abort", Plan: plan, Retries: 3}, 1, 0, fault.Skip, 0},
		{"task over plan", fault.Network, fault.Rules{Task: "Retry", Plan: plan, Retries: 3}, 1, 0, fault.Retry, time.Second},
		{"plan by kind", fault.Network, fault.Rules{Plan: plan, Retries: 3}, 1, 0, fault.Abort, 0},
		{"plan's default", fault.Resource, fault.Rules{Plan: plan, Retries: 3}, 1, 0, fault.Escalate, 0},
		{"a word that is none", fault.Execution, fault.Rules{Plan: plan, Retries: 3}, 1, 0, fault.Escalate, 0},
	} {
		got := fault.Respond(c.kind, c.r, c.failures, c.after)
		if got.Strategy != c.want || got.Wait != c.wait || got.Reason == "" {
			t.Errorf("%s: %+v, want %s after %v", c.name, got, c.want, c.wait)
		}
	}
}

func TestWaitsGrowAndEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]fault.Kind{"validation", "execution", "resource", "permission", "network", "dependency", "unknown", "martian"}).Draw(t, "kind")
		r := fault.Rules{Flag: rapid.SampledFrom([]string{"", "retry", "x"}).Draw(t, "flag"), Retries: rapid.IntRange(-1, 50).Draw(t, "retries")}
		n := rapid.IntRange(-3, 80).Draw(t, "n")
		a, b := fault.Respond(kind, r, n, 0), fault.Respond(kind, r, n+1, 0)
		if a.Wait < 0 || a.Wait > fault.MaxWait || b.Strategy == fault.Retry && (a.Strategy != fault.Retry || b.Wait < a.Wait) {
			t.Fatalf("%+v then %+v", a, b)
		}
		if n > max(0, r.Retries) && a.Strategy == fault.Retry {
			t.Fatalf("retry %d of %d", n, r.Retries)
		}
	})
}

func TestSeverity(t *testing.T) {
	for _, c := range []struct {
		k    fault.Kind
		s    fault.Strategy
		want string
	}{{fault.Network, fault.Retry, "low"}, {fault.Permission, fault.Retry, "medium"}, {fault.Unknown, fault.Skip, "medium"}, {fault.Unknown, fault.Alternative, "medium"}, {fault.Unknown, fault.Escalate, "high"}, {fault.Network, fault.Abort, "critical"}} {
		if got := fault.Severity(c.k, c.s); got != c.want {
			t.Errorf("%s %s: %s", c.k, c.s, got)
		}
	}
}
