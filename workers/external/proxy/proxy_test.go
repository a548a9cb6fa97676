package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestForms: of all that can be spelled like a host only one spelling is one.
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com:443": "api.example.com:443", "API.Example.COM:443": "api.example.com:443", "api.example.com.:443": "api.example.com:443", "1.2.3.4:80": "1.2.3.4:80",
		"[::1]:80": "[::1]:80", "[::ffff:127.0.0.1]:80": "127.0.0.1:80", "a_b.example:1": "a_b.example:1", "xn--bcher-kva.example:443": "xn--bcher-kva.example:443",
		// addresses as other programs read them
		"2130706433:80": "", "0x7f000001:80": "", "0x7f.1:80": "", "127.1:80": "", "0177.0.0.1:80": "", "127.0.0.1.:80": "", "1.2.3.0x4:80": "", "017700000001:80": "", "127.0.0.01:80": "",
		"[::1%25lo]:80": "", "[::1%lo]:80": "", "[fe80::1%eth0]:80": "", "::1:80x": "", "[127.0.0.1]x:80": "", "[::ffff:7f00:1:80": "",
		// users, paths, ports
		"api.example.com@evil.example:443": "", "user:pw@evil.example:443": "", "api.example.com": "", "api.example.com:": "", "api.example.com:0": "", "api.example.com:65536": "",
		"api.example.com:+443": "", "api.example.com:0443": "", "api.example.com:443:22": "", "api.example.com:443/": "", "api.example.com:443 ": "", "api.example.com:https": "",
		"api.example.com:443#.evil:443": "", "api.example.com\\.evil.example:443": "", "api.example.com/.evil.example:443": "", "api.example.com?.evil:443": "",
		// letters that look or fold like others
		"api.exampl\u0435.com:443": "", "api\u3002example.com:443": "", "\u212aapi.example.com:443": "", "api.example.com\x00.evil.example:443": "", "api..example.com:443": "",
		".api.example.com:443": "", "*.example.com:443": "", ":443": "", "": "", "http://api.example.com:443": "", "-:x": "", "api.example.com..:443": "", "%61pi.example.com:443": "",
		strings.Repeat("a", 64) + ".example:443": "", strings.Repeat("a.", 130) + "example:443": "",
	} {
		got, err := parsePlace(text, 0)
		if s := got.String(); want == "" && err == nil || want != "" && (err != nil || s != want) {
			t.Errorf("%q: %s, %v; want %q", text, s, err, want)
		}
	}
}

