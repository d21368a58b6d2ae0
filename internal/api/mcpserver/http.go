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

// Prefix is where the API begins.
const Prefix = "/api/v1"

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

// Direct asks the handler of the API in this process.
type Direct struct {
	Handler http.Handler
	// Context adds the caller to the context of a request; nil adds nothing.
	Context func(context.Context) context.Context
	From    string // the address that the caller has
}

// Ask asks the handler.
func (d Direct) Ask(ctx context.Context, r Request) ([]byte, error) {
	if d.Context != nil {
		ctx = d.Context(ctx)
	}
	q, err := NewRequest(ctx, "http://localhost"+Prefix, r)
	if err != nil {
		return nil, err
	}
	q.RemoteAddr = d.From
	answer := &recorded{header: http.Header{}, status: http.StatusOK}
	d.Handler.ServeHTTP(answer, q)
	return Answer(answer.status, answer.body.Bytes())
}

// NewRequest makes the HTTP request of a tool. base is the address of the API.
func NewRequest(ctx context.Context, base string, r Request) (*http.Request, error) {
	address, err := url.Parse(base + r.Path)
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
	q.Header.Set(ClientHeader, Client)
	return q, nil
}

// Answer is the body of an answer, or the error that a problem document tells.
func Answer(status int, text []byte) ([]byte, error) {
	if status/100 == 2 {
		return text, nil
	}
	var problem struct {
		Detail string `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		return nil, fmt.Errorf("the server answered %d %s", status, http.StatusText(status))
	}
	for _, e := range problem.Errors {
		problem.Detail += fmt.Sprintf("; %s: %s", e.Location, e.Message)
	}
	return nil, errors.New(problem.Detail)
}

// recorded keeps an answer.
type recorded struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header { return r.header }

func (r *recorded) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
}

func (r *recorded) Write(b []byte) (int, error) {
	r.wrote = true
	return r.body.Write(b)
}
