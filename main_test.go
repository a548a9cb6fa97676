package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"github.com/rogpeppe/go-internal/testscript"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

func TestMain(m *testing.M) {
	exec.Init()
	testscript.Main(m, map[string]func(){"ralph": main})
}

// TestScripts runs the program as a user does: testdata/script holds a txtar
// file for each command and each way to end.
func TestScripts(t *testing.T) {
	fixtures, err := filepath.Abs("testdata/sessions")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("RALPH_TEST_UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"model": scriptModel, "holds": scriptHolds, "asked": scriptAsked, "await": scriptAwait, "recorded": scriptRecorded,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "sandbox":
				return accesspolicy.Check(exec.New(exec.Options{Init: exec.Self()})).Complete, nil
			case "bd":
				return findBD(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"-home") // one each, so that none waits for another's state
			e.Setenv("GOCACHE", goEnv(t, "GOCACHE"))
			e.Setenv("GOFLAGS", "-mod=mod")
			e.Setenv("GOTOOLCHAIN", "local")
			e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			e.Setenv("NO_COLOR", "1")
			if bin := os.Getenv("RALPH_TEST_BD"); bin != "" {
				e.Setenv("PATH", filepath.Dir(bin)+string(os.PathListSeparator)+e.Getenv("PATH"))
			}
			e.Setenv("FIXTURES", fixtures)
			e.Setenv("GORACE", "atexit_sleep_ms=20") // by default each program sleeps for a second before it exits
			return nil
		},
	})
}

// findBD reports whether a real bd is there, by RALPH_TEST_BD or in PATH. With
// RALPH_TEST_MUST_BD=1 it must be.
func findBD() bool {
	if os.Getenv("RALPH_TEST_BD") != "" || os.Getenv("RALPH_TEST_MUST_BD") == "1" {
		return true
	}
	_, err := osexec.LookPath("bd")
	return err == nil
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := osexec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatalf("go env %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// line is one reply of a model file, one JSON object a line.
type line struct {
	Text   string            `json:"text"`
	Think  string            `json:"think"`
	Calls  []map[string]any  `json:"calls"` // name and args
	Status int               `json:"status"`
	Body   string            `json:"body"`
	Header map[string]string `json:"header"`
	Hang   bool              `json:"hang"`
	SlowMS int               `json:"slow_ms"`
	Again  bool              `json:"again"` // repeat it for ever
	Agent  string            `json:"agent"` // that it is for; in a file with any the others are the coordinator's
	Usage  [2]int            `json:"usage"`
}

func (l line) reply(ts *testscript.TestScript) modeltest.Reply {
	var r modeltest.Reply
	switch {
	case l.Hang:
		return modeltest.Hang()
	case l.Status != 0:
		var headers []string
		for k, v := range l.Header {
			headers = append(headers, k, v)
		}
		r = modeltest.Status(l.Status, l.Body, headers...)
	case len(l.Calls) > 0:
		var calls []modeltest.Call
		for _, c := range l.Calls {
			args, err := json.Marshal(c["args"])
			ts.Check(err)
			calls = append(calls, modeltest.Call{Name: c["name"].(string), Args: string(args)})
		}
		r = modeltest.Calls(calls...)
		if l.Text != "" {
			r = r.Saying(l.Text)
		}
	default:
		r = modeltest.Text(l.Text)
	}
	if l.Think != "" {
		r = r.Thinking(l.Think)
	}
	if l.Usage != [2]int{} {
		r = r.Using(l.Usage[0], l.Usage[1])
	}
	if l.SlowMS > 0 {
		r = r.Slow(time.Duration(l.SlowMS) * time.Millisecond)
	}
	if l.Again {
		r = r.Forever()
	}
	return r
}

// scriptModel starts a model with the replies of a file and points ralph to it.
func scriptModel(ts *testscript.TestScript, _ bool, args []string) {
	var replies []modeltest.Reply
	parts := map[string][]modeltest.Reply{}
	for text := range strings.Lines(ts.ReadFile(args[0])) {
		if strings.TrimSpace(text) == "" {
			continue
		}
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			ts.Fatalf("%s: %v in %s", args[0], err, text)
		}
		replies = append(replies, l.reply(ts))
		parts[l.Agent] = append(parts[l.Agent], replies[len(replies)-1])
	}
	srv, err := modeltest.Start(replies...)
	ts.Check(err)
	if len(parts) > 1 {
		srv.Handle(cast(parts))
	}
	ts.Defer(srv.Close)
	ts.Setenv("RALPH_BASE_URL", srv.URL())
	ts.Setenv("RALPH_MODEL", "test-model")
	ts.Setenv("RALPH_API_KEY", "test-key-123456")
	servers.Store(ts, srv)
}

// cast answers each agent by a script of its own.
func cast(parts map[string][]modeltest.Reply) func(modeltest.Request) modeltest.Reply {
	var mu sync.Mutex
	return func(r modeltest.Request) modeltest.Reply {
		who := ""
		for _, m := range r.Messages {
			if f := regexp.MustCompile(`You are agent (\w+), one of several`).FindStringSubmatch(m.Content); m.Role == "user" && f != nil {
				who = f[1]
				break
			}
		}
		mu.Lock()
		defer mu.Unlock()
		left := parts[who]
		if len(left) == 0 {
			return modeltest.Status(400, `{"error":{"message":"no more replies for agent "+who}}`)
		}
		parts[who] = left[1:]
		return left[0]
	}
}

// scriptHolds checks an expression against a JSON document, or against the last
// line of a stream of them: holds stdout 'exit_code == 0'.
func scriptHolds(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile(args[0]))
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		doc = nil
		last := text[strings.LastIndexByte(text, '\n')+1:]
		if err := json.Unmarshal([]byte(last), &doc); err != nil {
			ts.Fatalf("%s holds no JSON document: %v\n%s", args[0], err, text)
		}
	}
	for _, src := range args[1:] {
		out, err := expr.Eval(src, doc)
		if err != nil {
			ts.Fatalf("%s: %v\n%s", src, err, text)
		}
		if out == neg {
			ts.Fatalf("%s is %v in\n%s", src, out, text)
		}
	}
}