func TestRules(t *testing.T) {
	p := newProxy(t, Options{Vendor: []string{"api.example.com", "*.wild.example"}, Named: []string{"127.0.0.1:8080", "localhost:9", "mine.example:8443", "*.corp.example", "[::1]:7"}})
	for text, want := range map[string]bool{
		"api.example.com:443": true, "API.EXAMPLE.COM.:443": true, "a.wild.example:443": true, "a.b.wild.example:443": true, "127.0.0.1:8080": true, "localhost:9": true, "mine.example:8443": true,
		"[::1]:7": true, "[::ffff:127.0.0.1]:8080": true, "x.corp.example:443": true,
		"wild.example:443": false, "evilwild.example:443": false, "a.wild.example.evil:443": false, "evilapi.example.com:443": false, "x.api.example.com:443": false, "api.example.com.evil:443": false,
		"api.example.com:80": false, "api.example.com:22": false, "127.0.0.1:8081": false, "127.0.0.2:8080": false, "localhost:8080": false, "a.localhost:9": false, "[::1]:8080": false,
		"mine.example:443": false, "1.2.3.4:443": false, "169.254.169.254:80": false, "example.com:443": false, "com:443": false,
	} {
		if _, err := p.allowed(text); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got := p.Refused(); slices.Contains(got, "169.254.169.254:80") || !slices.Contains(got, "evilwild.example") || !slices.Contains(got, "127.0.0.1:8081") || len(got) > maxRefused {
		t.Errorf("refused: %v", got)
	}
	for _, bad := range []string{"", "a b", "*", "*.*.example", "a*.example", "*.1.2.3.4", "http://a.example", "a.example:99999", "a.example/x", "*."} {
		if err := Check([]string{bad}); (err == nil) != (bad == "*") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestAddresses takes each block of the registries of special addresses of IPv4 and IPv6
// (RFC 6890 and its successors), and what clouds call their metadata.
func TestAddresses(t *testing.T) {
	const no, own, all = 0, 1, 2
	for text, want := range map[string]int{
		"0.0.0.0": no, "0.1.2.3": no, "127.0.0.1": no, "127.255.255.254": no, "169.254.169.254": no, "169.254.0.1": no, "192.0.0.192": no, "192.0.2.1": no, "198.51.100.1": no, "203.0.113.1": no,
		"224.0.0.1": no, "240.0.0.1": no, "255.255.255.255": no, "192.88.99.1": no, "100.100.100.200": no, "::": no, "::1": no, "::ffff:127.0.0.1": no, "::ffff:169.254.169.254": no, "::7f00:1": no,
		"64:ff9b::7f00:1": no, "64:ff9b::a9fe:a9fe": no, "2002:7f00:1::": no, "2002:a9fe:a9fe::1": no, "2001:0:1::": no, "fe80::1": no, "fe80::1%lo": no, "fec0::1": no, "ff02::1": no, "100::1": no, "2001:db8::1": no,
		"fd00:ec2::254": no, "10.0.0.1": own, "172.16.0.1": own, "172.31.255.255": own, "192.168.1.1": own, "100.64.0.1": own, "198.18.0.1": own, "fc00::1": own, "fd12::1": own,
		"::ffff:10.0.0.1": own, "64:ff9b::a00:1": own, "2002:a00:1::": own, "1.1.1.1": all, "8.8.8.8": all, "172.32.0.1": all, "192.0.1.1": all, "2606:4700::1": all, "64:ff9b::808:808": all, "::ffff:8.8.8.8": all,
	} {
		addr := netip.MustParseAddr(text)
		if got := public.permits(addr); got != (want == all) {
			t.Errorf("%s on the internet: %v", text, got)
		}
		if got := private.permits(addr); got != (want >= own) {
			t.Errorf("%s of one's own: %v", text, got)
		}
	}
	if public.permits(netip.Addr{}) {
		t.Error("no address is permitted")
	}
}

func newProxy(t *testing.T, o Options) *Proxy {
	t.Helper()
	p, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// serve makes a proxy that listens, and returns its address.
func serve(t *testing.T, o Options) (*Proxy, string) {
	t.Helper()
	p := newProxy(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); p.Serve(l) }()
	t.Cleanup(func() { _ = l.Close(); p.Close(); <-done })
	return p, l.Addr().String()
}

// raw sends bytes and returns the status line of the answer, with the connection.
func raw(t *testing.T, addr, text string) (string, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), conn, r
}

// origin is a server on this machine, which a program must not reach unless it is named.
func origin(t *testing.T) (s *httptest.Server, host string) {
	t.Helper()
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s %s|", r.Method, r.Host, r.URL)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return s, strings.TrimPrefix(s.URL, "http://")
}

func TestConnectAndForward(t *testing.T) {
	s, host := origin(t)
	_, addr := serve(t, Options{Named: []string{host}})
	line, conn, r := raw(t, addr, "CONNECT "+host+" HTTP/1.1\r\nHost: elsewhere.example\r\n\r\nGET /early HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if line != "HTTP/1.1 200 Connection established" {
		t.Fatal(line)
	}
	rest, _ := io.ReadAll(r)
	if !strings.Contains(string(rest), "GET x /early|") {
		t.Errorf("%q", rest)
	}
	_ = conn.Close()
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr}), DisableKeepAlives: true}}
	// net/http itself takes no proxy for this machine, so by hand.
	line, _, r = raw(t, addr, "POST "+s.URL+"/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody")
	rest, _ = io.ReadAll(r)
	if line != "HTTP/1.1 200 OK" || !strings.Contains(string(rest), "POST "+host+" /a?b|") || !strings.Contains(string(rest), "body") {
		t.Errorf("%s %q", line, rest)
	}
	client.CloseIdleConnections()
}

