// Package proxy lets a program reach the hosts that it is allowed by HTTP, and no
// others: a server of CONNECT and of plain requests, for a program that has no other way
// to a network. It takes the way out that the user's own environment names.
//
//	p, err := proxy.New(ctx, proxy.Options{Vendor: []string{"api.example.com"}, Named: []string{"127.0.0.1:8080"}})
//	go p.Serve(listener)
//	defer p.Close()
//
// A name is looked up here, and what is called is the address that was looked at. A
// name that the user did not name has addresses of the internet only; one that the user
// named may be of a private network; this machine is called where the user named it by
// its address or as localhost. Where the user has a proxy, that one looks names up.
//
// A connection to a host that the user did not name begins with TLS for that host: many
// hosts share an address, and would answer for another name. What is inside is not seen.
package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/netutil"
	socks "golang.org/x/net/proxy"
)

const (
	maxConns    = 128              // of the program, at a time
	headerTime  = 10 * time.Second // for the head of a request
	headerBytes = 64 << 10
	dialTime    = 15 * time.Second
	maxRefused  = 20 // hosts that are remembered
)

// Options of a Proxy. A host is a name, an address, either with ":port" (443 without),
// "*.name" for all names below one, or "*" for every name.
type Options struct {
	// Vendor lists hosts on the internet.
	Vendor []string
	// Named lists hosts that the user named, perhaps in a network of his own.
	Named []string
	// Environ is the user's environment, which may name a proxy.
	Environ []string
	// Lookup finds the addresses of a name; nil asks the system.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Proxy serves one program. It is safe for concurrent use.
type Proxy struct {
	rules    []rule
	lookup   func(context.Context, string) ([]netip.Addr, error)
	upstream func(*url.URL) (*url.URL, error)
	server   *http.Server
	forward  *httputil.ReverseProxy
	ctx      context.Context
	stop     context.CancelFunc
	active   sync.WaitGroup // requests and tunnels

	mu      sync.Mutex // guards what follows
	closed  bool
	refused []string
}

// refusedError is why a place is not called.
type refusedError struct {
	place
	why string
}

func (e *refusedError) Error() string { return e.String() + " " + e.why }

// New makes a proxy, whose connections end with ctx, or with Close. The error names the
// host that cannot be read.
func New(ctx context.Context, o Options) (*Proxy, error) {
	p := &Proxy{lookup: o.Lookup, upstream: upstreamOf(o.Environ)}
	if p.lookup == nil {
		p.lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	for _, list := range []struct {
		hosts []string
		named bool
	}{{o.Named, true}, {o.Vendor, false}} {
		for _, text := range list.hosts {
			r, err := parseRule(text, list.named)
			if err != nil {
				return nil, fmt.Errorf("host %w", err)
			}
			p.rules = append(p.rules, r)
		}
	}
	p.ctx, p.stop = context.WithCancel(ctx)
	quiet := log.New(io.Discard, "", 0)
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.Host = "" }, // the one of the URL
		FlushInterval: -1, ErrorLog: quiet,
		// A connection that is kept is one on which a server may say something nobody asked for, which
		// net/http logs.
		Transport:    &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return p.dial(ctx, addr) }},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { p.fail(w, err) },
	}
	p.server = &http.Server{Handler: p, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: headerTime, IdleTimeout: time.Minute, MaxHeaderBytes: headerBytes, ErrorLog: quiet,
		BaseContext: func(net.Listener) context.Context { return p.ctx }}
	return p, nil
}

// Check finds what is wrong with hosts that the user named.
func Check(hosts []string) error {
	for _, text := range hosts {
		if _, err := parseRule(text, true); err != nil {
			return fmt.Errorf("host %w", err)
		}
	}
	return nil
}

