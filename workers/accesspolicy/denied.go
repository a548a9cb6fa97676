package accesspolicy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ralph/workers/exec"
	"ralph/workers/exec/acts"
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
	saysNetwork = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)could not resolve (host|proxy)|name or service not known|temporary failure in name resolution|network is (unreachable|down)|` +
			`no such host|failed to lookup address|nodename nor servname|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b|dial (tcp|udp)[^\n]*(lookup|unreachable|connect: connection refused)|` +
			`failed to establish a new connection|unable to (access|connect to)[^\n]*https?://|unable to resolve|couldn't resolve host|no route to host|name resolution`)
	})
	saysSocket = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)connect to the docker daemon|docker\.sock|podman\.sock|(failed to )?connect to (the )?(system |session )?(bus|dbus)|could not open a connection to your authentication agent`)
	})
	// A quoted path after the words, or what stands right before them.
	pathAfter = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("^[^'\"]{0,40}['\"]([^'\"]+)['\"]")
	})
	pathBefore = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("(?:['\"`‘“]([^'\"`’”]+)['\"`’”]|([^\\s'\"`:(=]+))[\\s:,)(]*(?:[a-z ]{0,40}:\\s*)?$")
	})
	saysLimit = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)fork: (retry: )?resource temporarily unavailable|pthread_create failed|file size limit exceeded|\bEFBIG\b|file too large`)
	})
)

// refusedNames says which names a command was not allowed to make, a line for each class.
func (s *Sandbox) refusedNames(refused []exec.Refusal) []string {
	const most = 5
	var out []string
	for _, class := range acts.Classes() {
		var names []string
		more := 0
		for _, r := range refused {
			switch {
			case r.Class != class:
			case len(names) < most:
				names = append(names, s.rel(r.Path))
			default:
				more++
			}
		}
		if len(names) == 0 {
			continue
		}
		line := strings.Join(names, ", ")
		if more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		line += " could not be made in the user's tree: such a name " + acts.Why(class)
		if class != acts.Git && class != acts.Hook {
			line += fmt.Sprintf("; the user can allow it with --allow 'acts == %q', or write it with a file tool, which asks", class)
		}
		out = append(out, line)
	}
	return out
}

// denied says what names were refused to a command, and reads from the output of one that
// failed what the sandbox has denied it besides. That is a guess, which the words say, and
// never longer than four lines.
func (s *Sandbox) denied(res exec.Result, refused []exec.Refusal, o Call, background bool) []string {
	out := s.refusedNames(refused)
	if res.ExitCode == 0 {
		return out
	}
	text := strings.Join([]string{string(res.Stdout.Head), string(res.Stdout.Tail), string(res.Stderr.Head), string(res.Stderr.Tail)}, "\n")
	path, protected, found := s.deniedPath(text)
	if slices.ContainsFunc(refused, func(r exec.Refusal) bool { return below(r.Path, path) }) {
		found = false // it is named already
	}
	repository := s.readOnlyGit(path, background)
	switch {
	case !found:
	case repository != "":
		out = append(out, repository)
	case protected != "":
		out = append(out, "the sandbox keeps "+s.rel(path)+" read-only, because it "+protected+"; ask for the command with outside=true, and the user decides")
	case path != "":
		out = append(out, "the sandbox lets commands write only in the project, /tmp and its own caches, not to "+path+"; ask for the command with outside=true, and the user decides")
	default:
		out = append(out, "the sandbox lets commands write only in the project, /tmp and its own caches; ask for the command with outside=true, and the user decides")
	}
	if !o.Network && saysNetwork().MatchString(text) {
		out = append(out, "the sandbox has no network but its own loopback; the user can allow it with --allow 'network', or you ask for the command with outside=true")
	}
	if saysSocket().MatchString(text) {
		out = append(out, "the sandbox hides the sockets of other programs, as docker's and the desktop's; ask for the command with outside=true, and the user decides")
	}
	if saysLimit().MatchString(text) || res.Signal == "SIGXFSZ" {
		out = append(out, "the sandbox limits how many processes there are and how large a file gets")
	}
	return out
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
		path := s.named(line, at)
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

// named is the path that a line is about, absolute; "" when it names none.
func (s *Sandbox) named(line string, words []int) string {
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
		return filepath.Clean(path)
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
	s.mu.Lock()
	for _, c := range s.leased {
		open = append(open, c.Path)
	}
	s.mu.Unlock()
	return !slices.ContainsFunc(open, func(dir string) bool { return below(dir, path) })
}
