package insights

import "time"

// The names of the rules, in the order of Rules.
const (
	repeatedError   = "repeated_error"
	retryStorm      = "retry_storm"
	flakyCheck      = "flaky_check"
	lowConfidence   = "low_confidence_success"
	overLongContext = "over_long_context"
	taskTooBig      = "task_too_big"
	idleForHuman    = "idle_waiting_for_human"
	slowStop        = "slow_stop"
)

// The thresholds of the rules.
const (
	minErrors         = 3
	minRetries        = 5
	stormSpan         = 10 * time.Minute
	defaultConfidence = 0.7
	maxContextShare   = 0.8
	bigFactor         = 3.0
	minFinished       = 3
	minBig            = 10 * time.Second
	minWait           = 5 * time.Minute
	maxStop           = time.Second
)

// Rules returns the rules, in the order in which findings of the same severity
// are sorted.
func Rules() []Rule {
	return []Rule{
		{repeatedError, "Repeated error", Medium, "≥ 3 errors of the same type and kind of task",
			"errors of the log and of errors-and-retries.json, by their type and the kind of the task (task, bug, feature, chore)",
			"Look at the first of these errors: what they have in common can be solved once, or told in AGENT.md so that it is known from the start."},
		{retryStorm, "Retry storm", High, "≥ 5 retries within 10 minutes",
			"retries of all tasks together, from the first of a storm to its last",
			"Look at what is tried again: if it is the endpoint, wait longer between the tries or ask for less at once; if it is a task, trying again does not help without a change of the plan."},
		{flakyCheck, "Flaky check", High, "the same check passed and failed on the same tree",
			"gates with a check, a result and the id of the tree that was checked",
			"Make the check repeatable (time, order, network, random numbers) or leave it out: as long as it is flaky, neither its passing nor its failing says anything."},
		{lowConfidence, "Low-confidence success", Medium, "succeeded with a confidence below the session's confidence_threshold (0.7 if it states none)",
			"the confidence of the decision or of the finished task, and how it came out",
			"Look at the result yourself, or give the task a check that proves it; if such results are mostly right, the threshold can be lowered."},
		{overLongContext, "Over-long context", Medium, "≥ 80 % of the context window in use",
			"the tokens of a request, or what an event says of the context, against the model's window",
			"Make the task smaller, compact earlier, or take a model with a larger window: models lose track in a full window, and every request costs the whole of it."},
		{taskTooBig, "Task too big", Low, "≥ 3 × the median duration of at least 3 finished tasks, and ≥ 10 s",
			"how long finished tasks were worked on, without the waits for a human",
			"Cut such a task into parts that can be checked on their own."},
		{idleForHuman, "Idle waiting for a human", Low, "one wait of ≥ 5 minutes",
			"from a question or a request for permission to its answer, while Ralph was running",
			"Answer such questions beforehand: a permission rule for what is always allowed, or the answer in AGENT.md or in the task."},
		{slowStop, "Slow stop", High, "> 1 s from the stop to rest",
			"hard stops; pauses and polite ends are none",
			"Look at what was running when the stop came: a process that cannot be ended at once, or a full disk. `ralph doctor` says which way of ending processes is active."},
	}
}

// maxFindings bounds the findings of one rule.
const maxFindings = 1000

func ruleNamed(name string) (Rule, int) {
	for i, r := range Rules() {
		if r.Name == name {
			return r, i
		}
	}
	return Rule{}, -1
}
