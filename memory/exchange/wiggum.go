package exchange

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ralph/memory/feature"
	"ralph/memory/session/folder"
)

// loop is what the files of wiggum's loop say.
type loop struct {
	status, final  []string // iteration | of | when | word, the word only in final
	phases         []feature.Phase
	tokens         feature.Tokens
	baseline       string
	branch         string
	done, total    int
	hasTasks       bool
	iteration, max int
	word           string
	updated        time.Time
	odd            []string
}

func (l *loop) say(file, format string, args ...any) {
	l.odd = append(l.odd, file+": "+fmt.Sprintf(format, args...))
}

var hexHash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`) })

// readLoop reads the files of a feature's loop.
func readLoop(feature string, files map[string][]byte) (*loop, error) {
	l := &loop{}
	text := func(ext string) string {
		data := files["ralph-loop-"+feature+"."+ext]
		if !utf8.Valid(data) {
			l.say("."+ext, "is not UTF-8")
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	l.status, l.final = fields(text("status")), fields(text("final"))
	if l.status == nil && l.final == nil && text("phases") == "" && text("tokens") == "" {
		return nil, errors.New("none of .status, .final, .phases and .tokens says anything")
	}
	for _, f := range []struct {
		ext   string
		parts []string
	}{{".status", l.status}, {".final", l.final}} {
		l.counters(f.ext, f.parts)
	}
	l.readPhases(text("phases"))
	l.readTokens(fields(text("tokens")))
	if l.baseline = text("baseline"); l.baseline != "" && !hexHash().MatchString(l.baseline) {
		l.say(".baseline", "%q is no commit", clipped(l.baseline))
	}
	if summary := files["ralph-loop-"+feature+".summary.json"]; summary != nil {
		l.readSummary(summary)
	}
	l.contradictions()
	return l, nil
}

func fields(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "|")
}

func clipped(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// counters reads iteration | of | when | word.
func (l *loop) counters(ext string, parts []string) {
	if parts == nil {
		return
	}
	if len(parts) < 2 {
		l.say(ext, "has %d of its fields", len(parts))
		return
	}
	it, err := strconv.Atoi(strings.TrimSpace(parts[0]))
	most, err2 := strconv.Atoi(strings.TrimSpace(parts[1]))
	if err != nil || err2 != nil {
		l.say(ext, "%q is no count of iterations", clipped(strings.Join(parts[:2], "|")))
	}
	l.iteration, l.max = max(l.iteration, it), max(l.max, most)
	if len(parts) > 2 {
		if t := epoch(parts[2]); t.After(l.updated) {
			l.updated = t
		}
	}
	if ext == ".final" {
		l.word = "done"
		if len(parts) > 3 {
			l.word = strings.TrimSpace(parts[3])
		}
	}
}

func epoch(text string) time.Time {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// readPhases reads lines of id | status | begin | end.
func (l *loop) readPhases(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		parts := fields(strings.TrimSpace(line))
		if parts == nil {
			continue
		}
		if len(parts) < 2 || parts[0] == "" {
			l.say(".phases", "%q is no phase", clipped(line))
			continue
		}
		p := feature.Phase{ID: parts[0], Status: phaseWord(parts[1])}
		if p.Status == "" {
			l.say(".phases", "%s: unknown status %q", p.ID, clipped(parts[1]))
			p.Status = parts[1]
		}
		for i, to := range []**time.Time{&p.StartedAt, &p.EndedAt} {
			if len(parts) > 2+i {
				if t := epoch(parts[2+i]); !t.IsZero() {
					*to = &t
				}
			}
		}
		if slices.ContainsFunc(l.phases, func(o feature.Phase) bool { return o.ID == p.ID }) {
			l.say(".phases", "%s stands there more than once", p.ID)
		}
		if p.StartedAt != nil && p.EndedAt != nil && p.EndedAt.Before(*p.StartedAt) {
			l.say(".phases", "%s ends before it begins", p.ID)
		}
		l.phases = append(l.phases, p)
	}
}

func phaseWord(w string) string {
	switch w {
	case "started":
		return "running"
	case "success":
		return "completed"
	case "failed", "skipped":
		return w
	}
	return ""
}

// readTokens reads input | output | cache written | cache read | when; the last
// three may be missing.
func (l *loop) readTokens(parts []string) {
	if parts == nil {
		return
	}
	if len(parts) < 2 {
		l.say(".tokens", "has %d of its fields", len(parts))
		return
	}
	var n [4]int64
	for i := range min(len(parts), 4) {
		v, err := strconv.ParseInt(strings.TrimSpace(parts[i]), 10, 64)
		if err != nil || v < 0 {
			l.say(".tokens", "%q is no count", clipped(parts[i]))
		}
		n[i] = max(v, 0)
	}
	// The loop counts what was read from and written to the cache apart.
	l.tokens = feature.Tokens{Input: n[0] + n[2] + n[3], Output: n[1], CachedInput: n[3]}
	if len(parts) > 4 {
		if t := epoch(parts[4]); t.After(l.updated) {
			l.updated = t
		}
	}
}

// readSummary takes from the summary what the other files do not say.
func (l *loop) readSummary(data []byte) {
	var s struct {
		Iterations *int
		Branch     string
		ExitCode   *int
		TasksDone  *int
		TasksTotal *int
		Tasks      *struct{ Completed, Total int }
	}
	if err := readJSON(data, &s); err != nil {
		l.say(".summary.json", "%v", err)
		return
	}
	l.branch = s.Branch
	switch {
	case s.Tasks != nil:
		l.hasTasks, l.done, l.total = true, s.Tasks.Completed, s.Tasks.Total
	case s.TasksDone != nil && s.TasksTotal != nil:
		l.hasTasks, l.done, l.total = true, *s.TasksDone, *s.TasksTotal
	}
	if s.Tasks != nil && s.TasksDone != nil && (*s.TasksDone != s.Tasks.Completed || s.TasksTotal != nil && *s.TasksTotal != s.Tasks.Total) {
		l.say(".summary.json", "tasks is %d of %d, but tasksDone and tasksTotal differ", s.Tasks.Completed, s.Tasks.Total)
	}
	if s.Iterations != nil && l.final != nil && *s.Iterations != l.iteration {
		l.say(".summary.json", "iterations is %d, but .status and .final say %d", *s.Iterations, l.iteration)
	}
	if s.ExitCode != nil && l.final != nil && (*s.ExitCode == 0) == l.failed() {
		l.say(".summary.json", "exitCode is %d, but .final says %q", *s.ExitCode, clipped(l.word))
	}
}

func (l *loop) contradictions() {
	if len(l.status) > 1 && len(l.final) > 1 && (l.status[0] != l.final[0] || l.status[1] != l.final[1]) {
		l.say(".status", "says %s|%s, but .final says %s|%s", clipped(l.status[0]), clipped(l.status[1]), clipped(l.final[0]), clipped(l.final[1]))
	}
	if l.max > 0 && l.iteration > l.max {
		l.say(".status", "iteration %d of %d", l.iteration, l.max)
	}
	if l.final == nil && l.status != nil {
		l.say(".status", "there is no .final: the loop was cut off or still runs elsewhere; it is imported as interrupted")
	}
	for _, p := range l.phases {
		switch {
		case p.Status == "running" && l.final != nil:
			l.say(".phases", "%s is still started, but .final says %q", p.ID, clipped(l.word))
		case p.Status == "failed" && l.runWord() == "completed":
			l.say(".phases", "%s failed, but .final says %q", p.ID, clipped(l.word))
		}
	}
	if l.final != nil && l.word != "done" && l.word != "already_complete" && !l.failed() {
		l.say(".final", "unknown word %q; it is imported as interrupted", clipped(l.word))
	}
}

// runWord is the status of the run.
func (l *loop) runWord() string {
	switch {
	case l.final == nil:
		return "interrupted"
	case l.word == "done" || l.word == "already_complete":
		return "completed"
	case l.failed():
		return "failed"
	}
	return "interrupted"
}

// failed reports whether the loop gave up: at its work, or at the review of it.
func (l *loop) failed() bool { return l.word == "failed" || l.word == "review_failed" }

func (s *Source) convertWiggum(name string) error {
	l, err := readLoop(name, s.files)
	if err != nil {
		return err
	}
	s.conv.loop = l
	snap := feature.Snapshot{Version: 1, Status: feature.Status(l.runWord()), Phases: some(l.phases), Iteration: l.iteration, MaxIterations: l.max, Tasks: feature.Count{Completed: l.done, Total: l.total},
		ActiveTaskIDs: []string{}, SkippedTaskIDs: []string{}, Iterations: []feature.Iteration{}, Tokens: l.tokens,
		Git:     feature.Git{Baseline: l.baseline, Branch: l.branch, Dirty: []string{}},
		Agent:   feature.Agent{Plugin: "ralph"}, // the files do not name the program that worked; Ralph's own goes on
		Tracker: feature.Tracker{Plugin: "markdown", EpicIDs: []string{}, TotalTasks: l.total, Tasks: []feature.Task{}}, UpdatedAt: l.updated}
	var events []folder.Event
	for _, p := range l.phases {
		if p.StartedAt != nil {
			if snap.StartedAt.IsZero() || p.StartedAt.Before(snap.StartedAt) {
				snap.StartedAt = *p.StartedAt
			}
			events = append(events, folder.Event{Time: *p.StartedAt, Type: folder.PhaseStart, Details: map[string]any{"phase": p.ID}})
		}
		if p.EndedAt != nil {
			e := folder.Event{Time: *p.EndedAt, Type: folder.PhaseComplete, Result: p.Status, Details: map[string]any{"phase": p.ID}}
			if p.StartedAt != nil {
				e.Duration = max(p.EndedAt.Sub(*p.StartedAt), 0)
			}
			events = append(events, e)
			if p.EndedAt.After(snap.UpdatedAt) {
				snap.UpdatedAt = *p.EndedAt
			}
		}
		snap.Phase = p.ID
	}
	if snap.StartedAt.IsZero() {
		snap.StartedAt = snap.UpdatedAt
	}
	if snap.Status != "interrupted" {
		snap.EndedAt = &snap.UpdatedAt
	}
	progress := folder.Progress{LastUpdated: snap.UpdatedAt}
	progress.Progress.CurrentPhase, progress.Progress.PhaseName = phaseNumber(snap), snap.Phase
	if l.total > 0 {
		progress.Progress.OverallProgress = float64(100*l.done) / float64(l.total)
	}
	s.conv.build = func(id string) (map[string][]byte, error) { return documents(id, events, progress, nil) }
	s.conv.snapshot, s.conv.differences = &snap, l.odd
	s.conv.meta, err = runMetadata(name, snap, 0)
	return err
}
