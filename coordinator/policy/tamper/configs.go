package tamper

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// entry is one setting of a configuration file: where it stands, and what it says.
type entry struct {
	where string // the keys around it, joined by >
	key   string // "" for the item of a list
	value string
	line  int
}

func (e entry) id() string { return e.where + ">" + e.key }

// tuned says that a file configures tests, linters, types or coverage.
func tuned(name string) bool {
	lower := strings.ToLower(name)
	base := path.Base(lower)
	switch base {
	case "package.json", "pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "mypy.ini", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc", "ruff.toml", ".ruff.toml", ".coveragerc", "cargo.toml", "clippy.toml", ".clippy.toml", ".rspec", "pom.xml", "build.gradle", "build.gradle.kts",
		"biome.json", "biome.jsonc", "deno.json", ".mocharc.json", ".mocharc.yml", ".nycrc", ".nycrc.json", ".c8rc.json", "codecov.yml", ".codecov.yml", "sonar-project.properties", ".pre-commit-config.yaml", "phpunit.xml", "phpunit.xml.dist", "phpstan.neon", "checkstyle.xml", "detekt.yml", "deny.toml", "nextest.toml", "pyrightconfig.json",
		".shellcheckrc", ".yamllint", ".eslintignore", ".prettierignore", ".stylelintrc", ".hadolint.yaml", "stylecop.json", ".bandit", ".swiftlint.yml", "analysis_options.yaml", "lefthook.yml", ".editorconfig-checker.json", ".credo.exs":
		return true
	}
	for _, p := range []string{".eslintrc", "eslint.config.", ".golangci.", "tsconfig", "jest.config.", "vitest.config.", "vite.config.", "playwright.config.", "cypress.config.", ".rubocop", ".stylelintrc.", "karma.conf", ".prettierrc", "jest-", "vitest.workspace", ".oxlintrc", "ava.config", "wdio.conf"} {
		if strings.HasPrefix(base, p) {
			return true
		}
	}
	return isCI(lower) || strings.HasSuffix(lower, ".cargo/config.toml") || strings.HasSuffix(lower, ".config/nextest.toml")
}

func (c *change) configs() {
	for _, f := range c.files {
		if !tuned(f.Path) {
			continue
		}
		before, after := entries(f.Path, string(f.Before)), entries(f.Path, string(f.After))
		if f.After == nil {
			c.unconfigured(f, before)
			continue
		}
		c.entries(f, before, after)
	}
}

// unconfigured judges a configuration that is gone: another file of the same tool
// in the change has taken its place, or nothing has.
func (c *change) unconfigured(f File, before []entry) {
	base := strings.Trim(strings.ToLower(path.Base(f.Path)), ".")
	tool := until(strings.NewReplacer("rc", ".", "-", ".", "ignore", ".").Replace(base), ".")
	for _, other := range c.files {
		text := strings.ToLower(other.Path + "\n" + string(other.After))
		if other.After != nil && tuned(other.Path) && (other.Before == nil && !isCI(strings.ToLower(other.Path)) || strings.Contains(text, tool) || strings.Contains(strings.ToLower(other.Path), "pyproject") || strings.Contains(strings.ToLower(other.Path), "eslint") || strings.Contains(strings.ToLower(other.Path), "biome")) {
			return
		}
	}
	if strings.Contains(base, "ignore") || isCI(strings.ToLower(f.Path)) || len(before) == 0 {
		return // fewer things are ignored; the commands of CI are judged elsewhere
	}
	c.say(Finding{Path: f.Path, What: "check configuration removed: " + f.Path, Why: "nothing in the change takes its place", Blocks: true})
}

