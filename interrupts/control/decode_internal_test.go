package control

import (
	"encoding/json"
	"reflect"
	"testing"
)

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"op":"status"}`, `{"v":1,"op":"send","class":"urgent","text":"a\nb"}`, `{"op":"task","job":{"a":[1,2]}}`, `{}`, `[]`,
		`null`, "", "\x00", `{"op":"x","op":"y"}`, `{"v":-1,"op":"x"}`, `{"op":"\ud800"}`, `{"OP":"x","kill":true} `, `{"op":"x"}{"op":"y"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, fault := decode(line)
		if fault != nil {
			if fault.Code == "" || fault.Message == "" || !reflect.DeepEqual(r, Request{}) {
				t.Fatalf("%q: %+v %+v", line, r, fault)
			}
			return
		}
		if r.Op == "" || r.V != version {
			t.Fatalf("%q: %+v", line, r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		back, fault := decode(again)
		if fault != nil {
			t.Fatalf("%s: %v", again, fault)
		}
		final, err := json.Marshal(back)
		if err != nil || string(final) != string(again) {
			t.Fatalf("%s became %s: %v", again, final, err)
		}
	})
}
