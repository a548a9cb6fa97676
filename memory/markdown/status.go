package markdown

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Status is how a task stands.
type Status string

// The status words, as Ralph writes them.
const (
	Pending     Status = "pending"
	InProgress  Status = "in_progress"
	Interrupted Status = "interrupted"
	Blocked     Status = "blocked"
	Done        Status = "done"
	Failed      Status = "failed"
	Skipped     Status = "skipped"
)

// Valid reports whether s is one of the status words.
func (s Status) Valid() bool {
	switch s {
	case Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped:
		return true
	}
	return false
}

// Open reports whether work on the task remains.
func (s Status) Open() bool { return s != Done && s != Failed && s != Skipped }

// statusWord is one way in which people write a status. Order matters: the
// first word found counts, so that "not done" is not done.
type statusWord struct {
	word   string
	status Status
}

var statusWords = sync.OnceValue(func() []statusWord {
	return []statusWord{
		{"部分完成", InProgress}, {"未完成", Pending}, {"未开始", Pending}, {"已完成", Done}, {"完成", Done}, {"进行中", InProgress},
		{"待办", Pending}, {"阻塞", Blocked}, {"失败", Failed}, {"已跳过", Skipped}, {"已中断", Interrupted}, {"已取消", Skipped},
		{"not done", Pending}, {"not started", Pending}, {"not yet", Pending}, {"incomplete", Pending}, {"partial", InProgress}, {"partially", InProgress},
		{"in progress", InProgress}, {"in_progress", InProgress}, {"in-progress", InProgress}, {"wip", InProgress}, {"doing", InProgress},
		{"started", InProgress}, {"working", InProgress}, {"active", InProgress}, {"review", InProgress}, {"in review", InProgress},
		{"interrupted", Interrupted}, {"paused", Interrupted},
		{"blocked", Blocked}, {"on hold", Blocked}, {"waiting", Blocked},
		{"failed", Failed}, {"error", Failed}, {"given up", Failed},
		{"skipped", Skipped}, {"deferred", Skipped}, {"cancelled", Skipped}, {"canceled", Skipped}, {"dropped", Skipped}, {"wontfix", Skipped}, {"won't do", Skipped},
		{"done", Done}, {"complete", Done}, {"completed", Done}, {"finished", Done}, {"closed", Done}, {"met", Done}, {"erledigt", Done}, {"fertig", Done},
		{"hecho", Done}, {"completado", Done}, {"terminé", Done}, {"terminée", Done}, {"готово", Done}, {"完了", Done},
		{"offen", Pending}, {"en cours", InProgress}, {"en progreso", InProgress}, {"в работе", InProgress},
		{"pending", Pending}, {"todo", Pending}, {"to do", Pending}, {"open", Pending}, {"planned", Pending}, {"queued", Pending}, {"ready", Pending}, {"pendiente", Pending},
	}
})

var statusEmoji = sync.OnceValue(func() []statusWord {
	return []statusWord{
		{"✅", Done}, {"✔", Done}, {"✓", Done}, {"☑", Done}, {"🔄", InProgress}, {"🚧", InProgress}, {"⚠", InProgress},
		{"⏳", Pending}, {"⬜", Pending}, {"☐", Pending}, {"🔲", Pending}, {"🚫", Blocked}, {"⛔", Blocked}, {"❌", Failed}, {"⏭", Skipped}, {"⏸", Interrupted},
	}
})

// ReadStatus finds the status in a short text: words first, then a box, then
// an emoji.
func ReadStatus(text string) (Status, bool) {
	if s := Status(text); s.Valid() {
		return s, true
	}
	text = strings.ToLower(strings.Trim(strings.TrimSpace(text), "*_`"))
	if len(text) > 80 {
		text = text[:80]
	}
	for _, w := range statusWords() {
		if hasWord(text, w.word) {
			return w.status, true
		}
	}
	if mark, _, ok := cutBox(text); ok {
		return markStatus(mark), true
	}
	for _, w := range statusEmoji() {
		if strings.Contains(text, w.word) {
			return w.status, true
		}
	}
	return "", false
}

