package discover_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/watch"
	"claudeops/internal/watch/discover"
	"claudeops/internal/watch/probe"
)

// outside is a word that stands only in files outside of every repository.
const outside = "outsider"

var (
	aName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._@:/-]{0,62}$`)
	// allowed is what a repository may ask for.
	allowed = map[string]bool{"http": true, "tcp": true, "dns": true, "container": true, "systemd": true, "process": true}
)

// holds checks what must be true of every result, whatever the files say.
func holds(t *testing.T, dir string, r discover.Result) {
	t.Helper()
	if len(r.Found) > 1000 || len(r.Problems) > 201 {
		t.Errorf("%d services, %d problems", len(r.Found), len(r.Problems))
	}
	var all []ops.Service
	for _, f := range r.Found {
		harmless(t, f)
		if f.Known == "" {
			all = append(all, f.Service)
		}
	}
	if err := watch.CheckServices(all); err != nil {
		t.Errorf("the services cannot be watched: %v", err)
	}
	for _, p := range r.Problems {
		if strings.ContainsFunc(p.String(), unicode.IsControl) || len(p.String()) > 4000 {
			t.Errorf("a problem is unfit to be shown: %.200q", p)
		}
		if strings.Contains(p.String(), outside) {
			t.Errorf("a problem tells what lies outside: %q", p)
		}
	}
	pasted(t, r)
	// What is accepted as it is, is trusted as it is.
	o := options()
	o.Asked = true
	for _, f := range r.New() {
		o.Accepted = append(o.Accepted, f.Accept())
	}
	second, err := discover.Scan(t.Context(), dir, o)
	must(t, err)
	if n := len(second.Unaccepted()); n != 0 || fmt.Sprint(lines(second)) != fmt.Sprint(lines(r)) {
		t.Errorf("%d of what was accepted are not trusted: %q, before %q", n, lines(second), lines(r))
	}
}

func harmless(t *testing.T, f discover.Found) {
	t.Helper()
	s := f.Service
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		if !aName.MatchString(name) || strings.Contains(name, outside) {
			t.Errorf("%q is the name of a service", name)
		}
	}
	if len(s.Aliases) > 22 || len(s.DependsOn) > 20 || len(f.Probes) > 22 {
		t.Errorf("%s has %d aliases, %d dependencies, %d probes", s.Name, len(s.Aliases), len(s.DependsOn), len(f.Probes))
	}
	for _, p := range f.Probes {
		if !allowed[p.Type] || len(p.Command) > 0 || len(p.Headers) > 0 || p.Body != "" || p.Password != "" || p.Socket != "" || p.Query != "" ||
			p.InsecureTLS ||
			p.Service != s.Name {
			t.Errorf("%s has the probe %+v", s.Name, p)
		}
		if p.Interval > 0 && p.Interval < 5*time.Second {
			t.Errorf("%s is asked every %s", s.Name, p.Interval)
		}
		if err := probe.Validate(p); err != nil {
			t.Errorf("%s has a probe that cannot be run: %v", s.Name, err)
		}
	}
}

// pasted checks that the configuration takes what is printed to be pasted.
func pasted(t *testing.T, r discover.Result) {
	t.Helper()
	if len(r.New()) == 0 {
		return
	}
	text, err := discover.YAML(r.New())
	must(t, err)
	home := t.TempDir()
	write(t, home, "claudeops.yaml", text)
	_, err = config.Load(config.Input{Environ: []string{"HOME=" + home}, Dir: home, Checks: config.Checks{
		CheckProbe: probe.Validate, CheckServices: watch.CheckServices, ProbeName: probe.Describe,
	}})
	if err != nil {
		t.Errorf("the configuration does not take it: %v\n%s", err, text)
	}
}

// seeds are files as people write them, and as nobody should.
func seeds(tb testing.TB) []string {
	tb.Helper()
	out := hostileYAML()
	for _, name := range []string{
		"homelab/CLAUDE-OPS.md", "homelab/.claude-ops/services.yaml", "homelab/stacks/media/compose.yaml", "shop/docker-compose.yml",
		"broken/.claude-ops/services.yaml", "broken/compose.yaml",
	} {
		text, err := os.ReadFile(filepath.Join("testdata/repos", name))
		must(tb, err)
		out = append(out, string(text))
	}
	return out
}

func hostileYAML() []string {
	return []string{
		"services: &s {a: *s, <<: *s}\n",
		"services: &s\n  a: &a {<<: [*a, *s], depends_on: *a}\n  b: *a\n",
		"x: &x [&y [*x], *x]\nservices: {a: {ports: *x, labels: *x, depends_on: *x, profiles: *x, healthcheck: *x}}\n",
		"a: &a {p: 1}\nb: &b {<<: [*a, *a]}\nc: &c {<<: [*b, *b]}\nservices: {x: {<<: [*c, *c, *c]}}\n",
		"services: " + strings.Repeat("{a: ", 300) + "1" + strings.Repeat("}", 300) + "\n",
		"services: " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "\n",
		strings.Repeat("- ", 200) + "a\n",
		strings.Repeat("? ", 200) + "a\n",
		"services: {? {a: b} : {}, ? [a] : {}, 1: {}, 1.5: {}, true: {}, null: {}, ~: {}, '': {}, \"\\0\": {}, \"\\x1b[31m\": {}}\n",
		"services: {a: !!binary aGk=, b: !include x, c: !!python/object:os.system {}, d: !!timestamp 2026-01-01, e: !!set {x}}\n",
		"%YAML 1.2\n---\nservices: {a: {}}\n---\nservices: {b: {}}\n...\n",
		"%TAG ! tag:example.org,2026:\n--- !x\nservices: !y {a: !z {}}\n",
		"\ufeffservices: {a: {}}\r\n",
		"services:\r  a: {}\r",
		"services:\n\ta: {}\n",
		"\xff\xfes\x00e\x00",
		"services: \"\\ud800\"\n",
		"a: b: c: d\n",
		"services: {a: {ports: ['8080:80', 1:2, 22:22, 0x50:80, 1e3:80, '[::1]:1:1', '[::ffff:169.254.169.254]:80:80', '::1:1', '1-2:3-4', '99999999999999999999:1', '-1:1', '${P}:1', '${P:-1}:1', '$$:1', {published: '1-2', target: 1, host_ip: '::'}]}}\n",
		"services: {a: {container_name: ../../etc/passwd}, b: {container_name: 'x y'}, c: {container_name: a}, d: {labels: {claudeops.name: a}}}\n",
		"services: {a: {labels: ['claudeops.url=http://u:p@h/', 'claudeops.url', 'claudeops.enable=FALSE']}, b: {labels: {claudeops.url: 'http://169.254.169.254/'}}}\n",
		"services: {a: {healthcheck: {test: [NONE]}}, b: {healthcheck: {test: [], disable: maybe}}, c: {healthcheck: []}}\n",
		"services: {a: {depends_on: {b: {condition: x}, a: {}}}, b: {depends_on: [c]}, c: {depends_on: a}}\n",
		"services: [{name: a, probes: [{type: http, url: 'http://a', expect_json: ['$..', '$['], expect_regexp: '(a*)*b', expect_status: [99, 600, x]}]}]\n",
		"services: [{name: a, probes: [{type: command, command: [id]}, {type: http, url: file:///etc/passwd}, {type: http, url: 'http://a', headers: {a: b}}]}]\n",
		"services: [{name: a, probes: ['systemd:-H evil', 'container:a/b', 'http://[::1', '://', ':1', 'a:', 'a:0', 'a:65536']}]\n",
		"services: [{name: a, name: b}, {name: a}, {name: A}, {name: ' a '}, {aliases: [a, a, b]}, {name: c, aliases: c, depends_on: [c, c]}]\n",
		"services: [{name: a, probes: [{type: dns, host: a, server: 'a:53:53', record: ANY}, {type: process, process: '*'}, {type: tcp, address: 'a:1', timeout: -1s, slow_after: 1h}]}]\n",
		"---\n- a\n---\n# Services\n| Service | URL | Aliases | Group | Depends on |\n|-|\n| [a](b) | ://, [::1]:1 | a,,a | | a |\n| b |\n- : :\n- **: `\n- [x](http://h\n",
		"# Services\n```\n- a: b:1\n~~~\n- c: d:1\n## Services ##\n- e - http://f/ text\n* [g](http://h/ \"t\")\n+ i — j:1.\n",
		"---\nservices: [a]\n...\nServices\n---\n",
	}
}

