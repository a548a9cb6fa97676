package repl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/desk"
	"ralph/memory/config"
	"ralph/memory/text"
)

// allSettings is the word for every setting.
const allSettings = "all"

// settings does /config.
func (s *Shell) settings(args string) {
	if s.mind.Hands == nil {
		s.fail("this chat knows no settings", "`ralph config` shows them")
		return
	}
	name, value := args, ""
	if i := strings.IndexAny(args, "= \t\n"); i >= 0 {
		name, value = args[:i], args[i:]
	}
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
	s.aside(func(context.Context) func() {
		list := s.mind.Hands.Settings()
		return func() {
			i := slices.IndexFunc(list, func(x desk.Setting) bool { return x.Name == name })
			switch {
			case value != "" && i >= 0:
				s.fail("/config shows settings, it does not change them", howToSet(list[i].Name))
			case value != "":
				s.fail("/config "+args+": there is no such thing", "/config KEY shows one setting, /config all lists them")
			case name == "":
				s.settingList(slices.DeleteFunc(list, func(x desk.Setting) bool { return x.Origin == "default" }), "all others have their default; /config all lists them, /config KEY tells about one")
			case name == allSettings:
				s.settingList(list, "/config KEY tells about one")
			case i >= 0:
				s.setting(list[i])
			default:
				s.settingsLike(list, name)
			}
		}
	})
}

func (s *Shell) settingList(list []desk.Setting, more string) {
	table := [][]string{{"setting", "from", "value"}}
	for _, x := range list {
		table = append(table, []string{x.Name, x.Origin, shownValue(x)})
	}
	if len(list) > 0 {
		s.rows(table)
	}
	s.note(more)
}

func shownValue(x desk.Setting) string {
	if x.Value == "" {
		return "(none)"
	}
	return x.Value
}

// settingsLike lists the settings that have the word in their name, or says which
// one may have been meant.
func (s *Shell) settingsLike(list []desk.Setting, word string) {
	var like []desk.Setting
	var names []string
	for _, x := range list {
		names = append(names, x.Name)
		if strings.Contains(x.Name, word) {
			like = append(like, x)
		}
	}
	if len(like) > 0 {
		s.settingList(like, "/config KEY tells about one")
		return
	}
	hint := "/config all lists the settings"
	if best := text.Closest(word, names); best != "" {
		hint = "did you mean " + best + "?"
	}
	s.fail(fmt.Sprintf("there is no setting %q", word), hint)
}

// setting tells all about one.
func (s *Shell) setting(x desk.Setting) {
	rows := [][]string{{x.Name, x.Help}, {"value", shownValue(x)}, {"from", x.Origin}}
	if k, ok := keyOf(x.Name); ok {
		if k.Default != "" && k.Default != x.Value {
			rows = append(rows, []string{"default", k.Default})
		}
		if len(k.Values) > 0 {
			rows = append(rows, []string{"values", strings.Join(k.Values, ", ")})
		}
	}
	s.rows(append(rows, []string{"set by", howToSet(x.Name)}))
}

func keyOf(name string) (config.Key, bool) {
	keys := config.Keys()
	i := slices.IndexFunc(keys, func(k config.Key) bool { return k.Name == name })
	if i < 0 {
		return config.Key{}, false
	}
	return keys[i], true
}

// howToSet says what sets a setting.
func howToSet(name string) string {
	k, ok := keyOf(name)
	if !ok {
		return name + ": in the config file"
	}
	var ways []string
	if name == "model" {
		ways = append(ways, "/model NAME for this session")
	}
	if k.Flag != "" {
		ways = append(ways, strings.TrimSpace("--"+k.Flag+" "+k.Arg))
	}
	if k.Env != "" {
		ways = append(ways, k.Env)
	}
	return strings.Join(append(ways, k.Name+": in the config file"), ", ")
}
