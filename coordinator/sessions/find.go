package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/retention"
	"ralph/memory/session"
)

// Find returns one session and its directory, absolute. which is a number, a
// name, or a unique beginning of one; empty means the newest in which something
// was said. A word with a slash that is the path of a directory, relative to
// dir, stands for the session's folder there, which need not be this project's.
func (s *Sessions) Find(which, dir string) (retention.Session, string, error) {
	if strings.ContainsRune(which, filepath.Separator) {
		path := which
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if info, err := s.o.FS.Stat(path); err == nil && info.IsDir() {
			return retention.Session{Name: filepath.Base(path), Path: path, Elsewhere: true}, path, nil
		}
	}
	st, err := s.scan(false)
	if err != nil {
		return retention.Session{}, "", err
	}
	var found retention.Session
	if strings.TrimSpace(which) == "" {
		last, err := session.Last(s.o.FS, s.stateDir())
		if errors.Is(err, session.ErrNotFound) {
			return found, "", &result.Error{Op: "find session", Err: errors.New("there is none in this project yet"), Status: result.Usage, Hint: "ralph chat begins one; ralph sessions import brings one"}
		}
		if err != nil {
			return found, "", &result.Error{Op: "find session", Err: err, Status: result.Failed, Hint: "ralph doctor looks at the state directory"}
		}
		which = last.ID
	}
	if found, err = find(st.Sessions, which); err != nil {
		var none *result.Error
		if info, serr := s.o.FS.Stat(filepath.Join(dir, which)); serr == nil && info.IsDir() && errors.As(err, &none) {
			none.Hint = fmt.Sprintf("the folder here is .%c%s", filepath.Separator, which)
		}
		return found, "", err
	}
	return found, s.home(found), nil
}

// home is the directory of a session of the project, absolute.
func (s *Sessions) home(x retention.Session) string {
	return session.Home(s.o.FS, filepath.Join(s.stateDir(), filepath.FromSlash(x.Path)), s.stateDir())
}

// Learn adds entries to AGENT.md that do not stand there yet, told by their What,
// and returns how many. dry only counts them, and needs no lock.
func (s *Sessions) Learn(ctx context.Context, list []memory.Learning, dry bool) (added int, err error) {
	if dry {
		list, err = s.unknown(list)
		return len(list), err
	}
	if err := s.o.owned().Check(); err != nil {
		return 0, err
	}
	store, found, err := memory.Open(ctx, memory.Options{FS: s.o.FS, Root: s.o.Root, Now: s.o.Now, Holder: holderSessions, SessionID: s.o.RunID, LockWait: orderWait, Redact: s.redact, Owner: s.o.owned().Owner()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, w := range found.Warnings {
		s.warn(w)
	}
	if found.ReadOnly {
		return 0, &result.Error{Op: "add to", Path: filepath.Join(s.o.Root, memory.AgentFile), Err: errors.New("nothing can be saved in this project"), Status: result.Failed, Hint: "ralph doctor says why"}
	}
	if list, err = s.unknown(list); err != nil {
		return 0, err
	}
	for _, l := range list {
		if err := store.Learn(l); err != nil {
			return added, fmt.Errorf("add to %s: %w", memory.AgentFile, err)
		}
		added++
	}
	return added, nil
}

// unknown are the entries of a list that do not stand in AGENT.md, each once.
func (s *Sessions) unknown(list []memory.Learning) (fresh []memory.Learning, err error) {
	data, err := durable.ReadFile(s.o.FS, filepath.Join(s.o.Root, memory.AgentFile), maxAgentBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", memory.AgentFile, err)
	}
	known := whats(string(data))
	for _, l := range list {
		what := plainWords(s.redact(l.What))
		if known[what] {
			continue
		}
		known[what] = what != ""
		fresh = append(fresh, l)
	}
	return fresh, nil
}

// maxAgentBytes bounds AGENT.md where what stands in it is looked for.
const maxAgentBytes = 64 << 20

// whats are the What of the entries of AGENT.md, in plain words: on the line of the
// key, or in the paragraph or the fence that follows it.
func whats(text string) map[string]bool {
	found := map[string]bool{}
	var value []string
	open, fence := false, ""
	end := func() {
		found[plainWords(strings.Join(value, " "))] = open
		open, fence, value = false, "", nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key := strings.ReplaceAll(strings.TrimLeft(line, "-*+> \t"), "*", "")
		rest, is := strings.CutPrefix(key, "What:")
		marks := line[:len(line)-len(strings.TrimLeft(line, "`~"))]
		switch {
		case fence != "" && line == fence:
			end()
		case fence != "":
			value = append(value, line)
		case open && len(marks) >= 3 && len(value) == 0:
			fence = marks
		case is:
			end()
			open, value = true, strings.Fields(rest)
		case open && line == "" && len(value) == 0:
		case open && (line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "*")):
			end()
		case open:
			value = append(value, line)
		}
	}
	end()
	delete(found, "")
	return found
}

// plainWords is a text without what Markdown and line ends make of it.
func plainWords(s string) string {
	s = strings.NewReplacer("<! --", "<!--", "\\", "", "*", "").Replace(s)
	return strings.Join(strings.Fields(s), " ")
}