func FuzzFiles(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		for _, name := range []string{"a/CLAUDE-OPS.md", "b/.claude-ops/services.yaml", "c/compose.yaml", "d/x/y/docker-compose.yml"} {
			write(t, dir, name, text)
		}
		holds(t, dir, scan(t, dir))
	})
}

// FuzzTree makes a repository of all kinds of things: the script says what is put where.
func FuzzTree(f *testing.F) {
	for _, script := range []string{
		"f0f1f2f4f6f7", "d0d1d2d3d4", "p0p1p2p4", "l0l1l2l4", "r0r1r2", "l3", "r3f1", "s0s1s2s3s5", "o3o5f4", "o2o0", "x0x1x2", "k0k1k2k4", "f2f3f1", "d3f1l4",
	} {
		f.Add(script, "services: {web: {ports: ['80:80']}}\n")
	}
	f.Add("fbfa", "---\nservices: [{name: a, depends_on: [b]}, b]\n---\n# Services\n- c: d:1\n")
	f.Fuzz(func(t *testing.T, script, text string) {
		top := t.TempDir()
		dir := filepath.Join(top, "repos")
		for _, name := range []string{"services.yaml", "compose.yaml", "CLAUDE-OPS.md"} {
			write(t, top, "away/"+name, "services: ["+outside+"]\n")
		}
		write(t, dir, "repo/keep", "")
		plant(t, filepath.Join(dir, "repo"), script, text)
		done := make(chan discover.Result, 1)
		go func() {
			r, err := discover.Scan(t.Context(), dir, options())
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		select {
		case r := <-done:
			holds(t, dir, r)
		case <-time.After(20 * time.Second):
			t.Fatal("it does not come back")
		}
	})
}

// plant follows pairs of signs: what, and where.
func plant(t *testing.T, repo, script, text string) {
	t.Helper()
	places := []string{
		"CLAUDE-OPS.md",
		".claude-ops/services.yaml",
		"compose.yaml",
		".claude-ops",
		"stack/compose.yml",
		"stack",
		"a/b/c/docker-compose.yml",
		"a/b/c/d/compose.yaml",
	}
	for i := 0; i+1 < min(len(script), 40); i += 2 {
		place := places[int(script[i+1])%len(places)]
		path := filepath.Join(repo, place)
		if filepath.Dir(path) != repo {
			_ = os.MkdirAll(filepath.Dir(path), 0o755) // something else may lie there already
		}
		away := filepath.Join(repo, "..", "..", "away")
		switch script[i] {
		case 'd':
			_ = os.Mkdir(path, 0o755)
		case 'p':
			_ = syscall.Mkfifo(path, 0o600)
		case 'l': // a link out of the repository
			_ = os.Symlink(filepath.Join(away, filepath.Base(place)), path)
		case 'r': // a relative one
			_ = os.Symlink("../../away/"+filepath.Base(place), path)
		case 's': // to itself
			_ = os.Symlink(filepath.Base(path), path)
		case 'o': // to a folder outside
			_ = os.Symlink(away, path)
		case 'x': // to a device that never ends
			_ = os.Symlink("/dev/zero", path)
		case 'k': // nobody may read it
			lay(path, text, 0)
		default: // f
			lay(path, text, 0o600)
		}
	}
}

// lay writes a file where nothing lies yet: what lies there may be a pipe.
func lay(path, text string, mode os.FileMode) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return
	}
	_, _ = f.WriteString(text)
	_ = f.Close()
}

