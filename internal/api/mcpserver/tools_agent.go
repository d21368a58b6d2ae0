package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

// AgentOptions are what the server needs.
type AgentOptions struct {
	Socket  string // of the session's gate
	Environ []string
	Version string
}

type actionInput struct {
	Service string `json:"service" jsonschema:"the service to act on"`
	Action  string `json:"action" jsonschema:"the name of one of its actions, see actions_list"`
	Why     string `json:"why" jsonschema:"why it is needed, in one or two sentences"`
	Branch  string `json:"branch,omitempty" jsonschema:"only for an action that pushes a branch: its name"`
}

type undoInput struct {
	ID  int64  `json:"id" jsonschema:"the id that action_run returned"`
	Why string `json:"why" jsonschema:"why it has to be undone"`
}

type lookInput struct {
	What   string   `json:"what" jsonschema:"sockets, routes, firewall, ping, dns, tcp, tls, http, head, redis, sql or command"`
	Target string   `json:"target,omitempty" jsonschema:"a service, or the host, host:port or URL that one of its probes names"`
	Query  string   `json:"query,omitempty" jsonschema:"redis: PING or INFO; sql: one SELECT; dns: the type of record"`
	Argv   []string `json:"argv,omitempty" jsonschema:"command: the words of ss, ip … show, nft list, dig, nc -z or ping"`
}

type probeInput struct {
	Services []string `json:"services,omitempty" jsonschema:"the services to check; empty: all"`
}

// NewForAgent makes the server of a session.
func NewForAgent(o AgentOptions) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: ops.ToolServerName, Version: o.Version}, nil)
	look := &sdk.ToolAnnotations{ReadOnlyHint: true}
	offer(s, o, &sdk.Tool{
		Name: "actions_list", Annotations: look,
		Description: "List the actions that the supervisor can do to the services of this incident, and which of them this session may ask for.",
	}, none{})
	offer(s, o, &sdk.Tool{
		Name: "action_run",
		Description: "Ask the supervisor to do an action. It checks, acts, probes the services before and after, and undoes what made " +
			"them worse. Do not repeat a refused call.",
	}, actionInput{})
	offer(s, o, &sdk.Tool{Name: "action_undo", Description: "Undo an action that this session asked for, if it has a way back."}, undoInput{})
	offer(s, o, &sdk.Tool{Name: "services_status", Annotations: look, Description: "The last known state of all services."}, none{})
	offer(s, o, &sdk.Tool{
		Name: "probe_now", Annotations: look, Description: "Check services now with the supervisor's own probes.",
	}, probeInput{})
	offer(s, o, &sdk.Tool{
		Name: "cooldowns", Annotations: look, Description: "What is left of the rate limits for restarts, redeployments and actions.",
	}, none{})
	offer(s, o, &sdk.Tool{
		Name: "look", Annotations: look,
		Description: "Look at the network of the host and at the addresses of declared services, from outside this session: sockets, routes, " +
			"firewall, ping, DNS, TCP, TLS, GET and HEAD over HTTP and HTTPS, PING and INFO of Redis, one SELECT in a read-only transaction.",
	}, lookInput{})
	return s
}

// offer adds a tool that is passed on to the gate. The zero value of its input says which fields it has.
func offer[In any](s *sdk.Server, o AgentOptions, tool *sdk.Tool, _ In) {
	sdk.AddTool(s, tool, func(_ context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		input, err := json.Marshal(in)
		if err != nil {
			return nil, nil, fmt.Errorf("write input: %w", err)
		}
		answer, err := client.Tool(o.Socket, variable(o.Environ, "CLAUDEOPS_SESSION_KEY"), tool.Name, input)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("the supervisor cannot be asked: %w", err)
		case answer.Verdict != client.Allow:
			return nil, nil, errors.New(answer.Reason)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Text}}}, nil, nil
	})
}

// ServeAgent answers the agent until it closes the connection.
func ServeAgent(ctx context.Context, o AgentOptions) error {
	if err := NewForAgent(o).Run(ctx, &sdk.StdioTransport{}); err != nil && ctx.Err() == nil && !closed(err) {
		return fmt.Errorf("serve tools: %w", err)
	}
	return nil
}

// closed reports the ordinary end of a connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) ||
		errors.Is(err, sdk.ErrConnectionClosed)
}

func variable(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}
