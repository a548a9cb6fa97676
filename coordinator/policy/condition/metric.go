package condition

import (
	"math"
	"strconv"
	"strings"
)

// Metric writes the metric/operator/threshold form of a gate as the source of a
// condition: ("features_discovered", ">=", 50) is "features_discovered >= 50".
// The operator may be a sign (>=, ≥, ==, =, !=, …), or its name (gte, at_least,
// equals, less_than, …). The error is an *Error about the part that is wrong.
func Metric(metric, operator string, threshold float64) (string, error) {
	name := strings.TrimSpace(metric)
	if !identifier(name) {
		return "", &Error{Source: metric, Line: 1, Column: 1, Text: "the metric is not a name", Hint: "a gate compares one metric; use condition for more"}
	}
	sign := operatorSign(operator)
	if sign == "" {
		return "", &Error{Source: operator, Line: 1, Column: 1, Text: "unknown operator", Hint: "use one of >= > <= < == !="}
	}
	if math.IsNaN(threshold) || math.IsInf(threshold, 0) {
		return "", &Error{Source: metric, Line: 1, Column: 1, Text: "the threshold is not a finite number"}
	}
	return name + " " + sign + " " + strconv.FormatFloat(threshold, 'f', -1, 64), nil
}

func operatorSign(operator string) string {
	words := strings.FieldsFunc(strings.ToLower(operator), func(r rune) bool { return r == '_' || r == '-' || r == ' ' || r == '\t' })
	switch strings.Join(words, " ") {
	case ">=", "≥", "=>", "gte", "ge", "at least", "min", "minimum", "greater than or equal", "greater or equal", "greater equal", "greater than or equal to":
		return ">="
	case "<=", "≤", "=<", "lte", "le", "at most", "max", "maximum", "less than or equal", "less or equal", "less equal", "less than or equal to":
		return "<="
	case ">", "gt", "greater than", "greater", "above", "more than", "over":
		return ">"
	case "<", "lt", "less than", "less", "below", "fewer than", "under":
		return "<"
	case "==", "=", "===", "eq", "equals", "equal", "is", "equal to":
		return "=="
	case "!=", "≠", "<>", "!==", "ne", "neq", "not equal", "not equals", "not equal to":
		return "!="
	}
	return ""
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
