package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ralph/workers/exec"
	"ralph/workers/regular"
)

const (
	timeout        = 2 * time.Minute
	maxOutputBytes = 64 << 20
)

// place is a git directory together with a work tree, and how git is started
// there.
type place struct {
	proc      *exec.Runner
	gitDir    string
	commonDir string
	workTree  string
	// raw switches off the user's own filters too.
	raw bool
	// own marks a repository of Ralph's own: nothing configures git there but the
	// settings in found.
	own bool
	// within starts git instead of proc, and is nil mostly: see Repo.Within.
	within Starter
	// found is what hostile found last in a raw place.
	found atomic.Pointer[hostileAt]
	// owned is set once git accepted that somebody else owns the files.
	owned atomic.Bool
}

// call is one start of git.
type call struct {
	args  []string // the first is the git command
	stdin []byte
	env   []string
	// allow are exit codes that are an answer, besides 0.
	allow []int
	// plain leaves pathspecs as they are; otherwise they are literal.
	plain bool
}

// setting is one override of the configuration.
type setting struct{ key, value string }

// overrides take away from the configuration everything that is executed and
// what changes the form of the output. They rank above every file.
func overrides() []setting {
	return []setting{
		{"core.fsmonitor", "false"}, {"core.hooksPath", "/dev/null"}, {"core.pager", "cat"}, {"core.editor", "true"},
		{"sequence.editor", "true"}, {"core.askPass", "true"}, {"core.sshCommand", "false"}, {"core.gitProxy", ""},
		{"core.alternateRefsCommand", ""}, {"credential.helper", ""}, {"diff.external", ""},
		{"commit.gpgSign", "false"}, {"tag.gpgSign", "false"}, {"log.showSignature", "false"},
		{"gpg.program", "false"}, {"gpg.ssh.program", "false"}, {"gpg.x509.program", "false"}, {"gpg.ssh.defaultKeyCommand", ""},
		{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"protocol.allow", "never"}, {"protocol.ext.allow", "never"},
		{"submodule.recurse", "false"}, {"status.submoduleSummary", "false"}, {"diff.submodule", "short"}, {"diff.ignoreSubmodules", "dirty"},
		{"core.splitIndex", "false"}, {"core.quotePath", "false"}, {"color.ui", "false"}, {"commit.verbose", "false"},
		{"i18n.commitEncoding", "utf-8"}, {"i18n.logOutputEncoding", "utf-8"}, {"advice.detachedHead", "false"},
	}
}

// environ is the environment of git. No transport is allowed by any
// configuration, so that a missing object of a partial clone starts nothing.
func environ(set []setting, extra []string) []string {
	return gitEnviron(exec.Environ(os.Environ()), set, extra)
}

// gitEnviron adds to an environment what keeps git from running anything else, and extra,
// which ranks above it.
func gitEnviron(env []string, set []setting, extra []string) []string {
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANGUAGE=") })
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ATTR_NOSYSTEM=1", "GIT_PAGER=cat",
		"GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_ASKPASS=true", "GIT_SSH_COMMAND=false", "GIT_ALLOW_PROTOCOL=none",
		"GIT_NO_LAZY_FETCH=1", "GIT_MERGE_AUTOEDIT=no", "GIT_NO_REPLACE_OBJECTS=1")
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(set)))
	for i, s := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s.value))
	}
	return exec.Last(append(env, extra...))
}

// run starts git and gives its output. Overrides go by the environment, as the
// name of a filter may hold a "=", which would end the name on a command line.
func (p *place) run(ctx context.Context, c call) ([]byte, error) {
	if err := p.checkOwner(ctx); err != nil {
		return nil, err
	}
	hostile, err := p.hostile(ctx)
	if err != nil {
		return nil, err
	}
	out, _, err := p.exec(ctx, c, append(overrides(), hostile.settings...), true)
	return out, err
}

