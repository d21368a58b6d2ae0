package guard

import (
	"path"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// web judges that a program of the shell asks a URL.
func (j *judge) web(what, text string) (webAddress, bool) {
	a, bad := parseWeb(text)
	switch {
	case bad != "":
		j.refuse(ruleBash, what+" of that URL", bad, "use a plain http or https URL")
	case j.facts.ownAPI(a):
		j.refuse(ruleOwn, what+" of "+a.host, "it is the supervisor's own API", "leave it alone")
	case a.local():
		j.refuse(ruleSecrets, what+" of "+a.host, "link-local and metadata addresses give out credentials", "ask the service itself")
	case enginePort(a.port):
		j.refuse(ruleBash, what+" of port "+a.port, "it is the raw API of a container engine, a cluster or its store", "use docker or kubectl")
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

// judgeCurl judges curl: GET is looking, a changing request goes to inventory hosts only.
func judgeCurl(c *call) {
	c.optionsOf(c.row, c.options)
	method, body := c.curlRequest()
	var foreign bool
	urls := c.operands
	for _, g := range c.options {
		if g.flag != nil && sameFlag(g.flag, "--url") {
			urls = append(urls, g.value)
		}
	}
	for _, f := range urls {
		if f.dyn && !f.num || f.split {
			c.j.refuse(ruleRunTime, "curl", "its URL is known only at run time", "write the URL out")
			continue
		}
		text := strings.ReplaceAll(f.text, string(rune(hole)), "0")
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		a, ok := c.j.web("curl", curlPath(text))
		known := ok && c.j.facts.knownHost(a.host)
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

// curlPath keeps braces and brackets of a URL's path from being read as part of the host.
func curlPath(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	i := strings.IndexAny(rest, "/?#")
	if i < 0 {
		return text
	}
	return scheme + "://" + rest[:i] + "/"
}

// curlRequest returns the method and whether data is sent.
func (c *call) curlRequest() (method string, body bool) {
	method = "GET"
	for _, g := range c.options {
		if g.flag == nil {
			continue
		}
		switch {
		case sameFlag(g.flag, "--data"):
			body = true
			raw := g.name == "--data-raw"
			if strings.HasPrefix(g.value.text, "@") && !raw || g.name == "--data-urlencode" && strings.Contains(strings.SplitN(g.value.text, "=", 2)[0], "@") {
				c.j.refuse(ruleSecrets, "curl "+g.name+" of a file", "it sends a file away", "send plain text only")
			}
		case sameFlag(g.flag, "--form"):
			body = true
			if strings.Contains(g.value.text, "=@") || strings.Contains(g.value.text, "=<") || strings.Contains(g.value.text, ";") {
				c.j.refuse(ruleSecrets, "curl "+g.name+" of a file", "it sends a file away", "send plain text only")
			}
		case sameFlag(g.flag, "--header"):
			if strings.HasPrefix(g.value.text, "@") || strings.Contains(strings.ToLower(g.value.text), "method-override") {
				c.j.refuse(ruleBash, "curl "+g.name, "the header sends a file or hides another method", "leave it out")
			}
		case sameFlag(g.flag, "--write-out"):
			if strings.HasPrefix(g.value.text, "@") || strings.Contains(g.value.text, "%output") {
				c.j.refuse(ruleBash, "curl -w", "the format reads or writes a file", "print plain figures")
			}
		case sameFlag(g.flag, "--cookie"):
			if !strings.Contains(g.value.text, "=") {
				c.j.read(c.s, g.value, "curl -b")
			}
		}
	}
	if body && !c.has("-G", "--get") {
		method = "POST"
	} else {
		body = false
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
		if sameFlagOf(g, "-o") && strings.Contains(g.value.text, "#") {
			c.j.refuse(ruleRunTime, "curl -o "+g.value.show(), "it takes a part of its name from the URL", "write the file name out")
		}
		if g.flag != nil && g.flag.role == roleWrite && g.has && g.value.text != "/dev/null" && g.value.text != "-" {
			stores = true
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
	if c.has("-J", "--remote-header-name", "--content-disposition", "--trust-server-names") {
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

// sameFlagOf reports whether an option is the one of that name.
func sameFlagOf(g given, name string) bool { return g.flag != nil && sameFlag(g.flag, name) }

// judgeWget judges wget: to the terminal or nowhere from anywhere, into a file from inventory hosts only.
func judgeWget(c *call) {
	c.optionsOf(c.row, c.options)
	out, has := c.option("-O", "--output-document")
	toFile := !c.has("--spider") && (!has || out.value.text != "-" && out.value.text != "/dev/null")
	for _, f := range c.operands {
		if f.dyn {
			c.runTime("URL")
			continue
		}
		text := f.text
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		a, ok := c.j.web("wget", curlPath(text))
		if !ok || c.j.facts.knownHost(a.host) {
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
	if len(c.operands) == 0 {
		c.refuse(ruleRunTime, "it names no URL", "name one")
	}
	c.need(ops.Tier1)
}

// judgeNc judges nc: it may only knock.
func judgeNc(c *call) {
	if !c.has("-z") {
		c.refuse(ruleBash, "it opens a connection that carries data", "use nc -z to see whether a port answers")
	}
	c.need(ops.Tier1)
}

// judgeOpenssl judges s_client: no data goes out.
func judgeOpenssl(c *call) {
	if c.s.stdin == inputData {
		c.refuse(ruleSecrets, "it would send data away", "give it </dev/null")
	}
}

// judgeSleep keeps waiting short.
func judgeSleep(c *call) {
	total := 0.0
	for _, f := range c.operands {
		if f.dyn && f.num {
			continue
		}
		text := f.text
		unit := 1.0
		if n := len(text); n > 0 {
			switch text[n-1] {
			case 's':
				text = text[:n-1]
			case 'm':
				text, unit = text[:n-1], 60
			case 'h':
				text, unit = text[:n-1], 3600
			case 'd':
				text, unit = text[:n-1], 86400
			}
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.Trim(text, "0123456789.") != "" {
			c.runTime("")
			return
		}
		total += v * unit
	}
	if total > 600 {
		c.refuse(ruleLauncher, "it waits longer than ten minutes", "wait a shorter time")
	}
}
