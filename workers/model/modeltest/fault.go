package modeltest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Fault is one way in which endpoints misbehave, and what a client makes of it
// that keeps the rules: a terminal event wins at once, nothing of an incomplete
// reply counts, what had no effect is tried again.
type Fault struct {
	Name    string
	Replies []Reply
	// Requests is how often the client asks.
	Requests int
	// Text, Calls are the reply that it arrives at; an empty ID stands for any.
	Text  string
	Calls []Call
	// Kind is the kind of the error that it ends with; "" means the reply.
	Kind string
	// Large marks a fault that is too long to be played byte by byte.
	Large bool
}

const fine = "all is well"

// again is a fault that a second try repairs.
func again(name string, r Reply) Fault {
	return Fault{Name: name, Replies: []Reply{r, Text(fine)}, Requests: 2, Text: fine}
}

// good is something odd that is a whole reply all the same.
func good(name, text string, r Reply, calls ...Call) Fault {
	return Fault{Name: name, Replies: []Reply{r}, Requests: 1, Text: text, Calls: calls}
}

// bad is a fault that no second try repairs.
func bad(name, kind string, r Reply) Fault {
	return Fault{Name: name, Replies: []Reply{r}, Requests: 1, Kind: kind}
}

// Faults returns every fault of the catalogue. A client that is tested with it
// has an idle timeout well below the test's own, and default patience.
func Faults() []Fault {
	var all []Fault
	all = append(all, statusFaults()...)
	all = append(all, cutFaults()...)
	all = append(all, formFaults()...)
	all = append(all, callFaults()...)
	return all
}

func apiError(message, code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":%q}}`, message, code, code)
}

func statusFaults() []Fault {
	limited := apiError("slow down", "rate_limit_exceeded")
	date := time.Now().Add(1500 * time.Millisecond).UTC().Format(http.TimeFormat)
	return []Fault{
		again("429 with seconds", Status(429, limited, "Retry-After", "1")),
		again("429 with milliseconds", Status(429, limited, "Retry-After-Ms", "30")),
		again("429 with a wait in words", Status(429, apiError("Please try again in 25ms.", "rate_limit_exceeded"))),
		again("429 without a wait", Status(429, limited)),
		again("503 with a date", Status(503, apiError("busy", "overloaded"), "Retry-After", date)),
		again("500", Status(500, apiError("oops", "server_error"))),
		again("502 with a web page", Status(502, "<html><h1>Bad Gateway</h1></html>", "Content-Type", "text/html")),
		again("529", Status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)),
		again("reset before an answer", Reset()),
		bad("429 beyond patience", "rate_limit", Status(429, limited, "Retry-After", "3600")),
		bad("429 for lack of credit", "quota", Status(429, apiError("You exceeded your current quota", "insufficient_quota"))),
		bad("402", "quota", Status(402, apiError("Insufficient credits", "402"))),
		bad("401", "auth", Status(401, apiError("Incorrect API key provided", "invalid_api_key"))),
		bad("403", "auth", Status(403, `{"message":"forbidden"}`)),
		bad("404 for the model", "model_not_found", Status(404, apiError("The model `test` does not exist", "model_not_found"))),
		bad("404 for the path", "protocol", Status(404, "404 page not found", "Content-Type", "text/plain")),
		bad("400", "rejected", Status(400, apiError("messages: wrong", "invalid_request_error"))),
		bad("400 for the context", "context_length", Status(400, apiError("This model's maximum context length is 8192 tokens.", "context_length_exceeded"))),
		bad("400 for the content", "content_filter", Status(400, apiError("filtered", "content_filter"))),
		bad("redirect to another host", "protocol", Status(307, "", "Location", "http://203.0.113.7/v1/chat/completions")),
		bad("web page with status 200", "protocol", Status(200, "<!DOCTYPE html>\n<html><body>Welcome</body></html>\n", "Content-Type", "text/html")),
		bad("other JSON with status 200", "protocol", Status(200, `{"hello":"world"}`)),
		bad("words with status 200", "protocol", Status(200, "welcome\n", "Content-Type", "text/plain")),
		bad("error in JSON with status 200", "auth", Status(200, `{"error":{"message":"no auth","code":401}}`)),
	}
}

