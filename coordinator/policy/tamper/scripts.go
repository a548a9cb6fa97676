package tamper

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// command is one command of a file that runs checks.
type command struct {
	text string
	tool string // what checks, "" for nothing that does
	line int
}

// script is one side of a file that runs checks.
type script struct {
	text     string
	commands []command
	targets  map[string][]string // of a makefile: target → what it needs
}

// runs says what kind of a file that runs checks this is: "shell", "make",
// "package", "ci", or "" for another.
func (c *change) runs(f File) string {
	base, lower := path.Base(f.Path), strings.ToLower(f.Path)
	name := strings.ToLower(base)
	switch {
	case name == "makefile" || name == "gnumakefile" || strings.HasSuffix(name, ".mk") || name == "justfile" || name == ".justfile" || strings.HasPrefix(name, "taskfile.") || name == "rakefile" || name == "noxfile.py":
		return "make"
	case name == "package.json" || name == "composer.json" || name == "deno.json":
		return "package"
	case isCI(lower):
		return "ci"
	case name == "tox.ini", name == "pyproject.toml", name == "setup.cfg":
		return "ci"
	case strings.Contains(lower, ".husky/"), strings.Contains(lower, ".githooks/"):
		return "shell"
	}
	named := slices.ContainsFunc(c.checks, func(check string) bool {
		return slices.ContainsFunc(strings.Fields(check), func(w string) bool {
			return strings.TrimPrefix(strings.Trim(w, `"';&|()`), "./") == f.Path
		})
	})
	l := languageOf(f.Path)
	first := f.Before
	if first == nil {
		first = f.After
	}
	shebang := strings.HasPrefix(string(first), "#!") && strings.Contains(until(string(first), "\n"), "sh")
	switch {
	case named:
		return "shell"
	case l != nil && l.name == "shell" && !isTest(f.Path, "") || l == nil && shebang:
		if scriptName().MatchString(name) || strings.Contains(lower, "ci/") || slices.ContainsFunc(commandsOf("shell", string(f.Before)).commands, func(c command) bool { return c.tool != "" }) {
			return "shell"
		}
	}
	return ""
}

func isCI(lower string) bool {
	base := path.Base(lower)
	return strings.Contains(lower, ".github/workflows/") || strings.Contains(lower, ".github/actions/") || strings.HasPrefix(base, ".gitlab-ci") || strings.Contains(lower, ".circleci/") || strings.HasPrefix(base, "azure-pipelines") || base == "jenkinsfile" || base == ".travis.yml" ||
		strings.Contains(lower, ".buildkite/") || strings.Contains(lower, ".woodpecker") || base == ".drone.yml" || base == "bitbucket-pipelines.yml" || base == "appveyor.yml" || base == ".appveyor.yml" || base == "cloudbuild.yaml"
}

func (c *change) scripts() {
	type side struct{ before, after script }
	sides := make([]side, len(c.files))
	kinds := make([]string, len(c.files))
	gained := map[string][]gain{}
	for i, f := range c.files {
		if kinds[i] = c.runs(f); kinds[i] == "" {
			continue
		}
		sides[i] = side{commandsOf(kinds[i], string(f.Before)), commandsOf(kinds[i], string(f.After))}
		n := map[string]int{}
		for _, k := range sides[i].before.commands {
			n[k.text]--
		}
		for _, k := range sides[i].after.commands {
			if n[k.text]++; n[k.text] == 1 {
				gained[k.text] = append(gained[k.text], gain{f.Path, kinds[i]})
			}
		}
	}
	for i, f := range c.files {
		if kinds[i] == "" {
			continue
		}
		c.commands(f, kinds[i], sides[i].before, sides[i].after, gained)
		if f.Before != nil && f.After != nil {
			c.softened(f, kinds[i], sides[i].before, sides[i].after)
		}
	}
}

// gain is a file that has a command which it had not.
type gain struct{ path, kind string }

// serves says that a command which has left f for this file is still run: f is gone
// or calls it, or both are of CI.
func (g gain) serves(f File, kind, after string) bool {
	switch {
	case g.path == f.Path:
		return false
	case f.After == nil, kind == "ci" && g.kind == "ci":
		return true
	case g.kind == "make":
		return calls().MatchString(after)
	case g.kind == "package":
		return strings.Contains(after, "npm ") || strings.Contains(after, "yarn ") || strings.Contains(after, "pnpm ") || strings.Contains(after, "bun ")
	}
	return strings.Contains(after, path.Base(g.path))
}

