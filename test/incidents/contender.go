package main

import (
	"context"
	"fmt"
)

// Contender is something that looks after a machine with agents. To add one, implement these three methods in a file of its own and name
// it in contenders.
type Contender interface {
	// Start begins to watch. The services are healthy; the model answers at p.claude.URL() and p.codex.URL().
	Start(ctx context.Context, p *pair) error
	// Wait returns when the contender has nothing left to do. The fault was broken at p.broken.
	Wait(ctx context.Context, p *pair) error
	// Stop ends the contender with everything it started, and returns what it claims.
	Stop(p *pair) (Claim, error)
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
