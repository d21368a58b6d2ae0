// Package messagesapi is a scripted Messages API on loopback, so that tests can run the real
// Claude Code without a key, a network or a model. A script decides from the conversation in a
// request what the model "says" next.
package messagesapi

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"claudeops/test/loopback"
)

// Script says what the model answers to a request. It is called from several goroutines when
// several agents run at once, and it may block.
type Script func(req Request) Answer

// Server is a Messages API that plays a script.
type Server struct {
	*loopback.Server[Request]
	script Script
}

// New starts a server that is closed when the test ends.
func New(t testing.TB, script Script) *Server {
	t.Helper()
	s := Open(script)
	t.Cleanup(s.Close)
	return s
}

// Open starts a server.
func Open(script Script) *Server {
	s := &Server{script: script}
	loopback.Open(refuse, func(mux *http.ServeMux, l *loopback.Server[Request]) {
		s.Server = l
		mux.HandleFunc("POST /v1/messages", s.messages)
		mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[]}`)) })
		mux.HandleFunc("HEAD /{$}", func(_ http.ResponseWriter, r *http.Request) { l.Note(r) })
	})
	return s
}

// URL is the base address for the agent.
func (s *Server) URL() string { return s.Address() }

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	req, ok := s.Take(w, r, func(n int, body []byte) (Request, error) {
		req := Request{N: n, Header: r.Header.Clone(), Body: body}
		err := json.Unmarshal(body, &req)
		return req, err
	})
	if !ok {
		return
	}
	// As the real API does: without it a conversation damaged by a resume would go unnoticed.
	if id := req.unpaired(); id != "" {
		refuse(w, http.StatusBadRequest, "tool_use and tool_result blocks do not match: "+id)
		return
	}
	s.play(r.Context(), w, req, s.script(req))
}

// hang waits until the client goes away or the test ends.
func (s *Server) hang(ctx context.Context) {
	s.Hang(ctx)
	drop()
}

// drop closes the connection without another byte.
func drop() { panic(http.ErrAbortHandler) }
