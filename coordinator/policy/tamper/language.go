package tamper

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// style is how a block of a language ends.
type style int

const (
	braces style = iota
	indent
	keyword // Ruby: end at the indentation of the beginning
)

// language is what is known of one, as text.
type language struct {
	name         string
	lineComment  string
	blockComment bool
	backtick     bool
	escapes      bool // in backticks
	single       bool // '…' is a string
	long         bool // strings go over lines
	lifetimes    bool // ' may stand alone
	triple       bool
	style        style

	test    *regexp.Regexp // begins a test; group "name"
	helper  *regexp.Regexp // begins another function; group "name"
	asserts *regexp.Regexp // a line that can fail a test
	strong  *regexp.Regexp // … because of a certain value
	trivial *regexp.Regexp // … or that never can
	skips   *regexp.Regexp // takes a test out
	mayskip *regexp.Regexp // takes it out on a condition
	focus   *regexp.Regexp // takes all others out
	never   *regexp.Regexp // code that makes the rest of a test void
}

func rx(s string) *regexp.Regexp { return regexp.MustCompile("(?m)" + s) }

var languages = sync.OnceValue(func() map[string]*language {
	all := map[string]*language{}
	for _, l := range []*language{golang(), python(), javascript(), rust(), java(), ruby(), shell(), other()} {
		all[l.name] = l
	}
	return all
})

const helped = `|\b(?:assert|expect|require|check|verify|must|should|ensure|validate)[A-Z_]\w*\s*\(`

func golang() *language {
	return &language{
		name: "go", lineComment: "//", blockComment: true, backtick: true, lifetimes: true,
		test:    rx(`^func (?:\([^)]*\) )?(?P<name>(?:Test|Fuzz|Example)(?:[A-Z_0-9]\w*)?)\(`),
		helper:  rx(`^func (?:\([^)]*\) )?(?P<name>\w+)(?:\[[^\]]*\])?\(`),
		asserts: rx(`\b\w+\.(?:Errorf?|Fatalf?|Fail|FailNow)\(|\b(?:assert|require|is|qt|must|g|Expect|Ω)\.\w+\(|\.(?:Should|To|NotTo|Equal)\(|\bExpect\(|// ?(?:Unordered o|O)utput:|\bpanic\(` + helped),
		strong:  rx(`[!=]=|[<>]|Equal|Diff|Contains|JSONEq|InDelta|ElementsMatch|Len\(|EqualError|Error[IA]s|errors\.[IA]s\(|Regexp|Match|Has(?:Prefix|Suffix)`),
		trivial: rx(`\bif false\b|&& false\b|\bfalse &&|True\(\w+, true\)|False\(\w+, false\)|Equal\(\w+, (?:(true), true|(\d+), \d+)\)|\|\| true\b|range \w+\[:0\]|range \[\][\w.]+\{\}`),
		skips:   rx(`\b\w+\.(?:Skip|Skipf|SkipNow)\(`), never: rx(`os\.Exit\(0\)|defer func\(\) \{\s*(?:_ = )?recover\(\)\s*\}|runtime\.Goexit\(|syscall\.Exit\(0\)`),
	}
}

