package trace

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"claudeops/internal/ops"
)

const (
	batch     = 50
	page      = 1000
	firstWait = 5 * time.Second
	longWait  = 5 * time.Minute
)

// Marks is where rows are marked as sent.
type Marks interface {
	BeginTraces(ctx context.Context) error
	MarkTraced(ctx context.Context, sessions []ops.SessionID, cycles []ops.CycleID, at time.Time) error
}

// Rows are what spans are made from.
type Rows interface {
	Untraced(ctx context.Context, limit int) (ops.Untraced, error)
	Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error)
	Recoveries(ctx context.Context, cycle ops.CycleID) ([]ops.Recovery, error)
}

// Options are what an exporter needs. The address and protocol of the collector come from the OTEL_* variables.
type Options struct {
	Rows    Rows
	Marks   Marks
	Clock   ops.Clock
	Logger  *slog.Logger
	Version string
}

// Exporter sends spans of ended sessions and cycles to a collector.
type Exporter struct {
	Options
	collector *collector
	about     []keyValue // this program
}

// New makes an exporter. Nothing is sent yet.
func New(o Options) (*Exporter, error) {
	collector, err := newCollector(o.Version)
	if err != nil {
		return nil, fmt.Errorf("make trace exporter: %w", err)
	}
	return &Exporter{Options: o, collector: collector, about: about(o.Version)}, nil
}

// about describes this program. The variables of OpenTelemetry come last, so they win.
func about(version string) []keyValue {
	all := map[string]string{
		"service.name": "claudeops", "service.version": version,
		"telemetry.sdk.name": "claudeops", "telemetry.sdk.language": "go", "telemetry.sdk.version": version,
	}
	maps.Copy(all, pairs(variable("OTEL_RESOURCE_ATTRIBUTES")))
	if name := variable("OTEL_SERVICE_NAME"); name != "" {
		all["service.name"] = name
	}
	var out []keyValue
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, text(key, all[key]))
	}
	return out
}

// Run sends what has ended, now and after every wake-up, until ctx ends. What could not be sent is tried again.
func (e *Exporter) Run(ctx context.Context, wake <-chan struct{}) error {
	defer e.collector.client.CloseIdleConnections()
	if err := e.Marks.BeginTraces(ctx); err != nil {
		return err
	}
	wait := firstWait
	for {
		err := e.Flush(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			wait = firstWait
			select {
			case <-ctx.Done():
				return nil
			case <-wake:
			}
			continue
		}
		e.Logger.WarnContext(ctx, "cannot send traces; trying again later", "in", wait, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, longWait)
	}
}

// Flush sends everything that has ended and was not sent yet.
func (e *Exporter) Flush(ctx context.Context) error {
	for {
		found, err := e.Rows.Untraced(ctx, batch)
		if err != nil {
			return err
		}
		for _, s := range found.Sessions {
			if err := e.session(ctx, found.Of[s.CycleID], s); err != nil {
				return err
			}
		}
		for _, c := range found.Cycles {
			if err := e.cycle(ctx, c); err != nil {
				return err
			}
		}
		if len(found.Sessions) < batch && len(found.Cycles) < batch {
			return nil
		}
	}
}

// cycle sends the span of a cycle. Its recoveries are part of it and not of the sessions that failed: the recovery of a session
// may be decided long after its span was sent.
func (e *Exporter) cycle(ctx context.Context, c ops.Cycle) error {
	recoveries, err := e.Rows.Recoveries(ctx, c.ID)
	if err != nil {
		return err
	}
	if err := e.send(ctx, []span{cycleSpan(c, recoveries)}); err != nil {
		return err
	}
	return e.Marks.MarkTraced(ctx, nil, []ops.CycleID{c.ID}, e.Clock())
}

// session sends the span of a session and those of its tool calls.
func (e *Exporter) session(ctx context.Context, c ops.Cycle, s ops.Session) error {
	calls := newCalls()
	for after := int64(0); ; {
		lines, err := e.Rows.Transcript(ctx, s.ID, after, page)
		if err != nil {
			return err
		}
		for _, l := range lines {
			calls.read(l)
			after = l.Seq
		}
		if len(lines) < page {
			break
		}
	}
	spans := []span{sessionSpan(c, s)}
	for _, call := range calls.list {
		spans = append(spans, toolSpan(c, s, call))
	}
	if err := e.send(ctx, spans); err != nil {
		return err
	}
	return e.Marks.MarkTraced(ctx, []ops.SessionID{s.ID}, nil, e.Clock())
}

func (e *Exporter) send(ctx context.Context, spans []span) error {
	if err := e.collector.send(ctx, newRequest(e.about, spans)); err != nil {
		return fmt.Errorf("send traces: %w", err)
	}
	return nil
}
