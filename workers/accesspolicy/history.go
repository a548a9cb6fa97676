package accesspolicy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
	"ralph/workers/git/publish"
)

// history is how the commands of the coordinator reach the user's repository.
type history struct {
	layers *publish.History // nil: it is shown read-only
	why    string           // there are none
}

// historyOptions says where layers over the user's repository may be made: in the
// user's own directory for Ralph's state, in the project's, or in memory.
func (s *Sandbox) historyOptions(loc git.Location) publish.Options {
	sum := sha256.Sum256([]byte(loc.CommonDir))
	name := "history-" + hex.EncodeToString(sum[:8])
	var dirs []string
	if s.o.State != "" {
		dirs = append(dirs, filepath.Join(s.o.State, "history", name))
	}
	dirs = append(dirs, filepath.Join(s.o.Project, ".ralph", name), filepath.Join("/dev/shm", "ralph-"+strconv.Itoa(os.Getuid())+"-"+name))
	return publish.Options{Proc: s.o.Own, Git: loc, Root: s.o.Root, Dirs: dirs}
}

// overlaid reports whether the repository of the tree is shown to commands
// through a layer or read-only, so that none can change it.
func (s *Sandbox) overlaid() bool {
	return s.o.Root == s.o.Project && s.layers().Active("mount namespace")
}

// layersOf opens the layers of the repository, once.
func (s *Sandbox) layersOf(loc git.Location) history {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.histories[loc.CommonDir]; ok {
		return h
	}
	var h history
	var err error
	if h.layers, err = publish.Open(s.historyOptions(loc)); err != nil {
		h.why = err.Error()
	}
	if s.histories == nil {
		s.histories = map[string]history{}
	}
	s.histories[loc.CommonDir] = h
	return h
}

// layer gives a foreground command a layer in place of the read-only repository.
// The command is nil where there is none.
func (s *Sandbox) layer(ctx context.Context, c *sandbox.Policy) (*publish.Command, []string, error) {
	loc := s.repository()
	if c == nil || loc == nil || s.o.ReadOnly || !s.overlaid() {
		return nil, nil, nil
	}
	h := s.layersOf(*loc)
	if h.layers == nil {
		return nil, nil, nil
	}
	cmd, rep, err := h.layers.Begin(ctx)
	if err != nil {
		return nil, rep.Lines(), err
	}
	m := cmd.Mount()
	c.Overlays = append(c.Overlays, sandbox.Overlay{Path: m.Path, Lower: []string{m.Lower}, Upper: m.Upper, Work: m.Work})
	c.Protect = slices.DeleteFunc(c.Protect, func(p string) bool { return below(m.Path, p) })
	c.Hide = append(c.Hide, h.layers.Dir())
	return cmd, rep.Lines(), nil
}

// Recover finishes what commands wrote into the user's repository when the last
// Ralph was killed, and reports it. The caller holds the project's lock.
func (s *Sandbox) Recover(ctx context.Context) []string {
	loc := s.repository()
	if loc == nil || s.o.Root != s.o.Project {
		return nil
	}
	return publish.Recover(ctx, s.historyOptions(*loc)).Lines()
}

// Settle publishes what a stop put off, and reports it. Commands have ended.
func (s *Sandbox) Settle(ctx context.Context) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for _, h := range s.histories {
		if h.layers == nil {
			continue
		}
		rep, err := h.layers.Close(ctx)
		told = append(told, rep.Lines()...)
		if err != nil {
			told = append(told, "layers of the git repository stay behind: "+err.Error())
		}
	}
	return told
}

// readOnlyGit says why a command cannot write to a path of the repository; ""
// where it can, or the path is elsewhere.
func (s *Sandbox) readOnlyGit(path string, background bool) string {
	loc := s.repository()
	if loc == nil || !s.overlaid() || !below(loc.CommonDir, path) && !below(loc.GitDir, path) {
		return ""
	}
	if background {
		return "a background command sees the git repository read-only; run git in the foreground"
	}
	if why := s.layersOf(*loc).why; why != "" {
		return why + "; the user can run git, or ask for the command with outside=true"
	}
	return ""
}
