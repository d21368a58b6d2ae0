package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

const (
	checkLimit  = 500 * time.Millisecond
	readLimit   = 3 * time.Second
	recordLimit = 4 * time.Second // with the others below what a client waits
	writeLimit  = time.Second
	lateLimit   = 2 * time.Second

	maxConnections = 16
)

// Judge decides about one tool call.
type Judge interface {
	Check(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision
}

// Ledger records a judgement and reserves what it needs in one step. The record it returns is the one that counts:
// it refuses what a cooldown forbids.
type Ledger interface {
	RecordGuard(ctx context.Context, owner ops.Owner, record ops.GuardRecord, want []ops.Reservation,
		limits []ops.CooldownLimit) (ops.GuardRecord, error)
}

// Options are what a gate stands on.
type Options struct {
	Judge  Judge
	Ledger Ledger
	Owner  func() ops.Owner
	// May is nil while this host may change anything; its error says why not. Looking goes on.
	May    func() error
	Limits []ops.CooldownLimit
	Redact func(string) string // nil leaves texts as they are
	Clock  ops.Clock
	Logger *slog.Logger
	Dir    string // private and short; see DefaultDir
	Self   string // the absolute path of the running program
}

// Gate opens the gates of sessions.
type Gate struct {
	o      Options
	limits limits
}

// limits bound the steps of an answer.
type limits struct{ check, read, record, write, late time.Duration }

// New makes a gate and its folder.
func New(o Options) (*Gate, error) {
	switch {
	case o.Judge == nil || o.Ledger == nil || o.Clock == nil || o.Logger == nil:
		return nil, errors.New("make gate: it needs a judge, a ledger, a clock and a logger")
	case !filepath.IsAbs(o.Self):
		return nil, fmt.Errorf("make gate: the path of the running program must be absolute, not %q", o.Self)
	}
	if o.Owner == nil {
		return nil, errors.New("make gate: nobody is named who records what it decides")
	}
	if o.May == nil {
		o.May = func() error { return nil }
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if err := prepareDir(o.Dir); err != nil {
		return nil, fmt.Errorf("make gate: %w", err)
	}
	return &Gate{o: o, limits: limits{checkLimit, readLimit, recordLimit, writeLimit, lateLimit}}, nil
}