// TestRefused: each is answered with a refusal, and nothing is called.
func TestRefused(t *testing.T) {
	_, host := origin(t)
	_, port, _ := net.SplitHostPort(host)
	called := 0
	lookup := func(_ context.Context, name string) ([]netip.Addr, error) {
		called++
		return map[string][]netip.Addr{
			"rebound.example": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, "metadata.example": {netip.MustParseAddr("169.254.169.254")},
			"intranet.example": {netip.MustParseAddr("10.0.0.1")}, "named.example": {netip.MustParseAddr("127.0.0.1")}, "x.wild.example": {netip.MustParseAddr("127.0.0.1")},
		}[name], nil
	}
	p, addr := serve(t, Options{Vendor: []string{"rebound.example:" + port, "metadata.example:80", "intranet.example", "*.localhost", "localhost"}, Named: []string{"named.example:" + port, "*.wild.example:" + port, "*"}, Lookup: lookup})
	for name, text := range map[string]string{
		"a name for this machine":      "CONNECT rebound.example:" + port + " HTTP/1.1\r\n\r\n",
		"one that the user named":      "CONNECT named.example:" + port + " HTTP/1.1\r\n\r\n",
		"one below":                    "CONNECT x.wild.example:" + port + " HTTP/1.1\r\n\r\n",
		"metadata":                     "GET http://metadata.example/latest HTTP/1.1\r\nHost: metadata.example\r\n\r\n",
		"the network of the vendor":    "CONNECT intranet.example:443 HTTP/1.1\r\n\r\n",
		"localhost of the vendor":      "CONNECT localhost:443 HTTP/1.1\r\n\r\n",
		"below localhost":              "CONNECT a.localhost:443 HTTP/1.1\r\n\r\n",
		"an address with all names":    "CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n",
		"this machine":                 "CONNECT " + host + " HTTP/1.1\r\nHost: rebound.example\r\n\r\n",
		"this machine, forward":        "GET http://" + host + "/ HTTP/1.1\r\nHost: rebound.example:" + port + "\r\n\r\n",
		"a user":                       "CONNECT rebound.example@" + host + " HTTP/1.1\r\n\r\n",
		"a user, forward":              "GET http://rebound.example@" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"a form of the origin":         "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"https in plain":               "GET https://rebound.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"another scheme":               "GET ftp://rebound.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"a path":                       "CONNECT /x HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"a whole URL":                  "CONNECT http://" + host + "/ HTTP/1.1\r\n\r\n",
		"an asterisk":                  "OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"two lengths":                  "POST http://rebound.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\n",
		"a length that is none":        "POST http://rebound.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n",
		"an unknown coding":            "POST http://rebound.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"a head without end":           "GET http://rebound.example/ HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 2*headerBytes) + "\r\n\r\n",
		"spaces in a name of a header": "GET http://rebound.example/ HTTP/1.1\r\nHost: x\r\nContent-Length : 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			line, _, _ := raw(t, addr, text)
			if !strings.HasPrefix(line, "HTTP/1.1 4") && !strings.HasPrefix(line, "HTTP/1.1 501") {
				t.Errorf("%q", line)
			}
		})
	}
	if called == 0 {
		t.Error("no name was looked up")
	}
	if got := p.Refused(); !slices.Contains(got, host) {
		t.Errorf("refused: %v", got)
	}
}

// A request after another, hidden in its body, is a request of its own or none.
func TestSmuggling(t *testing.T) {
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %q", r.Method, r.URL, body))
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	_, addr := serve(t, Options{Named: []string{host}})
	line, _, r := raw(t, addr, "POST "+s.URL+"/one HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET http://evil.example/two HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.ReadAll(r)
	if !slices.Equal(seen, []string{`POST /one ""`}) && len(seen) != 0 {
		t.Errorf("%s: %v", line, seen)
	}
}

// The address that is called is the one that was looked at, whatever the next answer is.
func TestRebinding(t *testing.T) {
	_, host := origin(t)
	_, port, _ := net.SplitHostPort(host)
	lookups := 0
	p := newProxy(t, Options{Vendor: []string{"api.example:" + port}, Lookup: func(context.Context, string) ([]netip.Addr, error) {
		lookups++
		if lookups == 1 {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil // nobody
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	for range 3 {
		if conn, err := p.dial(t.Context(), "api.example:"+port); err == nil {
			_ = conn.Close()
			t.Error("this machine was called")
		}
	}
}

// upstream starts a proxy of the user's that leads every connection to one address, and calls
// asked with each request.
func upstream(t *testing.T, to string, asked func(*http.Request)) *httptest.Server {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r)
		there, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		w.WriteHeader(http.StatusOK)
		here, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _, _ = io.Copy(there, read); _ = there.Close() }() // the server may have read some of it
		_, _ = io.Copy(here, there)
		_ = here.Close()
	}))
	t.Cleanup(up.Close)
	return up
}

