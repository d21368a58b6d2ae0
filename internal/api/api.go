package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"claudeops/internal/api/metrics"
	"claudeops/internal/api/situation"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/decide/report"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Prefix is where the API begins.
const Prefix = "/api/v1"

// maxBody is far above the longest prompt that is accepted.
const maxBody = 64 << 10

// Options are what the API needs.
type Options struct {
	Store        *store.Store
	Control      desk.Control
	Logger       *slog.Logger
	Clock        ops.Clock
	Version      string
	Environments []ops.Environment // the first one is used when a request names none
	// Address is where jobs reach this server; nil if that is not known.
	Address func() string
	// NextCheck returns when each environment is checked next; nil if that is not known.
	NextCheck func() map[string]time.Time
	// Ready returns why the supervisor cannot work yet, or nil.
	Ready func() error
	// Database returns the state of the database: checking, sound or damaged. It may be nil.
	Database func() string
	// Process returns the figures of this process for the metrics. It may be nil.
	Process func() Process
	// Changed, if given, is called after a request changed silences or notifications.
	Changed func()
	// Walls returns those around the agents of this host; empty if they are not known.
	Walls func() []situation.Wall
	// WrongTokens counts the wrong tokens since the start; nil if nobody counts them.
	WrongTokens func() int64
	// Guard says what the guard thinks of a shell command, without running or recording it; nil if the guard is off.
	Guard Explainer
	// Trusted is true if only this process asks. It is told the whole of an error instead of being sent to the log.
	Trusted bool
	// ConfigFile is the configuration file that forms change and that is read again; nil if nothing here can.
	ConfigFile desk.Settings
	// CheckConfig checks the configuration as it is now; nil if it cannot be checked here.
	CheckConfig func(ctx context.Context) ConfigCheck
	// Setup returns the steps of the set-up; ask waits until those that take time were tested. Nil if nobody knows them.
	Setup func(ctx context.Context, ask bool) []SetupRow
	// Examine checks the machine as claudeops doctor does; nil if it cannot be checked here.
	Examine func(ctx context.Context) []Finding
}

// Filled are the options with something in place of what is not known.
func (o Options) Filled() Options {
	if len(o.Environments) == 0 {
		o.Environments = []ops.Environment{{Name: "default"}}
	}
	if o.Walls == nil {
		o.Walls = func() []situation.Wall { return nil }
	}
	if o.NextCheck == nil {
		o.NextCheck = func() map[string]time.Time { return nil }
	}
	return o
}

// Process are the figures of this process.
type Process = metrics.Process

type server struct {
	Options
	desk *desk.Desk
}

// What is asked about some nouns, and done to them.
type (
	actions   struct{ *server }
	incidents struct{ *server }
	services  struct{ *server }
	sessions  struct{ *server }
)

// New makes the handler for everything under /api/, for /healthz, /readyz and /metrics, and for /schemas/.
func New(o Options) http.Handler {
	s := &server{Options: o.Filled()}
	s.desk = &desk.Desk{
		Store: s.Store, Control: s.Control, Clock: s.Clock, Environments: s.Environments, Changed: s.Changed, Settings: s.ConfigFile,
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz", s.health)
	routes.HandleFunc("GET /readyz", s.ready)
	checks := problems(routes, routes)
	// Describing the whole API takes longer than the rest of the start, and an installation may never use it.
	whole := sync.OnceValue(s.routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			checks.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "private, no-cache") // what one caller may read is not for the next
		whole().ServeHTTP(w, r)
	})
}

// routes makes everything except the checks of health.
func (s *server) routes() http.Handler {
	routes := http.NewServeMux()
	described := humago.NewWithPrefix(routes, Prefix, describe(s.Version))
	actions, incidents, services, sessions := &actions{s}, &incidents{s}, &services{s}, &sessions{s}
	for _, register := range []func(huma.API){
		s.registerCycles, sessions.registerSessions, sessions.registerTranscript, actions.registerGuard, incidents.registerPeople,
		services.registerServices, services.registerHistory, services.registerHeartbeats, s.registerChanges, actions.registerCooldowns,
		actions.registerActions, s.registerEvents, s.registerMemories, s.registerSilences, actions.registerTrust, actions.registerReflexes,
		s.registerUpdates, sessions.registerCosts, s.registerHosts, s.registerStandstill, s.registerStats, s.registerSituation,
		services.registerChecks, s.registerSetup,
	} {
		register(described)
	}
	describeWebhooks(described.OpenAPI())
	text := sync.OnceValues(func() ([]byte, error) { return json.Marshal(described.OpenAPI()) })
	routes.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		text, err := text()
		if err != nil {
			s.Logger.ErrorContext(r.Context(), "cannot describe the API", "error", err)
			WriteProblem(w, http.StatusInternalServerError, "the API description could not be created")
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(text)
	})
	routes.Handle("GET /metrics", metrics.New(metrics.Options{
		Store: s.Store, Logger: s.Logger, Clock: s.Clock, Version: s.Version, Environments: s.Environments,
		WrongTokens: s.WrongTokens, Process: s.Process,
	}))
	routes.HandleFunc("GET /schemas/handoff/v1.json", published(report.HandoffSchema()))
	routes.HandleFunc("GET /schemas/outcome/v1.json", published(report.OutcomeSchema()))
	routes.HandleFunc("GET /schemas/force-done/v1.json", published(recovery.ForceDoneSchema()))
	return problems(routes, unambiguous(routes))
}

// problems answers requests without a route with a problem document instead of plain text.
func problems(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := routes.Handler(r); pattern != "" {
			next.ServeHTTP(w, r)
			return
		}
		if allowed := OtherMethods(routes, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			WriteProblem(w, http.StatusMethodNotAllowed,
				fmt.Sprintf("%s is not allowed here; use %s", r.Method, strings.Join(allowed, " or ")))
			return
		}
		WriteProblem(w, http.StatusNotFound, "no such path: "+r.URL.Path)
	})
}

// OtherMethods are the methods for which the address of a request has a route.
func OtherMethods(routes *http.ServeMux, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := routes.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// environment returns the environment of a request: the named one, or the first.
func (s *server) environment(name string) (ops.Environment, error) {
	e, err := s.desk.Environment(name)
	if err != nil {
		return e, s.problem("environment", err)
	}
	return e, nil
}

// environments returns the environments of a request: the named one, or all.
func (s *server) environments(name string) ([]ops.Environment, error) {
	if name == "" {
		return s.Environments, nil
	}
	e, err := s.environment(name)
	return []ops.Environment{e}, err
}

// Direct sends requests to a handler in this process, on behalf of one caller. It is the transport of an http.Client.
type Direct struct {
	Handler http.Handler
	Caller  Caller
}

// RoundTrip lets the handler answer.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.WithContext(WithCaller(r.Context(), d.Caller))
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	kept := &recorder{header: http.Header{}, status: http.StatusOK}
	d.Handler.ServeHTTP(kept, asked)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: strconv.Itoa(kept.status) + " " + http.StatusText(kept.status), StatusCode: kept.status, Header: kept.header,
		Body: io.NopCloser(&kept.body), ContentLength: int64(kept.body.Len()), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// recorder buffers an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
