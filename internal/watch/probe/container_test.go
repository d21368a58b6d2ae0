package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// engine is the container API on a unix socket; bodies are answers by container name. No engine runs where these tests do: the
// shapes are those that Docker's API 1.41 documents and that Podman 4.3.1 answered when it was asked.
func engine(t *testing.T, inspect func(name string) (status int, body string)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containers/{name}/json", func(w http.ResponseWriter, r *http.Request) {
		status, body := inspect(r.PathValue("name"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Api-Version", "1.41")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
	mux.HandleFunc("GET /_ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "OK") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return socket
}

// inspection is an inspected container with what stands around its state; more is what else its state says.
func inspection(t *testing.T, name, status, more string, restarts int) string {
	t.Helper()
	text := fmt.Sprintf(
		`{"Id":%q,"Created":"2026-11-15T10:20:23.995532529Z","Path":"/bin/sh","Args":["-c","serve"],
		"State":{"Status":%q,"Running":%t,"Paused":%t,"Restarting":%t,"OOMKilled":false,"Dead":false,"Pid":4711,"ExitCode":0,"Error":"",
			"StartedAt":"2026-11-15T10:20:24Z","FinishedAt":"0001-01-01T00:00:00Z"},
		"Image":"sha256:","ResolvConfPath":"","HostnamePath":"","HostsPath":"","LogPath":"","Name":"/%s","RestartCount":%d,"Driver":"overlay2",
		"Platform":"linux","MountLabel":"","ProcessLabel":"","AppArmorProfile":"","ExecIDs":[],
		"HostConfig":{"Binds":[],"LogConfig":{"Type":"json-file","Config":null},"NetworkMode":"bridge","PortBindings":{},
			"RestartPolicy":{"Name":"always","MaximumRetryCount":9},"AutoRemove":false,"Privileged":false},
		"Mounts":[{"Type":"volume","Name":"data","RW":true}],
		"Config":{"Hostname":"web","Env":["STATE=broken"],"Healthcheck":{"Test":["CMD","true"]},"Labels":{"Status":"exited","Running":"false"}},
		"NetworkSettings":{"Networks":{"bridge":{"IPAddress":"172.17.0.2"}}}}`,
		fmt.Sprintf(
			"%064x",
			name,
		),
		status,
		slices.Contains([]string{"running", "paused", "restarting"}, status),
		status == "paused",
		status == "restarting",
		name,
		restarts,
	)
	var whole map[string]any
	err := json.Unmarshal([]byte(text), &whole)
	if state, ok := whole["State"].(map[string]any); ok && err == nil {
		err = json.Unmarshal([]byte("{"+more+"}"), &state)
	}
	out, printErr := json.Marshal(whole)
	must(t, errors.Join(err, printErr))
	return string(out)
}

func TestContainersAreJudged(t *testing.T) {
	states := map[string]string{
		"plain": inspection(t, "plain", "running", "", 0),
		"well": inspection(
			t,
			"well",
			"running",
			`"Health":{"Status":"healthy","FailingStreak":0,"Log":[{"Start":"2026-11-15T10:20:24Z","ExitCode":0,"Output":"ok"}]}`,
			0,
		),
		"none":       inspection(t, "none", "running", `"Health":{"Status":"none","FailingStreak":0}`, 0),
		"podman":     inspection(t, "podman", "running", `"Health":{"Status":"","FailingStreak":0,"Log":null}`, 0),
		"sick":       inspection(t, "sick", "running", `"Health":{"Status":"unhealthy","FailingStreak":3,"Log":[]}`, 0),
		"young":      inspection(t, "young", "running", `"Health":{"Status":"starting","FailingStreak":0,"Log":[]}`, 0),
		"made":       inspection(t, "made", "created", `"Health":{"Status":"","FailingStreak":0,"Log":null}`, 0),
		"ended":      inspection(t, "ended", "exited", `"ExitCode":137`, 0),
		"big":        inspection(t, "big", "exited", `"OOMKilled":true,"ExitCode":137`, 0),
		"dead":       inspection(t, "dead", "dead", `"Dead":true,"ExitCode":1`, 0),
		"loop":       inspection(t, "loop", "restarting", `"ExitCode":1`, 3),
		"paused":     inspection(t, "paused", "paused", "", 0),
		"unreadable": `<html>`,
	}
	socket := engine(t, func(name string) (int, string) {
		if name == "forbidden" {
			return http.StatusForbidden, `{}`
		}
		if body, ok := states[name]; ok {
			return http.StatusOK, body
		}
		return http.StatusNotFound, `{"cause":"no such container","message":"no container with name or ID \"absent\" found: no such container","response":404}`
	})
	cases := []struct {
		name    string
		status  ops.Health
		problem string
	}{
		{"plain", ops.Healthy, ""},
		{"well", ops.Healthy, ""},
		{"none", ops.Healthy, ""},
		{"podman", ops.Healthy, ""},
		{"made", ops.Down, "the container does not run: created, exit code 0"},
		{"dead", ops.Down, "the container does not run: dead, exit code 1"},
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
			got := asksEngine(t, socket, ops.ProbeSpec{Type: "container", Container: c.name})
			want(t, got, c.status, c.problem)
			if got.Type != ops.CheckContainer || got.Probe != "container "+c.name {
				t.Errorf("got %+v", got)
			}
		})
	}
	gone := filepath.Join(t.TempDir(), "none.sock")
	want(t, asksEngine(t, gone, ops.ProbeSpec{Type: "container", Container: "plain"}), ops.Unknown,
		ops.OneLine("the container engine does not answer at "+gone+": no such file or directory", longestError))
}

// The daemon's user is not in the group docker: what to do about it is said, since nothing is wrong with the service.
func TestAnEngineThatIsNotOurs(t *testing.T) {
	p := New(Options{Clock: at, Socket: "/e.sock"})
	p.dialer.Control = func(string, string, syscall.RawConn) error { return syscall.EACCES }
	got := p.Run(t.Context(), "home", []ops.ProbeSpec{{Service: "web", Type: "container", Container: "web"}}, ops.ProbeVerify)
	want(t, got[0], ops.Unknown,
		"the container engine does not answer: the daemon may not use /e.sock; give its user the group of this socket (docker)")
}

// An engine that has never answered is nobody's incident. One that has, and does not now, is down, and its containers are unknown.
func TestAnEngineThatDoesNotAnswer(t *testing.T) {
	hangs, answered := make(chan struct{}), false
	socket := engine(t, func(name string) (int, string) {
		switch name {
		case "hangs":
			<-hangs
		case "behind":
			return http.StatusBadGateway, "a proxy whose engine is away"
		}
		return http.StatusOK, inspection(t, name, "running", "", 0)
	})
	t.Cleanup(func() { close(hangs) })
	look := func(socket string, spec ops.ProbeSpec) ops.Check {
		spec.Timeout = time.Second
		o := Options{Clock: at, Socket: socket, Answered: func(context.Context, string) (bool, error) { return answered, nil }}
		return runWith(t, o, spec)
	}
	its, gone := ops.ProbeSpec{Type: ops.ProbeEngine}, filepath.Join(t.TempDir(), "gone.sock")
	want(t, look(socket, its), ops.Healthy, "")
	if got := look(gone, its); got.Status != ops.Unknown || got.Probe != ops.ProbeEngine {
		t.Errorf("never seen: %+v", got)
	}
	answered = true
	if got := look(gone, its); got.Status != ops.Down || !strings.Contains(got.Error, "does not answer at "+gone) {
		t.Errorf("seen before: %+v", got)
	}
	container := func(name string) ops.ProbeSpec { return ops.ProbeSpec{Type: "container", Container: name} }
	if got := look(socket, container("behind")); got.Status != ops.Unknown {
		t.Errorf("behind a proxy: %+v", got)
	}
	// The engine answers, and only says nothing about this container: that is a fault of the service.
	want(t, look(socket, container("hangs")), ops.Down, "no answer within 1s")
	mute := filepath.Join(t.TempDir(), "mute.sock") // takes connections and never answers
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", mute)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	if got := look(mute, container("web")); got.Status != ops.Unknown {
		t.Errorf("a mute engine: %+v", got)
	}
	if got := look(mute, its); got.Status != ops.Down {
		t.Errorf("a mute engine: %+v", got)
	}
}

func TestTheStartOfAContainerIsReported(t *testing.T) {
	socket := engine(t, func(string) (int, string) { return http.StatusOK, inspection(t, "web", "running", "", 4) })
	got := asksEngine(t, socket, ops.ProbeSpec{Type: "container", Container: "web", SlowAfter: time.Nanosecond})
	want := ops.Instance{ID: fmt.Sprintf("%064x", "web")[:12], Started: time.Date(2026, 11, 15, 10, 20, 24, 0, time.UTC), Restarts: 4}
	if got.Instance != want || got.Status != ops.Degraded {
		t.Errorf("got %+v, want %+v", got, want)
	}
	gone := asksEngine(t, filepath.Join(t.TempDir(), "none.sock"), ops.ProbeSpec{Type: "container", Container: "web"})
	if gone.Instance != (ops.Instance{}) {
		t.Errorf("got %+v", gone)
	}
}
