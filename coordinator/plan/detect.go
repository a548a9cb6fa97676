package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ralph/coordinator/plan/tree"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/text"
)

// The places where plans are looked for, in this order.
const (
	beadsDir     = ".beads"
	prdFile      = "prd.json"
	loopFile     = "RALPH-LOOP-PLAN.yaml"
	markdownFile = "RALPH_TASKS.md"
)

const noPlanHint = "make one with: ralph plan create; or name one with --plan FILE (RALPH_TASKS.md, prd.json, RALPH-LOOP-PLAN.yaml, .beads)"

func trackers() []string { return []string{"markdown", "json", "yaml", "beads", "beads-bv"} }

func detect(o Options) (tracker, path, why string, err error) {
	if o.Tracker != "" && !slices.Contains(trackers(), o.Tracker) {
		e := &Problems{Op: "open tracker " + fmt.Sprintf("%q", clip(o.Tracker)), Err: errors.New("there is none"), Hint: "the trackers are " + strings.Join(trackers(), ", ")}
		if guess := text.Closest(o.Tracker, trackers()); guess != "" {
			e.Hint = fmt.Sprintf("did you mean %q? ", guess) + e.Hint
		}
		return "", "", "", e
	}
	if o.Path != "" {
		return o.named()
	}
	if o.Tracker != "" {
		for _, name := range usual(o.Tracker) {
			p := o.place(name)
			if _, ok := p.look(); ok {
				return o.Tracker, p.rel, "--tracker " + o.Tracker, nil
			}
		}
		if strings.HasPrefix(o.Tracker, "beads") {
			return o.Tracker, beadsDir, "--tracker " + o.Tracker, nil // bd finds its own database
		}
		return "", "", "", &Problems{Op: "open plan", Path: usual(o.Tracker)[0], Err: missing{errors.New("there is no such file")}, Hint: noPlanHint}
	}
	var found []string
	for _, kind := range []string{"beads", "json", "yaml", "markdown"} {
		for _, name := range usual(kind) {
			p := o.place(name)
			info, ok := p.look()
			if !ok || kind == "beads" && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 {
				continue // a link is followed, or refused, where the data is located
			}
			if found = append(found, p.rel); tracker == "" {
				tracker, path = kind, p.rel
			}
		}
	}
	if tracker == "" {
		return "", "", "", &Problems{Op: "find plan", Err: ErrNoPlan, Hint: noPlanHint}
	}
	why = path + " is there"
	if len(found) > 1 {
		why += " (also here: " + strings.Join(found[1:], ", ") + "; choose with --plan)"
	}
	return tracker, path, why, nil
}

// usual are the names that a tracker's plan has when none is given.
func usual(tracker string) []string {
	switch tracker {
	case "beads", "beads-bv":
		return []string{beadsDir}
	case "json":
		return []string{prdFile}
	case "yaml":
		return []string{loopFile, "RALPH-LOOP-PLAN.yml", "RALPH-LOOP-PLAN.json"}
	}
	return []string{markdownFile}
}

// look says what stands at a place; a link is something too, which reading
// refuses.
func (p place) look() (fs.FileInfo, bool) {
	info, err := durable.Lstat(p.fs, p.abs)
	return info, err == nil
}

// named is the plan that the user named by its path.
func (o Options) named() (tracker, path, why string, err error) {
	p := o.place(o.Path)
	info, ok := p.look()
	if !ok {
		return "", "", "", p.fail("open plan", fs.ErrNotExist)
	}
	inBeads := filepath.Base(p.abs) == beadsDir || filepath.Base(filepath.Dir(p.abs)) == beadsDir
	if inBeads && o.Tracker == "" || strings.HasPrefix(o.Tracker, "beads") {
		tracker = "beads"
		if o.Tracker != "" {
			tracker = o.Tracker
		}
		if !info.IsDir() {
			p = o.place(filepath.Dir(p.abs))
		}
		return tracker, p.rel, "--plan " + o.Path, nil
	}
	if o.Tracker != "" {
		return o.Tracker, p.rel, "--tracker " + o.Tracker + " --plan " + o.Path, nil
	}
	kind, err := p.kind()
	if err != nil {
		return "", "", "", err
	}
	return kind, p.rel, "--plan " + o.Path, nil
}

