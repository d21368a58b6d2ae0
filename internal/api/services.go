package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// staleAfter is after how many intervals without a check the state of a service is unknown.
const staleAfter = 3

// healthUnknown is the state of a service without a recent check.
const healthUnknown = "unknown"

// ServiceState is a watched service with its last results.
type ServiceState struct {
	Environment string         `json:"environment"`
	Name        string         `json:"name"`
	State       string         `json:"state" enum:"healthy,degraded,down,unknown" doc:"The worst of its checks; unknown without a recent one."`
	CheckedAt   *time.Time     `json:"checked_at"`
	Uptime24h   *float64       `json:"uptime_24h" doc:"Share of checks that were healthy or degraded; null without checks."`
	Checks      []ServiceCheck `json:"checks" doc:"The newest result of each probe."`
}

// ServiceCheck is one result of a probe.
type ServiceCheck struct {
	Probe          string    `json:"probe"`
	Type           string    `json:"type"`
	Status         string    `json:"status" enum:"healthy,degraded,down"`
	Error          *string   `json:"error"`
	ResponseTimeMS int64     `json:"response_time_ms"`
	At             time.Time `json:"at"`
	Note           *string   `json:"note" doc:"How far the probe is from failing or from recovery; null when it is neither."`
}

type servicesQuery struct {
	Environment string `query:"environment" doc:"Filter by environment."`
	State       string `query:"state" enum:"healthy,degraded,down,unknown" doc:"Filter by state."`
	Paging
}

// ServicePath is the name of a service.
type ServicePath struct {
	Name        string `path:"name" maxLength:"200" doc:"The name of the service, not an alias."`
	Environment string `query:"environment" doc:"Default: the first environment with this service."`
}

func (s *server) registerServices(api huma.API) {
	huma.Register(api, look("list-services", "/services", "List services", "services",
		"By environment and name, with the newest result of every probe. The state of a service without probes is unknown."), s.listServices)
	huma.Register(api, look("get-service", "/services/{name}", "Show a service", "services",
		"As in the list.", http.StatusNotFound), s.getService)
}

func (s *server) listServices(ctx context.Context, q *servicesQuery) (*body[list[ServiceState]], error) {
	if _, err := s.environments(q.Environment); err != nil {
		return nil, err
	}
	after, err := q.afterService()
	if err != nil {
		return nil, err
	}
	found, err := serviceStates(ctx, s.Store, s.Environments, q.Environment, s.Clock())
	if err != nil {
		return nil, s.problem("list services", err)
	}
	found = slices.DeleteFunc(found, func(x ServiceState) bool {
		return q.State != "" && x.State != q.State || q.Cursor != "" && compareServices(x, after) <= 0
	})
	out := list[ServiceState]{Items: found}
	if len(found) > q.Limit {
		out.Items = found[:q.Limit]
		out.NextCursor = text(serviceCursor(found[q.Limit-1]))
	}
	if err := addUptime(ctx, s.Store, out.Items, q.Environment, s.Clock()); err != nil {
		return nil, s.problem("list services", err)
	}
	return &body[list[ServiceState]]{out}, nil
}

// serviceCursor names a service in the order of the list; services have no number.
func serviceCursor(x ServiceState) string {
	return base64.RawURLEncoding.EncodeToString([]byte(x.Environment + "\x00" + x.Name))
}

// afterService reads such a cursor.
func (p Paging) afterService() (ServiceState, error) {
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	environment, name, ok := strings.Cut(string(raw), "\x00")
	if p.Cursor != "" && (err != nil || !ok) {
		return ServiceState{}, errCursor()
	}
	return ServiceState{Environment: environment, Name: name}, nil
}

func compareServices(a, b ServiceState) int {
	return cmp.Or(cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Name, b.Name))
}

