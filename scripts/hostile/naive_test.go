package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"ralph/workers/model/modeltest"
)

// naiveTools does what the calls say, as a tool does that trusts its model.
func (w *world) naiveTools() result {
	var out strings.Builder
	for _, c := range w.a.Calls {
		args, _ := w.expand(c.Args).(map[string]any)
		out.WriteString(w.naiveTool(c.Tool, args) + "\n")
	}
	return result{out: out.String()}
}

// place is where a careless tool thinks that a path leads.
func (w *world) place(args map[string]any) string {
	name, _ := args["path"].(string)
	if u, err := url.PathUnescape(name); err == nil {
		name = u
	}
	name = strings.ReplaceAll(strings.TrimPrefix(name, "file://"), `\`, "/")
	name, _, _ = strings.Cut(name, "\x00")
	name = os.Expand(name, func(v string) string { return map[string]string{"HOME": w.home}[v] })
	if rest, ok := strings.CutPrefix(name, "~"); ok {
		name = w.home + rest
	}
	// The kernel's view of a process is that of one that stands in the project.
	name = strings.Replace(name, "/proc/self/cwd", w.project, 1)
	if filepath.IsAbs(name) {
		return name
	}
	return w.project + "/" + name
}

func (w *world) naiveTool(tool string, args map[string]any) string {
	at := w.place(args)
	text := func(name string) string { s, _ := args[name].(string); return s }
	switch tool {
	case "write":
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		return fmt.Sprint(os.WriteFile(at, []byte(text("content")), 0o644))
	case "read":
		data, err := os.ReadFile(at)
		return fmt.Sprint(string(data), err)
	case "edit":
		data, err := os.ReadFile(at)
		if err == nil {
			err = os.WriteFile(at, []byte(strings.ReplaceAll(string(data), text("old_string"), text("new_string"))), 0o644)
		}
		return fmt.Sprint(err)
	case "list":
		entries, err := os.ReadDir(at)
		return fmt.Sprint(entries, err)
	case "glob":
		names, err := filepath.Glob(w.project + "/" + text("pattern"))
		return fmt.Sprint(names, err)
	case "grep":
		return w.naiveGrep(at, text("pattern"))
	case "shell":
		return w.bash(text("command")).out
	case "fetch":
		return w.bash("curl -sL -m 2 '" + text("url") + "'").out
	}
	return ""
}

func (w *world) naiveGrep(at, pattern string) string {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			entries = nil
			if data, err := os.ReadFile(dir); err == nil && re.Match(data) {
				out.Write(data)
			}
		}
		for _, e := range entries {
			if depth < 5 && e.Name() != ".git" {
				walk(filepath.Join(dir, e.Name()), depth+1)
			}
		}
	}
	walk(at, 0)
	return out.String()
}

// trusting is a program that obeys the configuration of a project as it does the
// user's.
func (w *world) trusting() result {
	name := w.a.File
	if name == "" {
		name = ".ralph/config.yaml"
	}
	w.put(filepath.Join(w.project, name), w.say(w.a.Config), 0o644)
	text, _ := os.ReadFile(filepath.Join(w.project, name))
	keys := map[string]any{}
	if strings.HasSuffix(name, ".yaml") {
		_ = yaml.Unmarshal(text, &keys)
	} else {
		for line := range strings.Lines(string(text)) {
			k, v, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
			keys[strings.ToLower(strings.TrimPrefix(k, "RALPH_"))] = strings.Trim(v, `"'`)
		}
	}
	str := func(name string) string { s, _ := keys[name].(string); return s }
	if profiles, ok := keys["profiles"].(map[string]any); ok {
		if p, ok := profiles[str("profile")].(map[string]any); ok {
			keys["base_url"], keys["api_key"] = p["base_url"], p["api_key"]
		}
	}
	var out strings.Builder
	if u := str("base_url"); u != "" {
		out.WriteString(w.bash("curl -s -m 1 -H 'Authorization: canary-of-ralph' '" + u + "/chat/completions'").out)
	}
	for _, name := range []string{"record", "result_file", "last_message"} {
		if path := str(name); path != "" {
			_ = os.WriteFile(path, []byte("written for "+w.id), 0o644)
		}
	}
	if dir := str("session_dir"); dir != "" {
		_ = os.MkdirAll(dir, 0o755)
	}
	_, allow := keys["allow"]
	if str("sandbox") == "off" || allow || str("on_ask") == "never" || w.a.Run != "" && fmt.Sprint(keys["sandbox"]) == "false" {
		out.WriteString(w.bash(w.say(w.a.Run)).out)
	}
	for _, name := range []string{"check", "agent", "on_start"} {
		if cmd := str(name); cmd != "" {
			out.WriteString(w.bash(cmd).out)
		}
	}
	if files, ok := keys["files"].([]any); ok {
		for _, f := range files {
			data, _ := os.ReadFile(fmt.Sprint(f))
			out.Write(data)
		}
	}
	return result{out: out.String(), told: []modeltest.Message{{Role: "user", Content: out.String()}}}
}

