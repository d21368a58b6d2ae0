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

// staleAfter is after how many intervals without a check the state of a service is stale.
const staleAfter = 3

const (
	// healthUnknown is the state of a service of which no check has found anything out.
	healthUnknown = string(ops.Unknown)
	// HealthStale is the state of a service whose checks no longer come.
	HealthStale = "stale"
)

// ServiceState is a watched service with its last results.
type ServiceState struct {
	Environment string         `json:"environment"`
	Name        string         `json:"name"`
	State       string         `json:"state" enum:"healthy,degraded,down,unknown,stale" doc:"The worst of its checks; stale: none come."`
	CheckedAt   *time.Time     `json:"checked_at"`
	Uptime24h   *float64       `json:"uptime_24h" doc:"Share of checks that were healthy or degraded; null without checks."`
	Checks      []ServiceCheck `json:"checks" doc:"The newest result of each probe."`
	Heartbeats  []Heartbeat    `json:"heartbeats,omitempty" doc:"The calls of its jobs; not in the list of services."`
}

// ServiceCheck is one result of a probe.
type ServiceCheck struct {
	Probe          string    `json:"probe"`
	Type           string    `json:"type"`
	Status         string    `json:"status" enum:"healthy,degraded,down,unknown" doc:"unknown: the container engine does not answer."`
	Error          *string   `json:"error"`
	ResponseTimeMS int64     `json:"response_time_ms"`
	At             time.Time `json:"at"`
	Note           *string   `json:"note" doc:"How far the probe is from failing or from recovery; null when it is neither."`
}

type servicesQuery struct {
	Environment string `query:"environment" doc:"Filter by environment."`
	State       string `query:"state" enum:"healthy,degraded,down,unknown,stale" doc:"Filter by state."`
	Paging
}

// ServicePath is the name of a service.
type ServicePath struct {
	Name        string `path:"name" maxLength:"200" doc:"The name of the service, not an alias."`
	Environment string `query:"environment" doc:"Default: the first environment with this service."`
}

func (s *services) registerServices(api huma.API) {
	huma.Register(api, look("list-services", "/services", "List services", "services",
		"By environment and name, with the newest result of every probe. The state of a service without probes is unknown."), s.listServices)
	huma.Register(api, look("get-service", "/services/{name}", "Show a service", "services",
		"As in the list.", http.StatusNotFound), s.getService)
	forget := act("forget-service", "/services/{name}", "Forget a service", "services",
		"Removes what is kept of a service that is not configured: results, changes, memories, trust, earned reflexes. Cycles, incidents, "+
			"events and cooldowns stay. A person asks for it.", http.StatusNotFound)
	forget.Method, forget.DefaultStatus = http.MethodDelete, http.StatusNoContent
	huma.Register(api, forget, s.forgetService)
}

