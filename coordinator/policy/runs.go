package policy

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed runs.txt
var runsText string

// knowledge is what runs.txt says.
type knowledge struct {
	variables []pattern
	safe      *regexp.Regexp
	gitKeys   *regexp.Regexp
	options   map[string][]string
	wrappers  map[string]wrapper
	// carriers matches programs that run a command among their arguments.
	carriers *regexp.Regexp
}

// pattern is a variable with which a program runs another; harmless matches the
// values that run nothing, with a NUL for what of them is not known, and is nil
// where all do.
type pattern struct{ name, harmless *regexp.Regexp }

// wrapper is how the command that a program runs is found among its words.
type wrapper struct {
	operands int
	assigns  bool
	// short and long are the options that take the next word as their value.
	short string
	long  []string
}

var runs = sync.OnceValue(func() knowledge {
	k := knowledge{options: make(map[string][]string), wrappers: make(map[string]wrapper)}
	var safe, keys, carriers []string
	for line := range strings.Lines(runsText) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, more, set := strings.Cut(rest, " ")
		switch kind {
		case "variable":
			p := pattern{name: whole(name)}
			if set {
				p.harmless = whole(more)
			}
			k.variables = append(k.variables, p)
		case "safe":
			safe = append(safe, strings.Fields(rest)...)
		case "gitkey":
			keys = append(keys, strings.Fields(rest)...)
		case "option":
			k.options[name] = strings.Fields(more)
		case "carrier":
			carriers = append(carriers, strings.Fields(rest)...)
		case "wrapper":
			k.wrappers[name] = readWrapper(strings.Fields(more))
		}
	}
	k.safe, k.gitKeys, k.carriers = whole(strings.Join(safe, "|")), whole(strings.Join(keys, "|")), whole(strings.Join(carriers, "|"))
	return k
})

func whole(expr string) *regexp.Regexp { return regexp.MustCompile("^(?:" + expr + ")$") }

func readWrapper(fields []string) wrapper {
	number, assigns := strings.CutSuffix(fields[0], "=")
	w := wrapper{assigns: assigns}
	w.operands, _ = strconv.Atoi(number) // the test of the data reads it back
	for _, f := range fields[1:] {
		if strings.HasPrefix(f, "--") {
			w.long = append(w.long, f)
		} else {
			w.short += f[1:]
		}
	}
	return w
}

// runsProgram reports whether a program runs another because the variable is set.
func (v variable) runsProgram() bool {
	for _, p := range runs().variables {
		if p.name.MatchString(v.name) {
			return v.value == "" && !v.known || v.value != "" && (p.harmless == nil || !p.harmless.MatchString(v.value))
		}
	}
	return false
}

// listed reports whether the variable is one with which a program runs another.
func (v variable) listed() bool {
	return slices.ContainsFunc(runs().variables, func(p pattern) bool { return p.name.MatchString(v.name) })
}

// ordinary reports whether the variable is one of the programs' ordinary settings, so that a
// rule for the program covers it.
func (v variable) ordinary() bool { return v.known && runs().safe.MatchString(v.name) }

// runsByOption reports whether a flag of the program names another one. A letter may be
// one of several behind a dash, and a long name may be cut short.
func (c call) runsByOption() bool {
	flags := runs().options[c.program]
	if (c.program == "git" || c.program == "go") && len(c.argv) > 1 {
		flags = slices.Concat(flags, runs().options[c.program+"-"+c.argv[1]])
	}
	return slices.ContainsFunc(c.words[min(1, len(c.words)):], func(w word) bool {
		name, _, _ := strings.Cut(w.text, "=")
		return slices.ContainsFunc(flags, func(f string) bool {
			switch {
			case len(f) == 2 && f[0] == '-':
				return len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-' && strings.Contains(w.text, f[1:])
			case f[0] == '*':
				return strings.Contains(w.text, f[1:])
			case strings.HasPrefix(f, "--"):
				return len(name) > 3 && strings.HasPrefix(f, name) || strings.HasPrefix(name, f)
			}
			return strings.HasPrefix(w.text, f)
		})
	})
}

// behind is where among the words the command begins that the program runs; the
// length of the words where there is none. False: that cannot be told.
func (c call) behind() (int, bool) {
	w, ok := runs().wrappers[c.program]
	if !ok {
		return 0, false
	}
	operands, options := w.operands, true
	for i := 1; i < len(c.words); i++ {
		switch word := c.words[i]; {
		case word.text == "--" && options:
			options = false
		case options && word.option && strings.HasPrefix(word.text, "-"):
			if c.program == "env" && (strings.HasPrefix(word.text, "-S") || strings.HasPrefix(word.text, "--sp")) {
				return 0, false
			}
			if w.takesNext(word.text) {
				i++
			}
		case w.assigns && word.option && strings.Contains(word.text, "="):
		case !word.known:
			return 0, false
		case operands > 0:
			operands--
		default:
			return i, true
		}
	}
	return len(c.words), true
}

func (w wrapper) takesNext(option string) bool {
	if strings.HasPrefix(option, "--") {
		return slices.Contains(w.long, option)
	}
	at := strings.IndexAny(option[1:], w.short)
	return at >= 0 && at+2 == len(option)
}
