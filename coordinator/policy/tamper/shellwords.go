package tamper

import (
	"regexp"
	"strconv"
	"sync"
)

// shellPatterns are those of commands, compiled when the first is needed.
type shellPatterns struct {
	tools, silent, scriptName, checkName, weak, strict, threshold, warnings, piped, substitution, soft, dashed, harmless, exits, errexit, pipefail, disabling, makeTarget, packageScript, separators, prefix, nothing, variable, present, calls *regexp.Regexp
}

var shellWords = sync.OnceValue(func() *shellPatterns {
	return &shellPatterns{
		tools: rx(`(?:^|[\s"'=(/@-])(go (?:test|vet|build)|gofmt|goimports|golangci-lint|staticcheck|govulncheck|gotestsum|pytest|py\.test|unittest|tox|nox|mypy|pyright|ruff(?: format| check)?|flake8|pylint|black|isort|bandit|` +
			`(?:npm|pnpm|yarn|bun)(?: run| run-script)? (?:test|lint|check|typecheck|type-check|build|verify|ci:?\w*|coverage|t)[\w:-]*|jest|vitest|mocha|ava|eslint|tsc|prettier|biome|stylelint|playwright|cypress|xo|tap|c8|nyc|node --test|deno (?:test|lint|check|fmt)|bun test|` +
			`cargo(?: \+\S+)? (?:test|clippy|check|fmt|nextest|deny|audit|build)|rustfmt|mvnw?|gradlew?|ktlint|detekt|checkstyle|spotless|sbt|rspec|rubocop|rake|minitest|brakeman|rails test|shellcheck|shfmt|bats|hadolint|yamllint|actionlint|phpunit|phpstan|psalm|pest|` +
			`dotnet (?:test|build|format)|ctest|clang-tidy|cppcheck|swift test|xcodebuild|mix (?:test|credo|dialyzer|format)|bazel(?:isk)? (?:test|build)|make (?:\S+ )*?(?:\w*(?:test|check|lint|ci|verify|vet)\w*)|just \w+|task \w+|pre-commit|codecov|coverage|git diff --exit-code|git diff --quiet|diff|cmp|terraform validate)(?:$|[\s"')&|;])|` +
			`^(?:(?:exec|time|env|if|!|then|\w+=\S*) )*((?:(?:bash|sh|python3?|node|ruby|source|\.)(?: -\w+)* )?[\w./-]*(?:test|check|lint|verify|spec|validate)[\w-]*(?:\.(?:sh|py|js|mjs|ts|rb|pl|bash))?)(?:$|\s)`),
		silent:     rx(`^\s*(?:- )?(?:run: )?[@-]*(?:echo|printf|cat|cd|export|mkdir|cp|mv|rm|git (?:add|commit)|apt-get|apt|brew|pip3? install|npm (?:i|install|ci)\b|go install|cargo install)\b`),
		scriptName: rx(`(?i)(?:check|test|lint|verify|valid|coverage|gate|pre-?commit|pre-?push|^ci\b|\bci\.|spec|\bqa\b|^run$|^all\.sh$)`),
		checkName:  rx(`(?i)(?:^|[:_.-])(?:pre|post)?(?:check|test|tests|lint|verify|ci|vet|typecheck|type-check|types|validate|coverage|cover|all|build|spec|e2e|unit|integration|quality|qa|format|fmt)(?:$|[:_.-])`),
		weak: rx(`\|\|\s*(?:true\b|:(?:\s|$)|exit 0|echo\b|printf\b|return 0)|\s-count[ =]0\b|\s-exec[ =]\S+|go test (?:\S+ )*-c\b|\s--exit-zero\b|\s--pass-?[wW]ith-?[nN]o-?[tT]ests\b|\s-run[ =]\S+|\s-short\b|\s-vet=off\b|\s-skip[ =]\S+|\s-k[ =]\S+|\s-m ["']not |\s--deselect\b|\s--ignore(?:-glob)?[ =]|\s--skip\b|\s-DskipTests|` +
			`-Dmaven\.test\.skip|-Dmaven\.test\.failure\.ignore|\s-x \w*[tT]est|\s--co(?:llect-only)?\b|\s--no-run\b|\s--cap-lints|\s-A (?:warnings|clippy::)|\s--no-verify\b|\s--quiet-errors|\s--testPathIgnorePatterns|\s-t ["']\S|\s--grep\b|\s--exclude(?:-\w+)?[ =]|\s--no-error\b|\s--issues-exit-code[ =]0|` +
			`\s--force-exit\b|\s--allow-\w+|\s--tests[ =]false|\s--disable[ =]|\s--ignore-errors\b|\s--skipLibCheck|\s--noEmitOnError false|\s-p no:\w+|\s--lib\b|\s--dry-run\b|\s--list\b|\s--no-fail\b|\s--retries?[ =]\d+|\s--nocheck\b|\s--tag ~|\s--exclude-pattern|\s--fix-only|\s--max-failures|[^&>|]&\s*$|` +
			`;\s*(?:true|exit 0|:)\s*$`),
		strict:       rx(`\s-race\b|\s-D ?warnings|\s--strict\b|\s--check\b|\s--all-targets\b|\s--all-features\b|\s--workspace\b|\s--locked\b|\s--frozen-lockfile\b|\s--cov-fail-under\b|\s--max-warnings\b|\s-Werror\b|\s-W error\b|\s--exit-code\b|\s--error-exitcode\b|\s--noEmit\b|\s--runInBand --ci\b|\s--fail-fast-off|\s--report-unused-disable-directives\b|\s--warnings-as-errors\b|\s-l\b|\s--coverage\b|\s--diff\b|\s-v -race\b`),
		threshold:    rx(`(?:fail[-_]under|threshold|min(?:imum)?[-_]coverage|--lines|--branches)[ =](\d+(?:\.\d+)?)`),
		warnings:     rx(`--max-warnings[ =](\d+)`),
		piped:        rx(`[^|]\|\s*[^|\s]`),
		substitution: rx(`\$\$?\([^()]*(?:\([^()]*\)[^()]*)*\)`),
		soft:         rx(`\|\|\s*(?:true\b|:(?:\s|$)|exit 0|echo\b|printf\b|return 0)|;\s*(?:true|exit 0)\s*$|trap ['"]exit 0['"]|\bset \+(?:e|o errexit|o pipefail)`),
		dashed:       rx(`^\t@?-@?\s*\S+`),
		harmless:     rx(`^\s*(?:- )?(?:run: )?(?:@?-?@?)(?:rm|mkdir|kill|pkill|docker (?:rm|stop|kill|pull|network)|git (?:fetch|stash|branch|tag|config|worktree)|cp|mv|echo|cat|ls|command -v|which|test -f|source|export|\w+=|\[|umount)\b|\|\| (?:echo|printf)[^;&|]*(?:&&|;|\{)?\s*exit 1|\w+=\$?\(?.*\|\| *(?:true|echo)`),
		exits:        rx(`^exit 0[ \t]*$|^return 0[ \t]*$`),
		errexit:      rx(`^\s*set -\w*e|set -o errexit|^#!.*sh -\w*e`),
		pipefail:     rx(`pipefail`),
		disabling: rx(`^\s*-?\s*(?:continue-on-error|allow_failure|ignore_errors|continueOnError|soft_fail|failure: ignore|ignore_failure)["']?:\s*["']?(?:true|\$\{\{|\n)|^\s*(?:- )?if: *["']?(?:false|\$\{\{ *false|\$\{\{ *github\.event_name == 'never)|when: *(?:manual|never)\b|^\.IGNORE\b|^MAKEFLAGS *[:+?]?=.*-\w*[ik]|^SHELL *[:?]?= *\S*(?:true|echo)\b|` +
			`^\s*ignore_outcome *= *[tT]rue|^\s*skip_install_only|^\s*condition: *false|^\s*enabled: *false|catchError\(|returnStatus: *true|\[skip ci\]|fail_ci_if_error: *false`),
		makeTarget:    rx(`^([\w./%-]+)\s*::?(?:[^=]|$)\s*([^=]*)$`),
		packageScript: rx(`^"([^"]+)": (.*)$`),
		separators:    rx(`\s*&&\s*|;\s+|;$`),
		prefix:        rx(`^(?:- )?(?:(?:run|script|command|commands|cmd|name|sh|entry|args)\s*[:=]\s*)?(?:sh ['"])?(?:\|[+-]?$)?(?:@?-@?)?(?:then |do |else )?`),
		nothing:       rx(`^(?:echo|printf|true|:|exit|cd|export|mkdir|rm|cp|set|\w+=\S*)\b|^:$|^['"]?$|^\[|^\}|^\{`),
		variable:      rx(`^\s*(?:export )?(\w*(?i:test|check|lint|flags|args|opts)\w*)\s*[:+?]?=\s*(.+)$`),
		present:       rx(`command -v|\bwhich\b|\btype\b|\bhash\b`),
		calls:         rx(`(?:\$\(MAKE\)|\b(?:make|just|task|rake|nox)\b)`),
	}
})

