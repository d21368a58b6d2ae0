package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) memoryCommand() *cobra.Command {
	c := &cobra.Command{Use: "memory", Aliases: []string{"memories"}, Short: "Notes that later sessions are given: list, add, rm"}
	c.AddCommand(a.memoryList(), a.memoryAdd(), a.memoryRemove())
	return c
}

func (a *app) memoryList() *cobra.Command {
	header := tabbed("ID", "CATEGORY", "SERVICE", "CONFIDENCE", "SOURCE", "EXPIRES", "OBSERVATION")
	return newListing(a, "list", "List memories, newest first", "/memories", header, func(m api.Memory) string {
		return tabbed(fmt.Sprint(m.ID), m.Category, orDash(m.Service), fmt.Sprintf("%.0f%%", 100*m.Confidence), m.Source,
			or(a.screen.when(m.ExpiresAt), "never"), shorten(m.Observation, 90))
	}).by("environment", "list this environment only").by("service", "list this service only").by("category", "list this category only").
		all("include expired memories", "all", "", "true").limit(50)
}

func (a *app) memoryAdd() *cobra.Command {
	var m ops.Memory
	var keep time.Duration
	c := &cobra.Command{
		Use: "add TEXT", Short: "Add a memory", Args: cobra.ExactArgs(1),
		Example: `  claudeops memory add --service jellyfin "the first start after an upgrade takes ten minutes"`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			body := map[string]any{
				"environment": m.Environment, "category": m.Category, "service": m.Service, "observation": args[0], "confidence": m.Confidence,
			}
			if keep > 0 {
				body["expires_at"] = time.Now().Add(keep)
			}
			added, err := post[api.Memory](c.Context(), s, "/memories", body)
			if err == nil {
				fmt.Fprintf(a.Stderr, "memory %d added\n", added.ID)
			}
			return err
		}),
	}
	c.Flags().StringVar(&m.Environment, "environment", "", "environment it is about (default: the first one configured)")
	c.Flags().StringVar(&m.Service, "service", "", "service it is about")
	c.Flags().StringVar(&m.Category, "category", "note", "kind of knowledge, one word")
	c.Flags().Float64Var(&m.Confidence, "confidence", 0.9, "confidence, 0 to 1")
	c.Flags().DurationVar(&keep, "for", 0, "how long to keep it, such as 720h (default: no expiry)")
	return c
}

func (a *app) memoryRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Short: "Delete a memory", Args: cobra.ExactArgs(1),
		RunE: changeOne(a, func(ctx context.Context, s *client, id int64) error {
			err := s.ask(ctx, http.MethodDelete, "/memories/"+digits(id), nil, nil)
			if err == nil {
				fmt.Fprintf(a.Stderr, "memory %d deleted\n", id)
			}
			return err
		}),
	}
}
