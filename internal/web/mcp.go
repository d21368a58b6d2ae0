package web

import (
	"net/http"
	"sync"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
)

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
