package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	return len(entries)
}

func TestNothingIsLeftOpen(t *testing.T) {
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte("{}"))
	})
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = silent.Close() }()
	socket := engine(t, func(string) (int, string) { return 200, `{"Id":"a","State":{"Running":true}}` })
	names := nameServer(t, answers{"A web.example.org": {{192, 0, 2, 7}}})
	const soon = 200 * time.Millisecond
	specs := []ops.ProbeSpec{
		{Type: "http", URL: web.URL, ExpectJSON: []string{"$"}},
		{Type: "http", URL: web.URL + "/hang", Timeout: soon},
		{Type: "http", URL: "http://" + silent.Addr().String(), Timeout: soon},
		{Type: "dns", Host: "web.example.org", Server: names},
		{Type: "container", Container: "web"},
		{Type: "redis", URL: "redis://" + silent.Addr().String(), Timeout: soon},
		{Type: "redis", URL: "rediss://" + silent.Addr().String(), Timeout: soon},
		{Type: "postgres", URL: "postgres://watch:hunter2@" + tinyServer(t, postgres) + "/shop?sslmode=disable"},
		{Type: "postgres", URL: "postgres://watch:hunter2@" + silent.Addr().String() + "/shop?sslmode=disable", Timeout: soon},
		{Type: "mysql", URL: "mysql://watch@" + tinyServer(t, mySQL)},
		{Type: "mysql", URL: "mysql://watch@" + silent.Addr().String(), Timeout: soon},
		{Type: "tcp", Address: silent.Addr().String()},
		{Type: "command", Command: []string{"true"}},
	}
	prober := New(Options{Socket: socket})
	prober.Run(t.Context(), "home", specs, ops.ProbeWatch) // what is made once is made now
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		prober.Run(t.Context(), "home", specs, ops.ProbeWatch)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("stopped")) })
		prober.Run(ctx, "home", specs, ops.ProbeWatch)
	}
	// The servers of this test live in the same process and notice closed connections a little later.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= goroutines+2 && openFiles(t) <= files+2 {
			return
		}
	}
	t.Errorf("%d goroutines, %d before; %d files, %d before", runtime.NumGoroutine(), goroutines, openFiles(t), files)
}