// A large file must not take long, whatever is in it: what grows with the square of its length would show here.
func TestLargeHostileFilesAreReadQuickly(t *testing.T) {
	const size = 64 << 10
	fill := func(head, piece, tail string) string {
		return head + strings.Repeat(piece, (size-len(head)-len(tail))/len(piece)) + tail
	}
	var anchors strings.Builder
	for i := 0; anchors.Len() < size-100; i++ {
		fmt.Fprintf(&anchors, "k%d: &k%d {<<: [*k%d, *k%d]}\n", i, i, max(0, i-1), max(0, i-2))
	}
	for name, text := range map[string]string{
		"flow lists":       fill("services: ", "[", ""),
		"flow mappings":    fill("services: ", "{a: ", ""),
		"block lists":      fill("", "- ", "a\n"),
		"complex keys":     fill("", "? ", "a\n"),
		"aliases":          fill("services: &s\n  a: {ports: [", "*s,", "]}\n"),
		"anchors":          strings.Replace(anchors.String(), "{<<: [*k0, *k0]}", "{p: 1}", 1) + "services: {a: {}}\n",
		"merges":           fill("a: &a {p: 1}\nservices: {x: {<<: [", "*a,", "]}}\n"),
		"keys":             fill("services: {", "aaaa: {},", "}\n"),
		"one long key":     fill("services: {", "a", ": {}}\n"),
		"one long value":   fill("services: {a: {container_name: ", "a", "}}\n"),
		"quotes":           fill("services: {a: \"", `\x41`, "\"}\n"),
		"folded":           fill("services: >\n", " a\n\n", ""),
		"comments":         fill("services: {a: {}}\n", "#\n", ""),
		"tags":             fill("services: {a: ", "!x ", "b}\n"),
		"documents":        fill("", "---\na\n", ""),
		"spaces":           fill("services:", " ", "\n"),
		"tabs":             fill("services:", "\t", "\n"),
		"colons":           fill("", ":", "\n"),
		"headings":         fill("", "# Services\n", ""),
		"rules":            fill("# Services\n", "|-", "\n"),
		"bars":             fill("# Services\n| Service |\n|-|\n", "|", "\n"),
		"emphasis":         fill("# Services\n- ", "**`", "\n"),
		"brackets":         fill("# Services\n- ", "[", "\n"),
		"hashes":           fill("# a ", "#", " b\n"),
		"separators":       fill("# Services\n- ", "a - ", "\n"),
		"variables":        fill("services: {a: {ports: ['", "${A:-", "']}}\n"),
		"front matter":     fill("---\n", "a\n", "---\n"),
		"colons in a list": fill("# Services\n", "- a: b: c\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, file := range []string{"a/CLAUDE-OPS.md", "b/.claude-ops/services.yaml", "c/compose.yaml"} {
				write(t, dir, file, text)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun := threadTime(t)
			r := scan(t, dir)
			if took := threadTime(t) - begun; took > 4*time.Second { // some hundredths of a second without the race detector
				t.Errorf("it took %s", took)
			}
			if len(r.Found) > 1000 || len(r.Problems) > 201 {
				t.Errorf("%d services, %d problems", len(r.Found), len(r.Problems))
			}
		})
	}
}

// threadTime is what this thread has computed so far, however busy the machine is.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_THREAD, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
