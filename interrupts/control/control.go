// Package control is how other processes of the same user speak to a running
// Ralph: a unix socket in the project's `.ralph`, with lines of JSON both ways.
//
// It owns the socket, who may speak on it, and the life of each request. It
// refuses to know what a request means, which is the Handler's, and it listens
// on no network. It uses only the standard library.
//
//	s, err := control.Listen(ctx, control.Options{Dir: ".ralph", Handler: h})
//	defer s.Close(ctx)
//
//	c, err := control.Dial(ctx, ".ralph", "")
//	data, err := c.Do(ctx, control.Request{Op: "status"}, nil)
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrNobody is matched when no Ralph listens.
var ErrNobody = errors.New("no Ralph listens here")

// ErrForeign is matched when what stands in the socket's place is not ours: a
// socket of another user, a link, or a file that Ralph did not make.
var ErrForeign = errors.New("is not a socket of this user's Ralph")

// ErrLive is matched when another Ralph listens there already.
var ErrLive = errors.New("another Ralph listens here")

// ErrGone is the cause of a request's context when its client left.
var ErrGone = errors.New("the client left")

// ErrClosing is the cause of a request's context when the server closes.
var ErrClosing = errors.New("this Ralph is ending")

// version is that of the protocol.
const version = 1

// maxLineBytes bounds a request.
const maxLineBytes = 16 << 20

// Request is what a client asks for, one line of JSON of 16 MiB at most.
type Request struct {
	V       int             `json:"v"`                // version of the protocol; 0 is the current one
	Op      string          `json:"op"`               // status send task stop pause resume attach amend
	Client  string          `json:"client,omitempty"` // the client's conversation id
	Class   string          `json:"class,omitempty"`
	Text    string          `json:"text,omitempty"`
	To      string          `json:"to,omitempty"`
	Session string          `json:"session,omitempty"`
	Job     json.RawMessage `json:"job,omitempty"`
	Kill    bool            `json:"kill,omitempty"`
}

// Reply is one line of the answer to a request: zero or more, and a last one
// that is Final. One with a Fault is always final.
type Reply struct {
	Data  json.RawMessage `json:"data,omitempty"`
	Fault *Fault          `json:"fault,omitempty"`
	Final bool            `json:"final,omitempty"`
}

// The codes of the faults that the server itself gives.
const (
	codeBad       = "bad_request"
	codeVersion   = "version"
	codeForbidden = "forbidden"
	codeBusy      = "busy"
	codeClosing   = "closing"
	codeGone      = "cancelled"
	codeFailed    = "failed"
)

// Fault is why a request was refused or failed.
type Fault struct {
	Code    string `json:"code"` // one word for programs
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what can be done; may be empty
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// Peer is the process at the other end of a connection.
type Peer struct {
	PID, UID int
	Known    bool // false where the system does not tell
}

// Handler answers requests. Serve is called on a goroutine of the connection,
// for several connections at once, one request of a connection after the other.
// ctx ends when the client leaves (ErrGone) or the server closes (ErrClosing).
// reply sends data, as JSON, before the final answer; it does not block, and its
// error means that nobody reads any more: Serve should return. An err that is a
// *Fault is sent as it is, any other as one of the code "failed"; a panic too.
type Handler interface {
	Serve(ctx context.Context, p Peer, r Request, reply func(data any) error) (final any, err error)
}

// Options says where and for whom to listen.
type Options struct {
	// Dir is the project's `.ralph`; it is made when there is none.
	Dir string
	// Runtime is the user's runtime directory, where the socket goes when Dir is
	// too long for the name of one; empty: the directory for temporary files.
	Runtime string
	Handler Handler
	// Allow may refuse a peer, with a *Fault if it likes. Another user's is
	// refused before. Nil allows all.
	Allow func(Peer) error
	// MaxClients bounds the connections that are served at once; more wait.
	// Three quarters of them may be those that stay, such as attach. 0 means 64.
	MaxClients int
	// Idle is how long a client may say nothing, or read nothing of what is
	// sent to it. 0 means 10 seconds.
	Idle time.Duration
}

// decode reads one request.
func decode(line []byte) (Request, *Fault) {
	var r Request
	bad := func(format string, args ...any) (Request, *Fault) {
		return Request{}, &Fault{Code: codeBad, Message: fmt.Sprintf(format, args...), Hint: `a request is one line of JSON, such as {"op":"status"}`}
	}
	if len(line) > maxLineBytes {
		return bad("the request is longer than %d MiB", maxLineBytes>>20)
	}
	if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
		return bad("the request is no JSON object")
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return bad("the request cannot be read: %v", err)
	}
	switch {
	case r.V < 0 || r.V > version:
		return Request{}, &Fault{Code: codeVersion, Message: fmt.Sprintf("the request is of version %d, this Ralph speaks %d", r.V, version), Hint: "both ends must be the same Ralph: ralph version"}
	case r.Op == "":
		return bad("the request names no op")
	}
	r.V = version
	return r, nil
}

// stays says that a request keeps its connection for long.
func (r Request) stays() bool {
	return r.Op == "attach" || r.Op == "task" || r.Op == "send" && r.Class == "ask"
}
