package tamper

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// configPatterns are what is looked for in configurations.
type configPatterns struct {
	header     *regexp.Regexp
	setting    *regexp.Regexp
	xmlElement *regexp.Regexp
	badLists   *regexp.Regexp
	goodLists  *regexp.Regexp
	products   *regexp.Regexp
	// badKey are settings that switch a check off when they are true.
	badKey *regexp.Regexp
	// goodOff are settings that switch a check off when they are false.
	goodOff    *regexp.Regexp
	strictKeys *regexp.Regexp
	limits     *regexp.Regexp
	// ruleOff are values that switch a rule off.
	ruleOff *regexp.Regexp
	// severe are values that make a rule fail.
	severe *regexp.Regexp
	// options are settings that hold the arguments of a test program.
	options *regexp.Regexp
	// collects are settings that say which tests there are.
	collects *regexp.Regexp
	// usual are the names that tests have by default.
	usual *regexp.Regexp
}

var configWords = sync.OnceValue(func() *configPatterns {
	return &configPatterns{
		header:     rx(`^\[+([^\]]+)\]+$`),
		setting:    rx(`^(?:export |const |let )?("[^"]+"|'[^']+'|[\w.@/:~*-]+?)\s*(?:=>?|:)\s*(.*)$`),
		xmlElement: rx(`^<([\w.:-]+)[^>]*>([^<]*)</`),
		badLists:   rx(`(?i)^(?:exclude|excludes|excluded|exclude-?\w*|ignore|ignores|ignored|ignore[-_]?patterns|extend[-_](?:ignore|exclude)|disable|disabled|disabled_rules|skip|skips|skip-(?:dirs|files)|omit|norecursedirs|collect_ignore\w*|\w*ignorepatterns|per-file-ignores|deselect|exclude_lines|exclude_also|paths-ignore|branches-ignore|testPathIgnorePatterns|modulePathIgnorePatterns|allow|coverage_ignore|testIgnore|grepInvert)$`),
		goodLists:  rx(`(?i)^(?:enable|select|extend-select|extends|testpaths|testMatch|testRegex|roots|projects|hooks|repos|rules-enabled|enabled_rules|opt_in_rules|linters|checks|envlist|env_list|rustflags)$`),
		products:   rx(`(?i)(?:node_modules|\bdist\b|\bbuild\b|\bvendor\b|\bgenerated?\b|\.venv|\bvenv\b|\bcoverage\b|third_party|\.min\.|__pycache__|\btarget\b|\bout\b|\.pb\.|\.next|\.nuxt|\.cache|\.git\b|\.tox|\.eggs|\.idea|storybook-static|\.turbo|\.svelte-kit|playwright-report|test-results|fixtures?|testdata|\.worktrees|\.ralph|migrations|\.d\.ts|egg-info|lock|\.mypy_cache|docs?\b|\.md\b|if TYPE_CHECKING|__main__|\.gen\.|_gen\.|\.snap\b)`),
		badKey:     rx(`(?i)^(?:-?D?skipTests|skipITs|maven\.test\.skip|testFailureIgnore|maven\.test\.failure\.ignore|skip|ignoreFailures|ignore_failures|passWithNoTests|pass_with_no_tests|disable-all|ignore_errors|ignoreErrors|ignoreDuringBuilds|ignoreBuildErrors|continue-on-error|allow_failure|exclude-use-default|issues-exit-code|ignoreTestFailures|skip_covered_fail|disable_all_checks|disableAllRules|ignore_missing_coverage|ignoreDeadLinks|failsafe\.skip|checkstyle\.skip|pmd\.skip|suppressImplicitAnyIndexErrors|suppressExcessPropertyErrors|DisabledByDefault|informational|dangerouslyIgnoreUnhandledErrors)$`),
		goodOff:    rx(`(?i)^(?:Enabled|tests|test|run_tests|failOnViolation|failsOnError|failOnWarning|fail_ci_if_error|haltOnFailure|checkJs|typecheck|harness|isFailOnViolation|violationsAreErrors|failOnError|default)$`),
		strictKeys: rx(`(?:^|\.)(?:strict\w*|no(?:Implicit|Unused|Unchecked|Fallthrough|PropertyAccess|ImplicitOverride|Emit)\w*|exactOptionalPropertyTypes|useUnknownInCatchVariables|alwaysStrict|warn_\w+|disallow_\w+|check_untyped_defs|xfail_strict|no_implicit_\w+|fail_on_\w+|failOn\w+|errorOnUnknown\w*|forbid\w*|checkJs|allErrors|resetMocks|noEmitOnError|warnings_as_errors|allWarningsAsErrors|strict_equality|branch)$`),
		limits:     rx(`(?i)(?:fail_under|failUnder|coverage_?threshold|thresholds?|min_?(?:imum)?_?coverage|minimum_coverage|coverage.*(?:>(?:branches|lines|functions|statements|target|minimum))|>status>.*>target|check-coverage>(?:lines|branches|functions|statements)|\bmin-?score|\bminimum$|^>(?:lines|branches|functions|statements)$|break)`),
		ruleOff:    rx(`^(?:off|0|none|disable|disabled|allow|ignore|\[\s*["']?off["']?.*|\[\s*0\s*[,\]].*)$`),
		severe:     rx(`^["']?(?:error|2|deny|forbid)["']?$|^\[\s*["']?(?:error|2)["']?`),
		options:    rx(`(?i)^(?:addopts|test_args|args|argLine|rustflags|RUSTFLAGS)$`),
		collects:   rx(`^(?:python_files|python_functions|python_classes|testMatch|testRegex|testNamePattern|grep|spec|testpaths)$`),
		usual:      rx(`test|spec`),
	}
})

// badList says that what is in a list is not checked.
func badList(where string) bool { return configWords().badLists.MatchString(lastKey(where)) }

// goodList says that only what is in a list is checked.
func goodList(where string) bool { return configWords().goodLists.MatchString(lastKey(where)) }

func lastKey(where string) string {
	return where[strings.LastIndexByte(where, '>')+1:]
}

// product says that a path is made or fetched and not written: nobody checks it.
func product(v string) bool { return configWords().products.MatchString(strings.Trim(v, `"' `)) }

// strictKey are settings that make a check stricter.
func strictKey(e entry) bool { return configWords().strictKeys.MatchString(e.key) }

// limitKey are numbers below which a check fails.
func limitKey(id string) bool { return configWords().limits.MatchString(id) }

// ruleScope says that a setting is a rule of a linter, by its file and place.
func ruleScope(name, id string) bool {
	base := strings.ToLower(path.Base(name))
	switch {
	case strings.HasPrefix(base, ".eslintrc"), strings.HasPrefix(base, "eslint.config."), strings.HasPrefix(base, "biome."), strings.HasPrefix(base, ".oxlintrc"), strings.HasPrefix(base, ".stylelintrc"), strings.HasPrefix(base, "pyright"), strings.HasPrefix(base, ".yamllint"), strings.HasPrefix(base, "detekt"):
		return true
	case base == "cargo.toml":
		return strings.Contains(id, "lints")
	case base == "package.json":
		return strings.Contains(id, "eslintconfig")
	case base == "pyproject.toml":
		return strings.Contains(id, "pyright")
	case strings.HasPrefix(base, ".golangci"):
		return strings.Contains(id, "severity")
	}
	return false
}
