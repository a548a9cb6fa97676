package scripts

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/policy/condition"
	"ralph/memory/text"
)

const (
	// maxExprDepth bounds brackets within each other: what is deeper can exhaust the
	// stack of the parser.
	maxExprDepth = 64
	// maxExprNodes bounds the tree of an expression.
	maxExprNodes = 2000
	// maxShownValue bounds the text of a value in an error.
	maxShownValue = 200
	// maxExprFile bounds what file() reads.
	maxExprFile = 1 << 20
)

// scriptExprs compiles the expressions of a script. It is a value.
type scriptExprs struct {
	root string // that paths are relative to
}

// scriptExpr is a compiled expression.
type scriptExpr struct {
	source  string
	program *vm.Program
	asks    bool     // it is about the question that is open
	shown   []string // the parts whose values explain it
}

// compile checks an expression and its names. The error is one line.
func (x scriptExprs) compile(source string) (*scriptExpr, error) {
	switch {
	case strings.TrimSpace(source) == "":
		return nil, errors.New("an expression is missing")
	case len(source) > condition.MaxBytes:
		return nil, fmt.Errorf("the expression is longer than %d bytes", condition.MaxBytes)
	case exprDepth(source) > maxExprDepth:
		return nil, fmt.Errorf("brackets are nested deeper than %d", maxExprDepth)
	}
	names, seen := scriptNames(), &exprParts{}
	program, err := expr.Compile(source, slices.Concat(x.functions(), []expr.Option{expr.Env(names), expr.AsBool(), expr.MaxNodes(maxExprNodes), expr.Patch(seen)})...)
	if err != nil {
		return nil, exprFault(source, err, names)
	}
	return &scriptExpr{source: source, program: program, shown: seen.parts, asks: slices.Contains(seen.names, "question")}, nil
}

func (x scriptExprs) functions() []expr.Option {
	return []expr.Option{
		expr.Function("file", x.file, new(func(string) string)),
		expr.Function("exists", x.exists, new(func(string) bool)),
		// A division is a call, so that one by zero is an error and not infinite.
		expr.Function(quotient, divided, new(func(any, any) float64)),
	}
}

func (x scriptExprs) path(v any) string {
	path, _ := v.(string) // the compiler let nothing else through
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(x.root, path)
}

// file is the text of a file.
func (x scriptExprs) file(params ...any) (any, error) {
	path := x.path(params[0])
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %q: %s", params[0], reason(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %q: is not a file", params[0])
	case info.Size() > maxExprFile:
		return nil, fmt.Errorf("read %q: is longer than %s", params[0], sizeText(maxExprFile))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %q: %s", params[0], reason(err))
	}
	return string(data), nil
}

func (x scriptExprs) exists(params ...any) (any, error) {
	_, err := os.Stat(x.path(params[0]))
	return err == nil, nil
}

// quotient is the function that divisions become.
const quotient = "_quotient"

func divided(params ...any) (any, error) {
	a, b := reflect.ValueOf(params[0]), reflect.ValueOf(params[1])
	float := reflect.TypeFor[float64]()
	if !a.IsValid() || !b.IsValid() || !a.CanConvert(float) || !b.CanConvert(float) {
		return nil, fmt.Errorf("cannot divide %v by %v", params[0], params[1])
	}
	if b.Convert(float).Float() == 0 {
		return nil, errors.New("division by zero")
	}
	return a.Convert(float).Float() / b.Convert(float).Float(), nil
}

// exprParts is a visitor that finds what an expression looks at: names, fields of
// them and calls. Children are visited before their parents.
type exprParts struct {
	names []string
	parts []string
}

func (p *exprParts) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		p.names = append(p.names, n.Value)
		p.add(n)
	case *ast.MemberNode:
		if whole := n.Node.String(); slices.Contains(p.parts, whole) {
			p.drop(n.Node)
			p.drop(n.Property)
			p.add(n)
		}
	case *ast.CallNode:
		p.drop(n.Callee)
		p.add(n)
	case *ast.BuiltinNode:
		if n.Name == "len" {
			p.add(n)
		}
	case *ast.BinaryNode:
		if n.Operator == "/" {
			callee := &ast.IdentifierNode{Value: quotient}
			callee.SetLocation(n.Location())
			ast.Patch(node, &ast.CallNode{Callee: callee, Arguments: []ast.Node{n.Left, n.Right}})
		}
	}
}

func (p *exprParts) add(n ast.Node) {
	if text := n.String(); !slices.Contains(p.parts, text) && !strings.Contains(text, quotient) {
		p.parts = append(p.parts, text)
	}
}

func (p *exprParts) drop(n ast.Node) {
	if i := slices.Index(p.parts, n.String()); i >= 0 {
		p.parts = slices.Delete(p.parts, i, i+1)
	}
}

