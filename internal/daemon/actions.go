package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/agent"
	"claudeops/internal/api"
	"claudeops/internal/cycle"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/guard/gate"
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
)

const (
	// requestTime is how long a request of a person waits for this daemon; an old one must not surprise anybody.
	requestTime = 2 * time.Minute
	// How often requests are looked for: that another host may write, and after a failure; and that this process writes, which nudges.
	requestPoll, requestPace = 2 * time.Second, 10 * time.Second
)

// newActions makes the runner of actions.
func (p *plan) newActions(prober act.Prober, health cycle.Health) *act.Runner {
	p.commits = &act.Commits{
		Trust: p.store.Acts, Host: p.Config.Host.Name, Dir: filepath.Join(p.Config.StateDir, "actions"), Clock: p.Clock,
		Steers: lender{p}.steers, Held: lender{p}.heldClone, Redact: p.redact, One: &p.cloning,
	}
	return act.New(act.Options{
		Ledger: p.store.Acts, Refusals: p.store.Acts, Prober: prober, Owner: p.Owner, May: p.may, Limits: p.Config.Guard.Limits,
		Commits: p.commits, Docker: p.Config.Docker.Socket, Settle: health.SettleTime, Redact: p.redact, Turns: &p.turns,
		Environ: os.Environ(), //nolint:forbidigo // PATH and HOME of the supervisor, for the operator's own programs
		Clock:   p.Clock, Logger: p.Logger,
	})
}

// sessionTools are the supervisor's tools as the guard knows them. All tiers may call them: the supervisor decides about each call.
func sessionTools() map[ops.Tier][]string {
	var names []string
	for _, name := range ops.SessionTools() {
		names = append(names, "mcp__"+ops.ToolServerName+"__"+name)
	}
	return map[ops.Tier][]string{ops.Tier1: names}
}

// offerActions gives a session its tools; one whose network is closed always has them, since it cannot look without.
func (p *plan) offerActions(g *gate.Session, env ops.Environment, s ops.Session, dryRun, closed bool) ops.ToolServer {
	if !s.Works() || p.actions == nil || !hasTools(env) && !closed {
		return ops.ToolServer{}
	}
	return g.Offer(&actionTools{p: p, env: env, session: s, dryRun: dryRun})
}

func hasTools(env ops.Environment) bool {
	return slices.ContainsFunc(env.Policy.Inventory.Services, func(s ops.Service) bool { return len(s.Actions)+len(s.Queries) > 0 })
}

// actionTools are the tools of one session.
type actionTools struct {
	p       *plan
	env     ops.Environment
	session ops.Session
	dryRun  bool
}

// scope reads the services of the incident each time: people may hold them while a session runs.
func (t *actionTools) scope(ctx context.Context) (act.Scope, error) {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	now, err := t.p.store.Journal.Load(ctx, t.session.CycleID)
	if err != nil {
		return act.Scope{}, err
	}
	brief := briefFor(now, t.session, t.p.Clock())
	return act.Scope{Services: brief.Free(), Held: brief.Held()}, nil
}

// Call runs a tool.
func (t *actionTools) Call(ctx context.Context, tool string, input json.RawMessage) (string, error) {
	var in struct {
		ID       int64    `json:"id"`
		Service  string   `json:"service"`
		Action   string   `json:"action"`
		Why      string   `json:"why"`
		Branch   string   `json:"branch"`
		Services []string `json:"services"`
	}
	if len(input) > 0 {
		if err := json.Unmarshal(input, &in); err != nil {
			return "", errors.New("the input of the tool cannot be read: give the fields that its description names")
		}
	}
	switch tool {
	case "actions_list":
		return t.list(ctx)
	case "action_run":
		out, err := t.p.actions.Run(ctx, act.Request{
			Environment: t.env, Service: in.Service, Action: in.Action, Branch: in.Branch, Why: in.Why,
			Session: &t.session, DryRun: t.dryRun, Scope: t.scope,
		})
		return t.told(ctx, out, err)
	case "action_undo":
		out, err := t.p.actions.Undo(ctx, act.Request{
			Environment: t.env, Run: in.ID, Why: in.Why, Session: &t.session, DryRun: t.dryRun, Scope: t.scope,
		})
		return t.told(ctx, out, err)
	case "services_status":
		return t.status(ctx)
	case "probe_now":
		return t.probe(ctx, in.Services)
	case "cooldowns":
		return t.cooldowns(ctx)
	case "look":
		return t.look(ctx, input)
	}
	return "", fmt.Errorf("unknown tool %q", tool)
}

