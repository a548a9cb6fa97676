package render

import "strings"

// pair is what opens a text of several lines in a language, and what ends it.
type pair struct{ open, end string }

// syntax is as much of a language as tells whether a line of code begins inside a
// comment or a string of several lines. It decides on colours only.
type syntax struct {
	comment string // begins one up to the end of the line
	quotes  string // begin and end a string within a line
	pairs   []pair
}

func syntaxOf(lang string) syntax {
	c := pair{"/*", "*/"}
	switch lang {
	case "go", "golang", "js", "javascript", "jsx", "ts", "typescript", "tsx", "mjs":
		return syntax{"//", `"'`, []pair{c, {"`", "`"}}}
	case "c", "h", "cpp", "c++", "cc", "java", "kotlin", "kt", "swift", "scala", "cs", "csharp", "c#", "dart", "php", "groovy", "proto", "protobuf":
		return syntax{"//", `"'`, []pair{c}}
	case "rust", "rs": // a ' may begin a lifetime
		return syntax{"//", `"`, []pair{c}}
	case "css", "scss", "less":
		return syntax{"", `"'`, []pair{c}}
	case "sql":
		return syntax{"--", `'"`, []pair{c}}
	case "python", "py", "python3":
		return syntax{"#", `"'`, []pair{{`"""`, `"""`}, {"'''", "'''"}}}
	case "html", "xml", "svg", "vue", "markdown", "md":
		return syntax{"", "", []pair{{"<!--", "-->"}}}
	case "lua":
		return syntax{"--", `"'`, []pair{{"--[[", "]]"}}}
	case "haskell", "hs":
		return syntax{"--", `"`, []pair{{"{-", "-}"}}}
	}
	return syntax{}
}

// after is what is open behind a line of code, if that was open before it.
func (s syntax) after(open pair, line string) pair {
	if len(s.pairs) == 0 {
		return pair{}
	}
	for line != "" {
		if open.open != "" {
			i := strings.Index(line, open.end)
			if i < 0 {
				return open
			}
			line, open = line[i+len(open.end):], pair{}
			continue
		}
		for _, p := range s.pairs {
			if strings.HasPrefix(line, p.open) {
				open = p
				break
			}
		}
		switch {
		case open.open != "":
			line = line[len(open.open):]
		case s.comment != "" && strings.HasPrefix(line, s.comment):
			return pair{}
		case strings.IndexByte(s.quotes, line[0]) >= 0:
			line = line[quoted(line):]
		default:
			line = line[1:]
		}
	}
	return open
}

// quoted measures a string within a line.
func quoted(line string) int {
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case line[0]:
			return i + 1
		}
	}
	return len(line)
}
