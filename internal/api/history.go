package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/store"
)

// ServiceHistory is the state of a service over time.
type ServiceHistory struct {
	Environment string       `json:"environment"`
	Name        string       `json:"name"`
	Uptime      *float64     `json:"uptime" doc:"Share of checks that were healthy or degraded; null without checks."`
	Days        []ServiceDay `json:"days" doc:"Every day of the range, oldest first; days are UTC."`
}

// ServiceDay counts the results of one day.
type ServiceDay struct {
	Day      string `json:"day" format:"date"`
	Healthy  int    `json:"healthy"`
	Degraded int    `json:"degraded"`
	Down     int    `json:"down"`
}

type historyQuery struct {
	ServicePath
	Days int `query:"days" minimum:"1" maximum:"365" default:"30" doc:"Number of days."`
}

func (s *server) registerHistory(api huma.API) {
	huma.Register(api, look("get-service-history", "/services/{name}/history", "State of a service, day by day", "services",
		"Days before the retention of checks are empty.", http.StatusNotFound), s.serviceHistory)
}

func (s *server) serviceHistory(ctx context.Context, q *historyQuery) (*body[ServiceHistory], error) {
	service, err := s.getService(ctx, &q.ServicePath)
	if err != nil {
		return nil, err
	}
	now, out := s.Clock(), ServiceHistory{Environment: service.Body.Environment, Name: service.Body.Name, Days: []ServiceDay{}}
	found, err := s.Store.Health(ctx, store.HealthFilter{
		Environment: out.Environment, Services: []string{out.Name}, Since: now.AddDate(0, 0, 1-q.Days), Until: now, Bucket: 24 * time.Hour,
	})
	if err != nil {
		return nil, s.problem("history of "+q.Name, err)
	}
	for _, h := range found { // none if it was never checked
		if h.Environment != out.Environment || h.Service != out.Name {
			continue
		}
		if share, known := h.Uptime(); known {
			out.Uptime = &share
		}
		for _, b := range h.Buckets {
			out.Days = append(out.Days, ServiceDay{Day: b.From.UTC().Format(time.DateOnly), Healthy: b.Healthy, Degraded: b.Degraded, Down: b.Down})
		}
	}
	return &body[ServiceHistory]{out}, nil
}
