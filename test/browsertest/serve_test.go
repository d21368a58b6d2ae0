package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/testtoken"
)

// control stands in for the supervisor: it writes rows and nothing else.
type control struct{ store *store.Store }

func (c control) Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error) {
	return c.store.Journal.SubmitCycle(ctx, n)
}

func (c control) Cancel(ctx context.Context, id ops.CycleID, why string) error {
	_, err := c.store.Journal.RequestCancel(ctx, id, why, time.Now())
	return err
}

func (c control) Wake(ops.CycleID) {}

// site is the real handler over a journal, on a port of its own.
type site struct {
	t       testing.TB
	address string
	options web.Options
	server  *http.Server
	done    chan struct{}
	served  chan error
}

func serve(t testing.TB, s *store.Store, change ...func(*web.Options)) *site {
	t.Helper()
	w := &site{t: t, address: "127.0.0.1:0", options: web.Options{
		Options: api.Options{
			Store: s, Control: control{s}, Logger: slog.New(slog.DiscardHandler),
			Clock: func() time.Time { return time.Now().UTC() }, Version: "test", Environments: environments(),
			NextCheck: func() map[string]time.Time { return map[string]time.Time{"default": time.Now().Add(17 * time.Minute)} },
		},
		Token: testtoken.Token, Settings: settings(), Hub: web.NewHub(),
	}}
	for _, c := range change {
		c(&w.options)
	}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *site) base() string { return "http://" + w.address }

// start listens, on the same port as before.
func (w *site) start() {
	w.t.Helper()
	var listener net.Listener
	var err error
	for end := time.Now().Add(deadline); ; <-time.After(20 * time.Millisecond) {
		if listener, err = (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", w.address); err == nil {
			break
		}
		if time.Now().After(end) {
			w.t.Fatal(err)
		}
	}
	w.address = listener.Addr().String()
	w.done, w.served = make(chan struct{}), make(chan error, 1)
	w.options.Done = w.done
	handler := web.New(w.options)
	if w.options.Token == testtoken.Token { // a test that is about logins sets its own
		handler = testtoken.Handler(handler)
	}
	w.server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	server, served := w.server, w.served
	go func() { served <- server.Serve(listener) }()
}

// stop ends the server and every connection to it.
func (w *site) stop() {
	if w.server == nil {
		return
	}
	close(w.done)
	_ = w.server.Close() // what is open is cut off
	<-w.served
	w.server = nil
}

func path(format string, args ...any) string { return fmt.Sprintf(format, args...) }
