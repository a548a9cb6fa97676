package session

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The quick way to read a record gives what encoding/json gives.
func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload, err := json.Marshal(map[string]string{"role": rapid.String().Draw(t, "role"), "sum": rapid.SampledFrom([]string{"", `,"sum":"0123456789abcdef"}`, `"payload":`, "\n"}).Draw(t, "text")})
		if err != nil {
			t.Fatal(err)
		}
		r := Record{
			Seq: rapid.Int64Range(1, 1<<62).Draw(t, "seq"), Epoch: rapid.Uint64().Draw(t, "epoch"),
			Time:    time.Unix(rapid.Int64Range(0, 1<<34).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC(),
			Kind:    rapid.OneOf(rapid.Just("message"), rapid.StringMatching(`[a-z_"\\,é<]{0,12}`)).Draw(t, "kind"),
			Payload: rapid.SampledFrom([]json.RawMessage{payload, json.RawMessage("null"), json.RawMessage("1"), json.RawMessage(`"x"`)}).Draw(t, "payload"),
		}
		line, err := seal{}.encode(r)
		if err != nil {
			t.Fatal(err)
		}
		var want Record
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		got, ok := seal{}.decode(line)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nis %+v, want %+v", line, got, want)
		}
		// One changed byte makes it no record.
		at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
		line[at] ^= 1 << rapid.IntRange(0, 6).Draw(t, "bit")
		if _, ok := (seal{}).decode(line); ok {
			t.Fatalf("a changed line is taken: %s", line)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	payload, err := json.Marshal(map[string]string{"role": "user", "text": strings.Repeat("the upload failed again ", 8)})
	if err != nil {
		b.Fatal(err)
	}
	line, err := seal{}.encode(Record{Seq: 77, Time: time.Unix(1e9, 5).UTC(), Kind: "message", Payload: payload})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	line = bytes.Clone(line)
	for b.Loop() {
		if _, ok := (seal{}).decode(line); !ok {
			b.Fatal("no record")
		}
	}
}
