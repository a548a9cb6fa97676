package scripts

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ralph/coordinator/slash"
	"ralph/memory/text"
)

// maxScriptBytes bounds a script file.
const maxScriptBytes = 4 << 20

// waitWithin is how long a wait without a word about it lasts.
const waitWithin = 30 * time.Second

// scriptVerb is what a statement of a script does.
type scriptVerb string

const (
	verbSay    scriptVerb = "say"    // type a line and wait until all has ended
	verbBeside scriptVerb = "beside" // type a line and go on
	verbExpect scriptVerb = "expect"
	verbWait   scriptVerb = "wait"
)

// statement is one statement of a script.
type statement struct {
	line   int // from 1
	verb   scriptVerb
	text   string        // the chat line, or the expression as it was written
	expr   *scriptExpr   // of expect and wait
	within time.Duration // of wait
}

// command is the slash command that a statement types, "" for none.
func (s statement) command() string {
	if s.expr != nil {
		return ""
	}
	name, _, ok := slashed(s.text)
	if c, _, known := slash.Find(name); ok && known {
		return c.Name
	}
	return ""
}

// lineError is a mistake on one line of a script.
type lineError struct {
	line int
	text string
}

// parseScript takes a script apart and checks all of it. What is wrong is told
// line by line; then there are no statements.
func parseScript(text string, exprs scriptExprs) ([]statement, []lineError) {
	p := &scriptParser{exprs: exprs}
	text = strings.TrimPrefix(text, "\uFEFF")
	switch i := strings.IndexFunc(text, func(r rune) bool { return r == 0 }); {
	case len(text) > maxScriptBytes:
		return nil, []lineError{{1, "the script is longer than " + sizeText(maxScriptBytes)}}
	case i >= 0:
		return nil, []lineError{{1 + strings.Count(text[:i], "\n"), "the script is binary, not text"}}
	}
	var held strings.Builder
	begun := 0 // the line at which what is held began
	number := 0
	for raw := range strings.Lines(text) {
		number++
		body := strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
		if !utf8.ValidString(body) {
			p.wrong(number, "the line is not valid UTF-8")
			continue
		}
		if bare := strings.TrimSpace(body); begun == 0 && (bare == "" || strings.HasPrefix(bare, "#")) {
			continue
		}
		if begun == 0 {
			begun = number
		}
		// As in the chat: a backslash at the end joins lines, two do not.
		if front, joins := strings.CutSuffix(body, `\`); joins && !strings.HasSuffix(front, `\`) {
			held.WriteString(front + "\n")
			continue
		}
		p.statement(begun, strings.TrimSpace(held.String()+body))
		held.Reset()
		begun = 0
	}
	switch {
	case begun > 0:
		p.wrong(begun, `no line follows the \ at the end`)
	case len(p.list) == 0 && len(p.bad) == 0:
		p.wrong(max(number, 1), "the script has no lines to type and nothing to expect")
	}
	if len(p.bad) > 0 {
		return nil, p.bad
	}
	return p.list, nil
}

type scriptParser struct {
	exprs scriptExprs
	list  []statement
	bad   []lineError
	left  int // the line that leaves the chat, 0 for none
}

func (p *scriptParser) wrong(line int, format string, args ...any) {
	p.bad = append(p.bad, lineError{line, fmt.Sprintf(format, args...)})
}

// statement takes one line, already joined and trimmed.
func (p *scriptParser) statement(line int, text string) {
	if p.left > 0 {
		p.wrong(line, "is never reached: line %d leaves the chat", p.left)
	}
	s := statement{line: line, verb: verbSay, text: text}
	word, rest := text, ""
	if i := strings.IndexAny(text, " \t\n"); i >= 0 {
		word, rest = text[:i], strings.TrimSpace(text[i:])
	}
	switch {
	case word == "expect", word == "wait":
		p.check(s, word, rest)
		return
	case strings.HasPrefix(text, "&"):
		s.verb, s.text = verbBeside, strings.TrimSpace(text[1:])
		if s.text == "" {
			p.wrong(line, "& needs the line that is to be typed")
			return
		}
	default:
		if meant := p.misspelt(word, rest); meant != "" {
			p.wrong(line, "%s: did you mean %s? When it is meant for Ralph, begin the line with a backslash", oneRow(text), meant)
			return
		}
	}
	// What begins with a backslash is said as it stands behind it.
	literal, plain := strings.CutPrefix(s.text, `\`)
	if plain {
		s.text = literal
	} else if first, _, _ := strings.Cut(s.text, " "); s.verb == verbBeside && (first == "expect" || first == "wait" || strings.HasPrefix(first, "&")) {
		p.wrong(line, "%s cannot stand behind &; a line that begins so is typed with a backslash: & \\%s", first, s.text)
		return
	}
	if strings.TrimSpace(s.text) == "" {
		p.wrong(line, "there is nothing to type")
		return
	}
	if err := checkLine(s.text); err != nil {
		p.wrong(line, "%s", err)
		return
	}
	p.list = append(p.list, s)
	if s.command() == "exit" {
		p.left = line
	}
}

var withinForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^(.*?)(?:^|\s+)within\s+([\w.µ-]+)$`) })

