package cli

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/postmortem"
	"claudeops/internal/store"
)

// local makes the API's rows from the local database.
type local struct {
	store *store.Store
	cfg   *config.Config
}

// person is the name under which a change is recorded.
func person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// rowsOf turns a page of the store into rows.
func rowsOf[S, R any](stored []S, err error, row func(S) R) ([]R, error) {
	if err != nil {
		return nil, err
	}
	return api.Rows(stored, row), nil
}

// Sessions returns a page of sessions.
func (l *local) Sessions(ctx context.Context, f store.SessionFilter) ([]api.Session, error) {
	found, err := l.store.Sessions(ctx, f)
	return rowsOf(found, err, api.SessionRow)
}

// Session returns one session.
func (l *local) Session(ctx context.Context, id ops.SessionID) (api.SessionReport, error) {
	s, err := l.store.Session(ctx, id)
	return api.SessionReportRow(s), err
}

// Transcript returns the lines after a given one.
func (l *local) Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]api.Line, error) {
	found, err := l.store.Transcript(ctx, id, after, limit)
	return rowsOf(found, err, api.LineRow)
}

// GuardDecisions returns what the guard decided in a session.
func (l *local) GuardDecisions(ctx context.Context, id ops.SessionID) ([]api.GuardDecision, error) {
	found, err := l.store.GuardDecisions(ctx, id)
	return rowsOf(found, err, api.GuardRow)
}

// Cycles returns a page of cycles.
func (l *local) Cycles(ctx context.Context, f store.CycleFilter) ([]api.Cycle, error) {
	found, err := l.store.Cycles(ctx, f)
	return rowsOf(found, err, api.CycleRow)
}

// Cycle returns one cycle with everything that was decided in it.
func (l *local) Cycle(ctx context.Context, id ops.CycleID) (api.CycleReport, error) {
	loaded, err := l.store.Load(ctx, id)
	if err != nil {
		return api.CycleReport{}, err
	}
	verified, err := l.store.Verifications(ctx, id)
	return api.CycleReportRow(loaded, verified), err
}

// CancelCycle asks for the end of a cycle.
func (l *local) CancelCycle(ctx context.Context, id ops.CycleID, reason string) error {
	_, err := l.store.RequestCancel(ctx, id, reason, l.store.Clock())
	return err
}

// Held lists what agents leave alone in an environment.
func (l *local) Held(ctx context.Context, environment string) ([]api.Held, error) {
	e, err := l.cfg.Environment(environment)
	if err != nil {
		return nil, err
	}
	held, err := l.store.HeldBack(ctx, e, l.store.Clock())
	return rowsOf(held, err, api.HeldRow)
}

// Incidents returns a page of incidents.
func (l *local) Incidents(ctx context.Context, f store.IncidentFilter) ([]api.Incident, error) {
	found, err := l.store.Incidents(ctx, f)
	return rowsOf(found, err, api.IncidentRow)
}

// Incident returns one incident.
func (l *local) Incident(ctx context.Context, id int64) (api.Incident, error) {
	i, err := l.store.Incident(ctx, id)
	return api.IncidentRow(i), err
}

// IncidentReport returns the report of an incident as Markdown.
func (l *local) IncidentReport(ctx context.Context, id int64) (string, error) {
	story, err := l.store.IncidentStory(ctx, id)
	if err != nil {
		return "", err
	}
	return postmortem.Markdown(story, nil, l.store.Clock()), nil
}

// RunAgain queues another cycle for an incident.
func (l *local) RunAgain(ctx context.Context, id int64) (ops.CycleID, error) {
	i, err := l.store.Incident(ctx, id)
	if err != nil {
		return 0, err
	}
	n := i.Again()
	n.At = l.store.Clock()
	return l.store.SubmitCycle(ctx, n)
}

// Acknowledge records that somebody works on an incident.
func (l *local) Acknowledge(ctx context.Context, id int64, reason string) (api.Incident, error) {
	i, err := l.store.Acknowledge(ctx, id, person(), reason, l.store.Clock())
	return api.IncidentRow(i), err
}

// Resolve closes an incident.
func (l *local) Resolve(ctx context.Context, id int64, reason string) (api.Incident, error) {
	i, err := l.store.ResolveIncident(ctx, id, person(), reason, l.store.Clock())
	return api.IncidentRow(i), err
}

// Snooze mutes an incident until a time.
func (l *local) Snooze(ctx context.Context, id int64, until time.Time, reason string) (api.Incident, error) {
	i, err := l.store.Snooze(ctx, id, person(), until, reason, l.store.Clock())
	return api.IncidentRow(i), err
}

// Approvals returns a page of approvals.
func (l *local) Approvals(ctx context.Context, f store.ApprovalFilter) ([]api.Approval, error) {
	found, err := l.store.Approvals(ctx, f)
	return rowsOf(found, err, api.ApprovalRow)
}

