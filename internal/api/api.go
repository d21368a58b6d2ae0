package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"claudeops/internal/handoff"
	"claudeops/internal/ops"
	"claudeops/internal/outcome"
	"claudeops/internal/store"
)

const prefix = "/api/v1"

// maxBody is far above the longest prompt that is accepted.
const maxBody = 64 << 10

// Control is what the API may ask of the running supervisor.
type Control interface {
	Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error)
	Cancel(ctx context.Context, id ops.CycleID, why string) error
}

// Options are what the API needs.
type Options struct {
	Store        *store.Store
	Control      Control
	Logger       *slog.Logger
	Clock        ops.Clock
	Version      string
	Environments []string // the first one is used when a request names none
	// Ready says why the supervisor cannot work yet, or nil.
	Ready func() error
}

type server struct {
	Options
}

// New makes the handler for everything under /api/, for /healthz and /readyz, and for /schemas/.
func New(o Options) http.Handler {
	s := &server{Options: o}
	if len(s.Environments) == 0 {
		s.Environments = []string{"default"}
	}

	config := huma.DefaultConfig("Claude Ops", o.Version)
	config.DocsPath = ""    // the built-in page loads from another host
	config.SchemasPath = "" // and so do the links to it
	config.OpenAPIPath = "" // served below, made once and safely
	config.CreateHooks = nil

	routes := http.NewServeMux()
	described := humago.NewWithPrefix(routes, prefix, config)
	s.registerCycles(described)
	s.registerSessions(described)
	s.registerTranscript(described)
	s.registerEvents(described)

	description := sync.OnceValues(func() ([]byte, error) { return json.Marshal(described.OpenAPI()) })
	routes.HandleFunc("GET "+prefix+"/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		text, err := description()
		if err != nil {
			s.Logger.ErrorContext(r.Context(), "cannot describe the API", "error", err)
			writeProblem(w, http.StatusInternalServerError, "the API description could not be made")
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(text)
	})
	routes.HandleFunc("GET /healthz", s.health)
	routes.HandleFunc("GET /readyz", s.ready)
	routes.HandleFunc("GET /schemas/handoff/v1.json", published(handoff.Schema()))
	routes.HandleFunc("GET /schemas/outcome/v1.json", published(outcome.Schema()))
	return problems(routes)
}

// problems answers what no route answers with a problem document instead of the mux's plain text.
func problems(routes *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := routes.Handler(r); pattern != "" {
			routes.ServeHTTP(w, r)
			return
		}
		if allowed := otherMethods(routes, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeProblem(w, http.StatusMethodNotAllowed,
				fmt.Sprintf("%s is not possible here; use %s", r.Method, strings.Join(allowed, " or ")))
			return
		}
		writeProblem(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
	})
}

func otherMethods(routes *http.ServeMux, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := routes.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// environment returns the environment a request means.
func (s *server) environment(name string) (string, error) {
	if name == "" {
		return s.Environments[0], nil
	}
	if !slices.Contains(s.Environments, name) {
		return "", huma.Error422UnprocessableEntity(fmt.Sprintf("no environment is called %q; there is %s",
			name, strings.Join(s.Environments, ", ")))
	}
	return name, nil
}
