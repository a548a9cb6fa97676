package accesspolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ralph/workers/exec"
	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
)

// What programs say when the sandbox stops them, each with the path it was about
// where they name one.
var (
	saysReadOnly = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)read-only file ?system|\bEROFS\b|os error 30\b`)
	})
	saysDenied = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)permission denied|operation not permitted|\bEACCES\b|\bEPERM\b|device or resource busy|\bEBUSY\b|invalid cross-device link|\bEXDEV\b`)
	})
	saysMissing = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)no such file|\bENOENT\b|does not exist|not found|cannot find|os error 2\b`)
	})
	saysNetwork = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)could not resolve (host|proxy)|name or service not known|temporary failure in name resolution|network is (unreachable|down)|` +
			`no such host|failed to lookup address|nodename nor servname|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b|dial (tcp|udp)[^\n]*(lookup|unreachable|connect: connection refused)|` +
			`failed to establish a new connection|unable to (access|connect to)[^\n]*https?://|unable to resolve|couldn't resolve host|no route to host|name resolution`)
	})
	saysSocket = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)connect to the docker daemon|docker\.sock|podman\.sock|(failed to )?connect to (the )?(system |session )?(bus|dbus)|could not open a connection to your authentication agent`)
	})
	saysBusy = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)device or resource busy|\bEBUSY\b|os error 16\b`)
	})
	// A quoted path after the words, or what stands right before them.
	pathAfter = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("^[^'\"]{0,40}['\"]([^'\"]+)['\"]")
	})
	pathBefore = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("(?:['\"`‘“]([^'\"`’”]+)['\"`’”]|([^\\s'\"`:(=]+))[\\s:,)(]*(?:[a-z ]{0,40}:\\s*)?$")
	})
	saysProcesses = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)fork: (retry: )?resource temporarily unavailable|cannot fork|pthread_create failed|failed to create new OS thread|can't start new thread|unable to create native thread`)
	})
	saysLarge = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)file size limit exceeded|\bEFBIG\b|file too large`)
	})
	saysMemory = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)cannot allocate memory|out of memory|bad_alloc|\bMemoryError\b|\bENOMEM\b|memory allocation of \d+ bytes failed|virtual memory exhausted|insufficient memory for the Java|os error 12\b`)
	})
	saysSanitizer = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Sanitizer failed to allocate|Sanitizer can ?not mmap|ReserveShadowMemoryRange failed`)
	})
)

// refusedNames says which names a command was not allowed to make or change, a line for
// each class.
func (s *Sandbox) refusedNames(refused exec.Refusals) []string {
	var out []string
	for _, class := range acts.Classes() {
		var names []string
		for _, r := range refused.Names {
			if r.Class == class && r.Key == "" {
				names = append(names, s.rel(r.Path))
			}
		}
		if len(names) == 0 {
			continue
		}
		line := listed(names) + " could not be made or changed in the user's tree: such a name " + acts.Why(class)
		if class != acts.Git && class != acts.Hook {
			line += fmt.Sprintf("; the user can allow it with --allow 'acts == %q', or write it with a file tool, which asks", class)
		}
		out = append(out, line)
	}
	var without []string
	for _, r := range refused.Names {
		if r.Key != "" {
			without = append(without, s.rel(r.Path)+" ("+r.Key+")")
		}
	}
	if len(without) > 0 {
		out = append(out, "a setting by which git may run something was left out of "+listed(without)+": in a repository that a command makes only harmless settings stay; in your own commands give others with git -c, or the user sets them afterwards")
	}
	if len(refused.Freed) > 0 {
		var names []string
		for _, path := range refused.Freed {
			names = append(names, s.rel(path))
		}
		out = append(out, "made in directories of dependencies, where they are allowed: "+listed(names)+"; editors, shells and other agents obey such names when somebody opens or enters those directories")
	}
	if live := listening(refused.Sockets); len(live) > 0 {
		var paths []string
		for _, path := range live {
			paths = append(paths, s.rel(path))
		}
		out = append(out, "no connection to "+listed(paths)+": a command without the network reaches only sockets that it has made itself; the user can allow it with --allow 'network'")
	}
	if refused.Undone {
		out = append(out, "git would have changed that as well, so its whole change of the work tree was taken back: nothing is left half done")
	}
	if len(refused.Left) > 0 {
		var left []string
		for _, path := range refused.Left {
			left = append(left, s.rel(path))
		}
		out = append(out, "of it these could not be taken back: "+listed(left)+"; git checkout HEAD -- PATH gives what git has of them")
	}
	return out
}

// listening returns the paths of a list by whose names programs of the user listen, see
// proc_pid_net(5).
func listening(paths []string) []string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil || len(paths) == 0 {
		return nil
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 8 {
			names[filepath.Base(f[7])] = true
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !names[filepath.Base(path)] })
}

// listed names the first of a list.
func listed(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// denied says what names were refused to a command, and reads from the output of one that
// failed what the sandbox has denied it besides. That is a guess, which the words say, and
// never longer than four lines.
func (s *Sandbox) denied(res exec.Result, refused exec.Refusals, o Call, background bool) []string {
	out := s.refusedNames(refused)
	if res.ExitCode == 0 {
		return out
	}
	text := strings.Join([]string{string(res.Stdout.Head), string(res.Stdout.Tail), string(res.Stderr.Head), string(res.Stderr.Tail)}, "\n")
	if path := s.hiddenPath(text); path != "" {
		out = append(out, "hidden by the sandbox: "+s.tilde(path)+"; the user can show it with --sandbox-read "+s.tilde(path)+" or sandbox_read in the user's configuration")
	}
	path, protected, found := s.deniedPath(text)
	if slices.ContainsFunc(refused.Names, func(r exec.Refusal) bool { return below(r.Path, path) || strings.HasSuffix(r.Path, "/"+s.rel(path)) }) {
		found = false // it is named already
	}
	repository := s.readOnlyGit(path, background)
	held := s.heldRepository(text)
	switch {
	case held != "":
		out = append(out, s.rel(held)+" holds a git repository, submodule or work tree that was there before: commands can neither move nor remove it; the user can, or ask for the command with outside=true")
	case !found:
	case repository != "":
		out = append(out, repository)
	case protected != "":
		out = append(out, "the sandbox keeps "+s.rel(path)+" read-only, because it "+protected+"; ask for the command with outside=true, and the user decides")
	case path != "":
		out = append(out, "the sandbox lets commands write only in the project, /tmp and its own caches, not to "+path+"; the user can allow it with sandbox_write in the user's configuration, or you ask for the command with outside=true")
	default:
		out = append(out, "the sandbox lets commands write only in the project, /tmp and its own caches; ask for the command with outside=true, and the user decides")
	}
	if !o.Network && saysNetwork().MatchString(text) {
		out = append(out, "the sandbox has no network but its own loopback; the user can allow it with --allow 'network', or you ask for the command with outside=true")
	}
	if saysSocket().MatchString(text) {
		out = append(out, "the sandbox hides the sockets of other programs, as docker's and the desktop's; ask for the command with outside=true, and the user decides")
	}
	if saysProcesses().MatchString(text) {
		out = append(out, fmt.Sprintf("the sandbox limits the processes and threads of a command: %d at a time", sandbox.DefaultProcesses))
	}
	if saysLarge().MatchString(text) || res.Signal == "SIGXFSZ" {
		out = append(out, "the sandbox limits how large a file gets: "+size(MaxFileBytes))
	}
	switch {
	case s.o.Memory <= 0:
	case saysSanitizer().MatchString(text):
		out = append(out, "command_memory limits the data of each process, and sanitizers reserve more; the user can lift it with --command-memory 0")
	case saysMemory().MatchString(text):
		out = append(out, "command_memory limits the data of each process to "+size(s.o.Memory)+", which may be why; the user can raise it with --command-memory SIZE (0 is no limit)")
	}
	return out
}

// bounded says which bound of the session a command met.
func bounded(res exec.Result) []string {
	switch res.Limit {
	case exec.KeyMemory:
		return []string{"all commands together used more memory than session_memory allows, and the largest was ended; the user can raise it with --session-memory SIZE"}
	case exec.KeyOutput:
		return []string{"no more of the output was kept: the files with output of this session have reached session_output; the user can raise it with --session-output SIZE"}
	}
	return nil
}

// size is a number of bytes for people.
func size(bytes int64) string {
	if bytes >= 1<<30 {
		return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', -1, 64) + " GiB"
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', -1, 64) + " MiB"
}

// hiddenPath finds the line that complains of a file that is there and that commands do not
// see, and returns its path; "" without one.
func (s *Sandbox) hiddenPath(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := saysMissing().FindStringIndex(line)
		if at == nil {
			if at = saysDenied().FindStringIndex(line); at == nil {
				continue
			}
		}
		if path := s.pathIn(line, at); path != "" && s.conceals(path) {
			return path
		}
	}
	return ""
}

// conceals reports whether what is at a path is hidden as a home or a place of credentials.
func (s *Sandbox) conceals(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	holds := func(dir string) bool { return below(dir, real) }
	seen := slices.Concat(s.workTree(), s.tools().shown, s.named(s.o.Read), s.named(s.o.Write), []string{s.o.Root, s.o.Project})
	return slices.ContainsFunc(slices.Concat(s.homes(), s.toolDirs(), s.credentialPaths()), holds) && (!slices.ContainsFunc(seen, holds) || slices.ContainsFunc(s.tools().secrets, holds))
}

// heldRepository returns the root of the repository in the tree that a command was about to move
// or remove by what its output complains of; "" for none.
func (s *Sandbox) heldRepository(text string) string {
	for line := range strings.Lines(text) {
		if !saysBusy().MatchString(line) {
			continue
		}
		repos, _ := s.inTree()
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`‘’“”,:", r) }) {
			path := filepath.Clean(word)
			if !filepath.IsAbs(path) {
				path = filepath.Join(s.o.Root, path)
			}
			i := slices.IndexFunc(repos, func(r git.Location) bool {
				return r.Root != s.o.Root && below(s.o.Root, path) && path != s.o.Root && (below(path, r.Root) || path == filepath.Join(r.Root, ".git"))
			})
			if i >= 0 {
				return repos[i].Root
			}
		}
	}
	return ""
}

