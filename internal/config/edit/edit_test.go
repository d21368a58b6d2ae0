package edit_test

import (
	"strings"
	"testing"

	"claudeops/internal/config"
	"claudeops/internal/config/edit"
	"claudeops/internal/ops"
)

func http(url string) *edit.Probe { return &edit.Probe{Type: "http", URL: url} }

func service(name string, p *edit.Probe) edit.Change {
	return edit.Change{Environment: "default", Service: &edit.Service{Name: name, Probe: p}}
}

func probe(name string, p *edit.Probe) edit.Change {
	return edit.Change{Environment: "default", Name: name, Probe: p}
}

func trust(name, level string) edit.Change {
	return edit.Change{Environment: "default", Name: name, Trust: level}
}

const secretFile = "/state/notify-targets"

// TestApply shows where things are written. A + begins a line that is new; the other lines are the file as it was.
func TestApply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string // with the new lines
		old  string // where a line is replaced
		do   edit.Change
		line int
	}{
		"empty file": {
			file: "+services:\n+  - name: web\n+    probes:\n+      - type: http\n+        url: http://a/b\n",
			do:   service("web", http("http://a/b")), line: 1,
		},
		"only comments":           {file: "# mine\n+\n+services:\n+  - name: web\n", do: service("web", nil), line: 3},
		"no end of the last line": {old: "trust: ask", file: "trust: ask\n\nservices:\n  - name: web\n", do: service("web", nil), line: 3},
		"CRLF":                    {file: "services:\r\n  - name: a # one\r\n+  - name: web\r\n\r\ntrust: ask\r\n", do: service("web", nil), line: 3},
		"empty list": {
			old: "services: [ ] # none yet\ntrust: ask\n", file: "services: # none yet\n  - name: web\ntrust: ask\n",
			do: service("web", nil), line: 2,
		},
		"null":    {old: "services: ~\n", file: "services:\n  - name: web\n", do: service("web", nil), line: 2},
		"nothing": {file: "services: # soon\n+  - name: web\n#end\n", do: service("web", nil), line: 2},
		"list without indentation": {
			file: "services:\n- name: a\n  trust: ask\n+- name: web\n# next\nnotify: {}\n",
			do:   service("web", nil), line: 4,
		},
		"deep indentation": {
			file: "services:\n      -   name: a\n          # of a\n+      - name: web\n  # of nobody\n\ntrust: ask\n",
			do:   service("web", nil), line: 4,
		},
		"strict": {file: "services:\n  strict: true\n  list:\n    - name: a\n+    - name: web\n", do: service("web", nil), line: 5},
		"text with hashes at the end": {
			file: "services:\n  - name: a\n    # x\n    probes:\n      - type: tcp\n        address: a:1\n        name: |-\n          # one\n\n          # two\n+  - name: web\n",
			do:   service("web", nil), line: 11,
		},
		"own services of an environment": {
			file: "services:\n  - name: a\nenvironments:\n  - name: default\n    services:\n      - name: b\n+      - name: web\n  - name: other\n",
			do:   service("web", nil), line: 7,
		},
		"first probe": {
			file: "services:\n  - name: a\n    trust: ask\n+    probes:\n+      - type: tcp\n+        address: db:5432\n  - name: b\n",
			do:   probe("a", &edit.Probe{Type: "tcp", Address: "db:5432"}), line: 4,
		},
		"next probe": {
			file: "services:\n  - name: a\n    probes:\n    - type: http\n      url: http://a\n+    - type: container\n+      container: web-1\n    trust: ask\n",
			do:   probe("a", &edit.Probe{Type: "container", Container: "web-1"}), line: 6,
		},
		"probes in brackets": {
			old:  "services: [{name: a, probes: [{type: tcp, address: \"a]:1\"}]}]\n",
			file: "services: [{name: a, probes: [{type: tcp, address: \"a]:1\"}, {type: heartbeat, every: 24h}]}]\n",
			do:   probe("a", &edit.Probe{Type: "heartbeat", Every: "24h"}), line: 1,
		},
		"no probes in brackets": {
			old: `{"services": [{"name": "a"}]}`, file: `{"services": [{"name": "a", probes: [{type: http, url: http://a}]}]}`,
			do: probe("a", http("http://a")), line: 1,
		},
		"targets":               {file: "trust: ask\n+\n+notify:\n+  apprise_urls_file: " + secretFile + "\n", do: edit.Change{Targets: secretFile}, line: 3},
		"targets beside others": {file: "notify:\n    apprise_urls: [ntfy://a]\n+    apprise_urls_file: " + secretFile + "\n# end\n", do: edit.Change{Targets: secretFile}, line: 3},
		"trust of a service":    {file: "services:\n  - group: g\n    name: a # web\n+    trust: repair\n    probes: []\n", do: trust("a", "repair"), line: 4},
		"other trust": {
			old: "services:\n  - name: a\n    trust: \"ask\" # for now\n", file: "services:\n  - name: a\n    trust: repair # for now\n",
			do: trust("a", "repair"), line: 3,
		},
		"trust of all":            {file: "interval: 1h\n+\n+trust: watch\n", do: trust("", "watch"), line: 3},
		"trust of an environment": {file: "environments:\n  - name: default\n+    trust: watch\n    interval: 2h\n", do: trust("", "watch"), line: 3},
		"hostile name":            {file: "+services:\n+  - name: \"x: [\\\"a\\\", {b}] # \\\\ !!null\"\n", do: service(`x: ["a", {b}] # \ !!null`, nil), line: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, want := c.old, c.file
			if old == "" {
				var kept []string
				for line := range strings.SplitAfterSeq(c.file, "\n") {
					if !strings.HasPrefix(line, "+") {
						kept = append(kept, line)
					}
				}
				old, want = strings.Join(kept, ""), strings.ReplaceAll(strings.TrimPrefix("\n"+c.file, ""), "\n+", "\n")[1:]
			}
			r, err := edit.Apply([]byte(old), c.do)
			if err != nil {
				t.Fatalf("%v\n%s", err, old)
			}
			if string(r.Content) != want || r.Line != c.line {
				t.Errorf("line %d:\n%s\nwanted at %d:\n%s", r.Line, r.Content, c.line, want)
			}
			undone(t, old, r)
		})
	}
}

