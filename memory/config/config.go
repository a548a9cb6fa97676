// Package config owns Ralph's settings: the table of keys from which flags,
// environment variables, YAML keys and documentation are made, and their
// effective values with where each came from.
//
// It refuses to let a repository grant anything: project config may only
// narrow or propose, and never names an endpoint, a key, a program or a
// permission. It starts nothing, and reads no file that does not exist.
//
// A value comes from the first of: flag, environment variable, user config,
// project config, default.
//
//	cfg, err := config.Load(config.Sources{
//		Flags:       map[string][]string{"max_turns": {"20"}},
//		Environ:     os.Environ(),
//		UserFile:    config.UserFile(os.Getenv),
//		ProjectFile: filepath.Join(root, ".ralph", "config.yaml"),
//	})
//	…
//	fmt.Println(cfg.MaxTurns, cfg.Origin("max_turns")) // 20 flag --max-turns
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/spf13/afero"

	"ralph/memory/identity"
)

// ErrConfig is matched by an error of Load that concerns the environment or a
// file.
var ErrConfig = errors.New("configuration is not valid")

// ErrFlag is matched by an error of Load that concerns a flag.
var ErrFlag = errors.New("flag is not valid")

// Sources says where Load looks. The zero value has only defaults.
type Sources struct {
	// Flags holds the values of the flags that were given, by the key's name.
	Flags map[string][]string
	// Environ is the environment as NAME=value entries.
	Environ []string
	// UserFile and ProjectFile are paths; empty means none.
	UserFile, ProjectFile string
	// FS holds both files; nil means the real filesystem.
	FS afero.Fs
}

// Config is the effective configuration. It is read-only after Load and then
// safe for concurrent use.
type Config struct {
	Settings
	// Profiles are the user's endpoints in the order of the file.
	Profiles []Profile
	// Agents are the user's entries for other agents' command lines, in the
	// order of the file.
	Agents []Agent
	// ProposedCheck is the check of the project's configuration where nobody else set
	// one. It does not run before the user agrees to it.
	ProposedCheck string
	// Warnings are whole sentences for the user, without secrets.
	Warnings []string

	keys    []Key
	origins map[string]Origin
	prices  map[string]Price
	environ []string
	fs      afero.Fs
}

// ProjectSource is the Origin.Source of a value from the project's configuration.
const ProjectSource = "project config"

// Origin says where a value came from.
type Origin struct {
	// Source is "flag --x", "env RALPH_X", "user config", "project config" or
	// "default".
	Source string
	// File and Line are set for values from files.
	File string
	Line int
}

// String returns the source, with file and line where there are any.
func (o Origin) String() string {
	if o.File == "" {
		return o.Source
	}
	return fmt.Sprintf("%s %s:%d", o.Source, o.File, o.Line)
}

// Entry is one effective value as it may be shown.
type Entry struct {
	Key    Key
	Value  string // a secret reads "set (…" and its last four characters, or "not set"
	Origin Origin
}

// Error lists everything that is wrong, one problem a line. It matches
// ErrConfig, ErrFlag or both.
type Error struct {
	Problems []string
	kinds    []error
}

// Error returns the problems, one a line.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Hint says what the user can do.
func (e *Error) Hint() string {
	return "`ralph config` lists the keys and where each value comes from"
}

// Is reports whether a problem of the kind target is among the problems.
func (e *Error) Is(target error) bool { return slices.Contains(e.kinds, target) }

// UserFile returns the path of the user's configuration file,
// $XDG_CONFIG_HOME/ralph/config.yaml, for an environment read by getenv. It
// is empty when the environment names no home at all.
func UserFile(getenv func(string) string) string {
	// A relative XDG_CONFIG_HOME is invalid by the XDG specification: it would
	// make the user's configuration depend on the current directory, which may
	// be a stranger's repository.
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		switch home := getenv("HOME"); {
		case home == xdg.Home && !filepath.IsAbs(getenv("XDG_CONFIG_HOME")):
			dir = platformConfigHome(home)
		case filepath.IsAbs(home):
			dir = filepath.Join(home, ".config")
		}
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "ralph", "config.yaml")
}

// HistoryFile returns the path of the chat's line history for the project at
// root, in the user's own state directory. It is empty when the environment
// names none.
func HistoryFile(getenv func(string) string, root string) string {
	return projectFile(getenv, "history", root)
}

