package repl

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/memory/text"
	"ralph/repl/pick"
)

// choice is which plan to work, and how much of it. The zero choice is whatever
// the project has.
type choice struct {
	plan, tracker string
	epics         []string
}

// into lets a choice hold where the user of /run named nothing else. The epics of
// one plan are not those of another, and a run that goes on has its own.
func (c choice) into(s *loop.Settings) {
	if s.Continue || s.Plan != "" || s.Tracker != "" {
		return
	}
	s.Plan, s.Tracker = c.plan, c.tracker
	if len(s.Epics) == 0 {
		s.Epics = slices.Clone(c.epics)
	}
}

func (c choice) String() string {
	text := c.plan
	switch {
	case text == "" && c.tracker == "":
		text = "the same plan"
	case text == "":
		text = c.tracker
	case c.tracker != "":
		text += " (" + c.tracker + ")"
	}
	if len(c.epics) == 0 {
		return text + ", all of it"
	}
	return text + ", " + strings.Join(c.epics, ", ")
}

const (
	// shownPlans bounds the plans to pick from.
	shownPlans = 50
	// allEpics is the word for no choice of epics.
	allEpics = "all"
)

// offer is what can be switched to.
type offer struct {
	items []pick.Item
	to    map[string]choice // by the item's value
	epics []string
}

// switchPlan does /plan switch.
func (s *Shell) switchPlan(words string) {
	if s.mind.Plans == nil {
		s.fail("this chat knows no plan", "`ralph run --plan FILE` works one")
		return
	}
	names, now, running := strings.Fields(words), s.inUse(), underWay(s.standing) != nil
	if len(names) > 0 {
		s.aside(func(ctx context.Context) func() { return s.switchTo(ctx, now, running, names, nil) })
		return
	}
	s.offering("plans", func(ctx context.Context, pickOne picker) func() { return s.switchTo(ctx, now, running, nil, pickOne) })
}

// switchTo switches to what is named, or picked when nothing is.
func (s *Shell) switchTo(ctx context.Context, now loop.Settings, running bool, names []string, pickOne picker) func() {
	p, err := s.mind.Plans.Plan(ctx, now)
	if err != nil {
		p = nil // there may be none yet, and a broken one is left by switching
	}
	o := s.offers(p)
	var c choice
	if len(names) == 0 {
		name, err := pickOne("plan or epic", o.items)
		if err != nil {
			return func() { s.notSwitched(err) }
		}
		c = o.to[name]
	} else {
		c, err = o.resolve(s.mind.About.Project().Root, names)
		if err != nil {
			return func() { s.fail(err.Error(), "/plan switch alone lets you pick") }
		}
	}
	if c.plan == "" && c.tracker == "" {
		c.plan, c.tracker = now.Plan, now.Tracker
		if p != nil {
			c.plan, c.tracker = p.Path, p.Tracker
		}
	}
	if running {
		err = s.mind.Plans.Replan(c.settings())
	} else if p, err = s.mind.Plans.Plan(ctx, c.settings()); err == nil && len(c.epics) > 0 {
		_, err = p.Within(c.epics)
	}
	if err != nil {
		return func() { s.explain(err) }
	}
	return func() {
		s.course.chosen = c
		if running {
			s.note("the run goes on with " + c.String() + ", at its next boundary")
			return
		}
		s.knowsTasks(p)
		s.note("the plan is " + c.String() + "; /plan shows it, /run works it")
	}
}

// inUse is the plan that commands are about: that of the run that is under way,
// else the one that was chosen.
func (s *Shell) inUse() loop.Settings {
	if v := underWay(s.standing); v != nil {
		return loop.Settings{Plan: v.Plan, Tracker: v.Tracker, Epics: v.Epics}
	}
	return s.course.chosen.settings()
}

func (c choice) settings() loop.Settings {
	return loop.Settings{Plan: c.plan, Tracker: c.tracker, Epics: slices.Clone(c.epics)}
}