// TestChangeAndRemove shows what is written over and what goes.
func TestChangeAndRemove(t *testing.T) {
	t.Parallel()
	const two = "services: # all\n  - name: a # first\n    probes:\n      - type: http # the page\n        url: \"http://a/\"\n        # slow\n        interval: 30s\n" +
		"      - {type: tcp, address: \"a:1\"}\n  # the other\n  - name: b\n    trust: ask\n\n# who\nnotify: {}\n"
	change := func(at int, p edit.Probe) edit.Change {
		return edit.Change{Environment: "default", Name: "a", At: at, Probe: &p}
	}
	remove := func(name string, at int) edit.Change {
		return edit.Change{Environment: "default", Name: name, At: at, Remove: true}
	}
	for name, c := range map[string]struct {
		old      string
		do       edit.Change
		was, now string // what differs
	}{
		"another URL":           {two, change(1, edit.Probe{Type: "http", URL: "http://b/", Interval: "30s"}), `"http://a/"`, "http://b/"},
		"a key less":            {two, change(1, edit.Probe{Type: "http", URL: "http://a/"}), "        # slow\n        interval: 30s\n", "        # slow\n"},
		"a key more":            {two, change(1, edit.Probe{Type: "http", URL: "http://a/", Interval: "30s", ExpectStatus: "200"}), "interval: 30s\n", "interval: 30s\n        expect_status: 200\n"},
		"in brackets":           {two, change(2, edit.Probe{Type: "tcp", Address: "a:2"}), `"a:1"`, "a:2"},
		"more in brackets":      {two, change(2, edit.Probe{Type: "tcp", Address: "a:1", Interval: "1m"}), `"a:1"}`, `"a:1", interval: 1m}`},
		"first probe":           {two, remove("a", 1), "      - type: http # the page\n        url: \"http://a/\"\n        # slow\n        interval: 30s\n", ""},
		"last probe":            {two, remove("a", 2), "      - {type: tcp, address: \"a:1\"}\n", ""},
		"first service":         {two, remove("a", 0), two[len("services: # all\n"):strings.Index(two, "  # the other")], ""},
		"last service":          {two, remove("b", 0), "  - name: b\n    trust: ask\n", ""},
		"only probe":            {"services:\n- name: a\n  probes:\n  - type: tcp\n    address: a:1\n  trust: ask\n", remove("a", 1), "  probes:\n  - type: tcp\n    address: a:1\n", ""},
		"only service":          {"trust: ask\nservices:\n  - name: a\n    trust: ask\nnotify: {}\n", remove("a", 0), "services:\n  - name: a\n    trust: ask\n", ""},
		"all there is":          {"# mine\nservices:\n  - name: a\n", remove("a", 0), "services:\n  - name: a\n", ""},
		"no end of a line":      {"services:\n  - name: b\n  - name: a", remove("a", 0), "  - name: a", ""},
		"CRLF":                  {"services:\r\n  - name: a\r\n  - name: b\r\n", remove("a", 0), "  - name: a\r\n", ""},
		"first in brackets":     {"services: [{name: a}, {name: b}]\n", remove("a", 0), "{name: a}, ", ""},
		"last in brackets":      {"services: [{name: b}, {name: a, trust: ask}]\n", remove("a", 0), ", {name: a, trust: ask}", ""},
		"text with hashes":      {"services:\n  - name: a\n    probes:\n      - type: tcp\n        address: a:1\n        name: |-\n          # one\n\n          # two\n  - name: b\n", remove("a", 0), "  - name: a\n    probes:\n      - type: tcp\n        address: a:1\n        name: |-\n          # one\n\n          # two\n", ""},
		"of an environment":     {"environments:\n  - name: default\n    services:\n      - name: a\n      - name: b\n", remove("b", 0), "      - name: b\n", ""},
		"with an anchor behind": {"services:\n  - name: b\n    probes: &p [{type: tcp, address: \"a:1\"}]\n  - name: a\n    probes: *p\n", remove("a", 0), "  - name: a\n    probes: *p\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Replace(c.old, c.was, c.now, 1)
			r, err := edit.Apply([]byte(c.old), c.do)
			if err != nil || string(r.Content) != want {
				t.Errorf("%v\n%s\nwanted\n%s", err, r.Content, want)
			}
		})
	}
	for name, c := range map[string]struct {
		old string
		do  edit.Change
		why string
	}{
		"another type":   {two, change(1, edit.Probe{Type: "tcp", Address: "a:1"}), "type stays http"},
		"nothing":        {two, change(2, edit.Probe{Type: "tcp", Address: "a:1"}), "nothing differs"},
		"no such probe":  {two, remove("a", 3), "has no probe 3"},
		"line break":     {two, change(2, edit.Probe{Type: "tcp", Address: "a:1\ncommand: x"}), "address holds characters"},
		"more than that": {"services: [{name: a, probes: [{type: http, url: \"http://a/\", headers: {A: b}}]}]\n", change(1, edit.Probe{Type: "http", URL: "http://b/"}), "change it there"},
		"command":        {"services: [{name: a, probes: [{type: command, command: [id]}]}]\n", change(1, edit.Probe{Type: "command"}), "change it there"},
		"no such name":   {two, remove("c", 0), "the service c is not in this file"},
		"used elsewhere": {"services:\n  - name: a\n    probes: &p [{type: tcp, address: \"a:1\"}]\n  - name: b\n    probes: *p\n", remove("a", 0), "no line can be changed safely"},
	} {
		if r, err := edit.Apply([]byte(c.old), c.do); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, wanted %q\n%s", name, err, c.why, r.Content)
		}
	}
}

