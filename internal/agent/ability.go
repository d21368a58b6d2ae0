package agent

import (
	"context"

	"claudeops/internal/ops"
)

// firstStructured is the first version whose structured output is known to work as we use it.
const firstStructured = oldestVersion

// Able tells what the program can do. Only a version that is known promises anything.
func (c *Claude) Able(ctx context.Context, env []string) ops.Ability {
	if c.o.Ability != nil {
		return *c.o.Ability
	}
	path, err := c.find(env)
	if err != nil {
		return ops.Ability{}
	}
	v := c.versionOf(ctx, path, env)
	return ops.Ability{Version: v.text, Known: v.known, Structured: v.known && !olderVersion(v.text, firstStructured)}
}