func python() *language {
	return &language{
		name: "python", lineComment: "#", single: true, triple: true, style: indent,
		test:    rx(`^[ \t]*(?:async +)?def (?P<name>test\w*)\(`),
		helper:  rx(`^[ \t]*(?:async +)?def (?P<name>\w+)\(`),
		asserts: rx(`^\s*assert\b|\bself\.(?:assert\w+|fail)\(|\bpytest\.(?:raises|fail|warns|approx)\(|\.assert_\w+\(|np\.testing\.\w+\(|\bassert_\w+\(|^\s*raise AssertionError` + helped),
		strong:  rx(`==|!=|<|>|\bin\b|Equal|In\(|Raises|raises|assert_called_(?:once_)?with|Almost|Regex|Dict|Count|\bis (?:not )?(?:True|False)\b|assert_\w*(?:equal|close)|\.startswith|\.endswith|match`),
		trivial: rx(`^\s*assert\s*\(?\s*(?:True|1|not False|not None|""? *==? *"")\s*\)?\s*(?:,.*)?$|assertTrue\(\s*True\b|assertEqual\(\s*(?:1, *1|True, *True)\s*\)|\bor True\b|^\s*assert \(.*,\s*["'].*["']\)\s*$|^\s*if (?:False|0)\s*:|^\s*if not True\s*:|^\s*for .* in (?:\[\]|\w+\[:0\])\s*:`),
		skips:   rx(`@(?:pytest\.mark|unittest)\.(?:skip|expectedFailure|xfail)\b|\bpytest\.(?:skip|xfail)\(|\bself\.skipTest\(|pytestmark\s*=.*(?:\.skip\b|xfail)|raise (?:unittest\.)?SkipTest|@(?:skip|expectedFailure)\b|__test__\s*=\s*False|pytest\.importorskip\(|collect_ignore(?:_glob)?\s*[+=]|@nottest\b|\.add_marker\(.*(?:skip|xfail)`),
		mayskip: rx(`\.skip(?:If|if|Unless)\b|xfail\([^)]*(?:sys|os|platform)`),
		never:   rx(`\b(?:sys\.exit|os\._exit|exit|quit)\(\s*0?\s*\)|\bpytest\.exit\(|except(?: Exception| BaseException| AssertionError)?(?: as \w+)?:\s*(?:pass|return|\.\.\.)|contextlib\.suppress\((?:Exception|BaseException|AssertionError)|\bsuppress\(AssertionError|session\.exitstatus\s*=\s*0|rep(?:ort)?\.outcome\s*=\s*.passed`),
	}
}

func javascript() *language {
	return &language{
		name: "javascript", lineComment: "//", blockComment: true, backtick: true, escapes: true, single: true,
		test:    rx("(?:^|[\\s;{(])(?:it|test|specify|fit|xit|xtest|ftest|Deno\\.test)(?:\\.\\w+)*(?:\\([^\"'`()]*\\)|`[^`]*`)?\\(\\s*(?P<name>[\"'`])"),
		helper:  rx(`^\s*(?:export )?(?:async )?(?:function\s*\*?\s*|const |let )(?P<name>\w+)(?:\s*=\s*(?:async )?(?:function)?)?\s*\(`),
		asserts: rx(`\bexpect(?:\.\w+)?\(|\bassert(?:\.\w+)*\(|\bt\.(?:is|deepEqual|true|false|throws|not|ok|equal|same|fail)\w*\(|\.should\b|\bcy\.\w+\(.*should|\.should\(|\bfail\(` + helped),
		strong:  rx(`\.to(?:Be|Equal|StrictEqual|Match\w*|Contain\w*|Throw\w*|HaveLength|HaveBeenCalled\w*|HaveBeenNthCalledWith|BeCloseTo|BeGreater\w+|BeLess\w+|HaveProperty|HaveText\w*|HaveAttribute|HaveValue|BeInstanceOf|HaveClass|HaveReturned\w*|BeTypeOf|Satisfy)\(|qual\w*\(|\.to\.(?:be|have|equal|eql|deep|include|contain|match|throw)|[=!]==?|\.is\(|hrows|\.include\(|\.match\(|snapshot`),
		trivial: rx("expect\\((?:true)\\)\\.to(?:Be|Equal|StrictEqual)\\(true\\)|expect\\((?:true|1)\\)\\.toBeTruthy|expect\\(false\\)\\.toBe(?:Falsy\\(|\\(false)|expect\\((\\d+)\\)\\.to(?:Be|Equal)\\(\\d+\\)|assert(?:\\.ok|\\.equal|\\.strictEqual)?\\((?:true|1)(?:, *(?:true|1|[\"'`].*))?\\)|\\bif \\((?:false|0)\\)|\\|\\| true\\b|expect\\.anything\\(\\)|expect\\(true\\)\\.to\\.(?:be\\.true|equal\\(true\\))|if \\(!1\\)|^\\s*expect\\(.*\\)\\.(?:resolves|rejects)\\b|\\.slice\\(0, 0\\)"),
		skips:   rx(`\b(?:it|test|describe|suite|context|specify)(?:\.\w+)*\.(?:skip|todo|failing|fails|fixme|fail)\b|\bx(?:it|test|describe|context|specify)\b\s*(?:\.each)?\s*[(` + "`" + `]|\bthis\.skip\(|\bt\.skip\(|\bctx\.skip\(|\bpending\(|\{ *(?:skip|todo): *(?:true|['"])|\bignore: *true`),
		mayskip: rx(`\.(?:skipIf|runIf)\(|if \(.*this\.skip`),
		focus:   rx(`\b(?:it|test|describe|suite|context|specify)(?:\.\w+)*\.only\b|\bf(?:it|describe|test|context)\s*\(|\{ *only: *true`),
		never:   rx(`\bprocess\.exit\(\s*0?\s*\)|catch *(?:\(\w*\))? *\{ *\}|\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|null|undefined|true)\s*\)|process\.exitCode\s*=\s*0`),
	}
}

