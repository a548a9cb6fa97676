package main

import (
	"fmt"
	"slices"
	"time"
)

func row(name, unit string, a, b []float64) {
	slices.Sort(a)
	slices.Sort(b)
	ratio := "–"
	if m := median(b); m > 0 {
		ratio = fmt.Sprintf("%.1f×", median(a)/m)
	}
	fmt.Printf("%-34s %28s %28s %8s %5d\n", name, spread(a, unit), spread(b, unit), ratio, len(a))
}

func spread(list []float64, unit string) string {
	return fmt.Sprintf("%.1f (%.1f–%.1f) %s", median(list), list[0], list[len(list)-1], unit)
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// rowAt is a row with percentiles.
func rowAt(name, unit string, a, b []float64) {
	ratio := "–"
	if m := at(b, 50); m > 0 {
		ratio = fmt.Sprintf("%.1f×", at(a, 50)/m)
	}
	fmt.Printf("%-34s %28s %28s %8s %5d\n", name, three(a)+" "+unit, three(b)+" "+unit, ratio, len(a))
}

// headAt is the head above such rows.
func headAt(what, floor string) {
	fmt.Printf("%-34s %28s %28s %8s %5s\n", what, "ralph: p50 / p99 / max", floor+": p50 / p99 / max", "ratio", "n")
}

// at is a percentile: the least figure that so many percent do not exceed.
func at(list []float64, percent int) float64 {
	slices.Sort(list)
	if len(list) == 0 {
		return 0
	}
	return list[max((len(list)*percent+99)/100-1, 0)]
}

func three(list []float64) string {
	return fmt.Sprintf("%.1f / %.1f / %.1f", at(list, 50), at(list, 99), at(list, 100))
}

func two(list []float64) string { return fmt.Sprintf("%.1f / %.1f", at(list, 50), at(list, 99)) }

func since(began, t time.Time) float64 { return max(t.Sub(began).Seconds()*1e3, 0) }
