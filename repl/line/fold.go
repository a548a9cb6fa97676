package line

import (
	"fmt"
	"strings"
)

// A paste of more lines or bytes than these is shown as a token.
const (
	foldLines = 8
	foldBytes = 1024
)

// folder keeps the contents of folded pastes. The zero folder is empty. A token
// stays good for the whole session, so that it can be recalled from history.
type folder struct {
	contents map[string]string
}

// fold returns what to put into the line for text: the text itself, or a token
// for a long one.
func (f *folder) fold(text string) string {
	lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1
	if lines <= foldLines && len(text) <= foldBytes {
		return text
	}
	size := fmt.Sprintf("%d lines", lines)
	if lines <= foldLines {
		size = fmt.Sprintf("%d characters", len([]rune(text)))
	}
	token := fmt.Sprintf("[pasted %s]", size)
	for n := 2; f.contents[token] != "" && f.contents[token] != text; n++ {
		token = fmt.Sprintf("[pasted %s #%d]", size, n)
	}
	if f.contents == nil {
		f.contents = map[string]string{}
	}
	f.contents[token] = text
	return token
}

// unfold puts the contents back in place of the tokens, in one pass, so that a
// paste which contains a token is left alone.
func (f *folder) unfold(text string) string {
	if len(f.contents) == 0 || !strings.Contains(text, "[pasted ") {
		return text
	}
	var b strings.Builder
	for {
		i := strings.Index(text, "[pasted ")
		if i < 0 {
			break
		}
		end := strings.IndexByte(text[i:], ']')
		if end < 0 {
			break
		}
		token := text[i : i+end+1]
		b.WriteString(text[:i])
		if full, ok := f.contents[token]; ok {
			b.WriteString(full)
			text = text[i+end+1:]
			continue
		}
		b.WriteString("[pasted ")
		text = text[i+len("[pasted "):]
	}
	b.WriteString(text)
	return b.String()
}

// before returns the length in runes of the token that ends at the cursor, 0
// when there is none.
func (f *folder) before(text []rune, pos int) int {
	if len(f.contents) == 0 || pos == 0 || text[pos-1] != ']' {
		return 0
	}
	head := string(text[:pos])
	i := strings.LastIndex(head, "[pasted ")
	if i < 0 {
		return 0
	}
	if _, ok := f.contents[head[i:]]; !ok {
		return 0
	}
	return len([]rune(head[i:]))
}
