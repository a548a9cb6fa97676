//go:build !linux

package main

import "fmt"

// stopping is what the measurements of stops and urgent messages need.
type stopping struct{ stopRuns int }

func (l *lab) stops() error     { return l.onlyLinux("stop") }
func (l *lab) survivors() error { return l.onlyLinux("survivors") }
func (l *lab) urgent() error    { return l.onlyLinux("urgent") }

func (l *lab) chats() error { return l.onlyLinux("chat") }

func (l *lab) stopChildren() error { return l.onlyLinux("stopchildren") }

func (l *lab) rest() error { return nil }

func (l *lab) onlyLinux(part string) error {
	fmt.Printf("%s: not measured, it reads the process table of Linux\n", part)
	return nil
}

// outputBroken says that whoever read the standard output has gone; here no
// other broken pipe is expected.
func outputBroken() bool { return true }
