package repl

import (
	"context"
	"strings"

	"ralph/coordinator/permission"

	"ralph/interrupts"
	"ralph/repl/pick"
	"ralph/repl/render"
)

// ask puts a question to the human; it is called by the goroutines that work.
func (s *Shell) ask(ctx context.Context, q permission.Question) (string, error) {
	open := &question{Question: q, answer: make(chan answer, 1)}
	s.post(func() { s.openQuestion(open) })
	select {
	case a := <-open.answer:
		return a.text, a.err
	case <-ctx.Done():
		s.post(func() { s.closeQuestion(open, answer{err: context.Cause(ctx)}) })
		return "", context.Cause(ctx)
	}
}

func (s *Shell) openQuestion(q *question) {
	if s.gone || s.ended || s.leaving {
		q.answer <- answer{err: ErrNobody}
		return
	}
	s.asks++
	q.nr = s.asks
	s.questions = append(s.questions, q)
	if w := s.running(); w != nil {
		s.call(w.begun, "asks: "+q.Text)
	}
	if len(s.questions) == 1 {
		s.showQuestion(q)
	}
}

// showQuestion prints the question with the exact text that is decided on.
func (s *Shell) showQuestion(q *question) {
	p := s.whole()
	p.Now = true
	s.ink.show(p, func(r *render.Renderer) string { return r.Flush() + r.Question(q.Question) })
}

// closeQuestion ends a question; a question that is closed already stays so.
func (s *Shell) closeQuestion(q *question, a answer) {
	for i, other := range s.questions {
		if other != q {
			continue
		}
		s.questions = append(s.questions[:i:i], s.questions[i+1:]...)
		q.answer <- a
		if _, stopped := interrupts.AsStop(a.err); a.err == nil || stopped {
			s.settledAsk = q.nr
		}
		if i == 0 && len(s.questions) > 0 {
			s.showQuestion(s.questions[0])
		}
		return
	}
}

func (s *Shell) failQuestions(err error) {
	for len(s.questions) > 0 {
		s.closeQuestion(s.questions[0], answer{err: err})
	}
}

// answers says that a line was typed for the open question, which was on the
// screen then. A pipe cannot see it: there each line is for what is asked.
func (s *Shell) answers(ask int) bool {
	return len(s.questions) > 0 && (s.sequential || ask == s.questions[0].nr)
}

// stale says that a line was typed for a question that nobody answered and that is
// no more: it is for nothing else.
func (s *Shell) stale(ask int) bool { return ask != 0 && ask != s.settledAsk && !s.answers(ask) }

// kindPick is the kind of a question of a picker, which an empty line may leave.
const kindPick = "pick"

// onAnswer takes a line as the answer to the first question. An empty line is
// the safe answer, the first option, or the default of a question without options.
func (s *Shell) onAnswer(text string) {
	q := s.questions[0]
	choice, ok := q.Answer(text)
	if ok && choice == "" && q.Kind != kindPick {
		s.note("type an answer; Ctrl-C stops instead")
		return
	}
	if !ok {
		s.ink.say(func(r *render.Renderer) string {
			return r.Warning("answer with one of: " + strings.Join(q.Options, ", "))
		})
		return
	}
	if s.live || s.sequential && s.script == nil { // a script has shown the line
		s.ink.say(func(r *render.Renderer) string { return r.Answer(choice) })
	}
	s.closeQuestion(q, answer{text: choice})
}

// newPicker makes the picker of this conversation.
func (s *Shell) newPicker(colour bool) *pick.Picker {
	p := s.newLister()
	p.Colour, p.Size = colour, s.size
	if l, ok := s.reader.(lender); ok {
		p.Lend = l.Modal
	}
	return p
}

// newLister makes a picker that has no menu.
func (s *Shell) newLister() *pick.Picker {
	return &pick.Picker{
		Print: func(text string) { s.ink.say(func(*render.Renderer) string { return text }) },
		Answer: func(ctx context.Context, prompt string) (string, error) {
			if s.script != nil { // its next line was not written to choose from a list
				return "", pick.ErrCancelled
			}
			return s.ask(ctx, permission.Question{Kind: kindPick, Text: prompt})
		},
	}
}
