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

func (c *change) suppressions() {
	for _, f := range c.files {
		if f.After == nil || languageOf(f.Path) == nil {
			continue
		}
		before, after := string(f.Before), string(f.After)
		at := func(n int, what string, blocks bool) {
			line := strings.TrimLeft(after[n:], " \t\n")
			c.say(Finding{Path: f.Path, Line: 1 + strings.Count(after[:n], "\n"), What: what + ": " + end2(line, "\n"), Why: "the linter says nothing there", Blocks: blocks})
		}
		if n := newMatches(wide(), plain(before), plain(after)); n >= 0 && !generated(after) {
			at(n, "linter silenced for a file", f.Before != nil)
		} else if n := newMatches(narrow(), plain(before), plain(after)); n >= 0 && !generated(after) {
			at(n, "linter silenced", false)
		}
	}
}

// generated says that a file says of itself that it was.
func generated(text string) bool {
	head := text[:min(len(text), 2000)]
	return strings.Contains(head, "DO NOT EDIT") || strings.Contains(head, "@generated") || strings.Contains(strings.ToLower(head), "auto-generated")
}