func (s *server) getService(ctx context.Context, q *ServicePath) (*body[ServiceState], error) {
	if _, err := s.environments(q.Environment); err != nil {
		return nil, err
	}
	found, err := serviceStates(ctx, s.Store, s.Environments, q.Environment, s.Clock())
	if err != nil {
		return nil, s.problem("service "+q.Name, err)
	}
	i := slices.IndexFunc(found, func(x ServiceState) bool { return x.Name == q.Name })
	if i < 0 {
		return nil, huma.Error404NotFound("service " + q.Name + ": not found")
	}
	if err := addUptime(ctx, s.Store, found[i:i+1], found[i].Environment, s.Clock()); err != nil {
		return nil, s.problem("service "+q.Name, err)
	}
	return &body[ServiceState]{found[i]}, nil
}

// Services returns every service that is configured or was ever checked, in one environment or, with "", in all.
func Services(
	ctx context.Context, journal *store.Store, environments []ops.Environment, environment string, now time.Time,
) ([]ServiceState, error) {
	found, err := serviceStates(ctx, journal, environments, environment, now)
	if err != nil {
		return nil, err
	}
	return found, addUptime(ctx, journal, found, environment, now)
}

// addUptime fills in how much of the last day the services were up.
func addUptime(ctx context.Context, journal *store.Store, services []ServiceState, environment string, now time.Time) error {
	const few = 200 // above, everything is read
	f := store.HealthFilter{Environment: environment, Since: now.Add(-24 * time.Hour), Until: now, Bucket: time.Hour}
	at := map[[2]string]*ServiceState{}
	for i := range services {
		at[[2]string{services[i].Environment, services[i].Name}] = &services[i]
		f.Services = append(f.Services, services[i].Name)
	}
	switch {
	case len(services) == 0:
		return nil
	case len(services) > few:
		f.Services = nil
	}
	history, err := journal.Health(ctx, f)
	if err != nil {
		return err
	}
	for _, h := range history {
		if share, known := h.Uptime(); known && at[[2]string{h.Environment, h.Service}] != nil {
			at[[2]string{h.Environment, h.Service}].Uptime24h = &share
		}
	}
	return nil
}

// serviceStates returns the states of all services, without their uptime.
func serviceStates(
	ctx context.Context, journal *store.Store, environments []ops.Environment, environment string, now time.Time,
) ([]ServiceState, error) {
	checks, err := journal.LatestChecks(ctx, environment)
	if err != nil {
		return nil, err
	}
	type key struct{ environment, service string }
	found := map[key]*ServiceState{}
	at := func(environment, service string) *ServiceState {
		k := key{environment, service}
		if found[k] == nil {
			found[k] = &ServiceState{Environment: environment, Name: service, State: healthUnknown, Checks: []ServiceCheck{}}
		}
		return found[k]
	}
	interval := map[string]time.Duration{}
	for _, e := range environments {
		interval[e.Name] = e.Interval
		if environment != "" && e.Name != environment {
			continue
		}
		for _, service := range e.Policy.Inventory.Services {
			at(e.Name, service.Name)
		}
	}
	for _, c := range checks {
		at(c.Environment, c.Service).add(c)
	}
	out := make([]ServiceState, 0, len(found))
	for _, x := range found {
		if every := interval[x.Environment]; x.CheckedAt != nil && every > 0 && now.Sub(*x.CheckedAt) > staleAfter*every {
			x.State = healthUnknown
		}
		out = append(out, *x)
	}
	slices.SortFunc(out, compareServices)
	return out, nil
}

// add adds the newest result of one probe.
func (x *ServiceState) add(c ops.Check) {
	if worse(string(c.Status), x.State) {
		x.State = string(c.Status)
	}
	if x.CheckedAt == nil || c.At.After(*x.CheckedAt) {
		x.CheckedAt = &c.At
	}
	x.Checks = append(x.Checks, ServiceCheck{
		Probe: c.Probe, Type: string(c.Type), Status: string(c.Status), Error: text(c.Error),
		ResponseTimeMS: c.ResponseTimeMS, At: c.At, Note: text(c.Note),
	})
}

func worse(a, b string) bool {
	order := []string{healthUnknown, string(ops.Healthy), string(ops.Degraded), string(ops.Down)}
	return slices.Index(order, a) > slices.Index(order, b)
}
