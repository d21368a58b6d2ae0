package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"claudeops/test/messagesapi"
)

// A real model stands behind the same rig: a world reaches nothing but its own loopback, so its requests leave through a Unix socket in a
// folder that both sides see. The key stays outside.

const (
	realName    = "real"
	modelSocket = "model.sock"
	upstreamKey = "INCIDENTS_API_KEY"
	patience    = 8 // times as long as a scripted model may take
)

// modelAPI is what agents ask: a script, or the way out.
type modelAPI interface {
	URL() string
	Close()
}

// stretch is a limit for scripted models, made longer for a real one.
func (j Job) stretch(limit time.Duration) time.Duration {
	if j.Model == realName {
		return limit * patience
	}
	return limit
}

// serveUpstream passes requests from a socket in a folder on to a Messages API, with the key of the operator. The function that it returns ends it.
func serveUpstream(ctx context.Context, folder, base string) (stop func() error, err error) {
	target, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("read the address of the model: %w", err)
	}
	key := os.Getenv(upstreamKey)
	if key == "" {
		return nil, fmt.Errorf("a real model needs its key in %s", upstreamKey)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(folder, modelSocket))
	if err != nil {
		return nil, fmt.Errorf("serve the model: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
		r.Out.Header.Set("X-Api-Key", key)
	}}}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return func() error {
		err := server.Close()
		<-ended
		return err
	}, nil
}

// realModel is the way out as agents in the world see it. It notes what passes, for the transcript and for the canary of the secret.
type realModel struct{ server *httptest.Server }

func openReal(s *speaker) *realModel {
	out := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(outFolder, modelSocket))
	}}
	proxy := &httputil.ReverseProxy{Transport: out, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "model"}) }}
	return &realModel{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.overhear(r.Header.Get("X-Claude-Code-Session-Id"), body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))}
}

// URL is the base address for the agent.
func (m *realModel) URL() string { return m.server.URL }

// Close ends it.
func (m *realModel) Close() { m.server.Close() }

// overhear notes what a request says about the model: its last message, and what the tools answered.
func (s *speaker) overhear(session string, body []byte) {
	var req messagesapi.Request
	_ = json.Unmarshal(body, &req) // other requests have no conversation
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.Write(body)
	if s.sessions[session] == 0 {
		s.sessions[session] = len(s.sessions) + 1
	}
	said := Said{At: time.Since(s.broken).Seconds(), Tier: tierOf(req.Prompts()), Session: s.sessions[session]}
	for i := len(req.Messages) - 1; i >= 0 && said.Text == "" && said.Calls == nil; i-- {
		for _, b := range req.Messages[i].Content {
			switch {
			case req.Messages[i].Role != "assistant":
			case b.Type == "tool_use":
				said.Calls = append(said.Calls, b.Name+" "+string(b.Input))
				result, _ := req.Result(b.ID)
				said.Heard, said.Failed = shorten(result.Text), result.IsError
			case b.Type == "text":
				said.Text += b.Text
			}
		}
	}
	s.said = append(s.said, said)
}

// outside makes the folder that the worlds of a real model see, and serves it.
func (b *bench) outside(ctx context.Context, base string) (stop func() error, err error) {
	if b.out, err = os.MkdirTemp("", "claudeops-model-"); err != nil {
		return nil, fmt.Errorf("make the folder of the model: %w", err)
	}
	end, err := serveUpstream(ctx, b.out, base)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.out))
	}
	return func() error { return errors.Join(end(), os.RemoveAll(b.out)) }, nil
}
