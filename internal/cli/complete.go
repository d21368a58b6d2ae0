package cli

import (
	"context"
	"fmt"
	"slices"
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
		return noticeStatuses()
	}
	return nil
}

// lister lists words, each with a description behind a tab.
type lister func(ctx context.Context, s *client) ([]string, error)

// arguments is what the first argument of a command can be; nil if that is not known.
func arguments(c *cobra.Command) lister {
	switch c.Parent().Name() + " " + strings.TrimSuffix(strings.TrimPrefix(lastWord(c.Use), "["), "]") {
	case "sessions ID":
		return rowsAt("/sessions", func(x api.Session) (any, string) { return x.ID, x.Tier.String() + ", " + string(x.Status) })
	case "cycles ID":
		return rowsAt("/cycles", func(x api.Cycle) (any, string) { return x.ID, x.StatusText() + ", " + x.Title })
	case "incidents ID":
		return rowsAt("/incidents", func(x api.Incident) (any, string) { return x.ID, string(x.Status) + ", " + x.Title })
	case "approvals ID":
		return rowsAt("/approvals", func(x api.Approval) (any, string) { return x.ID, x.Handler + ", " + x.Reason },
			"status", string(ops.ApprovalPending))
	case "silences ID":
		return rowsAt("/silences", func(x api.Silence) (any, string) { return x.ID, matcher(x) })
	case "memory ID":
		return rowsAt("/memories", func(x api.Memory) (any, string) { return x.ID, x.Observation })
	case "actions ID":
		return rowsAt("/actions/runs", func(x api.ActionRun) (any, string) {
			return x.ID, x.Action + " of " + clean(x.Service) + ", " + string(x.Status)
		})
	case "services NAME":
		return serviceNames
	case "hosts HOST":
		return rowsAt("/hosts", func(x api.Host) (any, string) { return clean(x.Name), value(x.Version) })
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

// rowsAt proposes the rows of a list, each by its id or name.
func rowsAt[T any](path string, word func(T) (any, string), filter ...string) lister {
	return func(ctx context.Context, s *client) (out []string, err error) {
		rows, err := items[T](ctx, s, path, query(filter...), proposed)
		for _, r := range rows {
			name, about := word(r)
			out = append(out, fmt.Sprint(name)+"\t"+shorten(about, 60))
		}
		return out, err
	}
}

// proposed is how many rows are proposed.
const proposed = 50

func serviceNames(ctx context.Context, s *client) (out []string, err error) {
	rows, err := s.Services(ctx, "")
	for _, x := range rows {
		out = append(out, clean(x.Name)+"\t"+x.State)
	}
	return out, err
}

// environmentNames lists the environments of the configuration: a server does not list its own.
func (a *app) environmentNames(context.Context, *client) ([]string, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range cfg.Environments() {
		out = append(out, e.Name+"\tenvironment")
	}
	return out, nil
}