func cutFaults() []Fault {
	half := Delta(map[string]any{"content": "half"})
	failed := `data: {"error":{"message":"the server had an error","type":"server_error"}}` + "\n\n"
	call := Calls(Call{ID: "c1", Name: "shell", Args: `{"command":"rm -rf build"}`})
	return []Fault{
		again("cut within text", Text("this will never arrive as a whole").Cut(400)),
		again("cut within a tool call", call.Cut(len(call.Body())-420)),
		again("cut at the first byte", Text("x").Cut(1)),
		again("regular end within text", Raw(half)),
		again("regular end within a tool call", Raw(call.Body()[:len(call.Body())-420])),
		again("[DONE] without a finish reason", Raw(half, done)),
		again("empty body", Raw()),
		again("silence within text", Raw(half).HangAfter()),
		again("silence before text", Raw(": hello\n\n").HangAfter()),
		again("error after text", Raw(half, failed)),
		again("error after text, open socket", Raw(half, failed).HangAfter()),
		again("error with its event type", Raw(half, "event: error\ndata: {\"message\":\"overloaded\"}\n\n").HangAfter()),
		again("error that is no JSON", Raw(half, "event: error\ndata: upstream failed\n\n").HangAfter()),
		again("error without data:", Raw(half, `{"error":{"message":"upstream failed"}}`+"\n").HangAfter()),
		again("error beside choices", Raw(half, `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"error":{"message":"upstream failed","code":502}}`+"\n\n", done)),
		again("error within a choice", Raw(half, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"message":"upstream failed","code":502}}]}`+"\n\n", done)),
		again("error object of another form", Raw(`data: {"object":"error","message":"engine died","type":"InternalServerError","code":500}`+"\n\n", done)),
		again("event that is no JSON", Raw(half, "data: {\"choices\":[}\n\n")),
		again("event that ends early", Raw(half, "data: {\"choices\":[{\"delta\"\n\n", done)),
		bad("error for the context", "context_length", Raw(half, `data: {"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum","code":400}}`+"\n\n").HangAfter()),
		good("open socket after [DONE]", fine, Text(fine).HangAfter()),
		good("open socket after the usage", fine, Raw(Delta(map[string]any{"content": fine}), Finish("stop"), Usage(1, 2)).HangAfter()),
		good("open socket after the finish reason", fine, Raw(Delta(map[string]any{"content": fine}), Finish("stop")).HangAfter()),
		good("end after the finish reason", fine, Raw(Delta(map[string]any{"content": fine}), Finish("stop"))),
		good("cut after the finish reason", fine, Raw(Delta(map[string]any{"content": fine}), Finish("stop"), ": bye").Cut(1000)),
	}
}

func formFaults() []Fault {
	text := func(s string) string { return `data: {"choices":[{"delta":{"content":"` + s + `"}}]}` + "\n\n" }
	stop := `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	body := Text(fine).Body()
	return []Fault{
		good("CRLF", fine, Raw(strings.ReplaceAll(body, "\n", "\r\n"))),
		good("CR", fine, Raw(strings.ReplaceAll(body, "\n", "\r"))),
		good("no space after data:", fine, Raw(strings.ReplaceAll(body, "data: ", "data:"))),
		good("no blank lines", fine, Raw(strings.ReplaceAll(body, "\n\n", "\n"))),
		good("no final newline", fine, Raw(strings.TrimRight(body, "\n"))),
		good("byte order mark", fine, Raw("\uFEFF"+body)),
		good("comments and keep-alives", fine, Raw(strings.Repeat(": PROCESSING\n\n", 350)+strings.ReplaceAll(body, "\n\n", "\n\n\n:\nid: 7\nretry: 10\nevent: message\n\n"))),
		good("data in several lines", fine, Raw("data: {\"choices\":\ndata: [{\"delta\":{\"content\":\ndata: \"all is well\"}}]}\n\n", stop, done)),
		good("UTF-8 split between chunks", "a€b👋", Raw(text("a\xe2\x82"), text("\xacb\xf0\x9f"), text("\x91\x8b"), stop, done)),
		good("surrogates split between chunks", "👋x", Raw(text(`\ud83d`), text(`\udc4bx`), stop, done)),
		good("half a rune", "a\uFFFD\uFFFDb\uFFFD", Raw(text("a\xe2\x82"), text("b"), text(`\ud83d`), stop, done)),
		good("escapes", "tab\there \"quoted\" \\ / \u00e9\n", Raw(text(`tab\there \"quoted\" \\ \/ \u00e9\n`), stop, done)),
		good("plain JSON", fine, Status(200, `{"choices":[{"index":0,"message":{"role":"assistant","content":"all is well"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)),
		good("plain JSON in many lines", fine, Status(200, "{\n  \"choices\": [\n    {\n      \"message\": {\n        \"content\": \"all is well\"\n      }\n    }\n  ]\n}\n")),
		good("content in parts", fine, Raw(`data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"all is well"}]}}]}`+"\n\n", stop, done)),
		good("wrong types", fine, Raw(`data: {"id":7,"model":null,"choices":[{"index":"0","delta":{"content":null,"tool_calls":null,"role":3},"finish_reason":false,"logprobs":[1,{"a":[]}]}],"usage":null,"error":null}`+"\n\n",
			`data: {"choices":null,"usage":"none"}`+"\n\n", `data: {"choices":[null,7,{"delta":"x"}],"usage":{"prompt_tokens":"12","completion_tokens":null}}`+"\n\n",
			text("all is well"), stop, done)),
		good("a second choice", fine, Raw(`data: {"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"},{"index":0,"delta":{"content":"all is well"}}]}`+"\n\n", stop, done)),
		{Name: "a string of 50 MB", Replies: []Reply{Raw(text(strings.Repeat("x", 50<<20)))}, Requests: 1, Kind: "protocol", Large: true},
		{Name: "text without end", Replies: []Reply{Raw(strings.Repeat(text(strings.Repeat("x", 1<<20)), 40))}, Requests: 1, Kind: "protocol", Large: true},
	}
}

func callFaults() []Fault {
	delta := func(calls string) string {
		return `data: {"choices":[{"delta":{"tool_calls":[` + calls + `]}}]}` + "\n\n"
	}
	stop := `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	two := []Call{{Name: "read", Args: `{"path":"a"}`}, {Name: "list", Args: `{"path":"b"}`}}
	named := []Call{{ID: "x", Name: "read", Args: `{"path":"a"}`}, {ID: "y", Name: "list", Args: `{"path":"b"}`}}
	return []Fault{
		good("broken arguments", "", Calls(Call{ID: "x", Name: "read", Args: `{"path": "a`}), Call{ID: "x", Name: "read", Args: `{"path": "a`}),
		good("index 0 for every call", "", Raw(
			delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"{\"path\""}}`), delta(`{"index":0,"function":{"arguments":":\"a\"}"}}`),
			delta(`{"index":0,"id":"y","function":{"name":"list","arguments":"{\"path\":\"b\"}"}}`), stop, done), named...),
		good("index 0 and no ids", "", Raw(
			delta(`{"index":0,"function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"index":0,"id":"","function":{"name":"list","arguments":"{\"path\":\"b\"}"}}`), stop, done), two...),
		good("no index", "", Raw(
			delta(`{"id":"x","function":{"name":"read","arguments":"{\"path\""}}`), delta(`{"function":{"arguments":":\"a\"}"}}`),
			delta(`{"id":"y","function":{"name":"list","arguments":"{\"path\":\"b\"}"}}`), stop, done), named...),
		good("the same id twice", "", Raw(
			delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}`), delta(`{"index":1,"id":"x","function":{"name":"list","arguments":"{\"path\":\"b\"}"}}`), stop, done),
			Call{ID: "x", Name: "read", Args: `{"path":"a"}`}, two[1]),
		good("the same id twice at one index", "", Raw(
			delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}`), delta(`{"index":0,"id":"x","function":{"name":"list","arguments":"{\"path\":\"b\"}"}}`), stop, done),
			Call{ID: "x", Name: "read", Args: `{"path":"a"}`}, two[1]),
		good("id and name in every piece", "", Raw(
			delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"{\"pa"}}`), delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"th\":\"a"}}`),
			delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"\"}"}}`), stop, done), named[0]),
		good("calls that take turns", "", Raw(
			delta(`{"index":0,"id":"x","function":{"name":"read","arguments":""}},{"index":1,"id":"y","function":{"name":"list","arguments":""}}`),
			delta(`{"index":1,"function":{"arguments":"{\"path\":"}}`), delta(`{"index":0,"function":{"arguments":"{\"path\":\"a\"}"}}`),
			delta(`{"index":1,"function":{"arguments":"\"b\"}"}}`), stop, done), named...),
		good("arguments as an object", "", Raw(delta(`{"index":0,"id":"x","function":{"name":"read","arguments":{"path":"a"}}}`), stop, done), named[0]),
		good("no name", "", Raw(delta(`{"index":0,"id":"x","function":{"arguments":"{}"}}`), stop, done), Call{ID: "x", Args: "{}"}),
		good("a number as id", "", Raw(delta(`{"index":0,"id":17,"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}`), stop, done), Call{ID: "17", Name: "read", Args: `{"path":"a"}`}),
		good("calls with the finish reason stop", "", Raw(delta(`{"index":0,"id":"x","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}`), Finish("stop"), done), named[0]),
		good("the older function_call", "", Raw(`data: {"choices":[{"delta":{"function_call":{"name":"read","arguments":"{\"path\":"}}}]}`+"\n\n",
			`data: {"choices":[{"delta":{"function_call":{"arguments":"\"a\"}"}}}]}`+"\n\n", Finish("function_call"), done), two[0]),
		good("plain JSON with calls", "", Status(200, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"id":"y","type":"function","function":{"name":"list","arguments":"{\"path\":\"b\"}"}}]},"finish_reason":"tool_calls"}]}`), named...),
	}
}
