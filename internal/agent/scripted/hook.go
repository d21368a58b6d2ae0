package scripted

import (
	"context"
	"encoding/json"

	"claudeops/internal/agent/pretool"
)

// askHook asks about a tool call before it is made and returns why it is refused; empty when it is allowed or there is
// no hook.
func (c *conversation) askHook(ctx context.Context, tool, id string, input json.RawMessage) string {
	return c.opts.hook.Ask(ctx, pretool.Call{
		SessionID: c.sessionID, Mode: c.opts.mode, Cwd: c.cwd, Tool: tool, Input: input, ID: id,
	}, c.env)
}
