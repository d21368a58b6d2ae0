package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) memoryCommand() *cobra.Command {
	c := &cobra.Command{Use: "memory", Aliases: []string{"memories"}, Short: "Notes that later sessions are given: list, add, rm, export"}
	c.AddCommand(a.memoryList(), a.memoryAdd(), a.memoryRemove(), a.memoryExport())
	return c
}

func (a *app) memoryList() *cobra.Command {
	f := store.MemoryFilter{}
	c := &cobra.Command{
		Use: "list", Short: "List memories, newest first",
		RunE: func(c *cobra.Command, _ []string) error {
			header := tabbed("ID", "CATEGORY", "SERVICE", "CONFIDENCE", "SOURCE", "EXPIRES", "OBSERVATION")
			return listRows(c.Context(), a, func(ctx context.Context, s *client) ([]api.Memory, error) {
				return s.Memories(ctx, f)
			}, header, func(m api.Memory) string {
				return tabbed(fmt.Sprint(m.ID), m.Category, orDash(m.Service), fmt.Sprintf("%.0f%%", 100*m.Confidence), m.Source,
					or(a.screen.when(m.ExpiresAt), "never"), shorten(m.Observation, 90))
			})
		},
	}
	c.Flags().StringVar(&f.Environment, "environment", "", "list this environment only")
	c.Flags().StringVar(&f.Service, "service", "", "list this service only")
	c.Flags().StringVar(&f.Category, "category", "", "list this category only")
	c.Flags().BoolVar(&f.All, "all", false, "include expired memories")
	c.Flags().IntVar(&f.Limit, "limit", 50, "maximum number to list, up to 200")
	return c
}

func (a *app) memoryAdd() *cobra.Command {
	var m ops.Memory
	var keep time.Duration
	c := &cobra.Command{
		Use: "add TEXT", Short: "Add a memory", Args: cobra.ExactArgs(1),
		Example: `  claudeops memory add --service jellyfin "the first start after an upgrade takes ten minutes"`,
		RunE: func(c *cobra.Command, args []string) error {
			m.Observation = args[0]
			return a.change(c.Context(), func(s *client) error {
				if keep > 0 {
					m.ExpiresAt = ops.Ptr(time.Now().Add(keep))
				}
				id, err := s.AddMemory(c.Context(), m)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "memory %d added\n", id)
				return nil
			})
		},
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
			if err := s.RemoveMemory(ctx, id); err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "memory %d deleted\n", id)
			return nil
		}),
	}
}

func (a *app) memoryExport() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Print all memories as JSON lines",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.read(c.Context(), func(s *client) error {
				a.output = asLines
				const page = 200
				for before := int64(0); ; {
					found, err := s.Memories(c.Context(), store.MemoryFilter{All: true, Before: before, Limit: page})
					if err != nil {
						return err
					}
					if err := printRows(a, found, "", nil); err != nil {
						return err
					}
					if len(found) < page {
						return nil
					}
					before = found[len(found)-1].ID
				}
			})
		},
	}
}
