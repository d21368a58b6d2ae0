package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/decide/health"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/cycletest"
)

// service is one service of the world, as it really is.
type service struct {
	env, name string
	problem   string    // why it is down; empty: it works
	since     time.Time // by the clock that never jumps
	over      bool      // people were last told that its problem is over
	broke     bool      // it broke after that
	known     bool      // people were told of its problem, and not of its end
	fragile   bool      // it breaks again as soon as its cycle says that it is repaired
	gone      bool      // it was taken out of the configuration
	probe     string    // the name of its probe; empty: that was taken out
	engine    *service  // what it runs in; nil: its probe does not ask that
	seen      bool      // of an engine: it has answered
}

// hidden reports whether the engine hides how a service is.
func (v *service) hidden() bool { return v.engine != nil && v.engine.problem != "" }

// process is an agent that works.
type process struct {
	host    *host
	env     string
	session ops.SessionID
	until   time.Time // its keeper ends it then; zero: its supervisor watches it
}

// newPolicy draws how an environment is configured.
func (s *simulation) newPolicy(names []string) ops.Policy {
	p := cycletest.Policy(func(p *ops.Policy) {
		if s.chance(50) {
			cycletest.WithPeople(p)
			if s.chance(40) {
				p.Judge = "judge"
			}
		}
		p.Observe, p.Mode = ops.ObserveProbes, ops.ContextResume
		p.Recovery.Enabled = s.chance(70)
		p.ApprovalTier = []ops.Tier{0, 0, 2, 2, 3}[s.rand.IntN(5)]
		p.Approval = ops.ApprovalPolicy{Remind: time.Hour, Reminds: 2}
		if s.chance(60) {
			p.Approval.Expiry = 4 * time.Hour
		}
		p.DryRun = s.chance(5)
		if s.chance(60) {
			p.BudgetChainUSD, p.BudgetDayUSD = 2, 4
			for i := range p.Handlers {
				p.Handlers[i].BudgetUSD = 1
			}
		}
	})
	for i, name := range names {
		v := ops.Service{Name: name, Probed: true}
		if s.chance(20) {
			v.Trust = []ops.Trust{ops.TrustWatch, ops.TrustSuggest, ops.TrustAsk, ops.TrustRepair}[s.rand.IntN(4)]
		}
		if i > 0 && s.chance(40) {
			v.DependsOn = names[:1]
		}
		for _, action := range []string{"restart", "clear"} {
			v.Actions = append(v.Actions, ops.ActionSpec{
				Name: action, Service: name, Kind: ops.ActionCommand, Tier: ops.Tier2, Run: []string{"/bin/" + action}, Counts: "restart", Timeout: time.Minute,
			})
		}
		if s.chance(40) {
			r := ops.Reflex{Service: name, On: "http", Status: ops.Down, Do: []string{"restart"}, Tries: 2, Per: 6 * time.Hour}
			r.For = time.Duration(s.rand.IntN(2)) * time.Minute
			v.Actions[0].Approval = s.chance(20)
			v.Reflexes = []ops.Reflex{r}
		}
		p.Inventory.Services = append(p.Inventory.Services, v)
	}
	return p
}

func (s *simulation) newEnvironment(name string, services ...string) ops.Environment {
	dir := s.t.TempDir()
	env := ops.Environment{Name: name, StateDir: dir, WorkDir: dir, Interval: time.Hour, Policy: s.newPolicy(services)}
	env.Watch.Grouping = ops.Grouping{Window: 10 * time.Second}
	env.Policy.Watch = env.Watch
	for _, v := range services {
		env.Probes = append(env.Probes, probeOf(v, "GET"))
		s.services = append(s.services, &service{env: name, name: v, since: time.Now(), probe: "GET"})
	}
	return env
}

