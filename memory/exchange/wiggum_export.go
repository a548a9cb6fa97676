package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/feature"
)

// exportWiggum gives a session as the files of wiggum's loop. What was imported
// from there comes back as it was; of one that went on here the counters, the
// phases, the tokens and those fields of the summary are changed that say so.
func exportWiggum(v *view) (map[string][]byte, error) {
	x := &loopExport{view: v, out: map[string][]byte{}, name: v.feature(), was: &loop{}}
	originals := v.originals(Wiggum)
	for name, data := range originals {
		if m := loopFile().FindStringSubmatch(name); m != nil {
			x.name = m[1]
		}
		x.out[name] = data
	}
	if originals != nil {
		if v.unchanged() {
			return x.out, nil
		}
		src := &Source{files: originals, Format: Wiggum}
		if err := src.convertWiggum(x.name); err != nil {
			return nil, err
		}
		x.was, x.base = src.conv.loop, src.conv.snapshot
	}
	x.counters()
	x.phases()
	x.tokens()
	if s := v.snapshot; s != nil && s.Git.Baseline != "" && x.out[x.file("baseline")] == nil {
		x.out[x.file("baseline")] = []byte(s.Git.Baseline + "\n")
	}
	v.leftOut(Wiggum)
	return x.out, x.summary()
}

// loopExport is an export in the making.
type loopExport struct {
	*view
	out  map[string][]byte
	name string
	was  *loop             // as it came; empty when it did not come from there
	base *feature.Snapshot // what Import made of that; nil then too
	iter int
	most int
}

func (x *loopExport) file(ext string) string { return "ralph-loop-" + x.name + "." + ext }

func (x *loopExport) at() string { return strconv.FormatInt(max(x.session.Ended().Unix(), 0), 10) }

// counters writes how far the loop is: .final when it is over, else .status.
func (x *loopExport) counters() {
	if x.iter, x.most = x.was.iteration, x.was.max; x.snapshot != nil {
		x.iter, x.most = x.snapshot.Iteration, x.snapshot.MaxIterations
	}
	count := fmt.Sprintf("%d|%d|%s", x.iter, x.most, x.at())
	word := ""
	switch x.runStatus() {
	case "completed":
		word = "done"
	case "failed":
		if word = "failed"; x.was.failed() {
			word = x.was.word
		}
	default:
		x.out[x.file("status")] = []byte(count + "\n")
		delete(x.out, x.file("final"))
		if x.runStatus() == "paused" {
			x.notes = append(x.notes, "wiggum knows no pause: it goes as a loop that was cut off")
		}
		return
	}
	x.out[x.file("final")] = []byte(count + "|" + word + "\n")
	delete(x.out, x.file("status"))
}

// phases changes the lines of the phases that went on here and adds new ones.
func (x *loopExport) phases() {
	if x.snapshot == nil {
		return
	}
	before := map[string]feature.Phase{}
	if x.base != nil {
		for _, p := range x.base.Phases {
			before[p.ID] = p
		}
	}
	lines := slices.Collect(strings.Lines(string(x.out[x.file("phases")])))
	for _, p := range x.snapshot.Phases {
		if p.Status == "pending" && p.StartedAt == nil {
			continue // wiggum writes a phase down when it begins
		}
		if was, ok := before[p.ID]; ok && was.Status == p.Status && sameTime(was.StartedAt, p.StartedAt) && sameTime(was.EndedAt, p.EndedAt) {
			continue
		}
		line := fmt.Sprintf("%s|%s|%s|%s\n", phaseID(p.ID), loopWord(p.Status), second(p.StartedAt), second(p.EndedAt))
		at := -1
		for i, l := range lines {
			if id, _, _ := strings.Cut(strings.TrimSpace(l), "|"); id == p.ID {
				at = i
			}
		}
		if at >= 0 {
			lines[at] = line
			continue
		}
		if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
			lines[n-1] += "\n"
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		x.out[x.file("phases")] = []byte(strings.Join(lines, ""))
	}
}

// phaseID keeps a name from being read as several fields or lines.
func phaseID(id string) string {
	return strings.NewReplacer("|", "/", "\n", " ", "\r", " ").Replace(id)
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// tokens adds what was spent here to what was spent there.
func (x *loopExport) tokens() {
	input, output, cached := x.spent.Input, x.spent.Output, x.spent.CachedInput
	if s := x.snapshot; s != nil && s.Tokens != (feature.Tokens{}) {
		input, output, cached = s.Tokens.Input, s.Tokens.Output, s.Tokens.CachedInput
		if x.base != nil {
			input, output, cached = input-x.base.Tokens.Input, output-x.base.Tokens.Output, cached-x.base.Tokens.CachedInput
		}
	}
	original := x.out[x.file("tokens")]
	if original != nil && input <= 0 && output <= 0 && cached <= 0 {
		return
	}
	var n [4]int64 // input, output, written to the cache, read from it
	parts := fields(strings.TrimSpace(string(original)))
	for i := range min(len(parts), 4) {
		v, err := strconv.ParseInt(strings.TrimSpace(parts[i]), 10, 64)
		if err == nil {
			n[i] = v
		}
	}
	x.out[x.file("tokens")] = fmt.Appendf(nil, "%d|%d|%d|%d|%s\n", n[0]+max(input-cached, 0), n[1]+max(output, 0), n[2], n[3]+max(cached, 0), x.at())
}

// summary changes what of the summary went on, and keeps the rest.
func (x *loopExport) summary() error {
	name := x.file("summary.json")
	original := x.out[name]
	top := pairs{}
	if original != nil {
		var err error
		if top, err = readPairs(original); err != nil {
			x.notes = append(x.notes, fmt.Sprintf("%s %v: it goes as it is", name, err))
			return nil
		}
	} else {
		top.set("feature", x.name)
	}
	set := func(key string, n int) {
		if was, ok := numberIn(top.get(key)); !ok || was != n {
			top.set(key, n)
		}
	}
	set("iterations", x.iter)
	if x.most > 0 || top.at("maxIterations") >= 0 {
		set("maxIterations", x.most)
	}
	set("tasksDone", x.session.Done)
	set("tasksTotal", x.session.Total)
	tasks, err := readPairs(top.get("tasks"))
	if err != nil {
		tasks = pairs{}
	}
	tasks.set("completed", x.session.Done)
	tasks.set("total", x.session.Total)
	if original == nil || top.at("tasks") >= 0 {
		top.set("tasks", tasks)
	}
	switch status := x.runStatus(); {
	case status == "completed":
		set("exitCode", 0)
	case status == "failed":
		if n, ok := numberIn(top.get("exitCode")); !ok || n == 0 {
			set("exitCode", 1)
		}
	}
	if s := x.snapshot; s != nil && s.Git.Branch != "" && top.text("branch") != s.Git.Branch {
		top.set("branch", s.Git.Branch)
	}
	data, err := indented(top)
	if err == nil && !bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(original)) {
		x.out[name] = data
	}
	return err
}

func loopWord(status string) string {
	switch status {
	case "in_progress", "running", "paused", "interrupted":
		return "started"
	case "completed":
		return "success"
	case "cancelled":
		return "failed"
	}
	return status
}

func second(t *time.Time) string {
	if t == nil {
		return ""
	}
	return strconv.FormatInt(t.Unix(), 10)
}
