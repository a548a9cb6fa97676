package line

import "unicode"

// reach is where a motion of vi goes.
type reach struct {
	pos       int
	inclusive bool // the character there belongs to it
	rows      bool // whole rows do
	ok        bool
}

// find is the last motion to a character of the row.
type find struct {
	how, r rune // how is f, F, t or T
}

// viMotion is the motion of one key from pos, n times. counted says that n was
// typed, acting that an operator waits for the motion.
func viMotion(line []rune, pos int, key rune, n int, counted, acting bool) reach {
	start, end := lineStart(line, pos), lineEnd(line, pos)
	switch key {
	case 'h':
		to := pos
		for range min(n, len(line)) {
			to = max(left(line, to), start)
		}
		return reach{pos: to, ok: to < pos}
	case 'l', ' ':
		to := pos
		for range min(n, len(line)) {
			to = min(right(line, to), end)
		}
		return reach{pos: to, ok: to > pos}
	case '0':
		return reach{pos: start, ok: true}
	case '^':
		return reach{pos: firstInk(line, pos), ok: true}
	case '_': // n - 1 rows down, and behind an operator whole rows
		to := rowsAway(line, pos, n-1, '+')
		return reach{pos: to.pos, rows: true, ok: n == 1 || to.ok}
	case '$':
		return dollar(line, pos, n)
	case '|':
		return reach{pos: min(start+n-1, end), ok: true}
	case 'w', 'W':
		return reach{pos: repeat(line, pos, n, key == 'W', nextWord), ok: pos < len(line)}
	case 'b', 'B':
		to := repeat(line, pos, n, key == 'B', previousWord)
		return reach{pos: to, ok: to < pos}
	case 'e', 'E':
		to := repeat(line, pos, n, key == 'E', wordEnd)
		return reach{pos: to, inclusive: true, ok: acting || to > pos}
	case 'G':
		row := n
		if !counted {
			row = len(line) + 1
		}
		return reach{pos: firstInk(line, rowAt(line, row)), rows: true, ok: true}
	case 'j', 'k', '+', '-':
		return rowsAway(line, pos, n, key)
	case '%':
		to, ok := bracket(line, pos)
		return reach{pos: to, inclusive: true, ok: ok}
	}
	return reach{pos: pos}
}

func repeat(line []rune, pos, n int, big bool, step func([]rune, int, bool) int) int {
	for range n {
		next := step(line, pos, big)
		if next == pos {
			break
		}
		pos = next
	}
	return pos
}

func dollar(line []rune, pos, n int) reach {
	end := lineEnd(line, pos)
	for range n - 1 {
		if end == len(line) {
			break
		}
		end = lineEnd(line, end+1)
	}
	return reach{pos: end, ok: true}
}

// rowsAway is n rows down or up; + and - go to the text of the row.
func rowsAway(line []rune, pos, n int, key rune) reach {
	to, moved, column := pos, false, pos-lineStart(line, pos)
	for range n {
		next, ok := rowMove(line, to, column, key == 'k' || key == '-')
		if !ok {
			break
		}
		to, moved = next, true
	}
	if key == '+' || key == '-' {
		to = firstInk(line, to)
	}
	return reach{pos: to, rows: true, ok: moved}
}

// rowAt is the beginning of row n, counted from 1, or of the last one.
func rowAt(line []rune, n int) int {
	at := 0
	for i, r := range line {
		if n <= 1 {
			break
		}
		if r == '\n' {
			at = i + 1
			n--
		}
	}
	return at
}

// firstInk is the first place of the row that is not blank.
func firstInk(line []rune, pos int) int {
	at, end := lineStart(line, pos), lineEnd(line, pos)
	for at < end && unicode.IsSpace(line[at]) {
		at++
	}
	return at
}

// emptyRow reports whether a row without text begins at pos; vi stops there.
func emptyRow(line []rune, pos int) bool {
	return (pos == len(line) || line[pos] == '\n') && pos > 0 && line[pos-1] == '\n'
}

func nextWord(line []rune, pos int, big bool) int {
	if pos >= len(line) {
		return pos
	}
	k := kindOf(line[pos], big)
	for first := true; pos < len(line) && kindOf(line[pos], big) == k && k != kindBlank && (first || k != kindToken); first = false {
		pos++
	}
	for pos < len(line) && kindOf(line[pos], big) == kindBlank {
		pos++
		if pos < len(line) && emptyRow(line, pos) {
			break
		}
	}
	return pos
}

func previousWord(line []rune, pos int, big bool) int {
	pos = max(pos-1, 0)
	for pos > 0 && kindOf(line[pos], big) == kindBlank && !emptyRow(line, pos) {
		pos--
	}
	if len(line) == 0 {
		return 0
	}
	k := kindOf(line[pos], big)
	for pos > 0 && k != kindBlank && k != kindToken && kindOf(line[pos-1], big) == k {
		pos--
	}
	return pos
}

