package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// What commands read and do, in the state folder or at a server.
type (
	journal interface {
		sessionRows
		cycleRows
		peopleRows
		Events(ctx context.Context, f store.EventFilter) ([]ops.Event, error)
		Memories(ctx context.Context, f store.MemoryFilter) ([]ops.Memory, error)
		Silences(ctx context.Context, f store.SilenceFilter) ([]ops.Silence, error)
		NoticeList(ctx context.Context, f store.NoticeFilter) ([]ops.Notice, error)
	}
	sessionRows interface {
		Sessions(ctx context.Context, f store.SessionFilter) ([]ops.Session, error)
		Session(ctx context.Context, id ops.SessionID) (ops.Session, error)
		Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error)
		GuardDecisions(ctx context.Context, id ops.SessionID) ([]ops.GuardRecord, error)
	}
	cycleRows interface {
		Cycles(ctx context.Context, f store.CycleFilter) ([]store.CycleSummary, error)
		Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error)
		Verifications(ctx context.Context, id ops.CycleID) ([]ops.Verification, error)
	}
	peopleRows interface {
		Incidents(ctx context.Context, f store.IncidentFilter) ([]ops.Incident, error)
		Incident(ctx context.Context, id int64) (ops.Incident, error)
		Approvals(ctx context.Context, f store.ApprovalFilter) ([]ops.Approval, error)
	}

	hands interface {
		journal
		incidentHands
		memoryHands
		RequestCancel(ctx context.Context, id ops.CycleID, reason string, at time.Time) (ops.Cycle, error)
		Answer(ctx context.Context, id int64, status ops.ApprovalStatus, by, reason string, at time.Time) (ops.Approval, error)
		ClearCooldown(ctx context.Context, environment, service, action, reason, by string, at time.Time) (int, error)
		EndSilence(ctx context.Context, id int64, by string, at time.Time) (ops.Silence, error)
		RetryNotice(ctx context.Context, id int64, at time.Time) error
	}
	incidentHands interface {
		Acknowledge(ctx context.Context, id int64, by, reason string, at time.Time) (ops.Incident, error)
		ResolveIncident(ctx context.Context, id int64, by, reason string, at time.Time) (ops.Incident, error)
		Snooze(ctx context.Context, id int64, by string, until time.Time, reason string, at time.Time) (ops.Incident, error)
	}
	memoryHands interface {
		AddMemory(ctx context.Context, m ops.Memory) (int64, error)
		RemoveMemory(ctx context.Context, id int64) error
	}
)

// atServer marks the commands that can ask a server.
const atServer = "server"

// markAnywhere marks them: all that only ask the journal. Discovering services and trying a notification are about this machine.
func markAnywhere(root *cobra.Command) {
	mark := func(c *cobra.Command) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[atServer] = "yes"
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "sessions", "cycles", "incidents", "approvals", "events", "cooldowns", "memory", "run", "costs", "services", "silences", "notify":
			mark(c)
			for _, sub := range c.Commands() {
				if name := sub.Name(); name != "discover" && name != "test" {
					mark(sub)
				}
			}
		}
	}
}

// chooseServer finds out whether a command asks a server, and with which token.
func (a *app) chooseServer(c *cobra.Command) error {
	given := a.serverURL != ""
	if c.Annotations[atServer] == "" {
		if given {
			return usage(fmt.Errorf("%s: %w", c.CommandPath(), errLocalOnly))
		}
		return nil
	}
	r, err := config.ReadRemote(config.Remote{Server: a.serverURL, TokenFile: a.tokenFile}, a.Environ)
	if err != nil {
		return usage(err)
	}
	if r.Server != "" {
		a.remote = newClient(r.Server, r.Token)
	}
	return nil
}

// looking gives a command the journal it reads.
func (a *app) looking(ctx context.Context, use func(journal) error) error {
	if a.remote != nil {
		return use(a.remote)
	}
	return a.reading(ctx, func(s *store.Store, _ *config.Config) error { return use(s) })
}

// acting gives a command the journal it changes.
func (a *app) acting(ctx context.Context, use func(hands) error) error {
	if a.remote != nil {
		return use(a.remote)
	}
	return a.writing(ctx, func(s *store.Store) error { return use(s) })
}

// runAtServer queues a cycle at the server and waits for its end.
func (a *app) runAtServer(ctx context.Context, n ops.NewCycle, detach bool, timeout time.Duration) error {
	id, err := a.remote.SubmitCycle(ctx, n)
	if err != nil {
		return fmt.Errorf("queue cycle: %w", err)
	}
	return a.queued(ctx, a.remote, id, detach, timeout)
}
