package answer

import (
	"time"

	"claudeops/internal/ops"
)

// Reply is an answer that a person gave outside of the pages and the API: with a button on a phone, or by a link.
type Reply struct {
	Token   Token  // verified; the zero value if there was no genuine one
	Code    string // identifies the token
	Source  string // identifies the message that brought it
	Channel string // as people know it: Telegram, ntfy
	By      string // the person, or the target that the token was sent to
	Refused string // why the answer must not be carried out; empty if it may be
	Snooze  time.Duration
	Digests []string // a yes to a reflex: what its actions are now, which the desk adds
	// Mark and Read say how far the messages of a channel were read, which is recorded with the answer. Mark may be empty.
	Mark, Read string
	// Silent leaves a refused reply out of the events: it was not an answer, or too many came.
	Silent bool
	At     time.Time
}

// Result is what became of a reply.
type Result struct {
	Done     bool
	Repeated bool          // the same message was taken before; the person knows already
	Text     string        // one sentence for the person
	Cycles   []ops.CycleID // what the answer wakes
}
