// Package tools holds what a model can do in a project: read, write, edit,
// list, glob, grep, shell, git and fetch; the tools that keep Ralph's own notes:
// task, todo, goal, note, learn, decide, record_feature, ask_user and finish; and those
// with which one agent starts and steers others: spawn_agents, agent_status,
// message_agent, stop_agent, merge_agent and set_mode. One tool is one .go file
// and one .md file; the .md is what the model is told.
//
// It owns the confinement of file access (Workspace), the decoding of arguments
// and the shape of results: what Ralph says of a result is in its Head,
// never inside the data. It starts no process by itself (workers/exec does, held
// by workers/accesspolicy), decides no permission and stores no state: notes go to the
// Notebook it is given, and agents are the Crew's.
//
//	files, err := tools.OpenWorkspace(root)
//	if err != nil {
//		return err
//	}
//	defer files.Close()
//	loop.Tools = tools.All(&tools.Env{Root: root, Files: files, Proc: runner})
package tools
