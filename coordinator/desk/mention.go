package desk

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxTried bounds how many words that begin with @ are looked at, maxSpelled
	// how many paths one of them may mean.
	maxTried   = 128
	maxSpelled = 8
	// maxMentionBytes bounds the path of a mention.
	maxMentionBytes = 4096
)

// Mentions finds the paths that a text mentions as @path or @"a path", in order
// and each once. A mention stands at the beginning or after a space or an opening
// bracket or quote, so that an e-mail address is none; at the beginning of a line
// @name: speaks to an agent. What follows a path, such as a comma, a closing
// bracket or a line number (main.go:12), is no part of it, unless is says so: it is
// asked whether a path is there.
func Mentions(text string, is func(path string) bool) []string {
	var found []string
	for at, tried := 0, 0; tried < maxTried; {
		i := strings.IndexByte(text[at:], '@')
		if i < 0 {
			break
		}
		begin := at + i
		at = begin + 1
		if !begins(text[:begin]) {
			continue
		}
		tried++
		spellings, length := spelled(text[at:min(len(text), at+maxMentionBytes)])
		if len(spellings) == 0 || speaks(text[:begin], text[at:at+length]) {
			continue
		}
		for _, path := range spellings {
			if is(path) {
				if !slices.Contains(found, path) {
					found = append(found, path)
				}
				at += length
				break
			}
		}
	}
	return found
}

// begins says that a mention may follow what stands before it.
func begins(before string) bool {
	r, size := utf8.DecodeLastRuneInString(before)
	return size == 0 || unicode.IsSpace(r) || strings.ContainsRune("([{<\"'`“‘«,;", r)
}

// speaks says that a word, which follows what is before it, speaks to an agent.
func speaks(before, word string) bool {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return strings.TrimSpace(line) == "" && strings.HasSuffix(word, ":")
}

// spelled gives the paths that a text after an @ may begin with, the likeliest
// first, and the length of the longest with its quotes; none when there can be no
// path.
func spelled(text string) (paths []string, length int) {
	if rest, ok := strings.CutPrefix(text, `"`); ok {
		end := strings.IndexAny(rest, "\"\n")
		if end <= 0 || rest[end] == '\n' {
			return nil, 0
		}
		return []string{rest[:end]}, end + 2
	}
	end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return nil, 0
	}
	word := text[:end]
	for word != "" && len(paths) < maxSpelled {
		paths = append(paths, word)
		if cut := withoutLine(word); cut != word {
			word = cut
			continue
		}
		r, size := utf8.DecodeLastRuneInString(word)
		if !strings.ContainsRune(".,;:!?…)]}>\"'`”’»", r) {
			break
		}
		word = word[:len(word)-size]
	}
	return paths, end
}

// withoutLine takes the number of a line, or a range of them, off a path.
func withoutLine(word string) string {
	i := strings.LastIndexByte(word, ':')
	if i <= 0 || i == len(word)-1 || strings.Trim(word[i+1:], "0123456789-") != "" {
		return word
	}
	return word[:i]
}
