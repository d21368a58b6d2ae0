// Package responsesapi is a scripted Responses API on loopback, so that tests can run the real Codex without a key, a
// network or a model. A script decides from the conversation in a request what the model "says" next.
package responsesapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"claudeops/test/loopback"
)

// Script says what the model answers to a request. It is called from several goroutines when several agents run at once,
// and it may block.
type Script func(req Request) Answer

// Server is a Responses API that plays a script.
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
		mux.HandleFunc("POST /v1/responses", s.responses)
	})
	return s
}

// URL is the base address for the agent, with the version of the API.
func (s *Server) URL() string { return s.Address() + "/v1" }

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	req, ok := s.Take(w, r, func(n int, body []byte) (Request, error) {
		req := Request{N: n, Header: r.Header.Clone(), Body: body}
		err := json.Unmarshal(body, &req)
		if err == nil && !req.Stream {
			err = errors.New("only streamed answers are served")
		}
		return req, err
	})
	if !ok {
		return
	}
	// As the real API does: without it a conversation damaged by a resume would go unnoticed.
	if id := req.unanswered(); id != "" {
		refuse(w, http.StatusBadRequest, "No tool output found for function call "+id+".")
		return
	}
	s.play(r.Context(), w, req, s.script(req))
}
