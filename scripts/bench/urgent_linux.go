package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/interrupts/control"
)

// callsOfAChat is how many urgent messages come before the chat is stopped and
// goes on: each leaves a command in the background.
const callsOfAChat = 10

// urgent measures the way of an urgent message: from Enter, or from the line on
// the socket, until the model server has the whole request that carries it.
func (l *lab) urgent() error {
	if err := l.openScanner(); err != nil {
		return err
	}
	fmt.Println("\nan urgent message, until the request that carries it is at the model server")
	fmt.Printf("%-76s %24s %5s\n", "", "ms: p50 / p99 / max", "n")
	for _, work := range []struct {
		name  string
		reply reply
	}{
		{"a stream running", reply{stream: true}},
		{"its own command of ten minutes running", reply{commands: []string{"LEAF"}}},
	} {
		for _, way := range []struct {
			name string
			send func(*lane, string) (time.Time, error)
		}{
			{"/now typed", (*lane).now},
			{"a line on the control socket", (*lane).socket},
			{"ralph send --urgent, its start included", (*lane).sendUrgent},
		} {
			list, err := l.urgentBy(work.reply, way.send)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", work.name, way.name, err)
			}
			fmt.Printf("%-76s %24s %5d\n", way.name+", "+work.name, three(list), len(list))
		}
	}
	fmt.Println("  the floor: the echo of a key in `idle` above; aim ≤ 50 ms for the first two ways")
	return nil
}

// urgentBy measures one way beside one kind of work.
func (l *lab) urgentBy(work reply, send func(*lane, string) (time.Time, error)) (list []float64, err error) {
	n, err := l.newLane()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.leave(), n.drop(), l.rest()) }()
	if err := errors.Join(n.chat(), n.rested()); err != nil {
		return nil, err
	}
	work.commands = slices.Clone(work.commands)
	for i, c := range work.commands {
		work.commands[i] = n.fill(c)
	}
	for len(list) < l.stopRuns {
		n.part.plays()
		n.part.repeats(work, "urgent-")
		n.part.release()
		if err := n.work(); err != nil {
			return nil, err
		}
		for i := range min(callsOfAChat, l.stopRuns-len(list)) {
			if err := n.busy(work, i+1); err != nil {
				return nil, err
			}
			ms, err := n.carried(fmt.Sprintf("urgent-%06d", len(list)), send)
			if err != nil {
				return nil, err
			}
			list = append(list, ms)
		}
		if err := n.tty.typeKeys("\x03"); err != nil {
			return nil, err
		}
		if err := n.rested(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// busy waits until the work runs, which with commands means the so manieth.
func (n *lane) busy(work reply, count int) error {
	if work.stream {
		for len(n.part.tokens) > 0 {
			<-n.part.tokens
		}
		return await(n, n.part.tokens, 3)
	}
	if err := n.l.allThere(shape{name: "the command", leaves: count}, []*lane{n}); err != nil {
		return err
	}
	time.Sleep(betweenStops) // the bench itself is at rest
	return nil
}

// carried sends a message and waits for the request with it.
func (n *lane) carried(text string, send func(*lane, string) (time.Time, error)) (float64, error) {
	began, err := send(n, text)
	if err != nil {
		return 0, err
	}
	late := time.After(seeWait)
	for {
		select {
		case a := <-n.part.arrived:
			if bytes.Contains(a.body, []byte(text)) {
				return since(began, a.at), nil
			}
		case <-n.exited:
			return 0, errors.New("the chat ended")
		case <-late:
			return 0, fmt.Errorf("no request carries the message; the screen is\n%s", n.tty.screen())
		}
	}
}

// now types the message and presses Enter.
func (n *lane) now(text string) (time.Time, error) {
	line := "/now " + text
	if err := n.tty.typeKeys(line); err != nil {
		return time.Time{}, err
	}
	if _, err := n.sees("the typed line", n.tty.expect(echoed(line))); err != nil {
		return time.Time{}, err
	}
	began := time.Now()
	return began, n.tty.typeKeys("\r")
}

// socket sends the message as another program would, on a connection of its own.
func (n *lane) socket(text string) (began time.Time, err error) {
	ctx, cancel := context.WithTimeout(n.l.ctx, seeWait)
	defer cancel()
	began = time.Now()
	c, err := control.Dial(ctx, filepath.Join(n.project, ".ralph"), "")
	if err != nil {
		return began, err
	}
	_, err = c.Do(ctx, control.Request{Op: "send", Class: "urgent", Text: text, Client: "bench"}, nil)
	return began, errors.Join(err, c.Close())
}

// sendUrgent has another Ralph send the message.
func (n *lane) sendUrgent(text string) (began time.Time, err error) {
	c := n.ralph("send", "--urgent", text)
	began = time.Now()
	if out, err := c.CombinedOutput(); err != nil {
		return began, fmt.Errorf("ralph send: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return began, nil
}