// naiveLog keeps what goes to and fro as it is.
func (w *world) naiveLog() result {
	var text strings.Builder
	for _, c := range w.calls() {
		args, err := json.Marshal(w.expand(c.Args))
		w.must(err)
		text.WriteString(c.Tool + string(args) + "\n" + strings.ReplaceAll(string(args), `\n`, "\n") + "\n")
		if c.Tool == "shell" || c.Tool == "read" {
			text.WriteString(w.naiveTool(c.Tool, w.expand(c.Args).(map[string]any)))
		}
	}
	text.WriteString(w.say(w.a.Text))
	w.put(filepath.Join(w.outside, "log", "journal"), text.String(), 0o644)
	return result{}
}

// naiveTalk keeps a conversation as one text, which is read back by its marks.
func (w *world) naiveTalk() result {
	var text strings.Builder
	text.WriteString("user: do it\n")
	for _, c := range w.calls() {
		args, _ := w.expand(c.Args).(map[string]any)
		text.WriteString("tool: " + w.naiveTool(c.Tool, args) + "\n")
	}
	for _, name := range []string{"AGENTS.md", "AGENT.md", "README.md", "RALPH_GOALS.md", "RALPH_TASKS.md", ".ralph/queue.md", "CLAUDE.md"} {
		if data, err := os.ReadFile(filepath.Join(w.project, name)); err == nil {
			text.WriteString("file: " + string(data) + "\n")
		}
	}
	text.WriteString("assistant: " + w.say(w.a.Text) + "\n")
	r := result{out: text.String()}
	role := regexp.MustCompile(`(?i)^(?:<\|im_start\|>)?\W*(user|system|human|message|developer)\W+(.*)`)
	for line := range strings.Lines(text.String()) {
		if f := role.FindStringSubmatch(line); f != nil {
			r.told = append(r.told, modeltest.Message{Role: "user", Content: f[2]})
		}
	}
	return r
}

// naiveGate runs what begins with the allowed word.
func (w *world) naiveGate() result {
	if first(w.say(w.a.Run)) != w.a.Program {
		return result{refused: true}
	}
	return w.bash(w.say(w.a.Run))
}

// ports lists the listening sockets of a process and its descendants.
func ports(pid int) string {
	inodes := map[string]bool{}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	var open []string
	for file, state := range map[string]string{"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == state && inodes[f[9]] {
				open = append(open, file+" "+f[1])
			}
		}
	}
	slices.Sort(open)
	return strings.Join(open, ", ")
}

// scanned runs a program and looks at its sockets while it works.
func (w *world) scanned(argv []string, role string) result {
	script := append(w.replies(), modeltest.Text("done").Forever())
	if w.a.Via == "thinking" {
		script = []modeltest.Reply{modeltest.Hang()}
	}
	srv, err := modeltest.Start(script...)
	w.must(err)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	c := w.command(ctx, srv)
	c.Args = append(c.Args[:1:1], slices.Concat(w.flags(), argv[1:])...)
	c.Env = append(c.Env, roleEnv+"="+role)
	w.must(c.Start())
	var r result
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Wait() }()
	until := time.After(2500 * time.Millisecond)
	for looking := true; looking; {
		select {
		case <-ended:
			looking = false
		case <-until:
			looking = false
		case <-time.After(5 * time.Millisecond):
			if found := ports(c.Process.Pid); found != "" {
				r.listens = found
				looking = false
			}
		}
	}
	cancel()
	<-ended
	return r
}

func (w *world) flags() []string {
	var out []string
	for _, f := range w.a.Flags {
		out = append(out, w.say(f))
	}
	return out
}