// wordEnd is the last rune of the word that ends after pos.
func wordEnd(line []rune, pos int, big bool) int {
	if pos+1 >= len(line) {
		return pos
	}
	at := pos + 1
	for at < len(line)-1 && kindOf(line[at], big) == kindBlank {
		at++
	}
	return runEnd(line, at, big)
}

// runEnd is the last rune of the word that holds pos.
func runEnd(line []rune, pos int, big bool) int {
	for k := kindOf(line[pos], big); k != kindToken && pos+1 < len(line) && kindOf(line[pos+1], big) == k; {
		pos++
	}
	return pos
}

// seek is the place of the n-th r in the row, as f, F, t and T mean it. again says
// that t stands before an r already.
func seek(line []rune, pos int, f find, n int, again bool) reach {
	step := 1
	if f.how == 'F' || f.how == 'T' {
		step = -1
	}
	at := pos
	if again && (f.how == 't' || f.how == 'T') {
		at += step
	}
	for at += step; at >= 0 && at < len(line) && line[at] != '\n'; at += step {
		if line[at] != f.r {
			continue
		}
		if n--; n > 0 {
			continue
		}
		switch f.how {
		case 't':
			at--
		case 'T':
			at++
		}
		return reach{pos: at, inclusive: step > 0, ok: true}
	}
	return reach{pos: pos}
}

// reversed is the motion that , does.
func (f find) reversed() find {
	switch f.how {
	case 'f', 't':
		f.how += 'F' - 'f'
	default:
		f.how += 'f' - 'F'
	}
	return f
}

// bracketOf says what a bracket pairs with, and which way that is; 0 for none.
func bracketOf(r rune) (with rune, step int) {
	switch r {
	case '(':
		return ')', 1
	case '[':
		return ']', 1
	case '{':
		return '}', 1
	case '<':
		return '>', 1
	case ')':
		return '(', -1
	case ']':
		return '[', -1
	case '}':
		return '{', -1
	case '>':
		return '<', -1
	}
	return 0, 0
}

// bracket is the other end of the first bracket at or after pos in the row.
func bracket(line []rune, pos int) (int, bool) {
	at := pos
	for ; ; at++ {
		if at >= len(line) || line[at] == '\n' {
			return pos, false
		}
		if r := line[at]; r != '<' && r != '>' {
			if _, step := bracketOf(r); step != 0 {
				break
			}
		}
	}
	with, step := bracketOf(line[at])
	return pair(line, at, line[at], with, step)
}

// pair goes from at, where depth is 1, to what closes it.
func pair(line []rune, at int, opens, closes rune, step int) (int, bool) {
	depth := 1
	for i := at + step; i >= 0 && i < len(line); i += step {
		switch line[i] {
		case closes:
			depth--
		case opens:
			depth++
		}
		if depth == 0 {
			return i, true
		}
	}
	return at, false
}

// object is the text that a letter behind i or a names, from and to; around takes
// what separates it along.
func object(line []rune, pos int, what rune, around bool) (from, to int, ok bool) {
	switch what {
	case 'w', 'W':
		return wordObject(line, pos, what == 'W', around)
	case '"', '\'', '`':
		return quoteObject(line, pos, what, around)
	case 'b':
		what = '('
	case 'B':
		what = '{'
	}
	opens, closes := what, rune(0)
	with, step := bracketOf(what)
	if step < 0 {
		opens, closes = with, what
	} else {
		closes = with
	}
	if step == 0 || pos >= len(line) {
		return 0, 0, false
	}
	from = pos
	if line[pos] != opens {
		if from, ok = pair(line, pos, closes, opens, -1); !ok {
			return 0, 0, false
		}
	}
	if to, ok = pair(line, from, opens, closes, 1); !ok {
		return 0, 0, false
	}
	if around {
		return from, to + 1, true
	}
	return from + 1, to, true
}

func wordObject(line []rune, pos int, big, around bool) (from, to int, ok bool) {
	if pos >= len(line) || line[pos] == '\n' {
		return 0, 0, false
	}
	start, end := lineStart(line, pos), lineEnd(line, pos)
	k := kindOf(line[pos], big)
	same := func(i int) bool { return k != kindToken && kindOf(line[i], big) == k }
	blank := func(i int) bool { return kindOf(line[i], big) == kindBlank }
	for from = pos; from > start && same(from-1); from-- {
	}
	for to = pos + 1; to < end && same(to); to++ {
	}
	if !around {
		return from, to, true
	}
	if k == kindBlank {
		if to < end {
			to = min(runEnd(line, to, big)+1, end)
		}
		return from, to, true
	}
	rest := to
	for to < end && blank(to) {
		to++
	}
	for to == rest && from > start && blank(from-1) {
		from--
	}
	return from, to, true
}

func quoteObject(line []rune, pos int, quote rune, around bool) (from, to int, ok bool) {
	end := lineEnd(line, pos)
	open := -1
	for i := lineStart(line, pos); i < end; i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if line[i] != quote {
			continue
		}
		if open >= 0 && i >= pos {
			if around {
				return open, i + 1, true
			}
			return open + 1, i, true
		}
		if open >= 0 {
			open = -1
			continue
		}
		open = i
	}
	return 0, 0, false
}
