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

// Journal is where rows are read and marked.
type Journal interface {
	Rows
	BeginTraces(ctx context.Context) error
	MarkTraced(ctx context.Context, sessions []ops.SessionID, cycles []ops.CycleID, at time.Time) error
}

// Rows are what spans are made from.
type Rows interface {
	Untraced(ctx context.Context, limit int) (ops.Untraced, error)
	Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error)
	Recoveries(ctx context.Context, cycle ops.CycleID) ([]ops.Recovery, error)
}

// Options are what an exporter needs. Where the collector is and how it is spoken to is read from the OTEL_* variables.
type Options struct {
	Journal Journal
	Clock   ops.Clock
	Logger  *slog.Logger
	Version string
}

// Exporter tells a collector what ended.
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

// Run sends what ended, now and whenever it is woken, until ctx ends. What could not be sent is tried again.
func (e *Exporter) Run(ctx context.Context, wake <-chan struct{}) error {
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		_ = e.collector.Shutdown(end) // it holds nothing back
	}()
	if err := e.Journal.BeginTraces(ctx); err != nil {
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
		e.Logger.WarnContext(ctx, "cannot send traces; they are kept and sent later", "again_in", wait, "error", err)
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
		found, err := e.Journal.Untraced(ctx, batch)
		if err != nil {
			return err
		}
		for _, s := range found.Sessions {
			if err := e.session(ctx, found.Of[s.CycleID], s); err != nil {
				return err
			}
		}
		for _, c := range found.Cycles {
			if err := e.chain(ctx, c); err != nil {
				return err
			}
		}
		if len(found.Sessions) < batch && len(found.Cycles) < batch {
			return nil
		}
	}
}

// chain sends the span of a cycle. Its recoveries are told with it and not with the sessions that failed: what is done about a
// session may be decided long after its span was sent.
func (e *Exporter) chain(ctx context.Context, c ops.Cycle) error {
	recoveries, err := e.Journal.Recoveries(ctx, c.ID)
	if err != nil {
		return err
	}
	if err := e.send(ctx, tracetest.SpanStubs{chainSpan(c, recoveries)}); err != nil {
		return err
	}
	return e.Journal.MarkTraced(ctx, nil, []ops.CycleID{c.ID}, e.Clock())
}

// session sends the span of a session and those of its tool calls.
func (e *Exporter) session(ctx context.Context, c ops.Cycle, s ops.Session) error {
	calls := newCalls()
	for after := int64(0); ; {
		lines, err := e.Journal.Transcript(ctx, s.ID, after, page)
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
	return e.Journal.MarkTraced(ctx, []ops.SessionID{s.ID}, nil, e.Clock())
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