// exec starts git with given overrides and gives output and exit code.
func (p *place) exec(ctx context.Context, c call, set []setting, explicit bool) ([]byte, int, error) {
	err := p.inputs(c.args[0])
	if err == nil {
		err = p.reflogs(c)
	}
	if err != nil {
		return nil, 0, &Error{Op: c.args[0], Path: p.workTree, Err: err}
	}
	argv := []string{"git", "--no-pager"}
	if explicit {
		// Explicit, so that core.worktree of the repository has no say.
		argv = append(argv, "--git-dir="+p.gitDir, "--work-tree="+p.workTree)
	}
	if !c.plain {
		argv = append(argv, "--literal-pathspecs")
	}
	env := c.env
	if explicit && p.commonDir != p.gitDir {
		// The file commondir of a worktree is where an agent may write: it must not
		// lead to a configuration that nobody looked at.
		env = append([]string{"GIT_COMMON_DIR=" + p.commonDir}, env...)
	}
	if p.own {
		env = append([]string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}, env...)
	}
	spec := exec.Spec{
		Argv: append(argv, c.args...), Dir: p.workTree, Env: environ(set, env),
		Split: true, MaxBytes: maxOutputBytes, Timeout: timeout, Tool: true,
	}
	if c.stdin != nil {
		spec.Stdin = bytes.NewReader(c.stdin)
	}
	run := p.proc.Run
	if p.within != nil {
		// The environment of confined commands is made by what starts them.
		run, spec.Env = p.within, gitEnviron(nil, set, env)
	}
	res, err := run(ctx, spec)
	if err != nil {
		var pe *exec.Error
		if errors.As(err, &pe) {
			return nil, 0, &Error{Op: c.args[0], Path: p.workTree, Err: err, Hint: "Ralph needs git in PATH"}
		}
		return nil, 0, fmt.Errorf("git %s in %q: %w", c.args[0], p.workTree, err)
	}
	if res.Waited != "" {
		return nil, 0, &Error{Op: c.args[0], Path: p.workTree, Err: regular.Endless(res.Waited)}
	}
	if res.TimedOut {
		return nil, 0, &Error{Op: c.args[0], Path: p.workTree, ExitCode: res.ExitCode, Err: fmt.Errorf("no end after %v", timeout)}
	}
	if res.ExitCode != 0 && !slices.Contains(c.allow, res.ExitCode) {
		return nil, res.ExitCode, p.failure(c, res)
	}
	if res.Stdout.Truncated() {
		return nil, res.ExitCode, &Error{Op: c.args[0], Path: p.workTree, Err: fmt.Errorf("output of %d bytes is more than Ralph reads", res.Stdout.Bytes)}
	}
	out := res.Stdout.Head
	return append(out, res.Stdout.Tail...), res.ExitCode, nil
}

// failure makes an error of what git said.
func (p *place) failure(c call, res exec.Result) error {
	said := strings.TrimSpace(res.Stderr.String())
	if said == "" {
		said = strings.TrimSpace(res.Stdout.String())
	}
	const most = 2000
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "…"
	}
	if said == "" {
		said = fmt.Sprintf("exit %d", res.ExitCode)
	}
	e := &Error{Op: c.args[0], Path: p.workTree, ExitCode: res.ExitCode, Err: errors.New(said)}
	switch {
	case strings.Contains(said, "dubious ownership"):
		e.Err = errors.New("somebody else owns the repository, so git does not trust it")
		e.Hint = "if you trust it: git config --global --add safe.directory " + p.workTree
	case strings.Contains(said, "index.lock"):
		e.Hint = "another git is at work here, or one crashed: end it, or if none runs delete " + p.gitDir + "/index.lock"
	case strings.Contains(said, "during a merge"), strings.Contains(said, "unmerged"):
		e.Hint = "finish or abort the merge first"
	case strings.Contains(said, "Permission denied"):
		e.Hint = "check the rights of the files in " + p.gitDir
	}
	return e
}

// checkOwner makes up for the check that git leaves out when it is told the git
// directory: files of another user are touched only if git, asked without it,
// accepts them (safe.directory).
func (p *place) checkOwner(ctx context.Context) error {
	if p.owned.Load() {
		return nil
	}
	mine := true
	for _, path := range []string{p.workTree, p.gitDir, p.commonDir} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("open repository: %w", err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
			mine = false
		}
	}
	if !mine {
		if _, _, err := p.exec(ctx, call{args: []string{"rev-parse", "--git-dir"}}, overrides(), false); err != nil {
			return err
		}
	}
	p.owned.Store(true)
	return nil
}