func rust() *language {
	return &language{
		name: "rust", lineComment: "//", blockComment: true, long: true, lifetimes: true,
		test:    rx(`^[ \t]*#\[(?:\w+::)?(?:test|rstest|test_case|quickcheck|proptest)\b[^\n]*\](?:[ \t]*\n[ \t]*(?:#\[[^\n]*\]|//[^\n]*)?)*[ \t]*(?:pub )?(?:async )?fn (?P<name>\w+)`),
		helper:  rx(`^[ \t]*(?:pub(?:\([^)]*\))? )?(?:async )?fn (?P<name>\w+)`),
		asserts: rx(`\b(?:debug_)?(?:assert\w*|prop_assert\w*|panic|unreachable|matches)!|\.unwrap_err\(|\.expect_err\(|#\[should_panic|insta::` + helped),
		strong:  rx(`assert_(?:eq|ne|matches|snapshot)!|==|!=|[<>]|contains|unwrap_err|matches!|starts_with|should_panic`),
		trivial: rx(`assert!\(\s*true\b|assert_eq!\(\s*(?:true, *true|1, *1)\s*[,)]|\bif false\b|\|\| true\b`),
		skips:   rx(`#\[(?:ignore|should_panic)\b|#!?\[cfg\((?:any\(\)|not\(test\)|FALSE|feature *=|all\(\)|target_os)`),
		never:   rx(`process::exit\(0\)|catch_unwind`),
	}
}

func java() *language {
	return &language{
		name: "java", lineComment: "//", blockComment: true, lifetimes: true, triple: true,
		test:    rx("^[ \\t]*(?:@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\\b|\\[(?:Fact|Theory|Test|TestMethod|TestCase)\\b)[^\\n]*(?:\\n[ \\t]*(?:@|\\[|//)[^\\n]*)*(?:\\n[ \\t]*(?:@\\w+[^\\n]*\\s)?)?[^\\n({=;]*?(?P<name>\\w+|`[^`\\n]+`)\\s*\\("),
		helper:  rx(`^[ \t]+(?:(?:public|private|protected|static|final|async|fun|def|void|boolean|int|String)\s+)+[\w<>\[\], ]*?(?P<name>\w+)\s*\([^;]*?\{`),
		asserts: rx(`\b(?:assert\w*|Assert\w*(?:\.\w+)?|fail|verify|expect\w*|should\w*)\s*[.(<]|\.should\w*|\.is(?:EqualTo|NotNull|True|False|Empty)\(|@Test\(expected` + helped),
		strong:  rx(`Equals|Equal|Same|Throws|Contains|isEqualTo|contains|hasSize|==|!=|[<>]=? ?\d|verify\(|Match|startsWith|isInstanceOf|expected *=|shouldBe|isGreater|isLess|isEmpty|assertTrue\(.*(?:equals|\.is)`),
		trivial: rx(`assertTrue\(\s*true\b|assertFalse\(\s*false\b|assertEquals\(\s*(?:1, *1|true, *true)\s*\)|assertThat\(true\)\.isTrue|\bif \(false\)|\|\| true\b|Assert\.(?:True|IsTrue)\(true`),
		skips:   rx(`@(?:Disabled|Ignore)\b|\bassume(?:True|False|That)?\(|\(enabled *= *false|\[Ignore\b|\(Skip *=|@Ignored\b|throw new SkipException|Assert\.Ignore\(|Assumptions\.\w+\(`),
		mayskip: rx(`@(?:Disabled|Enabled)(?:On|If|For)\w+`),
		never:   rx(`System\.exit\(0\)|catch *\((?:final )?(?:Throwable|Exception|AssertionError|Error)\b[^)]*\) *\{\s*\}`),
	}
}

