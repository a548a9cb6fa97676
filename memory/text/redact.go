package text

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Redacted takes the place of a secret. It has no character that JSON, YAML or
// Markdown would have to escape in a string.
const Redacted = "[redacted]"

// Redactor replaces secrets. It is safe for concurrent use; nil replaces
// token shapes only.
type Redactor struct {
	known *strings.Replacer
	forms []string // what known replaces
}

// NewRedactor returns a Redactor for known values, and for their forms in JSON and in
// URLs. Values shorter than four bytes are left out: they would hit any text.
func NewRedactor(values []string) *Redactor {
	var forms []string
	for _, v := range values {
		if len(v) < 4 {
			continue
		}
		forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v))
		if quoted, err := json.Marshal(v); err == nil {
			forms = append(forms, string(quoted[1:len(quoted)-1]))
		}
	}
	// The longest first, so that a value that contains another goes as a whole.
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	forms = slices.Compact(forms)
	if len(forms) == 0 {
		return &Redactor{}
	}
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, Redacted)
	}
	return &Redactor{known: strings.NewReplacer(pairs...), forms: forms}
}

// String returns s without its secrets. Valid JSON stays valid JSON.
func (r *Redactor) String(s string) string {
	if r != nil && r.known != nil {
		s = r.known.Replace(s)
	}
	s = replaceTokens(s)
	if strings.Contains(s, "PRIVATE KEY") {
		s = pemBlock().ReplaceAllString(s, Redacted)
	}
	if strings.Contains(s, "://") {
		s = userInfo().ReplaceAllString(s, "${1}"+Redacted+"@")
	}
	if !contains(s, []string{"earer", "EARER"}) {
		return s
	}
	return bearer().ReplaceAllStringFunc(s, func(m string) string {
		sub := bearer().FindStringSubmatch(m)
		// "bearer authentication" is prose; a token has digits or is long.
		if len(sub[2]) < 24 && !strings.ContainsAny(sub[2], "0123456789") {
			return m
		}
		return sub[1] + Redacted
	})
}

// contains reports whether a text has one of some parts.
func contains(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// maxOpenBytes bounds what Open takes for the beginning of a token.
const maxOpenBytes = 512

// Open says where in a text that may go on a secret may have begun that is not
// whole yet; len(s) when nowhere. String of what stands before is final.
func (r *Redactor) Open(s string) int {
	open := len(s)
	if r != nil {
		for _, form := range r.forms {
			for n := min(len(form)-1, len(s)); n > 0; n-- {
				if strings.HasSuffix(s, form[:n]) {
					open = min(open, len(s)-n)
					break
				}
			}
		}
	}
	word := strings.LastIndexAny(s, " \t\r\n\"'`()<>[]{}|,;") + 1
	last := s[word:]
	if len(last) <= maxOpenBytes && (contains(last, marks()) || mayBegin(last)) {
		open = min(open, word)
	}
	return open
}

// Bytes is String for bytes.
func (r *Redactor) Bytes(b []byte) []byte { return []byte(r.String(string(b))) }

// marks are parts of what String replaces besides shapes.txt.
func marks() []string {
	list := []string{"PRIVATE KEY", "earer", "EARER", "://"}
	for _, p := range patterns() {
		list = append(list, p.mark)
	}
	return list
}

var bearer = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(\bbearer[ \t]+)([A-Za-z0-9._~+/-]{8,}=*)`)
})

// userInfo is the password of a URL; an upper bound keeps it to one line's
// worth.
var userInfo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@"'<>\\]{0,128}:)[^\s/:@"'<>\\]{1,256}@`)
})

// A block that was cut off before its end goes as far as what follows looks
// like its body. Line breaks may be escaped ones.
var pemBlock = sync.OnceValue(func() *regexp.Regexp {
	const begin, end = `-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`, `-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`
	const body = `(?:[A-Za-z0-9+/=\s:,.-]|\\+[nrt])`
	return regexp.MustCompile(begin + body + `*?` + end + `|` + begin + body + `*`)
})