// tilde is a path as the user writes it.
func (s *Sandbox) tilde(path string) string {
	if rest, found := strings.CutPrefix(path, s.home+"/"); found && s.home != "" {
		return "~/" + rest
	}
	return path
}

// deniedPath finds the line that tells of a write which the sandbox refuses.
// "Permission denied" means that only about a path where it would.
func (s *Sandbox) deniedPath(text string) (path, protected string, found bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := saysReadOnly().FindStringIndex(line)
		readOnly := at != nil
		if !readOnly {
			if at = saysDenied().FindStringIndex(line); at == nil {
				continue
			}
		}
		path := s.pathIn(line, at)
		if !readOnly && path != "" && s.conceals(path) {
			continue // it cannot even be read
		}
		if readOnly && s.readOnlyGit(path, true) != "" {
			return path, "", true
		}
		if why := s.protectedAt(path); path != "" && why != "" {
			return path, why, true
		}
		if readOnly || path != "" && s.outside(path) {
			return path, "", true
		}
	}
	return "", "", false
}

// pathIn is the path that a line is about, absolute; "" when it names none.
func (s *Sandbox) pathIn(line string, words []int) string {
	path := ""
	if m := pathAfter().FindStringSubmatch(line[words[1]:]); m != nil {
		path = m[1]
	} else if m := pathBefore().FindStringSubmatch(line[:words[0]]); m != nil {
		path = m[1] + m[2]
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(s.home, rest)
	}
	switch {
	case path == "" || !strings.ContainsAny(path, "/."):
		return ""
	case filepath.IsAbs(path):
		path = filepath.Clean(path)
		s.mu.Lock()
		own := s.ownHome
		s.mu.Unlock()
		if own != nil && below(own.Path, path) {
			return s.home + strings.TrimPrefix(path, own.Path)
		}
		return path
	}
	return filepath.Join(s.o.Root, path)
}

// protectedAt says why a path of the tree is read-only; "" when it is not.
func (s *Sandbox) protectedAt(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts[:len(parts)-1] {
		if acts.Fold(parts[i]) == ".git" && guardedRepo(acts.Fold(parts[i+1])) != "" {
			return whyGit
		}
	}
	loc := s.repository()
	for at := path; len(at) > 1 && at != s.o.Root; at = filepath.Dir(at) {
		for _, d := range s.guardedDirs(loc) {
			if filepath.Dir(at) == d.path {
				if why := d.why(acts.Fold(filepath.Base(at))); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// outside says that commands may not write to a path.
func (s *Sandbox) outside(path string) bool {
	path = filepath.Clean(path)
	if s.o.ReadOnly && below(s.o.Root, path) {
		return true
	}
	open := []string{s.o.Root, "/tmp", "/var/tmp", "/dev", "/proc"}
	open = append(open, s.named(s.o.Write)...)
	s.mu.Lock()
	for _, c := range s.leased {
		open = append(open, c.Path)
	}
	s.mu.Unlock()
	return !slices.ContainsFunc(open, func(dir string) bool { return below(dir, path) })
}