func ruby() *language {
	return &language{
		name: "ruby", lineComment: "#", single: true, style: keyword,
		test:    rx(`^[ \t]*(?:(?:it|specify|scenario|example|xit|fit|xspecify|xscenario|xexample|test|should)\b[ (]+(?P<name>["'])|def (?P<fname>test_\w+[?!]?))`),
		helper:  rx(`^[ \t]*def (?P<name>\w+[?!]?)`),
		asserts: rx(`\bexpect\b *[({]|\b(?:assert|refute|flunk)\w*\b|\.should\b|\.must_\w+|\.wont_\w+|is_expected|\bverify\b`),
		strong:  rx(`\beql?\b|==|match|include|_equal|_raises|_includes|_match|raise_error|change|contain|be_(?:within|a|an|between)\b|be [<>]|have_|must_equal|_in_delta|be\(`),
		trivial: rx(`expect\(true\)\.to (?:be(?:_truthy| true)|eq[( ]+true)|\bassert true\b|assert_equal\(? *1, *1|\bor true\b|\|\| true\b|\bif false\b|assert\(true\)`),
		skips:   rx(`^\s*(?:xit|xdescribe|xcontext|xspecify|xscenario|xexample)\b|^\s*(?:skip|pending)\b(?: *$|[ (]+["']|[ (]*(?:if|unless))|\b(?:skip|pending): *(?:true|["'])|, *:(?:skip|pending)\b`),
		focus:   rx(`^\s*(?:fit|fdescribe|fcontext|fscenario|fspecify)\b|, *:focus\b|\bfocus: *true`),
		never:   rx(`\bexit[!( ]*0?\)?\s*$|\bexit!|\brescue(?: Exception| StandardError)?(?: *=> *\w+)?\s*(?:;|\n)\s*(?:nil|true)?\s*\n?\s*end\b|\brescue nil\b`),
	}
}

func shell() *language {
	return &language{
		name: "shell", lineComment: "#", single: true, long: true,
		test:    rx(`^[ \t]*(?:@test +(?P<name>["'])|(?:function +)?(?P<fname>test_\w+)\s*\(\))`),
		helper:  rx(`^[ \t]*(?:function +)?(?P<name>\w+)\s*\(\)`),
		asserts: rx(`^\s*(?:\[\[? |test |assert\w*|refute\w*|fail\b|expect\w*|diff |cmp |grep -q)|\bexit 1\b|\breturn 1\b`),
		strong:  rx(`=|-eq|-ne|-gt|-lt|-ge|-le|diff|cmp|grep|assert_\w+`),
		trivial: rx(`\|\| *(?:true|:)(?:\s|$)|\[ 1 -eq 1 \]|\[\[? *true *\]|^\s*if false\b`),
		skips:   rx(`^\s*skip\b|\bstartSkipping\b`),
		never:   rx(`^\s*exit 0?\s*$|^\s*set \+e`),
	}
}

