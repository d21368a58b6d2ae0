package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"claudeops/internal/store"
)

// refuse serves one page that says that the database is damaged, until ctx ends. Any other reason not to start ends the program
// at once.
func (o Options) refuse(ctx context.Context, ln net.Listener, reason error) error {
	if !store.Damaged(reason) {
		return errors.Join(reason, ln.Close())
	}
	o.Logger.ErrorContext(ctx, "the database is damaged; nothing starts, and every page says so", "error", reason)
	server := &http.Server{Handler: damagedPage("the database is damaged"), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	o.Service.ready("the database is damaged; nothing starts")
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { o.Service.watch(ctx, &loops{}) })
	defer watching.Wait()
	defer stop()
	select {
	case err := <-ended:
		return errors.Join(reason, err)
	case <-ctx.Done():
	}
	err := server.Close()
	<-ended
	return errors.Join(reason, err)
}

// unlessLost answers nothing from a database that is damaged or gone.
func (g *ground) unlessLost(site http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := site
		if found := g.readiness.lost(g.readiness.missing()); found != nil {
			answer = damagedPage(found.what)
		}
		answer.ServeHTTP(w, r)
	})
}

// damagedPage answers every request with the same text and status 503. Without a database nobody can be recognised, so the page does
// not name files; the log does.
func damagedPage(what string) http.Handler {
	words := "Claude Ops: " + what + ". No service is watched or repaired. Stop claudeops, restore a backup " +
		"(claudeops db restore), and start it again. The log of the supervisor says more."
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Retry-After", "60")
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasSuffix(r.URL.Path, "z") {
			http.Error(w, words, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>%[1]s · Claude Ops</title></head>"+
			"<body><main><h1>%[1]s</h1><p>%[2]s</p></main></body></html>\n", strings.ToUpper(what[:1])+what[1:], words)
	})
}
