package probe

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// engine is the container API of Docker on a unix socket; bodies are answers by container name.
func engine(t *testing.T, inspect func(name string) (status int, body string)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containers/{name}/json", func(w http.ResponseWriter, r *http.Request) {
		status, body := inspect(r.PathValue("name"))
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return socket
}

func TestContainersAreJudged(t *testing.T) {
	states := map[string]string{
		"plain":      `{"Id":"a","State":{"Status":"running","Running":true}}`,
		"well":       `{"Id":"b","State":{"Status":"running","Running":true,"Health":{"Status":"healthy","FailingStreak":0}}}`,
		"podman":     `{"Id":"b2","State":{"Status":"running","Running":true,"Health":{"Status":"","FailingStreak":0,"Log":null}}}`,
		"sick":       `{"Id":"c","State":{"Status":"running","Running":true,"Health":{"Status":"unhealthy"}}}`,
		"young":      `{"Id":"d","State":{"Status":"running","Running":true,"Health":{"Status":"starting"}}}`,
		"ended":      `{"Id":"e","State":{"Status":"exited","Running":false,"ExitCode":137}}`,
		"big":        `{"Id":"f","State":{"Status":"exited","Running":false,"OOMKilled":true,"ExitCode":137}}`,
		"loop":       `{"Id":"g","State":{"Status":"restarting","Running":true,"Restarting":true,"ExitCode":1}}`,
		"paused":     `{"Id":"h","State":{"Status":"paused","Running":true,"Paused":true}}`,
		"unreadable": `<html>`,
	}
	socket := engine(t, func(name string) (int, string) {
		if name == "forbidden" {
			return http.StatusForbidden, `{}`
		}
		if body, ok := states[name]; ok {
			return http.StatusOK, body
		}
		return http.StatusNotFound, `{"message":"No such container"}`
	})
	cases := []struct {
		name    string
		status  ops.Health
		problem string
	}{
		{"plain", ops.Healthy, ""},
		{"well", ops.Healthy, ""},
		{"podman", ops.Healthy, ""},
		{"sick", ops.Down, "the container is unhealthy"},
		{"young", ops.Degraded, "the container's health check is starting"},
		{"ended", ops.Down, "the container does not run: exited, exit code 137"},
		{"big", ops.Down, "the container ended: out of memory"},
		{"loop", ops.Down, "the container is restarting; its last exit code was 1"},
		{"paused", ops.Down, "the container is paused"},
		{"absent", ops.Down, "no such container: absent"},
		{"unreadable", ops.Down, "the container engine's answer is unreadable"},
		{"forbidden", ops.Down, "ask the container engine: HTTP 403 Forbidden"},
		{"../secrets", ops.Down, `"../secrets" is not a container name`},
		{"..", ops.Down, `".." is not a container name`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, ops.ProbeSpec{Type: "container", Container: c.name, Socket: socket})
			want(t, got, c.status, c.problem)
			if got.Type != ops.CheckContainer || got.Probe != "container "+c.name {
				t.Errorf("got %+v", got)
			}
		})
	}
	gone := filepath.Join(t.TempDir(), "none.sock")
	want(t, run(t, ops.ProbeSpec{Type: "container", Container: "plain", Socket: gone}), ops.Down,
		brief("ask the container engine at "+gone+": no such file or directory"))
}

func TestRestartsAreNoticedForTenMinutes(t *testing.T) {
	count, now := 4, at()
	socket := engine(t, func(string) (int, string) {
		return http.StatusOK, fmt.Sprintf(`{"Id":"a","RestartCount":%d,"State":{"Status":"running","Running":true}}`, count)
	})
	prober := New(Options{Clock: func() time.Time { return now }, Socket: socket})
	spec := ops.ProbeSpec{Type: "container", Container: "web"}
	look := func(after time.Duration, restarts, most int) ops.Check {
		now, count, spec.MaxRestarts = now.Add(after), restarts, most
		return prober.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
	}
	want(t, look(0, 4, 0), ops.Healthy, "")
	want(t, look(time.Minute, 4, 0), ops.Healthy, "")
	want(t, look(time.Minute, 5, 0), ops.Degraded, "restarts within 10m0s: 1")
	want(t, look(time.Minute, 5, 0), ops.Degraded, "restarts within 10m0s: 1")
	want(t, look(time.Minute, 7, 3), ops.Healthy, "")
	want(t, look(time.Minute, 8, 3), ops.Degraded, "restarts within 10m0s: 4")
	want(t, look(9*time.Minute, 8, 0), ops.Degraded, "restarts within 10m0s: 3")
	want(t, look(11*time.Minute, 8, 0), ops.Healthy, "")
	want(t, look(time.Minute, 0, 0), ops.Healthy, "")
	want(t, look(time.Minute, 1, 0), ops.Degraded, "restarts within 10m0s: 1")
	look(2*day, 1, 0)
	if n := len(prober.restarts.seen); n != 1 {
		t.Errorf("%d containers are remembered", n)
	}
}
