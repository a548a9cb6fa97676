package scripts

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ralph/memory/config"
)

// flagValue gathers what a flag was given, unparsed: config.Load checks the
// values of all sources alike.
type flagValue struct {
	kind   config.Kind
	values []string
}

func (v *flagValue) Set(s string) error {
	v.values = append(v.values, s)
	return nil
}

func (v *flagValue) String() string { return strings.Join(v.values, ",") }

func (v *flagValue) Type() string { return string(v.kind) }

// addFlags gives fs a flag for each key of the scope.
func addFlags(fs *pflag.FlagSet, keys []config.Key, scope config.Scope) {
	for _, k := range keys {
		if k.Flag == "" || k.Scope != scope {
			continue
		}
		f := fs.VarPF(&flagValue{kind: k.Kind}, k.Flag, k.Short, k.Help)
		if k.Kind == config.KindBool {
			f.NoOptDefVal = "true"
		} else if k.Bare != "" {
			f.NoOptDefVal = k.Bare
		}
	}
}

// given returns the values of the flags that were given, by the key's name.
func given(fs *pflag.FlagSet, keys []config.Key) (map[string][]string, error) {
	out := map[string][]string{}
	for _, k := range keys {
		if k.Flag == "" {
			continue
		}
		if f := fs.Lookup(k.Flag); f != nil && f.Changed {
			if v, ok := f.Value.(*flagValue); ok {
				out[k.Name] = v.values
			}
		}
	}
	return out, givenJSON(fs, out)
}

// givenJSON folds --json into the values of --output. After an error, what was
// given decides for JSON: whoever writes --json reads JSON.
func givenJSON(fs *pflag.FlagSet, out map[string][]string) error {
	f, ok := fs.Lookup("json").Value.(*flagValue)
	if !ok || len(f.values) == 0 {
		return nil
	}
	last := f.values[len(f.values)-1]
	on, err := strconv.ParseBool(last)
	if err == nil && !on {
		return nil
	}
	other := ""
	if v := out["output"]; len(v) > 0 {
		other = v[len(v)-1]
	}
	if other != outputJSONL {
		out["output"] = []string{outputJSON}
	}
	switch {
	case err != nil:
		return usage("--json takes no value, or true or false", "flag --json: %q is neither true nor false", last)
	case other != "" && other != outputJSON:
		return usage("--json means --output json: leave one of the two out", "--json contradicts --output %s", other)
	}
	return nil
}

// firstWord returns the index of the first argument that is neither a flag
// nor the value of one, or len(args), and whether "--" stands before it.
func firstWord(args []string, fs *pflag.FlagSet) (index int, dashed bool) {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return i + 1, true
		case !isFlag(args[i]):
			return i, false
		case takesValue(args[i], fs):
			i++
		}
	}
	return len(args), false
}

// separate splits arguments into the flags with their values and the words. What
// follows "--" is a word; dashed says that it stands before all of them.
func separate(args []string, fs *pflag.FlagSet) (flags, words []string, dashed bool) {
	for len(args) > 0 {
		at, cut := firstWord(args, fs)
		at = min(at, len(args)) // the value of the last flag is missing
		if cut {
			return append(flags, args[:at-1]...), append(words, args[at:]...), len(words) == 0
		}
		flags = append(flags, args[:at]...)
		if at == len(args) {
			break
		}
		words, args = append(words, args[at]), args[at+1:]
	}
	return flags, words, false
}

// isFlag reports whether an argument is a flag: it begins with a dash and is no text.
// A text is what has a blank in place of a flag's name, such as a list's item.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	name, _, _ := strings.Cut(arg, "=")
	if strings.HasPrefix(arg, "--") {
		return !strings.ContainsAny(name, " \t\n")
	}
	return !strings.ContainsAny(name[1:2], " \t\n")
}

// takesValue reports whether the value of a flag is the argument behind it.
func takesValue(arg string, fs *pflag.FlagSet) bool {
	long, ok := strings.CutPrefix(arg, "--")
	if !ok {
		return takesNext(arg[1:], fs)
	}
	name, _, hasValue := strings.Cut(long, "=")
	f := fs.Lookup(name)
	return f != nil && !hasValue && f.NoOptDefVal == ""
}

// takesNext says whether the last letter of a cluster of short flags is one
// that takes the next argument as its value.
func takesNext(letters string, fs *pflag.FlagSet) bool {
	for i := range len(letters) {
		f := fs.ShorthandLookup(letters[i : i+1])
		if f == nil {
			return false
		}
		if f.NoOptDefVal == "" {
			return i == len(letters)-1
		}
	}
	return false
}

// guessOutput finds the form of output that was asked for in arguments that
// cannot be parsed.
func guessOutput(args []string, getenv func(string) string) string {
	form := guessFlag(args, "output", getenv("RALPH_OUTPUT"))
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--json" || arg == "--json=true" {
			form = outputJSON
		}
	}
	if form == outputJSON || form == outputJSONL {
		return form
	}
	return outputText
}

// flagFault turns an error of the flag parser into one for the user.
func flagFault(err error, c *cobra.Command) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	all := "ralph --help lists the flags; -- ends them: ralph -- \"-x is what fails\""
	if c.HasParent() {
		all = c.CommandPath() + " --help lists the flags; -- stands before a word that begins with a dash"
	}
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return usage(all, "unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		slices.Sort(names)
		if best := nearest(strings.ReplaceAll(name, "_", "-"), names); best != "" {
			return usage(all, "unknown flag --%s; did you mean --%s?", name, best)
		}
		return usage(all, "unknown flag --%s", name)
	case errors.As(err, &missing):
		return usage(all, "flag --%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		return usage(all, "flag --%s: %q is not valid", invalid.GetFlag().Name, invalid.GetValue())
	}
	return usage(all, "%s", fmt.Sprint(err))
}

// guessFlag finds the value of a flag in arguments that cannot be parsed.
func guessFlag(args []string, name, otherwise string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			otherwise = value
		} else if arg == "--"+name && i+1 < len(args) {
			otherwise = args[i+1]
		}
	}
	return otherwise
}
