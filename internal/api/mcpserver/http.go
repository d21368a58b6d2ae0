package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewHandler serves the tools over HTTP. Every request stands alone: it gets a server made for its caller, and no session is kept.
func NewHandler(serverFor func(*http.Request) Options) http.Handler {
	schemas := sdk.NewSchemaCache()
	return sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		o := serverFor(r)
		o.Schemas = schemas
		return New(o)
	}, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		// The server in front has checked the host name. It also knows the public one of a proxy on this machine.
		DisableLocalhostProtection: true,
	})
}

// Remote asks the API over HTTP.
type Remote struct {
	Base   string // the address of the API
	Token  string // empty if the client needs none
	Client *http.Client
	Most   int64 // bytes of an answer
}

// Ask sends the request of a tool.
func (s Remote) Ask(ctx context.Context, r Request) ([]byte, error) {
	q, err := s.request(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, err := s.Client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, s.Most))
	if err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return Answer(answer.StatusCode, text)
}

// request makes the HTTP request of a tool.
func (s Remote) request(ctx context.Context, r Request) (*http.Request, error) {
	address, err := url.Parse(s.Base + r.Path)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	address.RawQuery = r.Query.Encode()
	var sent io.Reader
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		sent = bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(ctx, r.Method, address.String(), sent)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	if r.Body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if s.Token != "" {
		q.Header.Set("Authorization", "Bearer "+s.Token)
	}
	q.Header.Set(ClientHeader, Client)
	return q, nil
}

// Answer is the body of an answer, or the error that a problem document tells.
func Answer(status int, text []byte) ([]byte, error) {
	if status/100 == 2 {
		return text, nil
	}
	return nil, errors.New(Problem(status, text))
}

// Problem is what a problem document says.
func Problem(status int, text []byte) string {
	var problem struct {
		Detail string `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		return fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))
	}
	for _, e := range problem.Errors {
		problem.Detail += fmt.Sprintf("; %s: %s", e.Location, e.Message)
	}
	return problem.Detail
}