// scriptAsked checks what the model was asked: the number of requests, or that
// the text of the n-th (from 1) matches a regular expression.
func scriptAsked(ts *testscript.TestScript, neg bool, args []string) {
	srv, ok := servers.Load(ts)
	if !ok {
		ts.Fatalf("asked: no model was started")
	}
	requests := srv.(*modeltest.Server).Requests()
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	if len(args) == 1 {
		if len(requests) != n {
			ts.Fatalf("the model was asked %d times, want %d", len(requests), n)
		}
		return
	}
	if n > len(requests) {
		ts.Fatalf("the model was asked %d times only", len(requests))
	}
	var text strings.Builder
	for _, m := range requests[n-1].Messages {
		fmt.Fprintf(&text, "%s: %s\n", m.Role, m.Content)
	}
	if regexp.MustCompile("(?s)"+args[1]).MatchString(text.String()) == neg {
		ts.Fatalf("request %d, matches %q: %v\n%s", n, args[1], !neg, text.String())
	}
}

// scriptAwait waits until the model was asked so many times.
func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	srv, _ := servers.Load(ts)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(30 * time.Second); len(srv.(*modeltest.Server).Requests()) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("the model was not asked %d times within 30 s", n)
		}
	}
}

// scriptRecorded waits until Ralph has on record how files are that its commands wrote,
// for a kill that is to come after that.
func scriptRecorded(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		for deadline := time.Now().Add(30 * time.Second); !recorded(ts.Getenv("HOME"), name, ts.MkAbs(name)); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				ts.Fatalf("how %s was written is not on record within 30 s", name)
			}
		}
	}
}