// other is PHP, C, C++, Swift, Elixir and what else looks like them.
func other() *language {
	return &language{
		name: "other", lineComment: "//", blockComment: true, lifetimes: true,
		test:    rx(`^[ \t]*(?:(?:public |static |final )*func(?:tion)? (?P<name>test\w*)\s*\(|TEST(?:_F|_P|_CASE)?\s*\((?P<fname>[^)]*)\))`),
		helper:  rx(`^[ \t]*(?:(?:public|private|static|final) )*func(?:tion)? (?P<name>\w+)\s*\(`),
		asserts: rx(`\b(?:assert\w*|XCTAssert\w*|EXPECT_\w+|ASSERT_\w+|CHECK\w*|REQUIRE\w*|XCTFail)\s*\(|\$this->assert\w+|expectException`),
		strong:  rx(`Equal|EQ|NE|Same|Throw|Contains|==|!=|[<>]|Exception|Count`),
		trivial: rx(`assertTrue\(\s*true\s*\)|XCTAssertTrue\(true\)|(?:EXPECT|ASSERT)_TRUE\((?:true|1)\)|\bif \(false\)|\|\| true\b`),
		skips:   rx(`markTest(?:Skipped|Incomplete)|XCTSkip|GTEST_SKIP|DISABLED_|@(?:group skip|requires)`),
		never:   rx(`\bexit\(0\)`),
	}
}

// givenTest is code of Go that a test hands itself to.
var givenTest = sync.OnceValue(func() *regexp.Regexp { return rx(`^func [^\n]*[ (]\*?testing\.(?:[TB]|TB)\b`) })

// languageOf is the language of a file, nil for none that is known.
func languageOf(name string) *language {
	key := ""
	switch strings.ToLower(path.Ext(name)) {
	case ".go":
		key = "go"
	case ".py", ".pyi":
		key = "python"
	case ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte":
		key = "javascript"
	case ".rs":
		key = "rust"
	case ".java", ".kt", ".kts", ".scala", ".groovy", ".cs":
		key = "java"
	case ".rb", ".rake":
		key = "ruby"
	case ".sh", ".bash", ".bats", ".zsh", ".ksh":
		key = "shell"
	case ".php", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".swift", ".m", ".ex", ".exs", ".dart":
		key = "other"
	default:
		return nil
	}
	return languages()[key]
}

// isTest says that a file holds tests, by its name; of Rust also by its content,
// where tests live with the code.
func isTest(name, content string) bool {
	l := languageOf(name)
	if l == nil {
		return false
	}
	lower := strings.ToLower(name)
	base := path.Base(name)
	stem := strings.TrimSuffix(base, path.Ext(base))
	low := strings.ToLower(stem)
	within := func(dirs ...string) bool {
		for _, d := range dirs {
			if strings.HasPrefix(lower, d+"/") || strings.Contains(lower, "/"+d+"/") {
				return true
			}
		}
		return false
	}
	switch l.name {
	case "go":
		unseen := within("testdata", "vendor") || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || strings.Contains(name, "/_") || strings.Contains(name, "/.")
		return (strings.HasSuffix(low, "_test") || givenTest().MatchString(content)) && !unseen
	case "python":
		return strings.HasPrefix(low, "test_") || strings.HasSuffix(low, "_test") || low == "tests" || low == "test" || low == "conftest" || within("tests")
	case "javascript":
		return strings.HasSuffix(low, ".test") || strings.HasSuffix(low, ".spec") || strings.HasSuffix(low, ".cy") || strings.HasSuffix(low, "-test") || strings.HasSuffix(low, "_test") || within("__tests__", "test", "tests", "spec", "e2e", "cypress")
	case "rust":
		return within("tests") || strings.Contains(content, "#[test]") || strings.Contains(content, "#[cfg(test)]") || strings.Contains(content, "::test]") || low == "tests"
	case "java":
		return within("test", "tests", "androidtest") || strings.HasSuffix(stem, "Test") || strings.HasSuffix(stem, "Tests") || strings.HasSuffix(stem, "IT") || strings.HasSuffix(stem, "Spec") || strings.HasPrefix(stem, "Test")
	case "ruby":
		return strings.HasSuffix(low, "_spec") || strings.HasSuffix(low, "_test") || strings.HasPrefix(low, "test_") || low == "spec_helper" || low == "rails_helper" || low == "test_helper"
	case "shell":
		return path.Ext(base) == ".bats" || strings.HasSuffix(low, "_test") || strings.HasPrefix(low, "test_") || within("test", "tests")
	}
	return within("test", "tests", "spec") || strings.HasSuffix(stem, "Test") || strings.HasSuffix(low, "_test") || strings.HasPrefix(low, "test_") || strings.HasSuffix(low, "tests")
}
