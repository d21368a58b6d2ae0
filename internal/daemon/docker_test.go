package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/dockertest"
	"claudeops/test/storetest"
)

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
		{config.DockerAuto, config.DefaultDockerSocket, "unix://" + socket, socket},
		{config.DockerAuto, config.DefaultDockerSocket, "tcp://127.0.0.1:2375", ""},
		{config.DockerOn, socket, "tcp://127.0.0.1:2375", socket},
	} {
		d := &dockerBrokers{h: &Host{Options: Options{Config: &config.Config{Docker: config.Docker{Broker: tt.broker, Socket: tt.set}}}}}
		if got := d.engine(ops.Environment{AgentEnv: []string{"DOCKER_HOST=" + tt.host}}); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestASessionRestartsOnlyWhatItsCycleFoundInTrouble(t *testing.T) {
	dir := shortFolder(t)
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "claudeops.db")})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f := storetest.NewFixture(t, s)
	policy := storetest.Policy()
	policy.Inventory = ops.Inventory{Strict: true, Services: []ops.Service{{Name: "web", Aliases: []string{"www"}}, {Name: "db"}}}
	claimed, err := s.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	first := f.Queue(t, claimed.Cycle.ID, nil, 1).Journal.Last()
	must(t, f.Start(t, first.ID, "planned", f.At))
	session := *first
	session.Tier, session.Permissions = ops.Tier2, ops.Tier2
	h := &Host{Options: Options{
		Config: &config.Config{
			StateDir: dir, Docker: config.Docker{Broker: config.DockerAuto, Socket: engineSocket(t, dir)},
			Guard: config.Guard{Sandbox: config.Sandbox{UID: 1}, Limits: []ops.CooldownLimit{{Action: "restart", Count: 1, Window: time.Hour}}},
		},
		Logger: slog.New(slog.DiscardHandler), Clock: func() time.Time { return f.At },
	}, store: s}
	h.owner.Store(&f.Owner)
	h.readiness = &readiness{}
	must(t, os.Mkdir(gateDir(h.Config), 0o700))
	env := ops.Environment{Name: "home", Probes: []ops.ProbeSpec{{Service: "web", Type: "container", Container: "front"}}}
	brokers := &dockerBrokers{h: h, redact: func(s string) string { return s }}
	opened, err := brokers.open(t.Context(), env, session, false)
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
	records, err := s.GuardDecisions(t.Context(), session.ID)
	if err != nil || len(records) != 4 || !records[1].Allowed || records[2].Rule != "cooldown" || records[3].Rule != "docker.outside" {
		t.Errorf("recorded %+v, %v", records, err)
	}
}
