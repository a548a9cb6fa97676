package tamper

import (
	"regexp"
	"strings"
	"sync"
)

var nilChecks = sync.OnceValue(func() *regexp.Regexp {
	return rx(`[\w.()\[\]]+\s*(?:[=!]==?|is(?: not)?)\s*(?:nil|None|null|undefined)\b|\.(?:NotNil|Nil|NoError|Error|NotEmpty)\(|assert(?:Not)?Null\(|assertIsNotNone|assertIsNone|\.to(?:BeDefined|BeTruthy|BeNull|BeFalsy)\(|not_nil|be_nil|assert_nil|be_truthy|\.toHaveBeenCalled\(\)|\.toThrow\(\)|[rR]aises?\(\s*(?:Base)?Exception\s*\)|assertThrows\((?:Throwable|Exception)\.class|raise_error\s*$|==\s*(?:True|False|true|false)\b|>=?\s*(?:0|-1)\b|!=\s*(?:""|''|0\b)|len\([^()]*\)\s*(?:[=!]=|>)\s*0|\.toBeGreaterThan(?:OrEqual)?\((?:0|-1)\)|assertGreater(?:Equal)?\(.*, *(?:0|-1)\)|\.(?:is_ok|is_some|is_err|is_none)\(\)`)
})

var callees = sync.OnceValue(func() *regexp.Regexp { return rx(`\b(\w+)\s*\(`) })

// defines finds what a file of code defines.
var defines = sync.OnceValue(func() *regexp.Regexp {
	return rx(`\b(?:func(?: \([^)]*\))?|def|function\*?|class|fn|type|struct|interface|enum|trait|module|const|let|var|public(?: static)?(?: final)? [\w<>\[\]]+|fun|macro_rules!)\s+(?:self\.)?([A-Z]\w*|[a-z_]\w{2,})`)
})

var comparison = sync.OnceValue(func() *regexp.Regexp {
	return rx(`[=!]=|[<>]|Equal|Diff|Contains|Match|\beq\b|toBe\(|Throws`)
})

// words are the tokens of a text: names, numbers and strings.
var words = sync.OnceValue(func() *regexp.Regexp {
	return rx("[A-Za-z_]\\w*|\\d[\\w.]*|\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)*'|`[^`]*`")
})

var pairs = sync.OnceValue(func() []*regexp.Regexp {
	const v = `([A-Za-z_][\w.]*\b|\d+|"[^"]*"|'[^']*')`
	return []*regexp.Regexp{
		rx(v + `\s*[!=]==?\s*` + v),
		rx(`(?:expect|Expect)\(` + v + `\)\.(?:to(?:Be|Equal|StrictEqual|\.equal|\.eql|\.be)|To\(Equal)\(` + v + `\)`),
		rx(`(?:assert\w*|require|assert|expect)(?:\.\w*[eE]qual\w*|Equals?|Equal|_eq!?|_equal)\(\s*(?:t, )?` + v + `,\s*` + v + `\s*[,)]`),
		rx(`expect\(` + v + `\)\.to eq\(?\s*` + v),
	}
})

// same says that a text compares something with itself.
func same(text string) bool {
	if len(text) > 2000 {
		return false
	}
	for _, re := range pairs() {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if m[1] == m[2] && !strings.Contains(strings.ToLower(text), "nan") {
				return true
			}
		}
	}
	return false
}

// common are the words that say nothing about what a test is about.
func common(word string) bool {
	switch strings.ToLower(word) {
	case "t", "it", "test", "func", "def", "self", "fn", "let", "const", "var", "if", "for", "range", "return", "assert", "expect", "equal", "tobe", "toequal", "testing", "errorf", "error", "fatal", "fatalf", "got", "want", "err", "nil", "none", "null",
		"async", "await", "assert_eq", "assertequal", "assertequals", "string", "int", "bool", "void", "public", "do", "end", "to", "eq", "name", "run", "struct", "in", "not", "is", "true", "false", "errors", "d", "q", "v":
		return true
	}
	return len(word) < 2 && (word < "0" || word > "9")
}