// undone checks that the change can be taken out again.
func undone(t *testing.T, old string, r edit.Result) {
	t.Helper()
	end := r.Offset + len(r.Added)
	if string(r.Content[:r.Offset])+r.Removed+string(r.Content[end:]) != old || string(r.Content[r.Offset:end]) != r.Added {
		t.Errorf("without what was added the file is not as it was:\n%s\nwas:\n%s", r.Content, old)
	}
}

// TestApplyRefuses gives reasons.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		do   edit.Change
		why  string
	}{
		"same name":       {"services:\n  - name: web\n", service("web", nil), "exists already, in line 2"},
		"same alias":      {"services:\n  - name: a\n    aliases: [web]\n", service("web", nil), "exists already, in line 2"},
		"same probe":      {"services:\n  - name: a\n    probes: [{type: http, url: http://a}]\n", probe("a", http("http://a")), "already, in line 3"},
		"unknown service": {"services:\n  - name: a\n", probe("b", http("http://a")), "the service b is not in this file"},
		"alias":           {"x: &s\n  - name: a\nservices: *s\n", service("web", nil), "shared"},
		"anchor":          {"services: &s\n  - name: a\n", service("web", nil), "line 1 is shared"},
		"anchored entry":  {"services:\n  - &a\n    name: a\n", probe("a", http("http://a")), "shared"},
		"anchored root":   {"&r\nservices: []\n", service("web", nil), "shared"},
		"no list":         {"services: 3\n", service("web", nil), "something else"},
		"two documents":   {"trust: ask\n---\ntrust: ask\n", service("web", nil), "more than one document"},
		"no YAML":         {"services: [\n", service("web", nil), "not valid YAML"},
		"a list":          {"- a\n", service("web", nil), "does not hold keys"},
		"line break":      {"", service("web\n    trust: full", nil), "name holds characters"},
		"other break":     {"", service("web\u2028x", nil), "name holds characters"},
		"in a probe":      {"", service("web", http("http://a\r\ncommand: [x]")), "url holds characters"},
		"command":         {"", service("web", &edit.Probe{Type: "command", URL: "x"}), `type "command" cannot be added`},
		"no name":         {"", service("", nil), "name is missing"},
		"blank":           {"", service(" web", nil), "blank"},
		"too long":        {"", service(strings.Repeat("a", 2001), nil), "too long"},
		"nothing":         {"", edit.Change{}, "nothing is to be changed"},
		"commented brackets": {
			"services: [ # none\n]\n", service("web", nil),
			"no line can be changed safely",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r, err := edit.Apply([]byte(c.file), c.do); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, wanted %q\n%s", err, c.why, r.Content)
			}
		})
	}
}