// exprDepth is how deep the brackets of a source are nested. Those in text count
// too: no expectation needs that many.
func exprDepth(source string) int {
	depth, most := 0, 0
	for i := range len(source) {
		switch source[i] {
		case '(', '[', '{':
			depth++
			most = max(most, depth)
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return most
}

// exprFault says in a line what is wrong with an expression, and where.
func exprFault(source string, err error, names types.Map) error {
	var f *file.Error
	if !errors.As(err, &f) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return errors.New(first)
	}
	if f.Line == 0 {
		f = f.Bind(file.NewSource(source))
	}
	content := f.Message
	known := slices.Concat(slices.Collect(maps.Keys(names)), []string{"file", "exists"})
	slices.Sort(known)
	if name, ok := strings.CutPrefix(content, "unknown name "); ok {
		if best := text.Closest(name, known); best != "" {
			content += "; did you mean " + best + "?"
		} else {
			content += "; known are " + strings.Join(known, ", ")
		}
	}
	if strings.Contains(content, quotient) {
		content = "only numbers can be divided"
	}
	return fmt.Errorf("column %d: %s", f.Column+1, content)
}

// holds says whether the expression is true of env. An error says why it has no
// answer.
func (e *scriptExpr) holds(env map[string]any) (bool, error) {
	out, err := expr.Run(e.program, env)
	if err != nil {
		return false, errors.New(exprTrouble(err))
	}
	ok, is := out.(bool)
	if !is {
		return false, fmt.Errorf("gives %v, which is neither true nor false", out)
	}
	return ok, nil
}

// exprTrouble is the error of an evaluation in one line, without its drawing.
func exprTrouble(err error) string {
	var f *file.Error
	if errors.As(err, &f) {
		return f.Message
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// values are those of the parts of the expression, as far as they have any alone.
func (e *scriptExpr) values(x scriptExprs, env map[string]any) map[string]any {
	out := map[string]any{}
	for _, part := range e.shown {
		program, err := expr.Compile(part, slices.Concat(x.functions(), []expr.Option{expr.Env(env)})...)
		if err != nil {
			continue
		}
		if v, err := expr.Run(program, env); err == nil {
			out[part] = exprValue(v)
		}
	}
	return out
}

// exprValue is a value that JSON can hold; a long text is cut in the middle.
func exprValue(v any) any {
	switch t := v.(type) {
	case string:
		if r := []rune(strings.ToValidUTF8(t, "\uFFFD")); len(r) > 4*maxShownValue {
			return string(r[:2*maxShownValue]) + " … " + string(r[len(r)-2*maxShownValue:])
		}
	case float64:
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return fmt.Sprint(t)
		}
	}
	if _, err := json.Marshal(v); err != nil {
		return fmt.Sprint(v)
	}
	return v
}

// shownValues are values in a line, by name.
func shownValues(values map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		data, err := encode(values[name])
		text := string(data)
		if err != nil {
			text = fmt.Sprint(values[name])
		}
		if r := []rune(text); len(r) > maxShownValue {
			text = string(r[:maxShownValue/2]) + " … " + string(r[len(r)-maxShownValue/2:])
		}
		parts = append(parts, name+" = "+text)
	}
	return strings.Join(parts, ", ")
}

// scriptNames are the names that an expression may use, with their types: the
// fields of the result document of the last turn, and how things stand.
func scriptNames() types.Map {
	names, _ := exprType(reflect.TypeFor[Result]()).(types.Map) // a struct is one
	for _, always := range []string{"type", "schema", "script"} {
		delete(names, always)
	}
	for _, name := range []string{"output", "question", "mode", "state"} {
		names[name] = types.String
	}
	names["waiting"] = exprType(reflect.TypeFor[[]coordinator.Waiting]())
	names["agents"] = exprType(reflect.TypeFor[[]crew.Agent]())
	return names
}

// exprType is the type of what exprOf makes of a value of type t.
func exprType(t reflect.Type) types.Type {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return types.String
	case t == reflect.TypeFor[json.RawMessage]():
		return types.Any
	}
	switch t.Kind() {
	case reflect.Pointer:
		// It may be nil, which no number or text is; with ?. its fields may be too.
		if t.Elem().Kind() != reflect.Struct {
			return types.Any
		}
		m := types.Map{}
		for name := range jsonFields(t.Elem()) {
			m[name] = types.Any
		}
		return m
	case reflect.Struct:
		m := types.Map{}
		for name, f := range jsonFields(t) {
			m[name] = exprType(f.Type)
		}
		return m
	case reflect.Slice:
		return types.Array(exprType(t.Elem()))
	case reflect.String:
		return types.String
	case reflect.Bool:
		return types.Bool
	case reflect.Int, reflect.Int64:
		return types.Int
	case reflect.Float64:
		return types.Float64
	}
	return types.Any
}

// exprOf makes plain values of v, with the names that JSON has for fields.
func exprOf(v reflect.Value) any {
	switch t := v.Interface().(type) {
	case time.Time:
		return t.UTC().Format(time.RFC3339Nano)
	case json.RawMessage:
		var out any
		if json.Unmarshal(t, &out) != nil {
			return nil
		}
		return out
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return exprOf(v.Elem())
	case reflect.Struct:
		m := map[string]any{}
		for name, f := range jsonFields(v.Type()) {
			m[name] = exprOf(v.FieldByIndex(f.Index))
		}
		return m
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = exprOf(v.Index(i))
		}
		return list
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int64:
		return int(v.Int())
	case reflect.Float64:
		return v.Float()
	}
	return nil
}

// jsonFields are the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			fields[name] = f
		}
	}
	return fields
}
