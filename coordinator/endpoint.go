package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"ralph/workers/agent"
	"ralph/workers/model"
)

// openModel chooses the endpoint, or opens the cassette that stands in for one.
func (c *Coordinator) openModel(ctx context.Context) error {
	opt := model.Options{UserAgent: "ralph"}
	switch {
	case c.cfg.Replay != "":
		replay, err := model.OpenReplay(c.opt.FS, c.cfg.Replay)
		if err != nil {
			return &Error{Op: "open cassette", Path: c.cfg.Replay, Err: err, Status: StatusUsage, Hint: "record one with --record FILE"}
		}
		c.cassette.replay = replay
		c.endpoint, opt.Transport = replay.Endpoint(), replay.Transport()
	default:
		endpoint, err := model.Choose(ctx, c.wish())
		if err != nil {
			return err
		}
		c.endpoint = endpoint
	}
	if c.cfg.Record != "" {
		recorder, err := model.OpenRecorder(c.opt.FS, c.cfg.Record, c.redactor.String)
		if err != nil {
			return errors.Join(&Error{Op: "open cassette", Path: c.cfg.Record, Err: err, Status: StatusUsage, Hint: "name a file that does not exist yet, in a directory that you can write"}, c.cassette.close())
		}
		c.cassette.recorder = recorder
		opt.Transport = recorder.Transport(opt.Transport)
	}
	opt.Endpoint = c.endpoint
	c.client = model.New(opt)
	return nil
}

func (c *Coordinator) wish() model.Wish {
	w := model.Wish{Model: c.cfg.Model, BaseURL: c.cfg.BaseURL, Key: c.cfg.APIKey, Getenv: c.opt.Getenv, ProbeLocal: true}
	for _, p := range c.cfg.Active() {
		w.Profiles = append(w.Profiles, model.Profile{Name: p.Name, Model: p.Model, BaseURL: p.BaseURL, Key: p.Key})
	}
	return w
}

// price turns a usage into USD by the user's price list.
func (c *Coordinator) price(u agent.Usage) (float64, bool) {
	p, ok := c.cfg.Price(c.Endpoint().Model)
	if !ok {
		return 0, false
	}
	const perToken = 1e-6 // prices are per million tokens
	fresh := u.Input - u.CachedInput
	return (float64(fresh)*p.Input + float64(u.CachedInput)*p.CachedInput + float64(u.Output)*p.Output) * perToken, true
}

// cassette is the recording side of a coordinator; at most one of the two is
// set.
type cassette struct {
	recorder *model.Recorder
	replay   *model.Replay

	// mu guards problem.
	mu      sync.Mutex
	problem error
}

// wrap lets the cassette see the results of tools; they really run, also in a
// replay.
func (k *cassette) wrap(list []agent.Tool) []agent.Tool {
	if k.recorder == nil && k.replay == nil {
		return list
	}
	out := make([]agent.Tool, len(list))
	for i, t := range list {
		run := t.Run
		t.Run = func(ctx context.Context, args json.RawMessage) (agent.Result, error) {
			res, err := run(ctx, args)
			seen := res
			if err != nil {
				seen.Failed, seen.Text = true, err.Error()
			}
			k.saw(agent.Call{Name: t.Name, Args: string(args)}, seen)
			return res, err
		}
		out[i] = t
	}
	return out
}

func (k *cassette) saw(call agent.Call, res agent.Result) {
	var err error
	if k.recorder != nil {
		err = k.recorder.Tool(agentName, call, res)
	} else {
		err = k.replay.Tool(agentName, call, res)
	}
	if err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = errors.Join(k.problem, err)
}

// halted is what ends a run: a tool result that differs from the recording, or
// one that could not be recorded.
func (k *cassette) halted() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}

// unused reports exchanges of a replay that the work did not come to.
func (k *cassette) unused() error {
	if k.replay == nil {
		return nil
	}
	return k.replay.Unused()
}

func (k *cassette) close() error {
	switch {
	case k.recorder != nil:
		return k.recorder.Close()
	case k.replay != nil:
		return k.replay.Close()
	}
	return nil
}
