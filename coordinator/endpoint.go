package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// Connect returns a client for the endpoint that a run with these settings would
// use. The caller closes it.
func Connect(ctx context.Context, cfg *config.Config, getenv func(string) string) (*model.Client, error) {
	endpoint, err := model.Choose(ctx, wish(cfg, getenv))
	if err != nil {
		return nil, err
	}
	return model.New(model.Options{Endpoint: endpoint}), nil
}

// Configured returns the endpoint that the settings and the environment name, without
// asking anybody; ok is false where they name none.
func Configured(cfg *config.Config, getenv func(string) string) (end model.Endpoint, ok bool) {
	return model.Configured(wish(cfg, getenv))
}

// besides is how many connections are kept for those who are no children: the
// coordinator and side answers.
const besides = 5

// openModel chooses the endpoint, or opens the cassette that stands in for one.
func (c *Coordinator) openModel(ctx context.Context) error {
	opt := model.Options{MaxConns: c.cfg.MaxAgents + besides}
	switch {
	case c.cfg.Replay != "":
		replay, err := model.OpenReplay(c.opt.FS, c.cfg.Replay)
		if err != nil {
			return &result.Error{Op: "open cassette", Path: c.cfg.Replay, Err: named(err, c.cfg.Replay), Status: result.Usage, Hint: "record one with --record FILE"}
		}
		replay.SetRoot(c.opt.Root, c.redactor.String)
		c.cassette.replay = replay
		c.endpoint, opt.Transport = replay.Endpoint(), replay.Transport()
	default:
		endpoint, err := model.Choose(ctx, wish(c.cfg, c.opt.Getenv))
		if err != nil {
			return err
		}
		c.endpoint = endpoint
	}
	if c.cfg.Record != "" {
		recorder, err := model.OpenRecorder(c.opt.FS, c.cfg.Record, c.redactor.String)
		if err != nil {
			return errors.Join(&result.Error{Op: "open cassette", Path: c.cfg.Record, Err: named(err, c.cfg.Record), Status: result.Usage, Hint: "name a file that does not exist yet, in a directory that you can write"}, c.cassette.close())
		}
		recorder.SetRoot(c.opt.Root)
		c.cassette.recorder = recorder
		opt.Transport = recorder.Transport(opt.Transport)
	}
	opt.Endpoint = c.endpoint
	c.modelOptions, c.client = opt, model.New(opt)
	return nil
}

// named is the cause of a file's error, for a message that names the file
// already.
func named(err error, path string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	for inner := errors.Unwrap(err); inner != nil && strings.Contains(err.Error(), path); inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

func wish(cfg *config.Config, getenv func(string) string) model.Wish {
	w := model.Wish{Model: cfg.Model, BaseURL: cfg.BaseURL, Key: cfg.APIKey, Getenv: getenv, ProbeLocal: true}
	for _, p := range cfg.Active() {
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
	const perToken = 1e-6                  // prices are per million tokens
	fresh := max(u.Input-u.CachedInput, 0) // some endpoints count the cached part beside the input
	return (float64(fresh)*p.Input + float64(u.CachedInput)*p.CachedInput + float64(u.Output)*p.Output) * perToken, true
}

// cassette is the recording side of a coordinator; at most one of the two is
// set.
type cassette struct {
	recorder *model.Recorder
	replay   *model.Replay
	once     sync.Once

	// mu guards problem.
	mu      sync.Mutex
	problem error
}

// wrap lets the cassette see the results of tools; they really run, also in a
// replay.
func (k *cassette) wrap(list []agent.Tool, who string) []agent.Tool {
	if k.recorder == nil && k.replay == nil {
		return list
	}
	out := make([]agent.Tool, len(list))
	for i, t := range list {
		run := t.Run
		t.Run = func(ctx context.Context, args json.RawMessage) (agent.Result, error) {
			res, err := run(ctx, args)
			k.saw(who, agent.Call{Name: t.Name, Args: string(args)}, res.With(err))
			return res, err
		}
		out[i] = t
	}
	return out
}

func (k *cassette) saw(who string, call agent.Call, res agent.Result) {
	var err error
	if k.recorder != nil {
		err = k.recorder.Tool(who, call, res)
	} else {
		err = k.replay.Tool(who, call, res)
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

// played ends a replay whose work is done, and reports what of the recording
// was not asked for.
func (k *cassette) played() error {
	if k.replay == nil {
		return nil
	}
	return k.close()
}

// warnings tells what differs from the recording without harm.
func (k *cassette) warnings() []string {
	if k.replay == nil {
		return nil
	}
	return k.replay.Warnings()
}

// close ends the recording or the replay; a second call does nothing.
func (k *cassette) close() error {
	var err error
	k.once.Do(func() {
		switch {
		case k.recorder != nil:
			err = k.recorder.Close()
		case k.replay != nil:
			err = k.replay.Close()
		}
	})
	return err
}
