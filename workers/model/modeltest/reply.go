package modeltest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"
)

// Reply is one answer of the script. It is a value; its methods return changed
// copies, so that replies can be built in one expression.
type Reply struct {
	status int // 0 sends no header
	header http.Header
	pieces []piece
	gap    time.Duration // before each piece
	cutAt  int           // after so many bytes the connection breaks; -1 never
	hang   bool          // after the last piece the connection stays open
	single bool          // one byte at a time
	repeat bool
	used   bool
	usage  string // the event with the usage
}

// piece is a part of a body that is written and flushed at once.
type piece struct {
	wait time.Duration
	data string
}

const done = "data: [DONE]\n\n"

// Text is a whole streamed answer; its text comes in several pieces.
func Text(text string) Reply {
	r := stream()
	for _, part := range split(text) {
		r.pieces = append(r.pieces, piece{data: Delta(map[string]any{"content": part})})
	}
	return r.end("stop", len(text))
}

// Calls is a whole streamed answer that calls tools, all in one reply. A call
// without an ID gets one.
func Calls(calls ...Call) Reply {
	r, size := stream(), 0
	for i, c := range calls {
		if c.ID == "" {
			h := fnv.New32a()
			fmt.Fprint(h, i, c.Name, c.Args)
			c.ID = fmt.Sprintf("call_%08x", h.Sum32())
		}
		r.pieces = append(r.pieces, piece{data: Delta(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""}}}})})
		for _, part := range split(c.Args) {
			r.pieces = append(r.pieces, piece{data: Delta(map[string]any{"tool_calls": []any{map[string]any{
				"index": i, "function": map[string]any{"arguments": part}}}})})
		}
		size += len(c.Args)
	}
	return r.end("tool_calls", size)
}

// Saying puts text in front of the calls of a reply.
func (r Reply) Saying(text string) Reply {
	return r.insert(Delta(map[string]any{"content": text}))
}

// Thinking puts reasoning in front of a reply.
func (r Reply) Thinking(text string) Reply {
	return r.insert(Delta(map[string]any{"reasoning": text}))
}

func (r Reply) insert(data string) Reply {
	pieces := append([]piece{}, r.pieces[:1]...)
	pieces = append(pieces, piece{data: data})
	r.pieces = append(pieces, r.pieces[1:]...)
	return r
}

// Raw is a reply with status 200 and these pieces as the body, each flushed.
func Raw(pieces ...string) Reply {
	r := Reply{status: http.StatusOK, header: http.Header{"Content-Type": {"text/event-stream"}}, cutAt: -1}
	for _, p := range pieces {
		r.pieces = append(r.pieces, piece{data: p})
	}
	return r
}

// Status is a reply with a status, a body and headers given as name, value.
func Status(code int, body string, headers ...string) Reply {
	r := Raw(body)
	r.status = code
	r.header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.header.Set(headers[i], headers[i+1])
	}
	return r
}

// Hang is a reply that never comes: not even its headers.
func Hang() Reply { return Reply{hang: true, cutAt: -1} }

// Reset is a connection that breaks before anything was answered.
func Reset() Reply { return Reply{cutAt: 0} }

// Using changes the reported usage.
func (r Reply) Using(input, output int) Reply {
	pieces := append([]piece(nil), r.pieces...)
	for i := range pieces {
		if pieces[i].data == r.usage {
			pieces[i].data = Usage(input, output)
		}
	}
	r.pieces, r.usage = pieces, Usage(input, output)
	return r
}

// Slow waits before each piece.
func (r Reply) Slow(gap time.Duration) Reply {
	r.gap = gap
	return r
}

// After waits before the reply begins.
func (r Reply) After(d time.Duration) Reply {
	r.pieces = append([]piece{{wait: d}}, r.pieces...)
	return r
}

// Cut breaks the connection after n bytes of the body.
func (r Reply) Cut(n int) Reply {
	r.cutAt = n
	return r
}

// HangAfter keeps the connection open and silent after the whole body.
func (r Reply) HangAfter() Reply {
	r.hang = true
	return r
}

// HangAt keeps the connection open and silent after n pieces of the body.
func (r Reply) HangAt(n int) Reply {
	r.pieces = r.pieces[:min(n, len(r.pieces))]
	r.hang = true
	return r
}

// ByteByByte writes and flushes each byte on its own.
func (r Reply) ByteByByte() Reply {
	r.single = true
	return r
}

// Forever repeats the reply when it is the last of the script.
func (r Reply) Forever() Reply {
	r.repeat = true
	return r
}

// Body is all that the reply sends, if nothing cuts it.
func (r Reply) Body() string {
	s := ""
	for _, p := range r.pieces {
		s += p.data
	}
	return s
}

func stream() Reply {
	return Raw(Delta(map[string]any{"role": "assistant", "content": ""}))
}

func (r Reply) end(finish string, size int) Reply {
	r.usage = Usage(10, size/4+1)
	for _, data := range []string{Finish(finish), r.usage, done} {
		r.pieces = append(r.pieces, piece{data: data})
	}
	return r
}

// Delta is the event for one delta.
func Delta(delta any) string {
	return event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}})
}

// Finish is the event with a finish reason.
func Finish(reason string) string {
	return event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}}})
}

// Usage is the event with the usage.
func Usage(input, output int) string {
	return event(map[string]any{"choices": []any{}, "usage": map[string]any{
		"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}})
}

func event(fields map[string]any) string {
	fields["id"], fields["object"], fields["created"], fields["model"] = "chatcmpl-test", "chat.completion.chunk", 1700000000, "test-model"
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // only values of the caller's own making can do this
	}
	return "data: " + string(b) + "\n\n"
}

// split cuts text into pieces of a few runes, as a model's tokens are.
func split(text string) []string {
	var parts []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(7, len(runes))
		parts = append(parts, string(runes[:n]))
		runes = runes[n:]
	}
	return parts
}

// play sends the reply. It ends when the client goes away or stop is closed.
func (r Reply) play(w http.ResponseWriter, req *http.Request, stop <-chan struct{}) {
	wait := func(d time.Duration) bool {
		if d <= 0 {
			return true
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-req.Context().Done():
		case <-stop:
		}
		return false
	}
	switch {
	case r.status != 0:
		r.send(w, wait)
	case !r.hang:
		panic(http.ErrAbortHandler)
	}
	if r.hang {
		select {
		case <-req.Context().Done():
		case <-stop:
		}
		panic(http.ErrAbortHandler)
	}
}

// send writes headers and body.
func (r Reply) send(w http.ResponseWriter, wait func(time.Duration) bool) {
	if len(r.pieces) > 0 && !wait(r.pieces[0].wait) {
		return
	}
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	flusher, ok := w.(http.Flusher)
	if !ok {
		panic("modeltest: the response cannot be flushed")
	}
	flusher.Flush()
	sent := 0
	for i, p := range r.pieces {
		if i > 0 && !wait(p.wait) || !wait(r.gap) {
			return
		}
		data := p.data
		cut := r.cutAt >= 0 && sent+len(data) > r.cutAt
		if cut {
			data = data[:r.cutAt-sent]
		}
		if write(w, flusher, data, r.single) != nil {
			return
		}
		sent += len(data)
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
	if r.cutAt >= 0 {
		panic(http.ErrAbortHandler)
	}
}

func write(w http.ResponseWriter, f http.Flusher, data string, single bool) error {
	step := len(data)
	if single {
		step = 1
	}
	for len(data) > 0 {
		n := min(step, len(data))
		if _, err := w.Write([]byte(data[:n])); err != nil {
			return err
		}
		f.Flush()
		data = data[n:]
	}
	return nil
}