// check takes an expect or a wait.
func (p *scriptParser) check(s statement, word, source string) {
	s.verb, s.text = scriptVerb(word), source
	if m := withinForm().FindStringSubmatch(source); m != nil && s.verb == verbWait {
		d, err := time.ParseDuration(m[2])
		if err != nil || d <= 0 {
			p.wrong(s.line, "wait … within %s: is no time such as 30s or 2m", m[2])
			return
		}
		source, s.text, s.within = m[1], m[1], d
	}
	if s.verb == verbWait && s.within == 0 {
		s.within = waitWithin
	}
	e, err := p.exprs.compile(source)
	if err != nil {
		say := ""
		if strings.Contains(err.Error(), "unexpected token") {
			say = " (when it is meant for Ralph, begin the line with a backslash)"
		}
		p.wrong(s.line, "%s: %s%s", strings.TrimSpace(word+" "+oneRow(s.text)), err, say)
		return
	}
	s.expr = e
	p.list = append(p.list, s)
}

// misspelt is the directive that a word nearly is. Only what stands in front of an
// expression that compiles is taken for one: text for Ralph hardly does.
func (p *scriptParser) misspelt(word, rest string) string {
	meant := text.Closest(strings.TrimRight(word, ":"), []string{string(verbExpect), string(verbWait)})
	if meant == "" {
		return ""
	}
	if m := withinForm().FindStringSubmatch(rest); m != nil && meant == string(verbWait) {
		rest = m[1]
	}
	if _, err := p.exprs.compile(rest); err != nil {
		return ""
	}
	return meant
}

// checkLine says what of a chat line is known to be wrong before it is typed.
func checkLine(text string) error {
	if text == "!" {
		return errors.New("! needs a command: !go test ./... runs the tests")
	}
	name, args, ok := slashed(text)
	if !ok || name == "" {
		return nil
	}
	c, nearby, known := slash.Find(name)
	switch {
	case !known && len(nearby) > 0:
		return fmt.Errorf("there is no command /%s; did you mean /%s?", name, strings.Join(nearby, ", /"))
	case !known:
		return fmt.Errorf("there is no command /%s; /help in the chat lists them", name)
	case c.Args == "" && args != "":
		return fmt.Errorf("/%s takes no argument", c.Name)
	case c.Args != "" && c.Args[0] != '[' && args == "":
		return fmt.Errorf("/%s needs %s", c.Name, c.Args)
	case c.Name == "run":
		_, err := slash.RunFlags(args)
		return err
	}
	return nil
}

// slashed takes a slash command apart: a slash and a word without another slash or
// a dot, so that a line may begin with a path.
func slashed(text string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok || strings.HasPrefix(rest, "/") {
		return "", "", false
	}
	name = rest
	if i := strings.IndexAny(rest, " \t\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i+1:])
	}
	return name, args, !strings.ContainsAny(name, "/.")
}

// oneRow is a statement in a row of an error.
func oneRow(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxShownValue {
		return string(r[:maxShownValue]) + "…"
	}
	return text
}
