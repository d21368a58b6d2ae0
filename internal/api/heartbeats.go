package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Heartbeat is what is known of the calls of a job.
type Heartbeat struct {
	Probe     string     `json:"probe"`
	Addressed bool       `json:"addressed" doc:"It has an address that the job can call."`
	StartedAt *time.Time `json:"started_at" doc:"Of a run that has not ended."`
	EndedAt   *time.Time `json:"ended_at" doc:"Of the last run; null if the job never called."`
	Failed    bool       `json:"failed"`
	ExitCode  int        `json:"exit_code"`
	Output    *string    `json:"output" doc:"The end of what the last run sent, without secrets."`
}

// HeartbeatRow shows what is known of the calls of a job.
func HeartbeatRow(h ops.Heartbeat) Heartbeat {
	return Heartbeat{
		Probe: h.Probe, Addressed: h.Addressed, StartedAt: h.StartedAt, EndedAt: h.EndedAt, Failed: h.Failed, ExitCode: h.Exit,
		Output: text(h.Output),
	}
}

// HeartbeatAddress is the address that a job calls.
type HeartbeatAddress struct {
	Environment string `json:"environment"`
	Service     string `json:"service"`
	Probe       string `json:"probe"`
	URL         string `json:"url" doc:"Add /start, /fail or an exit code. It is shown once."`
	Curl        string `json:"curl" doc:"The command for the end of the job."`
}

type heartbeatInput struct {
	Name string `path:"name" maxLength:"200" doc:"The name of the service, or an alias."`
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Default: the first one."`
		Probe       string `json:"probe,omitempty" doc:"Needed where the service has several heartbeats."`
	}
}

type heartbeatOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         HeartbeatAddress
}

func (s *server) registerHeartbeats(api huma.API) {
	huma.Register(api, act("address-heartbeat", "/services/{name}/heartbeat", "Make the address of a heartbeat", "services",
		"The address is shown once, and the former one no longer works. A person asks for it: the tools of an agent cannot.",
		http.StatusUnprocessableEntity), s.addressHeartbeat)
}

func (s *server) addressHeartbeat(ctx context.Context, in *heartbeatInput) (*heartbeatOutput, error) {
	h, token, err := s.desk.Heartbeat(ctx, by(ctx), in.Body.Environment, in.Name, in.Body.Probe)
	if err != nil {
		return nil, s.problem("make the address of a heartbeat", err)
	}
	call := HeartbeatCall(s.Address, token)
	call.Environment, call.Service, call.Probe = h.Environment, h.Service, h.Probe
	return &heartbeatOutput{"no-store", call}, nil
}

// HeartbeatCall is how a job calls with its token. The address is where jobs reach this server; nil if that is not known.
func HeartbeatCall(address func() string, token string) HeartbeatAddress {
	url := "/ping/" + token
	if address != nil {
		url = address() + url
	}
	return HeartbeatAddress{URL: url, Curl: "curl -fsS -m 10 --retry 5 --retry-connrefused " + url}
}