// upstreamOf is the proxy that the user's environment names for a URL. This machine is
// called without.
func upstreamOf(environ []string) func(*url.URL) (*url.URL, error) {
	get := func(names ...string) (value string) {
		for _, name := range names {
			for _, kv := range environ {
				if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
					value = v
				}
			}
			if value != "" {
				return value
			}
		}
		return ""
	}
	all := []string{"ALL_PROXY", "all_proxy"}
	return (&httpproxy.Config{
		HTTPProxy: get(append([]string{"HTTP_PROXY", "http_proxy"}, all...)...), HTTPSProxy: get(append([]string{"HTTPS_PROXY", "https_proxy"}, all...)...), NoProxy: get("NO_PROXY", "no_proxy"),
	}).ProxyFunc()
}

// Serve serves the program until the listener or the proxy is closed.
func (p *Proxy) Serve(l net.Listener) {
	_ = p.server.Serve(netutil.LimitListener(l, maxConns)) // it ends with an error always
}

// Close ends all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	_ = p.server.Close() // its listeners are others' to close, too
	p.active.Wait()
	p.forward.Transport.(*http.Transport).CloseIdleConnections()
}

// Refused lists the hosts that were not called, sorted, as they are to be named to be allowed;
// addresses of the link are left out.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.refused))
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.active.Add(1)
	p.mu.Unlock()
	defer p.active.Done()
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.User != nil || r.URL.Opaque != "":
		http.Error(w, "this is a proxy: the request must have a whole URL with http, or CONNECT", http.StatusBadRequest)
	default:
		if _, err := p.allowed(hostPort(r.URL)); err != nil {
			p.fail(w, err)
			return
		}
		p.forward.ServeHTTP(w, r)
	}
}

// hostPort is the host of a URL with the port of plain requests where it has none.
func hostPort(u *url.URL) string {
	if u.Port() == "" && !strings.HasSuffix(u.Host, ":") {
		return u.Host + ":80"
	}
	return u.Host
}

// fail answers a request that could not be made.
func (p *Proxy) fail(w http.ResponseWriter, err error) {
	var no *refusedError
	if errors.As(err, &no) || errors.Is(err, errForm) {
		http.Error(w, "ralph: "+err.Error(), http.StatusForbidden)
		return
	}
	http.Error(w, "ralph: "+err.Error(), http.StatusBadGateway)
}

// tunnel connects the program to a place.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := p.allowed(r.RequestURI)
	var there net.Conn
	if err == nil {
		there, err = p.call(r.Context(), to)
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	closeBoth := func() { _, _ = here.Close(), there.Close() }
	unstop := context.AfterFunc(p.ctx, closeBoth)
	defer unstop()
	defer closeBoth()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	from := io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), here)
	if to.name != "" && !to.local() && to.port == defaultPort {
		_ = here.SetReadDeadline(time.Now().Add(headerTime))
		name, begin, err := hello(here, from)
		if err != nil || !strings.EqualFold(strings.TrimSuffix(name, "."), to.name) {
			if at, err := parsePlace(name, defaultPort); err == nil {
				p.refuse(at)
			}
			return
		}
		_ = here.SetReadDeadline(time.Time{})
		from = io.MultiReader(bytes.NewReader(begin), from)
	}
	var up sync.WaitGroup
	up.Go(func() { pipe(there, from) })
	pipe(here, there)
	up.Wait()
}

// errHello ends a handshake when its beginning has been read.
var errHello = errors.New("enough")

// hello reads the beginning of TLS, and returns the name of the host that it is for with
// all that was read.
func hello(c net.Conn, from io.Reader) (name string, begin []byte, err error) {
	var seen bytes.Buffer
	err = tls.Server(&listening{c, io.TeeReader(from, &seen)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errHello
	}}).Handshake()
	if !errors.Is(err, errHello) {
		return "", nil, err
	}
	return name, seen.Bytes(), nil
}

// listening is a connection that is read from elsewhere and on which nothing is written.
type listening struct {
	net.Conn
	from io.Reader
}

// Read implements net.Conn.
func (c *listening) Read(b []byte) (int, error) { return c.from.Read(b) }

// Write implements net.Conn.
func (c *listening) Write(b []byte) (int, error) { return len(b), nil }

// pipe copies to the end, and tells the other side.
func pipe(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from) // either side may end as it likes
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

