package repl

import (
	"context"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/slash"
	"ralph/memory/config"
	"ralph/repl/line"
)

// knows keeps the names of the agents for the completion.
func (s *Shell) knows(list []crew.Agent) {
	words := names(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range words {
		if !slices.Contains(s.agentNames, w) {
			s.agentNames = append(s.agentNames, w)
		}
	}
}

// source says where the words of a completion come from that are not at hand.
type source string

// The sources.
const (
	fromNowhere  source = ""
	fromFiles    source = "file"
	fromSessions source = "session"
	fromTasks    source = "task"
	fromModels   source = "model"
	fromPlans    source = "plan or epic"
	fromQueue    source = "message"
	// fromTable is where commands come from, which are always at hand.
	fromTable source = "command"
)

// spot is the end of a line that is to be completed.
type spot struct {
	from  int    // the byte at which it begins
	typed string // what stands there
	name  string // of it, without the mark and quotes: what is looked for
	mark  string // what a file's name begins with: "@", or nothing
	words []line.Word
	more  source
}

// complete tells how a line can go on, from what is known; it runs on the goroutine
// that paints and waits for nothing. What has to be looked for is left to onComplete.
func (s *Shell) complete(text string) line.Completion {
	sp := s.spot(text)
	c := line.Completion{From: sp.from, Words: sp.matching()}
	switch {
	case sp.more == fromFiles:
		words, ok := s.filesAtHand(sp)
		if ok {
			c.Words = append(c.Words, words...)
		} else {
			c.Words, c.Ask = nil, true
		}
	case sp.more != fromNowhere && sp.more != fromTable && len(c.Words) == 0:
		c.Ask = true
	}
	return c
}

// matching are the words at hand that begin with what is typed.
func (sp spot) matching() []line.Word {
	var found []line.Word
	for _, w := range sp.words {
		if strings.HasPrefix(w.Text, sp.typed) {
			found = append(found, w)
		}
	}
	return found
}

// filesAtHand completes a path like a shell, when the files are known, are few, and
// nothing else could be meant.
func (s *Shell) filesAtHand(sp spot) ([]line.Word, bool) {
	paths, ok := s.finder.fresh(time.Now())
	if !ok || len(paths) > filesAtOnce || sp.name == "" || len(elsewhere(paths, sp.name)) > 0 {
		return nil, false
	}
	found := steps(paths, sp.name, listedAtOnce)
	if len(found) == 0 && len(sp.matching()) > 0 {
		return nil, true
	}
	if len(found) == 0 || len(found) > listedAtOnce {
		return nil, false
	}
	words := make([]line.Word, len(found))
	for i, p := range found {
		words[i].Text = pathWord(sp.mark, p)
		if !strings.HasPrefix(words[i].Text, sp.typed) {
			return nil, false // it gets quotes: it has to be put in anew
		}
	}
	return words, true
}

// spot finds out what stands at the end of a line.
func (s *Shell) spot(text string) spot {
	s.mu.Lock()
	agents, tasks := slices.Clone(s.agentNames), slices.Clone(s.taskIDs)
	s.mu.Unlock()
	slices.Sort(agents)
	begun := strings.TrimLeft(text, " ")
	first, _, more := strings.Cut(begun, " ")
	sp := word(text)
	nr := len(strings.Fields(text[:sp.from])) // how many words stand before it
	switch {
	case !more && strings.HasPrefix(begun, "/") && !strings.Contains(begun[1:], "/"):
		sp.words, sp.more = commandWords(), fromTable
	case strings.HasPrefix(begun, ownMark):
		if nr > 0 {
			sp.more = fromFiles
		}
	case strings.HasPrefix(sp.typed, "@"):
		sp.mark, sp.more = "@", fromFiles
		if nr == 0 || nr == 1 && slices.Contains([]string{"/now", "/later"}, first) {
			for _, name := range agents {
				sp.words = append(sp.words, line.Word{Text: "@" + name + ": ", Detail: "agent"})
			}
		}
	case strings.HasPrefix(first, "/") && nr > 0:
		s.argument(&sp, strings.TrimPrefix(first, "/"), strings.Fields(text[:sp.from])[1:], agents, tasks)
	}
	return sp
}

// word is the last word of a line: from a quote that is open, else from the last
// blank.
func word(text string) spot {
	quote := -1
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '"':
		case quote >= 0:
			quote = -1
		case i == 0 || strings.ContainsRune(" \t\n@", rune(text[i-1])):
			quote = i
		}
	}
	from := strings.LastIndexAny(text, " \n\t") + 1
	if quote >= 0 {
		from = quote
		if quote > 0 && text[quote-1] == '@' {
			from--
		}
	}
	if i := strings.LastIndexByte(text[from:], '@'); i > 0 && quote < 0 && strings.ContainsRune("([{<\"'`,;", rune(text[from+i-1])) {
		from += i // a mention may stand in brackets
	}
	typed := text[from:]
	return spot{from: from, typed: typed, name: strings.TrimPrefix(strings.TrimPrefix(typed, "@"), `"`)}
}

