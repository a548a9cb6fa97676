// Package line is the chat's hold on the terminal. One broker owns it: it reads
// the keys, edits the line, prints finished output above the prompt and paints
// the few rows at the bottom that change.
//
// It owns raw mode, key decoding, the editing engine (chzyer/readline, which
// here only edits: it neither reads nor draws), the layout of the prompt, and
// the history file. It refuses to know what a line means: it has no commands
// and no coordinator. Text handed to Print and Show must already be safe; text
// that the user types is made visible here.
//
//	r, err := line.Open(line.Options{In: os.Stdin, Out: os.Stdout})
//	defer r.Close()
//	r.Show(line.Prompt{Text: "ralph", Mark: "❯ "})
//	for e := range r.Events() { … }
//
// Open returns the plain reader when there is no terminal, when TERM is dumb,
// or when RALPH_PLAIN=1: lines in, text out, no cursor movement.
package line

import (
	"os"

	"golang.org/x/term"
)

// LineReader is a conversation's terminal. All methods may be called from any
// goroutine; none but Close waits for the terminal.
type LineReader interface {
	// Events delivers what the user did, in order. The channel is closed after
	// EventEOF, EventGone or Close; it must be drained by one goroutine.
	Events() <-chan Event
	// Print puts whole lines above the prompt; a missing last newline is added.
	// live replaces the rows of Prompt.Live in the same step, so that what moves
	// from there into text is never seen twice.
	Print(text string, live ...string)
	// Show sets what stands below the printed text. Calls that change only the
	// look are painted at most ten times a second.
	Show(p Prompt)
	Editor
	// Close prints what is pending, takes the prompt off the screen and gives
	// the terminal back as it was found.
	Close() error
}

// Editor changes the half-typed line.
type Editor interface {
	// Edit replaces the half-typed line by what change makes of it. change is
	// called once, later, on the goroutine that paints, in the order of the calls
	// to Edit and never two at a time; it must not block. It is not called when
	// the reader ended before, nor where nobody can edit a line.
	Edit(change Change)
	// Replace puts text in place of what stands in the line from the byte from of
	// before up to the cursor, if before still is the line up to the cursor: the
	// answer to EventComplete. Where nobody can edit a line it does nothing.
	Replace(before string, from int, text string)
}

// Change makes a new line of the half-typed one, in which a long paste stands
// as a token. fold makes such a token of a text that is to go into the line,
// when it is long.
type Change func(line string, fold func(text string) string) string

// EventKind says what the user did.
type EventKind int

// What the user can do.
const (
	// EventLine carries a submitted line, pastes unfolded, without its newline.
	EventLine EventKind = iota
	// EventInterrupt is a Ctrl-C that Options.OnInterrupt did not take. The line
	// has been cleared; Text holds what stood there.
	EventInterrupt
	// EventStopped follows a Ctrl-C that Options.OnInterrupt took, in its place
	// among the lines: what came before it was typed before the stop.
	EventStopped
	// EventEOF is Ctrl-D on an empty line, or the end of a plain input.
	EventEOF
	// EventGone says that the terminal vanished; Err says how it was noticed.
	EventGone
	// EventResize says that the terminal has Cols columns and Rows rows now.
	EventResize
	// EventComplete says that Options.Complete left the completion of Text, the line
	// up to the cursor, to whoever reads the events. LineReader.Replace answers it.
	EventComplete
	// EventEditor says that the user wants to go on with the line, Text with its
	// pastes unfolded, in an editor. LineReader.Edit brings back what came of it.
	EventEditor
)

// Completion is what the end of a line may be completed to.
type Completion struct {
	// From is the byte of the line at which that begins.
	From int
	// Words are what is known now, best first.
	Words []Word
	// Ask says that the words have to be found, or chosen from, elsewhere: an
	// EventComplete follows.
	Ask bool
}

// Word is one way to complete a line.
type Word struct {
	// Text is what is put in; Detail says in a few words what it is.
	Text, Detail string
}

// Event is one thing the user did.
type Event struct {
	Kind EventKind
	Text string
	// Ask is the Prompt.Ask that was on the screen when the line was ended, or went
	// to an editor.
	Ask        int
	Err        error
	Cols, Rows int
}

// Prompt is the part of the screen below the printed text.
type Prompt struct {
	// Live are rows above the input that are replaced as a whole: the tail of
	// what is being written. Each is cut to the width.
	Live []string
	// Text is the state shown before Mark; it is cut to half the width.
	Text string
	// Mark ends the prompt, for example "❯ ".
	Mark string
	// Now asks for a repaint at once: the state changed, not only its looks.
	Now bool
	// Above is printed as by Print in the step in which the prompt is set, so that a
	// question is never seen without its prompt. It is printed once.
	Above string
	// Ask numbers the question that the prompt puts, 0 for none. What was typed
	// before it was on the screen is not typed for it: it goes to the line before,
	// or nowhere.
	Ask int
	// Turn, when set, is called as by Edit in the step in which a prompt with
	// another Ask than the last one is painted for the first time.
	Turn Change
}

// Options is what Open needs.
type Options struct {
	In, Out *os.File
	// Getenv reads the environment; nil means an empty one.
	Getenv func(string) string
	// Plain asks for the plain reader whatever the terminal can do.
	Plain bool
	// History holds earlier lines, oldest first, for recall and search.
	History []string
	// EditMode is how keys edit: "vi", or "emacs", which "" means too.
	EditMode string
	// Draft is the line that stands in the prompt at the start.
	Draft string
	// OnDraft is told the half-typed line, with its pastes unfolded, when it has
	// changed and rested for a moment, and when it was submitted or cleared (""); at
	// once before EventEditor, a stop by Ctrl-Z and the end. What is typed while
	// Prompt.Ask puts a question is no draft. It is called on the goroutine that
	// paints and must not block.
	OnDraft func(text string)
	// Complete returns what the end of text, the line up to the cursor, may be
	// completed to; nil completes nothing. It is called on the goroutine that paints
	// and must not block.
	Complete func(text string) Completion
	// OnInterrupt is called at each Ctrl-C, on the goroutine that reads the keys
	// and before anything else is done, so that nothing can delay a stop. It
	// must not block. True means that work was stopped: the half-typed line is
	// kept and EventStopped follows.
	OnInterrupt func() bool
	// OnGone is called at most once when a write fails, on the goroutine that
	// wrote: nobody reads what is printed any more. It must not block.
	OnGone func(error)
}

// Open takes the terminal. It returns the plain reader when In or Out is not a
// terminal or moving the cursor is not wanted; errors come only from a terminal
// that cannot be switched to raw mode.
func Open(o Options) (LineReader, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if !Capable(o) {
		return newPlain(o)
	}
	return openTerm(o)
}

// Capable reports whether Open would take the terminal with cursor movement.
func Capable(o Options) bool {
	if o.Plain || o.In == nil || o.Out == nil {
		return false
	}
	if o.Getenv != nil {
		kind := o.Getenv("TERM")
		if kind == "" || kind == "dumb" || o.Getenv("RALPH_PLAIN") == "1" {
			return false
		}
	}
	return term.IsTerminal(int(o.In.Fd())) && term.IsTerminal(int(o.Out.Fd()))
}

// Size returns the columns and rows of the terminal behind out, 80 by 24 when
// it has none.
func Size(out *os.File) (cols, rows int) {
	if out == nil {
		return 80, 24
	}
	cols, rows, err := term.GetSize(int(out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return 80, 24
	}
	return cols, rows
}
