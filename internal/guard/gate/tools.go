package gate

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	return ops.ToolServer{MCP: s.toolServer(), Folder: s.dir, Socket: s.Socket()}, nil
}

func (s *Session) toolServer() []string { return []string{s.g.o.Self, "agent", "tools", s.Socket()} }

// startsTools reports whether a command starts the server of the session's tools, and returns it in quotes: the CLI starts its MCP
// servers by way of its shell too, with their words joined.
func (s *Session) startsTools(text string) (script string, ok bool) {
	s.mu.Lock()
	offered := s.tools != nil
	s.mu.Unlock()
	argv := s.toolServer()
	if !offered || text != strings.Join(argv, " ") {
		return "", false
	}
	for i, word := range argv {
		argv[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return "exec " + strings.Join(argv, " "), true
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
