package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"ralph/workers/agent"
)

//go:embed record_feature.md
var featureDoc string

// Feature is a feature of the project as it was found.
type Feature struct {
	Name         string   `json:"name"`
	Category     string   `json:"category"`
	Directory    string   `json:"directory,omitempty"`
	Purpose      string   `json:"purpose"`
	KeyFiles     []string `json:"key_files,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
	Status       string   `json:"status,omitempty"`
	Challenges   []string `json:"challenges,omitempty"`
	Assumptions  []string `json:"assumptions,omitempty"`
	// Document is the path of what describes it, relative to the root.
	Document string `json:"document,omitempty"`
}

func (b *box) recordFeature() spec {
	return define("record_feature", featureDoc,
		`{"name":"Upload","category":"api","directory":"upload","purpose":"takes files","key_files":["upload/post.go"]}`, agent.EffectState,
		func(ctx context.Context, f Feature) (agent.Result, error) {
			if strings.TrimSpace(f.Name) == "" {
				return agent.Result{}, errors.New("record_feature: the name is empty")
			}
			if f.Document != "" {
				rel, err := b.Files.Rel(f.Document)
				if err != nil {
					return agent.Result{}, fmt.Errorf("record_feature: %w", err)
				}
				f.Document = rel
			}
			return noted(b.Notebook.Feature(ctx, f))
		})
}
