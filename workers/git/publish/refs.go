package publish

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const (
	maxRefBytes    = 4 << 10
	maxPackedBytes = 256 << 20
)

// refs are values by full name: an object id, or "ref: NAME".
type refs map[string]string

// refState is what a repository says of its refs.
type refState struct {
	Loose  refs
	Packed refs
	// PackedID is that of the file that Packed was read from.
	PackedID fileID
}

// value returns what a ref is, "" when it does not exist.
func (s refState) value(name string) string {
	if v, ok := s.Loose[name]; ok {
		return v
	}
	return s.Packed[name]
}

// all returns every ref with its value.
func (s refState) all() refs {
	out := maps.Clone(s.Packed)
	if out == nil {
		out = refs{}
	}
	maps.Copy(out, s.Loose)
	return out
}

// refReader reads refs and remembers files that did not change. It is safe for
// concurrent use.
type refReader struct {
	mu     sync.Mutex
	loose  map[string]cachedRef
	packed map[string]cachedPacked
}

type cachedRef struct {
	id    fileID
	value string
}

type cachedPacked struct {
	id   fileID
	refs refs
}

// read reads the refs below a common directory.
func (r *refReader) read(common string) (refState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := refState{Loose: refs{}}
	root := filepath.Join(common, "refs")
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(common, at) // at is below common
		name := filepath.ToSlash(rel)
		switch {
		case d.IsDir() || !d.Type().IsRegular() || strings.HasSuffix(name, ".lock"):
			return nil
		}
		value, err := r.readLoose(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted or packed meanwhile
		}
		s.Loose[name] = value
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("read refs of %q: %w", common, err)
	}
	// Packed refs are read after the loose ones: what git packs between is seen.
	s.Packed, s.PackedID, err = r.readPacked(filepath.Join(common, "packed-refs"))
	return s, err
}

func (r *refReader) readLoose(at string) (string, error) {
	id := idOf(at)
	if c, ok := r.loose[at]; ok && c.id == id {
		return c.value, nil
	}
	text, err := readFile(at, maxRefBytes)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(text))
	if r.loose == nil {
		r.loose = map[string]cachedRef{}
	}
	r.loose[at] = cachedRef{id, value}
	return value, nil
}

func (r *refReader) readPacked(at string) (refs, fileID, error) {
	id := idOf(at)
	if id == (fileID{}) {
		return nil, id, nil
	}
	if c, ok := r.packed[at]; ok && c.id == id {
		return c.refs, id, nil
	}
	text, err := readFile(at, maxPackedBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fileID{}, nil
	}
	if err != nil {
		return nil, id, fmt.Errorf("read packed refs: %w", err)
	}
	list := parsePacked(text)
	if r.packed == nil {
		r.packed = map[string]cachedPacked{}
	}
	r.packed[at] = cachedPacked{id, list}
	return list, id, nil
}

// parsePacked reads packed-refs; lines that are no refs are passed over.
func parsePacked(text []byte) refs {
	out := refs{}
	for line := range bytes.Lines(text) {
		value, name, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		if ok && isHex(value) && strings.HasPrefix(name, "refs/") {
			out[name] = value
		}
	}
	return out
}

// refsAfter returns the refs as the command left them, starting from those before
// it. gone reports a layer in which git would not see a repository any more.
func refsAfter(l layer, before refState) (after refs, gone bool) {
	loose := maps.Clone(before.Loose)
	if loose == nil {
		loose = refs{}
	}
	switch l.look("refs") {
	case removed, file, other:
		return nil, true
	case directory:
		overlayRefs(l.sub("refs"), "refs", loose)
	}
	packed := before.Packed
	switch l.look("packed-refs") {
	case removed, directory, other: // git never removes it
		return nil, true
	case file:
		text, err := l.read("packed-refs", maxPackedBytes)
		if err != nil || !bytes.HasPrefix(text, []byte("# pack-refs with:")) {
			return nil, true
		}
		packed = parsePacked(text)
	}
	return refState{Loose: loose, Packed: packed}.all(), false
}

func overlayRefs(l layer, at string, loose refs) {
	hide := func(name string) {
		maps.DeleteFunc(loose, func(n, _ string) bool { return n == name || strings.HasPrefix(n, name+"/") })
	}
	if opaque(l.upper) {
		hide(at)
	}
	for _, e := range l.entries() {
		name := path.Join(at, e.name)
		switch {
		case strings.HasSuffix(e.name, ".lock"):
		case e.kind == directory:
			delete(loose, name)
			overlayRefs(l.sub(e.name), name, loose)
		case e.kind == file:
			hide(name)
			text, err := l.read(e.name, maxRefBytes)
			if err != nil {
				text = []byte("unreadable")
			}
			loose[name] = strings.TrimSpace(string(text))
		default:
			hide(name)
		}
	}
}

// ownRef reports names that are not a command's to change: Ralph's own, and
// replacements of objects.
func ownRef(name string) bool {
	return strings.HasPrefix(name, "refs/ralph/") || strings.HasPrefix(name, "refs/replace/")
}

