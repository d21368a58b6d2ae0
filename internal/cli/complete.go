package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// completeWithin bounds how long a shell waits for proposals.
const completeWithin = 2 * time.Second

// complete proposes ids, names and values for the arguments and flags of every command below c.
func (a *app) complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.complete(sub)
	}
	for name, values := range map[string][]string{
		"output": outputs(), "level": {"info", "warning", "critical"}, "tier": {"1", "2", "3"}, "state": states(),
		"by": wordsOf(store.CostGroups()), "kind": wordsOf(ops.EventKinds()), "status": statuses(c),
	} {
		if len(values) > 0 && c.LocalNonPersistentFlags().Lookup(name) != nil || name == "output" && !c.HasParent() {
			// It fails only for a flag that does not exist.
			_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for name, list := range map[string]lister{"environment": a.environmentNames, "service": serviceNames} {
		if c.LocalNonPersistentFlags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, a.proposing(list))
		}
	}
	if c.ValidArgsFunction != nil || len(c.ValidArgs) > 0 || c.HasSubCommands() {
		return
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	if list := arguments(c); list != nil {
		propose := a.proposing(list)
		c.ValidArgsFunction = func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return propose(c, args, start)
		}
	}
	if strings.Contains(c.Use, "FILE") || strings.Contains(c.Use, "DIR") {
		c.ValidArgsFunction = nil // the shell proposes files
	}
}

func wordsOf[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// statuses lists the values of --status of a command.
func statuses(c *cobra.Command) []string {
	if !c.HasParent() {
		return nil
	}
	switch c.Parent().Name() {
	case "sessions":
		return wordsOf(ops.SessionStatuses())
	case "cycles":
		return wordsOf(ops.CycleStatuses())
	case "notify":
		return wordsOf([]ops.NoticeStatus{ops.NoticePending, ops.NoticeSent, ops.NoticeDead, ops.NoticeSkipped})
	}
	return nil
}

// lister lists words, each with a description behind a tab.
type lister func(ctx context.Context, s *client) ([]string, error)

// arguments is what the first argument of a command can be; nil if that is not known.
func arguments(c *cobra.Command) lister {
	switch c.Parent().Name() + " " + strings.TrimSuffix(strings.TrimPrefix(lastWord(c.Use), "["), "]") {
	case "sessions ID":
		return sessionIDs
	case "cycles ID":
		return cycleIDs
	case "incidents ID":
		return incidentIDs
	case "approvals ID":
		return approvalIDs
	case "silences ID":
		return silenceIDs
	case "memory ID":
		return memoryIDs
	case "actions ID":
		return actionIDs
	case "services NAME":
		return serviceNames
	case "hosts HOST":
		return hostNames
	}
	return nil
}

func lastWord(s string) string {
	words := strings.Fields(s)
	return words[len(words)-1]
}

// proposing asks the database or the server. Without an answer nothing is proposed: a shell has no place for an error.
func (a *app) proposing(list lister) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeWithin)
		defer cancel()
		a.quiet = true
		var out []string
		if a.chooseServer(c) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		err := a.read(ctx, func(s *client) (err error) {
			out, err = list(ctx, s)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out = slices.DeleteFunc(out, func(word string) bool { return !strings.HasPrefix(word, start) })
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// described joins rows to proposals.
func described[T any](rows []T, err error, word func(T) (string, string)) ([]string, error) {
	var out []string
	for _, r := range rows {
		name, about := word(r)
		out = append(out, name+"\t"+shorten(about, 60))
	}
	return out, err
}

// proposed is how many rows are proposed.
const proposed = 50

func numbered(n int64) string { return strconv.FormatInt(n, 10) }

func sessionIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Sessions(ctx, store.SessionFilter{Limit: proposed})
	return described(rows, err, func(x api.Session) (string, string) { return numbered(x.ID), x.Tier.String() + ", " + string(x.Status) })
}

func cycleIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Cycles(ctx, store.CycleFilter{Limit: proposed})
	return described(rows, err, func(x api.Cycle) (string, string) { return numbered(x.ID), x.StatusText() + ", " + x.Title })
}

func incidentIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Incidents(ctx, store.IncidentFilter{Limit: proposed})
	return described(rows, err, func(x api.Incident) (string, string) { return numbered(x.ID), string(x.Status) + ", " + x.Title })
}

func approvalIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Approvals(ctx, store.ApprovalFilter{Status: ops.ApprovalPending, Limit: proposed})
	return described(rows, err, func(x api.Approval) (string, string) { return numbered(x.ID), x.Handler + ", " + x.Reason })
}

func silenceIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Silences(ctx, "", false)
	return described(rows, err, func(x api.Silence) (string, string) { return numbered(x.ID), matcher(x) })
}

func memoryIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Memories(ctx, store.MemoryFilter{Limit: proposed})
	return described(rows, err, func(x api.Memory) (string, string) { return numbered(x.ID), x.Observation })
}

func actionIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.ActionRuns(ctx, store.ActionFilter{Limit: proposed})
	return described(rows, err, func(x api.ActionRun) (string, string) {
		return numbered(x.ID), x.Action + " of " + clean(x.Service) + ", " + string(x.Status)
	})
}

func serviceNames(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Services(ctx, "")
	return described(rows, err, func(x api.ServiceState) (string, string) { return clean(x.Name), x.State })
}

func hostNames(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Hosts(ctx)
	return described(rows, err, func(x api.Host) (string, string) { return clean(x.Name), value(x.Version) })
}

// environmentNames lists the environments of the configuration: a server does not list its own.
func (a *app) environmentNames(context.Context, *client) ([]string, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return described(cfg.Environments(), nil, func(e ops.Environment) (string, string) { return e.Name, "environment" })
}
