package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// place is a host and a port: a name, or an address.
type place struct {
	name string     // lower case, without the dot at the end; "" for an address
	addr netip.Addr // unmapped, without a zone
	port uint16
}

func (p place) String() string {
	host := p.name
	if host == "" {
		host = p.addr.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p.port)))
}

// local reports whether a name stands for the loopback, whatever a name server says.
func (p place) local() bool { return p.name == "localhost" || strings.HasSuffix(p.name, ".localhost") }

// defaultPort is that of https.
const defaultPort = 443

var errForm = errors.New("not a host, or a host with a port")

// parsePlace reads "host:port"; without a port it is port, or an error where that is 0.
// It takes one spelling of an address only, and none of a name that could be read as
// another address, a user or a path.
func parsePlace(text string, port uint16) (place, error) {
	host, digits := text, ""
	bare, err := netip.ParseAddr(text)
	if err != nil || bare.Is4() {
		if h, d, err := net.SplitHostPort(text); err == nil {
			host, digits = h, d
		} else if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
			host = text[1 : len(text)-1]
		}
	}
	if digits != "" {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 || digits[0] < '1' || digits[0] > '9' {
			return place{}, fmt.Errorf("%.100q: %w", text, errForm)
		}
		port = uint16(n)
	} else if strings.HasSuffix(text, ":") && err != nil {
		port = 0
	}
	if port == 0 {
		return place{}, fmt.Errorf("%.100q: %w", text, errForm)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return place{}, fmt.Errorf("%.100q: %w", text, errForm)
		}
		return place{addr: addr.Unmap(), port: port}, nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) || !plain(name) { // letters may fold to those of ASCII
		return place{}, fmt.Errorf("%.100q: %w", text, errForm)
	}
	return place{name: name, port: port}, nil
}

// plain reports whether a name has letters, digits, dashes and underscores in its
// labels, and does not end in a number, which some programs read as an address.
func plain(name string) bool {
	const longest, longestLabel = 253, 63
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > longestLabel || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	end := labels[len(labels)-1]
	number := strings.Trim(end, "0123456789") == "" || strings.HasPrefix(end, "0x") && strings.Trim(end[2:], "0123456789abcdef") == ""
	return len(name) <= longest && !number
}

// rule allows a place, or with below all names below it.
type rule struct {
	place
	below bool
	all   bool // every name
	named bool // the user named it
}

// parseRule reads "host", "host:port", "*.host" or "*".
func parseRule(text string, named bool) (rule, error) {
	r := rule{named: named}
	if text == "*" {
		r.all, r.port = true, defaultPort
		return r, nil
	}
	rest, below := strings.CutPrefix(text, "*.")
	at, err := parsePlace(rest, defaultPort)
	if err != nil || below && at.name == "" {
		return r, fmt.Errorf("%.100q: %w", text, errForm)
	}
	r.place, r.below = at, below
	return r, nil
}

func (r rule) allows(p place) bool {
	switch {
	case r.port != p.port:
		return false
	case r.all:
		return p.name != ""
	case r.below:
		return strings.HasSuffix(p.name, "."+r.name)
	}
	return r.name == p.name && r.addr == p.addr
}

// reach is what addresses a name may have.
type reach int

const (
	public  reach = iota // those of the internet
	private              // also those of the user's own network
)

// permits reports whether an address that a name has may be called. It never permits
// this machine, its neighbours by link, where clouds have their metadata, and what is no
// address of one machine.
func (r reach) permits(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, x := range embedding() {
		if x.within.Contains(addr) {
			b := addr.As16()
			v4, _ := netip.AddrFromSlice(b[x.at : x.at+4])
			return r.permits(v4)
		}
	}
	for _, p := range never() {
		if p.Contains(addr) {
			return false
		}
	}
	for _, p := range own() {
		if p.Contains(addr) {
			return r == private
		}
	}
	return addr.IsValid() && addr.Zone() == ""
}

// never are the addresses of the registries of special addresses (RFC 6890) that are of
// this machine, of a link, of groups or of nobody.
func never() []netip.Prefix {
	return prefixes("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
		"100.100.100.200/32", // metadata of Alibaba Cloud
		"::/96", "fe80::/10", "fec0::/10", "ff00::/8", "100::/64", "2001:db8::/32", "2001::/32", "fd00:ec2::254/128", "fd20:ce::254/128")
}

// own are the addresses of private networks.
func own() []netip.Prefix {
	return prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7", "64:ff9b:1::/48")
}

// embedded are addresses of IPv6 that lead to one of IPv4, which begins at a byte.
type embedded struct {
	within netip.Prefix
	at     int
}

func embedding() []embedded {
	return []embedded{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}
