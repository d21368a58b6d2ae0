package cycle

import "claudeops/internal/ops"

// After is what the tests of the next session's preparation look at.
var After = after

// HeadStart is how long a session runs before the next one is prepared.
const HeadStart = headStart

// KeysFor returns the keys that sessions get, one after another, of what was prepared for a handler.
func KeysFor(prepared ops.Handler, sessions ...ops.Handler) (keys []string) {
	f := &following{key: "k", handler: prepared}
	for _, h := range sessions {
		keys = append(keys, f.keyFor(h))
	}
	return keys
}