// load reads a configuration that lies nowhere.
func load(content string, targets string) (*config.Config, error) {
	return config.Load(config.Input{
		ConfigPath: "/nowhere/claudeops.yaml", Environ: []string{"HOME=/nowhere"}, Dir: "/",
		Instead: map[string][]byte{"/nowhere/claudeops.yaml": []byte(content), secretFile: []byte(targets)},
	})
}

// FuzzApply changes files that nobody would write, with values that nobody would type: the result is refused, or it is the old
// configuration and exactly the new thing, and can be taken out again.
func FuzzApply(f *testing.F) {
	files := []string{
		"", "# c", "services: []\n", "services:\n  - name: a\n    probes:\n      - {type: tcp, address: a:1}\n# end",
		"services:\r\n- name: a\r\n  trust: ask\r\ntrust: ask", "services: {strict: true, list: [{name: a}]}\n",
		"environments:\n  - name: default\n    services: [{name: a}]\n  - name: b\n", "notify:\n  apprise_urls: ntfy://a\n",
		"x: &x\nservices: *x\n", "notes: |\n  # a\n\n  services: []\nservices:\n  - name: a\n", "---\nservices: ~\n...\n", "{}",
	}
	for i, file := range files {
		f.Add(file, uint8(i%5), "a", "http://a/b")
		f.Add(file, uint8((i+1)%5), "web: [x]", "tcp\nx: {y}")
		f.Add(file, uint8((i+2)%5), "null", "ask")
		for which := range uint8(3) {
			f.Add(file, 5+which, "a", "a:2")
		}
	}
	f.Fuzz(func(t *testing.T, file string, which uint8, name, value string) {
		var do edit.Change
		var a config.Addition
		switch which % 8 {
		case 0:
			do, a = service(name, http(value)), config.Addition{Service: name}
		case 1:
			do, a = probe(name, &edit.Probe{Type: "tcp", Address: value}), config.Addition{Service: name, Probe: true}
		case 2:
			do, a = edit.Change{Targets: secretFile}, config.Addition{Target: "ntfy://b"}
		case 3:
			do, a = trust(name, value), config.Addition{Service: name, Trust: ops.Trust(value)}
		case 4:
			do, a = service(name, &edit.Probe{Type: value, Container: "c", Every: "1h"}), config.Addition{Service: name}
		case 5:
			do, a = edit.Change{Environment: "default", Name: name, Remove: true}, config.Addition{Service: name, Gone: true}
		case 6:
			do = edit.Change{Environment: "default", Name: name, At: 1, Remove: true}
			a = config.Addition{Service: name, Probe: true, Gone: true}
		default:
			do = edit.Change{Environment: "default", Name: name, At: 1, Probe: &edit.Probe{Type: "tcp", Address: value}}
			a = config.Addition{Service: name, Probe: true, Instead: true}
		}
		r, err := edit.Apply([]byte(file), do)
		if err != nil {
			return
		}
		if which%8 < 7 {
			undone(t, file, r)
		}
		before, err := load(file, "ntfy://b")
		if err != nil {
			return // what is wrong before is not changed
		}
		after, err := load(string(r.Content), "ntfy://b")
		if err != nil {
			return // nothing is written
		}
		if name == "" && which%8 == 3 {
			a.Service = ""
		}
		if err := before.OnlyAdds(after, a); err != nil && !strings.Contains(err.Error(), "no effect") {
			t.Errorf("%v\n%s\nwas\n%s", err, r.Content, file)
		}
	})
}