// allowed finds the rule for a place. One that there is none for is remembered.
func (p *Proxy) allowed(text string) (target, error) {
	at, err := parsePlace(text, 0)
	if err != nil {
		return target{}, err
	}
	for _, r := range p.rules {
		if r.allows(at) {
			t := target{place: at}
			if r.named && !r.below && !r.all {
				t.reach = private
			}
			return t, nil
		}
	}
	p.refuse(at)
	return target{}, &refusedError{at, "is not a host of this agent: `hosts` of its entry under `agents` in the user's config can name it"}
}

// target is a place that may be called.
type target struct {
	place
	reach reach
}

// refuse remembers a place for Refused, but for those that nobody should be offered: addresses of
// the link, where machines of clouds find their credentials.
func (p *Proxy) refuse(at place) {
	if at.addr.IsLinkLocalUnicast() || at.addr.IsMulticast() || at.addr.IsUnspecified() {
		return
	}
	host := strings.TrimSuffix(at.String(), fmt.Sprintf(":%d", defaultPort))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < maxRefused && !slices.Contains(p.refused, host) {
		p.refused = append(p.refused, host)
	}
}

// dial calls a place, "host:port".
func (p *Proxy) dial(ctx context.Context, text string) (net.Conn, error) {
	to, err := p.allowed(text)
	if err != nil {
		return nil, err
	}
	return p.call(ctx, to)
}

// call calls a place that is allowed.
func (p *Proxy) call(ctx context.Context, to target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var d net.Dialer
	switch {
	case to.name == "": // the user named the address
		return d.DialContext(ctx, "tcp", to.String())
	case to.local():
		if to.reach != private {
			return nil, p.elsewhere(to)
		}
		return d.DialContext(ctx, "tcp", net.JoinHostPort("localhost", fmt.Sprint(to.port)))
	}
	scheme := "https"
	if to.port == 80 {
		scheme = "http"
	}
	via, err := p.upstream(&url.URL{Scheme: scheme, Host: to.String()})
	if err != nil {
		return nil, fmt.Errorf("read the proxy in the environment: %w", err)
	}
	if via != nil {
		return through(ctx, via, to.String())
	}
	addrs, err := p.lookup(ctx, to.name)
	if err != nil {
		return nil, err
	}
	err = p.elsewhere(to)
	for _, addr := range addrs {
		if !to.reach.permits(addr) {
			continue
		}
		var conn net.Conn
		if conn, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(addr.Unmap(), to.port).String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// elsewhere is the error that a name has no address that may be called.
func (p *Proxy) elsewhere(to target) error {
	return &refusedError{to.place, "has no address on the internet; one of this machine or network can be allowed by itself: `hosts: [ADDRESS:PORT]`"}
}

// through calls a place by way of another proxy.
func through(ctx context.Context, via *url.URL, to string) (net.Conn, error) {
	var d net.Dialer
	switch via.Scheme {
	case "http", "https":
	case "socks5", "socks5h":
		s, err := socks.FromURL(via, &d)
		if err != nil {
			return nil, err
		}
		return s.(socks.ContextDialer).DialContext(ctx, "tcp", to)
	default:
		return nil, fmt.Errorf("the environment names a proxy with %q, which is neither http, https nor socks5", via.Scheme)
	}
	port := map[string]string{"http": "80", "https": "443"}[via.Scheme]
	if via.Port() != "" {
		port = via.Port()
	}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(via.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname()})
	}
	unstop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unstop()
	head := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if via.User != nil {
		password, _ := via.User.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(via.User.Username()+":"+password)) + "\r\n"
	}
	r := bufio.NewReader(conn)
	_, err = io.WriteString(conn, head+"\r\n")
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the proxy %s answers %s", via.Host, answer.Status)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("call %s through the user's proxy: %w", to, err), conn.Close())
	}
	return &rest{conn, r}, nil
}

// rest is a connection of which a part was read already.
type rest struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (c *rest) Read(b []byte) (int, error) { return c.r.Read(b) }
