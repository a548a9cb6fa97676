package text

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed shapes.txt
var shapesText string

// shape describes tokens: what they begin with, and of which characters how many follow.
type shape struct {
	prefix string
	class  byte
	least  int
	exact  bool // no more than least
}

// shapes returns those of shapes.txt by their first byte; nobody writes into it.
var shapes = sync.OnceValue(func() *[256][]shape {
	out := new([256][]shape)
	for line := range strings.Lines(shapesText) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] == "#" {
			continue
		}
		count, exact := strings.CutPrefix(f[1][1:], "=")
		least, _ := strconv.Atoi(count) // a test reads them all
		out[f[0][0]] = append(out[f[0][0]], shape{f[0], f[1][0], least, exact})
	}
	return out
})

// pattern matches tokens of which the prefix alone says too little, and which have mark in them.
type pattern struct {
	mark string
	re   *regexp.Regexp
}

// patterns returns those of the vendors whose tokens no shape describes. Of one in which
// something comes before the mark Open can let that pass, and with it the token.
var patterns = sync.OnceValue(func() []pattern {
	var out []pattern
	for _, of := range [][2]string{
		{"eyJ", `eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]+)*`}, // JSON Web Token
		{".atlasv1.", `[A-Za-z0-9]{1,14}\.atlasv1\.[A-Za-z0-9_=-]{60,}`},                           // HCP Terraform
		{":AA", `[0-9]{8,10}:AA[A-Za-z0-9_-]{33}`},                                                 // Telegram
		{"AZDO", `[A-Za-z0-9]{50,76}AZDO[A-Za-z0-9]{4}`},                                           // Azure DevOps
		{"Q~", `[A-Za-z0-9_~.-]{0,3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}`},                                // Microsoft Entra
		{"re_", `re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}`},                                               // Resend
		{"-us", `[0-9a-f]{24,32}-us[0-9]{1,2}\b`},                                                  // Mailchimp
		{"AccountKey=", `AccountKey=[A-Za-z0-9+/]{86}==`},                                          // Azure Storage
		{"hooks.slack.com", `hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}`},
		{"/webhooks/", `discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{40,}`},
	} {
		out = append(out, pattern{of[0], regexp.MustCompile(`(^|[^A-Za-z0-9]|\\[nrtbf])(?:` + of[1] + `)`)})
	}
	return out
})

func (s shape) has(c byte) bool {
	digit, lower, upper := c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z'
	switch s.class {
	case 'h':
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	case 'u':
		return digit || upper
	case 'l':
		return digit || lower
	}
	return digit || lower || upper || s.class != 'a' && (c == '_' || c == '-') || strings.IndexByte("pbd", s.class) >= 0 && c == '.' ||
		s.class == 'b' && (c == '+' || c == '/' || c == '=')
}

// match returns how long the token at the beginning of a text is; 0 without one.
func (s shape) match(text string) int {
	if !strings.HasPrefix(text, s.prefix) {
		return 0
	}
	end, row, longest := len(s.prefix), 0, 0
	for ; end < len(text) && s.has(text[end]); end++ {
		if row++; text[end] == '-' || text[end] == '_' {
			row = 0
		}
		longest = max(longest, row)
	}
	n := end - len(s.prefix)
	switch parts := strings.Split(text[:end], "."); {
	case s.class == 'r':
		n = longest
	case s.class == 'd' && (len(parts) != 3 || len(parts[1]) != 6 || len(parts[2]) < 27):
		return 0
	}
	if n < s.least || s.exact && (n > s.least || end < len(text) && (text[end] == '-' || text[end] == '_' || alphanumeric(text[end]))) {
		return 0
	}
	return end
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// starts reports whether a token can begin at a place of a text: where no letter or digit
// comes before it, so that words such as "task-…" are safe; the letter of an escape
// (\nsk-…) is none.
func starts(s string, at int) bool {
	return at == 0 || !alphanumeric(s[at-1]) || at > 1 && s[at-2] == '\\' && strings.IndexByte("nrtbf", s[at-1]) >= 0
}

// replaceTokens puts Redacted in the place of tokens.
func replaceTokens(s string) string {
	s = replaceShapes(s)
	for _, p := range patterns() {
		if strings.Contains(s, p.mark) {
			s = p.re.ReplaceAllString(s, "${1}"+Redacted)
		}
	}
	return s
}

func replaceShapes(s string) string {
	known := shapes()
	var out strings.Builder
	done := 0
	for at := 0; at < len(s); at++ {
		if len(known[s[at]]) == 0 || !starts(s, at) {
			continue
		}
		for _, shape := range known[s[at]] {
			if n := shape.match(s[at:]); n > 0 {
				out.WriteString(s[done:at])
				out.WriteString(Redacted)
				at += n - 1
				done = at + 1
				break
			}
		}
	}
	if done == 0 {
		return s
	}
	return out.String() + s[done:]
}

// mayBegin reports whether a token, or the beginning of what tokens are known by, is in a word.
func mayBegin(word string) bool {
	known, marks := shapes(), marks()
	for at := range len(word) {
		begins := func(mark string) bool {
			return strings.HasPrefix(mark, word[at:]) && (starts(word, at) || !alphanumeric(mark[0]))
		}
		if slices.ContainsFunc(marks, begins) {
			return true
		}
		for _, shape := range known[word[at]] {
			if starts(word, at) && (strings.HasPrefix(word[at:], shape.prefix) || strings.HasPrefix(shape.prefix, word[at:])) {
				return true
			}
		}
	}
	return false
}
