package work

import (
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"

	"ralph/memory/text"
)

// typing finds the unknown variables of a template before it runs, also in the
// branches that a run would not take. What it cannot tell it lets pass:
// executing the template tells then.
type typing struct {
	path  string
	set   *template.Template
	tree  *parse.Tree // at work
	vars  []typedVar
	known map[typedCall]bool
	err   error // the first
}

// typedVar is a variable in sight; a nil type is one that is not known.
type typedVar struct {
	name string
	of   reflect.Type
}

// typedCall is a named template with what it is given.
type typedCall struct {
	name string
	dot  reflect.Type
}

// check returns the first thing that is wrong, given the type of the data.
func (t *typing) check(data reflect.Type) error {
	t.known = map[typedCall]bool{}
	t.call(t.set.Name(), data)
	return t.err
}

// call checks a named template; one that is unknown is left to its execution.
func (t *typing) call(name string, dot reflect.Type) {
	to := t.set.Lookup(name)
	if to == nil || to.Tree == nil || t.known[typedCall{name, dot}] {
		return
	}
	t.known[typedCall{name, dot}] = true
	tree, vars := t.tree, t.vars
	t.tree, t.vars = to.Tree, []typedVar{{"$", dot}}
	t.list(to.Root, dot)
	t.tree, t.vars = tree, vars
}

func (t *typing) list(l *parse.ListNode, dot reflect.Type) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		if t.err != nil {
			return
		}
		t.node(n, dot)
	}
}

func (t *typing) node(n parse.Node, dot reflect.Type) {
	mark := len(t.vars)
	switch n := n.(type) {
	case *parse.ActionNode:
		t.pipe(n.Pipe, dot)
		return // what it declares stays in sight
	case *parse.IfNode:
		t.pipe(n.Pipe, dot)
		t.branches(n.List, n.ElseList, dot, dot)
	case *parse.WithNode:
		of := t.pipe(n.Pipe, dot)
		t.branches(n.List, n.ElseList, of, dot)
	case *parse.RangeNode:
		of := element(t.pipe(n.Pipe, dot))
		if n.Pipe != nil && len(n.Pipe.Decl) > 0 {
			t.vars = t.vars[:mark]
			for i, d := range n.Pipe.Decl {
				v := typedVar{name: d.Ident[0]}
				if i == len(n.Pipe.Decl)-1 {
					v.of = of
				}
				t.vars = append(t.vars, v)
			}
		}
		t.branches(n.List, n.ElseList, of, dot)
	case *parse.TemplateNode:
		t.call(n.Name, t.pipe(n.Pipe, dot))
	}
	t.vars = t.vars[:mark]
}

func (t *typing) branches(then, otherwise *parse.ListNode, dot, outer reflect.Type) {
	mark := len(t.vars)
	t.list(then, dot)
	t.vars = t.vars[:mark]
	t.list(otherwise, outer)
	t.vars = t.vars[:mark]
}

// pipe returns the type of a pipeline, nil when it is not known.
func (t *typing) pipe(p *parse.PipeNode, dot reflect.Type) reflect.Type {
	if p == nil {
		return nil
	}
	var of reflect.Type
	for _, c := range p.Cmds {
		for i, a := range c.Args {
			got := t.value(a, dot)
			if i == 0 {
				of = got
			}
		}
	}
	for _, d := range p.Decl {
		if p.IsAssign {
			// It may hold one thing or another from here on.
			t.forget(d.Ident[0])
			continue
		}
		t.vars = append(t.vars, typedVar{d.Ident[0], of})
	}
	return of
}

func (t *typing) forget(name string) {
	for i := range t.vars {
		if t.vars[i].name == name {
			t.vars[i].of = nil
		}
	}
}

func (t *typing) value(n parse.Node, dot reflect.Type) reflect.Type {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return t.fields(n, dot, n.Ident)
	case *parse.VariableNode:
		for i := len(t.vars) - 1; i >= 0; i-- {
			if t.vars[i].name == n.Ident[0] {
				return t.fields(n, t.vars[i].of, n.Ident[1:])
			}
		}
	case *parse.ChainNode:
		return t.fields(n, t.value(n.Node, dot), n.Field)
	case *parse.PipeNode:
		return t.pipe(n, dot)
	case *parse.StringNode:
		return reflect.TypeFor[string]()
	}
	return nil
}

// fields follows names from a type.
func (t *typing) fields(n parse.Node, of reflect.Type, names []string) reflect.Type {
	for i, name := range names {
		for of != nil && of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of == nil || of.Kind() == reflect.Interface || of.Kind() == reflect.Map {
			return nil
		}
		next, ok := reflect.StructField{}, false
		if of.Kind() == reflect.Struct {
			next, ok = of.FieldByName(name)
		}
		if !ok || !next.IsExported() {
			t.unknown(n, of, names, i)
			return nil
		}
		of = next.Type
	}
	return of
}

func (t *typing) unknown(n parse.Node, of reflect.Type, names []string, i int) {
	if t.err != nil {
		return
	}
	e := &TemplateError{Path: t.path, Hint: "ralph plan prompt --help lists what a template can name"}
	e.Text = fmt.Sprintf("unknown variable %q", "."+strings.Join(names[:i+1], "."))
	if of.Kind() == reflect.Struct {
		var all []string
		for j := range of.NumField() {
			all = append(all, of.Field(j).Name)
		}
		if best := text.Closest(names[i], all); best != "" {
			e.Text += fmt.Sprintf("; did you mean %q?", "."+strings.Join(append(append([]string{}, names[:i]...), best), "."))
		}
	} else {
		e.Text += fmt.Sprintf(": a %s has no parts", of.Kind())
	}
	location, _ := t.tree.ErrorContext(n)
	at := strings.Split(location, ":")
	if len(at) >= 3 {
		_, _ = fmt.Sscan(at[len(at)-2], &e.Line) // both are numbers
		_, _ = fmt.Sscan(at[len(at)-1], &e.Column)
		e.Column++
	}
	t.err = e
}

// element is the type of what a range goes over.
func element(of reflect.Type) reflect.Type {
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of == nil {
		return nil
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return of.Elem()
	}
	return nil
}