// toldRun is what an agent is told about a run.
type toldRun struct {
	ID     int64               `json:"id"`
	Status ops.ActionStatus    `json:"status"`
	Does   string              `json:"does"`
	Before []ops.ServiceHealth `json:"before"`
	After  []ops.ServiceHealth `json:"after"`
	Worse  []string            `json:"worse_than_before,omitempty"`
	Undone string              `json:"undone,omitempty"`
	Error  string              `json:"error,omitempty"`
	Output string              `json:"output,omitempty"`
}

func (t *actionTools) told(ctx context.Context, out act.Outcome, err error) (string, error) {
	var no *act.Refusal
	switch {
	case errors.As(err, &no):
		return "", no
	case err != nil:
		t.p.Logger.ErrorContext(ctx, "an action could not be run", "session_id", t.session.ID, "error", err)
		return "", errors.New("the action was not run because it could not be recorded: report it for a human")
	}
	t.p.hub.Nudge()
	r := out.Run
	said := toldRun{
		ID: r.ID, Status: r.Status, Does: r.Does, Before: r.Before, After: r.After, Worse: out.Worse, Error: r.Error,
		Output: ops.Ends(r.Output, 0, 4000, "…"),
	}
	switch {
	case out.Undo != nil && out.Undo.Status == ops.ActionDone:
		said.Undone = "The action made things worse, so the supervisor has undone it. Do not repeat it; look for another cause."
		said.After = out.Undo.After
	case out.Undo != nil:
		said.Undone = "The action made things worse, and its undo failed: " + out.Undo.Error + ". A notice for a human was written."
	}
	text, err := json.Marshal(said)
	return string(text), err
}

// offered is one action as an agent sees it.
type offered struct {
	Service     string `json:"service"`
	Action      string `json:"action"`
	Does        string `json:"does"`
	Description string `json:"description,omitempty"`
	Undo        string `json:"undo"`
	Tier        int    `json:"tier"`
	Available   bool   `json:"available"`
	Because     string `json:"because,omitempty"` // why it is not
}

