package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/regular"
)

// hostile is what the configuration inside the repository wants to have run, and
// the overrides against it.
type hostile struct {
	settings []setting
	// filters are the names of the filter drivers that are switched off.
	filters map[string]bool
}

// maxConfigBytes bounds each file of git's configuration.
const maxConfigBytes = 4 << 20

// hostileAt is what was found while the files of the configuration were as key
// says.
type hostileAt struct {
	key   string
	found hostile
}

// hostile looks for filter drivers and hooks that the repository itself defines.
// Those of the user's own configuration stay, but for a raw place. Without one of
// the words in the files of the repository there can be none, which costs no
// process.
func (p *place) hostile(ctx context.Context) (hostile, error) {
	if p.own {
		if found := p.found.Load(); found != nil {
			return found.found, nil
		}
		return hostile{}, nil
	}
	if p.within != nil {
		return hostile{}, nil // what it has run is confined
	}
	suspect, include, key := p.raw, false, ""
	for _, path := range []string{filepath.Join(p.commonDir, "config"), filepath.Join(p.gitDir, "config.worktree"), filepath.Join(p.commonDir, "config.worktree")} {
		b, err := regular.Read(path, maxConfigBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return hostile{}, fmt.Errorf("read git configuration: %w", err)
		}
		key += path + "\x00" + string(b) + "\x00"
		b = bytes.ToLower(b)
		include = include || bytes.Contains(b, []byte("include"))
		for _, word := range []string{"filter", "include", "hook", "driver"} {
			suspect = suspect || bytes.Contains(b, []byte(word))
		}
	}
	if !suspect {
		return hostile{}, nil
	}
	if last := p.found.Load(); last != nil && p.raw && !include && last.key == key {
		return last.found, nil
	}
	out, _, err := p.exec(ctx, call{args: []string{"config", "--list", "--show-scope", "--includes", "-z"}}, overrides(), true)
	if err != nil {
		return hostile{}, err
	}
	h := parseConfig(out, p.raw)
	p.found.Store(&hostileAt{key, h})
	return h, nil
}

// safeMerge stands in for a merge driver that the repository defines: what git
// does with text.
const safeMerge = "git merge-file -q --marker-size=%L %A %O %B || exit 1"

// parseConfig reads "scope NUL key LF value NUL". A driver that the repository
// defines gets back what the user's configuration says, or nothing; with raw
// every filter gets nothing.
func parseConfig(out []byte, raw bool) hostile {
	h := hostile{filters: map[string]bool{}}
	trusted := map[string]string{}
	local := map[string]bool{}
	fields := bytes.Split(out, []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, _ := strings.Cut(string(fields[i+1]), "\n")
		section, rest, _ := strings.Cut(key, ".")
		name, variable := rest, ""
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			name, variable = rest[:dot], rest[dot+1:]
		}
		if variable == "" || section != "filter" && section != "hook" && section != "merge" {
			continue
		}
		switch scope := string(fields[i]); {
		case scope == "local" || scope == "worktree" || raw && section == "filter" && scope != "command":
			local[section+"."+name] = true
		case scope != "command":
			trusted[key] = value
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(local)) {
		if strings.HasPrefix(driver, "hook.") {
			h.settings = append(h.settings, setting{driver + ".enabled", "false"}, setting{driver + ".command", "true"})
			continue
		}
		if strings.HasPrefix(driver, "merge.") {
			value := trusted[driver+".driver"]
			if value == "" {
				value = safeMerge
			}
			h.settings = append(h.settings, setting{driver + ".driver", value})
			continue
		}
		kept := false
		for _, v := range []string{"clean", "smudge", "process"} {
			value := trusted[driver+"."+v]
			kept = kept || value != ""
			h.settings = append(h.settings, setting{driver + "." + v, value})
		}
		required := "false"
		if kept && trusted[driver+".required"] != "" {
			required = trusted[driver+".required"]
		}
		h.settings = append(h.settings, setting{driver + ".required", required})
		if !kept {
			h.filters[strings.TrimPrefix(driver, "filter.")] = true
		}
	}
	return h
}

// filtered picks those of the paths whose content goes through a filter that is
// switched off.
func (p *place) filtered(ctx context.Context, paths []string, env []string) ([]string, error) {
	h, err := p.hostile(ctx)
	if err != nil || len(h.filters) == 0 || len(paths) == 0 {
		return nil, err
	}
	out, err := p.run(ctx, call{args: []string{"check-attr", "-z", "--stdin", "filter"}, stdin: nulList(paths), env: env})
	if err != nil {
		return nil, err
	}
	var hit []string
	f := splitNul(out)
	for i := 0; i+2 < len(f); i += 3 {
		if h.filters[f[i+2]] {
			hit = append(hit, f[i])
		}
	}
	return hit, nil
}

// nulList ends each of the paths with a NUL.
func nulList(paths []string) []byte {
	var b bytes.Buffer
	for _, p := range paths {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.Bytes()
}

// splitNul splits a NUL-terminated list.
func splitNul(b []byte) []string {
	s := strings.TrimSuffix(string(b), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}
