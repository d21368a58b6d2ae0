// Package probe checks services without an agent: an HTTP request, a TCP connection or a command.
package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"claudeops/internal/ops"
)

const (
	defaultTimeout = 10 * time.Second
	// atOnce bounds how many probes run together.
	atOnce = 8
	// longestError keeps an error fit for one line of a page.
	longestError = 200
)

// Options are what a prober needs; everything has a default.
type Options struct {
	Clock      ops.Clock
	HTTPClient *http.Client // how redirects are followed is the prober's own affair
	Path       string       // PATH of probe commands
}

// Prober runs probes.
type Prober struct {
	clock  ops.Clock
	client *http.Client
	dialer net.Dialer
	path   string
}

// New makes a prober.
func New(o Options) *Prober {
	p := &Prober{clock: o.Clock, client: o.HTTPClient, path: o.Path}
	if p.clock == nil {
		p.clock = time.Now
	}
	if p.client == nil {
		p.client = &http.Client{Transport: freshConnections()}
	}
	if p.path == "" {
		p.path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return p
}

// finding is what one probe found.
type finding struct {
	status ops.Health
	err    string
}

// Run runs the probes, several at a time, and returns their results in the order of the specs after all have ended.
// A probe that ctx did not let finish says nothing about its service and has no result; look at ctx before reading
// anything into a short list.
func (p *Prober) Run(ctx context.Context, environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
	results := make([]*ops.Check, len(specs))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, spec := range specs {
		group.Go(func() error {
			results[i] = p.one(ctx, spec)
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

func (p *Prober) one(parent context.Context, spec ops.ProbeSpec) *ops.Check {
	if parent.Err() != nil {
		return nil
	}
	timeout := spec.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	tooSlow := fmt.Errorf("no answer within %s", timeout)
	ctx, cancel := context.WithTimeoutCause(parent, timeout, tooSlow)
	defer cancel()

	at, start := p.clock(), time.Now()
	found := p.find(ctx, spec)
	took := time.Since(start)
	switch {
	case parent.Err() != nil && found.status == ops.Down:
		return nil
	case found.status == ops.Down && ctx.Err() != nil:
		found.err = tooSlow.Error()
	case found.status == ops.Healthy && spec.SlowAfter > 0 && took > spec.SlowAfter:
		found = finding{ops.Degraded, fmt.Sprintf("slow: %s, more than %s", took.Round(time.Millisecond), spec.SlowAfter)}
	}
	return &ops.Check{
		At: at, Service: spec.Service, Probe: describe(spec), Type: checkType(spec), Status: found.status,
		Error: brief(found.err), ResponseTimeMS: took.Milliseconds(),
	}
}

func (p *Prober) find(ctx context.Context, spec ops.ProbeSpec) finding {
	switch spec.Type {
	case "http":
		return p.http(ctx, spec)
	case "tcp":
		return p.tcp(ctx, spec)
	case "command":
		return p.command(ctx, spec)
	default:
		return down("unknown probe type %q: use http, tcp or command", spec.Type)
	}
}

func healthy() finding { return finding{status: ops.Healthy} }

func down(format string, args ...any) finding {
	return finding{ops.Down, fmt.Sprintf(format, args...)}
}

func checkType(spec ops.ProbeSpec) ops.CheckType {
	if spec.Type == "http" {
		return ops.CheckHTTP
	}
	return ops.CheckService
}

// describe says in one line what is probed.
func describe(spec ops.ProbeSpec) string {
	switch spec.Type {
	case "http":
		return method(spec) + " " + withoutPassword(spec.URL)
	case "tcp":
		return "tcp " + spec.Address
	case "command":
		return "command " + strings.Join(spec.Command, " ")
	default:
		return spec.Type
	}
}

// brief makes a text fit for one short line.
func brief(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(s); len(runes) > longestError {
		s = string(runes[:longestError-1]) + "…"
	}
	return s
}