// contained puts the services of an environment into containers. Its engine is the last of them; it may be away from the start.
func (s *simulation) contained(env ops.Environment) {
	engine := s.services[len(s.services)-1]
	engine.seen = s.chance(70)
	if !engine.seen {
		s.breaks(engine)
	}
	for i := range env.Policy.Inventory.Services {
		v := &env.Policy.Inventory.Services[i]
		if v.Name == engine.name {
			v.DependsOn = nil
			continue
		}
		v.DependsOn = append(slices.Clone(v.DependsOn), engine.name)
		s.service(env.Name, v.Name).engine = engine
	}
}

// probeOf is the probe of a service; the one of the engine as the configuration makes it.
func probeOf(service, name string) ops.ProbeSpec {
	p := ops.ProbeSpec{Service: service, Type: "http", Name: name}
	if service == ops.EngineService {
		p.FailAfter, p.RecoverAfter = 3, 1
	}
	return p
}

// reload is somebody who takes a service or its probe out of the configuration, has the probe ask something else, or puts all back. Every
// host reads it when it looks next; cycles that are under way keep what they have.
func (s *simulation) reload() {
	v := s.services[s.rand.IntN(len(s.services))]
	if v.name == ops.EngineService {
		return
	}
	switch alone := v.env != s.envs[0].Name; {
	case v.gone || v.probe == "":
		v.gone, v.probe, v.since = false, "GET", time.Now()
	case s.chance(40) && !alone: // without any service there is no inventory
		v.gone, v.probe = true, ""
	case s.chance(50):
		v.probe = ""
	default:
		v.probe = map[string]string{"GET": "HEAD", "HEAD": "GET"}[v.probe]
	}
	s.trace("ann configures %s: gone %t, probe %q", v.name, v.gone, v.probe)
	s.reloaded = true
	i := slices.IndexFunc(s.envs, func(e ops.Environment) bool { return e.Name == v.env })
	s.envs[i] = s.configured(s.first[i])
	for _, h := range s.hosts {
		delete(h.watches, v.env)
	}
}

// configured is an environment without what was taken out of it.
func (s *simulation) configured(e ops.Environment) ops.Environment {
	e.Probes, e.Policy.Inventory.Services = nil, slices.Clone(e.Policy.Inventory.Services)
	gone := func(name string) bool { return s.service(e.Name, name).gone }
	services := slices.DeleteFunc(e.Policy.Inventory.Services, func(v ops.Service) bool { return gone(v.Name) })
	for i, v := range services {
		probe := s.service(e.Name, v.Name).probe
		services[i].Probed, services[i].DependsOn = probe != "", slices.DeleteFunc(slices.Clone(v.DependsOn), gone)
		if probe != "" {
			e.Probes = append(e.Probes, probeOf(v.Name, probe))
		}
	}
	e.Policy.Inventory.Services = services
	return e
}

func (s *simulation) service(env, name string) *service {
	return s.services[slices.IndexFunc(s.services, func(v *service) bool { return v.env == env && v.name == name })]
}

// breaks makes a service fail.
func (s *simulation) breaks(v *service) {
	v.problem, v.since, v.broke = []string{"HTTP 502", "connection refused"}[s.rand.IntN(2)], time.Now(), true
	s.trace("%s breaks: %s", v.name, v.problem)
}

func (s *simulation) heals(v *service, who string) {
	if v.problem == "" {
		return
	}
	v.problem, v.since = "", time.Now()
	s.trace("%s works again %s", v.name, who)
}

// repaired is told that a cycle ended resolved.
func (s *simulation) repaired(env string) {
	for _, v := range s.services {
		if v.env == env && v.fragile && v.problem == "" {
			v.fragile = false
			s.breaks(v)
		}
	}
}

// results are what probes find now.
func (s *simulation) results(environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
	var out []ops.Check
	for _, p := range specs {
		c := ops.Check{
			At: s.clock(), Environment: environment, Purpose: purpose, Service: p.Service, Probe: describe(p), Type: ops.CheckHTTP, Status: ops.Healthy,
		}
		switch v := s.service(environment, p.Service); {
		case v.hidden(), v.name == ops.EngineService && v.problem != "" && !v.seen:
			c.Status, c.Error = ops.Unknown, "the container engine does not answer"
		case v.problem != "":
			c.Status, c.Error = ops.Down, v.problem
		default:
			v.seen = true
		}
		out = append(out, c)
	}
	return out
}

