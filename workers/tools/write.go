package tools

import (
	"context"
	_ "embed"
	"fmt"

	"ralph/memory/text"
	"ralph/workers/agent"
)

//go:embed write.md
var writeDoc string

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// maxChangedBytes bounds the files that write replaces and edit changes.
const maxChangedBytes = 64 << 20

func (b *box) write() spec {
	return define("write", writeDoc, `{"path":"docs/plan.md","content":"# Plan\n"}`, agent.EffectChange, b.runWrite)
}

func (b *box) runWrite(ctx context.Context, a writeArgs) (agent.Result, error) {
	old, err := b.Files.load(ctx, "write", a.Path, maxChangedBytes)
	if err != nil {
		return agent.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return agent.Result{}, context.Cause(ctx)
	}
	size := fmt.Sprintf("%s, %d bytes", text.Count(countLines(a.Content), "line"), len(a.Content))
	if old.info != nil && string(old.data) == a.Content {
		return agent.Result{Head: fmt.Sprintf("%s already has this content: %s", old.path, size), Brief: "unchanged"}, nil
	}
	if err := b.free(old.path); err != nil {
		return agent.Result{}, err
	}
	if err := b.put(ctx, "write", old, nil, []byte(a.Content)); err != nil {
		return agent.Result{}, err
	}
	if ctx.Err() != nil {
		return agent.Result{Head: fmt.Sprintf("wrote %s: %s", old.path, size), Brief: "written"}, nil
	}
	before := string(old.data)
	added, removed := lineChanges(before, lineEdits(before, a.Content))
	brief := changes(added, removed)
	if old.info == nil {
		return agent.Result{Head: fmt.Sprintf("created %s: %s", old.path, size), Brief: brief}, nil
	}
	return agent.Result{Head: fmt.Sprintf("overwrote %s: %s (%s)", old.path, size, brief), Brief: brief}, nil
}

// put writes a file; a command that runs meanwhile is not taken to have done it. before is
// what an edit began with, nil where all of the file is given.
func (b *box) put(ctx context.Context, op string, c content, before, data []byte) error {
	err := b.Files.store(ctx, op, c, data)
	if err == nil && b.Sandbox != nil {
		b.Sandbox.Grant(c.path, before, data)
	}
	return err
}

// free asks whether a path may be changed by this agent now.
func (b *box) free(path string) error {
	if b.Lock == nil {
		return nil
	}
	return b.Lock(path)
}
