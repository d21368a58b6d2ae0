package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/act"
	"claudeops/internal/agent"
	"claudeops/internal/config"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/probe"
	"claudeops/test/dockertest"
	"claudeops/test/storetest"
)

// planOf is a plan on a ground of its own, of which nothing is built.
func planOf(t *testing.T, o Options, envs []ops.Environment) *plan {
	t.Helper()
	g := newGround(t.Context(), o)
	t.Cleanup(func() { must(t, g.close()) })
	return g.newPlan(o, envs)
}

// probing is a plan whose environments run these commands as probes.
func probing(t *testing.T, guarded bool, commands ...[]string) *plan {
	t.Helper()
	dir := t.TempDir()
	var probes []map[string]any
	for _, argv := range commands {
		probes = append(probes, map[string]any{"type": "command", "command": argv})
	}
	text, err := json.Marshal(map[string]any{
		"state_dir": "state", "repos_dir": "repos", "guard": map[string]any{"enabled": guarded},
		"environments": []any{
			map[string]any{"name": "home", "services": []any{map[string]any{"name": "db", "probes": probes}}}, map[string]any{"name": "lab"},
		},
	})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "claudeops.yaml"), text, 0o600))
	c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	return planOf(t, Options{Config: c, Clock: time.Now, Self: filepath.Join(dir, "claudeops")}, c.Environments())
}

func TestProbesThatOnlyLookAreRun(t *testing.T) {
	for _, argv := range [][]string{
		{"pg_isready", "-q"},
		{"true"},
		{"/bin/true"},
		{"curl", "-fsS", "http://web.example/health"},
		{"sh", "-c", "test -f '/etc/hostname'"},
		{"test", "it's", "=", "it's"},
		{"/opt/check.sh", "--all"},
		{"my-own-check"}, // the operator's own
	} {
		o, err := probing(t, true, argv).proberOptions()
		if err != nil {
			t.Errorf("%q is refused: %v", argv, err)
			continue
		}
		if err := o.Allow(argv); err != nil {
			t.Errorf("%q is not run: %v", argv, err)
		}
	}
}

func TestAProbeThatDoesMoreThanLookIsRefusedAtStart(t *testing.T) {
	for _, argv := range [][]string{
		{"docker", "restart", "web"}, {"rm", "-rf", "/srv"}, {"sh", "-c", "systemctl restart db"}, {"touch", "/srv/mark"},
	} {
		_, err := probing(t, true, []string{"true"}, argv).proberOptions()
		var wrong *config.Error
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 {
			t.Errorf("%q: %v", argv, err)
			continue
		}
		text := err.Error()
		for _, want := range []string{"claudeops.yaml:1", "services[0].probes[1]", argv[0], "db is not run", "the guard refuses it", "guard.enabled"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: the error does not say %q: %s", argv, want, text)
			}
		}
	}
}

func TestWithoutTheGuardEveryProbeIsRun(t *testing.T) {
	o, err := probing(t, false, []string{"docker", "restart", "web"}).proberOptions()
	if err != nil || o.Allow != nil {
		t.Errorf("%v, %v", o.Allow != nil, err)
	}
}

// What a path leads to may change after the start: then the check says why it is not made, and the service is not down.
func TestAProbeIsJudgedAgainBeforeItRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health")
	must(t, os.WriteFile(file, []byte("well"), 0o600))
	argv := []string{"cat", file}
	h := probing(t, true, argv)
	o, err := h.proberOptions()
	must(t, err)
	run := func() ops.Check { return probe.New(o).Run(t.Context(), "home", h.envs[0].Probes, ops.ProbeWatch)[0] }
	if got := run(); got.Status != ops.Healthy {
		t.Fatalf("%+v", got)
	}
	must(t, os.Remove(file))
	must(t, os.Symlink("/etc/shadow", file))
	if got := run(); got.Status != ops.Degraded || !strings.Contains(got.Error, "the command was not run: the guard refuses it") {
		t.Errorf("%+v", got)
	}
}

func TestACycleKnowsHowItsEnvironmentIsWatched(t *testing.T) {
	e := ops.Environment{Name: "home", Watch: ops.Watch{Maintenance: []ops.Maintenance{{Name: "disk", Service: "db"}}}}
	h := planOf(t, Options{Config: &config.Config{}, Clock: time.Now}, []ops.Environment{e})
	for _, got := range [][]ops.Environment{h.envs, h.mine} {
		if len(got) != 1 || len(got[0].Policy.Watch.Maintenance) != 1 {
			t.Errorf("got %+v", got)
		}
	}
}

