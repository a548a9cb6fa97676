// Package page makes the HTML page of a session: one file that a browser shows
// without scripts and without a request, in light and dark, on a phone, on a
// wide screen and on paper.
//
// It owns how a session looks as a page, and the timeline that is drawn on it.
// It computes no figures of its own, starts nothing, and writes to nothing but
// the writer that it is given. All text of a session is foreign: it stands on
// the page as text, clipped, with what is invisible shown.
//
//	c := page.New()
//	folder.Events(fsys, dir, …c.Event…)
//	session.ReadRecords(fsys, journal, …c.Record…)
//	err := page.Write(w, page.Input{Data: data, Timeline: c.Result(data), Figures: figures})
package page

import (
	"time"

	"ralph/memory/session/folder"
	"ralph/scripts/report/insights"
)

// Input is what the page tells. All texts in it may be foreign. The zero Input
// makes a page too, of a session that says nothing.
type Input struct {
	Data     folder.Data
	Timeline Timeline
	Figures  Figures
	Findings []insights.Finding
	// Differences are what the files say against each other, a line each.
	Differences []string
	// Notes are what is to be known about the data: cut, out of order, skipped.
	Notes []string
	// Generated is when the page was made; zero leaves it out, so that the same
	// data make the same bytes.
	Generated time.Time
}

// Figures are the numbers of the analysis that the page shows. nil is unknown
// and is shown as such, durations are seconds, rates are from 0 to 1.
type Figures struct {
	// Standing is how the session stands, when that is known better than the
	// metadata know it: running, interrupted, completed. Empty: the metadata's.
	Standing string
	Kind     string // run, chat, task
	Model    string // all that were used, as one reads them
	RunID    string
	Sandbox  string
	// Answer is what was said at the end.
	Answer string
	// Seconds is how long it was worked, without what lies between two sittings.
	Seconds *float64

	Tasks     TaskFigures
	Kinds     []Group // success by kind of task
	Slowest   []Work
	Time      []Share // where the time went; may sum to more than Seconds
	Tokens    Spent   // all of it
	ByModel   []Spent
	ByAgent   []Spent
	ByTask    []Spent
	Retries   int
	Errors    int
	Resolved  int // of the errors
	Gates     []Group
	Breakers  int
	Interrupt Latency
	Waits     Latency // for the human
	Confident []Calibration
}

// TaskFigures count the tasks by how they stand, and how long they took.
type TaskFigures struct {
	Total, Done, Failed, Skipped, Running, Open int
	Median, P95, Mean, Max                      *float64
}

// Group is a number of attempts under one name: a kind of task, a check.
type Group struct {
	Name            string
	N, Done, Failed int
	Median          *float64 // seconds
}

// Work is one task and how long it took.
type Work struct {
	ID, Name, Kind string
	Attempts       int
	Seconds        float64
}

// Share is a part of the time.
type Share struct {
	Name    string // model, tools, checks, human, idle, other
	Seconds float64
}

// Spent is what a model, an agent, a task or the whole used.
type Spent struct {
	Name                                    string
	Requests, Tools                         int
	Input, Cached, Output, Reasoning, Total int64
	Cost                                    *float64 // US dollars
	Seconds                                 *float64
}

// Latency sums up how long something took each time.
type Latency struct {
	N                int
	Median, P95, Max *float64 // seconds
}

// Calibration holds declared confidence against what came of it.
type Calibration struct {
	Of    string // whose confidence: decisions, agents
	N     int
	Brier *float64
	Error *float64 // expected calibration error
	Bins  []Bin
}

// Bin is the declarations whose confidence lies from Low to High.
type Bin struct {
	Low, High  float64
	N          int
	Confidence float64 // mean
	Success    float64 // rate
}
