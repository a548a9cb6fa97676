package external

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"ralph/workers/agent"
)

// readText takes a text as it is: all of it is the assistant's, and whether its
// end is its last word is for the promise to decide.
func readText(s *state, l line) bool {
	s.more(string(l.text))
	s.more("\n")
	return true
}

type claudeEvent struct {
	Type      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	SessionID string  `json:"session_id"`
	Model     string  `json:"model"`
	Parent    *string `json:"parent_tool_use_id"`
	Message   struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`

	Attempt     int     `json:"attempt"`
	RetryDelay  float64 `json:"retry_delay_ms"`
	ErrorStatus *int    `json:"error_status"`
	Error       any     `json:"error"`

	IsError   bool     `json:"is_error"`
	APIStatus *int     `json:"api_error_status"`
	Result    string   `json:"result"`
	Errors    []string `json:"errors"`
	Turns     int      `json:"num_turns"`
	Cost      *float64 `json:"total_cost_usd"`
	Usage     struct {
		Input   int `json:"input_tokens"`
		Created int `json:"cache_creation_input_tokens"`
		Read    int `json:"cache_read_input_tokens"`
		Output  int `json:"output_tokens"`
	} `json:"usage"`
	Denials []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
	Limit struct {
		Status string `json:"status"`
		Resets int64  `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

type claudeBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Of      string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
}

func readClaude(s *state, l line) bool {
	var e claudeEvent
	if !parse(l, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "system":
		if e.Subtype == "init" {
			s.session, s.model = e.SessionID, e.Model
		}
		if e.Subtype == "api_retry" {
			word, _ := e.Error.(string)
			s.retry(failure{status: or(e.ErrorStatus), text: word}, e.Attempt, time.Duration(e.RetryDelay*float64(time.Millisecond)))
		}
	case "rate_limit_event":
		if e.Limit.Status == "rejected" {
			f := failure{status: 429, text: "rate limit"}
			if e.Limit.Resets > 0 {
				f.after = max(0, time.Until(time.Unix(e.Limit.Resets, 0)))
			}
			s.trouble = &f
		}
	case "assistant", "user":
		var blocks []claudeBlock
		if json.Unmarshal(e.Message.Content, &blocks) == nil {
			s.claudeBlocks(e, blocks)
		}
	case "result":
		s.claudeResult(e)
	}
	return true
}

func (s *state) claudeBlocks(e claudeEvent, blocks []claudeBlock) {
	for _, b := range blocks {
		switch {
		case e.Type == "user" && b.Type == "tool_result":
			s.answer(b.Of, !b.IsError, words(b.Content), nil)
		case e.Type == "assistant" && b.Type == "tool_use":
			s.call(b.ID, b.Name, b.Input)
		case e.Type == "assistant" && b.Type == "text" && e.Parent == nil:
			// What an agent of its own says is a tool's result to it.
			s.say(b.Text)
			s.speak()
		}
	}
}

func (s *state) claudeResult(e claudeEvent) {
	u := agent.Usage{Input: e.Usage.Input + e.Usage.Created + e.Usage.Read, CachedInput: e.Usage.Read, Output: e.Usage.Output}
	u.Total = u.Input + u.Output
	s.usage, s.cost, s.turns = u, e.Cost, e.Turns
	if e.SessionID != "" {
		s.session = e.SessionID
	}
	s.denied = nil
	for _, d := range e.Denials {
		s.deny(d.Tool, string(d.Input))
	}
	if !e.IsError && e.Subtype == "success" {
		if e.Result != "" && e.Result != s.final() {
			s.say(e.Result)
		}
		s.end(nil)
		return
	}
	text := e.Result
	if text == "" {
		text = strings.Join(append([]string{e.Subtype}, e.Errors...), ": ")
	}
	f := &failure{status: or(e.APIStatus), text: text}
	if s.trouble != nil {
		f.after = s.trouble.after
		if f.status == 0 && s.trouble.status == 429 {
			f.status = 429
		}
	}
	s.end(f)
}