// entries judges the settings that differ.
func (c *change) entries(f File, before, after []entry) {
	old, now := map[string]string{}, map[string]string{}
	items := map[entry]int{}
	bare := func(e entry) entry { e.line = 0; return e }
	for _, e := range before {
		old[e.id()] = e.value
		items[bare(e)]--
	}
	for _, e := range after {
		now[e.id()] = e.value
		items[bare(e)]++
	}
	say := func(e entry, what, why string, blocks bool) {
		shown := e.where
		if e.key != "" {
			shown = strings.TrimPrefix(e.where+">"+e.key, ">")
		}
		c.say(Finding{Path: f.Path, Line: e.line, What: what + ": " + strings.TrimPrefix(shown+" "+e.value, " "), Why: why, Blocks: blocks})
	}
	adopted := f.Before == nil && slices.ContainsFunc(after, func(e entry) bool { return e.key != "" && goodList(e.where+">"+e.key) }) // rules that were not asked for yet
	for _, e := range after {
		if items[bare(e)] <= 0 {
			continue
		}
		items[bare(e)]--
		was, had := old[e.id()]
		if what, why := loosened(f, e, was, had); what != "" {
			say(e, what, why, !adopted || !badList(e.where) && !badList(e.where+">"+e.key))
		}
	}
	for _, e := range before {
		if items[bare(e)] >= 0 {
			continue
		}
		items[bare(e)]++
		value, still := now[e.id()]
		switch {
		case e.key == "" && goodList(e.where) && !replaced(items, e):
			say(e, "check narrowed", "it is no longer in the list", true)
		case e.key != "" && goodList(e.where+">"+e.key) && !still && f.Before != nil && !replacedList(after, e):
			say(e, "check narrowed", "the setting is gone", true)
		case e.key != "" && !still && strictKey(e) && truthy(e.value):
			say(e, "check made weaker", "the setting is gone", true)
		case e.key != "" && !still && limitKey(e.id()) && number(e.value):
			say(e, "threshold removed", "nothing is demanded any more", true)
		case e.key != "" && still && value != e.value && limitKey(e.id()) && lower(percent(value), percent(e.value)):
			say(e, "threshold lowered", "it is "+value+" now", true)
		}
	}
}

// replaced says that the list which an item is gone from has gained one.
func replaced(items map[entry]int, e entry) bool {
	for other, n := range items {
		if n > 0 && other.where == e.where && other.key == "" {
			return true
		}
	}
	return false
}

// replacedList says that an inline list became one of lines.
func replacedList(after []entry, e entry) bool {
	for _, other := range after {
		if other.key == "" && strings.HasSuffix(other.where, ">"+e.key) || other.key == "" && other.where == e.key {
			return true
		}
	}
	return false
}

// loosened judges a setting that is new or has a new value.
func loosened(f File, e entry, was string, had bool) (what, why string) {
	id := strings.ToLower(e.id())
	value := strings.ToLower(strings.Trim(e.value, `"'`))
	switch {
	case strings.HasSuffix(f.Path, ".rspec"):
		if m := weak().FindString(" " + raw(e)); m != "" {
			return "check narrowed", "it has " + strings.TrimSpace(m)
		}
	case e.key == "" && badList(e.where) && !product(e.value):
		return "check narrowed", "what is in this list is not checked"
	case e.key != "" && badList(e.where+">"+e.key) && value != "" && !product(value) && len(value) > len(strings.ToLower(was)) && value != "[" && value != "{" && value != "|" && value != "false":
		return "check narrowed", "what is named there is not checked"
	case configWords().badKey.MatchString(e.key) && (truthy(value) || strings.Contains(strings.ToLower(e.key), "exit") && value == "0"):
		return "check switched off", "the setting makes it fail no more"
	case configWords().goodOff.MatchString(e.key) && f.Before != nil && (value == "false" || value == "0" || value == "off") && !(had && !truthy(was)):
		return "check switched off", "the setting is off"
	case strictKey(e) && had && truthy(was) && !truthy(value):
		return "check made weaker", "it was " + was
	case configWords().ruleOff.MatchString(value) && ruleScope(f.Path, id) && (!had || !configWords().ruleOff.MatchString(strings.ToLower(strings.Trim(was, `"'`)))):
		return "rule switched off", "it was on, or is by default"
	case had && configWords().severe.MatchString(strings.ToLower(was)) && strings.Contains(value, "warn") && ruleScope(f.Path, id):
		return "rule made a warning", "warnings do not fail"
	case configWords().options.MatchString(e.key) && f.Before != nil:
		if m := weak().FindString(" " + e.value); m != "" && !strings.Contains(was, strings.TrimSpace(m)) {
			return "check made weaker", "it has " + strings.TrimSpace(m)
		}
		for _, m := range strict().FindAllString(" "+was, -1) {
			if !strings.Contains(e.value, strings.TrimSpace(m)) {
				return "check made weaker", "it lacks " + strings.TrimSpace(m)
			}
		}
	case configWords().collects.MatchString(e.key) && contains(value, was):
		// More is collected.
	case configWords().collects.MatchString(e.key) && f.Before != nil && had && value != strings.ToLower(was) || configWords().collects.MatchString(e.key) && f.Before != nil && !had && !configWords().usual.MatchString(value):
		return "check narrowed", "other tests are collected than before"
	}
	return "", ""
}

