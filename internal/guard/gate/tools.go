package gate

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

// Tools are the supervisor's own tools of a session. The error of a call says why it is refused, and what to do instead.
type Tools interface {
	Call(ctx context.Context, tool string, input json.RawMessage) (result string, err error)
}

// Offer lets the session use tools from now on, and says how an agent reaches them.
func (s *Session) Offer(tools Tools) (ops.ToolServer, error) {
	s.mu.Lock()
	s.tools = tools
	s.mu.Unlock()
	if err := os.Symlink(s.g.o.Self, filepath.Join(s.dir, client.ActName)); err != nil {
		return ops.ToolServer{}, fmt.Errorf("link the command of the session: %w", err)
	}
	return ops.ToolServer{MCP: []string{s.g.o.Self, "agent", "tools", s.Socket()}, Folder: s.dir, Socket: s.Socket()}, nil
}

// answerTool runs a tool. The key keeps one session from using the socket of another.
func (s *Session) answerTool(ctx context.Context, req client.Request) client.Answer {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	switch {
	case tools == nil:
		return deny("This session has no tools of the supervisor.")
	case s.session.Key == "" || subtle.ConstantTimeCompare([]byte(req.Key), []byte(s.session.Key)) != 1:
		return deny("This call is refused because it does not come from this session.")
	}
	text, err := tools.Call(ctx, req.Tool, req.Input)
	if err != nil {
		return deny(s.g.o.Redact(err.Error()))
	}
	return client.Answer{Verdict: client.Allow, Text: s.g.o.Redact(text)}
}
