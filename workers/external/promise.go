package external

import "strings"

// promise is what an agent ends its final text with when its task is complete.
const promise = "<promise>COMPLETE</promise>"

// Said is the final text of a run without the line that declares its end.
func Said(res Result) string {
	text := strings.TrimSpace(res.Final)
	if !res.Declared {
		return text
	}
	bare := strings.TrimRight(text, "*_ .!")
	if cut, ok := strings.CutSuffix(bare, promise); ok {
		return strings.TrimRight(cut, "*_ \t\r\n")
	}
	return text
}

// promised says that a final text holds the promise: on a line of its own or at
// the end of the text, and neither in a block of code, nor in a quotation, nor as
// an echo of the end of the prompt. Of a text whose beginning is missing, and of
// one that may hold more than the assistant's words (tail), only the last line
// counts.
func promised(text, prompt string, tail bool) bool {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	if echoes(lines, prompt) {
		return false
	}
	end := len(lines) - 1
	if tail {
		return alone(lines[end])
	}
	fence := ""
	for i, l := range lines {
		bare := strings.TrimLeft(l, " \t")
		indent := len(l) - len(bare)
		mark := fenceMark(bare)
		switch {
		case fence != "":
			if mark != "" && mark[0] == fence[0] && len(mark) >= len(fence) && strings.TrimSpace(bare[len(mark):]) == "" {
				fence = ""
			}
		case mark != "" && indent < 4:
			fence = mark
		case strings.HasPrefix(bare, ">"), indent >= 4 || strings.HasPrefix(l, "\t"):
		case alone(l), i == end && atEnd(l):
			return true
		}
	}
	return false
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

// alone says that a line holds the promise and nothing else but emphasis.
func alone(l string) bool {
	return strings.Trim(strings.TrimSpace(l), "*_ .!") == promise
}

// atEnd says that a line ends with the promise, after words that do not quote it.
func atEnd(l string) bool {
	l = strings.TrimRight(l, "*_ .!\t\r")
	before, ok := strings.CutSuffix(l, promise)
	return ok && strings.Count(before, "`")%2 == 0 && !strings.ContainsAny(lastRune(before), "`\"'“‘«(")
}

func lastRune(s string) string {
	r := []rune(strings.TrimRight(s, " "))
	if len(r) == 0 {
		return ""
	}
	return string(r[len(r)-1])
}

// echoes says that a text ends as the prompt does, by more than one line that
// says something: then it repeats the prompt, which names the promise.
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
