package scripted

import (
	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Activities are what one line of the agent's output tells of the session's doings. It speaks the protocol of Claude Code.
func Activities(line string) []ops.Activity { return agent.Activities(line) }