// tools are the commands that check something; the group is the name by which two
// of them are the same.
func tools() *regexp.Regexp { return shellWords().tools }

// silent are commands that only speak, whatever the words.
func silent() *regexp.Regexp { return shellWords().silent }

func scriptName() *regexp.Regexp { return shellWords().scriptName }

func checkName() *regexp.Regexp { return shellWords().checkName }

// weak are arguments that make a check look at less, or never fail.
func weak() *regexp.Regexp { return shellWords().weak }

// strict are arguments that make a check stricter.
func strict() *regexp.Regexp { return shellWords().strict }

func threshold() *regexp.Regexp { return shellWords().threshold }

func warnings() *regexp.Regexp { return shellWords().warnings }

func piped() *regexp.Regexp { return shellWords().piped }

// substitution is a command whose output is an argument.
func substitution() *regexp.Regexp { return shellWords().substitution }

// soft is what lets a command fail unseen.
func soft() *regexp.Regexp { return shellWords().soft }

// dashed is a command of a makefile whose failure is ignored.
func dashed() *regexp.Regexp { return shellWords().dashed }

// harmless are commands that may well fail.
func harmless() *regexp.Regexp { return shellWords().harmless }

func exits() *regexp.Regexp { return shellWords().exits }

func errexit() *regexp.Regexp { return shellWords().errexit }

func pipefail() *regexp.Regexp { return shellWords().pipefail }

// disabling is what takes a check out, in makefiles and CI.
func disabling() *regexp.Regexp { return shellWords().disabling }

func makeTarget() *regexp.Regexp { return shellWords().makeTarget }

func packageScript() *regexp.Regexp { return shellWords().packageScript }

func separators() *regexp.Regexp { return shellWords().separators }

func prefix() *regexp.Regexp { return shellWords().prefix }

// nothing are commands that check nothing.
func nothing() *regexp.Regexp { return shellWords().nothing }

// variable is one whose value holds the arguments of a check.
func variable() *regexp.Regexp { return shellWords().variable }

// present asks whether a program is there at all.
func present() *regexp.Regexp { return shellWords().present }

// calls are commands that run a target of a makefile and the like.
func calls() *regexp.Regexp { return shellWords().calls }

func lower(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x < y
}
