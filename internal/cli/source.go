package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Commands read and change rows of the API. The rows come from the local database or from a server.
type (
	sessionReader interface {
		Sessions(ctx context.Context, f store.SessionFilter) ([]api.Session, error)
		Session(ctx context.Context, id ops.SessionID) (api.SessionReport, error)
		Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]api.Line, error)
		GuardDecisions(ctx context.Context, id ops.SessionID) ([]api.GuardDecision, error)
	}
	cycleSource interface {
		Cycles(ctx context.Context, f store.CycleFilter) ([]api.Cycle, error)
		Cycle(ctx context.Context, id ops.CycleID) (api.CycleReport, error)
		CancelCycle(ctx context.Context, id ops.CycleID, reason string) error
	}
	// cycleFollower is what it takes to show how a running cycle goes on.
	cycleFollower interface {
		Cycle(ctx context.Context, id ops.CycleID) (api.CycleReport, error)
		Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]api.Line, error)
	}
	heldReader interface {
		Held(ctx context.Context, environment string) ([]api.Held, error)
	}
	incidentReader interface {
		Incidents(ctx context.Context, f store.IncidentFilter) ([]api.Incident, error)
		Incident(ctx context.Context, id int64) (api.Incident, error)
		IncidentReport(ctx context.Context, id int64) (string, error)
	}
	incidentChanger interface {
		RunAgain(ctx context.Context, id int64) (ops.CycleID, error)
		Acknowledge(ctx context.Context, id int64, reason string) (api.Incident, error)
		Resolve(ctx context.Context, id int64, reason string) (api.Incident, error)
		Snooze(ctx context.Context, id int64, until time.Time, reason string) (api.Incident, error)
	}
	approvalSource interface {
		Approvals(ctx context.Context, f store.ApprovalFilter) ([]api.Approval, error)
		Approval(ctx context.Context, id int64) (api.Approval, error)
		// Deny says no for a time; nil means the usual one.
		Deny(ctx context.Context, id int64, lasts *time.Duration, reason string) (api.Approval, error)
		// Approve says yes, and approves steps of the plan with that hash; none means all. Without a hash no step runs.
		Approve(ctx context.Context, id int64, hash string, steps []int, reason string) (api.Approval, error)
	}
	actionSource interface {
		Actions(ctx context.Context, environment, service string) ([]api.Action, error)
		ActionRuns(ctx context.Context, f store.ActionFilter) ([]api.ActionRun, error)
		ActionRun(ctx context.Context, id int64) (api.ActionRun, error)
		RunAction(ctx context.Context, environment, service, action, branch, why string) (api.ActionRun, error)
		UndoAction(ctx context.Context, id int64, why string) (api.ActionRun, error)
		WithdrawAction(ctx context.Context, id int64) error
	}
	eventReader interface {
		Events(ctx context.Context, f store.EventFilter) ([]api.Event, error)
	}
	memorySource interface {
		Memories(ctx context.Context, f store.MemoryFilter) ([]api.Memory, error)
		AddMemory(ctx context.Context, m ops.Memory) (id int64, err error)
		RemoveMemory(ctx context.Context, id int64) error
	}
	cooldownSource interface {
		// Cooldowns lists those of one environment or, with "", of all.
		Cooldowns(ctx context.Context, environment string) ([]api.Cooldown, error)
		ClearCooldown(ctx context.Context, environment, service, action, reason string) (cleared int, err error)
	}
	silenceSource interface {
		Silences(ctx context.Context, environment string, all bool) ([]api.Silence, error)
		// AddSilence adds a silence that begins now unless it has a start, and lasts for span unless it has an end.
		AddSilence(ctx context.Context, q ops.Silence, span time.Duration) (api.Silence, error)
		EndSilence(ctx context.Context, id int64) (api.Silence, error)
	}
	notificationSource interface {
		Notifications(ctx context.Context, f store.NoticeFilter) ([]api.Notification, error)
		RetryNotification(ctx context.Context, id int64) error
	}
	serviceReader interface {
		Services(ctx context.Context, environment string) ([]api.ServiceState, error)
		Service(ctx context.Context, name, environment string) (api.ServiceState, error)
		History(ctx context.Context, service api.ServiceState, days int) (api.ServiceHistory, error)
	}
	costReader interface {
		Costs(ctx context.Context, by string, f store.CostFilter) (api.Costs, error)
		ExpensiveCycles(ctx context.Context, f store.CostFilter, limit int) ([]api.CycleCost, error)
	}
	statsReader interface {
		Stats(ctx context.Context) (api.Stats, error)
		// Situation says what happens now and next; a server that is older than this program says nothing.
		Situation(ctx context.Context) (api.Situation, error)
	}
	hostReader interface {
		Hosts(ctx context.Context) ([]api.Host, error)
	}
)

