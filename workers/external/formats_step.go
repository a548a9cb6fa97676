package external

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"ralph/workers/agent"
)

type opencodeEvent struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Part    struct {
		ID     string `json:"id"`
		Tool   string `json:"tool"`
		CallID string `json:"callID"`
		Text   string `json:"text"`
		Reason string `json:"reason"`
		State  struct {
			Status string          `json:"status"`
			Input  json.RawMessage `json:"input"`
			Output string          `json:"output"`
			Error  string          `json:"error"`
			Meta   struct {
				Exit *int `json:"exit"`
			} `json:"metadata"`
		} `json:"state"`
		Tokens struct {
			Total, Input, Output, Reasoning int
			Cache                           struct{ Read, Write int }
		} `json:"tokens"`
		Cost *float64 `json:"cost"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string            `json:"message"`
			Status  int               `json:"statusCode"`
			Headers map[string]string `json:"responseHeaders"`
		} `json:"data"`
	} `json:"error"`
}

func readOpencode(s *state, l line) bool {
	var e opencodeEvent
	if !parse(l, &e) || e.Type == "" {
		return false
	}
	if e.Session != "" {
		s.session = e.Session
	}
	switch p := e.Part; e.Type {
	case "step_start":
		s.speak()
		s.say("") // each step is a message of its own
		s.turns++
		s.closed, s.failure = false, nil
	case "text":
		if len(s.buf) > 0 {
			s.more("\n")
		}
		s.more(p.Text)
	case "tool_use":
		ok := p.State.Status == "completed" && (p.State.Meta.Exit == nil || *p.State.Meta.Exit == 0)
		s.call(p.CallID, p.Tool, p.State.Input)
		if p.State.Status == "error" && denied(p.State.Error) {
			s.deny(p.Tool, string(p.State.Input))
		}
		s.answer(p.CallID, ok, p.State.Output+p.State.Error, p.State.Meta.Exit)
	case "step_finish":
		t := p.Tokens
		u := agent.Usage{Input: t.Input + t.Cache.Read + t.Cache.Write, CachedInput: t.Cache.Read, Output: t.Output + t.Reasoning, Reasoning: t.Reasoning}
		u.Total = max(t.Total, u.Input+u.Output)
		s.spend(u, p.Cost)
		switch p.Reason {
		case "stop":
			s.end(nil)
		case "tool-calls":
			s.speak()
		default:
			s.end(&failure{text: "the reply ended early: " + orText(p.Reason, "no reason given")})
		}
	case "error":
		d := e.Error.Data
		f := failure{status: d.Status, text: orText(d.Message, e.Error.Name)}
		for name, value := range d.Headers {
			if strings.EqualFold(name, "retry-after") {
				f.after = retryAfter("retry-after: " + value)
			}
		}
		s.end(&f)
	}
	return true
}

type piEvent struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Message struct {
		Role    string `json:"role"`
		Model   string `json:"model"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Usage struct {
			Input, Output, CacheRead, CacheWrite, TotalTokens int
			Cost                                              struct{ Total *float64 }
		} `json:"usage"`
		Stop  string `json:"stopReason"`
		Error string `json:"errorMessage"`
	} `json:"message"`
	CallID  string          `json:"toolCallId"`
	Tool    string          `json:"toolName"`
	Args    json.RawMessage `json:"args"`
	IsError bool            `json:"isError"`
	Result  struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Attempt int     `json:"attempt"`
	Delay   float64 `json:"delayMs"`
	Reason  string  `json:"errorMessage"`
}

func readPi(s *state, l line) bool {
	// It repeats the whole message so far with each piece: the end has it all.
	if bytes.HasPrefix(l.text, []byte(`{"type":"message_update"`)) || bytes.HasPrefix(l.text, []byte(`{"type":"tool_execution_update"`)) {
		return true
	}
	// Its closing event repeats the whole conversation, which can be too long to
	// take in.
	if bytes.HasPrefix(l.text, []byte(`{"type":"agent_end"`)) {
		s.end(s.failure)
		return true
	}
	var e piEvent
	if !parse(l, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "session":
		s.session = e.ID
	case "agent_start", "turn_start":
		s.closed, s.failure = false, nil
	case "auto_retry_start":
		s.closed, s.failure = false, nil
		s.retry(failure{text: e.Reason}, e.Attempt, time.Duration(e.Delay*float64(time.Millisecond)))
	case "message_end":
		if e.Message.Role == "assistant" {
			s.piMessage(e)
		}
	case "tool_execution_start":
		s.call(e.CallID, e.Tool, e.Args)
	case "tool_execution_end":
		s.answer(e.CallID, !e.IsError, words(e.Result.Content), nil)
	}
	return true
}

func (s *state) piMessage(e piEvent) {
	m := e.Message
	s.turns++
	s.model = m.Model
	u := agent.Usage{Input: m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite, CachedInput: m.Usage.CacheRead, Output: m.Usage.Output}
	u.Total = max(m.Usage.TotalTokens, u.Input+u.Output)
	s.spend(u, m.Usage.Cost.Total)
	var parts []string
	for _, c := range m.Content {
		if c.Type == "text" && c.Text != "" {
			parts = append(parts, c.Text)
		}
	}
	s.say(strings.Join(parts, "\n"))
	s.speak()
	switch m.Stop {
	case "stop", "toolUse", "":
		s.failure = nil
	default:
		s.failure = &failure{text: orText(m.Error, "the reply ended early: "+strconv.Quote(m.Stop))}
	}
}