// TestUpstream: what the user's own proxy reaches is reached by way of it, with its
// password; this machine without, as the user's other programs do.
func TestUpstream(t *testing.T) {
	_, host := origin(t)
	var asked []string
	up := upstream(t, host, func(r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	})
	way := strings.Replace(up.URL, "http://", "http://me:pw@", 1)
	p, addr := serve(t, Options{Named: []string{"api.example.com:8443", host}, Environ: []string{"HTTPS_PROXY=" + way, "NO_PROXY=other.example"},
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("it was looked up here") }})
	line, _, r := raw(t, addr, "CONNECT api.example.com:8443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n")
	rest, _ := io.ReadAll(r)
	if line != "HTTP/1.1 200 Connection established" || !strings.Contains(string(rest), "GET y /|") {
		t.Errorf("%s %q", line, rest)
	}
	if want := []string{"CONNECT api.example.com:8443 Basic bWU6cHc="}; !slices.Equal(asked, want) {
		t.Errorf("%v", asked)
	}
	if conn, err := p.dial(t.Context(), host); err != nil || len(asked) != 1 {
		t.Errorf("%v, %v", err, asked)
	} else {
		_ = conn.Close()
	}
	if line, _, _ := raw(t, addr, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n"); !strings.Contains(line, "403") {
		t.Error(line)
	}
}

// TestAnotherNameInside has programs name another host inside a connection, which is then closed,
// whether the user or the maker named the host.
func TestAnotherNameInside(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "reached") }))
	t.Cleanup(s.Close)
	up := upstream(t, s.Listener.Addr().String(), func(*http.Request) {})
	_, addr := serve(t, Options{Named: []string{"api.example.com"}, Environ: []string{"HTTPS_PROXY=" + up.URL}})
	_, conn, _ := raw(t, addr, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")
	if err := tls.Client(conn, &tls.Config{ServerName: "evil.example", InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("another host is reached by way of one that the user named")
	}
	_ = conn.Close()
	p, addr := serve(t, Options{Vendor: []string{"api.example.com"}, Environ: []string{"HTTPS_PROXY=" + up.URL}})
	for name, want := range map[string]bool{"api.example.com": true, "API.example.com": true, "evil.example": false, "x.api.example.com": false, "": false} {
		line, conn, _ := raw(t, addr, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")
		if !strings.Contains(line, "200") {
			t.Fatal(line)
		}
		err := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		if (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
		_ = conn.Close()
	}
	if _, _, r := raw(t, addr, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"); true {
		_, _ = r.ReadString('\n')
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("without TLS: %q", rest)
		}
	}
	if got := p.Refused(); !slices.Contains(got, "evil.example") {
		t.Errorf("refused: %v", got)
	}
}

// Connections that are opened and left end with the proxy, and no more than the bound are
// served at a time.
func TestBounds(t *testing.T) {
	_, host := origin(t)
	p, addr := serve(t, Options{Named: []string{host}})
	var held []net.Conn
	for range maxConns {
		line, conn, _ := raw(t, addr, "CONNECT "+host+" HTTP/1.1\r\n\r\n")
		if !strings.Contains(line, "200") {
			t.Fatal(line)
		}
		held = append(held, conn)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "CONNECT "+host+" HTTP/1.1\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("one more is served")
	}
	_ = held[0].Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Errorf("when one has ended: %v", err)
	}
	p.Close()
	for _, c := range held[1:] {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection outlives the proxy")
		}
	}
}