// Deny says no.
func (l *local) Deny(ctx context.Context, id int64, lasts *time.Duration, reason string) (api.Approval, error) {
	x, err := l.store.Deny(ctx, id, lasts, person(), reason, l.store.Clock())
	return api.ApprovalRow(x), err
}

// Approval returns one approval.
func (l *local) Approval(ctx context.Context, id int64) (api.Approval, error) {
	x, err := l.store.Approval(ctx, id)
	return api.ApprovalRow(x), err
}

// Approve says yes.
func (l *local) Approve(ctx context.Context, id int64, hash string, steps []int, reason string) (api.Approval, error) {
	x, err := l.store.Approval(ctx, id)
	if err == nil {
		x, err = l.store.ApproveSteps(ctx, x, hash, steps, person(), reason, time.Now())
	}
	return api.ApprovalRow(x), err
}

// Actions lists what the supervisor can do.
func (l *local) Actions(_ context.Context, environment, service string) ([]api.Action, error) {
	envs := slices.DeleteFunc(l.cfg.Environments(), func(e ops.Environment) bool { return environment != "" && e.Name != environment })
	if len(envs) == 0 {
		return nil, noEnvironment(environment, l.cfg)
	}
	return api.Actions(envs, service), nil
}

// ActionRuns returns a page of runs.
func (l *local) ActionRuns(ctx context.Context, f store.ActionFilter) ([]api.ActionRun, error) {
	found, err := l.store.ActionRuns(ctx, f)
	return rowsOf(found, err, api.ActionRunRow)
}

// ActionRun returns one run.
func (l *local) ActionRun(ctx context.Context, id int64) (api.ActionRun, error) {
	r, err := l.store.ActionRun(ctx, id)
	return api.ActionRunRow(r), err
}

// RunAction asks the daemon to run an action.
func (l *local) RunAction(ctx context.Context, environment, service, action, branch, why string) (api.ActionRun, error) {
	e, err := l.cfg.Environment(environment)
	if err != nil {
		return api.ActionRun{}, err
	}
	r, err := api.RequestedRun(e, service, action)
	if err != nil {
		return api.ActionRun{}, err
	}
	r.Person, r.Why, r.Branch = person(), why, branch
	r, err = l.store.RequestAction(ctx, r, time.Now())
	return api.ActionRunRow(r), err
}

// UndoAction asks the daemon to undo a run.
func (l *local) UndoAction(ctx context.Context, id int64, why string) (api.ActionRun, error) {
	r, err := l.store.ActionRun(ctx, id)
	if err != nil {
		return api.ActionRun{}, err
	}
	undo, err := api.RequestedUndo(l.cfg.Environments(), r)
	if err != nil {
		return api.ActionRun{}, err
	}
	undo.Person, undo.Why = person(), why
	undo, err = l.store.RequestAction(ctx, undo, time.Now())
	return api.ActionRunRow(undo), err
}

// WithdrawAction takes a request back that nobody has taken.
func (l *local) WithdrawAction(ctx context.Context, id int64) error {
	return l.store.RefuseAction(ctx, id, "no daemon was running", time.Now())
}

// Events returns a page of events.
func (l *local) Events(ctx context.Context, f store.EventFilter) ([]api.Event, error) {
	found, err := l.store.Events(ctx, f)
	return rowsOf(found, err, api.EventRow)
}

// Memories returns a page of memories.
func (l *local) Memories(ctx context.Context, f store.MemoryFilter) ([]api.Memory, error) {
	found, err := l.store.Memories(ctx, f)
	return rowsOf(found, err, api.MemoryRow)
}

// AddMemory adds a memory.
func (l *local) AddMemory(ctx context.Context, m ops.Memory) (int64, error) {
	return l.store.AddMemory(ctx, m)
}

// RemoveMemory deletes a memory.
func (l *local) RemoveMemory(ctx context.Context, id int64) error {
	return l.store.RemoveMemory(ctx, id)
}

// Cooldowns lists services with a cooldown.
func (l *local) Cooldowns(ctx context.Context, environment string) ([]api.Cooldown, error) {
	out := []api.Cooldown{}
	for _, e := range l.cfg.Environments() {
		if environment != "" && e.Name != environment {
			continue
		}
		found, err := l.store.Cooldowns(ctx, e.Name, e.Policy.AllCooldowns(), l.store.Clock())
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			out = append(out, api.CooldownRow(e.Name, c))
		}
	}
	return out, nil
}

// ClearCooldown resets the counter of an action on a service.
func (l *local) ClearCooldown(ctx context.Context, environment, service, action, reason string) (int, error) {
	return l.store.ClearCooldown(ctx, environment, service, action, reason, person(), l.store.Clock())
}

