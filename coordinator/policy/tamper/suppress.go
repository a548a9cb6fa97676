package tamper

import (
	"strings"
	"sync"

	"regexp"
)

// suppressions are the marks in code that silence a linter or a compiler, by how
// much they silence: whole files block, one line is only shown.
var wide = sync.OnceValue(func() *regexp.Regexp {
	return rx(`//\s*@ts-nocheck\b|/\*\s*eslint-disable\s*(?:\*/|--|$)|^\s*//\s*eslint-disable\s*$|^\s*#\s*(?:mypy:\s*ignore-errors|type:\s*ignore\s*$|flake8:\s*noqa\s*$|ruff:\s*noqa\s*$|pylint:\s*(?:disable\s*=\s*all|skip-file))|^\s*#!\[allow\((?:warnings|clippy::all|unused|dead_code)|//lint:file-ignore|@file:Suppress|rubocop:disable (?:all|Lint/?\b)|#pragma warning disable\s*$|shellcheck disable=all|/\*\s*(?:istanbul|c8|v8) ignore (?:file|start)`)
})

var narrow = sync.OnceValue(func() *regexp.Regexp {
	return rx(`//\s*nolint\b|#\s*noqa\b|#\s*type:\s*ignore|#\s*pyright:\s*ignore|#\s*pragma: no cover|eslint-disable-(?:next-)?line|@ts-(?:ignore|expect-error)|#\[allow\(|@SuppressWarnings|@Suppress\(|rubocop:disable|biome-ignore|shellcheck disable=|NOLINT|//lint:ignore|(?:istanbul|c8|v8) ignore next|#\s*nosec|pylint:\s*disable`)
})

// testscripts judges the files that are tests as a whole: gone, or with fewer lines
// that can fail.
func (c *change) testscripts() {
	for _, f := range c.files {
		ext := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		if ext != "txtar" && ext != "txt" && ext != "feature" || f.Before == nil || !strings.Contains(f.Path, "testdata/script") && ext == "txt" {
			continue
		}
		if f.After == nil {
			if !c.movedFile(f) {
				c.say(Finding{Path: f.Path, What: "test removed: " + f.Path, Why: "nothing in the change takes its place", Blocks: true})
			}
			continue
		}
		had, has := lineSet(expects(), f.Before), lineSet(expects(), f.After)
		gone := ""
		came := false
		for line, n := range had {
			if has[line] < n && (gone == "" || line < gone) {
				gone = line
			}
		}
		for line, n := range has {
			came = came || had[line] < n
		}
		if gone != "" && !came && ext != "feature" {
			c.say(Finding{Path: f.Path, What: "assertion removed: " + gone, Why: "nothing takes its place", Blocks: true})
		}
	}
}

// movedFile says that the content of a file is, in the main, that of a new one.
func (c *change) movedFile(f File) bool {
	bag := tokens(string(f.Before))
	for _, other := range c.files {
		if other.Before == nil && other.After != nil && likeness(bag, tokens(string(other.After))) > .5 {
			return true
		}
	}
	return false
}

func lineSet(re *regexp.Regexp, data []byte) map[string]int {
	set := map[string]int{}
	for _, line := range re.FindAllString(string(data), -1) {
		set[squeeze(line)]++
	}
	return set
}

func (c *change) suppressions() {
	for _, f := range c.files {
		if f.After == nil || languageOf(f.Path) == nil {
			continue
		}
		after := string(f.After)
		had := map[string]bool{}
		for line := range strings.Lines(string(f.Before)) {
			had[squeeze(line)] = true
		}
		made, first, n := generated(after), true, 0
		for line := range strings.Lines(after) {
			n++
			shown := squeeze(line)
			if shown == "" || had[shown] {
				continue
			}
			if aware().MatchString(line) && !isTest(f.Path, "") {
				c.say(Finding{Path: f.Path, Line: n, What: "code that knows it is tested: " + shown, Why: "it can do other things then", Blocks: true})
			}
			switch {
			case made:
			case wide().MatchString(line):
				c.say(Finding{Path: f.Path, Line: n, What: "linter silenced for a file: " + shown, Why: "the linter says nothing there", Blocks: f.Before != nil})
			case first && narrow().MatchString(line):
				c.say(Finding{Path: f.Path, Line: n, What: "linter silenced: " + shown, Why: "the linter says nothing there"})
				first = false
			}
		}
	}
}

// generated says that a file says of itself that it was.
func generated(text string) bool {
	head := text[:min(len(text), 2000)]
	return strings.Contains(head, "DO NOT EDIT") || strings.Contains(head, "@generated") || strings.Contains(strings.ToLower(head), "auto-generated")
}
