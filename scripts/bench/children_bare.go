package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// loops is the floor: as many loops of net/http, which send the same requests,
// read the same file, and keep nothing.
func (c *crowd) loops(ctx context.Context) (wait, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	transport := &http.Transport{MaxIdleConns: c.Agents, MaxIdleConnsPerHost: c.Agents}
	client := &http.Client{Transport: transport}
	var ended sync.WaitGroup
	for i := range c.Agents {
		ended.Go(func() {
			if err := c.bare(ctx, client, i); err != nil && !errors.Is(context.Cause(ctx), errEnough) {
				c.fail(err)
			}
		})
	}
	return ended.Wait, func() {
		cancel(errEnough)
		ended.Wait()
		transport.CloseIdleConnections()
	}, nil
}

// bareMessage is a message on the wire.
type bareMessage struct {
	Role    string     `json:"role"`
	Content string     `json:"content"`
	Calls   []bareCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type bareCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// bare is one loop.
func (c *crowd) bare(ctx context.Context, client *http.Client, i int) error {
	talk := []bareMessage{{Role: "system", Content: strings.Repeat("You work on one part of a project, beside others. ", 40)},
		{Role: "user", Content: fmt.Sprintf("Read notes.txt, a part at a time, and say what is in it: implement_part_%d", i)}}
	for {
		reply, err := c.bareAsk(ctx, client, talk)
		if err != nil {
			return err
		}
		c.turns[i].Add(1)
		talk = append(talk, reply)
		if len(reply.Calls) == 0 {
			return nil
		}
		for _, call := range reply.Calls {
			var args struct {
				Path          string
				Offset, Limit int
			}
			if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil {
				return err
			}
			text, err := os.ReadFile(filepath.Join(c.Root, args.Path))
			if err != nil {
				return err
			}
			lines := strings.SplitAfter(string(text), "\n")
			part := strings.Join(lines[args.Offset-1:args.Offset-1+args.Limit], "")
			talk = append(talk, bareMessage{Role: "tool", CallID: call.ID, Content: part})
		}
	}
}

func (c *crowd) bareAsk(ctx context.Context, client *http.Client, talk []bareMessage) (bareMessage, error) {
	messages, err := json.Marshal(talk)
	if err != nil {
		return bareMessage{}, err
	}
	parts := []string{`{"model":"herd","stream":true,"tools":`, string(c.Tools), `,"messages":`, string(messages), "}"}
	body := strings.NewReader(strings.Join(parts, ""))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/chat/completions", body)
	if err != nil {
		return bareMessage{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return bareMessage{}, err
	}
	defer resp.Body.Close()
	reply := bareMessage{Role: "assistant"}
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
					ToolCalls []bareCall `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return bareMessage{}, err
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != "" {
				text.WriteString(choice.Delta.Content)
				c.busy.Add(1)
			}
			reply.Calls = append(reply.Calls, choice.Delta.ToolCalls...)
		}
	}
	reply.Content = text.String()
	return reply, lines.Err()
}