// commands judges the check commands of one file.
func (c *change) commands(f File, kind string, before, after script, gained map[string][]gain) {
	left := map[string]int{}
	for _, k := range after.commands {
		left[k.text]++
	}
	var removed, added []command
	for _, k := range before.commands {
		if left[k.text] > 0 {
			left[k.text]--
		} else if k.tool != "" {
			removed = append(removed, k)
		}
	}
	for _, k := range after.commands {
		if left[k.text] > 0 {
			left[k.text]--
			added = append(added, k)
		}
	}
	for _, r := range removed {
		i := slices.IndexFunc(added, func(a command) bool { return a.tool == r.tool })
		if i >= 0 {
			if why := weaker(r.text, added[i].text, after.text); why != "" {
				c.say(Finding{Path: f.Path, Line: added[i].line, What: "check made weaker: " + added[i].text, Why: why, Blocks: true})
			}
			added = slices.Delete(added, i, i+1)
			continue
		}
		if slices.ContainsFunc(gained[r.text], func(g gain) bool { return g.serves(f, kind, after.text) }) {
			continue
		}
		if i = slices.IndexFunc(added, func(a command) bool { return a.tool != "" }); i >= 0 {
			c.say(Finding{Path: f.Path, Line: added[i].line, What: "check replaced: " + r.text, Why: "by " + added[i].text, Blocks: weak().MatchString(added[i].text) || c.brings(added[i].text)})
			added = slices.Delete(added, i, i+1)
			continue
		}
		c.say(Finding{Path: f.Path, Line: r.line, What: "check removed: " + r.text, Why: "nothing in the change takes its place", Blocks: true})
	}
	if kind != "make" {
		return
	}
	for target, needs := range before.targets {
		now, still := after.targets[target]
		for _, need := range needs {
			if checkName().MatchString(target) && still && !slices.Contains(now, need) && !regexp.MustCompile(`(?:\$\(MAKE\)|make|just)[^\n]*\b`+regexp.QuoteMeta(need)+`\b`).MatchString(after.text) && !slices.ContainsFunc(now, func(n string) bool { return !slices.Contains(needs, n) }) {
				c.say(Finding{Path: f.Path, What: "check removed: target " + target + " needs " + need + " no more", Why: "it is not run with " + target, Blocks: true})
			}
		}
	}
}

// weaker says why a check with other arguments checks less, "" if it does not seem
// to.
func weaker(before, after, file string) string {
	if m := weak().FindString(after); m != "" && !strings.Contains(before, strings.TrimSpace(m)) {
		return "it has " + strings.TrimSpace(m)
	}
	for _, m := range strict().FindAllString(before, -1) {
		if flag := strings.TrimSpace(m); !strings.Contains(after, flag) {
			return "it lacks " + flag
		}
	}
	if strings.Contains(before, "./...") && !strings.Contains(after, "...") && !strings.Contains(after, "$(") {
		return "it looks at less than ./..."
	}
	if x, y := threshold().FindStringSubmatch(before), threshold().FindStringSubmatch(after); x != nil && y != nil && lower(y[1], x[1]) {
		return "the threshold is " + y[1] + " where it was " + x[1]
	}
	if x, y := warnings().FindStringSubmatch(before), warnings().FindStringSubmatch(after); x != nil && (y == nil || lower(x[1], y[1])) {
		return "it allows more warnings"
	}
	if !strings.Contains(before, "|") && piped().MatchString(substitution().ReplaceAllString(after, "")) && !strings.Contains(file, "pipefail") {
		return "its status is lost in the pipe"
	}
	if strings.HasPrefix(after, "if ") && !strings.HasPrefix(before, "if ") {
		return "its status is only looked at by an if"
	}
	return ""
}

// softened judges what makes failures of a whole file go unseen.
func (c *change) softened(f File, kind string, before, after script) {
	at := func(n int, what, why string) {
		c.say(Finding{Path: f.Path, Line: 1 + strings.Count(after.text[:n], "\n"), What: what + ": " + squeeze(until(after.text[n:], "\n")), Why: why, Blocks: true})
	}
	for _, re := range []*regexp.Regexp{soft(), dashed()} {
		n := newMatches(re, plain(before.text), plain(after.text))
		if n < 0 || re == dashed() && kind != "make" {
			continue
		}
		begin := strings.LastIndexByte(after.text[:n], '\n') + 1
		if line := until(after.text[begin:], "\n"); toolOf(line) != "" || !harmless().MatchString(line) {
			at(begin, "failure ignored", "it cannot fail any more")
		}
	}
	if kind == "shell" {
		if n := newMatches(exits(), plain(before.text), plain(after.text)); n >= 0 {
			rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(after.text[n:]), "exit 0"))
			if rest != "" || !errexit().MatchString(after.text) {
				at(n, "ends with success", "what comes after it is not run, or does not count")
			}
		}
		for _, letter := range []struct {
			re   *regexp.Regexp
			name string
		}{{errexit(), "set -e"}, {pipefail(), "pipefail"}} {
			if letter.re.MatchString(before.text) && !letter.re.MatchString(after.text) {
				c.say(Finding{Path: f.Path, Line: 1, What: letter.name + " removed", Why: "commands that fail do not end it any more", Blocks: true})
			}
		}
	}
	c.variables(f, before, after)
	if n := newMatches(disabling(), plain(before.text), plain(after.text)); n >= 0 {
		at(n, "check switched off", "it cannot fail any more, or is not run")
	}
}