// prober is the probes of a cycle.
type prober struct{ k *task }

func (p prober) Run(_ context.Context, environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
	p.k.park(time.Time{}, "probes")
	p.k.sim.trace("%s probes to %s", p.k.name, purpose)
	return p.k.sim.results(environment, specs, purpose)
}

// probing says what probe results mean, as the daemon does.
type probing struct{ s *simulation }

func (p probing) limits(environment string) health.Limits {
	return health.LimitsOf(p.s.byName()[environment], describe)
}

func (p probing) MoreToFail(environment string, results []ops.Check) int {
	return health.MoreToFail(results, p.limits(environment))
}

func (p probing) MoreToRecover(environment string, results []ops.Check) int {
	return health.MoreToRecover(results, p.limits(environment))
}

func (p probing) RoundPause() time.Duration { return cycle.RoundPause }

func (p probing) SettleTime(context.Context, string, []string) time.Duration { return 10 * time.Second }
func (p probing) HoldTime(context.Context, string, []string) time.Duration   { return 0 }

func (p probing) InGrace(environment, name string, recovered map[string]time.Time, now time.Time) (string, bool) {
	e := p.s.byName()[environment]
	dependency, _, in := health.InGrace(e.Policy.Inventory.Services, e.Watch.Grouping, name, recovered, now)
	return dependency, in
}

// agent is every agent CLI: what it finds, does and says comes from the seed.
type agent struct{ k *task }

func (agent) Able(context.Context, []string) ops.Ability {
	return ops.Ability{Version: "2.1.325", Known: true, Structured: true}
}

func (agent) Activities(string) []ops.Activity { return nil }
func (agent) Gated(ops.SessionSpec) bool       { return false }

func (a agent) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	s, k, id := a.k.sim, a.k, spec.Session.ID
	if err := rec.Started(ctx, 4711, "1"); err != nil {
		return ops.RunResult{Err: err.Error()}
	}
	charge := s.launched(k, spec)
	k.park(time.Now().Add(time.Duration(5+s.rand.IntN(240))*time.Second), "works in session %d", id)
	delete(s.processes, spec.Session.Key)
	if ctx.Err() != nil {
		var stop *ops.StopError
		errors.As(context.Cause(ctx), &stop)
		s.trace("%s session %d is stopped: %v", k.name, id, context.Cause(ctx))
		return ops.RunResult{ExitCode: ops.Ptr(130), Stop: stop.Cause, StopWhy: stop.Why, Figures: s.costs(spec), CLISessionID: fmt.Sprint("talk-", id)}
	}
	out := s.plays(k, spec, charge)
	if err := rec.Lines(ctx, []ops.Line{{At: s.clock(), Text: "{}"}}); err != nil {
		return ops.RunResult{Err: err.Error(), Stop: ops.StopJournal, Figures: out.Figures}
	}
	return out
}

// costs is what a session spends: at most what it was granted and one turn more.
func (s *simulation) costs(spec ops.SessionSpec) ops.Figures {
	cost := float64(s.rand.IntN(80)) / 100
	if spec.BudgetUSD > 0 {
		cost = min(cost, spec.BudgetUSD+turnUSD)
	}
	return ops.Figures{CostUSD: &cost}
}

// turnUSD is what one turn of an agent costs at most: a running session is stopped after it.
const turnUSD = 0.05