// engineSocket is an engine with one container that belongs to the service web.
func engineSocket(t *testing.T, dir string) string {
	t.Helper()
	socket := filepath.Join(dir, "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	mux := http.NewServeMux()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	mux.HandleFunc("GET /containers/json", answer(`[{"Id":"aaaa","Names":["/front"]},{"Id":"bbbb","Names":["/db"]}]`))
	mux.HandleFunc("GET /containers/front/json", answer(`{"Id":"aaaa","Name":"/front"}`))
	mux.HandleFunc("GET /containers/db/json", answer(`{"Id":"bbbb","Name":"/db"}`))
	mux.HandleFunc("POST /containers/aaaa/restart", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return socket
}

func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "docker-") //nolint:usetesting // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestWhichEngineASessionReaches(t *testing.T) {
	dir := shortFolder(t)
	socket := engineSocket(t, dir)
	missing := filepath.Join(dir, "missing")
	for _, tt := range []struct {
		broker    config.DockerBroker
		set, host string
		want      string
	}{
		{config.DockerAuto, socket, "", socket},
		{config.DockerAuto, missing, "", ""},
		{config.DockerAuto, dir, "", ""},
		{config.DockerOn, missing, "", missing},
		{config.DockerOff, socket, "", ""},
		{config.DockerAuto, socket, "unix://" + missing, socket}, // one engine for everything
		{config.DockerAuto, config.DefaultDockerSocket, "tcp://127.0.0.1:2375", ""},
		{config.DockerOn, socket, "tcp://127.0.0.1:2375", socket},
	} {
		d := &plan{Options: Options{Config: &config.Config{Docker: config.Docker{Broker: tt.broker, Socket: tt.set}}}}
		if got := (brokers{d}).brokered(ops.Environment{AgentEnv: []string{"DOCKER_HOST=" + tt.host}}); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestASessionRestartsOnlyWhatItsCycleFoundInTrouble(t *testing.T) {
	dir := shortFolder(t)
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(dir, "claudeops.db")}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f := storetest.NewFixture(t, s)
	policy := storetest.Policy()
	policy.Inventory = ops.Inventory{Strict: true, Services: []ops.Service{{Name: "web", Aliases: []string{"www"}}, {Name: "db"}}}
	claimed, err := s.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	first := f.Queue(t, claimed.Cycle.ID, nil, 1).Journal.Last()
	must(t, f.Start(t, first.ID, "planned", f.At))
	session := *first
	session.Tier, session.Permissions = ops.Tier2, ops.Tier2
	h := planOf(t, Options{
		Config: &config.Config{
			StateDir: dir, Docker: config.Docker{Broker: config.DockerAuto, Socket: engineSocket(t, dir)},
			Guard: config.Guard{Sandbox: config.Sandbox{UID: 1}, Limits: []ops.CooldownLimit{{Action: "restart", Count: 1, Window: time.Hour}}},
		},
		Logger: slog.New(slog.DiscardHandler), Clock: func() time.Time { return f.At },
	}, nil)
	h.store = s
	h.owner.Store(&f.Owner)
	h.readiness = newReadiness(dir)
	must(t, os.Mkdir(gateDir(h.Config), 0o700))
	env := ops.Environment{Name: "home", Probes: []ops.ProbeSpec{{Service: "web", Type: "container", Container: "front"}}}
	opened, err := brokers{h}.openDocker(t.Context(), env, session, false)
	must(t, err)
	t.Cleanup(func() { _ = opened.close() })
	socket := strings.TrimPrefix(opened.env()[0], "DOCKER_HOST=unix://")
	restart := func(name string) int {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://docker/containers/"+name+"/restart", nil)
		must(t, err)
		resp, err := dockertest.Client(socket).Do(req)
		must(t, err)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := restart("front"); got != http.StatusForbidden {
		t.Errorf("before anything is in trouble: %d", got)
	}
	f.Commit(t, ops.Transition{Cycle: claimed.Cycle.ID, At: f.At, Step: ops.Step{Kind: ops.StepProbe}, Result: ops.Result{Checks: []ops.Check{
		{At: f.At, Environment: "home", Purpose: ops.ProbeObserve, Service: "web", Probe: "p", Type: "http", Status: ops.Down},
	}}})
	if got := []int{restart("front"), restart("front"), restart("db")}; !slices.Equal(got, []int{204, 403, 403}) {
		t.Errorf("restarts: %v", got)
	}
	records, err := s.Acts.GuardDecisions(t.Context(), session.ID)
	if err != nil || len(records) != 4 || !records[1].Allowed || records[2].Rule != "cooldown" || records[3].Rule != "docker.outside" {
		t.Errorf("recorded %+v, %v", records, err)
	}
}

func TestWhereATierMayGo(t *testing.T) {
	c := &config.Config{Guard: config.Guard{Hosts: []string{"ie01"}, Sandbox: config.Sandbox{Network: config.NetworkServices, Hosts: []string{"github.com", "git:2222"}}}}
	e := ops.Environment{
		ReposDir: t.TempDir(),
		Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{
			{Name: "web", Methods: []string{"POST"}},
			{Name: "queue", Methods: []string{"GET"}},
			{Name: "site"},
			{Name: "db"},
			{Name: "cache"},
			{Name: "batch"},
			{Name: "admin", Methods: []string{"any"}},
		}}},
		Probes: []ops.ProbeSpec{
			{Service: "web", Type: "http", URL: "http://web:8080/health"},
			{Service: "queue", Type: "tcp", Address: "queue:11300"},
			{Service: "site", Type: "http", URL: "https://site/"},
			{Service: "db", Type: "postgres", URL: "postgres://u@db/app"},
			{Service: "cache", Type: "redis", URL: "redis://cache"},
			{Service: "admin", Type: "http", URL: "https://admin:8443/"},
			{Service: "batch", Type: "container", Container: "batch"},
		},
	}
	for file, text := range map[string]string{
		"app/.git/config":  "[core]\n\turl = http://core/x\n[remote \"origin\"]\n\turl = https://git.example/ada/app.git\n[branch \"main\"]\n\tremote = origin\n",
		"site/.git/config": "[remote \"a\"]\n  url = http://web:8080/ada/site/\n[remote \"b\"]\n  url=https://github.com/ada/site\n  url = git@host:x\n  url = /srv/x\n",
	} {
		path := filepath.Join(e.ReposDir, file)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	say := func(tier ops.Tier) string {
		permits, without, err := Permits(c, e, tier)
		if err != nil || !slices.Equal(without, []string{"batch"}) {
			t.Errorf("%v, without an address: %v", err, without)
		}
		var out []string
		for _, p := range permits {
			out = append(out, p.String())
		}
		return strings.Join(out, "\n")
	}
	first, second := say(ops.Tier1), say(ops.Tier2)
	for _, want := range []string{
		"http://web:8080 (web, GET, HEAD)", "site:443 (site, with the tool look only)", "db:5432 (db, with the tool look only)", "cache:6379 (cache, with the tool look only)",
		"queue:11300 (queue, a connection without a byte)", "http://git.example:443/ada/app.git (app, git fetch)", "http://web:8080/ada/site (site, git fetch)",
		"ie01:22 (ssh)", "https://github.com:443", "git:2222 (sandbox.network_hosts)", "admin:8443 (admin, with the tool look only)",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("Tier 1 lacks %q:\n%s", want, first)
		}
	}
	if strings.Contains(first, "core") || strings.Contains(first, "github.com:443/ada") || strings.Contains(first, "//host") {
		t.Errorf("other remotes are permitted:\n%s", first)
	}
	for _, want := range []string{"queue:11300 (queue, a connection without a byte)", "http://web:8080 (web, POST)", "https://admin:8443 (admin)", "db:5432 (db, with the tool look only)"} {
		if !strings.Contains(second, want) {
			t.Errorf("Tier 2 lacks %q:\n%s", want, second)
		}
	}
	c.Guard.Sandbox.Network = config.NetworkNone
	if permits, _, err := Permits(c, e, ops.LastTier); err != nil || len(permits) > 0 {
		t.Errorf("%v, %v", permits, err)
	}
}

