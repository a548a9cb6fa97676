package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"ralph/coordinator"

	"ralph/memory/visible"
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
func (inv *invocation) newAsker(suspend func() func()) func(context.Context, coordinator.Question) (string, error) {
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
func (a *asker) ask(ctx context.Context, q coordinator.Question) (string, error) {
	defer a.suspend()()
	r, err := newPatientReader(ctx, a.in)
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	defer r.close()
	for {
		a.show(q)
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(a.out)
			if len(q.Options) > 0 {
				return q.Options[0], nil
			}
			return line, nil
		}
		if err != nil {
			fmt.Fprintln(a.out)
			return "", err
		}
		if answer, ok := choose(line, q.Options); ok {
			return answer, nil
		}
		fmt.Fprintf(a.out, "ralph: please answer with one of: %s\n", visible.Text(strings.Join(q.Options, ", ")))
	}
}

func (a *asker) show(q coordinator.Question) {
	fmt.Fprintf(a.out, "ralph: %s\n", visible.Text(q.Text))
	for i, o := range q.Options {
		fmt.Fprintf(a.out, "  %d. %s\n", i+1, visible.Text(o))
	}
	if len(q.Options) > 0 {
		fmt.Fprintf(a.out, "answer [%s]: ", visible.Text(q.Options[0]))
	} else {
		fmt.Fprint(a.out, "answer: ")
	}
}

// choose finds the option that a line means: its number, its words, or a
// beginning that no other option has.
func choose(line string, options []string) (string, bool) {
	line = strings.TrimSpace(line)
	if len(options) == 0 {
		return line, true
	}
	if line == "" {
		return options[0], true
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(options) {
		return options[n-1], true
	}
	var found []string
	for _, o := range options {
		if strings.EqualFold(o, line) {
			return o, true
		}
		if strings.HasPrefix(strings.ToLower(o), strings.ToLower(line)) {
			found = append(found, o)
		}
	}
	if len(found) == 1 {
		return found[0], true
	}
	return "", false
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
