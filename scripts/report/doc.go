// Package report tells what a session's files say: it reads them once, has the
// figures, the findings and the timeline computed on the way, and puts the four
// documents and their texts together: report, analyze, insights and compare.
//
// It owns what the documents hold and how they read. It starts nothing, writes
// nothing but to the writers that it is given, and mends nothing: what the
// files do not say is null, and what they contradict each other in is named.
//
//	s, err := report.Read(ctx, fsys, dir, report.Wants{})
//	text := report.AnalysisText(s.Analysis)
package report