// hasWord reports whether word stands in text with no letter next to it;
// scripts without blanks between words have no such borders.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		at := from + i
		first, _ := utf8.DecodeRuneInString(word)
		if unicode.Is(unicode.Han, first) || !letterBefore(text, at) && !letterAfter(text, at+len(word)) {
			return true
		}
		from = at + len(word)
	}
}

func letterBefore(s string, i int) bool {
	r, _ := utf8.DecodeLastRuneInString(s[:i])
	return unicode.IsLetter(r)
}

func letterAfter(s string, i int) bool {
	for _, r := range s[i:] {
		return unicode.IsLetter(r)
	}
	return false
}

// cutBox splits a box with a known mark from the text behind it.
func cutBox(s string) (mark byte, rest string, ok bool) {
	if len(s) < 3 || s[0] != '[' || s[2] != ']' || !strings.ContainsRune(" xX~!-/>Rr", rune(s[1])) {
		return 0, s, false
	}
	if len(s) > 4 && s[3] == '*' && s[4] == ' ' {
		return s[1], s[4:], true // an optional one
	}
	if len(s) > 3 && s[3] != ' ' && s[3] != '\t' {
		return 0, s, false // a link, or a reference
	}
	return s[1], s[3:], true
}

func markStatus(mark byte) Status {
	switch mark {
	case 'x', 'X':
		return Done
	case '~', '/', '>', 'R', 'r':
		return InProgress
	case '!':
		return Blocked
	case '-':
		return Skipped
	}
	return Pending
}

// statusMark is the mark of a status in files that use more than ticks.
func statusMark(s Status) byte {
	switch s {
	case Done:
		return 'x'
	case InProgress, Interrupted:
		return '~'
	case Blocked, Failed:
		return '!'
	case Skipped:
		return '-'
	}
	return ' '
}

// restyle writes a status the way the old text did: with its box or emoji, in
// its language and its letters. Old text that is plain gives the plain word.
func restyle(old string, s Status) string {
	var out []string
	trimmed := strings.TrimSpace(old)
	if mark, rest, ok := cutBox(trimmed); ok {
		m := statusMark(s)
		if mark == 'X' && m == 'x' {
			m = 'X'
		}
		out = append(out, "["+string(m)+"]")
		trimmed = strings.TrimSpace(rest)
	}
	for _, e := range statusEmoji() {
		if strings.HasPrefix(trimmed, e.word) {
			out = append(out, emojiFor(s))
			trimmed = strings.TrimLeft(strings.TrimPrefix(trimmed, e.word), "\ufe0f ")
			break
		}
	}
	if trimmed == "" && len(out) > 0 && s != Interrupted && s != Failed {
		return strings.Join(out, " ")
	}
	return strings.Join(append(out, wordLike(trimmed, s)), " ")
}

func wordLike(old string, s Status) string {
	for _, r := range old {
		if unicode.Is(unicode.Han, r) {
			return chineseFor(s)
		}
	}
	word := string(s)
	if strings.Contains(old, " ") || !strings.Contains(old, "_") && old != strings.ToLower(old) {
		word = strings.ReplaceAll(word, "_", " ")
	}
	switch {
	case old == "" || old == strings.ToLower(old):
		return word
	case old == strings.ToUpper(old):
		return strings.ToUpper(word)
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func emojiFor(s Status) string {
	switch s {
	case Done:
		return "✅"
	case InProgress:
		return "🔄"
	case Blocked:
		return "🚫"
	case Failed:
		return "❌"
	case Skipped:
		return "⏭"
	case Interrupted:
		return "⏸"
	}
	return "⏳"
}

func chineseFor(s Status) string {
	switch s {
	case Done:
		return "已完成"
	case InProgress:
		return "进行中"
	case Blocked:
		return "阻塞"
	case Failed:
		return "失败"
	case Skipped:
		return "已跳过"
	case Interrupted:
		return "已中断"
	}
	return "待办"
}