// recorded reports whether the last record of a path, in the record of writes below home,
// is of the file as it is.
func recorded(home, path, file string) (same bool) {
	info, err := os.Lstat(file)
	if err != nil {
		return false
	}
	_ = filepath.WalkDir(home, func(log string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "writes.jsonl" {
			return nil // it comes and goes while it is looked for
		}
		text, _ := os.ReadFile(log)
		for line := range bytes.Lines(text) {
			var x struct {
				Path  []byte
				Write struct{ After struct{ Size, ModTime int64 } }
			}
			if json.Unmarshal(line, &x) == nil && string(x.Path) == path {
				same = x.Write.After.Size == info.Size() && x.Write.After.ModTime == info.ModTime().UnixNano()
			}
		}
		return nil
	})
	return same
}

// servers are the running models, by script.
var servers sync.Map // of *testscript.TestScript to *modeltest.Server

// The budgets bound the tail of the code's shape; they are no target.
const (
	maxFileLines        = 700 // a subject is not split for its length; what is longer is several
	maxFunctionLines    = 80
	maxNesting          = 4
	maxInterfaceMethods = 6 // tools.Notebook has one for each of the six tools that keep something
)

// benchmark is the program of `make bench`; it is no part of Ralph.
const benchmark = "ralph/scripts/bench"

// room is the part of the house that a package stands in.
func room(pkg string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(pkg, "ralph"), "/"), "/")
	return first
}

// leaf reports whether a package imports none of Ralph's and may be imported from everywhere.
func leaf(pkg string) bool { return pkg == "ralph/memory/text" }

// mayImport says whether a package may import another one of Ralph's: down the
// ladder main → faces → coordinator → hands, memory and interrupts, or within
// its own room, where a sub-package never imports its root.
func mayImport(from, to string) error {
	rank := map[string]int{"": 4, "repl": 3, "scripts": 3, "coordinator": 2, "workers": 1, "memory": 1, "interrupts": 1}
	a, b := room(from), room(to)
	ra, oka := rank[a]
	rb, okb := rank[b]
	switch {
	case !oka || !okb:
		return fmt.Errorf("%s → %s: a room that is not in the house", from, to)
	case leaf(from):
		return fmt.Errorf("%s → %s: a leaf imports no package of Ralph", from, to)
	case leaf(to):
		return nil
	case from == "ralph/workers/agent":
		return fmt.Errorf("%s → %s: workers/agent imports no package of Ralph but a leaf", from, to)
	case a != b && ra <= rb:
		return fmt.Errorf("%s → %s: imports only go down", from, to)
	case to == "ralph/workers/exec" && strings.HasPrefix(from, to+"/"),
		to == "ralph/workers/exec/supervise" && strings.HasPrefix(from, "ralph/workers/exec/"):
		return fmt.Errorf("%s → %s: imports go from exec to supervise to sandbox", from, to)
	case a == b && to == "ralph/"+b:
		return fmt.Errorf("%s → %s: a sub-package does not import its root", from, to)
	}
	return nil
}

// startsProcesses reports whether a package may start processes.
func startsProcesses(pkg string) bool {
	return pkg == "ralph/workers/exec" || pkg == "ralph/workers/exec/supervise"
}

// forbidden are imports from outside that a room must not have.
func forbidden(pkg, path string) bool {
	switch path {
	case "os/exec":
		return !startsProcesses(pkg) && !strings.HasPrefix(pkg, benchmark)
	case "net/http":
		return room(pkg) != "workers" && room(pkg) != "scripts"
	case "github.com/chzyer/readline":
		return pkg != "ralph/repl/line"
	case "github.com/c-bata/go-prompt":
		return pkg != "ralph/repl/pick"
	case "github.com/charmbracelet/glamour":
		return pkg != "ralph/repl/render"
	case "github.com/sashabaranov/go-openai":
		return room(pkg) != "workers" || !strings.HasPrefix(pkg, "ralph/workers/model")
	case "net/http/httptest":
		return pkg != "ralph/workers/model/modeltest"
	}
	if room(pkg) == "interrupts" && strings.Contains(path, ".") && !strings.HasPrefix(path, "ralph/") {
		return true // standard library only
	}
	return false
}