// raw is an entry as it was written, near enough.
func raw(e entry) string { return strings.TrimSpace(e.key + " " + e.value) }

// entries reads the settings of a file by lines: JSON is laid out first, and what
// stands around a line is told by indentation and section headers.
func entries(name, text string) []entry {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[{") {
		var b bytes.Buffer
		if json.Indent(&b, []byte(text), "", "  ") == nil {
			text = b.String()
		}
	}
	script := languageOf(name) != nil
	if script {
		text, _ = mask(text, languages()["javascript"])
	}
	var list []entry
	var around []level
	section := ""
	if strings.HasSuffix(name, "ignore") {
		section = "ignore"
	}
	manifest := strings.HasSuffix(strings.ToLower(name), "package.json")
	for i, raw := range strings.Split(text, "\n") {
		line := raw
		if !script {
			line = uncomment(line)
		}
		t := strings.TrimSpace(line)
		if t == "" || strings.HasPrefix(t, "//") || strings.HasPrefix(t, ";") {
			continue
		}
		if m := configWords().header.FindStringSubmatch(t); m != nil && !script && strings.IndexByte(line, '[') == 0 {
			section, around = m[1], nil
			continue
		}
		depth := indentation(line)
		if strings.HasPrefix(t, "- ") {
			depth++ // items may stand at the indentation of their key
		}
		for len(around) > 0 && around[len(around)-1].depth >= depth {
			around = around[:len(around)-1]
		}
		where := section
		for _, a := range around {
			where += ">" + a.key
		}
		if manifest && strings.HasPrefix(where, ">scripts") {
			continue // commands are judged as such
		}
		for _, e := range settings(t) {
			e.where, e.line = where, i+1
			if e.key != "" && (e.value == "" || strings.HasSuffix(e.value, "{") || strings.HasSuffix(e.value, "[") || strings.HasSuffix(e.value, "|") || strings.HasSuffix(e.value, "(")) {
				around = append(around, level{depth, e.key})
			}
			list = append(list, e)
			list = append(list, inline(e)...)
		}
	}
	return list
}

type level struct {
	depth int
	key   string
}

// settings are those of one line.
func settings(t string) []entry {
	t, item := strings.CutPrefix(t, "- ")
	t = strings.TrimRight(t, ",")
	if t == "" || t == "}" || t == "]" || t == "{" || t == "[" || t == "})" || t == ");" || t == "};" || t == "]," || t == ")," {
		return nil
	}
	if m := configWords().xmlElement.FindStringSubmatch(t); m != nil {
		return []entry{{key: m[1], value: m[2]}}
	}
	if m := configWords().setting.FindStringSubmatch(t); m != nil && !(item && m[1] == "id") {
		return []entry{{key: strings.Trim(m[1], `"'`), value: strings.TrimSpace(strings.Trim(strings.TrimSpace(m[2]), `"'`))}}
	}
	return []entry{{value: strings.Trim(t, `"'`)}}
}

// inline are the items of a list, or the settings of an object, on one line.
func inline(e entry) []entry {
	open := strings.IndexAny(e.value, "[{")
	if e.key == "" || open != 0 || len(e.value) < 3 {
		return nil
	}
	var list []entry
	for _, part := range strings.Split(strings.Trim(e.value, "[]{} "), ",") {
		for _, s := range settings(strings.TrimSpace(part)) {
			s.where, s.line = e.where+">"+e.key, e.line
			s.value = strings.Trim(s.value, `"'{}[] `)
			list = append(list, s)
		}
	}
	return list
}

// contains says that each word of a list is in another.
func contains(list, words string) bool {
	for _, w := range strings.Fields(strings.NewReplacer("[", " ", "]", " ", ",", " ", `"`, " ", "'", " ").Replace(strings.ToLower(words))) {
		if !strings.Contains(list, w) {
			return false
		}
	}
	return words != ""
}

func truthy(v string) bool {
	switch strings.ToLower(strings.Trim(v, `"'`)) {
	case "true", "1", "yes", "on", "error", "2":
		return true
	}
	return false
}

func number(v string) bool { return v != "" && numbers().MatchString(v) }

func percent(v string) string { return strings.TrimSuffix(strings.Trim(v, `"'`), "%") }
