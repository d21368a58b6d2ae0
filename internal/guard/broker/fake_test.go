package broker_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/dockertest"
)

// fake is an engine that answers as a test says and notes what it is asked.
func fake(t *testing.T, handler http.HandlerFunc) (socket string, asked func() []string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "engine-") //nolint:usetesting // the folders of a test have long names
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	var mu sync.Mutex
	var lines []string
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		lines = append(lines, r.Method+" "+r.RequestURI)
		mu.Unlock()
		handler(w, r)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return socket, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), lines...)
	}
}

const webID = "1111111111111111111111111111111111111111111111111111111111111111"

// web answers like an engine with one container.
func web(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/containers/json":
		_, _ = fmt.Fprintf(w, `[{"Id":%q,"Names":["/web"],"Labels":{}}]`, webID)
	case "/containers/web/json", "/containers/" + webID + "/json", "/containers/1111/json":
		_, _ = fmt.Fprintf(w, `{"Id":%q,"Name":"/web","SizeRw":0,"Config":{"Image":"a/web:1","Labels":{},"Env":["A=topsecret"]},"HostConfig":{}}`, webID)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func TestTheFullIDIsSentOn(t *testing.T) {
	engine, asked := fake(t, web)
	book := &ledger{}
	socket := open(t, setup{engine: engine, tier: ops.Tier3, services: named("web"), ledger: book})
	for _, uri := range []string{"/v1.44/containers/web/restart?t=3", "/containers/1111/restart", "/containers/w%65b/stop"} {
		if status, text := call(t, socket, "POST", uri, ""); status != 204 {
			t.Errorf("%s: %d %s", uri, status, text)
		}
	}
	lines := strings.Join(asked(), "\n")
	for _, want := range []string{"POST /v1.44/containers/" + webID + "/restart?t=3", "POST /containers/" + webID + "/restart", "POST /containers/" + webID + "/stop"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%s is missing in\n%s", want, lines)
		}
	}
	if got := strings.Join(book.reserved(), ", "); got != "web restart, web restart, web redeployment open" {
		t.Errorf("reserved %s", got)
	}
	if r := book.records[0]; r.Gate != ops.GateDocker || !r.Mutating || r.SessionID != 7 || r.Digest == "" || r.ToolUseID != "docker:"+webID {
		t.Errorf("recorded %+v", r)
	}
}

func TestAStopAndAStartAreOneRedeployment(t *testing.T) {
	engine, _ := fake(t, web)
	book := &ledger{}
	socket := open(t, setup{engine: engine, tier: ops.Tier3, services: named("web"), ledger: book})
	for _, step := range []string{"POST /containers/web/stop", "POST /containers/web/stop", "POST /containers/web/start", "POST /containers/web/start", "POST /containers/web/stop"} {
		method, uri, _ := strings.Cut(step, " ")
		if status, text := call(t, socket, method, uri, ""); status != 204 {
			t.Errorf("%s: %d %s", step, status, text)
		}
	}
	if got := strings.Join(book.reserved(), ", "); got != "web redeployment open, web restart close, web restart close, web redeployment open" {
		t.Errorf("reserved %s", got)
	}
}

// Requests that come at once are judged one after the other: together they get no more than the cooldown permits.
func TestRequestsAtOnceGetNoMoreThanOneByOne(t *testing.T) {
	engine, asked := fake(t, web)
	book := &ledger{limit: 1}
	socket := open(t, setup{engine: engine, tier: ops.Tier3, services: named("web"), ledger: book})
	const all = 24
	statuses := make(chan int, all)
	var calls sync.WaitGroup
	for i := range all {
		act := []string{"restart", "stop"}[i%2]
		calls.Go(func() {
			status, _ := call(t, socket, "POST", "/containers/web/"+act, "")
			statuses <- status
		})
	}
	calls.Wait()
	close(statuses)
	done, sent := 0, 0
	for status := range statuses {
		if status == http.StatusNoContent {
			done++
		}
	}
	restarts := 0
	for _, line := range asked() {
		if strings.HasPrefix(line, "POST ") {
			sent++
		}
		if strings.HasSuffix(line, "/restart") {
			restarts++
		}
	}
	// A service that was taken down may be stopped again; nothing but the first request reserves anything.
	if done != sent || len(book.reserved()) != 1 || restarts > 1 || restarts == 1 && sent != 1 {
		t.Errorf("%d answered, %d sent, %d of them restarts, reserved %q", done, sent, restarts, book.reserved())
	}
}

func TestSecretsDoNotLeave(t *testing.T) {
	engine, _ := fake(t, web)
	book := &ledger{}
	socket := open(t, setup{engine: engine, tier: ops.Tier3, services: named("web"), ledger: book})
	if _, text := call(t, socket, "GET", "/containers/web/json", ""); strings.Contains(text, "topsecret") || !strings.Contains(text, "A=[redacted]") {
		t.Error(text)
	}
	_, text := call(t, socket, "POST", "/containers/create?name=web", `{"Image":"a/web:1","Env":["PASSWORD=hunter2"]}`)
	if strings.Contains(text, "hunter2") || len(book.records) != 1 || strings.Contains(book.records[0].Input, "hunter2") {
		t.Errorf("%s; recorded %+v", text, book.records)
	}
}

func TestStreamsAreNotHeldBack(t *testing.T) {
	gone := make(chan struct{})
	next := make(chan string)
	engine, _ := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.docker.multiplexed-stream")
		w.Header().Set("X-Private", "1")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				close(gone)
				return
			case text := <-next:
				_, _ = fmt.Fprint(w, text)
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	socket := open(t, setup{engine: engine, tier: ops.Tier1})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/containers/web/logs?follow=1&stdout=1", nil)
	must(t, err)
	resp, err := dockertest.Client(socket).Do(req) // the header comes before the first line
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Type") != "application/vnd.docker.multiplexed-stream" || resp.Header.Get("X-Private") != "" {
		t.Errorf("headers %v", resp.Header)
	}
	lines := bufio.NewReader(resp.Body)
	for _, text := range []string{"one\n", "two\n"} {
		next <- text
		if got, err := lines.ReadString('\n'); got != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
	leave() // the client leaves, and the engine is told
	<-gone
}

func TestAClosedSessionEndsItsStreams(t *testing.T) {
	gone := make(chan struct{})
	engine, _ := fake(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	t.Run("session", func(t *testing.T) {
		socket := open(t, setup{engine: engine, tier: ops.Tier1})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://docker/events", nil)
		must(t, err)
		resp, err := dockertest.Client(socket).Do(req)
		must(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
	})
	<-gone
}

func TestABrokenEngineIsAnError(t *testing.T) {
	socket := open(t, setup{engine: "/nonexistent/docker.sock", tier: ops.Tier3, services: named("web")})
	for _, step := range []string{"GET /info", "POST /containers/web/restart"} {
		method, uri, _ := strings.Cut(step, " ")
		if status, text := call(t, socket, method, uri, ""); status != 502 {
			t.Errorf("%s: %d %s", step, status, text)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
