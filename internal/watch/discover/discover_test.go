package discover_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/watch"
	"claudeops/internal/watch/discover"
	"claudeops/internal/watch/probe"
)

func options(known ...ops.Service) discover.Options {
	return discover.Options{Known: ops.Inventory{Services: known}, CheckProbe: probe.Validate, ProbeName: probe.Describe}
}

func scan(t *testing.T, dir string, known ...ops.Service) discover.Result {
	t.Helper()
	r, err := discover.Scan(t.Context(), dir, options(known...))
	must(t, err)
	return r
}

// line tells a service in one line.
func line(f discover.Found) string {
	var probes []string
	for _, p := range f.Probes {
		probes = append(probes, probe.Describe(p))
	}
	s := f.Service
	return fmt.Sprintf(
		"%s:%d %s aliases=%v group=%s needs=%v probes=%q known=%s",
		f.File,
		f.Line,
		s.Name,
		s.Aliases,
		s.Group,
		s.DependsOn,
		probes,
		f.Known,
	)
}

func lines(r discover.Result) []string {
	var out []string
	for _, f := range r.Found {
		out = append(out, line(f))
	}
	return out
}

func problems(r discover.Result) string {
	var b strings.Builder
	for _, p := range r.Problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestRepositoriesAreReadWithTheirOwnWordsFirst(t *testing.T) {
	r := scan(t, "testdata/repos")
	want := []string{
		"broken/.claude-ops/services.yaml:2 runner aliases=[] group= needs=[] probes=[] known=",
		"broken/.claude-ops/services.yaml:14 a aliases=[] group= needs=[b] probes=[] known=",
		"broken/.claude-ops/services.yaml:15 b aliases=[] group= needs=[c] probes=[] known=",
		"broken/.claude-ops/services.yaml:16 c aliases=[] group= needs=[] probes=[] known=",
		"broken/.claude-ops/services.yaml:17 d aliases=[dd] group= needs=[] probes=[] known=",
		`homelab/CLAUDE-OPS.md:4 nas aliases=[] group= needs=[] probes=["tcp nas.lan:445"] known=`,
		`homelab/.claude-ops/services.yaml:2 dns aliases=[pihole] group=network needs=[] probes=["dns AAAA example.org" "GET http://192.168.1.2/admin"] known=`,
		`homelab/.claude-ops/services.yaml:8 postgres aliases=[] group= needs=[] probes=["systemd postgresql.service"] known=`,
		`homelab/stacks/media/compose.yaml:5 jellyfin aliases=[] group= needs=[] probes=["tcp 127.0.0.1:8096"] known=`,
		`homelab/stacks/media/compose.yaml:8 sonarr aliases=[] group= needs=[indexer] probes=["container media-sonarr-1" "tcp 127.0.0.1:8989"] known=`,
		`homelab/stacks/media/compose.yaml:14 indexer aliases=[prowlarr] group=arr needs=[] probes=["GET http://127.0.0.1:9696/ping" "tcp 127.0.0.1:9696"] known=`,
		`homelab/stacks/media/compose.yaml:22 tool aliases=[] group= needs=[] probes=[] known=`,
		`shop/docker-compose.yml:3 web aliases=[] group= needs=[db] probes=["tcp 127.0.0.1:8443"] known=`,
		`shop/docker-compose.yml:8 db aliases=[] group= needs=[] probes=["container webshop-db-1"] known=`,
		`shop/docker-compose.yml:12 off aliases=[] group= needs=[] probes=[] known=`,
	}
	if got := lines(r); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhatCannotBeUsedIsToldWithFileAndLine(t *testing.T) {
	got := problems(scan(t, "testdata/repos"))
	for _, want := range []string{
		"broken/.claude-ops/services.yaml:4: a probe of type \"command\" is not taken from a repository",
		"broken/.claude-ops/services.yaml:5: the URL contains a user or password",
		`broken/.claude-ops/services.yaml:6: "169.254.169.254" is not an address`,
		`broken/.claude-ops/services.yaml:7: interval: "10ms" is not a time from 5s`,
		"broken/.claude-ops/services.yaml:8: a probe of type tcp needs address",
		`broken/.claude-ops/services.yaml:9: a probe of type "postgres" is not taken`,
		"broken/.claude-ops/services.yaml:10: headers is not taken from a repository",
		`broken/.claude-ops/services.yaml:11: unit: "--host=evil" is not a plain name`,
		`broken/.claude-ops/services.yaml:12: "bad\x1b[31mname" is not a name for a service`,
		"broken/.claude-ops/services.yaml:13: the service has no name",
		"broken/.claude-ops/services.yaml:16: the dependency of c on a is left out",
		"broken/.claude-ops/services.yaml:16: the dependency of c on c is left out",
		`broken/.claude-ops/services.yaml:16: c depends on "nowhere"`,
		`broken/.claude-ops/services.yaml:17: "colour" is not known here`,
		`homelab/CLAUDE-OPS.md:15: services in lists and tables are not read; write them into the front matter, between two lines --- at the top: ` +
			`services: [{name: jellyfin, probes: ["http://nas.lan:8096/health"]}, paperless, mqtt, {name: router, probes: ["http://192.168.1.1/"]}, backup]`,
		`broken/.claude-ops/services.yaml:17: the alias "a" already names the service a`,
		"broken/.claude-ops/services.yaml:18: services: expected a name",
		"broken/compose.yaml:3: is not valid YAML",
		"shop/docker-compose.yml:4: ports: the value of ${PORT} is not known here",
		`shop/docker-compose.yml:7: web depends on "cache"`,
		"shop/docker-compose.yml:14: dns was already found in homelab/.claude-ops/services.yaml:2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no problem %q", want)
		}
	}
	if strings.Contains(got, "hunter2") {
		t.Error("a password is repeated")
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestConfiguredServicesWin(t *testing.T) {
	r := scan(
		t,
		"testdata/repos",
		ops.Service{Name: "films"},
		ops.Service{Name: "database", Aliases: []string{"postgres"}},
		ops.Service{Name: "web"},
	)
	for _, f := range r.Found {
		switch f.Service.Name {
		case "web", "postgres":
			if f.Known == "" {
				t.Errorf("%s counts as new", f.Service.Name)
			}
		case "jellyfin":
			if f.Known != "" || len(f.Service.Aliases) != 0 {
				t.Errorf("jellyfin took a name of a configured service: %s", line(f))
			}
		case "paperless":
			if !slices.Equal(f.Service.DependsOn, []string{"database"}) {
				t.Errorf("paperless depends on %v", f.Service.DependsOn)
			}
		}
	}
	for _, f := range r.New() {
		if f.Known != "" {
			t.Errorf("%s is configured and counts as new", f.Service.Name)
		}
	}
}

func TestPastedYAMLIsAcceptedByTheConfigurationAndMeansTheSame(t *testing.T) {
	r := scan(t, "testdata/repos")
	text, err := discover.YAML(r.New())
	must(t, err)
	dir := t.TempDir()
	write(t, dir, "claudeops.yaml", text)
	c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir, Checks: config.Checks{
		CheckProbe: probe.Validate, CheckServices: watch.CheckServices, ProbeName: probe.Describe,
	}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var services []ops.Service
	var probes []ops.ProbeSpec
	for _, f := range r.New() {
		services, probes = append(services, f.Service), append(probes, f.Probes...)
	}
	e := c.Environments()[0]
	for i := range e.Policy.Inventory.Services {
		s := &e.Policy.Inventory.Services[i]
		s.Container, s.Unit, s.Actions = "", "", nil // what follows from a probe is added when the file is read
	}
	if got, want := fmt.Sprintf("%+v", e.Policy.Inventory.Services), fmt.Sprintf("%+v", services); got != want {
		t.Errorf("services are\n%s\nwant\n%s", got, want)
	}
	if got, want := fmt.Sprintf("%+v", e.Probes), fmt.Sprintf("%+v", probes); got != want {
		t.Errorf("probes are\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(text, "  # homelab/CLAUDE-OPS.md:4\n  - name: nas\n") {
		t.Errorf("the text does not say where nas stands:\n%s", text)
	}
}

func TestNothingOutsideARepositoryIsRead(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, outside, "services.yaml", "services: [secret]\n")
	write(t, outside, "compose.yaml", "services: {secret: {}}\n")
	write(t, dir, "repo/.claude-ops/keep", "")
	for from, to := range map[string]string{
		"repo/.claude-ops/services.yaml": filepath.Join(outside, "services.yaml"),
		"repo/CLAUDE-OPS.md":             "../../" + filepath.Base(outside) + "/services.yaml",
		"repo/compose.yaml":              filepath.Join(outside, "compose.yaml"),
		"repo/stack":                     outside,
		"other":                          outside,
	} {
		must(t, os.Symlink(to, filepath.Join(dir, from)))
	}
	r := scan(t, dir)
	if len(r.Found) != 0 {
		t.Errorf("found %v", lines(r))
	}
	got := problems(r)
	for _, want := range []string{"other: is a link", "repo/.claude-ops/services.yaml: cannot be read", "repo/compose.yaml: is a link", "repo/CLAUDE-OPS.md: cannot be read"} {
		if !strings.Contains(got, want) {
			t.Errorf("no problem %q in\n%s", want, got)
		}
	}
}

func TestHostileFilesBecomeProblems(t *testing.T) {
	bomb := "a0: &a0 {x: 1}\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("a%d: &a%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 50), ","))
	}
	var many strings.Builder
	many.WriteString("services:\n")
	for i := range 1000 {
		fmt.Fprintf(&many, "  s%d: {}\n", i)
	}
	for _, tc := range []struct{ name, file, text, want string }{
		{"huge", "compose.yaml", "services: {a: {}}\n#" + strings.Repeat("x", 300<<10), "is larger than 256 KiB"},
		{"deep flow", "compose.yaml", "services: " + strings.Repeat("[", 100_000), "is not valid YAML"},
		{"deep mapping", "compose.yaml", "services: " + strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000), ""},
		{"alias of itself", "compose.yaml", "services: &s {a: *s, b: [*s]}\n", "is not keys and values"},
		{"merge of itself", "compose.yaml", "services: &s\n  a: &a {<<: *a, ports: ['x']}\n", `"x" is not a port`},
		{"merge bomb", "compose.yaml", bomb + "services: {a: {<<: *a8}}\n", "holds too much"},
		{"services as list", "compose.yaml", "services: [a]\n", "services: expected keys and values"},
		{"ports as mapping", "compose.yaml", "services: {a: {ports: {a: b}}}\n", "ports: expected a list"},
		{"list as file", "compose.yaml", "- a\n", "is not a compose file"},
		{"key as list", "compose.yaml", "services: {[a]: {}}\n", "a key is not a plain text"},
		{"too many", "compose.yaml", many.String(), "only the first 200 services"},
		{"link-local port", "compose.yaml", "services: {a: {ports: ['169.254.169.254:80:80']}}\n", "not an address"},
		{"binary", ".claude-ops/services.yaml", "\x00\x01\xff", "is not UTF-8 text"},
		{"control characters", ".claude-ops/services.yaml", "\x00\x01", "is not valid YAML"},
		{"an address that turns round", ".claude-ops/services.yaml", "- {name: a, probes: [\"http://h/\u202egro.live\"]}\n", "not an http or https URL"},
		{"text", ".claude-ops/services.yaml", "hello\n", "services: expected a list"},
		{"mapping", ".claude-ops/services.yaml", "a: b\n", "has no services"},
		{"open front matter", "CLAUDE-OPS.md", "---\nservices: [a]\n", "the front matter has no end"},
		{"bad front matter", "CLAUDE-OPS.md", "---\nname: a\nservices: [\n---\n", "CLAUDE-OPS.md:3: is not valid YAML"},
		{"long name", ".claude-ops/services.yaml", "- " + strings.Repeat("n", 501) + "\n", "longer than 500"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "repo/"+tc.file, tc.text)
			if got := problems(scan(t, dir)); !strings.Contains(got, tc.want) || len(got) > 100_000 {
				t.Errorf("problems are %.500q, want %q", got, tc.want)
			}
		})
	}
}

func TestPipeIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "repo/keep", "")
	names := []string{"CLAUDE-OPS.md", ".claude-ops/services.yaml", "compose.yaml", "stack/docker-compose.yml"}
	for _, name := range names {
		path := filepath.Join(dir, "repo", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, syscall.Mkfifo(path, 0o600))
	}
	got := problems(scan(t, dir))
	for _, name := range names {
		if !strings.Contains(got, "repo/"+name+": is not a regular file") {
			t.Errorf("nothing is said of %s: %q", name, got)
		}
	}
}

func TestMissingFolderIsAnError(t *testing.T) {
	if _, err := discover.Scan(
		t.Context(),
		filepath.Join(t.TempDir(), "none"),
		options(),
	); err == nil ||
		!strings.Contains(err.Error(), "repos_dir") {
		t.Errorf("the error is %v", err)
	}
}

func TestPorts(t *testing.T) {
	for port, want := range map[string]string{
		"8080:80": "127.0.0.1:8080", "0.0.0.0:8080:80": "127.0.0.1:8080", "192.168.1.5:53:53/tcp": "192.168.1.5:53", "53:53/udp": "",
		"80": "", "3000-3005:3000-3005": "127.0.0.1:3000", "[::]:81:81": "[::1]:81", "127.0.0.1::80": "", "$$x:80": "", "0:80": "", "70000:80": "",
		"evil.example:80:80": "evil.example:80",
	} {
		dir := t.TempDir()
		write(t, dir, "r/compose.yaml", fmt.Sprintf("services: {a: {ports: [%q]}}\n", port))
		got := ""
		for _, f := range scan(t, dir).Found {
			for _, p := range f.Probes {
				got = p.Address
			}
		}
		if got != want {
			t.Errorf("%s is probed at %q, want %q", port, got, want)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