// variables judges the arguments of checks that are kept in variables, and checks
// that an if has come to stand around.
func (c *change) variables(f File, before, after script) {
	was := map[string]string{}
	for _, m := range variable().FindAllStringSubmatch(before.text, -1) {
		was[m[1]] = " " + m[2]
	}
	for _, m := range variable().FindAllStringSubmatch(after.text, -1) {
		if old, ok := was[m[1]]; ok && old != " "+m[2] {
			if why := weaker(old, " "+m[2], after.text); why != "" {
				c.say(Finding{Path: f.Path, What: "check made weaker: " + squeeze(m[0]), Why: why, Blocks: true})
			}
		}
	}
	for _, k := range after.commands {
		i := slices.IndexFunc(before.commands, func(b command) bool { return b.text == k.text })
		if k.tool == "" || i < 0 || k.line > strings.Count(after.text, "\n")+1 {
			continue
		}
		if cond := around(after.text, k.line); cond != "" && around(before.text, before.commands[i].line) == "" && !present().MatchString(cond) {
			c.say(Finding{Path: f.Path, Line: k.line, What: "check made conditional: " + k.text, Why: squeeze(cond), Blocks: true})
		}
	}
}

// around is the if of a shell that a line stands under.
func around(text string, line int) string {
	lines := strings.Split(text, "\n")
	own := indentation(lines[line-1])
	for i := line - 2; i >= 0 && own > 0; i-- {
		t := strings.TrimSpace(lines[i])
		if t == "" || indentation(lines[i]) >= own {
			continue
		}
		if strings.HasPrefix(t, "if ") || strings.HasPrefix(t, "elif ") || t == "else" {
			return t
		}
		own = indentation(lines[i])
	}
	return ""
}

// commandsOf reads the commands of a file.
func commandsOf(kind, text string) script {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	s := script{targets: map[string][]string{}}
	if kind == "package" {
		text = packageScripts(text)
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = uncomment(line)
	}
	s.text = strings.Join(lines, "\n")
	target := ""
	for i := 0; i < len(lines); i++ {
		line, at := lines[i], i+1
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
		}
		if m := makeTarget().FindStringSubmatch(line); kind == "make" && m != nil {
			target = m[1]
			s.targets[target] = append(s.targets[target], strings.Fields(until(m[2], ";"))...)
			continue
		}
		key := target
		if m := packageScript().FindStringSubmatch(line); kind == "package" && m != nil {
			key = m[1]
			line = m[2]
		}
		for _, part := range separators().Split(strip(line), -1) {
			part = squeeze(part)
			if part == "" {
				continue
			}
			tool := toolOf(part)
			if tool == "" && (kind == "package" || kind == "make") && checkName().MatchString(key) && !nothing().MatchString(part) {
				tool = "script " + key
			}
			s.commands = append(s.commands, command{text: part, tool: tool, line: at})
		}
	}
	return s
}

// packageScripts are the scripts of a package.json, one a line, so that lines are
// those of the scripts and not of the file.
func packageScripts(text string) string {
	var p struct {
		Scripts map[string]any `json:"scripts"`
		Tasks   map[string]any `json:"tasks"`
	}
	if json.Unmarshal([]byte(text), &p) != nil {
		return text
	}
	var b strings.Builder
	for _, group := range []map[string]any{p.Scripts, p.Tasks} {
		names := make([]string, 0, len(group))
		for name := range group {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if value, ok := group[name].(string); ok {
				b.WriteString(`"` + name + `": ` + strings.ReplaceAll(value, "\n", " ") + "\n")
			}
		}
	}
	return b.String()
}

// uncomment takes a # comment from a line.
func uncomment(line string) string {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch ch := line[i]; {
		case quote != 0:
			if ch == quote {
				quote = 0
			}
		case ch == '"' || ch == '\'' && (i == 0 || line[i-1] == ' ' || line[i-1] == '='):
			quote = ch
		case ch == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return strings.TrimRight(line[:i], " \t")
		}
	}
	return line
}

// strip takes what a makefile or a CI file writes before a command.
func strip(line string) string {
	line = strings.TrimSpace(line)
	line = prefix().ReplaceAllString(line, "")
	line = strings.TrimLeft(line, "@+")
	return strings.Trim(strings.TrimSpace(line), `"'`)
}

func toolOf(text string) string {
	if silent().MatchString(text) {
		return ""
	}
	m := tools().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	for _, group := range m[1:] {
		if group != "" {
			return squeeze(group)
		}
	}
	return squeeze(m[0])
}
