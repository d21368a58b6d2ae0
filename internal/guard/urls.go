package guard

import (
	"net/netip"
	"net/url"
	"strings"
)

// webAddress is a URL that may be asked.
type webAddress struct {
	host string // lower case, without port
	port string
}

// parseWeb reads a URL for GET requests, or says what is wrong with it.
func parseWeb(text string) (webAddress, string) {
	if strings.IndexFunc(text, odd) >= 0 || strings.ContainsAny(text, " \\") {
		return webAddress{}, "it holds characters a URL does not have"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return webAddress{}, "it is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return webAddress{}, "only http and https are allowed"
	case u.User != nil:
		return webAddress{}, "it holds a user name or password"
	case u.Hostname() == "":
		return webAddress{}, "it names no host"
	}
	a := webAddress{host: strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port: strings.TrimLeft(u.Port(), "0")}
	if a.port == "" {
		a.port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if !plainHost(a.host) {
		return webAddress{}, "its host is written in an odd way"
	}
	return a, ""
}

// plainHost refuses hosts with patterns, and numbers that are read as addresses in unexpected ways.
func plainHost(host string) bool {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	for _, label := range strings.Split(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return !isDigits(last) && !strings.HasPrefix(last, "0x")
}

// loopback reports names and addresses of this host itself.
func (a webAddress) loopback() bool {
	if ip, err := netip.ParseAddr(a.host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	switch {
	case a.host == "localhost" || strings.HasSuffix(a.host, ".localhost") || strings.HasPrefix(a.host, "localhost."):
		return true
	case strings.HasPrefix(a.host, "ip6-") || a.host == "host.docker.internal" || a.host == "gateway.docker.internal":
		return true
	}
	for _, public := range []string{"nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com"} {
		if a.host == public || strings.HasSuffix(a.host, "."+public) {
			return true // names of the public DNS that lead to any address one likes
		}
	}
	return false
}

// local reports link-local addresses and the metadata services behind them.
func (a webAddress) local() bool {
	if ip, err := netip.ParseAddr(a.host); err == nil {
		ip = ip.Unmap()
		return ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip == netip.MustParseAddr("fd00:ec2::254") ||
			ip == netip.MustParseAddr("100.100.100.200")
	}
	switch a.host {
	case "metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal", "metadata.azure.com",
		"metadata.azure.internal":
		return true
	}
	return false
}

// ownAPI reports the product's own API: its addresses, or its port on this host by any name.
func (f *Facts) ownAPI(a webAddress) bool {
	for _, own := range f.OwnAPI {
		host, port, ok := cutLast(own, ":")
		if !ok {
			host, port = own, ""
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		if (port == "" || port == a.port) && (host == a.host || a.loopback()) {
			return true
		}
	}
	return false
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