func (t *actionTools) list(ctx context.Context) (string, error) {
	scope, err := t.scope(ctx)
	if err != nil {
		return "", errors.New("the services of this incident could not be read: try again later")
	}
	out := []offered{}
	for _, s := range t.env.Policy.Inventory.Services {
		if !slices.Contains(scope.Services, s.Name) {
			continue
		}
		for _, a := range s.Actions {
			o := offered{
				Service: s.Name, Action: a.Name, Does: a.Does(), Description: a.Description, Undo: a.WayBack(), Tier: int(a.Tier), Available: true,
			}
			switch why, held := scope.Held[s.Name]; {
			case t.dryRun:
				o.Available, o.Because = false, "dry run"
			case held:
				o.Available, o.Because = false, why
			case t.session.May() < a.Tier:
				o.Available, o.Because = false, "needs "+a.Tier.String()+": escalate"
			case a.Approval:
				o.Available, o.Because = false, "needs the approval of a human: propose it in the plan of your handoff"
			}
			out = append(out, o)
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func (t *actionTools) status(ctx context.Context) (string, error) {
	found, err := api.Services(ctx, t.p.store, []ops.Environment{t.env}, t.env.Name, t.p.Clock())
	if err != nil {
		return "", errors.New("the state of the services could not be read: try again later")
	}
	type state struct {
		Service   string     `json:"service"`
		State     string     `json:"state"`
		CheckedAt *time.Time `json:"checked_at"`
	}
	out := []state{}
	for _, s := range found {
		out = append(out, state{s.Name, s.State, s.CheckedAt})
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func (t *actionTools) probe(ctx context.Context, services []string) (string, error) {
	var names []string
	for _, s := range t.env.Policy.Inventory.Services {
		names = append(names, s.Name)
	}
	var wanted []string
	for _, name := range services {
		canonical, known := t.env.Policy.Inventory.Canonical(name)
		if !known {
			return "", fmt.Errorf("no service of this environment is called %q", name)
		}
		wanted = append(wanted, canonical)
	}
	if len(wanted) > 0 {
		names = wanted
	}
	found := t.p.actions.Look(ctx, t.env, names)
	if found == nil {
		found = []ops.ServiceHealth{}
	}
	text, err := json.Marshal(found)
	return string(text), err
}

// look looks at the network for a session. A page that an agent names itself is judged as the command that would fetch it, at the tier
// that only looks, and is none of the supervisor's own, which would take the agent for the supervisor.
func (t *actionTools) look(ctx context.Context, input json.RawMessage) (string, error) {
	var l probe.Look
	if err := json.Unmarshal(input, &l); err != nil {
		return "", errors.New("the input of the tool cannot be read: give the fields that its description names")
	}
	if u, err := url.Parse(l.Target); err == nil && u.Host != "" {
		judge, err := t.p.judge()
		if err != nil {
			return "", errors.New("it cannot be judged: report it for a human")
		}
		if d := Verdict(judge, ops.Tier1, commandLine([]string{"curl", l.Target}), Facts(t.p.Config, t.env)); !d.Allowed() {
			return "", errors.New(d.Reason)
		}
		// What is not found is not asked, and 0 is no port.
		port, _ := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80"), 10, 16)
		found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if slices.ContainsFunc(found, func(ip netip.Addr) bool { return t.p.networks.own(netip.AddrPortFrom(ip.Unmap(), uint16(port))) }) {
			return "", errors.New("it is an address of the supervisor")
		}
	}
	return t.p.prober.Look(ctx, t.env, l)
}

func (t *actionTools) cooldowns(ctx context.Context) (string, error) {
	limits := t.env.Policy.AllCooldowns()
	used, err := t.p.store.Acts.Cooldowns(ctx, t.env.Name, limits, t.p.Clock())
	if err != nil {
		return "", errors.New("the rate limits could not be read: try again later")
	}
	text, err := json.Marshal(map[string]any{"limits": limits, "used": append([]ops.Cooldown{}, used...)})
	return string(text), err
}

// interruptActions ends what an earlier supervisor left running. Nothing is repeated: the probes say what is true.
func (p *plan) interruptActions(ctx context.Context) error {
	left, err := p.store.Acts.InterruptActions(ctx, p.Owner(), p.Clock())
	if err != nil {
		return err
	}
	for _, r := range left {
		killed, err := agent.Sweep(ctx, act.Key(r))
		if err != nil {
			p.Logger.WarnContext(ctx, "the processes of an interrupted action could not be ended", "action", r.ID, "error", err)
		}
		p.Logger.WarnContext(ctx, "an action was interrupted; it is not repeated", "action", r.ID, "service", r.Service,
			"name", r.Action, "processes", killed)
		env, ok := p.works(r.Environment)
		if !ok {
			continue
		}
		services := append([]string{r.Service}, env.Policy.Inventory.Dependents(r.Service)...)
		if err := p.store.Acts.NoteAction(ctx, p.Owner(), r.ID, p.actions.Look(ctx, env, services)); err != nil {
			return err
		}
	}
	return nil
}

// works returns an environment that this host works for.
func (p *plan) works(name string) (ops.Environment, bool) {
	i := slices.IndexFunc(p.mine, func(e ops.Environment) bool { return e.Name == name })
	if i < 0 {
		return ops.Environment{}, false
	}
	return p.mine[i], true
}

// takeRequests does what people ask for, until ctx ends.
func (p *plan) takeRequests(ctx context.Context, nudges <-chan struct{}) error {
	work, end := ops.Lasting(ctx) // what has begun goes on
	defer end()
	pace := requestPace
	if p.shared() {
		pace = requestPoll
	}
	supervisor.Every(ctx, pace, nudges, func() {
		stopped := p.endStopped(ctx)
		waiting, err := p.store.Acts.RequestedActions(ctx, names(p.mine))
		if err := errors.Join(stopped, err); err != nil && ctx.Err() == nil {
			p.Logger.WarnContext(ctx, "what people ask for could not be read, or what is stopped not ended; trying again", "error", err)
			time.AfterFunc(requestPoll, p.hub.Nudge)
		}
		for _, r := range waiting {
			if ctx.Err() == nil {
				p.takeRequest(work, r)
			}
		}
	})
	return nil
}

// endStopped ends what this host runs although a person stopped everything. An action that has begun is not torn: its cycle ends after it.
func (p *plan) endStopped(ctx context.Context) error {
	cycles, err := p.store.Journal.ToStop(ctx, p.Config.Host.Name)
	for _, c := range cycles {
		err = errors.Join(err, ignore(p.supervisor.Cancel(ctx, c.ID, "everything was stopped"), ops.ErrConflict))
	}
	return err
}

// takeRequest does one thing that a person asked for. What is refused or fails is told in its row.
func (p *plan) takeRequest(ctx context.Context, r ops.ActionRun) {
	env, _ := p.works(r.Environment)
	var err error
	switch {
	case p.Clock().Sub(r.RequestedAt) > requestTime:
		err = errors.New("no daemon took the request in time; ask again")
	case r.UndoOf != 0:
		_, err = p.actions.Undo(ctx, act.Request{Environment: env, Run: r.UndoOf, Why: r.Why, Person: r.Person, ID: r.ID})
	default:
		_, err = p.actions.Run(ctx, act.Request{
			Environment: env, Service: r.Service, Action: r.Action, Branch: r.Branch, Why: r.Why, Person: r.Person, ID: r.ID,
			Digest: r.Digest,
		})
	}
	if err != nil && ctx.Err() == nil {
		if bad := p.store.Acts.RefuseAction(ctx, r.ID, err.Error(), p.Clock()); bad != nil && !errors.Is(bad, ops.ErrConflict) {
			p.Logger.WarnContext(ctx, "a refused action could not be recorded", "action", r.ID, "error", bad)
		}
	}
	p.hub.Nudge()
}

// Step runs one step of a plan that a human approved. What may not run any more is recorded as refused: the plan ends there.
func (p *plan) Step(ctx context.Context, env ops.Environment, a ops.Approval, step int) (ops.ActionRun, error) {
	do := a.Plan[step-1]
	out, err := p.actions.Run(ctx, act.Request{
		Environment: env, Service: do.Service, Action: do.Action, Branch: do.Branch, Why: ops.Ends(do.Reason, 0, 400, "…"), Plan: &a, Step: step,
	})
	return p.ran(ctx, out, err, ops.ActionRun{
		Environment: env.Name, Service: do.Service, Action: do.Action, Tier: a.Tier, CycleID: &a.CycleID, SessionID: &a.SessionID, Why: do.Reason,
		ApprovalID: a.ID, Step: step, Automatic: true, Does: do.Does, Digest: do.Digest, Branch: do.Branch,
	})
}

// Reflex runs one action of a reflex. What may not run is recorded as refused: the reflex ends there.
func (p *plan) Reflex(ctx context.Context, env ops.Environment, cycle ops.CycleID, r ops.Reflex, step int) (ops.ActionRun, error) {
	why := fmt.Sprintf("reflex: the %s probe of %s finds it %s", r.On, r.Service, r.Status)
	out, err := p.actions.Run(ctx, act.Request{
		Environment: env, Service: r.Service, Action: r.Do[step-1], Why: why, Reflex: &r, Cycle: cycle, Step: step,
	})
	p.hub.Nudge()
	return p.ran(ctx, out, err, ops.ActionRun{
		Environment: env.Name, Service: r.Service, Action: r.Do[step-1], Tier: ops.Tier2, CycleID: &cycle, Why: why, Reflex: r.Key(), Step: step,
		Automatic: true, Does: r.Do[step-1], Digest: r.Digests[step-1],
	})
}

// ran is a run, or the row of one that was refused.
func (p *plan) ran(ctx context.Context, out act.Outcome, err error, refused ops.ActionRun) (ops.ActionRun, error) {
	var no *act.Refusal
	if !errors.As(err, &no) {
		return out.Run, err
	}
	why := no.Error()
	if refused.Reflex != "" {
		why = no.Reason // nobody is there to do it another way
	}
	return p.store.Acts.RefuseStep(ctx, p.Owner(), refused, why, p.Clock())
}

// Interrupted ends a run whose supervisor has ended.
func (p *plan) Interrupted(ctx context.Context, id int64) (ops.ActionRun, error) {
	if err := p.interruptActions(ctx); err != nil {
		return ops.ActionRun{}, err
	}
	r, err := p.store.Acts.ActionRun(ctx, id)
	if err == nil && !r.Status.Ended() {
		err = ops.NewConflict(ops.ConflictTaken, "action %d still runs on host %s", id, r.Owner)
	}
	return r, err
}
