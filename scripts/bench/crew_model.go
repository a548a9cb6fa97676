package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// crewWord in a message of the user has the coordinator spawn its children.
const crewWord = "crew"

// crewModel is the model of a coordinator and its children: the children run one
// command in each turn and then say that they are done.
type crewModel struct {
	latency  time.Duration // before each answer begins
	children int
	// commands are what a child runs, one in a turn.
	commands func(child string) []string

	mu       sync.Mutex // guards requests
	requests int
}

// asked is a request as far as the model of a crew reads it.
type asked struct {
	Messages []struct {
		Role, Content string
	}
	Tools []json.RawMessage
}

// childName finds who asks; the coordinator is told no name.
var childName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`You are agent (\w+), one of several`) })

func (m *crewModel) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

// ServeHTTP answers one request.
func (m *crewModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q asked
	if err != nil || json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	m.mu.Lock()
	m.requests++
	m.mu.Unlock()
	select {
	case <-time.After(m.latency):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	m.answer(w, q, body)
	w.(http.Flusher).Flush()
}

func (m *crewModel) answer(w http.ResponseWriter, q asked, body []byte) {
	last := q.Messages[len(q.Messages)-1]
	turn := bytes.Count(body, []byte(`"role":"tool"`))
	child := childName().FindSubmatch(body)
	switch {
	case len(q.Tools) == 0:
		token(w, "ok")
	case child != nil:
		commands := m.commands(string(child[1]))
		if turn < len(commands) {
			args, _ := json.Marshal(map[string]any{"command": commands[turn], "timeout_seconds": 3600}) // always encodes
			call(w, turn, "shell", string(args))
			finish(w, "tool_calls")
			return
		}
		token(w, "it is done")
	case last.Role == "user" && strings.Contains(last.Content, crewWord):
		call(w, turn, "spawn_agents", m.spawn())
		finish(w, "tool_calls")
		return
	default:
		token(w, "all is done")
	}
	finish(w, "stop")
}

// spawn asks for the children.
func (m *crewModel) spawn() string {
	type one struct {
		Name string `json:"name"`
		Task string `json:"task"`
	}
	list := make([]one, m.children)
	for i := range list {
		list[i] = one{fmt.Sprintf("part_%d", i+1), fmt.Sprintf("Do part %d of the work", i+1)}
	}
	args, _ := json.Marshal(map[string]any{"agents": list}) // always encodes
	return string(args)
}
