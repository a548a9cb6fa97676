package plan

import "testing"

func TestOperators(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"": ">=", ">=": ">=", "≥": ">=", "gte": ">=", "at_least": ">=", "Greater-Than or Equal": ">=", "lte": "<=", "at most": "<=",
		"gt": ">", "greater_than": ">", "less than": "<", "=": "==", "equals": "==", "not_equal": "!=", " >= ": ">=",
	} {
		if got, ok := operatorOf(word); !ok || got != want {
			t.Errorf("%q is %q, %v", word, got, ok)
		}
	}
	for _, word := range []string{"~", "a", ">>", "= ="} {
		if got, ok := operatorOf(word); ok {
			t.Errorf("%q is %q", word, got)
		}
	}
}
