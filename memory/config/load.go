package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ralph/memory/durable"
)

// loader is the state of one Load.
type loader struct {
	cfg    *Config
	byName map[string]*Key
	env    map[string]string
	err    Error

	openToOthers bool // the user's file is readable by others
	keyInFile    bool // the user's file holds a key
}

// Load reads all sources. The Config is never nil: with an error it holds what
// could be read, so that the error can be reported in the form that was asked
// for. The error is an *Error that lists the problems of all sources at once.
//
// A project file that is not valid is an error too, never a silent change of
// what Ralph does; a key in it that would grant something is left out, with a
// warning.
func Load(s Sources) (*Config, error) {
	if s.FS == nil {
		s.FS = durable.Disk()
	}
	l := newLoader(s)
	// From the weakest source to the strongest: each overrides what it sets.
	if s.ProjectFile != "" {
		file{path: s.ProjectFile, project: true, l: l}.load(s.FS)
	}
	if s.UserFile != "" {
		file{path: s.UserFile, l: l}.load(s.FS)
		if l.openToOthers && (l.keyInFile || l.cfg.APIKey != "") {
			l.cfg.Warnings = append(l.cfg.Warnings,
				fmt.Sprintf("%s: holds a key and can be read by other users: run chmod 600 %s", s.UserFile, s.UserFile))
		}
	}
	l.environment()
	l.flags(s.Flags)
	l.cross()
	if len(l.err.Problems) == 0 {
		return l.cfg, nil
	}
	return l.cfg, &l.err
}

func newLoader(s Sources) *loader {
	keys := Keys()
	l := &loader{
		cfg: &Config{
			keys:    keys,
			origins: make(map[string]Origin, len(keys)),
			prices:  map[string]Price{},
			environ: s.Environ,
			fs:      s.FS,
		},
		byName: make(map[string]*Key, len(keys)),
		env:    make(map[string]string, len(s.Environ)),
	}
	for i := range keys {
		k := &keys[i]
		l.byName[k.Name] = k
		l.cfg.origins[k.Name] = Origin{Source: "default"}
		if k.Default != "" {
			if err := parse(*k, k.field(&l.cfg.Settings), []string{k.Default}); err != nil {
				l.problem(ErrConfig, fmt.Sprintf("default of %q: %s", k.Name, err))
			}
		}
	}
	for _, entry := range s.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			l.env[name] = value
		}
	}
	return l
}

func (l *loader) getenv(name string) string { return l.env[name] }

// set parses values into the key's field and notes the origin.
func (l *loader) set(k *Key, values []string, o Origin) error {
	ptr := k.field(&l.cfg.Settings)
	if list, ok := ptr.(*[]string); ok && k.adds {
		var more []string
		if err := parse(*k, &more, values); err != nil {
			return err
		}
		for _, v := range more {
			if !slices.Contains(*list, v) {
				*list = append(*list, v)
			}
		}
	} else if err := parse(*k, ptr, values); err != nil {
		return err
	}
	l.cfg.origins[k.Name] = o
	return nil
}

func (l *loader) environment() {
	for i := range l.cfg.keys {
		k := &l.cfg.keys[i]
		value := l.env[k.Env]
		if value == "" {
			continue
		}
		values := []string{value}
		if k.Kind == KindList {
			values = strings.Split(value, "\n")
		}
		if err := l.set(k, values, Origin{Source: "env " + k.Env}); err != nil {
			l.problem(ErrConfig, fmt.Sprintf("environment variable %s: %s", k.Env, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if strings.HasPrefix(name, "RALPH_") && !l.knownEnv(name) {
			l.cfg.Warnings = append(l.cfg.Warnings,
				fmt.Sprintf("environment variable %s is not known to Ralph%s", name, didYouMean(name, l.envNames())))
		}
	}
}

// knownEnv reports whether name is the variable of a key, or one that Ralph
// itself sets for the commands it starts, or that says how they are ended, or how the chat looks.
func (l *loader) knownEnv(name string) bool {
	return slices.Contains([]string{"RALPH_TAG", "RALPH_PROC", "RALPH_PLAIN"}, name) || slices.Contains(l.envNames(), name)
}

func (l *loader) envNames() []string {
	names := make([]string, len(l.cfg.keys))
	for i, k := range l.cfg.keys {
		names[i] = k.Env
	}
	return names
}

func (l *loader) flags(given map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		k, ok := l.byName[name]
		if !ok || k.Flag == "" {
			l.problem(ErrFlag, fmt.Sprintf("flag --%s: unknown", strings.ReplaceAll(name, "_", "-")))
			continue
		}
		if err := l.set(k, given[name], Origin{Source: "flag --" + k.Flag}); err != nil {
			l.problem(ErrFlag, fmt.Sprintf("flag --%s: %s", k.Flag, err))
		}
	}
}

// cross checks what concerns more than one value.
func (l *loader) cross() {
	c := l.cfg
	if c.Origin("check").Source == ProjectSource {
		c.ProposedCheck, c.Check = c.Check, ""
	}
	if c.Profile != "" && c.Active() == nil {
		names := make([]string, len(c.Profiles))
		for i, p := range c.Profiles {
			names[i] = p.Name
		}
		origin := c.Origin("profile")
		kind := ErrConfig
		if strings.HasPrefix(origin.Source, "flag") {
			kind = ErrFlag
		}
		l.problem(kind, fmt.Sprintf("profile %q (%s): the user config has no such profile%s", c.Profile, origin, didYouMean(c.Profile, names)))
	}
}

func (l *loader) problem(kind error, text string) {
	if !slices.Contains(l.err.kinds, kind) {
		l.err.kinds = append(l.err.kinds, kind)
	}
	switch n := len(l.err.Problems); {
	case n < maxProblems:
		l.err.Problems = append(l.err.Problems, text)
	case n == maxProblems:
		l.err.Problems = append(l.err.Problems, "… and more")
	}
}
