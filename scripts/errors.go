package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/text"
)

// fault is an error of this face that knows how the program ends by it and the
// way out.
type fault struct {
	status result.Status
	kind   string
	text   string
	hint   string
	err    error
}

func (f *fault) Error() string {
	if f.err == nil {
		return f.text
	}
	return f.text + ": " + f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// usage returns the error of a mistake on the command line: exit 2.
func usage(hint, format string, args ...any) error {
	return &fault{status: result.Usage, kind: "usage", text: fmt.Sprintf(format, args...), hint: hint}
}

// broken returns an error of Ralph's own doing or of its surroundings: exit 1.
func broken(kind, hint string, err error, format string, args ...any) error {
	return &fault{status: result.Failed, kind: kind, text: fmt.Sprintf(format, args...), hint: hint, err: err}
}

// ending says how err ends the program: the status, the signal that caused it
// (0 for none) and the explanation for the person.
func ending(err error) (result.Status, int, *result.Failure) {
	var f *fault
	var stop *interrupts.Stop
	switch {
	case errors.As(err, &f):
		return f.status, 0, &result.Failure{Kind: f.kind, Message: f.Error(), Hint: f.hint}
	case errors.Is(err, context.Canceled):
		return result.Interrupted, 0, &result.Failure{Kind: "interrupted", Message: "interrupted"}
	}
	signal := 0
	if errors.As(err, &stop) {
		signal = int(stop.Signal)
	}
	status, failure := coordinator.Fail(err)
	if failure == nil {
		failure = &result.Failure{Kind: "internal", Message: err.Error()}
	}
	return status, signal, failure
}

// wayOut is the hint of a failure that brings none of its own: nobody is left
// with an error alone.
func wayOut(s result.Status, kind string) string {
	switch kind {
	case "io":
		return "see that there is room and that the place can be written, then run it again"
	case "incomplete":
		return "the endpoint or the network broke off: run it again, or choose another endpoint with --base-url"
	case "rejected":
		return "`ralph doctor` checks whether the endpoint and the model answer; another model may take the request: --model"
	}
	switch s {
	case result.Usage:
		return "ralph --help lists commands and flags"
	case result.ConfigError:
		return "`ralph config` shows every setting and where it comes from"
	case result.ProviderError, result.RetryLater:
		return "run it again later, or choose another endpoint with --base-url and --model"
	case result.Interrupted:
		return "run it again to go on"
	}
	return "--verbose and the log file may say more"
}

// exitCode maps a status to the code of the process; signal matters only for
// an interrupted one.
func exitCode(s result.Status, signal int) int {
	switch s {
	case result.Completed:
		return 0
	case result.Usage:
		return 2
	case result.ConfigError:
		return 3
	case result.ProviderError:
		return 4
	case result.NeedsInput, result.Denied:
		return 5
	case result.Limit:
		return 6
	case result.SchemaMismatch:
		return 7
	case result.Locked:
		return 8
	case result.RetryLater:
		return 75
	case result.Timeout:
		return 124
	case result.Interrupted:
		if signal <= 0 {
			signal = int(syscall.SIGINT)
		}
		return 128 + signal
	default:
		return 1
	}
}

// explain prints an error the way a person reads it. Nothing can be done about
// a standard error that takes no text, so its own errors are dropped.
func explain(w io.Writer, message, hint string) {
	tell(w, "error: "+message)
	if hint != "" {
		tell(w, "hint: "+hint)
	}
}

// warn prints one warning line.
func warn(w io.Writer, text string) {
	tell(w, "warning: "+text)
}

// tell prints what Ralph says to a person, on a terminal in whole words.
func tell(w io.Writer, content string) {
	fmt.Fprint(w, hung("ralph: "+text.Visible(content)+"\n", columnsOf(w), hanging))
}

// httpStatus returns code when it is one, else nil.
func httpStatus(code int) *int {
	if code < 100 {
		return nil
	}
	return &code
}