// Silences lists silences that have not ended, or all.
func (l *local) Silences(ctx context.Context, environment string, all bool) ([]api.Silence, error) {
	now := l.store.Clock()
	f := store.SilenceFilter{Environment: environment, Active: now, Limit: mostSilences}
	if all {
		f.Active = time.Time{}
	}
	found, err := l.store.Silences(ctx, f)
	return rowsOf(found, err, func(q ops.Silence) api.Silence { return api.SilenceRow(q, now) })
}

// AddSilence adds a silence.
func (l *local) AddSilence(ctx context.Context, q ops.Silence, span time.Duration) (api.Silence, error) {
	known := func(e ops.Environment) bool { return e.Name == q.Environment }
	if q.Environment != "" && !slices.ContainsFunc(l.cfg.Environments(), known) {
		return api.Silence{}, noEnvironment(q.Environment, l.cfg)
	}
	now := l.store.Clock()
	q.CreatedAt, q.Author = now, person()
	if q.From.IsZero() {
		q.From = now
	}
	if q.Until.IsZero() {
		q.Until = q.From.Add(span)
	}
	added, err := l.store.AddSilence(ctx, q)
	return api.SilenceRow(added, now), err
}

// EndSilence ends a silence now.
func (l *local) EndSilence(ctx context.Context, id int64) (api.Silence, error) {
	now := l.store.Clock()
	q, err := l.store.EndSilence(ctx, id, person(), now)
	return api.SilenceRow(q, now), err
}

// Notifications returns a page of notifications.
func (l *local) Notifications(ctx context.Context, f store.NoticeFilter) ([]api.Notification, error) {
	found, err := l.store.NoticeList(ctx, f)
	return rowsOf(found, err, api.NotificationRow)
}

// RetryNotification sends a notification again.
func (l *local) RetryNotification(ctx context.Context, id int64) error {
	return l.store.RetryNotice(ctx, id, l.store.Clock())
}

// Services returns the state of every watched service.
func (l *local) Services(ctx context.Context, environment string) ([]api.ServiceState, error) {
	envs, err := trusting(ctx, l.cfg)
	if err != nil {
		return nil, err
	}
	return api.Services(ctx, l.store, envs, environment, l.store.Clock())
}

// Service returns the state of one service.
func (l *local) Service(ctx context.Context, name, environment string) (api.ServiceState, error) {
	found, err := l.Services(ctx, environment)
	if err != nil {
		return api.ServiceState{}, err
	}
	n := slices.IndexFunc(found, func(x api.ServiceState) bool { return x.Name == name })
	if n < 0 {
		return api.ServiceState{}, fmt.Errorf("service %s: %w", clean(name), ops.ErrNotFound)
	}
	return found[n], nil
}

// History returns the last days of a service.
func (l *local) History(ctx context.Context, service api.ServiceState, days int) (api.ServiceHistory, error) {
	return api.History(ctx, l.store, service, days, l.store.Clock())
}

// Costs adds up the costs since a moment.
func (l *local) Costs(ctx context.Context, by string, f store.CostFilter) (api.Costs, error) {
	f.Until = l.store.Clock()
	asked := slices.DeleteFunc(slices.Clone(l.cfg.Environments()), func(e ops.Environment) bool {
		return f.Environment != "" && e.Name != f.Environment
	})
	if len(asked) == 0 {
		return api.Costs{}, noEnvironment(f.Environment, l.cfg)
	}
	rows, err := l.store.Costs(ctx, store.CostGroup(by), f)
	return api.CostsOf(rows, by, f, api.DayBudget(asked)), err
}

// ExpensiveCycles lists the cycles that cost most since a moment.
func (l *local) ExpensiveCycles(ctx context.Context, f store.CostFilter, limit int) ([]api.CycleCost, error) {
	f.Until = l.store.Clock()
	found, err := l.store.ExpensiveChains(ctx, f, limit)
	return rowsOf(found[:min(len(found), limit)], err, api.CycleCostRow)
}

// Stats returns the figures of the database. Only a running daemon knows when it checks next.
func (l *local) Stats(ctx context.Context) (api.Stats, error) {
	envs, err := trusting(ctx, l.cfg)
	if err != nil {
		return api.Stats{}, err
	}
	return api.ReadStats(ctx, l.store, envs, l.store.Clock())
}

// Situation says what happens now and next, from the rows.
func (l *local) Situation(ctx context.Context) (api.Situation, error) {
	envs, err := trusting(ctx, l.cfg)
	if err != nil {
		return api.Situation{}, err
	}
	return api.ReadSituation(ctx, l.store, envs, nil, false, l.store.Clock())
}

// Hosts lists the hosts of the database.
func (l *local) Hosts(ctx context.Context) ([]api.Host, error) {
	found, err := l.store.Hosts(ctx)
	return rowsOf(found, err, api.HostRow)
}

func noEnvironment(name string, cfg *config.Config) error {
	var names []string
	for _, e := range cfg.Environments() {
		names = append(names, e.Name)
	}
	return usage(fmt.Errorf("no environment is called %q%s", clean(name), didYouMean(name, names)))
}