// choose runs something that waits for the user while work goes on; a stop of the
// work ends it, and so does the next choice.
func (s *Shell) choose(f func(context.Context) func()) {
	if s.unchoose != nil {
		s.unchoose()
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.unchoose = cancel
	s.letChoose(ctx, cancel, f)
}

// letChoose does f beside the loop, until cancel is called, and on it what f returns.
func (s *Shell) letChoose(ctx context.Context, cancel context.CancelFunc, f func(context.Context) func()) {
	s.wg.Add(1)
	s.choices.Add(1)
	go func() {
		defer s.wg.Done()
		defer s.choices.Done()
		defer cancel()
		if after := s.guarded(ctx, f); after != nil {
			s.post(after)
		}
	}()
}

func (s *Shell) notSwitched(err error) {
	if cancelled(err) {
		s.note("the plan stays as it is")
		return
	}
	s.explain(err)
}

// offers are the plans of the project and the epics of the one in use.
func (s *Shell) offers(p *plan.Plan) offer {
	o := offer{to: map[string]choice{}}
	for _, c := range sources(s.mind.About.Project().Root) {
		value, detail := c.plan, c.tracker
		if value == "" {
			value, detail = c.tracker, ""
		}
		if p != nil && (c.plan == p.Path && c.plan != "" || c.plan == "" && c.tracker == p.Tracker) {
			detail = strings.TrimPrefix(detail+", in use", ", ")
		}
		o.add(value, detail, c)
	}
	if p == nil {
		return o
	}
	for _, e := range epics(p) {
		o.epics = append(o.epics, e.id)
		o.add(e.id, "epic: "+e.about, choice{epics: []string{e.id}})
	}
	if len(o.epics) > 0 {
		o.add(allEpics, "all epics of "+p.Path, choice{})
	}
	return o
}

func (o *offer) add(value, detail string, c choice) {
	if _, there := o.to[value]; there {
		return
	}
	o.items = append(o.items, pick.Item{Value: value, Detail: detail})
	o.to[value] = c
}

// resolve finds what words name: at most one plan, by its file or its tracker, and
// epics. The epics of a plan that is not loaded are judged when it is.
func (o offer) resolve(root string, words []string) (choice, error) {
	var c choice
	named, all := false, false
	for _, w := range words {
		known, offered := o.to[w]
		switch {
		case offered && len(known.epics) > 0:
			c.epics = append(c.epics, w)
		case w == allEpics:
			all = true
		case offered || isTracker(w) || isFile(root, w):
			if named {
				return c, fmt.Errorf("%q is a second plan: one is worked at a time", w)
			}
			named = true
			if !offered {
				known = choiceOf(root, w)
			}
			c.plan, c.tracker = known.plan, known.tracker
		case named:
			c.epics = append(c.epics, w)
		default:
			var values []string
			for _, it := range o.items {
				values = append(values, it.Value)
			}
			if word := text.Closest(w, values); word != "" {
				return c, fmt.Errorf("there is no plan and no epic %q; did you mean %s?", w, word)
			}
			return c, fmt.Errorf("there is no plan and no epic %q", w)
		}
	}
	if all && len(c.epics) > 0 {
		return c, fmt.Errorf("%q and single epics exclude each other", allEpics)
	}
	return c, nil
}

func isTracker(word string) bool {
	return slices.Contains([]string{"markdown", "json", "yaml", "beads", "beads-bv"}, word)
}

func isFile(root, path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	_, err := os.Stat(path)
	return err == nil
}

// choiceOf is the choice of a plan that was named and is not offered.
func choiceOf(root, word string) choice {
	if isTracker(word) && !isFile(root, word) {
		return choice{tracker: word}
	}
	return choice{plan: word}
}

// epic is a group of tasks of a plan.
type epic struct{ id, about string }

// epics are the groups of a plan, in its order.
func epics(p *plan.Plan) []epic {
	var list []epic
	open, all := map[string]int{}, map[string]int{}
	add := func(id, title string) {
		i := slices.IndexFunc(list, func(e epic) bool { return e.id == id })
		if i < 0 {
			list = append(list, epic{id, title})
		} else if title != "" {
			list[i].about = title
		}
	}
	for _, t := range p.Tasks {
		if t.Kind == kindEpic {
			add(t.ID, t.Title)
			continue
		}
		if t.Epic != "" {
			add(t.Epic, "")
			all[t.Epic]++
			if t.Status.Open() {
				open[t.Epic]++
			}
		}
	}
	for i, e := range list {
		list[i].about = strings.TrimPrefix(fmt.Sprintf("%s, %d of %d open", e.about, open[e.id], all[e.id]), ", ")
	}
	return list
}

// sources are the plans that a project's root holds, by their names and what is in
// them. A file that is no plan is left out.
func sources(root string) []choice {
	var found []choice
	for _, dir := range []string{".", "plans", "tasks"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if len(found) == shownPlans {
				return found
			}
			if dir == "." && e.IsDir() && e.Name() == ".beads" {
				found = append(found, choice{tracker: "beads"}, choice{tracker: "beads-bv"})
			}
			if e.Type() != fs.FileMode(0) || !promising(dir, e.Name()) {
				continue // no directory, no pipe, no link
			}
			path := filepath.Join(dir, e.Name())
			if tracker, _, _, err := plan.Detect(plan.Options{Root: root, Path: path}); err == nil {
				found = append(found, choice{plan: path, tracker: tracker})
			}
		}
	}
	return found
}

// promising says that a file's name may be a plan's.
func promising(dir, name string) bool {
	name = strings.ToLower(name)
	switch filepath.Ext(name) {
	case ".json", ".yaml", ".yml":
		return dir != "." || strings.Contains(name, "prd") || strings.Contains(name, "plan") || strings.Contains(name, "tasks")
	}
	return name == "ralph_tasks.md"
}
