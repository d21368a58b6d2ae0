package guard

import (
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// web judges that a program of the shell asks a URL.
func (c *call) web(text string) (webAddress, bool) {
	a, bad := parseWeb(text)
	elsewhere := (c.s.container || c.s.remote) && a.loopback() // there it is another machine
	switch {
	case bad != "":
		c.j.refuse(ruleBash, c.name+" of that URL", bad, "use a plain http or https URL")
	case c.j.facts.ownAPI(a) && !elsewhere:
		method, body := c.curlMethod()
		c.j.refuse(orAttack(method != "GET" || body, ruleOwn), c.name+" of "+a.host, "it is the supervisor's own API", "leave it alone")
	case a.local():
		c.j.refuse(ruleSecrets, c.name+" of "+a.host, "link-local and metadata addresses give out credentials", "ask the service itself")
	case enginePort(a.port):
		c.j.refuse(ruleBash, c.name+" of port "+a.port, "it is the raw API of a container engine, a cluster or its store",
			"use docker or kubectl")
	default:
		return a, true
	}
	return a, false
}

// enginePort reports the ports of engines and clusters, whose raw API does everything their programs do.
func enginePort(port string) bool {
	switch port {
	case "2375", "2376", "2377", "4243", "6443", "10250", "10255", "2379", "2380", "8001":
		return true
	}
	return false
}

// judgeCurl judges each request of a curl command by itself.
func judgeCurl(c *call) {
	words := c.args
	for {
		next := slices.IndexFunc(words, func(f field) bool { return f.text == "--next" || f.text == "-:" })
		if next < 0 {
			c.curlRequest(words)
			c.inSafeMode()
			return
		}
		c.curlRequest(words[:next])
		c.addSafeMode(words[next].at, "curl")
		words = words[next+1:]
	}
}

// curlRequest judges one request: GET is looking, a changing request goes to inventory hosts only.
func (c *call) curlRequest(words []field) {
	c.options, c.operands = c.parse(c.row, words, false)
	c.optionsOf(c.options)
	method, body := c.curlMethod()
	urls := c.operands
	for _, g := range c.options {
		if g.is("--url") {
			urls = append(urls, g.value)
		}
	}
	foreign := c.curlResolve()
	elsewhere := foreign
	for _, f := range urls {
		known := c.curlURL(f) && !elsewhere
		foreign = foreign || !known
		if (method != "GET" || body) && !known {
			c.j.refuse(ruleBash, "curl with "+method, "changing requests go to inventory hosts only", "ask a human to do it")
		}
	}
	if len(urls) == 0 && !c.has("-V", "-h", "--help", "--version") {
		c.refuse(ruleRunTime, "it names no URL", "name one")
	}
	c.curlOutput(foreign)
	switch {
	case method == "GET" && !body:
		c.need(ops.Tier1)
	case method == "GET" || method == "POST" || method == "PUT" || method == "PATCH":
		c.j.need(c.s, ops.Tier2, ruleBash, "curl with "+method)
	default:
		c.j.refuse(ruleBash, "curl with "+method, "the request deletes or is not known", "ask a human to do it")
	}
}

// curlResolve judges the addresses that a request goes to instead of those of its host, and reports whether there are any.
func (c *call) curlResolve() bool {
	found := false
	for _, g := range c.options {
		if !g.is("--resolve") {
			continue
		}
		found = true
		parts := strings.SplitN(strings.TrimLeft(g.value.text, "+"), ":", 3)
		if len(parts) < 3 || g.value.dyn {
			c.refuse(ruleRunTime, "--resolve names no address", "write host:port:address")
			continue
		}
		for address := range strings.SplitSeq(parts[2], ",") {
			if strings.Contains(address, ":") {
				address = "[" + strings.Trim(address, "[]") + "]"
			}
			c.web("http://" + address + ":" + parts[1])
		}
	}
	return found
}

// guessedProtocol reports a host by whose name curl guesses another protocol than HTTP.
func guessedProtocol(host string) bool {
	first, _, _ := strings.Cut(strings.ToLower(host), ".")
	return slices.Contains([]string{"dict", "ftp", "ftps", "imap", "ldap", "pop3", "smtp", "file", "gopher", "telnet", "tftp", "rtsp"}, first)
}

// curlURL judges a URL and reports whether its host is one of the inventory.
func (c *call) curlURL(f field) bool {
	if f.dyn && !f.num || f.split {
		c.j.refuse(ruleRunTime, c.name, "its URL is known only at run time", "write the URL out")
		return false
	}
	text := strings.ReplaceAll(f.text, string(rune(hole)), "0")
	if !strings.Contains(text, "://") {
		head, _, _ := strings.Cut(text, "/")
		if _, port, ok := strings.Cut(head, ":"); ok && !isDigits(port) && !strings.HasPrefix(head, "[") || guessedProtocol(head) {
			c.refuse(ruleBash, f.show()+" names another protocol than http and https", "use a plain http or https URL")
			return false
		}
		text = "http://" + text
	}
	a, ok := c.web(curlPath(text))
	return ok && c.j.facts.knownHost(a.host)
}

// curlPath keeps braces and brackets of a URL's path from being read as part of the host.
func curlPath(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	i := strings.IndexAny(rest, "/?#")
	if i < 0 {
		return text
	}
	return scheme + "://" + rest[:i] + "/"
}

// curlMethod returns the method and whether data is sent.
func (c *call) curlMethod() (method string, body bool) {
	method = "GET"
	for _, g := range c.options {
		switch {
		case g.is("-d", "--data", "--data-ascii", "--data-binary", "--data-raw", "--data-urlencode", "--json"):
			body = true
			if strings.HasPrefix(g.value.text, "@") && g.name != "--data-raw" || g.name == "--data-urlencode" &&
				strings.Contains(strings.SplitN(g.value.text, "=", 2)[0], "@") {
				c.j.refuse(ruleSecrets, "curl "+g.name+" of a file", "it sends a file away", "send plain text only")
			}
		case g.is("-F", "--form", "--form-string"):
			body = true
			if strings.Contains(g.value.text, "=@") || strings.Contains(g.value.text, "=<") || strings.Contains(g.value.text, ";") {
				c.j.refuse(ruleSecrets, "curl "+g.name+" of a file", "it sends a file away", "send plain text only")
			}
		case g.is("-H", "--header", "--proxy-header"):
			if strings.HasPrefix(g.value.text, "@") || strings.Contains(strings.ToLower(g.value.text), "method") {
				c.j.refuse(ruleBash, "curl "+g.name, "the header sends a file or hides another method", "leave it out")
			}
		case g.is("-w", "--write-out"):
			if strings.HasPrefix(g.value.text, "@") || strings.Contains(g.value.text, "%output") {
				c.j.refuse(ruleBash, "curl -w", "the format reads or writes a file", "print plain figures")
			}
		case g.is("--proto", "--proto-redir"):
			if strings.Trim(strings.NewReplacer("https", "", "http", "").Replace(g.value.text), ",") != "=" {
				c.refuse(ruleBash, g.value.show()+" names another protocol than http and https", "leave "+g.name+" out")
			}
		case g.is("-b", "--cookie"):
			if !strings.Contains(g.value.text, "=") {
				c.j.read(c.s, g.value, "curl -b")
			}
		}
		if strings.ContainsAny(g.value.text, "\r\n") && !g.is("-w", "--write-out", "-d", "--data", "--data-raw", "--data-binary", "--json") {
			c.refuse(ruleBash, "a line break in "+g.name+" starts a line of its own, which another service may read as a command", "leave it out")
		}
	}
	body = body && !c.has("-G", "--get")
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

// curlOutput judges the files curl writes: what comes from elsewhere is not stored.
func (c *call) curlOutput(foreign bool) {
	stores := c.has("-O", "--remote-name", "-J", "--remote-header-name", "--remote-name-all", "--output-dir")
	if stores {
		dir, _ := c.option("--output-dir")
		c.download(dir.value)
	}
	for _, g := range c.options {
		if g.is("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--stderr") && g.value.text != "-" {
			if strings.Contains(g.value.text, "#") {
				c.j.refuse(ruleRunTime, "curl -o "+g.value.show(), "it takes a part of its name from the URL", "write the file name out")
			}
			c.j.write(c.s, g.value, "curl "+g.name)
			if dir, ok := c.option("--output-dir"); ok {
				c.j.write(c.s, dir.value.withText(dir.value.text+"/"+g.value.text), "curl "+g.name)
			}
			stores = stores || g.value.text != "/dev/null"
		}
	}
	if foreign {
		c.j.fetched = "curl"
		if stores {
			c.refuse(ruleBash, "what comes from elsewhere is not stored, it may be code", "print it, or fetch it from an inventory host")
		}
	}
}

// download judges files that get their names from the URLs.
func (c *call) download(dir field) {
	if c.has("-J", "--remote-header-name") {
		c.refuse(ruleRunTime, "the far side chooses the name of the file", "name the file")
	}
	for _, f := range c.operands {
		name, _, _ := strings.Cut(f.text, "#")
		name, query, _ := strings.Cut(name, "?")
		name = path.Base(name)
		if query != "" || strings.ContainsAny(name, "{[%") {
			c.refuse(ruleRunTime, "the name of the file is not plain in "+f.show(), "name the file")
			continue
		}
		target := f.withText(name)
		if dir.text != "" {
			target = dir.withText(path.Join(dir.text, name))
		}
		c.j.write(c.s, target, c.name+" to")
	}
}

// judgeWget judges wget: to the terminal or nowhere from anywhere, into a file from inventory hosts only.
func judgeWget(c *call) {
	for _, g := range c.options {
		if strings.ContainsAny(g.value.text, "\r\n") {
			c.refuse(ruleBash, "a line break in "+g.name+" starts a line of its own, which another service may read as a command", "leave it out")
		}
	}
	out, has := c.option("-O", "--output-document")
	toFile := !c.has("--spider") && (!has || out.value.text != "-" && out.value.text != "/dev/null")
	for _, f := range c.operands {
		if c.curlURL(f) {
			continue
		}
		c.j.fetched = "wget"
		if toFile {
			c.refuse(ruleBash, "what comes from elsewhere is not stored, it may be code", "print it with -O-, or use curl -s")
		}
	}
	switch {
	case toFile && has:
		c.j.write(c.s, out.value, "wget to")
	case toFile:
		dir, _ := c.option("-P", "--directory-prefix")
		c.download(dir.value)
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
