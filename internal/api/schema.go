package api

import (
	"net/http"

	"claudeops/internal/handoff"
)

// handoffSchema publishes the contract that agents and editors validate a handoff against.
func handoffSchema(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(handoff.Schema())
}
