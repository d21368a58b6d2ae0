package trace

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"claudeops/internal/ops"
)

const (
	batch      = 50
	page       = 1000
	firstWait  = 5 * time.Second
	longWait   = 5 * time.Minute
	closeLimit = 2 * time.Second
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
	collector sdktrace.SpanExporter
	resource  *resource.Resource
}

// New makes an exporter. Nothing is sent yet.
func New(ctx context.Context, o Options) (*Exporter, error) {
	// Retries are ours: a row stays unmarked until the collector has taken it.
	collector, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("make trace exporter: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("claudeops"), semconv.ServiceVersion(o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this program for traces: %w", err)
	}
	return &Exporter{Options: o, collector: collector, resource: about}, nil
}

// Run sends what has ended, now and after every wake-up, until ctx ends. What could not be sent is tried again.
func (e *Exporter) Run(ctx context.Context, wake <-chan struct{}) error {
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		_ = e.collector.Shutdown(end) // it has no buffered spans
	}()
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
	if err := e.send(ctx, tracetest.SpanStubs{cycleSpan(c, recoveries)}); err != nil {
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
	spans := tracetest.SpanStubs{sessionSpan(c, s)}
	for _, call := range calls.list {
		spans = append(spans, toolSpan(c, s, call))
	}
	if err := e.send(ctx, spans); err != nil {
		return err
	}
	return e.Marks.MarkTraced(ctx, []ops.SessionID{s.ID}, nil, e.Clock())
}

func (e *Exporter) send(ctx context.Context, spans tracetest.SpanStubs) error {
	for i := range spans {
		spans[i].Resource = e.resource
	}
	if err := e.collector.ExportSpans(ctx, spans.Snapshots()); err != nil {
		return fmt.Errorf("send traces: %w", err)
	}
	return nil
}