// forTests reports whether a package serves tests only.
func forTests(pkg string) bool {
	return slices.Contains([]string{"ralph/workers/exec/exectest", "ralph/workers/model/modeltest", "ralph/repl/ttytest", "ralph/memory/durable/crashfs", "ralph/memory/durable/faultfs"}, pkg)
}

// listed is what go list tells about one package.
type listed struct {
	ImportPath string
	Imports    []string
	Dir        string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	out, err := osexec.Command("go", "list", "-json=ImportPath,Imports,Dir", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

// violations holds a list of packages against the ladder.
func violations(pkgs []listed) []string {
	var bad []string
	for _, p := range pkgs {
		for _, imp := range p.Imports {
			if forbidden(p.ImportPath, imp) {
				bad = append(bad, fmt.Sprintf("%s → %s: not in this room", p.ImportPath, imp))
			}
			if forTests(imp) && !forTests(p.ImportPath) {
				bad = append(bad, fmt.Sprintf("%s → %s: a package for tests", p.ImportPath, imp))
			}
			if imp != "ralph" && !strings.HasPrefix(imp, "ralph/") {
				continue
			}
			if err := mayImport(p.ImportPath, imp); err != nil {
				bad = append(bad, err.Error())
			}
		}
	}
	return bad
}

func TestImportsOnlyGoDown(t *testing.T) {
	pkgs := listPackages(t)
	if len(pkgs) < 15 {
		t.Fatalf("go list found %d packages only", len(pkgs))
	}
	for _, v := range violations(pkgs) {
		t.Error(v)
	}
}

func TestLadderFindsPlantedViolations(t *testing.T) {
	planted := [][2]string{
		{"ralph/workers/agent", "ralph/workers/exec"}, {"ralph/memory", "ralph/workers/agent"}, {"ralph/interrupts", "ralph/memory"},
		{"ralph/coordinator", "ralph/repl"}, {"ralph/repl", "ralph/scripts"}, {"ralph/scripts", "ralph"}, {"ralph/memory/durable", "ralph/memory"},
		{"ralph/workers/tools", "os/exec"}, {"ralph/coordinator", "net/http"}, {"ralph/repl/line", "github.com/charmbracelet/glamour"},
		{"ralph/workers/exec/supervise", "ralph/workers/exec"}, {"ralph/workers/exec/sandbox", "ralph/workers/exec/supervise"},
		{"ralph/interrupts", "golang.org/x/sys/unix"}, {"ralph/attic", "ralph/memory"}, {"ralph/memory/text", "ralph/memory/durable"}, {"ralph/scripts", "ralph/workers/model/modeltest"},
	}
	for _, p := range planted {
		if v := violations([]listed{{ImportPath: p[0], Imports: []string{p[1]}}}); len(v) == 0 {
			t.Errorf("%s → %s is not noticed", p[0], p[1])
		}
	}
	fine := [][2]string{{"ralph/workers/accesspolicy", "ralph/memory/text"}, {"ralph", "ralph/scripts"}, {"ralph/repl", "ralph/coordinator"}, {"ralph/coordinator", "ralph/interrupts"}, {"ralph/memory", "ralph/memory/durable"}}
	for _, p := range fine {
		if v := violations([]listed{{ImportPath: p[0], Imports: []string{p[1]}}}); len(v) != 0 {
			t.Errorf("%s → %s is refused: %v", p[0], p[1], v)
		}
	}
}

func TestTopLevelIsTheHouse(t *testing.T) {
	house := strings.Fields("main.go main_test.go repl coordinator workers memory interrupts scripts testdata go.mod go.sum Makefile README.md LICENSE CONTRIBUTING.md")
	out, err := osexec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skipf("git ls-files: %v (not a checkout)", err)
	}
	for path := range strings.Lines(string(out)) {
		first, _, _ := strings.Cut(strings.TrimSpace(path), "/")
		if !strings.HasPrefix(first, ".") && !slices.Contains(house, first) {
			t.Errorf("%s does not belong at the top level", first)
		}
	}
}

// source is one parsed file of the program.
type source struct {
	path string
	text []byte
	file *ast.File
	set  *token.FileSet
}

func parseSource(path string, text []byte) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	return source{path, text, file, set}, err
}