// headBytes is how much of a file tells its form.
const headBytes = 256 << 10

// kind tells the form of a file by its content, and by its name where the
// content leaves it open.
func (p place) kind() (string, error) {
	if err := p.confined(); err != nil {
		return "", p.fail("open plan", err)
	}
	info, err := durable.Lstat(p.fs, p.abs)
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
		if info.Mode()&fs.ModeSymlink != 0 {
			err = durable.ErrSymlink
		}
	}
	if err != nil {
		return "", p.fail("open plan", err)
	}
	// What is put there after the look must neither lead elsewhere nor block.
	f, err := p.fs.OpenFile(p.abs, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", p.fail("open plan", err)
	}
	head, err := io.ReadAll(io.LimitReader(f, headBytes))
	_ = f.Close() // only read from
	if err != nil {
		return "", p.fail("open plan", err)
	}
	kind := kindOf(head, strings.ToLower(filepath.Base(p.abs)), info.Size() > headBytes)
	if kind == "" {
		return "", &Problems{Op: "open plan", Path: p.rel, Err: errors.New("this is neither Markdown, JSON nor YAML that looks like a plan"), Hint: "say what it is with --tracker markdown, json or yaml"}
	}
	return kind, nil
}

func kindOf(head []byte, name string, more bool) string {
	ext := filepath.Ext(name)
	isMarkdown := ext == ".md" || ext == ".markdown"
	isYAML := ext == ".yaml" || ext == ".yml"
	body := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(body) > 0 && (body[0] == '{' || body[0] == '[') {
		t, _ := tree.JSON(head)
		switch {
		case t != nil:
			return jsonKind(t.Root, name)
		case isMarkdown && !more:
			return "markdown" // it begins with a link or a box
		case isYAML || strings.Contains(name, "loop-plan") || loopWords(body):
			return "yaml"
		}
		return "json"
	}
	switch {
	case isMarkdown:
		return "markdown"
	case isYAML:
		return "yaml"
	case ext == ".json":
		return "json"
	}
	if t, faults := tree.YAML(head); t != nil && len(faults) == 0 && t.Root.Kind == tree.Map && (t.Root.Get("tasks") != nil || t.Root.Get("phases") != nil) {
		return "yaml"
	}
	if len(markdown.Parse(head).Tasks()) > 0 {
		return "markdown"
	}
	return ""
}

// jsonKind tells a loop plan in JSON from a prd.json.
func jsonKind(root *tree.Node, name string) string {
	if len(root.Pairs) == 1 && root.Pairs[0].Value.Kind == tree.Map && root.Get("prd") == nil {
		root = root.Pairs[0].Value
	}
	for _, key := range []string{"userStories", "user_stories", "stories", "features"} {
		if list := root.Get(key); list != nil && list.Kind == tree.List {
			return "json"
		}
	}
	for _, key := range []string{"phases", "quality_gates", "circuit_breaker", "decision_engine", "error_recovery", "milestones"} {
		if root.Get(key) != nil {
			return "yaml"
		}
	}
	if list := root.Get("tasks"); list != nil && len(list.Items) > 0 && list.Items[0].Get("task_id") != nil {
		return "yaml"
	}
	if strings.Contains(name, "loop-plan") {
		return "yaml"
	}
	return "json"
}

// loopWords looks for the keys of a loop plan where a text is cut or broken.
func loopWords(head []byte) bool {
	return bytes.Contains(head, []byte(`"task_id"`)) && !bytes.Contains(head, []byte(`"userStories"`))
}

func open(o Options) (Tracker, error) {
	tracker, path, _, err := detect(o)
	if err != nil {
		return nil, err
	}
	p := o.place(path)
	switch tracker {
	case "json":
		return &fileTracker{place: p, form: prdForm()}, nil
	case "yaml":
		return &fileTracker{place: p, form: loopForm()}, nil
	case "markdown":
		return openMarkdown(o, p), nil
	}
	o.Tracker, o.Path = tracker, path
	return openBeads(o, tracker)
}
