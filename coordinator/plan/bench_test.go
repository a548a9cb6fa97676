package plan

import (
	"context"
	"testing"
)

// BenchmarkPlan is what the loop pays for a plan of 10,000 tasks.
func BenchmarkPlan(b *testing.B) {
	for _, name := range []string{prdFile, loopFile, markdownFile} {
		root := write(b, map[string]string{name: large(name, 10_000)})
		tr := opened(b, root, name)
		load(b, tr)
		b.Run(name+"/cold", func(b *testing.B) {
			for b.Loop() {
				cold, err := Open(context.Background(), Options{Root: root, Path: name})
				if err != nil {
					b.Fatal(err)
				}
				load(b, cold)
			}
		})
		b.Run(name+"/load", func(b *testing.B) {
			for b.Loop() {
				load(b, tr)
			}
		})
		b.Run(name+"/stamp", func(b *testing.B) {
			for b.Loop() {
				if _, err := tr.Stamp(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/mark+load", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				s := []Status{Done, Pending}[i%2]
				if err := tr.Mark(context.Background(), "T-5000", Mark{Status: s}); err != nil {
					b.Fatal(err)
				}
				load(b, tr)
			}
		})
	}
}
