package repl

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sahilm/fuzzy"
)

const (
	// filesKept is how long the list of files is believed.
	filesKept = 5 * time.Second
	// filesAtOnce is how many files are looked through while the user waits for the
	// key; more are looked through beside the prompt.
	filesAtOnce = 20_000
	// filesOffered bounds what is offered to choose from.
	filesOffered = 100_000
	// listedAtOnce is how many words stand below the line; of more one is picked.
	listedAtOnce = 30
)

// finder keeps the files of the project for the completion. Safe for concurrent
// use.
type finder struct {
	mu    sync.Mutex // guards the fields below
	paths []string   // sorted; never changed in place
	at    time.Time
}

// fresh returns the files when they are known well enough.
func (f *finder) fresh(now time.Time) ([]string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths, !f.at.IsZero() && now.Sub(f.at) < filesKept
}

// files returns them, and may wait for the disk.
func (f *finder) files(ctx context.Context, load func(context.Context) ([]string, bool, error)) ([]string, error) {
	if paths, ok := f.fresh(time.Now()); ok {
		return paths, nil
	}
	paths, _, err := load(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths, f.at = paths, time.Now()
	return paths, nil
}

// below returns the part of the sorted paths that begins with prefix.
func below(paths []string, prefix string) []string {
	from, _ := slices.BinarySearch(paths, prefix)
	to := from
	for to < len(paths) && strings.HasPrefix(paths[to], prefix) {
		to++
	}
	return paths[from:to]
}

// steps are what follows prefix, up to the next folder, each once: as a shell
// completes paths. At most max+1 are returned.
func steps(paths []string, prefix string, max int) []string {
	var found []string
	for _, p := range below(paths, prefix) {
		if i := strings.IndexByte(p[len(prefix):], '/'); i >= 0 {
			p = p[:len(prefix)+i+1]
		}
		if n := len(found); n == 0 || found[n-1] != p {
			found = append(found, p)
		}
		if len(found) > max {
			break
		}
	}
	return found
}

// elsewhere are the paths whose last part, or a part of whose folders, begins with
// word, but which do not begin with it themselves. Case does not count.
func elsewhere(paths []string, word string) []string {
	if word == "" || strings.Contains(word, "/") {
		return nil
	}
	word = strings.ToLower(word)
	var files, folders []string
	for _, p := range paths {
		switch {
		case strings.HasPrefix(p, word):
		case hasPrefixFold(path.Base(p), word):
			files = append(files, p)
		case strings.Contains(strings.ToLower(p), "/"+word):
			folders = append(folders, p)
		}
	}
	return append(files, folders...)
}

func hasPrefixFold(text, word string) bool {
	return len(text) >= len(word) && strings.EqualFold(text[:len(word)], word)
}

// like are the files that word may mean, the likeliest first: those that begin with
// it, those with a part that does, and when there are none those that hold its
// letters in this order.
func like(paths []string, word string) []string {
	found := append(slices.Clone(below(paths, word)), elsewhere(paths, word)...)
	if len(found) == 0 {
		for _, m := range fuzzy.Find(word, paths) {
			found = append(found, m.Str)
		}
	}
	return found[:min(len(found), filesOffered)]
}

// pathWord is a path as it stands in a line, after mark: "@" for a mention, which
// knows only quotes around blanks, else nothing, for a shell or a command. A folder
// is not finished with a blank, nor its quote closed, so that one can go on.
func pathWord(mark, p string) string {
	special := " \t"
	if mark == "" {
		special += "\n\r\"'\\$`&;|<>(){}*?[]#~!"
		p = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(p)
	} else if strings.Contains(p, `"`) {
		special = ""
	}
	folder := strings.HasSuffix(p, "/")
	switch quoted := strings.ContainsAny(p, special); {
	case quoted && folder:
		return mark + `"` + p
	case quoted:
		return mark + `"` + p + `" `
	case folder:
		return mark + p
	}
	return mark + p + " "
}
