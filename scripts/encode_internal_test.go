package scripts

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// A document on a terminal does nothing to it, and still says the same.
func TestEncodedDocumentsAreHarmless(t *testing.T) {
	const text = "a\u009b31m \u202eevil\u2069 zero\u200bwidth \x7f \x1b[2J \U000e0041 ünï 日本 <b> \ufeff"
	line, err := encode(map[string]string{text: text})
	if err != nil || !utf8.Valid(line) {
		t.Fatalf("%s %v", line, err)
	}
	if strings.ContainsAny(string(line), "\u009b\u202e\u2069\u200b\x7f\x1b\U000e0041\ufeff") {
		t.Errorf("%q", line)
	}
	if !strings.Contains(string(line), "ünï 日本 <b>") {
		t.Errorf("more is escaped than need be: %s", line)
	}
	var back map[string]string
	if err := json.Unmarshal(line, &back); err != nil || back[text] != text {
		t.Errorf("%q %v", back, err)
	}
}