var ifs = sync.OnceValue(func() *regexp.Regexp {
	return rx(`^\s*(?:\} *else +)?(?:if|unless|when|case|elif|switch|else|default)\b|\bskip(?:If|Unless|if)\b|\b(?:if|unless)\s+\S|\bassume|On(?:Os|Jre)|\|\| *(?:skip|exit)|xfail\(|importorskip`)
})

// alwaysTrue are conditions that are none, or that may be true wherever Ralph runs.
var alwaysTrue = sync.OnceValue(func() *regexp.Regexp {
	return rx(`\bif \(?(?:true|True|1|!false|not False)\b|(?:skipif|skipIf)\(\s*(?:True|true|1)\b|(?i:getenv|environ|process\.env|\bENV\[|\$CI\b|std::env)`)
})

// row is a line of a table of test cases.
var row = sync.OnceValue(func() *regexp.Regexp {
	return rx("^(?:[\\w.&]*\\{.*\\}|[(\\[].*[)\\]]|(?:\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|`[^`]*`)(?:: *.+)?|\\d[\\w.]*|pytest\\.param\\(.*|@(?:CsvSource|ValueSource|InlineData|TestCase|example|pytest\\.mark\\.parametrize)\\(?.*|\\[(?:InlineData|TestCase)\\(.*|#\\[(?:case|test_case)\\(.*)$")
})

var numbers = sync.OnceValue(func() *regexp.Regexp { return rx(`\b\d+(?:\.\d+)?(?:e-?\d+)?\b`) })

var nearness = sync.OnceValue(func() *regexp.Regexp {
	return rx(`[<>]|InDelta|InEpsilon|approx|Almost|atol|rtol|within|isclose|allclose|LessThan|Delta|tolerance|epsilon`)
})

var constraints = sync.OnceValue(func() *regexp.Regexp { return rx(`^//\s*(?:go:build|\+build) .+$`) })

var nameWords = sync.OnceValue(func() *regexp.Regexp { return rx(`[A-Z]?[a-z]+|[A-Z]+|\d+`) })

// passing is a call that is given the test.
var passing = sync.OnceValue(func() *regexp.Regexp {
	return rx(`\b\w+\((?:t|tb|\w+\.t|\w+\.T\(\))\s*([,)])`)
})

// imports are the import blocks of Go, whose lines look like rows.
var imports = sync.OnceValue(func() *regexp.Regexp { return rx(`^import \([^)]*\)`) })

// platform are constraints that hold where Ralph runs.
var platform = sync.OnceValue(func() *regexp.Regexp {
	return rx(`^//\s*(?:go:build|\+build) (?:linux|darwin|unix|freebsd|!windows|!plan9|!js|!wasip1|\s|&&|\|\|)+$`)
})

var class = sync.OnceValue(func() *regexp.Regexp { return rx(`^\s*class (\w+)(.*)$`) })

// wanted is the line that says what a test expects; the second group is the value.
var wanted = sync.OnceValue(func() *regexp.Regexp {
	return rx(`^\s*(?:const |let |var |final )?((?:want|expected|expect|wanted|exp)\w*)(?: \w+)? *:?= *(.+)$`)
})

// aware is code that can tell that it is being tested.
var aware = sync.OnceValue(func() *regexp.Regexp {
	return rx(`\btesting\.Testing\(\)|PYTEST_CURRENT_TEST|JEST_WORKER_ID|VITEST_(?:POOL_ID|WORKER_ID)|["']pytest["'] in sys\.modules|flag\.Lookup\("test\.|strings\.HasSuffix\(os\.Args\[0\], "\.test"\)|RSPEC_CORE`)
})

// expects are the lines of a script of testscript that can fail it.
var expects = sync.OnceValue(func() *regexp.Regexp {
	return rx(`^(?:! )?(?:stdout|stderr|cmp|cmpenv|exists|grep|exec|ralph)\b.*$`)
})