func programSources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && path != ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := parseSource(path, text)
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBudgets(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range programSources(t) {
		for _, b := range budget(s) {
			t.Error(b)
		}
		dir := filepath.Dir(s.path)
		documented[dir] = documented[dir] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// budget lists what of one file is over a budget.
func budget(s source) []string {
	var over []string
	say := func(n ast.Node, format string, args ...any) {
		over = append(over, fmt.Sprintf("%s: %s", s.set.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	if lines := bytes.Count(s.text, []byte("\n")); lines > maxFileLines {
		say(s.file, "%d lines, the budget is %d", lines, maxFileLines)
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			lines := s.set.Position(d.End()).Line - s.set.Position(d.Pos()).Line + 1
			if lines > maxFunctionLines {
				say(d, "%s has %d lines, the budget is %d", d.Name.Name, lines, maxFunctionLines)
			}
			if d.Body != nil && nesting(d.Body) > maxNesting {
				say(d, "%s nests %d deep, the budget is %d", d.Name.Name, nesting(d.Body), maxNesting)
			}
			if d.Name.Name == "init" && d.Recv == nil {
				say(d, "init")
			}
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				say(d, "%s has no doc comment", d.Name.Name)
			}
		case *ast.GenDecl:
			generalBudget(s, d, say)
		}
	}
	return over
}

func generalBudget(s source, d *ast.GenDecl, say func(ast.Node, string, ...any)) {
	for _, spec := range d.Specs {
		switch sp := spec.(type) {
		case *ast.TypeSpec:
			if sp.Name.IsExported() && d.Doc == nil && sp.Doc == nil {
				say(sp, "%s has no doc comment", sp.Name.Name)
			}
			if it, ok := sp.Type.(*ast.InterfaceType); ok && it.Methods.NumFields() > maxInterfaceMethods {
				say(sp, "interface %s has %d methods, the budget is %d", sp.Name.Name, it.Methods.NumFields(), maxInterfaceMethods)
			}
		case *ast.ValueSpec:
			for _, name := range sp.Names {
				if name.IsExported() && d.Doc == nil && sp.Doc == nil && sp.Comment == nil {
					say(sp, "%s has no doc comment", name.Name)
				}
			}
			if d.Tok == token.VAR && !constantVar(s, d, sp) {
				say(sp, "package variable %s can change", sp.Names[0].Name)
			}
		}
	}
}

// constantVar knows the package variables that do not change while the program
// runs: errors, embedded files, interface checks, lazily made tables, and what
// the linker sets in main.
func constantVar(s source, d *ast.GenDecl, sp *ast.ValueSpec) bool {
	if s.path == "main.go" && strings.Contains(d.Doc.Text(), "linker") {
		return true
	}
	if (d.Doc != nil && strings.Contains(rawDoc(d.Doc), "//go:embed")) || (sp.Doc != nil && strings.Contains(rawDoc(sp.Doc), "//go:embed")) {
		return true
	}
	if sp.Names[0].Name == "_" {
		return true
	}
	for _, v := range sp.Values {
		call, ok := v.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, _ := sel.X.(*ast.Ident)
		if x == nil || !slices.Contains([]string{"errors.New", "sync.OnceValue", "sync.OnceValues"}, x.Name+"."+sel.Sel.Name) {
			return false
		}
	}
	return len(sp.Values) > 0
}

func rawDoc(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// nesting is the depth of blocks of control flow in a body; an else-if chain
// counts once, and a function literal begins anew.
func nesting(n ast.Node) int {
	deepest := 0
	var walk func(n ast.Node, depth int)
	walk = func(n ast.Node, depth int) {
		deepest = max(deepest, depth)
		ast.Inspect(n, func(c ast.Node) bool {
			if c == nil || c == n {
				return true
			}
			switch c := c.(type) {
			case *ast.FuncLit:
				walk(c.Body, 0)
				return false
			case *ast.IfStmt:
				walk(c.Body, depth+1)
				for next := c.Else; next != nil; {
					elif, ok := next.(*ast.IfStmt)
					if !ok {
						walk(next, depth+1)
						break
					}
					walk(elif.Body, depth+1)
					next = elif.Else
				}
				return false
			case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
				walk(c, depth+1)
				return false
			}
			return true
		})
	}
	walk(n, 0)
	return deepest
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if ix, ok := t.(*ast.IndexExpr); ok {
		t = ix.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

func TestBudgetsFindPlantedViolations(t *testing.T) {
	long := "package p\n\nfunc f() {\n" + strings.Repeat("\tprintln()\n", maxFunctionLines) + "}\n"
	planted := map[string]string{
		"has 82 lines":              long,
		"701 lines":                 "package p\n" + strings.Repeat("\n", 700),
		"nests 5 deep":              "package p\nfunc f() { for { if true { switch { case true: for { select {} } } } } }",
		"init":                      "package p\nfunc init() {}",
		"package variable table":    "package p\nvar table = map[string]int{}",
		"package variable re":       "package p\nimport \"regexp\"\nvar re = regexp.MustCompile(`x`)",
		"F has no doc comment":      "package p\nfunc F() {}",
		"M has no doc comment":      "package p\n// T is.\ntype T struct{}\nfunc (t *T) M() {}",
		"ErrX has no doc comment":   "package p\nimport \"errors\"\nvar ErrX = errors.New(\"x\")",
		"interface I has 7 methods": "package p\ntype I interface { A(); B(); C(); D(); E(); F(); G() }",
	}
	for want, text := range planted {
		s, err := parseSource("p.go", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(budget(s), "\n"); !strings.Contains(got, want) {
			t.Errorf("not noticed: %q (got %q)", want, got)
		}
	}
	s, err := parseSource("p.go", []byte("package p\nimport \"errors\"\n// ErrX is.\nvar ErrX = errors.New(\"x\")\nfunc f() { if a { } else if b { } else if c { } else if d { } else if e { } }"))
	if err != nil {
		t.Fatal(err)
	}
	if got := budget(s); len(got) != 0 {
		t.Errorf("refused: %q", got)
	}
}

// TestInit shows what packages do before main begins: it names those over 1 ms
// here and now, and holds Ralph's own to doing nothing to speak of, by what
// they allocate.
func TestInit(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "ralph")
	if out, err := osexec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := osexec.Command(binary, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ralph version: %v\n%s", err, out)
	}
	ours := 0
	for line := range strings.Lines(string(out)) {
		// init ralph/workers/model @25 ms, 0.01 ms clock, 216 bytes, 6 allocs
		f := strings.Fields(line)
		if len(f) < 10 || f[0] != "init" {
			continue
		}
		took, errTook := strconv.ParseFloat(f[4], 64)
		bytes, errBytes := strconv.Atoi(f[7])
		if errTook != nil || errBytes != nil {
			t.Fatalf("cannot read %q", line)
		}
		if took > 1 {
			t.Logf("%s takes %.1f ms", f[1], took)
		}
		if !strings.HasPrefix(f[1], "ralph/") {
			continue
		}
		ours++
		if bytes > 4<<10 {
			t.Errorf("%s allocates %d bytes before main begins", f[1], bytes)
		}
	}
	if ours == 0 {
		t.Errorf("no package of Ralph's is in the trace:\n%s", out)
	}
}
