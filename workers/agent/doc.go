// Package agent is the turn loop that the coordinator and its children share:
// ask the model, run the tools that it calls, answer it, until it ends.
//
// It owns the vocabulary of that loop (Message, Call, Tool, Model, Event) and
// the rules that keep a transcript valid: each call gets exactly one answer,
// also a call that a stop kept from running, and nothing of an incomplete reply
// is ever executed. It refuses policy: what may run, when to give up for good
// and where anything is written is decided by the functions that its owner
// hands to Loop. It imports no other package of Ralph.
//
//	loop := agent.Loop{Agent: "ralph", Model: m, Tools: tools, Emit: show}
//	end := loop.Run(ctx, []agent.Message{{Role: agent.RoleUser, Text: "fix the test"}})
//	if end.Err == nil {
//		fmt.Println(end.Final.Text)
//	}
package agent
