package daemon

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/config"
	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/guard/broker"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

const dockerHost = "DOCKER_HOST"

// dockerSocket is the Docker socket of a session; without a session there is none.
type dockerSocket struct{ session *broker.Session }

func (s dockerSocket) env() []string {
	if s.session == nil {
		return nil
	}
	return s.session.Env()
}

func (s dockerSocket) close() error {
	if s.session == nil {
		return nil
	}
	return s.session.Close()
}

// brokers stand between sessions and the container engine.
type brokers struct{ *plan }

// brokered is the socket of the engine that an environment's agents reach through a broker; empty if they have none.
func (p brokers) brokered(env ops.Environment) string {
	c := p.Config.Docker
	if c.Broker == config.DockerOn {
		return c.Socket
	}
	own := agent.Variable(env.AgentEnv, dockerHost)
	if own != "" && c.Socket == config.DefaultDockerSocket && !strings.HasPrefix(own, "unix://") {
		return "" // the operator has chosen another engine or a proxy
	}
	if info, err := os.Stat(c.Socket); c.Broker == config.DockerOff || err != nil || info.Mode().Type() != os.ModeSocket {
		return ""
	}
	return c.Socket
}

func (p brokers) makeBroker(engine string) (*broker.Broker, error) {
	return broker.New(broker.Options{
		Engine: engine, Dir: gateDir(p.Config), Ledger: p, May: p.may, Redact: p.redact, Clock: p.Clock, Logger: p.Logger,
	})
}

// Reserve records a decision of a broker, and reserves what it needs in the same transaction.
func (p *plan) Reserve(ctx context.Context, r ops.GuardRecord, want []ops.Reservation) (ops.GuardRecord, error) {
	return p.store.Acts.RecordGuard(ctx, p.Owner(), r, want, p.Config.Guard.Limits)
}

// openDocker opens the Docker socket of a session, where it gets one.
func (p brokers) openDocker(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool) (dockerSocket, error) {
	engine := p.brokered(env)
	if engine == "" {
		return dockerSocket{}, nil
	}
	b, err := p.makeBroker(engine)
	if err != nil {
		return dockerSocket{}, err
	}
	session, err := b.Open(ctx, broker.Scope{
		Session: s, DryRun: dryRun, Others: p.others(env.Name), Services: func() []broker.Service { return p.incident(ctx, env, s) },
	})
	return dockerSocket{session}, err
}

// loadLimit bounds how long a Docker request waits for the journal.
const loadLimit = 5 * time.Second

// incident are the services that this cycle found in trouble and no human has taken over. If they cannot be read, there are none.
func (p brokers) incident(ctx context.Context, env ops.Environment, s ops.Session) []broker.Service {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit)
	defer cancel()
	now, err := p.store.Journal.Load(ctx, s.CycleID)
	if err != nil {
		p.Logger.ErrorContext(ctx, "the services of an incident could not be read", "session_id", s.ID, "error", err)
		return nil
	}
	inventory := now.Cycle.Policy.Inventory
	var out []broker.Service
	for _, name := range briefFor(now, s, p.Clock()).Free() {
		i := slices.IndexFunc(inventory.Services, func(o ops.Service) bool { return o.Name == name })
		if i < 0 {
			out = append(out, containersOf(ops.Service{Name: name}, nil))
			continue
		}
		out = append(out, containersOf(inventory.Services[i], env.Probes))
	}
	return out
}

// briefFor is what a session is about, with what the tiers below it reported.
func briefFor(now ops.Claimed, s ops.Session, at time.Time) decide.Brief {
	for i := range now.Journal.Sessions {
		report.Read(&now.Journal.Sessions[i])
	}
	return decide.BriefFor(notice.Steps{}, now, s, at)
}

// containersOf is a service with the names that its containers can have.
func containersOf(s ops.Service, probes []ops.ProbeSpec) broker.Service {
	out := broker.Service{Name: s.Name, Names: slices.Clone(s.Aliases), Off: slices.Clone(s.Off), Redeployed: s.Redeployed()}
	for _, a := range s.Actions {
		if a.Approval && a.Container != "" {
			out.Off = append(out.Off, a.Name)
		}
	}
	for _, p := range probes {
		if p.Service == s.Name && p.Container != "" {
			out.Names = append(out.Names, p.Container)
		}
	}
	return out
}

// others are the services of the other environments of this host.
func (p brokers) others(name string) []broker.Service {
	var out []broker.Service
	for _, e := range p.mine {
		if e.Name == name {
			continue
		}
		for _, s := range e.Policy.Inventory.Services {
			out = append(out, containersOf(s, e.Probes))
		}
	}
	return out
}
