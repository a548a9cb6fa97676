package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan"
	"ralph/interrupts"
	"ralph/repl/pick"
	"ralph/repl/render"
)

// lookUp bounds how long words for a completion are looked for.
const lookUp = 10 * time.Second

// option is something to choose: item is how it is shown, text what is put into the
// line for it.
type option struct {
	item pick.Item
	text string
}

// picker lets the user pick one of many.
type picker func(title string, items []pick.Item) (string, error)

// pickOne lets the user pick one, one choice at a time. With menuOnly nothing is
// asked where there is no menu: the list is shown, and nothing is chosen.
func (s *Shell) pickOne(ctx context.Context, title, query string, items []pick.Item, menuOnly bool) (string, error) {
	s.picking.Lock()
	defer s.picking.Unlock()
	p := s.picker
	if menuOnly {
		before := p.Answer
		p.Answer = func(context.Context, string) (string, error) {
			s.note("no room for a menu here: nothing was chosen")
			return "", pick.ErrCancelled
		}
		defer func() { p.Answer = before }()
	}
	return p.PickFrom(ctx, title, query, items)
}

// listOne is pickOne without a menu: Ctrl-C belongs to the work that goes on.
func (s *Shell) listOne(ctx context.Context, title string, items []pick.Item) (string, error) {
	return s.newLister().Pick(ctx, title, items)
}

// offering lets the user choose in f: with a menu, which takes the terminal and the
// keys, when nothing runs, else from a list beside the work.
func (s *Shell) offering(label string, f func(ctx context.Context, pickOne picker) func()) {
	if s.running() == nil {
		s.start(label, false, func(ctx context.Context) func() {
			return f(ctx, func(title string, items []pick.Item) (string, error) { return s.pickOne(ctx, title, "", items, false) })
		})
		return
	}
	s.choose(func(ctx context.Context) func() {
		return f(ctx, func(title string, items []pick.Item) (string, error) { return s.listOne(ctx, title, items) })
	})
}

// onComplete completes the line from what is not at hand: one that fits is put in,
// of several the user picks one. A line that changed meanwhile stays as it is.
func (s *Shell) onComplete(text string) {
	if s.uncomplete != nil {
		s.uncomplete()
	}
	if !s.ready || s.leaving {
		return
	}
	sp := s.spot(text)
	look := s.lookFor(sp)
	ctx, cancel := context.WithCancel(s.ctx)
	s.uncomplete = cancel
	s.letChoose(ctx, cancel, func(ctx context.Context) func() { return s.completed(ctx, text, sp, look) })
}

// completed works beside the loop.
func (s *Shell) completed(ctx context.Context, text string, sp spot, look func(context.Context) ([]option, error)) func() {
	was, known := s.lineNow(ctx)
	soon, cancel := context.WithTimeout(ctx, lookUp)
	found, err := look(soon)
	cancel()
	if err != nil {
		return func() { s.note("nothing to complete with: " + render.Brief(err.Error())) }
	}
	switch common := commonText(found, sp.typed); {
	case len(found) == 0:
		return func() { s.note(fmt.Sprintf("no %s fits %s", orWord(sp.more), render.Brief(sp.typed))) }
	case len(found) == 1:
		s.reader.Replace(text, sp.from, found[0].text)
		return nil
	case len(common) > len(sp.typed):
		s.reader.Replace(text, sp.from, common)
		return nil
	}
	if is, still := s.lineNow(ctx); !known || !still || is != was {
		return nil // the user went on typing
	}
	items := make([]pick.Item, len(found))
	for i, o := range found {
		items[i] = o.item
	}
	value, err := s.pickOne(ctx, orWord(sp.more), "", items, true)
	if err != nil {
		return nil // the line stays as it is
	}
	if i := slices.IndexFunc(found, func(o option) bool { return o.item.Value == value }); i >= 0 {
		s.reader.Replace(text, sp.from, found[i].text)
	}
	return nil
}

func orWord(from source) string {
	if from == fromNowhere {
		return "word"
	}
	return string(from)
}

// commonText is what all options begin with, "" when one does not even begin with
// what is typed.
func commonText(found []option, typed string) string {
	if len(found) == 0 {
		return ""
	}
	common := found[0].text
	for _, o := range found {
		for !strings.HasPrefix(o.text, common) {
			r := []rune(common)
			common = string(r[:len(r)-1])
		}
	}
	if !strings.HasPrefix(common, typed) {
		return ""
	}
	return common
}

