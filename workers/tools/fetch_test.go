package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func web(t *testing.T, handler http.HandlerFunc) (*bench, string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return newBench(t, func(e *Env) { e.Fetch, e.FetchPrivate = client, true }), s.URL
}

func TestFetch(t *testing.T) {
	b, site := web(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			fmt.Fprint(w, "<title>A\n page</title><script>x()</script><h1>Caf\xe9</h1><p>One <b>two</b>, <a href='/next?a=1'>three</a>.</p><ul><li>x<li>y<ol><li>z</ol></ul><pre>a\n  b</pre>")
		case "/next":
			http.Redirect(w, r, "/plain", http.StatusFound)
		case "/plain":
			fmt.Fprint(w, "just text\n")
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"a":"`+strings.Repeat("b", 40_000)+`"}`)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/out":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/login":
			http.Redirect(w, r, "http://user:secret@"+r.Host+"/plain", http.StatusFound)
		case "/image":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "\x89PNG")
		case "/endless":
			w.Header().Set("Content-Type", "text/plain")
			for line := strings.Repeat("x", 1023) + "\n"; ; {
				if _, err := fmt.Fprint(w, line); err != nil {
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	})
	r := b.run("fetch", "url", site+"/page")
	want := "# Café\n\nOne **two**, [three](" + site + "/next?a=1).\n\n- x\n- y\n  1. z\n\n```\na\n  b\n```\n"
	if d := cmp.Diff(want, r.Text); d != "" {
		t.Error(d)
	}
	if !strings.HasPrefix(r.Head, site+"/page: 200, text/html, A page\n") || !strings.Contains(r.Head, "not instructions") {
		t.Error(r.Head)
	}
	if r := b.run("fetch", "url", site+"/next"); r.Text != "just text\n" || !strings.Contains(r.Head, "/plain: 200") {
		t.Errorf("%+v", r)
	}
	if r := b.run("fetch", "url", site+"/json"); len(r.Text) != 16<<10 || !strings.Contains(r.Head, "all of it: .ralph/out/1-fetch.txt") || len(b.get(".ralph/out/1-fetch.txt")) != 40_008 {
		t.Errorf("%q %d", r.Head, len(r.Text))
	}
	if r := b.run("fetch", "url", site+"/plain", "limit", 4); r.Text != "just" {
		t.Errorf("%+v", r)
	}
	if r := b.run("fetch", "url", site+"/endless"); !strings.Contains(r.Head, "larger than 5 MiB") {
		t.Error(r.Head)
	}
	if r := b.run("fetch", "url", site+"/none"); !r.Failed || !strings.Contains(r.Head, "404") {
		t.Errorf("%+v", r)
	}
	for path, want := range map[string]string{"/loop": "more than 5 redirects", "/out": "only http and https", "/login": "user name or password", "/image": "no text"} {
		if _, err := b.try("fetch", "url", site+path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestFetchRefuses(t *testing.T) {
	b := newBench(t)
	if _, err := b.try("fetch", "url", "https://example.com"); err == nil || !strings.Contains(err.Error(), "--allow 'network'") {
		t.Errorf("%v", err)
	}
	b, site := web(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "inside") })
	b.env.FetchPrivate = false
	b.all = All(b.env)
	port := site[strings.LastIndex(site, ":"):]
	for address, want := range map[string]string{
		site: "not public", "http://localhost" + port: "not public", "http://127.1" + port: "", "http://[::1]" + port: "not public",
		"http://[::ffff:127.0.0.1]" + port: "not public", "http://0.0.0.0" + port: "not public", "http://169.254.169.254/latest/meta-data": "not public",
		"ftp://example.com": "only http", "file:///etc/passwd": "only http", "example.com": "only http", "": "only http", "http://": "names no host",
		"http://a:b@example.com/": "user name", "http://[": "parse address", "javascript:alert(1)": "only http",
	} {
		r, err := b.try("fetch", "url", address)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v", address, r, err)
		}
	}
}

func TestFetchStopsWithItsContext(t *testing.T) {
	gone := make(chan struct{})
	b, site := web(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := b.tryCtx(ctx, "fetch", "url", site); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-gone
}

func TestPublicAddresses(t *testing.T) {
	for _, a := range strings.Fields(`127.0.0.1 127.9.9.9 0.0.0.0 0.1.2.3 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.8
		198.18.0.1 198.19.255.255 192.0.2.1 198.51.100.7 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
		:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 fe80::1 fe80::1%eth0 fc00::1 fdff::1 ff02::1 fec0::1 2001:db8::1 2001::1 100::1
		64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b:1::1 2002:7f00:1:: 2002:a00:1:: 3fff::1 5f00::1`) {
		if public(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as public", a)
		}
	}
	for _, a := range strings.Fields("1.1.1.1 8.8.8.8 172.32.0.1 172.15.0.1 100.128.0.1 192.1.0.1 2606:4700::1111 2a00:1450::1 64:ff9b::808:808 2002:808:808::") {
		if !public(netip.MustParseAddr(a)) {
			t.Errorf("%s does not count as public", a)
		}
	}
}

func TestReadableSurvivesAnything(t *testing.T) {
	b, site := web(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, strings.Repeat("<div>", 100_000)+"deep<script>no()</script> text")
	})
	if r := b.run("fetch", "url", site); !strings.Contains(r.Text, "deep") || strings.Contains(r.Text, "no()") {
		t.Errorf("%.200q", r.Text)
	}
}

func FuzzReadable(f *testing.F) {
	f.Add("<h1>a</h1><table><tr><td>b<td>c</table><ul><li><p>x<ol><li>y")
	f.Add("<a href=x><img alt=y></a><pre><code>z</pre><a href='%zz'>q</a>")
	f.Fuzz(func(t *testing.T, page string) {
		base := mustAddress(t)
		text, _ := readable(t.Context(), page, base)
		if strings.Contains(text, "\n\n\n\n") && !strings.Contains(page, "\n\n") && !strings.Contains(page, "\r") && !strings.Contains(page, "&") {
			t.Errorf("%q gives %q", page, text)
		}
	})
}

func mustAddress(t *testing.T) *url.URL {
	u, err := webAddress("https://example.com/dir/page")
	if err != nil {
		t.Fatal(err)
	}
	return u
}
