package coordinator

import (
	"ralph/coordinator/transcript"
	"ralph/memory/exchange"
	"ralph/workers/agent"
)

// Texts that Ralph puts between messages that strict chat templates do not take
// side by side: the roles of user and model must alternate.
const (
	cutOff       = "\n\n(stopped here, before the reply was complete; the user saw this much)"
	fillNoAnswer = "(no answer was given: that turn ended before)"
	fillNoted    = "(noted)"
	fillEnded    = "(that turn ended here)"
	fillCame     = "(the user says something meanwhile)"
	fillBegin    = "(what the user said before is left out)"
	fillGoOn     = "(what the user said here is left out)"
)

// worded is a transcript as a model is sent it: each reply that was cut off says
// so, and the roles alternate. What stands at one place depends only on what
// stands before, so that a longer transcript begins with the same bytes. The
// transcript itself keeps the words that were really said.
func worded(transcript []agent.Message) []agent.Message {
	fine := true
	for i, m := range transcript {
		fine = fine && !m.Partial && filler(transcript[:i], m).Text == ""
	}
	if fine {
		return transcript
	}
	out := make([]agent.Message, 0, len(transcript)+8)
	for i, m := range transcript {
		if f := filler(transcript[:i], m); f.Text != "" {
			out = append(out, f)
		}
		if m.Partial {
			m.Text += cutOff
		}
		out = append(out, m)
	}
	return out
}

// filler is what must stand between before and m; its text is empty when
// nothing must.
func filler(before []agent.Message, m agent.Message) agent.Message {
	none := agent.Message{}
	if len(before) == 0 || before[len(before)-1].Role == agent.RoleSystem {
		if m.Role == agent.RoleAssistant && len(before) > 0 {
			return agent.Message{Role: agent.RoleUser, Text: fillBegin}
		}
		return none
	}
	last := before[len(before)-1]
	switch {
	case m.Role == agent.RoleUser && (transcript.IsRecall(last) || exchange.IsHanded(last.Text) && last.Role == agent.RoleUser):
		return agent.Message{Role: agent.RoleAssistant, Text: fillNoted}
	case m.Role == agent.RoleUser && last.Role == agent.RoleUser:
		return agent.Message{Role: agent.RoleAssistant, Text: fillNoAnswer}
	case m.Inbox != "" && last.Role == agent.RoleTool:
		return agent.Message{Role: agent.RoleAssistant, Text: fillCame}
	case m.Role == agent.RoleUser && last.Role == agent.RoleTool:
		return agent.Message{Role: agent.RoleAssistant, Text: fillEnded}
	case m.Role == agent.RoleAssistant && last.Role == agent.RoleAssistant:
		return agent.Message{Role: agent.RoleUser, Text: fillGoOn}
	}
	return none
}
