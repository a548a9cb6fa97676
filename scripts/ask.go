package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"ralph/coordinator/permission"

	"ralph/memory/text"
)

// asker puts questions to the person at the terminal. It is used by one
// question at a time.
type asker struct {
	in      *os.File
	out     io.Writer
	suspend func() (resume func()) // takes the live line off the screen
}

// newAsker returns an asker when a person can be asked: standard input and
// standard error are a terminal. Otherwise it returns nil.
func (inv *invocation) newAsker(suspend func() func()) func(context.Context, permission.Question) (string, error) {
	in, ok := inv.Stdin.(*os.File)
	if !ok || !isTerminal(in) || !isTerminal(inv.Stderr) {
		return nil
	}
	a := &asker{in: in, out: inv.Stderr, suspend: suspend}
	return a.ask
}

// ask shows the question and waits for a line. Only a clear answer counts as
// one: an empty line and the end of input mean the first option, which is the
// safe one; anything else is asked again.
func (a *asker) ask(ctx context.Context, q permission.Question) (string, error) {
	defer a.suspend()()
	r, err := newPatientReader(ctx, a.in)
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	defer r.close()
	discard(int(a.in.Fd())) // what was typed before the question is no answer to it
	for {
		a.show(q)
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(a.out)
			if q.Default != "" && line == "" {
				return "", errors.New("the input ended without an answer")
			}
			if len(q.Options) > 0 {
				return q.Options[0], nil
			}
			return line, nil
		}
		if err != nil {
			fmt.Fprintln(a.out)
			return "", err
		}
		if answer, ok := q.Answer(line); ok {
			return answer, nil
		}
		fmt.Fprintf(a.out, "ralph: please answer with one of: %s\n", text.Visible(strings.Join(q.Options, ", ")))
	}
}

func (a *asker) show(q permission.Question) {
	head, exact, framed := q.Text, "", false
	if q.Kind == "permission" || q.Kind == "check" {
		head, exact, framed = strings.Cut(q.Text, "\n")
	}
	if q.Target != "" {
		head, exact, framed = mayIt(q), q.Target, true
	}
	if q.Agent != "" && q.Agent != mainAgent {
		head = q.Agent + " asks: " + head
	}
	tell(a.out, head)
	if q.Target != "" {
		fmt.Fprintf(a.out, "  why: %s\n", text.VisibleLine(q.Rule))
	}
	if q.Dir != "" {
		fmt.Fprintf(a.out, "  where: %s\n", text.VisibleLine(q.Dir))
	}
	if framed {
		// Whole, with its end marked, so that nothing in it passes for the question.
		rows := strings.Split(text.Visible(exact), "\n")
		fmt.Fprintf(a.out, "  + %s\n  | %s\n  + end of %[1]s\n", text.Count(len(rows), "line"), strings.Join(rows, "\n  | "))
	}
	for i, o := range q.Options {
		fmt.Fprintf(a.out, "  %d. %s%s\n", i+1, text.Visible(o), meaning(q, o))
	}
	switch {
	case len(q.Options) == 0:
		fmt.Fprint(a.out, "answer: ")
	case q.Open:
		fmt.Fprintf(a.out, "answer, also in your own words [%s]: ", text.Visible(q.Options[0]))
	default:
		fmt.Fprintf(a.out, "answer [%s]: ", text.Visible(q.Options[0]))
	}
}

// mayIt is the question of a permission.
func mayIt(q permission.Question) string {
	switch {
	case q.Outside:
		return "may this command run OUTSIDE the sandbox, with your rights?"
	case q.Dir != "":
		return "may this command run?"
	}
	return "may " + q.Tool + " do this?"
}

// meaning says what an answer to a question about a permission does.
func meaning(q permission.Question, answer string) string {
	switch {
	case q.Kind == "check" && answer == "yes":
		return " (this text, for this session)"
	case q.Kind != "permission":
		return ""
	case answer == "yes" && q.Outside:
		return " (this once, outside the sandbox)"
	case answer == "yes":
		return " (this once)"
	case answer == "always":
		return " (all commands of this session)"
	}
	return ""
}

// readLine reads up to a newline and no further, so that later questions find
// their own lines.
func readLine(r io.Reader) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for {
		n, err := r.Read(b)
		if n == 1 && b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[:n]...)
		if err != nil {
			return string(line), err
		}
	}
}
