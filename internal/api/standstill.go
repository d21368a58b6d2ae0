package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Standstill says whether a person stopped everything.
type Standstill struct {
	Stopped bool       `json:"stopped" doc:"No agent, reflex, step of a plan or update starts, on any host."`
	By      *string    `json:"by"`
	Reason  *string    `json:"reason"`
	At      *time.Time `json:"at"`
}

// StandstillRow shows a standstill; nil is none.
func StandstillRow(h *ops.Standstill) Standstill {
	if h == nil {
		return Standstill{}
	}
	return Standstill{Stopped: true, By: text(h.By), Reason: text(h.Reason), At: ops.Ptr(h.At)}
}

type stopInput struct {
	Body struct {
		Reason string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
	}
}

func (s *server) registerStandstill(api huma.API) {
	huma.Register(api, look("get-stop", "/stop", "Whether everything is stopped", "hosts", "By whom, why and since when."), s.standstill)
	huma.Register(api, act("stop", "/stop", "Stop everything", "hosts",
		"Agents end and their cycles are cancelled; nothing starts on any host until it is taken back. An action in flight ends, and an update "+
			"in its watch is judged to its end. Probes, incidents and notices go on."), s.stopAll)
	resume := act("resume", "/stop", "Let everything start again", "hosts", "What waits in the queue goes on.")
	resume.Method = http.MethodDelete
	huma.Register(api, resume, s.resumeAll)
}

func (s *server) standstill(ctx context.Context, _ *struct{}) (*body[Standstill], error) {
	h, err := s.Store.People.Standstill(ctx)
	return answer(s, "read whether everything is stopped", h, err, StandstillRow)
}

func (s *server) stopAll(ctx context.Context, in *stopInput) (*body[Standstill], error) {
	h, err := s.desk.StopAll(ctx, by(ctx), in.Body.Reason)
	return answer(s, "stop everything", &h, err, StandstillRow)
}

func (s *server) resumeAll(ctx context.Context, _ *struct{}) (*body[Standstill], error) {
	_, err := s.desk.ResumeAll(ctx, by(ctx), "")
	return answer(s, "let everything start again", nil, err, StandstillRow)
}
