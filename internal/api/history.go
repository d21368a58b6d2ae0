package api

import (
	"context"
	"net/http"
	"slices"
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
	found, err := History(ctx, s.Store, service.Body, q.Days, s.Clock())
	if err != nil {
		return nil, s.problem("history of "+q.Name, err)
	}
	return &body[ServiceHistory]{found}, nil
}

// History reads the last days of a service.
func History(ctx context.Context, journal *store.Store, service ServiceState, days int, now time.Time) (ServiceHistory, error) {
	out := ServiceHistory{Environment: service.Environment, Name: service.Name, Days: []ServiceDay{}}
	found, err := journal.Health(ctx, store.HealthFilter{
		Environment: service.Environment, Services: []string{service.Name}, Since: now.AddDate(0, 0, 1-days), Until: now, Bucket: 24 * time.Hour,
	})
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(found, func(h store.ServiceHealth) bool {
		return h.Environment == service.Environment && h.Service == service.Name
	})
	if i < 0 {
		return out, nil // it was never checked
	}
	if share, known := found[i].Uptime(); known {
		out.Uptime = &share
	}
	for _, b := range found[i].Buckets {
		out.Days = append(out.Days, ServiceDay{Day: b.From.UTC().Format(time.DateOnly), Healthy: b.Healthy, Degraded: b.Degraded, Down: b.Down})
	}
	return out, nil
}