// plays is what a session does and says.
func (s *simulation) plays(k *task, spec ops.SessionSpec, charge []string) ops.RunResult {
	session := spec.Session
	out := ops.RunResult{ExitCode: ops.Ptr(0), ResultRead: true, CLISessionID: fmt.Sprint("talk-", session.ID), Figures: s.costs(spec)}
	if session.Role == ops.RoleJudge {
		points := []int{5, 16, 22, 22, 22}[s.rand.IntN(5)]
		if !s.chance(15) {
			out.Structured = fmt.Appendf(nil, `{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":%d,"actionCompleteness":%d,`+
				`"evidenceOfCompletion":%d,"finalStateCoherence":%d},"reasoning":"as I see it"}`, points, points, points, points)
		}
		s.trace("%s session %d judges with %d", k.name, session.ID, points)
		return out
	}
	if s.chance(12) {
		out.ExitCode, out.IsError, out.Err = ops.Ptr(1), true, "it failed"
		out.Failure = []ops.FailureClass{"exit", "api_error"}[s.rand.IntN(2)]
		if out.Failure == "api_error" {
			out.APIStatus = ops.Ptr([]int{429, 500, 401}[s.rand.IntN(3)])
		}
		s.trace("%s session %d fails: %s", k.name, session.ID, out.Failure)
		return out
	}
	if s.chance(5) {
		out.Structured = json.RawMessage(`{"schema_version":1}`)
		s.trace("%s session %d gives no usable outcome", k.name, session.ID)
		return out
	}
	v := s.finds(spec.Environment, charge)
	kind := s.says(session.Tier, v)
	text := strings.ReplaceAll(report.OutcomeExample(session.Tier, kind), "grafana", v.name)
	text = strings.ReplaceAll(text, "postgres", v.name+"-store")
	text = strings.ReplaceAll(text, "HTTP 502 Bad Gateway", v.problem)
	text = s.adds(text, v)
	out.Structured = json.RawMessage(text)
	s.trace("%s session %d (tier %d) says %s of %s", k.name, session.ID, session.Tier, kind, v.name)
	return out
}

// finds is the service that a session reports on: mostly one of its charge, else one that does not work, else any.
func (s *simulation) finds(env string, charge []string) *service {
	at := func(is func(*service) bool) []*service {
		return slices.DeleteFunc(slices.Clone(s.services), func(v *service) bool { return v.env != env || !is(v) })
	}
	bad := func(v *service) bool { return v.problem != "" }
	mine := func(v *service) bool { return slices.Contains(charge, v.name) }
	found := at(func(v *service) bool { return bad(v) && mine(v) })
	if len(found) == 0 && s.chance(50) {
		found = at(mine)
	}
	if len(found) == 0 || s.chance(20) {
		found = append(found, at(bad)...)
	}
	if len(found) == 0 {
		found = at(func(*service) bool { return true })
	}
	return found[s.rand.IntN(len(found))]
}

// says is how a session ends. A higher tier repairs more often than not, and lies at times.
func (s *simulation) says(tier ops.Tier, v *service) ops.OutcomeKind {
	if tier == ops.Tier1 {
		switch {
		case v.problem == "" && !s.chance(5):
			return ops.OutcomeHealthy
		case s.chance(10):
			return ops.OutcomeNeedsHuman
		}
		return ops.OutcomeEscalate
	}
	if s.chance(60) {
		s.heals(v, fmt.Sprint("by tier ", tier))
		v.fragile = s.chance(25)
	}
	switch {
	case v.problem == "" || s.chance(15):
		return ops.OutcomeResolved
	case tier == ops.LastTier || s.chance(20):
		return ops.OutcomeNeedsHuman
	}
	return ops.OutcomeEscalate
}

// adds puts into an outcome what only some have: what no probe can see into a call for help; into a handoff a plan of two actions, and what
// else does not work.
func (s *simulation) adds(text string, v *service) string {
	var o ops.Outcome
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return text
	}
	if o.Kind == ops.OutcomeNeedsHuman && s.chance(40) {
		o.CheckResults[0].CheckType, o.CheckResults[0].Error = ops.CheckService, "the disk is dying"
	}
	if o.Handoff != nil {
		s.hands(o.Handoff, v)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return text
	}
	return string(raw)
}

