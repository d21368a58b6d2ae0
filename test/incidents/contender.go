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

// contenderNames are the contenders in the order of the table. The one that has met the fault before is asked for by its name.
func contenderNames() []string {
	return []string{"claudeops", "no-judge", "no-walls", "no-judge-no-walls", plainName}
}

func contenderNamed(name string) (Contender, error) {
	switch name {
	case "claudeops":
		return &claudeOps{judge: true, walls: true}, nil
	case againName:
		return &again{claudeOps: claudeOps{judge: true, walls: true}}, nil
	case "no-judge":
		return &claudeOps{walls: true}, nil
	case "no-walls":
		return &claudeOps{judge: true}, nil
	case "no-judge-no-walls":
		return &claudeOps{}, nil
	case plainName:
		return &plainLoop{}, nil
	}
	return nil, fmt.Errorf("there is no contender %q", name)
}
