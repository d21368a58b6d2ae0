package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Control is what the pages may ask of the running supervisor.
type Control interface {
	Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error)
	Cancel(ctx context.Context, id ops.CycleID, why string) error
}

// Options are what the pages and the API need.
type Options struct {
	Store   *store.Store
	Control Control
	Logger  *slog.Logger
	Clock   ops.Clock // its location is the one in which times are shown
	// Token opens the pages after a login and the API as a bearer token. Without one everybody who reaches the
	// listen address may come in, so the daemon then listens on loopback only.
	Token   string
	Version string
	// ListenHosts are the names under which requests may come beside those of loopback. An address that means
	// every interface allows every name; the token is what protects then.
	ListenHosts  []string
	Environments []ops.Environment
	// NextCheck returns when each environment is checked next.
	NextCheck func() map[string]time.Time
	// Ready says why the supervisor cannot work yet, or nil.
	Ready func() error
}

type server struct {
	Options
	pages  pageSet
	assets assetSet
	logins *logins // nil when no token is set
}

// New makes the handler that serves everything: pages, assets, API, health.
func New(o Options) http.Handler {
	s := &server{Options: o, assets: loadAssets()}
	if len(s.Environments) == 0 {
		s.Environments = []ops.Environment{{Name: "default"}}
	}
	if s.NextCheck == nil {
		s.NextCheck = func() map[string]time.Time { return nil }
	}
	if o.Token != "" {
		s.logins = newLogins(o.Token)
	}
	s.pages = loadPages(s.assets)
	return s.guard(s.routes())
}

func (s *server) routes() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", s.overview)
	pages.HandleFunc("GET /sessions", s.sessions)
	pages.HandleFunc("GET /sessions/{id}", s.session)
	pages.HandleFunc("POST /sessions/{id}/stop", s.stop)
	pages.HandleFunc("POST /run", s.run)
	pages.HandleFunc("POST /theme", s.theme)
	pages.HandleFunc("GET /login", s.loginPage)
	pages.HandleFunc("POST /login", s.login)
	pages.HandleFunc("POST /logout", s.logout)
	pages.HandleFunc("GET /assets/{file}", s.assets.serve)
	pages.HandleFunc("GET /favicon.ico", s.assets.favicon)

	machine := api.New(api.Options{
		Store: s.Store, Control: s.Control, Logger: s.Logger, Clock: s.Clock, Version: s.Version,
		Environments: environmentNames(s.Environments), Ready: s.Ready,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forMachines(r.URL.Path) {
			machine.ServeHTTP(w, r)
			return
		}
		if _, pattern := pages.Handler(r); pattern != "" {
			if err := r.ParseForm(); err != nil {
				s.errorPage(w, r, http.StatusBadRequest, "The form could not be read, so nothing was done.")
				return
			}
			pages.ServeHTTP(w, r)
			return
		}
		if allowed := otherMethod(pages, r); allowed != "" {
			w.Header().Set("Allow", allowed)
			s.errorPage(w, r, http.StatusMethodNotAllowed, fmt.Sprintf("This address only takes %s.", allowed))
			return
		}
		s.errorPage(w, r, http.StatusNotFound, "There is no page at this address.")
	})
}

func otherMethod(pages *http.ServeMux, r *http.Request) string {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := pages.Handler(other); pattern != "" {
			return method
		}
	}
	return ""
}

func environmentNames(environments []ops.Environment) []string {
	names := make([]string, 0, len(environments))
	for _, e := range environments {
		names = append(names, e.Name)
	}
	return names
}