func (s *simulation) hands(h *ops.Handoff, v *service) {
	if s.chance(40) {
		for _, action := range []string{"restart", "clear"} {
			h.Plan = append(h.Plan, ops.PlanStep{
				Service: v.name, Action: action, Reason: "it hangs since the last change", Effect: "it answers again", Back: "none",
			})
		}
	}
	for _, other := range s.services {
		if other != v && other.env == v.env && other.problem != "" && s.chance(40) {
			h.ServicesAffected = append(h.ServicesAffected, other.name)
			h.CheckResults = append(h.CheckResults, ops.CheckResult{
				Service: other.name, CheckType: ops.CheckHTTP, Status: ops.Down, Error: other.problem,
			})
		}
	}
}

// actions carry approved plans out in the real store, without running anything.
type actions struct{ k *task }

func (a actions) Step(ctx context.Context, env ops.Environment, q ops.Approval, step int) (ops.ActionRun, error) {
	want := q.Plan[step-1]
	run := ops.ActionRun{
		Environment: env.Name, Service: want.Service, Action: want.Action, Kind: ops.ActionCommand, Tier: q.Tier, CycleID: &q.CycleID, SessionID: &q.SessionID,
		Why: want.Reason, ApprovalID: q.ID, Step: step, Automatic: true, Digest: want.Digest, Does: want.Does,
	}
	return a.do(ctx, run, fmt.Sprintf("step %d of approval %d", step, q.ID))
}

func (a actions) Reflex(ctx context.Context, env ops.Environment, cycle ops.CycleID, r ops.Reflex, step int) (ops.ActionRun, error) {
	run := ops.ActionRun{
		Environment: env.Name, Service: r.Service, Action: r.Do[step-1], Kind: ops.ActionCommand, Tier: ops.Tier2, CycleID: &cycle,
		Why: "reflex", Reflex: r.Key(), Step: step, Automatic: true, Digest: r.Digests[step-1],
	}
	return a.do(ctx, run, fmt.Sprintf("the reflex of %s in cycle %d", r.Service, cycle))
}

func (a actions) do(ctx context.Context, run ops.ActionRun, what string) (ops.ActionRun, error) {
	s := a.k.sim
	if err := a.k.before("begins %s", what); err != nil {
		return run, err
	}
	begun, refusal, err := s.store.Acts.BeginAction(ctx, a.k.host.owner, store.ActionIntent{Run: run, At: s.clock()})
	if err != nil || refusal != "" {
		return begun, errors.Join(err, errors.New(refusal))
	}
	s.acted(what)
	a.k.park(time.Now().Add(time.Duration(s.rand.IntN(60))*time.Second), "does %s", what)
	status := ops.ActionDone
	if s.chance(20) {
		status = ops.ActionFailed
	} else if s.chance(50) {
		s.heals(s.service(run.Environment, run.Service), "by an action")
	}
	if err := a.k.before("ends %s: %s", what, status); err != nil {
		return begun, err
	}
	return s.store.Acts.EndAction(context.WithoutCancel(ctx), a.k.host.owner, store.ActionResult{ID: begun.ID, Status: status, At: s.clock()})
}

func (a actions) Interrupted(ctx context.Context, id int64) (ops.ActionRun, error) {
	s := a.k.sim
	if err := a.k.before("interrupts action %d", id); err != nil {
		return ops.ActionRun{}, err
	}
	if _, err := s.store.Acts.InterruptActions(ctx, a.k.host.owner, s.clock()); err != nil {
		return ops.ActionRun{}, err
	}
	r, err := s.store.Acts.ActionRun(ctx, id)
	if err == nil && !r.Status.Ended() {
		err = fmt.Errorf("action %d still runs on host %s: %w", id, r.Owner, ops.ErrConflict)
	}
	return r, err
}