func or(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

type codexEvent struct {
	Type    string `json:"type"`
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Item struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Message string          `json:"message"`
		Command string          `json:"command"`
		Output  string          `json:"aggregated_output"`
		Exit    *int            `json:"exit_code"`
		Status  string          `json:"status"`
		Changes json.RawMessage `json:"changes"`
		Tool    string          `json:"tool"`
		Query   string          `json:"query"`
		Args    json.RawMessage `json:"arguments"`
	} `json:"item"`
	Usage struct {
		Input     int `json:"input_tokens"`
		Cached    int `json:"cached_input_tokens"`
		Output    int `json:"output_tokens"`
		Reasoning int `json:"reasoning_output_tokens"`
	} `json:"usage"`
}

func readCodex(s *state, l line) bool {
	var e codexEvent
	if !parse(l, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "thread.started":
		s.session = e.Thread
	case "turn.started":
		s.turns++
		s.closed, s.failure = false, nil
	case "error":
		s.retry(failure{text: e.Message}, 0, 0)
	case "turn.failed":
		s.end(&failure{text: e.Error.Message})
	case "turn.completed":
		u := agent.Usage{Input: e.Usage.Input, CachedInput: e.Usage.Cached, Output: e.Usage.Output, Reasoning: e.Usage.Reasoning}
		u.Total = u.Input + u.Output
		s.spend(u, nil)
		s.end(nil)
	case "item.started", "item.completed":
		s.codexItem(e, e.Type == "item.completed")
	}
	return true
}

func (s *state) codexItem(e codexEvent, done bool) {
	it := e.Item
	tool, args := it.Type, json.RawMessage(nil)
	switch it.Type {
	case "agent_message":
		if done {
			s.say(it.Text)
			s.speak()
		}
		return
	case "error":
		s.warn(it.Message) // it may stand in a run that succeeds
		return
	case "command_execution":
		args = object("command", it.Command)
	case "file_change":
		if args = it.Changes; len(args) > 0 {
			args = append(append([]byte(`{"changes":`), args...), '}')
		}
	case "web_search":
		args = object("query", it.Query)
	case "mcp_tool_call":
		tool, args = it.Tool, it.Args
	default:
		return // reasoning, a list of things to do
	}
	if _, started := s.open[it.ID]; !started {
		s.call(it.ID, tool, args)
	}
	if !done {
		return
	}
	if it.Status == "declined" {
		s.deny(tool, it.Command)
	}
	ok := (it.Exit == nil || *it.Exit == 0) && it.Status != "failed" && it.Status != "declined"
	s.answer(it.ID, ok, it.Output, it.Exit)
}

func object(name, value string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a command is full of such characters
	if enc.Encode(map[string]string{name: value}) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

type geminiEvent struct {
	Type    string          `json:"type"`
	Session string          `json:"session_id"`
	Model   string          `json:"model"`
	Role    string          `json:"role"`
	Content string          `json:"content"`
	Delta   bool            `json:"delta"`
	Tool    string          `json:"tool_name"`
	ID      string          `json:"tool_id"`
	Params  json.RawMessage `json:"parameters"`
	Status  string          `json:"status"`
	Output  string          `json:"output"`
	Level   string          `json:"severity"`
	Message string          `json:"message"`
	Error   struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Cached int `json:"cached"`
		Total  int `json:"total_tokens"`
	} `json:"stats"`
}

func readGemini(s *state, l line) bool {
	var e geminiEvent
	if !parse(l, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "init":
		s.session, s.model = e.Session, e.Model
	case "message":
		switch {
		case e.Role != "assistant":
		case e.Delta:
			s.more(e.Content)
		default:
			s.say(e.Content)
		}
	case "tool_use":
		s.call(e.ID, e.Tool, e.Params)
	case "tool_result":
		text := e.Output
		if e.Status != "success" {
			text = strings.TrimSpace(text + "\n" + e.Error.Message)
			if denied(e.Error.Type + " " + text) {
				s.deny(s.open[e.ID], text)
			}
		}
		s.answer(e.ID, e.Status == "success", text, nil)
	case "error":
		s.trouble = &failure{text: e.Message}
		s.warn(e.Message)
	case "result":
		u := agent.Usage{Input: e.Stats.Input, CachedInput: e.Stats.Cached, Output: e.Stats.Output, Total: e.Stats.Total}
		u.Reasoning = max(0, u.Total-u.Input-u.Output)
		u.Output += u.Reasoning
		s.usage = u
		if e.Status == "success" {
			s.end(nil)
		} else {
			s.end(&failure{text: orText(e.Error.Message, "result "+e.Status)})
		}
	}
	return true
}

func orText(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}