// DraftFile returns how the paths of the files begin that keep half-typed lines
// of chats in the project at root, like HistoryFile: each chat has its own.
func DraftFile(getenv func(string) string, root string) string {
	return projectFile(getenv, "drafts", root)
}

// projectFile is a file of the user's about a project.
func projectFile(getenv func(string) string, kind, root string) string {
	home := identity.Home(getenv)
	if home == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(home, kind, filepath.Base(root)+"-"+hex.EncodeToString(sum[:4]))
}

// platformConfigHome is the platform's default for the process's own home:
// ~/.config, or Library/Application Support on macOS. xdg.ConfigHome itself
// was read when the process began and may come from a variable that getenv
// does not have.
func platformConfigHome(home string) string {
	if strings.HasPrefix(xdg.StateHome, filepath.Join(home, "Library")) {
		return filepath.Join(home, "Library", "Application Support")
	}
	return filepath.Join(home, ".config")
}

// Origin returns where the value of the key called name came from.
func (c *Config) Origin(name string) Origin { return c.origins[name] }

// Entries returns all effective values in the order of Keys.
func (c *Config) Entries() []Entry {
	entries := make([]Entry, 0, len(c.keys))
	for _, k := range c.keys {
		value := show(k.field(&c.Settings))
		if k.Name == "check" && value == "" {
			value = c.ProposedCheck
		}
		if k.Secret {
			value = Hidden(value)
		}
		if u, err := url.Parse(value); err == nil && k.Name == "base_url" {
			if _, has := u.User.Password(); has {
				value = u.Redacted()
			}
		}
		entries = append(entries, Entry{Key: k, Value: value, Origin: c.origins[k.Name]})
	}
	return entries
}

// Hidden shows that a secret is set, and its end if it is long enough that the
// end gives little away; it is "not set" for "".
func Hidden(secret string) string {
	switch {
	case secret == "":
		return "not set"
	case len(secret) < 16:
		return "set"
	}
	return "set (…" + secret[len(secret)-4:] + ")"
}

// Active returns the profiles that may be used: the one that `profile` names,
// or all when it names none.
func (c *Config) Active() []Profile {
	if c.Profile == "" {
		return c.Profiles
	}
	i := slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Name == c.Profile })
	if i < 0 {
		return nil
	}
	return c.Profiles[i : i+1]
}

// Price returns what a model costs by the user's configuration. A name with a
// provider in front ("openai/gpt-5") is also found without it.
func (c *Config) Price(model string) (Price, bool) {
	for {
		if p, ok := c.prices[model]; ok {
			return p, true
		}
		_, rest, found := strings.Cut(model, "/")
		if !found {
			return Price{}, false
		}
		model = rest
	}
}

// Secrets returns the values that must not appear in a journal, log, cassette
// or state file: the endpoint keys, and what the environment or an agent's entry
// holds under names such as *KEY*, *TOKEN*, *SECRET*, *PASSWORD*, *CREDENTIAL*.
func (c *Config) Secrets() []string {
	var out []string
	add := func(s string, least int) {
		if s = strings.TrimSpace(s); len(s) >= least && !placeholder(s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	add(c.APIKey, 6)
	for _, p := range c.Profiles {
		add(p.Key, 6)
	}
	for _, a := range c.Agents {
		for _, e := range a.Env {
			if name, value, _ := strings.Cut(e, "="); secretName(name) && !c.isPath(value) {
				add(value, 6)
			}
		}
	}
	for _, entry := range c.environ {
		name, value, _ := strings.Cut(entry, "=")
		if !secretName(name) || c.isPath(value) {
			continue
		}
		// Short values of unknown meaning (KEYMAP=us) would blot out words.
		add(value, 10)
	}
	return out
}

// placeholder says that a value is a word that people give where a server wants
// any key at all (ollama, lm-studio, not-needed): to blot it out would spoil
// texts and hide nothing.
func placeholder(s string) bool {
	switch strings.ToLower(s) {
	case "ollama", "lm-studio", "lmstudio", "llama.cpp", "vllm-local", "not-needed", "unused", "no-key", "no-key-required", "dummy-key", "placeholder", "anything":
		return true
	}
	return false
}

func secretName(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "COOKIE", "WEBHOOK"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// isPath reports whether a value is the path of something that exists, such as
// that of a key file: a path is no secret.
func (c *Config) isPath(value string) bool {
	if !filepath.IsAbs(value) || c.fs == nil {
		return false
	}
	_, err := c.fs.Stat(value)
	return err == nil
}
