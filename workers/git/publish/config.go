package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// maxConfigBytes bounds a configuration that is read.
const maxConfigBytes = 1 << 20

// setting is one value of a configuration.
type setting struct{ section, sub, name, value string }

func (s setting) key() string {
	if s.sub == "" {
		return s.section + "." + s.name
	}
	return s.section + "." + s.sub + "." + s.name
}

// line is the setting as git reads it in a file.
func (s setting) line() string {
	head := s.section
	if s.sub != "" {
		head += fmt.Sprintf(" %q", s.sub)
	}
	return fmt.Sprintf("[%s]\n\t%s = %q\n", head, s.name, s.value)
}

// settings has git read a configuration, without what it includes.
func (p *publication) settings(ctx context.Context, path string) ([]setting, error) {
	at := filepath.Join(p.dir, "plain")
	in := &intake{proc: p.h.o.Proc, dir: p.dir, common: p.h.o.Git.CommonDir, oidLen: 20}
	if err := in.gitDir("plain", nil); err != nil {
		return nil, err
	}
	out, _, err := git.Open(p.h.o.Proc, git.Location{Root: at, GitDir: at, CommonDir: at}).Plumbing().Run(ctx, git.Call{
		Args: []string{"config", "--file", path, "--no-includes", "--list", "-z"}})
	if err != nil {
		return nil, err
	}
	var list []setting
	for text := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, value, set := strings.Cut(text, "\n")
		if !set {
			value = "true"
		}
		s := setting{value: value}
		s.section, s.name, _ = strings.Cut(key, ".")
		if dot := strings.LastIndexByte(s.name, '.'); dot >= 0 {
			s.sub, s.name = s.name[:dot], s.name[dot+1:]
		}
		list = append(list, s)
	}
	return list, nil
}

// moduleConfig returns what is harmless of the configuration of a submodule.
func (p *publication) moduleConfig(ctx context.Context, l layer) ([]byte, error) {
	if l.look("config") != file {
		return nil, errors.New("it has no configuration")
	}
	if _, err := l.read("config", maxConfigBytes); err != nil {
		return nil, err
	}
	list, err := p.settings(ctx, filepath.Join(l.upper, "config"))
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, s := range list {
		if p.harmless(l, s) {
			text.WriteString(s.line())
		}
	}
	return []byte(text.String()), nil
}

// config reads which settings the command made for submodules whose repositories
// are there, and names the others that it changed.
func (p *publication) config(ctx context.Context, pl *plan) {
	l := pl.l
	switch l.look("config") {
	case same:
		return
	case file:
	default:
		p.rep.Dropped = append(p.rep.Dropped, "config")
		return
	}
	now, err := l.read("config", maxConfigBytes)
	if was := config(l.lower); err == nil && string(was) == string(now) {
		return
	}
	var before, after []setting
	if err == nil {
		after, err = p.settings(ctx, filepath.Join(l.upper, "config"))
	}
	if err == nil {
		before, err = p.settings(ctx, filepath.Join(l.lower, "config"))
	}
	if err != nil {
		p.rep.Dropped = append(p.rep.Dropped, "config")
		return
	}
	var names []string
	for _, s := range after {
		switch {
		case slices.Contains(before, s):
		case s.section == "submodule" && git.GoodPath(s.sub) && exists(filepath.Join(l.lower, "modules", s.sub, "HEAD")) && !set(before, s) && p.harmless(l, s):
			pl.config = append(pl.config, s)
		default:
			names = append(names, printable(s.key()))
		}
	}
	for _, s := range before {
		if !slices.Contains(after, s) && !set(after, s) {
			names = append(names, printable(s.key())+", removed")
		}
	}
	if len(names)+len(pl.config) == 0 && !p.again { // its form alone, or it was configured before the kill
		p.rep.Dropped = append(p.rep.Dropped, "config")
	}
	const most = 5
	if names = unique(names); len(names) > most {
		names = append(names[:most], "…")
	}
	if len(names) > 0 {
		p.rep.Dropped = append(p.rep.Dropped, "config ("+strings.Join(names, "; ")+")")
	}
}

// set reports whether a configuration has a value for the key of s.
func set(list []setting, s setting) bool {
	return slices.ContainsFunc(list, func(o setting) bool { return o.key() == s.key() })
}

// configText is the configuration of the repository with the settings that are
// new in it.
func (pl *plan) configText() []byte {
	text := config(pl.l.lower)
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	for _, s := range pl.config {
		text = append(text, s.line()...)
	}
	return text
}

// configure adds settings to the configuration of the repository, under git's
// lock. What the user has set meanwhile stays.
func (p *publication) configure(ctx context.Context, pl *plan) error {
	if len(pl.config) == 0 {
		return nil
	}
	at := filepath.Join(pl.l.lower, "config")
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%q is not a regular file", at))
	}
	lock := at + ".lock"
	if err := lockFor(ctx, lock, nil); err != nil {
		return err
	}
	now, err := p.settings(ctx, at)
	pl.config = slices.DeleteFunc(pl.config, func(s setting) bool { return set(now, s) })
	if err == nil {
		err = os.WriteFile(lock, pl.configText(), 0o644)
	}
	if err == nil {
		err = os.Chmod(lock, info.Mode().Perm())
	}
	if err == nil {
		p.h.step("config")
		err = os.Rename(lock, at)
	}
	if err != nil {
		_ = os.Remove(lock) // one that stays is in the journal
	}
	return err
}

// harmless reports settings of a submodule that make git run nothing and lead it
// nowhere but to the work tree.
func (p *publication) harmless(l layer, s setting) bool {
	name, value := s.name, s.value
	if printable(value) != value || printable(s.sub) != s.sub {
		return false
	}
	switch s.section {
	case "core":
		if name == "worktree" {
			return !filepath.IsAbs(value) && below(p.h.o.Root, filepath.Join(l.lower, value))
		}
		return slices.Contains([]string{"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks"}, name)
	case "extensions":
		return name == "objectformat"
	case "remote":
		return (name == "url" || name == "fetch") && !strings.Contains(value, "::") && !strings.HasPrefix(value, "-")
	case "branch":
		return name == "remote" || name == "merge"
	case "submodule":
		return name == "active" || name == "url" && !strings.Contains(value, "::") && !strings.HasPrefix(value, "-")
	}
	return false
}
