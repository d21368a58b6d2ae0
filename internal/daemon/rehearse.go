package daemon

import (
	"context"
	"errors"
	"fmt"
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

// Sizes of the pages in which the record is read.
const (
	cyclePage = 100
	callPage  = 1000
)

// Rehearse takes the record again under a configuration and compares it with what another one would do; nil: with what was done. It
// changes nothing, asks no model and no network. If the deadline of ctx comes first, the report says what was left out.
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
	err = errors.Join(takeCycles(ctx, record, r, span), takeCalls(ctx, record, r, span))
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.Stop("the time was over before the whole record was read")
		err = nil
	}
	return r.Report(), err
}

func takeCycles(ctx context.Context, record Record, r *rehearse.Rehearsal, span Span) error {
	f := store.RecordFilter{Cycle: span.Cycle, Limit: cyclePage}
	for {
		page, err := record.Recorded(ctx, f)
		if err != nil {
			return err
		}
		for _, c := range page {
			if c.At.Before(span.Since) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			r.Cycle(c)
			f.Before = int64(c.ID)
		}
		if len(page) < cyclePage {
			return nil
		}
	}
}

func takeCalls(ctx context.Context, record Record, r *rehearse.Rehearsal, span Span) error {
	f := store.RecordFilter{Cycle: span.Cycle, Limit: callPage}
	for {
		page, err := record.JudgedCalls(ctx, f)
		if err != nil {
			return err
		}
		for _, g := range page {
			if g.At.Before(span.Since) {
				return nil
			}
			r.Call(g.Environment, g.GuardRecord)
			f.Before = g.ID
		}
		if len(page) < callPage {
			return nil
		}
	}
}

// rehearsed is what a configuration makes of the record.
func rehearsed(c *config.Config) (rehearse.Configuration, error) {
	out := rehearse.Configuration{Policies: map[string]ops.Policy{}, Discovers: c.Discovery == config.DiscoveryTrust, Guesses: 1}
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

// guesses are the facts under which a session may have called a tool: what they were is not recorded. Links and files are not
// looked at, because those of then are gone.
func guesses(c *config.Config, e ops.Environment) []guard.Facts {
	base := sessionFacts(c, e, "")
	base.Resolve, base.Glob = nil, nil
	var out []guard.Facts
	for _, cwd := range []string{e.WorkDir, e.ReposDir, ""} {
		for _, own := range []bool{true, false} {
			for _, handoff := range []bool{false, true} {
				f := base
				f.Cwd, f.OwnTemp, f.HandoffMode = cwd, own, handoff
				if own {
					f.TempDir = wall.Temps(e.StateDir)
				}
				out = append(out, f)
			}
		}
	}
	return out
}
