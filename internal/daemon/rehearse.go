package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/guard"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Record is what a rehearsal reads.
type Record interface {
	Recorded(ctx context.Context, f store.RecordFilter) ([]ops.Recorded, error)
	JudgedCalls(ctx context.Context, f store.RecordFilter) ([]store.JudgedCall, error)
}

// Span is the part of the record that is rehearsed.
type Span struct {
	Since time.Time
	Cycle ops.CycleID // only this one; 0: all
}

// Rehearse takes the record again under a configuration and compares it with what another one would do; nil: with what was done. It
// changes nothing, asks no model and no network. If the deadline of ctx comes first, the report says so.
func Rehearse(ctx context.Context, record Record, before, after *config.Config, span Span) (rehearse.Report, error) {
	next, err := rehearsed(after)
	if err != nil {
		return rehearse.Report{}, err
	}
	var was *rehearse.Configuration
	if before != nil {
		found, err := rehearsed(before)
		if err != nil {
			return rehearse.Report{}, err
		}
		was = &found
	}
	r := rehearse.New(was, next)
	err = pages(ctx, record.Recorded, span, func(c ops.Recorded) (int64, time.Time) { return int64(c.ID), c.At }, r.Cycle)
	if err == nil {
		err = pages(ctx, record.JudgedCalls, span, func(g store.JudgedCall) (int64, time.Time) { return g.ID, g.At },
			func(g store.JudgedCall) { r.Call(g.Environment, g.GuardRecord) })
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.Stop("the time was over before the whole record was read")
		err = nil
	}
	return r.Report(), err
}

// pages takes rows in pages, the newest first, back to where the span begins.
func pages[T any](ctx context.Context, read func(context.Context, store.RecordFilter) ([]T, error), span Span,
	of func(T) (id int64, at time.Time), take func(T),
) error {
	for f := (store.RecordFilter{Cycle: span.Cycle, Limit: 100}); ; {
		page, err := read(ctx, f)
		if err != nil {
			return err
		}
		for _, row := range page {
			var at time.Time
			if f.Before, at = of(row); at.Before(span.Since) {
				return nil
			}
			take(row)
		}
		if len(page) < f.Limit {
			return nil
		}
	}
}

// rehearsed is what a configuration makes of the record.
func rehearsed(c *config.Config) (rehearse.Configuration, error) {
	out := rehearse.Configuration{Policies: map[string]ops.Policy{}, Guesses: 1}
	facts := map[string][]guard.Facts{}
	for _, e := range c.Environments() {
		out.Policies[e.Name] = e.Policy
		facts[e.Name] = guesses(c, e)
		out.Guesses = len(facts[e.Name])
	}
	if !c.Guard.Enabled {
		out.Judge = func(string, ops.GuardRecord, int) rehearse.Verdict {
			return rehearse.Verdict{Allowed: true, Rule: "guard.enabled"}
		}
		return out, nil
	}
	judge, err := NewJudge(c)
	if err != nil {
		return out, fmt.Errorf("rehearse tool calls: %w", err)
	}
	out.Judge = func(environment string, g ops.GuardRecord, guess int) rehearse.Verdict {
		f := facts[environment][guess]
		f.DryRun = g.Rule == guard.RuleDryRun
		d := judge.Check(g.Tier, g.Tool, []byte(g.Input), f)
		return rehearse.Verdict{Allowed: d.Allowed(), Rule: d.Rule}
	}
	return out, nil
}

// guesses are the facts under which a session may have called a tool: what they were is not recorded. Links are not
// looked at, because those of then are gone.
func guesses(c *config.Config, e ops.Environment) (out []guard.Facts) {
	f := sessionFacts(c, e, "")
	f.Resolve = nil
	for _, f.Cwd = range []string{e.WorkDir, e.ReposDir, ""} {
		for _, f.HandoffMode = range []bool{false, true} {
			f.TempDir, f.OwnTemp = wall.Temps(e.StateDir), true
			out = append(out, f)
			f.TempDir, f.OwnTemp = os.TempDir(), false
			out = append(out, f)
		}
	}
	return out
}
