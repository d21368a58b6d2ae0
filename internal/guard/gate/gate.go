package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
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

// Confine sets the wall around every command of the session, and the variables that the commands get with it. Lent are places that
// commands may change if their rule names them. It comes before the agent starts.
func (s *Session) Confine(wall *confine.Wall, env []string, lent []confine.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wall, s.wallEnv, s.lent = wall, env, lent
}

// Hide sets what reports whether something is not visible to the session. It comes before the agent starts.
func (s *Session) Hide(unseen func(path string) bool) { s.unseen.Store(&unseen) }

// behindWall adds the wall to the answer that lets a command run, with a door to the places that its rule names.
func (s *Session) behindWall(a client.Answer, writable []string) client.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Wall, a.Env = s.wall, s.wallEnv
	if s.wall != nil && len(writable) > 0 {
		own := *s.wall
		own.Lent = slices.DeleteFunc(slices.Clone(s.lent), func(p confine.Place) bool { return !slices.Contains(writable, p.Path) })
		a.Wall = &own
	}
	if s.facts.NetworkClosed {
		a.Env = append(slices.Clone(a.Env), client.SocketVariable+"="+s.Socket()) // for the program that looks
	}
	return a
}

// hookTimeout is how many seconds the CLI waits for the hook.
const hookTimeout = 10

// hookSettings is the part of the CLI's settings that sets the hook. The CLI ignores settings that it cannot read, and runs every tool.
func hookSettings(self, socket string) ([]byte, error) {
	if !utf8.ValidString(self + socket) {
		return nil, fmt.Errorf("the hook's settings would not survive being written: %q is not valid UTF-8", self+socket)
	}
	type object = map[string]any
	hook := object{
		"type": "command", "command": self, "timeout": hookTimeout, "onFailure": "block",
		"args": []string{"guard", "hook", socket}, // with them the CLI starts the program itself, without a shell before it
	}
	text, err := json.Marshal(object{"hooks": object{"PreToolUse": []object{{"matcher": "*", "hooks": []object{hook}}}}})
	if err != nil {
		return nil, fmt.Errorf("write the hook's settings: %w", err)
	}
	return append(text, '\n'), nil
}

// quote makes one word of a text, as the CLI does it.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'"
}
