package exchange

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/session/keep"
)

// sums are what the metadata of a session says of its tasks.
type sums struct {
	done, total   int
	rate, average float64 // of those that are done or given up; seconds
}

func sumsOf(tasks []folder.TaskState) sums {
	s := sums{done: completed(tasks), total: len(tasks)}
	failed, timed, seconds := 0, 0, 0.0
	for _, t := range tasks {
		if t.Status == folder.TaskError {
			failed++
		}
		if over := t.Status == folder.TaskCompleted || t.Status == folder.TaskError || t.Status == folder.TaskSkipped; over && t.DurationSeconds != nil {
			timed, seconds = timed+1, seconds+*t.DurationSeconds
		}
	}
	if n := s.done + failed; n > 0 {
		s.rate = math.Round(10000*float64(s.done)/float64(n)) / 10000
	}
	if timed > 0 {
		s.average = math.Round(1000*seconds/float64(timed)) / 1000
	}
	return s
}

// dumped is progress-tracking.yaml. A YAML encoder holds many times what it
// writes: the tasks go through it some at a time.
func dumped(p folder.Progress) ([]byte, error) {
	const some = 1000
	tasks := p.Tasks
	if len(tasks) <= some {
		return dump(p)
	}
	p.Tasks = []folder.TaskState{}
	text, err := dump(p)
	if err != nil {
		return nil, err
	}
	head, rest, found := bytes.Cut(text, []byte("\ntasks: []\n"))
	if !found {
		p.Tasks = tasks
		return dump(p)
	}
	out := append(head, "\ntasks:\n"...)
	for part := range slices.Chunk(tasks, some) {
		if text, err = dump(part); err != nil {
			return nil, err
		}
		out = append(out, text...)
	}
	return append(out, rest...), nil
}

// dump is the YAML of a part of a session's files.
func dump(v any) ([]byte, error) {
	node, err := keep.Encode(v)
	if err != nil {
		return nil, err
	}
	return yaml.Dump(node)
}

// recount brings the metadata of a session that nobody has open in step with its
// tasks. What else it says stays.
func recount(o Options, s retention.Session, tasks []folder.TaskState) error {
	file := filepath.Join(o.StateDir, filepath.FromSlash(s.Path), session.MetadataFile)
	data, err := durable.ReadFile(o.FS, file, maxFileBytes)
	if err != nil {
		return err
	}
	node, err := readYAML(data)
	if err != nil {
		return nil // it is told when the session is looked at, and not mended here
	}
	is := sumsOf(tasks)
	setScalar(node, "tasks_completed", strconv.Itoa(is.done), "!!int")
	setScalar(node, "tasks_total", strconv.Itoa(is.total), "!!int")
	for i := 0; i+1 < len(node.Content); i += 2 {
		if p := node.Content[i+1]; node.Content[i].Value == "performance_metrics" && p.Kind == yaml.MappingNode {
			setScalar(p, "success_rate", strconv.FormatFloat(is.rate, 'f', -1, 64), "!!float")
			setScalar(p, "average_task_duration", strconv.FormatFloat(is.average, 'f', -1, 64), "!!float")
		}
	}
	if data, err = yaml.Dump(node); err != nil {
		return err
	}
	return durable.Replace(o.FS, file, data, 0o600)
}
