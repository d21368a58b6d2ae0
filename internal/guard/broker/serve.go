package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// serve answers one request.
func (s *Session) serve(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	default:
		answer(w, &refusal{status: http.StatusServiceUnavailable, rule: ruleRequest, reason: "Too many Docker requests at once."})
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.b.o.Logger.ErrorContext(ctx, "the Docker broker failed on a request", "session_id", s.scope.Session.ID, "panic", fmt.Sprint(p))
			answer(w, &refusal{
				status: http.StatusInternalServerError, rule: ruleRequest, reason: "The Docker broker failed on this request. Report it for a human.",
			})
		}
	}()
	if err := s.handle(w, r); err != nil {
		answer(w, s.asRefusal(ctx, err))
	}
}

func (s *Session) asRefusal(ctx context.Context, err error) *refusal {
	var no *refusal
	if errors.As(err, &no) {
		return no
	}
	if ctx.Err() == nil {
		s.b.o.Logger.WarnContext(ctx, "a Docker request failed", "session_id", s.scope.Session.ID, "error", err)
	}
	return &refusal{status: http.StatusBadGateway, rule: ruleEngine, reason: s.b.o.Redact(err.Error())}
}

// answer writes a refusal as the engine writes its errors.
func answer(w http.ResponseWriter, no *refusal) {
	text, err := write(map[string]string{"message": no.reason})
	if err != nil {
		text = []byte(`{"message":"refused"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	_, _ = w.Write(text) // the client may be gone
}

// request is one call of a client after its form was checked.
type request struct {
	target
	route route
}

func (s *Session) handle(w http.ResponseWriter, r *http.Request) error {
	req, no := s.read(r)
	if no == nil && req.route.action != look {
		return s.change(w, r, req)
	}
	if no != nil {
		s.note(r.Context(), req, no)
		if s.putBack(r.Context(), req) {
			no.reason += " It was started again."
		}
		return no
	}
	return s.forward(r.Context(), w, req)
}

// read checks the form of a request and what its request line asks for.
func (s *Session) read(r *http.Request) (request, *refusal) {
	bad := func(why string) *refusal {
		return &refusal{status: http.StatusBadRequest, rule: ruleRequest, reason: "This Docker request is refused: " + why + "."}
	}
	t, err := parseTarget(r.Method, r.RequestURI)
	req := request{target: t}
	switch {
	case err != nil:
		req.path = []string{"?"}
		return req, bad(err.Error())
	case r.Header.Get("Upgrade") != "" || strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Connection"), ",")), "upgrade"):
		return req, bad("connections are not upgraded. Use logs in place of attach and exec")
	}
	var no *refusal
	if req.route, no = permit(t, s.scope.Session.May(), s.scope.DryRun, s.replaced); no != nil {
		return req, no
	}
	if len(r.TransferEncoding) > 0 || r.ContentLength < 0 || r.ContentLength > maxBody {
		return req, bad("it must not have a body")
	}
	text, err := io.ReadAll(r.Body)
	if empty := strings.TrimSpace(string(text)); err != nil || empty != "" && empty != "{}" && empty != "null" {
		return req, bad("it must not have a body")
	}
	return req, nil
}

// keptHeaders are the headers of an answer that clients use.
func keptHeaders() []string {
	return []string{
		"Content-Type", "Api-Version", "Docker-Experimental", "Ostype", "Server", "Swarm", "Libpod-Api-Version", "Builder-Version", "Warning",
	}
}

// forward sends a judged request to the engine and its answer to the client.
func (s *Session) forward(ctx context.Context, w http.ResponseWriter, req request) error {
	resp, err := s.b.engine.send(ctx, req.target)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < http.StatusOK {
		return fmt.Errorf("the Docker engine answered %s", resp.Status)
	}
	var whole []byte
	if resp.StatusCode < http.StatusMultipleChoices && req.route.hide {
		if whole, err = readAll(resp.Body); err != nil {
			return fmt.Errorf("read answer of the Docker engine: %w", err)
		}
		if whole, err = s.hide(whole); err != nil {
			return err
		}
	}
	for _, name := range keptHeaders() {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if whole != nil {
		_, _ = w.Write(whole) // the client may be gone
		return nil
	}
	stream(w, resp.Body)
	return nil
}

// replaced says who makes the containers of this incident again.
func (s *Session) replaced() string { return scope{services: s.scope.Services()}.replaced() }

// hide takes the values of environment variables, options of drivers and known secrets out of an answer.
func (s *Session) hide(text []byte) ([]byte, error) {
	v, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read answer of the Docker engine: %w", err)
	}
	out, err := write(hideSecrets(v))
	if err != nil {
		return nil, fmt.Errorf("write answer: %w", err)
	}
	return []byte(s.b.o.Redact(string(out))), nil
}

// stream copies an answer as it comes. It ends with the engine, or when the client leaves: that cancels the engine's request.
func stream(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	_ = control.Flush() // clients wait for the header of a log that is still empty
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