func (s *services) listServices(ctx context.Context, q *servicesQuery) (*body[list[ServiceState]], error) {
	if _, err := s.environments(q.Environment); err != nil {
		return nil, err
	}
	after, err := q.afterService()
	if err != nil {
		return nil, err
	}
	found, err := ServiceStates(ctx, s.Store.Watch, s.Environments, q.Environment, s.Clock())
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
	if err := addUptime(ctx, s.Store.Reports, out.Items, q.Environment, s.Clock()); err != nil {
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

func (s *services) forgetService(ctx context.Context, q *ServicePath) (*struct{}, error) {
	if err := s.desk.ForgetService(ctx, by(ctx), q.Environment, q.Name); err != nil {
		return nil, s.problem("service "+q.Name, err)
	}
	return &struct{}{}, nil
}

func (s *services) getService(ctx context.Context, q *ServicePath) (*body[ServiceState], error) {
	if _, err := s.environments(q.Environment); err != nil {
		return nil, err
	}
	found, err := ServiceStates(ctx, s.Store.Watch, s.Environments, q.Environment, s.Clock())
	if err != nil {
		return nil, s.problem("service "+q.Name, err)
	}
	i := slices.IndexFunc(found, func(x ServiceState) bool { return x.Name == q.Name })
	if i < 0 {
		return nil, huma.Error404NotFound("service " + q.Name + ": not found")
	}
	if err := addUptime(ctx, s.Store.Reports, found[i:i+1], found[i].Environment, s.Clock()); err != nil {
		return nil, s.problem("service "+q.Name, err)
	}
	beats, err := s.Store.Watch.HeartbeatsOf(ctx, found[i].Environment, q.Name)
	if err != nil {
		return nil, s.problem("service "+q.Name, err)
	}
	found[i].Heartbeats = Rows(beats, HeartbeatRow)
	return &body[ServiceState]{found[i]}, nil
}

// Services returns every service that is configured or still watched, in one environment or, with "", in all.
func Services(
	ctx context.Context, journal *store.Store, environments []ops.Environment, environment string, now time.Time,
) ([]ServiceState, error) {
	found, err := ServiceStates(ctx, journal.Watch, environments, environment, now)
	if err != nil {
		return nil, err
	}
	return found, addUptime(ctx, journal.Reports, found, environment, now)
}

// addUptime fills in how much of the last day the services were up.
func addUptime(ctx context.Context, reports *store.Reports, services []ServiceState, environment string, now time.Time) error {
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
	history, err := reports.Health(ctx, f)
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

// ServiceStates returns the states of all services, without their uptime.
func ServiceStates(
	ctx context.Context, watch *store.Watch, environments []ops.Environment, environment string, now time.Time,
) ([]ServiceState, error) {
	checks, err := watch.LatestChecks(ctx, environment)
	if err != nil {
		return nil, err
	}
	type key struct{ environment, service string }
	interval, unchecked := map[string]time.Duration{}, map[key]bool{}
	for _, e := range environments {
		interval[e.Name] = e.Interval
		if environment != "" && e.Name != environment {
			continue
		}
		for _, service := range e.Policy.Inventory.Services {
			unchecked[key{e.Name, service.Name}] = true
		}
	}
	out := make([]ServiceState, 0, max(len(unchecked), len(checks)))
	for first := 0; first < len(checks); { // those of a service follow each other
		of := key{checks[first].Environment, checks[first].Service}
		next := first + 1
		for next < len(checks) && of == (key{checks[next].Environment, checks[next].Service}) {
			next++
		}
		delete(unchecked, of)
		out = append(out, ServiceRow(of.environment, of.service, checks[first:next], interval[of.environment], now))
		first = next
	}
	for of := range unchecked {
		out = append(out, ServiceRow(of.environment, of.service, nil, interval[of.environment], now))
	}
	slices.SortFunc(out, compareServices)
	return out, nil
}

// ServiceRow is the state of a service, from the newest result of each of its probes.
func ServiceRow(environment, name string, checks []ops.Check, every time.Duration, now time.Time) ServiceState {
	x := ServiceState{Environment: environment, Name: name, State: healthUnknown, Checks: make([]ServiceCheck, 0, len(checks))}
	for _, c := range checks {
		x.add(c)
	}
	if x.CheckedAt != nil && every > 0 && now.Sub(*x.CheckedAt) > staleAfter*every {
		x.State = HealthStale
	}
	return x
}

// add adds the newest result of one probe.
func (x *ServiceState) add(c ops.Check) {
	if worse(string(c.Status), x.State) {
		x.State = string(c.Status)
	}
	if at := c.At; x.CheckedAt == nil || at.After(*x.CheckedAt) {
		x.CheckedAt = &at // without the rest of the result
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

// Explainer says what the guard thinks of a shell command.
type Explainer func(environment ops.Environment, tier ops.Tier, command string, dryRun bool) (Verdict, error)

// Verdict is what the guard thinks of one shell command.
type Verdict struct {
	Verdict string          `json:"verdict" enum:"allow,deny"`
	Rule    string          `json:"rule"`
	Reason  string          `json:"reason"`
	Effects []VerdictEffect `json:"effects" doc:"What the command would count as."`
}

// VerdictEffect is a restart or a redeployment that a command would count as.
type VerdictEffect struct {
	Kind    string `json:"kind" enum:"restart,redeployment"`
	Service string `json:"service"`
}

// ConfigCheck is the result of a check of the configuration.
type ConfigCheck struct {
	Valid        bool     `json:"valid"`
	File         *string  `json:"file" doc:"Null without a file."`
	Environments int      `json:"environments"`
	Problems     []string `json:"problems" doc:"Each with file, line, key and how to fix it."`
	Notes        []string `json:"notes" doc:"What works, but may not be meant."`
}

type explainQuery struct {
	Tier        int    `query:"tier" required:"true" minimum:"1" maximum:"3" doc:"The tier that would run the command."`
	Command     string `query:"command" required:"true" minLength:"1" maxLength:"8000" doc:"The shell command."`
	DryRun      bool   `query:"dry_run" doc:"Check as in a dry run."`
	Environment string `query:"environment" doc:"Default: the first configured environment."`
}

func (s *services) registerChecks(api huma.API) {
	huma.Register(api, look("explain-guard", "/guard/explain", "Explain whether the guard would allow a shell command", "guard",
		"Nothing is run or recorded. A read-only tier, a rate limit or a rule of yours may be the reason."), s.explain)
	huma.Register(api, look("check-config", "/config/check", "Check the configuration as it is now", "config",
		"The files are read again, as claudeops config check does. The daemon keeps the one that it read last."), s.checkConfig)
	huma.Register(api, act("reload-config", "/config/reload", "Read the configuration again", "config",
		"A wrong one is refused and changes nothing, and so is one that needs a restart (423). It is in effect when this answers; sessions that "+
			"run go on, and what is next in their cycles is decided under it."), s.reloadConfig)
}

func (s *services) explain(_ context.Context, q *explainQuery) (*body[Verdict], error) {
	e, err := s.environment(q.Environment)
	if err != nil {
		return nil, err
	}
	if s.Guard == nil {
		return nil, huma.Error409Conflict("the guard is off: nothing checks what agents run")
	}
	v, err := s.Guard(e, ops.Tier(q.Tier), q.Command, q.DryRun)
	if err != nil {
		return nil, s.problem("explain a verdict", err)
	}
	return &body[Verdict]{v}, nil
}

func (s *services) checkConfig(ctx context.Context, _ *struct{}) (*body[ConfigCheck], error) {
	if s.CheckConfig == nil {
		return nil, huma.Error409Conflict("the configuration cannot be checked here: run claudeops config check on the host")
	}
	return &body[ConfigCheck]{s.CheckConfig(ctx)}, nil
}

func (s *services) reloadConfig(ctx context.Context, _ *struct{}) (*body[ConfigCheck], error) {
	found, err := s.checkConfig(ctx, nil)
	if err == nil && !found.Body.Valid {
		err = huma.Error422UnprocessableEntity("the configuration is wrong, so nothing was changed: " + strings.Join(found.Body.Problems, "; "))
	}
	if err != nil {
		return nil, err
	}
	if err := s.desk.Reload(ctx, by(ctx)); err != nil {
		return nil, s.problem("read the configuration again", err)
	}
	return found, nil
}

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

func (s *services) registerHistory(api huma.API) {
	huma.Register(api, look("get-service-history", "/services/{name}/history", "State of a service, day by day", "services",
		"Days before the retention of checks are empty.", http.StatusNotFound), s.serviceHistory)
}

func (s *services) serviceHistory(ctx context.Context, q *historyQuery) (*body[ServiceHistory], error) {
	service, err := s.getService(ctx, &q.ServicePath)
	if err != nil {
		return nil, err
	}
	now, out := s.Clock(), ServiceHistory{Environment: service.Body.Environment, Name: service.Body.Name, Days: []ServiceDay{}}
	found, err := s.Store.Reports.Health(ctx, store.HealthFilter{
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

func (s *services) registerHeartbeats(api huma.API) {
	huma.Register(api, act("address-heartbeat", "/services/{name}/heartbeat", "Make the address of a heartbeat", "services",
		"The address is shown once, and the former one no longer works. A person asks for it: the tools of an agent cannot.",
		http.StatusUnprocessableEntity), s.addressHeartbeat)
}

func (s *services) addressHeartbeat(ctx context.Context, in *heartbeatInput) (*heartbeatOutput, error) {
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
