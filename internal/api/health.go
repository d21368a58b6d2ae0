package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// health can be read without a token, so it names no service and no reason.
type health struct {
	Status              string     `json:"status"`
	Version             string     `json:"version"`
	Database            *string    `json:"database,omitempty"` // checking, sound, damaged
	RunningSessions     *int64     `json:"running_sessions"`
	LastCycleStatus     *string    `json:"last_cycle_status"`
	LastCycleEndedAt    *time.Time `json:"last_cycle_ended_at"`
	LastCycleAgeSeconds *int64     `json:"last_cycle_age_seconds"`
}

// health answers 200 while the process lives: a restart does not repair a database that cannot be read.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	answer := health{Status: "ok", Version: s.Version}
	if s.Database != nil {
		state := s.Database()
		answer.Database = &state
		if state == "damaged" {
			answer.Status = "degraded"
		}
	}
	work, err := s.Store.Work(r.Context())
	if err != nil {
		s.Logger.WarnContext(r.Context(), "cannot read the journal for /healthz", "error", err)
		answer.Status = "degraded"
		writeJSON(w, http.StatusOK, answer)
		return
	}
	running := int64(work.Running)
	answer.RunningSessions = &running
	answer.LastCycleStatus = text(work.LastStatus)
	if work.LastEndedAt != nil {
		age := int64(s.Clock().Sub(*work.LastEndedAt).Seconds())
		answer.LastCycleEndedAt = work.LastEndedAt
		answer.LastCycleAgeSeconds = &age
	}
	writeJSON(w, http.StatusOK, answer)
}

// ErrDraining is what Options.Ready returns while the supervisor takes no new cycles. It answers and works all the same, so
// nothing that restarts an unready program may take it for one.
var ErrDraining = errors.New("draining")

func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	status := "ready"
	if s.Ready != nil {
		err := s.Ready()
		if errors.Is(err, ErrDraining) {
			status, err = "draining", nil
		}
		if err != nil {
			w.Header().Set("Retry-After", "1")
			writeProblem(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{status})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