// lookFor returns what finds the words of a spot. It is called on the loop; what it
// returns works beside it.
func (s *Shell) lookFor(sp spot) func(context.Context) ([]option, error) {
	var known []option
	for _, w := range sp.matching() {
		known = append(known, option{item: pick.Item{Value: strings.TrimSpace(w.Text), Detail: w.Detail}, text: w.Text})
	}
	var more func(context.Context) ([]option, error)
	switch {
	case sp.more == fromFiles && s.mind.Hands != nil:
		return s.lookForFiles(sp, known)
	case sp.more == fromSessions && s.mind.State != nil:
		more = s.sessionOptions
	case sp.more == fromTasks && s.mind.Plans != nil:
		now := s.inUse()
		more = func(ctx context.Context) ([]option, error) {
			p, err := s.mind.Plans.Plan(ctx, now)
			if err != nil {
				return nil, err
			}
			s.post(func() { s.knowsTasks(p) })
			return optionsOf(taskItems(p)), nil
		}
	case sp.more == fromModels:
		more = s.modelOptions
	case sp.more == fromPlans && s.mind.Plans != nil:
		now := s.inUse()
		more = func(ctx context.Context) ([]option, error) {
			p, err := s.mind.Plans.Plan(ctx, now)
			if err != nil {
				p = nil
			}
			return optionsOf(s.offers(p).items), nil
		}
	case sp.more == fromQueue:
		more = s.queueOptions(s.queue)
	}
	return func(ctx context.Context) ([]option, error) {
		if more == nil {
			return known, nil
		}
		found, err := more(ctx)
		if err != nil {
			return known, err
		}
		return append(known, fitting(found, sp.typed)...), nil
	}
}

// lookForFiles finds files, after the words that are known.
func (s *Shell) lookForFiles(sp spot, known []option) func(context.Context) ([]option, error) {
	return func(ctx context.Context) ([]option, error) {
		paths, err := s.finder.files(ctx, s.mind.Hands.Files)
		if err != nil {
			return nil, err
		}
		found := known
		if here := steps(paths, sp.name, listedAtOnce); sp.name != "" && len(here) > 0 && len(elsewhere(paths, sp.name)) == 0 && len(here) <= listedAtOnce {
			if len(known) == 0 && len(here) == 1 {
				return []option{{text: pathWord(sp.mark, here[0])}}, nil
			}
		}
		for _, p := range like(paths, sp.name) {
			found = append(found, option{item: pick.Item{Value: p}, text: pathWord(sp.mark, p)})
		}
		return found, nil
	}
}

// fitting are the options that begin with what is typed, else those that hold it.
func fitting(list []option, typed string) []option {
	if begin := keep(list, func(o option) bool { return strings.HasPrefix(o.text, typed) }); len(begin) > 0 {
		return begin
	}
	word := strings.ToLower(typed)
	return keep(list, func(o option) bool {
		return strings.Contains(strings.ToLower(o.item.Value+" "+o.item.Detail), word)
	})
}

func keep(list []option, ok func(option) bool) []option {
	var kept []option
	for _, o := range list {
		if ok(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

func optionsOf(items []pick.Item) []option {
	list := make([]option, len(items))
	for i, it := range items {
		list[i] = option{it, it.Value}
	}
	return list
}

func (s *Shell) sessionOptions(context.Context) ([]option, error) {
	list, err := s.mind.State.Sessions()
	if err != nil {
		return nil, err
	}
	var items []pick.Item
	for _, x := range list {
		if x.Err == nil {
			items = append(items, pick.Item{Value: x.ID, Detail: strings.TrimSpace(string(x.Meta.Status) + " " + x.Meta.SessionName)})
		}
	}
	return optionsOf(items), nil
}

func (s *Shell) modelOptions(ctx context.Context) ([]option, error) {
	names, err := s.mind.Models.Models(ctx)
	if err != nil {
		return nil, err
	}
	return optionsOf(s.modelItems(names)), nil
}

func (s *Shell) modelItems(names []string) []pick.Item {
	now := s.mind.Models.Endpoint().Model
	items := make([]pick.Item, len(names))
	for i, n := range names {
		items[i].Value = n
		if n == now {
			items[i].Detail = "now"
		}
	}
	return items
}

// queueOptions are the messages that wait, and the lines that do.
func (s *Shell) queueOptions(lines []waitingLine) func(context.Context) ([]option, error) {
	lines = slices.Clone(lines)
	return func(context.Context) ([]option, error) {
		var items []pick.Item
		for _, m := range s.mind.Queue.Waiting() {
			if m.Class != interrupts.ClassStop {
				items = append(items, pick.Item{Value: m.ID(), Detail: render.Brief(m.Text)})
			}
		}
		for _, l := range lines {
			items = append(items, pick.Item{Value: lineID(l), Detail: render.Brief(l.text)})
		}
		return optionsOf(items), nil
	}
}

// taskItems are the tasks of a plan, open ones first.
func taskItems(p *plan.Plan) []pick.Item {
	var open, over []pick.Item
	for _, t := range p.Tasks {
		it := pick.Item{Value: t.ID, Detail: strings.TrimSpace(string(t.Status) + "  " + t.Title)}
		switch {
		case t.Kind == kindEpic:
		case t.Status.Open():
			open = append(open, it)
		default:
			over = append(over, it)
		}
	}
	return append(open, over...)
}

// cancelled says that a choice ended without one.
func cancelled(err error) bool {
	return errors.Is(err, pick.ErrCancelled) || errors.Is(err, context.Canceled) || errors.Is(err, ErrNobody)
}
