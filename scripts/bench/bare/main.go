// Bare is the least that does the work of a one-shot: a net/http loop that
// streams chat completions, runs the shell calls and prints the answer. It
// keeps no state, checks nothing and handles no fault; it is the floor that
// Ralph is measured against.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Calls   []call `json:"tool_calls,omitempty"`
	CallID  string `json:"tool_call_id,omitempty"`
}

func main() {
	url, model := os.Args[1], os.Args[2]
	talk := []message{{Role: "user", Content: "go"}}
	for {
		reply, err := ask(url, model, talk)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		talk = append(talk, reply)
		if len(reply.Calls) == 0 {
			fmt.Println(reply.Content)
			return
		}
		for _, c := range reply.Calls {
			var args struct{ Command string }
			if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			out, _ := exec.Command("bash", "-c", args.Command).CombinedOutput() // a failing command is data
			talk = append(talk, message{Role: "tool", CallID: c.ID, Content: string(out)})
		}
	}
}

func ask(url, model string, talk []message) (message, error) {
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "messages": talk})
	if err != nil {
		return message{}, err
	}
	resp, err := http.Post(url+"/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	reply := message{Role: "assistant"}
	var text strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string
					ToolCalls []call `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return message{}, err
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
			reply.Calls = append(reply.Calls, c.Delta.ToolCalls...)
		}
	}
	reply.Content = text.String()
	return reply, lines.Err()
}
