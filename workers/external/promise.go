package external

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// promise is what an agent ends its final text with when its task is complete.
const promise = "<promise>COMPLETE</promise>"

// The forms of the promise: in any case, with blanks inside.
var promiseForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<\s*promise\s*>\s*complete\s*<\s*/\s*promise\s*>`)
})

// Said returns the final text of a run without the line that declares its end.
func Said(res Result) string {
	text := strings.TrimSpace(res.Final)
	if !res.Declared {
		return text
	}
	text = promiseForms().ReplaceAllLiteralString(text, promise)
	i := strings.LastIndex(text, promise)
	if i < 0 {
		return text
	}
	before, after := strings.TrimRight(text[:i], marks+" \t\r\n"), strings.TrimLeft(text[i+len(promise):], marks+" \t\r\n")
	return strings.TrimSpace(before + "\n" + after)
}

// marks may surround a promise on its line: emphasis, a code span, the end of a
// sentence.
const marks = "*_`.!"

// closingWords bounds the line that may follow the promise.
const closingWords = 12

// promised reports whether a final text declares the end, and else why a promise in
// it does not count; "" when it has none. A promise counts at the end of one of the
// last two lines, of which the one behind it must be short; not in a block of code, in
// a quotation, inside a sentence or one that denies it, or as an echo of the end of the
// prompt. Of a text whose beginning is missing (tail) it counts only alone on its line.
func promised(text, prompt string, tail bool) (ok bool, why string) {
	text = promiseForms().ReplaceAllLiteralString(text, promise)
	if !strings.Contains(text, promise) {
		return false, ""
	}
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	if echoes(lines, prompt) {
		return false, "it repeats the end of the prompt"
	}
	at := len(lines) - 1
	if !strings.Contains(lines[at], promise) && closing(lines[at]) {
		for at--; at > 0 && strings.TrimSpace(lines[at]) == ""; {
			at--
		}
	}
	switch {
	case at < 0 || !strings.Contains(lines[at], promise):
		return false, "more than a short closing line follows it"
	case inCode(lines, at, tail):
		return false, "it is in a block of code or a quotation"
	}
	return atEnd(lines[at], tail)
}

// closing reports whether a line may follow the promise: a few words that take
// nothing back.
func closing(l string) bool {
	return len(strings.Fields(l)) <= closingWords && !strings.ContainsAny(l, "<>?") && !denies(l)
}

// denies reports whether words say that something is not, not yet or only under a
// condition so, or speak of what is said.
func denies(s string) bool {
	s = strings.ToLower(strings.ReplaceAll(s, "’", "'"))
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return r != '\'' && !unicode.IsLetter(r) }) {
		switch w {
		case "not", "never", "cannot", "unable", "until", "unless", "once", "when", "if", "before", "would", "should", "will", "yet", "still", "but", "however", "incomplete",
			"say", "says", "output", "print", "write", "emit", "reply", "respond":
			return true
		}
		if strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "'ll") {
			return true
		}
	}
	return false
}

// inCode reports whether a line of a text is code or a quotation. In the tail of a
// text a fence may as well end a block whose beginning is missing.
func inCode(lines []string, at int, tail bool) bool {
	fence := ""
	for _, l := range lines[:at] {
		bare := strings.TrimLeft(l, " \t")
		switch mark := fenceMark(bare); {
		case fence != "":
			if mark != "" && mark[0] == fence[0] && len(mark) >= len(fence) && strings.TrimSpace(bare[len(mark):]) == "" {
				fence = ""
			}
		case mark != "" && len(l)-len(bare) < 4:
			fence = mark
		}
	}
	l := lines[at]
	bare := strings.TrimLeft(l, " \t")
	return fence != "" && !tail || len(l)-len(bare) >= 4 || strings.HasPrefix(l, "\t") || strings.HasPrefix(bare, ">")
}

// fenceMark is the run of ``` or ~~~ that a line begins with, "" for none.
func fenceMark(l string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(l) - len(strings.TrimLeft(l, c)); n >= 3 {
			return l[:n]
		}
	}
	return ""
}

// atEnd reports whether a line ends with the promise, alone or after words that
// neither quote nor deny it, and else why it does not count.
func atEnd(l string, alone bool) (ok bool, why string) {
	i := strings.LastIndex(l, promise)
	before, after := l[:i], strings.Trim(l[i+len(promise):], marks+" \t\r")
	words := strings.Trim(before, marks+" \t")
	switch {
	case words == "" && after == "":
		return true, ""
	case alone:
		return false, "it is not alone on its line"
	case strings.Count(before, "`")%2 == 1, strings.ContainsAny(lastRune(before), "`\"'“‘«("):
		return false, "it is quoted"
	case after != "":
		return false, "words follow it on its line"
	case denies(sentence(before)):
		return false, "its sentence does not say that the task is complete"
	}
	return true, ""
}

// sentence is what follows the last end of a sentence in a text.
func sentence(s string) string {
	s = strings.TrimRight(s, " \t*_")
	if i := strings.LastIndexAny(s, ".!?。！？"); i >= 0 {
		_, n := utf8.DecodeRuneInString(s[i:])
		return s[i+n:]
	}
	return s
}

func lastRune(s string) string {
	r := []rune(strings.TrimRight(s, " "))
	if len(r) == 0 {
		return ""
	}
	return string(r[len(r)-1])
}

// echoes reports whether a text ends as the prompt does, by more than one line with
// words: then it repeats the prompt, which names the promise.
func echoes(lines []string, prompt string) bool {
	of := said(strings.Split(prompt, "\n"))
	text := said(lines)
	same := 0
	for same < min(len(of), len(text)) && of[len(of)-1-same] == text[len(text)-1-same] {
		same++
	}
	return same > 1 || same == 1 && len(of) == 1 && of[0] != promise
}

// said are the lines that are not empty, trimmed.
func said(lines []string) []string {
	var out []string
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}
