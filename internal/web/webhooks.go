package web

import (
	"net/http"
	"strings"
	"sync"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
)

const (
	webhooksPath = "/api/v1/webhooks/"
	// maxAlertBody limits the body of a webhook; grouped alerts are larger than forms.
	maxAlertBody = 1 << 20
)

// isWebhook reports whether a path receives alerts of other systems.
func (s *server) isWebhook(path string) bool {
	return s.Webhooks != nil && strings.HasPrefix(path, webhooksPath)
}

// bodyLimit is the maximum body size for a path.
func (s *server) bodyLimit(path string) int64 {
	if s.isWebhook(path) {
		return maxAlertBody
	}
	if isPing(path) {
		return maxPingBody
	}
	return maxBody
}

// serveWebhooks serves webhooks. Their handler authenticates the senders itself, by token or signature, so they need no login; all
// other protection applies to them too.
func (s *server) serveWebhooks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isWebhook(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if wait := s.rateLimits.alerts.take(peer(r), s.Clock()); wait > 0 {
			s.tooMany(w, r, wait, "Too many alerts from your address.")
			return
		}
		s.Webhooks.ServeHTTP(&wrongTokenWriter{ResponseWriter: w, server: s, request: r}, r)
	})
}

// wrongTokenWriter counts responses that report a wrong token or signature, and limits them like wrong tokens everywhere else.
type wrongTokenWriter struct {
	http.ResponseWriter
	server  *server
	request *http.Request
	done    bool // the limit response has replaced the handler's
}

// WriteHeader starts the response.
func (w *wrongTokenWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		if wait := w.server.wrongGuess(w.request, "sent an alert without a valid token or signature"); wait > 0 {
			w.done = true
			w.server.tooMany(w.ResponseWriter, w.request, wait, "Too many wrong tokens.")
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write continues the response.
func (w *wrongTokenWriter) Write(b []byte) (int, error) {
	if w.done {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController access to the original writer.
func (w *wrongTokenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const (
	mcpPath = "/mcp"
	// mostMCP is far above the longest answer, which is cut for the agent.
	mostMCP = 256 << 20
)

// isMCP reports whether a path is that of the MCP server, which only programs use.
func isMCP(path string) bool { return path == mcpPath }

// sentBy is the program of the operator that sent a request, for the record.
func sentBy(r *http.Request) string {
	if r.Header.Get(mcpserver.ClientHeader) == mcpserver.Client {
		return mcpserver.Client
	}
	return ""
}

// serveMCP serves the API to the operator's own agent. Each tool is a request to the API with the rights of the caller, and passes the same
// checks. A caller that may only read gets no tool that changes anything.
func (s *server) serveMCP(machine http.Handler) http.Handler {
	checked := s.limited(s.authorize(s.guardApprovals(s.recordActions(machine))))
	handler := sync.OnceValue(func() http.Handler { // most installations never use it
		return mcpserver.NewHandler(func(r *http.Request) mcpserver.Options {
			by := caller(r)
			by.Via = mcpserver.Client
			return mcpserver.Options{
				API: mcpserver.Remote{
					Base: "http://localhost" + api.Prefix, Most: mostMCP,
					Client: &http.Client{Transport: api.Direct{Handler: checked, Caller: by, From: r.RemoteAddr}},
				},
				Write: s.MCP == mcpWrite && by.May(access.Acknowledge), Version: s.Version,
			}
		})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.MCP != mcpRead && s.MCP != mcpWrite:
			s.refuse(w, r, http.StatusNotFound, "The MCP server is off. Set web.mcp to read or write.")
		case s.loggedIn(r):
			s.refuse(w, r, http.StatusForbidden, "The MCP server takes a token, not the login of a browser.")
		default:
			handler().ServeHTTP(w, r)
		}
	})
}

// What the MCP server offers; see config.
const (
	mcpRead  = "read"
	mcpWrite = "write"
)