func TestAKeyInsideASessionIsNamed(t *testing.T) {
	for env, inside := range map[string]bool{"ANTHROPIC_API_KEY=x": false, "CLAUDE_CODE_USE_BEDROCK=1": true, "CLAUDE_CODE_USE_VERTEX=0": false} {
		if got := KeyInside([]string{env}); (got != "") != inside {
			t.Errorf("%s: %q", env, got)
		}
	}
}

func TestOurOwnListenersAreKnown(t *testing.T) {
	h := planOf(t, Options{Config: &config.Config{Listen: "0.0.0.0:8080", DatabaseURL: "postgres://u@127.0.0.1:5433/x"}, Clock: time.Now}, nil)
	h.networks.keys = map[string]bool{"127.0.0.1:4711": true}
	for address, own := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.9:8080": true, "127.0.0.1:5433": true, "127.0.0.1:4711": true, "127.0.0.1:8081": false, "192.0.2.1:8080": false,
	} {
		if got := h.networks.own(netip.MustParseAddrPort(address)); got != own {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestAHostIsAskedWhereItListensAndUnderItsPublicName(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	for public, want := range map[string][]string{
		"": {"192.0.2.7"}, "https://ops.example.org:8443": {"192.0.2.7", "ops.example.org"},
	} {
		h := planOf(t, Options{Config: &config.Config{Listen: "192.0.2.7:8080", Edges: config.Edges{PublicURL: public}}, Clock: time.Now}, nil)
		h.listener = ln
		if got := h.hostNames(); !slices.Equal(got, want) {
			t.Errorf("public name %q: %v", public, got)
		}
	}
}

func TestOnlyWhatASessionMayNotChangeCountsAsRefusedByAWall(t *testing.T) {
	repos, state := t.TempDir(), t.TempDir()
	env := ops.Environment{Name: "prod"}
	for name, tt := range map[string]struct {
		confine, dryRun bool
		tier            ops.Tier
		repos           bool // a path in the repositories counts
	}{
		"Tier 1":    {confine: true, tier: ops.Tier1, repos: true},
		"Tier 2":    {confine: true, tier: ops.Tier2},
		"a dry run": {confine: true, dryRun: true, tier: ops.Tier2, repos: true},
		"no walls":  {tier: ops.Tier2},
	} {
		box := wall.New(wall.Config{Confine: tt.confine, ReposDir: repos, StateDir: state})
		g := &gates{p: &plan{sandboxes: map[string]*wall.Sandbox{"prod": box}, commits: &act.Commits{Dir: t.TempDir()}}}
		walled := g.walled(env, ops.Session{Key: "k", Tier: tt.tier}, wall.Session{ID: "k", LookOnly: tt.dryRun})
		if (walled != nil) != tt.confine {
			t.Errorf("%s: walls %v", name, walled != nil)
		}
		if walled == nil {
			continue
		}
		if !walled("/etc/x") || !walled(repos+"-other/x") || walled(filepath.Join(repos, "lab/x")) != tt.repos {
			t.Errorf("%s: /etc %v, beside %v, repositories %v", name, walled("/etc/x"), walled(repos+"-other/x"), walled(filepath.Join(repos, "lab/x")))
		}
	}
}

func TestTheJudgeKnowsTheSecretFilesOfClonesThatNoWallCovers(t *testing.T) {
	e := ops.Environment{Name: "prod", ReposDir: t.TempDir(), StateDir: t.TempDir()}
	secret := filepath.Join(e.ReposDir, ".env")
	must(t, os.WriteFile(secret, nil, 0o600))
	for mode, want := range map[config.SandboxMode][]string{config.SandboxOff: {secret}, config.SandboxAuto: nil} {
		if got := uncovered(Walls(&config.Config{Guard: config.Guard{Sandbox: config.Sandbox{Mode: mode}}}, e, ""), ops.Tier2); !slices.Equal(got, want) {
			t.Errorf("sandbox.mode %s: %v", mode, got)
		}
	}
}

func TestWhichSessionsAreGated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env             []string
		gate            string
		ungated, shells bool
	}{
		"Claude Code":       {[]string{"CLAUDE_CODE_SHELL_PREFIX=/gates/1-1/claudeops-guard-shell"}, "/gates/1-1", false, false},
		"Codex":             {[]string{"CLAUDEOPS_SHELL_GATE=/gates/1-1", "CLAUDEOPS_TOOL_SOCKET=/gates/1-1/gate.sock"}, "/gates/1-1", false, true},
		"Codex, not judged": {[]string{"CLAUDEOPS_TOOL_SOCKET=/gates/1-1/gate.sock"}, "/gates/1-1", true, false},
		"a command":         {nil, "", true, false},
	} {
		s := sessionOf(agent.Program{Env: c.env}, "/gates")
		if s.Gate != c.gate || s.Ungated != c.ungated || s.Shells != c.shells {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestTheSupervisorsEnvironmentIsHidden(t *testing.T) {
	must(t, hideEnvironment(t.Context()))
	if on, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || on != 0 {
		t.Errorf("got %d, %v", on, err)
	}
}

func TestTheUnitAndItsEnvironmentFilesAreOurs(t *testing.T) {
	dir := t.TempDir()
	unit, drop := filepath.Join(dir, "ops.service"), filepath.Join(dir, "ops.service.d")
	must(t, os.Mkdir(drop, 0o700))
	for name, text := range map[string]string{
		unit: "[Service]\nEnvironmentFile=/etc/ops/secrets\nExecStart=/usr/bin/claudeops serve\n", filepath.Join(drop, "more.conf"): "[Service]\nEnvironmentFile=-/etc/ops/more\n",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	units := unitFilesOf("0::/system.slice/ops.service/claudeops-x\n", []string{dir, filepath.Join(dir, "none")})
	if !slices.Equal(units, []string{unit, drop}) {
		t.Errorf("units are %q", units)
	}
	if files := environmentFiles(units); !slices.Equal(files, []string{"/etc/ops/secrets", "/etc/ops/more"}) {
		t.Errorf("environment files are %q", files)
	}
	if units := unitFilesOf("0::/user.slice/session-1.scope\n", []string{dir}); units != nil {
		t.Errorf("a shell has the units %q", units)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
