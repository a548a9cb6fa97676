package interrupts_test

import (
	"fmt"
	"testing"

	"ralph/interrupts"
)

func benchQueue(b *testing.B, waiting, guards int) *interrupts.Queue {
	q := interrupts.NewQueue(interrupts.Options{Keep: func([]interrupts.Message) error { return nil }})
	b.Cleanup(func() { _ = q.Close(b.Context()) })
	for range waiting {
		q.Push(interrupts.Message{Class: later})
	}
	for i := range guards {
		g := q.Guard(b.Context(), fmt.Sprint("w", i%8))
		b.Cleanup(g.Release)
	}
	if err := q.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return q
}

// BenchmarkPush is a steer from its Push to its Settle, with what else waits.
func BenchmarkPush(b *testing.B) {
	for _, c := range []struct{ waiting, guards int }{{0, 0}, {10_000, 0}, {0, 1000}, {10_000, 1000}} {
		b.Run(fmt.Sprintf("%d waiting %d guards", c.waiting, c.guards), func(b *testing.B) {
			q := benchQueue(b, c.waiting, c.guards)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				m := q.Push(interrupts.Message{Class: steer, Text: "look"})
				if n%64 == 63 { // as a human's queue stays short
					b.StopTimer()
					for _, m := range q.Take(of(steer)) {
						_ = q.Settle(m.ID(), interrupts.Delivered)
					}
					b.StartTimer()
				}
				if m.N == 0 {
					b.Fatal("not accepted")
				}
			}
		})
	}
}

// BenchmarkStop is one stop with so many waiting messages and running guards:
// from Push to the end of all contexts.
func BenchmarkStop(b *testing.B) {
	for _, c := range []struct{ waiting, guards int }{{0, 0}, {0, 1000}, {10_000, 0}, {10_000, 1000}} {
		b.Run(fmt.Sprintf("%d waiting %d guards", c.waiting, c.guards), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				q := interrupts.NewQueue(interrupts.Options{})
				for range c.waiting {
					q.Push(interrupts.Message{Class: later})
				}
				gs := make([]*interrupts.Guard, c.guards)
				for i := range gs {
					gs[i] = q.Guard(b.Context(), "")
				}
				if err := q.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				q.Push(interrupts.Message{Class: stop})
				b.StopTimer()
				for _, g := range gs {
					g.Release()
				}
				_ = q.Close(b.Context())
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTakeOne empties a queue of 10,000 one by one.
func BenchmarkTakeOne(b *testing.B) {
	q := benchQueue(b, 0, 0)
	for b.Loop() {
		b.StopTimer()
		for range 10_000 {
			q.Push(interrupts.Message{Class: later})
		}
		b.StartTimer()
		for range 10_000 {
			first := true
			for _, m := range q.Take(func(interrupts.Message) bool { f := first; first = false; return f }) {
				_ = q.Settle(m.ID(), interrupts.Delivered)
			}
		}
	}
}