var hexes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`) })

func isHex(s string) bool { return hexes().MatchString(s) }

var (
	// refBad matches what git-check-ref-format(1) refuses.
	refBad = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\.\.|@\{|//|[\x00-\x20\x7f~^:?*\[\\]|/\.|\.lock/|\.lock$|\.$|/$|^\.`)
	})
	// refMisread matches names that git reads as something else: an option, HEAD and
	// its like by the rules of gitrevisions(7), an object id; and one level alone,
	// which is where the directories of refs are.
	refMisread = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^refs/(?:[^/]*$|[^/]+/-|(?:(?:heads|tags|remotes)/)?(?:[A-Z_]*HEAD|AUTO_MERGE|BISECT_EXPECTED_REV|NOTES_MERGE_(?:PARTIAL|REF)|@)(?:/HEAD)?$|(?:heads|tags)/(?:.*/)?(?:[0-9a-f]{40}|[0-9a-f]{64})$)`)
	})
)

// maxRefPart bounds a part of the name of a ref: git makes a file of it with an
// ending.
const maxRefPart = 250

// goodRef reports whether a name is one that git gives to a ref and reads as that,
// a terminal shows it, and a command may move it.
func goodRef(name string) bool {
	long := func(part string) bool { return len(part) > maxRefPart }
	obeyed := func(r rune) bool { return r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) }
	return strings.HasPrefix(name, "refs/") && len(name) < 1024 && !refBad().MatchString(name) && (name == stashRef || !refMisread().MatchString(name)) &&
		!slices.ContainsFunc(strings.Split(name, "/"), long) && !strings.ContainsFunc(name, obeyed) && !ownRef(name)
}

// dirs are the directories that the names of refs make.
func (r refs) dirs() map[string]bool {
	dirs := map[string]bool{}
	for name := range r {
		for dir := path.Dir(name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// inTheWay returns the refs that keep git from making another one, which would be
// a directory of theirs or below them. dirs are those of r.
func (r refs) inTheWay(name string, dirs map[string]bool) (list []string) {
	for dir := path.Dir(name); dir != "refs" && dir != "."; dir = path.Dir(dir) {
		if r[dir] != "" {
			list = append(list, dir)
		}
	}
	if !dirs[name] {
		return list
	}
	for other := range r {
		if strings.HasPrefix(other, name+"/") {
			list = append(list, other)
		}
	}
	return list
}

// claim is a change of one ref that a command made. An old or new value of ""
// says that there was or is none.
type claim struct{ name, old, new string }

// claims compares the refs before and after a command. What git would not have
// written is in odd.
func claims(before refState, after refs) (out []claim, symbolic []claim, odd []string) {
	was := before.all()
	names := unique(slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(after))))
	for _, name := range names {
		old, now := was[name], after[name]
		switch {
		case old == now:
		case !goodRef(name):
			odd = append(odd, name)
		case strings.HasPrefix(now, "ref: ") || now == "" && strings.HasPrefix(old, "ref: "):
			if !remoteHead(name, now) {
				odd = append(odd, name)
				continue
			}
			symbolic = append(symbolic, claim{name, old, now})
		case now != "" && !isHex(now), strings.HasPrefix(old, "ref: "):
			odd = append(odd, name)
		case old != "" && !isHex(old):
			out = append(out, claim{name, "", now}) // it was broken before: git has no value to demand
		default:
			out = append(out, claim{name, old, now})
		}
	}
	return out, symbolic, odd
}

// remoteHead reports the one symbolic ref besides HEAD that git makes by itself.
func remoteHead(name, value string) bool {
	target := strings.TrimPrefix(value, "ref: ")
	dir, base := path.Split(name)
	return strings.HasPrefix(name, "refs/remotes/") && base == "HEAD" && (value == "" || strings.HasPrefix(target, dir) && goodRef(target))
}

// parseHead reads HEAD: a branch by its full name, or a commit.
func parseHead(text []byte) (branch, commit string, ok bool) {
	s := strings.TrimSpace(string(text))
	if name, symbolic := strings.CutPrefix(s, "ref: "); symbolic {
		return name, "", strings.HasPrefix(name, "refs/heads/") && goodRef(name)
	}
	return "", s, isHex(s)
}

// logLine is one record of a reflog.
type logLine struct{ old, new, who, message string }

var logShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^<>\x00-\x1f]*<[^<>\x00-\x1f]*> \d{1,12} [+-]\d{4})(?:\t(.*))?$`)
})

// parseLog reads a reflog; ok is false when a line is none of git's.
func parseLog(text []byte) (out []logLine, ok bool) {
	for line := range bytes.Lines(text) {
		m := logShape().FindStringSubmatch(strings.TrimSuffix(string(line), "\n"))
		if m == nil {
			return nil, false
		}
		out = append(out, logLine{m[1], m[2], m[3], printable(m[4])})
	}
	return out, true
}

func (l logLine) String() string { return l.old + " " + l.new + " " + l.who + "\t" + l.message + "\n" }

// printable makes a message one line that a terminal shows as it is.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return s[:min(len(s), 500)]
}

// readLog reads a reflog of the repository; none for one that is missing or
// damaged.
func readLog(path string) []logLine {
	text, err := readFile(path, maxStateBytes)
	if err != nil {
		return nil
	}
	list, _ := parseLog(text)
	return list
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
