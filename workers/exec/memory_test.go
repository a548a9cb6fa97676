package exec

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestCommandsReadNothingOfThisProcess: a command that is not confined runs as the same
// user, and still gets neither the environment of its Ralph, with the keys in it, nor its
// memory or files. For root this does not hold without a user namespace.
func TestCommandsReadNothingOfThisProcess(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every process; see TestOtherWays")
	}
	r := newRunner(t)
	if r.Method().Survives {
		t.Skip("this process cannot be seen by a command in a process namespace")
	}
	pid := strconv.Itoa(os.Getpid())
	for name, script := range map[string]string{
		"environment": "tr '\\0' '\\n' < /proc/P/environ", "parent": "cat /proc/$PPID/environ", "memory": "head -c 1 /proc/P/mem", "maps": "cat /proc/P/maps",
		"files": "ls /proc/P/fd", "open file": "cat < /proc/P/fd/0", "root": "ls /proc/P/root/", "directory": "ls /proc/P/cwd/", "program": "readlink /proc/P/exe",
		"threads": "cat /proc/P/task/*/environ", "stack": "cat /proc/P/stack", "auxv": "head -c 1 /proc/P/auxv",
		"tracing": "perl -e 'exit(syscall(101, 0x4206, P, 0, 0) == 0 ? 0 : 1)' && echo traced", // PTRACE_SEIZE on amd64
		"file":    "perl -e 'my $f = syscall(434, P, 0); exit(syscall(438, $f, 0, 0) >= 0 ? 0 : 1)' && echo taken",
	} {
		t.Run(name, func(t *testing.T) {
			res, err := r.Run(t.Context(), Spec{Argv: sh(regexp.MustCompile(`\bP\b`).ReplaceAllString(script, pid)), Split: true})
			if err != nil {
				t.Fatal(err)
			}
			if out := string(res.Stdout.Head); res.ExitCode == 0 || out != "" {
				t.Errorf("exit %d: %.200q", res.ExitCode, out)
			}
		})
	}
}
