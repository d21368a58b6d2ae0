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
	"claudeops/internal/web/live"
)

// Control is what the pages may ask of the running supervisor.
type Control interface {
	Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error)
	Cancel(ctx context.Context, id ops.CycleID, why string) error
	// Wake says that something the cycle waits for has changed.
	Wake(id ops.CycleID)
}

// Options are what the pages and the API need.
type Options struct {
	Store   *store.Store
	Control Control
	Logger  *slog.Logger
	Clock   ops.Clock // its location is the one in which times are shown
	// Token opens the pages after a login and the API as a bearer token. Without one everybody who reaches the
	// listen address may come in, so the daemon then listens on loopback only.
	Token string
	// ReadToken opens the same for looking only. It counts only beside Token.
	ReadToken string
	Version   string
	// Host is this one among those that share the database.
	Host string
	// ListenHosts are the names under which requests may come beside those of loopback. An address that means
	// every interface allows every name; the token is what protects then.
	ListenHosts  []string
	Environments []ops.Environment
	// Settings is the effective configuration as its page shows it, secrets masked.
	Settings []Setting
	// NextCheck returns when each environment is checked next.
	NextCheck func() map[string]time.Time
	// Hub nudges the pages that are open when something was written. Without one they look by themselves, a little later.
	Hub *live.Hub
	// Webhooks takes the alerts of other systems under /api/v1/webhooks/. It finds out by itself who sends them.
	Webhooks http.Handler
	// Trace names the trace of a cycle; nil where no traces are sent.
	Trace func(ops.Cycle) string
	// KeepTranscripts is how long output is kept; zero means for ever.
	KeepTranscripts time.Duration
	// Done ends the streams of open pages, so that they do not hold up a shutdown; nil means never.
	Done <-chan struct{}
	// Trouble says why no session is started here, or nothing; every page shows it.
	Trouble func() string
	// Ready says why the supervisor cannot work yet, or nil.
	Ready func() error
	// Database says what is known of the database: checking, sound or damaged; nil where nobody looks.
	Database func() string
}

type server struct {
	Options
	pages  pageSet
	assets assetSet
	pulse  *pulse
	feeds  *feeds
	today  *costCache
	words  *writing

	readers readerCount // of streams
	beacon  *beacon
	logins  *logins // nil when no token is set
	bounds  *limits
}

// New makes the handler that serves everything: pages, assets, API, health.
func New(o Options) http.Handler {
	s := &server{Options: o, assets: loadAssets(), pulse: &pulse{store: o.Store}, feeds: newFeeds(), today: &costCache{}, words: newWriting(), beacon: &beacon{hub: o.Hub}}
	if len(s.Environments) == 0 {
		s.Environments = []ops.Environment{{Name: "default"}}
	}
	if s.NextCheck == nil {
		s.NextCheck = func() map[string]time.Time { return nil }
	}
	s.bounds = newLimits()
	if o.Token != "" {
		s.logins = newLogins(o.Store, o.Token, o.ReadToken)
	}
	s.pages = loadPages(s.assets)
	return s.guard(s.routes())
}

func (s *server) routes() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", s.overview)
	pages.HandleFunc("GET /sessions", s.sessions)
	pages.HandleFunc("POST "+viewsPath, s.saveView)
	pages.HandleFunc("POST "+viewsPath+"/remove", s.removeView)
	pages.HandleFunc("GET /sessions/{id}", s.session)
	pages.HandleFunc("GET /sessions/{id}/raw", s.rawTranscript)
	pages.HandleFunc("GET /sessions/{id}/transcript", s.transcriptPiece)
	pages.HandleFunc("GET /sessions/{id}/lines/{seq}", s.rawLine)
	pages.HandleFunc("GET /sessions/{id}/lines/{seq}/{piece}", s.rawLine)
	pages.HandleFunc("GET /sessions/{id}/stream", s.sessionStream)
	pages.HandleFunc("GET /stream", s.stream)
	pages.HandleFunc("POST /sessions/{id}/stop", s.stop)
	pages.HandleFunc("POST /run", s.run)
	s.operatorRoutes(pages)
	pages.HandleFunc("POST /theme", s.theme)
	pages.HandleFunc("GET /login", s.loginPage)
	pages.HandleFunc("POST /login", s.login)
	pages.HandleFunc("POST /logout", s.logout)
	pages.HandleFunc("GET /assets/{file}", s.assets.serve)
	pages.HandleFunc("GET /favicon.ico", s.assets.favicon)

	machine := api.New(api.Options{
		Store: s.Store, Control: s.Control, Logger: s.Logger, Clock: s.Clock, Version: s.Version,
		Environments: s.Environments, NextCheck: s.NextCheck, Ready: s.Ready, Database: s.Database, Changed: s.nudge,
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
			pages.ServeHTTP(w, s.withCounts(r))
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
