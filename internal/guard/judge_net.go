package guard

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// web judges that a program of the shell asks a URL.
func (c *call) web(text string) {
	a, bad := parseWeb(text)
	elsewhere := (c.s.container || c.s.remote) && a.loopback() // there it is another machine
	switch {
	case bad != "":
		c.j.refuse(ruleBash, c.name+" of that URL", bad, "use a plain http or https URL")
	case c.j.facts.ownAPI(a) && !elsewhere:
		method, body := c.method()
		c.j.refuse(orAttack(method != "GET" || body, ruleOwn), c.name+" of "+a.host, "it is the supervisor's own API", "leave it alone")
	case a.local():
		c.j.refuse(ruleSecrets, c.name+" of "+a.host, "link-local and metadata addresses give out credentials", "ask the service itself")
	case enginePort(a.port):
		c.j.refuse(ruleBash, c.name+" of port "+a.port, "it is the raw API of a container engine, a cluster or its store",
			"use docker or kubectl")
	}
}

// enginePort reports the ports of engines and clusters, whose raw API does everything their programs do.
func enginePort(port string) bool {
	switch port {
	case "2375", "2376", "2377", "4243", "6443", "10250", "10255", "2379", "2380", "8001":
		return true
	}
	return false
}

// judgeCurl judges where curl asks, with what method, and the files that it writes. The rest is up to the wall around the network: without
// one, the options that carry anything are refused.
func judgeCurl(c *call) {
	urls := c.operands
	for _, g := range c.options {
		switch {
		case g.is("--url"):
			urls = append(urls, g.value)
		case g.is("-w", "--write-out") && (strings.HasPrefix(g.value.text, "@") || strings.Contains(g.value.text, "%output")):
			c.j.refuse(ruleBash, "curl -w", "the format reads or writes a file", "print plain figures")
		case g.is("--proto", "--proto-redir") && strings.Trim(strings.NewReplacer("https", "", "http", "").Replace(g.value.text), ",") != "=":
			c.refuse(ruleBash, g.value.show()+" names another protocol than http and https", "leave "+g.name+" out")
		case g.is("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--stderr") && g.value.text != "-":
			c.stores(g.value)
		}
	}
	if len(urls) == 0 && !c.has("-V", "-h", "--help", "--version") {
		c.refuse(ruleRunTime, "it names no URL", "name one")
	}
	for _, f := range urls {
		c.asks(f)
	}
	switch method, body := c.method(); {
	case method == "GET" && !body:
	case !c.walled() && !slices.Contains([]string{"GET", "HEAD"}, method):
		c.refuse(ruleBash, "without walls it only asks", "leave "+method+" to a human")
	case method == "GET" || method == "POST" || method == "PUT" || method == "PATCH":
		c.j.need(c.s, ops.Tier2, ruleBash, "curl with "+method)
	default:
		c.j.refuse(ruleBash, "curl with "+method, "the request deletes or is not known", "ask a human to do it")
	}
}

// method returns the method of a request and whether data is sent.
func (c *line) method() (method string, body bool) {
	body = !c.has("-G", "--get") && c.has("-d", "--data", "--data-ascii", "--data-binary", "--data-raw", "--data-urlencode", "--json", "-F",
		"--form", "--form-string")
	method = "GET"
	if body {
		method = "POST"
	}
	if x, ok := c.option("-X", "--request"); ok {
		if method = x.value.text; method == "HEAD" || method == "OPTIONS" {
			method = "GET"
		}
	}
	return method, body
}

// stores judges a file that an answer is kept in.
func (c *call) stores(f field) {
	if strings.Contains(f.text, "#") {
		c.j.refuse(ruleRunTime, c.name+" to "+f.show(), "it takes a part of its name from the URL", "write the file name out")
	}
	c.j.write(c.s, f, c.name+" to")
}

// guessedProtocol reports a host by whose name curl guesses another protocol than HTTP.
func guessedProtocol(host string) bool {
	first, _, _ := strings.Cut(strings.ToLower(host), ".")
	return slices.Contains([]string{"dict", "ftp", "ftps", "imap", "ldap", "pop3", "smtp", "file", "gopher", "telnet", "tftp", "rtsp"}, first)
}

// asks judges a URL. Without walls what comes from it is not stored.
func (c *call) asks(f field) {
	if !c.walled() {
		c.j.fetched = c.name
	}
	if f.dyn && !f.num || f.split {
		c.j.refuse(ruleRunTime, c.name, "its URL is known only at run time", "write the URL out")
		return
	}
	text := strings.ReplaceAll(f.text, string(rune(hole)), "0")
	if !strings.Contains(text, "://") {
		head, _, _ := strings.Cut(text, "/")
		if _, port, ok := strings.Cut(head, ":"); ok && !isDigits(port) && !strings.HasPrefix(head, "[") || guessedProtocol(head) {
			c.refuse(ruleBash, f.show()+" names another protocol than http and https", "use a plain http or https URL")
			return
		}
		text = "http://" + text
	}
	scheme, rest, _ := strings.Cut(text, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i] // braces and brackets of the path are no part of the host
	}
	c.web(scheme + "://" + rest + "/")
}

// judgeWget judges wget: it prints, or writes the file that is named.
func judgeWget(c *call) {
	for _, f := range c.operands {
		c.asks(f)
	}
	switch out, has := c.option("-O", "--output-document"); {
	case has && out.value.text != "-":
		c.stores(out.value)
	case !has && !c.has("--spider"):
		c.refuse(ruleRunTime, "the far side chooses the name of the file", "print it with -O-, or name the file with -O")
	}
}

// judgeTLS judges openssl s_client: it knocks, and sends nothing.
func judgeTLS(c *call) {
	if c.s.stdin != inputNone {
		c.refuse(ruleSecrets, "it would send data away", "give it </dev/null")
	}
}

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
	a.port = cmp.Or(a.port, map[string]string{"http": "80", "https": "443"}[u.Scheme])
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
	ip, err := netip.ParseAddr(a.host)
	return ops.IsMetadata(a.host) || err == nil && ip.Unmap().IsMulticast()
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
