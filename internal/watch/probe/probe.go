// Package probe checks services without an agent: HTTP requests, name lookups, containers, databases, ports, units,
// commands and the calls of jobs; once (Prober) or at intervals (Scheduler). Package health decides what the results mean.
package probe

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
)

const (
	defaultTimeout = 10 * time.Second
	// atOnce is how many probes run at the same time.
	atOnce = 8
	// longestError is how much of an error fits on one line of a page.
	longestError = 200
	// shortestSecret is how long a header's value must be to be hidden: "1" would make every message unreadable.
	shortestSecret = 4
)

// Options are what a prober needs; everything has a default.
type Options struct {
	Clock      ops.Clock
	HTTPClient *http.Client // its CheckRedirect is replaced
	Path       string       // PATH of probe commands
	Systemctl  string       // the systemctl program
	// Socket is the unix socket of the Docker or Podman API.
	Socket string
	// Answered reports whether the container engine has ever answered a probe of an environment. Before it has, it is unknown.
	Answered func(ctx context.Context, environment string) (bool, error)
	// Databases open databases of the types postgres and mysql.
	Databases map[string]OpenDatabase
	// Heartbeats returns what is known of the calls of a service's jobs; without it, probes of this type find out nothing.
	Heartbeats func(ctx context.Context, environment, service string) ([]ops.Heartbeat, error)
	// Allow may refuse a probe's command before it runs; without it every configured command runs.
	Allow func(argv []string) error
}

// Prober runs probes.
type Prober struct {
	Options

	insecure http.RoundTripper // accepts any certificate
	dialer   net.Dialer
}

// New makes a prober.
func New(o Options) *Prober {
	o.Path = cmp.Or(o.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	o.Systemctl = cmp.Or(o.Systemctl, "systemctl")
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{Transport: freshConnections(false)}
	}
	if o.Databases == nil {
		o.Databases = defaultDatabases()
	}
	return &Prober{Options: o, insecure: freshConnections(true)}
}

// finding is the result of one probe; without a status, nothing was found out.
type finding struct {
	status   ops.Health
	err      string
	instance ops.Instance // the container that was found
}

// Run runs the probes, several at a time, and returns their results in the order of the specs after all have ended.
// A probe that ctx ended has no result, so check ctx when the list is short. For ops.ProbeRunning it only asks whether the containers and
// units of the specs run; those that cannot be asked have no result.
func (p *Prober) Run(ctx context.Context, environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
	find := finder(p.find)
	if purpose == ops.ProbeRunning {
		find = p.running
	}
	results := make([]*ops.Check, len(specs))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, spec := range specs {
		group.Go(func() error {
			results[i] = p.one(ctx, environment, spec, find)
			return nil
		})
	}
	_ = group.Wait() // a failed probe is a result
	checks := make([]ops.Check, 0, len(specs))
	for _, c := range results {
		if c != nil {
			c.Environment, c.Purpose = environment, purpose
			checks = append(checks, *c)
		}
	}
	return checks
}

// finder finds out about one probe of an environment.
type finder func(ctx context.Context, environment string, spec ops.ProbeSpec) finding

func (p *Prober) one(parent context.Context, environment string, spec ops.ProbeSpec, find finder) *ops.Check {
	if parent.Err() != nil {
		return nil
	}
	timeout := cmp.Or(spec.Timeout, defaultTimeout)
	tooSlow := fmt.Errorf("no answer within %s", timeout)
	ctx, cancel := context.WithTimeoutCause(parent, timeout, tooSlow)
	defer cancel()

	at, start := p.Clock(), time.Now()
	found := find(ctx, environment, spec)
	took := time.Since(start)
	switch {
	case found.status == "", parent.Err() != nil && found.status == ops.Down:
		return nil
	case found.status == ops.Unknown && parent.Err() != nil:
		return nil
	case found.status == ops.Down && ctx.Err() != nil:
		found.err = tooSlow.Error()
	case found.status == ops.Healthy && spec.SlowAfter > 0 && took > spec.SlowAfter:
		found.status, found.err = ops.Degraded, fmt.Sprintf("slow: %s, more than %s", took.Round(time.Millisecond), spec.SlowAfter)
	}
	return &ops.Check{
		At: at, Service: spec.Service, Probe: Describe(spec), Type: checkType(spec), Status: found.status,
		Error: ops.OneLine(withoutSecrets(spec, found.err), longestError), ResponseTimeMS: took.Milliseconds(),
		Instance: found.instance,
	}
}