func commandWords() []line.Word {
	var words []line.Word
	for _, c := range slash.Table() {
		words = append(words, line.Word{Text: "/" + c.Name + " ", Detail: c.Summary})
	}
	slices.SortFunc(words, func(a, b line.Word) int { return strings.Compare(a.Text, b.Text) })
	return words
}

func words(list ...string) []line.Word {
	found := make([]line.Word, len(list))
	for i, w := range list {
		found[i].Text = w
	}
	return found
}

// argument completes what follows a command; before are the words between.
func (s *Shell) argument(sp *spot, command string, before, agents, tasks []string) {
	c, _, _ := slash.Find(command)
	if c.Name == "run" {
		runFlag(sp, before)
		return
	}
	verb := ""
	if len(before) > 0 {
		verb = before[0]
	}
	switch at := c.Name + " " + verb; {
	case at == "help ":
		sp.words = helpWords()
	case at == "plan ":
		sp.words = words(planVerbs()...)
	case at == "plan switch":
		sp.more = fromPlans
	case at == "why ":
		sp.words, sp.more = words(tasks...), fromTasks
	case at == "agents ":
		sp.words = words(append(agents, "merge ", "prune ")...)
	case at == "agents prune", at == "agents merge" && len(before) == 1, at == "stop ", at == "resume ", at == "diff ":
		sp.words = words(agents...)
	case at == "queue ":
		sp.words = words("drop ", "edit ", "urgent ")
	case c.Name == "queue" && len(before) == 1:
		sp.more = fromQueue
	case at == "model ":
		sp.more = fromModels
	case at == "sessions ":
		sp.words, sp.more = words("switch "), fromSessions
	case at == "handoff ":
		sp.words, sp.more = words("to "), fromSessions
	case (at == "sessions switch" || at == "handoff to") && len(before) == 1:
		sp.more = fromSessions
	case at == "config ":
		sp.words = configWords()
	case at == "edit ":
		sp.words, sp.more = words(stateFiles()...), fromFiles
	case at == "trace ":
		sp.more = fromFiles
	case c.Name == "check" && verb != "":
		sp.more = fromFiles
	}
}

func helpWords() []line.Word {
	var found []line.Word
	for _, c := range slices.Concat(slash.Table(), slash.Topics()) {
		found = append(found, line.Word{Text: c.Name, Detail: c.Summary})
	}
	return found
}

func configWords() []line.Word {
	found := []line.Word{{Text: allSettings, Detail: "every setting"}}
	for _, k := range config.Keys() {
		found = append(found, line.Word{Text: k.Name, Detail: k.Help})
	}
	return found
}

// runFlag completes the flags of /run, and the values of some.
func runFlag(sp *spot, before []string) {
	last := ""
	if len(before) > 0 {
		last = strings.TrimPrefix(before[len(before)-1], "--")
	}
	for _, k := range slash.RunKeys() {
		sp.words = append(sp.words, line.Word{Text: "--" + k.Flag + " ", Detail: k.Help})
		if k.Flag != last {
			continue
		}
		switch {
		case len(k.Values) > 0:
			sp.words = words(k.Values...)
			return
		case last == "plan", last == "prompt":
			sp.words, sp.more = nil, fromFiles
			return
		case last == "epic":
			sp.words, sp.more = nil, fromPlans
			return
		case k.Kind != config.KindBool:
			sp.words = nil
			return
		}
	}
	slices.SortFunc(sp.words, func(a, b line.Word) int { return strings.Compare(a.Text, b.Text) })
}

// lineNow is the half-typed line, as it stands when all that was asked of the line
// reader before is done; false when nobody can tell.
func (s *Shell) lineNow(ctx context.Context) (string, bool) {
	return s.readLine(ctx, func(text string) string { return text })
}

// lineFor is the half-typed line that answers the question of that number.
func (s *Shell) lineFor(ctx context.Context, ask int) string {
	text, _ := s.readLine(ctx, func(text string) string { return *s.slate.of(ask, &text) })
	return text
}

// readLine reads something of the line, as which does it on the painting goroutine.
func (s *Shell) readLine(ctx context.Context, which func(text string) string) (string, bool) {
	got := make(chan string, 1)
	s.reader.Edit(func(text string, _ func(string) string) string {
		got <- which(text)
		return text
	})
	t := time.NewTimer(lineWait)
	defer t.Stop()
	select {
	case text := <-got:
		return text, true
	case <-ctx.Done():
	case <-t.C:
	}
	return "", false
}

// lineWait bounds how long the line is waited for.
const lineWait = 500 * time.Millisecond
