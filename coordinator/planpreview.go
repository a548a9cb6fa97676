package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/afero"

	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
)

// preview says in which order a plan would be worked, and why; nothing is begun
// and nothing kept.
func (p *piece) preview(ctx context.Context) error {
	c := p.c
	s := c.runSettings(*p.job.Loop)
	tracker, _, err := c.openPlan(ctx, s)
	if err != nil {
		return planError(err)
	}
	if err := c.onBranch(ctx, tracker, true); err != nil {
		return err
	}
	files, err := folder.Open(folder.Options{FS: afero.NewMemMapFs(), Dir: "/session", Now: c.now})
	if err != nil {
		return err
	}
	l, err := loop.New(loop.Options{Settings: s, Tracker: tracker, Hands: planHands{c}, Files: files, Save: func(feature.Snapshot) error { return nil }, Warn: c.warn, Now: c.now, MaxAgents: c.cfg.MaxAgents})
	if err != nil {
		return planError(err)
	}
	steps, err := l.Preview(ctx)
	if err != nil {
		return planError(err)
	}
	if p.out.Structured, err = json.Marshal(steps); err != nil {
		return fmt.Errorf("encode the order: %w", err)
	}
	p.out.Answer, p.out.Status, p.out.Reason = orderText(steps), result.Completed, "only shown: nothing was begun"
	return nil
}

// orderText tells an order, a line a task.
func orderText(steps []loop.Step) string {
	var b strings.Builder
	for _, s := range steps {
		if s.Left != "" {
			fmt.Fprintf(&b, "not worked: %s %s: %s\n", s.ID, s.Title, s.Left)
			continue
		}
		fmt.Fprintf(&b, "%d. %s %s", s.Order, s.ID, s.Title)
		if len(s.After) > 0 {
			fmt.Fprintf(&b, ", after %s", strings.Join(s.After, ", "))
		}
		if len(s.Reasons) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(s.Reasons, "; "))
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}
