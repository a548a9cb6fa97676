package accesspolicy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
	"ralph/workers/git/publish"
)

// history is how the commands of the coordinator reach the user's repository.
type history struct {
	layers *publish.History // nil: it is shown read-only
	why    string           // there are none
	said   *sync.Once       // of why
}

// maxLayers bounds how many repositories a command sees through layers, which cost
// it time; it sees more read-only.
const maxLayers = 8

// historyOptions says where layers over the user's repositories may be made: in the
// user's own directory for Ralph's state, in the project's, or in memory.
func (s *Sandbox) historyOptions(loc git.Location) publish.Options {
	name := "history-" + hashed(s.o.Project)
	o := publish.Options{Proc: s.o.Own, Git: loc, Root: s.o.Root, Refuse: s.refuses, Aside: filepath.Join(s.o.Project, ".ralph", "quarantine")}
	if s.o.State != "" {
		o.Records = filepath.Join(s.o.State, "history", name)
		o.Dirs = append(o.Dirs, o.Records)
	}
	o.Dirs = append(o.Dirs, filepath.Join(s.o.Project, ".ralph", name), filepath.Join("/dev/shm", "ralph-"+strconv.Itoa(os.Getuid())+"-"+name))
	return o
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
	h := history{said: &sync.Once{}}
	var err error
	if len(s.histories) > maxLayers {
		h.why = fmt.Sprintf("commands see the git repository read-only: there are more than %d in the project", maxLayers)
	} else if group := foreignGroup(loc.CommonDir, filepath.Join(loc.CommonDir, "objects"), filepath.Join(loc.CommonDir, "refs"), loc.GitDir); group != "" {
		h.why = fmt.Sprintf("commands see the git repository read-only: it belongs to the group %s, which the kernel does not let a layer have; with chgrp -R %d %q, or Ralph started by: newgrp %s, they can write to it", group, os.Getegid(), loc.CommonDir, group)
	} else if h.layers, err = publish.Open(s.historyOptions(loc)); err != nil {
		h.why = err.Error()
	}
	if s.histories == nil {
		s.histories = map[string]history{}
	}
	s.histories[loc.CommonDir] = h
	return h
}

// foreignGroup returns the group of the first directory that has another one than this
// process: the user namespace of an ordinary user's commands has no number for it, and
// an overlay makes nothing there (EOVERFLOW). "" for none, and for root.
func foreignGroup(dirs ...string) string {
	if os.Geteuid() == 0 {
		return ""
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Gid) != os.Getegid() {
			id := strconv.Itoa(int(st.Gid))
			if g, err := user.LookupGroupId(id); err == nil {
				return g.Name
			}
			return id
		}
	}
	return ""
}

// guarded are the repositories that commands cannot change: that of the tree, which
// is the first, and the others of the user in it.
func (s *Sandbox) guarded() []git.Location {
	var out []git.Location
	own := s.repository()
	if own != nil {
		out = append(out, *own)
	}
	for _, loc := range s.nestedRepos() {
		if own == nil || !below(own.CommonDir, loc.CommonDir) {
			out = append(out, loc)
		}
	}
	return out
}

// layers are what one command writes into repositories of the user.
type layers []repoLayer

type repoLayer struct {
	*publish.Command
	in string // begins what is said of a repository that is not the tree's own
}

// publish takes over what the command wrote, and reports it; not into a repository
// that was replaced meanwhile, which the command could write to itself.
func (l layers) publish(ctx context.Context, replaced []string) []string {
	var told []string
	for _, c := range l {
		if lost(c.Mount().Path, replaced) {
			told = append(told, prefixed(c.in, c.Drop("it was replaced from outside").Lines())...)
			continue
		}
		told = append(told, prefixed(c.in, c.Publish(ctx).Lines())...)
	}
	return told
}

func prefixed(in string, lines []string) []string {
	for i, line := range lines {
		lines[i] = in + line
	}
	return lines
}

// layer gives a foreground command layers in place of the read-only repositories.
func (s *Sandbox) layer(ctx context.Context, c *sandbox.Policy, o Call) (layers, []string, error) {
	if c == nil || s.o.ReadOnly || !s.overlaid() {
		return nil, nil, nil
	}
	var all layers
	var told []string
	own := s.repository()
	for _, loc := range s.guarded() {
		h := s.layersOf(loc)
		if h.layers == nil {
			if own != nil && loc.CommonDir == own.CommonDir {
				h.said.Do(func() { told = append(told, h.why) }) // git says less
			}
			continue
		}
		in := ""
		if own == nil || loc.CommonDir != own.CommonDir {
			in = "in " + s.rel(loc.Root) + ": "
		}
		cmd, rep, err := h.layers.Begin(ctx, publish.Grant{Acts: o.Acts, Network: o.Network, Guarded: c.Guard != nil})
		told = append(told, prefixed(in, rep.Lines())...)
		if err != nil && in == "" && !errors.Is(err, publish.ErrReadOnly) {
			return nil, told, err
		}
		if err != nil {
			told = append(told, in+err.Error())
			continue
		}
		all = append(all, repoLayer{cmd, in})
		m := cmd.Mount()
		c.Overlays = append(c.Overlays, sandbox.Overlay{Path: m.Path, Lower: []string{m.Lower}, Upper: m.Upper, Work: m.Work})
		c.Protect = slices.DeleteFunc(c.Protect, func(p string) bool { return below(m.Path, p) })
		c.Hide = append(c.Hide, h.layers.Dir())
	}
	return all, told, nil
}

// refuses returns why a change of the repository by objects alone is not taken over.
func (s *Sandbox) refuses(c publish.Change, g publish.Grant) string {
	why, class := s.Taken(c)
	rule := acts.Opening(class, c.Exists)
	switch {
	case why == "" || rule != "" && slices.Contains(g.Acts, class):
		return ""
	case rule != "":
		why += "; " + rule
	}
	return why
}

// Recover finishes what commands wrote into the user's repositories when the last
// Ralph was killed, and reports it. The caller holds the project's lock.
func (s *Sandbox) Recover(ctx context.Context) []string {
	if s.o.Root != s.o.Project {
		return nil
	}
	var loc git.Location
	if own := s.repository(); own != nil {
		loc = *own
	}
	told := publish.Recover(ctx, s.historyOptions(loc)).Lines()
	return slices.Concat(told, s.recoverBackups(ctx), s.recoverRunning())
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
	if !s.overlaid() {
		return ""
	}
	for _, loc := range s.guarded() {
		switch {
		case !below(loc.CommonDir, path) && !below(loc.GitDir, path):
		case background:
			return "a background command sees the git repository read-only; run git in the foreground"
		default:
			if why := s.layersOf(loc).why; why != "" {
				return why + "; the user can run git, or ask for the command with outside=true"
			}
		}
	}
	return ""
}
