package model

import (
	"encoding/json"
	"net/http"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// player plays one recorded reply to a connection.
type player struct {
	note *replyNote
	veil veil
	w    http.ResponseWriter
	gone <-chan struct{} // the client dropped the connection
	stop <-chan struct{} // the replay is closed
}

// pieceRunes is how much text a piece of a played stream carries.
const pieceRunes = 12

// play sends the reply. A broken connection ends it: then nobody listens.
func (p *player) play() {
	if e := p.note.Error; e != nil {
		p.w.Header().Set("Content-Type", "application/json")
		p.w.WriteHeader(e.Status)
		body, err := json.Marshal(openai.ErrorResponse{Error: &openai.APIError{Message: p.veil.read(e.Message), Code: e.Code}})
		if err == nil {
			_, _ = p.w.Write(body)
		}
		return
	}
	p.w.Header().Set("Content-Type", "text/event-stream")
	p.w.WriteHeader(http.StatusOK)
	ok := p.pieces("reasoning", p.note.Reasoning) && p.pieces("content", p.note.Text)
	for i := 0; ok && i < len(p.note.Calls); i++ {
		ok = p.call(i, &p.note.Calls[i])
	}
	if !ok {
		return
	}
	if p.note.Hold {
		p.flush()
		select {
		case <-p.gone:
		case <-p.stop:
		}
		panic(http.ErrAbortHandler)
	}
	p.finish()
}

// pieces sends a text in pieces, at its pace.
func (p *player) pieces(field, text string) bool {
	runes := []rune(p.veil.read(text))
	for len(runes) > 0 {
		n := min(pieceRunes, len(runes))
		if !p.choice(map[string]any{field: string(runes[:n])}, nil) || !p.rest() {
			return false
		}
		runes = runes[n:]
	}
	return true
}

// rest waits for one pace.
func (p *player) rest() bool {
	if p.note.Pace == 0 {
		return true
	}
	p.flush()
	t := time.NewTimer(p.note.Pace)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.gone:
	case <-p.stop:
	}
	return false
}

// call sends one tool call, its arguments in two pieces.
func (p *player) call(i int, c *callNote) bool {
	args, err := c.args()
	if err != nil {
		return false // parseCassette has refused it
	}
	extra, err := c.extra()
	if err != nil {
		return false // and this too
	}
	args = p.veil.read(args)
	half := runeStart(args, len(args)/2)
	begin := map[string]any{"index": i, "id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": args[:half]}}
	if extra != nil {
		begin["extra_content"] = extra
	}
	return p.choice(map[string]any{"tool_calls": []any{begin}}, nil) &&
		p.choice(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": args[half:]}}}}, nil)
}

// finish sends what ends a reply.
func (p *player) finish() {
	finish := orDefault(p.note.Finish, defaultFinish(len(p.note.Calls)))
	ok := p.choice(map[string]any{}, finish)
	if u := p.note.Usage; ok && u != nil {
		usage := map[string]any{
			"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached},
			"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
		}
		if p.note.Cost != nil {
			usage["cost"] = *p.note.Cost
		}
		ok = p.event(map[string]any{"choices": []any{}, "usage": usage})
	}
	if ok {
		_, _ = p.w.Write([]byte("data: [DONE]\n\n"))
	}
}

// defaultFinish is the finish reason that a reply has unless it says otherwise.
func defaultFinish(calls int) string {
	if calls > 0 {
		return string(openai.FinishReasonToolCalls)
	}
	return string(openai.FinishReasonStop)
}

func (p *player) choice(delta map[string]any, finish any) bool {
	return p.event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (p *player) event(fields map[string]any) bool {
	fields["object"], fields["model"] = "chat.completion.chunk", p.note.Model
	data, err := json.Marshal(fields)
	if err != nil {
		return false
	}
	_, err = p.w.Write(append(append([]byte("data: "), data...), "\n\n"...))
	return err == nil
}

func (p *player) flush() {
	if f, ok := p.w.(http.Flusher); ok {
		f.Flush()
	}
}
