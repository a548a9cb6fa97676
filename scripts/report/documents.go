package report

import (
	"slices"

	"ralph/memory/session/folder"
	"ralph/scripts/report/analysis"
	"ralph/scripts/report/insights"
)

// AnalyzeDocument is what ralph analyze prints with --output json. The figures
// stand at the top level.
type AnalyzeDocument struct {
	Type   string `json:"type"`
	Schema string `json:"schema"`
	analysis.Analysis
	Warnings []string `json:"warnings"`
}

// NewAnalyzeDocument is the document of what s tells.
func NewAnalyzeDocument(s *Session, warnings []string) AnalyzeDocument {
	return AnalyzeDocument{Type: "analyze", Schema: "ralph.analyze/1", Analysis: s.Analysis, Warnings: list(warnings)}
}

// ReportDocument is what ralph report prints with --output json.
type ReportDocument struct {
	Type    string           `json:"type"`
	Schema  string           `json:"schema"`
	Session analysis.Session `json:"session"`
	// Text is the report, Markdown; Path and HTMLPath are where it and the page
	// were written, null when they were not.
	Text     string  `json:"text"`
	Path     *string `json:"path"`
	HTMLPath *string `json:"html_path"`
	Tasks    struct {
		Total       int      `json:"total"`
		Done        int      `json:"done"`
		Failed      int      `json:"failed"`
		SuccessRate *float64 `json:"success_rate"`
	} `json:"tasks"`
	Usage    analysis.Usage `json:"usage"`
	Features struct {
		Total      int `json:"total"`
		Documented int `json:"documented"`
	} `json:"features"`
	Artifacts []string           `json:"artifacts"`
	Findings  []insights.Finding `json:"findings"`
	// Differences are what the files say against each other; none is mended.
	Differences []folder.Difference `json:"differences"`
	Problems    []problem           `json:"problems"`
	Files       []string            `json:"files"`
	Notes       []string            `json:"notes"`
	Warnings    []string            `json:"warnings"`
}

// problem is a file, or what part of it, that could not be read.
type problem struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

// maxArtifacts bounds the files that a report's document names.
const maxArtifacts = 1000

// NewReportDocument is the document of a report, of which the text and where it
// was written are given; an empty path says that it was not.
func NewReportDocument(s *Session, text, path, htmlPath string, warnings []string) ReportDocument {
	a := s.Analysis
	d := ReportDocument{Type: "report", Schema: "ralph.report/1", Session: a.Session, Text: text, Path: optional(path), HTMLPath: optional(htmlPath),
		Usage: a.Tokens.Usage, Artifacts: []string{}, Findings: list(s.Findings), Differences: list(s.Differences), Problems: []problem{},
		Files: list(s.Data.Files), Notes: list(a.Notes), Warnings: list(warnings)}
	d.Tasks.Total, d.Tasks.Done, d.Tasks.Failed, d.Tasks.SuccessRate = a.Tasks.Total, a.Tasks.Done, a.Tasks.Failed, a.Tasks.SuccessRate
	d.Features.Total = len(s.Data.Inventory.Features)
	for _, f := range s.Data.Inventory.Features {
		if f.Documented {
			d.Features.Documented++
		}
	}
	known := map[string]bool{}
	add := func(path string) {
		if !known[path] && len(d.Artifacts) < maxArtifacts {
			known[path] = true
			d.Artifacts = append(d.Artifacts, path)
		}
	}
	for _, t := range s.Data.Progress.Tasks {
		for _, path := range t.Artifacts {
			add(path)
		}
	}
	for _, path := range s.Data.Log.Artifacts {
		add(path)
	}
	for _, p := range s.Data.Problems {
		d.Problems = append(d.Problems, problem{p.File, p.Err.Error()})
	}
	return d
}

// InsightsDocument is what ralph insights prints with --output json. Kept is
// how many findings were added to AGENT.md.
type InsightsDocument struct {
	Type     string             `json:"type"`
	Schema   string             `json:"schema"`
	Session  analysis.Session   `json:"session"`
	Findings []insights.Finding `json:"findings"`
	Kept     int                `json:"kept"`
	Notes    []string           `json:"notes"`
	Warnings []string           `json:"warnings"`
}

// NewInsightsDocument is the document of what the rules found in s, which was
// read with findings.
func NewInsightsDocument(s *Session, kept int, warnings []string) InsightsDocument {
	return InsightsDocument{Type: "insights", Schema: "ralph.insights/1", Session: s.Analysis.Session, Findings: list(s.Findings), Kept: kept,
		Notes: list(s.Analysis.Notes), Warnings: list(warnings)}
}

// RulesDocument is what ralph insights --rules prints with --output json.
type RulesDocument struct {
	Type   string          `json:"type"`
	Schema string          `json:"schema"`
	Rules  []insights.Rule `json:"rules"`
}

// NewRulesDocument is the document of the rules.
func NewRulesDocument() RulesDocument {
	return RulesDocument{Type: "insight_rules", Schema: "ralph.insights.rules/1", Rules: list(insights.Rules())}
}

// CompareDocument is what ralph compare prints with --output json.
type CompareDocument struct {
	Type   string `json:"type"`
	Schema string `json:"schema"`
	analysis.Comparison
	Warnings []string `json:"warnings"`
}

// NewCompareDocument is the document of sessions side by side.
func NewCompareDocument(sessions []*Session, warnings []string) CompareDocument {
	return CompareDocument{Type: "compare", Schema: "ralph.compare/1", Comparison: compared(sessions), Warnings: list(warnings)}
}

func compared(sessions []*Session) analysis.Comparison {
	all := make([]analysis.Analysis, len(sessions))
	for i, s := range sessions {
		all[i] = s.Analysis
	}
	return analysis.Compare(all)
}

// list is never nil, so that it is [] in JSON.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return slices.Clip(l)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