func (p *Prober) find(ctx context.Context, environment string, spec ops.ProbeSpec) finding {
	switch spec.Type {
	case "http":
		return p.http(ctx, spec)
	case "dns":
		return p.dns(ctx, spec)
	case "container":
		return p.container(ctx, spec)
	case ops.ProbeEngine:
		return p.engine(ctx, environment)
	case "postgres", "mysql":
		return p.database(ctx, spec)
	case "redis":
		return p.redis(ctx, spec)
	case "tcp":
		return p.tcp(ctx, spec)
	case "systemd":
		return p.systemd(ctx, spec)
	case "command":
		return p.command(ctx, spec)
	case ops.ProbeHeartbeat:
		return p.heartbeat(ctx, environment, spec)
	default:
		return down("unknown probe type %q: use %s", spec.Type, strings.Join(Types(), ", "))
	}
}

// Types lists the types of probe.
func Types() []string {
	return []string{"http", "dns", "container", "postgres", "mysql", "redis", "tcp", "systemd", "command", ops.ProbeHeartbeat}
}

// heartbeat finds out whether a job has called in time. Where nothing is recorded yet, there is nothing to find out.
func (p *Prober) heartbeat(ctx context.Context, environment string, spec ops.ProbeSpec) finding {
	rhythm, err := health.ParseRhythm(spec)
	if err != nil {
		return down("%s", err)
	}
	var known []ops.Heartbeat
	if p.Heartbeats != nil {
		known, err = p.Heartbeats(ctx, environment, spec.Service)
	}
	i := slices.IndexFunc(known, func(h ops.Heartbeat) bool { return h.Probe == Describe(spec) })
	if err != nil || i < 0 {
		return finding{}
	}
	status, why, _ := rhythm.Judge(known[i], p.Clock())
	return finding{status: status, err: why}
}

func healthy() finding { return finding{status: ops.Healthy} }

func degraded(format string, args ...any) finding {
	return finding{status: ops.Degraded, err: fmt.Sprintf(format, args...)}
}

func down(format string, args ...any) finding {
	return finding{status: ops.Down, err: fmt.Sprintf(format, args...)}
}

func unknown(err error) finding { return finding{status: ops.Unknown, err: err.Error()} }

func checkType(spec ops.ProbeSpec) ops.CheckType {
	switch spec.Type {
	case "http":
		return ops.CheckHTTP
	case "dns":
		return ops.CheckDNS
	case "container", ops.ProbeEngine:
		return ops.CheckContainer
	case "postgres", "mysql", "redis":
		return ops.CheckDatabase
	default:
		return ops.CheckService
	}
}

// Describe says in one line what is probed, without any password. It is the name of the probe in its results.
func Describe(spec ops.ProbeSpec) string {
	if spec.Name != "" {
		return spec.Name
	}
	switch spec.Type {
	case "http":
		return method(spec) + " " + withoutPassword(spec.URL)
	case "dns":
		return "dns " + record(spec) + " " + spec.Host
	case "container":
		return "container " + spec.Container
	case "postgres", "mysql", "redis":
		return strings.TrimSpace(withoutPassword(spec.URL) + " " + spec.Query)
	case "tcp":
		return "tcp " + spec.Address
	case "systemd":
		return "systemd " + spec.Unit
	case "command":
		return "command " + strings.Join(spec.Command, " ")
	default:
		return spec.Type
	}
}

// withoutSecrets removes passwords from a message: servers and drivers may repeat them.
func withoutSecrets(spec ops.ProbeSpec, s string) string {
	secrets := []string{spec.Password}
	if u, err := url.Parse(spec.URL); err == nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password)
	}
	for _, v := range spec.Headers {
		secrets = append(secrets, v)
	}
	for _, secret := range secrets {
		if len(secret) >= shortestSecret {
			s = strings.ReplaceAll(s, secret, "xxxxx")
		}
	}
	return s
}