// source is where the rows of a command come from.
type source struct {
	sessions      sessionReader
	cycles        cycleSource
	incidents     incidentReader
	changes       incidentChanger
	approvals     approvalSource
	events        eventReader
	memories      memorySource
	cooldowns     cooldownSource
	silences      silenceSource
	notifications notificationSource
	services      serviceReader
	costs         costReader
	hosts         hostReader
	stats         statsReader
	actions       actionSource
	held          heldReader
	// clock tells the time by which the rows are compared.
	clock ops.Clock
}

func localSource(l *local) source {
	return source{l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l.store.Clock}
}

func serverSource(c *client) source {
	return source{c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, time.Now}
}

// read gives a command the rows it reads.
func (a *app) read(ctx context.Context, use func(source) error) error {
	if a.remote == nil && a.databaseClosed() {
		if err := a.useDaemon(ctx); err != nil {
			return err
		}
	}
	if a.remote != nil {
		return use(serverSource(a.remote))
	}
	return a.reading(ctx, func(s *store.Store, cfg *config.Config) error { return use(localSource(&local{s, cfg})) })
}

// databaseClosed reports whether this user may not open the database: a member of the group claudeops asks the daemon for the rows.
func (a *app) databaseClosed() bool {
	cfg, err := a.load()
	if err != nil || cfg.DatabaseURL != "" {
		return false
	}
	f, err := os.Open(daemon.DatabasePath(cfg))
	if err == nil {
		err = f.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}

// change gives a command the rows it changes. A daemon on the state folder makes the change itself, so that it is checked and recorded
// like a change by the API.
func (a *app) change(ctx context.Context, use func(source) error) error {
	if a.remote == nil {
		if err := a.useDaemon(ctx); err != nil {
			return err
		}
	}
	if a.remote != nil {
		return use(serverSource(a.remote))
	}
	return a.writing(ctx, func(s *store.Store, cfg *config.Config) error { return use(localSource(&local{s, cfg})) })
}

// atServer marks the commands that can ask a server.
const atServer = "server"

// markAnywhere marks them: those that only need rows of the API.
func markAnywhere(root *cobra.Command) {
	mark := func(c *cobra.Command) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[atServer] = "yes"
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "sessions", "cycles", "incidents", "approvals", "events", "cooldowns", "memory", "run", "costs", "services", "silences",
			"notify", "hosts", "actions", "status", "mcp":
			mark(c)
			for _, sub := range c.Commands() {
				if !localOnly(sub) {
					mark(sub)
				}
			}
		}
	}
}

// localOnly names the commands below them that are about this machine.
func localOnly(c *cobra.Command) bool {
	switch c.Name() {
	case "discover", "accept", "test", "drain", "resume", "trust":
		return true
	}
	return false
}

// chooseServer finds out whether a command asks a server, and with which token.
func (a *app) chooseServer(c *cobra.Command) error {
	given := a.serverURL != ""
	if c.Annotations[atServer] == "" {
		if given {
			return usage(fmt.Errorf("%s: %w", c.CommandPath(), errLocalOnly))
		}
		return a.sameDatabase(c)
	}
	r, err := config.ReadRemote(config.Remote{Server: a.serverURL, TokenFile: a.tokenFile}, a.Environ)
	if err != nil {
		return usage(err)
	}
	if r.Server == "" {
		return nil
	}
	if r.Token == "" {
		r.Token = a.madeToken(r.Server)
	}
	a.remote = newClient(r.Server, r.Token)
	return nil
}

// sameDatabase refuses to work on the tokens and audit records of this machine while the variable names another daemon: its database is
// another one.
func (a *app) sameDatabase(c *cobra.Command) error {
	if parent := c.Parent(); parent == nil || parent.Name() != "tokens" && parent.Name() != "audit" {
		return nil
	}
	if r, err := config.ReadRemote(config.Remote{}, a.Environ); err != nil || r.Server != "" {
		return usage(fmt.Errorf("%s: CLAUDEOPS_SERVER is set, but %w", c.CommandPath(), errLocalOnly))
	}
	return nil
}

// madeToken is the token that a daemon on this machine made, if the server is on this machine and the token can be read.
func (a *app) madeToken(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return ""
	}
	cfg, err := a.load()
	if err != nil {
		return "" // the server then says that it wants a token
	}
	token, err := daemon.Token(cfg)
	if err != nil {
		return ""
	}
	return token
}

// errInSession is what a command says that an agent starts.
var errInSession = errors.New("this command was started inside a session of an agent; agents may not change anything here")

// useDaemon makes the daemon of the state folder the server, if one is running.
func (a *app) useDaemon(ctx context.Context) error {
	if process.InSession() {
		return errInSession
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	_, err = control.Ping(ctx, cfg.StateDir)
	if errors.Is(err, control.ErrNoDaemon) {
		return nil
	}
	if err != nil {
		return err
	}
	web, address := control.Client(cfg.StateDir)
	a.remote = newClient(address, cfg.APIToken)
	a.remote.http = web
	return nil
}
