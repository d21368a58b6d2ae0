package network

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// How is what may be spoken to a permitted host.
type How int

// What may be spoken, from plain requests to any bytes.
const (
	HTTP  How = iota // plain requests with the permitted methods
	TLS              // a TLS connection whose SNI is the host
	Raw              // any bytes
	Look             // nothing from inside: the tool look asks for the session
	Touch            // a connection that carries nothing from inside
)

// Any among the methods permits all of them.
const Any = "any"

// Permit is one place where a session may go.
type Permit struct {
	Name    string // of the service, or the setting that lists it
	Host    string // a name, *.name for what lies below it, or an address
	Port    int
	How     How
	Methods []string // of HTTP; none means GET and HEAD
	Headers []string // of requests, beside those that every request may have
	Git     *Remote  // only fetches from a git repository; nil: no repository
}

// Remote is a git repository that sessions may fetch from. The supervisor speaks TLS and signs in for them.
type Remote struct {
	Path   string // of the repository
	Secure bool
	User   *url.Userinfo
	From   string // the configuration of a clone that names it
}

// methods are what may be asked by plain HTTP.
func (p Permit) methods() []string {
	if len(p.Methods) == 0 {
		return []string{"GET", "HEAD"}
	}
	return p.Methods
}

func (p Permit) allows(method string) bool {
	return slices.Contains(p.methods(), Any) || slices.Contains(p.methods(), method)
}

// String is how an agent reads it.
func (p Permit) String() string {
	at := net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
	switch p.How {
	case HTTP:
		if p.Git != nil {
			return fmt.Sprintf("http://%s%s (%s, git fetch)", at, p.Git.Path, p.Name)
		}
		return fmt.Sprintf("http://%s (%s, %s)", at, p.Name, strings.Join(p.methods(), ", "))
	case TLS:
		return fmt.Sprintf("https://%s (%s)", at, p.Name)
	case Raw:
		return fmt.Sprintf("%s (%s)", at, p.Name)
	case Look:
		return fmt.Sprintf("%s (%s, with the tool look only)", at, p.Name)
	case Touch:
		return fmt.Sprintf("%s (%s, a connection without a byte)", at, p.Name)
	}
	return at
}

// fetches reports whether a request is one of the two of a git fetch from a remote.
func (r *Remote) fetches(q *http.Request) bool {
	switch q.URL.EscapedPath() {
	case r.Path + "/info/refs":
		return q.Method == http.MethodGet && q.URL.RawQuery == "service=git-upload-pack"
	case r.Path + "/git-upload-pack":
		return q.Method == http.MethodPost && q.URL.RawQuery == ""
	}
	return false
}

// keeps reports whether a request may have a header.
func (p Permit) keeps(name string) bool {
	known := strings.HasPrefix(name, "Accept") || strings.HasPrefix(name, "If-") ||
		slices.Contains([]string{"Range", "User-Agent", "Cache-Control", "Content-Type"}, name) || slices.Contains(p.Headers, name)
	return known || p.Git == nil && p.allows(Any) || p.Git != nil && (name == "Git-Protocol" || name == "Content-Encoding")
}

// matches reports whether a host, a name or an address, is the permitted one.
func (p Permit) matches(host string, port int) bool {
	if p.Port != port {
		return false
	}
	if below, ok := strings.CutPrefix(p.Host, "*"); ok {
		return strings.HasSuffix(host, below) && len(host) > len(below)
	}
	return plain(p.Host) == host
}

// Listed reports whether a URL leads to a place that is permitted in one of these ways; none means in some way.
func Listed(permits []Permit, u *url.URL, ways ...How) bool {
	usual := httpPort
	if u.Scheme == "https" {
		usual = httpsPort
	}
	host, port := hostPort(u.Host, usual)
	return slices.ContainsFunc(permits, func(p Permit) bool {
		return p.matches(host, port) && (len(ways) == 0 || slices.Contains(ways, p.How))
	})
}

// plain writes hosts that are the same in the same way.
func plain(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// hostsFile are the names that this machine has addresses for in a file: programs inside read the same file, and ask nobody.
func hostsFile() map[string][]netip.Addr {
	out := map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}
	raw, _ := os.ReadFile("/etc/hosts") // without it there are none
	for line := range strings.Lines(string(raw)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			out[plain(name)] = append(out[plain(name)], addr.Unmap())
		}
	}
	return out
}

// names gives permitted names addresses: fixed ones of the session's own, from the resolver, and those of the hosts file.
type names struct {
	byName map[string]netip.Addr
	byAddr map[netip.Addr][]string
	most   int
}

// proxyAddr is where the session finds the supervisor's proxy, proxyPort its port.
func proxyAddr() netip.Addr { return netip.AddrFrom4([4]byte{127, 64, 0, 1}) }

const (
	proxyPort = 3128
	mostNames = 4096
)

func newNames(permits []Permit) *names {
	n := &names{byName: map[string]netip.Addr{}, byAddr: map[netip.Addr][]string{}, most: mostNames}
	listed := hostsFile()
	for _, p := range permits {
		host := plain(p.Host)
		if _, err := netip.ParseAddr(host); err == nil || strings.HasPrefix(host, "*") {
			continue
		}
		if _, known := n.byName[host]; known {
			continue
		}
		n.give(host)
		for _, addr := range listed[host] {
			n.byAddr[addr] = append(n.byAddr[addr], host)
		}
	}
	return n
}

// give finds or makes the address of a name; false when there are too many.
func (n *names) give(name string) (netip.Addr, bool) {
	if addr, ok := n.byName[name]; ok {
		return addr, true
	}
	i := len(n.byName) + 2 // the first one is the proxy's
	if i >= n.most {
		return netip.Addr{}, false
	}
	addr := netip.AddrFrom4([4]byte{127, 64, byte(i >> 8), byte(i)}) //nolint:gosec // below mostNames
	n.byName[name] = addr
	n.byAddr[addr] = append(n.byAddr[addr], name)
	return addr, true
}
