package model

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

// rootMark stands for the project's root in a cassette.
const rootMark = "${root}"

// maskRule replaces what differs from run to run before requests are compared.
// In a cassette it is the name of a built-in rule, or a pattern in the syntax
// of package regexp with its replacement.
type maskRule struct {
	name string
	re   *regexp.Regexp
	with string
}

// defaultMask is what a new cassette lists. The rules know the places where
// such parts stand in the output of common tools; they leave alone what looks
// alike elsewhere, for a file that changed must not go unnoticed.
func defaultMask() []string { return []string{"durations", "hashes", "times", "temp", "pids"} }

// builtins are the built-in rules; the first group of a pattern is kept.
var builtins = sync.OnceValue(func() map[string]maskRule {
	rules := make(map[string]maskRule)
	add := func(name, with, pattern string) {
		rules[name] = maskRule{name: name, re: regexp.MustCompile(pattern), with: "${1}" + with}
	}
	const length = `\d+(?:\.\d+)?\s?(?:ns|µs|ms|secs?|seconds?|s|min|m|h)`
	add("durations", "<duration>", `(?m)((?:^(?:ok|FAIL|---)\s.*?|\b(?:in|after|took|elapsed|finished|ran)[ :=]+|\())(?:`+length+`)+\b|\(cached\)`)
	add("hashes", "<hash>", `(?m)(^|\b(?:commit|committed|index|tree|parent|object|HEAD is now at|revision)[ :]+|\.\.|^\[[^\]\n]* )\b[0-9a-f]{7,40}\b|()\b[0-9a-f]{40}\b`)
	add("times", "<time>", `()\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?|`+
		`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:\w{3} +\d+|\d+ \w{3}) (?:\d{4} )?\d\d:\d\d:\d\d(?: \d{4})?(?: ?(?:[+-]\d{4}|[A-Z]{3,4}))?`)
	add("temp", "<temp>", `()(?:/private)?(?:/var)?/(?:tmp|folders/\w\w/\w+/T)/[^\s/:;,'"`+"`"+`)\]}]+`)
	add("pids", "<pid>", `(\b(?:pid|PID|process|Process)[ :=]+)\d+`)
	return rules
})

// UnmarshalYAML reads a rule.
func (m *maskRule) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		rule, ok := builtins()[n.Value]
		if !ok {
			return fmt.Errorf("line %d: mask: there is no rule %q; the rules are %s, or {match, with}", n.Line, n.Value, strings.Join(defaultMask(), ", "))
		}
		*m = rule
		return nil
	}
	var pair struct {
		Match string `yaml:"match"`
		With  string `yaml:"with"`
	}
	if err := n.Decode(&pair); err != nil {
		return fmt.Errorf("line %d: mask: %w", n.Line, err)
	}
	re, err := regexp.Compile(pair.Match)
	if err != nil || pair.Match == "" {
		return fmt.Errorf("line %d: mask: pattern %q: %w", n.Line, pair.Match, orEmpty(err))
	}
	m.re, m.with = re, pair.With
	return nil
}

// orEmpty names the error of a pattern that is missing.
func orEmpty(err error) error {
	if err == nil {
		return fmt.Errorf("is empty")
	}
	return err
}

// MarshalYAML writes a rule.
func (m maskRule) MarshalYAML() (any, error) {
	if m.name != "" {
		return m.name, nil
	}
	return map[string]string{"match": m.re.String(), "with": m.with}, nil
}

// veil makes texts of different runs comparable, and fit for a file.
type veil struct {
	rules  []maskRule
	root   string
	redact func(string) string
}

// write is a text as it stands in a cassette: secrets redacted, the root
// replaced. A root mark of the text itself gets another dollar sign.
func (v *veil) write(s string) string {
	s = string([]rune(s)) // each byte that is no UTF-8 becomes U+FFFD, as on the wire
	s = v.hide(s)
	s = strings.ReplaceAll(s, rootMark, "$"+rootMark)
	if len(v.root) > 1 {
		s = replacePath(s, v.root, rootMark)
	}
	return s
}

// hide is a text without its secrets.
func (v *veil) hide(s string) string {
	if v.redact == nil {
		return s
	}
	return v.redact(s)
}

// read is a text of a cassette as it has to be in this run.
func (v *veil) read(s string) string {
	if !strings.Contains(s, rootMark) {
		return s
	}
	const escaped = "$" + rootMark
	parts := strings.Split(s, escaped)
	for i := range parts {
		if v.root != "" {
			parts[i] = strings.ReplaceAll(parts[i], rootMark, v.root)
		}
	}
	return strings.Join(parts, rootMark)
}

// same is a text of a cassette, or one that went through write, in the form in
// which texts are compared.
func (v *veil) same(s string) string {
	for i := range v.rules {
		s = v.rules[i].re.ReplaceAllString(s, v.rules[i].with)
	}
	return s
}

// replacePath replaces a path where it stands as a whole: /a/b does not occur
// in /a/bc.
func replacePath(s, path, with string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, path)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + len(path)
		b.WriteString(s[:i])
		if end < len(s) && pathByte(s[end]) {
			b.WriteString(path)
		} else {
			b.WriteString(with)
		}
		s = s[end:]
	}
}

func pathByte(b byte) bool {
	return nameByte(b) || b >= 0x80
}
