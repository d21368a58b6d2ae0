package ops

import (
	"fmt"
	"time"
)

// Standstill is that nothing starts on any host until somebody takes it back: no agent, no reflex, no step of a plan and no update. Probes,
// incidents and notices go on.
type Standstill struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Words say it in a sentence without a full stop.
func (h Standstill) Words() string {
	text := fmt.Sprintf("stopped by %s at %s", h.By, h.At.UTC().Format("2006-01-02 15:04 UTC"))
	if h.Reason != "" {
		text += ": " + Spoken(Prose(h.Reason))
	}
	return text
}

// Refuses is why something does not start while it stands. It is an ErrStopped.
func (h Standstill) Refuses() error {
	return NewConflict(ConflictStopped, "Claude Ops is %s; 'claudeops resume' lets it work again", h.Words())
}
