package condition

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"ralph/memory/text"
)

const (
	// maxNesting bounds parentheses and brackets within each other.
	maxNesting = 64
	// maxNodes bounds the tree of an expression.
	maxNodes = 2000
	// maxRange bounds literal ranges, and maxLoops the loops (all, any, filter …)
	// within each other: together the time of one evaluation.
	maxRange = 100
	maxLoops = 2
	// maxConsecutive bounds N in "for N consecutive tasks".
	maxConsecutive = 1000
)

// streak is the end of a condition that must hold several times in a row.
type streak struct {
	n    int
	unit string
}

var consecutive = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)^(.*?)\s+for\s+(\S+)\s+consecutive(?:\s+(\w+))?\s*$`)
})

// split parts the expression from its consecutive form; both come out of the
// beginning of source, so positions stay.
func split(source string) (string, streak, error) {
	switch {
	case len(source) > MaxBytes:
		return "", streak{}, &Error{Source: source, Line: 1, Column: 1, Text: fmt.Sprintf("longer than %d bytes", MaxBytes), Hint: "split it into several conditions"}
	case strings.TrimSpace(source) == "":
		return "", streak{}, &Error{Source: source, Line: 1, Column: 1, Text: "the condition is empty"}
	case !utf8.ValidString(source):
		return "", streak{}, at(source, invalidAt(source), "not valid UTF-8", "")
	}
	for i, r := range source {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return "", streak{}, at(source, i, fmt.Sprintf("a control character (%U)", r), "")
		}
	}
	if i := tooDeep(source); i >= 0 {
		return "", streak{}, at(source, i, fmt.Sprintf("parentheses nested deeper than %d", maxNesting), "")
	}
	m := consecutive().FindStringSubmatchIndex(source)
	if m == nil {
		return source, streak{n: 1}, nil
	}
	s := streak{unit: "iterations"}
	n, err := strconv.Atoi(source[m[4]:m[5]])
	if err != nil || n < 1 || n > maxConsecutive {
		return "", streak{}, at(source, m[4], fmt.Sprintf("%q is not a number from 1 to %d", source[m[4]:m[5]], maxConsecutive), "")
	}
	s.n = n
	if m[6] >= 0 {
		word := strings.ToLower(source[m[6]:m[7]])
		units := []string{"tasks", "iterations", "attempts", "checks"}
		s.unit = ""
		for _, u := range units {
			if word == u || word+"s" == u {
				s.unit = u
			}
		}
		if s.unit == "" {
			return "", streak{}, at(source, m[6], fmt.Sprintf("cannot count consecutive %q", word), "use "+strings.Join(units, ", "))
		}
	}
	return source[:m[3]], s, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return 0
}

// tooDeep is the offset of the first bracket beyond maxNesting, or -1. Brackets in
// text count too: no condition needs that many.
func tooDeep(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '[', '{':
			if depth++; depth > maxNesting {
				return i
			}
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return -1
}

// at is an error at a byte offset of the source.
func at(source string, offset int, text, hint string) *Error {
	before := source[:offset]
	line := 1 + strings.Count(before, "\n")
	if i := strings.LastIndexByte(before, '\n'); i >= 0 {
		before = before[i+1:]
	}
	return &Error{Source: source, Line: line, Column: 1 + utf8.RuneCountInString(before), Text: text, Hint: hint}
}

func compile(source, body string, env any) (*vm.Program, error) {
	_, clock := env.(Event)
	limit := &limits{loops: map[*ast.BuiltinNode]int{}, clock: clock}
	options := []expr.Option{
		expr.Env(env), expr.AsBool(), expr.MaxNodes(maxNodes), expr.Patch(limit),
		// A division is a call, so that one by zero is an error and not +Inf.
		expr.Function(divideName, divide, new(func(float64, float64) float64), new(func(int, int) float64), new(func(int, float64) float64), new(func(float64, int) float64)),
	}
	program, err := expr.Compile(body, options...)
	if limit.err != nil {
		err = limit.err
	}
	if err != nil {
		return nil, explain(source, err, env)
	}
	return program, nil
}

const divideName = "_quotient"

func divide(params ...any) (any, error) {
	a, oka := number(params[0])
	b, okb := number(params[1])
	switch {
	case !oka || !okb:
		return nil, fmt.Errorf("cannot divide %T by %T", params[0], params[1])
	case b == 0:
		return nil, errors.New("division by zero")
	}
	return a / b, nil
}

func number(v any) (float64, bool) {
	rv := reflect.ValueOf(v)
	switch {
	case rv.CanInt():
		return float64(rv.Int()), true
	case rv.CanUint():
		return float64(rv.Uint()), true
	case rv.CanFloat():
		return rv.Float(), true
	}
	return math.NaN(), false
}

// limits is a visitor that makes divisions into calls, and refuses what could run
// long, grow without bound or see a clock. Children are visited before parents.
type limits struct {
	err   error
	loops map[*ast.BuiltinNode]int // how many loops lie within each other from there on
	clock bool                     // dates, durations and the time of day are available
}

func (l *limits) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "/":
			callee := &ast.IdentifierNode{Value: divideName}
			callee.SetLocation(n.Location())
			ast.Patch(node, &ast.CallNode{Callee: callee, Arguments: []ast.Node{n.Left, n.Right}})
		case "..":
			l.bound(n)
		case "==", "!=", "<", "<=", ">", ">=":
			l.moments(n)
		}
	case *ast.VariableDeclaratorNode:
		l.say(n, "variables (let) are not available in conditions") // doubling one a few hundred times fills the memory
	case *ast.SequenceNode:
		l.say(n, "a condition is one expression")
	case *ast.BuiltinNode:
		l.builtin(n)
	}
}

func (l *limits) bound(n *ast.BinaryNode) {
	from, okf := n.Left.(*ast.IntegerNode)
	to, okt := n.Right.(*ast.IntegerNode)
	if !okf || !okt || to.Value < from.Value || to.Value-from.Value > maxRange {
		l.say(n, fmt.Sprintf("a range must be two numbers, at most %d apart", maxRange))
	}
}

// moments makes a text into a time that is compared with the timestamp of an event.
func (l *limits) moments(n *ast.BinaryNode) {
	for _, side := range [][2]*ast.Node{{&n.Left, &n.Right}, {&n.Right, &n.Left}} {
		name, ok := (*side[0]).(*ast.IdentifierNode)
		text, is := (*side[1]).(*ast.StringNode)
		if !l.clock || !ok || !is || name.Value != "timestamp" {
			continue
		}
		t, err := Moment(text.Value)
		if err != nil {
			l.say(text, err.Error())
			return
		}
		ast.Patch(side[1], &ast.ConstantNode{Value: t})
	}
}

// Moment reads a time as people write one into a filter: RFC 3339, or a date with or
// without a time of day, which are UTC.
func Moment(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly, "2006-01"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 2026-11-21, 2026-11-21 15:04 or 2026-11-21T15:04:05Z", text)
}

func (l *limits) builtin(n *ast.BuiltinNode) {
	if !available(n.Name) && !(l.clock && timed(n.Name)) {
		l.say(n, fmt.Sprintf("%s is not available in conditions", n.Name))
		return
	}
	own := 0
	below := &deepest{loops: l.loops}
	for i := range n.Arguments {
		if _, loop := n.Arguments[i].(*ast.PredicateNode); loop {
			own = 1
		}
		ast.Walk(&n.Arguments[i], below)
	}
	if l.loops[n] = own + below.n; l.loops[n] > maxLoops {
		l.say(n, fmt.Sprintf("loops (all, any, filter …) nested deeper than %d", maxLoops))
	}
}

func (l *limits) say(n ast.Node, text string) {
	if l.err == nil {
		l.err = &file.Error{Location: n.Location(), Message: text}
	}
}

// deepest is a visitor that finds the deepest loop of a subtree.
type deepest struct {
	loops map[*ast.BuiltinNode]int
	n     int
}

func (d *deepest) Visit(node *ast.Node) {
	if b, ok := (*node).(*ast.BuiltinNode); ok {
		d.n = max(d.n, d.loops[b])
	}
}

// available are the functions of the library that conditions may call: none that
// reads a clock, and none whose result can be much larger than what it is given.
func available(name string) bool {
	switch name {
	case "all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
		"len", "type", "abs", "ceil", "floor", "round", "int", "float", "string", "trim", "trimPrefix", "trimSuffix", "upper", "lower", "split",
		"indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "max", "min", "mean", "median", "first", "last", "get", "keys", "values", "uniq", "reverse", "sort":
		return true
	}
	return false
}

// timed are the functions that only filters of logs may call.
func timed(name string) bool { return name == "now" || name == "date" || name == "duration" }

// explain makes an Error of a compiler's error.
func explain(source string, err error, env any) *Error {
	e := &Error{Source: source, Line: 1, Column: 1, Text: headline(err)}
	var located *file.Error
	if errors.As(err, &located) {
		if located.Line == 0 {
			located = located.Bind(file.NewSource(source))
		}
		e.Line, e.Column, e.Text = located.Line, located.Column+1, located.Message
	}
	if strings.Contains(e.Text, divideName) {
		e.Text = "only numbers can be divided"
	}
	if name, ok := strings.CutPrefix(e.Text, "unknown name "); ok {
		names := namesOf(env)
		if word := text.Closest(name, names); word != "" {
			e.Hint = fmt.Sprintf("did you mean %s?", word)
		} else {
			e.Hint = "known are " + strings.Join(names, ", ")
		}
	}
	return e
}

// headline is the first line of an error of the library, without its drawing.
func headline(err error) string {
	var located *file.Error
	if errors.As(err, &located) {
		return located.Message
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

func namesOf(env any) []string {
	t := reflect.TypeOf(env)
	names := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("expr"))
	}
	return names
}