// people do one thing that somebody could do now.
func (s *simulation) people() {
	asked, err := s.store.People.Approvals(s.ctx, store.ApprovalFilter{Status: ops.ApprovalPending})
	if err != nil {
		s.fail("list questions: %v", err)
	}
	if len(asked) > 0 && s.chance(70) {
		s.answers(asked[s.rand.IntN(len(asked))])
		return
	}
	open, err := s.store.People.Incidents(s.ctx, store.IncidentFilter{NeedsYou: true})
	if err != nil {
		s.fail("list incidents: %v", err)
	}
	switch n := s.rand.IntN(12); {
	case n < 5 && len(open) > 0:
		s.cares(open[s.rand.IntN(len(open))], n)
	case n < 6:
		s.submit(ops.TriggerManual)
	case n < 7:
		if open, err := s.store.Journal.Unfinished(s.ctx); err == nil && len(open) > 0 {
			c := open[s.rand.IntN(len(open))]
			_, err := s.store.Journal.RequestCancel(s.ctx, c.ID, "not now", s.clock())
			s.said(err, "cancels cycle %d", c.ID)
		}
	case n < 8 && s.reloads:
		s.reload()
	case n < 10:
		v := s.services[s.rand.IntN(len(s.services))]
		if n == 9 {
			to := []ops.Trust{ops.TrustWatch, ops.TrustSuggest, ops.TrustAsk}[s.rand.IntN(3)]
			l := ops.Lowered{Environment: v.env, Service: v.name, Level: to, Reason: "not alone", By: "ann", At: s.clock()}
			s.said(s.store.People.SetTrust(s.ctx, s.byName()[v.env].Policy, l), "trusts %s with %s", v.name, to)
			return
		}
		_, err := s.store.Watch.AddSilence(s.ctx, ops.Silence{
			Environment: v.env, Service: v.name, Reason: "work", Author: "ann", CreatedAt: s.clock(), Until: s.clock().Add(15 * time.Minute),
		})
		s.said(err, "silences %s", v.name)
	}
}

func (s *simulation) answers(q ops.Approval) {
	switch {
	case s.chance(35):
		_, err := s.store.People.Answer(s.ctx, q.ID, ops.ApprovalDenied, "ann", "not now", s.clock())
		s.said(err, "says no to approval %d", q.ID)
	case len(q.Plan) > 0 && s.chance(80):
		_, err := s.store.People.AnswerPlan(s.ctx, q.ID, q.PlanHash, []int{1, 2}, "ann", "go", s.clock())
		s.said(err, "approves the plan of approval %d", q.ID)
	default:
		_, err := s.store.People.Answer(s.ctx, q.ID, ops.ApprovalApproved, "ann", "go", s.clock())
		s.said(err, "approves approval %d", q.ID)
	}
}

// cares is what a person does about an incident.
func (s *simulation) cares(i ops.Incident, n int) {
	var err error
	switch n {
	case 0:
		_, err = s.store.People.Acknowledge(s.ctx, i.ID, "ann", "mine", s.clock())
	case 1:
		_, err = s.store.People.Snooze(s.ctx, i.ID, "ann", s.clock().Add(time.Hour), "later", s.clock())
	default:
		if i.Service != "" && s.chance(50) {
			s.heals(s.service(i.Environment, i.Service), "by ann")
		}
		_, err = s.store.People.ResolveIncident(s.ctx, i.ID, "ann", "done", s.clock())
	}
	s.said(err, "cares for incident %d (%d)", i.ID, n)
}

// said records what a person did. Being too late is no failure.
func (s *simulation) said(err error, format string, args ...any) {
	s.trace("ann "+format, args...)
	if err != nil && !errors.Is(err, ops.ErrConflict) {
		s.fail("ann "+format+": %v", append(args, err)...)
	}
}

// submit starts a cycle from outside.
func (s *simulation) submit(trigger ops.Trigger) {
	env := s.envs[s.rand.IntN(len(s.envs))].Name
	id, err := s.store.Journal.SubmitCycle(s.ctx, ops.NewCycle{Environment: env, Trigger: trigger, At: s.clock()})
	s.said(err, "submits cycle %d in %s (%s)", id, env, trigger)
}
