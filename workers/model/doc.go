// Package model speaks the OpenAI chat-completions protocol with any endpoint
// that offers it, and answers as an agent.Model.
//
// It owns three things. The Client sends a transcript and streams the reply;
// it knows the ways in which endpoints fail, retries what had no effect, and
// never reports a reply that was cut off as a whole one. Choose picks the
// endpoint from the user's side alone: flags, environment, user configuration,
// local servers. Cassettes record every exchange to a readable file and play it
// back through the real client and real HTTP.
//
// It refuses to know tools, prompts and money: a tool is a schema to it, broken
// arguments are passed on as text, and a cost is only what the endpoint says.
// A key goes to the host that it was given for and to no other; redirects to
// another host are refused.
//
//	end, err := model.Choose(ctx, model.Wish{Getenv: os.Getenv, ProbeLocal: true})
//	if err != nil {
//		return err // a *model.Error with a hint
//	}
//	c := model.New(model.Options{Endpoint: end})
//	defer c.Close()
//	reply, err := c.Complete(ctx, agent.Request{
//		Agent:    "ralph",
//		Messages: []agent.Message{{Role: agent.RoleUser, Text: "hello"}},
//	}, func(d agent.Delta) { fmt.Print(d.Text) })
//
// Requests are built by go-openai (envelope, address, credentials, checks of
// what a model takes, error bodies, the list of models). The hot path is ours:
// go-openai's stream reader takes a cut stream for a whole one, does not see
// errors beside choices, loses Retry-After and decodes each chunk through
// regular expressions, so the Client keeps the response that passes through its
// HTTPDoer and decodes it itself, each chunk once.
package model
