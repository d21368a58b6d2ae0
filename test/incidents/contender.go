package main

import (
	"context"
	"fmt"
	"time"
)

// Contender is something that looks after a machine with agents: a program that answers these three questions (README.md), or an
// implementation in this package that is named in contenderNamed. The benchmark treats both alike.
type Contender interface {
	// Start begins to watch. The services are healthy; the model answers at p.claude.URL() and p.codex.URL().
	Start(ctx context.Context, p *pair) error
	// Wait returns when the contender has nothing left to do. The fault was broken at p.broken.
	Wait(ctx context.Context, p *pair) error
	// Stop ends the contender with everything it started, and returns what it claims.
	Stop(p *pair) (Claim, error)
}

// slow is a contender that needs longer than others.
type slow interface{ limit() time.Duration }

// limitOf is how long a contender may take, from its start.
func limitOf(c Contender) time.Duration {
	if c, ok := c.(slow); ok {
		return c.limit()
	}
	return contendLimit
}

// contenderOf is the contender of a job.
func contenderOf(j Job) (Contender, error) {
	if j.Program != "" {
		return &program{path: j.Program}, nil
	}
	return contenderNamed(j.Contender)
}

// contenderNames are the contenders in the order of the table: Claude Ops, Claude Ops without one thing, and others. The one that has met
// the fault before is asked for by its name.
func contenderNames() []string {
	return []string{
		wholeName, "judge-allows", "no-walls", "no-network-wall", "no-verification", "no-tiers", "no-actions",
		plainName, "plain-probes", "claude-sandbox", "call-human",
	}
}

func contenderNamed(name string) (Contender, error) {
	switch name {
	case wholeName, "judge-allows", "no-walls", "no-network-wall", "no-verification", "no-tiers", "no-actions":
		return &claudeOps{name: name}, nil
	case againName:
		return &again{claudeOps: claudeOps{name: wholeName}}, nil
	case plainName:
		return &plainLoop{turns: plainTurns}, nil
	case "plain-probes":
		return &plainLoop{turns: plainTurns, doubts: true}, nil
	case "claude-sandbox":
		return &plainLoop{turns: plainTurns, sandbox: true}, nil
	case "call-human":
		return &plainLoop{}, nil
	}
	return nil, fmt.Errorf("there is no contender %q", name)
}
