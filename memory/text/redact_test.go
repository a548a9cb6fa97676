package text

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
)

func TestKnownValues(t *testing.T) {
	r := NewRedactor([]string{"hunter2&co", "hunter2&co/longer", "abc"})
	for in, want := range map[string]string{
		"pw hunter2&co.":            "pw [redacted].",
		"hunter2&co/longer":         "[redacted]",
		"https://x/?k=hunter2%26co": "https://x/?k=[redacted]",
		`{"k":"hunter2\u0026co"}`:   `{"k":"[redacted]"}`,
		"abc is too short":          "abc is too short",
	} {
		if got := r.String(in); got != want {
			t.Errorf("String(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShapes(t *testing.T) {
	var none *Redactor
	body := strings.Repeat("MIIEvQIBADANBgkq/+", 4)
	for _, secret := range []string{
		"sk-abcdefghijklmnopqrstuvwx", "sk-proj-Ab1_cd-efghijklmnopqrstuv0123456789", "sk-ant-api03-abcdefghijklmnop1234-xyz",
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "github_pat_11ABCDEFG0abcdefghijkl_mnop", "glpat-abcdefghij0123456789",
		"xoxb-123456789012-abcdefABCDEF", "AKIAIOSFODNN7EXAMPLE", "AIzaSyA1234567890abcdefghijklmnopqrstuv",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbU",
		"-----BEGIN RSA PRIVATE KEY-----\n" + body + "\n" + body + "\n-----END RSA PRIVATE KEY-----",
	} {
		for _, frame := range []string{"%", "x=%", "a\n%\nb", `"%"`, "(%)"} {
			in := strings.ReplaceAll(frame, "%", secret)
			if got, want := none.String(in), strings.ReplaceAll(frame, "%", Redacted); got != want {
				t.Errorf("String(%q) = %q, want %q", in, got, want)
			}
			enc, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			var back string
			if err := json.Unmarshal(none.Bytes(enc), &back); err != nil {
				t.Errorf("redacting %s broke the JSON: %v", enc, err)
			} else if strings.Contains(back, secret) {
				t.Errorf("redacting %s kept the secret", enc)
			}
		}
	}
	if got := none.String("Authorization: Bearer abc123def456 next"); got != "Authorization: Bearer [redacted] next" {
		t.Error(got)
	}
	if got := none.String("postgres://bob:s3cret@db/x"); got != "postgres://bob:[redacted]@db/x" {
		t.Error(got)
	}
	cut := `{"a":"-----BEGIN PRIVATE KEY-----\nMIIE\nAB\"C"}`
	if got := none.String(cut); got != `{"a":"[redacted]\"C"}` {
		t.Error(got)
	}
}

func TestProseStays(t *testing.T) {
	r := NewRedactor(nil)
	for _, s := range []string{
		"use bearer authentication here", "task-runner and risk-assessment", "https://example.com:8080/a@b", "ghost_town",
		"git@github.com:a/b.git", "http://127.0.0.1:11434/v1", "xox", "sk-short", "eyJ", "the PRIVATE KEY is elsewhere",
		"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
	} {
		if got := r.String(s); got != s {
			t.Errorf("String(%q) = %q", s, got)
		}
	}
}

func TestConcurrent(t *testing.T) {
	r := NewRedactor([]string{"topsecretvalue"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if s := r.String("a topsecretvalue ghp_abcdefghijklmnopqrstuvwxyz0123456789"); s != "a [redacted] [redacted]" {
					t.Error(s)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzKeepsJSON(f *testing.F) {
	f.Add("a sk-abcdefghijklmnopqrstuvwx \"q\" -----BEGIN PRIVATE KEY-----\nAA\n")
	f.Add("https://u:p\\\"w@h Bearer x1234567890")
	r := NewRedactor(nil)
	f.Fuzz(func(t *testing.T, s string) {
		enc, err := json.Marshal(map[string]string{"k": s})
		if err != nil {
			t.Skip()
		}
		if out := r.Bytes(enc); !json.Valid(out) {
			t.Fatalf("%s became %s", enc, out)
		}
	})
}

// What Open lets pass is final: redacting the parts gives what redacting the
// whole gives.
func TestOpen(t *testing.T) {
	r := NewRedactor([]string{"hunter2&co", "ABAB-ABAC"})
	text := "x hunter2&co, ABAB-ABAB-ABAC hunter sk-abcdefghijklmnopqrstuvwx ghp_abcdefghijklmnopqrstuvwxyz0123456789. task-s"
	for size := 1; size < len(text); size++ {
		held, out := "", ""
		for at := 0; at < len(text); at += size {
			held += text[at:min(at+size, len(text))]
			n := r.Open(held)
			out += r.String(held[:n])
			held = held[n:]
		}
		if out += r.String(held); out != r.String(text) {
			t.Errorf("size %d: %q", size, out)
		}
	}
	for _, plain := range []string{"", "It beg", "a task", "日本"} {
		if n := r.Open(plain); n != len(plain) {
			t.Errorf("Open(%q) = %d", plain, n)
		}
	}
	if n := (*Redactor)(nil).Open("a sk-"); n != 2 {
		t.Errorf("nil: %d", n)
	}
}
